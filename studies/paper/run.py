"""Compute every cell that is not in the results yet: ``python -m studies.paper --data FOLDER``.

Results are saved after every cell, whole and then renamed, so an interrupted run goes on where it
stopped.  A study reads the records without noise: nothing here is private.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from threadpoolctl import threadpool_limits

import dpinfer as dp
from studies.paper import cells, report
from studies.paper import device as on_device
from studies.paper.cells import Cell
from studies.paper.data import RECIPES, Order, load
from studies.paper.store import PARTS, Record, Results, Settings


@dataclass(frozen=True)
class Job:
    """One record to find: a cell's coverage study, its variability interval, or the eigenvalues of
    its Σ.
    """

    part: str
    kind: str
    cell: Cell


def jobs(part: str) -> list[Job]:
    """What a part needs, each once; records with the same rows follow each other."""
    if part == "tables":
        both = [c for chart in cells.tables() for c in chart.cells()] + [
            c for _, _, c in cells.other_order()
        ]
        spectra = [Job(part, "spectrum", cell) for _, cell in cells.fullest()]
        return [*(Job(part, "cells", cell) for cell in cells.unique(both)), *spectra]
    if part == "rand":
        return [
            Job(part, "cells", c)
            for c in cells.unique(c for chart in cells.rand_tables() for c in chart.cells())
        ]
    points = cells.unique(c for chart in cells.panels() for c in chart.cells())
    wanted = [Job(part, "cells", cell) for cell in points]
    wanted += [
        Job(part, "variability", cell) for cell in cells.unique(c.released() for c in points)
    ]
    return sorted(wanted, key=lambda job: (*job.cell.rows, job.kind))


def problem(cell: Cell, folder: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The data of a cell, as arguments of a study: by position, and by name."""
    if cell.data == "rand_hie":
        return _rand(cell.n, cell.d)
    return _rows(cell.rows, folder), {}


def study(job: Job, folder: Path, settings: Settings, device: str | None) -> Record:
    """The record of a job."""
    started = time.perf_counter()
    cell = job.cell
    data, named = problem(cell, folder)
    common: dict[str, Any] = {
        "loss": cells.LOSSES[cell.loss],
        "penalty": cells.PENALTY,
        "plan": cell.plan(),
        "seed": settings.seed,
        "level": settings.level,
        **named,
    }
    if job.kind == "spectrum":
        X, y = data
        record = _spectrum(X, y, cells.LOSSES[cell.loss])
    elif job.kind == "variability":
        common["replicates"] = settings.variability
        if device is None:
            low, high = dp.simulate.variability(*data, **common)
        else:
            low, high = on_device.variability(*data, device=device, **common)
        record = {"length": float(np.mean(high - low)), "first_length": float(high[0] - low[0])}
    else:
        common |= {"replicates": settings.replicates, "nonprivate": cell.data == "rand_hie"}
        if device is None:
            record = _record(dp.simulate.coverage(*data, **common))
        else:
            record = _record(on_device.coverage(*data, device=device, **common))
    return {**record, "seconds": round(time.perf_counter() - started, 2)}


def compute(
    wanted: Iterable[Job],
    results: Results,
    work: Callable[[Job], Record],
    console: Console,
    limit: int | None = None,
) -> int:
    """Do the jobs that are not in the results, at most ``limit`` of them; return how many were
    done.
    """
    todo = [job for job in wanted if results.get(job.kind, job.cell) is None][:limit]
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as bar:
        task = bar.add_task("", total=len(todo))
        for job in todo:
            bar.update(task, description=job.cell.key)
            # Many small products: threads of BLAS would only wait for each other.
            with threadpool_limits(1, "blas"):
                record = work(job)
            results.add(job.part, job.kind, job.cell, record)
            bar.advance(task)
    return len(todo)


