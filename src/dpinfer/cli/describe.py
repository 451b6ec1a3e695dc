"""`dpinfer describe`: Table 1 of a table, checked, priced, booked, released and written; or the dry run of it."""

import re
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
from dpinfer.description.describing import Describing, describing
from dpinfer.errors import DpinferError, InputError
from dpinfer.privacy.account import Account
from dpinfer.privacy.budget import weak_delta
from dpinfer.result import table_one, text
from dpinfer.schema.guesses import default_guess, typical_entry
from dpinfer.schema.schema import with_typical

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
DATA is a table (.csv, .parquet, .arrow) with --schema.  Of numbers: mean, standard deviation and quartiles; of levels \
and of true and false: counts and shares; of every column how many records are usable and how many missing.  With --by \
the same by group, with differences from the first group.  The budget is shared alike among the columns: name with \
--columns those that you need.  --dry-run tells the cost beforehand and books nothing.
"""
_HEADING = "Description of a table"
# a comma that no bracket is open before, nor a quote: brackets inside brackets are not needed here
_BETWEEN = re.compile(r""",(?=(?:[^()"']|\([^()]*\)|"[^"]*"|'[^']*')*$)""")


@app.command(help=_HELP)
def describe(  # noqa: PLR0913  (the public face)
    data: Annotated[Path, typer.Argument(help="A .csv, .parquet or .arrow file.", metavar="DATA")],
    *,
    schema: Annotated[Path | None, typer.Option(help="What is public about the table.")] = None,
    by: Annotated[str | None, typer.Option(help="A column with levels: groups of it.")] = None,
    columns: Annotated[str | None, typer.Option(help="Which: a,b; by default all.")] = None,
    share: Annotated[
        list[str] | None, typer.Option(help="More or less for a column: a=2; others have 1.")
    ] = None,
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
    into: Annotated[
        Path | None, typer.Option(help="A schema: fill in what is typical, for forecasts.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level, 0.95 by default.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the cost; read, book and write nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a description in the folder.")
    ] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Describe a table."""
    options = {
        ("data", "path"): str(data),
        ("data", "schema"): _text(schema),
        **privacy_section(epsilon, delta, rho, adjacency, neighbours, ledger),
        ("output", "folder"): _text(out),
        ("output", "title"): title,
        ("output", "level"): level,
    }
    asked = Selection(by, _listed(columns), _shares(share or []))
    job = DescriptionJob.of(of_options(options), asked, into, allow_larger_delta=allow_larger_delta)
    console = Screen(quiet, as_json, verbose)
    if dry_run:
        preview(job, console)
    else:
        release(job, console, force=force)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


@dataclass(frozen=True)
class Selection:
    """The columns that are described, their groups, and their shares of the budget."""

    by: str | None
    columns: list[str] | None
    shares: dict[str, float]


def _listed(columns: str | None) -> list[str] | None:
    """Split names and expressions at commas; a comma inside brackets or quotes is theirs."""
    if columns is None:
        return None
    return [name.strip() for name in _BETWEEN.split(columns) if name.strip()]


def _shares(given: list[str]) -> dict[str, float]:
    """Parse shares given as NAME=NUMBER."""
    found = {}
    for text_ in given:
        name, sign, number = text_.rpartition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            sign = ""
        if not sign:
            raise InputError(f"--share takes NAME=NUMBER, as in --share age=2, not {text_!r}")
    return found


@dataclass(frozen=True, eq=False)
class DescriptionJob:
    """A description that was checked as far as possible without reading a record."""

    name: str
    describing: Describing
    ledger: dp.Ledger | None
    folder: Path | None
    into: Path | None
    title: str | None

    @classmethod
    def of(
        cls,
        given: Spec,
        asked: Selection,
        into: Path | None,
        *,
        allow_larger_delta: bool = False,
    ) -> "DescriptionJob":
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
        task = describing(
            path,
            declared,
            budget,
            asked.by,
            asked.columns,
            adjacency_of(given),
            asked.shares,
            given["output"].get("level", 0.95),
        )
        if into is not None:
            _require_fillable(into, task)
        folder = None
        if "folder" in given["output"]:
            folder = given.path("output", "folder")
        title = given["output"].get("title") or declared.title or None
        return cls(str(path), task, ledger, folder, into, title)


def _require_fillable(into: Path, task: Describing) -> None:
    """Refuse a schema that could not be filled in after the spend."""
    declared = dp.Schema.read(into)
    columns = [column for column in task.columns if column.name not in task.derived]
    for column in columns:
        if declared[column.name] != column:
            raise InputError(
                f"--into {str(into)!r} declares the column {column.name!r} otherwise than --schema: "
                "name the same schema, or make them agree"
            )
    tried = {column.name: typical_entry(column, default_guess(column)) for column in columns}
    with_typical(_schema_text(into), tried, "a try")
    persistence.prepare(into.parent)


def _schema_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


def preview(job: DescriptionJob, console: Screen) -> None:
    """Show the cost, what the noise alone adds, and what the ledger would have left; raise what the
    description would raise.
    """
    task = job.describing
    entry = task.entry
    facts = {
        "Table": f"{job.name}, {task.unit.size(task.n)}",
        "Values": screen.UNCHECKED,
        "Describes": ", ".join(column.name for column in task.columns),
        "Protects": f"{entry.unit} ({entry.neighbours.sentence})",
        "Cost": task.budget.amount,
    }
    if console.verbose:
        facts["Spent on"] = "; ".join(
            f"{event.step} {event.share.amount}" for event in entry.events
        )
    if task.by is not None:
        facts["Groups"] = task.by.name
    weak = weak_delta(task.budget, task.n)
    if weak:
        facts["Note"] = weak
    account, after, words = after_booking(job.ledger, entry)
    facts |= words
    facts["Output"] = _output(job.folder)
    rows = [
        [
            row["column"],
            _group_label(row["by"]),
            row["figure"],
            f"±{text.number(row['noise'], text.decimals_for(row['noise']))}",
        ]
        for row in task.expected()
    ]
    heads = ("Column", "Of", "Figure", "Noise alone")
    console.show(screen.title("Dry run: no value was read"), screen.facts(facts))
    if rows:
        console.show("", screen.table(heads, rows, left=3))
    console.emit(
        {
            "dry_run": True,
            "records": None,
            "units": None,
            task.unit.word: task.n,
            "columns": [column.name for column in task.columns],
            "by": task.by and task.by.name,
            "entry": listed(entry),
            "ledger": account and account.state(),
            "after": after,
            "expected": task.expected(),
        }
    )
    if after["allowed"] is False:
        raise dp.LedgerError(after["reason"])


def _group_label(by: str) -> str:
    return f"each {by}" if by else "all"


def _output(folder: Path | None) -> str:
    if folder is None:
        return "not named yet (--out DIR)"
    if (folder / persistence.DESCRIPTION).exists():
        return f"{folder} holds a description: name another folder, or give --force"
    return str(folder)


def release(job: DescriptionJob, console: Screen, *, force: bool) -> None:
    """Book, read, release; keep the description, write its page, fill in a schema, show the table."""
    if job.folder is None:
        raise InputError(
            "a description costs budget, so it must be kept: name a folder with --out DIR"
        )
    kept = job.folder / persistence.DESCRIPTION
    persistence.vacant(kept, force, "name another folder, or give --force to replace it")
    persistence.prepare(job.folder)
    # whatever is wrong with the packages of a page shows before anything is spent
    import_module("dpinfer.views.report")
    counter = None if job.ledger is None else Counter(job.ledger)
    try:
        with console.work(f"describing {job.name}"):
            found = job.describing.run(counter)
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


def _keep(kept: Path, found: dp.Description) -> None:
    """Write the description first: it was paid for.  If the folder fails after all, print it to
    stdout.
    """
    try:
        persistence.write(kept, found.to_json().encode())
    except OSError as fault:
        print(found.to_json())
        raise InputError(
            f"{kept} cannot be written any more ({fault.strerror}): the description was printed to stdout instead, "
            f"save it as {kept.name}"
        ) from None


def _written(job: DescriptionJob, found: dp.Description, kept: Path) -> list[Path]:
    """Write the files of the folder, and fill in the schema."""
    try:
        paths = dp.report.write(found, kept.parent, title=job.title)
        if job.into is not None:
            _fill(job.into, found)
            paths.append(job.into)
    except (DpinferError, OSError):
        raise InputError(
            f"not all files can be written, but the description is safe in {kept}: make room, then dpinfer report "
            f"{kept}; dp.Description.load(...).typical() has what a schema is filled in with"
        ) from None
    except Exception:
        remark(f"the description is safe in {kept}")
        raise
    return paths


def _fill(into: Path, found: dp.Description) -> None:
    """Write what is typical by this release into a schema; the rest of the file stays as it is."""
    origin = f"dpinfer describe, release {found.privacy.release or 'not booked'}"
    text = with_typical(_schema_text(into), found.typical(), origin)
    persistence.write(into, text.encode())


def _shown(
    job: DescriptionJob, found: dp.Description, account: Account | None, paths: list[Path]
) -> list[Any]:
    privacy = found.privacy
    booked = UNBOOKED
    if account is not None:
        booked = f"{account.statement()} Booked as release {privacy.release}."
    facts = {
        "Privacy": f"{privacy.budget}; protects {privacy.unit}",
        "Ledger": booked,
        "Reading": "\n".join([*table_one.notes(found), *found.meanings()]),
        "Written": ", ".join(str(path) for path in paths),
    }
    size = found.unit.size(found.n)
    return [
        screen.title(f"{job.title or _HEADING}\n{size}, {table_one.interval_name(found)}s"),
        *table_one.screen(found).splitlines(),
        "",
        screen.facts(facts),
    ]


def _receipt(found: dp.Description, account: Account | None, paths: list[Path]) -> dict[str, Any]:
    privacy = found.privacy
    return {
        "booked": privacy.in_ledger,
        "release": privacy.release,
        "budget": privacy.budget,
        "unit": privacy.unit,
        "records": None,
        "units": None,
        found.unit.word: found.n,
        "level": found.confidence,
        "by": found.by or None,
        "figures": found.rows(),
        "typical": found.typical(),
        "ledger": account and account.state(),
        "files": [str(path) for path in paths],
    }
