"""CSV, Parquet and Arrow files as Arrow tables: only the columns that are asked for are read.

A CSV file has no types, so its cells are read by the types of the schema: a cell that does not fit is a missing value.
An error speaks of the file and its columns, never of a value.
"""

import csv
import gzip
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.data.columns import Column, Number, near
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


def read(path: str | PathLike[str], columns: Sequence[Column]) -> "pa.Table":
    """The given columns of a file."""
    path, kind = _named(path, columns)
    if kind == "CSV":
        return _checked(path, kind, lambda: _csv(path, columns))
    return _checked(path, kind, lambda: _typed(path, kind, [column.name for column in columns]))


def blank(path: str | PathLike[str], columns: Sequence[Column]) -> "pa.Table":
    """The given columns of a file as `read` types them, without their rows."""
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a file is read)

    path, kind = _named(path, columns)
    if kind == "CSV":
        nothing = pa.chunked_array([pa.array([], pa.string())])
        return pa.table({column.name: _cells(nothing, column) for column in columns})
    names = [column.name for column in columns]
    return _checked(path, kind, lambda: _schema(path, kind).empty_table().select(names))


def count(path: str | PathLike[str], columns: Sequence[Column]) -> int:
    """The number of rows of a file that has the given columns; it is public."""
    path, kind = _named(path, columns)
    rows: int = _checked(path, kind, lambda: _count(path, kind, columns[0].name))
    return rows


def _named(path: str | PathLike[str], columns: Sequence[Column]) -> tuple[Path, str]:
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
        return [(name, None) for name in _checked(path, kind, lambda: _first_line(path))]
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
        raise InputError(
            f"the table {path.name!r} must end in .csv or .parquet, or in {', '.join(sorted(set(_KINDS) - _COMMON))}"
        )
    try:
        found = path.is_file()
    except (OSError, ValueError):
        found = False
    if not found:
        raise InputError(f"there is no file {str(path)!r}: check the path")
    return path, _KINDS[ends[0]]


_COMMON = {".csv", ".parquet"}


def _checked(path: Path, kind: str, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except MemoryError:
        raise
    except Exception as error:  # the reader's own message may quote a value
        fault = type(error).__name__
    remedy = "every row needs as many cells as the header, in UTF-8" if kind == "CSV" else "write it again"
    raise InputError(f"check {path.name!r}, no readable {kind} file ({fault}): {remedy}")


def _first_line(path: Path) -> list[str]:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        return next(csv.reader(file, strict=True))


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


def _count(path: Path, kind: str, name: str) -> int:
    import pyarrow.parquet  # noqa: PLC0415

    if kind == "Parquet":
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    return len(_texts(path, [name]) if kind == "CSV" else _opened(path).read_all())


def _csv(path: Path, columns: Sequence[Column]) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415

    texts = _texts(path, [column.name for column in columns])
    return pa.table({column.name: _cells(texts[column.name], column) for column in columns})


def _texts(path: Path, names: list[str]) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv as arrow_csv  # noqa: PLC0415

    blank = len(_first_line(path)) > 1  # with one column an empty line is a record
    cells = arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(block_size=_LONGEST_ROW),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=blank),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False
        ),
    )
    return pa.table({name: _decoded(cells[name]) for name in names})


_LONGEST_ROW = 2**24  # bytes


def _decoded(cells: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Bytes as text; what is no UTF-8 becomes text that is no level and no number."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [cell.decode("utf-8", errors="replace") for cell in cells.to_pylist()]
        return pa.chunked_array([pa.array(decoded, pa.string())])


def _cells(texts: "pa.ChunkedArray", column: Column) -> "pa.ChunkedArray":
    """Text, booleans or numbers, as the schema says; null where a cell is none of them."""
    if _boolean(column):
        return _booleans(texts)
    if column.levels and isinstance(column.levels[0], str):
        return texts
    return _numbers(texts)


def _boolean(column: Column) -> bool:
    return (isinstance(column, Number) and column.kind == "boolean") or isinstance((*column.levels, "")[0], bool)


_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def _numbers(texts: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    trimmed = pc.utf8_trim_whitespace(texts)
    fits = pc.match_substring_regex(trimmed, _NUMBER)
    return pc.if_else(fits, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())


def _booleans(texts: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    words = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    true, false = (pc.is_in(words, pa.array(words_of)) for words_of in (["true", "1", "1.0"], ["false", "0", "0.0"]))
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
