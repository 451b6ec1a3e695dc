"""The rows of a forest plot, of one result or of several models: what is drawn, whatever draws it.

`forest_text` draws the rows of a result with letters, `forest_page` lays rows out for a page, and
`plot` draws them with matplotlib.  Every model has its place in all rows; colours and shapes tell
models apart.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from dpinfer.result import coefficient_table, text
from dpinfer.result.comparison import Comparison
from dpinfer.result.differences import KINDS
from dpinfer.result.result import FitResult
from dpinfer.result.statements import NOT_REPORTED
from dpinfer.schema.design import INTERCEPT

# From the palette of Okabe and Ito (2008), which colour-blind readers can tell apart; shapes differ
# as well.
BLUE = "#0072B2"
ORANGE = "#D55E00"
INK = "#222222"
GREY = "#767676"
PALE = "#F3F3F3"

NAME_LENGTH = 34
"""Characters of a coefficient's name that fit beside its row."""
SCALE_RATIO = 12.0
"""Times as far from 0: rows whose intervals differ by more stand in panels of their own scale."""
_MODEL_NAME_LENGTH = 24  # characters of the name of a model where its bar would be

AXIS_TITLES = {
    False: "Coefficients in original units",
    True: "Coefficients of the logarithm of the rate, in original units",
}
"""The numbers that are drawn; the key says whether the outcome is a count."""
SCALES = "Each panel has a scale of its own: compare lengths within a panel only."
NO_DIFFERENCE = "The difference between two models has no interval here."
NO_INTERCEPT = "Intercepts are not drawn: each stands at the centre of its own fit."


@dataclass(frozen=True)
class Bar:
    """The interval of one coefficient in one model, and the part of it from sampling error alone.

    ``label`` has the numbers, ``noise_share`` the share of the variance due to privacy noise.  A
    coefficient without an interval is not ``reported``: its ``status`` says why.
    """

    name: str
    estimate: float
    low: float
    high: float
    inner_low: float
    inner_high: float
    label: str
    noise_share: str
    status: str
    reported: bool

    @property
    def reach(self) -> float:
        """Return the largest distance of the interval from 0."""
        return max(abs(self.low), abs(self.high))


def bars(result: FitResult, level: float) -> list[Bar]:
    """Return one bar per coefficient of the formula; alternatives are not drawn.

    With a share s of the variance due to privacy noise, the inner interval is sqrt(1 - s) times the
    interval: what sampling error alone would give at the same estimate.
    """
    drawn = []
    for row in result.table(level):
        estimate = row["estimate"]
        shrink = math.nan
        if math.isfinite(row["noise_share"]):
            shrink = math.sqrt(max(0.0, 1 - row["noise_share"]))
        number = text.number(estimate, text.decimals_for(row["std_error"]))
        bar = Bar(
            name=row["name"],
            estimate=estimate,
            low=row["low"],
            high=row["high"],
            inner_low=estimate + shrink * (row["low"] - estimate),
            inner_high=estimate + shrink * (row["high"] - estimate),
            label=f"{number} ({coefficient_table.interval(row)})",
            noise_share=text.percent(row["noise_share"]),
            status=row["status"],
            reported=coefficient_table.is_reported(row),
        )
        drawn.append(bar)
    return drawn


@dataclass(frozen=True)
class ForestRow:
    """A coefficient with its bar in each model; None where it is not in the model."""

    name: str
    bars: tuple[Bar | None, ...]

    @property
    def reported(self) -> list[Bar]:
        """The bars that have an interval."""
        return [bar for bar in self.bars if bar is not None and bar.reported]

    @property
    def reach(self) -> float:
        """Return the largest distance of the intervals from 0."""
        return max(bar.reach for bar in self.reported)


def result_rows(result: FitResult, level: float) -> list[ForestRow]:
    """Return one row per coefficient, with one bar."""
    return [ForestRow(bar.name, (bar,)) for bar in bars(result, level)]


def model_rows(comparison: Comparison) -> list[ForestRow]:
    """Return one row per coefficient of any model, in the order of the table, with a bar per model.

    Intercepts are left out, unless there is nothing else: each fit has its own centre.
    """
    models = [
        {bar.name: bar for bar in bars(result, comparison.level)} for result in comparison.results
    ]
    names = list(dict.fromkeys(name for model in models for name in model))
    slopes = [name for name in names if name != INTERCEPT]
    return [ForestRow(name, tuple(model.get(name) for model in models)) for name in slopes or names]


