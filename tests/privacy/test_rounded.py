"""Rounded noise has its exact law: floats, balls and the edges of the law itself agree on the same
bits.
"""

import math
import os
import signal
import threading
import time
import warnings
from fractions import Fraction
from unittest.mock import MagicMock

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy import stats
from scipy.special import ndtri

from dpinfer.errors import InputError
from dpinfer.numerics.noise_laws import Gaussian, Laplace, SphericalLaplace
from dpinfer.privacy import balls
from dpinfer.privacy import noise as rounded
from dpinfer.privacy.noise import (
    SeededBits,
    SystemBits,
    rounded_gaussian,
    rounded_laplace,
    rounded_laplaces,
)
from helpers.forking import in_a_child
from helpers.support import SIGNIFICANCE, directions_uniform, follows

DIMENSIONS = [1, 2, 5, 10, 66]


class Forged:
    """Given words; what follows is given too, and then comes from a seed."""

    def __init__(self, words, following=(), seed=0):
        self.given = np.array(words, dtype=np.uint64)
        self.following = list(following)
        self.rest = SeededBits(seed)
        self.asked = 0

    def words(self, size, /):
        assert size == len(self.given)
        return self.given

    def more(self, count, /):
        self.asked += 1
        return self.following.pop(0) if self.following else self.rest.more(count)


class Counted(SeededBits):
    """How many words were drawn, call by call."""

    def __init__(self, seed):
        super().__init__(seed)
        self.drawn = []

    def words(self, size, /):
        self.drawn.append(size)
        return super().words(size)


def upper_tail(j, scale, precision=400):
    """P(scale Z > j + 1/2), as a ball."""
    ratio = Fraction(2 * j + 1, 2) / Fraction(scale)
    with ctx.workprec(precision):
        return (arb(fmpq(ratio.numerator, ratio.denominator)) / arb(2).sqrt()).erfc() / 2


def between_its_edges(size, tail, known, scale):
    """Whether round(scale |Z|) is ``size`` for every tail probability in [tail, tail + 1]/2^known,
    by erfc alone.
    """
    with ctx.workprec(400):
        below = size == 0 or arb((tail + 1, -known)) <= upper_tail(size - 1, scale)
        return bool(below and upper_tail(size, scale) <= arb((tail, -known)))


def by_balls_alone(monkeypatch):
    """Floats never decide."""
    monkeypatch.setattr(rounded, "_MARGIN", 1e9)


def typical(number, law):
    """Whether a number lies between the far quantiles of a law."""
    return SIGNIFICANCE / 2 < law.cdf(number) < 1 - SIGNIFICANCE / 2


def chi_square(draws, scale):
    """Whether counts fit P(N = j) = Φ((j + 1/2)/scale) - Φ((j - 1/2)/scale)."""
    reach = math.ceil(3.5 * scale)
    edges = np.array([-np.inf, *(np.arange(-reach, reach) + 0.5), np.inf]) / scale
    counts = np.histogram(draws / scale, edges)[0]
    p = np.diff(stats.norm.cdf(edges))
    return stats.chisquare(counts, len(draws) * p).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("scale", [1.0, 1.7, 30.0, Fraction(10, 3)])
def test_gaussian_counts(scale):
    draws = rounded_gaussian(scale, 100_000, SeededBits(1))
    assert draws.dtype == np.int64
    assert chi_square(draws, float(scale))
    assert not chi_square(draws, 1.04 * float(scale))
    assert not chi_square(draws, 0.96 * float(scale))


def test_a_scale_below_one():
    draws = rounded_gaussian(0.25, 100_000, SeededBits(2))
    assert (
        stats.binomtest(int(np.count_nonzero(draws)), 100_000, 2 * stats.norm.sf(2)).pvalue
        > SIGNIFICANCE
    )
    assert not rounded_gaussian(2.0**-60, 1000, SeededBits(2)).any()


