"""Whole fits in a private geometry: their noise, what they depend on, coverage, and hopeless data."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from rich.console import Console
from scipy import stats
from scipy.special import expit
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.cli.screen import coefficients
from dpinfer.data.changed import Mapped, kept
from dpinfer.data.columns import Category, Number
from dpinfer.data.design import Design
from dpinfer.data.source import Rows
from dpinfer.fit import recipe
from dpinfer.fit.weighted.plan import TARGETS, risk_of
from dpinfer.fit.weighted.run import Weighted
from dpinfer.maths.capped import CappedLogistic
from dpinfer.maths.risk import Risk
from dpinfer.maths.sums import Block, moment_and_score, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy import accountant
from dpinfer.privacy.gate import Gate, Released
from dpinfer.privacy.release import MASK
from dpinfer.result.statements import (
    DROPPED,
    FEW_EVENTS,
    IN_MODEL,
    IN_MODEL_FAR,
    IN_MODEL_FEW,
    LEFT_OUT,
    REPORTED,
    UNIDENTIFIED,
    left_out,
    several,
)
from support import fit_weighted, follows, weighted_risk

SLOPES = np.array([1.5, -1.0, 0.8])
TERMS = [Number("age", 0.0, 80.0), Number("hours", -1.0, 1.0), Category("kind", ("a", "b"), "a")]
DESIGN = Design.of_terms(TERMS)


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices: threads would only wait for each other."""
    with threadpool_limits(1, "blas"):
        yield


def values(n, seed=0):
    rng = np.random.default_rng(seed)
    numbers = np.clip(rng.standard_normal((n, 2)) / 3, -1, 1)
    return np.column_stack([40 + 40 * numbers[:, 0], numbers[:, 1], rng.random(n) < 0.3])


def source_of(x, seed=0, eta=None):
    """Labels from a logistic model in box units, intercept -.5."""
    rows = DESIGN.rows(x)
    eta = rows[:, 1:] * np.sqrt(DESIGN.norm2) @ SLOPES - 0.5 if eta is None else eta
    return Rows.of(rows, np.where(np.random.default_rng(seed + 99).random(len(x)) < expit(eta), 1.0, -1.0))


def plan(rho=0.5, target="weighted", neighbours="replace"):
    return dp.GeometryPlan(dp.ZCDP(rho), target, neighbours)


def test_the_facts_of_a_design():
    x = values(50)
    rows = DESIGN.rows(x) * np.sqrt(DESIGN.norm2)
    assert np.allclose(DESIGN.middle[1:] + DESIGN.half[1:] * rows[:, 1:], x)
    assert DESIGN.columns.dummy.tolist() == [False, False, False, True]
    assert DESIGN.columns.group.tolist() == [-1, 0, 1, 2]
    assert DESIGN.norm2 == pytest.approx(DESIGN.columns.norm2)


def test_rows_are_mapped_the_same_in_memory_and_block_by_block():
    source, matrix = source_of(values(3000)), np.random.default_rng(0).standard_normal((2, 4))
    total = lambda block: (block.weights * block.labels) @ block.rows  # noqa: E731
    lazy = Mapped(source, 9 * matrix, Neighbours.REPLACE)
    assert (lazy.n, lazy.dim) == (3000, 2)
    assert isinstance(kept(lazy), Rows)
    assert np.array_equal(lazy.total(total), kept(lazy).total(total))
    assert np.allclose(lazy.total(total), Rows(source.block.mapped(9 * matrix, Neighbours.REPLACE)).total(total))


