"""CSV, Parquet and Arrow files as Arrow tables, some rows at a time.

A table may be one file, a folder of files of one kind, or a pattern such as ``visits/*.parquet``;
files are read in the order of their names.  Folders named ``year=2019`` add a column to the files
inside.  Only the columns that are asked for are read.  An error speaks of files and columns, never
of a value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Indices
from dpinfer.rows import workers
from dpinfer.rows.id_buckets import (
    Parted,
    Parts,
    number_of_parts,
    unit_sizes,
)
from dpinfer.rows.source import Source, require_record_limit
from dpinfer.schema.columns import Category, Ids, Outcome, Wanted
from dpinfer.tables import csv_files
from dpinfer.tables.memory import (
    LONG,
    InMemory,
    Reader,
    identities_of,
    names_of,
    require,
    type_word,
)

T = TypeVar("T")

_KINDS = {
    ".csv": "CSV",
    ".csv.gz": "CSV",
    ".parquet": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
}
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
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # the name that writers give a folder of missing values
_CELLS = 2**20  # decoded at once
_PIECES = 4  # pieces of a pass that are decoded at once
_BUFFER = 2**18  # bytes of a column that are read at once


@dataclass(frozen=True)
class Files:
    """The table in one file, in those of a folder, or in those of a pattern; see
    `dpinfer.tables.table.Table`.
    """

    path: str | PathLike[str]

    @property
    def is_csv(self) -> bool:
        """Whether it is one CSV file."""
        return Path(self.path).name.lower().endswith((".csv", ".csv.gz"))

    def members(self) -> list["Member"]:
        """Return the files."""
        return members_of(self.path)

    def types(self) -> list[tuple[str, str]]:
        """Return the names of the columns, and what their types say: nothing in a CSV file, which
        has none.
        """
        members = self.members()
        fields = members[0].fields()
        fields += [(name, values.type) for name, values in _folder_columns(members).items()]
        return [(name, _word(kind)) for name, kind in fields]

    def blank(self, columns: Sequence[Wanted]) -> nw.DataFrame[Any]:
        """Return the given columns as `opened` types them, without their rows."""
        return nw.from_native(self.schema(columns).empty_table(), eager_only=True)

    def opened(self, columns: Sequence[Wanted]) -> nw.DataFrame[Any]:
        """Return the given columns, with all rows."""
        return nw.from_native(self.read(columns), eager_only=True)

    def require_local(self) -> None:
        """Do nothing: a file can be read here."""

    def count(self, columns: Sequence[Wanted]) -> int:
        """Return the number of rows of a table that has the given columns; it is public."""
        return sum(member.count() for member in self._members(columns))

    def count_units(self, ids: str) -> int:
        """Return the number of different ids."""
        return len(self.unit_sizes(ids))

    def unit_sizes(self, ids: str) -> Indices:
        """Return the number of rows of each unit, counted in parts where ids are too many for memory."""
        wanted = [Ids(ids)]
        parts = number_of_parts(self.count(wanted), 1, workers.memory())
        return unit_sizes(self.tables(wanted), ids, parts, partial(_ids_of, name=ids))

    def longest_record(self) -> int:
        """Return the number of bytes of the longest line of CSV files; 0 for files of other kinds."""
        members = members_of(self.path)
        return max(member.longest_record() for member in members)

    def source(self, reader: Reader, n: int) -> Source:
        """Return the records, read anew in every pass, unless they are kept."""
        rows = self.count(reader.columns)
        if reader.encoder.unit.many:
            return self._units(reader, n, rows)
        opened = self._opened(reader.columns)
        pieces = partial(opened.pieces, rows)
        return reader.records(rows, pieces, workers.memory(), opened.tasks(rows))

    def read(self, columns: Sequence[Wanted]) -> pa.Table:
        """Return the given columns, with all rows."""
        blank = self.schema(columns).empty_table()
        return pa.concat_tables([blank, *self.tables(columns)])

    def tables(self, columns: Sequence[Wanted], rows: int = 0) -> Iterator[pa.Table]:
        """Return the given columns, some rows after the other, all of them of the types of
        `schema`.

        ``rows`` is how many are decoded at once, by default as many as make a table of a fixed
        size.
        """
        return self._opened(columns).tables(columns, rows)

    def schema(self, columns: Sequence[Wanted]) -> pa.Schema:
        """Return the types of the given columns as they are read.

        All files must agree; one that has nothing but missing values in a column fits all others.
        Texts that are levels, or dates, come as codes.
        """
        return self._opened(columns).schema

    def _opened(self, columns: Sequence[Wanted]) -> "Opened":
        """Return the files with the types of the given columns."""
        members = self._members(columns)
        folder_columns = _folder_columns(members)
        schemas = [member.schema(columns, folder_columns) for member in members]
        coded = _text_levels(columns)
        fields = []
        for name in names_of(columns):
            kinds = [_plain(schema.field(name).type) for schema in schemas]
            kind = _agreed(name, kinds, members)
            if pa.types.is_large_string(kind) and name in coded:
                kind = pa.dictionary(pa.int32(), pa.string())
            fields.append(pa.field(name, kind))
        return Opened(members, folder_columns, pa.schema(fields))

    def _members(self, columns: Sequence[Wanted]) -> list["Member"]:
        """Return the files, which must all have the columns."""
        members = self.members()
        for member in members:
            names = [name for name, _ in member.fields()] + [key for key, _ in member.keys]
            owner = f"the file {member.path.name!r}"
            if not any(column.name in names for column in columns):
                # The first line may hold values: it is not quoted.
                raise InputError(
                    f"{owner} names none of the columns that are asked for: does it have a header?"
                )
            for column in columns:
                require(column.name, names, owner)
        return members

    def _units(self, reader: Reader, n: int, rows: int) -> Source:
        """Return all rows of each unit together: in memory or, where that is too small, in parts."""
        require_record_limit(rows, reader.encoder.unit.largest)
        parts = number_of_parts(rows, reader.encoder.width, workers.memory())
        if parts == 1:
            return InMemory(self.read(reader.columns)).source(reader)
        sorted_ = Parts(self.tables(reader.columns), reader.encoder.unit.column, parts)
        return Parted(n, reader.encoder, sorted_, reader.raw)


@dataclass(frozen=True)
class Opened:
    """The files of a table whose columns were looked up: those that folders name, and the types of
    all that will be read.
    """

    members: Sequence["Member"]
    folder_columns: dict[str, pa.Array]
    schema: pa.Schema

    def tables(
        self, columns: Sequence[Wanted], rows: int = 0, *, alone: bool = False
    ) -> Iterator[pa.Table]:
        """Yield some of the columns, some rows after the other.  ``alone`` is for one of several
        workers that read at the same time.
        """
        schema = pa.schema([self.schema.field(name) for name in names_of(columns)])
        for member in self.members:
            parts = member.tables(columns, self.folder_columns, rows, alone=alone)
            while (part := member.checked(partial(next, parts, None))) is not None:
                yield member.checked(partial(_cast, part, schema))

    def pieces(self, rows: int, columns: Sequence[Wanted], size: int) -> Iterator[pa.Table]:
        """Yield some of the columns in pieces of ``size`` rows, the last one excepted; ``rows`` is
        how many there are in all.
        """
        all_columns = len(names_of(columns)) == len(self.schema)
        decoded = _PIECES * size if all_columns else size
        left: list[pa.Table] = []
        read = 0
        for table in self.tables(columns, decoded, alone=not all_columns):
            read += len(table)
            if read > rows:
                break
            left.append(table)
            while (waiting := sum(map(len, left))) >= size:
                joined = left[0] if len(left) == 1 else pa.concat_tables(left)
                yield joined.slice(0, size)
                left = [joined.slice(size)] if waiting > size else []
        if read != rows:
            raise InputError(
                "the files were changed while they were read: fit again when nobody writes to them"
            )
        if left:
            yield pa.concat_tables(left)
        elif not rows:
            yield self.schema.empty_table().select(names_of(columns))

    def tasks(self, rows: int) -> int | None:
        """Return how many tasks the columns are best divided into; None where each has its own.

        A single column stays in the cache of a processor, but every file is opened for it.  A line of a CSV
        file holds all columns.
        """
        if self.members[0].kind == "CSV":
            return 1
        return None if rows >= LONG * len(self.members) else workers.threads()


def _ids_of(table: pa.Table, name: str) -> Any:
    return identities_of(nw.from_native(table, eager_only=True), name)


def _word(kind: pa.DataType | None) -> str:
    if kind is None:
        return ""
    return type_word(nw.from_native(pa.chunked_array([], kind), series_only=True))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values where a column is stored as codes; texts of any kind have one
    type.
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if str(kind) in ("string", "large_string", "string_view"):
        return pa.large_string()
    return kind


def _agreed(name: str, kinds: Sequence[pa.DataType], members: Sequence["Member"]) -> pa.DataType:
    """Return the type of a column in all files."""
    typed = [j for j, kind in enumerate(kinds) if not pa.types.is_null(kind)]
    if not typed:
        return kinds[0]
    first = typed[0]
    for j in typed:
        if kinds[j] != kinds[first]:
            raise InputError(
                f"column {name!r} is {kinds[first]} in {members[first].path.name!r} and {kinds[j]} in "
                f"{members[j].path.name!r}: write all files with the same types"
            )
    return kinds[first]


def _text_levels(columns: Sequence[Wanted]) -> list[str]:
    """Return the columns whose texts are levels, or dates."""
    return [column.name for column in columns if _has_text_levels(column)]


def _has_text_levels(column: Wanted) -> bool:
    if isinstance(column, Category | Outcome):
        return bool(column.levels) and isinstance(column.levels[0], str)
    return csv_files.is_date(column)


def _selected(table: pa.Table, names: list[str]) -> pa.Table:
    """Return the columns in this order, as they mostly are."""
    return table if table.column_names == names else table.select(names)


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.equals(schema):
        return table
    return pa.table([_as(table[field.name], field.type) for field in schema], schema=schema)


def _as(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return cells with values, or with codes of 32 bits, whichever is asked for."""
    if cells.type == kind:
        return cells
    if pa.types.is_null(cells.type):
        return pa.chunked_array([pa.nulls(len(cells), kind)])
    if not pa.types.is_dictionary(kind):
        return cells.cast(kind)
    if not pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_encode()
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices.cast(pa.int32()), chunk.dictionary.cast(kind.value_type)
        )
        for chunk in cells.chunks
    ]
    return pa.chunked_array(chunks, kind)


