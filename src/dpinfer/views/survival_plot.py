"""The plot of survival curves: curves with intervals or bands, and the numbers at risk under them."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpinfer.errors import InputError, installed, missing

if not installed("matplotlib"):
    raise missing("dp.plot", "report", "matplotlib")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dpinfer.numerics.arrays import Array
from dpinfer.result.statements import REPORTED
from dpinfer.result.survival_curves import SurvivalCurves
from dpinfer.views.forest import BLUE, GREY, INK, ORANGE, PURPLE, shortened
from dpinfer.views.notebook_figure import NotebookFigure

_COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", PURPLE, "#56B4E9", "#8C510A", INK)
_DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
_WIDTH = 8.0  # inches of a figure
_HEIGHT = 4.6  # inches of the curves
_ROW = 0.24  # inches of a row of numbers at risk
_MARKS = 7
_NAME = 22  # letters of a group


def survival(curves: SurvivalCurves, *, cause: str | None = None, band: bool = False) -> Figure:
    """Draw survival curves with their intervals, and numbers at risk under them.

    Parameters
    ----------
    curves : SurvivalCurves
        The released curves.
    cause : str, optional
        A cause, whose cumulative incidence is drawn; by default survival.
    band : bool
        Whether areas are the bands of whole curves; by default they are the intervals of each time.

    Returns
    -------
    Figure
        The figure; ``figure.savefig("survival.png")`` writes it.

    Examples
    --------
    >>> import dpinfer as dp
    >>> import numpy as np
    >>> schema = dp.Schema.parse('''
    ... unit = "one patient"
    ... columns.years = {type = "number", low = 0, high = 10}
    ... columns.died = {type = "boolean"}
    ... ''')
    >>> years = np.random.default_rng(0).exponential(8.0, 5000)
    >>> table = {"years": np.minimum(years, 10.0), "died": years < 10.0}
    >>> curves = dp.survival_curves(
    ...     table, schema, time="years", event="died", budget=dp.NoPrivacy()
    ... )
    >>> figure = dp.plot.survival(curves)
    >>> len(figure.axes)
    2
    """
    if not isinstance(curves, SurvivalCurves):
        raise InputError("dp.plot.survival draws what dp.survival_curves returned")
    position = None
    if cause is not None:
        if cause not in curves.causes:
            raise InputError(
                f"there is no cause {cause!r}: it is one of {', '.join(curves.causes)}"
            )
        position = curves.causes.index(cause)
    groups = curves.groups or (None,)
    below = _ROW * (len(groups) + 1) + 0.3
    figure = NotebookFigure(figsize=(_WIDTH, _HEIGHT + below), dpi=150, layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[_HEIGHT, below])
    rows = curves.curve_rows(position)
    at_start = 1.0 if cause is None else 0.0
    for k, group in enumerate(groups):
        own = [row for row in rows if row["group"] == group]
        _draw(top, curves, own, _Style(k, at_start, band))
    _axes(top, curves, cause, band=band)
    _at_risk(bottom, curves)
    _legend(top, curves, rising=cause is not None)
    return figure


def png(curves: SurvivalCurves, cause: str | None = None) -> bytes:
    """Return the plot as a PNG picture."""
    sink = io.BytesIO()
    survival(curves, cause=cause).savefig(sink, format="png", dpi=150)
    return sink.getvalue()


@dataclass(frozen=True)
class _Style:
    """The number of a group, the value of its curve at the start, and whether its band is drawn."""

    index: int
    at_start: float
    band: bool


def _draw(panel: Axes, curves: SurvivalCurves, rows: list[dict[str, Any]], style: _Style) -> None:
    """Draw the curve of one group up to the last time that is reported, from its value at the start."""
    reported = [row for row in rows if row["status"] == REPORTED]
    if not reported:
        return
    times = np.array([curves.follow_up.start, *(row["time"] for row in reported)])

    def values(key: str) -> Array:
        return np.array([style.at_start, *(row[key] for row in reported)])

    color = _COLORS[style.index % len(_COLORS)]
    ends = ("band_low", "band_high") if style.band else ("low", "high")
    steps = _stepped(curves)
    panel.fill_between(
        times,
        values(ends[0]),
        values(ends[1]),
        step="post" if steps else None,
        color=color,
        alpha=0.16,
        linewidth=0,
    )
    panel.plot(
        times,
        values("estimate"),
        color=color,
        linestyle=_DASHES[style.index % len(_DASHES)],
        linewidth=1.8,
        drawstyle="steps-post" if steps else "default",
        label=shortened(curves.group_label(rows[0]["group"]), _NAME),
    )


def _stepped(curves: SurvivalCurves) -> bool:
    """Whether curves are steps: where each interval has one time; elsewhere lines join the ends of intervals."""
    return bool(curves.follow_up.integer_times and not curves.follow_up.away.any())


def _axes(panel: Axes, curves: SurvivalCurves, cause: str | None, *, band: bool) -> None:
    start, end = curves.follow_up.start, curves.follow_up.edges[-1]
    panel.set_xlim(start, end)
    panel.set_ylim(0, 1.0 if cause is None else None)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f}%"))
    panel.xaxis.set_major_locator(MaxNLocator(_MARKS, steps=[1, 2, 2.5, 3, 5, 6, 10]))
    panel.set_xlabel(shortened(curves.names["axis"], 60), color=INK, parse_math=False)
    panel.tick_params(labelbottom=True, labelsize=9, color=GREY, labelcolor=INK)
    words = "Survival" if cause is None else f"Cumulative incidence: {cause}"
    panel.set_ylabel(shortened(words, 50), color=INK, parse_math=False)
    kind = "simultaneous bands" if band else "intervals"
    private = curves.privacy.budget if curves.privacy.private else "NOT PRIVATE"
    title = f"{100 * curves.confidence:.4g}% {kind} count sampling error and privacy noise"
    panel.set_title(f"{title}\n{private}", size=9, color=GREY, loc="left", parse_math=False)
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _legend(panel: Axes, curves: SurvivalCurves, *, rising: bool) -> None:
    if curves.groups and panel.get_legend_handles_labels()[0]:
        title = shortened(curves.names["by"], 40)
        panel.legend(
            loc="upper left" if rising else "lower left",
            frameon=False,
            fontsize=9,
            title=title,
            alignment="left",
        )


def _at_risk(panel: Axes, curves: SurvivalCurves) -> None:
    """Write the released numbers at risk at the ticks, a row for each group."""
    groups = curves.groups or (None,)
    rows = curves.at_risk_rows()
    panel.set_ylim(len(groups) + 0.2, -1.0)
    panel.axis("off")
    start, end = curves.follow_up.start, curves.follow_up.edges[-1]
    marks = MaxNLocator(_MARKS, steps=[1, 2, 2.5, 3, 5, 6, 10]).tick_values(start, end)
    marks = [mark for mark in marks if start <= mark <= end]
    panel.annotate(
        "Number at risk (released, with noise)",
        (0, -0.6),
        (-70, 0),
        xycoords=panel.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=INK,
        annotation_clip=False,
    )
    for k, group in enumerate(groups):
        own = [row for row in rows if row["group"] == group]
        times = np.array([row["time"] for row in own])
        color = _COLORS[k % len(_COLORS)]
        for mark in marks:
            nearest = int(np.abs(times - mark).argmin())
            number = f"{own[nearest]['at_risk']:,.0f}"
            panel.text(
                float(times[nearest]), k + 0.3, number, ha="center", va="center", fontsize=8.5
            )
        panel.annotate(
            shortened(curves.group_label(group), _NAME),
            (0, k + 0.3),
            (-22, 0),
            xycoords=panel.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=8.5,
            color=color,
            parse_math=False,
            annotation_clip=False,
        )
