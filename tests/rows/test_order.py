"""Rows of units in any order: every release of units is about the same totals.

A person who comes or goes may reorder the table that an engine or an export hands over, so neither
a count nor a sum may depend on the order, beyond the rounding of floats.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.bounds import MAGNITUDES
from dpinfer.mechanisms.histograms import histogram
from dpinfer.mechanisms.sums import second_moment
from dpinfer.tables.memory import InMemory, column_rows, column_tally
from helpers.people import AVERAGE, UNIT, WEIGHTS, schema, table
from helpers.searches import examples

HEADS = {
    "average": AVERAGE,
    "every": UNIT + 'rows = "every"\n',
    "weights": UNIT + WEIGHTS,
}
NOTIONS = [Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT]
TABLE = table(700, 150)
WORDS = ["a", "b", "é", "e\u0301", " a ", "", "drop", None, "x" * 300, "c"]


@st.composite
def reordered(draw):
    """Some rows of units, and the same in another order."""
    size = draw(st.integers(0, 30))
    cells = {
        "who": draw(st.lists(st.sampled_from([1, 2, 3, None]), min_size=size, max_size=size)),
        "word": draw(st.lists(st.sampled_from(WORDS), min_size=size, max_size=size)),
        "number": draw(st.lists(st.floats(width=32), min_size=size, max_size=size)),
        "w": draw(st.lists(st.floats(0, 5), min_size=size, max_size=size)),
    }
    frame = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()})
    order = draw(st.permutations(range(size)))
    return frame, frame.iloc[list(order)].reset_index(drop=True)


def counts(tally):
    return dict(zip(tally.levels, tally.counts.tolist(), strict=True))


@pytest.mark.parametrize("notion", NOTIONS)
@examples(27)
@given(frames=reordered())
def test_levels_and_ranges_are_those_of_any_order(notion, frames):
    one, other = (InMemory(frame).table for frame in frames)
    for head in HEADS.values():
        unit = schema(head.replace('"person"', '"who"')).unit
        assert unit.column == "who"
        tallies = [column_tally(frame, "word", unit, notion) for frame in (one, other)]
        assert counts(tallies[0]) == counts(tallies[1])
        assert tallies[0].levels == tallies[1].levels  # so that a seed gives the same noise
        sums = [
            column_rows(frame, "number", unit, integers=False).total(
                histogram(MAGNITUDES, notion).of_block
            )
            for frame in (one, other)
        ]
        np.testing.assert_allclose(sums[0], sums[1], rtol=0, atol=1e-12)
        assert len({InMemory(frame).count_units("who") for frame in frames}) == 1


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_a_fit_are_those_of_any_order(head, seed):
    model = dp.LogisticRegression("y ~ a + b", schema=schema(HEADS[head]), budget=dp.ZCDP(0.5))
    other = TABLE.sample(frac=1.0, random_state=seed)
    totals = []
    for frame in (TABLE, other):
        pending = model.read(frame)[1]
        with pending.opened() as source:
            moments = source.total(second_moment(Adjacency.REPLACE_UNIT).of_block)
            products = source.total(lambda block: (block.shares * block.labels) @ block.rows)
        totals.append([pending.n, moments, products])
    assert totals[0][0] == totals[1][0]
    for first, second in zip(totals[0][1:], totals[1][1:], strict=True):
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-9)


MODELS = {
    "logistic": lambda **options: dp.LogisticRegression("y ~ a + b", budget=dp.ZCDP(5), **options),
    "least squares": lambda **options: dp.LinearRegression("cost ~ a", budget=dp.ZCDP(5), **options),
    "svm": lambda **options: dp.LinearSVC("y ~ a + b", budget=dp.ZCDP(5), **options),
    "pure": lambda **options: dp.LogisticRegression("y ~ a", budget=dp.PureDP(9), **options),
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "neighbours"),
    [
        ("logistic", "replace"),
        ("logistic", "add-remove"),
        ("least squares", "replace"),
        ("least squares", "add-remove"),
        ("svm", "replace"),
        ("pure", "replace"),
    ],
)
def test_a_fit_is_that_of_any_order(model, neighbours):
    """With the same noise, and up to the grid on which it is rounded."""
    other = TABLE.sample(frac=1.0, random_state=1)
    options = {"schema": schema(AVERAGE), "neighbours": neighbours, "insecure_seed": 3}
    one, two = (MODELS[model](**options).fit(frame).result_ for frame in (TABLE, other))
    for first, second in zip(one.table(), two.table(), strict=True):
        assert first["estimate"] == pytest.approx(second["estimate"], abs=1e-4, nan_ok=True)


def test_a_learnt_schema_is_that_of_any_order():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "person": rng.integers(0, 300, 3000),
            "word": rng.choice(["a", "b", "c"], 3000),
            "number": rng.uniform(0, 90, 3000),
        }
    )
    draft = AVERAGE + '[columns.word]\ntype = "category"\nlevels = "?"\nmissing = "drop"\n'
    draft += '[columns.number]\ntype = "number"\nlow = "?"\nhigh = "?"\n'
    budget = dp.ApproxDP(2.0, 1e-6)
    texts = {
        dp.learn_bounds(
            frame.sample(frac=1.0, random_state=seed), draft, budget=budget, insecure_seed=1
        ).text
        for seed in range(5)
    }
    assert len(texts) == 1
