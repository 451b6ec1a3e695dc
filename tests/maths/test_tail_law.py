"""What a clip takes off, by the laws that released counts leave possible."""

import numpy as np
import pytest
from scipy.stats import expon, genpareto, lognorm

from dpinfer.maths.histograms import COARSE, Tail
from dpinfer.maths.tail_law import _PRIOR, _SHAPES, TailLaw

_BINS = 26
_LARGEST = 64.0


def _counted(sizes, noise, seed=0, end=0.0):
    """A histogram in bins by factors of sqrt 2, the largest first, as it is released."""
    edges = _LARGEST * 2.0 ** (-np.arange(_BINS - 1, 0, -1) / 2)
    counts = np.bincount(np.searchsorted(edges, sizes, side="right"), minlength=_BINS)[::-1]
    drawn = counts + noise * np.random.default_rng(seed).normal(size=_BINS)
    return Tail(drawn, float(len(sizes)), noise, _LARGEST, end=end)


def _coarse(sizes, noise, seed=0):
    """The same in bins by factors of two."""
    bins = _BINS // 2
    edges = _LARGEST * 2.0 ** -np.arange(bins - 1.0, 0, -1)
    counts = np.bincount(np.searchsorted(edges, sizes, side="right"), minlength=bins)[::-1]
    drawn = counts + noise * np.random.default_rng(seed).normal(size=bins)
    return Tail(drawn, float(len(sizes)), noise, _LARGEST, width=COARSE)


def _taken_off(sizes, clip):
    """The mean and the mean square of what a clip takes off."""
    beyond = np.maximum(sizes - clip, 0.0)
    return beyond.mean(), (beyond**2).mean()


@pytest.mark.parametrize(
    "law",
    [expon(), genpareto(0.2), genpareto(0.4), lognorm(1.2)],
    ids=["ξ 0", "ξ .2", "ξ .4", "log"],
)
def test_with_little_noise_it_is_the_law_of_the_sizes(law):
    sizes = np.minimum(law.rvs(400_000, random_state=1), _LARGEST)
    found = TailLaw(_counted(sizes, noise=2.0))
    for share in (0.05, 0.01):
        clip = float(np.quantile(sizes, 1 - share))
        mean, square = _taken_off(sizes, clip)
        assert found.excess(clip) == pytest.approx(mean, rel=0.15)
        assert found.square_excess(clip) == pytest.approx(square, rel=0.45)


def test_noise_that_hides_a_tail_leaves_room_for_it():
    """Records that the noise hides: by laws heavy and light it is about right, more for light ones and
    less for heavy ones, where one law through what is seen has too little.
    """
    root = []
    deviation = []
    drawn = []
    for shape in (0.1, 0.2, 0.4, 0.6):
        sizes = np.minimum(genpareto(shape).rvs(20_000, random_state=2), _LARGEST)
        clip = float(np.quantile(sizes, 0.99))
        mean, square = _taken_off(sizes, clip)
        laws = [TailLaw(_coarse(sizes, noise=30.0, seed=seed)) for seed in range(20)]
        root.append(np.mean([np.sqrt(law.excess(clip) / mean) for law in laws]))
        squares = [law.square_excess(clip) for law in laws]
        deviation.append(np.mean(np.sqrt(squares)) / np.sqrt(square))
        drawn.append(np.mean([np.sqrt(law.seen._drawn_excess(clip) / mean) for law in laws]))
    assert abs(np.log(root).mean()) < 0.15
    assert np.abs(np.log(root)).max() < 0.35
    assert abs(np.log(deviation).mean()) < 0.15
    assert np.abs(np.log(deviation)).max() < 0.6
    assert np.log(drawn).mean() < -0.1  # so this is worth its lines


@pytest.mark.parametrize("shape", [0.6, 0.8])
def test_a_tail_without_a_variance_is_seen_where_counts_show_it(shape):
    sizes = np.minimum(genpareto(shape).rvs(400_000, random_state=10), _LARGEST)
    found = TailLaw(_counted(sizes, noise=5.0))
    clip = float(np.quantile(sizes, 0.99))
    mean, square = _taken_off(sizes, clip)
    assert found.excess(clip) == pytest.approx(mean, rel=0.25)
    assert found.square_excess(clip) == pytest.approx(square, rel=0.8)


@pytest.mark.parametrize("times", [1.0, 20.0], ids=["seen", "beyond the largest edge"])
def test_a_generous_end_does_not_count(times):
    """A law ends where it expects next to no record more, however much larger sizes might be."""
    sizes = times * genpareto(0.3).rvs(20_000, random_state=11)
    near, far = (TailLaw(_counted(sizes, noise=30.0, end=end)) for end in (1e5, 1e9))
    assert far.excess(4.0) == pytest.approx(near.excess(4.0), rel=1e-6)
    assert far.square_excess(4.0) == pytest.approx(near.square_excess(4.0), rel=1e-6)
    assert far.clip(1e-3, 0.25) == pytest.approx(near.clip(1e-3, 0.25), rel=1e-6)


def test_a_tail_that_may_be_light_is_taken_for_a_light_one_first():
    """Noise leaves nearly all laws possible; were all as likely, more would be thought to lie beyond."""
    law = TailLaw(_coarse(expon().rvs(20_000, random_state=12), noise=60.0))
    heavy = np.broadcast_to(_SHAPES > 0.5, law._weights.shape)
    possible = _PRIOR > 0
    assert 0.01 < law._weights[heavy].sum() < 0.5 * (heavy & possible).sum() / possible.sum()


