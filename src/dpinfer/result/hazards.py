"""Hazard ratios, baseline hazards and survival probabilities of a hazard regression.

All of it is post-processing: nothing reads the data.  The logarithm of a hazard is a combination of
coefficients; that of a cumulated hazard is a function of them, whose interval is by the delta method.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.result.estimates import Estimates, checked
from dpinfer.result.prediction import Rows, question_of, ratios
from dpinfer.result.statements import REPORTED, several
from dpinfer.schema.follow_up import FollowUp


def hazard_ratios(fit: Estimates, level: float) -> Rows:
    """Return the hazard ratio of each covariate with its interval."""
    _follow_up(fit)
    intervals = fit.names[len(fit.names) - fit.intervals :]
    return [row for row in ratios(fit, "hazard_ratio", level) if row["name"] not in intervals]


def baseline(fit: Estimates, rows: Any, level: float) -> Rows:
    """Return one entry per row and interval of time: its ends, and the hazard with its interval."""
    level = checked(level)
    follow_up = _follow_up(fit)
    weights, columns = _weights(fit, rows, follow_up)
    entries: Rows = []
    for number, (own, at) in enumerate(zip(weights, columns, strict=True)):
        found = fit.combined(own, level, absent=_absent(fit, at))
        for k, (start, end) in enumerate(pairwise(follow_up.ends)):
            entries.append(
                {
                    "row": number,
                    "start": start,
                    "end": end,
                    "hazard": float(np.exp(found.estimate[k])),
                    "low": float(np.exp(found.low[k])),
                    "high": float(np.exp(found.high[k])),
                    "status": _status(fit, at[k], bool(found.known[k])),
                }
            )
    return entries


def survival(fit: Estimates, rows: Any, times: Sequence[float], level: float) -> Rows:
    """Return one entry per row and time: the probability to survive until then, with its interval."""
    level = checked(level)
    follow_up = _follow_up(fit)
    moments = np.atleast_1d(np.asarray(times, dtype=float))
    if moments.ndim != 1 or not ((moments > 0) & (moments <= follow_up.horizon)).all():
        raise InputError(
            f"times are numbers above 0, up to the horizon {follow_up.horizon:g}: the fit saw nothing later"
        )
    ends = np.array(follow_up.ends)
    lived = np.clip(moments[:, None] - ends[:-1], 0.0, np.diff(ends))
    weights, columns = _weights(fit, rows, follow_up)
    entries: Rows = []
    for number, (own, at) in enumerate(zip(weights, columns, strict=True)):
        hazards = np.exp(own @ fit.estimate)
        cumulated = lived * hazards
        total = cumulated.sum(axis=1)
        gradient = (cumulated / total[:, None]) @ own
        found = fit.combined(gradient, level, np.log(total), _absent(fit, at[:1])[[0] * len(total)])
        for k, time in enumerate(moments.tolist()):
            high, low = (
                math.exp(-math.exp(end)) for end in (found.low[k], min(found.high[k], 700.0))
            )
            entries.append(
                {
                    "row": number,
                    "time": time,
                    "survival": math.exp(-math.exp(found.estimate[k])),
                    "low": low,
                    "high": high,
                    "status": _status(fit, at[0], bool(found.known[k])),
                }
            )
    return entries


def _follow_up(fit: Estimates) -> FollowUp:
    if not fit.model.hazards:
        raise InputError(
            f"hazards and survival are those of HazardRegression, and this is {fit.model.loss}: use predict()"
        )
    return question_of(fit).follow_up


def _weights(fit: Estimates, rows: Any, follow_up: FollowUp) -> tuple[list[Array], list[Array]]:
    """Return for each row the combinations of coefficients in each interval, and the columns they are made of.

    Without rows it is the released centre of the covariates.
    """
    number = len(follow_up.levels)
    intervals = np.eye(number)[:, 1:]
    slopes = len(fit.names) - 1 - intervals.shape[1]
    if rows is None:
        if fit.geometry is None:
            raise InputError("this fit released no centre: give rows, as in baseline(rows)")
        values = fit.geometry.centre[None, :slopes]
    else:
        values = question_of(fit).rows(rows)
    columns = [np.column_stack([np.tile(one, (number, 1)), intervals]) for one in values]
    return [fit.weights(one) for one in columns], columns


def _absent(fit: Estimates, columns: Array) -> Any:
    """Return which coefficients of levels a row does not have."""
    first = np.zeros((len(columns), 1), dtype=bool)
    found = np.column_stack([first, columns == 0])
    return found if fit.joint is None else found & (fit.joint.group >= 0)


def _status(fit: Estimates, columns: Array, known: bool) -> str:
    if known:
        return REPORTED
    return f"no interval: it rests on {several(fit.unreported_in(columns[None])[0])} without one"
