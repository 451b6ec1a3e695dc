"""The sharing of a budget among the steps of a penalised fit: frozen, and free of data."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.errors import BudgetError, InputError
from dpinfer.inference.constants import (
    LAPLACE_COST_PARTS,
    MASK_SHARE,
    MAX_CURVATURE_RATIO,
    PAPER_PENALTY,
    PENALTY_COST_PARTS,
)
from dpinfer.mechanisms.losses import Loss
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import DEFAULT_MAX_RECORDS
from dpinfer.numerics.arrays import boundary
from dpinfer.numerics.reasons import Numerical, ShareTable
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP, Share, compose
from dpinfer.privacy.release import (
    MASK,
    LaplaceMinimum,
    Minimum,
    NoisyMinimum,
    NoisySum,
    PerturbedMinimum,
    Release,
    ScaledSum,
)

PURE_SHARES = ShareTable(
    {"estimate": 14, "Hessian": 3, "score covariance": 3},
    name="PURE_SHARES",
    decides="the parts of a pure budget for the estimate and for each matrix of a penalised fit",
    reason="70 % for the estimate, whose noise is in the intervals directly",
    source="convention",
)
GAUSSIAN_SHARES = ShareTable(
    {"estimate": 14, "Hessian": 1, "score covariance": 1},
    name="GAUSSIAN_SHARES",
    decides="the parts of a zCDP or (ε, δ) budget for the estimate and for each matrix of a penalised fit",
    reason="87.5 % for the estimate: with Gaussian noise both matrices are released at once, which costs less",
    source="convention",
)
SMALLEST_PENALTY: Numerical[float] = 1e-12
"""Below it the floor of Algorithm 2 is lost in rounding."""


@dataclass(frozen=True)
class ObjectivePerturbation:
    """The mechanism that minimises the penalised risk plus a random linear term.

    Parameters
    ----------
    noise : {"laplace", "gaussian"}
        The distribution of the random term: spherical Laplace, as in the paper, or Gaussian, for
        zCDP shares only, where it is smaller by sqrt(d + 1) with d coefficients.

    Notes
    -----
    It releases argmin of (1/n) Σ f(z_i) + c‖θ‖² + b·θ/n with b the random vector (Chaudhuri,
    Monteleoni and Sarwate, 2011; Kifer, Smith and Thakurta, 2012), which is algorithm 1 of Wang,
    Kifer and Lee (2019).

    Examples
    --------
    >>> import dpinfer as dp
    >>> print(dp.ObjectivePerturbation(noise="gaussian"))
    objective perturbation, Gaussian noise
    """

    noise: str = "laplace"

    def __post_init__(self) -> None:
        if self.noise not in ("laplace", "gaussian"):
            raise InputError(
                f"objective perturbation takes noise='laplace' or 'gaussian', not {self.noise!r}"
            )

    def __str__(self) -> str:
        law = "spherical Laplace" if self.noise == "laplace" else "Gaussian"
        return f"objective perturbation, {law} noise"


@dataclass(frozen=True)
class OutputPerturbation:
    """The mechanism that adds noise to the minimum of the penalised risk.

    The noise is spherical Laplace for a pure share and Gaussian for a zCDP share.

    Notes
    -----
    It is algorithm 4 of Wang, Kifer and Lee (2019), after Chaudhuri, Monteleoni and Sarwate (2011).

    Examples
    --------
    >>> import dpinfer as dp
    >>> print(dp.OutputPerturbation())
    output perturbation
    """

    def __str__(self) -> str:
        return "output perturbation"


Mechanism = ObjectivePerturbation | OutputPerturbation


@dataclass(frozen=True)
class Plan:
    """The plan of a penalised fit: its mechanism, a share for each release, and the recipe.

    Parameters
    ----------
    mechanism : ObjectivePerturbation or OutputPerturbation
        How the coefficients are released.
    estimate : PureDP, ZCDP or NoPrivacy
        The share that pays for the coefficients.
    hessian : PureDP, ZCDP or NoPrivacy
        The share that pays for the Hessian of the risk.
    covariance : PureDP, ZCDP or NoPrivacy
        The share that pays for the covariance of the scores.
    recipe : {"paper", "tight"}
        "paper" releases the two matrices one by one; "tight" releases them together, with both
        shares, and has closed-form intervals.
    draws : int
        The number of samples where an interval is sampled, m in the paper: at least 100, by default
        10,000.
    approx : ApproxDP, optional
        The (ε, δ) budget of which the shares are proportions; by default the shares are the cost.

    Notes
    -----
    The intervals are those of Wang, Kifer and Lee (2019), Differentially private confidence
    intervals for empirical risk minimization, Journal of Privacy and Confidentiality 9(1).

    Examples
    --------
    >>> import dpinfer as dp
    >>> shares = dp.PureDP(1.0).split(2, 1, 1)
    >>> plan = dp.Plan(dp.OutputPerturbation(), *shares, recipe="tight")
    >>> plan.cost
    PureDP(epsilon=1.0)
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
            raise InputError(
                "a plan's mechanism is ObjectivePerturbation() or OutputPerturbation()"
            )
        for step in ("estimate", "hessian", "covariance"):
            if not isinstance(getattr(self, step), PureDP | ZCDP | NoPrivacy):
                raise BudgetError(
                    f"the plan's {step} share must be PureDP, ZCDP or NoPrivacy, never a bare number"
                )
        if self.recipe not in ("paper", "tight"):
            raise InputError(f"recipe must be 'paper' or 'tight', not {self.recipe!r}")
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        gaussian = (
            isinstance(self.mechanism, ObjectivePerturbation) and self.mechanism.noise == "gaussian"
        )
        if gaussian and isinstance(self.estimate, PureDP):
            raise BudgetError(
                "Gaussian noise gives no pure privacy: use ObjectivePerturbation('laplace') or a ZCDP share"
            )
        cost = self.cost  # refuses a plan that is private in part
        if self.approx is not None and not isinstance(cost, ZCDP):
            raise BudgetError(
                "approx= takes the ApproxDP budget that zCDP shares are parts of: this plan has none"
            )

    @property
    def cost(self) -> Share:
        """Return what the releases cost together.

        Returns
        -------
        PureDP, ZCDP or NoPrivacy
            ε₁ + ε₂ + ε₃ if every share is pure; otherwise a sum of ρ, in which a pure release
            counts ε²/2.
        """
        return compose([self.estimate, *self._shares_of_matrices])

    @property
    def budget(self) -> Budget:
        """Return the cost in the terms in which the budget was given."""
        return self.approx or self.cost

    def releases(self, risk: Risk) -> tuple[Release, ...]:
        """Return the releases for a risk, in order.

        Parameters
        ----------
        risk : Risk
            The penalised risk, with the constants that its privacy rests on.

        Returns
        -------
        tuple of Release
            The coefficients, then the matrices.

        Raises
        ------
        BudgetError
            If the plan is not valid for the risk.
        """
        return (self.coefficients(risk), *self.matrices(risk))

    def coefficients(self, risk: Risk) -> Minimum:
        """The first release, for a ``risk``: Algorithm 1 or Algorithm 4, as the mechanism says."""
        share = self.estimate
        if not isinstance(share, NoPrivacy) and 0 < risk.penalty < SMALLEST_PENALTY:
            raise BudgetError(
                f"a private fit needs a penalty of at least {SMALLEST_PENALTY:g}, not {risk.penalty:.6g}"
            )
        if isinstance(share, NoPrivacy) or isinstance(self.mechanism, OutputPerturbation):
            return NoisyMinimum.of("estimate", share, risk)
        if self.mechanism.noise == "gaussian":
            return PerturbedMinimum.of("estimate", share.zcdp(), risk)
        return LaplaceMinimum.of("estimate", share, risk, sharp=self.recipe == "tight")

    def matrices(self, risk: Risk) -> tuple[NoisySum | ScaledSum, ...]:
        """The other releases, for a ``risk``; the tight recipe's is both matrices at once, paid for
        with the two shares together.

        Where a bound depends on the released coefficients, it is not known yet.
        """
        if self.recipe == "paper":
            hessian = NoisySum("hessian", self.hessian, risk.curvature_sum_bound)
            return hessian, ScaledSum("covariance", self.covariance)
        (share,) = self._shares_of_matrices
        if risk.stacked_sum_bound_is_fixed:
            return (NoisySum("matrices", share, risk.stacked_sum_bound_anywhere),)
        return (ScaledSum("matrices", share),)

    @property
    def _shares_of_matrices(self) -> tuple[Share, ...]:
        if self.recipe == "paper":
            return self.hessian, self.covariance
        return (compose([self.hessian, self.covariance]),)

    def calibrated(self, risk: Risk) -> "Plan":
        """Return the plan with the shares that its (ε, δ) budget pays for.

        The shares keep their proportions.  Their size is first that of a conversion which holds for
        every zCDP release; they grow where the accountant knows more of the releases together.

        Guarantee [approx_composition]: the releases together are (ε, δ)-private for the stated
        budget.

        Parameters
        ----------
        risk : Risk
            The penalised risk, on which the cost of objective perturbation depends.

        Returns
        -------
        Plan
            This plan where it has no (ε, δ) budget.
        """
        if self.approx is None:
            return self
        plan = self._scaled(self.approx.zcdp().rho / _rho(self.cost))
        return plan._scaled(
            largest_factor(self.approx, lambda factor: plan._scaled(factor).releases(risk))
        )

    def _scaled(self, factor: float) -> "Plan":
        """Every share times a factor, in zCDP; a pure share stays pure."""
        shares: list[Share] = []
        for share in (self.estimate, self.hessian, self.covariance):
            scaled = ZCDP(factor * _rho(share))
            shares.append(scaled.pure() if isinstance(share, PureDP) else scaled)
        return replace(self, estimate=shares[0], hessian=shares[1], covariance=shares[2])