def test_it_is_an_average_over_laws():
    law = TailLaw(_counted(expon().rvs(20_000, random_state=3), noise=20.0))
    assert law._weights.sum() == pytest.approx(1.0)
    assert (law._weights >= 0).all()

    clip = 1.5 * law.start
    excess = np.zeros(law._weights.shape)
    square = np.zeros(law._weights.shape)
    for place, end in np.ndenumerate(law._ends):
        sizes = np.geomspace(clip, max(end, clip), 4001)
        beyond = law._beyond(sizes)[place]
        excess[place] = np.trapezoid(beyond, sizes)
        square[place] = np.trapezoid(2 * (sizes - clip) * beyond, sizes)
    assert law.excess(clip) == pytest.approx(float((law._weights * excess).sum()), rel=1e-5)
    assert law.square_excess(clip) == pytest.approx(float((law._weights * square).sum()), rel=1e-5)


def test_inside_of_what_is_seen_it_is_what_is_counted():
    sizes = expon().rvs(200_000, random_state=4)
    law = TailLaw(_counted(sizes, noise=1.0))
    clip = 0.3 * law.start
    mean, square = _taken_off(sizes, clip)
    assert law.excess(clip) == pytest.approx(mean, rel=0.05)
    assert law.square_excess(clip) == pytest.approx(square, rel=0.06)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_released_there_are_numbers(seed):
    """Counts of noise alone, or of one bin alone: finite, smaller for larger clips, none at the end."""
    rng = np.random.default_rng(seed)
    counts = 50 * rng.normal(size=_BINS)
    counts[rng.integers(_BINS)] += 1e4
    law = TailLaw(Tail(counts, 1e4, 50.0, 2.0, end=1e6))
    clips = np.geomspace(1e-4, 2e6, 60)
    excess = np.array([law.excess(clip) for clip in clips])
    square = np.array([law.square_excess(clip) for clip in clips])
    for values in (excess, square):
        assert np.isfinite(values).all()
        assert (np.diff(values) <= 1e-9 * values[:-1]).all()
        assert values[-1] == 0.0


@pytest.mark.parametrize("cost", [1e-3, 1e-2])
def test_a_clip_is_the_best_of_the_sizes_where_they_are_seen(cost):
    """(cost b)² + (E/4)², E the mean of what b takes off the sizes themselves."""
    sizes = np.minimum(genpareto(0.2).rvs(400_000, random_state=5), _LARGEST)
    clip = TailLaw(_coarse(sizes, noise=2.0)).clip(cost, 0.25)
    tried = np.geomspace(0.1, _LARGEST, 200)
    lost = [(cost * b) ** 2 + (0.25 * _taken_off(sizes, b)[0]) ** 2 for b in tried]
    at_clip = (cost * clip) ** 2 + (0.25 * _taken_off(sizes, clip)[0]) ** 2
    assert at_clip < 1.1 * min(lost)


def test_a_clip_is_the_best_by_what_the_laws_tell():
    law = TailLaw(_coarse(genpareto(0.4).rvs(20_000, random_state=6), noise=30.0))
    sizes = np.geomspace(law.start, _LARGEST, 400)
    cost = [(1e-3 * b) ** 2 + (0.25 * law.excess(b)) ** 2 for b in sizes]
    assert law.clip(1e-3, 0.25) == pytest.approx(sizes[np.argmin(cost)], rel=0.05)
    assert law.clip(1e-3, 0.25) > law.start


def test_without_noise_a_clip_takes_nothing_off():
    sizes = expon().rvs(6_000, random_state=7)
    assert TailLaw(_coarse(sizes, noise=1e-3)).clip(1e-9, 0.25) > sizes.max()


def test_a_dearer_noise_clips_more_and_bias_less():
    law = TailLaw(_coarse(genpareto(0.3).rvs(20_000, random_state=8), noise=30.0))
    clips = [law.clip(cost, 0.25) for cost in (1e-3, 1e-2, 0.1)]
    assert clips == sorted(clips, reverse=True)
    assert law.clip(1e-2, 0.5) > law.clip(1e-2, 0.25)


def test_wide_bins_tell_more_of_what_lies_beyond():
    """A count has the same noise however wide its bin is: the excess varies less from fit to fit."""
    sizes = np.minimum(genpareto(0.3).rvs(20_000, random_state=9), _LARGEST)
    clip = float(np.quantile(sizes, 0.98))

    def spread(counted):
        found = [TailLaw(counted(sizes, 30.0, seed)).excess(clip) for seed in range(60)]
        return np.std(np.log(found))

    assert spread(_coarse) < spread(_counted)


@pytest.mark.parametrize("seed", range(5))
def test_a_clip_by_the_laws_is_always_a_size(seed):
    rng = np.random.default_rng(seed)
    counts = 50 * rng.normal(size=13)
    counts[rng.integers(13)] += 1e4
    law = TailLaw(Tail(counts, 1e4, 50.0, 2.0, end=1e6, width=COARSE))
    for cost in (1e-9, 1e-3, 1e3):
        assert law.seen.edges[-1] <= law.clip(cost, 0.25) <= 1e6
