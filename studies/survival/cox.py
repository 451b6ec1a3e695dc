"""Cox regression by partial likelihood, with Breslow's ties and delayed entry: the yardstick of the study."""

import numpy as np

from dpinfer.numerics.arrays import Array

_ROUNDS = 30
_STILL = 1e-9


def cox(entry: Array, end: Array, event: Array, x: Array) -> Array:
    """Return the coefficients, by Newton's method from 0."""
    order = np.argsort(end, kind="stable")
    entry, end, event, x = entry[order], end[order], event[order], x[order]  # noqa: RUF100
    n, p = x.shape
    first = np.searchsorted(end, end, side="left")
    by_entry = np.argsort(entry, kind="stable")
    entered = np.searchsorted(entry[by_entry], end, side="left")
    late = bool(entry.max() > 0)

    def at_risk(values: Array) -> Array:
        """The sums over all who are at risk at each exit."""
        total = np.cumsum(values[::-1], axis=0)[::-1][first]
        if late:
            after = np.cumsum(values[by_entry][::-1], axis=0)[::-1]
            total = total - np.concatenate([after, np.zeros((1, values.shape[1]))])[entered]
        return total

    coef = np.zeros(p)
    events = np.flatnonzero(event > 0)
    for _ in range(_ROUNDS):
        hazard = np.exp(x @ coef)
        products = (x[:, :, None] * x[:, None, :]).reshape(n, -1)
        sums = at_risk(np.column_stack([np.ones(n), x, products]) * hazard[:, None])[events]
        mean = sums[:, 1 : 1 + p] / sums[:, :1]
        second = (sums[:, 1 + p :] / sums[:, :1]).sum(axis=0).reshape(p, p)
        step = np.linalg.solve(second - mean.T @ mean, (x[events] - mean).sum(axis=0))
        coef = coef + step
        if np.abs(step).max() < _STILL:
            break
    return coef
