"""Learning bounds: what is booked, what is read when, what is found, and that nothing else gets
out.
"""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dp
from dpinfer.fit import bounds
from dpinfer.fit.bounds import BoundsPlan
from dpinfer.mechanisms.privacy_cost import gaussian_delta
from dpinfer.privacy import accountant
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import ShownLevels, delta_of
from dpinfer.tables.memory import InMemory
from helpers import people

APPROX = dp.ApproxDP(1.0, 1e-6)
BUDGETS = [dp.PureDP(2.0), dp.ZCDP(0.05), APPROX]


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 96, n),
            "income": rng.lognormal(10, 0.5, n),
            "health": rng.choice(["good", "fair", "poor"], n, p=[0.7, 0.2, 0.1]),
            "flag": rng.random(n) < 0.5,
        }
    )


# The plan


@pytest.mark.parametrize("levels", [(), ("t",), ("t", "u", "v")])
@pytest.mark.parametrize("ranges", [("a",), ("a", "b", "c"), ()])
def test_guarantee_bounds_composition(ranges, levels):
    if ranges + levels == ():
        return
    for budget in (dp.PureDP(0.3), dp.ZCDP(0.02), APPROX, dp.ApproxDP(0.05, 1e-9)):
        if levels and not isinstance(budget, dp.ApproxDP):
            with pytest.raises(dp.BudgetError, match="'t' take a delta"):
                BoundsPlan(budget, ranges, levels)
            continue
        events = BoundsPlan(budget, ranges, levels).releases().all
        assert len(events) == 3 * len(ranges) + len(levels)
        assert accountant.affordable(budget, events)
        if isinstance(budget, dp.ApproxDP):
            mu = math.sqrt(2 * math.fsum(event.share.rho for event in events))
            deltas = [event.delta for event in events if isinstance(event, ShownLevels)]
            assert math.fsum(deltas) == pytest.approx(budget.delta / 2 if levels else 0.0)
            assert len(set(deltas)) <= 1
            total = delta_of(events) + float(gaussian_delta(budget.epsilon, mu))
            assert total == pytest.approx(budget.delta, rel=1e-6)
        else:
            assert accountant.spent(budget, events) == pytest.approx(
                accountant.limit(budget), rel=1e-12
            )
        first = dp.Ledger(budget)
        first.book(bounds.Entry("test", "one record", events))  # a fresh ledger of its size pays
    with pytest.raises(dp.BudgetError, match="bounds are learnt with"):
        BoundsPlan(dp.NoPrivacy(), ranges, ())


# What gets out


class Recorder(Gate):
    kept: list = []  # noqa: RUF012

    def release(self, *arguments):
        self.kept.append(super().release(*arguments))
        return self.kept[-1]

    def levels(self, *arguments):
        self.kept.append(super().levels(*arguments))
        return self.kept[-1]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_guarantee_bounds_from_releases(neighbours, monkeypatch):
    """Replay the releases on quite other records: the schema is the same, letter by letter."""
    monkeypatch.setattr(Recorder, "kept", [])
    monkeypatch.setattr(bounds, "Gate", Recorder)
    first = dp.learn_bounds(table(), budget=APPROX, neighbours=neighbours)
    replay = iter(Recorder.kept)

    class Replay(Gate):
        def release(self, *arguments):
            return next(replay)

        levels = release

    monkeypatch.setattr(bounds, "Gate", Replay)
    n = 20_000 if neighbours == "replace" else 3
    other = pd.DataFrame(
        {"age": [7] * n, "income": [np.nan] * n, "health": ["secret"] * n, "flag": [True] * n}
    )
    again = dp.learn_bounds(other, budget=APPROX, neighbours=neighbours)
    assert again.text == first.text
    assert again.columns == first.columns
    assert len(first.schema.columns) == 4


