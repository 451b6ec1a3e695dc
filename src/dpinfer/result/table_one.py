"""Table 1: the figures of a description in lines, one cell per group, as text, Markdown, LaTeX and HTML.

A cell has an estimate and its interval, with the digits that the interval supports.  A count or a
share whose interval includes 0 has an upper end alone: nobody may read that there is somebody.
"""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dpinfer.result import text
from dpinfer.result.column_figures import (
    COUNT,
    DIFFERENCE,
    MEAN,
    MEDIAN,
    MISSING,
    Q25,
    Q75,
    RECORDS,
    SD,
    SHARE,
    Figure,
    Figures,
)
from dpinfer.result.grid import Grid, GridCell, GridRow, TextLayout
from dpinfer.result.statements import NOT_REPORTED
from dpinfer.schema import dates
from dpinfer.schema.columns import Column, Level, Number, Outcome
from dpinfer.schema.unit import Unit

WIDTH = 80
"""Letters of a line of a screen."""
AT_MOST = "≤"
AT_LEAST = "≥"
ALL = "all"
"""The heading of the cells of all records, beside those of groups."""

_ORDER = (RECORDS, MISSING, MEAN, SHARE, COUNT, DIFFERENCE, SD, Q25, MEDIAN, Q75)
_WORDS = {Q25: "lower quartile", Q75: "upper quartile"}
_NUMBERS = (RECORDS, MISSING, COUNT)  # of records: printed as whole numbers
_MAY_BE_NOTHING = (MISSING, COUNT, SHARE, SD)  # an estimate near 0 would say that there is none
_DAYS = (MEAN, Q25, MEDIAN, Q75)  # of a date, as dates; what else is measured in days
_ERRORS = 4.0  # standard errors in a 95% interval, about: for the digits
_MAX_DECIMALS = 8
_LAYOUT = TextLayout(
    width=WIDTH,
    gap=2,
    min_column=0,
    min_names=0,
    max_name=20,
    wrapped=True,
    brackets=True,
    split=True,
)


@dataclass(frozen=True)
class FigureRow:
    """One kind of figure of a column or of one of its levels, for every group that is shown."""

    label: str
    figures: tuple[Figure | None, ...]
    decimals: int
    origin: str = ""  # of a date: the day that is 0

    @cached_property
    def cells(self) -> tuple[GridCell, ...]:
        """One per group."""
        return tuple(cell(one, self.decimals, self.origin) for one in self.figures)


@dataclass(frozen=True)
class ColumnBlock:
    """The figures of one column, with what is public about it."""

    column: Column
    rows: tuple[FigureRow, ...]

    @property
    def title(self) -> str:
        """Its name and unit of measurement."""
        unit = "" if not isinstance(self.column, Number | Outcome) else self.column.unit
        return f"{self.column.name}, {unit}" if unit else self.column.name


def blocks(described: Figures) -> list[ColumnBlock]:
    """Return all figures by columns: those of a column itself first, then level by level."""
    groups = described.shown_groups
    figures: dict[str, dict[tuple[Level | None, str], dict[Level | None, Figure]]] = {}
    for one in described.figures:
        of_column = figures.setdefault(one.column, {})
        of_column.setdefault((one.level, one.figure), {})[one.group] = one
    made = []
    for column in described.columns:
        rows = figures.get(column.name, {})
        levels = list(dict.fromkeys(level for level, _ in rows))
        keys = sorted(rows, key=lambda key: (levels.index(key[0]), _ORDER.index(key[1])))
        shown = [
            FigureRow(
                _label(*key, described),
                tuple(rows[key].get(group) for group in groups),
                max_decimals(column),
                column.origin if isinstance(column, Number) else "",
            )
            for key in keys
        ]
        made.append(ColumnBlock(column, tuple(shown)))
    return made


def _label(level: Level | None, figure: str, described: Figures) -> str:
    words = _WORDS.get(figure, figure)
    if figure == RECORDS:
        words = counted(described.unit)
    if figure == DIFFERENCE:
        words = f"difference from {group_name(described.groups[0])}"
    if level is None:
        return words
    name = level_name(level)
    return name if figure == SHARE else f"{name}, {words}"


