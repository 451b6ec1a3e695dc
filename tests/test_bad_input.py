"""Public faults raise with a remedy; faults of a value never raise, never warn, never show."""

import pickle
import struct
import traceback
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dpinfer as dp
from dpinfer.privacy.release import MASK
from helpers.support import labelled

X, Y = labelled(50, 3)


def run(X=X, Y=Y, **options):
    return dp.infer(
        X, Y, **({"loss": dp.Logistic(), "penalty": 0.1, "budget": dp.PureDP(1.0)} | options)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": X[0]}, "two dimensions"),
        ({"X": X[None]}, "two dimensions"),
        ({"Y": Y[:-1]}, "one label a row"),
        ({"Y": Y[:, None]}, "one label a row"),
        ({"X": X[:0], "Y": Y[:0]}, "at least one record"),
        ({"X": X[:, :0]}, "at least one column"),
        ({"X": [[1, 2], [3]], "Y": [1, 1]}, "rectangular"),
        ({"X": X.astype(str)}, "encode it as numbers"),
        ({"X": X + 1j}, "real numbers"),
        ({"Y": Y > 0}, "code it as -1 and"),
        ({"Y": Y.astype(str)}, "code it as -1 and"),
        ({"penalty": -1.0}, "finite number >= 0"),
        ({"penalty": np.nan}, "finite number >= 0"),
        ({"penalty": 0.0}, "must exceed"),
        ({"budget": None}, "give either budget"),
        ({"plan": dp.PureDP(1.0)}, "give either budget"),
        ({"budget": 1.0}, "budget must be"),
        (
            {"target": "true"},
            "no target 'true': .*'ordinary', without a penalty.*'penalised' or 'unpenalised'.*'ordinary' or 'robust'",
        ),
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
    smallest = 0.25 / (2 * 50 * np.expm1(0.7 * (1 - MASK)))
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
        model.fit(secret, np.ones(2))
    assert "1234" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


SENTINEL = 0.12345678901234567


def test_a_result_holds_no_rows():
    """A number of the data is in no byte of a saved result or model."""
    spoilt = X.copy()
    spoilt[7, 1] = SENTINEL
    result = run(spoilt)
    model = dp.LogisticRegression(bounds=(-1, 1), classes=(-1, 1), budget=dp.PureDP(1.0)).fit(
        spoilt, Y
    )
    needle = struct.pack("<d", SENTINEL)
    assert needle in pickle.dumps(spoilt)
    for saved in (
        pickle.dumps(result),
        pickle.dumps(model),
        result.to_json().encode(),
        repr(vars(model)).encode(),
    ):
        assert needle not in saved
        assert str(SENTINEL).encode() not in saved
        assert len(saved) < 8000


def no_value(call):
    """The error of a call, with all it hangs on, names no number of the data."""
    with pytest.raises((dp.InputError, TypeError)) as caught:
        call()
    told = "".join(traceback.format_exception(caught.value, chain=True)[-1:])
    assert "1234" not in told
    assert caught.value.__cause__ is None
    assert "1234" not in str(caught.value.__context__)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([1234.5678, 2, 3]),
        np.array([[1234.5678 + 1j], [2], [3]]),
        1234.5678,
        {"a": 1234.5678},
        [[1234.5678], [1, 2], [3]],
        np.array([["1234"], ["x"], ["y"]]),
        sparse.csr_array(np.array([[1234.5678], [2], [3]])),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_estimators_never_quote_rows(rows):
    model = dp.LogisticRegression(bounds=(-1, 1), budget=dp.PureDP(5.0))
    no_value(lambda: model.fit(rows, [0, 1, 1]))
    model.fit(np.ones((3, 1)), [0, 1, 1])
    no_value(lambda: model.predict(rows))


@pytest.mark.parametrize(
    "rows", [[["1234"], ["x"], ["y"]], np.array([["1234"], ["x"], ["y"]], dtype=object)]
)
def test_text_in_a_list_is_a_missing_number(rows):
    """It ends no fit; a prediction needs a number, and does not say what stands in its place."""
    model = dp.LogisticRegression(bounds=(-1, 1), budget=dp.PureDP(5.0)).fit(rows, [0, 1, 1])
    no_value(lambda: model.predict(rows))


SCHEMA = dp.Schema.parse(
    """
    [columns.y]
    type = "outcome"
    levels = [false, true]
    [columns.a]
    type = "number"
    low = 0
    high = 10
    [columns.f]
    type = "category"
    levels = ["p", "q"]
    [columns.k]
    type = "category"
    levels = [1, 2]
    """
)
CLEAN = {
    "y": [True, False, True, True],
    "a": [1, 2, 3, 4],
    "f": ["p", "q", "q", "p"],
    "k": [1, 2, 2, 1],
}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a", 2**53 + 1),
        ("a", None),
        ("a", float("inf")),
        ("k", None),
        ("k", 7),
        ("y", None),
        ("f", None),
        ("f", "other"),
        ("f", b"\xff"),
    ],
)
@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table, pl.DataFrame, "arrow-backed pandas"])
def test_no_value_of_a_table_raises(kind, column, value):
    """Whatever one cell holds, the fit succeeds as it does without it, with numpy's errors turned
    on.
    """
    if isinstance(value, bytes) and kind is not pd.DataFrame:
        return  # the other tables cannot hold it beside text
    cells = {**CLEAN, column: [value, *CLEAN[column][1:]]}
    if kind == "arrow-backed pandas":
        table = pa.table(cells).to_pandas(types_mapper=pd.ArrowDtype)
    else:
        table = kind(cells) if kind is not pl.DataFrame else pl.DataFrame(cells, strict=False)
    model = dp.LogisticRegression("y ~ a + f + k", schema=SCHEMA, budget=dp.PureDP(5.0))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.fit(table).result_.conf_int()).all()


