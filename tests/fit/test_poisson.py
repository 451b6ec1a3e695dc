"""Counts, rates and costs in a private geometry: the reference without noise, the result, its edges."""

import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from sklearn.base import clone

import dpinfer as dp
from dpinfer.fit import poisson, recipe
from dpinfer.fit.poisson import PoissonSteps
from dpinfer.inference.tails import Clip, TailLaw
from dpinfer.inference.winsorising import winsor_limits
from dpinfer.privacy.accountant import spent
from dpinfer.privacy.gate import Gate
from dpinfer.result.statements import ALIASED
from dpinfer.rows.source import Rows
from dpinfer.schema.design import COUNT, CountScale, Design
from helpers.support import follows

LEVEL = -0.2
COEF = np.array([0.1, -0.3, 0.4])
BOUNDS = ([0.0, -2.0, 0.0], [10.0, 2.0, 1.0])
MOST = 4.0  # of an exposure


def table(n=6000, seed=0, dispersion=0.0):
    """Columns, counts at an exposure, exposures; ``dispersion`` is the variance of a gamma factor."""
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [rng.uniform(0, 10, n), rng.normal(0, 0.7, n).clip(-2, 2), rng.integers(0, 2, n)]
    )
    e = np.clip(rng.gamma(4, 0.5, n), 0.02, MOST)
    rate = np.exp(LEVEL + x @ COEF)
    if dispersion:
        rate = rate * rng.gamma(1 / dispersion, dispersion, n)
    return x, rng.poisson(e * rate).astype(float), e


def model(budget=None, **options):
    budget = dp.ZCDP(0.5) if budget is None and "plan" not in options else budget
    usual = {"outcome": (0, 200), "exposure": (0, MOST), "yes_no": [2], "insecure_seed": 7}
    return dp.PoissonRegression(bounds=BOUNDS, budget=budget, **usual | options)


def fitted(n=6000, seed=0, dispersion=0.0, **options):
    x, y, e = table(n, seed, dispersion)
    return model(**options).fit(x, y, exposure=e).result_


def peer(x, y, e=None, weights=None, **covariance):
    """The same without noise, by statsmodels."""
    offset = None if e is None else np.log(e)
    family = sm.families.Poisson()
    asked = sm.GLM(y, sm.add_constant(x), family, offset=offset, var_weights=weights)
    return asked.fit(tol=1e-13, **{"cov_type": "HC0"} | covariance)


# --- without noise


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("exposed", [True, False])
def test_without_noise_it_is_the_fit_of_statsmodels(exposed, neighbours):
    x, y, e = table(900)
    exposure = (0, MOST) if exposed else None
    asked = model(dp.NoPrivacy(), neighbours=neighbours, exposure=exposure, insecure_seed=None)
    given = e if exposed else None
    result = asked.fit(x, y, exposure=given).result_
    other = peer(x, y, given)
    np.testing.assert_allclose(result.params, other.params, atol=1e-9)
    np.testing.assert_allclose(result.bse, other.bse, rtol=1e-9)
    assert result.reported.all()
    assert not result.privacy.private
    assert dp.FitResult.from_json(result.to_json()).to_json() == result.to_json()
    np.testing.assert_allclose(
        asked.predict(x), np.exp(sm.add_constant(x) @ other.params), rtol=1e-8
    )


def test_without_noise_units_have_clustered_errors():
    """Of three rows each: every unit counts alike, so the coefficients are those of all rows."""
    x, y, e = table(900)
    units = np.arange(900) // 3
    result = model(dp.NoPrivacy()).fit(x, y, units=units, exposure=e).result_
    groups = {"groups": units, "use_correction": False}
    other = peer(x, y, e, cov_type="cluster", cov_kwds=groups)
    np.testing.assert_allclose(result.params, other.params, atol=1e-8)
    np.testing.assert_allclose(result.bse, other.bse * np.sqrt(300 / 299), rtol=1e-5)


def test_without_noise_weights_count():
    x, y, e = table(900)
    weights = np.random.default_rng(3).uniform(0.5, 2, 900)
    result = model(dp.NoPrivacy(), most_weight=2.0).fit(x, y, weights=weights, exposure=e).result_
    other = peer(x, y, e, weights)
    np.testing.assert_allclose(result.params, other.params, atol=1e-8)
    np.testing.assert_allclose(result.bse, other.bse, rtol=1e-6)


def test_without_noise_costs_are_counts_that_are_not_whole():
    x, y, e = table(900)
    costs = 3.7 * y * np.random.default_rng(2).lognormal(size=900)
    asked = model(dp.NoPrivacy(), outcome=(0, 1e6))
    result = asked.fit(x, costs, exposure=e).result_
    other = peer(x, costs, e)
    np.testing.assert_allclose(result.params, other.params, atol=1e-8)
    np.testing.assert_allclose(result.bse, other.bse, rtol=1e-8)


def test_without_noise_values_beyond_their_bounds_are_clipped_and_bad_rows_left_out():
    x, y, e = table(900)
    x[0, 0] = 99.0
    y[1] = 1e9
    y[2] = -3.0
    e[3] = 50.0
    bad = np.zeros(900, dtype=bool)
    bad[10:15] = True
    x[10, 1] = np.nan
    y[11] = np.nan
    e[12] = 0.0
    e[13] = -1.0
    e[14] = np.nan
    result = model(dp.NoPrivacy(), outcome=(0, 100)).fit(x, y, exposure=e).result_
    clipped = np.clip(x, *BOUNDS)[~bad]
    other = peer(clipped, np.clip(y, 0, 100)[~bad], np.minimum(e, MOST)[~bad])
    np.testing.assert_allclose(result.params, other.params, atol=1e-8)


