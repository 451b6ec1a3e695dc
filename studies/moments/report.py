"""The page of the study: lengths by the number of features, cells that fail, and all cells."""

import math
from pathlib import Path
from statistics import median
from typing import Any

Cell = dict[str, Any]
MEAN = 0.93
"""The coverage below which a cell fails, by more than two standard errors."""
LOWEST = 0.80
"""... and below which a slope is named."""
_BUDGETS = {"1,1e-6": "(1, 10⁻⁶)", "3,1e-6": "(3, 10⁻⁶)", "0.1": "ρ = 0.1"}
_GROUPS = (("up to 12 features", 0, 13), ("13 to 24", 13, 25), ("25 or more", 25, 100))
_COUNTED = 100


def fails(cell: Cell) -> bool:
    """Whether the coverage of a cell with enough reported slopes is too low."""
    enough = cell["reported_count"] >= _COUNTED
    return bool(enough and cell["coverage"] < MEAN - 2 * cell["coverage_error"])


def low_slopes(cell: Cell) -> dict[str, float]:
    """The slopes that are covered far too seldom."""
    error = math.sqrt(LOWEST * (1 - LOWEST) / cell["replicates"])
    return {name: value for name, value in cell["low"].items() if value < LOWEST - 2 * error}


def page(cells: list[Cell]) -> str:
    """Write the page of all cells."""
    words = Path(__file__).with_name("words.md").read_text(encoding="utf-8")
    cells = sorted(cells, key=lambda one: (one["budget"], one["n"], one["features"], one["design"]))
    failed = [one["cell"] for one in cells if fails(one)]
    lines = [
        words.rstrip(),
        "",
        "## Lengths",
        "",
        "| budget | records | features | designs | median length | coverage, mean of cells | lowest cell |",
        "|---|---:|---|---:|---:|---:|---:|",
        *_by_size(cells),
        "",
        "## Cells that fail, and slopes below .80",
        "",
        f"{len(failed)} of {len(cells)} cells fail{': ' + ', '.join(failed) if failed else ''}.",
        "",
        *_low(cells),
        "",
        "## All cells",
        "",
        "| design | features | records | budget | coverage | lowest | reported | length med / max | price | clipped "
        "| replicates |",
        "|---|---:|---:|---|---:|---|---:|---:|---:|---:|---:|",
        *(_row(one) for one in cells),
    ]
    return "\n".join(lines) + "\n"


def _by_size(cells: list[Cell]) -> list[str]:
    lines = []
    for budget, n in dict.fromkeys((one["budget"], one["n"]) for one in cells):
        for name, low, high in _GROUPS:
            own = [
                one
                for one in cells
                if (one["budget"], one["n"]) == (budget, n)
                and low <= one["features"] < high
                and one["length"] is not None
                and not one["persons"]
            ]
            if own:
                coverage = [one["coverage"] for one in own]
                lines.append(
                    f"| {_BUDGETS[budget]} | {n:,} | {name} | {len(own)} | {median(one['length'] for one in own):.2f} "
                    f"| {sum(coverage) / len(own):.3f} | {min(coverage):.3f} |"
                )
    return lines


def _low(cells: list[Cell]) -> list[str]:
    lines = [
        f"- {one['cell']}: {name} {value:.2f}"
        for one in cells
        for name, value in low_slopes(one).items()
    ]
    return lines or ["No slope is."]


def _row(one: Cell) -> str:
    lowest = "" if one["lowest"] is None else f"{one['lowest']:.2f} {one['lowest_name']}"
    length = "" if one["length"] is None else f"{one['length']:.2f} / {one['length_max']:.1f}"
    return (
        f"| {one['design']} | {one['features']} | {one['n']:,} | {_BUDGETS[one['budget']]} | {one['coverage']:.3f} "
        f"| {lowest} | {one['reported']:.2f} | {length} | {one['price']:.2f} | {one['clipped']:.1f} "
        f"| {one['replicates']} |"
    )
