import dataclasses
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.inference.error_laws import ErrorLaw
from dpinfer.numerics.noise_laws import Gaussian, SphericalLaplace
from dpinfer.privacy.release import NoisySum
from dpinfer.result.statements import TOO_NOISY, Model, Privacy
from helpers.support import labelled

X, Y = labelled(2000, 3)
BUDGETS = [dp.PureDP(2.0), dp.ZCDP(0.5), dp.ApproxDP(2.0, 1e-6), dp.NoPrivacy()]


def fit(budget=BUDGETS[0], **options):
    return dp.infer(
        X, Y, loss=dp.Logistic(), penalty=0.01, budget=budget, insecure_seed=3, **options
    )


@pytest.mark.parametrize("budget", BUDGETS)
def test_round_trip_is_exact(budget):
    result = fit(budget)
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert np.array_equal(again.conf_int(0.9), result.conf_int(0.9))
    assert again.summary() == result.summary()
    assert again.privacy == result.privacy
    assert again.model == result.model
    assert json.loads(result.to_json())["version"] == 5


numbers = st.floats(-1e300, 1e300)
laws = st.one_of(
    st.builds(Gaussian, st.floats(0, 1e9)), st.builds(SphericalLaplace, st.floats(1e-9, 1e9))
)
budgets = st.one_of(
    st.builds(dp.PureDP, st.floats(1e-9, 1e9)),
    st.builds(dp.ZCDP, st.floats(1e-9, 1e9)),
    st.builds(dp.ApproxDP, st.floats(1e-9, 1e9), st.floats(1e-300, 0.9)),
)


def square(a):
    return np.array([[a, a / 3], [a / 3, a]])


results = st.builds(
    lambda name, a, b, noise, budget, seed, flag: dp.FitResult(
        (name, "b"),
        np.array([a, b]),
        ErrorLaw(
            square(a), square(b), noise, 10_000, seed, flag, square(b), square(a), abs(a), abs(b)
        ),
        square(a),
        square(b),
        Model("Logistic()", abs(a), seed, "penalised", name, "paper"),
        Privacy(budget, name, (NoisySum(name, dp.ZCDP(1.0), 1.0),), flag, not flag),
    ),
    st.text(),
    numbers,
    numbers,
    laws,
    budgets,
    st.integers(0, 2**63),
    st.booleans(),
)


@given(results)
def test_json_round_trip_of_any_result(result):
    again = dp.FitResult.from_json(result.to_json())
    for field in dataclasses.fields(dp.FitResult):
        a, b = getattr(result, field.name), getattr(again, field.name)
        if isinstance(a, np.ndarray):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype
        elif not isinstance(a, ErrorLaw):
            assert a == b
    assert np.array_equal(again.error.sampling, result.error.sampling)
    assert again.error.noise == result.error.noise
    assert again.error.seed == result.error.seed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "3",
        '{"format": "x", "version": 1}',
    ],
)
def test_bad_json(text):
    with pytest.raises(dp.InputError, match="not a"):
        dp.FitResult.from_json(text)


def test_bad_fields_in_json():
    document = json.loads(fit().to_json())
    changed = [0.0, *document["estimate"][1:]]
    others = {**document, "extra": 1}, {**document, "estimate": changed}
    for broken in (*others, {k: v for k, v in document.items() if k != "names"}):
        with pytest.raises(dp.InputError, match="not a saved FitResult"):
            dp.FitResult.from_json(json.dumps(broken))
    document["kind"] = "Gaussian"
    with pytest.raises(dp.InputError, match="not a saved FitResult"):
        dp.FitResult.from_json(json.dumps(document))


@pytest.mark.parametrize("budget", BUDGETS)
def test_table_and_frame(budget):
    result = fit(budget)
    frame = result.to_frame(level=0.9)
    assert list(frame.index) == ["x1", "x2", "x3"]
    assert list(frame.columns) == [
        "estimate",
        "std_error",
        "z",
        "p_value",
        "low",
        "high",
        "noise_share",
        "clipped_to",
        "status",
    ]
    assert np.array_equal(frame["estimate"], result.estimate)
    assert np.array_equal(frame["low"], result.conf_int(0.9)[:, 0])
    assert np.allclose(frame["std_error"] ** 2, np.diag(result.covariance))
    assert frame["p_value"].between(0, 1).all()


@pytest.mark.parametrize("budget", BUDGETS)
def test_intervals_are_stable_nested_and_around_the_estimate(budget):
    result = fit(budget)
    assert result.conf_int().shape == (3, 2)
    assert np.array_equal(result.conf_int(), result.conf_int())
    wide, narrow = result.conf_int(0.99), result.conf_int(0.5)
    assert np.all(wide[:, 0] < narrow[:, 0])
    assert np.all(narrow[:, 0] < result.estimate)
    assert np.all(result.estimate < narrow[:, 1])
    band = result.simultaneous(0.95)
    assert np.all(np.diff(band) > np.diff(result.conf_int(0.95)))


