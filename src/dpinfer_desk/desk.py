"""A desk: registered tables, persons with allowances, questions and their answers.

Command line and pages call `Desk`.  It reads no record; `worker.Worker` runs each fit in a process of
its own.

    desk = Desk.create("desk")                                   # or Desk.open
    desk.add_table("visits", "visits.parquet", "schema.toml", "ledger.db")
    desk.add_person("a.meier")
    desk.allow("visits", "a.meier", 0.05)                        # ρ, or ε of a pure total
    question = AnalystQuestion.of({"formula": "visit ~ age", "epsilon": 1.0, "delta": 1e-6})
    desk.check("visits", question, "a.meier")                    # cost and what is left; nothing is booked
    desk.forecast("visits", question, [ApproxDP(.5, 1e-6)])      # widths of intervals for some budgets
    ticket = desk.ask("visits", question, "a.meier")
    desk.decide(ticket.id, True)                                 # if the policy asks for it
    Worker(desk).run(until_idle=True)
    desk.result(ticket.id)                                       # a FitResult, or NoAnswerError

All analysts are one adversary: the privacy guarantee is the total of the ledger.  Allowances divide the
total among analysts, and are no guarantee.
"""

import getpass
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import pandas as pd

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import NO_ANSWER, DpinferError, InputError, LedgerError, NoAnswerError
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.recipe import Recipe
from dpinfer.moment_release.released_moments import MomentRelease, moments
from dpinfer.privacy import accountant
from dpinfer.privacy.account import Account
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ApproxDP, PureDP, power_of_ten
from dpinfer.privacy.decimals import added, written
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger, Preview, larger_delta
from dpinfer.privacy.shares import TotalShares
from dpinfer.result.result import FitResult
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.forecast import Forecast, forecast
from dpinfer.simulate.practice import practice
from dpinfer_desk import timing
from dpinfer_desk.admission import DeclaredSizes, admit, require_memory, texts_of
from dpinfer_desk.store import checkpoints, moment_files, published, roles, tables, tickets
from dpinfer_desk.store.folder import PREFIX, RESPONSE_TIMES, Folder, Settings
from dpinfer_desk.store.journal import Event, EventFilter, Journal
from dpinfer_desk.store.register import OTHER_QUESTION, Register, insert_table, limit_reason
from dpinfer_desk.store.roles import ACTIVE, Analyst, Person, allowance_of, person_named
from dpinfer_desk.store.sentences import Context, sentence_of
from dpinfer_desk.store.tables import Fingerprint, Policy, RegisteredTable, table_named
from dpinfer_desk.store.tickets import ConflictError, RefusedError, Ticket, UnconfirmedError
from dpinfer_desk.store.verification import faults_of, valid_result

MAX_CONDITION = 1e6
"""The largest curvature of a loss, divided by that of its penalty, in a question."""
NO_REASON = "a declined question needs a reason, which its analyst reads: give one"
_MAX_REASON = 1000  # characters
_MAX_KEY = 100  # characters
_UNPAID = (tickets.WAITING, tickets.QUEUED)  # and no process has claimed it
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
class QuestionCheck:
    """The consequences of asking a question, before it is asked; nothing is booked.

    ``names`` are the coefficients, and ``cost`` is in ``measure`` (ρ or ε, that of allowances);
    ``shares`` writes it for people.
    ``permitted`` tells whether it could be asked and paid now, and ``reason`` why not.  ``waits`` tells
    whether it needs an approval.  ``warning`` says what to expect, and ``low_budget`` why hardly any
    coefficient could be reported.  ``answered`` are answers to the same question that the analyst may
    read free of charge.
    """

    question: AnalystQuestion
    names: tuple[str, ...]
    entry: Entry
    cost: float
    measure: str
    shares: TotalShares
    permitted: bool
    reason: str
    preview: Preview
    analyst: Analyst
    waits: bool
    warning: str
    low_budget: str
    answered: tuple[Ticket, ...]


@dataclass(frozen=True)
class OpenQuestions:
    """The ``number`` of open questions of an analyst at a table, its ``limit``, and the ``reason`` why
    there cannot be one more now; empty where there can.
    """

    number: int
    limit: int
    reason: str


