"""The story of a logistic fit in a private geometry: four releases, then post-processing only.

1. crude moments   sum x xᵀ                            -> a crude geometry
2. moments         sum w u uᵀ and the score there      -> the columns of the fit, its geometry, a centre for its ridge
3. estimate        minimum of the perturbed risk       -> coefficients
4. matrices        curvature and score covariance      -> what the intervals need
"""

import secrets
from dataclasses import dataclass, replace

import numpy as np

from dpinfer.data.changed import kept
from dpinfer.data.source import Source
from dpinfer.fit.frame import ZOOMS, Frame, Winsorised, framed, in_frame, pulled
from dpinfer.fit.geometry import InGeometry, crude_moments, in_units, published, refined_moments
from dpinfer.fit.recipe import privacy
from dpinfer.fit.weighted.plan import WEIGHTED, GeometryPlan, risk_of
from dpinfer.maths.arrays import Array
from dpinfer.maths.aside import Estimate, fitted
from dpinfer.maths.asked import Conclusion, conclude, log_odds_sizes, nothing
from dpinfer.maths.entering import Shape, logistic_shape
from dpinfer.maths.losses import describe
from dpinfer.maths.moments import centre_of
from dpinfer.maths.posterior import Moments
from dpinfer.maths.sums import moment_and_score
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import Release
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Model

_NEVER = 40.0  # deviations: a normal number beyond has a chance of 10⁻³⁴⁹


@dataclass(frozen=True)
class Weighted(InGeometry[GeometryPlan]):
    """Logistic regression of a design with an intercept, without a penalty."""

    def releases(self, n: int) -> tuple[Release, ...]:  # noqa: ARG002  (their noise does not depend on n)
        """Two of moments, then the coefficients and the matrices at them."""
        return self.plan.releases()

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Four releases, then post-processing.

        Guarantee [released_values_only]: columns, geometry, centre, statuses and intervals are functions of the four
        releases and of public facts: with the same releases, other records give the same result.
        """
        rows = kept(source)
        booked = self.plan.releases()[:ZOOMS] if self.plan.target == WEIGHTED else ()  # else the public box
        frame = framed(gate, booked, rows, self.design, self.neighbours)
        return replace(self, design=frame.design(self.design, pull=True)).run_in(gate, source, rows, frame)

    def run_in(self, gate: Gate, source: Source, rows: Source, frame: Frame) -> FitResult:
        """The releases of the fit, in the frame."""
        design, at = self.design, self.setting()
        first, second, *_ = self.plan.releases()[ZOOMS:]
        crude = crude_moments(gate, first, Winsorised(rows, frame), at)
        rows = in_frame(frame, rows, self.neighbours)
        known = refined_moments(gate, second, rows, at, crude, moment_and_score(self.neighbours))
        shape = self.shape(known)
        found = self.estimate(gate, pulled(rows, shape.short), shape)
        centre = centre_of(known.matrix, design.columns)
        seed = secrets.randbits(63) if gate.seed is None else gate.seed
        said = self._conclude(known, shape, found, centre, seed)
        coef = np.zeros(len(design.names))
        coef[shape.kept], centre[shape.kept] = said.coef, said.centre
        status, geometry = published(shape, said, centre, design)
        return FitResult(
            names=design.names,
            estimate=coef / design.half,
            error=said.law.mapped(np.diag(1 / design.half[shape.kept[said.reported]])),
            hessian=in_units(found.hessian, shape, centre, design),
            score_cov=in_units(found.score_cov, shape, centre, design),
            model=self._model(source.n),
            privacy=privacy(gate, self.plan.promise),
            status=status,
            geometry=geometry,
        )

    def shape(self, known: Moments) -> Shape:
        """Columns, geometry and centre of the fit."""
        scales, weighted = self.plan.scales(), self.plan.target == WEIGHTED
        return logistic_shape(known, self.design.columns, scales, weighted=weighted)

    def estimate(self, gate: Gate, source: Source, shape: Shape) -> Estimate:
        """Releases 3 and 4: the minimum of the perturbed risk, then curvature and score covariance there."""
        _, _, third, fourth = self.plan.releases()[ZOOMS:]
        at, crude = self.setting(), self.plan.scales().crude
        most = source.n if self.neighbours.counted else shape.n + _NEVER * crude * self.design.norm2
        u = kept(at.mapped(source, shape.kept, shape.preconditioner), last=True)
        risk = risk_of(self.plan.loss, third.share, self.neighbours, most, shape.centre)
        released = gate.release(third, u, risk)
        stacked = gate.release(fourth, u, risk.stacked_sum(released.value)).value
        hessian, score_cov = risk.unstack(stacked, len(shape.kept))
        gradient = at.scales.ridge * (released.value - shape.centre)
        score_cov = at.clustered(score_cov, u, shape.n)
        return Estimate(released.value, hessian, score_cov, gradient, released.mask)

    def _conclude(self, known: Moments, shape: Shape, found: Estimate, centre: Array, seed: int) -> Conclusion:
        """What is said of the columns of the fit; nothing at all where the fit as a whole is not identified."""
        fit = fitted(found, shape, centre, self.design.columns, self.plan.scales())
        if fit is None or not known.two_classes:
            return nothing(found, shape, centre, seed)
        plausible = log_odds_sizes(fit.spread, fit.dummy)
        return conclude(fit, self.design.columns, plausible, known, self.plan.draws, seed)

    def _model(self, n: int) -> Model:
        return Model(
            loss=describe(self.plan.loss),
            penalty=0.0,
            n=n if self.neighbours.counted else None,
            target=self.plan.target,
            whom=self.design.unit,
            mechanism="Gaussian objective perturbation in a released geometry",
            recipe="geometry",
        )
