"""Ids of any type and library: the same numbers for the same persons, none that raises."""

import datetime
import uuid
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dp
from dpinfer.tables.ids import identities

WHO = [3, 1, 3, 2, None, 1]
CODES = [0, 1, 0, 2, -1, 1]
DAY = datetime.datetime(2000, 1, 1)
KINDS = {
    "integer": lambda who: who,
    "text": lambda who: f"person {who}",
    "bytes": lambda who: b"person %d" % who,
    "number": float,
    "decimal": lambda who: Decimal(10**27 + who),
    "date": lambda who: (DAY + datetime.timedelta(who)).date(),
    "time": lambda who: DAY + datetime.timedelta(seconds=who),
}
LIBRARIES = {
    "list": list,
    "objects": lambda cells: np.array(cells, dtype=object),
    "pandas": pd.Series,
    "pandas objects": lambda cells: pd.Series(cells, dtype=object),
    "arrow": pa.array,
    "chunks": lambda cells: pa.chunked_array([cells[:2], cells[2:]]),
    "polars": pl.Series,
    "pandas on arrow": lambda cells: pa.array(cells).to_pandas(types_mapper=pd.ArrowDtype),
}
TEXTS = [None if who is None else f"p{who}" for who in WHO]
ODD = {
    "nullable": pd.Series(WHO, dtype="Int64"),
    "text of pandas": pd.Series(TEXTS, dtype="string[python]"),
    "text on arrow": pd.Series(TEXTS, dtype="string[pyarrow]"),
    "half a letter": pd.Series(["\ud800" if text == "p3" else text for text in TEXTS], dtype="string[python]"),
    "category": pd.Series(TEXTS).astype("category"),
    "category of numbers": pd.Series(WHO).astype("category"),
    "polars category": pl.Series(TEXTS, dtype=pl.Categorical),
    "polars enum": pl.Series(TEXTS, dtype=pl.Enum(["p1", "p2", "p3"])),
    "polars objects": pl.Series(TEXTS, dtype=pl.Object),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "dictionary of numbers": pa.array(WHO).dictionary_encode(),
    "a dictionary with a word twice": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 3, 2, None, 1]), pa.array(["p3", "p1", "p2", "p3"])
    ),
    "views": pa.array(TEXTS).cast(pa.string_view()),
    "times of numpy": np.array([np.datetime64("NaT") if w is None else np.datetime64(w, "s") for w in WHO]),
    "times with a zone": pd.Series(
        [None if who is None else pd.Timestamp(who, unit="s", tz="UTC") for who in WHO]
    ),
    "text of numpy": np.array([text or "" for text in TEXTS]),
    "bytes of numpy": np.array([text or "" for text in TEXTS]).astype("S"),
    "long text of numpy": np.array([text or "" for text in TEXTS], dtype=np.dtypes.StringDType()),
    "a mask": np.ma.MaskedArray([3, 1, 3, 2, 3, 1], mask=[0, 0, 0, 0, 1, 0]),
    "uuid": [None if who is None else uuid.UUID(int=who) for who in WHO],
    "index": pd.Index(TEXTS),
    "empty text": ["" if text is None else text for text in TEXTS],
    "empty text in arrow": pa.array(["" if text is None else text for text in TEXTS]),
    "nan in polars": pl.Series([3.0, 1.0, 3.0, -0.0, float("nan"), 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_same_persons_have_the_same_numbers(library, kind):
    cells = LIBRARIES[library]([None if who is None else KINDS[kind](who) for who in WHO])
    assert identities("units", cells, 6).tolist() == CODES


@pytest.mark.parametrize("case", ODD)
def test_odd_columns(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert identities("units", ODD[case], 6).tolist() == CODES


def test_what_is_no_plain_value_is_a_missing_id_and_no_method_of_it_is_called():
    class Loud:
        def __hash__(self):
            raise AssertionError

        __eq__ = __hash__

    cells = [
        Decimal("sNaN"),
        (1,),
        [1],
        {},
        1j,
        object(),
        Loud(),
        np.nan,
        pd.NA,
        pd.NaT,
        np.datetime64("NaT"),
        None,
    ]
    assert (identities("units", cells, len(cells)) == -1).all()
    assert (identities("units", np.array(cells, dtype=object), len(cells)) == -1).all()


def test_what_is_equal_is_one_unit():
    """1, true and 1.0 are one id, which protects more than two would; text is another one."""
    assert identities("units", [1, True, 1.0, np.int8(1), "1", Decimal(1)], 6).tolist() == [
        0,
        0,
        0,
        0,
        1,
        0,
    ]
    assert identities("units", [0.0, -0.0], 2).tolist() == [0, 0]
    assert identities("units", np.array([2**60, 2**60 + 1]), 2).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (np.zeros(6, dtype=complex), "not complex numbers: convert it to text"),
        (np.zeros((6, 1)), "one id a row"),
        (np.zeros(5), "one id a row"),
        (pa.array([[1]] * 6), "not List"),
        (pl.Series([[1]] * 6), "not List"),
        (pl.Series([datetime.time(1)] * 6), "not Time"),
        (np.zeros(6, dtype="m8[s]"), "not timedelta"),
        (7, "one id a row"),
    ],
)
def test_types_that_are_no_ids(cells, message):
    with pytest.raises(dp.InputError, match=message):
        identities("units", cells, 6)


def test_no_ids_at_all():
    assert identities("units", pa.chunked_array([], pa.string()), 0).tolist() == []
    assert identities("units", pl.Series([None, None], dtype=pl.Null), 2).tolist() == [-1, -1]
