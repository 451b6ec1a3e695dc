import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.data.design import Design
from dpinfer.data.schema import Category, Number

TERMS = [Number("a", -5.0, 20.0), Category("f", ("p", "q", "r"), "p"), Number("b", 0.0, 1e-3)]
DESIGN = Design.of_terms(TERMS)


def test_names_and_radius():
    assert DESIGN.names == ("(Intercept)", "a", "f[q]", "f[r]", "b")
    assert DESIGN.terms == 3


dummies = st.sampled_from([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (np.nan, np.nan)])


@given(st.lists(st.tuples(st.floats(), dummies, st.floats()), min_size=1, max_size=5))
def test_guarantee_public_scaling(records):
    values = np.array([[a, *f, b] for a, f, b in records])
    rows = DESIGN.rows(values)
    assert np.isfinite(rows).all()
    assert np.all(np.linalg.norm(rows, axis=1) <= 1 + 1e-15)
    spoilt = ~np.isfinite(values).all(axis=1)
    assert np.all(rows[spoilt] == 0)
    assert np.allclose(rows[~spoilt, 0], 0.5)  # 1/sqrt(3 terms + 1)


@given(hnp.arrays(float, 5, elements=st.floats(-3, 3)), st.floats(-5, 20), st.floats(0, 1e-3))
def test_coefficients_map_back_to_original_units(coef, a, b):
    values = np.array([[a, 0.0, 1.0, b]])
    scores = DESIGN.rows(values) @ coef
    original = DESIGN.back() @ coef
    assert np.allclose(scores, original[0] + values @ original[1:], atol=1e-9)


def test_bounds_for_arrays():
    design = Design.of_bounds(([0, 1], 5), ("u", "v"))
    assert np.allclose(
        design.rows(np.array([[0.0, 1.0], [5.0, 5.0], [2.5, 3.0]])),
        np.array([[1, -1, -1], [1, 1, 1], [1, 0, 0]]) / 3**0.5,
    )
