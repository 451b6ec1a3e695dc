"""Reports on a result or a description: HTML for people, Markdown, CSV, and a folder with all of it.

Every format has the same sections, which explain the numbers in plain words.  A report is made of
released numbers, so that it costs nothing, and it needs no network.
"""

import csv as _csv
import io
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpinfer.errors import InputError, installed, missing

if not installed("jinja2", "matplotlib"):
    raise missing("dp.report", "report", "jinja2", "matplotlib")

import numpy as np

from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result import coefficient_table
from dpinfer.result.description import Description
from dpinfer.result.grid import markdown_text
from dpinfer.result.question import Question
from dpinfer.result.readable_units import about_units, label
from dpinfer.result.result import FitResult
from dpinfer.result.statements import BY_RECORDS
from dpinfer.result.survival_curves import SurvivalCurves
from dpinfer.schema.design import COUNT, HAZARD
from dpinfer.views import forest as pictures
from dpinfer.views import page, survival_page, table_page
from dpinfer.views.disclosure import disclosure
from dpinfer.views.forest_page import RESULT_NARROW, RESULT_WIDE, result_picture
from dpinfer.views.page import MAY_NOT, NOT_PRIVATE, Section
from dpinfer.views.plot import forest
from dpinfer.views.promise import privacy_sections
from dpinfer.views.registry import registry
from dpinfer.views.side_by_side import side_by_side, write_side_by_side

__all__ = [
    "csv",
    "disclosure",
    "html",
    "markdown",
    "registry",
    "side_by_side",
    "write",
    "write_side_by_side",
]

_LEVEL = 0.95  # of intervals, where nobody says another
Saved = FitResult | Description | SurvivalCurves
"""The saved results that a report can show."""

_STEPS = {
    "scales": "where the values of the columns lie",
    "outcome range": "where the outcome lies",
    "outcome sizes": "how large outcomes are",
    "influence": "how far records are from a released line",
    "crude moments": "how the columns vary together, roughly",
    "moments": "how the columns vary together, and with the outcome",
    "first steps": "steps towards the coefficients",
    "first step": "a first step towards the coefficients",
    "estimate": "the coefficients",
    "rest": "what the last step leaves",
    "matrices": "the matrices behind the standard errors",
    "hessian": "the curvature matrix behind the standard errors",
    "covariance": "the score covariance behind the standard errors",
}
_IN_ONE = {"estimate": "the coefficients, with the matrices behind the standard errors"}
_UNITS = {
    "margin": "Coefficients are in the units of the columns.",
    "residual": (
        "Coefficients are in units of the outcome, as it stands on the left of the formula, by those "
        "of the columns."
    ),
    COUNT: f"{coefficient_table.LOG_RATES} They are in the units of the columns.",
    HAZARD: f"{coefficient_table.LOG_HAZARDS} They are in the units of the columns.",
}


def sections(result: FitResult, title: str, level: float) -> Iterator[Section]:
    """Yield all statements of a report, in the order in which they are read."""
    if result.question is not None:
        yield _regressed(result, result.question)
    yield _reading(result, level)
    if result.reported.any() and not isinstance(result.privacy.budget, NoPrivacy):
        yield _interval_parts(result)
    if not result.reported.all():
        yield _without_interval(result, level)
    in_one = result.geometry is not None
    yield from privacy_sections(result.privacy, _STEPS | _IN_ONE if in_one else _STEPS)
    yield _estimand(result, level)
    limits = result.privacy.caveats(result.model.n, weighted=result.model.weighted)
    yield Section("Limits", ("What the privacy promise and the intervals do not cover:",), limits)
    yield _citation(result, title)


def _regressed(result: FitResult, asked: Question) -> Section:
    return Section(
        "What was regressed",
        (
            asked.asked,
            " ".join([*asked.sentences(), result.usable]),
            "What was declared about the columns beforehand; values beyond a bound count as the "
            "bound:",
        ),
        table=asked.column_table(),
    )


