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
    """Algorithm 1: minimise the risk plus a random linear term.

    The paper's noise is spherical Laplace; Gaussian noise is for zCDP shares, and smaller by sqrt(d + 1) there.
    """

    noise: str = "laplace"

    def __post_init__(self) -> None:
        if self.noise not in ("laplace", "gaussian"):
            raise InputError(f"objective perturbation takes noise='laplace' or 'gaussian', not {self.noise!r}")

    def __str__(self) -> str:
        return f"objective perturbation, {'spherical Laplace' if self.noise == 'laplace' else 'Gaussian'} noise"


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
        if self.recipe not in ("paper", "tight"):
            raise InputError(f"recipe must be 'paper' or 'tight', not {self.recipe!r}")
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        gaussian = isinstance(self.mechanism, ObjectivePerturbation) and self.mechanism.noise == "gaussian"
        if gaussian and isinstance(self.estimate, PureDP):
            raise BudgetError(
                "Gaussian noise gives no pure privacy: use ObjectivePerturbation('laplace') or a ZCDP share"
            )
        cost = self.cost  # refuses a plan that is private in part
        if self.delta is not None and not isinstance(cost, ZCDP):
            raise BudgetError("delta restates a zCDP cost: this plan has none")
        self.budget  # noqa: B018  (refuses a delta outside (0, 1))

    @property
    def cost(self) -> Share:
        """What the releases cost: ε₁+ε₂+ε₃ if every share is pure, else in ρ, with a pure release counted as ε²/2."""
        return compose(event.share for event in self.events())

    @property
    def budget(self) -> Budget:
        """The cost, in the terms it was asked for."""
        cost = self.cost
        return cost.approx(self.delta) if self.delta is not None and isinstance(cost, ZCDP) else cost

    @property
    def matrices(self) -> Share:
        """What the tight recipe pays for both matrices at once: the two shares together, as one release."""
        return compose([self.hessian, self.covariance])

    def events(self) -> tuple[Event, ...]:
        """The releases, in order."""
        output = isinstance(self.mechanism, OutputPerturbation)
        first = Event("estimate", str(self.mechanism), self.estimate, additive=output)
        if self.recipe == "tight":
            return (first, Event("matrices", "noisy stacked matrices", self.matrices, additive=True))
        return (
            first,
            Event("hessian", "noisy matrix", self.hessian, additive=True),
            Event("covariance", "noisy matrix", self.covariance, additive=True),
        )

    @property
    def kind(self) -> str:
        """Which noise objective perturbation draws; the tight recipe's Laplace noise uses the sharper constant."""
        assert isinstance(self.mechanism, ObjectivePerturbation)
        sharp = self.recipe == "tight" and self.mechanism.noise == "laplace"
        return "sharp laplace" if sharp else self.mechanism.noise

    def hessian_noise(self, risk: PenalisedRisk, dim: int) -> float:
        """Standard deviation of the noise of one entry of the Hessian, from public facts."""
        zero = np.zeros(dim)
        if self.recipe == "paper":
            return float(np.sqrt(self.hessian.noise(risk.curvature_sum(zero).bound).variance(dim**2)) / risk.n)
        law = self.matrices.noise(risk.stacked_sum(zero).bound)
        return float(np.sqrt(law.variance(dim * (dim + 1))) / (risk.stack_weight * risk.n))

    def noise(self, risk: PenalisedRisk) -> Law:
        """The law of the estimate's noise, from public facts; `BudgetError` if the plan is not valid for the risk."""
        if not isinstance(self.estimate, NoPrivacy) and 0 < risk.penalty < SMALLEST_PENALTY:
            raise BudgetError(f"a private fit needs a penalty of at least {SMALLEST_PENALTY:g}, not {risk.penalty:.6g}")
        if isinstance(self.mechanism, ObjectivePerturbation):
            return objective_noise(self.estimate, risk, self.kind)
        return output_noise(self.estimate, risk)


def default_plan(budget: Budget) -> Plan:
    """A plan from the kind of budget alone, with the tight recipe.

    Pure: objective perturbation with Laplace noise, 70 % of the budget.  zCDP and (ε, δ): with Gaussian noise, 87.5 %.
    The rest pays for both matrices at once.
    """
    if not isinstance(budget, PureDP | ZCDP | ApproxDP | NoPrivacy):
        raise BudgetError("budget must be PureDP(epsilon), ZCDP(rho), ApproxDP(epsilon, delta) or NoPrivacy()")
    if isinstance(budget, PureDP | NoPrivacy):
        first, second, third = budget.split(14, 3, 3)
        return Plan(ObjectivePerturbation(), first, second, third, recipe="tight")
    phi1, phi2, phi3 = budget.split(14, 1, 1)
    delta = budget.delta if isinstance(budget, ApproxDP) else None
    return Plan(ObjectivePerturbation("gaussian"), phi1, phi2, phi3, recipe="tight", delta=delta)


def default_penalty(plan: Plan, loss: Loss, n: int, dim: int) -> float:
    """A penalty that is valid for the plan, from public facts.

    Gaussian objective perturbation: the smallest one that costs at most a twentieth of its share (2.6 k² <= ρ/20 with
    k = t/(2nc)) and whose floor 2c is not below the noise of the Hessian's eigenvalues, sqrt(2d) times that of one
    entry.  Otherwise the paper's .001, or more where that would cost Laplace objective perturbation over a tenth of
    its share: log(1 + t/(2nc)) <= ε/10.
    """
    if isinstance(plan.estimate, NoPrivacy):
        return 1e-3
    t = loss.curvature_bound
    if isinstance(plan.mechanism, ObjectivePerturbation) and plan.mechanism.noise == "gaussian":
        k = np.sqrt(plan.estimate.zcdp().rho / 52)
        entry = plan.hessian_noise(PenalisedRisk(loss, 1.0, n), dim)
        return float(max(t / (2 * n * k), entry * np.sqrt(2 * dim) / 2, SMALLEST_PENALTY))
    epsilon = plan.estimate.pure().epsilon
    return float(max(1e-3, t / (2 * n * np.expm1(min(epsilon / 10, 500.0)))))
