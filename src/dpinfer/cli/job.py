"""A fit that was checked as far as possible, and what is told of it before a record is read."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli import screen, spec
from dpinfer.cli.budget import after_booking, listed, open_ledger
from dpinfer.cli.screen import Screen
from dpinfer.cli.spec import Data, data_of, model_of
from dpinfer.errors import DpinferError
from dpinfer.privacy.budget import weak_delta
from dpinfer.privacy.entries import Entry
from dpinfer.schema.design import Design
from dpinfer.schema.unit import Unit

if TYPE_CHECKING:
    from dpinfer.estimators.base import LinearModel

_REPLICATES = 10  # of the forecast of a dry run


@dataclass(frozen=True, eq=False)
class Job:
    """A fit that was checked as far as possible without reading a record."""

    data: Data
    model: "LinearModel"
    ledger: dp.Ledger | None
    folder: Path | None
    title: str | None
    level: float

    @classmethod
    def of(cls, given: spec.Spec) -> "Job":
        """Everything that a spec asks for.  A ledger that is not there is an error, not a new
        ledger.
        """
        data = data_of(given)
        ledger = (
            open_ledger(given.path("privacy", "ledger")) if "ledger" in given["privacy"] else None
        )
        folder = given.path("output", "folder") if "folder" in given["output"] else None
        title = given["output"].get("title") or data.schema.title or None
        return cls(
            data, model_of(given, data), ledger, folder, title, given["output"].get("level", 0.95)
        )

    def advice(self, design: Design, n: int) -> str:
        """What to say of the fit beforehand, from public facts."""
        recipe = self.model.recipe(design, n)
        return recipe.advice(n) if recipe.neighbours.counted else ""


def preview(job: Job, talk: Screen) -> None:
    """The cost and what the ledger would have left; raises what the fit would raise.

    Guarantee [dry_runs_read_no_value]: what is told depends on the schema, the formula and the
    ledger, and on names, types and, where it is public, number of rows of the table; with ids, of
    units.  So does the forecast.
    """
    design, source = job.model.read(job.data.table)
    n, unit, entry = source.n, design.unit, job.model.entry(source.n)
    public = entry.neighbours.counted
    names, advice = design.names, job.advice(design, n)
    facts = {
        "Table": f"{job.data.name}, {unit.size(n if public else None)}",
        "Model": entry.purpose,
        "Estimates": f"{len(names)} coefficients: {', '.join(names)}",
        "Protects": f"{entry.unit} ({entry.neighbours.sentence})",
        "Cost": str(job.model.budget or job.model.plan.budget),  # type: ignore[union-attr]
        "Spent on": "\n".join(_spent(entry)),
    }
    if advice:
        facts["Warning"] = advice
    if weak := weak_delta(job.model.budget, n if public else None):
        facts["Note"] = weak
    foreseen, words = (
        _foreseen(job, n, talk)
        if public
        else (None, "none: the number of " + unit.word + " is private")
    )
    facts["Forecast"] = words
    account, after, told = after_booking(job.ledger, entry)
    facts |= told
    facts["Output"] = "not named yet (--out DIR)" if job.folder is None else str(job.folder)
    if job.folder is not None and (job.folder / persistence.RESULT).exists():
        facts["Output"] += " holds a result: name another folder, or give --force"
    ids = ", and the ids, to count the units" if public and unit.number is None else ""
    seen = f"the names and types of the columns{ids}" if unit.many else "the shape of the table"
    talk.show(screen.title(f"Dry run: nothing was read but {seen}"), screen.facts(facts))
    talk.give(
        {
            "dry_run": True,
            **numbered(n if public else None, unit),
            "coefficients": names,
            "warning": advice or None,
        }
        | {"entry": listed(entry), "ledger": account and account.state(), "after": after}
        | {"forecast": foreseen and foreseen.table()}
    )
    if after["allowed"] is False:
        raise dp.LedgerError(after["reason"])


def numbered(n: int | None, unit: Unit) -> dict[str, int | None]:
    """The number of records or of units, under its name; the other is None, as is a private one."""
    return {"records": None, "units": None, unit.word: n}


def _foreseen(job: Job, n: int, talk: Screen) -> tuple["dp.simulate.Forecast | None", str]:
    """What the fit's own budget is expected to give, from public facts, and in words."""
    try:
        with talk.work("simulating"):
            found = dp.simulate.forecast(
                job.model, records=n, level=job.level, replicates=_REPLICATES
            )
    except DpinferError as fault:
        return None, f"none: {fault}"
    private, plain = found.median()
    seldom = found.open()
    words = f"{100 * job.level:.4g}% intervals of ±{private:.2g} in the middle, ±{plain:.2g} without privacy"
    if len(seldom) == len(found.names):
        words = "every line is likely to be open at this budget"
    elif seldom:
        words += f"; likely to be open: {', '.join(seldom)}"
    guesses = (
        "what the schema says is typical"
        if job.data.schema.typical
        else "usual values, as the schema has no typical"
    )
    return found, f"{words} (from {guesses}; see dpinfer plan)"


def _spent(entry: Entry) -> list[str]:
    """What each release costs, a line for each way in which the noise gets in."""
    ways: dict[str, list[str]] = {}
    for event in entry.events:
        ways.setdefault(event.mechanism, []).append(f"{event.step} {event.share.amount}")
    return [f"{'; '.join(steps)} ({way})" for way, steps in ways.items()]
