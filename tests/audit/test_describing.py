"""Descriptions: how far one record or person moves each sum, what the stacks spend, and that nothing
but releases decides anything.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.description import describing as module
from dpinfer.description.describing import describing
from dpinfer.mechanisms import column_sums
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
from dpinfer.mechanisms.sums import Block
from dpinfer.privacy.accountant import affordable, limit, spent
from dpinfer.privacy.gate import Gate
from dpinfer.rows.encoded import ColumnEncoding, Raw
from dpinfer.rows.summaries import SummarizedSource
from dpinfer.schema.columns import Category, Number, Outcome
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import ROW, Unit

GROUPINGS = {"all": Grouping(), "groups": Grouping(grouped=True, groups=3)}
LEVELS = Levels(np.array([1, 2]), np.array([3, 2]))
# the last lies far from 0, where what counts nothing stands
NUMBERS = Numbers(
    np.array([3, 4, 5]),
    np.array([-3.0, 0.0, 1900.0]),
    np.array([7.0, 20.0, 1907.0]),
    np.array([False, True, False]),
)
EDGES = [np.array([0, 10, 30_000, 30_001, CELLS - 1]), np.array([0, 1, 4, 19]), np.array([0, 9])]
CUTS = Cuts([EDGES] * 3)
CENTRE = np.array([[0.3, -1.0, 0.5], [0.0, 1.0, -0.1], [-0.7, 0.2, 0.0]])
POINTS = np.array([[[-3.0, 0.0, 7.0], [0.0, 3.0, 20.0], [1900.0, 1901.0, 1905.0]]] * 3)


def unit_of(rng, adjacency, weighted):
    """What one unit adds: rows at the ends, in the middle, far beyond the bounds, missing, of any
    group; many where units have many.
    """
    size = int(rng.integers(1, 6)) if adjacency.units else 1
    codes = np.column_stack(
        [rng.choice([0.0, 1.0, 2.0, np.nan], size), rng.choice([0.0, 1.0], size)]
    )
    ends = rng.choice([0.0, 0.5, 1.0, np.nan, rng.random(), -1e9, 1e9, np.inf], (size, 3))
    whole = np.round(20 * ends[:, 1])
    numbers = [-3 + 10 * ends[:, 0], whole, 1900 + 7 * ends[:, 2]]
    values = np.column_stack([np.ones(size), codes, *numbers])
    if rng.random() < 0.3:  # all rows alike: the corners of what a unit may add
        values = np.repeat(values[:1], size, axis=0)
    labels = rng.choice([0.0, 1.0, 2.0, 3.0], size)
    if rng.random() < 0.5:
        labels[:] = labels[0]
    unit = Unit(
        column="id" if adjacency.units else "", weights="w" if weighted else "", max_weight=2.0
    )
    ids = np.zeros(size, dtype=np.intp) if adjacency.units else None
    weights = rng.choice([0.0, 1.0, 5.0, np.nan], size) if weighted else None
    return ColumnEncoding(5, unit).block(Raw(values, labels, ids, weights))


def units_of(adjacency, weighted=False):
    rng = np.random.default_rng(3)
    return [unit_of(rng, adjacency, weighted) for _ in range(300)]


def change_of(query, adjacency, weighted):
    """The largest change of one column between neighbours, as a vector and added up."""
    added = np.array([query.of_block(unit) for unit in units_of(adjacency, weighted)])
    others = added if adjacency.counted else np.zeros((1, added.shape[1]))
    longest = 0.0
    most = 0.0
    for column in np.unique(query.owner):
        mine = added[:, query.owner == column]
        theirs = others[:, query.owner == column]
        change = mine[:, None] - theirs[None]
        longest = max(longest, float(np.sqrt(np.square(change).sum(axis=2)).max()))
        most = max(most, float(np.abs(change).sum(axis=2).max()))
    return longest, most


def check(make, attained):
    """No unit moves a column by more than is stated, with any notion, panel and weights; and the
    stated bound is needed where ``attained`` says so: a smaller one would be wrong.
    """
    for name, grouping in GROUPINGS.items():
        for adjacency in Adjacency:
            query = make(grouping, adjacency)
            for weighted in (False, True):
                longest, most = change_of(query, adjacency, weighted)
                assert longest <= query.l2_sensitivity * (1 + 1e-12)
                assert most <= query.l1_sensitivity * (1 + 1e-12)
                if not weighted:
                    assert longest > attained[name] * query.l2_sensitivity


def test_guarantee_level_counts_sensitivity():
    check(
        lambda grouping, adjacency: level_counts(LEVELS, grouping, adjacency),
        {"all": 0.999, "groups": 0.999},
    )


def test_guarantee_column_moments_sensitivity():
    check(
        lambda grouping, adjacency: moments(NUMBERS, grouping, adjacency),
        {"all": 0.999, "groups": 0.999},
    )


def test_the_moments_of_two_numbers_never_move_further():
    """The inequality of the proof on a grid of all pairs, and that a larger weight of the square
    breaks it.
    """
    t = np.linspace(-1, 1, 801)
    difference = (t[:, None] - t) ** 2
    total = (t[:, None] + t) ** 2
    assert (difference * (1 + 1.5**2 * total)).max() <= 4 + 1e-12
    assert (difference * (1 + 2.2**2 * total)).max() > 4


def test_guarantee_moment_squares_sensitivity():
    check(
        lambda grouping, adjacency: moment_squares(NUMBERS, grouping, adjacency),
        {"all": 0.99, "groups": 0.99},
    )


def test_guarantee_level_squares_sensitivity():
    check(
        lambda grouping, adjacency: level_squares(LEVELS, grouping, adjacency),
        {"all": 0.8, "groups": 0.99},
    )


def test_guarantee_column_histograms_sensitivity():
    check(
        lambda grouping, adjacency: histograms(
            NUMBERS, Cuts(CUTS.edges[: grouping.groups]), grouping, adjacency
        ),
        {"all": 0.999, "groups": 0.999},
    )


@pytest.mark.parametrize("points", [None, POINTS])
def test_guarantee_spreads_sensitivity(points):
    check(
        lambda grouping, adjacency: distance_squares(NUMBERS, CENTRE, points, grouping, adjacency),
        {"all": 0.7, "groups": 0.99},
    )


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("grouping", GROUPINGS.values(), ids=GROUPINGS)
def test_guarantee_description_stack(grouping, pure):
    """All parts under each other move by at most 1, whatever the shares are; with scales that are
    1 % larger they do not.
    """
    for adjacency in Adjacency:
        queries = [
            level_counts(LEVELS, grouping, adjacency),
            moments(NUMBERS, grouping, adjacency),
            histograms(NUMBERS, Cuts(CUTS.edges[: grouping.groups]), grouping, adjacency),
        ]
        shares = [np.array([0.2, 0.1]), np.array([0.1, 0.2, 0.05]), np.array([0.05, 0.2, 0.1])]
        joint = JointQuery(queries, shares, pure)
        sum_ = joint.sum()
        assert (sum_.bound, sum_.l1_bound) == (1, 1 if pure else np.inf)
        added = np.array([sum_.of_block(unit) for unit in units_of(adjacency)])
        others = added if adjacency.counted else np.zeros((1, added.shape[1]))
        change = added[:, None] - others[None]
        size = np.abs(change).sum(axis=2) if pure else np.sqrt(np.square(change).sum(axis=2))
        assert size.max() <= 1
        assert size.max() > 0.9
        assert (
            pure or np.abs(change).sum(axis=2).max() > 1
        )  # Laplace noise of rate ε would be too little
        for query, found in zip(queries, joint.split(added[0]), strict=True):
            assert found == pytest.approx(query.of_block(units_of(adjacency)[0]), abs=1e-9)


def test_a_cell_depends_on_its_value_alone():
    """Every value is in the cell that its ends say, whole numbers exactly."""
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [rng.uniform(-3, 7, 5000), rng.integers(0, 21, 5000), rng.uniform(1900, 1907, 5000)]
    )
    values[:2] = [[-3.0, 0.0, 1900.0], [7.0, 20.0, 1907.0]]
    cells = NUMBERS.cells(values.copy())
    assert cells[0].tolist() == [0, 0, 0]
    assert (cells <= NUMBERS.last).all()
    assert (cells[:, 1] == values[:, 1]).all()
    upper = NUMBERS.low + cells * NUMBERS.width
    assert (values <= upper + 1e-9).all()
    assert (values > upper - NUMBERS.width - 1e-9).all()
    assert (NUMBERS.cells(np.full((1, 3), np.nan)) == CELLS + 1).all()
    for hostile in (-np.inf, np.inf, -1e300, 0.0):
        cells = NUMBERS.cells(np.full((1, 3), hostile))
        assert ((cells >= 0) & (cells <= CELLS + 1)).all()


@pytest.mark.parametrize("tables", [0, 9])
def test_a_search_finds_what_a_table_does(tables, monkeypatch):
    """The bins of many histograms are found by a search, of few by tables: those of each group alone."""
    monkeypatch.setattr(column_sums, "_MAX_TABLES", tables)
    rng = np.random.default_rng(1)
    edges = [[np.unique(rng.integers(0, CELLS, 40)) for _ in range(3)] for _ in range(3)]
    together = histograms(NUMBERS, Cuts(edges), GROUPINGS["groups"], Adjacency.REPLACE)
    units = units_of(Adjacency.REPLACE)
    rows = np.vstack([unit.rows for unit in units])
    labels = np.concatenate([unit.labels for unit in units])
    bins = Cuts(edges).bins
    found = together.of_block(Block(rows, labels)).reshape(3, 3, bins)
    monkeypatch.undo()
    for group in range(3):
        alone = Cuts([edges[group]])
        query = histograms(NUMBERS, alone, Grouping(), Adjacency.REPLACE)
        mine = query.of_block(Block(rows[labels == group], labels[labels == group]))
        assert (found[:, group, : alone.bins] == mine.reshape(3, alone.bins)).all()


def test_codes_that_are_no_level_stay_in_their_column():
    """The bound does not rest on who reads the cells: no code moves another column."""
    block = Block(np.array([[1.0, -5.0, 1e9, 0, 0, 1900.0]]), np.array([-7.0]))
    counts = level_counts(LEVELS, GROUPINGS["groups"], Adjacency.REPLACE).of_block(block)
    assert counts.sum() == 2
    assert counts[:12].sum() == counts[12:].sum() == 1


# The description as a whole

SCHEMA = {
    "age": Number("age", 17.0, 90.0, kind="integer"),
    "income": Number("income", 0.0, 1e6),
    "sex": Category("sex", ("f", "m"), "f"),
    "sick": Number("sick", 0.0, 1.0, kind="boolean"),
    "died": Outcome("died", ("no", "yes")),
    "temp": Number("temp", 35.0, 42.0),
    "code": Number("code", -1.0, 1.0, kind="integer", levels=(-1, 0, 1), reference=0),
}
BUDGETS = [dp.ZCDP(0.02), dp.PureDP(0.7), dp.ApproxDP(1.0, 1e-6), dp.ApproxDP(0.1, 1e-7)]
ADJACENCIES = [("replace", ""), ("add-remove", ""), ("replace", "id"), ("add-remove", "id")]


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(17, 91, n).astype(float),
            "income": rng.lognormal(10, 0.7, n),
            "sex": rng.choice(["f", "m"], n),
            "sick": rng.random(n) < 0.1,
            "died": rng.choice(["no", "yes"], n, p=[0.95, 0.05]),
            "temp": rng.normal(37.0, 0.7, n),
            "code": rng.integers(-1, 2, n),
            "id": rng.integers(0, max(n // 3, 1), n),
            "w": rng.uniform(0.5, 2.0, n),
        }
    )
    table.loc[rng.random(n) < 0.05, "age"] = np.nan
    table.loc[rng.random(n) < 0.05, "w"] = 0.0
    return table


def schema_of(column="", *, weighted=False):
    unit = ROW
    if column or weighted:
        unit = Unit("one person", column, weights="w" if weighted else "", max_weight=4.0)
    return Schema(SCHEMA, unit)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_guarantee_description_composition(budget):
    for by in (None, "sex"):
        for neighbours, column in ADJACENCIES:
            asked = describing(people(50), schema_of(column), budget, by, adjacency=neighbours)
            events = asked.entry.events
            assert affordable(budget, events)
            assert spent(budget, events) == pytest.approx(limit(budget), rel=1e-9)
            dp.Ledger(budget, unit=asked.unit.name, neighbours=asked.plan.adjacency).book(
                asked.entry
            )
            shares = [part.shares for stage in asked.plan.parts() for part in stage]
            assert sum(float(one.sum()) for one in shares) == pytest.approx(1)


class Recorder(Gate):
    kept: list = []  # noqa: RUF012

    def release(self, release, source, sum_):
        self.kept.append((release, sum_, super().release(release, source, sum_)))
        return self.kept[-1][2]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("neighbours", "column"), ADJACENCIES)
def test_guarantee_description_from_releases(neighbours, column, weighted, monkeypatch):
    """The releases of one table played to quite another: the same description, letter by letter,
    also with another number of rows where that is private.
    """
    schema = schema_of(column, weighted=weighted)
    monkeypatch.setattr(Recorder, "kept", [])
    monkeypatch.setattr(module, "Gate", Recorder)
    budget = dp.ApproxDP(1.0, 1e-6)
    options = {"by": "sex", "neighbours": neighbours}
    table = people(3000)
    table["id"] = np.arange(3000) // 3
    first = dp.describe(table, schema, budget, **options)
    replay = iter(Recorder.kept)
    assert len(Recorder.kept) == len(first.privacy.events) == 3

    class Replay(Gate):
        def release(self, release, source, sum_):
            asked, other, released = next(replay)
            assert release == asked
            values = np.random.default_rng(0).random((300, 7)) * [90, 9e4, 2, 2, 2, 7, 3]
            values[:, 2:5] = np.floor(values[:, 2:5])
            values[:, 5] += 35
            values[:, 6] = np.floor(values[:, 6])
            values[::7] = np.nan
            rows = np.column_stack([np.ones(300), values])
            block = ColumnEncoding(7, ROW).block(Raw(rows, np.resize([0.0, 1.0, np.nan], 300)))
            assert sum_.of_block(block).tolist() == other.of_block(block).tolist()
            source.total(sum_.of_block)  # whatever the records hold, nothing raises
            return released

    monkeypatch.setattr(module, "Gate", Replay)
    n = 3000 if neighbours == "replace" else 7
    if column:
        n = 1000 if neighbours == "replace" else 2
    other = pd.DataFrame(
        {
            "age": [np.inf] * n, "income": [-1e300] * n, "sex": ["secret"] * n, "sick": [True] * n,
            "died": [None] * n, "temp": [0.0] * n, "code": [7] * n, "id": np.arange(n),
            "w": np.resize([np.nan, 0.0, -1.0, np.inf, 1e308, 1.0], n),
        }
    )  # fmt: skip
    again = dp.describe(other, schema, budget, **options)
    assert repr(again.figures) == repr(first.figures)


@pytest.mark.parametrize("budget", [dp.ZCDP(0.05), dp.PureDP(1.0)], ids=str)
@pytest.mark.parametrize(("neighbours", "column"), ADJACENCIES)
def test_the_density_of_all_releases_moves_by_no_more_than_the_budget(
    neighbours, column, budget, monkeypatch
):
    """Adjacency with the person that tells most changed: the exact divergence of all releases
    together is within the budget, and a good part of it.
    """
    table = people(400)
    table["id"] = np.arange(400)
    chosen = ["age", "income", "sex", "sick", "died", "temp", "code"]
    table.loc[0, chosen] = [17.0, 0.0, "f", False, "no", 35.0, -1]
    changed = table.copy()
    if neighbours == "replace":
        changed.loc[0, chosen] = [90.0, 1e6, "m", True, "yes", 42.0, 1]
    else:
        changed = changed.iloc[1:]
    monkeypatch.setattr(Recorder, "kept", [])
    monkeypatch.setattr(module, "Gate", Recorder)
    schema = schema_of(column)
    dp.describe(table, schema, budget, "sex", adjacency=neighbours)
    asked = [
        describing(one, schema, budget, "sex", adjacency=neighbours) for one in (table, changed)
    ]
    sources = [one._read(one.records.read()) for one in asked]  # as the description reads them
    assert all(isinstance(one, SummarizedSource) for one in sources) == (not column)
    loss = 0.0
    for release, sum_, released in Recorder.kept:
        change = sources[0].total(sum_.of_block) - sources[1].total(sum_.of_block)
        assert release.law == released.noise
        if isinstance(budget, dp.PureDP):
            loss += released.noise.rate * float(np.abs(change).sum()) / budget.epsilon
        else:
            loss += float(np.square(change / released.noise.scale).sum()) / 2 / budget.rho
    assert 0.3 < loss <= 1


def test_half_the_bound_is_refused(monkeypatch):
    """A stack that states less than it was booked with is one that moves further: refused."""
    asked = describing(people(50), schema_of(), dp.ZCDP(0.1))
    honest = JointQuery.sum
    monkeypatch.setattr(JointQuery, "sum", lambda self: replace(honest(self), bound=1.01))
    with pytest.raises(dp.PrivacyError, match="may move by"):
        asked.run(insecure_seed=1)


def test_columns_pay_by_their_shares():
    """Twice the share is half the variance of the noise; the others pay for it."""
    noise = {}
    for shares in (None, {"sex": 2.0}):
        asked = describing(people(50), schema_of(), dp.ZCDP(0.1), shares=shares)
        noise[bool(shares)] = {
            (row["column"], row["figure"]): row["noise"] for row in asked.expected()
        }
    ratio = (noise[False]["sex", "count"] / noise[True]["sex", "count"]) ** 2
    assert ratio == pytest.approx(2 * 7 / 8)
    ratio = (noise[False]["sick", "count"] / noise[True]["sick", "count"]) ** 2
    assert ratio == pytest.approx(7 / 8)
    half = noise[False]["age", "mean"] * 50 / (90 - 17) * 2
    assert half == pytest.approx(1.96 * 2 / math.sqrt(2 * 0.1 / 7 * 0.42), rel=1e-3)
