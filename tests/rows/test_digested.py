"""What one pass of a description keeps tells the same sums as several passes."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpinfer.errors import PrivacyError
from dpinfer.mechanisms import column_digests
from dpinfer.mechanisms.column_digests import Portions
from dpinfer.mechanisms.column_sums import (
    CELLS,
    Cuts,
    Levels,
    Numbers,
    Panel,
    Stack,
    histograms,
    level_counts,
    level_squares,
    moment_squares,
    moments,
    spreads,
)
from dpinfer.mechanisms.sums import BLOCK, UNIT, Block, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.rows.digested import Columns, InLanes, Lane, digested
from dpinfer.rows.encoded import ColumnEncoding
from dpinfer.rows.source import Rows, cuts
from dpinfer.rows.workers import progress, worker_pool
from dpinfer.schema.unit import ROW, Unit

GROUPS = 3
PANELS = [Panel(), Panel(grouped=True, groups=GROUPS)]
LEVELS = Levels(np.array([1, 2, 0]), np.array([3, 2, 0]))
NUMBERS = Numbers(
    np.array([3, 4, 5]),
    np.array([-3.0, 0.0, 1900.0]),
    np.array([7.0, 20.0, 1907.0]),
    np.array([False, True, False]),
)
STEPS = [np.array([0, 10, 30_000, 30_001, CELLS - 1]), np.array([0, 1, 4, 19]), np.array([], int)]
CUTS = Cuts([STEPS, [*STEPS[:2], np.array([0, 9])], STEPS])
CENTRE = np.array([[0.3, -1.0, 0.5], [0.0, 1.0, -0.1], [-0.7, 0.2, 0.0]])
NO_LEVELS = Levels(np.array([], int), np.array([], int))
EXACT = ("counts", "bins")


def source_of(n):
    """Numbers at their bounds, in between, beyond and missing; levels and groups that are none."""
    rng = np.random.default_rng(n)
    places = rng.choice([0.0, 0.5, 1.0, np.nan, 1e9, -1e9, 0.1], (n, 3))
    places = np.where(rng.random((n, 3)) < 0.5, rng.random((n, 3)), places)
    values = NUMBERS.low + places * (NUMBERS.high - NUMBERS.low)
    values[:, 1] = np.round(values[:, 1])
    codes = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan, 9.0, -1.0], (n, 2))
    labels = rng.choice([0.0, 1.0, 2.0, np.nan, 7.0], n)
    return Rows(Block(np.column_stack([np.ones(n), codes, values]), labels))


def in_lanes(rows, width=1, unit=ROW):
    """The same records, whose columns are read in lanes of a width."""
    block = rows.block
    columns = block.rows.shape[1] - 1

    def lane(first):
        places = range(first, min(first + width, columns + 1))

        def read(size):
            for start, end in cuts(len(block), size):
                some = block.rows[start:end]
                values = [some[:, place] for place in places]
                yield Columns(values, block.labels[start:end], end - start)

        return Lane(list(places), read)

    lanes = [lane(first) for first in range(1, columns + 1, width)]
    return InLanes(len(block), ColumnEncoding(columns, unit), lambda _: iter(()), lanes=lanes)


def short_portions(monkeypatch, blocks=2, at_once=3 * 2 * BLOCK):
    """So few blocks in a portion, and so few records at once, that a test has many of them."""
    monkeypatch.setattr(column_digests, "_MOST_BLOCKS", blocks)
    monkeypatch.setattr(column_digests, "_RECORDS_AT_ONCE", at_once)


def parts_of(panel, notion=Neighbours.REPLACE):
    cuts = CUTS if panel.grouped else Cuts(CUTS.steps[:1])
    return {
        "counts": level_counts(LEVELS, panel, notion),
        "moments": moments(NUMBERS, panel, notion),
        "bins": histograms(NUMBERS, cuts, panel, notion),
        "spreads": spreads(NUMBERS, CENTRE[: panel.groups], None, panel, notion),
    }


@pytest.mark.parametrize("n", [0, 1, 700, 20_000, 4 * BLOCK])
@pytest.mark.parametrize("blocks", [2, 64])
def test_guarantee_kept_sums(n, blocks, monkeypatch):
    """Counts to the last bit, and other sums within what floats are proved to be off."""
    short_portions(monkeypatch, blocks)
    source = source_of(n)
    with worker_pool(3):
        statistics = digested(in_lanes(source), NUMBERS, LEVELS, GROUPS).statistics
        for panel in PANELS:
            for name, part in parts_of(panel).items():
                whole = source.total(part.of_block)
                found = part.of_statistics(statistics)
                assert found.shape == whole.shape
                if name in EXACT:
                    assert np.array_equal(found, whole)
                else:
                    assert np.abs(found - whole).max() <= 2 * (BLOCK + 30) * UNIT * max(n, 1)


def bits_of(statistics):
    """All that was kept."""
    levels = [statistics.levels[place].tobytes() for place in sorted(statistics.levels)]
    return [statistics.sums.tobytes(), *(one.tobytes() for one in statistics.cells), *levels]


def test_guarantee_same_digests(monkeypatch):
    """Sums of more portions than one, in lanes of any width, some of them read at once or all, with
    any number of workers.
    """
    source = source_of(21_000)
    found = []
    for width, threads, portions in ((1, 1, 1), (2, 3, 2), (5, 2, 3), (3, 1, 100)):
        short_portions(monkeypatch, at_once=portions * width * 2 * BLOCK)
        with worker_pool(threads):
            there = digested(in_lanes(source, width), NUMBERS, LEVELS, GROUPS)
        found.append(bits_of(there.statistics))
    assert all(one == found[0] for one in found)
    there = in_lanes(source)
    lanes = [Lane(lane.places, lambda _, lane=lane: lane.read(1000)) for lane in there.lanes]
    other = digested(replace(there, lanes=lanes), NUMBERS, LEVELS, GROUPS)
    assert bits_of(other.statistics) != found[0]  # so it does matter where blocks end


def test_a_portion_is_that_of_the_table_whichever_columns_are_read_together():
    for columns in (1, 20, 64, 65, 100, 3000, 10**6):
        portions = [Portions.of(columns, together) for together in range(1, columns + 1)[:200]]
        assert {one.blocks for one in portions} == {portions[0].blocks}
        assert all(one.at_once % one.portion == 0 for one in portions)
        # what is held of all columns read together, and of one alone
        assert Portions.of(columns, columns).at_once * columns <= max(2**23, BLOCK * columns)
        assert BLOCK <= portions[0].at_once <= 2**20


def test_no_record_adds_more_than_one():
    """Whatever the bounds are, at both of them and beyond; scaled last or first, told by cells or not."""
    rng = np.random.default_rng(3)
    for trial in range(200):
        low = rng.normal() * 10.0 ** rng.integers(-70, 70)
        high = low + abs(low) * 10.0 ** rng.uniform(-6, 6)
        whole = trial % 4 == 0 and high - low > 2
        if whole:
            low, high = np.floor(low), np.ceil(high)
        numbers = Numbers(np.array([1]), np.array([low]), np.array([high]), np.array([whole]))
        for value in (low, high, np.nextafter(low, high), 2 * high, -1e300, 1e300):
            rows = Rows(Block(np.array([[1.0, value]]), np.zeros(1)))
            found = digested(in_lanes(rows), numbers, NO_LEVELS, 0).statistics.sums
            assert np.abs(found).max() <= 1.0


def test_an_interrupted_pass_stops_its_lanes():
    """A lane is as long as the table: whoever is interrupted does not wait for its end."""
    read = []

    def endless(size):
        for number in range(10**6):
            read.append(number)
            yield Columns([np.zeros(4)], None, 4)

    def failing(size):
        yield Columns([np.zeros(4)], None, 4)
        raise KeyboardInterrupt

    there = in_lanes(source_of(8))
    lanes = [Lane([4], failing), Lane([3], endless), Lane([5], endless)]
    with pytest.raises(KeyboardInterrupt), worker_pool(2):
        digested(replace(there, lanes=lanes), NUMBERS, NO_LEVELS, 0)
    assert len(read) < 10**6


def test_progress_has_its_step_and_its_end():
    """Also where lanes are read by threads of their own, and where there is nothing to read."""
    told = []
    for n in (0, 20_000):
        told.clear()
        with progress(lambda *what: told.append(what)), worker_pool(3):
            digested(in_lanes(source_of(n)), NUMBERS, LEVELS, GROUPS)
        assert {step for step, _ in told} == {"reading"}
        assert told[-1][1] == 1.0
        assert [part for _, part in told] == sorted(part for _, part in told)


def test_a_number_that_is_not_finite_is_missing():
    rows = source_of(300)
    rows.block.rows[::7, 3:] = np.nan
    nothing = digested(in_lanes(rows), NUMBERS, LEVELS, GROUPS).statistics
    for k, other in enumerate((np.inf, -np.inf)):
        rows.block.rows[7 * k :: 14, 3:] = other
    assert bits_of(digested(in_lanes(rows), NUMBERS, LEVELS, GROUPS).statistics) == bits_of(nothing)


@pytest.mark.parametrize("half", [1e-200, 1e-61, 1e-59, 1.0, 1e59, 1e61, 1e200])
def test_powers_of_numbers_of_any_size(half):
    """Those whose fourth powers are no floats are scaled before, the others after they are summed."""
    t = np.linspace(-1, 1, 4001)
    numbers = Numbers(np.array([1]), np.array([-half]), np.array([half]), np.array([False]))
    rows = Rows(Block(np.column_stack([np.ones(len(t)), half * t]), np.zeros(len(t))))
    found = digested(in_lanes(rows), numbers, NO_LEVELS, 0)
    expected = [np.sum(t**k) for k in range(5)]
    assert np.allclose(found.statistics.sums.ravel(), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("panel", PANELS, ids=["all", "groups"])
def test_a_stack_is_the_same_from_what_was_kept(panel):
    source = source_of(5000)
    parts = list(parts_of(panel).values())
    what = Stack(parts, [np.full(1 + part.owner.max(), 0.05) for part in parts]).sum()
    there = digested(in_lanes(source), NUMBERS, LEVELS, GROUPS).total(what.of_block)
    assert np.allclose(there, source.total(what.of_block), rtol=0, atol=1e-9)
    assert np.abs(there).max() > 1


def test_distances_from_a_centre_that_all_records_have():
    """Where terms cancel, the sum errs by no more than roundings of the number of records."""
    n = 5000
    value = 1.1
    rows = np.column_stack([np.ones(n), np.full((n, 2), np.nan), np.full((n, 3), value)])
    source = in_lanes(Rows(Block(rows, np.zeros(n))))
    statistics = digested(source, NUMBERS, LEVELS, 0).statistics
    t = (value - NUMBERS.middle[0]) / NUMBERS.half[0]
    for centre in (t, -t, 0.0, 1.0, -1.0, math.nextafter(t, 1)):
        part = spreads(NUMBERS, np.full((1, 3), centre), None, Panel(), Neighbours.REPLACE)
        distance = (Fraction(t) - Fraction(centre)) / (1 + abs(Fraction(centre)))
        found = part.of_statistics(statistics).reshape(3, 2)[0]
        for power, sum_ in zip((4, 2), found.tolist(), strict=True):
            assert sum_ >= 0
            assert abs(Fraction(sum_) - n * distance**power) <= 64 * UNIT * n


def test_other_sums_are_refused():
    """Those of people with several rows, and any that does not describe columns."""
    there = digested(in_lanes(source_of(50)), NUMBERS, LEVELS, 0)
    notion = Neighbours.REPLACE
    points = np.zeros((1, 3, 3))
    for part in (
        moment_squares(NUMBERS, Panel(), notion),
        level_squares(Levels(LEVELS.places[:2], LEVELS.sizes[:2]), Panel(), notion),
        spreads(NUMBERS, CENTRE[:1], points, Panel(), notion),
    ):
        what = Stack([part], [np.full(1 + part.owner.max(), 0.1)]).sum()
        with pytest.raises(PrivacyError, match="does not tell"):
            there.total(what.of_block)
    with pytest.raises(PrivacyError, match="does not tell"):
        there.total(second_moment(notion).of_block)


def test_records_that_count_unlike_are_not_digested():
    """What is kept has no place for what a record counts: a sum would be of other records."""
    source = in_lanes(source_of(50), unit=Unit(weights="w", most_weight=3.0))
    with pytest.raises(PrivacyError, match="counts each of them once"):
        digested(source, NUMBERS, LEVELS, 0)
