"""A table of made-up cells, as a schema says they may be: to practise on, free of charge.

Columns are independent, as what is typical in the schema says, or else evenly spread.  No record of
any table is looked at.
"""

import numpy as np
import pandas as pd

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.schema import dates
from dpinfer.schema.columns import Column, Number, Outcome, levels_of
from dpinfer.schema.guesses import Shares, Typical, default_guess
from dpinfer.schema.schema import Schema
from dpinfer.simulate.synthetic import values_at

_MAX_RECORDS = 1_000_000


def practice(schema: Schema, records: int, seed: int = 0) -> pd.DataFrame:
    """Make rows with the columns of a schema, ids and weights included.

    Guarantee [practice_is_made_up]: the table depends on the schema, the number and the seed alone.
    """
    if not 1 <= records <= _MAX_RECORDS:
        raise InputError(f"a practice table has 1 to {_MAX_RECORDS:,} rows, not {records}")
    rng = np.random.default_rng(seed)
    unit = schema.unit
    columns: dict[str, object] = {}
    if unit.column:
        columns[unit.column] = rng.integers(0, max(1, records // 2), records)
    for name, column in schema.columns.items():
        law = schema.typical.get(name, default_guess(column))
        columns[name] = cells(column, law, rng.random(records))
    if unit.weights:
        columns[unit.weights] = rng.uniform(0.0, unit.max_weight, records)
    return pd.DataFrame(columns)


def cells(column: Column, law: Typical, quantiles: Array) -> object:
    """Return the cells of a column at quantiles of its law."""
    if isinstance(column, Outcome):
        column = _plain(column)
    levels = levels_of(column)
    if isinstance(law, Shares):
        chosen = np.searchsorted(np.cumsum(law.of), quantiles, side="right")
        places = np.minimum(chosen, len(law.of) - 1)
        return [levels[place] for place in places]
    assert isinstance(column, Number)
    values = values_at(column, law, quantiles)
    if column.kind == "integer":
        return values.astype(np.int64)
    if column.kind == "date":
        first = dates.day_of_text(column.origin)
        return [dates.text_of(first + day) for day in values]
    return values


def _plain(outcome: Outcome) -> Column:
    """Return an outcome as the column that it is: two levels stay, a number is one."""
    if outcome.levels:
        return outcome
    assert outcome.low is not None
    assert outcome.high is not None
    return Number(outcome.name, outcome.low, outcome.high)
