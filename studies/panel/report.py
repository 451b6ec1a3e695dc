"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer.numerics.arrays import Array
from studies.asked import OFTEN, budget_words
from studies.common import plain
from studies.panel.cell import Cell, setting
from studies.panel.designs import DESIGNS

BUDGETS = ("1,1e-6", "3,1e-6", "0.5,1e-6", "0.1")
Found = dict[str, Any]
_ENOUGH = 100  # reported intervals, below which a cell has no coverage
_TIMES = 2.0  # Monte Carlo standard errors by which a cell may be below the bar
_BAR = 0.93
_EACH = 0.85
_HEAD = (
    "design", "persons", "d", "budget", "coverage avg / min", "effects by period", "band", "reported",
    "length med / max", "replicates",
)  # fmt: skip


def summarise(cell: Cell, found: list[Found], folder: Path) -> Found:
    """Return averages over all reported intervals, and extremes over coefficients reported in half of the fits."""
    at = setting(cell, folder)
    arrays = {key: np.array([one[key] for one in found], dtype=float) for key in found[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing
        facts: Found = {
            **asdict(cell),
            "persons": at.persons,
            "replicates": len(found),
            **_summary(arrays, ""),
            "coefficients": {
                "names": list(at.names[1:]),
                "coverage": plain(np.nanmean(arrays["covered"], axis=0)),
                "reported": plain(arrays["reported"].mean(axis=0)),
                "length": plain(np.nanmedian(arrays["length"], axis=0)),
                "z_mean": plain(np.nanmean(arrays["z"], axis=0)),
                "z_sd": plain(np.nanstd(arrays["z"], axis=0)),
            },
        }
        if "band" in arrays:
            facts |= _summary(arrays, "period_")
            facts["band"] = plain(np.nanmean(arrays["band"]))
    return facts


def _summary(arrays: dict[str, Array], prefix: str) -> Found:
    covered = arrays[f"{prefix}covered"]
    often = arrays[f"{prefix}reported"].mean(axis=0) >= OFTEN
    each = np.nanmean(covered, axis=0)
    lengths = np.nanmedian(arrays[f"{prefix}length"], axis=0)
    count = int(np.isfinite(covered).sum())
    # intervals of one fit are not independent: the error is that of means by replicate
    by_fit = np.nanmean(covered, axis=1)
    by_fit = by_fit[np.isfinite(by_fit)]
    error = float(by_fit.std() / np.sqrt(max(len(by_fit), 1)))
    return {
        f"{prefix}coverage": plain(np.nanmean(covered)) if count else None,
        f"{prefix}coverage_error": plain(error),
        f"{prefix}coverage_min": plain(each[often].min()) if often.any() else None,
        f"{prefix}intervals": count,
        f"{prefix}reported": plain(arrays[f"{prefix}reported"].mean()),
        f"{prefix}length": plain(np.median(lengths[often])) if often.any() else None,
        f"{prefix}length_max": plain(lengths[often].max()) if often.any() else None,
    }


def results(cells: list[Found]) -> str:
    """Return all cells as one text, in the order of the designs."""
    order = list(DESIGNS)
    chosen = sorted(
        cells,
        key=lambda one: (
            one["adjacency"],
            order.index(one["design"]),
            BUDGETS.index(one["budget"]),
        ),
    )
    return json.dumps({"cells": chosen}, indent=1) + "\n"


def page(found: Found) -> str:
    """Return the page of the study."""
    words = (Path(__file__).parent / "words.md").read_text(encoding="utf-8")
    cells = found["cells"]
    parts = {
        "MAIN": _table([one for one in cells if one["adjacency"] == "replace"]),
        "ADDED": _table([one for one in cells if one["adjacency"] != "replace"]),
        "BELOW": _below(cells),
        "SINGLE": _single(cells),
    }
    for key, text in parts.items():
        words = words.replace(f"{{{key}}}", text)
    return words


def _table(cells: list[Found]) -> str:
    lines = [f"| {' | '.join(_HEAD)} |", f"|{' --- |' * len(_HEAD)}"]
    for one in cells:
        period = "" if one.get("period_coverage") is None else f"{one['period_coverage']:.3f}"
        band = "" if one.get("band") is None else f"{one['band']:.2f}"
        row = (
            one["design"],
            f"{one['persons']:,}",
            str(len(one["coefficients"]["names"])),
            budget_words(one["budget"]),
            _pair(one["coverage"], one["coverage_min"], 3, 2),
            period,
            band,
            f"{100 * one['reported']:.0f}%",
            _pair(one["length"], one["length_max"], 2, 2),
            str(one["replicates"]),
        )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _pair(first: float | None, second: float | None, digits: int, others: int) -> str:
    one = "-" if first is None else f"{first:.{digits}f}"
    two = "-" if second is None else f"{second:.{others}f}"
    return f"{one} / {two}"


def _below(cells: list[Found]) -> str:
    """Return the cells whose mean coverage is below the bar by more than two Monte Carlo standard errors."""
    names = [
        f"{one['design']} at {budget_words(one['budget'])} ({one['coverage']:.3f})"
        for one in cells
        if one["intervals"] >= _ENOUGH and one["coverage"] + _TIMES * one["coverage_error"] < _BAR
    ]
    return ", ".join(names) or "none"


def _single(cells: list[Found]) -> str:
    """Return the coefficients that are reported in half of the fits and covered in fewer than 85 %."""
    names = []
    for one in cells:
        columns = one["coefficients"]
        for name, coverage, reported in zip(
            columns["names"], columns["coverage"], columns["reported"], strict=True
        ):
            if reported >= OFTEN and coverage is not None and coverage < _EACH:
                names.append(
                    f"`{name}` of {one['design']} at {budget_words(one['budget'])} ({coverage:.2f})"
                )
    return ", ".join(names) or "none"
