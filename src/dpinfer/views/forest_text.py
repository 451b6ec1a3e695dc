"""The forest plot of a result in letters, for a terminal or an e-mail."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpinfer.errors import InputError
from dpinfer.result import text
from dpinfer.result.result import FitResult
from dpinfer.views.forest import (
    SAMPLING_ERROR,
    WITH_BIAS_BOUND,
    WITH_NOISE,
    Bar,
    ForestRow,
    axis_title,
    digits,
    has_bias_bound,
    limits,
    panels,
    ratio_of,
    result_notes,
    result_rows,
    shortened,
)

_MIN_WIDTH = 60  # letters of a line
_MIN_BAR = 16  # letters of a bar with its numbers beside it
_MAX_LOG = 30.0  # of an end of a scale of ratios that is written as a number
_ASCII = str.maketrans({"−": "-", "–": "-", "…": "_", "≥": ">", "≤": "<", "ε": "e", "δ": "d"})


@dataclass(frozen=True)
class _Glyphs:
    """The letters that bars are made of; with ``ascii`` all other words are ASCII, too."""

    ascii: bool
    interval: str
    bias: str
    inner: str
    left: str
    right: str
    point: str
    zero: str
    cross: str

    def shown(self, words: str) -> str:
        """Return words that the terminal can show, and does not obey."""
        escaped = text.escape_controls(words)
        if not self.ascii:
            return escaped
        return escaped.translate(_ASCII).encode("ascii", "replace").decode()


_UNICODE_GLYPHS = _Glyphs(False, "─", "═", "━", "├", "┤", "●", "│", "┼")
_ASCII_GLYPHS = _Glyphs(True, "-", "~", "=", "|", "|", "o", ":", "+")


@dataclass(frozen=True)
class _TextLayout:
    """The letters of a line: all of them, those of names, those of bars; whether the numbers stand
    beside the bars or under them.
    """

    width: int
    name: int
    bar: int
    numbers_right: bool

    @classmethod
    def of(cls, drawn: Sequence[Bar], width: int) -> "_TextLayout":
        name = max(len(shortened(bar.title)) for bar in drawn)
        numbers = max([len(bar.label) for bar in drawn if bar.reported], default=0)
        bar = width - 4 - name - numbers
        if bar >= _MIN_BAR:
            return cls(width, name, bar, numbers_right=True)
        return cls(width, name, width - 2 - name, numbers_right=False)


def forest_text(
    result: FitResult,
    level: float = 0.95,
    width: int = 80,
    *,
    ascii: bool = False,
    exp: bool | None = None,
    intercept: bool = False,
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
    exp : bool, optional
        Whether odds ratios or rate ratios are shown, on a logarithmic axis; by default they are
        where the model has them.
    intercept : bool
        Whether the intercept is drawn; by default it is not.

    Returns
    -------
    str
        The plot.  As in `dp.plot.forest`, a bar has parts from sampling error, the bound of a bias
        and privacy noise, terms whose intervals are of very different length are in panels with
        scales of their own, and a coefficient that is not reported shows its status.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_  # the noise is off, for examples only
    >>> print(dp.plot.forest_text(result, width=60, ascii=True).splitlines()[3])
    physlm   :                    |==o===|   2.01 (1.73 to 2.28)
    """
    if width < _MIN_WIDTH:
        raise InputError(f"a forest plot in letters needs a width of at least {_MIN_WIDTH}")
    glyphs = _ASCII_GLYPHS if ascii else _UNICODE_GLYPHS
    ratio = ratio_of(result, ratios=exp)
    rows = result_rows(result, level, intercept=intercept, ratio=ratio)
    layout = _TextLayout.of([_bar(row) for row in rows], width)
    groups = panels(rows)
    key = [f"{glyphs.inner} {SAMPLING_ERROR}"]
    if has_bias_bound(rows):
        key.append(f"{glyphs.bias} {WITH_BIAS_BOUND}")
    key += [f"{glyphs.interval} {WITH_NOISE} ({100 * level:.4g}%)"]
    key += [f"{glyphs.zero} {'1' if ratio else 'zero'}"]
    written = textwrap.wrap("   ".join(one.replace(" ", "\xa0") for one in key), width)
    written = [line.replace("\xa0", " ") for line in written]
    for group in groups:
        written += ["", *_panel(group, glyphs, layout, ratio)]
    notes = " ".join(result_notes(result, rows, len(groups)))
    if ratio:
        notes = f"{axis_title(ratio, counts=result.model.counts)}. {notes}"
    if notes:
        written += ["", *textwrap.wrap(glyphs.shown(notes), width)]
    if not result.privacy.private:
        written += ["", "NOT PRIVATE: do not publish."]
    return "\n".join(row.rstrip() for row in written)


