"""One replicate: a bootstrap sample, the package's fit of it, and the ordinary coefficients of the
population beside its intervals.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer.fit.recipe import fit
from dpinfer.fit.stepped import Stepped
from dpinfer.simulate.estimands import SteppedEstimand
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import noise_seed
from studies.common import plain
from studies.ordinary.populations import Cell, drawn

SEED = 0
Z95 = 1.959964
OFTEN = 0.5  # of the fits: what fewer of them report does not count as the lowest coefficient


@lru_cache(maxsize=2)
def setting(cell: Cell) -> SteppedEstimand:
    """The population of a cell and its ordinary regression, made once for all replicates."""
    table, model = drawn(cell)
    design, pending = model.read(table)
    population = Population.of_records(pending.rows())
    recipe = model.recipe(design, population.n)
    assert isinstance(recipe, Stepped)
    return SteppedEstimand(recipe, population)


def replicate(cell: Cell, index: int) -> dict[str, Any]:
    """Of each coefficient whether it is reported, whether its interval holds the ordinary one, and
    its length over that of the ordinary regression; NaN where it is not reported.
    """
    with threadpool_limits(1, "blas"):
        at = setting(cell)
        sample = at.population.sample(SEED, index)
        result = fit(at.recipe, sample, insecure_seed=noise_seed(SEED, index))
        assert result.geometry is not None
        ordinary = at.asked.in_units(at.recipe.design, result.geometry.centre)
        low, high = result.conf_int().T
        reported = result.reported
        inside = (low <= ordinary.coef) & (ordinary.coef <= high)
        error = (result.estimate - ordinary.coef) / ordinary.std_error
        length = (high - low) / (2 * Z95 * ordinary.std_error)
        return {
            "names": list(result.names),
            "reported": reported.astype(float).tolist(),
            "covered": np.where(reported, inside, np.nan).tolist(),
            "length": np.where(reported, length, np.nan).tolist(),
            "error": np.where(reported, error, np.nan).tolist(),
        }


def summary(cell: Cell, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over replicates; the standard error of the coverage counts a replicate as one."""
    names = found[0]["names"]
    values = {
        key: np.array([one[key] for one in found])
        for key in ("reported", "covered", "length", "error")
    }
    covered = values["covered"][:, 1:]
    lines = np.isfinite(covered).sum(axis=1)
    coverage = float(np.nansum(covered) / max(lines.sum(), 1))
    gaps = np.nansum(covered, axis=1) - coverage * lines
    by_name = _mean(values["covered"])
    reported = values["reported"].mean(axis=0)
    often = np.where(reported >= OFTEN, by_name, np.nan)[1:]
    lowest = int(np.nanargmin(often)) if np.isfinite(often).any() else None
    return {
        "cell": cell.name,
        "population": cell.population,
        "link": cell.link,
        "n": cell.n,
        "budget": cell.budget,
        "wide": cell.wide,
        "adjacency": cell.adjacency,
        "draw": cell.draw,
        "replicates": len(found),
        "coverage": plain(coverage if lines.sum() else np.nan),
        "coverage_error": plain(float(np.sqrt((gaps**2).sum()) / max(lines.sum(), 1))),
        "reported_count": int(lines.sum()),
        "reported": plain(values["reported"][:, 1:].mean()),
        "length": plain(_median(values["length"][:, 1:])),
        "lowest": plain(often[lowest]) if lowest is not None else None,
        "lowest_name": names[1 + lowest] if lowest is not None else None,
        "intercept": plain(by_name[0]),
        "coefficients": {
            "name": names,
            "coverage": plain(by_name),
            "reported": plain(reported),
            "length": plain(_mean(values["length"])),
            "error": plain(_mean(values["error"])),
        },
    }


def _mean(values: np.ndarray) -> np.ndarray:
    """By columns, NaN where nothing is reported."""
    count = np.isfinite(values).sum(axis=0)
    total = np.nansum(values, axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _median(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")
