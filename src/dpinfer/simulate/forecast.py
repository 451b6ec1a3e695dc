"""What a forecast says.

Which budget makes an interval short enough?

How long will the intervals be?  The fit itself, on made-up records, before anything is read or
booked.
"""

import copy
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer import persistence
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.choose import choose
from dpinfer.fit.linear import LeastSquares
from dpinfer.fit.recipe import Options, Recipe, fit, half_widths
from dpinfer.maths.arrays import Array, boundary
from dpinfer.maths.losses import Logistic
from dpinfer.maths.sums import MOST_RECORDS
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP
from dpinfer.result import text
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import noise_seed
from dpinfer.simulate.runner import batches_of, check, run_batches, workers_of
from dpinfer.simulate.synthetic import Alike, OfGuesses, OfTable, counted
from dpinfer.tables.table import read

if TYPE_CHECKING:
    import pandas as pd

_HALF = 0.5  # of the fits: a line that fewer of them print is likely to be open
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (PureDP, ZCDP, ApproxDP, NoPrivacy)}


@dataclass(frozen=True, eq=False)
class Forecast:
    """How long the intervals of a fit to come will be, one number a budget and coefficient.

    ``names`` are the coefficients, ``budgets`` those asked for, or the one that was found.
    ``half_width`` is the median over the replicates that report a coefficient (NaN where none
    does), and ``reported`` is their share: in the others the line is open.  ``within`` is what half
    of all replicates keep within, infinite where fewer than half report it.  ``nonprivate`` is the
    half-width of the same model without noise; it depends on the budget only where its penalty
    does.  ``records`` is the number of records, or of units; ``level``, ``replicates`` and ``seed``
    are those asked for.  ``setting`` and ``assumed`` say of what.
    """

    names: tuple[str, ...]
    budgets: tuple[Budget, ...]
    half_width: Array
    within: Array
    reported: Array
    nonprivate: Array
    records: int
    level: float
    replicates: int
    seed: int
    setting: str
    assumed: tuple[str, ...]

    def median(self, which: int = 0) -> tuple[float, float]:
        """The median half-width over coefficients but the intercept, and without noise; ``which``
        numbers the budget.

        Both are of the coefficients that are reported at all; NaN where there are none.
        """
        plain = self.nonprivate[which]
        some = np.isfinite(self.half_width[which]) & np.isfinite(plain)
        some &= np.array([name != "(Intercept)" for name in self.names]) | (len(self.names) == 1)
        if not some.any():
            return float("nan"), float("nan")
        return float(np.median(self.half_width[which][some])), float(np.median(plain[some]))

    def table(self) -> list[dict[str, Any]]:
        """One row a budget and coefficient."""
        return [
            {
                "budget": label(budget),
                "name": name,
                "half_width": float(self.half_width[b, j]),
                "nonprivate": float(self.nonprivate[b, j]),
                "reported": float(self.reported[b, j]),
            }
            for b, budget in enumerate(self.budgets)
            for j, name in enumerate(self.names)
        ]

    def to_frame(self) -> "pd.DataFrame":
        """The table as a pandas data frame, indexed by budget and coefficient."""
        import pandas as pd  # noqa: PLC0415  (heavy: loaded when a frame is asked for)

        return pd.DataFrame(self.table()).set_index(["budget", "name"])

    def summary(self) -> str:
        """Half-widths as text, one column a budget, and under it what was assumed."""
        titles: list[str] = []
        columns: list[list[str]] = []
        plain: list[str] = []
        for b, budget in enumerate(self.budgets):
            before = plain
            plain = [_half(width) for width in self.nonprivate[b]]
            if plain != before:
                titles.append("no noise")
                columns.append(plain)
            titles.append(label(budget))
            columns.append([self._cell(b, j) for j in range(len(self.names))])
        rows = [(name, [column[j] for column in columns]) for j, name in enumerate(self.names)]
        return text.stated(text.table(titles, rows, narrowest=10, gap=2), self.statements())

    def statements(self) -> list[str]:
        """What the numbers are, and what they rest on."""
        return [
            f"Half-widths of {100 * self.level:.4g}% intervals, medians of {self.replicates} simulated fits (seed "
            f"{self.seed}); in brackets how many print the line, where not all do: in the others it is open.",
            *self._likely_open(),
            f"{self.setting}.",
            f"Assumed: {'; '.join(self.assumed)}.",
            "A forecast, not a promise: no record of the fit to come was read, nothing was booked.",
        ]

    def open(self, which: int = 0) -> tuple[str, ...]:
        """The lines that fewer than half of the fits print, so that they are likely to be open.

        ``which`` numbers the budget.
        """
        return tuple(
            name
            for name, share in zip(self.names, self.reported[which], strict=True)
            if share < _HALF
        )

    def _likely_open(self) -> list[str]:
        said = []
        for b, budget in enumerate(self.budgets):
            if names := self.open(b):
                said.append(
                    f"Likely to be open at {label(budget)}: {', '.join(map(text.harmless, names))}."
                )
        return said

    def to_json(self) -> str:
        """The forecast as a JSON object."""
        return json.dumps(persistence.encode(self), ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, document: str) -> "Forecast":
        """The inverse of `to_json`; ``document`` is the text."""
        found: Forecast = persistence.decode(json.loads(document), {"Forecast": Forecast, **_KINDS})
        return found

    def _cell(self, b: int, j: int) -> str:
        share = self.reported[b, j]
        return (
            _half(self.half_width[b, j])
            if share == 1
            else f"{_half(self.half_width[b, j])} ({text.percent(share)})"
        )


