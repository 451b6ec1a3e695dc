"""Releasing moments: columns are checked, releases booked, then carried out.

1. Ranges: two histograms of each number.
2. Crude moments: Σ x xᵀ of rows clipped to these ranges.
3. Moments in a first geometry: Σ w u uᵀ, u = A₁x.
4. Tails: counts of the values far out in each number that is clipped.
5. Second moments in the last geometry, u = A x, with the sums of weights and of excesses.
6. Fourth moments there.

Where a number is clipped follows from its range, and the bias that this leaves from its tail.  The two
are released with noise of their own: a limit that is too short by chance has a bias bound that shows it.

All of it is linear in what a record, or the mean row of a unit, adds; `dpinfer.inference.moment_answers`
makes regressions of it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.errors import InputError, one_of_two
from dpinfer.fit.column_scaling import (
    Winsorised,
    clippable_columns,
    release_scaling,
    scaled_columns,
)
from dpinfer.fit.context import FitContext
from dpinfer.fit.recipe import privacy
from dpinfer.fit.step_plan import SCALES
from dpinfer.inference.constants import MIN_NUMBER, SURE_SDS
from dpinfer.inference.moment_answers import ReleasedSums
from dpinfer.inference.moment_geometry import RIDGE, MomentGeometry
from dpinfer.inference.moments import (
    SMALLEST,
    Crude,
    Moments,
    Scales,
    farthest,
    posterior,
    raised,
    refined,
)
from dpinfer.inference.tails import Tail, TailLaw
from dpinfer.inference.winsorising import NumberLaws, Sides, clipped_moments, relative_bias
from dpinfer.mechanisms.histograms import tail_counts
from dpinfer.mechanisms.moment_sums import COUNT_WEIGHT, counted_moments, fourth_moments
from dpinfer.mechanisms.step_sums import Linearization
from dpinfer.mechanisms.sums import second_moment
from dpinfer.moment_release.centring import CentredColumns
from dpinfer.moment_release.moment_plan import CRUDE, FIRST, FOURTH, SECOND, TAILS, MomentPlan
from dpinfer.moment_release.released_moments import MomentRelease
from dpinfer.numerics.arrays import Array, unsvec
from dpinfer.numerics.links import IDENTITY
from dpinfer.numerics.reasons import Constant, Numerical
from dpinfer.privacy.budget import Budget, require_promise
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.rows import workers
from dpinfer.rows.encoded import cached
from dpinfer.rows.source import Pending, Source
from dpinfer.schema.design import Design
from dpinfer.schema.features import Features
from dpinfer.schema.formula import parse_features
from dpinfer.schema.schema import Schema
from dpinfer.tables.table import read_features

PLANNING_CORRELATION = Constant(
    0.1,
    name="PLANNING_CORRELATION",
    decides="the partial correlation for which the limit of a clipped number is chosen, in a release of moments",
    reason="a limit costs noise or bias, and the bias grows with the slope, which no release has shown yet: it is "
    "chosen for a small effect",
    source="Cohen (1988) calls a correlation of .1 small",
)
TAIL_START = Constant(
    2.5,
    name="TAIL_START",
    decides="the distance in sds, or the limit of a number where that is nearer, from which its tail is counted",
    reason="of a normal number 1.2 % are beyond: enough to be clear of the noise, and few to share their "
    "count where they are far out in several columns",
    source="derivation (normal tail)",
)
_CANDIDATES: Numerical[int] = 60
_TAIL_BINS: Numerical[int] = 12  # on either side, from the start to the public bound


@dataclass(frozen=True)
class Limits:
    """Where numbers are clipped, in the units of the standardised columns, and what that may change.

    ``reach`` is the farthest distance of a column from its mean that is left; ``slope`` the share of a
    slope, ``mean`` the mean, and ``moment`` the share of a covariance that clipping may change.
    """

    low: Array
    high: Array
    reach: Array
    slope: Array
    mean: Array
    moment: Array

    @property
    def clipped(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the clipped columns."""
        return np.isfinite(self.low)


