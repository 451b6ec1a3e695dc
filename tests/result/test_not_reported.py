"""Coefficients not reported: every column of the formula is a row, what is known instead stands under it,
combinations are told.
"""

import csv
import dataclasses
import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtr

import dpinfer as dp
from dpinfer.inference.joint import KNOWN
from dpinfer.result import coefficient_table
from dpinfer.result.statements import INTERCEPT_NOT_REPORTED, NOT_REPORTED, UNIDENTIFIED
from helpers.partial_results import CENTRE, DRAWS, NAMES, SEED, STATUS, partly_reported, recipe

NOT_REPORTED_NAMES = ("left", "right", "health[poor]", "income")
COLUMNS = [
    "estimate", "std_error", "z", "p_value", "low", "high", "noise_share", "clipped_to", "status",
]  # fmt: skip
ROWS = pd.DataFrame(
    {
        "age": [50, 60, 50, 50],
        "left": [1.5, 1.5, 1.0, 2.0],
        "right": [1.5, 1.5, 1.0, 1.0],
        "health": ["good", "fair", "poor", "good"],
    }
)
GOOD, FAIR, POOR, APART = range(4)


@pytest.fixture(scope="module")
def result():
    return partly_reported()


@pytest.fixture(scope="module")
def nearer():
    """Without the column whose records far out leave every prediction without an interval."""
    return partly_reported(income=False)


def told(fit, vector):
    """What the law of all coefficients says of a combination."""
    answers = fit.joint.about(np.atleast_2d(vector).astype(float), DRAWS, SEED)
    low, high = answers.law.interval(answers.estimate, 0.95)[0]
    return answers, float(answers.estimate[0]), float(low), float(high)


def test_every_column_of_the_formula_is_one_row(result):
    gone = np.array([name in NOT_REPORTED_NAMES for name in NAMES])
    frame = result.to_frame()
    assert list(frame.columns) == COLUMNS
    series = (result.params, result.bse, result.pvalues)
    numbers = ("estimate", "std_error", "p_value", "noise_share")
    for values in (*series, *(frame[key] for key in numbers)):
        assert tuple(values.index) == NAMES
        assert np.array_equal(np.isnan(values), gone)
    for values in (result.tvalues, frame["z"]):  # blank too where an interval allows for a bias
        assert tuple(values.index) == NAMES
        assert np.isnan(values[gone]).all()
    assert np.array_equal(np.isinf(result.conf_int()).all(axis=1), gone)
    assert [row["name"] for row in result.table()] == list(NAMES)
    assert tuple(frame["status"]) == STATUS


def test_the_covariance_has_the_names(result):
    found = result.cov_params()
    assert tuple(found.index) == tuple(found.columns) == NAMES
    assert found.loc["age", "age"] == pytest.approx(result.bse["age"] ** 2)
    assert np.array_equal(found.isna().all(axis=1), result.params.isna())
    kept = result.reported
    assert np.array_equal(found.to_numpy()[np.ix_(kept, kept)], result.error.covariance())


def test_the_number_of_records(result):
    assert result.nobs == 5000.0
    private = dataclasses.replace(result, model=dataclasses.replace(result.model, n=None))
    noisy = dataclasses.replace(
        private, geometry=dataclasses.replace(result.geometry, records=4987.4)
    )
    assert noisy.nobs == 4987.4


def test_alternatives_are_a_table_of_their_own(result, nearer):
    found = result.alternatives(0.9)
    assert list(found.columns) == [*COLUMNS, "instead_of"]
    assert found["instead_of"].tolist() == ["health[poor]", "income"]
    assert not set(found.index) & set(NAMES)
    expected = result.instead.error.interval(result.instead.estimate, 0.9)
    assert np.array_equal(found[["low", "high"]].to_numpy(), expected)
    nothing = nearer.alternatives()
    assert nothing.empty
    assert list(nothing.columns) == [*COLUMNS, "instead_of"]
    assert nothing.index.name == "name"


