"""Coverage and length of counts, rates and costs: ``python -m studies.counts --data FOLDER``.

The population is the data set itself; replicates are bootstrap samples of its records or persons.
One JSON file a cell, written when it is complete, so that a stopped run goes on where it was; then
one file and one page of all cells there are.  Not private.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.asked import Found
from studies.common import collect, complete, replicates, write
from studies.counts.cell import Cell, contest, replicate
from studies.counts.designs import DESIGNS
from studies.counts.report import BUDGETS, compare, page, results, summarise

PARTS = ("main", "rivals")
_RIVAL_BUDGET = "1,1e-6"


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.counts", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument(
        "--budgets",
        nargs="+",
        default=list(BUDGETS),
        help="(epsilon, delta) as 1,1e-6, rho as 0.1",
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--work", type=Path, default=Path("studies/counts/cells"), help="one file a cell, to go on"
    )
    parser.add_argument("--out", type=Path, default=Path("studies/counts/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def run(chosen: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """Every part, one design after the other so that its data are read once."""
    for design in chosen.designs:
        for budget in chosen.budgets:
            cell = Cell(design, budget)
            if "main" in chosen.parts:
                measure(
                    chosen.work / f"{cell.name}.json",
                    chosen.replicates,
                    pool,
                    partial(replicate, cell, chosen.data),
                    partial(summarise, cell, folder=chosen.data),
                )
            if "rivals" in chosen.parts and budget == _RIVAL_BUDGET:
                measure(
                    chosen.work / "rivals" / f"{cell.name}.json",
                    chosen.replicates,
                    pool,
                    partial(contest, cell, chosen.data),
                    partial(compare, cell),
                )


def measure(
    path: Path,
    count: int,
    pool: ProcessPoolExecutor,
    work: Callable[[int], Found],
    made: Callable[[list[Found]], Found],
) -> None:
    """All replicates of a cell, unless its file has as many already."""
    if complete(path, count):
        return
    began = time.monotonic()
    found = made(replicates(path.stem, work, count, pool))
    write(path, json.dumps(found, indent=1) + "\n")
    shown = ("asked", "slopes", "level", "stated", "length", "length_max", "printed")
    numbers = ", ".join(f"{key} {found[key]:.3f}" for key in shown if found.get(key) is not None)
    print(
        f"{path.parent.name}/{path.stem}: {numbers}, {time.monotonic() - began:.0f} s", flush=True
    )


def main() -> None:
    """Run every cell, then write results and page."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        run(chosen, pool)
    text = results(collect(chosen.work), collect(chosen.work / "rivals"))
    write(chosen.out / "counts.json", text)
    write(chosen.docs / "counts-study.md", page(json.loads(text)))


if __name__ == "__main__":
    main()
