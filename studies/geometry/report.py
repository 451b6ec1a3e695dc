"""From replicates to the numbers of a cell, and from cells to one page."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from studies.asked import BUDGETS, HEAD, Found, form, line, summary, table, weak
from studies.common import plain
from studies.geometry.cell import Cell
from studies.geometry.designs import DESIGNS, SYNTHETIC, load

_HEAD = (*HEAD, "p < .05 at 0", "replicates")


def summarise(cell: Cell, found: Sequence[Found], folder: Path) -> Found:
    """The numbers of a cell."""
    data = load(cell.design, folder)
    more = {
        "n": len(data.labels),
        "down_weighted": plain(np.nanmean([one["down_weighted"] for one in found])),
    }
    return {**asdict(cell), **more, **summary(found, data.design.names)}


def name_of(cell: Found) -> str:
    """As `Cell.name`."""
    return f"{cell['design']}-{cell['budget']}-{cell['neighbours']}"


def ordered(cells: Sequence[Found]) -> list[Found]:
    """Designs and budgets in the order of the study; other budgets last."""

    def place(cell: Found) -> tuple[int, int, str]:
        known = cell["budget"] in BUDGETS
        design = (*DESIGNS, *SYNTHETIC).index(cell["design"])
        budget = BUDGETS.index(cell["budget"]) if known else len(BUDGETS)
        return design, budget, name_of(cell)

    return sorted(cells, key=place)


def _line(cell: Found) -> list[str]:
    return [*line(cell), form(cell["rejected"], ".3f"), str(cell["replicates"])]


def page(cells: Sequence[Found]) -> str:
    """All cells as one Markdown table, and the coefficients that are covered least."""
    words = Path(__file__).with_name("words.md").read_text(encoding="utf-8")
    if not cells:
        return words + "\nThe study has not been run with the method of this version yet.\n"
    parts = [words]
    for neighbours, title in (
        ("replace", "One record is replaced"),
        ("add-remove", "One record is added or removed"),
    ):
        some = [cell for cell in cells if cell["neighbours"] == neighbours]
        if some:
            parts.append(f"## {title}\n\n" + table(_HEAD, [_line(cell) for cell in some]))
    said = weak(cells) or ["None."]
    parts.append("## Covered in fewer than nine of ten fits\n\n" + "\n".join(said) + "\n")
    return "\n".join(parts)