def after(lines, first, second):
    """Whether a line that begins with one name is the next row of the table under that of another."""
    places = [
        [j for j, line in enumerate(lines) if line.startswith(word)] for word in (first, second)
    ]
    return len(places[0]) == len(places[1]) == 1 and places[1][0] == places[0][0] + 1


def test_alternatives_stand_indented_under_the_line_they_stand_for(result):
    summary = result.summary().splitlines()
    (place,) = [j for j, line in enumerate(summary) if line == "  income, within 5 to 80"]
    above = [line for line in summary[:place] if line[0] not in " =-"]
    assert above[-1].startswith("income  ")
    tex = result.to_latex().splitlines()
    assert after(tex, r"health{[}poor{]} &", r"\quad health{[}poor{]}, against fair &")
    for view in (result.to_markdown(), dp.report.markdown(result).partition("## ")[0]):
        assert after(view.splitlines(), "| income |", "| &emsp;income, within 5 to 80 |")
    page = result._repr_html_()
    assert '<th scope="row">&emsp;income, within 5 to 80</th>' in page
    assert (
        page.index(">income</th>")
        < page.index("&emsp;income, within")
        < page.index("(Intercept at 0)")
    )
    whole = dp.report.html(result)
    assert whole.count('class="instead"') == 2
    assert (
        whole.index('scope="row">income ')
        < whole.index("Instead of income: ")
        < whole.index("(Intercept at 0)")
    )


def test_the_sheet_says_what_is_no_coefficient(result):
    rows = list(csv.DictReader(io.StringIO(dp.report.csv(result))))
    assert [row["name"] for row in rows if not row["instead_of"]] == [*NAMES, "(Intercept at 0)"]
    place = [row["name"] for row in rows].index("income, within 5 to 80")
    assert rows[place - 1]["name"] == rows[place]["instead_of"] == "income"
    assert rows[place]["in_predictions"] == rows[place]["centre"] == rows[place]["reference"] == ""
    assert rows[place]["formula"] == rows[0]["formula"] != ""
    assert "partners" not in rows[0]


def test_it_is_said_once_what_not_reported_means(result):
    page = dp.report.html(result)
    for view in (
        result.summary(full=True),
        dp.report.markdown(result),
        result.to_markdown(),
        result.to_latex(),
        page,
    ):
        words = " ".join(view.replace("\\", "").split())
        assert words.count(coefficient_table.MEANING) == 1
        assert words.count(coefficient_table.INSTEAD) == 1
        for gone in ("set aside", "left out", "†", "dropped"):
            assert gone not in words
    plain = dataclasses.replace(result, instead=None)
    assert coefficient_table.INSTEAD not in " ".join(plain.summary(full=True).split())


def test_every_reason_can_be_read_in_full(result):
    """Statuses are long: they take as many lines as they need, and no line is longer than the
    table.
    """
    summary = result.summary()
    words = " ".join(summary.split())
    for status in STATUS[2:4] + STATUS[5:]:
        assert status in words
    table = [line for line in summary.splitlines() if set(line) == {"="}]
    assert max(map(len, summary.splitlines())) <= max(map(len, table))
    for status in STATUS[2:4] + STATUS[5:]:
        assert status in result._repr_html_().replace("&#x27;", "'")


def test_plots_say_what_they_do_not_draw(result, nearer):
    shown = " ".join(dp.plot.forest_text(result).split())
    assert coefficient_table.NOT_DRAWN in shown
    assert "within 5 to 80" not in shown
    for status in STATUS[2:4] + STATUS[5:]:
        assert status in shown
    assert max(map(len, dp.plot.forest_text(result, width=70).splitlines())) <= 70
    assert coefficient_table.NOT_DRAWN in dp.report.html(result)
    assert coefficient_table.NOT_DRAWN in " ".join(dp.plot.forest(result).get_supxlabel().split())
    for view in (
        dp.plot.forest_text(nearer),
        dp.report.html(nearer),
        dp.plot.forest(nearer).get_supxlabel(),
    ):
        assert coefficient_table.NOT_DRAWN not in " ".join(view.split())


