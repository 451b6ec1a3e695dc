"""Sampling weights with a known truth: people enter a sample by what they are and by their outcome.

A person is selected with a probability between 1/5 and 1 that is larger where covariate and outcome
agree, so that the sample exaggerates a coefficient.  The weight of a row is the inverse of that
probability.  The model is right: outcomes follow a logistic curve given the covariates, so its
coefficients are those of the population, by rows and by persons.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtr
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array, Indices
from studies.asked import Z95
from studies.units.cell import budget, compare

ROWS, PERSONS = "survey", "survey_persons"
WEIGHTED, IGNORED = "weights", "no weights"
SIZE = 20_000
"""Persons in a sample; one row each in "survey", one to three in "survey_persons"."""
MOST_ROWS = 3
LEAST = 0.2
"""Public: the most rows of a person, and the least probability to be selected."""
TRUTH = np.array([-0.5, 0.6, -0.4, 0.3, 0.5])
NAMES = ("intercept", "a", "b", "c", "d")


@dataclass(frozen=True)
class Survey:
    """A sampling design, a budget, and whether the weights are used."""

    design: str
    budget: str
    method: str = WEIGHTED

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.method.replace(' ', '_')}"

    @property
    def most_weight(self) -> float:
        """The public bound of what the rows of a person weigh together."""
        return (MOST_ROWS if self.design == PERSONS else 1) / LEAST


@dataclass(frozen=True, eq=False)
class Sample:
    """Covariates, outcomes, whose rows they are, and the weights."""

    x: Array
    y: Indices
    ids: Indices
    weights: Array


def draw(design: str, index: int) -> Sample:
    """People until enough of them are selected; outcomes of a person share a normal factor, given
    the covariates.
    """
    rng = np.random.default_rng([index, 17])
    tries = 3 * SIZE
    number = (
        rng.integers(1, MOST_ROWS + 1, tries) if design == PERSONS else np.ones(tries, dtype=int)
    )
    ids = np.repeat(np.arange(tries), number)
    person = rng.standard_normal((tries, 2))
    n = len(ids)
    a = person[ids, 0]
    b = 0.6 * person[ids, 1] + 0.8 * rng.standard_normal(n)
    x = np.column_stack([a, b, rng.standard_normal(n), rng.random(n) < 0.3])
    x[:, :3] = np.clip(x[:, :3], -4, 4)
    place = 0.8 * rng.standard_normal(tries)[ids] + 0.6 * rng.standard_normal(n)
    y = (ndtr(place) < expit(TRUTH[0] + x @ TRUTH[1:])).astype(int)
    agree = np.bincount(ids, x[:, 0] * (2 * y - 1)) / number
    chance = LEAST + (1 - LEAST) * expit(1.5 * agree)
    selected = rng.random(tries) < chance
    selected &= np.cumsum(selected) <= SIZE
    kept = selected[ids]
    return Sample(x[kept], y[kept], ids[kept], 1 / chance[ids[kept]])


def survey(cell: Survey, index: int) -> dict[str, Any]:
    """What one sample says of each coefficient of the population."""
    with threadpool_limits(1, "blas"):
        sample = draw(cell.design, index)
        weighted = cell.method == WEIGHTED
        ids = sample.ids if cell.design == PERSONS else None
        model = dp.LogisticRegression(
            bounds=([-4.0, -4.0, -4.0, 0.0], [4.0, 4.0, 4.0, 1.0]),
            budget=budget(cell.budget),
            most_weight=cell.most_weight if weighted else None,
            insecure_seed=index,
        )
        asked = (sample.x, sample.y, ids, sample.weights if weighted else None)
        result = model.fit(*asked).result_
        design, pending = model.read(*asked)
        block = pending.rows().block
        rows = Block(
            block.rows * np.sqrt(design.norm2),
            block.labels,
            block.shares,
            block.shares,
            block.starts,
        )
        assert result.geometry is not None
        truth = TRUTH.copy()
        truth[0] += result.geometry.centre @ TRUTH[1:]
        plain = LogisticSteps.ordinary(rows).in_units(design, result.geometry.centre)
        found = compare(result, {"asked": truth}, plain.std_error)
        with np.errstate(invalid="ignore"):
            near = np.abs(plain.coef - truth) <= Z95 * plain.std_error
        return {**found, "plain": np.where(result.reported, near, np.nan).tolist()}
