"""A column with a type is read or refused by its type, whatever it holds."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.tables.cells import numbers
from dpinfer.tables.ids import identities
from dpinfer.tables.levels import level_codes
from helpers.cells import COLUMNS, GOOD, MODELS, ending, fit, same
from helpers.searches import examples

floats = st.one_of(st.none(), st.floats(width=32))
wholes = st.one_of(st.none(), st.integers(0, 127))
flags = st.one_of(st.none(), st.booleans())
words = st.one_of(st.none(), st.sampled_from(["a", "b", "é", "", "1", "nan"]))
exact = st.one_of(st.none(), st.decimals(-(10**5), 10**5, places=2))
days = st.one_of(st.none(), st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1)))
nothing = st.none()


def numpys(dtype):
    return lambda cells: pd.Series(
        np.array([0 if cell is None else cell for cell in cells], dtype=dtype)
    )


def pandas(dtype):
    return lambda cells: pd.Series(cells, dtype=dtype)


def polars(dtype):
    return lambda cells: pl.Series("a", cells, dtype=dtype)


def arrow(dtype):
    return lambda cells: pa.chunked_array([pa.array(cells, dtype)])


TYPES = {
    **{f"numpy {t}": (numpys(t), wholes) for t in ("i1", "u8", "?")},
    **{f"numpy {t}": (numpys(t), st.floats(-1000, 1000)) for t in ("f2", "f8", "g", "c16")},
    **{
        f"pandas {t}": (pandas(t), wholes)
        for t in ("Int8", "UInt64", "float64", "Float32", "int64[pyarrow]")
    },
    **{
        f"pandas {t}": (pandas(t), floats)
        for t in ("Float64", "double[pyarrow]", "Sparse[float64]")
    },
    **{f"pandas {t}": (pandas(t), flags) for t in ("boolean", "bool[pyarrow]")},
    **{f"pandas {t}": (pandas(t), words) for t in ("str", "string", "string[pyarrow]", "category")},
    "pandas category of numbers": (pandas("category"), floats),
    "pandas ordered category": (
        lambda cells: pd.Series(pd.Categorical(cells, ordered=True)),
        words,
    ),
    "pandas datetime": (pandas("datetime64[ns]"), days),
    "pandas null": (pandas(pd.ArrowDtype(pa.null())), nothing),
    "pandas decimal": (pandas(pd.ArrowDtype(pa.decimal128(20, 2))), exact),
    "pandas dictionary": (pandas(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))), words),
    **{f"polars {t}": (polars(t), wholes) for t in (pl.Int8, pl.UInt64, pl.Int128)},
    **{f"polars {t}": (polars(t), floats) for t in (pl.Float32, pl.Float64)},
    **{
        f"polars {t}": (polars(t), words)
        for t in (pl.String, pl.Categorical, pl.Enum(["a", "b", "é", "", "1", "nan"]))
    },
    "polars bool": (polars(pl.Boolean), flags),
    "polars null": (polars(pl.Null), nothing),
    "polars decimal": (polars(pl.Decimal(20, 2)), exact),
    "polars datetime": (polars(pl.Datetime), days),
    **{f"arrow {t}": (arrow(t), wholes) for t in (pa.int8(), pa.uint64())},
    **{f"arrow {t}": (arrow(t), floats) for t in (pa.float32(), pa.float64())},
    **{f"arrow {t}": (arrow(t), words) for t in (pa.string(), pa.large_string(), pa.string_view())},
    "arrow dictionary": (arrow(pa.dictionary(pa.int8(), pa.string())), words),
    "arrow dictionary of numbers": (arrow(pa.dictionary(pa.int8(), pa.int64())), wholes),
    "arrow dictionary of bytes": (
        arrow(pa.dictionary(pa.int8(), pa.binary())),
        st.sampled_from([None, b"a", b"\xff"]),
    ),
    "arrow decimal of thousands": (
        arrow(pa.decimal128(9, -3)),
        st.sampled_from([None, Decimal("1E+3"), Decimal("7E+6")]),
    ),
    "arrow bool": (arrow(pa.bool_()), flags),
    "arrow null": (arrow(pa.null()), nothing),
    "arrow decimal": (arrow(pa.decimal128(20, 2)), exact),
    "arrow timestamp": (arrow(pa.timestamp("us")), days),
}


def table_of(name, column):
    """A table of the library of the column, with the column in the place of one of its own."""
    cells = {key: [value] * len(column) for key, value in GOOD.items()}
    if isinstance(column, pd.Series):
        return pd.DataFrame(cells).assign(**{name: column})
    if isinstance(column, pl.Series):
        return pl.DataFrame(cells).with_columns(column.alias(name))
    return pa.table(cells | {name: column})


ENDED = {}
"""How the calls below ended with the first column of each type."""


@pytest.mark.parametrize("kind", TYPES)
@examples(3)
@given(st.data())
def test_typed_columns_are_read_or_refused_by_their_type(kind, data):
    make, cells = TYPES[kind]
    column = make(data.draw(st.lists(cells, min_size=5, max_size=5)))
    ends = [ending(fit(table_of(name, column), "r" if name == "r" else "y")) for name in COLUMNS]
    rows = np.linspace(-1, 1, 5)[:, None]
    table = table_of("number", column)
    for model in MODELS.values():
        ends.append(ending(lambda m=model: m().fit(rows, column)))
        ends.append(ending(lambda m=model: m().fit(table, np.array([0, 1, 0, 1, 0]))))
    assert ends == ENDED.setdefault(kind, ends)


@pytest.mark.parametrize("kind", TYPES)
def test_typed_columns_give_their_numbers(kind):
    make, cells = TYPES[kind]
    if cells is wholes or cells is floats:
        found = make([1, None, 2])
        if "category" in kind or "dictionary" in kind:
            assert "not Categorical" in ending(lambda: numbers("y", found, ""))
        else:
            gap = 0.0 if kind.startswith("numpy") else np.nan
            told = [1.0, gap, float(kind != "numpy ?") + 1]
            assert same(numbers("y", found, ""), told)
            assert level_codes("y", found, (1, 2)).tolist() == [0, 2, 0 if kind == "numpy ?" else 1]
    if cells is words:
        assert level_codes("y", make(["b", None, "a"]), ("a", "b")).tolist() == [1, 2, 0]
    if cells is flags:
        assert level_codes("y", make([True, None, False]), (False, True)).tolist() == [1, 2, 0]
    if cells is nothing:
        assert {
            ending(fit(table_of(name, make([None] * 3)), "r" if name == "r" else "y"))
            for name in COLUMNS
        } == {"done"}
        assert same(numbers("y", make([None] * 3), ""), [np.nan] * 3)
        assert level_codes("y", make([None] * 3), ("a", "b")).tolist() == [2, 2, 2]


def test_categories_of_pandas_are_read_one_by_one():
    """They are what occurs in the column, and of any kind."""
    labels = pd.Series(
        pd.Categorical(
            [1, None, "1", (1,), 2.0, True], ordered=True, categories=["1", 2.0, (1,), True]
        )
    )
    assert level_codes("y", labels, (1, 2)).tolist() == [0, 2, 2, 2, 1, 0]
    assert level_codes("y", labels, ("1", "2.0")).tolist() == [2, 2, 0, 2, 2, 2]
    assert ending(fit(table_of("text", labels))) == "done"


def test_numbers_beyond_a_float_are_no_warning():
    huge = pd.Series(np.array(["1e4000", "1"], dtype=np.longdouble))
    assert ending(fit(table_of("number", huge))) == ending(lambda: numbers("y", huge, "")) == "done"
    small = pd.Series(np.array([1, 2], dtype=np.float16))
    assert ending(lambda: level_codes("y", small, (10**6, 1))) == "done"


def test_a_type_is_told_in_a_word():
    """The width of numpy's text is that of the longest cell, and an ordered category lists what
    occurs.
    """
    lengths = {
        ending(lambda w=word: numbers("X", np.array([[w], ["a"]]), ""))
        for word in ("a", "abc", "a" * 50)
    }
    assert len(lengths) == 1
    column = pd.Series(pd.Categorical(["48151623", "a"], ordered=True))
    assert ending(fit(table_of("number", column))).startswith(
        "column 'number' must hold numbers, as the schema says, not Cat"
    )
    assert "is Categorical, but its levels" in ending(fit(table_of("code", column)))


def test_bytes_that_are_no_text_are_no_level():
    """Arrow does not look at the bytes of a column of strings, as a Parquet file may hold them."""
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xffb")])
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), texts)
    for cells in (texts, coded, pd.Series(texts, dtype=pd.ArrowDtype(pa.string()))):
        assert level_codes("y", cells, ("a", "b")).tolist() == [0, 2, 1]


def test_a_dictionary_may_hold_a_null_or_a_word_twice():
    """Arrow does not unify dictionaries with nulls; a cell that points to one is missing."""
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["a", None, "a"]))
    second = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["b", "a"]))
    for column in (first, pa.chunked_array([first, second])):
        cells = column.to_pylist()
        told = [{"a": 0, "b": 1}.get(cell, 2) for cell in cells]
        assert level_codes("y", column, ("a", "b")).tolist() == told
        ids = [{"a": 0, "b": 1}.get(cell, -1) for cell in cells]
        assert identities("units", column, len(cells)).tolist() == ids


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us"),
        pa.decimal128(5, 2),
        pa.int64(),
    ],
    ids=str,
)
def test_no_rows_at_all(kind):
    """Of no rows Arrow makes no array of codes, for most types; a blank table has none."""
    nothing = pa.array([], kind)
    for column in (
        pa.chunked_array([], kind),
        pa.chunked_array([nothing]),
        pa.chunked_array([], pa.dictionary(pa.int32(), kind)),
        pa.chunked_array([nothing.dictionary_encode()]),
    ):
        assert identities("units", column, 0).tolist() == []
        if kind == pa.string():
            assert level_codes("y", column, ("a", "b")).tolist() == []
        else:
            with pytest.raises(dp.InputError, match="declare the two labels"):
                level_codes("y", column, ("a", "b"))
