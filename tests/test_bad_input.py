"""Public faults raise with a remedy; faults of a value never raise, never warn, never show."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dp
from support import labelled

X, Y = labelled(50, 3)


def run(X=X, Y=Y, **options):
    return dp.infer(X, Y, **({"loss": dp.Logistic(), "penalty": 0.1, "budget": dp.PureDP(1.0)} | options))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": X[0]}, "two dimensions"),
        ({"X": X[None]}, "two dimensions"),
        ({"Y": Y[:-1]}, "one label a row"),
        ({"Y": Y[:, None]}, "one label a row"),
        ({"X": X[:0], "Y": Y[:0]}, "at least one record"),
        ({"X": X[:, :0]}, "at least one record and one column"),
        ({"X": [[1, 2], [3]], "Y": [1, 1]}, "rectangular"),
        ({"X": X.astype(str)}, "encode it as numbers"),
        ({"X": X.astype(object)}, "encode it as numbers"),
        ({"X": X + 1j}, "real numbers"),
        ({"Y": Y > 0}, "code it as -1 and"),
        ({"Y": Y.astype(str)}, "code it as -1 and"),
        ({"penalty": -1.0}, "finite number >= 0"),
        ({"penalty": np.nan}, "finite number >= 0"),
        ({"penalty": 0.0}, "must exceed"),
        ({"budget": None}, "give either budget"),
        ({"plan": dp.PureDP(1.0)}, "give either budget"),
        ({"budget": 1.0}, "budget must be"),
        ({"target": "true"}, "target must be"),
        ({"target": "unpenalised"}, "use target='penalised'"),
        ({"loss": "logistic"}, "is not a loss"),
    ],
)
def test_public_faults(arguments, message):
    with pytest.raises(dp.DpinferError, match=message):
        run(**arguments)


values = st.floats(width=64)


@settings(deadline=None)
@given(st.lists(st.tuples(values, values, values), min_size=1, max_size=8))
def test_guarantee_values_never_raise(records):
    """Whatever the numbers, a fit succeeds without a warning and publishes finite numbers."""
    data = np.array(records)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(data[:, :2], data[:, 2], penalty=1.0)
    assert np.isfinite(result.conf_int()).all()


def test_the_smallest_valid_penalty_is_named():
    smallest = 0.25 / (2 * 50 * np.expm1(0.5))
    with pytest.raises(dp.BudgetError, match=f"{smallest:.6g}"):
        run(penalty=smallest)
    assert np.isfinite(run(penalty=smallest * 1.001).estimate).all()


def test_messages_hold_no_value():
    secret = np.array([["1234.5678"], ["x"]])
    with pytest.raises(dp.InputError) as caught:
        run(secret, np.ones(2))
    assert "1234" not in str(caught.value)
    model = dp.LogisticRegression(bounds=(0, 1), budget=dp.PureDP(1.0))
    with pytest.raises(dp.InputError) as caught:
        model.fit(secret.astype(object), np.ones(2))
    assert "1234" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_result_holds_no_rows():
    result = run()
    assert max(np.size(v) for v in vars(result).values() if isinstance(v, np.ndarray)) <= 9
    assert "rows" not in result.to_json()
