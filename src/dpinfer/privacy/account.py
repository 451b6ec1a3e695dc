"""A ledger at one moment: what was spent, what is left, and who spent it."""

from dataclasses import dataclass
from typing import Any

from dpinfer.privacy import accountant
from dpinfer.privacy.budget import ApproxDP
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger, rounded_down


@dataclass(frozen=True, eq=False)
class Account:
    """A ledger at one moment.  Composing an (ε, δ) total takes its time, so it is done once."""

    ledger: Ledger
    entries: tuple[Entry, ...]
    rules: tuple[str, ...]
    spent: float
    left: float
    largest: float

    @classmethod
    def of(cls, ledger: Ledger) -> "Account":
        """Add up what is booked now."""
        entries, count = ledger.read()
        return cls(ledger, entries, count.rules(), count.spent(), count.left(), count.largest())

    @property
    def limit(self) -> float:
        """The total as a number."""
        return accountant.limit(self.ledger.total)

    def statement(self, largest: float | None = None) -> str:
        """Return what is left, or will be where ``largest`` is given, in one phrase."""
        total = self.ledger.total
        amount = rounded_down(self.largest if largest is None else largest, 4)
        if not isinstance(total, ApproxDP):
            return f"{accountant.measure(total)} = {amount:.4g} left of {self.limit:.4g}"
        return (
            f"a next fit may cost up to epsilon = {amount:.4g} at delta = {total.delta:.6g} "
            f"(the total is {self.limit:.4g})"
        )

    def state(self) -> dict[str, Any]:
        """Return the same for a program."""
        return {
            "path": str(self.ledger.path),
            "title": self.ledger.title,
            "unit": self.ledger.unit,
            "neighbours": self.ledger.neighbours,
            "total": self.ledger.total,
            "measure": accountant.measure(self.ledger.total),
            "spent": self.spent,
            "left": self.left,
            "largest_fit": self.largest,
            "entries": len(self.entries),
        }
