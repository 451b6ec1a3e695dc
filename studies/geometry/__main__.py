"""Coverage and length of logistic regression: ``python -m studies.geometry --data FOLDER``.

Populations and replicates are those of `studies.asked`.  One JSON file a cell, written when it is
complete, so that a stopped run goes on where it was; then one file and one page of all cells there
are.  Not private.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.asked import BUDGETS, Found
from studies.common import collect, complete, replicates, write
from studies.geometry.cell import Cell, replicate
from studies.geometry.designs import DESIGNS, SYNTHETIC
from studies.geometry.report import ordered, page, summarise


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.geometry", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument(
        "--designs", nargs="+", default=list(DESIGNS), choices=[*DESIGNS, *SYNTHETIC]
    )
    parser.add_argument(
        "--budgets",
        nargs="+",
        default=list(BUDGETS),
        help="(epsilon, delta) as 1,1e-6, rho as 0.1875",
    )
    parser.add_argument(
        "--neighbours", nargs="+", default=["replace"], choices=["replace", "add-remove"]
    )
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("studies/geometry/cells"),
        help="one file a cell, to go on",
    )
    parser.add_argument("--out", type=Path, default=Path("studies/geometry/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def cells(chosen: argparse.Namespace) -> Iterator[Cell]:
    """Every combination, one design after the other so that its data are read once."""
    for design in chosen.designs:
        for budget in chosen.budgets:
            for neighbours in chosen.neighbours:
                yield Cell(design, budget, neighbours)


def run(cell: Cell, chosen: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """All replicates of a cell, unless its file has as many already."""
    path = chosen.work / f"{cell.name}.json"
    if complete(path, chosen.replicates):
        return
    began = time.monotonic()
    found = replicates(cell.name, partial(replicate, cell, chosen.data), chosen.replicates, pool)
    summary: Found = summarise(cell, found, chosen.data)
    write(path, json.dumps(summary, indent=1) + "\n")
    shown = ("asked", "stated", "length", "length_max", "printed", "answered", "instead")
    numbers = ", ".join(f"{key} {summary[key]:.3f}" for key in shown if summary[key] is not None)
    print(f"{cell.name}: {numbers}, {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Run every cell, then write the table."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for cell in cells(chosen):
            run(cell, chosen, pool)
    found = ordered(collect(chosen.work))
    lines = ",\n".join(json.dumps(cell) for cell in found)
    write(chosen.out / "geometry.json", f"[\n{lines}\n]\n")
    write(chosen.docs / "geometry-study.md", page(found))


if __name__ == "__main__":
    main()
