"""Spells of persons split into intervals of time, and sums of scores whose weights are predictable.

A spell (entry, exit] is split at public cuts; each part is a row with the logarithm of its length as an
offset, and the event, if there was one, in the last part.  One person is one record, whose sums are bounded as
a whole (`dpinfer.mechanisms.unit_sums`).

| symbol | meaning                                                                | name in code           |
| ------ | ---------------------------------------------------------------------- | ---------------------- |
| u, μ   | a row in released coordinates, and its expected number of events       |                        |
| c      | largest influence ‖u‖ of an event on the score                         | `Linearization.max_influence` |
| v      | weight of a row, min(1, c/‖u‖): by its own columns                     | `share`                |
| f      | the part of the time of a row that counts                              | `part`                 |

**Weights are predictable.**  Cumulated hazard grows with the time survived, so that a weight by the Hessian
of all of a person's time would let long survivors count less: it looks at the outcome, and coefficients are
biased at every budget.  Instead a person leaves the risk set as soon as Σ v μ‖u‖² reaches 1 or
Σ v μ‖u‖ reaches c.  Both sums are continuous and known just before each moment, so that this is a stopping
time like independent censoring: where the model is right, the stopped score is an integral of a predictable
process against a martingale, and its mean is 0 (Andersen and Gill, 1982).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.step_sums import Linearization
from dpinfer.mechanisms.sums import BLOCK, LARGEST, Block, BoundedSum, squared_norms
from dpinfer.mechanisms.unit_sums import Linked, UnitRows, starts_of
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.links import FARTHEST, FARTHEST_OFFSET
from dpinfer.numerics.reasons import Numerical

# of the horizon: what is shorter is the rounding of a time at a cut
_INSTANT: Numerical[float] = 1e-9
# a limit of running sums: their rounding errors, over up to 2³¹ rows of a person, are within what is missing to 1
_FULL: Numerical[float] = 1 - 2.0**-20
_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Intervals:
    """Intervals of time by their ``edges``, from 0 to 1, in units of the horizon."""

    edges: tuple[float, ...]

    @property
    def number(self) -> int:
        """Return the number of intervals."""
        return len(self.edges) - 1

    @property
    def widths(self) -> Array:
        """Return the lengths of the intervals."""
        return np.diff(self.edges)

    def codes(self, times: Array) -> Indices:
        """Return the interval of each time; one at an edge is in the interval that ends there."""
        inner = np.array(self.edges[1:-1]) + _INSTANT
        return np.asarray(np.searchsorted(inner, times, side="left"), dtype=np.intp)


def by_rank(starts: Indices, rows: int) -> Iterator[Indices]:
    """Yield the places of the first rows of all persons, then of the second rows, and so on."""
    lengths = np.diff(np.append(starts, rows))
    for rank in range(int(lengths.max(initial=0))):
        yield starts[lengths > rank] + rank


def sum_before(values: Array, starts: Indices) -> Array:
    """Return for each row the sum over the rows of its person before it, which no other person's rows change."""
    found = np.zeros(len(values))
    for rank, places in enumerate(by_rank(starts, len(values))):
        if rank:
            found[places] = found[places - 1] + values[places - 1]
    return found


