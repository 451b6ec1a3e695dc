"""Pages of tables, with what is public and what was spent; and of the steward: people, journal, verification."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
from dpinfer_desk.web.visit import Answer, Document, Elsewhere, Page, Visit

SIGNS = {"rho": "ρ", "epsilon": "ε"}
"""What allowances are counted in, as a letter."""
DONE = {
    "person": "The person is known here, with an allowance at this table.",
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
class Purse:
    """What was spent of a total, in its own terms: (ε, δ), ρ or ε; or why that cannot be told."""

    account: Account | None
    fault: str = ""

    @classmethod
    def of(cls, desk: Desk, name: str) -> "Purse":
        """That of a table; a ledger that cannot be read hides no other table."""
        try:
            return cls(desk.account(name))
        except LedgerError as fault:
            return cls(None, str(fault))

    @property
    def share(self) -> float:
        """The part that was spent, from 0 to 1."""
        if self.account is None:
            return 0.0
        return max(0.0, min(1.0, self.account.spent / self.account.limit))

    @property
    def words(self) -> str:
        """What was spent of which total."""
        if self.account is None:
            return self.fault
        return self.spending(self.account.spent)

    def spending(self, spent: float) -> str:
        """The same, were so much spent."""
        assert self.account is not None
        total = self.account.ledger.total
        sign = "ρ" if isinstance(total, ZCDP) else "ε"
        at = f" at δ = {exactly(total.delta)}" if isinstance(total, ApproxDP) else ""
        return f"{sign} {spent:.4g} of {self.account.limit:.4g} spent{at}"


def exactly(number: float) -> str:
    """A number as people write it: 1e-6, not 1e-06."""
    return re.sub(r"e([-+])0+", r"e\1", f"{number:g}")


def label(budget: Total) -> str:
    """A budget in a few letters, without δ."""
    if isinstance(budget, ZCDP):
        return f"ρ = {budget.rho:.4g}"
    return f"ε = {budget.epsilon:.4g}"


def delta_of(budget: Total) -> str:
    """What goes with ε, where something does."""
    return f", δ = {exactly(budget.delta)}" if isinstance(budget, ApproxDP) else ""


def found(visit: Visit) -> RegisteredTable:
    """The table in the address, if the visitor may see it."""
    return visit.sight.table(visit.names["table"])


def as_epsilon(amount: float, total: Total) -> str:
    """An allowance in ρ also as ε at the total's δ; empty where that is no (ε, δ) total."""
    if not isinstance(total, ApproxDP) or amount <= 0:
        return ""
    return f"ε {ZCDP(amount).approx(total.delta).epsilon:.3g} at δ = {exactly(total.delta)}"


def home(visit: Visit) -> Answer:
    """The tables that the visitor may see and, for a steward, the command that adds one."""
    sight = visit.sight
    rows = []
    for one in sight.tables():
        open_ = sight.tickets(one.name, states=(*tickets.OPEN, tickets.BOOKED_STATE))
        rows.append(
            {
                "table": one,
                "purse": Purse.of(visit.desk, one.name),
                "open": len(open_),
                "answered": len(sight.answers(one.name)),
            }
        )
    return Page("home.html.j2", {"rows": rows, "folder": str(visit.desk.folder.path)})


def table(visit: Visit) -> Answer:
    """What is public about a table and its answers; an analyst's allowance, or the burn-down of all."""
    desk = visit.desk
    sight = visit.sight
    one = found(visit)
    purse = Purse.of(desk, one.name)
    parts: dict[str, Any] = {
        "table": one,
        "purse": purse,
        "columns": _columns(one),
        "facts": _facts(one, purse),
        "answers": sight.answers(one.name)[: -_ANSWERS - 1 : -1],
        "done": DONE.get(visit.fields.text("done"), ""),
        "drawings": [],
        "months": [],
        "sign": "",
        "changed": "",
        "approvals": APPROVALS,
        "own": None,
    }
    if purse.account is None:
        return Page("table.html.j2", parts)
    total = purse.account.ledger.total
    parts["sign"] = SIGNS[accountant.counted_in(total)]
    if sight.unrestricted:
        parts["changed"] = one.changed()
        spends = desk.burn_down(one.name)
        start = datetime.fromisoformat(one.added)
        parts["drawings"] = [
            burn_down(spends, _whole(total), (start, desk.clock()), size) for size in (WIDE, NARROW)
        ]
        parts["months"] = _months(spends)
    else:
        parts["own"] = _analyst(sight.analyst(one.name), "", total)
    return Page("table.html.j2", parts)


def schema(visit: Visit) -> Answer:
    """The schema as it was registered."""
    return Document(found(visit).schema_text, "text/plain", f"{found(visit).name}.toml")


def practice(visit: Visit) -> Answer:
    """Made-up records with the columns of the table."""
    one = found(visit)
    frame = visit.desk.practice(one.name, _PRACTICE)
    return Document(frame.to_csv(index=False), "text/csv", f"{one.name}-practice.csv")


def ledger(visit: Visit) -> Answer:
    """The ledger for an auditor: its header and entries with their hashes, as JSON lines."""
    one = found(visit)
    rows = [
        {"number": number, "body": body, "hash": link}
        for number, body, link in one.ledger().chain()
    ]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return Document(text, "application/jsonl", f"{one.name}-ledger.jsonl")


