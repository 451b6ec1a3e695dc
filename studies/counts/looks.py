"""Closer looks at counts, printed: ``python -m studies.counts.looks --data FOLDER [--fits 60]``.

Levels with strong effects and steep slopes of outcomes with heavy tails, in made-up tables of 20,000
records with a number or two beside: how often the line is printed, how often it holds the effect,
and how long it is.  Slopes of overdispersed counts in tables of few records and of many: how often
they are held, and their length over that of an interval without noise.  How spreads of outcomes go
with their means in the designs of the study: the part of what one law would take off, as the
released sums measure it, before anything is believed of it.  And how unlike the others those records
are that a cut takes off, without noise and with nothing put back: by how much the slope of a usual
column moves, over the deviation of that if these records were drawn from all alike.  Not private.
"""

import argparse
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.fit.noiseless import People
from dpinfer.fit.recipe import fit
from dpinfer.maths import cut_off
from dpinfer.maths.arrays import Array
from dpinfer.maths.spreads import Known, part_of_one
from dpinfer.simulate.replicates import noise_seed
from studies.counts.cell import Cell, setting

RECORDS = 20_000
_BUDGET = dp.ApproxDP(1.0, 1e-6)
# a share of the records, its effect on the log rate, and the shape of gamma rates (0: Poisson counts)
_LEVELS = (
    (0.02, 2.0, 0.0), (0.02, 3.0, 0.0), (0.1, -2.0, 0.0), (0.1, 2.0, 0.0), (0.1, 3.0, 0.0),
    (0.5, 2.0, 0.0), (0.5, 3.0, 0.0), (0.02, 2.0, 1.5), (0.1, 1.5, 1.5), (0.5, 1.5, 1.5),
)  # fmt: skip
# a slope per deviation of a number, and the law of outcomes over their mean with its parameter
_STEEP = ((0.7, "gamma rates", 0.3), (0.7, "gamma rates", 1.0), (0.7, "log-normal", 1.5))
_STEEP_BUDGET = dp.ZCDP(0.1)
_NUMBERS_OF_RECORDS = (4_000, 20_000, 100_000, 500_000)
_CUTS = (0.05, 0.01, 0.002)  # shares of the records
_REAL = ("rand_visits", "gsoep_doctor", "gsoep_hospital")
_DRAWN = ("syn_pois", "syn_nb", "syn_rate", "syn_cost", "syn_strong", "syn_mis")
_DESIGNS = ("rand_visits", "gsoep_doctor", "syn_pois", "syn_nb", "syn_cost", "syn_strong")
_SEED = 21


def of_line(
    model: dp.PoissonRegression, x: Array, outcome: Array, place: int, truth: float
) -> tuple[float, float, float]:
    """Whether a line is printed, whether it holds the truth, and its length."""
    with threadpool_limits(1, "blas"):
        result = model.fit(x, outcome).result_
    if not result.reported[place]:
        return 0.0, np.nan, np.nan
    low, high = result.conf_int()[place]
    return 1.0, float(low <= truth <= high), high - low


def of_level(case: tuple[float, float, float], seed: int) -> tuple[float, float, float]:
    """The line of a level, in a table of this seed."""
    share, effect, shape = case
    rng = np.random.default_rng(5000 + seed)
    x = np.column_stack([rng.normal(size=(RECORDS, 2)).clip(-3, 3), rng.random(RECORDS) < share])
    mean = np.exp(0.3 + 0.2 * x[:, 0] + effect * x[:, 2])
    if shape:
        mean = mean * rng.gamma(shape, 1 / shape, RECORDS)
    model = dp.PoissonRegression(
        budget=_BUDGET,
        insecure_seed=seed,
        bounds=([-3, -3, 0], [3, 3, 1]),
        yes_no=[2],
        outcome=(0, 1000),
    )
    return of_line(model, x, rng.poisson(mean).astype(float), 3, effect)


def of_slope(case: tuple[float, str, float], seed: int) -> tuple[float, float, float]:
    """The line of a steep slope, in a table of this seed."""
    slope, law, spread = case
    rng = np.random.default_rng(9000 + seed)
    x = rng.normal(size=(RECORDS, 2)).clip(-3, 3)
    mean = np.exp(0.3 + slope * x[:, 0] + 0.2 * x[:, 1])
    if law == "gamma rates":
        outcome = rng.poisson(mean * rng.gamma(spread, 1 / spread, RECORDS)).astype(float)
    else:
        outcome = mean * rng.lognormal(-(spread**2) / 2, spread, RECORDS)
    model = dp.PoissonRegression(
        budget=_STEEP_BUDGET, insecure_seed=seed, bounds=(-3, 3), outcome=(0, 1e5)
    )
    return of_line(model, x, np.minimum(outcome, 1e5), 1, slope)


