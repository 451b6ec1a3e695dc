"""Where everything in the forest plot of a page goes.  The template draws it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.ticker import MaxNLocator

from dpinfer.result.result import FitResult
from dpinfer.views.bars import Bar, bars, limits, lines, panels


@dataclass(frozen=True)
class Layout:
    """Measures in pixels: the axis from left to right, a row's height, where its bar lies, room for name and words.

    Words of more than ``letters`` letters are set closer.  The first ``clear`` pixels of a row are kept free of lines,
    for the name and the words where they stand above the bar.
    """

    width: int
    left: int
    right: int
    row: int
    bar: int
    name: int
    words: int
    letters: int
    ticks: int
    clear: int


WIDE = Layout(width=760, left=196, right=494, row=27, bar=14, name=190, words=204, letters=27, ticks=6, clear=0)
NARROW = Layout(width=340, left=8, right=332, row=48, bar=34, name=128, words=200, letters=27, ticks=4, clear=24)
_LETTER, _SMALL = 7.2, 6.6  # pixels of a letter and of one of a status, about
_FIRST, _LINE = 18.0, 15.0  # pixels to the first line of a name, and of each further line


@dataclass(frozen=True)
class Row:
    """One coefficient at its height: its name in lines, its numbers, or its status in lines where it has none.

    ``middle`` is where its bar lies, ``clear`` from where on its lines are drawn, ``why`` where its status begins.
    """

    top: float
    height: float
    middle: float
    clear: float
    name: tuple[str, ...]
    words: str
    share: str
    status: tuple[str, ...]
    why: float
    shaded: bool
    places: dict[str, float] | None


@dataclass(frozen=True)
class Panel:
    """Rows on one scale."""

    top: float
    bottom: float
    zero: float
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Drawing:
    """All panels from top to bottom."""

    layout: Layout
    height: float
    panels: tuple[Panel, ...]


def drawing(result: FitResult, level: float, layout: Layout) -> Drawing:
    """The forest plot of a result in this layout."""
    drawn, top, found = bars(result, level), 26.0 if not layout.clear else 4.0, []
    if not layout.clear:
        layout = _fitted(layout, drawn)
    for group in panels(drawn):
        panel = _panel([drawn[j] for j in group], top, layout)
        found.append(panel)
        top = panel.bottom + 40
    return Drawing(layout, top - 12, tuple(found))


def _fitted(layout: Layout, drawn: Sequence[Bar]) -> Layout:
    """A longer axis where the names are short."""
    name = int(min(layout.name, max(60.0, *(_LETTER * len(bar.name) + 14 for bar in drawn))))
    return replace(layout, name=name, left=name + 6)


def _panel(drawn: Sequence[Bar], top: float, layout: Layout) -> Panel:
    low, high = limits([end for bar in drawn for end in (bar.low, bar.high)])

    def place(value: float) -> float:
        return round(layout.left + (layout.right - layout.left) * (value - low) / (high - low), 2)

    values = [float(value) for value in MaxNLocator(layout.ticks, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]
    ticks = tuple((place(value), _tick(value, values)) for value in values if low <= value <= high)
    rows: list[Row] = []
    bottom = top
    for j, bar in enumerate(drawn):
        places = {key: place(getattr(bar, key)) for key in _PLACES} if bar.shown else None
        rows.append(_row(bar, bottom, layout, j % 2 == 1, places))
        bottom += rows[-1].height
    return Panel(top, bottom, place(0.0), ticks, tuple(rows))


def _row(bar: Bar, top: float, layout: Layout, shaded: bool, places: dict[str, float] | None) -> Row:
    """A row that is as high as its name is long; the status of a row without an interval stands where its bar would."""
    name = lines(bar.name, int(layout.name / _LETTER), 4)
    room = (layout.width if layout.clear else layout.width - layout.left) / _SMALL
    status = () if bar.shown else lines(bar.status, int(room), 2)
    above, below = len(name) - 1, max(len(status) - 1, 0)
    words = bar.words if bar.shown else ""
    if layout.clear:  # the status stands under the name
        more, clear = _LINE * (above + below), top + layout.clear + _LINE * above
        middle, why = top + layout.bar + _LINE * above, top + _FIRST + _LINE * (above + 1)
    else:  # beside it
        more, clear = _LINE * max(above, below), top
        middle = top + layout.bar + more / 2
        why = middle + 4 - _LINE * below / 2
    return Row(top, layout.row + more, middle, clear, name, words, bar.share, status, why, shaded, places)


_PLACES = ("estimate", "low", "high", "inner_low", "inner_high")


def _tick(value: float, values: Sequence[float]) -> str:
    step = values[1] - values[0]
    return f"{0.0 if abs(value) < step / 1e6 else value:.4g}".replace("-", "−")
