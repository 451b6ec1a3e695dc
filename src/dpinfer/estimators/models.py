"""The models: logistic, support vector, least-squares, robust and quantile regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin

from dpinfer.errors import InputError
from dpinfer.estimators.base import LinearModel, vector
from dpinfer.fit.linear import LeastSquares
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Huber, HuberHinge, Logistic, Loss, SmoothedQuantile
from dpinfer.schema.columns import Level, tidied
from dpinfer.schema.design import UNSCALED, Design, Scale
from dpinfer.schema.terms import Response
from dpinfer.tables.cells import numbers, places


@dataclass(eq=False, repr=False, kw_only=True)
class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """What the two classifiers share.

    Guarantee [classes_are_declared]: ``classes_`` comes from ``classes`` or the schema, never from
    y.
    """

    classes: tuple[Level, Level] = (0, 1)
    kind = "margin"

    def decision_function(self, X: Any) -> Array:
        """Intercept plus coefficients times columns, in original units; positive means
        ``classes_[1]``.
        """
        return self._linear(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The more likely class of each row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _declare(self, response: Response | None) -> Scale:
        declared = np.asarray(self.classes if response is None else response.levels)
        if declared.shape != (2,) or len(set(tidied(tuple(declared.tolist())))) < 2:
            raise InputError("declare two different classes=(negative, positive)")
        self.classes_ = declared
        return UNSCALED

    def _explained(self) -> tuple[Sequence[Level], None]:
        return self.classes_.tolist(), None

    def _outcomes(self, y: Any, scale: Scale) -> Array:  # noqa: ARG002
        """-1 and +1 for the declared classes, NaN for anything else."""
        codes = vector(places("y", y, self.classes_.tolist()))
        return np.asarray(np.array([-1.0, 1.0, np.nan])[codes])

    def _keep(self, intercept: float, coef: Array) -> None:
        self.intercept_ = np.array([intercept])
        self.coef_ = coef[None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = self._private
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(LinearClassifier):
    """Private logistic regression with confidence intervals in ``result_``.

    Parameters
    ----------
    formula : str, optional
        With a table, ``"outcome ~ a + b"``; every name is a column of the schema.
    schema : Schema, optional
        With a formula, what is public about the columns.
    bounds : pair (low, high), optional
        With arrays, public bounds of the columns: one number for all, or one for each.
    yes_no : sequence of names or places, optional
        With arrays, the columns that hold 0 and 1 alone.  Any other column is a number, which is
        right for them too, though their intervals are longer then.
    classes : pair of labels
        With arrays, the two labels; the second is the positive one.  Declared, never learned.
    penalty : float, optional
        c in the mean objective, on the bounded rows.  By default chosen from n, d, the loss and the
        budget (`dpinfer.fit.penalised_plan.default_penalty`); printed with the result.
    budget : PureDP, ZCDP, ApproxDP or NoPrivacy, optional
        What the fit may cost; it gets the default plan.
    plan : Plan or GeometryPlan, optional
        Instead of ``budget``: a mechanism and a share for each release.
    target : str, optional
        What the intervals are about: "asked" (the ordinary coefficients of all columns of the
        formula: the default for zCDP and (ε, δ) budgets, where neither penalty nor plan is given),
        "penalised" (the default otherwise) or "unpenalised".
    neighbours : "replace" or "add-remove", optional
        What may differ between two data sets: one record replaced, the number of records public
        (the default); or one added or removed, for the target asked.  With ids it is all rows of
        one unit.
    rows : "average" or a number, optional
        With arrays and ``fit(X, y, units=ids)``: "average" (the default) lets every unit count
        alike, whatever its number of rows; a number c lets rows count alike up to c per unit.  With
        a formula the schema says it.
    most_weight : float, optional
        With arrays and ``fit(X, y, weights=w)``: a public bound of the total weight of a unit, or
        of a row without ids.  What lies beyond is trimmed, and the noise grows with it.
    ledger : Ledger, optional
        Where the spend is booked before anything is computed.
    insecure_seed : int, optional
        For tests only; the result then says that it is not private.
    """

    def _loss(self, n: int, design: Design) -> Loss:  # noqa: ARG002
        return Logistic()

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the two classes, one row per row of ``X``."""
        score = self.decision_function(X)
        return np.column_stack([expit(-score), expit(score)])


