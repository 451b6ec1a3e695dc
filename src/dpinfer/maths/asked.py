"""From the released fit of all columns to what is said about each coefficient: one posterior, and no column leaves.

Post-processing of released values only.  With t* the coefficients asked for, t the released ones and δ = t* - t,

    H δ = g + ξ,     ξ ~ N(0, W),     Ĥ = H + Z          (exact for a quadratic risk)

so that Ĥδ - g has mean 0 and covariance W + Cov(Zδ) at the true δ, however weak a column is.  Where the records are
silent a plausible size of an effect, S, stands in: coefficients are N(0, S²) a priori.  The interval of a coefficient
uses the S of the others, never its own; it is printed only where the records say far more than S.

| symbol | meaning                                                             | name in code  |
| ------ | ------------------------------------------------------------------- | ------------- |
| C      | H about its own mean, told what is known of it                      | `matrix`      |
| R      | deviation of each entry of C that is left                           | `left`        |
| S      | plausible size of a coefficient                                     | `plausible`   |
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dpinfer.maths.allowed import AllowedLaw, no_law
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.aside import SURE_EVENTS, Estimate, Events, Fitted, allowed_for, events
from dpinfer.maths.entering import Shape, normal_nodes
from dpinfer.maths.moments import Columns
from dpinfer.maths.posterior import Moments

OPEN = 0.4
"""A coefficient is printed if its standard error is at most this part of S: then the records say far more than S."""
SIGNAL = 2.5
"""... and if its information given the others is at least this many times the noise of that."""
LEVEL = 2.5
"""S of a level, and of two deviations of a number, in log-odds."""
_SHIFT = 1.5  # deviations of a column by which its mean in a rare level is off, a priori
_CORRELATION = 0.6  # the largest deviation of a correlation, a priori
_WEIGHTS = 0.05  # the same for least squares, where only weights differ
_LOST = 0.015  # of the records: what weights take away, and how sure that is
_LEAST = 0.5  # deviations of its noise that a variance has at least
_LEVELS = 0.99  # the largest sum of the frequencies of a factor's levels
_SMALLEST = 1e-4  # of an eigenvalue of a correlation matrix
_FACTOR = 0.5  # of the curvature of a level: by which that of all records is off
_FLOOR = 0.5  # deviations of its noise that an eigenvalue has at least
_ALPHAS = np.geomspace(0.02, 0.6, 12)  # by which H is off its guess: those that are tried
_BOWED = 0.5  # of what a Gaussian design says of the curvature along the predictor: in the guess
_MOST = 0.85  # of a variance: the most that such weights take away
_CURVE = 0.1  # of what they take away: how unsure it is
_SAMPLED = 0.3  # of the variance of δ that the records decide: what of it counts beside the step
_HALF_WAY = 0.5  # of the step: where the curvature is the mean of those along it
_CHANGE = 1 / 3, 3.0  # what the curvature becomes along a step, in any direction, at least and at most
_ROUNDS = 8  # of the second moment of δ, which decides how much the noise of H matters
_LOOSE = 1e-4  # the intercept is as good as free
_FREE = 1e-12  # of its information: what is left at least without a coefficient's own S


@dataclass(frozen=True, eq=False)
class Seen:
    """A noisy second moment of (1, x) about its own mean: its first entry, variances, entries and their deviations.

    ``loose`` is the deviation of the first entry, ``unsure`` those of the sums of the columns.
    """

    first: float
    loose: float
    mean: Array
    unsure: Array
    variance: Array
    raw: Array
    noise: Array

    @property
    def size(self) -> Array:
        """Products of deviations."""
        return np.sqrt(np.outer(self.variance, self.variance))


def seen(released: Array, back: Array, columns: Columns, noise: float, n: float | None = None) -> Seen:
    """backᵀ released back about its mean; ``noise`` is the scale of the symmetric noise of ``released``.

    A dummy's entries beside the intercept and on the diagonal are the same number, and are averaged.  Where records
    count 1 each but for their weights, they add up to little less than their number ``n``.
    """
    H, length = back.T @ released @ back, back.T @ back
    loose = noise * float(length[0, 0])
    first = max(float(H[0, 0]), loose)
    if n is not None:
        known, first = loose**-2 + (_LOST * n) ** -2, first * loose**-2 + (1 - _LOST) * n * (_LOST * n) ** -2
        first, loose = first / known, known**-0.5
    beside = noise**2 / 2 * (length[0, 0] * np.diag(length) + length[0] ** 2)
    own = (noise * np.diag(length)) ** 2
    total = np.where(columns.dummy, (H[0] / beside + np.diag(H) / own) / (1 / beside + 1 / own), H[0])
    unsure = np.sqrt(np.where(columns.dummy, 1 / (1 / beside + 1 / own), beside))
    mean = np.where(columns.dummy, np.clip(total / first, _LEAST * unsure / first, 0.99), np.clip(total / first, -1, 1))
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        mean[levels] *= min(1.0, _LEVELS / mean[levels].sum())
    mean[0] = 0.0
    E = back - np.outer(back[:, 0], mean)
    b = E.T @ E
    s = noise * np.sqrt((np.outer(np.diag(b), np.diag(b)) + b**2) / 2)
    raw = E.T @ released @ E
    variance = np.where(columns.dummy, first * mean * (1 - mean), np.maximum(np.diag(raw), _LEAST * np.diag(s)))
    variance[0] = first
    return Seen(first, loose, mean, unsure, variance, raw, s)


@dataclass(frozen=True, eq=False)
class Curvature:
    """H given the releases, in an orthogonal basis Q of the coordinates u in which its entries are independent.

    ``matrix`` is its mean there, ``left`` the deviations of its entries.  Of each column, ``cut`` is how much its rarity
    takes from what is unsure of it but for its own variance, ``own`` the deviation of that, and ``count`` a lower bound
    of it.
    """

    basis: Array
    matrix: Array
    left: Array
    cut: Array
    own: Array
    count: Array

    def moved(self, second: Array) -> Array:
        """The covariance of (H - mean) δ, for the second moment of δ: both in the basis."""
        var = self.left**2
        found = var * second
        np.fill_diagonal(found, var @ np.diag(second))
        return np.asarray(found)

    def signal(self, back: Array) -> Array:
        """Of each column, its information given the others over the noise of that; t = back θ."""
        E = self.basis.T @ back
        inverse = np.linalg.solve(E, np.linalg.solve(E, np.linalg.inv(self.matrix)).T)
        information = 1 / np.diag(inverse)
        v = E @ (inverse * information)
        return np.asarray(information / np.sqrt(_quadratic(v**2, self.left**2) + self.own**2))

    def nearest(self, j: int, back: Array) -> int:
        """The column that j is hardest to tell apart from."""
        E = self.basis.T @ back
        inverse = np.linalg.solve(E, np.linalg.solve(E, np.linalg.inv(self.matrix)).T)
        partial = np.abs(inverse[j]) / np.sqrt(np.diag(inverse))
        partial[[0, j]] = -1.0
        return int(np.argmax(partial))


def _quadratic(squares: Array, noise2: Array) -> Array:
    """The variance of vᵀZv for each column v, whose squares these are, Z symmetric with independent entries."""
    return np.asarray(np.einsum("kj,kl,lj->j", squares, 2 * noise2 - np.diag(np.diag(noise2)), squares))


@dataclass(frozen=True, eq=False)
class Guess:
    """S, a guess of H about its mean, from the moments and from the means and variances of H; what they are unsure of.

    ``doubt`` has the deviations of the variances, ``shift`` the same by the release of H alone; ``rare`` is the share of
    the rarer value of a column, ``curve`` what weights take away along the predictor.
    """

    mean: Array
    matrix: Array
    doubt: Array
    shift: Array
    rare: Array
    curve: Array


def guessed(H: Seen, M: Seen, matrix: Array, columns: Columns, factor: float, theta: Array | None) -> Guess:
    """Correlations of the moments, means and variances of H as far as they are known, else those of the moments.

    A level's mean curvature is that of all records but for a factor.  The mean of a column in a rare level is not very
    far from its mean in all, so that a very rare level is next to uncorrelated with anything.
    """
    mean0, cov = matrix[0] / matrix[0, 0], matrix / matrix[0, 0]
    cov = cov - np.outer(mean0, mean0)
    var0 = np.maximum(np.diag(cov), 1e-9)
    bent, along = (0.0, mean0 * 0.0) if theta is None else _bent(cov, theta)
    cov = cov + _BOWED * bent * np.outer(along, along)
    bowed = np.maximum(np.diag(cov), 1e-9)
    corr = cov / np.sqrt(np.outer(bowed, bowed))
    m0 = np.where(columns.dummy, np.clip(M.mean, 1e-6, 0.99), mean0)
    prior = np.hypot(factor * np.where(columns.dummy, m0, np.sqrt(var0)), M.unsure / M.first)
    noise = H.unsure / H.first
    known = noise**-2.0 + prior**-2.0
    mean = (H.mean * noise**-2.0 + m0 * prior**-2.0) / known
    mean = np.where(columns.dummy, np.clip(mean, 1e-6, 0.99), np.clip(mean, -1, 1))
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        mean[levels] *= min(1.0, _LEVELS / mean[levels].sum())
    v, pv, nv = np.diag(H.raw) / H.first, np.hypot(factor * var0, np.diag(M.noise) / M.first), np.diag(H.noise) / H.first
    sure = nv**-2.0 + pv**-2.0
    var = np.maximum((v * nv**-2.0 + var0 * pv**-2.0) / sure, 0.1 * var0)
    var = np.where(columns.dummy, mean * (1 - mean), var)
    doubt = H.first * np.where(columns.dummy, known**-0.5, sure**-0.5)
    mean[0], var[0], doubt[0] = 0.0, 1.0, H.loose
    size = np.sqrt(np.outer(var, var))
    rare = np.where(columns.dummy, np.minimum(mean, 1 - mean), 0.25)
    tau2 = np.minimum(_CORRELATION, _SHIFT * np.sqrt(np.minimum.outer(rare, rare))) ** 2
    corr *= tau2 / (tau2 + (M.noise / M.size) ** 2)
    scale = np.sqrt(var / bowed)
    scale[0] = 0.0
    curve = np.sqrt(abs(bent) * H.first) * along * scale
    corr[0] = corr[:, 0] = 0.0
    same = columns.group[:, None] == columns.group
    corr[same] = (-np.outer(mean, mean) / size)[same]
    np.fill_diagonal(corr, 1.0)
    values, vectors = np.linalg.eigh(corr)
    corr = (vectors * np.maximum(values, _SMALLEST)) @ vectors.T
    return Guess(mean, H.first * corr * size, doubt, np.where(columns.dummy, H.unsure, doubt), rare, curve)


def curvature(fit: Fitted, S: Guess, E: Array, moments: Moments, columns: Columns) -> Curvature:
    """H from its release, with exact noise in u, and from a guess that is off by a part of itself.

    What H is off S is F N Fᵀ, N symmetric with independent normal entries, FFᵀ = P = αS + the noise of the moments, as
    a Wishart matrix is off its mean; for rare levels at most what their rarity allows.  In the eigenvectors Q of P in u
    it is independent by entry, and so is the noise of the release; α is the one that the release shows.
    """
    h, d = fit.scales.hessian, len(fit)
    forward = np.linalg.inv(E)
    about = np.eye(d)
    about[:, 0] -= S.mean  # (1, x) about the mean
    about[0, 0] = 1.0
    B = about @ moments.back
    B = B @ B.T * (moments.noise * S.matrix[0, 0] / moments.n)
    base = forward.T @ S.matrix @ forward
    best: tuple[float, Array, Array, Array] | None = None
    for alpha in _ALPHAS:
        P = alpha * S.matrix + B + _CURVE * np.outer(S.curve, S.curve)
        ratio = np.diag(P) / np.diag(S.matrix)
        typical = float(np.median(ratio[1:]))
        most = np.where(columns.dummy, _SHIFT**2 * S.rare / typical, np.inf)
        cut = np.sqrt(np.minimum(1.0, most / ratio))
        P = forward.T @ (P * np.outer(cut, cut)) @ forward
        p, Q = np.linalg.eigh((P + P.T) / 2)
        p = np.maximum(p, 1e-9 * p[-1])
        gap = Q.T @ (fit.released - base) @ Q
        value = _likelihood(gap, np.outer(p, p) + h**2)
        if best is None or value > best[0]:
            best = value, p, Q, cut
    assert best is not None
    _, p, Q, cut = best
    gap = Q.T @ (fit.released - base) @ Q
    prior = np.outer(p, p)
    part = prior / (prior + h**2)
    left = h * np.sqrt(part / 2)
    np.fill_diagonal(left, np.sqrt(2) * np.diag(left))
    matrix = Q.T @ base @ Q + part * gap
    lowest, vectors = np.linalg.eigh(matrix)
    floor = np.sqrt(_quadratic(vectors**2, left**2)) * _FLOOR
    matrix = (vectors * np.maximum(lowest, floor)) @ vectors.T
    sure = np.diag(S.matrix) - 2 * S.shift
    own = S.shift * (1.0 if fit.rules.quadratic else np.sqrt(1 - cut**2))
    return Curvature(Q, matrix, left, 1 - cut**2, own, sure)


def _weighted(cov: Array, theta: Array) -> tuple[tuple[float, float, float], Array, float]:
    """Means of the first three derivatives of σ over a normal predictor, Cov θ, and the predictor's variance."""
    along = cov @ np.r_[0.0, theta[1:]]
    s2 = max(float(theta[1:] @ along[1:]), 0.0)
    nodes, weights = normal_nodes()
    p = expit(theta[0] + np.sqrt(s2) * nodes)
    q = p * (1 - p)
    a, b, c = (float(weights @ k) for k in (q, q * (1 - 2 * p), q * (1 - 6 * q)))
    return (a, b, c), np.asarray(along), s2


