import multiprocessing
import os

import numpy as np
from scipy import stats

from dpinfer.maths.laws import SphericalLaplace
from dpinfer.privacy.noise import SystemRandomness, privacy_randomness
from support import directions_uniform, follows


def test_system_numbers_follow_their_laws(monkeypatch):
    """The transform of the operating system's bytes, with bytes that are the same each time."""
    monkeypatch.setattr(os, "urandom", np.random.default_rng(0).bytes)
    rng = SystemRandomness()
    assert follows(rng.standard_normal((50_000,)), stats.norm())
    assert follows(rng.standard_exponential((50_000,)), stats.expon())
    draws = SphericalLaplace(0.7).sample(rng, (20_000, 4))
    assert follows(np.linalg.norm(draws, axis=1), stats.gamma(4, scale=1 / 0.7))
    assert directions_uniform(draws)


def test_extreme_bytes_stay_finite(monkeypatch):
    for byte in (b"\x00", b"\xff"):
        monkeypatch.setattr(os, "urandom", lambda size, byte=byte: byte * size)
        assert np.isfinite(SystemRandomness().standard_normal((3,))).all()
        assert np.isfinite(SystemRandomness().standard_exponential((3,))).all()


def _draw(_):
    return tuple(privacy_randomness(None).standard_normal((4,)))


def test_guarantee_fresh_noise():
    here = {_draw(None) for _ in range(20)}
    assert len(here) == 20
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        there = pool.map(_draw, range(8))
    assert len(set(there) | here) == 28


def test_a_seed_repeats():
    assert np.array_equal(privacy_randomness(3).standard_normal((5,)), privacy_randomness(3).standard_normal((5,)))
