"""The forest plot of a result: what it shows, in letters, and laid out for a page.

`bars` and `panels` say what is drawn, whatever draws it.  `forest_text` draws it with letters, for
a terminal or an e-mail; `drawing` says where everything goes on a page, whose template draws it;
`plot.forest` draws it with matplotlib, and shares its palette and its named rows with the other
figures.
"""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dpinfer.errors import InputError
from dpinfer.result import coefficient_table, text
from dpinfer.result.result import FitResult

# From the palette of Okabe and Ito, which colour-blind readers can tell apart; the shapes differ as
# well.
BLUE = "#0072B2"
ORANGE = "#D55E00"
INK = "#222222"
GREY = "#767676"
PALE = "#F3F3F3"

# Inches: the figure, a row, everything around the rows.
WIDTH = 10.0
LINE = 0.27
FRAME = 2.4

NAME = 34  # characters of a coefficient's name that fit
SPREAD = 12.0  # times as far from 0: beyond that a row gets a panel of its own scale

_NARROWEST = 60  # letters of a line of the plot in letters
_SHORTEST = 16  # letters of a bar with its numbers beside it
_PLAIN = str.maketrans({"−": "-", "–": "-", "…": "~", "≥": ">", "≤": "<", "ε": "e", "δ": "d"})

# Pixels on a page: a letter and one of a status, about; to the first line of a name, and of each
# further line.
_LETTER = 7.2
_SMALL_LETTER = 6.6
_FIRST_LINE = 18.0
_FURTHER_LINE = 15.0

NUMBERS = {
    False: "Coefficients in original units",
    True: "Coefficients of the logarithm of the rate, in original units",
}
"""What the numbers of a result are, of others and of counts."""

_ENDS = ("low", "inner_low", "estimate", "inner_high", "high")


@dataclass(frozen=True)
class Bar:
    """One coefficient: its interval, the part of it that is sampling error alone, and both in
    words.

    What has no interval is not ``shown``: it has a ``status`` and no finite number.
    """

    name: str
    estimate: float
    low: float
    high: float
    inner_low: float
    inner_high: float
    words: str
    share: str
    status: str
    shown: bool

    @property
    def reach(self) -> float:
        """How far from 0 the interval goes."""
        return max(abs(self.low), abs(self.high))


def bars(result: FitResult, level: float) -> list[Bar]:
    """One bar per coefficient of the formula; what is known instead of open ones is not drawn.

    With a share s of the variance due to privacy noise, the inner interval is sqrt(1 - s) times the
    whole: what sampling error alone would give at the same estimate.
    """
    drawn = []
    for row in result.table(level):
        estimate = row["estimate"]
        shrink = math.nan
        if math.isfinite(row["noise_share"]):
            shrink = math.sqrt(max(0.0, 1 - row["noise_share"]))
        number = text.number(estimate, text.decimals_for(row["std_error"]))
        bar = Bar(
            name=row["name"],
            estimate=estimate,
            low=row["low"],
            high=row["high"],
            inner_low=estimate + shrink * (row["low"] - estimate),
            inner_high=estimate + shrink * (row["high"] - estimate),
            words=f"{number} ({coefficient_table.interval(row)})",
            share=text.percent(row["noise_share"]),
            # What holds of every open line stands under the table.
            status=row["status"].replace("in the model, but ", "", 1),
            shown=coefficient_table.is_reported(row),
        )
        drawn.append(bar)
    return drawn


def not_drawn(result: FitResult) -> list[str]:
    """A sentence for every plot of a result for which lines are known instead of open ones."""
    if result.instead:
        return [coefficient_table.NOT_DRAWN]
    return []


class Reaching(Protocol):
    """What stands in a panel: something that is ``shown``, and reaches so far from 0."""

    @property
    def shown(self) -> bool:
        """Whether there is anything to draw."""
        ...

    @property
    def reach(self) -> float:
        """How far from 0 it goes."""
        ...


