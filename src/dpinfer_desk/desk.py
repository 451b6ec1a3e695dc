"""A desk: tables that are registered, people with allowances, questions and their answers.

The one face of the room: the command line and the page call `Desk` and nothing else.  It reads no
record; `worker.Worker` has fits done, each in a process of its own.

    desk = Desk.create("desk")                                   # or Desk.open
    desk.add_table("visits", "visits.parquet", "schema.toml", "ledger.db")
    desk.add_person("a.meier")
    desk.allow("visits", "a.meier", 0.05)                        # ρ, or ε of a pure total
    question = Question.of({"formula": "visit ~ age", "epsilon": 1.0, "delta": 1e-6})
    desk.check("visits", question, "a.meier")                    # cost, what is left; books nothing
    desk.forecast("visits", question, [ApproxDP(.5, 1e-6)])      # how wide for which epsilon
    ticket = desk.ask("visits", question, "a.meier")
    desk.decide(ticket.id, True)                                 # where the policy asks for it
    Worker(desk).run(until_idle=True)
    desk.result(ticket.id)                                       # a FitResult, or NoAnswerError

All analysts are one adversary: the promise is the ledger's total.  Allowances share it out.
"""

import getpass
import hashlib
import os
import uuid
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pandas as pd

from dpinfer.asking.allowed import Question
from dpinfer.errors import NO_ANSWER, InputError, LedgerError, NoAnswerError
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.recipe import Recipe
from dpinfer.privacy import accountant
from dpinfer.privacy.account import Account
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import PureDP
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger, Preview
from dpinfer.result.result import FitResult
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.forecast import Forecast, forecast
from dpinfer.simulate.practice import practice
from dpinfer.tables.table import check as check_columns
from dpinfer.tables.table import number_of, table_of
from dpinfer_desk.store import published, roles, tables, tickets
from dpinfer_desk.store.checkpoints import OLD_LEDGER, still_has
from dpinfer_desk.store.folder import LADDER, PREFIX, Folder, Settings
from dpinfer_desk.store.journal import Event, Journal
from dpinfer_desk.store.register import OTHER_QUESTION, Register, insert_table
from dpinfer_desk.store.roles import ACTIVE, Analyst, Person, allowance_of, person_named
from dpinfer_desk.store.tables import Fingerprint, Policy, Table, table_named
from dpinfer_desk.store.tickets import ConflictError, RefusedError, Ticket
from dpinfer_desk.store.verification import faults_of, whole_result

SHARPEST = 1e6
"""The largest curvature of a loss, divided by that of the penalty, that may be asked for."""
_LONGEST_REASON = 1000
_LONGEST_KEY = 100
_OLD_COPY = (
    "desk.db lacks {number} events that are in journal.db, so an old copy was put back: put the newest one in its "
    "place, or go on with it by `dpinfer desk verify {path} --accept-old-copy`, and look at allowances and decisions"
)
_BACKUP = (
    "this desk.db is a backup: what was changed after it was made is not in it. Go on with it by `dpinfer desk verify "
    "{path} --accept-old-copy`, and look at accounts that were closed since, at roles, at allowances that were lowered "
    "or revoked, and at policies and tables that were paused; everybody signs in anew"
)


@dataclass(frozen=True)
class Check:
    """What asking a question would mean; nothing is booked.

    ``names`` are the coefficients, ``cost`` is in ``measure`` (ρ or ε, that of allowances),
    ``allowed`` whether total and allowance would pay for it now, ``reason`` why not.  ``waits``
    says whether the steward has to approve it, ``warning`` what to expect of it, ``hopeless`` why it
    could print next to nothing.  ``answered`` are answers to the same question that the asker may
    read for nothing.
    """

    question: Question
    names: tuple[str, ...]
    entry: Entry
    cost: float
    measure: str
    allowed: bool
    reason: str
    preview: Preview
    analyst: Analyst
    waits: bool
    warning: str
    hopeless: str
    answered: tuple[Ticket, ...]


@dataclass(frozen=True)
class Spend:
    """One entry of a ledger in a burn-down: when, by whom, for what, how much, and the sum so far."""

    time: str
    by: str
    purpose: str
    amount: float
    sum: float
    release: str
    request: str


