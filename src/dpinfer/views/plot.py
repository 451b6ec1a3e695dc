"""Figures of results, studies and forecasts with matplotlib; no function changes global state."""

import io
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
from dpinfer.result.result import FitResult
from dpinfer.simulate import Forecast, Study
from dpinfer.simulate.forecast import label as named
from dpinfer.views import forests
from dpinfer.views.forest import (
    BLUE,
    FRAME,
    GREY,
    INK,
    LINE,
    ORANGE,
    WIDTH,
    Bar,
    bars,
    forest_text,
    limits,
    not_drawn,
    panels,
    rows,
    short,
)

__all__ = ["compare", "coverage", "forecast", "forest", "forest_text"]

_MARKS = (("o", BLUE), ("s", ORANGE), ("D", "#009E73"), ("^", "#CC79A7"), ("v", "#56B4E9"))
_STATUS = 105  # letters of a status
_LETTERS = 165  # of a line of the note under a figure
_TITLE = {"size": 13, "weight": "bold"}
_AXIS = {
    False: "coefficient, original units",
    True: "coefficient of the logarithm of the rate, original units",
}
_POINT = "estimate"
_INNER = "part of it from sampling error alone"
_WHOLE = "whole interval: sampling error and privacy noise"
Reference = FitResult | tuple[npt.ArrayLike, npt.ArrayLike]


