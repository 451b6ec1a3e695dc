"""Deviations from the means of a unit: bounded, and functions of the unit alone, in any order of its rows."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpinfer.mechanisms.sums import Block
from dpinfer.rows.encoded import Encoding, Raw
from dpinfer.rows.source import demeaned
from dpinfer.schema.columns import Category, Number
from dpinfer.schema.design import Design, OutcomeScale
from dpinfer.schema.terms import ModelTerms
from dpinfer.schema.unit import Unit

PANEL = Unit("one person", "id")


def design_of(*columns):
    terms = ModelTerms.plain(columns)
    return replace(Design.of_terms(terms, OutcomeScale(0.0, 1.0)), unit=PANEL).demeaned()


DESIGN = design_of(
    Number("a", -1, 3), Category("g", ("x", "y", "z"), "x"), Number("b", 0, 1, kind="boolean")
)


def drawn(rng, rows):
    levels = np.eye(3)[rng.integers(0, 3, rows)][:, 1:]
    numbers = rng.choice([-1.0, 3.0, 0.7, 99.0], rows)
    return np.column_stack([numbers, levels, rng.integers(0, 2, rows)])


def encoded(values, labels, ids):
    return Encoding(DESIGN, "residual").block(Raw(values, labels, ids))


@pytest.mark.parametrize("seed", range(4))
def test_guarantee_deviations_are_bounded(seed):
    """In real numbers, for far values, for cells that cannot be encoded, and however the rows of a unit are placed."""
    rng = np.random.default_rng(seed)
    rows = 60
    ids = rng.integers(0, 12, rows)
    ids[:6] = -1  # no id
    values = drawn(rng, rows)
    values[rng.random(rows) < 0.1, 0] = np.nan
    labels = rng.choice([-5.0, -1.0, 0.3, 1.0, np.nan], rows)
    block = encoded(values, labels, ids)
    for row, label in zip(block.rows, block.labels, strict=True):
        assert sum(Fraction(float(x)) ** 2 for x in row) <= 1
        assert -1 <= label <= 1
    # each unit alone, in another order, has the same rows: other units change nothing
    for unit in range(12):
        mine = rng.permutation(np.flatnonzero(ids == unit))
        alone = encoded(values[mine], labels[mine], np.zeros(len(mine), dtype=int))
        if not len(mine):
            continue
        place = np.flatnonzero(np.unique(ids[ids >= 0]) == unit)[0]
        ends = np.append(block.starts, len(block))
        together = block.rows[ends[place] : ends[place + 1]]
        order = np.argsort(mine)
        np.testing.assert_array_equal(alone.rows[order], together)


def test_deviations_are_those_of_the_values():
    rng = np.random.default_rng(1)
    values = drawn(rng, 30)
    values[:, 0] = rng.uniform(-1, 3, 30)
    labels = rng.uniform(-1, 1, 30)
    ids = np.repeat(np.arange(10), 3)
    block = encoded(values, labels, ids)
    means = values.reshape(10, 3, -1).mean(axis=1).repeat(3, axis=0)
    found = block.rows[:, 1:] * np.sqrt(DESIGN.norm2) * DESIGN.half[1:]
    np.testing.assert_allclose(found, values - means, atol=1e-12)
    own = labels.reshape(10, 3).mean(axis=1).repeat(3)
    np.testing.assert_allclose(DESIGN.outcome.half * block.labels, labels - own, atol=1e-12)


def test_a_row_that_cannot_be_encoded_is_in_no_mean():
    values = np.array([[0.0, 0, 0, 0], [2.0, 1, 0, 1], [np.nan, 0, 1, 1]])
    block = encoded(values, np.array([0.0, 0.5, 0.9]), np.zeros(3, dtype=int))
    found = block.rows[:, 1] * np.sqrt(DESIGN.norm2) * DESIGN.half[1]
    np.testing.assert_allclose(found, [-1, 1, 0], atol=1e-12)
    assert not block.rows[2].any()
    np.testing.assert_allclose(block.labels, [-0.125, 0.125, 0.0])


def test_what_is_constant_deviates_by_nothing():
    values = np.tile([0.1, 1, 0, 1], (7, 1))
    assert not encoded(values, np.full(7, 0.3), np.zeros(7, dtype=int)).rows[:, 1:].any()


def test_a_single_row_deviates_by_nothing():
    block = encoded(np.array([[2.5, 1, 0, 1]]), np.array([0.4]), np.zeros(1, dtype=int))
    assert not block.rows[0, 1:].any()
    assert block.labels[0] == 0


def test_no_rows_at_all():
    nothing = Block(np.zeros((0, 5)), np.zeros(0), starts=np.zeros(0, dtype=int))
    assert len(demeaned(nothing, np.ones(5))) == 0
