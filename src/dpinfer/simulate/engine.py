"""Thousands of weighted fits of one data set at once, each certified.

| symbol | meaning                                                    | name in code |
| ------ | ---------------------------------------------------------- | ------------ |
| a_i    | y_i x_i for a loss of the margin, -x_i for the residual    | `signed`     |
| o_i    | 0 for the margin, y_i for the residual: z = o + a·θ        | `_offset`    |
| P_i    | upper triangle of x_i x_iᵀ                                 | `squares`    |
| θ_0    | minimiser on the whole data set, the common start          | `start`      |
| C      | bootstrap counts, one replicate a row                      | `counts`     |

Three passes over tiles of rows × replicates, all on the scale of means:

    A  one product C [f'(z_0) a | f''(z_0) P] gives every replicate's gradient and Hessian at θ_0: a
    Newton step,
       bent by the common third derivative T where the curvature is smooth
    B  chord steps with the Hessian of A until they are small; without T the first is in single
    precision C  gradient, Hessian and score second moment in double precision, Newton step,
    certificate; repeated if it fails

The certificate bounds the gradient norm at the returned point.  Where the curvature is Lipschitz
(logistic, smoothed quantile) Taylor's remainder gives it after the step; else the gradient is
measured at the point itself.  What still fails after `PASSES` is handed to the certified minimiser.
Nothing here is private.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Logistic, kind, line
from dpinfer.maths.minimise import minimum
from dpinfer.maths.risk import Risk
from dpinfer.simulate.population import Population

TOLERANCE = 1e-10
"""Certified gradient norm of the mean objective."""

PASSES = 8
_CHORDS = 2
_SMALL_STEP = 1e-3


@dataclass(frozen=True)
class Batch:
    """Fits of a block of replicates, as numpy arrays; the two sums over records are kept as upper
    triangles.
    """

    coef: Array
    half_curvature: Array
    half_score: Array
    certificate: Array

    @property
    def curvature(self) -> Array:
        """sum f'' x xᵀ, a stack of matrices."""
        matrices: Array = _full(self.half_curvature, self.coef.shape[1])
        return matrices

    @property
    def score(self) -> Array:
        """sum f'² x xᵀ, a stack of matrices."""
        matrices: Array = _full(self.half_score, self.coef.shape[1])
        return matrices


