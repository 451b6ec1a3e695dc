"""A ledger at one moment: what was spent, what is left, and who spent it."""

from dataclasses import dataclass
from typing import Any

from dpinfer.privacy import accountant
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.shares import TotalShares


@dataclass(frozen=True, eq=False)
class Account:
    """A ledger at one moment.  Composing an (ε, δ) total takes its time, so it is done once.

    ``amount`` is the sum of what entries cost one by one: its share of the total drives bars, numbers
    and charts.  ``spent``, ``left`` and ``largest`` are those of `Ledger`.
    """

    ledger: Ledger
    entries: tuple[Entry, ...]
    rules: tuple[str, ...]
    amount: float
    spent: float
    left: float
    largest: float

    @classmethod
    def of(cls, ledger: Ledger) -> "Account":
        """Add up what is booked now."""
        entries, count = ledger.read()
        return cls(
            ledger=ledger,
            entries=entries,
            rules=count.rules(),
            amount=ledger.added_up(entries),
            spent=count.spent(),
            left=count.left(),
            largest=count.largest(),
        )

    @property
    def limit(self) -> float:
        """The total as a number."""
        return accountant.limit(self.ledger.total)

    @property
    def shares(self) -> TotalShares:
        """The total as 100 %."""
        return self.ledger.shares

    @property
    def share(self) -> float:
        """The share of the total that is used; above 1 only where releases cost less together."""
        return self.shares.of(self.amount)

    def statement(self) -> str:
        """Say how much of the total is used, and what the next question may cost."""
        return self.shares.statement(self.share, self.largest)

    def state(self) -> dict[str, Any]:
        """Return the same for a program."""
        return {
            "path": str(self.ledger.path),
            "title": self.ledger.title,
            "unit": self.ledger.unit,
            "neighbours": self.ledger.neighbours,
            "total": self.ledger.total,
            "measure": accountant.measure(self.ledger.total),
            "share": self.share,
            "spent": self.spent,
            "left": self.left,
            "largest_fit": self.largest,
            "entries": len(self.entries),
        }
