"""Replicates of a fit in a private geometry: the product itself on bootstrap samples, held against what it states."""

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpinfer.fit.linear.run import Linear
from dpinfer.fit.recipe import fit
from dpinfer.fit.weighted.run import Weighted
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import describe
from dpinfer.result.result import FitResult
from dpinfer.simulate.draws import Population
from dpinfer.simulate.runner import Tally
from dpinfer.simulate.stated import full_model, in_units, stated


@dataclass(frozen=True, eq=False)
class SingleTrial:
    """A recipe in a private geometry.  The population is the data set."""

    recipe: Weighted | Linear
    population: Population
    seed: int
    batch = 8

    @property
    def x(self) -> Array:
        """The rows as (1, x~)."""
        return np.asarray(self.population.rows * np.sqrt(self.recipe.design.norm2))

    @property
    def target(self) -> Array:
        """The coefficients of the full model without noise or weights, the intercept at the means of the columns."""
        x, design = self.x, self.recipe.design
        full = full_model(x, self.population.labels, squares=isinstance(self.recipe, Linear))
        return in_units(design, (design.middle + design.half * x.mean(axis=0))[1:])(full)

    def fit(self, replicate: int) -> FitResult:
        """The product's fit of one bootstrap sample."""
        noise = int(np.random.SeedSequence([self.seed, replicate]).generate_state(1)[0])
        return fit(self.recipe, self.population.sample(self.seed, replicate), insecure_seed=noise)

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:  # noqa: ARG002
        """Intervals of some replicates, each held against its own stated target."""
        x, z, parts = self.x, -ndtri((1 - level) / 2), []
        nowhere = np.zeros(x.shape[1])  # the full model is not needed here
        for replicate in replicates:
            result = self.fit(replicate)
            about = stated(result, self.recipe.design, x, self.population.labels, nowhere)
            low, high = result.conf_int(level).T
            kept = result.reported
            length = np.where(kept, high - low, 0.0)
            covered = kept & (low <= about.target) & (about.target <= high)
            plain = np.where(kept, 2 * z * about.std_error, 0.0)
            parts.append(Tally(1, covered.astype(float), length, length**2, plain, kept.astype(float)))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def describe(self) -> str:
        """The setting in words."""
        plan = self.recipe.plan
        loss = "least squares" if isinstance(self.recipe, Linear) else describe(self.recipe.plan.loss)
        return f"n = {self.population.n}, {loss}, {plan.target} target in a private geometry, {plan.budget}"

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting."""
        data, design = hashlib.sha256(), self.recipe.design
        for array in (self.population.rows, self.population.labels, design.half, design.middle):
            data.update(np.ascontiguousarray(array).tobytes())
        data.update(repr((self.recipe.plan, design.outcome, self.seed)).encode())
        return data.digest()
