"""What a clip takes off, by the laws that released counts leave possible."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import expon, genpareto, lognorm

from dpinfer.maths.histograms import COARSE, Tail
from dpinfer.maths.tail_law import TailLaw

_BINS = 26
_LARGEST = 64.0


def _counted(sizes, noise, seed=0, end=0.0):
    """A histogram in bins by factors of sqrt 2, the largest first, as it is released."""
    edges = _LARGEST * 2.0 ** (-np.arange(_BINS - 1, 0, -1) / 2)
    counts = np.bincount(np.searchsorted(edges, sizes, side="right"), minlength=_BINS)[::-1]
    drawn = counts + noise * np.random.default_rng(seed).normal(size=_BINS)
    return Tail(drawn, float(len(sizes)), noise, _LARGEST, end=end)


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
        assert found.deviation(clip) == pytest.approx(np.sqrt(square), rel=0.2)


def test_noise_that_hides_a_tail_leaves_room_for_it():
    """Records that the noise hides: one law through what is seen has far too little beyond a clip."""
    sizes = np.minimum(genpareto(0.4).rvs(20_000, random_state=2), _LARGEST)
    clip = float(np.quantile(sizes, 0.99))
    mean, square = _taken_off(sizes, clip)
    laws = [TailLaw(_counted(sizes, noise=30.0, seed=seed)) for seed in range(20)]
    excess = np.mean([law.excess(clip) for law in laws])
    root = np.mean([law.deviation(clip) for law in laws])
    drawn = np.mean([law.seen._drawn_excess(clip) for law in laws])
    assert 0.7 * mean < excess < 1.6 * mean
    assert 0.7 * np.sqrt(square) < root < 1.6 * np.sqrt(square)
    assert drawn < 0.7 * mean  # so this is worth its lines


def test_it_is_an_average_over_laws():
    law = TailLaw(_counted(expon().rvs(20_000, random_state=3), noise=20.0))
    assert law._weights.sum() == pytest.approx(1.0)
    assert (law._weights >= 0).all()

    def beyond(size):
        return float((law._weights * law._beyond(np.array([size]))[..., 0]).sum())

    clip = 1.5 * law.start
    mean = quad(beyond, clip, _LARGEST, epsabs=1e-12)[0]
    assert law.excess(clip) == pytest.approx(mean, rel=1e-6)
    sizes = np.geomspace(clip, _LARGEST, 20_001)
    squares = np.trapezoid(2 * (sizes - clip) * law._beyond(sizes), sizes, axis=-1)
    roots = float((law._weights * np.sqrt(squares)).sum())
    assert law.deviation(clip) == pytest.approx(roots, rel=1e-5)


def test_inside_of_what_is_seen_it_is_what_is_counted():
    sizes = expon().rvs(200_000, random_state=4)
    law = TailLaw(_counted(sizes, noise=1.0))
    clip = 0.3 * law.start
    mean, square = _taken_off(sizes, clip)
    assert law.excess(clip) == pytest.approx(mean, rel=0.05)
    assert law.deviation(clip) == pytest.approx(np.sqrt(square), rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_released_there_are_numbers(seed):
    """Counts of noise alone, or of one bin alone: finite, smaller for larger clips, none at the end."""
    rng = np.random.default_rng(seed)
    counts = 50 * rng.normal(size=_BINS)
    counts[rng.integers(_BINS)] += 1e4
    law = TailLaw(Tail(counts, 1e4, 50.0, 2.0, end=1e6))
    clips = np.geomspace(1e-4, 2e6, 60)
    excess = np.array([law.excess(clip) for clip in clips])
    deviation = np.array([law.deviation(clip) for clip in clips])
    for values in (excess, deviation):
        assert np.isfinite(values).all()
        assert (np.diff(values) <= 1e-9 * values[:-1]).all()
        assert values[-1] == 0.0


def _coarse(sizes, noise, seed=0):
    """The same in bins by factors of two."""
    bins = _BINS // 2
    edges = _LARGEST * 2.0 ** -np.arange(bins - 1.0, 0, -1)
    counts = np.bincount(np.searchsorted(edges, sizes, side="right"), minlength=bins)[::-1]
    drawn = counts + noise * np.random.default_rng(seed).normal(size=bins)
    return Tail(drawn, float(len(sizes)), noise, _LARGEST, width=COARSE)


@pytest.mark.parametrize("cost", [1e-3, 1e-2])
def test_a_clip_is_the_best_of_the_sizes_where_they_are_seen(cost):
    """(cost b)² + (E/4)², E the mean of what b takes off the sizes themselves."""
    sizes = np.minimum(genpareto(0.2).rvs(400_000, random_state=5), _LARGEST)
    clip = TailLaw(_coarse(sizes, noise=2.0)).clip(cost, 0.25)
    tried = np.geomspace(0.1, _LARGEST, 200)
    lost = [(cost * b) ** 2 + (0.25 * _taken_off(sizes, b)[0]) ** 2 for b in tried]
    at_clip = (cost * clip) ** 2 + (0.25 * _taken_off(sizes, clip)[0]) ** 2
    assert at_clip < 1.1 * min(lost)


def test_a_clip_averages_squares_over_the_laws():
    """So it is no smaller than that of the average law: a heavy one counts by what it would cost."""
    law = TailLaw(_coarse(genpareto(0.4).rvs(20_000, random_state=6), noise=30.0))
    sizes = np.geomspace(law.start, _LARGEST, 400)
    of_mean = [(1e-3 * b) ** 2 + (0.25 * law.excess(b)) ** 2 for b in sizes]
    assert law.clip(1e-3, 0.25) > sizes[np.argmin(of_mean)] > law.start


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
