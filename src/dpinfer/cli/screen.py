"""The output of commands: results on stdout, the rest on stderr; --json and --quiet are decided
here.
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, JustifyMethod, RenderableType
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

import dpinfer as dp
from dpinfer import persistence
from dpinfer.persistence import FileNames
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.privacy.entries import NAMES
from dpinfer.result import coefficient_table, text
from dpinfer.result.readable_units import label, readable
from dpinfer.result.result import FitResult
from dpinfer.rows.workers import progress

WIDEST = 100
_NARROWEST = 60  # of a forest plot, and of models side by side
_NARROWEST_NAME = 16  # of a column of names
_GAP = 3  # between two columns of a table
_SIGNS = {"error": "bold red", "note": "bold"}  # how a remark begins
_NAMES = NAMES | FileNames({"NoPrivacy": NoPrivacy})

UNCHECKED = "not checked: dpinfer schema check SCHEMA --data TABLE --peek counts those that do not match the schema"
"""The value of a check that a dry run did not make, and how to make it."""
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and nothing else.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print all statements, and what each step costs.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@dataclass(frozen=True)
class Screen:
    """The output of a command: for people, for a program, or none."""

    quiet: bool = False
    as_json: bool = False
    verbose: bool = False

    def show(self, *parts: RenderableType) -> None:
        """Show something to read, on stdout.  A plain text is one line, however long, so that a
        command can be copied.
        """
        if self.quiet or self.as_json:
            return
        console = _console()
        for part in parts:
            console.print(_escaped(part), soft_wrap=isinstance(part, str))

    def note(self, words: str) -> None:
        """Print one remark beside the result, on stderr."""
        if not (self.quiet or self.as_json):
            say(words)

    def emit(self, document: Mapping[str, Any]) -> None:
        """Print the result for a program, if it was asked for; infinities and NaN are null."""
        if self.as_json:
            print(json.dumps(_plain(document), ensure_ascii=False, indent=1, allow_nan=False))

    @property
    def live(self) -> bool:
        """Whether somebody watches."""
        return not (self.quiet or self.as_json) and sys.stderr.isatty()

    @contextmanager
    def work(self, words: str) -> Iterator[None]:
        """Show on a terminal that a step is under way, and how far a pass over rows is."""
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
        """Show a bar on a terminal; yield the function that moves it, or None without a terminal."""
        if not self.live:
            yield None
            return
        with Progress(console=_console(stderr=True), transient=True) as shown:
            task = shown.add_task(words, total=None)
            yield lambda done, total: shown.update(task, completed=done, total=total)


def say(words: str) -> None:
    """Print one remark on stderr, with a bold sign such as ``error:``.

    On a terminal it is wrapped at words.  A program reads one line.
    """
    line = Text(text.escape_controls(words))
    sign, _, rest = line.plain.partition(": ")
    if rest and sign in _SIGNS:
        line.stylize(_SIGNS[sign], 0, len(sign) + 1)
    _console(stderr=True).print(line, soft_wrap=not sys.stderr.isatty())


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
    return persistence.encode(value, _NAMES, null=True)


def title(words: str) -> Text:
    """Return a heading."""
    return Text(f"\n{words}\n", style="bold")


def warning(words: str) -> Text:
    """Return a warning, which stands before any number."""
    return Text(f"{words}\n", style="bold red")


def facts(pairs: Mapping[str, str | Text]) -> Table:
    """Return names on the left, and their facts on the right."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, fact in pairs.items():
        grid.add_row(name, _escaped(_as_text(fact)))
    return grid


