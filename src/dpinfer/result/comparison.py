"""Results side by side: one column per model, and under it what differs between them."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.errors import InputError
from dpinfer.result import differences, rendering, text
from dpinfer.result.estimates import AT_ZERO, checked
from dpinfer.result.result import FitResult
from dpinfer.schema.design import INTERCEPT

if TYPE_CHECKING:
    import pandas as pd

MOST = 12
"""Models of a comparison, at most: more cannot be told apart in a picture."""
_FILE = "result.json"  # what a fit calls its result
_TITLE = "Regressions side by side"
_SHORTEST = 60  # letters of a line of text
_LONG_NAME = 26  # letters of a name from which on it has a line of its own
_LONG_TITLE = 20  # letters of a model's name that stand above its column
_GAP = 2  # letters between two columns
Model = FitResult | str | os.PathLike[str]


@dataclass(frozen=True)
class Cell:
    """A line in one model: its estimate and interval, a word where it has none, or nothing."""

    estimate: str = ""
    interval: str = ""

    def __str__(self) -> str:
        if not self.interval:
            return self.estimate
        return f"{self.estimate} ({self.interval})"


@dataclass(frozen=True)
class Line:
    """One term, with one cell per model; what is known instead of an open one is indented."""

    name: str
    indented: bool
    cells: tuple[Cell, ...]


def compare(
    results: Mapping[str, Model] | Iterable[Model],
    names: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    ratios: bool = False,
) -> "Comparison":
    """Models side by side: ``results`` are results of fits or the paths of saved ones, or a mapping
    of names to them.

    ``names`` are what the models are called; without them a saved result is called after its
    folder, and others "Model 1", "Model 2" and so on.  ``level`` is that of all intervals.  With
    ``ratios`` odds ratios and rate ratios stand in the place of coefficients.

    A comparison reads released numbers alone, and costs nothing.
    """
    if isinstance(results, Mapping):
        if names is not None:
            raise InputError("the models have names already: give a mapping or names=, not both")
        names = [str(name) for name in results]
        given = list(results.values())
    elif isinstance(results, str | os.PathLike | FitResult):
        raise InputError("one result alone: give a list of two results or more, [a, b]")
    else:
        given = list(results)
    loaded = tuple(_loaded(result) for result in given)
    if names is None:
        names = _names(given)
    return Comparison(tuple(names), loaded, checked(level), ratios)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several results, one column each: made by `compare`, printed as a table.

    ``names`` are those of the models, ``results`` their results, ``level`` is that of all
    intervals, and with ``ratios`` odds or rate ratios are shown.  Rows are the terms of all models,
    in the order in which they first appear; a cell is blank where a term is not in a model.  Under
    the table stands what is the same in all models and what differs.
    """

    names: tuple[str, ...]
    results: tuple[FitResult, ...]
    level: float = 0.95
    ratios: bool = False

    def __post_init__(self) -> None:
        count = len(self.results)
        if not 2 <= count <= MOST:
            raise InputError(f"give 2 to {MOST} results to compare, not {count}")
        if len(self.names) != count:
            raise InputError(f"give one name per result: {len(self.names)} names, {count} results")
        if len(set(self.names)) < count or not all(name.strip() for name in self.names):
            raise InputError("each model needs a name of its own: change names=")
        without = [
            name
            for name, result in zip(self.names, self.results, strict=True)
            if not (result.model.logistic or result.model.counts)
        ]
        if self.ratios and without:
            raise InputError(
                "ratios are those of logistic regression and of counts: leave out "
                f"{', '.join(without)}, or ratios"
            )

    @property
    def private(self) -> bool:
        """Whether all models are."""
        return all(result.privacy.private for result in self.results)

    @property
    def caption(self) -> str:
        """What the numbers are."""
        kinds = {"coefficients in original units": True}
        if self.ratios:
            kinds = {
                "odds ratios": any(result.model.logistic for result in self.results),
                "rate ratios": any(result.model.counts for result in self.results),
            }
        numbers = " and ".join(kind for kind, shown in kinds.items() if shown)
        return f"{numbers.capitalize()} with {100 * self.level:.4g}% confidence intervals"

    def lines(self) -> list[Line]:
        """The rows of the table."""
        tables = [self._rows(result) for result in self.results]
        found = [{(row["instead_of"], row["name"]): row for row in rows} for rows in tables]
        marks = self._marks()
        return [
            Line(name, bool(of), tuple(self._cell(rows.get((of, name)), marks) for rows in found))
            for of, name in _order(tables)
        ]

    def _rows(self, result: FitResult) -> list[dict[str, Any]]:
        """Of one model; an intercept has no ratio."""
        rows = rendering.rows(result, self.level)
        if not self.ratios:
            return rows
        return [row for row in rows if row["name"] not in (INTERCEPT, AT_ZERO)]

    def _marks(self) -> dict[str, int]:
        """Numbers of the reasons why lines have no interval."""
        reasons = dict.fromkeys(
            row["status"]
            for result in self.results
            for row in self._rows(result)
            if text.set_aside(row)
        )
        return {reason: k for k, reason in enumerate(reasons, start=1)}

    def _cell(self, row: Mapping[str, Any] | None, marks: Mapping[str, int]) -> Cell:
        if row is None:
            return Cell()
        if text.set_aside(row):
            return Cell(f"{text.interval(row)} [{marks[row['status']]}]")
        shown = text.ratio_row(row) if self.ratios else row
        return Cell(
            text.number(shown["estimate"], text.places(shown["std_error"])), text.interval(shown)
        )

    def reasons(self) -> list[str]:
        """Why lines have no interval, by their numbers in the table; then what that means, and what
        indented lines are.
        """
        rows = [row for result in self.results for row in self._rows(result)]
        listed = [f"[{mark}] {reason}." for reason, mark in self._marks().items()]
        return [*listed, *text.no_estimates(rows), *text.about_instead(rows)]

    def warnings(self) -> list[str]:
        """What to know of single models before a number is read."""
        models = list(zip(self.names, self.results, strict=True))
        unprotected = [name for name, result in models if not result.privacy.private]
        warnings = [
            f"{name}: {warning}" for name, result in models for warning in result.warnings()
        ]
        if not unprotected:
            return warnings
        return [f"NOT PRIVATE, do not publish: {', '.join(unprotected)}.", *warnings]

    def differences(self) -> list[str]:
        """What is the same in all models, what differs, and what may not be concluded."""
        fits = dict(zip(self.names, self.results, strict=True))
        return differences.notes(fits, intercepts=not self.ratios)

    def notes(self) -> list[str]:
        """All that stands under the table."""
        return [*self.warnings(), *self.reasons(), *self.differences()]

    def to_frame(self) -> "pd.DataFrame":
        """One row per model and coefficient of its formula: model, term, then the columns of
        `FitResult.to_frame`.

        With ``ratios`` there are three more, ratio, ratio_low and ratio_high, and no intercept.
        What is known instead of open coefficients stands in tables and is not in here.
        """
        from dpinfer.result.frames import Frame  # noqa: PLC0415  (pandas is loaded when asked for)

        rows = []
        for name, result in zip(self.names, self.results, strict=True):
            for row in result.table(self.level):
                if self.ratios and row["name"] == INTERCEPT:
                    continue
                numbers = {key: cell for key, cell in row.items() if key != "name"}
                rows.append({"model": name, "term": row["name"], **numbers, **self._ratio(row)})
        return Frame(rows)

    def _ratio(self, row: Mapping[str, Any]) -> dict[str, float]:
        if not self.ratios:
            return {}
        if text.set_aside(row):
            return {"ratio": math.nan, "ratio_low": 0.0, "ratio_high": math.inf}
        shown = text.ratio_row(row)
        return {
            "ratio": shown["estimate"],
            "ratio_low": shown["low"],
            "ratio_high": shown["high"],
        }

    def summary(self) -> str:
        """`to_text`, by the name that results and descriptions have for it."""
        return self.to_text()

    def to_text(self, width: int = 80) -> str:
        """The table as text in lines of ``width`` letters, at least 60: intervals stand under their
        estimates, and models that do not fit beside the others under them.
        """
        if width < _SHORTEST:
            raise InputError(f"models side by side need a width of at least {_SHORTEST}")
        lines = self.lines()
        tables = [_text(lines, part, width) for part in self._parts(lines, width)]
        head = [_TITLE.center(width).rstrip(), self.caption.center(width).rstrip()]
        return text.stated("\n".join([*head, *tables]), self.notes(), width)

    def _parts(self, lines: Sequence[Line], width: int) -> list[dict[int, str]]:
        """Places and titles of the models that stand beside each other."""
        short = [len(line.name) + len(text.INDENT) * line.indented for line in lines]
        first = max(text.NAMES, *(length + 1 for length in short if length <= _LONG_NAME))
        parts: list[dict[int, str]] = []
        taken = width
        for place, name in enumerate(self.names):
            title = text.harmless(name)
            if len(title) > _LONG_TITLE:
                title = title[: _LONG_TITLE - 1] + "…"
            cells = [line.cells[place] for line in lines]
            longest = max(max(len(cell.estimate), len(cell.interval)) for cell in cells)
            room = _GAP + max(len(title), longest)
            if taken + room > width:
                parts.append({})
                taken = first
            parts[-1][place] = title
            taken += room
        return parts

    def to_markdown(self) -> str:
        """The table in Markdown, with all notes."""
        return rendering.markdown_page(self._grid(), [f"{self.caption}.", *self.notes()])

    def to_latex(self) -> str:
        """The table as a LaTeX tabular, with all notes in small print under it; it needs no
        package.
        """
        return rendering.latex_page(self._grid(), [f"{self.caption}.", *self.notes()])

    def to_html(self) -> str:
        """The table in HTML, with all notes under it: no script, no style.  `dp.report` has a page
        with a picture.
        """
        return rendering.html_page(self._grid(), f"{self.caption}.", self.notes())

    def _grid(self) -> rendering.Grid:
        rows = [(line.name, line.indented, tuple(map(str, line.cells))) for line in self.lines()]
        return rendering.Grid(("Coefficient", *self.names), tuple(rows))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return text.harmless(f"<Comparison of {', '.join(self.names)}>")

    def _repr_html_(self) -> str:
        return self.to_html()


