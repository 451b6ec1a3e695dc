"""One replicate: a sample, its released curves at each budget and without noise, and a table without a difference."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from dpinfer.description.survival_release import survival_curves
from dpinfer.numerics.arrays import Array
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result.statements import REPORTED
from dpinfer.result.survival_curves import SurvivalCurves
from dpinfer.simulate.replicates import noise_seed
from studies.asked import Found, budget
from studies.survival_curves.designs import Design, design

BUDGETS = ("0.3,1e-6", "1,1e-6", "0.1", "3,1e-6")
NONE = "none"
"""The noise is off: what the sampling error alone gives, beside."""
KEYS = (
    "point", "point band", "naive", "point length", "reported", "incidence", "incidence band", "incidence length",
    "median", "median length", "mean", "mean length",
)  # fmt: skip
LEVEL = 0.05  # of the test
_SLACK = 1e-9


def replicate(name: str, folder: Path, index: int) -> Found:
    """What one sample gives at every budget."""
    with threadpool_limits(1, "blas"):
        chosen = design(name, folder)
        rng = np.random.default_rng([sum(map(ord, name)), index])
        sample = chosen.draw(rng)
        shuffled = sample.assign(arm=rng.permutation(sample["arm"]))
        plain = View.of(chosen, asked(chosen, sample, NONE, index))
        found: Found = {}
        for one in (NONE, *BUDGETS):
            view = plain if one == NONE else View.of(chosen, asked(chosen, sample, one, index))
            found[one] = held(chosen, view, plain)
            found[one]["power"] = [_rejects(view.p_value)]
            null = asked(chosen, shuffled, one, index).test().p_value
            found[one]["size"] = [_rejects(null)]
        return found


def _rejects(p_value: float) -> float:
    return float(p_value < LEVEL) if np.isfinite(p_value) else np.nan


def asked(chosen: Design, sample: pd.DataFrame, words: str, index: int) -> SurvivalCurves:
    """The curves of a sample."""
    return survival_curves(
        sample,
        chosen.schema,
        time="time",
        event="event",
        budget=NoPrivacy() if words == NONE else budget(words),
        insecure_seed=noise_seed(0, index),
        **chosen.options,
    )


@dataclass(frozen=True, eq=False)
class View:
    """Everything that is read of curves, computed once."""

    curves: dict[str, list[dict[str, Any]]]
    medians: list[dict[str, Any]]
    means: list[dict[str, Any]]
    p_value: float

    @classmethod
    def of(cls, chosen: Design, found: SurvivalCurves) -> "View":
        """Read the curves that the design has."""
        kinds = dict.fromkeys(cause for _, cause in chosen.curves)
        return cls(
            {
                cause: found.curve_rows(found.causes.index(cause) if cause else None)
                for cause in kinds
            },
            found.quantile_rows(),
            found.restricted_mean_rows(float(found.times[-1])),
            found.test().p_value,
        )

    def rows(self, group: Any, cause: str) -> list[dict[str, Any]]:
        """The rows of a group."""
        return [row for row in self.curves[cause] if row["group"] == group]


def held(chosen: Design, view: View, plain: View) -> dict[str, Any]:
    """Whether intervals and bands hold the truth, and how long they are over those without noise."""
    found: dict[str, Any] = {key: [] for key in KEYS}
    for (group, cause), truth in chosen.curves.items():
        rows = view.rows(group, cause)
        there = np.array([row["status"] == REPORTED for row in rows])
        of_cause = "incidence" if cause else "point"
        if not cause:
            found["reported"].append(float(there.mean()))
        if not there.any():
            continue
        held_at, together = (
            (_column(rows, low) - _SLACK <= truth) & (truth <= _column(rows, high) + _SLACK)
            for low, high in (("low", "high"), ("band_low", "band_high"))
        )
        beside = plain.rows(group, cause)
        plain_width = _column(beside, "high") - _column(beside, "low")
        ratio = (_column(rows, "high") - _column(rows, "low"))[there] / plain_width[there]
        found[of_cause].append(float(held_at[there].mean()))
        found[f"{of_cause} band"].append(float(together[there].all()))
        found[f"{of_cause} length"].append(float(np.nanmedian(ratio)))
        if not cause:
            # an interval as long as without noise, around the released curve
            near = np.abs(_column(rows, "estimate") - truth) <= plain_width / 2 + _SLACK
            found["naive"].append(float(near[there].mean()))
    _times(chosen, view, plain, found)
    return found


def _times(chosen: Design, view: View, plain: View, found: dict[str, Any]) -> None:
    """Medians and restricted means: whether they are held, and how long."""
    for row, beside in zip(view.medians, plain.medians, strict=True):
        if row["group"] in chosen.median:
            truth = chosen.median[row["group"]]
            found["median"].append(float(row["low"] - _SLACK <= truth <= row["high"] + _SLACK))
            found["median length"].append(
                _ratio(row["high"] - row["low"], beside["high"] - beside["low"])
            )
    of_means = {(row["figure"], row["group"]): row for row in plain.means}
    for row in view.means:
        truth = chosen.mean[row["group"]]
        if row["figure"] == "difference":
            truth -= chosen.mean[view.means[0]["group"]]
        found["mean"].append(float(row["low"] <= truth <= row["high"]))
        one = of_means.get((row["figure"], row["group"]))
        if one is not None:
            found["mean length"].append(_ratio(row["std_error"], one["std_error"]))


def _column(rows: list[dict[str, Any]], key: str) -> Array:
    return np.array([row[key] for row in rows], dtype=float)


def _ratio(one: float, other: float) -> float:
    return one / other if np.isfinite(one) and np.isfinite(other) and other > 0 else np.nan
