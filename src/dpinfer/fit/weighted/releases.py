"""The four releases of a fit in a private geometry, each through the gate, and what is made of them.

1. crude moments   sum x xᵀ                            -> a crude geometry
2. moments         sum w u uᵀ and the score there      -> the columns of the fit, its geometry, a centre for its ridge
3. estimate        minimum of the perturbed risk       -> coefficients
4. matrices        curvature and score covariance      -> what the intervals need
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.data.design import Design
from dpinfer.data.source import Source, mapped
from dpinfer.fit.weighted.plan import GeometryPlan, risk_of
from dpinfer.maths.arrays import unsvec
from dpinfer.maths.aside import Estimate
from dpinfer.maths.entering import Shape
from dpinfer.maths.moments import Scales, preconditioner
from dpinfer.maths.posterior import SURE, Crude, Moments, posterior, refined
from dpinfer.maths.sums import moment_and_score, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum, PerturbedMinimum

_FEWEST = 50.0  # a private number of records is taken to be at least this
_WHOLE = 2.0  # least radius factor of the second release, which should not lose rows
_NEVER = 40.0  # deviations: a normal number beyond has a chance of 10⁻³⁴⁹


@dataclass(frozen=True, eq=False)
class Setting:
    """What is public about a fit: the encoding, the plan, its releases and their noise."""

    design: Design
    plan: GeometryPlan
    releases: tuple[NoisySum, NoisySum, PerturbedMinimum, NoisySum]
    scales: Scales

    @classmethod
    def of(cls, design: Design, plan: GeometryPlan) -> "Setting":
        """From the design and the plan."""
        return cls(design, plan, plan.releases(), plan.scales())

    @property
    def neighbours(self) -> Neighbours:
        """What may differ between two data sets."""
        return Neighbours(self.plan.neighbours)


def crude_moments(gate: Gate, source: Source, at: Setting) -> Crude:
    """Release 1.  The number of records is public or, if private, read off the release.

    Rows that cannot be encoded count for nothing: where the release shows clearly fewer records, it is believed.
    """
    released = gate.release(at.releases[0], source, second_moment(at.neighbours))
    d, norm2 = source.dim, at.design.norm2
    moments = unsvec(released.value, d) * norm2
    noise = at.scales.crude * norm2
    n = max(float(moments[0, 0]), _FEWEST)
    if at.neighbours is Neighbours.REPLACE and n >= source.n - SURE * noise:
        n = float(source.n)
    known = posterior(moments, at.design.columns, n, noise)
    return Crude(known, n, preconditioner(known, at.design.columns, n, at.scales.kappa(d, n, _WHOLE)))


def refined_moments(gate: Gate, source: Source, at: Setting, crude: Crude) -> Moments:
    """Release 2, in the geometry of the first."""
    d = source.dim
    u = mapped(source, crude.preconditioner * np.sqrt(at.design.norm2))
    released = gate.release(at.releases[1], u, moment_and_score(at.neighbours)).value
    return refined(unsvec(released[:-d], d), released[-d:], at.scales.moments, crude, at.design.columns)


def estimate(gate: Gate, source: Source, at: Setting, shape: Shape) -> Estimate:
    """Releases 3 and 4."""
    _, _, third, fourth = at.releases
    matrix = np.zeros((len(shape.kept), source.dim))
    matrix[:, shape.kept] = shape.preconditioner * np.sqrt(at.design.norm2)
    most = source.n if at.neighbours is Neighbours.REPLACE else shape.n + _NEVER * at.scales.crude * at.design.norm2
    u, risk = mapped(source, matrix), risk_of(at.plan.loss, third.share, at.neighbours, most, shape.centre)
    released = gate.release(third, u, risk)
    stacked = gate.release(fourth, u, risk.stacked_sum(released.value)).value
    return Estimate(released.value, *risk.unstack(stacked, len(shape.kept)), released.mask)
