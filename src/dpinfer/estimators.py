"""scikit-learn faces of the fit: arrays with public bounds, or a table with a schema and a formula."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from dpinfer.data import table as tables
from dpinfer.data.design import Design
from dpinfer.data.formula import parse
from dpinfer.data.schema import Level, Schema
from dpinfer.data.source import Rows, numbers
from dpinfer.errors import InputError
from dpinfer.fit.geometry.box import Box
from dpinfer.fit.geometry.plan import GeometryPlan, geometry_plan
from dpinfer.fit.geometry.run import fit_geometry
from dpinfer.fit.plan import Plan, default_penalty
from dpinfer.fit.run import Setting, check_target, choose_plan, fit
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import HuberHinge, Logistic, Loss
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.ledger import Book

Bounds = tuple[npt.ArrayLike, npt.ArrayLike]


class _LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the two classifiers share.  A subclass names its loss."""

    formula: str | None
    schema: Schema | None
    bounds: Bounds | None
    classes: tuple[Level, Level]
    penalty: float | None
    budget: Budget | None
    plan: Plan | GeometryPlan | None
    ledger: Book | None
    insecure_seed: int | None

    def _loss(self) -> Loss:
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on arrays (X, y) with ``bounds``, or on one table with ``formula`` and ``schema``.

        Guarantee [classes_are_declared]: ``classes_`` comes from ``classes`` or the schema, never from y.
        """
        design, source, unit = self._read(X, y) if self.formula is None else self._read_table(X, y)
        geometry = geometry_plan(getattr(self, "target", None), self.budget, self.plan)
        if geometry is not None:
            return self._in_geometry(source, Box.of(design, unit), geometry)
        plan, loss = choose_plan(self.budget, self.plan), self._loss()
        penalty = default_penalty(plan, loss, source.n, source.dim) if self.penalty is None else self.penalty
        setting = Setting(loss, penalty, plan, design.names, design.back(), unit)
        if getattr(self, "target", None) is not None:
            check_target(self.target, setting)
        self.result_ = fit(source, setting, self.ledger, self.insecure_seed)
        self.intercept_ = self.result_.estimate[:1].copy()
        self.coef_ = self.result_.estimate[None, 1:].copy()
        self.penalty_ = penalty
        return self

    def _in_geometry(self, source: Rows, box: Box, plan: GeometryPlan) -> Self:
        """The weighted and unweighted targets; ``intercept_`` is the ordinary one, not that at the released centre."""
        if not isinstance(self._loss(), Logistic):
            raise InputError("a private geometry is for logistic regression only: use budget=, or a Plan as plan=")
        if self.penalty is not None:
            raise InputError(f"the target {plan.target!r} has no penalty: leave out penalty=")
        self.result_ = fit_geometry(source, box, plan, self.ledger, self.insecure_seed)
        geometry, slopes = self.result_.geometry, self.result_.estimate[1:]
        assert geometry is not None
        self.coef_ = slopes[None].copy()
        self.intercept_ = self.result_.estimate[:1] - geometry.centre @ slopes
        self.penalty_ = 0.0
        return self

    def decision_function(self, X: Any) -> Array:
        """Intercept plus coefficients times columns, in original units; positive means ``classes_[1]``."""
        check_is_fitted(self)
        if self.formula is None:
            values = self._array(X, reset=False)
        else:
            values = tables.read_terms(tables.open_table(X), self.terms_)
            if not np.isfinite(values).all():
                raise InputError("some rows cannot be encoded by the schema: drop them before predicting")
        return np.asarray(values @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The more likely class of each row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _read(self, X: Any, y: Any) -> tuple[Design, Rows, str]:
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if self.bounds is None:
            raise InputError(
                "declare public bounds=(low, high) of the columns; taking them from the data is not private"
            )
        self.classes_ = _declared(self.classes)
        values = self._array(X, reset=True)
        names = getattr(self, "feature_names_in_", [f"x{j + 1}" for j in range(values.shape[1])])
        design = Design.of_bounds(self.bounds, tuple(names))
        return design, Rows.of(design.rows(values), _labels(y, self.classes_)), "one record"

    def _array(self, X: Any, *, reset: bool) -> Array:
        """X as floats.  Shape and type are checked here first: scikit-learn's own messages quote rows."""
        if not hasattr(X, "toarray"):  # sparse input is refused below, by its type
            values = numbers("X", X, "encode it as numbers, or use a schema and a formula (Complex data not supported)")
            if values.ndim != 2:
                raise InputError(f"X must be a 2D array, not {values.ndim}D. Reshape your data to (records, columns)")
        checked = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=not reset)
        return numbers("X", checked, "encode it as numbers")

    def _read_table(self, X: Any, y: Any) -> tuple[Design, Rows, str]:
        if y is not None:
            raise InputError("with a formula the outcome is a column of the table: call fit(table)")
        assert self.formula is not None
        outcome, self.terms_ = parse(self.formula, self.schema)
        assert self.schema is not None
        design, source = tables.encode(X, outcome, self.terms_)
        self.classes_ = _declared(outcome.levels)
        self.n_features_in_ = len(self.terms_)
        return design, source, self.schema.unit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        private = not isinstance(self.budget, NoPrivacy)
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = private
        tags.non_deterministic = private and self.insecure_seed is None
        return tags


class LogisticRegression(_LinearClassifier):
    """Private logistic regression with confidence intervals in ``result_``.

    Parameters
    ----------
    formula, schema : with a table, ``"outcome ~ a + b"`` and the public `Schema` of its columns.
    bounds : with arrays, a public pair (low, high): one number for all columns, or one a column.
    classes : with arrays, the two labels; the second is the positive one.  Declared, never learned.
    penalty : c in the mean objective, on the bounded rows.  By default chosen from n, d, the loss and the budget
        (`dpinfer.fit.plan.default_penalty`); printed with the result.
    target : "weighted" or "unweighted": no penalty, in a private geometry, for zCDP and (ε, δ) budgets;
        "penalised" (the default) or "unpenalised": the paper's.
    budget, plan : one of them; a budget gets the default plan.
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

    def _loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the two classes, one row a record."""
        score = self.decision_function(X)
        return np.column_stack([expit(-score), expit(score)])


class LinearSVC(_LinearClassifier):
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
        self.ledger = ledger
        self.insecure_seed = insecure_seed

    def _loss(self) -> Loss:
        return HuberHinge(self.knee)


def _declared(classes: Any) -> npt.NDArray[Any]:
    declared = np.asarray(classes)
    if declared.shape != (2,) or declared[0] == declared[1]:
        raise InputError("declare two different classes=(negative, positive)")
    return declared


def _labels(y: Any, classes: npt.NDArray[Any]) -> Array:
    """-1 and +1 for the declared classes, NaN for anything else."""
    values = np.asarray(y)
    if values.ndim != 1 and not (values.ndim == 2 and values.shape[1] == 1):
        raise InputError(f"y must have one dimension, not shape {values.shape}")
    values = column_or_1d(values, warn=True)
    text = "UST"
    if values.dtype.kind != "O" and (values.dtype.kind in text) != (classes.dtype.kind in text):
        raise InputError(
            f"y is {values.dtype} but classes= are {classes.dtype}: declare the two labels of y as classes="
        )
    return np.array([-1.0, 1.0, np.nan])[tables.match(values, classes.tolist())]