def _reading(result: FitResult, level: float) -> Section:
    paragraphs = [
        "If the data were collected and protected afresh many times, about "
        f"{100 * level:.4g} in 100 of a row's intervals would contain the number that is estimated. "
        "An interval that contains 0 leaves the sign open."
    ]
    if isinstance(result.privacy.budget, NoPrivacy):
        paragraphs.append("The noise was off: the intervals count the sampling error alone.")
    else:
        paragraphs.append(
            f"Noise was added on purpose to protect {result.privacy.unit}. The intervals count it as "
            "well as the sampling error, so nothing needs to be added to them."
        )
    if result.privacy.neighbours.units:
        paragraphs.append(coefficient_table.CLUSTERED)
    paragraphs.append(
        "Each interval is made for its own row. A statement about several rows at once needs a "
        "simultaneous band."
    )
    return Section("How to read an interval", tuple(paragraphs))


def _interval_parts(result: FitResult) -> Section:
    """Say what shortens each part of an interval."""
    clipped = "values, scores or outcomes were clipped"
    if result.model.of != "residual":
        clipped += ", events are few or the last step leaves a remainder"
    return Section(
        "Parts of each interval",
        (
            "Each interval has three parts. The last column of the table has them in percent of its "
            "length. The bars of the plot show them from the inside out.",
        ),
        (
            "Sampling error: what the interval would be without privacy. More records shorten it; a "
            "larger budget never does.",
            f"Bias bound: what is added because {clipped}. Tighter bounds, a logarithm and merged levels "
            "shorten it, and a larger budget as far as it lets the fit clip less.",
            "Privacy noise, with the uncertainty that it gives the Hessian: a larger budget, more "
            "records and fewer columns shorten it.",
        ),
    )


def _without_interval(result: FitResult, level: float) -> Section:
    rows = result.table(level)
    if any(coefficient_table.is_not_reported(row) for row in rows):
        title = "What is not reported"
        meaning = (
            "Why coefficients have no interval at this budget. What this means is said under the "
            "table."
        )
    else:
        title = "What is not identified"
        meaning = (
            "At this budget the data do not determine the coefficients below. They have no estimate "
            "and no finite interval, which says nothing about their size or sign."
        )
    if all(row["status"] in BY_RECORDS for row in rows if not coefficient_table.is_reported(row)):
        meaning = "The records do not determine the coefficients below, with or without noise."
        return Section(title, (meaning,), tuple(coefficient_table.reasons(rows)))
    if result.too_few:
        meaning = "A part of the table could not be used: see the warning at the top first."
        return Section(title, (meaning,), tuple(coefficient_table.reasons(rows)))
    remedies = f"To get an interval: {'; '.join(coefficient_table.REMEDIES)}."
    return Section(title, (meaning, remedies), tuple(coefficient_table.reasons(rows)))


def _estimand(result: FitResult, level: float) -> Section:
    model = result.model
    return Section(
        "What is estimated",
        (
            f"Each interval is about {model.estimand()}.",
            *result.intercepts(level),
            *result.published(),
            f"{_UNITS[model.of]} They were fitted by {model.fitted} on {result.records} "
            f"{model.unit.word}.",
        ),
    )


def _citation(result: FitResult, title: str) -> Section:
    privacy = result.privacy
    kind = f"protected by {privacy.budget}" if privacy.private else "not private"
    if privacy.release:
        kind += f", release {privacy.release}"
    citation = (
        f"{title}. Regression estimates with confidence intervals, {kind}. Report by dpinfer "
        f"{version('dpinfer')}."
    )
    return Section("How to cite", (citation, f"Method: {result.model.words.method}"))


_TITLE = "Regression coefficients with confidence intervals"
_WORDS = (
    "name",
    "label",
    "status",
    "instead_of",
    "reference",
    "public",
    "outcome",
    "outcome_label",
    "yes",
    "formula",
    "unit",
)
"""The columns of the CSV file that hold words."""
_RATIO_ENDS = {"estimate": "", "low": "_low", "high": "_high"}


