"""What a cell of a list or of a column of objects holds decides nothing: a fit ends the same way
for all contents.
"""

from array import array
from collections import namedtuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.tables.cells import numbers
from dpinfer.tables.levels import level_codes
from helpers.cells import ANY, CELL, COLUMNS, GOOD, LABEL, MODELS, ending, fit, objects, same
from helpers.searches import examples


def expected(cell, booleans=True):
    """The number that a cell is, written without the code under test."""
    kinds = (float, int, np.float32, np.float16, np.int8, np.uint64, np.longdouble)
    if type(cell) not in ((*kinds, bool, np.bool_) if booleans else kinds):
        return np.nan
    return (
        np.nan
        if type(cell) is int and abs(cell) > 10**308
        else float(np.asarray(cell, dtype=np.longdouble))
    )


@pytest.mark.parametrize("kind", ANY)
@examples(27)
@given(st.lists(CELL, min_size=1, max_size=6), st.booleans())
def test_cells_of_a_list_or_of_objects_are_read_one_by_one(kind, cells, booleans):
    made, found = ANY[kind](cells), []
    ending(
        lambda: found.append(numbers("y", made, "", kinds="fiub" if booleans else "fiu", depth=1))
    )
    with np.errstate(all="ignore"):
        assert same(found[0], [expected(cell, booleans) for cell in cells])


@examples(27)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5))
def test_rows_are_read_one_by_one(rows):
    record = namedtuple("record", "a b")
    kinds = [list, tuple, lambda row: record(*row), objects]
    with np.errstate(all="ignore"):
        told = np.array([[expected(cell) for cell in row] for row in rows])
    columns = {"a": objects([a for a, _ in rows]), "b": objects([b for _, b in rows])}
    makers = [
        lambda: [kinds[i % 4](row) for i, row in enumerate(rows)],
        lambda: objects([cell for row in rows for cell in row]).reshape(-1, 2),
        lambda: pd.DataFrame(columns, dtype=object),
        lambda: pl.DataFrame(
            [pl.Series(name, list(column), dtype=pl.Object) for name, column in columns.items()]
        ),
    ]
    for make in makers:
        made, found = make(), []
        ending(lambda made=made, found=found: found.append(numbers("X", made, "")))
        assert same(found[0], told)


@pytest.mark.parametrize("classes", [(0, 1), ("a", "b"), (False, True)])
@pytest.mark.parametrize("kind", ANY)
@examples(15)
@given(st.lists(LABEL, min_size=1, max_size=6))
def test_labels_of_a_list_or_of_objects_are_read_one_by_one(kind, classes, cells):
    made, found = ANY[kind](cells), []
    ending(lambda: found.append(level_codes("y", made, classes)))
    kinds = (
        (str, np.str_)
        if classes[0] == "a"
        else (float, int, bool, np.bool_, np.float32, np.float16, np.int8)
    )
    told = [
        next((j for j in (0, 1) if type(cell) in kinds and cell == classes[j]), 2) for cell in cells
    ]
    assert found[0].tolist() == told


ARRAYS = {
    "list": lambda cells: [[cell, 0.5] for cell in cells],
    "list of arrays": lambda cells: [objects([cell, 0.5]) for cell in cells],
    "object array": lambda cells: np.column_stack([objects(cells), objects([0.5] * len(cells))]),
    "pandas": lambda cells: pd.DataFrame({"a": pd.Series(objects(cells), dtype=object), "b": 0.5}),
    "polars": lambda cells: pl.DataFrame(
        [pl.Series("a", list(cells), dtype=pl.Object), pl.Series("b", [0.5] * len(cells))]
    ),
}


@pytest.mark.parametrize("y", ANY)
@pytest.mark.parametrize("x", ARRAYS)
@examples(5)
@given(st.lists(st.tuples(CELL, LABEL), min_size=4, max_size=4))
def test_every_fit_of_arrays_succeeds(x, y, records):
    rows, labels = ARRAYS[x]([cell for cell, _ in records]), ANY[y]([label for _, label in records])
    for model in MODELS.values():
        assert ending(lambda model=model: model().fit(rows, labels)) == "done"
    told = {"loss": dp.Logistic(), "penalty": 0.1, "budget": dp.PureDP(5.0)}
    assert ending(lambda: dp.infer(rows, labels, **told)) == "done"


