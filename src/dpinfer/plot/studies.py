"""Pictures of coverage studies."""

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from dpinfer.maths.arrays import Array
from dpinfer.plot.style import BLUE, FRAME, GREY, INK, LINE, ORANGE, WIDTH, rows
from dpinfer.simulate import Study


def coverage(study: Study) -> Figure:
    """Two panels, one row a coefficient: coverage against the nominal level, and length against that without noise.

    Whiskers are Wilson's: every coverage that lies within two of its Monte Carlo standard errors of what was found.
    Save it with ``coverage(study).savefig("coverage.png")``.
    """
    figure = Figure(figsize=(WIDTH, FRAME + LINE * max(4, len(study.names))), dpi=150, layout="constrained")
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
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=GREY, linespacing=1.4, parse_math=False)
    return figure


def _coverage_panel(panel: Axes, study: Study) -> None:
    low, high = _whiskers(study.coverage, study.replicates)
    places, short = np.arange(len(study.names)), high < study.level
    panel.axvline(study.level, color=INK, linewidth=1.2, linestyle=(0, (4, 2)), label=f"nominal level {study.level:g}")
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
    panel.hlines(places, np.minimum(private, plain), np.maximum(private, plain), color="#9A9A9A", linewidth=1.4)
    if np.isfinite(plain).any():
        panel.plot(plain, places, "o", color="white", markeredgecolor=INK, markersize=5.5, label="length without noise")
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


def _log_axis(panel: Axes) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=12))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    panel.xaxis.set_minor_formatter(FuncFormatter(lambda _x, _: ""))
    panel.margins(x=0.06)


def _whiskers(found: Array, replicates: int) -> tuple[Array, Array]:
    """Wilson's interval at two standard errors: the p with abs(found - p) <= 2 sqrt(p (1 - p)/replicates)."""
    z2 = 4 / replicates
    centre = (found + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * found * (1 - found) + z2**2 / 4) / (1 + z2)
    return centre - half, centre + half
