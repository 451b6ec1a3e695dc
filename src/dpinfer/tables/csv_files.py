"""The records of a CSV file as lines of bytes, before any reader sees them.

One record is one line, whatever it holds: a line ends with LF, and no quote reaches beyond it.  So
nothing that stands in one record can hide or make another one, and the number of records is the
number of line ends after the header.  A line that is no row of the table is broken: `sound` takes
it out and says where it stood.

CSV files as Arrow tables, block by block of their lines.

A CSV file has no types, so its cells are read by the types of the schema: a cell that does not fit
is a missing value.  Of a line that is no row of the table (`dpinfer.tables.csv_files`) all cells
are missing.
"""

import gzip
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.schema.columns import Ids, Number, Wanted

LONGEST = 2**24
"""Bytes of the longest line that is read, without its LF."""

BROKEN = b"\0"
"""Stands for a line that is too long to keep: neither a record nor a header holds a NUL."""

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs write before UTF-8."""

_BLOCK = 2**23  # bytes read at once, at most LONGEST
_LF, _CR, _COMMA, _QUOTE = b'\n\r,"'
_CELL = re.compile(rb'"([^"]*(?:""[^"]*)*)"|([^",]*)')
_BEFORE, _AFTER = b',\n"', b',\n"\r'  # what may stand beside a quote that opens or closes

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class Readable(Protocol):
    """A file of bytes."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        ...

    def readline(self, size: int, /) -> bytes:
        """At most so many bytes, up to the next LF."""
        ...


def blocks(file: Readable) -> Iterator[bytes]:
    """The whole file in pieces of whole lines, each line with its LF; the last line may lack it in
    the file.

    A line of more than `LONGEST` bytes comes as one broken line: it is counted, and takes no
    memory.
    """
    while block := file.read(_BLOCK):
        begun = block.rfind(b"\n") + 1
        if begun < len(block):  # only this line can be longer than a block
            end = file.readline(LONGEST + 1)
            if len(block) - begun + len(end.removesuffix(b"\n")) > LONGEST:
                while end and not end.endswith(b"\n"):
                    end = file.readline(_BLOCK)
                block, end = block[:begun], BROKEN
            block += end.removesuffix(b"\n") + b"\n"
        yield block


def names(line: bytes) -> list[str] | None:
    """The cells of the first line without blanks around them, what is no UTF-8 escaped; None if it
    is malformed.
    """
    line = line.removeprefix(MARK).removesuffix(b"\n").removesuffix(b"\r")
    found = None if b"\0" in line or b"\r" in line else split(line)
    return (
        None
        if found is None
        else [cell.decode("utf-8", errors="surrogateescape").strip() for cell in found]
    )


def split(line: bytes) -> list[bytes] | None:
    """The cells of one line without its end; None if a quote stands where none may stand.

    A cell is free of quotes, or stands between two of them, with those inside doubled.
    """
    cells, at = [], 0
    while found := _CELL.match(line, at):
        quoted, bare = found.groups()
        cells.append(bare if quoted is None else quoted.replace(b'""', b'"'))
        at = found.end()
        if at == len(line):
            return cells
        if line[at] != _COMMA:
            return None
        at += 1
    raise AssertionError("a cell may be empty")


def row(line: bytes, width: int) -> list[bytes] | None:
    """The cells of one record without its LF; None if it is broken.  This is the rule; `sound` is
    the same for many.
    """
    line = line.removesuffix(b"\r")
    if not line or b"\0" in line or b"\r" in line or not _is_text(line):
        return None
    cells = split(line)
    return cells if cells is not None and len(cells) == width else None


def count_lines(block: bytes) -> int:
    """The number of lines of a block."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LF))


def plain(block: bytes) -> bool:
    """Whether no line of a block is broken, but for the number of its cells and blank lines; this
    is quick.
    """
    if b"\0" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
        return False
    return _is_text(block) and (b'"' not in block or _well_quoted(np.frombuffer(block, np.uint8)))


def sound(block: bytes, width: int) -> tuple[bytes, Flags]:
    """The block without its broken lines, and which lines these were."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LF)
    starts = np.concatenate([[0], ends[:-1] + 1])
    broken = _broken(data, starts, ends, width)
    if not _is_text(block):
        for i in np.unique(np.searchsorted(ends, np.flatnonzero(data > 127))):
            broken[i] |= not _is_text(block[starts[i] : ends[i]])
    return data[np.repeat(~broken, ends + 1 - starts)].tobytes(), broken


