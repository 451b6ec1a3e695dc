"""Counts of exits and entries over time, released so that their running sums have little noise, with their sensitivity.

A row is 1, the time of exit, the code of the event and, where entry may be late, the time of entry; the label
is the code of the group.  NaN marks what is missing.  A person is in one cell of exits: group, cause or
censoring, and interval of time; and in one cell of entries.

| symbol | meaning                                                                   | name in code |
| ------ | ------------------------------------------------------------------------- | ------------ |
| K      | number of intervals; a last position is for those observed to the end      | `intervals`  |
| B      | lower-triangular Toeplitz root of the matrix of running sums, B B = L       | `running_root` |
| c      | counts of one group and one cause over time                                 |              |

The numbers that estimates are made of are running sums L c: events up to a time, and persons at risk.  What is
released is B c with independent noise, so that L c = B (B c) has noise B N(0, s²I), whose variance grows with
the logarithm of K.  Noise in c itself would add up to a variance that grows with K.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.histograms import counts_of
from dpinfer.mechanisms.sums import Block, BoundedSum
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.reasons import Numerical

# The norm of a column of B is a rounded root of rounded squares: a few units in the last place, far below this.
_ROUNDED: Numerical[float] = 1 + 2.0**-40
# Entries of B are multiples of 2⁻²⁰: then sums of up to 2³² persons are exact in floats, in any order.
_GRID: Numerical[float] = 2.0**20
_NOT_AT_RISK: Numerical[int] = -1
_NOT_USABLE: Numerical[int] = -2


@lru_cache(maxsize=32)
def running_root(size: int) -> Array:
    """Return B, lower triangular with B B the matrix of running sums; its entries are not negative.

    Its first column has the coefficients of (1 - x)^(-1/2), as the running sums are those of 1/(1 - x)
    (Fichtenberger, Henzinger and Upadhyay, 2023), each rounded to a multiple of 2⁻²⁰.
    """
    steps = np.arange(1.0, size)
    first = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    first = np.rint(first * _GRID) / _GRID
    lag = np.subtract.outer(np.arange(size), np.arange(size))
    root = np.where(lag >= 0, first[np.maximum(lag, 0)], 0.0)
    root.setflags(write=False)
    return root


def root_norm(size: int) -> float:
    """Return the largest norm of a column of the root, that of the first, rounded up."""
    return float(np.linalg.norm(running_root(size)[:, 0])) * _ROUNDED


def unusable_weight(size: int) -> float:
    """Return the weight of a person without a usable record: ‖B‖, rounded down."""
    return float(np.floor(root_norm(size) / _ROUNDED**2 * _GRID)) / _GRID


@dataclass(frozen=True)
class TimeIntervals:
    """Follow-up in intervals of time: what is counted of each person; public.

    ``edges`` are the ends of intervals, of which the first begins at ``start`` and each contains its right
    end.  ``processes`` has the process of each code of the event: the causes from 0 on, and last
    censoring.  ``integer_times`` says that times are whole numbers, ``late`` that there
    is a time of entry.
    """

    start: float
    edges: tuple[float, ...]
    processes: tuple[int, ...]
    groups: int = 1
    grouped: bool = False
    late: bool = False
    integer_times: bool = False

    @property
    def intervals(self) -> int:
        """Return the number of intervals."""
        return len(self.edges)

    @property
    def positions(self) -> int:
        """Return the number of positions in time: the intervals, and one for who is observed to the end."""
        return self.intervals + 1

    @property
    def causes(self) -> int:
        """Return the number of causes of an event."""
        return max(self.processes)

    @property
    def counted(self) -> int:
        """Return the number of counted processes: the causes, censoring and, where it may be late, entry."""
        return self.causes + 1 + self.late

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the number of groups, of counted processes and of positions."""
        return self.groups, self.counted, self.positions

    @property
    def length(self) -> int:
        """Return the number of values that are released."""
        return math.prod(self.shape) + 1

    @cached_property
    def away(self) -> Array:
        """Return the part of each interval that one who is censored in it, or enters in it, is not at risk.

        That is a half where times are any numbers.  Of w whole times he is at risk at 1 to w of them, in
        the mean at (w + 1)/2, so that the part is (w - 1)/(2w): none where an interval has one time.
        """
        if not self.integer_times:
            return np.full(self.intervals, 0.5)
        times = np.maximum(np.diff(np.floor([self.start, *self.edges])), 1.0)
        return np.asarray((times - 1) / (2 * times))