def test_without_noise_columns_that_are_one_are_not_identified_and_others_are():
    x, y, _ = table(900)
    twins = np.column_stack([x, x[:, 1], np.ones(900)])
    bounds = ([0, -2, 0, -2, 0], [10, 2, 1, 2, 2])
    options = {"bounds": bounds, "outcome": (0, 200), "budget": dp.NoPrivacy()}
    result = dp.PoissonRegression(**options).fit(twins, y).result_
    assert [word == ALIASED for word in result.status] == [True, False, True, False, True, True]
    np.testing.assert_allclose(result.params.iloc[[1, 3]], peer(x, y).params[[1, 3]], atol=1e-8)


def test_the_score_after_a_step_is_known_but_for_noise():
    """F(t + a) = g - H a - R: of a whole fit at a budget that adds next to no noise, from what it
    released, against the weighted score of outcomes in the band at the line after the step.
    """
    x, _, e = table(3000)
    y = np.random.default_rng(1).poisson(e * np.exp(LEVEL + x @ COEF)).astype(float)
    design = Design.of_bounds(BOUNDS, ("a", "b", "c"), CountScale.up_to(200.0), ["c"], np.log(MOST))
    steps = PoissonSteps(design, dp.PoissonPlan(dp.ZCDP(1e8)))
    source = Rows.encoded(design.rows(np.column_stack([x, np.log(e)])), y / 200, COUNT)
    known = {}
    final_step = PoissonSteps._final_step

    class Watched(PoissonSteps):
        def _first_step(self, gate, release, source, n, pilot, sizes, context):
            super()._first_step(gate, release, source, n, pilot, sizes, context)
            coef = pilot.local_model.coef.copy()
            coef[0] -= 0.3  # so that the last step is a long one
            return coef

        def _final_step(self, gate, source, n, pilot, clip, context):
            found = final_step(self, gate, source, n, pilot, clip, context)
            known.update(pilot=pilot, clip=clip, last=found)
            return found

    recipe.fit(Watched(design, steps.plan), source, insecure_seed=3)
    point = known["pilot"].linearization
    last = known["last"]
    rows = source.block.rows * np.sqrt(design.norm2)
    u = rows @ point.matrix.T
    mean = np.exp(rows @ point.coef)
    weights = np.minimum(1, 1 / (mean * (u**2).sum(axis=1)))
    most = known["clip"] / (weights * np.linalg.norm(u, axis=1))
    pulled = mean + np.clip(y / 200 - mean, -most, most)
    after = (weights * (pulled - mean * np.exp(u @ last.step))) @ u
    size = np.abs(weights * mean) @ np.abs(u)
    by_hessian = last.scales.hessian * np.linalg.norm(last.step)
    noise = np.linalg.norm([last.score_noise, last.remainder_noise, by_hessian])
    assert noise < 1e-3 * size.max()
    assert np.abs(last.score - last.hessian @ last.step - last.remainder - after).max() < 5 * noise
    assert np.linalg.norm(last.remainder) > 1e-4 * size.max()  # no idle remainder


class Watched(PoissonSteps):
    """A fit that keeps what its limits are chosen by, and the dispersion of its last step."""

    known: ClassVar[dict] = {}

    def _pilot(self, moments, limits, coef, sizes, context):
        # of the first pilot, and of the column over its public bound
        self.known.setdefault("slope", coef[1] / context.scaling.half[1])
        return super()._pilot(moments, limits, coef, sizes, context)

    def _final_step(self, gate, source, n, pilot, clip, context):
        self.known["dispersion"] = pilot.local_model.dispersion
        return super()._final_step(gate, source, n, pilot, clip, context)


def watched(x, y, width, bound):
    """Return what a fit of a number in ±``width`` without noise is decided by; ``bound`` of the outcome."""
    design = Design.of_bounds(([-width], [width]), ("x",), CountScale.up_to(bound), [])
    steps = Watched(design, dp.PoissonPlan(dp.ZCDP(1e8)))
    Watched.known.clear()

    def noted(numbers, coef, information, costs):
        Watched.known.setdefault("information", information)
        return winsor_limits(numbers, coef, information, costs)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(poisson, "winsor_limits", noted)
        recipe.fit(steps, Rows.encoded(design.rows(x[:, None]), y / bound, COUNT), insecure_seed=3)
    return dict(Watched.known)


