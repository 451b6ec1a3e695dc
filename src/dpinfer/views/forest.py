"""The rows of a forest plot, of one result or of several models: what is drawn, whatever draws it.

`forest_text` draws the rows of a result with letters, `forest_page` lays rows out for a page, and
`plot` draws them with matplotlib.  Every model has its place in all rows; colours and shapes tell
models apart.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from matplotlib.ticker import MaxNLocator

from dpinfer.errors import InputError
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result import coefficient_table, text
from dpinfer.result.comparison import Comparison
from dpinfer.result.differences import KINDS
from dpinfer.result.readable_units import factors, scaled, with_unit
from dpinfer.result.result import FitResult
from dpinfer.result.statements import NOT_REPORTED
from dpinfer.schema.design import INTERCEPT

# From the palette of Okabe and Ito (2008), which colour-blind readers can tell apart; shapes differ
# as well.
BLUE = "#0072B2"
ORANGE = "#D55E00"
PURPLE = "#A8437F"
INK = "#222222"
GREY = "#767676"
PALE = "#F3F3F3"

NAME_LENGTH = 34
"""Characters of a coefficient's name that fit beside its row."""
SCALE_RATIO = 12.0
"""Times as long: terms whose intervals differ by more have panels of their own scale."""
_MODEL_NAME_LENGTH = 24  # characters of the name of a model where its bar would be
_MAX_LOG = 30.0  # beyond exp of it or of its negative, a ratio is written as a power of e
_LINEAR_RATIO = 3.0  # of the largest to the smallest ratio of an axis with evenly spaced ticks

ESTIMATE = "estimate"
SAMPLING_ERROR = "sampling error"
WITH_BIAS_BOUND = "bias bound"
WITH_NOISE = "privacy noise, up to the whole interval"
PARTS = (
    "A larger budget shortens the thin bar, and the bias bound where it lets more values count as they "
    "are. Only more records shorten the thick bar."
)
"""The note on the parts of an interval that a larger budget can shorten."""
SCALES = "Each panel has a scale of its own: compare lengths within a panel only."
NO_DIFFERENCE = "The difference between two models has no interval here."
NO_INTERCEPTS = "Intercepts are not drawn: each stands at the centre of its own fit."
NO_INTERCEPT = "The intercept is not drawn."


def axis_title(ratio: str, *, counts: bool) -> str:
    """Return what the numbers of an axis are; ``ratio`` names them where they are ratios."""
    if ratio:
        return f"{ratio}s, on a logarithmic scale"
    if counts:
        return "Coefficients of the logarithm of the rate, in original units"
    return "Coefficients in original units"


@dataclass(frozen=True)
class Bar:
    """The interval of one coefficient in one model, and its parts.

    ``sampling`` are the ends of the part from sampling error alone, ``without_noise`` those of the
    part that the bound of a bias adds to it; ``low`` and ``high`` are the whole interval.  The lengths
    are those of `Estimates.interval_shares`, each around the estimate in proportion to its interval.
    ``label`` has the numbers, ``parts`` the shares in percent, ``title`` the name for people.  A
    coefficient without an interval is not ``reported``: its ``status`` says why.
    """

    name: str
    title: str
    estimate: float
    low: float
    high: float
    without_noise: tuple[float, float]
    sampling: tuple[float, float]
    label: str
    parts: str
    status: str
    reported: bool

    @property
    def length(self) -> float:
        """Return the length of the interval."""
        return self.high - self.low

    @property
    def has_bias_bound(self) -> bool:
        """Return whether the bound of a bias is long enough to be seen."""
        visible = self.without_noise[1] - self.sampling[1]
        return self.reported and 2 * visible > _VISIBLE * self.length

    @property
    def ends(self) -> dict[str, float]:
        """Return the ends of all parts, and the estimate, from low to high."""
        return {
            "low": self.low,
            "without_noise_low": self.without_noise[0],
            "sampling_low": self.sampling[0],
            "estimate": self.estimate,
            "sampling_high": self.sampling[1],
            "without_noise_high": self.without_noise[1],
            "high": self.high,
        }


_VISIBLE = 0.005  # share of an interval that a picture can show


def ratio_of(result: FitResult, *, ratios: bool | None) -> str:
    """Return the name of the ratio that is drawn, or an empty text where coefficients are.

    By default ratios are drawn where the model has them.
    """
    name = coefficient_table.ratio_name(result)
    if ratios and not name:
        raise InputError(
            "ratios are those of logistic regression and of counts: leave out exp=True"
        )
    return "" if ratios is False else name


