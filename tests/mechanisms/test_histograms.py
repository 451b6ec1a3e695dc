"""Ranges and clips from noisy histograms."""

import numpy as np
import pytest

from dpinfer.adjacency import Adjacency
from dpinfer.inference.ranges import narrowed
from dpinfer.inference.tails import CountSizes, Tail, TailLaw
from dpinfer.mechanisms.histograms import histogram, influence_histogram
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.bins import BINS, COUNT_BINS, count_edges, inner_edges


def counts(y, low, high):
    return histogram(inner_edges(low, high), Adjacency.REPLACE).of_block(
        Block(np.ones((len(y), 1)), y)
    )


def test_a_histogram_counts_everybody_once():
    y = np.array([-5.0, -1.0, -0.99, 0.0, 0.9, 1.0, 7.0])
    assert counts(y, -1, 1).tolist() == [3, *[0] * 7, 1, *[0] * 6, 3]
    zero = Block(np.zeros((3, 1)), np.zeros(3))
    assert histogram(inner_edges(-1, 1), Adjacency.REPLACE).of_block(zero).sum() == 0


def zoomed(y, noise=0.0, seed=0):
    rng, (low, high) = np.random.default_rng(seed), (-1.0, 1.0)
    for _ in range(3):
        low, high = narrowed(
            counts(y, low, high) + noise * rng.standard_normal(BINS), low, high, len(y), noise
        )
    return low, high


def test_a_range_closes_in_on_the_outcome():
    y = np.random.default_rng(0).normal(0.3, 0.01, 20_000)
    low, high = zoomed(y)
    assert 0.26 < low < 0.29
    assert 0.31 < high < 0.34
    low, high = zoomed(y, noise=40)
    assert -0.1 < low < 0.29
    assert 0.31 < high < 0.6
    assert zoomed(np.random.default_rng(0).uniform(-1, 1, 20_000)) == (-1.0, 1.0)


@pytest.mark.parametrize("y", [np.zeros(5000), np.ones(5000), -np.ones(5000)])
def test_a_constant_outcome_keeps_a_range(y):
    low, high = zoomed(y, noise=10)
    assert low <= y[0] <= high
    assert 1.9 / 16**3 < high - low <= 2


def test_noise_alone_never_empties_a_range():
    for seed in range(50):
        low, high = zoomed(np.zeros(10), noise=1000, seed=seed)
        assert -1 <= low < high <= 1
        assert high - low > 1.9 / 16**3


def tail_of(sizes, noise=0.0, seed=0, **options):
    """A released histogram of sizes up to 2, in bins each twice as wide as the next."""
    edges = 2.0 * 2.0 ** -np.arange(12.0, 0.0, -1.0)
    counts = np.bincount(np.searchsorted(edges, sizes, side="right"), minlength=13)[::-1]
    drawn = counts + noise * np.random.default_rng(seed).standard_normal(13)
    return Tail.halving(drawn, float(len(sizes)), noise, 2.0, **options)


SIZES = np.random.default_rng(5).exponential(0.05, 50_000)


def test_shares_beyond_the_edges():
    tail = tail_of(SIZES)
    assert tail.edges == pytest.approx(2.0 * 2.0 ** -np.arange(1.0, 14.0))
    known = np.clip((SIZES[:, None] >= tail.edges).mean(axis=0), 1e-9, 0.999)
    assert tail.beyond[:-1] == pytest.approx(known[:-1], abs=1e-12)  # the last bin takes everybody
    assert tail.point(0.1) == pytest.approx(np.quantile(SIZES, 0.9), rel=0.15)
    raised = tail_of(SIZES, 30.0, caution=1.0).beyond - tail_of(SIZES, 30.0).beyond
    assert raised[:4] == pytest.approx(30 * np.sqrt(np.arange(1, 5)) / len(SIZES), rel=1e-6)


def test_bins_may_have_any_edges_and_noises():
    """One sd for all counts is the same as one for each; edges of any width count alike."""
    edges = np.array([1.5, 1.4, 0.3, 0.1, 0.0])
    counts = np.array([10.0, 0.0, 200.0, 300.0, 490.0])
    one = Tail(counts, 1000.0, 7.0, edges, 2.0)
    each = Tail(counts, 1000.0, np.full(5, 7.0), edges, 2.0)
    assert one.beyond == pytest.approx([0.01, 0.01, 0.21, 0.51, 0.999])
    assert each.limit(1.0) == pytest.approx(one.limit(1.0))
    assert each.farthest_clear == one.farthest_clear == 2
    assert each.max_beyond(edges).tolist() == one.max_beyond(edges).tolist()
    louder = Tail(counts, 1000.0, np.array([7.0, 7.0, 90.0, 7.0, 7.0]), edges, 2.0)
    assert louder.farthest_clear == 3
    assert louder.limit(0.2) > one.limit(0.2)


