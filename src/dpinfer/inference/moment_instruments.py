"""Instrumental variables from released moments: two-stage least squares, and the set of Anderson and Rubin.

| symbol  | meaning                                                            | name in code   |
| ------- | ------------------------------------------------------------------ | -------------- |
| y, x    | outcome, and the endogenous column; both may share unseen causes   | `outcome`, `endogenous` |
| z, W    | instruments, and the exogenous columns, the intercept first         | `instruments`, `exogenous` |
| β       | the effect of x                                                    | `effect`       |
| γ(β)    | coefficients of z in the regression of y - βx on W and z           |                |

At the true β the instruments explain nothing of y - βx, so γ(β) = 0.  That is one regression of a
combination of features, whose law is known however weak the instruments are: the set of all β at which
γᵀ V⁻¹ γ is below the quantile of chi-square holds the true one with its level (Anderson and Rubin, 1949).
It is an interval, two rays or the whole line; with several instruments it may be empty.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from dpinfer.inference.moment_answers import Answer, ReleasedSums, regression
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical

_POINTS: Numerical[int] = (
    60  # at which the set is looked for, from one end of the line to the other
)
_HALVINGS: Numerical[int] = 25  # of the distance between two of them, where an end is


@dataclass(frozen=True, eq=False)
class Instrumented:
    """A regression of an outcome on one ``endogenous`` and ``exogenous`` columns, by instruments; each is a
    combination of the features.  ``levels`` marks those that are 0 or 1 among exogenous columns and instruments.
    """

    sums: ReleasedSums
    outcome: Array
    endogenous: Array
    exogenous: Array
    instruments: Array
    levels: npt.NDArray[np.bool_]

    def _regressed(self, outcome: Array) -> Answer:
        columns = np.vstack([self.exogenous, self.instruments])
        return regression(self.sums, columns, outcome, self.levels)

    def _on_instruments(self, outcome: Array) -> tuple[Array, Array]:
        """Return the coefficients of the instruments with their covariance, bias bounds included."""
        found = self._regressed(outcome)
        here = slice(len(self.exogenous), None)
        covariance = (found.sampling + found.noise)[here, here]
        return found.coef[here], covariance + np.diag(found.bias[here] ** 2)

    @cached_property
    def _first_stage(self) -> tuple[Array, Array]:
        return self._on_instruments(self.endogenous)

    @cached_property
    def _weights(self) -> Array:
        """The inverse of the second moments of instruments without what exogenous columns explain of them."""
        x = np.vstack([self.exogenous, self.instruments]) @ self.sums.vectors
        here = slice(len(self.exogenous), None)
        return np.asarray(np.linalg.inv(np.linalg.pinv(x @ self.sums.moments @ x.T)[here, here]))

    @property
    def first_stage(self) -> float:
        """Return the F statistic of the instruments in the first stage; its noise is in it."""
        return self._statistic(*self._first_stage) / len(self.instruments)

    @cached_property
    def effect(self) -> float:
        """Return the estimate of two-stage least squares."""
        first, _ = self._first_stage
        reduced, _ = self._on_instruments(self.outcome)
        return float(first @ self._weights @ reduced / (first @ self._weights @ first))

    @cached_property
    def std_error(self) -> float:
        """Return the standard error of that, which holds where instruments are strong."""
        first, _ = self._first_stage
        direction = self._weights @ first
        _, covariance = self._on_instruments(self.outcome - self.effect * self.endogenous)
        return math.sqrt(direction @ covariance @ direction) / abs(float(first @ direction))

    @staticmethod
    def _statistic(coef: Array, covariance: Array) -> float:
        return float(coef @ np.linalg.solve(covariance, coef))

    def intervals(self, level: float) -> tuple[tuple[float, float], ...]:
        """Return the set of Anderson and Rubin, as intervals from the lowest."""
        limit = float(chi2.ppf(level, len(self.instruments)))

        def holds(angle: float) -> bool:
            return self._statistic(*self._on_instruments(self._less(angle))) <= limit

        # the line as a half circle, whose two ends are one point: there x alone is regressed
        angles = np.linspace(-math.pi / 2, math.pi / 2, _POINTS + 1)
        inside = [holds(angle) for angle in angles[:-1]]
        inside.append(inside[0])
        ends = []
        for k in range(_POINTS):
            if inside[k] == inside[k + 1]:
                continue
            low, high = angles[k], angles[k + 1]
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (middle, high) if holds(middle) == inside[k] else (low, middle)
            ends.append(self._at((low + high) / 2))
        return tuple(_pairs(ends, unbounded=inside[0]))

    def _at(self, angle: float) -> float:
        return self.effect + 2 * self.std_error * math.tan(angle)

    def _less(self, angle: float) -> Array:
        """Return (y - βx) cos, at which γ is zero where it is for y - βx, also for infinite β."""
        cosine = math.cos(angle)
        unit = 2 * self.std_error
        least = self.outcome - self.effect * self.endogenous
        return np.asarray(cosine * least - unit * math.sin(angle) * self.endogenous)


def _pairs(ends: list[float], *, unbounded: bool) -> Iterator[tuple[float, float]]:
    """Yield intervals between ends of a set, which holds infinity or not."""
    points = [-math.inf, *ends, math.inf] if unbounded else ends
    for k in range(0, len(points), 2):
        yield points[k], points[k + 1]
