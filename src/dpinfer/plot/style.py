"""What the figures share: a palette, and rows with a name each."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

# From the palette of Okabe and Ito, which colour-blind readers can tell apart; the shapes differ as well.
BLUE, ORANGE, INK, GREY, PALE = "#0072B2", "#D55E00", "#222222", "#767676", "#F3F3F3"
WIDTH, LINE, FRAME = 10.0, 0.27, 2.4  # inches: the figure, a row, everything around the rows
NAME = 34  # characters of a coefficient's name that fit


def rows(panel: Axes, names: Sequence[str]) -> None:
    """First coefficient at the top, every second row shaded."""
    places = np.arange(len(names))
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_yticks(places, [short(name) for name in names], parse_math=False)
    panel.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    panel.tick_params(axis="x", labelsize=9, color=GREY, labelcolor=INK)
    for place in places[1::2]:
        panel.axhspan(place - 0.5, place + 0.5, color=PALE, zorder=0)
    panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.spines["bottom"].set_color(GREY)


def short(name: str) -> str:
    """A name on one line that fits beside its row."""
    line = " ".join(name.split())
    return line if len(line) <= NAME else line[: NAME - 1] + "…"
