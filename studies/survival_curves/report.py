"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies.asked import Found, budget_words, table
from studies.common import plain
from studies.survival_curves.cell import BUDGETS, KEYS, NONE
from studies.survival_curves.designs import DESIGNS

_WORDS = Path(__file__).with_name("words.md")
_NUMBERS = (*KEYS, "power", "size")
_HEAD = (
    "table", "persons", "budget", "interval", "band", "incidence", "its band", "ignoring noise", "length",
    "its length", "reported", "median", "its length", "mean", "its length", "size", "power",
)  # fmt: skip
LOW = 0.93


def summarise(name: str, n: int, found: Sequence[Found]) -> Found:
    """The numbers of a design at every budget: means over replicates and groups; lengths are medians."""
    return {
        "design": name,
        "n": n,
        "replicates": len(found),
        "cells": {one: _of_budget([part[one] for part in found]) for one in (NONE, *BUDGETS)},
    }


def _of_budget(found: Sequence[Found]) -> Found:
    numbers: Found = {}
    for key in _NUMBERS:
        values = np.array([value for one in found for value in one[key]], dtype=float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
            mean = np.nanmedian if key.endswith("length") else np.nanmean
            numbers[key] = plain(mean(values)) if len(values) else None
    return numbers


def results(designs: Sequence[Found]) -> str:
    """All cells as JSON, one per line."""
    order = sorted(designs, key=lambda one: list(DESIGNS).index(one["design"]))
    return "[\n" + ",\n".join(json.dumps(one) for one in order) + "\n]\n"


def page(designs: Sequence[Found]) -> str:
    """The page of all cells."""
    counts = sorted({one["replicates"] for one in designs}, reverse=True)
    replicated = [
        f"{count} of {', '.join(one['design'] for one in designs if one['replicates'] == count)}"
        for count in counts
    ]
    rows = [_row(one, budget, cell) for one in designs for budget, cell in one["cells"].items()]
    words = _WORDS.read_text(encoding="utf-8").rstrip()
    parts = [
        words,
        f"Replicates: {'; '.join(replicated)}.",
        table(_HEAD, rows),
        "\n".join(_below(designs)),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _row(one: Found, budget: str, cell: Found) -> list[str]:
    shown = "no noise" if budget == NONE else budget_words(budget)
    keys = (
        "point", "point band", "incidence", "incidence band", "naive", "point length", "incidence length",
        "reported", "median", "median length", "mean", "mean length", "size", "power",
    )  # fmt: skip
    return [one["design"], f"{one['n']:,}", shown, *(_number(cell[key]) for key in keys)]


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}"


def below(designs: Sequence[Found], key: str) -> list[tuple[str, str, float]]:
    """The cells whose coverage is below .93."""
    return [
        (one["design"], budget, cell[key])
        for one in designs
        for budget, cell in one["cells"].items()
        if cell[key] is not None and cell[key] < LOW
    ]


def _below(designs: Sequence[Found]) -> list[str]:
    """What is below .93, in sentences."""
    lines = []
    for key, words in (
        ("point", "intervals of survival"),
        ("point band", "bands of survival"),
        ("incidence", "intervals of incidence"),
        ("incidence band", "bands of incidence"),
        ("median", "intervals of medians"),
        ("mean", "intervals of restricted means"),
    ):
        cells = below(designs, key)
        count = sum(cell[key] is not None for one in designs for cell in one["cells"].values())
        shown = ", ".join(
            f"{name} at {_words(budget)} ({value:.3f})" for name, budget, value in cells
        )
        lines.append(
            f"- {words}: {len(cells)} of {count} cells are below .93{': ' if shown else ''}{shown}."
        )
    return lines


def _words(budget: str) -> str:
    return "no noise" if budget == NONE else budget_words(budget)
