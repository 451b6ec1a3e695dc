"""Coverage and length of fits with effects of persons: ``python -m studies.panel --data FOLDER``.

Replicates are samples of persons with replacement, from a made-up population or a survey.  One JSON file a cell,
written when it is complete, so that a stopped run goes on where it was; then one file and one page of all cells
there are.  Not private.
"""

import argparse
import itertools
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.common import collect, complete, replicates, write
from studies.panel.cell import Cell, replicate
from studies.panel.designs import DESIGNS
from studies.panel.report import BUDGETS, page, results, summarise

_ADD_REMOVE = ("syn_did_10k", "gsoep_fe")
"""Designs that are also fitted where the number of persons is private."""


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.panel", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS), choices=BUDGETS)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--work", type=Path, default=Path("studies/panel/cells"), help="one file a cell, to go on"
    )
    parser.add_argument("--out", type=Path, default=Path("studies/panel/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def main() -> None:
    """Run every cell, then write results and page."""
    chosen = options()
    cells = [Cell(*pair) for pair in itertools.product(chosen.designs, chosen.budgets)]
    cells += [
        Cell(design, budget, "add-remove")
        for design, budget in itertools.product(_ADD_REMOVE, chosen.budgets[:1])
        if design in chosen.designs
    ]
    with ProcessPoolExecutor(chosen.workers) as pool:
        for cell in cells:
            path = chosen.work / f"{cell.name}.json"
            if complete(path, chosen.replicates):
                continue
            began = time.monotonic()
            work = partial(replicate, cell, chosen.data)
            found = replicates(cell.name, work, chosen.replicates, pool)
            summary = summarise(cell, found, chosen.data)
            write(path, json.dumps(summary, indent=1) + "\n")
            shown = ("coverage", "coverage_min", "reported", "length", "length_max", "band")
            numbers = ", ".join(
                f"{key} {summary[key]:.3f}" for key in shown if summary.get(key) is not None
            )
            print(f"{cell.name}: {numbers}, {time.monotonic() - began:.0f} s", flush=True)
    text = results(collect(chosen.work))
    write(chosen.out / "panel.json", text)
    write(chosen.docs / "panel-study.md", page(json.loads(text)))


if __name__ == "__main__":
    main()