@pytest.mark.parametrize("bound", [64.0, 4096.0])
@pytest.mark.parametrize("variance", [0.1, 2.0])
def test_dispersion_and_information_are_those_of_the_outcomes(variance, bound):
    """Var(y)/E[y] of outcomes over their bound, and n E[y]²/E[y²], which has no unit: but for octaves of sizes."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=20_000)
    mean = 2 * np.exp(0.1 * x)
    y = rng.poisson(mean * rng.gamma(1 / variance, variance, len(x))).astype(float)
    known = watched(x, y, 8.0, bound)
    dispersion = ((y - mean) ** 2).mean() / y.mean()
    assert bound * known["dispersion"] == pytest.approx(dispersion, rel=0.25)
    information = len(x) * y.mean() ** 2 / (y**2).mean()
    assert known["information"] == pytest.approx(information, rel=0.25)


def test_a_pilot_gives_the_farthest_records_means_no_larger_than_the_largest_outcomes():
    """By Stein's lemma, of Gaussian rows, the slope of a log-normal number with a bounded effect is so steep that
    the means of its largest values would be far larger than any outcome.
    """
    rng = np.random.default_rng(0)
    x = rng.lognormal(size=20_000)
    y = rng.poisson(np.exp(-0.5 + 0.3 * np.minimum(x, 8))).astype(float)
    width = 2 * x.max()
    slope = watched(x, y, width, 4096.0)["slope"]
    farthest = (np.sort(x)[-10] - x.mean()) / width
    largest = np.log(np.sort(y)[-10] / y.mean())
    assert largest / 2 < slope * farthest < 1.2 * largest


def test_an_exposure_that_noise_hides_is_no_less_than_one_record():
    """The noise of the total exposure exceeds one record's, and two steps change a mean at most threefold each.

    So the rate of a fit is at most 9 times that of n outcomes at their bound in one exposure at its bound.
    """
    x, y, e = table(3000)
    for seed in range(8):
        result = model(insecure_seed=seed).fit(x, y, exposure=1e-6 * e).result_
        assert result.estimate[0] < np.log(9 * len(x) * 200 / MOST)


@pytest.mark.parametrize(("share", "rho"), [(0.05, 0.1), (0.05, 0.5), (0.02, 0.5)])
def test_one_event_of_a_rare_reference_is_not_clipped(share, rho):
    """Its histogram of influences cannot show so few records, and a clip below one event clips them all."""
    rng = np.random.default_rng(0)
    n = 20_000
    x = np.column_stack([rng.random(n) > share, rng.normal(size=n).clip(-3, 3)])
    y = rng.poisson(0.02, n)
    public = {"bounds": ([0, -3], [1, 3]), "yes_no": [0], "outcome": (0, 16)}
    asked = dp.PoissonRegression(budget=dp.ZCDP(rho), insecure_seed=3, **public)
    result = asked.fit(x, y).result_
    reference = np.array([[0.0, 0.0]])
    assert result.band.pulled(result.geometry, reference, np.ones(1)) == pytest.approx(1.0)


@pytest.mark.parametrize("dispersion", [0.0, 1.0])
@pytest.mark.parametrize("exposed", [True, False])
def test_with_much_budget_it_is_the_stated_regression_and_near_the_ordinary_one(
    exposed, dispersion
):
    """The stated one is a Poisson regression of outcomes pulled into the released band, with the
    released weights; what is left, of second order in the last step, is below three hundredths of a
    standard error.  From the ordinary one it differs by the weights.
    """
    x, y, e = table(6000, 1, dispersion)
    exposure = (0, MOST) if exposed else None
    given = e if exposed else None
    asked = model(dp.ZCDP(1e9), exposure=exposure)
    result = asked.fit(x, y, exposure=given).result_
    offset = np.log(e) if exposed else 0.0
    weights = result.geometry.row_weights(x, offset)
    pulled = result.band.pulled(result.geometry, x, y, offset)
    # at this budget next to nobody is beyond the band: what it takes off is no part of an error
    assert np.abs(pulled - y).mean() < 0.03 * y.std() / np.sqrt(len(y))
    ordinary = peer(x, y, given)
    stated = peer(x, pulled, given, weights)
    at_centre = np.eye(4)
    at_centre[0, 1:] = result.geometry.centre
    errors = np.sqrt(np.diag(at_centre @ ordinary.cov_params() @ at_centre.T))
    assert (np.abs(result.estimate - at_centre @ stated.params) < 0.03 * errors).all()
    assert (np.abs(result.estimate - at_centre @ ordinary.params) < 0.2 * errors).all()
    assert result.noise_share.max() < 0.01
    assert result.std_error == pytest.approx(errors, rel=0.1)


# --- privacy


class Recorder(Gate):
    """A gate that remembers the noise of its releases."""

    noises: dict

    def release(self, booked, source, what):
        released = super().release(booked, source, what)
        noise = (released.value - source.total(what.of_block)) / what.bound
        self.noises.setdefault(booked.step, []).append(noise)
        return released


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_noise_of_whole_fits(neighbours, monkeypatch):
    """Every release carries the noise its share and its bound ask for."""
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "noises", {}, raising=False)
    for seed in range(25):
        fitted(300, neighbours=neighbours, insecure_seed=seed)
    booked = (
        dp.PoissonPlan(dp.ZCDP(0.5), neighbours=neighbours).releases(numbers=2, exposed=True).all
    )
    assert set(Recorder.noises) == {release.step for release in booked}
    for release in booked:
        scale = 1 / np.sqrt(2 * release.share.rho)
        noise = np.concatenate(Recorder.noises[release.step])
        assert follows(noise, stats.norm(scale=scale)), release.step
        # a mean square tells a wrong scale by far fewer numbers than its whole law does
        spread = 4 * np.sqrt(2 / len(noise))
        assert np.mean(noise**2) / scale**2 == pytest.approx(1, abs=spread), release.step


@pytest.mark.parametrize("neighbours", ["replace", "add-remove", "replace-unit", "add-remove-unit"])
def test_the_releases_spend_the_budget(neighbours):
    promised = dp.ApproxDP(1.0, 1e-6)
    plan = dp.PoissonPlan(promised, neighbours=neighbours)
    assert plan.cost.rho == pytest.approx(0.02801, abs=5e-6)
    assert spent(promised, plan.releases().all) == pytest.approx(1.0, abs=1e-9)
    steps = [release.step for release in plan.releases().all]
    assert steps == [
        "scales, 1 of 2",
        "scales, 2 of 2",
        "crude moments",
        "outcome sizes",
        "moments",
        "first step",
        "influence",
        "estimate",
        "rest",
    ]


# --- with noise


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("dispersion", [0.0, 1.0])
def test_intervals_cover_the_known_truth(dispersion, neighbours):
    """Fresh records and fresh noise, much of an error being noise.  Seeded: of 180 intervals more
    than nine in ten cover.
    """
    covered = []
    errors = []
    for seed in range(60):
        options = {"neighbours": neighbours, "insecure_seed": seed, "budget": dp.ZCDP(0.05)}
        result = fitted(6000, seed, dispersion, **options)
        assert result.reported.all()
        low, high = result.conf_int()[1:].T
        covered.append((low <= COEF) & (high >= COEF))
        errors.append((result.estimate[1:] - COEF) / result.std_error[1:])
    assert np.mean(covered) > 0.9
    # half of what the clip takes is left, for which intervals allow and standard errors do not
    assert np.abs(np.mean(errors, axis=0)).max() < 0.9
    assert 0.7 < np.sqrt(np.mean(np.square(errors))) < 1.3


@pytest.mark.parametrize("effect", [-1.5, 1.0, 1.5])
def test_strong_effects_are_covered(effect):
    """Of a yes or no that half of the records have."""
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        x = np.column_stack([table(10_000, seed)[0][:, :2], rng.integers(0, 2, 10_000)])
        y = rng.poisson(np.exp(0.7 + 0.1 * x[:, 0] + effect * x[:, 2]))
        result = model(outcome=(0, 1000), exposure=None, insecure_seed=seed).fit(x, y).result_
        low, high = result.conf_int()[3]
        covered.append(low <= effect <= high)
    assert np.mean(covered) > 0.8


def groups(seed, deviations, effect=0.0):
    """Two groups of equal size with log-normal costs of these deviations of the logarithm."""
    rng = np.random.default_rng(seed)
    n = 20_000
    group = rng.integers(0, 2, n)
    number = rng.normal(size=n).clip(-3, 3)
    deviation = np.asarray(deviations)[group]
    noise = deviation * rng.normal(size=n) - deviation**2 / 2
    cost = np.exp(2 + 0.1 * number + effect * group + noise)
    options = {"bounds": ([-3, 0], [3, 1]), "yes_no": [1], "outcome": (0, 1e5)}
    asked = dp.PoissonRegression(budget=dp.ZCDP(0.1), insecure_seed=seed, **options)
    return asked.fit(np.column_stack([number, group]), cost).result_


def test_groups_with_other_means_and_one_law_are_reported():
    """A mean that is four times as large has a variance that is sixteen times: a good reason."""
    fits = [groups(seed, (1.2, 1.2), np.log(4)) for seed in range(30)]
    assert np.mean([result.reported[2] for result in fits]) >= 0.95
    low, high = np.array([result.conf_int()[2] for result in fits if result.reported[2]]).T
    assert ((low <= np.log(4)) & (high >= np.log(4))).mean() > 0.85


@pytest.mark.parametrize("rate", [0.01, 0.02, 0.03])
def test_rare_counts_are_covered(rate):
    """200 to 600 events among 20,000 records, with a number and a factor of two levels, at (1, 1e-6):
    what is reported covers, and z-scores have the size that is stated.
    """
    covered = []
    scores = []
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        x = np.column_stack([rng.normal(size=20_000).clip(-3, 3), rng.integers(0, 2, 20_000)])
        truth = np.array([0.3, 0.4])
        y = rng.poisson(rate * np.exp(x @ truth))
        options = {"bounds": ([-3, 0], [3, 1]), "yes_no": [1], "outcome": (0, 20)}
        budget = dp.ApproxDP(1.0, 1e-6)
        result = (
            dp.PoissonRegression(budget=budget, insecure_seed=seed, **options).fit(x, y).result_
        )
        told = result.reported[1:]
        low, high = result.conf_int()[1:].T
        covered += ((low <= truth) & (truth <= high))[told].tolist()
        scores += ((result.estimate[1:] - truth) / result.std_error[1:])[told].tolist()
    assert len(covered) >= 60
    assert np.mean(covered) >= 0.89  # 80 intervals: two Monte Carlo errors below 95 %
    assert np.mean(np.square(scores)) < 1.4


def test_a_strong_effect_of_a_light_tail_is_printed():
    """A level with a rate five times as high: caution about a tail that nobody sees leaves no coefficient out."""
    printed = []
    for seed in range(10):
        rng = np.random.default_rng(200 + seed)
        x = np.column_stack([rng.normal(size=(20_000, 2)).clip(-3, 3), rng.random(20_000) < 0.1])
        y = rng.poisson(
            np.exp(0.3 + 0.2 * x[:, 0] + 1.5 * x[:, 2]) * rng.gamma(1.5, 1 / 1.5, 20_000)
        )
        options = {"bounds": ([-3, -3, 0], [3, 3, 1]), "yes_no": [2], "outcome": (0, 1000)}
        budget = dp.ApproxDP(1.0, 1e-6)
        asked = dp.PoissonRegression(budget=budget, insecure_seed=seed, **options)
        printed.append(asked.fit(x, y).result_.reported[3])
    assert np.mean(printed) > 0.8


def test_units_and_weights_are_fitted():
    """Persons of three rows with one factor of their own: errors are theirs, not those of rows."""
    rng = np.random.default_rng(8)
    people = 4000
    units = np.repeat(np.arange(people), 3)
    x, _, e = table(3 * people, 8)
    own = rng.gamma(2, 0.5, people)[units]
    y = rng.poisson(e * own * np.exp(LEVEL + x @ COEF))
    weights = rng.uniform(0.5, 1, 3 * people)
    result = model(most_weight=1.0).fit(x, y, units=units, weights=weights, exposure=e).result_
    assert result.reported.all()
    assert (np.abs(result.estimate[1:] - COEF) < 5 * result.std_error[1:]).all()
    alone = model().fit(x, y, exposure=e).result_
    assert (result.std_error > alone.std_error).all()
    assert result.privacy.neighbours == "replace-unit"


def test_errors_are_those_of_clipped_outcomes(monkeypatch):
    """A band that cuts a fifth of the outcome off or more: the sampling errors are those of the
    regression of outcomes in the band, with its curvature.
    """
    # the same clip for the pilot step, so that the last step begins near where it ends
    monkeypatch.setattr(TailLaw, "clip", lambda law, _: 0.5 * law.tail.point(0.2))
    chosen = staticmethod(lambda law, *_: Clip(law.clip(0.0)))
    monkeypatch.setattr(PoissonSteps, "_chosen_clip", chosen)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(20_000, 2)).clip(-3, 3)
    y = np.minimum(rng.lognormal(-1.125, 1.5, 20_000) * np.exp(0.2 * x[:, 0]), 200)
    asked = dp.PoissonRegression(
        bounds=(-3, 3), outcome=(0, 200), budget=dp.ZCDP(1e6), insecure_seed=1
    )
    result = asked.fit(x, y).result_
    pulled = result.band.pulled(result.geometry, x, y)
    assert 0.15 < 1 - pulled.mean() / y.mean() < 0.5
    stated = peer(x, pulled, weights=result.geometry.row_weights(x))
    errors = np.sqrt(np.diag(result.error.sampling))[1:]
    assert errors == pytest.approx(stated.bse[1:], rel=0.08)


def test_with_many_records_intervals_are_near_those_without_noise():
    """What a cut may do to a slope falls with the number of records as sampling does."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200_000, 3)).clip(-3, 3)
    mean = np.exp(0.5 + x @ [0.1, -0.1, 0.0])
    y = rng.poisson(mean * rng.gamma(0.7, 1 / 0.7, len(x))).astype(float)
    ordinary = peer(x, y)
    options = {"bounds": (-3, 3), "outcome": (0, 1000), "budget": dp.ApproxDP(1.0, 1e-6)}
    ratios = []
    for seed in range(3):
        result = dp.PoissonRegression(insecure_seed=seed, **options).fit(x, y).result_
        lengths = np.diff(result.conf_int()[1:]).ravel()
        ratios.append(lengths / (2 * 1.96 * ordinary.bse[1:]))
    assert np.median(ratios) < 1.25


