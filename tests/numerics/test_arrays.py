import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.numerics.arrays import svec, unsvec


@given(
    st.integers(1, 6).flatmap(lambda d: hnp.arrays(float, (2, d, d), elements=st.floats(-1e3, 1e3)))
)
def test_the_norm_is_kept_and_the_way_back_is_exact(pair):
    a, b = pair + pair.mT
    assert svec(a) @ svec(b) == pytest.approx(np.sum(a * b), rel=1e-9, abs=1e-6)
    assert np.allclose(unsvec(svec(a), len(a)), a, rtol=1e-15)
    assert np.array_equal(svec(pair + pair.mT), np.stack([svec(a), svec(b)]))
