"""From replicates to the numbers of a cell, and from cells to one page."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from studies.common import plain, seldom, smallest
from studies.units.cell import GROUP, Cell
from studies.units.designs import BINARY, NUMERIC, load
from studies.units.survey import NAMES, PERSONS, ROWS, SIZE, Survey

BUDGETS = ("0.0175", "approx", "0.05", "0.1875", "0.5", "1")
"""By their size: (1, 1e-6) is rho = .028."""
Found = dict[str, Any]
_HEAD = (
    "design", "persons", "d", "budget", "coverage avg / min", "stated avg / min", "average row avg / min",
    "length med / max", "not reported", "seldom", "down-weighted", "replicates",
)  # fmt: skip
_SURVEY_HEAD = (
    "design", "budget", "weights", "population avg / min", "without noise avg / min", "length med / max",
    "not reported", "replicates",
)  # fmt: skip
_ORDER = (*BINARY, *NUMERIC, ROWS, PERSONS)


def summarise(cell: Cell, found: list[Found], folder: Path) -> Found:
    """Averages over all reported intervals; extremes over coefficients reported in half of the
    replicates or more.
    """
    data = load(cell.design, folder)
    summary = _summary(found, ("asked", "stated", "rows"))
    facts = {"units": int(data.units.max()) + 1, "rows_of_all": len(data.units), "most": data.most}
    return {**asdict(cell), **facts, **_columns(found, data.design.names), **summary}


def of_survey(cell: Survey, found: list[Found]) -> Found:
    """The same for sampling weights: "asked" are the coefficients of the population, "plain" a fit
    without noise.
    """
    return {
        **asdict(cell),
        "units": SIZE,
        **_columns(found, NAMES),
        **_summary(found, ("asked", "plain")),
    }


def _arrays(found: list[Found]) -> dict[str, Any]:
    return {key: np.array([one[key] for one in found], dtype=float) for key in found[0]}


def _summary(found: list[Found], targets: Sequence[str]) -> Found:
    arrays = _arrays(found)
    often = arrays["reported"].mean(axis=0) >= 0.5
    summary: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        for key in targets:
            summary[key] = np.nanmean(arrays[key])
            summary[f"{key}_min"] = smallest(np.nanmean(arrays[key], axis=0)[often])
        length = np.nanmedian(arrays["ratio"], axis=0)[often]
        summary |= {
            "length": np.nanmedian(length),
            "length_max": -smallest(-length),
            "open": 1 - arrays["reported"].mean(),
        }
        if "down_weighted" in arrays:
            summary["down_weighted"] = arrays["down_weighted"].mean()
    return {key: plain(value) for key, value in summary.items()}


def _columns(found: list[Found], names: Sequence[str]) -> Found:
    arrays = _arrays(found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        columns = {
            "names": list(names),
            "coverage": np.nanmean(arrays["asked"], axis=0),
            "z": np.nanmean(arrays["z"], axis=0),
            "ratio": np.nanmedian(arrays["ratio"], axis=0),
            "reported": arrays["reported"].mean(axis=0),
        }
    kept = {key: plain(value) for key, value in columns.items()}
    return {"d": len(names), "replicates": len(found), "coefficients": kept}


def name_of(cell: Found) -> str:
    """A name for a cell."""
    return f"{cell['design']}-{cell['budget']}-{cell['method']}"


def results(cells: list[Found], surveys: list[Found]) -> str:
    """One file, one line a cell, in the order of the page."""

    def place(c: Found) -> tuple[int, int, str]:
        return _ORDER.index(c["design"]), BUDGETS.index(c["budget"]), c["method"]

    parts = (
        f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in sorted(some, key=place)) + "\n]"
        for name, some in (("cells", cells), ("surveys", surveys))
    )
    return "{" + ",\n".join(parts) + "}\n"


_SECTIONS: dict[str, Callable[[Found], bool]] = {
    "The average person, logistic regression": lambda c: (
        c["design"] in BINARY and c["method"] == "1"
    ),
    "Equal weights of up to three rows of a person": lambda c: c["method"] == "3",
    "Group privacy": lambda c: c["method"] == GROUP,
    "The average person, least squares": lambda c: c["design"] in NUMERIC,
}


def page(found: dict[str, list[Found]]) -> str:
    """All cells, in a table a kind."""
    parts = [Path(__file__).with_name("words.md").read_text(encoding="utf-8")]
    for title, wanted in _SECTIONS.items():
        some = [cell for cell in found["cells"] if wanted(cell)]
        if some:
            parts.append(_table(title, _HEAD, [_line(cell) for cell in some]))
    if not found["cells"]:
        parts.append("The study has not been run with the method of this version yet.\n")
    if found["surveys"]:
        parts.append(
            _table(
                "Sampling weights", _SURVEY_HEAD, [_survey_line(cell) for cell in found["surveys"]]
            )
        )
    return "\n".join(parts)


def _table(title: str, head: Sequence[str], lines: list[list[str]]) -> str:
    rows = [list(head), ["---" for _ in head], *lines]
    return f"## {title}\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _form(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _pair(c: Found, key: str) -> str:
    return f"{_form(c[key], '.3f')} / {_form(c[f'{key}_min'], '.2f')}"


def _budget(text: str) -> str:
    return text.replace("approx", "(1, 1e-6)")


def _length(c: Found) -> str:
    return f"{_form(c['length'], '.2f')} / {_form(c['length_max'], '.1f')}"


def _line(c: Found) -> list[str]:
    return [
        c["design"], str(c["units"]), str(c["d"]), _budget(c["budget"]), _pair(c, "asked"), _pair(c, "stated"),
        _pair(c, "rows"), _length(c), _form(c["open"], ".0%"), _form(seldom(c), ".2f"),
        _form(c["down_weighted"], ".1%"), str(c["replicates"]),
    ]  # fmt: skip


def _survey_line(c: Found) -> list[str]:
    return [
        c["design"], _budget(c["budget"]), "used" if c["method"] == "weights" else "ignored", _pair(c, "asked"),
        _pair(c, "plain"), _length(c), _form(c["open"], ".0%"), str(c["replicates"]),
    ]  # fmt: skip
