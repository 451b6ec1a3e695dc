"""The cells of the paper: one setting of one study each, from the printed tables and the panels of
the figures.

A `Chart` is a set of lines over one sweep: a panel of a figure, or the rows of one loss of a table.
Tables and figures share many cells; a cell is known by its key and computed once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dpinfer as dp
from studies.paper.data import Order

Line = tuple[str, str]
"""Privacy and mechanism: ("zCDP", "output")."""

PENALTY = 1e-3
HERE = Path(__file__).parent
LINES: tuple[Line, ...] = tuple((p, m) for p in ("DP", "zCDP") for m in ("objective", "output"))
LOSSES: dict[str, dp.Loss] = {"LR": dp.Logistic(), "SVM": dp.HuberHinge(1.0)}
MECHANISMS: dict[str, dp.ObjectivePerturbation | dp.OutputPerturbation] = {
    "objective": dp.ObjectivePerturbation("laplace"),
    "output": dp.OutputPerturbation(),
}

ROWS = {"us": 23_006}
"""The stand-in for IPUMS-US has fewer rows than the paper's 39,928: all of them are used."""

RAND_ROWS, RAND_TERMS = 20_190, 7


@dataclass(frozen=True)
class Cell:
    """One setting: data, model, privacy.  ``d`` counts features, or terms of the formula for
    ``rand_hie``.
    """

    data: str
    n: int
    d: int
    loss: str
    privacy: str
    mechanism: str
    epsilon1: float
    epsilon2: float
    epsilon3: float
    order: Order = "paper"

    @property
    def key(self) -> str:
        """A name that stays the same from run to run."""
        shares = "/".join(
            f"{epsilon:g}" for epsilon in (self.epsilon1, self.epsilon2, self.epsilon3)
        )
        return f"{self.data} n={self.n} d={self.d} {self.loss} {self.privacy} {self.mechanism} {shares} {self.order}"

    @property
    def rows(self) -> tuple[str, Order, int, int]:
        """Cells with the same rows need the data once."""
        return self.data, self.order, self.d, self.n

    def plan(self) -> dp.Plan:
        """The shares: ε for DP, ρ = ε²/2 for zCDP."""
        first, second, third = (
            self._share(epsilon) for epsilon in (self.epsilon1, self.epsilon2, self.epsilon3)
        )
        return dp.Plan(MECHANISMS[self.mechanism], first, second, third, recipe="paper")

    def released(self) -> "Cell":
        """The cell that stands for all with the same law of θ~, so the same variability interval.

        The shares of the matrices play no part, and objective perturbation with ρ = ε²/2 runs at ε.
        """
        privacy = "DP" if self.mechanism == "objective" else self.privacy
        return replace(self, privacy=privacy, epsilon2=0.25, epsilon3=0.25)

    def _share(self, epsilon: float) -> dp.PureDP | dp.ZCDP:
        return dp.PureDP(epsilon) if self.privacy == "DP" else dp.ZCDP(epsilon**2 / 2)


@dataclass(frozen=True, eq=False)
class Chart:
    """Lines over one sweep; ``printed`` holds the paper's coverages where it prints them."""

    name: str
    data: str
    shown_as: str
    loss: str
    fixed: Mapping[str, Any]
    parameter: str
    values: tuple[float, ...]
    lines: tuple[Line, ...]
    length_of: str = "mean"
    panel: str = ""
    printed: Mapping[Line, tuple[float, ...]] | None = None

    def cell(self, line: Line, value: float) -> Cell:
        """The cell at one value of the sweep."""
        chosen = {**self.fixed, self.parameter: value}
        n = min(int(chosen["n"]), ROWS.get(self.data, int(chosen["n"])))
        first, second, third = (float(chosen[f"epsilon{j}"]) for j in (1, 2, 3))
        return Cell(self.data, n, int(chosen["d"]), self.loss, *line, first, second, third)

    def cells(self) -> Iterator[Cell]:
        """Line by line."""
        return (self.cell(line, value) for line in self.lines for value in self.values)


def tables() -> list[Chart]:
    """The five coverage tables, two charts each: one a loss."""
    return [_table(entry, loss) for entry in _read("printed.json") for loss in LOSSES]


def panels() -> list[Chart]:
    """The 36 panels of the four figures."""
    return [
        Chart(
            name=entry["figure"],
            panel=entry["panel"],
            loss=entry["loss"],
            lines=tuple((line["privacy"], line["mechanism"]) for line in entry["lines"]),
            length_of=entry["length_of"],
            **_common(entry),
        )
        for entry in _read("panels.json")
    ]


def rand_tables() -> list[Chart]:
    """Beyond the paper: the same five sweeps for the bundled RAND data."""
    fixed = {"n": RAND_ROWS, "d": RAND_TERMS, "epsilon1": 0.5, "epsilon2": 0.25, "epsilon3": 0.25}
    tenths = tuple(j / 10 for j in range(1, 11))
    sweeps: dict[str, tuple[float, ...]] = {
        "n": (2_500, 5_000, 10_000, 15_000, RAND_ROWS),
        "d": tuple(range(1, RAND_TERMS + 1)),
        "epsilon1": tenths[2:],
        "epsilon2": tenths,
        "epsilon3": tenths,
    }
    return [
        Chart(f"rand-{parameter}", "rand_hie", "RAND HIE", loss, fixed, parameter, values, LINES)
        for parameter, values in sweeps.items()
        for loss in LOSSES
    ]


def other_order() -> list[tuple[Chart, Cell, Cell]]:
    """The middle of every table row with the columns selected first: (table, the paper's order, the
    other).
    """
    pairs = []
    for chart in tables():
        for line in chart.lines:
            cell = chart.cell(line, chart.values[len(chart.values) // 2])
            pairs.append((chart, cell, replace(cell, order="select-first")))
    return pairs


def fullest() -> list[tuple[Chart, Cell]]:
    """The last cell of every table and loss, with the paper's most rows and features; its noise
    does not matter.
    """
    return [(chart, chart.cell(LINES[0], chart.values[-1])) for chart in tables()]


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """Each cell once, those with the same rows together."""
    return sorted(
        {cell.key: cell for cell in cells}.values(), key=lambda cell: (*cell.rows, cell.key)
    )


def _table(entry: Mapping[str, Any], loss: str) -> Chart:
    rows = [row for row in entry["rows"] if row["loss"] == loss]
    printed = {(row["privacy"], row["mechanism"]): tuple(row["coverage"]) for row in rows}
    return Chart(
        name=entry["name"], loss=loss, lines=tuple(printed), printed=printed, **_common(entry)
    )


def _common(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "data": entry["data"],
        "shown_as": entry["data_in_paper"],
        "fixed": entry["fixed"],
        "parameter": entry["sweep"]["parameter"],
        "values": tuple(entry["sweep"]["values"]),
    }


def _read(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))
