"""Whether a loss keeps its promises: convex, with slopes and curvatures within the declared bounds."""

import numpy as np

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import (
    ROUNDING,
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    SmoothedQuantile,
    describe,
    kind,
    slope_kind,
)

TRUSTED = (Logistic, HuberHinge, Huber, SmoothedQuantile)


def check_loss(loss: Loss) -> None:
    """Refuse a loss that is not convex or whose declared bounds are numerically false.

    Guarantee [false_bounds_are_refused]: a slope or a change of slope above the declared bound, at any point of
    a grid that is refined where the slope changes most, raises `InputError`.
    """
    if isinstance(loss, type) or not isinstance(loss, Loss):
        raise InputError(f"{loss!r} is not a loss: it needs value, slope, curvature, slope_bound and curvature_bound")
    if kind(loss) not in ("margin", "residual"):
        raise InputError(f"{describe(loss)}: of must be 'margin' or 'residual', not {kind(loss)!r}")
    if type(loss) in TRUSTED:
        return
    L, t = float(loss.slope_bound), float(loss.curvature_bound)
    if not (np.isfinite(L) and np.isfinite(t) and L > 0 and t > 0):
        raise InputError(f"{describe(loss)}: slope_bound and curvature_bound must be positive and finite")
    z = _probe(loss)
    slope, curvature = (np.asarray(f(z), dtype=float) for f in (loss.slope, loss.curvature))
    near = np.abs(z) <= 500
    value = np.asarray(loss.value(z[near]), dtype=float)
    rise, run = np.diff(slope), np.diff(z)
    rounding = ROUNDING * L
    faults = {
        "value, slope or curvature is not finite": not all(np.isfinite(f).all() for f in (value, slope, curvature)),
        f"slope exceeds slope_bound = {L:g}": np.abs(slope).max() > L + rounding,
        f"curvature exceeds curvature_bound = {t:g}": curvature.max() > t * (1 + ROUNDING)
        or bool(np.any(rise > t * run + rounding)),
        "it declares nonincreasing, but its slope is positive": slope_kind(loss) != "two-sided"
        and slope.max() > rounding,
        "it is not convex (the slope decreases)": curvature.min() < 0 or bool(np.any(rise < -rounding)),
        "slope is not the derivative of value": not _integrates(z[near], slope[near], value),
        "curvature is not the derivative of slope": not _integrates(z, curvature, slope),
    }
    for fault, found in faults.items():
        if found:
            raise InputError(f"{describe(loss)} is refused: {fault}")


def _probe(loss: Loss) -> Array:
    """Numbers up to a million, dense near 0, refined where the slope rises most or most unlike its curvature."""
    far = np.geomspace(30, 1e6, 200)[1:]
    z = np.concatenate([-far[::-1], np.linspace(-30, 30, 3001), far])
    for _ in range(6):
        slope, curvature = (np.nan_to_num(np.asarray(f(z), dtype=float)) for f in (loss.slope, loss.curvature))
        rise, area = np.diff(slope), np.diff(z) * (curvature[1:] + curvature[:-1]) / 2
        steep, odd = np.argsort(np.abs(rise))[-60:], np.argsort(np.abs(rise - area))[-60:]
        widest = np.union1d(steep, odd)
        inside = np.linspace(z[widest], z[widest + 1], 12, axis=1)[:, 1:-1]
        z = np.unique(np.concatenate([z, inside.ravel()]))
    return z


def _integrates(z: Array, derivative: Array, function: Array) -> bool:
    """Whether ``function`` rises, between neighbours, by what ``derivative`` allows.

    Every increment must lie within the trapezoid rule, give or take what the derivative changes in between.
    """
    run, rise = np.diff(z), np.diff(function)
    area = run * (derivative[1:] + derivative[:-1]) / 2
    slack = run * np.abs(np.diff(derivative)) + 1e-7 * (run * np.abs(derivative).max() + 1e-3)
    return bool(np.all(np.abs(rise - area) <= slack))
