"""From the releases of a stepped fit to what is known of all coefficients: one posterior, and no
column leaves.

Post-processing of released values only.  With t the released line, a the step that was taken and δ
the way from there to the coefficients asked for,

    H' δ = g - R - H a + ξ,     ξ ~ N(0, W),

where H is the curvature at the line and H' the one half way along δ.  H is known by its law
(`inference/hessian.py`), so the error of the right side is W plus what is unsure of H times the whole
way a + δ: the equation holds however weak a column is.  Where the records are silent a plausible
size S stands in: coefficients are N(t + a, S²) a priori.

| symbol | meaning                                                                | name in code    |
| ------ | ---------------------------------------------------------------------- | --------------- |
| u      | coordinates of the geometry, t = E θ, θ the coefficients at the centre | `back` is E     |
| H, V   | released curvature and score covariance at the line, in u              |                 |
| g, R   | released score at the line, and what the step a leaves                 |                 |
| W      | V + σ² I, and the bias of the score by a clip, as a second moment      | `bias`          |
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dpinfer.inference.hessian import (
    HessianPosterior,
    HessianPrior,
    ReleasedMoments,
    hessian_change,
    hessian_posterior,
    hessian_prior,
    released_moments,
    within,
)
from dpinfer.inference.joint import NO_EVENTS, REFERENCE, SIGNAL, Answers, Joint
from dpinfer.inference.moments import (
    MIN_EVENTS,
    SURE,
    Columns,
    Moments,
    Scales,
    column_sds,
    raised,
    shrink,
)
from dpinfer.inference.tilting import tilted
from dpinfer.numerics.arrays import Array, Indices, solved
from dpinfer.numerics.links import Family

LEVEL = 2.5
"""S of a level, and of two deviations of a number, in log-odds."""
MIN_RECORDS = 15.0
"""The fewest records of a level whose mean is near normal, in least squares."""
# of the variance of δ that the records decide: what of it counts beside the step, which has it too
_SAMPLED = 0.3
_ROUNDS = 8  # of the second moment of δ, which decides how much the noise of H matters
_LOOSE = 1e-2  # S over the deviation of the intercept a priori: it is as good as free
_FREE = 1e-12  # of its information: what is left at least without a coefficient's own S
_MIN_SIZE = (
    0.2  # of S: what effects are believed to have at least, however small those are that are known
)


@dataclass(frozen=True, eq=False)
class Step:
    """The last releases of a fit, in u: the line, the step from it, the score there, what the step
    leaves, H and V.

    ``score_noise`` and ``rest_noise`` are the scales of the noise of score and rest; those of the
    matrices stand in ``scales``.
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
        """Whether the risk is quadratic."""
        return self.family.exact

    @property
    def noise(self) -> float:
        """The scale of the noise of score and rest together."""
        return float(np.hypot(self.score_noise, self.remainder_noise))