def hessian_noise(recipe: str, release: NoisySum | ScaledSum, risk: Risk, dim: int) -> float:
    """Standard deviation of the noise on the diagonal of the Hessian, from public facts.

    ``release`` is the one with the Hessian in it: the first after the estimate.
    """
    if isinstance(release, NoisySum):
        law = release.law
    else:
        law = release.scaled_to(risk.stacked_sum_bound_anywhere)
    if recipe == "paper":
        return float(np.sqrt(law.variance(dim**2)) / risk.n)
    return float(np.sqrt(law.variance(dim * (dim + 1))) / (risk.stack_weight * risk.n))


def _rho(share: Share) -> float:
    assert not isinstance(share, NoPrivacy)
    return share.zcdp().rho


def default_plan(budget: Budget) -> Plan:
    """A plan from the kind of budget alone, with the tight recipe.

    Pure: objective perturbation with Laplace noise, 70 % of the budget.  zCDP and (ε, δ): with
    Gaussian noise, 87.5 %.  The rest pays for both matrices at once.
    """
    if not isinstance(budget, PureDP | ZCDP | ApproxDP | NoPrivacy):
        raise BudgetError(
            "budget must be PureDP(epsilon), ZCDP(rho), ApproxDP(epsilon, delta) or NoPrivacy()"
        )
    if isinstance(budget, PureDP | NoPrivacy):
        first, second, third = budget.split(*PURE_SHARES.values())
        return Plan(ObjectivePerturbation(), first, second, third, recipe="tight")
    phi1, phi2, phi3 = budget.split(*GAUSSIAN_SHARES.values())
    approx = budget if isinstance(budget, ApproxDP) else None
    return Plan(ObjectivePerturbation("gaussian"), phi1, phi2, phi3, recipe="tight", approx=approx)


