"""Tables of Dask, summed where they are; workers add the sums of partitions too, in groups."""

from collections.abc import Callable, Sequence
from typing import Any

from dpinfer.errors import missing
from dpinfer.maths.sums import Sum
from dpinfer.schema.columns import Wanted
from dpinfer.tables.cells import hashes
from dpinfer.tables.cluster import (
    ClusterTable,
    Fault,
    Partitions,
    Task,
    added,
    answered,
    mute,
    refusal,
)
from dpinfer.tables.memory import InMemory, Reader

try:
    import dask
except ImportError:
    raise missing("a Dask DataFrame", "dask", "dask") from None

_GROUP = 16  # sums that a worker adds
_HASH = "hash of the id, by dpinfer"


class Dask(ClusterTable):
    """A Dask DataFrame."""

    def empty(self, columns: Sequence[Wanted] | None) -> Any:  # noqa: ARG002
        """All columns, as Dask says."""
        return self.native._meta

    def count(self, columns: Sequence[Wanted]) -> int:  # noqa: ARG002
        """The number of rows."""
        return answered(lambda: len(self.native))

    def count_units(self, ids: str) -> int:
        """The number of units: no id is in two partitions once they are sorted."""

        def ask() -> list[int | Fault]:
            tables = _together(self.native[[ids]], ids).to_delayed()
            return list(dask.compute(*(_later(_counted, ids, table) for table in tables)))

        return added(answered(ask), int.__add__, 0)

    def source(self, reader: Reader, n: int) -> "DaskPartitions":
        """The rows, of n records or units."""
        return DaskPartitions(self.native, reader, n)


class DaskPartitions(Partitions):
    """The partitions of a Dask DataFrame."""

    def __init__(self, native: Any, reader: Reader, n: int) -> None:
        super().__init__(reader, n, native._meta)
        ids = reader.encoder.unit.column
        frame = native[reader.names]
        if ids:
            frame = answered(lambda: _together(frame, ids).persist())
        self._tables = answered(frame.to_delayed)

    def sums(self, task: Task) -> list[Sum | Fault]:
        """One, of all partitions."""
        # The task travels once, not with every partition.
        shared = dask.delayed(task, pure=False, traverse=False)
        parts = [_later(_summed, shared, table) for table in self._tables]
        while len(parts) > 1:
            starts = range(0, len(parts), _GROUP)
            parts = [_later(_plus, parts[start : start + _GROUP]) for start in starts]
        return list(dask.compute(*parts))

    def release(self) -> None:
        """Forget the partitions: those that were sorted by their ids leave the memory of the
        workers.
        """
        self._tables = []


def _later(act: Callable[..., Any], *arguments: Any) -> Any:
    return dask.delayed(act, pure=False)(*arguments)


def _summed(task: Task, table: Any) -> Sum | Fault:
    return task([table])


def _counted(ids: str, table: Any) -> int | Fault:
    return mute(lambda: InMemory(table).count_units(ids))


def _plus(parts: list[Sum | Fault]) -> Sum | Fault:
    """Their sum, or the first fault."""
    faults = [part for part in parts if isinstance(part, Fault)]
    if faults:
        return faults[0]
    sums = [part for part in parts if isinstance(part, Sum)]
    return added(sums[1:], Sum.plus, sums[0])


def _together(frame: Any, ids: str) -> Any:
    """All rows with the same id in the same partition, by a hash of our own: that of pandas, which
    Dask uses, is not the same for equal ids of different types.
    """
    frame = frame.assign(**{_HASH: frame[ids].map_partitions(_hashed, meta=(_HASH, "int64"))})
    return frame.shuffle(on=_HASH)


def _hashed(ids: Any) -> Any:
    numbers = mute(lambda: hashes(ids))
    if isinstance(numbers, Fault):
        raise refusal(numbers)
    return type(ids)(numbers, index=ids.index, name=_HASH)
