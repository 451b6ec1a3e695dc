"""Published survival curves: released counts over time, and all curves, means, medians and tests made of them."""

import json
import math
import os
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.inference.survival_estimates import (
    CurveEstimate,
    SurvivalEstimate,
    TimeAxis,
    TimeCounts,
    log_rank,
    normal_draws,
)
from dpinfer.mechanisms.running_counts import TimeIntervals, running_root, unusable_weight
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical
from dpinfer.persistence import FileNames
from dpinfer.privacy import entries
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result import text
from dpinfer.result.grid import Grid, GridCell, GridRow, TextLayout, html_page, markdown_page
from dpinfer.result.saved import ReplacedError
from dpinfer.result.statements import NOT_REPORTED, REPORTED, Privacy, errors_counted
from dpinfer.schema.columns import Level
from dpinfer.schema.guesses import level_text
from dpinfer.schema.unit import Unit

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "dpinfer.SurvivalCurves"
VERSION = 1
_NAMES = entries.NAMES | FileNames(
    {"TimeIntervals": TimeIntervals, "NoPrivacy": NoPrivacy, "Privacy": Privacy, "Unit": Unit},
    keys={Privacy: {"in_ledger": "booked"}, Unit: {"max_weight": "most_weight"}},
)
TOO_FEW_AT_RISK = f"{NOT_REPORTED}: too few persons at risk at this budget"
_NOT_REACHED = "not reached"
_SHOWN: Numerical[int] = 8
_ABOUT = (
    "Survival is the share of persons without an event up to a time, as Kaplan and Meier estimate it at the "
    "ends of intervals: those censored count as at risk up to then, and half of the interval in which they "
    "are censored."
)
_OF_CAUSES = (
    "The cumulative incidence of a cause is the share of persons with that event up to a time, where other "
    "causes may come first (Aalen and Johansen)."
)
_BAND = (
    "An interval is for one time; a band includes the whole curve of its group, at all times together, as "
    "often as an interval includes one point."
)
_LATE = "Persons count as at risk from their entry on: survival is that of who has entered."
_MAY_NOT = (
    "Do not conclude that censoring has no bias: whoever is censored must have the same prospects as those "
    "still observed. Do not conclude that a difference between groups has a cause, or anything about one person."
)