def label(budget: Budget) -> str:
    """A budget in a few letters."""
    if isinstance(budget, ApproxDP):
        return f"({budget.epsilon:.4g}, {budget.delta:.2g})"
    return f"rho {budget.rho:.4g}" if isinstance(budget, ZCDP) else budget.amount


def _half(width: float) -> str:
    return f"±{width:.3g}" if np.isfinite(width) else text.NOTHING


_LEAST, _MOST = 1e-3, 1e3  # ε and ρ that are searched
_CLOSE = 0.05  # how closely a budget is found
_FAR = 4.0  # a step where nothing is known
_VISIBLE = 1e-2  # of a half-width: noise that is less is taken for this much


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
        known = isinstance(self.half_width, int | float) and not isinstance(self.half_width, bool)
        if not (known and 0 < self.half_width < np.inf):
            raise InputError(f"half_width must be a positive number, not {self.half_width!r}")

    def of(self, seen: Forecast) -> tuple[float, float]:
        """That of a forecast: what half of the replicates keep within, and without noise; infinite
        where unknown.
        """
        first = min(1, len(self.names) - 1)
        some = (
            [self.names.index(self.coefficient)]
            if self.coefficient
            else range(first, len(self.names))
        )
        plain = np.nan_to_num(seen.nonprivate[0], nan=np.inf)
        return float(np.median(seen.within[0, some])), float(np.median(plain[some]))


@dataclass
class Search:
    """The least budget of the kind of ``start`` whose ``forecast`` gives what is wanted."""

    wanted: Wanted
    start: Budget
    forecast: Callable[[Budget], Forecast]
    seen: dict[float, Forecast] = field(default_factory=dict)

    def least(self) -> Forecast:
        """The forecast of the budget found: it keeps within what is wanted, and one that is 5 %
        less does not.
        """
        guess = self._guess()
        holds, step = self._within(guess), 1 + _CLOSE
        while self._within(other := guess / step if holds else guess * step) == holds:
            guess, step = other, step**2
            if holds and guess < _LEAST:
                return self.seen[guess]
            if not holds and guess > _MOST:
                raise self._none(guess)
        enough, little = (guess, other) if holds else (other, guess)
        return self.seen[boundary(self._within, enough, little, _CLOSE, by_ratio=True)[0]]

    def _guess(self) -> float:
        """By the law that squared half-widths are those without noise plus a part that falls with
        ρ, or with ε².
        """
        amount, power = self._amount(), 1 if isinstance(self.start, ZCDP) else 2
        for _ in range(2):
            width, plain = self._at(amount)
            while not np.isfinite(width):
                if amount > _MOST:
                    raise self._none(amount)
                amount *= _FAR
                width, plain = self._at(amount)
            if plain >= self.wanted.half_width:
                raise self._impossible(plain, self.seen[amount].records)
            noise = max(width**2 - plain**2, (_VISIBLE * plain) ** 2)
            amount *= (noise / (self.wanted.half_width**2 - plain**2)) ** (1 / power)
            amount = min(max(amount, _LEAST), _MOST)
        return amount

    def _at(self, amount: float) -> tuple[float, float]:
        if amount not in self.seen:
            self.seen[amount] = self.forecast(self._budget(amount))
        return self.wanted.of(self.seen[amount])

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
        most, remedies = label(self._budget(amount)), "; ".join(text.REMEDIES[:2])
        return InputError(
            f"no budget up to {most} is expected to give ±{self.wanted.half_width:g}: {remedies}; take more records"
        )

    def _impossible(self, plain: float, records: int) -> InputError:
        wanted = self.wanted.half_width
        needed = (
            f" (about {records * (plain / wanted) ** 2:,.3g} without privacy)"
            if np.isfinite(plain)
            else ""
        )
        return InputError(
            f"no budget gives ±{wanted:g}: without privacy {records:,} records give ±{plain:.3g}; widen half_width, or "
            f"take more records{needed}"
        )


