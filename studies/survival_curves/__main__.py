"""Coverage and length of survival curves: ``python -m studies.survival_curves --data FOLDER``.

One JSON file per design with all budgets, written when it is complete, so that a stopped run goes on where
it was; then one file and one page of all designs there are.  Not private.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.common import collect, complete, replicates, write
from studies.survival_curves.cell import replicate
from studies.survival_curves.designs import DESIGNS, design
from studies.survival_curves.report import page, results, summarise


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.survival_curves", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("studies/survival_curves/cells"),
        help="one file per design, to go on",
    )
    parser.add_argument("--out", type=Path, default=Path("studies/survival_curves/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def main() -> None:
    """Run every design, then write results and page."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for name in chosen.designs:
            path = chosen.work / f"{name}.json"
            if complete(path, chosen.replicates):
                continue
            began = time.monotonic()
            work = partial(replicate, name, chosen.data)
            found = replicates(name, work, chosen.replicates, pool)
            summary = summarise(name, design(name, chosen.data).n, found)
            write(path, json.dumps(summary, indent=1) + "\n")
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    text = results(collect(chosen.work))
    write(chosen.out / "survival_curves.json", text)
    write(chosen.docs / "survival-curves-study.md", page(json.loads(text)))


if __name__ == "__main__":
    main()
