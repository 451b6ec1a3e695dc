"""Studies of tables run the estimator's whole path, each fit held against what was asked and what
it states.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from statsmodels.api import GLM, families

import dpinfer as dp
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.recipe import fit
from dpinfer.mechanisms.sums import Block
from dpinfer.schema.columns import Outcome
from dpinfer.schema.formula import parse
from dpinfer.simulate import estimands
from dpinfer.simulate.estimands import (
    StatedEstimand,
    alternative_estimands,
    estimand_of,
    stated_estimand,
)
from dpinfer.simulate.replicates import OneByOne
from dpinfer.tables.table import read

RNG = np.random.default_rng(0)
N = 4000
TABLE = pd.DataFrame(
    {"a": RNG.uniform(0, 10, N), "b": RNG.choice(["x", "y", "z"], N, p=[0.6, 0.399, 0.001])}
)
TABLE["y"] = RNG.random(N) < expit(-1 + 0.3 * TABLE["a"] - 0.5 * (TABLE["b"] == "y"))
SCHEMA = dp.Schema.parse("""
[columns.y]
type = "outcome"
levels = [false, true]
[columns.a]
type = "number"
low = 0
high = 10
[columns.b]
type = "category"
levels = ["x", "y", "z"]
""")
FORMULA = "y ~ a + b"
DESIGN, PENDING = read(TABLE, *parse(FORMULA, SCHEMA), "margin")
SOURCE = PENDING.rows()
PEOPLE = Block(SOURCE.block.rows * np.sqrt(DESIGN.norm2), SOURCE.block.labels)


def study(budget=None, **options):
    options = {"budget": dp.ZCDP(0.5) if budget is None else budget, "replicates": 16, **options}
    return dp.simulate.coverage(TABLE, schema=SCHEMA, formula=FORMULA, seed=0, **options)


def test_the_estimators_own_path_is_studied():
    found = study(replicates=96)
    assert "logistic regression, target ordinary" in found.setting
    kept = np.array([True, True, True, False])  # four records have the level z
    assert np.all(found.reported[kept] > 0.9)
    assert found.reported[3] < 0.5
    assert np.all(np.abs(found.coverage[kept] - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 96))
    assert np.all(np.abs(found.stated_coverage[kept] - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 96))
    assert np.all(found.answered >= found.reported)
    ratio = found.length[kept] / found.nonprivate_length[kept]
    assert np.all((ratio > 1) & (ratio < 2))
    assert dp.simulate.Study.from_json(found.to_json()).to_json() == found.to_json()
    assert "NOT PRIVATE" in found.summary()


def test_numbers_depend_on_the_seed_alone(tmp_path):
    once, again = study(workers=1), study(workers=2)
    assert once.to_json() == again.to_json()
    whole = study(checkpoint=tmp_path / "study.json")
    assert study(checkpoint=tmp_path / "study.json").to_json() == whole.to_json() == once.to_json()
    assert study(neighbours="add-remove").to_json() != once.to_json()


def glm(columns, weights=None):
    raw = np.column_stack([np.ones(N), *columns]).astype(float)
    return GLM(TABLE["y"].astype(float), raw, family=families.Binomial(), freq_weights=weights).fit(
        cov_type="HC0"
    )


def dummies(table=TABLE):
    return [table["b"] == "y", table["b"] == "z"]


def test_what_is_asked_is_the_ordinary_regression():
    """All columns, every record once: that of other software, the intercept at the centre."""
    plain = glm([TABLE["a"], *dummies()])
    centre = np.array([4.0, 0.3, 0.0])
    found = LogisticSteps.ordinary(PEOPLE).in_units(DESIGN, centre)
    assert np.allclose(
        found.coef[1:3], plain.params.to_numpy()[1:3], rtol=1e-3
    )  # the level z has one outcome only
    assert found.coef[0] == pytest.approx(
        np.array([1.0, *centre]) @ plain.params.to_numpy(), rel=1e-3
    )
    assert np.allclose(found.std_error[1:3], plain.bse.to_numpy()[1:3], rtol=1e-3)


def test_what_is_stated_has_the_released_weights_and_clips():
    result = fit(LogisticSteps(DESIGN, dp.GeometryPlan(dp.ZCDP(0.02))), SOURCE, insecure_seed=3)
    geometry = replace(
        result.geometry, clipped=("a",), low=np.array([2.0, 0, 0]), high=np.array([7.0, 1, 1])
    )
    result = replace(result, geometry=geometry)
    columns = np.column_stack([TABLE["a"], *dummies()]).astype(float)
    weights = geometry.row_weights(columns)
    assert weights.min() < 0.9
    plain = glm([TABLE["a"].clip(2, 7), *dummies()], weights)
    asked = LogisticSteps.ordinary(PEOPLE)
    about = stated_estimand(result, DESIGN, PEOPLE, asked)
    assert np.allclose(about.coef[1:3], plain.params.to_numpy()[1:3], rtol=1e-3)
    assert about.down_weighted == pytest.approx((weights < 1).mean())
    assert (
        abs(about.coef[1] / asked.in_units(DESIGN, geometry.centre).coef[1] - 1) > 0.02
    )  # they are not the same


def test_rows_that_could_not_be_encoded_stay_out():
    """A zero row is not clipped into a range."""
    result = fit(LogisticSteps(DESIGN, dp.GeometryPlan(dp.ZCDP(2.0))), SOURCE, insecure_seed=3)
    geometry = replace(
        result.geometry, clipped=("a",), low=np.array([6.0, 0, 0]), high=np.array([9.0, 1, 1])
    )
    result = replace(result, geometry=geometry)
    more = Block(
        np.vstack([PEOPLE.rows, np.zeros((500, 4))]), np.append(PEOPLE.labels, np.ones(500))
    )
    asked = LogisticSteps.ordinary(PEOPLE)
    few = stated_estimand(result, DESIGN, PEOPLE, asked)
    many = stated_estimand(result, DESIGN, more, asked)
    assert np.allclose(few.coef[:3], many.coef[:3], atol=1e-4)


def test_asked_and_stated_are_two_counts(monkeypatch):
    """Where one of them is far off, its own count falls and the other stays."""
    honest = study()

    def nowhere(result, design, people, asked):
        return StatedEstimand(np.full(len(design.names), 1e6), 0.0, 0.0)

    monkeypatch.setattr(estimands, "stated_estimand", nowhere)
    found = study()
    assert np.array_equal(found.coverage, honest.coverage, equal_nan=True)
    assert np.nanmax(found.stated_coverage) == 0
    monkeypatch.undo()

    ordinary = LogisticSteps.ordinary

    def elsewhere(people):
        found = ordinary(people)
        return replace(found, coef=found.coef + 50.0)

    monkeypatch.setattr(LogisticSteps, "ordinary", staticmethod(elsewhere))
    found = study()
    assert np.nanmax(found.coverage) == 0
    assert np.array_equal(found.stated_coverage, honest.stated_coverage, equal_nan=True)


def test_a_line_in_anothers_stead_is_an_answer(monkeypatch):
    honest = study()
    fitted = OneByOne.fit

    def with_another(self, *sample):
        result = fitted(self, *sample)
        return replace(result, instead=replace(result.instead, instead_of=("b[z]",)))

    monkeypatch.setattr(OneByOne, "fit", with_another)
    found = study()
    assert np.array_equal(found.reported, honest.reported)
    assert found.answered[3] == 1 > honest.answered[3]


def test_what_stands_for_a_coefficient_not_reported_has_an_estimand_of_its_own():
    """A difference of levels that was asked for; and the ordinary regression with the number
    clipped.
    """
    result = fit(LogisticSteps(DESIGN, dp.GeometryPlan(dp.ZCDP(2.0))), SOURCE, insecure_seed=3)
    geometry = replace(result.geometry, low=np.array([2.0, 0, 0]), high=np.array([7.0, 1, 1]))
    lines = replace(
        result.instead, names=("b[z] - b[y]", "a clipped to 2..7"), instead_of=("b[z]", "a")
    )
    result = replace(result, geometry=geometry, instead=lines)
    asked = LogisticSteps.ordinary(PEOPLE)
    found = alternative_estimands(result, DESIGN, PEOPLE, asked)
    assert found[0] == pytest.approx((asked.coef[3] - asked.coef[2]) / DESIGN.half[3])
    assert found[1] == pytest.approx(
        glm([TABLE["a"].clip(2, 7), *dummies()]).params.to_numpy()[1], rel=1e-3
    )
    nothing = replace(result, instead=replace(lines, names=(), instead_of=()))
    assert len(alternative_estimands(nothing, DESIGN, PEOPLE, asked)) == 0


SCORES = SCHEMA.columns | {"score": Outcome("score", low=-20.0, high=40.0)}
SCORED = TABLE.assign(score=2 + TABLE["a"] + np.exp(RNG.standard_normal(N)))


@pytest.mark.parametrize("target", ["ordinary", "robust"])
def test_least_squares(target):
    """Of the robust target what is asked is the Huber regression that is stated; of the other one
    it is not.
    """
    model = dp.LinearRegression(
        "score ~ a + b", schema=dp.Schema(SCORES), budget=dp.ZCDP(0.5), target=target
    )
    found = dp.simulate.coverage(model, SCORED, replicates=48)
    assert f"least squares, target {target}" in found.setting
    assert np.all(found.stated_coverage[1:3] > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 48))
    assert np.isnan(found.target).all() == (target == "robust")
    if target == "robust":
        assert np.array_equal(found.coverage, found.stated_coverage, equal_nan=True)
    else:
        raw = np.column_stack([np.ones(N), SCORED["a"], *dummies()]).astype(float)
        plain = np.linalg.lstsq(raw, SCORED["score"].clip(-20, 40), rcond=None)[0]
        assert np.allclose(found.target[1:], plain[1:], rtol=1e-3)


def test_the_stated_estimand_of_least_squares_is_in_the_band():
    schema = dp.Schema(SCORES)
    design, pending = read(SCORED, *parse("score ~ a + b", schema), "residual")
    source = pending.rows()
    people = Block(source.block.rows * np.sqrt(design.norm2), source.block.labels)
    result = fit(LinearSteps(design, dp.LinearPlan(dp.ZCDP(0.01))), source, insecure_seed=1)
    about = stated_estimand(result, design, people, LinearSteps.ordinary(people))
    columns = np.column_stack([SCORED["a"], *dummies()]).astype(float)
    pulled = result.band.pulled(result.geometry, columns, SCORED["score"].to_numpy())
    root = np.sqrt(result.geometry.row_weights(columns))
    raw = np.column_stack([np.ones(N), columns])
    plain = np.linalg.lstsq(raw * root[:, None], pulled * root, rcond=None)[0]
    assert np.allclose(about.coef[1:3], plain[1:3], atol=2e-3)
    assert about.clipped == pytest.approx((np.abs(pulled - SCORED["score"]) > 1e-7).mean())
    assert about.clipped > 0


LONG = TABLE.assign(a=10 * RNG.beta(0.4, 3, N))
LONG["y"] = RNG.random(N) < expit(
    -1 + 2 * np.sqrt(LONG["a"])
)  # not a line, so that weights would move the coefficients


def test_next_to_no_noise_gives_what_is_stated():
    """The product on the whole population, with a budget beyond all measure: its estimates are the
    stated ones.  Of logistic regression they are the ordinary ones, as every record counts fully then;
    of the robust target they are not.
    """
    design, pending = read(LONG, *parse("y ~ a", SCHEMA), "margin")
    source = pending.rows()
    people = Block(source.block.rows * np.sqrt(design.norm2), source.block.labels)
    result = fit(LogisticSteps(design, dp.GeometryPlan(dp.ZCDP(1e6))), source, insecure_seed=1)
    plain = LogisticSteps.ordinary(people).in_units(design, result.geometry.centre)
    about = stated_estimand(result, design, people)
    assert result.reported.all()
    assert np.all(
        np.abs(result.estimate - about.coef) < 0.2 * plain.std_error
    )  # but for what steps leave
    weights = result.geometry.row_weights(LONG[["a"]].to_numpy())
    assert weights == pytest.approx(np.ones(len(LONG)))
    assert about.coef == pytest.approx(plain.coef, rel=1e-6)
    design, pending = read(SCORED, *parse("score ~ a", dp.Schema(SCORES)), "residual")
    source = pending.rows()
    people = Block(source.block.rows * np.sqrt(design.norm2), source.block.labels)
    result = fit(
        LinearSteps(design, dp.LinearPlan(dp.ZCDP(1e6), "robust")), source, insecure_seed=1
    )
    plain = LinearSteps.ordinary(people).in_units(design, result.geometry.centre)
    about = stated_estimand(result, design, people)
    assert np.all(np.abs(result.estimate - about.coef) < 0.1 * plain.std_error)
    assert np.abs(result.estimate - plain.coef)[0] > 3 * plain.std_error[0]


def test_a_wrong_width_is_seen(monkeypatch):
    honest = study(replicates=32)
    fit = OneByOne.fit

    class Short:
        def __init__(self, result):
            self.result = result

        def __getattr__(self, name):
            return getattr(self.result, name)

        def conf_int(self, level):
            return self.result.estimate[:, None] + 0.5 * (
                self.result.conf_int(level) - self.result.estimate[:, None]
            )

    monkeypatch.setattr(OneByOne, "fit", lambda self, *sample: Short(fit(self, *sample)))
    assert study(replicates=32).coverage[1] < honest.coverage[1] - 0.1


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"target": "ordinary", "loss": dp.HuberHinge()}, "logistic regression"),
        ({"target": "ordinary", "penalty": 0.1}, "no penalty"),
        ({"target": "ordinary", "budget": dp.PureDP(1.0)}, "pure"),
        ({"target": "robust"}, "there is no target"),
        ({"target": "unweighted"}, "there is no target 'unweighted'"),
    ],
)
def test_faults(options, fault):
    with pytest.raises(dp.DpinferError, match=fault):
        study(**options)


def test_a_recipe_without_an_estimand_is_refused():
    with pytest.raises(dp.InputError, match="cannot be studied"):
        estimand_of(object(), None)


def test_rows_without_a_schema_have_no_geometry():
    with pytest.raises(dp.InputError, match="studied on a table"):
        dp.simulate.coverage(
            SOURCE.block.rows, SOURCE.block.labels, budget=dp.ZCDP(1.0), target="ordinary"
        )