@dataclass(eq=False, repr=False, kw_only=True)
class LinearSVC(LinearClassifier):
    """Private linear support vector machine with the Huberised hinge; intervals in ``result_``.

    Parameters
    ----------
    knee : float
        Half the width of the rounded corner of the hinge.
    formula, schema, bounds, yes_no, classes, penalty, budget, plan, target, neighbours, rows,
    most_weight ledger, insecure_seed
        As for `LogisticRegression`; ``target`` is "penalised" (the default) or "unpenalised".
    """

    knee: float = 1.0

    def _loss(self, n: int, design: Design) -> Loss:  # noqa: ARG002
        return HuberHinge(self.knee)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]
    """What the regressors share.

    Guarantee [outcome_range_is_declared]: the scale of the outcome comes from ``outcome`` or the
    schema, never from y; what lies beyond it is clipped.
    """

    outcome: tuple[float, float] | None = None
    kind = "residual"

    def predict(self, X: Any) -> Array:
        """Intercept plus coefficients times columns, in the units of the outcome.

        With a transform on the left of the formula these are its units: for ``log(y) ~ x`` a
        prediction of log(y).
        """
        return self._linear(X)

    def _declare(self, response: Response | None) -> Scale:
        if response is not None:
            if self.outcome is not None:
                raise InputError(
                    "with a formula the range of the outcome comes from the schema: drop outcome="
                )
            return UNSCALED
        if self.outcome is None:
            raise InputError(
                "declare the public range outcome=(low, high) of y; taking it from the data is not private"
            )
        try:
            low, high = (float(side) for side in self.outcome)
        except (TypeError, ValueError):
            raise InputError("outcome must be a pair (low, high) of numbers") from None
        return Scale.of_range(low, high)

    def _explained(self) -> tuple[Sequence[Level], tuple[float, float] | None]:
        return (), self.outcome

    def _outcomes(self, y: Any, scale: Scale) -> Array:
        values = vector(numbers("y", y, "a regression needs a numeric outcome", depth=1))
        inside = np.clip(values, scale.centre - scale.half, scale.centre + scale.half)
        return scale.bounded(np.where(np.isfinite(values), inside, np.nan))

    def _keep(self, intercept: float, coef: Array) -> None:
        self.intercept_ = intercept
        self.coef_ = coef

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self._private
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegression(LinearRegressor):
    """Private least squares with confidence intervals in ``result_``, without a penalty.

    Parameters
    ----------
    formula : str, optional
        With a table, ``"outcome ~ a + b"``; the outcome may be transformed, as in ``"log(1 +
        visits) ~ a + b"``.
    outcome : pair (low, high), optional
        With arrays, the public range of y; values beyond it are clipped.
    target : "asked" or "robust", optional
        What the intervals are about: least squares (the default), or a Huber estimand that ignores
        the tails.
    tail : "balanced", "cautious" or "all"
        How much of the tail of the outcome counts, for target "asked".  "balanced" clips where
        noise and what is cut off balance; "cautious" takes the tail for longer than it looks; "all"
        clips nobody whose prediction is within the range of the outcome, with noise for all of that
        range: many times the length where it is wide.
    plan : LinearPlan, optional
        Instead of ``budget``: a budget with its target, tail, neighbours and the share of each
        release.
    budget : ZCDP or ApproxDP, optional
        What the fit may cost.
    schema, bounds, yes_no, neighbours, rows, most_weight, ledger, insecure_seed
        As for `LogisticRegression`.
    penalty : None
        There is none; the parameter is that of the other models.
    """

    tail: str = "balanced"

    def _loss(self, n: int, design: Design) -> LeastSquares:  # noqa: ARG002
        return LeastSquares(self.tail)


@dataclass(eq=False, repr=False, kw_only=True)
class HuberRegression(LinearRegressor):
    """Private robust linear regression with the Huber loss; confidence intervals in ``result_``.

    Its coefficients are penalised and so pulled towards 0: ``LinearRegression``, for zCDP and (ε,
    δ) budgets, is the better tool where those of ordinary least squares are wanted.

    Parameters
    ----------
    knee : float, optional
        Where the loss turns from quadratic to linear, in units of the outcome.  By default a tenth
        of the outcome's range: Huber's 1.345 standard deviations where residuals have a deviation
        of about a thirteenth of it.
    outcome : pair (low, high), optional
        With arrays, the public range of y; values beyond it are clipped.
    penalty : float, optional
        c in the mean objective, on the bounded rows and the outcome scaled to [-1, 1].  By default
        chosen from n, d, the loss and the budget; printed with the result.
    formula, schema, bounds, yes_no, budget, plan, target, neighbours, rows, most_weight
    ledger, insecure_seed
        As for `LogisticRegression`; ``target`` is "penalised" (the default) or "unpenalised".
    """

    knee: float | None = None

    def _loss(self, n: int, design: Design) -> Loss:  # noqa: ARG002
        half = design.outcome.half
        knee = half / 5 if self.knee is None else self.knee
        return Huber(knee).rescaled(1 / half)


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileRegression(LinearRegressor):
    """Private quantile regression with a smoothed check loss; confidence intervals in ``result_``.

    Its coefficients are penalised and so pulled towards 0: ``LinearRegression``, for zCDP and (ε,
    δ) budgets, is the better tool where the mean will do for a quantile: where the coefficients of
    ordinary least squares are wanted.

    Parameters
    ----------
    quantile : float
        Which one, strictly between 0 and 1; .5 is the median.
    bandwidth : float, optional
        Scale of the logistic smoothing, in units of the outcome.  By default ((d + log n)/n)^(2/5)
        times half the outcome's range, and at least a fortieth of the range (He, Pan, Tan and Zhou,
        2023, with public facts only).  The target is the quantile of the outcome plus logistic
        noise of this scale: a smaller bandwidth is closer to the plain quantile, and needs a larger
        penalty or budget.
    outcome, formula, schema, bounds, yes_no, penalty, budget, plan, target, neighbours, rows,
    most_weight ledger, insecure_seed
        As for `HuberRegression`.
    """

    quantile: float = 0.5
    bandwidth: float | None = None

    def _loss(self, n: int, design: Design) -> Loss:
        half = design.outcome.half
        bandwidth = self.bandwidth
        if bandwidth is None:
            rate = (len(design.names) + np.log(n)) / n
            bandwidth = float(half * max(0.05, rate**0.4))
        return SmoothedQuantile(self.quantile, bandwidth).rescaled(1 / half)
