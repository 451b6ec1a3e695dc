"""Privacy budgets as values; a share of one is again a typed value, never a bare number.

zCDP is that of Bun and Steinke (2016): a Gaussian release of scale bound/sqrt(2ρ) is ρ-zCDP (Proposition 1.6),
and an ε-private one is ε²/2-zCDP (Proposition 1.4).

PureDP(ε)        a share buys spherical Laplace noise of rate ε/bound
ZCDP(ρ)          a share buys Gaussian noise of scale bound/sqrt(2ρ)
ApproxDP(ε, δ)   is split into ZCDP shares; a plan with Gaussian noise scales them up by exact
                 composition
NoPrivacy()      noise off: reference fits and studies only
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real

from dpinfer.errors import BudgetError
from dpinfer.mechanisms import privacy_cost
from dpinfer.numerics.noise_laws import NO_NOISE, Gaussian, Law, SphericalLaplace
from dpinfer.privacy.decimals import added, written

LARGEST_DELTA = 0.1
"""A δ from here on is no promise."""
_SMALL = 1e-3  # numbers below it are written as powers of ten
_EXPONENT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True)
class PureDP:
    """A budget of ε-differential privacy.

    Parameters
    ----------
    epsilon : float
        The bound ε of the privacy loss, a positive number; the smaller, the stronger the
        protection.

    Notes
    -----
    A procedure M is ε-differentially private if P[M(D) ∈ S] ≤ exp(ε) P[M(D') ∈ S] for all
    neighbouring data sets D, D' and all sets S of results (Dwork, McSherry, Nissim and Smith, 2006,
    Calibrating noise to sensitivity in private data analysis).  The costs of several releases add
    up in ε.

    Examples
    --------
    >>> import dpinfer as dp
    >>> budget = dp.PureDP(epsilon=1.0)
    >>> budget.split(3, 1)
    (PureDP(epsilon=0.75), PureDP(epsilon=0.25))
    >>> budget.zcdp()
    ZCDP(rho=0.5)
    """

    epsilon: float

    def __post_init__(self) -> None:
        _require_positive("epsilon", self.epsilon)
        _require_representable("epsilon", self.epsilon, 1e100)

    def split(self, *weights: float) -> tuple["PureDP", ...]:
        """Split the budget into shares that add up to it, and never to more.

        Parameters
        ----------
        *weights : float
            One positive number per share; the shares are in proportion to them.

        Returns
        -------
        tuple of PureDP
            One share per weight.
        """
        return tuple(map(PureDP, _shares(self.epsilon, weights)))

    def pure(self) -> "PureDP":
        """Return the pure budget of the same cost, which is this one."""
        return self

    def zcdp(self) -> "ZCDP":
        """Return the zCDP budget that pays for every release of this one.

        Returns
        -------
        ZCDP
            ρ = ε²/2 (Bun and Steinke, 2016, proposition 1.4).
        """
        return ZCDP(privacy_cost.zcdp_from_pure(self.epsilon))

    def noise(self, bound: float) -> Law:
        """Return the noise for a sum that one record moves by at most ``bound``.

        Guarantee [laplace_scale]: rate ε/bound, so that the release is ε-differentially private.
        """
        return SphericalLaplace(self.epsilon / bound)

    @property
    def amount(self) -> str:
        """Return the number with its symbol."""
        return f"ε = {self.epsilon:.6g}"

    def __str__(self) -> str:
        return f"pure differential privacy with {self.amount}"


@dataclass(frozen=True)
class ZCDP:
    """A budget of ρ-zero-concentrated differential privacy (zCDP).

    Parameters
    ----------
    rho : float
        The parameter ρ, a positive number; the smaller, the stronger the protection.

    Notes
    -----
    A procedure M is ρ-zCDP if the Rényi divergence D_α(M(D) ‖ M(D')) is at most ρα for every order
    α > 1 and all neighbouring data sets D, D'.  The costs of several releases add up in ρ, and
    Gaussian noise of standard deviation σ on a sum of sensitivity Δ costs ρ = Δ²/(2σ²) (Bun and
    Steinke, 2016, Concentrated differential privacy).

    Examples
    --------
    >>> import dpinfer as dp
    >>> budget = dp.ZCDP(rho=0.1)
    >>> print(f"{budget.approx(delta=1e-6).epsilon:.2f}")
    2.14
    >>> dp.ZCDP(1.0).split(3, 1)
    (ZCDP(rho=0.75), ZCDP(rho=0.25))
    """

    rho: float

    def __post_init__(self) -> None:
        _require_positive("rho", self.rho)
        _require_representable(
            "rho", self.rho, 1e210
        )  # the squares of all epsilons and their shares

    def split(self, *weights: float) -> tuple["ZCDP", ...]:
        """Split the budget into shares that add up to it, and never to more.

        Parameters
        ----------
        *weights : float
            One positive number per share; the shares are in proportion to them.

        Returns
        -------
        tuple of ZCDP
            One share per weight.
        """
        return tuple(map(ZCDP, _shares(self.rho, weights)))

    def pure(self) -> PureDP:
        """Return the pure budget of the same cost.

        Returns
        -------
        PureDP
            ε = sqrt(2ρ): a release that is ε-differentially private costs exactly ρ = ε²/2.
        """
        return PureDP(privacy_cost.pure_from_zcdp(self.rho))

    def zcdp(self) -> "ZCDP":
        """Return the zCDP budget of the same cost, which is this one."""
        return self

    def approx(self, delta: float) -> "ApproxDP":
        """Return the (ε, δ) that this budget implies at a given δ.

        Parameters
        ----------
        delta : float
            The δ, strictly between 0 and 1.

        Returns
        -------
        ApproxDP
            The δ with the smallest ε that the conversion gives.

        Notes
        -----
        ε is the smallest value of ρα + log(1 - 1/α) - log(αδ)/(α - 1) over the orders α > 1
        (Canonne, Kamath and Steinke, 2020, The discrete Gaussian for differential privacy).  It
        never exceeds ρ + 2 sqrt(ρ log(1/δ)) (Bun and Steinke, 2016).

        Examples
        --------
        >>> import dpinfer as dp
        >>> print(f"{dp.ZCDP(0.5).approx(1e-5).epsilon:.2f}")
        4.73
        """
        _require_delta(delta)
        return ApproxDP(privacy_cost.epsilon_from_zcdp(self.rho, delta), delta)

    def noise(self, bound: float) -> Law:
        """Return the noise for a sum that one record moves by at most ``bound``.

        Guarantee [gaussian_scale]: scale bound/sqrt(2ρ), so that the release is ρ-zCDP.
        """
        return Gaussian(bound / math.sqrt(2 * self.rho))

    @property
    def amount(self) -> str:
        """Return the number with its symbol."""
        return f"ρ = {self.rho:.6g}"

    def __str__(self) -> str:
        return f"zero-concentrated differential privacy (zCDP) with {self.amount}"


@dataclass(frozen=True)
class ApproxDP:
    """A budget of (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : float
        The bound ε of the privacy loss, a positive number.
    delta : float
        The probability δ with which the bound may fail, strictly between 0 and 1.  A fit accepts δ
        < 0.1, and δ should be far below 1/n: a procedure that publishes one whole record at random
        is private with δ = 1/n.

    Notes
    -----
    A procedure M is (ε, δ)-differentially private if P[M(D) ∈ S] ≤ exp(ε) P[M(D') ∈ S] + δ for all
    neighbouring data sets D, D' and all sets S of results.  The noise of a fit without a
    penalty is all Gaussian and is composed exactly (Balle and Wang, 2018, Improving the Gaussian
    mechanism for differential privacy), so that the fit costs exactly this budget.

    Examples
    --------
    >>> import dpinfer as dp
    >>> budget = dp.ApproxDP(epsilon=1.0, delta=1e-6)
    >>> print(f"{budget.zcdp().rho:.4f}")
    0.0244
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _require_positive("epsilon", self.epsilon)
        _require_representable("epsilon", self.epsilon, 1e100)
        _require_delta(self.delta)

    def split(self, *weights: float) -> tuple[ZCDP, ...]:
        """Split the zCDP budget of `zcdp` into shares that add up to it.

        Parameters
        ----------
        *weights : float
            One positive number per share; the shares are in proportion to them.

        Returns
        -------
        tuple of ZCDP
            One share per weight.
        """
        return self.zcdp().split(*weights)

    def zcdp(self) -> ZCDP:
        """Return the largest zCDP budget that this one pays for.

        Returns
        -------
        ZCDP
            The largest ρ with ``ZCDP(ρ).approx(delta).epsilon`` at most ε.
        """
        return ZCDP(privacy_cost.zcdp_from_approx(self.epsilon, self.delta))

    @property
    def amount(self) -> str:
        """Return both numbers with their symbols."""
        return f"ε = {self.epsilon:.6g}, δ = {power_of_ten(self.delta)}"

    def __str__(self) -> str:
        return f"(ε, δ)-differential privacy with {self.amount}"


@dataclass(frozen=True)
class NoPrivacy:
    """No budget: the noise is off, and the result says that it is not private.

    It is for reference fits, studies and examples.  A result without noise must not leave the
    people who may see the data.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_
    >>> result.privacy.private
    False
    """

    def split(self, *weights: float) -> tuple["NoPrivacy", ...]:
        """Return one copy of this budget for each of the ``weights``."""
        return tuple(self for _ in _fractions(weights))

    def noise(self, bound: float) -> Law:  # noqa: ARG002  (one signature for all shares)
        """Return no noise, whatever the ``bound``."""
        return NO_NOISE

    @property
    def amount(self) -> str:
        """Return the words for a fit whose noise is off."""
        return "noise off"

    def __str__(self) -> str:
        return "none (noise off)"


Share = PureDP | ZCDP | NoPrivacy
"""The cost of one release."""

Budget = Share | ApproxDP
"""The budgets that a user may declare."""


def power_of_ten(number: float) -> str:
    """Return a number as people write a small one: 10⁻⁶, 5·10⁻⁷, 0.01."""
    if number >= _SMALL:
        return f"{number:.6g}"
    digits, _, exponent = f"{number:.5e}".partition("e")
    digits = digits.rstrip("0").rstrip(".")
    power = f"10{str(int(exponent)).translate(_EXPONENT)}"
    return power if digits == "1" else f"{digits}·{power}"


def compose(shares: Iterable[Share]) -> Share:
    """Return the cost of adaptive releases together.

    Guarantee [composition]: pure shares add in ε; once a zCDP share is among them, everything adds
    in ρ.
    """
    shares = list(shares)
    if all(isinstance(s, NoPrivacy) for s in shares):
        return NoPrivacy()
    if any(isinstance(s, NoPrivacy) for s in shares):
        raise BudgetError(
            "a plan is private as a whole or not at all: give every step a share, or none"
        )
    if all(isinstance(s, PureDP) for s in shares):
        return PureDP(math.fsum(s.epsilon for s in shares if isinstance(s, PureDP)))
    return ZCDP(math.fsum(s.zcdp().rho for s in shares if not isinstance(s, NoPrivacy)))


def require_promise(budget: object) -> None:
    """Refuse to spend (ε, δ), or make it a total, where δ is at least .1: such a fit may publish
    every tenth record.
    """
    if isinstance(budget, ApproxDP) and budget.delta >= LARGEST_DELTA:
        raise BudgetError(
            f"δ = {budget.delta:.6g} is no promise: it must be below {LARGEST_DELTA:g}, and should be far below "
            "1 / the number of records, for example 1e-6"
        )


def weak_delta(budget: object, n: int | None) -> str:
    """Return a sentence on a δ that lets a fit of ``n`` records publish one of them; empty where
    there is none, or n private.

    It depends on the budget and the public number of records alone.
    """
    if not isinstance(budget, ApproxDP) or not n or budget.delta < 1 / n:
        return ""
    return (
        f"δ = {power_of_ten(budget.delta)} is not below 1/n = {1 / n:.6g}: a procedure that publishes one whole record "
        "at random keeps such a promise. Choose δ far below 1/n."
    )


def _require_positive(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 < float(number) < math.inf:
        raise BudgetError(f"{name} must be a positive finite number, not {number!r}")


def _require_representable(name: str, number: float, largest: float) -> None:
    """Refuse what the squares and quotients of a search would turn into 0 or infinity."""
    if not 1 / largest <= float(number) <= largest:
        raise BudgetError(
            f"{name} = {number!r} is beyond what can be computed with: choose a number from {1 / largest:g} to "
            f"{largest:g}"
        )


def _require_delta(delta: object) -> None:
    if isinstance(delta, bool) or not isinstance(delta, Real) or not (0 < float(delta) < 1):
        raise BudgetError(f"delta must lie strictly between 0 and 1, not {delta!r}")


def _shares(amount: float, weights: tuple[float, ...]) -> list[float]:
    """Return shares of an amount whose decimals never add up to more than its own."""
    shares = [amount * w for w in _fractions(weights)]
    while added(map(written, shares)) > written(amount):
        largest = shares.index(max(shares))
        shares[largest] = math.nextafter(shares[largest], 0.0)
    return shares


def _fractions(weights: tuple[float, ...]) -> list[float]:
    if not weights or not all(0 < w < math.inf for w in weights):
        raise BudgetError("shares need one positive weight each")
    total = math.fsum(weights)
    return [w / total for w in weights]
