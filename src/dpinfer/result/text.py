"""Plain text for people: numbers, lines without an interval, and tables with statements under them.

All plain-text tables are made by `table`: those of a result, of results side by side, of a coverage
study and of a forecast.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any
from unicodedata import category

from dpinfer.result.statements import BY_RECORDS, OPENING, REPORTED

_WIDTH = 86
_CELL = 11  # letters of a number and the space before it, at least
_LARGEST_LOG = 700.0  # of a number: exp of more is none
_STATUS = 66  # letters of a line of a status: as many as the six numbers of a row take
_STUDY = {
    "target": "target",
    "asked": "coverage",
    "stated": "stated_coverage",
    "length": "length",
    "sd": "length_sd",
    "no noise": "nonprivate_length",
    "reported": "reported",
    "answered": "answered",
}
_CONTROLS = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
NAMES = 20
"""Letters of the column of names, at least."""
NOTHING = "–"
NOT_IDENTIFIED = "not identified"
OPEN = "open"
INDENT = "  "
MEANING = (
    "All columns of the formula are in the model. An open coefficient has no interval at this "
    "budget, which says nothing about its size or sign; its uncertainty is inside the intervals of "
    "the others."
)
"""What open means."""
INSTEAD = (
    "An indented line answers another question than the open one above it, as its name says: it is "
    "no estimate of that coefficient."
)
ALLOWED = (
    "Where z is blank, the interval allows for a bias whose size is only bounded (few records, "
    "outcomes that were cut off, what the last step leaves), at the end or ends where it may lie: it "
    "is longer than the standard error says, and need not be symmetric about the estimate. p goes "
    "with the interval: it is 1 less the largest level whose interval excludes 0."
)
"""Why an interval is not the estimate and so many standard errors either way."""
LOG_RATES = "Coefficients are changes of the logarithm of the rate: exp of one is a rate ratio."
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
    return "".join(letter if letter in keep else _shown(letter) for letter in words)


def _shown(letter: str) -> str:
    if category(letter) not in _CONTROLS and letter not in _DIRECTIONS:
        return letter
    if ord(letter) < 256:
        return f"\\x{ord(letter):02x}"
    return f"\\u{ord(letter):04x}"


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
    if not 0 < std_error < math.inf:
        return 3
    return max(0, 1 - math.floor(math.log10(std_error)))


def number(value: float, decimals: int) -> str:
    """A number with the given decimals and a true minus sign; in powers of ten where it would be
    very long.
    """
    if not math.isfinite(value):
        return NOTHING
    if decimals <= 8 and abs(value) < 1e9:
        written = f"{value:,.{decimals}f}"
    else:
        written = f"{value:.5g}"
    if float(written.replace(",", "")) == 0:
        return written.lstrip("-")
    return written.replace("-", "−")


def p_value(value: float) -> str:
    """Three decimals; below .001 it says so."""
    if not math.isfinite(value):
        return NOTHING
    if value < 0.001:
        return "< .001"
    return f"{value:.3f}".removeprefix("0")


def interval(row: Mapping[str, Any]) -> str:
    """Low to high, with the decimals of the standard error, and up to three more where an end would
    round to 0.
    """
    if is_open(row):
        return OPEN
    if set_aside(row):
        return NOT_IDENTIFIED
    decimals = places(row["std_error"])
    nearest = min((abs(end) for end in (row["low"], row["high"]) if end), default=1.0)
    decimals = max(decimals, min(decimals + 3, -math.floor(math.log10(nearest))))
    return f"{number(row['low'], decimals)} to {number(row['high'], decimals)}"


def percent(share: float) -> str:
    """A share as a whole percentage."""
    if not math.isfinite(share):
        return NOTHING
    return f"{100 * share:.0f}%"


def page(
    title: str, top: tuple[Sequence[str], Mapping[str, str]], body: str, statements: Sequence[str]
) -> str:
    """Title, the question, facts in two columns, a table, then one wrapped paragraph per
    statement.
    """
    question, facts = top
    head = [title.center(_WIDTH).rstrip(), "=" * _WIDTH, *map(_wrapped, question)]
    return harmless("\n".join([*head, *_two_columns(facts), stated(body, statements)]), keep="\n")


def stated(body: str, statements: Sequence[str], width: int = _WIDTH) -> str:
    """A table, and one wrapped paragraph per statement under it."""
    paragraphs = [_wrapped(statement, width) for statement in statements]
    return harmless("\n".join([body, *paragraphs]), keep="\n")


def _wrapped(words: str, width: int = _WIDTH) -> str:
    return textwrap.fill(words, width, subsequent_indent=INDENT)


def _two_columns(facts: Mapping[str, str]) -> list[str]:
    cells = [f"{name + ':':<14}{fact}" for name, fact in facts.items()]
    half = max(_WIDTH // 2, *(len(cell) + 2 for cell in cells[::2]))
    return [f"{left:<{half}}{right}" for left, right in zip(cells[::2], cells[1::2], strict=True)]


def table(
    titles: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str] | str]],
    narrowest: int = _CELL,
    gap: int = 1,
    width: int = _WIDTH,
) -> str:
    """A table between rules: one line per name with its cells, or with words in their place.

    Names stand at the left, cells at the right of their columns, which are as wide as their longest
    cell and the ``gap`` before it, and not below ``narrowest``.  Words take as many lines as they
    need; a name with neither has a line of its own, however long it is.  Rules are at least
    ``width`` letters long.
    """
    named = [(harmless(name), cells) for name, cells in rows]
    first = max(NAMES, *(len(name) + 1 for name, cells in named if cells))
    columns = zip(titles, *(cells for _, cells in named if not isinstance(cells, str)), strict=True)
    widths = [max(narrowest, *(len(cell) + gap for cell in column)) for column in columns]
    head = _line("", titles, first, widths)
    lines = []
    for name, cells in named:
        if isinstance(cells, str):
            lines += _worded(name, cells, first)
        else:
            lines.append(_line(name, cells, first, widths))
    rule = max(width, len(head))
    return "\n".join(["=" * rule, head, "-" * rule, *lines, "=" * rule])


def _line(name: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    line = f"{name:<{first}}" + "".join(cell.rjust(width) for cell, width in pairs)
    return line.rstrip()


def _worded(name: str, words: str, first: int) -> list[str]:
    lines = textwrap.wrap(harmless(words), _STATUS, subsequent_indent=INDENT)
    return [f"{left:<{first}}{line}" for left, line in zip_longest([name], lines, fillvalue="")]


def coefficients(rows: Sequence[Mapping[str, Any]], level: float) -> str:
    """One line per coefficient, with the interval of the given level, or its status where it has
    none; what stands in for it is indented under it.
    """
    tail = (1 - level) / 2
    titles = ("estimate", "std err", "z", "p", f"[{tail:.4g}", f"{1 - tail:.4g}]")
    return table(titles, [(INDENT * stands_in(row) + row["name"], _cells(row)) for row in rows])


def _cells(row: Mapping[str, Any]) -> list[str] | str:
    if set_aside(row):
        return str(row["status"])
    return [
        f"{row['estimate']:.4g}",
        f"{row['std_error']:.4g}",
        NOTHING if math.isnan(row["z"]) else f"{row['z']:.3f}",
        p_value(row["p_value"]),
        f"{row['low']:.4g}",
        f"{row['high']:.4g}",
    ]


def study(rows: Sequence[Mapping[str, Any]], statements: Sequence[str]) -> str:
    """One line per coefficient of a coverage study, with statements under it."""
    lines = [(row["name"], [f"{row[key]:.4g}" for key in _STUDY.values()]) for row in rows]
    return stated(table(list(_STUDY), lines), statements)


def ratio(row: Mapping[str, Any]) -> str:
    """exp of a coefficient, and of the ends of its interval."""
    if set_aside(row):
        return interval(row)
    shown = ratio_row(row)
    return f"{number(shown['estimate'], places(shown['std_error']))} ({interval(shown)})"


def ratio_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a result's table with exp of the estimate and of the ends of its interval."""
    middle = _exp(row["estimate"])
    # a ratio near 0 is written with the digits of its own error
    error = middle * row["std_error"]
    ends = {"low": _exp(row["low"]), "high": _exp(row["high"])}
    return {**row, "estimate": middle, "std_error": error, **ends}


def _exp(value: float) -> float:
    return math.exp(min(value, _LARGEST_LOG))


def no_estimates(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence on the coefficients without an interval, and what helps; nothing where there are
    none.
    """
    without = [row for row in rows if set_aside(row) and row["status"] not in BY_RECORDS]
    if not without:
        return []
    remedies = "; ".join(REMEDIES)
    if any(is_open(row) for row in without):
        return [f"{MEANING} To get an interval: {remedies}."]
    listed = f"{without[0]['name']} has"
    if len(without) > 1:
        listed = f"{len(without)} coefficients have"
    return [
        f"{listed} no estimate at this budget, and none may be read into that. To get one: "
        f"{remedies}."
    ]


def reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each reason why a coefficient has no interval, with the names it holds for."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if set_aside(row):
            names.setdefault(row["status"], []).append(row["name"])
    return [f"{', '.join(listed)}: {status}" for status, listed in names.items()]


def about_allowances(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why lines with an interval have no z; nothing where all have one."""
    if any(math.isnan(row["z"]) and not set_aside(row) for row in rows):
        return [ALLOWED]
    return []


def about_instead(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What indented lines are; nothing where there are none."""
    if any(stands_in(row) for row in rows):
        return [INSTEAD]
    return []