@dataclass(frozen=True)
class Spend:
    """An entry of a ledger with its cost and the sum of all costs so far, in the measure of allowances.

    ``asked`` is the cost as it was asked, and ``used`` the share of the total that was used after it.
    """

    time: str
    by: str
    purpose: str
    asked: str
    amount: float
    sum: float
    used: float
    release: str
    request: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of a verification: ``faults`` as sentences, and the ``heads`` to store elsewhere."""

    faults: tuple[str, ...]
    heads: dict[str, str]
    events: int
    questions: int

    @property
    def ok(self) -> bool:
        return not self.faults


class Desk:
    """A desk, as the person ``who`` uses it: the journal has this name; by default the system's user.

    ``clock`` returns the time.  A ``public`` desk is that of the process with the network.

    Guarantee [web_needs_no_data]: a desk that is ``public`` opens neither data nor ledgers nor the
    secret, only the copies of ledgers that the worker publishes.
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
        response_times: Sequence[float] = RESPONSE_TIMES,
        who: str = "",
    ) -> "Desk":
        """Make a desk in a new folder; ``response_times`` are the possible seconds from booking to answer."""
        folder = Folder.create(Path(path), title, tuple(map(float, response_times)))
        Journal.create(folder.journal, folder.settings().id)
        desk = cls(folder, who)
        desk.register.make()
        with desk.register.change(desk.who) as change:
            change.event("a desk was made", title=title, ladder=list(response_times))
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
        """Open a desk; with ``old_copy`` also one whose desk.db is older than its journal, or a backup."""
        desk = cls(Folder.open(Path(path)), who, clock, public=public)
        # Before anything is written: events must not go into a file that is no journal, nor changes into an
        # old desk.db.
        desk._journal.require()
        lacking = desk.register.lacking()
        copied = desk.register.is_copy()
        if lacking and not old_copy:
            raise LedgerError(_OLD_COPY.format(number=lacking, path=path))
        if copied and not old_copy:
            raise LedgerError(_BACKUP.format(path=path))
        if lacking or copied:
            desk.register.accept_old_copy(desk.who)
        desk.register.upgrade()
        desk.register.catch_up()
        return desk

    def acting(self, who: str) -> "Desk":
        """Return the same desk as somebody else uses it."""
        other = copy(self)
        other.who = who
        return other

    @property
    def settings(self) -> Settings:
        return self.folder.settings()

    # Tables

    def add_table(  # noqa: PLR0913  (the public face)
        self,
        name: str,
        data: str | os.PathLike[str],
        schema: str | os.PathLike[str],
        ledger: str | os.PathLike[str],
        policy: Policy = Policy(),  # noqa: B008  (frozen)
        records: int | None = None,
        although: str = "",
        *,
        max_rows: int | None = None,
        max_unit_rows: int | None = None,
    ) -> RegisteredTable:
        """Register a table: its files, its schema, and the ledger that pays.

        Names and types of the columns are checked, rows or units are counted if their number is
        public, and the files must keep the sizes that are public (`dpinfer_desk.admission`).  A table whose
        simplest question may take longer than the longest response time is refused.

        ``records`` is a public guess of the number of records or units, if it is private.  ``max_rows`` and
        ``max_unit_rows`` declare how many rows the table and one unit have at most: the first where the number of
        records is private, the second where there are ids.  Both should come from what is public.

        A file of a table with another ledger is refused, as two totals would then protect the same units,
        unless ``although`` gives a reason, which the journal records.
        """
        if self.public:
            raise InputError("a table is registered where the data are: `dpinfer serve table add`")
        table_named(name)
        declared = DeclaredSizes(records, max_rows, max_unit_rows)
        data_path = Path(data).resolve()
        public = Schema.read(Path(schema))
        opened = Ledger.open(ledger)
        if opened.unit != public.unit.name:
            raise InputError(
                f"the ledger protects {opened.unit!r} and the schema {public.unit.name!r}: use a ledger made with "
                "--schema of this table"
            )
        if opened.neighbours.units != public.unit.many:
            raise InputError(
                "the ledger and the schema differ in whether a unit has many rows: use a ledger made with --schema of "
                "this table"
            )
        # Before the files are read: a change meanwhile is then found before the first fit.
        fingerprint = Fingerprint.of(data_path, self.folder.secret)
        sizes = admit(data_path, public, declared, counted=opened.neighbours.counted)
        table = RegisteredTable(
            name=name,
            data_path=str(data_path),
            ledger_path=str(opened.path),
            schema_text=Path(schema).read_text(encoding="utf-8-sig"),
            records=sizes.records,
            policy=policy,
            fingerprint=fingerprint,
            secret=self.folder.secret,
            added=self._time(),
            max_rows=sizes.max_rows,
            max_unit_rows=sizes.max_unit_rows,
        ).sealed()
        self._require_answerable(table)
        if not although.strip():
            self._require_one_total(table)
        if not checkpoints.extends(self.folder.checkpoints, table.ledger_path, opened):
            raise LedgerError(checkpoints.OLD_LEDGER)
        head = opened.verify().head
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
                **_policy_facts(policy, opened.shares),
                sizes=[table.max_rows, table.max_unit_rows],
                although=_reason(although),
            )
        self.publish(name)
        return table

    def _require_answerable(self, table: RegisteredTable) -> None:
        """Refuse a table whose public sizes are more than a fit can take in time and memory."""
        settings = self.settings
        assert table.max_unit_rows is not None
        require_memory(table.max_unit_rows, 2, 1, settings.memory)
        timing.require_answerable(settings.response_times, table)

    def _require_one_total(self, table: RegisteredTable) -> None:
        for other in self.tables():
            if other.ledger_path != table.ledger_path and other.fingerprint.shares(
                table.fingerprint
            ):
                raise InputError(
                    f"a file of {table.name} is one of {other.name}, too, and their ledgers differ, so that the same "
                    f"units would be protected by two totals: use the ledger of {other.name}, or give a reason why not "
                    "(--although)"
                )

    def tables(self) -> list[RegisteredTable]:
        """Return all tables, by name."""
        return self.register.tables()

    def table(self, name: str) -> RegisteredTable:
        """Return a table by its name; `InputError` if there is none."""
        return self.register.table(name)

    def set_policy(self, name: str, policy: Policy) -> RegisteredTable:
        """Change which questions need an approval, and who reads answers."""
        shares = self.shares(name)
        with self.register.change(self.who) as change:
            change(
                "UPDATE tables SET approval = ?, up_to = ?, shared = ? WHERE name = ?",
                *(policy.approval, policy.up_to, int(policy.shared), name),
            )
            change.event("policy", table=name, **_policy_facts(policy, shares))
        return self.table(name)

    def pause(self, name: str, reason: str) -> RegisteredTable:
        """Pause a table: nothing can be asked or booked until it is resumed."""
        return self._set_table(self.table(name), tables.PAUSED, _reason(reason))

    def resume(
        self,
        name: str,
        reason: str,
        *,
        max_rows: int | None = None,
        max_unit_rows: int | None = None,
    ) -> RegisteredTable:
        """Open a table again.  Changed files are registered anew, and have to keep the declared sizes, which
        ``max_rows`` and ``max_unit_rows`` change; ``reason`` says why the files are about
        the same units, and the journal records it.
        """
        table = self.table(name)
        if not reason.strip():
            raise InputError("the journal records why a table is asked again: give a reason")
        if self.public and table.changed():
            raise InputError(
                f"{table.changed()}: who holds the data opens it again, with `dpinfer desk table resume`"
            )
        if self.public:
            return self._set_table(table, tables.OPEN, _reason(reason))
        data_path = Path(table.data_path)
        declared = _declared_again(table, max_rows, max_unit_rows)
        counted = table.ledger().neighbours.counted
        fingerprint = Fingerprint.of(data_path, table.secret)
        sizes = admit(data_path, table.schema, declared, counted=counted)
        fresh = replace(
            table,
            records=sizes.records,
            fingerprint=fingerprint,
            max_rows=sizes.max_rows,
            max_unit_rows=sizes.max_unit_rows,
        ).sealed()
        self._require_answerable(fresh)
        self._set_table(fresh, tables.OPEN, _reason(reason))
        self.publish(name)
        return self.table(name)

    def alarm(self, name: str, reason: str) -> None:
        """Pause a table because of a fault; one that is paused already keeps its reason."""
        if self.table(name).state == tables.OPEN:
            self.pause(name, reason[:_MAX_REASON])

    def _set_table(self, table: RegisteredTable, state: str, reason: str) -> RegisteredTable:
        fingerprint = table.fingerprint.text()
        with self.register.change(self.who) as change:
            # Response times were chosen for the sizes of the table, which are part of its seal.
            change(
                "DELETE FROM slots WHERE tab = ? AND NOT EXISTS "
                "(SELECT 1 FROM tables WHERE name = tab AND seal = ?)",
                *(table.name, table.seal),
            )
            change(
                "UPDATE tables SET state = ?, reason = ?, fingerprint = ?, records = ?, max_rows = ?, "
                "max_unit_rows = ?, seal = ? WHERE name = ?",
                *(state, reason, fingerprint, table.records, table.max_rows),
                *(table.max_unit_rows, table.seal, table.name),
            )
            change.event(
                f"table {state}",
                table=table.name,
                reason=reason,
                fingerprint=fingerprint,
                sizes=[table.max_rows, table.max_unit_rows],
            )
        return self.table(table.name)

    def measure(self, name: str) -> str:
        """Return the measure of allowances at a table, ρ or ε."""
        return accountant.counted_in(self.table(name).ledger().total)

    def shares(self, name: str) -> TotalShares:
        """Return the total of a table as 100 %, for costs and allowances in words."""
        return self.table(name).ledger().shares

    def cost_writer(self) -> Callable[[Ticket], str]:
        """Return what writes the cost of a question: as it was asked, and as percent of the total.

        Where the ledger cannot be read, it is the budget alone.
        """

        @cache
        def shares_of(name: str) -> TotalShares | None:
            try:
                return self.shares(name)
            except DpinferError:
                return None

        def written(ticket: Ticket) -> str:
            shares = shares_of(ticket.table)
            if shares is None:
                return ticket.question.budget.amount
            return shares.cost(ticket.question.budget, ticket.cost)

        return written

    def export_ledger(self, name: str) -> str:
        """Return the ledger of a table as JSON lines with hashes, for an auditor."""
        return self.table(name).ledger().to_jsonl()

    def publish(self, name: str) -> None:
        """Publish a copy of the ledger of a table for the process with the network."""
        table = self.table(name)
        # Whoever writes into desk.db could give the name of one table to another, and so have the
        # ledger of one published under the name of the other.
        if not table.is_sealed():
            return
        path = self.folder.account(name)
        try:
            published.write(path, table.ledger(), table.changed())
        except LedgerError as fault:
            published.write(path, None, "", table.without_folders(str(fault)))

    def publish_moments(self, name: str, path: str | os.PathLike[str]) -> MomentRelease:
        """Publish a moment release of a table, which every analyst of the table may then ask for free.

        ``path`` is a file of `dpinfer moments release`, made with the ledger and the schema of the table.
        """
        if self.public:
            raise InputError(
                "a moment release is published where the ledger is: `dpinfer serve table publish`"
            )
        table = self.table(name)
        release = moments(path)
        moment_files.require_paid(table, release)
        file = moment_files.store(self.folder, name, release)
        with self.register.change(self.who) as change:
            change.event(
                moment_files.PUBLISHED,
                table=name,
                release=release.privacy.release,
                file=file,
                columns=release.declared,
            )
        self.publish(name)
        return release

    def moment_releases(self, name: str) -> list[MomentRelease]:
        """Return the published moment releases of a table, the newest first."""
        return moment_files.published(self.folder, self.table(name).name)

    def moment_release(self, name: str, ident: str) -> MomentRelease | None:
        """Return one published moment release of a table, by its entry in the ledger."""
        return moment_files.find(self.folder, self.table(name).name, ident)

    def account(self, name: str) -> Account:
        """Return what was spent of the total of a table, and what is left."""
        ledger = self.table(name).ledger()
        if not self.public:
            return Account.of(ledger)
        # Computed once per published copy, as pages ask for it often.
        known = self._accounts.get(name)
        if known is None or known.ledger is not ledger:
            known = Account.of(ledger)
            self._accounts[name] = known
        return known

    def burn_down(self, name: str) -> list[Spend]:
        """Return each entry of the ledger of a table, with the sum so far in the measure of allowances."""
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
                    asked=ledger.shares.asked_of(entry),
                    amount=amount,
                    sum=so_far,
                    used=ledger.shares.of(so_far),
                    release=entry.release,
                    request=entry.request,
                )
            )
        return spends

    # Persons

    def add_person(self, name: str, description: str = "") -> Person:
        """Add a person, who can then be given allowances; only stewards see ``description``."""
        person = Person(person_named(name), description, self._time())
        with self.register.change(self.who) as change:
            if change("SELECT 1 FROM people WHERE name = ?", person.name).fetchone():
                raise InputError(f"there is a person {name!r} already: choose another name")
            change("INSERT INTO people VALUES (?, ?, ?)", person.name, description, person.added)
            change.event("a person was added", person=person.name, words=description)
        return person

    def persons(self) -> list[Person]:
        """Return all persons, by name."""
        return self.register.persons()

    def allow(self, name: str, person: str, amount: float) -> Analyst:
        """Give a person an allowance at a table, or change it; ``amount`` is ρ, or ε at a pure total."""
        table = self.table(name)
        if not any(one.name == person for one in self.persons()):
            raise InputError(f"there is no person {person!r}: `dpinfer desk person add` first")
        total = table.ledger().total
        allowance_of(total, amount)
        with self.register.change(self.who) as change:
            change(
                "INSERT INTO allowances VALUES (?, ?, ?, ?) "
                "ON CONFLICT (tab, person) DO UPDATE SET amount = excluded.amount",
                *(name, person, amount, ACTIVE),
            )
            words = TotalShares(total).allowance(amount)
            change.event("allowance", table=name, person=person, amount=amount, allowance=words)
        return self.analyst(name, person)

    def set_state(self, name: str, person: str, state: str, reason: str = "") -> Analyst:
        """Make an analyst active, paused or revoked at a table, at once.

        Unpaid questions of an analyst who is revoked are declined.
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
            for ticket in self.tickets(name, person, _UNPAID):
                self._decline(ticket.id, "the access of the analyst was revoked")
        return self.analyst(name, person)

    def analysts(self, name: str) -> list[Analyst]:
        """Return the analysts of a table, with what each has spent according to its ledger."""
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
        """Return an analyst of a table; `InputError` if the person has no allowance there."""
        for analyst in self.analysts(name):
            if analyst.person == person:
                return analyst
        raise InputError(
            f"{person!r} has no allowance at {name}: the steward gives one with `dpinfer desk allow`"
        )

    def reserved(self, name: str) -> bool:
        """Tell whether all allowances together fit into the total, so that each can be spent in full.

        If not, the total pays for questions in the order in which they are booked.
        """
        return self._allotted(name) <= written(self.certain(name))

    def certain(self, name: str) -> float:
        """Return what allowances may add up to so that each can surely be spent in full.

        Of an (ε, δ) total that is the ρ that converts to it, whatever the noise of the questions: a
        little less than what a total pays for where all noise is Gaussian.
        """
        total = self.table(name).ledger().total
        return total.epsilon if isinstance(total, PureDP) else total.zcdp().rho

    def allotted(self, name: str) -> float:
        """Return the sum of the allowances at a table, in their measure.

        Of an analyst whose access was revoked it has what was spent; what is left of the allowance is free.
        """
        return float(self._allotted(name))

    def _allotted(self, name: str) -> Decimal:
        amounts = (
            analyst.spent if analyst.state == roles.REVOKED else max(analyst.amount, analyst.spent)
            for analyst in self.analysts(name)
        )
        return added(map(written, amounts))

    # Questions

    def check(self, name: str, question: AnalystQuestion, by: str) -> QuestionCheck:
        """Return the consequences of asking a question.  Nothing is booked, and no record is read.

        The answer depends on the schema, the ledger, and the number of records if it is public.
        """
        table = self.table(name)
        analyst = self.analyst(name, by)
        ledger = table.ledger()
        schema = table.schema
        model = question.model(schema, ledger.neighbours)
        response, terms = parse(model.asked_formula or "", schema)
        design = Design.of_formula(response, terms, model.kind, schema.unit)
        model.read(practice(schema, 2))  # raises InputError for wrong names, types or outcomes
        n = table.records if table.records is not None else 1
        entry = replace(model.entry(n), by=by)
        recipe = model.recipe(design, n)
        _require_penalty(recipe, n)
        read = [*response.columns, *terms.columns, *schema.unit.columns]
        require_memory(table.max_unit_rows or 1, design.width, texts_of(read), self.settings.memory)
        counted = ledger.neighbours.counted  # advice must not depend on a private number
        preview = ledger.preview(entry, within=allowance_of(ledger.total, analyst.amount))
        cost = ledger.added_up([entry])
        reason = delta_fault(ledger, question) or table.without_folders(preview.reason)
        reason = reason or _closed(table, analyst)
        return QuestionCheck(
            question=question,
            names=tuple(design.names),
            entry=entry,
            cost=cost,
            measure=accountant.counted_in(ledger.total),
            shares=ledger.shares,
            permitted=not reason,
            reason=reason,
            preview=preview,
            analyst=analyst,
            waits=table.policy.waits(cost),
            warning=recipe.advice(n) if counted else "",
            low_budget=model.futility(design, n) if counted else "",
            answered=tuple(self._same(table, question, by)),
        )

    def open_questions(self, name: str, by: str) -> OpenQuestions:
        """Return how many questions of an analyst are open at a table, and whether there may be more."""
        settings = self.settings
        limits = (settings.open_per_person, settings.open_per_table)
        numbers = self.register.open_numbers(name, by)
        return OpenQuestions(numbers[0], limits[0], limit_reason(name, by, numbers, limits))

    def forecast(
        self,
        name: str,
        question: AnalystQuestion,
        budgets: Sequence[Total] | None = None,
        replicates: int = 20,
    ) -> Forecast:
        """Forecast the lengths of intervals for some budgets, from made-up records."""
        table = self.table(name)
        if table.records is None:
            raise InputError(
                f"the number of records of {name} is private, and no guess of it was registered: there is no forecast"
            )
        tried = tuple(budgets or (question.budget,))
        key = (name, table.schema_text, question.digest(), question.level, tried, replicates)
        if key not in self._forecasts:
            model = question.model(table.schema, table.ledger().neighbours)
            self._forecasts[key] = forecast(
                model,
                records=table.records,
                budgets=tried,
                level=question.level,
                replicates=replicates,
            )
        return self._forecasts[key]

    def ask(
        self,
        name: str,
        question: AnalystQuestion,
        by: str,
        key: str = "",
        **options: bool,
    ) -> Ticket:
        """Ask a question; see `submit`, which has the options and also tells whether it is new."""
        return self.submit(name, question, by, key, **options)[0]

    def submit(
        self,
        name: str,
        question: AnalystQuestion,
        by: str,
        key: str = "",
        *,
        again: bool = False,
        anyway: bool = False,
    ) -> tuple[Ticket, bool]:
        """Ask a question; return it, and whether it is new.

        The same ``key`` of the same person at the same table is the same question, however often it
        is sent.  Without a key the question itself is the key, and one that was declined, withdrawn
        or refused is asked anew.  With ``again`` a question is asked and paid that is open or was
        answered or lost before; with ``anyway`` one that could report hardly any coefficient.

        Guarantee [asked_once]: a key leads to one question and to one entry of the ledger, also if
        desk.db was put back.
        """
        if again and not key:
            key = uuid.uuid4().hex
        if key and (not key.isprintable() or len(key) > _MAX_KEY):
            raise InputError(f"a key is a text in one line of at most {_MAX_KEY} characters")
        # A question that is sent again gets its earlier answer before anything is checked: by now it may
        # have used up the allowance.
        ident = self._ident(name, by, key or question.digest())
        there = self.register.tickets("id = ?", ident)
        same = bool(there) and there[0].question.digest() == question.digest()
        if same and (key or there[0].state not in tickets.FREE):
            return self._shown(there[0]), False
        if there and not same:
            raise ConflictError(OTHER_QUESTION)
        checked = self.check(name, question, by)
        if not checked.permitted:
            raise RefusedError(checked.reason)
        if checked.answered and not again:
            raise UnconfirmedError(
                f"this was answered already, as {checked.answered[0].id[:12]}, which is free to read: to ask and pay "
                "again, confirm it",
                "again",
            )
        if checked.low_budget and not anyway:
            raise UnconfirmedError(
                f"{checked.low_budget}; nothing was asked. Raise the budget, or ask for fewer columns; or confirm "
                "that you ask all the same",
                "anyway",
            )
        # Checked again before booking: a full disk after booking would lose a paid answer.
        settings = self.settings
        if self.folder.free_megabytes() < settings.free:
            raise ConflictError(
                f"less than {settings.free} MB are free on the disk of the desk: make room, then ask again"
            )
        ticket = Ticket(
            id=ident,
            table=name,
            by=by,
            key=key or question.digest(),
            question=question,
            cost=checked.cost,
            state=tickets.WAITING if checked.waits else tickets.QUEUED,
            asked=self._time(),
        )
        limits = (settings.open_per_person, settings.open_per_table)
        stored, new = self.register.add(ticket, self.who, limits, again=again)
        return self._shown(stored), new

    def tickets(self, name: str = "", by: str = "", states: Sequence[str] = ()) -> list[Ticket]:
        """Return questions in the order in which they were asked: of a table, by a person, in some states."""
        where = "? IN ('', tab) AND ? IN ('', asker)"
        stored = tickets.stored_as(states)
        if stored:
            where += f" AND state IN ({', '.join('?' * len(stored))})"
        shown = [self._shown(ticket) for ticket in self.register.tickets(where, name, by, *stored)]
        return [ticket for ticket in shown if not states or ticket.state in states]

    def ticket(self, ident: str) -> Ticket:
        """Return a question as it may be shown now, by its id, the beginning of it, or its key."""
        return self._shown(self.register.ticket(ident))

    def decide(self, ident: str, approve: bool, reason: str = "") -> Ticket:
        """Approve a waiting question, or decline one that is not booked yet, with a reason."""
        reason = _reason(reason)
        if not approve:
            if not reason:
                raise InputError(NO_REASON)
            return self._decline(ident, reason)
        decision = self._decision(reason)
        return self._move(ident, (tickets.WAITING,), tickets.QUEUED, "approved", **decision)

    def withdraw(self, ident: str) -> Ticket:
        """Withdraw a question before it is booked, free of charge."""
        return self._move(ident, _UNPAID, tickets.WITHDRAWN, "withdrawn")

    def _decline(self, ident: str, reason: str) -> Ticket:
        return self._move(ident, _UNPAID, tickets.DECLINED, "declined", **self._decision(reason))

    def _decision(self, reason: str) -> dict[str, str]:
        return {"decided": self._time(), "decider": self.who, "reason": reason}

    def _move(
        self, ident: str, before: tuple[str, ...], state: str, action: str, **columns: str
    ) -> Ticket:
        ticket = self.register.ticket(ident)
        moved = self.register.move(ticket.id, before, state, self.who, **columns)
        if moved is None:
            raise _too_late(self.ticket(ticket.id), action)
        return moved

    def result(self, ident: str) -> FitResult:
        """Return the result of a question after its answer time; `NoAnswerError` if it is lost.

        Guarantee [two_outcomes]: of a question that was booked nothing is ever shown but its result
        or one fixed text.
        """
        ticket = self.ticket(ident)
        if ticket.state == tickets.LOST_STATE:
            raise NoAnswerError
        if ticket.state != tickets.ANSWERED:
            raise InputError(f"there is no answer yet: {state_message(ticket)}")
        result = valid_result(self.folder, ticket.id, ticket.release)
        if result is None:
            raise NoAnswerError
        return result

    def answers(self, name: str, by: str = "") -> list[Ticket]:
        """Return past answers at a table: all if its policy shares them or ``by`` is empty, else those of
        ``by``.
        """
        own = "" if self.table(name).policy.shared else by
        return self.tickets(name, own, (tickets.ANSWERED,))

    def practice(self, name: str, records: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Make up records with the columns of a table, to practise on, free of charge."""
        return practice(self.table(name).schema, records, seed)

    # The journal

    def journal(self) -> list[Event]:
        """Return all events of the desk, oldest first."""
        return self._journal.events()

    def journal_page(self, selection: EventFilter, limit: int) -> list[Event]:
        """Return at most ``limit`` events of a selection, the newest first."""
        return self._journal.select(selection, limit)

    def number_of_events(self) -> int:
        """Return how many events the journal has."""
        return self._journal.last()

    def sentences(self, events: Sequence[Event]) -> list[str]:
        """Return events as sentences, as pages and the command line show them."""
        context = Context(self._questions_of(events), self._amount_writer())
        return [sentence_of(event, context) for event in events]

    def _amount_writer(self) -> Callable[[str, float], str]:
        """Return what writes an amount of a table's total; a number alone where its ledger cannot be read."""

        @cache
        def shares_of(name: str) -> TotalShares | None:
            try:
                return self.shares(name)
            except DpinferError:
                return None

        def write(table: str, amount: float) -> str:
            shares = shares_of(table)
            return f"{amount:.4g}" if shares is None else shares.allowance(amount)

        return write

    def _questions_of(self, events: Sequence[Event]) -> dict[str, Ticket]:
        idents = sorted(
            {str(event.facts["question"]) for event in events if "question" in event.facts}
        )
        # as one value, as SQLite bounds their number
        found = self.register.tickets("id IN (SELECT value FROM json_each(?))", json.dumps(idents))
        return {ticket.id: ticket for ticket in found}

    def export_journal(self) -> str:
        """Return the journal as JSON lines with hashes, for an auditor."""
        return self._journal.export()

    def verify(self, *, thorough: bool = False) -> Verdict:
        """Check that journal, questions, ledgers and results are consistent.

        ``thorough`` also compares the bytes of the tables with those that were registered.
        """
        faults = faults_of(self.register, self._journal, self.folder, thorough=thorough)
        events = self._journal.last()
        return Verdict(tuple(faults), self.heads(), events, len(self.register.tickets()))

    def heads(self) -> dict[str, str]:
        """Return the last hash of the journal and of each ledger: stored elsewhere, they reveal a restored
        old copy.
        """
        heads = {"journal": self._journal.head()}
        return heads | {f"ledger of {table.name}": _head(table) for table in self.tables()}

    def _ident(self, name: str, by: str, key: str) -> str:
        # A hash of desk, table, person and key: the same key leads to the same entry of the ledger even if
        # desk.db forgot the question.
        desk = self.settings.id
        content = "\n".join((desk, name, by, key))
        return desk[:PREFIX] + hashlib.sha256(content.encode()).hexdigest()[:18] + _ending(name)

    def is_request(self, request: str, name: str) -> bool:
        """Tell by its id whether a request in a ledger is a question at a table of this desk."""
        return self.folder.owns(request) and request.endswith(_ending(name))

    def _same(self, table: RegisteredTable, question: AnalystQuestion, by: str) -> list[Ticket]:
        return [
            ticket
            for ticket in self.answers(table.name, by)
            if ticket.question.digest() == question.digest()
        ]

    def _shown(self, ticket: Ticket) -> Ticket:
        return ticket.as_shown(self.clock())

    def _time(self) -> str:
        return self.clock().isoformat()


