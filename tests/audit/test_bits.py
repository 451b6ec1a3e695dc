"""Attacks on the last bits of every path to a release: at chance on ours, while the same code
breaks float noise.

200 runs a path; the default fit, of 4,000 records, gets 60.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

import dpinfer as dp
import dpinfer.fit.recipe
from audit.attack import (
    FloatGate,
    Transcript,
    fits_objective,
    fits_sum,
    identify,
    of_objective,
    of_output,
    of_sum,
    of_transcript,
    released,
    rounding,
)  # fmt: skip
from dpinfer.adjacency import Adjacency
from dpinfer.audit import grid_evidence
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import BoundedSum, moment_and_score
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import LaplaceMinimum, NoisyMinimum, NoisySum, PerturbedMinimum, grid
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from helpers.support import labelled

RUNS, FITS, SURE = 200, 60, 0.01


def turned(n, d):
    """Labelled rows, and the same with the last one turned round."""
    X, y = labelled(n, d)
    other = X.copy()
    other[-1] = -other[-1][::-1]
    return Rows.of(X, y), Rows.of(other, y)


def empty(n, row):
    """Zero rows, and the same with one that is not."""
    X, y = np.zeros((n, len(row))), np.ones(n)
    other = X.copy()
    other[-1] = row
    return Rows.of(X, y), Rows.of(other, y)


@dataclass(frozen=True)
class Path:
    """Two neighbours, what is released of them, and the attack."""

    pair: tuple[Rows, Rows]
    booked: Any
    what: Any
    evidence: Any

    def score(self, gate, runs=RUNS):
        return identify(
            self.pair,
            lambda source, seed: released(gate, self.booked, source, self.what, seed),
            lambda out, source: self.evidence(out, source, self.what),
            runs,
        )


ROW = [0.9, 0.3, 0.2, 0.1, 0.1, 0.1]
RIDGED, STRONG = Risk.penalised(dp.Logistic(), 0.05, 20), Risk.penalised(dp.Logistic(), 0.4, 20)
STRAIGHT = Risk.penalised(dp.HuberHinge(0.5), 4.0, 8)  # λ = 64, and no margin comes near the knee
MOMENTS = moment_and_score(Adjacency.REPLACE)
ON_GRID = {
    "sum": Path(turned(20, 6), NoisySum("s", dp.ZCDP(0.02), MOMENTS.bound), MOMENTS, of_sum),
    "output": Path(turned(20, 9), NoisyMinimum.of("s", dp.ZCDP(0.02), RIDGED), RIDGED, of_output),
    "objective": Path(
        turned(20, 20), PerturbedMinimum.of("s", dp.ZCDP(0.02), STRONG), STRONG, of_objective
    ),
}
IN_FORMAT = {
    "sum": Path(
        empty(8, ROW),
        NoisySum("s", dp.PureDP(1.0), 1.0),
        BoundedSum(lambda b: b.rows.sum(axis=0), 1.0),
        fits_sum,
    ),
    "objective": Path(
        empty(8, ROW),
        LaplaceMinimum.of("s", dp.PureDP(1.0), STRAIGHT, sharp=False),
        STRAIGHT,
        fits_objective,
    ),
}


def limits(hits, runs):
    """Clopper-Pearson, 99 % two-sided."""
    low = beta.ppf(SURE / 2, hits, runs - hits + 1) if hits else 0.0
    return low, beta.ppf(1 - SURE / 2, hits + 1, runs - hits) if hits < runs else 1.0


def at_chance(score):
    low, high = limits(score.hits, score.runs)
    return low <= 0.5 <= high


@pytest.mark.parametrize("path", ON_GRID.values(), ids=ON_GRID)
def test_gaussian_noise_is_on_no_grid_of_floats(path):
    assert path.score(FloatGate).hits >= 0.9 * RUNS
    assert at_chance(path.score(Gate))


def refutes(score, epsilon):
    """Whether some entry that no double can give speaks for the first data set more often than ε
    allows.

    Laplace numbers share one random radius, so there is no grid to compare with, and who is right
    more often than not is bounded by ε anyway.  But what the second data set can never give must
    not happen with the first either.
    """
    events = [sum(difference > 0 for difference in side) for side in (score.first, score.second)]
    each = score.runs // 2
    return limits(events[0], each)[0] > np.exp(epsilon) * limits(events[1], each)[1]


@pytest.mark.parametrize("path", IN_FORMAT.values(), ids=IN_FORMAT)
def test_laplace_noise_has_no_impossible_doubles(path):
    old, new = path.score(FloatGate), path.score(Gate)
    assert refutes(old, 1.0)
    assert not any(difference > 0 for difference in old.second)  # impossible indeed
    assert not refutes(new, 1.0)
    assert limits(new.hits, new.runs)[0] < np.e / (1 + np.e)


def test_our_own_grid_tells_nothing():
    """Whoever asks which sum is nearer to the grid of the release, or to its released point in
    steps, is at chance.
    """

    def nearer(out, source, what):
        step = grid(what.bound, out.value.size)
        steps = (out.value - source.total(what.of_block)) / step
        return -float(np.abs(steps - np.rint(steps)).sum())

    path = ON_GRID["sum"]
    assert at_chance(Path(path.pair, path.booked, path.what, nearer).score(Gate))
    out = released(Gate, path.booked, path.pair[0], path.what, 0)
    steps = out.value / grid(path.what.bound, out.value.size)
    assert np.array_equal(steps, np.rint(steps))


def test_output_perturbation_with_laplace_noise():
    """Minima are never 0, so no double is impossible; the grid of the normals is hidden by the
    common radius.
    """
    risk = RIDGED
    path = Path(
        turned(20, 9),
        NoisyMinimum.of("s", dp.PureDP(0.2), risk),
        risk,
        lambda out, source, what: _ratio(out, source),
    )
    assert at_chance(path.score(Gate))


def _ratio(out, source):
    """The grid test with the radius that fits best, as if the noise were Gaussian."""
    noise = out.value - minimum(RIDGED, source.total, np.zeros(source.dim)).coef
    return grid_evidence(noise, float(np.sqrt((noise**2).mean())), rounding(out.value, noise))


def data_of(n, d):
    """Arrays in the box and two neighbours, at two opposite corners of it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d - 1))
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, d - 1) - 0.3))).astype(int)
    X[-1], y[-1] = 1.0, 1
    other = X.copy(), y.copy()
    other[0][-1], other[1][-1] = -1.0, 0
    return (X, y), other