@pytest.mark.parametrize(
    ("scale", "size"), [(2.0**12, 50_000), (2.0**20, 50_000), (2.0**40, 20_000), (2.0**60, 20_000)]
)
def test_gaussian_with_many_values(scale, size):
    """Squares as well: with few draws Kolmogorov and Smirnov alone would not see 4 %."""

    def fits(x):
        return follows(x, stats.norm()) and typical((x**2).sum(), stats.chi2(size))

    x = rounded_gaussian(scale, size, SeededBits(3)) / scale
    assert fits(x)
    assert not fits(x / 1.04)
    assert not fits(x * 1.04)


@pytest.mark.parametrize("scale", [1.0, 1.7, 2.0**12, Fraction(10**7, 3), 2.0**20, 2.0**33])
def test_floats_and_balls_agree(monkeypatch, scale):
    fast = rounded_gaussian(scale, 1000, SeededBits(4))
    by_balls_alone(monkeypatch)
    assert np.array_equal(rounded_gaussian(scale, 1000, SeededBits(4)), fast)


def test_floats_and_balls_agree_in_the_tails_and_the_middle(monkeypatch):
    """Tails of 2^-k at both ends of what floats are trusted with, and cells next to 1/2."""
    tails = [2**k + offset for k in range(8, 63) for offset in (-1, 0, 1, 2 ** (k - 2))]
    tails += [2**63 - 1, 2**63 - 2, 2**63 - 2**20]
    for scale in (1.0, 2.0**14, 2.0**20):
        fast = [rounded_gaussian(scale, 1, Forged([2 * tail]))[0] for tail in tails]
        assert [-rounded_gaussian(scale, 1, Forged([2 * tail + 1]))[0] for tail in tails] == fast
        with monkeypatch.context() as patch:
            by_balls_alone(patch)
            assert [rounded_gaussian(scale, 1, Forged([2 * tail]))[0] for tail in tails] == fast


def test_draws_lie_between_the_edges_of_the_law():
    for scale in (1.0, 1.7, 2.0**20, Fraction(2**20, 3)):
        words = SeededBits(5).words(300)
        forged = Forged(words)
        for word, draw in zip(
            words.tolist(), rounded_gaussian(scale, 300, forged).tolist(), strict=True
        ):
            assert draw == 0 or (draw < 0) == bool(word & 1)
            assert between_its_edges(abs(draw), word >> 1, 64, scale)
        assert forged.asked == 0


EDGES = [
    (0, 1.0),
    (3, 1.7),
    (5, 1.0),
    (10**6, 2.0**20),
    (3 * 2**20, 2.0**20),
    (2**40, 2.0**40),
    (0, 2.0**60),
]


@pytest.mark.parametrize(("j", "scale"), EDGES)
def test_a_cell_that_straddles_an_edge(j, scale):
    """The two sides have the probabilities of the two parts of the cell."""
    with ctx.workprec(400):
        edge = upper_tail(j, scale) * arb((1, 64))
        tail = int(edge.floor().unique_fmpz())
        beyond = float(edge - tail)  # the part of the cell with smaller tails: j + 1
    draws = [
        int(rounded_gaussian(scale, 1, Forged([2 * tail], seed=seed))[0]) for seed in range(800)
    ]
    if scale < 2.0**58:
        assert set(draws) <= {j, j + 1}
    over = sum(draw > j for draw in draws)
    assert stats.binomtest(over, 800, beyond).pvalue > SIGNIFICANCE
    for wrong in (beyond + 0.12, beyond - 0.12):
        assert not 0 <= wrong <= 1 or stats.binomtest(over, 800, wrong).pvalue < SIGNIFICANCE


@pytest.mark.parametrize(("j", "scale"), EDGES)
def test_bits_that_follow_an_edge(j, scale):
    """Four more words of bits that are those of the edge itself: undecided so far, decided by the
    next.
    """
    with ctx.workprec(800):
        digits = int((upper_tail(j, scale, 800) * arb((1, 320))).floor().unique_fmpz())
    word, follow = 2 * (digits >> 256), [(digits >> 64 * k) % 2**64 for k in (3, 2, 1, 0)]
    for last, expected in ((0, j + 1), (2**64 - 1, j)):
        forged = Forged([word], [*follow[:3], last])
        assert rounded_gaussian(scale, 1, forged)[0] == expected
        assert forged.asked == 4


