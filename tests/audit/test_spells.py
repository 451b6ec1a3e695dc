"""Sums over spells of persons: weights that cannot see the future, bounds, bad records, and scores without a bias."""

import math

import numpy as np
import pytest

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.spells import (
    Intervals,
    Spells,
    by_rank,
    followed,
    life_table,
    split_parts,
    sum_before,
)
from dpinfer.mechanisms.step_sums import Linearization, Stack
from dpinfer.mechanisms.sums import BLOCK, Block
from dpinfer.mechanisms.unit_sums import linked_units, unit_remainder, unit_stack
from dpinfer.numerics.links import FARTHEST_OFFSET, HAZARD

NOTIONS = (Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT)
INTERVALS = Intervals((0.0, 0.2, 0.5, 1.0))
LONGEST = 0.5
DIM = 2 + 2  # (1, x) and two intervals beside the first


def linearization(rng, size=1.0, most=2.0, coef=None):
    """A random matrix and coefficients for rows (1, x, intervals, log of time)."""
    matrix = np.column_stack([size * rng.standard_normal((DIM, DIM)), np.zeros(DIM)])
    coef = rng.standard_normal(DIM) if coef is None else coef
    ends = np.ones(DIM + 1)
    return Linearization(HAZARD, matrix, np.append(coef, FARTHEST_OFFSET), most, -ends, ends)


def spells_of(persons):
    """A block of persons, each a list of (entry, exit, event, x); None where a row cannot be encoded."""
    rows = []
    labels = []
    starts = []
    for spells in persons:
        starts.append(len(rows))
        for spell in spells:
            entry, end, event, x = (0.0, 0.0, 0.0, 0.0) if spell is None else spell
            present = 0.0 if spell is None else 0.5
            rows.append([present, present * x, present * entry, present * end])
            labels.append(event)
    return Block(
        np.array(rows).reshape(-1, 4), np.array(labels, float), 1.0, 1.0, np.array(starts, np.intp)
    )


def drawn(rng, spells=3):
    """One person with some spells: in any order, overlapping, backwards, or missing."""
    found = []
    for _ in range(rng.integers(1, spells + 1)):
        entry, end = rng.uniform(0, 1, 2)
        if rng.random() < 0.7:
            entry, end = min(entry, end), max(entry, end)
        found.append((entry, end, float(rng.random() < 0.5), rng.uniform(-1, 1)))
    return [None if rng.random() < 0.1 else one for one in found]


def split_of(persons):
    return Spells.of(spells_of(persons)).split(INTERVALS)


def linked(persons, point):
    return followed(point, 1.0)(split_of(persons))


@pytest.mark.parametrize(
    "spells",
    [
        [(0, 0.4, 1, 0.1), (0, 0.4, 0, 0.1)],
        [(0, 0.4, 0, 0.3), (0, 0.4, 1, 0.1)],
        [(0, 0.4, 0, 0.1), (0.2, 0.4, 1, 0.1)],
        [(0, 0.4, 1, 0.1), None, (0.4, 0.4, 0, 0.1)],
    ],
)
def test_an_event_is_not_lost_where_spells_end_together(spells):
    """One row has the time and the event; somebody else's event at that time is not theirs."""
    censored = [(0.1, 0.4, 0, 0.2), (0.1, 0.4, 0, 0.2)]
    for persons in ([spells, censored], [spells[::-1], censored]):
        split = split_of(persons)
        second = split.starts[1]
        assert split.labels[:second].sum() == 1
        assert split.labels[second:].sum() == 0