class Engine:
    """Weighted fits of one data set; ``xp`` is numpy or an array-API namespace, ``device`` one of
    its devices.

    Memory: 8 (d(d+1)/2 + 4 d) bytes a record, plus a tile, plus the counts (one byte a record and
    replicate).
    """

    def __init__(
        self, population: Population, risk: Risk, xp: Any = np, device: Any = None
    ) -> None:
        self.n, self.dim = risk.n, population.rows.shape[1]
        self.risk, self.xp, self.device = risk, xp, device
        self.loss: Any = risk.loss
        sign, offset = line(risk.loss, population.labels)
        signed = np.ascontiguousarray(population.rows * np.reshape(sign, (-1, 1)))
        self._host, self._host_offset, self._population = signed, offset, population
        self.start = self._fit_one(population.weights, np.zeros(self.dim))
        self.signed, self.columns = self._put(signed), self._put(np.ascontiguousarray(signed.T))
        self._offset = None if kind(risk.loss) == "margin" else self._put(offset)
        self._tables = {
            precision: (
                xp.astype(self.columns, precision, copy=False),
                xp.astype(self.signed, precision, copy=False),
            )
            for precision in (xp.float32, xp.float64)
        }
        self.upper = np.triu_indices(self.dim)
        self._order = self._put(_full(np.arange(len(self.upper[0])), self.dim).ravel())
        self.squares = self._put(_squares(signed, self.upper))
        self.third = self._third(population.weights)
        self.rows_in_tile = 512 if xp is np else 32_768

    def fit(self, counts: Any, linear: Array) -> Batch:
        """Minimise the weighted risk plus linear·θ for every replicate; matrices at the minimum."""
        xp = self.xp
        tilt = self._put(linear / self.n)
        base = self._put(self.start)
        delta, chord = self._first_step(counts, self._known(base, tilt))
        for precision in (*[xp.float32] * (self.third is None), *[xp.float64] * _CHORDS):
            gradient = self._gradient(counts, base + delta, precision) + self._known(
                base + delta, tilt
            )
            step = self._solve(chord, gradient)
            delta = delta - step
            if (
                precision == xp.float64
                and float(xp.max(xp.linalg.vector_norm(step, axis=-1))) < _SMALL_STEP
            ):
                break
        return self._certified(counts, linear, base + delta, tilt)

    def matrices(self, counts: Any, coef: Array) -> tuple[Array, Array]:
        """sum f'' x xᵀ and sum f'² x xᵀ of every replicate at its own coefficients."""
        _, curvature, score = self._exact(counts, self._put(coef))
        return _full(self._get(curvature), self.dim), _full(self._get(score), self.dim)

    def _certified(self, counts: Any, linear: Array, coef: Any, tilt: Any) -> Batch:
        """Pass C for the replicates that are not done yet, then the certified minimiser for what is
        left.
        """
        out = self._newton(counts, coef, tilt)
        for _ in range(PASSES):
            left = np.flatnonzero(~(out.certificate <= TOLERANCE))
            if not len(left):
                return out
            keep = self._put(left)
            some = (
                self.xp.take(counts, keep, axis=0),
                self._put(out.coef[left]),
                self.xp.take(tilt, keep, axis=0),
            )
            _replace(out, left, self._newton(*some))
        for r in np.flatnonzero(~(out.certificate <= TOLERANCE)):
            alone = counts[r : r + 1, :]
            one = self._alone(self._get(alone)[0].astype(float), linear[r])
            gradient, curvature, score = self._exact(alone, self._put(one))
            size = np.linalg.norm(
                self._get(gradient + self._known(self._put(one), tilt[r : r + 1, :])), axis=-1
            )
            _replace(out, np.array([r]), Batch(one, self._get(curvature), self._get(score), size))
        return out

    def _alone(self, weights: Array, linear: Array) -> Array:
        """One replicate by the certified minimiser; NaN if it has no single minimum, so that it is
        not reported.
        """
        try:
            return self._fit_one(weights, linear)[None]
        except InputError:
            return np.full((1, self.dim), np.nan)

    def _newton(self, counts: Any, coef: Any, tilt: Any) -> Batch:
        """Pass C: one exact step and the certificate at the point it returns."""
        norm = self.xp.linalg.vector_norm
        gradient, curvature, score = self._exact(counts, coef)
        gradient = gradient + self._known(coef, tilt)
        size = norm(gradient, axis=-1)
        step = self._solve(self._square(curvature / self.n), gradient)
        lipschitz = getattr(self.loss, "curvature_lipschitz", None)
        if lipschitz is not None:
            rounding = 1e-15 * (
                1 + norm(tilt, axis=-1) + 2 * self.risk.penalty * norm(coef, axis=-1)
            )
            size = lipschitz / 2 * norm(step, axis=-1) ** 2 + rounding
        else:
            step = step * self.xp.astype(size > TOLERANCE, step.dtype)[:, None]
        return Batch(*(self._get(x) for x in (coef - step, curvature, score, size)))

    def _first_step(self, counts: Any, known: Any) -> tuple[Any, Any]:
        """The step from the common start and the Hessian at its end: Newton on the quadratic, then
        the cubic, model.
        """
        gradient, hessian = self._at_start(counts)
        gradient, hessian = gradient + known, self._square(hessian)
        delta = -self._solve(hessian, gradient)
        if self.third is None:
            return delta, hessian
        for _ in range(3):
            bend = self.xp.reshape(self.xp.matmul(delta, self.third), hessian.shape)
            slope = gradient + self.xp.matmul(hessian + bend / 2, delta[..., None])[..., 0]
            delta = delta - self._solve(hessian + bend, slope)
        return delta, hessian + self.xp.reshape(self.xp.matmul(delta, self.third), hessian.shape)

    def _third(self, weights: Array) -> Any:
        """T, the mean third derivative of the loss, as a d × d² matrix; by a central difference of
        the curvature.

        None where the loss does not declare its curvature to be Lipschitz.
        """
        if not hasattr(self.loss, "curvature_lipschitz"):
            return None
        z, h = self._host @ self.start + self._host_offset, 1e-4
        third = weights * (self.loss.curvature(z + h) - self.loss.curvature(z - h)) / (2 * h)
        half = self._put((self._host * third[:, None] / self.n).T @ self._get(self.squares))
        return self.xp.reshape(self.xp.take(half, self._order, axis=1), (self.dim, self.dim**2))

    def _at_start(self, counts: Any) -> tuple[Any, Any]:
        """Pass A, in single precision: gradient and Hessian of the loss at the common start."""
        xp, total = self.xp, cast(Any, 0.0)
        start = self._put(self.start)
        for tile in self._tiles():
            z = self._z(xp.matmul(self.signed[tile, :], start), tile)
            gradient = self.loss.slope(z)[:, None] * self.signed[tile, :]
            hessian = self.loss.curvature(z)[:, None] * self.squares[tile, :]
            features = xp.astype(xp.concat([gradient, hessian], axis=1), xp.float32)
            total = total + xp.astype(
                xp.matmul(xp.astype(counts[:, tile], xp.float32), features), xp.float64
            )
        return total[:, : self.dim] / self.n, total[:, self.dim :] / self.n

    def _gradient(self, counts: Any, coef: Any, precision: Any) -> Any:
        """Pass B: gradient of the loss."""
        xp, total = self.xp, 0.0
        coef, (columns, signed) = xp.astype(coef, precision), self._tables[precision]
        for tile in self._tiles():
            slope = self.loss.slope(self._z(xp.matmul(coef, columns[:, tile]), tile))
            weighted = xp.astype(counts[:, tile], precision) * slope
            total = total + xp.astype(xp.matmul(weighted, signed[tile, :]), xp.float64)
        return total / self.n

    def _exact(self, counts: Any, coef: Any) -> tuple[Any, Any, Any]:
        """Pass C: mean gradient of the loss, sums of f'' P and f'² P."""
        xp = self.xp
        gradient = curvature = score = 0.0
        for tile in self._tiles():
            z = self._z(xp.matmul(coef, self.columns[:, tile]), tile)
            slope, weights = self.loss.slope(z), xp.astype(counts[:, tile], xp.float64)
            weighted, squares = weights * slope, self.squares[tile, :]
            gradient = gradient + xp.matmul(weighted, self.signed[tile, :])
            part = xp.matmul(weighted * slope, squares)
            score = score + part
            if type(self.loss) is Logistic:  # f'' = -f' - f'², so its sum needs no new weights
                curvature = curvature - xp.matmul(weighted, squares) - part
            else:
                curvature = curvature + xp.matmul(weights * self.loss.curvature(z), squares)
        return gradient / self.n, curvature, score

    def _z(self, linear: Any, tile: slice) -> Any:
        """Margins or residuals of a tile from a·θ, in its precision."""
        if self._offset is None:
            return linear
        return linear + self.xp.astype(self._offset[tile], linear.dtype, copy=False)

    def _known(self, coef: Any, tilt: Any) -> Any:
        """Gradient of the penalty and of the linear term."""
        return 2 * self.risk.penalty * coef + tilt

    def _square(self, half: Any) -> Any:
        """Stack of Hessians from half-vectors, the penalty added."""
        full = self.xp.reshape(
            self.xp.take(half, self._order, axis=1), (half.shape[0], self.dim, self.dim)
        )
        return full + 2 * self.risk.penalty * self._put(np.eye(self.dim))

    def _solve(self, matrices: Any, vectors: Any) -> Any:
        try:
            return self.xp.linalg.solve(matrices, vectors[..., None])[..., 0]
        except (
            np.linalg.LinAlgError
        ):  # a replicate without curvature: no step for it, and so no certificate
            tiny = 1e-8 * np.eye(self.dim)
            return np.linalg.solve(matrices + tiny, vectors[..., None])[..., 0]

    def unpenalised(self) -> Array:
        """The minimiser on the population without a penalty."""
        return self._fit_one(
            self._population.weights, np.zeros(self.dim), replace(self.risk, ridge=0.0)
        )

    def _fit_one(self, weights: Array, linear: Array, risk: Risk | None = None) -> Array:
        """The product's certified minimiser on weighted rows."""
        return minimum(risk or self.risk, self._population.weighted(weights).total, linear).coef

    def _tiles(self) -> list[slice]:
        records = len(self._host)
        return [
            slice(r, min(r + self.rows_in_tile, records))
            for r in range(0, records, self.rows_in_tile)
        ]

    def _put(self, array: Any) -> Any:
        return array if self.xp is np else self.xp.asarray(array, device=self.device)

    def _get(self, array: Any) -> Array:
        return np.asarray(array.cpu() if hasattr(array, "cpu") else array)


def _full(half: Any, dim: int) -> Any:
    """Symmetric matrices from their upper triangles."""
    order = np.empty((dim, dim), dtype=np.int64)
    upper = np.triu_indices(dim)
    order[upper] = order.T[upper] = np.arange(len(upper[0]))
    return half[..., order]


def _replace(batch: Batch, rows: Any, part: Batch) -> None:
    """Write the fits of some replicates into a batch."""
    for name in ("coef", "half_curvature", "half_score", "certificate"):
        getattr(batch, name)[rows] = getattr(part, name)


def _squares(signed: Array, upper: tuple[Any, Any]) -> Array:
    """Half-vectorised outer products, block by block so that no second copy of the table is made."""
    squares = np.empty((len(signed), len(upper[0])))
    for r in range(0, len(signed), 8192):
        block = signed[r : r + 8192]
        np.multiply(block[:, upper[0]], block[:, upper[1]], out=squares[r : r + 8192])
    return squares