@pytest.mark.parametrize("sign", [0, 1])
def test_extreme_words(sign):
    """Tails of 0 take more bits; beyond int64 the remainder modulo 2^64 is given."""
    for scale in (0.04, 1.0, 2.0**20, 2.0**60):
        forged = Forged([sign], [0, 0, 12345])
        draw = int(rounded_gaussian(scale, 1, forged)[0])
        assert forged.asked >= 3
        tail, known = 12345, 256
        if forged.asked > 3:
            again = SeededBits(0)
            for _ in range(forged.asked - 3):
                tail, known = tail << 64 | again.more(64), known + 64
        size = (-draw if sign else draw) % 2**64
        size += 2**64 if scale == 2.0**60 else 0  # about 18.1 · 2^60
        assert between_its_edges(size, tail, known, scale)
    for scale in (1.0, 2.0**20):
        assert rounded_gaussian(scale, 1, Forged([2**64 - 2 + sign])) == [0]


def test_remainders_of_sums():
    """A sum in int64 plus noise beyond int64 is the remainder of the whole."""
    noise = rounded_gaussian(2.0**60, 1, Forged([0], [2**63, 2**63]))
    assert noise[0] < 0  # about 9.1 · 2^60, beyond 2^63
    total = int((np.array([2**61]) + noise)[0])
    assert (total - 2**61 - int(noise[0])) % 2**64 == 0


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, math.nan, math.inf, 2.0**61, 2.0**-61, Fraction(10**400)]
)
def test_scales_out_of_range(scale):
    for draw in (rounded_gaussian, rounded_laplace, rounded_laplaces):
        with pytest.raises(InputError, match="scale"):
            draw(scale, 3)


def test_how_many_words_are_drawn():
    bits = Counted(6)
    for scale in (1.0, 2.0**20, 2.0**50):
        for size in (0, 1, 7):
            assert rounded_gaussian(scale, size, bits).shape == (size,)
        for m in (1, 2, 3, 66):
            assert rounded_laplace(scale, m, bits).shape == (m,)
    assert bits.drawn == [0, 1, 7, 2, 4, 5, 100] * 3
    with pytest.raises(InputError, match="one coordinate"):
        rounded_laplace(1.0, 0)


def used_probabilities(largest):
    """Where floats are asked, densely, with the ends of the range and the branches of ndtri."""
    rng = np.random.default_rng(7)
    joints = np.array([np.exp(-2), np.exp(-32), rounded._TRUSTED, largest])
    near = joints[:, None] * (1 + np.arange(-40, 41) * 2.0**-52)
    u = np.concatenate(
        [2.0 ** -rng.uniform(0, 48, 3000), rng.uniform(0, largest, 3000), near.ravel()]
    )
    u = np.concatenate([u, largest - 2.0 ** -np.arange(2, 54), 2.0 ** -np.arange(1, 49)])
    return u[(u >= rounded._TRUSTED) & (u <= largest)]


def test_floats_are_as_good_as_assumed():
    """Within 2^-37, with a factor of a thousand to spare."""

    def worst(values, truth):
        with ctx.workprec(120):
            return max(abs(float(arb(v) - t)) for v, t in zip(values.tolist(), truth, strict=True))

    with ctx.workprec(120):
        u = used_probabilities(0.5)
        assert (
            worst(ndtri(u), [-(2 * arb(p)).erfcinv() * arb(2).sqrt() for p in u.tolist()])
            < 2.0**-47
        )
        u = used_probabilities(1.0)
        assert worst(np.log(u), [arb(p).log() for p in u.tolist()]) < 2.0**-47


