"""Where the rows of an id go: the same place for the same unit, whatever holds its id."""

import datetime
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpinfer.tables.ids import hashes, identities

DAY = datetime.datetime(2020, 1, 1)


def texts(storage):
    return pd.Series(["a", "bé", "a", "", "bé"], dtype=storage)


COLUMNS = {
    "integers": pd.Series([3, 1, 3, 2**62 + 1, 2**62]),
    "floats": pd.Series([0.0, -0.0, 0.1, np.nan, 1e308]),
    "booleans": pd.Series([True, False, True]),
    "nullable": pd.Series([1, None, 1, 7], dtype="Int64"),
    "nullable floats": pd.Series([0.5, None, -0.0, 0.0], dtype="Float64"),
    "text": texts("string[python]"),
    "arrow text": texts("string[pyarrow]"),
    "large text": texts(pd.ArrowDtype(pa.large_string())),
    "text as objects": texts(object),
    "categories": texts("category"),
    "categories of numbers": pd.Series([2, 1, 2, None]).astype("category"),
    "decimals": pd.Series([Decimal("1.50"), Decimal("1.5")], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
    "dates": pd.Series([DAY, DAY, None], dtype="datetime64[ns]"),
    "dates of a zone": pd.Series([DAY, DAY], dtype="datetime64[us]").dt.tz_localize("UTC"),
    "objects": pd.Series(
        [
            1, 1.0, True, np.int8(1), Decimal(1), -0.0, 0, "1",
            "\ud800", "\ud800", b"x", 10**400, 10**400, Decimal("NaN"),
            DAY, DAY, DAY.date(), np.datetime64(DAY), uuid.UUID(int=1), uuid.UUID(int=1), None, [], {}, "",
        ],
        dtype=object,
    ),
}  # fmt: skip


def split(ids, places):
    """Units whose rows would not meet."""
    return [unit for unit in set(ids.tolist()) - {-1} if len(set(places[ids == unit].tolist())) > 1]


@pytest.mark.parametrize("name", COLUMNS)
def test_guarantee_units_meet(name):
    column = COLUMNS[name]
    assert not split(identities("ids", column, len(column)), hashes(column))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pd.Series([7, 0]), pd.Series([7.0, -0.0])),
        (pd.Series([7, 8]), pd.Series([7, 8], dtype="Int64")),
        (pd.Series([7, 8]), pd.Series([7, Decimal(8)], dtype=object)),
        (texts("string[pyarrow]"), texts(object)),
        (texts("category"), texts("string[python]")),
        (pd.Series([DAY, DAY]), pd.Series([DAY, DAY], dtype=object)),
    ],
)
def test_parts_may_differ_in_type(one, other):
    """One part of a table may hold a missing value that makes it another type."""
    assert np.array_equal(hashes(one), hashes(other))


def test_ids_are_spread():
    """Over a few places, numbers as well as texts; else one worker would do all the work."""
    for column in (
        pd.Series(np.arange(4000)),
        pd.Series(np.arange(4000) * 1000.0),
        pd.Series(map(str, range(4000))),
    ):
        found = np.bincount(hashes(column) % 8, minlength=8)
        assert found.min() > 300
    assert len(set(hashes(pd.Series(np.arange(4000))).tolist())) == 4000
