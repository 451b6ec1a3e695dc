"""The story of a penalised fit: Algorithm 3 (objective perturbation) and Algorithm 5 (output perturbation)."""

import secrets
from dataclasses import dataclass

import numpy as np

from dpinfer.data.changed import kept
from dpinfer.data.design import Design
from dpinfer.data.source import Source
from dpinfer.errors import BudgetError
from dpinfer.fit.penalised.matrices import private_matrices
from dpinfer.fit.penalised.plan import Mechanism, ObjectivePerturbation, Plan, default_penalty, hessian_noise
from dpinfer.fit.penalised.target import Aimed, aim
from dpinfer.fit.recipe import privacy
from dpinfer.maths.arrays import Array
from dpinfer.maths.error import ErrorLaw, sandwich, total_covariance
from dpinfer.maths.losses import Loss, describe, kind
from dpinfer.maths.risk import Risk
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.gate import Gate, Released
from dpinfer.privacy.release import NoisyMinimum, NoisySum, Release
from dpinfer.result.result import FitResult
from dpinfer.result.statements import NOT_IDENTIFIED, Model


@dataclass(frozen=True)
class Penalised:
    """Estimate, matrices at the estimate, law of the error: the recipes "paper" and "tight".

    Without a ``penalty`` one is chosen that is valid for the plan.  ``target`` is "penalised" or "unpenalised".
    ``because`` is what to say of a penalty that nobody asked for.
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
            penalty = default_penalty(self.plan, self.loss, n, len(self.design.names), self.target, units=units)
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
        source, risk, design, plan = kept(source), self.risk(source.n), self.design, self.plan
        first, *others = gate.entry.events
        assert isinstance(others[0], NoisySum)
        coef = gate.release(first, source, risk)
        matrices = private_matrices(gate, others, source, risk, coef.value)
        aimed = aim(self.target, risk, coef.value, matrices, hessian_noise(plan.recipe, others[0], risk, source.dim))
        error = error_law(aimed, coef, plan, source.n, gate.seed)
        back, forward = design.mapping, np.linalg.inv(design.mapping)
        return FitResult(
            names=design.names,
            estimate=back @ (aimed.coef if aimed.identified else coef.value) + design.shift,
            error=error.mapped(back if aimed.identified else back[:0]),
            hessian=forward.T @ (aimed.matrices if aimed.identified else matrices).hessian @ forward,
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
            whom=self.design.unit,
            recipe=self.plan.recipe,
            of=kind(loss),
            centre=outcome.centre,
            unit=float(outcome.half ** (2 - getattr(loss, "degree", 2))),
        )


def error_law(aimed: Aimed, released: Released, plan: Plan, n: int, insecure_seed: int | None) -> ErrorLaw:
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
        response=moved_by_hessian(plan.mechanism, sampling, total_covariance(sampling, mapping, noise)),
        hessian_noise=float(matrices.hessian_noise),
        score_noise=float(matrices.score_noise) / n,
        step_noise=_further(aimed, released.mask),
    )


def _further(aimed: Aimed, mask: float) -> Array | None:
    """What the noise of the Hessian adds to the covariance through the step, and the mask of the minimum as it is."""
    if not mask:
        return aimed.step_noise
    masked = mask**2 * np.eye(aimed.coef.shape[-1])
    return masked if aimed.step_noise is None else aimed.step_noise + masked


def noise_map(mechanism: Mechanism, hessian: Array, n: float, stepped: float = 0.0) -> Array:
    """How the noise enters target - estimate: H⁻¹b/n for Algorithm 1 (in Algorithm 3), -b for 4 (in 5); stacks too.

    ``stepped`` is the 2c of a step 2c H⁻¹θ~ back to the unpenalised target, which the noise of Algorithm 4 goes along.
    """
    if isinstance(mechanism, ObjectivePerturbation):
        return np.asarray(np.linalg.inv(hessian) / n, dtype=float)
    stay = np.broadcast_to(-np.eye(hessian.shape[-1]), hessian.shape)
    return stay - stepped * np.linalg.inv(hessian) if stepped else stay


def moved_by_hessian(mechanism: Mechanism, sampling: Array, total: Array) -> Array:
    """The part of the covariance that changes with H: all of it, but for the output noise, which is added after."""
    return total if isinstance(mechanism, ObjectivePerturbation) else sampling
