"""Survival curves under attack: sensitivity by all pairs of persons, replay to another table, exact divergence."""

from dataclasses import replace
from itertools import product
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.description import survival_release as module
from dpinfer.description.survival_release import survival_release
from dpinfer.mechanisms import running_counts as mechanism
from dpinfer.mechanisms.running_counts import (
    TimeIntervals,
    running_counts,
    running_counts_bound,
    running_root,
)
from dpinfer.mechanisms.sums import Block, BoundedSum
from dpinfer.privacy.gate import Gate

FOLLOW_UP = TimeIntervals(0.0, (1.0, 2.0, 4.0, 7.0, 8.0), (2, 0, 1), groups=2, grouped=True)
LATE = replace(FOLLOW_UP, late=True)
EXITS = [-1.0, 0.0, 0.5, 1.0, 3.0, 8.0, 9.0, np.inf, np.nan]
ENTRIES = [-1.0, 0.0, 0.4, 1.0, 6.0, 8.5, np.nan]


def person(follow_up, exits, event, entry, group):
    """The block of one person with one row."""
    row = [1.0, exits, event] + ([entry] if follow_up.late else [])
    return Block(np.array([row]), np.array([group]))


def all_persons(follow_up):
    """What each kind of person adds: all times, events, groups, usable or not."""
    of_block = running_counts(follow_up, Adjacency.REPLACE).of_block
    entries = ENTRIES if follow_up.late else [0.0]
    kinds = product(EXITS, [0.0, 1.0, 2.0, 9.0, np.nan], entries, [0.0, 1.0, np.nan])
    values = [of_block(person(follow_up, *kind)) for kind in kinds]
    return np.unique(values, axis=0)


@pytest.mark.parametrize("follow_up", [FOLLOW_UP, LATE], ids=["from the start", "late"])
def test_guarantee_running_counts_sensitivity(follow_up):
    """All pairs of persons: nobody moves the vector further than the bound, and somebody nearly as far."""
    added = all_persons(follow_up)
    norms = np.linalg.norm(added, axis=1)
    pairs = np.linalg.norm(added[:, None] - added[None], axis=2)
    alone = running_counts_bound(follow_up, Adjacency.ADD_REMOVE)
    two = running_counts_bound(follow_up, Adjacency.REPLACE)
    assert 0.9 * alone < norms.max() <= alone
    assert 0.85 * two < pairs.max() <= two
    assert two == pytest.approx(np.sqrt(2) * alone)


@pytest.mark.parametrize("follow_up", [FOLLOW_UP, LATE], ids=["from the start", "late"])
def test_a_person_is_one_record_however_many_rows_there_are(follow_up):
    """Any rows of one id, in any order, move the vector as one row does."""
    rng = np.random.default_rng(0)
    of_block = running_counts(follow_up, Adjacency.REPLACE_UNIT).of_block
    alone = all_persons(follow_up)
    bound = running_counts_bound(follow_up, Adjacency.ADD_REMOVE_UNIT)
    for size in (1, 2, 5, 2000):
        rows = np.column_stack(
            [np.ones(size), rng.choice(EXITS, size), rng.choice([0.0, 1.0, 2.0, 9.0], size)]
            + [rng.choice(ENTRIES, size)] * follow_up.late
        )
        labels = rng.choice([0.0, 1.0, np.nan], size)
        shares = np.full(size, 1 / size)
        starts = np.array([0])
        value = of_block(Block(rows, labels, shares, shares, starts))
        order = rng.permutation(size)
        again = of_block(Block(rows[order], labels[order], shares, shares, starts))
        assert value.tolist() == again.tolist()
        assert np.linalg.norm(value) <= bound
        assert any(np.array_equal(value, one) for one in alone)


def test_the_rows_of_persons_are_merged():
    """The earliest entry, the latest exit with its event, the group of the earliest row."""
    of_block = running_counts(LATE, Adjacency.REPLACE_UNIT).of_block
    rows = np.array(
        [
            [1.0, 3.0, 0.0, 1.0],
            [1.0, 7.5, 2.0, 3.0],
            [1.0, 1.5, 0.0, 0.0],
            [1.0, np.nan, 1.0, 0.0],
            [1.0, 2.0, 1.0, 2.0],
            [0.0, np.nan, np.nan, np.nan],
        ]
    )
    labels = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    shares = np.full(6, 0.3)
    value = of_block(Block(rows, labels, shares, shares, np.array([0, 2, 5])))
    first = of_block(person(LATE, 7.5, 2.0, 1.0, 1.0))
    second = of_block(person(LATE, 1.5, 0.0, 0.0, 1.0))
    assert value.tolist() == (first + second).tolist()


def test_running_sums_are_exact_in_any_order():
    """Entries of the root are multiples of 2⁻²⁰, so that blocks and stacks give the same bits."""
    root = running_root(41)
    assert np.all(root * 2**20 % 1 == 0)
    assert np.all(root >= 0)
    assert np.abs(root @ root - np.tri(41)).max() < 1e-5
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(4096), rng.uniform(0, 9, 4096), rng.integers(0, 3, 4096)])
    block = Block(rows, rng.integers(0, 2, 4096).astype(float))
    of_block = running_counts(FOLLOW_UP, Adjacency.REPLACE).of_block
    parts = list(block.stacked(1024).parts(of_block))
    alone = [of_block(block[k : k + 1024]) for k in range(0, 4096, 1024)]
    assert [one.tolist() for one in parts] == [one.tolist() for one in alone]
    assert sum(parts).tolist() == of_block(block).tolist()


