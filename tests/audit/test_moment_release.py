"""A moment release under attack: sensitivities by search, and the same releases played to another table."""

from fractions import Fraction
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.histograms import histogram_bound, tail_counts
from dpinfer.mechanisms.moment_sums import (
    COUNT_WEIGHT,
    counted_moments,
    counted_moments_bound,
    fourth_moments,
    fourth_moments_bound,
)
from dpinfer.mechanisms.step_sums import Linearization
from dpinfer.mechanisms.sums import Block
from dpinfer.moment_release import releasing as module
from dpinfer.numerics.arrays import svec
from dpinfer.numerics.links import IDENTITY
from dpinfer.privacy.gate import Gate

QUERIES = {
    "counted": (counted_moments, counted_moments_bound),
    "fourth": (fourth_moments, fourth_moments_bound),
}


def at(matrix):
    d = len(matrix)
    return Linearization(IDENTITY, matrix, np.zeros(d), np.inf, -np.ones(d), np.ones(d))


def unit(rng, d, rows):
    """All rows of a unit, (1, x~)/sqrt norm2, wild ones included, each counting 1/rows."""
    x = rng.uniform(-1, 1, (rows, d)) * rng.choice([1e-3, 0.1, 1.0], (rows, 1))
    if rng.random() < 0.5:
        x[:] = x[0] * rng.choice([-1.0, 1.0], (rows, 1))
    x[:, 0] = 1.0
    x[rng.random(rows) < 0.1] = 0.0  # incomplete records
    share = np.full(rows, 1 / rows)
    return Block(x / np.sqrt(d), np.zeros(rows), share, share, np.array([0]))


def largest_change(name, neighbours, pairs=600):
    """The largest change over the bound, of random pairs of units and preconditioners."""
    query, bound = QUERIES[name]
    rng = np.random.default_rng(0)
    found = 0.0
    for _ in range(pairs):
        d = int(rng.integers(1, 5))
        matrix = rng.standard_normal((d, d)) * 10 ** rng.uniform(-1, 2)
        sum_ = query(at(matrix), float(d), neighbours).of_block
        values = [sum_(unit(rng, d, int(rng.integers(1, 4)))) for _ in range(2)]
        change = values[0] - values[1] if neighbours.counted else values[0]
        found = max(found, float(np.linalg.norm(change)) / bound(neighbours))
    return found


@pytest.mark.parametrize("neighbours", [Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT])
def test_guarantee_counted_moment_sensitivity(neighbours):
    assert 0.97 < largest_change("counted", neighbours) <= 1 + 1e-12
    assert counted_moments_bound(neighbours) ** 2 == pytest.approx(
        2 + 2 * COUNT_WEIGHT**2 if neighbours.counted else 1 + 1.25 * COUNT_WEIGHT**2
    )


@pytest.mark.parametrize("neighbours", [Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT])
def test_guarantee_fourth_moment_sensitivity(neighbours):
    assert 0.97 < largest_change("fourth", neighbours) <= 1 + 1e-12
    assert fourth_moments_bound(neighbours) ** 2 == pytest.approx(2 if neighbours.counted else 1)


def tails(rng, d, neighbours):
    """Counts of the tails of all columns but the first, about random centres."""
    columns = np.arange(1, d)
    edges = np.sort(rng.uniform(0, 2, (d - 1, 3)), axis=1)
    centre = rng.uniform(-0.2, 0.2, d - 1)
    return tail_counts(columns, centre, rng.uniform(0.05, 0.5, d - 1), edges, neighbours).of_block


@pytest.mark.parametrize("neighbours", [Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT])
def test_guarantee_tail_sensitivity(neighbours):
    """However many columns a row is far out in; two rows far out elsewhere attain the bound."""
    rng = np.random.default_rng(0)
    bound = histogram_bound(neighbours)
    found = 0.0
    for _ in range(300):
        d = int(rng.integers(2, 7))
        of_block = tails(rng, d, neighbours)
        values = [of_block(unit(rng, d, int(rng.integers(1, 4)))) for _ in range(2)]
        change = values[0] - values[1] if neighbours.counted else values[0]
        found = max(found, float(np.linalg.norm(change)) / bound)
    assert 0.97 < found <= 1 + 1e-12


