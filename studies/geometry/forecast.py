"""Forecasts held against the study: ``python -m studies.geometry.forecast``; no data are needed.

A forecast is told means, deviations and shares of the columns and the share of the outcome, and nothing else.  These
are in ``results/facts.json``, with standard errors without noise; ``--data FOLDER`` makes that file anew.  Not private.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.data.columns import Category, Column, Number, Outcome
from dpinfer.simulate.stated import to_units
from studies.common import write
from studies.geometry.cell import Cell, whole
from studies.geometry.designs import load

DESIGNS = ("rand", "adult_s", "acs_s")
BUDGETS = ("0.005", "0.0175", "0.05", "0.1875", "0.5", "2", "approx")
RESULTS = Path("studies/geometry/results")
OFTEN = 0.5  # of the replicates: a coefficient that is reported less is not compared
_REST = "the reference"


def facts(design: str, folder: Path) -> dict[str, Any]:
    """What is told of a design, with six digits, and standard errors without noise."""
    data, full = load(design, folder), whole(design, folder)
    public, means, deviations = data.design, data.x.mean(axis=0), data.x.std(axis=0)
    numbers, levels = {}, {}
    for j, name in enumerate(public.names[1:], 1):
        middle, half = public.middle[j], public.half[j]
        if public.columns.dummy[j]:
            levels[name] = _digits(means[j])
        else:
            moments = [_digits(middle + half * means[j]), _digits(half * deviations[j])]
            numbers[name] = [float(middle - half), float(middle + half), *moments]
    matrix = to_units(public, (public.middle + public.half * means)[1:])
    errors = np.sqrt(np.diag(matrix @ full.covariance @ matrix.T))
    return {
        "records": len(data.labels),
        "outcome": _digits((data.labels > 0).mean()),
        "numbers": numbers,
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
        columns[name], typical[name] = Number(name, low, high), {"mean": mean, "sd": sd}
    for level, share in told["levels"].items():
        name, _, last = level.removesuffix("]").partition("[")
        typical.setdefault(name, {})[last] = share
        columns[name] = Category(name, (_REST, *typical[name]), _REST)
    terms = " + ".join(f"`{name}`" for name in columns if name != "outcome")
    return f"outcome ~ {terms}", dp.Schema(columns).guess(typical)


def compare(design: str, budgets: Sequence[str], replicates: int, results: Path = RESULTS) -> list[dict[str, Any]]:
    """For each budget quotients of forecast and study, over the coefficients that both report often.

    ``over_plain`` is that of the medians of length over length without noise, the study's own measure; ``length`` the
    median of quotients of lengths in original units, ``low`` and ``high`` the extreme ones.
    """
    told = json.loads((results / "facts.json").read_text(encoding="utf-8"))[design]
    study = json.loads((results / "geometry.json").read_text(encoding="utf-8"))
    formula, schema = question(told)
    asked = [Cell(design, budget).plan.budget for budget in budgets]
    found = dp.simulate.forecast(formula, schema=schema, records=told["records"], budgets=asked, replicates=replicates)
    rows = []
    for b, budget in enumerate(budgets):
        names = ("design", "budget", "target", "neighbours")
        (cell,) = (c for c in study if [c[name] for name in names] == [design, budget, "weighted", "replace"])
        seen = cell["coefficients"]
        assert tuple(seen["names"]) == found.names
        ratio = np.array(seen["ratio"], dtype=float)
        often = (np.array(seen["reported"]) >= OFTEN) & (found.reported[b] >= OFTEN)
        length = ratio * 1.959964 * np.array(list(told["std_error"].values()))
        quotients = (found.half_width[b] / length)[often]
        over_plain = (found.half_width[b] / found.nonprivate[b])[often]
        rows.append(
            {
                "design": design,
                "budget": budget,
                "over_plain": float(np.median(over_plain) / np.median(ratio[often])),
                "length": float(np.median(quotients)),
                "low": float(quotients.min()),
                "high": float(quotients.max()),
                "reported": (float(np.mean(seen["reported"])), float(found.reported[b].mean())),
            }
        )
    return rows


def main() -> None:
    """Make the facts, where there are data, and print the comparison."""
    parser = argparse.ArgumentParser(prog="python -m studies.geometry.forecast", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data files, to make the facts anew")
    parser.add_argument("--replicates", type=int, default=20)
    chosen = parser.parse_args()
    if chosen.data is not None:
        found = {design: facts(design, chosen.data) for design in DESIGNS}
        write(RESULTS / "facts.json", json.dumps(found, indent=1) + "\n")
    print("forecast over study: length over plain length; length (lowest, highest); share reported by study, forecast")
    for design in DESIGNS:
        for row in compare(design, BUDGETS, chosen.replicates):
            length = f"{row['length']:.2f} ({row['low']:.2f}, {row['high']:.2f})"
            study, forecast = row["reported"]
            print(f"{design:8} {row['budget']:7} {row['over_plain']:.2f}  {length}  {study:.2f}, {forecast:.2f}")


if __name__ == "__main__":
    main()
