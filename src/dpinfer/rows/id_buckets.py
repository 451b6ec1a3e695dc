"""Rows of units that are larger than memory, sorted by their ids into temporary files.

Rows with the same id go to the same file, wherever they stood.  Each file holds complete units and is
small enough for memory, so it is read as any other table.  The files are in a folder of their own,
which no other user may enter, and are gone when the source is.
"""

import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpinfer.errors import InputError
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Indices
from dpinfer.rows import workers
from dpinfer.rows.encoded import Encoder, Raw
from dpinfer.rows.source import Blocks, Piece, Rows

_FILES = 500  # files that are open at once
_ROWS = "number of rows of an id"  # a column
_COPIES = (
    16  # copies of a row in memory, for all workers together, while a part is sorted by its ids
)


def number_of_parts(rows: int, width: int, memory: float) -> int:
    """Return how many parts rows of ``width`` numbers need for a part to be sorted in memory; 1 if
    all of them can.
    """
    return int(np.clip(np.ceil(_COPIES * rows * width * 8 / max(memory, 1.0)), 1, _FILES))


class Parts:
    """Rows of a table in temporary files, by their ids; ``rows`` is the number of them in each."""

    def __init__(self, tables: Iterable[pa.Table], ids: str, number: int) -> None:
        try:
            folder = Path(mkdtemp(prefix="dpinfer-", dir=workers.scratch()))
            weakref.finalize(self, _removed, folder, os.getpid())
            self.paths = [folder / str(j) for j in range(number)]
            self.rows = np.zeros(number, dtype=np.intp)
            self._write(tables, ids)
        except InputError:
            raise
        except Exception as error:  # the writer's own message may quote a value
            fault = type(error).__name__
        else:
            return
        raise InputError(
            f"the rows could not be sorted by their ids in temporary files ({fault}): make room in the folder for "
            "temporary files, or name another one as TMPDIR"
        )

    def read(self, path: Path) -> pa.Table:
        """Return the rows of one file."""
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()

    def _write(self, tables: Iterable[pa.Table], ids: str) -> None:
        key = token_hex(8)
        number = len(self.paths)
        with ExitStack() as opened:
            writers: list[Any] = []
            for table in tables:
                if not writers:
                    writers = [opened.enter_context(_writer(p, table.schema)) for p in self.paths]
                part = hashed(table[ids], key) % number
                counts = np.bincount(part, minlength=number)
                grouped = table.take(np.argsort(part, kind="stable"))
                self.rows += counts
                start = 0
                for writer, count in zip(writers, counts.tolist(), strict=True):
                    if count:
                        writer.write_table(grouped.slice(start, count))
                    start += count


def _removed(folder: Path, process: int) -> None:
    """Remove a folder, in the process that made it: a fork that ends still has its parent at work."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _writer(path: Path, schema: pa.Schema) -> Iterator[Any]:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        yield writer


def hashed(ids: pa.ChunkedArray, key: str) -> Indices:
    """Return a number of at least 0 per cell, the same for the same id; a missing one has any."""
    from pandas.util import hash_array  # noqa: PLC0415  (a file may be read without pandas)

    if pa.types.is_floating(ids.type):
        numbers = pc.fill_null(ids.cast(pa.float64()), 0.0).to_numpy()
        hashes = hash_array(numbers + 0.0)  # -0 is 0
    elif pa.types.is_boolean(ids.type):
        hashes = hash_array(pc.fill_null(ids, False).to_numpy())
    elif pa.types.is_integer(ids.type):
        hashes = hash_array(pc.fill_null(ids, 0).to_numpy())
    else:
        coded = _text(ids).dictionary_encode().combine_chunks()
        texts = coded.dictionary.to_numpy(zero_copy_only=False)
        distinct = hash_array(texts, hash_key=key, categorize=False)
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        hashes = np.append(distinct, np.uint64(0))[codes]
    return np.asarray(hashes >> np.uint64(1), dtype=np.intp)


def _text(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts, bytes, dates and decimals as something that has a hash; bytes of a text need
    not be UTF-8.
    """
    if pa.types.is_temporal(ids.type):
        return ids.cast(pa.int32() if ids.type.bit_width == 32 else pa.int64()).cast(pa.string())
    if pa.types.is_decimal(ids.type) or pa.types.is_null(ids.type):
        return ids.cast(pa.string())
    return ids.cast(pa.large_binary())


@dataclass(frozen=True, repr=False)
class Parted(Blocks):
    """Units of which each lies in one part; ``raw`` makes records of its table.

    Guarantee [units_in_parts]: all rows of a unit are in one part, wherever they stood, so totals
    are those of the rows in memory, up to the order of the units.
    """

    units: int
    encoding: Encoder
    parts: Parts
    raw: Callable[[pa.Table], Raw]

    @property
    def n(self) -> int:
        """Number of units."""
        return self.units

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.encoding.width

    @property
    def size(self) -> int:
        """Number of rows, with those that have no id, which are left out."""
        return int(self.parts.rows.sum())

    @property
    def memory_limit(self) -> float:
        """0 bytes: the rows do not fit the memory."""
        return 0.0

    def pieces(self) -> Iterator[Piece]:
        """Yield one piece per part."""
        rows = self.parts.rows.tolist()
        for path, start in zip(self.parts.paths, accumulate(rows[:-1], initial=0), strict=True):
            yield Piece(start, partial(self._blocks, path))

    def _blocks(self, path: Path) -> Iterator[Block]:
        rows = Rows(self.encoding.block(self.raw(self.parts.read(path))))
        for piece in rows.pieces():
            yield from piece.blocks()


def unit_sizes(
    tables: Iterable[pa.Table], name: str, number: int, ids: Callable[[pa.Table], Indices]
) -> Indices:
    """Return the number of rows of each unit; ``ids`` gives those of a table as numbers from 0 on, below 0 where one
    is missing.

    Different ids are kept, and not their rows: in memory, or where ``number`` is above 1 in as many parts.
    """
    counted = (_with_counts(table, name) for table in tables)
    if number == 1:
        there = list(counted)
        parts = iter([pa.concat_tables(there)] if there else [])
    else:
        files = Parts(counted, name, number)
        parts = map(files.read, files.paths)
    sizes = [np.zeros(0, dtype=np.intp), *(_sizes(part, ids(part)) for part in parts)]
    return np.concatenate(sizes)


def _with_counts(table: pa.Table, name: str) -> pa.Table:
    """Return the different ids of some rows, each with the number of its rows."""
    cells = table[name]
    try:
        counts = cells.value_counts()
    except pa.ArrowNotImplementedError:  # types of which Arrow makes no hash table
        return pa.table([cells, pa.array(np.ones(len(cells), dtype=np.int64))], [name, _ROWS])
    return pa.table([counts.field("values"), counts.field("counts")], [name, _ROWS])


def _sizes(part: pa.Table, ids: Indices) -> Indices:
    there = ids >= 0
    rows = part.column(1).to_numpy()[there]
    sizes = np.zeros(int(ids.max(initial=-1)) + 1, dtype=np.intp)
    np.add.at(sizes, ids[there], rows)
    return sizes