SCHEMA = """
[columns.years]
type = "number"
low = 0
high = 10
[columns.entered]
type = "number"
low = 0
high = 10
[columns.status]
type = "integer"
low = 0
high = 2
levels = [0, 1, 2]
reference = 0
[columns.arm]
type = "category"
levels = ["a", "b"]
"""
ONE_ROW = 'unit = "one patient"\n' + SCHEMA
IDS = '[unit]\nname = "one patient"\ncolumn = "id"\nrows = "average"\n' + SCHEMA
ADJACENCIES = [(ONE_ROW, "replace"), (ONE_ROW, "add-remove"), (IDS, "replace"), (IDS, "add-remove")]
OPTIONS = {"time": "years", "event": "status", "entry": "entered", "by": "arm", "bins": 8}


def patients(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "years": rng.exponential(6, n),
            "entered": rng.uniform(0, 3, n),
            "status": rng.integers(0, 3, n),
            "arm": rng.choice(["a", "b"], n),
            "id": np.arange(n) // 2,
        }
    )


class Recorder(Gate):
    """A gate that keeps what it releases."""

    kept: ClassVar[list] = []

    def release(self, release, source, query):
        self.kept.append((release, query, super().release(release, source, query)))
        return self.kept[-1][2]


@pytest.mark.parametrize(("declared", "neighbours"), ADJACENCIES)
def test_guarantee_survival_from_release(declared, neighbours, monkeypatch):
    """The release of one table played to a hostile one: the same curves, letter by letter."""
    schema = dp.Schema.parse(declared)
    monkeypatch.setattr(Recorder, "kept", [])
    monkeypatch.setattr(module, "Gate", Recorder)
    budget = dp.ApproxDP(1.0, 1e-6)
    table = patients(3000)
    first = dp.survival_curves(table, schema, neighbours=neighbours, budget=budget, **OPTIONS)
    ((release, query, released),) = Recorder.kept
    assert first.privacy.events == (release,)

    class Replay(Gate):
        def release(self, asked, source, other):
            assert asked == release
            assert other.bound == query.bound
            source.total(other.of_block)  # whatever the records hold, nothing raises
            return released

    monkeypatch.setattr(module, "Gate", Replay)
    n = 3000 if neighbours == "replace" else 12
    other = pd.DataFrame(
        {
            "years": np.resize([np.inf, -1e300, np.nan, 3.0, 1e308, 0.0], n),
            "entered": np.resize([np.nan, np.inf, 5.0, -np.inf], n),
            "status": np.resize([0, 1, 2, 99], n),
            "arm": np.resize(["secret", "a"], n),
            "id": np.arange(n) // 2,
        }
    )
    again = dp.survival_curves(other, schema, neighbours=neighbours, budget=budget, **OPTIONS)
    assert again.to_json() == first.to_json()
    assert again.summary(full=True) == first.summary(full=True)


@pytest.mark.parametrize(("declared", "neighbours"), ADJACENCIES)
def test_the_density_of_the_release_moves_by_no_more_than_the_budget(declared, neighbours):
    """With the person that tells most changed the exact divergence is within the budget, and most of it."""
    schema = dp.Schema.parse(declared)
    budget = dp.ZCDP(0.05)
    table = patients(400)
    rows = 2 if declared is IDS else 1
    columns = ["years", "entered", "status", "arm"]
    table.loc[: rows - 1, columns] = [0.9, 0.0, 1, "a"]
    changed = table.copy()
    changed.loc[: rows - 1, columns] = [1.1, 0.1, 2, "b"]
    if neighbours == "add-remove":
        changed = table.iloc[rows:]
    sums = []
    for one in (table, changed):
        asked = survival_release(one, schema, budget=budget, adjacency=neighbours, **OPTIONS)
        query = running_counts(asked.follow_up, asked.adjacency)
        sums.append(asked.records.read().total(query.of_block))
    change = np.linalg.norm(sums[0] - sums[1])
    loss = (change / asked.release.law.scale) ** 2 / 2 / budget.rho
    assert 0.9 < loss <= 1


def test_half_the_bound_is_refused(monkeypatch):
    """A query that may move by more than was booked is refused before a record is read."""
    schema = dp.Schema.parse(ONE_ROW)
    asked = survival_release(patients(50), schema, budget=dp.ZCDP(0.1), **OPTIONS)

    def wider(follow_up, neighbours):
        query = mechanism.running_counts(follow_up, neighbours)
        return BoundedSum(query.of_block, 1.01 * query.bound)

    monkeypatch.setattr(module, "running_counts", wider)
    with pytest.raises(dp.PrivacyError, match="may move by"):
        asked.run(insecure_seed=1)


def test_bad_records_have_one_public_behaviour():
    """Times that are missing, negative or beyond follow-up, unknown events, entry after exit: left out or
    observed to the end, without an error, with the same text for all.
    """
    schema = dp.Schema.parse(ONE_ROW)
    table = patients(1000)
    bad = table.copy()
    bad.loc[:99, "years"] = np.nan
    bad.loc[100:199, "years"] = -3.0
    bad.loc[200:299, "status"] = 7
    bad.loc[300:399, "entered"] = 9.5
    bad.loc[300:399, "years"] = 9.0
    bad.loc[400:499, "arm"] = "c"
    noiseless = dp.survival_curves(bad, schema, budget=dp.NoPrivacy(), **OPTIONS)
    entered_first = (table.entered < table.years).iloc[500:].sum()
    assert noiseless.unusable == 1000 - entered_first
    without_entry = OPTIONS | {"entry": None}
    curves = dp.survival_curves(bad, schema, budget=dp.NoPrivacy(), **without_entry)
    assert curves.unusable == 400  # without a time, before the origin, of no event or group
    beyond = table.assign(years=1e6, status=1)
    curves = dp.survival_curves(beyond, schema, budget=dp.NoPrivacy(), **OPTIONS)
    assert (curves.to_frame()["survival"] == 1).all()
    assert curves.unusable == 0
