"""What is shown, and where: results on stdout, the rest on stderr; --json and --quiet are decided here."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.result import text
from dpinfer.result.result import FitResult
from dpinfer.rows.workers import progress

WIDEST = 100
_NARROWEST = 60  # of a forest plot

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and nothing else.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@dataclass(frozen=True)
class Screen:
    """How a command talks."""

    quiet: bool = False
    as_json: bool = False

    def show(self, *parts: RenderableType) -> None:
        """Something to read, on stdout.  A plain text is one line, however long, so that a command
        can be copied.
        """
        if self.quiet or self.as_json:
            return
        console = _console()
        for part in parts:
            console.print(_harmless(part), soft_wrap=isinstance(part, str))

    def note(self, words: str) -> None:
        """One line beside the result, on stderr."""
        if not (self.quiet or self.as_json):
            print(text.harmless(words), file=sys.stderr)

    def give(self, document: Mapping[str, Any]) -> None:
        """The result for a program, where it was asked for; infinities and NaN are texts."""
        if self.as_json:
            print(json.dumps(_plain(document), ensure_ascii=False, indent=1, allow_nan=False))

    @property
    def live(self) -> bool:
        """Whether somebody watches."""
        return not (self.quiet or self.as_json) and sys.stderr.isatty()

    @contextmanager
    def work(self, words: str) -> Iterator[None]:
        """A sign of life on a terminal while something takes its time: the step, and how far a pass
        over rows is.
        """
        if not self.live:
            yield
            return
        with _console(stderr=True).status(words) as status:

            def tell(step: str, done: float) -> None:
                status.update(f"{words}: {step or 'reading'}, {done:.0%} of a pass over the rows")

            with progress(tell):
                yield

    @contextmanager
    def bar(self, words: str) -> Iterator[Callable[[int, int], None] | None]:
        """A bar on a terminal, to be told how much is done, and of how much; None without one."""
        if not self.live:
            yield None
            return
        with Progress(console=_console(stderr=True), transient=True) as shown:
            task = shown.add_task(words, total=None)
            yield lambda done, total: shown.update(task, completed=done, total=total)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the one place that knows the exit codes."""
        raise BrokenPipeError


def _console(**options: Any) -> Console:
    console = _Console(highlight=False, markup=False, emoji=False, **options)
    console.width = min(console.width, WIDEST)
    return console


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return persistence.encode(value, null=True)


def title(words: str) -> Text:
    """A heading."""
    return Text(f"\n{words}\n", style="bold")


def facts(pairs: Mapping[str, str | Text]) -> Table:
    """Names on the left, what there is to say on the right."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, fact in pairs.items():
        grid.add_row(name, _harmless(_as_text(fact)))
    return grid


def sheet(heads: Sequence[str], rows: Sequence[Sequence[str | Text]], left: int = 1) -> Table:
    """A table; the first ``left`` columns hold words, the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for head in heads[:left]:
        table.add_column(head, justify="left", overflow="fold")
    for head in heads[left:]:
        table.add_column(head, justify="right", no_wrap=True, overflow="fold")
    for row in rows:
        table.add_row(*(_harmless(_as_text(cell), keep="") for cell in row))
    return table


def _as_text(words: str | Text) -> Text:
    if isinstance(words, Text):
        return words
    return Text(words)


def _harmless(part: RenderableType, keep: str = "\n") -> RenderableType:
    """The same words, none of which the terminal obeys."""
    if isinstance(part, str):
        return text.harmless(part, keep)
    if not isinstance(part, Text) or text.harmless(part.plain, keep) == part.plain:
        return part
    return Text(text.harmless(part.plain, keep), style=part.style)


def sketch(result: FitResult, level: float) -> str:
    """The forest plot in letters that this terminal has."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    width = max(_NARROWEST, _console().width - 1)
    return dp.plot.forest_text(result, level, width, ascii=not encoding.startswith("utf"))


def coefficients(result: FitResult, level: float) -> Table:
    """One line per coefficient, without numbers where it has no interval; what stands in for it is
    indented under it.
    """
    rows: list[Sequence[str | Text]] = []
    for row in result.lines(level):
        decimals = text.places(row["std_error"])
        colour = "yellow" if text.set_aside(row) else ""
        cells = [
            text.INDENT * text.stands_in(row) + row["name"],
            text.number(row["estimate"], decimals),
            text.number(row["std_error"], decimals),
            Text(text.interval(row), style=colour),
            text.p_value(row["p_value"]),
            text.percent(row["noise_share"]),
        ]
        rows.append(cells)
    heads = ("Coefficient", "Estimate", "Std. error", f"{100 * level:.4g}% interval", "p", "Noise")
    return sheet(heads, rows)
