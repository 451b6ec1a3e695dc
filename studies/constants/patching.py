"""Constants of inference and fits at another value, in every module that has imported them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dpinfer.fit.choose  # noqa: F401  (all modules of fits are imported)
from dpinfer.fit import step_plan
from dpinfer.inference import constants
from dpinfer.numerics.reasons import Constant

_OTHER_MODULES = ("dpinfer.fit.penalised_plan", "dpinfer.fit.bounds", constants.__name__)
"""Modules whose constants no fit of this study needs, and the one that defines them."""
_ENDS = {
    "MAX_LEVEL_SHARE": 1.0,
    "MAX_EVENT_LOSS": 1.0,
    "FAILURE_RATE_SLACK": 1.0,
    "MAX_OUTCOME_IMBALANCE": 0.5,
}
"""Constants next to the largest value that is possible: their distance from it is halved and doubled."""


def registry() -> dict[str, Constant]:
    """Return the constants of inference and of stepped fits by their names."""
    every = {name: one for name, one in vars(constants).items() if isinstance(one, Constant)}
    users = [module for name, module in _modules() if name not in _OTHER_MODULES]
    return {name: one for name, one in every.items() if any(name in vars(m) for m in users)}


def times(constant: Constant, factor: float) -> float:
    """Return a constant, or its distance from the largest value that is possible, times a factor."""
    end = _ENDS.get(constant.name)
    if end is None:
        return float(constant) * factor
    return end - (end - float(constant)) * factor


@contextmanager
def patched(old: Constant, new: float) -> Iterator[None]:
    """Give a constant another value, where modules hold it and where functions have it as a default."""
    undo: list[tuple[Any, str, Any]] = []
    for _, module in _modules():
        for name, value in list(vars(module).items()):
            if value is old:
                undo.append((module, name, old))
                setattr(module, name, new)
            defaults = getattr(value, "__defaults__", None)
            if isinstance(defaults, tuple) and any(one is old for one in defaults):
                undo.append((value, "__defaults__", defaults))
                changed = tuple(new if one is old else one for one in defaults)
                setattr(value, "__defaults__", changed)  # noqa: B010  (of any callable)
    _forget()
    try:
        yield
    finally:
        for owner, name, value in undo:
            setattr(owner, name, value)
        _forget()


def _modules() -> list[tuple[str, Any]]:
    return [(name, one) for name, one in sys.modules.items() if name.startswith("dpinfer.")]


def _forget() -> None:
    """Empty the cache of noise scales: the weights of stacked sums decide them."""
    step_plan._scales.cache_clear()