def test_a_contrast_of_coefficients_not_reported_is_told_where_all_together_tell_it(nearer):
    vector = np.array([0.0, 0, 1, 1, 0, 0])
    answers, estimate, low, high = told(nearer, vector)
    assert answers.why == (KNOWN,)
    found = nearer.contrast("left + right")
    assert (found.estimate, found.low, found.high) == pytest.approx((estimate, low, high))
    assert found == nearer.contrast(vector)
    assert found.p_value < 0.001
    wide = nearer.contrast("left + right", level=0.99)
    assert wide.low < found.low < found.high < wide.high


def test_a_contrast_of_reported_lines_is_that_of_their_law(nearer):
    """Whatever the law of all coefficients says."""
    alone = dataclasses.replace(nearer, joint=None)
    assert nearer.contrast("age - health[fair]") == alone.contrast("age - health[fair]")
    assert nearer.contrast("age").low == pytest.approx(nearer.conf_int()[1, 0])


def test_what_nobody_can_tell_is_refused_with_the_reasons(result, nearer):
    for fit in (nearer, dataclasses.replace(nearer, joint=None)):
        with pytest.raises(dp.InputError) as refused:
            fit.contrast("left - right + health[poor]")
        words = str(refused.value)
        assert (
            "left is not reported: its effect cannot be separated from that of other columns, mainly right"
            in words
        )
        assert "health[poor] is not reported: too few events" in words
        assert "age" not in words
        assert "larger budget" in words
    with pytest.raises(dp.InputError, match=r"beyond about 5\.\.80"):
        result.contrast("income")
    with pytest.raises(dp.InputError, match="left is not reported: "):
        dataclasses.replace(nearer, joint=None).contrast("left + right")


def test_a_test_of_coefficients_not_reported_is_made_where_every_row_is_told(nearer):
    both = nearer.wald("left + right = 0, age = 0")
    assert both.df == 2
    assert both.tested == ("age", "left", "right")
    matrix = np.array([[0.0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 0, 0]])
    answers = nearer.joint.about(matrix, DRAWS, SEED)
    covariance = answers.law.covariance()
    assert both.statistic == pytest.approx(
        answers.estimate @ np.linalg.solve(covariance, answers.estimate), rel=0.05
    )
    centre = nearer.wald(matrix, answers.estimate)
    assert centre.statistic == pytest.approx(0, abs=1e-12)
    with pytest.raises(dp.InputError, match="left is not reported: "):
        nearer.wald("left = 0, age = 0")


def test_one_row_with_a_coefficient_not_reported_is_enough_to_refuse_a_test(nearer):
    """Not answered with that coefficient dropped, which would be the test of another hypothesis."""
    alone = dataclasses.replace(nearer, joint=None)
    rows = {"age = 0": [0.0, 1, 0, 0, 0, 0], "health[fair] = 0": [0.0, 0, 0, 0, 1, 0]}
    for fit in (nearer, alone):
        assert fit.wald(", ".join(rows)).df == fit.wald(list(rows.values())).df == 2
        with pytest.raises(dp.InputError, match="left is not reported: "):
            fit.wald("age + left = 0, health[fair] = 0")
        with pytest.raises(dp.InputError, match="left is not reported: "):
            fit.wald([[0.0, 1, 1, 0, 0, 0], rows["health[fair] = 0"]])


def test_a_term_is_tested_as_far_as_it_is_reported(nearer):
    found = nearer.wald("health")
    assert (found.tested, found.left_out) == (("health[fair]",), ("health[poor]",))
    bare = dataclasses.replace(
        nearer, names=("(Intercept)", "age", "left[a]", "right", *NAMES[4:6]), question=None
    )
    with pytest.raises(dp.InputError, match=r"none of left\[a\] has an interval"):
        bare.wald("left")


def linear_row(age, left, right, fair, poor):
    """The combination that a row's predictor is: the intercept is that of the centre."""
    return np.array([1.0, *(np.array([age, left, right, fair, poor]) - CENTRE[:5])])