def test_a_generous_bound_of_the_outcome_costs_little():
    """Ten thousand times too large: a few per cent of the lengths, over many draws of the noise."""
    x, y, _ = table(6000, 0, 1.0)
    lengths = {200: [], 1_000_000: []}
    for most, found in lengths.items():
        for seed in range(30):
            options = {"outcome": (0, most), "budget": dp.ZCDP(0.05), "insecure_seed": seed}
            result = model(exposure=None, **options).fit(x, y).result_
            assert result.reported.all()
            found.append(np.diff(result.conf_int()[1:]).ravel())
    usual, generous = (np.mean(found) for found in lengths.values())
    assert generous < 1.06 * usual


def test_units_are_the_users():
    """Columns, outcomes and exposures in other units give the same fit in these units."""
    x, y, e = table()
    plain = model().fit(x, y, exposure=e).result_
    scaled = dp.PoissonRegression(
        bounds=([0.0, -20.0, 0.0], [1.0, 20.0, 1.0]),
        outcome=(0, 20_000),
        exposure=(0, MOST / 2),
        yes_no=[2],
        budget=dp.ZCDP(0.5),
        insecure_seed=7,
    )
    other = scaled.fit(x * [0.1, 10, 1], 100 * y, exposure=e / 2).result_
    factor = np.array([1, 10, 0.1, 1])
    shift = np.array([np.log(200), 0, 0, 0])
    assert other.estimate == pytest.approx(factor * plain.estimate + shift)
    # a band of few events is told from none by their number, which is in another unit
    assert other.std_error == pytest.approx(factor * plain.std_error, rel=1e-6)
    for name in ("width", "excess", "limit", "high"):
        assert getattr(other.band, name) == pytest.approx(100 * getattr(plain.band, name))
    assert other.geometry.row_weights(x[:50] * [0.1, 10, 1], np.log(e[:50] / 2)) == pytest.approx(
        plain.geometry.row_weights(x[:50], np.log(e[:50]))
    )


