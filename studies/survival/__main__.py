"""Coverage and length of hazard ratios: ``python -m studies.survival --data FOLDER``.

One JSON file a cell, written when it is complete, so that a stopped run goes on where it was; then one file and one
page of all cells there are.  Not private.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.common import collect, complete, replicates, write
from studies.survival.cell import Cell, replicate
from studies.survival.designs import DESIGNS
from studies.survival.report import BUDGETS, page, results, summarise


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.survival", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS))
    parser.add_argument("--adjacency", nargs="+", default=["replace"])
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("studies/survival/cells"))
    parser.add_argument("--out", type=Path, default=Path("studies/survival/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def main() -> None:
    """Run every cell, then write results and page."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for design in chosen.designs:
            for adjacency in chosen.adjacency:
                for budget in chosen.budgets:
                    cell = Cell(design, budget, adjacency)
                    path = chosen.work / f"{cell.name}.json"
                    if complete(path, chosen.replicates):
                        continue
                    began = time.monotonic()
                    work = partial(replicate, cell, chosen.data)
                    found = summarise(
                        cell, replicates(path.stem, work, chosen.replicates, pool), chosen.data
                    )
                    write(path, json.dumps(found, indent=1) + "\n")
                    keys = ("asked", "lowest", "cox", "reported", "length", "length_max")
                    shown = ", ".join(f"{key} {found[key]}" for key in keys)
                    print(f"{path.stem}: {shown}, {time.monotonic() - began:.0f} s", flush=True)
    text = results(collect(chosen.work))
    write(chosen.out / "survival.json", text)
    write(chosen.docs / "survival-study.md", page(json.loads(text)))


if __name__ == "__main__":
    main()
