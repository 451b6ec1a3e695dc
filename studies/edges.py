"""Data that no regression can answer: ``python -m studies.edges``; no data are needed.

Levels without events, columns that never vary or are there twice, one class, few records, hopeless
budgets.  Every coefficient of such a fit should be right, or not reported.  A reported coefficient is *absurd* if

- its estimate is larger than three plausible sizes (`SIZES`);
- its interval misses the true coefficient by more than its own length;
- its p-value is below .001 where the true coefficient is 0, or where there is none.

Where all is well the last happens once in a thousand lines at a true 0, so such lines are counted
beside the number that chance explains.  Not private.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.result.result import FitResult
from dpinfer.schema.columns import Category, Column, Number, Outcome
from studies.asked import budget
from studies.common import replicates, write

MODELS = ("logistic", "linear", "poisson")
BUDGETS = ("1,1e-6", "3,1e-6")
HOPELESS = "0.01,1e-9"
SIZES = 3.0
"""Plausible sizes that an estimate may have: 2.5 for a level, and for two deviations of a number,
in log-odds and logarithms of rates; as many deviations of the outcome in least squares."""
_LEVEL = 2.5
_SURE = 0.001  # a p-value that a reader believes
_MOST = 50.0  # of a count
_PAGE = Path("docs/edges-study.md")
_RESULTS = Path("studies/results/edges.json")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A table of one replicate: its columns, the predictor of its outcome, and the true coefficients.

    A coefficient that no records could tell has the value None.  ``certain`` are the records whose
    outcome is not left to chance: 1 for an event, 0 for none.
    """

    table: pd.DataFrame
    columns: Mapping[str, Column]
    predictor: np.ndarray
    truth: Mapping[str, float | None]
    certain: np.ndarray | None = None


Kind = Callable[[np.random.Generator], Drawn]


def _usual(n: int, rng: np.random.Generator, **more: Any) -> Drawn:
    """A number with an effect, one without, and a factor of three levels."""
    table = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n)})
    table["f"] = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    columns: dict[str, Column] = {
        "x": Number("x", -5.0, 5.0),
        "z": Number("z", -5.0, 5.0),
        "f": Category("f", ("a", "b", "c"), "a"),
    }
    predictor = 0.4 * table["x"].to_numpy() + 0.3 * (table["f"] == "b").to_numpy() - 0.3
    truth = {"x": 0.4, "z": 0.0, "f[b]": 0.3, "f[c]": 0.0}
    return Drawn(table, columns, predictor, truth, **more)


def _with_level(n: int, share: float, rng: np.random.Generator) -> tuple[Drawn, np.ndarray]:
    """The same with a rare level d of the factor; and which records have it."""
    drawn = _usual(n, rng)
    rare = rng.random(n) < share
    drawn.table.loc[rare, "f"] = "d"
    predictor = np.where(rare, 0.4 * drawn.table["x"].to_numpy() - 0.3, drawn.predictor)
    columns = {**drawn.columns, "f": Category("f", ("a", "b", "c", "d"), "a")}
    truth = {**drawn.truth, "f[d]": 0.0}
    return Drawn(drawn.table, columns, predictor, truth), rare


def separated(rng: np.random.Generator) -> Drawn:
    """A level without an event among 300 records."""
    drawn, rare = _with_level(3000, 0.1, rng)
    truth = {**drawn.truth, "f[d]": None}
    certain = np.where(rare, 0.0, np.nan)
    return Drawn(drawn.table, drawn.columns, drawn.predictor, truth, certain)


def one_event(rng: np.random.Generator) -> Drawn:
    """A level with one event among 800 records."""
    drawn, rare = _with_level(8000, 0.1, rng)
    truth = {**drawn.truth, "f[d]": None}
    certain = np.where(rare, 0.0, np.nan)
    certain[np.flatnonzero(rare)[0]] = 1.0
    return Drawn(drawn.table, drawn.columns, drawn.predictor, truth, certain)


def constant(rng: np.random.Generator) -> Drawn:
    """A number, an answer and a level that never vary."""
    drawn = _usual(3000, rng)
    drawn.table["c"] = 1.0
    drawn.table["always"] = True
    columns = {
        **drawn.columns,
        "c": Number("c", -5.0, 5.0),
        "always": Number("always", 0.0, 1.0, kind="boolean"),
        "f": Category("f", ("a", "b", "c", "nobody"), "a"),
    }
    truth = {**drawn.truth, "c": None, "always": None, "f[nobody]": None}
    return Drawn(drawn.table, columns, drawn.predictor, truth)


