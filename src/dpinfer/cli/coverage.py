"""`dpinfer coverage`: do the intervals of a fit cover, and how long are they?"""

import csv
import io
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.asking import spec
from dpinfer.asking.from_spec import data_of, model_of
from dpinfer.cli.screen import Screen
from dpinfer.errors import InputError
from dpinfer.tables.arrow_files import Files

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
Each interval is held against what was asked, the ordinary coefficient of all columns, and against what its own fit \
states, with the weights and clips that it releases.

The study reads the records without noise: it is NOT PRIVATE, and says so in everything it writes.

SPEC is a TOML file; what is left out has a default, except the data and the budget:

\b
  \\[data]
  path = "table.parquet"     # or .csv; relative to the spec, as is schema
  schema = "schema.toml"     # what is public about the columns
  formula = "y ~ a + b"
  dataset = "rand_hie"       # bundled; instead of the three keys above
  \\[model]
  loss = "logistic"          # or "linear", ...; all keys of \\[model] and \\[privacy] are
  penalty = 0.001            # those of `dpinfer fit`: the study is of what it would run
  \\[privacy]
  epsilon = 1.0              # pure; with delta = 1e-6, (epsilon, delta)
  rho = 0.1875               # zCDP, instead of epsilon
  none = true                # noise off, instead of epsilon
  mechanism = "objective"    # or "output"; default: by kind of budget
  shares = \\[2, 1, 1]         # weights of estimate, Hessian, covariance
  \\[study]
  replicates = 1000
  seed = 0
  level = 0.95
  checkpoint = true          # keep a file in --out to resume from
"""


@app.command(help=_HELP)
def coverage(
    source: Annotated[
        Path, typer.Argument(help="The TOML file that describes the study.", metavar="SPEC")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for a JSON, a CSV and a PNG file.", metavar="DIR")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the study as JSON and nothing else.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar, no list of files.")
    ] = False,
) -> None:
    """Study the intervals of a fit."""
    given, console = spec.of_file(source), Screen(quiet)
    if given["study"].pop("checkpoint", False):
        if out is None:
            raise InputError(
                "[study] checkpoint keeps its file in the output folder: give --out DIR, or drop the key"
            )
        given["study"]["checkpoint"] = out / "resume.json"
    model, table = _model_and_table(given)
    options = given["study"]
    if out is not None:
        persistence.prepare(out)
    design, records = model.read(table)
    if (advice := model.recipe(design, records.n).advice(records.n)) and not as_json:
        console.note(f"note: {advice}")
    with console.bar("replicates") as progress:
        study = dp.simulate.coverage(model, table, **options, progress=progress)
    if out is not None:
        for name, content in _files(study).items():
            persistence.write(out / name, content)
            console.note(f"wrote {out / name}")
    if "checkpoint" in options:
        options["checkpoint"].unlink(missing_ok=True)
    print(study.to_json() if as_json else study.summary())


def _model_and_table(given: spec.Spec) -> tuple[Any, Any]:
    """Return the model that `dpinfer fit` would fit, and its table."""
    data = data_of(given)
    model = model_of(given, data, study=True)
    table = data.table
    if isinstance(table, Path):
        try:
            table = Files(table).read(data.columns(model))
        except InputError as fault:
            raise InputError(f"[data] path: {fault}") from None
    return model, table


def _files(study: "dp.simulate.Study") -> dict[str, bytes]:
    from dpinfer.views import plot  # noqa: PLC0415

    rows = study.table()
    sheet = io.StringIO()
    picture = io.BytesIO()
    csv.writer(sheet, lineterminator="\n").writerows(
        [list(rows[0]), *(row.values() for row in rows)]
    )
    with warnings.catch_warnings(action="ignore"):  # a letter that the font lacks
        plot.coverage(study).savefig(picture, format="png")
    texts = {"study.json": study.to_json() + "\n", "coverage.csv": sheet.getvalue()}
    return {name: text.encode() for name, text in texts.items()} | {
        "coverage.png": picture.getvalue()
    }
