"""What the classifiers and the regressors share: reading, fitting, the linear prediction."""

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from dpinfer.data import records
from dpinfer.data import table as tables
from dpinfer.data.design import INTERCEPT, Design
from dpinfer.data.formula import parse
from dpinfer.data.schema import Outcome, Schema
from dpinfer.data.source import Rows, Scale
from dpinfer.data.values import numbers
from dpinfer.errors import InputError
from dpinfer.fit.geometry.box import Box
from dpinfer.fit.geometry.plan import GeometryPlan
from dpinfer.fit.geometry.run import fit_geometry, geometry_booking
from dpinfer.fit.plan import Plan, default_penalty
from dpinfer.fit.run import Setting, booking, choose_plan, fit
from dpinfer.fit.target import check_target
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Loss
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.ledger import Book, Entry

Bounds = tuple[npt.ArrayLike, npt.ArrayLike]


class LinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model with intervals in ``result_``.  A subclass names its loss and reads its outcome."""

    formula: str | None
    schema: Schema | None
    bounds: Bounds | None
    penalty: float | None
    budget: Budget | None
    plan: Plan | GeometryPlan | None
    target: str | None
    ledger: Book | None
    insecure_seed: int | None
    kind: ClassVar[str]

    def _loss(self, n: int, dim: int, scale: Scale) -> Loss:
        """The loss, for an outcome scaled to [-1, 1] where it is numeric."""
        raise NotImplementedError

    def _declare(self, outcome: Outcome | None) -> Scale:
        """Take what is public about the outcome from the parameters or, with a formula, from its column."""
        raise NotImplementedError

    def _outcomes(self, y: Any, scale: Scale) -> Array:
        """The outcomes of an array or a list as a source wants them."""
        raise NotImplementedError

    def _keep(self, intercept: float, coef: Array) -> None:
        """Set ``intercept_`` and ``coef_`` in the shapes of scikit-learn."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on arrays (X, y) with ``bounds``, or on one table with ``formula`` and ``schema``."""
        design, source, scale = self._read(X, y) if self.formula is None else self._read_table(X, y)
        geometry = self._geometry(design)
        if geometry is not None:
            return self._in_geometry(source, Box.of(design, **self._facts()), geometry)
        setting = self._setting(design, scale, source.n)
        self.result_ = fit(source, setting, self.ledger, self.insecure_seed)
        at = design.names.count(INTERCEPT)
        self._keep(float(self.result_.estimate[:at].sum()), self.result_.estimate[at:].copy())
        self.penalty_ = setting.penalty
        return self

    def entry(self, n: int) -> Entry:
        """What a fit of ``n`` records would book, from formula and schema alone: ``ledger.preview(model.entry(n))``."""
        if self.formula is None:
            raise InputError("the cost is told beforehand for a formula and a schema: with arrays, call fit(X, y)")
        if n < 1:
            raise InputError("a fit needs at least one record")
        outcome, terms = parse(self.formula, self.schema)
        design, scale = records.layout(outcome, terms, self.kind)
        geometry = self._geometry(design)
        if geometry is not None:
            return geometry_booking(Box.of(design, **self._facts()), geometry)
        return booking(self._setting(design, scale, n), n)[1]

    def _geometry(self, design: Design) -> GeometryPlan | None:  # noqa: ARG002
        """The plan of a fit in a private geometry, where the estimator has one."""
        if isinstance(self.plan, GeometryPlan) or self.target in ("weighted", "unweighted"):
            raise InputError(
                "a private geometry is for logistic regression only: use budget= or a Plan as plan=, and "
                "target='penalised' or 'unpenalised'"
            )
        return None

    def _in_geometry(self, source: Rows, box: Box, plan: GeometryPlan) -> Self:
        """The weighted and unweighted targets; ``intercept_`` is the ordinary one, not that at the released centre."""
        self.result_ = fit_geometry(source, box, plan, self.ledger, self.insecure_seed)
        geometry, slopes = self.result_.geometry, self.result_.estimate[1:]
        assert geometry is not None
        self._keep(float(self.result_.estimate[0] - geometry.centre @ slopes), slopes.copy())
        self.penalty_ = 0.0
        return self

    def _setting(self, design: Design, scale: Scale, n: int) -> Setting:
        """All that is public about a fit with a penalty."""
        dim, target = len(design.names), check_target("penalised" if self.target is None else self.target)
        plan, loss = choose_plan(self.budget, self.plan), self._loss(n, dim, scale)
        penalty = default_penalty(plan, loss, n, dim, target) if self.penalty is None else self.penalty
        facts = self._facts()
        return Setting(loss, penalty, plan, design.names, design.back(), target=target, outcome=scale, **facts)

    def _facts(self) -> dict[str, str]:
        """What the ledger is told about the fit."""
        if self.formula is None:
            return {}
        assert self.schema is not None
        purpose = f"{type(self).__name__}: {' '.join(self.formula.split())}"
        return {"unit": self.schema.unit, "schema": self.schema.digest(), "purpose": purpose}

    def _linear(self, X: Any) -> Array:
        """Intercept plus coefficients times columns, in original units."""
        check_is_fitted(self)
        if self.formula is None:
            values = self._array(X, reset=False)
        else:
            values = tables.read_terms(tables.open_table(X, self.terms_.columns), self.terms_)
            if not np.isfinite(values).all():
                raise InputError("some rows cannot be encoded by the schema: drop them before predicting")
        return np.asarray(values @ np.ravel(self.coef_) + self.intercept_)

    def _read(self, X: Any, y: Any) -> tuple[Design, Rows, Scale]:
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if self.bounds is None:
            raise InputError(
                "declare public bounds=(low, high) of the columns; taking them from the data is not private"
            )
        scale = self._declare(None)
        values = self._array(X, reset=True)
        names = getattr(self, "feature_names_in_", [f"x{j + 1}" for j in range(values.shape[1])])
        design = Design.of_bounds(self.bounds, tuple(names))
        return design, Rows.of(design.rows(values), self._outcomes(y, scale), self.kind), scale

    def _read_table(self, X: Any, y: Any) -> tuple[Design, Rows, Scale]:
        if y is not None:
            raise InputError("with a formula the outcome is a column of the table: call fit(table)")
        assert self.formula is not None
        outcome, self.terms_ = parse(self.formula, self.schema)
        design, source, scale = records.read(X, outcome, self.terms_, self.kind)
        self._declare(outcome)
        self.n_features_in_ = len(self.terms_)
        return design, source, scale

    def _array(self, X: Any, *, reset: bool) -> Array:
        """X as floats.  scikit-learn sees their shape and the names of columns only: its messages quote rows."""
        if hasattr(X, "toarray"):
            validate_data(self, X, reset=reset)  # sparse: refused by its type
        remedy = "encode it as numbers, or use a schema and a formula (Complex data not supported)"
        values = numbers("X", X, remedy)
        if values.ndim != 2:
            raise InputError(f"X must be a 2D array, not {values.ndim}D. Reshape your data to (records, columns)")
        validate_data(self, X if hasattr(X, "columns") else values, reset=reset, skip_check_array=True)
        check_array(values[:1], ensure_all_finite=False, estimator=self, input_name="X")  # at least one, and a column
        if not reset and not np.isfinite(values).all():
            raise InputError("X holds a NaN, an infinity or what is no number: drop such rows before predicting")
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self._private and self.insecure_seed is None
        return tags

    @property
    def _private(self) -> bool:
        return not isinstance(self.budget, NoPrivacy)


def vector(y: Any) -> npt.NDArray[Any]:
    """y, read already, with one dimension; a column gets scikit-learn's warning."""
    values = np.asarray(y)
    if values.ndim != 1 and not (values.ndim == 2 and values.shape[1] == 1):
        raise InputError(f"y must have one dimension, not shape {values.shape}")
    return np.asarray(column_or_1d(values, warn=True))