@dataclass(frozen=True, eq=False)
class ReleasedFit:
    """A step with what is known of the columns: ``back`` is E, ``spread`` their deviations,
    ``sizes`` their S.

    ``centre`` is the released one; ``tail`` marks numbers whose records far out do not count as
    they are; ``allowed`` is what a coefficient may be off beside.  ``lines`` and ``shift`` lead to
    the coefficients of the formula.  ``unseen`` says that no event was seen at all.  ``bias`` is the
    second moment that intervals allow for of what clip and limits have taken off the score, and
    ``limited`` are the numbers that have limits.
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
        """The fit in the geometry of a matrix; sizes are those of log-odds, and columns are as
        asked.
        """
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
        """V without its noise: near a multiple of H, which it is where the model is right."""
        last = self.last
        size = float(np.trace(last.score_cov))
        if last.family.farthest is None:  # then the slope of the mean does not tell the variance
            size = max(size, last.scales.score_cov * float(np.sqrt(len(self.centre))))
        ratio = size / float(np.trace(last.hessian)) if size > 0 else 1.0
        return raised(
            shrink(last.score_cov, ratio * last.hessian, last.scales.score_cov, 0.0)[0], 0.0
        )

    @property
    def dispersion(self) -> float:
        """What an event counts, in units of the outcome: 1 in logistic regression; in a fit of counts
        the variance of an outcome over its mean, so that a cost is as many events in cents as in
        euros.
        """
        if not self.last.family.counts:
            return 1.0
        information = float(np.trace(self.last.hessian))
        if information <= 0:  # noise alone: nothing can be counted
            return np.inf
        return max(float(np.trace(self.score_cov)) / information, float(np.finfo(float).tiny))


def log_odds_sizes(spread: Array, dummy: npt.NDArray[np.bool_]) -> Array:
    """S of a logistic fit: 2.5 for a level, for the function of a spline and for two deviations of a
    number; 2.5 for the intercept.
    """
    return np.where(dummy | (np.arange(len(dummy)) == 0), LEVEL, LEVEL / 2 / spread)


def outcome_sizes(spread: Array, dummy: npt.NDArray[np.bool_], outcome: float) -> Array:
    """S of least squares: two deviations of the outcome for a level, one for a deviation of a
    number.
    """
    return outcome * np.where(dummy | (np.arange(len(dummy)) == 0), 2.0, 1.0 / spread)


@dataclass(frozen=True, eq=False)
class Events:
    """Of each level and of the reference of its factor: the noise in its number of events over that
    number.  Events are the rarer outcomes of a logistic fit, and what is counted in a log one.

    `NO_EVENTS` where the number is below 8, 0 for what is no level nor a B-spline.  ``toward`` is the side, 1 or
    -1, to which the predictor of these records would run if there were fewer.
    """

    level: Array
    level_toward: Array
    reference: Array
    reference_toward: Array


def no_events(d: int) -> Events:
    """Of least squares, which has no outcomes that could be rare."""
    none = np.zeros(d)
    return Events(none, none, none, none)


def events(fit: ReleasedFit) -> Events:
    """Of each level, and of its reference, how sure a lower estimate of the number of its events
    is.
    """
    columns = fit.columns
    level = _doubt(fit, _of_levels(columns))
    for place, doubt in zip(
        (place for place, _ in columns.cells), _doubt(fit, _of_cells(columns)), strict=True
    ):
        level[place] = max(level[place], doubt)
    level_toward, reference_toward = _toward(fit)
    return Events(
        np.where(columns.dummy, level, _doubt_of_splines(fit)),
        level_toward,
        np.where(columns.dummy, _doubt(fit, _of_references(columns)), 0.0),
        reference_toward,
    )


def _doubt_of_splines(fit: ReleasedFit) -> Array:
    """`NO_EVENTS` for all columns of a B-spline where one of its functions may be without events: its
    coefficient could be anything, and its neighbours move with it.  0 for other columns.

    A natural spline is a line there, and known as such.
    """
    found = np.zeros(len(fit.columns))
    for local in fit.columns.local:
        if not local.shares:
            continue
        counted = np.zeros((len(found), len(local.matrix) + 1))
        counted[local.columns, 1:] = local.matrix.T
        counted[local.columns[0], 0] = 1.0
        counted[:, 0] -= counted[:, 1:].sum(axis=1)
        if _doubt(fit, counted).max() > 1 / SURE:
            found[local.columns[1:]] = NO_EVENTS
    return found


def _toward(fit: ReleasedFit) -> tuple[Array, Array]:
    """To which side the predictor of each level, and of its reference, would run without events: a
    count to nothing, a probability to where it is.
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
    """A column for each level: c with c·(1, x) = 1 for its records, and 0 for others."""
    return np.diag(columns.dummy.astype(float))


def _of_cells(columns: Columns) -> Array:
    """The same for the cells of interacting levels."""
    found = np.zeros((len(columns), len(columns.cells)))
    for k, (_, combination) in enumerate(columns.cells):
        for place, weight in combination:
            found[place, k] += weight
    return found


def _of_references(columns: Columns) -> Array:
    """The same for the reference of each level's factor."""
    together = columns.dummy[:, None] & (columns.group[:, None] == columns.group)
    found = np.where(together, -1.0, 0.0)
    found[0] = columns.dummy
    return found


def _doubt(fit: ReleasedFit, counted: Array) -> Array:
    """Relative noise of the number of events among some records; `NO_EVENTS` where there may be
    fewer than 8.

    With v·u = 1 for these records and 0 for the others (or a share, which is at least its square)
    their residuals sum to v·g, and either outcome has at least vᵀHv less that: p >= p(1 - p).  So
    there are vᵀHv - |v·g| or more (weighted, at most 1 each), but for the noise hypot(σ‖v‖, h‖v‖²).
    It holds at any line; at the line 0, where p is one half, it is vᵀMv/2 - |v·g| exactly.  The
    surer of the two counts.  What these records count in a log fit is vᵀHv + v·g, at any line.
    """
    last = fit.last
    moments = fit.moments
    uncentred = fit.back.copy()
    # so that v·u is x_j, not x_j less its centre
    uncentred[:, 1:] += np.outer(fit.back[:, 0], fit.centre[1:])
    v = uncentred @ counted
    noise = (last.scales.hessian, last.score_noise)
    if last.family.counts:
        return _relative(v, last.hessian, last.score @ v, noise, MIN_EVENTS * fit.dispersion)
    at_line = _relative(v, last.hessian, -np.abs(last.score @ v), noise)
    inner = solved(moments.back, moments.score)  # the score as it was released
    v = moments.back.T @ counted
    noise = (moments.noise / 2, moments.noise)
    at_zero = _relative(v, moments.released / 2, -np.abs(inner @ v), noise)
    return np.minimum(at_line, at_zero)


