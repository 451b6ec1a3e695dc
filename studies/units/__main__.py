"""Coverage and length of fits that protect persons: ``python -m studies.units --data FOLDER``.

The population is the data set itself; replicates are bootstrap samples of persons, with all their
rows.  Sampling weights are studied on fresh samples with a known truth.  One JSON file a cell,
written when it is complete, so that a stopped run goes on where it was; then one file and one page
of all cells there are.  Not private.
"""

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from studies.common import collect, complete, replicates, write
from studies.units.cell import GROUP, Cell, replicate
from studies.units.designs import BINARY, NUMERIC
from studies.units.report import BUDGETS, Found, of_survey, page, results, summarise
from studies.units.survey import IGNORED, PERSONS, ROWS, WEIGHTED, Survey, survey

PARTS = ("main", "beside", "linear", "weights")
_BESIDE = (
    "0.0175",
    "approx",
    "0.1875",
    "1",
)  # budgets of three rows a person, and of group privacy
_TWO = ("approx", "0.1875")  # budgets of least squares and of sampling weights


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.units", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument(
        "--designs", nargs="+", default=list(BINARY), choices=BINARY, help="of the first two parts"
    )
    parser.add_argument(
        "--budgets", nargs="+", default=list(BUDGETS), choices=BUDGETS, help="approx is (1, 1e-6)"
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--fewer", type=int, default=100, help="replicates of the part beside")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--work", type=Path, default=Path("studies/units/cells"), help="one file a cell, to go on"
    )
    parser.add_argument("--out", type=Path, default=Path("studies/units/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    return parser.parse_args()


def cells(chosen: argparse.Namespace) -> Iterator[tuple[Cell, int]]:
    """All fits of persons, with their number of replicates; one design after the other."""
    for design in chosen.designs:
        if "main" in chosen.parts:
            yield from ((Cell(design, budget), chosen.replicates) for budget in BUDGETS)
        if "beside" in chosen.parts:
            yield from (
                (Cell(design, budget, how), chosen.fewer)
                for how in ("3", GROUP)
                for budget in _BESIDE
            )
    if "linear" in chosen.parts:
        yield from (
            (Cell(design, budget), chosen.replicates) for design in NUMERIC for budget in _TWO
        )


def surveys(chosen: argparse.Namespace) -> Iterator[Survey]:
    """Sampling weights, used and ignored."""
    if "weights" in chosen.parts:
        for design, budget in itertools.product((ROWS, PERSONS), _TWO):
            yield from (Survey(design, budget, how) for how in (WEIGHTED, IGNORED))


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
    summary = made(replicates(path.stem, work, count, pool))
    write(path, json.dumps(summary, indent=1) + "\n")
    shown = ("asked", "asked_min", "stated", "rows", "plain", "length", "length_max", "open")
    numbers = ", ".join(
        f"{key} {summary[key]:.3f}" for key in shown if summary.get(key) is not None
    )
    print(f"{path.stem}: {numbers}, {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Run every cell, then write results and page."""
    chosen = options()
    with ProcessPoolExecutor(chosen.workers) as pool:
        for cell, count in cells(chosen):
            if cell.budget in chosen.budgets:
                path = chosen.work / f"{cell.name}.json"
                work = partial(replicate, cell, chosen.data)
                measure(path, count, pool, work, partial(summarise, cell, folder=chosen.data))
        for one in surveys(chosen):
            if one.budget in chosen.budgets:
                path = chosen.work / "surveys" / f"{one.name}.json"
                measure(
                    path, chosen.replicates, pool, partial(survey, one), partial(of_survey, one)
                )
    text = results(collect(chosen.work), collect(chosen.work / "surveys"))
    write(chosen.out / "units.json", text)
    write(chosen.docs / "units-study.md", page(json.loads(text)))


if __name__ == "__main__":
    main()
