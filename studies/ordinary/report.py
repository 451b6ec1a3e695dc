"""The page of the study: how many cells fail, which, and all of them; and a figure of their coverage."""

import math
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

Cell = dict[str, Any]

MEAN = 0.93
"""The average coverage below which a cell fails, by more than two standard errors."""
LOWEST = 0.85
"""... and that of a coefficient which half of the fits report."""
_COUNTED = 100  # reported coefficients that a cell has at least, to be judged
_HEAD = (
    "| population | table | link | n | bounds | adjacency | budget | coverage | lowest | length | reported "
    "| intercept |"
)
_RULE = "|---|---:|---|---:|---:|---|---|---:|---|---:|---:|---:|"
_SIZES = {"1,1e-6": "(1, 10⁻⁶)", "3,1e-6": "(3, 10⁻⁶)", "0.3,1e-6": "(0.3, 10⁻⁶)", "0.1": "ρ = 0.1"}


def judged(cells: list[Cell]) -> list[Cell]:
    """The cells with enough reported coefficients."""
    return [cell for cell in cells if cell["reported_count"] >= _COUNTED]


def failures(cell: Cell) -> list[str]:
    """Why a cell fails; nothing where it does not."""
    found = []
    if cell["coverage"] < MEAN - 2 * cell["coverage_error"]:
        found.append(f"average {cell['coverage']:.3f}")
    columns = cell["coefficients"]
    triples = zip(columns["name"], columns["coverage"], columns["reported"], strict=True)
    for name, coverage, reported in list(triples)[1:]:
        if coverage is None or reported < 1 / 2:
            continue
        error = math.sqrt(LOWEST * (1 - LOWEST) / (reported * cell["replicates"]))
        if coverage < LOWEST - 2 * error:
            found.append(f"{name} {coverage:.2f}")
    return found


def page(cells: list[Cell]) -> str:
    """What is asked, how many cells fail and which, then all cells."""
    words = Path(__file__).with_name("words.md").read_text(encoding="utf-8")
    enough = judged(cells)
    failed = [(cell, why) for cell in enough if (why := failures(cell))]
    lines = [
        words.rstrip(),
        "",
        "## What was found",
        "",
        f"{len(enough)} of {len(cells)} cells have {_COUNTED} reported coefficients or more, and are judged. "
        f"{len(failed)} of them fail.",
        "",
        *_by_link(enough),
        "",
        "### Cells that fail",
        "",
        "| cell | what fails | length | reported |",
        "|---|---|---:|---:|",
        *(
            f"| {cell['cell']} | {', '.join(why)} | {cell['length']:.2f} | {cell['reported']:.2f} |"
            for cell, why in failed
        ),
        "",
        "### All cells",
        "",
        _HEAD,
        _RULE,
        *(_row(cell) for cell in sorted(cells, key=_order)),
    ]
    return "\n".join(lines) + "\n"


def _by_link(cells: list[Cell]) -> list[str]:
    """Averages over cells, one line for each link and budget."""
    lines = [
        "| link | budget | tables | cells | fail | coverage, average of cells | lowest cell "
        "| length, median of cells |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for link in ("logistic", "linear", "poisson"):
        for (budget, words), draw in product(_SIZES.items(), (0, 1)):
            own = [
                cell
                for cell in cells
                if (cell["link"], cell["budget"], cell["draw"]) == (link, budget, draw)
            ]
            if not own:
                continue
            tables = "new" if draw else "looked at"
            coverage = sorted(cell["coverage"] for cell in own)
            length = sorted(cell["length"] for cell in own)[len(own) // 2]
            failed = sum(bool(failures(cell)) for cell in own)
            lines.append(
                f"| {link} | {words} | {tables} | {len(own)} | {failed} | {sum(coverage) / len(own):.3f} "
                f"| {coverage[0]:.3f} | {length:.2f} |"
            )
    return lines


def figure(cells: list[Cell]) -> Figure:
    """Draw the coverage of each judged cell, one row for each link, beside the nominal .95."""
    drawn = Figure(figsize=(8, 3.2), layout="constrained")
    axes = drawn.subplots()
    links = {"logistic": "logistic", "linear": "least squares", "poisson": "counts"}
    for row, link in enumerate(links):
        own = sorted(cell["coverage"] for cell in judged(cells) if cell["link"] == link)
        # Equal values would hide each other: cells of one hundredth are stacked about the row.
        stacked: dict[float, int] = {}
        heights = []
        for coverage in own:
            bin_ = round(coverage * 250)
            stacked[bin_] = stacked.get(bin_, 0) + 1
            heights.append(row + 0.07 * (-1) ** stacked[bin_] * (stacked[bin_] // 2))
        axes.plot(own, heights, "o", markersize=4.5, color="#0072b2", alpha=0.75, markeredgewidth=0)
    axes.axvline(0.95, color="#202020", linewidth=1.2)
    axes.axvline(MEAN, color="#d55e00", linewidth=1.2, linestyle="--")
    axes.annotate("nominal", (0.95, -0.62), xytext=(3, 0), textcoords="offset points", va="top")
    axes.annotate(
        "limit of the study",
        (MEAN, -0.62),
        xytext=(-3, 0),
        textcoords="offset points",
        va="top",
        ha="right",
        color="#a84300",
    )
    axes.set(ylim=(2.6, -0.9), xlim=(0.885, 1.003), yticks=range(len(links)))
    axes.set_yticklabels(links.values())
    axes.set_xlabel("coverage of 95% intervals, one dot per cell of the study")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return drawn


def _order(cell: Cell) -> tuple[Any, ...]:
    return tuple(
        cell[key] for key in ("population", "link", "n", "wide", "adjacency", "budget", "draw")
    )


def _row(cell: Cell) -> str:
    lowest = "" if cell["lowest"] is None else f"{cell['lowest']:.2f} {cell['lowest_name']}"
    return (
        f"| {cell['population']} | {cell['draw']} | {cell['link']} | {cell['n']:,} | {cell['wide']:g} "
        f"| {cell['adjacency']} | {_SIZES[cell['budget']]} | {_number(cell['coverage'], 3)} | {lowest} "
        f"| {_number(cell['length'], 2)} | {_number(cell['reported'], 2)} | {_number(cell['intercept'], 2)} |"
    )


def _number(value: float | None, places: int) -> str:
    return "" if value is None else f"{value:.{places}f}"