def _bent(cov: Array, theta: Array) -> tuple[float, Array]:
    """ρ and Cov θ: weights p(1 - p) make Cov + ρ (Cov θ)(Cov θ)ᵀ of a covariance, times a number, if all is Gaussian."""
    (a, b, c), along, s2 = _weighted(cov, theta)
    return max(c / a - (b / a) ** 2, -_MOST / max(s2, 1e-9)), along


def _likelihood(gap: Array, variance: Array) -> float:
    rows, others = np.triu_indices(len(gap))
    twice = np.where(rows == others, 1.0, 2.0)
    v = variance[rows, others]
    return float((-np.log(v) - twice * gap[rows, others] ** 2 / v).sum())


def bend(moments: Moments, first: float, start: Array, step: Array) -> Array:
    """By how much H changes from t to t + step where the columns are near Gaussian, in coefficients at the centre."""
    mean = moments.matrix[0] / moments.matrix[0, 0]
    cov = moments.matrix / moments.matrix[0, 0] - np.outer(mean, mean)

    def at(theta: Array) -> Array:
        (a, b, c), along, _ = _weighted(cov, theta)
        found = a * cov + c * np.outer(along, along)
        found[0] = found[:, 0] = b * along
        found[0, 0] = a
        return np.asarray(found)

    before = at(start)
    return np.asarray((at(start + step) - before) * first / before[0, 0])


