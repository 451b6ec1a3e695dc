"""Table 1: the figures of a description in lines, one cell per group, as text, Markdown, LaTeX and HTML.

A cell has an estimate and its interval, with the digits that the interval supports.  A count or a
share whose interval includes 0 has an upper end alone: nobody may read that there is somebody.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dpinfer.result import rendering, text
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
_MOST_DECIMALS = 8
_LABEL = 20  # letters of the column of labels, at most
_NAME = 20  # letters of the name of a group, at most
_GAP = 2  # spaces between two columns


@dataclass(frozen=True)
class Cell:
    """A figure for people: its estimate and its interval, either may be empty."""

    estimate: str
    interval: str

    @property
    def words(self) -> str:
        """Both in a row."""
        return f"{self.estimate} {self.interval}".strip()


@dataclass(frozen=True)
class Line:
    """One kind of figure of a column or of one of its levels, for every group that is shown."""

    label: str
    figures: tuple[Figure | None, ...]
    decimals: int
    origin: str = ""  # of a date: the day that is 0

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """One per group."""
        return tuple(cell(one, self.decimals, self.origin) for one in self.figures)


@dataclass(frozen=True)
class Block:
    """The lines of one column under its name, with what is public about it."""

    column: Column
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """Its name and unit of measurement."""
        unit = "" if not isinstance(self.column, Number | Outcome) else self.column.unit
        return f"{self.column.name}, {unit}" if unit else self.column.name


def blocks(described: Figures) -> list[Block]:
    """All lines, column by column: those of the whole column first, then level by level."""
    groups = described.shown_groups
    found: dict[str, dict[tuple[Level | None, str], dict[Level | None, Figure]]] = {}
    for one in described.figures:
        lines = found.setdefault(one.column, {})
        lines.setdefault((one.level, one.figure), {})[one.group] = one
    made = []
    for column in described.columns:
        lines = found.get(column.name, {})
        levels = list(dict.fromkeys(level for level, _ in lines))
        keys = sorted(lines, key=lambda key: (levels.index(key[0]), _ORDER.index(key[1])))
        shown = [
            Line(
                _label(*key, described),
                tuple(lines[key].get(group) for group in groups),
                most_decimals(column),
                column.origin if isinstance(column, Number) else "",
            )
            for key in keys
        ]
        made.append(Block(column, tuple(shown)))
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
    """What the number of usable records is a number of: weights add up, as do rows of a unit."""
    if unit.weights:
        return "usable weight"
    if not unit.equal_weights:
        return "usable rows"
    return f"usable {unit.word}"


def level_name(level: Level) -> str:
    """A level for people: yes and no for true and false."""
    if isinstance(level, bool):
        return "yes" if level else "no"
    return str(level)


def group_name(group: Level | None) -> str:
    """A group as a heading."""
    return ALL if group is None else level_name(group)


def most_decimals(column: Column) -> int:
    """Decimals of a number that tell a thousandth of its declared range; nobody asks for more."""
    if not isinstance(column, Number | Outcome) or column.low is None or column.high is None:
        return _MOST_DECIMALS
    return max(0, 3 - math.floor(math.log10(column.high - column.low)))


def cell(one: Figure | None, decimals: int = _MOST_DECIMALS, origin: str = "") -> Cell:
    """A figure in words, with at most so many decimals, or as a date where it is one; what has no
    interval is open, and has no number.
    """
    if one is None:
        return Cell("", "")
    numbers = (one.estimate, one.low, one.high)
    if not one.reported or not all(map(math.isfinite, numbers)):
        return Cell(text.OPEN, "")
    if one.figure in _NUMBERS:
        return _count(one)
    if one.level is not None:
        return _share(one)
    if origin and one.figure in _DAYS:
        return _date(one, dates.day_of_text(origin))
    return _measure(one, decimals)


def _date(one: Figure, first: float) -> Cell:
    """Days since the first as dates, the interval rounded outward."""
    low = dates.text_of(first + math.floor(one.low))
    high = dates.text_of(first + math.ceil(one.high))
    return Cell(dates.text_of(first + round(one.estimate)), f"({low} to {high})")


def _measure(one: Figure, decimals: int) -> Cell:
    """A mean, a deviation, a quartile, or a difference of means."""
    if all(float(value).is_integer() for value in (one.estimate, one.low, one.high)):
        decimals = 0
    error = (one.high - one.low) / _ERRORS
    if may_be_nothing(one):
        unit = 10.0 ** min(text.places(error), decimals)
        most = math.ceil(one.high * unit) / unit
        return Cell(f"{AT_MOST} {text.number(most, min(text.places(error), decimals))}", "")
    if text.places(error) > decimals:
        return _outward(one, decimals)
    shown = text.interval({"std_error": error, "status": one.status, **_ends(one)})
    return Cell(text.number(one.estimate, text.places(error)), f"({shown})")


def _ends(one: Figure, factor: float = 1.0) -> dict[str, float]:
    return {"low": factor * one.low, "high": factor * one.high}


def _share(one: Figure) -> Cell:
    """A share in percent, or a difference of shares in percentage points."""
    ends = _ends(one, 100.0)
    if may_be_nothing(one):
        highest = ends["high"]
        return Cell(f"{AT_MOST} {text.number(highest, text.places(highest))}%", "")
    error = (ends["high"] - ends["low"]) / _ERRORS
    if one.figure == SHARE and one.high >= 1 > one.low:
        unit = 10.0 ** text.places(error)
        least = math.floor(ends["low"] * unit) / unit
        return Cell(f"{AT_LEAST} {text.number(least, text.places(error))}%", "")
    shown = text.interval({"std_error": error, "status": one.status, **ends})
    sign = " pp" if one.figure == DIFFERENCE else "%"
    return Cell(f"{text.number(100 * one.estimate, text.places(error))}{sign}", f"({shown})")


def _outward(one: Figure, decimals: int) -> Cell:
    """Decimals that are fewer than the interval supports; rounding never shortens it."""
    unit = 10.0**decimals
    low = text.number(math.floor(one.low * unit) / unit, decimals)
    high = text.number(math.ceil(one.high * unit) / unit, decimals)
    return Cell(text.number(one.estimate, decimals), f"({low} to {high})")


def may_be_nothing(one: Figure) -> bool:
    """Whether it is not told from 0: that nobody is counted, or that all are alike.  A lower end that
    would be printed as 0 is none.
    """
    if not one.reported or one.figure not in _MAY_BE_NOTHING or not one.high > 0:
        return False
    if one.low <= 0:
        return True
    if one.figure in _NUMBERS:
        return one.low < 1
    factor = 100.0 if one.figure == SHARE else 1.0
    digits = text.places(factor * (one.high - one.low) / _ERRORS)
    return factor * one.low * 10.0**digits < 1


def _count(one: Figure) -> Cell:
    if may_be_nothing(one):
        return Cell(f"{AT_MOST} {text.number(math.ceil(one.high), 0)}", "")
    return _outward(one, 0)


def screen(described: Figures) -> str:
    """The table in letters, at most `WIDTH` wide.

    Groups stand side by side, with their intervals beside the estimates, or under them where that
    alone makes room; where nothing does, groups stand below each other.
    """
    made = blocks(described)
    names = [group_name(group) for group in described.shown_groups]
    if not described.by:
        names = [""] * len(names)
    labels = [text.INDENT + line.label for block in made for line in block.lines]
    first = min(_LABEL, max(map(len, labels), default=0))
    sheets = [_Sheet.of(made, names, first, under=under) for under in (False, True)]
    sheet = next((one for one in sheets if len(one.parts) == 1), sheets[0])
    parts = []
    for places in sheet.parts:
        lines = [line for block in made for line in sheet.lines(block, places)]
        if described.by:
            titles = [sheet.aligned(k, names[k][:_NAME]) for k in places]
            head = described.by[:first].ljust(first) + "".join(titles)
            lines = [head.rstrip(), "-" * WIDTH, *lines]
        parts.append("\n".join(["=" * WIDTH, *lines]))
    return text.harmless("\n".join([*parts, "=" * WIDTH]), keep="\n")


@dataclass(frozen=True)
class _Sheet:
    """Letters of the labels, and of the estimates and intervals of each group; intervals stand
    beside or ``under`` the estimates.
    """

    first: int
    estimates: tuple[int, ...]
    intervals: tuple[int, ...]
    under: bool

    @classmethod
    def of(
        cls, made: Sequence[Block], names: Sequence[str], first: int, *, under: bool
    ) -> "_Sheet":
        estimates = []
        intervals = []
        for place, name in enumerate(names):
            cells = [line.cells[place] for block in made for line in block.lines]
            interval = max((len(one.interval) for one in cells), default=0)
            longest = [len(one.estimate) for one in cells]
            if under:
                longest.append(interval)
            estimates.append(max([min(len(name), _NAME), *longest]))
            intervals.append(interval)
        return cls(first, tuple(estimates), tuple(intervals), under)

    def width(self, place: int) -> int:
        """Letters of the column of a group, with the space before it."""
        if self.under:
            return _GAP + self.estimates[place]
        return _GAP + self.estimates[place] + 1 + self.intervals[place]

    @property
    def parts(self) -> list[list[int]]:
        """Places of the groups that stand side by side; one group has a part in any case."""
        parts: list[list[int]] = []
        room = 0
        for place in range(len(self.estimates)):
            if not parts or self.width(place) > room:
                parts.append([])
                room = WIDTH - self.first
            parts[-1].append(place)
            room -= self.width(place)
        return parts

    def aligned(self, place: int, estimate: str, interval: str = "") -> str:
        """An estimate at the right of its column, with its interval behind."""
        shown = " " * _GAP + estimate.rjust(self.estimates[place])
        if self.under:
            return shown
        return f"{shown} {interval.ljust(self.intervals[place])}"

    def lines(self, block: Block, places: Sequence[int]) -> list[str]:
        """A column's name and its figures; what has no figure in these groups is left out."""
        written: list[str] = []
        for line in block.lines:
            cells = [(k, line.cells[k]) for k in places]
            if not any(one.words for _, one in cells):
                continue
            names = _label_lines(line.label, self.first)
            numbers = "".join(self.aligned(k, one.estimate, one.interval) for k, one in cells)
            written += [*names[:-1], (names[-1].ljust(self.first) + numbers).rstrip()]
            if self.under and any(one.interval for _, one in cells):
                under = "".join(self.aligned(k, one.interval) for k, one in cells)
                written.append((" " * self.first + under).rstrip())
        if not written:
            return []
        return [textwrap.shorten(text.harmless(block.title), WIDTH, placeholder=" …"), *written]


