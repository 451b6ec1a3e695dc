"""A result as a document: HTML for people, Markdown, CSV, and a folder with all of it.

Everything here is made from a result, so it costs no privacy and needs no network.
"""

import csv as _csv
import io
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpinfer.errors import InputError, installed, missing

if not installed("jinja2", "matplotlib"):
    raise missing("dp.report", "report", "jinja2", "matplotlib")

from jinja2 import Environment, StrictUndefined

from dpinfer import persistence
from dpinfer.result import rendering, text
from dpinfer.result.result import FitResult
from dpinfer.views.forest import NARROW, WIDE, drawing, not_drawn
from dpinfer.views.plot import forest
from dpinfer.views.words import MAY_NOT, NOT_PRIVATE, sections

__all__ = ["csv", "html", "markdown", "write"]

_TITLE = "Regression coefficients with confidence intervals"
_WORDS = (
    "name",
    "status",
    "instead_of",
    "reference",
    "public",
    "outcome",
    "yes",
    "formula",
    "unit",
)
"""The columns of the CSV file that hold words."""


def html(result: FitResult, *, title: str | None = None, level: float = 0.95) -> str:
    """A page about a ``result`` that stands alone: table, forest plot, privacy statement, estimand,
    limits, citation.

    ``title`` is its heading, ``level`` that of the intervals.

    It has no script and loads nothing.  It prints on A4, fits a phone, and can be read aloud.  All
    names are escaped.
    """
    heading = title or _TITLE
    warning = None
    if not result.privacy.private:
        warning = NOT_PRIVATE
    page = files("dpinfer.views").joinpath("page.html.j2").read_text(encoding="utf-8")
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return template.from_string(page).render(
        title=heading,
        warning=warning,
        level=f"{100 * level:.4g}%",
        facts=_facts(result),
        heads=rendering.heads(level),
        rows=_rows(result, level),
        careful=result.warnings(),
        notes=_notes(result, level),
        not_drawn=not_drawn(result),
        drawings=[drawing(result, level, layout) for layout in (WIDE, NARROW)],
        sections=list(sections(result, heading, level)),
    )


def markdown(result: FitResult, *, title: str | None = None, level: float = 0.95) -> str:
    """The regression table and all statements as Markdown; ``result``, ``title`` and ``level`` as
    for `html`.
    """
    heading = title or _TITLE
    lines = [f"# {rendering.plain(heading)}", ""]
    if not result.privacy.private:
        lines += [f"**{NOT_PRIVATE}**", ""]
    lines += [f"- {key}: {rendering.plain(fact)}" for key, fact in _facts(result).items()]
    lines += ["", *rendering.markdown_table(rendering.rows(result, level), level)]
    for note in (*result.warnings(), *_notes(result, level)):
        lines += ["", rendering.plain(note)]
    for section in sections(result, heading, level):
        lines += ["", f"## {section.title}"]
        for paragraph in section.paragraphs:
            lines += ["", rendering.plain(paragraph)]
        if section.items:
            lines += ["", *(f"- {rendering.plain(item)}" for item in section.items)]
    return "\n".join(lines) + "\n"


