"""Coverage of the ordinary coefficient on drawn populations: ``python -m studies.ordinary``.

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
from studies.ordinary.cell import replicate, summary
from studies.ordinary.grid import GRIDS
from studies.ordinary.report import figure, page


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.ordinary", description=__doc__)
    parser.add_argument("--grids", nargs="+", default=["main"], choices=sorted(GRIDS))
    parser.add_argument("--links", nargs="+", default=None, help="only these")
    parser.add_argument("--populations", nargs="+", default=None, help="only these")
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=Path("studies/ordinary/cells"))
    parser.add_argument("--out", type=Path, default=Path("studies/ordinary/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def main() -> None:
    """Every cell, then results and page."""
    chosen = options()
    cells = [
        cell
        for grid in chosen.grids
        for cell in GRIDS[grid]
        if (chosen.links is None or cell.link in chosen.links)
        and (chosen.populations is None or cell.population in chosen.populations)
    ]
    with ProcessPoolExecutor(chosen.workers) as pool:
        for cell in cells:
            path = chosen.work / f"{cell.name}.json"
            if complete(path, chosen.replicates):
                continue
            began = time.monotonic()
            work = partial(replicate, cell)
            found = summary(cell, replicates(cell.name, work, chosen.replicates, pool))
            write(path, json.dumps(found) + "\n")
            keys = ("coverage", "lowest", "length", "reported")
            numbers = " ".join(f"{k} {found[k]:.3f}" for k in keys if found[k] is not None)
            took = time.monotonic() - began
            print(f"{cell.name}: {numbers} ({found['lowest_name']}) {took:.0f} s", flush=True)
    done = collect(chosen.work)
    write(chosen.out / "ordinary.json", json.dumps(done, indent=0) + "\n")
    write(chosen.docs / "ordinary-study.md", page(done))
    (chosen.docs / "figures").mkdir(exist_ok=True)
    figure(done).savefig(chosen.docs / "figures/coverage.png", dpi=150)


if __name__ == "__main__":
    main()
