"""Costs and allowances of a total: as percent of it and as ε, in words, and as people type them.

One number is behind all of them, the amount that adds up: ε of a PureDP total, ρ of others, as
`accountant.added_up` counts it.  The whole, 100 %, is the amount of one question with Gaussian noise
that costs the total, and an amount is shown as the ε of one such question.  So a question asked at the
ε of the total costs 100 % of it, and an allowance typed as ε pays for a question asked at this ε.
"""

import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache

from dpinfer.errors import BudgetError, InputError
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP
from dpinfer.privacy.decimals import multiplied, written, written_down
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import NoisySum

PERCENT = "percent"
EPSILON = "epsilon"
RHO = "rho"
UNITS = {PERCENT: "% of the total", EPSILON: "ε", RHO: "ρ"}
"""The units in which an amount may be typed, as labels."""

_DIGITS = 3  # of an ε that was not typed but computed
_SEARCHED_DIGITS = 10  # of an ε that a search found
_HUNDREDTH = Decimal("0.01")
_SIGNS = {"%": PERCENT, "percent": PERCENT, "ε": EPSILON, "epsilon": EPSILON, "ρ": RHO, "rho": RHO}
_SIGN = "|".join(_SIGNS)
_TYPED = re.compile(
    rf"(?:(?P<before>{_SIGN})\s*=?\s*)?(?P<number>(?:\d+[.,]?\d*|[.,]\d+)(?:e[-+]?\d+)?)\s*(?P<after>{_SIGN})?",
    re.IGNORECASE,
)
_PLAIN_EPSILON = re.compile("ϵ|є")  # letters that look like ε