def csv(result: FitResult, *, level: float = 0.95) -> str:
    """The rows of ``result.table(level)`` as CSV with all digits; infinities are written as inf, no
    number as nan.

    A row with ``instead_of`` is no coefficient of the formula: it is known instead of the open one
    above it, which this names.

    Beside them stands what a reader needs who has the file alone: ``in_predictions``, what a
    coefficient counts in a prediction; ``centre``, where the reported intercept is the prediction;
    the reference level, what is public about the columns, the number of usable records, outcome,
    formula and unit of privacy.  The last row is the ordinary intercept, where the fit reports
    another.

    A name that a spreadsheet would take for a formula, one that begins with =, +, -, @, a tab or a
    line end, gets an apostrophe in front; a carriage return and other controls are written as
    escapes.
    """
    beside = _beside(result)
    rows = [row | beside[row["instead_of"] or row["name"]] for row in rendering.rows(result, level)]
    for row in rows:
        if text.stands_in(row):
            row |= {"in_predictions": "", "centre": "", "reference": ""}
    written = io.StringIO()
    sheet = _csv.DictWriter(written, fieldnames=list(rows[0]), lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(row | {key: _no_formula(str(row[key])) for key in _WORDS} for row in rows)
    return written.getvalue()


def _beside(result: FitResult) -> dict[str, dict[str, Any]]:
    """What stands beside each row of the table in a CSV file, by the names of the rows."""
    public = {}
    places: list[Any] = [""] * len(result.names)
    if result.question is not None:
        public = result.question.about()
    if result.geometry is not None:
        places = ["", *result.geometry.centre.tolist()]
    shared = _of_all_rows(result)
    beside = {}
    for name, value, place in zip(result.names, result.estimate.tolist(), places, strict=True):
        reference, facts = public.get(name, ("", ""))
        beside[name] = {
            "in_predictions": value,
            "centre": place,
            "reference": reference,
            "public": facts,
            **shared,
        }
    ordinary = result.ordinary_intercept()
    if ordinary is not None:
        beside[ordinary["name"]] = {
            "in_predictions": ordinary["in_predictions"],
            "centre": "",
            "reference": "",
            "public": "",
            **shared,
        }
    return beside


def _of_all_rows(result: FitResult) -> dict[str, Any]:
    """What is the same in every row: how many records or units there are, as far as it is told, or
    what all rows count together; outcome, formula, and unit of privacy.
    """
    unit = result.model.unit
    total_name = unit.word if unit.whole else "total_weight"
    total = None
    if result.geometry is not None:
        total = result.geometry.records
    elif unit.whole:
        total = result.model.n
    facts: dict[str, Any] = {
        total_name: total,
        "outcome": "",
        "yes": "",
        "formula": "",
        "unit": result.privacy.unit,
    }
    if result.question is not None:
        facts["outcome"] = result.question.outcome
        facts["formula"] = result.question.asked
        if result.question.yes is not None:
            facts["yes"] = result.question.yes
    return facts


def write(
    result: FitResult,
    folder: str | os.PathLike[str],
    *,
    title: str | None = None,
    level: float = 0.95,
) -> list[Path]:
    """Write ``result.json``, ``coefficients.csv``, ``report.html`` and ``forest.png``, and give
    their paths.

    ``title`` and ``level`` are those of the page.

    The folder is made if it is not there.  Nothing is moved into place before all files are written
    in full elsewhere in the folder, so that no file is ever seen half-written.
    """
    picture = io.BytesIO()
    forest(result, level=level).savefig(picture, format="png")
    contents = {
        "result.json": result.to_json().encode(),
        "coefficients.csv": csv(result, level=level).encode(),
        "report.html": html(result, title=title, level=level).encode(),
        "forest.png": picture.getvalue(),
    }
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        persistence.write_all(target, contents)
    except OSError as fault:
        raise InputError(
            f"cannot write the report to {target}: {fault.strerror}; name a folder you may write to"
        ) from None
    return [target / name for name in contents]


def _rows(result: FitResult, level: float) -> list[dict[str, Any]]:
    return [
        {
            "name": row["name"],
            "status": row["status"] if text.set_aside(row) else "",
            "instead_of": row["instead_of"],
            "cells": rendering.cells(row),
        }
        for row in rendering.rows(result, level)
    ]


def _notes(result: FitResult, level: float) -> list[str]:
    """What stands under the table: what open means, what indented lines are, and what may not be
    concluded.
    """
    rows = result.lines(level)
    notes = []
    if any(text.is_open(row) for row in rows):
        notes.append(text.MEANING)
    return [*notes, *text.about_instead(rows), MAY_NOT]


def _facts(result: FitResult) -> dict[str, str]:
    """What stands at the head of a report."""
    model = result.model
    facts = {}
    if result.question is not None:
        facts["Question"] = result.question.asked
    facts["Privacy"] = "none"
    facts["Protects"] = "nobody"
    if result.privacy.private:
        facts["Privacy"] = str(result.privacy.budget)
        facts["Protects"] = result.privacy.unit
    facts |= result.size
    reported = "all reported"
    if not result.reported.all():
        reported = f"{int(result.reported.sum())} of them with an interval"
    facts["Coefficients"] = f"{len(result.names)}, {reported}"
    penalty = "no\u00a0penalty"
    if model.penalty:
        penalty = f"c\u00a0=\u00a0{model.penalty:.3g}"
    facts["Model"] = f"{model.words.name}, {penalty}"
    return facts


def _no_formula(name: str) -> str:
    shown = text.harmless(name, keep="\n\t")  # a carriage return would begin a new row
    if shown.startswith(("=", "+", "-", "@", "\t", "\n")):
        return f"'{shown}"
    return shown
