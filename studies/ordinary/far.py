"""How far single records decide a Poisson regression whose true mean is a logarithm of a skewed number.

    python -m studies.ordinary.far [--size 100000] [--tables 6]

Per drawn table of `curved_log`: the slope of the number over that of the number winsorised, the records whose
fitted means exceed the public bound of the outcome, the largest leverage, the share of the record farthest out in
the squared differences of both fits, and by how many of their own standard errors (HC0) the other coefficients of
the ordinary fit differ from those of the winsorised one, and move if that record is left out.  Not private.
"""

import argparse

import numpy as np

from dpinfer.fit import noiseless
from dpinfer.fit.noiseless import NoiselessFit, Observations, observations_of
from dpinfer.numerics.arrays import Array
from studies.ordinary.cell import setting
from studies.ordinary.populations import Cell

LIMIT = 7.0
"""The limit of the number, as fits of 1,000,000 records at (1, 1e-6) choose it."""


def _means(observations: Observations, fitted: NoiselessFit) -> Array:
    return np.asarray(np.exp(observations.rows @ fitted.coef))


def _without(observations: Observations, left_out: int) -> Observations:
    keep = np.arange(len(observations)) != left_out
    return Observations(observations.rows[keep], observations.labels[keep])


def decided(cell: Cell) -> dict[str, float | Array]:
    """Return what single records decide in one table."""
    at = setting(cell)
    design = at.recipe.design
    ordinary = observations_of(design, at.population.records.block)
    number = list(design.names).index("income")
    limit = (LIMIT - design.middle[number]) / design.half[number]
    rows = ordinary.rows.copy()
    rows[:, number] = np.minimum(rows[:, number], limit)
    winsorised = Observations(rows, ordinary.labels)
    fitted = noiseless.poisson(ordinary)
    fitted_winsorised = noiseless.poisson(winsorised)
    means = _means(ordinary, fitted)
    hessian = (ordinary.rows * means[:, None]).T @ ordinary.rows
    solved = np.linalg.solve(hessian, ordinary.rows.T).T
    leverage = means * (ordinary.rows * solved).sum(axis=1)
    squares = (means - _means(winsorised, fitted_winsorised)) ** 2
    moved = noiseless.poisson(_without(ordinary, int(leverage.argmax()))).coef - fitted.coef
    others = [j for j in range(1, len(design.names)) if j != number]
    return {
        "slope over winsorised": float(fitted.coef[number] / fitted_winsorised.coef[number]),
        "means above the bound": float((means > 1).sum()),
        "largest leverage": float(leverage.max()),
        "share of one record": float(squares.max() / squares.sum()),
        "from winsorised": ((fitted.coef - fitted_winsorised.coef) / fitted.std_error)[others],
        "without one record": (moved / fitted.std_error)[others],
    }


def main() -> None:
    """Print one line per table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--tables", type=int, default=6)
    options = parser.parse_args()
    for draw in range(options.tables):
        found = decided(Cell("curved_log", "poisson", options.size, draw=draw))
        print(draw, {name: np.round(value, 2).tolist() for name, value in found.items()})


if __name__ == "__main__":
    main()
