"""The certified minimum of a convex objective, and of a risk.

Newton steps from value, gradient and Hessian totals; the gradient norm where they end is the
certificate.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dpinfer.errors import InputError
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import OfBlock
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical

Totals = Callable[[Array], tuple[float | Callable[[], float], Array, Array]]
"""From coefficients to value, gradient and Hessian of the objective; the value may be a function,
as it is seldom needed and takes a pass over the records.
"""

Gradient = Callable[[Array], Array]
"""From coefficients to the gradient alone, which takes less time."""

Total = Callable[[OfBlock], Array]
"""The sum over the records."""

_IDLE: Numerical[int] = 20  # steps without any gain after which rounding has the last word
# what a Newton step leaves of the gradient where a Hessian serves for more than one step
_NEAR: Numerical[float] = 0.05
_GAIN: Numerical[float] = 0.3  # what a step with an old Hessian must leave at most
_ROUGH: Numerical[float] = 1e-3  # gradient per record that is small for a sample


@dataclass(frozen=True)
class Minimum:
    """The end of a search, with its certificate: the gradient norm measured there."""

    coef: Array
    gradient_norm: float


@dataclass(frozen=True)
class _Point:
    coef: Array
    level: float | Callable[[], float]
    gradient: Array
    hessian: Array

    @cached_property
    def value(self) -> float:
        return self.level() if callable(self.level) else self.level

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.gradient))


def minimise(
    totals: Totals,
    start: Array,
    tolerance: float,
    *,
    gradient: Gradient | None = None,
    strongly_convex: bool = True,
) -> Minimum:
    """Newton steps with a line search, until the gradient norm is at most ``tolerance``.

    Near the minimum, and if ``gradient`` is given, steps go on with the last Hessian as long as
    that helps.

    Guarantee [certified_minimum]: on a strongly convex objective the search never gives up: it ends
    below ``tolerance``, or where rounding leaves no step that helps.  ``gradient_norm`` says which.
    With m the modulus of strong convexity the minimiser is within gradient_norm/m of ``coef``.  An
    objective that is only convex must show curvature where the search ends, or it has no single
    minimum and `InputError` is raised.
    """
    point = best = _at(totals, start)
    idle = 0
    while best.gradient_norm > tolerance and idle < _IDLE:
        ahead = _line_search(totals, point, _newton_step(point), best.gradient_norm)
        idle = 0 if _gained(ahead, point, best) else idle + 1
        near = ahead.gradient_norm < min(_NEAR * point.gradient_norm, 0.5 * best.gradient_norm)
        point = ahead
        if gradient is not None and near:
            point = _chords(gradient, ahead, tolerance)
            if not point.gradient_norm <= tolerance:  # go on with value and Hessian of where it is
                point = _at(totals, point.coef)
        if point.gradient_norm < best.gradient_norm:
            best = point
    if not strongly_convex and best.gradient_norm > 1e-5 * np.linalg.eigvalsh(best.hessian)[0]:
        raise InputError(
            "without a penalty this objective has no single minimum (the two classes are separated, or a column is "
            "a combination of others): set penalty > 0"
        )
    return Minimum(best.coef, best.gradient_norm)


def _gained(ahead: _Point, point: _Point, best: _Point) -> bool:
    """Return whether a step has reduced the gradient, or else the value, by more than rounding."""
    if ahead.gradient_norm < best.gradient_norm:
        return True
    return ahead.value < point.value - 1e-14 * (1 + abs(point.value))


def _chords(gradient: Gradient, point: _Point, tolerance: float) -> _Point:
    """Steps with the Hessian of ``point``, as long as each leaves little of the gradient; the value
    stays as it was.
    """
    while point.gradient_norm > tolerance:
        coef = point.coef + _newton_step(point)
        ahead = replace(point, coef=coef, gradient=gradient(coef))
        if not ahead.gradient_norm < _GAIN * point.gradient_norm:
            break
        point = ahead
    return point


@np.errstate(all="ignore")  # a warning would tell of a value
def minimum(risk: Risk, total: Total, b: Array, sample: Total | None = None) -> Minimum:
    """argmin of the risk plus b·θ.

    With the total of a ``sample``, scaled up, the search begins where that has its minimum.  Where
    it ends does not depend on that, up to the tolerance.
    """
    start = np.zeros(len(b))
    if sample is not None and risk.ridge > 0:
        start = minimise(_totals(risk, sample, b), start, _ROUGH * risk.n).coef

    def gradient(step: Array) -> Array:
        return total(risk.gradient_total(step)) + risk.ridge * step + b

    return minimise(
        _totals(risk, total, b),
        start,
        risk.tolerance,
        gradient=gradient,
        strongly_convex=risk.ridge > 0,
    )


def _totals(risk: Risk, total: Total, b: Array) -> Totals:
    d = len(b)
    ridge = risk.ridge * np.eye(d)

    def totals(step: Array) -> tuple[Callable[[], float], Array, Array]:
        sums = total(risk.totals(step, value=False))
        gradient = sums[1 : d + 1] + risk.ridge * step + b
        hessian = sums[d + 1 :].reshape(d, d) + ridge

        def value() -> float:
            return float(total(risk.totals(step))[0] + risk.ridge / 2 * step @ step + b @ step)

        return value, gradient, hessian

    return totals


def _at(totals: Totals, coef: Array) -> _Point:
    return _Point(coef, *totals(coef))


def _newton_step(point: _Point) -> Array:
    """-H⁻¹g; a Hessian that rounding has made indefinite, or that is 0, is raised until it can be
    factorised.
    """
    raise_by = 0.0
    identity = np.eye(len(point.coef))
    while True:
        try:
            return -cho_solve(cho_factor(point.hessian + raise_by * identity), point.gradient)
        except LinAlgError:
            largest = float(np.abs(point.hessian).max())
            size = max(largest, point.gradient_norm, np.finfo(float).tiny)
            raise_by = max(10 * raise_by, 1e-14 * size)


def _line_search(totals: Totals, point: _Point, step: Array, least: float) -> _Point:
    """The first of 1, 1/2, 1/4, … that is not past the minimum of the line, or decreases the value
    enough.

    Or that halves the ``least`` gradient norm so far, which can happen only so many times: no
    search goes round in circles.  The first and the last test need no value, and no difference of
    two nearly equal ones, so rounding does not stop them early.
    """
    descent = float(point.gradient @ step)
    length = 1.0
    while True:
        ahead = _at(totals, point.coef + length * step)
        near = ahead.gradient_norm <= 0.5 * least or float(ahead.gradient @ step) <= 0
        if near or length < 1e-18 or ahead.value <= point.value + 1e-4 * length * descent:
            return ahead
        length /= 2
