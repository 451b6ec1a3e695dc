"""Coverage and length of least-squares fits: ``python -m studies.linear --data FOLDER``.

Populations and replicates are those of `studies.asked`.  One JSON file a cell, written when it is
complete, so that a stopped run goes on where it was; then one file and one page of all cells there
are.  Not private.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from studies.asked import BUDGETS
from studies.common import collect, complete, replicates, write
from studies.linear.cell import Cell, replicate
from studies.linear.designs import DESIGNS, REAL, SYNTHETIC
from studies.linear.report import compare, page, results, summarise
from studies.linear.rivals import contest

PARTS = ("main", "extra", "rivals")
_FIVE = ("rand_log", "rand_mdvis", "adult_s", "acs_log", "acs_inc")
_ONE = "1,1e-6"  # the budget of the part extra
_RIVAL_BUDGETS = (_ONE, "0.1875")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.linear", description=__doc__)
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
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument(
        "--fewer", type=int, default=100, help="replicates of the parts extra and rivals"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--work", type=Path, default=Path("studies/linear/cells"), help="one file a cell, to go on"
    )
    parser.add_argument("--out", type=Path, default=Path("studies/linear/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def extra(design: str) -> Iterator[Cell]:
    """The other notion of neighbours, target and tails, for five designs."""
    if design in _FIVE:
        yield Cell(design, _ONE, neighbours="add-remove")
        yield Cell(design, _ONE, target="robust")
        yield Cell(design, _ONE, tail="cautious")
        yield Cell(design, _ONE, tail="all")


def run(chosen: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """Every part, one design after the other so that its data are read once."""
    for design in chosen.designs:
        if "main" in chosen.parts:
            for budget in chosen.budgets:
                measure(Cell(design, budget), chosen.replicates, chosen, pool)
        if "extra" in chosen.parts:
            for cell in extra(design):
                if cell.budget in chosen.budgets:
                    measure(cell, chosen.fewer, chosen, pool)
        if "rivals" in chosen.parts and design in REAL:
            for budget in _RIVAL_BUDGETS:
                if budget in chosen.budgets:
                    rival(Cell(design, budget), chosen, pool)


def measure(cell: Cell, count: int, chosen: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """A cell of the package's fits."""
    one = _Job(cell.name, chosen.work / f"{cell.name}.json", count)
    summary = one.run(
        partial(replicate, cell, chosen.data),
        lambda found: summarise(cell, found, chosen.data),
        pool,
    )
    shown = ("asked", "stated", "length", "length_max", "printed", "answered", "instead")
    if summary:
        one.say(", ".join(f"{key} {summary[key]:.3f}" for key in shown if summary[key] is not None))


def rival(cell: Cell, chosen: argparse.Namespace, pool: ProcessPoolExecutor) -> None:
    """The rivals of a cell."""
    name = f"{cell.design}-{cell.budget}"
    one = _Job(f"rivals of {name}", chosen.work / "rivals" / f"{name}.json", chosen.fewer)
    summary = one.run(partial(contest, cell, chosen.data), partial(compare, cell), pool)
    if summary:
        some = {key: (found["asked"], found["length"]) for key, found in summary["methods"].items()}
        one.say(
            ", ".join(
                f"{key} {cover:.2f} {length:.1f}" for key, (cover, length) in some.items() if cover
            )
        )


class _Job:
    """Replicates of one cell and the file that holds their summary."""

    def __init__(self, name: str, path: Path, count: int) -> None:
        self.name = name
        self.path = path
        self.count = count
        self.began = time.monotonic()

    def run(
        self,
        work: Callable[[int], dict[str, Any]],
        summary: Callable[[list[dict[str, Any]]], dict[str, Any]],
        pool: ProcessPoolExecutor,
    ) -> dict[str, Any] | None:
        """Nothing where the file has as many replicates already."""
        if complete(self.path, self.count):
            return None
        found = summary(replicates(self.name, work, self.count, pool))
        write(self.path, json.dumps(found, indent=1) + "\n")
        return found

    def say(self, words: str) -> None:
        """What was found, and how long it took."""
        print(f"{self.name}: {words}, {time.monotonic() - self.began:.0f} s", flush=True)


def main() -> None:
    """Run every cell, then write results and page."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        run(chosen, pool)
    text = results(collect(chosen.work), collect(chosen.work / "rivals"))
    write(chosen.out / "linear.json", text)
    write(chosen.docs / "linear-study.md", page(json.loads(text)))


if __name__ == "__main__":
    main()