def bars(
    result: FitResult, level: float, ratio: str = "", units: Mapping[str, int] | None = None
) -> list[Bar]:
    """Return one bar per coefficient of the formula; alternatives are not drawn.

    Positions are those of coefficients; the numbers are ratios where ``ratio`` names one.  ``units``
    has the rows for more than one unit of their column; by default these are those of the table.
    """
    drawn = []
    table = result.table(level)
    if units is None:
        units = factors(result, table)
    table = scaled(table, units)
    shown = slice(len(result.absorbed), None)
    shares = result.interval_shares(level)[shown]
    for row, share, title in zip(table, shares, result.labels[shown], strict=True):
        estimate = row["estimate"]
        number = text.number(estimate, text.decimals_for(row["std_error"]))
        label = f"{number} ({coefficient_table.interval(row)})"
        low = row["low"]
        high = row["high"]
        bar = Bar(
            name=row["name"],
            title=with_unit(title, row["name"], units),
            estimate=estimate,
            low=low,
            high=high,
            without_noise=_shrunk(estimate, low, high, share[0] + share[1]),
            sampling=_shrunk(estimate, low, high, share[0]),
            label=str(coefficient_table.ratio_cell(row)) if ratio else label,
            parts=text.percents(share),
            status=row["status"],
            reported=coefficient_table.is_reported(row),
        )
        drawn.append(bar)
    return drawn


def _shrunk(estimate: float, low: float, high: float, share: float) -> tuple[float, float]:
    """Return an interval that has this share of the length of another one, around the estimate."""
    kept = min(share, 1.0)
    return estimate + kept * (low - estimate), estimate + kept * (high - estimate)


@dataclass(frozen=True)
class ForestRow:
    """A coefficient with its bar in each model; None where it is not in the model.

    Rows of one ``term``, such as the levels of a factor, share a panel.
    """

    name: str
    bars: tuple[Bar | None, ...]
    term: str
    title: str

    @property
    def reported(self) -> list[Bar]:
        """The bars that have an interval."""
        return [bar for bar in self.bars if bar is not None and bar.reported]


def result_rows(
    result: FitResult, level: float, *, intercept: bool = False, ratio: str = ""
) -> list[ForestRow]:
    """Return one row per coefficient, with one bar, in the order of the formula.

    The intercept is left out, unless it is asked for or there is nothing else.
    """
    terms = _terms(result)
    rows = [
        ForestRow(bar.name, (bar,), terms.get(bar.name, bar.name), bar.title)
        for bar in bars(result, level, ratio)
    ]
    if intercept:
        return rows
    return [row for row in rows if row.name != INTERCEPT] or rows


def _terms(result: FitResult) -> dict[str, str]:
    """Return the term of each coefficient, by its name."""
    if result.question is None:
        return {}
    return result.question.term_of()


def model_rows(comparison: Comparison) -> list[ForestRow]:
    """Return one row per coefficient of any model, in the order of the table, with a bar per model.

    Intercepts are left out, unless there is nothing else: each fit has its own centre.
    """
    models = []
    terms: dict[str, str] = {}
    for result in comparison.results:
        ratio = coefficient_table.ratio_name(result) if comparison.ratios else ""
        drawn = bars(result, comparison.level, ratio, comparison.units)
        models.append({bar.name: bar for bar in drawn})
        terms = _terms(result) | terms
    titles = {name: bar.title for model in reversed(models) for name, bar in model.items()}
    names = list(dict.fromkeys(name for model in models for name in model))
    slopes = [name for name in names if name != INTERCEPT]
    return [
        ForestRow(
            name, tuple(model.get(name) for model in models), terms.get(name, name), titles[name]
        )
        for name in slopes or names
    ]


def panels(rows: Sequence[ForestRow]) -> list[list[ForestRow]]:
    """Return the rows that share a scale, in the order of the formula.

    A term begins a panel where its longest interval would be more than `SCALE_RATIO` times as long as
    that of another term of the panel, or the other way round.  Estimates play no part: coefficients
    of equal precision are drawn at equal length, however far from 0 the noise took them.  The rows of
    a term stay together, and those without an interval stay in the panel before them.
    """
    groups: list[list[ForestRow]] = []
    shortest = math.inf
    longest = 0.0
    for _, term in groupby(rows, key=lambda row: row.term):
        of_term = list(term)
        length = max((bar.length for row in of_term for bar in row.reported), default=math.nan)
        if not groups:
            groups.append([])
        if not math.isnan(length):
            if max(longest, length) > SCALE_RATIO * min(shortest, length):
                groups.append([])
                shortest = math.inf
                longest = 0.0
            shortest = min(shortest, length)
            longest = max(longest, length)
        groups[-1] += of_term
    return groups


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
    return _round_numbers(low, high, count)


