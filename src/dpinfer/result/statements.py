"""What a result says of itself: what was estimated, and what was promised about whom."""

from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import row_weights
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget, weak_delta
from dpinfer.privacy.release import Release

REPORTED = "reported"
"""The status of a coefficient with an interval; every other status says why there is none."""
DROPPED = "set aside before the fit: too little information at this budget"
OFFSET = "set aside after the fit: its curvature is not clear of the noise, or it is separated; kept as an offset"
UNIDENTIFIED = "set aside: the fit as a whole is not identified at this budget"
FEW_EVENTS = "set aside: fewer than 8 effective events, or not clear of the noise"
NOT_IDENTIFIED = "not identified at this budget"
"""Status of the unpenalised coefficients where noise hides the smallest curvature."""


@dataclass(frozen=True)
class Model:
    """What was estimated.

    ``of`` is what the loss is a function of, the margin or the residual.  A residual is in the units of the outcome:
    ``centre`` is the middle of its declared range, and the penalty c‖θ‖², with c for an outcome scaled to [-1, 1], is
    c‖θ‖²/``unit`` in the same objective in those units.
    """

    loss: str
    penalty: float
    n: int | None
    target: str
    mechanism: str
    recipe: str
    of: str = "margin"
    centre: float = 0.0
    unit: float = 1.0

    def estimand(self) -> str:
        """The number that the intervals are about, in words."""
        if self.target in ("weighted", "unweighted"):
            return _without_penalty(self.target)
        risk = f"E[f({'y θ·x' if self.of == 'margin' else 'y - θ·x'})] with f = {self.loss}"
        where = "x the bounded row" + (f", y the outcome less {self.centre:.6g}" if self.centre else "")
        if self.target == "unpenalised":
            return f"the minimiser of the population risk {risk}, {where}"
        size = "c‖θ‖²" + (f"/{self.unit:.6g}" if self.unit != 1 else "")
        return (
            f"the minimiser of the penalised population risk {risk} plus {size}, c = {self.penalty:.6g}, {where}; "
            "a penalty pulls coefficients towards 0, so this is not the unpenalised coefficient"
        )


def _without_penalty(target: str) -> str:
    """What the intervals of a weighted or unweighted fit are about."""
    counted = {
        "weighted": "a record x counts with the weight min(1, 1/‖A (1, x)‖²), A released with the result: 1 for most "
        "records, less for those far out",
        "unweighted": "every record counts fully",
    }[target]
    return (
        "the coefficients of a logistic regression on the reported columns in the population, without a penalty, where "
        f"{counted}; a column set aside before the fit is left out of it, one set aside after the fit enters with its "
        "released coefficient; the intercept is the log-odds at the released centre"
    )


@dataclass(frozen=True, eq=False)
class Geometry:
    """The released geometry, in original units.

    ``columns`` are those of the fit, the intercept first.  A record with columns x (clipped to their bounds) has the
    weight min(1, 1/‖A (1, x)‖²), A the ``preconditioner``.  The reported intercept is the linear predictor at
    ``centre``, which has one number a column of the design.  ``records`` is the number of records, noisy where it is
    private.  ``full_model_reading`` says, for each coefficient, whether setting others aside leaves its meaning: where
    False, it is a coefficient of the smaller model and need not be near that of the full one.
    """

    columns: tuple[str, ...]
    preconditioner: Array
    centre: Array
    records: float
    dropped: tuple[str, ...]
    offset: tuple[str, ...]
    full_model_reading: tuple[bool, ...]

    def at(self, names: tuple[str, ...]) -> str:
        """The centre in words; ``names`` are those of the coefficients, the intercept first."""
        pairs = zip(names[1:], self.centre, strict=True)
        return "Released centre: " + ", ".join(f"{name} = {value:.4g}" for name, value in pairs) + "."

    def row_weights(self, rows: Array) -> Array:
        """Weights of records, from their columns in original units, those of ``columns[1:]`` in this order."""
        return row_weights(np.column_stack([np.ones(len(rows)), rows]) @ self.preconditioner.T)


@dataclass(frozen=True)
class Privacy:
    """What was promised, about whom, and what was spent; ``release`` is the ledger's name for it."""

    budget: Budget
    unit: str
    events: tuple[Release, ...]
    booked: bool
    private: bool
    neighbours: Neighbours = Neighbours.REPLACE
    release: str | None = None

    def caveats(self, n: int | None = None) -> tuple[str, ...]:
        """What the promise does not cover; ``n`` is the number of records where it is public."""
        notes = []
        if not self.private:
            notes.append("NOT PRIVATE: the noise was off or came from a known seed. Do not publish.")
        if weak := weak_delta(self.budget, n):
            notes.append(weak)
        if not self.booked:
            notes.append("Nothing was booked: no ledger was given, so other releases from these data are not counted.")
        notes.append(
            "Noise is drawn and minima are found in double precision; an attacker who exploits the last bits of the "
            "published numbers is not covered."
        )
        notes.append("Intervals rest on a large-sample approximation; they say nothing about bias in the data.")
        return tuple(notes)
