"""Descriptions: what they say without noise, of every kind of table; groups, persons, weights; and
what is refused.
"""

import math
import os
import re
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import dpinfer as dp
from dpinfer.description import describing as module
from dpinfer.description.describing import describing
from dpinfer.mechanisms.column_sums import CELLS
from dpinfer.mechanisms.sums import BLOCK
from dpinfer.result.statements import REPORTED
from dpinfer.rows import summaries
from dpinfer.rows.source import Blocks
from dpinfer.rows.summaries import SummarizedSource
from dpinfer.rows.workers import worker_pool
from dpinfer.schema.columns import Category, Number, Outcome
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import ROW, Unit
from dpinfer.tables import arrow_files, memory
from dpinfer.tables.memory import InMemory

COLUMNS = {
    "age": Number("age", 0.0, 100.0, kind="integer"),
    "income": Number("income", 0.0, 500.0),
    "sex": Category("sex", ("f", "m"), "f"),
    "sick": Number("sick", 0.0, 1.0, kind="boolean"),
    "died": Outcome("died", ("no", "yes")),
    "cost": Outcome("cost", low=0.0, high=1000.0),
}
APPROX = dp.ApproxDP(1.0, 1e-6)


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 95, n).astype(float),
            "income": rng.lognormal(3, 0.8, n),
            "sex": rng.choice(["f", "m", "?"], n, p=[0.5, 0.45, 0.05]),
            "sick": rng.random(n) < 0.2,
            "died": rng.choice(["no", "yes"], n, p=[0.9, 0.1]),
            "cost": rng.gamma(1.0, 200.0, n),
            "id": np.arange(n) // 3,
            "w": rng.uniform(0.2, 2.0, n),
        }
    )
    table.loc[rng.random(n) < 0.04, "age"] = np.nan
    return table


def estimates(description, group=None):
    """Estimates by column, level and figure."""
    return {
        (one.column, one.level, one.figure): one.estimate
        for one in description.figures
        if one.group == group
    }


def described(table, unit=ROW, **options):
    return dp.describe(table, Schema(COLUMNS, unit), dp.NoPrivacy(), insecure_seed=0, **options)


def test_without_noise_it_is_what_the_table_says():
    """Counts, means of values clipped to the bounds, deviations and quartiles, over usable records."""
    table = people()
    found = estimates(described(table))
    age = table["age"].dropna()
    cost = table["cost"].clip(0, 1000)
    assert found["age", None, "records"] == len(age)
    assert found["age", None, "missing"] == len(table) - len(age)
    assert found["age", None, "mean"] == pytest.approx(age.mean())
    assert found["age", None, "sd"] == pytest.approx(age.std(ddof=0))
    assert found["cost", None, "mean"] == pytest.approx(cost.mean())
    for figure, p in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
        assert found["age", None, figure] == age.quantile(p, interpolation="lower")
        assert found["cost", None, figure] == pytest.approx(cost.quantile(p), abs=0.2)
    assert found["sex", "f", "count"] == pytest.approx((table["sex"] == "f").sum())
    assert found["sex", "m", "share"] == pytest.approx(
        (table["sex"] == "m").sum() / (table["sex"] != "?").sum()
    )
    assert found["sick", True, "share"] == pytest.approx(table["sick"].mean())
    assert ("sick", False, "share") not in found
    assert found["died", "yes", "count"] == pytest.approx((table["died"] == "yes").sum())


def test_groups_and_their_differences():
    table = people()
    description = described(table, by="sick", columns=["age", "sex"])
    assert description.groups == (False, True)
    for group in (False, True):
        found = estimates(description, group)
        mine = table[table["sick"] == group]
        assert found["age", None, "mean"] == pytest.approx(mine["age"].mean())
        assert found["sex", "f", "count"] == pytest.approx((mine["sex"] == "f").sum())
    means = table.groupby("sick")["age"].mean()
    assert estimates(description, True)["age", None, "difference"] == pytest.approx(
        means[True] - means[False]
    )
    assert ("age", None, "difference") not in estimates(description, False)
    frame = description.to_frame()
    assert list(frame.columns) == [
        "column", "level", "group", "figure", "estimate", "low", "high", "status",
    ]  # fmt: skip
    assert list(described(table).to_frame().columns) == [
        "column", "level", "figure", "estimate", "low", "high", "status",
    ]  # fmt: skip


