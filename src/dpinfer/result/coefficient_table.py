"""The table of a result: one row per coefficient in every format, and the notes under it."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from dpinfer.result import text
from dpinfer.result.estimates import Estimates
from dpinfer.result.grid import Grid, GridRow, TextLayout, html_page, latex_page, markdown_page
from dpinfer.result.statements import BY_RECORDS, NOT_REPORTED, REPORTED

_LARGEST_LOG = 700.0  # exp of a larger number is infinite in double precision
NOT_IDENTIFIED = "not identified"
MEANING = (
    "All columns of the formula are in the model. A coefficient that is not reported has no "
    "interval at this budget, which says nothing about its size or sign; its uncertainty is inside "
    "the intervals of the others."
)
"""Explains that a coefficient is not reported."""
INSTEAD = (
    "An indented row answers another question than the coefficient above it, which is not reported. "
    "It is no estimate of that coefficient."
)
BIAS_BOUND = (
    "Where z is blank, the interval allows for a bias whose size is only bounded (few records, "
    "outcomes that were cut off, what the last step leaves), at the end or ends where it may lie: it "
    "is longer than the standard error says, and need not be symmetric about the estimate. p goes "
    "with the interval: it is 1 less the largest level whose interval excludes 0."
)
"""Why an interval is not the estimate and so many standard errors either way."""
LOG_RATES = "Coefficients are changes of the logarithm of the rate: exp of one is a rate ratio."
NOT_DRAWN = (
    "Indented rows of the table, which stand in for coefficients not reported, are not drawn."
)
CLUSTERED = "The intervals are robust to correlation among the rows of a unit (CR1)."
REMEDIES = (
    "merge rare levels, or name a common level as reference",
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


def titles(level: float) -> list[str]:
    """Return the titles of the columns, with the level of the intervals."""
    interval_title = f"{100 * level:.4g}% interval"
    return ["Coefficient", "Estimate", interval_title, "Std. error", "z", "p", "Noise share"]


def cells(row: Row) -> list[str]:
    """Return the numbers of a coefficient in the order of `titles`."""
    if not is_reported(row):
        return [text.NO_NUMBER, interval(row), *[text.NO_NUMBER] * 4]
    decimals = text.decimals_for(row["std_error"])
    return [
        text.number(row["estimate"], decimals),
        interval(row),
        text.number(row["std_error"], decimals),
        text.number(row["z"], 2),
        text.p_value(row["p_value"]),
        text.percent(row["noise_share"]),
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


def grid(shown: Sequence[Row], level: float) -> Grid:
    """Return rows of a result as a table; alternatives are indented."""
    of_rows = [GridRow.of(row["name"], cells(row), indented=is_alternative(row)) for row in shown]
    return Grid(tuple(titles(level)), tuple(of_rows))


def markdown(fit: Estimates, level: float) -> str:
    """Return the table in Markdown with its caption and notes."""
    shown = rows(fit, level)
    return markdown_page(grid(shown, level), (caption(fit), *notes(shown)))


def latex(fit: Estimates, level: float) -> str:
    """Return the table as a LaTeX tabular with its caption and notes."""
    shown = rows(fit, level)
    return latex_page(grid(shown, level), (caption(fit), *notes(shown)))


def html(fit: Estimates, level: float) -> str:
    """Return the table for notebooks with its caption and notes."""
    shown = rows(fit, level)
    return html_page(grid(shown, level), caption(fit), notes(shown))


def plain_text(shown: Sequence[Row], level: float) -> str:
    """Return the table as text; a status is printed in the place of numbers."""
    tail = (1 - level) / 2
    heads = ("", "estimate", "std err", "z", "p", f"[{tail:.4g}", f"{1 - tail:.4g}]")
    return Grid(heads, tuple(map(_text_row, shown))).text(TextLayout())


def _text_row(row: Row) -> GridRow:
    if not is_reported(row):
        return GridRow(row["name"], indented=is_alternative(row), note=str(row["status"]))
    numbers = [
        f"{row['estimate']:.4g}",
        f"{row['std_error']:.4g}",
        text.NO_NUMBER if math.isnan(row["z"]) else f"{row['z']:.3f}",
        text.p_value(row["p_value"]),
        f"{row['low']:.4g}",
        f"{row['high']:.4g}",
    ]
    return GridRow.of(row["name"], numbers, indented=is_alternative(row))


def one_line(fit: Estimates) -> str:
    """Return a result in one line, for a prompt."""
    asked = ""
    if fit.question is not None:
        asked = f" {textwrap.shorten(fit.question.asked, 70, placeholder=' …')}:"
    reported = int(fit.reported.sum())
    coefficients = f"{len(fit.names)} coefficients"
    if reported < len(fit.names):
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
    reading = f" {LOG_RATES}" if fit.model.counts else ""
    return f"{asked}{fit.records} {fit.model.unit.word}.{reading} Privacy: {privacy}."


def notes(shown: Sequence[Row]) -> list[str]:
    """Return the notes under a table: reasons, and what is unusual about its rows."""
    return [
        *reasons(shown),
        *about_missing(shown),
        *about_alternatives(shown),
        *about_bias_bounds(shown),
    ]


def reasons(shown: Sequence[Row]) -> list[str]:
    """Return each reason why a coefficient is not reported, with the names it holds for."""
    names: dict[str, list[str]] = {}
    for row in shown:
        if not is_reported(row):
            names.setdefault(row["status"], []).append(row["name"])
    return [f"{', '.join(listed)}: {status}" for status, listed in names.items()]


def about_missing(shown: Sequence[Row]) -> list[str]:
    """Return what coefficients without an interval mean, and what helps; nothing without any."""
    without = [row for row in shown if not is_reported(row) and row["status"] not in BY_RECORDS]
    if not without:
        return []
    remedies = "; ".join(REMEDIES)
    if any(is_not_reported(row) for row in without):
        return [f"{MEANING} To get an interval: {remedies}."]
    listed = f"{without[0]['name']} has"
    if len(without) > 1:
        listed = f"{len(without)} coefficients have"
    return [
        f"{listed} no estimate at this budget, and none may be read into that. To get one: "
        f"{remedies}."
    ]


def about_alternatives(shown: Sequence[Row]) -> list[str]:
    """Return what indented rows are; nothing without any."""
    if any(is_alternative(row) for row in shown):
        return [INSTEAD]
    return []


def about_bias_bounds(shown: Sequence[Row]) -> list[str]:
    """Return why coefficients with an interval have no z; nothing where all have one."""
    if any(math.isnan(row["z"]) and is_reported(row) for row in shown):
        return [BIAS_BOUND]
    return []


def ratio(row: Row) -> str:
    """Return exp of a coefficient with its interval."""
    if not is_reported(row):
        return interval(row)
    shown = ratio_row(row)
    decimals = text.decimals_for(shown["std_error"])
    return f"{text.number(shown['estimate'], decimals)} ({interval(shown)})"


def ratio_row(row: Row) -> dict[str, Any]:
    """Return a row with exp of the estimate and of the ends of its interval."""
    middle = _exp(row["estimate"])
    # By the delta method; a ratio near 0 is then written with the digits of its own error.
    error = middle * row["std_error"]
    ends = {"low": _exp(row["low"]), "high": _exp(row["high"])}
    return {**row, "estimate": middle, "std_error": error, **ends}


def _exp(value: float) -> float:
    return math.exp(min(value, _LARGEST_LOG))