class _Picture(Figure):
    """Notebooks show it without pyplot, which would be global state."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def forest(result: FitResult, level: float = 0.95, reference: Reference | None = None) -> Figure:
    """Draw a forest plot: one row per coefficient, with its interval and the share of privacy noise.

    Parameters
    ----------
    result : FitResult
        The result of a fit.
    level : float
        The confidence level; 0.95 by default.
    reference : FitResult or pair (estimates, intervals), optional
        What is drawn beside each row: another result of the same coefficients, or estimates and
        intervals, a row (low, high) each.  By default nothing is.

    Returns
    -------
    Figure
        A matplotlib figure.

    Notes
    -----
    The thin bar is the whole interval.  The thick bar inside is what sampling error alone would
    give at the same estimate; the rest is privacy noise.  A coefficient that is not reported keeps
    its row and shows its status; its alternatives are in tables and are not drawn.

    All numbers are in original units on a linear axis that holds 0, and nothing is clipped.  Where
    one interval reaches more than 12 times as far from 0 as another, the rows are split into panels
    with scales of their own: compare lengths within a panel only.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_  # the noise is off, for examples only
    >>> dp.plot.forest(result).savefig("forest.png")
    """
    drawn = bars(result, level)
    beside = None
    line = LINE
    if reference is not None:
        beside = _Beside.of(reference, result, level)
        line = 1.3 * LINE
    groups = panels(drawn)
    counts = [len(group) for group in groups]
    figure = _figure(FRAME + line * max(4, sum(counts)) + 0.45 * (len(groups) - 1))
    column = figure.subplots(len(groups), 1, squeeze=False, height_ratios=counts)[:, 0]
    for axes, group in zip(column, groups, strict=True):
        _panel(axes, [drawn[j] for j in group], beside.rows(group) if beside else None)
    _frame(figure, level, _AXIS[result.model.counts])
    _note(figure, textwrap.fill(" ".join(_notes(result, len(groups), beside)), _LETTERS))
    return figure


def _figure(height: float) -> _Picture:
    return _Picture(figsize=(WIDTH, height), dpi=150, layout="constrained")


def _note(figure: Figure, words: str) -> None:
    """What stands under a figure."""
    figure.supxlabel(
        words, x=0.01, ha="left", fontsize=8, color=GREY, linespacing=1.4, parse_math=False
    )


@dataclass(frozen=True)
class _Beside:
    """A second line for each row, and what is to be said of its privacy."""

    estimate: Array
    intervals: Array
    label: str
    note: str

    @classmethod
    def of(cls, reference: Reference, result: FitResult, level: float) -> "_Beside":
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

    def rows(self, group: list[int]) -> "_Beside":
        return replace(self, estimate=self.estimate[group], intervals=self.intervals[group])


def _panel(axes: Axes, drawn: list[Bar], beside: _Beside | None) -> None:
    rows(axes, [bar.name for bar in drawn])
    shown = [bar for bar in drawn if bar.shown]
    estimate = np.array([bar.estimate for bar in shown])
    low = np.array([bar.low for bar in shown])
    high = np.array([bar.high for bar in shown])
    at = np.flatnonzero([bar.shown for bar in drawn]) - (0.14 if beside else 0)
    axes.axvline(0, color=INK, linewidth=1)
    axes.errorbar(
        estimate,
        at,
        xerr=_arms(estimate, low, high),
        fmt="none",
        ecolor=ORANGE,
        elinewidth=1.5,
        capsize=3,
        label=_WHOLE,
    )
    axes.hlines(
        at,
        [bar.inner_low for bar in shown],
        [bar.inner_high for bar in shown],
        color=BLUE,
        linewidth=6,
        label=_INNER,
    )
    axes.plot(estimate, at, "o", color="white", markeredgecolor=INK, markersize=4, label=_POINT)
    ends = [*low, *high]
    if beside:
        _draw_beside(axes, beside)
        ends += [*beside.intervals.ravel()]
    for place, bar in enumerate(drawn):
        if bar.shown:
            _beyond(axes, place, bar.share, bar.words)
        else:
            _instead(axes, place, bar.status)
    axes.set_xlim(*limits(ends))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))


def _arms(middle: Array, low: Array, high: Array) -> Array:
    """From the middle to both ends, as matplotlib draws errors; a negative length is rounding."""
    return np.maximum([middle - low, high - middle], 0)


def _beyond(axes: Axes, place: float, share: str, words: str) -> None:
    """Two columns right of the axes."""
    for word, offset, side in ((share, 44, "right"), (words, 58, "left")):
        axes.annotate(
            word,
            (1, place),
            (offset, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha=side,
            va="center",
            fontsize=8.5,
            color=INK,
            parse_math=False,
            annotation_clip=False,
        )


def _instead(axes: Axes, place: float, status: str) -> None:
    """A status where the bar would be: it takes no room from the others, however long it is."""
    note = axes.annotate(
        short(status, _STATUS),
        (0, place),
        (6, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=GREY,
        style="italic",
        parse_math=False,
        annotation_clip=False,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
    note.set_in_layout(False)


def _draw_beside(axes: Axes, beside: _Beside) -> None:
    shown = np.isfinite(beside.intervals).all(axis=1)
    estimate = beside.estimate[shown]
    low, high = beside.intervals[shown].T
    axes.errorbar(
        estimate,
        np.flatnonzero(shown) + 0.24,
        xerr=_arms(estimate, low, high),
        fmt="s",
        color=GREY,
        markerfacecolor="white",
        markersize=3.5,
        elinewidth=1.2,
        label=beside.label,
    )


def _frame(figure: Figure, level: float, numbers: str) -> None:
    """Heads of the columns, what the numbers are, and the legend."""
    first = figure.axes[0]
    _beyond(first, -0.85, "noise", f"estimate ({100 * level:.4g}% interval)")
    figure.axes[-1].set_xlabel(numbers, fontsize=9, color=INK)
    key = {
        str(label): handle for handle, label in zip(*first.get_legend_handles_labels(), strict=True)
    }
    labels = [_POINT, _WHOLE, _INNER, *(key.keys() - {_POINT, _WHOLE, _INNER})]
    figure.legend(
        [key[label] for label in labels],
        labels,
        loc="outside upper center",
        ncols=2 if len(labels) > 3 else 3,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        title=f"Estimates and {100 * level:.4g}% confidence intervals",
        title_fontproperties=_TITLE,
    )


def _notes(result: FitResult, count: int, beside: _Beside | None) -> list[str]:
    """What a reader of the figure alone must know."""
    privacy = result.privacy
    notes = []
    if count > 1:
        notes.append("Each panel has a scale of its own: compare lengths within a panel only.")
    if isinstance(privacy.budget, NoPrivacy):
        notes.append("The noise was off.")
    else:
        notes.append(
            f"Noise: its share of the variance. Privacy: {privacy.budget}; protects {privacy.unit}."
        )
    notes += not_drawn(result)
    if beside:
        notes.append(beside.note)
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
    are not drawn, since each belongs to the centre of its own fit.  As in `forest`, axes are linear
    and hold 0, and rows whose intervals are of very different size are in panels with scales of
    their own.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> one = model.fit(data.table).result_  # the noise is off, for examples only
    >>> dp.plot.compare(dp.compare([one, one])).savefig("models.png")
    """
    terms = forests.rows(comparison)
    groups = panels(terms)
    counts = [len(group) for group in groups]
    line = LINE * max(1.0, 0.55 * len(comparison.names))
    figure = _figure(FRAME + line * max(4, sum(counts)) + 0.45 * (len(groups) - 1))
    column = figure.subplots(len(groups), 1, squeeze=False, height_ratios=counts)[:, 0]
    for axes, group in zip(column, groups, strict=True):
        _models_panel(axes, [terms[j] for j in group], comparison.names)
    column[-1].set_xlabel("coefficient, original units", fontsize=9, color=INK)
    handles = [
        _errorbar(column[0], mark, np.empty(0), np.empty(0), np.empty((2, 0)))
        for mark in forests.MARKS[: len(comparison.names)]
    ]
    legend = figure.legend(
        handles,
        [short(name) for name in comparison.names],
        loc="outside upper center",
        ncols=min(4, len(handles)),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        title=f"Estimates and {100 * comparison.level:.4g}% confidence intervals",
        title_fontproperties=_TITLE,
    )
    for words in legend.get_texts():
        words.set_parse_math(False)
    _note(figure, textwrap.fill(" ".join(_models_notes(comparison, len(groups))), _LETTERS))
    return figure


