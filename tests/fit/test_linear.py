"""Least squares in a private geometry: its releases, its result, its edges."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dp
from dpinfer.data.design import Design, Scale
from dpinfer.data.source import Rows
from dpinfer.fit import recipe
from dpinfer.fit.linear.plan import LinearPlan
from dpinfer.fit.linear.run import Linear
from dpinfer.maths.sums import Block
from dpinfer.privacy.accountant import spent
from dpinfer.privacy.gate import Gate, Released
from dpinfer.simulate.stated import stated
from support import follows

COEF = np.array([2.0, -1.0, 0.5])
BOUNDS, RANGE = ([0.0, -2.0, 0.0], [10.0, 2.0, 1.0]), (-40.0, 60.0)


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(0, 10, n), rng.normal(0, 0.7, n).clip(-2, 2), rng.integers(0, 2, n)])
    return x, 3 + x @ COEF + 2 * rng.standard_normal(n)


def model(budget=None, **options):
    budget = dp.ZCDP(0.5) if budget is None and "plan" not in options else budget
    return dp.LinearRegression(bounds=BOUNDS, outcome=RANGE, budget=budget, **{"insecure_seed": 7} | options)


def fitted(n=4000, seed=0, **options):
    return model(**options).fit(*table(n, seed)).result_


class Recorder(Gate):
    """A gate that remembers its releases and their noise."""

    releases: list
    noises: dict

    def release(self, booked, source, what):
        released = super().release(booked, source, what)
        self.noises.setdefault(booked.step, []).append(released.value - source.total(what.of_block))
        self.releases.append(released)
        return released


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "releases", [], raising=False)
    monkeypatch.setattr(Recorder, "noises", {}, raising=False)
    return Recorder


@pytest.mark.parametrize("target", ["mean", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_noise_of_whole_fits(neighbours, target, recorder):
    """Every release carries the noise its share and its bound ask for."""
    rho = 0.5
    for seed in range(120):
        fitted(300, neighbours=neighbours, target=target, insecure_seed=seed, budget=dp.ZCDP(rho))
    one, last = neighbours == "replace", np.sqrt(4.5 if neighbours == "replace" else 1.4)
    histogram, steps = (np.sqrt(2) if one else 1.0), {"estimate": (last, 0.76)}
    if target == "robust":
        steps = {"estimate, step 1 of 2": (last, 0.26), "estimate, step 2 of 2": (last, 0.50)}
    known = {f"outcome range, {k} of 3": (histogram, 0.02 / 3) for k in (1, 2, 3)}
    known |= {"crude moments": (histogram, 0.05), "influence": (histogram, 0.03), **steps}
    known |= {"moments": (np.sqrt(2 + 1 / 2 + 1 / 32) if one else np.sqrt(1.25), 0.14)}
    assert set(recorder.noises) == set(known)
    for step, (bound, share) in known.items():
        scale, noise = bound / np.sqrt(2 * rho * share), np.concatenate(recorder.noises[step])
        assert follows(noise, stats.norm(scale=scale)), step
        assert not follows(noise, stats.norm(scale=1.3 * scale))
        assert not follows(noise, stats.norm(scale=0.75 * scale))


@pytest.mark.parametrize("target", ["mean", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_guarantee_linear_released_values_only(neighbours, target, recorder, monkeypatch):
    """Replay the releases of one fit on quite other records: the result is the same to the last bit."""
    first = fitted(3000, neighbours=neighbours, target=target)
    replay = iter(recorder.releases)

    class Replay(Gate):
        def release(self, booked, source, what) -> Released:
            return next(replay)

    monkeypatch.setattr(recipe, "Gate", Replay)
    n = 3000 if neighbours == "replace" else 700
    other = model(neighbours=neighbours, target=target).fit(np.full((n, 3), 0.5), np.full(n, 50.0)).result_
    assert first.to_json() == other.to_json()


@pytest.mark.parametrize("target", ["mean", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_guarantee_linear_composition(neighbours, target):
    """All Gaussian: the promise is spent exactly; (1, 1e-6) is rho = .02801, by another library too."""
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    promised = dp.ApproxDP(1.0, 1e-6)
    plan = LinearPlan(promised, target, neighbours=neighbours)
    assert plan.cost.rho == pytest.approx(0.02801, abs=5e-6)
    assert spent(promised, plan.releases().all) == pytest.approx(1.0, abs=1e-9)
    known = pld.from_gaussian_mechanism(1 / np.sqrt(2 * plan.cost.rho))
    assert known.get_delta_for_epsilon(1.0) == pytest.approx(1e-6, rel=1e-3)
    assert sum(release.share.rho for release in LinearPlan(dp.ZCDP(0.3)).releases().all) == pytest.approx(0.3)


def test_with_much_budget_it_is_ordinary_least_squares():
    x, y = table(200_000)
    result = model(dp.ZCDP(50.0)).fit(x, y).result_
    known = sm.OLS(y, sm.add_constant(x)).fit(cov_type="HC0")
    assert result.estimate[1:] == pytest.approx(known.params[1:], abs=0.2 * known.bse[1:].max())
    assert result.std_error[1:] == pytest.approx(known.bse[1:], rel=0.02)
    assert result.noise_share[1:].max() < 0.05
    assert result.geometry.centre == pytest.approx(x.mean(axis=0), abs=0.01)
    at_centre = known.params[0] + result.geometry.centre @ known.params[1:]
    assert result.estimate[0] == pytest.approx(at_centre, abs=0.3 * known.bse[0])


def test_units_are_the_users():
    """Columns and outcome in other units give the same fit in these units: the encoding is the same."""
    x, y = table()
    plain = model().fit(x, y).result_
    scaled = dp.LinearRegression(
        bounds=([0.0, -20.0, 0.0], [1.0, 20.0, 1.0]), outcome=(-4000.0, 6000.0), budget=dp.ZCDP(0.5), insecure_seed=7
    )
    other = scaled.fit(x * [0.1, 10, 1], 100 * y).result_
    factor = 100 * np.array([1, 10, 0.1, 1])
    assert other.estimate == pytest.approx(factor * plain.estimate)
    assert other.conf_int() == pytest.approx(factor[:, None] * plain.conf_int())
    for name in ("clip", "width", "excess", "low", "high"):
        assert getattr(other.band, name) == pytest.approx(100 * getattr(plain.band, name))
    assert scaled.predict(x[:5] * [0.1, 10, 1]) == pytest.approx(100 * model().fit(x, y).predict(x[:5]))


@pytest.mark.parametrize("target", ["mean", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_intervals_cover_the_known_truth(neighbours, target):
    """Symmetric errors: mean and robust targets are the coefficients themselves."""
    covered = []
    for seed in range(120):
        low, high = fitted(3000, seed, target=target, neighbours=neighbours, insecure_seed=seed).conf_int()[1:].T
        covered.append((low <= COEF) & (high >= COEF))
    assert 0.90 < np.mean(covered) < 0.985
    assert np.mean(covered, axis=0).min() > 0.87


def test_what_is_stated_is_what_the_band_says():
    """The estimand on a population by hand: outcomes pulled into the band, weighted least squares."""
    x, y = table()
    result = fitted()
    design = Design.of_bounds(BOUNDS, ("x1", "x2", "x3"), Scale.of_range(*RANGE))
    box = design.rows(x) * np.sqrt(design.norm2)
    about = stated(result, design, Block(box, design.outcome.bounded(y)))
    pulled, weights = result.band.pulled(result.geometry, x, y), result.geometry.row_weights(x)
    assert (np.abs(pulled - y) > 1e-9).mean() == pytest.approx(about.clipped)
    known = sm.WLS(pulled, sm.add_constant(x - result.geometry.centre), weights).fit().params
    assert about.target == pytest.approx(known, abs=1e-5)
    plain = sm.OLS(y, sm.add_constant(x - result.geometry.centre)).fit(cov_type="HC0")
    assert about.ordinary == pytest.approx(plain.params, abs=1e-5)
    assert about.std_error == pytest.approx(plain.bse, rel=1e-5)
    assert ((result.conf_int()[:, 0] < about.target) & (about.target < result.conf_int()[:, 1])).all()


def test_tails():
    """A cautious clip is wider, one for all widest; the words follow."""
    x, y = table()
    y = y + np.random.default_rng(3).exponential(4, len(y))
    found = {tail: model(tail=tail).fit(x, y).result_ for tail in ("balanced", "cautious", "all")}
    clips = [result.band.clip for result in found.values()]
    assert clips[0] < clips[1] < clips[2] == 100.0  # the whole range of the outcome
    assert found["all"].band.excess == 0
    assert "Nobody is clipped" in found["all"].summary()
    assert "ask for a cautious tail" in " ".join(found["balanced"].summary().split())
    assert "influence" not in [event.step for event in found["all"].privacy.events]  # nobody needs a clip
    lengths = [np.diff(result.conf_int()[1:]).mean() for result in found.values()]
    assert lengths == sorted(lengths)


def test_the_level_allows_for_what_was_cut_off():
    result = fitted()
    law = result.error
    assert law.below[0] == law.above[0] == pytest.approx(result.band.excess)
    assert not law.below[1:].any()


def test_the_band_is_read_back():
    result = fitted()
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert again.band.line == pytest.approx(result.band.line, abs=0)


def test_a_row_that_cannot_be_read_counts_for_nothing():
    """NaN, infinity, an outcome that is no number: the result has no NaN and n stays."""
    x, y = table()
    x[:50, 0], y[50:100], y[100:150] = np.nan, np.nan, np.inf
    result = model().fit(x, y).result_
    assert np.isfinite(result.conf_int()).all()
    assert result.model.n == 4000


def test_rows_in_memory_and_block_by_block_give_the_same_fit():
    x, y = table()
    design = Design.of_bounds(BOUNDS, ("x1", "x2", "x3"), Scale.of_range(*RANGE))
    rows = Rows.encoded(design.rows(x), design.outcome.bounded(y), "residual")
    plan = Linear(design, LinearPlan(dp.ZCDP(0.5)))

    @dataclasses.dataclass(frozen=True)
    class Elsewhere:
        own: Rows

        n = property(lambda self: self.own.n)
        dim = property(lambda self: self.own.dim)

        def total(self, of_block):
            return self.own.total(of_block)

    near, far = (recipe.fit(plan, source, insecure_seed=3) for source in (rows, Elsewhere(rows)))
    assert far.estimate == pytest.approx(near.estimate, rel=1e-9)
    assert far.conf_int() == pytest.approx(near.conf_int(), rel=1e-9)


EDGES = {
    "constant outcome": lambda x, y: (x, np.full(len(y), 3.0)),
    "outcome at its bound": lambda x, y: (x, np.full(len(y), 60.0)),
    "constant column": lambda x, y: (np.column_stack([x[:, :2], np.zeros(len(y))]), y),
    "twin columns": lambda x, y: (np.column_stack([x[:, 0], x[:, 1], x[:, 1] > 0])[:, [0, 1, 2]], y),
    "few records": lambda x, y: (x[:200], y[:200]),
    "one record": lambda x, y: (x[:1], y[:1]),
}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("rho", [1e-6, 0.02, 20.0])
@pytest.mark.parametrize("edge", EDGES)
def test_edges(edge, rho, neighbours):
    """Nothing breaks or warns, and what is reported has a finite interval around its estimate."""
    x, y = EDGES[edge](*table())
    result = model(dp.ZCDP(rho), neighbours=neighbours).fit(x, y).result_
    kept, (low, high) = result.reported, result.conf_int().T
    assert np.isfinite(result.conf_int()[kept]).all()
    assert (low[kept] < result.estimate[kept]).all()
    assert (result.estimate[kept] < high[kept]).all()
    assert result.summary()
    if rho == 1e-6:
        assert not kept[1:].any()


def test_a_constant_column_is_not_reported():
    x, y = EDGES["constant column"](*table())
    reported = [model(insecure_seed=seed).fit(x, y).result_.reported for seed in range(40)]
    assert np.mean(reported, axis=0)[3] <= 0.05
    assert np.mean(reported, axis=0)[:3].min() == 1


def test_of_exact_twins_one_is_reported_with_the_effect_of_both():
    """And says so; twice in a hundred fits or so noise leaves neither or both."""
    x, y = table()
    reported, covered = [], []
    x = np.column_stack([x[:, :2], x[:, 1]])
    bounds = ([0.0, -2.0, -2.0], [10.0, 2.0, 2.0])
    for seed in range(20):
        result = dp.LinearRegression(bounds=bounds, outcome=RANGE, budget=dp.ZCDP(0.5), insecure_seed=seed).fit(x, y)
        kept, (low, high) = result.result_.reported, result.result_.conf_int().T
        reported.append(kept[2:].sum() == 1 and "cannot be told apart" in " ".join(result.result_.status))
        covered.append(low[2:].max() <= -1 <= high[2:].min())
    assert np.mean(reported) >= 0.95
    assert np.mean(covered) >= 0.85


BAD = {
    "pure": (lambda: model(dp.PureDP(1.0)), dp.BudgetError, "HuberRegression"),
    "none": (lambda: model(dp.NoPrivacy()), dp.BudgetError, "statsmodels"),
    "nothing": (lambda: dp.LinearRegression(bounds=BOUNDS, outcome=RANGE), dp.BudgetError, "takes budget"),
    "plan": (lambda: model(plan=dp.GeometryPlan(dp.ZCDP(1.0))), dp.BudgetError, "LinearPlan"),
    "both": (lambda: model(dp.ZCDP(1.0), plan=dp.LinearPlan(dp.ZCDP(1.0))), dp.BudgetError, "leave out budget="),
    "two neighbours": (
        lambda: model(plan=dp.LinearPlan(dp.ZCDP(1.0)), neighbours="add-remove"), dp.InputError, "its neighbours"
    ),
    "target": (lambda: model(target="median"), dp.InputError, "'penalised' or 'unpenalised'.*'mean' or 'robust'"),
    "tail": (lambda: model(tail="long"), dp.InputError, "'balanced', 'cautious', 'all'"),
    "robust tail": (lambda: model(target="robust", tail="all"), dp.InputError, "belongs to the target 'mean'"),
    "penalty": (lambda: model(penalty=0.1), dp.InputError, "no penalty"),
    "neighbours": (lambda: model(neighbours="both"), dp.InputError, "neighbours must be"),
    "no range": (lambda: dp.LinearRegression(bounds=BOUNDS, budget=dp.ZCDP(1.0)), dp.InputError, "public range"),
    "range": (
        lambda: dp.LinearRegression(bounds=BOUNDS, budget=dp.ZCDP(1.0), outcome=(5, 1)), dp.InputError, "low < high"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_anything_is_booked(name):
    make, kind, words = BAD[name]
    ledger = dp.Ledger(dp.ZCDP(5.0))
    with pytest.raises(kind, match=words):
        dataclasses.replace(make(), ledger=ledger, insecure_seed=None).fit(*table(100))
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("shares", "words"),
    [((1, 1, 1), "5 shares"), ("abcde", "5 shares"), (3, "5 shares"), ((0.2, 0.2, 0.2, 0.2, -0.2), "positive")],
)
def test_bad_shares(shares, words):
    with pytest.raises(dp.BudgetError, match=words):
        dp.LinearPlan(dp.ZCDP(1.0), shares=shares)


def test_a_fit_is_booked_with_all_its_releases():
    ledger = dp.Ledger(dp.ApproxDP(1.0, 1e-6))
    result = model(dp.ApproxDP(1.0, 1e-6), ledger=ledger, insecure_seed=None).fit(*table()).result_
    assert ledger.spent() == pytest.approx(1.0, abs=1e-6)
    assert [event.step for event in result.privacy.events][-1] == "estimate"
    with pytest.raises(dp.LedgerError):
        model(dp.ApproxDP(0.1, 1e-6), ledger=ledger, insecure_seed=None).fit(*table())


def test_an_intercept_is_needed():
    number = 'type = "number"\nlow = 0\nhigh = 1\n'
    schema = dp.Schema.parse(f'unit = "one person"\n[columns.y]\n{number}[columns.a]\n{number}')
    data = pd.DataFrame({"y": [0.5] * 9, "a": [0.1] * 9})
    with pytest.raises(dp.InputError, match="needs an intercept"):
        dp.LinearRegression("y ~ a - 1", schema=schema, budget=dp.ZCDP(1.0)).fit(data)


def test_a_study_of_the_model():
    study = dp.simulate.coverage(*table(1500), model=model(insecure_seed=None), replicates=40, seed=1)
    assert study.names == ("(Intercept)", "x1", "x2", "x3")
    assert 0.85 < np.mean(study.coverage) <= 1
    assert study.target[1:] == pytest.approx(COEF, abs=0.3)
    assert (study.length > study.nonprivate_length).all()
    assert "least squares" in study.setting
