"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from studies.asked import OFTEN, Found, budget_words, table
from studies.common import plain
from studies.survival.cell import Cell, asked
from studies.survival.designs import DESIGNS

BUDGETS = ("0.5,1e-6", "1,1e-6", "3,1e-6", "0.1")
_HEAD = (
    "design", "persons", "events", "d", "budget", "coverage: mean / lowest", "of Cox", "without noise", "reported",
    "length: median / largest", "apart", "replicates",
)  # fmt: skip
_LOW = 0.85  # coverage of a single coefficient below which it is named


def summarise(cell: Cell, found: Sequence[Found], folder: Path) -> Found:
    """The numbers of a cell; ``apart`` is the largest |Cox - ordinary| in standard errors."""
    at = asked(cell.design, folder)
    arrays = {key: np.array([one[key] for one in found], dtype=float) for key in found[0]}
    reported = arrays["printed"].mean(axis=0)
    often = reported >= OFTEN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        each = np.nanmean(arrays["asked"], axis=0)
        length = np.nanmedian(arrays["ratio"], axis=0)
        numbers = {
            "asked": np.nanmean(arrays["asked"]),
            "lowest": np.nanmin(each[often]) if often.any() else np.nan,
            "cox": np.nanmean(arrays["cox"]),
            "ceiling": np.nanmean(arrays["ceiling"]),
            "reported": reported.mean(),
            "length": np.nanmedian(length[often]) if often.any() else np.nan,
            "length_max": np.nanmax(length[often]) if often.any() else np.nan,
            "apart": np.abs((at.cox - at.coef) / at.std_error).max(),
        }
    names = at.data.design.records.names[1:]
    return {
        **asdict(cell),
        "persons": at.data.cohort.persons,
        "events": round(at.events),
        "d": len(at.data.design.names),
        "replicates": len(found),
        **{key: plain(value) for key, value in numbers.items()},
        "coefficients": {
            "name": list(names),
            "coverage": plain(each),
            "reported": plain(reported),
            "length": plain(length),
        },
    }


def ordered(cells: Sequence[Found]) -> list[Found]:
    """Designs and budgets in the order of the study."""

    def place(cell: Found) -> tuple[str, int, int]:
        return cell["adjacency"], DESIGNS.index(cell["design"]), BUDGETS.index(cell["budget"])

    return sorted(cells, key=place)


def results(cells: Sequence[Found]) -> str:
    """One file, one line a cell."""
    return "[\n" + ",\n".join(json.dumps(one) for one in ordered(cells)) + "\n]\n"


def page(cells: Sequence[Found]) -> str:
    """All cells, in a table for each adjacency, and the coefficients that are covered least."""
    parts = [Path(__file__).with_name("words.md").read_text(encoding="utf-8")]
    titles = {"replace": "One person replaced", "add-remove": "One person added or removed"}
    for adjacency, title in titles.items():
        some = [cell for cell in cells if cell["adjacency"] == adjacency]
        if some:
            parts.append(f"## {title}\n\n" + table(_HEAD, [_line(cell) for cell in some]))
    parts.append(
        "## Covered in fewer than 85 of 100 fits\n\n" + ("\n".join(_low(cells)) or "None.") + "\n"
    )
    return "\n".join(parts)


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _line(cell: Found) -> list[str]:
    return [
        cell["design"],
        f"{cell['persons']:,}",
        f"{cell['events']:,}",
        str(cell["d"]),
        budget_words(cell["budget"]),
        f"{_number(cell['asked'])} / {_number(cell['lowest'], 2)}",
        _number(cell["cox"]),
        _number(cell["ceiling"]),
        f"{100 * cell['reported']:.0f}%",
        f"{_number(cell['length'], 2)} / {_number(cell['length_max'], 2)}",
        _number(cell["apart"], 2),
        str(cell["replicates"]),
    ]


def _low(cells: Sequence[Found]) -> list[str]:
    """The coefficients reported in half of the fits that are covered less."""
    lines = []
    for cell in cells:
        columns = cell["coefficients"]
        for name, coverage, reported in zip(
            columns["name"], columns["coverage"], columns["reported"], strict=True
        ):
            if coverage is not None and coverage < _LOW and reported >= OFTEN:
                lines.append(
                    f"- {cell['design']}, {budget_words(cell['budget'])}, {cell['adjacency']}: {name} {coverage:.2f}, "
                    f"reported in {100 * reported:.0f}%"
                )
    return lines
