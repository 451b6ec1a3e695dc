"""`dpinfer fit`: check, price, book, fit, keep the result, write the report; or the dry run of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.asking import spec
from dpinfer.asking.from_spec import Data, data_of, model_of
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
from dpinfer.errors import BudgetError, DpinferError, InputError
from dpinfer.privacy.account import Account
from dpinfer.privacy.budget import weak_delta
from dpinfer.privacy.entries import Entry
from dpinfer.result import coefficient_table
from dpinfer.result.readable_units import about_units
from dpinfer.result.result import FitResult
from dpinfer.result.statements import errors_counted
from dpinfer.schema.design import Design
from dpinfer.schema.unit import Unit
from dpinfer.simulate.forecast import REPLICATES_BEFORE_FIT

if TYPE_CHECKING:
    from dpinfer.estimators.models import LinearModel

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
SOURCE is a spec (a .toml file) or a table (.csv, .parquet, .arrow) with --schema and --formula.  Options overrule the \
keys of a spec; paths in a spec are relative to it.  --dry-run tells the cost beforehand and books nothing.  A fit \
that is expected to report fewer than one coefficient in ten stops before it is booked, unless --spend-anyway is given \
or the schema does not say what is typical.

\b
  \\[data]
  path = "table.parquet"     # or .csv, .arrow
  schema = "schema.toml"     # what is public about the columns
  formula = "y ~ a + b"
  \\[model]
  loss = "logistic"          # or "linear", "poisson", "hazard", "svm", "huber", "quantile"
  knee = 1.0                 # of svm and huber
  quantile = 0.5             # of quantile, as is bandwidth
  penalty = 0.001            # default: one that is valid for the budget
  target = "ordinary"        # or "penalised", "unpenalised"; of linear "ordinary", "robust"
  tail = "balanced"          # of linear; or "cautious", "all"
  far_values = "clip"        # or "strict": numbers with wide bounds are not reported
  exposure = "years"         # of poisson: the column of the exposure
  cuts = [1, 2, 5]           # of hazard: public times between intervals
  horizon = 10               # of hazard: the end of follow-up
  \\[privacy]
  epsilon = 1.0              # pure; with delta = 1e-6, (epsilon, delta)
  rho = 0.1875               # zCDP, instead of epsilon
  adjacency = "replace"      # or "add-remove": the number of records (or units) private
  ledger = "ledger.db"       # made by `dpinfer budget init`
  \\[output]
  folder = "release"         # for the result and its report
  title = "Visits to a doctor"
  level = 0.95
"""
_ANYWAY = "unless you give --spend-anyway"
_HEADING = "Regression coefficients with confidence intervals"


