"""Tables on a cluster: what a worker does with one partition, and what comes back of it.

To a worker go the public encoding, once, and in every pass a function of blocks, which holds public
facts, released numbers and, while a minimum is searched, the coefficients of a step of the search.
A worker keeps the encoded blocks of its partitions for the time of a fit.  Back come two arrays: a
sum with the number of its rows, and what its additions lost.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NoReturn, TypeVar

import narwhals as nw
import numpy as np

from dpinfer.errors import InputError
from dpinfer.mechanisms.sums import Block, OfBlock, Sum
from dpinfer.numerics.arrays import Array
from dpinfer.rows import workers
from dpinfer.rows.source import Source, gathered_bytes, require_record_limit
from dpinfer.schema.columns import Wanted
from dpinfer.tables.memory import InMemory, Reader, not_here

T = TypeVar("T")


class ClusterTable(ABC):
    """A table of an engine; see `dpinfer.tables.table.Table`."""

    def __init__(self, native: Any) -> None:
        self.native = native

    @abstractmethod
    def empty(self, columns: Sequence[Wanted] | None) -> Any:
        """Return a table in memory with these columns, by default all, and no row: no task runs for
        it.
        """

    @abstractmethod
    def count(self, columns: Sequence[Wanted], /) -> int:
        """Return the number of rows."""

    @abstractmethod
    def count_units(self, ids: str, /) -> int:
        """Return the number of units, by the column of their ids."""

    @abstractmethod
    def source(self, reader: Reader, n: int, /) -> Source:
        """Return the rows, of n records or units."""

    def types(self) -> list[tuple[str, str]]:
        """Return the names of the columns, and what their types say."""
        return InMemory(self.empty(None)).types()

    def blank(self, columns: Sequence[Wanted], /) -> nw.DataFrame[Any]:
        """Return the columns without rows."""
        return InMemory(self.empty(columns)).blank(columns)

    def opened(self, columns: Sequence[Wanted], /) -> NoReturn:  # noqa: ARG002
        """Refuse: the table is not in this process."""
        self.require_local()

    def require_local(self) -> NoReturn:
        """Refuse: the table is not in this process."""
        raise not_here(self.native, ": collect it")


@dataclass(frozen=True)
class Fault:
    """The name of the type of an error on a worker, which is all that leaves it."""

    name: str


@dataclass(frozen=True, repr=False)
class Encode:
    """The encoding of the tables of a partition as blocks; public, so that it may travel."""

    reader: Reader

    def __call__(self, tables: Iterable[Any]) -> Iterator[Block]:
        """Yield the blocks one after the other: beside a table, which is there, a few blocks are in
        memory.
        """
        for table in tables:
            for block in self.reader.blocks(table):
                yield unplaced(block)


class Kept:
    """The encoded blocks of a partition, in the memory of a worker."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = tuple(blocks)

    def __sizeof__(self) -> int:
        """Return the bytes that the arrays take: by this an engine knows what to move to its disk."""
        return sum(map(block_bytes, self.blocks))


def block_bytes(block: Block) -> int:
    """Return the bytes that the arrays of a block take."""
    arrays = (block.rows, block.labels, block.weights, block.shares, block.starts)
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


@dataclass(frozen=True, repr=False)
class Task:
    """The task of a worker: to sum over the blocks of a partition; ``among`` is the number of rows
    of all partitions, at most.
    """

    of_block: OfBlock
    among: float = np.inf

    def __call__(self, blocks: Iterable[Block]) -> Sum | Fault:
        """Return the sum over them; there must be one."""
        return mute(
            lambda: Sum.of(self.of_block(replace(block, among=self.among)) for block in blocks)
        )


@dataclass(frozen=True, repr=False)
class SumAndCount:
    """A sum over blocks as one flat array, followed by the number of rows."""

    of_block: OfBlock

    def __call__(self, block: Block) -> Array:
        """Return the part of one block."""
        return np.append(self.of_block(block), float(len(block)))


def unplaced(block: Block) -> Block:
    """Return a block whose rows have no fixed position: where an engine puts one may depend on the others."""
    return replace(block, fixed=False)


