"""Published parts of a stepped fit: geometry, band, statuses, alternatives and words."""

import math
import re

import numpy as np

from dpinfer.fit.context import FitContext
from dpinfer.inference.joint import FEW, REFERENCE, TAIL, TOGETHER
from dpinfer.inference.posterior import Inference, ReleasedFit
from dpinfer.inference.tails import Clip
from dpinfer.mechanisms.step_sums import (
    Linearization,
)
from dpinfer.numerics.arrays import Array, solved
from dpinfer.result.estimates import Alternatives
from dpinfer.result.statements import (
    FAR_RECORDS,
    INTERCEPT_ABSORBED,
    INTERCEPT_NOT_REPORTED,
    NO_EVENTS_AT_ALL,
    NOT_SEPARABLE,
    OTHER_REFERENCE,
    REFERENCE_TOO_FEW_EVENTS,
    REFERENCE_TOO_RARE,
    REPORTED,
    TOO_FEW_EVENTS,
    TOO_FEW_RECORDS,
    TOO_NOISY,
    UNIDENTIFIED,
    Band,
    Geometry,
)
from dpinfer.schema.design import CountScale, Design

UNITS_CLIPPED = (
    "In the fit, what all rows of a unit add to the score is clipped to a released length. The intervals allow for the "
    "bias that the released tail of these lengths leaves"
)
_PLAIN_LEVEL = re.compile(r"([^\[\]:]+)\[([^\[\]]+)\]")  # of one factor, as in health[good]


def published(
    linearization: Linearization, inference: Inference, context: FitContext, n: float
) -> Geometry:
    """Return the geometry in original units; ``linearization`` is for rows (1, x~)."""
    design = context.design
    d = len(design.names)
    to_box = np.diag(1 / design.half)
    to_box[1:, 0] = -(design.middle / design.half)[1:]
    slopes = context.of_units[1:, 1:]
    dummy = context.columns.dummy
    low, high = limits_in_units(linearization, context)
    matrix = linearization.matrix[:, :d] @ to_box
    coef = linearization.coef[:d] @ to_box
    if linearization.family.counts:  # from outcomes over their bound to their own units
        matrix = matrix / math.sqrt(design.outcome.half)
        coef[0] += design.shift[0]
    return Geometry(
        columns=design.names,
        family=linearization.family.name,
        preconditioner=matrix,
        pilot_coef=coef,
        max_influence=linearization.max_influence,
        centre=solved(slopes, inference.centre[1:] - context.of_units[1:, 0]),
        records=n,
        low=np.where(dummy, 0.0, low)[1:],
        high=np.where(dummy, 1.0, high)[1:],
        clipped=tuple(design.names[j] for j in np.flatnonzero(linearization.clipped[:d])),
    )


def band(
    coef: Array, clip: Clip, clip_unit: float, residual_unit: float, ends: tuple[float, float]
) -> Band:
    """Return the band that a clip of influences leaves, in the units of the user.

    ``clip_unit`` is the unit of influences there, ``residual_unit`` the residual of a record with average
    leverage over its influence; ``ends`` are those of the range of outcomes.
    """
    low, high = ends
    return Band(
        pilot_coef=coef,
        clip=clip_unit * clip.size,
        width=residual_unit * clip.size,
        excess=residual_unit * clip.excess,
        limit=residual_unit * clip.limit,
        low=low,
        high=high,
    )


def limits_in_units(linearization: Linearization, context: FitContext) -> tuple[Array, Array]:
    """Return the limits of winsorised columns, and the released range of others, in original units."""
    design = context.design
    d = len(design.names)
    clipped = linearization.clipped[:d]
    low = design.middle + design.half * linearization.low[:d]
    high = design.middle + design.half * linearization.high[:d]
    return (
        np.where(clipped, low, context.scaling.low(design)),
        np.where(clipped, high, context.scaling.high(design)),
    )


def contrasts_of(context: FitContext) -> Array:
    """Return the contrasts of standardised coefficients that are the coefficients of the formula."""
    contrasts = context.of_units.T.copy()
    contrasts[0] = 0.0
    contrasts[0, 0] = 1.0  # the intercept is at the centre, which no scaling of columns changes
    return np.asarray(context.design.outcome.slope * contrasts)


def statuses(
    inference: Inference, linearization: Linearization, context: FitContext
) -> tuple[str, ...]:
    """Return the status of each coefficient: reported, or why it is not."""
    if not inference.identified:
        unidentified = (
            NO_EVENTS_AT_ALL if isinstance(context.design.outcome, CountScale) else UNIDENTIFIED
        )
        return (unidentified,) * len(context.design.names)
    return tuple(
        _status(j, inference, linearization, context) for j in range(len(context.design.names))
    )


