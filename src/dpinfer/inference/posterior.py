"""The posterior of all coefficients given the releases of a stepped fit.

With t the pilot coefficients, a the step that was taken from there, and δ the remaining distance to the
ordinary coefficients, the score equation is

    H' δ = g - R - H a + ξ,     ξ ~ N(0, W),

where H is the Hessian at t and H' that half way along δ: with the Hessian at the midpoint a Taylor
expansion of the score has no second-order term.  H is random given its release (`dpinfer.inference.hessian`),
so that the right side has error covariance W + Cov(H (a + δ)): the equation holds however weak a column is,
and no column is left out.  A priori θ ~ N(t + a, S²), S a plausible size of an effect, which decides where the
data do not.  This is the linear Bayes estimate of an errors-in-variables regression, in which the noise of H
plays the part of errors in the regressors (Fuller 1987, Measurement Error Models).

| symbol | meaning                                                                | name in code    |
| ------ | ---------------------------------------------------------------------- | --------------- |
| u      | preconditioned coordinates, t = E θ, θ the coefficients at the centre  | `back` is E     |
| H, V   | released Hessian and score covariance at t, in u                       |                 |
| g, R   | released score at t, and the remainder of the step a                   |                 |
| W      | V + σ² I, and the second moment of the clipping bias of the score      | `bias`          |
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpinfer.inference.constants import (
    CLEAR_SDS,
    LEVEL_PRIOR_SD,
    MIN_EVENTS,
    MIN_RECORDS,
    MIN_SIGNAL,
    SURE_SDS,
)
from dpinfer.inference.hessian import (
    HessianPosterior,
    HessianPrior,
    ReleasedMoments,
    hessian_posterior,
    hessian_prior,
    released_moments,
)
from dpinfer.inference.joint import (
    BIAS_BOUND,
    NO_EVENTS,
    PRIVACY_NOISE,
    REFERENCE,
    Answers,
    Joint,
    VarianceTerm,
)
from dpinfer.inference.moments import Columns, Moments, Scales, column_sds, raised, shrink
from dpinfer.inference.newton import LocalModel
from dpinfer.numerics.arrays import Array, Indices, solved
from dpinfer.numerics.links import Family
from dpinfer.numerics.reasons import Numerical

# fixed-point iterations for the second moment of δ, which the noise of H multiplies
_ROUNDS: Numerical[int] = 8
_LOOSE: Numerical[float] = 1e-2  # S over the prior sd of the intercept, which makes its prior flat


@dataclass(frozen=True, eq=False)
class Step:
    """The last releases of a fit, in u: pilot coefficients, the step, its score, its remainder, H and V.

    ``score_noise`` and ``remainder_noise`` are noise sds; those of the matrices are in ``scales``.
    """

    coef_u: Array
    step: Array
    score: Array
    remainder: Array
    hessian: Array
    score_cov: Array
    score_noise: float
    remainder_noise: float
    scales: Scales
    family: Family

    @property
    def exact(self) -> bool:
        """Return whether the risk is quadratic, so that a step has no remainder."""
        return self.family.exact

    @property
    def noise(self) -> float:
        """Return the noise sd of score less remainder."""
        return float(np.hypot(self.score_noise, self.remainder_noise))


@dataclass(frozen=True, eq=False)
class ReleasedFit:
    """The last step of a fit with the columns: ``back`` is E, ``spread`` their sds, ``sizes`` their S.

    ``centre`` is where the intercept is the predictor.  ``withheld`` marks winsorised numbers whose ordinary
    coefficient is not reported; ``bias_bound`` is added to intervals as it is.  ``contrasts`` and ``shift``
    lead to the coefficients of the formula.  ``without_events`` says that no count is surely positive.
    ``bias`` is the second moment of the bias of the score by clip and winsor limits, and ``limited`` marks
    the numbers that have limits.
    """

    last: Step
    moments: Moments
    columns: Columns
    centre: Array
    back: Array
    spread: Array
    sizes: Array
    withheld: npt.NDArray[np.bool_]
    bias_bound: Array
    contrasts: Array
    shift: float = 0.0
    without_events: bool = False
    bias: Array | float = 0.0
    limited: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1, dtype=bool))

    @classmethod
    def of(
        cls, last: Step, matrix: Array, moments: Moments, columns: Columns, centre: Array
    ) -> "ReleasedFit":
        """Return a fit with the preconditioner ``matrix``, S of log-odds and the identity as contrasts."""
        d = len(centre)
        to_centre = np.eye(d)
        to_centre[0] = centre
        back = np.asarray(np.linalg.inv(to_centre @ matrix.T), dtype=np.float64)
        spread = column_sds(moments.definite)
        sizes = log_odds_sizes(spread, columns.dummy | columns.of_splines)
        return cls(
            last,
            moments,
            columns,
            centre,
            back,
            spread,
            sizes,
            np.zeros(d, dtype=bool),
            np.zeros(d),
            np.eye(d),
        )

    @property
    def score_cov(self) -> Array:
        """Return V with its noise shrunk away, towards a multiple of H: its value under the model."""
        last = self.last
        size = float(np.trace(last.score_cov))
        if (
            last.family.farthest is None
        ):  # h' does not bound the variance, so that tr V may be all noise
            size = max(size, last.scales.score_cov * float(np.sqrt(len(self.centre))))
        ratio = size / float(np.trace(last.hessian)) if size > 0 else 1.0
        return raised(shrink(last.score_cov, ratio * last.hessian, last.scales.score_cov)[0], 0.0)

    @property
    def dispersion(self) -> float:
        """Return Var(y)/E[y] of a fit of counts, tr V/tr H; 1 in other families.

        An event counts so much in units of the outcome: a cost is as many events in cents as in euros.
        """
        if not self.last.family.counts:
            return 1.0
        information = float(np.trace(self.last.hessian))
        if information <= 0:  # noise alone: nothing can be counted
            return np.inf
        return max(float(np.trace(self.score_cov)) / information, float(np.finfo(float).tiny))


def log_odds_sizes(spread: Array, dummy: npt.NDArray[np.bool_]) -> Array:
    """Return S of a logistic fit: 2.5 for levels, functions of splines, the intercept and 2 sds of numbers."""
    return np.where(
        dummy | (np.arange(len(dummy)) == 0), LEVEL_PRIOR_SD, LEVEL_PRIOR_SD / 2 / spread
    )


def outcome_sizes(spread: Array, dummy: npt.NDArray[np.bool_], outcome: float) -> Array:
    """Return S of least squares: two sds of the outcome for a level, one for one sd of a number."""
    return outcome * np.where(dummy | (np.arange(len(dummy)) == 0), 2.0, 1.0 / spread)


@dataclass(frozen=True, eq=False)
class Events:
    """The relative noise of the number of events, of each level and of the reference of its factor.

    Events are the rarer outcomes in logistic regression, and the counted ones in Poisson regression.  It is
    `NO_EVENTS` where there may be fewer than 8, and 0 for columns that are neither levels nor B-splines.
    ``level_toward`` and ``reference_toward`` are the sign, 1 or -1, of the change of the predictor if there
    were fewer.
    """

    level: Array
    level_toward: Array
    reference: Array
    reference_toward: Array


def no_events(d: int) -> Events:
    """Return the events of least squares, which has no rare outcomes."""
    none = np.zeros(d)
    return Events(none, none, none, none)


def events(fit: ReleasedFit) -> Events:
    """Return the relative noise of the number of events of each level and of its reference."""
    columns = fit.columns
    level = _doubt(fit, _of_levels(columns))
    for position, doubt in zip(
        (position for position, _ in columns.cells), _doubt(fit, _of_cells(columns)), strict=True
    ):
        level[position] = max(level[position], doubt)
    level_toward, reference_toward = _toward(fit)
    return Events(
        np.where(columns.dummy, level, _doubt_of_splines(fit)),
        level_toward,
        np.where(columns.dummy, _doubt(fit, _of_references(columns)), 0.0),
        reference_toward,
    )


def _doubt_of_splines(fit: ReleasedFit) -> Array:
    """Return `NO_EVENTS` for the columns of a B-spline one of whose functions may have no events.

    Its coefficient is not identified then, and its neighbours change with it.  A natural spline is linear
    there.  It is 0 for other columns.
    """
    found = np.zeros(len(fit.columns))
    for local in fit.columns.local:
        if not local.shares:
            continue
        counted = np.zeros((len(found), len(local.matrix) + 1))
        counted[local.columns, 1:] = local.matrix.T
        counted[local.columns[0], 0] = 1.0
        counted[:, 0] -= counted[:, 1:].sum(axis=1)
        if _doubt(fit, counted).max() > 1 / CLEAR_SDS:
            found[local.columns[1:]] = NO_EVENTS
    return found


def _toward(fit: ReleasedFit) -> tuple[Array, Array]:
    """Return the sign of the change of the predictor of each level, and reference, without events.

    A mean count would go to 0; a probability to the nearer of 0 and 1.
    """
    d = len(fit.centre)
    if fit.last.family.counts:
        return -np.ones(d), -np.ones(d)
    columns = fit.columns
    coef = solved(fit.back, fit.last.coef_u + fit.last.step)
    together = columns.dummy[:, None] & (columns.group[:, None] == columns.group)
    base = coef[0] - together @ (fit.centre * coef)
    return np.sign(base + coef), np.sign(base)


def _of_levels(columns: Columns) -> Array:
    """Return a column per level: c with c·(1, x) = 1 for its records, and 0 for others."""
    return np.diag(columns.dummy.astype(float))


def _of_cells(columns: Columns) -> Array:
    """Return the same for the cells of interacting levels."""
    found = np.zeros((len(columns), len(columns.cells)))
    for k, (_, combination) in enumerate(columns.cells):
        for position, weight in combination:
            found[position, k] += weight
    return found


def _of_references(columns: Columns) -> Array:
    """Return the same for the reference of each level's factor."""
    together = columns.dummy[:, None] & (columns.group[:, None] == columns.group)
    found = np.where(together, -1.0, 0.0)
    found[0] = columns.dummy
    return found