def test_booked_before_a_value_is_read(monkeypatch):
    """A ledger that refuses: no column was opened; one that accepts: the entry comes first."""
    opened, seen = [], []
    honest = InMemory.opened
    monkeypatch.setattr(InMemory, "opened", lambda *given: opened.append(given) or honest(*given))
    with pytest.raises(dp.LedgerError, match=r"ρ = 0\.01: lower its budget"):
        dp.learn_bounds(table(), budget=dp.ZCDP(0.05), ledger=dp.Ledger(dp.ZCDP(0.01)))
    assert opened == []

    class Book:
        unit = "one record"

        def book(self, entry):
            seen.append((entry, len(opened)))
            return "f" * 32

    found = dp.learn_bounds(table(), budget=dp.ZCDP(0.05), columns=["age", "income"], ledger=Book())
    ((entry, before),) = seen
    assert before == 0
    assert entry == found.entry
    assert entry.purpose == "learn_bounds of age, income"
    assert found.schema["age"].learned == found.release == "f" * 32
    assert "NOT PRIVATE" not in found.summary()
    assert (
        "NOT PRIVATE" in dp.learn_bounds(table(), budget=dp.ZCDP(0.05), insecure_seed=1).summary()
    )


def kinds(frame):
    yield frame
    yield pl.from_pandas(frame)
    yield pa.Table.from_pandas(frame, preserve_index=False)
    yield pa.Table.from_pandas(frame, preserve_index=False).to_pandas(types_mapper=pd.ArrowDtype)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e-320, 2.0**400, 0.5])
def test_no_number_raises_or_warns(value):
    texts = pd.Series([None, *["x", "y", "z"] * 999, "\udfff", "w" * 500], dtype=object)
    frame = pd.DataFrame({"a": [value, *range(1, 3000)], "t": texts})
    tables = [frame, *list(kinds(frame[["a"]].assign(t="x")))[1:]]
    for one, neighbours in itertools.product(tables, ["replace", "add-remove"]):
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = dp.learn_bounds(
                one, budget=dp.ApproxDP(5.0, 1e-3), neighbours=neighbours, insecure_seed=1
            )
        assert found.columns[0].keys["low"] <= 50
        assert 2800 < found.columns[0].keys["high"] < 4500


def test_tables_of_all_libraries_give_the_same(tmp_path):
    frame = table(3000)
    frame.to_parquet(tmp_path / "table.parquet")
    frame.to_csv(tmp_path / "table.csv", index=False)
    types = {"age": "integer", "income": "number", "health": "category"}
    texts = [
        dp.learn_bounds(one, budget=dp.ApproxDP(3.0, 1e-6), columns=types, insecure_seed=5).columns
        for one in [*kinds(frame), tmp_path / "table.parquet", str(tmp_path / "table.csv")]
    ]
    assert all(found == texts[0] for found in texts)
    assert set(texts[0][2].keys["levels"]) == {"good", "fair", "poor"}


# What is found


@pytest.mark.parametrize("budget", [dp.PureDP(0.5), dp.ApproxDP(0.5, 1e-6)])
def test_the_bundled_data_at_one_half(budget):
    """Every range holds nearly everybody, is of the right size, and says so; all four levels show."""
    demo = dp.datasets.rand_hie()
    columns = ["mdvis", "lncoins", "lpi", "fmde", "physlm", "disea"]
    asked = [*columns, "health"] if isinstance(budget, dp.ApproxDP) else columns
    most = 0.03 if isinstance(budget, dp.ApproxDP) else 0.12
    for seed in range(3):
        found = dp.learn_bounds(demo.table, budget=budget, columns=asked, insecure_seed=seed)
        for one in found.columns[:6]:
            values = demo.table[one.name].to_numpy(float)
            low, high = one.keys["low"], one.keys["high"]
            beyond = np.mean((values < low) | (values > high))
            assert beyond <= one.clipped
            assert beyond < most
            assert low == 0
            assert 0.25 < high / np.quantile(values, 0.995) < 3
        if len(asked) == 7:
            assert found.columns[6].keys == {"levels": ["excellent", "good", "fair", "poor"]}
            assert found.schema["health"].learned == "not private"
            assert set(found.schema.columns) == {*asked, "visit"}


def test_a_learnt_schema_serves_a_fit():
    ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6))
    frame = table()
    found = dp.learn_bounds(frame, budget=dp.ApproxDP(0.3, 1e-7), ledger=ledger)
    assert found.gaps == 0
    model = dp.LinearRegression(
        "log(income) ~ age + health", schema=found.schema, budget=APPROX, ledger=ledger
    )
    assert np.isfinite(model.fit(frame).result_.estimate).all()
    assert ledger.entries()[0].release == found.release
    assert ledger.spent() < 2.0


