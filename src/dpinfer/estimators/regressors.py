"""scikit-learn regressors: private robust regression and private quantile regression."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dpinfer.data.schema import Outcome, Schema
from dpinfer.data.source import UNSCALED, Scale
from dpinfer.data.values import numbers
from dpinfer.errors import InputError
from dpinfer.estimators.base import Bounds, LinearModel, vector
from dpinfer.fit.plan import Plan
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Huber, Loss, SmoothedQuantile
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.ledger import Book


class LinearRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]
    """What the two regressors share.

    Guarantee [outcome_range_is_declared]: the scale of the outcome comes from ``outcome`` or the schema, never from y;
    what lies beyond it is clipped.
    """

    outcome: tuple[float, float] | None
    kind = "residual"

    def predict(self, X: Any) -> Array:
        """Intercept plus coefficients times columns, in the units of the outcome."""
        return self._linear(X)

    def _declare(self, outcome: Outcome | None) -> Scale:
        if outcome is not None:
            if self.outcome is not None:
                raise InputError("with a formula the range of the outcome comes from the schema: drop outcome=")
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

    def _outcomes(self, y: Any, scale: Scale) -> Array:
        return scale.bounded(vector(numbers("y", y, "a regression needs a numeric outcome", depth=1)))

    def _keep(self, intercept: float, coef: Array) -> None:
        self.intercept_, self.coef_ = intercept, coef

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self._private
        return tags


class HuberRegression(LinearRegressor):
    """Private robust linear regression with the Huber loss; confidence intervals in ``result_``.

    Parameters
    ----------
    formula, schema : with a table, ``"outcome ~ a + b"`` and the public `Schema` of its columns.
    knee : where the loss turns from quadratic to linear, in units of the outcome.  By default a tenth of the outcome's
        range: Huber's 1.345 standard deviations where residuals have a deviation of about a thirteenth of it.
    outcome : with arrays, the public range (low, high) of y; values beyond it are clipped.
    bounds : with arrays, a public pair (low, high) for X: one number for all columns, or one a column.
    penalty : c in the mean objective, on the bounded rows and the outcome scaled to [-1, 1].  By default chosen from n,
        d, the loss and the budget; printed with the result.
    budget, plan : one of them; a budget gets the default plan.
    target : "penalised" (the default) or "unpenalised": what the intervals are about.
    ledger : where the spend is booked before anything is computed.
    insecure_seed : for tests only; the result then says that it is not private.
    """

    def __init__(  # noqa: PLR0913
        self,
        formula: str | None = None,
        *,
        knee: float | None = None,
        outcome: tuple[float, float] | None = None,
        schema: Schema | None = None,
        bounds: Bounds | None = None,
        penalty: float | None = None,
        budget: Budget | None = None,
        plan: Plan | None = None,
        target: str | None = None,
        ledger: Book | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.formula = formula
        self.knee = knee
        self.outcome = outcome
        self.schema = schema
        self.bounds = bounds
        self.penalty = penalty
        self.budget = budget
        self.plan = plan
        self.target = target
        self.ledger = ledger
        self.insecure_seed = insecure_seed

    def _loss(self, n: int, dim: int, scale: Scale) -> Loss:  # noqa: ARG002
        return Huber(scale.half / 5 if self.knee is None else self.knee).rescaled(1 / scale.half)


class QuantileRegression(LinearRegressor):
    """Private quantile regression with a smoothed check loss; confidence intervals in ``result_``.

    The parameters are those of `HuberRegression`, without ``knee``, and

    quantile : which one, strictly between 0 and 1; .5 is the median.
    bandwidth : scale of the logistic smoothing, in units of the outcome.  By default ((d + log n)/n)^(2/5) times half
        the outcome's range, and at least a fortieth of the range (He, Pan, Tan and Zhou, 2023, with public facts only).
        The target is the quantile of the outcome plus logistic noise of this scale: a smaller bandwidth is closer to
        the plain quantile, and needs a larger penalty or budget.
    """

    def __init__(  # noqa: PLR0913
        self,
        formula: str | None = None,
        *,
        quantile: float = 0.5,
        bandwidth: float | None = None,
        outcome: tuple[float, float] | None = None,
        schema: Schema | None = None,
        bounds: Bounds | None = None,
        penalty: float | None = None,
        budget: Budget | None = None,
        plan: Plan | None = None,
        target: str | None = None,
        ledger: Book | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.formula = formula
        self.quantile = quantile
        self.bandwidth = bandwidth
        self.outcome = outcome
        self.schema = schema
        self.bounds = bounds
        self.penalty = penalty
        self.budget = budget
        self.plan = plan
        self.target = target
        self.ledger = ledger
        self.insecure_seed = insecure_seed

    def _loss(self, n: int, dim: int, scale: Scale) -> Loss:
        usual = scale.half * max(0.05, ((dim + np.log(n)) / n) ** 0.4)
        bandwidth = float(usual) if self.bandwidth is None else self.bandwidth
        return SmoothedQuantile(self.quantile, bandwidth).rescaled(1 / scale.half)
