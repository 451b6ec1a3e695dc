"""The models: logistic, support vector, least-squares, Poisson, robust and quantile regression.

`LinearModel` has what they share: parameters, reading, fitting, the linear prediction.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from dpinfer.adjacency import Adjacency
from dpinfer.errors import InputError, one_of_two
from dpinfer.fit.choose import choose
from dpinfer.fit.hazard import HazardPlan, SurvivalTimes
from dpinfer.fit.linear import LeastSquares, LinearPlan
from dpinfer.fit.logistic import GeometryPlan
from dpinfer.fit.penalised_plan import Plan
from dpinfer.fit.poisson import Counts, PoissonPlan
from dpinfer.fit.recipe import NoLoss, Options, Recipe, Subject, entry, fit
from dpinfer.mechanisms.losses import Huber, HuberHinge, Logistic, Loss, SmoothedQuantile
from dpinfer.numerics.arrays import Array
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.entries import Book, Entry
from dpinfer.result.absent import no_attribute
from dpinfer.result.question import Question
from dpinfer.result.result import FitResult
from dpinfer.rows.encoded import Encoding, Raw, in_memory
from dpinfer.rows.source import Pending
from dpinfer.schema.columns import Level, Number, tidied
from dpinfer.schema.design import COUNT, HAZARD, UNSCALED, CountScale, Design, OutcomeScale
from dpinfer.schema.expressions import quoted
from dpinfer.schema.follow_up import FollowUp
from dpinfer.schema.formula import names_of, parse, split_effects
from dpinfer.schema.guesses import Shares
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import Response
from dpinfer.schema.unit import EVERY, ROW, Unit, counts_every_row
from dpinfer.tables.cells import numbers
from dpinfer.tables.ids import identities
from dpinfer.tables.levels import level_codes
from dpinfer.tables.memory import read_terms
from dpinfer.tables.table import read, table_of

Bounds = tuple[npt.ArrayLike, npt.ArrayLike]

PERSON = "person"
"""The effects that a linear regression may have: an intercept of every person."""

_OF_RESULTS = frozenset(
    name
    for name in {*dir(FitResult), *(field.name for field in fields(FitResult))}
    if not name.startswith("_")
)
"""Public names of a result, which a fitted model has, too."""


@dataclass(eq=False, repr=False, kw_only=True)
class LinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model with intervals in ``result_``.  A subclass names its loss and reads its
    outcome.

    The fields are the parameters in the sense of scikit-learn, and nothing else is set when a model
    is made.
    """

    formula: str | None = field(default=None, kw_only=False)
    schema: Schema | str | os.PathLike[str] | None = None
    bounds: Bounds | None = None
    yes_no: Sequence[str | int] | None = None
    penalty: float | None = None
    budget: Budget | None = None
    plan: Plan | GeometryPlan | LinearPlan | PoissonPlan | HazardPlan | None = None
    target: str | None = None
    adjacency: str | None = None
    neighbours: str | None = None
    rows: str | None = None
    max_weight: float | None = None
    most_weight: float | None = None
    ledger: Book | None = None
    insecure_seed: int | None = None
    kind: ClassVar[str]

    def _loss(self, n: int, design: Design) -> Loss | NoLoss:
        """Return the loss, for an outcome scaled to [-1, 1] where it is numeric."""
        raise NotImplementedError

    def _declare(self, response: Response | None) -> OutcomeScale:
        """Take what is public about the outcome from the parameters or, with a formula, from its
        left side.
        """
        raise NotImplementedError

    def _explained(self) -> tuple[Sequence[Level], tuple[float, float] | None]:
        """Return, with arrays, the two labels or the range of the outcome."""
        raise NotImplementedError

    def _outcomes(self, y: Any, scale: OutcomeScale) -> Array:
        """Return the outcomes of an array or a list as a source wants them."""
        raise NotImplementedError

    def _keep(self, intercept: float, coef: Array) -> None:
        """Set ``intercept_`` and ``coef_`` in the shapes of scikit-learn."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, units: Any = None, weights: Any = None) -> Self:
        """Fit the model to a table, or to arrays.

        Parameters
        ----------
        X : array of shape (n, d), or a table
            With ``bounds``, numbers; with ``formula`` and ``schema``, a pandas, polars or pyarrow
            table, the path of a file, or a Dask or Spark DataFrame, whose rows stay where they are.
        y : array of shape (n,), optional
            The outcomes, with arrays only.
        units : array of shape (n,), optional
            With arrays: whose row it is, any ids; all rows of one unit are then protected together.
            By default each row is a unit of its own.
        weights : array of shape (n,), optional
            With arrays: sampling weights, with ``max_weight`` declared.  By default all weights
            are 1.

        Returns
        -------
        self
            The model, with ``result_``, ``coef_``, ``intercept_`` (where every column is 0) and
            ``penalty_``.  What the result has, the model has too: ``summary()``, ``params``,
            ``pvalues``, ``conf_int()``, ``to_frame()`` and the rest; ``predict`` is the model's own.

        Raises
        ------
        InputError, BudgetError
            If a name, a bound, an option or a share is wrong; nothing was booked then.
        LedgerError
            If the ledger refuses the cost; nothing was computed then.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> model = model.fit(data.table)  # the noise is off, for examples only
        >>> print(f"{model.intercept_:.2f} {model.coef_[0]:.2f}")
        2.61 2.01
        """
        return self._fit_warned(*self.read(X, y, units, weights))

    def __getattr__(self, name: str) -> Any:
        """Return what the result has under this name: ``model.summary()`` is that of ``result_``."""
        if name.startswith("_") or name.endswith("_"):  # names of Python, and of scikit-learn
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        if name not in _OF_RESULTS:
            raise no_attribute(self, name)
        if "result_" not in vars(self):
            raise NotFittedError(
                f"{name} belongs to the result of a fit: call fit first, which spends the budget"
            )
        return getattr(self.result_, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(_OF_RESULTS if "result_" in vars(self) else ())})

    @property
    def asked_formula(self) -> str | None:
        """Return the formula, with what the other parameters add to it."""
        return self.formula

    def _fit_warned(self, design: Design, source: Pending) -> Self:
        """Fit what `read` gave; a `LowBudgetWarning` comes before anything is booked."""
        return self.fit_read(design, source, self.low_budget(design, source.n))

    def fit_read(self, design: Design, source: Pending, low_budget: str = "") -> Self:
        """Fit what `read` gave; ``low_budget`` is what the user is warned of first."""
        recipe = self.recipe(design, source.n)
        schema = None if self.formula is None else self.schema_
        subject = replace(self._subject(design, schema), low_budget=low_budget)
        self.result_ = fit(recipe, source, subject, self.ledger, self.insecure_seed)
        self.penalty_ = self.result_.model.penalty
        estimate = self.result_.estimate
        first = int(design.intercept)
        intercept = float(estimate[:first].sum())
        slopes = estimate[first:].copy()
        if self.result_.geometry is not None:  # there the intercept is at the centre
            intercept -= float(self.result_.geometry.centre @ slopes)
        self._keep(intercept, slopes)
        return self

    def read(
        self,
        X: Any,
        y: Any = None,
        units: Any = None,
        weights: Any = None,
        exposure: Any = None,
        *,
        number: int | None = None,
    ) -> tuple[Design, Pending]:
        """Return the public encoding of what `fit` is given, and its records, not yet read from a table.

        ``number`` is that of the records or units of a table, where somebody has counted them before:
        nothing of the table is read then but its names and types.
        """
        if self.formula is None:
            return self._read_arrays(X, y, units, weights, exposure)
        declared = self.rows is not None or self._max_weight is not None
        if declared or units is not None or weights is not None:
            raise InputError(
                'with a formula ids, rows and weights are declared in the schema, such as rows = "average" under '
                "[unit]: leave units=, rows=, weights= and max_weight= out here"
            )
        if exposure is not None:
            raise InputError(
                "with a formula the exposure is a column of the table: give its name to the model, exposure='years'"
            )
        return self._read_table(X, y, number)

    def recipe(self, design: Design, n: int) -> Recipe:
        """What `fit` does with ``n`` records of a design, from public facts alone."""
        options = Options(
            loss=self._loss(max(n, 1), design),
            budget=self.budget,
            plan=self.plan,
            target=self.target,
            penalty=self.penalty,
            neighbours=self._adjacency,
            far_values=getattr(self, "far_values", None),
        )
        return choose(design, options, n)

    def futility(self, design: Design, n: int) -> str:
        """Return why hardly a coefficient can be reported, whatever the records hold; mostly nothing.

        The share of an outcome's second level is what the schema says is typical, if it does.
        """
        share = None
        if self.formula is not None:
            schema = self.schema_
            response, _ = parse(self.asked_formula or "", schema)
            law = schema.typical.get(response.name) if response.levels else None
            share = law.of[1] if isinstance(law, Shares) else None
        return self.recipe(design, n).futility(n, share)

    def low_budget(self, design: Design, n: int) -> str:
        """Return why hardly a coefficient is expected to be reported, from public facts alone; mostly
        nothing.

        `futility` is a reason.  Where the schema says what is typical of every column, so is a forecast
        in which fewer than one coefficient in ten is reported.
        """
        futility = self.futility(design, n)
        recipe = self.recipe(design, n)
        certain = futility or isinstance(recipe.budget, NoPrivacy) or not recipe.neighbours.counted
        if certain or self.formula is None:
            return futility
        from dpinfer.simulate.forecast import low_budget  # noqa: PLC0415  (heavy, and seldom needed)

        return low_budget(self, n)

    def entry(self, n: int) -> Entry:
        """Return what a fit would book in a ledger, from the formula and the schema alone.

        Parameters
        ----------
        n : int
            The number of records or, where the schema has a [unit] column, of units.

        Returns
        -------
        Entry
            The releases with their costs, for ``ledger.preview``.

        Raises
        ------
        InputError
            If the model has no formula: with arrays the columns are known only in ``fit``.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.1))
        >>> print(f"{model.entry(20_190).cost.rho:.2f}")
        0.10
        """
        if self.formula is None:
            raise InputError(
                "the cost is told beforehand for a formula and a schema: with arrays, call fit(X, y)"
            )
        schema = Schema.of(self.schema)
        assert self.asked_formula is not None
        response, terms = parse(self.asked_formula, schema)
        design = Design.of_formula(response, terms, self.kind, schema.unit)
        return entry(self.recipe(design, n), n, self._subject(design, schema))

    def _subject(self, design: Design, schema: Schema | None) -> Subject:
        """Return the public facts about the fit for the ledger and the result."""
        if self.formula is None:
            bounds = zip(design.low[1:].tolist(), design.high[1:].tolist(), strict=True)
            columns = [
                Number(name, low, high)
                for name, (low, high) in zip(design.names[1:], bounds, strict=True)
            ]
            question = Question.of_arrays(columns, *self._explained())
            return Subject(design.unit.name, question=question)
        assert schema is not None
        formula = self.asked_formula
        assert formula is not None
        purpose = f"{type(self).__name__}: {' '.join(formula.split())}"
        derived = schema.derived_from(names_of(formula))
        question = Question.of_formula(formula, *parse(formula, schema), derived)
        return Subject(design.unit.name, purpose, schema.digest(), question)

    def _linear(self, X: Any) -> Array:
        """Return intercept plus coefficients times columns, in original units."""
        check_is_fitted(self)
        if self.result_.model.effects:
            raise InputError(
                "a model with effects of persons predicts no outcome, as no person's effect is estimated: ask for a "
                "difference of two rows as a contrast of coefficients"
            )
        if self.formula is None:
            values = self._array(X, reset=False)
        else:
            terms = replace(self.terms_, offset=None)
            values = read_terms(table_of(X).opened(terms.columns), terms)
            if not np.isfinite(values).all():
                raise InputError(
                    "some rows cannot be encoded by the schema: drop them before predicting"
                )
        if self.result_.geometry is not None:  # numbers are winsorised as in the fit
            values = self.result_.geometry.inside(values)
        return np.asarray(values @ np.ravel(self.coef_) + self.intercept_)

    def _read_arrays(
        self, X: Any, y: Any, units: Any, weights: Any, exposure: Any
    ) -> tuple[Design, Pending]:
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
        n = len(values)
        offset = self._offset(exposure, n)
        design = Design.of_bounds(
            self.bounds,
            tuple(names),
            scale,
            self._yes_no(tuple(names)),
            None if offset is None else offset[0],
        )
        labels = self._outcomes(y, scale)
        if labels.shape != (n,):
            raise InputError("y must have one label a row of X, in one dimension")
        unit = self._unit(units is not None, weights is not None)
        if unit.columns:
            design = replace(design, unit=unit)
        if not (self.number_is_private or unit.many):
            design = design.for_records(n)
        ids = None if units is None else identities("units", units, n)
        counts = None if weights is None else self._weights(weights, n)
        raw = Raw(values, labels, ids, counts, None if offset is None else offset[1])
        number = n if raw.ids is None else int(raw.ids.max(initial=-1)) + 1
        return design, Pending(number, lambda: in_memory(raw, Encoding(design, self.kind)))

    def _offset(self, given: Any, n: int) -> tuple[float, Array] | None:  # noqa: ARG002
        """Return the offset of arrays after its public bound; only counts have one."""
        return None

    def _yes_no(self, names: tuple[str, ...]) -> list[str]:
        """Return the names of the columns that are declared to hold 0 and 1 alone."""
        if self.yes_no is None:
            return []
        columns = []
        for column in self.yes_no:
            place = isinstance(column, Integral) and not isinstance(column, bool)
            if isinstance(column, str) and column in names:
                columns.append(column)
            elif place and 0 <= int(column) < len(names):
                columns.append(names[int(column)])
            else:
                raise InputError(
                    f"yes_no= takes names or places of columns, from 0 to {len(names) - 1}, not {column!r}"
                )
        return columns

    def _unit(self, ids: bool, weighted: bool) -> Unit:
        """Return the unit that arrays of ids and weights declare."""
        if weighted and self._max_weight is None:
            raise InputError(
                "declare max_weight=, a public bound of the weights of a unit; their maximum is not private"
            )
        if not weighted and self._max_weight is not None:
            raise InputError("max_weight= is for weights: give fit the weights=, or leave it out")
        every = counts_every_row(self.rows)
        if self.rows is not None and (weighted or not ids):
            raise InputError(
                "rows= is for units= without weights=, as with weights a row counts by its weight: leave it out"
            )
        return Unit(
            name="one unit" if ids else ROW.name,
            column="units" if ids else "",
            weights="weights" if weighted else "",
            max_weight=1.0 if self._max_weight is None else self._max_weight,
            rows=EVERY if every and ids and not weighted else 1.0,
        )

    @staticmethod
    def _weights(weights: Any, n: int) -> Array:
        values = vector(numbers("weights", weights, "give sampling weights as numbers", depth=1))
        if values.shape != (n,):
            raise InputError("weights must have one number a row, in one dimension")
        return np.asarray(values)

    def _read_table(self, X: Any, y: Any, number: int | None) -> tuple[Design, Pending]:
        if y is not None:
            raise InputError("with a formula the outcome is a column of the table: call fit(table)")
        formula = self.asked_formula
        assert formula is not None
        self.schema_ = Schema.of(self.schema)  # read once: the file may change during a fit
        response, self.terms_ = parse(formula, self.schema_)
        unit = self.schema_.unit
        counted = not self.number_is_private
        design, source = read(
            X, response, self.terms_, self.kind, unit, counted=counted, number=number
        )
        self._declare(response)
        self.n_features_in_ = len(self.terms_)
        return design, source

    def _array(self, X: Any, *, reset: bool) -> Array:
        """Return X as floats.  scikit-learn sees their shape and the names of columns only: its
        messages quote rows.
        """
        if hasattr(X, "toarray"):
            validate_data(self, X, reset=reset)  # sparse: refused by its type
        remedy = "encode it as numbers, or use a schema and a formula (Complex data not supported)"
        values = numbers("X", X, remedy)
        if values.ndim != 2:
            raise InputError(
                f"X must be a 2D array, not {values.ndim}D. Reshape your data to (records, columns)"
            )
        named = X if hasattr(X, "columns") else values
        validate_data(self, named, reset=reset, skip_check_array=True)
        # where the number is private, scikit-learn's check would tell whether there is a record
        private = self.number_is_private and reset
        check_array(
            values[:1],
            ensure_all_finite=False,
            estimator=self,
            input_name="X",
            ensure_min_samples=0 if private else 1,
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
    def number_is_private(self) -> bool:
        """Whether even the number of records or units is private."""
        asked = (self._adjacency, getattr(self.plan, "neighbours", None))
        return any(code in (Adjacency.ADD_REMOVE, Adjacency.ADD_REMOVE_UNIT) for code in asked)

    @property
    def _adjacency(self) -> str | None:
        return one_of_two("adjacency=", self.adjacency, "neighbours=", self.neighbours)

    @property
    def _max_weight(self) -> float | None:
        return one_of_two("max_weight=", self.max_weight, "most_weight=", self.most_weight)

    @property
    def _private(self) -> bool:
        return not isinstance(self.budget, NoPrivacy)


def vector(y: Any) -> npt.NDArray[Any]:
    """Return y, read already, with one dimension; a column gets scikit-learn's warning."""
    values = np.asarray(y)
    if values.ndim != 1 and not (values.ndim == 2 and values.shape[1] == 1):
        raise InputError(f"y must have one dimension, not {values.ndim}")
    return np.asarray(column_or_1d(values, warn=True))


