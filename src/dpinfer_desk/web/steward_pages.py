"""Pages of tables, with what is public and what was spent; and of the steward: people, journal, verification."""

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from starlette.responses import Response

from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy.account import Account
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP
from dpinfer.privacy.shares import TotalShares
from dpinfer_desk.desk import Desk, Spend
from dpinfer_desk.store import tickets
from dpinfer_desk.store.journal import EventFilter
from dpinfer_desk.store.roles import ANALYST, REVOKED, Analyst
from dpinfer_desk.store.sentences import KINDS, QUESTIONS, actions_of
from dpinfer_desk.store.tables import APPROVALS, Policy, RegisteredTable
from dpinfer_desk.web.drawings import NARROW, WIDE, used_over_time
from dpinfer_desk.web.requests import (
    Confirmation,
    DeskRequest,
    download,
    is_confirmed,
    page,
    redirect,
)
from dpinfer_desk.web.schemas import CSV, JSONL

DONE = {
    "joined": "Your password is set, and you are signed in.",
    "policy": "The policy was changed.",
    "table-paused": "The table is paused: nothing can be asked or booked.",
    "table-open": "The table may be asked again.",
}
"""Sentences on what was done, by the word that stands for it in an address."""
_DONE_TO = {
    "person": "{} was added and may now ask this table.",
    "allowance": "The allowance of {} was changed.",
    "active": "{} may ask this table again.",
    "paused": "The access of {} is paused: questions wait in line until it is resumed.",
    "revoked": "The access of {} was revoked, and questions that were not booked yet were declined.",
}
"""Sentences on what was done to an analyst, likewise."""
_ANSWERS = 10  # past answers that a table's page lists
_EVENTS = 50  # on a page of the journal
_PRACTICE = 1000  # made-up rows


@dataclass(frozen=True)
class Spending:
    """The account of a table, or the reason why it is unknown."""

    account: Account | None
    fault: str = ""

    @classmethod
    def of(cls, desk: Desk, name: str) -> "Spending":
        """Return what was spent of a table; a ledger that cannot be read hides no other table."""
        try:
            return cls(desk.account(name))
        except LedgerError as fault:
            return cls(None, str(fault))

    @property
    def share(self) -> float:
        """Return the part that is used, from 0 to 1."""
        if self.account is None:
            return 0.0
        return min(1.0, self.account.share)

    @property
    def statement(self) -> str:
        """Return how much is used, and what the next question may cost."""
        return self.fault if self.account is None else self.account.statement()

    @property
    def explanation(self) -> str:
        """Return how costs are counted."""
        assert self.account is not None
        return self.account.shares.explanation(self.account.amount, self.account.spent)


def label(budget: Total) -> str:
    """Return a budget in a few letters, without δ."""
    if isinstance(budget, ZCDP):
        return f"ρ = {budget.rho:.4g}"
    return f"ε = {budget.epsilon:.4g}"


def table_of(request: DeskRequest) -> RegisteredTable:
    """Return the table in the address, if the sender may see it."""
    return request.permissions.table(request.name("table"))


def home(request: DeskRequest) -> Response:
    """List the tables that one may see and, for the steward of a new desk, what to do next."""
    permissions = request.permissions
    tables = permissions.tables()
    rows = []
    for one in tables:
        open_ = permissions.tickets(one.name, states=(*tickets.OPEN, tickets.BOOKED_STATE))
        rows.append(
            {
                "table": one,
                "spending": Spending.of(request.desk, one.name),
                "open": len(open_),
                "answered": len(permissions.answers(one.name)),
            }
        )
    parts = {
        "rows": rows,
        "steps": _steps(request, [one.name for one in tables]),
        "folder": str(request.desk.folder.path),
        "done": DONE.get(request.fields.text("done"), ""),
    }
    return page(request, "home.html.j2", parts)


