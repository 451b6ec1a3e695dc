"""A recipe: which releases, and what is made of them; and `fit`, which every fit goes through."""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.errors import InputError, LowBudgetWarning
from dpinfer.mechanisms.losses import Loss
from dpinfer.numerics.arrays import Array
from dpinfer.privacy.budget import Budget, NoPrivacy, require_promise
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import Release, has_room
from dpinfer.result.coefficient_table import REMEDIES
from dpinfer.result.question import Question
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Privacy, Words
from dpinfer.rows import workers
from dpinfer.rows.source import Pending, Rows, Source, require_record_limit
from dpinfer.schema.design import Design


@dataclass(frozen=True)
class NoLoss:
    """A model without a loss that bounds what a record does; a recipe has a subclass in place of a loss."""


@dataclass(frozen=True)
class Options:
    """The options of a fit; None where the user gave none."""

    loss: Loss | NoLoss
    budget: Budget | None = None
    plan: Any = None
    target: str | None = None
    penalty: float | None = None
    neighbours: str | None = None
    far_values: str | None = None

    @property
    def counted(self) -> bool:
        """Return whether the number of records or units is public."""
        asked = (self.neighbours, getattr(self.plan, "neighbours", None))
        return not any(code in (Adjacency.ADD_REMOVE, Adjacency.ADD_REMOVE_UNIT) for code in asked)


class Recipe(Protocol):
    """The interface of a fit to estimators, simulations, the command line and the dry run.

    A recipe answers for itself: nobody else asks which one it is.
    """

    @property
    def design(self) -> Design:
        """The encoding of the records."""
        ...

    @property
    def neighbours(self) -> Adjacency:
        """Return the adjacency."""
        ...

    @property
    def budget(self) -> Budget:
        """Return the cost of all releases together, in the terms in which it was given."""
        ...

    def releases(self, n: int) -> tuple[Release, ...]:
        """Return the releases of ``n`` records, from public facts alone; `BudgetError` if the budget cannot
        pay.
        """
        ...

    def advice(self, n: int) -> str:
        """Return a warning for a fit of ``n`` records, from public facts alone; mostly nothing."""
        ...

    def futility(self, n: int, share: float | None = None) -> str:
        """Return why hardly a coefficient could be reported, from public facts alone; mostly nothing.

        ``share`` is a public guess of the share of the outcome's second level, where there is one.
        """
        ...

    def words(self, n: int | None) -> Words:
        """Return name, estimand and method for reports."""
        ...

    def describe(self, n: int) -> str:
        """The setting of a study of ``n`` records, in words."""
        ...

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Carry the releases out, in order, and make the result of them."""
        ...

    def estimand(self, population: Rows) -> Array:
        """Return the coefficients of a population that the intervals should cover, in original units.  NOT
        PRIVATE.
        """
        ...

    def nonprivate(self, rows: Rows, source: Source, level: float) -> Array:
        """Half-widths of the same model without noise; ``source`` is as many records as ``rows``
        stand for.  NOT PRIVATE.
        """
        ...


class OfferedRecipe(Recipe, Protocol):
    """A recipe that is asked whether a fit is its own, or that of its noiseless twin."""

    TARGETS: ClassVar[tuple[str, ...]]
    """What its intervals may be about, by name."""
    OFFER: ClassVar[str]
    """These targets in a sentence, for somebody who asked for one that is not there; empty where
    another recipe's sentence says it.
    """

    @classmethod
    def of(cls, design: Design, options: Options) -> Recipe | None:
        """The recipe that these options ask for, from public facts alone; None where they are for
        another one.  An error where they do not go together.
        """
        ...


def half_widths(result: FitResult, level: float) -> Array:
    """Half the length of each interval, infinite where none is reported."""
    low, high = result.conf_int(level).T
    with np.errstate(invalid="ignore"):
        return np.where(result.reported & np.isfinite(high - low), (high - low) / 2, np.inf)


def require_ids(design: Design, options: Options) -> None:
    """Adjacency, asked for or in a plan, must be those of the unit that is protected."""
    planned = getattr(options.plan, "neighbours", None)
    for code in (options.neighbours, planned):
        if code is not None and Adjacency.of(code).units and not design.unit.many:
            raise InputError(
                f"the neighbours {code!s} need ids: give the schema a [unit] with a column, or arrays their units"
            )
    if design.unit.many and planned is not None and not Adjacency(planned).units:
        raise InputError(
            "the plan protects one row and the data have ids: give it neighbours='replace-unit'"
        )


@dataclass(frozen=True)
class Subject:
    """The public facts about a fit for the ledger: what one record is, the purpose, the digest of the schema.

    The ledger is told these; ``question`` goes into the result.  ``low_budget`` is why hardly a
    coefficient is expected to be reported: the user is warned of it before anything is booked.
    """

    unit: str = "one record"
    purpose: str = "fit"
    schema: str = ""
    question: Question | None = None
    low_budget: str = ""


def entry(recipe: Recipe, n: int, subject: Subject) -> Entry:
    """Return the entry that a fit of ``n`` records books, from public facts alone.

    Whether there is a record at all is public where the number is, and may not decide anything
    where it is private.
    """
    require_promise(recipe.budget)
    _require_room(recipe, n)
    if n < 1 and recipe.neighbours.counted:
        raise InputError(
            "a fit needs at least one record, unless the neighbours add-remove keep their number private"
        )
    return Entry(
        subject.purpose,
        subject.unit,
        recipe.releases(n),
        recipe.neighbours,
        subject.schema,
        asked=recipe.budget,
    )


def _require_room(recipe: Recipe, n: int) -> None:
    """Refuse more records, or more numbers of so many, than releases were sized for; a private
    number of records is not looked at.
    """
    design = recipe.design
    largest = design.unit.largest
    if recipe.neighbours.counted:
        require_record_limit(n, largest)
    columns = len(design.names)
    if not has_room(largest, (columns + 1) ** 2):
        raise InputError(
            f"{columns:,} columns of up to {largest:,} records are too many: their sums do not fit whole "
            "numbers of 64 bits on the grid of the noise; take fewer columns, or a part of the records"
        )


def fit(
    recipe: Recipe,
    source: Source | Pending,
    subject: Subject = Subject(),  # noqa: B008  (frozen)
    ledger: Book | None = None,
    insecure_seed: int | None = None,
) -> FitResult:
    """Book, then read, then release.

    Guarantee [refused_before_booking]: a plan that is not valid for the risk raises before the
    ledger is touched.
    """
    workers.check()
    booked = entry(recipe, source.n, subject)
    if subject.low_budget:
        remedies = "; ".join(REMEDIES)
        warnings.warn(
            f"{subject.low_budget}. The budget is spent all the same; {remedies}",
            LowBudgetWarning,
            stacklevel=5,  # who called the fit of a model
        )
    gate = Gate(booked, ledger, insecure_seed)
    opened = source.opened() if isinstance(source, Pending) else nullcontext(source)
    with workers.worker_pool(), opened as rows:
        result = recipe.run(gate, rows)
    if subject.question is None:
        return result
    return replace(result, question=subject.question)


def privacy(gate: Gate, budget: Budget) -> Privacy:
    """Return the statement of privacy of a result."""
    booked = gate.entry
    return Privacy(
        budget=budget,
        unit=booked.unit,
        events=booked.events,
        in_ledger=gate.release_id is not None,
        private=gate.seed is None and not isinstance(budget, NoPrivacy),
        neighbours=booked.neighbours,
        release=gate.release_id,
    )
