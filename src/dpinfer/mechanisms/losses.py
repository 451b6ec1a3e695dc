"""Losses of one number z of a record, with the two bounds that privacy needs.

z is the margin y θ·x of a label y = ±1, or the residual y - θ·x of an outcome y in [-1, 1].

| symbol | meaning            | name in code      |
| ------ | ------------------ | ----------------- |
| f      | loss               | `value`           |
| f'     | its derivative     | `slope`           |
| f''    | second derivative  | `curvature`       |
| L      | sup abs(f')        | `slope_bound`     |
| t      | sup f''            | `curvature_bound` |

Whether a loss keeps its promises: convex, with slopes and curvatures within the declared bounds.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical

ROUNDING: Numerical[float] = 1e-9
"""By how much a promise may be missed, relative to it."""


@runtime_checkable
class Loss(Protocol):
    """The protocol of a convex loss: any object with these five names can be fitted by `infer`.

    It is a loss of the margin y θ·x, unless it says ``of = "residual"``: then it is one of y - θ·x.
    The noise is scaled by ``slope_bound`` and ``curvature_bound``, which must be true for every z.
    A loss may also declare ``nonincreasing = True``, a slope that is never positive; its curvature
    then costs a little less.  `infer` refuses a loss whose declarations are numerically false.

    Examples
    --------
    >>> import dpinfer as dp
    >>> isinstance(dp.Logistic(), dp.Loss)
    True
    """

    @property
    def slope_bound(self) -> float:
        """Return an upper bound on the absolute value of the slope."""
        ...

    @property
    def curvature_bound(self) -> float:
        """Return an upper bound on the curvature."""
        ...

    def value(self, z: Array, /) -> Array:
        """Return the loss f(z), elementwise.

        Parameters
        ----------
        z : array
            Margins or residuals.

        Returns
        -------
        array
            One value per number.
        """
        ...

    def slope(self, z: Array, /) -> Array:
        """Return the first derivative f'(z), elementwise.

        Parameters
        ----------
        z : array
            Margins or residuals.

        Returns
        -------
        array
            One slope per number.
        """
        ...

    def curvature(self, z: Array, /) -> Array:
        """Return the second derivative f''(z), elementwise.

        Parameters
        ----------
        z : array
            Margins or residuals.

        Returns
        -------
        array
            One curvature per number; at a kink of f' any value between its two sides.
        """
        ...


@dataclass(frozen=True)
class Logistic:
    """The loss of logistic regression, f(z) = log(1 + exp(-z)), z the margin.

    Notes
    -----
    f' = -S(-z) and f'' = S(z) S(-z), S the sigmoid; abs(f') ≤ 1 and f'' ≤ 1/4.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dp
    >>> print(f"{dp.Logistic().value(np.zeros(1))[0]:.2f}")
    0.69
    """

    slope_bound = 1.0
    curvature_bound = 0.25
    nonincreasing = True
    curvature_lipschitz = 1 / (6 * 3**0.5)

    def value(self, z: Array) -> Array:
        """log(1 + exp(-z))."""
        return np.logaddexp(0.0, -z)

    def slope(self, z: Array) -> Array:
        """-S(-z), S the sigmoid; by tanh, which numpy vectorises."""
        slope: Array = (np.tanh(z / 2) - 1) / 2
        return slope

    def curvature(self, z: Array) -> Array:
        """S(z) S(-z)."""
        curvature: Array = (1 - np.tanh(z / 2) ** 2) / 4
        return curvature

    def slope_within(self, radius: float) -> float:
        """sup of abs(f') over abs(z) <= radius: S(radius)."""
        return -float(self.slope(np.array([-radius]))[0])


@dataclass(frozen=True)
class HuberHinge:
    """The hinge loss max(0, 1 - z) with a rounded corner, for a smooth linear support vector machine.

    Parameters
    ----------
    knee : float
        Half the width of the rounded corner, from 1 - knee to 1 + knee; 1 by default.

    Notes
    -----
    f(z) = (1 + knee - z)²/(4 knee) where abs(1 - z) ≤ knee, 0 above and 1 - z below; abs(f') ≤ 1
    and f'' ≤ 1/(2 knee) (Chaudhuri, Monteleoni and Sarwate, 2011, Differentially private empirical
    risk minimization).

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dp
    >>> dp.HuberHinge(knee=0.5).value(np.array([0.0, 1.0, 2.0]))
    array([1.   , 0.125, 0.   ])
    """

    knee: float = 1.0

    def __post_init__(self) -> None:
        _require_positive("the knee of HuberHinge", self.knee)

    slope_bound = 1.0
    nonincreasing = True

    @property
    def curvature_bound(self) -> float:
        """1/(2 knee)."""
        return 1 / (2 * self.knee)

    def value(self, z: Array) -> Array:
        """0 beyond 1 + knee, quadratic within the knee, 1 - z below it."""
        gap = np.clip(1 + self.knee - z, 0.0, 2 * self.knee)
        return gap**2 / (4 * self.knee) + np.maximum(1 - self.knee - z, 0.0)

    def slope(self, z: Array) -> Array:
        """-clip((1 + knee - z)/(2 knee), 0, 1)."""
        slope: Array = -np.clip((1 + self.knee - z) / (2 * self.knee), 0.0, 1.0)
        return slope

    def curvature(self, z: Array) -> Array:
        """1/(2 knee) where abs(1 - z) <= knee, else 0."""
        curvature: Array = (np.abs(1 - z) <= self.knee).astype(z.dtype) * self.curvature_bound
        return curvature


@dataclass(frozen=True)
class Huber:
    """Huber's loss of the residual r: r²/2 up to the knee, and linear beyond it.

    Parameters
    ----------
    knee : float
        The residual at which the loss turns linear, in units of the scaled outcome.

    Notes
    -----
    f' = min(max(r, -knee), knee), so that a residual beyond the knee has no more influence than one
    at the knee (Huber, 1964, Robust estimation of a location parameter); abs(f') ≤ knee and f'' ≤
    1.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dp
    >>> dp.Huber(knee=0.5).slope(np.array([-2.0, 0.25]))
    array([-0.5 ,  0.25])
    """

    knee: float
    of = "residual"
    degree = 2
    curvature_bound = 1.0

    def __post_init__(self) -> None:
        _require_positive("the knee of Huber", self.knee)

    def __repr__(self) -> str:
        return f"Huber(knee={self.knee:.6g})"

    @property
    def slope_bound(self) -> float:
        """The knee."""
        return float(self.knee)

    def value(self, z: Array) -> Array:
        """z²/2 up to the knee, then knee (abs(z) - knee/2)."""
        near = np.minimum(np.abs(z), self.knee)
        return near**2 / 2 + self.knee * (np.abs(z) - near)

    def slope(self, z: Array) -> Array:
        """clip(z, -knee, knee)."""
        slope: Array = np.clip(z, -float(self.knee), float(self.knee))
        return slope

    def curvature(self, z: Array) -> Array:
        """1 where abs(z) <= knee, else 0."""
        curvature: Array = (np.abs(z) <= self.knee).astype(z.dtype)
        return curvature

    def slope_within(self, radius: float) -> float:
        """sup of abs(f') over abs(z) <= radius."""
        return float(min(radius, self.knee))

    def rescaled(self, factor: float) -> "Huber":
        """Return the same loss for residuals that are ``factor`` times as large.

        Its value is factor² times that of this one.
        """
        return Huber(self.knee * factor)


@dataclass(frozen=True)
class SmoothedQuantile:
    """The loss of quantile regression, smoothed by a logistic density.

    Parameters
    ----------
    tau : float
        The quantile τ, strictly between 0 and 1; 0.5 is the median.
    bandwidth : float
        The scale h of the logistic density, in units of the scaled outcome.

    Notes
    -----
    The check loss (Koenker and Bassett, 1978, Regression quantiles) is convolved with the density:
    f(r) = τ r + h log(1 + exp(-r/h)), f' = τ - S(-r/h) and f'' = S(r/h) S(-r/h)/h, S the sigmoid.
    The target is the quantile of the outcome plus independent logistic noise of scale h, and the
    plain quantile as h goes to 0 (He, Pan, Tan and Zhou, 2023, Smoothed quantile regression with
    large-scale inference).

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dp
    >>> loss = dp.SmoothedQuantile(tau=0.5, bandwidth=0.25)
    >>> print(loss.slope_bound, loss.curvature_bound)
    0.5 1.0
    """

    tau: float
    bandwidth: float
    of = "residual"
    degree = 1

    def __post_init__(self) -> None:
        if not (isinstance(self.tau, int | float | np.number) and 0 < self.tau < 1):
            raise InputError(
                f"the tau of SmoothedQuantile must lie strictly between 0 and 1, not {self.tau!r}"
            )
        _require_positive("the bandwidth of SmoothedQuantile", self.bandwidth)

    def __repr__(self) -> str:
        return f"SmoothedQuantile(tau={self.tau:.6g}, bandwidth={self.bandwidth:.6g})"

    @property
    def slope_bound(self) -> float:
        """max(τ, 1 - τ)."""
        return max(self.tau, 1 - self.tau)

    @property
    def curvature_bound(self) -> float:
        """1/(4 bandwidth)."""
        return Logistic.curvature_bound / self.bandwidth

    @property
    def curvature_lipschitz(self) -> float:
        """1/(6 sqrt 3 bandwidth²)."""
        return Logistic.curvature_lipschitz / self.bandwidth**2

    def value(self, z: Array) -> Array:
        """τ z + h log(1 + exp(-z/h))."""
        return self.tau * z + self.bandwidth * Logistic().value(z / self.bandwidth)

    def slope(self, z: Array) -> Array:
        """τ - S(-z/h)."""
        return self.tau + Logistic().slope(z / self.bandwidth)

    def curvature(self, z: Array) -> Array:
        """S(z/h) S(-z/h)/h."""
        return Logistic().curvature(z / self.bandwidth) / self.bandwidth

    def slope_within(self, radius: float) -> float:
        """sup of abs(f') over abs(z) <= radius, at one of the two ends."""
        return float(np.abs(self.slope(np.array([-radius, radius]))).max())

    def rescaled(self, factor: float) -> "SmoothedQuantile":
        """Return the same loss for residuals that are ``factor`` times as large.

        Its value is factor times that of this one.
        """
        return SmoothedQuantile(self.tau, self.bandwidth * factor)


def _require_positive(name: str, value: float) -> None:
    if not (isinstance(value, int | float | np.number) and 0 < value < np.inf):
        raise InputError(f"{name} must be a positive number, not {value!r}")


def kind(loss: Loss) -> str:
    """Return the argument of a loss: "margin" or "residual"."""
    return str(getattr(loss, "of", "margin"))


def sign_and_offset(loss: Loss, outcomes: Array) -> tuple[Array | float, Array | float]:
    """(s, o) with z = o + s θ·x: (y, 0) for the margin, (-1, y) for the residual.

    Either way a record's gradient is f'(z) s x and its Hessian f''(z) x xᵀ.
    """
    return (outcomes, 0.0) if kind(loss) == "margin" else (-1.0, outcomes)


def reach(loss: Loss, coef: Array) -> float:
    """Bound on abs(z) over all records: ‖θ‖ for the margin, ‖θ‖ + 1 for the residual."""
    return float(np.linalg.norm(coef)) + (0.0 if kind(loss) == "margin" else 1.0)


def describe(loss: Loss) -> str:
    """Return the name of a loss in a result; an object without a repr of its own has that of its class."""
    plain = type(loss).__repr__ is object.__repr__
    return f"{type(loss).__name__}()" if plain else repr(loss)


def slope_kind(loss: Loss) -> str:
    """Return what the cost of objective perturbation may use of the slope
    (`dpinfer.mechanisms.privacy_cost`).
    """
    if type(loss) is Logistic:
        return "logistic"
    return "one-sided" if getattr(loss, "nonincreasing", False) is True else "two-sided"


def slope_and_curvature(loss: Loss, z: Array) -> tuple[Array, Array]:
    """f'(z) and f''(z); for the logistic loss the second follows from the first, -f'(1 + f'),
    without another tanh.
    """
    slope = loss.slope(z)
    return slope, -slope * (1 + slope) if type(loss) is Logistic else loss.curvature(z)


def slope_within(loss: Loss, radius: float) -> float:
    """Bound on abs(f'(z)) over abs(z) <= radius: the loss's own, if it declares one, else
    ``slope_bound``.

    A declared bound is held against the slope at both ends, where a convex loss has its steepest
    points.
    """
    if not hasattr(loss, "slope_within"):
        return float(loss.slope_bound)
    declared = float(loss.slope_within(radius))
    steepest = np.abs(loss.slope(np.array([-radius, radius]))).max()
    if not steepest * (1 - ROUNDING) <= declared <= loss.slope_bound * (1 + ROUNDING):
        raise InputError(
            f"{describe(loss)} declares slope_within({radius:.3g}) = {declared:.6g}, which its slope exceeds"
        )
    return declared


TRUSTED = (Logistic, HuberHinge, Huber, SmoothedQuantile)


def check_loss(loss: Loss) -> None:
    """Refuse a loss that is not convex or whose declared bounds are numerically false.

    Guarantee [false_bounds_are_refused]: a slope or a change of slope above the declared bound, at
    any point of a grid that is refined where the slope changes most, raises `InputError`.
    """
    if isinstance(loss, type) or not isinstance(loss, Loss):
        raise InputError(
            f"{loss!r} is not a loss: it needs value, slope, curvature, slope_bound and curvature_bound"
        )
    if kind(loss) not in ("margin", "residual"):
        raise InputError(f"{describe(loss)}: of must be 'margin' or 'residual', not {kind(loss)!r}")
    if type(loss) in TRUSTED:
        return
    L = float(loss.slope_bound)
    t = float(loss.curvature_bound)
    if not (np.isfinite(L) and np.isfinite(t) and L > 0 and t > 0):
        raise InputError(
            f"{describe(loss)}: slope_bound and curvature_bound must be positive and finite"
        )
    z = _probe(loss)
    slope, curvature = (np.asarray(f(z), dtype=float) for f in (loss.slope, loss.curvature))
    near = np.abs(z) <= 500
    value = np.asarray(loss.value(z[near]), dtype=float)
    rise = np.diff(slope)
    run = np.diff(z)
    rounding = ROUNDING * L
    faults = {
        "value, slope or curvature is not finite": not all(
            np.isfinite(f).all() for f in (value, slope, curvature)
        ),
        f"slope exceeds slope_bound = {L:g}": np.abs(slope).max() > L + rounding,
        f"curvature exceeds curvature_bound = {t:g}": curvature.max() > t * (1 + ROUNDING)
        or bool(np.any(rise > t * run + rounding)),
        "it declares nonincreasing, but its slope is positive": slope_kind(loss) != "two-sided"
        and slope.max() > rounding,
        "it is not convex (the slope decreases)": curvature.min() < 0
        or bool(np.any(rise < -rounding)),
        "slope is not the derivative of value": not _integrates(z[near], slope[near], value),
        "curvature is not the derivative of slope": not _integrates(z, curvature, slope),
    }
    for fault, found in faults.items():
        if found:
            raise InputError(f"{describe(loss)} is refused: {fault}")


def _probe(loss: Loss) -> Array:
    """Numbers up to a million, dense near 0, refined where the slope rises most or most unlike its
    curvature.
    """
    far = np.geomspace(30, 1e6, 200)[1:]
    z = np.concatenate([-far[::-1], np.linspace(-30, 30, 3001), far])
    for _ in range(6):
        slope, curvature = (
            np.nan_to_num(np.asarray(f(z), dtype=float)) for f in (loss.slope, loss.curvature)
        )
        rise = np.diff(slope)
        area = np.diff(z) * (curvature[1:] + curvature[:-1]) / 2
        steep = np.argsort(np.abs(rise))[-60:]
        odd = np.argsort(np.abs(rise - area))[-60:]
        widest = np.union1d(steep, odd)
        inside = np.linspace(z[widest], z[widest + 1], 12, axis=1)[:, 1:-1]
        z = np.unique(np.concatenate([z, inside.ravel()]))
    return z


def _integrates(z: Array, derivative: Array, function: Array) -> bool:
    """Return whether ``function`` increases, between adjacent points, by what ``derivative`` allows.

    Every increment must lie within the trapezoid rule, give or take what the derivative changes in
    between.
    """
    run = np.diff(z)
    rise = np.diff(function)
    area = run * (derivative[1:] + derivative[:-1]) / 2
    slack = run * np.abs(np.diff(derivative)) + 1e-7 * (run * np.abs(derivative).max() + 1e-3)
    return bool(np.all(np.abs(rise - area) <= slack))