def test_float_bounds_hold_the_whole_cell():
    """Both ends of cells, by balls, lie within the floats' bounds, also where a cell is wide."""
    tails = [t for k in range(16, 63) for t in (2**k, 2**k + 1, 3 * 2 ** (k - 1) + 5)] + [2**63 - 1]
    words = np.array(tails, dtype=np.uint64)
    normal = np.array(rounded._normal_bounds(2 * words)).T.tolist()
    exponential = np.array(rounded._exponential_bounds(words)).T.tolist()
    with ctx.workprec(200):
        for tail, (low, high), (start, end) in zip(tails, normal, exponential, strict=True):
            for at in (arb((tail, -64)), arb((tail + 1, -64))):
                assert arb(low) <= (2 * at).erfcinv() * arb(2).sqrt() <= arb(high)
                assert arb(start) <= -at.log() <= arb(end)


def test_balls_hold_the_whole_cell():
    """The enclosure of a cell holds the quantiles of its ends, by a root that erfc confirms."""
    for tail in [
        1,
        12345,
        2**40,
        2**62 + 1,
        2**63 - 2,
        *(SeededBits(8).words(100) >> np.uint64(1)).tolist(),
    ]:
        with ctx.workprec(128):
            ball = balls.Cell(tail).normal()
        with ctx.workprec(400):
            low, high = ball.lower(), ball.upper()
            assert low.erfc() >= arb((tail + 1, -63))
            assert high.erfc() <= arb((tail, -63))


@pytest.mark.parametrize("m", DIMENSIONS)
def test_laplace_has_its_law(m):
    """Sums of radii as well: with few draws Kolmogorov and Smirnov alone would not see 4 %."""
    size = {1: 25_000, 2: 14_000, 5: 6000, 10: 4000, 66: 2000}[m]
    bits, scale = SeededBits(m), 2.0**16
    draws = np.array([rounded_laplace(scale, m, bits) for _ in range(size)])
    radius = np.linalg.norm(draws, axis=1)

    def fits(r):
        return follows(r, stats.gamma(m)) and typical(r.sum(), stats.gamma(m * size))

    assert fits(radius / scale)
    assert not fits(radius / scale / 1.04)
    assert not fits(radius / scale * 1.04)
    for j in {0, m - 1}:
        assert stats.binomtest(int((draws[:, j] > 0).sum()), size).pvalue > SIGNIFICANCE
    if m > 1:
        turned = np.roll(draws, 1, axis=1)
        assert directions_uniform(draws)
        assert directions_uniform(turned)
        turned[:, 0] *= 2
        assert not directions_uniform(turned)


def test_laplace_with_few_values():
    """For m = 1: P(N = j) from the density exp(-|b|/scale)/(2 scale)."""
    bits, law = SeededBits(9), stats.laplace(scale=1.7)
    draws = np.array([rounded_laplace(1.7, 1, bits)[0] for _ in range(15_000)])
    edges = np.array([-np.inf, *(np.arange(-8, 8) + 0.5), np.inf])
    counts = np.histogram(draws, edges)[0]
    assert stats.chisquare(counts, 15_000 * np.diff(law.cdf(edges))).pvalue > SIGNIFICANCE
    assert stats.chisquare(counts, 15_000 * np.diff(law.cdf(edges / 1.08))).pvalue < SIGNIFICANCE


def test_independent_laplace_has_its_law():
    draws = rounded_laplaces(2.0**30, 60_000, SeededBits(3)) * 2.0**-30
    assert follows(draws, stats.laplace())
    assert not follows(draws, stats.laplace(scale=1.06))
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
    assert rounded_laplaces(1.0, 0, SeededBits(0)).shape == (0,)


def test_independent_laplace_is_one_dimension_many_times(monkeypatch):
    """The same bits give the same numbers, by floats, by balls, and where both are needed."""
    for scale in (1.0, 2.0**18, 2.0**33):
        words = SeededBits(8).words(400)
        fast = rounded_laplaces(scale, 200, Forged(words))
        alone = [
            rounded_laplace(scale, 1, Forged([words[i], words[200 + i]]))[0] for i in range(200)
        ]
        with monkeypatch.context() as patch:
            by_balls_alone(patch)
            slow = rounded_laplaces(scale, 200, Forged(words))
        assert np.array_equal(fast, slow)
        assert np.array_equal(fast, alone)


