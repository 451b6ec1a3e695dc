"""Private Hessian and score covariance at the released coefficients.

The paper releases each with Algorithm 2.  The tight recipe releases both in one stacked vector,
noises only what depends on data, and floors the Hessian at 2c and the covariance at 0.

What the intervals are about: the penalised coefficients, or the unpenalised ones, one step back
along the Hessian.

    θ* = θ~ + 2c H_f⁻¹ θ~,      H_f = H~ - 2c I,

with the covariance of θ~ formed with H_f.  The noise E of H~ moves the step by -H_f⁻¹ E step, which
is counted too.

The story of a penalised fit: Algorithm 3 (objective perturbation) and Algorithm 5 (output
perturbation).
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpinfer.errors import BudgetError
from dpinfer.fit.penalised_plan import (
    Mechanism,
    ObjectivePerturbation,
    Plan,
    default_penalty,
    hessian_noise,
)
from dpinfer.fit.recipe import privacy
from dpinfer.maths.arrays import Array
from dpinfer.maths.error_laws import ErrorLaw, sandwich, total_covariance
from dpinfer.maths.losses import Loss, describe, kind
from dpinfer.maths.noise_laws import NO_NOISE, Gaussian, Law
from dpinfer.maths.risk import Risk
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.gate import Gate, Released
from dpinfer.privacy.release import NoisyMinimum, NoisySum, Release, ScaledSum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import NOT_IDENTIFIED, Model
from dpinfer.rows.source import Source
from dpinfer.rows.transforms import cached
from dpinfer.schema.design import Design


@dataclass(frozen=True)
class Matrices:
    """H~ and Σ~, one pair or a stack, and the deviation of the noise on their diagonals where it is
    counted.
    """

    hessian: Array
    score_cov: Array
    hessian_noise: float | Array = 0.0
    score_noise: float | Array = 0.0


def private_matrices(
    gate: Gate, releases: Sequence[Release], source: Source, risk: Risk, coef: Array
) -> Matrices:
    """H~ and Σ~ at ``coef``: (1/n) sum f'' x xᵀ + 2c I and (1/n) sum f'² x xᵀ - 4c² θ~θ~ᵀ, each
    with noise.

    One release is the stacked vector of the tight recipe, two are the matrices of the paper.
    """
    if len(releases) == 1:
        stacked = gate.release(releases[0], source, risk.stacked_sum(coef))
        return tight(risk, coef, stacked.value, stacked.noise)
    curvature = gate.release(releases[0], source, risk.curvature_sum(coef))
    score = gate.release(releases[1], source, risk.score_sum(coef))
    return paper(risk, coef, curvature.value, score.value, noisy=curvature.noise != NO_NOISE)


def paper(risk: Risk, coef: Array, curvature: Array, score: Array, *, noisy: bool) -> Matrices:
    """Means, known terms, then lines 9-14 of Algorithm 2: the symmetric part, eigenvalues raised to
    2c.

    Works on one fit or on a stack of them.  The floor repairs noise, so without noise there is
    none.
    """
    hessian, score_cov = _known_terms(risk, coef, curvature, score)
    floor = 2 * risk.penalty if noisy else None
    return Matrices(priv_spd_mat(hessian, floor), priv_spd_mat(score_cov, floor))


def tight(
    risk: Risk, coef: Array, stacked: Array, noise: Law, bound: float | Array = 1.0
) -> Matrices:
    """The two matrices from a noisy stacked vector; its noise is ``bound`` times ``noise``, in
    every entry.

    Gaussian noise is counted in the intervals, by an expansion for small noise.  Laplace noise is
    not small, and what it does to the inverse already widens them: counting it too would
    over-cover.
    """
    hessian, score_cov = _known_terms(risk, coef, *risk.unstack(stacked, coef.shape[-1]))
    if noise == NO_NOISE:
        return Matrices(priv_spd_mat(hessian, None), priv_spd_mat(score_cov, None))
    entry = bound * noise.scale / risk.n if isinstance(noise, Gaussian) else 0.0
    floored = priv_spd_mat(hessian, 2 * risk.penalty), priv_spd_mat(score_cov, 0.0)
    return Matrices(*floored, hessian_noise=entry / risk.stack_weight, score_noise=entry)


def _known_terms(risk: Risk, coef: Array, curvature: Array, score: Array) -> tuple[Array, Array]:
    """The means, with what the penalty adds; a covariance over units has the factor n/(n - 1)."""
    c = risk.penalty
    hessian = curvature / risk.n + 2 * c * np.eye(coef.shape[-1])
    clusters = risk.n / max(risk.n - 1, 1) if risk.neighbours.units else 1.0
    return hessian, clusters * (score / risk.n - 4 * c**2 * coef[..., :, None] * coef[..., None, :])


def priv_spd_mat(matrix: Array, floor: float | None) -> Array:
    """Symmetric part, eigenvalues raised to the floor."""
    matrix = (matrix + matrix.mT) / 2
    if floor is None:
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, floor))[..., None, :]
    return np.asarray(root @ root.mT)


@dataclass(frozen=True)
class Aimed:
    """Coefficients and matrices of the target, for one fit or a stack; NaN where the target is not
    identified.

    ``stepped`` is 2c if the step was taken, else 0; ``step_noise`` the covariance that the noise of
    the Hessian adds through it.
    """

    coef: Array
    matrices: Matrices
    identified: npt.NDArray[np.bool_]
    stepped: float = 0.0
    step_noise: Array | None = None


def aim(target: str, risk: Risk, coef: Array, matrices: Matrices, entry_noise: float) -> Aimed:
    """The target from the released coefficients and matrices.

    ``entry_noise`` is the deviation s of the noise on the diagonal of H~.  Its largest eigenvalue
    is about s sqrt(2d); the step is taken where the smallest eigenvalue of H_f is more than twice
    that.
    """
    d, two_c = coef.shape[-1], 2 * risk.penalty
    if target == "penalised" or two_c == 0:
        return Aimed(coef, matrices, np.ones(coef.shape[:-1], dtype=bool))
    free = matrices.hessian - two_c * np.eye(d)
    smallest = np.linalg.eigvalsh(np.nan_to_num(free))[..., 0]
    identified = np.asarray(smallest > max(2 * entry_noise * np.sqrt(2 * d), 1e-12))
    free = np.where(identified[..., None, None], free, np.nan)
    inverse = np.linalg.inv(free)
    step = two_c * (inverse @ coef[..., None])[..., 0]
    through = (inverse @ step[..., None])[..., 0]
    length2 = (step**2).sum(axis=-1)[..., None, None]
    noise = (
        entry_noise**2
        / 2
        * (length2 * inverse @ inverse + through[..., :, None] * through[..., None, :])
    )
    return Aimed(coef + step, replace(matrices, hessian=free), identified, two_c, noise)


@dataclass(frozen=True)
class Penalised:
    """Estimate, matrices at the estimate, law of the error: the recipes "paper" and "tight".

    Without a ``penalty`` one is chosen that is valid for the plan.  ``target`` is "penalised" or
    "unpenalised".  ``because`` is what to say of a penalty that nobody asked for.
    """

    design: Design
    loss: Loss
    plan: Plan
    target: str = "penalised"
    penalty: float | None = None
    because: str = ""

    @property
    def neighbours(self) -> Neighbours:
        """One record replaced, or one unit."""
        return Neighbours.of(Neighbours.REPLACE, units=self.design.unit.many)

    @property
    def budget(self) -> Budget:
        """That of the plan."""
        return self.plan.budget

    def risk(self, n: int) -> Risk:
        """The risk that is minimised; without noise the unpenalised target needs no penalty."""
        if self.target == "unpenalised" and isinstance(self.plan.estimate, NoPrivacy):
            return Risk.penalised(self.loss, 0.0, n, self.neighbours)
        penalty = self.penalty
        if penalty is None:
            units = self.neighbours.units
            penalty = default_penalty(
                self.plan, self.loss, n, len(self.design.names), self.target, units=units
            )
        return Risk.penalised(self.loss, penalty, n, self.neighbours)

    def releases(self, n: int) -> tuple[Release, ...]:
        """The coefficients, then the matrices at them."""
        risk = self.risk(n)
        first, *others = self.plan.calibrated(risk).releases(risk)
        private = isinstance(first, NoisyMinimum) and not isinstance(first.share, NoPrivacy)
        if private and not risk.accurate(len(self.design.names)):
            raise BudgetError(
                "output perturbation is not proved for so curved a loss or so many records: floats do not find the "
                "minimum closely enough; use objective perturbation, or a smoother loss"
            )
        return first, *others

    def advice(self, n: int) -> str:  # noqa: ARG002  (a penalised fit reports every coefficient)
        """That the penalty changes the estimand, where nobody asked for one."""
        return self.because

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Estimate, matrices at the estimate, law of the error."""
        source, risk, design, plan = cached(source), self.risk(source.n), self.design, self.plan
        first, *others = gate.entry.events
        assert isinstance(others[0], NoisySum | ScaledSum)
        coef = gate.release(first, source, risk)
        matrices = private_matrices(gate, others, source, risk, coef.value)
        aimed = aim(
            self.target,
            risk,
            coef.value,
            matrices,
            hessian_noise(plan.recipe, others[0], risk, source.dim),
        )
        error = error_law(aimed, coef, plan, source.n, gate.seed)
        back, forward = design.mapping, np.linalg.inv(design.mapping)
        return FitResult(
            names=design.names,
            estimate=back @ (aimed.coef if aimed.identified else coef.value) + design.shift,
            error=error.mapped(back if aimed.identified else back[:0]),
            hessian=forward.T
            @ (aimed.matrices if aimed.identified else matrices).hessian
            @ forward,
            score_cov=forward.T @ matrices.score_cov @ forward,
            status=() if aimed.identified else (NOT_IDENTIFIED,) * len(design.names),
            model=self._model(risk),
            privacy=privacy(gate, plan.budget),
        )

    def _model(self, risk: Risk) -> Model:
        loss, outcome = self.loss, self.design.outcome
        in_units = loss.rescaled(outcome.half) if hasattr(loss, "rescaled") else loss
        return Model(
            loss=describe(in_units),
            penalty=risk.penalty,
            n=int(risk.n),
            target=self.target if risk.penalty else "unpenalised",
            mechanism=str(self.plan.mechanism),
            unit=self.design.unit,
            recipe=self.plan.recipe,
            of=kind(loss),
            centre=outcome.centre,
            penalty_scale=float(outcome.half ** (2 - getattr(loss, "degree", 2))),
        )


