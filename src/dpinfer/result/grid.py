"""Tables of cells, printed as text, Markdown, LaTeX and HTML.

Every printed table is a `Grid`: that of a result, of results side by side, of a description, of a
coverage study and of a forecast.  Names are escaped for each format; numbers are texts already.
"""

import html
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from dpinfer.result.text import INDENT, PAGE_WIDTH, escape_controls

_NARROWEST_NOTE = 30  # letters of a note in the place of cells
_TITLE_HEIGHT = 3
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": r"$-$",
    "–": "--",
    "<": r"$<$",
    ">": r"$>$",
    "[": "{[}",
    "]": "{]}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
}


@dataclass(frozen=True)
class GridCell:
    """An estimate, and its interval without brackets; either may be empty.

    An estimate that ``spans`` is a word, which may reach into the room of the interval.
    """

    estimate: str = ""
    interval: str = ""
    spans: bool = False

    def __str__(self) -> str:
        if not self.interval:
            return self.estimate
        return f"{self.estimate} ({self.interval})"


@dataclass(frozen=True)
class GridRow:
    """A name with one cell per column.

    A row without cells is a heading.  As text, a ``note`` is printed in the place of cells.
    """

    name: str
    cells: tuple[GridCell, ...] = ()
    indented: bool = False
    note: str = ""

    @classmethod
    def of(cls, name: str, texts: Sequence[str], *, indented: bool = False) -> "GridRow":
        """Return a row whose cells have these texts and no intervals."""
        return cls(name, tuple(map(GridCell, texts)), indented)


@dataclass(frozen=True)
class TextLayout:
    """The layout of a table printed as text, in letters.

    Rules have ``width`` letters, or more where the table is wider; with ``split``, columns that do
    not fit are printed in another part below.  Columns are ``gap`` letters apart and at least
    ``min_column`` wide.  Intervals are printed in brackets beside the estimates or, if ``under``,
    without brackets in a row of their own.  The column of names has at least ``min_names`` letters.
    A name of more than ``max_name`` letters is wrapped, or else has a row of its own.  A title of a
    column has up to three lines of ``title`` letters.
    """

    width: int = PAGE_WIDTH
    gap: int = 1
    min_column: int = 11
    min_names: int = 20
    max_name: int | None = None
    wrapped: bool = False
    under: bool = False
    brackets: bool = False
    split: bool = False
    title: int = 20


