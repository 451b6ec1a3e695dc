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
from dpinfer.fit.choose import infer
from dpinfer.fit.linear import LinearPlan
from dpinfer.fit.logistic import GeometryPlan
from dpinfer.fit.penalised_plan import ObjectivePerturbation, OutputPerturbation, Plan
from dpinfer.fit.poisson import PoissonPlan
from dpinfer.mechanisms.losses import Huber, HuberHinge, Logistic, Loss, SmoothedQuantile
from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP
from dpinfer.privacy.ledger import Ledger
from dpinfer.result.comparison import Comparison, compare
from dpinfer.result.description import Description
from dpinfer.result.result import FitResult

if TYPE_CHECKING:
    from dpinfer import datasets, simulate
    from dpinfer.client import connect
    from dpinfer.description.describing import describe
    from dpinfer.estimators.models import (
        HuberRegression,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegression,
        QuantileRegression,
    )
    from dpinfer.fit.bounds import learn_bounds
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
    "DpinferError",
    "FitResult",
    "GeometryPlan",
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
    "compare",
    "connect",
    "datasets",
    "describe",
    "infer",
    "learn_bounds",
    "plot",
    "progress",
    "report",
    "simulate",
]

# These load scikit-learn, pandas or matplotlib, so they wait until they are asked for.
_LATE = {
    "HuberRegression": "dpinfer.estimators.models",
    "LinearRegression": "dpinfer.estimators.models",
    "LinearSVC": "dpinfer.estimators.models",
    "LogisticRegression": "dpinfer.estimators.models",
    "PoissonRegression": "dpinfer.estimators.models",
    "QuantileRegression": "dpinfer.estimators.models",
    "Schema": "dpinfer.schema.schema",
    "connect": "dpinfer.client",
    "datasets": "dpinfer.datasets",
    "describe": "dpinfer.description.describing",
    "learn_bounds": "dpinfer.fit.bounds",
    "plot": "dpinfer.views.plot",
    "progress": "dpinfer.rows.workers",
    "report": "dpinfer.views.report",
    "simulate": "dpinfer.simulate",
}

_ALIASES = {"HopelessFitWarning": "LowBudgetWarning"}
"""Other names of public names; `dir` does not list them."""


def __getattr__(name: str) -> Any:
    if name in _ALIASES:
        return globals()[_ALIASES[name]]
    if name not in _LATE:
        raise AttributeError(f"module 'dpinfer' has no attribute {name!r}{_instead(name)}")
    from importlib import import_module  # noqa: PLC0415

    module = import_module(_LATE[name])
    if _LATE[name].endswith(f".{name}"):
        return module
    return getattr(module, name)


def _instead(name: str) -> str:
    """What to use in the place of a model that is asked for by another name."""
    if name.startswith("_"):
        return ""
    from dpinfer.estimators.aliases import IN_PYTHON, model_advice  # noqa: PLC0415

    advice = model_advice(name)
    if advice is None:
        return ""
    return f": {advice.sentence(IN_PYTHON)}"


def __dir__() -> list[str]:
    return sorted(__all__)
