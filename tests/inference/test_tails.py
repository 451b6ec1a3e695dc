"""Laws of a tail that released counts leave possible, and what a clip takes off by them."""

import numpy as np
import pytest
from scipy.stats import expon, genpareto, lognorm

from dpinfer.inference.constants import MIN_TAIL_RECORDS
from dpinfer.inference.tails import Tail, TailLaw

BINS = 13
LARGEST = 64.0


def counted(sizes, noise, seed=0, end=0.0, largest=LARGEST, bins=BINS):
    """A histogram in bins each twice as wide as the next, the largest first, as it is released."""
    edges = largest * 2.0 ** -np.arange(bins - 1.0, 0, -1)
    counts = np.bincount(np.searchsorted(edges, sizes, side="right"), minlength=bins)[::-1]
    drawn = counts + noise * np.random.default_rng(seed).normal(size=bins)
    return Tail.halving(drawn, float(len(sizes)), noise, largest, end=end)


def taken_off(sizes, clip):
    """The mean of what a clip takes off."""
    return float(np.maximum(sizes - clip, 0.0).mean())


LAWS = {"ξ 0": expon(), "ξ .2": genpareto(0.2), "ξ .4": genpareto(0.4), "log": lognorm(1.2)}
EVERY = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


@EVERY
def test_with_little_noise_it_is_the_law_of_the_sizes(law):
    sizes = np.minimum(law.rvs(400_000, random_state=1), LARGEST)
    found = TailLaw(counted(sizes, noise=2.0))
    for share in (0.05, 0.01):
        clip = float(np.quantile(sizes, 1 - share))
        assert found.excess(clip) == pytest.approx(taken_off(sizes, clip), rel=0.15)
        kept = np.mean(np.minimum(sizes, clip) ** 2)
        assert found.mean_square(clip) == pytest.approx(kept, rel=0.1)


def test_noise_that_hides_a_tail_leaves_room_for_it():
    """Records that the noise hides: E is right on average over laws heavy and light, more for light
    ones and less for heavy ones.
    """
    ratios = []
    for shape in (0.1, 0.2, 0.4):
        sizes = np.minimum(genpareto(shape).rvs(20_000, random_state=2), LARGEST)
        clip = float(np.quantile(sizes, 0.99))
        laws = [TailLaw(counted(sizes, noise=30.0, seed=seed)) for seed in range(20)]
        ratios.append(np.mean([law.excess(clip) for law in laws]) / taken_off(sizes, clip))
    assert abs(np.log(ratios).mean()) < np.log(1.3)
    assert np.abs(np.log(ratios)).max() < np.log(2)
    assert ratios[0] > ratios[-1]


# --- the class of laws


def index(shape, mean_excess, sizes):
    """The generalised failure rate s f(s)/P(s) of a generalised Pareto law beyond 1, from sizes."""
    scale = mean_excess * (1 - shape)
    return sizes / (scale + shape * (sizes - 1))


def test_the_failure_rate_of_no_law_falls():
    """s f(s)/P(s) of a tail does not fall with s, from the edge below s₀ on, where a law is one of the
    class: the body that lies before it has the index that the counts show.  Of one law, with its scale
    τ >= ξ s₀, it is increasing; there is none in which it falls, but for those at the rim.
    """
    # noise as large as this leaves every law possible
    law = TailLaw(counted(expon().rvs(20_000, random_state=12), noise=200.0))
    assert (law.weights > 0).all()
    sizes = np.linspace(1.0, 6.0, 200)
    increasing = []
    for shape, mean_excess in zip(law.shapes, law.mean_excesses, strict=True):
        scale = mean_excess * (1 - shape)
        assert scale >= 0.89 * shape
        inside = sizes[1 + shape * (sizes - 1) / scale > 0]
        rate = index(shape, mean_excess, inside)
        increasing.append((np.diff(rate) >= -1e-12).all())
    # of all shapes and mean excesses, those whose rate increases are there
    shapes, excesses = np.meshgrid(np.unique(law.shapes), np.unique(law.mean_excesses))
    assert sum(increasing) == (excesses * (1 - shapes) >= shapes).sum()


