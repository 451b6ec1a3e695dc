"""Statements of a result: its model, its promise, and everything else that was released.

`Model` says what was estimated and `Privacy` what was promised, each with its words for people.  A
fit in a released geometry publishes that `Geometry` beside its coefficients, and least squares also
the `Band` within which outcomes count.  The constants are the words for the status of a
coefficient.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.step_sums import row_weights
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FAMILIES, Family
from dpinfer.privacy.budget import Budget, NoPrivacy, PureDP, weak_delta
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import Release
from dpinfer.schema.unit import ROW, Unit

REPORTED = "reported"
"""The status of a coefficient with an interval; every other status says why there is none."""
NOT_REPORTED = "not reported"
"""What a cell says in the place of an interval, and how the status begins: a colon and the reason
follow."""
TOO_NOISY = (
    f"{NOT_REPORTED}: too noisy at this budget to tell the effect from none or from a large one"
)
TOO_FEW_EVENTS = f"{NOT_REPORTED}: too few events of one kind at this budget"
TOO_FEW_RECORDS = f"{NOT_REPORTED}: too few records of this level at this budget"
"""The status of a rare level in a regression of numbers, which has no events."""
REFERENCE_TOO_FEW_EVENTS = (
    f"{NOT_REPORTED}: its reference level has too few events of one kind at this budget"
)
REFERENCE_TOO_RARE = (
    f"{NOT_REPORTED}: its reference level is too rare to compare with at this budget"
)
OTHER_REFERENCE = "; take a common one, such as {level}: C({factor}, level)"
FAR_RECORDS = (
    f"{NOT_REPORTED}: records beyond about {{low:.4g}}..{{high:.4g}} may change it too much at this "
    "budget; declare narrower bounds where true, or take a logarithm"
)
NOT_SEPARABLE = (
    f"{NOT_REPORTED}: its effect cannot be separated from that of other columns, mainly {{other}}, "
    "at this budget"
)
INTERCEPT_NOT_REPORTED = (
    f"{NOT_REPORTED}: the intercept depends on coefficients that are not reported"
)
INTERCEPT_ABSORBED = f"{NOT_REPORTED}: every person has an intercept of its own"
NO_EVENTS_AT_ALL = (
    "not identified: there may be no events at this budget, or the pilot estimate is too far off; "
    "give a larger budget or tighter bounds of the outcome"
)
UNIDENTIFIED = "not identified: at this budget it is not sure that both outcomes are there"
NOT_IDENTIFIED = "not identified at this budget"
"""Status of the unpenalised coefficients where noise hides the smallest curvature."""
ALIASED = "not identified: the records do not tell this column apart from others"
SEPARATED = "not identified: a line through the columns separates the outcomes, or there are none"
BY_RECORDS = (ALIASED, SEPARATED)
"""Statuses of coefficients that the records do not determine, without any noise."""
UNUSABLE = f"{NOT_REPORTED}: most of the table could not be used, see the warning"
"""Status of whatever has no interval where few records were usable: nothing else is the reason then."""
MAYBE_UNUSABLE = (
    f"{NOT_REPORTED}: records that could not be used may be the reason, see the warning"
)
"""Status of the same where only a part of the records was unusable: they may be all that a column had."""
BY_UNUSABLE = (UNUSABLE, MAYBE_UNUSABLE)
ADD_DELTA = "give a delta beside epsilon, for example 1e-6, or a budget in rho"
SHRINKS = (
    "shrinks the vector of coefficients of the scaled rows as a whole. A single one may come out "
    "nearer to 0, farther from it or with the other sign. Which of these is unknown without the data"
)
"""What a penalty does."""

WITHIN = "within"
"""The target of regressions with effects of persons: the coefficients of the within estimator."""
_EFFECTS = (
    "Every unit has an intercept of its own, so that only changes within units count. A unit with one row, and a "
    "column that never changes within a unit, add nothing"
)
_SHOWN = 3  # names in one sentence
_FARTHEST = 300.0  # of a predictor: beyond, its exponential would be too large for squares


@dataclass(frozen=True)
class Words:
    """A recipe in words, written by itself: what a report calls the model, what its intervals are
    ``about``, how to cite the ``method``.
    """

    name: str = ""
    about: str = ""
    method: str = ""


@dataclass(frozen=True)
class Model:
    """The estimated model.

    ``of`` is what the loss is a function of, the margin or the residual.  A residual is in the
    units of the outcome:  ``centre`` is the middle of its declared range, and the penalty c‖θ‖²,
    with c for an outcome scaled to [-1, 1], is c‖θ‖²/``penalty_scale`` in the same objective in
    those units.  ``unit`` says what a row counts; ``n`` is the public number of records or, with
    ids, of units.
    """

    loss: str
    penalty: float
    n: int | None
    target: str
    mechanism: str
    recipe: str
    of: str = "margin"
    centre: float = 0.0
    penalty_scale: float = 1.0
    unit: Unit = ROW
    words: Words = Words()

    @property
    def effects(self) -> bool:
        """Whether every unit has an intercept of its own."""
        return self.target == WITHIN

    @property
    def logistic(self) -> bool:
        """Whether the linear predictor is a log-odds."""
        return self.of == "margin" and self.loss == "Logistic()"

    @property
    def counts(self) -> bool:
        """Whether the linear predictor is the logarithm of a rate."""
        return self.of == "count"

    @property
    def hazards(self) -> bool:
        """Whether the linear predictor is the logarithm of a hazard."""
        return self.of == "hazard"

    def estimand(self) -> str:
        """Say which number the intervals are about, without the last full stop."""
        return ". ".join([self.words.about, *self.counting()])

    def counting(self) -> list[str]:
        """Say the weight of a row and whose average it is; nothing where all records have equal weights."""
        if self.effects:
            return [*weighing(self.unit), _EFFECTS]
        return counting(self.unit)

    @property
    def estimand_in_short(self) -> str:
        """Return the first clause of `estimand`, and how much a row counts where rows differ."""
        clause = re.split("[,.:;] ", self.words.about)[0]
        if self.unit.weights:
            return f"{clause}, by sampling weights"
        if self.unit.every:
            return f"{clause}, every row once"
        if self.unit.many and self.unit.rows == 1:
            return f"{clause}, every unit once"
        if self.unit.many:
            return f"{clause}, up to {self.unit.rows:g} rows per unit"
        return clause

    @property
    def fitted(self) -> str:
        """How it was fitted; a recipe is named where there is more than one for the mechanism."""
        if self.recipe == "steps":
            return self.mechanism
        return f"{self.mechanism} with the recipe “{self.recipe}”"

    @property
    def weighted(self) -> bool:
        """Whether rows count by sampling weights."""
        return bool(self.unit.weights)


def unasked(lack: str, remedy: str) -> str:
    """Return the note on a penalty that nobody asked for, with the reason why the fit has one."""
    return (
        f"Without {lack} logistic regression is fitted with a penalty, which {SHRINKS}. So this is not "
        "what the usual fit estimates, and no coefficient can be read as if it were. For a fit without "
        f"a penalty, {remedy}."
    )


def penalty_note(model: Model, budget: Budget) -> str:
    """Return the same note for a result; empty if its penalty does not follow from the budget."""
    if not model.logistic or model.target != "penalised" or not isinstance(budget, PureDP):
        return ""
    return unasked("a delta", ADD_DELTA)


def counting(unit: Unit) -> list[str]:
    """Say the weight of a row in a regression and whose average it is; nothing where all records
    have equal weights.
    """
    statements = weighing(unit)
    if unit.many:
        statements.append(
            "It is averaged over the population, not specific to a unit: no unit has an effect of its own"
        )
    return statements


def weighing(unit: Unit) -> list[str]:
    """Say the weight of a row; nothing where all records have equal weights."""
    statements = []
    if unit.many:
        statements.append(f"All rows with one id are {unit.name}, called a unit here")
    if unit.weights:
        heavy = "Records that weigh"
        if unit.many:
            heavy = "Units whose weights add up to"
        statements += [
            "Rows count by their sampling weights, so this is about the population that the weights "
            "stand for",
            f"{heavy} more than {unit.max_weight:g} are trimmed to it",
        ]
    elif unit.every:
        statements.append(
            "Every row counts once, so this is about the average row, as in the usual regression with "
            "standard errors by cluster. A unit is bounded as a whole, whatever its number of rows"
        )
    elif unit.many and unit.rows == 1:
        statements.append(
            "Every unit counts once, whatever its number of rows: this is about the average unit, not "
            "the average row"
        )
    elif unit.many:
        statements.append(
            f"Rows count alike up to {unit.rows:g} per unit, and a unit with more of them counts as "
            f"{unit.rows:g} rows"
        )
    return statements


def errors_counted(budget: Budget) -> str:
    """Say which errors the intervals count."""
    if isinstance(budget, NoPrivacy):
        return "The intervals count the sampling error; there is no privacy noise."
    return "The intervals count both the sampling error and the privacy noise."


def several(names: Sequence[str], count: int = _SHOWN) -> str:
    """List the first names for a sentence, and how many more there are."""
    listed = ", ".join(names[:count])
    if len(names) > count:
        listed += f" and {len(names) - count} more"
    return listed


@dataclass(frozen=True, eq=False)
class Geometry:
    """The released facts that a fit in a released geometry publishes beside its coefficients, in
    original units.

    ``columns`` are those of the formula, the intercept first.  The reported intercept is the linear
    predictor at ``centre``, which has one number for every other column.  ``records`` is the number
    of records, noisy where it is private.  ``low`` and ``high`` are the released range of every
    other column, its public one where none was needed; ``clipped`` names the numbers that the fit
    has winsorised: values beyond ``low`` and ``high`` count as these.

    A record with columns x counts with the weight min(1, 1/‖v‖², B/(‖A (1, x)‖ max(p, 1 - p))) in a
    logistic fit, with A the ``preconditioner``, v = sqrt(p (1 - p)) A (1, x), p the probability at
    ``pilot_coef`` and B ``max_influence``; in least squares with min(1, 1/‖A (1, x)‖²); and in a fit
    of counts with min(1, 1/(μ‖A (1, x)‖²)), μ the mean at ``pilot_coef`` and the exposure.
    """

    columns: tuple[str, ...]
    family: str
    preconditioner: Array
    pilot_coef: Array
    max_influence: float
    centre: Array
    records: float
    low: Array
    high: Array
    clipped: tuple[str, ...] = ()

    def at(self, names: tuple[str, ...]) -> str:
        """Name the centre; ``names`` are those of the coefficients, the intercept first."""
        pairs = zip(names[1:], self.centre, strict=True)
        listed = ", ".join(f"{name} = {value:.4g}" for name, value in pairs)
        return f"Released centre: {listed or 'none, as there is no column'}."

    def ranges(self) -> dict[str, str]:
        """Return the range of each winsorised number, as low..high."""
        places = [self.columns[1:].index(name) for name in self.clipped]
        return {
            name: f"{self.low[j]:.4g}..{self.high[j]:.4g}"
            for name, j in zip(self.clipped, places, strict=True)
        }

    def winsorised(self) -> str:
        """Name the winsorised numbers with their ranges, in one sentence."""
        listed = ", ".join(f"{name} to {ends}" for name, ends in self.ranges().items())
        return f"Winsorised: {listed}."

    def clippings(self, *, within: bool = False) -> list[str]:
        """Say which numbers were winsorised, and what that means; nothing where none was.

        With effects of persons, ``within``, they are deviations from the means of a unit.
        """
        if not self.clipped:
            return []
        if within:
            return [
                f"{self.winsorised()} These are deviations from the mean of a unit, and those beyond a range count as "
                "its end. The interval of such a coefficient allows for the bias that the released counts leave "
                "possible."
            ]
        return [
            f"{self.winsorised()} Values beyond a range count as its end, in the fit and in "
            "predictions. The interval of such a coefficient allows for the bias that the released "
            "counts leave possible."
        ]

    def inside(self, rows: Array) -> Array:
        """Winsorise rows of columns in original units as the fit did."""
        clipped = np.isin(self.columns[1:], self.clipped)
        return np.asarray(np.where(clipped, np.clip(rows, self.low, self.high), rows))

    def row_weights(self, rows: Array, offset: Array | float = 0.0) -> Array:
        """Return the weights of records, from ``columns[1:]`` in original units and the logarithms
        of their exposures.
        """
        design = np.column_stack([np.ones(len(rows)), self.inside(rows)])
        family = FAMILIES[self.family]
        predictor = _near(design @ self.pilot_coef + offset, family)
        return row_weights(family, design @ self.preconditioner.T, predictor, self.max_influence)


def _near(predictor: Array, family: Family) -> Array:
    """Clip predictors so that their exponential is finite."""
    if family.exact:
        return predictor
    return np.clip(predictor, -_FARTHEST, _FARTHEST)


@dataclass(frozen=True)
class Privacy:
    """The promise, the unit it protects, and the releases it covers; ``release`` is the ledger's
    name for them.
    """

    budget: Budget
    unit: str
    events: tuple[Release, ...]
    in_ledger: bool
    private: bool
    neighbours: Adjacency = Adjacency.REPLACE
    release: str | None = None

    @property
    def scope(self) -> str:
        """Who is protected by more or less than the promise says."""
        if not self.neighbours.units:
            return "Someone behind several such units is protected less."
        return (
            "All rows with one id are protected together, however many there are. A person with two "
            "ids is two units, and columns that were computed from other units' rows void the promise."
        )

    def fault_against(self, entry: Entry | None) -> str | None:
        """Say why this is not what a ledger has under its release id; None if it is.

        ``entry`` is the one with that id, None where there is none.
        """
        if entry is None:
            return "is not in this ledger"
        booked = (entry.events, entry.unit, entry.neighbours)
        if (self.events, self.unit, self.neighbours) != booked:
            return "names other releases than those booked under its id"
        return None

    def alarms(self, n: int | None = None) -> list[str]:
        """List what makes the promise void, weak or uncounted; ``n`` is the number of records or
        units where it is public.
        """
        notes = []
        if not self.private:
            notes.append(
                "NOT PRIVATE: the noise was off or came from a known seed. Do not publish."
            )
        weakness = weak_delta(self.budget, n)
        if weakness:
            notes.append(weakness)
        if not self.in_ledger:
            notes.append(
                "Nothing was booked: no ledger was given, so other releases from these data are not "
                "counted."
            )
        return notes

    def caveats(self, n: int | None = None, *, weighted: bool = False) -> tuple[str, ...]:
        """List what the promise does not cover, the alarms first."""
        notes = self.alarms(n)
        if self.private:
            notes.append(
                "The noise is exact to the last digit published. The promise rests on the random bits "
                "of the operating system, and does not cover what time or memory may tell "
                "(SECURITY.md of dpinfer)."
            )
        if weighted:
            notes.append(
                "The promise is for given weights. Weights that were raked or calibrated to the margins "
                "of these very data reveal something about everybody else, which is not covered."
            )
        notes.append(
            "Intervals rest on a large-sample approximation; they say nothing about bias in the data."
        )
        return tuple(notes)


@dataclass(frozen=True, eq=False)
class Band:
    """The limits to which outcomes of a fit of numbers or counts are clipped, in units of the outcome.

    The outcome of a record with columns x is clipped to h ± ``clip``/(w‖A (1, x)‖), with w and A of
    the geometry and h = ``pilot_coef`` · (1, x) or, for counts, its exponential times the exposure.
    ``width`` is the half width for a record of average influence, ``excess`` the estimated mean of
    the clipped part, for which intervals allow, ``limit`` an upper bound of it that holds in about
    39 of 40 fits, ``low`` and ``high`` the range of outcomes for which the pilot coefficients were
    estimated.
    """

    pilot_coef: Array
    clip: float
    width: float
    excess: float
    low: float
    high: float
    limit: float

    def pulled(
        self, geometry: Geometry, rows: Array, outcomes: Array, offset: Array | float = 0.0
    ) -> Array:
        """Clip outcomes to the band; ``rows`` are the columns of the geometry in original units,
        ``offset`` the logarithms of exposures.
        """
        inside = geometry.inside(rows)
        predictor = self.pilot_coef[0] + inside @ self.pilot_coef[1:] + offset
        family = FAMILIES[geometry.family]
        fitted = family.mean(_near(predictor, family))
        half = self.half_width(geometry, rows, offset)
        return np.asarray(fitted + np.clip(outcomes - fitted, -half, half))

    def half_width(self, geometry: Geometry, rows: Array, offset: Array | float = 0.0) -> Array:
        """Return the half width of the band for each row."""
        inside = geometry.inside(rows)
        u = np.column_stack([np.ones(len(rows)), inside]) @ geometry.preconditioner.T
        influence = geometry.row_weights(rows, offset) * np.linalg.norm(u, axis=1)
        return np.asarray(self.clip / np.maximum(influence, np.finfo(float).tiny))

    def _cut_off(self) -> str:
        """Say how much is clipped, as far as it can be seen, and which intervals allow for it."""
        return (
            f"What lies beyond is cut off: {self.excess:.2g} on average, by the tail that the budget can "
            "see. The interval of the intercept allows for all of it. Those of other coefficients allow "
            "for its bias as if it spread like the sampling error. They allow for more along numbers "
            "whose values far out may not follow the model."
        )

    def of_counts(self) -> list[str]:
        """Describe the band of a regression of counts."""
        return [
            f"Outcomes count within {self.width:.4g} of the released line, for a record of average "
            "influence; closer for records far out.",
            self._cut_off(),
            f"The noise in the counts may hide more: up to {self.limit:.2g} on average, in about 39 of "
            "40 fits. That is what records at the declared bound of the outcome would leave. Then the "
            "intercept is the level of outcomes in the band, and slopes may be off as well.",
        ]

    def statements(self, target: str) -> list[str]:
        """Describe the band of a least-squares fit."""
        drawn = f"line was drawn from outcomes between {self.low:.4g} and {self.high:.4g}."
        if target == "robust":
            return [
                f"Residuals count up to {self.width:.4g} either way, for a record of average "
                "influence; less for records far out. About one in ten is larger. A first "
                f"{drawn}"
            ]
        within = (
            f"Outcomes count within {self.width:.4g} of the released line, for a record of average "
            f"influence; closer for records far out. The {drawn}"
        )
        if self.excess == 0:
            beyond = (
                "Nobody is clipped whose prediction is within the declared range of the outcome."
            )
        else:
            beyond = (
                f"{self._cut_off()} The noise may hide more: up to {self.limit:.2g} on average, in about "
                "39 of 40 fits, as a few records far out would leave. Then the intercept is the level of "
                "outcomes in the band, and the ordinary one may lie outside its interval by that much. "
                "Slopes may be off as well. Where an outcome has a long tail (amounts, counts), take its "
                "logarithm, or ask for a cautious tail. Only the whole tail leaves nothing hidden, at the "
                "price of noise for the whole declared range."
            )
        return [within, beyond]
