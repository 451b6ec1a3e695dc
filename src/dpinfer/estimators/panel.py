"""Event studies and differences in differences: least squares with effects of persons and of periods."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Self

import numpy as np

from dpinfer.errors import InputError
from dpinfer.estimators.models import LinearRegression
from dpinfer.result.event_study import PeriodEffects, RelativePeriod
from dpinfer.result.hypotheses import Contrast, WaldTest
from dpinfer.rows.source import Pending
from dpinfer.schema.columns import Number
from dpinfer.schema.design import Design
from dpinfer.schema.expressions import quoted
from dpinfer.schema.formula import names_of, parse, split_effects
from dpinfer.schema.schema import Schema

_MAX_PERIODS = 200  # of the period column: each but one is a column of the design
_MIN_SHARE = 1e-3  # of a cohort, over that of the largest one
_STAGGERED = (
    "persons start at different times, and one coefficient for all of them averages their effects with weights that "
    "may be negative: where effects grow with time it may even have the wrong sign (Goodman-Bacon 2021; Sun and "
    "Abraham 2021). Give cohorts=, the public starts, for an effect of each cohort and their average by shares"
)
_WITHOUT_START = (
    "rows without a start cannot be used, and by the schema nobody has a start after the last period: if some persons "
    "are never treated, put such a number in the place of a missing one, as in high = 2099 and missing = 2099"
)


@dataclass(frozen=True)
class EventCell:
    """One column of an event study: a cohort, or 0 for all, in one period relative to its start.

    ``text`` is the column as a formula has it, ``label`` the period in words, and ``rows`` the number of calendar
    periods that it has.
    """

    cohort: int
    period: int
    label: str
    text: str
    rows: int


@dataclass(frozen=True)
class _Calendar:
    """The calendar of a study: the expression of the period, and the periods that there are."""

    name: str
    periods: tuple[int, ...]

    def cell(self, who: str, cohort: int, first: int, window: tuple[int, int], k: int) -> EventCell:
        """Return the column of those whom ``who`` selects, ``k`` periods after their start ``first``."""
        low, high = window
        sign = "=="
        label = str(k)
        rows = [period for period in self.periods if period == first + k]
        if k == high:
            sign = ">="
            label = f"{k} or later"
            rows = [period for period in self.periods if period >= first + k]
        elif k == low:
            sign = "<="
            label = f"{k} or earlier"
            rows = [period for period in self.periods if period <= first + k]
        return EventCell(
            cohort, k, label, f"{{{who} & ({self.name} {sign} {first + k})}}", len(rows)
        )


@dataclass(eq=False, repr=False, kw_only=True)
class StartRegression(LinearRegression):
    """Base class of event studies and differences in differences: what starts, for whom, and when."""

    period: str = ""
    start: str | int | None = None
    treated: str | None = None
    cohorts: Sequence[int] | None = None

    @property
    def _window(self) -> tuple[int, int]:
        """Return the first and the last period relative to the start that has a column of its own."""
        raise NotImplementedError

    @property
    def _reference(self) -> int | None:
        """Return the period that others are compared with; None for all before the start."""
        raise NotImplementedError

    @property
    def asked_formula(self) -> str | None:
        """Return the formula with the columns of the study, and the fixed effects of persons and periods."""
        if self.formula is None:
            raise InputError(
                f"{type(self).__name__} needs a formula and a schema: write 'y ~ 1', or 'y ~ x' with other columns"
            )
        if split_effects(self.formula)[1]:
            raise InputError(
                f"{type(self).__name__} adds the effects of persons and periods itself: leave out the part behind |"
            )
        schema = Schema.of(self.schema)
        # each lies in the span of the columns of the study and the effects, or takes a part of the effect that is asked
        own = {"treated": self.treated, "period": self.period, "start": self.start}
        for option, name in own.items():
            if isinstance(name, str) and name in names_of(self.formula):
                raise InputError(
                    f"{name!r} is in the model as {option}=: leave it out of the formula"
                )
        cells = self.cells(schema)
        if not schema.unit.many:
            raise InputError(
                f"{type(self).__name__} needs ids: give the schema a [unit] with a column of person "
                "ids"
            )
        body = " + ".join([self.formula, *(cell.text for cell in cells)])
        return f"{body} | {quoted(schema.unit.column)} + {quoted(self.period)}"

    def cells(self, schema: Schema) -> tuple[EventCell, ...]:
        """Return the columns of the study, from public facts alone; the reference has none."""
        calendar = self._calendar(schema)
        window = self._window
        if isinstance(self.start, str) and self.cohorts is None:
            return self._pooled(calendar)
        cells: list[EventCell] = []
        for cohort, first, who in self._starts(schema):
            found = [
                calendar.cell(who, cohort, first, window, k)
                for k in range(window[0], window[1] + 1)
            ]
            reference = [cell for cell in found if cell.period == self._reference]
            compared = any(cell.rows for cell in reference)
            if not reference:
                compared = calendar.periods[0] < first
            if not compared or first > calendar.periods[-1]:
                raise InputError(
                    f"the start {first} must have a period of {self.period!r} to be compared with, and one from it on: "
                    f"the schema has {calendar.periods[0]} to {calendar.periods[-1]}"
                )
            cells += [cell for cell in found if cell.rows and cell.period != self._reference]
        return tuple(cells)

    def _calendar(self, schema: Schema) -> _Calendar:
        """Return the periods that the schema declares."""
        if not self.period:
            raise InputError(
                "period= is missing: give the name of the column of the time, such as period='year'"
            )
        column = schema[self.period]
        if not isinstance(column, Number) or column.kind != "integer" or not column.levels:
            raise InputError(
                f"the period {self.period!r} must be an integer with levels in the schema: write type = 'integer', "
                "low, high and levels = [2000, 2001, ...]"
            )
        periods = tuple(sorted(int(level) for level in column.levels))
        if len(periods) > _MAX_PERIODS:
            raise InputError(
                f"{self.period!r} has more than {_MAX_PERIODS} periods: take longer ones, such as quarters"
            )
        return _Calendar(quoted(self.period), periods)

    def _starts(self, schema: Schema) -> list[tuple[int, int, str]]:
        """Return for each cohort its name, its start, and who is in it as an expression."""
        if self.start is None:
            raise InputError(
                "start= is missing: give the first period with treatment, such as start=2004, or the column that has "
                "it for each person"
            )
        if isinstance(self.start, str):
            self._require_start_column(schema)
            who = f"{self._selected(schema)}({quoted(self.start)} =="
            try:
                cohorts = [int(cohort) for cohort in self.cohorts or ()]
            except (TypeError, ValueError):
                raise InputError("cohorts must be whole numbers, such as (2003, 2005)") from None
            if not cohorts or len(set(cohorts)) < len(cohorts):
                raise InputError(
                    "cohorts must be one or more different starts, such as (2003, 2005)"
                )
            return [(cohort, cohort, f"{who} {cohort})") for cohort in cohorts]
        if self.cohorts is not None:
            raise InputError("cohorts= go with a column of starts: give its name as start=")
        if self.treated is None:
            raise InputError(
                "treated= is missing: with one start for all, name the yes/no column of those who are treated"
            )
        if isinstance(self.start, bool) or not isinstance(self.start, Integral):
            raise InputError("start must be a whole number, or the name of a column")
        return [(0, int(self.start), self._selected(schema).removesuffix(" & "))]

    def _require_start_column(self, schema: Schema) -> None:
        assert isinstance(self.start, str)
        column = schema[self.start]
        if not isinstance(column, Number) or column.kind != "integer":
            raise InputError(
                f"the start {self.start!r} must be an integer in the schema, in the units of {self.period!r}"
            )

    def _selected(self, schema: Schema) -> str:
        """Return the condition that a person is treated, with an & behind it; nothing where there is none."""
        if self.treated is None:
            return ""
        column = schema.columns.get(self.treated)
        if column is None:
            return f"({self.treated}) & "
        if isinstance(column, Number) and column.kind == "boolean":
            return f"{quoted(self.treated)} & "
        if isinstance(column, Number) and (column.low, column.high) == (0, 1):
            return f"({quoted(self.treated)} == 1) & "
        raise InputError(
            f"treated={self.treated!r} is not yes or no: name a boolean column, or write a comparison such as "
            f"\"{self.treated} == 'new'\""
        )

    def _pooled(self, calendar: _Calendar) -> tuple[EventCell, ...]:
        """Return the columns of all cohorts together: nobody counts who starts after the last period."""
        low, high = self._window
        assert isinstance(self.start, str)
        self._require_start_column(Schema.of(self.schema))
        start = quoted(self.start)
        who = f"{self._selected(Schema.of(self.schema))}({start} <= {calendar.periods[-1]})"
        pooled = _Calendar(f"{calendar.name} - {start}", tuple(range(low, high + 1)))
        return tuple(
            pooled.cell(who, 0, 0, (low, high), k)
            for k in range(low, high + 1)
            if k != self._reference
        )

    def fit_read(self, design: Design, source: Pending, low_budget: str = "") -> Self:
        """Fit what `read` gave; starts that differ are warned of where there are no cohorts."""
        if isinstance(self.start, str):
            column = self.schema_[self.start]
            assert isinstance(column, Number)
            if column.missing is None and column.high <= self._calendar(self.schema_).periods[-1]:
                warnings.warn(_WITHOUT_START, UserWarning, stacklevel=4)
            if self.cohorts is None:
                warnings.warn(_STAGGERED, UserWarning, stacklevel=4)
        super().fit_read(design, source, low_budget)
        return self

    def _names(self) -> dict[EventCell, str]:
        """Return the name of the coefficient of each cell."""
        schema = self.schema_
        outcome = split_effects(self.formula or "")[0].partition("~")[0]
        return {
            cell: parse(f"{outcome} ~ {cell.text}", schema)[1].blocks[0].names[0]
            for cell in self.cells(schema)
        }

    def shares(self) -> dict[int, float]:
        """Return the released share of each cohort among those that have a column; empty without cohorts.

        Returns
        -------
        dict
            The shares, which add up to 1, by cohort.

        Notes
        -----
        A column of m of T periods has the within variation m(1 - m/T) per person of its cohort, so that the
        diagonal of the released Hessian, over these numbers, is proportional to the numbers of persons. Where
        persons lack periods that is nearly so.
        """
        if self.cohorts is None:
            return {}
        result = self.result_
        total = len(self._calendar(self.schema_).periods)
        information: dict[int, float] = {}
        variation: dict[int, float] = {}
        for cell, name in self._names().items():
            j = result.names.index(name)
            information[cell.cohort] = information.get(cell.cohort, 0.0) + float(
                result.hessian[j, j]
            )
            variation[cell.cohort] = variation.get(cell.cohort, 0.0) + cell.rows * (
                1 - cell.rows / total
            )
        sizes = {cohort: information[cohort] / variation[cohort] for cohort in information}
        # noise may leave nothing of a small cohort, or of all of them
        least = _MIN_SHARE * max(*sizes.values(), 0.0) or 1.0
        whole = sum(max(size, least) for size in sizes.values())
        return {cohort: max(size, least) / whole for cohort, size in sizes.items()}

    def _relative(self) -> list[RelativePeriod]:
        """Return each period relative to the start as a combination of coefficients."""
        result = self.result_
        shares = self.shares()
        by_period: dict[int, list[tuple[EventCell, str]]] = {}
        for cell, name in self._names().items():
            by_period.setdefault(cell.period, []).append((cell, name))
        found = []
        for period in sorted(by_period):
            cells = by_period[period]
            weights = np.array([shares.get(cell.cohort, 1.0) for cell, _ in cells])
            weights = weights / weights.sum()
            vector = np.zeros(len(result.names))
            for weight, (_, name) in zip(weights, cells, strict=True):
                vector[result.names.index(name)] = weight
            found.append(RelativePeriod(period, cells[0][0].label, tuple(vector.tolist())))
        return found

    def period_effects(self, level: float = 0.95) -> PeriodEffects:
        """Return the effects by period relative to the start, with intervals and a simultaneous band.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        PeriodEffects
            A table when printed; ``to_frame()`` is a data frame, and ``dp.plot.event_study`` draws it.
        """
        return PeriodEffects.of(
            self.result_, self._relative(), self._reference, level, self.shares()
        )

    def average_effect(self, level: float = 0.95) -> Contrast:
        """Return the mean of the effects from the start on, each relative period alike.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        Contrast
            The estimate with its interval.
        """
        later = [one.vector for one in self._relative() if one.period >= 0]
        return self.result_.contrast(np.mean(later, axis=0), level)


@dataclass(eq=False, repr=False, kw_only=True)
class EventStudy(StartRegression):
    """An event study: effects by period relative to a start, with effects of persons and periods.

    Parameters
    ----------
    formula : str
        ``"y ~ 1"``, or ``"y ~ x"`` with other columns that vary within persons.
    period : str
        The column of the time, an integer with levels in the schema.
    start : int or str
        The first period with treatment: a number where all who are treated start together, or the column
        that has it for each person.
    treated : str, optional
        The yes/no column of those who are ever treated, or a comparison such as ``"arm == 'new'"``; needed
        where ``start`` is a number.
    window : pair of int
        The first and the last relative period with a column of its own, by default (-3, 3); they stand for
        all periods beyond, too.
    reference : int
        The relative period that all are compared with, by default -1.
    cohorts : sequence of int, optional
        Where starts differ: the public list of starts.  Every cohort has effects of its own then, which are
        averaged by their released shares.
    schema, budget, plan, adjacency, neighbours, tail, far_values, ledger, insecure_seed : optional
        As for `LinearRegression`.
    bounds, yes_no, outcome, penalty, target, effects, rows, max_weight, most_weight : None
        These parameters of `LinearRegression` are left out: everything public stands in the schema.

    Notes
    -----
    A person who is never treated has a start after the last period; let the schema put such a number in the
    place of a missing one (``missing =``).  Without ``cohorts`` and with different starts, coefficients mix the
    effects of cohorts with weights that may be negative, and a warning says so.  With them the averages are the
    interaction-weighted estimates of Sun and Abraham (2021), Estimating dynamic treatment effects in event
    studies with heterogeneous treatment effects, with released shares.

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> table = {
    ...     "id": [k // 4 for k in range(400)],
    ...     "year": [2001 + k % 4 for k in range(400)],
    ...     "clinic": [k // 4 % 2 == 1 for k in range(400)],
    ...     "visits": [(k // 4 % 7) + (2 if k // 4 % 2 == 1 and k % 4 >= 2 else 0) for k in range(400)],
    ... }
    >>> schema = dp.Schema.parse('''
    ... unit = {name = "one patient", column = "id"}
    ... columns.visits = {type = "number", low = 0, high = 20}
    ... columns.clinic = {type = "boolean"}
    ... columns.year = {type = "integer", low = 2001, high = 2004, levels = [2001, 2002, 2003, 2004]}
    ... ''')
    >>> study = dp.EventStudy(
    ...     "visits ~ 1", period="year", start=2003, treated="clinic", window=(-2, 1),
    ...     schema=schema, budget=dp.NoPrivacy(),
    ... )
    >>> print(study.fit(table).period_effects().to_frame()["estimate"].round(2).to_dict())
    {-2: 0.0, 0: 2.0, 1: 2.0}
    """

    window: tuple[int, int] = (-3, 3)
    reference: int = -1

    @property
    def _window(self) -> tuple[int, int]:
        try:
            low, high = (int(side) for side in self.window)
        except (TypeError, ValueError):
            raise InputError("window must be a pair of whole numbers, such as (-3, 3)") from None
        if not low < 0 <= high or high - low > _MAX_PERIODS:
            raise InputError(
                "window goes from a period before the start to one from it on, such as (-3, 3)"
            )
        return low, high

    @property
    def _reference(self) -> int:
        low, high = self._window
        if not low <= self.reference <= high:
            raise InputError(f"the reference period must be in the window, {low} to {high}")
        return self.reference

    def pretrend_test(self) -> WaldTest:
        """Test that the effects before the start are all 0, as they are where trends are parallel.

        Returns
        -------
        WaldTest
            The test of all periods before the start but the reference.
        """
        leads = [one.vector for one in self._relative() if one.period < 0]
        if not leads:
            raise InputError("the window has no period before the start but the reference")
        return self.result_.wald(np.array(leads))


@dataclass(eq=False, repr=False, kw_only=True)
class DifferenceInDifferences(StartRegression):
    """Differences in differences: the effect of a start, with effects of persons and of periods.

    Parameters
    ----------
    formula : str
        ``"y ~ 1"``, or ``"y ~ x"`` with other columns that vary within persons.
    period, start, treated, cohorts : optional
        As for `EventStudy`.
    schema, budget, plan, adjacency, neighbours, tail, far_values, ledger, insecure_seed : optional
        As for `LinearRegression`.
    bounds, yes_no, outcome, penalty, target, effects, rows, max_weight, most_weight : None
        These parameters of `LinearRegression` are left out: everything public stands in the schema.

    Notes
    -----
    The effect is that of the periods from the start on, compared with all before, against those who are not
    treated.  It is causal if without treatment both groups had changed alike.  Where starts differ, give
    ``cohorts``: see `EventStudy`.

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> table = {
    ...     "id": [k // 2 for k in range(200)],
    ...     "year": [2001 + k % 2 for k in range(200)],
    ...     "clinic": [k // 2 % 2 == 1 for k in range(200)],
    ...     "visits": [(k // 2 % 7) + (2 if k // 2 % 2 == 1 and k % 2 == 1 else 0) for k in range(200)],
    ... }
    >>> schema = dp.Schema.parse('''
    ... unit = {name = "one patient", column = "id"}
    ... columns.visits = {type = "number", low = 0, high = 20}
    ... columns.clinic = {type = "boolean"}
    ... columns.year = {type = "integer", low = 2001, high = 2002, levels = [2001, 2002]}
    ... ''')
    >>> model = dp.DifferenceInDifferences(
    ...     "visits ~ 1", period="year", start=2002, treated="clinic", schema=schema, budget=dp.NoPrivacy()
    ... )
    >>> print(f"{model.fit(table).average_effect().estimate:.2f}")
    2.00
    """

    @property
    def _window(self) -> tuple[int, int]:
        return 0, 0

    @property
    def _reference(self) -> None:
        return None