def people(visit: Visit) -> Answer:
    """Who may ask, and what each may spend."""
    desk = visit.desk
    one = found(visit)
    total = one.ledger().total
    analysts = desk.analysts(one.name)
    words = {person.name: person.description for person in desk.persons()}
    known = [name for name in words if name not in {analyst.person for analyst in analysts}]
    return Page(
        "people.html.j2",
        {
            "table": one,
            "rows": [_analyst(analyst, words[analyst.person], total) for analyst in analysts],
            "known": known,
            "sign": SIGNS[accountant.counted_in(total)],
            "measure": accountant.counted_in(total),
            "total": label(total) + delta_of(total),
            "whole": _whole(total),
            "given": sum(analyst.amount for analyst in analysts),
            "reserved": desk.reserved(one.name),
            "done": DONE.get(visit.fields.text("done"), ""),
        },
    )


def add_person(visit: Visit) -> Answer:
    """Give somebody an allowance; a name that is new here is added first."""
    one = found(visit)
    name = visit.fields.text("person")
    amount = visit.fields.needed("amount", "the allowance")
    if amount <= 0:
        raise InputError("an allowance is a number above 0, such as 0.05")
    if name not in {person.name for person in visit.desk.persons()}:
        name = visit.desk.add_person(name, visit.fields.text("words")).name
    visit.desk.allow(one.name, name, amount)
    return Elsewhere(("t", one.name, "people"), {"done": "person"})


def allow(visit: Visit) -> Answer:
    """Another allowance."""
    one = found(visit)
    amount = visit.fields.needed("amount", "the allowance")
    visit.desk.allow(one.name, visit.fields.text("person"), amount)
    return Elsewhere(("t", one.name, "people"), {"done": "allowance"})


def set_state(visit: Visit) -> Answer:
    """Pause, resume, revoke."""
    one = found(visit)
    state = visit.fields.text("state")
    visit.desk.set_state(one.name, visit.fields.text("person"), state, visit.fields.text("reason"))
    return Elsewhere(("t", one.name, "people"), {"done": state})


def set_policy(visit: Visit) -> Answer:
    """Which questions wait for the steward, and who reads answers."""
    one = found(visit)
    up_to = visit.fields.number("up_to", "the cost") or 0.0
    shared = visit.fields.text("shared") == "yes"
    visit.desk.set_policy(one.name, Policy(visit.fields.text("approval"), up_to, shared))
    return Elsewhere(("t", one.name), {"done": "policy"})


def pause(visit: Visit) -> Answer:
    """Take and book nothing at a table."""
    one = found(visit)
    visit.desk.pause(one.name, visit.fields.text("reason"))
    return Elsewhere(("t", one.name), {"done": "table-paused"})


def resume(visit: Visit) -> Answer:
    """Open a table again."""
    one = found(visit)
    visit.desk.resume(one.name, visit.fields.text("reason"))
    return Elsewhere(("t", one.name), {"done": "table-open"})


def journal(visit: Visit) -> Answer:
    """Who did what, newest first."""
    events = visit.desk.journal()
    rows = [{"event": event, "facts": _told(event.facts)} for event in events[: -_EVENTS - 1 : -1]]
    return Page("journal.html.j2", {"rows": rows, "number": len(events)})


def export(visit: Visit) -> Answer:
    """The journal for an auditor."""
    return Document(visit.desk.export_journal(), "application/jsonl", "journal.jsonl")


def verify(visit: Visit) -> Answer:
    """Whether everything fits together, where that is asked for."""
    asked = visit.fields.text("go") == "verify"
    thorough = visit.fields.text("thorough") == "yes"
    verdict = visit.desk.verify(thorough=thorough) if asked else None
    return Page("verify.html.j2", {"verdict": verdict, "thorough": thorough})


def _whole(total: Total) -> float:
    """A total in the terms of allowances."""
    return total.epsilon if isinstance(total, PureDP) else total.zcdp().rho


def _facts(table: RegisteredTable, purse: Purse) -> dict[str, str]:
    facts = {"Records": "a private number" if table.records is None else f"{table.records:,}"}
    if purse.account is not None:
        ledger = purse.account.ledger
        facts = {
            "Protected": f"{ledger.unit}: {ledger.neighbours.sentence}",
            "Left": _left(purse.account),
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
    """What is left of a total."""
    total = account.ledger.total
    largest = rounded_down(account.largest, 4)
    if isinstance(total, ApproxDP):
        return f"a next fit may cost up to ε = {largest:.4g}{delta_of(total)}"
    sign = "ρ" if isinstance(total, ZCDP) else "ε"
    return f"{sign} = {largest:.4g}"


def _columns(table: RegisteredTable) -> list[dict[str, str]]:
    """The public schema, one row per column."""
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
    """Month, who, how many releases, how much; the newest month first."""
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


def _told(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of an event in a few words each."""
    told = []
    flat = {key: value for key, value in facts.items() if not isinstance(value, dict)}
    for value in facts.values():
        if isinstance(value, dict):
            flat |= value
    for key, value in flat.items():
        if value in (None, "", []):
            continue
        words = str(value)
        told.append((key, words if len(words) <= 80 else f"{words[:79]}…"))
    return told
