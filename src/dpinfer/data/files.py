"""CSV, Parquet and Arrow files as Arrow tables, some rows at a time: only the columns that are asked for are read.

A table may be one file, a folder of files of one kind, or a pattern such as ``visits/*.parquet``; files are read in the
order of their names.  Folders named ``year=2019`` add a column to the files inside.  An error speaks of files and
columns, never of a value.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.data import formats, texts
from dpinfer.data.columns import Category, Outcome, Wanted, near
from dpinfer.data.members import Member, members_of, told_by_folders, with_told
from dpinfer.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_CELLS = 2**20  # decoded at once
_PIECES = 4  # of a pass, decoded at once
_BUFFER = 2**18  # bytes of a column that are read at once


def is_path(native: Any) -> bool:
    """Whether a table is given by where it is."""
    return isinstance(native, str | PathLike)


def read(path: str | PathLike[str], columns: Sequence[Wanted]) -> "pa.Table":
    """The given columns, with all rows."""
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a file is read)

    return pa.concat_tables([blank(path, columns), *tables(path, columns)])


def tables(path: str | PathLike[str], columns: Sequence[Wanted], rows: int = 0) -> Iterator["pa.Table"]:
    """The given columns, some rows after the other, all of them of the types of `blank`.

    ``rows`` is how many are decoded at once, by default as many as make a table of a fixed size.
    """
    members, schema = _named(path, columns), blank(path, columns).schema
    whole = told_by_folders(members)
    for member in members:
        found = _tables(member, columns, whole, rows)
        while (part := _checked(member, partial(_next, found, schema))) is not None:
            yield part


def pieces(path: str | PathLike[str], columns: Sequence[Wanted], size: int) -> Iterator["pa.Table"]:
    """The same in pieces of ``size`` rows, the last one excepted."""
    import pyarrow as pa  # noqa: PLC0415

    left: list[pa.Table] = []
    rows = 0
    for table in tables(path, columns, _PIECES * size):
        left.append(table)
        rows += len(table)
        while rows >= size:
            whole = pa.concat_tables(left)
            yield whole.slice(0, size)
            left, rows = [whole.slice(size)], rows - size
    if rows:
        yield pa.concat_tables(left)


def blank(path: str | PathLike[str], columns: Sequence[Wanted]) -> "pa.Table":
    """The given columns as `read` types them, without their rows.

    All files must agree; one that has nothing but missing values in a column fits all others.  Texts that are levels
    come as codes.
    """
    import pyarrow as pa  # noqa: PLC0415

    members = _named(path, columns)
    whole, coded, fields = told_by_folders(members), _coded(columns), []
    found = [_checked(member, partial(_no_rows, member, columns, whole)).schema for member in members]
    for name in dict.fromkeys(column.name for column in columns):
        kinds = [(_plain(schema.field(name).type), member) for schema, member in zip(found, members, strict=True)]
        kind, first = next((pair for pair in kinds if not pa.types.is_null(pair[0])), kinds[0])
        for other, member in kinds:
            if other != kind and not pa.types.is_null(other):
                raise InputError(
                    f"column {name!r} is {kind} in {first.path.name!r} and {other} in {member.path.name!r}: write all "
                    "files with the same types"
                )
        text = pa.types.is_large_string(kind) and name in coded
        fields.append(pa.field(name, pa.dictionary(pa.int32(), pa.string()) if text else kind))
    return pa.schema(fields).empty_table()


def _coded(columns: Sequence[Wanted]) -> list[str]:
    """The columns whose texts are levels."""
    return [c.name for c in columns if isinstance(c, Category | Outcome) and isinstance((*c.levels, 0)[0], str)]


def _next(found: Iterator["pa.Table"], schema: "pa.Schema") -> "pa.Table | None":
    import pyarrow as pa  # noqa: PLC0415

    table = next(found, None)
    if table is None:
        return None
    return pa.table([_as(table[field.name], field.type) for field in schema], schema=schema)


def _as(cells: "pa.ChunkedArray", kind: "pa.DataType") -> "pa.ChunkedArray":
    """Cells with values, or with codes of 32 bits, whichever is asked for."""
    import pyarrow as pa  # noqa: PLC0415

    if cells.type == kind:
        return cells
    if pa.types.is_null(cells.type):
        return pa.chunked_array([pa.nulls(len(cells), kind)])
    if not pa.types.is_dictionary(kind):
        return cells.cast(kind)
    coded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
    chunks = [(chunk.indices.cast(pa.int32()), chunk.dictionary.cast(kind.value_type)) for chunk in coded.chunks]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(*chunk) for chunk in chunks], kind)


def count(path: str | PathLike[str], columns: Sequence[Wanted]) -> int:
    """The number of rows of a table that has the given columns; it is public."""
    return sum(_checked(member, partial(_count, member)) for member in _named(path, columns))


def types(path: str | PathLike[str]) -> list[tuple[str, Any]]:
    """Names of the columns of a table with their Arrow types, or None in a CSV file, which has none."""
    members = members_of(path)
    return _types(members[0]) + [(name, values.type) for name, values in told_by_folders(members).items()]


def require(name: str, names: Sequence[str], owner: str) -> None:
    """Exactly one column of the given name."""
    if name not in names:
        raise InputError(f"{owner} has no column {name!r}: {near(name, names)}")
    if list(names).count(name) > 1:
        raise InputError(f"{owner} has more than one column {name!r}: rename all but one")


def _types(member: Member) -> list[tuple[str, Any]]:
    if member.kind == "CSV":
        names = _checked(member, lambda: texts.first_line(member.path))
        return [(name, None) for name in formats.separated(member.path.name, names)]
    return [(field.name, field.type) for field in _checked(member, lambda: list(_schema(member)))]


def _named(path: str | PathLike[str], columns: Sequence[Wanted]) -> list[Member]:
    """Files that all have the columns."""
    members = members_of(path)
    for member in members:
        names = [name for name, _ in _types(member)] + [key for key, _ in member.keys]
        owner = f"the file {member.path.name!r}"
        if not any(column.name in names for column in columns):  # the first line may hold values: it is not quoted
            raise InputError(f"{owner} names none of the columns of the formula: does it have a header?")
        for column in columns:
            require(column.name, names, owner)
    return members


def _checked(member: Member, act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (MemoryError, InputError):
        raise
    except Exception as error:  # the reader's own message may quote a value
        fault = type(error).__name__
    remedy = "its first line must hold the names of the columns" if member.kind == "CSV" else "write it again"
    raise InputError(f"check {member.path.name!r}, no readable {member.kind} file ({fault}): {remedy}")


def _tables(member: Member, columns: Sequence[Wanted], whole: dict[str, "pa.Array"], rows: int) -> Iterator["pa.Table"]:
    own = [column for column in columns if column.name not in whole]
    for table in _own_tables(member, own, rows or max(1024, _CELLS // max(len(own), 32))):
        yield with_told(table, member, whole).select([column.name for column in columns])


def _own_tables(member: Member, columns: Sequence[Wanted], rows: int) -> Iterator["pa.Table"]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    names = [column.name for column in columns]
    if member.kind == "CSV":
        yield from texts.tables(member.path, columns)
    elif member.kind == "Parquet":
        with pq.ParquetFile(
            member.path, read_dictionary=_coded(columns), buffer_size=_BUFFER, pre_buffer=False
        ) as file:
            for batch in file.iter_batches(rows, columns=names):
                yield pa.table(batch).select(names) if names else pa.table(batch)
    else:
        for batch in _batches(member.path, names):
            yield pa.table(batch).select(names)


def _no_rows(member: Member, columns: Sequence[Wanted], whole: dict[str, "pa.Array"]) -> "pa.Table":
    own = [column for column in columns if column.name not in whole]
    table = texts.no_rows(own) if member.kind == "CSV" else _schema(member).empty_table()
    return with_told(table, member, whole)


def _plain(kind: "pa.DataType") -> "pa.DataType":
    """The type of the values where a column is stored as codes; texts of any kind have one type."""
    import pyarrow as pa  # noqa: PLC0415

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if str(kind) in ("string", "large_string", "string_view") else kind


def _schema(member: Member) -> Any:
    import pyarrow.parquet  # noqa: PLC0415

    return pyarrow.parquet.read_schema(member.path) if member.kind == "Parquet" else _opened(member.path).schema


def _opened(path: Path, names: Sequence[str] | None = None) -> Any:
    """An Arrow file or, where it is none, an Arrow stream, of which some columns are read, or without them all."""
    import pyarrow as pa  # noqa: PLC0415

    def file() -> Any:  # mapped where nothing is read but sizes: what is read of a mapped file stays in memory
        return pa.memory_map(str(path)) if names is None else pa.OSFile(str(path))

    some = None if names is None else [_opened(path).schema.get_field_index(name) for name in names]
    options = pa.ipc.IpcReadOptions(included_fields=some)
    try:
        return pa.ipc.open_file(file(), options=options)
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(file(), options=options)


def _batches(path: Path, names: Sequence[str] | None = None) -> Iterator[Any]:
    opened = _opened(path, names)
    if hasattr(opened, "get_batch"):
        return map(opened.get_batch, range(opened.num_record_batches))
    return iter(opened)


def _count(member: Member) -> int:
    import pyarrow.parquet  # noqa: PLC0415

    if member.kind == "Parquet":
        return int(pyarrow.parquet.read_metadata(member.path).num_rows)
    if member.kind == "CSV":
        return texts.count(member.path)
    return sum(batch.num_rows for batch in _batches(member.path))
