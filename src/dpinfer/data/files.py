"""CSV, Parquet and Arrow files as Arrow tables: only the columns that are asked for are read.

A CSV file has no types, so its cells are read by the types of the schema: a cell that does not fit is a missing value.
Of a line that is no row of the table (`dpinfer.data.lines`) all cells are missing.
An error speaks of the file and its columns, never of a value.
"""

import gzip
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dpinfer.data import formats, lines
from dpinfer.data.columns import Ids, Number, Wanted, near
from dpinfer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS = {
    ".csv": "CSV",
    ".csv.gz": "CSV",
    ".parquet": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
}


def read(path: str | PathLike[str], columns: Sequence[Wanted]) -> "pa.Table":
    """The given columns of a file."""
    path, kind = _named(path, columns)
    if kind == "CSV":
        return _checked(path, kind, lambda: _csv(path, columns))
    return _checked(path, kind, lambda: _typed(path, kind, [column.name for column in columns]))


def blank(path: str | PathLike[str], columns: Sequence[Wanted]) -> "pa.Table":
    """The given columns of a file as `read` types them, without their rows."""
    path, kind = _named(path, columns)
    if kind == "CSV":
        return _no_rows(columns)
    names = [column.name for column in columns]
    return _checked(path, kind, lambda: _schema(path, kind).empty_table().select(names))


def count(path: str | PathLike[str], columns: Sequence[Wanted]) -> int:
    """The number of rows of a file that has the given columns; it is public."""
    path, kind = _named(path, columns)
    rows: int = _checked(path, kind, lambda: _count(path, kind))
    return rows


def _named(path: str | PathLike[str], columns: Sequence[Wanted]) -> tuple[Path, str]:
    """A file that has all the columns, and its kind."""
    path, kind = _file(path)
    names = [name for name, _ in types(path)]
    if not any(column.name in names for column in columns):  # the first line may hold values: it is not quoted
        raise InputError(f"the file {path.name!r} names none of the columns of the formula: does it have a header?")
    for column in columns:
        require(column.name, names, f"the file {path.name!r}")
    return path, kind


def types(path: str | PathLike[str]) -> list[tuple[str, Any]]:
    """Names of the columns of a file with their Arrow types, or None in a CSV file, which has none."""
    path, kind = _file(path)
    if kind == "CSV":
        names = formats.separated(path.name, _checked(path, kind, lambda: _first_line(path)))
        return [(name, None) for name in names]
    fields = _checked(path, kind, lambda: list(_schema(path, kind)))
    return [(field.name, field.type) for field in fields]


def require(name: str, names: Sequence[str], owner: str) -> None:
    """Exactly one column of the given name."""
    if name not in names:
        raise InputError(f"{owner} has no column {name!r}: {near(name, names)}")
    if list(names).count(name) > 1:
        raise InputError(f"{owner} has more than one column {name!r}: rename all but one")


def _file(path: str | PathLike[str]) -> tuple[Path, str]:
    path = Path(path)
    ends = [end for end in _KINDS if path.name.lower().endswith(end)]
    if not ends:
        raise formats.refusal(path.name, _KINDS)
    try:
        found = path.is_file()
    except (OSError, ValueError):
        found = False
    if not found:
        raise InputError(f"there is no file {str(path)!r}: check the path")
    return path, _KINDS[ends[0]]


def _checked(path: Path, kind: str, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except MemoryError:
        raise
    except Exception as error:  # the reader's own message may quote a value
        fault = type(error).__name__
    remedy = "its first line must hold the names of the columns" if kind == "CSV" else "write it again"
    raise InputError(f"check {path.name!r}, no readable {kind} file ({fault}): {remedy}")


def _first_line(path: Path) -> list[str]:
    with _bytes(path) as file:
        return _records(file)[0]


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


def _schema(path: Path, kind: str) -> Any:
    import pyarrow.parquet  # noqa: PLC0415  (heavy: loaded when a file is read)

    return pyarrow.parquet.read_schema(path) if kind == "Parquet" else _opened(path).schema


def _typed(path: Path, kind: str, names: list[str]) -> "pa.Table":
    import pyarrow.parquet  # noqa: PLC0415

    if kind == "Parquet":
        with pyarrow.parquet.ParquetFile(path) as file:
            return file.read(columns=names)
    return _opened(path).read_all().select(names)


def _opened(path: Path) -> Any:
    """An Arrow file or, where it is none, an Arrow stream."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        return pa.ipc.open_file(pa.memory_map(str(path)))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.memory_map(str(path)))


def _count(path: Path, kind: str) -> int:
    import pyarrow.parquet  # noqa: PLC0415

    if kind == "Parquet":
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    if kind == "Arrow":
        return len(_opened(path).read_all())
    with _bytes(path) as file:
        return sum(lines.count(block) for block in _records(file)[1])


def _csv(path: Path, columns: Sequence[Wanted]) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415

    with _bytes(path) as file, ThreadPoolExecutor(1) as pool:
        names, blocks = _records(file)
        places = {names.index(column.name): column for column in columns}
        rows = (_rows(block, plain, len(names), places) for block, plain in _judged(blocks, pool))
        return pa.concat_tables([_no_rows(columns), *rows])


def _judged(blocks: Iterator[bytes], pool: ThreadPoolExecutor) -> Iterator[tuple[bytes, bool]]:
    """The blocks, and whether each is plain: the next one is read and judged while one is parsed."""

    def judge() -> tuple[bytes, bool]:
        block = next(blocks, b"")
        return block, lines.plain(block)

    ahead = pool.submit(judge)
    while (found := ahead.result())[0]:
        ahead = pool.submit(judge)
        yield found


def _no_rows(columns: Sequence[Wanted]) -> "pa.Table":
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
