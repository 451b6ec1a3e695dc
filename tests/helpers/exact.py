"""Exact divergences of Gaussian objective perturbation in one and two dimensions, by quadrature.

The output has the density ν(b_D(θ)) det A_D(θ).  A record enters as f(w·θ + o): for a margin loss w
is its label times its row and o is 0, for a residual loss w is its row times -1 and o its outcome.
Both densities are normalised on the grid, so that the rule's own error cancels to first order.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets, the ridge (centred at ``centre``) and the scale of the noise.

    ``outcomes`` are the o of the records, first and second: 0 where there are none.  ``weights``
    are what the records count, 1 where nothing is said.
    """

    loss: object
    first: tuple
    second: tuple
    ridge: float
    scale: float
    centre: tuple = field(default=None)
    outcomes: tuple = ((), ())
    weights: tuple = ((), ())

    def divergences(self, points=None):
        """Rényi and hockey-stick divergences of the first output from the second, as two functions."""
        p, q = self._log_densities(points)
        p, q = p - logsumexp(p), q - logsumexp(q)

        def renyi(alpha):
            return logsumexp(alpha * p + (1 - alpha) * q) / (alpha - 1)

        def hockey(epsilon):
            return np.maximum(np.exp(p) - np.exp(epsilon + q), 0).sum()

        return renyi, hockey

    def _log_densities(self, points):
        first, second = (np.atleast_2d(np.asarray(r, float).T).T for r in (self.first, self.second))
        dim = first.shape[1]
        centre = np.zeros(dim) if self.centre is None else np.asarray(self.centre, float)
        reach = (9 * self.scale + 2 * self.loss.slope_bound * len(first)) / self.ridge
        axes = [
            c + np.linspace(-reach, reach, points or (20_001 if dim == 1 else 351)) for c in centre
        ]
        theta = np.stack([grid.ravel() for grid in np.meshgrid(*axes)], axis=1)
        return [
            self._log_density(records, side, theta, centre)
            for side, records in enumerate((first, second))
        ]

    def _log_density(self, records, side, theta, centre):
        b = -self.ridge * (theta - centre)
        bend = {
            place: self.ridge * float(len(set(place)) == 1) for place in ((0, 0), (0, 1), (1, 1))
        }
        outcomes = self.outcomes[side] or [0.0] * len(records)
        weights = self.weights[side] or [1.0] * len(records)
        for record, outcome, weight in zip(records, outcomes, weights, strict=True):
            z = theta @ record + outcome
            b -= weight * self.loss.slope(z)[:, None] * record
            curvature = weight * self.loss.curvature(z)
            for i, j in bend if len(record) == 2 else [(0, 0)]:
                bend[i, j] = bend[i, j] + curvature * record[i] * record[j]
        det = bend[0, 0]
        if theta.shape[1] == 2:
            det = bend[0, 0] * bend[1, 1] - bend[0, 1] ** 2
        return np.log(det) - (b**2).sum(axis=1) / (2 * self.scale**2)


def turned(angle):
    """Opposite records, each turned by ``angle`` towards the same side."""
    return ((np.cos(angle), np.sin(angle)),), ((-np.cos(angle), np.sin(angle)),)
