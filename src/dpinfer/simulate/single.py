"""Replicates of a fit in a private geometry: the product itself on bootstrap samples, held against what it states.

The estimand of such a fit depends on its releases: the weights, and which columns are in the model.  So each replicate
has a target of its own, the stated model fitted on the population without noise.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpinfer.data.design import Design
from dpinfer.fit.recipe import fit
from dpinfer.fit.weighted.plan import TARGET_LOSS
from dpinfer.fit.weighted.run import Weighted
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Logistic, Loss, describe, slope_and_curvature
from dpinfer.maths.minimise import minimise
from dpinfer.maths.moments import Indices
from dpinfer.maths.sums import row_weights
from dpinfer.result.result import FitResult
from dpinfer.simulate.draws import Population
from dpinfer.simulate.runner import Tally

_RIDGE = 1e-3  # times the variance of a column, in a sum over records: against separation
_TOLERANCE = 1e-4  # of a gradient summed over records: a millionth of a standard error


@dataclass(frozen=True, eq=False)
class Minimum:
    """A weighted fit, and its sandwich covariance."""

    coef: Array
    covariance: Array


def minimum(x: Array, y: Array, start: Array, weights: Array | None = None, loss: Loss | None = None) -> Minimum:
    """The product's own search from ``start``; the loss is the logistic one where none is given."""
    w, f = np.ones(len(y)) if weights is None else weights, Logistic() if loss is None else loss
    ridge = _RIDGE * x.var(axis=0)

    def totals(step: Array) -> tuple[float, Array, Array]:
        coef = start + step
        margins = y * (x @ coef)
        slope, curvature = slope_and_curvature(f, margins)
        hessian = (x * (w * curvature)[:, None]).T @ x + np.diag(ridge)
        value = w @ f.value(margins) + ridge @ coef**2 / 2
        return float(value), ridge * coef + (w * slope * y) @ x, hessian

    coef = start + minimise(totals, len(start), _TOLERANCE).coef
    scores = x * (w * f.slope(y * (x @ coef)))[:, None]
    inverse = np.linalg.inv(totals(coef - start)[2])
    return Minimum(coef, inverse @ (scores.T @ scores) @ inverse)


@dataclass(frozen=True, eq=False)
class Stated:
    """What a result is about, on the population: coefficients in its units, NaN where none is reported.

    ``target`` is the stated estimand; ``ordinary`` the plain logistic fit of the same model, ``std_error`` its standard
    error without noise; ``full`` the plain fit of all columns.  All intercepts are at the result's centre.
    """

    target: Array
    ordinary: Array
    full: Array
    std_error: Array
    down_weighted: float


def stated(result: FitResult, design: Design, x: Array, y: Array, full: Array | None = None) -> Stated:
    """The estimand of a result, for the rows x = (1, x~) and labels of the population.

    ``full`` are the coefficients of (1, x~) in the full model, if they are known already.
    """
    geometry = result.geometry
    assert geometry is not None
    inside = np.flatnonzero(np.isin(design.names, geometry.in_model))
    weights, loss = _weights(result, design, x), TARGET_LOSS[result.model.target]
    plain = minimum(x[:, inside], y, np.zeros(len(inside)))
    target = minimum(x[:, inside], y, plain.coef, weights, loss)
    full = minimum(x, y, np.zeros(x.shape[1])).coef if full is None else full
    to_units = np.diag(1 / design.half)
    to_units[0] = np.concatenate([[1.0], (geometry.centre - design.middle[1:]) / design.half[1:]])

    def whole(values: Array, some: Indices) -> Array:
        return np.where(result.reported, to_units[:, some] @ values, np.nan)

    covariance = to_units[:, inside] @ plain.covariance @ to_units[:, inside].T
    return Stated(
        target=whole(target.coef, inside),
        ordinary=whole(plain.coef, inside),
        full=whole(full, np.arange(len(design.names))),
        std_error=np.where(result.reported, np.sqrt(np.diag(covariance)), np.nan),
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
        nowhere = np.zeros(x.shape[1])  # the full model is not needed here
        for replicate in replicates:
            result = self.fit(replicate)
            about = stated(result, self.recipe.design, x, self.population.labels, nowhere)
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
        return (
            f"n = {self.population.n}, {describe(plan.loss)}, {plan.target} target in a private geometry, {plan.budget}"
        )

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting."""
        data, design = hashlib.sha256(), self.recipe.design
        for array in (self.population.rows, self.population.labels, design.half, design.middle):
            data.update(np.ascontiguousarray(array).tobytes())
        data.update(repr((self.recipe.plan, self.seed)).encode())
        return data.digest()
