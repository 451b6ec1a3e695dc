"""`dpinfer budget`: make, show and check a ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.asking.from_spec import budget_of
from dpinfer.asking.spec import of_options
from dpinfer.cli import screen
from dpinfer.cli.options import NeighboursOption, privacy_section
from dpinfer.cli.screen import AsJson, Quiet, Screen
from dpinfer.errors import InputError, LedgerError, one_of_two
from dpinfer.moment_release.released_moments import is_moment_release
from dpinfer.privacy.account import Account
from dpinfer.privacy.budget import power_of_ten
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import delta_of
from dpinfer.privacy.second_accountant import AccountantComparison
from dpinfer.privacy.shares import UNITS
from dpinfer.result.saved import ReplacedError, is_description
from dpinfer.result.survival_curves import is_survival

app = typer.Typer(add_completion=False, rich_markup_mode="rich")

_NEARLY_ALL = 0.9  # of a total: the bar turns red
UNBOOKED = (
    "nothing was booked: no ledger was given, so other releases from these data are not counted"
)

_Ledger = Annotated[Path, typer.Argument(help="The file of the ledger.", metavar="LEDGER")]


@app.command()
def init(  # noqa: PLR0913  (the public face)
    ledger: _Ledger,
    *,
    epsilon: Annotated[float | None, typer.Option(help="Total; alone it is pure.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon: (epsilon, delta).")] = None,
    rho: Annotated[float | None, typer.Option(help="Total in zCDP, instead of --epsilon.")] = None,
    unit: Annotated[
        str | None, typer.Option(help='What one row stands for, "one record" by default.')
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the data are.")] = None,
    adjacency: Annotated[
        str | None,
        typer.Option(
            help='What may differ: "replace" (the default) or "add-remove" one row; "replace-unit", "add-remove-unit".'
        ),
    ] = None,
    neighbours: NeighboursOption = None,
    schema: Annotated[
        Path | None, typer.Option(help="Take unit and title from this schema, and its [unit].")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a ledger with a total for everything that is ever released from a data set."""
    total = budget_of(of_options(privacy_section(epsilon, delta, rho)))
    declared = None if schema is None else dp.Schema.read(schema)
    asked = one_of_two("--adjacency", adjacency, "--neighbours", neighbours)
    many = declared is not None and declared.unit.many
    relation = Adjacency.of(asked or Adjacency.REPLACE, units=many)
    assert total is not None
    if ledger.exists():
        raise InputError(
            f"{str(ledger)!r} is there already, and a ledger is never replaced: see `dpinfer budget show {ledger}`"
        )
    if declared is not None:
        unit = unit or declared.unit.name
        title = title or declared.title
    unit = unit or ("one unit" if relation.units else "one record")
    if not ledger.parent.is_dir():
        raise InputError(f"there is no folder {str(ledger.parent)!r}: make it first")
    new = dp.Ledger.create(ledger, total, unit=unit, adjacency=relation, title=title or "")
    console = Screen(quiet, as_json)
    console.show(
        Text(
            f"A new ledger in {ledger}: {total.amount}, for everything released about {unit} ({relation.sentence})."
        )
    )
    console.emit(Account.of(new).state())