class Recorder(Gate):
    """A gate that remembers its releases and their noise."""

    releases: list
    noises: dict

    def release(self, booked, source, what):
        released = super().release(booked, source, what)
        if not isinstance(what, Risk):
            self.noises.setdefault(booked.step, []).append(released.value - source.total(what.of_block))
        self.releases.append(released)
        return released


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_noise_of_whole_fits(neighbours, monkeypatch):
    """Every sum carries the noise its share and its bound ask for; the minimum's is tested with the risk."""
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "releases", [], raising=False)
    monkeypatch.setattr(Recorder, "noises", {}, raising=False)
    source, rho = source_of(values(400)), 0.5
    for seed in range(200):
        fit_weighted(source, DESIGN, plan(rho, neighbours=neighbours), None, seed)
    bounds = {
        "replace": {"crude moments": np.sqrt(2), "moments": np.sqrt(2 + 1 / 2 + 1 / 32), "matrices": 1.0441 * 2**0.5},
        "add-remove": {"crude moments": 1.0, "moments": np.sqrt(1.25), "matrices": 1.0441},
    }[neighbours]
    shares = {"crude moments": 0.05, "moments": 0.09, "matrices": 0.16}
    for step, bound in bounds.items():
        scale, noise = bound / np.sqrt(2 * rho * shares[step]), np.concatenate(Recorder.noises[step])
        assert follows(noise, stats.norm(scale=scale))
        assert not follows(noise, stats.norm(scale=1.2 * scale))
        assert not follows(noise, stats.norm(scale=0.8 * scale))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_guarantee_released_values_only(neighbours, monkeypatch):
    """Replay the releases of one fit on quite other records: the result is the same to the last bit."""
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "releases", [], raising=False)
    monkeypatch.setattr(Recorder, "noises", {}, raising=False)
    first = fit_weighted(source_of(values(3000)), DESIGN, plan(neighbours=neighbours), None, 4)
    replay = iter(Recorder.releases)

    class Replay(Gate):
        def release(self, booked, source, what) -> Released:
            return next(replay)

    monkeypatch.setattr(recipe, "Gate", Replay)
    n = 3000 if neighbours == "replace" else 700  # a private number of records has no influence either
    other = Rows.of(np.random.default_rng(8).standard_normal((n, 4)), np.ones(n))
    again = fit_weighted(other, DESIGN, plan(neighbours=neighbours), None, 4)
    assert again.to_json() == first.to_json()


def test_a_private_number_of_records_is_not_printed():
    result = fit_weighted(source_of(values(4321)), DESIGN, plan(neighbours="add-remove"), None, 4)
    assert result.model.n is None
    assert "4321" not in result.summary() + result.to_json()
    assert "(noisy)" in result.summary()
    assert result.geometry.records == pytest.approx(4321, rel=0.05)
    assert result.privacy.neighbours == "add-remove"
    assert "added or removed" in result.summary()


TRUTH = np.array([-0.5, 1.5 / 40, -1.0, 0.8])
TRUTH[0] -= 40 * TRUTH[1]  # at age 0


def at_centre(result):
    """The truth as the result reports it."""
    return np.concatenate([[TRUTH[0] + result.geometry.centre @ TRUTH[1:]], TRUTH[1:]])


@pytest.mark.parametrize("target", ["weighted", "unweighted"])
def test_errors_have_the_stated_law(target):
    """60 fits, n = 5,000: z-scores have mean square near 1, so widths that are 25 % off would fail."""
    z, covered = [], []
    for seed in range(60):
        result = fit_weighted(source_of(values(5000, seed), seed), DESIGN, plan(0.1, target), None, seed)
        kept, truth = result.reported, at_centre(result)
        z += ((result.estimate - truth)[kept] / result.std_error[kept]).tolist()
        low, high = result.conf_int()[kept].T
        covered += ((low <= truth[kept]) & (truth[kept] <= high)).tolist()
    assert len(z) > 220
    assert 0.72 < np.mean(np.square(z)) < 1.3
    assert abs(np.mean(z)) < 0.25
    assert 0.915 < np.mean(covered) < 0.985