@pytest.mark.parametrize("value", [-7.0, 0.0, 1e300, 1e-200, np.nan, np.inf, -np.inf, None])
@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table, pl.DataFrame])
def test_no_value_raises_under_a_transform(kind, value):
    """A logarithm of what lies below the bound, a power that over- or underflows: nothing shows."""
    schema = dp.Schema.parse(
        """
        [columns.y]
        type = "outcome"
        levels = [false, true]
        [columns.a]
        type = "number"
        low = 1
        high = 10
        centre = 5
        scale = 2
        [columns.b]
        type = "number"
        low = -1
        high = 1
        [columns.i]
        type = "integer"
        low = 0
        high = 5
        """
    )
    cells = [value, 2.0, 3.0, 4.0]
    table = kind({"y": [True, False, True, True], "a": cells, "b": cells, "i": cells})
    formula = (
        "y ~ log(a) + sqrt(a) + exp(a) + I(a**9) + I(1/a) + scale(a) + log1p(a):a + I(b**3) + b:i"
    )
    model = dp.LogisticRegression(formula, schema=schema, budget=dp.PureDP(5.0))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.fit(table).result_.conf_int()).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e-200, 1e300, np.longdouble("1e4000"), 7])
def test_no_value_of_an_array_raises(value):
    rows = X.astype(type(value)) if isinstance(value, np.longdouble) else X.copy()
    rows[3, 0] = value
    model = dp.LinearSVC(bounds=(-1, 1), classes=(-1, 1), budget=dp.ZCDP(1.0))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for budget in (dp.PureDP(1.0), dp.ZCDP(1.0)):
            assert np.isfinite(
                run(rows, loss=dp.HuberHinge(0.5), penalty=1.0, budget=budget).conf_int()
            ).all()
        assert np.isfinite(model.fit(rows, Y).coef_).all()


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", "b", None] * 10, dtype="string"),
        np.array(["a", "b", None] * 10, dtype=object),
        np.array(["a", pd.NA, Decimal("sNaN"), np.ones(2), "b"] * 6, dtype=object),
        pd.Series(["a", "b", "c"] * 10, dtype="category"),
    ],
    ids=["string", "object", "odd objects", "category"],
)
def test_no_label_raises(labels):
    model = dp.LogisticRegression(bounds=(-1, 1), classes=("a", "b"), budget=dp.PureDP(5.0))
    assert np.isfinite(model.fit(X[:30], labels).coef_).all()


def test_labels_of_another_type_than_the_classes_are_refused():
    with pytest.raises(dp.InputError, match="declare the two labels"):
        dp.LogisticRegression(bounds=(-1, 1), budget=dp.PureDP(5.0)).fit(
            X, np.where(Y > 0, "a", "b")
        )


def test_a_list_may_hold_a_missing_number():
    rows = [[0.1, None], [0.2, 2**70], [0.3, 0.1]]
    assert np.isfinite(run(rows, [1, -1, None], penalty=1.0).estimate).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run(penalty="0.1"), "penalty"),
        (lambda: run(penalty=[0.1]), "penalty"),
        (lambda: dp.HuberHinge("1"), "knee"),
        (lambda: run(loss=dp.Logistic), "is not a loss"),
        (lambda: run(insecure_seed=-1), "insecure_seed"),
        (lambda: run(insecure_seed="a"), "insecure_seed"),
    ],
)
def test_wrong_types(call, message):
    with pytest.raises(dp.InputError, match=message):
        call()


def test_numbers_of_numpy_are_numbers():
    result = run(budget=dp.PureDP(np.int64(1)), penalty=np.float64(0.1))
    assert dp.FitResult.from_json(result.to_json()).to_json() == result.to_json()


PLAIN = {"loss": dp.Logistic(), "penalty": 0.1, "budget": dp.ZCDP(1.0)}


