"""Tables of the study: made-up cohorts with a known truth, and real ones that are the population."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpinfer.numerics.arrays import Array, Indices
from dpinfer.schema.schema import Schema

Curves = dict[tuple[Any, str], Array]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Design:
    """How a sample is drawn and asked, and the curves of the population.

    ``curves`` are survival ("") and the incidence of causes at the edges by group; ``median`` and
    ``mean`` are by group, the mean up to the last edge.
    """

    n: int
    schema: Schema
    options: Mapping[str, Any]
    draw: Callable[[Rng], pd.DataFrame]
    curves: Curves
    median: Mapping[Any, float]
    mean: Mapping[Any, float]


def _schema(time: str, event: str, by: str, entry: str = "") -> Schema:
    late = f"columns.entered = {{{entry}}}\n" if entry else ""
    return Schema.parse(
        f'unit = "one patient"\ncolumns.time = {{{time}}}\n{late}'
        f"columns.event = {{{event}}}\ncolumns.arm = {{{by}}}\n"
    )


_BOOLEAN = 'type = "boolean"'
_YEARS = 'type = "number", low = 0, high = 10'
_ARMS = 'type = "category", levels = ["a", "b"]'
_SHAPE = 1.3


def _weibull(rng: Rng, n: int, scale: float, effect: float) -> pd.DataFrame:
    """The cohort of the design note: two arms, 40 % in the second, Weibull times, exponential censoring."""
    second = rng.random(n) < 0.4
    times = scale * rng.weibull(_SHAPE, n) * np.exp(-effect * second / _SHAPE)
    end = np.minimum(rng.exponential(15.0, n), 10.0)
    return pd.DataFrame(
        {
            "time": np.minimum(times, end),
            "event": times <= end,
            "arm": np.where(second, "b", "a"),
        }
    )


def cohort(n: int, rate: float, effect: float, bins: int) -> Design:
    """Persons of whom a share ``rate`` has an event within ten years, were nobody censored."""
    scale = 10.0 * (-np.log(1 - rate)) ** (-1 / _SHAPE)
    edges = np.linspace(0, 10, bins + 1)[1:]
    fine = np.linspace(0, 10, 100_001)

    def survival(times: Array, arm: str) -> Array:
        return np.exp(-((times / scale) ** _SHAPE) * np.exp(effect * (arm == "b")))

    medians = {
        arm: scale * np.log(2) ** (1 / _SHAPE) * np.exp(-effect * (arm == "b") / _SHAPE)
        for arm in "ab"
    }
    return Design(
        n,
        _schema(_YEARS, _BOOLEAN, _ARMS),
        {"bins": bins, "by": "arm"},
        partial(_weibull, n=n, scale=scale, effect=effect),
        {(arm, ""): survival(edges, arm) for arm in "ab"},
        {arm: float(median) for arm, median in medians.items() if median < 9.5},
        {arm: float(np.trapezoid(survival(fine, arm), fine)) for arm in "ab"},
    )


_HAZARDS = {"a": (0.08, 0.04), "b": (0.064, 0.04), "c": (0.048, 0.04)}
"""Of both causes in three arms, constant over time."""


def _two_causes(rng: Rng, n: int) -> pd.DataFrame:
    arm = rng.choice(list("abc"), n, p=[0.5, 0.3, 0.2])
    rates = np.array([_HAZARDS[one] for one in arm])
    times = rng.exponential(1.0, (n, 2)) / rates
    first = times.argmin(axis=1)
    end = np.minimum(rng.uniform(0, 15, n), 10.0)
    event = times.min(axis=1) <= end
    status = np.where(event, np.array(["relapse", "death"])[first], "none")
    return pd.DataFrame({"time": np.minimum(times.min(axis=1), end), "event": status, "arm": arm})


def causes(n: int) -> Design:
    """Competing risks in three arms."""
    edges = np.linspace(0, 10, 21)[1:]
    curves: Curves = {}
    for arm, rates in _HAZARDS.items():
        total = sum(rates)
        curves[arm, ""] = np.exp(-total * edges)
        for cause, rate in zip(("relapse", "death"), rates, strict=True):
            curves[arm, cause] = rate / total * (1 - np.exp(-total * edges))
    event = 'type = "category", levels = ["none", "relapse", "death"], reference = "none"'
    by = 'type = "category", levels = ["a", "b", "c"]'
    totals = {arm: sum(rates) for arm, rates in _HAZARDS.items()}
    return Design(
        n,
        _schema(_YEARS, event, by),
        {"bins": 20, "by": "arm"},
        partial(_two_causes, n=n),
        curves,
        {arm: float(np.log(2) / total) for arm, total in totals.items()},
        {arm: float((1 - np.exp(-10 * total)) / total) for arm, total in totals.items()},
    )


_LEVEL = 0.005  # hazard at the age of 50
_GROWTH = 0.09
_RATIO = 1.4  # of the second arm


def _by_age(rng: Rng, n: int) -> pd.DataFrame:
    """Ages at entry and exit: who died before entry is not in the table."""
    entered = rng.uniform(45, 70, n)
    second = rng.random(n) < 0.4
    level = _LEVEL * np.where(second, _RATIO, 1.0)
    # by inversion, given that one lives at entry
    grown = np.exp(_GROWTH * (entered - 50)) + _GROWTH / level * rng.exponential(1.0, n)
    died = 50 + np.log(grown) / _GROWTH
    end = np.minimum(entered + rng.uniform(2, 20, n), 95.0)
    return pd.DataFrame(
        {
            "time": np.minimum(died, end),
            "entered": entered,
            "event": died <= end,
            "arm": np.where(second, "b", "a"),
        }
    )


def late(n: int) -> Design:
    """Age as the time: persons enter late, and curves are of who lives at 50."""
    edges = np.linspace(50, 85, 36)[1:]
    fine = np.linspace(50, 85, 100_001)
    levels = {"a": _LEVEL, "b": _LEVEL * _RATIO}

    def survival(ages: Array, level: float) -> Array:
        return np.exp(-level / _GROWTH * (np.exp(_GROWTH * (ages - 50)) - 1))

    age = 'type = "number", low = 0, high = 100'
    return Design(
        n,
        _schema(age, _BOOLEAN, _ARMS, age),
        {"bins": edges.tolist(), "start": 50, "entry": "entered", "by": "arm"},
        partial(_by_age, n=n),
        {(arm, ""): survival(edges, level) for arm, level in levels.items()},
        {
            arm: 50 + float(np.log(1 + _GROWTH / level * np.log(2)) / _GROWTH)
            for arm, level in levels.items()
        },
        {arm: float(np.trapezoid(survival(fine, level), fine)) for arm, level in levels.items()},
    )


def exact(
    time: Array, event: Indices, edges: Array, causes: int
) -> tuple[Array, Array, float, float]:
    """Kaplan-Meier and Aalen-Johansen of all times at the edges, the median, and the mean up to the last."""
    moments, place = np.unique(time, return_inverse=True)
    counts = np.zeros((causes + 1, len(moments)))
    np.add.at(counts, (event, place), 1.0)
    gone = counts.sum(axis=0)
    risk = len(time) - np.cumsum(gone) + gone
    s = np.cumprod(1 - counts[1:].sum(axis=0) / risk)
    before = np.concatenate([[1.0], s[:-1]])
    incidence = np.cumsum(before * counts[1:] / risk, axis=1)
    at = np.searchsorted(moments, edges, side="right")
    survival = np.concatenate([[1.0], s])[at]
    of_causes = np.concatenate([np.zeros((causes, 1)), incidence], axis=1)[:, at]
    below = np.flatnonzero(s <= 0.5)
    median = float(moments[below[0]]) if len(below) else np.inf
    within = moments < edges[-1]
    steps = np.diff(np.concatenate([[0.0], moments[within], [edges[-1]]]))
    return survival, of_causes, median, float(steps @ np.concatenate([[1.0], s[within]]))


def _sampled(rng: Rng, people: pd.DataFrame) -> pd.DataFrame:
    return people.iloc[rng.integers(0, len(people), len(people))].reset_index(drop=True)


def real(people: pd.DataFrame, schema: Schema, edges: Array, names: tuple[str, ...]) -> Design:
    """A table that is the population; replicates are bootstrap samples of it."""
    curves: Curves = {}
    medians = {}
    means = {}
    codes = people["event"].astype(int)
    for arm, rows in people.groupby("arm"):
        times = rows["time"].to_numpy(dtype=float)
        found = exact(times, codes[rows.index].to_numpy(), edges, max(len(names), 1))
        curves[arm, ""], incidence, medians[arm], means[arm] = found
        for name, values in zip(names, incidence, strict=False):
            curves[arm, name] = values
    reached = {arm: median for arm, median in medians.items() if median < 0.95 * edges[-1]}
    options = {"bins": edges.tolist(), "by": "arm"}
    return Design(
        len(people), schema, options, partial(_sampled, people=people), curves, reached, means
    )


def rotterdam(folder: Path) -> Design:
    """Deaths of breast cancer patients over fifteen years, by chemotherapy."""
    table = pd.read_parquet(folder / "rotterdam.parquet")
    people = pd.DataFrame(
        {"time": table["dtime"], "event": table["death"] == 1, "arm": table["chemo"] == 1}
    )
    schema = _schema('type = "integer", low = 0, high = 7305', _BOOLEAN, _BOOLEAN)
    return real(people, schema, np.rint(365.25 * np.arange(0.5, 15.1, 0.5)), ())


def prostate(folder: Path) -> Design:
    """Deaths of prostate cancer and of other causes over nine years, by stage."""
    table = pd.read_parquet(folder / "prostate_survival.parquet")
    people = pd.DataFrame(
        {"time": table["survTime"], "event": table["status"], "arm": table["stage"]}
    )
    event = 'type = "integer", low = 0, high = 2, levels = [0, 1, 2], reference = 0'
    by = 'type = "category", levels = ["T1ab", "T1c", "T2"]'
    schema = _schema('type = "integer", low = 0, high = 119', event, by)
    return real(people, schema, np.arange(3.0, 109.0, 3.0), ("1", "2"))


DESIGNS: dict[str, Callable[[Path], Design]] = {
    "cohort_2k": lambda _: cohort(2_000, 0.7, 0.3, 40),
    "cohort_2k_10": lambda _: cohort(2_000, 0.7, 0.3, 10),
    "cohort_5k": lambda _: cohort(5_000, 0.6, 0.2, 40),
    "cohort_5k_10": lambda _: cohort(5_000, 0.6, 0.2, 10),
    "cohort_20k": lambda _: cohort(20_000, 0.3, 0.15, 40),
    "cohort_20k_10": lambda _: cohort(20_000, 0.3, 0.15, 10),
    "cohort_100k": lambda _: cohort(100_000, 0.05, 0.15, 40),
    "cohort_100k_10": lambda _: cohort(100_000, 0.05, 0.15, 10),
    "rotterdam": rotterdam,
    "prostate": prostate,
    "causes_10k": lambda _: causes(10_000),
    "late_8k": lambda _: late(8_000),
}


@lru_cache(maxsize=2)
def design(name: str, folder: Path) -> Design:
    """Made once for all replicates."""
    return DESIGNS[name](folder)