def _relative(
    v: Array,
    hessian: Array,
    further: Array,
    noise: tuple[float, float],
    min_events: float = MIN_EVENTS,
) -> Array:
    """The noise of vᵀHv + ``further`` over it, for each column v; `NO_EVENTS` where it is below
    ``least``.  ``noise`` has the scales of that of H and of the score.
    """
    length = np.linalg.norm(v, axis=0)
    number = np.einsum("ij,ik,kj->j", v, hessian, v) + further
    unsure = np.hypot(noise[0] * length**2, noise[1] * length)
    return np.where(number >= min_events, unsure / np.maximum(number, min_events), NO_EVENTS)


def enough_events(fit: ReleasedFit) -> bool:
    """Whether there are surely events at all, in a logistic fit of both outcomes: by the same
    estimate, for all records.
    """
    last = fit.last
    level = fit.back[:, 0]
    length = float(np.linalg.norm(level))
    off = float(last.score @ level)
    number = float(level @ last.hessian @ level) + (off if last.family.counts else -abs(off))
    noise = np.hypot(last.score_noise * length, last.scales.hessian * length**2)
    return bool(number >= MIN_EVENTS * fit.dispersion + SURE * noise)


def varies(fit: ReleasedFit) -> npt.NDArray[np.bool_]:
    """Return which columns have a variance, records counted by their information, that is as clear of
    the noise of the last Hessian as a coefficient needs to be reported.
    """
    H = _last_hessian(fit)
    return np.asarray(np.diag(H.raw) > SIGNAL * np.diag(H.entry_sd))


def _last_hessian(fit: ReleasedFit) -> ReleasedMoments:
    """Return the released Hessian about its own mean."""
    last = fit.last
    to_centre = np.eye(len(fit.centre))
    to_centre[0, 1:] = fit.centre[1:]
    counted = fit.moments.n if last.exact else None
    return released_moments(
        last.hessian, fit.back @ to_centre, fit.columns, last.scales.hessian, counted
    )


def posterior(fit: ReleasedFit) -> Joint:
    """The law of all coefficients given the releases, with S for each; the intercept is as good as
    free.
    """
    last = fit.last
    columns = fit.columns
    d = len(fit.centre)
    H = _last_hessian(fit)
    M = released_moments(
        fit.moments.released, fit.moments.back.T, columns, fit.moments.noise, fit.moments.n
    )
    pilot = solved(fit.back, last.coef_u)
    # where a step is not exact, a variance in H is believed to be off that of M by half in any case
    limited = fit.limited if last.exact else np.zeros(d, dtype=bool)
    S = hessian_prior(H, M, fit.moments.matrix, columns, pilot, last.family, limited)
    about_mean = np.eye(d)
    about_mean[0, 1:] = (fit.centre - S.mean)[1:]
    known = hessian_posterior(
        last.hessian, last.scales.hessian, S, fit.back @ about_mean, fit.moments, columns
    )
    law = _Equation(fit, H.first, S, known, about_mean, pilot).solved()
    few = no_events(d) if last.exact else events(fit)
    # where others explain nearly all of a number, what is left of its information may be this change
    own = S.count if last.exact else np.hypot(S.count * np.sqrt(known.cut), law.changed)
    level = few.level
    if last.exact:
        scarce = columns.dummy & (np.diag(S.matrix) - 2 * S.count < MIN_RECORDS)
        level = np.where(scarce, NO_EVENTS, level)
    curvature_correction = (
        np.zeros(d) if last.exact else law.step**2 * np.where(columns.dummy, 1.0, fit.spread) / 2
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
        basis=known.basis.T @ fit.back,
        hessian=known.matrix,
        hessian_sd=known.entry_sd,
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
    )


