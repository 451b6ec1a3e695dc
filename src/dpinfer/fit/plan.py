"""How a budget is shared among the steps of a fit.  Frozen and free of data: it may be printed and booked."""

from dataclasses import dataclass

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.laws import Law
from dpinfer.maths.losses import Loss
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP, Share, compose
from dpinfer.privacy.gate import objective_noise, output_noise
from dpinfer.privacy.ledger import Event

SMALLEST_PENALTY = 1e-12
"""Below it the floor of Algorithm 2 is lost in rounding."""


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Algorithm 1: minimise the risk plus a random linear term."""

    noise: str = "laplace"

    def __post_init__(self) -> None:
        if self.noise != "laplace":
            raise InputError(f"objective perturbation with noise={self.noise!r} is not available: use 'laplace'")

    def __str__(self) -> str:
        return "objective perturbation, spherical Laplace noise"


@dataclass(frozen=True)
class OutputPerturbation:
    """Algorithm 4: add noise to the minimiser, Laplace for a pure share and Gaussian for a zCDP share."""

    def __str__(self) -> str:
        return "output perturbation"


Mechanism = ObjectivePerturbation | OutputPerturbation


@dataclass(frozen=True)
class Plan:
    """A mechanism, a share for each release, and the recipe that turns releases into intervals.

    ``draws`` is the paper's m, the number of samples where an interval is sampled.  ``delta`` only states the
    zCDP cost as (ε, δ); it changes nothing that is computed.
    """

    mechanism: Mechanism
    estimate: Share
    hessian: Share
    covariance: Share
    recipe: str = "paper"
    draws: int = 10_000
    delta: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, ObjectivePerturbation | OutputPerturbation):
            raise InputError("a plan's mechanism is ObjectivePerturbation() or OutputPerturbation()")
        for step in ("estimate", "hessian", "covariance"):
            if not isinstance(getattr(self, step), PureDP | ZCDP | NoPrivacy):
                raise BudgetError(f"the plan's {step} share must be PureDP, ZCDP or NoPrivacy, never a bare number")
        if self.recipe != "paper":
            raise InputError(f"recipe {self.recipe!r} is not available: use 'paper'")
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        cost = self.cost  # refuses a plan that is private in part
        if self.delta is not None and not isinstance(cost, ZCDP):
            raise BudgetError("delta restates a zCDP cost: this plan has none")
        self.budget  # noqa: B018  (refuses a delta outside (0, 1))

    @property
    def cost(self) -> Share:
        """What the plan costs: ε₁+ε₂+ε₃ if every share is pure, else ρ₁+ρ₂+ρ₃ with a pure ε counted as ε²/2."""
        return compose([self.estimate, self.hessian, self.covariance])

    @property
    def budget(self) -> Budget:
        """The cost, in the terms it was asked for."""
        cost = self.cost
        return cost.approx(self.delta) if self.delta is not None and isinstance(cost, ZCDP) else cost

    def events(self) -> tuple[Event, ...]:
        """The releases, in order."""
        return (
            Event("estimate", str(self.mechanism), self.estimate),
            Event("hessian", "noisy matrix", self.hessian),
            Event("covariance", "noisy matrix", self.covariance),
        )

    def noise(self, risk: PenalisedRisk) -> Law:
        """The law of the estimate's noise, from public facts; `BudgetError` if the plan is not valid for the risk."""
        noise = objective_noise if isinstance(self.mechanism, ObjectivePerturbation) else output_noise
        law = noise(self.estimate, risk)
        if not isinstance(self.estimate, NoPrivacy) and risk.penalty < SMALLEST_PENALTY:
            raise BudgetError(f"a private fit needs a penalty of at least {SMALLEST_PENALTY:g}, not {risk.penalty:.6g}")
        return law


def default_plan(budget: Budget) -> Plan:
    """The paper's defaults, from the kind of budget alone.

    Pure: objective perturbation, shares 1/2, 1/4, 1/4.  zCDP and (ε, δ): output perturbation (the better of the
    two there), shares 2/3, 1/6, 1/6, which are the same ε's converted.
    """
    if not isinstance(budget, PureDP | ZCDP | ApproxDP | NoPrivacy):
        raise BudgetError("budget must be PureDP(epsilon), ZCDP(rho), ApproxDP(epsilon, delta) or NoPrivacy()")
    if isinstance(budget, PureDP | NoPrivacy):
        first, second, third = budget.split(2, 1, 1)
        return Plan(ObjectivePerturbation(), first, second, third)
    phi1, phi2, phi3 = budget.split(4, 1, 1)
    delta = budget.delta if isinstance(budget, ApproxDP) else None
    return Plan(OutputPerturbation(), phi1, phi2, phi3, delta=delta)


def default_penalty(plan: Plan, loss: Loss, n: int) -> float:
    """A penalty that is valid for the plan, from public facts.

    The paper's .001, or more where that would cost objective perturbation over a tenth of its share:
    log(1 + t/(2nc)) <= ε/10 needs c >= t/(2n(e^(ε/10) - 1)).
    """
    if isinstance(plan.estimate, NoPrivacy):
        return 1e-3
    epsilon = plan.estimate.pure().epsilon
    return float(max(1e-3, loss.curvature_bound / (2 * n * np.expm1(min(epsilon / 10, 500.0)))))
