"""The four figures as small multiples: nine panels each, PNG and SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from studies.paper.cells import ROWS, Chart, Line
from studies.paper.verdicts import Look

COLOURS = ("#0072B2", "#D55E00")
"""Blue and vermilion of Okabe and Ito, told apart with any colour vision and in grey."""

DASHES = ((0, (4, 4)), (4, (4, 4)))
"""The second line dashes in the gaps of the first, so that equal variability intervals show both.
"""

NAMES = {"n": "n (thousands)", "d": "d", "epsilon1": "ε₁", "epsilon2": "ε₂", "epsilon3": "ε₃"}
SHARED_WITHIN = 2.5
_INK, _GRID = "#333333", "#E3E3E3"
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.hashsalt": "dpinfer",
}


def draw(charts: Sequence[Chart], look: Look, path: Path) -> None:
    """Write ``path``.png and ``path``.svg; charts come in reading order, three a row."""
    rows = (len(charts) + 2) // 3
    with matplotlib.rc_context(_STYLE):
        spacing = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06)
        figure = Figure(figsize=(9.6, 2.6 * rows + 0.7), layout=spacing)
        axes = figure.subplots(rows, 3, squeeze=False)
        for row in range(rows):
            tops = [
                _panel(ax, chart, look)
                for ax, chart in zip(axes[row], charts[3 * row :], strict=False)
            ]
            _scale(list(axes[row]), tops)
            axes[row, 0].set_ylabel("length")
        figure.legend(
            handles=_legend(charts[0].lines),
            loc="outside upper center",
            ncols=5,
            frameon=False,
            fontsize=10,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path.with_suffix(".png"), dpi=130, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def _panel(ax: Axes, chart: Chart, look: Look) -> float:
    """One panel; returns the largest length in it, 0 if there is none."""
    top = 0.0
    unit = 1000 if chart.parameter == "n" else 1
    for line, colour, dashes in zip(chart.lines, COLOURS, DASHES, strict=True):
        points = [
            (
                value / unit,
                *(
                    look(chart, line, value, name)
                    for name in ("length", "length_sd", "variability")
                ),
            )
            for value in chart.values
        ]
        known: list[Any] = [point for point in points if None not in point]
        if not known:
            continue
        x, length, spread, shortest = (list(column) for column in zip(*known, strict=True))
        low, high = (
            [a + sign * b for a, b in zip(length, spread, strict=True)] for sign in (-1, 1)
        )
        ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        ax.plot(x, length, color=colour, linewidth=1.6, marker="o", markersize=3)
        ax.plot(x, shortest, color=colour, linewidth=1.4, linestyle=dashes)
        top = max(top, *high, *shortest)
    data = f"{chart.shown_as} stand-in" if chart.data in ROWS else chart.shown_as
    ax.set_title(f"({chart.panel}) {data}, {chart.loss}", loc="left", fontsize=9.5)
    ax.set_xlabel(NAMES[chart.parameter], labelpad=1)
    ax.set_xticks([value / unit for value in chart.values[1::2]])
    edge = 0.04 * (chart.values[-1] - chart.values[0]) / unit
    ax.set_xlim(chart.values[0] / unit - edge, chart.values[-1] / unit + edge)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.grid(color=_GRID, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=2.5)
    return top


def _scale(axes: Sequence[Axes], tops: Sequence[float]) -> None:
    """From 0 up; one scale for the row where the panels are of similar height."""
    known = [top for top in tops if top > 0]
    together = bool(known) and max(known) <= SHARED_WITHIN * min(known)
    for ax, top in zip(axes, tops, strict=False):
        if top > 0:
            ax.set_ylim(0, 1.05 * (max(known) if together else top))


def _legend(lines: Sequence[Line]) -> list[Any]:
    """Solid and dashed of either line, named by what tells the two apart; and the band."""
    handles: list[Any] = []
    for line, colour in zip(lines, COLOURS, strict=True):
        name = next(part for part in line if any(part not in other for other in lines))
        handles += [
            Line2D(
                [], [], color=colour, linewidth=1.6, marker="o", markersize=3, label=f"{name}, CI"
            ),
            Line2D([], [], color=colour, linewidth=1.4, linestyle=(0, (4, 3)), label=f"{name}, VI"),
        ]
    return [*handles, Patch(color="#888888", alpha=0.3, linewidth=0, label="CI ± 1 sd")]