@app.command()
def show(
    ledger: _Ledger,
    *,
    details: Annotated[
        bool, typer.Option("--details", help="Show how costs are counted: rho, rules, composition.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show how much of the total is used, and by what.

    A cost is the budget that a release was asked at, and its percentage of the total; percentages add up.  The next
    question may cost more than the total less the costs, as fits cost less together than one by one.
    """
    console = Screen(quiet, as_json)
    with console.work("adding up"):
        account = Account.of(open_ledger(ledger))
    opened = account.ledger
    facts: dict[str, str | Text] = {
        "Total": opened.total.amount,
        "Protects": f"{opened.unit} ({opened.neighbours.sentence})",
        "Used": _bar(account.share),
        "": account.statement(),
    }
    taken = delta_of(event for entry in account.entries for event in entry.events)
    if taken:
        facts["Levels"] = (
            f"took δ = {power_of_ten(taken)} of the total; everything else is judged at the rest"
        )
    if details:
        facts["Counted"] = account.shares.explanation(account.amount, account.spent)
    console.show(screen.title(opened.title or str(ledger)), screen.facts(facts), "")
    if account.entries:
        console.show(_entries(account, details=details))
    else:
        console.show(Text("Nothing was booked yet."))
    if account.entries and not details:
        console.show("", Text(f"How costs add up: dpinfer budget show {ledger} --details"))
    releases = [
        {
            "release": entry.release,
            "time": entry.time,
            "purpose": entry.purpose,
            "by": entry.by,
            "schema": entry.schema,
            "asked": entry.asked,
            "cost": entry.cost,
            "share": account.shares.of(opened.added_up([entry])),
            "rule": rule,
        }
        for entry, rule in zip(account.entries, account.rules, strict=True)
    ]
    console.emit(account.state() | {"levels_delta": taken, "releases": releases})


def _entries(account: Account, *, details: bool) -> Table:
    """Return one row per entry; in details with its rule, and its cost in what is counted."""
    shares = account.shares
    heads = ["#", "Release", "Id", "Booked (UTC)", "Cost", "Of total"]
    if details:
        heads = ["#", "Release", "Id", "Judged by", "Cost", "Of total", UNITS[shares.measure]]
    rows = []
    for number, (entry, rule) in enumerate(zip(account.entries, account.rules, strict=True), 1):
        amount = account.ledger.added_up([entry])
        when = rule if details else entry.time[:16].replace("T", " ")
        row = [str(number), entry.purpose, entry.release[:8], when]
        row += [shares.asked_of(entry), shares.percent(amount)]
        rows.append([*row, f"{amount:.4g}"] if details else row)
    return screen.table(heads, rows, left=4)


@app.command()
def verify(
    ledger: _Ledger,
    results: Annotated[
        list[Path] | None, typer.Argument(help="Published results to look for.", metavar="RESULT")
    ] = None,
    *,
    second_accountant: Annotated[
        bool,
        typer.Option(
            "--second-accountant", help="Also let dp_accounting compose the releases; print both."
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check that a ledger is whole, and that it holds the releases of published results."""
    opened = open_ledger(ledger)
    chain = opened.verify()
    if not chain.ok:
        raise LedgerError(chain.fault)
    booked = {entry.release: entry for entry in opened.entries()}
    judged = [_judged(path, booked) for path in results or []]
    console = Screen(quiet, as_json)
    words = "1 entry" if chain.entries == 1 else f"{chain.entries} entries"
    console.show(screen.facts({"Whole": f"{ledger}, {words}", "Head": chain.head}))
    if judged:
        rows = [
            [one["path"], (one["release"] or "none")[:8], one["fault"] or "matches"]
            for one in judged
        ]
        console.show("", screen.table(("Result", "Id", "In this ledger"), rows, left=3))
    second = None
    if second_accountant:
        with console.work("adding up"):
            second = opened.second_accountant()
        console.show("", *_second_opinion(second))
    keep = "Keep the number of entries and the head elsewhere: they tell whether an old copy was put back."
    console.show("", Text(keep))
    faults = [f"{one['path']!r} {one['fault']}" for one in judged if one["fault"]]
    console.emit(
        {
            "ok": not faults and (second is None or second.ok),
            "path": str(ledger),
            "entries": chain.entries,
            "head": chain.head,
            "results": judged,
            "second_accountant": None if second is None else second.state(),
        }
    )
    if second is not None and not second.ok:
        raise LedgerError(
            "dp_accounting counts more than this ledger: book nothing further from it, and report both numbers as "
            "SECURITY.md says"
        )
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise LedgerError(
            f"the result {faults[0]}{more}: it belongs to another ledger, or was changed, or an old copy of the ledger "
            "was put back; find the right copy before anything else is booked"
        )


def _second_opinion(found: AccountantComparison) -> list[Text]:
    """Return both counts, and the releases that are in neither."""
    shown = [Text(f"Two accountants: {found.sentence()}.")]
    if found.without_event:
        names = "; ".join(found.without_event)
        shown.append(Text(f"Not compared, as dp_accounting has no event for them: {names}."))
    return shown


def _judged(path: Path, booked: Mapping[str, Entry]) -> dict[str, Any]:
    """Check whether a result is in the ledger with the releases that it names; it has no fault if
    it is.
    """
    privacy = read_released(path).privacy
    fault = privacy.fault_against(booked.get(privacy.release or ""))
    return {
        "path": str(path),
        "release": privacy.release,
        "matches": fault is None,
        "fault": fault,
    }


def read_released(
    path: Path,
) -> dp.FitResult | dp.Description | dp.SurvivalCurves | dp.MomentRelease:
    """Read whatever a ledger may have an entry of."""
    if path.is_file() and is_moment_release(path.read_text(encoding="utf-8", errors="replace")):
        return dp.moments(path)
    return read_result(path)


def open_ledger(path: Path, *, allow_larger_delta: bool = False) -> dp.Ledger:
    """Open the ledger in a file that is there."""
    if not path.exists():
        raise InputError(
            f"there is no ledger {str(path)!r}: make one with `dpinfer budget init {path} --epsilon 1 --delta 1e-6`, "
            "with your own total"
        )
    return dp.Ledger.open(path, allow_larger_delta=allow_larger_delta)


def read_result(path: Path) -> dp.FitResult | dp.Description | dp.SurvivalCurves:
    """Read a saved result, a description or survival curves."""
    try:
        document = path.read_text(encoding="utf-8")
        if is_description(document):
            return dp.Description.from_json(document)
        if is_survival(document):
            return dp.SurvivalCurves.from_json(document)
        return dp.FitResult.from_json(document)
    except UnicodeDecodeError:
        fault = "it is not UTF-8 text"
    except ReplacedError as replaced:
        raise InputError(f"{str(path)!r} cannot be used: {replaced}") from None
    except InputError:
        fault = "it is no saved result of dpinfer, or was changed"
    raise InputError(
        f"{str(path)!r} cannot be used: {fault}; give the result.json that `dpinfer fit` wrote, the "
        "description.json of `dpinfer describe`, or the survival.json of `dpinfer survival`"
    )


def after_booking(
    ledger: dp.Ledger | None, entry: Entry
) -> tuple[Account | None, dict[str, Any], dict[str, str]]:
    """Return the ledger now, the total that would be left and by which rule; for a program and for
    people.
    """
    if ledger is None:
        words = {"Ledger": "none: nothing would be booked (--ledger names one)"}
        return None, {"allowed": None}, words
    account = Account.of(ledger)
    shares = account.shares
    amount = ledger.added_up([entry])
    preview = ledger.preview(entry)
    after = {
        "cost_share": shares.of(amount),
        "spent": preview.spent,
        "left": preview.left,
        "largest_fit": preview.largest,
        "allowed": preview.accepted,
        "reason": preview.reason,
        "rule": preview.rule,
    }
    left = f"refused: {preview.reason}"
    if preview.accepted:
        left = preview.statement
    words = {
        "Cost": shares.cost(entry.asked, amount),
        "Ledger now": account.statement(),
        "After this": left,
    }
    return account, after, words


def listed(entry: Entry) -> dict[str, Any]:
    """Return the releases of an entry, for a program."""
    events = [{"step": e.step, "mechanism": e.mechanism, "share": e.share} for e in entry.events]
    return {
        "purpose": entry.purpose,
        "unit": entry.unit,
        "neighbours": entry.neighbours,
        "schema": entry.schema,
        "events": events,
    }


@dataclass
class Counter:
    """A ledger that tells afterwards whether something was booked."""

    ledger: dp.Ledger
    releases: list[str] = field(default_factory=list)

    def book(self, entry: Entry) -> str:
        """Book in the ledger, and remember the release id."""
        self.releases.append(self.ledger.book(entry))
        return self.releases[-1]


def _bar(share: float, width: int = 24) -> Text:
    full = min(width, round(width * share))
    colour = "red" if share > _NEARLY_ALL else "green"
    return Text.assemble(("█" * full, colour), ("░" * (width - full), "dim"))
