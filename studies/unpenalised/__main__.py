"""Coverage of the unpenalised target, or its refusal: ``python -m studies.unpenalised``.

RAND HIE on its bounded rows, repeated for n = 100,950, and a logistic population with known
coefficients.  Not private.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.numerics.arrays import Array
from dpinfer.schema.formula import parse
from dpinfer.tables.table import read
from studies.common import write

BUDGETS = {
    "zCDP, rho = .1875": dp.ZCDP(0.1875),
    "zCDP, rho = 1": dp.ZCDP(1.0),
    "(1, 1e-6)": dp.ApproxDP(1.0, 1e-6),
    "pure, epsilon = 4": dp.PureDP(4.0),
}
TRUTH = np.array([2.0, -1.0, 0.5, 0.0, 1.0, -0.5])


def populations() -> Iterator[tuple[str, Array, dict[str, Any]]]:
    """Name, rows and outcomes of a study for each population."""
    demo = dp.datasets.rand_hie()
    source = read(demo.table, *parse(demo.formula, demo.schema), "margin")[1].rows()
    for times in (1, 5):
        rows = np.tile(source.block.rows, (times, 1))
        labels = np.tile(source.block.labels, times)
        yield f"RAND HIE, n = {len(rows):,}", rows, {"y": labels}
    rng = np.random.default_rng(0)
    for n in (20_000, 100_000):
        rows = rng.standard_normal((n, len(TRUTH)))
        rows[:, -1] = 1.0
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        yield f"known truth, n = {n:,}", rows, {"truth": 1 / (1 + np.exp(-rows @ TRUTH))}


def cell(rows: Array, outcome: dict[str, Any], budget: Any, replicates: int) -> dict[str, Any]:
    """One population at one budget; ``outcome`` is y or truth, by its name."""
    study = dp.simulate.coverage(
        rows, **outcome, budget=budget, target="unpenalised", replicates=replicates, seed=0
    )
    known = study.reported > 0
    return {
        "reported": float(study.reported.mean()),
        "coverage": study.mean_coverage if known.any() else None,
        "min_coverage": study.min_coverage if known.any() else None,
        "ratio": float((study.length / study.nonprivate_length)[known].mean())
        if known.any()
        else None,
    }


def page(results: dict[str, dict[str, dict[str, Any]]], replicates: int) -> str:
    """The results as Markdown."""
    lines = [
        "# The unpenalised target",
        "",
        'Written by `python -m studies.unpenalised`; do not edit. `target="unpenalised"` with the default penalty,',
        f"{replicates:,} replicates, level .95, seed 0. *Reported* is the share of replicates in which the",
        "coefficients are identified at the budget; in the others the result says that they are not and every",
        "interval is infinite. Coverage is over the reported ones, mean and smallest over coefficients; the ratio is",
        "to the non-private length. Studies are not private.",
        "",
        "| population | budget | reported | coverage (smallest) | length ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for population, cells in results.items():
        for budget, c in cells.items():
            found = "refused | –"
            if c["coverage"] is not None:
                found = f"{c['coverage']:.3f} ({c['min_coverage']:.3f}) | {c['ratio']:.2f}"
            lines.append(f"| {population} | {budget} | {c['reported']:.3f} | {found} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run every cell and write the results."""
    parser = argparse.ArgumentParser(prog="python -m studies.unpenalised", description=__doc__)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("studies/unpenalised/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for population, rows, outcome in populations():
        for name, budget in BUDGETS.items():
            found = cell(rows, outcome, budget, options.replicates)
            results.setdefault(population, {})[name] = found
            print(f"{population}, {name}: {found}", flush=True)
    write(options.out / "unpenalised.json", json.dumps(results, indent=1) + "\n")
    write(options.docs / "unpenalised.md", page(results, options.replicates))


if __name__ == "__main__":
    main()
