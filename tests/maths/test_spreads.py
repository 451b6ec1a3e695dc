"""Whether some outcomes spread more than others: by exact sums, under noise, and beside good reasons."""

from dataclasses import replace

import numpy as np
import pytest

from dpinfer.maths.arrays import svec, unsvec
from dpinfer.maths.spreads import (
    UNKNOWN_PART,
    Known,
    Spreads,
    beyond_doubt,
    part_of_one,
    unexplained,
)

_N = 4000
_D = 3
_LEVEL = np.array([0.0, 0.0, 1.0])  # picks the records of the level, as rows are (1, number, level)
_EVERYBODY = np.array([1.0, 0.0, 0.0])


def _rows(seed=0):
    rng = np.random.default_rng(seed)
    level = (rng.random(_N) < 0.3).astype(float)
    return np.column_stack([np.ones(_N), rng.normal(size=_N) / 3, level])


def _spreads(rows, squares, means=1.0, noise=0.0):
    """The sums of these rows, with a clip that no record comes near."""
    return Spreads(
        information=(rows * (means * np.ones(len(rows)))[:, None]).T @ rows,
        squares=(rows * squares[:, None]).T @ rows,
        information_noise=noise,
        squares_noise=noise,
        everybody=_EVERYBODY,
        clip=1e-6,
    )


def test_the_spread_of_some_records_is_theirs():
    rows = _rows()
    level = rows[:, 2] > 0
    means = np.where(level, 2.0, 0.5)
    squares = means * np.where(level, 3.0, 1.0)
    seen = _spreads(rows, squares, means)
    of_all = np.trace(seen.squares) / np.trace(seen.information)
    assert seen.of_some(_LEVEL, 1.0).value * of_all == pytest.approx(3.0)
    assert seen.of_some(_EVERYBODY - _LEVEL, 1.0).value * of_all == pytest.approx(1.0)
    assert seen.of_some(_LEVEL, 1.0).variance < 1e-9


def test_a_spread_that_is_a_straight_line_is_found():
    rows = _rows()
    coef = np.array([2.0, 0.7, 1.1])
    seen = _spreads(rows, rows @ coef)
    of_all = np.trace(seen.squares) / np.trace(seen.information)
    for toward in (np.array([0.0, 1.0, 0.0]), np.array([0.0, -0.5, 1.0])):
        assert seen.along(toward, 1.0).value * of_all == pytest.approx(toward @ coef)


def _noisy(seen, noise, seed):
    """The sums as they are released."""
    rng = np.random.default_rng(seed)

    def released(matrix):
        exact = svec(matrix)
        return unsvec(exact + noise * rng.normal(size=len(exact)), _D)

    return replace(seen, information=released(seen.information), squares=released(seen.squares))


@pytest.mark.parametrize("way", ["some", "along"])
def test_the_variance_is_that_of_the_noise(way):
    """Also of the noise of the information, which multiplies a spread; not of a wrong scale."""
    rows = _rows()
    noise = 12.0
    plain = _spreads(rows, 1 + 2 * rows[:, 2], noise=noise)
    fits = [_noisy(plain, noise, seed) for seed in range(2000)]
    if way == "some":
        found = [seen.of_some(_LEVEL, 1.0) for seen in fits]
    else:
        found = [seen.along(np.array([0.0, 0.6, 0.0]), 1.0) for seen in fits]
    seen = np.std([known.value for known in found])
    said = np.sqrt(np.mean([known.variance for known in found]))
    # that of some has a part of its noise in common with that of all, which is not counted
    assert 0.95 * seen < said < 1.3 * seen


