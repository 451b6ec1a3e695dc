"""From replicates to the numbers of a cell, and from cells to one table."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from studies.common import plain, seldom, smallest
from studies.geometry.cell import Cell, isotropic
from studies.geometry.designs import load

_HEAD = (
    "design", "n", "d", "budget", "target", "neighbours", "coverage avg / min", "ordinary avg / min", "full model",
    "full reading", "length med / max", "set aside (in the model)", "seldom", "down-weighted",
    "isotropic med / max", "replicates", "prototype",
)  # fmt: skip


def summarise(cell: Cell, found: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Averages over all reported intervals; extremes over coefficients reported in half of the replicates or more."""
    data = load(cell.design, folder)
    arrays = {key: np.array([one[key] for one in found], dtype=float) for key in found[0]}
    often = arrays["reported"].mean(axis=0) >= 0.5
    trusted = np.where(arrays["reading"] == 1, arrays["full"], np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        by_coefficient = {key: np.nanmean(arrays[key], axis=0) for key in ("stated", "ordinary", "z")}
        length = np.nanmedian(arrays["ratio"], axis=0)
        ideal = isotropic(cell, folder)
        summary = {
            "stated": np.nanmean(arrays["stated"]),
            "stated_min": smallest(by_coefficient["stated"][often]),
            "ordinary": np.nanmean(arrays["ordinary"]),
            "ordinary_min": smallest(by_coefficient["ordinary"][often]),
            "full": np.nanmean(arrays["full"]),
            "full_reading": np.nanmean(trusted),
            "reading_share": np.nanmean(arrays["reading"][:, 1:]),
            "length": np.nanmedian(length[often]),
            "length_max": -smallest(-length[often]),
            "aside": 1 - arrays["reported"].mean(),
            "silent": (arrays["in_model"] - arrays["reported"]).mean(),
            "down_weighted": arrays["down_weighted"].mean(),
            "isotropic": np.median(ideal),
            "isotropic_max": ideal.max(),
        }
    columns = {
        "names": list(data.design.names),
        "coverage": by_coefficient["stated"],
        "z": by_coefficient["z"],
        "ratio": length,
        "reported": arrays["reported"].mean(axis=0),
    }
    rounded = {key: plain(value) for key, value in summary.items()}
    facts = {"n": len(data.labels), "d": len(data.design.names), "replicates": len(found)}
    return {**asdict(cell), **facts, **rounded, "coefficients": {key: plain(value) for key, value in columns.items()}}


def name_of(cell: dict[str, Any]) -> str:
    """As `Cell.name`."""
    return f"{cell['design']}-{cell['budget']}-{cell['target']}-{cell['neighbours']}"


def page(cells: list[dict[str, Any]]) -> str:
    """All cells as one Markdown table."""
    lines = ["| " + " | ".join(_HEAD) + " |", "| " + " | ".join("---" for _ in _HEAD) + " |"]
    words = Path(__file__).with_name("words.md").read_text(encoding="utf-8")
    return words + "\n".join([*lines, *(_line(cell) for cell in cells)]) + "\n"


def _line(c: dict[str, Any]) -> str:
    def number(key: str, form: str) -> str:
        return "-" if c[key] is None else format(c[key], form)

    cells = [
        c["design"], str(c["n"]), str(c["d"]), c["budget"].replace("approx", "(1, 1e-6)"), c["target"], c["neighbours"],
        f"{number('stated', '.3f')} / {number('stated_min', '.2f')}",
        f"{number('ordinary', '.3f')} / {number('ordinary_min', '.2f')}",
        number("full", ".2f"), number("full_reading", ".2f"),
        f"{number('length', '.2f')} / {number('length_max', '.1f')}",
        f"{number('aside', '.0%')} ({number('silent', '.0%')})",
        "-" if seldom(c) is None else f"{seldom(c):.2f}", number("down_weighted", ".1%"),
        f"{number('isotropic', '.1f')} / {number('isotropic_max', '.0f')}", str(c["replicates"]), _prototype(c),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


PROTOTYPE: dict[str, list[float]] = json.loads(Path(__file__).with_name("prototype.json").read_text(encoding="utf-8"))
"""Coverage, smallest coverage, median length, share set aside of the research code, by cell."""


def _prototype(cell: dict[str, Any]) -> str:
    found = PROTOTYPE.get(name_of(cell))
    return "" if found is None else f"{found[0]:.3f}, {found[2]:.2f}, {found[3]:.0%}"
