"""Pages of tables, with what is public and what was spent; and of the steward: people, journal, verification."""

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy import accountant
from dpinfer.privacy.account import Account
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.privacy.ledger import rounded_down
from dpinfer_desk.desk import Desk, Spend
from dpinfer_desk.store import tickets
from dpinfer_desk.store.roles import Analyst
from dpinfer_desk.store.tables import APPROVALS, Policy, RegisteredTable
from dpinfer_desk.web.drawings import NARROW, WIDE, burn_down
from dpinfer_desk.web.requests import DeskRequest, download, page, redirect
from dpinfer_desk.web.schemas import CSV, JSONL

SIGNS = {"rho": "ρ", "epsilon": "ε"}
"""What allowances are counted in, as a letter."""
DONE = {
    "person": "The analyst was added and may now ask this table.",
    "allowance": "The allowance was changed.",
    "active": "Questions of this person are taken again.",
    "paused": "Questions of this person rest.",
    "revoked": "The access was taken away; questions that were not booked yet are declined.",
    "policy": "The policy was changed.",
    "table-paused": "The table is paused: nothing is taken or booked.",
    "table-open": "The table may be asked again.",
}
"""What was done, by the word that stands for it in an address."""
_ANSWERS = 10  # past answers that a table's page lists
_EVENTS = 200  # of the journal that are shown; the export has all
_PRACTICE = 1000  # made-up rows


@dataclass(frozen=True)
class Spending:
    """Return the cost of all entries in the terms of the total, (ε, δ), ρ or ε, or why it is unknown."""

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
        """Return the part that was spent, from 0 to 1."""
        if self.account is None:
            return 0.0
        return max(0.0, min(1.0, self.account.spent / self.account.limit))

    @property
    def description(self) -> str:
        """Return what was spent of which total."""
        if self.account is None:
            return self.fault
        return self.after(self.account.spent)

    def after(self, spent: float) -> str:
        """Describe it as it would be, were so much spent."""
        assert self.account is not None
        total = self.account.ledger.total
        sign = "ρ" if isinstance(total, ZCDP) else "ε"
        at = f" at δ = {exactly(total.delta)}" if isinstance(total, ApproxDP) else ""
        return f"{sign} {spent:.4g} of {self.account.limit:.4g} spent{at}"


def exactly(number: float) -> str:
    """Return a number as people write it: 1e-6, not 1e-06."""
    return re.sub(r"e([-+])0+", r"e\1", f"{number:g}")


def label(budget: Total) -> str:
    """Return a budget in a few letters, without δ."""
    if isinstance(budget, ZCDP):
        return f"ρ = {budget.rho:.4g}"
    return f"ε = {budget.epsilon:.4g}"


def delta_of(budget: Total) -> str:
    """Return the δ that goes with ε, where one does."""
    return f", δ = {exactly(budget.delta)}" if isinstance(budget, ApproxDP) else ""


def table_of(request: DeskRequest) -> RegisteredTable:
    """Return the table in the address, if the sender may see it."""
    return request.permissions.table(request.name("table"))


def as_epsilon(amount: float, total: Total) -> str:
    """Return an allowance in ρ as ε at the total's δ; empty where that is no (ε, δ) total."""
    if not isinstance(total, ApproxDP) or amount <= 0:
        return ""
    return f"ε {ZCDP(amount).approx(total.delta).epsilon:.3g} at δ = {exactly(total.delta)}"


def home(request: DeskRequest) -> Response:
    """List the tables that one may see and, for a steward, the command that adds one."""
    permissions = request.permissions
    rows = []
    for one in permissions.tables():
        open_ = permissions.tickets(one.name, states=(*tickets.OPEN, tickets.BOOKED_STATE))
        rows.append(
            {
                "table": one,
                "spending": Spending.of(request.desk, one.name),
                "open": len(open_),
                "answered": len(permissions.answers(one.name)),
            }
        )
    return page(request, "home.html.j2", {"rows": rows, "folder": str(request.desk.folder.path)})


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
        "done": DONE.get(request.fields.text("done"), ""),
        "drawings": [],
        "months": [],
        "sign": "",
        "changed": "",
        "approvals": APPROVALS,
        "own": None,
    }
    if spending.account is None:
        return page(request, "table.html.j2", parts)
    total = spending.account.ledger.total
    parts["sign"] = SIGNS[accountant.counted_in(total)]
    if permissions.unrestricted:
        parts["changed"] = one.changed()
        spends = desk.burn_down(one.name)
        start = datetime.fromisoformat(one.added)
        parts["drawings"] = [
            burn_down(spends, _allowance_total(total), (start, desk.clock()), size)
            for size in (WIDE, NARROW)
        ]
        parts["months"] = _months(spends)
    else:
        parts["own"] = _analyst(permissions.analyst(one.name), "", total)
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
    total = one.ledger().total
    analysts = desk.analysts(one.name)
    words = {person.name: person.description for person in desk.persons()}
    known = [name for name in words if name not in {analyst.person for analyst in analysts}]
    return page(
        request,
        "people.html.j2",
        {
            "table": one,
            "rows": [_analyst(analyst, words[analyst.person], total) for analyst in analysts],
            "known": known,
            "sign": SIGNS[accountant.counted_in(total)],
            "measure": accountant.counted_in(total),
            "total": label(total) + delta_of(total),
            "allowance_total": _allowance_total(total),
            "given": sum(analyst.amount for analyst in analysts),
            "reserved": desk.reserved(one.name),
            "done": DONE.get(request.fields.text("done"), ""),
        },
    )


