"""The populations: tables drawn once, with public bounds as a careful user would write them.

Which of them were looked at when a rule was chosen, words.md says.  A population has a table, a
formula and the types of its columns; every link that its outcome suits is asked of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Column, Number, Outcome
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import ROW, Unit
from studies.geometry.designs import factor

Generator = np.random.Generator
LINKS = ("logistic", "linear", "poisson")
_MODELS = {
    "logistic": dp.LogisticRegression,
    "linear": dp.LinearRegression,
    "poisson": dp.PoissonRegression,
}


@dataclass(frozen=True, eq=False)
class Predictors:
    """Columns, the bounds of numbers, and the predictor that outcomes are drawn from."""

    table: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    predictor: Array
    factors: tuple[str, ...] = ()
    formula: str | None = None
    unit: Unit = ROW

    @property
    def terms(self) -> str:
        """The right side of the formula."""
        return self.formula or " + ".join((*self.bounds, *self.factors))


@dataclass(frozen=True)
class Cell:
    """A population, a link, a number of records and a budget; ``wide`` multiplies the width of the
    public bounds of every number, and ``draw`` is which table of the population.
    """

    population: str
    link: str
    n: int = 20_000
    budget: str = "1,1e-6"
    wide: float = 1.0
    adjacency: str = field(default="replace")
    draw: int = 0

    @property
    def name(self) -> str:
        """A file name."""
        wide = f"-wide{self.wide:g}" if self.wide != 1 else ""
        other = f"-{self.adjacency}" if self.adjacency != "replace" else ""
        draw = f"-draw{self.draw}" if self.draw else ""
        return f"{self.population}-{self.link}-{self.n}{wide}{other}{draw}-{self.budget}"


@lru_cache(maxsize=4)
def drawn(cell: Cell) -> tuple[pd.DataFrame, dp.LogisticRegression]:
    """The table of a cell and the model that is asked of it."""
    seed = [crc32(cell.population.encode()), cell.n]
    rng = np.random.default_rng([*seed, cell.draw] if cell.draw else seed)
    made = PREDICTORS[cell.population](rng, cell.n)
    draw = OUTCOMES.get(cell.population, {}).get(cell.link, _USUAL_OUTCOMES[cell.link])
    outcome, high = draw(made.predictor, rng)
    table = made.table.assign(outcome=outcome)
    columns: dict[str, Column] = {
        name: Number(name, *_widened(limits, cell.wide)) for name, limits in made.bounds.items()
    }
    columns |= {name: factor(table, name) for name in made.factors}
    columns["outcome"] = (
        Outcome("outcome", (False, True)) if high is None else Number("outcome", *high)
    )
    model = _MODELS[cell.link](
        f"outcome ~ {made.terms}",
        schema=Schema(columns, made.unit),
        budget=_budget(cell.budget),
        neighbours=cell.adjacency,
    )
    return table, model


def _budget(text: str) -> dp.ZCDP | dp.ApproxDP:
    epsilon, comma, delta = text.partition(",")
    return dp.ApproxDP(float(epsilon), float(delta)) if comma else dp.ZCDP(float(text))


def _widened(limits: tuple[float, float], wide: float) -> tuple[float, float]:
    """Wider on both sides or, where nothing is below 0, above alone."""
    low, high = limits
    if low >= 0:
        return low, low + wide * (high - low)
    middle, half = (low + high) / 2, (high - low) / 2
    return middle - wide * half, middle + wide * half


# Predictors ---------------------------------------------------------------------------------------


def _groups(rng: Generator, n: int, shares: list[float]) -> Array:
    return rng.choice([f"g{k:02d}" for k in range(len(shares))], n, p=shares)


def _skewed(rng: Generator, n: int) -> Array:
    """A log-normal number, as incomes and durations are."""
    return np.minimum(rng.lognormal(0, 0.8, n), 40.0)


def _plain(rng: Generator, n: int) -> Predictors:
    z = rng.multivariate_normal(np.zeros(3), 0.5 * np.eye(3) + 0.5, n).clip(-5, 5)
    table = pd.DataFrame(z, columns=["a", "b", "c"])
    table["g"] = _groups(rng, n, [0.6, 0.25, 0.15])
    predictor = 0.4 * z[:, 0] - 0.3 * z[:, 1] + 0.3 * (table["g"] == "g01").to_numpy()
    return Predictors(table, dict.fromkeys("abc", (-5.0, 5.0)), predictor, ("g",))


def _with_income(predictor: Callable[[Array], Any]) -> Callable[[Generator, int], Predictors]:
    def make(rng: Generator, n: int) -> Predictors:
        income = _skewed(rng, n)
        age = rng.uniform(20, 80, n)
        table = pd.DataFrame({"income": income, "age": age, "g": _groups(rng, n, [0.7, 0.3])})
        other = 0.01 * (age - 50) + 0.2 * (table["g"] == "g01").to_numpy()
        bounds = {"income": (0.0, 40.0), "age": (20.0, 80.0)}
        return Predictors(table, bounds, predictor(income) + other, ("g",))

    return make


def _heavy(rng: Generator, n: int) -> Predictors:
    x = rng.standard_t(3, n).clip(-50, 50)
    table = pd.DataFrame({"x": x, "g": _groups(rng, n, [0.5, 0.3, 0.2])})
    return Predictors(table, {"x": (-50.0, 50.0)}, 0.15 * x, ("g",))


def _levels(count: int) -> Callable[[Generator, int], Predictors]:
    def make(rng: Generator, n: int) -> Predictors:
        shares = 1 / np.arange(2, count + 2)
        g = _groups(rng, n, list(shares / shares.sum()))
        z = rng.normal(size=n).clip(-5, 5)
        effects = dict(zip(sorted(set(g)), np.linspace(-0.5, 0.5, len(set(g))), strict=True))
        table = pd.DataFrame({"z": z, "g": g})
        predictor = 0.3 * z + table["g"].map(effects).to_numpy()
        return Predictors(table, {"z": (-5.0, 5.0)}, predictor, ("g",))

    return make


def _two_levels(share: float) -> Callable[[Generator, int], Predictors]:
    def make(rng: Generator, n: int) -> Predictors:
        table = pd.DataFrame({"g": _groups(rng, n, [1 - share, share])})
        return Predictors(table, {}, np.zeros(n), ("g",))

    return make


def _interaction(rng: Generator, n: int) -> Predictors:
    made = _plain(rng, n)
    product = (made.table["a"] * (made.table["g"] == "g01")).to_numpy()
    return Predictors(made.table, made.bounds, made.predictor + 0.3 * product, ("g",), "a * g + b")


def _curve(rng: Generator, n: int) -> Predictors:
    age = 18 + 70 * rng.beta(2, 3, n)
    table = pd.DataFrame({"age": age, "g": _groups(rng, n, [0.5, 0.5])})
    return Predictors(
        table, {"age": (18.0, 92.0)}, np.sin((age - 18) / 15), ("g",), "ns(age, 35, 50, 65) + g"
    )


def _collinear(correlation: float) -> Callable[[Generator, int], Predictors]:
    def make(rng: Generator, n: int) -> Predictors:
        a = rng.normal(size=n)
        b = correlation * a + np.sqrt(1 - correlation**2) * rng.normal(size=n)
        table = pd.DataFrame(
            {"a": a.clip(-5, 5), "b": b.clip(-5, 5), "z": rng.normal(size=n).clip(-5, 5)}
        )
        table["g"] = _groups(rng, n, [0.6, 0.4])
        return Predictors(
            table, dict.fromkeys("abz", (-5.0, 5.0)), 0.3 * a + 0.3 * table["z"].to_numpy(), ("g",)
        )

    return make


def _strong(rng: Generator, n: int) -> Predictors:
    made = _plain(rng, n)
    return Predictors(made.table, made.bounds, 3 * made.predictor, ("g",))


def _many(rng: Generator, n: int) -> Predictors:
    """Sixty columns: twenty numbers and two factors of twenty levels."""
    z = rng.normal(size=(n, 20)).clip(-5, 5)
    table = pd.DataFrame(z, columns=[f"z{j:02d}" for j in range(20)])
    table["g"] = _groups(rng, n, [0.05] * 20)
    table["h"] = _groups(rng, n, [0.05] * 20)
    bounds = dict.fromkeys(table.columns[:20], (-5.0, 5.0))
    return Predictors(table, bounds, 0.2 * z[:, 0] + 0.1 * z[:, 1], ("g", "h"))


def _groups_only(rng: Generator, n: int) -> Predictors:
    """Two factors and an answer, of common and of rare levels, and a number."""
    table = pd.DataFrame(
        {
            "age": rng.integers(21, 36, n).astype(float),
            "g": _groups(rng, n, [0.55, 0.3, 0.1, 0.05]),
            "h": _groups(rng, n, [0.93, 0.07]),
        }
    )
    predictor = (
        0.05 * (table["age"].to_numpy() - 28)
        + 0.2 * (table["g"] == "g02").to_numpy()
        + 0.3 * (table["h"] == "g01").to_numpy()
    )
    return Predictors(table, {"age": (15.0, 50.0)}, predictor, ("g", "h"))


def _persons(rng: Generator, n: int) -> Predictors:
    """About four records of each person, who has a level of their own."""
    persons = n // 4
    who = rng.integers(0, persons, n)
    own = rng.normal(size=persons)[who]
    z = (0.5 * rng.normal(size=persons)[who] + rng.normal(size=n)).clip(-5, 5)
    table = pd.DataFrame({"z": z, "g": _groups(rng, persons, [0.6, 0.4])[who], "id": who})
    return Predictors(
        table, {"z": (-5.0, 5.0)}, 0.3 * z + 0.5 * own, ("g",), unit=Unit("one person", "id")
    )


PREDICTORS: dict[str, Callable[[Generator, int], Predictors]] = {
    "plain": _plain,
    "skewed": _with_income(lambda income: 0.1 * income),
    "curved_log": _with_income(lambda income: 0.8 * np.log(income)),
    "curved_step": _with_income(lambda income: 1.0 * (income > 3)),
    "heavy": _heavy,
    "levels12": _levels(12),
    "levels30": _levels(30),
    "interaction": _interaction,
    "curve": _curve,
    "collinear90": _collinear(0.9),
    "collinear99": _collinear(0.99),
    "strong": _strong,
    "rare": _plain,
    "half_rare": _two_levels(0.5),
    "tenth_rare": _two_levels(0.1),
    "fifth_rare": _two_levels(0.2),
    "many": _many,
    "persons": _persons,
    "family": _groups_only,
    "group_tails": _groups_only,
    "costs": _plain,
    "zero_inflated": _plain,
    "heteroscedastic": _plain,
    "heavy_errors": _plain,
    "skewed_errors": _plain,
    "explained": _with_income(lambda income: 4.0 * income),
    "visits": _plain,
}


# Outcomes: values, and public bounds where they are numbers ----------------------------------------

Drawn = tuple[Array, tuple[float, float] | None]


def _binary(shift: float) -> Callable[[Array, Generator], Drawn]:
    def draw(predictor: Array, rng: Generator) -> Drawn:
        chance = 1 / (1 + np.exp(-(predictor - predictor.mean() + shift)))
        return rng.random(len(predictor)) < chance, None

    return draw


def _normal(
    spread: Callable[[Array], Array | float] = lambda _: 1.0,
    law: Callable[[Generator, int], Array] = lambda rng, n: rng.normal(size=n),
) -> Callable[[Array, Generator], Drawn]:
    def draw(predictor: Array, rng: Generator) -> Drawn:
        noise = spread(predictor) * law(rng, len(predictor))
        bound = float(np.ceil(max(20.0, 1.2 * np.abs(predictor).max())))
        return np.clip(predictor + noise, -bound, bound), (-bound, bound)

    return draw


def _counts(
    mean: float, shape: float | None = None, high: float = 60.0, zeros: float = 0.0
) -> Callable[[Array, Generator], Drawn]:
    def draw(predictor: Array, rng: Generator) -> Drawn:
        means = np.exp(predictor)
        means *= mean / means.mean()
        if shape is not None:
            means = means * rng.gamma(shape, 1 / shape, len(means))
        values = rng.poisson(means) * (rng.random(len(means)) >= zeros)
        return np.minimum(values, high).astype(float), (0.0, high)

    return draw


def _amounts(predictor: Array, rng: Generator) -> Drawn:
    """Costs: nothing for three in ten, log-normal for the others."""
    amounts = np.exp(predictor + 6 + 1.2 * rng.normal(size=len(predictor)) - 0.72) / 0.7
    return np.minimum(np.where(rng.random(len(predictor)) < 0.7, amounts, 0.0), 1e6), (0.0, 1e6)


def _visits(predictor: Array, rng: Generator) -> Drawn:
    """Counts with a long tail, for least squares of the raw numbers."""
    means = 3 * np.exp(predictor) * rng.gamma(0.5, 2.0, len(predictor))
    return np.minimum(rng.poisson(means), 200).astype(float), (0.0, 200.0)


def _children(predictor: Array, rng: Generator) -> Drawn:
    """Two and a few more: counts that vary less than their means, with a longer tail where they are many."""
    return np.minimum(2 + rng.poisson(0.5 * np.exp(2 * predictor)), 12).astype(float), (0.0, 12.0)


def _tails_by_group(predictor: Array, rng: Generator) -> Drawn:
    """Skewed errors, the longer the larger the predictor is."""
    shape = np.clip(0.7 + predictor, 0.2, 1.5)
    errors = np.exp(shape * rng.normal(size=len(predictor))) - np.exp(shape**2 / 2)
    return np.clip(predictor + errors, -50.0, 200.0), (-50.0, 200.0)


_USUAL_OUTCOMES: dict[str, Callable[[Array, Generator], Drawn]] = {
    "logistic": _binary(0.0),
    "linear": _normal(),
    "poisson": _counts(2.0),
}
OUTCOMES: dict[str, dict[str, Callable[[Array, Generator], Drawn]]] = {
    "rare": {"logistic": _binary(-3.8), "poisson": _counts(0.05)},
    "half_rare": {"poisson": _counts(0.01, high=20.0)},
    "tenth_rare": {"poisson": _counts(0.03, high=20.0)},
    "fifth_rare": {"poisson": _counts(0.02, high=20.0)},
    "levels12": {"logistic": _binary(-1.0)},
    "costs": {"poisson": _amounts, "linear": _amounts},
    "zero_inflated": {"poisson": _counts(2.0, zeros=0.6), "linear": _counts(4.0, 1.0, zeros=0.6)},
    "heteroscedastic": {
        "linear": _normal(np.exp),
        "poisson": _counts(2.0, 0.7, high=120.0),
    },
    "heavy_errors": {"linear": _normal(law=lambda rng, n: rng.standard_t(3, n))},
    "skewed_errors": {"linear": _normal(law=lambda rng, n: rng.lognormal(0, 1, n) - np.exp(0.5))},
    "family": {"poisson": _children, "linear": _children},
    "group_tails": {"linear": _tails_by_group},
    "visits": {"linear": _visits, "poisson": _visits},
}