def test_nothing_is_clear_of_the_noise():
    frame = pd.DataFrame(
        {"a": [np.nan] * 5000, "z": [0.0] * 5000, "t": [str(j) for j in range(5000)]}
    )
    found = dp.learn_bounds(frame, budget=APPROX, insecure_seed=0)
    assert [one.keys for one in found.columns] == [{}, {}, {}]
    assert found.gaps == 5
    assert found.text.count("learned =") == 0
    for words in ("no range is clear of the noise", "fewer than two levels are clear"):
        assert words in found.summary()
    with pytest.raises(dp.InputError, match="line 8: column 'a': low is not filled in"):
        assert found.schema


def test_a_range_that_clips_many_is_left_open():
    """Counts that zoom in on a small part of the records are told, and not written."""
    frame = pd.DataFrame(
        {"a": np.append(np.full(1000, 3.0), 2.0 ** np.random.default_rng(0).uniform(5, 300, 1000))}
    )
    found = dp.learn_bounds(frame, budget=dp.ZCDP(0.002), insecure_seed=1)
    assert found.columns[0].keys == {}
    assert found.columns[0].clipped > 0.2
    assert "spend more on it" in found.summary()


def test_what_is_stated_is_kept():
    text = """
unit = "one record"
[columns.age]
type = "integer"
low = 0
high = "?"
missing = 130
description = "in years"
[columns.income]
type = "outcome"
low = "?"
high = "?"
[columns.health]
type = "category"
levels = "?"
reference = "unknown"
[columns.flag]
type = "boolean"
"""
    found = dp.learn_bounds(table(), text, budget=APPROX, insecure_seed=0)
    age, income, health = (found.schema[name] for name in ("age", "income", "health"))
    assert (age.low, age.missing, age.description) == (0, 130, "in years")
    assert age.high == 130
    assert income.low < 12_000
    assert income.high > 50_000
    assert set(health.levels) == {"good", "fair", "poor", "unknown"}
    assert health.reference == "unknown"
    high = dp.learn_bounds(
        table(), text.replace("low = 0", "low = 500").replace("missing = 130\n", ""), budget=APPROX
    )
    assert (
        high.columns[0].keys == {}
    )  # stated bounds and records contradict each other: nothing is written
    outcome = 'unit = "one record"\n[columns.health]\ntype = "outcome"\nlevels = "?"\n'
    assert "an outcome has two" in dp.learn_bounds(table(), outcome, budget=APPROX).summary()
    two = table().assign(health=lambda t: np.where(t["health"] == "good", "yes", "no"))
    assert dp.learn_bounds(two, outcome, budget=APPROX).schema["health"].levels == ("no", "yes")


# Units


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_persons(budget, neighbours):
    """A person with thousands of rows moves nothing: not the range, and a level of its own does not
    show.
    """
    frame = people.table()
    loud = pd.DataFrame(
        {"person": 1, "a": 1e6, "b": "loud", "y": True, "cost": 0.0, "w": 1.0}, index=range(20_000)
    )
    draft = people.AVERAGE + '[columns.a]\ntype = "number"\n[columns.b]\ntype = "category"\n'
    asked = ["a", "b"] if budget is APPROX else ["a"]
    options = {"budget": budget, "columns": asked, "neighbours": neighbours, "insecure_seed": 3}
    for one in (frame, pd.concat([frame, loud])):
        found = dp.learn_bounds(one, draft, **options)
        assert found.entry.neighbours == f"{neighbours}-unit"
        assert found.entry.unit == "one person"
        low, high = found.columns[0].keys["low"], found.columns[0].keys["high"]
        assert low <= 1
        assert 9 < high < 25
        if budget is APPROX:
            assert set(found.columns[1].keys["levels"]) == {"p", "q"}
    rows = dp.learn_bounds(
        pd.concat([frame, loud]), draft.replace(people.AVERAGE, 'unit = "one row"\n'), **options
    )
    assert rows.columns[0].keys.get("high", 1e6) >= 1e6  # protecting rows, it would