def counted(unit: Unit) -> str:
    """Return what the number of usable records counts: weights, units or rows."""
    if unit.weights:
        return "usable weight"
    if not unit.equal_weights:
        return "usable rows"
    return f"usable {unit.word}"


def level_name(level: Level) -> str:
    """Return the label of a level: yes and no for true and false."""
    if isinstance(level, bool):
        return "yes" if level else "no"
    return str(level)


def group_name(group: Level | None) -> str:
    """Return a group as a heading."""
    return ALL if group is None else level_name(group)


def max_decimals(column: Column) -> int:
    """Return the decimals that show a thousandth of the declared range of a number; more are of no
    use.
    """
    if not isinstance(column, Number | Outcome) or column.low is None or column.high is None:
        return _MAX_DECIMALS
    return max(0, 3 - math.floor(math.log10(column.high - column.low)))


def cell(one: Figure | None, decimals: int = _MAX_DECIMALS, origin: str = "") -> GridCell:
    """Write a figure with at most so many decimals, or as a date; a figure that is not reported has
    its status.
    """
    if one is None:
        return GridCell("")
    numbers = (one.estimate, one.low, one.high)
    if not one.reported or not all(map(math.isfinite, numbers)):
        return GridCell(NOT_REPORTED, spans=True)
    if one.figure in _NUMBERS:
        return _count(one)
    if one.level is not None:
        return _share(one)
    if origin and one.figure in _DAYS:
        return _date(one, dates.day_of_text(origin))
    return _measure(one, decimals)


def _date(one: Figure, first: float) -> GridCell:
    """Write days as dates, the interval rounded outward."""
    low = dates.text_of(first + math.floor(one.low))
    high = dates.text_of(first + math.ceil(one.high))
    return GridCell(dates.text_of(first + round(one.estimate)), f"{low} to {high}")


def _measure(one: Figure, decimals: int) -> GridCell:
    """Write a mean, a standard deviation, a quartile, or a difference of means."""
    if all(float(value).is_integer() for value in (one.estimate, one.low, one.high)):
        decimals = 0
    error = (one.high - one.low) / _ERRORS
    if may_be_nothing(one):
        unit = 10.0 ** min(text.decimals_for(error), decimals)
        most = math.ceil(one.high * unit) / unit
        return GridCell(f"{AT_MOST} {text.number(most, min(text.decimals_for(error), decimals))}")
    if text.decimals_for(error) > decimals:
        return _outward(one, decimals)
    shown = text.interval(one.low, one.high, error)
    return GridCell(text.number(one.estimate, text.decimals_for(error)), shown)


def _share(one: Figure) -> GridCell:
    """Write a share in percent, or a difference of shares in percentage points."""
    low = 100 * one.low
    high = 100 * one.high
    if may_be_nothing(one):
        return GridCell(f"{AT_MOST} {text.number(high, text.decimals_for(high))}%")
    error = (high - low) / _ERRORS
    if one.figure == SHARE and one.high >= 1 > one.low:
        unit = 10.0 ** text.decimals_for(error)
        least = math.floor(low * unit) / unit
        return GridCell(f"{AT_LEAST} {text.number(least, text.decimals_for(error))}%")
    shown = text.interval(low, high, error)
    sign = " pp" if one.figure == DIFFERENCE else "%"
    return GridCell(f"{text.number(100 * one.estimate, text.decimals_for(error))}{sign}", shown)


def _outward(one: Figure, decimals: int) -> GridCell:
    """Round to fewer decimals than the interval supports; rounding never shortens it."""
    unit = 10.0**decimals
    low = text.number(math.floor(one.low * unit) / unit, decimals)
    high = text.number(math.ceil(one.high * unit) / unit, decimals)
    return GridCell(text.number(one.estimate, decimals), f"{low} to {high}")