def test_numbers_that_no_float_can_hold_are_missing():
    huge = [[10**400, 0.1], [0.2, 0.1]] * 10
    assert np.isfinite(dp.infer(huge, [1, -1] * 10, **PLAIN).estimate).all()
    dp.infer([[0.2, 0.1]] * 20, [10**400, -1] * 10, **PLAIN)


@pytest.mark.parametrize("values", [[True, False], [True, None], [None, None]])
def test_booleans_in_a_list_of_labels_are_missing(values):
    """An array of booleans is refused by its type; what a list holds must not decide."""
    found = dp.infer([[0.2, 0.1]] * 20, values * 10, **PLAIN, insecure_seed=1)
    assert np.array_equal(
        found.estimate, dp.infer([[0.0, 0.0]] * 20, [1] * 20, **PLAIN, insecure_seed=1).estimate
    )
    with pytest.raises(dp.InputError, match="not booleans"):
        dp.infer([[0.2, 0.1]] * 20, np.array([True, False] * 10), **PLAIN)
    with pytest.raises(dp.InputError, match="not Boolean"):
        dp.infer([[0.2, 0.1]] * 20, pd.array(values * 10, dtype="boolean"), **PLAIN)


@pytest.mark.parametrize("values", [[True, False], [True, None]])
def test_nullable_columns_are_read_with_and_without_missing_values(values):
    frame = pd.DataFrame({"a": pd.array(values * 10, dtype="boolean"), "b": 0.1})
    assert np.isfinite(dp.infer(frame, [1, -1] * 10, **PLAIN).estimate).all()


class Reads:
    """Cells that tell when somebody looks at them."""

    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        self.seen.append(name)
        raise AttributeError(name)


def test_guarantee_types_first(tmp_path):
    """With an exhausted ledger every fit of a table ends in the same error, whatever a cell holds;
    none is read.
    """
    schema = dp.Schema.parse(
        '[columns.y]\ntype = "outcome"\nlevels = [0, 1]\n[columns.a]\ntype = "number"\nlow = 0\nhigh = 1\n'
    )
    ledger, messages = dp.Ledger(dp.ZCDP(0.1)), set()
    cell = Reads()
    for values in ([0.5, 0.1], [np.nan, 1e300], [None, "x"], [cell, 10**400], [b"", 1j]):
        for kind in (object, None):
            if kind is None and not all(isinstance(value, float) for value in values):
                continue
            table = pd.DataFrame({"a": pd.Series(values, dtype=kind), "y": [0, 1]})
            model = dp.LogisticRegression(
                "y ~ a", schema=schema, budget=dp.ZCDP(1.0), ledger=ledger
            )
            with pytest.raises(dp.DpinferError) as caught:
                model.fit(table)
            messages.add((kind is object, type(caught.value), str(caught.value)))
    assert (
        len({message for _, *message in map(list, messages) for message in [tuple(message)]}) <= 2
    )
    for text in ("a,y\n0.5,1\n0.1,0\n", 'a,y\n"x,1\n\xff,0\n', "a,y\n,\n1e999,zz\n"):
        path = tmp_path / "table.csv"
        path.write_text(text, encoding="latin-1")
        with pytest.raises(dp.LedgerError, match="this costs"):
            dp.LogisticRegression("y ~ a", schema=schema, budget=dp.ZCDP(1.0), ledger=ledger).fit(
                path
            )
    assert cell.seen == []
    assert ledger.entries() == ()


def test_an_empty_table_is_a_table_where_the_number_of_records_is_private():
    empty = np.zeros((0, 2)), np.zeros(0)
    for n in (0, 1):
        model = dp.LogisticRegression(bounds=(-1, 1), budget=dp.ZCDP(0.1), neighbours="add-remove")
        assert model.fit(np.zeros((n, 2)), np.zeros(n)).result_.model.n is None
    with pytest.raises(ValueError, match="minimum of 1"):
        dp.LogisticRegression(bounds=(-1, 1), budget=dp.ZCDP(0.1)).fit(*empty)
    with pytest.raises(
        dp.InputError, match="at least one record, unless the neighbours add-remove"
    ):
        dp.infer(*empty, loss=dp.Logistic(), budget=dp.ZCDP(0.1))
    schema = dp.Schema.parse(
        '[columns.a]\ntype = "number"\nlow = -1\nhigh = 1\n[columns.y]\ntype = "outcome"\nlevels = [0, 1]\n'
    )
    table = pd.DataFrame({"a": np.zeros(0), "y": np.zeros(0, dtype=int)})
    private = dp.LogisticRegression(
        "y ~ a", schema=schema, budget=dp.ZCDP(0.1), neighbours="add-remove"
    )
    assert private.entry(0) == private.entry(1)
    private.fit(table)
    public = dp.LogisticRegression("y ~ a", schema=schema, budget=dp.ZCDP(0.1))
    for use in (lambda: public.entry(0), lambda: public.fit(table)):
        with pytest.raises(dp.InputError, match="at least one record"):
            use()
