"""The law of the error where the Hessian itself is noisy: an equal mixture of Gaussians, one a plausible Hessian.

In coordinates z in which the noise of the Hessian is symmetric with scale h,

    H (target - estimate) = g + N(0, V + σ² I),      H_k = H + noise of scale h,   k = 1..K,

so for each H_k, with a weak Gaussian prior of precision Π on the deviation,

    C_k = (H_k (V + σ²I)⁻¹ H_k + Π)⁻¹,    m_k = C_k H_k (V + σ²I)⁻¹ g.

The mixture debiases by g, counts the noise of H and the convexity of the inverse, and widens where H is weak.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from dpinfer.maths.arrays import Array, unsvec


@dataclass(frozen=True, eq=False)
class MixtureLaw:
    """The law of target - estimate, the estimate being the mean of the mixture.

    ``transform`` maps z to the reported coordinates; ``allowance`` is added to both ends there.  The components are
    drawn anew from the seed, so that a saved result stays small; the seed has nothing to do with the privacy noise.
    """

    hessian: Array
    sampling: Array
    gradient: Array
    prior: Array
    transform: Array
    allowance: Array
    gradient_noise: float
    hessian_noise: float
    components: int
    draws: int
    seed: int

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """m_k and C_k in z."""
        d = len(self.hessian)
        noise = np.random.default_rng([self.seed, 2]).standard_normal((self.components, d * (d + 1) // 2))
        H = self.hessian + self.hessian_noise * unsvec(noise, d)
        weight = np.linalg.inv(self.sampling + self.gradient_noise**2 * np.eye(d))
        HW = H @ weight
        C = np.linalg.inv(HW @ H + self.prior)
        C = (C + C.mT) / 2
        return np.einsum("kij,kj->ki", C, HW @ self.gradient), C

    def step(self) -> Array:
        """The mean of the mixture, in reported coordinates: what is added to the released coefficients."""
        return np.asarray(self.transform @ self._parts[0].mean(axis=0))

    def covariance(self) -> Array:
        """Covariance of the mixture: within the components and between them."""
        means, C = self._parts
        between = np.cov(means.T, bias=True).reshape(C.shape[1:])
        return np.asarray(self.transform @ (C.mean(axis=0) + between) @ self.transform.T)

    def noise_share(self) -> Array:
        """The part of each variance that is privacy noise: all that the sandwich without noise does not explain."""
        half = np.linalg.solve(self.hessian, self.transform.T)
        sandwich = np.einsum("ij,ik,kj->j", half, self.sampling, half)
        return np.asarray(1 - np.clip(sandwich / np.diag(self.covariance()), 0.0, 1.0))

    def mapped(self, matrix: Array) -> "MixtureLaw":
        """The law of matrix @ (target - estimate); allowances add in absolute value."""
        return self._like(transform=matrix @ self.transform, allowance=np.abs(matrix) @ self.allowance)

    def with_allowance(self, allowance: Array) -> "MixtureLaw":
        """The same mixture with another allowance."""
        return self._like(allowance=allowance)

    def _like(self, **changes: Array) -> "MixtureLaw":
        """A law with the same components, which need not be drawn again."""
        law = replace(self, **changes)  # type: ignore[arg-type]
        law.__dict__["_parts"] = self._parts
        return law

    def sample(self) -> Array:
        """``draws`` errors, one a row, each moved outwards by the allowance; the same ones each time."""
        means, C = self._parts
        rng = np.random.default_rng([self.seed, 1])
        which = np.arange(self.draws) % self.components
        root = np.linalg.cholesky(C)
        z = np.einsum("kij,kj->ki", root[which], rng.standard_normal((self.draws, len(self.hessian))))
        errors = (z + means[which] - means.mean(axis=0)) @ self.transform.T
        return np.asarray(errors + np.sign(errors) * self.allowance)

    def interval(self, estimate: Array, level: float) -> Array:
        """Equal-tailed quantiles of the mixture, widened by the allowance."""
        tail = (1 - level) / 2
        low, high = self._quantile(tail) - self.allowance, self._quantile(1 - tail) + self.allowance
        return np.stack([estimate + low, estimate + high], axis=1)

    def p_values(self, estimate: Array) -> Array:
        """Two-sided p-values of "this coefficient is 0": 1 less the largest level whose interval excludes it."""
        below, above = self._probability(self.allowance - estimate), self._probability(-self.allowance - estimate)
        return np.asarray(np.minimum(1.0, 2 * np.minimum(below, 1 - above)))

    @cached_property
    def _reported(self) -> tuple[Array, Array]:
        """Means and standard deviations of the components in reported coordinates, around the mean of the mixture."""
        means, C = self._parts
        variance = np.einsum("ij,kjl,il->ki", self.transform, C, self.transform)
        return (means - means.mean(axis=0)) @ self.transform.T, np.sqrt(np.maximum(variance, np.finfo(float).tiny))

    def _probability(self, values: Array) -> Array:
        means, deviations = self._reported
        return np.asarray(ndtr((values - means) / deviations).mean(axis=0))

    def _quantile(self, p: float) -> Array:
        """By bisection between the extreme quantiles of the components."""
        means, deviations = self._reported
        ends = means + ndtri(p) * deviations
        low, high = ends.min(axis=0), ends.max(axis=0)
        for _ in range(60):
            middle = (low + high) / 2
            short = self._probability(middle) < p
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray((low + high) / 2)


def no_law(seed: int) -> MixtureLaw:
    """The law of no coefficient at all: everything was set aside."""
    one = np.eye(1)
    return MixtureLaw(one, one, np.zeros(1), one, np.zeros((0, 1)), np.zeros(0), 0.0, 0.0, 1, 1, seed)
