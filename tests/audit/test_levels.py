"""Levels that are shown: the exact divergence between neighbours, what one unit can do, and an
attack.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.histograms import LevelCounts
from dpinfer.mechanisms.privacy_cost import gaussian_delta
from dpinfer.privacy.release import ShownLevels
from dpinfer.tables.levels import tally
from helpers.support import gate_of

NOTIONS = [Adjacency.REPLACE, Adjacency.ADD_REMOVE]
MANY = 60
BOUND = {Adjacency.REPLACE: math.sqrt(2), Adjacency.ADD_REMOVE: 1.0}


def masses(count, scale, threshold, cells=400):
    """The law of what is shown of one level: nothing, or its noisy count, in cells.  Cells only
    lose divergence.
    """
    if count == 0:
        return np.append(1.0, np.zeros(cells))
    edges = np.append(np.linspace(threshold, max(threshold, MANY) + 9 * scale, cells), np.inf)
    above = norm.sf(edges, count, scale)
    return np.append(norm.cdf(threshold, count, scale), -np.diff(above))


def divergence(one, other, epsilon, scale, threshold):
    """The hockey-stick divergence of what is shown of a few levels with these counts."""
    p, q = (
        math.prod(np.ix_(*(masses(count, scale, threshold) for count in counts)), start=np.ones(1))
        for counts in (one, other)
    )
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def pairs(notion):
    """Counts of the levels that differ between neighbours: a level of one unit, of two, and one of
    many.
    """
    many = [1, 2, 3, MANY]
    if notion is Adjacency.ADD_REMOVE:
        moves = [((k,), (k - 1,)) for k in many]
    else:
        moves = [((k, m), (k - 1, m + 1)) for k, m in itertools.product(many, [0, 1, MANY])]
        moves += [((k,), (k - 1,)) for k in many]  # a unit without a level takes its place
    return moves + [(other, one) for one, other in moves]


def worst(notion, release, *, lower=0.0, less=1.0):
    """The largest excess over what the release costs, and the largest part of it that is used."""
    scale = less * release.law.scale
    threshold, excess, used = release.threshold - lower, -1.0, 0.0
    mu = math.sqrt(2 * release.share.rho)
    rare = next(e for e in np.linspace(0, 40, 401) if gaussian_delta(e, mu) < release.delta / 1000)
    for (one, other), epsilon in itertools.product(pairs(notion), (0.1 * mu, mu, rare)):
        allowed = release.delta + (1 - release.delta) * float(gaussian_delta(epsilon, mu))
        found = divergence(one, other, epsilon, scale, threshold)
        excess, used = max(excess, found - allowed), max(used, found / allowed)
    return excess, used


@pytest.mark.parametrize("notion", NOTIONS)
def test_guarantee_rare_levels(notion):
    """A release of levels is δ-nearly a Gaussian one, at every ε, and its δ is used up; by
    quadrature.
    """
    for rho, delta in ((0.5, 1e-3), (0.02, 1e-2), (2.0, 1e-6)):
        release = ShownLevels("levels", dp.ZCDP(rho), delta, BOUND[notion])
        alone = norm.sf(release.threshold, 1, release.law.scale)
        assert 0.999 * delta < alone <= delta
        excess, used = worst(notion, release)
        assert excess <= 1e-12
        assert used > 0.97


@pytest.mark.parametrize("notion", NOTIONS)
def test_mutation_a_lower_threshold_or_less_noise_is_caught(notion):
    release = ShownLevels("levels", dp.ZCDP(0.5), 1e-3, BOUND[notion])
    assert worst(notion, release, lower=1.0)[0] > 5e-3  # the one unit itself is forgotten
    assert worst(notion, release, lower=0.1 * release.law.scale)[0] > 1e-4
    assert worst(notion, release, less=0.9)[0] > 1e-3


def test_mutation_the_noise_of_add_remove_does_not_hide_a_replacement():
    release = ShownLevels("levels", dp.ZCDP(0.5), 1e-3, math.sqrt(2))
    assert worst(Adjacency.REPLACE, release, less=1 / math.sqrt(2))[0] > 1e-2


# What one unit does to a tally


def cells(texts):
    found = np.empty(len(texts), dtype=object)
    found[:] = texts
    return found


def moved(one, other):
    """How far counts move, and how many of them."""
    first, second = (dict(zip(found.levels, found.counts, strict=True)) for found in (one, other))
    change = np.array([first.get(level, 0.0) - second.get(level, 0.0) for level in first | second])
    return float(np.linalg.norm(change)), int((change != 0).sum())


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("notion", NOTIONS)
def test_guarantee_one_level_a_unit(notion, units):
    """All rows of one unit replaced, added or removed, wherever they stand, whatever they hold."""
    rng, far, naive = np.random.default_rng(4), 0.0, 0.0
    odd = ["a", "b", "c", "d", None, "", "drop", "x" * 300, 3, np.nan, b"a", "\ud800"]

    def rows(unit):
        size = (
            int(rng.integers(0 if notion is Adjacency.ADD_REMOVE or units else 1, 6))
            if units
            else 1
        )
        return [(unit, odd[rng.integers(len(odd))]) for _ in range(size)]

    def counted(some):
        order = rng.permutation(len(some)) if units else np.arange(len(some))
        column, ids = (
            cells([some[j][1] for j in order]),
            np.array([some[j][0] for j in order], dtype=np.intp),
        )
        return tally(column, ids if units else None, notion), tally(column, None, notion)

    for _ in range(400):
        others = [row for unit in range(1, 5) for row in rows(unit)]
        first = rows(0)
        second = rows(0) if notion is Adjacency.REPLACE else []
        one = counted([*others, *first])
        other = counted([*others, *second])  # in an order of its own
        distance, many = moved(one[0], other[0])
        assert distance <= one[0].bound
        assert many <= notion.pick(2, 1)
        far, naive = max(far, distance), max(naive, moved(one[1], other[1])[0])
    assert far == one[0].bound == BOUND[notion]
    assert (naive > BOUND[notion]) == units  # counting rows would not do


def test_the_level_of_a_unit_is_that_of_most_of_its_rows():
    """Or the first one in the alphabet."""
    column = cells([None, "b", "a", "b", "c", "a", "a", "z", "d", "e", None, None])
    ids = np.array([0, 0, 0, 0, 1, -1, -1, 2, 2, 2, 2, 2])
    found = tally(column, ids, Adjacency.REPLACE_UNIT)
    assert dict(zip(found.levels, found.counts, strict=True)) == {"b": 1, "c": 1, "d": 1}
    assert found.bound == math.sqrt(2)
    assert tally(column[:0], ids[:0], Adjacency.REPLACE).levels == ()


# An attack: is this person in the data?

DELTA, RUNS = 0.05, 3000
RELEASE = ShownLevels("levels", dp.ZCDP(0.5), DELTA, math.sqrt(2))


def shown(runs, counts):
    levels = tuple(counts)
    told = LevelCounts(levels, np.array([float(counts[level]) for level in levels]), math.sqrt(2))
    return [gate_of(seed, RELEASE).levels(RELEASE, told) for seed in range(runs)]


def test_a_level_of_one_person_shows_no_more_often_than_delta():
    seen = shown(RUNS, {"many": 200, "one": 1})
    often = sum("one" in found for found in seen)
    assert binom.cdf(often - 1, RUNS, DELTA) < 1 - 1e-4  # no more often
    assert binom.cdf(often, RUNS, DELTA) > 1e-4  # and no less: the threshold is as low as it can be
    assert all("many" in found for found in seen)


def test_mutation_a_threshold_without_the_one_is_found_by_the_attack(monkeypatch):
    honest = RELEASE.threshold
    monkeypatch.setattr(ShownLevels, "threshold", property(lambda self: honest - 1.0))
    often = sum("one" in found for found in shown(1000, {"many": 200, "one": 1}))
    assert binom.cdf(often - 1, 1000, DELTA) > 1 - 1e-9


def test_what_is_shown_is_ordered_by_what_is_shown():
    """By noisy counts, so that neither the order in the table nor the true order leaves a trace."""
    orders = set()
    for found in shown(200, {"a": 30, "b": 30, "c": 30}):
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert min(found.values()) > RELEASE.threshold
        orders.add(tuple(found))
    assert len(orders) == 6
    assert shown(1, {}) == [{}]


def test_noisy_counts_of_levels_have_their_law():
    values = [found["many"] - 200 for found in shown(2000, {"many": 200})]
    assert np.std(values) == pytest.approx(RELEASE.law.scale, rel=0.06)


def test_levels_are_booked_as_levels():
    other = dp.ZCDP(0.5)
    with pytest.raises(dp.BudgetError):
        ShownLevels("levels", dp.PureDP(1.0), 0.1, 1.0)
    for delta in (0.0, 1.0, -1e-9, 1, math.nan):
        with pytest.raises(dp.BudgetError):
            ShownLevels("levels", other, delta, 1.0)
    gate = gate_of(0, RELEASE)
    gate.levels(RELEASE, LevelCounts((), np.zeros(0), 1.0))
    with pytest.raises(dp.PrivacyError, match="levels"):
        gate.levels(RELEASE, LevelCounts((), np.zeros(0), 1.0))
