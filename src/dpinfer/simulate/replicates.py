"""Replicates of one fit after the other: the product itself on bootstrap samples, against what was
asked and stated.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.recipe import fit
from dpinfer.fit.stepped import Stepped
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import describe
from dpinfer.maths.sums import Block
from dpinfer.result.result import FitResult
from dpinfer.simulate.estimands import stated
from dpinfer.simulate.population import Population
from dpinfer.simulate.runner import Tally


@dataclass(frozen=True, eq=False)
class SingleTrial:
    """A recipe without a penalty.  The population is the data set."""

    recipe: Stepped[Any]
    population: Population
    seed: int
    batch = 8

    @cached_property
    def people(self) -> Block:
        """The population with its rows as (1, x~)."""
        return replace(
            self.population.whole.block,
            rows=self.population.rows * np.sqrt(self.recipe.design.norm2),
        )

    @cached_property
    def asked(self) -> NoiselessFit:
        """The ordinary regression of all columns (1, x~)."""
        return self.recipe.ordinary(self.people)

    @property
    def target(self) -> Array:
        """What is asked of the population; NaN where the releases decide it."""
        return self.recipe.estimand(self.population.whole)

    def fit(self, replicate: int) -> FitResult:
        """The product's fit of one bootstrap sample."""
        sample = self.population.sample(self.seed, replicate)
        return fit(self.recipe, sample, insecure_seed=noise_seed(self.seed, replicate))

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:  # noqa: ARG002
        """Intervals of some replicates, held against what was asked and against what each fit
        states.
        """
        return _together([self._one(self.fit(replicate), level) for replicate in replicates])

    def _one(self, result: FitResult, level: float) -> Tally:
        design = self.recipe.design
        assert result.geometry is not None
        asked = self.asked.in_units(design, result.geometry.centre)
        estimand = stated(result, design, self.people, self.asked).coef
        target = estimand if self.recipe.released_estimand else asked.coef
        plain = -2 * ndtri((1 - level) / 2) * asked.std_error
        return _held(result, target, estimand, plain, level)

    def describe(self) -> str:
        """The setting in words."""
        return f"{_number(self.population)}, {self.recipe.describe(self.population.n)}"

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting."""
        data, design = hashlib.sha256(), self.recipe.design
        self.population.update(data)
        for array in (design.half, design.middle):
            data.update(np.ascontiguousarray(array).tobytes())
        data.update(repr((self.recipe.plan, design.outcome, design.unit, self.seed)).encode())
        return data.digest()


@dataclass(frozen=True, eq=False)
class PenalisedTrial:
    """A penalised recipe on units or weights, which the engine of many fits at once does not know."""

    recipe: Penalised
    population: Population
    seed: int
    batch = 8

    @property
    def target(self) -> Array:
        """What the intervals should cover: the minimiser on the population."""
        return self.recipe.estimand(self.population.whole)

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Intervals of some replicates, and those of fits without noise on the same samples."""
        recipe, target, parts = self.recipe, self.target, []
        plain = recipe.noiseless(self.population.n)
        for replicate in replicates:
            sample = self.population.sample(self.seed, replicate)
            result = fit(recipe, sample, insecure_seed=noise_seed(self.seed, replicate))
            other = fit(plain, sample, insecure_seed=0) if nonprivate else result
            parts.append(_held(result, target, target, np.diff(other.conf_int(level))[:, 0], level))
        return _together(parts)

    def describe(self) -> str:
        """The setting in words."""
        return f"{_number(self.population)}, {self.recipe.describe(self.population.n)}"

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting; a loss by what it does, not by its name."""
        data, recipe, z = hashlib.sha256(), self.recipe, np.linspace(-5, 5, 201)
        self.population.update(data)
        for array in (
            recipe.design.mapping,
            recipe.design.shift,
            recipe.loss.slope(z),
            recipe.loss.curvature(z),
        ):
            data.update(np.ascontiguousarray(array).tobytes())
        facts = (
            recipe.plan,
            recipe.target,
            describe(recipe.loss),
            recipe.penalty,
            recipe.design.unit,
            self.seed,
        )
        data.update(repr(facts).encode())
        return data.digest()


def noise_seed(seed: int, replicate: int) -> int:
    """The seed of the noise of one replicate."""
    return int(np.random.SeedSequence([seed, replicate]).generate_state(1)[0])


def _held(result: FitResult, asked: Array, estimand: Array, plain: Array, level: float) -> Tally:
    """The intervals of one result against what was asked and what is stated; ``plain`` are lengths
    without noise.
    """
    low, high = result.conf_int(level).T
    kept = result.reported
    length = np.where(kept, high - low, 0.0)
    instead = () if result.instead is None else result.instead.instead_of
    return Tally(
        replicates=1,
        covered=(kept & (low <= asked) & (asked <= high)).astype(float),
        stated=(kept & (low <= estimand) & (estimand <= high)).astype(float),
        length=length,
        length_squared=length**2,
        nonprivate=np.where(kept, plain, 0.0),
        reported=kept.astype(float),
        answered=(kept | np.isin(result.names, instead)).astype(float),
    )


def _together(parts: list[Tally]) -> Tally:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _number(population: Population) -> str:
    return f"n = {population.n}" if population.starts is None else f"{population.n} units"
