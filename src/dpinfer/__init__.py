"""Differentially private regression with honest confidence intervals."""

from typing import TYPE_CHECKING, Any

from dpinfer.errors import (
    BudgetError,
    DpinferError,
    InputError,
    LedgerError,
    LowBudgetWarning,
    PrivacyError,
    ServerError,
)

if TYPE_CHECKING:
    from dpinfer import datasets, simulate
    from dpinfer.client import connect
    from dpinfer.description.describing import describe
    from dpinfer.description.survival_release import survival_curves
    from dpinfer.estimators.models import (
        HazardRegression,
        HuberRegression,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegression,
        QuantileRegression,
    )
    from dpinfer.estimators.panel import DifferenceInDifferences, EventStudy
    from dpinfer.fit.bounds import learn_bounds
    from dpinfer.fit.choose import infer
    from dpinfer.fit.hazard import HazardPlan
    from dpinfer.fit.linear import LinearPlan
    from dpinfer.fit.logistic import GeometryPlan
    from dpinfer.fit.penalised_plan import ObjectivePerturbation, OutputPerturbation, Plan
    from dpinfer.fit.poisson import PoissonPlan
    from dpinfer.mechanisms.losses import Huber, HuberHinge, Logistic, Loss, SmoothedQuantile
    from dpinfer.moment_release.forecasting import plan_moments
    from dpinfer.moment_release.released_moments import MomentRelease, moments
    from dpinfer.moment_release.releasing import release_moments
    from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP
    from dpinfer.privacy.ledger import Ledger
    from dpinfer.result.comparison import Comparison, compare
    from dpinfer.result.description import Description
    from dpinfer.result.result import FitResult
    from dpinfer.result.survival_curves import SurvivalCurves
    from dpinfer.rows.workers import progress
    from dpinfer.schema.schema import Schema
    from dpinfer.views import plot, report

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "ApproxDP",
    "BudgetError",
    "Comparison",
    "Description",
    "DifferenceInDifferences",
    "DpinferError",
    "EventStudy",
    "FitResult",
    "GeometryPlan",
    "HazardPlan",
    "HazardRegression",
    "Huber",
    "HuberHinge",
    "HuberRegression",
    "InputError",
    "Ledger",
    "LedgerError",
    "LinearPlan",
    "LinearRegression",
    "LinearSVC",
    "Logistic",
    "LogisticRegression",
    "Loss",
    "LowBudgetWarning",
    "MomentRelease",
    "NoPrivacy",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "Plan",
    "PoissonPlan",
    "PoissonRegression",
    "PrivacyError",
    "PureDP",
    "QuantileRegression",
    "Schema",
    "ServerError",
    "SmoothedQuantile",
    "SurvivalCurves",
    "compare",
    "connect",
    "datasets",
    "describe",
    "infer",
    "learn_bounds",
    "moments",
    "plan_moments",
    "plot",
    "progress",
    "release_moments",
    "report",
    "simulate",
    "survival_curves",
]

# A program that needs one part of the library does not wait for the others, nor for the libraries they load
_MODULES = {
    "client": ("connect",),
    "datasets": ("datasets",),
    "description.describing": ("describe",),
    "description.survival_release": ("survival_curves",),
    "estimators.models": (
        "HuberRegression",
        "LinearRegression",
        "LinearSVC",
        "LogisticRegression",
        "HazardRegression",
        "PoissonRegression",
        "QuantileRegression",
    ),
    "estimators.panel": ("DifferenceInDifferences", "EventStudy"),
    "fit.bounds": ("learn_bounds",),
    "fit.choose": ("infer",),
    "fit.linear": ("LinearPlan",),
    "fit.logistic": ("GeometryPlan",),
    "fit.penalised_plan": ("ObjectivePerturbation", "OutputPerturbation", "Plan"),
    "fit.hazard": ("HazardPlan",),
    "fit.poisson": ("PoissonPlan",),
    "mechanisms.losses": ("Huber", "HuberHinge", "Logistic", "Loss", "SmoothedQuantile"),
    "moment_release.forecasting": ("plan_moments",),
    "moment_release.released_moments": ("MomentRelease", "moments"),
    "moment_release.releasing": ("release_moments",),
    "privacy.budget": ("ZCDP", "ApproxDP", "NoPrivacy", "PureDP"),
    "privacy.ledger": ("Ledger",),
    "result.comparison": ("Comparison", "compare"),
    "result.description": ("Description",),
    "result.result": ("FitResult",),
    "result.survival_curves": ("SurvivalCurves",),
    "rows.workers": ("progress",),
    "schema.schema": ("Schema",),
    "simulate": ("simulate",),
    "views.plot": ("plot",),
    "views.report": ("report",),
}
_HOME = {name: f"dpinfer.{module}" for module, names in _MODULES.items() for name in names}
"""The module of each public name that is loaded when it is first asked for."""

_ALIASES = {"HopelessFitWarning": "LowBudgetWarning"}
"""Other names of public names; `dir` does not list them."""


def __getattr__(name: str) -> Any:
    if name in _ALIASES:
        return globals()[_ALIASES[name]]
    if name not in _HOME:
        raise AttributeError(f"module 'dpinfer' has no attribute {name!r}{_instead(name)}")
    from importlib import import_module  # noqa: PLC0415

    home = _HOME[name]
    module = import_module(home)
    found = module if home.endswith(f".{name}") else getattr(module, name)
    globals()[name] = found
    return found


def _instead(name: str) -> str:
    """Return what to use in the place of a model that is asked for by another name."""
    from importlib.util import find_spec  # noqa: PLC0415

    # `from dpinfer import persistence` looks for an attribute before it imports the module
    if name.startswith("_") or find_spec(f"{__name__}.{name}"):
        return ""
    from dpinfer.estimators.aliases import IN_PYTHON, model_advice  # noqa: PLC0415

    advice = model_advice(name)
    if advice is None:
        return ""
    return f": {advice.sentence(IN_PYTHON)}"


def __dir__() -> list[str]:
    return sorted(__all__)
