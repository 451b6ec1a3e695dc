"""Bounds of the float errors, held against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

import dpinfer as dp
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import BLOCK, DEFAULT_MAX_RECORDS, SLACK, UNIT, Block, sum_error
from dpinfer.rows.source import Rows
from helpers.support import labelled


@pytest.mark.parametrize("private", [False, True])
def test_guarantee_float_sums(private):
    """Half of the slack is for two float sums; a block twice as long or a ceiling twice as high
    would not fit.
    """
    assert 2 * sum_error(private_number=private) <= SLACK / 2
    if private:
        assert 4 * sum_error(private_number=True) > SLACK / 2
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (50_000, 1)) * 10.0 ** rng.integers(-12, 1, (50_000, 1))
    source = Rows.of(rows, np.ones(len(rows)))
    for weigh in (lambda x: x, lambda x: x**2):
        found = source.total(lambda block, weigh=weigh: weigh(block.rows).sum(axis=-2))
        exact = math.fsum(weigh(source.block.rows)[:, 0])
        assert abs(found[0] - exact) <= 2 * UNIT * abs(exact) + (BLOCK + 8) * UNIT * len(rows)
    assert DEFAULT_MAX_RECORDS * 2 * UNIT < 1e-7


def test_blocks_are_added_with_compensation():
    """Many blocks of which each total is 1: a plain sum in the same order loses what compensation
    keeps.
    """
    rows = np.full((40 * BLOCK, 40), 0.1)
    source = Rows(Block(rows, np.ones(len(rows))))
    parts = []

    def of_block(block):
        found = np.ones((*block.stack, 1))
        if not parts:
            found[0] = 1e16
        parts.extend(found.ravel().tolist())
        return found

    found = source.total(of_block)[0]
    exact = sum(map(Fraction, parts), Fraction(0))
    assert found == float(exact)
    assert sum(parts) != found


def gradient(risk, rows, labels, coef, b):
    """The real gradient norm at a float point, by balls."""
    with ctx.workprec(200):
        theta = [arb(float(c)) for c in coef]
        total = [arb(float(risk.ridge)) * t + arb(float(x)) for t, x in zip(theta, b, strict=True)]
        for row, y in zip(rows, labels, strict=True):
            z = arb(float(y)) * sum(
                (arb(float(x)) * t for x, t in zip(row, theta, strict=True)), arb(0)
            )
            slope = -1 / (1 + z.exp())
            total = [
                g + slope * arb(float(y)) * arb(float(x)) for g, x in zip(total, row, strict=True)
            ]
        return float(sum((g**2 for g in total), arb(0)).sqrt().upper())


@pytest.mark.parametrize("penalty", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("size", [0.0, 10.0])
def test_guarantee_float_minimum(penalty, size):
    """The real gradient at the float minimum is within what strong convexity asks for; the bound is
    not idle.
    """
    X, y = labelled(60, 3, seed=4)
    risk, b = Risk.penalised(dp.Logistic(), penalty, 60), size * np.array([0.6, -0.3, 0.74])
    source = Rows.of(X, y)
    found = minimum(risk, source.total, b)
    assert found.gradient_norm <= risk.tolerance
    real = gradient(risk, source.block.rows, y, found.coef, b)
    assert real <= risk.ridge * risk.minimum_error(3)
    shifted = gradient(risk, source.block.rows, y, found.coef + 2 * risk.minimum_error(3), b)
    assert shifted > risk.ridge * risk.minimum_error(3)


def test_errors_grow_with_what_they_are_made_of():
    small, many = (Risk.penalised(dp.Logistic(), 1e-3, n) for n in (1000, 10**6))
    assert many.minimum_error(5) < 10 * small.minimum_error(5)  # over a ridge that grows as well
    assert small.minimum_error(5, 1e-3) > small.minimum_error(5) + 0.9e-3 / small.ridge
    assert Risk.penalised(dp.Logistic(), 1e-9, 10).reach > 1e4