@dataclass(frozen=True)
class TotalShares:
    """The amounts of a ledger with this total, for people.

    Examples
    --------
    >>> import dpinfer as dp
    >>> shares = dp.Ledger(dp.ApproxDP(3.0, 1e-6)).shares
    >>> amount = shares.read("10 %")
    >>> shares.allowance(amount)
    '10 % of the total (ε = 0.855)'
    >>> shares.cost(dp.ApproxDP(0.5, 1e-6), shares.read("ε = 0,5"))
    'ε = 0.5 (3.7 % of the total)'
    """

    total: Total

    @property
    def full_amount(self) -> float:
        """The amount that is 100 %."""
        if isinstance(self.total, ApproxDP):
            return _largest_rho(self.total.epsilon, self.total.delta)
        return accountant.limit(self.total)

    @property
    def measure(self) -> str:
        """The name of the amounts, epsilon or rho."""
        return accountant.counted_in(self.total)

    @property
    def sign(self) -> str:
        """The symbol of what a question is asked at."""
        return "ρ" if isinstance(self.total, ZCDP) else "ε"

    @property
    def units(self) -> dict[str, str]:
        """The units in which an amount may be typed, with their labels: the usual one first."""
        left_out = {PureDP: RHO, ZCDP: EPSILON}.get(type(self.total))
        return {unit: label for unit, label in UNITS.items() if unit != left_out}

    @property
    def examples(self) -> str:
        """Amounts as they may be typed."""
        return "10 % or ρ = 0.05" if isinstance(self.total, ZCDP) else "10 % or ε = 0.5"

    def of(self, amount: float) -> float:
        """Return the share of the total, 1 for all of it."""
        return amount / self.full_amount

    def percent(self, amount: float) -> str:
        """Return the share of the total in percent."""
        return percent(self.of(amount))

    def epsilon(self, amount: float) -> float:
        """Return the ε, or the ρ of a ZCDP total, of one question with Gaussian noise of this cost."""
        if amount <= 0 or not isinstance(self.total, ApproxDP):
            return max(0.0, amount)
        found = accountant.spent(self.total, _question(amount))
        return float(f"{found:.{_SEARCHED_DIGITS}g}")

    def up_to(self, epsilon: float, digits: int = _DIGITS) -> str:
        """Write what may be spent, rounded down."""
        return f"{self.sign} = {rounded_down(epsilon, digits):.{digits}g}"

    def asked(self, budget: object, amount: float) -> str:
        """Write a cost as it was asked; one in ρ as an ε, where the total has a δ.

        The δ is named where it is not that of the total.
        """
        known = self.total.delta if isinstance(self.total, ApproxDP) else None
        if isinstance(budget, ApproxDP) and budget.delta == known:
            return f"ε = {budget.epsilon:.6g}"
        if isinstance(budget, PureDP) and not isinstance(self.total, PureDP):
            return f"{budget.amount}, δ = 0"
        if isinstance(budget, ApproxDP | PureDP) or isinstance(self.total, ZCDP):
            return str(getattr(budget, "amount", self._about(amount)))
        return self._about(self.epsilon(amount))

    def cost(self, budget: object, amount: float) -> str:
        """Write a cost as it was asked, and as a share of the total."""
        return f"{self.asked(budget, amount)} ({self.percent(amount)} of the total)"

    def allowance(self, amount: float) -> str:
        """Write an allowance, or a part of one: percent of the total, and the largest question."""
        part = self.percent(amount)
        if amount > self.full_amount:  # it never pays for more than the total
            part = f"{100 * self.of(amount):.3g} %"
        return f"{part} of the total ({self.up_to(self.epsilon(amount))})"

    def statement(self, share: float, largest: float) -> str:
        """Say how much of the total is used, and what the next question may cost."""
        return f"{percent(share)} of the total is used. {self._next(largest)}"

    def room(self, amount: float, spent: float, largest: float) -> str:
        """Say how much of an allowance is used, and what its next question may cost; of the total
        ``largest`` may be spent.
        """
        left = max(0.0, amount - spent)
        room = self._next(min(self.epsilon(left), largest))
        return f"{self.percent(spent)} of the total used, {self.percent(left)} left. {room}"

    def _next(self, largest: float) -> str:
        if not largest > 0:
            return "Nothing is left for another question."
        return f"The next question may cost up to {self.up_to(largest)}."

    def explanation(self, amount: float, spent: float) -> str:
        """Say how costs are counted, where ``amount`` was counted so far and everything costs ``spent``."""
        sign = UNITS[self.measure]
        counted = (
            f"Costs are counted in {sign}, release by release, and add up: {amount:.4g} of "
            f"{self.full_amount:.4g} so far."
        )
        if not isinstance(self.total, ApproxDP):
            return counted
        return (
            f"{counted} 100 % is one question asked at {self.total.amount}. Half of this ε costs about a quarter, "
            "as ρ grows with the square of ε. So the next question may cost more than ε of the total less that of "
            f"earlier ones. All releases so far together have ε = {spent:.4g} at the δ of the total. A penalised model "
            "is judged by another rule and may get less."
        )

    def amount_of(self, entry: Entry) -> float:
        """Return what an entry costs, in the amounts that add up."""
        return float(accountant.added_up(self.total, entry.events))

    def asked_of(self, entry: Entry) -> str:
        """Write the cost of an entry as it was asked; in ledgers of earlier versions, as its releases cost."""
        if entry.asked is not None and not isinstance(entry.asked, NoPrivacy):
            return self.asked(entry.asked, self.amount_of(entry))
        return self._about(accountant.spent(self.total, entry.events))

    def _about(self, epsilon: float) -> str:
        return f"{self.sign} = {epsilon:.4g}"

    def read(self, text: str, unit: str = "") -> float:
        """Return the amount in a text, such as ``10 %``, ``ε = 0.5`` or, with a unit, ``0,5``.

        Guarantee [allowances_rounded_down]: the amount is never more than what was typed: not than
        this percentage of the whole, and not than the cost of a question asked at this ε.

        Raises
        ------
        InputError
            If the text is no amount, or more than the total; a ρ may be more.
        """
        found = _TYPED.fullmatch(_PLAIN_EPSILON.sub("ε", text.strip()))
        if found is None or (found["before"] and found["after"]):
            raise InputError(f"an amount is typed as {self.examples}, not {text.strip()[:40]!r}")
        sign = (found["before"] or found["after"] or "").lower()
        unit = _SIGNS.get(sign, unit)
        if unit not in self.units:
            raise InputError(self._no_such_unit(unit, text))
        try:
            amount = self._amount(Decimal(found["number"].replace(",", ".")), unit)
        except (ArithmeticError, BudgetError) as fault:  # such as 1e999999999
            raise InputError(
                f"{text.strip()[:40]!r} is too large or too small: type {self.examples}"
            ) from fault
        if unit != RHO and amount > self.full_amount:
            raise InputError(
                f"{text.strip()[:40]!r} is more than the total, {self.total.amount}: type {self.examples}"
            )
        return amount

    def read_allowance(self, text: str, unit: str = "") -> float:
        """Return the amount in a text as `read` does; an allowance is more than nothing."""
        amount = self.read(text, unit)
        if amount <= 0:
            raise InputError(f"an allowance is more than nothing: type {self.examples}")
        return amount

    def typed(self, amount: float) -> tuple[str, str]:
        """Return a short text and its unit that `read` turns into this amount again."""
        candidates = [
            (f"{100 * self.of(amount):.4g}", PERCENT),
            (f"{self.epsilon(amount):.4g}", EPSILON),
        ]
        for text, unit in candidates:
            if unit in self.units and self._reads_as(text, unit, amount):
                return text, unit
        return repr(float(amount)), self.measure

    def _reads_as(self, text: str, unit: str, amount: float) -> bool:
        try:
            return self.read(text, unit) == amount
        except InputError:
            return False

    def _no_such_unit(self, unit: str, text: str) -> str:
        if unit == EPSILON:
            return f"this total is counted in ρ and has no δ, so that ε says nothing: type {self.examples}"
        if unit == RHO:
            return f"this total is counted in ε: type {self.examples}"
        return f"{text.strip()[:40]!r} has no unit: type {self.examples}"

    def _amount(self, number: Decimal, unit: str) -> float:
        if unit == PERCENT:
            share = multiplied(number, _HUNDREDTH)
            return written_down(multiplied(share, written(self.full_amount)))
        typed = written_down(number)
        if unit == RHO or not isinstance(self.total, ApproxDP):
            return typed
        return _largest_rho(typed, self.total.delta) if typed > 0 else 0.0


