"""Forecasts held against the studies: ``python -m studies.forecast``; no data are needed.

A forecast is told means, deviations and shares of the columns and of the outcome, and nothing else.
These are in ``results/facts.json`` of each study, with standard errors without noise; ``--data
FOLDER`` makes those files anew.  What is found is written to ``results/forecast.json`` beside them:
the ranges that forecasts print rest on it.  Not private.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dpinfer as dp
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Category, Column, Number, Outcome
from studies.asked import BUDGETS, Z95, Whole, budget
from studies.common import write
from studies.geometry.cell import whole as logistic
from studies.linear.cell import whole as squares

OFTEN = 0.5  # of the replicates: a coefficient that is reported less is not compared
_REST = "the reference"


@dataclass(frozen=True)
class Study:
    """A study with the real designs that forecasts are held against, and how each is loaded."""

    name: str
    designs: tuple[str, ...]
    whole: Callable[[str, Path], Whole]

    @property
    def results(self) -> Path:
        """Its folder."""
        return Path("studies") / self.name / "results"

    @property
    def facts(self) -> dict[str, Any]:
        """What is told of each design."""
        told: dict[str, Any] = read(self.results / "facts.json")
        return told

    def cell(self, design: str, budget_name: str) -> dict[str, Any]:
        """What the study found with the usual options of a fit."""
        found = read(self.results / f"{self.name}.json")
        usual = {"target": "asked", "tail": "balanced", "neighbours": "replace"}
        asked = {"design": design, "budget": budget_name}
        (cell,) = (
            cell
            for cell in (found["cells"] if isinstance(found, dict) else found)
            if {key: cell.get(key, usual.get(key)) for key in (*usual, *asked)} == usual | asked
        )
        return dict(cell)


LOGISTIC = Study(
    "geometry", ("rand", "adult_s", "bank_s", "adult", "bank", "acs_s", "acs"), logistic
)
SQUARES = Study(
    "linear",
    (
        "rand_log",
        "rand_mdvis",
        "adult_s",
        "adult_f",
        "acs_log",
        "acs_inc",
        "bank_age",
        "br_hours",
        "bank_bal",
    ),
    squares,
)
STUDIES = (LOGISTIC, SQUARES)


def read(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def facts(study: Study, design: str, folder: Path) -> dict[str, Any]:
    """What is told of a design, with six digits, and standard errors without noise."""
    at = study.whole(design, folder)
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
        "outcome": _outcome(at),
        "numbers": numbers,
        "answers": answers,
        "levels": levels,
        "std_error": dict(zip(public.names, map(_digits, errors), strict=True)),
    }


def _outcome(at: Whole) -> float | list[float]:
    """The share of the second level; or low, high, mean and deviation of a number."""
    labels = at.data.labels
    if not at.squares:
        return _digits((labels > 0).mean())
    scale = at.data.design.outcome
    middle, half = scale.centre, scale.half
    moments = [_digits(middle + half * labels.mean()), _digits(half * labels.std())]
    return [middle - half, middle + half, *moments]


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def question(told: dict[str, Any]) -> tuple[str, dp.Schema]:
    """The formula of a design, and a schema that says what is typical."""
    columns: dict[str, Column] = {}
    typical: dict[str, Any] = {}
    if isinstance(told["outcome"], float):
        columns["outcome"] = Outcome("outcome", (False, True))
        typical["outcome"] = {"true": told["outcome"]}
    else:
        low, high, mean, sd = told["outcome"]
        columns["outcome"] = Outcome("outcome", low=low, high=high)
        typical["outcome"] = {"mean": mean, "sd": sd}
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
    study: Study, design: str, budgets: Sequence[str], replicates: int
) -> list[dict[str, Any]]:
    """For each budget what forecast and study say of every coefficient.

    ``times`` is the length that the study found over the one forecast, without a number where fewer
    than half of the fits of either print the line.  ``printed`` and ``forecast`` are the shares of fits that print it.
    """
    told = study.facts[design]
    formula, schema = question(told)
    found = dp.simulate.forecast(
        formula,
        schema=schema,
        records=told["records"],
        budgets=[budget(name) for name in budgets],
        replicates=replicates,
    )
    rows = []
    for b, name in enumerate(budgets):
        seen = study.cell(design, name)["coefficients"]
        # a forecast has its yes/no columns elsewhere
        places = [found.names.index(column) for column in seen["names"]]
        half_width = found.half_width[b, places]
        reported = found.reported[b, places]
        ratio = np.array(seen["ratio"], dtype=float)
        often = (np.array(seen["printed"]) >= OFTEN) & (reported >= OFTEN)
        length = ratio * Z95 * np.array([told["std_error"][column] for column in seen["names"]])
        rows.append(
            {
                "design": design,
                "budget": name,
                "times": _where(often, length / half_width),
                "printed": seen["printed"],
                "forecast": reported.tolist(),
            }
        )
    return rows


def _where(often: npt.NDArray[np.bool_], values: Array) -> list[float | None]:
    return [
        round(float(value), 4) if kept else None for kept, value in zip(often, values, strict=True)
    ]


def lengths(rows: Iterable[dict[str, Any]]) -> Array:
    """All lengths over those forecast."""
    return np.array([times for row in rows for times in row["times"] if times is not None])


def printed(rows: Iterable[dict[str, Any]]) -> tuple[Array, Array]:
    """Of all lines, the shares of fits that print them, in the study and in the forecast."""
    kept = list(rows)
    return (
        np.concatenate([row["printed"] for row in kept]),
        np.concatenate([row["forecast"] for row in kept]),
    )


def main() -> None:
    """Make the facts, where there are data, and the comparison."""
    parser = argparse.ArgumentParser(prog="python -m studies.forecast", description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="folder of the data files, to make the facts anew"
    )
    parser.add_argument("--replicates", type=int, default=10)
    chosen = parser.parse_args()
    for study in STUDIES:
        if chosen.data is not None:
            told = {design: facts(study, design, chosen.data) for design in study.designs}
            write(study.results / "facts.json", json.dumps(told, indent=1) + "\n")
        rows = []
        for design in study.designs:
            for row in compare(study, design, BUDGETS, chosen.replicates):
                rows.append(row)
                times = lengths([row])
                spread = "none in common"
                if len(times):
                    spread = f"{np.median(times):.2f} ({times.min():.2f} to {times.max():.2f})"
                shares = f"{np.mean(row['printed']):.2f}, {np.mean(row['forecast']):.2f}"
                print(
                    f"{study.name:8} {design:10} {row['budget']:8} {spread}  {shares}", flush=True
                )
        lines = ",\n".join(json.dumps(row) for row in rows)
        write(study.results / "forecast.json", f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
