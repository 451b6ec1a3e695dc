"""Files of format version 1, written before releases were values: read, and gone on with."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.maths.privacy_cost import PerturbedObjective
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.filters import renyi_orders
from dpinfer.privacy.release import NoisySum, PastRelease, PerturbedMinimum

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture
def ledger(tmp_path):
    return dp.Ledger.open(shutil.copy(GOLDEN / "ledger_v1.db", tmp_path / "ledger.db"))


def test_an_old_ledger_is_read(ledger):
    assert ledger.verify().ok
    assert (ledger.total, ledger.title) == (dp.ApproxDP(4, 1e-5), "A ledger of format 1")
    assert ledger.neighbours is Neighbours.REPLACE
    weighted, penalised, output, pure = (entry.events for entry in ledger.entries())
    assert [type(e) for e in weighted] == [NoisySum, NoisySum, PerturbedMinimum, NoisySum]
    assert weighted[2].objective == PerturbedObjective(
        10.684298144958833, 0.023398822889502714, "logistic"
    )
    assert [type(e) for e in penalised] == [PerturbedMinimum, NoisySum]
    assert [type(e) for e in output] == [NoisySum] * 3
    assert [type(e) for e in pure] == [PastRelease, NoisySum]
    first, *others = ledger.rules()
    assert first == "exact, first entry"
    assert set(others) == {"Renyi filter of order 6.1"}  # as a new ledger of this total has
    assert ledger._terms.orders == renyi_orders(ledger.total)
    assert ledger.spent() == pytest.approx(
        1.1296688252881775, rel=1e-9
    )  # version 1, for fixed sizes, said 1.0583


def test_an_old_ledger_goes_on(ledger):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 2)), rng.integers(0, 2, 300)
    unit = ledger.unit
    schema = dp.Schema.parse(
        f'unit = "{unit}"\n[columns.a]\ntype = "number"\nlow = -1\nhigh = 1\n[columns.y]\ntype = "outcome"\n'
        "levels = [0, 1]\n"
    )
    import pandas as pd  # noqa: PLC0415

    table = pd.DataFrame({"a": X[:, 0], "y": y})
    dp.LogisticRegression("y ~ a", schema=schema, budget=dp.ZCDP(0.01), ledger=ledger).fit(table)
    again = dp.Ledger.open(ledger.path)
    assert again.verify().entries == 5
    assert [len(entry.events) for entry in again.entries()] == [4, 2, 3, 2, 9]
    assert again.spent() > 1.1297
    with pytest.raises(dp.LedgerError, match="left of 4"):
        dp.LogisticRegression(
            "y ~ a", schema=schema, budget=dp.ApproxDP(4, 1e-5), ledger=again
        ).fit(table)


def test_old_neighbours_are_a_code(tmp_path):
    ledger = dp.Ledger.open(shutil.copy(GOLDEN / "ledger_v1_add_remove.db", tmp_path / "ledger.db"))
    assert ledger.neighbours is ledger.entries()[0].neighbours is Neighbours.ADD_REMOVE
    assert ledger.spent() == pytest.approx(0.1)
