"""Which budget makes an interval short enough?"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.search import boundary
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP
from dpinfer.result import text
from dpinfer.simulate.foreseen import Forecast, label

_LEAST, _MOST = 1e-3, 1e3  # ε and ρ that are searched
_CLOSE = 0.05  # how closely a budget is found
_FAR = 4.0  # a step where nothing is known
_VISIBLE = 1e-2  # of a half-width: noise that is less is taken for this much


@dataclass(frozen=True)
class Wanted:
    """A half-width, and whose: one of the ``names`` of coefficients, or the median over all but the intercept."""

    half_width: float
    coefficient: str | None
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.coefficient is not None and self.coefficient not in self.names:
            raise InputError(f"there is no coefficient {self.coefficient!r}: there are {', '.join(self.names)}")
        known = isinstance(self.half_width, int | float) and not isinstance(self.half_width, bool)
        if not (known and 0 < self.half_width < np.inf):
            raise InputError(f"half_width must be a positive number, not {self.half_width!r}")

    def of(self, seen: Forecast) -> tuple[float, float]:
        """That of a forecast: what half of the replicates keep within, and without noise; infinite where unknown."""
        first = min(1, len(self.names) - 1)
        some = [self.names.index(self.coefficient)] if self.coefficient else range(first, len(self.names))
        plain = np.nan_to_num(seen.nonprivate[0], nan=np.inf)
        return float(np.median(seen.within[0, some])), float(np.median(plain[some]))


@dataclass
class Search:
    """The least budget of the kind of ``start`` whose ``forecast`` gives what is wanted."""

    wanted: Wanted
    start: Budget
    forecast: Callable[[Budget], Forecast]
    seen: dict[float, Forecast] = field(default_factory=dict)

    def least(self) -> Forecast:
        """The forecast of the budget found: it keeps within what is wanted, and one that is 5 % less does not."""
        guess = self._guess()
        holds, step = self._within(guess), 1 + _CLOSE
        while self._within(other := guess / step if holds else guess * step) == holds:
            guess, step = other, step**2
            if holds and guess < _LEAST:
                return self.seen[guess]
            if not holds and guess > _MOST:
                raise self._none(guess)
        enough, little = (guess, other) if holds else (other, guess)
        return self.seen[boundary(self._within, enough, little, _CLOSE, by_ratio=True)[0]]

    def _guess(self) -> float:
        """By the law that squared half-widths are those without noise plus a part that falls with ρ, or with ε²."""
        amount, power = self._amount(), 1 if isinstance(self.start, ZCDP) else 2
        for _ in range(2):
            width, plain = self._at(amount)
            while not np.isfinite(width):
                if amount > _MOST:
                    raise self._none(amount)
                amount *= _FAR
                width, plain = self._at(amount)
            if plain >= self.wanted.half_width:
                raise self._impossible(plain, self.seen[amount].records)
            noise = max(width**2 - plain**2, (_VISIBLE * plain) ** 2)
            amount *= (noise / (self.wanted.half_width**2 - plain**2)) ** (1 / power)
            amount = min(max(amount, _LEAST), _MOST)
        return amount

    def _at(self, amount: float) -> tuple[float, float]:
        if amount not in self.seen:
            self.seen[amount] = self.forecast(self._budget(amount))
        return self.wanted.of(self.seen[amount])

    def _within(self, amount: float) -> bool:
        return self._at(amount)[0] <= self.wanted.half_width

    def _amount(self) -> float:
        if isinstance(self.start, NoPrivacy):
            raise BudgetError("a budget is searched among those of a kind: give one, as in [dp.ApproxDP(1, 1e-6)]")
        return float(self.start.rho if isinstance(self.start, ZCDP) else self.start.epsilon)

    def _budget(self, amount: float) -> Budget:
        if isinstance(self.start, ApproxDP):
            return ApproxDP(amount, self.start.delta)
        return ZCDP(amount) if isinstance(self.start, ZCDP) else PureDP(amount)

    def _none(self, amount: float) -> InputError:
        most, remedies = label(self._budget(amount)), "; ".join(text.REMEDIES[:2])
        return InputError(
            f"no budget up to {most} is expected to give ±{self.wanted.half_width:g}: {remedies}; take more records"
        )

    def _impossible(self, plain: float, records: int) -> InputError:
        wanted = self.wanted.half_width
        needed = f" (about {records * (plain / wanted) ** 2:,.3g} without privacy)" if np.isfinite(plain) else ""
        return InputError(
            f"no budget gives ±{wanted:g}: without privacy {records:,} records give ±{plain:.3g}; widen half_width, or "
            f"take more records{needed}"
        )
