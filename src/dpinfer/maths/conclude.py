"""From the released fit to what is said about it: sets of columns, estimates, the law of their error.

S is reported, N stays in the model without an interval, Z is left out (coefficient 0).  The estimand is the coefficient
of S in the model of S and N, both fitted.  Symbols as in `aside`; with r = E_Z θ_Z and E_SN the map of the columns of
the model,

    taken = E_SN⁺ r       what of Z the others take over: no linear predictor changes
    r'    = r - E_SN taken      the rest, which moves the gradient by H r', with its noise
    Γ     = H_SS⁻¹ H_SN   by which an error of θ_N moves θ_S
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.maths.allowed import AllowedLaw, no_law
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.aside import FARTHEST, Block, Estimate, Fitted, block, events, reportable
from dpinfer.maths.entering import Shape
from dpinfer.maths.moments import raised
from dpinfer.maths.posterior import SURE

_KNOWN = 0.5  # least information on N, in units of its noise
_RELATED = 0.02  # least correlation that a column of N is believed to have with a column of S
_TWO_SIDED = 1.96  # lengths are compared at the usual level


@dataclass(frozen=True, eq=False)
class Ground:
    """What does not depend on N: S and its block, E_S H_SS⁻¹, the Γ of every column, and what b and sampling cause."""

    fit: Fitted
    S: Indices
    some: Block
    total: Array
    influence: Array
    coupling: Array
    length: Array
    sampling: Array
    noise: Array

    @classmethod
    def of(cls, fit: Fitted, S: Indices) -> "Ground":
        """That of the columns S."""
        some, total = block(fit, S), fit.total
        influence = some.back @ some.inverse
        return cls(
            fit=fit,
            S=S,
            some=some,
            total=total,
            influence=influence,
            coupling=some.inverse @ (some.back.T @ fit.hessian @ fit.back),
            length=influence.T @ influence,
            sampling=influence.T @ fit.score_cov @ influence,
            noise=influence.T @ (total - fit.score_cov) @ influence,
        )


@dataclass(frozen=True, eq=False)
class Split:
    """A choice of N, and what it makes of the fit of S.

    ``step`` is the debiasing step of θ_S, and ``shift`` moves the centre of N.  The variance of the estimate has three
    parts: ``sampling``, ``noise`` (b, and the noise of H in the step and in H r'), and ``moved``, the second moment of
    what the error of N adds.  ``bent`` is the second-order allowance; ``vague`` says that N leaves the intercept open;
    ``far`` are the numbers of N that are surely too far from fitted for a quadratic.
    """

    stays: Indices
    shift: Array
    step: Array
    sampling: Array
    noise: Array
    moved: Array
    bent: Array
    vague: bool
    far: Indices

    @property
    def size(self) -> float:
        """Mean logarithm of the half lengths of the intervals of S."""
        variance = np.diag(self.sampling + self.noise) + np.maximum(np.diag(self.moved), 0.0)
        return float(np.log(_TWO_SIDED * np.sqrt(variance) + self.bent).mean())


def stay_or_leave(ground: Ground) -> Split:
    """All others are left out, but for those whose staying makes the intervals of S shorter on average.

    A twin or a rare level is left out at no cost: the others take over its effect.  A strong column that is little
    related to S stays: without it a large r' would have to be undone.
    """
    stays, out = ground.S[:0], np.setdiff1d(np.arange(len(ground.fit)), ground.S)
    best = split(ground, stays, rests(ground, stays, out)[0])
    while len(out):
        after = rests(ground, stays, out)[1]
        tries = [split(ground, np.append(stays, j), beyond) for j, beyond in zip(out, after, strict=True)]
        j = int(np.argmin([one.size for one in tries]))
        if tries[j].size >= best.size:
            break
        stays, out, best = np.append(stays, out[j]), np.delete(out, j), tries[j]
    return best


def rests(ground: Ground, N: Indices, out: Indices) -> tuple[Array, Array]:
    """r' where N stays and ``out`` is left out; and as rows, where one more stays, each of ``out`` in its turn.

    One more column in the model takes away its own direction, beyond those of the others.
    """
    E = ground.fit.back
    basis, sizes, _ = np.linalg.svd(E[:, np.concatenate([ground.S, N])], full_matrices=False)
    basis = basis[:, sizes > np.finfo(float).eps * len(E) * sizes[0]]
    own = E[:, out] - basis @ (basis.T @ E[:, out])
    rest = own @ ground.fit.coef[out]
    length2 = (own**2).sum(axis=0)
    new = length2 > (np.finfo(float).eps * len(E)) ** 2 * (E[:, out] ** 2).sum(axis=0)
    share = np.where(new, rest @ own / np.where(new, length2, 1.0), 0.0)
    return rest, rest - (own * share).T


def split(ground: Ground, N: Indices, beyond: Array) -> Split:
    """The fit of S with N in the model and the rest moved to 0, which leaves ``beyond``, r'.

    H (E_S step - r') = g + noise is exact for a quadratic risk.  The noise Z of H is that of Z(E_S step - r') there, to
    first order: its covariance is h²/2 (‖s‖² + ‖r'‖²) I + h²/2 s sᵀ on E_S, s = E_S step, as r' is orthogonal to E_S.
    """
    fit, some, h2 = ground.fit, ground.some, ground.fit.scales.hessian**2 / 2
    gradient, left = fit.gradient + fit.hessian @ beyond, h2 * float(beyond @ beyond)
    variance = ground.sampling + ground.noise + left * ground.length
    step = some.inverse @ (some.back.T @ gradient)
    s = some.back @ step * _known_part(ground, step, variance)
    along = ground.influence.T @ s
    shift = np.where(fit.dummy[N], -fit.centre[N], 0.0)  # the intercept: at the reference level of N
    moved, vague, far = _moved(ground, N, shift, (gradient, left))
    return Split(
        stays=N,
        shift=shift,
        step=step,
        sampling=ground.sampling,
        noise=ground.noise + (left + h2 * float(s @ s)) * ground.length + h2 * np.outer(along, along),
        moved=moved,
        bent=step**2 * np.where(fit.dummy[ground.S], 1.0, fit.spread[ground.S]) / 2 * (not fit.rules.quadratic),
        vague=bool(vague > variance[0, 0]),
        far=far,
    )


def estimates(ground: Ground, found: Split) -> tuple[Array, Array]:
    """θ_S after the debiasing step, and the working values of N: both with what they take over of the rest."""
    fit, S, N = ground.fit, ground.S, found.stays
    model = np.concatenate([S, N])
    Z = np.setdiff1d(np.arange(len(fit)), model)
    taken = np.linalg.lstsq(fit.back[:, model], fit.back[:, Z] @ fit.coef[Z], rcond=None)[0]
    start, beside = fit.coef[S] + taken[: len(S)], fit.coef[N] + taken[len(S) :]
    start[0] += found.shift @ beside
    return start + found.step, beside


def _known_part(ground: Ground, step: Array, variance: Array) -> float:
    """The length of the true step over that of its estimate.

    The gradient of a logistic fit is known, and with it the step that the noise of H multiplies.  That of least squares
    has noise, and so has its step, from g and from H.  Both are in its squared length on average,
    ‖s‖² (1 + h²/2 (tr P² + ‖Ps‖²/‖s‖²)) + tr E var Eᵀ with P = E H_SS⁻¹ Eᵀ, and are taken off.
    """
    E = ground.some.back
    s = E @ step
    length2 = float(s @ s)
    if not ground.fit.rules.quadratic or length2 == 0:
        return 1.0
    P = ground.influence @ E.T
    by_hessian = ground.fit.scales.hessian**2 / 2 * ((P**2).sum() + ((P @ s) ** 2).sum() / length2)
    by_gradient = np.trace(E @ variance @ E.T) / length2
    return float(np.sqrt(max(0.0, 1 - by_gradient) / (1 + by_hessian)))


def _moved(ground: Ground, N: Indices, shift: Array, at: tuple[Array, float]) -> tuple[Array, float, Indices]:
    """Second moment of the move of θ_S by the error of θ_N, that of the intercept with the noise of Γ, and what is far.

    θ_N is held at its released value in the equation of S, so its error δ moves θ_S by -Γδ.  Γ is not used in the
    estimate; that its released value has noise is no error, and is taken off: a = E_S H_SS⁻¹ has E(aᵀZb)² at least
    h²/2 ‖a‖²‖b‖².  What is left may be nothing, by that noise: but a correlation of at least .02 is believed, in the
    metric of the information.  The information on N is lowered by one deviation of its noise, for N is what was found
    weak.
    """
    fit, some, (gradient, left) = ground.fit, ground.some, at
    if not len(N):
        return np.zeros(some.inverse.shape), 0.0, N
    h, coupling = fit.scales.hessian, ground.coupling[:, N]
    own = fit.back[:, N] - some.back @ coupling  # directions of N given S
    length = own.T @ own
    unit = np.sqrt(h) * np.sqrt(np.diag(length))
    information = raised(own.T @ fit.hessian @ own / np.outer(unit, unit) - np.eye(len(N)), _KNOWN)
    inner, slope = np.linalg.inv(information) / np.outer(unit, unit), own.T @ gradient
    step, spread = inner @ slope, inner @ (own.T @ ground.total @ own + left * length) @ inner
    error = spread + np.outer(step, step)
    coupling[0] -= shift
    whole = coupling @ error @ coupling.T
    known_move = whole - h**2 / 2 * np.trace(error @ length) * ground.length
    least = _RELATED**2 * np.trace(np.linalg.solve(inner, error)) / some.information
    moved = known_move + np.diag(np.maximum(least - np.diag(known_move), 0.0))
    return moved, float(whole[0, 0]), N[_far(fit, N, step, np.sqrt(np.diag(spread)))]


def _far(fit: Fitted, N: Indices, step: Array, unsure: Array) -> npt.NDArray[np.bool_]:
    """Numbers whose step is surely not noise, and beyond what a quadratic around the estimate is of use for."""
    reach = np.where(np.isnan(fit.ends[N, 0]), 1 + np.abs(fit.centre[N]), 0.0)
    far = (np.abs(step) * reach > FARTHEST) & (np.abs(step) > SURE * unsure)
    return np.asarray(far & (not fit.rules.quadratic))


@dataclass(frozen=True, eq=False)
class Conclusion:
    """Places among the columns of the fit: reported with an interval, in the model without one, with too few events.

    ``far`` are those in the model without an interval that are surely far from fitted.

    ``coef`` has a number for every column of the fit, 0 for what is left out; ``centre`` is where its intercept is the
    linear predictor.  ``law`` is the law of the error of what is reported.
    """

    reported: Indices
    silent: Indices
    few: Indices
    far: Indices
    coef: Array
    centre: Array
    law: AllowedLaw


def conclude(fit: Fitted, draws: int, seed: int) -> Conclusion:
    """Which coefficients are reported, which columns stay in the model, and what is known about the former.

    ``draws`` and ``seed`` are those of the law's sample.
    """
    seen, kept, rules = events(fit), reportable(fit), fit.rules
    ground = Ground.of(fit, kept)
    some, best = ground.some, stay_or_leave(ground)
    clear = np.ones(len(kept), dtype=bool)
    clear[0] = not best.vague and some.information[0] >= rules.events and some.signal[0] >= rules.signal
    coef, centre = np.zeros(len(fit)), fit.centre.copy()
    coef[kept], coef[best.stays] = estimates(ground, best)
    centre[best.stays] += best.shift
    few = seen.allowance[kept]
    law = AllowedLaw(
        sampling=best.sampling,
        noise=best.noise + _semidefinite(best.moved, np.sqrt(np.diag(best.sampling + best.noise))),
        below=best.bent + np.where(seen.toward[kept] < 0, few, 0.0),
        above=best.bent + np.where(seen.toward[kept] > 0, few, 0.0),
        draws=draws,
        seed=seed,
    )
    return Conclusion(
        reported=kept[clear],
        silent=np.concatenate([kept[~clear], best.stays]),
        few=np.flatnonzero(~seen.enough),
        far=best.far,
        coef=coef,
        centre=centre,
        law=law.mapped(np.eye(len(kept))[clear]),
    )


def nothing(found: Estimate, shape: Shape, centre: Array, seed: int) -> Conclusion:
    """Where the fit as a whole is not identified: every column stays in the model, and nothing is reported."""
    kept, none = shape.kept, shape.kept[:0]
    coef = shape.preconditioner.T @ found.coef
    coef[0] = centre[kept] @ coef
    return Conclusion(none, np.arange(len(kept)), none, none, coef, centre[kept], no_law(seed))


def _semidefinite(moved: Array, scale: Array) -> Array:
    """A second moment with the diagonal of this one, or 0: noise taken off it can leave it indefinite."""
    relative = moved / np.outer(scale, scale)
    near = raised(relative, 0.0)
    factor = np.sqrt(np.maximum(np.diag(relative), 0.0) / np.maximum(np.diag(near), np.finfo(float).tiny)) * scale
    return np.asarray(near * np.outer(factor, factor))
