"""Texts for people: numbers with as many digits as their errors support, and wrapped paragraphs."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from unicodedata import category

PAGE_WIDTH = 86
"""Letters of a line of printed text."""
INDENT = "  "
NO_NUMBER = "–"
"""Printed where there is no number."""
_CONTROLS = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def escape_controls(text: str, keep: str = "") -> str:
    """Return a text that a terminal prints and does not obey.

    Control characters, line ends and changes of direction become escapes, except those in ``keep``.
    """
    return "".join(letter if letter in keep else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    if category(letter) not in _CONTROLS and letter not in _DIRECTIONS:
        return letter
    if ord(letter) < 256:
        return f"\\x{ord(letter):02x}"
    return f"\\u{ord(letter):04x}"


def decimals_for(std_error: float) -> int:
    """Return the decimals that show two digits of a standard error.

    With so many an interval is never rounded to a point.
    """
    if not 0 < std_error < math.inf:
        return 3
    return max(0, 1 - math.floor(math.log10(std_error)))


def number(value: float, decimals: int) -> str:
    """Return a number with a true minus sign, in powers of ten where it would be very long."""
    if not math.isfinite(value):
        return NO_NUMBER
    if decimals <= 8 and abs(value) < 1e9:
        written = f"{value:,.{decimals}f}"
    else:
        written = f"{value:.5g}"
    if float(written.replace(",", "")) == 0:
        return written.lstrip("-")
    return written.replace("-", "−")


def p_value(value: float) -> str:
    """Return a p-value with three decimals, or "< .001"."""
    if not math.isfinite(value):
        return NO_NUMBER
    if value < 0.001:
        return "< .001"
    return f"{value:.3f}".removeprefix("0")


def interval(low: float, high: float, std_error: float) -> str:
    """Return an interval with the decimals that the standard error supports.

    An end that would be rounded to 0 gets up to three decimals more, so that its sign is shown.
    """
    decimals = decimals_for(std_error)
    nearest = min((abs(end) for end in (low, high) if end), default=1.0)
    decimals = max(decimals, min(decimals + 3, -math.floor(math.log10(nearest))))
    return f"{number(low, decimals)} to {number(high, decimals)}"


def percent(share: float) -> str:
    """Return a share as a percentage without decimals."""
    if not math.isfinite(share):
        return NO_NUMBER
    return f"{100 * share:.0f}%"


def page(
    title: str, top: tuple[Sequence[str], Mapping[str, str]], table: str, notes: Sequence[str]
) -> str:
    """Return a title, paragraphs and facts in two columns, a table, and notes under it."""
    paragraphs, facts = top
    head = [title.center(PAGE_WIDTH).rstrip(), "=" * PAGE_WIDTH, *map(_wrapped, paragraphs)]
    body = with_notes(table, notes)
    return escape_controls("\n".join([*head, *_two_columns(facts), body]), keep="\n")


def with_notes(table: str, notes: Sequence[str], width: int = PAGE_WIDTH) -> str:
    """Return a table with one wrapped paragraph per note under it."""
    paragraphs = [_wrapped(note, width) for note in notes]
    return escape_controls("\n".join([table, *paragraphs]), keep="\n")


def _wrapped(text: str, width: int = PAGE_WIDTH) -> str:
    return textwrap.fill(text, width, subsequent_indent=INDENT)


def _two_columns(facts: Mapping[str, str]) -> list[str]:
    cells = [f"{name + ':':<14}{fact}" for name, fact in facts.items()]
    half = max(PAGE_WIDTH // 2, *(len(cell) + 2 for cell in cells[::2]))
    return [f"{left:<{half}}{right}" for left, right in zip(cells[::2], cells[1::2], strict=True)]
