import os
import warnings

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


def _draw():
    return tuple(privacy_randomness(None).standard_normal((4,)).tolist())


def _draw_in_a_fork():
    """A draw of a child that inherited all of this process's memory."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        os.write(write, repr(_draw()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return drawn


def test_guarantee_fresh_noise(monkeypatch):
    assert len({_draw() for _ in range(20)}) == 20
    forks = {_draw_in_a_fork() for _ in range(4)}
    assert len(forks) == 4
    assert "" not in forks
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or urandom(size))
    rng = privacy_randomness(None)
    for _ in range(3):
        rng.standard_normal((5,))
        rng.standard_exponential((2,))
    assert asked == [40, 16] * 3  # every number of every draw is the operating system's


def test_a_seed_repeats():
    assert np.array_equal(privacy_randomness(3).standard_normal((5,)), privacy_randomness(3).standard_normal((5,)))