@dataclass(frozen=True, repr=False)
class Spells:
    """The spells of a block in the order of time, persons one after the other, with entry and exit over the horizon."""

    block: Block
    entry: Array
    exit: Array

    @classmethod
    def of(cls, block: Block) -> "Spells":
        """Read the spells of rows (1, x~, entry, exit)/R.

        A spell counts from the end of the spells before it, so that time is never counted twice.  Of spells that end
        together one has the time, and the event if any of them has it.  A zero row, which could not be encoded, has
        no time.
        """
        first = block.rows[:, 0]
        present = first != 0
        scale = np.where(present, first, 1.0)
        entry = np.where(present, block.rows[:, -2] / scale, 0.0)
        end = np.where(present, block.rows[:, -1] / scale, 0.0)
        if block.starts is not None and len(block.starts) < len(block):
            starts = block.starts
            person = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(block))))
            # by time, and then by all that a row holds: their order is that of these rows alone
            order = np.lexsort((block.labels, *block.rows.T, end, entry, person))
            entry = entry[order]
            end = end[order]
            block = replace(
                block,
                rows=block.rows[order],
                labels=_joined_events((block.labels * present)[order], end, person),
                shares=_taken(block.shares, order),
                weights=_taken(block.weights, order),
            )
            last = np.zeros(len(block))  # of the spells before each
            for rank, places in enumerate(by_rank(starts, len(block))):
                if rank:
                    last[places] = np.maximum(last[places - 1], end[places - 1])
            entry = np.maximum(entry, last)
        return cls(block, entry, end)

    @property
    def starts(self) -> Indices:
        """Return where the spells of each person begin; without ids each row is one person."""
        return np.arange(len(self.block)) if self.block.starts is None else self.block.starts

    def split(self, intervals: Intervals) -> Block:
        """Return rows (1, x~, interval, log of time)/R, one per spell and interval, with the rows of a person together.

        A spell without time is a zero row, so that every person keeps one.
        """
        block = self.block
        low = np.maximum(self.entry[:, None], intervals.edges[:-1])
        high = np.minimum(self.exit[:, None], intervals.edges[1:])
        time = high - low
        kept = np.asarray(time > _INSTANT)
        empty: npt.NDArray[np.bool_] = np.asarray(~kept.any(axis=1))
        kept[empty, 0] = True
        spell, interval = np.nonzero(kept)
        present = ~empty[spell]
        first = np.where(present, block.rows[spell, 0], 0.0)
        longest = float(intervals.widths.max())
        offset = np.log(np.where(present, time[spell, interval] / longest, 1.0)) / FARTHEST_OFFSET
        rows = np.column_stack(
            [
                block.rows[spell, :-2] * present[:, None],
                first[:, None] * (interval[:, None] == np.arange(1, intervals.number)),
                first * np.clip(offset, -1.0, 0.0),
            ]
        )
        ends = interval == intervals.codes(self.exit)[spell]
        before = np.append(0, np.cumsum(kept.sum(axis=1)))
        return Block(
            rows,
            np.where(ends & present, block.labels[spell], 0.0),
            starts=before[self.starts],
            fixed=False,
            among=block.among * intervals.number,
        )


def _joined_events(events: Array, end: Array, person: Indices) -> Array:
    """Return for each spell the largest event of the spells of its person that end with it."""
    order = np.lexsort((end, person))
    other = (np.diff(end[order]) != 0) | (np.diff(person[order]) != 0)
    first = np.flatnonzero(np.append(True, other))
    joined = np.empty_like(events)
    joined[order] = np.repeat(
        np.maximum.reduceat(events[order], first), np.diff(np.append(first, len(order)))
    )
    return joined


def _taken(values: Array | float, order: Indices) -> Array | float:
    return values if isinstance(values, float) else values[order]