def test_a_row_without_a_missing_interval_of_its_own_has_its_interval(nearer):
    """A level that a row does not have weighs only by its share in the centre; left and right move
    together here.
    """
    found = nearer.predict(ROWS)
    for row, vector in (
        (GOOD, linear_row(50, 1.5, 1.5, 0, 0)),
        (FAIR, linear_row(60, 1.5, 1.5, 1, 0)),
    ):
        without = dataclasses.replace(
            nearer.joint, few=nearer.joint.few * np.array([1, 1, 1, 1, row == FAIR, 0])
        )
        answers = without.about(vector[None], DRAWS, SEED)
        assert answers.why == (KNOWN,)
        low, high = expit(answers.law.interval(answers.estimate, 0.95)[0])
        assert found.loc[row, ["prediction", "low", "high"]].tolist() == pytest.approx(
            [expit(answers.estimate[0]), low, high]
        )
        assert found.loc[row, "status"] == "reported"
        assert found.loc[row, "open"] == ""


def test_a_row_that_rests_on_a_column_not_reported_says_so(nearer):
    found = nearer.predict(ROWS)
    assert found.loc[POOR, "open"] == "health[poor]"
    assert found.loc[APART, "open"] == "left"
    for row, vector in ((POOR, linear_row(50, 1, 1, 0, 1)), (APART, linear_row(50, 2, 1, 0, 0))):
        assert (found.loc[row, "low"], found.loc[row, "high"]) == (0, 1)
        assert np.isnan(found.loc[row, "std_error"])
        assert found.loc[row, "prediction"] == pytest.approx(expit(vector @ nearer.estimate))
        assert "no interval: it rests on" in found.loc[row, "status"]
    assert set(found["target"]) == {"ordinary"}


def test_a_number_not_reported_is_in_every_row(result):
    found = result.predict(ROWS.assign(income=[10, 20, 50, 100]))
    assert all("income" in names.split(", ") for names in found["open"])
    assert (found["high"] == 1).all()
    at_centre = result.predict(ROWS.iloc[[2]].assign(income=30.0, health="good"))
    assert at_centre.loc[0, "open"] == ""


def test_without_the_law_of_all_no_such_row_has_an_interval(nearer):
    found = dataclasses.replace(nearer, joint=None).predict(ROWS)
    assert (found["open"] != "").all()
    assert (found["low"] == 0).all()
    expected = nearer.predict(ROWS).loc[[POOR, APART], "prediction"]
    assert np.array_equal(found.loc[[POOR, APART], "prediction"], expected)


def test_where_nothing_is_reported_there_is_still_a_prediction(nearer):
    law = nearer.error.mapped(np.empty((0, int(nearer.reported.sum()))))
    nothing = dataclasses.replace(nearer, status=(UNIDENTIFIED,) * 6, error=law, joint=None)
    found = nothing.predict(ROWS)
    assert np.isfinite(found["prediction"]).all()
    assert (found["high"] == 1).all()
    assert nothing.ordinary_intercept()["status"] == UNIDENTIFIED
    words = " ".join(nothing.summary().split())
    assert "6 coefficients have no estimate" in words
    assert coefficient_table.MEANING not in words


def test_a_line_has_all_of_its_numbers_or_none(nearer):
    """Also the ordinary intercept, which all coefficients together may tell where none is reported."""
    law = nearer.error.mapped(np.empty((0, int(nearer.reported.sum()))))
    reason = INTERCEPT_NOT_REPORTED
    nothing = dataclasses.replace(nearer, status=(reason,) * 6, error=law)
    assert nothing.predictors(np.zeros((1, 5)), 0.95).known[0]
    for fit in (nearer, nothing):
        rows = [
            *csv.DictReader(io.StringIO(dp.report.csv(fit))),
            *json.loads(fit.to_json())["reading"]["coefficients"],
            *fit.table_with_alternatives(),
            fit.ordinary_intercept(),
        ]
        for row in rows:
            numbers = [row[key] for key in ("estimate", "std_error", "p_value", "low", "high")]
            finite = {number is not None and bool(np.isfinite(float(number))) for number in numbers}
            assert finite == {row["status"] == "reported"}, row["name"]
    for written in (nothing.to_markdown(), nothing.to_latex(), nothing._repr_html_()):
        line = next(line for line in re.split(r"\n|</tr>", written) if "(Intercept at 0)" in line)
        assert not re.search(r"\d", line.replace("(Intercept at 0)", ""))
    assert re.search(r"\(Intercept at 0\).*<td>–</td>", dp.report.html(nothing))


