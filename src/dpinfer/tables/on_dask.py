"""Tables of Dask: workers encode partitions, keep them, and add up their sums too, in groups."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpinfer.errors import missing
from dpinfer.mechanisms.sums import Sum
from dpinfer.rows import workers
from dpinfer.schema.columns import Wanted
from dpinfer.tables.cluster import (
    ClusterTable,
    Encode,
    Fault,
    Kept,
    Partitions,
    Task,
    added,
    answered,
    mute,
    refusal,
)
from dpinfer.tables.ids import hashes
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
        """Return an empty table of all columns, as Dask says."""
        return self.native._meta

    def count(self, columns: Sequence[Wanted]) -> int:  # noqa: ARG002
        """Return the number of rows."""
        return answered(lambda: len(self.native))

    def count_units(self, ids: str) -> int:
        """Return the number of units: no id is in two partitions once they are sorted."""

        def ask() -> list[int | Fault]:
            tables = _together(self.native[[ids]], ids).to_delayed()
            return list(dask.compute(*(_later(_counted, ids, table) for table in tables)))

        return added(answered(ask), int.__add__, 0)

    def source(self, reader: Reader, n: int) -> "DaskPartitions":
        """Return the rows, of n records or units."""
        return DaskPartitions(self.native, reader, n)


class DaskPartitions(Partitions):
    """The partitions of a Dask DataFrame.

    What is kept are the results of persisted tasks: Dask holds them in memory and on its disks as
    it is configured, makes those of a worker that dies again, and drops them with the last
    reference to them.
    """

    def __init__(self, native: Any, reader: Reader, n: int) -> None:
        super().__init__(reader, n, native._meta)
        self._frame = native[reader.names]
        self._parts: list[Any] | None = None
        self._kept = False

    def sums(self, task: Task) -> list[Sum | Fault]:
        """Return one sum, of all partitions."""
        if self._parts is None:
            self._parts = self._opened()
        # The task travels once, not with every partition.
        shared = _shared(task)
        if self._kept:
            sums = [_later(_summed, shared, part) for part in self._parts]
        else:
            encode = _shared(self.encode)
            sums = [_later(_summed_anew, shared, encode, part) for part in self._parts]
        while len(sums) > 1:
            starts = range(0, len(sums), _GROUP)
            sums = [_later(_plus, sums[start : start + _GROUP]) for start in starts]
        return list(dask.compute(*sums))

    def release(self) -> None:
        """Forget the partitions: they leave the memory of the workers."""
        self._parts = []

    def _opened(self) -> list[Any]:
        """Return the partitions, encoded and kept or, if there are too many rows for that, as
        tables that are read anew in every pass.
        """
        frame = self._frame
        ids = self.encode.reader.encoder.unit.column
        if ids:
            frame = _together(frame, ids)
        self._kept = self.fits(self._size, _workers, _limit())
        if self._kept:
            encode = _shared(self.encode)
            return list(dask.persist(*(_later(_encoded, encode, t) for t in frame.to_delayed())))
        if ids:
            frame = frame.persist()
        return list(frame.to_delayed())

    def _size(self) -> int:
        """Return the number of rows, which is private where units have many: for the use of memory
        only.
        """
        return len(self._frame) if self.encode.reader.encoder.unit.many else self.n


def _limit() -> float:
    """Return the bytes that a worker may keep; if that is this process, what it may keep of files."""
    asked = workers.kept()
    return workers.memory() if asked == np.inf and _client() is None else asked


def _workers() -> int:
    """Return the number of worker processes, or 1 where tasks run in this one."""
    client = _client()
    return 1 if client is None else len(client.nthreads())


def _client() -> Any:
    try:
        from dask.distributed import default_client  # noqa: PLC0415  (Dask may be here without it)

        return default_client()
    except (ImportError, ValueError):
        return None


def _shared(public: Any) -> Any:
    return dask.delayed(public, pure=False, traverse=False)


def _later(act: Callable[..., Any], *arguments: Any) -> Any:
    return dask.delayed(act, pure=False)(*arguments)


def _encoded(encode: Encode, table: Any) -> Kept | Fault:
    return mute(lambda: Kept(encode([table])))


def _summed(task: Task, part: Kept | Fault) -> Sum | Fault:
    return part if isinstance(part, Fault) else task(part.blocks)


def _summed_anew(task: Task, encode: Encode, table: Any) -> Sum | Fault:
    return task(encode([table]))


def _counted(ids: str, table: Any) -> int | Fault:
    return mute(lambda: InMemory(table).count_units(ids))


def _plus(parts: list[Sum | Fault]) -> Sum | Fault:
    """Return their sum, or the first fault."""
    faults = [part for part in parts if isinstance(part, Fault)]
    if faults:
        return faults[0]
    sums = [part for part in parts if isinstance(part, Sum)]
    return added(sums[1:], Sum.plus, sums[0])


def _together(frame: Any, ids: str) -> Any:
    """Put all rows with the same id in the same partition, by a hash of our own: that of pandas,
    which Dask uses, is not the same for equal ids of different types.
    """
    frame = frame.assign(**{_HASH: frame[ids].map_partitions(_hashed, meta=(_HASH, "int64"))})
    return frame.shuffle(on=_HASH)


def _hashed(ids: Any) -> Any:
    numbers = mute(lambda: hashes(ids))
    if isinstance(numbers, Fault):
        raise refusal(numbers)
    return type(ids)(numbers, index=ids.index, name=_HASH)