def table(heads: Sequence[str], rows: Sequence[Sequence[str | Text]], left: int = 1) -> Table:
    """Return a table; the first ``left`` columns hold words, the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    shown = [[_escaped_text(cell) for cell in row] for row in rows]
    width = _console().width
    widths = [max(cell.cell_len for cell in column) for column in zip(*shown, strict=True)]
    natural = [max(pair) for pair in zip(map(len, heads), widths or [0] * len(heads), strict=True)]
    if sum(natural) + _GAP * (len(heads) - 1) > width and shown:
        # names get what they need: first headings are wrapped, then the words in the first columns
        heads = [*heads[:left], *map(_stacked, heads[left:], widths[left:])]
        longest = [max(map(len, head.split("\n"))) for head in heads]
        natural = [max(pair) for pair in zip(longest, widths, strict=True)]
        room = width // 2
        if left == 1:
            room = width - sum(natural[1:]) - _GAP * (len(heads) - 1)
        for row in shown:
            row[0] = Text(broken(row[0].plain, max(_NARROWEST_NAME, room)), style=row[0].style)
        natural[0] = max(len(heads[0]), *(_width_of(row[0].plain) for row in shown))
        room = width - natural[0] - sum(natural[left:]) - _GAP * (len(heads) - 1)
        words = [
            _longest_word([heads[k], *(row[k].plain for row in shown)]) for k in range(1, left)
        ]
        natural[1:left] = _shared(natural[1:left], words, room)
    for k, head in enumerate(heads):
        justify: JustifyMethod = "left" if k < left else "right"
        wraps = 0 < k < left
        table.add_column(
            head,
            justify=justify,
            no_wrap=not wraps,
            overflow="fold",
            width=natural[k] if wraps else None,
        )
    for row in shown:
        table.add_row(*row)
    return table


def _width_of(words: str) -> int:
    return max(map(cell_len, words.split("\n")))


def _longest_word(texts: Sequence[str]) -> int:
    return max((cell_len(word) for words in texts for word in words.split()), default=1)


def _shared(natural: Sequence[int], words: Sequence[int], room: int) -> list[int]:
    """Share the letters of a line among columns of words: each has its longest word first, as far
    as there is room, and then as much as it can use; narrow columns come first.
    """
    given = _filled([0] * len(natural), words, max(room, len(natural)))
    return _filled(given, natural, max(0, room - sum(given)))


def _filled(given: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """Raise the width of each column towards what it wants, the smallest wish first."""
    widths = list(given)
    order = sorted(range(len(widths)), key=lambda k: wanted[k] - given[k])
    for place, k in enumerate(order):
        more = max(0, min(wanted[k] - given[k], room // (len(order) - place)))
        widths[k] += more
        room -= more
    return widths


def _stacked(head: str, width: int) -> str:
    """Break a heading into several lines, none wider than the cells under it if its words allow
    that.
    """
    return textwrap.fill(head, max(width, *map(len, head.split())), break_long_words=False)


def broken(name: str, width: int) -> str:
    """Break a name into lines of at most this width where its parts meet: at a space, a colon, an
    underscore, before a bracket; inside a word only if a part is longer than that.
    """
    lines = [""]
    for part in re.findall(r"\[?[^\[ :_]*[ :_]*", name):
        piece = part
        if lines[-1].strip() and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append(text.INDENT)
        while cell_len(lines[-1] + piece.rstrip()) > width:
            kept = set_cell_size(piece, width - cell_len(lines[-1])).rstrip() or piece[:1]
            lines[-1] += kept
            piece = piece[len(kept) :]
            lines.append(text.INDENT)
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _as_text(words: str | Text) -> Text:
    if isinstance(words, Text):
        return words
    return Text(words)


def _escaped(part: RenderableType) -> RenderableType:
    """Escape what the terminal would obey."""
    if isinstance(part, str):
        return text.escape_controls(part, keep="\n")
    if isinstance(part, Text):
        return _escaped_text(part, keep="\n")
    return part


def _escaped_text(words: str | Text, keep: str = "") -> Text:
    styled = _as_text(words)
    if text.escape_controls(styled.plain, keep) == styled.plain:
        return styled
    return Text(text.escape_controls(styled.plain, keep), style=styled.style)


def text_width() -> int:
    """Return the letters of a line of plain text on this terminal."""
    return max(_NARROWEST, _console().width - 1)


def sketch(result: FitResult, level: float) -> str:
    """Return the forest plot in letters that this terminal has."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return dp.plot.forest_text(result, level, text_width(), ascii=not encoding.startswith("utf"))


def coefficients(result: FitResult, level: float) -> Table:
    """Return one row per coefficient, without numbers where it has no interval; its alternatives
    are indented under it.  Where the model has ratios, they are printed instead of standard errors.
    """
    rows: list[Sequence[str | Text]] = []
    ratio = coefficient_table.ratio_name(result)
    shown = readable(result, result.table_with_alternatives(level))
    for row in coefficient_table.with_parts(result, shown, level):
        decimals = text.decimals_for(row["std_error"])
        colour = "" if coefficient_table.is_reported(row) else "yellow"
        third = _ratio_number(result, row) if ratio else text.number(row["std_error"], decimals)
        cells = [
            text.INDENT * coefficient_table.is_alternative(row) + label(row),
            text.number(row["estimate"], decimals),
            Text(coefficient_table.interval(row), style=colour),
            third,
            text.p_value(row["p_value"]),
            row["parts"].replace(" ", ""),
        ]
        rows.append(cells)
    numbers = ("Estimate", f"{100 * level:.4g}% interval", ratio or "Std. error", "p")
    return table(("Coefficient", *numbers, coefficient_table.PARTS), rows)


def _ratio_number(result: FitResult, row: coefficient_table.Row) -> str:
    if not coefficient_table.is_reported(row) or not coefficient_table.has_ratio(result, row):
        return text.NO_NUMBER
    shown = coefficient_table.ratio_row(row)
    return text.number(shown["estimate"], text.decimals_for(shown["std_error"]))
