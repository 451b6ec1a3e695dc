"""The story of a fit in a private geometry: four releases, then post-processing only."""

import secrets
from dataclasses import dataclass

import numpy as np

from dpinfer.data.design import Design
from dpinfer.data.source import Source
from dpinfer.fit.recipe import privacy
from dpinfer.fit.weighted.plan import WEIGHTED, GeometryPlan
from dpinfer.fit.weighted.releases import Setting, crude_moments, estimate, refined_moments
from dpinfer.maths.arrays import Array
from dpinfer.maths.aside import Estimate, fitted
from dpinfer.maths.conclude import Conclusion, conclude, nothing
from dpinfer.maths.entering import Shape, shape_of
from dpinfer.maths.losses import describe
from dpinfer.maths.moments import Indices, centre_of
from dpinfer.maths.posterior import Moments
from dpinfer.maths.reading import Model as Reading
from dpinfer.maths.reading import partners, twins
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import Release
from dpinfer.result import text
from dpinfer.result.result import FitResult
from dpinfer.result.statements import (
    DROPPED,
    FEW_EVENTS,
    IN_MODEL,
    IN_MODEL_FAR,
    IN_MODEL_FEW,
    LEFT_OUT,
    REPORTED,
    UNIDENTIFIED,
    Geometry,
    Model,
    left_out,
)

_AMPLE = 2.0  # times what it takes to be reported: columns share what they say


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

    def advice(self, n: int) -> str:
        """A warning where a typical column has less than twice what it takes to be reported."""
        strength = self.plan.strength(self.design.columns, n)
        if strength >= _AMPLE:
            return ""
        return (
            f"{len(self.design.names)} coefficients are more than this budget carries at {n:,} records: a level with "
            f"one record in twenty would have {strength:.1g} times what it takes to be reported, and twice is safe. "
            f"Expect many to be set aside; {'; '.join(text.REMEDIES)}"
        )

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Four releases, then post-processing.

        Guarantee [released_values_only]: columns, geometry, centre, statuses and intervals are functions of the four
        releases and of public facts: with the same releases, other records give the same result.
        """
        at, design = Setting.of(self.design, self.plan), self.design
        known = refined_moments(gate, source, at, crude_moments(gate, source, at))
        shape = shape_of(known, design.columns, at.scales, self.plan.loss, weighted=self.plan.target == WEIGHTED)
        found = estimate(gate, source, at, shape)
        centre = centre_of(known.matrix, design.columns)
        said = _conclude(known, shape, found, centre, at, secrets.randbits(63) if gate.seed is None else gate.seed)
        coef = np.zeros(len(design.names))
        coef[shape.kept], centre[shape.kept] = said.coef, said.centre
        status, geometry = _published(known, shape, said, centre, design)
        return FitResult(
            names=design.names,
            estimate=coef / design.half,
            error=said.law.mapped(np.diag(1 / design.half[shape.kept[said.reported]])),
            hessian=_in_units(found.hessian, shape, centre, design),
            score_cov=_in_units(found.score_cov, shape, centre, design),
            model=self._model(source.n),
            privacy=privacy(gate, self.plan.promise),
            status=status,
            geometry=geometry,
        )

    def _model(self, n: int) -> Model:
        return Model(
            loss=describe(self.plan.loss),
            penalty=0.0,
            n=n if self.neighbours is Neighbours.REPLACE else None,
            target=self.plan.target,
            mechanism="Gaussian objective perturbation in a released geometry",
            recipe="geometry",
        )


def _conclude(known: Moments, shape: Shape, found: Estimate, centre: Array, at: Setting, seed: int) -> Conclusion:
    """What is said of the columns of the fit; nothing at all where the fit as a whole is not identified."""
    fit = fitted(found, shape, centre, at.design.columns, at.scales)
    if fit is None or not known.two_classes:
        return nothing(found, shape, centre, seed)
    return conclude(fit, at.plan.draws, seed)


def _published(
    known: Moments, shape: Shape, said: Conclusion, centre: Array, design: Design
) -> tuple[tuple[str, ...], Geometry]:
    """A status for each coefficient, and the geometry in original units."""
    kept, names, reported = shape.kept, np.array(design.names), shape.kept[said.reported]
    inside = np.sort(np.concatenate([reported, kept[said.silent]]))
    errors = np.sqrt(np.diag(said.law.covariance()))
    moments = known.matrix / known.matrix[0, 0]
    model = Reading(moments, design.columns, reported, said.coef[said.reported], errors, inside)
    few = kept[said.few]
    whom, same = partners(model), {j: k for j, k in twins(model).items() if j not in few}
    to_box = np.diag(1 / design.half[kept])
    to_box[:, 0] -= design.middle[kept] / design.half[kept]  # (1, x) in original units to (1, x~)
    geometry = Geometry(
        columns=tuple(names[kept].tolist()),
        preconditioner=shape.preconditioner @ to_box,
        centre=(design.middle + design.half * centre)[1:],
        records=shape.n,
        in_model=tuple(names[inside].tolist()),
        left_out=tuple(np.delete(names, inside).tolist()),
        dropped=tuple(np.delete(names, kept).tolist()),
        partners=tuple(tuple(names[some].tolist()) for some in whom),
        full_model_reading=tuple(j in reported and not len(some) for j, some in enumerate(whom)),
        twins=tuple(
            (design.names[j], design.names[k], model.slope(j, k) * float(design.half[j] / design.half[k]))
            for j, k in same.items()
            if k in reported
        ),
    )
    return _status(whom, same, kept, said, design.names), geometry


def _status(
    whom: list[Indices], same: dict[int, int], kept: Indices, said: Conclusion, names: tuple[str, ...]
) -> tuple[str, ...]:
    words = np.full(len(names), DROPPED, dtype=object)
    words[kept] = LEFT_OUT
    words[kept[said.few]] = FEW_EVENTS
    inside = kept[np.concatenate([said.reported, said.silent])]
    for j in np.setdiff1d(np.arange(1, len(names)), inside):
        carriers = [names[k] for k, some in enumerate(whom) if j in some]
        words[j] = left_out(words[j], names[same[j]] if j in same else None, carriers)
    words[kept[said.silent]] = IN_MODEL
    words[kept[np.intersect1d(said.silent, said.few)]] = IN_MODEL_FEW
    words[kept[said.far]] = IN_MODEL_FAR
    if not len(said.reported):
        words[kept] = UNIDENTIFIED
    words[kept[said.reported]] = REPORTED
    return tuple(words.tolist())


def _in_units(matrix: Array, shape: Shape, centre: Array, design: Design) -> Array:
    """A released matrix a record, in original units at the released centre; NaN for columns not in the fit."""
    kept, to_centre = shape.kept, np.eye(len(shape.kept))
    to_centre[0] = centre[kept]
    back = np.linalg.inv(to_centre @ shape.preconditioner.T) * design.half[kept]
    whole = np.full((len(design.names),) * 2, np.nan)
    inner = back.T @ matrix @ back / shape.n
    whole[np.ix_(kept, kept)] = (inner + inner.T) / 2
    return whole
