"""CSV files as Arrow tables, block by block of their lines.

A CSV file has no types, so its cells are read by the types of the schema: a cell that does not fit is a missing value.
Of a line that is no row of the table (`dpinfer.data.lines`) all cells are missing.
"""

import gzip
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from dpinfer.data import lines
from dpinfer.data.columns import Ids, Number, Wanted

if TYPE_CHECKING:
    import pyarrow as pa


def first_line(path: Path) -> list[str]:
    """The names of the columns."""
    with _bytes(path) as file:
        return _records(file)[0]


def count(path: Path) -> int:
    """The number of rows."""
    with _bytes(path) as file:
        return sum(lines.count(block) for block in _records(file)[1])


def _bytes(path: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _records(file: lines.Readable) -> tuple[list[str], Iterator[bytes]]:
    """The names of the columns, and blocks of the lines that follow them."""
    blocks = lines.blocks(file)
    first, _, rest = next(blocks, lines.BROKEN).partition(b"\n")  # an empty file has no header
    names = lines.names(first)
    if names is None:
        raise ValueError
    return names, chain([rest] if rest else [], blocks)


def tables(path: Path, columns: Sequence[Wanted]) -> Iterator["pa.Table"]:
    """The rows in order, with the given columns."""
    with _bytes(path) as file, ThreadPoolExecutor(1) as pool:
        names, blocks = _records(file)
        places = {names.index(column.name): column for column in columns}
        for block, plain in _judged(blocks, pool):
            yield _rows(block, plain, len(names), places)


def _judged(blocks: Iterator[bytes], pool: ThreadPoolExecutor) -> Iterator[tuple[bytes, bool]]:
    """The blocks, and whether each is plain: the next one is read and judged while one is parsed."""

    def judge() -> tuple[bytes, bool]:
        block = next(blocks, b"")
        return block, lines.plain(block)

    ahead = pool.submit(judge)
    while (found := ahead.result())[0]:
        ahead = pool.submit(judge)
        yield found


def no_rows(columns: Sequence[Wanted]) -> "pa.Table":
    """A table without rows, of the types that the schema says."""
    import pyarrow as pa  # noqa: PLC0415

    nothing = pa.chunked_array([pa.array([], pa.string())])
    return pa.table({column.name: _cells(nothing, column) for column in columns})


def _rows(block: bytes, plain: bool, width: int, places: dict[int, Wanted]) -> "pa.Table":
    """One row a line, with the given columns out of ``width``; missing values in the lines that are broken."""
    import pyarrow as pa  # noqa: PLC0415

    found = _parsed(block, width, places) if plain else None
    if found is not None:
        return pa.table({column.name: _cells(found[str(place)], column) for place, column in places.items()})
    good, broken = lines.sound(block, width)
    found = _parsed(good, width, places)
    if found is None:  # no line is left, or the reader has a rule of its own
        found = _one_by_one(good, width, places)
    at = pa.array(np.cumsum(~broken) - 1, mask=broken)
    cells = {column.name: _cells(found[str(place)], column) for place, column in places.items()}
    return pa.table({name: column.combine_chunks().take(at) for name, column in cells.items()})


def _parsed(block: bytes, width: int, places: dict[int, Wanted]) -> "pa.Table | None":
    """What Arrow's reader finds in a block: numbers where all cells fit, else texts; None unless it is one row a line.

    The names of the columns are their places, as the header may hold a name twice.  The reader skips blank lines, so
    that their number tells of them.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    texts = {str(place): pa.string() for place in places}
    kinds = {str(place): pa.float64() if _numeric(column) else pa.string() for place, column in places.items()}
    for types, size in ((kinds, _PIECE), (texts, len(block))):
        try:
            found = csv.read_csv(
                pa.BufferReader(lines.MARK + block if block.startswith(lines.MARK) else block),  # it drops one
                read_options=csv.ReadOptions(column_names=[str(j) for j in range(width)], block_size=size),
                convert_options=csv.ConvertOptions(
                    include_columns=list(types), column_types=types, strings_can_be_null=False
                ),
            )
        except pa.ArrowException:
            continue
        if len(found) == lines.count(block) and all(_finite(column) for column in found.columns):
            return found
    return None


_PIECE = 2**20  # bytes that one thread of the reader takes at once


def _finite(cells: "pa.ChunkedArray") -> bool:
    """Whether there is no word for an infinity or for what is not a number."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    return cells.type != pa.float64() or pc.all(pc.is_finite(cells)).as_py() is not False


def _one_by_one(block: bytes, width: int, places: dict[int, Wanted]) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415

    rows = [lines.row(line, width) or [] for line in block.split(b"\n")[:-1]]
    texts = {str(j): pa.array([row[j].decode() for row in rows], pa.string()) for j in places}
    return pa.table({j: pa.chunked_array([cells]) for j, cells in texts.items()})


def _cells(cells: "pa.ChunkedArray", column: Wanted) -> "pa.ChunkedArray":
    """Text, booleans or numbers, as the schema says; null where a cell is none of them.  No id has blanks around it."""
    import pyarrow.compute as pc  # noqa: PLC0415

    if isinstance(column, Ids):
        return pc.utf8_trim_whitespace(cells)
    if _boolean(column):
        return _booleans(cells)
    return _numbers(cells) if _numeric(column) else cells


def _boolean(column: Wanted) -> bool:
    levels = () if isinstance(column, Ids) else column.levels
    return (isinstance(column, Number) and column.kind == "boolean") or isinstance((*levels, "")[0], bool)


def _numeric(column: Wanted) -> bool:
    return not (_boolean(column) or isinstance(column, Ids) or isinstance((*column.levels, 0)[0], str))


_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def _numbers(cells: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    if cells.type == pa.float64():
        return cells
    trimmed = pc.utf8_trim_whitespace(cells)
    fits = pc.match_substring_regex(trimmed, _NUMBER)
    return pc.if_else(fits, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())


def _booleans(cells: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    true, false = (pc.is_in(words, pa.array(words_of)) for words_of in (["true", "1", "1.0"], ["false", "0", "0.0"]))
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
