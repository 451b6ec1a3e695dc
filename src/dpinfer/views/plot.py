"""Pictures of results and studies: matplotlib figures and, of results, text.  No function touches
global state.
"""

import io
import textwrap
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError, installed, missing

if not installed("matplotlib"):
    raise missing("dp.plot", "report", "matplotlib")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from dpinfer.maths.arrays import Array
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result.result import FitResult
from dpinfer.simulate import Forecast, Study
from dpinfer.simulate.forecast import label as named
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

__all__ = ["coverage", "forecast", "forest", "forest_text"]

_MARKS = (("o", BLUE), ("s", ORANGE), ("D", "#009E73"), ("^", "#CC79A7"), ("v", "#56B4E9"))
_STATUS = 105  # letters of a status
_POINT, _INNER = "estimate", "part of it from sampling error alone"
_WHOLE = "whole interval: sampling error and privacy noise"
Reference = FitResult | tuple[npt.ArrayLike, npt.ArrayLike]


class _Picture(Figure):
    """Notebooks show it without pyplot, which would be global state."""

    def _repr_png_(self) -> bytes:
        self.savefig(buffer := io.BytesIO(), format="png", dpi=100)
        return buffer.getvalue()


def forest(result: FitResult, level: float = 0.95, reference: Reference | None = None) -> Figure:
    """One row a coefficient: the estimate, its interval of the given ``level``, and how much of it
    is privacy noise.

    The thin bar is the whole interval.  The thick bar inside is what sampling error alone would
    give at the same estimate; the rest is privacy noise.  An open coefficient keeps its row and
    shows its status; what is known instead of it stands in tables and is not drawn.

    All numbers are in original units on a linear axis that holds 0, and nothing is clipped.  Where
    one interval reaches more than 12 times as far from 0 as another, the rows are split into
    panels, each with a scale of its own; compare lengths within a panel only.

    ``reference`` is drawn beside each row: another result of the same coefficients, or a pair of
    estimates and intervals (a row low, high each).  Save the figure with
    ``forest(result).savefig("forest.png")``.
    """
    drawn, beside = (
        bars(result, level),
        None if reference is None else _Beside.of(reference, result, level),
    )
    groups = panels(drawn)
    counts = [len(group) for group in groups]
    height = (
        FRAME + (1.3 if beside else 1.0) * LINE * max(4, sum(counts)) + 0.45 * (len(groups) - 1)
    )
    figure = _Picture(figsize=(WIDTH, height), dpi=150, layout="constrained")
    column = figure.subplots(len(groups), 1, squeeze=False, height_ratios=counts)[:, 0]
    for axes, group in zip(column, groups, strict=True):
        _panel(axes, [drawn[j] for j in group], beside.rows(group) if beside else None)
    _frame(figure, level)
    note = textwrap.fill(" ".join(_notes(result, len(groups), beside)), 165)
    figure.supxlabel(
        note, x=0.01, ha="left", fontsize=8, color=GREY, linespacing=1.4, parse_math=False
    )
    return figure


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
            private = reference.privacy.private
            note = (
                "The reference is a release of its own."
                if private
                else "NOT PRIVATE: the reference is not protected."
            )
            estimate = np.where(reference.reported, reference.estimate, np.nan)
            return cls(
                estimate,
                reference.conf_int(level),
                "reference" if private else "reference, not private",
                note,
            )
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
    places, shown = np.arange(len(drawn)), np.array([bar.shown for bar in drawn])
    values = np.array(
        [(bar.estimate, bar.low, bar.high, bar.inner_low, bar.inner_high) for bar in drawn]
    )
    estimate, low, high, inner_low, inner_high = values[shown].T
    at = places[shown] - (0.14 if beside else 0)
    axes.axvline(0, color=INK, linewidth=1)
    error = np.maximum([estimate - low, high - estimate], 0)
    axes.errorbar(
        estimate, at, xerr=error, fmt="none", ecolor=ORANGE, elinewidth=1.5, capsize=3, label=_WHOLE
    )
    axes.hlines(at, inner_low, inner_high, color=BLUE, linewidth=6, label=_INNER)
    axes.plot(estimate, at, "o", color="white", markeredgecolor=INK, markersize=4, label=_POINT)
    if beside:
        _draw_beside(axes, beside)
    for place, bar in enumerate(drawn):
        if bar.shown:
            _beyond(axes, place, bar.share, bar.words)
        else:
            _instead(axes, place, bar.status)
    axes.set_xlim(*limits([*low, *high, *(beside.intervals.ravel() if beside else ())]))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))


