"""Studies and forecasts of counts: with exposures, units and weights, of tables and of arrays."""

import numpy as np
import pytest
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.fit.recipe import fit
from dpinfer.numerics.links import FARTHEST_OFFSET
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.simulate import synthetic
from dpinfer.simulate.synthetic import OfGuesses
from helpers import claims

TABLE = claims.table(4000)
COLUMNS = np.column_stack(
    [TABLE["age"], TABLE["region"] == "south", TABLE["region"] == "west"]
).astype(float)
ARRAYS = {
    "bounds": ([18, 0, 0], [90, 1, 1]),
    "yes_no": [1, 2],
    "outcome": (0, 1000),
    "exposure": (0, 2),
    "budget": dp.ZCDP(0.5),
}


def study(*asked, **options):
    return dp.simulate.coverage(*asked, replicates=16, seed=3, **options)


def ordinary(**options):
    """Slopes and robust errors by statsmodels."""
    outcome = TABLE["claims"].to_numpy(dtype=float)
    x = sm.add_constant(COLUMNS)
    family = sm.families.Poisson()
    return sm.GLM(outcome, x, family=family, offset=np.log(TABLE["years"]), **options).fit(
        cov_type="HC0"
    )


def test_a_study_is_the_same_however_the_exposure_is_given():
    by_name = study(claims.model(), TABLE)
    in_formula = study(claims.model(claims.WITH_OFFSET), TABLE)
    of_arrays = study(
        dp.PoissonRegression(**ARRAYS), COLUMNS, TABLE["claims"], exposure=TABLE["years"]
    )
    older = study(
        TABLE,
        schema=claims.schema(),
        formula=claims.WITH_OFFSET,
        model="poisson",
        budget=dp.ZCDP(0.5),
    )
    for other in (in_formula, older):
        assert other.to_json() == by_name.to_json()
    asked = ordinary().params
    for one in (by_name, of_arrays):
        assert np.allclose(one.target[1:], asked[1:], atol=1e-7)
        assert np.all(one.reported == 1)
        assert one.mean_coverage > 0.6  # all but surely
        assert one.mean_stated_coverage > 0.6
    plain = 2 * 1.959964 * ordinary().bse[1:]
    assert np.allclose(by_name.nonprivate_length[1:], plain, rtol=1e-5)


def test_studies_of_units_and_weights():
    weights = np.where(TABLE["region"] == "west", 2.0, 1.0)
    arrays = {**ARRAYS, "most_weight": 2.0}
    weighted = study(
        dp.PoissonRegression(**arrays),
        COLUMNS,
        TABLE["claims"],
        exposure=TABLE["years"],
        weights=weights,
    )
    asked = ordinary(freq_weights=weights).params
    assert np.allclose(weighted.target[1:], asked[1:], atol=1e-7)
    of_table = study(claims.model(head=claims.UNIT), TABLE)
    of_arrays = study(
        dp.PoissonRegression(**ARRAYS),
        COLUMNS,
        TABLE["claims"],
        exposure=TABLE["years"],
        units=TABLE["person"],
    )
    for one in (of_table, of_arrays):
        assert "2000 units" in one.setting
        assert np.allclose(one.target[1:], ordinary().params[1:], atol=1e-7)  # two rows each
        assert one.mean_stated_coverage > 0.6


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: dp.simulate.variability(claims.model(), TABLE, replicates=2), "penalised"),
        (lambda: study(dp.PoissonRegression(**ARRAYS), COLUMNS, TABLE["claims"]), "declared and given"),
        (lambda: study(claims.model(), TABLE, exposure=TABLE["years"]), "column of the table"),
        (
            lambda: study(
                TABLE, formula=claims.FORMULA, schema=claims.schema(), exposure=TABLE["years"]
            ),
            "give a model first",
        ),
    ],
)  # fmt: skip
def test_what_no_study_has(ask, words):
    with pytest.raises(dp.InputError, match=words):
        ask()


def records(schema, formula=claims.WITH_OFFSET, effects=None, n=40_000, *, even=True):
    """Outcomes, exposures and columns in original units, as they are made of public facts."""
    response, terms = parse(formula, schema)
    design = Design.of_formula(response, terms, "count", schema.unit)
    made = OfGuesses(response, terms, design, schema.typical, effects)
    rows = made.typical(n) if even else made.sample(n, np.random.default_rng(5))
    block = rows.block
    scaled = block.rows * np.sqrt(design.norm2)
    exposure = np.ones(len(block))
    if design.offset is not None:
        exposure = np.exp(design.offset + FARTHEST_OFFSET * scaled[:, -1])
    return made, rows, block.labels * design.outcome.half, exposure