def _bar(row: ForestRow) -> Bar:
    (bar,) = row.bars
    assert bar is not None
    return bar


def _panel(
    rows: Sequence[ForestRow], glyphs: _Glyphs, layout: _TextLayout, ratio: str
) -> list[str]:
    """Return rows on one scale, and the scale."""
    low, high = limits(rows)

    def column(value: float) -> int:
        return round((layout.bar - 1) * (value - low) / (high - low))

    margin = " " * (layout.name + 2)
    written = []
    for bar in map(_bar, rows):
        name = glyphs.shown(shortened(bar.title)).ljust(layout.name) + "  "
        if not bar.reported:
            first, *others = textwrap.wrap(
                glyphs.shown(bar.status), layout.width - layout.name - 2, subsequent_indent="  "
            )
            written += [name + first, *(margin + other for other in others)]
        elif layout.numbers_right:
            drawn = _drawn(bar, column, glyphs, layout.bar)
            written.append(f"{name}{drawn}  {glyphs.shown(bar.label)}")
        else:
            written.append(name + _drawn(bar, column, glyphs, layout.bar))
            written.append(margin + glyphs.shown(bar.label))
    if any(row.reported for row in rows):
        written.append(margin + _scale(_ends(low, high, ratio), column(0.0), glyphs, layout.bar))
    return written


def _drawn(bar: Bar, column: Callable[[float], int], glyphs: _Glyphs, width: int) -> str:
    """Return the interval, over it its parts, and the estimate."""
    ends = {end: column(value) for end, value in bar.ends.items()}
    low = ends["low"]
    high = ends["high"]
    zero = column(0.0)
    letters = [" "] * width
    letters[zero] = glyphs.zero
    for part, glyph in (
        (("low", "high"), glyphs.interval),
        (("without_noise_low", "without_noise_high"), glyphs.bias),
        (("sampling_low", "sampling_high"), glyphs.inner),
    ):
        first, last = (ends[end] for end in part)
        letters[first : last + 1] = glyph * (last - first + 1)
    letters[low] = glyphs.left
    letters[high] = glyphs.right
    if low < zero < high:
        letters[zero] = glyphs.cross
    letters[ends["estimate"]] = glyphs.point
    return "".join(letters)


def _ends(low: float, high: float, ratio: str) -> tuple[str, str, str]:
    """Return the ends of a scale as they are written, and what stands at its middle."""
    if not ratio:
        return f"{low:.3g}", f"{high:.3g}", "0"
    if max(-low, high) > _MAX_LOG:
        first, last = (
            f"{math.exp(end):.3g}" if abs(end) < _MAX_LOG else f"e^{end:.3g}" for end in (low, high)
        )
        return first, last, "1"
    ends = [math.exp(end) for end in (low, high)]
    first, last = (f"{end:.{digits(end, ends[1] - ends[0], 3)}g}" for end in ends)
    return first, last, "1"


def _scale(words: tuple[str, str, str], zero: int, glyphs: _Glyphs, width: int) -> str:
    """Return the ends of the scale under the bars, and 0 or 1 if there is space for it."""
    first, last, middle = (glyphs.shown(word.replace("-", "−")) for word in words)
    scale = list(first + last.rjust(width - len(first)))
    if scale[max(0, zero - 1) : zero + 2] == [" "] * 3:
        scale[zero] = middle
    return "".join(scale)
