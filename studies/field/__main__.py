"""dpinfer beside other published methods: ``python -m studies.field --data FOLDER``.

Every method answers the same bootstrap samples.  One JSON file a cell, written when it is complete, so
that a stopped run goes on where it was; then one file, one page and one figure of all cells there are.
``pip install diffprivlib`` adds a rival.  Not private.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.common import collect, complete, replicates, write
from studies.field.designs import NAMES, load
from studies.field.methods import Cell, replicate
from studies.field.report import BUDGETS, draw, headline, ordered, page, results, summarise


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.field", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--budgets", nargs="+", default=list(BUDGETS), choices=BUDGETS)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1, help="more than 1 spoils the times")
    parser.add_argument(
        "--work", type=Path, default=Path("studies/field/cells"), help="one file a cell, to go on"
    )
    parser.add_argument("--out", type=Path, default=Path("studies/field/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def main() -> None:
    """Run every cell, then write results, page and figure."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for design in chosen.designs:
            for budget in chosen.budgets:
                cell = Cell(design, budget)
                path = chosen.work / f"{cell.name}.json"
                if complete(path, chosen.replicates):
                    continue
                work = partial(replicate, cell, chosen.data)
                found = replicates(cell.name, work, chosen.replicates, pool)
                summary = summarise(cell, found, len(load(design, chosen.data).labels))
                write(path, json.dumps(summary, indent=1) + "\n")
                print(headline([summary]), flush=True)
    cells = ordered(collect(chosen.work))
    write(chosen.out / "field.json", results(cells))
    write(chosen.docs / "field.md", page(cells))
    draw(cells, chosen.docs / "figures" / "field.png")


if __name__ == "__main__":
    main()
