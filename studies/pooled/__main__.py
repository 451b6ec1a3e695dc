"""Coverage and length of pooled regressions: ``python -m studies.pooled --data FOLDER``.

The population is a table, or made up; replicates draw persons from it with replacement, with all their rows.  The
target is the ordinary pooled regression of the population, every row once, with cluster-robust standard errors.  One
JSON file per cell, written when it is complete, so that a stopped run goes on where it was.  Not private.
"""

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.numerics.arrays import Array, Indices
from studies.common import collect, complete, plain, replicates, smallest, write
from studies.pooled.designs import DESIGNS, Pooled, load, sample

BUDGETS: dict[str, Any] = {
    "0.5": dp.ApproxDP(0.5, 1e-6),
    "1": dp.ApproxDP(1.0, 1e-6),
    "3": dp.ApproxDP(3.0, 1e-6),
    "rho.1": dp.ZCDP(0.1),
}
Z95 = 1.959963984540054
Found = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A design, a budget by its name, and how rows count: "every" or "average"."""

    design: str
    budget: str
    rows: str = "every"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.rows}"


@dataclass(frozen=True, eq=False)
class Setting:
    """A design with its persons, and the ordinary regression of the population."""

    pooled: Pooled
    people: list[Indices]
    truth: Array
    std_error: Array
    names: tuple[str, ...]


@lru_cache(maxsize=1)
def setting(design: str, folder: Path) -> Setting:
    """Return what all replicates of a design share; slopes alone."""
    pooled = load(design, folder)
    people = pooled.people()
    result = pooled.fitted(pooled.table, "every", dp.NoPrivacy(), 0)
    shorter = np.sqrt(len(people) / pooled.persons)
    std_error = np.asarray(result.std_error)[1:] * shorter
    return Setting(pooled, people, np.asarray(result.estimate)[1:], std_error, result.names[1:])


def replicate(cell: Cell, folder: Path, k: int) -> Found:
    """Return one replicate: which intervals hold the truth, their lengths over those without noise."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = setting(cell.design, folder)
        table = sample(known.pooled, known.people, np.random.default_rng([7, k]))
        began = time.monotonic()
        result = known.pooled.fitted(table, cell.rows, BUDGETS[cell.budget], k)
        low, high = result.conf_int()[1:].T
        told = result.reported[1:]
    held = (low <= known.truth) & (known.truth <= high)
    return {
        "covered": np.where(told, held, np.nan).tolist(),
        "length": np.where(told, (high - low) / (2 * Z95 * known.std_error), np.nan).tolist(),
        "z": ((result.estimate[1:] - known.truth) / known.std_error).tolist(),
        "seconds": time.monotonic() - began,
    }


def summarise(cell: Cell, found: list[Found], folder: Path) -> Found:
    """Return averages over all reported intervals; extremes over coefficients reported in half of the fits."""
    known = setting(cell.design, folder)
    covered, length, z = (
        np.array([one[key] for one in found]) for key in ("covered", "length", "z")
    )
    reported = np.isfinite(covered).mean(axis=0)
    often = reported >= 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        each = np.nanmean(covered, axis=0)
        lengths = np.nanmedian(length, axis=0)
        summary = {
            "coverage": np.nanmean(covered),
            "coverage_min": smallest(each[often]),
            "length": np.nanmedian(lengths[often]),
            "length_max": -smallest(-lengths[often]),
        }
    facts = {
        "persons": known.pooled.persons,
        "d": len(known.names) + 1,
        "replicates": len(found),
        "intervals": int(np.isfinite(covered).sum()),
        "reported": float(reported.mean()),
        "seconds": float(np.median([one["seconds"] for one in found])),
        "names": list(known.names),
        "coverage_each": plain(each),
        "length_each": plain(lengths),
        "z_mean": plain(z.mean(axis=0)),
    }
    return asdict(cell) | facts | {key: plain(value) for key, value in summary.items()}


_HEAD = (
    "design", "persons", "coefficients", "budget", "rows", "coverage avg / min", "length med / max", "reported",
    "replicates",
)  # fmt: skip


def page(cells: Sequence[Found]) -> str:
    """Return the page of all cells."""
    words = Path(__file__).with_name("words.md").read_text(encoding="utf-8")
    lines = [_HEAD, ["---" for _ in _HEAD], *(_line(cell) for cell in cells)]
    return words + "\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _line(c: Found) -> list[str]:
    def form(key: str, spec: str) -> str:
        return "-" if c[key] is None else format(c[key], spec)

    budget = c["budget"] if c["budget"].startswith("rho") else f"({c['budget']}, 1e-6)"
    return [
        c["design"],
        f"{c['persons']:,}",
        str(c["d"]),
        budget.replace("rho.1", "ρ = .1"),
        c["rows"],
        f"{form('coverage', '.3f')} / {form('coverage_min', '.2f')}",
        f"{form('length', '.2f')} / {form('length_max', '.2f')}",
        f"{100 * c['reported']:.0f} %",
        str(c["replicates"]),
    ]


def order(cell: Found) -> tuple[int, int, str]:
    """Return the place of a cell on the page."""
    return DESIGNS.index(cell["design"]), list(BUDGETS).index(cell["budget"]), cell["rows"]


def options() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.pooled", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS), choices=BUDGETS)
    parser.add_argument("--rows", nargs="+", default=["every"], choices=["every", "average"])
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("studies/pooled/cells"))
    parser.add_argument("--out", type=Path, default=Path("studies/pooled/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def main() -> None:
    """Run every cell, then write results and page."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for design in chosen.designs:
            for budget in chosen.budgets:
                for rows in chosen.rows:
                    cell = Cell(design, budget, rows)
                    path = chosen.work / f"{cell.name}.json"
                    if complete(path, chosen.replicates):
                        continue
                    work = partial(replicate, cell, chosen.data)
                    found = replicates(cell.name, work, chosen.replicates, pool)
                    summary = summarise(cell, found, chosen.data)
                    write(path, json.dumps(summary, indent=1) + "\n")
                    print(" | ".join(_line(summary)), f"{summary['seconds']:.2f} s", flush=True)
    cells = sorted(collect(chosen.work), key=order)
    write(chosen.out / "pooled.json", json.dumps(cells, indent=1) + "\n")
    write(chosen.docs / "pooled-study.md", page(cells))


if __name__ == "__main__":
    main()
