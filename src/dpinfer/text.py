"""Plain text for a terminal: a regression table with statements under it."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH = 86


def page(title: str, facts: Mapping[str, str], table: str, statements: Sequence[str]) -> str:
    """Title, facts in two columns, the table, then one wrapped paragraph a statement."""
    wrapped = [textwrap.fill(statement, _WIDTH, subsequent_indent="  ") for statement in statements]
    return "\n".join([title.center(_WIDTH).rstrip(), "=" * _WIDTH, *_two_columns(facts), table, *wrapped])


def coefficients(rows: Sequence[Mapping[str, Any]], level: float) -> str:
    """One line a coefficient, with the interval of the given level."""
    width = max(20, *(len(row["name"]) + 1 for row in rows))
    tail = (1 - level) / 2
    titles = ("estimate", "std err", "z", "P>|z|", f"[{tail:.4g}", f"{1 - tail:.4g}]")
    head = " " * width + "".join(title.rjust(11) for title in titles)
    lines = [
        f"{row['name']:<{width}}{row['estimate']:11.4g}{row['std_error']:11.4g}{row['z']:11.3f}{row['p_value']:11.3f}"
        f"{row['low']:11.4g}{row['high']:11.4g}"
        for row in rows
    ]
    rule = max(_WIDTH, len(head))
    return "\n".join(["=" * rule, head, "-" * rule, *lines, "=" * rule])


def _two_columns(facts: Mapping[str, str]) -> list[str]:
    cells = [f"{name + ':':<14}{fact}" for name, fact in facts.items()]
    half = max(_WIDTH // 2, *(len(cell) + 2 for cell in cells[::2]))
    return [f"{left:<{half}}{right}" for left, right in zip(cells[::2], cells[1::2], strict=True)]


def study(rows: Sequence[Mapping[str, Any]], statements: Sequence[str]) -> str:
    """One line a coefficient of a coverage study, with statements under it."""
    width = max(20, *(len(row["name"]) + 1 for row in rows))
    columns = ("target", "coverage", "length", "length_sd", "nonprivate_length", "reported")
    titles = ("target", "coverage", "length", "sd", "no noise", "reported")
    head = " " * width + "".join(title.rjust(11) for title in titles)
    lines = [f"{row['name']:<{width}}" + "".join(f"{row[column]:11.4g}" for column in columns) for row in rows]
    rule = max(_WIDTH, len(head))
    wrapped = [textwrap.fill(statement, _WIDTH, subsequent_indent="  ") for statement in statements]
    return "\n".join(["=" * rule, head, "-" * rule, *lines, "=" * rule, *wrapped])
