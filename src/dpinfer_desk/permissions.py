"""Access control: stewards and auditors see everything, an analyst what is his own or shared.

What a person may not see is reported as missing, so that nobody learns whether it exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dpinfer.errors import InputError
from dpinfer.moment_release.released_moments import MomentRelease
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.accounts import Signed
from dpinfer_desk.store.roles import ANALYST, AUDITOR, REVOKED, STEWARD, Analyst
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket


class NotFoundError(InputError):
    """Something does not exist, or the person may not see it; the message is the same for both."""

    def __init__(self) -> None:
        super().__init__("There is nothing at this address: go on from the tables.")


@dataclass(frozen=True)
class Permissions:
    """The part of a desk that one person may see.

    Guarantee [others_are_not_seen]: of tables without an own allowance, and of questions of others
    that are not answered or not shared, an analyst is told nothing, not even that they are there.
    """

    desk: Desk
    signed: Signed

    @property
    def unrestricted(self) -> bool:
        """Tell whether the person may see everything."""
        return self.signed.role in (STEWARD, AUDITOR)

    def tables(self) -> list[RegisteredTable]:
        """Return the tables that the person may see, by name."""
        return [table for table in self.desk.tables() if self._may_see(table)]

    def table(self, name: str) -> RegisteredTable:
        """Return a table; `NotFoundError` if the person may not see it."""
        for table in self.desk.tables():
            if table.name == name and self._may_see(table):
                return table
        raise NotFoundError

    def analyst(self, table: str) -> Analyst:
        """Return the person as an analyst of a table; `NotFoundError` if there is no allowance."""
        try:
            return self.desk.analyst(table, self.signed.person)
        except InputError:
            raise NotFoundError from None

    def ticket(self, ident: str) -> Ticket:
        """Return a question by its full id; `NotFoundError` if the person may not see it."""
        stored = self.desk.register.tickets("id = ?", ident)
        if not stored:
            raise NotFoundError
        ticket = stored[0].as_shown(self.desk.clock())
        if not self._may_read(ticket):
            raise NotFoundError
        return ticket

    def own(self, ident: str) -> Ticket:
        """Return a question on which the person may act: his own, or any for a steward."""
        ticket = self.ticket(ident)
        if self.signed.role != STEWARD and ticket.by != self.signed.person:
            raise NotFoundError
        return ticket

    def tickets(self, name: str = "", by: str = "", states: Sequence[str] = ()) -> list[Ticket]:
        """Return questions as `Desk.tickets` does; to an analyst only his own."""
        return self.desk.tickets(name, by if self.unrestricted else self.signed.person, states)

    def answers(self, name: str) -> list[Ticket]:
        """Return the past answers at a table that the person may read by its policy."""
        return self.desk.answers(name, "" if self.unrestricted else self.signed.person)

    def moment_release(self, table: str, ident: str) -> MomentRelease:
        """Return a published moment release of a table that the person may see; `NotFoundError` if there is none."""
        found = self.desk.moment_release(self.table(table).name, ident)
        if found is None:
            raise NotFoundError
        return found

    def _may_see(self, table: RegisteredTable) -> bool:
        if self.unrestricted:
            return True
        if self.signed.role != ANALYST:
            return False
        allowance = self.desk.register.allowances(table.name).get(self.signed.person)
        return allowance is not None and allowance[1] != REVOKED

    def _may_read(self, ticket: Ticket) -> bool:
        if self.unrestricted or ticket.by == self.signed.person:
            return True
        if ticket.state != tickets.ANSWERED:
            return False
        table = self.desk.table(ticket.table)
        return table.policy.shared and self._may_see(table)
