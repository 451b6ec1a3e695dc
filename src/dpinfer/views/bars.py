"""What a forest plot shows, apart from how it is drawn; and what the figures share: a palette, rows with names."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from dpinfer.result import text
from dpinfer.result.result import FitResult

# From the palette of Okabe and Ito, which colour-blind readers can tell apart; the shapes differ as well.
BLUE, ORANGE, INK, GREY, PALE = "#0072B2", "#D55E00", "#222222", "#767676", "#F3F3F3"
WIDTH, LINE, FRAME = 10.0, 0.27, 2.4  # inches: the figure, a row, everything around the rows
NAME = 34  # characters of a coefficient's name that fit


def rows(panel: Axes, names: Sequence[str]) -> None:
    """First coefficient at the top, every second row shaded."""
    places = np.arange(len(names))
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_yticks(places, ["\n".join(lines(name, NAME, 2)) for name in names], parse_math=False)
    panel.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    for label in panel.get_yticklabels():
        if "\n" in label.get_text():
            label.set(fontsize=8, linespacing=0.95)
    panel.tick_params(axis="x", labelsize=9, color=GREY, labelcolor=INK)
    for place in places[1::2]:
        panel.axhspan(place - 0.5, place + 0.5, color=PALE, zorder=0)
    panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.spines["bottom"].set_color(GREY)


def short(words: str, letters: int = NAME) -> str:
    """Words on one line that fit beside their row."""
    line = " ".join(words.split())
    return line if len(line) <= letters else line[: letters - 1] + "…"


def lines(words: str, letters: int, most: int) -> tuple[str, ...]:
    """Words in at most ``most`` lines of so many letters, the last of them cut off."""
    whole = " ".join(words.split())
    broken = textwrap.wrap(whole, letters) or [""]
    if len(broken) > most:
        start = len(" ".join(broken[: most - 1]))
        broken = [*broken[: most - 1], short(whole[start:], letters)]
    return tuple(broken)


SPREAD = 12.0  # times as far from 0: beyond that a row gets a panel of its own scale


@dataclass(frozen=True)
class Bar:
    """One coefficient: its interval, the part of it that is sampling error alone, and both in words.

    What has no interval is not ``shown``: it has a ``status`` and no finite number.
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
    shown: bool

    @property
    def reach(self) -> float:
        """How far from 0 the interval goes."""
        return max(abs(self.low), abs(self.high))


def bars(result: FitResult, level: float) -> list[Bar]:
    """One bar a coefficient of the formula; what is known instead of open ones is not drawn.

    With a share s of the variance due to privacy noise, the inner interval is sqrt(1 - s) times the whole: what
    sampling error alone would give at the same estimate.
    """
    found = []
    for row in result.table(level):
        estimate, low, high, share = row["estimate"], row["low"], row["high"], row["noise_share"]
        shrink = math.sqrt(max(0.0, 1 - share)) if math.isfinite(share) else math.nan
        number = text.number(estimate, text.places(row["std_error"]))
        found.append(
            Bar(
                row["name"], estimate, low, high,
                estimate + shrink * (low - estimate), estimate + shrink * (high - estimate),
                f"{number} ({text.interval(row)})", text.percent(share), _brief(row["status"]), not text.set_aside(row),
            )
        )  # fmt: skip
    return found


def _brief(status: str) -> str:
    """A status without what holds of every open line and stands under the table."""
    return status.replace("in the model, but ", "", 1)


def not_drawn(result: FitResult) -> list[str]:
    """A sentence for every plot of a result for which lines are known instead of open ones."""
    return [text.NOT_DRAWN] if result.instead else []


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
