"""Batches of penalised fits on a device of torch: the passes of `dpinfer.simulate.batched` there.

``python -m studies.paper --device cuda`` runs so; see README.md for what it needs.  `DeviceArrays`
holds an array-API namespace, so that the same passes run on torch, on array-api-strict and on
numpy.  The replicates are those of a study without a device, and so are the numbers, up to
rounding.  NOT PRIVATE.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.errors import InputError, installed
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.recipe import Recipe
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.arrays import Array
from dpinfer.rows.workers import one_thread
from dpinfer.simulate import batched
from dpinfer.simulate.batched import BLOCK, TOLERANCE, Batch, BatchedTrial, Engine, replace_fits
from dpinfer.simulate.population import (
    LABELS,
    RECORDS,
    Population,
    draw_steps,
    drawn_cells,
    drawn_words,
    replicate_keys,
)
from dpinfer.simulate.study import coverage_of, recipe_and_population, variability_of

REQUIREMENTS = "studies/paper/requirements-device.txt"
_DRAWN_TOGETHER = 1024  # replicates whose draws are in the memory of a device at once


def coverage(
    *data: Any,
    device: str,
    replicates: int,
    seed: int,
    level: float,
    nonprivate: bool = True,
    **options: Any,
) -> dp.simulate.Study:
    """Return the study of `dp.simulate.coverage`, its fits made on ``device``."""
    trial = device_trial(*recipe_and_population(data, options), seed, device)
    return coverage_of(trial, replicates, level=level, nonprivate=nonprivate, workers=1)


def variability(
    *data: Any, device: str, replicates: int, seed: int, level: float, **options: Any
) -> tuple[Array, Array]:
    """Return the interval of `dp.simulate.variability`, its fits made on ``device``."""
    asked = {"target": "penalised", **options}
    trial = device_trial(*recipe_and_population(data, asked), seed, device)
    return variability_of(trial, replicates, level=level, workers=1)


def device_trial(recipe: Recipe, population: Population, seed: int, device: str) -> BatchedTrial:
    """Return the trial of a penalised recipe on a device of torch."""
    if not (isinstance(recipe, Penalised) and population.equally_counted):
        raise InputError("a device fits with a penalty, without units or weights: drop --device")
    with one_thread():
        engine = DeviceEngine(population, recipe.risk(population.n), DeviceArrays.on(device))
        return BatchedTrial(recipe, engine, population, seed)


@dataclass(frozen=True)
class DeviceArrays:
    """Where arrays are: ``xp`` is an array-API namespace, ``device`` one of its devices."""

    xp: Any = np
    device: Any = None

    @classmethod
    def on(cls, device: str) -> "DeviceArrays":
        """Return the arrays of torch on a device."""
        if not installed("torch", "array_api_compat"):
            raise InputError(
                f"--device needs torch and array-api-compat: pip install -r {REQUIREMENTS}"
            )
        import array_api_compat.torch as xp  # noqa: PLC0415  (not a dependency of the package)

        return cls(xp, device)

    def put(self, array: Any) -> Any:
        """Return a numpy array on the device."""
        return self.xp.asarray(array, device=self.device)

    def get(self, array: Any) -> Array:
        """Return an array of the device in numpy."""
        return np.asarray(array.cpu() if hasattr(array, "cpu") else array)

    def counts(self, population: Population, seed: int, replicates: range) -> Any:
        """Return `Population.counts`, drawn on the device."""
        n = population.n
        steps = self.put(draw_steps(n))
        positive = None if population.positive is None else self.put(population.positive)
        parts = []
        for start in range(replicates.start, replicates.stop, _DRAWN_TOGETHER):
            numbers = range(start, min(start + _DRAWN_TOGETHER, replicates.stop))
            cells = drawn_cells(steps + self.put(replicate_keys(seed, numbers, RECORDS)), n)
            if positive is None:
                parts.append(self._histograms(cells, n))
                continue
            coins = drawn_words(steps + self.put(replicate_keys(seed, numbers, LABELS)), n)
            cells = (
                self._labelled(cells[0], coins[0], positive),
                self._labelled(cells[1], coins[1], positive),
            )
            parts.append(self._histograms(cells, 2 * n))
        return self.xp.concat(parts)

    def _labelled(self, cells: Any, coins: Any, positive: Any) -> Any:
        """Move a draw to the cells of the label -1 where its coin says so."""
        xp = self.xp
        chance = xp.reshape(xp.take(positive, xp.reshape(cells, (-1,))), cells.shape)
        negative = xp.astype(coins, xp.float64) / 2.0**32 >= chance
        return cells + positive.shape[0] * xp.astype(negative, xp.int64)

    def _histograms(self, cells: tuple[Any, Any], size: int) -> Any:
        """Return the counts of each replicate.

        No array standard has a histogram: torch scatters on its device, others go through numpy.
        """
        xp = self.xp
        replicates = cells[0].shape[0]
        if hasattr(xp, "scatter_add"):
            counts = xp.zeros((replicates, size), dtype=xp.int32, device=self.device)
            one = xp.ones((1, 1), dtype=xp.int32, device=self.device)
            for part in cells:
                counts.scatter_add_(1, part, one.expand(part.shape))
            return xp.astype(counts, xp.uint8)
        both = np.hstack([self.get(part) for part in cells])
        counts = np.stack([np.bincount(drawn, minlength=size) for drawn in both])
        return self.put(counts.astype(np.uint8))


class DeviceEngine(Engine):
    """The engine of `dpinfer.simulate.batched` with its three passes on a device.

    It fits the paper's losses of the margin, `dp.Logistic` and `dp.HuberHinge`.
    """

    batch = 32 * BLOCK
    rows_in_tile = 32_768

    def __init__(self, population: Population, risk: Risk, arrays: DeviceArrays) -> None:
        if not isinstance(risk.loss, dp.Logistic | dp.HuberHinge):
            raise InputError("a device fits dp.Logistic and dp.HuberHinge: drop --device")
        super().__init__(population, risk)
        xp = arrays.xp
        self.arrays = arrays
        self._start = arrays.put(self.start)
        self._cubic = None if self.third is None else arrays.put(self.third)
        self._rows = arrays.put(self.signed)
        self._products = arrays.put(self.squares)
        self._upper_order = arrays.put(self._order)
        self._ridge = arrays.put(2 * risk.penalty * np.eye(self.dim))
        self._of_precision = {
            precision: (
                xp.astype(arrays.put(self.columns), precision, copy=False),
                xp.astype(self._rows, precision, copy=False),
            )
            for precision in (xp.float32, xp.float64)
        }

    def counts(self, seed: int, replicates: range) -> Any:
        """Return how often each record is drawn, one row per replicate, on the device."""
        return self.arrays.counts(self.population, seed, replicates)

    def fit(self, counts: Any, linear: Array) -> Batch:
        """Minimise the weighted risk plus linear·θ for every replicate; matrices at the minimum."""
        xp = self.arrays.xp
        tilt = self.arrays.put(linear / self.n)
        delta, chord = self._first_step(counts, self._known(self._start, tilt))
        for precision in (*[xp.float32] * (self.third is None), *[xp.float64] * batched.CHORDS):
            coef = self._start + delta
            gradient = self._gradient(counts, coef, precision) + self._known(coef, tilt)
            step = self._solve(chord, gradient)
            delta = delta - step
            longest = float(xp.max(xp.linalg.vector_norm(step, axis=-1)))
            if precision == xp.float64 and longest < batched.SMALL_STEP:
                break
        return self._certified(counts, linear, self._start + delta, tilt)

    def matrices(self, counts: Any, coef: Array) -> tuple[Array, Array]:
        """Return sum f'' x xᵀ and sum f'² x xᵀ of every replicate at its own coefficients."""
        _, curvature, score = self._exact(counts, self.arrays.put(coef))
        batch = Batch(coef, self.arrays.get(curvature), self.arrays.get(score), coef[:, 0])
        return batch.curvature, batch.score

    def _certified(self, counts: Any, linear: Array, coef: Any, tilt: Any) -> Batch:
        """Run pass C until every certificate holds, then the certified minimiser where none does."""
        put = self.arrays.put
        take = self.arrays.xp.take
        out = self._newton(counts, coef, tilt)
        for _ in range(batched.PASSES):
            left = np.flatnonzero(~(out.certificate <= TOLERANCE))
            if not len(left):
                return out
            keep = put(left)
            again = self._newton(
                take(counts, keep, axis=0), put(out.coef[left]), take(tilt, keep, axis=0)
            )
            replace_fits(out, left, again)
        for r in np.flatnonzero(~(out.certificate <= TOLERANCE)):
            drawn = counts[r : r + 1, :]
            one = self._alone(self.arrays.get(drawn)[0].astype(float), linear[r])
            gradient, curvature, score = map(self.arrays.get, self._exact(drawn, put(one)))
            size = np.linalg.norm(gradient + self._known(one, linear[r : r + 1] / self.n), axis=-1)
            replace_fits(out, np.array([r]), Batch(one, curvature, score, size))
        return out

    def _newton(self, counts: Any, coef: Any, tilt: Any) -> Batch:
        """Pass C: one exact step and the certificate at the point it returns."""
        xp = self.arrays.xp
        norm = xp.linalg.vector_norm
        gradient, curvature, score = self._exact(counts, coef)
        gradient = gradient + self._known(coef, tilt)
        size = norm(gradient, axis=-1)
        step = self._solve(self._square(curvature / self.n), gradient)
        if self.third is not None:
            rounding = 1e-15 * (
                1 + norm(tilt, axis=-1) + 2 * self.risk.penalty * norm(coef, axis=-1)
            )
            size = self.loss.curvature_lipschitz / 2 * norm(step, axis=-1) ** 2 + rounding
        else:
            step = step * xp.astype(size > TOLERANCE, step.dtype)[:, None]
        return Batch(*(self.arrays.get(x) for x in (coef - step, curvature, score, size)))

    def _first_step(self, counts: Any, known: Any) -> tuple[Any, Any]:
        """Return the step from the common start and the Hessian at its end.

        It is a Newton step on the quadratic model, then on the cubic one.
        """
        xp = self.arrays.xp
        gradient, half = self._at_start(counts)
        gradient = gradient + known
        hessian = self._square(half)
        delta = -self._solve(hessian, gradient)
        if self._cubic is None:
            return delta, hessian
        for _ in range(3):
            change = xp.reshape(xp.matmul(delta, self._cubic), hessian.shape)
            slope = gradient + xp.matmul(hessian + change / 2, delta[..., None])[..., 0]
            delta = delta - self._solve(hessian + change, slope)
        return delta, hessian + xp.reshape(xp.matmul(delta, self._cubic), hessian.shape)

    def _at_start(self, counts: Any) -> tuple[Any, Any]:
        """Pass A, in single precision: gradient and Hessian of the loss at the common start."""
        xp = self.arrays.xp
        total: Any = 0.0
        for tile in self._tiles():
            z = xp.matmul(self._rows[tile, :], self._start)
            slope = self._slope(z)
            gradient = slope[:, None] * self._rows[tile, :]
            hessian = self._curvature(z, slope)[:, None] * self._products[tile, :]
            features = xp.astype(xp.concat([gradient, hessian], axis=1), xp.float32)
            part = xp.matmul(xp.astype(counts[:, tile], xp.float32), features)
            total = total + xp.astype(part, xp.float64)
        return total[:, : self.dim] / self.n, total[:, self.dim :] / self.n

    def _gradient(self, counts: Any, coef: Any, precision: Any) -> Any:
        """Pass B: gradient of the loss."""
        xp = self.arrays.xp
        total: Any = 0.0
        coef = xp.astype(coef, precision)
        columns, rows = self._of_precision[precision]
        for tile in self._tiles():
            slope = self._slope(xp.matmul(coef, columns[:, tile]))
            weighted = xp.astype(counts[:, tile], precision) * slope
            total = total + xp.astype(xp.matmul(weighted, rows[tile, :]), xp.float64)
        return total / self.n

    def _exact(self, counts: Any, coef: Any) -> tuple[Any, Any, Any]:
        """Pass C: mean gradient of the loss, sums of f'' P and f'² P."""
        xp = self.arrays.xp
        gradient: Any = 0.0
        curvature: Any = 0.0
        score: Any = 0.0
        columns, rows = self._of_precision[xp.float64]
        for tile in self._tiles():
            z = xp.matmul(coef, columns[:, tile])
            slope = self._slope(z)
            weights = xp.astype(counts[:, tile], xp.float64)
            weighted = weights * slope
            products = self._products[tile, :]
            gradient = gradient + xp.matmul(weighted, rows[tile, :])
            part = xp.matmul(weighted * slope, products)
            score = score + part
            if isinstance(self.loss, dp.Logistic):  # f'' = -f' - f'²: its sum needs no new weights
                curvature = curvature - xp.matmul(weighted, products) - part
            else:
                second = self._curvature(z, slope)
                curvature = curvature + xp.matmul(weights * second, products)
        return gradient / self.n, curvature, score

    def _slope(self, z: Any) -> Any:
        xp = self.arrays.xp
        if isinstance(self.loss, dp.HuberHinge):
            knee = self.loss.knee
            return -xp.clip((1 + knee - z) / (2 * knee), 0.0, 1.0)
        return xp.sigmoid(z) - 1 if hasattr(xp, "sigmoid") else (xp.tanh(z / 2) - 1) / 2

    def _curvature(self, z: Any, slope: Any) -> Any:
        xp = self.arrays.xp
        if isinstance(self.loss, dp.HuberHinge):
            knee = self.loss.knee
            return xp.astype(xp.abs(1 - z) <= knee, z.dtype) / (2 * knee)
        return -slope * (1 + slope)

    def _square(self, half: Any) -> Any:
        """Return the stack of Hessians from half-vectors, the penalty added."""
        xp = self.arrays.xp
        full = xp.take(half, self._upper_order, axis=1)
        return xp.reshape(full, (half.shape[0], self.dim, self.dim)) + self._ridge

    def _solve(self, matrices: Any, vectors: Any) -> Any:
        return self.arrays.xp.linalg.solve(matrices, vectors[..., None])[..., 0]