@pytest.mark.parametrize("m", DIMENSIONS)
def test_laplace_floats_and_balls_agree(monkeypatch, m):
    size = max(40, 400 // m)
    for scale in (1.0, 2.0**18):
        words = [SeededBits(1000 * m + i).words((m + 1) // 2 + 1 - m % 2 + m) for i in range(size)]
        fast = [rounded_laplace(scale, m, Forged(w)) for w in words]
        with monkeypatch.context() as patch:
            by_balls_alone(patch)
            slow = [rounded_laplace(scale, m, Forged(w)) for w in words]
        assert np.array_equal(fast, slow)


def test_laplace_with_one_coordinate_in_doubt():
    """Some coordinates by floats and some by balls are the same as all by balls: a scale at which
    both happen.
    """
    m, scale, mixed = 10, 2.0**29, 0
    for seed in range(60):
        words = SeededBits(seed).words(16)
        whole = Forged(words)
        draws = rounded_laplace(scale, m, whole)
        half = rounded._normal_bounds(words[-m:])
        terms, squared = rounded._exponential_bounds(words[:5]), rounded._normal_bounds(words[5:6])
        low, high = (
            scale * np.sqrt(2 * terms[i].sum() + squared[i] ** 2) * half[i] for i in (0, 1)
        )
        doubtful = int((np.rint(low) != np.rint(high)).sum())
        mixed += 0 < doubtful < m
        alone = balls.settled(
            Fraction(scale), words[-m:], words[:5], words[5:6], Forged(words).more
        )
        assert np.array_equal(draws, np.where(words[-m:] & np.uint64(1), -np.array(alone), alone))
    assert mixed > 20


def test_laplace_cells_that_straddle_an_edge():
    """The centre of the cells is a half, so both sides have probability 1/2 up to the curvature
    within a cell.
    """
    words = [2**63 + 12345, 2**62 + 54321]  # -log U and |Z| about 1.1
    with ctx.workprec(300):
        centre = (-2 * arb((2 * words[0] + 1, -65)).log()).sqrt() * arb(2).sqrt()
        centre *= (arb((2 * (words[1] >> 1) + 1, -64))).erfcinv()
        scale = (arb(2**20) + arb(0.5)) / centre
        mantissa, exponent = scale.mid().man_exp()
    ratio = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    sign = -1 if words[1] & 1 else 1
    draws = [
        sign * int(rounded_laplace(ratio, 1, Forged(words, seed=seed))[0]) for seed in range(600)
    ]
    assert set(draws) == {2**20, 2**20 + 1}
    assert stats.binomtest(draws.count(2**20), 600).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("m", [1, 2, 5])
def test_laplace_of_extreme_words(m):
    """All bits 0 or 1: exponentials at infinity or 0, tails of 0, normals of 0."""
    count = (m + 1) // 2 + 1 - m % 2 + m
    assert np.abs(rounded_laplace(2.0**20, m, Forged([0] * count))).min() > 2**22
    assert np.abs(rounded_laplace(2.0**20, m, Forged([2**64 - 1] * count))).max() < 2


def test_precision_is_given_back():
    """Also by threads that draw at the same time, each with its own bits."""
    alone = [rounded_gaussian(2.0**50, 150, SeededBits(seed)) for seed in range(4)]
    found = [None] * 4

    def draw(seed):
        found[seed] = rounded_gaussian(2.0**50, 150, SeededBits(seed))

    with ctx.workprec(77):
        threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ctx.prec == 77
    assert np.array_equal(found, alone)


@pytest.mark.parametrize("precision", [2, 10, 1000])
def test_a_precision_that_others_change(monkeypatch, precision):
    """A wrong precision makes balls wider or slower, never wrong."""
    expected = rounded_gaussian(2.0**20, 50, SeededBits(10))
    by_balls_alone(monkeypatch)
    lock, workprec, asked = MagicMock(), ctx.workprec, []

    def meddling(bits):
        asked.append(bits)
        assert (
            lock.__enter__.call_count == lock.__exit__.call_count + 1
        )  # our threads keep to one at a time
        return workprec(precision if len(asked) % 2 else bits)

    monkeypatch.setattr(balls, "_PRECISION", lock)
    monkeypatch.setattr(balls, "ctx", MagicMock(workprec=meddling))
    assert np.array_equal(rounded_gaussian(2.0**20, 50, SeededBits(10)), expected)
    assert len(asked) >= 50


def test_a_fork_beside_a_drawing_thread():
    """The child can use balls, in all its threads: the lock was free when it was born, the
    precision the caller's.
    """
    inside = threading.Event()

    def draw():
        with balls._PRECISION, ctx.workprec(99):
            inside.set()
            time.sleep(0.1)

    def work():
        signal.alarm(5)  # a lock that stays shut ends the child, not the test
        assert ctx.prec == 53
        thread = threading.Thread(target=rounded_gaussian, args=(2.0**60, 3))
        thread.start()
        thread.join()

    thread = threading.Thread(target=draw)
    thread.start()
    inside.wait()
    assert in_a_child(work)
    thread.join()
    assert ctx.prec == 53


def _draw():
    return repr((rounded_gaussian(2.0**40, 3).tolist(), rounded_laplace(2.0**40, 3).tolist()))


def _draw_in_a_fork():
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        os.write(write, _draw().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return drawn


def test_no_two_draws_or_forks_share_noise():
    drawn = [_draw() for _ in range(10)] + [_draw_in_a_fork() for _ in range(4)]
    assert len(set(drawn)) == 14
    assert "" not in drawn


def test_every_bit_is_the_operating_systems(monkeypatch):
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or urandom(size))
    rounded_gaussian(1.0, 5)
    rounded_laplace(1.0, 2)
    assert asked == [40, 32]
    assert SystemBits().more(64).bit_length() <= 64
    assert asked[2:] == [8]


@pytest.mark.parametrize("bits", [SystemBits(), SeededBits(11)])
def test_more_bits(bits):
    for count in (1, 5, 8, 64, 65):
        drawn = [bits.more(count) for _ in range(200)]
        assert max(drawn) < 2**count
        for k in range(count):
            assert {d >> k & 1 for d in drawn} == {0, 1}


def test_a_seed_repeats():
    for draw in (
        lambda bits: rounded_gaussian(2.0**40, 5, bits),
        lambda bits: rounded_laplace(2.0**40, 5, bits),
    ):
        assert np.array_equal(draw(SeededBits(3)), draw(SeededBits(3)))
        assert not np.array_equal(draw(SeededBits(3)), draw(SeededBits(4)))


def test_guarantee_exactly_rounded():
    """A law in steps of a grid is its rounded draw: the scale over the step, or one over rate times
    step.
    """
    for law, draw in (
        (Gaussian(3.7), rounded_gaussian(3.7 / 2**-9, 5, SeededBits(1))),
        (SphericalLaplace(0.25), rounded_laplace(4.0 / 2**-9, 5, SeededBits(1))),
        (Laplace(0.25), rounded_laplaces(4.0 / 2**-9, 5, SeededBits(1))),
    ):
        assert np.array_equal(rounded.rounded(law, 2**-9, 5, SeededBits(1)), draw)
    values = rounded.rounded(Gaussian(1.5), 2**-20, 200_000, SeededBits(2)) * 2.0**-20
    assert follows(values, stats.norm(scale=1.5))
    assert not follows(values, stats.norm(scale=1.04 * 1.5))


def test_guarantee_fresh_noise(monkeypatch):
    asked, urandom = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or urandom(size))
    draws = {
        tuple(rounded.rounded(Gaussian(1.0), 2**-20, 4, rounded.bits_of(None)).tolist())
        for _ in range(20)
    }
    assert len(draws) == 20
    assert asked[:20].count(32) >= 19  # every number of every draw is the operating system's
    first, second = (
        rounded.rounded(Gaussian(1.0), 2**-20, 4, rounded.bits_of(3)) for _ in range(2)
    )
    assert np.array_equal(first, second)
    for wrong in (-1, True, 1.5, "a"):
        with pytest.raises(InputError, match="insecure_seed"):
            rounded.bits_of(wrong)