def _models_panel(axes: Axes, terms: list[forests.Term], names: Sequence[str]) -> None:
    rows(axes, [term.name for term in terms])
    axes.axvline(0, color=INK, linewidth=1)
    for k, name in enumerate(names):
        offset = 0.8 * ((k + 0.5) / len(names) - 0.5)
        places = []
        shown = []
        for place, term in enumerate(terms):
            bar = term.bars[k]
            if bar is not None and bar.shown:
                places.append(place + offset)
                shown.append(bar)
            elif forests.word(bar, name):
                _model_word(axes, place + offset, forests.word(bar, name))
        estimate = np.array([bar.estimate for bar in shown])
        low = np.array([bar.low for bar in shown])
        high = np.array([bar.high for bar in shown])
        _errorbar(axes, forests.MARKS[k], estimate, np.array(places), _arms(estimate, low, high))
    axes.set_xlim(*forests.limits(terms))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))


def _errorbar(axes: Axes, mark: forests.Mark, estimate: Array, at: Array, arms: Array) -> Any:
    """The bars of one model."""
    return axes.errorbar(
        estimate,
        at,
        xerr=arms,
        fmt=mark.shape,
        color=mark.colour,
        markerfacecolor=mark.fill,
        markersize=5,
        elinewidth=1.5,
    )