def panels(rows: Sequence[ForestRow]) -> list[list[ForestRow]]:
    """Return the rows that share a scale: within a panel no interval reaches `SCALE_RATIO` times as
    far as another.

    Where one scale is enough, all rows stay in their order.  Rows without an interval stand in the
    first panel.
    """
    drawn = [j for j, row in enumerate(rows) if row.reported]
    groups: list[list[int]] = []
    for j in sorted(drawn, key=lambda j: -rows[j].reach):
        if not groups or SCALE_RATIO * rows[j].reach < rows[groups[-1][0]].reach:
            groups.append([])
        groups[-1].append(j)
    absent = [j for j, row in enumerate(rows) if not row.reported]
    first, *others = groups or [[]]
    return [[rows[j] for j in sorted(group)] for group in (first + absent, *others)]


def limits(rows: Sequence[ForestRow], others: Sequence[float] = ()) -> tuple[float, float]:
    """Return the ends of an axis with a margin, which holds 0, all intervals and ``others``."""
    ends = [end for row in rows for bar in row.reported for end in (bar.low, bar.high)]
    finite = [0.0, *(end for end in (*ends, *others) if math.isfinite(end))]
    low = min(finite)
    high = max(finite)
    margin = 0.05 * (high - low) or 1.0
    return float(np.clip(low - margin, -1e300, 0)), float(np.clip(high + margin, 0, 1e300))


def ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Return about ``count`` round numbers on an axis, and how they are written."""
    locator = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10])
    values = [float(value) for value in locator.tick_values(low, high)]
    return [(value, _tick_label(value, values)) for value in values if low <= value <= high]


def _tick_label(value: float, values: Sequence[float]) -> str:
    step = values[1] - values[0]
    if abs(value) < step / 1e6:  # 0 but for rounding
        return "0"
    return f"{value:.4g}".replace("-", "−")


def shortened(words: str, length: int = NAME_LENGTH) -> str:
    """Return words on one line of at most ``length`` characters."""
    joined = " ".join(words.split())
    if len(joined) <= length:
        return joined
    return joined[: length - 1] + "…"


def wrapped(words: str, length: int, count: int) -> tuple[str, ...]:
    """Return words on at most ``count`` lines of at most ``length`` characters, cut off after
    that.
    """
    joined = " ".join(words.split())
    pieces = textwrap.wrap(joined, length) or [""]
    if len(pieces) > count:
        kept = pieces[: count - 1]
        pieces = [*kept, shortened(joined[len(" ".join(kept)) :], length)]
    return tuple(pieces)


@dataclass(frozen=True)
class ModelStyle:
    """The drawing style of a model: a colour that has contrast with white paper, a shape for
    matplotlib and as a path of about 9 pixels, and whether it is filled.
    """

    colour: str
    shape: str
    path: str
    filled: bool

    @property
    def fill(self) -> str:
        """The colour inside."""
        return self.colour if self.filled else "white"


_SHAPES = (
    (BLUE, "o", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
    (ORANGE, "s", "M-3.6 -3.6h7.2v7.2h-7.2z"),
    ("#007A5E", "D", "M0 -5L5 0L0 5L-5 0z"),
    ("#A8437F", "^", "M0 -4.8L4.8 3.8H-4.8z"),
    (INK, "v", "M0 4.8L4.8 -3.8H-4.8z"),
    ("#806600", "P", "M-1.6 -4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z"),
)
MODEL_STYLES = tuple(ModelStyle(*shape, filled) for filled in (True, False) for shape in _SHAPES)
"""As many as there may be models in a comparison."""


def missing_label(bar: Bar | None, model: str) -> str:
    """Return the words in the place of the bar of a model; none where it is drawn or not in it."""
    if bar is None or bar.reported:
        return ""
    reason = coefficient_table.NOT_IDENTIFIED
    if bar.status.startswith(NOT_REPORTED):
        reason = NOT_REPORTED
    return f"{shortened(model, _MODEL_NAME_LENGTH)}: {reason}"


def result_notes(result: FitResult) -> list[str]:
    """Return what stands under every plot of a result that has alternatives."""
    if result.instead:
        return [coefficient_table.NOT_DRAWN]
    return []


def model_notes(comparison: Comparison, count: int) -> list[str]:
    """Return what a reader of the picture alone must know; ``count`` is the number of panels."""
    notes = []
    if count > 1:
        notes.append(SCALES)
    if comparison.ratios:
        notes.append("Coefficients are drawn: logarithms of the ratios.")
    if any(INTERCEPT in result.names for result in comparison.results):
        notes.append(NO_INTERCEPT)
    if KINDS in comparison.differences():
        notes.append(KINDS)
    notes.append(NO_DIFFERENCE)
    return notes