@dataclass(frozen=True)
class Grid:
    """A table: the titles of its columns, that of the names first, and its rows.

    A table without titles has no head as text.
    """

    titles: tuple[str, ...]
    rows: tuple[GridRow, ...]

    def text(self, layout: TextLayout) -> str:
        """Return the table as lines of text; control characters of names are escaped."""
        return _TextTable(self, layout).text()

    def fits(self, layout: TextLayout) -> bool:
        """Return whether all columns fit beside each other."""
        return len(_TextTable(self, layout).parts()) == 1

    def room_for_names(self, layout: TextLayout) -> int:
        """Return the letters that all columns beside each other leave for the names."""
        return _TextTable(self, layout).room()

    def markdown(self) -> list[str]:
        """Return the lines of the table in Markdown."""
        lines = [
            "| " + " | ".join(map(markdown_text, self.titles)) + " |",
            "| --- |" + " ---: |" * (len(self.titles) - 1),
        ]
        for row in self.rows:
            name = "&emsp;" * row.indented + markdown_text(row.name)
            lines.append("| " + " | ".join([name, *self._texts(row)]) + " |")
        return lines

    def latex(self, *, under: bool = False) -> list[str]:
        """Return the lines of a LaTeX tabular, which needs no package.

        With ``under`` intervals are printed under their estimates.
        """
        lines = [r"\begin{tabular}{l" + "r" * (len(self.titles) - 1) + "}", r"\hline"]
        lines += [" & ".join(map(_latex_text, self.titles)) + r" \\", r"\hline"]
        for row in self.rows:
            name = r"\quad " * row.indented + _latex_text(row.name)
            texts = self._texts(row)
            below = [f"({cell.interval})" if cell.interval and under else "" for cell in row.cells]
            if any(below):
                texts = [cell.estimate for cell in row.cells]
            lines.append(" & ".join([name, *map(_latex_text, texts)]) + r" \\")
            if any(below):
                lines.append(" & ".join(["", *map(_latex_text, below)]) + r" \\")
        return [*lines, r"\hline", r"\end{tabular}"]

    def html(self, caption: str) -> str:
        """Return an HTML table without scripts and styles."""
        head = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in self.titles)
        body = ""
        for row in self.rows:
            name = "&emsp;" * row.indented + html.escape(row.name)
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in self._texts(row))
            body += f'<tr><th scope="row">{name}</th>{cells}</tr>'
        return (
            f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def _texts(self, row: GridRow) -> list[str]:
        """Return the texts of the cells of a row; those of a heading are empty."""
        return [str(cell) for cell in row.cells] or [""] * (len(self.titles) - 1)


def markdown_page(grid: Grid, notes: Sequence[str]) -> str:
    """Return a table in Markdown with one paragraph per note under it."""
    lines = grid.markdown()
    for note in notes:
        lines += ["", markdown_text(note)]
    return "\n".join(lines)


def latex_page(grid: Grid, notes: Sequence[str], *, under: bool = False) -> str:
    """Return a table in LaTeX with the notes in small print under it."""
    lines = grid.latex(under=under)
    for note in notes:
        lines += [r"\par\smallskip", rf"{{\footnotesize {_latex_text(note)}\par}}"]
    return "\n".join(lines)


def html_page(grid: Grid, caption: str, notes: Sequence[str]) -> str:
    """Return a table in HTML with one paragraph per note under it."""
    return grid.html(caption) + "".join(f"<p>{html.escape(note)}</p>" for note in notes)


def markdown_text(text: str) -> str:
    """Return a text in one line that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(text.split()))


def _latex_text(text: str) -> str:
    quoted = re.sub(r'"([^"]*)"', r"``\1''", " ".join(text.split()))
    return "".join(_LATEX.get(letter, letter) for letter in quoted)


class _TextTable:
    """A grid as text: widths of all columns first, then rows, part by part."""

    def __init__(self, grid: Grid, layout: TextLayout) -> None:
        self.layout = layout
        self.titles = [
            _wrapped_title(escape_controls(title), layout.title) for title in grid.titles
        ]
        self.rows = [(escape_controls(INDENT * row.indented + row.name), row) for row in grid.rows]
        full = [row.cells for row in grid.rows if row.cells]
        count = len(full[0]) if full else max(0, len(grid.titles) - 1)
        self.estimates: list[int] = []
        self.intervals: list[int] = []
        for k in range(count):
            estimates = [len(cells[k].estimate) for cells in full if not cells[k].spans]
            spanning = [len(cells[k].estimate) for cells in full if cells[k].spans]
            intervals = [len(self._interval(cells[k])) for cells in full]
            if self.titles:
                estimates += map(len, self.titles[1 + k])
            if layout.under:
                estimates += intervals
            if layout.under or not any(intervals):
                estimates += spanning
            estimate = max(estimates, default=0)
            self.estimates.append(estimate)
            self.intervals.append(
                max([*intervals, *(span - estimate for span in spanning)], default=0)
            )
        self.names = self._width_of_names()

    def _width_of_names(self) -> int:
        layout = self.layout
        lengths = [len(name) for name, row in self.rows if row.cells or row.note]
        if layout.wrapped and layout.max_name is not None:
            return min(layout.max_name, max(lengths, default=0))
        if layout.max_name is not None:
            lengths = [length for length in lengths if length <= layout.max_name]
        return max([layout.min_names, *(length + 1 for length in lengths)])

    def text(self) -> str:
        parts = [self._part(columns) for columns in self.parts()]
        width = max(self.layout.width, *(len(line) for head, _ in parts for line in head), 0)
        lines = []
        for head, body in parts:
            lines.append("=" * width)
            if head:
                lines += [*head, "-" * width]
            lines += body
        return "\n".join([*lines, "=" * width])

    def room(self) -> int:
        return self.layout.width - sum(map(self._width, range(len(self.estimates))))

    def parts(self) -> list[list[int]]:
        """Return the columns of each part; a column that is too wide has a part of its own."""
        columns = list(range(len(self.estimates)))
        if not self.layout.split:
            return [columns]
        parts: list[list[int]] = []
        room = 0
        for k in columns:
            if not parts or self._width(k) > room:
                parts.append([])
                room = self.layout.width - self.names
            parts[-1].append(k)
            room -= self._width(k)
        return parts

    def _width(self, k: int) -> int:
        width = self.layout.gap + self.estimates[k]
        if self.intervals[k] and not self.layout.under:
            width += 1 + self.intervals[k]
        return max(self.layout.min_column, width)

    def _part(self, columns: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the head and the rows of some columns, without the rows that are empty there."""
        head = []
        if self.titles:
            head = self._head(columns)
        body: list[str] = []
        heading: list[str] = []  # printed before the first row under it that is not empty
        empty: list[str] = []  # a row without cells here, printed before the rows indented under it
        for name, row in self.rows:
            if not row.cells and not row.note:
                heading = [textwrap.shorten(name, self.layout.width, placeholder=" …")]
                continue
            lines = self._row(name, row, columns)
            if not row.indented:
                empty = [] if lines else [name]
            if lines:
                body += [*heading, *empty, *lines]
                heading = empty = []
        return head, body

    def _head(self, columns: Sequence[int]) -> list[str]:
        """Return the lines of the titles of some columns, all of which end on the last line."""
        titles = [self.titles[1 + k] for k in columns]
        height = max(map(len, titles), default=1)
        names = [""] * (height - 1) + [" ".join(self.titles[0])[: self.names]]
        padded = [[""] * (height - len(lines)) + lines for lines in titles]
        return [
            self._line(name, [(k, lines[j], "") for k, lines in zip(columns, padded, strict=True)])
            for j, name in enumerate(names)
        ]

    def _row(self, name: str, row: GridRow, columns: Sequence[int]) -> list[str]:
        if row.note:
            width = max(_NARROWEST_NOTE, self.layout.width - self.names)
            notes = textwrap.wrap(escape_controls(row.note), width, subsequent_indent=INDENT)
            *above, last = self._lines_of_name(name)
            pairs = zip_longest([last], notes, fillvalue="")
            return [*above, *(f"{left:<{self.names}}{note}" for left, note in pairs)]
        cells = [(k, row.cells[k]) for k in columns]
        if not any(str(cell) for _, cell in cells):
            return []
        *names, last = self._lines_of_name(name)
        lines = [
            *names,
            self._line(last, [(k, cell.estimate, self._interval(cell)) for k, cell in cells]),
        ]
        if self.layout.under and any(cell.interval for _, cell in cells):
            lines.append(self._line("", [(k, self._interval(cell), "") for k, cell in cells]))
        return lines

    def _lines_of_name(self, name: str) -> list[str]:
        longest = self.layout.max_name
        if self.layout.wrapped:
            indent = name[: len(name) - len(name.lstrip())]
            return textwrap.wrap(
                name.strip(), self.names, initial_indent=indent, subsequent_indent=indent + INDENT
            ) or [""]
        if longest is not None and len(name) > longest:
            return [name, ""]
        return [name]

    def _line(self, name: str, cells: Sequence[tuple[int, str, str]]) -> str:
        return (name.ljust(self.names) + "".join(self._aligned(*cell) for cell in cells)).rstrip()

    def _aligned(self, k: int, estimate: str, interval: str = "") -> str:
        """Return a cell at the right of its column, with its interval behind it."""
        if not self.intervals[k] or self.layout.under:
            return estimate.rjust(self._width(k))
        shown = " " * self.layout.gap + estimate.rjust(self.estimates[k])
        # a word that spans is longer than the room of the estimate
        room = self.layout.gap + self.estimates[k] + 1 + self.intervals[k]
        return f"{shown} {interval}".ljust(room)

    def _interval(self, cell: GridCell) -> str:
        if cell.interval and self.layout.brackets:
            return f"({cell.interval})"
        return cell.interval


def _wrapped_title(title: str, width: int) -> list[str]:
    """Return a title on lines of ``width`` letters; it is shortened where it has too many of them."""
    lines = textwrap.wrap(title, width) or [""]
    if len(lines) <= _TITLE_HEIGHT:
        return lines
    last = f"…{title[1 - width :]}"  # the end of a title is where two of them differ
    return [*lines[: _TITLE_HEIGHT - 1], last]
