"""The story of a fit in a private geometry: four releases, then post-processing only."""

import secrets
from dataclasses import dataclass

import numpy as np

from dpinfer.data.design import Design
from dpinfer.data.source import Source
from dpinfer.fit.recipe import privacy
from dpinfer.fit.weighted.plan import GeometryPlan
from dpinfer.fit.weighted.releases import (
    Estimate,
    Known,
    Matrices,
    Setting,
    Shape,
    centre_of,
    crude_moments,
    deviations,
    estimate,
    matrices_of,
    refined_moments,
    shape_of,
    two_values,
)
from dpinfer.maths.arrays import Array
from dpinfer.maths.aside import Fitted, intercept_reportable, law_of, reportable
from dpinfer.maths.losses import Logistic, describe
from dpinfer.maths.mixture import MixtureLaw, no_law
from dpinfer.maths.moments import Columns, Indices, raised
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import Release
from dpinfer.result.result import FitResult
from dpinfer.result.statements import DROPPED, FEW_EVENTS, OFFSET, REPORTED, UNIDENTIFIED, Geometry, Model


@dataclass(frozen=True)
class Weighted:
    """Logistic regression of a design with an intercept, without a penalty."""

    design: Design
    plan: GeometryPlan

    @property
    def neighbours(self) -> Neighbours:
        """Those of the plan."""
        return Neighbours(self.plan.neighbours)

    @property
    def budget(self) -> Budget:
        """That of the plan."""
        return self.plan.promise

    def releases(self, n: int) -> tuple[Release, ...]:  # noqa: ARG002  (their noise does not depend on n)
        """Two of moments, then the coefficients and the matrices at them."""
        return self.plan.releases()

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Four releases, then post-processing.

        Guarantee [released_values_only]: columns, geometry, centre, statuses and intervals are functions of the four
        releases and of public facts: with the same releases, other records give the same result.
        """
        at = Setting.of(self.design, self.plan)
        known = refined_moments(gate, source, at, crude_moments(gate, source, at))
        shape = shape_of(known, at)
        found = estimate(gate, source, at, shape)
        outcome = _infer(known, shape, found, at, secrets.randbits(63) if gate.seed is None else gate.seed)
        return FitResult(
            names=self.design.names,
            estimate=outcome.estimate,
            error=outcome.law,
            hessian=outcome.hessian,
            score_cov=outcome.score_cov,
            model=self._model(source.n),
            privacy=privacy(gate, self.plan.promise),
            status=outcome.status,
            geometry=outcome.geometry,
        )

    def _model(self, n: int) -> Model:
        return Model(
            loss=describe(Logistic()),
            penalty=0.0,
            n=n if self.neighbours is Neighbours.REPLACE else None,
            target=self.plan.target,
            mechanism="Gaussian objective perturbation in a released geometry",
            recipe="geometry",
        )


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Everything of the result that comes from the releases."""

    estimate: Array
    law: MixtureLaw
    hessian: Array
    score_cov: Array
    status: tuple[str, ...]
    geometry: Geometry


def _infer(known: Known, shape: Shape, found: Estimate, at: Setting, seed: int) -> _Outcome:
    """Which coefficients are reported, in original units and at the released centre, and the law of their error."""
    design, plan, kept = at.design, at.plan, shape.kept
    centre = centre_of(known.moments.matrix, design.columns)
    forward = _to_centre(centre[kept]) @ shape.preconditioner.T
    back = np.asarray(np.linalg.inv(forward), dtype=np.float64)
    coef, matrices = forward @ found.coef, matrices_of(found, shape, at.scales)
    strong, law = kept[:0], no_law(seed)
    if matrices is not None and known.two_classes:
        fitted = _fitted(found, shape, matrices, at, (coef.copy(), back, centre[kept]))
        inner = reportable(fitted)
        found_law = law_of(fitted, inner, plan.components, plan.draws, seed)
        coef[inner] += found_law.step()
        clear = np.ones(len(inner), dtype=bool)
        clear[0] = intercept_reportable(fitted, inner)
        strong, law = kept[inner[clear]], found_law.mapped(np.eye(len(inner))[clear])
    status = _status(len(design.names), kept, strong)
    whole = np.zeros(len(design.names))
    whole[kept] = coef
    reading = _full_model_reading(known, design.columns, (kept, strong), whole, law)
    in_units = whole / design.half
    outward = back * design.half[kept]  # from reported coordinates to u
    return _Outcome(
        estimate=in_units,
        law=law.mapped(np.diag(1 / design.half[strong])),
        hessian=_padded(outward.T @ found.hessian @ outward / shape.n, kept, len(status)),
        score_cov=_padded(outward.T @ found.score_cov @ outward / shape.n, kept, len(status)),
        status=status,
        geometry=_geometry(at, shape, centre, (status, reading)),
    )


