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
from dpinfer.maths.asked import FEW, LEVEL_OPEN, REFERENCE, TAIL, TOGETHER, WEAK, Against, Conclusion
from dpinfer.maths.entering import Shape
from dpinfer.maths.moments import Columns, Scales, preconditioner
from dpinfer.maths.posterior import SURE, Crude, Moments, posterior, refined
from dpinfer.maths.sums import BoundedSum, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result import text
from dpinfer.result.statements import (
    OPEN,
    OPEN_FEW,
    OPEN_LEVEL,
    OPEN_REFERENCE,
    OPEN_TAIL,
    OPEN_TOGETHER,
    REPORTED,
    UNIDENTIFIED,
    Geometry,
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
    return Crude(known, n, preconditioner(known, at.design.columns, n, at.scales.kappa(d, n, _WHOLE), n / at.scales.moments))


def refined_moments(
    gate: Gate, booked: NoisySum, source: Source, at: Setting, crude: Crude, what: BoundedSum
) -> Moments:
    """Release 2, in the geometry of the first; ``what`` is `moment_and_score`."""
    d = source.dim
    u = at.mapped(source, np.arange(d), crude.preconditioner)
    released = gate.release(booked, u, what).value
    return refined(unsvec(released[:-d], d), released[-d:], at.scales.moments, crude, at.design.columns)


def published(shape: Shape, said: Conclusion, centre: Array, design: Design) -> tuple[tuple[str, ...], Geometry]:
    """A status for each coefficient, and the geometry in original units."""
    names = design.names
    printed = np.isin(np.arange(len(names)), said.reported)
    geometry = Geometry(
        columns=names,
        preconditioner=shape.preconditioner @ to_box(design, shape.kept),
        centre=(design.middle + design.half * centre)[1:],
        records=shape.n,
        in_model=names,
        left_out=(),
        dropped=(),
        partners=((),) * len(names),
        full_model_reading=tuple(printed.tolist()),
        against=tuple(line for one in said.against for line in _lines(one, design)),
        clipped=_clipped(said, design),
        short=tuple(design.names[j] for j in np.flatnonzero(shape.short)),
        released_range=tuple((float(a), float(b)) for a, b in zip(design.middle - design.half, design.middle + design.half)),
    )
    return tuple(_status(j, said, design) for j in range(len(names))), geometry


def _clipped(said: Conclusion, design: Design) -> tuple[tuple[str, float, float, float, float], ...]:
    """Name, estimate, standard error and interval of numbers clipped to their released range."""
    if said.clipped is None or not len(said.clipped):
        return ()
    unit, j = getattr(design.outcome, "half", 1.0) / design.half[said.clipped], said.clipped
    error = np.sqrt(np.diag(said.clipped_law.covariance())) * unit
    ends = said.clipped_law.interval(said.coef[j], 0.95) * unit[:, None]
    name = [
        f"{design.names[k]} clipped to {design.middle[k] - design.half[k]:.4g}..{design.middle[k] + design.half[k]:.4g}"
        for k in j
    ]
    return tuple(
        (a, float(b), float(c), float(low), float(high))
        for a, b, c, (low, high) in zip(name, said.coef[j] * unit, error, ends, strict=True)
    )


def _lines(one: Against, design: Design) -> list[tuple[str, float, float, float, float]]:
    """Name, estimate, standard error and 95 % interval of levels against another level than the declared one."""
    error = np.sqrt(np.diag(one.law.covariance()))
    ends = one.law.interval(one.coef, 0.95)
    return [
        (f"{design.names[j]} - {design.names[one.base]}", float(coef), float(se), float(low), float(high))
        for j, coef, se, (low, high) in zip(one.levels, one.coef, error, ends, strict=True)
    ]


def to_box(design: Design, kept: Indices) -> Array:
    """The matrix from (1, x) in original units to (1, x~), of the columns kept."""
    matrix = np.diag(1 / design.half[kept])
    matrix[:, 0] -= design.middle[kept] / design.half[kept]
    return np.asarray(matrix)


def _status(j: int, said: Conclusion, design: Design) -> str:
    if j not in said.why:
        return REPORTED
    if not len(said.reported):
        return UNIDENTIFIED
    why, other = said.why[j]
    low, high = design.middle[j] - design.half[j], design.middle[j] + design.half[j]
    return {
        WEAK: OPEN,
        FEW: OPEN_FEW,
        REFERENCE: OPEN_REFERENCE,
        TAIL: OPEN_TAIL.format(low=low, high=high),
        TOGETHER: OPEN_TOGETHER.format(other=design.names[other]),
        LEVEL_OPEN: OPEN_LEVEL,
    }[why]


def in_units(matrix: Array, shape: Shape, centre: Array, design: Design) -> Array:
    """A released matrix a record, in original units at the released centre; NaN for columns not in the fit."""
    kept, to_centre = shape.kept, np.eye(len(shape.kept))
    to_centre[0] = centre[kept]
    back = np.linalg.inv(to_centre @ shape.preconditioner.T) * design.half[kept]
    whole = np.full((len(design.names),) * 2, np.nan)
    inner = back.T @ matrix @ back / shape.n
    whole[np.ix_(kept, kept)] = (inner + inner.T) / 2
    return whole