@dataclass(frozen=True, eq=False)
class _Solution:
    """Where the step of the posterior begins, that step, its covariance, and what of it sampling
    causes; and by how much the information on each number may change along the way.
    """

    start: Array
    step: Array
    covariance: Array
    sampling: Array
    changed: Array


@dataclass(frozen=True, eq=False)
class _Equation:
    """H' δ = g - R - H a + ξ in the basis of the law of H, δ in coefficients at the centre."""

    fit: ReleasedFit
    first: float
    prior: HessianPrior
    hessian: HessianPosterior
    about_mean: Array
    pilot: Array

    def solved(self) -> _Solution:
        """The posterior, in rounds: what is unsure of H multiplies the way a + δ, of which δ is the
        result.
        """
        fit = self.fit
        known = self.hessian
        last = fit.last
        d = len(fit.centre)
        basis = known.basis.T
        E = basis @ fit.back
        W = basis @ (fit.score_cov + fit.bias + last.noise**2 * np.eye(d)) @ basis.T
        way = solved(fit.back, last.step)
        right = basis @ (last.score - last.remainder) - known.matrix @ (basis @ last.step)
        start = self.pilot + way
        precision = fit.sizes**-2.0
        precision[0] *= _LOOSE**2
        step = np.zeros(d)
        second = E @ np.outer(way, way) @ E.T
        own = np.zeros((d, d))
        gain: Array = np.zeros((d, d))
        covariance: Array = np.zeros((d, d))
        for k in range(_ROUNDS):
            C = self._half_way(E, way + step / 2) @ E
            gain = solved(W + known.moved(second) + own, C).T
            covariance = np.asarray(np.linalg.inv(gain @ C + np.diag(precision)), dtype=np.float64)
            step = covariance @ gain @ right
            believed = precision if k < 2 else self._believed(start, step, covariance, precision)
            rest = self._second_moment(gain @ C, gain @ right, np.zeros(d), believed)
            both = self._second_moment(gain @ C, gain @ right, way, believed)
            second = E @ both @ E.T
            own = self._of_columns(both, rest)
        K = covariance @ gain
        sampling = K @ (basis @ fit.score_cov @ basis.T) @ K.T
        if last.exact:
            return _Solution(start, step, covariance, sampling, np.zeros(d))
        toward = np.linalg.inv(self.about_mean)
        changed = self._bow(np.diag(toward @ rest @ toward.T)) * np.diag(self.prior.matrix)
        changed[fit.columns.of_splines] = 0.0  # all of it is in the covariance
        return _Solution(start, step, covariance, sampling, changed)

    def _half_way(self, E: Array, step: Array) -> Array:
        """H at line + step, in the basis."""
        if self.fit.last.exact or not step.any():
            return self.hessian.matrix
        inverse = np.linalg.inv(E)
        if self.fit.last.family.counts:
            return inverse.T @ self._counted_half_way(E, step) @ inverse
        moved = hessian_change(
            self.fit.moments.matrix, self.first, self.pilot, step, self.fit.last.family
        )
        return within(self.hessian.matrix + inverse.T @ moved @ inverse, self.hessian.matrix)

    def _counted_half_way(self, E: Array, step: Array) -> Array:
        """H of counts at line + step, in coefficients at the centre."""
        to_centre = np.eye(len(step))
        to_centre[0, 1:] = self.fit.centre[1:]
        H = to_centre.T @ E.T @ self.hessian.matrix @ E @ to_centre
        back = np.linalg.inv(to_centre)
        return np.asarray(back.T @ tilted(H, back @ step, self.fit.columns) @ back)

    def _believed(self, start: Array, step: Array, covariance: Array, precision: Array) -> Array:
        """1/S² of effects as large as those that are known: so long is the way believed to be where
        records are silent.

        It is used for the size of the way alone, never for an interval.  One effect of size S
        counts among the known.
        """
        sizes2 = self.fit.sizes**2
        variance = np.diag(covariance)
        alone = 1 / np.maximum(1 / variance - precision, _FREE / variance)
        effect = start + step / variance * alone
        weight = ((1 + alone / sizes2) ** -2.0)[1:]
        ratio = ((effect**2 - alone) / sizes2)[1:]
        size2 = float(np.clip((1 + weight @ ratio) / (1 + weight.sum()), _MIN_SIZE**2, 1.0))
        believed = precision / size2
        believed[0] = precision[0]
        return believed

    def _second_moment(
        self, information: Array, toward: Array, way: Array, precision: Array
    ) -> Array:
        """E (a + δ)(a + δ)ᵀ: the step, what S decides of it, and a part of what the records do."""
        covariance = np.linalg.inv(information + np.diag(precision))
        whole = way + covariance @ toward
        silent = covariance * precision @ covariance
        return np.asarray(np.outer(whole, whole) + silent + _SAMPLED * (covariance - silent))

    def _of_columns(self, both: Array, rest: Array) -> Array:
        """What is unsure of single columns beside the law of H: the variances of rare levels, which
        multiply the whole way, of second moment ``both``, and third derivatives along numbers, which
        multiply what is left of it, ``rest``.

        Of a number only what others do not explain counts, its tolerance: where two are nearly
        collinear each may be far off while the predictor, which the derivatives are about, is not.
        """
        toward = np.linalg.inv(self.about_mean)
        size2 = np.diag(toward @ both @ toward.T)
        square = size2 * self.prior.variance_sd**2 * self.hessian.cut
        if not self.fit.last.exact:
            variance = np.diag(self.prior.matrix)
            tolerance = 1 / (variance * np.diag(np.linalg.inv(self.prior.matrix)))
            # functions of one number bend with it, whatever the others explain of them
            tolerance[self.fit.columns.of_splines] = 1.0
            left2 = np.diag(toward @ rest @ toward.T) * tolerance
            square += left2 * (variance * self._bow(size2 * tolerance)) ** 2
        dual = self.hessian.basis.T @ np.linalg.inv(self.fit.back @ self.about_mean).T
        return np.asarray(dual * square @ dual.T)

    def _bow(self, size2: Array) -> Array:
        """By which part of itself the information on each number may change along a way of this
        second moment.
        """
        columns = self.fit.columns
        number = ~columns.dummy & (np.arange(len(columns)) > 0)
        return np.where(number, np.minimum(1.0, np.sqrt(size2) / 2), 0.0)