def test_guarantee_predictable_weights():
    """Σ v f μ‖u‖² is at most 1; and what a person does later changes nothing of what counted before."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(300):
        point = linearization(rng, 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-1, 2))
        at = linked([drawn(rng) for _ in range(4)], point)
        sizes = at.counts * at.slope * (at.rows**2).sum(axis=1)
        largest = max(largest, float(at.summed(sizes[:, None]).max()))
        assert (at.hessian_norms <= 1 - 2.0**-21).all()
        assert (at.weights == 1.0).all() or at.weights.min() > 1 - 1e-12
    assert 0.99 < largest <= 1 - 2.0**-21
    for _ in range(100):
        point = linearization(rng, 10 ** rng.uniform(-1, 1))
        until = rng.uniform(0.1, 0.9)
        x = rng.uniform(-1, 1)
        died = linked([[(0.0, until, 1.0, x)]], point)
        later = until + rng.uniform(0.02, 1 - until)
        lived = linked([[(0.0, until, 0.0, x), (until, later, 1.0, rng.uniform(-1, 1))]], point)
        k = len(died.counts)
        assert np.array_equal(died.counts, lived.counts[:k])
        assert np.array_equal(died.predictor, lived.predictor[:k])


def test_a_weight_by_all_of_the_follow_up_looks_at_the_outcome():
    """At the true hazards the score has mean 0 with predictable weights, and has not with w = min(1, 1/‖H‖)."""
    rng = np.random.default_rng(1)
    n = 60_000
    x = rng.choice([-1.0, 1.0], n)
    coef = np.array([np.log(1.5), 0.5, 0.3, -0.2])  # per longest interval
    hazards = np.exp(coef[0] + coef[1] * x[:, None] + np.array([0.0, 0.3, -0.2])) / LONGEST
    left = rng.exponential(1, n)
    time = np.zeros(n)
    edges = np.array(INTERVALS.edges)
    for k in range(3):  # the time at which the cumulated hazard reaches an exponential number
        lived = np.clip(left / hazards[:, k], 0, edges[k + 1] - edges[k])
        time += np.where(left > 0, lived, 0.0)
        left -= lived * hazards[:, k]
    event = left <= 1e-12
    block = spells_of([[(0.0, t, float(d), one)] for t, d, one in zip(time, event, x, strict=True)])
    rows = Spells.of(block).split(INTERVALS)
    matrix = 0.6 * np.eye(DIM)
    point = Linearization(
        HAZARD,
        np.column_stack([matrix, np.zeros(DIM)]) * 2,
        np.append(coef, FARTHEST_OFFSET) * 2,
        1.0,
        -np.ones(DIM + 1),
        np.ones(DIM + 1),
    )

    def z(link):
        scores = link(rows).scores
        return scores.mean(axis=0) / np.maximum(scores.std(axis=0), 1e-12) * math.sqrt(n)

    at = followed(point, 1.0)(rows)
    assert (at.counts < 1).any() or (
        at.gap != rows.labels - at.slope
    ).any()  # some time does not count
    assert np.abs(z(followed(point, 1.0))).max() < 4
    assert np.abs(z(linked_units(point, 1.0, 1.0))).max() > 20


@pytest.mark.parametrize("notion", NOTIONS)
def test_random_persons_move_the_stack_by_no_more_than_its_bound(notion):
    """Pairs of persons with any spells, at random coefficients, matrices and clips."""
    rng = np.random.default_rng(2)
    stack = Stack.of_units(notion)
    worst = 0.0
    worst_remainder = 0.0
    for _ in range(400):
        point = linearization(rng, 10 ** rng.uniform(-0.5, 1.5), 10 ** rng.uniform(-1, 1))
        clip = point.max_influence * 10 ** rng.uniform(-1, 0)
        link = followed(point, 1.0)
        query = unit_stack(link, clip, stack)
        step = rng.standard_normal(DIM) * 10 ** rng.uniform(-1, 0.5)
        remainder = unit_remainder(link, HAZARD, step, 10 ** rng.uniform(-4, 0), notion)
        first, second = split_of([drawn(rng)]), split_of([drawn(rng)])
        for what in (query, remainder):
            other = what.of_block(second) if notion.counted else 0.0
            moved = float(np.linalg.norm(what.of_block(first) - other)) / what.bound
            assert moved <= 1
            if what is query:
                worst = max(worst, moved)
            else:
                worst_remainder = max(worst_remainder, moved)
    assert worst > 0.8
    assert worst_remainder > 0.8


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("notion", NOTIONS)
def test_guarantee_life_table_sensitivity(notion, delayed):
    """A person is in one bin of exits and in one of entries, whatever the spells are; the bound is attained."""
    rng = np.random.default_rng(3)
    query = life_table(INTERVALS, notion, delayed=delayed)
    worst = 0.0
    for _ in range(300):
        first, second = spells_of([drawn(rng)]), spells_of([drawn(rng)])
        other = query.of_block(second) if notion.counted else 0.0
        worst = max(worst, float(np.linalg.norm(query.of_block(first) - other)) / query.bound)
    assert worst == pytest.approx(1.0)


def test_spells_are_split_as_they_should_be():
    """Time and events by interval, at cuts and between them; a second spell begins where the first has ended."""
    persons = [
        [(0.0, 0.2, 1.0, 0.5)],  # an event at a cut is in the interval that ends there
        [(0.1, 0.7, 1.0, -0.5)],
        [(0.3, 0.6, 0.0, 0.2), (0.0, 0.4, 0.0, 0.1)],  # unordered, and they overlap
        [None],
        [(0.6, 0.5, 1.0, 0.3)],  # entry after exit
    ]
    block = split_of(persons)
    time = LONGEST * np.exp(
        FARTHEST_OFFSET * block.rows[:, -1] / np.where(block.rows[:, 0] > 0, block.rows[:, 0], 1)
    )
    x = block.rows[:, 1] / np.where(block.rows[:, 0] > 0, block.rows[:, 0], 1)
    assert block.starts.tolist() == [0, 1, 4, 8, 9]
    assert time[:8] == pytest.approx([0.2, 0.1, 0.3, 0.2, 0.2, 0.2, 0.1, 0.1])
    assert x[:8] == pytest.approx([0.5, -0.5, -0.5, -0.5, 0.1, 0.1, 0.2, 0.2])
    assert block.labels.tolist() == [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert (block.rows[8:] == 0).all()
    assert block.rows[:8, 2:4].tolist() == [
        [0, 0], [0, 0], [0.5, 0], [0, 0.5], [0, 0], [0.5, 0], [0.5, 0], [0, 0.5],
    ]  # fmt: skip


def test_the_order_of_rows_and_of_persons_changes_no_number():
    """Rows of a person in another order, and persons elsewhere in the block, give the same bits."""
    rng = np.random.default_rng(4)
    point = linearization(rng, 3.0)
    persons = [drawn(rng) for _ in range(12)]
    at = linked(persons, point)
    by_person = np.split(at.scores, len(persons))
    order = rng.permutation(len(persons))
    shuffled = [[persons[k][j] for j in rng.permutation(len(persons[k]))] for k in order]
    other = np.split(linked(shuffled, point).scores, len(persons))
    for k, place in enumerate(order):
        assert np.array_equal(other[k], by_person[place])


def test_running_sums_do_not_see_other_persons():
    """A huge number of another person leaves the sums of a person as they are, to the bit."""
    starts = np.array([0, 1, 4], np.intp)
    values = np.array([1e300, 0.1, 0.2, 0.3, 0.4, 0.5])
    found = sum_before(values, starts)
    assert found.tolist() == [0.0, 0.0, 0.1, 0.1 + 0.2, 0.0, 0.4]
    assert [places.tolist() for places in by_rank(starts, 6)] == [[0, 1, 4], [2, 5], [3]]


def test_a_person_with_very_many_rows_is_one_record():
    """100,000 spells add no more than one does, in one part of their own; nobody else is in it."""
    rng = np.random.default_rng(5)
    ends = np.sort(rng.uniform(0, 1, 100_000))
    many = [(a, b, 1.0, 0.3) for a, b in zip(np.append(0, ends[:-1]), ends, strict=True)]
    one = [(0.0, 0.5, 1.0, -0.2)]
    parts = list(split_parts(spells_of([one, many, one]), INTERVALS))
    assert [len(part.starts) for part in parts] == [1, 1, 1]
    point = linearization(rng, 2.0)
    query = unit_stack(followed(point, 1.0), 2.0, Stack.of_units(NOTIONS[0]))
    assert np.linalg.norm(query.of_block(parts[1])) <= math.sqrt(1 + 1 + 0.45)


def test_parts_are_no_longer_than_a_block_and_hold_all_rows():
    rng = np.random.default_rng(6)
    persons = [[(0.0, rng.uniform(0.1, 1), 1.0, 0.1)] for _ in range(3000)]
    block = spells_of(persons)
    parts = list(split_parts(block, INTERVALS))
    assert max(map(len, parts)) <= BLOCK
    assert sum(len(part.starts) for part in parts) == 3000
    whole = Spells.of(block).split(INTERVALS)
    assert np.array_equal(np.concatenate([part.rows for part in parts]), whole.rows)
    (empty,) = split_parts(spells_of([]), INTERVALS)
    assert len(empty) == 0
    point = linearization(rng)
    assert (
        not unit_stack(followed(point, 1.0), 1.0, Stack.of_units(NOTIONS[0])).of_block(empty).any()
    )


def test_numbers_too_large_for_floats_are_refused():
    rng = np.random.default_rng(7)
    for size, most in ((1e200, 1.0), (1.0, 1e200), (1.0, 0.0)):
        with pytest.raises(PrivacyError, match="too large for floats"):
            followed(linearization(rng, size, most), 1.0)
