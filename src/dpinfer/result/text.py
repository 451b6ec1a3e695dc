"""Plain text for people: numbers, and for a terminal a regression table with statements under it."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any
from unicodedata import category

from dpinfer.result.statements import OPENING, REPORTED

_WIDTH = 86
_NUMBERS = 66  # letters that the six numbers of a row take
_CONTROLS = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
NOTHING = "–"
NOT_IDENTIFIED = "not identified"
OPEN = "open"
INDENT = "  "
MEANING = (
    "All columns of the formula are in the model. An open coefficient has no interval at this budget, which says "
    "nothing about its size or sign; its uncertainty is inside the intervals of the others."
)
"""What open means."""
INSTEAD = (
    "An indented line answers another question than the open one above it, as its name says: it is no estimate of that "
    "coefficient."
)
NOT_DRAWN = "Lines that are known instead of open ones stand in the table; they are not drawn."
CLUSTERED = "The intervals are robust to correlation among the rows of a unit (CR1)."
REMEDIES = (
    "merge rare levels, or name a common level as reference",
    "declare tighter public bounds",
    "give a larger budget or more records",
)
"""What helps where a coefficient has no interval."""


def harmless(words: str, keep: str = "") -> str:
    """Text that a terminal shows and does not obey: controls, line ends and changes of direction
    become escapes.
    """
    return "".join(
        letter
        if letter in keep or (category(letter) not in _CONTROLS and letter not in _DIRECTIONS)
        else _escape(letter)
        for letter in words
    )


def _escape(letter: str) -> str:
    return f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}"


def set_aside(row: Mapping[str, Any]) -> bool:
    """Whether a row of a result's table has no interval; its status then says why."""
    return bool(row["status"] != REPORTED)


def is_open(row: Mapping[str, Any]) -> bool:
    """Whether it has none although its column is in the model and the others have theirs."""
    return str(row["status"]).startswith(OPENING)


def stands_in(row: Mapping[str, Any]) -> bool:
    """Whether a line answers another question than the open one above it."""
    return bool(row.get("instead_of"))


def places(std_error: float) -> int:
    """Decimals that show two digits of a standard error, and so never round an interval to a point."""
    return max(0, 1 - math.floor(math.log10(std_error))) if 0 < std_error < math.inf else 3


def number(value: float, decimals: int) -> str:
    """A number with so many decimals and a true minus sign; in powers of ten where it would be very
    long.
    """
    if not math.isfinite(value):
        return NOTHING
    plain = decimals <= 8 and abs(value) < 1e9
    written = f"{value:,.{decimals}f}" if plain else f"{value:.5g}"
    return written.replace("-", "−") if float(written.replace(",", "")) else written.lstrip("-")


def p_value(value: float) -> str:
    """Three decimals; below .001 it says so."""
    if not math.isfinite(value):
        return NOTHING
    return "< .001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def interval(row: Mapping[str, Any]) -> str:
    """Low to high, with the decimals of the standard error, and up to three more where an end would
    round to 0.
    """
    if set_aside(row):
        return OPEN if is_open(row) else NOT_IDENTIFIED
    decimals = places(row["std_error"])
    nearest = min((abs(end) for end in (row["low"], row["high"]) if end), default=1.0)
    decimals = max(decimals, min(decimals + 3, -math.floor(math.log10(nearest))))
    return f"{number(row['low'], decimals)} to {number(row['high'], decimals)}"


def percent(share: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * share:.0f}%" if math.isfinite(share) else NOTHING


def page(
    title: str, top: tuple[Sequence[str], Mapping[str, str]], table: str, statements: Sequence[str]
) -> str:
    """Title, the question, facts in two columns, the table, then one wrapped paragraph a statement."""
    question, facts = top
    asked, wrapped = (
        [textwrap.fill(words, _WIDTH, subsequent_indent="  ") for words in part]
        for part in (question, statements)
    )
    whole = "\n".join(
        [title.center(_WIDTH).rstrip(), "=" * _WIDTH, *asked, *_two_columns(facts), table, *wrapped]
    )
    return harmless(whole, keep="\n")