def panels(rows: Sequence[Reaching]) -> list[list[int]]:
    """Positions of the rows that share a scale: within a panel no interval reaches `SPREAD` times
    as far as another.

    Where one scale is enough, all rows stay in their order.  Rows without an interval stand in the
    first panel.
    """
    ordered = sorted((j for j, row in enumerate(rows) if row.shown), key=lambda j: -rows[j].reach)
    groups: list[list[int]] = []
    for j in ordered:
        if not groups or SPREAD * rows[j].reach < rows[groups[-1][0]].reach:
            groups.append([])
        groups[-1].append(j)
    absent = [j for j, row in enumerate(rows) if not row.shown]
    first, *others = groups or [[]]
    return [sorted(first + absent), *map(sorted, others)]


def limits(ends: Sequence[float]) -> tuple[float, float]:
    """An axis with some air that holds 0 and all finite ends."""
    finite = [0.0, *(end for end in ends if math.isfinite(end))]
    low = min(finite)
    high = max(finite)
    air = 0.05 * (high - low) or 1.0
    return float(np.clip(low - air, -1e300, 0)), float(np.clip(high + air, 0, 1e300))


def _limits_of(drawn: Sequence[Bar]) -> tuple[float, float]:
    return limits([end for bar in drawn for end in (bar.low, bar.high)])


def rows(panel: Axes, names: Sequence[str]) -> None:
    """First coefficient at the top, every second row shaded."""
    places = np.arange(len(names))
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_yticks(places, ["\n".join(lines(name, NAME, 2)) for name in names], parse_math=False)
    panel.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    for label in panel.get_yticklabels():
        if "\n" in label.get_text():
            label.set(fontsize=8, linespacing=0.95)
    panel.tick_params(axis="x", labelsize=9, color=GREY, labelcolor=INK)
    for place in places[1::2]:
        panel.axhspan(place - 0.5, place + 0.5, color=PALE, zorder=0)
    panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.spines["bottom"].set_color(GREY)


def short(words: str, letters: int = NAME) -> str:
    """Words on one line that fit beside their row."""
    line = " ".join(words.split())
    if len(line) <= letters:
        return line
    return line[: letters - 1] + "…"


def lines(words: str, letters: int, count: int) -> tuple[str, ...]:
    """Words in at most ``count`` lines of at most ``letters`` letters, the last of them cut off."""
    sentence = " ".join(words.split())
    wrapped = textwrap.wrap(sentence, letters) or [""]
    if len(wrapped) > count:
        kept = wrapped[: count - 1]
        wrapped = [*kept, short(sentence[len(" ".join(kept)) :], letters)]
    return tuple(wrapped)


@dataclass(frozen=True)
class _Pen:
    """The letters that bars are made of; ``ascii`` says that all others become plain ones, too."""

    ascii: bool
    whole: str
    inner: str
    left: str
    right: str
    point: str
    zero: str
    cross: str

    def plain(self, words: str) -> str:
        """Words that the terminal can show, and does not obey."""
        shown = text.escape_controls(words)
        if not self.ascii:
            return shown
        return shown.translate(_PLAIN).encode("ascii", "replace").decode()


_FINE = _Pen(False, "─", "━", "├", "┤", "●", "│", "┼")
_ROUGH = _Pen(True, "-", "=", "|", "|", "o", ":", "+")


@dataclass(frozen=True)
class _Sheet:
    """Letters of a line: all of them, those of names, those of bars; the numbers stand ``beside``
    the bars or under them.
    """

    width: int
    name: int
    bar: int
    beside: bool

    @classmethod
    def of(cls, drawn: Sequence[Bar], width: int) -> "_Sheet":
        name = max(len(short(bar.name)) for bar in drawn)
        numbers = max([len(bar.words) for bar in drawn if bar.shown], default=0)
        bar = width - 4 - name - numbers
        if bar >= _SHORTEST:
            return cls(width, name, bar, beside=True)
        return cls(width, name, width - 2 - name, beside=False)


