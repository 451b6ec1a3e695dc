"""What a result says of itself: what was estimated, and what was promised about whom."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpinfer.data.unit import ROW, Unit
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import row_weights
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget, NoPrivacy, PureDP, weak_delta
from dpinfer.privacy.release import Release

REPORTED = "reported"
"""The status of a coefficient with an interval; every other status says why there is none."""
IN_MODEL = "in the model without an interval: not clear of the noise at this budget"
IN_MODEL_FEW = "in the model without an interval: too few events of one kind"
IN_MODEL_FAR = (
    "in the model without an interval: its tail is too long for it to be fitted, and others may be off by part of its "
    "effect; tighter bounds or a logarithm would help"
)
LEFT_OUT = "left out: not clear of the noise at this budget"
FEW_EVENTS = "left out: too few events of one kind"
DROPPED = "left out before the fit: too little information at this budget"
UNIDENTIFIED = "set aside: the fit as a whole is not identified at this budget"
NOT_IDENTIFIED = "not identified at this budget"
"""Status of the unpenalised coefficients where noise hides the smallest curvature."""
ADD_DELTA = "give a delta beside epsilon, for example 1e-6, or a budget in rho"
WITHOUT_NOISE = "ask for the target 'unpenalised'"
SIGN = "†"
"""Beside the name of a coefficient whose meaning depends on what was left out."""
_SHOWN = 3  # names in one sentence


@dataclass(frozen=True)
class Model:
    """What was estimated.

    ``of`` is what the loss is a function of, the margin or the residual.  A residual is in the units of the outcome:
    ``centre`` is the middle of its declared range, and the penalty c‖θ‖², with c for an outcome scaled to [-1, 1], is
    c‖θ‖²/``unit`` in the same objective in those units.  ``whom`` says what a row counts; ``n`` is the public number of
    records or, with ids, of units.
    """

    loss: str
    penalty: float
    n: int | None
    target: str
    mechanism: str
    recipe: str
    of: str = "margin"
    centre: float = 0.0
    unit: float = 1.0
    whom: Unit = ROW

    @property
    def logistic(self) -> bool:
        """Whether the linear predictor is a log-odds."""
        return self.of == "margin" and self.loss in ("Logistic()", "CappedLogistic()")

    def estimand(self) -> str:
        """The number that the intervals are about, in words."""
        return "; ".join([self._of_population(), *counting(self.whom)])

    @property
    def weighted(self) -> bool:
        """Whether rows count by sampling weights."""
        return bool(self.whom.weights)

    def _of_population(self) -> str:
        one = "row" if self.whom.many else "record"
        if self.target in ("weighted", "unweighted"):
            return _without_penalty(self.target, one)
        if self.target in ("mean", "robust"):
            return _of_squares(self.target, one)
        risk = f"E[f({'y θ·x' if self.of == 'margin' else 'y - θ·x'})] with f = {self.loss}"
        where = "x the bounded row" + (f", y the outcome less {self.centre:.6g}" if self.centre else "")
        if self.target == "unpenalised":
            return f"the minimiser of the population risk {risk}, {where}"
        size = "c‖θ‖²" + (f"/{self.unit:.6g}" if self.unit != 1 else "")
        if not self.whom.whole:
            risk += ", E the mean over units of what their rows add, so that c weighs the more the less a row counts,"
        other = (
            ""
            if self.of == "margin"
            else "; for the coefficients of ordinary least squares use the model linear (LinearRegression)"
        )
        return (
            f"the minimiser of the penalised population risk {risk} plus {size}, c = {self.penalty:.6g}, {where}; "
            f"a penalty pulls coefficients towards 0, so this is not the unpenalised coefficient{other}"
        )


def unasked(lack: str, remedy: str) -> str:
    """What a fit says that has a penalty which nobody asked for, because of what was not given."""
    return (
        f"Without {lack} logistic regression is fitted with a penalty, which pulls coefficients towards 0: what is "
        f"estimated is not what the usual fit estimates. For a fit without a penalty {remedy}."
    )


def penalty_note(model: Model, budget: Budget) -> str:
    """The same of a result, from what it says of itself; empty where a penalty is not due to the budget."""
    if not model.logistic or model.target != "penalised":
        return ""
    if isinstance(budget, NoPrivacy):
        return unasked("noise", WITHOUT_NOISE)
    return unasked("a delta", ADD_DELTA) if isinstance(budget, PureDP) else ""


def counting(whom: Unit) -> list[str]:
    """What a row counts and whose average it is, in words; nothing where every record counts alike."""
    said = []
    if whom.many:
        said.append(f"all rows with one id are {whom.name}, called a unit here")
    if whom.weights:
        one = "units whose weights add up to more than" if whom.many else "records that weigh more than"
        said.append(
            "rows count by their sampling weights, so this is about the population that the weights stand for, but for "
            f"{one} {whom.most_weight:g}: these are trimmed to it"
        )
    elif whom.many and whom.rows == 1:
        said.append(
            "every unit counts alike, whatever its number of rows, so this is about the average unit, not the average "
            "row"
        )
    elif whom.many:
        said.append(
            f"rows count alike up to {whom.rows:g} a unit, and a unit with more of them counts as {whom.rows:g} rows"
        )
    if whom.many:
        said.append("it is averaged over the population, not specific to a unit: no unit has an effect of its own")
    return said


def _without_penalty(target: str, one: str) -> str:
    """What the intervals of a weighted or unweighted fit are about."""
    counted = {
        "weighted": "the loss is the logistic one capped at c = .8 (docs/geometry.md of dpinfer), which a right model "
        f"does not notice, and a {one} x counts with the weight min(1, 1/‖A (1, x)‖²), A released with the result: 1 "
        f"for most {one}s, less for those far out",
        "unweighted": "every record counts fully" if one == "record" else "no row counts less for being far out",
    }[target]
    return (
        "the coefficients of a logistic regression in the population, without a penalty, on the columns that are in "
        f"the model, with or without an interval; {counted}; what is left out is not in that model, a level that is "
        "left out counts as its reference; the intercept is the log-odds at the released centre"
    )


def _of_squares(target: str, one: str) -> str:
    """What the intervals of a least-squares fit are about."""
    fitted = {
        "mean": "the coefficients of weighted least squares in the population, of the outcome pulled into a released "
        "band around a released line; it is ordinary least squares where nobody is clipped and every weight is 1",
        "robust": "the coefficients of a Huber regression in the population, whose residuals are pulled into a "
        "released band; they are not those of least squares, and no stand-in for them",
    }[target]
    return (
        f"{fitted}; a {one} x counts with the weight min(1, 1/‖A (1, x)‖²), A released with the result: 1 for most "
        f"{one}s, less for those far out; the columns are those that are in the model, with or without an interval; "
        "what is left out is not in that model, a level that is left out counts as its reference; the intercept is the "
        "prediction at the released centre"
    )


def several(names: Sequence[str], most: int = _SHOWN) -> str:
    """Some names in a sentence, the first of them."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def left_out(reason: str, twin: str | None, carriers: Sequence[str]) -> str:
    """The status of a column that is not in the model: why, and which coefficients its effect may be in."""
    if twin is not None:
        return f"left out: cannot be told apart from {twin} at this budget"
    return f"{reason}; its effect may be in {several(carriers)}" if carriers else reason