def _within(matrix: Array, base: Array) -> Array:
    """No direction becomes less than a third or more than three times what it is in ``base``."""
    L = np.linalg.cholesky(base)
    inner = np.linalg.solve(L, np.linalg.solve(L, matrix).T)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return np.asarray(L @ (vectors * np.clip(values, *_CHANGE)) @ vectors.T @ L.T)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Mean and covariance of the coefficients at the centre, what of it sampling causes, the step, and H."""

    mean: Array
    covariance: Array
    sampling: Array
    step: Array
    known: Curvature

    def at(self, further: Array) -> "Posterior":
        """The same with the intercept at a centre so much further."""
        to = np.eye(len(further))
        to[0, 1:] = further[1:]
        covariance, sampling = (to @ part @ to.T for part in (self.covariance, self.sampling))
        return Posterior(to @ self.mean, covariance, sampling, to @ self.step, self.known)


def posterior(fit: Fitted, columns: Columns, plausible: Array, moments: Moments) -> Posterior:
    """The law of the coefficients given the releases, with S for all of them; the intercept is free.

    The noise of H multiplies δ: its mean and its variance.
    """
    d = len(fit)
    to_centre = np.eye(d)
    to_centre[0, 1:] = fit.centre[1:]
    n = moments.n if fit.rules.quadratic else None
    uncentred = fit.back @ to_centre
    H = seen(fit.released, uncentred, columns, fit.scales.hessian, n)
    M = seen(moments.released, moments.back.T, columns, moments.noise, moments.n)
    S = guessed(H, M, moments.matrix, columns, *((_WEIGHTS, None) if fit.rules.quadratic else (_FACTOR, fit.coef)))
    shift = np.eye(d)  # from coefficients at the mean of H to those at the centre
    shift[0, 1:] = (fit.centre - S.mean)[1:]
    known = curvature(fit, S, fit.back @ shift, moments, columns)
    dual = known.basis.T @ np.linalg.inv(fit.back @ shift).T
    toward = np.linalg.inv(shift)
    E = known.basis.T @ fit.back  # from θ at the centre to the basis
    W, V, g = (known.basis.T @ fit.total @ known.basis, known.basis.T @ fit.score_cov @ known.basis, known.basis.T @ fit.gradient)
    precision = plausible**-2.0
    precision[0] *= _LOOSE
    start, C = fit.coef, known.matrix @ E
    second, own = np.zeros((d, d)), np.zeros((d, d))
    straight = known.matrix
    F = np.linalg.inv(E)
    for k in range(_ROUNDS):
        if k and not fit.rules.quadratic:
            C = _within(straight + F.T @ bend(moments, H.first, start, _HALF_WAY * step) @ F, straight) @ E
        gain = np.linalg.solve(W + known.moved(second) + own, C).T
        covariance = np.linalg.inv(gain @ C + np.diag(precision))
        step = covariance @ gain @ g
        unknown = covariance * precision @ covariance  # what S decides of it
        both = np.outer(step, step) + unknown + _SAMPLED * (covariance - unknown)
        second = E @ both @ E.T
        size2 = np.diag(toward @ both @ toward.T)
        square = size2 * S.doubt**2 * known.cut
        if not fit.rules.quadratic:  # third derivatives along numbers, within their released range
            bow = np.where(columns.dummy | (np.arange(d) == 0), 0.0, np.minimum(1.0, np.sqrt(size2) / 2))
            square += size2 * (np.diag(S.matrix) * bow) ** 2
        own = dual * square @ dual.T
    K = covariance @ gain
    return Posterior(start + step, covariance, K @ V @ K.T, step, known)


WEAK, FEW, REFERENCE, TAIL, TOGETHER, LEVEL_OPEN = "weak", "few", "reference", "tail", "together", "level"
"""Why a coefficient is open."""


@dataclass(frozen=True, eq=False)
class Conclusion:
    """Places among the columns: printed with an interval, or open; of those ``why``, and which column is too near.

    ``coef`` has a number for every column, shrunk towards 0 for what is open; ``centre`` is where its intercept is the
    linear predictor.  ``law`` is the law of the error of what is printed.
    """

    reported: Indices
    silent: Indices
    why: dict[int, tuple[str, int]]
    coef: Array
    centre: Array
    law: AllowedLaw
    against: tuple["Against", ...] = ()
    clipped: Indices | None = None
    clipped_law: AllowedLaw | None = None


@dataclass(frozen=True, eq=False)
class Against:
    """Levels of a factor against its best-known one, ``base``; a level of -1 is the declared reference.

    ``vectors`` are the combinations of coefficients, one a line.
    """

    base: int
    levels: Indices
    vectors: Array
    coef: Array
    law: AllowedLaw


def against(fit: Fitted, found: "Posterior", number: Events, plausible: Array, printed: Array, seed: tuple[int, int]) -> tuple[Against, ...]:
    """Of factors whose declared reference is poor: their levels against the one with the most events.

    Post-processing: every level is in the model with one joint law, in which a reference is a choice of words.
    """
    made, d = [], len(fit)
    for group in np.unique(fit.group[fit.dummy & number.reference]):
        levels = np.flatnonzero(fit.dummy & (fit.group == group))
        sure = number.level[levels] <= 1 / SURE_EVENTS
        if printed[levels].all() or sure.sum() < 2:
            continue
        base = int(levels[np.argmin(number.level[levels])])
        to = np.eye(d)  # from the declared coefficients to those against the base
        to[levels, base] = -1.0
        back = fit.back @ np.linalg.inv(to)
        covariance, sampling = (to @ part @ to.T for part in (found.covariance, found.sampling))
        v, prior = np.diag(covariance), (to**2 @ plausible**2) ** -1.0
        own = 1 / np.maximum(1 / v - prior, _FREE / v)
        known = (number.level <= 1 / SURE_EVENTS) & (found.known.signal(back) >= SIGNAL) & (np.sqrt(own) <= OPEN * plausible)
        known[base] = False  # the declared reference, whose events are too few
        S = levels[known[levels]]
        if not len(S):
            continue
        step = to @ found.step
        stretch = np.sqrt(own / v)[S]
        sampling = sampling[np.ix_(S, S)] * np.outer(stretch, stretch)
        noise = covariance[np.ix_(S, S)] * np.outer(stretch, stretch) - sampling
        bent = step[S] ** 2 / 2
        far, near = allowed_for(number.level[S]), allowed_for(number.level[[base]])
        sign, other = number.sign[S], -number.sign[base]
        law = AllowedLaw(
            sampling=sampling,
            noise=(noise + noise.T) / 2,
            below=bent + np.where(sign < 0, far, 0.0) + (near if other < 0 else 0.0),
            above=bent + np.where(sign > 0, far, 0.0) + (near if other > 0 else 0.0),
            draws=seed[0],
            seed=seed[1],
        )
        start = to @ (found.mean - found.step)
        made.append(Against(base, S, to[S], (start + step / v * own)[S], law))
    return tuple(made)


def conclude(
    fit: Fitted, columns: Columns, plausible: Array, moments: Moments, draws: int, seed: int
) -> Conclusion:
    """Every coefficient is in the model; printed are those whose interval rests on the records."""
    found, number = posterior(fit, columns, plausible, moments), events(fit)
    signal = found.known.signal(fit.back)
    known = number.enough & (signal >= SIGNAL) & ~fit.short
    if fit.rules.quadratic:  # few records of a level, whose mean is not normal
        known &= ~fit.dummy | (found.known.count >= fit.rules.events)
    v, own = _without_own_size(found.covariance, plausible)
    printed = known & (np.sqrt(own) <= OPEN * plausible)
    centre = np.where(fit.dummy & ~printed, 0.0, fit.centre)  # the level is at the reference of what is open
    found = found.at(centre - fit.centre)
    fit_coef = found.mean - found.step
    v, own = _without_own_size(found.covariance, plausible)
    printed[0] = known[0] and bool(np.sqrt(own[0]) <= OPEN * plausible[0] and (printed | fit.dummy)[1:].all())
    why = {int(j): _reason(int(j), fit, number, found.known, signal) for j in np.flatnonzero(~printed)}
    S = np.flatnonzero(printed)
    coef = found.mean.copy()
    coef[S] = (fit_coef + found.step / v * own)[S]
    stretch = np.sqrt(own / v)[S]
    sampling = found.sampling[np.ix_(S, S)] * np.outer(stretch, stretch)
    noise = found.covariance[np.ix_(S, S)] * np.outer(stretch, stretch) - sampling
    bent = found.step**2 * np.where(fit.dummy, 1.0, fit.spread) / 2 * (not fit.rules.quadratic)
    law = AllowedLaw(
        sampling=sampling,
        noise=(noise + noise.T) / 2,
        below=(bent + np.where(number.toward < 0, number.allowance, 0.0))[S],
        above=(bent + np.where(number.toward > 0, number.allowance, 0.0))[S],
        draws=draws,
        seed=seed,
    )
    others = against(fit, found, number, plausible, printed, (draws, seed))
    pulled = np.flatnonzero((not fit.rules.quadratic) & fit.short & number.enough & (signal >= SIGNAL) & (np.sqrt(own) <= OPEN * plausible))
    coef[pulled] = (fit_coef + found.step / v * own)[pulled]
    some = np.sqrt(own / v)[pulled]
    inner = found.sampling[np.ix_(pulled, pulled)] * np.outer(some, some)
    rest = found.covariance[np.ix_(pulled, pulled)] * np.outer(some, some) - inner
    beyond = AllowedLaw(inner, rest, bent[pulled], bent[pulled], draws, seed)
    return Conclusion(S, np.flatnonzero(~printed), why, coef, centre, law, others, pulled, beyond)


def _without_own_size(covariance: Array, plausible: Array) -> tuple[Array, Array]:
    """Variances, and what they are without the coefficient's own S; the intercept has none."""
    v, prior = np.diag(covariance), plausible**-2.0
    prior[0] = 0.0
    return v, 1 / np.maximum(1 / v - prior, _FREE / v)