def _steps(request: DeskRequest, tables: list[str]) -> dict[str, bool]:
    """Return the steps to the first question, and whether each is done; none once there is a question."""
    desk = request.desk
    asked = EventFilter(actions=actions_of(QUESTIONS))
    if not request.from_steward or desk.journal_page(asked, 1):
        return {}
    steps = {
        "table": bool(tables),
        "allowance": any(desk.register.allowances(name) for name in tables),
    }
    if not request.services.local:
        steps["account"] = any(one.role == ANALYST for one in request.accounts.all())
    return steps | {"question": False}


def table(request: DeskRequest) -> Response:
    """Show what is public about a table and its answers; an analyst's allowance, or the burn-down of all."""
    desk = request.desk
    permissions = request.permissions
    one = table_of(request)
    spending = Spending.of(desk, one.name)
    parts: dict[str, Any] = {
        "table": one,
        "spending": spending,
        "columns": _columns(one),
        "facts": _facts(one, spending),
        "answers": permissions.answers(one.name)[: -_ANSWERS - 1 : -1],
        "releases": desk.moment_releases(one.name),
        "done": DONE.get(request.fields.text("done"), ""),
        "drawings": [],
        "months": [],
        "shares": None,
        "changed": "",
        "approvals": APPROVALS,
        "own": None,
    }
    if spending.account is None:
        return page(request, "table.html.j2", parts)
    shares = spending.account.shares
    parts["shares"] = shares
    if permissions.unrestricted:
        parts["changed"] = one.changed()
        spends = desk.burn_down(one.name)
        start = datetime.fromisoformat(one.added)
        parts["drawings"] = [
            used_over_time(spends, (start, desk.clock()), size) for size in (WIDE, NARROW)
        ]
        parts["months"] = _months(spends)
    else:
        own = permissions.analyst(one.name)
        parts["own"] = _analyst(own, "", shares, spending.account.largest)
    return page(request, "table.html.j2", parts)


def schema(request: DeskRequest) -> Response:
    """Return the schema as it was registered."""
    return download(table_of(request).schema_text, "text/plain", f"{table_of(request).name}.toml")


def practice(request: DeskRequest) -> Response:
    """Return made-up records with the columns of the table."""
    one = table_of(request)
    frame = request.desk.practice(one.name, _PRACTICE)
    return download(frame.to_csv(index=False), CSV, f"{one.name}-practice.csv")


def ledger(request: DeskRequest) -> Response:
    """Return the ledger for an auditor: its header and entries with their hashes, as JSON lines."""
    name = table_of(request).name
    return download(request.desk.export_ledger(name), JSONL, f"{name}-ledger.jsonl")


def analysts(request: DeskRequest) -> Response:
    """List who may ask, and what each may spend."""
    desk = request.desk
    one = table_of(request)
    account = desk.account(one.name)
    shares = account.shares
    analysts = desk.analysts(one.name)
    words = {person.name: person.description for person in desk.persons()}
    known = [name for name in words if name not in {analyst.person for analyst in analysts}]
    return page(
        request,
        "people.html.j2",
        {
            "table": one,
            "rows": [
                _analyst(analyst, words[analyst.person], shares, account.largest)
                for analyst in analysts
            ],
            "known": known,
            "shares": shares,
            "given": f"{100 * shares.of(desk.allotted(one.name)):.3g} %",
            "reserved": desk.reserved(one.name),
            "certain": shares.percent(desk.certain(one.name)),
            "done": _done_to(request, analysts),
        },
    )


def _done_to(request: DeskRequest, analysts: list[Analyst]) -> str:
    """Return what was done to an analyst of the table, by the words in the address."""
    done = _DONE_TO.get(request.fields.text("done"), "")
    name = request.fields.text("person")
    return done.format(name) if any(one.person == name for one in analysts) else ""


def add_analyst(request: DeskRequest) -> Response:
    """Give somebody an allowance; a name that is new here is added first."""
    one = table_of(request)
    name = request.fields.text("person")
    amount = _allowance(request, one)
    if name not in {person.name for person in request.desk.persons()}:
        name = request.desk.add_person(name, request.fields.text("words")).name
    request.desk.allow(one.name, name, amount)
    return redirect(request, "t", one.name, "people", done="person", person=name)


