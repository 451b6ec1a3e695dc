"""What a clip of influences takes off the coefficients of a fit of counts, and how sure that is.

What all records lose alike moves the level alone.  What a slope loses is how much more is cut off at
one end of its column than at the other, and that depends on how the spread of outcomes goes with
their mean.  If outcomes over their mean, y/μ, have one law, a record with a larger mean loses more of
it; if variances are in proportion to means, as where a mean is a number of bunches, it loses the same
part.  The released covariance of the scores tells which of the two the records are nearer to.

| symbol | meaning                                                               | name in code |
| ------ | --------------------------------------------------------------------- | ------------ |
| b      | the clip of influences w‖u‖|y - μ|                                    | `clip`       |
| f      | w‖u‖μ: the influence of a residual as large as the mean               | `influence`  |
| φ      | the spread of some records over that of all (`maths/spreads.py`)      |              |
| π      | the part of what one law says that is lost: 0 or 1 by the two reasons | `put_back`   |

Post-processing of released values only.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.inference import Fitted
from dpinfer.maths.spreads import UNKNOWN_PART, Known, Spreads, part_of_one, unexplained
from dpinfer.maths.tail_law import TailLaw

# of a mean: how the deviation of an outcome falls behind it, where variances are in proportion to
# means, and where outcomes over their mean have one law
_POWERS = (0.5, 0.0)
_FARTHEST = 3.0  # in logarithms of a mean: how far from its centre a level is taken to be
_FLAT = 1e-3  # spreads that two reasons explain so much alike tell nothing of which one it is


@dataclass(frozen=True)
class Record:
    """A typical record: its mean, its squared length in the geometry, w‖u‖μ, and w‖u‖²μ."""

    mean: float
    length2: float
    influence: float
    leverage: float


@dataclass(frozen=True, eq=False)
class Typical:
    """What records are like in a geometry, by their columns, at a line."""

    matrix: Array
    line: Array
    centre: Array
    kappa: float
    mean: float

    @property
    def usual(self) -> float:
        """w‖u‖μ of a usual record."""
        return math.sqrt(self.mean / self.kappa)

    @cached_property
    def _others2(self) -> float:
        """What columns that are at their centre add to a squared length."""
        at_centre = self.matrix @ self.centre
        return max(1 / (self.kappa * self.mean) - float(at_centre @ at_centre), 0.0)

    def record(self, row: Array) -> Record:
        """One with these columns, as far as they are given, and usual others."""
        u = self.matrix @ row
        length2 = float(u @ u) + self._others2
        further = float(np.clip((row - self.centre) @ self.line, -_FARTHEST, _FARTHEST))
        mean = self.mean * math.exp(further)
        weight = 1 / max(1.0, mean * length2)
        return Record(mean, length2, weight * mean * math.sqrt(length2), weight * mean * length2)


@dataclass(frozen=True, eq=False)
class CutOff:
    """What the clip of a fit takes off, with the law of influences."""

    fit: Fitted
    typical: Typical
    clip: float
    law: TailLaw

    @cached_property
    def lost(self) -> Array:
        """By how much coefficients are too small because of the clip, if outcomes over their mean
        have one law.

        Then an outcome with the influence f times its residual over its mean loses of that mean
        what the tail has beyond b f̄/f, f̄ that of a usual record.
        """
        lost = np.empty(len(self.fit.centre))
        lost[0] = self._part(self.fit.centre)
        for j in range(1, len(lost)):
            low, high = self._ends(j)
            lost[j] = (self._part(high) - self._part(low)) / (high[j] - low[j])
        return lost

    def _part(self, row: Array) -> float:
        """Of its mean, what a record with these columns loses."""
        usual = self.typical.usual
        influence = self.typical.record(row).influence
        return self.law.excess(self.clip * usual / influence) / usual

    def _ends(self, j: int) -> tuple[Array, Array]:
        """The rows that a column is judged by: a level and its reference, a number one deviation
        below its centre and one above; the first is the lower one.
        """
        fit = self.fit
        low = fit.centre.copy()
        high = fit.centre.copy()
        if fit.columns.dummy[j]:
            together = fit.columns.group == fit.columns.group[j]
            low[together] = 0.0
            high[together] = 0.0
            high[j] = 1.0
        else:
            low[j] -= fit.spread[j]
            high[j] += fit.spread[j]
        return low, high

    @cached_property
    def _spreads(self) -> Spreads:
        last = self.fit.last
        return Spreads(
            last.hessian,
            last.score_cov,
            last.scales.hessian,
            last.scales.score_cov,
            self.fit.back[:, 0],
            self.clip,
        )

    @cached_property
    def _mean_square(self) -> float:
        """Of clipped influences."""
        return self.law.seen.mean_square(self.clip)

    def _explained(self, low: Record, high: Record) -> tuple[float, float]:
        """By how much more outcomes spread at the second record for either reason, the clip
        included, which leaves less of a record with more influence.
        """
        seen = self.law.seen

        def spread(record: Record, power: float) -> float:
            behind = math.pow(self.typical.mean / record.mean, power)
            scale = record.influence / self.typical.usual * behind
            left = scale**2 * seen.mean_square(self.clip / scale) / self._mean_square
            return left / (record.leverage * self.typical.kappa)

        by_means, by_one_law = (spread(high, power) - spread(low, power) for power in _POWERS)
        return by_means, by_one_law

    @cached_property
    def put_back(self) -> Known:
        """π, by how spreads grow along the predictor, from one deviation below its mean to one
        above.

        Anything from 0 to 1 is as likely as anything else before that is seen.
        """
        fit = self.fit
        moments = fit.moments.of(np.arange(len(fit.centre)))
        mean = moments[0] / moments[0, 0]
        covariance = moments / moments[0, 0] - np.outer(mean, mean)
        slopes = self.typical.line.copy()
        slopes[0] = 0.0
        variance = float(slopes @ covariance @ slopes)
        if variance <= 0:
            return UNKNOWN_PART
        toward = covariance @ slopes / math.sqrt(variance)
        low = self.typical.record(fit.centre - toward)
        high = self.typical.record(fit.centre + toward)
        by_means, by_one_law = self._explained(low, high)
        if by_one_law - by_means < _FLAT:
            return UNKNOWN_PART
        seen = self._spreads.along(self.typical.matrix @ (2 * toward), self._usual_length2)
        from_means = Known(seen.value - by_means, seen.variance)
        return part_of_one(from_means.times(1 / (by_one_law - by_means)))

    @property
    def _usual_length2(self) -> float:
        """The squared length of a usual record."""
        return 1 / (self.typical.kappa * self.typical.mean)

    def gaps(self) -> list[Known]:
        """By how much more outcomes spread at one end of each column than at the other, beside what
        their means explain, for a unit of the column.
        """
        fit = self.fit
        uncentred = fit.back.copy()
        uncentred[:, 1:] += np.outer(fit.back[:, 0], fit.centre[1:])
        everybody = fit.back[:, 0]
        gaps = [Known(0.0, 0.0)]
        for j in range(1, len(fit.centre)):
            low, high = self._ends(j)
            lower = self.typical.record(low)
            upper = self.typical.record(high)
            if fit.columns.dummy[j]:
                together = fit.columns.dummy & (fit.columns.group == fit.columns.group[j])
                of_level = self._spreads.of_some(uncentred[:, j], upper.length2)
                reference = everybody - uncentred[:, together].sum(axis=1)
                of_reference = self._spreads.of_some(reference, lower.length2)
                difference = of_level.less(of_reference)
                both = max(of_level.value + of_reference.value, 2.0)
            else:
                toward = self.typical.matrix @ (high - low)
                difference = self._spreads.along(toward, self._usual_length2)
                both = 2.0
            gap = unexplained(difference, self._explained(lower, upper))
            gaps.append(gap.times(both / float(high[j] - low[j])))
        return gaps
