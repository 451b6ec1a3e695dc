"""Files that are not read, and what to do with them.

The files of a table: one, those of a folder, those of a pattern; and the columns that names of
folders tell.

CSV, Parquet and Arrow files as Arrow tables, some rows at a time: only the columns that are asked
for are read.

A table may be one file, a folder of files of one kind, or a pattern such as ``visits/*.parquet``;
files are read in the order of their names.  Folders named ``year=2019`` add a column to the files
inside.  An error speaks of files and columns, never of a value.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from dpinfer.errors import InputError
from dpinfer.schema.columns import Category, Outcome, Wanted, near
from dpinfer.tables import csv_files

_OTHERS = {
    ".dta": ("a Stata file", "in Python: pandas.read_stata('{file}').to_parquet('{stem}.parquet')"),
    ".sav": ("an SPSS file", "in Python: pandas.read_spss('{file}').to_parquet('{stem}.parquet')"),
    ".zsav": ("an SPSS file", "in Python: pandas.read_spss('{file}').to_parquet('{stem}.parquet')"),
    ".sas7bdat": (
        "a SAS file",
        "in Python: pandas.read_sas('{file}', encoding='infer').to_parquet('{stem}.parquet')",
    ),
    ".xpt": (
        "a SAS file",
        "in Python: pandas.read_sas('{file}', encoding='utf-8').to_parquet('{stem}.parquet')",
    ),
    ".xlsx": (
        "an Excel file",
        "save the sheet as CSV UTF-8 (comma delimited), with names in the first line",
    ),
    ".xls": (
        "an Excel file",
        "save the sheet as CSV UTF-8 (comma delimited), with names in the first line",
    ),
    ".ods": (
        "a spreadsheet",
        "save the sheet as CSV in UTF-8 with commas, with names in the first line",
    ),
    ".rds": ("an R file", "in R: arrow::write_parquet(readRDS('{file}'), '{stem}.parquet')"),
    ".rdata": (
        "an R file",
        "in R: load('{file}'), then arrow::write_parquet(TABLE, '{stem}.parquet')",
    ),
    ".tsv": (
        "separated by tabs",
        "in Python: pandas.read_csv('{file}', sep='\\t').to_parquet('{stem}.parquet')",
    ),
    ".zip": ("packed", "unpack it; a CSV file may be packed by gzip, as .csv.gz"),
}
_SIGNS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def refusal(file: str, known: Iterable[str]) -> InputError:
    """The error for a table whose name does not end as that of a readable file."""
    for end, (kind, remedy) in _OTHERS.items():
        if file.lower().endswith(end):
            told = remedy.format(file=file, stem=file[: -len(end)])
            return InputError(
                f"{file!r} is {kind}, which is not read here: write it as Parquet or CSV; {told}"
            )
    common = (".csv", ".parquet")
    others = ", ".join(sorted(set(known) - {*common}))
    return InputError(
        f"the table {file!r} must end in {' or '.join(common)}, or in {others}: write it as one of them"
    )


def separated(file: str, names: list[str]) -> list[str]:
    """The names in the first line of a CSV file, refused if another sign than the comma separates
    them.

    Such a file may also have commas for decimal points, and what a comma means must not be guessed
    from cells.
    """
    for sign, words in _SIGNS.items():
        if sum(name.count(sign) for name in names) >= len(names):  # more of them than commas
            raise InputError(
                f"the names in the first line of {file!r} are separated by {words}, not by commas: write it with "
                "commas, and numbers with decimal points; in Python: "
                f"pandas.read_csv({file!r}, sep={sign!r}, decimal=',').to_parquet(...), without decimal= where numbers "
                "have points"
            )
    return names


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
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # what writers call a folder of missing values


@dataclass(frozen=True)
class Member:
    """One file of a table, its kind, and the columns that its folders tell, each with a text or
    nothing.
    """

    path: Path
    kind: str
    keys: tuple[tuple[str, str | None], ...] = ()


def members_of(path: str | PathLike[str]) -> list[Member]:
    """The files of a table, in the order of their names."""
    path = Path(path)
    try:
        folder, there = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        folder, there = False, False
    if folder:
        inside = sorted(
            file for file in path.rglob("*") if _visible(file.relative_to(path)) and _kind(file)
        )
        return _alike(
            [_member(file, path) for file in inside if file.is_file()], f"the folder {str(path)!r}"
        )
    if not there and has_magic(str(path)):
        found = sorted(map(Path, glob(str(path), recursive=True)))
        members = [
            _member(file, Path(path.anchor)) for file in found if file.is_file() and _kind(file)
        ]
        return _alike(members, f"the pattern {str(path)!r}")
    if not _kind(path):
        raise refusal(path.name, _KINDS)
    if not there:
        raise InputError(f"there is no file {str(path)!r}: check the path")
    return [Member(path, _kind(path))]


def _member(file: Path, root: Path) -> Member:
    folders = file.relative_to(root).parts[:-1] if file.is_relative_to(root) else file.parts[:-1]
    keys = [part.partition("=") for part in folders if "=" in part]
    told = tuple(
        (unquote(key), None if value == _NOTHING else unquote(value)) for key, _, value in keys
    )
    return Member(file, _kind(file), told)


def _alike(members: list[Member], owner: str) -> list[Member]:
    """Files of one kind, whose folders tell the same columns."""
    if not members:
        raise InputError(f"{owner} holds no file that is read: {', '.join(_KINDS)}")
    if len({member.kind for member in members}) > 1:
        raise InputError(
            f"{owner} holds files of different kinds: name one kind, such as *.parquet"
        )
    if len({tuple(key for key, _ in member.keys) for member in members}) > 1:
        raise InputError(
            f"{owner} has folders such as key=value, but not the same ones for all files"
        )
    return members


def _visible(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def _kind(path: Path) -> str:
    return next((kind for end, kind in _KINDS.items() if path.name.lower().endswith(end)), "")


def told_by_folders(members: list[Member]) -> dict[str, "pa.Array"]:
    """The columns that folders tell, one value a file: integers if all are, else texts."""
    import pyarrow as pa  # noqa: PLC0415

    found = {}
    for j, (key, _) in enumerate(members[0].keys):
        told = [member.keys[j][1] for member in members]
        whole = all(
            text is None or (text.removeprefix("-").isdecimal() and len(text) < 19) for text in told
        )
        found[key] = (
            pa.array([None if t is None else int(t) for t in told], pa.int64())
            if whole
            else pa.array(told)
        )
    return found


def with_told(table: "pa.Table", member: Member, whole: dict[str, "pa.Array"]) -> "pa.Table":
    """The table of a file with the columns that its folders tell."""
    import pyarrow as pa  # noqa: PLC0415

    for name, values in whole.items():
        told = dict(member.keys)[name]
        scalar = pa.scalar(
            told if told is None or pa.types.is_string(values.type) else int(told), values.type
        )
        table = table.append_column(name, pa.repeat(scalar, len(table)))
    return table


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


def tables(
    path: str | PathLike[str], columns: Sequence[Wanted], rows: int = 0
) -> Iterator["pa.Table"]:
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

    All files must agree; one that has nothing but missing values in a column fits all others.
    Texts that are levels come as codes.
    """
    import pyarrow as pa  # noqa: PLC0415

    members = _named(path, columns)
    whole, coded, fields = told_by_folders(members), _coded(columns), []
    found = [
        _checked(member, partial(_no_rows, member, columns, whole)).schema for member in members
    ]
    for name in dict.fromkeys(column.name for column in columns):
        kinds = [
            (_plain(schema.field(name).type), member)
            for schema, member in zip(found, members, strict=True)
        ]
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
    return [
        c.name
        for c in columns
        if isinstance(c, Category | Outcome) and isinstance((*c.levels, 0)[0], str)
    ]


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
    chunks = [
        (chunk.indices.cast(pa.int32()), chunk.dictionary.cast(kind.value_type))
        for chunk in coded.chunks
    ]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(*chunk) for chunk in chunks], kind)


