"""The draft of a schema from names and types of columns.  No value is read."""

from os import PathLike
from typing import Any

import narwhals as nw

from dpinfer.data import files
from dpinfer.data.entries import TODO
from dpinfer.data.table import holds_objects, open_table
from dpinfer.data.toml import key_text

_HEAD = f"""\
# A draft from the names and types of the columns; no value was read.  Replace every "{TODO}" by something that is known
# without the table: a rule, a code book, the answers of a questionnaire.  A bound or a level taken from the table would
# leak what single records hold.  Delete the columns that no formula needs, and give the column to be explained
# type = "outcome", with two levels (the second one counts as positive) or with low and high.

unit = "{TODO}"  # what one row stands for and is protected: "one person", "one visit"
"""
_LOW = f'low = "{TODO}"  # a public lower bound: smaller values are clipped'
_HIGH = f'high = "{TODO}"  # a public upper bound: larger values are clipped'
_LEVELS = f'levels = "{TODO}"  # the public list, such as ["no", "yes"]: other values count as missing'
_TYPE = f'type = "{TODO}"  # number, integer, boolean, category or outcome: the table does not tell'
_LINES = {
    "number": ['type = "number"', _LOW, _HIGH],
    "integer": ['type = "integer"', _LOW, _HIGH],
    "boolean": ['type = "boolean"'],
    "category": ['type = "category"', _LEVELS],
    "": [_TYPE],
}


def draft(table: Any) -> str:
    """The text of a schema that a person completes."""
    blocks = ["\n".join([f"[columns.{key_text(name)}]", *_LINES[kind]]) for name, kind in _kinds(table)]
    return "\n".join([_HEAD, *(block + "\n" for block in blocks)])


def _kinds(table: Any) -> list[tuple[str, str]]:
    if isinstance(table, str | PathLike):
        return [(name, "" if arrow is None else _kind(_of_arrow(arrow))) for name, arrow in files.types(table)]
    columns = open_table(table, ()).iter_columns()
    return [(column.name, "" if holds_objects(column) else _kind(column.dtype)) for column in columns]


def _of_arrow(arrow: Any) -> nw.dtypes.DType:
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a file is read)

    empty = nw.from_native(pa.table({"column": pa.array([], arrow)}), eager_only=True)
    dtype: nw.dtypes.DType = empty["column"].dtype
    return dtype


def _kind(dtype: nw.dtypes.DType) -> str:
    if dtype == nw.Boolean:
        return "boolean"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "category"
    if dtype.is_numeric():
        return "integer" if dtype.is_integer() else "number"
    return ""