def forecast(  # noqa: PLR0913  (the public face)
    formula: str | None = None,
    *,
    schema: Schema | None = None,
    records: int | None = None,
    budgets: Sequence[Budget] | None = None,
    half_width: float | None = None,
    coefficient: str | None = None,
    like: Any = None,
    model: Any = None,
    effects: Mapping[str, float] | None = None,
    target: str | None = None,
    penalty: float | None = None,
    neighbours: str | None = None,
    replicates: int = 20,
    seed: int = 0,
    level: float = 0.95,
) -> Forecast:
    """How long the intervals of a fit will be, and which lines will be open, from public facts
    alone.

    The fit itself runs on made-up records, as often as there are replicates.  No record is read and
    nothing is booked.

    Parameters
    ----------
    formula, schema : optional
        The question, and what is public about the columns; what is ``typical`` in the schema is
        what records are made of.  An outcome with two levels has logistic regression, a number
        least squares.
    records : int, optional
        The public number of records or, where the schema has a [unit] column, of units; by default
        that of ``like``.
    budgets : sequence of budgets, optional
        A forecast for each; by default that of ``model``.
    half_width, coefficient : optional
        Find the least budget that is expected to give ± this half-width, in original units, for the
        coefficient of this name, or as the median over all but the intercept.  It is of the kind of
        the first of ``budgets``, by default (ε, 1e-6); the forecast is that of the budget found.
    like : a table, optional
        Public data that are like those of the fit: its records are drawn instead of made up.
    model : a dpinfer model, optional
        Forecast exactly what ``model.fit`` would do, with its formula and schema.
    effects : mapping, optional
        Coefficients by name, in original units; others are 0.
    target, penalty, neighbours : optional
        As for the models.
    replicates, seed : int
        Simulated fits, and the seed of all of them.
    level : float
        Of the intervals.

    Returns
    -------
    Forecast
        Half-width and share reported, one number a budget and coefficient, beside the half-width
        without noise.
    """
    check(level, replicates, seed)
    options = Options(Logistic(), None, None, target, penalty, neighbours)
    asked = (
        _Asked(formula, schema, options)
        if model is None
        else _Asked.of_model(model, formula, schema, options)
    )
    ahead = asked.ahead(records, like, effects, _Run(replicates, seed, level))
    if half_width is None:
        if coefficient is not None:
            raise InputError("coefficient= goes with half_width=: give both, or none")
        return ahead.forecast(asked.budgets(budgets))
    start = (budgets or [ApproxDP(1.0, 1e-6)])[0]
    wanted = Wanted(half_width, coefficient, ahead.design.names)
    return Search(wanted, start, lambda budget: ahead.forecast([budget])).least()


