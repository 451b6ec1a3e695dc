"""What the weights of far rows change of slopes, beside the allowance for it: not private.

``python -m studies.moments.weights --data FOLDER`` makes one release of each cell and prints, of all slopes
of all questions, the bias by weights over standard errors, and over the excess of all rows beyond the
radius in one direction: the curve of `WEIGHT_BIAS`.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpinfer.inference.moment_answers import ReleasedSums, symmetric
from dpinfer.numerics.arrays import Array
from dpinfer.simulate.replicates import noise_seed
from studies.moments.cell import SEED, Cell, Setting, setting

CELLS = (
    Cell("acs20"),
    Cell("acs20", 5_000),
    Cell("rand20"),
    Cell("adult20"),
    Cell("adult40"),
    Cell("bank30"),
    Cell("acs20", budget="3,1e-6"),
    Cell("rand20", 60_000, "0.1"),
    Cell("adult40", 60_000, "0.1"),
    Cell("acs20", 100_000),
)


def biases(cell: Cell, folder: Path) -> tuple[float, Array]:
    """Return the excess of all rows, and of each slope its bias by weights over the standard error, and
    over that excess in its direction.
    """
    at = setting(cell, folder)
    drawn = np.sort(np.random.default_rng([SEED, 0]).integers(0, at.population.n, cell.n))
    sums = at.release.of(at.population.of(drawn), noise_seed(SEED, 0)).sums
    u = _rows(at, sums)
    share = np.broadcast_to(at.population.shares, len(u)) * cell.n / at.population.n
    length2 = (u**2).sum(axis=1)
    weight = np.minimum(1.0, 1 / np.maximum(length2, 1e-12))
    taken = (u * ((1 - weight) * share)[:, None]).T @ u
    left = (u * (weight * share)[:, None]).T @ u
    excess = float(np.trace(taken))
    return excess, np.array(list(_of_slopes(at, sums, left, taken)))


def _of_slopes(
    at: Setting, sums: ReleasedSums, left: Array, taken: Array
) -> Iterator[tuple[float, float]]:
    dim = len(sums) * (len(sums) + 1) // 2
    for question in at.questions:
        x = sums.vectors[[0, *question.predictors]]
        y = sums.vectors[question.outcome]
        whole = left + taken
        residual = y - np.linalg.solve(x @ whole @ x.T, x @ whole @ y) @ x
        for b in np.linalg.solve(x @ left @ x.T, x)[1:]:
            direction = symmetric(b, residual)
            noise = float(sums.noise_covariance(direction[None])[0, 0])
            sampling = sums.spread(direction)[0]
            bias = abs(float(b @ taken @ residual))
            unit = float(np.trace(taken)) * float(np.linalg.norm(direction)) / dim**0.5
            yield bias / (noise + max(sampling, 0.0)) ** 0.5, bias / unit if unit else 0.0


def _rows(at: Setting, sums: ReleasedSums) -> Array:
    """Return the rows of the population in the geometry of a release, without its clips."""
    rows = at.population.rows * np.sqrt(at.release.design.norm2)
    return np.asarray(rows @ sums.matrix.T)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.moments.weights", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    chosen = parser.parse_args()
    print(
        "| cell | excess | bias/standard error: rms, largest | bias/excess in its direction: rms |"
    )
    print("| --- | ---: | --- | ---: |")
    for cell in CELLS:
        excess, found = biases(cell, chosen.data)
        rms = np.sqrt((found**2).mean(axis=0))
        print(
            f"| {cell.name} | {excess:.0f} | {rms[0]:.2f}, {found[:, 0].max():.2f} | {rms[1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