def test_the_width_of_the_band_is_that_of_a_record_of_average_influence():
    """The half width for each record goes with one over its influence, so the mean square of that
    says what is told of all, but for the sizes of means.
    """
    x, y, e = table()
    result = model(dp.ZCDP(5.0)).fit(x, y, exposure=e).result_
    widths = result.band.half_width(result.geometry, x, np.log(e))
    assert result.band.width == pytest.approx(np.mean(widths**-2.0) ** -0.5, rel=0.25)


# --- what is read off a result

SCHEMA = dp.Schema.parse(
    """
unit = "one policy"
[columns.claims]
type = "outcome"
low = 0
high = 200
[columns.years]
type = "number"
low = 0
high = 4
[columns.age]
type = "number"
low = 0
high = 10
[columns.risk]
type = "number"
low = -2
high = 2
[columns.kind]
type = "category"
levels = ["a", "b"]
"""
)
FORMULA = "claims ~ age + risk + kind"


def policies(n=6000, seed=0):
    x, y, e = table(n, seed)
    kind = np.where(x[:, 2] == 1, "b", "a")
    return pd.DataFrame({"claims": y, "years": e, "age": x[:, 0], "risk": x[:, 1], "kind": kind})


@pytest.fixture(scope="module")
def rates():
    asked = dp.PoissonRegression(
        FORMULA, schema=SCHEMA, exposure="years", budget=dp.ZCDP(0.5), insecure_seed=7
    )
    return asked.fit(policies())


def test_an_exposure_by_name_by_an_offset_and_by_an_array_are_one(rates):
    offset = clone(rates).set_params(formula=FORMULA + " + offset(log(years))", exposure=None)
    by_offset = offset.fit(policies()).result_
    assert by_offset.estimate == pytest.approx(rates.result_.estimate, rel=1e-12)
    assert by_offset.conf_int() == pytest.approx(rates.result_.conf_int(), rel=1e-12)
    by_array = fitted()
    assert by_array.estimate == pytest.approx(rates.result_.estimate, rel=1e-9)
    assert "offset(log(" in rates.result_.summary()