def test_the_ridge_leaves_no_bias():
    """Strong effects and a small budget: the debiasing step is as long as a standard error, and takes the bias back."""
    slopes, z, steps = np.array([5.0, -4.0, 3.0]), [], []
    for seed in range(30):
        x = values(5000, seed)
        eta = DESIGN.rows(x)[:, 1:] * np.sqrt(DESIGN.norm2) @ slopes - 0.5
        result = fit_weighted(source_of(x, seed, eta), DESIGN, plan(0.1), None, seed)
        truth = slopes / DESIGN.half[1:]
        z.append((result.estimate[1:] - truth) / result.std_error[1:])
        if result.reported.all():
            steps.append(
                result.error.above[1:3] * DESIGN.half[1:3] / [0.3, 0.3]
            )  # half the squared step, in deviations
    assert len(steps) > 20
    assert (np.mean(steps, axis=0) > 0.03).all()
    assert (np.abs(np.mean(z, axis=0)) < 0.6).all()


def test_the_result_is_whole_and_survives_json():
    result = fit_weighted(source_of(values(20_000)), DESIGN, plan(2.0), None, 1)
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert len(result.to_json()) < 20_000
    for view in ("conf_int", "simultaneous", "summary", "table"):
        assert np.array_equal(getattr(again, view)(), getattr(result, view)())
    assert again.contrast([0, 1, 1, 0]) == result.contrast([0, 1, 1, 0])
    assert again.wald([[0, 1, 0, 0], [0, 0, 1, 0]]).p_value < 0.01
    assert ((result.noise_share > 0) & (result.noise_share < 0.5)).all()
    assert result.geometry.full_model_reading == (True,) * 4
    assert result.privacy.budget.rho == pytest.approx(2.0)


def test_the_released_weights_are_those_of_the_fit():
    """Recomputed from the result in original units; with the unweighted target nobody counts less."""
    x = values(5000)
    x[:, 1] = np.clip((x[:, 0] - 40) / 40 + x[:, 1] / 4, -1, 1)
    x[:40, 0], x[:40, 1] = 80.0, -1.0  # against the correlation
    source = source_of(x)
    weighted, unweighted = (fit_weighted(source, DESIGN, plan(1.0, t), None, 1) for t in ("weighted", "unweighted"))
    assert np.allclose(unweighted.geometry.row_weights(x), 1)
    assert "every record counts fully" in " ".join(unweighted.summary().split())
    weights = weighted.geometry.row_weights(x)
    assert (weights[:40] < 0.8).all()
    assert 0.7 < np.mean(weights == 1) < 1
    assert (weights > 0).all()
    assert "the weight min(1" in weighted.model.estimand()


def aside(x, labels, rho, seed=0, bounds=(-1.0, 1.0), neighbours="replace"):
    design = Design.of_bounds(bounds, tuple(f"x{j + 1}" for j in range(x.shape[1])))
    result = fit_weighted(Rows.of(design.rows(x), labels), design, plan(rho, neighbours=neighbours), None, seed)
    interval = result.conf_int()
    assert not np.isnan(interval).any()
    assert np.array_equal(np.isfinite(interval[:, 0]), result.reported)
    assert np.isfinite(result.estimate).all()
    assert dp.FitResult.from_json(result.to_json()).to_json() == result.to_json()
    return result


