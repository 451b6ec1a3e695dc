"""`dpinfer report`: a saved result or description as a document, or several results side by side."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer import persistence
from dpinfer.cli.budget import open_ledger, read_released, read_result
from dpinfer.cli.screen import AsJson, Quiet, Screen, sketch, text_width
from dpinfer.errors import InputError

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
RESULT is the result.json that a fit wrote, the description.json of `dpinfer describe`, or the survival.json of \
`dpinfer survival`.  The files go to its folder unless --out names another.

With --side-by-side several results become one table with a column each: shown here, and with --out written as well.

--registry writes registry.yaml, an entry for the registry of deployments of differential privacy; --disclosure writes \
disclosure.md, a paragraph and a table for a journal or a disclosure board.  --ledger adds the total of the data.
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
        typer.Option("--text", help="Show the plot, or the table, in letters; write nothing."),
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
    registry: Annotated[
        bool, typer.Option("--registry", help="Write the entry for a registry: registry.yaml.")
    ] = False,
    answers: Annotated[
        Path | None,
        typer.Option(help="With --registry: what a release cannot know.", metavar="ANSWERS.toml"),
    ] = None,
    disclosure: Annotated[
        bool, typer.Option("--disclosure", help="Write the disclosure: disclosure.md.")
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(help="With both: the ledger, for total and share.", metavar="LEDGER"),
    ] = None,
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
            saved = read_result(path)
            if not isinstance(saved, dp.FitResult):
                word = "a description" if isinstance(saved, dp.Description) else "survival curves"
                raise InputError(
                    f"{str(path)!r} is {word}, and results of fits stand side by side: leave it out"
                )
        compared = dp.compare(results, name or None, level=level or _LEVEL, ratios=ratios)
        _several(compared, out, title, console)
        return
    filed = Filed(registry=registry, disclosure=disclosure, answers=answers, ledger=ledger)
    if (answers or ledger) and not filed.wanted:
        raise InputError(
            "--answers and --ledger go with --registry or --disclosure: add one of these"
        )
    if len(results) > 1:
        raise InputError("several results: add --side-by-side, or report on one at a time")
    if name or ratios:
        raise InputError("--name and --ratios go with --side-by-side: add it, or leave them out")
    if filed.wanted:
        if text:
            raise InputError("--registry and --disclosure write files: leave out --text")
        filed.write(results[0], out, title, console)
        return
    _single(results[0], out, title, level, console, text=text)


@dataclass(frozen=True)
class Filed:
    """The documents to file about a release that are asked for, and what they are made of."""

    registry: bool
    disclosure: bool
    answers: Path | None
    ledger: Path | None

    @property
    def wanted(self) -> bool:
        """Return whether any document is asked for."""
        return self.registry or self.disclosure

    def write(self, path: Path, out: Path | None, title: str | None, console: Screen) -> None:
        """Write them beside the release, or to a folder."""
        from dpinfer.views.registry import OPEN, unanswered  # noqa: PLC0415  (needs the extra)

        released = read_released(path)
        book = None if self.ledger is None else open_ledger(self.ledger)
        given = self._given()
        texts = {}
        if self.registry:
            texts["registry.yaml"] = dp.report.registry(released, given, title=title, ledger=book)
        if self.disclosure:
            texts["disclosure.md"] = dp.report.disclosure(released, title=title, ledger=book)
        folder = out or path.parent
        persistence.prepare(folder)
        for name, document in texts.items():
            persistence.write(folder / name, document.encode())
            console.show(f"wrote {folder / name}")
        missing = unanswered(given) if self.registry else []
        if missing:
            console.show(
                f"To be answered, in a file for --answers or in its place after {OPEN.strip()}: {', '.join(missing)}"
            )
        console.emit(
            {
                "release": released.privacy.release,
                "files": [str(folder / name) for name in texts],
                "unanswered": missing,
            }
        )

    def _given(self) -> dict[str, Any]:
        if self.answers is None:
            return {}
        if not self.answers.is_file():
            raise InputError(
                f"there is no file {str(self.answers)!r}: docs/howto/file-a-release.md has one to copy"
            )
        try:
            return tomllib.loads(self.answers.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise InputError(
                f'{str(self.answers)!r} is no TOML: write lines like intended_use = "research"'
            ) from None


def _single(
    path: Path,
    out: Path | None,
    title: str | None,
    level: float | None,
    console: Screen,
    *,
    text: bool,
) -> None:
    """Write the report of what was saved."""
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


def _in_letters(
    saved: dp.FitResult | dp.Description | dp.SurvivalCurves, level: float
) -> tuple[str, str]:
    """Return what was saved as text for this terminal, and for a program."""
    if not isinstance(saved, dp.FitResult):
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