def main(arguments: list[str] | None = None) -> int:
    """Compute, then write the report; 1 if a data file is missing, 130 if interrupted."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    settings = Settings(options.replicates, options.variability, options.seed)
    results = Results(options.out, settings)
    folder = Path(options.data)
    wanted = [job for part in PARTS if options.only in (None, part) for job in jobs(part)]
    absent = {name for name, recipe in RECIPES.items() if not (folder / recipe.file).is_file()}
    skipped = [j for j in wanted if j.cell.data in absent and results.get(j.kind, j.cell) is None]
    for name in sorted({job.cell.data for job in skipped}):
        console.print(
            f"{RECIPES[name].file} is missing, {name} is left out: {RECIPES[name].remedy}",
            markup=False,
        )
    lost = set(skipped)
    try:
        compute(
            [job for job in wanted if job not in lost],
            results,
            lambda job: study(job, folder, settings, options.device),
            console,
            options.limit,
        )
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on from here.")
        return 130
    report.write(results, Path(options.docs))
    console.print(f"Wrote {Path(options.docs) / report.PAGE}", markup=False)
    return 1 if skipped else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studies.paper", description="The paper's tables and figures."
    )
    defaults = Settings()
    parser.add_argument("--data", required=True, help="folder of the data files")
    parser.add_argument("--device", help="run the fits on torch, for example cuda")
    parser.add_argument("--only", choices=PARTS, help="one part instead of all")
    parser.add_argument(
        "--replicates", type=int, default=defaults.replicates, help="of a coverage study"
    )
    parser.add_argument(
        "--variability", type=int, default=defaults.variability, help="of a variability interval"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--out", default="studies/paper/results", help="folder of the results")
    parser.add_argument("--docs", default="docs", help="folder of the report")
    parser.add_argument("--limit", type=int, help="stop after so many new records")
    return parser


@lru_cache(maxsize=1)
def _rows(rows: tuple[str, Order, int, int], folder: Path) -> tuple[Any, Any]:
    name, order, d, n = rows
    X, y, _ = load(name, folder, n=n, d=d, order=order)
    return X, y


@lru_cache(maxsize=1)
def _rand(n: int, terms: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The first ``terms`` terms of the formula, on a seeded sample of the rows."""
    demo = dp.datasets.rand_hie()
    outcome, _, right = demo.formula.partition(" ~ ")
    chosen = np.random.default_rng(0).permutation(len(demo.table))[:n]
    table = demo.table.iloc[chosen].reset_index(drop=True)
    formula = f"{outcome} ~ {' + '.join(right.split(' + ')[:terms])}"
    return (table,), {"schema": demo.schema, "formula": formula}


def _spectrum(X: Any, y: Any, loss: dp.Loss) -> Record:
    """The eigenvalues of Σ without noise, and how many of them lie below the floor 2c of Algorithm
    2.
    """
    coef = dp.infer(X, y, loss=loss, penalty=cells.PENALTY, budget=dp.NoPrivacy()).estimate
    score = X * loss.slope(y * (X @ coef))[:, None]
    values = np.linalg.eigvalsh(
        score.T @ score / len(X) - 4 * cells.PENALTY**2 * np.outer(coef, coef)
    )
    return {
        "eigenvalues": [float(f"{v:.3g}") for v in values],
        "below": int((values < 2 * cells.PENALTY).sum()),
    }


def _record(found: dp.simulate.Study) -> Record:
    """The few numbers of a study that are kept.

    ``length_sd`` is the average over coefficients of the standard deviation over replicates.
    """
    record = {
        "coverage": found.mean_coverage,
        "minimum": found.min_coverage,
        "coverages": [round(float(share), 5) for share in found.coverage],
        "length": found.mean_length,
        "length_sd": float(found.length_sd.mean()),
        "first_length": float(found.length[0]),
        "first_length_sd": float(found.length_sd[0]),
    }
    if np.all(np.isfinite(found.nonprivate_length)):
        record["inflation"] = float(np.mean(found.length / found.nonprivate_length))
    return record
