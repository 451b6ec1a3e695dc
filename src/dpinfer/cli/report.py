"""`dpinfer report`: a saved result or description as a document, or several results side by side."""

from pathlib import Path
from typing import Annotated

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli.budget import read_result
from dpinfer.cli.screen import AsJson, Quiet, Screen, sketch, text_width
from dpinfer.errors import InputError

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
RESULT is the result.json that a fit wrote, or the description.json of `dpinfer describe`.  The files go to its folder \
unless --out names another.

With --side-by-side several results become one table with a column each: shown here, and with --out written as well.
"""
_LEVEL = 0.95  # of intervals, where nobody says another


@app.command(help=_HELP)
def report(  # noqa: PLR0913  (the public face)
    results: Annotated[list[Path], typer.Argument(help="A result.json.", metavar="RESULT")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the files.", metavar="DIR")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    level: Annotated[float | None, typer.Option(help="Confidence level, 0.95 by default.")] = None,
    text: Annotated[
        bool,
        typer.Option("--text", help="Show the forest plot, or Table 1, in letters; write nothing."),
    ] = False,
    side_by_side: Annotated[
        bool, typer.Option("--side-by-side", help="Put several results beside each other.")
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name of a model side by side, once for each.", metavar="NAME"),
    ] = None,
    ratios: Annotated[
        bool, typer.Option("--ratios", help="Side by side, show odds ratios or rate ratios.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a report."""
    if level is not None and not 0.5 <= level < 1:
        raise InputError("--level must be a number between 0 and 1, at least 0.5")
    console = Screen(quiet, as_json)
    if side_by_side:
        if text:
            raise InputError("--side-by-side is shown as text without --out: leave out --text")
        for path in results:  # errors of the command line, with their remedies
            if isinstance(read_result(path), dp.Description):
                raise InputError(
                    f"{str(path)!r} is a description, and results of fits stand side by side: leave it out"
                )
        compared = dp.compare(results, name or None, level=level or _LEVEL, ratios=ratios)
        _several(compared, out, title, console)
        return
    if len(results) > 1:
        raise InputError("several results: add --side-by-side, or report on one at a time")
    if name or ratios:
        raise InputError("--name and --ratios go with --side-by-side: add it, or leave them out")
    _single(results[0], out, title, level, console, text=text)


def _single(
    path: Path,
    out: Path | None,
    title: str | None,
    level: float | None,
    console: Screen,
    *,
    text: bool,
) -> None:
    """Write the report of one result or description."""
    saved = read_result(path)
    folder = out or path.parent
    if text:
        shown, told = _in_letters(saved, level or _LEVEL)
        console.show(*shown.splitlines())
        console.emit({"release": saved.privacy.release, "text": told})
        return
    persistence.prepare(folder)
    with console.work("writing the report"):
        paths = dp.report.write(saved, folder, title=title, level=level)
    console.emit({"release": saved.privacy.release, "files": [str(path) for path in paths]})
    console.show(*(f"wrote {path}" for path in paths))


def _in_letters(saved: dp.FitResult | dp.Description, level: float) -> tuple[str, str]:
    """Return a result or a description as text for this terminal, and for a program."""
    if isinstance(saved, dp.Description):
        summary = saved.summary()
        return summary, summary
    return sketch(saved, level), dp.plot.forest_text(saved, level)


def _several(compared: dp.Comparison, out: Path | None, title: str | None, console: Screen) -> None:
    """Compare several results: on the screen, and in a folder if one is named."""
    paths: list[Path] = []
    if out is not None:
        persistence.prepare(out)
        with console.work("writing the comparison"):
            paths = dp.report.write_side_by_side(compared, out, title=title)
    console.emit(
        {
            "models": list(compared.names),
            "releases": [result.privacy.release for result in compared.results],
            "level": compared.level,
            "coefficients": compared.to_frame().to_dict("records"),
            "notes": compared.notes(),
            "files": [str(path) for path in paths],
        }
    )
    console.show(*compared.to_text(text_width()).splitlines())
    console.show(*(f"wrote {path}" for path in paths))
