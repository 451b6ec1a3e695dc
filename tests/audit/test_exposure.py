"""The sum of exposures: one record, or one unit, moves it by at most 1."""

import math

import numpy as np
import pytest

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import exposure_total
from dpinfer.numerics.links import FARTHEST_OFFSET
from dpinfer.rows.encoded import Encoding, Raw
from dpinfer.schema.design import COUNT, CountScale, Design
from dpinfer.schema.unit import Unit

DESIGN = Design.of_bounds((-1.0, 1.0), ("a", "b"), CountScale.up_to(50.0), offset=math.log(3.0))
WHAT = exposure_total(FARTHEST_OFFSET * math.sqrt(DESIGN.norm2))
EXPOSURES = [0.0, -1.0, 1e-300, 1e-12, 0.3, 3.0, 3.0000001, 1e9, np.inf, np.nan]


def total(exposures, ids=None, weights=None, unit=None):
    """What some records add."""
    with np.errstate(all="ignore"):
        offset = np.log(np.asarray(exposures, dtype=float))
    values = np.column_stack([np.zeros((len(offset), 2)), offset])
    design = DESIGN
    if unit is not None:
        design = Design.of_bounds(
            (-1.0, 1.0), ("a", "b"), CountScale.up_to(50.0), offset=math.log(3.0)
        )
        object.__setattr__(design, "unit", unit)
    raw = Raw(values, np.ones(len(offset)) / 50, ids, weights)
    return float(WHAT.of_block(Encoding(design, COUNT).block(raw))[0])


@pytest.mark.parametrize("notion", Adjacency)
def test_guarantee_exposure_sensitivity(notion):
    """A record adds its exposure over the bound, from 0 to 1, whatever it holds; so does a unit of
    several rows, and one with weights.
    """
    rng = np.random.default_rng(int(notion.units))
    added = []
    for _ in range(200):
        if notion.units:
            size = int(rng.integers(1, 6))
            unit = Unit(name="one person", column="id")
            added.append(total(rng.choice(EXPOSURES, size), np.zeros(size, np.intp), unit=unit))
        else:
            added.append(total(rng.choice(EXPOSURES, 1)))
    assert min(added) >= 0
    assert max(added) <= WHAT.bound == 1
    assert max(added) > 0.99
    assert max(added) - min(added) > 0.99  # two records that replace each other


def test_exposures_are_added_up():
    assert total([0.3, 1.5, 3.0]) == pytest.approx((0.3 + 1.5 + 3.0) / 3)
    assert total([0.0, np.nan, -2.0]) == 0
    assert total([50.0]) == pytest.approx(1)  # as the bound


def test_a_sum_without_its_limit_is_caught():
    """With a scale that is larger than that of the rows nothing is above 1 all the same."""
    what = exposure_total(-FARTHEST_OFFSET * math.sqrt(DESIGN.norm2))
    values = np.array([[0.0, 0.0, math.log(1e-6)]])
    block = Encoding(DESIGN, COUNT).block(Raw(values, np.zeros(1)))
    assert what.of_block(block)[0] <= 1
