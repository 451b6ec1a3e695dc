"""A description as a document: Table 1 with small bars and boxes, in HTML, Markdown and CSV."""

import csv as _csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from dpinfer import persistence
from dpinfer.result import table_one
from dpinfer.result.column_figures import MEDIAN, Q25, Q75, SHARE, Figure
from dpinfer.result.description import Description
from dpinfer.result.grid import markdown_text
from dpinfer.result.question import column_table, public_facts
from dpinfer.result.statements import errors_counted
from dpinfer.schema.columns import Column, Number, Outcome, heading
from dpinfer.schema.guesses import level_text
from dpinfer.views.page import NOT_PRIVATE, Section, markdown_sections, no_formula, rendered
from dpinfer.views.promise import privacy_sections

_TITLE = "Description of a table"
_MAY_NOT = (
    "Do not conclude that nobody has a level because its interval includes 0. Do not conclude that "
    "two groups are alike because the interval of their difference includes 0. Do not conclude that a "
    "difference has a cause, or anything about one person."
)
_STEPS = {
    "counts and moments": "counts of levels, sums of numbers and of their squares",
    "quartiles": "histograms around the quartiles",
}
_PICTURE_WIDTH = 100.0


@dataclass(frozen=True)
class Picture:
    """A small bar of a share or a small box of quartiles, from 0 to 100 from left to right.

    ``ends`` are those of an interval: of the share, or of the median.  A bar goes from 0 to
    ``middle``; a box from ``left`` to ``right``, with the median in the ``middle``.
    """

    box: bool
    middle: float
    ends: tuple[float, float]
    left: float = 0.0
    right: float = 0.0


def html(described: Description, title: str | None) -> str:
    """Write a page that stands alone: Table 1, how to read it, privacy, limits, citation."""
    heading = title or _TITLE
    warning = None if described.privacy.private else NOT_PRIVATE
    facts = {
        "title": heading,
        "warning": warning,
        "careful": [],
        "interval": table_one.interval_name(described),
        "errors": errors_counted(described.privacy.budget),
        "facts": _facts(described),
        "heads": table_one.heads(described),
        "blocks": [_block(block) for block in table_one.blocks(described)],
        "full_heads": table_one.heads(described, full=True),
        "full_rows": table_one.grid(described, full=True).rows,
        "notes": [*table_one.notes(described), _MAY_NOT],
        "sections": list(sections(described, heading)),
    }
    return rendered("table.html.j2", facts)


def _block(block: table_one.ColumnBlock) -> dict[str, Any]:
    lines = []
    for row in block.compact_rows():
        pictures: list[Picture | None] = [None] * len(row.cells)
        for place, one in enumerate(row.drawn):
            pictures[place] = _picture(block, one)
        cells = list(zip(row.cells, pictures, strict=True))
        lines.append({"label": row.label, "cells": cells, "indented": row.indented})
    return {"public": _declared_range(block.column), "lines": lines}


def _declared_range(column: Column) -> str:
    """Return the declared range of a number; the levels of a column have rows of their own."""
    if column.levels or not isinstance(column, Number | Outcome):
        return ""
    if isinstance(column, Number) and column.kind == "boolean":
        return ""
    return f"declared {public_facts(column)}"


def _picture(block: table_one.ColumnBlock, one: Figure | None) -> Picture | None:
    """Return a bar for a share, a box for a median; none where one of its numbers is not reported."""
    if one is None or not _drawn(one):
        return None
    if one.figure == SHARE:
        return _bar(one)
    quartiles = [block.figures.get((None, name), {}).get(one.group) for name in (Q25, MEDIAN, Q75)]
    return _box(block.column, quartiles)


def _drawn(one: Figure) -> bool:
    return one.reported and all(map(math.isfinite, (one.estimate, one.low, one.high)))


def _bar(one: Figure) -> Picture:
    middle = 0.0 if table_one.may_be_nothing(one) else _percent(one.estimate, 0.0, 1.0)
    return Picture(False, middle, (_percent(one.low, 0.0, 1.0), _percent(one.high, 0.0, 1.0)))


def _box(column: Column, quartiles: Sequence[Figure | None]) -> Picture | None:
    """Return the quartiles on the declared range."""
    shown = [one for one in quartiles if one is not None and _drawn(one)]
    if len(shown) < 3 or not isinstance(column, Number | Outcome):
        return None
    if column.low is None or column.high is None:
        return None
    ends = (column.low, column.high)
    left, middle, right = (_percent(one.estimate, *ends) for one in shown)
    median = shown[1]
    interval = (_percent(median.low, *ends), _percent(median.high, *ends))
    return Picture(True, middle, interval, left, right)