@dataclass(frozen=True)
class Verdict:
    """Whether a desk is whole: ``faults`` in sentences, and the heads to be kept elsewhere."""

    faults: tuple[str, ...]
    heads: dict[str, str]
    events: int
    questions: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


class Desk:
    """See the module.  ``who`` acts, in the words of the journal: by default the user of the system.

    ``clock`` tells the time; tests have their own.

    Guarantee [web_needs_no_data]: a desk that is ``public``, that of the process with the network,
    opens neither data nor ledgers nor the secret, only what the worker publishes of them.
    """

    def __init__(
        self,
        folder: Folder,
        who: str = "",
        clock: Callable[[], datetime] = tickets.now,
        *,
        public: bool = False,
    ) -> None:
        self.folder = folder
        self.who = who or getpass.getuser()
        self.clock = clock
        self.public = public
        self._journal = Journal(folder.journal)
        self.register = Register(folder, self._journal, clock, public=public)
        self._forecasts: dict[tuple[object, ...], Forecast] = {}
        self._accounts: dict[str, Account] = {}

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        title: str = "",
        ladder: Sequence[float] = LADDER,
        who: str = "",
    ) -> "Desk":
        """A new desk in a folder of its own."""
        folder = Folder.create(Path(path), title, tuple(map(float, ladder)))
        Journal.create(folder.journal, folder.settings().id)
        desk = cls(folder, who)
        desk.register.make()
        with desk.register.change(desk.who) as change:
            change.event("a desk was made", title=title, ladder=list(ladder))
        return desk

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        who: str = "",
        clock: Callable[[], datetime] = tickets.now,
        *,
        old_copy: bool = False,
        public: bool = False,
    ) -> "Desk":
        """The desk in a folder; one whose desk.db is older than its journal, or a backup, only with
        ``old_copy``.
        """
        desk = cls(Folder.open(Path(path)), who, clock, public=public)
        desk._journal.require()
        lacking = desk.register.lacking()
        copied = desk.register.is_copy()
        if lacking and not old_copy:
            raise LedgerError(_OLD_COPY.format(number=lacking, path=path))
        if copied and not old_copy:
            raise LedgerError(_BACKUP.format(path=path))
        if lacking or copied:
            desk.register.accept_old_copy(desk.who)
        desk.register.catch_up()
        return desk

    def acting(self, who: str) -> "Desk":
        """The same desk, where somebody else acts."""
        other = copy(self)
        other.who = who
        return other

    @property
    def settings(self) -> Settings:
        """What stands in desk.toml."""
        return self.folder.settings()

    # Tables

    def add_table(
        self,
        name: str,
        data: str | os.PathLike[str],
        schema: str | os.PathLike[str],
        ledger: str | os.PathLike[str],
        policy: Policy = Policy(),  # noqa: B008  (frozen)
        records: int | None = None,
        although: str = "",
    ) -> Table:
        """Register a table: its files, what is public about it, and the ledger that pays.

        Names and types of the columns are looked at, and rows or units counted where their number
        is public; ``records`` is a public guess of the number where it is private.  A file that a
        table with another ledger has, too, is refused, unless ``although`` says in words that go
        into the journal why that is no second total for the same units.
        """
        if self.public:
            raise InputError("a table is registered where the data are: `dpinfer serve table add`")
        table_named(name)
        if records is not None and records < 1:
            raise InputError(f"a guess of the number of records is at least 1, not {records}")
        place = Path(data).resolve()
        public = Schema.read(Path(schema))
        book = Ledger.open(ledger)
        if book.unit != public.unit.name:
            raise InputError(
                f"the ledger protects {book.unit!r} and the schema {public.unit.name!r}: use a ledger made with "
                "--schema of this table"
            )
        if book.neighbours.units != public.unit.many:
            raise InputError(
                "the ledger and the schema differ in whether a unit has many rows: use a ledger made with --schema of "
                "this table"
            )
        table = Table(
            name=name,
            place=str(place),
            book=str(book.path),
            text=Path(schema).read_text(encoding="utf-8-sig"),
            records=_counted(place, public, book, records),
            policy=policy,
            fingerprint=Fingerprint.of(place, self.folder.secret),
            secret=self.folder.secret,
            added=self._time(),
        ).sealed()
        if not although.strip():
            self._require_one_total(table)
        if not still_has(self.folder.seen, table.book, book):
            raise LedgerError(OLD_LEDGER)
        head = book.verify().head
        with self.register.change(self.who) as change:
            if change("SELECT 1 FROM tables WHERE name = ?", name).fetchone():
                raise InputError(f"there is a table {name!r} already: choose another name")
            insert_table(change, table)
            change.event(
                "a table was added",
                table=name,
                schema=public.digest(),
                ledger=head,
                fingerprint=table.fingerprint.text(),
                policy=[policy.approval, policy.up_to, policy.shared],
                although=_reason(although),
            )
        self.publish(name)
        return table

    def _require_one_total(self, table: Table) -> None:
        """That no file of a table is paid for by another ledger of this desk."""
        for other in self.tables():
            if other.book != table.book and other.fingerprint.shares(table.fingerprint):
                raise InputError(
                    f"a file of {table.name} is one of {other.name}, too, and their ledgers differ, so that the same "
                    f"units would be protected by two totals: use the ledger of {other.name}, or say in words why not "
                    "(--although)"
                )

    def tables(self) -> list[Table]:
        """All tables, by name."""
        return self.register.tables()

    def table(self, name: str) -> Table:
        """One table."""
        return self.register.table(name)

    def set_policy(self, name: str, policy: Policy) -> Table:
        """Who decides from now on, and who reads."""
        self.table(name)
        with self.register.change(self.who) as change:
            change(
                "UPDATE tables SET approval = ?, up_to = ?, shared = ? WHERE name = ?",
                *(policy.approval, policy.up_to, int(policy.shared), name),
            )
            change.event(
                "policy", table=name, policy=[policy.approval, policy.up_to, policy.shared]
            )
        return self.table(name)

    def pause(self, name: str, reason: str) -> Table:
        """Ask and book nothing at a table until it is resumed."""
        return self._set_table(self.table(name), tables.PAUSED, _reason(reason))

    def resume(self, name: str, reason: str) -> Table:
        """Open a table again.  Files that were changed are registered anew: ``reason`` says, in
        words that go into the journal, why they are about the same units.
        """
        table = self.table(name)
        if not reason.strip():
            raise InputError("say in words why the table may be asked again: they are kept")
        if self.public and table.changed():
            raise InputError(
                f"{table.changed()}: who holds the data opens it again, with `dpinfer desk table resume`"
            )
        if self.public:
            return self._set_table(table, tables.OPEN, _reason(reason))
        place = Path(table.place)
        fresh = replace(
            table,
            records=_counted(place, table.schema, table.ledger(), table.records),
            fingerprint=Fingerprint.of(place, table.secret),
        )
        self._set_table(fresh.sealed(), tables.OPEN, _reason(reason))
        self.publish(name)
        return self.table(name)

    def alarm(self, name: str, reason: str) -> None:
        """Pause a table that is open; one that is paused keeps its reason."""
        if self.table(name).state == tables.OPEN:
            self.pause(name, reason[:_LONGEST_REASON])

    def _set_table(self, table: Table, state: str, reason: str) -> Table:
        """Write down state, files and number of a table; slots of other files are forgotten."""
        mark = table.fingerprint.text()
        with self.register.change(self.who) as change:
            change(
                "DELETE FROM slots WHERE tab = ? AND NOT EXISTS "
                "(SELECT 1 FROM tables WHERE name = tab AND fingerprint = ?)",
                *(table.name, mark),
            )
            change(
                "UPDATE tables SET state = ?, reason = ?, fingerprint = ?, records = ?, seal = ? WHERE name = ?",
                *(state, reason, mark, table.records, table.seal, table.name),
            )
            change.event(f"table {state}", table=table.name, reason=reason, fingerprint=mark)
        return self.table(table.name)

    def measure(self, name: str) -> str:
        """What allowances at a table are counted in."""
        return accountant.counted_in(self.table(name).ledger().total)

    def export_ledger(self, name: str) -> str:
        """The ledger of a table as JSON lines with hashes, for an auditor."""
        return self.table(name).ledger().lines()

    def publish(self, name: str) -> None:
        """Tell those who may read neither data nor ledger of a table how both stand; of a table that
        is not the one registered nothing is written, as its name may not be its own either.
        """
        table = self.table(name)
        if not table.is_sealed():
            return
        place = self.folder.account(name)
        try:
            published.write(place, table.ledger(), table.changed())
        except LedgerError as fault:
            published.write(place, None, "", table.public(str(fault)))

    def account(self, name: str) -> Account:
        """What was spent of the total of a table, and what is left.  It is reckoned once for each
        copy of a ledger that is published.
        """
        ledger = self.table(name).ledger()
        if not self.public:
            return Account.of(ledger)
        known = self._accounts.get(name)
        if known is None or known.ledger is not ledger:
            known = Account.of(ledger)
            self._accounts[name] = known
        return known

    def burn_down(self, name: str) -> list[Spend]:
        """Every entry of the ledger of a table, with the sum so far in the terms of allowances."""
        ledger = self.table(name).ledger()
        spends = []
        so_far = 0.0
        for entry in ledger.entries():
            amount = ledger.added_up([entry])
            so_far += amount
            spends.append(
                Spend(
                    time=entry.time,
                    by=entry.by,
                    purpose=entry.purpose,
                    amount=amount,
                    sum=so_far,
                    release=entry.release,
                    request=entry.request,
                )
            )
        return spends

    # People

    def add_person(self, name: str, words: str = "") -> Person:
        """Somebody who may be given allowances; ``words`` are for the steward."""
        person = Person(person_named(name), words, self._time())
        with self.register.change(self.who) as change:
            if change("SELECT 1 FROM people WHERE name = ?", person.name).fetchone():
                raise InputError(f"there is a person {name!r} already: choose another name")
            change("INSERT INTO people VALUES (?, ?, ?)", person.name, words, person.added)
            change.event("a person was added", person=person.name, words=words)
        return person

    def people(self) -> list[Person]:
        """All people, by name."""
        return self.register.people()

    def allow(self, name: str, person: str, amount: float) -> Analyst:
        """Give a person an allowance at a table, or another one, in what the table counts: ρ, or ε
        of a pure total.
        """
        table = self.table(name)
        if not any(one.name == person for one in self.people()):
            raise InputError(f"there is no person {person!r}: `dpinfer desk person add` first")
        total = table.ledger().total
        allowance_of(total, amount)
        with self.register.change(self.who) as change:
            change(
                "INSERT INTO allowances VALUES (?, ?, ?, ?) "
                "ON CONFLICT (tab, person) DO UPDATE SET amount = excluded.amount",
                *(name, person, amount, ACTIVE),
            )
            change.event("allowance", table=name, person=person, amount=amount)
        return self.analyst(name, person)

    def set_state(self, name: str, person: str, state: str, reason: str = "") -> Analyst:
        """Make an analyst active, paused or revoked at a table, at once.  What one who is revoked
        has asked and not paid is declined.
        """
        if state not in roles.STATES:
            raise InputError(f"an analyst is {', '.join(roles.STATES)}, not {state!r}")
        self.analyst(name, person)
        with self.register.change(self.who) as change:
            change(
                "UPDATE allowances SET state = ? WHERE tab = ? AND person = ?", state, name, person
            )
            change.event(f"analyst {state}", table=name, person=person, reason=_reason(reason))
        if state == roles.REVOKED:
            for ticket in self.tickets(name, person, (tickets.WAITING, tickets.QUEUED)):
                self._decline(ticket.id, "the access of the asker was revoked")
        return self.analyst(name, person)

    def analysts(self, name: str) -> list[Analyst]:
        """Everybody with an allowance at a table, and what they have spent by its ledger."""
        ledger = self.table(name).ledger()
        entries = ledger.entries()
        return [
            Analyst(
                name,
                person,
                amount,
                ledger.added_up(entry for entry in entries if entry.by == person),
                state,
            )
            for person, (amount, state) in self.register.allowances(name).items()
        ]

    def analyst(self, name: str, person: str) -> Analyst:
        """One of them."""
        for analyst in self.analysts(name):
            if analyst.person == person:
                return analyst
        raise InputError(
            f"{person!r} has no allowance at {name}: the steward gives one with `dpinfer desk allow`"
        )

    def reserved(self, name: str) -> bool:
        """Whether the allowances add up to no more than the total, so that each can be spent whole;
        else who comes first is served first.
        """
        total = self.table(name).ledger().total
        most = total.epsilon if isinstance(total, PureDP) else total.zcdp().rho
        amounts = (amount for amount, _ in self.register.allowances(name).values())
        return sum(amounts) <= most * (1 + accountant.ROUNDING)

    # Questions

    def check(self, name: str, question: Question, by: str) -> Check:
        """What asking would mean.  Nothing is booked, and no record is read: what is told depends on
        the schema, the ledger and the number of records where it is public.
        """
        table = self.table(name)
        analyst = self.analyst(name, by)
        ledger = table.ledger()
        schema = table.schema
        model = question.model(schema, ledger.neighbours)
        response, terms = parse(model.asked_formula or "", schema)
        design = Design.of_formula(response, terms, model.kind, schema.unit)
        model.read(practice(schema, 2))  # raises what is wrong with names, types and the outcome
        n = table.records if table.records is not None else 1
        entry = replace(model.entry(n), by=by)
        recipe = model.recipe(design, n)
        _require_blunt(recipe, n)
        counted = ledger.neighbours.counted  # a private number decides nothing
        preview = ledger.preview(entry, within=allowance_of(ledger.total, analyst.amount))
        cost = ledger.added_up([entry])
        reason = table.public(preview.reason) or _shut(table, analyst)
        return Check(
            question=question,
            names=tuple(design.names),
            entry=entry,
            cost=cost,
            measure=accountant.counted_in(ledger.total),
            allowed=not reason,
            reason=reason,
            preview=preview,
            analyst=analyst,
            waits=table.policy.waits(cost),
            warning=recipe.advice(n) if counted else "",
            hopeless=recipe.futility(n) if counted else "",
            answered=tuple(self._same(table, question, by)),
        )

    def forecast(
        self,
        name: str,
        question: Question,
        budgets: Sequence[Total] | None = None,
        replicates: int = 20,
    ) -> Forecast:
        """How long the intervals will be, for each of some budgets, from made-up records alone."""
        table = self.table(name)
        if table.records is None:
            raise InputError(
                f"the number of records of {name} is private, and no guess of it was registered: there is no forecast"
            )
        asked = tuple(budgets or (question.budget,))
        key = (name, table.text, question.digest(), question.level, asked, replicates)
        if key not in self._forecasts:
            model = question.model(table.schema, table.ledger().neighbours)
            self._forecasts[key] = forecast(
                model,
                records=table.records,
                budgets=asked,
                level=question.level,
                replicates=replicates,
            )
        return self._forecasts[key]

    def ask(
        self,
        name: str,
        question: Question,
        by: str,
        key: str = "",
        *,
        again: bool = False,
        anyway: bool = False,
    ) -> Ticket:
        """Ask: see `take`, which also tells whether the question is new."""
        return self.take(name, question, by, key, again=again, anyway=anyway)[0]

    def take(
        self,
        name: str,
        question: Question,
        by: str,
        key: str = "",
        *,
        again: bool = False,
        anyway: bool = False,
    ) -> tuple[Ticket, bool]:
        """Ask; the question, and whether it is new.

        The same ``key`` by the same person at the same table is the same question, however
        often it is sent; without a key the question itself is the key, and what was declined,
        withdrawn or refused is asked anew.  ``again`` asks, and pays, what is open or was
        answered or lost before; ``anyway`` what could print next to nothing.

        Guarantee [asked_once]: a key leads to one question and to one entry of the ledger, also if
        desk.db was put back.
        """
        if again and not key:
            key = uuid.uuid4().hex
        if key and (not key.isprintable() or len(key) > _LONGEST_KEY):
            raise InputError(f"a key is a text in one line of at most {_LONGEST_KEY} characters")
        ident = self._ident(name, by, key or question.digest())
        there = self.register.tickets("id = ?", ident)
        same = bool(there) and there[0].question.digest() == question.digest()
        if same and (key or there[0].state not in tickets.FREE):
            return self._seen(there[0]), False
        if there and not same:
            raise ConflictError(OTHER_QUESTION)
        found = self.check(name, question, by)
        if not found.allowed:
            raise RefusedError(found.reason)
        if found.answered and not again:
            raise ConflictError(
                f"this was answered already, as {found.answered[0].id[:12]}, which is free to read; to ask and pay "
                "again, say so (--again)"
            )
        if found.hopeless and not anyway:
            raise ConflictError(
                f"{found.hopeless}; nothing was asked. Raise the budget, or ask for fewer columns; or ask all the "
                "same (--anyway)"
            )
        settings = self.settings
        if self.folder.room() < settings.free:
            raise ConflictError(
                f"less than {settings.free} MB are free on the disk of the desk: nothing is taken before there is room"
            )
        ticket = Ticket(
            id=ident,
            table=name,
            by=by,
            key=key or question.digest(),
            question=question,
            cost=found.cost,
            state=tickets.WAITING if found.waits else tickets.QUEUED,
            asked=self._time(),
        )
        limits = (settings.open_per_person, settings.open_per_table)
        asked, new = self.register.add(ticket, self.who, limits, again=again)
        return self._seen(asked), new

    def tickets(self, name: str = "", by: str = "", states: Sequence[str] = ()) -> list[Ticket]:
        """Questions in the order in which they were asked: of a table, by a person, in some states."""
        where = "? IN ('', tab) AND ? IN ('', asker)"
        stored = tickets.stored_as(states)
        if stored:
            where += f" AND state IN ({', '.join('?' * len(stored))})"
        found = [self._seen(ticket) for ticket in self.register.tickets(where, name, by, *stored)]
        return [ticket for ticket in found if not states or ticket.state in states]

    def ticket(self, ident: str) -> Ticket:
        """One question as it may be shown now, by its id, the beginning of it, or its key."""
        return self._seen(self.register.ticket(ident))

    def decide(self, ident: str, approve: bool, reason: str = "") -> Ticket:
        """Approve a question that waits, or decline it, by question and cost."""
        ticket = self.register.ticket(ident)
        if not approve:
            return self._decline(ticket.id, _reason(reason))
        moved = self.register.move(
            ticket.id,
            (tickets.WAITING,),
            tickets.QUEUED,
            self.who,
            decided=self._time(),
            decider=self.who,
            reason=_reason(reason),
        )
        if moved is None:
            raise _too_late(self._seen(ticket), "approved")
        return moved

    def _decline(self, ident: str, reason: str) -> Ticket:
        moved = self.register.move(
            ident,
            (tickets.WAITING, tickets.QUEUED),
            tickets.DECLINED,
            self.who,
            decided=self._time(),
            decider=self.who,
            reason=reason,
        )
        if moved is None:
            raise _too_late(self.ticket(ident), "declined")
        return moved

    def withdraw(self, ident: str) -> Ticket:
        """Take a question back before it is booked; that is free."""
        ticket = self.register.ticket(ident)
        before = (tickets.WAITING, tickets.QUEUED)
        moved = self.register.move(ticket.id, before, tickets.WITHDRAWN, self.who)
        if moved is None:
            raise _too_late(self._seen(ticket), "withdrawn")
        return moved

    def result(self, ident: str) -> FitResult:
        """The result of a question whose time has come; `NoAnswerError` where it is lost.

        Guarantee [two_outcomes]: of a question that was booked nothing is ever shown but its result
        or one fixed text.
        """
        ticket = self.ticket(ident)
        if ticket.state == tickets.LOST_STATE:
            raise NoAnswerError
        if ticket.state != tickets.ANSWERED:
            raise InputError(f"there is no answer yet: {told(ticket)}")
        result = whole_result(self.folder, ticket.id, ticket.release)
        if result is None:
            raise NoAnswerError
        return result

    def answers(self, name: str, by: str = "") -> list[Ticket]:
        """Past answers at a table: all of them where its policy shares them or nobody is named, else
        those that ``by`` asked for.
        """
        own = "" if self.table(name).policy.shared else by
        return self.tickets(name, own, (tickets.ANSWERED,))

    def practice(self, name: str, records: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Made-up records with the columns of a table, to practise on, free of charge."""
        return practice(self.table(name).schema, records, seed)

    # The journal

    def journal(self) -> list[Event]:
        """Everything that happened at the desk, oldest first."""
        return self._journal.events()

    def export_journal(self) -> str:
        """The journal as JSON lines with hashes, for an auditor."""
        return self._journal.lines()

    def verify(self, *, thorough: bool = False) -> Verdict:
        """Whether journal, questions, ledgers and results fit together; ``thorough`` also compares
        the bytes of the tables with those that were registered.
        """
        faults = faults_of(self.register, self._journal, self.folder, thorough=thorough)
        events = self._journal.last()
        return Verdict(tuple(faults), self.heads(), events, len(self.register.tickets()))

    def heads(self) -> dict[str, str]:
        """The hashes that the journal and each ledger end with: kept elsewhere, they tell whether an
        old copy was put back.
        """
        heads = {"journal": self._journal.head()}
        return heads | {f"ledger of {table.name}": _head(table) for table in self.tables()}

    def _ident(self, name: str, by: str, key: str) -> str:
        """The id of a question: the same for the same key of the same person, whatever desk.db has."""
        desk = self.settings.id
        content = "\n".join((desk, name, by, key))
        return desk[:PREFIX] + hashlib.sha256(content.encode()).hexdigest()[:18] + _ending(name)

    def asked_of(self, request: str, name: str) -> bool:
        """Whether a request in a ledger is a question of a table of this desk, as its id tells."""
        return self.folder.owns(request) and request.endswith(_ending(name))

    def _same(self, table: Table, question: Question, by: str) -> list[Ticket]:
        """Answers to the same question that ``by`` may read."""
        return [
            ticket
            for ticket in self.answers(table.name, by)
            if ticket.question.digest() == question.digest()
        ]

    def _seen(self, ticket: Ticket) -> Ticket:
        return ticket.seen(self.clock())

    def _time(self) -> str:
        return self.clock().isoformat()


def told(ticket: Ticket) -> str:
    """The state of a question in a sentence."""
    due = ticket.due
    sentences = {
        tickets.WAITING: "it waits for the steward",
        tickets.QUEUED: "it is in the queue",
        tickets.CLAIMED: "it is about to be booked",
        tickets.BOOKED: f"it is booked; the answer is shown at {due and due.isoformat(' ', 'seconds')}, a time that "
        "does not depend on the data",
        tickets.ANSWERED: "it is answered",
        tickets.LOST_STATE: NO_ANSWER,
        tickets.DECLINED: f"it was declined: {ticket.reason or 'no reason was given'}",
        tickets.WITHDRAWN: "it was withdrawn",
        tickets.REFUSED: f"it was refused, and nothing was spent: {ticket.reason}",
    }
    return sentences[ticket.state]


def _require_blunt(recipe: Recipe, n: int) -> None:
    """That a penalised minimum is found in a time that depends little on the data: a curvature that
    is large beside the penalty lets the number of steps tell of the records.
    """
    if not isinstance(recipe, Penalised):
        return
    risk = recipe.risk(n)
    curvature = risk.loss.curvature_bound
    floor = curvature / (2 * SHARPEST)
    if risk.penalty < floor:
        raise InputError(
            f"at a desk a penalty of at least {floor:.3g} is needed with this loss, not {risk.penalty:.3g}, as with a "
            "smaller one the time of the fit would tell of the data: raise penalty, or knee or bandwidth"
        )


def _ending(name: str) -> str:
    """What the ids of all questions of a table end with: several tables may have one ledger."""
    return hashlib.sha256(name.encode()).hexdigest()[:6]


def _counted(place: Path, schema: Schema, ledger: Ledger, guess: int | None) -> int | None:
    """The number of records or units where it is public, else the guess; `InputError` where names or
    types of the columns are not those of the schema.
    """
    found = table_of(str(place))
    columns = [*schema.columns.values(), *schema.unit.columns]
    check_columns(found, columns)
    if not ledger.neighbours.counted:
        return guess
    return number_of(found, columns, schema.unit, counted=True)


def _shut(table: Table, analyst: Analyst) -> str:
    """Why nothing can be asked now; empty where it can."""
    if table.state != tables.OPEN:
        return f"the table {table.name} is paused: ask the steward"
    if analyst.state != ACTIVE:
        return (
            f"the access of {analyst.person!r} to {table.name} is {analyst.state}: ask the steward"
        )
    return ""


def _too_late(ticket: Ticket, what: str) -> ConflictError:
    return ConflictError(f"the question {ticket.id[:12]} cannot be {what} any more: {told(ticket)}")


def _reason(text: str) -> str:
    if len(text) > _LONGEST_REASON:
        raise InputError(f"a reason has at most {_LONGEST_REASON} characters: shorten it")
    return text.strip()


def _head(table: Table) -> str:
    try:
        return table.ledger().verify().head
    except LedgerError as fault:
        return str(fault)
