"""Whole fits of logistic regression: what they depend on, what they cover, what they say."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit import recipe
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.mechanisms.sums import Block
from dpinfer.privacy.gate import Gate, Released
from dpinfer.result.statements import REPORTED, TOO_NOISY
from dpinfer.rows.encoded import Mapped, cached
from dpinfer.rows.source import Rows
from dpinfer.schema.columns import Category, Number
from dpinfer.schema.design import Design
from helpers.handmade import Records, columns_of
from helpers.support import fit_stepped, follows

SLOPES = np.array([1.5, -1.0, 0.8])
TERMS = [Number("age", 0.0, 80.0), Number("hours", -1.0, 1.0), Category("kind", ("a", "b"), "a")]
DESIGN = Design.of_terms(TERMS)
APPROX = dp.ApproxDP(1.0, 1e-6)


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices: threads would only wait for each other."""
    with threadpool_limits(1, "blas"):
        yield


def values(n, seed=0):
    rng = np.random.default_rng(seed)
    numbers = np.clip(rng.standard_normal((n, 2)) / 3, -1, 1)
    return np.column_stack([40 + 40 * numbers[:, 0], numbers[:, 1], rng.random(n) < 0.3])


def source_of(x, seed=0, design=DESIGN):
    """Labels from a logistic model in box units, intercept -.5."""
    rows = design.rows(x)
    eta = DESIGN.rows(x)[:, 1:] * np.sqrt(DESIGN.norm2) @ SLOPES - 0.5
    return Rows.of(
        rows, np.where(np.random.default_rng(seed + 99).random(len(x)) < expit(eta), 1.0, -1.0)
    )


def plan(rho=0.5, neighbours="replace"):
    return dp.GeometryPlan(dp.ZCDP(rho), neighbours=neighbours)


def fitted(n=4000, seed=0, **options):
    return fit_stepped(source_of(values(n, seed), seed), DESIGN, plan(**options), None, seed)


TRUTH = np.array([-0.5, 1.5 / 40, -1.0, 0.8])
TRUTH[0] -= 40 * TRUTH[1]  # at age 0


def at_centre(result, truth=TRUTH):
    """The truth as the result reports it."""
    return np.concatenate([[truth[0] + result.geometry.centre @ truth[1:]], truth[1:]])


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


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_every_release_has_the_noise_its_share_and_bound_ask_for(neighbours, recorder):
    for seed in range(60):
        fitted(300, seed, neighbours=neighbours)
    booked = {
        release.step: release.share.rho for release in plan(neighbours=neighbours).releases().all
    }
    assert recorder.noises.keys() == booked.keys()
    for step, rho in booked.items():
        scale, noise = 1 / np.sqrt(2 * rho), np.concatenate(recorder.noises[step])
        assert follows(noise, stats.norm(scale=scale)), step
        # a mean square tells a wrong scale by far fewer numbers than its whole law does
        assert np.mean(noise**2) / scale**2 == pytest.approx(1, abs=4 * np.sqrt(2 / len(noise))), (
            step
        )


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_other_records_with_the_same_releases_give_the_same_result(
    neighbours, recorder, monkeypatch
):
    """Replay the releases of one fit on quite other records: the result is the same to the last
    bit.
    """
    first = fitted(3000, 4, neighbours=neighbours)
    replay = iter(recorder.releases)

    class Replay(Gate):
        def release(self, booked, source, what) -> Released:
            return next(replay)

    monkeypatch.setattr(recipe, "Gate", Replay)
    n = (
        3000 if neighbours == "replace" else 700
    )  # a private number of records has no influence either
    other = Rows.of(np.random.default_rng(8).standard_normal((n, 4)), np.ones(n))
    again = fit_stepped(other, DESIGN, plan(neighbours=neighbours), None, 4)
    assert again.to_json() == first.to_json()


def test_a_zero_step_is_released_where_nothing_is_seen(recorder):
    """All stages are carried out whatever they show: what is released does not depend on the
    records.
    """
    hopeless = fitted(200, rho=1e-6)
    assert len(recorder.releases) == len(plan().releases().all)
    assert not hopeless.reported.any()


def test_rows_are_mapped_the_same_in_memory_and_block_by_block():
    source, matrix = source_of(values(3000)), np.random.default_rng(0).standard_normal((2, 4))
    total = lambda block: (block.weights * block.labels) @ block.rows  # noqa: E731
    lazy = Mapped(source, 9 * matrix, Adjacency.REPLACE)
    assert (lazy.n, lazy.dim) == (3000, 2)
    assert isinstance(cached(lazy), Rows)
    assert np.array_equal(lazy.total(total), cached(lazy).total(total))
    assert np.allclose(
        lazy.total(total), Rows(source.block.mapped(9 * matrix, Adjacency.REPLACE)).total(total)
    )