def _status(j: int, inference: Inference, linearization: Linearization, context: FitContext) -> str:
    if inference.reported[j]:
        return REPORTED
    if j == 0:
        return INTERCEPT_ABSORBED if context.design.within else INTERCEPT_NOT_REPORTED
    return _reason(j, inference, linearization, context)


def _reason(j: int, inference: Inference, linearization: Linearization, context: FitContext) -> str:
    """Return why a column other than the intercept is not reported."""
    why = inference.answers.why[j]
    if why == TAIL and (j, -1) in inference.alternative_columns:
        low, high = limits_in_units(linearization, context)
        return FAR_RECORDS.format(low=low[j], high=high[j])
    if why == REFERENCE:
        return REFERENCE_TOO_FEW_EVENTS + _other_reference(j, inference, context)
    if why == TOGETHER:
        return _status_together(j, inference, context)
    if why == FEW:
        return TOO_FEW_RECORDS if linearization.family.exact else TOO_FEW_EVENTS
    return TOO_NOISY


def _status_together(j: int, inference: Inference, context: FitContext) -> str:
    nearest = inference.joint.nearest(j)
    # two levels of one factor are collinear where their reference is too rare to compare with
    if context.columns.dummy[j] and context.columns.group[j] == context.columns.group[nearest]:
        return REFERENCE_TOO_RARE + _other_reference(j, inference, context)
    return NOT_SEPARABLE.format(other=context.design.names[nearest])


def _other_reference(j: int, inference: Inference, context: FitContext) -> str:
    """Return which reference to take instead: the level with the most released information."""
    levels = np.flatnonzero(
        context.columns.dummy & (context.columns.group == context.columns.group[j])
    )
    own = inference.joint.basis[:, levels]
    most = levels[np.argmax(np.einsum("ik,ij,jk->k", own, inference.joint.hessian, own))]
    plain = _PLAIN_LEVEL.fullmatch(context.design.names[most])
    if plain is None or len(levels) < 2:
        return "; take another reference level"
    return OTHER_REFERENCE.format(factor=plain[1], level=plain[2])


def alternatives(
    inference: Inference, linearization: Linearization, context: FitContext
) -> Alternatives:
    """Return the contrasts that are reported instead of coefficients that are not."""
    return Alternatives(
        names=tuple(
            _other_name(j, base, linearization, context)
            for j, base in inference.alternative_columns
        ),
        instead_of=tuple(context.design.names[j] for j, _ in inference.alternative_columns),
        estimate=inference.alternatives.estimate,
        error=inference.alternatives.law,
    )


def _other_name(j: int, base: int, linearization: Linearization, context: FitContext) -> str:
    name = context.design.names[j]
    if base >= 0:
        return f"{name} - {context.design.names[base]}"
    low, high = limits_in_units(linearization, context)
    return f"{name} clipped to {low[j]:.4g}..{high[j]:.4g}"


def in_units(matrix: Array, fit: ReleasedFit, context: FitContext) -> Array:
    """Return a released matrix per record, for the coefficients of the formula in original units."""
    back = fit.back @ np.linalg.inv(fit.contrasts / context.design.outcome.slope)
    inner = back.T @ matrix @ back / fit.moments.n
    return np.asarray((inner + inner.T) / 2)


def in_the_geometry(design: Design, level: str) -> str:
    """Return the sentences of the estimand of every stepped fit, without the last full stop.

    ``level`` is what the intercept is.
    """
    unreported = (
        "A coefficient that is not reported is in the model like any other; its uncertainty is inside the intervals of "
        "the others"
    )
    if design.within:
        return (
            "Units whose columns change most count less in the fit, by all of their rows. Where the model is right "
            f"this changes nothing; where it is not, the others decide more. {unreported}"
        )
    one = "row" if design.unit.many else "record"
    return (
        f"{one.capitalize()}s far from the centre count less in the fit, with the weight w(x) that is released with "
        f"the result. Where the model is right this changes nothing; where it is not, {one}s near the centre decide "
        f"more. {unreported}. The intercept is the {level} at the released centre"
    )


def ordinary_words(design: Design, name: str) -> str:
    """Return the words of the estimand: the ordinary regression.

    How much a row counts is said here only where no ids and no weights say it (`counting`).
    """
    once = ""
    if design.within:
        return (
            f"the coefficients of {name} with an intercept of every unit, the within estimator, with all columns of "
            "the formula. Values beyond their declared bounds count as the bound"
        )
    if not design.unit.many and not design.unit.weights:
        once = " and every record once"
    return (
        f"the coefficients of the ordinary {name}, with all columns of the formula{once}. Values beyond their "
        "declared bounds count as the bound"
    )