def _doubt(fit: ReleasedFit, counted: Array) -> Array:
    """Return the relative noise of the number of events of some records, `NO_EVENTS` below 8.

    With v·u = 1 for these records and 0 for the others (or a share, which is at least its square)
    their residuals sum to v·g, and either outcome has at least vᵀHv less that: p >= p(1 - p).  So
    there are vᵀHv - |v·g| or more (weighted, at most 1 each), but for the noise hypot(σ‖v‖, h‖v‖²).
    It holds at any coefficients; at 0, where p is one half, the number is vᵀMv/2 - |v·g| exactly.  The
    smaller of the two relative noises is taken.  In Poisson regression the number is vᵀHv + v·g.
    """
    last = fit.last
    moments = fit.moments
    uncentred = fit.back.copy()
    # so that v·u is x_j, not x_j less its centre
    uncentred[:, 1:] += np.outer(fit.back[:, 0], fit.centre[1:])
    v = uncentred @ counted
    noise = (last.scales.hessian, last.score_noise)
    if last.family.counts:
        return relative_noise(v, last.hessian, last.score @ v, noise, MIN_EVENTS * fit.dispersion)
    at_line = relative_noise(v, last.hessian, -np.abs(last.score @ v), noise)
    inner = solved(moments.back, moments.score)  # the score as it was released
    v = moments.back.T @ counted
    noise = (moments.noise / 2, moments.noise)
    at_zero = relative_noise(v, moments.released / 2, -np.abs(inner @ v), noise)
    return np.minimum(at_line, at_zero)


