"""What halving and doubling each statistical constant changes: ``python -m studies.constants``.

Every constant of `dpinfer.inference.constants` that stepped fits use is halved and doubled, one at a time, in fits to
bootstrap samples of drawn populations (`studies.ordinary.populations`), with the same samples and the same noise.
One file of all constants, and one page.  Not private.
"""

import argparse
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from dpinfer.fit.recipe import fit
from dpinfer.simulate.estimands import SteppedEstimand
from dpinfer.simulate.replicates import noise_seed
from studies.common import plain, write
from studies.constants.patching import patched, registry, times
from studies.constants.report import page
from studies.ordinary.cell import SEED, setting
from studies.ordinary.populations import Cell

FACTORS = {"half": 0.5, "double": 2.0}
CELLS = (
    Cell("plain", "logistic"),
    Cell("skewed", "linear"),
    Cell("levels12", "poisson"),
    Cell("plain", "linear", 5_000),
    Cell("rare", "logistic"),
    Cell("heavy", "poisson"),
    Cell("levels12", "logistic", budget="0.3,1e-6"),
    Cell("collinear90", "linear"),
    Cell("skewed", "logistic", 50_000),
    Cell("visits", "linear", budget="3,1e-6"),
    Cell("rare", "poisson"),
    Cell("plain", "poisson", 50_000, "0.1"),
)
"""Three links; small and large tables and budgets; levels, tails, rare outcomes and collinear columns."""

Fit = dict[str, npt.NDArray[Any]]


def _fit(at: SteppedEstimand, index: int) -> Fit:
    """Return which coefficients are reported, which intervals hold the ordinary ones, and their lengths."""
    sample = at.population.sample(SEED, index)
    result = fit(at.recipe, sample, insecure_seed=noise_seed(SEED, index))
    assert result.geometry is not None
    ordinary = at.asked.in_units(at.recipe.design, result.geometry.centre)
    low, high = result.conf_int().T
    inside = (low <= ordinary.coef) & (ordinary.coef <= high)
    return {
        "reported": result.reported[1:],
        "covered": (inside & result.reported)[1:],
        "length": np.where(result.reported, high - low, np.nan)[1:],
        "estimate": np.where(result.reported, result.estimate, np.nan)[1:],
    }


def compared(base: Fit, other: Fit) -> dict[str, float]:
    """Return the counts of one fit with a changed constant, beside the fit as it is."""
    both = base["reported"] & other["reported"]
    ratios = np.log(other["length"][both] / base["length"][both])
    same = all(
        np.array_equal(base[key], other[key], equal_nan=True) for key in ("length", "estimate")
    )
    return {
        "changed": float(not same),
        "log_ratio": float(ratios.sum()),
        "both": float(both.sum()),
        "reported": float(other["reported"].sum()),
        "covered": float(other["covered"].sum()),
        "columns": float(len(both)),
        "failed": 0.0,
    }


def one_task(names: Sequence[str], task: tuple[Cell, int]) -> dict[str, dict[str, float]]:
    """Return the counts of each constant at each factor, for one replicate of one cell."""
    cell, index = task
    constants = registry()
    with threadpool_limits(1, "blas"):
        at = setting(cell)
        base = _fit(at, index)
        counts = {"as it is": compared(base, base)}
        for name in names:
            for word, factor in FACTORS.items():
                with patched(constants[name], times(constants[name], factor)):
                    try:
                        other = compared(base, _fit(at, index))
                    except Exception:
                        other = dict.fromkeys(counts["as it is"], 0.0) | {
                            "failed": 1.0,
                            "changed": 1.0,
                        }
                counts[f"{name} {word}"] = other
        return counts


def summary(fits: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the means over all fits with one value of one constant."""
    total = {key: sum(one[key] for one in fits) for key in fits[0]}
    many = max(total["reported"], 1.0)
    return {
        "changed": plain(total["changed"] / len(fits)),
        "length": plain(np.exp(total["log_ratio"] / max(total["both"], 1.0))),
        "reported": plain(total["reported"] / max(total["columns"], 1.0)),
        "coverage": plain(total["covered"] / many),
        "failed": int(total["failed"]),
    }


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.constants", description=__doc__)
    parser.add_argument(
        "--constants", nargs="+", default=list(registry()), choices=list(registry())
    )
    parser.add_argument("--cells", type=int, default=len(CELLS), help="the first so many")
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("studies/constants/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def main() -> None:
    """Run all fits, and write one file and one page."""
    chosen = options()
    cells = CELLS[: chosen.cells]
    tasks = [(cell, index) for cell in cells for index in range(chosen.replicates)]
    replicates = []
    with ProcessPoolExecutor(chosen.workers) as pool:
        for done in pool.map(partial(one_task, chosen.constants), tasks):
            replicates.append(done)
            print(f"{len(replicates)} of {len(tasks)}", flush=True)
    by_value = {key: summary([one[key] for one in replicates]) for key in replicates[0]}
    results = {
        "cells": [cell.name for cell in cells],
        "replicates": chosen.replicates,
        "as it is": by_value["as it is"],
        "constants": {
            name: {"value": float(registry()[name])}
            | {word: by_value[f"{name} {word}"] for word in FACTORS}
            for name in chosen.constants
        },
    }
    write(chosen.out / "constants.json", json.dumps(results, indent=1) + "\n")
    write(chosen.docs / "constants-study.md", page(results))


if __name__ == "__main__":
    main()