@dataclass(frozen=True, eq=False)
class _Persons:
    """The times, codes and groups of persons; NaN and codes beyond the last one are not usable."""

    exits: Array
    kinds: Indices
    entries: Array
    groups: Indices
    usable: npt.NDArray[np.bool_]
    there: npt.NDArray[np.bool_]


def running_counts(follow_up: TimeIntervals, neighbours: Adjacency) -> BoundedSum:
    """B c for each group and process, and the number of persons without a usable record, times ‖B‖.

    A record is usable if it has a time of exit that is not before the origin, a known event, a known
    group and, where there are late entries, a time of entry before the exit.  With ids a person's usable
    rows are one record: the earliest entry, the latest exit with its event, and the group of the
    earliest row.  Time under observation that is not between the first and the last edge is not counted.

    Guarantee [running_counts_sensitivity]: a person adds a column of B, whose norm is at most that of the
    first, ‖B‖, and with late entries another one in other entries of the vector; so it moves by at most
    ‖B‖ (add-remove) or, as all entries are at least 0 and inner products are, too, √2‖B‖ (replace), and
    √2 times that with late entries.  However many rows a person has, it is one record.

    Input
    -----
    times of exit, events, groups and, where they may be late, times of entry; with ids all rows of a unit together;
    public edges of K intervals; B of K + 1 positions, lower triangular, all entries at least 0, b = ‖first column‖

    Output
    ------
    B c for each group and process (causes, censoring, entry), c the counts over positions; and b times the number of
    persons without a usable record

    Sensitivity
    -----------
    replace, replace-unit : 2*b if late else sqrt(2)*b
    add-remove, add-remove-unit : sqrt(2)*b if late else b

    Pseudo-code
    -----------
    for each person (with ids: the usable rows of a unit as one record, whatever their number and order):
        if not usable: u += b
        else if at risk between the first and the last edge:
            c[group, cause or censoring, position of exit] += 1
            if entries are counted: c[group, entry, position of entry] += 1
    return B c for each group and process, u

    Proof
    -----
    docs/method.md, 12; tests/audit/test_running_counts.py
    """
    root = running_root(follow_up.positions)
    weight = unusable_weight(follow_up.positions)
    cells = math.prod(follow_up.shape)

    def of_block(block: Block) -> Array:
        persons = _persons(block, follow_up)
        found = counts_of(_exit_cells(persons, follow_up), cells + 2)
        counts = found[..., :cells]
        if follow_up.late:
            counts += counts_of(_entry_cells(persons, follow_up), cells + 2)[..., :cells]
        by_process = counts.reshape(*block.stack, *follow_up.shape)
        running = (by_process @ root.T).reshape(*block.stack, cells)
        return np.concatenate([running, weight * found[..., _NOT_USABLE:_NOT_AT_RISK]], axis=-1)

    return BoundedSum(of_block, running_counts_bound(follow_up, neighbours))


def running_counts_bound(follow_up: TimeIntervals, neighbours: Adjacency) -> float:
    """Return the sensitivity of `running_counts`."""
    squares = neighbours.pick(2.0, 1.0) * (2.0 if follow_up.late else 1.0)
    return math.sqrt(squares) * root_norm(follow_up.positions)


def _persons(block: Block, follow_up: TimeIntervals) -> _Persons:
    """Return the persons of a block: its rows or, with ids, one record for the rows of each."""
    rows = block.rows
    exits = rows[..., 1]
    kinds = _codes(rows[..., 2], len(follow_up.processes))
    if follow_up.late:
        entries = rows[..., 3]
    else:
        entries = np.full(exits.shape, follow_up.start)
    groups = np.zeros(exits.shape, dtype=np.intp)
    if follow_up.grouped:
        groups = _codes(block.labels, follow_up.groups)
    usable = np.isfinite(exits) & np.isfinite(entries) & (exits >= min(0.0, follow_up.start))
    usable &= (kinds < len(follow_up.processes)) & (groups < follow_up.groups)
    if follow_up.late:
        usable &= entries < exits
    process = np.array([*follow_up.processes, follow_up.causes])[kinds]
    persons = _Persons(exits, process, entries, groups, usable, rows[..., 0] != 0)
    return persons if block.starts is None else _by_unit(persons, block.starts, follow_up.causes)


