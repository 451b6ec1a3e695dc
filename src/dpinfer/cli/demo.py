"""`dpinfer demo`: the whole path on the bundled data, by the commands that a user types."""

import shlex
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli.screen import Screen, facts, sketch, title
from dpinfer.errors import InputError, require

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
20,190 person-years, (1, 1e-6)-differential privacy.  Takes seconds; everything it writes is in one folder.
"""
_SPEC = """\
# What is asked of which table, and what it may cost.  All keys: dpinfer fit --help

[data]
path = "visits.parquet"
schema = "schema.toml"
formula = "{formula}"

[model]
loss = "logistic"

[privacy]
epsilon = 1.0
delta = 1e-6
ledger = "ledger.db"

[output]
folder = "release"
title = "Cost sharing and visits to a doctor"
"""
_WRITTEN = (
    "visits.parquet",
    "schema.toml",
    "fit.toml",
    "ledger.db",
    "ledger.db-wal",
    "ledger.db-shm",
    "release/result.json",
    "release/coefficients.csv",
    "release/report.html",
    "release/forest.png",
)
_DESK = "desk"


@app.command(help=_HELP)
def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for everything.", metavar="DIR")
    ] = Path("demo"),
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files of an earlier demo.")
    ] = False,
    open_desk: Annotated[
        bool,
        typer.Option(
            "--open", help="Then open a desk with the table: its page in a browser, until Ctrl-C."
        ),
    ] = False,
) -> None:
    """Run the demo."""
    if open_desk:
        require("dpinfer demo --open", "desk", "starlette", "uvicorn")
    console = Screen()
    schema = (files("dpinfer") / "_datasets" / "rand_hie.toml").read_bytes()
    if open_desk and not force and _complete(out, schema):
        console.show(Text(f"\nThe demo in {out} is opened as it is; --force starts it over."))
        _typed(context, console, _desk_steps(out))
        return
    _clear(out, force, schema)
    persistence.prepare(out)
    persistence.write(out / "schema.toml", schema)
    data = dp.datasets.rand_hie()
    data.table.to_parquet(out / "visits.parquet")
    persistence.write(out / "fit.toml", _SPEC.format(formula=data.formula).encode())
    table = str(out / "visits.parquet")
    public = str(out / "schema.toml")
    question = str(out / "fit.toml")
    ledger = str(out / "ledger.db")
    console.show(
        Text("\nDoes cost sharing keep people from seeing a doctor?", style="bold"),
        Text(
            f"A table, what is public about it, and a question are in {out}: visits.parquet, schema.toml, fit.toml."
        ),
    )
    total = ["--epsilon", "2", "--delta", "1e-6"]
    steps = {
        "Does the table fit the schema?": ["schema", "check", public, "--data", table],
        "A total for all that is ever released from these data": [
            "budget",
            "init",
            ledger,
            *total,
            "--schema",
            public,
        ],
        "What will the fit cost?": ["fit", question, "--dry-run"],
        "The fit": ["fit", question],
        "What was spent": ["budget", "show", ledger],
    }
    _typed(context, console, steps)
    result = dp.FitResult.load(out / "release" / "result.json")
    console.show(
        Text("\n# The result as a picture", style="dim"), *sketch(result, 0.95).splitlines()
    )
    following = {
        str(out / "release" / "report.html"): "the report: open it in a browser",
        str(out / "release" / "forest.png"): "the forest plot, as above and finer",
        question: "the question: change it, and fit again with another --out",
        f"dpinfer demo --out {out} --open": "a desk for analysts who must not see the data",
        "dpinfer schema init TABLE": "a table of your own; docs/tutorial.md walks through it",
    }
    console.show(title("Where to look next"), facts(following))
    if open_desk:
        _typed(context, console, _desk_steps(out))


def _complete(out: Path, schema: bytes) -> bool:
    """Return whether the folder holds a demo that ran to its end."""
    return all((out / name).exists() for name in ("ledger.db", "release/forest.png")) and (
        (out / "schema.toml").exists() and (out / "schema.toml").read_bytes() == schema
    )


def _desk_steps(out: Path) -> dict[str, list[str]]:
    """Return the commands from the files of the demo to a desk at which an analyst may ask; what is
    left of the total pays for it.
    """
    desk = str(out / _DESK)
    opening = {"The page": ["desk", "open", desk]}
    if (out / _DESK / "desk.toml").exists():
        return opening
    files_of_table = [
        *("--data", str(out / "visits.parquet")),
        *("--schema", str(out / "schema.toml")),
        *("--ledger", str(out / "ledger.db")),
    ]
    allowance = ["--table", "visits", "--epsilon", "1"]
    return {
        "A desk for people who must never see the data": [
            *("desk", "init", desk, "--title", "Demo")
        ],
        "Its table, with what is left of the total": [
            *("desk", "table", "add", desk, "visits", *files_of_table)
        ],
        "Somebody who may ask": ["desk", "person", "add", desk, "analyst", *allowance],
    } | opening


def _typed(context: typer.Context, console: Screen, steps: dict[str, list[str]]) -> None:
    """Show commands and carry each out as if a user had typed it."""
    for words, arguments in steps.items():
        console.show(Text(f"\n# {words}", style="dim"), f"$ dpinfer {shlex.join(arguments)}")
        context.find_root().command.main(arguments, prog_name="dpinfer", standalone_mode=False)


def _clear(out: Path, force: bool, schema: bytes) -> None:
    """Remove what an earlier demo wrote, if told to.  Without the demo's schema in it, a folder is
    somebody else's.
    """
    there = [out / name for name in _WRITTEN if (out / name).exists()]
    if there and (out / "schema.toml" not in there or (out / "schema.toml").read_bytes() != schema):
        raise InputError(
            f"{str(out)!r} holds files that are not the demo's: name another folder with --out"
        )
    if there and not force:
        raise InputError(
            f"{str(out)!r} holds a demo already: give --force to start over, or another folder with --out"
        )
    for path in there:
        path.unlink()
    if there and (out / _DESK / "desk.toml").exists():
        shutil.rmtree(out / _DESK)