def test_there_is_one_row_for_every_column():
    """Reported or not, in the order of the formula, at any budget."""
    for rho in (1e-5, 0.01, 0.5):
        result = fitted(rho=rho)
        assert result.names == DESIGN.names
        assert [row["name"] for row in result.table()] == list(DESIGN.names)
        assert result.geometry.columns == DESIGN.names
        interval = result.conf_int()
        assert np.array_equal(np.isfinite(interval).all(axis=1), result.reported)
        assert np.isfinite(result.estimate).all()
        assert [word == REPORTED for word in result.status] == result.reported.tolist()


def test_with_much_budget_it_is_the_ordinary_fit():
    """Estimates and HC0 errors of a Newton fit on the same records."""
    x = values(20_000)
    source = source_of(x)
    result = fit_stepped(source, DESIGN, plan(1e5), None, 1)
    table = np.column_stack([np.ones(len(x)), x])
    known = Records(table, (source.block.labels + 1) / 2, columns_of([False, False, True]))
    coef, covariance = known.ordinary()
    error = np.sqrt(np.diag(covariance))
    assert result.reported.all()
    assert (np.abs(result.estimate - coef)[1:] < 0.15 * error[1:]).all()
    assert result.std_error[1:] == pytest.approx(error[1:], rel=0.08)
    assert result.noise_share.max() < 0.1


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_errors_have_the_stated_law(neighbours):
    """60 fits, n = 5,000: z-scores have mean square near 1, so that widths which are 25 % off would
    fail.
    """
    z, covered = [], []
    for seed in range(60):
        result = fitted(5000, seed, rho=0.1, neighbours=neighbours)
        printed, truth = result.reported, at_centre(result)
        z += ((result.estimate - truth)[printed] / result.std_error[printed]).tolist()
        low, high = result.conf_int()[printed].T
        covered += ((low <= truth[printed]) & (truth[printed] <= high)).tolist()
    assert len(z) > 220
    assert 0.65 < np.mean(np.square(z)) < 1.3
    assert abs(np.mean(z)) < 0.25
    assert 0.915 < np.mean(covered) <= 0.99


def test_strong_effects_are_covered():
    """Log-odds with a deviation of 2.25, n = 10,000, (1, 1e-6): a first line is far off, and steps
    lead there.
    """
    rng = np.random.default_rng(7)
    truth = rng.standard_normal(5)
    design = Design.of_bounds((-4.0, 4.0), tuple(f"x{j}" for j in range(5)))
    truth *= 2.25 / np.linalg.norm(truth)
    covered, printed = [], []
    for seed in range(60):
        draw = np.random.default_rng([seed, 11])
        x = np.clip(draw.standard_normal((10_000, 5)), -4, 4)
        labels = np.where(draw.random(len(x)) < expit(x @ truth - 0.5), 1.0, -1.0)
        result = fit_stepped(
            Rows.of(design.rows(x), labels), design, dp.GeometryPlan(APPROX), None, seed
        )
        low, high = result.conf_int()[1:].T
        told = result.reported[1:]
        covered += ((low <= truth) & (truth <= high))[told].tolist()
        printed += told.tolist()
    assert np.mean(covered) >= 0.88
    assert np.mean(printed) > 0.9


def wide(factor):
    """Public bounds of age that are so many times too wide."""
    return Design.of_terms([Number("age", 40 - 40 * factor, 40 + 40 * factor), *TERMS[1:]])


def test_wide_bounds_leave_the_other_lines_right():
    """100 times too wide at 8,000 records: age is reported as winsorised, or not reported and known as
    clipped to the range that is named.

    Now and then noise makes a range far too wide, and age is not known as clipped either.
    """
    reported = 0
    covered, told = [], []
    design = wide(100.0)
    for seed in range(20):
        result = fit_stepped(
            source_of(values(8000, seed), seed, design), design, dp.GeometryPlan(APPROX), None, seed
        )
        low, high = result.conf_int().T
        own = f"{result.geometry.low[0]:.4g} to {result.geometry.high[0]:.4g}"
        reported += result.reported[1]
        if result.reported[1]:
            assert set(result.geometry.clipped) <= {"age"}
        else:
            known = len(result.instead) > 0
            assert own in result.status[1] if known else result.status[1] == TOO_NOISY
            assert not result.reported[0]  # a number is not reported, and with it the level
        assert result.reported[2:].all()
        covered += ((low <= TRUTH) & (high >= TRUTH))[result.reported][1:].tolist()
        rows = result.instead.table(0.95)
        told += [row["low"] <= TRUTH[1] <= row["high"] for row in rows]
        for row in rows:
            assert row["instead_of"] == "age"
            assert row["name"] == f"age clipped to {own.replace(' to ', '..')}"
    assert np.mean(covered) >= 0.88
    assert reported + len(told) >= 18
    assert np.all(told)


