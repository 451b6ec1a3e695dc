"""What the classifiers and the regressors share: parameters, reading, fitting, the linear
prediction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from dpinfer.errors import InputError
from dpinfer.fit.choose import LeastSquares, Options, choose
from dpinfer.fit.penalised_plan import Plan
from dpinfer.fit.recipe import Recipe, Subject, entry, fit
from dpinfer.fit.stepped_plan import GeometryPlan, LinearPlan
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Loss
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.entries import Book, Entry
from dpinfer.result.question import Question
from dpinfer.rows.encoded import Encoding, Raw, in_memory
from dpinfer.rows.source import Pending
from dpinfer.schema.columns import Level, Number
from dpinfer.schema.design import Design, Scale
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import Response
from dpinfer.schema.unit import AVERAGE, ROW, Unit, rows_of
from dpinfer.tables import memory as tables
from dpinfer.tables import reading
from dpinfer.tables.cells import identities, numbers

Bounds = tuple[npt.ArrayLike, npt.ArrayLike]


@dataclass(eq=False, repr=False, kw_only=True)
class LinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model with intervals in ``result_``.  A subclass names its loss and reads its
    outcome.

    The fields are the parameters in the sense of scikit-learn, and nothing else is set when a model
    is made.
    """

    formula: str | None = field(default=None, kw_only=False)
    schema: Schema | None = None
    bounds: Bounds | None = None
    yes_no: Sequence[str | int] | None = None
    penalty: float | None = None
    budget: Budget | None = None
    plan: Plan | GeometryPlan | LinearPlan | None = None
    target: str | None = None
    neighbours: str | None = None
    rows: str | float = AVERAGE
    most_weight: float | None = None
    ledger: Book | None = None
    insecure_seed: int | None = None
    kind: ClassVar[str]

    def _loss(self, n: int, design: Design) -> Loss | LeastSquares:
        """The loss, for an outcome scaled to [-1, 1] where it is numeric."""
        raise NotImplementedError

    def _declare(self, response: Response | None) -> Scale:
        """Take what is public about the outcome from the parameters or, with a formula, from its
        left side.
        """
        raise NotImplementedError

    def _explained(self) -> tuple[Sequence[Level], tuple[float, float] | None]:
        """With arrays, the two labels or the range of the outcome."""
        raise NotImplementedError

    def _outcomes(self, y: Any, scale: Scale) -> Array:
        """The outcomes of an array or a list as a source wants them."""
        raise NotImplementedError

    def _keep(self, intercept: float, coef: Array) -> None:
        """Set ``intercept_`` and ``coef_`` in the shapes of scikit-learn."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, units: Any = None, weights: Any = None) -> Self:
        """Fit on arrays or on a table.

        Parameters
        ----------
        X : array of shape (n, d), or a table
            With ``bounds``, numbers; with ``formula`` and ``schema``, a pandas, polars or pyarrow
            table, the path of a file, or a Dask or Spark DataFrame, whose rows stay where they are.
        y : array of shape (n,), optional
            The outcomes, with arrays only.
        units : array of shape (n,), optional
            With arrays: whose row it is, any ids.  Then all rows of one unit are protected
            together.
        weights : array of shape (n,), optional
            With arrays: sampling weights, with ``most_weight`` declared.

        Returns
        -------
        The model itself, with ``result_``, ``coef_``, ``intercept_`` (the ordinary one) and
        ``penalty_``.
        """
        return self.fit_read(*self.read(X, y, units, weights))

    def fit_read(self, design: Design, source: Pending) -> Self:
        """Fit what `read` gave."""
        recipe = self.recipe(design, source.n)
        self.result_ = fit(recipe, source, self._subject(design), self.ledger, self.insecure_seed)
        self.penalty_ = self.result_.model.penalty
        geometry, first = self.result_.geometry, int(design.intercept)
        intercept, slopes = (
            float(self.result_.estimate[:first].sum()),
            self.result_.estimate[first:],
        )
        self._keep(
            intercept if geometry is None else intercept - float(geometry.centre @ slopes),
            slopes.copy(),
        )
        return self

    def read(
        self, X: Any, y: Any = None, units: Any = None, weights: Any = None
    ) -> tuple[Design, Pending]:
        """The public encoding of what `fit` is given, and its records, not yet read from a table."""
        if self.formula is None:
            return self._read_arrays(X, y, units, weights)
        if (
            units is not None
            or weights is not None
            or self.rows != AVERAGE
            or self.most_weight is not None
        ):
            raise InputError(
                "with a formula units and weights are declared in the schema, [unit]: leave them out here"
            )
        return self._read_table(X, y)

    def recipe(self, design: Design, n: int) -> Recipe:
        """What `fit` does with ``n`` records of a design, from public facts alone."""
        loss = self._loss(max(n, 1), design)
        return choose(
            design,
            Options(loss, self.budget, self.plan, self.target, self.penalty, self.neighbours),
        )

    def entry(self, n: int) -> Entry:
        """What a fit would book: ``ledger.preview(model.entry(n))``.

        Parameters
        ----------
        n : int
            The number of records or, where the schema has a [unit] column, of units.

        Returns
        -------
        Entry
            The releases with their costs, from formula and schema alone.
        """
        if self.formula is None:
            raise InputError(
                "the cost is told beforehand for a formula and a schema: with arrays, call fit(X, y)"
            )
        response, terms = parse(self.formula, self.schema)
        assert self.schema is not None
        design = Design.of_formula(response, terms, self.kind, self.schema.whom)
        return entry(self.recipe(design, n), n, self._subject(design))

    def _subject(self, design: Design) -> Subject:
        """What the ledger and the result are told about the fit."""
        if self.formula is None:
            named = zip(
                design.names[1:], design.low[1:].tolist(), design.high[1:].tolist(), strict=True
            )
            question = Question.of_arrays([Number(*facts) for facts in named], *self._explained())
            return Subject(design.unit.name, question=question)
        assert self.schema is not None
        purpose = f"{type(self).__name__}: {' '.join(self.formula.split())}"
        question = Question.of_formula(self.formula, *parse(self.formula, self.schema))
        return Subject(design.unit.name, purpose, self.schema.digest(), question)

    def _linear(self, X: Any) -> Array:
        """Intercept plus coefficients times columns, in original units."""
        check_is_fitted(self)
        if self.formula is None:
            values = self._array(X, reset=False)
        else:
            values = tables.read_terms(tables.open_table(X, self.terms_.columns), self.terms_)
            if not np.isfinite(values).all():
                raise InputError(
                    "some rows cannot be encoded by the schema: drop them before predicting"
                )
        return np.asarray(values @ np.ravel(self.coef_) + self.intercept_)

    def _read_arrays(self, X: Any, y: Any, units: Any, weights: Any) -> tuple[Design, Pending]:
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if self.bounds is None:
            raise InputError(
                "declare public bounds=(low, high) of the columns; taking them from the data is not private"
            )
        scale = self._declare(None)
        values = self._array(X, reset=True)
        names = getattr(self, "feature_names_in_", [f"x{j + 1}" for j in range(values.shape[1])])
        design = Design.of_bounds(self.bounds, tuple(names), scale, self._yes_no(tuple(names)))
        labels, n = self._outcomes(y, scale), len(values)
        if labels.shape != (n,):
            raise InputError("y must have one label a row of X, in one dimension")
        unit = self._unit(units is not None, weights is not None)
        raw = Raw(
            values,
            labels,
            None if units is None else identities("units", units, n),
            None if weights is None else self._weights(weights, n),
        )
        design = replace(design, unit=unit) if unit.columns else design
        number = n if raw.ids is None else int(raw.ids.max(initial=-1)) + 1
        return design, Pending(number, lambda: in_memory(raw, Encoding(design, self.kind)))

    def _yes_no(self, names: tuple[str, ...]) -> list[str]:
        """The names of the columns that are declared to hold 0 and 1 alone."""
        found = []
        for one in () if self.yes_no is None else self.yes_no:
            if isinstance(one, str) and one in names:
                found.append(one)
            elif isinstance(one, Integral) and not isinstance(one, bool) and 0 <= one < len(names):
                found.append(names[int(one)])
            else:
                raise InputError(
                    f"yes_no= takes names or places of columns, from 0 to {len(names) - 1}, not {one!r}"
                )
        return found

    def _unit(self, ids: bool, weighted: bool) -> Unit:
        """What arrays of ids and weights declare."""
        if weighted and self.most_weight is None:
            raise InputError(
                "declare most_weight=, a public bound of the weights of a unit; their maximum is not private"
            )
        if not weighted and self.most_weight is not None:
            raise InputError("most_weight= is for weights: give fit the weights=, or leave it out")
        if self.rows != AVERAGE and (weighted or not ids):
            raise InputError(
                "rows= is for units= without weights=, as with weights a row counts by its weight: leave it out"
            )
        return Unit(
            name="one unit" if ids else ROW.name,
            column="units" if ids else "",
            rows=rows_of(self.rows),
            weights="weights" if weighted else "",
            most_weight=1.0 if self.most_weight is None else self.most_weight,
        )

    @staticmethod
    def _weights(weights: Any, n: int) -> Array:
        found = vector(numbers("weights", weights, "give sampling weights as numbers", depth=1))
        if found.shape != (n,):
            raise InputError("weights must have one number a row, in one dimension")
        return np.asarray(found)

    def _read_table(self, X: Any, y: Any) -> tuple[Design, Pending]:
        if y is not None:
            raise InputError("with a formula the outcome is a column of the table: call fit(table)")
        assert self.formula is not None
        response, self.terms_ = parse(self.formula, self.schema)
        assert self.schema is not None
        unit, counted = self.schema.whom, not self._number_is_private
        design, source = reading.read(X, response, self.terms_, self.kind, unit, counted=counted)
        self._declare(response)
        self.n_features_in_ = len(self.terms_)
        return design, source

    def _array(self, X: Any, *, reset: bool) -> Array:
        """X as floats.  scikit-learn sees their shape and the names of columns only: its messages
        quote rows.
        """
        if hasattr(X, "toarray"):
            validate_data(self, X, reset=reset)  # sparse: refused by its type
        remedy = "encode it as numbers, or use a schema and a formula (Complex data not supported)"
        values = numbers("X", X, remedy)
        if values.ndim != 2:
            raise InputError(
                f"X must be a 2D array, not {values.ndim}D. Reshape your data to (records, columns)"
            )
        validate_data(
            self, X if hasattr(X, "columns") else values, reset=reset, skip_check_array=True
        )
        private = (
            self._number_is_private and reset
        )  # scikit-learn's check would tell whether there is a record
        least = 0 if private else 1
        check_array(
            values[:1],
            ensure_all_finite=False,
            estimator=self,
            input_name="X",
            ensure_min_samples=least,
        )
        if not reset and not np.isfinite(values).all():
            raise InputError(
                "X holds a NaN, an infinity or what is no number: drop such rows before predicting"
            )
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self._private and self.insecure_seed is None
        return tags

    @property
    def _number_is_private(self) -> bool:
        """Whether not even the number of records or units may be told."""
        asked = (self.neighbours, getattr(self.plan, "neighbours", None))
        return any(code in (Neighbours.ADD_REMOVE, Neighbours.ADD_REMOVE_UNIT) for code in asked)

    @property
    def _private(self) -> bool:
        return not isinstance(self.budget, NoPrivacy)


def vector(y: Any) -> npt.NDArray[Any]:
    """y, read already, with one dimension; a column gets scikit-learn's warning."""
    values = np.asarray(y)
    if values.ndim != 1 and not (values.ndim == 2 and values.shape[1] == 1):
        raise InputError(f"y must have one dimension, not {values.ndim}")
    return np.asarray(column_or_1d(values, warn=True))
