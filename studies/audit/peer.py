"""Run by the Python of diffprivlib's own environment: raw statistics of its mechanisms on two
neighbours, as JSON.

Imports nothing of dpinfer.  ``python peer.py RUNS``
"""

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import diffprivlib  # type: ignore[import-not-found]
import numpy as np
from diffprivlib.mechanisms import Gaussian, GaussianAnalytic, Laplace  # type: ignore[import-not-found]
from diffprivlib.models import LinearRegression, LogisticRegression  # type: ignore[import-not-found]

warnings.simplefilter("ignore")
RUNS = int(sys.argv[1])


def steep(side: float) -> tuple[Any, Any]:
    """400 records in one direction, all +1, and a -1 nearly opposite to its replacement."""
    last = [side * np.cos(0.35), np.sin(0.35)]
    return np.vstack([np.tile([0.0, 1.0], (400, 1)), last]), np.append(np.ones(400), -1.0)


def straight(side: float) -> tuple[Any, Any]:
    """Seven records at 0, and one at (1, 1) or (1, -1)."""
    return np.append(np.zeros(7), 1.0)[:, None], np.append(np.zeros(7), side)


def logistic(side: float, **options: Any) -> list[float]:
    """Coefficients of one fit; C is 1/λ."""
    model = LogisticRegression(
        epsilon=1.0, data_norm=1.0, C=0.5, tol=1e-8, max_iter=1000, **options
    )
    model.fit(*steep(side))
    return [*model.coef_.ravel().tolist(), *np.ravel(model.intercept_).tolist()]


def linear(side: float) -> list[float]:
    """The coefficient of one fit through 0."""
    model = LinearRegression(
        epsilon=1.0, bounds_X=(0.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False
    )
    return [float(v) for v in np.ravel(model.fit(*straight(side)).coef_)]


def one_class(side: float) -> list[float]:
    """1 if a fit raises: with the record of the second class, and without it."""
    X, y = steep(1.0)
    y[-1] = side
    try:
        LogisticRegression(epsilon=1.0, data_norm=1.0).fit(X, y)
    except ValueError:
        return [1.0]
    return [0.0]


def value(mechanism: Any) -> Callable[[float], list[float]]:
    """A mechanism at 0 or 1."""
    return lambda side: [float(mechanism.randomise((side + 1) / 2))]


CASES: dict[str, Callable[[float], list[float]]] = {
    "Laplace": value(Laplace(epsilon=1.0, sensitivity=1.0)),
    "Gaussian": value(Gaussian(epsilon=0.5, delta=0.2, sensitivity=1.0)),
    "GaussianAnalytic": value(GaussianAnalytic(epsilon=0.5, delta=0.2, sensitivity=1.0)),
    "LogisticRegression": lambda side: logistic(side, fit_intercept=False),
    "LogisticRegression, intercept": logistic,
    "LinearRegression": linear,
    "LogisticRegression, one class": one_class,
}
found: dict[str, Any] = {"version": diffprivlib.__version__, "cases": {}}
for name, draw in CASES.items():
    try:
        found["cases"][name] = [[draw(side) for _ in range(RUNS)] for side in (1.0, -1.0)]
    except Exception as fault:
        found["cases"][name] = f"{type(fault).__name__}: {fault}"
print(json.dumps(found))