@dataclass(frozen=True, eq=False)
class Inference:
    """What is said of all coefficients of the formula: the joint law at ``centre``, and the answers
    about each of them.

    ``printed`` are those with an interval.  ``others`` are combinations that are known instead of
    open ones: each with the column it stands for, and the level that it is compared with, or -1 for
    a number that was clipped.  ``whole`` says that both outcomes are surely there; where they are
    not, nothing is known.
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
        """A number for every column: the estimate of what is printed, the posterior mean of what is
        open.
        """
        return np.where(self.reported, self.answers.estimate, self.joint.coef)


def infer(fit: ReleasedFit, clipped: npt.NDArray[np.bool_], draws: int, seed: int) -> Inference:
    """Every coefficient is in the model; printed are those whose interval rests on the records.

    ``clipped`` are the numbers that the fit has clipped to their released range.
    """
    d = len(fit.centre)
    joint = posterior(fit)
    reported = joint.about(np.eye(d), draws, seed).known
    identified = fit.last.exact or (enough_events(fit) and not fit.without_events)
    if not identified:
        reported[:] = False
    # the level is that of records at the reference of what is open; where a number is open there is
    # none
    centre = np.where(fit.columns.dummy & ~reported, 0.0, fit.centre)
    joint = joint.at(centre - fit.centre)
    answers = joint.about(np.eye(d), draws, seed)
    numbers = ~fit.columns.dummy
    reported[0] = (
        bool(reported.any()) and bool(answers.known[0]) and bool(reported[1:][numbers[1:]].all())
    )
    if not identified:
        joint = replace(joint, few=np.full(d, NO_EVENTS))  # so that no combination is known either
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
    """Combinations that may be known instead of open coefficients: numbers as clipped, levels
    against others.
    """
    d = len(reported)
    vectors: list[Array] = [np.eye(d)[j] for j in np.flatnonzero(clipped & ~reported)]
    columns = [(int(j), -1) for j in np.flatnonzero(clipped & ~reported)]
    for group in np.unique(joint.group[joint.group >= 0]):
        levels = np.flatnonzero(joint.group == group)
        poor = [j for j in levels if answers.why[j] == REFERENCE]
        base = _best_known(joint, levels)
        if not poor or base is None:
            continue
        for j in levels:
            if j != base and not reported[j]:
                vectors.append(np.eye(d)[j] - np.eye(d)[base])
                columns.append((int(j), base))
    return np.array(vectors).reshape(len(vectors), d), columns


def _best_known(joint: Joint, levels: Indices) -> int | None:
    """The level of a factor whose number of events is known best; None where it is known of none."""
    best = int(levels[np.argmin(joint.few[levels])])
    return best if joint.few[best] <= 1 / SURE else None
