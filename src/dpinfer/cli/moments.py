"""`dpinfer moments`: plan, publish and ask a release that answers every linear model of its columns."""

from dataclasses import asdict, dataclass
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
from dpinfer.errors import DpinferError, InputError
from dpinfer.moment_release.forecasting import MomentForecast
from dpinfer.moment_release.moment_questions import FORMS, answer
from dpinfer.moment_release.released_moments import InstrumentedEffect, MomentFigure, MomentRelease
from dpinfer.moment_release.releasing import Releasing, releasing
from dpinfer.privacy.account import Account
from dpinfer.privacy.budget import weak_delta
from dpinfer.result import coefficient_table
from dpinfer.result.result import FitResult

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HEADING = "Least squares from released moments"
_Columns = Annotated[
    str, typer.Option(help='What will be asked: "hours + age + sex + age:sex".', metavar="TERMS")
]
_SchemaFile = Annotated[Path, typer.Option(help="What is public about the table.")]
_File = Annotated[Path, typer.Argument(help="A file of dpinfer moments release.", metavar="FILE")]


@app.command()
def plan(  # noqa: PLR0913  (the public face)
    schema: Annotated[Path, typer.Argument(help="The schema of the table.", metavar="SCHEMA")],
    *,
    columns: _Columns,
    records: Annotated[int, typer.Option(help="How many records, or units with ids.")],
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    adjacency: AdjacencyOption = None,
    neighbours: NeighboursOption = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Tell what a release would cost in length of intervals; reads no table, books nothing."""
    given = _spec(None, schema, epsilon, delta, rho, adjacency, neighbours)
    forecast = dp.plan_moments(
        schema_of(given),
        columns,
        records,
        budget_of(given),  # type: ignore[arg-type]  # options name a budget
        adjacency=adjacency_of(given),
    )
    console = Screen(quiet, as_json)
    console.show(screen.title("Forecast of a moment release"), *_forecast(forecast))
    console.emit({**asdict(forecast), "worthwhile": forecast.worthwhile})


def _spec(
    data: Path | None,
    schema: Path,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    adjacency: str | None,
    neighbours: str | None,
    ledger: Path | None = None,
) -> Spec:
    return of_options(
        {
            ("data", "path"): None if data is None else str(data),
            ("data", "schema"): str(schema),
            **privacy_section(epsilon, delta, rho, adjacency, neighbours, ledger),
        }
    )


def _forecast(forecast: MomentForecast) -> list[Any]:
    facts = {
        "Columns": f"{forecast.columns}, of {forecast.records:,} records",
        "Price": f"{forecast.price:.2f}: noise variance of a slope over its sampling variance",
        "Length": f"intervals about {forecast.length:.2f} times as long as without noise",
        "Worth": f"as if from {forecast.effective:,.0f} records without noise",
    }
    if not forecast.worthwhile:
        facts["Refused"] = "noise would drown every answer: name fewer columns, or give more budget"
    rows = [[one.term, str(one.columns), f"{one.price_without:.2f}"] for one in forecast.terms]
    return [screen.facts(facts), "", screen.table(("Term", "Columns", "Price without it"), rows)]


@app.command()
def release(  # noqa: PLR0913  (the public face)
    data: Annotated[Path, typer.Argument(help="A .csv, .parquet or .arrow file.", metavar="DATA")],
    *,
    schema: _SchemaFile,
    columns: _Columns,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    rho: RhoOption = None,
    adjacency: AdjacencyOption = None,
    neighbours: NeighboursOption = None,
    ledger: LedgerOption = None,
    allow_larger_delta: AllowLargerDelta = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write.", metavar="FILE")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the cost; read, book and write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Release the moments of some columns: checked, priced, booked, written to a file."""
    job = MomentJob.of(
        _spec(data, schema, epsilon, delta, rho, adjacency, neighbours, ledger),
        columns,
        out,
        allow_larger_delta=allow_larger_delta,
    )
    console = Screen(quiet, as_json, verbose)
    if dry_run:
        preview(job, console)
    else:
        publish(job, console, force=force)


@dataclass(frozen=True, eq=False)
class MomentJob:
    """A release that was checked as far as possible without reading a record."""

    name: str
    releasing: Releasing
    ledger: dp.Ledger | None
    file: Path | None

    @classmethod
    def of(
        cls, given: Spec, columns: str, file: Path | None, *, allow_larger_delta: bool = False
    ) -> "MomentJob":
        """Check everything that is asked for.  A ledger that is not there is an error, not a new one."""
        declared = schema_of(given)
        budget = budget_of(given)
        ledger = None
        if "ledger" in given["privacy"]:
            ledger = open_ledger(
                given.path("privacy", "ledger"), allow_larger_delta=allow_larger_delta
            )
        path = given.file("data", "path")
        task = releasing(path, declared, columns, budget, adjacency_of(given))
        return cls(str(path), task, ledger, file)

    @property
    def forecast(self) -> MomentForecast | None:
        """The price by public facts; None where the number of records is private."""
        task = self.releasing
        if task.n is None:
            return None
        return dp.plan_moments(
            task.schema,
            task.declared,
            task.n,
            task.plan.budget,
            adjacency=str(task.adjacency),
        )


def preview(job: MomentJob, console: Screen) -> None:
    """Show the cost, the price, and what the ledger would have left; raise what the release would raise."""
    task = job.releasing
    entry = task.entry
    unit = task.schema.unit
    facts = {
        "Table": f"{job.name}, {unit.size(task.n)}",
        "Values": screen.UNCHECKED,
        "Protects": f"{entry.unit} ({entry.neighbours.sentence})",
        "Cost": task.plan.budget.amount,
    }
    if console.verbose:
        facts["Spent on"] = "; ".join(
            f"{event.step} {event.share.amount}" for event in entry.events
        )
    weak = weak_delta(task.plan.budget, task.n)
    if weak:
        facts["Note"] = weak
    account, after, words = after_booking(job.ledger, entry)
    facts |= words
    facts["Output"] = _output(job.file)
    forecast = job.forecast
    console.show(screen.title("Dry run: no value was read"), screen.facts(facts))
    if forecast is not None:
        console.show("", *_forecast(forecast))
    console.emit(
        {
            "dry_run": True,
            "records": None,
            "units": None,
            unit.word: task.n,
            "columns": list(task.features.names[1:]),
            "entry": listed(entry),
            "ledger": account and account.state(),
            "after": after,
            "forecast": forecast and {**asdict(forecast), "worthwhile": forecast.worthwhile},
        }
    )
    if after["allowed"] is False:
        raise dp.LedgerError(after["reason"])


def _output(file: Path | None) -> str:
    if file is None:
        return "not named yet (--out FILE)"
    if file.exists():
        return f"{file} is there: name another file, or give --force"
    return str(file)


def publish(job: MomentJob, console: Screen, *, force: bool) -> None:
    """Book, read, release; keep the file, and show what it is worth."""
    if job.file is None:
        raise InputError("a release costs budget, so it must be kept: name a file with --out FILE")
    persistence.vacant(job.file, force, "name another file, or give --force to replace it")
    persistence.prepare(job.file.parent)
    counter = None if job.ledger is None else Counter(job.ledger)
    try:
        with console.work(f"releasing {job.name}"):
            found = job.releasing.run(counter)
    except BaseException:
        if counter and counter.releases:
            remark(f"the spend was booked as release {counter.releases[0]} before this happened")
        raise
    try:
        found.save(job.file)
    except OSError as fault:
        print(found.to_json())
        raise InputError(
            f"{job.file} cannot be written any more ({fault.strerror}): the release was printed to stdout instead, "
            "save it as a file"
        ) from None
    account = None if job.ledger is None else Account.of(job.ledger)
    booked = UNBOOKED
    if account is not None:
        booked = f"{account.statement()} Booked as release {found.privacy.release}."
    facts = {"Ledger": booked, "Written": str(job.file)}
    console.show(*found.summary().splitlines(), "", screen.facts(facts))
    console.emit(
        {
            **_about(found),
            "ledger": account and account.state(),
            "files": [str(job.file)],
        }
    )


def _about(found: MomentRelease) -> dict[str, Any]:
    """Return what a release is, for a program."""
    unit = found.schema.unit
    return {
        "booked": found.privacy.in_ledger,
        "release": found.privacy.release,
        "budget": found.privacy.budget,
        "unit": found.privacy.unit,
        "records": None,
        "units": None,
        unit.word: found.n,
        "columns": list(found.names[1:]),
        "price": found.price,
        "effective": found.geometry.effective,
        "weight_loss": found.weight_loss,
        "clipped": {name: list(ends) for name, ends in found.clipped.items()},
    }


@app.command()
def show(file: _File, *, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Show what a release holds, and what its answers are worth."""
    found = dp.moments(file)
    console = Screen(quiet, as_json)
    console.show(*found.summary().splitlines())
    console.emit({**_about(found), "notes": found.notes()})


@app.command()
def ask(
    file: _File,
    questions: Annotated[
        list[str], typer.Argument(help=f"Such as {', '.join(FORMS)}.", metavar="QUESTION")
    ],
    *,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the report of one formula.", metavar="DIR"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a result in the folder.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask a release for regressions, means and correlations; costs nothing, reads no table."""
    if not 0.5 <= level < 1:
        raise InputError("--level must be a number between 0 and 1, at least 0.5")
    found = dp.moments(file)
    answers = [answer(found, question, level) for question in questions]
    paths = _report(answers, out, title, level, force=force)
    console = Screen(quiet, as_json)
    for question, one in zip(questions, answers, strict=True):
        _show(question, one, level, console)
    facts = {
        "Clipped": ", ".join(f"{n} to {a:.4g}..{b:.4g}" for n, (a, b) in found.clipped.items()),
        "Cost": f"nothing: all of it follows from release {found.privacy.release or '(not booked)'}",
        "Written": ", ".join(str(path) for path in paths),
    }
    console.show("", screen.facts({name: fact for name, fact in facts.items() if fact}))
    console.emit(
        {
            "release": found.privacy.release,
            "level": level,
            "answers": [
                _row(question, one, level) for question, one in zip(questions, answers, strict=True)
            ],
            "files": [str(path) for path in paths],
        }
    )


def _report(
    answers: list[FitResult | MomentFigure],
    folder: Path | None,
    title: str | None,
    level: float,
    *,
    force: bool,
) -> list[Path]:
    """Write the report of the one regression, if a folder is named."""
    if folder is None:
        return []
    fits = [one for one in answers if isinstance(one, FitResult)]
    if len(answers) != 1 or not fits:
        raise InputError("--out takes one formula: ask it alone, or leave out --out")
    kept = folder / persistence.RESULT
    persistence.vacant(kept, force, "name another folder, or give --force to replace the result")
    persistence.prepare(folder)
    import_module("dpinfer.views.report")
    try:
        persistence.write(kept, fits[0].to_json().encode())
        return dp.report.write(fits[0], folder, title=title, level=level)
    except OSError as fault:
        raise DpinferError(
            f"{folder} cannot be written any more ({fault.strerror}): make room, and ask again"
        ) from None


def _show(question: str, one: FitResult | MomentFigure, level: float, console: Screen) -> None:
    if isinstance(one, MomentFigure):
        console.show(f"\n{one}")
        return
    lines = [_HEADING, f"{' '.join(question.split())}, {one.records} {one.model.unit.word}"]
    console.show(
        screen.title("\n".join(lines)),
        *(screen.warning(words) for words in one.warnings()),
        screen.coefficients(one, level),
    )
    reasons = coefficient_table.reasons(one.table(level))
    if reasons:
        console.show("", screen.facts({"Not reported": "\n".join(reasons)}))


def _row(question: str, one: FitResult | MomentFigure, level: float) -> dict[str, Any]:
    """Return an answer, for a program."""
    if isinstance(one, FitResult):
        return {"question": question, "coefficients": one.table(level)}
    more: dict[str, Any] = {}
    if isinstance(one, InstrumentedEffect):
        more = {"intervals": [list(ends) for ends in one.intervals], "first_stage": one.first_stage}
    return {
        "question": question,
        "name": one.name,
        "estimate": one.estimate,
        "std_error": one.std_error,
        "low": one.low,
        "high": one.high,
        "status": one.status,
        "clipped_to": {name: list(ends) for name, ends in one.clipped_to.items()},
        **more,
    }
