"""How long will the intervals be, and which budget makes them short enough?

The fit itself runs on made-up records, before anything is read or booked.
"""

import copy
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from dpinfer import persistence
from dpinfer.errors import BudgetError, DpinferError, InputError
from dpinfer.fit.linear import LeastSquares
from dpinfer.fit.recipe import Recipe, fit, half_widths
from dpinfer.mechanisms.sums import MAX_RECORDS
from dpinfer.numerics.arrays import Array, boundary
from dpinfer.persistence import FileNames
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP
from dpinfer.result import text
from dpinfer.result.coefficient_table import REMEDIES
from dpinfer.result.grid import Grid, GridRow, TextLayout
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import ModelTerms, Response
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import (
    Progress,
    batches_of,
    check_numbers,
    noise_seed,
    run_batches,
)
from dpinfer.simulate.study import (
    ModelOptions,
    StudiedModel,
    StudyQuestion,
    is_model,
    without_options,
)
from dpinfer.simulate.synthetic import (
    OfGuesses,
    OfTable,
    Synthetic,
    columns_without_typical,
    repeated,
)
from dpinfer.tables.table import read

if TYPE_CHECKING:
    import pandas as pd

_RANGE_QUANTILES = (0.1, 0.9)  # quantiles of the simulated fits between which a range is
_HALF = 0.5  # of the fits: a coefficient that fewer of them report is not likely to be reported
_BUDGETS = FileNames({"PureDP": PureDP, "ZCDP": ZCDP, "ApproxDP": ApproxDP, "NoPrivacy": NoPrivacy})
_SMALLEST = 1e-3  # ε or ρ that is searched
_LARGEST = 1e3
_CLOSE = 0.05  # how closely a budget is found
_FAR = 4.0  # a step where nothing is known
_ONE_NOT_REPORTED_IN = 17  # coefficients that all simulated fits report (studies/forecast.py)
_LONG_NAME = 34  # letters of a name that stands beside its numbers
_ALL = "All assumptions: summary(full=True), or --verbose on the command line."
_NO_PROMISE = "A forecast, not a promise: no record was read, and nothing was booked."
_VISIBLE = 1e-2  # of a half-width: noise that is less is taken for this much
_MIN_REPORTED = (
    0.1  # of the coefficients: a fit that is expected to report fewer is not worth its budget
)
_LISTED = 3  # names of columns that a sentence lists, where there may be many
REPLICATES_BEFORE_FIT = 10
"""Simulated fits that say whether a fit is worth its budget."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """The expected length of the intervals of a fit, one number per budget and coefficient.

    Attributes
    ----------
    names : tuple of str
        The names of the coefficients.
    budgets : tuple of budgets
        Those that were asked for, or the one that was found.
    half_width : array
        The median half-width over the replicates that report the coefficient; NaN where none does.
    low, high : array
        The range to expect: the middle eight in ten of these replicates, times the factors ``off``.
    within : array
        The half-width that half of all replicates keep within; infinite where fewer than half
        report the coefficient.
    reported : array
        The share of replicates that report the coefficient.
    nonprivate : array
        The half-width of the same model without noise; it depends on the budget only where its
        penalty does.
    records : int
        The number of records, or of units.
    level : float
        The confidence level.
    replicates, seed : int
        The number of simulated fits, and their seed.
    setting : str
        The formula and the number of records, in words.
    assumed : tuple of str
        The assumptions, in words.
    off : tuple of float
        The factors by which forecasts from guesses missed on real data; (1, 1) without guesses.
    unstated : tuple of str
        The columns of which the schema does not say what is ``typical``: usual values stand for it.

    Examples
    --------
    >>> import dpinfer as dp
    >>> schema = dp.datasets.rand_hie().schema
    >>> forecast = dp.simulate.forecast(
    ...     "mdvis ~ physlm", schema=schema, records=20_190, budgets=[dp.ZCDP(0.1)], replicates=2
    ... )
    >>> forecast.names
    ('(Intercept)', 'physlm')
    """

    names: tuple[str, ...]
    budgets: tuple[Budget, ...]
    half_width: Array
    low: Array
    high: Array
    within: Array
    reported: Array
    nonprivate: Array
    records: int
    level: float
    replicates: int
    seed: int
    setting: str
    assumed: tuple[str, ...]
    off: tuple[float, float] = (1.0, 1.0)
    unstated: tuple[str, ...] = ()

    def median(self, which: int = 0) -> tuple[float, float]:
        """Return the median half-width over the coefficients, with and without noise.

        Intercepts are left out, and coefficients that no replicate reports.

        Parameters
        ----------
        which : int
            The number of the budget; by default the first.

        Returns
        -------
        private, nonprivate : float
            NaN where no coefficient is reported.

        Examples
        --------
        >>> import dpinfer as dp
        >>> schema = dp.datasets.rand_hie().schema
        >>> forecast = dp.simulate.forecast(
        ...     "mdvis ~ physlm", schema=schema, records=20_190, budgets=[dp.ZCDP(0.1)], replicates=2
        ... )
        >>> private, nonprivate = forecast.median()
        >>> bool(nonprivate < private)
        True
        """
        private = self._middle(self.half_width[which], which)
        return private, self._middle(self.nonprivate[which], which)

    def range(self, which: int = 0) -> tuple[float, float]:
        """Return the range in which the median half-width over the coefficients is to be expected.

        Parameters
        ----------
        which : int
            The number of the budget; by default the first.

        Returns
        -------
        low, high : float
            NaN where no coefficient is reported.
        """
        return self._middle(self.low[which], which), self._middle(self.high[which], which)

    def _middle(self, values: Array, which: int) -> float:
        """Return the median over coefficients but the intercept that are reported at all."""
        slopes = np.array([name != "(Intercept)" for name in self.names]) | (len(self.names) == 1)
        known = np.isfinite(self.half_width[which]) & np.isfinite(self.nonprivate[which])
        if not (slopes & known).any():
            return float("nan")
        return float(np.median(values[slopes & known]))

    def table(self) -> list[dict[str, Any]]:
        """Return one row per budget and coefficient.

        Returns
        -------
        list of dict
            budget, name, half_width, low, high, nonprivate and reported.
        """
        return [
            {
                "budget": label(budget),
                "name": name,
                "half_width": float(self.half_width[b, j]),
                "low": float(self.low[b, j]),
                "high": float(self.high[b, j]),
                "nonprivate": float(self.nonprivate[b, j]),
                "reported": float(self.reported[b, j]),
            }
            for b, budget in enumerate(self.budgets)
            for j, name in enumerate(self.names)
        ]

    def to_frame(self) -> "pd.DataFrame":
        """Return the table as a pandas data frame.

        Returns
        -------
        DataFrame
            The columns of `table`, indexed by budget and coefficient.
        """
        import pandas as pd  # noqa: PLC0415  (heavy: loaded when a frame is asked for)

        return pd.DataFrame(self.table()).set_index(["budget", "name"])

    def summary(self, *, full: bool = False) -> str:
        """Return the ranges of half-widths as text, with their meaning under them.

        Parameters
        ----------
        full : bool
            Whether all assumptions are under the table; by default there are ten lines at most.

        Returns
        -------
        str
            One column per budget, to print.
        """
        titles: list[str] = []
        columns: list[list[str]] = []
        plain: list[str] = []
        for b, budget in enumerate(self.budgets):
            before = plain
            plain = [_plus_minus(width) for width in self.nonprivate[b]]
            if plain != before:
                titles.append("no noise")
                columns.append(plain)
            titles.append(label(budget))
            columns.append([self.cell(b, j) for j in range(len(self.names))])
        rows = [
            GridRow.of(name, [column[j] for column in columns]) for j, name in enumerate(self.names)
        ]
        layout = TextLayout(gap=2, min_column=10, max_name=_LONG_NAME, split=True)
        statements = self.statements()
        if not full:
            statements = text.essential(self._in_short(), last=_ALL)
        return text.with_notes(Grid(("", *titles), tuple(rows)).text(layout), statements)

    def _in_short(self) -> list[str]:
        """Return what a reader needs at once, the most important first."""
        low, high = self.off
        guesses = (
            f"Ranges allow for guesses: on real data four intervals in five were {low:g} to {high:g} times "
            "as long as forecast."
        )
        return [
            self._what(),
            *self._seldom_reported(),
            f"{self.setting}.",
            *([guesses] if low != high else []),
            _NO_PROMISE,
            self._assumptions(),
        ]

    def _what(self) -> str:
        return (
            f"Half-widths of {100 * self.level:.4g}% intervals, as ranges, from {self.replicates} simulated fits (seed "
            f"{self.seed}); in brackets how many report the coefficient, if not all do."
        )

    def _assumptions(self) -> str:
        return f"Assumed: {'; '.join(self.assumed)}."

    def statements(self) -> list[str]:
        """Return sentences on the meaning of the numbers, and on the assumptions.

        Returns
        -------
        list of str
            The sentences under the table of ``summary(full=True)``.
        """
        return [
            self._what(),
            *self._how_far_off(),
            *self._seldom_reported(),
            f"{self.setting}.",
            self._assumptions(),
            _NO_PROMISE,
        ]

    def _how_far_off(self) -> list[str]:
        """Return what the ranges allow for, and what they do not; nothing if nothing was guessed."""
        low, high = self.off
        if low == high:
            return []
        return [
            f"Ranges allow for guesses: on real data four intervals in five were {low:g} to {high:g} times as long as "
            "forecast from true means, deviations and shares. Some were far longer, where columns go together or an "
            f"outcome has long tails. Of coefficients that all simulated fits report, one in {_ONE_NOT_REPORTED_IN} "
            "was not reported in most fits of real data. No noise is about the made-up records."
        ]

    def open(self, which: int = 0) -> tuple[str, ...]:
        """Return the coefficients that fewer than half of the simulated fits report.

        Parameters
        ----------
        which : int
            The number of the budget; by default the first.

        Returns
        -------
        tuple of str
            Their names.

        Examples
        --------
        >>> import dpinfer as dp
        >>> schema = dp.datasets.rand_hie().schema
        >>> forecast = dp.simulate.forecast(
        ...     "visit ~ health", schema=schema, records=100, budgets=[dp.ZCDP(0.001)], replicates=2
        ... )
        >>> len(forecast.open())
        4
        """
        return tuple(
            name
            for name, share in zip(self.names, self.reported[which], strict=True)
            if share < _HALF
        )

    def low_budget(self, which: int = 0) -> str:
        """Return why the fit is not worth its budget: fewer than one coefficient in ten is reported.

        Parameters
        ----------
        which : int
            The number of the budget; by default the first.

        Returns
        -------
        str
            The reason, with what to do where it may be due to usual values in the place of ``typical``
            ones; empty for most fits.

        Examples
        --------
        >>> import dpinfer as dp
        >>> schema = dp.datasets.rand_hie().schema
        >>> forecast = dp.simulate.forecast(
        ...     "visit ~ health", schema=schema, records=100, budgets=[dp.ZCDP(0.001)], replicates=2
        ... )
        >>> print(forecast.low_budget().split(":")[0])
        hardly a coefficient is likely to be reported
        """
        share = float(self.reported[which].mean())
        if share >= _MIN_REPORTED:
            return ""
        count = len(self.names)
        reason = (
            f"hardly a coefficient is likely to be reported: {count * share:.2g} of {count} in simulated fits, on "
            "average"
        )
        if not self.unstated:
            return reason
        listed = ", ".join(map(text.escape_controls, self.unstated[:_LISTED]))
        if len(self.unstated) > _LISTED:
            listed += f" and {len(self.unstated) - _LISTED} more"
        return (
            f"{reason}. That may be wrong, since the schema does not say what is typical of {listed}: add typical to "
            "these columns, for a number as in typical = { mean = 3, sd = 5 }"
        )

    def _seldom_reported(self) -> list[str]:
        sentences = []
        for b, budget in enumerate(self.budgets):
            names = ", ".join(map(text.escape_controls, self.open(b)))
            if names:
                sentences.append(f"Not likely to be reported at {label(budget)}: {names}.")
        return sentences

    def to_json(self) -> str:
        """Return the forecast as a JSON object.

        Returns
        -------
        str
            The JSON text.
        """
        return json.dumps(
            persistence.encode(self, _names()), ensure_ascii=False, indent=1, allow_nan=False
        )

    @classmethod
    def from_json(cls, document: str) -> "Forecast":
        """Read a forecast from its JSON text.

        Parameters
        ----------
        document : str
            The text that `to_json` returned.

        Returns
        -------
        Forecast
            The forecast.

        Examples
        --------
        >>> import dpinfer as dp
        >>> schema = dp.datasets.rand_hie().schema
        >>> forecast = dp.simulate.forecast(
        ...     "mdvis ~ physlm", schema=schema, records=20_190, budgets=[dp.ZCDP(0.1)], replicates=2
        ... )
        >>> dp.simulate.Forecast.from_json(forecast.to_json()).names
        ('(Intercept)', 'physlm')
        """
        forecast: Forecast = persistence.decode(json.loads(document), _names())
        return forecast

    def cell(self, b: int, j: int) -> str:
        """Return the range of one half-width as it is printed.

        Parameters
        ----------
        b : int
            The number of the budget.
        j : int
            The number of the coefficient.

        Returns
        -------
        str
            The range and, where not all simulated fits report the coefficient, the share that does.
        """
        width = _in_range(self.low[b, j], self.high[b, j])
        share = self.reported[b, j]
        return width if share == 1 else f"{width} ({text.percent(share)})"


def _names() -> FileNames:
    return _BUDGETS | FileNames({"Forecast": Forecast})


def label(budget: Budget) -> str:
    """Write a budget in a few letters."""
    if isinstance(budget, ApproxDP):
        return f"({budget.epsilon:.4g}, {budget.delta:.2g})"
    return f"rho {budget.rho:.4g}" if isinstance(budget, ZCDP) else budget.amount


def _in_range(low: float, high: float) -> str:
    """Write half-widths from one to another, in two digits; one of them if they agree."""
    ends = list(dict.fromkeys(f"{width:.2g}" for width in (low, high)))
    return f"±{' to '.join(ends)}" if np.isfinite(high) else text.NO_NUMBER


def _plus_minus(width: float) -> str:
    return f"±{width:.3g}" if np.isfinite(width) else text.NO_NUMBER


def forecast(  # noqa: PLR0913  (the public face)
    model: Any = None,
    *,
    records: int | None = None,
    budgets: Sequence[Budget] | None = None,
    half_width: float | None = None,
    coefficient: str | None = None,
    like: Any = None,
    effects: Mapping[str, float] | None = None,
    replicates: int = 20,
    seed: int = 0,
    level: float = 0.95,
    progress: Progress | None = None,
    **options: Unpack[ModelOptions],
) -> Forecast:
    """Forecast the length of the intervals of a fit, and the coefficients it will not report.

    The fit itself runs on simulated records, once per replicate.  No record is read and nothing is
    booked: a forecast uses public facts alone.

    Parameters
    ----------
    model : a dpinfer model with a formula and a schema, or a formula
        The forecast is of exactly what ``model.fit`` would do; records are simulated by what is
        ``typical`` in its schema.
    records : int, optional
        The public number of records or, where the schema has a [unit] column, of units; by default
        that of ``like``.
    budgets : sequence of budgets, optional
        The budgets to forecast; by default that of the model.
    half_width, coefficient : optional
        Find the least budget that is expected to give ± this half-width, in original units, for the
        coefficient of this name, or as the median over all but the intercept.  It is of the kind of
        the first of ``budgets``, by default (ε, 10⁻⁶); the forecast is that of the budget found.
    like : a table, optional
        Public data that are like those of the fit: its records are drawn instead of simulated.
    effects : mapping, optional
        Coefficients by name, in original units, of counts changes of the log rate; others are 0.
    replicates, seed : int
        The number of simulated fits, 20 by default, and the seed of all of them, 0 by default.
    level : float
        The confidence level; 0.95 by default.
    progress : callable, optional
        Called with the number of replicates that are done, and with that of all; in a search for a
        budget anew for each one that is tried.
    **options
        With a formula instead of a model: ``forecast(formula, schema=, target=, penalty=,
        adjacency=, ...)``.  An outcome with two levels has logistic regression, a number least
        squares.

    Returns
    -------
    Forecast
        Half-width, the range to expect and share reported, one number each per budget and
        coefficient, beside the half-width without noise.

    Raises
    ------
    InputError
        If the model has no formula or no schema, or an option is wrong.

    Examples
    --------
    >>> import dpinfer as dp
    >>> schema = dp.datasets.rand_hie().schema.guess({"physlm": {"mean": 0.1, "sd": 0.3}})
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=schema)
    >>> budgets = [dp.ApproxDP(0.5, 1e-6), dp.ApproxDP(2.0, 1e-6)]
    >>> forecast = dp.simulate.forecast(model, records=20_190, budgets=budgets, replicates=2)
    >>> small, large = forecast.half_width[:, 1]
    >>> bool(large < small)
    True
    """
    check_numbers(level, replicates, seed)
    question = _Question.of(model, options)
    data = question.records(records, like, effects)
    ahead = _Ahead(question, *data, _Run(replicates, seed, level, progress))
    if half_width is None:
        if coefficient is not None:
            raise InputError("coefficient= goes with half_width=: give both, or none")
        return ahead.forecast(question.budgets(budgets))
    start = (budgets or [ApproxDP(1.0, 1e-6)])[0]
    wanted = Wanted(half_width, coefficient, question.design.names)
    return Search(wanted, start, lambda budget: ahead.forecast([budget])).smallest_budget()


def low_budget(model: Any, records: int) -> str:
    """Return why a fit is not worth its budget by what the schema says is typical of every column; nothing
    where it does not say so.
    """
    question = _Question.of(model, {})
    if columns_without_typical(question.response, question.terms, question.schema.typical):
        return ""
    try:
        ahead = forecast(model, records=records, replicates=REPLICATES_BEFORE_FIT)
    except DpinferError:  # where there is no forecast, there is no reason
        return ""
    return ahead.low_budget()


@dataclass(frozen=True, eq=False)
class _Question:
    """A model with a formula, and what its formula and schema say."""

    model: StudiedModel
    formula: str
    schema: Schema
    response: Response
    terms: ModelTerms
    design: Design

    @classmethod
    def of(cls, model: Any, options: Mapping[str, Any]) -> "_Question":
        """Make the question of a model, or of a formula and options."""
        asked = _asked(model, options)
        formula = asked.asked_formula
        if formula is None:
            raise InputError("a forecast needs a model with a formula and a schema, or both")
        schema = Schema.of(asked.schema)
        response, terms = parse(formula, schema)
        if isinstance(asked, StudyQuestion) and asked.loss is None and not response.levels:
            asked.loss = LeastSquares()
        design = Design.of_formula(response, terms, asked.kind, schema.unit)
        return cls(asked, formula, schema, response, terms, design)

    def records(
        self, number: int | None, like: Any, effects: Mapping[str, float] | None
    ) -> tuple[Synthetic, int]:
        """Return the source of records and their number."""
        source: Synthetic
        if like is None and self.terms.effects:
            raise InputError(
                "records are made up one by one, and effects of persons need several rows of a person: give like=, a "
                "public table with ids, such as a panel of another year"
            )
        if like is None:
            source = OfGuesses(self.response, self.terms, self.design, self.schema.typical, effects)
        else:
            if effects is not None:
                raise InputError("effects= is for records that are made up: leave it out, or like=")
            table = read(like, self.response, self.terms, self.model.kind, self.schema.unit)[1]
            population = Population.of_records(table.rows())
            source = OfTable(population, self.design.unit.word)
            if number is None:
                number = population.n
        integer = isinstance(number, int) and not isinstance(number, bool)
        if number is None or not integer or not 1 <= number <= MAX_RECORDS:
            raise InputError(
                f"records= is the public number of {self.design.unit.word}, from 1 to {MAX_RECORDS:,}"
            )
        return source, number

    def budgets(self, given: Sequence[Budget] | None) -> list[Budget | None]:
        """Return the budgets that were asked for; None stands for the model's own."""
        if given is not None and len(given):
            return list(given)
        if isinstance(self.model, StudyQuestion):
            raise BudgetError("a forecast needs budgets=, for example [dp.ApproxDP(1, 1e-6)]")
        return [None]

    def recipe(self, budget: Budget | None, n: int) -> Recipe:
        """Return the recipe of a fit with this budget; None stands for the model's own."""
        model = self.model
        if budget is not None:
            if model.plan is not None:
                raise BudgetError("the model has a plan, which has its budget: leave out budgets=")
            model = copy.copy(model)
            model.budget = budget
        return model.recipe(self.design, n)


