import itertools

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.columns import Category, Number
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.tables.memory import read_terms
from dpinfer.tables.table import table_of
from helpers.searches import examples
from helpers.tables import SCHEMA

TERMS = [Number("a", -5.0, 20.0), Category("f", ("p", "q", "r"), "p"), Number("b", 0.0, 1e-3)]
DESIGN = Design.of_terms(TERMS)
FORMULAS = [
    "age + w + sex + h + k + smoker",
    "age*w",
    "w*h",
    "w:h",
    "age:sex:h + w - 1",
    "h - 1",
    "w - 1",
    "C(k, 2)*age + I(w**2) + I(w**3)",
    "log(age) + sqrt(age) + exp(w) + abs(w) + scale(age) + I(-w/3)",
    "C(smoker):w + log1p(age):h",
    "I(-w):h + I(-w) - 1",
    "1",
]


def encoded(formula, table):
    """As a fit reads and encodes: the design alone clips numbers that are columns as they are."""
    _, terms = parse("ill ~ " + formula, SCHEMA)
    design = Design.of_terms(terms)
    return design, design.rows(read_terms(table_of(table).opened(()), terms, clipped=False))


def test_names_and_radius():
    assert DESIGN.names == ("(Intercept)", "a", "f[q]", "f[r]", "b")
    assert DESIGN.norm2 == 4
    assert DESIGN.columns.dummy.tolist() == [False, False, True, True, False]
    assert DESIGN.columns.group.tolist() == [-1, 0, 1, 1, 2]


numbers = st.one_of(
    st.floats(), st.sampled_from([18.0, 100.0, -3.0, 4.0, 0.0, np.nan, np.inf, -1e308])
)
records = st.fixed_dictionaries(
    {
        "age": numbers,
        "w": numbers,
        "sex": st.sampled_from(["f", "m", "x", None]),
        "h": st.sampled_from(["fair", "good", "poor", "", None]),
        "k": st.integers(-1, 5),
        "smoker": st.booleans(),
    }
)


@examples(15)
@given(st.sampled_from(FORMULAS), st.lists(records, min_size=1, max_size=6))
def test_guarantee_public_scaling(formula, cells):
    table = pd.DataFrame(cells).astype({"sex": "string", "h": "string"})
    design, rows = encoded(formula, table)
    assert np.isfinite(rows).all()
    assert np.all(np.linalg.norm(rows, axis=1) <= 1 + 1e-14)
    known = (rows != 0).any(axis=1) if design.intercept else np.zeros(len(rows), dtype=bool)
    assert np.allclose(rows[known, :1], 1 / np.sqrt(design.norm2))


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_bound_of_the_norm_is_attained(formula):
    """At the corners of the public box.  A smaller R² would break the guarantee."""
    grid = {
        "age": [18.0, 100.0],
        "w": [-3.0, 4.0],
        "sex": ["f", "m"],
        "h": ["fair", "good", "poor"],
        "k": [1, 2, 3],
        "smoker": [False, True],
    }
    corners = pd.DataFrame(list(itertools.product(*grid.values())), columns=list(grid))
    design, rows = encoded(formula, corners)
    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() == pytest.approx(1, abs=1e-12)
    for column, dummy in enumerate(design.columns.dummy):
        values = np.unique(rows[:, column] * np.sqrt(design.norm2))
        assert dummy == (np.allclose(values, [0, 1]) if len(values) == 2 else False)
    for a, b in itertools.combinations(range(len(design.names)), 2):
        if design.columns.group[a] == design.columns.group[b]:
            assert not (rows[:, a] * rows[:, b]).any()


@given(hnp.arrays(float, 5, elements=st.floats(-3, 3)), st.floats(-5, 20), st.floats(0, 1e-3))
def test_coefficients_map_back_to_original_units(coef, a, b):
    values = np.array([[a, 0.0, 1.0, b]])
    scores = DESIGN.rows(values) @ coef
    original = DESIGN.back() @ coef
    assert np.allclose(scores, original[0] + values @ original[1:], atol=1e-9)


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_formula_maps_back(formula):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(18, 100, 50),
            "w": rng.uniform(-3, 4, 50),
            "sex": rng.choice(["f", "m"], 50),
            "h": rng.choice(["fair", "good", "poor"], 50),
            "k": rng.integers(1, 4, 50),
            "smoker": rng.random(50) < 0.5,
        }
    )
    _, terms = parse("ill ~ " + formula, SCHEMA)
    design, values = Design.of_terms(terms), read_terms(table_of(table).opened(()), terms)
    coef = rng.normal(size=len(design.names))
    original = design.back() @ coef
    raw = np.column_stack([np.ones(50), values]) if design.intercept else values
    assert np.allclose(design.rows(values) @ coef, raw @ original, atol=1e-9)


@pytest.mark.parametrize("formula", FORMULAS)
@given(records=st.lists(records, min_size=1, max_size=6))
@examples(15)
def test_values_beyond_their_bounds_are_clipped_once(formula, records):
    """Rows are the same, to the bit, whether columns are clipped as they are read or as they are
    encoded.
    """
    _, terms = parse("ill ~ " + formula, SCHEMA)
    table, design = (
        table_of(pd.DataFrame(records).astype({"k": int})).opened(()),
        Design.of_terms(terms),
    )
    before, after = (
        design.rows(read_terms(table, terms, clipped=clipped)) for clipped in (True, False)
    )
    assert np.array_equal(before, after)


def test_bounds_for_arrays():
    design = Design.of_bounds(([0, 1], 5), ("u", "v"))
    assert np.allclose(
        design.rows(np.array([[0.0, 1.0], [5.0, 5.0], [2.5, 3.0]])),
        np.array([[1, -1, -1], [1, 1, 1], [1, 0, 0]]) / 3**0.5,
    )
    assert Design.of_bounds((0, 1), ("u", "u")).rows(np.ones((1, 2))).shape == (1, 3)


def test_without_an_intercept_nothing_is_shifted():
    design, rows = encoded("w - 1", pd.DataFrame({"w": [-3.0, 0.0, 4.0]}))
    assert design.names == ("w",)
    assert np.allclose(rows[:, 0], [-0.75, 0.0, 1.0], rtol=1e-14)


def test_a_design_needs_a_column():
    with pytest.raises(dp.InputError, match="no terms: add a column"):
        encoded("0", pd.DataFrame({"w": [1.0]}))
