"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.numerics.arrays import Array
from dpinfer.result import description
from studies.asked import Found, budget, budget_words, table
from studies.common import plain
from studies.describe.cell import Cell, keys, setting
from studies.describe.designs import DESIGNS, Key

BUDGETS = ("0.1,1e-7", "1,1e-6")
FIGURES = (
    description.RECORDS, description.MISSING, description.MEAN, description.SD, description.Q25,
    description.MEDIAN, description.Q75, description.COUNT, description.SHARE, description.DIFFERENCE,
)  # fmt: skip
SHARED = tuple(f"{name}, shared" for name in (description.Q25, description.MEDIAN, description.Q75))
"""Quartiles that many share, apart."""
KINDS = (*FIGURES[:7], *SHARED, *FIGURES[7:])
_HEAD = (
    "table", "n", "budget", "figure", "figures", "coverage", "without noise", "lowest (without noise)",
    "length med / max", "reported",
)  # fmt: skip
_OVERVIEW = (
    "figure", "figures", "coverage", "without noise", "cells", "below .93", ".93 to .97", "above .97",
    "outside beyond chance", "lowest cell", "highest cell",
)  # fmt: skip
LOW = 0.93
HIGH = 0.97
_CHANCE = 2.5  # standard errors of a cell
_OFTEN = 0.5  # of the replicates: a line that fewer of them print is no candidate for the worst


def kind(line: Key, shared: Collection[Key]) -> str:
    """The figure of a line, and whether it is a quartile that many share."""
    return f"{line[3]}, shared" if line in shared else line[3]


def summarise(cell: Cell, found: Sequence[Found], folder: Path) -> Found:
    """The numbers of a cell, figure by figure."""
    where = setting(cell, folder)
    lines = keys(where.people.sample(0, budget(cell.budget)).run(insecure_seed=0))
    both = {
        word: {key: np.array([one[word][key] for one in found], dtype=float) for key in keys_}
        for word, keys_ in (("private", ("covered", "length")), ("plain", ("covered", "length")))
    }
    figures = {}
    for name in KINDS:
        chosen = [j for j, line in enumerate(lines) if kind(line, where.shared) == name]
        if chosen:
            figures[name] = _of_figure(chosen, lines, both["private"], both["plain"])
    return {**asdict(cell), "n": where.people.n, "replicates": len(found), "figures": figures}


def _of_figure(
    chosen: list[int], lines: Sequence[Key], private: dict[str, Array], other: dict[str, Array]
) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        covered = private["covered"][:, chosen]
        there = np.isfinite(covered)
        printed = there.mean(axis=0)
        coverage = np.nanmean(covered, axis=0)
        plainly = np.where(there, other["covered"][:, chosen], np.nan)
        without = np.nanmean(plainly, axis=0)
        length = np.nanmedian(private["length"][:, chosen], axis=0)
        length /= np.nanmedian(other["length"][:, chosen], axis=0)
        often = printed >= _OFTEN
        worst = int(np.nanargmin(np.where(often, coverage, np.nan))) if often.any() else None
        ratios = length[np.isfinite(length)]
        numbers: Found = {
            "lines": len(chosen),
            "coverage": plain(np.nanmean(covered)),
            "without": plain(np.nanmean(plainly)),
            "printed": plain(np.mean(printed)),
            "length": plain(np.median(ratios)) if len(ratios) else None,
            "length_max": plain(ratios.max()) if len(ratios) else None,
        }
    if worst is not None:
        name, level, group, _ = lines[chosen[worst]]
        said = [str(part) for part in (level, group) if part is not None]
        numbers["worst"] = name + (f"[{', '.join(said)}]" if said else "")
        numbers["lowest"] = plain(coverage[worst])
        numbers["lowest_without"] = plain(without[worst])
    return numbers


def ordered(cells: Sequence[Found]) -> list[Found]:
    """Tables and budgets in the order of the study."""
    return sorted(
        cells, key=lambda cell: (DESIGNS.index(cell["design"]), cell["grouped"], cell["budget"])
    )


def results(cells: Sequence[Found]) -> str:
    """One file, one line a cell."""
    lines = ",\n".join(json.dumps(cell, sort_keys=True) for cell in ordered(cells))
    return f"[\n{lines}\n]\n"


def page(cells: Sequence[Found]) -> str:
    """The page of the study."""
    words = (Path(__file__).parent / "words.md").read_text(encoding="utf-8")
    rows = [row for cell in ordered(cells) for row in _rows(cell)]
    held = [_held(name, cells) for name in KINDS]
    return f"{words.format(held=table(_OVERVIEW, held))}\n{table(_HEAD, rows)}\n"


def told(name: str, cells: Sequence[Found]) -> tuple[Array, Array, Array]:
    """Of the cells that print a figure at all: its coverage, that without noise, and how many
    intervals there are.
    """
    there = [
        (one["coverage"], one["without"], one["printed"] * one["lines"] * cell["replicates"])
        for cell in cells
        for one in [cell["figures"].get(name)]
        if one is not None and one["coverage"] is not None
    ]
    coverage, without, prints = np.array(there).T
    return coverage, without, prints


def outside(coverage: Array, prints: Array) -> npt.NDArray[np.bool_]:
    """The cells that are outside .93 to .97 by more than chance does to the nearer of the two."""
    chance = _CHANCE * np.sqrt(
        np.where(coverage < LOW, LOW * (1 - LOW), HIGH * (1 - HIGH)) / prints
    )
    return np.asarray((coverage < LOW - chance) | (coverage > HIGH + chance))


def _held(name: str, cells: Sequence[Found]) -> list[str]:
    """How many cells cover as often as they should."""
    coverage, without, prints = told(name, cells)
    below = int((coverage < LOW).sum())
    above = int((coverage > HIGH).sum())
    return [
        name,
        str(sum(cell["figures"][name]["lines"] for cell in cells if name in cell["figures"])),
        _number(np.average(coverage, weights=prints), 3),
        _number(np.average(without, weights=prints), 3),
        str(len(coverage)),
        str(below),
        str(len(coverage) - below - above),
        str(above),
        str(int(outside(coverage, prints).sum())),
        _number(coverage.min(), 3),
        _number(coverage.max(), 3),
    ]


def _rows(cell: Found) -> list[list[str]]:
    name = cell["design"] + (" by group" if cell["grouped"] else "")
    rows = []
    for figure in KINDS:
        one = cell["figures"].get(figure)
        if one is None:
            continue
        lowest = "–"
        if one.get("worst"):
            lowest = (
                f"{_number(one['lowest'], 3)} {one['worst']} ({_number(one['lowest_without'], 3)})"
            )
        rows.append(
            [
                name,
                f"{cell['n']:,}",
                budget_words(cell["budget"]),
                figure,
                str(one["lines"]),
                _number(one["coverage"], 3),
                _number(one["without"], 3),
                lowest,
                f"{_number(one['length'], 2)} / {_number(one['length_max'], 1)}",
                _number(one["printed"], 2),
            ]
        )
    return rows


def _number(value: Any, places: int) -> str:
    return "–" if value is None else f"{value:.{places}f}"