def allowing(fit, below, above):
    """The same result, whose intervals allow for so many standard errors at their ends."""
    deviation = np.sqrt(np.diag(fit.error.covariance()))
    law = dataclasses.replace(fit.error, below=below * deviation, above=above * deviation)
    return dataclasses.replace(fit, error=law)


def test_z_is_there_only_where_p_is_its_own(nearer):
    """p is below .05 exactly where the interval leaves 0 out; z is blank where it does not say so,
    in every view, and a sentence says why.
    """
    plain = allowing(nearer, 0.0, 0.005)
    kept = plain.reported
    z = plain.tvalues[kept]
    assert np.allclose(z, (plain.params / plain.bse)[kept])
    assert np.allclose(plain.pvalues[kept], 2 * ndtr(-np.abs(z)), atol=0.003)
    one_end = allowing(nearer, 0.0, 1.5)
    for fit in (one_end, allowing(nearer, 0.4, 0.4)):
        assert fit.tvalues.isna().all()
        saved = json.loads(fit.to_json())["reading"]["coefficients"]
        assert all(row["z"] is None for row in saved[:6])
        frame = fit.to_frame()[kept]
        inside = (frame["low"] <= 0) & (frame["high"] >= 0)
        assert (inside == (frame["p_value"] >= 0.05)).all()
        for level in (0.6, 0.9, 0.99):
            ends = fit.conf_int(level)[kept]
            assert ((ends[:, 0] <= 0) & (ends[:, 1] >= 0) == (frame["p_value"] >= 1 - level)).all()
        for view in (fit.summary(full=True), fit.to_markdown(), fit.to_latex(), fit._repr_html_()):
            words = " ".join(view.replace("% ", "").split())
            assert words.count(coefficient_table.BIAS_BOUND) == 1
            assert "nan" not in words
        assert coefficient_table.BIAS_BOUND in dp.report.html(fit)
    age = one_end.to_frame().loc["age"]
    assert age["high"] - age["estimate"] > age["estimate"] - age["low"]
    rows = list(csv.DictReader(io.StringIO(dp.report.csv(one_end))))
    assert {row["z"] for row in rows[:6]} == {"nan"}


def test_margins_and_odds_ratios_keep_coefficients_not_reported(nearer):
    ratios = nearer.odds_ratios()
    assert tuple(ratios.index) == NAMES[1:6]
    assert np.isnan(ratios.loc["left", "odds_ratio"])
    assert ratios.loc["left", "status"] == STATUS[2]
    assert ratios.loc["age", "odds_ratio"] == pytest.approx(np.exp(nearer.params["age"]))
    effects = nearer.margins()
    assert np.isnan(effects.loc["left", "effect"])
    assert effects.loc["left", "status"] == STATUS[2]
    assert effects.loc["age", "status"] == "reported"
    assert (
        STATUS[5] in effects.loc["health[fair]", "status"]
    )  # the reference is at the centre less all levels


def test_an_effect_that_rests_on_coefficients_not_reported_is_told_where_all_together_tell_it(
    nearer,
):
    """By the delta method: the effect moves with its gradient from the working values to the
    answer.
    """
    gradient = np.array([[0.0, 0, 0.2, 0.2, 0, 0], [0, 0, 0.2, 0.1, 0, 0], [0, 0, 0, 0, 0, 0]])
    found = nearer.combined(gradient, 0.95, np.array([0.1, 0.1, 0.1]))
    answers, estimate, low, high = told(nearer, gradient[0])
    assert found.known.tolist() == [True, False, False]
    moved = 0.1 - float(gradient[0] @ nearer.estimate)
    assert found.estimate[0] == pytest.approx(estimate + moved)
    assert (found.low[0], found.high[0]) == pytest.approx((low + moved, high + moved))
    assert found.std_error[0] == pytest.approx(np.sqrt(answers.law.covariance()[0, 0]))
    assert found.estimate[1] == 0.1