@pytest.mark.parametrize("budget", BUDGETS)
def test_contrast_of_one_coefficient_is_that_coefficient(budget):
    result = fit(budget)
    contrast = result.contrast([0, 1, 0])
    low, high = result.conf_int()[1]
    assert contrast.estimate == result.estimate[1]
    assert contrast.std_error == pytest.approx(result.std_error[1])
    assert [contrast.low, contrast.high] == pytest.approx([low, high], abs=0.05 * (high - low))
    difference = result.contrast([1, -1, 0])
    v = np.array([1.0, -1, 0])
    assert difference.std_error == pytest.approx(np.sqrt(v @ result.covariance @ v))


def test_wald_against_a_value():
    result = fit(dp.NoPrivacy())
    assert result.wald(np.eye(3), result.estimate).statistic == pytest.approx(0, abs=1e-20)
    assert result.wald(np.eye(3), result.estimate).p_value == pytest.approx(1)
    assert result.wald([1, 0, 0]).df == 1
    assert result.wald(np.eye(3)).df == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.conf_int(1.0), "level"),
        (lambda r: r.conf_int(95), "level"),
        (lambda r: r.contrast([1, 0]), "3 in a row"),
        (lambda r: r.contrast(np.eye(3)), "one vector"),
        (lambda r: r.contrast([1, np.nan, 0]), "finite"),
        (lambda r: r.wald([[1, 0, 0], [2, 0, 0]]), "independent"),
        (lambda r: r.wald([1, 0, 0], np.nan), "finite number"),
        (lambda r: r.wald([1, 0, 0], [1, 2]), "one finite number"),
    ],
)
def test_bad_questions(call, message):
    with pytest.raises(dp.InputError, match=message):
        call(fit())


def test_summary_says_what_must_be_said():
    text = dp.infer(
        X, Y, loss=dp.HuberHinge(0.5), penalty=0.02, budget=dp.ApproxDP(1.0, 1e-6)
    ).summary(level=0.9, full=True)
    for words in (
        "Differentially private",
        "support vector machine, hinge rounded within 0.5 of its corner",
        "2,000",
        "0.02",
        "ε = 1, δ = 10⁻⁶",
        "one record replaced",
        "Estimand",
        "not the unpenalised",
        "Nothing was booked",
        "exact to the last digit",
        "[0.05",
        "0.95]",
    ):
        assert words in text
    assert "NOT PRIVATE" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


NAMED = ("(Intercept)", "a" * 19, "occupation_of_the_driver[professional]:age", "w" * 90)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("size", [1.0, 1e-7, 1e7])
def test_a_summary_has_ten_lines_under_its_table_and_80_letters(budget, size):
    """Whatever the names, the numbers and the statuses; the rest is one argument away."""
    X, y = labelled(500, 4)
    found = dp.infer(X, y, loss=dp.Logistic(), penalty=0.01, budget=budget, insecure_seed=3)
    error = found.error.mapped(np.eye(4)[:3] * size)
    status = (*["reported"] * 3, TOO_NOISY)
    unit = "one person " * 20
    result = dataclasses.replace(
        found,
        names=NAMED,
        estimate=found.estimate * size,
        error=error,
        status=status,
        privacy=dataclasses.replace(found.privacy, unit=unit.strip()),
    )
    summary, full = (result.summary(full=full).splitlines() for full in (False, True))
    for lines in (summary, full):
        assert [line for line in lines if len(line) > 80] == [NAMED[3]]
    under = summary[len(summary) - summary[::-1].index("=" * 80) :]
    assert 5 < len(under) <= 10
    assert under[-1] == "All statements: summary(full=True)."
    assert any(line.startswith("Spent on") for line in full)
    assert not any(line.startswith("Spent on") for line in summary)
    assert len(full) > len(summary)


@pytest.mark.parametrize(
    "options", [{"budget": dp.NoPrivacy()}, {"budget": dp.PureDP(2.0), "insecure_seed": 1}]
)
def test_what_is_not_private_says_so(options):
    result = dp.infer(X, Y, loss=dp.Logistic(), penalty=0.01, **options)
    assert not result.privacy.private
    assert result.summary().count("NOT PRIVATE") == 2


def test_booking_is_stated():
    ledger = dp.Ledger(dp.ZCDP(1.0))
    result = dp.infer(X, Y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.5), ledger=ledger)
    assert "Nothing was booked" not in result.summary()