def percent(share: float) -> str:
    """Return a share in percent with at most one decimal; never 0 % or 100 % where it is not."""
    number = round(100 * share, 1)
    if share <= 0:
        return "0 %"
    if share >= 1:
        return "100 %"
    if number < 0.1:
        return "less than 0.1 %"
    if number > 99.9:
        return "more than 99.9 %"
    return f"{number:g} %"


def rounded_down(amount: float, digits: int) -> float:
    """Return an amount that may be spent, in so many digits, and never above what there is.

    As in the ledger an amount counts as the decimal that it is stored as: .7 is .7, not a little less.
    """
    if not amount > 0:
        return 0.0
    exact = written(amount)
    step = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return float(exact.quantize(step, ROUND_FLOOR))


@lru_cache(maxsize=4096)
def _largest_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ of Gaussian noise that (ε, δ) pays for: what one question there costs."""
    total = ApproxDP(epsilon, delta)
    lower = total.zcdp().rho
    upper = 2 * lower
    while accountant.affordable(total, _question(upper)):
        upper *= 2
    middle = (lower + upper) / 2
    while lower < middle < upper:
        if accountant.affordable(total, _question(middle)):
            lower = middle
        else:
            upper = middle
        middle = (lower + upper) / 2
    return lower


def _question(rho: float) -> tuple[NoisySum, ...]:
    """Return the releases of one question with Gaussian noise: one sum of that cost stands for all."""
    return (NoisySum("a question", ZCDP(rho), 1.0),)