def fitted_score(runs, monkeypatch, gate, n=4_000, d=9):
    """How often the estimate of the default fit at (1, 1e-6) tells which of two neighbours was
    fitted.

    The attacker is given more than is published: the release itself, not the intervals made of it.
    """
    design = Design.of_bounds((-1.0, 1.0), tuple(f"x{j}" for j in range(d - 1)))
    pair, budget, seen = data_of(n, d), dp.ApproxDP(1.0, 1e-6), {}
    sources = [Rows.encoded(design.rows(X), 2.0 * y - 1, "margin") for X, y in pair]

    class Open(gate):
        def release(self, booked, source, what):
            out = super().release(booked, source, what)
            if booked.step == "estimate":
                seen["estimate"] = Transcript(out.value, booked, what)
            return out

    monkeypatch.setattr(dpinfer.fit.recipe, "Gate", Open)

    def release(truth, seed):
        dp.LogisticRegression(bounds=(-1, 1), budget=budget, insecure_seed=seed).fit(*pair[truth])
        return seen["estimate"]

    return identify((0, 1), release, lambda out, side: of_transcript(out, sources[side]), runs)


def test_the_default_fit(monkeypatch):
    ours = fitted_score(FITS, monkeypatch, Gate)
    assert at_chance(ours)
    assert fitted_score(FITS // 2, monkeypatch, FloatGate).hits >= 0.9 * FITS // 2
