"""Tables of Spark: executors encode rows in Python, keep the blocks, and add up their sums."""

import gc
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from dpinfer.errors import InputError, missing
from dpinfer.mechanisms.sums import Block, Sum
from dpinfer.rows import workers
from dpinfer.schema.columns import Wanted
from dpinfer.tables import block_files
from dpinfer.tables.block_files import BlockFile, GoneError
from dpinfer.tables.cluster import (
    ClusterTable,
    Encode,
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
    from pyspark import TaskContext
    from pyspark.sql.pandas.types import to_arrow_type
except ImportError:
    raise missing("a Spark DataFrame", "spark", "pyspark") from None

_ANSWER = "partition long, fault string, total binary, summed binary, gone binary"
_FILES = "partition long, fault string, path string, layout binary"
_KEPT = "fault string, rows binary, labels binary, weights binary, shares binary, starts binary"
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_AT_ONCE = 32  # blocks or sums that Spark hands to Python in one batch
_GROUP = 256  # sums that one task adds up
_FEW = 64  # sums that the driver adds up itself: a task of Python takes longer
_TASKS = 2  # of a pass, for each core: a task takes long to begin, however few rows it has
_MIN_TASKS = 64  # tasks of a pass, where there are as many partitions and Spark may add executors
_ROUNDS = 4  # one after the other, in which no task of a pass reaches its file
_SWEEPS = 3  # over all executors, in which files of a fit are removed
_ENCRYPTED = "spark.io.encryption.enabled"
_GROWING = "spark.dynamicAllocation.enabled"


class Spark(ClusterTable):
    """A Spark DataFrame."""

    def empty(self, columns: Sequence[Wanted] | None) -> pa.Table:
        """Return an empty table of all columns; the types of those that are not wanted do not
        matter.
        """
        wanted = None if columns is None else {column.name for column in columns}
        fields = []
        for field in self.native.schema.fields:
            kind = pa.null()
            if wanted is None or field.name in wanted:
                kind = _arrow_type(field)
            fields.append((field.name, kind))
        return pa.schema(fields).empty_table()

    def count(self, columns: Sequence[Wanted]) -> int:  # noqa: ARG002
        """Return the number of rows."""
        return answered(lambda: int(self.native.count()))

    def count_units(self, ids: str) -> int:
        """Return the number of units: no id is in two partitions once they are sorted."""

        def ask() -> list[Sum | Fault]:
            number = _shuffled(self.native.sparkSession)
            frame = _together(self.native.select(_quoted(ids)), ids, number)
            return _totals(_summed_up(frame, number, partial(_counted, ids)))

        nothing = Sum(np.zeros(1), 0.0)
        return int(added(answered(ask), Sum.plus, nothing).value[0])

    def source(self, reader: Reader, n: int) -> "SparkPartitions":
        """Return the rows, of n records or units."""
        return SparkPartitions(self, reader, n)


class SparkPartitions(Partitions):
    """The partitions of a Spark DataFrame.

    Executors write the blocks of a partition to a file beside Spark's own, and what is kept is a
    persisted table with one row per file: so no block goes through Java in a pass.  Where a task
    runs elsewhere than the file is, the partition is asked for again.  Where that does not help,
    where there is no room for files, or where they would have to be encrypted, a table with one row
    per block is persisted instead.  Spark makes what was on an executor that dies again: the rows
    that name its files, and so the files.
    """

    def __init__(self, table: Spark, reader: Reader, n: int) -> None:
        super().__init__(reader, n, table.empty(reader.columns))
        self._frame = table.native.select(*map(_quoted, reader.names))
        self._units = bool(reader.encoder.unit.column)
        self._held: Any = None
        self._kept = False
        self._number = 0  # of partitions, at most
        self._fit = ""  # the name that files of this fit begin with, where there are any
        self._paths: dict[int, str] = {}  # the first file of each partition that has rows

    def sums(self, task: Task) -> list[Sum | Fault]:
        """Return the sums of all partitions, few in number; none where there is no row."""
        if self._held is None:
            self._open()
        if self._fit:
            sums = self._of_files(task)
            if sums is not None:
                return sums
            self._leave_files()
            self._keep_in_spark(self._parted())
        if self._kept:
            with _small_batches(self._frame.sparkSession):
                return _totals(_summed_up(self._held, self._number, partial(_summed, task)))
        anew = partial(_summed_anew, task, self.encode, self._units)
        return _totals(_summed_up(self._held, self._number, anew))

    def release(self) -> None:
        """Drop what is kept from the memory and the disks of the executors."""
        try:
            if self._fit:
                self._remove_files()
        finally:
            if self._held is not None and (self._kept or self._units):
                self._held.unpersist()

    def _open(self) -> None:
        """Encode the rows and keep them or, if there are too many for that, see to it that they can
        be read anew in every pass.
        """
        session = self._frame.sparkSession
        frame = self._parted()
        self._kept = self.fits(self._size, partial(_executors, session), workers.kept())
        if not self._kept:
            self._held = frame.persist() if self._units else frame
        elif not self._may_write() or not self._written(frame):
            self._keep_in_spark(frame)

    def _may_write(self) -> bool:
        """Whether there may be files that are not encrypted."""
        return workers.may_use_disk() and not _encrypted(self._frame.sparkSession)

    def _keep_in_spark(self, frame: Any) -> None:
        """Encode the rows into a table of blocks in Spark's own store."""
        self._held = frame.mapInArrow(partial(_encoded, self.encode, self._units), _KEPT).persist()
        self._held.count()  # now, while Spark hands out tables in batches of their own size

    def _parted(self) -> Any:
        """Return the rows in as many partitions as a pass has tasks, with ids by these."""
        session = self._frame.sparkSession
        ids = self.encode.reader.encoder.unit.column
        if ids:
            self._number = _shuffled(session)
            return _together(self._frame, ids, self._number)
        self._number = _tasks(session)
        return self._frame.coalesce(self._number)

    def _written(self, frame: Any) -> bool:
        """Encode the rows into files; whether all of them could be written."""
        self._fit = block_files.new_fit()
        act = partial(_to_files, self.encode, self._units, self._fit)
        self._held = frame.mapInArrow(act, _FILES).persist()
        rows = self._held.select("partition", "fault", "path").collect()
        self._paths = {row.partition: row.path for row in rows}
        if all(row.fault or row.path for row in rows):
            return True
        self._leave_files()
        return False

    def _of_files(self, task: Task) -> list[Sum | Fault] | None:
        """Return the sum over all files, each once; None where some are not where their tasks run,
        however often these are asked.

        What was not read is known by the numbers of its partitions: a file that is written again,
        as its executor died, has another name.

        Guarantee [each_file_once]: a sum is over every partition, and over none twice, or there is
        none.
        """
        sums: list[Sum | Fault] = []
        left = sorted(self._paths)
        frame = self._held
        in_vain = 0
        while in_vain < _ROUNDS:
            parts = self._asked(frame, task)
            gone = [partition for part in parts for partition in part.gone]
            summed = [partition for part in parts for partition in part.summed]
            if sorted(summed + gone) != left:
                raise refusal(Fault("Partitions"))
            sums += _totals(parts)
            if not gone:
                return sums
            in_vain = 0 if summed else in_vain + 1
            left = sorted(gone)
            frame = self._held.where(self._held["partition"].isin(gone))
        return None

    def _asked(self, frame: Any, task: Task) -> list["PartialSum"]:
        """Return the sums of the task over the files that some rows name.

        Rows stay in their partitions: where Spark makes one again, in a task of this pass, that task
        has the number of the partition.
        """
        parts = frame.mapInArrow(partial(_of_file, task), _ANSWER)
        return _added_in_groups(parts, len(self._paths))

    def _leave_files(self) -> None:
        """Do without files from here on."""
        self._remove_files()
        self._held.unpersist()

    def _remove_files(self) -> None:
        """Remove the files from the disks of all executors.  Spark chooses which of them a task
        reaches, so that it may take a few sweeps; a warning names what is left, which Spark removes
        with its own files.
        """
        fit = self._fit
        self._fit = ""
        session = self._frame.sparkSession
        tasks = max(_executors(session), min(_cores(session), _MIN_TASKS))
        left = {path for path in self._paths.values() if path}
        for _ in range(_SWEEPS):
            with suppress(Exception):
                everywhere = session.range(0, tasks, 1, tasks)
                removed = everywhere.mapInArrow(partial(_without_files, fit), "path string")
                left -= {row.path for row in removed.collect()}
            if not left:
                return
        warnings.warn(
            f"{len(left)} files of encoded rows may still lie on the disks of Spark's executors, in its "
            "local folders: they are removed when the application ends",
            stacklevel=2,
        )

    def _size(self) -> int:
        """Return the number of rows, which is private where units have many: for the use of memory
        only.
        """
        return int(self._frame.count()) if self.encode.reader.encoder.unit.many else self.n


def _encrypted(session: Any) -> bool:
    """Whether Spark encrypts what it writes to disks; an unknown setting counts as so."""
    try:
        return str(session.conf.get(_ENCRYPTED, "false")).lower() != "false"
    except Exception:
        return True


def _executors(session: Any) -> int:
    """Return the number of executors; 1 where the driver does their work, or where the number is
    unknown.
    """
    try:
        status = session.sparkContext._jsc.sc().getExecutorMemoryStatus()
        return max(1, int(status.size()) - 1)
    except Exception:  # Spark Connect has no context
        return 1


def _cores(session: Any) -> int:
    """Return the number of cores of all executors; that of a large cluster where the number is
    unknown.
    """
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return 1000


def _tasks(session: Any) -> int:
    """Return how many tasks a pass has at most."""
    tasks = _TASKS * _cores(session)
    try:
        fixed = str(session.conf.get(_GROWING, "false")).lower() == "false"
    except Exception:  # the setting is unknown
        fixed = False
    return tasks if fixed else max(tasks, _MIN_TASKS)


def _shuffled(session: Any) -> int:
    """Return the number of partitions after rows were sorted by their ids."""
    return int(session.conf.get("spark.sql.shuffle.partitions"))


@contextmanager
def _small_batches(session: Any) -> Iterator[None]:
    """Give a batch few rows inside, since ours are large."""
    before = session.conf.get(_BATCH)
    session.conf.set(_BATCH, _AT_ONCE)
    try:
        yield
    finally:
        session.conf.set(_BATCH, before)


def _arrow_type(field: Any) -> pa.DataType:
    try:
        return to_arrow_type(field.dataType)
    except Exception:
        raise InputError(
            f"column {field.name!r} is {field.dataType.typeName()}, which Spark does not hand to Python: cast it"
        ) from None


def _together(frame: Any, ids: str, number: int) -> Any:
    """Put all rows with the same id into one partition.  Spark keeps the number of partitions that it
    is given.
    """
    return frame.repartition(number, _quoted(ids))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class PartialSum:
    """The sum over some partitions, or a fault; the numbers of the partitions that are ``summed``, and
    of those whose file is ``gone`` from where its task ran.
    """

    partition: int
    total: Sum | Fault | None
    summed: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()

    def plus(self, other: "PartialSum") -> "PartialSum":
        """Return both together, in their order; a fault stays one."""
        total = self.total
        if total is None or isinstance(other.total, Fault):
            total = other.total
        elif isinstance(total, Sum) and isinstance(other.total, Sum):
            total = total.plus(other.total)
        return PartialSum(self.partition, total, self.summed + other.summed, self.gone + other.gone)

    def row(self) -> pa.RecordBatch:
        """Return it as a row, in which it travels."""
        fault = None
        written = None
        if isinstance(self.total, Fault):
            fault = self.total.name
        elif self.total is not None:
            compensation = np.broadcast_to(self.total.compensation, self.total.total.shape)
            written = np.stack([self.total.total, compensation]).tobytes()
        return pa.record_batch(
            [
                pa.array([self.partition], pa.int64()),
                pa.array([fault], pa.string()),
                pa.array([written], pa.binary()),
                pa.array([np.array(self.summed, np.int64).tobytes()], pa.binary()),
                pa.array([np.array(self.gone, np.int64).tobytes()], pa.binary()),
            ],
            ["partition", "fault", "total", "summed", "gone"],
        )

    @classmethod
    def of(cls, row: Any) -> "PartialSum":
        """Return the partial sum in a row."""
        total: Sum | Fault | None = None
        if row["fault"]:
            total = Fault(row["fault"])
        elif row["total"] is not None:
            total = Sum(*np.frombuffer(row["total"]).reshape(2, -1))
        summed, gone = (np.frombuffer(row[name], np.int64).tolist() for name in ("summed", "gone"))
        return cls(row["partition"], total, tuple(summed), tuple(gone))


def _totals(parts: Iterable[PartialSum]) -> list[Sum | Fault]:
    return [part.total for part in parts if part.total is not None]


def _summed_up(
    frame: Any, number: int, act: Callable[[Iterator[pa.RecordBatch]], Sum | Fault]
) -> list[PartialSum]:
    """Return the sum of ``act`` over at most ``number`` partitions; none where all are empty."""
    return _added_in_groups(frame.mapInArrow(partial(_answer, act), _ANSWER), number)


def _added_in_groups(parts: Any, number: int) -> list[PartialSum]:
    """Add the sums of at most ``number`` partitions up; none where there is none.

    Where there are many, executors add their sums in groups, then those of groups, until few come
    back; always in the order of partitions.
    """
    while number > _FEW:
        number = math.ceil(number / _GROUP)
        parts = parts.repartition(number, "partition").sortWithinPartitions("partition")
        parts = parts.mapInArrow(_added_up, _ANSWER)
    rows = sorted(map(PartialSum.of, parts.collect()), key=lambda part: part.partition)
    return [reduce(PartialSum.plus, rows)] if rows else []


def _answer(
    act: Callable[[Iterator[pa.RecordBatch]], Sum | Fault], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield one row per partition, none where it is empty."""
    _settle()
    first = next(iter(batches), None)
    if first is not None:
        partition = TaskContext.get().partitionId()
        yield PartialSum(partition, act(chain([first], batches)), (partition,)).row()


@lru_cache(maxsize=1)
def _settle() -> None:
    """Keep what is loaded, once in each process of Python on an executor.

    After each task such a process looks through all that it has loaded for what might be freed,
    which takes longer than a pass over 100,000 rows.
    """
    gc.collect()
    gc.freeze()


def _added_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the sum of sums, one row; none where there is none."""
    parts = (PartialSum.of(row) for batch in batches for row in batch.to_pylist())
    first = next(parts, None)
    if first is not None:
        yield reduce(PartialSum.plus, parts, first).row()


def _encoded(
    encode: Encode, units: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield one row per block that has rows, or one with a fault."""
    blocks = filter(len, encode(_tables(batches, units)))
    while True:
        block = mute(lambda: next(blocks, None))
        if block is None:
            return
        yield _packed(block)
        if isinstance(block, Fault):
            return


def _folders() -> list[str]:
    """Return the folders where Spark keeps blocks on the disks of this executor, but for what is
    memory: it removes these folders with it.
    """
    folders = filter(os.path.isdir, os.environ.get("SPARK_LOCAL_DIRS", "").split(","))
    return [folder for folder in folders if not workers.is_memory(folder)]


def _to_files(
    encode: Encode, units: bool, fit: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield one row that names the file of a partition's blocks, or has a fault, or neither, where
    no file could be written; none where the partition is empty.
    """
    _settle()
    blocks = filter(len, encode(_tables(batches, units)))
    first = mute(lambda: next(blocks, None))
    if first is None:
        return
    partition = TaskContext.get().partitionId()
    fault = None
    file = None
    folders = _folders()
    if isinstance(first, Fault):
        fault = first.name
    elif folders:
        folder = folders[partition % len(folders)]
        written = mute(lambda: block_files.write(folder, fit, chain([first], blocks)))
        if isinstance(written, Fault):
            fault = written.name
        else:
            file = written
    yield pa.record_batch(
        [
            pa.array([partition], pa.int64()),
            pa.array([fault], pa.string()),
            pa.array([file and file.path], pa.string()),
            pa.array([file and file.layout], pa.binary()),
        ],
        ["partition", "fault", "path", "layout"],
    )


def _without_files(fit: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the names of the files of a fit that were on this executor."""
    removed = block_files.remove(_folders(), fit)
    for _ in batches:
        yield pa.record_batch([pa.array(removed, pa.string())], ["path"])


def _of_file(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the sum over each file, or that the file is gone."""
    _settle()
    for batch in batches:
        for row in batch.to_pylist():
            partition = row["partition"]
            total = _total_of_file(task, row)
            if total is None:
                yield PartialSum(partition, None, gone=(partition,)).row()
            else:
                yield PartialSum(partition, total, (partition,)).row()


def _total_of_file(task: Task, row: dict[str, Any]) -> Sum | Fault | None:
    """Return the sum over the file that a row names; None where it is not here, or could not be
    written again after its executor had died.
    """
    if row["fault"]:
        return Fault(row["fault"])
    if not row["path"]:
        return None
    missing: list[GoneError] = []
    total = task(_present(BlockFile(row["path"], row["layout"]), missing))
    return None if missing else total


def _present(file: BlockFile, missing: list[GoneError]) -> Iterator[Block]:
    """Yield the blocks of a file, as far as it is here."""
    try:
        yield from file.read()
    except GoneError as gone:
        missing.append(gone)


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
    """Return the numbers of an array; nothing stands for 1, what rows count where no array says it."""
    if array is None or (isinstance(array, float) and array == 1.0):
        return None
    return np.ascontiguousarray(array).tobytes()


def _unpacked(batches: Iterable[pa.RecordBatch], faults: list[Fault]) -> Iterator[Block]:
    """Yield the blocks of a partition, up to the first fault."""
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
    total = task(_unpacked(batches, faults))
    return faults[0] if faults else total


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
    """Yield one table per batch, or one of all where a partition has whole ``units``: these must
    not be cut.
    """
    if units:
        together = list(batches)
        if together:
            yield pa.Table.from_batches(together)
        return
    for batch in batches:
        yield pa.Table.from_batches([batch])
