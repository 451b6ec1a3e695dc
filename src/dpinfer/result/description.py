"""The published description of a table: figures of its columns, each with an interval, and what they mean."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.result import saved, table_one, text
from dpinfer.result.column_figures import (
    COUNT,
    DIFFERENCE,
    FIGURE_TOO_NOISY,
    MEAN,
    MEDIAN,
    MISSING,
    Q25,
    Q75,
    RECORDS,
    SD,
    SHARE,
    TOO_FEW_RECORDS,
    Figure,
    Figures,
)
from dpinfer.result.grid import html_page, latex_page, markdown_page
from dpinfer.result.question import public_facts
from dpinfer.result.statements import errors_counted, weighing
from dpinfer.schema.guesses import shares_within, spread_within

__all__ = [
    "COUNT",
    "DIFFERENCE",
    "FIGURE_TOO_NOISY",
    "MEAN",
    "MEDIAN",
    "MISSING",
    "Q25",
    "Q75",
    "RECORDS",
    "SD",
    "SHARE",
    "TOO_FEW_RECORDS",
    "Description",
    "Figure",
]

_OF_NUMBERS = (
    "Means, standard deviations and quartiles are of the values as they count: those beyond a public "
    "bound count as the bound."
)
_OF_LEVELS = "A share is that of a level among the usable records of its column."
_MISSING = (
    "Missing are the records without a usable value in a column: empty, not of its type, or none of "
    "its levels. They are left out of that column alone."
)
_APART = (
    "Each interval is made for its own figure: a statement about several of them at once needs wider "
    "ones. Every column, and every group, has noise of its own: their figures need not add up."
)


@dataclass(frozen=True, repr=False)
class Description(Figures):
    """The released description of a table, made by `describe`; every method is post-processing.

    Attributes
    ----------
    figures : tuple of Figure
        One per number: column, level, group, figure, estimate, interval and status.
    columns : tuple
        The columns that are described, with what is public about them.
    by : str
        The grouping column, or "".
    groups : tuple
        The levels of the grouping column.
    confidence : float
        The confidence level.
    n : int or None
        The number of records or units, where it is public.
    unit : Unit
        What the guarantee protects.
    privacy : Privacy
        The guarantee: the budget, the releases and the id in the ledger.
    derived : tuple of str
        The names of columns that are expressions of others.
    by_label : str
        The label of the grouping column, or "".

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> table1 = dp.describe(data.table, data.schema, dp.NoPrivacy(), columns=["health"])
    >>> figure = table1.figures[0]
    >>> print(figure.column, figure.figure, f"{figure.estimate:.0f}")
    health records 20190
    """

    def statements(self) -> list[str]:
        """Return sentences on the meaning of the figures, and on the guarantee and its limits."""
        privacy = self.privacy
        facts = "; ".join(f"{column.name}: {public_facts(column)}" for column in self.columns)
        spent = ", ".join(f"{event.step}: {event.share.amount}" for event in privacy.events)
        scope = [privacy.scope] if privacy.neighbours.units else []
        return [
            *self.meanings(),
            f"Declared beforehand: {facts}.",
            f"Privacy: {privacy.budget}.",
            f"Protects {privacy.unit} (neighbours: {privacy.neighbours.sentence}).",
            f"Spent on {spent}.",
            *scope,
            *(f"- {caveat}" for caveat in self.caveats()),
        ]

    def meanings(self) -> list[str]:
        """Return sentences on the meaning of the figures."""
        kinds = {one.figure for one in self.figures}
        said = []
        if kinds & {MEAN, SD, Q25, MEDIAN, Q75}:
            said.append(_OF_NUMBERS)
        if kinds & {SHARE, COUNT}:
            said.append(_OF_LEVELS)
        if kinds & {MISSING, RECORDS}:
            said.append(_MISSING)
        if self.by:
            said.append(
                f"Groups are by the declared levels of {self.by}; a record without one is in no "
                "group."
            )
        if DIFFERENCE in kinds:
            first = table_one.level_name(self.groups[0])
            said.append(f"A difference is the mean or share of a group less that of {first}.")
        said += [f"{one}." for one in weighing(self.unit)]
        return [*said, errors_counted(self.privacy.budget), _APART]

    def caveats(self) -> tuple[str, ...]:
        """Return what the guarantee and the intervals do not cover."""
        return self.privacy.caveats(self.n, weighted=bool(self.unit.weights))

    def summary(self, *, full: bool = False) -> str:
        """Return Table 1 as text, with its meaning under it.

        Parameters
        ----------
        full : bool
            Whether each figure has a row of its own with its interval, and all statements are under
            the table; by default it is compact, one row per level with the number and the percentage
            in one cell, and the most important statements are under it, in ten lines at most.

        Parameters
        ----------
        full : bool
            Whether all statements are under the table; by default the most important ones are, in
            ten lines at most.

        Returns
        -------
        str
            A page of 80 columns, to print.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> table1 = dp.describe(data.table, data.schema, dp.NoPrivacy(), columns=["health"])
        >>> "NOT PRIVATE" in table1.summary()  # the noise is off, for examples only
        True
        """
        title = "Differentially private description"
        if not self.privacy.private:
            title = "Description, NOT PRIVATE"
        groups = f", by {self.by}" if self.by else ""
        about = f"{self.unit.size(self.n)}{groups}; {table_one.interval_name(self)}s in brackets"
        size = about[0].upper() + about[1:] + "."
        said = [*table_one.notes(self, full=full), *self.statements()]
        if not full:
            said = text.essential(self._in_short(), table_one.WIDTH)
        head = text.with_notes(title.center(table_one.WIDTH).rstrip(), [size], table_one.WIDTH)
        table = text.with_notes(table_one.screen(self, full=full), said, table_one.WIDTH)
        return f"{head}\n{table}"

    def _in_short(self) -> list[str]:
        """Return what a reader needs at once, the most important first."""
        privacy = self.privacy
        return [
            *privacy.alarms(self.n),
            f"Privacy: {privacy.budget}.",
            f"Protects {privacy.unit} ({privacy.neighbours.sentence}).",
            *table_one.notes(self),
            errors_counted(privacy.budget),
            *self.meanings(),
        ]

    def typical(self) -> dict[str, dict[str, Any]]:
        """Return typical values of the columns, for `Schema.guess`.

        Forecasts then rest on released numbers.

        Returns
        -------
        dict
            Mean and standard deviation of a number, shares of levels, of all records, moved inside
            what a schema accepts.  Columns that are derived, not reported, or described by group
            alone are not in it.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> table1 = dp.describe(data.table, data.schema, dp.NoPrivacy(), columns=["physlm"])
        >>> schema = data.schema.guess(table1.typical())  # the noise is off, for examples only
        >>> print(f"{schema.typical['physlm'].mean:.2f}")
        0.12
        """
        told = {
            (one.column, one.level, one.figure): one.estimate
            for one in self.figures
            if one.reported and one.group is None and math.isfinite(one.estimate)
        }
        found = {}
        for column in self.columns:
            if column.name in self.derived:
                continue
            mean = told.get((column.name, None, MEAN))
            sd = told.get((column.name, None, SD))
            if mean is not None and sd is not None:
                entry = spread_within(column, mean, sd)
            else:
                shares = {
                    level: share
                    for (name, level, figure), share in told.items()
                    if name == column.name and figure == SHARE and level is not None
                }
                entry = shares_within(column, shares)
            if entry:
                found[column.name] = entry
        return found

    def to_markdown(self, *, full: bool = False) -> str:
        """Return Table 1 in Markdown, with its notes under it.

        `dp.report.markdown` has all statements, too.

        Parameters
        ----------
        full : bool
            Whether each figure has a row of its own; by default the table is compact.

        Returns
        -------
        str
            The text of the table.
        """
        return markdown_page(table_one.grid(self, full=full), self._under(full=full))

    def to_latex(self, *, full: bool = False) -> str:
        """Return Table 1 as a LaTeX tabular.

        Parameters
        ----------
        full : bool
            Whether each figure has a row of its own; by default the table is compact.

        Returns
        -------
        str
            The tabular, which needs no package; the guarantee and the notes are printed under it.
        """
        return latex_page(
            table_one.grid(self, full=full), self._under(full=full), under=bool(self.by)
        )

    def __repr__(self) -> str:
        return table_one.one_line(self)

    def _repr_html_(self) -> str:
        notes = table_one.notes(self)
        return html_page(table_one.grid(self), table_one.caption(self), notes)

    def _under(self, *, full: bool) -> list[str]:
        """Return the notes under a table outside a screen."""
        return [table_one.caption(self), *table_one.notes(self, full=full)]

    def to_json(self) -> str:
        """Return everything in the description as one JSON object, with a format name and a version.

        Returns
        -------
        str
            The JSON text.  Where there is no number it has null, and the status gives the reason;
            an end that is infinite is "inf" or "-inf".
        """
        return saved.described(self)

    @classmethod
    def from_json(cls, document: str) -> "Description":
        """Read a description from its JSON text, exact to the last bit.

        Parameters
        ----------
        document : str
            The text that `to_json` returned.

        Returns
        -------
        Description
            The description.
        """
        description: Description = saved.read_described(document, cls)
        return description

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the description to a JSON file, which is complete or not there at all.

        Parameters
        ----------
        path : path
            Where the file is written; an existing one is replaced.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        try:
            persistence.write(Path(path), self.to_json().encode())
        except OSError as fault:
            raise InputError(
                f"the description cannot be written to {str(path)!r} ({fault.strerror}): check the "
                "folder and its rights"
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Description":
        """Read a description from a JSON file.

        Parameters
        ----------
        path : path
            The file that `save`, `dp.report.write` or ``dpinfer describe`` wrote.

        Returns
        -------
        Description
            The description.

        Raises
        ------
        InputError
            If the file cannot be read, or holds no description.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> table1 = dp.describe(data.table, data.schema, dp.NoPrivacy(), columns=["health"])
        >>> table1.save("description.json")  # the noise is off, for examples only
        >>> len(dp.Description.load("description.json").figures) == len(table1.figures)
        True
        """
        try:
            document = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the description {str(path)!r} cannot be read ({type(fault).__name__}): give the "
                f"{persistence.DESCRIPTION} of `dpinfer describe`"
            ) from None
        return cls.from_json(document)
