"""Tables of Spark: executors encode rows in Python, keep the blocks, and add up their sums."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from dpinfer.errors import InputError, missing
from dpinfer.maths.sums import Block, Sum
from dpinfer.rows import workers
from dpinfer.schema.columns import Wanted
from dpinfer.tables.cluster import (
    ClusterTable,
    Encode,
    Fault,
    Partitions,
    Task,
    added,
    answered,
    mute,
)
from dpinfer.tables.memory import InMemory, Reader

try:
    from pyspark import TaskContext
    from pyspark.sql.pandas.types import to_arrow_type
except ImportError:
    raise missing("a Spark DataFrame", "spark", "pyspark") from None

_ANSWER = "partition long, fault string, found binary"
_KEPT = "fault string, rows binary, labels binary, weights binary, shares binary, starts binary"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_AT_ONCE = 32  # blocks or sums that Spark hands to Python in one batch
_GROUP = 256  # sums that one task adds up
_TASKS = 4  # of a pass, for each core: a task takes long to begin, however few rows it has
_FEWEST = 64  # tasks of a pass, where there are as many partitions


class Spark(ClusterTable):
    """A Spark DataFrame."""

    def empty(self, columns: Sequence[Wanted] | None) -> pa.Table:
        """All columns; the types of those that are not wanted do not matter."""
        wanted = None if columns is None else {column.name for column in columns}
        fields = []
        for field in self.native.schema.fields:
            kind = pa.null()
            if wanted is None or field.name in wanted:
                kind = _arrow_type(field)
            fields.append((field.name, kind))
        return pa.schema(fields).empty_table()

    def count(self, columns: Sequence[Wanted]) -> int:  # noqa: ARG002
        """The number of rows."""
        return answered(lambda: int(self.native.count()))

    def count_units(self, ids: str) -> int:
        """The number of units: no id is in two partitions once they are sorted."""

        def ask() -> list[Sum | Fault]:
            number = _shuffled(self.native.sparkSession)
            frame = _together(self.native.select(_quoted(ids)), ids, number)
            return _summed_up(frame, number, partial(_counted, ids))

        nothing = Sum(np.zeros(1), 0.0)
        return int(added(answered(ask), Sum.plus, nothing).value[0])

    def source(self, reader: Reader, n: int) -> "SparkPartitions":
        """The rows, of n records or units."""
        return SparkPartitions(self, reader, n)


class SparkPartitions(Partitions):
    """The partitions of a Spark DataFrame.

    What is kept is a persisted table with one row per block: Spark holds it in memory and on disk,
    and makes what was on an executor that dies again.
    """

    def __init__(self, table: Spark, reader: Reader, n: int) -> None:
        super().__init__(reader, n, table.empty(reader.columns))
        self._frame = table.native.select(*map(_quoted, reader.names))
        self._units = bool(reader.encoder.unit.column)
        self._held: Any = None
        self._kept = False
        self._number = 0  # of partitions, at most

    def sums(self, task: Task) -> list[Sum | Fault]:
        """One, of all partitions; none where there is no row."""
        if self._held is None:
            self._open()
        if self._kept:
            with _small_batches(self._frame.sparkSession):
                return _summed_up(self._held, self._number, partial(_summed, task))
        anew = partial(_summed_anew, task, self.encode, self._units)
        return _summed_up(self._held, self._number, anew)

    def release(self) -> None:
        """What is kept leaves the memory and the disks of the executors."""
        if self._held is not None and (self._kept or self._units):
            self._held.unpersist()

    def _open(self) -> None:
        """Encode the rows and keep them or, if there are too many for that, see to it that they can
        be read anew in every pass.
        """
        frame = self._frame
        session = frame.sparkSession
        ids = self.encode.reader.encoder.unit.column
        if ids:
            self._number = _shuffled(session)
            frame = _together(frame, ids, self._number)
        else:
            self._number = max(_FEWEST, _TASKS * _cores(session))
            frame = frame.coalesce(self._number)
        self._kept = self.fits(self._size, partial(_executors, session), workers.kept())
        if self._kept:
            frame = frame.mapInArrow(partial(_encoded, self.encode, self._units), _KEPT)
        if self._kept or ids:
            self._held = frame.persist()
        else:
            self._held = frame
        if self._kept:
            self._held.count()  # now, while Spark hands out tables in batches of the usual size

    def _size(self) -> int:
        """Private where units have many: for the use of memory only."""
        return int(self._frame.count()) if self.encode.reader.encoder.unit.many else self.n


def _executors(session: Any) -> int:
    """The number of executors; 1 where the driver does their work, or where it is not told."""
    try:
        status = session.sparkContext._jsc.sc().getExecutorMemoryStatus()
        return max(1, int(status.size()) - 1)
    except Exception:  # Spark Connect has no context
        return 1


def _cores(session: Any) -> int:
    """The number of cores of all executors; that of a large cluster where it is not told."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return 1000


def _shuffled(session: Any) -> int:
    """The number of partitions after rows were sorted by their ids."""
    return int(session.conf.get("spark.sql.shuffle.partitions"))


@contextmanager
def _small_batches(session: Any) -> Iterator[None]:
    """Inside, a batch has few rows: those of ours are large."""
    usual = session.conf.get(_BATCH)
    session.conf.set(_BATCH, _AT_ONCE)
    try:
        yield
    finally:
        session.conf.set(_BATCH, usual)


