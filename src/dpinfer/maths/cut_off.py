"""What a clip of influences takes off the coefficients of a fit of counts, and how sure that is.

What all records lose alike moves the level alone.  What a slope loses is how much more is cut off at
one end of its column than at the other, and that depends on how the spread of outcomes goes with
their mean.  If outcomes over their mean, y/μ, have one law, a record with a larger mean loses more of
it; if variances are in proportion to means, as where a mean is a number of bunches, only its leverage
counts.  The released covariance of the scores tells which of the two the records are nearer to.

| symbol | meaning                                                               | name in code |
| ------ | --------------------------------------------------------------------- | ------------ |
| b      | the clip of influences w‖u‖|y - μ|                                    | `clip`       |
| f      | w‖u‖μ: the influence of a residual as large as the mean               | `influence`  |
| φ      | the spread of some records over that of all (`maths/spreads.py`)      |              |
| π      | how near it is to one law: 0 or 1 by the two reasons                  | `one_law`    |

Post-processing of released values only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.histograms import Bars
from dpinfer.maths.inference import Fitted
from dpinfer.maths.spreads import UNKNOWN_PART, Known, Spreads, part_of_one, unexplained
from dpinfer.maths.stepping import normal_nodes
from dpinfer.maths.sums import squared_norms
from dpinfer.maths.tail_law import TailLaw
from dpinfer.maths.tilting import tilted

# of a mean: how the deviation of an outcome falls behind it, where variances are in proportion to
# means, and where outcomes over their mean have one law
_POWERS = (0.5, 0.0)
_FARTHEST = 3.0  # in logarithms of a mean: how far from its centre a level is taken to be
_TRIED = 24  # influences at which a mixture is tried
_NODES = 9  # of a mean over a normal column
_SIZES = 60  # sizes at which a tail is tabled
# powers of a mean by which squares of what is cut off outgrow those of what is left: four and about
# one, in a tail whose fourth power has just no mean
_LEANING = 3.0
# deviations of what is cut off in some direction that intervals allow for: of a usual column 1 would do
_UNLIKE = 1.1
_LEAST = 1e-300  # that is divided by, or has a logarithm
_TIE = 1e-9  # by which the largest of influences that are all alike is larger
_IDLE = 1e-6  # of what is unsure of a part before: what sums tell that leave it as it was


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

    def means(self, rows: Array) -> tuple[Array, Array]:
        """Means and squared lengths of records with these columns, one a row, as far as they are
        given, and usual others.
        """
        length2 = squared_norms(rows @ self.matrix.T) + self._others2
        further = np.clip((rows - self.centre) @ self.line, -_FARTHEST, _FARTHEST)
        return self.mean * np.exp(further), length2


def influence_of(mean: Array | float, length2: Array | float) -> Array:
    """w‖u‖μ of records with these means and squared lengths."""
    return np.asarray(mean * np.sqrt(length2) / np.maximum(1.0, mean * length2))


@dataclass(frozen=True, eq=False)
class _Along:
    """Records along a column, usual in the others: how common they are, their means and squared
    lengths.  Of a factor the last is its reference, and ``place`` is the level; of a number it is
    None.
    """

    column: Array
    shares: Array
    means: Array
    lengths2: Array
    place: int | None

    @property
    def influences(self) -> Array:
        """w‖u‖μ."""
        return influence_of(self.means, self.lengths2)

    @property
    def variance_of_logs(self) -> float:
        """Of the logarithms of means."""
        logs = np.log(self.means)
        return float(self.shares @ logs**2 - (self.shares @ logs) ** 2)

    def per_unit(self, values: Array) -> float:
        """By how much values of the records grow with the column: from the reference to the level,
        or along the line that is nearest where records count by w μ, as they do in the fit.
        """
        if self.place is not None:
            return float(values[self.place] - values[-1])
        counted = self.shares * self.means / np.maximum(1.0, self.means * self.lengths2)
        apart = counted * (self.column - counted @ self.column / counted.sum())
        return float(apart @ values / (apart @ self.column))


@dataclass(frozen=True)
class _Compared:
    """By how much more outcomes spread for a unit of a column: as it is seen, and by either reason.
    ``growth`` is by what a cut grows with that.
    """

    seen: Known
    by_means: float
    by_one_law: float
    growth: float


@dataclass(frozen=True, eq=False)
class CutOff:
    """What the clip of a fit takes off, with the law of influences."""

    fit: Fitted
    typical: Typical
    clip: float
    law: TailLaw
    bars: Mapping[int, Bars]

    @property
    def part_below(self) -> float:
        """Of what is cut off, the most that may be cut off below a mean, by the average of the laws.

        No outcome is below 0, so that no influence below its mean is larger than that of a residual
        as large as the mean.
        """
        farthest = self.typical.usual
        whole = self.law.excess(self.clip)
        if self.clip >= farthest or whole <= 0:
            return 0.0
        return 1 - self.law.excess(farthest) / whole

    @cached_property
    def of_level(self) -> float:
        """What the level is too low by: the part of their mean that all records lose together, no
        more than all of it.
        """
        return min(self.law.excess(self.clip) / self.typical.usual, 1.0)

    def lost(self, part: Known) -> tuple[Array, Array]:
        """By how much coefficients are too small because of the clip, and by how much more or less,
        if so is known which ``part`` one law has; 0 for the level.

        An outcome with the influence f loses R(b/f) of its mean, R(x) the mean excess over x: if
        outcomes over their mean have one law, f is w‖u‖μ, and if variances are in proportion to
        means it is w‖u‖ times one mean for all, so that only the leverage of a row counts.  The tail
        of all influences is a mixture, E(b) = mean of f R(b/f), longer than that of one record.  So
        R(x) is E(x f°)/f° with an f° between two: that of a usual record, by which a column loses
        too much, as if the mixture were one record's tail; and that which makes both sides the same,
        by which it loses too little, as R falls faster than the mixture does.
        """
        lost = np.zeros(len(self.fit.centre))
        unsure = np.zeros(len(lost))
        # as far as it is unsure, were all parts alike; and squares are of the body of outcomes, too,
        # which may be nearer to means than their tail is
        reach = max(math.sqrt(3 * part.variance), 1 - part.value)
        for j, along in enumerate(self._columns, start=1):
            by_means = self._lost_by_means(along)
            least, most = self._by_one_law[j - 1]
            by_one_law = (least + most) / 2
            # weights may turn what leverage takes: that is no reason to take more off the other way
            by_means = by_means if by_means * by_one_law > 0 else 0.0
            lost[j] = by_means + part.value * (by_one_law - by_means)
            unsure[j] = math.hypot(reach * (by_one_law - by_means), (most - least) / 2)
        return lost, unsure

    def lost_beside(self) -> Array:
        """By how much more levels may be too small, beside what they are known to lose.

        In drawn tables rare levels, whose rows are long, lose more than the larger of the two ends
        tells (docs/counts.md).  Half of what lies between the ends is added to it, and no more than
        half of the smaller one: a strong level makes most of the tail itself, and its larger end
        tells far too much.
        """
        beside = np.zeros(len(self.fit.centre))
        for j, along in enumerate(self._columns, start=1):
            least, most = self._by_one_law[j - 1]
            if along.place is not None:
                size = min(abs(most - least), abs(least)) / 2
                beside[j] = math.copysign(size, most)
        return beside

    @cached_property
    def _by_one_law(self) -> list[tuple[float, float]]:
        """Of each column but the intercept, what a unit of it loses if outcomes over their mean have
        one law, by either f°.
        """
        return [self._lost_by_one_law(along) for along in self._columns]

    def hidden(self) -> Array:
        """The covariance that intervals allow for of what the clip takes off the score, which falls in
        one direction or another.

        It is V times the mean square of what is cut off over that of what is left, and leans towards
        records with larger means, of which more is cut off.  That holds for persons with several
        rows, too: these average both.
        """
        squares = self.fit.score_cov
        further = _LEANING * self.typical.line
        further[0] = 0.0
        of_columns = self._uncentred.T @ squares @ self._uncentred
        matrix = self.typical.matrix
        leaning = matrix @ tilted(of_columns, further, self.fit.columns) @ matrix.T
        size = float(np.trace(squares)) / max(float(np.trace(leaning)), _LEAST)
        return np.asarray(_UNLIKE**2 * self._hidden_share * size * leaning)

    @property
    def _hidden_share(self) -> float:
        """The mean square of what the clip takes off an influence, over that of what it leaves."""
        return self.law.square_excess(self.clip) / max(self._mean_square, _LEAST)

    def _lost_by_means(self, along: _Along) -> float:
        """What a unit of a column loses if variances are in proportion to means."""
        influences = along.influences / along.means * self.typical.mean
        even = self._even_influence(influences[:, None], along.shares[:, None])
        return along.per_unit(self._taken(influences, even))

    def _lost_by_one_law(self, along: _Along) -> tuple[float, float]:
        """What a unit of a column loses if outcomes over their mean have one law, by either f°."""
        times, likely = self._times_others(along)
        influences = influence_of(along.means[:, None] * times, along.lengths2[:, None])
        even = self._even_influence(influences, along.shares[:, None] * likely)
        # of all that is lost, records with a larger mean lose more
        of_even = self._taken(influences, even) @ (likely * times)
        of_usual = self._taken(along.influences, self.typical.usual)
        return along.per_unit(of_even), along.per_unit(of_usual)

    def _taken(self, influences: Array, even: float) -> Array:
        """R(b/f): which part of their means records lose, by an f°; no more than all of it."""
        return np.minimum(self._excess(self.clip * even / influences) / even, 1.0)

    def _times_others(self, along: _Along) -> tuple[Array, Array]:
        """By what other columns, as if Gaussian, multiply means, 1 on average; and how likely that is."""
        others2 = max(self._predictor_variance - along.variance_of_logs, 0.0)
        others = min(math.sqrt(others2), _FARTHEST)
        nodes, likely = normal_nodes(_NODES)
        return np.exp(others * nodes - others**2 / 2), likely

    def _even_influence(self, influences: Array, shares: Array) -> float:
        """f° of records with these influences."""
        tried = np.geomspace(influences.min(), influences.max() * (1 + _TIE), _TRIED)
        ratio = influences / tried[:, None, None]
        mixed = np.einsum("tij,ij->t", ratio * self._excess(self.clip / ratio), shares)
        # the larger f° is the less the mixture has beyond the clip
        whole = float(self._excess(np.array(self.clip)))
        fallen = -np.log(np.maximum(mixed, _LEAST))
        return float(np.exp(np.interp(-np.log(whole), fallen, np.log(tried))))

    @cached_property
    def _columns(self) -> list[_Along]:
        """Records along each column but the intercept."""
        return [self._along(j) for j in range(1, len(self.fit.centre))]

    def _along(self, j: int) -> _Along:
        fit = self.fit
        place = None
        if fit.columns.dummy[j]:
            levels = np.flatnonzero(fit.columns.dummy & (fit.columns.group == fit.columns.group[j]))
            place = int(np.flatnonzero(levels == j)[0])
            rows = np.tile(fit.centre, (len(levels) + 1, 1))
            rows[:, levels] = 0.0
            rows[np.arange(len(levels)), levels] = 1.0
            shares = np.append(fit.centre[levels], max(1 - float(fit.centre[levels].sum()), 0.0))
            shares = shares / shares.sum()
        else:
            nodes, shares = self._law(j)
            rows = np.tile(fit.centre, (len(nodes), 1))
            rows[:, j] += fit.spread[j] * nodes
        means, lengths2 = self.typical.means(rows)
        # together they have the mean of all
        means = means * self.typical.mean / float(shares @ means)
        return _Along(rows[:, j], shares, means, lengths2, place)

    def _law(self, j: int) -> tuple[Array, Array]:
        """Of a number, in deviations from its centre: as its bars show it, or a normal one."""
        bars = self.bars.get(j)
        shown = None if bars is None else bars.law()
        return normal_nodes(_NODES) if shown is None else shown

    @cached_property
    def _predictor_variance(self) -> float:
        slopes = self.typical.line.copy()
        slopes[0] = 0.0
        return max(float(slopes @ self._covariance @ slopes), 0.0)

    @cached_property
    def _covariance(self) -> Array:
        """Of the columns."""
        moments = self.fit.moments.of(np.arange(len(self.fit.centre)))
        mean = moments[0] / moments[0, 0]
        return np.asarray(moments / moments[0, 0] - np.outer(mean, mean))

    def _excess(self, sizes: Array) -> Array:
        """The mean of what lies beyond each size."""
        logs, excess = self._tabled
        return np.asarray(np.exp(np.interp(np.log(sizes), logs, excess)))

    @cached_property
    def _tabled(self) -> tuple[Array, Array]:
        """Logarithms of sizes, and of the mean of what lies beyond each."""
        seen = self.law.seen
        sizes = np.geomspace(seen.edges[-1], 4 * max(seen.largest, self.clip), _SIZES)
        excess = np.maximum([self.law.excess(size) for size in sizes], _LEAST)
        return np.log(sizes), np.log(excess)

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

    def _explained(self, along: _Along) -> tuple[float, float]:
        """By how much more outcomes spread for a unit of a column for either reason, the clip
        included, which leaves less of a record with more influence.
        """
        leverages = along.influences * np.sqrt(along.lengths2) * self.typical.kappa

        def grows(power: float) -> float:
            behind = (self.typical.mean / along.means) ** power
            scale = along.influences / self.typical.usual * behind
            left = self.law.seen.mean_squares(self.clip / scale)
            return along.per_unit(scale**2 * left / self._mean_square / leverages)

        by_means, by_one_law = (grows(power) for power in _POWERS)
        return by_means, by_one_law

    @cached_property
    def one_law(self) -> Known:
        """π, by how spreads grow along columns, each as sure as its noise lets it be."""
        toward = 0.0
        information = 0.0
        for compared in self._compared:
            apart = compared.by_one_law - compared.by_means
            weight = apart / max(compared.seen.variance, _LEAST)
            toward += weight * (compared.seen.value - compared.by_means)
            information += weight * apart
        if information * UNKNOWN_PART.variance < _IDLE:
            return UNKNOWN_PART
        return part_of_one(Known(toward / information, 1 / information))

    def gaps(self) -> list[Known]:
        """By how much more outcomes spread for a unit of each column, beside what their means explain,
        times how a cut grows with that.
        """
        nothing = Known(0.0, 0.0)  # of the level
        of_columns = [
            unexplained(compared.seen, (compared.by_means, compared.by_one_law)).times(
                compared.growth
            )
            for compared in self._compared
        ]
        return [nothing, *of_columns]

    @cached_property
    def _compared(self) -> list["_Compared"]:
        """Of each column but the intercept."""
        return [self._compare(j, along) for j, along in enumerate(self._columns, start=1)]

    def _compare(self, j: int, along: _Along) -> "_Compared":
        fit = self.fit
        if along.place is not None:
            together = fit.columns.dummy & (fit.columns.group == fit.columns.group[j])
            of_level = self._spreads.of_some(self._uncentred[:, j], along.lengths2[along.place])
            reference = fit.back[:, 0] - self._uncentred[:, together].sum(axis=1)
            of_reference = self._spreads.of_some(reference, along.lengths2[-1])
            seen = of_level.less(of_reference)
            both = max(of_level.value + of_reference.value, 2.0)
        else:
            usual_length2 = 1 / (self.typical.kappa * self.typical.mean)
            seen = self._spreads.along(self.typical.matrix[:, j], usual_length2)
            both = 2.0
        by_means, by_one_law = self._explained(along)
        return _Compared(seen, by_means, by_one_law, both)

    @cached_property
    def _uncentred(self) -> Array:
        """Combinations of u that are the columns, not less their centre."""
        found = self.fit.back.copy()
        found[:, 1:] += np.outer(self.fit.back[:, 0], self.fit.centre[1:])
        return found