# The files of a table


@dataclass(frozen=True)
class Member:
    """One file of a table, its kind, and the columns that its folders name, each with a text or
    nothing.
    """

    path: Path
    kind: str
    keys: tuple[tuple[str, str | None], ...] = ()

    def fields(self) -> list[tuple[str, pa.DataType | None]]:
        """Return the names of the columns of the file with their types, or None in a CSV file."""
        if self.kind == "CSV":
            names = self.checked(lambda: csv_files.column_names(self.path))
            return [(name, None) for name in _by_commas(self.path.name, names)]
        return [(field.name, field.type) for field in self.checked(lambda: list(self._schema()))]

    def schema(self, columns: Sequence[Wanted], folder_columns: dict[str, pa.Array]) -> pa.Schema:
        """Return the types of the columns, including those that folders name."""
        return self.checked(
            lambda: (
                self._with_folder_columns(
                    self._no_rows(columns, folder_columns), folder_columns
                ).schema
            )
        )

    def count(self) -> int:
        """Return the number of rows."""
        return self.checked(self._count)

    def longest_record(self) -> int:
        """Return the number of bytes of the longest line; 0 where there are no lines."""
        if self.kind != "CSV":
            return 0
        return self.checked(partial(csv_files.longest_record, self.path))

    @property
    def is_stream(self) -> bool:
        """Whether it is an Arrow stream, in which columns that are not asked for are read, too."""
        if self.kind != "Arrow":
            return False
        return not self.checked(lambda: hasattr(self._arrow(), "get_batch"))

    def tables(
        self,
        columns: Sequence[Wanted],
        folder_columns: dict[str, pa.Array],
        rows: int,
        *,
        alone: bool = False,
    ) -> Iterator[pa.Table]:
        """Yield the columns, ``rows`` rows at a time where the kind of file lets one choose;
        ``alone`` is for one of several workers, which needs no help of others.
        """
        own = [column for column in columns if column.name not in folder_columns]
        names = [column.name for column in columns]
        rows = rows or max(1024, _CELLS // max(len(own), 32))
        for table in self._own_tables(own, rows, alone=alone):
            yield _selected(self._with_folder_columns(table, folder_columns), names)

    def checked(self, act: Callable[[], T]) -> T:
        """Return what ``act`` reads of the file; errors name the file and quote nothing of it."""
        try:
            return act()
        except (MemoryError, InputError):
            raise
        except Exception as error:  # the reader's own message may quote a value
            fault = type(error).__name__
        remedy = "write it again"
        if self.kind == "CSV":
            remedy = "its first line must hold the names of the columns"
        raise InputError(
            f"check {self.path.name!r}, no readable {self.kind} file ({fault}): {remedy}"
        )

    def _with_folder_columns(
        self, table: pa.Table, folder_columns: dict[str, pa.Array]
    ) -> pa.Table:
        """Return the table of the file with the columns that its folders name."""
        for name, values in folder_columns.items():
            value: str | int | None = dict(self.keys)[name]
            if value is not None and pa.types.is_integer(values.type):
                value = int(value)
            scalar = pa.scalar(value, values.type)
            table = table.append_column(name, pa.repeat(scalar, len(table)))
        return table

    def _no_rows(self, columns: Sequence[Wanted], folder_columns: dict[str, pa.Array]) -> pa.Table:
        if self.kind == "CSV":
            return csv_files.no_rows(
                [column for column in columns if column.name not in folder_columns]
            )
        return self._schema().empty_table()

    def _schema(self) -> pa.Schema:
        if self.kind == "Parquet":
            return pq.read_schema(self.path)
        return self._arrow().schema

    def _count(self) -> int:
        if self.kind == "Parquet":
            return int(pq.read_metadata(self.path).num_rows)
        if self.kind == "CSV":
            return csv_files.count(self.path)
        return sum(batch.num_rows for batch in self._arrow_batches())

    def _own_tables(
        self, columns: Sequence[Wanted], rows: int, *, alone: bool
    ) -> Iterator[pa.Table]:
        names = [column.name for column in columns]
        if self.kind == "CSV" and not columns:  # folders name all columns that are asked for
            for first in range(0, number := self._count(), rows):
                yield pa.table({"": pa.nulls(min(rows, number - first))})
        elif self.kind == "CSV":
            yield from csv_files.tables(self.path, columns)
        elif self.kind == "Parquet":
            with pq.ParquetFile(
                self.path,
                read_dictionary=_text_levels(columns),
                buffer_size=_BUFFER,
                pre_buffer=False,
            ) as file:
                for batch in file.iter_batches(rows, columns=names, use_threads=not alone):
                    yield _selected(pa.table(batch), names) if names else pa.table(batch)
        else:
            for batch in self._arrow_batches(names):
                yield pa.table(batch).select(names)

    def _arrow_batches(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        opened = self._arrow(names)
        if hasattr(opened, "get_batch"):
            return map(opened.get_batch, range(opened.num_record_batches))
        return iter(opened)

    def _arrow(self, names: Sequence[str] | None = None) -> Any:
        """Return an Arrow file or, where it is none, an Arrow stream, of which some columns are
        read, or without them all.

        It is mapped where nothing is read but sizes: what is read of a mapped file stays in memory.
        """
        fields = None
        open_bytes = pa.memory_map
        if names is not None:
            schema = self._arrow().schema
            fields = [schema.get_field_index(name) for name in names]
            open_bytes = pa.OSFile
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        try:
            return pa.ipc.open_file(open_bytes(str(self.path)), options=options)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(open_bytes(str(self.path)), options=options)


def members_of(path: str | PathLike[str]) -> list[Member]:
    """Return the files of a table, in the order of their names."""
    path = Path(path)
    if _is(path, Path.is_dir):
        inside = sorted(file for file in path.rglob("*") if _is_visible(file.relative_to(path)))
        members = [_member(file, path) for file in inside if _kind(file) and file.is_file()]
        return _require_uniform(members, f"the folder {str(path)!r}")
    there = _is(path, Path.is_file)
    if not there and has_magic(str(path)):
        matching = sorted(map(Path, glob(str(path), recursive=True)))
        root = Path(path.anchor)
        members = [_member(file, root) for file in matching if file.is_file() and _kind(file)]
        return _require_uniform(members, f"the pattern {str(path)!r}")
    if not _kind(path):
        raise _refusal(path.name)
    if not there:
        raise InputError(f"there is no file {str(path)!r}: check the path")
    return [Member(path, _kind(path))]


def _is(path: Path, test: Callable[[Path], bool]) -> bool:
    """Whether there is something of a kind at a path; not where no path can be like it."""
    try:
        return test(path)
    except (OSError, ValueError):
        return False


def _is_visible(path: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.parts)


def _kind(path: Path) -> str:
    return next((kind for end, kind in _KINDS.items() if path.name.lower().endswith(end)), "")


def _member(file: Path, root: Path) -> Member:
    below = file.relative_to(root) if file.is_relative_to(root) else file
    keys: list[tuple[str, str | None]] = []
    for folder in below.parts[:-1]:
        key, sign, value = folder.partition("=")
        if sign:
            keys.append((unquote(key), None if value == _NOTHING else unquote(value)))
    return Member(file, _kind(file), tuple(keys))


def _require_uniform(members: list[Member], owner: str) -> list[Member]:
    """Refuse files of different kinds, or whose folders name different columns."""
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


def _folder_columns(members: list[Member]) -> dict[str, pa.Array]:
    """Return the columns that folders name, one value per file: integers if all are, else texts."""
    columns = {}
    for j, (key, _) in enumerate(members[0].keys):
        values = [member.keys[j][1] for member in members]
        if all(value is None or _is_integer(value) for value in values):
            integers = [None if value is None else int(value) for value in values]
            columns[key] = pa.array(integers, pa.int64())
        else:
            columns[key] = pa.array(values)
    return columns


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 19


def _by_commas(file: str, names: list[str]) -> list[str]:
    """Return the names in the first line of a CSV file, refused if another sign than the comma
    separates them.

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


def _refusal(file: str) -> InputError:
    """Return the error for a table whose name does not end as that of a readable file."""
    for end, (kind, remedy) in _OTHERS.items():
        if file.lower().endswith(end):
            advice = remedy.format(file=file, stem=file[: -len(end)])
            return InputError(
                f"{file!r} is {kind}, which is not read here: write it as Parquet or CSV; {advice}"
            )
    common = (".csv", ".parquet")
    others = ", ".join(sorted(set(_KINDS) - {*common}))
    return InputError(
        f"the table {file!r} must end in {' or '.join(common)}, or in {others}: write it as one of them"
    )
