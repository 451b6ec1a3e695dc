"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer.maths.arrays import Array
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
_HEAD = (
    "table", "n", "budget", "figure", "lines", "coverage", "of lines that vary", "lowest line (without noise)",
    "length med / max", "printed",
)  # fmt: skip
_OVERVIEW = (
    "figure", "cells", "below .93", ".93 to .97", "above .97", "lowest", "highest", "lines below .93",
)  # fmt: skip
_LOW = 0.93
_HIGH = 0.97
_OFTEN = 0.5  # of the replicates: a line that fewer of them print is no candidate for the worst
_SURE = 0.995  # a line that is covered so often is one that cannot miss, as a whole number


def summarise(cell: Cell, found: Sequence[Found], folder: Path) -> Found:
    """The numbers of a cell, figure by figure."""
    people, _ = setting(cell, folder)
    lines = keys(people.sample(0, budget(cell.budget)).run(insecure_seed=0))
    both = {
        word: {key: np.array([one[word][key] for one in found], dtype=float) for key in keys_}
        for word, keys_ in (("private", ("covered", "length")), ("plain", ("covered", "length")))
    }
    figures = {}
    for figure in FIGURES:
        chosen = [j for j, line in enumerate(lines) if line[3] == figure]
        if chosen:
            figures[figure] = _of_figure(chosen, lines, both["private"], both["plain"])
    return {**asdict(cell), "n": people.n, "replicates": len(found), "figures": figures}


def _of_figure(
    chosen: list[int], lines: Sequence[Key], private: dict[str, Array], other: dict[str, Array]
) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        covered = private["covered"][:, chosen]
        printed = np.isfinite(covered).mean(axis=0)
        coverage = np.nanmean(covered, axis=0)
        without = np.nanmean(other["covered"][:, chosen], axis=0)
        length = np.nanmedian(private["length"][:, chosen], axis=0)
        length /= np.nanmedian(other["length"][:, chosen], axis=0)
        often = printed >= _OFTEN
        varying = often & (coverage < _SURE)
        worst = int(np.nanargmin(np.where(often, coverage, np.nan))) if often.any() else None
        ratios = length[np.isfinite(length)]
        numbers: Found = {
            "lines": len(chosen),
            "coverage": plain(np.nanmean(covered)),
            "varying": plain(np.mean(coverage[varying])) if varying.any() else None,
            "printed": plain(np.mean(printed)),
            "length": plain(np.median(ratios)) if len(ratios) else None,
            "length_max": plain(ratios.max()) if len(ratios) else None,
            "outside": int((often & (coverage < _LOW)).sum()),
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
    held = [_held(figure, cells) for figure in FIGURES]
    return f"{words.format(held=table(_OVERVIEW, held))}\n{table(_HEAD, rows)}\n"


def _held(figure: str, cells: Sequence[Found]) -> list[str]:
    """How many cells cover as often as they should, of those that print a figure at all."""
    there = [cell["figures"][figure] for cell in cells if figure in cell["figures"]]
    told = [one for one in there if one["coverage"] is not None]
    coverage = np.array([one["coverage"] for one in told])
    below = int((coverage < _LOW).sum())
    above = int((coverage > _HIGH).sum())
    lines = sum(one["lines"] for one in told)
    return [
        figure,
        str(len(told)),
        str(below),
        str(len(told) - below - above),
        str(above),
        _number(coverage.min(), 3),
        _number(coverage.max(), 3),
        f"{sum(one['outside'] for one in told)} of {lines}",
    ]


def _rows(cell: Found) -> list[list[str]]:
    name = cell["design"] + (" by group" if cell["grouped"] else "")
    rows = []
    for figure in FIGURES:
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
                _number(one["varying"], 3),
                lowest,
                f"{_number(one['length'], 2)} / {_number(one['length_max'], 1)}",
                _number(one["printed"], 2),
            ]
        )
    return rows


def _number(value: Any, places: int) -> str:
    return "–" if value is None else f"{value:.{places}f}"
