"""Figures of results, studies and forecasts with matplotlib; no function changes global state."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError, installed, missing

if not installed("matplotlib"):
    raise missing("dp.plot", "report", "matplotlib")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from dpinfer.numerics.arrays import Array
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result.comparison import Comparison
from dpinfer.result.event_study import PeriodEffects
from dpinfer.result.result import FitResult
from dpinfer.simulate import Forecast, Study
from dpinfer.simulate.forecast import label as named
from dpinfer.views.forest import (
    BLUE,
    ESTIMATE,
    GREY,
    INK,
    MODEL_STYLES,
    NAME_LENGTH,
    ORANGE,
    PALE,
    PURPLE,
    SAMPLING_ERROR,
    WITH_BIAS_BOUND,
    WITH_NOISE,
    Bar,
    ForestRow,
    ModelStyle,
    axis_title,
    has_bias_bound,
    limits,
    missing_label,
    model_notes,
    model_rows,
    panels,
    ratio_of,
    ratio_ticks,
    result_notes,
    result_rows,
    shortened,
    ticks,
    wrapped,
)
from dpinfer.views.forest_text import forest_text
from dpinfer.views.notebook_figure import NotebookFigure
from dpinfer.views.survival_plot import survival

__all__ = ["compare", "coverage", "event_study", "forecast", "forest", "forest_text", "survival"]

_WIDTH = 10.0  # inches of a figure
_ROW_HEIGHT = 0.27  # inches of a row
_FRAME_HEIGHT = 2.4  # inches of everything around the rows
_BUDGET_STYLES = (
    ("o", BLUE),
    ("s", ORANGE),
    ("D", "#009E73"),
    ("^", "#CC79A7"),
    ("v", "#56B4E9"),
)
_PARTS_HEAD = "sampling / bias / noise"
_STATUS_LENGTH = 105  # letters of a status
_NOTE_WIDTH = 165  # letters of a line of the note under a figure
_TITLE = {"size": 13, "weight": "bold"}
_TICKS = 7
Reference = FitResult | tuple[npt.ArrayLike, npt.ArrayLike]


def _figure(height: float) -> NotebookFigure:
    return NotebookFigure(figsize=(_WIDTH, height), dpi=150, layout="constrained")


def _stacked(
    groups: Sequence[Sequence[ForestRow]], row_height: float
) -> tuple[NotebookFigure, Any]:
    """Return a figure with one panel per group of rows, and its panels from top to bottom."""
    counts = [len(group) for group in groups]
    height = _FRAME_HEIGHT + row_height * max(4, sum(counts)) + 0.45 * (len(groups) - 1)
    figure = _figure(height)
    return figure, figure.subplots(len(groups), 1, squeeze=False, height_ratios=counts)[:, 0]


def _name_rows(panel: Axes, names: Sequence[str]) -> None:
    """Write the names of the rows, the first at the top, and shade every second row."""
    positions = np.arange(len(names))
    labels = ["\n".join(wrapped(name, NAME_LENGTH, 2)) for name in names]
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_yticks(positions, labels, parse_math=False)
    panel.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    for label in panel.get_yticklabels():
        if "\n" in label.get_text():
            label.set(fontsize=8, linespacing=0.95)
    panel.tick_params(axis="x", labelsize=9, color=GREY, labelcolor=INK)
    for position in positions[1::2]:
        panel.axhspan(position - 0.5, position + 0.5, color=PALE, zorder=0)
    panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.spines["bottom"].set_color(GREY)


def _scale(panel: Axes, ends: tuple[float, float], ratio: str) -> None:
    panel.set_xlim(*ends)
    marks = (ratio_ticks if ratio else ticks)(*ends, _TICKS)
    panel.set_xticks([value for value, _ in marks], [label for _, label in marks])


def _note(figure: Figure, words: str) -> None:
    """Write a note under a figure."""
    figure.supxlabel(
        words, x=0.01, ha="left", fontsize=8, color=GREY, linespacing=1.4, parse_math=False
    )


def _title(level: float) -> dict[str, Any]:
    words = f"Estimates and {100 * level:.4g}% confidence intervals"
    return {"title": words, "title_fontproperties": _TITLE}


def _numbers(bars: Sequence[Bar]) -> tuple[Array, Array]:
    """Return the estimates, and how far the intervals go to either side."""
    estimate = np.array([bar.estimate for bar in bars])
    low = np.array([bar.low for bar in bars])
    high = np.array([bar.high for bar in bars])
    return estimate, _arms(estimate, low, high)


def _arms(middle: Array, low: Array, high: Array) -> Array:
    """Return the distances to both ends, as matplotlib draws errors; a negative one is rounding."""
    return np.maximum([middle - low, high - middle], 0)


def _words_in_row(panel: Axes, position: float, words: str, left: int, size: float) -> Any:
    """Write words in the place of a bar, ``left`` points from the axis."""
    return panel.annotate(
        words,
        (0, position),
        (left, 0),
        xycoords=panel.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        fontsize=size,
        color=GREY,
        style="italic",
        parse_math=False,
    )


def forest(
    result: FitResult,
    level: float = 0.95,
    reference: Reference | None = None,
    *,
    exp: bool | None = None,
    intercept: bool = False,
) -> Figure:
    """Draw a forest plot: one row per coefficient, with its interval and the parts of it.

    Parameters
    ----------
    result : FitResult
        The result of a fit.
    level : float
        The confidence level; 0.95 by default.
    reference : FitResult or pair (estimates, intervals), optional
        What is drawn beside each row: another result of the same coefficients, or estimates and
        intervals, a row (low, high) each.  By default nothing is.
    exp : bool, optional
        Whether odds ratios or rate ratios are shown, on a logarithmic axis; by default they are
        where the model has them.  A reference is given as coefficients all the same.
    intercept : bool
        Whether the intercept is drawn; by default it is not.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    InputError
        If ratios are asked of a model that has none, or the reference has other coefficients.

    Notes
    -----
    The thick bar is what sampling error alone would give.  The bar of middle width adds the bound of
    a bias, and the thin bar privacy noise, up to the whole interval.  Their lengths are those of
    `FitResult.interval_parts`, around the estimate.  A coefficient that is not reported keeps its
    row and shows its status; its alternatives are in tables and are not drawn.

    Rows are in the order of the formula.  Axes hold 0, for ratios 1, and nothing is clipped.  Where
    the longest interval of one term is more than 12 times as long as that of another, the rows are
    split into panels with scales of their own: compare lengths within a panel only.  The panels do
    not depend on the estimates.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_  # the noise is off, for examples only
    >>> dp.plot.forest(result).savefig("forest.png")
    """
    ratio = ratio_of(result, ratios=exp)
    rows = result_rows(result, level, intercept=intercept, ratio=ratio)
    compared = None
    row_height = _ROW_HEIGHT
    if reference is not None:
        compared = _ReferenceIntervals.of(reference, result, level)
        row_height = 1.3 * _ROW_HEIGHT
    bias = has_bias_bound(rows)
    groups = panels(rows)
    figure, column = _stacked(groups, row_height)
    for panel, group in zip(column, groups, strict=True):
        part = None
        if compared is not None:
            part = compared.part([result.names.index(row.name) for row in group])
        _result_panel(panel, group, part, ratio, bias=bias)
    title = axis_title(ratio, counts=result.model.counts)
    _frame(figure, level, title, rows, ratio or "estimate")
    notes = _notes(result, result_notes(result, rows, len(groups)), compared)
    _note(figure, textwrap.fill(" ".join(notes), _NOTE_WIDTH))
    return figure


@dataclass(frozen=True)
class _ReferenceIntervals:
    """A second interval for each row, and the note on its privacy."""

    estimate: Array
    intervals: Array
    label: str
    note: str

    @classmethod
    def of(cls, reference: Reference, result: FitResult, level: float) -> "_ReferenceIntervals":
        if isinstance(reference, FitResult):
            if reference.names != result.names:
                raise InputError(
                    "the reference needs the same coefficients in the same order as the result"
                )
            label = "reference"
            note = "The reference is a release of its own."
            if not reference.privacy.private:
                label = "reference, not private"
                note = "NOT PRIVATE: the reference is not protected."
            estimate = np.where(reference.reported, reference.estimate, np.nan)
            return cls(estimate, reference.conf_int(level), label, note)
        estimate, intervals = (np.asarray(part, dtype=float) for part in reference)
        if estimate.shape != (len(result.names),) or intervals.shape != (len(result.names), 2):
            raise InputError(
                f"the reference needs {len(result.names)} estimates and as many rows (low, high)"
            )
        return cls(
            estimate, intervals, "reference", "The privacy statement does not cover the reference."
        )

    def part(self, group: list[int]) -> "_ReferenceIntervals":
        return replace(self, estimate=self.estimate[group], intervals=self.intervals[group])


def _result_panel(
    panel: Axes,
    rows: list[ForestRow],
    compared: _ReferenceIntervals | None,
    ratio: str,
    *,
    bias: bool,
) -> None:
    bars = [bar for row in rows for bar in row.bars if bar is not None]
    _name_rows(panel, [row.title for row in rows])
    reported = [bar for bar in bars if bar.reported]
    estimate, arms = _numbers(reported)
    positions = np.flatnonzero([bar.reported for bar in bars]) - (0.14 if compared else 0)
    panel.axvline(0, color=INK, linewidth=1)
    panel.errorbar(
        estimate,
        positions,
        xerr=arms,
        fmt="none",
        ecolor=ORANGE,
        elinewidth=1.5,
        capsize=3,
        label=WITH_NOISE,
    )
    if bias:
        _part(
            panel, positions, [bar.without_noise for bar in reported], PURPLE, 3.6, WITH_BIAS_BOUND
        )
    _part(panel, positions, [bar.sampling for bar in reported], BLUE, 6.5, SAMPLING_ERROR)
    panel.plot(
        estimate, positions, "o", color="white", markeredgecolor=INK, markersize=4, label=ESTIMATE
    )
    ends: list[float] = []
    if compared:
        _draw_reference(panel, compared)
        ends = compared.intervals.ravel().tolist()
    for position, bar in enumerate(bars):
        if bar.reported:
            _columns_right(panel, position, bar.parts, bar.label)
        else:
            _draw_status(panel, position, bar.status)
    _scale(panel, limits(rows, ends), ratio)


def _part(
    panel: Axes,
    positions: npt.ArrayLike,
    ends: Sequence[tuple[float, float]],
    colour: str,
    width: float,
    label: str,
) -> None:
    """Draw one part of each interval, which has square ends at its numbers."""
    lows = [low for low, _ in ends]
    highs = [high for _, high in ends]
    panel.hlines(positions, lows, highs, color=colour, linewidth=width, label=label)


def _columns_right(panel: Axes, position: float, share: str, label: str) -> None:
    """Write two columns right of a panel."""
    for words, offset, side in ((share, 86, "right"), (label, 98, "left")):
        panel.annotate(
            words,
            (1, position),
            (offset, 0),
            xycoords=panel.get_yaxis_transform(),
            textcoords="offset points",
            ha=side,
            va="center",
            fontsize=8.5,
            color=INK,
            parse_math=False,
            annotation_clip=False,
        )


def _draw_status(panel: Axes, position: float, status: str) -> None:
    """Write a status in the place of a bar; however long it is, the layout leaves it out."""
    words = _words_in_row(panel, position, shortened(status, _STATUS_LENGTH), 6, 8.5)
    words.set_annotation_clip(False)
    words.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
    words.set_in_layout(False)


def _draw_reference(panel: Axes, compared: _ReferenceIntervals) -> None:
    finite = np.isfinite(compared.intervals).all(axis=1)
    estimate = compared.estimate[finite]
    low, high = compared.intervals[finite].T
    panel.errorbar(
        estimate,
        np.flatnonzero(finite) + 0.24,
        xerr=_arms(estimate, low, high),
        fmt="s",
        color=GREY,
        markerfacecolor="white",
        markersize=3.5,
        elinewidth=1.2,
        label=compared.label,
    )


def _frame(
    figure: Figure, level: float, title: str, rows: Sequence[ForestRow], number: str
) -> None:
    """Write the heads of the columns, the title of the axis, and the legend."""
    first = figure.axes[0]
    heads = (_PARTS_HEAD, f"{number.lower()} ({100 * level:.4g}% interval)")
    _columns_right(first, -0.85, *heads)
    figure.axes[-1].set_xlabel(title, fontsize=9, color=INK)
    key = {
        str(label): handle
        for panel in figure.axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    labels = [ESTIMATE, SAMPLING_ERROR]
    if has_bias_bound(rows):
        labels.append(WITH_BIAS_BOUND)
    labels.append(WITH_NOISE)
    labels += [label for label in key if label not in labels]
    figure.legend(
        [key[label] for label in labels],
        labels,
        loc="outside upper center",
        ncols=len(labels),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        **_title(level),
    )


def _notes(
    result: FitResult, notes: Sequence[str], compared: _ReferenceIntervals | None
) -> list[str]:
    """Return what a reader of the figure alone must know."""
    privacy = result.privacy
    notes = list(notes)
    if isinstance(privacy.budget, NoPrivacy):
        notes.append("The noise was off.")
    else:
        notes.append(f"Privacy: {privacy.budget}; protects {privacy.unit}.")
    if compared:
        notes.append(compared.note)
    if not privacy.private:
        notes.append("NOT PRIVATE: do not publish.")
    return notes


def compare(comparison: Comparison) -> Figure:
    """Draw the models of a comparison beside each other: one row per term, one bar per model.

    Parameters
    ----------
    comparison : Comparison
        The models, from `dp.compare`.

    Returns
    -------
    Figure
        A matplotlib figure.

    Notes
    -----
    Colours and shapes distinguish the models, and every model has the same position in all rows; a
    term that is not in a model has no bar there, and one that is not reported says so.  Intercepts
    are not drawn, since each belongs to the centre of its own fit.  Rows are in the order of the
    formulas, and panels as in `forest`.  With ratios the axis is logarithmic and holds 1.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> one = model.fit(data.table).result_  # the noise is off, for examples only
    >>> dp.plot.compare(dp.compare([one, one])).savefig("models.png")
    """
    groups = panels(model_rows(comparison))
    row_height = _ROW_HEIGHT * max(1.0, 0.55 * len(comparison.names))
    figure, column = _stacked(groups, row_height)
    for panel, group in zip(column, groups, strict=True):
        _models_panel(panel, group, comparison)
    title = "Ratios, on a logarithmic scale" if comparison.ratios else axis_title("", counts=False)
    column[-1].set_xlabel(title, fontsize=9, color=INK)
    handles = [
        _errorbar(column[0], style, np.empty(0), np.empty(0), np.empty((2, 0)))
        for style in MODEL_STYLES[: len(comparison.names)]
    ]
    legend = figure.legend(
        handles,
        [shortened(name) for name in comparison.names],
        loc="outside upper center",
        ncols=min(4, len(handles)),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        **_title(comparison.level),
    )
    for words in legend.get_texts():
        words.set_parse_math(False)
    _note(figure, textwrap.fill(" ".join(_models_notes(comparison, len(groups))), _NOTE_WIDTH))
    return figure


def _models_panel(panel: Axes, rows: list[ForestRow], comparison: Comparison) -> None:
    names = comparison.names
    _name_rows(panel, [row.title for row in rows])
    panel.axvline(0, color=INK, linewidth=1)
    for k, name in enumerate(names):
        offset = 0.8 * ((k + 0.5) / len(names) - 0.5)
        positions = []
        reported = []
        for position, row in enumerate(rows):
            bar = row.bars[k]
            if bar is not None and bar.reported:
                positions.append(position + offset)
                reported.append(bar)
            elif missing_label(bar, name):
                _words_in_row(panel, position + offset, missing_label(bar, name), 4, 7)
        estimate, arms = _numbers(reported)
        _errorbar(panel, MODEL_STYLES[k], estimate, np.array(positions), arms)
    _scale(panel, limits(rows), "ratio" if comparison.ratios else "")


def _errorbar(
    panel: Axes, style: ModelStyle, estimate: Array, positions: Array, arms: Array
) -> Any:
    """Draw the bars of one model."""
    return panel.errorbar(
        estimate,
        positions,
        xerr=arms,
        fmt=style.shape,
        color=style.colour,
        markerfacecolor=style.fill,
        markersize=5,
        elinewidth=1.5,
    )


def _models_notes(comparison: Comparison, count: int) -> list[str]:
    """Return what a reader of the figure alone must know."""
    promises: dict[str, list[str]] = {}
    for name, result in zip(comparison.names, comparison.results, strict=True):
        promise = "NOT PRIVATE, do not publish"
        if result.privacy.private:
            promise = f"{result.privacy.budget}; protects {result.privacy.unit}"
        promises.setdefault(promise, []).append(name)
    privacy = [f"{', '.join(names)}: {promise}." for promise, names in promises.items()]
    return [*model_notes(comparison, count), "Privacy.", *privacy]


def coverage(study: Study) -> Figure:
    """Draw a coverage study: coverage by the nominal level, and length by that without noise.

    Parameters
    ----------
    study : Study
        The study, from `dp.simulate.coverage`.

    Returns
    -------
    Figure
        A matplotlib figure with two panels, one row per coefficient.

    Notes
    -----
    Whiskers are intervals of Wilson (1927): every coverage within two of its Monte Carlo standard
    errors of the one that was found.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.5))
    >>> study = dp.simulate.coverage(model, data.table, replicates=4)
    >>> dp.plot.coverage(study).savefig("coverage.png")
    """
    figure = _figure(_FRAME_HEIGHT + _ROW_HEIGHT * max(4, len(study.names)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.0, 1.1))
    for panel, title in ((left, "Coverage"), (right, "Length")):
        _name_rows(panel, study.names)
        panel.set_title(title, fontsize=10.5, color=INK, loc="left")
    _coverage_panel(left, study)
    _length_panel(right, study)
    figure.legend(
        loc="outside upper center",
        ncols=5,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        columnspacing=1.5,
        title=f"Coverage and length of {100 * study.level:.4g} % confidence intervals",
        title_fontproperties=_TITLE,
    )
    facts = (
        f"{study.replicates:,} replicates, seed {study.seed}; {study.setting}. s.e.: Monte Carlo "
        "standard error."
    )
    warning = "NOT PRIVATE: a study reads the records without noise. Do not publish it from sensitive data."
    _note(figure, f"{textwrap.fill(facts, _NOTE_WIDTH)}\n{warning}")
    return figure


def event_study(effects: PeriodEffects) -> Figure:
    """Draw the effects of an event study by period, with intervals and a simultaneous band.

    Parameters
    ----------
    effects : PeriodEffects
        The effects, from ``period_effects()`` of an event study.

    Returns
    -------
    Figure
        A matplotlib figure. Thick lines are intervals of one effect each, thin ones with caps the band that
        covers all effects together; the reference period is hollow, at 0.

    Examples
    --------
    >>> import dpinfer as dp
    >>> table = {
    ...     "id": [k // 3 for k in range(300)],
    ...     "year": [2001 + k % 3 for k in range(300)],
    ...     "clinic": [k // 3 % 2 == 1 for k in range(300)],
    ...     "visits": [k // 3 % 7 + k % 2 for k in range(300)],
    ... }
    >>> schema = dp.Schema.parse('''
    ... unit = {name = "one patient", column = "id"}
    ... columns.visits = {type = "number", low = 0, high = 20}
    ... columns.clinic = {type = "boolean"}
    ... columns.year = {type = "integer", low = 2001, high = 2003, levels = [2001, 2002, 2003]}
    ... ''')
    >>> study = dp.EventStudy(
    ...     "visits ~ 1", period="year", start=2003, treated="clinic", window=(-2, 0),
    ...     schema=schema, budget=dp.NoPrivacy(),  # the noise is off, for examples only
    ... )
    >>> dp.plot.event_study(study.fit(table).period_effects()).savefig("effects.png")
    """
    figure = _figure(4.6)
    panel = figure.subplots()
    known = effects.known
    periods = np.array(effects.periods)
    labels = dict(zip(effects.periods, effects.labels, strict=True))
    panel.axhline(0, color=INK, linewidth=1)
    if effects.reference is not None:
        panel.axvline(-0.5, color=GREY, linewidth=1, linestyle=(0, (4, 2)))
        panel.plot(
            [effects.reference], [0], "o", color=BLUE, markerfacecolor="white", label="reference"
        )
        labels.setdefault(effects.reference, f"{effects.reference}")
    percent = f"{100 * effects.level:.4g} %"
    for ends, style, words in (
        (effects.band, {"linewidth": 1.0, "capsize": 4}, f"{percent} band of all effects together"),
        (effects.interval, {"linewidth": 3.0, "capsize": 0}, f"{percent} interval of one effect"),
    ):
        panel.errorbar(
            periods[known],
            effects.estimate[known],
            yerr=_arms(effects.estimate[known], ends[known, 0], ends[known, 1]),
            fmt="o",
            color=BLUE,
            elinewidth=style["linewidth"],
            capsize=style["capsize"],
            label=words,
        )
    for period in periods[~known]:
        panel.annotate(
            "not\nreported",
            (period, 0),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=GREY,
            style="italic",
        )
    places = sorted(labels)
    panel.set_xticks(places, ["\n".join(textwrap.wrap(labels[place], 9)) for place in places])
    panel.set_xlim(places[0] - 0.6, places[-1] + 0.6)
    panel.tick_params(labelsize=9, color=GREY, labelcolor=INK)
    panel.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    panel.set_xlabel("periods since the start", fontsize=9, color=INK)
    panel.set_ylabel("effect", fontsize=9, color=INK)
    figure.legend(
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        title="Effects by period relative to the start",
        title_fontproperties=_TITLE,
    )
    return figure


def forecast(foreseen: Forecast) -> Figure:
    """Draw a forecast: how many times as long intervals are as those without privacy.

    Parameters
    ----------
    foreseen : Forecast
        The forecast, from `dp.simulate.forecast`.

    Returns
    -------
    Figure
        A matplotlib figure, one row per coefficient.

    Notes
    -----
    There is one mark per budget, hollow where fewer than half of the simulated fits report the
    coefficient.  The half-width at the last budget is printed on the right.

    Examples
    --------
    >>> import dpinfer as dp
    >>> schema = dp.datasets.rand_hie().schema
    >>> found = dp.simulate.forecast(
    ...     "mdvis ~ physlm", schema=schema, records=20_190, budgets=[dp.ZCDP(0.1)], replicates=2
    ... )
    >>> dp.plot.forecast(found).savefig("forecast.png")
    """
    figure = _figure(_FRAME_HEIGHT + _ROW_HEIGHT * max(4, len(foreseen.names)))
    panel = figure.subplots()
    _name_rows(panel, foreseen.names)
    panel.axvline(1, color=INK, linewidth=1)
    _draw_widths(panel, foreseen)
    for position, (half, share) in enumerate(
        zip(foreseen.half_width[-1], foreseen.reported[-1], strict=True)
    ):
        width = f"±{half:.3g}" if np.isfinite(half) else "not reported"
        _columns_right(panel, position, f"{100 * share:.0f}%", width)
    _columns_right(panel, -0.85, "reported", named(foreseen.budgets[-1]))
    _log_axis(panel, (1.0, 2.0, 5.0))
    panel.set_xlabel("half-width, times that without privacy (log scale)", fontsize=9, color=INK)
    figure.legend(
        loc="outside upper center",
        ncols=5,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        title=f"Forecast of {100 * foreseen.level:.4g} % confidence intervals",
        title_fontproperties=_TITLE,
    )
    hollow = "Hollow marks: fewer than half of the simulated fits report the coefficient."
    statements = (hollow, *foreseen.statements()[1:])
    _note(figure, "\n".join(textwrap.fill(words, _NOTE_WIDTH) for words in statements))
    return figure


def _draw_widths(panel: Axes, foreseen: Forecast) -> None:
    """Draw one mark per budget and coefficient."""
    positions = np.arange(len(foreseen.names))
    with np.errstate(invalid="ignore"):
        times = foreseen.half_width / foreseen.nonprivate
    for b, budget in enumerate(foreseen.budgets):
        shape, colour = _BUDGET_STYLES[b % len(_BUDGET_STYLES)]
        often = foreseen.reported[b] >= 0.5
        finite = np.isfinite(times[b])
        for chosen, fill, label in (
            (finite & often, colour, named(budget)),
            (finite & ~often, "white", None),
        ):
            panel.plot(
                times[b][chosen],
                positions[chosen],
                shape,
                color=fill,
                markersize=6,
                markeredgecolor=colour,
                label=label,
            )


def _coverage_panel(panel: Axes, study: Study) -> None:
    low, high = _whiskers(study.coverage, study.replicates)
    positions = np.arange(len(study.names))
    below = high < study.level
    panel.axvline(
        study.level,
        color=INK,
        linewidth=1.2,
        linestyle=(0, (4, 2)),
        label=f"nominal level {study.level:g}",
    )
    for chosen, colour, shape, label in (
        (~below, BLUE, "o", "coverage ± 2 s.e."),
        (below, ORANGE, "D", "below nominal by over 2 s.e."),
    ):
        if chosen.any():
            panel.errorbar(
                study.coverage[chosen],
                positions[chosen],
                xerr=_arms(study.coverage[chosen], low[chosen], high[chosen]),
                fmt=shape,
                color=colour,
                markersize=5,
                capsize=2.5,
                elinewidth=1.3,
                label=label,
                clip_on=False,
            )
    lowest = min(float(low.min()), study.level - 0.6 * (1 - study.level))
    panel.set_xlim(max(0.0, lowest - 0.04 * (1 - lowest)), 1.0)
    panel.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    panel.set_xlabel("share of replicates that cover the target", fontsize=9, color=INK)


def _length_panel(panel: Axes, study: Study) -> None:
    positions = np.arange(len(study.names))
    private = study.length
    plain = study.nonprivate_length
    panel.hlines(
        positions,
        np.minimum(private, plain),
        np.maximum(private, plain),
        color="#9A9A9A",
        linewidth=1.4,
    )
    if np.isfinite(plain).any():
        panel.plot(
            plain,
            positions,
            "o",
            color="white",
            markeredgecolor=INK,
            markersize=5.5,
            label="length without noise",
        )
    panel.plot(private, positions, "s", color=BLUE, markersize=5, label="length, private")
    for position in positions[~np.isfinite(private)]:
        panel.text(
            0.5,
            position,
            "not finite in some replicates",
            transform=panel.get_yaxis_transform(),
            fontsize=8,
            color=ORANGE,
            ha="center",
            va="center",
        )
    shown = np.concatenate([private, plain])
    shown = shown[np.isfinite(shown)]
    label = "mean length of the interval"
    if shown.size and shown.min() > 0 and shown.max() > 15 * shown.min():
        _log_axis(panel)
        label += " (log scale)"
    elif shown.size:
        panel.set_xlim(0, 1.05 * float(shown.max()) or 1.0)
    panel.set_xlabel(label, fontsize=9, color=INK)


def _log_axis(panel: Axes, ticks: tuple[float, ...] = (1.0, 3.0)) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=ticks, numticks=12))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    panel.xaxis.set_minor_formatter(FuncFormatter(lambda _x, _: ""))
    panel.margins(x=0.06)


def _whiskers(share: Array, replicates: int) -> tuple[Array, Array]:
    """Return Wilson's interval (1927) at two standard errors: the p with |share - p| <= 2 sqrt(p (1
    - p)/n).
    """
    z2 = 4 / replicates
    centre = (share + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * share * (1 - share) + z2**2 / 4) / (1 + z2)
    return centre - half, centre + half
