"""The adapters of docs/integrations.md do what the page says, through public names alone."""

import ast
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from examples import dp_wizard_statistic as statistic
from examples.lomas_adapter import DpinferQuerier

import dpinfer as dp

ROOT = Path(__file__).parent.parent
REQUEST = {"model": "logistic", "formula": "visit ~ physlm", "epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def querier():
    data = dp.datasets.rand_hie()
    read = []

    def load():
        read.append(True)
        return data.table

    ledger = dp.Ledger(dp.ApproxDP(1.5, 1e-6), unit=data.schema.unit.name)
    return DpinferQuerier(load, data.schema, ledger, len(data.table)), read


def test_an_adapter_of_lomas_prices_before_it_reads_and_books_what_it_answers(querier):
    adapter, read = querier
    assert adapter.cost(REQUEST) == (1.0, 1e-6)
    assert (read, adapter.ledger.entries()) == ([], ())
    found = adapter.query(REQUEST)
    assert [row["name"] for row in found["table"]] == ["(Intercept)", "physlm"]
    assert found["result"]["format"] == "dpinfer.FitResult"
    assert len(adapter.ledger.entries()) == 1
    with pytest.raises(dp.LedgerError, match="next question may cost up to"):
        adapter.cost({**REQUEST, "epsilon": 1.4})
    with pytest.raises(dp.InputError, match="a model is one of"):
        adapter.cost({**REQUEST, "model": "Ledger"})
    assert len(read) == 1


@pytest.mark.parametrize("groups", [{"Site": ["north", "south"]}, {}])
def test_a_statistic_of_dp_wizard_writes_code_that_runs(tmp_path, groups, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"1 Age": rng.normal(50, 10, 20_000), "Site": rng.choice(["north", "south"], 20_000)}
    )
    table.to_csv(tmp_path / "visits.csv", index=False)
    plan = SimpleNamespace(
        path=str(tmp_path / "visits.csv"),
        epsilon=4.0,
        contributions=2,
        groups=groups,
        analysis_columns={
            "1 Age": [SimpleNamespace(weight=2)],
            "other": [SimpleNamespace(weight=2)],
        },
    )
    generator = SimpleNamespace(analysis_plan=plan)
    identifier = "number_1_age"
    stats = f"{identifier}_stats"
    query = statistic.make_query(generator, identifier, "unused", stats)
    assert "PureDP(1.0)" in query  # half of 4, over two rows per person
    code = (
        statistic.make_column_config_block("1 Age", 0, 100, 10)
        + query
        + statistic.make_output(generator, "1 Age", "unused", stats)
        + f"report = {{{statistic.make_report_kv('ages', 0.95, identifier)}}}\n"
        + statistic.make_plot_note()
    )
    names = {}
    exec(compile(code, "notebook", "exec"), names)
    frame = names[stats]
    assert (abs(frame["estimate"] - 50) < 2).all()
    assert (frame["low"] < frame["estimate"]).all()
    assert len(names["report"]["ages"]["mean"]) == len(frame) == (3 if groups else 1)
    assert "estimate" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["lomas_adapter", "dp_wizard_statistic"])
def test_an_example_imports_the_public_package_alone(name):
    tree = ast.parse((ROOT / f"examples/{name}.py").read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported | modules <= {
        "dpinfer",
        "json",
        "re",
        "typing",
        "dataclasses",
        "collections.abc",
    }