def _beyond(axes: Axes, place: float, share: str, words: str) -> None:
    """Two columns right of the axes."""
    for word, offset, side in ((share, 44, "right"), (words, 58, "left")):
        axes.annotate(
            word, (1, place), (offset, 0), xycoords=axes.get_yaxis_transform(), textcoords="offset points", ha=side,
            va="center", fontsize=8.5, color=INK, parse_math=False, annotation_clip=False,
        )  # fmt: skip


def _instead(axes: Axes, place: float, status: str) -> None:
    """A status where the bar would be: it takes no room from the others, however long it is."""
    axes.annotate(
        short(status, _STATUS), (0, place), (6, 0), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
        va="center", fontsize=8.5, color=GREY, style="italic", parse_math=False, annotation_clip=False,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    ).set_in_layout(False)  # fmt: skip


def _draw_beside(axes: Axes, beside: _Beside) -> None:
    shown = np.isfinite(beside.intervals).all(axis=1)
    estimate, (low, high) = beside.estimate[shown], beside.intervals[shown].T
    axes.errorbar(
        estimate, np.flatnonzero(shown) + 0.24, xerr=np.maximum([estimate - low, high - estimate], 0), fmt="s",
        color=GREY, markerfacecolor="white", markersize=3.5, elinewidth=1.2, label=beside.label,
    )  # fmt: skip


def _frame(figure: Figure, level: float) -> None:
    """Heads of the columns and the legend."""
    first, last = figure.axes[0], figure.axes[-1]
    _beyond(first, -0.85, "noise", f"estimate ({100 * level:.4g}% interval)")
    last.set_xlabel("coefficient, original units", fontsize=9, color=INK)
    key = {
        str(label): handle for handle, label in zip(*first.get_legend_handles_labels(), strict=True)
    }
    labels = [_POINT, _WHOLE, _INNER, *(key.keys() - {_POINT, _WHOLE, _INNER})]
    figure.legend(
        [key[label] for label in labels], labels, loc="outside upper center", ncols=2 if len(labels) > 3 else 3,
        frameon=False, fontsize=8.5, labelcolor=INK, title=f"Estimates and {100 * level:.4g}% confidence intervals",
        title_fontproperties={"size": 13, "weight": "bold"},
    )  # fmt: skip


def _notes(result: FitResult, count: int, beside: _Beside | None) -> list[str]:
    """What a reader of the figure alone must know."""
    privacy = result.privacy
    notes = (
        ["Each panel has a scale of its own: compare lengths within a panel only."]
        if count > 1
        else []
    )
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


def coverage(study: Study) -> Figure:
    """Two panels, one row a coefficient: coverage against the nominal level, and length against
    that without noise.

    Whiskers are Wilson's: every coverage that lies within two of its Monte Carlo standard errors of
    what was found.  Save it with ``coverage(study).savefig("coverage.png")``.
    """
    figure = _Picture(
        figsize=(WIDTH, FRAME + LINE * max(4, len(study.names))), dpi=150, layout="constrained"
    )
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.0, 1.1))
    for panel, title in ((left, "Coverage"), (right, "Length")):
        rows(panel, study.names)
        panel.set_title(title, fontsize=10.5, color=INK, loc="left")
    _coverage_panel(left, study)
    _length_panel(right, study)
    title = f"Coverage and length of {100 * study.level:.4g} % confidence intervals"
    figure.legend(
        loc="outside upper center", ncols=5, frameon=False, fontsize=8.5, labelcolor=INK, columnspacing=1.5,
        title=title, title_fontproperties={"size": 13, "weight": "bold"},
    )  # fmt: skip
    facts = f"{study.replicates:,} replicates, seed {study.seed}; {study.setting}. s.e.: Monte Carlo standard error."
    note = "NOT PRIVATE: a study reads the records without noise. Do not publish it from sensitive data."
    text = textwrap.fill(facts, 165) + "\n" + note
    figure.supxlabel(
        text, x=0.01, ha="left", fontsize=8, color=GREY, linespacing=1.4, parse_math=False
    )
    return figure


