"""Cells of all kinds, what holds them, and how a call ends that is given them."""

import datetime as dt
import warnings
from collections import deque
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

import dpinfer as dp

TOUCHED = []


class Trap:
    """Any use of it is noted and fails."""

    def _spring(self, *_, **__):
        TOUCHED.append(1)
        raise RuntimeError("48151623")

    __float__ = __int__ = __index__ = __bool__ = __len__ = __iter__ = __getitem__ = __array__ = (
        _spring
    )
    __eq__ = __lt__ = __hash__ = __str__ = __add__ = __array_ufunc__ = __getattr__ = _spring

    def __repr__(self):
        return "Trap()"


class Double(float):
    """A float in its own way."""

    def __float__(self):
        raise RuntimeError("48151623")


PLAIN = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.sampled_from(
        [
            np.float32(2),
            np.float16(0.5),
            np.int8(-3),
            np.uint64(2**64 - 1),
            np.True_,
            np.longdouble("1e4000"),
        ]
    ),
)
ODD_CELLS = [
    *[
        None,
        10**400,
        -(10**400),
        "12",
        "x",
        "",
        "nan",
        np.str_("1"),
        b"1",
        bytearray(b"1"),
        1j,
        np.complex64(1j),
    ],
    *[
        Decimal("1.5"),
        Decimal("sNaN"),
        Fraction(1, 2),
        dt.datetime(2020, 1, 1),
        dt.timedelta(1),
        pd.Timestamp("2020"),
    ],
    *[
        np.datetime64("2020"),
        np.timedelta64(5),
        pd.NA,
        pd.NaT,
        [1.0],
        (1.0,),
        [],
        {"a": 1},
        {1.0},
        range(2),
        object(),
    ],
    *[
        np.ones(3),
        np.array(3.0),
        np.ma.masked,
        pd.Series([1.0]),
        pl.Series([1.0]),
        pa.scalar(1.0),
        float,
        Trap(),
        Double(1),
    ],
]
ODD = st.integers(0, len(ODD_CELLS) - 1).map(ODD_CELLS.__getitem__)  # hypothesis would hash them
CELL = st.one_of(PLAIN, ODD)
LABEL = st.one_of(CELL, st.sampled_from([0, 1, "a", "b", True, False, 0.0, 1.0]))


def objects(cells):
    made = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        made[i] = cell
    return made


LISTS = {"list": list, "tuple": tuple, "deque": deque}
OBJECTS = {
    "object array": objects,
    "masked object array": lambda cells: np.ma.MaskedArray(objects(cells), mask=False),
    "pandas objects": lambda cells: pd.Series(objects(cells), dtype=object),
    "pandas index": lambda cells: pd.Index(objects(cells), dtype=object),
    "polars objects": lambda cells: pl.Series("a", list(cells), dtype=pl.Object),
}
ANY = LISTS | OBJECTS


def same(ours, theirs):
    return np.array_equal(ours, theirs, equal_nan=True)


def ending(act):
    """Whether a call succeeds or how it is refused; nothing is touched, warned of or hidden behind."""
    TOUCHED.clear()
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            act()
            told = "done"
        except dp.InputError as fault:
            told = (
                str(fault)
                if fault.__context__ is fault.__cause__ is None
                else "it hangs on another error"
            )
    assert not TOUCHED
    assert "48151623" not in told
    assert "hangs" not in told
    return told


MODELS = {
    "numbers": lambda: dp.LogisticRegression(bounds=(-1, 1), budget=dp.PureDP(5.0)),
    "texts": lambda: dp.LinearSVC(bounds=(-1, 1), classes=("a", "b"), budget=dp.ZCDP(1.0)),
    "regression": lambda: dp.HuberRegression(bounds=(-1, 1), outcome=(-5, 5), budget=dp.ZCDP(1.0)),
}


SCHEMA = dp.Schema.parse("""
[columns.y]
type = "outcome"
levels = [false, true]
[columns.r]
type = "outcome"
low = -5
high = 5
[columns.number]
type = "number"
low = -5
high = 5
[columns.integer]
type = "integer"
low = 0
high = 9
[columns.boolean]
type = "boolean"
missing = false
[columns.text]
type = "category"
levels = ["a", "b"]
[columns.code]
type = "category"
levels = [1, 2]
""")
NAMES = ("number", "integer", "boolean", "text", "code")
COLUMNS = [*NAMES, "y", "r"]
GOOD = {"number": 1.5, "integer": 2, "boolean": True, "text": "a", "code": 2, "y": True, "r": 0.5}


def fit(table, outcome="y"):
    kind = dp.LogisticRegression if outcome == "y" else dp.HuberRegression
    return lambda: kind(
        f"{outcome} ~ {' + '.join(NAMES)}", schema=SCHEMA, budget=dp.PureDP(5.0)
    ).fit(table)
