"""Coverage and length of Table 1: ``python -m studies.describe --data FOLDER``.

The population is the table itself; replicates are bootstrap samples of its records or persons.  One
JSON file a cell, written when it is complete, so that a stopped run goes on where it was; then one
file and one page of all cells there are.  Not private.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.common import collect, complete, replicates, write
from studies.describe.cell import Cell, replicate
from studies.describe.designs import DESIGNS
from studies.describe.report import BUDGETS, page, results, summarise


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.describe", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS), help="as 1,1e-6")
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("studies/describe/cells"),
        help="one file a cell, to go on",
    )
    parser.add_argument("--out", type=Path, default=Path("studies/describe/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def measure(cell: Cell, chosen: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """All replicates of a cell, unless its file has as many already."""
    path = chosen.work / f"{cell.name}.json"
    if complete(path, chosen.replicates):
        return
    began = time.monotonic()
    work = partial(replicate, cell, chosen.data)
    found = summarise(cell, replicates(cell.name, work, chosen.replicates, pool), chosen.data)
    write(path, json.dumps(found, indent=1) + "\n")
    shown = ", ".join(f"{name} {one['coverage']}" for name, one in found["figures"].items())
    print(f"{cell.name}: {shown}, {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Run every cell, then write results and page."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for design in chosen.designs:
            for grouped in (False, True):
                for budget in chosen.budgets:
                    measure(Cell(design, budget, grouped), chosen, pool)
    text = results(collect(chosen.work))
    write(chosen.out / "describe.json", text)
    write(chosen.docs / "describe-study.md", page(json.loads(text)))


if __name__ == "__main__":
    main()
