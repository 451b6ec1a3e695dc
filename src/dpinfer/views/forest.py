"""What a forest plot shows, apart from how it is drawn; and what the figures share: a palette, rows
with names.

The forest plot in letters, for a terminal or an e-mail.

Where everything in the forest plot of a page goes.  The template draws it.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dpinfer.errors import InputError
from dpinfer.result import text
from dpinfer.result.result import FitResult

# From the palette of Okabe and Ito, which colour-blind readers can tell apart; the shapes differ as
# well.
BLUE, ORANGE, INK, GREY, PALE = "#0072B2", "#D55E00", "#222222", "#767676", "#F3F3F3"
WIDTH, LINE, FRAME = 10.0, 0.27, 2.4  # inches: the figure, a row, everything around the rows
NAME = 34  # characters of a coefficient's name that fit


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
    return line if len(line) <= letters else line[: letters - 1] + "…"


def lines(words: str, letters: int, most: int) -> tuple[str, ...]:
    """Words in at most ``most`` lines of so many letters, the last of them cut off."""
    whole = " ".join(words.split())
    broken = textwrap.wrap(whole, letters) or [""]
    if len(broken) > most:
        start = len(" ".join(broken[: most - 1]))
        broken = [*broken[: most - 1], short(whole[start:], letters)]
    return tuple(broken)


SPREAD = 12.0  # times as far from 0: beyond that a row gets a panel of its own scale


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
    """One bar a coefficient of the formula; what is known instead of open ones is not drawn.

    With a share s of the variance due to privacy noise, the inner interval is sqrt(1 - s) times the
    whole: what sampling error alone would give at the same estimate.
    """
    found = []
    for row in result.table(level):
        estimate, low, high, share = row["estimate"], row["low"], row["high"], row["noise_share"]
        shrink = math.sqrt(max(0.0, 1 - share)) if math.isfinite(share) else math.nan
        number = text.number(estimate, text.places(row["std_error"]))
        found.append(
            Bar(
                row["name"], estimate, low, high,
                estimate + shrink * (low - estimate), estimate + shrink * (high - estimate),
                f"{number} ({text.interval(row)})", text.percent(share), _brief(row["status"]), not text.set_aside(row),
            )
        )  # fmt: skip
    return found


def _brief(status: str) -> str:
    """A status without what holds of every open line and stands under the table."""
    return status.replace("in the model, but ", "", 1)


def not_drawn(result: FitResult) -> list[str]:
    """A sentence for every plot of a result for which lines are known instead of open ones."""
    return [text.NOT_DRAWN] if result.instead else []


def panels(rows: Sequence[Bar]) -> list[list[int]]:
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
    low, high = min(finite), max(finite)
    air = 0.05 * (high - low) or 1.0
    return float(np.clip(low - air, -1e300, 0)), float(np.clip(high + air, 0, 1e300))


_NARROWEST = 60
_PLAIN = str.maketrans({"−": "-", "–": "-", "…": "~", "≥": ">", "≤": "<", "ε": "e", "δ": "d"})


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
        shown = text.harmless(words)
        return shown.translate(_PLAIN).encode("ascii", "replace").decode() if self.ascii else shown


_FINE = _Pen(False, "─", "━", "├", "┤", "●", "│", "┼")
_ROUGH = _Pen(True, "-", "=", "|", "|", "o", ":", "+")


def forest_text(
    result: FitResult, level: float = 0.95, width: int = 80, *, ascii: bool = False
) -> str:
    """The forest plot of a result as text: name, interval, estimate, one line a coefficient.

    ``level`` is that of the intervals, ``width`` the number of letters in a line, at least 60; with
    ``ascii`` all letters are plain ones.  As in `forest`, the thick part of a bar is what sampling
    error alone would give, rows whose intervals are of very different size stand in panels of their
    own scale, and an open coefficient shows its status.
    """
    if width < _NARROWEST:
        raise InputError(f"a forest plot in letters needs a width of at least {_NARROWEST}")
    pen, drawn = _ROUGH if ascii else _FINE, bars(result, level)
    name = max(len(short(bar.name, NAME)) for bar in drawn)
    words = max([len(bar.words) for bar in drawn if bar.shown], default=0)
    groups = panels(drawn)
    room = width - 2 - name if width - 4 - name - words < 16 else width - 4 - name - words
    lines = [
        f"{pen.inner} sampling error alone  {pen.whole} whole interval ({100 * level:.4g}%)  {pen.zero} zero"
    ]
    for group in groups:
        lines += [
            "",
            *_panel(
                [drawn[j] for j in group],
                pen,
                name,
                room,
                width,
                beside=room == width - 4 - name - words,
            ),
        ]
    if len(groups) > 1:
        lines += ["", "Each part has a scale of its own: compare lengths within a part only."]
    for note in not_drawn(result):
        lines += ["", *textwrap.wrap(note, width)]
    if not result.privacy.private:
        lines += ["", "NOT PRIVATE: do not publish."]
    return "\n".join(line.rstrip() for line in lines)


def _panel(
    drawn: Sequence[Bar], pen: _Pen, name: int, room: int, most: int, *, beside: bool
) -> list[str]:
    """Rows on one scale, and the scale; the numbers stand beside the bars, or under them where
    there is no room.

    A status takes as many lines as it needs, of ``most`` letters with the name.
    """
    low, high = limits([end for bar in drawn for end in (bar.low, bar.high)])

    def place(value: float) -> int:
        return round((room - 1) * (value - low) / (high - low))

    lines = []
    for bar in drawn:
        head = pen.plain(short(bar.name, NAME)).ljust(name)
        if not bar.shown:
            first, *others = textwrap.wrap(
                pen.plain(bar.status), most - name - 2, subsequent_indent="  "
            )
            lines += [f"{head}  {first}", *(f"{'':{name}}  {other}" for other in others)]
            continue
        whole, numbers = (
            _drawn({key: place(getattr(bar, key)) for key in _PLACES}, place(0.0), pen, room),
            pen.plain(bar.words),
        )
        lines.append(f"{head}  {whole}  {numbers}" if beside else f"{head}  {whole}")
        lines += [] if beside else [f"{'':{name}}  {numbers}"]
    if not any(bar.shown for bar in drawn):
        return lines
    ends = [pen.plain(f"{value:.3g}".replace("-", "−")) for value in (low, high)]
    scale = list(ends[0] + ends[1].rjust(room - len(ends[0])))
    if scale[max(0, place(0.0) - 1) : place(0.0) + 2] == [" "] * 3:
        scale[place(0.0)] = "0"
    return [*lines, f"{'':{name}}  {''.join(scale)}"]


_PLACES = ("low", "inner_low", "estimate", "inner_high", "high")


def _drawn(at: dict[str, int], zero: int, pen: _Pen, room: int) -> str:
    """One bar: the whole interval, the part of it from sampling error alone, the estimate on top."""
    line = [" "] * room
    line[zero] = pen.zero
    line[at["low"] : at["high"] + 1] = pen.whole * (at["high"] - at["low"] + 1)
    line[at["inner_low"] : at["inner_high"] + 1] = pen.inner * (
        at["inner_high"] - at["inner_low"] + 1
    )
    line[at["low"]], line[at["high"]] = pen.left, pen.right
    if at["low"] < zero < at["high"]:
        line[zero] = pen.cross
    line[at["estimate"]] = pen.point
    return "".join(line)


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
    width=340, left=8, right=332, row=48, bar=34, name=128, words=200, letters=27, ticks=4, clear=24
)
_LETTER, _SMALL = 7.2, 6.6  # pixels of a letter and of one of a status, about
_FIRST, _LINE = 18.0, 15.0  # pixels to the first line of a name, and of each further line


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
    drawn, top, found = bars(result, level), 26.0 if not layout.clear else 4.0, []
    if not layout.clear:
        layout = _fitted(layout, drawn)
    for group in panels(drawn):
        panel = _drawn_panel([drawn[j] for j in group], top, layout)
        found.append(panel)
        top = panel.bottom + 40
    return Drawing(layout, top - 12, tuple(found))


def _fitted(layout: Layout, drawn: Sequence[Bar]) -> Layout:
    """A longer axis where the names are short."""
    name = int(min(layout.name, max(60.0, *(_LETTER * len(bar.name) + 14 for bar in drawn))))
    return replace(layout, name=name, left=name + 6)


def _drawn_panel(drawn: Sequence[Bar], top: float, layout: Layout) -> Panel:
    low, high = limits([end for bar in drawn for end in (bar.low, bar.high)])

    def place(value: float) -> float:
        return round(layout.left + (layout.right - layout.left) * (value - low) / (high - low), 2)

    values = [
        float(value)
        for value in MaxNLocator(layout.ticks, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ]
    ticks = tuple((place(value), _tick(value, values)) for value in values if low <= value <= high)
    rows: list[Row] = []
    bottom = top
    for j, bar in enumerate(drawn):
        places = {key: place(getattr(bar, key)) for key in _POSITIONS} if bar.shown else None
        rows.append(_row(bar, bottom, layout, j % 2 == 1, places))
        bottom += rows[-1].height
    return Panel(top, bottom, place(0.0), ticks, tuple(rows))


def _row(
    bar: Bar, top: float, layout: Layout, shaded: bool, places: dict[str, float] | None
) -> Row:
    """A row that is as high as its name is long; the status of a row without an interval stands
    where its bar would.
    """
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
    return Row(
        top, layout.row + more, middle, clear, name, words, bar.share, status, why, shaded, places
    )


_POSITIONS = ("estimate", "low", "high", "inner_low", "inner_high")


def _tick(value: float, values: Sequence[float]) -> str:
    step = values[1] - values[0]
    return f"{0.0 if abs(value) < step / 1e6 else value:.4g}".replace("-", "−")
