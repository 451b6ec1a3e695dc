"""Differentially private regression with honest confidence intervals."""

from typing import TYPE_CHECKING, Any

from dpinfer.errors import BudgetError, DpinferError, InputError, LedgerError, PrivacyError
from dpinfer.fit.geometry.plan import GeometryPlan
from dpinfer.fit.plan import ObjectivePerturbation, OutputPerturbation, Plan
from dpinfer.fit.run import infer
from dpinfer.maths.losses import HuberHinge, Logistic, Loss
from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP
from dpinfer.privacy.ledger import Ledger
from dpinfer.result import FitResult

if TYPE_CHECKING:
    from dpinfer import datasets, plot, simulate
    from dpinfer.data.schema import Schema
    from dpinfer.estimators import LinearSVC, LogisticRegression

__version__ = "0.1.0"

__all__ = [
    "ZCDP",
    "ApproxDP",
    "BudgetError",
    "DpinferError",
    "FitResult",
    "GeometryPlan",
    "HuberHinge",
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
    "Schema",
    "datasets",
    "infer",
    "plot",
    "simulate",
]

# These load scikit-learn or pandas, so they wait until they are asked for.
_LATE = {
    "LinearSVC": "dpinfer.estimators",
    "LogisticRegression": "dpinfer.estimators",
    "Schema": "dpinfer.data.schema",
    "datasets": "dpinfer.datasets",
    "plot": "dpinfer.plot",
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