def html(
    result: Saved,
    *,
    title: str | None = None,
    level: float | None = None,
    back: str = "",
) -> str:
    """Return a page about a result: table, forest plot, privacy statement, estimand, limits, citation.

    The page of a description is Table 1 with small bars, that of survival curves has their plots.
    It has no script and loads nothing, prints on A4, fits a phone, and can be read aloud.  All names
    are escaped.

    Parameters
    ----------
    result : FitResult, Description or SurvivalCurves
        What is released.
    title : str, optional
        The heading; by default a general one.
    level : float, optional
        The confidence level; 0.95 by default.  A description has its own.
    back : str
        The address of the page that led to the report of a result, for a link above its heading; by
        default there is none.

    Returns
    -------
    str
        The HTML document.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_  # the noise is off, for examples only
    >>> "<h1>Visits</h1>" in dp.report.html(result, title="Visits")
    True
    """
    level = _level_of(result, level)
    if isinstance(result, Description):
        return table_page.html(result, title)
    if isinstance(result, SurvivalCurves):
        return survival_page.html(result, title)
    heading = title or _TITLE
    warning = None
    if not result.privacy.private:
        warning = NOT_PRIVATE
    parts = {
        "title": heading,
        "back": back,
        "warning": warning,
        "facts": _facts(result),
        "sections": list(sections(result, heading, level)),
    }
    return page.rendered("page.html.j2", _estimates(result, level) | parts)


def estimates(result: FitResult, *, level: float = _LEVEL) -> str:
    """Return the table and the forest plot of a report as a section of HTML, for a page of your own.

    The style sheet of documents belongs to it.  All names are escaped.
    """
    parts = {"layout": "fragment.html.j2"}
    return page.rendered("page.html.j2", _estimates(result, level) | parts)


def png(result: FitResult, *, level: float = _LEVEL) -> bytes:
    """Return the forest plot as a picture."""
    picture = io.BytesIO()
    forest(result, level=level).savefig(picture, format="png")
    return picture.getvalue()


def _estimates(result: FitResult, level: float) -> dict[str, Any]:
    """Return the parts of the table and of the forest plot."""
    ratio = pictures.ratio_of(result, ratios=None)
    drawings = [
        result_picture(result, level, layout, ratio) for layout in (RESULT_WIDE, RESULT_NARROW)
    ]
    rows = pictures.result_rows(result, level)
    return {
        "level": f"{100 * level:.4g}%",
        "heads": coefficient_table.titles(result, level),
        "numbers": pictures.axis_title("", counts=result.model.counts),
        "parts": coefficient_table.ABOUT_PARTS,
        "axis": pictures.axis_title(ratio, counts=result.model.counts),
        "number": ratio or "Estimate",
        "neutral": "1" if ratio else "0",
        "words": {
            "sampling": pictures.SAMPLING_ERROR,
            "bias": pictures.WITH_BIAS_BOUND if pictures.has_bias_bound(rows) else "",
            "noise": pictures.WITH_NOISE,
        },
        "rows": _rows(result, level),
        "careful": result.warnings(),
        "notes": _notes(result, level),
        "under": pictures.result_notes(result, rows, len(drawings[0].panels)),
        "drawings": drawings,
    }


def _level_of(result: Saved, level: float | None) -> float:
    """Return the level of the intervals of a document; that of a description was decided with it."""
    if isinstance(result, FitResult):
        return _LEVEL if level is None else level
    if level not in (None, result.confidence):
        word = "this description" if isinstance(result, Description) else "these curves"
        raise InputError(
            f"the intervals of {word} are of level {result.confidence:g}, which was decided when it was "
            "released: leave level out"
        )
    return result.confidence


