"""What a crash left: each question that was under way is queued again, kept or lost, by the ledger.

ledger has the request     whole result of that release   becomes
no                         no                             queued again: nothing was read
yes                        yes, and its slot goes on      kept
yes                        yes, and its slot is over      lost: nothing is kept after its slot
yes                        no                             lost
yes, question not paid     either                         kept or lost: an old desk.db was put back
yes, question unknown      either                         made anew from the entry
no, but it was booked      either                         lost: an old ledger was put back, table paused
no                         yes                            refused: impossible, table paused
"""

from dpinfer.asking.allowed import Question
from dpinfer.errors import LedgerError
from dpinfer.estimators.aliases import HERE
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.checkpoints import OLD_LEDGER, still_has
from dpinfer_desk.store.locks import holder
from dpinfer_desk.store.register import insert
from dpinfer_desk.store.tables import Table
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.store.verification import whole_result

_IMPOSSIBLE = "a result is there that the ledger has no entry of: it is shown to nobody"


def recover(desk: Desk) -> None:
    """Settle everything that no living process works on.  The ledger decides: what has an entry is
    paid, whatever desk.db says.

    Guarantee [every_end]: after one recovery each question that was claimed or booked is queued,
    kept or lost, or a living process works on it.
    """
    for table in desk.tables():
        try:
            ledger = table.ledger()
        except LedgerError as fault:
            desk.alarm(table.name, str(fault))
            continue
        booked = {entry.request: entry for entry in ledger.entries() if entry.request}
        if not still_has(desk.folder.seen, table.book, ledger):
            desk.alarm(table.name, OLD_LEDGER)
        for ticket in desk.register.tickets("tab = ?", table.name):
            under_way = ticket.state in tickets.RUNNING
            forgotten = ticket.state not in tickets.PAID and ticket.id in booked
            if under_way or forgotten:
                if holder(desk.folder.locks / ticket.id) is None:
                    settle(desk, ticket, booked.get(ticket.id))
            elif ticket.state in tickets.PAID and ticket.id not in booked:
                desk.alarm(table.name, OLD_LEDGER)
        _adopt(desk, table, ledger, booked)


def settle(desk: Desk, ticket: Ticket, entry: Entry | None) -> None:
    """What becomes of a question whose process has ended."""
    claimed = (tickets.CLAIMED,)
    if entry is None and ticket.state == tickets.BOOKED:
        desk.alarm(ticket.table, OLD_LEDGER)
        desk.register.settle(ticket.id, tickets.FAILED)
    elif entry is None and desk.folder.result(ticket.id).exists():
        desk.alarm(ticket.table, _IMPOSSIBLE)
        desk.register.move(ticket.id, claimed, tickets.REFUSED, "worker", reason=_IMPOSSIBLE)
    elif entry is None:
        desk.register.move(ticket.id, claimed, tickets.QUEUED, "worker", slot=None)
    elif ticket.state == tickets.BOOKED:
        desk.register.settle(ticket.id, outcome_of(desk, ticket.id, entry))
    else:
        outcome = outcome_of(desk, ticket.id, entry)
        desk.register.found_paid(ticket.id, entry, outcome, desk.settings.ladder[-1])


def outcome_of(desk: Desk, ident: str, entry: Entry) -> str:
    """Whether the result that was paid for is there."""
    if whole_result(desk.folder, ident, entry.release) is None:
        return tickets.FAILED
    return tickets.KEPT


def _adopt(desk: Desk, table: Table, ledger: Ledger, booked: dict[str, Entry]) -> None:
    """Make the questions anew that the ledger knows and desk.db does not: an old copy was put back."""
    known = {ticket.id for ticket in desk.register.tickets()}
    for request, entry in booked.items():
        if not desk.asked_of(request, table.name) or request in known:
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
            slot=desk.settings.ladder[-1],
            booked=entry.time,
            release=entry.release,
        )
        with desk.register.change("worker") as change:
            insert(change, ticket)
            change.event("made anew from the ledger", question=request, by=entry.by)


def _question(entry: Entry) -> Question:
    """What an entry tells of its question: the formula, the model and the cost."""
    name, _, formula = entry.purpose.partition(": ")
    losses = {face.name: loss for loss, face in HERE.items()}
    question = Question(formula or entry.purpose, losses.get(name, "logistic"))
    return question.at(entry.cost)  # type: ignore[arg-type]  # no entry is without privacy