def forest_text(
    result: FitResult, level: float = 0.95, width: int = 80, *, ascii: bool = False
) -> str:
    """Return the forest plot of a result as text: name, interval and estimate of each coefficient.

    Parameters
    ----------
    result : FitResult
        The result of a fit.
    level : float
        The confidence level; 0.95 by default.
    width : int
        The number of characters in a line, at least 60; 80 by default.
    ascii : bool
        Whether only ASCII characters are used; by default bars are drawn with others.

    Returns
    -------
    str
        The plot.  As in `dp.plot.forest`, the thick part of a bar is what sampling error alone
        would give, rows whose intervals are of very different size are in panels with scales of
        their own, and a coefficient that is not reported shows its status.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_  # the noise is off, for examples only
    >>> for line in dp.plot.forest_text(result, width=60, ascii=True).splitlines()[2:4]:
    ...     print(line)
    (Intercept)   :                  |o   2.613 (2.553 to 2.672)
    physlm        :            |=o=|      2.01 (1.73 to 2.28)
    """
    if width < _NARROWEST:
        raise InputError(f"a forest plot in letters needs a width of at least {_NARROWEST}")
    pen = _ROUGH if ascii else _FINE
    drawn = bars(result, level)
    sheet = _Sheet.of(drawn, width)
    groups = panels(drawn)
    written = [
        f"{pen.inner} sampling error alone  {pen.whole} whole interval ({100 * level:.4g}%)  "
        f"{pen.zero} zero"
    ]
    for group in groups:
        written += ["", *_text_panel([drawn[j] for j in group], pen, sheet)]
    if len(groups) > 1:
        written += ["", "Each part has a scale of its own: compare lengths within a part only."]
    for note in not_drawn(result):
        written += ["", *textwrap.wrap(note, width)]
    if not result.privacy.private:
        written += ["", "NOT PRIVATE: do not publish."]
    return "\n".join(line.rstrip() for line in written)


def _text_panel(drawn: Sequence[Bar], pen: _Pen, sheet: _Sheet) -> list[str]:
    """Rows on one scale, and the scale."""
    low, high = _limits_of(drawn)

    def place(value: float) -> int:
        return round((sheet.bar - 1) * (value - low) / (high - low))

    margin = " " * (sheet.name + 2)
    written = []
    for bar in drawn:
        name = pen.plain(short(bar.name)).ljust(sheet.name) + "  "
        if not bar.shown:
            first, *others = textwrap.wrap(
                pen.plain(bar.status), sheet.width - sheet.name - 2, subsequent_indent="  "
            )
            written += [name + first, *(margin + other for other in others)]
        elif sheet.beside:
            written.append(f"{name}{_text_bar(bar, place, pen, sheet.bar)}  {pen.plain(bar.words)}")
        else:
            written.append(name + _text_bar(bar, place, pen, sheet.bar))
            written.append(margin + pen.plain(bar.words))
    if any(bar.shown for bar in drawn):
        written.append(margin + _text_scale(low, high, place(0.0), pen, sheet.bar))
    return written


def _text_bar(bar: Bar, place: Callable[[float], int], pen: _Pen, room: int) -> str:
    """One bar: the whole interval, the part of it from sampling error alone, the estimate on top."""
    low, inner_low, estimate, inner_high, high = (place(getattr(bar, end)) for end in _ENDS)
    zero = place(0.0)
    line = [" "] * room
    line[zero] = pen.zero
    line[low : high + 1] = pen.whole * (high - low + 1)
    line[inner_low : inner_high + 1] = pen.inner * (inner_high - inner_low + 1)
    line[low] = pen.left
    line[high] = pen.right
    if low < zero < high:
        line[zero] = pen.cross
    line[estimate] = pen.point
    return "".join(line)


def _text_scale(low: float, high: float, zero: int, pen: _Pen, room: int) -> str:
    """The ends of the scale under the bars, and 0 where there is room for it."""
    first, last = (pen.plain(f"{value:.3g}".replace("-", "−")) for value in (low, high))
    scale = list(first + last.rjust(room - len(first)))
    if scale[max(0, zero - 1) : zero + 2] == [" "] * 3:
        scale[zero] = "0"
    return "".join(scale)