def markdown(result: Saved, *, title: str | None = None, level: float | None = None) -> str:
    """Return the table of a result or of a description in Markdown, with all statements.

    Parameters
    ----------
    result : FitResult, Description or SurvivalCurves
        What is released.
    title : str, optional
        The heading; by default a general one.
    level : float, optional
        The confidence level; 0.95 by default.  A description has its own.

    Returns
    -------
    str
        The Markdown document.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_  # the noise is off, for examples only
    >>> dp.report.markdown(result, title="Visits").splitlines()[0]
    '# Visits'
    """
    level = _level_of(result, level)
    if isinstance(result, Description):
        return table_page.markdown(result, title)
    if isinstance(result, SurvivalCurves):
        return survival_page.markdown(result, title)
    heading = title or _TITLE
    lines = [f"# {markdown_text(heading)}", ""]
    if not result.privacy.private:
        lines += [f"**{NOT_PRIVATE}**", ""]
    for warning in result.warnings():
        lines += [f"**{markdown_text(warning)}**", ""]
    lines += [f"- {key}: {markdown_text(fact)}" for key, fact in _facts(result).items()]
    shown = coefficient_table.printed_rows(result, level)
    lines += [
        "",
        *coefficient_table.grid(result, shown, level).markdown(),
    ]
    for note in _notes(result, level):
        lines += ["", markdown_text(note)]
    lines += page.markdown_sections(sections(result, heading, level))
    return "\n".join(lines) + "\n"