@pytest.mark.parametrize("way", ["some", "along"])
def test_the_variance_has_that_of_sampling(way):
    """Clipped sizes of other samples: a bound, and not a loose one where many are at the clip."""
    rows = _rows()
    level = rows[:, 2] > 0
    clip = 1.0
    values = []
    said = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        sizes = np.where(rng.random(_N) < 0.02, clip, 0.1 * rng.random(_N))
        # a record whose row has the length l may have w ψ up to clip/l
        length2 = (rows**2).sum(axis=1)
        seen = replace(_spreads(rows, sizes**2 / length2), clip=clip)
        if way == "some":
            known = seen.of_some(_LEVEL, float(length2[level].mean()))
        else:
            known = seen.along(np.array([0.0, 0.6, 0.0]), float(length2.mean()))
        unit = np.trace(seen.squares) / np.trace(seen.information)
        values.append(known.value * unit)
        said.append(known.variance * unit**2)
    assert np.std(values) < 1.1 * np.sqrt(np.mean(said)) < 1.6 * np.std(values)


def test_good_reasons_are_taken_off():
    assert unexplained(Known(0.5, 0.1), (0.2, 0.7)) == Known(0.0, 0.1)
    assert unexplained(Known(0.5, 0.1), (0.7, 0.2)) == Known(0.0, 0.1)
    assert unexplained(Known(0.9, 0.1), (0.7, 0.2)).value == pytest.approx(0.2)
    assert unexplained(Known(-0.1, 0.1), (0.7, 0.2)).value == pytest.approx(-0.3)


@pytest.mark.parametrize("truth", [0.0, 0.3, 1.0])
def test_a_part_that_is_measured_well_is_the_one_measured(truth):
    found = part_of_one(Known(truth, 1e-4))
    # within two deviations: small parts are more likely before, which tells at 1
    assert found.value == pytest.approx(truth, abs=0.02)
    assert found.variance <= 1.1e-4


def test_a_part_that_is_measured_badly_is_any_part():
    for value in (-2.0, 0.5, 4.0):
        found = part_of_one(Known(value, 1e6))
        assert found.value == pytest.approx(UNKNOWN_PART.value, abs=1e-3)
        assert found.variance == pytest.approx(UNKNOWN_PART.variance, rel=0.02)


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_a_part_is_as_unsure_as_it_says(noise):
    """Over parts that are as likely as it takes them to be, and their noise."""
    rng = np.random.default_rng(1)
    truth = rng.beta(1, 3, 2000)
    found = [part_of_one(Known(one, noise**2)) for one in truth + noise * rng.normal(size=2000)]
    off = truth - np.array([known.value for known in found])
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(2000)
    assert np.mean(off**2) == pytest.approx(np.mean([known.variance for known in found]), rel=0.1)


@pytest.mark.parametrize("value", [-1e9, -30.0, 30.0, 1e9])
def test_a_part_beyond_its_ends_is_at_its_end(value):
    found = part_of_one(Known(value, 0.01))
    assert 0 <= found.value <= 1
    assert abs(found.value - (value > 0)) < 0.01
    assert found.variance >= 0


def test_noise_is_taken_off_on_either_side():
    assert beyond_doubt(Known(1.0, 0.04), 2.0) == pytest.approx(0.6)
    assert beyond_doubt(Known(-1.0, 0.04), 2.0) == pytest.approx(-0.6)
    assert beyond_doubt(Known(1.0, 0.04)) == pytest.approx(0.4)
    assert beyond_doubt(Known(0.3, 0.04), 2.0) == 0.0


def test_sums_and_units():
    assert Known(3.0, 0.2).less(Known(1.0, 0.3)) == Known(2.0, 0.5)
    assert Known(3.0, 0.2).times(-2.0) == Known(-6.0, 0.8)


def test_noise_alone_is_no_spread():
    """A matrix that is all noise: nothing is divided by next to nothing, and nothing is found."""
    nothing = Spreads(-np.eye(_D), -np.eye(_D), 5.0, 5.0, _EVERYBODY, 1.0)
    for known in (nothing.of_some(_LEVEL, 1.0), nothing.along(np.ones(_D), 1.0)):
        assert np.isfinite(known.value)
        assert beyond_doubt(known, 1.0) == 0.0
