"""Response times: the public times from booking to answer, chosen on made-up records.

How long a fit takes depends on the data.  So the answer appears after a response time that depends only on
the question, the schema and the public sizes of the table: the fit is timed on made-up tables, hard ones
included, and the response time is the first of a short list that is at least `timing.SPARE` times the longest.
Each question has its own, as the time depends on every key of a question.
"""

import signal

from dpinfer.errors import DpinferError
from dpinfer_desk import timing
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.worker.fit_process import limit, refuse

UNTIMED = (
    "this fit could not be timed on made-up records within the memory and the longest response time of this desk: ask "
    "for fewer columns, or for a larger penalty"
)


def main(folder: str, ident: str) -> None:
    """Choose the response time of a queued question, in a process of its own.

    No fit of the desk runs meanwhile, as its load would make the choice depend on another table.
    """
    desk = Desk.open(folder, who="worker")
    response_times = desk.settings.response_times
    ticket = desk.register.ticket(ident)
    timeout = 2 * response_times[-1]
    limit(desk.settings.memory, timeout)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    table = desk.table(ticket.table)
    try:
        seconds = timing.choose(response_times, table, ticket.question)
    except DpinferError as fault:
        refuse(desk, ticket, (tickets.QUEUED,), table.without_folders(str(fault)))
        return
    desk.register.set_response_time(ticket.table, ticket.question.digest(), seconds)