def test_weights_count():
    """A row without a weight is not counted."""
    frame = pd.DataFrame(
        {"a": np.append(np.full(2000, 5.0), np.full(2000, 900.0)), "w": np.repeat([1.0, 0.0], 2000)}
    )
    draft = (
        'unit = "one record"\n[weights]\ncolumn = "w"\nmost = 2.0\n[columns.a]\ntype = "number"\n'
    )
    assert (
        dp.learn_bounds(frame, draft, budget=dp.ZCDP(0.1), insecure_seed=0).columns[0].keys["high"]
        < 20
    )


# Refusals, all before anything is booked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["agee"]}, "no column 'agee': did you mean 'age'"),
        ({"columns": ["flag"]}, "a boolean or a date, whose bounds are not learned"),
        ({"columns": ["age:text"]}, "no column 'age:text'"),
        ({"columns": {"age": "text"}}, "no type 'text' to learn"),
        ({"columns": "age"}, "takes a list of names"),
        ({"columns": []}, "no column has a type and a gap"),
        ({"columns": ["age:category"]}, "has a type already"),
        ({"columns": ["health"], "budget": dp.ZCDP(0.1)}, "'health' take a delta"),
        ({"budget": dp.NoPrivacy()}, "bounds are learnt with"),
        ({"budget": None}, "bounds are learnt with"),
        ({"budget": dp.ApproxDP(1.0, 0.2)}, "no promise"),
        ({"budget": dp.ZCDP(1e-9)}, "too small to show anything"),
        ({"budget": dp.PureDP(1e-15), "neighbours": "add-remove"}, "too small to show anything"),
        ({"neighbours": "both"}, "neighbours must be"),
        ({"neighbours": "replace-unit"}, "needs ids"),
        ({"schema": 3}, "takes a Schema, its text"),
        ({"schema": "there/is/none.toml"}, "cannot be read"),
        ({"schema": '[columns.age]\ntype = "numbr"\n'}, "line 2: column 'age': there is no type"),
        ({"schema": 'unit = "?"\n[columns.age]\ntype = "number"\n'}, "unit is not filled in"),
        (
            {"schema": '[columns.age]\ntype = "number"\nlow = "a"\n'},
            "line 3: column 'age': low must be a number",
        ),
        ({"schema": '[columns.health]\ntype = "integer"\n'}, "'health' must hold numbers"),
        ({"schema": '[columns.age]\ntype = "category"\n'}, "'age' is int64"),
        ({"schema": '[columns.nope]\ntype = "number"\n'}, "no column 'nope'"),
    ],
)
def test_refused(options, message):
    ledger = dp.Ledger(dp.ApproxDP(5.0, 1e-3))
    given = {"budget": APPROX, "ledger": ledger} | options
    schema = given.pop("schema", None)
    with pytest.raises(dp.DpinferError, match=message):
        dp.learn_bounds(table(500), schema, **given)
    assert ledger.entries() == ()


def test_an_empty_table():
    empty = table(500)[:0]
    with pytest.raises(dp.InputError, match="no rows"):
        dp.learn_bounds(empty, budget=APPROX)
    found = dp.learn_bounds(
        empty, budget=APPROX, neighbours="add-remove", insecure_seed=0
    )  # their number is private
    assert [one.keys for one in found.columns] == [{}, {}, {}]


def test_levels_that_look_the_same_are_one():
    """As in a fit: white space around a text and the way accents are stored do not count."""
    rng = np.random.default_rng(0)
    words = rng.choice(["café", "cafe\u0301", "tea", "tea ", " "], 20_000)
    found = dp.learn_bounds(
        pd.DataFrame({"drink": words}), budget=dp.ApproxDP(1.0, 1e-6), insecure_seed=1
    )
    assert set(found.schema["drink"].levels) == {"café", "tea"}


def test_values_that_end_at_0_from_below():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"k": rng.integers(-5, 1, 30_000), "x": -np.maximum(rng.normal(1, 2, 30_000), 0)}
    )
    found = dp.learn_bounds(table, budget=dp.ZCDP(1.0), insecure_seed=1)
    assert (found.schema["k"].low, found.schema["k"].high) == (-5, 0)
    assert found.schema["x"].low < -4
    assert 0 <= found.schema["x"].high < 0.5
