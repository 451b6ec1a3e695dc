"""Least squares in a private geometry: its releases, its result, its edges."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dp
from dpinfer.fit import recipe
from dpinfer.fit.linear import LinearPlan, LinearSteps
from dpinfer.fit.step_plan import FIRST_STEP
from dpinfer.privacy.accountant import spent
from dpinfer.privacy.gate import Gate, Released
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design, OutcomeScale
from helpers.support import follows

COEF = np.array([2.0, -1.0, 0.5])
BOUNDS, RANGE = ([0.0, -2.0, 0.0], [10.0, 2.0, 1.0]), (-40.0, 60.0)


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [rng.uniform(0, 10, n), rng.normal(0, 0.7, n).clip(-2, 2), rng.integers(0, 2, n)]
    )
    return x, 3 + x @ COEF + 2 * rng.standard_normal(n)


def model(budget=None, **options):
    budget = dp.ZCDP(0.5) if budget is None and "plan" not in options else budget
    return dp.LinearRegression(
        bounds=BOUNDS, outcome=RANGE, budget=budget, **{"insecure_seed": 7} | options
    )


def fitted(n=4000, seed=0, **options):
    return model(**options).fit(*table(n, seed)).result_


class Recorder(Gate):
    """A gate that remembers its releases and their noise."""

    releases: list
    noises: dict

    def release(self, booked, source, what):
        released = super().release(booked, source, what)
        noise = (released.value - source.total(what.of_block)) / what.bound
        self.noises.setdefault(booked.step, []).append(noise)
        self.releases.append(released)
        return released


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "releases", [], raising=False)
    monkeypatch.setattr(Recorder, "noises", {}, raising=False)
    return Recorder


@pytest.mark.parametrize("target", ["ordinary", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_noise_of_whole_fits(neighbours, target, recorder):
    """Every release carries the noise its share and its bound ask for."""
    rho = 0.5
    for seed in range(25):
        fitted(300, neighbours=neighbours, target=target, insecure_seed=seed, budget=dp.ZCDP(rho))
    booked = LinearPlan(dp.ZCDP(rho), target, neighbours).releases().all
    assert set(recorder.noises) == {release.step for release in booked}
    for release in booked:
        scale, noise = (
            1 / np.sqrt(2 * release.share.rho),
            np.concatenate(recorder.noises[release.step]),
        )
        assert follows(noise, stats.norm(scale=scale)), release.step
        # a mean square tells a wrong scale by far fewer numbers than its whole law does
        assert np.mean(noise**2) / scale**2 == pytest.approx(1, abs=4 * np.sqrt(2 / len(noise))), (
            release.step
        )


@pytest.mark.parametrize("target", ["ordinary", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_other_records_with_the_same_releases_give_the_same_result(
    neighbours, target, recorder, monkeypatch
):
    """Replay the releases of one fit on quite other records: the result is the same to the last
    bit.
    """
    first = fitted(3000, neighbours=neighbours, target=target)
    replay = iter(recorder.releases)

    class Replay(Gate):
        def release(self, booked, source, what) -> Released:
            return next(replay)

    monkeypatch.setattr(recipe, "Gate", Replay)
    n = 3000 if neighbours == "replace" else 700
    other = (
        model(neighbours=neighbours, target=target)
        .fit(np.full((n, 3), 0.5), np.full(n, 50.0))
        .result_
    )
    assert first.to_json() == other.to_json()


@pytest.mark.parametrize("target", ["ordinary", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_releases_spend_the_budget(neighbours, target):
    """All Gaussian: the promise is spent exactly; (1, 1e-6) is rho = .02801, by another library
    too.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    promised = dp.ApproxDP(1.0, 1e-6)
    plan = LinearPlan(promised, target, neighbours=neighbours)
    assert plan.cost.rho == pytest.approx(0.02801, abs=5e-6)
    assert spent(promised, plan.releases().all) == pytest.approx(1.0, abs=1e-9)
    known = pld.from_gaussian_mechanism(1 / np.sqrt(2 * plan.cost.rho))
    assert known.get_delta_for_epsilon(1.0) == pytest.approx(1e-6, rel=1e-3)
    assert sum(
        release.share.rho for release in LinearPlan(dp.ZCDP(0.3)).releases().all
    ) == pytest.approx(0.3)


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
    """Columns and outcome in other units give the same fit in these units: the encoding is the
    same.
    """
    x, y = table()
    plain = model().fit(x, y).result_
    scaled = dp.LinearRegression(
        bounds=([0.0, -20.0, 0.0], [1.0, 20.0, 1.0]),
        outcome=(-4000.0, 6000.0),
        budget=dp.ZCDP(0.5),
        insecure_seed=7,
    )
    other = scaled.fit(x * [0.1, 10, 1], 100 * y).result_
    factor = 100 * np.array([1, 10, 0.1, 1])
    assert other.estimate == pytest.approx(factor * plain.estimate)
    assert other.conf_int() == pytest.approx(factor[:, None] * plain.conf_int())
    for name in ("clip", "width", "excess", "low", "high"):
        assert getattr(other.band, name) == pytest.approx(100 * getattr(plain.band, name))
    assert scaled.predict(x[:5] * [0.1, 10, 1]) == pytest.approx(
        100 * model().fit(x, y).predict(x[:5])
    )


