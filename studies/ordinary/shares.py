"""How lengths depend on the share of the budget of each stage: ``python -m studies.ordinary.shares``.

One stage at a time gets more or less, and the others give or take in proportion.  The criterion is
the mean, over coefficients, fits and populations, of the length of the ordinary interval over that of
the private one, 0 where a coefficient is not reported.
"""

import argparse
import json
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer.fit.recipe import fit
from dpinfer.simulate.replicates import noise_seed
from studies.common import replicates, write
from studies.ordinary.cell import SEED, Z95, setting
from studies.ordinary.populations import Cell

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_CELLS = {
    "linear": ("plain", "skewed", "levels12", "heavy", "visits"),
    "logistic": ("plain", "skewed", "levels12", "heavy", "rare"),
    "poisson": ("plain", "skewed", "levels12", "visits", "rare"),
}
SIZES = (5_000, 20_000, 100_000)


def changed(shares: Mapping[str, float], stage: str, factor: float) -> tuple[float, ...]:
    """The shares, one of them times ``factor``, which add up to 1."""
    times = {name: share * (factor if name == stage else 1.0) for name, share in shares.items()}
    return tuple(share / sum(times.values()) for share in times.values())


def efficiencies(cell: Cell, index: int) -> dict[str, list[float]]:
    """The criterion of fits to one sample: of each stage at each factor."""
    with threadpool_limits(1, "blas"):
        at = setting(cell)
        plan = at.recipe.plan
        sample = at.population.sample(SEED, index)

        def criterion(stage: str, factor: float) -> float:
            shares = changed(plan.default_shares, stage, factor)
            recipe = replace(at.recipe, plan=replace(plan, shares=shares))
            result = fit(recipe, sample, insecure_seed=noise_seed(SEED, index))
            assert result.geometry is not None
            ordinary = at.asked.in_units(recipe.design, result.geometry.centre)
            low, high = result.conf_int().T
            shorter = 2 * Z95 * ordinary.std_error / (high - low)
            return float(np.where(result.reported, shorter, 0.0)[1:].mean())

        same = criterion(next(iter(plan.default_shares)), 1.0)
        return {
            stage: [same if factor == 1 else criterion(stage, factor) for factor in FACTORS]
            for stage in plan.default_shares
        }


def curves(link: str, n: int, count: int, pool: ProcessPoolExecutor) -> dict[str, list[float]]:
    """The criterion of each stage at each factor, on average over populations."""
    found = []
    for name in _CELLS[link]:
        cell = Cell(name, link, n)
        found += replicates(cell.name, partial(efficiencies, cell), count, pool)
    means = {stage: np.mean([one[stage] for one in found], axis=0).tolist() for stage in found[0]}
    for stage, values in means.items():
        print(link, n, stage, *(f"{one:.4f}" for one in values), flush=True)
    return means


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.ordinary.shares", description=__doc__)
    parser.add_argument("--links", nargs="+", default=list(_CELLS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("studies/ordinary/results"))
    return parser.parse_args()


def main() -> None:
    """All curves, one file."""
    chosen = options()
    found: dict[str, Any] = {"factors": FACTORS, "replicates": chosen.replicates, "curves": {}}
    with ProcessPoolExecutor(chosen.workers) as pool:
        for link in chosen.links:
            for n in chosen.sizes:
                found["curves"][f"{link} {n}"] = curves(link, n, chosen.replicates, pool)
    write(chosen.out / "shares.json", json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
