"""Pairs of ids of a hundred kinds, equal and not, in every container: no pair raises."""

import datetime as dt
import itertools
import math
import subprocess
import sys
import uuid
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dp
from dpinfer.rows.id_buckets import hashed
from dpinfer.schema.formula import parse
from dpinfer.tables.ids import hashes, identities
from dpinfer.tables.table import read

WIDTHS = (
    *(np.int8, np.int16, np.int32, np.int64, np.longlong),
    *(np.uint8, np.uint16, np.uint32, np.uint64, np.ulonglong),
)
FLOATS = (np.float16, np.float32, np.float64, np.longdouble)
DAY = dt.datetime(2020, 1, 1)
EAST = dt.timezone(dt.timedelta(hours=1))
THIRD = np.longdouble(1) / 3
IDS = [
    *(kind(1) for kind in (*WIDTHS, *FLOATS)),
    *(kind(0) for kind in (*WIDTHS, *FLOATS)),
    *(kind(np.inf) for kind in FLOATS),
    *(kind(0.1) for kind in FLOATS),
    *(0, 1, -1, 7, 2**53 + 1, 2**61 - 1, 2**62, 2**64 - 1, 10**400, True, False, np.True_, np.False_),
    *(np.int64(2**62), np.uint64(2**64 - 1), np.int64(2**53 + 1), np.float64(2**53)),
    *(0.0, -0.0, 1.0, 0.1, math.inf, -math.inf, 1e308, 5e-324, 2.0**62),
    *(Decimal(0), Decimal("-0"), Decimal(1), Decimal("1.00"), Decimal("0.1"), Decimal.from_float(0.1)),
    *(Decimal(2**62), Decimal(10**400), Decimal("1e999999999"), Decimal("1e-999999999")),
    *(Decimal(2**53 + 1), Decimal(2**64 - 1), Decimal(7)),
    *(THIRD, np.longdouble("1e4000"), Decimal(THIRD.as_integer_ratio()[0]) / 2**65),
    *("1", "a", "é", "e\u0301", " a", "\ud800", "nan", np.str_("a"), np.str_("1")),
    *(b"1", b"a", "é".encode(), b"\xff", np.bytes_(b"a")),
    *(DAY, DAY.replace(tzinfo=dt.UTC), DAY.replace(tzinfo=EAST), DAY.replace(fold=1)),
    *(dt.datetime.min, dt.datetime.max, dt.datetime.min.replace(tzinfo=EAST)),
    *(DAY.date(), dt.date.min, dt.date.max),
    *(np.datetime64("2020-01-01", unit) for unit in ("Y", "M", "W", "D", "h", "s", "us", "ns", "ps")),
    *(np.datetime64(3, "as"), np.datetime64(3, "ns"), np.datetime64(2**62, "Y")),
    *(np.datetime64(2**62, "s"), np.datetime64(2**62, "us")),
    *(uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=2**61)),
]  # fmt: skip
NONE = [
    *(None, math.nan, np.float32("nan"), np.longdouble("nan"), Decimal("NaN"), Decimal("sNaN")),
    *(Decimal("inf"), pd.NA, pd.NaT, np.datetime64("NaT"), "", b"", np.str_(""), np.bytes_(b"")),
    *(Fraction(1, 2), Fraction(1), (), (1,), (b"a",), [], {}, {1}, 1j, np.complex64(1), object()),
    *(pd.Timestamp("2020"), dt.time(1), dt.timedelta(1), np.timedelta64(1), bytearray(b"a")),
    *(np.void(b"a"), np.ones(2), np.array(1), pd.Series([1]), pa.scalar(1), int, range(2)),
]
KINDS = [*IDS, *NONE]
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "objects": lambda cells: pd.Series(cells, dtype=object).to_numpy(),
    "pandas objects": lambda cells: pd.Series(cells, dtype=object),
    "pandas index": lambda cells: pd.Index(cells, dtype=object),
    "polars objects": lambda cells: pl.Series("ids", cells, dtype=pl.Object),
}
TYPED = {
    "numpy": np.array,
    "pandas": pd.Series,
    "pandas category": lambda cells: pd.Series(cells).astype("category"),
}