def test_laws_have_a_variance():
    shapes = np.unique(TailLaw(counted(expon().rvs(20_000, random_state=12), noise=60.0)).shapes)
    assert shapes.max() < 0.5
    assert shapes.min() > -0.5
    assert np.diff(shapes) == pytest.approx(1 / 24)  # a flat prior of shapes


def test_a_body_that_falls_off_fast_leaves_no_room_for_a_heavy_tail():
    """The last counts that are seen fall by 8 from bin to bin, an index of 3; a Pareto tail with a mean
    excess of s₀/2 has 1/ξ >= 3 there, so that heavier shapes have no weight.
    """
    law = TailLaw(counted(expon().rvs(20_000, random_state=12), noise=60.0))
    possible = law.weights > 1e-3 * law.weights.max()
    shapes = law.shapes[possible]
    assert (law.mean_excesses[possible] * (1 - shapes) >= 0.89 * shapes).all()


def test_it_is_an_average_over_laws():
    law = TailLaw(counted(expon().rvs(20_000, random_state=3), noise=20.0))
    assert law.weights.sum() == pytest.approx(1.0)
    assert (law.weights >= 0).all()
    clip = 1.5 * law.start
    sizes = np.geomspace(clip, max(law.ends.max(), clip), 4001)
    excess = np.trapezoid(law.beyond(sizes), sizes, axis=-1)
    # a curve of 150 points has a jump of each law at its end between two of them
    assert law.excess(clip) == pytest.approx(float(law.weights @ excess), rel=0.01)


# --- what a clip takes off