def delta_fault(ledger: Ledger, question: AnalystQuestion) -> str:
    """Return why a question is refused whose δ is larger than that of the total; empty if it is not."""
    wrong = larger_delta(ledger.total, question.budget)
    if not wrong:
        return ""
    assert isinstance(ledger.total, ApproxDP)
    delta = power_of_ten(ledger.total.delta)
    return f"{wrong}, and would cost much of the total: ask with δ = {delta} or less"


def state_message(ticket: Ticket) -> str:
    """Return the state of a question as a sentence."""
    due = ticket.due
    sentences = {
        tickets.WAITING: "it waits for the steward",
        tickets.QUEUED: "it is in line, and nothing has been spent",
        tickets.CLAIMED: "it is about to be booked",
        tickets.BOOKED_STATE: "it is booked; the answer is shown at "
        f"{due and due.isoformat(' ', 'seconds')}, a time that does not depend on the data",
        tickets.ANSWERED: "it is answered",
        tickets.LOST_STATE: NO_ANSWER,
        tickets.DECLINED: f"it was declined: {ticket.reason or 'no reason was given'}",
        tickets.WITHDRAWN: "it was withdrawn",
        tickets.REFUSED: f"it was refused, and nothing was spent: {ticket.reason}",
    }
    return sentences[ticket.state]