def add_analyst(request: DeskRequest) -> Response:
    """Give somebody an allowance; a name that is new here is added first."""
    one = table_of(request)
    name = request.fields.text("person")
    amount = request.fields.required_number("amount", "the allowance")
    if amount <= 0:
        raise InputError("an allowance is a number above 0, such as 0.05")
    if name not in {person.name for person in request.desk.persons()}:
        name = request.desk.add_person(name, request.fields.text("words")).name
    request.desk.allow(one.name, name, amount)
    return redirect(request, "t", one.name, "people", done="person")


def allow(request: DeskRequest) -> Response:
    """Change an allowance."""
    one = table_of(request)
    amount = request.fields.required_number("amount", "the allowance")
    request.desk.allow(one.name, request.fields.text("person"), amount)
    return redirect(request, "t", one.name, "people", done="allowance")


def set_state(request: DeskRequest) -> Response:
    """Pause, resume or revoke the access of an analyst."""
    one = table_of(request)
    state = request.fields.text("state")
    request.desk.set_state(
        one.name, request.fields.text("person"), state, request.fields.text("reason")
    )
    return redirect(request, "t", one.name, "people", done=state)


def set_policy(request: DeskRequest) -> Response:
    """Set which questions wait for the steward, and who reads answers."""
    one = table_of(request)
    up_to = request.fields.number("up_to", "the cost") or 0.0
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
    """List who did what, newest first."""
    events = request.desk.journal()
    rows = [
        {"event": event, "facts": _short_facts(event.facts)}
        for event in events[: -_EVENTS - 1 : -1]
    ]
    return page(request, "journal.html.j2", {"rows": rows, "number": len(events)})


def export(request: DeskRequest) -> Response:
    """Return the journal for an auditor."""
    return download(request.desk.export_journal(), JSONL, "journal.jsonl")


def verify(request: DeskRequest) -> Response:
    """Verify that everything fits together, where that is asked for."""
    asked = request.fields.text("go") == "verify"
    thorough = request.fields.text("thorough") == "yes"
    verdict = request.desk.verify(thorough=thorough) if asked else None
    return page(request, "verify.html.j2", {"verdict": verdict, "thorough": thorough})


def _allowance_total(total: Total) -> float:
    """Return a total in the terms of allowances."""
    return total.epsilon if isinstance(total, PureDP) else total.zcdp().rho


def _facts(table: RegisteredTable, spending: Spending) -> dict[str, str]:
    facts = {"Records": "a private number" if table.records is None else f"{table.records:,}"}
    if spending.account is not None:
        ledger = spending.account.ledger
        facts = {
            "Protected": f"{ledger.unit}: {ledger.neighbours.sentence}",
            "Left": _left(spending.account),
        } | facts
    approval = {
        "each": "the steward decides on each question",
        "above": f"the steward decides on questions that cost more than {table.policy.up_to:g}",
        "none": "no question waits for the steward",
    }
    facts["Approval"] = approval[table.policy.approval]
    facts["Answers"] = (
        "all analysts read all answers"
        if table.policy.shared
        else "analysts read their own answers"
    )
    return facts


def _left(account: Account) -> str:
    """Return what is left of a total."""
    total = account.ledger.total
    largest = rounded_down(account.largest, 4)
    if isinstance(total, ApproxDP):
        return f"a next fit may cost up to ε = {largest:.4g}{delta_of(total)}"
    sign = "ρ" if isinstance(total, ZCDP) else "ε"
    return f"{sign} = {largest:.4g}"


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


def _analyst(analyst: Analyst, words: str, total: Total) -> dict[str, Any]:
    share = analyst.spent / analyst.amount if analyst.amount else 0.0
    return {
        "analyst": analyst,
        "words": words,
        "epsilon": as_epsilon(analyst.amount, total),
        "share": max(0.0, min(1.0, share)),
    }


def _short_facts(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of an event in a few words each."""
    shown = []
    flat = {key: value for key, value in facts.items() if not isinstance(value, dict)}
    for value in facts.values():
        if isinstance(value, dict):
            flat |= value
    for key, value in flat.items():
        if value in (None, "", []):
            continue
        text = str(value)
        shown.append((key, text if len(text) <= 80 else f"{text[:79]}…"))
    return shown