def test_inside_of_what_is_seen_it_is_what_is_counted():
    sizes = expon().rvs(200_000, random_state=4)
    law = TailLaw(counted(sizes, noise=1.0))
    clip = 0.3 * law.start
    assert law.excess(clip) == pytest.approx(taken_off(sizes, clip), rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_released_there_are_numbers(seed):
    """Counts of noise alone, or of one bin alone: finite, less for larger clips, none at the end."""
    rng = np.random.default_rng(seed)
    counts = 50 * rng.normal(size=BINS)
    counts[rng.integers(BINS)] += 1e4
    law = TailLaw(Tail.halving(counts, 1e4, 50.0, 2.0, end=1e6))
    clips = np.geomspace(1e-4, 2e6, 60)
    excess = np.array([law.excess(clip) for clip in clips])
    assert np.isfinite(excess).all()
    assert (excess >= 0).all()
    assert (np.diff(excess) <= 1e-9 * excess[:-1]).all()
    assert excess[0] > 0
    assert excess[-1] == 0.0
    sizes, beyond = law.curve
    assert (np.diff(sizes) > 0).all()
    assert ((beyond >= 0) & (beyond <= 1)).all()
    # below s₀ shares are counted, beyond it they follow the laws, which have one that suits all bins
    rises = np.diff(beyond)
    at_start = np.searchsorted(sizes, law.start) - 1
    assert rises[at_start] <= 4 * 50 * np.sqrt(BINS) / 1e4
    assert (np.delete(rises, at_start) <= 1e-12).all()


@EVERY
def test_the_excess_of_all_clips_falls_and_is_that_of_each(law):
    """E(b) is decreasing and convex, with the slope -P(s > b)."""
    found = TailLaw(counted(np.minimum(law.rvs(20_000, random_state=6), LARGEST), noise=30.0))
    clips, excess = found.excesses
    assert (np.diff(excess) < 0).all()
    _, beyond = found.curve
    slope = np.diff(excess) / np.diff(clips)
    assert (-slope <= beyond[:-1] + 1e-12).all()
    assert (-slope >= beyond[1:] - 1e-12).all()
    for k in (5, 100, 200, 290):
        assert found.excess(clips[k]) == pytest.approx(excess[k], rel=0.05)


@pytest.mark.parametrize("times", [1.0, 20.0], ids=["seen", "beyond the largest edge"])
def test_a_generous_end_costs_nothing(times):
    """A law ends where it expects next to no record more, however much larger sizes might be."""
    sizes = times * genpareto(0.3).rvs(20_000, random_state=11)
    near, far = (TailLaw(counted(sizes, noise=30.0, end=end)) for end in (1e5, 1e9))
    assert far.excess(4.0) == pytest.approx(near.excess(4.0), rel=1e-6)
    assert far.clip(1e-3) == pytest.approx(near.clip(1e-3), rel=1e-6)
    assert far.exceeded_by(MIN_TAIL_RECORDS) == pytest.approx(
        near.exceeded_by(MIN_TAIL_RECORDS), rel=1e-6
    )


def test_more_bins_below_a_generous_bound_cost_next_to_nothing():
    """Bins in which nobody is, up to a bound 64 times as far, judged with their neighbours alone."""
    sizes = genpareto(0.2).rvs(20_000, random_state=11)
    for seed in range(5):
        near = counted(sizes, 30.0, seed)
        empty = 30.0 * np.random.default_rng(100 + seed).normal(size=6)
        far = Tail.halving(np.append(empty, near.counts), near.n, 30.0, 64 * LARGEST, generous=True)
        assert TailLaw(far).excess(4.0) == pytest.approx(TailLaw(near).excess(4.0), rel=0.6)


def test_the_size_that_few_records_exceed():
    sizes = expon().rvs(20_000, random_state=13)
    found = np.array(
        [TailLaw(counted(sizes, 5.0, seed)).exceeded_by(MIN_TAIL_RECORDS) for seed in range(20)]
    )
    assert np.mean(found) == pytest.approx(np.log(20_000 / MIN_TAIL_RECORDS), rel=0.15)
    law = TailLaw(counted(sizes, 5.0))
    assert law.exceeded_by(1.0) > law.exceeded_by(MIN_TAIL_RECORDS) > law.exceeded_by(100.0)


# --- the clip


@pytest.mark.parametrize("cost", [1e-3, 1e-2])
def test_a_clip_is_the_best_of_the_sizes_where_they_are_seen(cost):
    """(cost b)² + E², E the mean of what b takes off the sizes themselves."""
    sizes = np.minimum(genpareto(0.2).rvs(400_000, random_state=5), LARGEST)
    clip = TailLaw(counted(sizes, noise=2.0)).clip(cost)
    lost = [(cost * b) ** 2 + taken_off(sizes, b) ** 2 for b in np.geomspace(0.1, LARGEST, 200)]
    assert (cost * clip) ** 2 + taken_off(sizes, clip) ** 2 < 1.1 * min(lost)


def test_a_clip_is_the_best_by_the_laws():
    law = TailLaw(counted(genpareto(0.4).rvs(20_000, random_state=6), noise=30.0))
    sizes = np.geomspace(law.start, LARGEST, 400)
    cost = [(1e-3 * b) ** 2 + law.excess(b) ** 2 for b in sizes]
    assert law.clip(1e-3) == pytest.approx(sizes[np.argmin(cost)], rel=0.05)
    assert law.clip(1e-3) > law.start


def test_without_noise_a_clip_takes_nothing_off():
    sizes = expon().rvs(6_000, random_state=7)
    assert TailLaw(counted(sizes, noise=1e-3)).clip(1e-9) > sizes.max()


def test_a_dearer_noise_clips_more():
    law = TailLaw(counted(genpareto(0.3).rvs(20_000, random_state=8), noise=30.0))
    clips = [law.clip(cost) for cost in (1e-3, 1e-2, 0.1)]
    assert clips == sorted(clips, reverse=True)
    assert clips[0] > clips[-1]


@pytest.mark.parametrize("seed", range(5))
def test_a_clip_is_always_a_size(seed):
    rng = np.random.default_rng(seed)
    counts = 50 * rng.normal(size=BINS)
    counts[rng.integers(BINS)] += 1e4
    law = TailLaw(Tail.halving(counts, 1e4, 50.0, 2.0, end=1e6))
    for cost in (1e-9, 1e-3, 1e3):
        assert law.tail.edges[-1] <= law.clip(cost) <= 1e6 * (1 + 1e-9)


def test_no_tail_begins_below_the_least_size():
    """Of distances in sds of a number: one of two values has none beyond its sd, and is not taken for
    a tail that begins at the middle.
    """
    tail = counted(np.full(20_000, 1.01), noise=30.0)
    assert TailLaw(tail).start < 1.0
    assert TailLaw(tail, min_start=1.0).start >= 1.0
