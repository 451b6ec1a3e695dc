"""One replicate: a bootstrap sample, one moment release, and many regressions from it beside ordinary ones."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer.inference import moment_answers
from dpinfer.moment_release.releasing import Releasing, releasing
from dpinfer.numerics.arrays import Array
from dpinfer.schema.features import monomials
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import noise_seed
from studies.asked import budget
from studies.common import plain
from studies.moments.designs import load

SEED = 0
Z95 = 1.959964
QUESTIONS = 12
OFTEN = (
    0.5  # of the replicates: what fewer of them report is no candidate for the lowest coefficient
)


@dataclass(frozen=True)
class Cell:
    """A design, the number of records that are drawn of it, and a budget."""

    design: str
    n: int = 20_000
    budget: str = "1,1e-6"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.n}-{self.budget}"


@dataclass(frozen=True, eq=False)
class Question:
    """An outcome and predictors by their position among the features, with the ordinary regression."""

    outcome: int
    predictors: tuple[int, ...]
    coef: Array
    std_error: Array


@dataclass(frozen=True, eq=False)
class Setting:
    """A population, what is released of it, and the questions."""

    release: Releasing
    population: Population
    questions: tuple[Question, ...]


@lru_cache(maxsize=1)
def setting(cell: Cell, folder: Path) -> Setting:
    """Read the table of a cell once, and regress it without privacy."""
    table = load(cell.design, folder)
    release = releasing(table.frame, table.schema, table.columns, budget(cell.budget))
    rows = release.records.rows()
    population = Population.of_records(rows)
    questions = tuple(
        _ordinary(one, release, population) for one in _questions(release, population)
    )
    return Setting(release, population, questions)


def _questions(release: Releasing, population: Population) -> list[tuple[int, tuple[int, ...]]]:
    """Random questions: an outcome among numbers and common levels, three to ten predictors, with
    everything that products are made of.
    """
    columns = monomials(release.features.terms)
    rng = np.random.default_rng([1, len(columns)])
    single = [j for j, one in enumerate(columns) if len(one.numbers) + len(one.levels) == 1]
    share = np.abs(population.rows[:, single] / population.rows[:, :1]).mean(axis=0)
    common = [j for j, s in zip(single, share, strict=True) if columns[j].numbers or s > 0.03]
    numbers = [j for j in common if columns[j].numbers]
    found: list[tuple[int, tuple[int, ...]]] = []
    while len(found) < QUESTIONS:
        pool = numbers if rng.random() < 0.6 else common
        outcome = int(pool[rng.integers(len(pool))])
        own = {*columns[outcome].numbers, *(factor for factor, _ in columns[outcome].levels)}
        others = [
            j
            for j, one in enumerate(columns)
            if j and not own & {*one.numbers, *(factor for factor, _ in one.levels)}
        ]
        size = min(int(rng.integers(3, 11)), len(others))
        chosen = {int(j) for j in rng.choice(others, size, replace=False)}
        for j in list(chosen):
            if len(columns[j].numbers) + len(columns[j].levels) > 1:
                chosen |= {
                    k
                    for k in single
                    if {*columns[k].numbers} <= {*columns[j].numbers}
                    and columns[k].levels <= columns[j].levels
                }
        found.append((outcome, tuple(sorted(chosen))))
    return found


def _ordinary(
    question: tuple[int, tuple[int, ...]], release: Releasing, population: Population
) -> Question:
    """Regress the whole table; standard errors are those of one record (HC0) or person (CR0)."""
    outcome, predictors = question
    design = release.design
    present = population.rows[:, 0] != 0
    x = population.rows * np.sqrt(design.norm2)
    values = np.where(present[:, None], design.middle + design.half * x, 0.0)
    values[:, 0] = present
    share = np.broadcast_to(population.shares, present.shape)
    columns = values[:, [0, *predictors]]
    target = values[:, outcome]
    size = np.maximum(np.abs(columns).max(axis=0), 1e-12)
    inverse = np.linalg.pinv((columns / size).T @ (columns / size * share[:, None]))
    coef = inverse @ ((columns / size).T @ (target * share)) / size
    scores = columns / size * (share * (target - columns @ coef))[:, None]
    if population.starts is not None:
        scores = np.add.reduceat(scores, population.starts, axis=0)
    spread = inverse @ (scores.T @ scores) @ inverse / np.outer(size, size)
    return Question(outcome, predictors, coef, np.sqrt(np.diag(spread) * population.n))


def replicate(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """Of each slope of each question whether it is reported and covered, and its length over that
    without noise at the same number of records.
    """
    with threadpool_limits(1, "blas"):
        at = setting(cell, folder)
        rng = np.random.default_rng([SEED, index])
        drawn = np.sort(rng.integers(0, at.population.n, cell.n))
        released = at.release.of(at.population.of(drawn), noise_seed(SEED, index))
        reported, covered, length = [], [], []
        for question in at.questions:
            columns = np.eye(len(at.release.features))[[0, *question.predictors]]
            outcome = np.eye(len(at.release.features))[question.outcome]
            levels = at.release.design.columns.dummy[[0, *question.predictors]]
            answer = moment_answers.regression(released.sums, columns, outcome, levels)
            shown = ~(answer.too_noisy | answer.too_biased())
            law = released.law(answer)
            low, high = law.interval(answer.coef, 0.95).T
            inside = (low <= question.coef) & (question.coef <= high)
            ratio = (high - low) / (2 * Z95 * question.std_error / np.sqrt(cell.n))
            reported += shown[1:].astype(float).tolist()
            covered += np.where(shown, inside, np.nan)[1:].tolist()
            length += np.where(shown, ratio, np.nan)[1:].tolist()
        return {
            "reported": reported,
            "covered": covered,
            "length": length,
            "clipped": len(released.clipped),
            "price": released.price,
        }


def summary(cell: Cell, folder: Path, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over replicates; the standard error of the coverage counts a replicate as one."""
    at = setting(cell, folder)
    names = [
        f"{at.release.design.names[q.outcome]} ~ {at.release.design.names[j]}"
        for q in at.questions
        for j in q.predictors
    ]
    reported, covered, length = (
        np.array([one[key] for one in found], dtype=float)
        for key in ("reported", "covered", "length")
    )
    counts = np.isfinite(covered).sum(axis=1)
    coverage = float(np.nansum(covered) / max(counts.sum(), 1))
    gaps = np.nansum(covered, axis=1) - coverage * counts
    there = np.isfinite(covered).sum(axis=0)
    by_slope = np.nansum(covered, axis=0) / np.maximum(there, 1)
    often = reported.mean(axis=0) >= OFTEN
    candidates = np.where(often, by_slope, np.inf)
    lowest = int(np.argmin(candidates))
    medians = np.array(
        [np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else np.nan for c in length.T]
    )
    return {
        "cell": cell.name,
        "design": cell.design,
        "features": len(at.release.design.names),
        "n": cell.n,
        "budget": cell.budget,
        "persons": at.release.adjacency.units,
        "slopes": len(names),
        "replicates": len(found),
        "reported_count": int(counts.sum()),
        "coverage": plain(coverage),
        "coverage_error": plain(float(np.sqrt((gaps**2).sum()) / max(counts.sum(), 1))),
        "lowest": plain(candidates[lowest]) if often.any() else None,
        "lowest_name": names[lowest] if often.any() else None,
        "low": {
            name: plain(value)
            for name, value, one in zip(names, by_slope, often, strict=True)
            if one and value < 0.85
        },
        "reported": plain(reported.mean()),
        "length": plain(np.nanmedian(medians[often]) if often.any() else np.nan),
        "length_max": plain(np.nanmax(medians[often]) if often.any() else np.nan),
        "price": plain(float(np.mean([one["price"] for one in found]))),
        "clipped": plain(float(np.mean([one["clipped"] for one in found]))),
    }