@pytest.mark.parametrize("even", [True, False])
def test_counts_are_like_the_guesses(even):
    """Whole numbers, or costs, with the mean and deviation of all of them together; and exposures."""
    text = claims.COLUMNS.replace("high = 1000", "high = 1000\ntypical = { mean = 3, sd = 5 }")
    _, _, counts, exposure = records(dp.Schema.parse(text), even=even)
    assert np.allclose(counts, counts.round(), atol=1e-6)
    assert counts.mean() == pytest.approx(3, rel=0.05)
    assert counts.std() == pytest.approx(5, rel=0.1)
    assert exposure.mean() == pytest.approx(1, rel=0.02)
    assert exposure.std() == pytest.approx(2 / np.sqrt(12), rel=0.02)
    assert np.corrcoef(counts, exposure)[0, 1] > 0.1
    costs = text.replace('type = "integer"', 'type = "number"')
    costs = costs.replace("mean = 3, sd = 5", "mean = 100, sd = 120")
    _, _, values, _ = records(dp.Schema.parse(costs), even=even)
    assert values.mean() == pytest.approx(100, rel=0.05)
    assert values.std() == pytest.approx(120, rel=0.1)


def test_counts_without_a_guess():
    """A generous bound says nothing of the mean; a narrow one does."""
    made, _, counts, _ = records(claims.schema())
    assert counts.mean() == pytest.approx(1, rel=0.05)
    assert counts.var() == pytest.approx(3, rel=0.15)
    words = "; ".join(made.assumed)
    for assumed in ("μ of 1", ": claims", "up to their bound: years", "deviation of 0.35"):
        assert assumed in words
    narrow = claims.COLUMNS.replace("high = 1000", "high = 4")
    assert records(dp.Schema.parse(narrow))[2].mean() == pytest.approx(0.4, rel=0.05)
    declared = claims.COLUMNS.replace("high = 2", "high = 2\ntypical = { mean = 0.5, sd = 0.2 }")
    made, _, _, exposure = records(dp.Schema.parse(declared))
    assert exposure.mean() == pytest.approx(0.5, rel=0.01)
    assert "years" not in "; ".join(made.assumed)


def test_effects_are_those_given():
    effects = {"age": -0.03, "region[south]": 0.5}
    made, rows, _, _ = records(claims.schema(), effects=effects)
    recipe = claims.model(budget=dp.NoPrivacy()).recipe(made.design, rows.n)
    found = fit(recipe, rows, insecure_seed=0)
    error = np.abs(found.estimate[1:] - (-0.03, 0.5, 0.0))
    assert np.all(error < 6 * found.std_error[1:])
    assert "effects as given" in made.assumed
    made, rows, _, _ = records(claims.schema(), claims.FORMULA)
    recipe = dp.PoissonRegression(
        claims.FORMULA, schema=claims.schema(), budget=dp.NoPrivacy()
    ).recipe(made.design, rows.n)
    found = fit(recipe, rows, insecure_seed=0)
    assert np.sign(found.estimate[1:]).tolist() == [1, -1, 1]
    scaled = rows.block.rows * np.sqrt(made.design.norm2)
    columns = made.design.middle + made.design.half * scaled
    assert (columns[:, 1:] @ found.estimate[1:]).std() == pytest.approx(synthetic.LOG_RATE, rel=0.1)


def test_a_forecast_is_near_the_fit():
    """Of the columns as they are: half-widths of a real fit are inside the ranges."""
    typical = {
        name: {"mean": float(TABLE[name].mean()), "sd": float(TABLE[name].std())}
        for name in ("claims", "age", "years")
    }
    typical["region"] = TABLE["region"].value_counts(normalize=True).to_dict()
    model = claims.model()
    model.schema = claims.schema().guess(typical)
    ahead = dp.simulate.forecast(model, records=len(TABLE), replicates=10)
    assert "offset(log(" in ahead.setting
    result = claims.model(insecure_seed=4).fit(TABLE).result_
    half = np.diff(result.conf_int())[1:, 0] / 2
    assert np.all((0.8 * ahead.low[0, 1:] < half) & (half < ahead.high[0, 1:]))
    asked = 1.959964 * ordinary().bse[1:]
    assert np.allclose(ahead.nonprivate[0, 1:], asked, rtol=0.25)
    like = dp.simulate.forecast(claims.model(), like=TABLE, replicates=4)
    assert np.allclose(like.nonprivate[0, 1:], asked, rtol=1e-4)
    assert np.all(like.reported == 1)


def test_more_records_than_are_made():
    ahead = dp.simulate.forecast(claims.model(), records=5_000_000, replicates=2)
    fewer = dp.simulate.forecast(claims.model(), records=50_000, replicates=2)
    assert np.allclose(fewer.nonprivate[0] / ahead.nonprivate[0], 10, rtol=0.05)
    of_units = dp.simulate.forecast(claims.model(head=claims.UNIT), records=3000, replicates=2)
    assert np.all(np.isfinite(of_units.half_width))
