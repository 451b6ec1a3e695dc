"""CSV files as Arrow tables: one record is one line, whatever it holds.

A line ends with LF, and no quote reaches beyond it.  So nothing that stands in one record can hide
or make another one, and the number of records is the number of line ends after the header.  `row`
is the rule for one line; a line that is no row of the table is broken, and all its cells are
missing.  Arrow's own reader is faster and has other rules, so it is asked only about blocks of
lines in which no quote and no line end can be read in two ways (`plain`), and believed only if it
finds one row per line.

A CSV file has no types, so its cells are read by the types of the schema: a cell that does not fit
is a missing value.
"""

import gzip
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from dpinfer.schema.columns import Ids, Number, Wanted

LONGEST = 2**24
"""Bytes of the longest line that is read, without its LF."""

BROKEN = b"\0"
"""Stands for a line that is too long to keep: neither a record nor a header holds a NUL."""

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs write before UTF-8."""

NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""The pattern of a cell that counts as a number; there is one way to read it, so that none takes long."""

_BLOCK = 2**23  # bytes read at once, at most LONGEST
_PIECE = 2**20  # bytes that one thread of Arrow's reader takes at once
_FEW = 2**14  # bytes of a block with a broken line that is read line by line
_LF, _COMMA, _QUOTE = b'\n,"'
_CELL = re.compile(rb'"([^"]*(?:""[^"]*)*)"|([^",]*)')
_BEFORE, _AFTER = b',\n"', b',\n"\r'  # bytes that may stand beside a quote that opens or closes
_TRUE = ["true", "1", "1.0"]
_FALSE = ["false", "0", "0.0"]


class Readable(Protocol):
    """A file of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        ...

    def readline(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, up to the next LF."""
        ...


def column_names(path: Path) -> list[str]:
    """Return the names in the first line.  Nothing after it is read: a record may be very long."""
    with _bytes(path) as file:
        header = file.readline(LONGEST + 1)
        if not header or len(header.removesuffix(b"\n")) > LONGEST:
            header = BROKEN
        return _names(header.removesuffix(b"\n"))


def count(path: Path) -> int:
    """Return the number of rows."""
    with _bytes(path) as file:
        return sum(_count_records(block) for block in _records(file)[1])


def longest_record(path: Path) -> int:
    """Return the number of bytes of the longest line, the header included, without its LF."""
    longest = 0
    begun = 0
    with _bytes(path) as file:
        while block := file.read(_BLOCK):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LF)
            if not len(ends):
                begun += len(block)
                continue
            lengths = np.diff(ends, prepend=-1) - 1
            lengths[0] += begun
            longest = max(longest, int(lengths.max()))
            begun = len(block) - int(ends[-1]) - 1
    return max(longest, begun)


def tables(path: Path, columns: Sequence[Wanted]) -> Iterator[pa.Table]:
    """Yield the rows in order, with the given columns."""
    with _bytes(path) as file, ThreadPoolExecutor(1) as pool:
        header, blocks = _records(file)
        positions = {header.index(column.name): column for column in columns}
        for block, is_plain in _judged(blocks, pool):
            yield from _tables(block, is_plain, len(header), positions)


def no_rows(columns: Sequence[Wanted]) -> pa.Table:
    """Return a table without rows, of the types that the schema says."""
    nothing = pa.chunked_array([pa.array([], pa.string())])
    return pa.table({column.name: _typed(nothing, column) for column in columns})


def first_rows(path: Path, number: int) -> list[list[bytes]]:
    """Return the cells of the first lines after the header, at most ``number`` and broken ones left
    out.
    """
    with _bytes(path) as file:
        header, blocks = _records(file)
        records = next(blocks, b"").split(b"\n")[:-1]
    rows = [row(record, len(header)) for record in records[:number]]
    return [cells for cells in rows if cells is not None]


def count_no_text(path: Path) -> int:
    """Return the number of rows that are not UTF-8."""
    with _bytes(path) as file:
        blocks = (block for block in _records(file)[1] if not _is_text(block))
        return sum(not _is_text(record) for block in blocks for record in block.split(b"\n"))


