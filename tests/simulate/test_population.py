import numpy as np
import pytest
from scipy import stats

from dpinfer.simulate.population import bootstrap_counts


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 1001])
def test_every_replicate_has_n_draws(n):
    counts = bootstrap_counts(3, range(50), n)
    assert counts.dtype == np.uint8
    assert counts.shape == (50, n)
    assert np.all(counts.sum(axis=1) == n)


def test_counts_are_multinomial():
    n = 500
    counts = bootstrap_counts(0, range(4000), n).astype(int)
    seen = np.bincount(counts.ravel(), minlength=8)
    expected = stats.binom(n, 1 / n).pmf(np.arange(8)) * counts.size
    assert (
        stats.chisquare(seen[:6], expected[:6] * seen[:6].sum() / expected[:6].sum()).pvalue > 1e-4
    )
    means = (counts.mean(axis=0) - 1) * np.sqrt(4000 / (1 - 1 / n))
    assert stats.kstest(means, "norm").pvalue > 1e-4
    pairs = np.corrcoef(counts[:, :60].T)[np.triu_indices(60, 1)] * np.sqrt(4000)
    assert abs(pairs.mean() + np.sqrt(4000) / n) < 5 / np.sqrt(len(pairs))
    assert np.corrcoef(counts[:-1].ravel(), counts[1:].ravel())[0, 1] == pytest.approx(
        0, abs=5 / np.sqrt(counts.size)
    )


def test_a_replicate_depends_on_seed_and_number_alone():
    whole = bootstrap_counts(7, range(20), 100)
    assert np.array_equal(whole[5:9], bootstrap_counts(7, range(5, 9), 100))
    assert not np.array_equal(whole, bootstrap_counts(8, range(20), 100))
    assert len({row.tobytes() for row in whole}) == 20


def test_known_truth_splits_the_draws_by_label():
    p = np.linspace(0, 1, 200)
    counts = bootstrap_counts(0, range(3000), 200, p).astype(int)
    assert counts.shape == (3000, 400)
    assert np.all(counts.sum(axis=1) == 200)
    expected = np.concatenate([p, 1 - p])
    z = (counts.mean(axis=0) - expected)[1:-1] / np.sqrt(expected[1:-1] / 3000 + 1e-12)
    assert np.abs(z[np.isfinite(z)]).max() < 5
    assert counts[:, 0].max() == 0  # probability 0 of the label +1
