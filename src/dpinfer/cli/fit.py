"""`dpinfer fit`: check, price, book, fit, keep the result, write the report."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli import screen, spec
from dpinfer.cli.budget import Account, Counter
from dpinfer.cli.job import Job, numbered, preview
from dpinfer.cli.screen import AsJson, Quiet, Screen, remark
from dpinfer.errors import DpinferError, InputError
from dpinfer.result import text
from dpinfer.result.result import FitResult

HELP = """A private regression with confidence intervals, booked in a ledger, written to a folder.

SOURCE is a spec (a .toml file) or a table (.csv, .parquet, .arrow) with --schema and --formula.  Options overrule the \
keys of a spec; paths in a spec are relative to it.  --dry-run tells the cost beforehand and books nothing.

\b
  \\[data]
  path = "table.parquet"     # or .csv, .arrow
  schema = "schema.toml"     # what is public about the columns
  formula = "y ~ a + b"
  \\[model]
  loss = "logistic"          # or "linear", "svm", "huber", "quantile"
  knee = 1.0                 # of svm and huber
  quantile = 0.5             # of quantile, as is bandwidth
  penalty = 0.001            # default: one that is valid for the budget
  target = "asked"           # or "penalised", "unpenalised"; of linear "asked", "robust"
  tail = "balanced"          # of linear; or "cautious", "all"
  \\[privacy]
  epsilon = 1.0              # pure; with delta = 1e-6, (epsilon, delta)
  rho = 0.1875               # zCDP, instead of epsilon
  neighbours = "replace"     # or "add-remove": the number of records (or units) private
  ledger = "ledger.db"       # made by `dpinfer budget init`
  \\[output]
  folder = "release"         # for the result and its report
  title = "Visits to a doctor"
  level = 0.95
"""


def fit(  # noqa: PLR0913  (the public face)
    source: Annotated[Path, typer.Argument(help="A spec (.toml), or a table.", metavar="SOURCE")],
    *,
    schema: Annotated[Path | None, typer.Option(help="What is public about the table.")] = None,
    formula: Annotated[str | None, typer.Option(help='For example "visit ~ age + health".')] = None,
    loss: Annotated[
        str | None, typer.Option("--loss", "--model", help="logistic, linear, svm, huber ...")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget; alone it is pure.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon: (epsilon, delta).")] = None,
    rho: Annotated[float | None, typer.Option(help="Budget in zCDP, instead of --epsilon.")] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="replace (the default) or add-remove.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Where the spend is booked.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the result.", metavar="DIR")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level, 0.95 by default.")] = None,
    penalty: Annotated[float | None, typer.Option(help="c in the objective.")] = None,
    target: Annotated[str | None, typer.Option(help="What the intervals are about.")] = None,
    tail: Annotated[str | None, typer.Option(help="Of linear: balanced, cautious or all.")] = None,
    knee: Annotated[float | None, typer.Option(help="Of svm and huber.")] = None,
    quantile: Annotated[float | None, typer.Option(help="Of quantile, 0.5 by default.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Of quantile.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell the cost; read, book and write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a result in the folder.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model by a spec or by options."""
    asked: dict[str, dict[str, Any]] = {
        "data": {"schema": schema, "formula": formula},
        "model": {
            "loss": loss, "penalty": penalty, "target": target, "tail": tail,
            "knee": knee, "quantile": quantile, "bandwidth": bandwidth,
        },
        "privacy": {"epsilon": epsilon, "delta": delta, "rho": rho, "neighbours": neighbours, "ledger": ledger},
        "output": {"folder": out, "title": title, "level": level},
    }  # fmt: skip
    job = Job.of(_spec(source, asked))
    talk = Screen(quiet, as_json)
    if dry_run:
        preview(job, talk)
    else:
        release(job, talk, force)