@examples(20)
@given(
    st.lists(
        st.tuples(*[st.one_of(CELL, st.just(GOOD[name])) for name in COLUMNS]),
        min_size=4,
        max_size=4,
    )
)
def test_every_fit_of_object_columns_succeeds(rows):
    columns = {
        name: objects(cells) for name, cells in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    for table in (
        pd.DataFrame(columns, dtype=object),
        pl.DataFrame(
            [pl.Series(name, list(cells), dtype=pl.Object) for name, cells in columns.items()]
        ),
    ):
        assert ending(fit(table)) == ending(fit(table, "r")) == "done"


def test_a_fit_of_nothing_but_missing_values():
    """These raised, before anything was booked."""
    for model in MODELS.values():
        for rows, labels in (([[None]], [None]), ([[10**400], ["x"]], [1j, b"x"])):
            assert ending(lambda m=model, x=rows, y=labels: m().fit(x, y)) == "done"


def test_labels_are_not_quoted():
    for labels in (
        np.array([48151623j, 0]),
        np.array(["48151623", "x"], dtype="S8"),
        np.array([48151623, 0], dtype="M8[s]"),
    ):
        for model in MODELS.values():
            assert ending(lambda m=model, y=labels: m().fit([[0.1], [0.2]], y)) != "done"


@pytest.mark.parametrize(
    "cells", [[0.5, "x"], [0.5, None], [0.5, 2**70], [0.5, True], [0.5, 1j], [0.5, [0.5]]]
)
def test_one_cell_does_not_change_the_others(cells):
    """numpy would make a list with one text in it an array of texts."""
    for rows in ([cells, [0.25, 0.75]], [tuple(cells), np.array([0.25, 0.75])]):
        found = numbers("X", rows, "")
        assert (found[0, 0], found[1].tolist()) == (0.5, [0.25, 0.75])


def test_shapes_are_refused_whatever_the_cells():
    for rows in (
        [[1.0], [1.0, 2.0]],
        [["x"], [None, {}]],
        [[1.0], None],
        [[1.0], 2.0],
        [1.0, 2.0],
        [[1.0], "x"],
    ):
        told = "X is not a rectangular array, a list of rows of equal length: "
        assert ending(lambda rows=rows: numbers("X", rows, "")) == told
    for labels in ([[1]], [[1], [0]], [None]):  # a list of labels is flat: what is in it is a cell
        assert numbers("y", labels, "", depth=1).shape == (len(labels),)
    for rows in (3.0, "x", {"a": [1.0]}, {1.0}, None, (row for row in [[1.0]])):
        assert "must hold real numbers, not" in ending(lambda rows=rows: numbers("X", rows, ""))


def test_other_containers():
    for made in (
        array("d", [1, 2]),
        memoryview(array("i", [1, 2])),
        range(1, 3),
        pd.Index([1, 2]),
        pa.array([1, 2]),
    ):
        assert same(numbers("y", made, "", depth=1), [1.0, 2.0])
        assert level_codes("y", made, (1, 2)).tolist() == [0, 1]
    hidden = np.ma.array([1.0, 2.0], mask=[False, True])
    assert same(numbers("y", hidden, ""), [1.0, np.nan])
    assert level_codes("y", hidden, (1, 2)).tolist() == [0, 2]
    twice = pd.DataFrame([[1, "x"], [2, "y"]], columns=["a", "a"], dtype=object)
    assert same(numbers("X", twice, ""), [[1.0, np.nan], [2.0, np.nan]])
    assert same(
        numbers("X", pa.table({"a": [1, None], "b": [0.5, 1.5]}), ""), [[1.0, 0.5], [np.nan, 1.5]]
    )
    assert level_codes("y", pd.Index(["a", "b"], dtype=object), (0, 1)).tolist() == [
        2,
        2,
    ]  # not refused as text
    texts = np.array(["a", None, "b"], dtype=np.dtypes.StringDType(na_object=None))
    assert level_codes("y", texts, ("a", "b")).tolist() == [0, 2, 1]


def test_a_column_of_labels_is_read_with_a_warning():
    """Its shape is public; scikit-learn warns of it."""
    rows, labels = (
        np.linspace(-1, 1, 4)[:, None],
        pd.DataFrame({"y": [0, 1, None, "x"]}, dtype=object),
    )
    with pytest.warns(UserWarning, match="column-vector y"):
        MODELS["numbers"]().fit(rows, labels)
    with pytest.raises(dp.InputError, match="one dimension"):
        MODELS["numbers"]().fit(rows, labels.assign(z=0))
