"""Desks for tests: a small table, short slots, processes that are forks of this one."""

import warnings
from contextlib import contextmanager
from datetime import timedelta

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.worker.worker import Worker
from helpers.terminal import files_in

FORMULA = "y ~ a + b"


def question(formula=FORMULA, **keys):
    return AnalystQuestion.of({"formula": formula, **({"rho": 0.1} if not keys else {}), **keys})


def desk_in(folder, total=None, response_times=(0.6,), policy=None, allowance=100.0, **table):
    """A desk with one table and one analyst."""
    files_in(folder)
    dp.Ledger.create(folder / "ledger.db", total or dp.ZCDP(1000.0))
    desk = Desk.create(folder / "desk", response_times=response_times, who="steward")
    desk.add_table(
        "visits",
        folder / "table.parquet",
        folder / "schema.toml",
        folder / "ledger.db",
        policy or Policy("none"),
        **table,
    )
    desk.add_person("meier")
    desk.allow("visits", "meier", allowance)
    return desk


def ask(desk, rho=0.1, by="meier", **options):
    return desk.ask("visits", question(rho=rho), by, anyway=True, **options)


@contextmanager
def forks():
    """Without the warning about forks beside threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def work(desk):
    """Everything that is in the queue."""
    with forks():
        Worker(desk, "fork").run(until_idle=True)


def hasten(desk, seconds=7200.0):
    """Let the clock of a desk be ahead while it looks at a question whose outcome is written down, so
    that no test waits for a slot to end.
    """
    plain = desk.clock
    ahead = [timedelta(0)]
    ticket = desk.register.ticket

    def looked_at(name):
        found = ticket(name)
        ahead[0] = timedelta(seconds=seconds * (found.state in tickets.SETTLED))
        return found

    desk.register.ticket = looked_at
    desk.clock = lambda: plain() + ahead[0]
    return desk


def later(desk, seconds=10**7):
    """The same desk in some months."""
    moment = desk.clock() + timedelta(seconds=seconds)
    return Desk.open(desk.folder.path, clock=lambda: moment, old_copy=True)
