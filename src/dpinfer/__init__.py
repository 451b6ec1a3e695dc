"""Differentially private regression with honest confidence intervals."""

from typing import TYPE_CHECKING, Any

from dpinfer.errors import BudgetError, DpinferError, InputError, LedgerError, PrivacyError
from dpinfer.fit.geometry.plan import GeometryPlan
from dpinfer.fit.plan import ObjectivePerturbation, OutputPerturbation, Plan
from dpinfer.fit.run import infer
from dpinfer.maths.losses import Huber, HuberHinge, Logistic, Loss, SmoothedQuantile
from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP
from dpinfer.privacy.ledger import Ledger
from dpinfer.result import FitResult

if TYPE_CHECKING:
    from dpinfer import datasets, plot, report, simulate
    from dpinfer.data.schema import Schema
    from dpinfer.estimators import HuberRegression, LinearSVC, LogisticRegression, QuantileRegression

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "ApproxDP",
    "BudgetError",
    "DpinferError",
    "FitResult",
    "GeometryPlan",
    "Huber",
    "HuberHinge",
    "HuberRegression",
    "InputError",
    "Ledger",
    "LedgerError",
    "LinearSVC",
    "Logistic",
    "LogisticRegression",
    "Loss",
    "NoPrivacy",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "Plan",
    "PrivacyError",
    "PureDP",
    "QuantileRegression",
    "Schema",
    "SmoothedQuantile",
    "datasets",
    "infer",
    "plot",
    "report",
    "simulate",
]

# These load scikit-learn, pandas or matplotlib, so they wait until they are asked for.
_LATE = {
    "HuberRegression": "dpinfer.estimators",
    "LinearSVC": "dpinfer.estimators",
    "LogisticRegression": "dpinfer.estimators",
    "QuantileRegression": "dpinfer.estimators",
    "Schema": "dpinfer.data.schema",
    "datasets": "dpinfer.datasets",
    "plot": "dpinfer.plot",
    "report": "dpinfer.report",
    "simulate": "dpinfer.simulate",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'dpinfer' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    module = import_module(_LATE[name])
    return module if _LATE[name] == f"dpinfer.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