def _reason(j: int, fit: Fitted, number: Events, known: Curvature, signal: Array) -> tuple[str, int]:
    if j == 0:
        return LEVEL_OPEN, 0
    if fit.short[j]:
        return TAIL, j
    if not number.enough[j]:
        return (REFERENCE if number.reference[j] else FEW), j
    alone = fit.back[:, j] @ fit.released @ fit.back[:, j] / (fit.scales.hessian * (fit.back[:, j] @ fit.back[:, j]))
    return (TOGETHER, known.nearest(j, fit.back)) if signal[j] < SIGNAL <= alone / 2 else (WEAK, j)


def nothing(found: Estimate, shape: Shape, centre: Array, seed: int) -> Conclusion:
    """Where the fit as a whole is not identified: every column stays in the model, and nothing is printed."""
    places = np.arange(len(centre))
    coef = shape.preconditioner.T @ found.coef
    coef[0] = centre @ coef
    return Conclusion(places[:0], places, {int(j): (WEAK, int(j)) for j in places}, coef, centre, no_law(seed))


def log_odds_sizes(spread: Array, dummy: npt.NDArray[np.bool_]) -> Array:
    """S of a logistic fit: 2.5 for a level and for two deviations of a number; 2.5 for the intercept."""
    return np.where(dummy | (np.arange(len(dummy)) == 0), LEVEL, LEVEL / 2 / spread)


def outcome_sizes(spread: Array, dummy: npt.NDArray[np.bool_], outcome: float) -> Array:
    """S of least squares: two deviations of the outcome for a level, one for a deviation of a number."""
    return outcome * np.where(dummy | (np.arange(len(dummy)) == 0), 2.0, 1.0 / spread)