def _label_lines(label: str, width: int) -> list[str]:
    return textwrap.wrap(
        text.harmless(label), width, initial_indent=text.INDENT, subsequent_indent=2 * text.INDENT
    ) or [""]


def heads(described: Figures) -> list[str]:
    """Titles of the columns of a table elsewhere: of the lines, and of each group."""
    if described.by:
        return [described.by, *map(group_name, described.shown_groups)]
    return ["Figure", f"Estimate ({interval_name(described)})"]


def interval_name(described: Figures) -> str:
    """Of which level the intervals are."""
    return f"{100 * described.confidence:.4g}% interval"


def notes(described: Figures) -> list[str]:
    """What stands under a table wherever it goes: why figures are open, and what its signs mean."""
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
    """Each reason why figures have no interval, with the lines it holds for."""
    found: dict[str, list[str]] = {}
    for block in blocks(described):
        for line in block.lines:
            for one in line.figures:
                if one is not None and not one.reported:
                    of_group = "" if one.group is None else f" ({group_name(one.group)})"
                    name = f"{block.column.name}, {line.label}{of_group}"
                    found.setdefault(one.status, []).append(name)
    return found


def caption(described: Figures) -> str:
    """What stands with a table wherever it goes: of whom, how many, how private."""
    privacy = "NOT PRIVATE"
    if described.privacy.private:
        privacy = f"{described.privacy.budget}, protects {described.privacy.unit}"
    groups = f" By {described.by}." if described.by else ""
    return (
        f"Description of {described.unit.size(described.n)}.{groups} Estimates with "
        f"{interval_name(described)}s. Privacy: {privacy}."
    )


def line(described: Figures) -> str:
    """The description in a line."""
    names = ", ".join(column.name for column in described.columns)
    shown = textwrap.shorten(names, 60, placeholder=" …")
    by = f" by {described.by}" if described.by else ""
    privacy = "NOT PRIVATE"
    if described.privacy.private:
        privacy = str(described.privacy.budget).rpartition(" with ")[2]
    size = described.unit.size(described.n)
    return text.harmless(f"<Description of {shown}{by}: {size}, {privacy}>")


def grid(described: Figures) -> rendering.Grid:
    """The table for every format: the name of a column is a row of its own, its lines are indented
    under it.
    """
    titles = heads(described)
    rows: list[tuple[str, bool, tuple[str, ...]]] = []
    for block in blocks(described):
        rows.append((block.title, False, ("",) * (len(titles) - 1)))
        for one in block.lines:
            rows.append((one.label, True, tuple(each.words for each in one.cells)))
    return rendering.Grid(tuple(titles), tuple(rows))