def twins(rng: np.random.Generator) -> Drawn:
    """A column that is there twice."""
    drawn = _usual(3000, rng)
    drawn.table["x2"] = drawn.table["x"]
    columns = {**drawn.columns, "x2": Number("x2", -5.0, 5.0)}
    truth = {**drawn.truth, "x": None, "x2": None}
    return Drawn(drawn.table, columns, drawn.predictor, truth)


def one_class(rng: np.random.Generator) -> Drawn:
    """Nobody has an event."""
    drawn = _usual(3000, rng)
    nothing = dict.fromkeys(drawn.truth, None)
    return Drawn(drawn.table, drawn.columns, drawn.predictor, nothing, np.zeros(3000))


def few(rng: np.random.Generator) -> Drawn:
    """Two hundred records."""
    return _usual(200, rng)


def hopeless(rng: np.random.Generator) -> Drawn:
    """A budget that hides everything."""
    return _usual(3000, rng)


KINDS: Mapping[str, Kind] = {
    kind.__name__: kind
    for kind in (separated, one_event, constant, twins, one_class, few, hopeless)
}


EVENTS = ("separated", "one_event", "one_class")
"""Kinds that are about events, which least squares has none of."""


def models(kind: str) -> Sequence[str]:
    """Those that a kind is a difficulty for."""
    return [model for model in MODELS if model != "linear" or kind not in EVENTS]


def budgets(kind: str) -> Sequence[str]:
    """Those of a kind."""
    return (HOPELESS,) if kind == "hopeless" else BUDGETS


def outcomes(drawn: Drawn, model: str, rng: np.random.Generator) -> tuple[Column, np.ndarray]:
    """The outcome of a model: what is public about it, and its values."""
    n = len(drawn.predictor)
    column: Column
    if model == "logistic":
        column = Outcome("y", ("no", "yes"))
        found = (rng.random(n) < 1 / (1 + np.exp(-drawn.predictor))).astype(float)
    elif model == "linear":
        column = Outcome("y", low=-10.0, high=10.0)
        found = drawn.predictor + rng.normal(size=n)
    else:
        column = Number("y", 0.0, _MOST)
        found = np.minimum(rng.poisson(np.exp(drawn.predictor)), _MOST).astype(float)
    if drawn.certain is not None:
        found = np.where(np.isnan(drawn.certain), found, drawn.certain)
    if model == "logistic":
        return column, np.where(found > 0, "yes", "no")
    return column, found