@app.command(help=_HELP)
def fit(  # noqa: PLR0913  (the public face)
    source: Annotated[Path, typer.Argument(help="A spec (.toml), or a table.", metavar="SOURCE")],
    *,
    schema: Annotated[Path | None, typer.Option(help="What is public about the table.")] = None,
    formula: Annotated[str | None, typer.Option(help='For example "visit ~ age + health".')] = None,
    loss: Annotated[
        str | None,
        typer.Option("--loss", "--model", help="logistic, linear, poisson, hazard, svm ..."),
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
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level, 0.95 by default.")] = None,
    penalty: Annotated[float | None, typer.Option(help="c in the objective.")] = None,
    target: Annotated[str | None, typer.Option(help="What the intervals are about.")] = None,
    tail: Annotated[str | None, typer.Option(help="Of linear: balanced, cautious or all.")] = None,
    far_values: Annotated[
        str | None,
        typer.Option(
            "--far-values",
            help="Numbers with wide bounds: clip reports them winsorised, strict does not.",
        ),
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(help="Of poisson: the column that holds it.")
    ] = None,
    cuts: Annotated[
        str | None, typer.Option(help='Of hazard: times between intervals, as "1,2,5".')
    ] = None,
    horizon: Annotated[float | None, typer.Option(help="Of hazard: the end of follow-up.")] = None,
    knee: Annotated[float | None, typer.Option(help="Of svm and huber.")] = None,
    quantile: Annotated[float | None, typer.Option(help="Of quantile, 0.5 by default.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Of quantile.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the cost; read, book and write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a result in the folder.")] = False,
    spend_anyway: Annotated[
        bool,
        typer.Option(
            "--spend-anyway", help="Fit even if hardly a coefficient is likely to be reported."
        ),
    ] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model by a spec or by options."""
    asked: dict[str, dict[str, Any]] = {
        "data": {"schema": schema, "formula": formula},
        "model": {
            "loss": loss,
            "penalty": penalty,
            "target": target,
            "tail": tail,
            "far_values": far_values,
            "exposure": exposure,
            "cuts": times_of(cuts),
            "horizon": horizon,
            "knee": knee,
            "quantile": quantile,
            "bandwidth": bandwidth,
        },
        "output": {"folder": out, "title": title, "level": level},
    }
    budget = privacy_section(epsilon, delta, rho, adjacency, neighbours, ledger)
    job = FitJob.of(_spec(source, asked, budget), allow_larger_delta=allow_larger_delta)
    console = Screen(quiet, as_json, verbose)
    if dry_run:
        preview(job, console)
    else:
        release(job, console, force=force, spend_anyway=spend_anyway)


def times_of(cuts: str | None) -> list[float] | None:
    """Return the times of an option, such as "1,2,5"."""
    if cuts is None:
        return None
    try:
        return [float(cut) for cut in cuts.split(",")]
    except ValueError:
        raise InputError(
            '--cuts are times with commas between them, as in --cuts "1,2,5"'
        ) from None


def _spec(source: Path, asked: Mapping[str, Mapping[str, Any]], budget: spec.Options) -> spec.Spec:
    """Return the spec of a file, or of the options alone; paths are texts as they are in a file."""
    options = {
        (section, key): str(value) if isinstance(value, Path) else value
        for section, keys in asked.items()
        for key, value in keys.items()
    }
    options |= budget
    if source.suffix.lower() == ".toml":
        return spec.of_file(source, options)
    return spec.of_options({("data", "path"): str(source)} | options)


@dataclass(frozen=True, eq=False)
class FitJob:
    """A fit that was checked as far as possible without reading a record."""

    data: Data
    model: "LinearModel"
    ledger: dp.Ledger | None
    folder: Path | None
    title: str | None
    level: float

    @classmethod
    def of(cls, given: spec.Spec, *, allow_larger_delta: bool = False) -> "FitJob":
        """Check everything that a spec asks for.  A ledger that is not there is an error, not a new
        ledger.
        """
        data = data_of(given)
        ledger = None
        if "ledger" in given["privacy"]:
            ledger = open_ledger(
                given.path("privacy", "ledger"), allow_larger_delta=allow_larger_delta
            )
        folder = None
        if "folder" in given["output"]:
            folder = given.path("output", "folder")
        return cls(
            data=data,
            model=model_of(given, data),
            ledger=ledger,
            folder=folder,
            title=given["output"].get("title") or data.schema.title or None,
            level=given["output"].get("level", 0.95),
        )

    def advice(self, design: Design, n: int) -> str:
        """Return the warning about the fit beforehand, from public facts."""
        recipe = self.model.recipe(design, n)
        if not recipe.neighbours.counted:
            return ""
        return recipe.advice(n)


def preview(job: FitJob, console: Screen) -> None:
    """Show the cost and what the ledger would have left; raise what the fit would raise.

    Guarantee [dry_runs_read_no_value]: what is told depends on the schema, the formula and the
    ledger, and on names, types and, where it is public, number of rows of the table; with ids, of
    units.  So does the forecast.
    """
    design, source = job.model.read(job.data.table)
    unit = design.unit
    entry = job.model.entry(source.n)
    public = source.n if entry.neighbours.counted else None
    advice = job.advice(design, source.n)
    facts = {
        "Table": f"{job.data.name}, {unit.size(public)}",
        "Values": screen.UNCHECKED,
        "Model": entry.purpose,
        "Estimates": f"{len(design.names)} coefficients: {', '.join(design.names)}",
        "Protects": f"{entry.unit} ({entry.neighbours.sentence})",
        "Cost": (job.model.budget or job.model.plan.budget).amount,  # type: ignore[union-attr]
    }
    if console.verbose:
        facts["Spent on"] = "\n".join(_spent(entry))
    if advice:
        facts["Warning"] = advice
    weak = weak_delta(job.model.budget, public)
    if weak:
        facts["Note"] = weak
    forecast, facts["Forecast"] = _forecast(job, public, unit, console)
    low_budget = _LowBudget.of(job, design, source.n, forecast)
    if low_budget.reason:
        facts["Low budget"] = low_budget.reason
    if low_budget.stops:
        facts["Low budget"] += f". The fit stops before it is booked, {_ANYWAY}"
    account, after, words = after_booking(job.ledger, entry)
    facts |= words
    facts["Output"] = _output(job.folder)
    console.show(
        screen.title(f"Dry run: nothing was read but {_data_read(unit, public)}"),
        screen.facts(facts),
    )
    console.emit(
        {
            "dry_run": True,
            **_numbered(public, unit),
            "coefficients": design.names,
            "warning": advice or None,
            "entry": listed(entry),
            "ledger": account and account.state(),
            "after": after,
            "forecast": forecast and forecast.table(),
            "low_budget": low_budget.reason or None,
            "hopeless": low_budget.stops,
        }
    )
    if after["allowed"] is False:
        raise dp.LedgerError(after["reason"])


def _output(folder: Path | None) -> str:
    if folder is None:
        return "not named yet (--out DIR)"
    if (folder / persistence.RESULT).exists():
        return f"{folder} holds a result: name another folder, or give --force"
    return str(folder)


def _data_read(unit: Unit, n: int | None) -> str:
    """Say what a dry run reads; ``n`` is the number of units where it is public."""
    if not unit.many:
        return "the shape of the table"
    if n is None or unit.number is not None:
        return "the names and types of the columns"
    return "the names and types of the columns, and the ids, to count the units"


def _numbered(n: int | None, unit: Unit) -> dict[str, int | None]:
    """Return the number of records or of units, under its name; the other is None, as is a private
    one.
    """
    return {"records": None, "units": None, unit.word: n}


def _forecast(
    job: FitJob, n: int | None, unit: Unit, console: Screen
) -> tuple["dp.simulate.Forecast | None", str]:
    """Return the forecast of the fit's own budget, from public facts, and a sentence about it."""
    if n is None:
        return None, f"none: the number of {unit.word} is private"
    try:
        with console.work("simulating"):
            forecast = dp.simulate.forecast(
                job.model, records=n, level=job.level, replicates=REPLICATES_BEFORE_FIT
            )
    except DpinferError as fault:
        return None, f"none: {fault}"
    plain = forecast.median()[1]
    low, high = forecast.range()
    seldom = forecast.open()
    words = f"{100 * job.level:.4g}% intervals of ±{low:.2g} to {high:.2g} in the middle"
    words += f", about ±{plain:.2g} without privacy"
    if len(seldom) == len(forecast.names):
        words = "no coefficient is likely to be reported at this budget"
    elif seldom:
        words += f"; not likely to be reported: {', '.join(seldom)}"
    guesses = "usual values, as the schema has no typical"
    if job.data.schema.typical:
        guesses = "what the schema says is typical"
    return forecast, f"{words} (from {guesses}; see dpinfer plan)"


@dataclass(frozen=True)
class _LowBudget:
    """The reason why hardly a coefficient is expected to be reported, if there is one, and whether the fit
    stops for it: not where the forecast rests on usual values.
    """

    reason: str
    stops: bool

    @classmethod
    def of(
        cls, job: FitJob, design: Design, n: int, forecast: "dp.simulate.Forecast | None"
    ) -> "_LowBudget":
        """Return what the forecast and public facts alone say of a fit of ``n`` records."""
        futility = job.model.futility(design, n)
        if futility or forecast is None:
            return cls(futility, bool(futility))
        reason = forecast.low_budget()
        return cls(reason, bool(reason) and not forecast.unstated)


def _spent(entry: Entry) -> list[str]:
    """Return what each release costs, one line per kind of noise."""
    ways: dict[str, list[str]] = {}
    for event in entry.events:
        ways.setdefault(event.mechanism, []).append(f"{event.step} {event.share.amount}")
    return [f"{'; '.join(steps)} ({way})" for way, steps in ways.items()]


def release(job: FitJob, console: Screen, *, force: bool, spend_anyway: bool) -> None:
    """Fit, keep the result, write the report, show the table.

    Guarantee [hopeless_fits_stop]: where hardly a coefficient can be reported whatever the records hold, or
    the forecast of the dry run expects fewer than one in ten by what the schema says is typical of every
    column, nothing is booked unless ``spend_anyway``.

    Guarantee [no_result_without_its_entry]: a process killed at any moment leaves no result whose
    entry is not in the ledger.
    """
    if job.folder is None:
        raise InputError(
            "a fit costs budget, so its result must be kept: name a folder with --out DIR"
        )
    persistence.vacant(
        job.folder / persistence.RESULT,
        force,
        "name another folder, or give --force to replace the result",
    )
    persistence.prepare(job.folder)
    # whatever is wrong with the packages of a report shows before anything is spent
    import_module("dpinfer.views.report")
    counter = None if job.ledger is None else Counter(job.ledger)
    design, source = job.model.read(job.data.table)
    job.model.entry(source.n)  # raises what is wrong with it, before anything is said of it
    advice = job.advice(design, source.n)
    if advice:
        console.note(f"note: {advice}")
    if not spend_anyway:
        _require_budget(job, design, source.n, console)
    try:
        with console.work(f"fitting {job.data.name}"):
            result = job.model.set_params(ledger=counter).fit_read(design, source).result_
    except BaseException:
        if counter and counter.releases:
            remark(f"the spend was booked as release {counter.releases[0]} before this happened")
        raise
    _keep(job.folder, result)
    with console.work("writing the report"):
        paths = _report(job, result)
        account = None if job.ledger is None else Account.of(job.ledger)
    console.show(*_shown(job, result, account, paths, verbose=console.verbose))
    console.emit(_receipt(job, result, account, paths))


def _require_budget(job: FitJob, design: Design, n: int, console: Screen) -> None:
    """Refuse a fit that would spend its budget for next to nothing, or warn of it; a private number of
    records decides nothing.
    """
    if not job.model.recipe(design, n).neighbours.counted:
        return
    forecast = _forecast(job, n, design.unit, console)[0]
    low_budget = _LowBudget.of(job, design, n, forecast)
    if low_budget.stops:
        raise BudgetError(
            f"{low_budget.reason}; nothing was booked. To have more reported: "
            f"{'; '.join(coefficient_table.REMEDIES)}; or fit all the same, with --spend-anyway"
        )
    if low_budget.reason:
        console.note(f"note: {low_budget.reason}")


def _keep(folder: Path, result: FitResult) -> None:
    """Write the result first: it was paid for.  If the folder fails after all, print it to stdout."""
    try:
        persistence.write(folder / persistence.RESULT, result.to_json().encode())
    except OSError as fault:
        print(result.to_json())
        raise InputError(
            f"{folder / persistence.RESULT} cannot be written any more ({fault.strerror}): the result was printed to "
            f"stdout instead, save it as {persistence.RESULT}"
        ) from None


def _report(job: FitJob, result: FitResult) -> list[Path]:
    assert job.folder is not None
    kept = job.folder / persistence.RESULT
    try:
        return dp.report.write(result, job.folder, title=job.title, level=job.level)
    except (DpinferError, OSError):
        raise InputError(
            f"the report cannot be written, but the result is safe in {kept}: make room, then dpinfer report {kept}"
        ) from None
    except Exception:
        remark(f"the result is safe in {kept}")
        raise


def _shown(
    job: FitJob, result: FitResult, account: Account | None, paths: list[Path], *, verbose: bool
) -> list[Any]:
    model = result.model
    privacy = result.privacy
    booked = UNBOOKED
    if account is not None:
        booked = f"{account.statement()} Booked as release {privacy.release}."
    reading = errors_counted(privacy.budget)
    if model.counts:
        reading += " Estimates are changes of the logarithm of the rate."
    if model.hazards:
        reading += " Estimates are changes of the logarithm of the hazard."
    facts = {
        "Privacy": f"{privacy.budget}; protects {privacy.unit}",
        "Ledger": booked,
        **_estimated(result, job.level, verbose=verbose),
        "Reading": reading,
        "Written": ", ".join(str(path) for path in paths),
    }
    rows = result.table_with_alternatives(job.level)
    without = "Not identified"
    if any(map(coefficient_table.is_not_reported, rows)):
        without = "Not reported"
    for words in coefficient_table.about_missing(rows):
        facts[without] = words
        facts["Because"] = "\n".join(coefficient_table.reasons(rows))
    for words in coefficient_table.about_alternatives(rows):
        facts["Indented"] = words
    for words in about_units(result, rows):
        facts["Units"] = words
    lines = [
        job.title or _HEADING,
        f"{' '.join((job.model.asked_formula or '').split())}, {result.records} {model.unit.word}",
    ]
    if result.question:
        lines += result.question.sentences()
    warned = [screen.warning(words) for words in result.warnings()]
    return [
        screen.title("\n".join(lines)),
        *warned,
        screen.coefficients(result, job.level),
        "",
        screen.facts(facts),
    ]


def _estimated(result: FitResult, level: float, *, verbose: bool) -> dict[str, str]:
    """Say what was estimated: in one line, or in all statements with the cost of each step."""
    if not verbose:
        facts = {"Estimand": result.model.estimand_in_short}
        intercept = result.intercept_at_0(level)
        if intercept:
            facts["Intercept"] = f"{intercept} with every column at 0"
        return facts
    statements = [f"{result.model.estimand()}.", *result.intercepts(level), *result.published()]
    spent = [f"{event.step} {event.share.amount}" for event in result.privacy.events]
    return {"Estimand": "\n".join(statements), "Spent on": "; ".join(spent)}


def _receipt(
    job: FitJob, result: FitResult, account: Account | None, paths: list[Path]
) -> dict[str, Any]:
    usable = None
    if result.geometry and result.model.unit.equal_weights:
        usable = result.geometry.records
    return {
        "booked": result.privacy.in_ledger,
        "release": result.privacy.release,
        "budget": result.privacy.budget,
        "unit": result.privacy.unit,
        "question": result.question and result.question.asked,
        **_numbered(result.model.n, result.model.unit),
        "usable": usable,
        "warnings": result.warnings(),
        "level": job.level,
        "coefficients": result.table(job.level),
        "alternatives": result.instead_rows(job.level),
        "intercept_at_0": result.ordinary_intercept(job.level),
        "ledger": account and account.state(),
        "files": [str(path) for path in paths],
    }
