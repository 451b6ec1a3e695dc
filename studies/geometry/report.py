"""From replicates to the numbers of a cell, and from cells to one table."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer.maths.arrays import Array
from studies.geometry.cell import Cell, isotropic
from studies.geometry.designs import load

_HEAD = (
    "design", "n", "d", "budget", "target", "neighbours", "coverage avg / min", "unweighted avg / min", "full model",
    "full reading", "length med / max", "set aside", "down-weighted", "isotropic med / max", "replicates",
)  # fmt: skip


def summarise(cell: Cell, found: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Averages over all reported intervals; extremes over coefficients reported in half of the replicates or more."""
    data = load(cell.design, folder)
    arrays = {key: np.array([one[key] for one in found], dtype=float) for key in found[0]}
    often = arrays["reported"].mean(axis=0) >= 0.5
    trusted = np.where(arrays["reading"] == 1, arrays["full"], np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        by_coefficient = {key: np.nanmean(arrays[key], axis=0) for key in ("stated", "unweighted", "z")}
        length = np.nanmedian(arrays["ratio"], axis=0)
        ideal = isotropic(cell, folder)
        summary = {
            "stated": np.nanmean(arrays["stated"]),
            "stated_min": _smallest(by_coefficient["stated"][often]),
            "unweighted": np.nanmean(arrays["unweighted"]),
            "unweighted_min": _smallest(by_coefficient["unweighted"][often]),
            "full": np.nanmean(arrays["full"]),
            "full_reading": np.nanmean(trusted),
            "reading_share": np.nanmean(arrays["reading"][:, 1:]),
            "length": np.nanmedian(length[often]),
            "length_max": -_smallest(-length[often]),
            "aside": 1 - arrays["reported"].mean(),
            "down_weighted": arrays["down_weighted"].mean(),
            "isotropic": np.median(ideal),
            "isotropic_max": ideal.max(),
        }
    columns = {
        "names": list(data.box.names),
        "coverage": by_coefficient["stated"],
        "z": by_coefficient["z"],
        "ratio": length,
        "reported": arrays["reported"].mean(axis=0),
    }
    rounded = {key: _plain(value) for key, value in summary.items()}
    facts = {"n": len(data.labels), "d": len(data.box.names), "replicates": len(found)}
    return {**asdict(cell), **facts, **rounded, "coefficients": {key: _plain(value) for key, value in columns.items()}}


def _smallest(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.min()) if len(finite) else float("nan")


def _plain(value: Any) -> Any:
    """Rounded to five places, NaN as null."""
    if isinstance(value, list):
        return value
    if np.ndim(value):
        return [_plain(float(one)) for one in value]
    return round(float(value), 5) if np.isfinite(value) else None


def page(folder: Path) -> str:
    """All cells of a folder as one Markdown table."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    lines = ["| " + " | ".join(_HEAD) + " |", "| " + " | ".join("---" for _ in _HEAD) + " |"]
    return "\n".join([*lines, *(_line(cell) for cell in found)]) + "\n"


def _line(c: dict[str, Any]) -> str:
    def number(key: str, form: str) -> str:
        return "-" if c[key] is None else format(c[key], form)

    cells = [
        c["design"], str(c["n"]), str(c["d"]), c["budget"].replace("approx", "(1, 1e-6)"), c["target"], c["neighbours"],
        f"{number('stated', '.3f')} / {number('stated_min', '.2f')}",
        f"{number('unweighted', '.3f')} / {number('unweighted_min', '.2f')}",
        number("full", ".2f"), number("full_reading", ".2f"),
        f"{number('length', '.2f')} / {number('length_max', '.1f')}",
        number("aside", ".0%"), number("down_weighted", ".1%"),
        f"{number('isotropic', '.1f')} / {number('isotropic_max', '.0f')}", str(c["replicates"]),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"