@dataclass(frozen=True, eq=False)
class Geometry:
    """The released geometry, in original units.

    ``columns`` are those of the fit, the intercept first.  A record with columns x (clipped to their bounds) has the
    weight min(1, 1/‖A (1, x)‖²), A the ``preconditioner``.  The reported intercept is the linear predictor at
    ``centre``, which has one number a column of the design.  ``records`` is the number of records, noisy where it is
    private.

    ``in_model`` are the columns of the model that the intervals are about, the intercept first; ``left_out`` are all
    others, of which ``dropped`` did not enter the fit.  ``partners`` names, for each coefficient, the columns left out
    that plausibly matter for it.  ``full_model_reading`` is True for a reported coefficient without partners: where
    False, it is a coefficient of the smaller model and need not be near that of the full one.

    ``twins`` has (a, b, s) for a column a that is left out because it cannot be told apart from b, which is in the
    model: a moves by about s with one unit of b, so the coefficient of b stands for b + s a.
    """

    columns: tuple[str, ...]
    preconditioner: Array
    centre: Array
    records: float
    in_model: tuple[str, ...]
    left_out: tuple[str, ...]
    dropped: tuple[str, ...]
    partners: tuple[tuple[str, ...], ...]
    full_model_reading: tuple[bool, ...]
    twins: tuple[tuple[str, str, float], ...] = ()

    def at(self, names: tuple[str, ...]) -> str:
        """The centre in words; ``names`` are those of the coefficients, the intercept first."""
        pairs = zip(names[1:], self.centre, strict=True)
        return "Released centre: " + ", ".join(f"{name} = {value:.4g}" for name, value in pairs) + "."

    def notes(self, names: tuple[str, ...], most: int = 1000) -> list[str]:
        """What the sign † means: one sentence for all coefficients that have the same partners."""
        by_partners: dict[tuple[str, ...], list[str]] = {}
        for name, others in zip(names, self.partners, strict=True):
            if others:
                by_partners.setdefault(others, []).append(name)
        return [
            f"{SIGN} {several(some, most)}: of the model without {several(others, most)}; with "
            f"{'them' if len(others) > 1 else 'it'}, quite another value is possible."
            for others, some in by_partners.items()
        ]

    def together(self, name: str) -> str:
        """What is identified of a column that cannot be told apart from another; empty for other columns."""
        for lost, kept, slope in self.twins:
            if lost == name:
                size = f"{abs(slope):.2g} "
                both = f"{kept} {'-' if slope < 0 else '+'} {'' if size == '1 ' else size}{lost}"
                return f"{lost} cannot be told apart from {kept}: only {both} is identified, which {kept} alone reports"
        return ""

    def row_weights(self, rows: Array) -> Array:
        """Weights of records, from their columns in original units, those of ``columns[1:]`` in this order."""
        return row_weights(np.column_stack([np.ones(len(rows)), rows]) @ self.preconditioner.T)