def relative_noise(
    v: Array,
    hessian: Array,
    further: Array,
    noise: tuple[float, float],
    min_events: float = MIN_EVENTS,
) -> Array:
    """Return the noise sd of vᵀHv + ``further`` over it for each column v; `NO_EVENTS` below ``min_events``.

    ``noise`` has the noise sds of H and of the score.
    """
    length = np.linalg.norm(v, axis=0)
    number = np.einsum("ij,ik,kj->j", v, hessian, v) + further
    noise_sd = np.hypot(noise[0] * length**2, noise[1] * length)
    return np.where(number >= min_events, noise_sd / np.maximum(number, min_events), NO_EVENTS)


def enough_events(fit: ReleasedFit) -> bool:
    """Return whether all records together surely have events, and in logistic regression both outcomes."""
    last = fit.last
    level = fit.back[:, 0]
    length = float(np.linalg.norm(level))
    off = float(last.score @ level)
    number = float(level @ last.hessian @ level) + (off if last.family.counts else -abs(off))
    noise = np.hypot(last.score_noise * length, last.scales.hessian * length**2)
    return bool(number >= MIN_EVENTS * fit.dispersion + SURE_SDS * noise)


@dataclass(frozen=True, eq=False)
class _Solution:
    """The prior mean, the posterior mean less that, its covariance, the part by sampling and other ``terms``.

    ``changed`` is the possible change of the information on each number along the step.
    """

    start: Array
    step: Array
    covariance: Array
    sampling: Array
    terms: tuple[VarianceTerm, ...]
    changed: Array


