"""What stepped fits share beside their steps: the releases of moments, and what is published with the coefficients."""

from dataclasses import dataclass

import numpy as np

from dpinfer.data.changed import Mapped
from dpinfer.data.design import Design
from dpinfer.data.source import Source
from dpinfer.fit.frame import Frame, Winsorised
from dpinfer.maths.arrays import Array, unsvec
from dpinfer.maths.families import Line
from dpinfer.maths.inference import Conclusion
from dpinfer.maths.joint import FEW, REFERENCE, TAIL, TOGETHER
from dpinfer.maths.moments import Scales, preconditioner, reaches
from dpinfer.maths.posterior import SURE, Crude, Moments, posterior, refined
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

_FEWEST = 50.0  # a private number of records is taken to be at least this
_AMPLE = 2.0  # times what it takes to be printed: columns share what they say
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

    def mapped(self, source: Source, matrix: Array) -> Source:
        """The rows u = matrix (1, x~)."""
        return Mapped(source, matrix * np.sqrt(self.design.norm2), self.neighbours)


def overloaded(strength: float, design: Design, n: int) -> str:
    """A warning where a typical column has less than twice what it takes to be printed; ``strength`` is how much."""
    if strength >= _AMPLE:
        return ""
    one = "unit" if design.unit.many else "record"
    return (
        f"{len(design.names)} coefficients are more than this budget carries at {n:,} {one}s: a level with one {one} "
        f"in twenty would have {strength:.1g} times what it takes to be printed, and twice is safe. Expect many to be "
        f"open; {'; '.join(text.REMEDIES)}"
    )


def crude_moments(gate: Gate, booked: NoisySum, source: Source, frame: Frame, at: Setting) -> Crude:
    """Second moments of rows pulled into the frame.  The number of records is public or, if private, read off them.

    Rows that cannot be encoded count for nothing: where the release shows clearly fewer records, it is believed.
    """
    released = gate.release(booked, Winsorised(source, frame), second_moment(at.neighbours))
    d = source.dim
    norm2 = at.design.norm2
    moments = unsvec(released.value, d) * norm2
    noise = at.scales.crude * norm2
    n = max(float(moments[0, 0]), _FEWEST)
    if at.known_number and n >= source.n - SURE * noise:
        n = float(source.n)
    known = posterior(moments, at.design.columns, n, noise)
    reach = reaches(known, at.design.columns, n / at.scales.moments, clipped=True).distance
    kappa = at.scales.radius.of(d, n, at.scales.hessian, _WHOLE)
    return Crude(known, n, preconditioner(known, at.design.columns, n, kappa, reach))


def refined_moments(
    gate: Gate, booked: NoisySum, source: Source, frame: Frame, at: Setting, crude: Crude, what: BoundedSum
) -> Moments:
    """Second moments again, in the geometry of the crude ones; ``what`` is `moment_and_score`."""
    d = source.dim
    u = at.mapped(source, crude.preconditioner @ frame.matrix)
    released = gate.release(booked, u, what).value
    return refined(unsvec(released[:-d], d), released[-d:], at.scales.moments, crude, at.design.columns)


def published(line: Line, frame: Frame, design: Design, said: Conclusion, n: float) -> Geometry:
    """The geometry in original units; ``design`` is the one in the frame, ``line`` is about rows (1, x~)."""
    box = design.middle - design.half * frame.middle / frame.half
    size = design.half / frame.half
    to_box = np.diag(1 / size)
    to_box[1:, 0] = -(box / size)[1:]
    clipped = (line.low > -1.0) | (line.high < 1.0)
    return Geometry(
        columns=design.names,
        family=line.family.name,
        preconditioner=line.matrix @ to_box,
        line=line.coef @ to_box,
        most=line.most,
        centre=(design.middle + design.half * said.centre)[1:],
        records=n,
        low=np.where(design.columns.dummy, 0.0, design.middle - design.half)[1:],
        high=np.where(design.columns.dummy, 1.0, design.middle + design.half)[1:],
        clipped=tuple(design.names[j] for j in np.flatnonzero(clipped)),
    )


def statuses(said: Conclusion, design: Design) -> tuple[str, ...]:
    """Of each coefficient that it is printed, or why it is open."""
    if not said.printed.any():
        return (UNIDENTIFIED,) * len(design.names)
    return tuple(_status(j, said, design) for j in range(len(design.names)))


def _status(j: int, said: Conclusion, design: Design) -> str:
    if said.printed[j]:
        return REPORTED
    if j == 0:
        return OPEN_LEVEL
    why = said.answers.why[j]
    if why == TAIL:
        low = design.middle[j] - design.half[j]
        high = design.middle[j] + design.half[j]
        return OPEN_TAIL.format(low=low, high=high)
    if why == TOGETHER:
        return OPEN_TOGETHER.format(other=design.names[said.joint.nearest(j)])
    return {FEW: OPEN_FEW, REFERENCE: OPEN_REFERENCE}.get(why, OPEN)


def alternatives(said: Conclusion, design: Design, unit: float) -> Alternatives:
    """What is known instead of open coefficients, in original units; ``unit`` is that of the outcome."""
    columns = [j for j, _ in said.other_columns]
    scale = unit / design.half[columns]
    return Alternatives(
        names=tuple(_other_name(j, base, design) for j, base in said.other_columns),
        instead_of=tuple(design.names[j] for j in columns),
        estimate=said.others.estimate * scale,
        error=said.others.law.mapped(np.diag(scale)),
    )


def _other_name(j: int, base: int, design: Design) -> str:
    name = design.names[j]
    if base >= 0:
        return f"{name} - {design.names[base]}"
    return f"{name} clipped to {design.middle[j] - design.half[j]:.4g}..{design.middle[j] + design.half[j]:.4g}"


def in_units(matrix: Array, geometry: Array, centre: Array, design: Design, n: float) -> Array:
    """A released matrix per record, in original units at the released centre; ``geometry`` maps (1, x') to u."""
    to_centre = np.eye(len(centre))
    to_centre[0] = centre
    back = np.linalg.inv(to_centre @ geometry.T) * design.half
    inner = back.T @ matrix @ back / n
    return np.asarray((inner + inner.T) / 2)