def test_bounds_that_are_ten_times_too_wide_are_no_loss():
    """20,000 records at (1, 1e-6): age is reported in nearly all fits, covers, and its interval is
    less than twice as long.
    """
    covered = []
    halves = {1.0: [], 10.0: []}
    for seed in range(20):
        for times, half in halves.items():
            design = wide(times)
            source = source_of(values(20_000, seed), seed, design)
            result = fit_stepped(source, design, dp.GeometryPlan(APPROX), None, seed)
            low, high = result.conf_int().T
            if result.reported[1]:
                half.append(high[1] - low[1])
                covered.append(low[1] <= TRUTH[1] <= high[1])
            assert result.reported[2:].all()
    assert len(halves[10.0]) >= 19
    assert np.mean(covered) >= 0.9
    assert np.median(halves[10.0]) < 2 * np.median(halves[1.0])


def test_bounds_that_are_a_little_wide_cost_nothing():
    plain, wider = (
        fit_stepped(source_of(values(8000), 0, wide(f)), wide(f), dp.GeometryPlan(APPROX), None, 1)
        for f in (1.0, 1.5)
    )
    assert plain.reported.all()
    assert wider.reported.all()
    assert wider.std_error == pytest.approx(plain.std_error, rel=0.3)


def test_wide_bounds_of_a_lone_column_are_not_the_end():
    """It is reported as winsorised, and covers; where noise makes a range far too wide it is not."""
    design = Design.of_terms([Number("age", -1e4, 1e4)])
    x = values(200_000, 99)
    people = Block(np.column_stack([np.ones(len(x)), x[:, 0] / 40]), source_of(x, 99).block.labels)
    alone = LogisticSteps.ordinary(people).coef[1] / 40  # without the other columns
    covered = []
    for seed in range(20):
        x = values(8000, seed)
        rows = Rows.of(design.rows(x[:, :1]), source_of(x, seed).block.labels)
        result = fit_stepped(rows, design, plan(0.5), None, seed)
        if result.reported[1]:
            assert set(result.geometry.clipped) <= {"age"}
            low, high = result.conf_int()[1]
            covered.append(low <= alone <= high)
    assert len(covered) >= 18
    assert np.mean(covered) >= 0.85


def test_units_of_a_column_change_nothing():
    """Age in months: the encoding is the same, and so is every number but for the factor."""
    x = values(4000)
    months = Design.of_terms([Number("age", 0.0, 960.0), *TERMS[1:]])
    years = fit_stepped(source_of(x), DESIGN, plan(), None, 1)
    rows = Rows.of(months.rows(x * [12, 1, 1]), source_of(x).block.labels)
    other = fit_stepped(rows, months, plan(), None, 1)
    factor = np.array([1, 1 / 12, 1, 1])
    assert other.estimate == pytest.approx(factor * years.estimate)
    assert other.conf_int() == pytest.approx(factor[:, None] * years.conf_int())
    assert other.status == years.status


def test_the_order_of_columns_is_no_matter_without_noise():
    x = values(8000)
    labels = source_of(x).block.labels
    order = [2, 0, 1]
    turned = Design.of_terms([TERMS[j] for j in order])
    first = fit_stepped(source_of(x), DESIGN, plan(1e7), None, 1)
    other = fit_stepped(Rows.of(turned.rows(x[:, order]), labels), turned, plan(1e7), None, 1)
    error = first.std_error[1:][order]
    assert (np.abs(other.estimate[1:] - first.estimate[1:][order]) < 0.05 * error).all()
    assert other.std_error[1:] == pytest.approx(error, rel=0.02)


def test_a_reference_is_no_matter_without_noise():
    """b against a is minus a against b."""
    x = values(8000)
    labels = source_of(x).block.labels
    turned = Design.of_terms([*TERMS[:2], Category("kind", ("a", "b"), "b")])
    y = x.copy()
    y[:, 2] = 1 - x[:, 2]
    first = fit_stepped(source_of(x), DESIGN, plan(1e7), None, 1)
    other = fit_stepped(Rows.of(turned.rows(y), labels), turned, plan(1e7), None, 1)
    sign = np.array([1, 1, -1])
    assert (
        np.abs(other.estimate[1:] - sign * first.estimate[1:]) < 0.05 * first.std_error[1:]
    ).all()
    assert other.std_error[1:] == pytest.approx(first.std_error[1:], rel=0.02)


