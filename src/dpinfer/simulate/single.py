"""Replicates of a fit in a private geometry: the product itself on bootstrap samples, held against what it states.

The estimand of such a fit depends on its releases: the weights, the columns set aside, the coefficients of the offset.
So each replicate has a target of its own, the stated estimand on the population, computed without noise.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri

from dpinfer.data.design import Design
from dpinfer.fit.recipe import fit
from dpinfer.fit.weighted.run import Weighted
from dpinfer.maths.arrays import Array
from dpinfer.maths.minimise import minimise
from dpinfer.maths.sums import row_weights
from dpinfer.result.result import FitResult
from dpinfer.simulate.draws import Population
from dpinfer.simulate.runner import Tally

_RIDGE = 1e-3  # times the variance of a column, in a sum over records: against separation
_TOLERANCE = 1e-4  # of a gradient summed over records: a millionth of a standard error


@dataclass(frozen=True, eq=False)
class Minimum:
    """A weighted logistic fit with an offset, and its sandwich covariance."""

    coef: Array
    covariance: Array


def minimum(x: Array, y: Array, start: Array, weights: Array | None = None, offset: Array | None = None) -> Minimum:
    """The product's own search from ``start``."""
    w = np.ones(len(y)) if weights is None else weights
    shift = np.zeros(len(y)) if offset is None else offset
    ridge = _RIDGE * x.var(axis=0)

    def totals(step: Array) -> tuple[float, Array, Array]:
        coef = start + step
        margins = y * (x @ coef + shift)
        p = expit(-margins)
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        value = w @ np.logaddexp(0, -margins) + ridge @ coef**2 / 2
        return float(value), ridge * coef - (w * p * y) @ x, hessian

    coef = start + minimise(totals, len(start), _TOLERANCE).coef
    scores = x * (w * expit(-y * (x @ coef + shift)))[:, None]
    inverse = np.linalg.inv(totals(coef - start)[2])
    return Minimum(coef, inverse @ (scores.T @ scores) @ inverse)


@dataclass(frozen=True, eq=False)
class Stated:
    """What a result is about, on the population: coefficients in its units, NaN where none is reported.

    ``unweighted`` is the same with every record counted fully, ``std_error`` that of a fit without noise.
    """

    target: Array
    unweighted: Array
    std_error: Array
    down_weighted: float


def stated(result: FitResult, design: Design, x: Array, y: Array) -> Stated:
    """The estimand of a result, for the rows x = (1, x~) and labels of the population."""
    geometry = result.geometry
    assert geometry is not None
    names, in_model = np.array(design.names), result.reported.copy()
    in_model[0] = True  # the intercept is fitted, reported or not
    S, D = np.flatnonzero(in_model), np.flatnonzero(np.isin(names, geometry.offset))
    weights = _weights(result, design, x)
    shift = x[:, D] @ (result.estimate[D] * design.half[D])
    plain = minimum(x[:, S], y, np.zeros(len(S)), None, shift)
    weighted = minimum(x[:, S], y, plain.coef, weights, shift) if np.any(weights < 1) else plain
    centre = np.concatenate([[1.0], (geometry.centre - design.middle[1:]) / design.half[1:]])
    to_units = np.diag(1 / design.half[S])
    to_units[0] = centre[S]
    constant = np.zeros(len(S))
    constant[0] = centre[D] @ (result.estimate[D] * design.half[D])

    def whole(values: Array) -> Array:
        out = np.full(len(names), np.nan)
        out[S] = values
        return np.where(result.reported, out, np.nan)

    std_error = np.sqrt(np.diag(to_units @ plain.covariance @ to_units.T))
    return Stated(
        target=whole(to_units @ weighted.coef + constant),
        unweighted=whole(to_units @ plain.coef + constant),
        std_error=whole(std_error),
        down_weighted=float((weights < 1 - 1e-9).mean()),
    )


def _weights(result: FitResult, design: Design, x: Array) -> Array:
    assert result.geometry is not None
    kept = np.flatnonzero(np.isin(design.names, result.geometry.columns))
    to_box = np.diag(design.half[kept])  # the preconditioner again for (1, x~)
    to_box[1:, 0] = design.middle[kept][1:]
    u = x[:, kept] @ (result.geometry.preconditioner @ to_box).T
    return row_weights(u)


@dataclass(frozen=True, eq=False)
class SingleTrial:
    """A recipe in a private geometry.  The population is the data set."""

    recipe: Weighted
    population: Population
    seed: int
    batch = 8

    @property
    def x(self) -> Array:
        """The rows as (1, x~)."""
        return np.asarray(self.population.rows * np.sqrt(self.recipe.design.norm2))

    @property
    def target(self) -> Array:
        """The coefficients of the full model without noise or weights, the intercept at the means of the columns."""
        x = self.x
        full = minimum(x, self.population.labels, np.zeros(x.shape[1])).coef
        return np.concatenate([[x.mean(axis=0) @ full], full[1:] / self.recipe.design.half[1:]])

    def fit(self, replicate: int) -> FitResult:
        """The product's fit of one bootstrap sample."""
        noise = int(np.random.SeedSequence([self.seed, replicate]).generate_state(1)[0])
        return fit(self.recipe, self.population.sample(self.seed, replicate), insecure_seed=noise)

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:  # noqa: ARG002
        """Intervals of some replicates, each held against its own stated target."""
        x, z, parts = self.x, -ndtri((1 - level) / 2), []
        for replicate in replicates:
            result = self.fit(replicate)
            about = stated(result, self.recipe.design, x, self.population.labels)
            low, high = result.conf_int(level).T
            kept = result.reported
            length = np.where(kept, high - low, 0.0)
            covered = kept & (low <= about.target) & (about.target <= high)
            plain = np.where(kept, 2 * z * about.std_error, 0.0)
            parts.append(Tally(1, covered.astype(float), length, length**2, plain, kept.astype(float)))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def describe(self) -> str:
        """The setting in words."""
        plan = self.recipe.plan
        return f"n = {self.population.n}, Logistic(), {plan.target} target in a private geometry, {plan.budget}"

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting."""
        data, design = hashlib.sha256(), self.recipe.design
        for array in (self.population.rows, self.population.labels, design.half, design.middle):
            data.update(np.ascontiguousarray(array).tobytes())
        data.update(repr((self.recipe.plan, self.seed)).encode())
        return data.digest()
