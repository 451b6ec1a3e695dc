"""People at a desk: which role each has, and what each may spend of a table."""

from dataclasses import dataclass
from reprlib import repr as short

from dpinfer.errors import InputError
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, PureDP
from dpinfer.privacy.ledger import Allowance

ACTIVE = "active"
PAUSED = "paused"
REVOKED = "revoked"
STATES = (ACTIVE, PAUSED, REVOKED)
"""Of an analyst at a table.  Who is not active asks nothing, and nothing of his is booked."""

STEWARD = "steward"
ANALYST = "analyst"
AUDITOR = "auditor"
ROLES = (STEWARD, ANALYST, AUDITOR)
"""Of an account: who gives allowances and decides, who asks, who reads everything and does nothing."""

_LONGEST = 100


@dataclass(frozen=True)
class Person:
    """Somebody who asks.  ``name`` is what entries of ledgers say; ``words`` is for the steward."""

    name: str
    words: str
    added: str


@dataclass(frozen=True)
class Analyst:
    """A person at a table: the allowance, what was spent of it and what is left, in the terms that
    the table counts, ρ or ε.
    """

    table: str
    person: str
    amount: float
    spent: float
    state: str

    @property
    def left(self) -> float:
        """What is left of the allowance; the total may have less."""
        return max(0.0, self.amount - self.spent)


def person_named(name: str) -> str:
    """A name that may be written into a ledger."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"the name of a person is a text in one line, not {short(name)}")
    if len(name) > _LONGEST:
        raise InputError(f"the name of a person has at most {_LONGEST} characters: shorten it")
    return name.strip()


def role_named(role: str) -> str:
    """A role that there is."""
    if role not in ROLES:
        raise InputError(f"a role is {', '.join(ROLES)}, not {short(role)}")
    return role


def allowance_of(total: Total, amount: float) -> Allowance:
    """An amount as the ledger judges it."""
    return PureDP(amount) if isinstance(total, PureDP) else ZCDP(amount)
