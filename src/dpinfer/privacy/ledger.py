"""The book of what was spent.  An entry is written before anything is computed."""

import threading
from dataclasses import dataclass
from typing import NoReturn, Protocol

from dpinfer.errors import LedgerError
from dpinfer.maths.perturbation import PerturbedObjective
from dpinfer.privacy.budget import Budget, NoPrivacy, PureDP, Share, compose


@dataclass(frozen=True)
class Event:
    """One release: the step it belongs to, the mechanism, and the share it may cost.

    ``perturbed`` has the parameters of Gaussian objective perturbation, for accountants that use more than its share.
    """

    step: str
    mechanism: str
    share: Share
    perturbed: PerturbedObjective | None = None


@dataclass(frozen=True)
class Entry:
    """All releases of one fit, booked together."""

    purpose: str
    unit: str
    events: tuple[Event, ...]

    @property
    def cost(self) -> Share:
        """The composed cost of the events."""
        return compose(event.share for event in self.events)


class Book(Protocol):
    """What the gate asks of a ledger."""

    def book(self, entry: Entry) -> None:
        """Write the entry down, or raise `LedgerError` and leave everything as it was."""
        ...


class Ledger:
    """A total budget and the entries spent from it, in the memory of this process.

    Guarantee [never_overspent]: an entry that would exceed the total is refused and not written, also when
    several threads book at once.
    """

    def __init__(self, total: Budget) -> None:
        if isinstance(total, NoPrivacy) or not isinstance(total, Budget):
            raise LedgerError("a ledger keeps a privacy budget: give it PureDP, ZCDP or ApproxDP")
        self.total = total
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def book(self, entry: Entry) -> None:
        """Write the entry down if the total allows it."""
        with self._lock:
            spent = self._amount([*self._entries, entry])
            limit = self._limit()
            if spent > limit * (1 + 1e-12):
                left = max(0.0, limit - self._amount(self._entries))
                raise LedgerError(
                    f"the ledger has {self._unit()} = {left:.6g} left of {limit:.6g}, and this fit needs "
                    f"{self._amount([entry]):.6g}: lower its budget or stop here"
                )
            self._entries.append(entry)

    def entries(self) -> tuple[Entry, ...]:
        """Everything booked so far, oldest first."""
        return tuple(self._entries)

    def spent(self) -> float:
        """What is spent, as ε if the total is pure, as ρ otherwise."""
        return self._amount(self._entries)

    def left(self) -> float:
        """What is left, in the same measure as `spent`."""
        return max(0.0, self._limit() - self.spent())

    def _limit(self) -> float:
        return self.total.epsilon if isinstance(self.total, PureDP) else _rho(self.total)

    def _unit(self) -> str:
        return "epsilon" if isinstance(self.total, PureDP) else "rho"

    def _amount(self, entries: list[Entry]) -> float:
        if not entries:
            return 0.0
        cost = compose(event.share for entry in entries for event in entry.events)
        if isinstance(cost, NoPrivacy):
            raise LedgerError("a fit without privacy cannot be booked: drop the ledger or give the fit a budget")
        if not isinstance(self.total, PureDP):
            return _rho(cost)
        if not isinstance(cost, PureDP):
            raise LedgerError("this ledger counts pure epsilon and cannot pay for zCDP: use a ZCDP or ApproxDP total")
        return cost.epsilon

    # A copy would be a second budget for the same data, so there are none.
    def __copy__(self) -> "Ledger":
        return self

    def __deepcopy__(self, memo: object) -> "Ledger":
        return self

    def __sklearn_clone__(self) -> "Ledger":
        return self

    def __reduce__(self) -> NoReturn:
        raise LedgerError("a ledger in memory cannot be sent to another process: it would be spent twice")


def _rho(budget: Budget) -> float:
    assert not isinstance(budget, NoPrivacy)
    return budget.zcdp().rho