def columns(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    x = np.clip(rng.standard_normal((n, d)) / 3, -1, 1)
    return x, np.where(rng.random(n) < expit(x @ np.linspace(-2, 2, d)), 1.0, -1.0)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("n", [200, 20_000])
@pytest.mark.parametrize("rho", [0.02, 0.5, 20.0])
@pytest.mark.parametrize("label", [1.0, -1.0])
def test_one_class_is_set_aside_as_a_whole(n, rho, label, neighbours):
    x, _ = columns(n)
    for seed in range(3):
        result = aside(x, np.full(n, label), rho, seed, neighbours=neighbours)
        assert not result.reported.any()
        assert set(result.status) <= {DROPPED, UNIDENTIFIED}
        assert result.simultaneous().tolist() == [[-np.inf, np.inf]] * 4
        assert np.isnan([row["estimate"] for row in result.table()]).all()


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_ten_events_in_twenty_thousand_are_not_enough(neighbours):
    x, _ = columns(20_000)
    for seed in range(10):
        assert not aside(
            x, np.where(np.arange(20_000) < 10, 1.0, -1.0), 0.2, seed, neighbours=neighbours
        ).reported.any()


@pytest.mark.parametrize("rho", [0.0273, 0.1875])
def test_a_constant_column_is_never_reported(rho):
    """The first release gives it some variance; the second does not, and it seldom enters the fit."""
    x, y = columns(20_000)
    found = [aside(np.column_stack([x, np.full(len(x), 0.3)]), y, rho, seed) for seed in range(60)]
    assert not any(result.reported[4] for result in found)
    assert np.mean(["x4" in result.geometry.columns for result in found]) < 0.1
    assert all(result.reported[:4].all() for result in found)


@pytest.mark.parametrize(("n", "rho"), [(1000, 0.5), (20_000, 0.0175)])
def test_good_data_are_not_set_aside(n, rho):
    x, y = columns(n)
    assert all(aside(x, y, rho, seed).reported.all() for seed in range(10))


def test_a_hopeless_budget_sets_everything_aside():
    x, y = columns(200, 20)
    for seed in range(5):
        assert not aside(x, y, 1e-4, seed).reported.any()


@pytest.mark.parametrize("rho", [0.05, 2.0])
def test_collinear_and_constant_columns(rho):
    x, y = columns(20_000)
    for seed in range(3):
        twice = aside(np.column_stack([x, x[:, 0]]), y, rho, seed)
        assert twice.reported[1] + twice.reported[4] == 1
        assert twice.reported[[0, 2, 3]].all()
        lost = 1 if twice.reported[4] else 4
        kept = 5 - lost
        assert twice.geometry.full_model_reading[kept] is False
        low, high = twice.conf_int(0.999)[kept]
        assert low < -2 < high  # the coefficient of the model without its twin
        constant = aside(np.column_stack([x, np.full(len(x), 0.3)]), y, rho, seed)
        assert constant.reported.tolist() == [True] * 4 + [False]
        assert constant.status[4].startswith((DROPPED, LEFT_OUT))


@pytest.mark.parametrize("rho", [0.02, 0.2, 2.0, 20.0])
def test_separated_columns(rho):
    """All records of a level with one label, or a number that separates: the coefficient is infinite, no interval."""
    rng = np.random.default_rng(1)
    x, y = columns(20_000)
    level = np.where((y > 0) & (rng.random(len(y)) < 0.1), 1.0, -1.0)  # a yes and no between the bounds
    for seed in range(3):
        result = aside(np.column_stack([x, level]), y, rho, seed)
        assert result.reported[1:].tolist() == [True] * 3 + [False]
        assert (
            result.reported[0] or "x4" in result.geometry.in_model
        )  # where the level stays, the intercept may be open
        assert not aside(x, np.where(x[:, 0] > 0, 1.0, -1.0), rho, seed).reported[1]


def test_many_columns_few_records_and_absurd_bounds():
    x, y = columns(1000, 100)
    assert not aside(x, y, 0.1).reported[1:].any()
    x, y = columns(5000)
    wide = aside(x, y, 1.0, bounds=(-1e6, 1e6))
    assert wide.reported.tolist() == [True, False, False, False]
    assert aside(x[:, :1], y, 1.0).reported.all()
    assert aside(x[:1], y[:1], 1.0).reported.sum() == 0
    assert aside(np.full((500, 2), np.nan), np.full(500, np.nan), 1.0).reported.sum() == 0


def test_words_for_what_is_set_aside():
    words = {DROPPED, LEFT_OUT, IN_MODEL, IN_MODEL_FAR, IN_MODEL_FEW, UNIDENTIFIED, FEW_EVENTS, REPORTED}
    assert len(words) == 8
    assert left_out(DROPPED, None, []) == DROPPED
    assert left_out(LEFT_OUT, None, ["a", "b"]) == f"{LEFT_OUT}; its effect may be in a, b"
    assert left_out(LEFT_OUT, "a", ["b"]) == "left out: cannot be told apart from a at this budget"
    assert several(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_what_is_in_the_model_and_what_is_not():
    """Every column is in the model or left out; a status says which, and partners are named on both sides."""
    x, y = columns(20_000)
    names = ("(Intercept)", "x1", "x2", "x3", "x4")
    for seed in range(5):
        result = aside(np.column_stack([x, x[:, 0]]), y, 0.05, seed)
        geometry, lost = result.geometry, "x1" if result.reported[4] else "x4"
        kept = "x4" if lost == "x1" else "x1"
        assert sorted(geometry.in_model + geometry.left_out) == sorted(names)
        assert geometry.left_out == (lost,)
        assert set(geometry.dropped) <= {lost}
        assert result.status[names.index(lost)] == f"left out: cannot be told apart from {kept} at this budget"
        assert geometry.partners[names.index(kept)] == (lost,)
        readings = zip(result.reported, geometry.partners, strict=True)
        assert geometry.full_model_reading == tuple(bool(r) and not p for r, p in readings)
        assert f"{kept}: of the model without {lost};" in " ".join(result.summary().split())
        assert result.estimate[names.index(lost)] == 0


def test_what_a_line_says_depends_on_in_every_view():
    """A twin is left out: in every view the other line has the sign † and a note that names it; others have neither."""
    x, y = columns(20_000)
    result = aside(np.column_stack([x, x[:, 0]]), y, 0.05, 0)
    kept, lost = ("x4", "x1") if result.reported[4] else ("x1", "x4")
    note = f"† {kept}: of the model without {lost}; with it, quite another value is possible."
    assert result.notes() == [note]
    assert {row["name"]: row["partners"] for row in result.table() if row["partners"]} == {kept: lost}
    assert result.to_frame().loc[kept, "partners"] == lost
    screen = Console(width=100, file=io.StringIO())
    screen.print(coefficients(result, 0.95))
    views = {
        "summary": result.summary(),
        "html": dp.report.html(result),
        "markdown": dp.report.markdown(result),
        "screen": screen.file.getvalue(),
        "figure": " ".join(label.get_text() for label in dp.plot.forest(result).axes[0].get_yticklabels()),
    }
    for name, view in views.items():
        assert view.count(f"{kept} †") >= 1, name
        assert f"{lost} †" not in view, name
        assert "x2 †" not in view, name
    for name in ("summary", "html", "markdown"):
        assert note in " ".join(views[name].split()), name
    assert note in " ".join(dp.plot.forest(result).get_supxlabel().split())
    assert ",status,partners," in dp.report.csv(result).splitlines()[0]
    assert "hold as they stand" not in views["html"]


def test_a_contrast_with_a_twin_names_what_is_identified():
    x, y = columns(20_000)
    for sign, word in ((1.0, "+"), (-1.0, "-")):
        result = aside(np.column_stack([x, sign * x[:, 0]]), y, 0.05, 0)
        kept, lost = ("x4", "x1") if result.reported[4] else ("x1", "x4")
        ((left, right, slope),) = result.geometry.twins
        assert (left, right, slope) == (lost, kept, pytest.approx(sign, rel=0.3))
        with pytest.raises(
            dp.InputError, match=f"cannot be told apart from {kept}: only {kept} [{word}] .*{lost} is iden"
        ):
            result.contrast([0, 1, 0, 0, -sign])
        assert result.contrast([0, 0, 1, -1, 0]).std_error > 0
        alone = np.zeros(5)
        alone[result.names.index(right)] = 1.0
        both = alone.copy()
        both[result.names.index(left)] = slope
        assert result.contrast(both) == result.contrast(alone)  # the one that is identified
        low, high = result.conf_int(0.999)[result.names.index(kept)]
        assert low < (-2 if kept == "x1" else -2 * sign) < high  # x1 + s x4 on this line, as its message says


def test_the_advice_is_about_public_facts():
    """Too many columns for the budget and the number of records; more of either, and nothing is said."""
    few = Weighted(DESIGN, dp.GeometryPlan(dp.ApproxDP(1.0, 1e-6)))
    assert few.advice(20_000) == ""
    assert few.advice(1000).startswith("4 coefficients are more than this budget carries at 1,000 records")
    many = Design.of_bounds((-1.0, 1.0), tuple(f"x{j}" for j in range(200)))
    assert Weighted(many, dp.GeometryPlan(dp.ApproxDP(1.0, 1e-6))).advice(20_000)
    assert not Weighted(many, dp.GeometryPlan(dp.ZCDP(20.0))).advice(20_000)
    strengths = [dp.GeometryPlan(dp.ZCDP(0.1), target).strength(DESIGN.columns, 5000) for target in TARGETS]
    assert strengths[0] >= strengths[1]


def test_plans():
    approx = dp.GeometryPlan(dp.ApproxDP(1.0, 1e-6))
    assert approx.promise.epsilon == pytest.approx(1.0, rel=1e-6)
    assert [event.step for event in approx.releases()] == ["crude moments", "moments", "estimate", "matrices"]
    assert approx.cost.rho > 1.1 * dp.ApproxDP(1.0, 1e-6).zcdp().rho
    halves = plan(0.3).scales(), plan(0.3, neighbours="add-remove").scales()
    assert halves[1].gradient == pytest.approx(halves[0].gradient / 2)
    assert halves[1].ridge == halves[0].ridge
    for budget in (dp.PureDP(1.0), dp.NoPrivacy(), 1.0):
        with pytest.raises(dp.BudgetError, match="rho"):
            dp.GeometryPlan(budget)
    for wrong in ({"target": "x"}, {"neighbours": "x"}, {"draws": 1.5}, {"shares": (1, 2)}):
        with pytest.raises((dp.InputError, dp.BudgetError)):
            dp.GeometryPlan(dp.ZCDP(1.0), **wrong)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("budget", [dp.ApproxDP(1.0, 1e-6), dp.ApproxDP(0.3, 1e-8), dp.ApproxDP(4.0, 1e-5)], ids=str)
def test_guarantee_geometry_composition(budget, neighbours):
    """The noise of the four releases costs ε at δ and hardly less: 5 % less noise is too little, by dp-accounting."""
    scales = dp.GeometryPlan(budget, neighbours=neighbours).scales()
    moved = 1.0 if neighbours == "add-remove" else 2.0
    bounds = [moment(Neighbours(neighbours)) for moment in (second_moment, moment_and_score)]
    stack = weighted_risk(scales.ridge, np.zeros(2), 1.0, neighbours, CappedLogistic()).stacked_sum(np.zeros(2))
    multipliers = [
        scales.crude / bounds[0].bound,
        scales.moments / bounds[1].bound,
        0.7 * scales.score_cov / stack.bound,
    ]
    for factor, holds in ((1.0, True), (0.95, False)):
        accountant = PLDAccountant(value_discretization_interval=1e-4 * budget.epsilon)
        for multiplier in (scales.gradient / moved, *multipliers):  # without the estimate's curvature, a few per cent
            accountant.compose(GaussianDpEvent(factor * multiplier))
        assert (accountant.get_epsilon(budget.delta) <= budget.epsilon * 1.002) == holds


def test_the_ledger_is_charged_once_and_first():
    ledger = dp.Ledger(dp.ZCDP(1.0))
    result = fit_weighted(source_of(values(1000)), DESIGN, plan(0.4), ledger)
    assert ledger.spent() == pytest.approx(0.4)
    assert result.privacy.private
    assert result.privacy.booked
    with pytest.raises(dp.LedgerError):
        fit_weighted(SimpleNamespace(n=1000), DESIGN, plan(0.8), ledger)  # refused before a record is read
    assert json.loads(result.to_json())["geometry"]["kind"] == "Geometry"


def test_rows_that_cannot_be_encoded_do_not_spoil_the_geometry():
    """With half of the rows missing, lengths are those of a fit of the others."""
    table, some = values(6000), np.random.default_rng(5).random(6000) < 0.5
    whole = source_of(table)
    rows, labels = whole.block.rows, whole.block.labels
    gaps, left = Rows(Block(np.where(some[:, None], rows, 0.0), labels)), Rows(Block(rows[some], labels[some]))
    lengths = [np.diff(fit_weighted(s, DESIGN, plan(2.0), None, 1).conf_int())[:, 0] for s in (gaps, left)]
    assert np.allclose(lengths[0], lengths[1], rtol=0.25)


def test_results_depend_on_releases_and_on_one_stored_seed():
    """Without a seed of its own a result draws one; it is part of the result and decides its bands."""
    first, second = (fit_weighted(source_of(values(3000)), DESIGN, plan(0.3), None, seed) for seed in (1, 1))
    assert first.error.seed == 1
    assert np.array_equal(first.simultaneous(), second.simultaneous())
    again = dp.FitResult.from_json(first.to_json())
    assert np.array_equal(again.simultaneous(), first.simultaneous())


def test_a_private_number_of_records_stays_private(monkeypatch):
    """Under add-remove the solver is given the most that the released n allows for."""
    seen = []
    honest = Gate.release

    def watch(self, booked, source, what):
        seen.extend([what.n] if isinstance(what, Risk) else [])
        return honest(self, booked, source, what)

    monkeypatch.setattr(Gate, "release", watch)
    result = fit_weighted(source_of(values(3000)), DESIGN, plan(0.3, neighbours="add-remove"), None, 1)
    scales = plan(0.3, neighbours="add-remove").scales()
    assert seen == [pytest.approx(result.geometry.records + 40 * scales.crude * DESIGN.norm2)]
    assert seen[0] != 3000
    assert "3000" not in result.summary()
    for view in (dp.report.html(result), dp.report.markdown(result)):
        assert "(noisy)" in view


def test_what_is_left_out_may_shrink_the_others():
    """A logistic coefficient is not collapsible: with a column dropped, large sharp coefficients lose their reading."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(-1, 1, (30_000, 2)), rng.standard_normal(30_000) / 1e4])
    y = rng.random(30_000) < expit(1.5 * x[:, 0] + x[:, 1] + 1.5 * 1e4 * x[:, 2])
    design = Design.of_bounds((-1.0, 1.0), ("a", "b", "wide"))
    result = fit_weighted(Rows.of(design.rows(x), np.where(y, 1.0, -1.0)), design, plan(1.0), None, 0)
    assert result.geometry.dropped == ("wide",)
    assert result.geometry.full_model_reading[1:3] == (False, False)
    assert not result.conf_int()[1, 0] <= 1.5 <= result.conf_int()[1, 1]


@pytest.mark.parametrize("budget", [dp.ZCDP(0.3), dp.ApproxDP(1.0, 1e-6), dp.ApproxDP(4.0, 1e-5)], ids=str)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_releases_spend_the_budget_and_no_more(budget, neighbours):
    plan = dp.GeometryPlan(budget, neighbours=neighbours)
    most = accountant.limit(budget)
    assert 0.999 * most < accountant.spent(budget, plan.releases()) <= most * (1 + 1e-9)
    risk = risk_of(plan.loss, plan.releases()[2].share, Neighbours(neighbours))
    assert plan.releases()[2].objective.cost() <= plan.releases()[2].share.rho * (1 + 1e-12)
    assert plan.scales().gradient == pytest.approx(risk.perturbation_scale((1 - MASK) * plan.releases()[2].share.rho))