@dataclass(frozen=True, eq=False, repr=False)
class Releasing:
    """A release that was checked by public facts: nothing is booked yet, and no value was read."""

    records: Pending
    design: Design
    features: Features
    plan: MomentPlan
    declared: str
    schema: Schema

    @property
    def adjacency(self) -> Adjacency:
        """Return the adjacency."""
        return self.plan.adjacency

    @property
    def n(self) -> int | None:
        """Return the number of records or units where it is public."""
        return self.records.n if self.adjacency.counted else None

    @property
    def entry(self) -> Entry:
        """Return the entry of the ledger that `run` books."""
        return Entry(
            f"moments of {self.declared}",
            self.design.unit.name,
            self.plan.releases.all,
            self.adjacency,
            self.schema.digest(),
            asked=self.plan.budget,
        )

    def run(self, ledger: Book | None = None, insecure_seed: int | None = None) -> MomentRelease:
        """Book all releases, then read the table and carry them out.

        Guarantee [moments_from_releases]: whether it raises and what it publishes are functions of the
        releases and of public facts.
        """
        workers.check()
        gate = Gate(self.entry, ledger, insecure_seed)
        with workers.worker_pool(), self.records.opened() as source:
            return self._released(gate, cached(source))

    def of(self, source: Source, insecure_seed: int) -> MomentRelease:
        """Release the moments of other records, for studies.  NOT PRIVATE."""
        return self._released(Gate(self.entry, None, insecure_seed), source)

    def _released(self, gate: Gate, source: Source) -> MomentRelease:
        plan = self.plan
        scaling = release_scaling(
            gate, plan.releases.of(SCALES), source, self.design, self.adjacency
        )
        context = FitContext(self.design, self.adjacency, _no_scales(plan), scaling)
        crude = self._crude(gate, source, context)
        geometry = plan.geometry(crude.n)
        moments = self._first(gate, source, context, crude)
        limits = self._limits(gate, source, context, moments, geometry)
        whitened = self._whitened(context, moments.matrix, moments.n, geometry, limits.reach)
        linearization = self._linearization(whitened, context, limits)
        second = gate.release(
            plan.release(SECOND),
            source,
            counted_moments(linearization, self.design.norm2, self.adjacency),
        ).value
        fourth = gate.release(
            plan.release(FOURTH),
            source,
            fourth_moments(linearization, self.design.norm2, self.adjacency),
        ).value
        noise = plan.noise_sd(SECOND)
        sums = ReleasedSums(
            matrix=linearization.matrix,
            middle=self.design.middle,
            half=self.design.half,
            second=second[:-2],
            weight=float(second[-2]) / COUNT_WEIGHT,
            excess=float(second[-1]) / COUNT_WEIGHT,
            noise=noise,
            weight_noise=noise / COUNT_WEIGHT,
            fourth=fourth,
            fourth_noise=plan.noise_sd(FOURTH),
            of_units=self.adjacency.units,
            same=tuple(self.features.same_products()),
            slope_bias=limits.slope,
            mean_bias=self.design.half * scaling.half * limits.mean,
            moment_bias=limits.moment,
        )
        return MomentRelease(
            declared=self.declared,
            schema=self.schema,
            n=self.n,
            privacy=privacy(gate, plan.budget),
            sums=sums,
            geometry=geometry,
            clipped=self._clipped(linearization),
        )

    def _crude(self, gate: Gate, source: Source, context: FitContext) -> Crude:
        """Release Σ x xᵀ of rows clipped to their ranges, as in a fit, and the first geometry."""
        release = self.plan.release(CRUDE)
        query = second_moment(self.adjacency)
        released = gate.release(release, Winsorised(source, context.scaling), query).value
        norm2 = self.design.norm2
        found = unsvec(released, source.dim) * norm2
        noise = release.noise_sd * norm2
        n = max(float(found[0, 0]), MIN_NUMBER)
        if context.known_number and n >= source.n - SURE_SDS * noise:
            n = float(source.n)
        shrunk = posterior(found, context.columns, n, noise)
        reach = farthest(shrunk, context.columns)
        whitened = self._whitened(context, shrunk, n, self.plan.geometry(n), reach)
        return Crude(shrunk, n, whitened @ np.linalg.inv(context.matrix))

    def _first(self, gate: Gate, source: Source, context: FitContext, crude: Crude) -> Moments:
        """Release the moments in the first geometry."""
        release = self.plan.release(FIRST)
        rows = context.mapped(source, crude.preconditioner @ context.matrix)
        released = gate.release(release, rows, second_moment(self.adjacency)).value
        noisy = unsvec(released, source.dim)
        return refined(noisy, np.zeros(source.dim), release.noise_sd, crude, context.columns)

    def _limits(
        self,
        gate: Gate,
        source: Source,
        context: FitContext,
        moments: Moments,
        geometry: MomentGeometry,
    ) -> Limits:
        """Choose where each number is clipped, then release what that leaves out.

        A column whose farthest value is within its share of the radius needs no limit.
        """
        share = geometry.column_share * geometry.radius2
        numbers = context.numbers(moments.matrix, moments, share)
        distances = _distances(numbers, geometry, share)
        d = len(numbers.mean)
        low, high = np.full((2, d), np.nan)
        slope, mean, moment = np.zeros((3, d))
        reach = numbers.farthest.copy()
        laws = self._tails(gate, source, context, numbers, distances, moments.n)
        for j, distance in distances.items():
            sd = math.sqrt(numbers.variance[j])
            limit = np.array([distance])
            (slope[j],) = relative_bias(laws[j], limit)
            (shift,), (moment[j],) = clipped_moments(laws[j], limit)
            mean[j] = sd * shift
            reach[j] = sd * distance
            low[j] = numbers.mean[j] - reach[j]
            high[j] = numbers.mean[j] + reach[j]
        return Limits(low, high, reach, slope, mean, moment)

    def _tails(
        self,
        gate: Gate,
        source: Source,
        context: FitContext,
        numbers: NumberLaws,
        distances: Mapping[int, float],
        n: float,
    ) -> dict[int, Sides]:
        """Release the tails of the clipped numbers, and return the laws of their distances in sds."""
        if not distances:
            return {}
        columns = np.array(list(distances))
        sd = np.sqrt(numbers.variance[columns])
        farthest = numbers.farthest[columns] / sd
        start = np.minimum(TAIL_START, np.array(list(distances.values())))
        edges = np.geomspace(start, farthest, _TAIL_BINS + 1, axis=1)[:, :-1]
        radius = math.sqrt(self.design.norm2)
        half = context.scaling.half[columns]
        query = tail_counts(
            columns,
            (context.scaling.middle[columns] + half * numbers.mean[columns]) / radius,
            half * sd / radius,
            edges,
            self.adjacency,
        )
        release = self.plan.release(TAILS)
        counts = gate.release(release, source, query).value.reshape(len(columns), 2, _TAIL_BINS)

        def law(k: int, side: int) -> TailLaw:
            tail = Tail(
                counts[k, side, ::-1],
                n,
                release.noise_sd,
                edges[k, ::-1],
                float(farthest[k]),
                generous=True,
            )
            return TailLaw(tail, min_start=float(edges[k, 0]))

        return {int(j): (law(k, 0), law(k, 1)) for k, j in enumerate(columns)}

    def _whitened(
        self, context: FitContext, moments: Array, n: float, geometry: MomentGeometry, own: Array
    ) -> Array:
        """Return the map of rows (1, x~) into the geometry; ``own`` are the farthest distances of numbers.

        Columns are centred at their means first.  A tenth of its variance is added to each, and one that
        reaches beyond its share of the radius is scaled down.
        """
        back = np.linalg.inv(context.of_units)
        mean = back @ moments[0] / n
        half = self.design.half * context.scaling.half
        centred = CentredColumns.of(self.features, self.design, mean, half)
        change = centred.matrix @ np.linalg.inv(context.matrix)
        inner = change @ raised(moments / n, SMALLEST) @ change.T
        middle = inner[0]
        variance = np.maximum(np.diag(inner) - middle**2, 0.0)
        share = geometry.column_share * geometry.radius2
        more = (
            np.maximum(centred.reach(middle, own) ** 2 / share - variance, 0.0) + RIDGE * variance
        )
        more[0] = 0.0
        values, vectors = np.linalg.eigh(inner + np.diag(more))
        root = (vectors / np.sqrt(np.maximum(values, SMALLEST))) @ vectors.T
        return np.asarray(root @ centred.matrix / math.sqrt(geometry.radius2))

    def _linearization(self, whitened: Array, context: FitContext, limits: Limits) -> Linearization:
        """Return the map of rows (1, x~) into the geometry, with the clips of numbers."""
        scaling = context.scaling
        low = np.clip(scaling.middle + scaling.half * limits.low, -1.0, 1.0)
        high = np.clip(scaling.middle + scaling.half * limits.high, -1.0, 1.0)
        return Linearization(
            IDENTITY,
            whitened,
            np.zeros(len(whitened)),
            np.inf,
            np.where(limits.clipped, low, -1.0),
            np.where(limits.clipped, high, 1.0),
        )

    def _clipped(self, linearization: Linearization) -> dict[str, tuple[float, float]]:
        """Return the range of each clipped number in original units."""
        design = self.design
        low = design.middle + design.half * linearization.low
        high = design.middle + design.half * linearization.high
        return {
            design.names[j]: (float(low[j]), float(high[j]))
            for j in np.flatnonzero(linearization.clipped)
        }