def _percent(value: float, low: float, high: float) -> float:
    """Return the position of a value between two ends in percent; beyond them it is at the end."""
    return round(min(max((value - low) / (high - low), 0.0), 1.0) * _PICTURE_WIDTH, 2)


def sections(described: Description, title: str) -> Iterator[Section]:
    """Yield all statements of the page, in the order in which they are read."""
    beforehand = "What was declared about the columns beforehand:"
    paragraphs = (*described.meanings(), beforehand)
    yield Section("What the figures are", paragraphs, table=column_table(described.columns))
    yield _reading(described)
    yield from privacy_sections(described.privacy, _STEPS)
    limits = "What the privacy promise and the intervals do not cover:"
    yield Section("Limits", (limits,), described.caveats())
    yield _citation(described, title)


def _reading(described: Description) -> Section:
    often = f"{100 * described.confidence:.4g}"
    return Section(
        "How to read an interval",
        (
            "If the data were collected and protected afresh many times, about "
            f"{often} in 100 of a figure's intervals would contain the number that is estimated.",
            f"{errors_counted(described.privacy.budget)} So nothing needs to be added to them; "
            "more records or a larger budget shorten them.",
        ),
    )


def _citation(described: Description, title: str) -> Section:
    privacy = described.privacy
    kind = f"protected by {privacy.budget}" if privacy.private else "not private"
    if privacy.release:
        kind += f", release {privacy.release}"
    words = (
        f"{title}. Figures with confidence intervals, {kind}. Report by dpinfer "
        f"{version('dpinfer')}."
    )
    return Section("How to cite", (words,))


def _facts(described: Description) -> dict[str, str]:
    """Return the facts at the head of the page."""
    facts = {"Described": ", ".join(column.name for column in described.columns)}
    number = "number private" if described.n is None else f"{described.n:,}"
    facts[described.unit.word.capitalize()] = number
    if described.by:
        facts["Groups"] = (
            f"{described.by_label or described.by}: {', '.join(map(table_one.level_name, described.groups))}"
        )
    facts["Privacy"] = "none"
    facts["Protects"] = "nobody"
    if described.privacy.private:
        facts["Privacy"] = str(described.privacy.budget)
        facts["Protects"] = described.privacy.unit
    return facts


def markdown(described: Description, title: str | None) -> str:
    """Write Table 1 and all statements as Markdown."""
    heading = title or _TITLE
    lines = [f"# {markdown_text(heading)}", ""]
    if not described.privacy.private:
        lines += [f"**{NOT_PRIVATE}**", ""]
    lines += [f"- {key}: {markdown_text(fact)}" for key, fact in _facts(described).items()]
    lines += ["", *table_one.grid(described).markdown()]
    for note in (*table_one.notes(described), _MAY_NOT):
        lines += ["", markdown_text(note)]
    lines += markdown_sections(sections(described, heading))
    return "\n".join(lines) + "\n"


def csv(described: Description) -> str:
    """Write one row per figure with all digits, and what a reader needs who has the file alone."""
    columns = {column.name: column for column in described.columns}
    shared = {
        "confidence": described.confidence,
        described.unit.word: "" if described.n is None else described.n,
        "by": no_formula(described.by),
        "unit": no_formula(described.privacy.unit),
    }
    rows = []
    for one in described.figures:
        public = public_facts(columns[one.column]) if one.column in columns else ""
        words = {
            "column": one.column,
            "label": heading(columns[one.column]) if one.column in columns else one.column,
            "level": "" if one.level is None else level_text(one.level),
            "group": "" if one.group is None else level_text(one.group),
            "figure": one.figure,
        }
        numbers = {"estimate": one.estimate, "low": one.low, "high": one.high}
        last = {"status": one.status, "public": no_formula(public)}
        shown = {key: no_formula(word) for key, word in words.items()}
        rows.append(shown | numbers | last | shared)
    sink = io.StringIO()
    heads = list(rows[0]) if rows else ["column"]
    sheet = _csv.DictWriter(sink, fieldnames=heads, lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(rows)
    return sink.getvalue()


def contents(described: Description, title: str | None) -> dict[str, bytes]:
    """Return the files of a description, by their names."""
    return {
        persistence.DESCRIPTION: described.to_json().encode(),
        "table1.csv": csv(described).encode(),
        "table1.html": html(described, title).encode(),
        "table1.md": markdown(described, title).encode(),
        "table1.tex": f"{described.to_latex()}\n".encode(),
    }
