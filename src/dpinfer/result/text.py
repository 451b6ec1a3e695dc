"""Texts for people: numbers with as many digits as their errors support, and wrapped paragraphs."""

import codecs
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from unicodedata import category

PAGE_WIDTH = 80
"""Letters of a line of printed text."""
MAX_UNDER_TABLE = 10
"""Lines under a table that is printed in short."""
FULL = "All statements: summary(full=True)."
"""Where the statements are that a summary leaves out."""
INDENT = "  "
NO_NUMBER = "–"
"""Printed where there is no number."""
_CONTROLS = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


PLAIN = "dpinfer.plain"
"""The name of the rule that writes letters which a stream lacks: ``stream.reconfigure(errors=PLAIN)``."""
_IN_ASCII = {
    "ε": "epsilon", "δ": "delta", "ρ": "rho", "≤": "<=", "≥": ">=", "×": "x", "·": "*", "±": "+/-",
    "–": "-", "—": "-", "−": "-", "…": "...", "²": "^2", "█": "#", "░": ".",
}  # fmt: skip
_POWERS = {letter: digit for digit, letter in zip("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", strict=True)}


def _in_ascii(fault: UnicodeError) -> tuple[str, int]:
    """Return the letters that a stream lacks in letters that it has: 10⁻⁶ is 10^-6, and ε is epsilon."""
    assert isinstance(fault, UnicodeEncodeError)
    lacking = fault.object[fault.start : fault.end]
    if all(letter in _POWERS for letter in lacking):
        return "^" + "".join(_POWERS[letter] for letter in lacking), fault.end
    first = lacking[0]
    return _IN_ASCII.get(first, "?"), fault.start + 1


codecs.register_error(PLAIN, _in_ascii)


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


def p_value(value: float, draws: int = 0) -> str:
    """Return a p-value with three decimals, or "< .001".

    A simulation of ``draws`` draws of which none reaches the statistic gives 1/(draws + 1), and
    excludes nothing smaller (Phipson and Smyth, 2010): "< .0001" for 10,000 draws.
    """
    if not math.isfinite(value):
        return NO_NUMBER
    floor = 1 / (draws + 1)
    if draws and value <= floor:
        places = -math.floor(math.log10(floor))
        above = math.floor(floor * 10**places) + 1  # in the last place
        return "< " + f"{above / 10**places:.{places}f}".strip("0")
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


def percents(shares: Sequence[float]) -> str:
    """Return shares of a whole as percentages without decimals that add up to 100.

    Those with the largest remainders are rounded up (Hamilton's method).
    """
    if not all(map(math.isfinite, shares)):
        return NO_NUMBER
    # rounding may leave a share that is just below 0, or one that is just below a whole percentage
    percentages = [max(0.0, round(100 * share, 6)) for share in shares]
    whole = [math.floor(percentage) for percentage in percentages]
    remainders = [share - part for share, part in zip(percentages, whole, strict=True)]
    order = sorted(range(len(whole)), key=lambda k: -remainders[k])
    for k in order[: 100 - sum(whole)]:
        whole[k] += 1
    return f"{' / '.join(map(str, whole))}%"


def broken(name: str, width: int) -> list[str]:
    """Break a name into lines of at most this width where its parts meet.

    That is behind a space, a colon or an underscore and before a bracket; inside a word only if
    a part is longer than a line.
    """
    lines = [""]
    for part in re.findall(r"\[?[^\[ :_]*[ :_]*", name):
        piece = part
        if lines[-1].strip() and len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        while len(lines[-1] + piece.rstrip()) > width:
            room = width - len(lines[-1])
            lines[-1] += piece[:room]
            piece = piece[room:]
            lines.append("")
        lines[-1] += piece
    return lines


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
    paragraphs = [_wrapped(escape_controls(note), width) for note in notes]
    return escape_controls("\n".join([table, *paragraphs]), keep="\n")


def essential(notes: Sequence[str], width: int = PAGE_WIDTH, last: str = FULL) -> list[str]:
    """Return the notes that fit under a table in short, and ``last``.

    The most important comes first; one that is too long for the room that is left is dropped.
    """
    room = MAX_UNDER_TABLE - _height(last, width)
    kept = []
    for note in notes:
        lines = _height(note, width)
        if lines <= room:
            kept.append(note)
            room -= lines
    return [*kept, last]


def facts_page(title: str, facts: Mapping[str, str], width: int = PAGE_WIDTH) -> str:
    """Return a title and facts under it, one per line or more, with their names on the left."""
    name = max(map(len, facts)) + len(INDENT)
    lines = [title, "=" * width]
    for key, fact in facts.items():
        wrapped = textwrap.wrap(escape_controls(fact), width - name) or [""]
        lines += [
            f"{label:<{name}}{part}" for label, part in zip_longest([key], wrapped, fillvalue="")
        ]
    return "\n".join([*lines, "=" * width])


def _height(note: str, width: int) -> int:
    return _wrapped(escape_controls(note), width).count("\n") + 1


def _wrapped(text: str, width: int = PAGE_WIDTH) -> str:
    return textwrap.fill(text, width, subsequent_indent=INDENT)


def _two_columns(facts: Mapping[str, str]) -> list[str]:
    cells = [f"{name + ':':<14}{fact}" for name, fact in facts.items()]
    half = max(PAGE_WIDTH // 2, *(len(cell) + 2 for cell in cells[::2]))
    if half + max(map(len, cells[1::2])) > PAGE_WIDTH:
        return list(map(_wrapped, cells))
    return [f"{left:<{half}}{right}" for left, right in zip(cells[::2], cells[1::2], strict=True)]
