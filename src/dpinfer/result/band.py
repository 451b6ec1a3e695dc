"""Between which limits the outcome of a least-squares fit counted."""

from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import row_weights
from dpinfer.result.statements import Geometry


@dataclass(frozen=True, eq=False)
class Band:
    """Between which limits the outcome of a least-squares fit counted, in its own units.

    A record with columns x is pulled into ``line`` · (1, x) ± ``clip``/(w‖A (1, x)‖), w and A those of the geometry;
    ``line`` has a number a column of the fit.  ``width`` is the half width for a record of average influence,
    ``excess`` the estimated mean of what is cut off, ``low`` and ``high`` the range of outcomes that the line was
    drawn from.
    """

    line: Array
    clip: float
    width: float
    excess: float
    low: float
    high: float

    def pulled(self, geometry: Geometry, rows: Array, outcomes: Array) -> Array:
        """Outcomes pulled into the band; ``rows`` are the columns of the geometry in original units."""
        fitted, most = self.line[0] + rows @ self.line[1:], self.most(geometry, rows)
        return np.asarray(fitted + np.clip(outcomes - fitted, -most, most))

    def most(self, geometry: Geometry, rows: Array) -> Array:
        """The half width of the band for each row."""
        u = np.column_stack([np.ones(len(rows)), rows]) @ geometry.preconditioner.T
        influence = row_weights(u) * np.linalg.norm(u, axis=1)
        return np.asarray(self.clip / np.maximum(influence, np.finfo(float).tiny))

    def statements(self, target: str) -> list[str]:
        """The band in words."""
        drawn = f"line was drawn from outcomes between {self.low:.4g} and {self.high:.4g}."
        if target == "robust":
            return [
                f"Residuals count up to {self.width:.4g} either way, for a record of average influence; less for "
                f"records far out. About one in ten is larger. A first {drawn}"
            ]
        said = [
            f"Outcomes count within {self.width:.4g} of the released line, for a record of average influence; closer "
            f"for records far out. The {drawn}"
        ]
        if self.excess == 0:
            return [*said, "Nobody is clipped whose prediction is within the declared range of the outcome."]
        return [
            *said,
            f"What lies beyond is cut off: {self.excess:.2g} on average, as far as the budget can see. The interval of "
            "the intercept allows for all of that on either side; that of a level allows for half of it, and that of a "
            "number for half of it on a change by one spread of its column. Where an outcome has a long tail (amounts, "
            "counts) a slope may miss more than that: take its logarithm where it is not one, or ask for a cautious "
            "tail, or for all of it at the price of noise for the whole declared range.",
        ]
