"""`dpinfer survival`: survival curves, checked, priced, booked, released and written; or the dry run of it."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.asking.from_spec import adjacency_of, budget_of, schema_of
from dpinfer.asking.spec import Spec, of_options
from dpinfer.cli import screen
from dpinfer.cli.budget import UNBOOKED, Counter, after_booking, listed, open_ledger
from dpinfer.cli.errors import remark
from dpinfer.cli.options import (
    AdjacencyOption,
    AllowLargerDelta,
    DeltaOption,
    EpsilonOption,
    LedgerOption,
    NeighboursOption,
    RhoOption,
    privacy_section,
)
from dpinfer.cli.screen import AsJson, Quiet, Screen, Verbose
from dpinfer.description.survival_release import SurvivalRelease, survival_release
from dpinfer.errors import DpinferError, InputError
from dpinfer.privacy.account import Account
from dpinfer.privacy.budget import weak_delta

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
DATA is a table (.csv, .parquet, .arrow) with --schema.  --time is the time to the event or the end of observation, \
--event whether there was one: true and false, or levels whose reference is censored and whose others are causes.  \
With --by there is a curve per group, and a test.  One release pays for all of it.  --dry-run tells the cost \
beforehand and books nothing.
"""
_HEADING = "Survival curves"


@app.command(help=_HELP)
def survival(  # noqa: PLR0913  (the public face)
    data: Annotated[Path, typer.Argument(help="A .csv, .parquet or .arrow file.", metavar="DATA")],
    *,
    schema: Annotated[Path | None, typer.Option(help="What is public about the table.")] = None,
    time: Annotated[str, typer.Option(help="The time from the origin to exit.")],
    event: Annotated[str, typer.Option(help="Whether there was an event, and of which cause.")],
    entry: Annotated[str | None, typer.Option(help="The time of entry, if it may be late.")] = None,
    by: Annotated[str | None, typer.Option(help="A column with levels: groups of it.")] = None,
    bins: Annotated[
        str | None, typer.Option(help="Intervals: their number, or their ends as 1,2,5,10.")
    ] = None,
    start: Annotated[float, typer.Option(help="The time at which curves begin.")] = 0.0,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    adjacency: AdjacencyOption = None,
    neighbours: NeighboursOption = None,
    ledger: LedgerOption = None,
    allow_larger_delta: AllowLargerDelta = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the result.", metavar="DIR")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level, 0.95 by default.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the cost; read, book and write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace curves in the folder.")] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Release survival curves."""
    options = {
        ("data", "path"): str(data),
        ("data", "schema"): None if schema is None else str(schema),
        **privacy_section(epsilon, delta, rho, adjacency, neighbours, ledger),
        ("output", "folder"): None if out is None else str(out),
        ("output", "title"): title,
        ("output", "level"): level,
    }
    asked = {
        "time": time,
        "event": event,
        "entry": entry,
        "by": by,
        "bins": _bins(bins),
        "start": start,
    }
    job = SurvivalJob.of(of_options(options), asked, allow_larger_delta=allow_larger_delta)
    console = Screen(quiet, as_json, verbose)
    if dry_run:
        preview(job, console)
    else:
        release(job, console, force=force)


def _bins(given: str | None) -> int | list[float] | None:
    """Parse a number of intervals, or their ends."""
    if given is None:
        return None
    try:
        if given.strip().isdigit():
            return int(given)
        return [float(end) for end in given.split(",")]
    except ValueError:
        raise InputError(
            f"--bins takes a number of intervals, or their ends as in --bins 1,2,5,10, not {given!r}"
        ) from None


@dataclass(frozen=True, eq=False)
class SurvivalJob:
    """Survival curves that were checked as far as possible without reading a record."""

    name: str
    task: SurvivalRelease
    ledger: dp.Ledger | None
    folder: Path | None
    title: str | None

    @classmethod
    def of(
        cls, given: Spec, asked: dict[str, Any], *, allow_larger_delta: bool = False
    ) -> "SurvivalJob":
        """Check everything that is asked for.  A ledger that is not there is an error, not a new
        one.
        """
        if "schema" not in given["data"]:
            raise InputError("DATA needs a schema beside it, for example --schema schema.toml")
        declared = schema_of(given)
        budget = budget_of(given)
        ledger = None
        if "ledger" in given["privacy"]:
            ledger = open_ledger(
                given.path("privacy", "ledger"), allow_larger_delta=allow_larger_delta
            )
        path = given.file("data", "path")
        task = survival_release(
            path,
            declared,
            budget=budget,
            adjacency=adjacency_of(given),
            level=given["output"].get("level", 0.95),
            **asked,
        )
        folder = None
        if "folder" in given["output"]:
            folder = given.path("output", "folder")
        title = given["output"].get("title") or declared.title or None
        return cls(str(path), task, ledger, folder, title)


def preview(job: SurvivalJob, console: Screen) -> None:
    """Show the cost, what the noise alone adds, and what the ledger would have left; raise what the
    release would raise.
    """
    task = job.task
    entry = task.entry
    follow_up = task.follow_up
    facts = {
        "Table": f"{job.name}, {task.unit.size(task.n)}",
        "Values": screen.UNCHECKED,
        "Curves of": f"{task.names['event']} by {task.names['time']}",
        "Intervals": f"{follow_up.intervals}, from {follow_up.start:g} to {follow_up.edges[-1]:g}",
        "Noise": f"a number of events up to a time has noise with sd {task.count_sd:,.3g}",
        "Protects": f"{entry.unit} ({entry.neighbours.sentence})",
        "Cost": task.budget.amount,
    }
    if task.groups:
        facts["Groups"] = task.names["by"]
    weak = weak_delta(task.budget, task.n)
    if weak:
        facts["Note"] = weak
    account, after, words = after_booking(job.ledger, entry)
    facts |= words
    facts["Output"] = _output(job.folder)
    console.show(screen.title("Dry run: no value was read"), screen.facts(facts))
    console.emit(
        {
            "dry_run": True,
            "records": None,
            "units": None,
            task.unit.word: task.n,
            "names": task.names,
            "intervals": follow_up.intervals,
            "count_sd": task.count_sd,
            "entry": listed(entry),
            "ledger": account and account.state(),
            "after": after,
        }
    )
    if after["allowed"] is False:
        raise dp.LedgerError(after["reason"])


def _output(folder: Path | None) -> str:
    if folder is None:
        return "not named yet (--out DIR)"
    if (folder / persistence.SURVIVAL).exists():
        return f"{folder} holds survival curves: name another folder, or give --force"
    return str(folder)


def release(job: SurvivalJob, console: Screen, *, force: bool) -> None:
    """Book, read, release; keep the curves, write their page, show the table."""
    if job.folder is None:
        raise InputError("curves cost budget, so they must be kept: name a folder with --out DIR")
    kept = job.folder / persistence.SURVIVAL
    persistence.vacant(kept, force, "name another folder, or give --force to replace it")
    persistence.prepare(job.folder)
    # whatever is wrong with the packages of a page shows before anything is spent
    import_module("dpinfer.views.report")
    counter = None if job.ledger is None else Counter(job.ledger)
    try:
        with console.work(f"survival curves of {job.name}"):
            found = job.task.run(counter)
    except BaseException:
        if counter and counter.releases:
            remark(f"the spend was booked as release {counter.releases[0]} before this happened")
        raise
    _keep(kept, found)
    with console.work("writing the page"):
        paths = _written(job, found, kept)
        account = None if job.ledger is None else Account.of(job.ledger)
    console.show(*_shown(job, found, account, paths))
    console.emit(_receipt(found, account, paths))


def _keep(kept: Path, found: dp.SurvivalCurves) -> None:
    """Write the curves first: they were paid for.  If the folder fails after all, print them to
    stdout.
    """
    try:
        persistence.write(kept, found.to_json().encode())
    except OSError as fault:
        print(found.to_json())
        raise InputError(
            f"{kept} cannot be written any more ({fault.strerror}): the curves were printed to stdout instead, "
            f"save them as {kept.name}"
        ) from None


def _written(job: SurvivalJob, found: dp.SurvivalCurves, kept: Path) -> list[Path]:
    try:
        return dp.report.write(found, kept.parent, title=job.title)
    except (DpinferError, OSError):
        raise InputError(
            f"not all files can be written, but the curves are safe in {kept}: make room, then dpinfer report {kept}"
        ) from None
    except Exception:
        remark(f"the curves are safe in {kept}")
        raise


def _shown(
    job: SurvivalJob, found: dp.SurvivalCurves, account: Account | None, paths: list[Path]
) -> list[Any]:
    booked = UNBOOKED
    if account is not None:
        booked = f"{account.statement()} Booked as release {found.privacy.release}."
    facts = {"Ledger": booked, "Written": ", ".join(str(path) for path in paths)}
    return [
        screen.title(job.title or _HEADING),
        *found.summary().splitlines(),
        "",
        screen.facts(facts),
    ]


def _receipt(
    found: dp.SurvivalCurves, account: Account | None, paths: list[Path]
) -> dict[str, Any]:
    privacy = found.privacy
    several = found.causes if len(found.causes) > 1 else ()
    return {
        "booked": privacy.in_ledger,
        "release": privacy.release,
        "budget": privacy.budget,
        "unit": privacy.unit,
        "records": None,
        "units": None,
        found.unit.word: found.n,
        "level": found.confidence,
        "by": found.names["by"] or None,
        "survival": found.curve_rows(),
        "incidence": {cause: found.curve_rows(k) for k, cause in enumerate(several)},
        "median": found.quantile_rows(),
        "restricted_mean": found.restricted_mean_rows(),
        "tests": found.tests(),
        "ledger": account and account.state(),
        "files": [str(path) for path in paths],
    }