def _require_penalty(recipe: Recipe, n: int) -> None:
    """Raise `InputError` for a penalty so small that the time of the fit would depend on the data."""
    # The number of steps to the minimum grows with the condition number, loss curvature over penalty.
    if not isinstance(recipe, Penalised):
        return
    risk = recipe.risk(n)
    curvature = risk.loss.curvature_bound
    floor = curvature / (2 * MAX_CONDITION)
    if risk.penalty < floor:
        raise InputError(
            f"at a desk a penalty of at least {floor:.3g} is needed with this loss, not {risk.penalty:.3g}, as with a "
            "smaller one the time of the fit would depend on the data: raise penalty, or knee or bandwidth"
        )


def _policy_facts(policy: Policy, shares: TotalShares) -> dict[str, object]:
    """Return a policy for the journal, with its limit in words where it has one."""
    facts: dict[str, object] = {"policy": [policy.approval, policy.up_to, policy.shared]}
    if policy.approval == tables.ABOVE:
        facts["up_to"] = shares.allowance(policy.up_to)
    return facts


def _ending(name: str) -> str:
    # The ids of all questions of a table end so, as several tables may share one ledger.
    return hashlib.sha256(name.encode()).hexdigest()[:6]


def _declared_again(
    table: RegisteredTable, max_rows: int | None, max_unit_rows: int | None
) -> DeclaredSizes:
    """Return the sizes that a steward declares of a table that is resumed: those that were declared before, if new
    ones are left out.
    """
    units = table.records or 0
    counted = table.ledger().neighbours.counted
    computed = counted and table.max_rows == units * (table.max_unit_rows or 0)
    if max_rows is None and not computed:
        max_rows = table.max_rows
    if max_unit_rows is None and table.schema.unit.many:
        max_unit_rows = table.max_unit_rows
    return DeclaredSizes(table.records, max_rows, max_unit_rows)


def _closed(table: RegisteredTable, analyst: Analyst) -> str:
    """Return why the analyst cannot ask now; empty if he can."""
    if table.state != tables.OPEN:
        return f"the table {table.name} is paused: contact the steward"
    if analyst.state != ACTIVE:
        return f"the access of {analyst.person!r} to {table.name} is {analyst.state}: contact the steward"
    return ""


def _too_late(ticket: Ticket, action: str) -> ConflictError:
    return ConflictError(
        f"the question {ticket.id[:12]} cannot be {action} any more: {state_message(ticket)}"
    )


def _reason(text: str) -> str:
    if len(text) > _MAX_REASON:
        raise InputError(f"a reason has at most {_MAX_REASON} characters: shorten it")
    return text.strip()


def _head(table: RegisteredTable) -> str:
    try:
        return table.ledger().verify().head
    except LedgerError as fault:
        return str(fault)