def _asked(model: Any, options: Mapping[str, Any]) -> StudiedModel:
    """Return the model, or a question made of the options in its place."""
    if is_model(model):
        return without_options(model, options)
    if model is None:
        return StudyQuestion.of(**options)
    if isinstance(model, str):
        return StudyQuestion.of(**{"formula": model, **options})
    raise InputError(
        "a forecast takes a dpinfer model, such as dp.LogisticRegression, or a formula"
    )


@dataclass(frozen=True)
class _Run:
    """The number of replicates, their seed and level, and the function that is called with the
    progress.
    """

    replicates: int
    seed: int
    level: float
    progress: Progress | None


@dataclass(frozen=True, eq=False)
class _Ahead:
    """A fit to come: what runs, on which records, how often."""

    question: _Question
    source: Synthetic
    n: int
    run: _Run

    def forecast(self, budgets: Sequence[Budget | None]) -> Forecast:
        """Run every budget on the same records with the same seeds of noise."""
        run = self.run
        recipes = [self.question.recipe(budget, self.n) for budget in budgets]
        for recipe in recipes:
            # Refuses what a fit refuses; and noise is sized once, not in every thread.
            recipe.releases(self.n)

        def work(batch: range) -> list[Array]:
            sample = self.source.sample(self.n, np.random.default_rng([run.seed, batch.start]))
            seed = noise_seed(run.seed, batch.start)
            return [
                half_widths(fit(recipe, sample, insecure_seed=seed), run.level)
                for recipe in recipes
            ]

        batches = batches_of(run.replicates, 1)
        runs = run_batches(work, batches, progress=run.progress)
        simulated = np.array([widths for _, widths in runs])
        reported = np.isfinite(simulated)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            # A coefficient that is never reported has no median.
            printed = np.where(reported, simulated, np.nan)
            median = np.nanmedian(printed, axis=0)
            ends = np.nanquantile(printed, _RANGE_QUANTILES, axis=0)
        typical = self.source.typical(self.n)
        standing = repeated(typical, self.n)
        plain = [recipe.nonprivate(typical, standing, run.level) for recipe in recipes]
        design = self.question.design
        off = self.source.off
        return Forecast(
            names=design.names,
            budgets=tuple(
                recipe.budget if budget is None else budget
                for budget, recipe in zip(budgets, recipes, strict=True)
            ),
            half_width=median,
            low=off[0] * ends[0],
            high=off[1] * ends[1],
            within=np.median(simulated, axis=0),
            reported=reported.mean(axis=0),
            nonprivate=np.array(plain),
            records=self.n,
            level=run.level,
            replicates=run.replicates,
            seed=run.seed,
            setting=f"{self.question.formula}, {design.unit.size(self.n)}",
            assumed=self.source.assumed,
            off=off,
            unstated=self.source.unstated,
        )


