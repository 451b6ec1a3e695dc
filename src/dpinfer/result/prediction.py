"""Predictions, marginal effects and odds ratios of a result.

All of it is post-processing: nothing reads the data.  A prediction is a combination of
coefficients, so its interval is that of a contrast; a probability is the logistic function of it,
and so are the ends of its interval.  Marginal effects have intervals by the delta method.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.result.estimates import Estimates, checked
from dpinfer.result.question import Question
from dpinfer.result.statements import REPORTED, several
from dpinfer.schema.columns import Level, Number
from dpinfer.schema.terms import (
    Expression,
    Factor,
    ModelTerms,
    Part,
    TermBlock,
    apply,
    constant,
    of_column,
)

CENTRE = "centre"
OVERALL = "overall"
SEVERAL = "in several terms: give rows, as in margins(rows)"
_STEP = 1e-5  # of a column's range
_MOVED = "__moved"  # a column of a table, a step away from another
_REASONS = 3  # why an effect has no interval, at most
Rows = list[dict[str, Any]]
Curve = Callable[[Array], Array]


@dataclass(frozen=True)
class Scale:
    """The curve from the linear predictor to a prediction, with its first two derivatives."""

    of: Curve
    slope: Curve
    second_derivative: Curve


def _slope(z: Array) -> Array:
    return np.asarray(expit(z) * expit(-z))


LINEAR = Scale(lambda z: z, np.ones_like, np.zeros_like)
EXPONENTIAL = Scale(np.exp, np.exp, np.exp)
LOGISTIC = Scale(expit, _slope, lambda z: _slope(z) * (expit(-z) - expit(z)))


def scale_of(fit: Estimates) -> Scale:
    """Choose the scale of predictions: probabilities for logistic regression, the units of the
    outcome for losses of the residual, rates for counts.
    """
    if fit.model.logistic:
        return LOGISTIC
    if fit.model.counts:
        return EXPONENTIAL
    if fit.model.of == "residual":
        return LINEAR
    if fit.model.hazards:
        raise InputError(
            "a hazard regression predicts survival and hazards: use predict_survival(rows, times) or baseline(rows)"
        )
    raise InputError(
        f"{fit.model.loss} has neither probabilities nor means: fit LogisticRegression for "
        "probabilities, or ask for a contrast of coefficients"
    )


def question_of(fit: Estimates) -> Question:
    """Return the question of a result, or raise if it has none."""
    if fit.question is None:
        raise InputError(
            "this result does not know its columns, since it was fitted on bare rows by infer: fit "
            "with a formula or bounds, or give contrast one number per coefficient"
        )
    return fit.question


def predictions(fit: Estimates, rows: Any, level: float) -> Rows:
    """Return one entry per row: prediction, standard error, interval, status, coefficients that are
    not reported, and target.
    """
    level = checked(level)
    if fit.model.effects:
        raise InputError(
            "this fit has an intercept of every person, which is not estimated: ask for a difference of two rows as a "
            "contrast of coefficients, as in contrast('x1 - x2')"
        )
    scale = scale_of(fit)
    asked = question_of(fit)
    values = asked.rows(rows)
    predictor = fit.predictors(values, level)
    offset = asked.offsets(rows)
    further = np.zeros(len(values)) if offset is None else offset
    z = predictor.estimate + further
    columns = {
        "prediction": scale.of(z),
        "std_error": scale.slope(z) * predictor.std_error,
        "low": scale.of(predictor.low + further),
        "high": scale.of(predictor.high + further),
    }
    entries: Rows = []
    for j, names in enumerate(fit.unreported_in(values)):
        status = REPORTED
        unreported = ""
        if not predictor.known[j]:
            status = f"no interval: it rests on {several(names)} without one"
            unreported = ", ".join(names)
        numbers = {key: float(column[j]) for key, column in columns.items()}
        words = {"status": status, "open": unreported, "target": fit.model.target}
        entries.append(numbers | words)
    return entries


def odds_ratios(fit: Estimates, level: float) -> Rows:
    """Return exp of each slope and of the ends of its interval; no number and (0, inf) where there
    is none.
    """
    if not fit.model.logistic:
        raise InputError(
            f"odds ratios are those of logistic regression, and this is {fit.model.loss}: use "
            f"{'rate_ratios()' if fit.model.counts else 'table()'}"
        )
    return ratios(fit, "odds_ratio", level)


def rate_ratios(fit: Estimates, level: float) -> Rows:
    """Return rate ratios in the same way, for counts, rates or costs."""
    if not fit.model.counts:
        raise InputError(
            f"rate ratios are those of PoissonRegression, and this is {fit.model.loss}: use "
            f"{'odds_ratios()' if fit.model.logistic else 'table()'}"
        )
    return ratios(fit, "rate_ratio", level)


def ratios(fit: Estimates, name: str, level: float) -> Rows:
    """Return exp of each slope under a name; no number and (0, inf) where there is none."""
    with np.errstate(over="ignore"):
        return [
            {
                "name": row["name"],
                name: float(np.exp(row["estimate"])),
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
    """Return one entry per marginal effect: at the released centre, or on average over the rows
    given.
    """
    level = checked(level)
    if isinstance(at, str) and at == OVERALL:
        raise InputError(
            "the average over the fitted records would be another release, which nobody booked: ask "
            "for the effects at the released centre, margins(), or over public rows, margins(rows)"
        )
    if isinstance(at, str) and at == CENTRE:
        effects = list(_at_centre(fit))
    else:
        effects = list(_over(fit, at))
    gradients = np.array([effect.gradient for effect in effects]).reshape(-1, len(fit.names))
    sizes = np.array([effect.size for effect in effects])
    combined = fit.combined(gradients, level, sizes)
    entries: Rows = []
    for j, effect in enumerate(effects):
        entry = {
            "name": effect.name,
            "effect": math.nan,
            "std_error": math.nan,
            "p_value": math.nan,
            "low": -math.inf,
            "high": math.inf,
            "status": REPORTED,
        }
        if combined.known[j] and effect.status == REPORTED:
            entry["effect"] = float(effect.size)
            for key in ("std_error", "p_value", "low", "high"):
                entry[key] = float(getattr(combined, key)[j])
        else:
            entry["status"] = _why(fit, effect)
        entries.append(entry)
    return entries


def _why(fit: Estimates, effect: Effect) -> str:
    """Return why an effect has no interval: its own status, or the coefficients that are not
    reported.
    """
    if effect.status != REPORTED:
        return effect.status
    reasons = []
    for name, status, weight in zip(fit.names, fit.statuses, effect.gradient, strict=True):
        if weight != 0 and status != REPORTED:
            reasons.append(status if name == effect.name else f"{name}: {status}")
    return "; ".join(reasons[:_REASONS]) or "no interval"


def _derivative(fit: Estimates, name: str, weights: Array, moves: Array) -> Effect:
    """Return the mean over rows of the change per unit of a column."""
    scale = scale_of(fit)
    z = weights @ fit.estimate
    pushed = moves @ fit.estimate
    gradient = (scale.second_derivative(z) * pushed) @ weights + scale.slope(z) @ moves
    return Effect(name, float(np.mean(scale.slope(z) * pushed)), gradient / len(z))


def _change(fit: Estimates, name: str, before: Array, after: Array) -> Effect:
    """Return the mean over rows of the change from one encoding to another."""
    scale = scale_of(fit)
    old = before @ fit.estimate
    new = after @ fit.estimate
    gradient = scale.slope(new) @ after - scale.slope(old) @ before
    return Effect(name, float(np.mean(scale.of(new) - scale.of(old))), gradient / len(old))


def _at_centre(fit: Estimates) -> Iterator[Effect]:
    """Return the effects of the columns of the design where all others are at the released centre.

    A number is moved from its centre; a level is compared with the reference of its factor.
    """
    if fit.geometry is None and fit.model.of != "residual":
        raise InputError("this fit released no centre: give public rows, as in margins(rows)")
    blocks = question_of(fit).terms().blocks
    d = len(fit.names)
    first = int(fit.intercept)
    centre = np.zeros(d - first)
    if fit.geometry is not None:
        centre = fit.geometry.centre
    at_centre = np.zeros((1, d))
    at_centre[0, :first] = 1.0
    for block in blocks:
        places = [fit.names.index(name) for name in block.names]
        for j, name in zip(places, block.names, strict=True):
            if _shared(block, blocks):
                yield Effect(name, math.nan, np.zeros(d), SEVERAL)
            elif block.number is None:
                at_reference = at_centre.copy()
                at_reference[0, places] = -centre[[k - first for k in places]]
                yield _change(fit, name, at_reference, at_reference + np.eye(d)[[j]])
            else:
                yield _derivative(fit, name, at_centre, np.eye(d)[[j]])


def _shared(block: TermBlock, blocks: tuple[TermBlock, ...]) -> bool:
    """Return whether no column of the design is the effect of one column of the table: the block is
    a product, or one of its columns is in another block, too.
    """
    if len(block.parts) > 1:
        return True
    columns = {column.name for column in block.columns}
    others = {column.name for other in blocks if other is not block for column in other.columns}
    return bool(columns & others)


def _over(fit: Estimates, rows: Any) -> Iterator[Effect]:
    """Return effects on average over the rows: every term that holds a column moves with it.

    A number moves by a small step, and what is compared, cut or taken from a calendar stays: such an
    expression moves by itself, from one level or answer to another.
    """
    asked = question_of(fit)
    terms = replace(asked.terms(), offset=None)  # effects are on the rate
    frame = asked.frame(rows, terms)
    if not len(frame):
        raise InputError("rows is empty: give at least one row")

    def encoded(changed: ModelTerms, table: Any = frame) -> Array:
        return fit.weights(asked.rows(table, changed))

    def moved(part: Part, level: Level) -> Array:
        """The rows where all have one level: in a column of the table, or in what is derived."""
        leaf = part.code if isinstance(part, Factor) else part
        column = leaf.column or leaf.level_column
        if column is not None:
            return encoded(terms, frame.assign(**{column.name: level}))
        value = part.at(level) if isinstance(part, Factor) else constant(float(level))
        return encoded(_with(terms, leaf, value))

    weights = encoded(terms)
    for part in _moving(terms):
        if isinstance(part, Factor):
            before = moved(part, part.reference)
            for level in part.levels:
                if level != part.reference:
                    yield _change(fit, f"{part.text}[{level}]", before, moved(part, level))
        elif part.answers:
            yield _change(fit, part.text, moved(part, False), moved(part, True))
        elif part.column is not None:
            low, high = _around(asked.numbers(frame, part.column), part.column)
            below = encoded(_stepped(terms, part.column), frame.assign(**{_MOVED: low}))
            above = encoded(_stepped(terms, part.column), frame.assign(**{_MOVED: high}))
            yield _derivative(fit, part.text, weights, (above - below) / (high - low)[:, None])
        else:  # a year
            further = apply("+", part.text, part, constant(1.0))
            moves = encoded(_with(terms, part, further)) - weights
            yield _derivative(fit, part.text, weights, moves)


def _moving(terms: ModelTerms) -> list[Part]:
    """Return the columns that move by themselves, each once: factors, true and false, years, and
    numbers that are no factors.
    """
    found: dict[str, Part] = {}
    for block in terms.blocks:
        for part in block.parts:
            if isinstance(part, Factor):
                found[part.text] = part
                continue
            for one in _movable(part):
                found.setdefault(one.text, one)
    return list(found.values())


def _movable(number: Expression) -> Iterator[Expression]:
    if number.steps or number.column is not None:
        yield number
        return
    for argument in number.arguments:
        yield from _movable(argument)


def _with(terms: ModelTerms, one: Expression, other: Expression) -> ModelTerms:
    """Replace one expression of the terms by another."""
    return terms.changed(lambda at: replace(other, text=at.text) if at == one else None)


def _around(values: Array, column: Number) -> tuple[Array, Array]:
    """Return a step below and above each value of a column, within its bounds."""
    step = _STEP * (column.high - column.low)
    return np.maximum(values - step, column.low), np.minimum(values + step, column.high)


def _stepped(terms: ModelTerms, column: Number) -> ModelTerms:
    """Replace one column of the terms by numbers of another; a column that a small step leaves
    unchanged stays.
    """
    moved = of_column(Number(_MOVED, column.low, column.high))

    def change(at: Expression) -> Expression | None:
        if at.steps:
            return at
        return replace(moved, text=at.text) if at.column == column else None

    return terms.changed(change)
