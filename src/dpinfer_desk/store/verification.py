"""The check that journal, questions, ledgers and results of a desk are consistent, for an auditor."""

from collections.abc import Iterator

from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy.entries import Entry
from dpinfer.result.result import FitResult
from dpinfer_desk.store import tickets
from dpinfer_desk.store.folder import Folder
from dpinfer_desk.store.journal import Journal
from dpinfer_desk.store.moment_files import faults_of_releases
from dpinfer_desk.store.register import Register
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket

_HAS_RESULT = (tickets.KEPT, tickets.ANSWERED)


def valid_result(folder: Folder, ident: str, release: str) -> FitResult | None:
    """Load the result of a question; None if it is damaged or not of the release that was booked."""
    path = folder.result(ident)
    try:
        result = FitResult.load(path)
    except (InputError, OSError, ValueError):
        return None
    return result if result.privacy.release == release else None


def faults_of(
    register: Register, journal: Journal, folder: Folder, *, thorough: bool = False
) -> Iterator[str]:
    """Yield each inconsistency as a sentence."""
    broken = journal.verify()
    if broken:
        yield f"the journal: {broken}"
        return
    if register.lacking():
        yield f"desk.db lacks {register.lacking()} events that are in the journal"
    yield from _events_that_differ(register, journal)
    known = {ticket.id: ticket for ticket in register.tickets()}
    for table in register.tables():
        yield from _faults_of_table(table, known, folder, thorough)
    yield from _unknown_results(known, folder)
    yield from faults_of_releases(folder, register.tables(), journal.events())


def _events_that_differ(register: Register, journal: Journal) -> Iterator[str]:
    with register.read() as sql:
        texts = dict(sql("SELECT number, body FROM events").fetchall())
    for event in journal.events():
        if event.number in texts and texts[event.number] != event.text():
            yield f"event {event.number} of desk.db differs from the one in the journal"


def _faults_of_table(
    table: RegisteredTable, known: dict[str, Ticket], folder: Folder, thorough: bool
) -> Iterator[str]:
    try:
        ledger = table.ledger()
        entries = {entry.request: entry for entry in ledger.entries() if entry.request}
    except (LedgerError, InputError) as fault:
        yield f"the ledger of {table.name}: {fault}"
        return
    own = [ticket for ticket in known.values() if ticket.table == table.name]
    for ticket in own:
        yield from _faults_of_ticket(ticket, entries.get(ticket.id), folder)
    for request in entries:
        if folder.owns(request) and request not in known:
            yield (
                f"the ledger of {table.name} has an entry of the question {request[:12]}, which desk.db does not know: "
                "`dpinfer desk run` takes it up"
            )
    change = table.changed()
    if change:
        yield f"{table.name}: {change}"
    if thorough and table.altered():
        yield f"{table.name}: {table.altered()}"


def _faults_of_ticket(ticket: Ticket, entry: Entry | None, folder: Folder) -> Iterator[str]:
    name = f"the question {ticket.id[:12]}"
    if ticket.state in tickets.PAID and entry is None:
        yield f"{name} is {ticket.state} and the ledger has no entry of it"
    if entry is not None and (entry.by != ticket.by or ticket.state not in _MAY_BE_PAID):
        yield f"{name} is {ticket.state}, by {ticket.by!r}, and the ledger has an entry by {entry.by!r}"
    there = folder.result(ticket.id).exists()
    # A result that nobody paid for: the fit books before it reads a record.
    if there and entry is None:
        yield f"{name} has a result without an entry in the ledger"
    if entry is not None and ticket.state in _HAS_RESULT:
        result = valid_result(folder, ticket.id, entry.release)
        if result is None:
            yield f"the result of {name} is missing, damaged, or names another release"
        elif result.privacy.events != entry.events:
            yield f"the result of {name} names other releases than those booked"


# A claimed question may have been booked a moment ago, and desk.db not know it yet.
_MAY_BE_PAID = (tickets.CLAIMED, *tickets.PAID)


def _unknown_results(known: dict[str, Ticket], folder: Folder) -> Iterator[str]:
    for path in sorted(folder.results.iterdir()):
        if path.name not in known:
            yield f"results/{path.name} belongs to no question that desk.db knows"
