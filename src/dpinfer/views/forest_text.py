"""The forest plot of a result in letters, for a terminal or an e-mail."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpinfer.errors import InputError
from dpinfer.result import text
from dpinfer.result.result import FitResult
from dpinfer.views.forest import (
    Bar,
    ForestRow,
    limits,
    panels,
    result_notes,
    result_rows,
    shortened,
)

_MIN_WIDTH = 60  # letters of a line
_MIN_BAR = 16  # letters of a bar with its numbers beside it
_ASCII = str.maketrans({"−": "-", "–": "-", "…": "~", "≥": ">", "≤": "<", "ε": "e", "δ": "d"})


@dataclass(frozen=True)
class _Glyphs:
    """The letters that bars are made of; with ``ascii`` all other words are ASCII, too."""

    ascii: bool
    interval: str
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


_UNICODE_GLYPHS = _Glyphs(False, "─", "━", "├", "┤", "●", "│", "┼")
_ASCII_GLYPHS = _Glyphs(True, "-", "=", "|", "|", "o", ":", "+")


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
        name = max(len(shortened(bar.name)) for bar in drawn)
        numbers = max([len(bar.label) for bar in drawn if bar.reported], default=0)
        bar = width - 4 - name - numbers
        if bar >= _MIN_BAR:
            return cls(width, name, bar, numbers_right=True)
        return cls(width, name, width - 2 - name, numbers_right=False)


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
    if width < _MIN_WIDTH:
        raise InputError(f"a forest plot in letters needs a width of at least {_MIN_WIDTH}")
    glyphs = _ASCII_GLYPHS if ascii else _UNICODE_GLYPHS
    rows = result_rows(result, level)
    layout = _TextLayout.of([_bar(row) for row in rows], width)
    groups = panels(rows)
    written = [
        f"{glyphs.inner} sampling error alone  {glyphs.interval} whole interval ({100 * level:.4g}%)  "
        f"{glyphs.zero} zero"
    ]
    for group in groups:
        written += ["", *_panel(group, glyphs, layout)]
    if len(groups) > 1:
        written += ["", "Each part has a scale of its own: compare lengths within a part only."]
    for note in result_notes(result):
        written += ["", *textwrap.wrap(note, width)]
    if not result.privacy.private:
        written += ["", "NOT PRIVATE: do not publish."]
    return "\n".join(row.rstrip() for row in written)


def _bar(row: ForestRow) -> Bar:
    (bar,) = row.bars
    assert bar is not None
    return bar


def _panel(rows: Sequence[ForestRow], glyphs: _Glyphs, layout: _TextLayout) -> list[str]:
    """Return rows on one scale, and the scale."""
    low, high = limits(rows)

    def column(value: float) -> int:
        return round((layout.bar - 1) * (value - low) / (high - low))

    margin = " " * (layout.name + 2)
    written = []
    for bar in map(_bar, rows):
        name = glyphs.shown(shortened(bar.name)).ljust(layout.name) + "  "
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
        written.append(margin + _scale(low, high, column(0.0), glyphs, layout.bar))
    return written


def _drawn(bar: Bar, column: Callable[[float], int], glyphs: _Glyphs, width: int) -> str:
    """Return the interval, over it the part of it from sampling error alone, and the estimate."""
    low = column(bar.low)
    high = column(bar.high)
    inner_low = column(bar.inner_low)
    inner_high = column(bar.inner_high)
    zero = column(0.0)
    letters = [" "] * width
    letters[zero] = glyphs.zero
    letters[low : high + 1] = glyphs.interval * (high - low + 1)
    letters[inner_low : inner_high + 1] = glyphs.inner * (inner_high - inner_low + 1)
    letters[low] = glyphs.left
    letters[high] = glyphs.right
    if low < zero < high:
        letters[zero] = glyphs.cross
    letters[column(bar.estimate)] = glyphs.point
    return "".join(letters)


def _scale(low: float, high: float, zero: int, glyphs: _Glyphs, width: int) -> str:
    """Return the ends of the scale under the bars, and 0 if there is space for it."""
    first, last = (glyphs.shown(f"{value:.3g}".replace("-", "−")) for value in (low, high))
    scale = list(first + last.rjust(width - len(first)))
    if scale[max(0, zero - 1) : zero + 2] == [" "] * 3:
        scale[zero] = "0"
    return "".join(scale)
