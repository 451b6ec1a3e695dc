"""Tests, bands, predictions and margins of the drawn populations: ``python -m studies.ordinary.derived``.

Everything that a result derives from its joint law is compared with the ordinary regression of the
population: Wald tests of the true values, simultaneous bands, predictions and margins at rows of
the population, and the ordinary intercept.  One JSON file and one page; not private.
"""

import argparse
import json
import math
import os
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.simulate.replicates import noise_seed
from studies.common import plain, replicates, write
from studies.ordinary.populations import OUTCOMES, Cell, drawn

SEED = 1
ROWS = 20  # of the population, at which means are predicted and over which margins are averaged
KEYS = ("rejected", "band", "predictions", "margins", "intercept")
LIMITS = {"rejected": 0.07, "band": 0.93, "predictions": 0.92, "margins": 0.92, "intercept": 0.92}
"""The largest size of a test, and the smallest coverage of the others."""
_POPULATIONS = ("plain", "skewed", "curved_log", "levels12", "interaction", "strong")
_OTHERS = ("rare", "heteroscedastic", "costs", "zero_inflated", "visits")


def grid() -> list[Cell]:
    """The cells of the study."""
    links = ("logistic", "linear", "poisson")
    cells = [Cell(name, link) for name in _POPULATIONS for link in links]
    cells += [Cell(name, link) for name in _OTHERS for link in links if link in OUTCOMES[name]]
    cells += [
        Cell("skewed", link, budget=budget)
        for link in links
        for budget in ("0.3,1e-6", "3,1e-6", "0.1")
    ]
    return cells


@lru_cache(maxsize=2)
def ordinary(cell: Cell) -> tuple[pd.DataFrame, dp.FitResult]:
    """The rows of the population at which means are predicted, and its ordinary regression."""
    table, model = drawn(cell)
    rows = table.sample(ROWS, random_state=SEED)
    twin = type(model)(model.formula, schema=model.schema, budget=dp.NoPrivacy())
    return rows, twin.fit(table).result_


def replicate(cell: Cell, index: int) -> dict[str, float]:
    """Whether one fit of a bootstrap sample rejects or covers what the ordinary regression has.

    NaN where the fit reports nothing of the kind.
    """
    with threadpool_limits(1, "blas"):
        table, model = drawn(cell)
        rows, truth = ordinary(cell)
        rng = np.random.default_rng([SEED, index])
        sample = table.iloc[rng.integers(0, len(table), len(table))].reset_index(drop=True)
        seeded = type(model)(
            model.formula,
            schema=model.schema,
            budget=model.budget,
            insecure_seed=noise_seed(SEED, index),
        )
        result = seeded.fit(sample).result_
        return {
            "rejected": _rejected(result, truth),
            "band": _band(result, truth),
            "predictions": _predictions(result, truth, rows),
            "margins": _margins(result, truth, rows),
            "intercept": _intercept(result, truth),
        }


def _slopes(result: dp.FitResult) -> np.ndarray:
    """The positions of the reported slopes."""
    return np.flatnonzero(result.reported[1:]) + 1


def _rejected(result: dp.FitResult, truth: dp.FitResult) -> float:
    slopes = _slopes(result)
    if not len(slopes):
        return math.nan
    R = np.eye(len(result.names))[slopes]
    return float(result.wald(R, truth.estimate[slopes]).p_value < 0.05)


def _band(result: dp.FitResult, truth: dp.FitResult) -> float:
    slopes = _slopes(result)
    if not len(slopes):
        return math.nan
    low, high = result.simultaneous()[slopes].T
    return float(((low <= truth.estimate[slopes]) & (truth.estimate[slopes] <= high)).all())


def _predictions(result: dp.FitResult, truth: dp.FitResult, rows: pd.DataFrame) -> float:
    found = result.predict(rows)
    finite = (found["status"] == "reported").to_numpy()
    if not finite.any():
        return math.nan
    means = truth.predict(rows)["prediction"].to_numpy()
    inside = (found["low"].to_numpy() <= means) & (means <= found["high"].to_numpy())
    return float(inside[finite].mean())


