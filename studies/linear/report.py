"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from studies.asked import BUDGETS, HEAD, Found, budget_words, form, line, summary, table, weak
from studies.common import plain, smallest
from studies.linear.cell import Cell
from studies.linear.designs import DESIGNS, HELD_OUT, SYNTHETIC, TUNING, WIDE, load
from studies.linear.rivals import RIVALS

_HEAD = (*HEAD, "clipped", "band / sd", "replicates")


def summarise(cell: Cell, found: Sequence[Found], folder: Path) -> Found:
    """The numbers of a cell."""
    data = load(cell.design, folder)
    means = {
        key: plain(np.mean([one[key] for one in found]))
        for key in ("down_weighted", "clipped", "band")
    }
    return {**asdict(cell), "n": len(data.labels), **means, **summary(found, data.design.names)}


def compare(cell: Cell, found: Sequence[Found]) -> Found:
    """The rivals of a cell, for slopes; ``failed`` is the share of replicates without an answer."""
    methods = {name: _rival([one[name] for one in found]) for name in RIVALS}
    return {
        "design": cell.design,
        "budget": cell.budget,
        "replicates": len(found),
        "methods": methods,
    }


def _rival(found: Sequence[Found]) -> Found:
    covered = np.array([one["covered"] for one in found], dtype=float)
    ratio = np.array([one["ratio"] for one in found], dtype=float)
    failed = np.isnan(covered).all(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        length = np.nanmedian(ratio, axis=0)
        numbers = {
            "asked": np.nanmean(covered),
            "asked_min": smallest(np.nanmean(covered, axis=0)),
            "length": np.nanmedian(length),
            "length_max": -smallest(-length),
            "failed": failed.mean(),
        }
    return {key: plain(value) for key, value in numbers.items()}


def name_of(cell: Found) -> str:
    """As `Cell.name`."""
    return "-".join(cell[key] for key in ("design", "budget", "target", "tail", "neighbours"))


def ordered(cells: Sequence[Found]) -> list[Found]:
    """Designs and budgets in the order of the study; other budgets last."""

    def place(cell: Found) -> tuple[int, int]:
        known = cell["budget"] in BUDGETS
        return (*DESIGNS, *SYNTHETIC).index(cell["design"]), BUDGETS.index(
            cell["budget"]
        ) if known else len(BUDGETS)

    return sorted(cells, key=place)


def results(cells: Sequence[Found], rivals: Sequence[Found]) -> str:
    """One file, one line a cell."""
    parts = (
        f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in ordered(some)) + "\n]"
        for name, some in (("cells", cells), ("rivals", rivals))
    )
    return "{" + ",\n".join(parts) + "}\n"


def page(found: dict[str, list[Found]]) -> str:
    """All cells, in a table a kind, and the coefficients that are covered least."""
    parts = [Path(__file__).with_name("words.md").read_text(encoding="utf-8")]
    if not found["cells"]:
        parts.append("The study has not been run with the method of this version yet.\n")
        return "\n".join(parts)
    for title, wanted in _SECTIONS.items():
        some = [cell for cell in found["cells"] if wanted(cell)]
        if some:
            parts.append(f"## {title}\n\n" + table(_HEAD, [_line(cell) for cell in some]))
    said = weak([cell for cell in found["cells"] if _usual(cell)]) or ["None."]
    parts.append("## Covered in fewer than nine of ten fits\n\n" + "\n".join(said) + "\n")
    if found["rivals"]:
        head = ("design", "budget", "dpinfer", *RIVALS, "replicates")
        parts.append(
            "## Rivals\n\n" + table(head, [_beside(one, found["cells"]) for one in found["rivals"]])
        )
    return "\n".join(parts)


def _usual(cell: Found) -> bool:
    return (cell["target"], cell["tail"], cell["neighbours"]) == ("asked", "balanced", "replace")


_SECTIONS: dict[str, Callable[[Found], bool]] = {
    "Real data used while tuning": lambda c: _usual(c) and c["design"] in TUNING,
    "Real data held out": lambda c: _usual(c) and c["design"] in HELD_OUT,
    "Bounds ten times too wide": lambda c: _usual(c) and c["design"] in WIDE,
    "Synthetic data": lambda c: _usual(c) and c["design"] in SYNTHETIC,
    "Adjacency by adding or removing a record": lambda c: c["neighbours"] == "add-remove",
    "target='robust'": lambda c: c["target"] == "robust",
    "tail='cautious'": lambda c: c["tail"] == "cautious",
    "tail='all'": lambda c: c["tail"] == "all",
}


def _line(cell: Found) -> list[str]:
    return [
        *line(cell),
        form(cell["clipped"], ".2%"),
        form(cell["band"], ".1f"),
        str(cell["replicates"]),
    ]


def _beside(one: Found, cells: Sequence[Found]) -> list[str]:
    """A row of rivals, after the package's own fit of the same samples."""
    ours = [
        c
        for c in cells
        if _usual(c) and (c["design"], c["budget"]) == (one["design"], one["budget"])
    ]
    own = "-"
    if ours:
        own = _short(ours[0], 1 - ours[0]["printed"], "not reported")
    rivals = [
        _short(one["methods"][name], one["methods"][name]["failed"], "fail") for name in RIVALS
    ]
    return [one["design"], budget_words(one["budget"]), own, *rivals, str(one["replicates"])]


def _short(found: Found, lost: float, word: str) -> str:
    if found["asked"] is None:
        return f"all {word}"
    more = f", {lost:.0%} {word}" if lost >= 0.005 else ""
    return f"{found['asked']:.2f} / {form(found['length'], '.2f')} / {form(found['length_max'], '.1f')}{more}"