def test_a_contrast_of_printed_lines_is_that_of_their_law():
    result = fitted(8000)
    vector = np.array([0.0, 10.0, 0.0, 1.0])
    told = result.contrast(vector)
    assert told.estimate == pytest.approx(vector @ result.estimate, abs=0.02 * told.std_error)
    assert told.std_error == pytest.approx(
        np.sqrt(vector @ result.error.covariance() @ vector), rel=0.02
    )


def test_a_private_number_of_records_is_not_printed():
    result = fitted(4321, neighbours="add-remove")
    assert result.model.n is None
    assert "4321" not in result.summary() + result.to_json()
    assert result.geometry.records == pytest.approx(4321, rel=0.05)
    assert result.privacy.neighbours == "add-remove"
    assert "added or removed" in result.summary()


def test_the_result_survives_json():
    result = fitted(8000)
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    for view in ("conf_int", "simultaneous", "summary"):
        assert np.array_equal(getattr(again, view)(), getattr(result, view)())
    assert str(again.table()) == str(result.table())  # a blank z is NaN, which equals nothing
    assert again.contrast([0, 1, 1, 0]) == result.contrast([0, 1, 1, 0])


def test_the_ledger_is_charged_once_and_first():
    ledger = dp.Ledger(dp.ZCDP(1.0))
    result = fit_stepped(source_of(values(1000)), DESIGN, plan(0.4), ledger)
    assert ledger.spent() == pytest.approx(0.4)
    assert result.privacy.private
    assert result.privacy.in_ledger
    with pytest.raises(dp.LedgerError):
        fit_stepped(
            SimpleNamespace(n=1000), DESIGN, plan(0.8), ledger
        )  # refused before a record is read
    assert json.loads(result.to_json())["geometry"]["kind"] == "Geometry"


def test_rows_that_cannot_be_encoded_do_not_spoil_the_geometry():
    """With half of the rows missing, lengths are those of a fit of the others."""
    table, some = values(6000), np.random.default_rng(5).random(6000) < 0.5
    whole = source_of(table)
    rows, labels = whole.block.rows, whole.block.labels
    gaps, left = (
        Rows(Block(np.where(some[:, None], rows, 0.0), labels)),
        Rows(Block(rows[some], labels[some])),
    )
    lengths = [
        np.diff(fit_stepped(s, DESIGN, plan(2.0), None, 1).conf_int())[:, 0] for s in (gaps, left)
    ]
    assert np.allclose(lengths[0], lengths[1], rtol=0.25)


def test_results_depend_on_releases_and_on_one_stored_seed():
    first, second = (fitted(3000, 1) for _ in range(2))
    assert first.error.seed == 1
    assert np.array_equal(first.simultaneous(), second.simultaneous())


def test_without_numbers_no_scales_are_released(recorder):
    design = Design.of_terms([Category("kind", ("a", "b", "c"), "a")])
    rng = np.random.default_rng(0)
    level = rng.choice(3, 5000, p=[0.5, 0.3, 0.2])
    rows = design.rows(np.column_stack([level == 1, level == 2]).astype(float))
    labels = np.where(rng.random(5000) < expit(0.6 * (level == 1) - 0.3), 1.0, -1.0)
    result = fit_stepped(Rows.of(rows, labels), design, plan(), None, 1)
    assert not any("scales" in step for step in recorder.noises)
    assert result.reported.all()


def model(**options):
    return dp.LogisticRegression(
        bounds=([0.0, -1.0, 0.0], [80.0, 1.0, 1.0]), insecure_seed=3, **options
    )


def arrays(n=3000):
    x = values(n)
    return x, (source_of(x).block.labels > 0).astype(int)


def test_targets_by_their_names():
    x, y = arrays()
    usual = model(budget=APPROX).fit(x, y).result_
    named = model(budget=APPROX, target="ordinary").fit(x, y).result_
    assert usual.model.target == "ordinary"
    assert named.to_json() == usual.to_json()
    other = model(budget=APPROX, target="asked").fit(x, y).result_
    assert other.to_json() == usual.to_json()
    with pytest.raises(dp.InputError, match=r"must be 'ordinary', not 'robust'|no target 'robust'"):
        model(budget=APPROX, target="robust").fit(x, y)


