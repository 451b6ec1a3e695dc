"""What stepped fits share beside their steps: the releases of moments, and what is published with
the coefficients.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpinfer.fit.frame import Frame, Winsorised
from dpinfer.maths.arrays import Array, solved, unsvec
from dpinfer.maths.families import Line
from dpinfer.maths.inference import Conclusion, Fitted
from dpinfer.maths.joint import FEW, REFERENCE, TAIL, TOGETHER
from dpinfer.maths.moments import (
    SURE,
    Columns,
    Crude,
    Moments,
    Scales,
    posterior,
    preconditioner,
    reaches,
    refined,
)
from dpinfer.maths.sums import BoundedSum, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result import text
from dpinfer.result.alternatives import Alternatives
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
from dpinfer.rows.source import Source
from dpinfer.rows.transforms import Mapped
from dpinfer.schema.design import Design

_FEWEST = 50.0  # a private number of records is taken to be at least this
_AMPLE = 2.0  # times what it takes to be printed: columns share what they say
_WHOLE = 2.0  # least radius factor of the second release, which should not lose rows


@dataclass(frozen=True, eq=False)
class Setting:
    """What a fit rests on: the encoding, the notion of neighbours, the noise of the releases, and
    the frame.

    ``columns`` are those in the frame, and ``matrix`` leads there from (1, x~).
    """

    design: Design
    neighbours: Neighbours
    scales: Scales
    frame: Frame

    @cached_property
    def columns(self) -> Columns:
        """The columns in the frame."""
        return self.frame.columns(self.design)

    @cached_property
    def matrix(self) -> Array:
        """From (1, x~) to (1, x'), the columns in the frame."""
        return self.frame.matrix(self.design)

    @cached_property
    def of_units(self) -> Array:
        """From (1, x) in original units to (1, x')."""
        return self.frame.of_units(self.design)

    @cached_property
    def clippable(self) -> npt.NDArray[np.bool_]:
        """Numbers that may be clipped to their range: not those that a power or a product is made
        of.
        """
        found = ~self.columns.dummy
        found[0] = False
        for j, factors in self.frame.products:
            found[[j, *factors]] = False
        found[list(self.design.shared)] = False
        return found

    @property
    def known_number(self) -> bool:
        """Whether the records add up to a public number: it is not private, and each counts fully."""
        return self.neighbours.counted and self.design.unit.whole

    def clustered(self, score_cov: Array, source: Source, released: float) -> Array:
        """A covariance over n units has the factor n/(n - 1) (CR1); n is public, or the one
        ``released``.
        """
        n = source.n if self.neighbours.counted else released
        return score_cov * (n / max(n - 1, 1.0)) if self.neighbours.units else score_cov

    def mapped(self, source: Source, matrix: Array) -> Source:
        """The rows u = matrix (1, x~)."""
        return Mapped(source, matrix * np.sqrt(self.design.norm2), self.neighbours)


def overloaded(strength: float, design: Design, n: int) -> str:
    """A warning where a typical column has less than twice what it takes to be printed;
    ``strength`` is how much.
    """
    if strength >= _AMPLE:
        return ""
    one = "unit" if design.unit.many else "record"
    return (
        f"{len(design.names)} coefficients are more than this budget carries at {n:,} {one}s: a level with one {one} "
        f"in twenty would have {strength:.1g} times what it takes to be printed, and twice is safe. Expect many to be "
        f"open; {'; '.join(text.REMEDIES)}"
    )


def crude_moments(gate: Gate, booked: NoisySum, source: Source, at: Setting) -> Crude:
    """Second moments of rows pulled into the frame.  The number of records is public or, if
    private, read off them.

    Rows that cannot be encoded count for nothing: where the release shows clearly fewer records, it
    is believed.
    """
    released = gate.release(booked, Winsorised(source, at.frame), second_moment(at.neighbours))
    d = source.dim
    norm2 = at.design.norm2
    moments = unsvec(released.value, d) * norm2
    noise = at.scales.crude * norm2
    n = max(float(moments[0, 0]), _FEWEST)
    if at.known_number and n >= source.n - SURE * noise:
        n = float(source.n)
    known = posterior(moments, at.columns, n, noise)
    reach = reaches(known, at.columns, n / at.scales.moments, at.clippable).distance
    kappa = at.scales.radius.of(d, n, at.scales.hessian, _WHOLE)
    return Crude(known, n, preconditioner(known, at.columns, n, kappa, reach))


def refined_moments(
    gate: Gate, booked: NoisySum, source: Source, at: Setting, crude: Crude, what: BoundedSum
) -> Moments:
    """Second moments again, in the geometry of the crude ones; ``what`` is `moment_and_score`."""
    d = source.dim
    u = at.mapped(source, crude.preconditioner @ at.matrix)
    released = gate.release(booked, u, what).value
    return refined(unsvec(released[:-d], d), released[-d:], at.scales.moments, crude, at.columns)


def published(line: Line, said: Conclusion, at: Setting, n: float) -> Geometry:
    """The geometry in original units; ``line`` is about rows (1, x~)."""
    design = at.design
    to_box = np.diag(1 / design.half)
    to_box[1:, 0] = -(design.middle / design.half)[1:]
    slopes = at.of_units[1:, 1:]
    dummy = at.columns.dummy
    return Geometry(
        columns=design.names,
        family=line.family.name,
        preconditioner=line.matrix @ to_box,
        line=line.coef @ to_box,
        most=line.most,
        centre=solved(slopes, said.centre[1:] - at.of_units[1:, 0]),
        records=n,
        low=np.where(dummy, 0.0, at.frame.low(design))[1:],
        high=np.where(dummy, 1.0, at.frame.high(design))[1:],
        clipped=tuple(design.names[j] for j in np.flatnonzero(line.clipped)),
    )


def lines_of(at: Setting) -> Array:
    """For every coefficient of the formula, the combination of those of the columns in the frame
    that it is.
    """
    lines = at.of_units.T.copy()
    lines[0] = 0.0
    lines[0, 0] = 1.0  # the intercept is at the centre, whatever the columns are measured by
    return np.asarray(at.design.outcome.half * lines)


def statuses(said: Conclusion, at: Setting) -> tuple[str, ...]:
    """Of each coefficient that it is printed, or why it is open."""
    if not said.whole:
        return (UNIDENTIFIED,) * len(at.design.names)
    return tuple(_status(j, said, at) for j in range(len(at.design.names)))


def _status(j: int, said: Conclusion, at: Setting) -> str:
    if said.printed[j]:
        return REPORTED
    if j == 0:
        return OPEN_LEVEL
    why = said.answers.why[j]
    if why == TAIL:
        return OPEN_TAIL.format(low=at.frame.low(at.design)[j], high=at.frame.high(at.design)[j])
    if why == TOGETHER:
        return OPEN_TOGETHER.format(other=at.design.names[said.joint.nearest(j)])
    return {FEW: OPEN_FEW, REFERENCE: OPEN_REFERENCE}.get(why, OPEN)


def alternatives(said: Conclusion, at: Setting) -> Alternatives:
    """What is known instead of open coefficients, in original units."""
    return Alternatives(
        names=tuple(_other_name(j, base, at) for j, base in said.other_columns),
        instead_of=tuple(at.design.names[j] for j, _ in said.other_columns),
        estimate=said.others.estimate,
        error=said.others.law,
    )


def _other_name(j: int, base: int, at: Setting) -> str:
    name = at.design.names[j]
    if base >= 0:
        return f"{name} - {at.design.names[base]}"
    return f"{name} clipped to {at.frame.low(at.design)[j]:.4g}..{at.frame.high(at.design)[j]:.4g}"


def in_units(matrix: Array, fit: Fitted, at: Setting) -> Array:
    """A released matrix per record, about the coefficients of the formula in the units of its
    columns.
    """
    back = fit.back @ np.linalg.inv(fit.lines / at.design.outcome.half)
    inner = back.T @ matrix @ back / fit.moments.n
    return np.asarray((inner + inner.T) / 2)
