"""What fits in a private geometry share: the releases of moments, and what is published beside the coefficients.

1. crude moments   sum x xᵀ                            -> a crude geometry
2. moments         sum w u uᵀ and the score there      -> the columns of the fit, its geometry, its centre
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from dpinfer.data.changed import Mapped
from dpinfer.data.design import Design
from dpinfer.data.source import Source
from dpinfer.maths.arrays import Array, Indices, unsvec
from dpinfer.maths.conclude import Conclusion
from dpinfer.maths.entering import Shape
from dpinfer.maths.moments import Columns, Scales, preconditioner
from dpinfer.maths.posterior import SURE, Crude, Moments, posterior, refined
from dpinfer.maths.reading import Model as Reading
from dpinfer.maths.reading import Size, partners, twins
from dpinfer.maths.sums import BoundedSum, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result import text
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
    left_out,
)

_FEWEST = 50.0  # a private number of records is taken to be at least this
_AMPLE = 2.0  # times what it takes to be reported: columns share what they say
_WHOLE = 2.0  # least radius factor of the second release, which should not lose rows


@dataclass(frozen=True, eq=False)
class Setting:
    """What is public about a fit: the encoding, the notion of neighbours, the noise of the releases."""

    design: Design
    neighbours: Neighbours
    scales: Scales

    @property
    def known_number(self) -> bool:
        """Whether the records add up to a public number: it is not private, and each counts fully."""
        return self.neighbours.counted and self.design.unit.whole

    def clustered(self, score_cov: Array, source: Source, released: float) -> Array:
        """A covariance over n units has the factor n/(n - 1) (CR1); n is public, or the one ``released``."""
        n = source.n if self.neighbours.counted else released
        return score_cov * (n / max(n - 1, 1.0)) if self.neighbours.units else score_cov

    def mapped(self, source: Source, kept: Indices, matrix: Array) -> Source:
        """The rows u = matrix (1, x~), of the columns kept."""
        whole = np.zeros((len(matrix), source.dim))
        whole[:, kept] = matrix * np.sqrt(self.design.norm2)
        return Mapped(source, whole, self.neighbours)


class Plan(Protocol):
    """What is asked of a plan whatever is fitted."""

    @property
    def neighbours(self) -> str:
        """The notion of neighbours."""
        ...

    @property
    def promise(self) -> Budget:
        """What the releases cost together, in the terms it was asked for."""
        ...

    def scales(self) -> Scales:
        """The noise of every release."""
        ...

    def strength(self, columns: Columns, n: float, /) -> float:
        """What a typical column would have over what it takes to be reported."""
        ...


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class InGeometry(Generic[P]):
    """What the recipes have in common: a design with an intercept, a plan, no penalty."""

    design: Design
    plan: P

    @property
    def neighbours(self) -> Neighbours:
        """Those of the plan."""
        return Neighbours(self.plan.neighbours)

    @property
    def budget(self) -> Budget:
        """That of the plan."""
        return self.plan.promise

    def advice(self, n: int) -> str:
        """A warning where a typical column has less than twice what it takes to be reported."""
        return overloaded(self.plan.strength(self.design.columns, n), self.design, n)

    def setting(self) -> Setting:
        """What is public about the fit."""
        return Setting(self.design, self.neighbours, self.plan.scales())


def overloaded(strength: float, design: Design, n: int) -> str:
    """A warning where a typical column has less than twice what it takes to be reported; ``strength`` is how much."""
    if strength >= _AMPLE:
        return ""
    one = "unit" if design.unit.many else "record"
    return (
        f"{len(design.names)} coefficients are more than this budget carries at {n:,} {one}s: a level with one {one} "
        f"in twenty would have {strength:.1g} times what it takes to be reported, and twice is safe. Expect many to be "
        f"set aside; {'; '.join(text.REMEDIES)}"
    )


def crude_moments(gate: Gate, booked: NoisySum, source: Source, at: Setting) -> Crude:
    """Release 1.  The number of records is public or, if private, read off the release.

    Rows that cannot be encoded count for nothing: where the release shows clearly fewer records, it is believed.
    """
    released = gate.release(booked, source, second_moment(at.neighbours))
    d, norm2 = source.dim, at.design.norm2
    moments = unsvec(released.value, d) * norm2
    noise = at.scales.crude * norm2
    n = max(float(moments[0, 0]), _FEWEST)
    if at.known_number and n >= source.n - SURE * noise:
        n = float(source.n)
    known = posterior(moments, at.design.columns, n, noise)
    return Crude(known, n, preconditioner(known, at.design.columns, n, at.scales.kappa(d, n, _WHOLE)))


def refined_moments(
    gate: Gate, booked: NoisySum, source: Source, at: Setting, crude: Crude, what: BoundedSum
) -> Moments:
    """Release 2, in the geometry of the first; ``what`` is `moment_and_score`."""
    d = source.dim
    u = at.mapped(source, np.arange(d), crude.preconditioner)
    released = gate.release(booked, u, what).value
    return refined(unsvec(released[:-d], d), released[-d:], at.scales.moments, crude, at.design.columns)


def published(
    known: Moments, shape: Shape, said: Conclusion, centre: Array, design: Design, size: Size
) -> tuple[tuple[str, ...], Geometry]:
    """A status for each coefficient, and the geometry in original units."""
    kept, names, reported = shape.kept, np.array(design.names), shape.kept[said.reported]
    inside = np.sort(np.concatenate([reported, kept[said.silent]]))
    errors = np.sqrt(np.diag(said.law.covariance()))
    moments = known.matrix / known.matrix[0, 0]
    model = Reading(moments, design.columns, reported, said.coef[said.reported], errors, inside)
    few = kept[said.few]
    whom, same = partners(model, size), {j: k for j, k in twins(model).items() if j not in few}
    geometry = Geometry(
        columns=tuple(names[kept].tolist()),
        preconditioner=shape.preconditioner @ to_box(design, kept),
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


def to_box(design: Design, kept: Indices) -> Array:
    """The matrix from (1, x) in original units to (1, x~), of the columns kept."""
    matrix = np.diag(1 / design.half[kept])
    matrix[:, 0] -= design.middle[kept] / design.half[kept]
    return np.asarray(matrix)


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


def in_units(matrix: Array, shape: Shape, centre: Array, design: Design) -> Array:
    """A released matrix a record, in original units at the released centre; NaN for columns not in the fit."""
    kept, to_centre = shape.kept, np.eye(len(shape.kept))
    to_centre[0] = centre[kept]
    back = np.linalg.inv(to_centre @ shape.preconditioner.T) * design.half[kept]
    whole = np.full((len(design.names),) * 2, np.nan)
    inner = back.T @ matrix @ back / shape.n
    whole[np.ix_(kept, kept)] = (inner + inner.T) / 2
    return whole
