"""Predictions, marginal effects and odds ratios of a result.  All of it is post-processing: nothing
reads the data.

A prediction is a combination of coefficients, so its interval is that of a contrast; a probability
is the logistic function of it, and so are the ends of its interval.  Marginal effects have
intervals by the delta method.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.result.estimates import Estimates, checked
from dpinfer.result.question import Question
from dpinfer.result.statements import REPORTED, several
from dpinfer.schema.columns import Level, Number
from dpinfer.schema.terms import Block

CENTRE, OVERALL = "centre", "overall"
SEVERAL = "in several terms: give rows, as in margins(rows)"
_STEP = 1e-5  # of a column's range
Rows = list[dict[str, Any]]
Curve = Callable[[Array], Array]


@dataclass(frozen=True)
class Scale:
    """From the linear predictor to what is predicted, with slope and bend."""

    of: Curve
    slope: Curve
    bend: Curve


def _slope(z: Array) -> Array:
    return np.asarray(expit(z) * expit(-z))


LINEAR = Scale(lambda z: z, np.ones_like, np.zeros_like)
LOGISTIC = Scale(expit, _slope, lambda z: _slope(z) * (expit(-z) - expit(z)))


def scale_of(fit: Estimates) -> Scale:
    """Probabilities for logistic regression, the units of the outcome for losses of the residual."""
    if fit.model.logistic:
        return LOGISTIC
    if fit.model.of == "residual":
        return LINEAR
    raise InputError(
        f"{fit.model.loss} has neither probabilities nor means: fit LogisticRegression for probabilities, or ask for a "
        "contrast of coefficients"
    )


def question_of(fit: Estimates) -> Question:
    """What was asked, where the result knows it."""
    if fit.question is None:
        raise InputError(
            "this result does not know its columns, since it was fitted on bare rows by infer or saved by an earlier "
            "version: fit with a formula or bounds, or give contrast one number a coefficient"
        )
    return fit.question


def predictions(fit: Estimates, rows: Any, level: float) -> Rows:
    """One entry a row: prediction, standard error, interval, why there is none, what is open in it,
    and its target.
    """
    level = checked(level)
    scale = scale_of(fit)
    values = question_of(fit).rows(rows)
    found = fit.predictors(values, level)
    z = found.estimate
    columns = {
        "prediction": scale.of(z),
        "std_error": scale.slope(z) * found.std_error,
        "low": scale.of(found.low),
        "high": scale.of(found.high),
    }
    said = []
    for j, (known, names) in enumerate(zip(found.known, fit.open_in(values), strict=True)):
        without = () if known else names
        said.append(
            {key: float(column[j]) for key, column in columns.items()}
            | {
                "status": REPORTED
                if known
                else f"no interval: it rests on {several(without)} without one",
                "open": ", ".join(without),
                "target": fit.model.target,
            }
        )
    return said


def odds_ratios(fit: Estimates, level: float) -> Rows:
    """exp of each slope and of the ends of its interval; no number and (0, inf) where there is
    none.
    """
    if not fit.model.logistic:
        raise InputError(
            f"odds ratios are those of logistic regression, and this is {fit.model.loss}: use table()"
        )
    with np.errstate(over="ignore"):
        return [
            {
                "name": row["name"],
                "odds_ratio": float(np.exp(row["estimate"])),
                "low": float(np.exp(row["low"])),
                "high": float(np.exp(row["high"])),
                "p_value": row["p_value"],
                "status": row["status"],
            }
            for row in fit.table(level)
            if row["name"] != fit.names[0] or not fit.intercept
        ]


@dataclass(frozen=True, eq=False)
class Effect:
    """One marginal effect: its size and gradient, or why there is none."""

    name: str
    size: float
    gradient: Array
    status: str = REPORTED


def margins(fit: Estimates, at: Any, level: float) -> Rows:
    """One entry an effect: at the released centre, or on average over the rows given."""
    level = checked(level)
    if isinstance(at, str) and at == OVERALL:
        raise InputError(
            "the average over the fitted records would be another release, which nobody booked: ask for the effects at "
            "the released centre, margins(), or over public rows, margins(rows)"
        )
    effects = list(_at_centre(fit) if isinstance(at, str) and at == CENTRE else _over(fit, at))
    gradients, sizes = np.array([e.gradient for e in effects]), np.array([e.size for e in effects])
    found = fit.combined(gradients.reshape(-1, len(fit.names)), level, sizes)
    rows = []
    for j, effect in enumerate(effects):
        known = bool(found.known[j]) and effect.status == REPORTED
        numbers = {
            "effect": effect.size,
            "std_error": found.std_error[j],
            "p_value": found.p_value[j],
        }
        ends = {"low": float(found.low[j]), "high": float(found.high[j])}
        rows.append(
            {"name": effect.name}
            | {key: float(value) if known else math.nan for key, value in numbers.items()}
            | (ends if known else {"low": -math.inf, "high": math.inf})
            | {"status": _why(fit, effect) if not known else REPORTED}
        )
    return rows


def _why(fit: Estimates, effect: Effect) -> str:
    if effect.status != REPORTED:
        return effect.status
    words = fit.status or (REPORTED,) * len(fit.names)
    moved = [
        f"{name}: {word}" if name != effect.name else word
        for name, word, weight in zip(fit.names, words, effect.gradient, strict=True)
        if weight != 0 and word != REPORTED
    ]
    return "; ".join(moved[:3]) or "no interval"


def _derivative(fit: Estimates, name: str, weights: Array, moves: Array) -> Effect:
    """The mean over rows of what one more unit does, per unit."""
    scale, theta = scale_of(fit), fit.estimate
    z, pushed = weights @ theta, moves @ theta
    gradient = (scale.bend(z) * pushed) @ weights + scale.slope(z) @ moves
    return Effect(name, float(np.mean(scale.slope(z) * pushed)), gradient / len(z))


def _change(fit: Estimates, name: str, before: Array, after: Array) -> Effect:
    """The mean over rows of the change from one encoding to another."""
    scale, theta = scale_of(fit), fit.estimate
    old, new = before @ theta, after @ theta
    gradient = scale.slope(new) @ after - scale.slope(old) @ before
    return Effect(name, float(np.mean(scale.of(new) - scale.of(old))), gradient / len(old))


def _at_centre(fit: Estimates) -> Iterator[Effect]:
    """Effects of the columns of the design where all others are at the released centre.

    A number is moved from its centre; a level is compared with the reference of its factor.
    """
    if fit.geometry is None and fit.model.of != "residual":
        raise InputError("this fit released no centre: give public rows, as in margins(rows)")
    blocks = question_of(fit).terms().blocks
    d, first, nowhere = len(fit.names), int(fit.intercept), np.zeros(len(fit.names))
    centre = np.zeros(d - first) if fit.geometry is None else fit.geometry.centre
    here = np.zeros((1, d))
    here[0, :first] = 1.0
    for block in blocks:
        places = [fit.names.index(name) for name in block.names]
        for j, name in zip(places, block.names, strict=True):
            if _shared(block, blocks):
                yield Effect(name, math.nan, nowhere, SEVERAL)
            elif block.number is None:
                before = here.copy()
                before[0, places] = -centre[[k - first for k in places]]
                yield _change(fit, name, before, before + np.eye(d)[[j]])
            else:
                yield _derivative(fit, name, here, np.eye(d)[[j]])


def _shared(block: Block, blocks: tuple[Block, ...]) -> bool:
    """Whether a column of the table that this block is made of is in another block, too, or twice
    in this one.
    """
    own = {column.name for column in block.columns}
    others = {column.name for other in blocks if other is not block for column in other.columns}
    return bool(own & others) or len(block.parts) > 1


def _over(fit: Estimates, rows: Any) -> Iterator[Effect]:
    """Effects of the columns of the table, on average over the rows: every term that holds a column
    moves with it.
    """
    asked = question_of(fit)
    terms = asked.terms()
    frame = asked.frame(rows, terms)
    if not len(frame):
        raise InputError("rows is empty: give at least one row")
    weights, references = fit.weights(asked.rows(frame)), dict(asked.references)
    smooth = replace(asked, columns=tuple(map(_smooth, asked.columns)))
    for column in terms.columns:
        name = column.name

        def encoded(value: Any, by: Question = asked, name: str = name) -> Array:
            return fit.weights(by.rows(frame.assign(**{name: value})))

        if isinstance(column, Number) and column.kind != "boolean" and name not in references:
            low, high = _around(frame[name], column)
            moves = (encoded(high, smooth) - encoded(low, smooth)) / (high - low)[:, None]
            yield _derivative(fit, name, weights, moves)
            continue
        levels: tuple[Level, ...] = (
            (False, True) if isinstance(column, Number) and not column.levels else column.levels
        )
        base = references.get(name, levels[0])
        for level in levels:
            if level != base:
                yield _change(fit, f"{name}[{level}]", encoded(base), encoded(level))


def _around(values: Any, column: Number) -> tuple[Array, Array]:
    """A step below and above each value of a column, within its bounds."""
    import pandas as pd  # noqa: PLC0415  (heavy: loaded when asked for)

    known = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    middle = np.clip(
        np.where(np.isnan(known), column.missing or 0.0, known), column.low, column.high
    )
    step = _STEP * (column.high - column.low)
    return np.maximum(middle - step, column.low), np.minimum(middle + step, column.high)


def _smooth(column: Any) -> Any:
    """A column of whole numbers as one of any numbers."""
    return (
        replace(column, kind="number")
        if isinstance(column, Number) and column.kind == "integer"
        else column
    )