def row(record: bytes, width: int) -> list[bytes] | None:
    """Return the cells of one record without its LF; None if it is broken.  This is the rule."""
    record = record.removesuffix(b"\r")
    if not record or b"\0" in record or b"\r" in record or not _is_text(record):
        return None
    cells = split(record)
    if cells is None or len(cells) != width:
        return None
    return cells


def split(record: bytes) -> list[bytes] | None:
    """Return the cells of one record without its end; None if a quote stands where none may stand.

    A cell is free of quotes, or stands between two of them, with those inside doubled.
    """
    if b'"' not in record:
        return record.split(b",")
    cells = []
    at = 0
    while match := _CELL.match(record, at):
        quoted, bare = match.groups()
        cells.append(bare if quoted is None else quoted.replace(b'""', b'"'))
        at = match.end()
        if at == len(record):
            return cells
        if record[at] != _COMMA:
            return None
        at += 1
    raise AssertionError("a cell may be empty")


def plain(block: bytes) -> bool:
    """Whether no line of a block is broken, but for the number of its cells and blank lines; this
    is quick.
    """
    if b"\0" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
        return False
    if not _is_text(block):
        return False
    return b'"' not in block or _well_quoted(np.frombuffer(block, np.uint8))


def _bytes(path: Path) -> gzip.GzipFile | BinaryIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path)
    return path.open("rb")


def _records(file: Readable) -> tuple[list[str], Iterator[bytes]]:
    """Return the names of the columns, and blocks of the lines that follow them."""
    blocks = _blocks(file)
    first, _, rest = next(blocks, BROKEN).partition(b"\n")  # an empty file has no header
    header = _names(first)
    if rest:
        blocks = chain([rest], blocks)
    return header, blocks


def _names(line: bytes) -> list[str]:
    """Return the cells of the first line without blanks around them, what is not UTF-8 escaped."""
    line = line.removeprefix(MARK).removesuffix(b"\r")
    cells = None
    if b"\0" not in line and b"\r" not in line:
        cells = split(line)
    if cells is None:
        raise ValueError
    return [cell.decode("utf-8", errors="surrogateescape").strip() for cell in cells]


