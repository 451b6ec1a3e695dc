"""Coverage and length of answers from one release of moments: ``python -m studies.moments --data FOLDER``.

One JSON file a cell, written when it is complete, so that a stopped run goes on where it was; then
one file and one page of all cells.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.common import collect, complete, replicates, write
from studies.moments.cell import Cell, replicate, summary
from studies.moments.designs import DESIGNS
from studies.moments.report import page

BUDGETS = ("1,1e-6", "3,1e-6", "0.1")
_LARGE = ("adult20", "acs20", "cps", "skewed")  # designs that are drawn with 100,000 records, too


def grid() -> list[Cell]:
    """All cells: every design at (1, 1e-6), some at other budgets and sizes."""
    cells = [Cell(design) for design in DESIGNS]
    cells += [Cell(design, budget=budget) for budget in BUDGETS[1:] for design in DESIGNS]
    return cells + [Cell(design, 100_000) for design in _LARGE]


def main() -> None:
    """Run every cell that has too few replicates, then write results and page."""
    parser = argparse.ArgumentParser(prog="python -m studies.moments", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS), choices=BUDGETS)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=Path("studies/moments/cells"))
    parser.add_argument("--out", type=Path, default=Path("studies/moments/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for cell in grid():
            path = chosen.work / f"{cell.name}.json"
            wanted = cell.design in chosen.designs and cell.budget in chosen.budgets
            if not wanted or complete(path, chosen.replicates):
                continue
            began = time.monotonic()
            work = partial(replicate, cell, chosen.data)
            done = replicates(cell.name, work, chosen.replicates, pool)
            found = summary(cell, chosen.data, done)
            write(path, json.dumps(found) + "\n")
            shown = {key: found[key] for key in ("coverage", "lowest", "reported", "length")}
            print(f"{cell.name}: {shown}, {time.monotonic() - began:.0f} s", flush=True)
    cells = collect(chosen.work)
    write(chosen.out / "moments.json", json.dumps(cells, indent=0) + "\n")
    write(chosen.docs / "moments-study.md", page(cells))


if __name__ == "__main__":
    main()