@pytest.mark.parametrize("noise", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("sizes", [np.zeros(1000), np.full(1000, 2.0), SIZES[:200]])
def test_a_point_is_always_a_size(sizes, noise):
    for seed in range(20):
        tail = tail_of(sizes, noise, seed)
        assert tail.edges[-1] <= tail.point(0.1) <= 2.0


def test_no_more_records_lie_beyond_a_size_than_is_stated():
    """In 39 of 40 fits at each edge, and it is no more than noise asks for: without it, the share."""
    shares = (SIZES[:20_000, None] >= tail_of(SIZES).edges).mean(axis=0)
    found = np.array(
        [tail_of(SIZES[:20_000], 35, seed).max_beyond(tail_of(SIZES).edges) for seed in range(400)]
    )
    assert (np.mean(found >= shares - 1e-12, axis=0)[:-1] > 0.95).all()
    exact = tail_of(SIZES[:20_000])
    assert exact.max_beyond(exact.edges)[:-1] == pytest.approx(shares[:-1])
    # between edges it is that of the edge below, and below all of them everybody
    assert exact.max_beyond(1.001 * exact.edges) == pytest.approx(exact.max_beyond(exact.edges))
    assert exact.max_beyond(np.array([exact.edges[-1] / 2])).tolist() == [1.0]


def test_a_limit_holds_what_a_clip_takes_off_whatever_the_tail():
    """In 39 of 40 fits, also of a few records far out, which no single count shows; without noise
    it is at most twice what lies beyond, as bins are that wide.
    """
    few = np.concatenate([SIZES[:19_800], np.full(200, 0.9)])
    for sizes in (SIZES[:20_000], few):
        cut = np.maximum(sizes - 0.4, 0).mean()
        limits = np.array([tail_of(sizes, 35, seed).limit(0.4) for seed in range(400)])
        assert np.mean(limits > cut) > 0.95
        assert cut < tail_of(sizes).limit(0.4) < np.mean(sizes * (sizes > 0.2)) * 2
    laws = [TailLaw(tail_of(few, 35, seed)) for seed in range(100)]
    assert np.mean([law.excess(0.4) < cut for law in laws]) > 0.2


def test_an_end_that_noise_may_have_filled_is_cut():
    """Two deviations of the noise of all counts so far, or .4 per cent of the records."""
    middle = np.zeros(BINS)
    middle[4:12] = 200.0
    noise = 10.0
    for bins in (1, 4):  # in one bin at the end, or in as many as there are
        limit = 2 * noise * np.sqrt(bins)
        for factor, low in ((0.99, 4.0), (1.01, bins - 1.0)):
            end = np.zeros(BINS)
            end[bins - 1] = factor * limit
            assert narrowed(middle + end, 0.0, 16.0, 1600.0, noise) == (low, 12.0)
            assert narrowed((middle + end)[::-1], 0.0, 16.0, 1600.0, noise) == (4.0, 16 - low)
    crowd = 1e6  # where .4 per cent is far more than the noise
    for share, low in ((0.0039, 4.0), (0.0041, 0.0)):
        end = middle * 1000
        end[0] = share * crowd
        assert narrowed(end, 0.0, 16.0, crowd, noise) == (low, 12.0)


# --- the sizes of counts


def sizes_of(y, noise=0.0, seed=0):
    """What the histogram of counts over their bound says."""
    what = histogram(count_edges(), Adjacency.REPLACE)
    counts = what.of_block(Block(np.ones((len(y), 1)), y))[::-1]
    drawn = counts + noise * np.random.default_rng(seed).standard_normal(COUNT_BINS)
    return CountSizes.of(Tail.halving(drawn, float(len(y)), noise, 1.0))


def test_the_bins_of_counts_are_six_decades_and_hold_everybody():
    edges = count_edges()
    assert len(edges) == COUNT_BINS - 1
    assert edges[::-1] == pytest.approx(2.0 ** -np.arange(1.0, COUNT_BINS))
    y = np.array([0.0, 1e-300, 1e-7, 0.49, 0.5, 1.0, 7.0])
    counts = histogram(edges, Adjacency.REPLACE).of_block(Block(np.ones((7, 1)), y))
    assert counts.sum() == 7
    assert counts[0] == 3
    assert counts[-1] == 3
    # an outcome on an edge is above it, whatever the rounding of a logarithm would say
    for k in range(1, COUNT_BINS):
        place = histogram(edges, Adjacency.REPLACE).of_block(
            Block(np.ones((1, 1)), np.array([2.0**-k]))
        )
        assert place[::-1].argmax() == k - 1


@pytest.mark.parametrize("bound", [50.0, 1e3, 1e6])
@pytest.mark.parametrize("noise", [1.0, 30.0])
def test_what_the_sizes_say_of_counts(bound, noise):
    """Their mean to a factor of sqrt 2, as bins are that wide; how far they go; a cap below that."""
    y = np.random.default_rng(3).poisson(2.0 * np.random.default_rng(4).gamma(1, 1, 20_000))
    for seed in range(5):
        found = sizes_of(np.minimum(y / bound, 1.0), noise, seed)
        assert 2 / 1.5 < found.mean * bound < 2 * 1.5
        assert found.capped <= found.mean
        assert 0 < found.shows <= 1
        assert found.cap <= 1
        assert found.reach <= 1
        assert 5 < found.reach * bound < 50
        assert 2 < found.cap * bound < 50


@pytest.mark.parametrize("noise", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("y", [np.zeros(1000), np.ones(1000), np.full(1000, 1e-9)])
def test_sizes_are_always_sizes(y, noise):
    for seed in range(20):
        found = sizes_of(y, noise, seed)
        assert 0 < found.capped <= found.cap <= 1
        assert 0 < found.mean <= 1
        assert 0 < found.shows <= 1
        assert 0 < found.reach <= 1


@pytest.mark.parametrize(("mean", "bound"), [(30, 96), (60, 192), (60, 360)])
def test_the_mean_of_outcomes_that_are_alike(mean, bound):
    """Where next to all of them are in one bin, the tail does not reach through the empty ones: the
    mean is right to a factor of sqrt 2, as a bin is that wide on either side of its middle.
    """
    y = np.random.default_rng(4).poisson(mean, 20_000) / bound
    for noise in (1.0, 30.0):
        assert abs(np.log(sizes_of(y, noise).mean / y.mean())) < np.log(2) / 2


@pytest.mark.parametrize("bound", [100.0, 1e6])
def test_few_events_are_seen_below_a_generous_bound(bound):
    """In one bin, nine deviations of its noise: with the noise of all empty bins above they would be
    hidden in some fits, and the mean far too small.
    """
    y = np.zeros(20_000)
    y[:720] = 1 / bound
    for seed in range(20):
        what = histogram(count_edges(), Adjacency.REPLACE)
        counts = what.of_block(Block(np.ones((len(y), 1)), y))[::-1]
        drawn = counts + 80 * np.random.default_rng(seed).standard_normal(COUNT_BINS)
        found = CountSizes.of(Tail.halving(drawn, 20_000.0, 80.0, 1.0, generous=True))
        assert 1 <= found.reach * bound < 4
        assert 0.2 < found.mean / y.mean() < 5


def test_noise_alone_is_seldom_seen_below_a_generous_bound():
    """About as seldom as with all bins beyond an edge together: one in a hundred."""
    seen = 0
    for seed in range(2000):
        counts = np.random.default_rng(seed).standard_normal(COUNT_BINS)
        tail = Tail.halving(counts, 1e4, 1.0, 1.0, generous=True)
        seen += tail.farthest_clear < COUNT_BINS
    assert seen < 40


# --- influences


def test_influences_are_counted_in_the_bins_of_their_tail():
    """A bin holds what its edges say, the largest first, beyond the largest in the first."""
    sizes = np.array([5.0, 1.99, 1.0, 0.999, 0.25, 2.0 * 2.0**-12, 1e-9, 0.0])
    block = Block(np.ones((8, 1)), sizes)
    counts = influence_histogram(2.0, Adjacency.REPLACE).of_block(block)
    tail = Tail.halving(counts, 8.0, 1.0, 2.0)
    beyond = (sizes[:, None] >= tail.edges).sum(axis=0)
    assert np.cumsum(counts)[:-1].tolist() == beyond[:-1].tolist()
    assert counts.sum() == 8