def test_a_coefficient_that_is_not_identified_has_no_finite_interval():
    result = fit(BUDGETS[1])
    error = result.error.mapped(np.eye(3)[[0, 2]])
    part = dataclasses.replace(
        result, error=error, status=("reported", "not identified at this budget", "reported")
    )
    assert np.array_equal(part.conf_int()[[0, 2]], result.conf_int()[[0, 2]])
    assert part.conf_int()[1].tolist() == [-np.inf, np.inf]
    assert np.isnan(part.std_error[1])
    assert np.isnan(part.covariance[1]).all()
    assert np.array_equal(
        part.covariance[np.ix_([0, 2], [0, 2])], result.covariance[np.ix_([0, 2], [0, 2])]
    )
    assert np.isnan(part.noise_share[1])
    row = part.table()[1]
    assert np.isnan(row["estimate"])
    assert np.isnan(row["p_value"])
    assert row["status"] == "not identified at this budget"
    assert part.contrast([1, 0, -1]).estimate == result.contrast([1, 0, -1]).estimate
    with pytest.raises(dp.InputError, match="x2 is not identified at this budget"):
        part.contrast([1, 1, 0])
    assert np.isinf(part.simultaneous()[1]).all()
    again = dp.FitResult.from_json(part.to_json())
    assert again.to_json() == part.to_json()


def test_the_noise_share_splits_the_variance():
    result = fit(BUDGETS[1])
    sampling = np.diag(result.error.sampling)
    assert np.allclose(sampling, (1 - result.noise_share) * result.std_error**2)
    assert np.allclose(fit(BUDGETS[3]).noise_share, 0, atol=1e-12)


def test_a_summary_shows_the_status_of_what_is_not_identified():
    result = fit(BUDGETS[1])
    error, status = (
        result.error.mapped(np.eye(3)[[0, 2]]),
        ("reported", "not identified at this budget", "reported"),
    )
    shown = dataclasses.replace(result, error=error, status=status).summary()
    (line,) = [line for line in shown.splitlines() if line.startswith("x2  ")]
    assert line.split(maxsplit=1)[1] == status[1]
    assert "x2 has no estimate at this budget" in shown
    assert "larger budget" in shown
    assert " nan" not in shown
    assert " inf" not in shown
    assert "no estimate" not in result.summary()
    assert [line for line in shown.splitlines() if line.startswith(("x1 ", "x3 "))] == [
        line for line in result.summary().splitlines() if line.startswith(("x1 ", "x3 "))
    ]


def test_a_band_follows_its_level():
    """Sup-t bands: wider than single intervals, nested in the level, and of their level by the
    law's own draws.
    """
    result = fit()
    errors = result.error.sample()
    for level in (0.5, 0.8, 0.95):
        low, high = (result.simultaneous(level) - result.estimate[:, None]).T
        assert ((low <= errors) & (errors <= high)).all(axis=1).mean() == pytest.approx(
            level, abs=0.01
        )
        assert (high - low > np.diff(result.conf_int(level))[:, 0]).all()


def test_intervals_are_arrays_or_a_frame_with_names():
    result = fit(dp.ZCDP(0.5))
    for intervals in (result.conf_int(), result.simultaneous()):
        assert isinstance(intervals, np.ndarray)
        assert intervals.shape == (len(result.names), 2)
        assert intervals.dtype == float
    frame = result.conf_int(0.9, frame=True)
    assert list(frame.index) == list(result.names)
    assert list(frame.columns) == ["low", "high"]
    assert np.array_equal(frame.to_numpy(), result.conf_int(0.9))


def test_one_equation_is_a_t_test():
    """Both sides may hold coefficients and numbers; it agrees with `contrast` and `wald`."""
    result = fit(dp.ZCDP(0.5))
    a, b = result.names[:2]
    tested = result.t_test(f"{a} = {b}", level=0.9)
    assert tested == result.contrast(f"{a} - {b}", level=0.9)
    shifted = result.t_test(f"{a} = 2")
    assert shifted.estimate == pytest.approx(result.params[a] - 2)
    assert shifted.p_value == pytest.approx(result.wald(f"{a} = 2").p_value, rel=1e-6)
    assert result.t_test(a).p_value == result.pvalues[a]
    with pytest.raises(dp.InputError, match="not one equation: test several at once with wald"):
        result.t_test(f"{a} = {b} = 0")
    with pytest.raises(dp.InputError, match="takes a text"):
        result.t_test([1.0, 0.0])


def test_frames_are_printed_whole():
    words = "not reported: " + "many words " * 20 + "end"
    result = fit(dp.ZCDP(0.5))
    status = (words, *("reported" for _ in result.names[1:]))
    few = dataclasses.replace(
        result, status=status, error=result.error.mapped(np.eye(len(status))[1:])
    )
    with pd.option_context("display.max_columns", 3, "display.max_colwidth", 20):
        assert words in repr(few.to_frame())
        assert words in few.to_frame()._repr_html_()
        for name in few.to_frame().columns:
            assert name in repr(few.to_frame())
        assert "..." not in repr(result.cov_params())
        assert "..." not in repr(result.conf_int(frame=True))
    assert isinstance(few.to_frame().head(1), pd.DataFrame)
    assert pickle.loads(pickle.dumps(few.to_frame())).equals(few.to_frame())


def test_the_notes_of_a_latex_table_are_printed():
    result = fit(dp.ZCDP(0.5))
    lines = result.to_latex().splitlines()
    assert not [line for line in lines if line.startswith("%")]
    after = lines[lines.index(r"\end{tabular}") + 1 :]
    assert any("Privacy: " in line for line in after)
