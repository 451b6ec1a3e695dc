"""How a budget is shared among the steps of a fit.  Frozen and free of data: it may be printed and booked."""

from dataclasses import dataclass, replace

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.accounting import zcdp_of_gaussian
from dpinfer.maths.laws import Law
from dpinfer.maths.losses import Loss
from dpinfer.maths.perturbation import affordable_factor
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

    ``draws`` is the paper's m, the number of samples where an interval is sampled.  With ``approx`` the budget is
    (ε, δ) and the shares are proportions of it: `calibrated` gives them the size that it pays for.
    """

    mechanism: Mechanism
    estimate: Share
    hessian: Share
    covariance: Share
    recipe: str = "paper"
    draws: int = 10_000
    approx: ApproxDP | None = None

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
        if self.approx is not None and not isinstance(cost, ZCDP):
            raise BudgetError("approx= takes the ApproxDP budget that zCDP shares are parts of: this plan has none")

    @property
    def cost(self) -> Share:
        """What the releases cost: ε₁+ε₂+ε₃ if every share is pure, else in ρ, with a pure release counted as ε²/2."""
        return compose(event.share for event in self.events())

    @property
    def budget(self) -> Budget:
        """The cost, in the terms it was asked for."""
        return self.approx or self.cost

    @property
    def matrices(self) -> Share:
        """What the tight recipe pays for both matrices at once: the two shares together, as one release."""
        return compose([self.hessian, self.covariance])

    def events(self, risk: PenalisedRisk | None = None) -> tuple[Event, ...]:
        """The releases, in order; with the risk, also the parameters that their cost depends on."""
        perturbed, output = None, isinstance(self.mechanism, OutputPerturbation)
        if risk is not None and self.gaussian_objective:
            perturbed = risk.perturbed(risk.perturbation_scale(_rho(self.estimate)))
        first = Event("estimate", str(self.mechanism), self.estimate, perturbed, additive=output)
        if self.recipe == "tight":
            return (first, Event("matrices", "noisy stacked matrices", self.matrices, additive=True))
        return (
            first,
            Event("hessian", "noisy matrix", self.hessian, additive=True),
            Event("covariance", "noisy matrix", self.covariance, additive=True),
        )

    @property
    def gaussian_objective(self) -> bool:
        """Whether the estimate is released by objective perturbation with Gaussian noise."""
        objective = isinstance(self.mechanism, ObjectivePerturbation) and self.mechanism.noise == "gaussian"
        return objective and not isinstance(self.estimate, NoPrivacy)

    def calibrated(self, risk: PenalisedRisk) -> "Plan":
        """The plan with the shares that its (ε, δ) budget pays for, in the proportions given.

        A conversion that holds for every zCDP release gives their size.  Where all noise is Gaussian they cost less:
        the releases of the matrices compose to one, and the estimate is composed with it by its privacy profile.

        Guarantee [approx_composition]: the releases together are (ε, δ)-private for the stated budget.
        """
        if self.approx is None:
            return self
        approx = self.approx
        plan = self._scaled(approx.zcdp().rho / _rho(self.cost))
        first, *others = plan.events(risk)
        shares = (_rho(first.share), sum(_rho(event.share) for event in others))
        if first.perturbed is not None:
            release = first.perturbed
            return plan._scaled(affordable_factor(approx.epsilon, approx.delta, shares, release.k, release.shape))
        if all(event.additive and isinstance(event.share, ZCDP) for event in (first, *others)):
            return plan._scaled(zcdp_of_gaussian(approx.epsilon, approx.delta) / sum(shares))
        return plan

    def _scaled(self, factor: float) -> "Plan":
        """Every share times a factor, in zCDP; a pure share stays pure."""
        shares: list[Share] = []
        for share in (self.estimate, self.hessian, self.covariance):
            scaled = ZCDP(factor * _rho(share))
            shares.append(scaled.pure() if isinstance(share, PureDP) else scaled)
        return replace(self, estimate=shares[0], hessian=shares[1], covariance=shares[2])

    @property
    def kind(self) -> str:
        """Which noise objective perturbation draws; the tight recipe's Laplace noise uses the sharper constant."""
        assert isinstance(self.mechanism, ObjectivePerturbation)
        sharp = self.recipe == "tight" and self.mechanism.noise == "laplace"
        return "sharp laplace" if sharp else self.mechanism.noise

    def hessian_noise(self, risk: PenalisedRisk, dim: int) -> float:
        """Standard deviation of the noise on the diagonal of the Hessian, from public facts."""
        far = np.full(dim, 1e9)  # where every slope may reach its bound
        if self.recipe == "paper":
            return float(np.sqrt(self.hessian.noise(risk.curvature_sum(far).bound).variance(dim**2)) / risk.n)
        law = self.matrices.noise(risk.stacked_sum(far).bound)
        return float(np.sqrt(law.variance(dim * (dim + 1))) / (risk.stack_weight * risk.n))

    def noise(self, risk: PenalisedRisk) -> Law:
        """The law of the estimate's noise, from public facts; `BudgetError` if the plan is not valid for the risk."""
        if not isinstance(self.estimate, NoPrivacy) and 0 < risk.penalty < SMALLEST_PENALTY:
            raise BudgetError(f"a private fit needs a penalty of at least {SMALLEST_PENALTY:g}, not {risk.penalty:.6g}")
        if isinstance(self.mechanism, ObjectivePerturbation):
            return objective_noise(self.estimate, risk, self.kind)
        return output_noise(self.estimate, risk)


def _rho(share: Share) -> float:
    assert not isinstance(share, NoPrivacy)
    return share.zcdp().rho


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
    approx = budget if isinstance(budget, ApproxDP) else None
    return Plan(ObjectivePerturbation("gaussian"), phi1, phi2, phi3, recipe="tight", approx=approx)


def default_penalty(plan: Plan, loss: Loss, n: int, dim: int, target: str = "penalised") -> float:
    """A penalty that is valid for the plan, from public facts.

    For the unpenalised target as small as the cost allows: k = t/(2nc) = 1/20, or less where that would be dear.
    For the penalised one:
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
        if target == "unpenalised":
            return float(max(t / (2 * n * min(k, 0.05)), SMALLEST_PENALTY))
        entry = plan.hessian_noise(PenalisedRisk(loss, 1.0, n), dim)
        return float(max(t / (2 * n * k), entry * np.sqrt(2 * dim) / 2, SMALLEST_PENALTY))
    epsilon = plan.estimate.pure().epsilon
    least = SMALLEST_PENALTY if target == "unpenalised" else 1e-3
    return float(max(least, t / (2 * n * np.expm1(min(epsilon / 10, 500.0)))))
