"""Records of which one pass has kept all that a description asks for: columns are read in lanes, side by side."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.column_digests import Groups, LevelDigest, NumberDigest, Portions, Scratch
from dpinfer.mechanisms.column_sums import (
    POWERS,
    ColumnSums,
    Levels,
    Numbers,
    Statistics,
    Tally,
    places_of,
)
from dpinfer.mechanisms.sums import OfBlock
from dpinfer.numerics.arrays import Array
from dpinfer.rows import workers
from dpinfer.rows.encoded import Encoded

MOST_HISTOGRAMS = 2**8
"""Columns of numbers times groups that are kept at once: half a megabyte each."""

Values = npt.NDArray[Any]
"""Numbers, or places of levels."""
_ALL = 0  # the place in a row of the 1 that stands before the columns: as a level it counts all records


@dataclass(frozen=True, repr=False)
class Columns:
    """Some records of a lane: for each of its columns the numbers, or the places of levels, NaN or
    the number of levels where a record has none; and the place of each record's group, if there are
    groups.
    """

    values: Sequence[Values]
    groups: Values | None
    records: int


@dataclass(frozen=True, repr=False)
class Lane:
    """Some columns of all records, which are read together and in order.

    ``places`` are those of the columns in a row.  ``read`` hands out so many records at a time as it
    is asked for, the last excepted.
    """

    places: Sequence[int]
    read: Callable[[int], Iterator[Columns]]


@dataclass(frozen=True, repr=False)
class InLanes(Encoded):
    """Records of which each is a unit and counts 1, whose columns can be read in lanes, too."""

    lanes: Sequence[Lane] = ()


@dataclass(frozen=True, repr=False)
class Digested:
    """A source whose records were read once; it has the total of sums that describe columns, and of
    no others.
    """

    n: int
    dim: int
    statistics: Statistics

    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over all records, from what was kept of them."""
        if not isinstance(of_block, ColumnSums):
            raise PrivacyError("what was kept of the records does not tell this sum")
        return of_block.of_statistics(self.statistics)


def digested(source: InLanes, numbers: Numbers, levels: Levels, groups: int) -> Digested:
    """Read all records, each of which counts 1, and keep what describes these columns by so many
    groups.

    Guarantee [same_digests]: the same rows in the same order give the same bits, from memory or files
    of any kind, in lanes of any width, on any number of cores.
    """
    if source.encoding.unit.columns:
        raise PrivacyError("what is kept of records counts each of them once")
    columns = source.dim - 1
    together = max((len(lane.places) for lane in source.lanes), default=1)
    portions = Portions.of(columns, together)
    of_levels = Portions.of(columns, together, levels=True)
    kept = _Kept()
    with workers.step("reading"):
        progress = _Progress(source.n * columns)
        reading = _Reading(numbers, levels, groups, portions, of_levels, progress)
        try:
            for of_lane in workers.map_ordered(reading.of_lane, source.lanes, light=False):
                kept.counts.update(of_lane.counts)
                kept.cells.update(of_lane.cells)
                kept.sums.update(of_lane.sums)
        finally:  # after an error or an interruption no lane is read to its end
            reading.stopped.set()
        progress.end()
    return Digested(source.n, source.dim, kept.statistics(numbers, groups))


@dataclass(frozen=True, repr=False)
class _Kept:
    """What was kept of some columns, by their places in a row."""

    counts: dict[int, Tally] = field(default_factory=dict)
    cells: dict[int, Tally] = field(default_factory=dict)
    sums: dict[int, Array] = field(default_factory=dict)

    def statistics(self, numbers: Numbers, groups: int) -> Statistics:
        """Everything, once all lanes were read."""
        places = numbers.places.tolist()
        sums = np.zeros((POWERS, 1 + groups, len(places)))
        for j, place in enumerate(places):
            sums[..., j] = self.sums[place]
        return Statistics([self.cells[place] for place in places], sums, self.counts)


@dataclass(frozen=True, repr=False)
class _Reading:
    """One pass over the lanes of a source: what is asked of its columns, and how far it is."""

    numbers: Numbers
    levels: Levels
    groups: int
    portions: Portions
    of_levels: Portions
    progress: "_Progress"
    workers: threading.local = field(default_factory=threading.local)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def _scratch(self) -> Scratch:
        """That of the worker who asks."""
        scratch = getattr(self.workers, "scratch", None)
        if not isinstance(scratch, Scratch):
            scratch = Scratch(self.portions)
            self.workers.scratch = scratch
        return scratch

    def of_lane(self, lane: Lane) -> _Kept:
        """All records of a lane, which one worker reads."""
        of_levels = self._level_digests(lane)
        of_numbers = self._number_digests(lane)
        portions = self.portions if of_numbers else self.of_levels
        with np.errstate(all="ignore"):  # a warning would tell of a value
            for some in lane.read(portions.at_once):
                groups = self._groups_of(some)
                if _ALL in of_levels:
                    of_levels[_ALL].add(np.zeros(some.records), groups)
                for place, values in zip(lane.places, some.values, strict=True):
                    if place in of_levels:
                        of_levels[place].add(values, groups)
                    if place in of_numbers:
                        of_numbers[place].add(values, groups)
                self.progress.add(some.records * len(lane.places))
                if self.stopped.is_set():
                    break
        return _Kept(
            {place: digest.counts for place, digest in of_levels.items()},
            {place: digest.counts for place, digest in of_numbers.items()},
            {place: digest.sums for place, digest in of_numbers.items()},
        )

    def _level_digests(self, lane: Lane) -> dict[int, LevelDigest]:
        """Those of its columns; the first lane counts all records, where that is asked."""
        mine = {*lane.places, _ALL} if 1 in lane.places else set(lane.places)
        pairs = zip(self.levels.places.tolist(), self.levels.sizes.tolist(), strict=True)
        return {place: LevelDigest(size, self.groups) for place, size in pairs if place in mine}

    def _number_digests(self, lane: Lane) -> dict[int, NumberDigest]:
        places = self.numbers.places.tolist()
        return {
            place: NumberDigest(self.numbers, j, self.groups, self._scratch)
            for j, place in enumerate(places)
            if place in lane.places
        }

    def _groups_of(self, some: Columns) -> Groups | None:
        if not self.groups:
            return None
        assert some.groups is not None
        return places_of(some.groups, self.groups)


class _Progress:
    """How many cells of all lanes were read, told by whichever worker has read them."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._read = 0
        self._told = workers.Progress()
        self._lock = threading.Lock()

    def add(self, cells: int) -> None:
        """So many more."""
        with self._lock:
            self._read += cells
            self._told.update(self._read / max(self._cells, 1))

    def end(self) -> None:
        """All were read, if there were any."""
        self._told.update(1.0)
