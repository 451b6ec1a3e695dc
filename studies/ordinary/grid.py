"""Which populations, links, numbers of records and budgets are run."""

from dataclasses import replace

from studies.ordinary.populations import LINKS, OUTCOMES, Cell

BUDGETS = ("0.3,1e-6", "1,1e-6", "3,1e-6", "0.1")
_ALL_LINKS = (
    "plain", "skewed", "curved_log", "curved_step", "heavy", "levels12", "interaction", "curve",
    "collinear90", "collinear99", "strong", "persons",
)  # fmt: skip
_COUNTS_OF_EVENTS = ("half_rare", "tenth_rare", "fifth_rare")
_EVENTS = {"half_rare": 20_000, "tenth_rare": 20_000, "fifth_rare": 40_000}
_SOME_LINKS = (
    "rare", "costs", "zero_inflated", "heteroscedastic", "heavy_errors", "skewed_errors", "visits",
    "family", "group_tails",
)  # fmt: skip


def _main(budget: str) -> list[Cell]:
    cells = [Cell(name, link, budget=budget) for name in _ALL_LINKS for link in LINKS]
    cells += [Cell(name, "poisson", _EVENTS[name], budget) for name in _COUNTS_OF_EVENTS]
    cells += [
        Cell(name, link, budget=budget)
        for name in _SOME_LINKS
        for link in LINKS
        if link in OUTCOMES[name]
    ]
    cells += [Cell("explained", "linear", budget=budget)]
    cells += [Cell("levels30", link, 50_000, budget) for link in LINKS]
    cells += [Cell("many", link, 100_000, budget) for link in LINKS]
    return cells


GRIDS: dict[str, list[Cell]] = {
    "main": _main("1,1e-6"),
    "fresh": [replace(cell, draw=1) for cell in _main("1,1e-6")],
    "budgets": [cell for budget in BUDGETS if budget != "1,1e-6" for cell in _main(budget)],
    "consistency": [
        Cell(name, link, n)
        for name in ("curved_log", "curved_step")
        for link in LINKS
        for n in (20_000, 100_000)
    ],
    "million": [
        Cell(name, link, 1_000_000) for name in ("curved_log", "curved_step") for link in LINKS
    ],
    "wide": [
        Cell(name, link, wide=wide)
        for name in ("plain", "skewed")
        for link in LINKS
        for wide in (3.0, 10.0, 100.0)
    ],
    "small": [
        Cell(name, link, n)
        for name in ("plain", "skewed")
        for link in LINKS
        for n in (1_000, 5_000)
    ],
    "adjacency": [
        Cell(name, link, adjacency="add-remove")
        for name in ("plain", "curved_log", "levels12")
        for link in LINKS
    ],
}
