"""What a fit in a released geometry publishes beside its coefficients."""

from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array

DROPPED = "set aside before the fit: too little information at this budget"
OFFSET = "set aside after the fit: its curvature is not clear of the noise, or it is separated; kept as an offset"
UNIDENTIFIED = "set aside: the fit as a whole is not identified at this budget"
FEW_EVENTS = "set aside: fewer than 8 effective events, or not clear of the noise"


def estimand(target: str) -> str:
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
        u = np.column_stack([np.ones(len(rows)), rows]) @ self.preconditioner.T
        return np.asarray(1 / np.maximum(1.0, (u**2).sum(axis=1)))