@dataclass(frozen=True)
class Layout:
    """Measures in pixels: the axis from left to right, a row's height, where its bar lies, room for
    name and words.

    Words of more than ``letters`` letters are set closer.  The first ``clear`` pixels of a row are
    kept free of lines, for the name and the words where they stand above the bar.
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


WIDE = Layout(
    width=760,
    left=196,
    right=494,
    row=27,
    bar=14,
    name=190,
    words=204,
    letters=27,
    ticks=6,
    clear=0,
)
NARROW = Layout(
    width=340,
    left=26,
    right=314,
    row=48,
    bar=34,
    name=128,
    words=200,
    letters=27,
    ticks=4,
    clear=24,
)


@dataclass(frozen=True)
class Row:
    """One coefficient at its height: its name in lines, its numbers, or its status in lines where
    it has none.

    ``middle`` is where its bar lies, ``clear`` from where on its lines are drawn, ``why`` where its
    status begins.
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
    drawn = bars(result, level)
    top = 4.0
    if not layout.clear:
        top = 26.0
        layout = _fitted(layout, drawn)
    laid_out = []
    for group in panels(drawn):
        panel = _page_panel([drawn[j] for j in group], top, layout)
        laid_out.append(panel)
        top = panel.bottom + 40
    return Drawing(layout, top - 12, tuple(laid_out))


def _fitted(layout: Layout, drawn: Sequence[Bar]) -> Layout:
    """A longer axis where the names are short."""
    name = int(min(layout.name, max(60.0, *(_LETTER * len(bar.name) + 14 for bar in drawn))))
    return replace(layout, name=name, left=name + 6)


def _page_panel(drawn: Sequence[Bar], top: float, layout: Layout) -> Panel:
    low, high = _limits_of(drawn)

    def place(value: float) -> float:
        return round(layout.left + (layout.right - layout.left) * (value - low) / (high - low), 2)

    ticks = tuple((place(value), word) for value, word in ticks_of(low, high, layout.ticks))
    laid_out: list[Row] = []
    bottom = top
    for j, bar in enumerate(drawn):
        places = None
        if bar.shown:
            places = {end: place(getattr(bar, end)) for end in _ENDS}
        row = _page_row(bar, bottom, layout, shaded=j % 2 == 1, places=places)
        laid_out.append(row)
        bottom += row.height
    return Panel(top, bottom, place(0.0), ticks, tuple(laid_out))


def _page_row(
    bar: Bar, top: float, layout: Layout, *, shaded: bool, places: dict[str, float] | None
) -> Row:
    """A row that is as high as its name is long; the status of a row without an interval stands
    where its bar would.
    """
    name = lines(bar.name, int(layout.name / _LETTER), 4)
    words = bar.words
    status: tuple[str, ...] = ()
    if not bar.shown:
        room = layout.width if layout.clear else layout.width - layout.left
        words = ""
        status = lines(bar.status, int(room / _SMALL_LETTER), 2)
    above = _FURTHER_LINE * (len(name) - 1)
    below = _FURTHER_LINE * max(len(status) - 1, 0)
    if layout.clear:  # the status stands under the name
        more = above + below
        clear = top + layout.clear + above
        middle = top + layout.bar + above
        why = top + _FIRST_LINE + _FURTHER_LINE + above
    else:  # beside it
        more = max(above, below)
        clear = top
        middle = top + layout.bar + more / 2
        why = middle + 4 - below / 2
    return Row(
        top=top,
        height=layout.row + more,
        middle=middle,
        clear=clear,
        name=name,
        words=words,
        share=bar.share,
        status=status,
        why=why,
        shaded=shaded,
        places=places,
    )


def ticks_of(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """About so many round numbers on an axis, and how they are written."""
    locator = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10])
    values = [float(value) for value in locator.tick_values(low, high)]
    return [(value, _tick(value, values)) for value in values if low <= value <= high]


def _tick(value: float, values: Sequence[float]) -> str:
    """A number at the axis; what is 0 but for rounding is 0."""
    step = values[1] - values[0]
    if abs(value) < step / 1e6:
        return "0"
    return f"{value:.4g}".replace("-", "−")