def test_rate_ratios(rates):
    result = rates.result_
    ratios = result.rate_ratios(0.9)
    assert list(ratios.index) == list(result.names[1:])
    low, high = result.conf_int(0.9)[1:].T
    assert ratios["rate_ratio"].to_numpy() == pytest.approx(np.exp(result.estimate[1:]))
    assert ratios["low"].to_numpy() == pytest.approx(np.exp(low))
    assert ratios["high"].to_numpy() == pytest.approx(np.exp(high))
    with pytest.raises(dp.InputError, match=r"use rate_ratios\(\)"):
        result.odds_ratios()
    other = dp.LinearRegression(bounds=(-1, 1), outcome=(-1, 1), budget=dp.NoPrivacy())
    with pytest.raises(dp.InputError, match="rate ratios are those of PoissonRegression"):
        other.fit(np.eye(3), np.arange(3) / 3).result_.rate_ratios()


def test_predictions_are_rates_or_counts_at_an_exposure(rates):
    result = rates.result_
    rows = {"age": [5.0, 2.0], "risk": [0.0, 1.0], "kind": ["a", "b"]}
    rate = result.predict(rows)
    true = np.exp(LEVEL + np.array([[5.0, 0.0, 0.0], [2.0, 1.0, 1.0]]) @ COEF)
    assert rate["prediction"].to_numpy() == pytest.approx(true, rel=0.1)
    assert (rate["low"] < true).all()
    assert (true < rate["high"]).all()
    count = result.predict(rows | {"years": [2.0, 0.5]})
    for name in ("prediction", "low", "high", "std_error"):
        assert count[name].to_numpy() == pytest.approx(rate[name].to_numpy() * [2.0, 0.5])
    assert rates.predict(pd.DataFrame(rows)) == pytest.approx(rate["prediction"].to_numpy())
    with pytest.raises(dp.InputError, match="no exposure above 0"):
        result.predict(rows | {"years": [0.0, 1.0]})


def test_margins_and_contrasts(rates):
    """By hand: means of rates at all rows, and of their slopes."""
    result = rates.result_
    rows = policies(400, 5).drop(columns=["claims", "years"])
    effects = result.margins(rows)
    slope = rates.predict(rows).mean() * result.params["age"]
    assert effects.loc["age"].iloc[0] == pytest.approx(slope, rel=1e-6)
    both = [rates.predict(rows.assign(kind=level)).mean() for level in ("b", "a")]
    kind = [name for name in effects.index if "kind" in str(name)]
    assert effects.loc[kind[0]].iloc[0] == pytest.approx(both[0] - both[1], rel=1e-6)
    contrast = result.contrast("age - risk")
    assert contrast.estimate == pytest.approx(result.params["age"] - result.params["risk"])
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    pd.testing.assert_frame_equal(again.rate_ratios(), result.rate_ratios())


def test_an_intercept_alone():
    asked = dp.PoissonRegression(
        "claims ~ 1", schema=SCHEMA, exposure="years", budget=dp.ZCDP(0.5), insecure_seed=1
    )
    data = policies()
    result = asked.fit(data).result_
    assert result.names == ("(Intercept)",)
    assert result.estimate[0] == pytest.approx(
        np.log(data.claims.sum() / data.years.sum()), abs=0.05
    )
    assert np.isfinite(result.conf_int()).all()


# --- edges


def no_events_of(x, y):
    return np.where(x[:, 2] == 1, 0.0, y)


def one_of(x, y, value):
    y = y.copy()
    y[5] = value
    return x, y, {"outcome": (0, 1_000_000)}


EDGES = {
    "no events": lambda x, y: (x, 0 * y, {}),
    "ten events": lambda x, y: (x, (np.arange(len(y)) < 10).astype(float), {}),
    "constant outcome": lambda x, y: (x, 0 * y + 3, {}),
    "outcome at its bound": lambda x, y: (x, 0 * y + 200, {}),
    "level without events": lambda x, y: (x, no_events_of(x, y), {}),
    "constant column": lambda x, y: (np.column_stack([x[:, :2], 0 * y]), y, {}),
    "one record of a million": lambda x, y: one_of(x, y, 1e6),
    "few records": lambda x, y: (x[:200], y[:200], {}),
    "one record": lambda x, y: (x[:1], y[:1], {}),
}
HOPELESS = ("no events", "ten events", "one record")


@pytest.mark.filterwarnings("ignore::dpinfer.errors.LowBudgetWarning")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("rho", [1e-6, 0.028, 2.0])
@pytest.mark.parametrize("edge", EDGES)
def test_edges(edge, rho, neighbours):
    """Nothing breaks or warns, and what is reported has a finite interval around its estimate."""
    x, y, _ = table()
    x, y, options = EDGES[edge](x, y)
    asked = model(dp.ZCDP(rho), neighbours=neighbours, exposure=None, **options)
    result = asked.fit(x, y).result_
    kept = result.reported
    low, high = result.conf_int().T
    assert np.isfinite(result.conf_int()[kept]).all()
    assert np.isfinite(result.estimate).all()
    assert (low[kept] < result.estimate[kept]).all()
    assert (result.estimate[kept] < high[kept]).all()
    assert result.summary()
    assert "nan" not in result.summary()
    assert np.isfinite(result.rate_ratios()["rate_ratio"][kept[1:]]).all()
    if rho == 1e-6 or edge in HOPELESS:
        assert not kept[1:].any()
    elif edge == "constant outcome":
        assert (np.abs(result.estimate[1:]) < 5 * result.std_error[1:])[kept[1:]].all()
    elif edge in ("constant column", "level without events"):
        assert not kept[3]
        assert result.status[3].startswith("not reported: ")