def _codes(codes: Array, last: int) -> Indices:
    """Return codes from 0 to ``last``, which is that of what has none, whatever the input holds."""
    found = np.fmin(np.clip(codes, 0, last), last)
    return np.asarray(found, dtype=np.intp)


def _by_unit(rows: _Persons, starts: Indices, censored: int) -> _Persons:
    """Return one record for each unit, a function of its usable rows in any order.

    Of two rows with the latest exit one with an event counts, the one with the last cause.
    """
    sizes = np.diff(np.append(starts, len(rows.exits)))
    unit = np.repeat(np.arange(len(starts)), sizes)
    usable = rows.usable & rows.there
    exits = np.where(usable, rows.exits, -np.inf)
    # of rows that end together an event is later than censoring, and the last cause than others
    rank = np.where(rows.kinds == censored, -1, rows.kinds)
    by_exit = np.lexsort((rank, exits, unit))
    last = by_exit[np.append(starts[1:], len(unit)) - 1] if len(starts) else by_exit
    began = np.where(usable, rows.entries, np.inf)
    by_start = np.lexsort((rows.groups, np.where(usable, rows.exits, np.inf), began, unit))
    first = by_start[starts]
    return _Persons(
        rows.exits[last],
        rows.kinds[last],
        rows.entries[first],
        rows.groups[first],
        np.asarray(usable[last]),
        np.logical_or.reduceat(rows.there, starts) if len(starts) else rows.there[:0],
    )


def _exit_cells(persons: _Persons, follow_up: TimeIntervals) -> Indices:
    """Return the cell of each person's exit, or the cell before the last where the record is not usable,
    the last where it is not at risk in any interval.

    Comparisons alone decide it, so that a person's cell depends on the person alone.
    """
    edges = np.array(follow_up.edges)
    end = edges[-1]
    position = np.searchsorted(edges, persons.exits, side="left")
    kinds = persons.kinds
    # who is censored at the end has been at risk in all of the last interval, and an event after it
    # was not seen within follow-up
    beyond = (persons.exits > end) | ((kinds == follow_up.causes) & (persons.exits == end))
    position = np.where(beyond, follow_up.intervals, position)
    kinds = np.where(beyond, follow_up.causes, kinds)
    return _cells(persons, follow_up, kinds, position)


def _entry_cells(persons: _Persons, follow_up: TimeIntervals) -> Indices:
    """Return the cell of each person's entry: position 0 for those at risk from the start."""
    edges = np.array([follow_up.start, *follow_up.edges])
    position = np.searchsorted(edges, persons.entries, side="right")
    position = np.where(persons.entries <= follow_up.start, 0, position)
    process = np.full(position.shape, follow_up.counted - 1)
    return _cells(persons, follow_up, process, np.minimum(position, follow_up.intervals))


def _cells(
    persons: _Persons, follow_up: TimeIntervals, processes: Indices, positions: npt.NDArray[np.intp]
) -> Indices:
    _, counted, length = follow_up.shape
    last = math.prod(follow_up.shape)
    groups = np.minimum(persons.groups, follow_up.groups - 1)
    cell = (groups * counted + processes) * length + positions
    at_risk = (persons.entries < follow_up.edges[-1]) & _within(persons.exits, follow_up)
    cell = np.where(at_risk, cell, last + 2 + _NOT_AT_RISK)
    cell = np.where(persons.usable, cell, last + 2 + _NOT_USABLE)
    return np.asarray(np.where(persons.there, cell, last + 2 + _NOT_AT_RISK), dtype=np.intp)


def _within(exits: Array, follow_up: TimeIntervals) -> npt.NDArray[np.bool_]:
    """Whether an exit is after the start; time 0, where observation begins for all, is in the first interval."""
    if follow_up.start == 0:
        return np.asarray(exits >= 0)
    return np.asarray(exits > follow_up.start)
