"""Survival, cumulative incidence, means and log-rank tests from released counts, with the law of their error.

Everything is a function of the hazards h = d/Y of causes in intervals, d events among Y persons at risk.  Its
error is linear in that of the hazards to first order, so that the covariance of the sampling error (that of
Greenwood, 1926) and that of the privacy noise, whose law is known, are each mapped by one matrix.

| symbol | meaning                                                              | name in code     |
| ------ | -------------------------------------------------------------------- | ---------------- |
| d, Y   | events by cause, and persons at risk, in each interval               | `events`, `at_risk` |
| h      | d/Y, the hazard of a cause in an interval                            | `hazards`        |
| S, F   | survival, and the cumulative incidence of a cause, at the edges      |                  |
| m      | effective number of persons: S (1 - S)/m is the sampling variance    | `effective`      |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import fdtrc, ndtri

from dpinfer.inference.constants import MIN_EVENTS, MIN_RECORDS
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Constant, Numerical

RISK_SDS = Constant(
    5.0,
    name="RISK_SDS",
    decides="the smallest number at risk of a reported interval of time, in sds of its noise",
    reason="a hazard is divided by the number at risk: noise of a fifth of it changes the mean of 1/Y by (1/5)² = 4 % "
    "at most, and that of one interval in the mean of a curve by far less",
    source="derivation of the second-order bias of 1/Y",
)
_DRAWS: Numerical[int] = 10_000
_SEED: Numerical[int] = 20_260_101
_NO_VARIANCE: Numerical[float] = 1e-12
_LARGEST_HAZARD: Numerical[float] = 0.999


@dataclass(frozen=True, eq=False)
class TimeCounts:
    """Released counts over time of one group: exits by cause, censored and, where there are any, entries.

    ``counts`` has a row per process and a column per position in time, and an error of ``root`` @ N(0, I)
    in each row.  ``away`` is the part of an interval that those censored, or entering, in it are not at
    risk; ``late`` says whether the last row counts entries.
    """

    counts: Array
    root: Array
    away: Array
    late: bool

    @property
    def intervals(self) -> int:
        """Return the number of intervals."""
        return len(self.away)

    @property
    def causes(self) -> int:
        """Return the number of causes."""
        return len(self.counts) - 1 - self.late

    @cached_property
    def _at_start(self) -> Array:
        """Return the map of counts to persons at risk at the start of each interval, by process."""
        before = np.tri(self.intervals, self.intervals + 1, -1)
        found = np.empty((len(self.counts), *before.shape))
        if self.late:
            found[:-1] = -before
            found[-1] = np.tri(self.intervals, self.intervals + 1)
        else:
            found[:] = 1 - before
            found[: self.causes, :, -1] = 0.0  # there is no event beyond the last edge
        return found

    @cached_property
    def risk_map(self) -> Array:
        """Return the map of counts to the effective number at risk: process, interval, position."""
        found = self._at_start.copy()
        k = np.arange(self.intervals)
        found[self.causes, k, k] -= self.away
        if self.late:
            found[-1, k, k + 1] += 1 - self.away
        return found

    @cached_property
    def at_risk(self) -> Array:
        """Return the effective number at risk in each interval."""
        return np.asarray(np.einsum("pkj,pj->k", self.risk_map, self.counts))

    @cached_property
    def risk_sd(self) -> Array:
        """Return the sd of the noise of the effective number at risk."""
        spread = self.risk_map @ self.root
        return np.asarray(np.sqrt((spread**2).sum(axis=(0, 2))))

    @property
    def events(self) -> Array:
        """Return the number of events by cause and interval."""
        return self.counts[: self.causes, :-1]

    def numbers_at_risk(self) -> Array:
        """Return the numbers at risk at the start and after each edge."""
        starts = np.einsum("pkj,pj->k", self._at_start, self.counts)
        end = starts[-1] - self.counts[: self.causes + 1, -2].sum()
        if self.late:
            end += self.counts[-1, -1]
        return np.append(starts, end)

    def numbers_sd(self) -> float:
        """Return the largest sd of the noise of a number at risk."""
        spread = self._at_start @ self.root
        return float(np.sqrt((spread**2).sum(axis=(0, 2)).max()))

    def supported(self) -> int:
        """Return how many intervals there are from the start before one with too few persons at risk."""
        smallest = np.maximum(MIN_RECORDS, RISK_SDS * self.risk_sd)
        few = np.flatnonzero(self.at_risk < smallest)
        return int(few[0]) if len(few) else self.intervals


@dataclass(frozen=True, eq=False)
class CurveEstimate:
    """An estimated curve at the edges: its values and the covariances of sampling error and of noise.

    ``effective`` is the number of persons m whose share would have this sampling variance, share
    (1 - share)/m.
    """

    values: Array
    sampling: Array
    noise: Array
    effective: Array
    falling: bool

    @property
    def covariance(self) -> Array:
        """Return the covariance of estimates less true values."""
        return np.asarray(self.sampling + self.noise)

    def ends(self, z: float) -> tuple[Array, Array]:
        """Return all s with (estimate - s)² <= z² (s (1 - s)/m + noise variance), between 0 and 1.

        Without noise these are the intervals of Rothman (1978), Wilson's with the effective number of
        persons: they need no estimated variance where there are few events.
        """
        s = self.values
        per = z**2 / self.effective
        middle = s + per / 2
        constant = s**2 - z**2 * np.diag(self.noise)
        root = np.sqrt(np.maximum(middle**2 - (1 + per) * constant, 0.0))
        low = np.clip((middle - root) / (1 + per), 0.0, 1.0)
        high = np.clip((middle + root) / (1 + per), 0.0, 1.0)
        return low, high

    def critical(self, level: float, draws: Array) -> float:
        """Return the quantile of the largest |error|/sd over all edges; ``draws`` are of N(0, I)."""
        variance = np.diag(self.covariance)
        clear = variance > _NO_VARIANCE * max(float(variance.max(initial=0.0)), _NO_VARIANCE)
        pointwise = float(ndtri((1 + level) / 2))
        if not clear.any():
            return pointwise
        sd = np.sqrt(variance[clear])
        correlation = self.covariance[np.ix_(clear, clear)] / np.outer(sd, sd)
        values, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        largest = np.abs(draws[:, : len(sd)] @ root.T).max(axis=1)
        return max(pointwise, float(np.quantile(largest, level)))


@lru_cache(maxsize=4)
def normal_draws(size: int) -> Array:
    """Return draws of N(0, I) for critical values: a function of the size alone."""
    draws = np.random.default_rng(_SEED).standard_normal((_DRAWS, size))
    draws.setflags(write=False)
    return draws


@dataclass(frozen=True)
class TimeAxis:
    """The edges of intervals, the start first; ``integer_times`` says that times are whole numbers."""

    edges: Array
    integer_times: bool

    def crossing(self, values: Array, share: float) -> float:
        """Return when a falling curve, 1 at the start, comes down to a share; infinite if it does not.

        Between edges it is a straight line; of whole times it is the first one at or after that.
        """
        known = np.concatenate([[1.0], np.minimum.accumulate(values)])
        below = np.flatnonzero(known <= share)
        if not len(below):
            return math.inf
        k = int(below[0])
        if k == 0:
            return float(self.edges[0])
        fall = known[k - 1] - known[k]
        part = (known[k - 1] - share) / fall
        found = self.edges[k - 1] + part * (self.edges[k] - self.edges[k - 1])
        if self.integer_times:
            found = np.ceil(found - _NO_VARIANCE * max(1.0, abs(found)))
        return float(found)

    def mean_weights(self, intervals: int) -> tuple[float, Array]:
        """Return a constant and weights w: the area under the curve of S at the edges is constant + w · S.

        The curve is a straight line between edges.  Whole times have the area of steps of 1 under it.
        """
        widths = np.diff(self.edges[: intervals + 1])
        weights = np.zeros(intervals)
        weights += widths / 2
        weights[:-1] += widths[1:] / 2
        constant = float(widths[0] / 2) if intervals else 0.0
        if self.integer_times and intervals:
            constant += 0.5
            weights[-1] -= 0.5
        return constant, weights


class SurvivalEstimate:
    """The curves of one group up to the last interval that the counts support."""

    def __init__(self, counts: TimeCounts) -> None:
        self.counts = counts
        m = counts.supported()
        self.supported = m
        self.at_risk = counts.at_risk[:m]
        self.raw = counts.events[:, :m] / self.at_risk
        # survival falls: its nearest falling curve is nearer to the true one than the estimate
        product = np.cumprod(1 - np.minimum(self.raw.sum(axis=0), _LARGEST_HAZARD))
        self.survival_values = _falling(product)

    @cached_property
    def hazard(self) -> Array:
        """Return the hazard of any event, at least 0, by the falling curve."""
        before = np.concatenate([[1.0], self.survival_values[:-1]])
        return np.asarray(np.clip(1 - self.survival_values / before, 0.0, _LARGEST_HAZARD))

    @cached_property
    def hazards(self) -> Array:
        """Return hazards by cause that add up to `hazard`: in each interval by the shares of causes."""
        if len(self.raw) == 1:
            return self.hazard[None, :]
        rising = np.stack([_rising(np.cumsum(one)) for one in self.raw])
        steps = np.maximum(np.diff(rising, axis=1, prepend=0.0), 0.0)
        total = steps.sum(axis=0)
        overall = steps.sum(axis=1, keepdims=True)
        share = overall / max(float(overall.sum()), _NO_VARIANCE)
        shares = np.where(total > 0, steps / np.maximum(total, _NO_VARIANCE), share)
        return np.asarray(shares * self.hazard)

    @cached_property
    def noise_map(self) -> Array:
        """Return the map of N(0, I) to errors of hazards by cause and interval: (causes · m, all counts)."""
        m = self.supported
        causes = len(self.raw)
        spread = -np.einsum("ck,pkj->ckpj", self.hazards, self.counts.risk_map[:, :m])
        k = np.arange(m)
        for cause in range(causes):
            spread[cause, k, cause, k] += 1.0
        spread /= self.at_risk[:, None, None]
        size = self.counts.counts.size
        return np.asarray((spread @ self.counts.root).reshape(causes * m, size))

    @cached_property
    def hazard_covariance(self) -> Array:
        """Return the sampling covariance of hazards: multinomial in an interval, independent between them."""
        causes, m = self.hazards.shape
        found = np.zeros((causes, m, causes, m))
        k = np.arange(m)
        for one in range(causes):
            for other in range(causes):
                diagonal = self.hazards[one] * ((one == other) - self.hazards[other])
                found[one, k, other, k] = diagonal / self.at_risk
        return found.reshape(causes * m, causes * m)

    def _curve(self, values: Array, change: Array, *, falling: bool) -> CurveEstimate:
        """Return a curve from its derivative by the hazards: edge, cause and interval."""
        by_hazard = change.reshape(len(values), self.hazards.size)
        sampling = by_hazard @ self.hazard_covariance @ by_hazard.T
        noise = by_hazard @ self.noise_map
        return CurveEstimate(
            values, sampling, noise @ noise.T, self._effective(values, sampling), falling
        )

    def _effective(self, values: Array, sampling: Array) -> Array:
        """Return share (1 - share)/variance; where no event has been, the number at risk."""
        binomial = values * (1 - values)
        variance = np.diag(sampling)
        few = (variance <= _NO_VARIANCE) | (binomial <= _NO_VARIANCE)
        found = binomial / np.where(few, 1.0, variance)
        return np.asarray(np.where(few, self.at_risk, np.maximum(found, 1.0)))

    @cached_property
    def survival(self) -> CurveEstimate:
        """Return survival at the edges."""
        m = self.supported
        s = self.survival_values
        falls = -s[:, None] * np.tri(m) / (1 - self.hazard)
        change = np.repeat(falls[:, None, :], len(self.raw), axis=1)
        return self._curve(s, change, falling=True)

    def incidence(self, cause: int) -> CurveEstimate:
        """Return the cumulative incidence of a cause at the edges (Aalen and Johansen, 1978)."""
        m = self.supported
        before = np.concatenate([[1.0], self.survival_values[:-1]])
        steps = before * self.hazards[cause]
        values = np.cumsum(steps)
        # d F_k = sum over j <= k of S_(j-1) d h_cj - (F_k - F_j)/(1 - h_j) d h_j
        later = -np.tri(m) * (values[:, None] - values[None, :]) / (1 - self.hazard)
        change = np.repeat(later[:, None, :], len(self.raw), axis=1)
        change[:, cause] += np.tri(m) * before
        return self._curve(values, change, falling=False)

    def restricted_mean(self, axis: TimeAxis, intervals: int) -> tuple[float, float]:
        """Return the mean time up to the end of an interval, the area under the curve, and its standard error."""
        constant, weights = axis.mean_weights(intervals)
        curve = self.survival
        covariance = curve.covariance[:intervals, :intervals]
        variance = float(weights @ covariance @ weights)
        return constant + float(weights @ curve.values[:intervals]), math.sqrt(max(variance, 0.0))


def _falling(values: Array) -> Array:
    """Return the nearest falling curve between 0 and 1 (isotonic regression)."""
    if not len(values):
        return values
    found = isotonic_regression(values, increasing=False).x
    return np.asarray(np.clip(found, _NO_VARIANCE, 1.0))


def _rising(values: Array) -> Array:
    if not len(values):
        return values
    return np.asarray(np.maximum(isotonic_regression(values).x, 0.0))


@dataclass(frozen=True)
class LogRank:
    """A log-rank test: its statistic, p-value and degrees of freedom, and the share of noise in its variance."""

    statistic: float
    p_value: float
    df: int
    noise_share: float


def log_rank(groups: Sequence[SurvivalEstimate], cause: int | None = None) -> LogRank | None:
    """Test that groups have the same hazard, of any event or of one cause (Mantel, 1966).

    The score of a group is its observed less its expected events.  Its variance is hypergeometric, plus
    that of the noise: of the part that is linear in it, and of the products of noise in events and in
    numbers at risk, which are independent to the first order.  The hypergeometric variance is itself
    estimated from noisy counts, so that the reference law is that of F with Satterthwaite's degrees of freedom
    (Satterthwaite, 1946); without noise it is the chi-square law.  None where too little is known.
    """
    m = min(one.supported for one in groups)
    if m == 0:
        return None
    chosen = slice(None) if cause is None else slice(cause, cause + 1)
    risk = np.stack([one.at_risk[:m] for one in groups])
    events = np.stack([one.counts.events[chosen, :m].sum(axis=0) for one in groups])
    total = risk.sum(axis=0)
    share = risk / total
    pooled = events.sum(axis=0)
    hazard = np.clip(_pooled_hazard(pooled / total), 0.0, _LARGEST_HAZARD)
    score = (events - share * pooled).sum(axis=1)[:-1]
    ties = hazard * total * (1 - hazard) / (1 - 1 / np.maximum(total, 2.0))
    outer = -share[:, None] * share[None]
    k = np.arange(len(groups))
    outer[k, k] += share
    sampling = (outer * ties).sum(axis=-1)
    linear = _score_noise(groups, share, hazard, chosen, m)
    noise = np.einsum("gx,hx->gh", linear, linear) + _product_noise(groups, share, total, chosen, m)
    law = (sampling + noise)[:-1, :-1]
    if float(pooled.sum()) < MIN_EVENTS or np.linalg.eigvalsh(law)[0] <= _NO_VARIANCE:
        return None
    statistic = float(score @ np.linalg.solve(law, score))
    df = len(groups) - 1
    spread = _sampling_sd(groups, share, chosen, m)
    variance = float(np.trace(law))
    ratio = min(variance / max(spread, _NO_VARIANCE * variance), 1 / math.sqrt(_NO_VARIANCE))
    p_value = float(fdtrc(df, 2 * ratio**2, statistic / df))
    return LogRank(statistic, p_value, df, float(np.trace(noise[:-1, :-1]) / variance))


def _pooled_hazard(hazard: Array) -> Array:
    """Return hazards at least 0 whose running sums are the nearest rising ones."""
    return np.diff(_rising(np.cumsum(hazard)), prepend=0.0)


def _score_noise(
    groups: Sequence[SurvivalEstimate], share: Array, hazard: Array, chosen: slice, m: int
) -> Array:
    """Return the map of the noise of all groups to the scores, to first order: group, then N(0, I) of each."""
    maps = []
    k = np.arange(m)
    for g, one in enumerate(groups):
        # the error of a group's events less hazard times number at risk, in each interval
        spread = -hazard[:, None] * one.counts.risk_map[:, :m]
        for cause in range(one.counts.causes)[chosen]:
            spread[cause, k, k] += 1.0
        own = np.zeros((len(groups), m))
        own[g] = 1.0
        part = np.einsum("hk,pkj->hpj", own - share, spread) @ one.counts.root
        maps.append(part.reshape(len(groups), -1))
    return np.concatenate(maps, axis=1)


def _product_noise(
    groups: Sequence[SurvivalEstimate], share: Array, total: Array, chosen: slice, m: int
) -> Array:
    """Return the variance of the products of noise in the shares at risk and in events."""
    own = np.eye(len(groups))[:, :, None] - share[:, None]
    risk = np.stack([one.counts.risk_sd[:m] ** 2 for one in groups])
    of_share = np.einsum("gik,hik,ik->ghk", own, own, risk) / total**2
    event = sum(
        float(((one.counts.root[:m] ** 2).sum(axis=1)).mean())
        * len(range(one.counts.causes)[chosen])
        for one in groups
    )
    return np.asarray(of_share.sum(axis=-1) * event)


def _sampling_sd(groups: Sequence[SurvivalEstimate], share: Array, chosen: slice, m: int) -> float:
    """Return the sd of the noise in the trace of the hypergeometric variance, by the noise of events."""
    weight = (share * (1 - share))[:-1].sum(axis=0)
    variance = sum(
        float(((weight @ one.counts.root[:m]) ** 2).sum()) * len(range(one.counts.causes)[chosen])
        for one in groups
    )
    return math.sqrt(variance)