def _to_centre(centre: Array) -> Array:
    """From coefficients of (1, x~) to those whose intercept is the linear predictor at the centre."""
    matrix = np.eye(len(centre))
    matrix[0] = centre
    return matrix


def _fitted(
    found: Estimate, shape: Shape, matrices: Matrices, at: Setting, at_centre: tuple[Array, Array, Array]
) -> Fitted:
    scales, columns = at.scales, at.design.columns.take(shape.kept)
    coef, back, centre = at_centre
    return Fitted(
        hessian=matrices.hessian,
        released=found.hessian,
        score_cov=matrices.score_cov,
        coef=coef,
        gradient=scales.ridge * (found.coef - shape.centre),
        gradient_noise=scales.gradient,
        hessian_noise=scales.hessian,
        left=matrices.left,
        back=back,
        spread=deviations(shape.moments),
        ends=two_values(shape.moments, columns) - centre[:, None],
        dummy=columns.dummy,
    )


def _status(d: int, kept: Indices, strong: Indices) -> tuple[str, ...]:
    words = np.full(d, DROPPED, dtype=object)
    words[kept] = OFFSET if len(strong) else UNIDENTIFIED
    words[0] = FEW_EVENTS if len(strong) else UNIDENTIFIED
    words[strong] = REPORTED
    return tuple(words.tolist())


def _full_model_reading(
    known: Known, columns: Columns, sets: tuple[Indices, Indices], coef: Array, law: MixtureLaw
) -> tuple[bool, ...]:
    """Whether plausible effects of what is set aside would move a reported coefficient by a standard error or less.

    Through correlation, for every column set aside: half a standard deviation of the linear predictor for a number, 1
    for a dummy.  And by attenuation, for those left out of the fit: a logistic coefficient shrinks when a column is
    left out, correlated or not, by about 1/sqrt(1 + .35 v), v the variance of its effect; a number is given v = 1.
    """
    kept, strong = sets
    reading = np.zeros(len(columns), dtype=bool)
    aside = np.setdiff1d(np.arange(1, len(columns)), strong)
    std_error = np.sqrt(np.diag(law.covariance()))
    M = known.moments.matrix / known.moments.n
    cov = M - np.outer(M[0], M[0])
    variance = np.maximum(np.diag(cov), 1e-4)
    slopes = strong[strong > 0]
    plausible = np.where(columns.dummy, 1.0, 0.5 / np.sqrt(variance))[aside]
    pull = np.linalg.solve(raised(cov[np.ix_(slopes, slopes)], 1e-4), cov[np.ix_(slopes, aside)]) * plausible
    dropped = np.setdiff1d(aside, kept)
    hidden = np.where(columns.dummy, variance, 1.0)[dropped].sum()
    shrunk = np.abs(coef[strong]) * (1 - 1 / np.sqrt(1 + 0.35 * hidden))
    reading[strong] = shrunk <= std_error
    reading[slopes] &= np.sqrt((pull**2).sum(axis=1)) <= std_error[strong > 0]
    return tuple(reading.tolist())


def _padded(matrix: Array, kept: Indices, d: int) -> Array:
    """A matrix of the kept columns among all, NaN elsewhere."""
    whole = np.full((d, d), np.nan)
    whole[np.ix_(kept, kept)] = (matrix + matrix.T) / 2
    return whole


def _geometry(at: Setting, shape: Shape, centre: Array, words: tuple[tuple[str, ...], tuple[bool, ...]]) -> Geometry:
    design, kept, (status, reading) = at.design, shape.kept, words
    to_box = np.diag(1 / design.half[kept])
    to_box[:, 0] -= design.middle[kept] / design.half[kept]  # (1, x) in original units to (1, x~)
    return Geometry(
        columns=tuple(design.names[j] for j in kept),
        preconditioner=shape.preconditioner @ to_box,
        centre=(design.middle + design.half * centre)[1:],
        records=shape.n,
        dropped=tuple(name for name, word in zip(design.names, status, strict=True) if word == DROPPED),
        offset=tuple(name for name, word in zip(design.names, status, strict=True) if word == OFFSET),
        full_model_reading=reading,
    )
