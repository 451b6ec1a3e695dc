"""Fits in which every row counts: the mean number of rows, units of any size, and what is told of them."""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.unit_rows import mean_rows
from dpinfer.mechanisms.unit_sums import unit_row_counts
from dpinfer.rows.encoded import RowsUpTo, every_row
from dpinfer.rows.source import Rows
from helpers import people

UNITS = 800
NOTION = Adjacency.REPLACE_UNIT


def counts_of(sizes):
    """The histogram of numbers of rows."""
    rows = np.full((sum(sizes), 2), 0.5)
    ids = np.repeat(np.arange(len(sizes)), sizes)
    source = Rows.of(rows, np.ones(len(rows))).counted(1.0, ids)
    return source.total(unit_row_counts(NOTION).of_block)


@pytest.mark.parametrize(
    ("sizes", "mean"),
    [([1] * 500, 1.0), ([3] * 500, 3.0), ([1] * 300 + [4] * 300, 2.75), ([2000] * 600, 1791.5)],
)
def test_the_mean_number_of_rows_is_that_of_the_bins(sizes, mean):
    """Of a bin the middle is taken: 4 stands for 4 and 5, 2000 for 1536 to 2047."""
    assert mean_rows(counts_of(sizes), 1.0) == pytest.approx(mean)


def test_noise_in_far_bins_is_not_taken_for_units_of_a_million_rows():
    rng = np.random.default_rng(0)
    counts = counts_of([2] * 3000 + [5] * 500)
    found = [mean_rows(counts + rng.normal(0, 40, len(counts)), 40.0) for _ in range(200)]
    assert 2.0 < min(found) <= max(found) < 4.0
    assert mean_rows(rng.normal(0, 40, len(counts)), 40.0) >= 1
    assert mean_rows(np.zeros(len(counts)), 40.0) == 1


def test_rows_count_alike_up_to_a_number():
    """Rows that could not be encoded take nothing from the others, and a unit counts at most 1."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 12, 60)
    ids = np.repeat(np.arange(60), sizes)
    rows = np.full((len(ids), 2), 0.5)
    rows[rng.random(len(ids)) < 0.2] = np.nan
    source = Rows.of(rows, np.ones(len(ids))).counted(1.0, ids)
    block = RowsUpTo(source, 3.7).change(source.block)
    present = block.rows[:, 0] != 0
    encoded = np.bincount(ids, present)[ids]
    assert block.shares[present] == pytest.approx(1 / np.maximum(3.7, encoded[present]), rel=1e-5)
    assert np.add.reduceat(block.shares, block.starts).max() <= 1
    assert np.array_equal(every_row(source.block).shares, present.astype(float))


def panel(sizes, seed=2):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(len(sizes)), sizes)
    x = np.column_stack([rng.uniform(-1, 1, len(ids)), rng.random(len(ids)) < 0.4])
    effect = 0.5 * rng.standard_normal(len(sizes))[ids]
    return x.astype(float), x @ [0.4, 0.2] + effect, ids


MODELS = {
    "linear": (dp.LinearRegression, {"outcome": (-3, 3)}, lambda y: y),
    "logistic": (dp.LogisticRegression, {"classes": (False, True)}, lambda y: y > 0),
    "counts": (dp.PoissonRegression, {"outcome": (0, 20)}, lambda y: np.floor(np.exp(y + 0.5))),
}


@pytest.mark.parametrize("kind", MODELS)
def test_units_of_any_number_of_rows_have_the_same_public_behaviour(kind):
    """One unit with nearly all rows, or every unit with one: the same releases, and no error by values."""
    model, options, outcome = MODELS[kind]
    asked = model(bounds=(-1, 1), budget=dp.ZCDP(0.5), insecure_seed=1, **options)
    events = []
    for sizes in ([30_000] + [1] * (UNITS - 1), [1] * UNITS, list(range(1, UNITS // 10)) * 10):
        x, y, ids = panel(sizes)
        x[::7, 0] = np.nan
        result = asked.fit(x, outcome(y), units=ids).result_
        assert np.isfinite(result.estimate).all()
        assert "every row once" in result.summary()
        events.append([event.bound for event in result.privacy.events])
        assert result.privacy.events[0].step == "rows of a unit"
    assert events[0] == events[1] == events[2]


def test_a_unit_with_nearly_all_rows_does_not_decide_the_fit():
    """It is bounded as a whole: 30,000 rows of one unit move the estimate by less than their number says."""
    x, y, ids = panel([1] * UNITS)
    many, other, _ = panel([30_000])
    asked = dp.LinearRegression(
        bounds=(-1, 1), outcome=(-3, 3), budget=dp.ZCDP(5.0), insecure_seed=1
    )
    before = asked.fit(x, y, units=ids).result_
    both = np.vstack([x, many]), np.append(y, -other), np.append(ids, np.full(30_000, UNITS))
    after = asked.fit(both[0], both[1], units=both[2]).result_
    assert np.abs(after.estimate - before.estimate)[1:].max() < 3 * before.std_error[1:].max()


@pytest.mark.parametrize("target", ["robust", "ordinary"])
def test_what_cannot_bound_a_unit_is_about_the_average_unit(target):
    """The robust target, a fit without a clip, and every model with a penalty; they say so."""
    x, y, ids = panel([2] * 400)
    tail = {} if target == "robust" else {"tail": "all"}
    asked = dp.LinearRegression(
        bounds=(-1, 1), outcome=(-3, 3), budget=dp.ZCDP(0.5), target=target, rows="every", **tail
    )
    assert "Every unit counts once" in asked.fit(x, y, units=ids).result_.model.estimand()
    huber = dp.HuberRegression(bounds=(-1, 1), outcome=(-3, 3), budget=dp.ZCDP(0.5))
    assert "Every unit counts once" in huber.fit(x, y, units=ids).result_.model.estimand()


def test_descriptions_and_moments_are_about_the_average_unit_and_say_so():
    """Under either word of the schema, with the same numbers."""
    frame = people.table(700, 150)
    every, average = (people.schema(head) for head in (people.EVERY, people.AVERAGE))
    options = {"budget": dp.ZCDP(0.5), "insecure_seed": 1}
    described = [dp.describe(frame, one, columns=["a"], **options) for one in (every, average)]
    assert described[0].to_json().replace(every.digest(), "") == described[1].to_json().replace(
        average.digest(), ""
    )
    assert "Every unit counts once" in " ".join(described[0].summary(full=True).split())
    released = [
        dp.release_moments(frame, one, columns="a + b", **options) for one in (every, average)
    ]
    assert released[0].sums.n == released[1].sums.n
    told = released[0].ols("a ~ b")
    assert "every unit once" in " ".join(told.summary().split())
