"""What a forecast says."""

import json
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer import codec
from dpinfer.maths.arrays import Array
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP
from dpinfer.result import text

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 86
_HALF = 0.5  # of the fits: a line that fewer of them print is likely to be open
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (PureDP, ZCDP, ApproxDP, NoPrivacy)}


@dataclass(frozen=True, eq=False)
class Forecast:
    """How long the intervals of a fit to come will be, one number a budget and coefficient.

    ``names`` are the coefficients, ``budgets`` those asked for, or the one that was found.  ``half_width`` is the
    median over the replicates that report a coefficient (NaN where none does), and ``reported`` is their share: in the
    others the line is open.  ``within`` is what half of all replicates keep within, infinite where fewer than half
    report it.  ``nonprivate`` is
    the half-width of the same model without noise; it depends on the budget only where its penalty does.  ``records``
    is the number of records, or of units; ``level``, ``replicates`` and ``seed`` are those asked for.  ``setting`` and
    ``assumed`` say of what.
    """

    names: tuple[str, ...]
    budgets: tuple[Budget, ...]
    half_width: Array
    within: Array
    reported: Array
    nonprivate: Array
    records: int
    level: float
    replicates: int
    seed: int
    setting: str
    assumed: tuple[str, ...]

    def median(self, which: int = 0) -> tuple[float, float]:
        """The median half-width over coefficients but the intercept, and without noise; ``which`` numbers the budget.

        Both are of the coefficients that are reported at all; NaN where there are none.
        """
        plain = self.nonprivate[which]
        some = np.isfinite(self.half_width[which]) & np.isfinite(plain)
        some &= np.array([name != "(Intercept)" for name in self.names]) | (len(self.names) == 1)
        if not some.any():
            return float("nan"), float("nan")
        return float(np.median(self.half_width[which][some])), float(np.median(plain[some]))

    def table(self) -> list[dict[str, Any]]:
        """One row a budget and coefficient."""
        return [
            {
                "budget": label(budget),
                "name": name,
                "half_width": float(self.half_width[b, j]),
                "nonprivate": float(self.nonprivate[b, j]),
                "reported": float(self.reported[b, j]),
            }
            for b, budget in enumerate(self.budgets)
            for j, name in enumerate(self.names)
        ]

    def to_frame(self) -> "pd.DataFrame":
        """The table as a pandas data frame, indexed by budget and coefficient."""
        import pandas as pd  # noqa: PLC0415  (heavy: loaded when a frame is asked for)

        return pd.DataFrame(self.table()).set_index(["budget", "name"])

    def summary(self) -> str:
        """Half-widths as text, one column a budget, and under it what was assumed."""
        columns, last = [["", *map(text.harmless, self.names)]], [""]
        for b, budget in enumerate(self.budgets):
            plain = ["no noise", *map(_half, self.nonprivate[b])]
            if plain != last:
                columns.append(plain)
            last = plain
            columns.append([label(budget), *(self._cell(b, j) for j in range(len(self.names)))])
        heads, *rows = map(list, zip(*columns, strict=True))
        first = max(20, *(len(row[0]) + 1 for row in rows))
        widths = [max(10, *(len(row[k]) + 2 for row in [heads, *rows])) for k in range(1, len(heads))]
        lines = [
            f"{row[0]:<{first}}" + "".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=True))
            for row in [heads, *rows]
        ]
        rule = max(_WIDTH, len(lines[0]))
        wrapped = [textwrap.fill(words, _WIDTH, subsequent_indent="  ") for words in self.statements()]
        return text.harmless("\n".join(["=" * rule, lines[0], "-" * rule, *lines[1:], "=" * rule, *wrapped]), keep="\n")

    def statements(self) -> list[str]:
        """What the numbers are, and what they rest on."""
        return [
            f"Half-widths of {100 * self.level:.4g}% intervals, medians of {self.replicates} simulated fits (seed "
            f"{self.seed}); in brackets how many print the line, where not all do: in the others it is open.",
            *self._likely_open(),
            f"{self.setting}.",
            f"Assumed: {'; '.join(self.assumed)}.",
            "A forecast, not a promise: no record of the fit to come was read, nothing was booked.",
        ]

    def open(self, which: int = 0) -> tuple[str, ...]:
        """The lines that fewer than half of the fits print, so that they are likely to be open.

        ``which`` numbers the budget.
        """
        return tuple(name for name, share in zip(self.names, self.reported[which], strict=True) if share < _HALF)

    def _likely_open(self) -> list[str]:
        said = []
        for b, budget in enumerate(self.budgets):
            if names := self.open(b):
                said.append(f"Likely to be open at {label(budget)}: {', '.join(map(text.harmless, names))}.")
        return said

    def to_json(self) -> str:
        """The forecast as a JSON object."""
        return json.dumps(codec.encode(self), ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, document: str) -> "Forecast":
        """The inverse of `to_json`; ``document`` is the text."""
        found: Forecast = codec.decode(json.loads(document), {"Forecast": Forecast, **_KINDS})
        return found

    def _cell(self, b: int, j: int) -> str:
        share = self.reported[b, j]
        return _half(self.half_width[b, j]) if share == 1 else f"{_half(self.half_width[b, j])} ({text.percent(share)})"


def label(budget: Budget) -> str:
    """A budget in a few letters."""
    if isinstance(budget, ApproxDP):
        return f"({budget.epsilon:.4g}, {budget.delta:.2g})"
    return f"rho {budget.rho:.4g}" if isinstance(budget, ZCDP) else budget.amount


def _half(width: float) -> str:
    return f"±{width:.3g}" if np.isfinite(width) else text.NOTHING
