"""Studies of tables run the estimator's whole path, each fit held against the estimand that it states."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from statsmodels.api import GLM, families

import dpinfer as dp
from dpinfer.data.formula import parse
from dpinfer.data.reading import read
from dpinfer.maths.sums import Block
from dpinfer.simulate.single import SingleTrial
from dpinfer.simulate.stated import stated
from support import fit_weighted

RNG = np.random.default_rng(0)
N = 4000
TABLE = pd.DataFrame({"a": RNG.uniform(0, 10, N), "b": RNG.choice(["x", "y", "z"], N, p=[0.6, 0.399, 0.001])})
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


def study(budget=None, **options):
    options = {"budget": dp.ZCDP(0.5) if budget is None else budget, "replicates": 16, **options}
    return dp.simulate.coverage(TABLE, schema=SCHEMA, formula=FORMULA, seed=0, **options)


def test_the_estimators_own_path_is_studied():
    found = study(replicates=96)
    assert "weighted target in a private geometry" in found.setting
    kept = np.array([True, True, True, False])  # four records have the level z
    assert np.all(found.reported[kept] > 0.9)
    assert found.reported[3] < 0.5
    assert np.all(np.abs(found.coverage[kept] - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 96))
    ratio = found.length[kept] / found.nonprivate_length[kept]
    assert np.all((ratio > 1) & (ratio < 2))
    assert dp.simulate.Study.from_json(found.to_json()).to_json() == found.to_json()
    assert "NOT PRIVATE" in found.summary()


def test_numbers_depend_on_the_seed_alone(tmp_path):
    once, again = study(workers=1), study(workers=2)
    assert once.to_json() == again.to_json()
    whole = study(checkpoint=tmp_path / "study.json")
    assert study(checkpoint=tmp_path / "study.json").to_json() == whole.to_json() == once.to_json()
    assert study(target="unweighted").to_json() != once.to_json()


def test_the_stated_estimand():
    """Unweighted: the plain fit of the columns in the model, its intercept at the released centre."""
    plan = dp.GeometryPlan(dp.ZCDP(2.0), "unweighted")
    result = fit_weighted(SOURCE, DESIGN, plan, None, 3)
    assert result.geometry.left_out == ("b[z]",)
    x = SOURCE.block.rows * np.sqrt(DESIGN.norm2)
    about = stated(result, DESIGN, Block(x, SOURCE.block.labels))
    raw = np.column_stack([np.ones(N), TABLE["a"], TABLE["b"] == "y"]).astype(float)
    plain = GLM(TABLE["y"].astype(float), raw, family=families.Binomial()).fit(cov_type="HC0")
    at = np.array([1.0, *result.geometry.centre[:2]])
    assert np.allclose(about.target[1:3], plain.params.to_numpy()[1:], rtol=1e-4)
    assert about.target[0] == pytest.approx(at @ plain.params.to_numpy(), rel=1e-4)
    assert np.allclose(about.std_error[1:3], plain.bse.to_numpy()[1:], rtol=1e-3)
    assert np.isnan(about.target[3])
    assert about.down_weighted == 0
    other = fit_weighted(SOURCE, DESIGN, dp.GeometryPlan(dp.ZCDP(2.0)), None, 3)
    weighted = stated(other, DESIGN, Block(x, SOURCE.block.labels))
    assert np.allclose(weighted.ordinary[1:3], about.target[1:3], rtol=1e-4)


def test_a_wrong_width_is_seen(monkeypatch):
    honest = study(replicates=64)
    fit = SingleTrial.fit

    class Short:
        def __init__(self, result):
            self.result = result

        def __getattr__(self, name):
            return getattr(self.result, name)

        def conf_int(self, level):
            return self.result.estimate[:, None] + 0.5 * (self.result.conf_int(level) - self.result.estimate[:, None])

    monkeypatch.setattr(SingleTrial, "fit", lambda self, replicate: Short(fit(self, replicate)))
    assert study(replicates=64).coverage[1] < honest.coverage[1] - 0.1


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"target": "weighted", "loss": dp.HuberHinge()}, "logistic regression"),
        ({"target": "weighted", "penalty": 0.1}, "no penalty"),
        ({"target": "weighted", "budget": dp.PureDP(1.0)}, "pure"),
        ({"target": "mean"}, "there is no target"),
    ],
)
def test_faults(options, fault):
    with pytest.raises(dp.DpinferError, match=fault):
        study(**options)


def test_rows_without_a_schema_have_no_geometry():
    with pytest.raises(dp.InputError, match="studied on a table"):
        dp.simulate.coverage(SOURCE.block.rows, SOURCE.block.labels, budget=dp.ZCDP(1.0), target="weighted")