def count(path: str | PathLike[str], columns: Sequence[Wanted]) -> int:
    """The number of rows of a table that has the given columns; it is public."""
    return sum(_checked(member, partial(_count, member)) for member in _named(path, columns))


def types(path: str | PathLike[str]) -> list[tuple[str, Any]]:
    """Names of the columns of a table with their Arrow types, or None in a CSV file, which has
    none.
    """
    members = members_of(path)
    return _types(members[0]) + [
        (name, values.type) for name, values in told_by_folders(members).items()
    ]


def require(name: str, names: Sequence[str], owner: str) -> None:
    """Exactly one column of the given name."""
    if name not in names:
        raise InputError(f"{owner} has no column {name!r}: {near(name, names)}")
    if list(names).count(name) > 1:
        raise InputError(f"{owner} has more than one column {name!r}: rename all but one")


def _types(member: Member) -> list[tuple[str, Any]]:
    if member.kind == "CSV":
        names = _checked(member, lambda: csv_files.column_names(member.path))
        return [(name, None) for name in separated(member.path.name, names)]
    return [(field.name, field.type) for field in _checked(member, lambda: list(_schema(member)))]


def _named(path: str | PathLike[str], columns: Sequence[Wanted]) -> list[Member]:
    """Files that all have the columns."""
    members = members_of(path)
    for member in members:
        names = [name for name, _ in _types(member)] + [key for key, _ in member.keys]
        owner = f"the file {member.path.name!r}"
        if not any(
            column.name in names for column in columns
        ):  # the first line may hold values: it is not quoted
            raise InputError(
                f"{owner} names none of the columns of the formula: does it have a header?"
            )
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
    remedy = (
        "its first line must hold the names of the columns"
        if member.kind == "CSV"
        else "write it again"
    )
    raise InputError(
        f"check {member.path.name!r}, no readable {member.kind} file ({fault}): {remedy}"
    )


