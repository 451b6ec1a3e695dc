"""Seeded fits of every recipe, and the script that stores their numbers: ``python
tests/golden/make.py``.

A change of the code that is not meant to change numbers leaves them as they are; one that is meant
to runs the script.  With words behind it, ``make.py asked``, it stores what has one of them in its
name, and leaves the rest to the bit.  Only the public names are used, so that the house behind them
may be rebuilt.
"""

import json
import sys
from pathlib import Path

import numpy as np

import dpinfer as dp
from dpinfer.schema.unit import Unit

STORED = Path(__file__).with_name("fits.json")
SEED = 20190


def rows(n=3000, d=4):
    """Rows in the unit ball with labels and numeric outcomes; some cannot be read."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    z = X @ np.array([2.0, -1.0, 0.5, 0.0])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    r = np.clip(0.3 * z + 0.1 * rng.standard_t(3, n), -1, 1)
    X[0, 0] = y[1] = r[1] = np.nan
    return X, y, r


def _infer(loss, numeric=False, **options):
    X, y, r = rows()
    return dp.infer(
        X, r if numeric else y, loss=loss, insecure_seed=SEED, **{"penalty": 0.01} | options
    )


def _plan(mechanism, share, recipe, **options):
    return {
        "plan": dp.Plan(
            mechanism, share(0.5), share(0.25), share(0.25), recipe=recipe, draws=2000, **options
        )
    }


def _rand(**options):
    demo = dp.datasets.rand_hie()
    model = dp.LogisticRegression(demo.formula, schema=demo.schema, insecure_seed=SEED, **options)
    return model.fit(demo.table).result_


def _visits(**options):
    demo = dp.datasets.rand_hie()
    formula = demo.formula.replace("visit", "log(1 + mdvis)")
    model = dp.LinearRegression(formula, schema=demo.schema, insecure_seed=SEED, **options)
    return model.fit(demo.table).result_


def _counted(**options):
    demo = dp.datasets.rand_hie()
    formula = demo.formula.replace("visit", "mdvis")
    model = dp.PoissonRegression(formula, schema=demo.schema, insecure_seed=SEED, **options)
    return model.fit(demo.table).result_


def _rates(n=6000, **options):
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.uniform(20, 80, n), rng.uniform(0, 5, n), rng.integers(0, 2, n)])
    exposure = rng.uniform(0.1, 2, n)
    y = rng.poisson(exposure * np.exp(-0.5 + 0.02 * X[:, 0] - 0.2 * X[:, 1]))
    model = dp.PoissonRegression(
        bounds=([18, 0, 0], [100, 5, 1]),
        outcome=(0, 500),
        exposure=(0, 2),
        yes_no=[2],
        insecure_seed=SEED,
        **options,
    )
    return model.fit(X, y, units=np.arange(n) // 2, exposure=exposure).result_


def _every(model, outcome, **options):
    """A fit of the demo with made-up ids, of four rows each, in which every row counts."""
    demo = dp.datasets.rand_hie()
    table = demo.table.assign(id=np.arange(len(demo.table)) // 4)
    schema = dp.Schema(demo.schema.columns, Unit("one person", "id", "every"))
    formula = demo.formula.replace("visit", outcome)
    return model(formula, schema=schema, insecure_seed=SEED, **options).fit(table).result_


def _arrays(model, n=4000, **options):
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(20, 80, n), rng.uniform(0, 5, n), rng.integers(0, 2, n)])
    z = -2 + 0.04 * X[:, 0] - 0.5 * X[:, 1]
    if "outcome" in options:
        y = 10 + 2 * z + rng.standard_normal(n)
    else:
        y = rng.random(n) < 1 / (1 + np.exp(-z))
        options["classes"] = (False, True)
    return model(bounds=([18, 0, 0], [100, 5, 1]), insecure_seed=SEED, **options).fit(X, y).result_


def _panel(persons=2000, years=(2001, 2002, 2003, 2004), **options):
    rng = np.random.default_rng(6)
    ids = np.repeat(np.arange(persons), len(years))
    effect = rng.normal(0, 1, persons)[ids]
    x = np.clip(effect + rng.standard_t(4, len(ids)), -8, 8)
    year = np.tile(years, persons)
    y = np.clip(effect + 0.4 * x + 0.1 * (year - 2001) + rng.normal(0, 0.5, len(ids)), -12, 12)
    table = {"id": ids, "x": x, "year": year, "y": y}
    schema = dp.Schema.parse(f"""
    unit = {{name = "one person", column = "id"}}
    columns.y = {{type = "number", low = -12, high = 12}}
    columns.x = {{type = "number", low = -80, high = 80}}
    columns.year = {{type = "integer", low = 2001, high = 2004, levels = {list(years)}}}
    """)
    formula = "y ~ x | id + year"
    model = dp.LinearRegression(formula, schema=schema, insecure_seed=SEED, **options)
    return model.fit(table).result_


OBJECTIVE, GAUSSIAN, OUTPUT = (
    dp.ObjectivePerturbation(),
    dp.ObjectivePerturbation("gaussian"),
    dp.OutputPerturbation(),
)
HALF = {"approx": dp.ApproxDP(1.0, 1e-6)}


def _hazard(neighbours):
    data = dp.datasets.cohort(3000)
    plan = dp.HazardPlan(dp.ApproxDP(3.0, 1e-6), neighbours=neighbours)
    model = dp.HazardRegression(data.formula, schema=data.schema, plan=plan, insecure_seed=11)
    return model.fit(data.table).result_


FITS = {
    "hazard replace": lambda: _hazard("replace"),
    "hazard add-remove": lambda: _hazard("add-remove"),
    "paper objective pure": lambda: _infer(
        dp.HuberHinge(1.0), **_plan(OBJECTIVE, dp.PureDP, "paper")
    ),
    "paper objective zcdp": lambda: _infer(dp.Logistic(), **_plan(OBJECTIVE, dp.ZCDP, "paper")),
    "paper gaussian zcdp": lambda: _infer(dp.HuberHinge(0.5), **_plan(GAUSSIAN, dp.ZCDP, "paper")),
    "paper output pure": lambda: _infer(dp.Logistic(), **_plan(OUTPUT, dp.PureDP, "paper")),
    "paper output zcdp": lambda: _infer(dp.Logistic(), **_plan(OUTPUT, dp.ZCDP, "paper")),
    "tight output approx": lambda: _infer(dp.Logistic(), **_plan(OUTPUT, dp.ZCDP, "tight", **HALF)),
    "tight laplace approx": lambda: _infer(
        dp.Logistic(), **_plan(OBJECTIVE, dp.ZCDP, "tight", **HALF)
    ),
    "tight pure": lambda: _infer(dp.Logistic(), budget=dp.PureDP(2.0)),
    "tight zcdp": lambda: _infer(dp.Logistic(), budget=dp.ZCDP(0.5)),
    "tight approx": lambda: _infer(dp.HuberHinge(1.0), budget=dp.ApproxDP(1.0, 1e-6)),
    "no privacy": lambda: _infer(dp.Logistic(), budget=dp.NoPrivacy()),
    "unpenalised zcdp": lambda: _infer(
        dp.Logistic(), penalty=1e-3, budget=dp.ZCDP(50.0), target="unpenalised"
    ),
    "unpenalised output": lambda: _infer(
        dp.Logistic(),
        penalty=5e-3,
        target="unpenalised",
        **_plan(OUTPUT, lambda x: dp.ZCDP(40 * x), "tight"),
    ),
    "unpenalised refused": lambda: _infer(
        dp.Logistic(), budget=dp.ZCDP(1e-4), target="unpenalised"
    ),
    "huber approx": lambda: _infer(dp.Huber(0.2), True, budget=dp.ApproxDP(1.0, 1e-6)),
    "quantile zcdp": lambda: _infer(dp.SmoothedQuantile(0.25, 0.1), True, budget=dp.ZCDP(0.5)),
    "svm by arrays": lambda: _arrays(dp.LinearSVC, budget=dp.ZCDP(0.5), knee=0.5),
    "huber by arrays": lambda: _arrays(dp.HuberRegression, budget=dp.PureDP(4.0), outcome=(0, 20)),
    "median by arrays": lambda: _arrays(
        dp.QuantileRegression, budget=dp.ZCDP(1.0), outcome=(0, 20)
    ),
    "logistic by arrays": lambda: _arrays(dp.LogisticRegression, budget=dp.PureDP(4.0)),
    "asked by arrays": lambda: _arrays(dp.LogisticRegression, budget=dp.ZCDP(0.5)),
    "asked least squares by arrays": lambda: _arrays(
        dp.LinearRegression, budget=dp.ZCDP(0.5), outcome=(0, 20)
    ),
    "asked least squares approx": lambda: _visits(budget=dp.ApproxDP(1.0, 1e-6)),
    "asked least squares cautious": lambda: _visits(
        budget=dp.ZCDP(0.02), tail="cautious", neighbours="add-remove"
    ),
    "asked robust": lambda: _visits(budget=dp.ZCDP(0.02), target="robust"),
    "asked counts": lambda: _counted(budget=dp.ApproxDP(1.0, 1e-6)),
    "asked counts add-remove": lambda: _counted(
        plan=dp.PoissonPlan(dp.ZCDP(0.5), neighbours="add-remove")
    ),
    "effects of persons": lambda: _panel(budget=dp.ApproxDP(1.0, 1e-6)),
    "effects of persons add-remove": lambda: _panel(
        budget=dp.ZCDP(0.1), adjacency="add-remove", tail="cautious"
    ),
    "asked rates by units": lambda: _rates(budget=dp.ZCDP(0.5), rows="average"),
    "every row of rates": lambda: _rates(budget=dp.ZCDP(0.5)),
    "every row of visits": lambda: _every(
        dp.LinearRegression, "log(1 + mdvis)", budget=dp.ApproxDP(1.0, 1e-6)
    ),
    "every row of outcomes": lambda: _every(
        dp.LogisticRegression, "visit", budget=dp.ZCDP(0.3), adjacency="add-remove"
    ),
    "asked approx": lambda: _rand(budget=dp.ApproxDP(1.0, 1e-6)),
    "asked small": lambda: _rand(budget=dp.ZCDP(0.002)),
    "asked zcdp": lambda: _rand(budget=dp.ZCDP(0.5), target="ordinary"),
    "asked add-remove": lambda: _rand(
        plan=dp.GeometryPlan(dp.ApproxDP(1.0, 1e-6), neighbours="add-remove")
    ),
    "penalised formula": lambda: _rand(budget=dp.ApproxDP(1.0, 1e-6), target="penalised"),
}


def _coverage(**options):
    X, y, _ = rows(800)
    study = dp.simulate.coverage(
        X, y, loss=dp.Logistic(), penalty=0.01, replicates=130, seed=3, **options
    )
    return [study.target, study.coverage, study.length, study.nonprivate_length]


def _coverage_of_table():
    demo = dp.datasets.rand_hie()
    options = {"schema": demo.schema, "formula": demo.formula, "budget": dp.ApproxDP(1.0, 1e-6)}
    study = dp.simulate.coverage(demo.table, replicates=3, seed=3, **options)
    return [study.target, study.coverage, study.length, study.nonprivate_length]


STUDIES = {
    "study tight": lambda: _coverage(budget=dp.ZCDP(0.5)),
    "study paper": lambda: _coverage(**_plan(OBJECTIVE, dp.PureDP, "paper")),
    "asked study": _coverage_of_table,
}


def numbers(result):
    """What a reader sees of a result, and what its error law is made of."""
    shown = {
        "names": list(result.names),
        "status": [str(word) for word in result.status],
        "private": result.privacy.private,
        "estimate": result.estimate,
        "std_error": result.std_error,
        "interval": result.conf_int(0.9),
        "band": result.simultaneous(0.8),
        "p_value": [row["p_value"] for row in result.table()],
        "noise_share": result.noise_share,
        "hessian": result.hessian,
        "score_cov": result.score_cov,
        "shares": [event.share.amount for event in result.privacy.events],
    }
    if result.geometry is not None:
        shown |= {"weights": result.geometry.preconditioner, "centre": result.geometry.centre}
        shown |= {
            "records": result.geometry.records,
            "low": result.geometry.low,
            "high": result.geometry.high,
        }
        shown |= {"instead": list(result.instead.names), "known_instead": result.instead.estimate}
    if result.band is not None:
        shown |= {"line": result.band.pilot_coef, "clip": [result.band.clip, result.band.excess]}
    return shown


def plain(value):
    """Lists of numbers, as JSON has them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def main(words=()):
    """Store the numbers, or those of fits and studies that have one of the words in their name."""
    before = json.loads(STORED.read_text(encoding="utf-8")) if words else {}
    found = {}
    for name in (*FITS, *STUDIES):
        if words and not any(word in name for word in words) and name in before:
            found[name] = before[name]
        elif name in FITS:
            found[name] = plain(numbers(FITS[name]()))
        else:
            found[name] = [plain(part) for part in STUDIES[name]()]
    STORED.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
