"""Survival outcomes: the times of ``Surv(entry, exit, event)``, and the public intervals of time.

Everything here is declared: the cuts between intervals, the horizon at which follow-up ends, and whether
persons may enter late.  None of it is read from a table.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Category, Column, Level
from dpinfer.schema.terms import Expression, ReadCodes, ReadNumbers, Response, TermBlock, plain_part

INTERVAL = "interval"
"""The factor whose levels are the intervals of time, in the names of coefficients."""
MAX_INTERVALS = 12
"""Intervals of time at most: each has a coefficient, and five or more are near Cox regression."""


@dataclass(frozen=True)
class FollowUp:
    """The public intervals of time: ``cuts`` inside (0, ``horizon``), in the units of the time columns.

    Time after the horizon does not count: who is followed longer is censored there.  ``delayed`` says
    that persons may enter after time 0.
    """

    cuts: tuple[float, ...]
    horizon: float
    delayed: bool = False

    @classmethod
    def of(cls, cuts: Sequence[float], horizon: float, *, delayed: bool = False) -> "FollowUp":
        """Return the intervals, or raise an error that says what is wrong with them."""
        remedy = "give times in the unit of the time column, such as cuts=[1, 2, 5], horizon=10"
        try:
            inner = tuple(float(cut) for cut in cuts)
            end = float(horizon)
        except (TypeError, ValueError):
            raise InputError(
                f"declare cuts= between intervals and the horizon= at which follow-up ends: {remedy}"
            ) from None
        ends = (0.0, *inner, end)
        if not all(map(math.isfinite, ends)) or not (np.diff(ends) > 1e-6 * end).all():
            raise InputError(f"cuts must rise from above 0 to below the horizon: {remedy}")
        if not 2 <= len(ends) - 1 <= MAX_INTERVALS:
            raise InputError(
                f"there must be 2 to {MAX_INTERVALS} intervals, which is up to {MAX_INTERVALS - 1} cuts: each interval "
                "has a coefficient, and with five intervals hazard ratios are nearly those of Cox regression"
            )
        return cls(inner, end, delayed)

    @property
    def edges(self) -> tuple[float, ...]:
        """Return where intervals begin and end, over the horizon."""
        return (0.0, *(cut / self.horizon for cut in self.cuts), 1.0)

    @property
    def ends(self) -> tuple[float, ...]:
        """Return where intervals begin and end."""
        return (0.0, *self.cuts, self.horizon)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the names of the intervals."""
        ends = self.ends
        return tuple(f"{low:g}..{high:g}" for low, high in pairwise(ends))

    @property
    def block(self) -> TermBlock:
        """Return the factor of intervals, with the first as its reference."""
        return TermBlock((plain_part(Category(INTERVAL, self.levels, self.levels[0])),))

    @property
    def longest(self) -> float:
        """Return the length of the longest interval."""
        return float(np.diff(self.edges).max() * self.horizon)

    @np.errstate(all="ignore")  # a warning would reveal a value
    def spells(self, entry: Array, end: Array, event: Array) -> tuple[Array, Array, Array]:
        """Return entry and exit over the horizon, and events; NaN where a spell has no time.

        What happens after the horizon is not seen.
        """
        entry = np.maximum(entry, 0.0)
        event = np.where(end > self.horizon, 0.0, event)
        end = np.minimum(end, self.horizon)
        known = end > entry  # not where one of them is NaN
        return (
            np.where(known, entry, np.nan) / self.horizon,
            np.where(known, end, np.nan) / self.horizon,
            event,
        )


@dataclass(frozen=True)
class SurvivalResponse(Response):
    """A survival outcome, ``Surv(exit, event)`` or ``Surv(entry, exit, event)``.

    ``read_as`` is 1 where a spell ends with an event and 0 where it is censored; ``entry`` is None
    where everybody is followed from time 0.
    """

    read_as: Expression
    end: Expression
    entry: Expression | None = None
    text: str = ""
    follow_up: FollowUp | None = None

    @property
    def name(self) -> str:
        """Return the left side, as the formula writes it."""
        return self.text

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return no levels: it is no outcome of a classifier."""
        return ()

    @property
    def number(self) -> None:
        """Return None: it is no number."""
        return

    @property
    def unit(self) -> str:
        """Return the unit of time, where the exit is a column itself."""
        return "" if self.end.column is None else self.end.column.unit

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the table that are needed, each once."""
        parts = (
            [self.end, self.read_as] if self.entry is None else [self.entry, self.end, self.read_as]
        )
        return tuple({column.name: column for part in parts for column in part.columns}.values())

    def read(self, numbers: ReadNumbers, codes: ReadCodes) -> tuple[Array, Array, Array]:
        """Return entry, exit and event of each row, as `FollowUp.spells` has them."""
        assert self.follow_up is not None
        end = np.atleast_1d(self.end.values(numbers, codes))
        entry = np.zeros(len(end))
        if self.entry is not None:
            entry = np.atleast_1d(self.entry.values(numbers, codes))
        return self.follow_up.spells(entry, end, np.atleast_1d(self.read_as.values(numbers, codes)))
