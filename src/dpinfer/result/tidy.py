"""A result as tidy rows, in the manner of R's broom: one per coefficient, and one for the whole fit."""

import math
from typing import Any

from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP
from dpinfer.result.estimates import Estimates

_COLUMNS = {
    "name": "term",
    "estimate": "estimate",
    "std_error": "std_error",
    "z": "statistic",
    "p_value": "p_value",
    "low": "conf_low",
    "high": "conf_high",
    "noise_share": "noise_share",
    "clipped_to": "clipped_to",
    "status": "status",
}
"""Columns of a result's table, and what they are called here."""


def tidy(fit: Estimates, level: float) -> list[dict[str, Any]]:
    """One row per coefficient of the formula."""
    return [{new: row[old] for old, new in _COLUMNS.items()} for row in fit.table(level)]


def glance(fit: Estimates) -> dict[str, Any]:
    """The fit as a whole, in one row."""
    model = fit.model
    privacy = fit.privacy
    question = fit.question
    nobs = math.nan if model.n is None else float(model.n)
    usable = math.nan if fit.geometry is None else fit.geometry.records
    reported = int(fit.reported.sum())
    return {
        "model": model.words.name or model.loss,
        "target": model.target,
        "outcome": question.outcome if question is not None else "",
        "formula": question.asked if question is not None else "",
        "nobs": nobs,
        "usable": usable,
        "coefficients": len(fit.names),
        "without_interval": len(fit.names) - reported,
        **_amounts(privacy.budget),
        "unit": privacy.unit,
        "neighbours": str(privacy.neighbours),
        "private": privacy.private,
        "booked": privacy.booked,
        "release": privacy.release or "",
    }


def _amounts(budget: Budget) -> dict[str, float]:
    """The numbers of a budget; NaN for those that it does not have."""
    amounts = {"epsilon": math.nan, "delta": math.nan, "rho": math.nan}
    if isinstance(budget, PureDP):
        return amounts | {"epsilon": budget.epsilon, "delta": 0.0}
    if isinstance(budget, ApproxDP):
        return amounts | {"epsilon": budget.epsilon, "delta": budget.delta}
    if isinstance(budget, ZCDP):
        return amounts | {"rho": budget.rho}
    return amounts
