"""Which engine holds a table that is not in this process; none is loaded to find out."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from narwhals import dependencies as libraries

from dpinfer.rows.source import Source
from dpinfer.schema.columns import Wanted
from dpinfer.tables.cluster import Reader


class Engine(Protocol):
    """What is asked of one."""

    def blank(self, native: Any, columns: Sequence[Wanted] | None) -> Any:
        """A table with these columns, by default all, and no row: no task runs for it."""
        ...

    def count(self, native: Any) -> int:
        """The number of rows."""
        ...

    def count_units(self, native: Any, ids: str, units: Callable[[Any], int]) -> int:
        """The number of units, by the column of their ids, where ``units`` counts those of a table."""
        ...

    def source(self, native: Any, reader: Reader, n: int) -> Source:
        """The rows, of n records or units."""
        ...


def engine_of(native: Any) -> Engine | None:
    """The engine of a Dask or Spark DataFrame; None for anything else."""
    if libraries.is_dask_dataframe(native):
        from dpinfer.tables import on_dask  # noqa: PLC0415  (of an extra)

        return on_dask
    if libraries.is_pyspark_dataframe(native) or libraries.is_pyspark_connect_dataframe(native):
        from dpinfer.tables import on_spark  # noqa: PLC0415

        return on_spark
    return None