def coefficients(rows: Sequence[Mapping[str, Any]], level: float) -> str:
    """One line a coefficient, with the interval of the given level; what stands in for it is
    indented under it.
    """
    named = [(INDENT * stands_in(row) + harmless(row["name"]), row) for row in rows]
    width = max(20, *(len(name) + 1 for name, _ in named))
    tail = (1 - level) / 2
    titles = ("estimate", "std err", "z", "P>|z|", f"[{tail:.4g}", f"{1 - tail:.4g}]")
    head = " " * width + "".join(title.rjust(11) for title in titles)
    lines = [line for name, row in named for line in _lines(name, row, width)]
    rule = max(_WIDTH, len(head))
    return "\n".join(["=" * rule, head, "-" * rule, *lines, "=" * rule])


def _lines(name: str, row: Mapping[str, Any], width: int) -> list[str]:
    """The numbers of one row beside its name, or its status where there is no interval."""
    if not set_aside(row):
        return [f"{name:<{width}}{_numbers(row)}"]
    first, *others = textwrap.wrap(harmless(row["status"]), _NUMBERS, subsequent_indent=INDENT)
    return [f"{name:<{width}}{first}", *(" " * width + other for other in others)]


def _numbers(row: Mapping[str, Any]) -> str:
    return (
        f"{row['estimate']:11.4g}{row['std_error']:11.4g}{row['z']:11.3f}{p_value(row['p_value']):>11}"
        f"{row['low']:11.4g}{row['high']:11.4g}"
    )


def no_estimates(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence on the coefficients without an interval, and what helps; nothing where there are
    none.
    """
    without = [row for row in rows if set_aside(row)]
    if not without:
        return []
    remedies = "; ".join(REMEDIES)
    if any(is_open(row) for row in without):
        return [f"{MEANING} To get an interval: {remedies}."]
    listed = (
        f"{len(without)} coefficients have" if len(without) > 1 else f"{without[0]['name']} has"
    )
    return [
        f"{listed} no estimate at this budget, and none may be read into that. To get one: {remedies}."
    ]


def reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each reason why a coefficient has no interval, with the names it holds for."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if set_aside(row):
            found.setdefault(row["status"], []).append(row["name"])
    return [f"{', '.join(names)}: {status}" for status, names in found.items()]


def about_instead(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What indented lines are; nothing where there are none."""
    return [INSTEAD] if any(stands_in(row) for row in rows) else []


def _two_columns(facts: Mapping[str, str]) -> list[str]:
    cells = [f"{name + ':':<14}{fact}" for name, fact in facts.items()]
    half = max(_WIDTH // 2, *(len(cell) + 2 for cell in cells[::2]))
    return [f"{left:<{half}}{right}" for left, right in zip(cells[::2], cells[1::2], strict=True)]


def study(rows: Sequence[Mapping[str, Any]], statements: Sequence[str]) -> str:
    """One line a coefficient of a coverage study, with statements under it."""
    rows = [{**row, "name": harmless(row["name"])} for row in rows]
    width = max(20, *(len(row["name"]) + 1 for row in rows))
    columns = (
        "target", "coverage", "stated_coverage", "length", "length_sd", "nonprivate_length", "reported", "answered",
    )  # fmt: skip
    titles = ("target", "asked", "stated", "length", "sd", "no noise", "reported", "answered")
    head = " " * width + "".join(title.rjust(11) for title in titles)
    lines = [
        f"{row['name']:<{width}}" + "".join(f"{row[column]:11.4g}" for column in columns)
        for row in rows
    ]
    rule = max(_WIDTH, len(head))
    wrapped = [textwrap.fill(statement, _WIDTH, subsequent_indent="  ") for statement in statements]
    return harmless(
        "\n".join(["=" * rule, head, "-" * rule, *lines, "=" * rule, *wrapped]), keep="\n"
    )