def test_a_level_in_a_frame_is_as_declared_or_none():
    """Beside texts as well, and so is a group: pandas has NaN for None in a column of texts."""
    for columns, by in ((["age", "sex"], None), (["age", "sick"], "sex"), (["age"], "sick")):
        description = described(people(), by=by, columns=columns)
        frame = description.to_frame()
        assert all(
            level is one.level
            for level, one in zip(frame["level"], description.figures, strict=True)
        )
        if by:
            groups = zip(frame["group"], description.figures, strict=True)
            assert all(group is one.group for group, one in groups)


def test_persons_count_alike_and_rows_by_their_weights():
    table = people()
    table["age"] = table["age"].fillna(50.0)
    table = pd.concat([table, table[table["id"] < 100]])  # some persons have six rows
    persons = estimates(described(table, Unit("one person", "id")))
    each = table.groupby("id")["age"].mean()
    assert persons["age", None, "mean"] == pytest.approx(each.mean())
    assert persons["age", None, "records"] == pytest.approx(len(each))
    assert persons["age", None, "missing"] == pytest.approx(0, abs=1e-6)
    weighted = estimates(described(table, Unit(weights="w", max_weight=3.0)))
    assert weighted["age", None, "mean"] == pytest.approx(
        np.average(table["age"], weights=table["w"])
    )
    assert weighted["age", None, "records"] == pytest.approx(table["w"].sum())


def test_sampling_errors_are_those_of_persons():
    """Without noise the interval of a mean is the ordinary one of persons, and longer than that of
    rows where rows of a person are alike.
    """
    rng = np.random.default_rng(1)
    table = people()
    table["age"] = np.repeat(rng.integers(18, 95, 1000), 3).astype(float)
    both = {}
    for unit in (ROW, Unit("one person", "id")):
        one = next(
            figure
            for figure in described(table, unit).figures
            if (figure.column, figure.figure) == ("age", "mean")
        )
        both[unit.many] = one.high - one.low
    assert both[True] / both[False] == pytest.approx(math.sqrt(3), rel=5e-3)  # Fieller: z²/n
    se = table.groupby("id")["age"].mean().std(ddof=0) / math.sqrt(1000)
    assert both[True] == pytest.approx(2 * 1.96 * se, rel=5e-3)


