"""What one pass of a description keeps tells the same sums as several passes."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.column_sums import (
    CELLS,
    Cuts,
    Grouping,
    JointQuery,
    Levels,
    Numbers,
    distance_squares,
    histograms,
    level_counts,
    level_squares,
    moment_squares,
    moments,
)
from dpinfer.mechanisms.sums import BLOCK, UNIT, Block, second_moment
from dpinfer.rows import summaries as summaries_module
from dpinfer.rows.encoded import ColumnEncoding
from dpinfer.rows.source import Rows, cuts
from dpinfer.rows.summaries import ColumnSource, ColumnTask, ColumnValues, Portions, summarize
from dpinfer.rows.workers import progress, worker_pool
from dpinfer.schema.unit import ROW, Unit

GROUPS = 3
GROUPINGS = [Grouping(), Grouping(grouped=True, groups=GROUPS)]
LEVELS = Levels(np.array([1, 2, 0]), np.array([3, 2, 0]))
NUMBERS = Numbers(
    np.array([3, 4, 5]),
    np.array([-3.0, 0.0, 1900.0]),
    np.array([7.0, 20.0, 1907.0]),
    np.array([False, True, False]),
)
EDGES = [np.array([0, 10, 30_000, 30_001, CELLS - 1]), np.array([0, 1, 4, 19]), np.array([], int)]
CUTS = Cuts([EDGES, [*EDGES[:2], np.array([0, 9])], EDGES])
CENTRE = np.array([[0.3, -1.0, 0.5], [0.0, 1.0, -0.1], [-0.7, 0.2, 0.0]])
NO_LEVELS = Levels(np.array([], int), np.array([], int))
EXACT = ("counts", "bins")


def source_of(n):
    """Numbers at their bounds, in between, beyond and missing; levels and groups that are none."""
    rng = np.random.default_rng(n)
    positions = rng.choice([0.0, 0.5, 1.0, np.nan, 1e9, -1e9, 0.1], (n, 3))
    positions = np.where(rng.random((n, 3)) < 0.5, rng.random((n, 3)), positions)
    values = NUMBERS.low + positions * (NUMBERS.high - NUMBERS.low)
    values[:, 1] = np.round(values[:, 1])
    codes = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan, 9.0, -1.0], (n, 2))
    labels = rng.choice([0.0, 1.0, 2.0, np.nan, 7.0], n)
    return Rows(Block(np.column_stack([np.ones(n), codes, values]), labels))


def by_columns(rows, width=1, unit=ROW):
    """The same records, whose columns are read in tasks of a width."""
    block = rows.block
    columns = block.rows.shape[1] - 1

    def task(first):
        positions = range(first, min(first + width, columns + 1))

        def read(size):
            for start, end in cuts(len(block), size):
                some = block.rows[start:end]
                values = [some[:, position] for position in positions]
                yield ColumnValues(values, block.labels[start:end], end - start)

        return ColumnTask(list(positions), read)

    tasks = [task(first) for first in range(1, columns + 1, width)]
    return ColumnSource(len(block), ColumnEncoding(columns, unit), lambda _: iter(()), tasks=tasks)


def short_portions(monkeypatch, blocks=2, at_once=3 * 2 * BLOCK):
    """So few blocks in a portion, and so few records at once, that a test has many of them."""
    monkeypatch.setattr(summaries_module, "_MAX_BLOCKS", blocks)
    monkeypatch.setattr(summaries_module, "_RECORDS_AT_ONCE", at_once)


def queries_of(grouping, adjacency=Adjacency.REPLACE):
    cuts = CUTS if grouping.grouped else Cuts(CUTS.edges[:1])
    return {
        "counts": level_counts(LEVELS, grouping, adjacency),
        "moments": moments(NUMBERS, grouping, adjacency),
        "bins": histograms(NUMBERS, cuts, grouping, adjacency),
        "spreads": distance_squares(NUMBERS, CENTRE[: grouping.groups], None, grouping, adjacency),
    }


@pytest.mark.parametrize("n", [0, 1, 700, 20_000, 4 * BLOCK])
@pytest.mark.parametrize("blocks", [2, 64])
def test_guarantee_kept_sums(n, blocks, monkeypatch):
    """Counts to the last bit, and other sums within what floats are proved to be off."""
    short_portions(monkeypatch, blocks)
    source = source_of(n)
    with worker_pool(3):
        summaries = summarize(by_columns(source), NUMBERS, LEVELS, GROUPS).summaries
        for grouping in GROUPINGS:
            for name, query in queries_of(grouping).items():
                total = source.total(query.of_block)
                found = query.of_summaries(summaries)
                assert found.shape == total.shape
                if name in EXACT:
                    assert np.array_equal(found, total)
                else:
                    assert np.abs(found - total).max() <= 2 * (BLOCK + 30) * UNIT * max(n, 1)


def bits_of(summaries):
    """All that was kept."""
    levels = [summaries.levels[position].tobytes() for position in sorted(summaries.levels)]
    return [summaries.sums.tobytes(), *(one.tobytes() for one in summaries.cells), *levels]


def test_guarantee_same_digests(monkeypatch):
    """Sums of more portions than one, in tasks of any width, some of them read at once or all, with
    any number of workers.
    """
    source = source_of(21_000)
    found = []
    for width, threads, portions in ((1, 1, 1), (2, 3, 2), (5, 2, 3), (3, 1, 100)):
        short_portions(monkeypatch, at_once=portions * width * 2 * BLOCK)
        with worker_pool(threads):
            there = summarize(by_columns(source, width), NUMBERS, LEVELS, GROUPS)
        found.append(bits_of(there.summaries))
    assert all(one == found[0] for one in found)
    there = by_columns(source)
    tasks = [
        ColumnTask(task.positions, lambda _, task=task: task.read(1000)) for task in there.tasks
    ]
    other = summarize(replace(there, tasks=tasks), NUMBERS, LEVELS, GROUPS)
    assert bits_of(other.summaries) != found[0]  # so it does matter where blocks end


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
        total = trial % 4 == 0 and high - low > 2
        if total:
            low, high = np.floor(low), np.ceil(high)
        numbers = Numbers(np.array([1]), np.array([low]), np.array([high]), np.array([total]))
        for value in (low, high, np.nextafter(low, high), 2 * high, -1e300, 1e300):
            rows = Rows(Block(np.array([[1.0, value]]), np.zeros(1)))
            found = summarize(by_columns(rows), numbers, NO_LEVELS, 0).summaries.sums
            assert np.abs(found).max() <= 1.0


def test_an_interrupted_pass_stops_its_tasks():
    """A task is as long as the table: whoever is interrupted does not wait for its end."""
    read = []

    def endless(size):
        for number in range(10**6):
            read.append(number)
            yield ColumnValues([np.zeros(4)], None, 4)

    def failing(size):
        yield ColumnValues([np.zeros(4)], None, 4)
        raise KeyboardInterrupt

    there = by_columns(source_of(8))
    tasks = [ColumnTask([4], failing), ColumnTask([3], endless), ColumnTask([5], endless)]
    with pytest.raises(KeyboardInterrupt), worker_pool(2):
        summarize(replace(there, tasks=tasks), NUMBERS, NO_LEVELS, 0)
    assert len(read) < 10**6


def test_progress_has_its_step_and_its_end():
    """Also where tasks are read by threads of their own, and where there is nothing to read."""
    told = []
    for n in (0, 20_000):
        told.clear()
        with progress(lambda *what: told.append(what)), worker_pool(3):
            summarize(by_columns(source_of(n)), NUMBERS, LEVELS, GROUPS)
        assert {step for step, _ in told} == {"reading"}
        assert told[-1][1] == 1.0
        assert [query for _, query in told] == sorted(query for _, query in told)


def test_a_number_that_is_not_finite_is_missing():
    rows = source_of(300)
    rows.block.rows[::7, 3:] = np.nan
    nothing = summarize(by_columns(rows), NUMBERS, LEVELS, GROUPS).summaries
    for k, other in enumerate((np.inf, -np.inf)):
        rows.block.rows[7 * k :: 14, 3:] = other
    assert bits_of(summarize(by_columns(rows), NUMBERS, LEVELS, GROUPS).summaries) == bits_of(
        nothing
    )


@pytest.mark.parametrize("half", [1e-200, 1e-61, 1e-59, 1.0, 1e59, 1e61, 1e200])
def test_powers_of_numbers_of_any_size(half):
    """Those whose fourth powers are no floats are scaled before, the others after they are summed."""
    t = np.linspace(-1, 1, 4001)
    numbers = Numbers(np.array([1]), np.array([-half]), np.array([half]), np.array([False]))
    rows = Rows(Block(np.column_stack([np.ones(len(t)), half * t]), np.zeros(len(t))))
    found = summarize(by_columns(rows), numbers, NO_LEVELS, 0)
    expected = [np.sum(t**k) for k in range(5)]
    assert np.allclose(found.summaries.sums.ravel(), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("grouping", GROUPINGS, ids=["all", "groups"])
def test_a_stack_is_the_same_from_what_was_kept(grouping):
    source = source_of(5000)
    queries = list(queries_of(grouping).values())
    what = JointQuery(queries, [np.full(1 + query.owner.max(), 0.05) for query in queries]).sum()
    there = summarize(by_columns(source), NUMBERS, LEVELS, GROUPS).total(what.of_block)
    assert np.allclose(there, source.total(what.of_block), rtol=0, atol=1e-9)
    assert np.abs(there).max() > 1


def test_distances_from_a_centre_that_all_records_have():
    """Where terms cancel, the sum errs by no more than roundings of the number of records."""
    n = 5000
    value = 1.1
    rows = np.column_stack([np.ones(n), np.full((n, 2), np.nan), np.full((n, 3), value)])
    source = by_columns(Rows(Block(rows, np.zeros(n))))
    summaries = summarize(source, NUMBERS, LEVELS, 0).summaries
    t = (value - NUMBERS.middle[0]) / NUMBERS.half[0]
    for centre in (t, -t, 0.0, 1.0, -1.0, math.nextafter(t, 1)):
        query = distance_squares(
            NUMBERS, np.full((1, 3), centre), None, Grouping(), Adjacency.REPLACE
        )
        distance = (Fraction(t) - Fraction(centre)) / (1 + abs(Fraction(centre)))
        found = query.of_summaries(summaries).reshape(3, 2)[0]
        for power, sum_ in zip((4, 2), found.tolist(), strict=True):
            assert sum_ >= 0
            assert abs(Fraction(sum_) - n * distance**power) <= 64 * UNIT * n


def test_other_sums_are_refused():
    """Those of people with several rows, and any that does not describe columns."""
    there = summarize(by_columns(source_of(50)), NUMBERS, LEVELS, 0)
    adjacency = Adjacency.REPLACE
    points = np.zeros((1, 3, 3))
    for query in (
        moment_squares(NUMBERS, Grouping(), adjacency),
        level_squares(Levels(LEVELS.positions[:2], LEVELS.sizes[:2]), Grouping(), adjacency),
        distance_squares(NUMBERS, CENTRE[:1], points, Grouping(), adjacency),
    ):
        what = JointQuery([query], [np.full(1 + query.owner.max(), 0.1)]).sum()
        with pytest.raises(PrivacyError, match="do not determine"):
            there.total(what.of_block)
    with pytest.raises(PrivacyError, match="do not determine"):
        there.total(second_moment(adjacency).of_block)


def test_records_that_count_unlike_are_not_summarised():
    """What is kept has no place for what a record counts: a sum would be of other records."""
    source = by_columns(source_of(50), unit=Unit(weights="w", max_weight=3.0))
    with pytest.raises(PrivacyError, match="weight 1"):
        summarize(source, NUMBERS, LEVELS, 0)