@dataclass(frozen=True)
class LogRankTest:
    """A log-rank test of the groups: whether they have the same hazard at all times.

    Attributes
    ----------
    statistic : float
        The quadratic form of observed less expected events.
    df : int
        The number of groups less one.
    p_value : float
        The p-value; NaN where the test is not reported.
    noise_share : float
        The share of privacy noise in the variance of the scores.
    status : str
        ``"reported"``, or why there is no test.
    cause : str
        The cause whose hazard is compared, or "" for any event.
    """

    statistic: float
    df: int
    p_value: float
    noise_share: float
    status: str = REPORTED
    cause: str = ""

    def __str__(self) -> str:
        of_cause = f" of {self.cause}" if self.cause else ""
        if self.status != REPORTED:
            return f"Log-rank test{of_cause} {self.status}."
        shown = text.p_value(self.p_value)
        equal = shown if shown.startswith("<") else f"= {shown}"
        noise = text.percent(self.noise_share)
        return (
            f"Log-rank test that the groups have the same hazard{of_cause}: chi-square {self.statistic:.2f}, "
            f"{self.df} df, p {equal} (privacy noise: {noise} of the variance)."
        )


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalCurves:
    """Released survival curves, made by `survival_curves`; every method is post-processing.

    Attributes
    ----------
    counts : array
        The released counts by group, process (each cause, censoring, entry) and interval of time.
    unusable : float
        The released number of persons without a usable record.
    noise_sd : float
        The sd of the noise in running sums, before they are made counts.
    follow_up : TimeIntervals
        The intervals of time, and what was counted.
    causes : tuple of str
        The names of the events.
    groups : tuple
        The levels of the grouping column, or ().
    names : dict
        The columns: ``time``, ``event``, ``entry`` and ``by``, and ``axis``, the time for people.
    confidence : float
        The confidence level of intervals and bands.
    n : int or None
        The number of persons, where it is public.
    unit : Unit
        What the guarantee protects.
    privacy : Privacy
        The guarantee: the budget, the release and its id in the ledger.

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> months = rng.integers(1, 13, 500)
    >>> table = {"months": months, "died": (rng.random(500) < 0.5).astype(int)}
    >>> schema = dp.Schema.parse('''
    ... unit = "one patient"
    ... columns.months = {type = "integer", low = 0, high = 12}
    ... columns.died = {type = "boolean"}
    ... ''')
    >>> curves = dp.survival_curves(
    ...     table, schema, time="months", event="died", bins=[3, 6, 9, 12], budget=dp.NoPrivacy()
    ... )
    >>> print(curves.to_frame()[["time", "survival", "low", "high"]].round(2).iloc[0].to_list())
    [3.0, 0.87, 0.83, 0.89]
    """

    counts: Array
    unusable: float
    noise_sd: float
    follow_up: TimeIntervals
    causes: tuple[str, ...]
    groups: tuple[Level, ...]
    names: dict[str, str]
    confidence: float
    n: int | None
    unit: Unit
    privacy: Privacy

    @property
    def times(self) -> Array:
        """Return the ends of the intervals, at which curves are estimated."""
        return np.array(self.follow_up.edges)

    @cached_property
    def _estimates(self) -> list[SurvivalEstimate]:
        inverse = np.linalg.inv(running_root(self.follow_up.positions))
        root = np.asarray(self.noise_sd * inverse, dtype=np.float64)
        away = self.follow_up.away
        return [
            SurvivalEstimate(TimeCounts(one, root, away, self.follow_up.late))
            for one in self.counts
        ]

    @property
    def _axis(self) -> TimeAxis:
        edges = np.array([self.follow_up.start, *self.follow_up.edges])
        return TimeAxis(edges, self.follow_up.integer_times)

    @property
    def _group_names(self) -> tuple[Level | None, ...]:
        return self.groups or (None,)

    @property
    def _z(self) -> float:
        return float(ndtri((1 + self.confidence) / 2))

    def curve_rows(self, cause: int | None = None) -> list[dict[str, Any]]:
        """Return one dict per group and time, of survival or of the incidence of a cause.

        Parameters
        ----------
        cause : int, optional
            The position of a cause; by default survival.

        Returns
        -------
        list of dict
            group, time, estimate, low, high, band_low, band_high, at_risk and status.
        """
        rows = []
        for group, one in zip(self._group_names, self._estimates, strict=True):
            curve = one.survival if cause is None else one.incidence(cause)
            rows += self._rows(group, one, curve)
        return rows

    def _rows(
        self, group: Level | None, one: SurvivalEstimate, curve: CurveEstimate
    ) -> list[dict[str, Any]]:
        low, high = curve.ends(self._z)
        band_low, band_high = self._band(curve)
        at_risk = one.counts.numbers_at_risk()[1:]
        rows = []
        for k, time in enumerate(self.times):
            row = {"group": group, "time": float(time)}
            if k < one.supported:
                numbers = (curve.values, low, high, band_low, band_high)
                row |= dict(zip(_NUMBERS, (float(part[k]) for part in numbers), strict=True))
                row |= {"at_risk": max(float(at_risk[k]), 0.0), "status": REPORTED}
            else:
                row |= dict.fromkeys((*_NUMBERS, "at_risk"), math.nan)
                row |= {"status": TOO_FEW_AT_RISK}
            rows.append(row)
        return rows

    def _band(self, curve: CurveEstimate) -> tuple[Array, Array]:
        """Return a band of the whole curve, which rises or falls as the true one does.

        Where the true curve is inside of the band at all times, the ends of a monotone curve cannot pass
        those of other times, so that nothing is lost.
        """
        m = len(curve.values)
        if not m:
            return np.zeros(0), np.zeros(0)
        low, high = curve.ends(curve.critical(self.confidence, normal_draws(m)))
        if curve.falling:
            return np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)
        return np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]

    def to_frame(self) -> "pd.DataFrame":
        """Return the survival curves as a pandas data frame.

        Returns
        -------
        DataFrame
            group, time, survival, low, high, band_low, band_high, at_risk and status, one row per group
            and time.  The interval is for one time, the band for the whole curve.
        """
        return self._frame([_renamed(row, "survival") for row in self.curve_rows()])

    def incidence(self, cause: str | None = None) -> "pd.DataFrame":
        """Return the cumulative incidence of causes as a pandas data frame.

        Parameters
        ----------
        cause : str, optional
            The name of a cause; by default all of them.

        Returns
        -------
        DataFrame
            group, cause, time, incidence, low, high, band_low, band_high, at_risk and status.
        """
        chosen = self.causes if cause is None else (self._known_cause(cause),)
        rows = []
        for name in chosen:
            for row in self.curve_rows(self.causes.index(name)):
                rows.append({"group": row.pop("group"), "cause": name} | _renamed(row, "incidence"))
        return self._frame(rows)

    def _known_cause(self, cause: str) -> str:
        if cause not in self.causes:
            raise InputError(f"there is no cause {cause!r}: it is one of {', '.join(self.causes)}")
        return cause

    def _frame(self, rows: list[dict[str, Any]]) -> "pd.DataFrame":
        from dpinfer.result.frames import frame_of  # noqa: PLC0415  (loads pandas)

        if not self.groups:
            rows = [{key: cell for key, cell in row.items() if key != "group"} for row in rows]
        return frame_of(rows)

    def quantile(self, share: float = 0.5) -> "pd.DataFrame":
        """Return the times at which survival falls to a share.

        Parameters
        ----------
        share : float
            The share that survives, 0.5 by default: the median.

        Returns
        -------
        DataFrame
            group, time, low and high.  Where the curve does not come down so far the time is infinite, and
            the lower end is the last time that is reported, if the intervals do not either.

        Notes
        -----
        The interval contains the times at which the interval of survival contains the share (Brookmeyer and
        Crowley, 1982).  Between ends of intervals curves are straight lines.
        """
        return self._frame(self.quantile_rows(share))

    def quantile_rows(self, share: float = 0.5) -> list[dict[str, Any]]:
        """Return the rows of `quantile`.

        Parameters
        ----------
        share : float
            The share that survives.

        Returns
        -------
        list of dict
            group, time, low and high.
        """
        if not 0 < share < 1:
            raise InputError("the share that survives must be between 0 and 1, as in quantile(0.5)")
        rows = []
        for group, one in zip(self._group_names, self._estimates, strict=True):
            curve = one.survival
            ends = (curve.values, *curve.ends(self._z))
            time, low, high = (self._axis.crossing(values, share) for values in ends)
            # a lower end that is not reached is after the last time that is reported
            low = min(low, float(self._axis.edges[one.supported]))
            rows.append({"group": group, "time": time, "low": low, "high": high})
        return rows

    def median(self) -> "pd.DataFrame":
        """Return the median survival times.

        Returns
        -------
        DataFrame
            group, time, low and high, as from `quantile`.
        """
        return self.quantile(0.5)

    def restricted_mean(self, until: float | None = None) -> "pd.DataFrame":
        """Return restricted mean survival times: the mean time after the start without an event, up to ``until``.

        Parameters
        ----------
        until : float, optional
            One of the ends of intervals; by default the last one that is reported in all groups.

        Returns
        -------
        DataFrame
            group, figure ("mean", or "difference" from the first group), until, estimate, std_error, low
            and high.
        """
        return self._frame(self.restricted_mean_rows(until))

    def rmst(self, until: float | None = None) -> "pd.DataFrame":
        """Return `restricted_mean`, by its short name.

        Parameters
        ----------
        until : float, optional
            One of the ends of intervals.

        Returns
        -------
        DataFrame
            The frame of `restricted_mean`.
        """
        return self.restricted_mean(until)

    def restricted_mean_rows(self, until: float | None = None) -> list[dict[str, Any]]:
        """Return the rows of `restricted_mean`.

        Parameters
        ----------
        until : float, optional
            One of the ends of intervals.

        Returns
        -------
        list of dict
            group, figure, until, estimate, std_error, low and high.
        """
        last = min(one.supported for one in self._estimates)
        if until is None:
            intervals = last
        else:
            matches = np.flatnonzero(np.isclose(self.times, until, rtol=1e-12, atol=0))
            if not len(matches):
                ends = ", ".join(f"{time:g}" for time in self.times)
                raise InputError(
                    f"until={until!r} is not the end of an interval: take one of {ends}"
                )
            intervals = int(matches[0]) + 1
        if not 0 < intervals <= last:
            return []
        found = [one.restricted_mean(self._axis, intervals) for one in self._estimates]
        until = float(self.times[intervals - 1])
        pairs = zip(self._group_names, found, strict=True)
        rows = [self._mean_row(group, "mean", until, *pair) for group, pair in pairs]
        for group, (mean, se) in list(zip(self._group_names, found, strict=True))[1:]:
            first, first_se = found[0]
            error = math.hypot(se, first_se)
            rows.append(self._mean_row(group, "difference", until, mean - first, error))
        return rows

    def _mean_row(
        self, group: Level | None, figure: str, until: float, estimate: float, se: float
    ) -> dict[str, Any]:
        low, high = estimate - self._z * se, estimate + self._z * se
        if figure == "mean":
            low, high = max(low, 0.0), min(high, until - self.follow_up.start)
        return {
            "group": group,
            "figure": figure,
            "until": until,
            "estimate": estimate,
            "std_error": se,
            "low": low,
            "high": high,
        }

    def test(self, cause: str | None = None) -> LogRankTest:
        """Test that all groups have the same hazard: the log-rank test.

        Parameters
        ----------
        cause : str, optional
            A cause, whose hazard is compared, with the others as censoring; by default any event.

        Returns
        -------
        LogRankTest
            The statistic, its degrees of freedom and the p-value.

        Notes
        -----
        The variance of observed less expected events is that of sampling and that of the privacy noise;
        the reference law allows for the noise in the variance itself.
        """
        if len(self.groups) < 2:
            raise InputError("a log-rank test compares groups: name a column of levels with by=")
        position = None if cause is None else self.causes.index(self._known_cause(cause))
        found = log_rank(self._estimates, position)
        if found is None:
            status = f"{NOT_REPORTED}: too few events, or persons at risk, at this budget"
            df = len(self.groups) - 1
            return LogRankTest(math.nan, df, math.nan, math.nan, status, cause or "")
        return LogRankTest(
            found.statistic, found.df, found.p_value, found.noise_share, cause=cause or ""
        )

    def at_risk_rows(self) -> list[dict[str, Any]]:
        """Return the numbers at risk at the start and after each interval, with their intervals.

        Returns
        -------
        list of dict
            group, time, at_risk, low and high; the interval is of the noise alone.
        """
        rows = []
        for group, one in zip(self._group_names, self._estimates, strict=True):
            margin = self._z * one.counts.numbers_sd()
            for time, number in zip(self._axis.edges, one.counts.numbers_at_risk(), strict=True):
                rows.append(
                    {
                        "group": group,
                        "time": float(time),
                        "at_risk": max(float(number), 0.0),
                        "low": max(float(number) - margin, 0.0),
                        "high": max(float(number) + margin, 0.0),
                    }
                )
        return rows

    def numbers_at_risk(self) -> "pd.DataFrame":
        """Return the numbers of persons at risk over time.

        Returns
        -------
        DataFrame
            group, time, at_risk, low and high, at the start and after each interval.  The interval is of the
            privacy noise alone: the number of these persons is no estimate of another one.
        """
        return self._frame(self.at_risk_rows())

    def unusable_interval(self) -> tuple[float, float]:
        """Return the ends of the interval of the number of persons without a usable record.

        Returns
        -------
        tuple
            The lower and the upper end.
        """
        margin = self._z * self.noise_sd / unusable_weight(self.follow_up.positions)
        return max(self.unusable - margin, 0.0), max(self.unusable + margin, 0.0)

    def shown_times(self, count: int = _SHOWN) -> list[int]:
        """Return the positions of up to ``count`` ends of intervals, the last one and every so many before it.

        Parameters
        ----------
        count : int
            How many at most.

        Returns
        -------
        list of int
            Positions in `times`.
        """
        intervals = self.follow_up.intervals
        step = -(-intervals // count)
        return list(range(intervals - 1, -1, -step))[::-1]

    def grid(self, cause: int | None = None, count: int = _SHOWN) -> Grid:
        """Return a table of a curve at a few times, one column per group.

        Parameters
        ----------
        cause : int, optional
            The position of a cause; by default survival.
        count : int
            How many times at most.

        Returns
        -------
        Grid
            Estimates with intervals.
        """
        rows = self.curve_rows(cause)
        by_group = len(self.times)
        shown = []
        for k in self.shown_times(count):
            cells = tuple(_cell(rows[g * by_group + k]) for g in range(len(self._group_names)))
            shown.append(GridRow(f"{self.times[k]:g}", cells))
        heads = (self.names["axis"], *(self.group_label(group) for group in self._group_names))
        return Grid(heads, tuple(shown))

    def figures(self) -> Grid:
        """Return the table of medians and restricted means.

        Returns
        -------
        Grid
            One row per figure, one column per group.
        """
        rows = []
        medians = self.quantile_rows()
        cells = tuple(_time_cell(row, self.times[-1]) for row in medians)
        rows.append(GridRow("Median survival time", cells))
        means = self.restricted_mean_rows()
        of_groups = [row for row in means if row["figure"] == "mean"]
        if of_groups:
            name = f"Mean survival time up to {of_groups[0]['until']:g}"
            rows.append(GridRow(name, tuple(map(_mean_cell, of_groups))))
        differences = [row for row in means if row["figure"] == "difference"]
        if differences:
            cells = (GridCell("reference"), *map(_mean_cell, differences))
            rows.append(GridRow("Difference", cells))
        heads = ("", *(self.group_label(group) for group in self._group_names))
        return Grid(heads, tuple(rows))

    def group_label(self, group: Level | None) -> str:
        """Return the name of a group for people.

        Parameters
        ----------
        group : level or None
            A level of the grouping column, or None for all.

        Returns
        -------
        str
            The name.
        """
        return "All" if group is None else level_text(group)

    def statements(self) -> list[str]:
        """Return sentences on the meaning of the curves, and on the guarantee and its limits.

        Returns
        -------
        list of str
            The sentences.
        """
        privacy = self.privacy
        return [
            *self.meanings(),
            f"Privacy: {privacy.budget}.",
            f"Protects {privacy.unit} (neighbours: {privacy.neighbours.sentence}).",
            *(f"- {caveat}" for caveat in self.caveats()),
        ]

    def meanings(self) -> list[str]:
        """Return sentences on the meaning of the curves.

        Returns
        -------
        list of str
            The sentences.
        """
        low, high = self.unusable_interval()
        said = [_ABOUT]
        if len(self.causes) > 1:
            said.append(_OF_CAUSES)
        if self.follow_up.late:
            said.append(_LATE)
        if self.follow_up.start > 0:
            said.append(
                f"The curves begin at {self.follow_up.start:g}: they are of who is still at risk then."
            )
        said += [_BAND, errors_counted(self.privacy.budget)]
        said.append(
            f"Without a usable record were {self.unusable:,.0f} ({low:,.0f} to {high:,.0f}): they are left out."
        )
        if self.unit.many:
            said.append(
                "All rows with one id are one record: the earliest entry, the latest exit with its event, and the "
                "group of the earliest row."
            )
        return [*said, _MAY_NOT]

    def public_facts(self) -> list[str]:
        """Return what was declared beforehand: time, event, entry and groups.

        Returns
        -------
        list of str
            One text for each column.
        """
        follow_up, names = self.follow_up, self.names
        span = f"from {follow_up.start:g} to {follow_up.edges[-1]:g}"
        facts = [f"{names['time']}: time, {follow_up.intervals} intervals {span}"]
        facts.append(f"{names['event']}: event, {', '.join(self.causes)}")
        if names["entry"]:
            facts.append(f"{names['entry']}: time of entry")
        if self.groups:
            facts.append(f"{names['by']}: {', '.join(map(self.group_label, self.groups))}")
        return facts

    def caveats(self) -> tuple[str, ...]:
        """Return the limits of the guarantee and of the intervals.

        Returns
        -------
        tuple of str
            The sentences.
        """
        return self.privacy.caveats(self.n)

    def tests(self) -> list[str]:
        """Return the log-rank test as sentences; none where there is one group.

        Returns
        -------
        list of str
            The sentences.
        """
        if len(self.groups) < 2:
            return []
        said = [str(self.test())]
        if len(self.causes) > 1:
            said += [str(self.test(cause)) for cause in self.causes]
        return said

    def headline(self) -> str:
        """Return a title in one sentence: event, time, groups and number of records.

        Returns
        -------
        str
            The sentence.
        """
        by = f", by {self.names['by']}" if self.names["by"] else ""
        return (
            f"Time to {self.names['event']} by {self.names['time']}{by}; {self.unit.size(self.n)}."
        )

    def summary(self, *, full: bool = False) -> str:
        """Return the curves at a few times as text, with medians, means and the log-rank test.

        Parameters
        ----------
        full : bool
            Whether all statements are under the table; by default the most important ones are, in
            ten lines at most.

        Returns
        -------
        str
            A page of 80 columns, to print.
        """
        title = "Differentially private survival curves"
        if not self.privacy.private:
            title = "Survival curves, NOT PRIVATE"
        level = f"{100 * self.confidence:.4g}%"
        size = f"{self.headline()} Estimates with {level} intervals in brackets."
        layout = TextLayout(brackets=True, split=True, min_names=16)
        parts = [_on_screen(self.grid()).text(layout)]
        for position, cause in enumerate(self.causes if len(self.causes) > 1 else ()):
            parts += [
                f"Cumulative incidence: {cause}",
                _on_screen(self.grid(position)).text(layout),
            ]
        parts.append(self.figures().text(layout))
        said = [*self.tests(), *self.statements()]
        if not full:
            said = text.essential([*self.privacy.alarms(self.n), *said], text.PAGE_WIDTH)
        head = text.with_notes(title.center(text.PAGE_WIDTH).rstrip(), [size], text.PAGE_WIDTH)
        return f"{head}\n{text.with_notes(chr(10).join(parts), said, text.PAGE_WIDTH)}"

    def caption(self) -> str:
        """Return the caption of a table of the curves.

        Returns
        -------
        str
            Of whom, how many, how private.
        """
        private = "NOT PRIVATE"
        if self.privacy.private:
            private = f"{self.privacy.budget}, protects {self.privacy.unit}"
        return f"{self.headline()} Privacy: {private}."

    def to_markdown(self) -> str:
        """Return the table of the curves in Markdown.

        Returns
        -------
        str
            The text of the table.
        """
        return markdown_page(self.grid(), [self.caption(), *self.tests()])

    def __repr__(self) -> str:
        groups = f" by {self.names['by']}" if self.names["by"] else ""
        private = "NOT PRIVATE"
        if self.privacy.private:
            private = str(self.privacy.budget).rpartition(" with ")[2]
        about = f"{self.names['event']}{groups}: {self.unit.size(self.n)}, {private}"
        return text.escape_controls(f"<SurvivalCurves of {about}>")

    def _repr_html_(self) -> str:
        return html_page(self.grid(), self.caption(), self.tests())

    def to_json(self) -> str:
        """Return the released counts and what is public about them as one JSON object.

        Returns
        -------
        str
            The JSON text, with a format name and a version.
        """
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        written = {
            name: value if name == "names" else persistence.encode(value, _NAMES)
            for name, value in values.items()
        }
        head = {"format": FORMAT, "version": VERSION}
        return json.dumps({**head, **written}, ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, document: str) -> "SurvivalCurves":
        """Read curves from their JSON text, exact to the last bit.

        Parameters
        ----------
        document : str
            The text that `to_json` returned.

        Returns
        -------
        SurvivalCurves
            The curves.

        Raises
        ------
        InputError
            If it holds no survival curves, or those of another version of the format.
        """
        if not is_survival(document):
            raise InputError("this text holds no saved survival curves")
        written = json.loads(document)
        version = written.get("version")
        if version != VERSION:
            raise ReplacedError(
                f"these survival curves are of version {version} of the format, and this dpinfer reads version "
                f"{VERSION}: read them with the dpinfer that wrote them"
            )
        try:
            values = {
                one.name: written[one.name]
                if one.name == "names"
                else persistence.decode(written[one.name], _NAMES)
                for one in fields(cls)
            }
            counts = np.array(values["counts"], dtype=np.float64)
            follow_up = values["follow_up"]
            if counts.shape != follow_up.shape or set(values["names"]) != set(COLUMN_NAMES):
                raise ValueError("its counts do not fit its intervals")
            return cls(**(values | {"counts": counts}))
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise InputError(f"this text holds no saved survival curves: {fault}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the curves to a JSON file, which is complete or not there at all.

        Parameters
        ----------
        path : path
            Where the file is written; an existing one is replaced.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        try:
            persistence.write(Path(path), self.to_json().encode())
        except OSError as fault:
            raise InputError(
                f"the curves cannot be written to {str(path)!r} ({fault.strerror}): check the folder and its rights"
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SurvivalCurves":
        """Read curves from a JSON file.

        Parameters
        ----------
        path : path
            The file that `save`, `dp.report.write` or ``dpinfer survival`` wrote.

        Returns
        -------
        SurvivalCurves
            The curves.

        Raises
        ------
        InputError
            If the file cannot be read, or holds no survival curves.
        """
        try:
            document = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the curves {str(path)!r} cannot be read ({type(fault).__name__}): give the "
                f"{persistence.SURVIVAL} of `dpinfer survival`"
            ) from None
        return cls.from_json(document)


_NUMBERS = ("estimate", "low", "high", "band_low", "band_high")
COLUMN_NAMES = ("time", "event", "entry", "by", "axis")
"""The keys of `SurvivalCurves.names`."""


def is_survival(document: str) -> bool:
    """Return whether a document says that it holds survival curves."""
    try:
        return bool(json.loads(document)["format"] == FORMAT)
    except (KeyError, TypeError, ValueError):
        return False


def _on_screen(grid: Grid) -> Grid:
    """Return a table with a short name of the time, as columns of names are narrow in text."""
    return replace(grid, titles=("Time", *grid.titles[1:]))


def _renamed(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {name if key == "estimate" else key: cell for key, cell in row.items()}


def _cell(row: dict[str, Any]) -> GridCell:
    if row["status"] != REPORTED:
        return GridCell(NOT_REPORTED, spans=True)
    ends = f"{row['low']:.3f} to {row['high']:.3f}"
    return GridCell(f"{row['estimate']:.3f}", ends)


def _time_cell(row: dict[str, Any], last: float) -> GridCell:
    """Return a time with its interval; one that is not reached is beyond the last."""
    decimals = _time_decimals(row, last)
    low, high = (
        text.number(end, decimals) if math.isfinite(end) else _NOT_REACHED
        for end in (row["low"], row["high"])
    )
    if not math.isfinite(row["time"]):
        return GridCell(_NOT_REACHED, f"from {low}")
    return GridCell(text.number(row["time"], decimals), f"{low} to {high}")


def _time_decimals(row: dict[str, Any], last: float) -> int:
    width = row["high"] - row["low"]
    if not math.isfinite(width) or width <= 0:
        width = last / 10
    return text.decimals_for(width / 4)


def _mean_cell(row: dict[str, Any]) -> GridCell:
    decimals = text.decimals_for(row["std_error"])
    return GridCell(
        text.number(row["estimate"], decimals),
        text.interval(row["low"], row["high"], row["std_error"]),
    )