def allow(request: DeskRequest) -> Response:
    """Change an allowance."""
    one = table_of(request)
    name = request.fields.text("person")
    request.desk.allow(one.name, name, _allowance(request, one))
    return redirect(request, "t", one.name, "people", done="allowance", person=name)


def _allowance(request: DeskRequest, one: RegisteredTable) -> float:
    """Return the allowance that was typed, in what the total is counted in."""
    fields = request.fields
    return one.ledger().shares.read_allowance(fields.text("amount"), fields.text("unit"))


def set_state(request: DeskRequest) -> Response:
    """Pause or resume the access of an analyst; revoke it after asking once."""
    one = table_of(request)
    name = request.fields.text("person")
    state = request.fields.text("state")
    reason = request.fields.text("reason")
    if state == REVOKED and not is_confirmed(request):
        return _revoked(request, one, name, reason)
    request.desk.set_state(one.name, name, state, reason)
    return redirect(request, "t", one.name, "people", done=state, person=name)


def _revoked(request: DeskRequest, table: RegisteredTable, name: str, reason: str) -> Response:
    """Ask whether the access of an analyst is to be revoked."""
    request.desk.analyst(table.name, name)
    unpaid = request.desk.tickets(table.name, name, (tickets.WAITING, tickets.QUEUED))
    return Confirmation(
        heading=f"Revoke the access of {name} to {table.name}?",
        consequences=(
            f"{name} can no longer see or ask this table.",
            f"Questions that are not booked yet are declined: {len(unpaid)} now.",
            "What was spent stays spent; what is left of the allowance is free for others.",
        ),
        button="Revoke the access",
        action=("t", table.name, "state"),
        back=("t", table.name, "people"),
        fields={"person": name, "state": REVOKED},
        reason=reason,
    ).page(request)


def set_policy(request: DeskRequest) -> Response:
    """Set which questions wait for the steward, and who reads answers."""
    one = table_of(request)
    typed = request.fields.text("up_to")
    up_to = one.ledger().shares.read(typed, request.fields.text("unit")) if typed else 0.0
    shared = request.fields.text("shared") == "yes"
    request.desk.set_policy(one.name, Policy(request.fields.text("approval"), up_to, shared))
    return redirect(request, "t", one.name, done="policy")


def pause(request: DeskRequest) -> Response:
    """Take and book nothing at a table."""
    one = table_of(request)
    request.desk.pause(one.name, request.fields.text("reason"))
    return redirect(request, "t", one.name, done="table-paused")


def resume(request: DeskRequest) -> Response:
    """Open a table again."""
    one = table_of(request)
    request.desk.resume(one.name, request.fields.text("reason"))
    return redirect(request, "t", one.name, done="table-open")


def journal(request: DeskRequest) -> Response:
    """List who did what as sentences, newest first: a page of those that were selected."""
    desk = request.desk
    chosen = {key: request.fields.text(key) for key in ("person", "table", "kind", "first", "last")}
    fault = ""
    try:
        # one more than are shown tells whether there are older ones
        events = desk.journal_page(_selection(request), _EVENTS + 1)
    except InputError as wrong:
        fault = str(wrong)
        events = []
    shown = events[:_EVENTS]
    parts = {
        "rows": list(zip(shown, desk.sentences(shown), strict=True)),
        "older": shown[-1].number if len(events) > _EVENTS else 0,
        "newest": not request.fields.text("before"),
        "number": desk.number_of_events(),
        "chosen": chosen,
        "selected": {key: text for key, text in chosen.items() if text},
        "people": [one.name for one in desk.persons()],
        "tables": [one.name for one in desk.tables()],
        "kinds": KINDS,
        "fault": fault,
    }
    return page(request, "journal.html.j2", parts, 400 if fault else 200)


