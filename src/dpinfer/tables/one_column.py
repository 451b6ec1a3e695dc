"""One column of a table: its numbers with what each counts of a unit, or how many units have each
of its levels.
"""

from typing import Any

import narwhals as nw
import numpy as np

from dpinfer.maths.histograms import Tally
from dpinfer.maths.sums import Block
from dpinfer.neighbours import Neighbours
from dpinfer.rows.source import Rows, most_records
from dpinfer.schema.columns import Wanted
from dpinfer.schema.schema import Gap
from dpinfer.schema.unit import Unit
from dpinfer.tables import arrow_files
from dpinfer.tables.cells import Codes, cells_of, tally
from dpinfer.tables.memory import identities_of, numbers_of, open_table


def count(native: Any, columns: list[Wanted], unit: Unit, neighbours: Neighbours) -> int | None:
    """The number of rows where it is public: one row is a unit, and neighbours have as many."""
    if unit.many or not neighbours.counted:
        return None
    return (
        arrow_files.count(native, columns)
        if arrow_files.is_path(native)
        else len(open_table(native, ()))
    )


@np.errstate(all="ignore")  # a warning would tell of a value
def rows_of(table: nw.DataFrame[Any], gap: Gap, unit: Unit) -> Rows:
    """The numbers of a column as labels; a row without one, or with a fraction among integers, is
    the zero row.

    What the rows of a unit count adds up to at most 1.
    """
    values = numbers_of(table, gap.column.name)
    most_records(len(values))
    known = np.isfinite(values)
    if gap.whole:
        known &= values % 1 == 0
    rows = Rows(Block(known[:, None].astype(np.float64), np.where(known, values, 0.0)))
    if not unit.columns:
        return rows
    weights = numbers_of(table, unit.weights) if unit.weights else None
    return rows.counted(unit.most, _ids(table, unit), weights, unit.number)


def tally_of(table: nw.DataFrame[Any], gap: Gap, unit: Unit, neighbours: Neighbours) -> Tally:
    """How many units have each level of a column."""
    return tally(cells_of(table.get_column(gap.column.name)), _ids(table, unit), neighbours)


def _ids(table: nw.DataFrame[Any], unit: Unit) -> Codes | None:
    return identities_of(table, unit.column) if unit.many else None