def test_the_ordinary_intercept(result, nearer):
    row = result.ordinary_intercept()
    assert np.isnan(row["estimate"])
    assert row["status"].startswith(NOT_REPORTED)
    assert "income" in row["status"]
    assert "is not reported: it depends on" in " ".join(result.intercepts()[0].split())
    row = nearer.ordinary_intercept()
    vector = linear_row(0, 0, 0, 0, 0)
    law = dataclasses.replace(nearer.joint, few=np.zeros(6))
    answers = law.about(vector[None], DRAWS, SEED)
    assert row["status"] == "reported"
    assert row["estimate"] == pytest.approx(answers.estimate[0])
    assert row["in_predictions"] == pytest.approx(
        vector @ nearer.estimate
    )  # with the working values of the others
    assert row["in_predictions"] != pytest.approx(row["estimate"], abs=1e-3)
    assert [row["low"], row["high"]] == pytest.approx(
        answers.law.interval(answers.estimate, 0.95)[0].tolist()
    )


@pytest.mark.parametrize("squares", [False, True])
def test_what_is_saved_is_read_back_to_the_last_bit(squares):
    result = partly_reported(squares=squares)
    written = result.to_json()
    again = dp.FitResult.from_json(written)
    assert again.to_json() == written
    assert json.loads(written)["version"] == 5
    for field in dataclasses.fields(result.joint):
        assert np.array_equal(getattr(again.joint, field.name), getattr(result.joint, field.name))
    assert np.array_equal(again.instead.estimate, result.instead.estimate)
    assert again.instead.names == result.instead.names
    assert (
        again.geometry.max_influence
        == result.geometry.max_influence
        == (np.inf if squares else 2.0)
    )
    rows = np.array([[40.0, 1, 2, 0, 1, 500.0], [90.0, 3, 0, 1, 0, 10.0]])
    assert np.array_equal(again.geometry.row_weights(rows), result.geometry.row_weights(rows))
    pd.testing.assert_frame_equal(again.alternatives(), result.alternatives())
    assert again.contrast("left + right") == result.contrast("left + right")
    assert again.summary() == result.summary()
    reading = json.loads(written)["reading"]
    assert [row["instead_of"] for row in reading["alternatives"]] == ["health[poor]", "income"]
    assert [row["name"] for row in reading["coefficients"]] == [*NAMES, "(Intercept at 0)"]


@pytest.mark.parametrize(
    ("squares", "kind"), [(False, "logistic regression"), (True, "least squares")]
)
def test_the_estimand_is_the_regression_that_was_asked_for(squares, kind):
    model = partly_reported(squares=squares).model
    said = model.estimand()
    assert said.startswith(
        f"the coefficients of the ordinary {kind}, with all columns of the formula"
    )
    assert "A coefficient that is not reported is in the model like any other" in said
    assert ("band" in said) == squares
    assert ("log-odds" in said) == (not squares)
    assert "capped" not in said
    assert model.logistic == (not squares)
    robust = recipe(squares=True, target="robust").words(5000).about
    assert "Huber" in robust
    assert "not the coefficients of least squares" in robust


@pytest.mark.parametrize(
    ("squares", "words"), [(False, "logistic regression"), (True, "least squares")]
)
def test_the_report_names_the_model(squares, words):
    page = dp.report.markdown(partly_reported(squares=squares))
    assert f"- Model: {words}, no penalty" in page.replace("\u00a0", " ")
    assert f"Method: {words} in a released geometry" in page
    assert "## What is not reported" in page
    assert "income: not reported: records beyond" in page
