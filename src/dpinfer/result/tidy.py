"""Results as tidy rows in the manner of R's broom: one per coefficient, and one for the fit."""

import math

from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP
from dpinfer.result.estimates import Estimates
from dpinfer.result.frames import UncutFrame, frame_of

_TIDY_NAMES = {
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
    "label": "label",
}


def tidy(fit: Estimates, level: float) -> UncutFrame:
    """Return one row per coefficient of the formula, with the columns of broom."""
    return frame_of(
        [{new: row[old] for old, new in _TIDY_NAMES.items()} for row in fit.table(level)]
    )


def glance(fit: Estimates) -> UncutFrame:
    """Return the fit in one row."""
    model = fit.model
    privacy = fit.privacy
    question = fit.question
    reported = int(fit.reported.sum())
    count = len(fit.names) - len(fit.absorbed)
    facts = {
        "model": model.words.name or model.loss,
        "target": model.target,
        "outcome": question.outcome if question is not None else "",
        "formula": question.asked if question is not None else "",
        "nobs": math.nan if model.n is None else float(model.n),
        "usable": math.nan if fit.geometry is None else fit.geometry.records,
        "coefficients": count,
        "without_interval": count - reported,
        **_amounts(privacy.budget),
        "unit": privacy.unit,
        "neighbours": str(privacy.neighbours),
        "private": privacy.private,
        "booked": privacy.in_ledger,
        "release": privacy.release or "",
    }
    return frame_of([facts])


def _amounts(budget: Budget) -> dict[str, float]:
    """Return the numbers of a budget, NaN for those that it does not have."""
    amounts = {"epsilon": math.nan, "delta": math.nan, "rho": math.nan}
    if isinstance(budget, PureDP):
        return amounts | {"epsilon": budget.epsilon, "delta": 0.0}
    if isinstance(budget, ApproxDP):
        return amounts | {"epsilon": budget.epsilon, "delta": budget.delta}
    if isinstance(budget, ZCDP):
        return amounts | {"rho": budget.rho}
    return amounts
