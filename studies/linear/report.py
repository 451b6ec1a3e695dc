"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from studies.common import plain, seldom, smallest
from studies.linear.cell import Cell
from studies.linear.designs import HELD_OUT, REAL, SYNTHETIC, TUNING, load
from studies.linear.rivals import RIVALS

BUDGETS = ("0.005", "0.0175", "approx", "0.05", "0.1875", "0.5")
"""By their size: (1, 1e-6) is rho = .028."""
Found = dict[str, Any]
_HEAD = (
    "design", "n", "d", "budget", "stated avg / min", "OLS slopes avg / min", "OLS level", "full OLS",
    "length med / max", "set aside (in the model)", "seldom", "clipped", "down-weighted", "band / sd", "replicates",
    "prototype",
)  # fmt: skip


def summarise(cell: Cell, found: list[Found], folder: Path) -> Found:
    """Averages over all reported intervals; extremes over coefficients reported in half of the replicates or more."""
    data = load(cell.design, folder)
    arrays = {key: np.array([one[key] for one in found], dtype=float) for key in found[0]}
    often = arrays["reported"].mean(axis=0) >= 0.5
    slopes = often & (np.arange(len(often)) > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        by_coefficient = {key: np.nanmean(arrays[key], axis=0) for key in ("stated", "ordinary", "z")}
        length = np.nanmedian(arrays["ratio"], axis=0)
        summary = {
            "stated": np.nanmean(arrays["stated"]),
            "stated_min": smallest(by_coefficient["stated"][often]),
            "ordinary": np.nanmean(arrays["ordinary"][:, 1:]),
            "ordinary_min": smallest(by_coefficient["ordinary"][slopes]),
            "level": by_coefficient["ordinary"][0],
            "full": np.nanmean(arrays["full"][:, 1:]),
            "length": np.nanmedian(length[slopes]),
            "length_max": -smallest(-length[slopes]),
            "aside": 1 - arrays["reported"].mean(),
            "silent": (arrays["in_model"] - arrays["reported"]).mean(),
            **{key: arrays[key].mean() for key in ("clipped", "down_weighted", "band")},
        }
    columns = {
        "names": list(data.design.names),
        "coverage": by_coefficient["stated"],
        "ordinary": by_coefficient["ordinary"],
        "z": by_coefficient["z"],
        "ratio": length,
        "reported": arrays["reported"].mean(axis=0),
    }
    rounded = {key: plain(value) for key, value in summary.items()}
    facts = {"n": len(data.labels), "d": len(data.design.names), "replicates": len(found)}
    return {**asdict(cell), **facts, **rounded, "coefficients": {key: plain(value) for key, value in columns.items()}}


def compare(cell: Cell, found: list[Found]) -> Found:
    """The same of the rivals, for slopes; ``failed`` is the share of replicates without an answer."""
    methods = {name: _rival([one[name] for one in found]) for name in RIVALS}
    return {"design": cell.design, "budget": cell.budget, "replicates": len(found), "methods": methods}


def _rival(found: list[Found]) -> Found:
    covered, ratio = (np.array([one[key] for one in found], dtype=float) for key in ("covered", "ratio"))
    failed = np.isnan(covered).all(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        coverage, length = np.nanmean(covered, axis=0), np.nanmedian(ratio, axis=0)
        summary = {
            "ordinary": np.nanmean(covered),
            "ordinary_min": smallest(coverage),
            "length": np.nanmedian(length),
            "length_max": -smallest(-length),
            "failed": failed.mean(),
        }
    return {key: plain(value) for key, value in summary.items()}


def name_of(cell: Found) -> str:
    """As `Cell.name`."""
    return "-".join(cell[key] for key in ("design", "budget", "target", "tail", "neighbours"))


def ordered(cells: list[Found]) -> list[Found]:
    """Designs and budgets in the order of the page."""
    designs = [*REAL, *SYNTHETIC]
    return sorted(cells, key=lambda c: (designs.index(c["design"]), BUDGETS.index(c["budget"])))


def results(cells: list[Found], rivals: list[Found]) -> str:
    """One file, one line a cell."""
    parts = (
        f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in ordered(some)) + "\n]"
        for name, some in (("cells", cells), ("rivals", rivals))
    )
    return "{" + ",\n".join(parts) + "}\n"


def page(found: dict[str, list[Found]]) -> str:
    """All cells, in a table a kind."""
    words = Path(__file__).with_name("words.md").read_text(encoding="utf-8")
    parts = [words]
    for title, wanted in _SECTIONS.items():
        some = [cell for cell in found["cells"] if wanted(cell)]
        if some:
            parts.append(_table(title, _HEAD, [_line(cell) for cell in some]))
    if found["rivals"]:
        head = ("design", "budget", "dpinfer", *RIVALS, "replicates")
        parts.append(_table("Rivals", head, [_beside(one, found["cells"]) for one in found["rivals"]]))
    return "\n".join(parts)


def _usual(cell: Found) -> bool:
    return (cell["target"], cell["tail"], cell["neighbours"]) == ("mean", "balanced", "replace")


_SECTIONS: dict[str, Callable[[Found], bool]] = {
    "Real data used while tuning": lambda c: _usual(c) and c["design"] in TUNING,
    "Real data held out": lambda c: _usual(c) and c["design"] in HELD_OUT,
    "Synthetic data": lambda c: _usual(c) and c["design"] in SYNTHETIC,
    "Neighbours by adding or removing a record": lambda c: c["neighbours"] == "add-remove",
    "target='robust'": lambda c: c["target"] == "robust",
    "tail='cautious'": lambda c: c["tail"] == "cautious",
    "tail='all'": lambda c: c["tail"] == "all",
}


def _table(title: str, head: Sequence[str], lines: list[list[str]]) -> str:
    rows = [list(head), ["---" for _ in head], *lines]
    return f"## {title}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _form(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _budget(text: str) -> str:
    return text.replace("approx", "(1, 1e-6)")


def _line(c: Found) -> list[str]:
    return [
        c["design"], str(c["n"]), str(c["d"]), _budget(c["budget"]),
        f"{_form(c['stated'], '.3f')} / {_form(c['stated_min'], '.2f')}",
        f"{_form(c['ordinary'], '.3f')} / {_form(c['ordinary_min'], '.2f')}",
        _form(c["level"], ".2f"), _form(c["full"], ".2f"),
        f"{_form(c['length'], '.2f')} / {_form(c['length_max'], '.1f')}",
        f"{_form(c['aside'], '.0%')} ({_form(c['silent'], '.0%')})",
        _form(seldom(c), ".2f"), _form(c["clipped"], ".2%"), _form(c["down_weighted"], ".1%"), _form(c["band"], ".1f"),
        str(c["replicates"]), _prototype(c),
    ]  # fmt: skip


PROTOTYPE: dict[str, list[float | None]] = json.loads(
    Path(__file__).with_name("prototype.json").read_text(encoding="utf-8")
)
"""Stated coverage, OLS coverage of slopes, median length, share set aside of the research code, by cell."""


def _prototype(cell: Found) -> str:
    found = PROTOTYPE.get(name_of(cell))
    forms = (".3f", ".3f", ".2f", ".0%")
    return "" if found is None else ", ".join(map(_form, found, forms))


def _beside(one: Found, cells: list[Found]) -> list[str]:
    """A row of rivals, after the package's own fit of the same samples."""
    ours = [c for c in cells if _usual(c) and (c["design"], c["budget"]) == (one["design"], one["budget"])]
    own = _short(ours[0], "aside", "aside") if ours else "-"
    rivals = [_short(one["methods"][name], "failed", "fail") for name in RIVALS]
    return [one["design"], _budget(one["budget"]), own, *rivals, str(one["replicates"])]


def _short(c: Found, share: str, word: str) -> str:
    if c["ordinary"] is None:
        return f"all {word}"
    lost = f", {c[share]:.0%} {word}" if c[share] >= 0.005 else ""
    return f"{c['ordinary']:.2f} / {c['length']:.2f} / {c['length_max']:.1f}{lost}"
