"""Tables of Spark: executors hand rows to Python as batches of Arrow; sums come back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from dpinfer.errors import InputError, missing
from dpinfer.maths.sums import Sum
from dpinfer.schema.columns import Wanted
from dpinfer.tables.cluster import (
    ClusterTable,
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

        def ask() -> list[Any]:
            frame = _together(self.native.select(_quoted(ids)), ids)
            return _answers(frame, partial(_counted, ids))

        return int(added(answered(ask), lambda one, other: one + other, 0))

    def source(self, reader: Reader, n: int) -> "SparkPartitions":
        """The rows, of n records or units."""
        return SparkPartitions(self, reader, n)


class SparkPartitions(Partitions):
    """The partitions of a Spark DataFrame."""

    def __init__(self, table: Spark, reader: Reader, n: int) -> None:
        super().__init__(reader, n, table.empty(reader.columns))
        ids = reader.encoder.unit.column
        self._frame = table.native.select(*map(_quoted, reader.names))
        self._sorted = bool(ids)
        if ids:
            self._frame = answered(lambda: _together(self._frame, ids).persist())

    def sums(self, task: Task) -> list[Sum | Fault]:
        """One per partition."""
        answers = _answers(self._frame, partial(_summed, task, self._sorted))
        return [answer if isinstance(answer, Fault) else Sum(*answer) for answer in answers]

    def release(self) -> None:
        """What was sorted by ids leaves the memory of the executors."""
        if self._sorted:
            self._frame.unpersist()


def _arrow_type(field: Any) -> pa.DataType:
    try:
        return to_arrow_type(field.dataType)
    except Exception:
        raise InputError(
            f"column {field.name!r} is {field.dataType.typeName()}, which Spark does not hand to Python: cast it"
        ) from None


def _together(frame: Any, ids: str) -> Any:
    """All rows with the same id in one partition.  Spark keeps a number of partitions that it was
    told.
    """
    number = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return frame.repartition(number, _quoted(ids))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _answers(frame: Any, act: Callable[[Iterator[Any]], Any]) -> list[Any]:
    """What ``act`` makes of the tables of each partition, an array or a fault, in the order of
    partitions.
    """
    rows = frame.mapInArrow(partial(_answer, act), _ANSWER).collect()
    return [
        Fault(row.fault) if row.fault else np.load(BytesIO(row.found), allow_pickle=False)
        for row in sorted(rows, key=lambda row: row.partition)
    ]


def _answer(
    act: Callable[[Iterator[Any]], Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One row per partition, none where it is empty."""
    first = next(iter(batches), None)
    if first is None:
        return
    result = act(chain([first], batches))
    fault = None
    written = BytesIO()
    if isinstance(result, Fault):
        fault = result.name
    else:
        np.save(written, np.asarray(result), allow_pickle=False)
    yield pa.record_batch(
        [
            pa.array([TaskContext.get().partitionId()], pa.int64()),
            pa.array([fault], pa.string()),
            pa.array([written.getvalue()], pa.binary()),
        ],
        ["partition", "fault", "found"],
    )


def _summed(task: Task, sorted_: bool, batches: Iterator[pa.RecordBatch]) -> Any:
    """A sum and what it lost, as one array."""
    result = task(_tables(batches, sorted_))
    if isinstance(result, Fault):
        return result
    return np.stack([result.total, np.broadcast_to(result.lost, result.total.shape)])


def _counted(ids: str, batches: Iterator[pa.RecordBatch]) -> Any:
    return mute(
        lambda: sum(InMemory(table).count_units(ids) for table in _tables(batches, sorted_=True))
    )


def _tables(batches: Iterable[pa.RecordBatch], sorted_: bool) -> Iterator[pa.Table]:
    """One per batch, or one of all where a partition is ``sorted_`` by ids: units must not be cut."""
    if sorted_:
        yield pa.Table.from_batches(list(batches))
        return
    for batch in batches:
        yield pa.Table.from_batches([batch])