def _is_text(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _well_quoted(data: Bytes) -> bool:
    """Whether all quotes come in pairs within a line, the first at the start of a cell, the second
    at its end.

    Of a doubled quote the first closes and the second opens again.  Every CR is known to stand
    before an LF.
    """
    quotes = np.flatnonzero(data == _QUOTE)
    if (np.searchsorted(quotes, np.flatnonzero(data == _LF)) % 2).any():
        return False
    before = data.take(
        quotes[0::2] - 1, mode="wrap"
    )  # before the first byte of a block stands its last one, an LF
    after = data.take(quotes[1::2] + 1, mode="clip")
    return bool(_any_of(before, _BEFORE).all() and _any_of(after, _AFTER).all())


def _any_of(data: Bytes, edges: bytes) -> Flags:
    """Which bytes are one of a few."""
    found: Flags = data == edges[0]
    for edge in edges[1:]:
        found |= data == edge
    return found


def _broken(data: Bytes, starts: Places, ends: Places, width: int) -> Flags:
    """Which lines are broken in any way but by bytes that are no UTF-8."""
    with_cr = (ends > starts) & (
        data[ends - 1] == _CR
    )  # one CR before the LF belongs to the line end
    quotes = np.flatnonzero(data == _QUOTE)
    many = _count(ends, quotes)
    paired = quotes[
        np.repeat(many % 2 == 0, many)
    ]  # of the lines that have as many opening as closing ones
    opening, closing = paired[0::2], paired[1::2]
    stray = [
        opening[~_any_of(data[opening - 1], _BEFORE)],
        closing[~_any_of(data[closing + 1], _AFTER)],
    ]
    inside = np.zeros(len(data), np.uint8)
    inside[paired] = 1
    np.bitwise_xor.accumulate(inside, out=inside)

    broken: Flags = (many % 2 == 1) | (ends - starts == with_cr)
    broken[np.searchsorted(ends, np.concatenate(stray))] = True
    broken |= _count(ends, np.flatnonzero(data == 0)) > 0
    broken |= _count(ends, np.flatnonzero(data == _CR)) > with_cr
    broken |= _count(ends, np.flatnonzero((data == _COMMA) & (inside == 0))) != width - 1
    return broken


def _count(ends: Places, places: Places) -> Places:
    """How many of the places lie in each line."""
    return np.diff(np.searchsorted(places, ends), prepend=0)


if TYPE_CHECKING:
    import pyarrow as pa


def first_line(path: Path) -> list[str]:
    """The names of the columns."""
    with _bytes(path) as file:
        return _records(file)[0]


def count(path: Path) -> int:
    """The number of rows."""
    with _bytes(path) as file:
        return sum(count_lines(block) for block in _records(file)[1])


def _bytes(path: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _records(file: Readable) -> tuple[list[str], Iterator[bytes]]:
    """The names of the columns, and blocks of the lines that follow them."""
    parts = blocks(file)
    first, _, rest = next(parts, BROKEN).partition(b"\n")  # an empty file has no header
    header = names(first)
    if header is None:
        raise ValueError
    return header, chain([rest] if rest else [], parts)


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
        return block, plain(block)

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
    """One row a line, with the given columns out of ``width``; missing values in the lines that are
    broken.
    """
    import pyarrow as pa  # noqa: PLC0415

    found = _parsed(block, width, places) if plain else None
    if found is not None:
        return pa.table(
            {column.name: _cells(found[str(place)], column) for place, column in places.items()}
        )
    good, broken = sound(block, width)
    found = _parsed(good, width, places)
    if found is None:  # no line is left, or the reader has a rule of its own
        found = _one_by_one(good, width, places)
    at = pa.array(np.cumsum(~broken) - 1, mask=broken)
    cells = {column.name: _cells(found[str(place)], column) for place, column in places.items()}
    return pa.table({name: column.combine_chunks().take(at) for name, column in cells.items()})


def _parsed(block: bytes, width: int, places: dict[int, Wanted]) -> "pa.Table | None":
    """What Arrow's reader finds in a block: numbers where all cells fit, else texts; None unless it
    is one row a line.

    The names of the columns are their places, as the header may hold a name twice.  The reader
    skips blank lines, so that their number tells of them.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    texts = {str(place): pa.string() for place in places}
    kinds = {
        str(place): pa.float64() if _numeric(column) else pa.string()
        for place, column in places.items()
    }
    for types, size in ((kinds, _PIECE), (texts, len(block))):
        try:
            found = csv.read_csv(
                pa.BufferReader(MARK + block if block.startswith(MARK) else block),  # it drops one
                read_options=csv.ReadOptions(
                    column_names=[str(j) for j in range(width)], block_size=size
                ),
                convert_options=csv.ConvertOptions(
                    include_columns=list(types), column_types=types, strings_can_be_null=False
                ),
            )
        except pa.ArrowException:
            continue
        if len(found) == count_lines(block) and all(_finite(column) for column in found.columns):
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

    rows = [row(line, width) or [] for line in block.split(b"\n")[:-1]]
    texts = {str(j): pa.array([row[j].decode() for row in rows], pa.string()) for j in places}
    return pa.table({j: pa.chunked_array([cells]) for j, cells in texts.items()})


def _cells(cells: "pa.ChunkedArray", column: Wanted) -> "pa.ChunkedArray":
    """Text, booleans or numbers, as the schema says; null where a cell is none of them.  No id has
    blanks around it.
    """
    import pyarrow.compute as pc  # noqa: PLC0415

    if isinstance(column, Ids):
        return pc.utf8_trim_whitespace(cells)
    if _boolean(column):
        return _booleans(cells)
    return _numbers(cells) if _numeric(column) else cells


def _boolean(column: Wanted) -> bool:
    levels = () if isinstance(column, Ids) else column.levels
    return (isinstance(column, Number) and column.kind == "boolean") or isinstance(
        (*levels, "")[0], bool
    )


def _numeric(column: Wanted) -> bool:
    return not (
        _boolean(column) or isinstance(column, Ids) or isinstance((*column.levels, 0)[0], str)
    )


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
    true, false = (
        pc.is_in(words, pa.array(words_of))
        for words_of in (["true", "1", "1.0"], ["false", "0", "0.0"])
    )
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