@pytest.mark.parametrize(("usual", "share"), [(10.0, 0.02), (5.0, 0.04)])
def test_the_level_of_outcomes_that_are_cut_off_below(usual, share):
    """Nearly everybody has the same, some nothing: what the clip takes off lies below the mean."""
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(20_000, 2)).clip(-3, 3)
        y = np.where(rng.random(20_000) < share, 0.0, usual)
        options = {"bounds": (-3, 3), "outcome": (0, 60), "insecure_seed": seed}
        result = dp.PoissonRegression(budget=dp.ZCDP(0.02), **options).fit(x, y).result_
        low, high = result.conf_int()[0]
        held.append(low <= np.log(usual * (1 - share)) <= high)
    assert np.mean(held) > 0.8


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("rho", [0.028, 2.0])
def test_events_that_noise_hides_give_no_line(rho, neighbours):
    """Ten among thousands: outcomes would be measured by next to nothing, and slopes printed of what
    is left of them there.  Where there is hardly noise they are now and then seen to be more than the
    eight that are asked for; intervals then hold the ordinary coefficients.
    """
    x, y, _ = table()
    few = (np.arange(len(y)) < 10).astype(float)
    ordinary = peer(x, few).params[1:]
    reported = []
    for seed in range(15):
        options = {"neighbours": neighbours, "exposure": None, "insecure_seed": seed}
        result = model(dp.ZCDP(rho), **options).fit(x, few).result_
        reported.append(result.reported.any())
        if rho < 1:
            assert result.status[1].startswith("not identified")
        low, high = result.conf_int()[1:].T
        assert ((low <= ordinary) & (ordinary <= high)).all()
    assert np.mean(reported) <= (0.0 if rho < 1 else 0.1)


def test_the_level_allows_for_what_the_band_takes_off():
    """What is cut off is cut off above: the interval of the level reaches from what the band leaves at
    least as far up as the mean has lost, and holds the truth.
    """
    n = 20_000
    shape = 0.4
    held = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 1)).clip(-3, 3)
        y = np.exp(0.5 + 0.2 * x[:, 0]) * rng.gamma(shape, 1 / shape, n)
        options = {"bounds": (-3, 3), "outcome": (0, 1000), "insecure_seed": seed}
        result = dp.PoissonRegression(budget=dp.ZCDP(0.05), **options).fit(x, y).result_
        low, high = result.conf_int()[0]
        at_centre = 0.5 + 0.2 * result.geometry.centre[0]
        held.append(low <= at_centre <= high)
        law = result.error
        # E over the mean of all outcomes, which the released law has to a factor of its own
        lost = result.band.excess / y.mean()
        assert law.below[0] == pytest.approx(law.above[0])
        assert lost / 3 < law.above[0] < 3 * lost
    assert np.mean(held) >= 0.9


def test_a_level_without_events_leaves_the_others_as_they_are():
    x, y, _ = table(20_000)
    result = model(exposure=None).fit(x, no_events_of(x, y)).result_
    assert result.reported.tolist() == [True, True, True, False]
    without = x[:, 2] == 0
    other = peer(x[without][:, :2], y[without])
    assert (np.abs(result.estimate[1:3] - other.params[1:]) < 4 * result.std_error[1:3]).all()


def test_one_record_of_a_million_changes_nothing():
    """It counts as the band lets it: no coefficient moves by a standard error."""
    x, y, _ = table()
    usual = model(exposure=None, outcome=(0, 1_000_000)).fit(x, y).result_
    x, y, options = one_of(x, y, 1e6)
    other = model(exposure=None, **options).fit(x, y).result_
    assert (np.abs(other.estimate - usual.estimate) < usual.std_error).all()


def test_exact_twins_are_not_reported_and_their_sum_is():
    x, y, _ = table()
    x = np.column_stack([x[:, :2], x[:, 1]])
    bounds = ([0.0, -2.0, -2.0], [10.0, 2.0, 2.0])
    for seed in range(10):
        options = {"bounds": bounds, "yes_no": None, "exposure": None, "insecure_seed": seed}
        result = model().set_params(**options).fit(x, y).result_
        assert result.reported[1:].tolist() == [True, False, False]
        both = result.contrast([0, 0, 1, 1])
        assert abs(both.estimate + 0.3) < 6 * both.std_error


@pytest.mark.filterwarnings("error")
def test_events_without_an_exposure_are_records_that_cannot_be():
    """Such a record counts for nothing, whatever its outcome; without any other nothing is said."""
    x, y, e = table()
    half = np.where(np.arange(len(e)) % 2, e, 0.0)
    result = model().fit(x, y, exposure=half).result_
    assert (np.abs(result.estimate[1:] - COEF) < 5 * result.std_error[1:]).all()
    for nothing in (0.0, -1.0, np.nan):
        none = model().fit(x, y, exposure=np.full(len(e), nothing)).result_
        assert not none.reported.any()
        assert "nan" not in none.summary()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_whatever_the_records_hold_it_raises_and_warns_nothing(neighbours):
    x, y, e = table(900)
    x[::3] = [1e300, -1e300, np.inf]
    y[1::5] = [np.inf, -np.inf, np.nan, 1e300, -1e300] * 36
    e[::7] = np.resize([0.0, -5.0, np.inf, 1e300, 5e-324], len(e[::7]))
    model(neighbours=neighbours).fit(x, y, exposure=e)


