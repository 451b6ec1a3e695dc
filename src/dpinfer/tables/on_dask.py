"""Rows of a Dask DataFrame, summed where they are; workers add the sums of partitions too, in
groups.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dpinfer.errors import missing
from dpinfer.maths.sums import Sum
from dpinfer.schema.columns import Wanted
from dpinfer.tables.cells import hashes
from dpinfer.tables.cluster import (
    Fault,
    Partitions,
    Reader,
    Task,
    added,
    answered,
    mute,
    names,
    refusal,
)

try:
    import dask
except ImportError:
    raise missing("a Dask DataFrame", "dask", "dask") from None

_GROUP = 16  # sums that a worker adds
_HASH = "hash of the id, by dpinfer"


def blank(native: Any, columns: Sequence[Wanted] | None) -> Any:  # noqa: ARG001  (as other engines)
    """The table without its rows."""
    return native._meta


def count(native: Any) -> int:
    """The number of rows."""
    return answered(lambda: len(native))


def count_units(native: Any, ids: str, units: Callable[[Any], int]) -> int:
    """The number of units, where ``units`` counts those of a table."""

    def ask() -> list[int | Fault]:
        tables = _together(native[[ids]], ids).to_delayed()
        return list(dask.compute(*(_later(_counted, units, table) for table in tables)))

    return added(answered(ask), int.__add__, 0)


class OnDask(Partitions):
    """The partitions of a Dask DataFrame."""

    def __init__(self, native: Any, reader: Reader, n: int) -> None:
        super().__init__(reader, n, native._meta)
        ids, frame = reader.encoding.unit.column, native[names(reader)]
        frame = answered(lambda: _together(frame, ids).persist()) if ids else frame
        self._tables = answered(frame.to_delayed)

    def sums(self, task: Task) -> list[Sum | Fault]:
        """One, of all partitions."""
        shared = dask.delayed(
            task, pure=False, traverse=False
        )  # it travels once, not with every partition
        found = [_later(_summed, shared, table) for table in self._tables]
        while len(found) > 1:
            found = [
                _later(_plus, found[first : first + _GROUP])
                for first in range(0, len(found), _GROUP)
            ]
        return list(dask.compute(*found))

    def release(self) -> None:
        """Forget the partitions: those that were sorted by their ids leave the memory of the
        workers.
        """
        self._tables = []


source = OnDask


def _later(act: Callable[..., Any], *arguments: Any) -> Any:
    return dask.delayed(act, pure=False)(*arguments)


def _summed(task: Task, table: Any) -> Sum | Fault:
    return task([table])


def _counted(units: Callable[[Any], int], table: Any) -> int | Fault:
    return mute(lambda: units(table))


def _plus(parts: list[Sum | Fault]) -> Sum | Fault:
    """Their sum, or the first fault."""
    sums = [part for part in parts if isinstance(part, Sum)]
    faults = [part for part in parts if isinstance(part, Fault)]
    return faults[0] if faults else added(sums[1:], Sum.plus, sums[0])


def _together(frame: Any, ids: str) -> Any:
    """All rows with the same id in the same partition, by a hash of our own: that of pandas tells
    -0 from 0.
    """
    frame = frame.assign(**{_HASH: frame[ids].map_partitions(_hashed, meta=(_HASH, "int64"))})
    return frame.shuffle(on=_HASH)


def _hashed(ids: Any) -> Any:
    found = mute(lambda: hashes(ids))
    if isinstance(found, Fault):
        raise refusal(found)
    return type(ids)(found, index=ids.index, name=_HASH)