@dataclass(eq=False, repr=False, kw_only=True)
class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """Base class of the two classifiers.

    Guarantee [classes_are_declared]: ``classes_`` comes from ``classes`` or the schema, never from
    y.
    """

    classes: tuple[Level, Level] = (0, 1)
    kind = "margin"

    def decision_function(self, X: Any) -> Array:
        """Return the linear predictor of each row; where it is positive, ``classes_[1]`` is predicted.

        Parameters
        ----------
        X : array of shape (n, d), or a table
            Rows in original units, as for ``fit``.

        Returns
        -------
        array of shape (n,)
            Intercept plus coefficients times columns.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearSVC("visit ~ lncoins", schema=data.schema, budget=dp.NoPrivacy())
        >>> model = model.fit(data.table)  # the noise is off, for examples only
        >>> print([f"{score:.2f}" for score in model.decision_function(data.table[:2])])
        ['0.80', '0.80']
        """
        return self._linear(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more likely class of each row.

        Parameters
        ----------
        X : array of shape (n, d), or a table
            Rows in original units, as for ``fit``.

        Returns
        -------
        array of shape (n,)
            One of the two ``classes_`` per row.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LogisticRegression("visit ~ lncoins", schema=data.schema, budget=dp.NoPrivacy())
        >>> model = model.fit(data.table)  # the noise is off, for examples only
        >>> model.predict(data.table[:2]).tolist()
        [True, True]
        """
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _declare(self, response: Response | None) -> OutcomeScale:
        declared = np.asarray(self.classes if response is None else response.levels)
        if declared.shape != (2,) or len(set(tidied(tuple(declared.tolist())))) < 2:
            raise InputError("declare two different classes=(negative, positive)")
        self.classes_ = declared
        return UNSCALED

    def _explained(self) -> tuple[Sequence[Level], None]:
        return self.classes_.tolist(), None

    def _outcomes(self, y: Any, scale: OutcomeScale) -> Array:  # noqa: ARG002
        """Return -1 and +1 for the declared classes, NaN for anything else."""
        codes = vector(level_codes("y", y, self.classes_.tolist()))
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
    """Logistic regression with differential privacy and confidence intervals, in ``result_``.

    Parameters
    ----------
    formula : str, optional
        With a table, ``"outcome ~ a + b"``; every name is a column of the schema.
    schema : Schema or the path of its file, optional
        With a formula, what is public about the columns.
    bounds : pair (low, high), optional
        With arrays, public bounds of the columns: one number for all, or one for each.
    yes_no : sequence of names or positions, optional
        With arrays, the columns that hold 0 and 1 alone.  By default every column is a number,
        which is right for these too, though their intervals are longer then.
    classes : pair of labels
        With arrays, the two labels, by default 0 and 1; the second is the positive one.  They are
        declared, never learned.
    penalty : float, optional
        c in the mean objective, on the bounded rows.  By default chosen from n, d, the loss and the
        budget (`dpinfer.fit.penalised_plan.default_penalty`); printed with the result.
    budget : PureDP, ZCDP, ApproxDP or NoPrivacy, optional
        What the fit may cost; it gets the default plan.
    plan : Plan or GeometryPlan, optional
        Instead of ``budget``: a mechanism and a share for each release.
    target : str, optional
        What the intervals are about: "ordinary" (the ordinary coefficients of all columns of the
        formula: the default for zCDP and (ε, δ) budgets, where neither penalty nor plan is given),
        "penalised" (the default otherwise) or "unpenalised".
    adjacency : "replace" or "add-remove", optional
        What may differ between two data sets: one record replaced, the number of records public
        (the default); or one added or removed, for the target "ordinary".  With ids it is all rows
        of one unit.
    neighbours : optional
        Another name of ``adjacency``.
    rows : {"every", "average"}, optional
        With arrays and ``fit(X, y, units=ids)``: "every" lets every row count once, as in the usual
        regression with cluster-robust standard errors; "average" lets every unit count alike,
        whatever its number of rows.  "every" is the default in least squares, logistic and Poisson
        regression without a penalty; other models have "average" alone.  With a formula the schema
        declares it.
    max_weight : float, optional
        With arrays and ``fit(X, y, weights=w)``: a public bound of the total weight of a unit, or
        of a row without ids.  What lies beyond is trimmed, and the noise grows with it.
    most_weight : optional
        Another name of ``max_weight``.
    far_values : "clip" or "strict", optional
        What becomes of a number with wide bounds, for the target "ordinary".  "clip" (the default) reports
        the coefficient of the number winsorised to a released range, ``clipped_to`` in the table,
        with an interval for the ordinary coefficient.  "strict" does not report it; the coefficient
        of the winsorised number is in ``result_.alternatives()``.
    ledger : Ledger, optional
        Where the cost is booked before anything is computed; by default it is booked nowhere.
    insecure_seed : int, optional
        For tests and examples only: the noise comes from this seed, and the result says that it is
        not private.  By default the noise is secret.

    Notes
    -----
    Without a penalty the estimate is a Newton step from released pilot coefficients: second moments
    of the columns, then sums of bounded scores, of Hessians and of outer products of scores, with
    Gaussian noise.  The covariance is the sandwich of White (1980), for units the cluster-robust
    one of Liang and Zeger (1986), plus that of the noise.  With a penalty the fit is that of Wang,
    Kifer and Lee (2019), Differentially private confidence intervals for empirical risk
    minimization.

    Examples
    --------
    With a table and its schema; the seed is for examples only, as it makes the noise known.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LogisticRegression(
    ...     "visit ~ lncoins + health",
    ...     schema=data.schema,
    ...     budget=dp.ApproxDP(1.0, 1e-6),
    ...     insecure_seed=0,
    ... )
    >>> result = model.fit(data.table).result_
    >>> low, high = result.conf_int()[1]
    >>> print(f"{result.names[1]}: {result.estimate[1]:.2f} ({low:.2f} to {high:.2f})")
    lncoins: -0.09 (-0.11 to -0.07)

    With arrays and public bounds.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, size=(2000, 2))
    >>> y = rng.uniform(size=2000) < 1 / (1 + np.exp(1 - 2 * X[:, 0]))
    >>> model = dp.LogisticRegression(bounds=(0, 1), budget=dp.ZCDP(1.0), insecure_seed=0)
    >>> print(f"{model.fit(X, y).coef_[0, 0]:.1f}")
    1.8
    """

    far_values: str | None = None

    def _loss(self, n: int, design: Design) -> Loss:  # noqa: ARG002
        return Logistic()

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the two classes.

        Parameters
        ----------
        X : array of shape (n, d), or a table
            Rows in original units, as for ``fit``.

        Returns
        -------
        array of shape (n, 2)
            One row per row of ``X``, in the order of ``classes_``.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LogisticRegression("visit ~ lncoins", schema=data.schema, budget=dp.NoPrivacy())
        >>> model = model.fit(data.table)  # the noise is off, for examples only
        >>> print(model.predict_proba(data.table[:2]).round(2))
        [[0.37 0.63]
         [0.37 0.63]]
        """
        score = self.decision_function(X)
        return np.column_stack([expit(-score), expit(score)])


