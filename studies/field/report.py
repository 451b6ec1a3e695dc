"""From replicates to the numbers of a cell, and from cells to a page and its figure."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from studies.asked import Found, budget_words, form
from studies.common import plain, smallest
from studies.field.designs import NAMES
from studies.field.methods import METHODS, OLS, OURS, Cell

BUDGETS = ("1,1e-6", "3,1e-6", "0.1")
NOMINAL = 0.93
"""The smallest mean coverage that the figure draws as covering: .95 less the error of 200 replicates."""
_HEAD = (
    "method", "coverage", "lowest", "length", "longest", "reported", "error", "ms"
)  # fmt: skip
_COLOURS = {
    OURS: "#0b6e4f",
    "SSP": "#7a7a7a",
    "AdaSSP": "#7a7a7a",
    "SSP textbook": "#7a7a7a",
}
_LABELS = {
    OURS: OURS,
    "SSP": "noisy moments (SSP)",
    "AdaSSP": "AdaSSP",
    "SSP textbook": "SSP, noise not counted",
}
_MARKERS = {OURS: "o", "SSP": "s", "AdaSSP": "D", "SSP textbook": "v"}


def summarise(cell: Cell, found: Sequence[Found], records: int) -> Found:
    """Return the numbers of a cell, by method."""
    names = [name for name in METHODS if name in found[0]]
    methods = {name: _method([one[name] for one in found]) for name in names}
    return {
        "design": cell.design,
        "budget": cell.budget,
        "records": records,
        "replicates": len(found),
        "methods": methods,
    }


def _method(found: Sequence[Found]) -> Found:
    """Return the numbers of one method: over slopes that it reports, medians of lengths over replicates."""
    covered, ratio, off = (
        np.array([one[key] for one in found], dtype=float) for key in ("covered", "ratio", "off")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        length = np.nanmedian(ratio, axis=0)
        numbers = {
            "coverage": np.nanmean(covered),
            "lowest": smallest(np.nanmean(covered, axis=0)),
            "length": np.nanmedian(length),
            "longest": -smallest(-length),
            "reported": np.isfinite(covered).mean(),
            "error": np.nanmedian(off),
            "ms": 1000 * float(np.median([one["seconds"] for one in found])),
        }
    return {key: plain(value) for key, value in numbers.items()}


def ordered(cells: Sequence[Found]) -> list[Found]:
    """Return the cells in the order of the page."""
    designs = list(NAMES)
    return sorted(
        cells, key=lambda cell: (designs.index(cell["design"]), BUDGETS.index(cell["budget"]))
    )


def results(cells: Sequence[Found]) -> str:
    """Return all cells as one file, one line each."""
    return "[\n" + ",\n".join(json.dumps(cell) for cell in ordered(cells)) + "\n]\n"


def page(cells: Sequence[Found]) -> str:
    """Return the page of the study."""
    words = Path(__file__).with_name("words.md").read_text(encoding="utf-8").rstrip()
    before, heading, after = words.partition("## The methods")
    parts = [before.rstrip(), findings(cells), heading + after]
    for design, name in NAMES.items():
        mine = [cell for cell in cells if cell["design"] == design]
        if mine:
            parts.append(f"## {name}: {mine[0]['records']:,} records")
        for cell in mine:
            count = f"{cell['replicates']} replicates"
            parts.append(f"### {name}, {budget_words(cell['budget'])}, {count}")
            parts.append(_table(cell))
    return "\n\n".join(parts) + "\n"


def findings(cells: Sequence[Found]) -> str:
    """Return what the cells say, as sentences with their numbers."""
    lines = ["## What was found\n"]
    for budget in BUDGETS:
        mine = [cell["methods"] for cell in cells if cell["budget"] == budget]
        ours = [of[OURS] for of in mine]
        lines.append(
            f"- At {budget_words(budget)} the intervals of dpinfer are {_span(ours, 'length', '.2f')} times as long as "
            f"those of OLS without privacy, and cover {_span(ours, 'coverage', '.2f')}; those of SSP are "
            f"{_span([of['SSP'] for of in mine], 'length', '.1f')} times as long, and those of AdaSSP "
            f"{_span([of['AdaSSP'] for of in mine], 'length', '.1f')} times."
        )
    textbook = [cell["methods"]["SSP textbook"] for cell in cells]
    ridge = [cell["methods"]["AdaSSP"] for cell in cells if cell["design"] == "bank_age"]
    lines.append(
        f"- The textbook interval of noisy moments covers {_span(textbook, 'coverage', '.2f')}: an interval "
        "that does not count the noise is wrong."
    )
    if ridge:
        lines.append(
            f"- AdaSSP covers {_span(ridge, 'coverage', '.2f')} on the Bank data: no standard error holds the "
            "bias of a ridge."
        )
    return "\n".join(lines)


def _span(found: Sequence[Found], key: str, digits: str) -> str:
    """Return the range of a number over cells."""
    low, high = (form(end([one[key] for one in found]), digits) for end in (min, max))
    return low if low == high else f"{low} to {high}"


def _table(cell: Found) -> str:
    rows = ["| " + " | ".join(_HEAD) + " |", "| --- " * len(_HEAD) + "|"]
    for name, of in cell["methods"].items():
        cells = [
            name,
            form(of["coverage"], ".3f"),
            form(of["lowest"], ".2f"),
            form(of["length"], ".2f"),
            form(of["longest"], ".1f"),
            form(of["reported"], ".0%"),
            form(of["error"], ".2f") if of["error"] is None or of["error"] < 100 else "> 100",
            form(of["ms"], ".0f"),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def draw(cells: Sequence[Found], path: Path, budget: str = "1,1e-6") -> None:
    """Draw the median length of each method over that of OLS, one row per data set."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (slow to load)

    mine = [cell for cell in cells if cell["budget"] == budget]
    figure = Figure(figsize=(8.0, 3.4), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.axvline(1.0, color="#333333", linewidth=1.0)
    labelled = set()
    for row, cell in enumerate(reversed(mine)):
        axes.axhline(row, color="#e4e4e4", linewidth=0.8, zorder=0)
        for name, colour in _COLOURS.items():
            of = cell["methods"].get(name)
            if of is None or of["length"] is None:
                continue
            covers = of["coverage"] >= NOMINAL
            axes.plot(
                of["length"],
                row,
                marker=_MARKERS[name],
                color=colour,
                markerfacecolor=colour if covers else "white",
                markersize=10 if name == OURS else 7,
                linestyle="none",
                label="_" if name in labelled else _LABELS[name],
                zorder=3 if name == OURS else 2,
            )
            labelled.add(name)
            if name != OURS and covers:
                continue
            axes.annotate(
                f"{of['length']:.2f}×" if name == OURS else f"covers {of['coverage']:.0%}",
                (of["length"], row),
                xytext=(0, 9 if name == OURS else -14),
                textcoords="offset points",
                ha="center",
                fontsize=9 if name == OURS else 7,
                color=colour,
                fontweight="bold" if name == OURS else "normal",
            )
    axes.set_xscale("log")
    ticks = [1, 2, 5, 10, 20]
    axes.set_xticks(ticks, [f"{tick}×" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0.8, 25)
    axes.set_ylim(-0.6, len(mine) - 0.3)
    axes.set_yticks(range(len(mine)), [NAMES[cell["design"]] for cell in reversed(mine)])
    axes.tick_params(left=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(
        "length of a 95 % interval over that of OLS without privacy; hollow: covers less than 95 %"
    )
    axes.set_title("ε = 1, δ = 10⁻⁶: what privacy adds to an interval", loc="left", fontsize=11)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def headline(cells: Sequence[Found]) -> str:
    """Return one line per cell for the screen: coverage and length of each method."""
    lines = []
    for cell in ordered(cells):
        words = [
            f"{name} {form(of['coverage'], '.2f')} {form(of['length'], '.2f')}"
            for name, of in cell["methods"].items()
            if name != OLS
        ]
        lines.append(f"{cell['design']} {cell['budget']}: " + ", ".join(words))
    return "\n".join(lines)
