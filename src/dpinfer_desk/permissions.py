"""Who sees what of a desk: a steward and an auditor everything, an analyst what is his, or shared.

What somebody may not see is as if it were not there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dpinfer.errors import InputError
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.accounts import Signed
from dpinfer_desk.store.roles import ANALYST, AUDITOR, REVOKED, STEWARD, Analyst
from dpinfer_desk.store.tables import Table
from dpinfer_desk.store.tickets import Ticket


class NowhereError(InputError):
    """There is nothing, or nothing for who asks: nobody can tell which of the two."""

    def __init__(self) -> None:
        super().__init__("There is nothing at this address: go on from the tables.")


@dataclass(frozen=True)
class Sight:
    """A desk as one person sees it.

    Guarantee [others_are_not_seen]: of tables without an own allowance, and of questions of others
    that are not answered or not shared, an analyst is told nothing, not even that they are there.
    """

    desk: Desk
    signed: Signed

    @property
    def whole(self) -> bool:
        """Whether everything is seen."""
        return self.signed.role in (STEWARD, AUDITOR)

    def tables(self) -> list[Table]:
        """The tables, by name."""
        return [table for table in self.desk.tables() if self._may_see(table)]

    def table(self, name: str) -> Table:
        """One of them."""
        for table in self.desk.tables():
            if table.name == name and self._may_see(table):
                return table
        raise NowhereError

    def analyst(self, table: str) -> Analyst:
        """What the person may spend at a table."""
        try:
            return self.desk.analyst(table, self.signed.person)
        except InputError:
            raise NowhereError from None

    def ticket(self, ident: str) -> Ticket:
        """A question, by its whole id."""
        found = self.desk.register.tickets("id = ?", ident)
        if not found:
            raise NowhereError
        ticket = found[0].seen(self.desk.clock())
        if not self._may_read(ticket):
            raise NowhereError
        return ticket

    def own(self, ident: str) -> Ticket:
        """A question that the person may act on: his own, or any for a steward."""
        ticket = self.ticket(ident)
        if self.signed.role != STEWARD and ticket.by != self.signed.person:
            raise NowhereError
        return ticket

    def tickets(self, name: str = "", by: str = "", states: Sequence[str] = ()) -> list[Ticket]:
        """Questions, as in `Desk.tickets`; an analyst's own alone."""
        return self.desk.tickets(name, by if self.whole else self.signed.person, states)

    def answers(self, name: str) -> list[Ticket]:
        """Past answers at a table, by its policy."""
        return self.desk.answers(name, "" if self.whole else self.signed.person)

    def _may_see(self, table: Table) -> bool:
        if self.whole:
            return True
        if self.signed.role != ANALYST:
            return False
        known = self.desk.register.allowances(table.name).get(self.signed.person)
        return known is not None and known[1] != REVOKED

    def _may_read(self, ticket: Ticket) -> bool:
        if self.whole or ticket.by == self.signed.person:
            return True
        if ticket.state != tickets.ANSWERED:
            return False
        table = self.desk.table(ticket.table)
        return table.policy.shared and self._may_see(table)
