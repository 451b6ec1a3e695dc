"""What the studies of fits without a penalty share: replicates, and what each line of a fit is held
against.

Asked is the ordinary regression of all columns on the population.  Where the truth is unknown the
population is the data set, and a replicate is a bootstrap sample of it.  Where it is known, rows
are drawn from the data set and outcomes are drawn anew: the coefficients asked for are the true
ones, and some of them are 0.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.fit import noiseless
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array
from dpinfer.schema.design import Design
from dpinfer.simulate.estimands import StatedEstimand, alternative_estimands, stated_estimand
from studies.common import plain

BUDGETS = ("0.3,1e-6", "1,1e-6", "3,1e-6", "0.1875")
Z95 = 1.959964
# one replicate in so many is also held against what it states, which takes a search of its own
THOROUGH = 4
OFTEN = 0.5  # of the fits: a coefficient that fewer of them print is no candidate for the worst one
Found = dict[str, Any]


def budget(text: str) -> dp.ZCDP | dp.ApproxDP:
    """From its short name: "1,1e-6" is (ε, δ), a number alone a zCDP budget."""
    epsilon, comma, delta = text.partition(",")
    if comma:
        return dp.ApproxDP(float(epsilon), float(delta))
    return dp.ZCDP(float(text))


def budget_words(text: str) -> str:
    """The same for a page."""
    return f"({text.replace(',', ', ')})" if "," in text else f"rho {text}"


@dataclass(frozen=True, eq=False)
class Data:
    """Encoded rows (norm at most 1, intercept first), labels or scaled outcomes, and the public
    design.

    Where the truth is known, ``chance`` is the probability of the label +1 of each row, and
    ``zero`` names the columns without an effect.
    """

    rows: Array
    labels: Array
    design: Design
    chance: Array | None = None
    zero: tuple[str, ...] = ()

    @property
    def x(self) -> Array:
        """The rows as (1, x~)."""
        return np.asarray(self.rows * np.sqrt(self.design.norm2))

    @property
    def people(self) -> Block:
        """The population: the records or, where the truth is known, every row with both labels, by
        their chances.
        """
        if self.chance is None:
            return Block(self.x, self.labels)
        both = np.concatenate([self.chance, 1 - self.chance])
        labels = np.repeat([1.0, -1.0], len(self.rows))
        return Block(np.vstack([self.x, self.x]), labels, both, both)

    def sample(self, index: int) -> Block:
        """A replicate, the same for every budget."""
        rng = np.random.default_rng([index, 7])
        n = len(self.labels)
        drawn = np.sort(rng.integers(0, n, n))
        labels = self.labels[drawn]
        if self.chance is not None:
            labels = np.where(rng.random(n) < self.chance[drawn], 1.0, -1.0)
        return Block(self.rows[drawn], labels)


@dataclass(frozen=True, eq=False)
class Whole:
    """A population, and the regression asked for, with the covariance that its own records would
    have.
    """

    data: Data
    people: Block
    asked: NoiselessFit
    squares: bool

    @classmethod
    def of(cls, data: Data, *, squares: bool) -> "Whole":
        """Fitted once for all replicates of a design."""
        people = data.people
        recipe = LinearSteps if squares else LogisticSteps
        asked = recipe.ordinary(people)
        if data.chance is not None:
            once = recipe.ordinary(Block(data.x, data.labels))
            asked = replace(asked, covariance=once.covariance)
        return cls(data, people, asked, squares)

    def without_noise(self, sample: Block) -> NoiselessFit:
        """The ordinary regression of a replicate: not private."""
        x = sample.rows * np.sqrt(self.data.design.norm2)
        if self.squares:
            return noiseless.least_squares(x, sample.labels)
        return noiseless.logistic(x, sample.labels, self.asked.coef)


def held(
    result: dp.FitResult, whole: Whole, sample: Block, *, thorough: bool = True
) -> tuple[Found, StatedEstimand | None]:
    """One fit, one number for each coefficient, NaN where it is not reported; and what it states on
    the population.

    Only a ``thorough`` look has the latter, and whether other lines hold their own estimands.

    asked, stated: whether the interval holds what was asked, and what the fit states.  ceiling:
    whether an interval without noise (HC0) of the same replicate holds what was asked.  ratio:
    length over that of the ordinary interval of the population.  rejected: whether a coefficient
    that is 0 has p < .05.  instead: rows that stand for coefficients not reported.
    """
    design = whole.data.design
    geometry = result.geometry
    assert geometry is not None
    assert (
        geometry.columns == design.names
    )  # one model: every column of the formula is in every fit
    asked = whole.asked.in_units(design, geometry.centre)
    robust = result.model.target == "robust"  # what is asked is the Huber regression that is stated
    about = None
    if thorough or robust:
        about = stated_estimand(result, design, whole.people, whole.asked)
    low, high = result.conf_int().T
    printed = result.reported

    def covered(coef: Array) -> list[float]:
        return [float(value) for value in np.where(printed, (low <= coef) & (coef <= high), np.nan)]

    other = whole.without_noise(sample).in_units(design, geometry.centre)
    p_values = np.array([row["p_value"] for row in result.table()])
    zero = printed & np.isin(design.names, whole.data.zero)
    found = {
        "asked": covered(about.coef if about is not None and robust else asked.coef),
        "stated": [float("nan")] * len(low) if about is None else covered(about.coef),
        "ceiling": (np.abs(other.coef - asked.coef) <= Z95 * other.std_error)
        .astype(float)
        .tolist(),
        "ratio": np.where(printed, (high - low) / (2 * Z95 * asked.std_error), np.nan).tolist(),
        "printed": printed.astype(float).tolist(),
        "rejected": np.where(zero, p_values < 0.05, np.nan).tolist(),
        "instead": _instead(result, whole, thorough=thorough),
    }
    return found, about


def _instead(result: dp.FitResult, whole: Whole, *, thorough: bool) -> list[Found]:
    """Each row that stands for a coefficient not reported: its name, whose place it takes, and whether it holds
    its own estimand.
    """
    rows = result.instead_rows()
    if not thorough:
        return [
            {"name": row["name"], "instead_of": row["instead_of"], "covered": float("nan")}
            for row in rows
        ]
    estimands = alternative_estimands(result, whole.data.design, whole.people, whole.asked)
    return [
        {
            "name": row["name"],
            "instead_of": row["instead_of"],
            "covered": float(row["low"] <= value <= row["high"]),
        }
        for row, value in zip(rows, estimands.tolist(), strict=True)
    ]


def summary(found: Sequence[Found], names: Sequence[str]) -> Found:
    """Averages over all printed lines; the smallest coverage is over coefficients that half of the
    fits print.
    """
    keys = ("asked", "stated", "ceiling", "ratio", "printed", "rejected")
    arrays = {key: np.array([one[key] for one in found], dtype=float) for key in keys}
    answered = np.array([_answered(one, names) for one in found])
    others = [
        line["covered"] for one in found for line in one["instead"] if np.isfinite(line["covered"])
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        by_name = {key: np.nanmean(arrays[key], axis=0) for key in ("asked", "stated", "ceiling")}
        ratio = np.nanmedian(arrays["ratio"], axis=0)
        often = arrays["printed"].mean(axis=0) >= OFTEN
        slopes = often & (np.arange(len(names)) > 0)
        numbers = {
            "asked": np.nanmean(arrays["asked"]),
            "stated": np.nanmean(arrays["stated"]),
            "length": np.nanmedian(ratio[slopes]),
            "length_max": np.max(ratio[slopes], initial=-np.inf),
            "printed": arrays["printed"][:, 1:].mean(),
            "answered": answered[:, 1:].mean(),
            "instead": np.mean(others) if others else np.nan,
            "rejected": np.nanmean(arrays["rejected"]),
        }
    columns = {
        "names": list(names),
        **{key: plain(value) for key, value in by_name.items()},
        "ratio": plain(ratio),
        "printed": plain(arrays["printed"].mean(axis=0)),
        "answered": plain(answered.mean(axis=0)),
    }
    counts = {
        "d": len(names),
        "replicates": len(found),
        "lines": int(arrays["printed"].sum()),
        "instead_lines": len(others),
        "rejected_of": int(np.isfinite(arrays["rejected"]).sum()),
    }
    rounded = {key: plain(float(value)) for key, value in numbers.items()}
    return {**counts, **rounded, "worst": _worst(by_name, often, names), "coefficients": columns}


def _answered(one: Found, names: Sequence[str]) -> Array:
    """Whether each line is printed or has another one in its stead."""
    others = [line["instead_of"] for line in one["instead"]]
    return np.asarray((np.array(one["printed"]) > 0) | np.isin(names, others), dtype=float)


def _worst(by_name: dict[str, Array], often: Array, names: Sequence[str]) -> Found | None:
    """The coefficient that is covered least, beside what an interval without noise attains for it."""
    if not often.any():
        return None
    j = int(np.argmin(np.where(often, by_name["asked"], np.inf)))
    return {
        "name": names[j],
        "asked": plain(by_name["asked"][j]),
        "ceiling": plain(by_name["ceiling"][j]),
    }


HEAD = (
    "design", "n", "d", "budget", "coverage", "lowest (without noise)", "stated", "length med / max", "reported",
    "with alternatives", "alternatives",
)  # fmt: skip
"""Of the columns that the pages of all studies have."""


def line(cell: Found) -> list[str]:
    """A cell as a row of a table that begins with this head."""
    worst = cell["worst"]
    lowest = "-"
    if worst is not None:
        lowest = f"{worst['name']} {form(worst['asked'], '.2f')} ({form(worst['ceiling'], '.2f')})"
    return [
        cell["design"],
        str(cell["n"]),
        str(cell["d"]),
        budget_words(cell["budget"]),
        form(cell["asked"], ".3f"),
        lowest,
        form(cell["stated"], ".3f"),
        f"{form(cell['length'], '.2f')} / {form(cell['length_max'], '.1f')}",
        form(cell["printed"], ".0%"),
        form(cell["answered"], ".0%"),
        form(cell["instead"], ".2f"),
    ]


def form(value: float | None, spec: str) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else format(value, spec)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [list(head), ["---" for _ in head], *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def weak(cells: Sequence[Found], below: float = 0.9) -> list[str]:
    """Sentences about the coefficients whose coverage is low, where half of the fits print them."""
    said = []
    for cell in cells:
        columns = cell["coefficients"]
        rows = zip(
            columns["names"], columns["asked"], columns["ceiling"], columns["printed"], strict=True
        )
        for name, asked, ceiling, printed in rows:
            if printed >= OFTEN and asked is not None and asked < below:
                where = f"{cell['design']} at {budget_words(cell['budget'])}"
                said.append(
                    f"- {where}: `{name}` {asked:.2f}, without noise {form(ceiling, '.2f')}"
                )
    return said