@pytest.fixture(autouse=True)
def no_warning():
    """A warning would tell of a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def told(cells):
    return identities("units", cells, 2).tolist()


def test_there_are_a_hundred_kinds():
    assert len(KINDS) > 150
    assert len({type(cell) for cell in KINDS}) > 40


def test_guarantee_ids_never_raise():
    """Nor does a pair of different ids count as one that is missing."""
    alone = [told([cell, cell]) for cell in KINDS]
    assert alone == [[0, 0]] * len(IDS) + [[-1, -1]] * len(NONE)
    for one, other in itertools.product(range(len(KINDS)), repeat=2):
        found = told([KINDS[one], KINDS[other]])
        there = [-1 if place >= len(IDS) else 0 for place in (one, other)]
        assert found in (there, [0, 1]), (KINDS[one], KINDS[other])


@pytest.mark.parametrize("container", CONTAINERS)
def test_all_kinds_in_one_column(container):
    expected = identities("units", KINDS, len(KINDS)).tolist()
    found = identities("units", CONTAINERS[container](KINDS), len(KINDS)).tolist()
    assert found == expected
    assert set(found[len(IDS) :]) == {-1}
    assert min(found[: len(IDS)]) == 0


def test_which_of_two_ids_comes_first_does_not_matter():
    """Equal or not is one relation: the same both ways, and equal to the same is equal."""
    found = identities("units", IDS, len(IDS))
    backwards = identities("units", IDS[::-1], len(IDS))[::-1]
    for one, other in itertools.combinations(range(len(IDS)), 2):
        same = told([IDS[one], IDS[other]]) == [0, 0]
        assert same == (told([IDS[other], IDS[one]]) == [0, 0])
        assert same == (found[one] == found[other]) == (backwards[one] == backwards[other])


def test_equal_numbers_are_one_unit_and_others_are_not():
    """As fractions say, which are exact."""
    exact = {j: _fraction(IDS[j]) for j in range(len(IDS)) if _is_finite(IDS[j])}
    assert len(exact) > 50
    for one, other in itertools.combinations(exact, 2):
        same = told([IDS[one], IDS[other]]) == [0, 0]
        assert same == (exact[one] == exact[other]), (IDS[one], IDS[other])


def _is_finite(cell):
    """Whether a cell is a number that a fraction can hold in reasonable time."""
    if isinstance(cell, Decimal):
        return abs(cell.adjusted()) < 10**4
    if isinstance(cell, int | np.integer | np.bool_):
        return True
    return isinstance(cell, float | np.floating) and bool(np.isfinite(cell))


def _fraction(cell):
    if isinstance(cell, np.bool_ | np.integer):
        return Fraction(int(cell))
    return Fraction(*cell.as_integer_ratio())


def test_rows_of_one_unit_meet_whatever_holds_their_ids():
    for one, other in itertools.combinations_with_replacement(KINDS, 2):
        column = pd.Series([one, other], dtype=object)
        found = hashes(column)
        if told(column) == [0, 0]:
            assert found[0] == found[1], (one, other)


@pytest.mark.parametrize("container", TYPED)
def test_typed_columns_are_read_or_refused_by_their_type(container):
    """Where a library makes a column of two ids at all."""
    read = 0
    for one, other in itertools.combinations_with_replacement(KINDS[::2], 2):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cells = TYPED[container]([one, other])
            assert cells.shape == (2,) if container == "numpy" else len(cells) == 2
        except Exception:
            continue
        try:
            found = told(cells)
        except dp.InputError:
            continue
        read += 1
        if isinstance(cells, pd.Series):
            assert len(set(hashes(cells)[np.array(found) == 0].tolist())) <= 1
    assert read > 100


ARROW = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.bool_(), pa.null()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.binary(3), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.duration("s")),
    *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s", "UTC")),
    *(pa.decimal32(5), pa.decimal64(9, 2), pa.decimal128(38), pa.decimal128(5, 2), pa.decimal256(76, 3)),
    *(pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.uuid(), pa.month_day_nano_interval()),
]  # fmt: skip


EXTREMES = {
    "float": [0.0, -0.0, math.inf, 2.0**100],
    "double": [0.0, -0.0, math.inf, 1e308],
    "bool": [True, False],
    "fixed_size_binary": [b"abc", b"\xff\0\xff"],
    "binary": [b"", b"a", b"\xff"],
    "large_binary": [b"", b"a", b"\xff"],
    "string": ["", "a", "é"],
    "large_string": ["", "a", "é"],
    "date": [dt.date.min, dt.date.max, DAY.date()],
}
KEY = "0" * 16


@pytest.mark.parametrize("kind", ARROW, ids=str)
def test_what_is_an_id_in_memory_has_a_part_of_a_file(kind):
    cells = [None, *_extremes(kind), *_extremes(kind), None]
    column = pa.chunked_array([pa.array(cells, kind)])
    try:
        found = identities("units", column, len(column))
    except dp.InputError:
        return
    parts = hashed(column, KEY)
    assert (parts >= 0).all()
    assert len(hashed(column.slice(0, 0), KEY)) == len(hashed(pa.chunked_array([], kind), KEY)) == 0
    for unit in range(found.max() + 1):
        assert len(set(parts[found == unit].tolist())) == 1
    assert found.max() + 1 == len(set(_extremes(kind)) - {"", b""})


def _extremes(kind):
    """A few values of a type, far from each other."""
    word = str(kind)
    if pa.types.is_integer(kind):
        least = 0 if word.startswith("u") else -(2 ** (kind.bit_width - 1))
        return [least, least + 2**kind.bit_width - 1, 1]
    if pa.types.is_decimal(kind):
        most = Decimal(9) * Decimal(10) ** (kind.precision - kind.scale - 1)
        return [Decimal(0), most, -most]
    if pa.types.is_timestamp(kind):
        return [DAY, DAY.replace(year=1700)]
    return next((cells for start, cells in EXTREMES.items() if word.startswith(start)), [])


def test_warnings_about_bytes_are_no_error_of_an_id():
    """With ``python -bb`` a text that is compared with bytes is an error; their hashes are equal."""
    code = (
        "from dpinfer.tables.ids import identities\n"
        "print(identities('ids', ['a', b'a', 'a', b'a', b''], 5))"
    )
    told = subprocess.run(
        [sys.executable, "-bb", "-c", code], capture_output=True, text=True, check=False
    )
    assert told.stdout.strip() == "[ 0  1  0  1 -1]", told.stderr


def test_one_added_person_decides_no_error_of_a_fit():
    """A fit of objects as ids; the added id equals one that is there and is of another library."""
    schema = dp.Schema.parse("""
[unit]
name = "one person"
column = "who"
rows = "average"
[columns.y]
type = "outcome"
levels = [false, true]
[columns.x]
type = "number"
low = 0
high = 1
""")
    for added in KINDS:
        ids = pd.Series([Decimal(1), np.int64(7), "a", added], dtype=object)
        table = pd.DataFrame({"who": ids, "x": 0.5, "y": [True, False, True, False]})
        design, pending = read(table, *parse("y ~ x", schema), "margin", schema.unit, counted=False)
        with pending.opened() as source:
            assert source.total(lambda block: block.rows.sum(axis=0)).shape == (len(design.names),)