def _spec(source: Path, asked: Mapping[str, Mapping[str, Any]]) -> spec.Spec:
    """The file, or the options alone; paths are texts as they are in a file."""
    options = {
        (section, key): str(value) if isinstance(value, Path) else value
        for section, keys in asked.items()
        for key, value in keys.items()
    }
    if source.suffix.lower() == ".toml":
        return spec.of_file(source, options)
    return spec.of_options({("data", "path"): str(source)} | options)


def release(job: Job, talk: Screen, force: bool) -> None:
    """Fit, keep the result, write the report, show the table.

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
    import_module(
        "dpinfer.views.report"
    )  # whatever is wrong with its packages shows before anything is spent
    counter = None if job.ledger is None else Counter(job.ledger)
    design, source = job.model.read(job.data.table)
    job.model.entry(source.n)  # raises what is wrong with it, before anything is said of it
    if advice := job.advice(design, source.n):
        talk.note(f"note: {advice}")
    try:
        with talk.work(f"fitting {job.data.name}"):
            result = job.model.set_params(ledger=counter).fit_read(design, source).result_
    except BaseException:
        if counter and counter.releases:
            remark(f"the spend was booked as release {counter.releases[0]} before this happened")
        raise
    _keep(job.folder, result)
    with talk.work("writing the report"):
        paths = _report(job, result)
        account = None if job.ledger is None else Account.of(job.ledger)
    talk.show(*_shown(job, result, account, paths))
    talk.give(_receipt(job, result, account, paths))


def _keep(folder: Path, result: FitResult) -> None:
    """The result first: it was paid for.  Where the folder fails after all, it goes to stdout."""
    try:
        persistence.write(folder / persistence.RESULT, result.to_json().encode())
    except OSError as fault:
        print(result.to_json())
        raise InputError(
            f"{folder / persistence.RESULT} cannot be written any more ({fault.strerror}): the result was printed to "
            f"stdout instead, save it as {persistence.RESULT}"
        ) from None


def _report(job: Job, result: FitResult) -> list[Path]:
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


def _shown(job: Job, result: FitResult, account: Account | None, paths: list[Path]) -> list[Any]:
    model, privacy = result.model, result.privacy
    booked = (
        "nothing was booked: no ledger was given, so other releases from these data are not counted"
    )
    if account is not None:
        booked = f"{account.statement()}; booked as release {privacy.release}"
    facts = {
        "Privacy": f"{privacy.budget}; protects {privacy.unit}",
        "Ledger": booked,
        "Estimand": "\n".join(
            [model.estimand(), *result.intercepts(job.level), *result.published()]
        ),
        "Reading": "the intervals count the sampling error and the privacy noise; Noise is the privacy noise's part of "
        "the variance",
        "Written": ", ".join(str(path) for path in paths),
    }
    if result.warnings():
        facts = {"Warning": "\n".join(result.warnings())} | facts
    rows = result.lines(job.level)
    for words in text.no_estimates(rows):
        facts["Open" if any(map(text.is_open, rows)) else "Not identified"] = words
        facts["Because"] = "\n".join(text.reasons(rows))
    for words in text.about_instead(rows):
        facts["Indented"] = words
    question = f"{' '.join(job.data.formula.split())}, {result.records} {model.unit.word}"
    question = "\n".join([question, *(result.question.sentences() if result.question else [])])
    head = screen.title(
        f"{job.title or 'Regression coefficients with confidence intervals'}\n{question}"
    )
    return [head, screen.coefficients(result, job.level), "", screen.facts(facts)]


def _receipt(
    job: Job, result: FitResult, account: Account | None, paths: list[Path]
) -> dict[str, Any]:
    return {
        **{key: getattr(result.privacy, key) for key in ("booked", "release", "budget", "unit")},
        "question": result.question and result.question.asked,
        **numbered(result.model.n, result.model.unit),
        "usable": result.geometry.records if result.geometry and result.model.unit.whole else None,
        "warnings": result.warnings(),
        "level": job.level,
        "coefficients": result.table(job.level),
        "alternatives": result.instead_rows(job.level),
        "intercept_at_0": result.ordinary_intercept(job.level),
        "ledger": account and account.state(),
        "files": [str(path) for path in paths],
    }
