"""Recovery from a crash: the ledger decides whether a question is queued again, kept or lost.

ledger has the request     valid result of that release   becomes
no                         no                             queued again: nothing was read
yes                        yes, before its answer time    kept
yes                        yes, after its answer time     lost: no outcome is stored after it
yes                        no                             lost
yes, question not paid     either                         kept or lost: an old desk.db was put back
yes, question unknown      either                         restored from the entry
no, but it was booked      either                         lost: an old ledger was put back, table paused
no                         yes                            refused: impossible, table paused
"""

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import LedgerError
from dpinfer.estimators.aliases import HERE
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import checkpoints, locks, tickets
from dpinfer_desk.store.register import insert
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.store.verification import valid_result

_NO_ENTRY = "there is a result without an entry in the ledger: it is shown to nobody"


def recover(desk: Desk) -> None:
    """Settle every question on which no living process works.

    The ledger decides: a question with an entry is paid, whatever desk.db says.

    Guarantee [every_end]: after one recovery each question that was claimed or booked is queued,
    kept or lost, or a living process works on it.
    """
    for table in desk.tables():
        try:
            ledger = table.ledger()
        except LedgerError as fault:
            desk.alarm(table.name, str(fault))
            continue
        entries = {entry.request: entry for entry in ledger.entries() if entry.request}
        if not checkpoints.extends(desk.folder.checkpoints, table.ledger_path, ledger):
            desk.alarm(table.name, checkpoints.OLD_LEDGER)
        for ticket in desk.register.tickets("tab = ?", table.name):
            interrupted = ticket.state in tickets.RUNNING
            # Killed between booking and storing it in desk.db, or an old desk.db was put back.
            forgotten = ticket.state not in tickets.PAID and ticket.id in entries
            if interrupted or forgotten:
                if locks.holder(desk.folder.locks / ticket.id) is None:
                    settle(desk, ticket, entries.get(ticket.id))
            elif ticket.state in tickets.PAID and ticket.id not in entries:
                # A ledger never loses an entry, so this one is an old copy: to book in it would spend the
                # same total twice.
                desk.alarm(table.name, checkpoints.OLD_LEDGER)
        _restore(desk, table, ledger, entries)


def settle(desk: Desk, ticket: Ticket, entry: Entry | None) -> None:
    """Store the outcome of a question whose process has ended, by the table at the head of this module."""
    claimed = (tickets.CLAIMED,)
    if entry is None and ticket.state == tickets.BOOKED_STATE:
        desk.alarm(ticket.table, checkpoints.OLD_LEDGER)
        desk.register.settle(ticket.id, tickets.FAILED)
    elif entry is None and desk.folder.result(ticket.id).exists():
        # The fit reads records only after it has booked, so somebody else made this file.
        desk.alarm(ticket.table, _NO_ENTRY)
        desk.register.move(ticket.id, claimed, tickets.REFUSED, "worker", reason=_NO_ENTRY)
    elif entry is None:
        # Booking comes before the first record is read: without an entry the question can run again.
        desk.register.move(ticket.id, claimed, tickets.QUEUED, "worker", slot=None)
    elif ticket.state == tickets.BOOKED_STATE:
        desk.register.settle(ticket.id, outcome_of(desk, ticket.id, entry))
    else:
        outcome = outcome_of(desk, ticket.id, entry)
        desk.register.mark_paid(ticket.id, entry, outcome, desk.settings.response_times[-1])


def outcome_of(desk: Desk, ident: str, entry: Entry) -> str:
    """Return "kept" if the result of an entry is there and valid, else "failed"."""
    if valid_result(desk.folder, ident, entry.release) is None:
        return tickets.FAILED
    return tickets.KEPT


def _restore(desk: Desk, table: RegisteredTable, ledger: Ledger, entries: dict[str, Entry]) -> None:
    """Restore the questions that the ledger has and desk.db has not, as an old copy was put back."""
    known = {ticket.id for ticket in desk.register.tickets()}
    for request, entry in entries.items():
        if not desk.is_request(request, table.name) or request in known:
            continue
        ticket = Ticket(
            id=request,
            table=table.name,
            by=entry.by,
            key="",
            question=_question(entry),
            cost=ledger.added_up([entry]),
            state=outcome_of(desk, request, entry),
            asked=entry.time,
            response_time=desk.settings.response_times[-1],
            booking_time=entry.time,
            release=entry.release,
        )
        # With the id of the entry, so that the same key leads to this question and is not booked again.
        with desk.register.change("worker") as change:
            insert(change, ticket)
            change.event("made anew from the ledger", question=request, by=entry.by)


def _question(entry: Entry) -> AnalystQuestion:
    """Return the question of an entry, as far as the entry has it: formula, loss and cost."""
    name, _, formula = entry.purpose.partition(": ")
    losses = {face.name: loss for loss, face in HERE.items()}
    question = AnalystQuestion(formula or entry.purpose, losses.get(name, "logistic"))
    return question.at(entry.cost)  # type: ignore[arg-type]  # no entry is without privacy