@dataclass(frozen=True, eq=False)
class _Asked:
    """The question, and the options or the model that make a recipe of it."""

    formula: str | None
    schema: Schema | None
    options: Options
    model: Any = None

    @classmethod
    def of_model(
        cls, model: Any, formula: str | None, schema: Schema | None, options: Options
    ) -> "_Asked":
        if (
            formula is not None
            or schema is not None
            or (options.target or options.penalty or options.neighbours)
        ):
            raise InputError("model= brings its formula, schema and options: leave out all others")
        if not hasattr(model, "recipe") or model.formula is None:
            raise InputError("model= takes a dpinfer model with a formula and a schema")
        return cls(model.formula, model.schema, options, model)

    def ahead(
        self, records: int | None, like: Any, effects: Mapping[str, float] | None, how: "_Run"
    ) -> "_Ahead":
        """What runs, for so many records."""
        if self.formula is None:
            raise InputError("a forecast needs a formula and schema=, or model=")
        response, terms = parse(self.formula, self.schema)
        assert self.schema is not None
        kind = "margin" if response.levels else "residual"
        if self.model is not None:
            kind = self.model.kind
        design = Design.of_formula(response, terms, kind, self.schema.unit)
        alike: Alike
        if like is None:
            alike = OfGuesses(response, terms, design, self.schema.typical, effects)
        else:
            if effects is not None:
                raise InputError("effects= is for records that are made up: leave it out, or like=")
            population = Population.of_records(
                read(like, response, terms, kind, self.schema.unit)[1].rows()
            )
            alike = OfTable(population, design.unit.word)
            records = population.n if records is None else records
        if (
            isinstance(records, bool)
            or not isinstance(records, int)
            or not 1 <= records <= MOST_RECORDS
        ):
            raise InputError(
                f"records= is the public number of {design.unit.word}, from 1 to {MOST_RECORDS:,}"
            )
        return _Ahead(self, design, kind, alike, records, how)

    def budgets(self, given: Sequence[Budget] | None) -> list[Budget | None]:
        """Those asked for; None stands for the model's own."""
        if given is not None and len(given):
            return list(given)
        if self.model is None:
            raise BudgetError("a forecast needs budgets=, for example [dp.ApproxDP(1, 1e-6)]")
        return [None]


@dataclass(frozen=True)
class _Run:
    replicates: int
    seed: int
    level: float


@dataclass(frozen=True, eq=False)
class _Ahead:
    """A fit to come: what runs, on which records, how often."""

    asked: _Asked
    design: Design
    kind: str
    alike: Alike
    n: int
    how: _Run

    def forecast(self, budgets: Sequence[Budget | None]) -> Forecast:
        """Run every budget on the same records with the same seeds of noise."""
        recipes = [self.recipe(budget) for budget in budgets]
        for recipe in recipes:
            recipe.releases(
                self.n
            )  # refuses what a fit refuses; and noise is sized once, not in every thread

        def work(batch: range) -> Array:
            source = self.alike.sample(self.n, np.random.default_rng([self.how.seed, batch.start]))
            seed = noise_seed(self.how.seed, batch.start)
            return np.array(
                [
                    half_widths(fit(recipe, source, insecure_seed=seed), self.how.level)
                    for recipe in recipes
                ]
            )

        batches = batches_of(self.how.replicates, 1)
        found = np.array([half for _, half in run_batches(work, batches, workers_of(), False)])
        reported = np.isfinite(found)
        with warnings.catch_warnings(
            action="ignore", category=RuntimeWarning
        ):  # a coefficient that is never reported
            half_width = np.nanmedian(np.where(reported, found, np.nan), axis=0)
        typical = self.alike.typical(self.n)
        standing = counted(typical, self.n)
        return Forecast(
            names=self.design.names,
            budgets=tuple(
                recipe.budget if b is None else b
                for b, recipe in zip(budgets, recipes, strict=True)
            ),
            half_width=half_width,
            within=np.median(found, axis=0),
            reported=reported.mean(axis=0),
            nonprivate=np.array(
                [recipe.nonprivate(typical, standing, self.how.level) for recipe in recipes]
            ),
            records=self.n,
            level=self.how.level,
            replicates=self.how.replicates,
            seed=self.how.seed,
            setting=f"{self.asked.formula}, {self.design.unit.size(self.n)}",
            assumed=self.alike.assumed,
        )

    def recipe(self, budget: Budget | None) -> Recipe:
        """What a fit with this budget runs; None stands for the model's own."""
        if self.asked.model is None:
            loss = Logistic() if self.kind == "margin" else LeastSquares()
            return choose(self.design, replace(self.asked.options, loss=loss, budget=budget))
        model = copy.copy(self.asked.model)
        if budget is not None:
            if model.plan is not None:
                raise BudgetError("the model has a plan, which has its budget: leave out budgets=")
            model.budget = budget
        recipe: Recipe = model.recipe(self.design, self.n)
        return recipe
