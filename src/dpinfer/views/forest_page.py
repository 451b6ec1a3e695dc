"""The forest plot on a page, of one result or of several models: where everything goes, in pixels.

`forest.html.j2` draws what `result_picture` and `model_picture` lay out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpinfer.result.comparison import Comparison
from dpinfer.result.result import FitResult
from dpinfer.views.forest import (
    MODEL_STYLES,
    Bar,
    ForestRow,
    ModelStyle,
    limits,
    missing_label,
    model_rows,
    panels,
    ratio_ticks,
    result_rows,
    ticks,
    wrapped,
)

# Pixels: a letter of a name and one of a status, about; each further line of a name or a status;
# from one bar of a row to the next; below an axis.
_LETTER = 7.2
_STATUS_LETTER = 6.6
_TEXT_HEIGHT = 15.0
_BAR_DISTANCE = 13.0
_AXIS_HEIGHT = 40
_NAME_ROWS = 4
_STATUS_ROWS = 2


@dataclass(frozen=True)
class Layout:
    """Measures in pixels.

    The axis goes from ``left`` to ``right``; a name has ``name`` pixels, the numbers of a bar
    ``label`` pixels and, before they are set closer, ``letters`` letters.  The first ``above``
    pixels of a row are free of grid lines, for a name that stands above the bars.  Bars begin
    ``first`` pixels under that and end ``last`` pixels above the next row; a row has at least
    ``row`` pixels.  ``name_base`` is the base line of the name, ``status_left`` and ``status_base``
    where a status begins that does not stand at the height of its bar.
    """

    width: int
    left: int
    right: int
    name: int
    ticks: int
    above: float
    first: float
    last: float
    row: float
    name_base: int
    label: int = 0
    letters: int = 0
    status_left: int = 0
    status_base: float | None = None

    @property
    def name_left(self) -> bool:
        """Whether a name stands beside its bars, not above them."""
        return not self.above


RESULT_WIDE = Layout(
    width=760,
    left=196,
    right=544,
    name=190,
    ticks=6,
    above=0,
    first=14,
    last=13,
    row=27,
    name_base=18,
    label=204,
    letters=27,
    status_left=196,
)
RESULT_NARROW = Layout(
    width=340,
    left=26,
    right=314,
    name=128,
    ticks=4,
    above=24,
    first=10,
    last=14,
    row=48,
    name_base=18,
    label=200,
    letters=27,
    status_left=4,
    status_base=33.0,
)
MODELS_WIDE = Layout(
    width=760,
    left=196,
    right=734,
    name=190,
    ticks=7,
    above=0.0,
    first=10.0,
    last=10.0,
    row=24.0,
    name_base=16,
    status_left=200,
)
MODELS_NARROW = Layout(
    width=340,
    left=26,
    right=314,
    name=330,
    ticks=4,
    above=22.0,
    first=10.0,
    last=10.0,
    row=24.0,
    name_base=16,
    status_left=30,
)


@dataclass(frozen=True)
class PlacedBar:
    """A bar at its height: where its numbers lie, None where it has no interval; then ``status``
    has lines that begin at ``status_top``.
    """

    bar: Bar | None
    style: ModelStyle
    middle: float
    ends: dict[str, float] | None
    status: tuple[str, ...]
    status_top: float


@dataclass(frozen=True)
class PlacedRow:
    """A row at its height; its grid lines begin at ``clear``, and it has none if not ``gridded``."""

    top: float
    height: float
    clear: float
    name: tuple[str, ...]
    shaded: bool
    gridded: bool
    bars: tuple[PlacedBar, ...]


@dataclass(frozen=True)
class PlacedPanel:
    """Rows on one scale, with the ticks of their axis."""

    top: float
    bottom: float
    zero: float
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[PlacedRow, ...]


@dataclass(frozen=True)
class ForestPicture:
    """All panels from top to bottom."""

    layout: Layout
    height: float
    panels: tuple[PlacedPanel, ...]


def result_picture(
    result: FitResult, level: float, layout: Layout, ratio: str = ""
) -> ForestPicture:
    """Return the forest plot of a result in this layout; ``ratio`` names the numbers of the axis
    where they are ratios.
    """
    rows = result_rows(result, level, ratio=ratio)
    top = 4.0
    if layout.name_left:
        top = 26.0  # under the heads of the columns
        # a longer axis where the names are short
        name = min(layout.name, max(60.0, *(_LETTER * len(row.title) + 14 for row in rows)))
        left = int(name) + 6
        layout = replace(layout, name=int(name), left=left, status_left=left)
    marks = ratio_ticks if ratio else ticks
    return _picture(rows, layout, top, lambda bar, _: _status(bar, layout), marks, gridded=False)


def _status(bar: Bar | None, layout: Layout) -> tuple[str, ...]:
    assert bar is not None
    width = layout.width - (layout.left if layout.name_left else 0)
    return wrapped(bar.status, int(width / _STATUS_LETTER), _STATUS_ROWS)


def model_picture(comparison: Comparison, layout: Layout) -> ForestPicture:
    """Return the forest plot of several models in this layout."""

    def status(bar: Bar | None, model: int) -> tuple[str, ...]:
        label = missing_label(bar, comparison.names[model])
        return (label,) if label else ()

    marks = ratio_ticks if comparison.ratios else ticks
    return _picture(model_rows(comparison), layout, 4.0, status, marks, gridded=True)


_StatusOf = Callable[[Bar | None, int], tuple[str, ...]]
_Ticks = Callable[[float, float, int], list[tuple[float, str]]]


def _picture(
    rows: Sequence[ForestRow],
    layout: Layout,
    top: float,
    status: _StatusOf,
    marks: _Ticks,
    *,
    gridded: bool,
) -> ForestPicture:
    placed = []
    for group in panels(rows):
        panel = _panel(group, layout, top, status, marks, gridded=gridded)
        placed.append(panel)
        top = panel.bottom + _AXIS_HEIGHT
    return ForestPicture(layout, top - 12, tuple(placed))


def _panel(
    rows: Sequence[ForestRow],
    layout: Layout,
    top: float,
    status: _StatusOf,
    marks: _Ticks,
    *,
    gridded: bool,
) -> PlacedPanel:
    low, high = limits(rows)

    def position(value: float) -> float:
        return round(layout.left + (layout.right - layout.left) * (value - low) / (high - low), 2)

    placed: list[PlacedRow] = []
    bottom = top
    for j, row in enumerate(rows):
        one = _row(row, layout, bottom, position, status)
        one = replace(one, shaded=j % 2 == 1, gridded=gridded or bool(row.reported))
        placed.append(one)
        bottom += one.height
    labels = [(position(value), label) for value, label in marks(low, high, layout.ticks)]
    return PlacedPanel(top, bottom, position(0.0), tuple(labels), tuple(placed))


def _row(
    row: ForestRow,
    layout: Layout,
    top: float,
    position: Callable[[float], float],
    status: _StatusOf,
) -> PlacedRow:
    """Place a row, which is as high as its name is long and as its bars need.

    A name that stands beside the bar of a single model has it in its middle.
    """
    name = wrapped(row.title, int(layout.name / _LETTER), _NAME_ROWS)
    statuses = [
        () if bar is not None and bar.reported else status(bar, k) for k, bar in enumerate(row.bars)
    ]
    further = _TEXT_HEIGHT * (len(name) - 1)
    below = _TEXT_HEIGHT * max(0, *(len(lines) - 1 for lines in statuses))
    bars = layout.first + _BAR_DISTANCE * (len(row.bars) - 1) + layout.last
    if layout.name_left:
        clear = top
        height = max(bars + below, layout.row + further)
    else:
        clear = top + layout.above + further
        height = layout.above + further + bars + below
    first = clear + layout.first
    if layout.name_left and len(row.bars) == 1:
        first = top + layout.first + (height - bars) / 2
    placed = []
    for k, bar in enumerate(row.bars):
        middle = first + _BAR_DISTANCE * k
        ends = None
        if bar is not None and bar.reported:
            ends = {end: position(value) for end, value in bar.ends.items()}
        status_top = middle + 4 - below / 2
        if layout.status_base is not None:
            status_top = top + layout.status_base + further
        placed.append(PlacedBar(bar, MODEL_STYLES[k], middle, ends, statuses[k], status_top))
    return PlacedRow(top, height, clear, name, False, False, tuple(placed))