def _distances(numbers: NumberLaws, geometry: MomentGeometry, share: float) -> dict[int, float]:
    """Return the limits, in sds, of the numbers that are clipped: least noise² + bias² of a slope of a
    small effect.
    """
    found = {}
    size2 = geometry.effective * PLANNING_CORRELATION**2
    for j, sides in numbers.laws.items():
        limits = numbers.candidates(j)
        stretch = np.maximum(1.0, limits**2 / share)
        cost = geometry.price * stretch + size2 * relative_bias(sides, limits) ** 2
        best = int(np.argmin(cost))
        if best < len(limits) - 1:
            found[j] = float(limits[best])
    return found


def _no_scales(plan: MomentPlan) -> Scales:
    """Return the noise sds that a context of a fit has; those of a score are not there."""
    crude, first = plan.release(CRUDE).noise_sd, plan.release(FIRST).noise_sd
    return Scales(crude, first, math.nan, first, math.nan)


def releasing(
    table: Any,
    schema: Schema | str | Path,
    columns: str,
    budget: Budget | None,
    adjacency: str | None = None,
) -> Releasing:
    """Return what `release_moments` will do, checked by names and types alone."""
    require_promise(budget)
    schema = Schema.of(schema)
    unit = schema.unit.averaged
    relation = Adjacency.of(adjacency or Adjacency.REPLACE, units=unit.many)
    if relation.units and not unit.many:
        raise InputError(f"adjacency={str(relation)!r} needs ids: give the schema a [unit] column")
    terms = parse_features(columns, schema)
    design, records = read_features(table, terms, unit, counted=relation.counted)
    if relation.counted and records.n < 1:
        raise InputError("the table has no rows: there is nothing to release")
    plan = MomentPlan(
        budget,  # type: ignore[arg-type]  # it refuses others
        relation,
        len(design.names),
        len(scaled_columns(design)),
        int(clippable_columns(design).sum()),
        design.unit.largest,
    )
    if relation.counted:
        plan.require_worthwhile(records.n)
    return Releasing(records, design, Features(terms), plan, " ".join(columns.split()), schema)


