"""Ledgers, results and a description as commit 3a42421 wrote them.

They were made once, with the code of that commit, and are not made again: what was written then is
read for ever.  ``PYTHONPATH=<a checkout of 3a42421>/src python tests/saved/make.py <folder>``.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dp

COLUMNS = """
[columns.age]
type = "number"
low = 18
high = 90

[columns.group]
type = "category"
levels = ["a", "b"]

[columns.visits]
type = "integer"
low = 0
high = 40

[columns.years]
type = "number"
low = 0
high = 3

[columns.sick]
type = "boolean"
"""
GAPS = COLUMNS.replace('levels = ["a", "b"]', 'levels = "?"').replace(
    "low = 18\nhigh = 90", 'low = "?"\nhigh = "?"'
)
ROWS = '[unit]\nname = "one visit"\n'
PERSONS = '[unit]\nname = "one person"\ncolumn = "person"\nrows = "average"\n'
FITS = (
    (dp.LogisticRegression, "sick ~ age + group", {}),
    (dp.LinearRegression, "visits ~ age + group", {}),
    (dp.PoissonRegression, "visits ~ age + group", {"exposure": "years"}),
)


def table(n=1200):
    rng = np.random.default_rng(8)
    age = rng.uniform(18, 90, n)
    years = rng.uniform(0.2, 3, n)
    visits = np.minimum(rng.poisson(years * np.exp(0.5 + 0.01 * age)), 40)
    return pd.DataFrame(
        {
            "person": np.arange(n) // 2,
            "age": age,
            "group": rng.choice(["a", "b"], n),
            "visits": visits,
            "years": years,
            "sick": rng.random(n) < 1 / (1 + np.exp(2 - 0.03 * age)),
        }
    )


def stepped(folder, name, schema, ledger, budget, neighbours):
    """A fit of each model without a penalty; its result is saved where it has a ``name``."""
    for model, formula, options in FITS:
        m = model(
            formula, schema=schema, budget=budget, ledger=ledger, neighbours=neighbours, **options
        )
        result = m.fit(table()).result_
        if name:
            result.save(folder / f"{name}-{model.__name__}.json")


def penalised(folder, name, schema, ledger, budgets):
    for budget in budgets:
        m = dp.LogisticRegression(
            "sick ~ age + group",
            schema=schema,
            budget=budget,
            target="penalised",
            ledger=ledger,
        )
        result = m.fit(table()).result_
    result.save(folder / f"{name}-penalised.json")


def plans(ledger):
    """A fit with each mechanism, on rows that are bounded already."""
    rng = np.random.default_rng(9)
    X = rng.uniform(-0.4, 0.4, (800, 3))
    y = np.where(rng.random(800) < 0.5, 1.0, -1.0)
    laplace, gaussian = dp.ObjectivePerturbation(), dp.ObjectivePerturbation("gaussian")
    for mechanism, share, recipe in (
        (laplace, dp.ZCDP(0.05), "paper"),
        (gaussian, dp.ZCDP(0.05), "tight"),
        (dp.OutputPerturbation(), dp.ZCDP(0.05), "paper"),
        (laplace, dp.PureDP(0.3), "tight"),
        (dp.OutputPerturbation(), dp.PureDP(0.3), "paper"),
    ):
        plan = dp.Plan(mechanism, share, share, share, recipe=recipe)
        for loss in (dp.Logistic(), dp.HuberHinge(0.5)):
            dp.infer(X, y, loss=loss, penalty=0.05, plan=plan, ledger=ledger)


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    half = dp.ApproxDP(0.5, 1e-7)
    rows, persons = (dp.Schema.parse(unit + COLUMNS) for unit in (ROWS, PERSONS))

    ledger = dp.Ledger.create(folder / "approx.db", dp.ApproxDP(20.0, 1e-5), "one visit")
    dp.learn_bounds(table(), ROWS + GAPS, budget=half, ledger=ledger)
    stepped(folder, "rows", rows, ledger, half, "replace")
    penalised(folder, "rows", rows, ledger, [half, dp.ZCDP(0.05), dp.PureDP(0.3)])
    dp.describe(table(), rows, half, "group", ledger=ledger).save(folder / "description.json")

    ledger = dp.Ledger.create(
        folder / "zcdp.db", dp.ZCDP(20.0), "one visit", "add-remove", "visits of some people"
    )
    dp.learn_bounds(
        table(), ROWS + GAPS, columns=["age:number"], budget=dp.ZCDP(0.1), neighbours="add-remove",
        ledger=ledger,
    )  # fmt: skip
    stepped(folder, "", rows, ledger, dp.ZCDP(0.1), "add-remove")
    dp.describe(table(), rows, dp.ZCDP(0.1), ledger=ledger, neighbours="add-remove")

    for neighbours in ("replace", "add-remove"):
        path = folder / f"pure-{neighbours}.db"
        ledger = dp.Ledger.create(path, dp.PureDP(20.0), "one visit", neighbours)
        dp.learn_bounds(
            table(), ROWS + GAPS, columns=["age:number"], budget=dp.PureDP(0.3),
            neighbours=neighbours, ledger=ledger,
        )  # fmt: skip
        dp.describe(table(), rows, dp.PureDP(0.3), ledger=ledger, neighbours=neighbours)
        if neighbours == "replace":
            penalised(folder, "pure", rows, ledger, [dp.PureDP(0.3)])

    ledger = dp.Ledger.create(folder / "mechanisms.db", dp.ZCDP(20.0), "one record")
    plans(ledger)

    for neighbours in ("replace", "add-remove"):
        path = folder / f"persons-{neighbours}.db"
        total = dp.ApproxDP(20.0, 1e-5)
        ledger = dp.Ledger.create(path, total, "one person", f"{neighbours}-unit")
        stepped(folder, f"persons-{neighbours}", persons, ledger, half, neighbours)
        dp.describe(table(), persons, half, ledger=ledger, neighbours=neighbours)
        if neighbours == "replace":
            penalised(folder, "persons", persons, ledger, [dp.ZCDP(0.05)])


def costs(folder):
    """What each ledger says of itself: entries, what is spent, what is left, what a fit may cost."""
    ledgers = {path.stem: dp.Ledger.open(path) for path in sorted(folder.glob("*.db"))}
    return {
        name: [len(one.entries()), one.spent(), one.left(), one.largest_fit()]
        for name, one in ledgers.items()
    }


if __name__ == "__main__":
    made = Path(sys.argv[1])
    make(made)
    (made / "costs.txt").write_text(json.dumps(costs(made), indent=1), encoding="utf-8")
