"""Studies of units: their rows are drawn together, and what is stated is what other software finds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from statsmodels.api import GLM, WLS, families

import dpinfer as dp
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.noiseless import least_squares
from dpinfer.mechanisms.sums import Block
from dpinfer.rows.source import Rows
from dpinfer.simulate.estimands import stated_estimand
from dpinfer.simulate.population import Population
from dpinfer.simulate.study import trial_of
from helpers import people

RNG = np.random.default_rng(0)
UNITS = 1500
SIZES = RNG.integers(1, 5, UNITS)
IDS = RNG.permutation(np.repeat(np.arange(UNITS), SIZES))
N = len(IDS)
X = np.column_stack([RNG.standard_normal(UNITS)[IDS], RNG.standard_normal(N)]).clip(-3, 3)
Y = (RNG.random(N) < expit(-0.3 + X @ [0.6, -0.4] + RNG.standard_normal(UNITS)[IDS])).astype(int)
SCORE = X @ [0.6, -0.4] + RNG.standard_normal(UNITS)[IDS] + RNG.standard_normal(N)
OMEGA = RNG.uniform(0.5, 2, N)
BOUNDS = ([-3.0, -3.0], [3.0, 3.0])


def model(budget=None, **options):
    budget = dp.ZCDP(5.0) if budget is None else budget
    return dp.LogisticRegression(bounds=BOUNDS, budget=budget, insecure_seed=1, **options)


def population(rows=1.0, weights=None):
    plain = Rows.of(X / 10, 2.0 * Y - 1)
    return Population.of_records(plain.counted(rows, IDS, weights))


def units_of(block):
    ends = np.append(block.starts[1:], len(block))
    return [
        block.rows[a:b].tobytes() + block.labels[a:b].tobytes()
        for a, b in zip(block.starts, ends, strict=True)
    ]


def test_a_replicate_has_whole_units():
    people = population()
    known = set(units_of(people.records.block))
    blocks = [people.sample(3, replicate).block for replicate in range(200)]
    for block in blocks[:3]:
        found = units_of(block)
        assert len(found) == UNITS
        assert set(found) <= known
        assert len(set(found)) / UNITS == pytest.approx(1 - np.exp(-1), abs=0.04)  # drawn at all
        assert np.allclose(np.add.reduceat(block.shares, block.starts), 1, atol=1e-5)
    numbers = [len(block) for block in blocks]
    assert abs(np.mean(numbers) - N) < 4 * np.std(SIZES) * np.sqrt(UNITS / 200)
    assert np.std(numbers) == pytest.approx(np.std(SIZES) * np.sqrt(UNITS), rel=0.2)


def test_a_replicate_of_weighted_rows():
    rows = Rows.of(X / 10, 2.0 * Y - 1).counted(2.0, None, OMEGA)
    people = Population.of_records(rows)
    block = people.sample(0, 0).block
    assert people.n == len(block) == N
    assert not people.equally_counted
    of_row = {row.tobytes(): share for row, share in zip(people.rows, people.shares, strict=True)}
    assert all(
        of_row[row.tobytes()] == share for row, share in zip(block.rows, block.shares, strict=True)
    )


@pytest.mark.parametrize("rows", ["average"])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_asked_and_stated_are_those_of_statsmodels(rows, weighted):
    """The logistic fit with shares as frequency weights, and cluster-robust errors; stated, with
    w(x) on top.
    """
    options = {"most_weight": 4.0} if weighted else {"rows": rows}
    asked = model(**options)
    data = (X, Y, IDS, OMEGA if weighted else None)
    result = asked.fit(*data).result_
    design, pending = asked.read(*data)
    block = pending.rows().block
    people = Block(
        block.rows * np.sqrt(design.norm2), block.labels, block.shares, block.shares, block.starts
    )
    plain_fit = LogisticSteps.ordinary(people)
    about = plain_fit.in_units(design, result.geometry.centre)
    omega = OMEGA if weighted else np.ones(N)
    most = 4.0 if weighted else 1.0
    shares = omega / np.maximum(most, np.bincount(IDS, omega))[IDS]
    raw = np.column_stack([np.ones(N), X])
    plain = GLM(Y, raw, family=families.Binomial(), freq_weights=shares).fit()
    assert np.allclose(about.coef[1:], plain.params[1:], rtol=1e-4)
    assert about.coef[0] == pytest.approx(
        np.array([1.0, *result.geometry.centre]) @ plain.params, rel=1e-3, abs=1e-5
    )
    errors = clustered(raw, shares * (Y - expit(raw @ plain.params)), plain)
    assert np.allclose(about.std_error[1:], errors[1:], rtol=1e-3)
    # at this budget every row counts fully: a smaller largest influence gives rows their weights
    geometry = replace(result.geometry, max_influence=0.2 * result.geometry.max_influence)
    seen = shares * geometry.row_weights(X)
    assert seen.sum() < 0.99 * shares.sum()
    other = GLM(Y, raw, family=families.Binomial(), freq_weights=seen).fit()
    found = stated_estimand(replace(result, geometry=geometry), design, people, plain_fit)
    assert np.allclose(found.coef[1:], other.params[1:], rtol=1e-3)


def clustered(raw, factors, plain):
    """CR1, written out."""
    scores = np.column_stack([np.bincount(IDS, column * factors) for column in raw.T])
    bread = plain.normalized_cov_params
    return np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread) * UNITS / (UNITS - 1))


def test_least_squares_of_units_is_that_of_statsmodels():
    order = np.argsort(IDS, kind="stable")
    starts = np.cumsum(SIZES) - SIZES
    raw, shares = np.column_stack([np.ones(N), X]), 1 / SIZES[IDS]
    plain = WLS(SCORE, raw, weights=shares).fit()
    found = least_squares(raw[order], SCORE[order], shares[order], starts)
    assert found.coef == pytest.approx(plain.params, rel=1e-4, abs=1e-5)
    errors = clustered(raw, shares * (SCORE - raw @ plain.params), plain)
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx(errors, rel=1e-3)
    by_row = np.sqrt(np.diag(least_squares(raw[order], SCORE[order], shares[order]).covariance))
    assert by_row[1] < 0.9 * errors[1]  # the covariate of the unit


def study(budget=None, replicates=96, **options):
    data = {name: options.pop(name) for name in ("units", "weights", "workers") if name in options}
    return dp.simulate.coverage(model(budget, **options), X, Y, replicates=replicates, **data)


def test_intervals_of_units_cover():
    found = study(units=IDS)
    assert found.setting.startswith("1500 units")
    assert np.all(found.reported > 0.9)
    assert np.all(np.abs(found.coverage - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 96))
    ratio = found.length / found.nonprivate_length
    assert np.all((ratio > 0.97) & (ratio < 1.2))


def test_rows_taken_for_independent_do_not_cover():
    """The same bootstrap of units, and a fit that does not know of them: the covariate of the unit
    is missed.
    """
    asked = model(dp.ZCDP(50.0))
    design, pending = asked.read(X, Y)
    people = population_of(pending)
    trial = trial_of(asked.recipe(design, N), people, 0)
    blind = trial.tally(range(64), 0.95, nonprivate=True)
    seen = study(dp.ZCDP(50.0), 64, units=IDS)
    assert blind.covered[1] / blind.reported[1] < 0.9 < seen.coverage[1]


def population_of(pending):
    """Units are drawn, but every row counts fully and on its own."""

    class Blind(Population):
        def sample(self, seed, replicate):
            drawn = super().sample(seed, replicate).block
            return Rows(Block(drawn.rows, drawn.labels))

    block = pending.rows().counted(1.0, IDS).block
    return Blind(block.rows, block.labels, np.ones(len(block)), None, 1.0, block.starts)


@pytest.mark.parametrize("target", ["penalised", "unpenalised"])
@pytest.mark.parametrize("budget", [dp.PureDP(50.0), dp.ZCDP(50.0)], ids=["pure", "zcdp"])
def test_penalised_fits_of_units_cover(budget, target):
    """By the product itself, each against the minimum on the population."""
    options = {"penalty": 0.01} if target == "penalised" else {}
    found = study(budget, 48, units=IDS, target=target, **options)
    assert "1500 units" in found.setting
    assert np.all(found.coverage > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 48))
    assert np.all(np.abs(found.length / found.nonprivate_length - 1) < 0.25)
    if target == "unpenalised":
        shares = 1 / SIZES[IDS]
        plain = GLM(
            Y, np.column_stack([np.ones(N), X]), family=families.Binomial(), freq_weights=shares
        ).fit()
        assert found.target == pytest.approx(plain.params, rel=1e-3, abs=1e-4)


def test_weights_alone_and_with_units():
    rows = study(weights=OMEGA, most_weight=2.0, replicates=32)
    both = study(weights=OMEGA, units=IDS, most_weight=8.0, replicates=32)
    assert rows.setting.startswith(f"n = {N}")
    assert np.all(rows.coverage > 0.8)
    assert np.all(both.coverage > 0.8)
    assert both.length[1] > rows.length[1]


def test_numbers_depend_on_the_seed_alone_and_checkpoints_on_the_units():
    once, again = (
        study(units=IDS, replicates=16, workers=1),
        study(units=IDS, replicates=16, workers=2),
    )
    assert once.to_json() == again.to_json()
    prints = set()
    for rows, weights in ((1.0, None), (2.0, None), (1.0, OMEGA)):
        asked = model()
        design, _ = asked.read(X, Y, IDS)
        prints.add(
            trial_of(asked.recipe(design, UNITS), population(rows, weights), 0).fingerprint()
        )
    moved = population()
    other = Population(
        moved.rows, moved.labels, moved.weights, None, moved.shares, moved.starts + 1
    )
    prints.add(trial_of(asked.recipe(design, UNITS), other, 0).fingerprint())
    assert len(prints) == 4


@pytest.mark.parametrize("options", [{"units": IDS}, {"weights": OMEGA}], ids=["units", "weights"])
def test_units_come_with_a_model(options):
    with pytest.raises(dp.InputError, match="give a model first"):
        dp.simulate.coverage(X / 10, 2.0 * Y - 1, budget=dp.ZCDP(1.0), penalty=0.1, **options)


def test_a_study_of_a_table_takes_the_unit_from_its_schema():
    """By schema and formula as by a model: persons are drawn, and the number of rows plays no part."""
    asked = {"budget": dp.ZCDP(0.5), "replicates": 4, "seed": 2}
    data, known = people.table(), people.schema()
    study = dp.simulate.coverage(data, schema=known, formula="y ~ a + b", **asked)
    model = dp.LogisticRegression("y ~ a + b", schema=known, budget=dp.ZCDP(0.5))
    again = dp.simulate.coverage(model, data, replicates=4, seed=2)
    assert np.array_equal(study.length, again.length)
    assert study.setting.startswith(f"{people.PERSONS} units")