@pytest.mark.parametrize("unit", [ROW, Unit("one person", "id")], ids=["rows", "persons"])
def test_every_kind_of_table_says_the_same(tmp_path, unit):
    table = people(500)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    table.to_parquet(tmp_path / "groups.parquet", row_group_size=77)
    table.to_feather(tmp_path / "t.arrow")
    (tmp_path / "parts").mkdir()
    for part, first in enumerate(range(0, 500, 120)):
        table.iloc[first : first + 120].to_parquet(tmp_path / "parts" / f"{part}.parquet")
    schema = Schema(COLUMNS, unit)
    tables = [
        pl.from_pandas(table),
        pa.Table.from_pandas(table),
        tmp_path / "t.csv",
        str(tmp_path / "t.parquet"),
        tmp_path / "t.arrow",
        tmp_path / "parts",
        tmp_path / "groups.parquet",
    ]
    first = dp.describe(table, schema, APPROX, "sex", insecure_seed=3)
    for other in tables:
        again = dp.describe(other, schema, APPROX, "sex", insecure_seed=3)
        assert repr(again.figures) == repr(first.figures)


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("by", [None, "sex"])
def test_every_kind_of_table_is_kept_to_the_same_bits(tmp_path, by, threads, monkeypatch):
    """Of more records than are read at once, whose files end in the middle of a block."""
    monkeypatch.setenv("DPINFER_THREADS", threads)
    monkeypatch.setattr(summaries, "_MAX_BLOCKS", 1)
    monkeypatch.setattr(summaries, "_RECORDS_AT_ONCE", 2 * BLOCK)
    table = people(5 * BLOCK + 700)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=3001)
    table.to_feather(tmp_path / "t.arrow", chunksize=1777)
    (tmp_path / "parts").mkdir()
    for part, first in enumerate(range(0, len(table), 4000)):
        table.iloc[first : first + 4000].to_parquet(tmp_path / "parts" / f"{part}.parquet")
    monkeypatch.setattr(
        arrow_files, "LONG", 5000
    )  # so that one file is long, and the parts are not
    tables = [table, pl.from_pandas(table), *map(tmp_path.joinpath, os.listdir(tmp_path))]
    kept = []
    for one in tables:
        asked = describing(one, Schema(COLUMNS, ROW), APPROX, by)
        with worker_pool():
            statistics = asked._read(asked.records.read()).summaries
        counts = [statistics.levels[place].tolist() for place in sorted(statistics.levels)]
        kept.append((statistics.sums.tolist(), [one.tobytes() for one in statistics.cells], counts))
    assert len(kept) == 6
    assert all(one == kept[0] for one in kept)


def test_columns_that_folders_tell_and_derived_ones(tmp_path):
    """CSV files are read once, whatever is derived of a column; and a folder may tell all of it."""
    parts = people(300).groupby(np.arange(300) % 2)
    for year, part in parts:
        folder = tmp_path / f"year={2018 + year}"
        folder.mkdir()
        part[["income"]].to_csv(folder / "t.csv", index=False)
    columns = {"income": COLUMNS["income"], "year": Number("year", 2000.0, 2030.0, kind="integer")}
    schema = Schema(columns, ROW)
    asked = ["income", "log(income + 1)", "income > 20", "income > 50", "year"]
    table = pd.concat([part.assign(year=2018 + year) for year, part in parts])
    for names in (asked, ["year"]):
        expected = dp.describe(table, schema, APPROX, columns=names, insecure_seed=2)
        found = dp.describe(tmp_path, schema, APPROX, columns=names, insecure_seed=2)
        assert repr(found.figures) == repr(expected.figures)
    tasks = describing(tmp_path, schema, APPROX, columns=asked).records.read().tasks
    assert len(tasks) == 1


def test_wide_tables_are_not_sliced_once_per_column(monkeypatch):
    """A slice of pandas takes time for every column."""
    names = [f"c{j}" for j in range(60)]
    table = pd.DataFrame({name: ["f", "m"] * 10 for name in names})
    schema = Schema({name: Category(name, ("f", "m"), "f") for name in names}, ROW)
    sliced = []
    act = nw.DataFrame.__getitem__
    monkeypatch.setattr(
        nw.DataFrame,
        "__getitem__",
        lambda self, some: sliced.append(len(self.columns)) or act(self, some),
    )
    monkeypatch.setenv("DPINFER_THREADS", "2")
    for long in (2**18, 1):
        monkeypatch.setattr(memory, "LONG", long)
        sliced.clear()
        asked = describing(table, schema, APPROX)
        asked._read(asked.records.read())
        assert 60 <= sum(sliced) <= 120


