"""The forest plot of several models: one row per term, with one bar per model in it.

`rows` says what is drawn, whatever draws it; `drawing` where everything goes on a page, whose
template draws it; `plot.compare` draws it with matplotlib.  Colours and shapes tell models apart,
and every model keeps its place in all rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpinfer.result import coefficient_table
from dpinfer.result.comparison import Comparison
from dpinfer.result.differences import KINDS
from dpinfer.schema.design import INTERCEPT
from dpinfer.views import forest
from dpinfer.views.forest import BLUE, INK, ORANGE, Bar

_LETTER = 7.2  # pixels of a letter on a page, about
_FURTHER = 15.0  # pixels of each further line of a name
_SLOT = 13.0  # pixels of a bar and the space under it
_MODEL = 24  # letters of the name of a model where its bar would be
_AIR = 10.0  # pixels around the bars of a row
_ENDS = ("low", "estimate", "high")
NO_DIFFERENCE = "The difference between two models has no interval here."
SCALES = "Each panel has a scale of its own: compare lengths within a panel only."
NO_INTERCEPT = "Intercepts are not drawn: each stands at the centre of its own fit."


@dataclass(frozen=True)
class Mark:
    """How a model is drawn: a colour that has contrast with white paper, a shape for matplotlib and
    as a path of about 9 pixels, and whether it is filled.
    """

    colour: str
    shape: str
    path: str
    filled: bool

    @property
    def fill(self) -> str:
        """The colour inside."""
        return self.colour if self.filled else "white"


_SHAPES = (
    (BLUE, "o", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
    (ORANGE, "s", "M-3.6 -3.6h7.2v7.2h-7.2z"),
    ("#007A5E", "D", "M0 -5L5 0L0 5L-5 0z"),
    ("#A8437F", "^", "M0 -4.8L4.8 3.8H-4.8z"),
    (INK, "v", "M0 4.8L4.8 -3.8H-4.8z"),
    ("#806600", "P", "M-1.6 -4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z"),
)
MARKS = tuple(Mark(*shape, filled) for filled in (True, False) for shape in _SHAPES)
"""As many as there may be models in a comparison."""


@dataclass(frozen=True)
class Term:
    """One term: its bar in each model, None where it is not in it."""

    name: str
    bars: tuple[Bar | None, ...]

    @property
    def present(self) -> list[Bar]:
        """The bars with an interval."""
        return [bar for bar in self.bars if bar is not None and bar.shown]

    @property
    def shown(self) -> bool:
        """Whether there is one."""
        return bool(self.present)

    @property
    def reach(self) -> float:
        """How far from 0 the intervals go."""
        return max(bar.reach for bar in self.present)


def rows(comparison: Comparison) -> list[Term]:
    """One row per term, in the order of the table.

    Intercepts are left out, unless there is nothing else: each fit has its own centre.
    """
    found = [
        {bar.name: bar for bar in forest.bars(result, comparison.level)}
        for result in comparison.results
    ]
    names = list(dict.fromkeys(name for bars in found for name in bars))
    slopes = [name for name in names if name != INTERCEPT]
    return [Term(name, tuple(bars.get(name) for bars in found)) for name in slopes or names]


def word(bar: Bar | None, name: str) -> str:
    """What stands where the bar of a model of this name would be."""
    if bar is None or bar.shown:
        return ""
    why = coefficient_table.NOT_IDENTIFIED
    if bar.status.startswith(coefficient_table.OPEN):
        why = coefficient_table.OPEN
    return f"{forest.short(name, _MODEL)}: {why}"


def limits(terms: Sequence[Term]) -> tuple[float, float]:
    """An axis that holds 0 and all intervals."""
    return forest.limits(
        [end for term in terms for bar in term.present for end in (bar.low, bar.high)]
    )


def notes(comparison: Comparison, count: int) -> list[str]:
    """What a reader of the picture alone must know; ``count`` is the number of panels."""
    found = []
    if count > 1:
        found.append(SCALES)
    if comparison.ratios:
        found.append("Coefficients are drawn: logarithms of the ratios.")
    if any(INTERCEPT in result.names for result in comparison.results):
        found.append(NO_INTERCEPT)
    if KINDS in comparison.differences():
        found.append(KINDS)
    found.append(NO_DIFFERENCE)
    return found


@dataclass(frozen=True)
class Sheet:
    """Measures in pixels: the axis from left to right, room for a name, and how much of a row is
    above its bars, for the name where it does not stand beside them.
    """

    width: int
    left: int
    right: int
    name: int
    above: float
    ticks: int


WIDE = Sheet(width=760, left=196, right=734, name=190, above=0.0, ticks=7)
NARROW = Sheet(width=340, left=26, right=314, name=330, above=22.0, ticks=4)


@dataclass(frozen=True)
class Slot:
    """The place of a model in a row: its bar or a word."""

    mark: Mark
    middle: float
    places: dict[str, float] | None
    word: str


@dataclass(frozen=True)
class Row:
    """A term at its height, with its name in lines; lines of the axis begin at ``clear``."""

    top: float
    height: float
    clear: float
    name: tuple[str, ...]
    shaded: bool
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Panel:
    """Rows on one scale."""

    bottom: float
    zero: float
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Drawing:
    """All panels from top to bottom."""

    sheet: Sheet
    height: float
    panels: tuple[Panel, ...]


def drawing(comparison: Comparison, sheet: Sheet) -> Drawing:
    """The picture on this sheet."""
    terms = rows(comparison)
    laid_out = []
    top = 4.0
    for group in forest.panels(terms):
        panel = _panel([terms[j] for j in group], comparison.names, top, sheet)
        laid_out.append(panel)
        top = panel.bottom + 40
    return Drawing(sheet, top - 12, tuple(laid_out))


def _panel(terms: Sequence[Term], names: Sequence[str], top: float, sheet: Sheet) -> Panel:
    low, high = limits(terms)

    def place(value: float) -> float:
        return round(sheet.left + (sheet.right - sheet.left) * (value - low) / (high - low), 2)

    laid_out: list[Row] = []
    bottom = top
    for j, term in enumerate(terms):
        name = forest.lines(term.name, int(sheet.name / _LETTER), 4)
        further = _FURTHER * (len(name) - 1)
        clear = bottom
        if sheet.above:
            clear += sheet.above + further
        slots = tuple(
            _slot(bar, k, clear + _AIR + k * _SLOT, place, word(bar, names[k]))
            for k, bar in enumerate(term.bars)
        )
        end = max(slots[-1].middle + _AIR, bottom + 2 * _AIR + 4 + further)
        laid_out.append(Row(bottom, end - bottom, clear, name, shaded=j % 2 == 1, slots=slots))
        bottom = end
    ticks = [(place(value), label) for value, label in forest.ticks_of(low, high, sheet.ticks)]
    return Panel(bottom, place(0.0), tuple(ticks), tuple(laid_out))


def _slot(
    bar: Bar | None, k: int, middle: float, place: Callable[[float], float], instead: str
) -> Slot:
    """The place of model number ``k``."""
    if bar is None or not bar.shown:
        return Slot(MARKS[k], middle, None, instead)
    return Slot(MARKS[k], middle, {end: place(getattr(bar, end)) for end in _ENDS}, "")
