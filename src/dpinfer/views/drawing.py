"""Where everything in the forest plot of a page goes.  The template draws it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.ticker import MaxNLocator

from dpinfer.result.result import FitResult
from dpinfer.views.bars import Bar, bars, limits, panels, short


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
_LETTER = 7.2  # pixels of a letter, about


@dataclass(frozen=True)
class Row:
    """One coefficient at its height; places are None where there is no interval."""

    top: float
    name: str
    full: str
    words: str
    share: str
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
    rows = tuple(
        Row(
            top + j * layout.row,
            short(bar.name, int(layout.name / _LETTER)),
            bar.name,
            bar.words if bar.shown else short(bar.status, int(1.3 * layout.words / _LETTER)),
            bar.share,
            j % 2 == 1,
            {key: place(getattr(bar, key)) for key in _PLACES} if bar.shown else None,
        )
        for j, bar in enumerate(drawn)
    )
    return Panel(top, top + len(drawn) * layout.row, place(0.0), ticks, rows)


_PLACES = ("estimate", "low", "high", "inner_low", "inner_high")


def _tick(value: float, values: Sequence[float]) -> str:
    step = values[1] - values[0]
    return f"{0.0 if abs(value) < step / 1e6 else value:.4g}".replace("-", "−")