def test_an_integer_with_a_fraction_is_missing_in_every_table(tmp_path):
    columns = {"visits": Number("visits", 0.0, 9.0, kind="integer")}
    values = [0.0, 2.5, 3.0, 9.0, 1e300, np.nan, -np.inf]
    table = pa.table({"visits": pa.array(values)})
    pq.write_table(table, tmp_path / "t.parquet")
    for one in (table.to_pandas(), table, tmp_path / "t.parquet"):
        asked = describing(one, Schema(columns, ROW), APPROX)
        (cells,) = asked._read(asked.records.read()).summaries.cells
        assert np.flatnonzero(cells[0]).tolist() == [0, 3, 9, CELLS + 1]
        assert cells[0, [0, 3, 9, CELLS + 1]].tolist() == [1, 1, 2, 3]  # one is above its bound


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("by", [None, "sex", "sick"])
@pytest.mark.parametrize("budget", [dp.PureDP(2.0), APPROX], ids=str)
def test_one_pass_releases_what_several_do(neighbours, by, budget, monkeypatch):
    """Where every record counts 1, the table is read once; where that would keep too much, more
    often, and the same numbers are released.
    """
    passes = []
    for owner, name in ((Blocks, "total"), (module, "summarize")):
        act = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *given, act=act, name=name: passes.append(name) or act(*given)
        )
    found = []
    for most, expected in ((2**8, ["summarize"]), (0, ["total"] * 3)):
        monkeypatch.setattr(module, "MAX_HISTOGRAMS", most)
        schema = Schema(COLUMNS, ROW)
        found += [dp.describe(people(), schema, budget, by, neighbours=neighbours, insecure_seed=5)]
        assert passes == expected
        passes.clear()
    assert repr(found[0].figures) == repr(found[1].figures)


def test_numbers_alone_and_levels_alone():
    """A pass that keeps nothing of the other kind."""
    table = people(400)
    for columns in (["age", "income"], ["sex", "died"]):
        found = estimates(described(table, columns=columns))
        both = estimates(described(table))
        mine = {key: value for key, value in both.items() if key[0] in columns}
        assert found == pytest.approx(mine, rel=1e-9)