def test_a_hopeless_budget_is_told_before_anything_is_booked():
    """By public facts alone: the words are the same whatever the records hold."""
    told = []
    for y in (np.zeros(200), np.full(200, 150.0)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model(dp.ZCDP(1e-4), exposure=None).fit(table(200)[0], y)
        told.append([str(one.message) for one in found])
    assert told[0] == told[1]
    assert "hardly a coefficient can be reported" in told[0][0]


# --- bad input


X, Y, E = table(60)


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"exposure": None}, {"exposure": E}, "declared and given"),
        ({}, {}, "declared and given"),
        ({"exposure": "years"}, {"exposure": E}, "declared and given"),
        ({"exposure": (0, np.inf)}, {"exposure": E}, "finite number above 0"),
        ({"exposure": (0, 0)}, {"exposure": E}, "finite number above 0"),
        ({"exposure": (0, np.nan)}, {"exposure": E}, "finite number above 0"),
        ({"exposure": (0, -2)}, {"exposure": E}, "finite number above 0"),
        ({"exposure": 5.0}, {"exposure": E}, "a pair"),
        ({"exposure": (0, 1, 2)}, {"exposure": E}, "a pair"),
        ({"exposure": ("a", "b")}, {"exposure": E}, "a pair"),
        ({}, {"exposure": E[:-1]}, "one number a row"),
        ({}, {"exposure": E[:, None, None]}, "one dimension"),
        ({"outcome": None}, {"exposure": E}, "outcome="),
        ({"outcome": (-1, 5)}, {"exposure": E}, "0 or more"),
        ({"outcome": (0, np.inf)}, {"exposure": E}, "finite"),
        ({"outcome": (5, 0)}, {"exposure": E}, "low < high"),
        ({"penalty": 0.1}, {"exposure": E}, "no penalty"),
        ({"target": "robust"}, {"exposure": E}, "there is no target 'robust'|'ordinary'"),
        ({"budget": dp.PureDP(1.0)}, {"exposure": E}, "give a delta beside epsilon"),
        ({"budget": None, "plan": dp.LinearPlan(dp.ZCDP(1.0))}, {"exposure": E}, "PoissonPlan"),
        ({"budget": None}, {"exposure": E}, "budget"),
        ({"plan": dp.PoissonPlan(dp.ZCDP(1.0))}, {"exposure": E}, "leave out budget="),
        ({"bounds": None}, {"exposure": E}, "bounds"),
        ({"neighbours": "near"}, {"exposure": E}, "'replace' or 'add-remove'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_booked(options, given, words):
    ledger = dp.Ledger(dp.ZCDP(5.0))
    asked = model().set_params(ledger=ledger, insecure_seed=None, **options)
    with pytest.raises((dp.DpinferError, ValueError), match=words):
        asked.fit(X, Y, **given)
    assert not ledger.entries()


def test_labels_and_shapes_are_refused_before_anything_is_booked():
    ledger = dp.Ledger(dp.ZCDP(5.0))
    asked = model(ledger=ledger, insecure_seed=None)
    for x, y, e in ((X, Y[:-1], E), (X, None, E), (X[:, :2], Y, E), (X[0], Y, E)):
        with pytest.raises((dp.DpinferError, ValueError)):
            asked.fit(x, y, exposure=e)
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"exposure": (0, 4)}, {}, "the name of a column"),
        ({"exposure": "yeers"}, {}, "did you mean 'years'"),
        ({"exposure": "kind"}, {}, "only a number"),
        ({"exposure": "claims"}, {}, "cannot stand on the right"),
        ({"exposure": None}, {"exposure": np.ones(60)}, "give its name to the model"),
        ({"formula": FORMULA + " - 1"}, {}, "needs an intercept"),
        ({"formula": "risk ~ age"}, {}, "goes below 0 in the schema"),
        ({"formula": "kind ~ age"}, {}, "kind"),
        ({"formula": FORMULA + " + offset(age)"}, {}, "once in a formula"),
        ({"outcome": (0, 5)}, {}, "outcome"),
    ],
)
def test_bad_formulas_and_columns_are_refused_before_anything_is_booked(options, given, words):
    ledger = dp.Ledger(dp.ZCDP(5.0))
    usual = {"formula": FORMULA, "exposure": "years", "schema": SCHEMA, "budget": dp.ZCDP(0.5)}
    asked = dp.PoissonRegression(ledger=ledger, **usual | options)
    with pytest.raises(dp.DpinferError, match=words):
        asked.fit(policies(60), **given)
    assert not ledger.entries()


def test_errors_and_words_of_a_plan():
    with pytest.raises(dp.InputError, match="target"):
        dp.PoissonPlan(dp.ZCDP(1.0), "robust")
    with pytest.raises(dp.BudgetError, match="delta"):
        dp.PoissonPlan(dp.PureDP(1.0))
    plan = dp.PoissonPlan(dp.ZCDP(0.5), neighbours="add-remove")
    result = fitted(plan=plan, budget=None)
    assert result.privacy.neighbours == "add-remove"
    assert result.model.n is None
    assert result.model.counts
    assert result.model.target == "ordinary"


@pytest.mark.parametrize("counted_by", ["weights", "exposure"])
def test_groups_that_count_for_more_are_not_told_to_spread(counted_by):
    """Of one law, one group oversampled or watched for longer: its squares are larger by that alone."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = 20_000
        group = rng.integers(0, 2, n)
        more = np.where(group == 1, 1.0, 0.3)
        x = np.column_stack([rng.normal(size=n).clip(-3, 3), group])
        cost = np.exp(2 + 0.1 * x[:, 0] + rng.normal(size=n) - 0.5)
        public = {"bounds": ([-3, 0], [3, 1]), "yes_no": [1], "outcome": (0, 1e5)}
        if counted_by == "weights":
            public["most_weight"] = 1.0
            asked = dp.PoissonRegression(budget=dp.ZCDP(1.0), insecure_seed=seed, **public)
            result = asked.fit(x, cost, weights=more).result_
        else:
            public["exposure"] = (0, 1)
            asked = dp.PoissonRegression(budget=dp.ZCDP(1.0), insecure_seed=seed, **public)
            result = asked.fit(x, cost * more, exposure=more).result_
        assert result.reported[2]