@dataclass(eq=False, repr=False, kw_only=True)
class LinearSVC(LinearClassifier):
    """A linear support vector machine with differential privacy and confidence intervals.

    Parameters
    ----------
    knee : float
        Half the width of the rounded corner of the hinge; 1 by default.
    target : {"penalised", "unpenalised"}, optional
        What the intervals are about: the minimum of the penalised risk (the default), or of the
        risk alone.
    formula, schema, bounds, yes_no, classes, penalty, budget, plan : optional
        As for `LogisticRegression`.
    adjacency, neighbours, rows, max_weight, most_weight, ledger, insecure_seed : optional
        As for `LogisticRegression`.

    Notes
    -----
    The loss is `HuberHinge`; the intervals, in ``result_``, are those of Wang, Kifer and Lee
    (2019).

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearSVC("visit ~ lncoins", schema=data.schema, budget=dp.NoPrivacy())
    >>> print(f"{model.fit(data.table).coef_[0, 0]:.2f}")
    -0.10
    """

    knee: float = 1.0

    def _loss(self, n: int, design: Design) -> Loss:  # noqa: ARG002
        return HuberHinge(self.knee)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Base class of the regressors.

    Guarantee [outcome_range_is_declared]: the scale of the outcome comes from ``outcome`` or the
    schema, never from y; what lies beyond it is clipped.
    """

    outcome: tuple[float, float] | None = None
    kind = "residual"

    def predict(self, X: Any) -> Array:
        """Return the predicted outcome of each row.

        With a transform on the left of the formula the prediction is in its units: for ``log(y) ~
        x`` it is one of log(y).

        Parameters
        ----------
        X : array of shape (n, d), or a table
            Rows in original units, as for ``fit``.

        Returns
        -------
        array of shape (n,)
            Intercept plus coefficients times columns.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> model = model.fit(data.table)  # the noise is off, for examples only
        >>> print([f"{mean:.2f}" for mean in model.predict(data.table[:2])])
        ['2.61', '2.61']
        """
        return self._linear(X)

    def _declare(self, response: Response | None) -> OutcomeScale:
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
        return OutcomeScale.of_range(low, high)

    def _explained(self) -> tuple[Sequence[Level], tuple[float, float] | None]:
        return (), self.outcome

    def _outcomes(self, y: Any, scale: OutcomeScale) -> Array:
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
    """Least squares with differential privacy and confidence intervals, in ``result_``.

    Parameters
    ----------
    formula : str, optional
        With a table, ``"outcome ~ a + b"``; the outcome may be transformed, as in ``"log(1 +
        visits) ~ a + b"``.
    outcome : pair (low, high), optional
        With arrays, the public range of y; values beyond it are clipped.
    target : "ordinary" or "robust", optional
        What the intervals are about: least squares (the default), or a Huber estimand that ignores
        the tails.
    tail : {"balanced", "cautious", "all"}
        How much of the tail of the outcome counts, for target "ordinary".  "balanced" (the default)
        clips where noise and clipping bias balance; "cautious" assumes a longer tail than the
        released one; "all" clips no outcome whose prediction is within the range of the outcome,
        with noise for all of that range: where it is wide, intervals are many times as long.
    plan : LinearPlan, optional
        Instead of ``budget``: a budget with its target, tail, adjacency and the share of each
        release.
    budget : ZCDP, ApproxDP or NoPrivacy, optional
        What the fit may cost.
    effects : "person", optional
        An intercept for every person, the unit of the schema (fixed effects): the coefficients are those of the
        within estimator, every row counting once. With effects of periods too, ``"y ~ x | id + year"`` says it in the
        formula, as in fixest: the column of the ids comes first, and the others are columns with a coefficient
        for each level.
    penalty : None
        There is no penalty; the parameter is that of the other models.
    schema, bounds, yes_no, far_values : optional
        As for `LogisticRegression`.
    adjacency, neighbours, rows, max_weight, most_weight, ledger, insecure_seed : optional
        As for `LogisticRegression`.

    Notes
    -----
    The estimate is a Newton step from released pilot coefficients.  The covariance is the sandwich
    of White (1980), for units the cluster-robust one of Liang and Zeger (1986), plus that of the
    noise. Outcomes far from the prediction are clipped, and intervals are widened by a bound on the
    bias.

    Examples
    --------
    The seed is for examples only: it makes the noise known.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression(
    ...     "log(1 + mdvis) ~ lncoins + physlm",
    ...     schema=data.schema,
    ...     budget=dp.ApproxDP(1.0, 1e-6),
    ...     insecure_seed=0,
    ... )
    >>> result = model.fit(data.table).result_
    >>> low, high = result.conf_int()[1]
    >>> print(f"{result.names[1]}: {result.estimate[1]:.2f} ({low:.2f} to {high:.2f})")
    lncoins: -0.05 (-0.05 to -0.04)
    """

    tail: str = "balanced"
    far_values: str | None = None
    effects: str | None = None

    @property
    def asked_formula(self) -> str | None:
        """Return the formula, with the effects of persons in it."""
        if self.effects is None:
            return self.formula
        if self.effects != PERSON:
            raise InputError(
                f"effects= is {PERSON!r} or left out, not {self.effects!r}; effects of other columns are terms, as in "
                "'y ~ x + C(year)'"
            )
        if self.formula is None:
            raise InputError(
                "effects of persons need a formula and a schema with a [unit]: arrays have none"
            )
        if split_effects(self.formula)[1]:
            return self.formula
        return f"{self.formula} | {quoted(Schema.of(self.schema).unit.column or PERSON)}"

    def _loss(self, n: int, design: Design) -> LeastSquares:  # noqa: ARG002
        return LeastSquares(self.tail)


@dataclass(eq=False, repr=False, kw_only=True)
class PoissonRegression(LinearRegressor):
    """Poisson regression of counts, rates and costs with differential privacy and intervals.

    The model is E[y | x] = exposure · exp(x·θ), with robust standard errors: no Poisson
    distribution is assumed, so that outcomes may be over- or underdispersed, and need not be
    integers.  The intervals are in ``result_``.

    Parameters
    ----------
    formula : str, optional
        With a table, ``"visits ~ age + health"``; an exposure may stand in it, as in ``"claims ~
        age + offset(log(years))"``.
    outcome : pair (0, high), optional
        With arrays, the public range of y; values beyond it are clipped.  It may be generous: a
        bound of a million for counts around 2 makes intervals of slopes hardly longer.  But a few
        records at the bound may be hidden by the noise, and the report says by how much.
    exposure : str or pair (0, high), optional
        With a formula, the column that holds the exposure, whose bounds are those of the schema;
        with arrays, its public range, and ``fit(X, y, exposure=e)``.  It is private like any other
        column, and its bound is never learned from the data.  By default every exposure is 1.
    plan : PoissonPlan, optional
        Instead of ``budget``: a budget with its adjacency and the share of each release.
    budget : ZCDP, ApproxDP or NoPrivacy, optional
        What the fit may cost.
    penalty, target : optional
        There is no penalty, and one target, "ordinary"; the parameters are those of the other models.
    schema, bounds, yes_no, far_values : optional
        As for `LogisticRegression`.
    adjacency, neighbours, rows, max_weight, most_weight, ledger, insecure_seed : optional
        As for `LogisticRegression`.

    Notes
    -----
    The target is the zero of E[x (y - exposure · exp(x·θ))], to which Poisson maximum likelihood is
    consistent whatever the distribution of y (Gourieroux, Monfort and Trognon, 1984, Pseudo maximum
    likelihood methods).  The covariance is the sandwich of White (1980), for units the
    cluster-robust one of Liang and Zeger (1986), plus that of the noise.

    Examples
    --------
    The seed is for examples only: it makes the noise known.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.PoissonRegression(
    ...     "mdvis ~ lncoins + physlm",
    ...     schema=data.schema,
    ...     budget=dp.ApproxDP(1.0, 1e-6),
    ...     insecure_seed=0,
    ... )
    >>> result = model.fit(data.table).result_
    >>> low, high = result.conf_int()[1]
    >>> print(f"{result.names[1]}: {result.estimate[1]:.2f} ({low:.2f} to {high:.2f})")
    lncoins: -0.05 (-0.07 to -0.03)
    """

    exposure: str | tuple[float, float] | None = None
    far_values: str | None = None
    kind = COUNT

    def fit(
        self,
        X: Any,
        y: Any = None,
        units: Any = None,
        weights: Any = None,
        exposure: Any = None,
    ) -> Self:
        """Fit the model to a table, or to arrays.

        Parameters
        ----------
        X : array of shape (n, d), or a table
            As for the other models.
        y : array of shape (n,), optional
            The outcomes, with arrays only.
        units, weights : array of shape (n,), optional
            With arrays: whose row it is, and sampling weights, as for the other models.
        exposure : array of shape (n,), optional
            With arrays: the exposure of each row, by default 1.  A row whose exposure is not above
            0 cannot be used.

        Returns
        -------
        self
            The model, with ``result_``, ``coef_`` and ``intercept_``.
        """
        return self._fit_warned(*self.read(X, y, units, weights, exposure))

    def predict(self, X: Any) -> Array:
        """Return the rate of each row, per unit of exposure.

        The exposure of a row does not count here: `FitResult.predict` returns the mean at an
        exposure.

        Parameters
        ----------
        X : array of shape (n, d), or a table
            Rows in original units, as for ``fit``.

        Returns
        -------
        array of shape (n,)
            exp of intercept plus coefficients times columns.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.PoissonRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> model = model.fit(data.table)  # the noise is off, for examples only
        >>> print([f"{rate:.2f}" for rate in model.predict(data.table[:2])])
        ['2.61', '2.61']
        """
        return np.asarray(np.exp(self._linear(X)))

    def __getattr__(self, name: str) -> Any:
        """Return what the result has under this name: ``model.summary()`` is that of ``result_``."""
        if name.startswith("_") or name.endswith("_"):  # names of Python, and of scikit-learn
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        if name not in _OF_RESULTS:
            raise no_attribute(self, name)
        if "result_" not in vars(self):
            raise NotFittedError(
                f"{name} belongs to the result of a fit: call fit first, which spends the budget"
            )
        return getattr(self.result_, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(_OF_RESULTS if "result_" in vars(self) else ())})

    @property
    def asked_formula(self) -> str | None:
        """Return the formula, with the exposure in it."""
        if self.formula is None or self.exposure is None:
            return self.formula
        if not isinstance(self.exposure, str):
            raise InputError(
                "with a formula the exposure is the name of a column, whose bounds the schema has: exposure='years'"
            )
        name = self.exposure
        if name[:1] == name[-1:] == "`":  # as a formula has it
            name = name[1:-1]
        if "`" in name:
            raise InputError("the name of the exposure holds a backtick: rename the column")
        return f"{self.formula} + offset(log({quoted(name)}))"

    def _declare(self, response: Response | None) -> OutcomeScale:
        if response is None and self.outcome is None:
            raise InputError(
                "declare the public range outcome=(0, high) of y; taking it from the data is not private"
            )
        scale = super()._declare(response)
        if response is not None:
            return scale
        low = scale.centre - scale.half
        if low != 0:
            raise InputError("a count, a rate or a cost is 0 or more: declare outcome=(0, high)")
        return CountScale.up_to(scale.centre + scale.half)

    def _outcomes(self, y: Any, scale: OutcomeScale) -> Array:
        values = vector(numbers("y", y, "a regression needs a numeric outcome", depth=1))
        return scale.bounded(
            np.where(np.isfinite(values), np.clip(values, 0.0, scale.half), np.nan)
        )

    def _offset(self, given: Any, n: int) -> tuple[float, Array] | None:
        if self.exposure is None and given is None:
            return None
        if self.exposure is None or given is None or isinstance(self.exposure, str):
            raise InputError(
                "with arrays an exposure is declared and given: PoissonRegression(exposure=(0, high)) and "
                "fit(X, y, exposure=e); its largest value is not private"
            )
        try:
            _, high = (float(side) for side in self.exposure)
        except (TypeError, ValueError):
            raise InputError("exposure must be a pair (0, high) of numbers") from None
        if not 0 < high < np.inf:
            raise InputError("the high of exposure=(0, high) must be a finite number above 0")
        values = vector(numbers("exposure", given, "give exposures as numbers", depth=1))
        if values.shape != (n,):
            raise InputError("exposure must have one number a row, in one dimension")
        with np.errstate(all="ignore"):  # a warning would tell of a value
            return float(np.log(high)), np.log(values)

    def _loss(self, n: int, design: Design) -> Counts:  # noqa: ARG002
        return Counts()


_NEEDS_FORMULA = (
    "a hazard regression needs a formula and a schema: HazardRegression('Surv(exit, event) ~ age', cuts=[1, 2, 5], "
    "horizon=10, schema=...)"
)


@dataclass(eq=False, repr=False, kw_only=True)
class HazardRegression(LinearModel):
    """Hazard regression of survival times with differential privacy and confidence intervals.

    The hazard is exp(α_k + x·β) in interval k of public intervals of time, so that exp(β) are hazard
    ratios; with five intervals or more they are nearly those of Cox regression.  Standard errors are
    robust, and clustered by person: a person may have several rows, one for each spell (start, stop]
    with the same covariates.  The intervals are in ``result_``.

    Parameters
    ----------
    formula : str
        ``"Surv(exit, event) ~ age + sex"``, or ``"Surv(entry, exit, event) ~ age + sex"`` where
        persons may enter late or have several spells.  The event is a column of type boolean, an outcome
        with two levels, of which the second is the event, or a comparison such as ``status == 2``.
        With ``duration_col`` and ``event_col`` it is the right side alone, as in lifelines.
    cuts : sequence of float
        Public times between the intervals of time, in the unit of the time columns: at most 11.
    horizon : float
        The public time at which follow-up ends.  Who is followed longer is censored there.
    duration_col, event_col, entry_col : str, optional
        The columns of exit, event and entry, under the names that lifelines gives them.
    plan : HazardPlan, optional
        Instead of ``budget``: a budget with its adjacency and the share of each release.
    budget : ZCDP, ApproxDP or NoPrivacy, optional
        What the fit may cost.
    schema, far_values, adjacency, neighbours, ledger, insecure_seed : optional
        As for `LogisticRegression`.
    penalty, target, bounds, yes_no, rows, max_weight, most_weight : optional
        The parameters of the other models; there is no penalty, and one target, "ordinary", and a
        formula is needed.

    Notes
    -----
    The target is the zero of Σ (d - e exp(α + x·β)) (1, x) over persons and intervals, d events and e
    time at risk: Poisson regression with the logarithm of time as an offset (Holford, 1980, The analysis
    of rates and of survivorship using log-linear models).  A person's time counts until the information in it
    reaches a released bound; that is predictable, and so, as independent censoring, leaves estimates
    unbiased where the model is right.

    Examples
    --------
    The seed is for examples only: it makes the noise known.

    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dp
    >>> rng = np.random.default_rng(0)
    >>> treated = rng.random(5000) < 0.5
    >>> time = rng.exponential(8 * np.exp(0.7 * treated))
    >>> table = pd.DataFrame({"time": np.minimum(time, 10), "died": time < 10, "treated": treated})
    >>> schema = dp.Schema.parse('''
    ... unit = "one patient"
    ... [columns]
    ... time = { type = "number", low = 0, high = 10 }
    ... died = { type = "boolean" }
    ... treated = { type = "boolean" }
    ... ''')
    >>> model = dp.HazardRegression(
    ...     "Surv(time, died) ~ treated",
    ...     cuts=[1, 2, 4, 6],
    ...     horizon=10,
    ...     schema=schema,
    ...     budget=dp.ApproxDP(1.0, 1e-6),
    ...     insecure_seed=0,
    ... )
    >>> ratios = model.fit(table).result_.hazard_ratios()
    >>> print(f"{ratios.loc['treated', 'hazard_ratio']:.1f}")
    0.5
    """

    cuts: Sequence[float] | None = None
    horizon: float | None = None
    duration_col: str | None = None
    event_col: str | None = None
    entry_col: str | None = None
    far_values: str | None = None
    kind = HAZARD

    @property
    def asked_formula(self) -> str | None:
        """Return the formula with the intervals of time in it."""
        if self.formula is None:
            raise InputError(_NEEDS_FORMULA)
        left, tilde, right = self.formula.partition("~")
        if (
            self.duration_col is not None
            or self.event_col is not None
            or self.entry_col is not None
        ):
            if tilde:
                raise InputError(
                    "give the outcome once: Surv(...) on the left of ~, or duration_col and event_col with the "
                    "right side alone"
                )
            if self.duration_col is None or self.event_col is None:
                raise InputError("duration_col and event_col go together: name both columns")
            names = [self.entry_col, self.duration_col, self.event_col]
            left = f"Surv({', '.join(quoted(name) for name in names if name is not None)})"
            right = self.formula
        if self.cuts is None and self.horizon is None:  # they may stand in the formula
            return f"{left.strip()} ~ {right.strip()}" if self.duration_col else self.formula
        if self.cuts is None or self.horizon is None or not left.rstrip().endswith(")"):
            raise InputError(
                "declare cuts= between intervals of time and horizon=, the end of follow-up, for an outcome "
                "Surv(exit, event)"
            )
        times = FollowUp.of(self.cuts, self.horizon)
        inner = ", ".join(f"{cut:.15g}" for cut in times.cuts)
        return (
            f"{left.strip()[:-1]}, cuts=[{inner}], horizon={times.horizon:.15g}) ~ {right.strip()}"
        )

    def fit(self, X: Any, y: Any = None, units: Any = None, weights: Any = None) -> Self:
        """Fit the model to a table.

        Parameters
        ----------
        X : table
            A pandas, polars or pyarrow table, the path of a file, or a Dask or Spark DataFrame.
        y, units, weights : optional
            None: the outcome, the ids and the weights are columns of the table.

        Returns
        -------
        self
            The model, with ``result_`` and ``coef_``; ``intercept_`` is the logarithm of the hazard of the first
            interval where every column is 0.
        """
        return super().fit(X, y, units, weights)

    def predict(self, X: Any) -> Array:
        """Return the hazard of each row over that where every column is 0, as lifelines' partial hazard.

        Parameters
        ----------
        X : table
            Rows in original units, as for ``fit``.

        Returns
        -------
        array of shape (n,)
            exp of coefficients times columns.
        """
        return np.asarray(np.exp(self._linear(X) - self.intercept_))

    def _read_arrays(self, *arrays: Any) -> tuple[Design, Pending]:  # noqa: ARG002
        raise InputError(_NEEDS_FORMULA)

    def _declare(self, response: Response | None) -> OutcomeScale:  # noqa: ARG002
        return UNSCALED

    def _linear(self, X: Any) -> Array:
        """Return the logarithm of the hazard of each row in the first interval of time."""
        check_is_fitted(self)
        values = read_terms(table_of(X).opened(self.terms_.columns), self.terms_)
        if not np.isfinite(values).all():
            raise InputError(
                "some rows cannot be encoded by the schema: drop them before predicting"
            )
        slopes = self.result_.estimate[1:]
        intervals = np.zeros((len(values), len(slopes) - values.shape[1]))
        values = np.column_stack([values, intervals])
        if self.result_.geometry is not None:  # numbers are winsorised as in the fit
            values = self.result_.geometry.inside(values)
        return np.asarray(values @ slopes + self.intercept_)

    def _keep(self, intercept: float, coef: Array) -> None:
        self.intercept_ = intercept
        self.coef_ = coef[: self.terms_.width]

    def _loss(self, n: int, design: Design) -> SurvivalTimes:  # noqa: ARG002
        return SurvivalTimes()


@dataclass(eq=False, repr=False, kw_only=True)
class HuberRegression(LinearRegressor):
    """Robust linear regression with the Huber loss, differential privacy and confidence intervals.

    Its coefficients are penalised, and so shrunk: for zCDP and (ε, δ) budgets ``LinearRegression``
    is the better tool where those of ordinary least squares are wanted.

    Parameters
    ----------
    knee : float, optional
        Where the loss turns from quadratic to linear, in units of the outcome.  By default a tenth
        of the outcome's range: Huber's 1.345 standard deviations where residuals have a standard
        deviation of about a thirteenth of it.
    outcome : pair (low, high), optional
        With arrays, the public range of y; values beyond it are clipped.
    penalty : float, optional
        c in the mean objective, on the bounded rows and the outcome scaled to [-1, 1].  By default
        chosen from n, d, the loss and the budget; printed with the result.
    target : {"penalised", "unpenalised"}, optional
        What the intervals are about: the minimum of the penalised risk (the default), or of the
        risk alone.
    formula, schema, bounds, yes_no, budget, plan : optional
        As for `LogisticRegression`.
    adjacency, neighbours, rows, max_weight, most_weight, ledger, insecure_seed : optional
        As for `LogisticRegression`.

    Notes
    -----
    The loss is `Huber` (Huber, 1964); the intervals, in ``result_``, are those of Wang, Kifer and
    Lee (2019).

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.HuberRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> print(f"{model.fit(data.table).coef_[0]:.2f}")
    2.25
    """

    knee: float | None = None

    def _loss(self, n: int, design: Design) -> Loss:  # noqa: ARG002
        half = design.outcome.half
        knee = half / 5 if self.knee is None else self.knee
        return Huber(knee).rescaled(1 / half)


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileRegression(LinearRegressor):
    """Quantile regression with a smoothed check loss, differential privacy and confidence intervals.

    Its coefficients are penalised, and so shrunk: for zCDP and (ε, δ) budgets ``LinearRegression``
    is the better tool where the mean will do for a quantile.

    Parameters
    ----------
    quantile : float
        The quantile, strictly between 0 and 1; 0.5, the default, is the median.
    bandwidth : float, optional
        Scale of the logistic smoothing, in units of the outcome.  By default ((d + log n)/n)^(2/5)
        times half the outcome's range, and at least a fortieth of the range (He, Pan, Tan and Zhou,
        2023, with public facts only).  The target is the quantile of the outcome plus logistic
        noise of this scale: a smaller bandwidth is closer to the plain quantile, and needs a larger
        penalty or budget.
    outcome, penalty, target : optional
        As for `HuberRegression`.
    formula, schema, bounds, yes_no, budget, plan : optional
        As for `LogisticRegression`.
    adjacency, neighbours, rows, max_weight, most_weight, ledger, insecure_seed : optional
        As for `LogisticRegression`.

    Notes
    -----
    The loss is `SmoothedQuantile` (Koenker and Bassett, 1978; He, Pan, Tan and Zhou, 2023); the
    intervals, in ``result_``, are those of Wang, Kifer and Lee (2019).

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.QuantileRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> print(f"{model.fit(data.table).coef_[0]:.2f}")
    1.53
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
