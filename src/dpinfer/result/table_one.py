"""Table 1: the figures of a description in lines, one cell per group, as text, Markdown, LaTeX and HTML.

The compact table has one row per level, with the number and the percentage in one cell, and one row
for a column of yes and no.  The full table has one row per figure.  Groups have columns, and so
have differences between them in the compact table.

A cell has an estimate and its interval, with the digits that the interval supports.  A count or a
share whose interval includes 0 is printed as its upper end alone, so that nobody reads that there is
somebody; so is a mean that noise took to a declared bound.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from dpinfer.schema.columns import Column, Level, Number, Outcome, heading, levels_of, spelling_key
from dpinfer.schema.unit import Unit

WIDTH = 80
"""Letters of a line of a screen."""
AT_MOST = "at most"
AT_LEAST = "at least"
NONE_DETECTED = "none detected"
"""Printed for records without a value where an interval includes 0."""
CHARACTERISTIC = "Characteristic"
"""The heading of the labels of rows."""
ALL = "all"
"""The heading of the cells of all records, beside those of groups."""

_ORDER = (RECORDS, MISSING, MEAN, SHARE, COUNT, DIFFERENCE, SD, Q25, MEDIAN, Q75)
_WORDS = {Q25: "lower quartile", Q75: "upper quartile"}
_NUMBERS = (RECORDS, MISSING, COUNT)  # of records: printed as whole numbers
_MAY_BE_NOTHING = (MISSING, COUNT, SHARE, SD)  # an estimate near 0 would say that there is none
_DAYS = (MEAN, Q25, MEDIAN, Q75)  # of a date, as dates; what else is measured in days
_ERRORS = 4.0  # standard errors in a 95% interval, about: for the digits
_MAX_DECIMALS = 8
_NAMED = 4  # figures that are not reported, at most, which a note names
_LAYOUT = TextLayout(
    width=WIDTH,
    gap=2,
    min_column=0,
    min_names=0,
    wrapped=True,
    brackets=True,
    split=True,
)
_NAME_LENGTHS = (32, 26, 20)  # letters of a line of the label of a row
Kind = tuple[Level | None, str]
"""A level, or None for a column, and the name of a figure."""


@dataclass(frozen=True)
class TableRow:
    """A row of Table 1: its label, a cell per column of the table, and what a page draws in it.

    ``drawn`` are the shares or medians of the groups; it is empty where nothing is drawn.  A row
    that is not ``indented`` begins a column of the data.
    """

    label: str
    cells: tuple[GridCell, ...] = ()
    drawn: tuple[Figure | None, ...] = ()
    indented: bool = True


@dataclass(frozen=True)
class ColumnBlock:
    """The figures of one column, by level, kind and group, with what is public about it."""

    column: Column
    described: Figures
    figures: Mapping[Kind, Mapping[Level | None, Figure]]

    @property
    def levels(self) -> list[Level]:
        """The levels that have figures."""
        return list(dict.fromkeys(level for level, _ in self.figures if level is not None))

    def rows(self, *, full: bool) -> list[TableRow]:
        """Return the rows of the column in the full or in the compact table."""
        return self.full_rows() if full else self.compact_rows()

    def full_rows(self) -> list[TableRow]:
        """Return one row per figure, under the name of the column."""
        levels = [None, *self.levels]
        kinds = sorted(
            self.figures, key=lambda kind: (levels.index(kind[0]), _ORDER.index(kind[1]))
        )
        rows = [TableRow(heading(self.column), indented=False)]
        for kind in kinds:
            of_groups = self.of_groups(kind)
            label = _label(*kind, self.described)
            rows.append(TableRow(label, self._cells(of_groups), self._drawn(kind[1], of_groups)))
        return rows

    def compact_rows(self) -> list[TableRow]:
        """Return one row per level, and four for a number; missing values if any were detected."""
        yes = yes_level(self.column)
        if yes in self.levels:
            rows = [
                self._of_level(yes, f"{heading(self.column)} = {level_name(yes)}", indented=False)
            ]
        else:
            usable = tuple(map(_size, self.of_groups((None, RECORDS))))
            rows = [TableRow(heading(self.column), self._beside(usable), indented=False)]
            rows += [self._of_level(level, level_name(level)) for level in self.levels]
        for figure in (MEAN, SD, MEDIAN):
            of_groups = self.of_groups((None, figure))
            if any(of_groups):
                difference = DIFFERENCE if figure == MEAN else ""
                cells = self._beside(self._cells(of_groups), (None, difference))
                rows.append(TableRow(figure, cells, self._drawn(figure, of_groups)))
        if (None, Q25) in self.figures:
            pairs = zip(self.of_groups((None, Q25)), self.of_groups((None, Q75)), strict=True)
            cells = tuple(_quartiles(pair, self.column) for pair in pairs)
            rows.append(TableRow("quartiles", self._beside(cells)))
        if self.has_missing:
            cells = self._cells(self.of_groups((None, MISSING)))
            rows.append(TableRow(MISSING, self._beside(cells)))
        return rows

    @property
    def has_missing(self) -> bool:
        """Whether missing values were detected in some group, or their number is not reported."""
        shown = [one for one in self.of_groups((None, MISSING)) if one is not None]
        return not all(map(may_be_nothing, shown))

    def of_groups(self, kind: Kind) -> tuple[Figure | None, ...]:
        """Return a figure of every group that is shown."""
        found = self.figures.get(kind, {})
        return tuple(found.get(group) for group in self.described.shown_groups)

    def _cells(self, figures: Sequence[Figure | None]) -> tuple[GridCell, ...]:
        return tuple(cell(one, self.column) for one in figures)

    def _drawn(self, figure: str, figures: tuple[Figure | None, ...]) -> tuple[Figure | None, ...]:
        return figures if figure in (SHARE, MEDIAN) else ()

    def _of_level(self, level: Level, label: str, *, indented: bool = True) -> TableRow:
        """Return the row of a level: number and percentage in each cell, and the differences."""
        counts = self.of_groups((level, COUNT))
        shares = self.of_groups((level, SHARE))
        cells = tuple(_number_and_share(*pair) for pair in zip(counts, shares, strict=True))
        beside = self._beside(cells, (level, DIFFERENCE))
        return TableRow(label, beside, self._drawn(SHARE, shares), indented)

    def _beside(
        self, cells: tuple[GridCell, ...], differences: Kind = (None, "")
    ) -> tuple[GridCell, ...]:
        """Return the cells of groups with those of the differences between groups behind them."""
        found = self.figures.get(differences, {})
        return (
            *cells,
            *(cell(found.get(group), self.column) for group in compared(self.described)),
        )


def blocks(described: Figures) -> list[ColumnBlock]:
    """Return the figures by columns, in the order of the description."""
    figures: dict[str, dict[Kind, dict[Level | None, Figure]]] = {}
    for one in described.figures:
        of_column = figures.setdefault(one.column, {})
        of_column.setdefault((one.level, one.figure), {})[one.group] = one
    return [
        ColumnBlock(column, described, figures.get(column.name, {})) for column in described.columns
    ]


def compared(described: Figures) -> list[Level]:
    """Return the groups that are compared with the first one."""
    with_difference = {one.group for one in described.figures if one.figure == DIFFERENCE}
    return [group for group in described.groups if group in with_difference]


def yes_level(column: Column) -> Level | None:
    """Return the level that means yes, where the levels of a column are yes and no; else None."""
    levels = levels_of(column)
    if len(levels) != 2:
        return None
    if all(isinstance(level, bool) for level in levels):
        return True
    by_word = {spelling_key(str(level)): level for level in levels}
    return by_word["yes"] if set(by_word) == {"no", "yes"} else None


def _label(level: Level | None, figure: str, described: Figures) -> str:
    words = _WORDS.get(figure, figure)
    if figure == RECORDS:
        words = counted(described.unit)
    if figure == DIFFERENCE:
        words = f"difference from {level_name(described.groups[0])}"
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


def group_title(described: Figures, group: Level | None) -> str:
    """Return the heading of the cells of a group, such as "smoker = yes"."""
    if group is None:
        return ALL
    return f"{described.by_label or described.by} = {level_name(group)}"


def max_decimals(column: Column) -> int:
    """Return the decimals that show a thousandth of the declared range of a number; more are of no
    use.
    """
    if not isinstance(column, Number | Outcome) or column.low is None or column.high is None:
        return _MAX_DECIMALS
    return max(0, 3 - math.floor(math.log10(column.high - column.low)))


def cell(one: Figure | None, column: Column) -> GridCell:
    """Write a figure with the decimals that its column supports, or as a date; a figure that is not
    reported has its status.
    """
    if one is None:
        return GridCell("")
    if one.figure in _NUMBERS or one.level is not None or not _has_numbers(one):
        return _of_level(one)
    if isinstance(column, Number) and _is_date(one, column):
        return _date(one, column)
    measure = _measure(one, column)
    if isinstance(column, Number) and column.origin:
        return replace(measure, estimate=f"{measure.estimate} days")
    return measure


def _is_date(one: Figure, column: Column) -> bool:
    return isinstance(column, Number) and bool(column.origin) and one.figure in _DAYS


def _has_numbers(one: Figure) -> bool:
    return one.reported and all(map(math.isfinite, (one.estimate, one.low, one.high)))


def _of_level(one: Figure) -> GridCell:
    """Write a number of records, or a share of them."""
    if not _has_numbers(one):
        return GridCell(NOT_REPORTED, spans=True)
    return _count(one) if one.figure in _NUMBERS else _share(one)


def _date(one: Figure, column: Number) -> GridCell:
    """Write days as dates, the interval rounded outward."""
    first = dates.day_of_text(column.origin)
    low = dates.text_of(first + math.floor(one.low))
    high = dates.text_of(first + math.ceil(one.high))
    side = cut_off(one, column)
    if side:
        return _one_sided(side, low, high)
    return GridCell(dates.text_of(first + round(one.estimate)), f"{low} to {high}")


def cut_off(one: Figure, column: Column) -> str:
    """Return which end of its interval is known of a mean or a standard deviation that noise took to
    the end of its range, as `AT_MOST` or `AT_LEAST`; empty where it is inside the range.
    """
    if one.figure not in (MEAN, SD) or not one.reported or not one.low < one.high:
        return ""
    if not isinstance(column, Number | Outcome) or column.low is None or column.high is None:
        return ""
    low, high = column.low, column.high
    if one.figure == SD:
        low, high = 0.0, (column.high - column.low) / 2
    if one.estimate <= low:
        return AT_MOST
    return AT_LEAST if one.estimate >= high else ""


def _one_sided(side: str, low: str, high: str) -> GridCell:
    return GridCell(f"{side} {high if side == AT_MOST else low}")


def _decimals(one: Figure, column: Column) -> int:
    """Return the decimals of a figure that its interval supports and its column needs."""
    numbers = (one.estimate, one.low, one.high)
    if all(float(value).is_integer() for value in numbers):
        return 0
    return min(text.decimals_for((one.high - one.low) / _ERRORS), max_decimals(column))


def _measure(one: Figure, column: Column) -> GridCell:
    """Write a mean, a standard deviation, a quartile, or a difference of means."""
    decimals = _decimals(one, column)
    error = (one.high - one.low) / _ERRORS
    side = AT_MOST if may_be_nothing(one) else cut_off(one, column)
    if side:
        return _one_sided(side, *_rounded_outward(one, decimals))
    if text.decimals_for(error) > decimals:
        return _outward(one, decimals)
    return GridCell(text.number(one.estimate, decimals), text.interval(one.low, one.high, error))


def _share(one: Figure) -> GridCell:
    """Write a share in percent, or a difference of shares in percentage points."""
    low = 100 * one.low
    high = 100 * one.high
    if may_be_nothing(one):
        return GridCell(f"{AT_MOST} {text.number(high, text.decimals_for(high))}%")
    error = (high - low) / _ERRORS
    if may_be_all(one):
        unit = 10.0 ** text.decimals_for(error)
        least = math.floor(low * unit) / unit
        return GridCell(f"{AT_LEAST} {text.number(least, text.decimals_for(error))}%")
    shown = text.interval(low, high, error)
    sign = " pp" if one.figure == DIFFERENCE else "%"
    return GridCell(f"{text.number(100 * one.estimate, text.decimals_for(error))}{sign}", shown)


def _number_and_share(count: Figure | None, share: Figure | None) -> GridCell:
    """Write a number and, behind it, the percentage with its interval."""
    if count is None or share is None:
        one = count or share
        return GridCell("") if one is None else _of_level(one)
    number = _of_level(count)
    percentage = _of_level(share)
    if number.spans:
        return percentage
    if percentage.spans:
        return GridCell(f"{number.estimate}; % {NOT_REPORTED}", spans=True)
    shown = percentage.estimate
    if number.estimate.startswith(AT_MOST):
        shown = shown.removeprefix(AT_MOST).strip()
    return GridCell(f"{number.estimate}; {shown}", percentage.interval)


def _quartiles(pair: tuple[Figure | None, Figure | None], column: Column) -> GridCell:
    """Write both quartiles without their intervals, which the full table has."""
    quartiles = [one for one in pair if one is not None]
    reported = [one for one in quartiles if _has_numbers(one)]
    if not reported:
        return GridCell(NOT_REPORTED if quartiles else "", spans=bool(quartiles))
    inexact = [_decimals(one, column) for one in reported if one.low < one.high]
    written = []
    for one in quartiles:
        shown = cell(one, column).estimate
        if one not in reported:
            shown = text.NO_NUMBER
        elif one.low < one.high and not _is_date(one, column):
            shown = text.number(one.estimate, min(inexact))
        written.append(shown)
    return GridCell(" and ".join(written))


def _size(one: Figure | None) -> GridCell:
    """Write the number of usable records of a group."""
    if one is None:
        return GridCell("")
    if not _has_numbers(one):
        return GridCell(f"n {NOT_REPORTED}", spans=True)
    if one.low < 1:
        return GridCell(f"n {AT_MOST} {text.number(math.ceil(one.high), 0)}")
    return GridCell(f"n = {text.number(one.estimate, 0)}")


def _outward(one: Figure, decimals: int) -> GridCell:
    """Round to fewer decimals than the interval supports; rounding never shortens it."""
    low, high = _rounded_outward(one, decimals)
    return GridCell(text.number(one.estimate, decimals), f"{low} to {high}")


def _rounded_outward(one: Figure, decimals: int) -> tuple[str, str]:
    unit = 10.0**decimals
    low = text.number(math.floor(one.low * unit) / unit, decimals)
    return low, text.number(math.ceil(one.high * unit) / unit, decimals)


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


def may_be_all(one: Figure) -> bool:
    """Return whether a figure is the share of a level that all usable records may have."""
    return one.figure == SHARE and one.reported and one.high >= 1 > one.low


def _count(one: Figure) -> GridCell:
    if may_be_nothing(one):
        most = f"{AT_MOST} {text.number(math.ceil(one.high), 0)}"
        # a number alone would read as if some were missing
        return GridCell(NONE_DETECTED, most) if one.figure == MISSING else GridCell(most)
    return _outward(one, 0)


def screen(described: Figures, *, full: bool = False) -> str:
    """Return the table as text of at most `WIDTH` letters.

    Groups are printed side by side, with their intervals beside the estimates, or under them where
    that alone makes room; where nothing does, groups are printed below each other.
    """
    shown = grid(described, full=full)
    titles = ("", *shown.titles[1:]) if described.by else ()
    shown = replace(shown, titles=titles)
    layouts = [
        replace(_LAYOUT, under=under, max_name=longest)
        for under in (False, True)
        for longest in _NAME_LENGTHS
    ]
    fitting = (layout for layout in layouts if shown.fits(layout))
    return text.escape_controls(shown.text(next(fitting, layouts[-1])), keep="\n")


def heads(described: Figures, *, full: bool = False) -> list[str]:
    """Return the titles of the columns of a table: of its rows, of each group, and of differences."""
    if not described.by:
        return [CHARACTERISTIC, f"Estimate ({interval_name(described)})"]
    titles = [CHARACTERISTIC, *(group_title(described, group) for group in described.shown_groups)]
    if full:
        return titles
    first = level_name(described.groups[0])
    return [*titles, *(f"{level_name(group)} less {first}" for group in compared(described))]


def interval_name(described: Figures) -> str:
    """Name the level of the intervals."""
    return f"{100 * described.confidence:.4g}% interval"


def notes(described: Figures, *, full: bool = False) -> list[str]:
    """Return the notes under a table: why figures are not reported, and what its words mean."""
    signs = [] if full else _signs_of_compact(described)
    if any(one.figure == DIFFERENCE and one.level is not None for one in described.figures):
        signs.append("pp: percentage points.")
    said = [" ".join(signs)] if signs else []
    if not full:
        said += _without_missing(described)
    said += [f"{_named(figures, described)}: {reason}." for reason, figures in _reasons(described)]
    if any(one.figure != MISSING and may_be_nothing(one) for one in described.figures):
        said.append(
            f'"{AT_MOST.capitalize()}": the interval includes 0, so there may be nobody (sd: no spread).'
        )
    if any(map(may_be_all, described.figures)):
        said.append(f'"{AT_LEAST.capitalize()}": the interval includes 100%.')
    columns = {column.name: column for column in described.columns}
    if any(
        one.column in columns and cut_off(one, columns[one.column]) for one in described.figures
    ):
        said.append(
            f'A mean is "{AT_MOST}" or "{AT_LEAST}" a number where noise took it to its bound.'
        )
    return said


def _signs_of_compact(described: Figures) -> list[str]:
    kinds = {one.figure for one in described.figures}
    signs = [f"n: {counted(described.unit)}."] if RECORDS in kinds else []
    return [*signs, "Levels: number; % (its interval)."] if COUNT in kinds else signs


def _without_missing(described: Figures) -> list[str]:
    """Return what is known of the columns that have no row for missing values."""
    complete = [
        one
        for block in blocks(described)
        if not block.has_missing
        for one in block.of_groups((None, MISSING))
        if one is not None
    ]
    if not complete:
        return []
    most = text.number(max(math.ceil(one.high) for one in complete), 0)
    everywhere = len({one.column for one in complete}) == len(described.columns)
    where = "Missing values" if everywhere else "Missing values elsewhere"
    each = "column and group" if described.by else "column"
    return [f"{where}: {NONE_DETECTED}, {AT_MOST} {most} per {each}."]


def _reasons(described: Figures) -> list[tuple[str, list[Figure]]]:
    """Return each reason why figures have no interval, with the figures it holds for."""
    reasons: dict[str, list[Figure]] = {}
    for one in described.figures:
        if not one.reported:
            reasons.setdefault(one.status, []).append(one)
    return list(reasons.items())


def _named(figures: Sequence[Figure], described: Figures) -> str:
    """Name figures, or their columns by groups where there are more than a few."""
    by_group: dict[Level | None, list[str]] = {}
    for one in figures:
        name = f"{one.column}, {_label(one.level, one.figure, described)}"
        if len(figures) > _NAMED:  # the cells say which figures of the column these are
            name = one.column
        by_group.setdefault(one.group, []).append(name)
    separator = ", " if len(figures) > _NAMED else "; "
    named = []
    for group, names in by_group.items():
        of_group = "" if group is None else f" ({level_name(group)})"
        named.append(separator.join(dict.fromkeys(names)) + of_group)
    return "; ".join(named)


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


def grid(described: Figures, *, full: bool = False) -> Grid:
    """Return the table: a column of the data has a row, and its figures are indented under it."""
    rows = [
        GridRow(row.label, row.cells, row.indented)
        for block in blocks(described)
        for row in block.rows(full=full)
    ]
    return Grid(tuple(heads(described, full=full)), tuple(rows))