@pytest.mark.parametrize("notion", ["replace-unit", "add-remove-unit"])
def test_units_with_several_rows(notion):
    x, y = arrays(6000)
    ids = np.arange(6000) // 3
    result = model(budget=dp.ZCDP(1.0), neighbours=notion).fit(x, y, units=ids).result_
    assert result.reported.all()
    truth = at_centre(result)
    assert (np.abs(result.estimate - truth) < 4 * result.std_error).all()
    assert result.privacy.neighbours == notion
    assert (result.model.n == 2000) == (notion == "replace-unit")


def test_sampling_weights():
    """Rows that weigh twice count twice, as twice the rows would."""
    x, y = arrays(6000)
    weights = np.where(x[:, 2] > 0, 2.0, 1.0)
    result = model(budget=dp.ZCDP(2.0), most_weight=2.0).fit(x, y, weights=weights).result_
    assert result.reported.all()
    assert (np.abs(result.estimate - at_centre(result)) < 4 * result.std_error).all()
    assert result.model.weighted


def test_a_power_is_the_one_of_the_formula():
    """Columns less their middle span the same model: lines are about age and age² as they are
    written.
    """
    text = """
unit = "one person"
[columns.y]
type = "outcome"
levels = [0, 1]
[columns.age]
type = "number"
low = 0
high = 80
"""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    age = rng.uniform(0, 80, 20_000)
    truth = np.array([-2.0, 0.1, -0.001])
    y = (rng.random(len(age)) < expit(truth[0] + truth[1] * age + truth[2] * age**2)).astype(int)
    model = dp.LogisticRegression(
        "y ~ age + I(age**2)", schema=dp.Schema.parse(text), budget=dp.ZCDP(50.0), insecure_seed=1
    ).fit(pd.DataFrame({"y": y, "age": age}))
    result = model.result_
    coef, covariance = Records(
        np.column_stack([np.ones(len(age)), age, age**2]),
        y.astype(float),
        columns_of([False, False]),
    ).ordinary()
    error = np.sqrt(np.diag(covariance))
    assert result.reported[1:].all()
    assert (np.abs(result.estimate - coef)[1:] < error[1:]).all()
    assert result.std_error[1:] == pytest.approx(error[1:], rel=0.25)


CELLS = """
[columns.y]
type = "outcome"
levels = ["no", "yes"]

[columns.f]
type = "category"
levels = ["a", "b"]
reference = "a"

[columns.g]
type = "category"
levels = ["c", "d"]
reference = "c"

[columns.one]
type = "boolean"

[columns.two]
type = "boolean"
"""


@pytest.fixture
def crossed(tmp_path):
    """Two crossed factors; in the cell (b, c) nearly everybody says yes, elsewhere every second one
    does.
    """
    path = tmp_path / "schema.toml"
    path.write_text(CELLS, encoding="utf-8")
    rng = np.random.default_rng(0)
    n = 50_000
    g = rng.choice(["c", "d"], n)
    f = np.where(rng.random(n) < np.where(g == "c", 0.016, 0.5), "b", "a")
    chance = np.where((f == "b") & (g == "c"), 0.998, 0.5)
    answers = {"one": rng.random(n) < 0.05, "two": rng.random(n) < 0.04}
    table = pd.DataFrame(
        {"y": np.where(rng.random(n) < chance, "yes", "no"), "f": f, "g": g, **answers}
    )
    return dp.Schema.read(path), table


@pytest.mark.parametrize("seed", range(4))
def test_a_cell_of_interacting_levels_needs_events_of_its_own(crossed, seed):
    """Of f[b] there are thousands of events, but none of them where g is at its reference: its
    coefficient has none.
    """
    schema, table = crossed
    budget = dp.ApproxDP(1.0, 1e-6)
    result = (
        dp.LogisticRegression("y ~ f * g", schema=schema, budget=budget, insecure_seed=seed)
        .fit(table)
        .result_
    )
    words = dict(zip(result.names, result.status, strict=True))
    assert "too few events" in words["f[b]"]
    assert "too few events" in words["f[b]:g[d]"]
    assert words["g[d]"] == "reported"


def test_a_product_of_yes_and_no_is_such(crossed):
    schema, table = crossed
    budget = dp.ApproxDP(4.0, 1e-6)
    result = (
        dp.LogisticRegression("y ~ one * two", schema=schema, budget=budget, insecure_seed=1)
        .fit(table)
        .result_
    )
    assert result.reported.all()
    assert result.geometry.high[-1] == 1.0
    assert len(result.alternatives()) == 0
    assert np.all(np.abs(result.estimate) < 1)