def error_law(
    aimed: Aimed, released: Released, plan: Plan, n: int, insecure_seed: int | None
) -> ErrorLaw:
    """The law of target - estimate, on the bounded rows."""
    matrices, noise = aimed.matrices, released.noise
    sampling = sandwich(matrices.hessian, matrices.score_cov, n)
    mapping = noise_map(plan.mechanism, matrices.hessian, n, aimed.stepped)
    return ErrorLaw(
        sampling=sampling,
        noise_map=mapping,
        noise=noise,
        draws=plan.draws,
        seed=secrets.randbits(63) if insecure_seed is None else insecure_seed,
        sampled=plan.recipe == "paper",
        influence=np.asarray(np.linalg.inv(matrices.hessian), dtype=float),
        response=moved_by_hessian(
            plan.mechanism, sampling, total_covariance(sampling, mapping, noise)
        ),
        hessian_noise=float(matrices.hessian_noise),
        score_noise=float(matrices.score_noise) / n,
        step_noise=_further(aimed, released.mask),
    )


def _further(aimed: Aimed, mask: float) -> Array | None:
    """What the noise of the Hessian adds to the covariance through the step, and the mask of the
    minimum as it is.
    """
    if not mask:
        return aimed.step_noise
    masked = mask**2 * np.eye(aimed.coef.shape[-1])
    return masked if aimed.step_noise is None else aimed.step_noise + masked


def noise_map(mechanism: Mechanism, hessian: Array, n: float, stepped: float = 0.0) -> Array:
    """How the noise enters target - estimate: H⁻¹b/n for Algorithm 1 (in Algorithm 3), -b for 4 (in
    5); stacks too.

    ``stepped`` is the 2c of a step 2c H⁻¹θ~ back to the unpenalised target, which the noise of
    Algorithm 4 goes along.
    """
    if isinstance(mechanism, ObjectivePerturbation):
        return np.asarray(np.linalg.inv(hessian) / n, dtype=float)
    stay = np.broadcast_to(-np.eye(hessian.shape[-1]), hessian.shape)
    return stay - stepped * np.linalg.inv(hessian) if stepped else stay


def moved_by_hessian(mechanism: Mechanism, sampling: Array, total: Array) -> Array:
    """The part of the covariance that changes with H: all of it, but for the output noise, which is
    added after.
    """
    return total if isinstance(mechanism, ObjectivePerturbation) else sampling
