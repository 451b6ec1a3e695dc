"""Fits with effects of persons: no query moves by more than its bound, and nothing but releases decides anything."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from audit.test_stepped import Recorder, asked_of
from dpinfer.fit import recipe
from dpinfer.fit.recipe import Subject, fit
from dpinfer.privacy.gate import Gate, Released
from dpinfer.rows.encoded import Changed, Encoding, Raw

SCHEMA = dp.Schema.parse("""
unit = {name = "one person", column = "id"}
columns.y = {type = "number", low = -3, high = 5}
columns.x = {type = "number", low = -360, high = 440}
columns.yes = {type = "boolean"}
columns.kind = {type = "category", levels = ["a", "b", "c"]}
""")
FORMULA = "y ~ x + yes + kind | id"
NOTIONS = ("replace", "add-remove")


def table_of(persons, seed, rows=4):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(persons), rows)
    x = rng.normal(40, 12, persons * rows)
    y = np.clip(
        0.02 * x + rng.normal(0, 0.5, persons * rows) + rng.normal(0, 1, persons)[ids], -3, 5
    )
    kinds = rng.choice(["a", "b", "c"], persons * rows)
    return pd.DataFrame({"id": ids, "x": x, "yes": rng.random(len(x)) < 0.4, "kind": kinds, "y": y})


def steps_of(table, notion, budget=None):
    budget = dp.ZCDP(0.5) if budget is None else budget
    model = dp.LinearRegression(FORMULA, schema=SCHEMA, budget=budget, adjacency=notion)
    design, pending = model.read(table)
    return model.recipe(design, max(pending.n, 1)), pending.rows()


def one_person(design, rng):
    """A person of one to six rows with values of every size, some of which cannot be encoded."""
    rows = int(rng.integers(1, 7))
    x = rng.choice(
        [-360.0, 440.0, 0.0, 40.0, 55.0, 1e300, np.nan],
        rows,
        p=[0.25, 0.25, 0.1, 0.1, 0.1, 0.1, 0.1],
    )
    kinds = np.eye(3)[rng.integers(0, 3, rows)][:, 1:]
    values = np.column_stack([x, rng.integers(0, 2, rows), kinds])
    labels = rng.choice([-1.0, 1.0, 7.0, 0.2, np.nan], rows, p=[0.4, 0.4, 0.1, 0.05, 0.05])
    return Encoding(design, "residual").block(Raw(values, labels, np.zeros(rows, dtype=int)))


def sum_over(source, query, block):
    """What a query adds up over a block, through the changes of its source."""
    changes = []
    while isinstance(source, Changed):
        changes.append(source.change)
        source = source.source
    for change in reversed(changes):
        block = change(block)
    with np.errstate(all="ignore"):
        return query.of_block(block)


@pytest.mark.parametrize("notion", NOTIONS)
def test_no_query_moves_by_more_than_its_bound(notion, monkeypatch):
    """Of all releases of a fit, where one person is replaced by any other, or added; each is far from idle."""
    asked = []

    class Listening(Gate):
        def release(self, booked, source, what) -> Released:
            asked.append((booked.step, source, what))
            return super().release(booked, source, what)

    monkeypatch.setattr(recipe, "Gate", Listening)
    steps, rows = steps_of(table_of(1500, 0), notion)
    fit(steps, rows, Subject(), None, 3)
    assert len(asked) == len(steps.releases(1500))
    rng = np.random.default_rng(7)
    persons = [one_person(steps.design, rng) for _ in range(60)]
    for step, source, query in asked:
        sums = [sum_over(source, query, person) for person in persons]
        others = [np.zeros_like(sums[0]), *(sums if notion == "replace" else [])]
        moved = max(float(np.linalg.norm(one - other)) for one in sums for other in others)
        assert 0.1 < moved / query.bound <= 1.0, step


@pytest.mark.parametrize("notion", NOTIONS)
def test_the_releases_decide_everything(notion, monkeypatch):
    """Played to quite other records, of another number of rows: all alike, half of them missing."""
    steps, rows = steps_of(table_of(1500, 0), notion)
    monkeypatch.setattr(recipe, "Gate", Recorder)
    monkeypatch.setattr(Recorder, "seen", [], raising=False)
    monkeypatch.setattr(Recorder, "asked", [], raising=False)
    first = fit(steps, rows, Subject(), None, 4)
    assert [entry[0] for entry in Recorder.seen] == list(steps.releases(1500))
    replay = iter(zip(Recorder.seen, Recorder.asked, strict=True))

    class Replay(Gate):
        def release(self, booked, source, what) -> Released:
            (asked, bound, released), query = next(replay)
            assert (booked, what.bound) == (asked, bound)
            assert asked_of(source, what) == query
            source.total(what.of_block)
            return released

    monkeypatch.setattr(recipe, "Gate", Replay)
    others = table_of(1500 if notion == "replace" else 701, 1, rows=2)
    others["y"] = 5.0
    others.loc[others.index[::2], "x"] = np.nan
    other = fit(steps, steps_of(others, notion)[1], Subject(), None, 4)
    assert first.to_json() == other.to_json()
    assert first.reported.any()


@pytest.mark.parametrize(
    "odd",
    ["one of most rows", "one row each", "nothing can be read", "the same period twice", "no ids"],
)
def test_odd_persons_raise_nothing(odd):
    """Same public behaviour, whatever a person's rows are."""
    table = table_of(300, 2)
    if odd == "one of most rows":
        table["id"] = np.maximum(table["id"] - 200, 0)
    elif odd == "one row each":
        table["id"] = np.arange(len(table))
    elif odd == "nothing can be read":
        table["x"] = np.nan
    elif odd == "the same period twice":
        table = pd.concat([table, table])
    else:
        table["id"] = [None] * len(table)
    model = dp.LinearRegression(
        FORMULA, schema=SCHEMA, budget=dp.ZCDP(0.5), adjacency="add-remove", insecure_seed=1
    )
    result = model.fit(table).result_
    assert np.isfinite(result.estimate).all()
    if odd in ("one row each", "nothing can be read", "no ids"):
        assert not result.reported.any()