@dataclass(frozen=True, eq=False)
class Equation:
    """The score equation of a fit, in the basis of the posterior of H, with δ in coefficients at the centre.

    ``released`` is H about its own mean, ``prior`` and ``hessian`` are its laws, and ``few`` the events of
    levels.  None of these depends on the bias of the score, so that `with_bias` keeps them.
    """

    fit: ReleasedFit
    released: ReleasedMoments
    prior: HessianPrior
    hessian: HessianPosterior
    about_mean: Array
    pilot: Array
    few: Events

    @classmethod
    def of(cls, fit: ReleasedFit) -> "Equation":
        """Return the equation of a fit."""
        last = fit.last
        columns = fit.columns
        d = len(fit.centre)
        to_centre = np.eye(d)
        to_centre[0, 1:] = fit.centre[1:]
        H = released_moments(last.hessian, fit.back @ to_centre, columns, last.scales.hessian)
        M = released_moments(fit.moments.released, fit.moments.back.T, columns, fit.moments.noise)
        pilot = solved(fit.back, last.coef_u)
        # without an exact step a variance in H may differ from that in M by half anyway, limits or not
        limited = fit.limited if last.exact else np.zeros(d, dtype=bool)
        S = hessian_prior(H, M, fit.moments.matrix, columns, pilot, last.family, limited)
        about_mean = np.eye(d)
        about_mean[0, 1:] = (fit.centre - S.mean)[1:]
        hessian = hessian_posterior(
            last.hessian, last.scales.hessian, S, fit.back @ about_mean, fit.moments
        )
        few = no_events(d) if last.exact else events(fit)
        return cls(fit, H, S, hessian, about_mean, pilot, few)

    def with_bias(self, fit: ReleasedFit) -> "Equation":
        """Return the equation of the same fit with another bias, or with other numbers withheld."""
        return replace(self, fit=fit)

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        """Return which columns have a variance, weighted by h', of at least `MIN_SIGNAL` noise sds of the Hessian."""
        return np.asarray(np.diag(self.released.raw) > MIN_SIGNAL * np.diag(self.released.entry_sd))

    def posterior(self) -> Joint:
        """Return the posterior of all coefficients given the releases, with a flat prior of the intercept."""
        fit = self.fit
        last = fit.last
        columns = fit.columns
        d = len(fit.centre)
        S = self.prior
        hessian = self.hessian
        law = self.solved()
        # The law of H has the noise of what a number has by itself, given the others: in whitened columns that of
        # collinear numbers is as well known as that of others.  It does not have the noise of the count of a level,
        # from which S has its variance, or what the rarity of a level cuts; nor the change of H along the step, to
        # which all that remains of a number may be due if other columns explain it nearly completely.
        of_count = S.variance_sd * (1.0 if last.exact else np.sqrt(hessian.cut))
        own = np.hypot(np.where(columns.dummy, of_count, 0.0), law.changed)
        few = self.few
        level = few.level
        if last.exact:
            number = np.diag(S.matrix)
            scarce = columns.dummy & (number < np.maximum(MIN_RECORDS, CLEAR_SDS * S.variance_sd))
            level = np.where(scarce, NO_EVENTS, level)
        curvature_correction = (
            np.zeros(d)
            if last.exact
            else law.step**2 * np.where(columns.dummy, 1.0, fit.spread) / 2
        )
        prior_sd = fit.sizes.copy()
        prior_sd[0] /= _LOOSE
        return Joint(
            estimate=law.start + law.step,
            prior_mean=law.start,
            covariance=law.covariance,
            sampling=law.sampling,
            sizes=fit.sizes,
            prior_sd=prior_sd,
            basis=hessian.basis.T @ fit.back,
            hessian=hessian.matrix,
            hessian_sd=hessian.entry_sd,
            own=own,
            curvature_correction=curvature_correction,
            bias_bound=fit.bias_bound,
            few=level,
            toward=few.level_toward,
            reference_few=few.reference,
            reference_toward=few.reference_toward,
            group=np.where(columns.dummy, columns.group, -1).astype(float),
            withheld=fit.withheld.astype(float),
            centre=fit.centre,
            contrasts=fit.contrasts,
            shift=fit.shift,
            terms=law.terms,
        )

    def solved(self) -> _Solution:
        """Return the posterior by fixed-point iteration: Cov(H (a + δ)) depends on the distribution of δ.

        With C the posterior mean of H' and Ω = W + Cov(H (a + δ)), the generalised least-squares estimate
        with prior precision S⁻² has gain Cᵀ Ω⁻¹, covariance (Cᵀ Ω⁻¹ C + S⁻²)⁻¹ and δ = covariance · gain · right.
        """
        fit = self.fit
        hessian = self.hessian
        last = fit.last
        d = len(fit.centre)
        basis = hessian.basis.T
        E = basis @ fit.back
        W = basis @ (fit.score_cov + fit.bias + last.noise**2 * np.eye(d)) @ basis.T
        way = solved(fit.back, last.step)
        right = basis @ (last.score - last.remainder) - hessian.matrix @ (basis @ last.step)
        start = self.pilot + way
        precision = fit.sizes**-2.0
        precision[0] *= _LOOSE**2
        step = np.zeros(d)
        second = E @ np.outer(way, way) @ E.T
        own = np.zeros((d, d))
        gain: Array = np.zeros((d, d))
        covariance: Array = np.zeros((d, d))
        for _ in range(_ROUNDS):
            C = self._hessian_after(way + step / 2) @ E
            gain = solved(W + hessian.moved(second) + own, C).T
            covariance = np.asarray(np.linalg.inv(gain @ C + np.diag(precision)), dtype=np.float64)
            step = covariance @ gain @ right
            # The second moment of a + δ.  The square of a posterior mean exceeds that of its true value by
            # its sampling variance on average, so nothing is added for what the records decide; where they
            # decide nothing the mean is 0, and the variance of the prior is added.
            silent = covariance * precision @ covariance
            remaining = np.outer(step, step) + silent
            both = np.outer(way + step, way + step) + silent
            second = E @ both @ E.T
            own = self._of_columns(both, remaining)
        K = covariance @ gain

        def contributed(score_cov: Array) -> Array:
            return np.asarray(K @ (basis @ score_cov @ basis.T) @ K.T)

        sampling = contributed(fit.score_cov)
        terms = (
            VarianceTerm(PRIVACY_NOISE, contributed(last.noise**2 * np.eye(d))),
            VarianceTerm(BIAS_BOUND, contributed(np.zeros((d, d)) + fit.bias)),
        )
        if last.exact:
            return _Solution(start, step, covariance, sampling, terms, np.zeros(d))
        toward = np.linalg.inv(self.about_mean)
        changed = self._curvature_change(np.diag(toward @ remaining @ toward.T)) * np.diag(
            self.prior.matrix
        )
        changed[fit.columns.of_splines] = 0.0  # all of it is in the covariance
        return _Solution(start, step, covariance, sampling, terms, changed)

    def _hessian_after(self, step: Array) -> Array:
        """Return the Hessian after a step, in the basis: it changes as along a Newton step."""
        if self.fit.last.exact or not step.any():
            return self.hessian.matrix
        local_model, to_basis = self._local_model
        H = to_basis.T @ self.hessian.matrix @ to_basis
        inverse = np.linalg.inv(to_basis)
        later = local_model.hessian_after(H, self._from_centre @ step)
        return np.asarray(inverse.T @ later @ inverse)

    @cached_property
    def _from_centre(self) -> Array:
        """Return the map from coefficients at the centre to those of (1, x)."""
        to_centre = np.eye(len(self.fit.centre))
        to_centre[0, 1:] = self.fit.centre[1:]
        return np.asarray(np.linalg.inv(to_centre))

    @cached_property
    def _local_model(self) -> tuple[LocalModel, Array]:
        """Return the local model at the pilot in coefficients of (1, x), and the map from these to the basis."""
        fit = self.fit
        family = fit.last.family
        local_model = LocalModel(
            fit.moments.definite,
            self._from_centre @ self.pilot,
            np.eye(len(fit.centre)),
            family,
            columns=fit.columns if family.counts else None,
        )
        return local_model, self.hessian.basis.T @ fit.back @ np.linalg.inv(self._from_centre)

    def _of_columns(self, both: Array, remaining: Array) -> Array:
        """Return the covariance of H (a + δ) by single columns, which the law of H does not have.

        It has the variances of rare levels, which multiply a + δ (second moment ``both``), and third
        derivatives along numbers, which multiply δ (``remaining``).  Of a number only its tolerance (1/VIF)
        counts: two nearly collinear ones may each be far off, while the predictor is not.
        """
        toward = np.linalg.inv(self.about_mean)
        size2 = np.diag(toward @ both @ toward.T)
        square = size2 * self.prior.variance_sd**2 * self.hessian.cut
        if not self.fit.last.exact:
            variance = np.diag(self.prior.matrix)
            tolerance = 1 / (variance * np.diag(np.linalg.inv(self.prior.matrix)))
            # the functions of a spline are curved together: their tolerance does not count
            tolerance[self.fit.columns.of_splines] = 1.0
            left2 = np.diag(toward @ remaining @ toward.T) * tolerance
            square += left2 * (variance * self._curvature_change(size2 * tolerance)) ** 2
        dual = self.hessian.basis.T @ np.linalg.inv(self.fit.back @ self.about_mean).T
        return np.asarray(dual * square @ dual.T)

    def _curvature_change(self, size2: Array) -> Array:
        """Return the relative change of the information on each number along a step of this second moment."""
        columns = self.fit.columns
        number = ~columns.dummy & (np.arange(len(columns)) > 0)
        return np.where(number, np.minimum(1.0, np.sqrt(size2) / 2), 0.0)