def default_penalty(
    plan: Plan,
    loss: Loss,
    n: int,
    dim: int,
    target: str = "penalised",
    *,
    units: bool = False,
    records: int = DEFAULT_MAX_RECORDS,
) -> float:
    """A penalty that is valid for the plan, from public facts; with ``units`` n is their number, and
    ``records`` how many rows there are at most.

    For the unpenalised target as small as the cost allows: k = t/(2nc) = 1/20, or less where that
    would be dear.  For the penalised one:  Gaussian objective perturbation: the smallest one that
    costs at most a 26th of its share (2 k² <= ρ/26 with k = t/(2nc)) and whose floor 2c is not
    below the noise of the Hessian's eigenvalues, sqrt(2d) times that of one entry; from some million
    records on it grows up to the paper's .001 until the mask of the minimum is below the sampling
    error: how far floats are off grows with n, and a penalty holds it down.  Otherwise the paper's
    .001, or more where that would cost Laplace objective perturbation over a tenth of its
    share: log(1 + t/(2nc)) <= ε/10, and for units t/(2nc) <= ε/10.
    """
    if isinstance(plan.estimate, NoPrivacy):
        return PAPER_PENALTY
    t = loss.curvature_bound
    if isinstance(plan.mechanism, ObjectivePerturbation) and plan.mechanism.noise == "gaussian":
        k = np.sqrt(plan.estimate.zcdp().rho / (2 * PENALTY_COST_PARTS))
        if target == "unpenalised":
            return float(max(t / (2 * n * min(k, MAX_CURVATURE_RATIO)), SMALLEST_PENALTY))
        risk = Risk.penalised(loss, 1.0, n)
        entry = hessian_noise(plan.recipe, plan.matrices(risk)[0], risk, dim)
        cheap = float(max(t / (2 * n * k), entry * np.sqrt(2 * dim) / 2, SMALLEST_PENALTY))
        adjacency = Adjacency.of(Adjacency.REPLACE, units=units)
        most = MASK_SHARE * loss.slope_bound / (t * math.sqrt(n))

        def hidden(penalty: float) -> bool:
            risk = Risk.penalised(loss, penalty, n, adjacency, records)
            return _mask(plan, risk, dim) <= most

        if cheap >= PAPER_PENALTY or hidden(cheap):
            return cheap
        return boundary(hidden, PAPER_PENALTY, cheap, 0.01, by_ratio=True)[0]
    part = plan.estimate.pure().epsilon / LAPLACE_COST_PARTS
    ratio = part if units else np.expm1(min(part, 500.0))
    floor = SMALLEST_PENALTY if target == "unpenalised" else PAPER_PENALTY
    return float(max(floor, t / (2 * n * ratio)))


def _mask(plan: Plan, risk: Risk, dim: int) -> float:
    """The deviation of the mask of a minimum, but for what b is rounded by."""
    share = plan.estimate
    assert not isinstance(share, NoPrivacy)
    return 2 * risk.minimum_error(dim) / math.sqrt(2 * MASK * share.zcdp().rho)