def test_tails_are_counted_by_column_side_and_distance():
    edges = np.array([[1.0, 2.0], [0.5, 4.0]])
    query = tail_counts(np.array([1, 2]), np.zeros(2), np.full(2, 0.1), edges, Adjacency.REPLACE)
    rows = np.array([[1, 0.15, 0.0], [1, -0.25, 0.06], [1, 0.05, 0.04], [0, 0.9, 0.9]])
    half = np.sqrt(0.5)
    expected = [[[1, 0], [0, half]], [[half, 0], [0, 0]]]  # by column, side, bin
    found = query.of_block(Block(rows, np.zeros(4))).reshape(2, 2, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_a_row_adds_to_tails_is_at_most_1_in_real_numbers():
    """In exact arithmetic, of rows that are far out in every column."""
    for m in range(1, 40):
        query = tail_counts(
            np.arange(1, m + 1), np.zeros(m), np.ones(m), np.full((m, 1), 0.5), Adjacency.REPLACE
        )
        added = query.of_block(Block(np.ones((1, m + 1)), np.zeros(1)))
        assert 1 - 1e-12 < sum(Fraction(value) ** 2 for value in added.tolist()) <= 1


@pytest.mark.parametrize("units", [False, True])
def test_the_sums_are_those_of_their_formulas(units):
    """Σ w u uᵀ, c Σ w, and Σ q qᵀ with q = w svec(u uᵀ) or the mean over the rows of a unit."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (12, 3))
    x[:, 0] = 1.0
    x[4] = 0.0  # an incomplete record is not counted
    matrix = rng.standard_normal((3, 3))
    share = np.full(12, 1 / 3) if units else 1.0
    starts = np.array([0, 3, 6, 9]) if units else None
    block = Block(x / np.sqrt(3), np.zeros(12), share, share, starts)
    u = x @ matrix.T
    w = np.minimum(1.0, 1 / np.maximum((u**2).sum(axis=1), 1e-9)) * x[:, 0]
    q = w[:, None] * np.array([svec(np.outer(row, row)) for row in u])
    per_row = share * np.ones(12)
    neighbours = Adjacency.REPLACE_UNIT if units else Adjacency.REPLACE
    second = counted_moments(at(matrix), 3.0, neighbours).of_block(block)
    np.testing.assert_allclose(second[:-2], per_row @ q, atol=1e-12)
    excess = np.clip((u**2).sum(axis=1) - 1, 0, 1)
    assert 0 < excess.sum() < excess.astype(bool).sum()
    assert second[-2] == pytest.approx(COUNT_WEIGHT * per_row @ w)
    assert second[-1] == pytest.approx(COUNT_WEIGHT * per_row @ excess)
    summed = (per_row[:, None] * q).reshape(4, 3, -1).sum(axis=1) if units else q
    fourth = fourth_moments(at(matrix), 3.0, neighbours).of_block(block)
    np.testing.assert_allclose(fourth, svec(summed.T @ summed), atol=1e-12)


SCHEMA = dp.Schema.parse("""
unit = "one person"
[columns.age]
type = "number"
low = 18
high = 100
[columns.income]
type = "number"
low = 0
high = 500
[columns.sex]
type = "category"
levels = ["f", "m"]
""")


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, n)
    return pd.DataFrame(
        {"age": age, "income": 20 + age + rng.normal(0, 10, n), "sex": rng.choice(["f", "m"], n)}
    )


class Recorder(Gate):
    """A gate that keeps what it releases."""

    kept: ClassVar[list] = []

    def release(self, release, source, query):
        released = super().release(release, source, query)
        self.kept.append((release, query, released))
        return released


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_guarantee_moments_from_releases(neighbours, monkeypatch):
    """The releases of one table played to quite another: the same file, letter by letter, also with
    another number of rows where that is private.
    """
    monkeypatch.setattr(Recorder, "kept", [])
    monkeypatch.setattr(module, "Gate", Recorder)
    options = {"columns": "age + income + sex + I(age**2)", "budget": dp.ApproxDP(3.0, 1e-6)}
    first = dp.release_moments(people(3000), SCHEMA, neighbours=neighbours, **options)
    replay = iter(Recorder.kept)
    probe = Block(np.full((5, 5), 0.2), np.zeros(5))

    class Replay(Gate):
        def release(self, release, source, query):
            asked, other, released = next(replay)
            assert release == asked
            np.testing.assert_array_equal(query.of_block(probe), other.of_block(probe))
            source.total(query.of_block)  # whatever the records hold, nothing raises
            return released

    monkeypatch.setattr(module, "Gate", Replay)
    n = 3000 if neighbours == "replace" else 7
    other = pd.DataFrame({"age": [np.inf] * n, "income": [-1e300] * n, "sex": ["secret"] * n})
    second = dp.release_moments(other, SCHEMA, neighbours=neighbours, **options)
    assert first.to_json() == second.to_json()


def test_a_release_costs_its_budget_and_books_one_entry():
    ledger = dp.Ledger(dp.ZCDP(1.0), unit="one person")
    release = dp.release_moments(
        people(2000), SCHEMA, "age + income + sex", dp.ZCDP(0.25), ledger=ledger
    )
    (entry,) = ledger.entries()
    assert ledger.spent() == pytest.approx(0.25)
    assert entry.purpose == "moments of age + income + sex"
    assert entry.asked == dp.ZCDP(0.25)
    assert release.privacy.in_ledger
    for _ in range(5):
        release.ols("income ~ age + sex")
    assert len(ledger.entries()) == 1