def _tables(
    member: Member, columns: Sequence[Wanted], whole: dict[str, "pa.Array"], rows: int
) -> Iterator["pa.Table"]:
    own = [column for column in columns if column.name not in whole]
    for table in _own_tables(member, own, rows or max(1024, _CELLS // max(len(own), 32))):
        yield with_told(table, member, whole).select([column.name for column in columns])


def _own_tables(member: Member, columns: Sequence[Wanted], rows: int) -> Iterator["pa.Table"]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    names = [column.name for column in columns]
    if member.kind == "CSV":
        yield from csv_files.tables(member.path, columns)
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
    table = csv_files.no_rows(own) if member.kind == "CSV" else _schema(member).empty_table()
    return with_told(table, member, whole)


def _plain(kind: "pa.DataType") -> "pa.DataType":
    """The type of the values where a column is stored as codes; texts of any kind have one type."""
    import pyarrow as pa  # noqa: PLC0415

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if str(kind) in ("string", "large_string", "string_view") else kind


def _schema(member: Member) -> Any:
    import pyarrow.parquet  # noqa: PLC0415

    return (
        pyarrow.parquet.read_schema(member.path)
        if member.kind == "Parquet"
        else _opened(member.path).schema
    )


def _opened(path: Path, names: Sequence[str] | None = None) -> Any:
    """An Arrow file or, where it is none, an Arrow stream, of which some columns are read, or
    without them all.
    """
    import pyarrow as pa  # noqa: PLC0415

    def file() -> (
        Any
    ):  # mapped where nothing is read but sizes: what is read of a mapped file stays in memory
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
        return csv_files.count(member.path)
    return sum(batch.num_rows for batch in _batches(member.path))