def csv(result: Saved, *, level: float | None = None) -> str:
    """Return the table of a result or of a description as CSV, with all digits.

    Parameters
    ----------
    result : FitResult, Description or SurvivalCurves
        What is released.
    level : float, optional
        The confidence level; 0.95 by default.  A description has its own.

    Returns
    -------
    str
        One row per coefficient, or per figure of a description.

    Notes
    -----
    Infinities are written as inf, and a number that is missing as nan.  A row with ``instead_of``
    is no coefficient of the formula: it is an alternative to the one above it that is not reported.

    A reader who has the file alone finds beside the numbers: ``in_predictions``, the value of a
    coefficient in a prediction; ``centre``, where the reported intercept is the prediction; the
    reference level, what is public about the columns, the number of usable records, outcome,
    formula and unit of privacy; the odds ratio or rate ratio with its interval.  ``label`` and
    ``outcome_label`` are names for people, by the labels and units of the schema.  The last row is
    the ordinary intercept, where the fit reports another.

    A name that a spreadsheet would take for a formula, one that begins with =, +, -, @, a tab or a
    line end, gets an apostrophe in front; a carriage return and other controls are written as
    escapes.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> text = dp.report.csv(model.fit(data.table).result_)  # the noise is off, for examples only
    >>> text.splitlines()[0].split(",")[:3]
    ['name', 'estimate', 'std_error']
    """
    level = _level_of(result, level)
    if isinstance(result, Description):
        return table_page.csv(result)
    if isinstance(result, SurvivalCurves):
        return survival_page.csv(result)
    details = _row_details(result)
    rows = [
        row | details[row["instead_of"] or row["name"]]
        for row in coefficient_table.rows(result, level)
    ]
    for row in rows:
        if coefficient_table.is_alternative(row):
            row |= {"in_predictions": "", "centre": "", "reference": ""}
    if coefficient_table.ratio_name(result):
        rows = [row | _ratio_of(row, result) for row in rows]
    written = io.StringIO()
    sheet = _csv.DictWriter(written, fieldnames=list(rows[0]), lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(row | {key: page.no_formula(str(row[key])) for key in _WORDS} for row in rows)
    return written.getvalue()


def _ratio_of(row: Mapping[str, Any], result: FitResult) -> dict[str, Any]:
    """Return the odds ratio or rate ratio of a row, with its interval; an intercept has none."""
    name = coefficient_table.ratio_name(result).lower().replace(" ", "_")
    shown = coefficient_table.has_ratio(result, row)
    with np.errstate(over="ignore"):
        return {
            name + end: float(np.exp(row[key])) if shown else "" for key, end in _RATIO_ENDS.items()
        }


def _row_details(result: FitResult) -> dict[str, dict[str, Any]]:
    """Return the further cells of each row of a CSV file, by the names of the rows."""
    public = {}
    places: list[Any] = [""] * len(result.names)
    if result.question is not None:
        public = result.question.about()
    if result.geometry is not None:
        places = ["", *result.geometry.centre.tolist()]
    shared = _of_all_rows(result)
    details = {}
    for name, value, place in zip(result.names, result.estimate.tolist(), places, strict=True):
        reference, facts = public.get(name, ("", ""))
        details[name] = {
            "in_predictions": value,
            "centre": place,
            "reference": reference,
            "public": facts,
            **shared,
        }
    ordinary = result.ordinary_intercept()
    if ordinary is not None:
        details[ordinary["name"]] = {
            "in_predictions": ordinary["in_predictions"],
            "centre": "",
            "reference": "",
            "public": "",
            **shared,
        }
    return details


def _of_all_rows(result: FitResult) -> dict[str, Any]:
    """Return the cells that are the same in every row: the number of records or units, as far as it
    is public, or the sum of their weights; outcome, formula, and unit of privacy.
    """
    unit = result.model.unit
    total_name = unit.word if unit.equal_weights else "total_weight"
    total = None
    if result.geometry is not None:
        total = result.geometry.records
    elif unit.equal_weights:
        total = result.model.n
    facts: dict[str, Any] = {
        total_name: total,
        "outcome": "",
        "outcome_label": "",
        "yes": "",
        "formula": "",
        "unit": result.privacy.unit,
    }
    if result.question is not None:
        facts["outcome"] = result.question.outcome
        facts["outcome_label"] = result.question.outcome_label
        facts["formula"] = result.question.asked
        if result.question.yes is not None:
            facts["yes"] = result.question.yes
    return facts


def write(
    result: Saved,
    folder: str | os.PathLike[str],
    *,
    title: str | None = None,
    level: float | None = None,
) -> list[Path]:
    """Write a result or a description to a folder, in every format.

    Parameters
    ----------
    result : FitResult, Description or SurvivalCurves
        What is released.
    folder : path
        The folder, which is made if it is not there.
    title : str, optional
        The heading of the page; by default a general one.
    level : float, optional
        The confidence level; 0.95 by default.  A description has its own.

    Returns
    -------
    list of Path
        The files: ``result.json``, ``coefficients.csv``, ``report.html`` and ``forest.png``; of a
        description ``description.json`` and Table 1 as ``table1.html``, ``.csv``, ``.md`` and
        ``.tex``; of survival curves ``survival.json``, ``.html``, ``.csv``, ``.md`` and ``.png``.

    Notes
    -----
    Nothing is moved to its name before all files are complete, so that no file is ever seen
    half-written.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_  # the noise is off, for examples only
    >>> sorted(path.name for path in dp.report.write(result, "release"))
    ['coefficients.csv', 'forest.png', 'report.html', 'result.json']
    """
    level = _level_of(result, level)
    if isinstance(result, Description):
        return page.written(folder, table_page.contents(result, title))
    if isinstance(result, SurvivalCurves):
        return page.written(folder, survival_page.contents(result, title))
    contents = {
        "result.json": result.to_json().encode(),
        "coefficients.csv": csv(result, level=level).encode(),
        "report.html": html(result, title=title, level=level).encode(),
        "forest.png": png(result, level=level),
    }
    return page.written(folder, contents)


def _rows(result: FitResult, level: float) -> list[dict[str, Any]]:
    return [
        {
            "name": label(row),
            "code": row["name"] if row["name"] != row["label"] else "",
            "status": row["status"] if not coefficient_table.is_reported(row) else "",
            "instead_of": row["instead_of"],
            "cells": coefficient_table.cells(result, row),
        }
        for row in coefficient_table.printed_rows(result, level)
    ]


def _notes(result: FitResult, level: float) -> list[str]:
    """Return the notes under the table: what its statuses and indented rows mean, why some have no
    z, and what may not be concluded.
    """
    rows = coefficient_table.rows(result, level)
    notes = []
    if not result.too_few and any(map(coefficient_table.is_not_reported, rows)):
        notes.append(coefficient_table.MEANING)
    return [
        *coefficient_table.about_ratios(result),
        *notes,
        *coefficient_table.about_alternatives(rows),
        *coefficient_table.about_bias_bounds(rows),
        *about_units(result, rows),
        MAY_NOT,
    ]


def _facts(result: FitResult) -> dict[str, str]:
    """Return the facts at the head of a report."""
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