def mute(act: Callable[[], T]) -> T | Fault:
    """Return the result of ``act`` on a worker, or the fault that it ended in.

    Guarantee [workers_tell_no_value]: no error leaves a worker: what comes back of one is the name
    of its type.
    """
    try:
        # a warning would reveal a value
        with workers.one_thread(), workers.steady_heap(), np.errstate(all="ignore"):
            return act()
    except Exception as error:  # its text, and the frames that it went through, may hold values
        return Fault(type(error).__name__)


def answered(ask: Callable[[], T]) -> T:
    """Return the answer of an engine.  Its errors quote those of a table's own tasks, so only their
    type is passed on.

    Where Ctrl-C cuts off what an engine is sending, its own tidying up may fail in turn: the
    interrupt is what is raised.
    """
    try:
        return ask()
    except InputError:
        raise
    except Exception as error:
        fault = Fault(type(error).__name__)
        interrupted = _by_an_interrupt(error)
    if interrupted:
        raise KeyboardInterrupt
    raise refusal(fault)


def _by_an_interrupt(error: BaseException | None) -> bool:
    """Return whether an error came up while an interrupt was dealt with."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def refusal(fault: Fault) -> InputError:
    """Return the one error of a pass over a cluster."""
    return InputError(
        f"the cluster could not read or sum its rows ({fault.name}; the message is withheld, as it may quote a value): "
        "check that each worker has this version of dpinfer, that each partition has the types of the whole table, "
        "and that the rows can be counted"
    )


def added(parts: Iterable[T | Fault], plus: Callable[[T, T], T], first: T) -> T:
    """Add all parts in their order; a fault among them is the error of the pass."""

    def both(one: T, other: T | Fault) -> T:
        if isinstance(other, Fault):
            raise refusal(other)
        return plus(one, other)

    return reduce(both, parts, first)


class Partitions(ABC):
    """A source whose rows are on a cluster, in partitions of any size and any order.

    ``blank`` is a table with its columns and no row.
    """

    def __init__(self, reader: Reader, n: int, blank: Any) -> None:
        self.encode = Encode(reader)
        self._n = n
        self._rows = np.inf if reader.encoder.unit.many else float(n)
        self._counted: int | None = None  # by the first pass
        self._blank = blank

    @property
    def n(self) -> int:
        """Number of records or, with ids, of units."""
        return self._n

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.encode.reader.encoder.width

    def total(self, of_block: OfBlock, /) -> Array:
        """Return the sum over partitions, in their order, with compensation; refused where there
        are more rows than sums are proved for, or others than in the first pass: an engine makes
        anew what a worker had that died, and a table may have changed meanwhile.
        """
        # What public facts make fail fails here, on no rows.
        blank = [of_block(block) for block in self.encode([self._blank])]
        counted = SumAndCount(of_block)
        nothing = Sum.of(np.append(part, 0.0) for part in blank)
        watched = workers.Progress()
        watched.update(0.0)
        parts = answered(lambda: self.sums(Task(counted, self._rows)))
        watched.update(1.0)
        total = added(parts, Sum.plus, nothing).value
        rows = int(total[-1])
        require_record_limit(rows, self.encode.reader.encoder.unit.largest)
        if self._counted not in (None, rows):
            raise refusal(Fault("Rows"))
        self._counted = rows
        self._rows = float(rows)
        return np.asarray(total[:-1].reshape(np.shape(blank[0])))

    def fits(self, rows: Callable[[], int], machines: Callable[[], int], limit: float) -> bool:
        """Whether the encoded rows may be kept, if each of the workers may keep ``limit`` bytes; they
        are counted only if there is a limit.
        """
        return limit == np.inf or gathered_bytes(rows(), self.dim) <= limit * machines()

    @abstractmethod
    def sums(self, task: Task) -> list[Sum | Fault]:
        """Return the sums of the task over the partitions, in their order; some may be added
        already.

        The first call encodes the rows, which are kept from then on.
        """

    @abstractmethod
    def release(self) -> None:
        """Let go of what the cluster holds for this source alone."""
