"""What a forest plot shows, apart from how it is drawn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpinfer import text
from dpinfer.result import FitResult

SPREAD = 12.0  # times as far from 0: beyond that a row gets a panel of its own scale


@dataclass(frozen=True)
class Bar:
    """One coefficient: its interval, the part of it that is sampling error alone, and both in words.

    What was set aside has a ``status`` and no finite number.
    """

    name: str
    estimate: float
    low: float
    high: float
    inner_low: float
    inner_high: float
    words: str
    share: str
    status: str

    @property
    def shown(self) -> bool:
        """Whether there is an interval to draw."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def reach(self) -> float:
        """How far from 0 the interval goes."""
        return max(abs(self.low), abs(self.high))


def bars(result: FitResult, level: float) -> list[Bar]:
    """One bar a coefficient.

    With a share s of the variance due to privacy noise, the inner interval is sqrt(1 - s) times the whole: what
    sampling error alone would give at the same estimate.
    """
    found = []
    for row, share in zip(result.table(level), result.noise_share.tolist(), strict=True):
        estimate, low, high = row["estimate"], row["low"], row["high"]
        shrink = math.sqrt(max(0.0, 1 - share)) if math.isfinite(share) else math.nan
        number = text.number(estimate, text.places(row["std_error"]))
        found.append(
            Bar(
                row["name"], estimate, low, high,
                estimate + shrink * (low - estimate), estimate + shrink * (high - estimate),
                f"{number} ({text.interval(row)})", text.percent(share), row["status"],
            )
        )  # fmt: skip
    return found


def panels(rows: Sequence[Bar]) -> list[list[int]]:
    """Positions of the rows that share a scale: within a panel no interval reaches `SPREAD` times as far as another.

    Where one scale is enough, all rows stay in their order.  Rows without an interval stand in the first panel.
    """
    ordered = sorted((j for j, row in enumerate(rows) if row.shown), key=lambda j: -rows[j].reach)
    groups: list[list[int]] = []
    for j in ordered:
        if not groups or SPREAD * rows[j].reach < rows[groups[-1][0]].reach:
            groups.append([])
        groups[-1].append(j)
    absent = [j for j, row in enumerate(rows) if not row.shown]
    first, *others = groups or [[]]
    return [sorted(first + absent), *map(sorted, others)]


def limits(ends: Sequence[float]) -> tuple[float, float]:
    """An axis with some air that holds 0 and all finite ends."""
    finite = [0.0, *(end for end in ends if math.isfinite(end))]
    low, high = min(finite), max(finite)
    air = 0.05 * (high - low) or 1.0
    return float(np.clip(low - air, -1e300, 0)), float(np.clip(high + air, 0, 1e300))