@dataclass(frozen=True)
class Privacy:
    """What was promised, about whom, and what was spent; ``release`` is the ledger's name for it."""

    budget: Budget
    unit: str
    events: tuple[Release, ...]
    booked: bool
    private: bool
    neighbours: Neighbours = Neighbours.REPLACE
    release: str | None = None

    @property
    def scope(self) -> str:
        """Who is protected by more or less than the promise says."""
        if not self.neighbours.units:
            return "Someone behind several such units is protected less."
        return (
            "All rows with one id are protected together, however many there are. A person with two ids is two units, "
            "and columns that were computed from other units' rows void the promise."
        )

    def caveats(self, n: int | None = None, *, weighted: bool = False) -> tuple[str, ...]:
        """What the promise does not cover; ``n`` is the number of records or units where it is public."""
        notes = []
        if not self.private:
            notes.append("NOT PRIVATE: the noise was off or came from a known seed. Do not publish.")
        if weak := weak_delta(self.budget, n):
            notes.append(weak)
        if not self.booked:
            notes.append("Nothing was booked: no ledger was given, so other releases from these data are not counted.")
        if self.private:
            notes.append(
                "The noise is exact to the last digit published. The promise rests on the random bits of the operating "
                "system, and does not cover what time or memory may tell (SECURITY.md of dpinfer)."
            )
        if weighted:
            notes.append(
                "The promise is for given weights: if they were raked or calibrated to the margins of these very data, "
                "everybody's weight tells of the others, and that is not covered."
            )
        notes.append("Intervals rest on a large-sample approximation; they say nothing about bias in the data.")
        return tuple(notes)
