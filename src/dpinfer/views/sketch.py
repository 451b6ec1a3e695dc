"""The forest plot in letters, for a terminal or an e-mail."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dpinfer.errors import InputError
from dpinfer.result import text
from dpinfer.result.result import FitResult
from dpinfer.views.bars import NAME, Bar, bars, limits, not_drawn, panels, short

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


def forest_text(result: FitResult, level: float = 0.95, width: int = 80, *, ascii: bool = False) -> str:
    """The forest plot of a result as text: name, interval, estimate, one line a coefficient.

    ``level`` is that of the intervals, ``width`` the number of letters in a line, at least 60; with ``ascii`` all
    letters are plain ones.  As in `forest`, the thick part of a bar is what sampling error alone would give, rows whose
    intervals are of very different size stand in panels of their own scale, and an open coefficient shows its status.
    """
    if width < _NARROWEST:
        raise InputError(f"a forest plot in letters needs a width of at least {_NARROWEST}")
    pen, drawn = _ROUGH if ascii else _FINE, bars(result, level)
    name = max(len(short(bar.name, NAME)) for bar in drawn)
    words = max([len(bar.words) for bar in drawn if bar.shown], default=0)
    groups = panels(drawn)
    room = width - 2 - name if width - 4 - name - words < 16 else width - 4 - name - words
    lines = [f"{pen.inner} sampling error alone  {pen.whole} whole interval ({100 * level:.4g}%)  {pen.zero} zero"]
    for group in groups:
        lines += [
            "",
            *_panel([drawn[j] for j in group], pen, name, room, width, beside=room == width - 4 - name - words),
        ]
    if len(groups) > 1:
        lines += ["", "Each part has a scale of its own: compare lengths within a part only."]
    for note in not_drawn(result):
        lines += ["", *textwrap.wrap(note, width)]
    if not result.privacy.private:
        lines += ["", "NOT PRIVATE: do not publish."]
    return "\n".join(line.rstrip() for line in lines)


def _panel(drawn: Sequence[Bar], pen: _Pen, name: int, room: int, most: int, *, beside: bool) -> list[str]:
    """Rows on one scale, and the scale; the numbers stand beside the bars, or under them where there is no room.

    A status takes as many lines as it needs, of ``most`` letters with the name.
    """
    low, high = limits([end for bar in drawn for end in (bar.low, bar.high)])

    def place(value: float) -> int:
        return round((room - 1) * (value - low) / (high - low))

    lines = []
    for bar in drawn:
        head = pen.plain(short(bar.name, NAME)).ljust(name)
        if not bar.shown:
            first, *others = textwrap.wrap(pen.plain(bar.status), most - name - 2, subsequent_indent="  ")
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
    line[at["inner_low"] : at["inner_high"] + 1] = pen.inner * (at["inner_high"] - at["inner_low"] + 1)
    line[at["low"]], line[at["high"]] = pen.left, pen.right
    if at["low"] < zero < at["high"]:
        line[zero] = pen.cross
    line[at["estimate"]] = pen.point
    return "".join(line)
