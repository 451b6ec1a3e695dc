"""Rows of a Spark DataFrame: executors hand them to Python as batches of Arrow; one sum a partition
comes back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import InputError, missing
from dpinfer.maths.sums import Sum
from dpinfer.schema.columns import Wanted
from dpinfer.tables.cluster import Fault, Partitions, Reader, Task, added, answered, mute, names

try:
    from pyspark import TaskContext
except ImportError:
    raise missing("a Spark DataFrame", "spark", "pyspark") from None

if TYPE_CHECKING:
    import pyarrow as pa

_ANSWER = "partition long, fault string, found binary"


def blank(native: Any, columns: Sequence[Wanted] | None) -> "pa.Table":
    """The table without its rows; the types of columns that are not wanted do not matter."""
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a table is read)
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415

    wanted, fields = None if columns is None else {column.name for column in columns}, []
    for field in native.schema.fields:
        try:
            kind = (
                to_arrow_type(field.dataType)
                if wanted is None or field.name in wanted
                else pa.null()
            )
            fields.append((field.name, kind))
        except Exception:
            raise InputError(
                f"column {field.name!r} is {field.dataType.typeName()}, which Spark does not hand to Python: cast it"
            ) from None
    return pa.schema(fields).empty_table()


def count(native: Any) -> int:
    """The number of rows."""
    return answered(lambda: int(native.count()))


def count_units(native: Any, ids: str, units: Callable[[Any], int]) -> int:
    """The number of units, where ``units`` counts those of a table."""

    def ask() -> list[Any]:
        return _found(_together(native.select(_quoted(ids)), ids), partial(_counted, units))

    return int(added(answered(ask), lambda one, other: one + other, 0))


class OnSpark(Partitions):
    """The partitions of a Spark DataFrame."""

    def __init__(self, native: Any, reader: Reader, n: int) -> None:
        super().__init__(reader, n, blank(native, reader.columns))
        frame, ids = native.select(*map(_quoted, names(reader))), reader.encoding.unit.column
        self._sorted = answered(lambda: _together(frame, ids).persist()) if ids else None
        self._frame = frame if self._sorted is None else self._sorted

    def sums(self, task: Task) -> list[Sum | Fault]:
        """One a partition."""
        found = _found(self._frame, partial(_summed, task, self._sorted is not None))
        return [part if isinstance(part, Fault) else Sum(*part) for part in found]

    def release(self) -> None:
        """What was sorted by ids leaves the memory of the executors."""
        if self._sorted is not None:
            self._sorted.unpersist()


source = OnSpark


def _together(frame: Any, ids: str) -> Any:
    """All rows with the same id in one partition.  Spark keeps a number of partitions that it was
    told.
    """
    return frame.repartition(
        int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions")), _quoted(ids)
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _found(frame: Any, act: Callable[[Iterator[Any]], Any]) -> list[Any]:
    """What ``act`` makes of the tables of each partition, an array or a fault, in the order of
    partitions.
    """
    rows = frame.mapInArrow(partial(_answer, act), _ANSWER).collect()
    return [
        Fault(row.fault) if row.fault else np.load(BytesIO(row.found), allow_pickle=False)
        for row in sorted(rows, key=lambda row: row.partition)
    ]


def _answer(
    act: Callable[[Iterator[Any]], Any], batches: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """One row a partition, none where it is empty."""
    import pyarrow as pa  # noqa: PLC0415

    first = next(iter(batches), None)
    if first is None:
        return
    found, written = act(chain([first], batches)), BytesIO()
    if not isinstance(found, Fault):
        np.save(written, np.asarray(found), allow_pickle=False)
    told = found.name if isinstance(found, Fault) else None
    place = TaskContext.get().partitionId()
    yield pa.record_batch(
        [
            pa.array([place], pa.int64()),
            pa.array([told], pa.string()),
            pa.array([written.getvalue()], pa.binary()),
        ],
        ["partition", "fault", "found"],
    )


def _summed(task: Task, whole: bool, batches: Iterator["pa.RecordBatch"]) -> Any:
    """A sum and what it lost; ``whole`` where units must not be cut."""
    found = task(_tables(batches, whole))
    return (
        found
        if isinstance(found, Fault)
        else np.stack([found.total, np.broadcast_to(found.lost, found.total.shape)])
    )


def _counted(units: Callable[[Any], int], batches: Iterator["pa.RecordBatch"]) -> Any:
    return mute(lambda: sum(units(table) for table in _tables(batches, whole=True)))


def _tables(batches: Iterable["pa.RecordBatch"], whole: bool) -> Iterator["pa.Table"]:
    import pyarrow as pa  # noqa: PLC0415

    for some in [list(batches)] if whole else ([batch] for batch in batches):
        yield pa.Table.from_batches(some)