def of_number(records: int, seed: int) -> tuple[float, float, float]:
    """The first slope in a table of so many records, and of this seed."""
    rng = np.random.default_rng(7000 + seed)
    slopes = np.array([0.2, -0.2, 0.1, 0.0])
    x = rng.normal(size=(records, 4)).clip(-3, 3)
    outcome = rng.poisson(np.exp(0.5 + x @ slopes) * rng.gamma(0.7, 1 / 0.7, records))
    model = dp.PoissonRegression(
        budget=_BUDGET, insecure_seed=seed, bounds=(-3, 3), outcome=(0, 1000)
    )
    printed, held, length = of_line(model, x, outcome.astype(float), 1, slopes[0])
    plain = dp.PoissonRegression(budget=dp.NoPrivacy(), bounds=(-3, 3), outcome=(0, 1000))
    ordinary = plain.fit(x, outcome).result_
    return printed, held, length / float(np.diff(ordinary.conf_int()[1])[0])


def of_cuts(design: str, folder: Path) -> list[float]:
    """By how much a cut moves slopes, over what chance alone does: root mean squares over columns, for
    each share of the records.
    """
    at = setting(Cell(design, "1,1e-6"), folder)
    people = at.people
    assert isinstance(people, People)
    rows = people.rows
    outcomes = people.labels
    offset = people.offset + (at.recipe.design.offset or 0.0)
    means = np.exp(rows @ at.asked.coef + offset)
    means *= outcomes.mean() / means.mean()
    information = (rows * means[:, None]).T @ rows / len(rows)
    lengths = np.sqrt(np.einsum("ij,ji->i", rows, np.linalg.solve(information, rows.T)))
    sizes = lengths * np.abs(outcomes - means)
    found = []
    for share in _CUTS:
        beyond = np.maximum(sizes - np.quantile(sizes, 1 - share), 0.0) / lengths
        cut = np.sign(outcomes - means) * beyond
        taken = np.linalg.solve(information, (rows * cut[:, None]).T)[1:]
        moved = taken.sum(axis=1)
        found.append(float(np.sqrt(np.mean(moved**2 / (taken**2).sum(axis=1)))))
    return found


def of_spreads(cell: Cell, folder: Path, index: int) -> float:
    """The part that one fit measures; NaN where it cannot tell."""
    seen: list[Known] = []

    def watched(known: Known) -> Known:
        seen.append(known)
        return part_of_one(known)

    with threadpool_limits(1, "blas"), patch.object(cut_off, "part_of_one", watched):
        at = setting(cell, folder)
        sample = at.population.sample(_SEED, index)
        fit(at.recipe, sample, insecure_seed=noise_seed(_SEED, index))
    return seen[0].value if seen else np.nan


def together(found: Iterable[tuple[float, float, float]]) -> str:
    """Of many lines."""
    printed, held, lengths = np.array(list(found)).T
    return (
        f"printed {printed.mean():.2f}, holds {np.nanmean(held):.2f}, "
        f"length {np.nanmedian(lengths):.3f}"
    )


def lines(folder: Path, fits: int, pool: ProcessPoolExecutor) -> Iterator[str]:
    """What is printed, one line after the other."""
    for level in _LEVELS:
        share, effect, shape = level
        rates = "gamma rates" if shape else "Poisson"
        found = pool.map(partial(of_level, level), range(fits))
        yield f"level of {share:.0%}, effect {effect:g}, {rates}: {together(found)}"
    for steep in _STEEP:
        slope, law, spread = steep
        found = pool.map(partial(of_slope, steep), range(fits))
        yield f"slope of {slope:g}, {law} {spread:g}: {together(found)}"
    for records in _NUMBERS_OF_RECORDS:
        found = pool.map(partial(of_number, records), range(fits))
        yield f"{records:,} records: {together(found)} of that without noise"
    for design in (*_REAL, *_DRAWN):
        moved = ", ".join(f"{one:.3f}" for one in of_cuts(design, folder))
        shares = ", ".join(f"{share:.1%}" for share in _CUTS)
        yield f"{design}: cuts off {shares} of the records move slopes by {moved} deviations"
    for design in _DESIGNS:
        for budget in ("1,1e-6", "3,1e-6"):
            work = partial(of_spreads, Cell(design, budget), folder)
            parts = np.array(list(pool.map(work, range(fits // 2))))
            low, middle, high = np.nanquantile(parts, [0.1, 0.5, 0.9])
            yield f"{design} at {budget}: part {middle:.2f}, from {low:.2f} to {high:.2f}"


def main() -> None:
    """All looks."""
    parser = argparse.ArgumentParser(prog="python -m studies.counts.looks", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--fits", type=int, default=60)
    chosen = parser.parse_args()
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        for line in lines(chosen.data, chosen.fits, pool):
            print(line, flush=True)


if __name__ == "__main__":
    main()