def may_be_nothing(one: Figure) -> bool:
    """Return whether a figure may be 0: nobody is counted, or all values are equal. A lower end
    that would be printed as 0 is none.
    """
    if not one.reported or one.figure not in _MAY_BE_NOTHING or not one.high > 0:
        return False
    if one.low <= 0:
        return True
    if one.figure in _NUMBERS:
        return one.low < 1
    factor = 100.0 if one.figure == SHARE else 1.0
    digits = text.decimals_for(factor * (one.high - one.low) / _ERRORS)
    return factor * one.low * 10.0**digits < 1


def _count(one: Figure) -> GridCell:
    if may_be_nothing(one):
        return GridCell(f"{AT_MOST} {text.number(math.ceil(one.high), 0)}")
    return _outward(one, 0)


def screen(described: Figures) -> str:
    """Return the table as text of at most `WIDTH` letters.

    Groups are printed side by side, with their intervals beside the estimates, or under them where
    that alone makes room; where nothing does, groups are printed below each other.
    """
    shown = grid(described)
    if not described.by:
        shown = replace(shown, titles=())
    layouts = [replace(_LAYOUT, under=under) for under in (False, True)]
    fitting = (layout for layout in layouts if shown.fits(layout))
    return text.escape_controls(shown.text(next(fitting, layouts[0])), keep="\n")


def heads(described: Figures) -> list[str]:
    """Return the titles of the columns of a table outside a screen: of its rows, and of each group."""
    if described.by:
        return [described.by, *map(group_name, described.shown_groups)]
    return ["Figure", f"Estimate ({interval_name(described)})"]


def interval_name(described: Figures) -> str:
    """Name the level of the intervals."""
    return f"{100 * described.confidence:.4g}% interval"


def notes(described: Figures) -> list[str]:
    """Return the notes under every table: why figures are not reported, and what its signs mean."""
    said = []
    for status, names in _reasons(described).items():
        said.append(f"{'; '.join(names)}: {status}.")
    if any(map(may_be_nothing, described.figures)):
        said.append(
            f"{AT_MOST} stands where an interval includes 0: at this budget it is not known whether "
            "there is anybody or, of a standard deviation, whether values differ. A share that may be "
            f"all of them is written with {AT_LEAST}."
        )
    if any(one.figure == DIFFERENCE and one.level is not None for one in described.figures):
        said.append("pp: percentage points.")
    return said


def _reasons(described: Figures) -> Mapping[str, list[str]]:
    """Return each reason why figures have no interval, with the rows it holds for."""
    reasons: dict[str, list[str]] = {}
    for block in blocks(described):
        for line in block.rows:
            for one in line.figures:
                if one is not None and not one.reported:
                    of_group = "" if one.group is None else f" ({group_name(one.group)})"
                    name = f"{block.column.name}, {line.label}{of_group}"
                    reasons.setdefault(one.status, []).append(name)
    return reasons


def caption(described: Figures) -> str:
    """Return the caption of every table: of whom, how many, how private."""
    privacy = "NOT PRIVATE"
    if described.privacy.private:
        privacy = f"{described.privacy.budget}, protects {described.privacy.unit}"
    groups = f" By {described.by}." if described.by else ""
    return (
        f"Description of {described.unit.size(described.n)}.{groups} Estimates with "
        f"{interval_name(described)}s. Privacy: {privacy}."
    )


def one_line(described: Figures) -> str:
    """Describe the description in one line."""
    names = ", ".join(column.name for column in described.columns)
    shown = textwrap.shorten(names, 60, placeholder=" …")
    by = f" by {described.by}" if described.by else ""
    privacy = "NOT PRIVATE"
    if described.privacy.private:
        privacy = str(described.privacy.budget).rpartition(" with ")[2]
    size = described.unit.size(described.n)
    return text.escape_controls(f"<Description of {shown}{by}: {size}, {privacy}>")


def grid(described: Figures) -> Grid:
    """Return the table: the name of a column is a heading, and its figures are indented under it."""
    rows: list[GridRow] = []
    for block in blocks(described):
        rows.append(GridRow(block.title))
        rows += [GridRow(one.label, one.cells, indented=True) for one in block.rows]
    return Grid(tuple(heads(described)), tuple(rows))
