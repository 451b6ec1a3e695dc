"""The table of a result: one row per coefficient in every format, and the notes under it."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpinfer.result import text
from dpinfer.result.estimates import Estimates
from dpinfer.result.grid import (
    Grid,
    GridCell,
    GridRow,
    TextLayout,
    html_page,
    latex_page,
    markdown_page,
)
from dpinfer.result.readable_units import about_units, label, readable
from dpinfer.result.statements import BY_RECORDS, BY_UNUSABLE, NOT_REPORTED, REPORTED

_LAYOUT = TextLayout(min_column=10, max_name=19)
_LARGEST_LOG = 700.0  # exp of a larger number is infinite in double precision
NOT_IDENTIFIED = "not identified"
MEANING = (
    "All columns of the formula are in the model. A coefficient that is not reported has no "
    "interval at this budget, which says nothing about its size or sign. Its uncertainty is inside "
    "the intervals of the others."
)
"""Explains that a coefficient is not reported."""
INSTEAD = (
    "An indented row answers another question than the coefficient above it, which is not reported. "
    "It is no estimate of that coefficient."
)
BIAS_BOUND = (
    "Where z is blank, the interval allows for a bias of which only a bound is known. It comes from "
    "few records, from clipping, or from the remainder of the last step. Such an interval is longer "
    "than the standard error implies, and need not be symmetric about the estimate. The p-value goes "
    "with the interval: it is 1 less the largest level whose interval excludes 0."
)
"""Why an interval is not the estimate and so many standard errors either way."""
RATIOS = (
    "{ratio}: exp of a coefficient. The {measure} are multiplied by it where a column is one higher, or "
    "at a level instead of its reference. The other columns are the same, and 1 is no difference."
)
"""Explains the column of odds ratios or rate ratios."""
LOG_HAZARDS = (
    "Coefficients are changes of the logarithm of the hazard: exp of one is a hazard ratio."
)
LOG_RATES = "Coefficients are changes of the logarithm of the rate: exp of one is a rate ratio."
NOT_DRAWN = (
    "Indented rows of the table, which stand in for coefficients not reported, are not drawn."
)
CLUSTERED = "The intervals are robust to correlation among the rows of a unit (CR1)."
REMEDIES = (
    "merge rare levels, or choose a common reference",
    "declare tighter public bounds",
    "give a larger budget or more records",
)
"""What helps where a coefficient has no interval."""

Row = Mapping[str, Any]
"""One coefficient, as `Estimates.table` returns it."""


def is_reported(row: Row) -> bool:
    """Return whether a coefficient has an interval; if not, its status says why."""
    return bool(row["status"] == REPORTED)


def is_not_reported(row: Row) -> bool:
    """Return whether a coefficient is in the model, but has no interval at this budget."""
    return str(row["status"]).startswith(NOT_REPORTED)


def is_alternative(row: Row) -> bool:
    """Return whether a row is known instead of a coefficient that is not reported."""
    return bool(row.get("instead_of"))


def interval(row: Row) -> str:
    """Return the interval of a coefficient, or why there is none in a word."""
    if is_reported(row):
        return text.interval(row["low"], row["high"], row["std_error"])
    return NOT_REPORTED if is_not_reported(row) else NOT_IDENTIFIED


PARTS = "Sampling / bias / noise"
"""The title of the column with the parts of each interval."""
ABOUT_PARTS = (
    "Sampling / bias / noise: parts of the length of the interval from sampling error, from the bound "
    "of a bias, and from privacy noise."
)


def titles(fit: Estimates, level: float) -> list[str]:
    """Return the titles of the columns, with the level of the intervals."""
    interval_title = f"{100 * level:.4g}% interval"
    of_ratio = [f"{ratio_name(fit)} ({interval_title})"] if ratio_name(fit) else []
    numbers = ["Estimate", interval_title, *of_ratio, "Std. error", "z", "p"]
    return ["Coefficient", *numbers, PARTS]


def cells(fit: Estimates, row: Row) -> list[GridCell]:
    """Return the numbers of a coefficient in the order of `titles`; an intercept has no ratio."""
    of_ratio = []
    if ratio_name(fit):
        of_ratio = [ratio_cell(row) if has_ratio(fit, row) else GridCell(text.NO_NUMBER)]
    if not is_reported(row):
        blank = GridCell(text.NO_NUMBER)
        return [blank, GridCell(interval(row)), *[blank] * (4 + len(of_ratio))]
    decimals = text.decimals_for(row["std_error"])
    return [
        GridCell(text.number(row["estimate"], decimals)),
        GridCell(interval(row)),
        *of_ratio,
        GridCell(text.number(row["std_error"], decimals)),
        GridCell(text.number(row["z"], 2)),
        GridCell(text.p_value(row["p_value"])),
        GridCell(row["parts"]),
    ]


def rows(fit: Estimates, level: float) -> list[dict[str, Any]]:
    """Return all coefficients, each with its alternatives, and the ordinary intercept last, where
    the fit reports another.
    """
    shown = fit.table_with_alternatives(level)
    ordinary = fit.ordinary_intercept(level)
    if ordinary is not None:
        shown.append(ordinary | {"instead_of": ""})
    return shown


def printed_rows(fit: Estimates, level: float) -> list[dict[str, Any]]:
    """Return the same rows with their parts, in units in which their numbers can be read."""
    return with_parts(fit, readable(fit, rows(fit, level)), level)


def with_parts(fit: Estimates, shown: Sequence[Row], level: float) -> list[dict[str, Any]]:
    """Return rows with the percentages of the parts of each interval under ``parts``; a row that is
    no coefficient of the formula has none.
    """
    shares = dict(zip(fit.names, map(text.percents, fit.interval_shares(level)), strict=True))
    return [
        {
            **row,
            "parts": text.NO_NUMBER
            if is_alternative(row)
            else shares.get(row["name"], text.NO_NUMBER),
        }
        for row in shown
    ]


def grid(fit: Estimates, shown: Sequence[Row], level: float) -> Grid:
    """Return rows of a result as a table; alternatives are indented."""
    of_rows = [GridRow(label(row), tuple(cells(fit, row)), is_alternative(row)) for row in shown]
    return Grid(tuple(titles(fit, level)), tuple(of_rows))


def markdown(fit: Estimates, level: float) -> str:
    """Return the table in Markdown with its caption and notes."""
    shown = printed_rows(fit, level)
    return markdown_page(grid(fit, shown, level), (caption(fit), *notes(fit, shown)))


def latex(fit: Estimates, level: float) -> str:
    """Return the table as a LaTeX tabular with its caption and notes."""
    shown = printed_rows(fit, level)
    return latex_page(grid(fit, shown, level), (caption(fit), *notes(fit, shown)))


def html(fit: Estimates, level: float) -> str:
    """Return the table for notebooks with its caption and notes."""
    shown = printed_rows(fit, level)
    return html_page(grid(fit, shown, level), caption(fit), notes(fit, shown))


def plain_text(fit: Estimates, level: float) -> str:
    """Return the table as text, with ratios behind the coefficients where the model has them; a
    status is printed in the place of numbers.
    """
    tail = (1 - level) / 2
    heads = ["", "estimate", "std err", "z", "p", f"[{tail:.4g}", f"{1 - tail:.4g}]"]
    layout = _LAYOUT
    if ratio_name(fit):
        heads.append(ratio_name(fit).lower())
        layout = replace(layout, min_column=8, title=8)  # room for one more number
    shown = readable(fit, fit.table_with_alternatives(level))
    table = Grid(tuple(heads), tuple(_text_row(fit, row) for row in shown))
    room = table.room_for_names(layout)
    return table.text(replace(layout, min_names=min(room, layout.min_names), max_name=room - 1))


def _text_row(fit: Estimates, row: Row) -> GridRow:
    if not is_reported(row):
        return GridRow(label(row), indented=is_alternative(row), note=str(row["status"]))
    numbers = [
        f"{row['estimate']:.4g}",
        f"{row['std_error']:.4g}",
        text.NO_NUMBER if math.isnan(row["z"]) else f"{row['z']:.3f}",
        text.p_value(row["p_value"]),
        f"{row['low']:.4g}",
        f"{row['high']:.4g}",
    ]
    if ratio_name(fit):
        shown = has_ratio(fit, row)
        numbers.append(f"{ratio_row(row)['estimate']:.4g}" if shown else text.NO_NUMBER)
    return GridRow.of(label(row), numbers, indented=is_alternative(row))


def one_line(fit: Estimates) -> str:
    """Return a result in one line, for a prompt."""
    asked = ""
    if fit.question is not None:
        asked = f" {textwrap.shorten(fit.question.asked, 70, placeholder=' …')}:"
    reported = int(fit.reported.sum())
    count = len(fit.names) - len(fit.absorbed)
    coefficients = f"{count} coefficients"
    if reported < count:
        coefficients = f"{reported} of {coefficients} reported"
    privacy = "NOT PRIVATE"
    if fit.privacy.private:
        privacy = str(fit.privacy.budget).rpartition(" with ")[2]
    return text.escape_controls(
        f"<FitResult{asked} {coefficients}, {fit.records} {fit.model.unit.word}, {privacy}>"
    )


def caption(fit: Estimates) -> str:
    """Return the caption of a table: formula, number of records, and privacy."""
    asked = ""
    if fit.question is not None:
        asked = f"{fit.question.asked}. {' '.join(fit.question.sentences())} "
    privacy = "NOT PRIVATE"
    if fit.privacy.private:
        privacy = f"{fit.privacy.budget}, protects {fit.privacy.unit}"
    reading = ""
    if fit.model.counts:
        reading = f" {LOG_RATES}"
    if fit.model.hazards:
        reading = f" {LOG_HAZARDS}"
    return f"{asked}{fit.records} {fit.model.unit.word}.{reading} Privacy: {privacy}."


def notes(fit: Estimates, shown: Sequence[Row]) -> list[str]:
    """Return the notes under a table: a warning, reasons, and what is unusual about its rows."""
    return [
        *([fit.too_few] if fit.too_few else []),
        *reasons(shown),
        *about_missing(shown),
        *about_alternatives(shown),
        *about_bias_bounds(shown),
        *about_units(fit, fit.table_with_alternatives()),
    ]


def reasons(shown: Sequence[Row]) -> list[str]:
    """Return each reason why a coefficient is not reported, with the names it holds for."""
    names: dict[str, list[str]] = {}
    for row in shown:
        if not is_reported(row):
            names.setdefault(row["status"], []).append(row["label"])
    return [f"{', '.join(listed)}: {status}" for status, listed in names.items()]


def in_short(shown: Sequence[Row]) -> list[str]:
    """Return one line each on what is unusual about rows: no interval, alternatives, a bias bound."""
    notes = about_missing(shown)
    if any(is_not_reported(row) for row in _without_interval(shown)):
        notes = [
            "A coefficient that is not reported has no interval at this budget, which says nothing "
            "about its size or sign."
        ]
    if any(is_alternative(row) for row in shown):
        notes.append("An indented row is no estimate of the coefficient above it.")
    if any(math.isnan(row["z"]) and is_reported(row) for row in shown):
        notes.append("Where z is blank, the interval and p also allow for a bias.")
    return notes


def about_missing(shown: Sequence[Row]) -> list[str]:
    """Return what coefficients without an interval mean, and what helps; nothing without any."""
    without = _without_interval(shown)
    if not without:
        return []
    remedies = "; ".join(REMEDIES)
    if any(is_not_reported(row) for row in without):
        return [f"{MEANING} To get an interval: {remedies}."]
    listed = f"{without[0]['label']} has"
    if len(without) > 1:
        listed = f"{len(without)} coefficients have"
    return [
        f"{listed} no estimate at this budget, and none may be read into that. To get one: "
        f"{remedies}."
    ]


def _without_interval(shown: Sequence[Row]) -> list[Row]:
    """Return the rows that a larger budget may report."""
    known = (REPORTED, *BY_UNUSABLE, *BY_RECORDS)
    return [row for row in shown if row["status"] not in known]


def about_alternatives(shown: Sequence[Row]) -> list[str]:
    """Return what indented rows are; nothing without any."""
    if any(is_alternative(row) for row in shown):
        return [INSTEAD]
    return []


def about_ratios(fit: Estimates) -> list[str]:
    """Return what the column of ratios is; nothing without one."""
    if not ratio_name(fit):
        return []
    measure = {"Rate ratio": "rates", "Hazard ratio": "hazards"}.get(ratio_name(fit), "odds")
    return [RATIOS.format(ratio=ratio_name(fit), measure=measure)]


def about_bias_bounds(shown: Sequence[Row]) -> list[str]:
    """Return why coefficients with an interval have no z; nothing where all have one."""
    if any(math.isnan(row["z"]) and is_reported(row) for row in shown):
        return [BIAS_BOUND]
    return []


def ratio_name(fit: Estimates) -> str:
    """Return what exp of a coefficient is: an odds ratio, a rate ratio, or nothing with a name."""
    if fit.model.logistic:
        return "Odds ratio"
    if fit.model.counts:
        return "Rate ratio"
    if fit.model.hazards:
        return "Hazard ratio"
    return ""


def has_ratio(fit: Estimates, row: Row) -> bool:
    """Return whether exp of a row is a ratio: it is not an intercept, and the model has ratios."""
    slopes = fit.names[int(fit.intercept) : len(fit.names) - fit.intervals]
    return bool(ratio_name(fit)) and (row["instead_of"] or row["name"]) in slopes


def ratio_cell(row: Row) -> GridCell:
    """Return exp of a coefficient with its interval."""
    if not is_reported(row):
        return GridCell(interval(row))
    shown = ratio_row(row)
    decimals = text.decimals_for(shown["std_error"])
    return GridCell(text.number(shown["estimate"], decimals), interval(shown))


def ratio_row(row: Row) -> dict[str, Any]:
    """Return a row with exp of the estimate and of the ends of its interval."""
    middle = _exp(row["estimate"])
    # By the delta method; a ratio near 0 is then written with the digits of its own error.
    error = middle * row["std_error"]
    ends = {"low": _exp(row["low"]), "high": _exp(row["high"])}
    return {**row, "estimate": middle, "std_error": error, **ends}


def _exp(value: float) -> float:
    return math.exp(min(value, _LARGEST_LOG))
