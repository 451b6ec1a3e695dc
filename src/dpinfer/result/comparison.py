"""Results side by side: one column per model, and under it what differs between them."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.errors import InputError
from dpinfer.result import coefficient_table, differences, text
from dpinfer.result.estimates import AT_ZERO, checked
from dpinfer.result.grid import (
    Grid,
    GridCell,
    GridRow,
    TextLayout,
    html_page,
    latex_page,
    markdown_page,
)
from dpinfer.result.readable_units import NOTE, factors, scaled
from dpinfer.result.result import FitResult
from dpinfer.schema.design import INTERCEPT

if TYPE_CHECKING:
    import pandas as pd

MAX_MODELS = 12
"""Models of a comparison, at most: more cannot be told apart in a picture."""
_FILE = "result.json"  # what a fit calls its result
_TITLE = "Regressions side by side"
_SHORTEST = 60  # letters of a line of text
_GAP = 2  # letters between two columns
_LONG_NAME = 26  # letters of a name from which on it has a line of its own
Model = FitResult | str | os.PathLike[str]


def compare(
    results: Mapping[str, Model] | Iterable[Model],
    names: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    ratios: bool = False,
) -> "Comparison":
    """Put the results of several fits side by side.

    A comparison reads released numbers alone, and costs nothing.

    Parameters
    ----------
    results : sequence, or dict of names and results
        Two or more results of fits, or the paths of saved ones.
    names : sequence of str, optional
        The names of the models.  By default a saved result is named after its folder, and others
        "Model 1", "Model 2" and so on.
    level : float
        The confidence level of all intervals; 0.95 by default.
    ratios : bool
        Whether odds ratios and rate ratios are shown instead of coefficients; by default they are
        not.

    Returns
    -------
    Comparison
        The table, to print or to write.

    Raises
    ------
    InputError
        If there is one result alone, a name is missing, or ratios are asked of another model.

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> small = model.fit(data.table).result_
    >>> model = dp.LinearRegression("mdvis ~ physlm + idp", schema=data.schema, budget=model.budget)
    >>> large = model.fit(data.table).result_
    >>> both = dp.compare({"small": small, "large": large})
    >>> print(both.to_frame()[["model", "term", "estimate"]].round(2))
       model         term  estimate
    0  small  (Intercept)      2.61
    1  small       physlm      2.01
    2  large  (Intercept)      2.74
    3  large       physlm      1.99
    4  large          idp     -0.50
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
    """Several results side by side, one column each, made by `compare`.

    Rows are the terms of all models, in the order in which they first appear; a cell is blank where
    a term is not in a model.  The notes under the table say what is the same in all models, and
    what differs.

    Parameters
    ----------
    names : tuple of str
        The names of the models, all different.
    results : tuple of FitResult
        Their results.
    level : float
        The confidence level of all intervals; 0.95 by default.
    ratios : bool
        Whether odds ratios and rate ratios are shown instead of coefficients; by default they are
        not.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.PoissonRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> one = model.fit(data.table).result_  # the noise is off, for examples only
    >>> dp.Comparison(("a", "b"), (one, one), ratios=True).caption
    'Rate ratios with 95% confidence intervals'
    """

    names: tuple[str, ...]
    results: tuple[FitResult, ...]
    level: float = 0.95
    ratios: bool = False

    def __post_init__(self) -> None:
        count = len(self.results)
        if not 2 <= count <= MAX_MODELS:
            raise InputError(f"give 2 to {MAX_MODELS} results to compare, not {count}")
        if len(self.names) != count:
            raise InputError(f"give one name per result: {len(self.names)} names, {count} results")
        if len(set(self.names)) < count or not all(name.strip() for name in self.names):
            raise InputError("each model needs a name of its own: change names=")
        without = [
            name
            for name, result in zip(self.names, self.results, strict=True)
            if not coefficient_table.ratio_name(result)
        ]
        if self.ratios and without:
            raise InputError(
                "ratios are those of logistic regression, of counts and of hazards: leave out "
                f"{', '.join(without)}, or ratios"
            )

    @property
    def private(self) -> bool:
        """Return whether all models are private."""
        return all(result.privacy.private for result in self.results)

    @property
    def caption(self) -> str:
        """Return the caption: which numbers these are, and the level of the intervals."""
        kinds = {"coefficients in original units": True}
        if self.ratios:
            kinds = {
                "odds ratios": any(result.model.logistic for result in self.results),
                "rate ratios": any(result.model.counts for result in self.results),
                "hazard ratios": any(result.model.hazards for result in self.results),
            }
        numbers = " and ".join(kind for kind, shown in kinds.items() if shown)
        return f"{numbers.capitalize()} with {100 * self.level:.4g}% confidence intervals"

    def rows(self) -> list[GridRow]:
        """Return the rows of the table; alternatives to a coefficient are indented under it."""
        tables = [self._rows(result) for result in self.results]
        by_name = [{(row["instead_of"], row["name"]): row for row in rows} for rows in tables]
        labels = {key: row["label"] for rows in reversed(by_name) for key, row in rows.items()}
        marks = self._marks()
        return [
            GridRow(
                labels[of, name],
                tuple(self._cell(rows.get((of, name)), marks) for rows in by_name),
                bool(of),
            )
            for of, name in _order(tables)
        ]

    @cached_property
    def units(self) -> dict[str, int]:
        """Return the units that a row is for, the same in all models; rows for one unit are left out."""
        found: dict[str, int] = {}
        for result in self.results:
            rows = result.table_with_alternatives(self.level)
            for name, factor in factors(result, rows).items():
                found[name] = max(factor, found.get(name, 1))
        return found

    def _rows(self, result: FitResult) -> list[dict[str, Any]]:
        """Return the rows of one model; an intercept has no ratio."""
        rows = scaled(coefficient_table.rows(result, self.level), self.units)
        if not self.ratios:
            return rows
        return [row for row in rows if row["name"] not in (INTERCEPT, AT_ZERO)]

    def _marks(self) -> dict[str, int]:
        """Number the reasons why coefficients have no interval."""
        reasons = dict.fromkeys(
            row["status"]
            for result in self.results
            for row in self._rows(result)
            if not coefficient_table.is_reported(row)
        )
        return {reason: k for k, reason in enumerate(reasons, start=1)}

    def _cell(self, row: Mapping[str, Any] | None, marks: Mapping[str, int]) -> GridCell:
        if row is None:
            return GridCell()
        if not coefficient_table.is_reported(row):
            return GridCell(f"{coefficient_table.interval(row)} [{marks[row['status']]}]")
        shown = coefficient_table.ratio_row(row) if self.ratios else row
        estimate = text.number(shown["estimate"], text.decimals_for(shown["std_error"]))
        return GridCell(estimate, coefficient_table.interval(shown))

    def reasons(self) -> list[str]:
        """Return the reasons why coefficients are not reported, by their numbers in the table.

        After them stands what that means, and what indented rows are.
        """
        rows = [row for result in self.results for row in self._rows(result)]
        listed = [f"[{mark}] {reason}." for reason, mark in self._marks().items()]
        return [
            *listed,
            *coefficient_table.about_missing(rows),
            *coefficient_table.about_alternatives(rows),
            *([NOTE] if self.units else []),
        ]

    def warnings(self) -> list[str]:
        """Return warnings about single models, to read before any number."""
        models = list(zip(self.names, self.results, strict=True))
        unprotected = [name for name, result in models if not result.privacy.private]
        warnings = [
            f"{name}: {warning}" for name, result in models for warning in result.warnings()
        ]
        if not unprotected:
            return warnings
        return [f"NOT PRIVATE, do not publish: {', '.join(unprotected)}.", *warnings]

    def differences(self) -> list[str]:
        """Return what is the same in all models, what differs, and what may not be concluded."""
        fits = dict(zip(self.names, self.results, strict=True))
        return differences.notes(fits, intercepts=not self.ratios)

    def notes(self) -> list[str]:
        """Return all notes under the table."""
        return [*self.warnings(), *self.reasons(), *self.differences()]

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per model and coefficient of its formula.

        Returns
        -------
        DataFrame
            model, term, the columns of `FitResult.to_frame`, and label; with ``ratios`` also ratio,
            ratio_low and ratio_high, without intercepts.  Alternatives to coefficients that are not
            reported are not in it.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> one = model.fit(data.table).result_  # the noise is off, for examples only
        >>> len(dp.compare([one, one]).to_frame())
        4
        """
        from dpinfer.result.frames import frame_of  # noqa: PLC0415  (loads pandas)

        rows = []
        for name, result in zip(self.names, self.results, strict=True):
            for row in result.table(self.level):
                if self.ratios and row["name"] == INTERCEPT:
                    continue
                numbers = {key: cell for key, cell in row.items() if key not in ("name", "label")}
                words = {"label": row["label"]}
                rows.append(
                    {"model": name, "term": row["name"], **numbers, **self._ratio(row), **words}
                )
        return frame_of(rows)

    def _ratio(self, row: Mapping[str, Any]) -> dict[str, float]:
        if not self.ratios:
            return {}
        if not coefficient_table.is_reported(row):
            return {"ratio": math.nan, "ratio_low": 0.0, "ratio_high": math.inf}
        shown = coefficient_table.ratio_row(row)
        return {
            "ratio": shown["estimate"],
            "ratio_low": shown["low"],
            "ratio_high": shown["high"],
        }

    def summary(self, *, full: bool = False) -> str:
        """Return the table as text.

        Parameters
        ----------
        full : bool
            Whether all notes are under the table, as in `to_text`; by default there are ten lines at
            most.

        Returns
        -------
        str
            A page of 80 columns, to print.
        """
        notes = self.notes() if full else text.essential(self.notes())
        return self._page(text.PAGE_WIDTH, notes)

    def to_text(self, width: int = text.PAGE_WIDTH) -> str:
        """Return the table as text, with all notes.

        Intervals stand under their estimates, and models that have no room beside the others under
        them.

        Parameters
        ----------
        width : int
            The number of characters in a line, at least 60; 80 by default.

        Returns
        -------
        str
            A page to print.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> one = model.fit(data.table).result_  # the noise is off, for examples only
        >>> max(len(line) for line in dp.compare([one, one]).to_text(width=70).splitlines()) <= 70
        True
        """
        if width < _SHORTEST:
            raise InputError(f"models side by side need a width of at least {_SHORTEST}")
        return self._page(width, self.notes())

    def _page(self, width: int, notes: Sequence[str]) -> str:
        layout = TextLayout(
            width=width, gap=_GAP, min_column=0, max_name=_LONG_NAME, under=True, split=True
        )
        grid = self._grid()
        table = replace(grid, titles=("", *grid.titles[1:])).text(layout)
        head = [_TITLE.center(width).rstrip(), self.caption.center(width).rstrip()]
        return text.with_notes("\n".join([*head, table]), notes, width)

    def to_markdown(self) -> str:
        """Return the table in Markdown, with all notes.

        Returns
        -------
        str
            The text of the table.
        """
        return markdown_page(self._grid(), [f"{self.caption}.", *self.notes()])

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular, with all notes in small print under it.

        Returns
        -------
        str
            The tabular; it needs no package.
        """
        return latex_page(self._grid(), [f"{self.caption}.", *self.notes()])

    def to_html(self) -> str:
        """Return the table in HTML, with all notes under it.

        It has neither script nor style; `dp.report.side_by_side` makes a page with a figure.

        Returns
        -------
        str
            The element of the table.
        """
        return html_page(self._grid(), f"{self.caption}.", self.notes())

    def _grid(self) -> Grid:
        return Grid(("Coefficient", *self.names), tuple(self.rows()))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return text.escape_controls(f"<Comparison of {', '.join(self.names)}>")

    def _repr_html_(self) -> str:
        return self.to_html()


def _order(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """Order the rows: terms as they first appear, under each its alternatives, and the ordinary
    intercept last.
    """
    rows = [(row["instead_of"], row["name"]) for table in tables for row in table]
    keys = dict.fromkeys(rows)
    ordered = []
    for of, name in keys:
        if not of and name != AT_ZERO:
            ordered.append((of, name))
            ordered += [key for key in keys if key[0] == name]
    return ordered + [key for key in keys if key[1] == AT_ZERO]


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
    """Name saved results after their folders, and others by numbers."""
    found = [
        _called(Path(result)) if isinstance(result, str | os.PathLike) else "" for result in given
    ]
    if all(found) and len(set(found)) == len(found):
        return found
    return [f"Model {k}" for k in range(1, len(given) + 1)]


def _called(path: Path) -> str:
    """Name a result after the folder of a fit, or after another file."""
    if path.name == _FILE:
        return path.resolve().parent.name
    return path.stem