@pytest.mark.parametrize("target", ["ordinary", "robust"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_intervals_cover_the_known_truth(neighbours, target):
    """Symmetric errors: mean and robust targets are the coefficients themselves.  Much of an error
    is noise here, so that its scale counts.
    """
    covered, errors = [], []
    for seed in range(30):
        options = {"target": target, "neighbours": neighbours, "insecure_seed": seed}
        result = fitted(3000, seed, budget=dp.ZCDP(0.05), **options)
        low, high = result.conf_int()[1:].T
        reported = result.reported[1:]  # noise may hide the level
        covered += ((low <= COEF) & (high >= COEF))[reported].tolist()
        errors += ((result.estimate[1:] - COEF) / result.std_error[1:])[reported].tolist()
    assert len(covered) >= 80
    assert np.mean(covered) > 0.9
    assert 0.8 < np.sqrt(np.mean(np.square(errors))) < 1.2


def test_the_noise_of_the_law_is_the_spread_over_draws_of_the_noise():
    """The same records again and again: estimates differ by the noise alone, by no more than is
    stated, and not by far less in all of them.
    """
    found = [fitted(3000, insecure_seed=seed, budget=dp.ZCDP(5.0)) for seed in range(25)]
    spread = np.var([result.estimate[1:] for result in found], axis=0, ddof=1)
    stated = np.mean([np.diag(result.error.noise)[1:] for result in found], axis=0)
    assert np.sqrt(spread / stated).max() == pytest.approx(1, abs=0.3)


def test_tails():
    """A cautious clip is wider, one for all widest; the words follow."""
    x, y = table()
    y = y + np.random.default_rng(3).exponential(4, len(y))
    found = {tail: model(tail=tail).fit(x, y).result_ for tail in ("balanced", "cautious", "all")}
    clips = [result.band.clip for result in found.values()]
    assert clips[0] <= clips[1] < clips[2] == 100.0  # the whole range of the outcome
    assert found["cautious"].band.excess > found["balanced"].band.excess
    assert found["all"].band.excess == 0
    assert "Nobody is clipped" in found["all"].summary(full=True)
    assert "ask for a cautious tail" in " ".join(found["balanced"].summary(full=True).split())
    assert "influence" not in [
        event.step for event in found["all"].privacy.events
    ]  # nobody needs a clip
    lengths = [np.diff(result.conf_int()[1:]).mean() for result in found.values()]
    assert lengths == sorted(lengths)


def test_intervals_allow_for_what_was_cut_off(monkeypatch):
    """The level may be off by all of it, at both ends; slopes by half of it in an unknown direction,
    which is in their standard errors, and would not be without the bias.
    """
    x, y = table()
    y = y + np.random.default_rng(3).exponential(4, len(y))
    result = model().fit(x, y).result_
    law = result.error
    assert law.below == pytest.approx(law.above)
    assert law.below[0] == pytest.approx(result.band.excess)
    assert result.band.excess > 0.01
    assert law.below[1:] == pytest.approx(0, abs=1e-12)
    assert not fitted(tail="all").error.below.any()
    monkeypatch.setattr(LinearSteps, "_clip_bias", staticmethod(lambda fit, clip: 0.0))
    without = model().fit(x, y).result_
    # the bias of the score is as spread as the scores are: all variances grow alike, by what n E² is
    # of d times the mean variance of a score
    more = result.std_error[1:] ** 2 - without.std_error[1:] ** 2
    assert (more > 0).all()
    sampling = np.diag(without.error.sampling)[1:]
    assert more / sampling == pytest.approx(np.mean(more / sampling), rel=0.25)


def test_what_the_counts_may_hide_has_a_limit_that_is_printed():
    """One record in a hundred far out may be lost in the noise of the counts: the intercept is then
    the level of the band, and the words say so, with a limit that holds what was cut off.
    """
    rng = np.random.default_rng(0)
    n = 20_000
    x = rng.uniform(-1, 1, (n, 1))
    y = 0.5 * x[:, 0] + 0.3 * rng.standard_normal(n)
    far = rng.random(n) < 0.01
    y[far] += rng.uniform(15, 19, far.sum())
    options = {"bounds": ([-1], [1]), "outcome": (-20, 20), "budget": dp.ApproxDP(1.0, 1e-6)}
    ordinary = sm.OLS(y, sm.add_constant(x)).fit().params[0]
    missed = 0
    for seed in range(8):
        result = dp.LinearRegression(**options, insecure_seed=seed).fit(x, y).result_
        band = result.band
        cut = np.abs(band.pulled(result.geometry, x, y) - y).mean()
        low, high = result.conf_int()[0]
        missed += not low <= ordinary <= high
        # and it says something: a tenth of the declared range
        assert cut < band.limit < 4
        words = " ".join(result.summary(full=True).split())
        assert f"up to {band.limit:.2g} on average" in words
        assert "the intercept is the level of outcomes in the band" in words
        assert "Where more is cut off, they are about outcomes in the band" in words
    assert missed > 1


def test_a_first_step_that_is_noise_is_not_taken(monkeypatch):
    """Where the curvature is not clear of its noise the robust line stays, whatever was released."""

    class Weak(Gate):
        step = 0

        def release(self, booked, source, what):
            out = super().release(booked, source, what)
            if booked.step != FIRST_STEP:
                return out
            value = np.random.default_rng(Weak.step).standard_normal(out.value.shape)
            return dataclasses.replace(out, value=1e-3 * value)

    monkeypatch.setattr(recipe, "Gate", Weak)
    lines = []
    for Weak.step in range(3):
        lines.append(fitted(target="robust").band.pilot_coef.tolist())
    assert lines[0] == lines[1] == lines[2]


@pytest.mark.parametrize("n", [2000, 20_000])
def test_the_width_of_the_band_is_that_of_a_record_of_average_influence(n):
    """The half width of the band for each record goes with one over its influence: the mean square
    of that says what is told of all.
    """
    x, y = table(n)
    result = model(dp.ZCDP(5.0)).fit(x, y).result_
    widths = result.band.half_width(result.geometry, x)
    assert result.band.width == pytest.approx(np.mean(widths**-2.0) ** -0.5, rel=0.05)


def test_the_band_is_read_back():
    result = fitted()
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert again.band.pilot_coef == pytest.approx(result.band.pilot_coef, abs=0)


def test_a_row_that_cannot_be_read_counts_for_nothing():
    """NaN, infinity, an outcome that is no number: the result has no NaN and n stays."""
    x, y = table()
    x[:50, 0], y[50:100], y[100:150] = np.nan, np.nan, np.inf
    result = model().fit(x, y).result_
    assert np.isfinite(result.conf_int()).all()
    assert result.model.n == 4000


def test_rows_in_memory_and_block_by_block_give_the_same_fit():
    x, y = table()
    design = Design.of_bounds(BOUNDS, ("x1", "x2", "x3"), OutcomeScale.of_range(*RANGE))
    rows = Rows.encoded(design.rows(x), design.outcome.bounded(y), "residual")
    plan = LinearSteps(design, LinearPlan(dp.ZCDP(0.5)))

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
    "twin columns": lambda x, y: (
        np.column_stack([x[:, 0], x[:, 1], x[:, 1] > 0])[:, [0, 1, 2]],
        y,
    ),
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


def test_a_constant_column_is_not_reported_and_the_others_are_not():
    x, y = EDGES["constant column"](*table())
    others = []
    for seed in range(25):
        result = model(insecure_seed=seed).fit(x, y).result_
        others.append(result.reported[1:3].all())
        assert not result.reported[3]
        assert result.status[3].startswith("not reported: ")
    assert sum(others) >= 23


def test_exact_twins_are_not_reported_with_each_other_named():
    """Only their sum exists: neither has a line, the sum does, and the other columns are untouched."""
    x, y = table()
    x = np.column_stack([x[:, :2], x[:, 1]])
    bounds = ([0.0, -2.0, -2.0], [10.0, 2.0, 2.0])
    named = 0
    known = 0
    for seed in range(20):
        model = dp.LinearRegression(
            bounds=bounds, outcome=RANGE, budget=dp.ZCDP(0.5), insecure_seed=seed
        )
        result = model.fit(x, y).result_
        assert result.reported[2:].tolist() == [False, False]
        named += "from that of other columns, mainly x3" in result.status[2]
        try:
            both = result.contrast([0, 0, 1, 1])
        except dp.InputError:  # noise may hide the sum, too
            continue
        assert abs(both.estimate + 1) < 5 * both.std_error
        assert both.std_error < 0.3
        known += 1
    assert named >= 15
    assert known >= 18


@pytest.mark.parametrize("seed", range(3))
def test_a_number_and_its_square_are_told_apart_where_the_hessian_tells_them(seed):
    """Their correlation is .97: in whitened columns what each has by itself is as well known as all else."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 60, 50_000)
    y = 9 + 0.06 * x - 0.001 * x**2 + rng.standard_normal(len(x))
    rows = np.column_stack([x, x**2, rng.integers(0, 2, len(x))])
    fit = dp.LinearRegression(
        bounds=([0.0, 0.0, 0.0], [60.0, 3600.0, 1.0]),
        outcome=(0.0, 20.0),
        budget=dp.ApproxDP(1.0, 1e-6),
        insecure_seed=seed,
    ).fit(rows, y)
    plain = sm.OLS(y, sm.add_constant(rows)).fit(cov_type="HC0")
    result = fit.result_
    assert result.reported.all()
    assert (result.std_error[1:] < 2 * plain.bse[1:]).all()
    assert (np.abs(result.estimate - plain.params)[1:] < 4 * result.std_error[1:]).all()


def test_targets_by_their_names():
    usual = fitted(1000)
    assert usual.model.target == "ordinary"
    assert fitted(1000, target="asked").to_json() == usual.to_json()
    assert fitted(1000, target="robust").model.loss == "Huber"


def test_wide_bounds_of_a_number_and_of_the_outcome():
    """500 times too wide, with a strong coefficient: the number is mostly not reported, as what its noise
    hides could move it, but known as winsorised in half of the fits; the other coefficients cover.
    """
    known = 0
    covered = []
    instead = []
    for seed in range(20):
        x, y = table(8000, seed)
        result = (
            dp.LinearRegression(
                bounds=([-5000.0, -2.0, 0.0], [5000.0, 2.0, 1.0]),
                outcome=(-4000.0, 6000.0),
                budget=dp.ApproxDP(1.0, 1e-6),
                insecure_seed=seed,
            )
            .fit(x, y)
            .result_
        )
        low, high = result.conf_int()[1:].T
        told = result.reported[1:]
        covered += ((low <= COEF) & (high >= COEF))[told].tolist()
        rows = result.instead.table(0.95)
        words = "may change it too much at this budget"
        assert (words in result.status[1]) == bool(rows)
        known += bool(rows) or told[0]
        for row in rows:
            first, last = (float(end) for end in row["name"].split(" clipped to ")[1].split(".."))
            winsorised = np.column_stack([x[:, 0].clip(first, last), x[:, 1:]])
            about = sm.OLS(y, sm.add_constant(winsorised)).fit().params[1]
            instead.append(row["low"] <= about <= row["high"])
    assert len(covered) >= 40
    assert np.mean(covered) >= 0.9
    assert known >= 10
    assert np.mean(instead) >= 0.85


def test_bounds_that_are_ten_times_too_wide_are_no_loss():
    """20,000 records at (1, 1e-6): all is reported, the wide numbers as winsorised where records may
    exceed a limit, with intervals less than two and a half times as long, which cover.
    """
    covered = []
    reported = []
    halves = {1: [], 10: []}
    for seed in range(20):
        x, y = table(20_000, seed)
        for times, half in halves.items():
            size = np.array([5.0 * times, 2.0 * times, 0.5])
            middle = np.array([5.0, 0.0, 0.5])
            result = (
                dp.LinearRegression(
                    bounds=(middle - size, middle + size),
                    outcome=RANGE,
                    budget=dp.ApproxDP(1.0, 1e-6),
                    insecure_seed=seed,
                )
                .fit(x, y)
                .result_
            )
            low, high = result.conf_int()[1:].T
            told = result.reported[1:]
            half.append(np.where(told, (high - low) / 2, np.nan))
            if times > 1:
                reported += told.tolist()
                covered += ((low <= COEF) & (high >= COEF))[told].tolist()
                assert set(result.geometry.clipped) <= {"x1", "x2"}
                assert [bool(words) for words in result.clipped_to[1:]] == [
                    name in result.geometry.clipped for name in result.names[1:]
                ]
    assert np.mean(reported) >= 0.95
    assert np.mean(covered) >= 0.9
    longer = np.nanmedian(halves[10], axis=0) / np.nanmedian(halves[1], axis=0)
    assert (longer < 2.5).all()


@pytest.mark.parametrize("notion", ["replace-unit", "add-remove-unit"])
def test_units_and_weights(notion):
    x, y = table(6000)
    ids = np.arange(6000) // 3
    result = (
        model(neighbours=notion, most_weight=2.0)
        .fit(x, y, units=ids, weights=np.full(6000, 0.5))
        .result_
    )
    assert result.reported.all()
    assert (np.abs(result.estimate[1:] - COEF) < 4 * result.std_error[1:]).all()
    assert result.privacy.neighbours == notion


BAD = {
    "pure": (lambda: model(dp.PureDP(1.0)), dp.BudgetError, "HuberRegression"),
    "nothing": (lambda: dp.LinearRegression(bounds=BOUNDS, outcome=RANGE), dp.BudgetError, "takes budget"),
    "plan": (lambda: model(plan=dp.GeometryPlan(dp.ZCDP(1.0))), dp.BudgetError, "LinearPlan"),
    "both": (lambda: model(dp.ZCDP(1.0), plan=dp.LinearPlan(dp.ZCDP(1.0))), dp.BudgetError, "leave out budget="),
    "two neighbours": (
        lambda: model(plan=dp.LinearPlan(dp.ZCDP(1.0)), neighbours="add-remove"), dp.InputError, "its adjacency"
    ),
    "target": (lambda: model(target="median"), dp.InputError, "'penalised' or 'unpenalised'.*'ordinary' or 'robust'"),
    "tail": (lambda: model(tail="long"), dp.InputError, "'balanced', 'cautious', 'all'"),
    "robust tail": (lambda: model(target="robust", tail="all"), dp.InputError, "belongs to the target 'ordinary'"),
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
    [
        ((1, 1, 1), "7 shares"),
        ("abcdefg", "7 shares|positive"),
        (3, "7 shares"),
        ((0.2, 0.2, 0.2, 0.2, 0.2, 0.2, -0.2), "positive"),
    ],
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