@dataclass(frozen=True, eq=False)
class Inference:
    """The posterior at ``centre``, and which coefficients of the formula are reported.

    ``answers`` has one contrast per coefficient.  ``alternatives`` are contrasts that are reported instead of
    coefficients that are not: ``alternative_columns`` has for each the column, and the level that it is
    compared with, or -1 for the slope of a winsorised number.  ``identified`` says that there are surely
    events; without, nothing is reported.
    """

    joint: Joint
    centre: Array
    answers: Answers
    reported: npt.NDArray[np.bool_]
    alternatives: Answers
    alternative_columns: tuple[tuple[int, int], ...]
    identified: bool = True

    @property
    def coef(self) -> Array:
        """Return the estimate of each reported coefficient, and the posterior mean of the others."""
        return np.where(self.reported, self.answers.estimate, self.joint.coef)

    def without_intercept(self) -> "Inference":
        """Return the same with the intercept not reported: effects of persons take its place."""
        reported = self.reported.copy()
        reported[0] = False
        return replace(self, reported=reported)


def infer(equation: Equation, clipped: npt.NDArray[np.bool_], draws: int, seed: int) -> Inference:
    """Return the posterior and the reported coefficients; ``clipped`` marks the winsorised numbers."""
    fit = equation.fit
    d = len(fit.centre)
    joint = equation.posterior()
    reported = joint.about(np.eye(d), draws, seed).known
    identified = fit.last.exact or (enough_events(fit) and not fit.without_events)
    if not identified:
        reported[:] = False
    # The intercept is that of records at the reference of unreported levels, so that it does not rest on
    # their coefficients; with an unreported number there is no such intercept.
    centre = np.where(fit.columns.dummy & ~reported, 0.0, fit.centre)
    joint = joint.at(centre - fit.centre)
    answers = joint.about(np.eye(d), draws, seed)
    numbers = ~fit.columns.dummy
    reported[0] = (
        bool(reported.any()) and bool(answers.known[0]) and bool(reported[1:][numbers[1:]].all())
    )
    if not identified:
        joint = replace(joint, few=np.full(d, NO_EVENTS))  # so that no contrast is reported either
        return Inference(
            joint,
            centre,
            answers,
            reported,
            joint.about(np.zeros((0, d)), draws, seed),
            (),
            identified=False,
        )
    vectors, columns = _instead(joint, reported, answers, clipped)
    as_clipped = replace(joint, withheld=np.where(clipped, 0.0, joint.withheld))
    known = np.flatnonzero(as_clipped.about(vectors, draws, seed).known)
    alternatives = as_clipped.about(vectors[known], draws, seed)
    return Inference(
        joint, centre, answers, reported, alternatives, tuple(columns[k] for k in known)
    )