def _arrow_type(field: Any) -> pa.DataType:
    try:
        return to_arrow_type(field.dataType)
    except Exception:
        raise InputError(
            f"column {field.name!r} is {field.dataType.typeName()}, which Spark does not hand to Python: cast it"
        ) from None


def _together(frame: Any, ids: str, number: int) -> Any:
    """All rows with the same id in one partition.  Spark keeps a number of partitions that it was
    told.
    """
    return frame.repartition(number, _quoted(ids))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _summed_up(
    frame: Any, number: int, act: Callable[[Iterator[pa.RecordBatch]], Sum | Fault]
) -> list[Sum | Fault]:
    """The sum of what ``act`` finds in at most ``number`` partitions, or a fault; none where all are
    empty.

    Executors add the sums of partitions in groups, then those of groups, always in the order of
    partitions: one sum comes back, whatever their number is.
    """
    found = frame.mapInArrow(partial(_answer, act), _ANSWER)
    while number > 1:
        number = math.ceil(number / _GROUP)
        found = found.repartition(number, "partition").sortWithinPartitions("partition")
        found = found.mapInArrow(_added_up, _ANSWER)
    return [_found(row.fault, row.found) for row in found.collect()]


def _answer(
    act: Callable[[Iterator[pa.RecordBatch]], Sum | Fault], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One row per partition, none where it is empty."""
    first = next(iter(batches), None)
    if first is not None:
        yield _row(TaskContext.get().partitionId(), act(chain([first], batches)))


def _added_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sum of sums, one row; none where there is none."""
    partition = None
    total: Sum | Fault | None = None
    for batch in batches:
        for row in batch.to_pylist():
            part = _found(row["fault"], row["found"])
            if total is None:
                partition = row["partition"]
                total = part
            elif isinstance(part, Fault):
                total = part
            elif isinstance(total, Sum):
                total = total.plus(part)
    if total is not None:
        yield _row(partition, total)


def _row(partition: int | None, result: Sum | Fault) -> pa.RecordBatch:
    fault = None
    written = None
    if isinstance(result, Fault):
        fault = result.name
    else:
        lost = np.broadcast_to(result.lost, result.total.shape)
        written = np.stack([result.total, lost]).tobytes()
    return pa.record_batch(
        [
            pa.array([partition], pa.int64()),
            pa.array([fault], pa.string()),
            pa.array([written], pa.binary()),
        ],
        ["partition", "fault", "found"],
    )


def _found(fault: str | None, written: bytes) -> Sum | Fault:
    if fault:
        return Fault(fault)
    total, lost = np.frombuffer(written).reshape(2, -1)
    return Sum(total, lost)


def _encoded(
    encode: Encode, units: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One row per block, or one with a fault."""
    blocks = encode(_tables(batches, units))
    while True:
        block = mute(lambda: next(blocks, None))
        if block is None:
            return
        yield _packed(block)
        if isinstance(block, Fault):
            return


def _packed(block: Block | Fault) -> pa.RecordBatch:
    fault = None
    arrays: list[Any] = [None] * 5
    if isinstance(block, Fault):
        fault = block.name
    else:
        arrays = [block.rows, block.labels, block.weights, block.shares, block.starts]
    names = ["fault", "rows", "labels", "weights", "shares", "starts"]
    columns = [pa.array([_bytes(array)], pa.binary()) for array in arrays]
    return pa.record_batch([pa.array([fault], pa.string()), *columns], names)


def _bytes(array: Any) -> Any:
    """The numbers of an array; nothing stands for 1, what rows count where no array says it."""
    if array is None or (isinstance(array, float) and array == 1.0):
        return None
    return np.ascontiguousarray(array).tobytes()


def _unpacked(batches: Iterable[pa.RecordBatch], faults: list[Fault]) -> Iterator[Block]:
    """The blocks of a partition, up to the first fault."""
    for batch in batches:
        for i in range(batch.num_rows):
            fault, rows, labels, weights, shares, starts = (column[i] for column in batch.columns)
            if fault.is_valid:
                faults.append(Fault(fault.as_py()))
                return
            numbers = np.frombuffer(labels.as_buffer())
            yield Block(
                np.frombuffer(rows.as_buffer()).reshape(len(numbers), -1),
                numbers,
                np.frombuffer(weights.as_buffer()) if weights.is_valid else 1.0,
                np.frombuffer(shares.as_buffer()) if shares.is_valid else 1.0,
                np.frombuffer(starts.as_buffer(), np.intp) if starts.is_valid else None,
                fixed=False,
            )


def _summed(task: Task, batches: Iterator[pa.RecordBatch]) -> Sum | Fault:
    faults: list[Fault] = []
    found = task(_unpacked(batches, faults))
    return faults[0] if faults else found


def _summed_anew(
    task: Task, encode: Encode, units: bool, batches: Iterator[pa.RecordBatch]
) -> Sum | Fault:
    return task(encode(_tables(batches, units)))


def _counted(ids: str, batches: Iterator[pa.RecordBatch]) -> Sum | Fault:
    number = mute(
        lambda: sum(InMemory(table).count_units(ids) for table in _tables(batches, units=True))
    )
    return number if isinstance(number, Fault) else Sum(np.array([float(number)]), 0.0)


def _tables(batches: Iterable[pa.RecordBatch], units: bool) -> Iterator[pa.Table]:
    """One per batch, or one of all where a partition has whole ``units``: these must not be cut."""
    if units:
        yield pa.Table.from_batches(list(batches))
        return
    for batch in batches:
        yield pa.Table.from_batches([batch])
