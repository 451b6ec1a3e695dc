"""The life table of a hazard regression: baseline hazards and the moments of person-intervals.

From released numbers of persons who leave by interval, with an event and without one, follow the persons at
risk, their time, and the hazards where covariates have no effect.  Together with the second moments of the
covariates, which have all persons behind them, that gives the moments of rows (1, x', interval): covariates are
taken as independent of the interval.
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.inference.constants import FARTHEST_HAZARD, MIN_NOISE_SDS
from dpinfer.inference.moments import Moments
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical

# smallest share of persons that are taken to be at risk in an interval
_FEWEST: Numerical[float] = 0.01


@dataclass(frozen=True, eq=False)
class LifeTable:
    """Released numbers by interval: ``events``, ``exits`` of all kinds, and ``time`` of all persons together.

    Time is in units of the longest interval; ``noise`` is the noise sd of a count, ``n`` the number of persons.
    """

    events: Array
    exits: Array
    time: Array
    noise: float
    n: float

    @classmethod
    def of(cls, released: Array, widths: Array, n: float, noise: float) -> "LifeTable":
        """Return the table of released counts: events, other exits and, with delayed entry, entries."""
        counts = released.reshape(-1, len(widths))
        events = np.maximum(counts[0], MIN_NOISE_SDS * noise)
        exits = np.maximum(counts[0] + counts[1], 0.0)
        entries = (
            np.maximum(counts[2], 0.0) if len(counts) > 2 else n * (np.arange(len(widths)) == 0)
        )
        before = np.cumsum(entries) - np.concatenate([[0.0], np.cumsum(exits)[:-1]])
        risk = np.maximum(before, _FEWEST * n)
        present = np.maximum(
            risk - exits / 2 - (entries / 2 if len(counts) > 2 else 0.0), _FEWEST * n
        )
        return cls(events, exits, present * widths / widths.max(), noise, n)

    @property
    def events_per_person(self) -> float:
        """Return the number of events over that of persons."""
        return float(self.events.sum() / self.n)

    @property
    def log_hazards(self) -> Array:
        """Return the logarithm of the hazard in each interval, none much farther from that of all than data tell."""
        overall = float(np.log(self.events.sum() / self.time.sum()))
        return np.clip(
            np.log(self.events / self.time), overall - FARTHEST_HAZARD, overall + FARTHEST_HAZARD
        )

    def coef(self, columns: int) -> Array:
        """Return the coefficients of (1, x', interval) without effects of the covariates."""
        hazards = self.log_hazards
        return np.concatenate([hazards[:1], np.zeros(columns - 1), hazards[1:] - hazards[0]])

    def moments(self, covariates: Moments) -> Moments:
        """Return the second moments of rows (1, x', interval), by the time in each interval.

        Their sum is that of n rows.  The numbers of intervals have the noise of counts.
        """
        shares = self.time[1:] / self.time.sum()
        of_covariates = len(covariates.matrix)
        number = len(shares)

        def extended(matrix: Array) -> Array:
            first = matrix[0]
            beside = np.outer(first, shares)
            return np.block([[matrix, beside], [beside.T, first[0] * np.diag(shares)]])

        # a root of the noise of a count over that of the covariates, so that one number has both
        root = np.sqrt(self.noise / covariates.noise)
        back = np.zeros((of_covariates + number, of_covariates + number))
        back[:of_covariates, :of_covariates] = covariates.back
        back[of_covariates:, of_covariates:] = root * np.eye(number)
        forward = np.linalg.inv(back)
        noisy = extended(covariates.back @ covariates.released @ covariates.back.T)
        return Moments(
            matrix=extended(covariates.matrix),
            score=np.zeros(of_covariates + number),
            n=covariates.n,
            released=forward @ noisy @ forward.T,
            back=back,
            noise=covariates.noise,
        )


def orthogonal_to_baseline(matrix: Array, of_covariates: int, scale: float) -> Array:
    """Return a preconditioner in which covariates are orthogonal to the baseline, whose columns are scaled down.

    ``matrix`` is a preconditioner A of (1, x', interval), and (AᵀA)⁻¹ the Hessian that it whitens.  Nobody reads the
    baseline, and with orthogonal columns its error enters the other coefficients at second order: shorter rows let
    less noise be added to all.
    """
    hessian = np.linalg.inv(matrix.T @ matrix)
    d = len(matrix)
    base = np.concatenate([[0], np.arange(of_covariates, d)])
    rest = np.arange(1, of_covariates)
    inner = hessian[np.ix_(base, base)]
    across = np.linalg.solve(inner, hessian[np.ix_(base, rest)])
    found = np.zeros((d, d))
    found[np.ix_(base, base)] = scale * _inverse_root(inner)
    root = _inverse_root(hessian[np.ix_(rest, rest)] - hessian[np.ix_(rest, base)] @ across)
    found[np.ix_(rest, rest)] = root
    found[np.ix_(rest, base)] = -root @ across.T
    # the mean squared length of a row stays
    return np.asarray(found * np.sqrt(d / (len(rest) + scale**2 * len(base))))


def _inverse_root(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-12 * values.max()))) @ vectors.T)
