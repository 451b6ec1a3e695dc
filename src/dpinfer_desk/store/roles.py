"""Persons at a desk: their roles, and their allowances at tables."""

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
"""States of an analyst at a table: one who is not active cannot ask, and none of his questions is booked."""

STEWARD = "steward"
ANALYST = "analyst"
AUDITOR = "auditor"
ROLES = (STEWARD, ANALYST, AUDITOR)
"""Roles of an account: a steward gives allowances and decides, an analyst asks, an auditor reads everything."""

_MAX_LENGTH = 100


@dataclass(frozen=True)
class Person:
    """A person: ``name`` is recorded in ledgers, ``description`` (full name, department) only stewards see."""

    name: str
    description: str
    added: str


@dataclass(frozen=True)
class Analyst:
    """A person with an allowance at a table: ``amount`` and ``spent`` are ρ, or ε at a pure total."""

    table: str
    person: str
    amount: float
    spent: float
    state: str

    @property
    def left(self) -> float:
        """Return what is left of the allowance; of the total less may be left."""
        return max(0.0, self.amount - self.spent)


def person_named(name: str) -> str:
    """Return the name of a person if it may be recorded in a ledger."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"the name of a person is a text in one line, not {short(name)}")
    if len(name) > _MAX_LENGTH:
        raise InputError(f"the name of a person has at most {_MAX_LENGTH} characters: shorten it")
    return name.strip()


def role_named(role: str) -> str:
    """Return a role if it exists."""
    if role not in ROLES:
        raise InputError(f"a role is {', '.join(ROLES)}, not {short(role)}")
    return role


def allowance_of(total: Total, amount: float) -> Allowance:
    """Return an allowance in the measure that the total is counted in."""
    return PureDP(amount) if isinstance(total, PureDP) else ZCDP(amount)
