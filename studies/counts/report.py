"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from studies.asked import Found, budget_words, form, summary, table, weak
from studies.common import plain, smallest
from studies.counts.cell import RIVALS, Cell
from studies.counts.designs import DESIGNS, REAL, SYNTHETIC, load

BUDGETS = ("0.5,1e-6", "1,1e-6", "3,1e-6", "0.1")
_HEAD = (
    "design", "n", "d", "budget", "coverage", "slopes", "level", "lowest slope (without noise)", "stated",
    "length med / max", "reported", "with alternatives", "alternatives", "clipped", "replicates",
)  # fmt: skip
_SECTIONS = {"Real data": REAL, "Synthetic data": SYNTHETIC}


def summarise(cell: Cell, found: Sequence[Found], folder: Path) -> Found:
    """The numbers of a cell; ``level`` is the coverage of the intercept, which ``slopes`` leave out."""
    data = load(cell.design, folder)
    means = {
        key: plain(np.mean([one[key] for one in found])) for key in ("down_weighted", "clipped")
    }
    asked = np.array([one["asked"] for one in found], dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        apart = {
            "slopes": plain(np.nanmean(asked[:, 1:])),
            "level": plain(np.nanmean(asked[:, 0])),
        }
    return {**asdict(cell), "n": data.n, **means, **apart, **summary(found, data.design.names)}


def compare(cell: Cell, found: Sequence[Found]) -> Found:
    """The rivals of a cell, for slopes."""
    methods = {name: _rival([one[name] for one in found]) for name in RIVALS}
    return {
        "design": cell.design,
        "budget": cell.budget,
        "replicates": len(found),
        "methods": methods,
    }


def _rival(found: Sequence[Found]) -> Found:
    covered = np.array([one["covered"] for one in found], dtype=float)
    length = np.median(np.array([one["ratio"] for one in found], dtype=float), axis=0)
    numbers = {
        "asked": covered.mean(),
        "asked_min": smallest(covered.mean(axis=0)),
        "length": np.median(length),
        "length_max": length.max(),
    }
    return {key: plain(value) for key, value in numbers.items()}


def name_of(cell: Found) -> str:
    """As `Cell.name`."""
    return f"{cell['design']}-{cell['budget']}"


def ordered(cells: Sequence[Found]) -> list[Found]:
    """Designs and budgets in the order of the study; other budgets last."""

    def place(cell: Found) -> tuple[int, int]:
        known = cell["budget"] in BUDGETS
        last = BUDGETS.index(cell["budget"]) if known else len(BUDGETS)
        return DESIGNS.index(cell["design"]), last

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
    for title, designs in _SECTIONS.items():
        some = [cell for cell in found["cells"] if cell["design"] in designs]
        if some:
            parts.append(f"## {title}\n\n" + table(_HEAD, [_line(cell) for cell in some]))
    said = weak(found["cells"]) or ["None."]
    parts.append("## Covered in fewer than nine of ten fits\n\n" + "\n".join(said) + "\n")
    if found["rivals"]:
        head = ("design", "budget", "dpinfer", *RIVALS, "replicates")
        parts.append(
            "## Rivals\n\n" + table(head, [_beside(one, found["cells"]) for one in found["rivals"]])
        )
    return "\n".join(parts)


def digest(found: dict[str, list[Found]], budget: str = "1,1e-6") -> str:
    """The cells of one budget in a few columns, for docs/counts.md."""
    head = (
        "design",
        "coverage",
        "level",
        "lowest slope (without noise)",
        "length med / max",
        "reported",
    )
    places = [_HEAD.index(name) for name in head]
    lines = [_line(cell) for cell in found["cells"] if cell["budget"] == budget]
    return table(head, [[line[place] for place in places] for line in lines])


def lowest(cell: Found) -> Found | None:
    """The slope that is covered least among those that half of the fits print, with what an
    interval without noise attains for it.
    """
    columns = cell["coefficients"]
    rows = zip(
        columns["names"], columns["asked"], columns["ceiling"], columns["printed"], strict=True
    )
    some = [
        {"name": name, "asked": asked, "ceiling": ceiling}
        for name, asked, ceiling, printed in list(rows)[1:]
        if printed >= 0.5
    ]
    return min(some, key=lambda one: one["asked"], default=None)


def _line(cell: Found) -> list[str]:
    least = lowest(cell)
    words = "-"
    if least is not None:
        words = f"{least['name']} {least['asked']:.2f} ({least['ceiling']:.2f})"
    return [
        cell["design"],
        str(cell["n"]),
        str(cell["d"]),
        budget_words(cell["budget"]),
        form(cell["asked"], ".3f"),
        form(cell["slopes"], ".3f"),
        form(cell["level"], ".2f"),
        words,
        form(cell["stated"], ".3f"),
        f"{form(cell['length'], '.2f')} / {form(cell['length_max'], '.1f')}",
        form(cell["printed"], ".0%"),
        form(cell["answered"], ".0%"),
        form(cell["instead"], ".2f"),
        form(cell["clipped"], ".2%"),
        str(cell["replicates"]),
    ]


def _beside(one: Found, cells: Sequence[Found]) -> list[str]:
    """A row of rivals, after the package's own fit of the same samples."""
    ours = [c for c in cells if name_of(c) == name_of(one)]
    own = "-"
    if ours:
        least = lowest(ours[0])
        own = _short(
            ours[0]["slopes"],
            None if least is None else least["asked"],
            ours[0]["length"],
            ours[0]["length_max"],
        )
    methods = [one["methods"][name] for name in RIVALS]
    rivals = [_short(m["asked"], m["asked_min"], m["length"], m["length_max"]) for m in methods]
    return [one["design"], budget_words(one["budget"]), own, *rivals, str(one["replicates"])]


def _short(
    asked: float | None, least: float | None, length: float | None, longest: float | None
) -> str:
    parts = (form(asked, ".2f"), form(least, ".2f"), form(length, ".2f"), form(longest, ".1f"))
    return " / ".join(parts)