def split_parts(block: Block, intervals: Intervals) -> Iterator[Block]:
    """Yield the rows of the persons of a block, split into intervals, in parts that are no longer than a block is.

    Only where one person has more rows than that is a part longer.
    """
    spells = Spells.of(block)
    starts = spells.starts
    most = max(BLOCK // intervals.number, 1)
    ends = np.append(starts[1:], len(block))
    first = 0
    while True:
        last = max(
            int(np.searchsorted(ends, (starts[first] if len(starts) else 0) + most, "right")),
            first + 1,
        )
        some = slice(starts[first], ends[last - 1]) if len(starts) else slice(0, 0)
        part = Spells(spells.block[some], spells.entry[some], spells.exit[some])
        yield part.split(intervals)
        first = last
        if first >= len(starts):
            return


def life_table(intervals: Intervals, neighbours: Adjacency, *, delayed: bool) -> BoundedSum:
    """Return the query of the numbers of persons who leave by interval, with an event and without one.

    With ``delayed`` entry the numbers who enter by interval are counted, too.

    Guarantee [life_table_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1 (add-remove), and
    with delayed entry by 2 or sqrt 2: a person is in one bin of exits, and in one of entries.

    Input
    -----
    spells (entry, exit] of persons over the horizon, zero rows, events y; public ``intervals``, ``delayed``

    Output
    ------
    K counts of exits with an event, K of others, and where ``delayed`` K of entries, K = intervals.number

    Sensitivity
    -----------
    replace, replace-unit : 2 if delayed else sqrt(2)
    add-remove, add-remove-unit : sqrt(2) if delayed else 1

    Pseudo-code
    -----------
    c = 0 for each kind (event, other, entry) and interval
    for each person with a row that is not the zero row:
        e = largest exit of the person, s = smallest entry
        kind = event if any y of the person is above 0, else other
        c[kind, interval of e] += 1
        c[entry, interval of s] += 1
    return c[event], c[other] and, where delayed, c[entry]

    Proof
    -----
    docs/method.md, 8.6; tests/audit/test_spells.py
    """
    number = intervals.number

    def of_block(block: Block) -> Array:
        counts = np.zeros((3, number))
        spells = Spells.of(block)
        starts = spells.starts
        if not len(starts):
            return counts[: 3 if delayed else 2].ravel()
        present = spells.block.rows[:, 0] != 0
        known = np.logical_or.reduceat(present, starts)
        entry = np.minimum.reduceat(np.where(present, spells.entry, 1.0), starts)
        end = np.maximum.reduceat(np.where(present, spells.exit, 0.0), starts)
        event = np.logical_or.reduceat(present & (spells.block.labels > 0), starts)
        np.add.at(counts, (np.where(event, 0, 1)[known], intervals.codes(end)[known]), 1.0)
        entered = np.searchsorted(intervals.edges[1:-1], entry, side="right")
        np.add.at(counts[2], entered[known], 1.0)
        return counts[: 3 if delayed else 2].ravel()

    return BoundedSum(_of_each(of_block), life_table_bound(neighbours, delayed=delayed))


def _of_each(of_block: Callable[[Block], Array]) -> Callable[[Block], Array]:
    """Return a function of stacks of blocks, one part for each block."""

    def of_stack(block: Block) -> Array:
        if block.stack:
            return np.stack([of_block(one) for one in block.apart()])
        return of_block(block)

    return of_stack


def life_table_bound(neighbours: Adjacency, *, delayed: bool) -> float:
    """Return the sensitivity of `life_table`."""
    if delayed:
        return neighbours.pick(2.0, math.sqrt(2))
    return neighbours.pick(math.sqrt(2), 1.0)


def followed(linearization: Linearization, norm2: float) -> Linked:
    """Return the function that evaluates rows of persons, split by `Spells.split`, at released coefficients.

    A row counts v; of its time the part f counts, as an offset log f, and its event where all of the time does.

    Guarantee [predictable_weights]: what a row counts depends on its own columns, and on those of the rows of the
    same person before it, never on what happens later; and Σ v f μ‖u‖² over the rows of a person is at most 1, so
    that its weight as a unit is 1 and no other weight is needed.
    """
    row_map = linearization.row_map(norm2)
    most = linearization.max_influence
    if not (np.abs(row_map).max(initial=0.0) < LARGEST and 1 / LARGEST < most < LARGEST):
        raise PrivacyError(
            "released coefficients are too large for floats: nothing can be released around them"
        )
    family = linearization.family

    def of_block(block: Block) -> UnitRows:
        starts = starts_of(block)
        # row by row: a product of matrices would round a row by its position
        mapped = np.einsum("ij,kj->ik", linearization.inside(block.rows), row_map)
        u = mapped[:, :-1]
        predictor = np.clip(mapped[:, -1], -FARTHEST, FARTHEST)
        mean = family.mean(predictor)
        length = np.sqrt(squared_norms(u))
        share = most / np.maximum(length, most)
        part = np.ones(len(u))
        for added in (share * mean * length**2, share * mean * length / most):
            # what a row has beyond the limit is not needed: sums stay small, and so do their errors
            before = sum_before(np.minimum(added, 1.0), starts)
            room = np.maximum(_FULL - before, 0.0)
            part = np.minimum(part, room / np.maximum(np.maximum(added, room), _TINY))
        predictor = np.clip(predictor + np.log(np.maximum(part, _TINY)), -FARTHEST, FARTHEST)
        left = family.mean(predictor)
        events = np.where(part >= 1.0, block.labels, 0.0)
        return UnitRows(
            u,
            predictor,
            events - left,
            family.slope(left),
            np.where(part > 0.0, share, 0.0),
            starts,
        )

    return of_block
