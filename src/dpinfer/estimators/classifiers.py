"""scikit-learn classifiers: private logistic regression and a linear support vector machine."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import ClassifierMixin

from dpinfer.data.design import Design
from dpinfer.data.schema import Level, Outcome, Schema
from dpinfer.data.source import UNSCALED, Scale
from dpinfer.data.values import places
from dpinfer.errors import InputError
from dpinfer.estimators.base import Bounds, LinearModel, vector
from dpinfer.fit.geometry.plan import GeometryPlan, geometry_plan, usual_target
from dpinfer.fit.plan import Plan
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import HuberHinge, Logistic, Loss
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.ledger import Book


class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """What the two classifiers share.

    Guarantee [classes_are_declared]: ``classes_`` comes from ``classes`` or the schema, never from y.
    """

    classes: tuple[Level, Level]
    kind = "margin"

    def decision_function(self, X: Any) -> Array:
        """Intercept plus coefficients times columns, in original units; positive means ``classes_[1]``."""
        return self._linear(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The more likely class of each row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _declare(self, outcome: Outcome | None) -> Scale:
        declared = np.asarray(self.classes if outcome is None else outcome.levels)
        if declared.shape != (2,) or declared[0] == declared[1]:
            raise InputError("declare two different classes=(negative, positive)")
        self.classes_ = declared
        return UNSCALED

    def _outcomes(self, y: Any, scale: Scale) -> Array:  # noqa: ARG002
        """-1 and +1 for the declared classes, NaN for anything else."""
        codes = vector(places("y", y, self.classes_.tolist()))
        return np.asarray(np.array([-1.0, 1.0, np.nan])[codes])

    def _keep(self, intercept: float, coef: Array) -> None:
        self.intercept_, self.coef_ = np.array([intercept]), coef[None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = self._private
        return tags


class LogisticRegression(LinearClassifier):
    """Private logistic regression with confidence intervals in ``result_``.

    Parameters
    ----------
    formula, schema : with a table, ``"outcome ~ a + b"`` and the public `Schema` of its columns.
    bounds : with arrays, a public pair (low, high): one number for all columns, or one a column.
    classes : with arrays, the two labels; the second is the positive one.  Declared, never learned.
    penalty : c in the mean objective, on the bounded rows.  By default chosen from n, d, the loss and the budget
        (`dpinfer.fit.plan.default_penalty`); printed with the result.
    budget, plan : one of them; a budget gets the default plan.
    target : what the intervals are about: "weighted" (no penalty, in a private geometry: the default for zCDP and
        (ε, δ) budgets, where neither penalty nor plan is given), "unweighted" (likewise, every record counted fully),
        "penalised" (the default otherwise) or "unpenalised".
    ledger : where the spend is booked before anything is computed.
    insecure_seed : for tests only; the result then says that it is not private.
    """

    def __init__(  # noqa: PLR0913
        self,
        formula: str | None = None,
        *,
        schema: Schema | None = None,
        bounds: Bounds | None = None,
        classes: tuple[Level, Level] = (0, 1),
        penalty: float | None = None,
        budget: Budget | None = None,
        plan: Plan | GeometryPlan | None = None,
        target: str | None = None,
        ledger: Book | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.formula = formula
        self.schema = schema
        self.bounds = bounds
        self.classes = classes
        self.penalty = penalty
        self.budget = budget
        self.plan = plan
        self.target = target
        self.ledger = ledger
        self.insecure_seed = insecure_seed

    def _loss(self, n: int, dim: int, scale: Scale) -> Loss:  # noqa: ARG002
        return Logistic()

    def _geometry(self, design: Design) -> GeometryPlan | None:
        usual = usual_target(self.budget, self.penalty, self.plan, design)
        plan = geometry_plan(usual if self.target is None else self.target, self.budget, self.plan)
        if plan is not None and self.penalty is not None:
            raise InputError(f"the target {plan.target!r} has no penalty: leave out penalty=")
        if plan is not None and not design.intercept:
            raise InputError(f"the target {plan.target!r} needs an intercept: drop the -1 or 0 from the formula")
        return plan

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the two classes, one row a record."""
        score = self.decision_function(X)
        return np.column_stack([expit(-score), expit(score)])


class LinearSVC(LinearClassifier):
    """Private linear support vector machine with the Huberised hinge; intervals in ``result_``.

    The parameters are those of `LogisticRegression`, and ``knee``, the half width of the rounded corner.
    """

    def __init__(  # noqa: PLR0913
        self,
        formula: str | None = None,
        *,
        knee: float = 1.0,
        schema: Schema | None = None,
        bounds: Bounds | None = None,
        classes: tuple[Level, Level] = (0, 1),
        penalty: float | None = None,
        budget: Budget | None = None,
        plan: Plan | None = None,
        target: str | None = None,
        ledger: Book | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.formula = formula
        self.knee = knee
        self.schema = schema
        self.bounds = bounds
        self.classes = classes
        self.penalty = penalty
        self.budget = budget
        self.plan = plan
        self.target = target
        self.ledger = ledger
        self.insecure_seed = insecure_seed

    def _loss(self, n: int, dim: int, scale: Scale) -> Loss:  # noqa: ARG002
        return HuberHinge(self.knee)