def ratio_ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Return about ``count`` positions of round ratios on an axis of their logarithms, and how the
    ratios are written.
    """
    if max(-low, high) > _MAX_LOG:
        return [(value, f"e^{label}") for value, label in _round_numbers(low, high, count)]
    first = math.exp(low)
    last = math.exp(high)
    if last <= _LINEAR_RATIO * first:
        return [(math.log(value), label) for value, label in _round_numbers(first, last, count)]
    powers = range(math.floor(math.log10(first)), math.ceil(math.log10(last)) + 1)
    for steps in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        values = [step * 10.0**power for power in powers for step in steps]
        inside = [value for value in values if first <= value <= last]
        if len(inside) <= count + 1:
            break
    every = max(1, math.ceil(len(inside) / (count + 1)))
    one = inside.index(1.0)
    return [(math.log(value), f"{value:.4g}") for value in inside[one % every :: every]]


def _round_numbers(low: float, high: float, count: int) -> list[tuple[float, str]]:
    locator = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10])
    values = [float(value) for value in locator.tick_values(low, high)]
    return [(value, _tick_label(value, values)) for value in values if low <= value <= high]


def _tick_label(value: float, values: Sequence[float]) -> str:
    step = values[1] - values[0]
    if abs(value) < step / 1e6:  # 0 but for rounding
        return "0"
    return f"{value:.{digits(value, step, 4)}g}".replace("-", "−")


def digits(value: float, step: float, minimum: int) -> int:
    """Return the significant digits in which a value differs from one that is a step away."""
    if not value or not step:
        return minimum
    return max(minimum, math.floor(math.log10(abs(value))) - math.floor(math.log10(step)) + 2)


def shortened(words: str, length: int = NAME_LENGTH) -> str:
    """Return words on one line of at most ``length`` characters."""
    joined = " ".join(words.split())
    if len(joined) <= length:
        return joined
    return joined[: length - 1] + "…"


def wrapped(words: str, length: int, count: int) -> tuple[str, ...]:
    """Return words on at most ``count`` lines of at most ``length`` characters, cut off after
    that.  A name is broken where its parts meet.
    """
    joined = " ".join(words.split())
    lines = text.broken(joined, length)
    if len(lines) > count:
        kept = lines[: count - 1]
        rest = joined[len("".join(kept)) :]
        lines = [*kept, shortened(rest, length)]
    return tuple(line.strip() for line in lines)


@dataclass(frozen=True)
class ModelStyle:
    """The drawing style of a model: a colour that has contrast with white paper, a shape for
    matplotlib and as a path of about 9 pixels, the number of both in the style sheet, and whether it
    is filled.
    """

    colour: str
    shape: str
    path: str
    number: int
    filled: bool

    @property
    def fill(self) -> str:
        """The colour inside."""
        return self.colour if self.filled else "white"

    @property
    def classes(self) -> str:
        """The classes of its marks on a page, where colours are those of the style sheet."""
        return f"m{self.number}" if self.filled else f"m{self.number} hollow"


_SHAPES = (
    (BLUE, "o", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
    (ORANGE, "s", "M-3.6 -3.6h7.2v7.2h-7.2z"),
    ("#007A5E", "D", "M0 -5L5 0L0 5L-5 0z"),
    (PURPLE, "^", "M0 -4.8L4.8 3.8H-4.8z"),
    (INK, "v", "M0 4.8L4.8 -3.8H-4.8z"),
    ("#806600", "P", "M-1.6 -4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z"),
)
MODEL_STYLES = tuple(
    ModelStyle(*shape, number, filled)
    for filled in (True, False)
    for number, shape in enumerate(_SHAPES, start=1)
)
"""As many as there may be models in a comparison."""


def missing_label(bar: Bar | None, model: str) -> str:
    """Return the words in the place of the bar of a model; none where it is drawn or not in it."""
    if bar is None or bar.reported:
        return ""
    reason = coefficient_table.NOT_IDENTIFIED
    if bar.status.startswith(NOT_REPORTED):
        reason = NOT_REPORTED
    return f"{shortened(model, _MODEL_NAME_LENGTH)}: {reason}"


def result_notes(result: FitResult, rows: Sequence[ForestRow], count: int) -> list[str]:
    """Return what stands under every plot of a result; ``count`` is the number of panels."""
    notes = []
    if not isinstance(result.privacy.budget, NoPrivacy):
        notes.append(PARTS)
    if count > 1:
        notes.append(SCALES)
    drawn = any(row.name == INTERCEPT for row in rows)
    if INTERCEPT in result.names and not (drawn or result.absorbed):
        notes.append(NO_INTERCEPT)
    if result.instead:
        notes.append(coefficient_table.NOT_DRAWN)
    return notes


def has_bias_bound(rows: Sequence[ForestRow]) -> bool:
    """Return whether a bias bound is to be seen in some row."""
    return any(bar.has_bias_bound for row in rows for bar in row.reported)


def model_notes(comparison: Comparison, count: int) -> list[str]:
    """Return what a reader of the picture alone must know; ``count`` is the number of panels."""
    notes = []
    if count > 1:
        notes.append(SCALES)
    if comparison.ratios:
        notes.append("Ratios are drawn on a logarithmic scale.")
    if any(INTERCEPT in result.names for result in comparison.results):
        notes.append(NO_INTERCEPTS)
    if KINDS in comparison.differences():
        notes.append(KINDS)
    notes.append(NO_DIFFERENCE)
    return notes
