"""`dpinfer report`: a saved result or description as a document."""

from pathlib import Path
from typing import Annotated

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli.budget import read_result
from dpinfer.cli.screen import AsJson, Quiet, Screen, sketch
from dpinfer.errors import InputError

HELP = """Write the report of a saved result again: page, table and picture.  Costs nothing.

RESULT is the result.json that a fit wrote, or the description.json of `dpinfer describe`.  The files go to its folder \
unless --out names another.
"""
_LEVEL = 0.95


def report(
    result: Annotated[Path, typer.Argument(help="A result.json.", metavar="RESULT")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the files.", metavar="DIR")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level, 0.95 by default.")] = None,
    text: Annotated[
        bool,
        typer.Option("--text", help="Show the forest plot, or Table 1, in letters; write nothing."),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a report."""
    if level is not None and not 0.5 <= level < 1:
        raise InputError("--level must be a number between 0 and 1, at least 0.5")
    saved = read_result(result)
    folder = out or result.parent
    talk = Screen(quiet, as_json)
    if text:
        shown, told = _in_letters(saved, level or _LEVEL)
        talk.show(*shown.splitlines())
        talk.give({"release": saved.privacy.release, "text": told})
        return
    persistence.prepare(folder)
    with talk.work("writing the report"):
        paths = dp.report.write(saved, folder, title=title, level=level)
    talk.give({"release": saved.privacy.release, "files": [str(path) for path in paths]})
    talk.show(*(f"wrote {path}" for path in paths))


def _in_letters(saved: dp.FitResult | dp.Description, level: float) -> tuple[str, str]:
    """A result or a description for this terminal, and for a program."""
    if isinstance(saved, dp.Description):
        summary = saved.summary()
        return summary, summary
    return sketch(saved, level), dp.plot.forest_text(saved, level)
