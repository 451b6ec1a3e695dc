"""Whether journal, questions, ledgers and results of a desk fit together: for an auditor, offline."""

from collections.abc import Iterator

from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy.entries import Entry
from dpinfer.result.result import FitResult
from dpinfer_desk.store import tickets
from dpinfer_desk.store.folder import Folder
from dpinfer_desk.store.journal import Journal
from dpinfer_desk.store.register import Register
from dpinfer_desk.store.tables import Table
from dpinfer_desk.store.tickets import Ticket

_HAS_RESULT = (tickets.KEPT, tickets.ANSWERED)


def whole_result(folder: Folder, ident: str, release: str) -> FitResult | None:
    """The result of a question, if it is whole and names the release that was booked for it."""
    path = folder.result(ident)
    try:
        result = FitResult.load(path)
    except (InputError, OSError, ValueError):
        return None
    return result if result.privacy.release == release else None


def faults_of(
    register: Register, journal: Journal, folder: Folder, *, thorough: bool = False
) -> Iterator[str]:
    """What is wrong, in sentences."""
    broken = journal.verify()
    if broken:
        yield f"the journal: {broken}"
        return
    if register.lacking():
        yield f"desk.db lacks {register.lacking()} events that are in the journal"
    yield from _events_that_differ(register, journal)
    found = {ticket.id: ticket for ticket in register.tickets()}
    for table in register.tables():
        yield from _of_table(table, found, folder, thorough)
    yield from _strangers(found, folder)


def _events_that_differ(register: Register, journal: Journal) -> Iterator[str]:
    with register.read() as sql:
        texts = dict(sql("SELECT number, body FROM events").fetchall())
    for event in journal.events():
        if event.number in texts and texts[event.number] != event.text():
            yield f"event {event.number} of desk.db is another one than in the journal"


def _of_table(
    table: Table, found: dict[str, Ticket], folder: Folder, thorough: bool
) -> Iterator[str]:
    try:
        ledger = table.ledger()
        booked = {entry.request: entry for entry in ledger.entries() if entry.request}
    except (LedgerError, InputError) as fault:
        yield f"the ledger of {table.name}: {fault}"
        return
    own = [ticket for ticket in found.values() if ticket.table == table.name]
    for ticket in own:
        yield from _of_ticket(ticket, booked.get(ticket.id), folder)
    for request in booked:
        if folder.owns(request) and request not in found:
            yield (
                f"the ledger of {table.name} has an entry of the question {request[:12]}, which desk.db does not know: "
                "`dpinfer desk run` takes it up"
            )
    change = table.changed()
    if change:
        yield f"{table.name}: {change}"
    if thorough and table.altered():
        yield f"{table.name}: {table.altered()}"


def _of_ticket(ticket: Ticket, entry: Entry | None, folder: Folder) -> Iterator[str]:
    name = f"the question {ticket.id[:12]}"
    if ticket.state in tickets.PAID and entry is None:
        yield f"{name} is {ticket.state} and the ledger has no entry of it"
    if entry is not None and (entry.by != ticket.by or ticket.state not in _MAY_BE_PAID):
        yield f"{name} is {ticket.state}, by {ticket.by!r}, and the ledger has an entry by {entry.by!r}"
    there = folder.result(ticket.id).exists()
    if there and entry is None:
        yield f"{name} has a result without an entry in the ledger"
    if entry is not None and ticket.state in _HAS_RESULT:
        result = whole_result(folder, ticket.id, entry.release)
        if result is None:
            yield f"the result of {name} is missing, damaged, or names another release"
        elif result.privacy.events != entry.events:
            yield f"the result of {name} names other releases than those booked"


_MAY_BE_PAID = (tickets.CLAIMED, *tickets.PAID)  # claimed: booked a moment ago


def _strangers(found: dict[str, Ticket], folder: Folder) -> Iterator[str]:
    for place in sorted(folder.results.iterdir()):
        if place.name not in found:
            yield f"results/{place.name} belongs to no question that desk.db knows"