def _order(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """What each row stands for and its name: terms in the order of first appearance, under each
    what is known instead, and the ordinary intercept last.
    """
    rows = [(row["instead_of"], row["name"]) for table in tables for row in table]
    keys = dict.fromkeys(rows)
    ordered = []
    for of, name in keys:
        if not of and name != AT_ZERO:
            ordered.append((of, name))
            ordered += [key for key in keys if key[0] == name]
    return ordered + [key for key in keys if key[1] == AT_ZERO]


def _text(lines: Sequence[Line], part: Mapping[int, str], width: int) -> str:
    """Some of the models as text, two lines per term."""
    rows: list[tuple[str, Sequence[str] | str]] = []
    for line in lines:
        name = text.INDENT * line.indented + line.name
        cells = [line.cells[place] for place in part]
        if not any(map(str, cells)):  # in none of these models
            continue
        if len(name) > _LONG_NAME:
            rows.append((name, ""))
            name = ""
        rows.append((name, [cell.estimate for cell in cells]))
        if any(cell.interval for cell in cells):
            rows.append(("", [cell.interval for cell in cells]))
    return text.table(list(part.values()), rows, narrowest=0, gap=_GAP, width=width)


def _loaded(result: Model) -> FitResult:
    if isinstance(result, FitResult):
        return result
    if isinstance(result, str | os.PathLike):
        return FitResult.load(result)
    raise InputError(
        f"results are compared, not {type(result).__name__}: give those of fits (model.result_) or the "
        "paths of saved ones"
    )


def _names(given: Sequence[Model]) -> list[str]:
    """What saved results are called after, or else numbers."""
    found = [
        _called(Path(result)) if isinstance(result, str | os.PathLike) else "" for result in given
    ]
    if all(found) and len(set(found)) == len(found):
        return found
    return [f"Model {k}" for k in range(1, len(given) + 1)]


def _called(path: Path) -> str:
    """The folder of what a fit wrote, the name of another file."""
    if path.name == _FILE:
        return path.resolve().parent.name
    return path.stem
