"""Forecasts held against the study: ``python -m studies.geometry.forecast``; no data are needed.

A forecast is told means, deviations and shares of the columns and the share of the outcome, and
nothing else.  These are in ``results/facts.json``, with standard errors without noise; ``--data
FOLDER`` makes that file anew.  Not private.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.schema.columns import Category, Column, Number, Outcome
from studies.asked import BUDGETS, Z95
from studies.common import write
from studies.geometry.cell import Cell, whole

DESIGNS = ("rand", "adult_s", "acs_s")
RESULTS = Path("studies/geometry/results")
OFTEN = 0.5  # of the replicates: a coefficient that is reported less is not compared
_REST = "the reference"


def facts(design: str, folder: Path) -> dict[str, Any]:
    """What is told of a design, with six digits, and standard errors without noise."""
    at = whole(design, folder)
    data = at.data
    public = data.design
    means = data.x.mean(axis=0)
    deviations = data.x.std(axis=0)
    numbers: dict[str, list[float]] = {}
    answers: dict[str, float] = {}
    levels: dict[str, float] = {}
    yes_no = (
        np.zeros(len(means), dtype=bool) if public.columns.yes_no is None else public.columns.yes_no
    )
    for j, name in enumerate(public.names[1:], 1):
        middle, half = public.middle[j], public.half[j]
        if public.columns.dummy[j]:
            levels[name] = _digits(means[j])
        elif yes_no[j]:
            answers[name] = _digits(middle + half * means[j])
        else:
            moments = [_digits(middle + half * means[j]), _digits(half * deviations[j])]
            numbers[name] = [float(middle - half), float(middle + half), *moments]
    errors = at.asked.in_units(public, (public.middle + public.half * means)[1:]).std_error
    return {
        "records": len(data.labels),
        "outcome": _digits((data.labels > 0).mean()),
        "numbers": numbers,
        "answers": answers,
        "levels": levels,
        "std_error": dict(zip(public.names, map(_digits, errors), strict=True)),
    }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def question(told: dict[str, Any]) -> tuple[str, dp.Schema]:
    """The formula of a design, and a schema that says what is typical."""
    columns: dict[str, Column] = {"outcome": Outcome("outcome", (False, True))}
    typical: dict[str, Any] = {"outcome": {"true": told["outcome"]}}
    for name, (low, high, mean, sd) in told["numbers"].items():
        columns[name] = Number(name, low, high)
        typical[name] = {"mean": mean, "sd": sd}
    for name, share in told["answers"].items():
        columns[name] = Number(name, 0.0, 1.0, kind="boolean")
        typical[name] = {"true": share}
    for level, share in told["levels"].items():
        name, _, last = level.removesuffix("]").partition("[")
        typical.setdefault(name, {})[last] = share
        columns[name] = Category(name, (_REST, *typical[name]), _REST)
    terms = " + ".join(f"`{name}`" for name in columns if name != "outcome")
    return f"outcome ~ {terms}", dp.Schema(columns).guess(typical)


def compare(
    design: str, budgets: Sequence[str], replicates: int, results: Path = RESULTS
) -> list[dict[str, Any]]:
    """For each budget quotients of forecast and study, over the coefficients that both print often.

    ``over_plain`` is that of the medians of length over length without noise, the study's own
    measure; ``length`` the median of quotients of lengths in original units, ``low`` and ``high``
    the extreme ones.
    """
    told = json.loads((results / "facts.json").read_text(encoding="utf-8"))[design]
    study = json.loads((results / "geometry.json").read_text(encoding="utf-8"))
    formula, schema = question(told)
    asked = [Cell(design, budget).plan.budget for budget in budgets]
    found = dp.simulate.forecast(
        formula, schema=schema, records=told["records"], budgets=asked, replicates=replicates
    )
    rows = []
    for b, budget in enumerate(budgets):
        asked_for = [design, budget, "replace"]
        (cell,) = (c for c in study if [c["design"], c["budget"], c["neighbours"]] == asked_for)
        seen = cell["coefficients"]
        places = [
            found.names.index(name) for name in seen["names"]
        ]  # a forecast has its yes/no columns elsewhere
        half_width = found.half_width[b, places]
        reported = found.reported[b, places]
        ratio = np.array(seen["ratio"], dtype=float)
        often = (np.array(seen["printed"]) >= OFTEN) & (reported >= OFTEN)
        length = ratio * Z95 * np.array([told["std_error"][name] for name in seen["names"]])
        quotients = (half_width / length)[often]
        over_plain = (half_width / found.nonprivate[b, places])[often]
        rows.append(
            {
                "design": design,
                "budget": budget,
                "over_plain": float(np.median(over_plain) / np.median(ratio[often])),
                "length": float(np.median(quotients)),
                "low": float(quotients.min()),
                "high": float(quotients.max()),
                "reported": (float(np.mean(seen["printed"])), float(reported.mean())),
            }
        )
    return rows


def main() -> None:
    """Make the facts, where there are data, and print the comparison."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.geometry.forecast", description=__doc__
    )
    parser.add_argument(
        "--data", type=Path, help="folder of the data files, to make the facts anew"
    )
    parser.add_argument("--replicates", type=int, default=20)
    chosen = parser.parse_args()
    if chosen.data is not None:
        found = {design: facts(design, chosen.data) for design in DESIGNS}
        write(RESULTS / "facts.json", json.dumps(found, indent=1) + "\n")
    print(
        "forecast over study: length over plain length; length (lowest, highest); share printed by study, forecast"
    )
    for design in DESIGNS:
        for row in compare(design, BUDGETS, chosen.replicates):
            length = f"{row['length']:.2f} ({row['low']:.2f}, {row['high']:.2f})"
            study, forecast = row["reported"]
            print(
                f"{design:8} {row['budget']:7} {row['over_plain']:.2f}  {length}  {study:.2f}, {forecast:.2f}"
            )


if __name__ == "__main__":
    main()