@dataclass(frozen=True)
class Wanted:
    """A half-width, and whose: one of the ``names`` of coefficients, or the median over all but the
    intercept.
    """

    half_width: float
    coefficient: str | None
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.coefficient is not None and self.coefficient not in self.names:
            raise InputError(
                f"there is no coefficient {self.coefficient!r}: there are {', '.join(self.names)}"
            )
        number = isinstance(self.half_width, int | float) and not isinstance(self.half_width, bool)
        if not (number and 0 < self.half_width < np.inf):
            raise InputError(f"half_width must be a positive number, not {self.half_width!r}")

    def of(self, forecast: Forecast) -> tuple[float, float]:
        """Return the half-width of a forecast that half of the replicates keep within, and that
        without noise; infinite where unknown.
        """
        places = list(range(min(1, len(self.names) - 1), len(self.names)))
        if self.coefficient:
            places = [self.names.index(self.coefficient)]
        plain = np.nan_to_num(forecast.nonprivate[0], nan=np.inf)
        return float(np.median(forecast.within[0, places])), float(np.median(plain[places]))


@dataclass
class Search:
    """The least budget of the kind of ``start`` whose ``forecast`` gives what is wanted."""

    wanted: Wanted
    start: Budget
    forecast: Callable[[Budget], Forecast]
    forecasts: dict[float, Forecast] = field(default_factory=dict)

    def smallest_budget(self) -> Forecast:
        """Return the forecast of the smallest budget that keeps within the half-width: one that is
        5 % less does not.
        """
        guess = self._guess()
        holds = self._within(guess)
        step = 1 + _CLOSE
        other = guess / step if holds else guess * step
        while self._within(other) == holds:
            guess = other
            if holds and guess < _SMALLEST:
                return self.forecasts[guess]
            if not holds and guess > _LARGEST:
                raise self._none(guess)
            step = step**2
            other = guess / step if holds else guess * step
        enough = guess if holds else other
        too_small = other if holds else guess
        return self.forecasts[boundary(self._within, enough, too_small, _CLOSE, by_ratio=True)[0]]

    def _guess(self) -> float:
        """Guess a budget: squared half-widths are those without noise plus a part that falls with
        ρ, or with ε².
        """
        amount = self._amount()
        power = 1 if isinstance(self.start, ZCDP) else 2
        for _ in range(2):
            width, plain = self._at(amount)
            while not np.isfinite(width):
                if amount > _LARGEST:
                    raise self._none(amount)
                amount *= _FAR
                width, plain = self._at(amount)
            if plain >= self.wanted.half_width:
                raise self._impossible(plain, self.forecasts[amount].records)
            noise = max(width**2 - plain**2, (_VISIBLE * plain) ** 2)
            amount *= (noise / (self.wanted.half_width**2 - plain**2)) ** (1 / power)
            amount = min(max(amount, _SMALLEST), _LARGEST)
        return amount

    def _at(self, amount: float) -> tuple[float, float]:
        if amount not in self.forecasts:
            self.forecasts[amount] = self.forecast(self._budget(amount))
        return self.wanted.of(self.forecasts[amount])

    def _within(self, amount: float) -> bool:
        return self._at(amount)[0] <= self.wanted.half_width

    def _amount(self) -> float:
        if isinstance(self.start, NoPrivacy):
            raise BudgetError(
                "a budget is searched among those of a kind: give one, as in [dp.ApproxDP(1, 1e-6)]"
            )
        return float(self.start.rho if isinstance(self.start, ZCDP) else self.start.epsilon)

    def _budget(self, amount: float) -> Budget:
        if isinstance(self.start, ApproxDP):
            return ApproxDP(amount, self.start.delta)
        return ZCDP(amount) if isinstance(self.start, ZCDP) else PureDP(amount)

    def _none(self, amount: float) -> InputError:
        bound = label(self._budget(amount))
        remedies = "; ".join(REMEDIES[:2])
        return InputError(
            f"no budget up to {bound} is expected to give ±{self.wanted.half_width:g}: {remedies}; take more records"
        )

    def _impossible(self, plain: float, records: int) -> InputError:
        wanted = self.wanted.half_width
        needed = ""
        if np.isfinite(plain):
            needed = f" (about {records * (plain / wanted) ** 2:,.3g} without privacy)"
        return InputError(
            f"no budget gives ±{wanted:g}: without privacy {records:,} records give ±{plain:.3g}; widen half_width, or "
            f"take more records{needed}"
        )