def test_the_page_shows_what_is_printed():
    """The example of docs/describe.md, with the seed that it names."""
    page = Path("docs/describe.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("...\n")[0]
    demo = dp.datasets.rand_hie()
    columns = ["visit", "disea", "health"]
    found = dp.describe(
        demo.table, demo.schema, dp.ApproxDP(0.5, 1e-6), "idp", columns, insecure_seed=1
    )
    assert len(shown) > 1000
    assert found.summary().startswith(shown)


def test_persons_and_weights_take_several_passes():
    """What a row counts is no whole number there: it cannot be kept as counts."""
    units = {ROW: True, Unit("one person", "id"): False, Unit(weights="w", max_weight=3.0): False}
    for unit, once in units.items():
        asked = describing(people(300), Schema(COLUMNS, unit), APPROX)
        assert isinstance(asked._read(asked.records.read()), SummarizedSource) == once


@pytest.mark.parametrize("budget", [dp.PureDP(2.0), dp.ZCDP(0.05), APPROX], ids=str)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_intervals_hold_the_population(budget, neighbours):
    """One table as the population: of all figures of 12 samples about 95 in 100 are held."""
    population = people(4000)
    schema = Schema(COLUMNS)
    truth = estimates(described(population, by="sick"))
    truth |= {
        (*key, True): value
        for key, value in estimates(described(population, by="sick"), True).items()
    }
    hits = []
    for seed in range(12):
        sample = population.sample(4000, replace=True, random_state=seed)
        found = dp.describe(
            sample, schema, budget, "sick", neighbours=neighbours, insecure_seed=seed
        )
        for one in found.figures:
            key = (one.column, one.level, one.figure)
            if one.group is True:
                key = (*key, True)
            if one.status == REPORTED and one.group is not False:
                hits.append(one.low - 1e-9 <= truth[key] <= one.high + 1e-9)
    assert len(hits) > 400
    assert 0.93 < np.mean(hits) < 0.99


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_a_count_with_laplace_noise_is_covered_at_each_level(level):
    """A record moves two counts by 1, so each has Laplace noise of the rate ε/2, and P(|noise| > x) is
    exp(-rate x): the coverage is computed, not sampled.  That of a normal interval of the same variance
    is too low at the usual levels.
    """
    epsilon = 0.5
    asked = describing(
        people(100), Schema(COLUMNS), dp.PureDP(epsilon), columns=["sex"], level=level
    )
    assert len(asked.plan.releases()) == 1
    (margin,) = (one["noise"] for one in asked.expected())
    coverage = -math.expm1(-epsilon / 2 * margin)
    z = norm.ppf((1 + level) / 2)
    normal = -math.expm1(-math.sqrt(2) * z)
    assert coverage == pytest.approx(max(level, normal), abs=1e-3)
    assert coverage >= level
    assert (normal < level) == (level > 0.91)


def test_figures_are_in_the_order_of_the_columns_and_their_groups():
    """Levels and numbers are released by different queries, each without groups and by group."""
    found = described(people(200), by="sick", columns=["age", "sex", "cost", "died"]).figures
    places = [(one.column, one.group) for one in found if one.figure in ("count", "mean")]
    distinct = [
        place for place, before in zip(places, [None, *places], strict=False) if place != before
    ]
    columns = ["age", "sex", "cost", "died"]
    assert distinct == [(column, group) for column in columns for group in (None, False, True)]
    assert [one.column for one in found] == sorted((one.column for one in found), key=columns.index)


def test_a_private_number_of_records_is_estimated():
    found = dp.describe(people(), Schema(COLUMNS), APPROX, neighbours="add-remove", insecure_seed=1)
    assert found.n is None
    one = next(figure for figure in found.figures if figure.figure == "records")
    assert one.low < one.estimate < one.high
    assert one.estimate % 1 != 0


def test_what_noise_hides_is_not_reported():
    found = dp.describe(people(60), Schema(COLUMNS), dp.ZCDP(1e-6), insecure_seed=1)
    unreported = [one for one in found.figures if one.status != REPORTED]
    assert len(unreported) > 10
    assert all(one.status.startswith("not reported: ") for one in unreported)
    assert all(math.isnan(one.estimate) and math.isnan(one.low) for one in unreported)


def test_booked_before_a_value_is_read(monkeypatch):
    """A ledger that refuses: nothing is read; one that accepts holds one entry of three releases."""
    read = []
    honest = InMemory.source
    monkeypatch.setattr(InMemory, "source", lambda *given: read.append(given) or honest(*given))
    with pytest.raises(dp.LedgerError, match=r"ρ = 0\.01: lower its budget"):
        dp.describe(people(), Schema(COLUMNS), dp.ZCDP(0.05), ledger=dp.Ledger(dp.ZCDP(0.01)))
    assert not read
    ledger = dp.Ledger(dp.ZCDP(0.05))
    found = dp.describe(people(), Schema(COLUMNS), dp.ZCDP(0.05), ledger=ledger)
    assert len(ledger.entries()) == 1
    assert found.privacy.release is not None
    assert len(read) == 1
    with pytest.raises(dp.LedgerError):
        dp.describe(people(), Schema(COLUMNS), dp.ZCDP(0.05), ledger=ledger)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "age"}, "by='age' is a number"),
        ({"by": "sex", "columns": ["sex"]}, "is the only column"),
        ({"by": "sexx"}, "did you mean 'sex'"),
        ({"columns": ["agee"]}, "did you mean 'age'"),
        ({"columns": []}, "no column to describe"),
        ({"columns": "age"}, "takes a list of names"),
        ({"shares": {"aged": 2}}, "did you mean 'age'"),
        ({"shares": {"age": 0}}, "must be a positive number"),
        ({"shares": {"age": True}}, "must be a positive number"),
        ({"level": 95}, "between 0 and 1"),
        ({"neighbours": "replace-unit"}, "needs ids"),
    ],
)
def test_what_cannot_be_described_is_refused(options, words):
    with pytest.raises(dp.InputError, match=words):
        dp.describe(people(9), Schema(COLUMNS), APPROX, **options)