def _selection(request: DeskRequest) -> EventFilter:
    """Return the events that the address selects."""
    fields = request.fields
    before = fields.text("before")
    if not re.fullmatch(r"[0-9]{0,15}", before):
        raise InputError("a page of the journal has a number: go back to the newest events")
    return EventFilter(
        person=fields.text("person"),
        table=fields.text("table"),
        actions=actions_of(fields.text("kind")),
        first=_day(fields.text("first")),
        last=_day(fields.text("last")),
        before=int(before) if before else None,
    )


def _day(text: str) -> date | None:
    """Return a day, or None where nothing was typed."""
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError("a day is a date such as 2026-03-31: correct it") from None


def export(request: DeskRequest) -> Response:
    """Return the journal for an auditor."""
    return download(request.desk.export_journal(), JSONL, "journal.jsonl")


def verify(request: DeskRequest) -> Response:
    """Verify that everything fits together, where that is asked for."""
    asked = request.fields.text("go") == "verify"
    thorough = request.fields.text("thorough") == "yes"
    verdict = request.desk.verify(thorough=thorough) if asked else None
    return page(request, "verify.html.j2", {"verdict": verdict, "thorough": thorough})


def _facts(table: RegisteredTable, spending: Spending) -> dict[str, str]:
    facts = {"Records": "a private number" if table.records is None else f"{table.records:,}"}
    if table.max_rows not in (None, table.records):
        facts["Rows at most"] = f"{table.max_rows:,}"
    up_to = ""
    if spending.account is not None:
        ledger = spending.account.ledger
        facts = {
            "Total": ledger.total.amount,
            "Protected": f"{ledger.unit}: {ledger.neighbours.sentence}",
        } | facts
        up_to = ledger.shares.allowance(table.policy.up_to)
    approval = {
        "each": "the steward decides on each question",
        "above": f"the steward decides on questions that cost more than {up_to or 'a limit'}",
        "none": "no question waits for the steward",
    }
    facts["Approval"] = approval[table.policy.approval]
    facts["Answers"] = (
        "all analysts read all answers"
        if table.policy.shared
        else "analysts read their own answers"
    )
    return facts


def _columns(table: RegisteredTable) -> list[dict[str, str]]:
    """Return the public schema, one row per column."""
    rows = []
    for name, entry in table.schema.document()["columns"].items():
        kind = str(entry.get("type", "derived"))
        rows.append(
            {
                "name": name,
                "type": kind,
                "values": _values(entry),
                "about": str(entry.get("description", "")),
                "source": str(entry.get("source", "")),
            }
        )
    return rows


def _values(entry: dict[str, Any]) -> str:
    if "levels" in entry:
        return ", ".join(
            str(level).lower() if isinstance(level, bool) else str(level)
            for level in entry["levels"]
        )
    if "low" in entry:
        unit = f" {entry['unit']}" if "unit" in entry else ""
        ends = [
            entry[key] if isinstance(entry[key], str) else f"{entry[key]:g}"
            for key in ("low", "high")
        ]
        return f"{' to '.join(ends)}{unit}"
    return str(entry.get("from", "true, false"))


def _months(spends: list[Spend]) -> list[tuple[str, str, int, float]]:
    """Return month, person, number of releases and cost; the newest month first."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for spend in spends:
        key = (spend.time[:7], spend.by or "the holder of the data")
        sums[key] += spend.amount
        counts[key] += 1
    return [
        (month, by, counts[month, by], sums[month, by]) for month, by in sorted(sums, reverse=True)
    ]


def _analyst(analyst: Analyst, words: str, shares: TotalShares, largest: float) -> dict[str, Any]:
    """Return an analyst with the allowance in words; of the total ``largest`` may be spent."""
    share = analyst.spent / analyst.amount if analyst.amount else 0.0
    return {
        "analyst": analyst,
        "words": words,
        "allowance": shares.allowance(analyst.amount),
        "room": shares.room(analyst.amount, analyst.spent, largest),
        "share": max(0.0, min(1.0, share)),
    }
