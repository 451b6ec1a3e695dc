"""What the small studies share."""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer.numerics.arrays import Array

_WIDTH = 30  # of a progress bar


def write(path: Path, text: str) -> None:
    """Whole, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(path.suffix + ".part")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def complete(path: Path, count: int) -> bool:
    """Whether the file of a cell has as many replicates already."""
    return (
        path.exists() and int(json.loads(path.read_text(encoding="utf-8"))["replicates"]) >= count
    )


def replicates(
    name: str, work: Callable[[int], dict[str, Any]], count: int, pool: Executor
) -> list[dict[str, Any]]:
    """All replicates of a cell, in order, with a bar on a terminal."""
    found = []
    for done in pool.map(work, range(count), chunksize=1):
        found.append(done)
        if sys.stderr.isatty():
            bar = "#" * (_WIDTH * len(found) // count)
            end = "\n" if len(found) == count else ""
            print(
                f"\r{name} [{bar:<{_WIDTH}}] {len(found)}/{count}",
                end=end,
                file=sys.stderr,
                flush=True,
            )
    return found


def collect(folder: Path) -> list[dict[str, Any]]:
    """All cells of a folder."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def smallest(values: Array) -> float:
    """Of the finite ones."""
    finite = values[np.isfinite(values)]
    return float(finite.min()) if len(finite) else float("nan")


def plain(value: Any) -> Any:
    """Rounded to five places, NaN as null."""
    if isinstance(value, list):
        return value
    if np.ndim(value):
        return [plain(float(one)) for one in value]
    return round(float(value), 5) if np.isfinite(value) else None


def seldom(cell: dict[str, Any]) -> float | None:
    """Coverage of what is reported in fewer than half of the replicates, weighted by how often it
    is.
    """
    columns = cell["coefficients"]
    pairs = [
        (c, r)
        for c, r in zip(columns["coverage"], columns["reported"], strict=True)
        if c is not None and r < 0.5
    ]
    weight = sum(r for _, r in pairs)
    return sum(c * r for c, r in pairs) / weight if weight >= 0.05 else None
