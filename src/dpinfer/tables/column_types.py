"""What the types of a table's columns say, for the draft of a schema."""

from typing import Any

import narwhals as nw
import numpy as np

from dpinfer.tables import arrow_files
from dpinfer.tables.memory import blank, open_table


def kinds(table: Any) -> list[tuple[str, str]]:
    """Names of the columns of a table or file, and what the types say: number, integer, boolean,
    category, nothing.
    """
    if arrow_files.is_path(table):
        return [
            (name, "" if arrow is None else _type_word(_of_arrow(arrow)))
            for name, arrow in arrow_files.types(table)
        ]
    columns = open_table(blank(table, None), ()).iter_columns()
    return [
        (column.name, "" if holds_objects(column) else _type_word(column.dtype))
        for column in columns
    ]


def _of_arrow(arrow: Any) -> nw.dtypes.DType:
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a file is read)

    empty = nw.from_native(pa.table({"column": pa.array([], arrow)}), eager_only=True)
    dtype: nw.dtypes.DType = empty["column"].dtype
    return dtype


def _type_word(dtype: nw.dtypes.DType) -> str:
    if dtype == nw.Boolean:
        return "boolean"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "category"
    if dtype.is_numeric():
        return "integer" if dtype.is_integer() else "number"
    return ""


def holds_objects(column: nw.Series[Any]) -> bool:
    """By the type of the array, not by what narwhals finds in it: the values must not decide how a
    column is read.
    """
    return (
        getattr(column.to_native(), "dtype", None) == np.dtype(object) or column.dtype == nw.Object
    )