def test_budgets_and_tables_that_do_not_do():
    with pytest.raises(dp.BudgetError, match="needs a budget"):
        dp.describe(people(9), Schema(COLUMNS))
    with pytest.raises(dp.BudgetError, match="is described with"):
        dp.describe(people(9), Schema(COLUMNS), "much")
    with pytest.raises(dp.BudgetError, match="no promise"):
        dp.describe(people(9), Schema(COLUMNS), dp.ApproxDP(1.0, 0.2))
    with pytest.raises(dp.InputError, match="no rows"):
        dp.describe(people(9).head(0), Schema(COLUMNS), APPROX)
    with pytest.raises(dp.InputError, match="no column 'sick'"):
        dp.describe(people(9).drop(columns="sick"), Schema(COLUMNS), APPROX)
    with pytest.raises(dp.InputError, match="must hold numbers"):
        dp.describe(people(9).assign(age="old"), Schema(COLUMNS), APPROX)


def test_derived_columns_dates_and_levels_of_integers():
    """By name or as an expression, as the formula of a fit would have them; a group may be one."""
    table = people()
    table["edu"] = np.arange(len(table)) % 4
    table["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(table)) % 100, "D")
    schema = Schema.parse(
        """
        unit = "one person"
        [columns.age]
        type = "integer"
        low = 0
        high = 100
        missing = 40
        [columns.sex]
        type = "category"
        levels = ["f", "m"]
        missing = "level"
        [columns.edu]
        type = "integer"
        low = 0
        high = 3
        levels = [0, 1, 2, 3]
        [columns.day]
        type = "date"
        low = 2020-01-01
        high = 2020-12-31
        [columns.senior]
        from = "age >= 65"
        """
    )
    columns = [*schema.columns, "senior", "cut(age, 40, 65)", "edu in (1, 2)"]
    description = dp.describe(table, schema, dp.NoPrivacy(), "age >= 65", columns, insecure_seed=0)
    found = estimates(description)
    known = table["age"].dropna()
    assert found["age", None, "records"] == len(known)  # a substitute is no value
    assert found["sex", "missing", "count"] == pytest.approx((table["sex"] == "?").sum())
    assert found["edu", 3, "share"] == pytest.approx(0.25)
    assert found["day", None, "mean"] == pytest.approx(49.5)
    assert found["senior", True, "share"] == pytest.approx((known >= 65).mean())
    assert found["senior", None, "missing"] == pytest.approx(table["age"].isna().sum())
    assert found["cut(age, 40, 65)", "65 or more", "share"] == pytest.approx((known >= 65).mean())
    assert sum(
        level
        for (name, _, figure), level in found.items()
        if (name, figure) == ("edu in (1, 2)", "share")
    ) == pytest.approx(0.5)
    older = table[table["age"] >= 65]
    assert description.by == "age >= 65"
    assert estimates(description, True)["edu", 3, "count"] == pytest.approx(
        (older["edu"] == 3).sum()
    )
    assert "senior" in description.summary()
    assert re.search(r"median +2020-02-\d\d", description.summary())
    assert set(description.derived) == {"senior", "cut(age, 40, 65)", "edu in (1, 2)"}
    guessed = schema.guess(description.typical())
    assert guessed.typical["day"].mean == pytest.approx(49.5, abs=1)
    assert set(guessed.typical) == {"age", "sex", "edu", "day"}
    assert dp.Description.from_json(description.to_json()).figures == description.figures


def test_a_column_alone_has_the_whole_budget():
    """Without numbers there is one release, with them three; all of a budget is spent either way."""
    table = people(50)
    alone = describing(table, Schema(COLUMNS), dp.ZCDP(0.1), columns=["sex"])
    assert [event.step for event in alone.entry.events] == ["counts and moments"]
    assert alone.entry.events[0].share.rho == pytest.approx(0.1)
    both = describing(table, Schema(COLUMNS), dp.ZCDP(0.1), columns=["sex", "age"])
    assert len(both.entry.events) == 3
    assert "sex, age" in both.entry.purpose
