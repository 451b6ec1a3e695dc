"""Thousands of penalised fits of one data set at once.  NOT PRIVATE.

`batched_trial` is the only way in: it says which recipes can be fitted in batches.  The certificate
of every fit is checked.

| symbol | meaning                                                    | name in code |
| ------ | ---------------------------------------------------------- | ------------ |
| a_i    | y_i x_i for a loss of the margin, -x_i for the residual    | `signed`     |
| o_i    | 0 for the margin, y_i for the residual: z = o + a·θ        | `_offset`    |
| P_i    | upper triangle of x_i x_iᵀ                                 | `squares`    |
| θ_0    | minimiser on the whole data set, the common start          | `start`      |
| C      | bootstrap counts, one row per replicate                    | `counts`     |

Three passes over tiles of rows × replicates, all on the scale of means:

    A  one product C [f'(z_0) a | f''(z_0) P] gives every replicate's gradient and Hessian at θ_0:
       a Newton step, bent by the common third derivative T where the curvature is smooth
    B  chord steps with the Hessian of A until they are small; without T the first is in single
       precision
    C  gradient, Hessian and score second moment in double precision, Newton step, certificate;
       repeated if it fails

The certificate bounds the gradient norm at the returned point.  Where the curvature is Lipschitz
(logistic, smoothed quantile) Taylor's remainder gives it after the step; else the gradient is
measured at the point itself.  What still fails after `PASSES` is handed to the certified minimiser.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.fit.penalised import (
    Aimed,
    Matrices,
    Penalised,
    aim,
    moved_by_hessian,
    noise_map,
    paper,
    tight,
)
from dpinfer.fit.penalised_plan import ObjectivePerturbation, Plan, hessian_noise
from dpinfer.fit.recipe import Recipe
from dpinfer.inference.error_laws import half_width, sandwich, spread, total_covariance, widened
from dpinfer.mechanisms.losses import Logistic, kind, sign_and_offset
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import SLACK
from dpinfer.numerics.arrays import Array, solved
from dpinfer.numerics.noise_laws import NO_NOISE, Law
from dpinfer.privacy.budget import NoPrivacy, Share
from dpinfer.rows.workers import one_thread
from dpinfer.simulate.estimands import estimand_of
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import Tally, fingerprint, setting_in_words

Precision = type[np.float32 | np.float64]

BLOCK = 128
"""Replicates that share a stream of noise; fixed, so that no other size changes a study."""

GIVEN_UP = 1e-6
"""A replicate whose gradient norm could not be brought below this is not reported."""

SINGULAR = 1e-12
"""Without noise and penalty, a replicate whose mean Hessian has an eigenvalue below this is not
identified.
"""

TOLERANCE = 1e-10
"""Certified gradient norm of the mean objective."""

PASSES = 8
"""Exact steps after which the certified minimiser takes over."""

CHORDS = 2
"""The largest number of chord steps in double precision."""

SMALL_STEP = 1e-3
"""The length of a chord step below which no further one is made."""


def batched_trial(recipe: Recipe, population: Population, seed: int) -> "BatchedTrial | None":
    """Return the trial of a recipe whose fits can be made in batches, else None.

    These are fits with a penalty whose rows are records of equal weight.
    """
    if not (isinstance(recipe, Penalised) and population.equally_counted):
        return None
    np.empty(31 * 2**20, dtype=np.uint8)  # glibc then stops returning a tile to the kernel
    with one_thread():
        engine = Engine(population, recipe.risk(population.n))
        return BatchedTrial(recipe, engine, population, seed)


@dataclass(frozen=True)
class BatchedTrial:
    """A penalised recipe, whose fits are so alike that an engine makes many at once.

    Draw, fit, add the plan's noise, form the intervals: the formulas are the product's.
    """

    recipe: Penalised
    engine: "Engine"
    population: Population
    seed: int
    plan: Plan = field(init=False)
    noise: Law = field(init=False)
    back: Array = field(init=False)
    target: Array = field(init=False)

    def __post_init__(self) -> None:
        """Set ``target``, which the intervals should cover, to the minimiser on the population."""
        risk = self.engine.risk
        plan = self.recipe.plan.calibrated(risk)
        minimiser = self.engine.start
        if self.recipe.target == "unpenalised" and risk.ridge > 0:
            minimiser = self.engine.unpenalised()
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "noise", plan.coefficients(risk).noise(risk))
        object.__setattr__(self, "back", self.recipe.design.mapping)
        object.__setattr__(self, "target", self._in_units(minimiser))

    @property
    def batch(self) -> int:
        """Replicates that are run together."""
        return self.engine.batch

    def describe(self) -> str:
        """Describe the setting."""
        return setting_in_words(self.recipe, self.population)

    def fingerprint(self) -> bytes:
        """Return a digest of the data and the setting."""
        return fingerprint(self.population, estimand_of(self.recipe, self.population), self.seed)

    def estimates(self, replicates: range) -> Array:
        """Return the released coefficients alone."""
        counts = self._counts(replicates)
        b = self._draw(self.noise, 0, replicates, self.engine.dim)
        if isinstance(self.plan.mechanism, ObjectivePerturbation):
            return self._in_units(self.engine.fit(counts, b).coef)
        return self._in_units(self.engine.fit(counts, 0 * b).coef + b)

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Compare the intervals of one batch with the target."""
        coef, matrices, plain = self._release(replicates, nonprivate)
        first = self.plan.matrices(self.engine.risk)[0]
        entry_noise = hessian_noise(self.plan.recipe, first, self.engine.risk, self.engine.dim)
        aimed = self._aim(coef, matrices, entry_noise)
        half = self._half(aimed, self.noise, level)
        error = np.abs(self._in_units(aimed.coef) - self.target)
        finite = np.isfinite(half) & np.isfinite(error)
        length = np.where(finite, 2 * half, 0.0)
        covered = (finite & (error <= half)).sum(axis=0).astype(float)
        reported = finite.sum(axis=0).astype(float)
        nonprivate_length = length.sum(axis=0)
        if plain is not None:
            nonprivate_length = self._plain_length(plain, level, finite)
        return Tally(
            replicates=len(replicates),
            covered=covered,
            stated=covered,
            length=length.sum(axis=0),
            length_squared=(length**2).sum(axis=0),
            nonprivate=nonprivate_length,
            reported=reported,
            answered=reported,
        )

    def _in_units(self, coef: Array) -> Array:
        return np.asarray(coef @ self.back.T + self.recipe.design.shift)

    def _release(
        self, replicates: range, nonprivate: bool
    ) -> tuple[Array, Matrices, "Batch | None"]:
        """Release θ~, H~ and Σ~ of every replicate, NaN where there is no fit; and fit without
        noise, if wanted.
        """
        engine = self.engine
        counts = self._counts(replicates)
        b = self._draw(self.noise, 0, replicates, engine.dim)
        compared = nonprivate and self.noise != NO_NOISE
        plain = None
        if isinstance(self.plan.mechanism, ObjectivePerturbation):
            batch = engine.fit(counts, b)
            coef = batch.coef
            curvature = batch.curvature
            score = batch.score
            if compared:
                plain = engine.fit(counts, 0 * b)
        else:
            batch = engine.fit(counts, 0 * b)
            coef = batch.coef + b
            curvature, score = engine.matrices(counts, coef)
            if compared:
                plain = batch
        fitted = batch.certificate <= GIVEN_UP
        if isinstance(self.plan.hessian, NoPrivacy):
            smallest = np.linalg.eigvalsh(np.nan_to_num(curvature))[:, 0]
            fitted &= smallest + engine.risk.ridge > SINGULAR * engine.n
            curvature = np.where(fitted[:, None, None], curvature, np.nan)
            score = np.where(fitted[:, None, None], score, np.nan)
            return coef, paper(engine.risk, coef, curvature, score, noisy=False), plain
        matrices = self._with_noise(coef, curvature, score, replicates)
        return np.where(fitted[:, None], coef, np.nan), matrices, plain

    def _with_noise(
        self, coef: Array, curvature: Array, score: Array, replicates: range
    ) -> Matrices:
        """Add the noise of their shares to the matrices, scaled by the product's bounds at the
        released coefficients.
        """
        risk = self.engine.risk
        d = self.engine.dim
        if self.plan.recipe == "tight":
            law = self.plan.matrices(risk)[0].share.noise(1 + SLACK)
            bounds = np.array([risk.stacked_sum(theta).bound for theta in coef])[:, None]
            noise = bounds * self._draw(law, 1, replicates, d * (d + 1))
            return tight(risk, coef, risk.stack(curvature, score) + noise, law, bounds)
        bounds = np.array([risk.score_sum(theta).bound for theta in coef])[:, None, None]
        curvature_noise = risk.curvature_sum(coef[0]).bound * self._matrix_noise(
            self.plan.hessian, 1, replicates, d
        )
        score_noise = bounds * self._matrix_noise(self.plan.covariance, 2, replicates, d)
        return paper(risk, coef, curvature + curvature_noise, score + score_noise, noisy=True)

    def _aim(self, coef: Array, matrices: Matrices, entry_noise: float) -> Aimed:
        return aim(self.recipe.target, self.engine.risk, coef, matrices, entry_noise)

    def _half(self, aimed: Aimed, noise: Law, level: float) -> Array:
        n = self.engine.n
        back = self.back
        matrices = aimed.matrices
        sampling = sandwich(matrices.hessian, matrices.score_cov, n)
        mapping = noise_map(self.plan.mechanism, matrices.hessian, n, aimed.stepped)
        normal = sampling if aimed.step_noise is None else sampling + aimed.step_noise
        half = half_width(back @ normal @ back.T, back @ mapping, noise, level)
        if not np.any(matrices.hessian_noise):
            return half
        U = total_covariance(normal, mapping, noise)
        p = back @ np.linalg.inv(matrices.hessian)
        q = back @ moved_by_hessian(self.plan.mechanism, sampling, U)
        variance = np.einsum("ij,...jk,ik->...i", back, U, back)
        relative = spread(p, q, variance, matrices.hessian_noise, matrices.score_noise / n)
        return widened(half, relative, level)

    def _plain_length(self, plain: "Batch", level: float, reported: npt.NDArray[np.bool_]) -> Array:
        """Sum lengths without noise over the replicates whose private interval is reported."""
        matrices = paper(self.engine.risk, plain.coef, plain.curvature, plain.score, noisy=False)
        half = self._half(self._aim(plain.coef, matrices, 0.0), NO_NOISE, level)
        return np.asarray(np.where(reported, 2 * half, 0.0).sum(axis=0))

    def _matrix_noise(self, share: Share, stream: int, replicates: range, d: int) -> Array:
        """Draw the noise of a matrix whose bound is 1; noise is proportional to the bound."""
        return self._draw(share.noise(1 + SLACK), stream, replicates, d * d).reshape(-1, d, d)

    def _counts(self, replicates: range) -> Any:
        return self.engine.counts(self.seed, replicates)

    def _draw(self, law: Law, stream: int, replicates: range, dim: int) -> Array:
        """Draw the noise of these replicates: each block has a stream of its own for each release."""
        blocks = range(replicates.start // BLOCK, (replicates.stop - 1) // BLOCK + 1)
        drawn = [
            law.sample(np.random.default_rng([self.seed, stream, k]), (BLOCK, dim)) for k in blocks
        ]
        offset = replicates.start - blocks.start * BLOCK
        return np.concatenate(drawn)[offset : offset + len(replicates)]


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
    """Weighted fits of one data set.

    Memory: 8 (d(d+1)/2 + 4 d) bytes per record, plus a tile, plus the counts (one byte per record
    and replicate).
    """

    batch = BLOCK
    """Replicates that are fitted together."""

    rows_in_tile = 512
    """A tile of this many rows and `BLOCK` replicates stays in the cache."""

    def __init__(self, population: Population, risk: Risk) -> None:
        self.population = population
        self.risk = risk
        self.n = risk.n
        self.dim = population.rows.shape[1]
        self.loss: Any = risk.loss
        sign, offset = sign_and_offset(risk.loss, population.labels)
        self.signed = np.ascontiguousarray(population.rows * np.reshape(sign, (-1, 1)))
        self.columns = np.ascontiguousarray(self.signed.T)
        self._offset = None if kind(risk.loss) == "margin" else np.asarray(offset)
        self.start = self._fit_one(population.weights, np.zeros(self.dim))
        self._tables: dict[Precision, tuple[Any, Any]] = {
            precision: (
                self.columns.astype(precision, copy=False),
                self.signed.astype(precision, copy=False),
            )
            for precision in (np.float32, np.float64)
        }
        self.upper = np.triu_indices(self.dim)
        self._order = _full(np.arange(len(self.upper[0])), self.dim).ravel()
        self.squares = _squares(self.signed, self.upper)
        self.third = self._third(population.weights)

    def counts(self, seed: int, replicates: range) -> Any:
        """Return how often each record is drawn, one row per replicate."""
        return self.population.counts(seed, replicates)

    def fit(self, counts: Any, linear: Array) -> Batch:
        """Minimise the weighted risk plus linear·θ for every replicate; matrices at the minimum."""
        tilt = linear / self.n
        delta, chord = self._first_step(counts, self._known(self.start, tilt))
        precisions: list[Precision] = [*[np.float32] * (self.third is None), *[np.float64] * CHORDS]
        for precision in precisions:
            coef = self.start + delta
            gradient = self._gradient(counts, coef, precision) + self._known(coef, tilt)
            step = self._solve(chord, gradient)
            delta = delta - step
            longest = float(np.max(np.linalg.vector_norm(step, axis=-1)))
            if precision is np.float64 and longest < SMALL_STEP:
                break
        return self._certified(counts, linear, self.start + delta, tilt)

    def matrices(self, counts: Any, coef: Array) -> tuple[Array, Array]:
        """Return sum f'' x xᵀ and sum f'² x xᵀ of every replicate at its own coefficients."""
        _, curvature, score = self._exact(counts, coef)
        return _full(curvature, self.dim), _full(score, self.dim)

    def _certified(self, counts: Any, linear: Array, coef: Array, tilt: Array) -> Batch:
        """Run pass C until every certificate holds, then the certified minimiser where none does."""
        out = self._newton(counts, coef, tilt)
        for _ in range(PASSES):
            left = np.flatnonzero(~(out.certificate <= TOLERANCE))
            if not len(left):
                return out
            replace_fits(out, left, self._newton(counts[left], out.coef[left], tilt[left]))
        for r in np.flatnonzero(~(out.certificate <= TOLERANCE)):
            one = self._alone(counts[r].astype(float), linear[r])
            gradient, curvature, score = self._exact(counts[r : r + 1], one)
            gradient = gradient + self._known(one, tilt[r : r + 1])
            size = np.linalg.norm(gradient, axis=-1)
            replace_fits(out, np.array([r]), Batch(one, curvature, score, size))
        return out

    def _alone(self, weights: Array, linear: Array) -> Array:
        """Return one replicate's fit by the certified minimiser.

        It is NaN where there is no single minimum: that replicate is not reported.
        """
        try:
            return self._fit_one(weights, linear)[None]
        except InputError:
            return np.full((1, self.dim), np.nan)

    def _newton(self, counts: Any, coef: Array, tilt: Array) -> Batch:
        """Take one exact step, and certify the point it returns (pass C)."""
        norm = np.linalg.vector_norm
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
            step = step * (size > TOLERANCE)[:, None]
        return Batch(coef - step, curvature, score, size)

    def _first_step(self, counts: Any, known: Array) -> tuple[Array, Array]:
        """Return the step from the common start and the Hessian at its end.

        It is a Newton step on the quadratic model, then on the cubic one.
        """
        gradient, half = self._at_start(counts)
        gradient = gradient + known
        hessian = self._square(half)
        delta = -self._solve(hessian, gradient)
        if self.third is None:
            return delta, hessian
        for _ in range(3):
            change = np.reshape(delta @ self.third, hessian.shape)
            slope = gradient + ((hessian + change / 2) @ delta[..., None])[..., 0]
            delta = delta - self._solve(hessian + change, slope)
        return delta, hessian + np.reshape(delta @ self.third, hessian.shape)

    def _third(self, weights: Array) -> Array | None:
        """Return T, the mean third derivative of the loss, as a d × d² matrix; by a central
        difference of the curvature.

        None where the loss does not declare its curvature to be Lipschitz.
        """
        if not hasattr(self.loss, "curvature_lipschitz"):
            return None
        z = self.signed @ self.start + (0.0 if self._offset is None else self._offset)
        h = 1e-4
        third = weights * (self.loss.curvature(z + h) - self.loss.curvature(z - h)) / (2 * h)
        half = (self.signed * third[:, None] / self.n).T @ self.squares
        return np.reshape(np.take(half, self._order, axis=1), (self.dim, self.dim**2))

    def _at_start(self, counts: Any) -> tuple[Array, Array]:
        """Return gradient and Hessian of the loss at the common start, in single precision (pass
        A).
        """
        total: Any = 0.0
        for tile in self._tiles():
            z = self._z(self.signed[tile] @ self.start, tile)
            gradient = self.loss.slope(z)[:, None] * self.signed[tile]
            hessian = self.loss.curvature(z)[:, None] * self.squares[tile]
            features = np.concat([gradient, hessian], axis=1).astype(np.float32)
            total = total + (counts[:, tile].astype(np.float32) @ features).astype(np.float64)
        return total[:, : self.dim] / self.n, total[:, self.dim :] / self.n

    def _gradient(self, counts: Any, coef: Array, precision: Precision) -> Array:
        """Return the gradient of the loss (pass B)."""
        total: Any = 0.0
        coef = coef.astype(precision)
        columns, signed = self._tables[precision]
        for tile in self._tiles():
            slope = self.loss.slope(self._z(coef @ columns[:, tile], tile))
            weighted = counts[:, tile].astype(precision) * slope
            total = total + (weighted @ signed[tile]).astype(np.float64)
        return np.asarray(total / self.n)

    def _exact(self, counts: Any, coef: Array) -> tuple[Array, Array, Array]:
        """Return the mean gradient of the loss, and the sums of f'' P and f'² P (pass C)."""
        gradient: Any = 0.0
        curvature: Any = 0.0
        score: Any = 0.0
        for tile in self._tiles():
            z = self._z(coef @ self.columns[:, tile], tile)
            slope = self.loss.slope(z)
            weights = counts[:, tile].astype(np.float64)
            weighted = weights * slope
            squares = self.squares[tile]
            gradient = gradient + weighted @ self.signed[tile]
            part = (weighted * slope) @ squares
            score = score + part
            if type(self.loss) is Logistic:  # f'' = -f' - f'², so its sum needs no new weights
                curvature = curvature - weighted @ squares - part
            else:
                curvature = curvature + (weights * self.loss.curvature(z)) @ squares
        return gradient / self.n, curvature, score

    def _z(self, linear: Array, tile: slice) -> Array:
        """Return the margins or residuals of a tile from a·θ, in its precision."""
        if self._offset is None:
            return linear
        return linear + self._offset[tile].astype(linear.dtype, copy=False)

    def _known(self, coef: Any, tilt: Any) -> Any:
        """Return the gradient of the penalty and of the linear term."""
        return 2 * self.risk.penalty * coef + tilt

    def _square(self, half: Array) -> Array:
        """Return the stack of Hessians from half-vectors, the penalty added."""
        full = np.reshape(np.take(half, self._order, axis=1), (len(half), self.dim, self.dim))
        return np.asarray(full + 2 * self.risk.penalty * np.eye(self.dim))

    def _solve(self, matrices: Array, vectors: Array) -> Array:
        try:
            return solved(matrices, vectors[..., None])[..., 0]
        except np.linalg.LinAlgError:
            # A replicate without curvature: no step for it, and so no certificate.
            tiny = 1e-8 * np.eye(self.dim)
            return solved(matrices + tiny, vectors[..., None])[..., 0]

    def unpenalised(self) -> Array:
        """Return the minimiser on the population without a penalty."""
        risk = replace(self.risk, ridge=0.0)
        return self._fit_one(self.population.weights, np.zeros(self.dim), risk)

    def _fit_one(self, weights: Array, linear: Array, risk: Risk | None = None) -> Array:
        """Return the product's certified minimiser on weighted rows."""
        return minimum(risk or self.risk, self.population.weighted(weights).total, linear).coef

    def _tiles(self) -> list[slice]:
        records = len(self.population.rows)
        return [
            slice(r, min(r + self.rows_in_tile, records))
            for r in range(0, records, self.rows_in_tile)
        ]


def _full(half: Any, dim: int) -> Any:
    """Return symmetric matrices from their upper triangles."""
    order = np.empty((dim, dim), dtype=np.int64)
    upper = np.triu_indices(dim)
    order[upper] = order.T[upper] = np.arange(len(upper[0]))
    return half[..., order]


def replace_fits(batch: Batch, rows: Any, part: Batch) -> None:
    """Write the fits of the replicates ``rows`` into a batch."""
    for name in ("coef", "half_curvature", "half_score", "certificate"):
        getattr(batch, name)[rows] = getattr(part, name)


def _squares(signed: Array, upper: tuple[Any, Any]) -> Array:
    """Return half-vectorised outer products, block by block so that no second copy of the table is
    made.
    """
    squares = np.empty((len(signed), len(upper[0])))
    for r in range(0, len(signed), 8192):
        block = signed[r : r + 8192]
        np.multiply(block[:, upper[0]], block[:, upper[1]], out=squares[r : r + 8192])
    return squares