def _model_word(axes: Axes, place: float, words: str) -> None:
    """Words where the bar of a model would be."""
    axes.annotate(
        words,
        (0, place),
        (4, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        fontsize=7,
        color=GREY,
        style="italic",
        parse_math=False,
    )


def _models_notes(comparison: Comparison, count: int) -> list[str]:
    """What a reader of the picture alone must know."""
    promises: dict[str, list[str]] = {}
    for name, result in zip(comparison.names, comparison.results, strict=True):
        promise = "NOT PRIVATE, do not publish"
        if result.privacy.private:
            promise = f"{result.privacy.budget}; protects {result.privacy.unit}"
        promises.setdefault(promise, []).append(name)
    privacy = [f"{', '.join(names)}: {promise}." for promise, names in promises.items()]
    return [*forests.notes(comparison, count), "Privacy.", *privacy]


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
    figure = _figure(FRAME + LINE * max(4, len(study.names)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.0, 1.1))
    for panel, title in ((left, "Coverage"), (right, "Length")):
        rows(panel, study.names)
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
    _note(figure, f"{textwrap.fill(facts, _LETTERS)}\n{warning}")
    return figure


def forecast(found: Forecast) -> Figure:
    """Draw a forecast: how many times as long intervals are as those without privacy.

    Parameters
    ----------
    found : Forecast
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
    figure = _figure(FRAME + LINE * max(4, len(found.names)))
    panel = figure.subplots()
    rows(panel, found.names)
    panel.axvline(1, color=INK, linewidth=1)
    _marks(panel, found)
    for place, (half, share) in enumerate(
        zip(found.half_width[-1], found.reported[-1], strict=True)
    ):
        width = f"±{half:.3g}" if np.isfinite(half) else "not reported"
        _beyond(panel, place, f"{100 * share:.0f}%", width)
    _beyond(panel, -0.85, "reported", named(found.budgets[-1]))
    _log_axis(panel, (1.0, 2.0, 5.0))
    panel.set_xlabel("half-width, times that without privacy (log scale)", fontsize=9, color=INK)
    figure.legend(
        loc="outside upper center",
        ncols=5,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        title=f"Forecast of {100 * found.level:.4g} % confidence intervals",
        title_fontproperties=_TITLE,
    )
    hollow = "Hollow marks: fewer than half of the simulated fits report the coefficient."
    statements = (hollow, *found.statements()[1:])
    _note(figure, "\n".join(textwrap.fill(words, _LETTERS) for words in statements))
    return figure


def _marks(panel: Axes, found: Forecast) -> None:
    """One mark per budget and coefficient."""
    places = np.arange(len(found.names))
    with np.errstate(invalid="ignore"):
        times = found.half_width / found.nonprivate
    for b, budget in enumerate(found.budgets):
        shape, colour = _MARKS[b % len(_MARKS)]
        often = found.reported[b] >= 0.5
        finite = np.isfinite(times[b])
        for chosen, fill, label in (
            (finite & often, colour, named(budget)),
            (finite & ~often, "white", None),
        ):
            panel.plot(
                times[b][chosen],
                places[chosen],
                shape,
                color=fill,
                markersize=6,
                markeredgecolor=colour,
                label=label,
            )


def _coverage_panel(panel: Axes, study: Study) -> None:
    low, high = _whiskers(study.coverage, study.replicates)
    places = np.arange(len(study.names))
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
                places[chosen],
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
    places = np.arange(len(study.names))
    private = study.length
    plain = study.nonprivate_length
    panel.hlines(
        places,
        np.minimum(private, plain),
        np.maximum(private, plain),
        color="#9A9A9A",
        linewidth=1.4,
    )
    if np.isfinite(plain).any():
        panel.plot(
            plain,
            places,
            "o",
            color="white",
            markeredgecolor=INK,
            markersize=5.5,
            label="length without noise",
        )
    panel.plot(private, places, "s", color=BLUE, markersize=5, label="length, private")
    for place in places[~np.isfinite(private)]:
        panel.text(
            0.5,
            place,
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
    """Wilson's interval at two standard errors: the p with |share - p| <= 2 sqrt(p (1 - p)/n)."""
    z2 = 4 / replicates
    centre = (share + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * share * (1 - share) + z2**2 / 4) / (1 + z2)
    return centre - half, centre + half