def _blocks(file: Readable) -> Iterator[bytes]:
    """Yield the whole file in pieces of whole lines, each line with its LF; the last line may lack
    it in the file.

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
                block = block[:begun]
                end = BROKEN
            block += end.removesuffix(b"\n") + b"\n"
        yield block


def _judged(blocks: Iterator[bytes], pool: ThreadPoolExecutor) -> Iterator[tuple[bytes, bool]]:
    """Yield the blocks, and whether each is plain: the next one is read and judged while one is
    parsed.
    """

    def judge() -> tuple[bytes, bool]:
        block = next(blocks, b"")
        return block, plain(block)

    ahead = pool.submit(judge)
    while (judged := ahead.result())[0]:
        ahead = pool.submit(judge)
        yield judged


def _count_records(block: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LF))


def _is_text(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _well_quoted(data: npt.NDArray[np.uint8]) -> bool:
    """Whether all quotes come in pairs within a line, the first at the start of a cell, the second
    at its end.

    Of a doubled quote the first closes and the second opens again.  Every CR is known to stand
    before an LF.
    """
    quotes = np.flatnonzero(data == _QUOTE)
    if (np.searchsorted(quotes, np.flatnonzero(data == _LF)) % 2).any():
        return False
    # Before the first byte of a block stands its last one, an LF.
    before = data.take(quotes[0::2] - 1, mode="wrap")
    after = data.take(quotes[1::2] + 1, mode="clip")
    return bool(np.isin(before, list(_BEFORE)).all() and np.isin(after, list(_AFTER)).all())


def _tables(
    block: bytes, is_plain: bool, width: int, positions: dict[int, Wanted]
) -> Iterator[pa.Table]:
    """Yield one row per line, with the given columns out of ``width``; missing values in broken
    lines.

    A block with a broken line is halved again and again, so that all lines but the few around it
    are still read at once.
    """
    cells = None
    if is_plain:
        cells = _by_arrow(block, width, positions)
    if cells is None:
        middle = block.find(b"\n", len(block) // 2) + 1
        if len(block) > _FEW and middle < len(block):
            for half in (block[:middle], block[middle:]):
                yield from _tables(half, plain(half), width, positions)
            return
        cells = _record_by_record(block, width, positions)
    yield pa.table({column.name: _typed(cells[at], column) for at, column in positions.items()})


def _by_arrow(
    block: bytes, width: int, positions: dict[int, Wanted]
) -> dict[int, pa.ChunkedArray] | None:
    """Return the columns of a block by Arrow's reader: numbers where all cells fit, else texts;
    None unless it is one row per line.

    The names of the columns are their positions, as the header may hold a name twice.  The reader
    skips blank lines, which shows in the number of rows.
    """
    texts = {str(at): pa.string() for at in positions}
    types = dict(texts)
    for at, column in positions.items():
        if _is_numeric(column):
            types[str(at)] = pa.float64()
    if block.startswith(MARK):
        block = MARK + block  # the reader drops one
    for kinds, size in ((types, _PIECE), (texts, len(block))):
        try:
            table = csv.read_csv(
                pa.BufferReader(block),
                read_options=csv.ReadOptions(
                    column_names=[str(at) for at in range(width)], block_size=size
                ),
                convert_options=csv.ConvertOptions(
                    include_columns=list(kinds), column_types=kinds, strings_can_be_null=False
                ),
            )
        except pa.ArrowException:
            continue
        if len(table) == _count_records(block) and all(map(_is_finite, table.columns)):
            return {at: table[str(at)] for at in positions}
    return None


def _is_finite(cells: pa.ChunkedArray) -> bool:
    """Whether there is no word for an infinity or for what is not a number."""
    return cells.type != pa.float64() or pc.all(pc.is_finite(cells)).as_py() is not False


def _record_by_record(
    block: bytes, width: int, positions: dict[int, Wanted]
) -> dict[int, pa.ChunkedArray]:
    """Return the texts of columns by the rule; null in a line that is broken."""
    missing: list[bytes | None] = [None] * len(positions)
    rows = []
    for record in block.split(b"\n")[:-1]:
        cells = row(record, width)
        rows.append(missing if cells is None else [cells[at] for at in positions])
    columns = zip(*rows, strict=True)
    return {
        at: pa.chunked_array([pa.array(column, pa.string())])
        for at, column in zip(positions, columns, strict=True)
    }


def _typed(cells: pa.ChunkedArray, column: Wanted) -> pa.ChunkedArray:
    """Return text, which dates are too, booleans or numbers, as the schema says; null where a cell
    is none of them.  No id has blanks around it.
    """
    if isinstance(column, Ids):
        return pc.utf8_trim_whitespace(cells)
    if _is_boolean(column):
        return _booleans(cells)
    if _is_numeric(column):
        return _numbers(cells)
    return cells


def is_date(column: Wanted) -> bool:
    """Whether a column holds dates, which a CSV file writes as texts."""
    return isinstance(column, Number) and column.kind == "date"


def _is_boolean(column: Wanted) -> bool:
    if isinstance(column, Ids):
        return False
    if isinstance(column, Number) and column.kind == "boolean":
        return True
    return bool(column.levels) and isinstance(column.levels[0], bool)


def _is_numeric(column: Wanted) -> bool:
    if isinstance(column, Ids) or _is_boolean(column) or is_date(column):
        return False
    return not column.levels or not isinstance(column.levels[0], str)


def _numbers(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    if cells.type == pa.float64():
        return cells
    trimmed = pc.utf8_trim_whitespace(cells)
    fits = pc.match_substring_regex(trimmed, f"^{NUMBER}$")
    return pc.if_else(fits, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())


def _booleans(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    true = pc.is_in(words, pa.array(_TRUE))
    false = pc.is_in(words, pa.array(_FALSE))
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
