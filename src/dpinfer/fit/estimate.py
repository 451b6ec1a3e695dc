"""Private coefficients: Algorithm 1 (objective perturbation) and Algorithm 4 (output perturbation)."""

import numpy as np

from dpinfer.data.source import Source
from dpinfer.fit.plan import Mechanism, ObjectivePerturbation, Plan
from dpinfer.maths.arrays import Array
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.privacy.gate import Gate, Released


def estimate(plan: Plan, gate: Gate, source: Source, risk: PenalisedRisk) -> Released:
    """θ~ and the law of the noise behind it."""
    if isinstance(plan.mechanism, ObjectivePerturbation):
        return gate.perturbed_minimum("estimate", source, risk, plan.kind)
    return gate.noisy_minimum("estimate", source, risk)


def noise_map(mechanism: Mechanism, hessian: Array, n: int, stepped: float = 0.0) -> Array:
    """How the noise enters target - estimate: H⁻¹b/n for Algorithm 1 (in Algorithm 3), -b for 4 (in 5); stacks too.

    ``stepped`` is the 2c of a step 2c H⁻¹θ~ back to the unpenalised target, which the noise of Algorithm 4 goes along.
    """
    if isinstance(mechanism, ObjectivePerturbation):
        return np.linalg.inv(hessian) / n
    stay = np.broadcast_to(-np.eye(hessian.shape[-1]), hessian.shape)
    return stay - stepped * np.linalg.inv(hessian) if stepped else stay


def moved_by_hessian(mechanism: Mechanism, sampling: Array, total: Array) -> Array:
    """The part of the covariance that changes with H: all of it, but for the output noise, which is added after."""
    return total if isinstance(mechanism, ObjectivePerturbation) else sampling