def release_moments(
    table: Any,
    schema: Schema | str | Path,
    columns: str,
    budget: Budget | None = None,
    *,
    ledger: Book | None = None,
    adjacency: str | None = None,
    neighbours: str | None = None,
    insecure_seed: int | None = None,
) -> MomentRelease:
    """Release the moments of declared features once; every linear model of them is then free.

    Parameters
    ----------
    table : table or path
        The records: pandas, polars, pyarrow, Dask, Spark, or a path.
    schema : Schema or path
        What is public about the table.
    columns : str
        The features, as on the right side of a formula: ``"hours + age + I(age**2) + sex + age:sex"``.
        Any of them may be an outcome later.  The price grows with the square of their number.
    budget : ZCDP, ApproxDP or NoPrivacy
        What the release may cost.
    ledger : Ledger, optional
        Where the cost is booked, in one entry.
    adjacency, neighbours : str, optional
        Which tables are neighbours: ``"replace"`` (the default) or ``"add-remove"``.
    insecure_seed : int, optional
        A seed for tests; the release is then not private.

    Returns
    -------
    MomentRelease
        What is released, with answers.

    Raises
    ------
    BudgetError
        If noise would drown every answer, or the ledger refuses.
    InputError
        If a feature or the table does not fit the schema.

    Notes
    -----
    Six stages of Gaussian noise: ranges, two rounds of second moments that find a geometry, tails of
    numbers that are clipped, second moments with 77 % of the budget, and fourth moments, from which
    sampling variances follow.
    In that geometry the privacy noise of any slope of any regression is about π times its sampling
    variance, π = s²R⁴/(2n): `dpinfer.plan_moments` forecasts it.

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> release = dp.release_moments(
    ...     data.table, schema=data.schema, columns="mdvis + physlm + disea", budget=dp.NoPrivacy()
    ... )
    >>> f"{release.correlation('mdvis', 'disea').estimate:.2f}"
    '0.21'
    """
    code = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
    return releasing(table, schema, columns, budget, code).run(ledger, insecure_seed)