def _instead(
    joint: Joint, reported: npt.NDArray[np.bool_], answers: Answers, clipped: npt.NDArray[np.bool_]
) -> tuple[Array, list[tuple[int, int]]]:
    """Return contrasts that may be reported instead: slopes of winsorised numbers, levels against others."""
    d = len(reported)
    vectors: list[Array] = [np.eye(d)[j] for j in np.flatnonzero(clipped & ~reported)]
    columns = [(int(j), -1) for j in np.flatnonzero(clipped & ~reported)]
    for group in np.unique(joint.group[joint.group >= 0]):
        levels = np.flatnonzero(joint.group == group)
        without_reference = [j for j in levels if answers.why[j] == REFERENCE]
        base = _best_known(joint, levels)
        if not without_reference or base is None:
            continue
        for j in levels:
            if j != base and not reported[j]:
                vectors.append(np.eye(d)[j] - np.eye(d)[base])
                columns.append((int(j), base))
    return np.array(vectors).reshape(len(vectors), d), columns


def _best_known(joint: Joint, levels: Indices) -> int | None:
    """Return the level of a factor with the least relative noise of its events; None if all may be 0."""
    best = int(levels[np.argmin(joint.few[levels])])
    return best if joint.few[best] <= 1 / CLEAR_SDS else None
