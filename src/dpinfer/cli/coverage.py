"""`dpinfer coverage`: do the intervals of a fit cover, and how long are they?"""

import csv
import io
import warnings
from pathlib import Path
from reprlib import repr as short
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli import spec
from dpinfer.cli.screen import Screen
from dpinfer.cli.spec import data_of, model_of
from dpinfer.errors import InputError, missing
from dpinfer.tables.arrow_files import Files

HELP = """Do the intervals of a fit cover, and how long are they?  A study on bootstrap replicates of a table.

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
  device = "cuda"            # default: numpy; needs torch
  checkpoint = true          # keep a file in --out to resume from
"""


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
    given = spec.of_file(source)
    talk = Screen(quiet)
    if given["study"].pop("checkpoint", False):
        if out is None:
            raise InputError(
                "[study] checkpoint keeps its file in the output folder: give --out DIR, or drop the key"
            )
        given["study"]["checkpoint"] = out / "resume.json"
    arguments = _arguments(given)
    if out is not None:
        persistence.prepare(out)
    design, records = arguments["model"].read(arguments["X"])
    advice = arguments["model"].recipe(design, records.n).advice(records.n)
    if advice and not as_json:
        talk.note(f"note: {advice}")
    study = dp.simulate.coverage(**arguments, progress=talk.live)
    if out is not None:
        for name, content in _files(study).items():
            persistence.write(out / name, content)
            talk.note(f"wrote {out / name}")
    if "checkpoint" in arguments:
        arguments["checkpoint"].unlink(missing_ok=True)
    print(study.to_json() if as_json else study.summary())


def _arguments(given: spec.Spec) -> dict[str, Any]:
    """What `dp.simulate.coverage` is called with: the model that `dpinfer fit` would fit."""
    data = data_of(given)
    study = given["study"]
    model = model_of(given, data, study=True)
    table = data.table
    if isinstance(table, Path):
        try:
            table = Files(table).read(data.columns)
        except InputError as fault:
            raise InputError(f"[data] path: {fault}") from None
    if "device" in study:
        _check_device(study["device"])
    return {"X": table, "model": model} | study


def _check_device(device: str) -> None:
    """Refuse a device that torch does not have."""
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415  (an optional extra)

        torch.empty(1, dtype=torch.float64, device=device)
    except ImportError:
        raise missing(
            "[study] device", "gpu", "torch", otherwise="drop the key to run on numpy"
        ) from None
    except Exception:
        raise InputError(
            f"[study] device {short(device)} is not here or lacks float64: drop the key"
        ) from None


def _files(study: "dp.simulate.Study") -> dict[str, bytes]:
    """A study as a document, a table and a picture, by the names of their files."""
    rows = study.table()
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    picture = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # a letter that the font lacks
        dp.plot.coverage(study).savefig(picture, format="png")
    return {
        "study.json": f"{study.to_json()}\n".encode(),
        "coverage.csv": sheet.getvalue().encode(),
        "coverage.png": picture.getvalue(),
    }