def fitted(drawn: Drawn, model: str, budget_name: str, rng: np.random.Generator) -> FitResult:
    """A fit of the package to all columns."""
    column, values = outcomes(drawn, model, rng)
    schema = dp.Schema({**drawn.columns, "y": column})
    estimator = {
        "logistic": dp.LogisticRegression,
        "linear": dp.LinearRegression,
        "poisson": dp.PoissonRegression,
    }[model]
    made = estimator(
        "y ~ " + " + ".join(drawn.columns),
        schema=schema,
        budget=budget(budget_name),
        insecure_seed=int(rng.integers(2**62)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that hardly a coefficient can be reported
        return made.fit(drawn.table.assign(y=values)).result_


def replicate(kind: str, model: str, budget_name: str, index: int) -> dict[str, Any]:
    """What one fit prints, and which of it is absurd."""
    with threadpool_limits(1, "blas"):
        rng = np.random.default_rng([list(KINDS).index(kind), MODELS.index(model), index])
        drawn = KINDS[kind](rng)
        result = fitted(drawn, model, budget_name, rng)
        return judged(result, drawn, _LEVEL if model != "linear" else 2.0)


def judged(result: FitResult, drawn: Drawn, size: float) -> dict[str, Any]:
    """The reported coefficients of a fit; the intercept, whose place is released, by its size alone."""
    low, high = result.conf_int().T
    pvalues = dict(result.pvalues)
    lines = 0
    sure_zeros = 0
    zeros = 0
    absurd = []
    for j, name in enumerate(result.names):
        if not result.reported[j]:
            continue
        lines += 1
        number = name in drawn.columns and name not in ("always",)
        plausible = size / 2 if number else size
        if abs(result.estimate[j]) > SIZES * plausible:
            absurd.append(f"{name}: size")
        if j == 0:
            continue
        truth = drawn.truth[name]
        sure = pvalues[name] < _SURE
        if truth is None:
            if sure:
                absurd.append(f"{name}: sure of what nobody can know")
            continue
        length = high[j] - low[j]
        if truth > high[j] + length or truth < low[j] - length:
            absurd.append(f"{name}: far off")
        if truth == 0:
            zeros += 1
            sure_zeros += int(sure)
    unknowable = [
        name
        for name, known in zip(result.names, result.reported, strict=True)
        if known and name in drawn.truth and drawn.truth[name] is None
    ]
    return {
        "lines": lines,
        "of": len(result.names),
        "zeros": zeros,
        "sure_zeros": sure_zeros,
        "absurd": absurd,
        "unknowable": unknowable,
    }


def summarised(
    kind: str, model: str, budget_name: str, found: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One row of the page."""
    names = sorted({name for one in found for name in one["absurd"]})
    return {
        "kind": kind,
        "model": model,
        "budget": budget_name,
        "fits": len(found),
        "printed": sum(one["lines"] for one in found) / sum(one["of"] for one in found),
        "unknowable": sum(len(one["unknowable"]) for one in found),
        "zeros": sum(one["zeros"] for one in found),
        "sure_zeros": sum(one["sure_zeros"] for one in found),
        "absurd": {name: sum(name in one["absurd"] for one in found) for name in names},
    }


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page of the study."""
    lines = [
        "# Data that no regression can answer",
        "",
        "Written by `python -m studies.edges`; do not edit. Not private.",
        "",
        "No fit should report what its records do not determine. A reported coefficient is absurd if its estimate is",
        "larger than three plausible sizes, if its interval misses the true coefficient by more than its own length,",
        "or if its p-value is below .001 where the records determine no coefficient.",
        "",
        "- *reported*: share of coefficients with an interval. *unknowable*: how many of them, in all fits, are of a",
        "  coefficient that does not exist or that no records could tell.",
        "- *p < .001 at 0*: reported coefficients that are truly 0, and how many of them have such a p-value;",
        "  by chance one in a thousand.",
        "",
        "separated: a level of 300 records without an event. one_event: a level with one event among 800 records.",
        "constant: a number, an answer and a level that never vary. twins: a column that is there twice. one_class:",
        "nobody has an event. few: 200 records. hopeless: a budget that hides everything.",
        "",
        "| data | model | budget | fits | reported | unknowable | p < .001 at 0 | absurd |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        absurd = ", ".join(f"{name} ({count})" for name, count in row["absurd"].items()) or "none"
        lines.append(
            f"| {row['kind']} | {row['model']} | ({row['budget'].replace(',', ', ')}) | {row['fits']} "
            f"| {row['printed']:.0%} | {row['unknowable']} | {row['sure_zeros']} of {row['zeros']} | {absurd} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """All kinds, models and budgets, then the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.edges", description=__doc__)
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(MODELS),
        choices=list(MODELS),
        help="those to run; rows of the others stay as they are",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    parser.add_argument("--page", type=Path, default=_PAGE)
    chosen = parser.parse_args()
    rows = []
    before: list[dict[str, Any]] = []
    if set(chosen.models) < set(MODELS):
        before = json.loads(chosen.out.read_text(encoding="utf-8"))
    there = {(row["kind"], row["model"], row["budget"]): row for row in before}
    with ProcessPoolExecutor(chosen.workers) as pool:
        for kind in chosen.kinds:
            for model in models(kind):
                for name in budgets(kind):
                    if model not in chosen.models:
                        rows.append(there[kind, model, name])
                        continue
                    work = partial(replicate, kind, model, name)
                    found = replicates(f"{kind} {model} {name}", work, chosen.replicates, pool)
                    rows.append(summarised(kind, model, name, found))
                    print(rows[-1], flush=True)
    write(chosen.out, json.dumps(rows, indent=1) + "\n")
    write(chosen.page, page(rows))


if __name__ == "__main__":
    main()