def forecast(found: Forecast) -> Figure:
    """One row a coefficient: how many times as long the intervals of ``found`` are as those without
    privacy.

    One mark a budget, hollow where fewer than half of the simulated fits report the coefficient.
    The half-width of the last budget stands at the right.  Save it with
    ``forecast(found).savefig("forecast.png")``.
    """
    figure = _Picture(
        figsize=(WIDTH, FRAME + LINE * max(4, len(found.names))), dpi=150, layout="constrained"
    )
    panel, places = figure.subplots(), np.arange(len(found.names))
    rows(panel, found.names)
    panel.axvline(1, color=INK, linewidth=1)
    with np.errstate(invalid="ignore"):
        times = found.half_width / found.nonprivate
    for b, budget in enumerate(found.budgets):
        shade = _MARKS[b % len(_MARKS)]
        for often in (True, False):
            some = np.isfinite(times[b]) & ((found.reported[b] >= 0.5) == often)
            panel.plot(times[b][some], places[some], shade[0], color=shade[1] if often else "white", markersize=6,
                       markeredgecolor=shade[1], label=named(budget) if often else None)  # fmt: skip
    for place, (half, share) in enumerate(
        zip(found.half_width[-1], found.reported[-1], strict=True)
    ):
        _beyond(
            panel,
            place,
            f"{100 * share:.0f}%",
            f"±{half:.3g}" if np.isfinite(half) else "not reported",
        )
    _beyond(panel, -0.85, "reported", named(found.budgets[-1]))
    _log_axis(panel, (1.0, 2.0, 5.0))
    panel.set_xlabel("half-width, times that without privacy (log scale)", fontsize=9, color=INK)
    figure.legend(
        loc="outside upper center", ncols=5, frameon=False, fontsize=8.5, labelcolor=INK,
        title=f"Forecast of {100 * found.level:.4g} % confidence intervals",
        title_fontproperties={"size": 13, "weight": "bold"},
    )  # fmt: skip
    hollow = "Hollow marks: fewer than half of the simulated fits report the coefficient."
    note = "\n".join(textwrap.fill(words, 165) for words in (hollow, *found.statements()[1:]))
    figure.supxlabel(
        note, x=0.01, ha="left", fontsize=8, color=GREY, linespacing=1.4, parse_math=False
    )
    return figure


def _coverage_panel(panel: Axes, study: Study) -> None:
    low, high = _whiskers(study.coverage, study.replicates)
    places, short = np.arange(len(study.names)), high < study.level
    panel.axvline(
        study.level,
        color=INK,
        linewidth=1.2,
        linestyle=(0, (4, 2)),
        label=f"nominal level {study.level:g}",
    )
    for chosen, colour, shape, label in (
        (~short, BLUE, "o", "coverage ± 2 s.e."),
        (short, ORANGE, "D", "below nominal by over 2 s.e."),
    ):
        if chosen.any():
            found = study.coverage[chosen]
            error = np.maximum([found - low[chosen], high[chosen] - found], 0)
            panel.errorbar(
                found, places[chosen], xerr=error, fmt=shape, color=colour, markersize=5, capsize=2.5,
                elinewidth=1.3, label=label, clip_on=False,
            )  # fmt: skip
    lowest = min(float(low.min()), study.level - 0.6 * (1 - study.level))
    panel.set_xlim(max(0.0, lowest - 0.04 * (1 - lowest)), 1.0)
    panel.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    panel.set_xlabel("share of replicates that cover the target", fontsize=9, color=INK)


def _length_panel(panel: Axes, study: Study) -> None:
    places, private, plain = np.arange(len(study.names)), study.length, study.nonprivate_length
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
        panel.text(0.5, place, "not finite in some replicates", transform=panel.get_yaxis_transform(), fontsize=8,
                   color=ORANGE, ha="center", va="center")  # fmt: skip
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


def _whiskers(found: Array, replicates: int) -> tuple[Array, Array]:
    """Wilson's interval at two standard errors: the p with abs(found - p) <= 2 sqrt(p (1 -
    p)/replicates).
    """
    z2 = 4 / replicates
    centre = (found + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * found * (1 - found) + z2**2 / 4) / (1 + z2)
    return centre - half, centre + half