def _margins(result: dp.FitResult, truth: dp.FitResult, rows: pd.DataFrame) -> float:
    found = result.margins(rows)
    shown = found[found["status"] == "reported"]
    if shown.empty:
        return math.nan
    effects = truth.margins(rows)["effect"].reindex(shown.index)
    return float(((shown["low"] <= effects) & (effects <= shown["high"])).mean())


def _intercept(result: dp.FitResult, truth: dp.FitResult) -> float:
    row = result.ordinary_intercept()
    if row is None or row["status"] != "reported":
        return math.nan
    return float(row["low"] <= truth.estimate[0] <= row["high"])


def summary(cell: Cell, found: list[dict[str, float]]) -> dict[str, Any]:
    """Averages over the replicates, with their standard errors and how many count."""
    values = {key: np.array([one[key] for one in found]) for key in KEYS}
    numbers: dict[str, Any] = {}
    for key, all_of_them in values.items():
        there = all_of_them[np.isfinite(all_of_them)]
        error = there.std(ddof=1) / math.sqrt(len(there)) if len(there) > 1 else math.nan
        numbers[key] = {
            "value": plain(there.mean() if len(there) else math.nan),
            "error": plain(error),
            "count": len(there),
        }
    return {
        "population": cell.population,
        "link": cell.link,
        "n": cell.n,
        "budget": cell.budget,
        "replicates": len(found),
        **numbers,
    }


def failures(cell: dict[str, Any]) -> list[str]:
    """What is beyond its limit by more than two standard errors, of at least 50 replicates."""
    found = []
    for key, limit in LIMITS.items():
        one = cell[key]
        if one["count"] < 50:
            continue
        spread = 2 * math.sqrt(limit * (1 - limit) / one["count"])
        beyond = one["value"] - limit if key == "rejected" else limit - one["value"]
        if beyond > spread:
            found.append(f"{key} {one['value']:.3f}")
    return found


def page(cells: list[dict[str, Any]]) -> str:
    """All cells in one table."""
    words = Path(__file__).with_name("derived.md").read_text(encoding="utf-8")
    failed = [(cell, why) for cell in cells if (why := failures(cell))]
    lines = [
        words.rstrip(),
        "",
        f"{len(failed)} of {len(cells)} cells fail"
        + (": " if failed else ".")
        + "; ".join(
            f"{cell['population']}, {cell['link']}, {cell['budget']} ({', '.join(why)})"
            for cell, why in failed
        ),
        "",
        "| population | link | n | budget | size | band | predictions | margins | intercept | replicates |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|---:|",
        *(_row(cell) for cell in cells),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _row(cell: dict[str, Any]) -> str:
    numbers = [f"{cell[key]['value']:.3f}" if cell[key]["count"] >= 50 else "" for key in KEYS]
    return (
        f"| {cell['population']} | {cell['link']} | {cell['n']:,} | {cell['budget']} | "
        + " | ".join(numbers)
        + f" | {cell['replicates']} |"
    )


def main() -> None:
    """Run every cell that has too few replicates, then write the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.ordinary.derived", description=__doc__)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--populations", nargs="+", default=None, help="only these")
    parser.add_argument("--out", type=Path, default=Path("studies/ordinary/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    chosen = parser.parse_args()
    cells = []
    with ProcessPoolExecutor(chosen.workers) as pool:
        for cell in grid():
            if chosen.populations is not None and cell.population not in chosen.populations:
                continue
            done = replicates(cell.name, partial(replicate, cell), chosen.replicates, pool)
            cells.append(summary(cell, done))
            shown = {key: cells[-1][key]["value"] for key in KEYS}
            print(f"{cell.name}: {shown}", flush=True)
    write(chosen.out / "derived.json", json.dumps(cells, indent=0) + "\n")
    write(chosen.docs / "derived-study.md", page(cells))


if __name__ == "__main__":
    main()
