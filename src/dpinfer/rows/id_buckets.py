"""Units in files of any order, with bounded memory: rows with the same id go to the same one of
some temporary files.

Each temporary file holds whole units and is small enough for memory, so it is read as any other
table.  They lie in a folder of their own, which nobody else may enter, and are gone when the source
is.
"""

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import Block, Change
from dpinfer.rows import workers
from dpinfer.rows.encoded import Encoding, Raw
from dpinfer.rows.source import Blocks, Piece, Rows

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = 500  # files that are open at once
_COPIES = 16  # of a row in memory, for all workers together, while a part is sorted by its ids


def number_of_parts(rows: int, width: int, room: float) -> int:
    """How many parts rows of so many numbers need, so that a part can be sorted in memory; 1 if all
    of them can.
    """
    return int(np.clip(np.ceil(_COPIES * rows * width * 8 / max(room, 1.0)), 1, _MOST))


class Parts:
    """Rows of a table in temporary files, by their ids."""

    def __init__(self, tables: Iterable["pa.Table"], ids: str, number: int) -> None:
        try:
            folder = Path(mkdtemp(prefix="dpinfer-", dir=workers.scratch()))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.paths = [folder / str(j) for j in range(number)]
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

    def read(self, path: Path) -> "pa.Table":
        """The rows of one file."""
        import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a file is read)

        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_stream(file).read_all()

    def _write(self, tables: Iterable["pa.Table"], ids: str) -> None:
        import pyarrow as pa  # noqa: PLC0415

        key = token_hex(8)
        with ExitStack() as opened:
            writers: list[Any] = []
            for table in tables:
                if not writers:
                    files = [
                        opened.enter_context(pa.OSFile(str(path), "wb")) for path in self.paths
                    ]
                    writers = [
                        opened.enter_context(pa.ipc.new_stream(file, table.schema))
                        for file in files
                    ]
                part = hashed(table[ids], key) % len(writers)
                order, ends = (
                    np.argsort(part, kind="stable"),
                    np.cumsum(np.bincount(part, minlength=len(writers))),
                )
                sorted_ = table.take(order)
                for writer, start, end in zip(writers, np.append(0, ends[:-1]), ends, strict=True):
                    if start < end:
                        writer.write_table(sorted_.slice(start, end - start))


def hashed(ids: "pa.ChunkedArray", key: str) -> Indices:
    """A number of at least 0 a cell, the same for the same id; a missing one has any."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415
    from pandas.util import hash_array  # noqa: PLC0415

    if pa.types.is_floating(ids.type):
        found = hash_array(pc.fill_null(ids.cast(pa.float64()), 0.0).to_numpy() + 0.0)  # -0 is 0
    elif pa.types.is_integer(ids.type) or pa.types.is_boolean(ids.type):
        found = hash_array(
            pc.fill_null(ids, False if pa.types.is_boolean(ids.type) else 0).to_numpy()
        )
    else:
        coded = _text(ids).dictionary_encode().combine_chunks()
        known = hash_array(
            coded.dictionary.to_numpy(zero_copy_only=False), hash_key=key, categorize=False
        )
        at = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        found = np.append(known, np.uint64(0))[at]
    return np.asarray(found >> np.uint64(1), dtype=np.intp)


def _text(ids: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Texts, bytes, dates and decimals as something that has a hash; bytes of a text need not be
    UTF-8.
    """
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_temporal(ids.type):
        return ids.cast(pa.int32() if ids.type.bit_width == 32 else pa.int64()).cast(pa.string())
    if pa.types.is_decimal(ids.type) or pa.types.is_null(ids.type):
        return ids.cast(pa.string())
    return ids.cast(pa.large_binary())


@dataclass(frozen=True, repr=False)
class Parted(Blocks):
    """Units of which each lies in one part; ``raw`` makes records of its table, ``rows`` is the
    number of all.

    Guarantee [units_in_parts]: all rows of a unit are in one part, wherever they stood, so totals
    are those of the rows in memory, up to the order of the units.
    """

    units: int
    rows: int
    encoding: Encoding
    parts: Parts
    raw: Callable[["pa.Table"], Raw]

    @property
    def n(self) -> int:
        """Number of units."""
        return self.units

    @property
    def dim(self) -> int:
        """Length of a row."""
        return len(self.encoding.design.names)

    @property
    def size(self) -> int:
        """Parts: in which of them a pass is, and not how many rows it has seen."""
        return len(self.parts.paths)

    @property
    def bulk(self) -> int:
        """Number of rows."""
        return self.rows

    @property
    def room(self) -> float:
        """None: what is here does not fit the memory."""
        return 0.0

    def gathered(self, changed: Change, dim: int, into: Array | None = None) -> Rows:  # noqa: ARG002
        """Refused."""
        raise InputError(
            "there are too many rows of units for memory here: raise DPINFER_MEMORY, a number of megabytes, or take a "
            "part of the units"
        )

    def pieces(self) -> Iterator[Piece]:
        """One a part."""
        for j, path in enumerate(self.parts.paths):
            yield Piece(j, partial(self._blocks, path))

    def _blocks(self, path: Path) -> Iterator[Block]:
        rows = Rows(self.encoding.block(self.raw(self.parts.read(path))))
        for piece in rows.pieces():
            yield from piece.blocks()


def count_ids(
    tables: Iterable["pa.Table"], name: str, number: int, ids: Callable[["pa.Table"], Indices]
) -> int:
    """The number of different ids; ``ids`` gives those of a table as numbers from 0 on."""
    parts = Parts(tables, name, number)
    return sum(int(np.max(ids(parts.read(path)), initial=-1)) + 1 for path in parts.paths)
