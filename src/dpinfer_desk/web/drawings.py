"""Drawings of the page as values: how much of a total is used over time, and widths for some budgets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dpinfer.result.text import escape_controls
from dpinfer.simulate.forecast import Forecast
from dpinfer_desk.desk import Spend

Tick = tuple[float, str]

_TOP = 10.0
_BOTTOM = 26.0  # under the axis, for its labels
_RATIOS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
_OFTEN = 0.5  # of the simulated fits


@dataclass(frozen=True)
class Size:
    """The size of a drawing: its width, and the room at its left for names or numbers; 0 puts them above."""

    kind: str
    width: float
    left: float


WIDE = Size("wide", 720.0, 190.0)
NARROW = Size("narrow", 350.0, 0.0)


@dataclass(frozen=True)
class UsedOverTime:
    """The share of a total that is used over time, as steps; ``area`` and ``outline`` are paths of SVG."""

    size: Size
    height: float
    left: float
    base: float
    outline: str
    area: str
    levels: tuple[Tick, ...]
    times: tuple[tuple[float, str, str], ...]


def used_over_time(
    spends: Sequence[Spend], ends: tuple[datetime, datetime], size: Size
) -> UsedOverTime:
    """Draw the share of the total that is used between two times."""
    start, now = ends
    width = size.width
    moments = [datetime.fromisoformat(spend.time) for spend in spends]
    first = min([start, *moments])
    span = max((now - first).total_seconds(), 60.0)
    left = 52.0
    height = 190.0 if size.left else 150.0
    base = height - _BOTTOM

    def across(moment: datetime) -> float:
        return round(left + (width - left - 8) * (moment - first).total_seconds() / span, 1)

    def up(share: float) -> float:
        return round(base - (base - _TOP) * min(1.0, share), 1)

    outline = f"M{left} {up(0.0)}"
    for spend, moment in zip(spends, moments, strict=True):
        outline += f"H{across(moment)}V{up(spend.used)}"
    outline += f"H{width - 8}"
    levels = tuple((up(share), f"{100 * share:.0f} %") for share in (0.0, 0.5, 1.0))
    return UsedOverTime(
        size=size,
        height=height,
        left=left,
        base=base,
        outline=outline,
        area=f"{outline}V{base}H{left}Z",
        levels=levels,
        times=_times(first, span, left, width - 8),
    )


def _times(
    first: datetime, span: float, left: float, right: float
) -> tuple[tuple[float, str, str], ...]:
    """Return the ends of the axis: position, anchor and label."""
    last = first + timedelta(seconds=span)
    form = "%H:%M" if first.date() == last.date() else "%d %b %Y"
    return ((left, "start", f"{first:{form}}"), (right, "end", f"{last:{form}}"))


@dataclass(frozen=True)
class WidthMarker:
    """The width for one budget, at ``x``; ``hollow`` where fewer than half of the fits report it."""

    budget: int
    x: float
    hollow: bool


@dataclass(frozen=True)
class WidthRow:
    """The widths for one coefficient."""

    name: str
    top: float
    middle: float
    marks: tuple[WidthMarker, ...]


@dataclass(frozen=True)
class Widths:
    """Half-widths for some budgets, as multiples of those without noise, one row per coefficient."""

    size: Size
    height: float
    left: float
    right: float
    base: float
    rows: tuple[WidthRow, ...]
    ticks: tuple[Tick, ...]


def widths(forecast: Forecast, size: Size) -> Widths:
    """Draw a forecast."""
    left = size.left or 8.0
    right = size.width - 14.0
    above = 0.0 if size.left else 18.0
    step = 26.0 + above
    ratios = forecast.half_width / forecast.nonprivate
    finite = [float(ratio) for ratio in ratios.ravel() if math.isfinite(ratio) and ratio > 0]
    upper = 1.1 * max([2.0, *finite])
    lower = min([1.0, *finite])

    def across(ratio: float) -> float:
        share = math.log(ratio / lower) / math.log(upper / lower)
        return round(left + (right - left) * share, 1)

    rows = []
    for j, name in enumerate(forecast.names):
        marks = [
            WidthMarker(b, across(float(ratios[b, j])), bool(forecast.reported[b, j] < _OFTEN))
            for b in range(len(forecast.budgets))
            if math.isfinite(ratios[b, j]) and ratios[b, j] > 0
        ]
        top = _TOP + step * j
        rows.append(WidthRow(_clipped(name, size), top, top + above + 13.0, tuple(marks)))
    base = _TOP + step * len(rows)
    ticks = _spread([(across(ratio), f"×{ratio:g}") for ratio in _RATIOS if ratio <= upper])
    return Widths(size, base + _BOTTOM, left, right, base, tuple(rows), ticks)


def _clipped(name: str, size: Size) -> str:
    """Return a name that has room."""
    length = 26 if size.left else 44
    shown = escape_controls(name)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def _spread(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """Return ticks that do not touch."""
    kept: list[Tick] = []
    for x, label in ticks:
        if not kept or x - kept[-1][0] >= 34:
            kept.append((x, label))
    return tuple(kept)
