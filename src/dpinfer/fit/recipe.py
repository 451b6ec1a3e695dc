"""A recipe: which releases, and what is made of them.  Every fit is one, and every fit goes through
`fit`.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from dpinfer.errors import InputError
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget, NoPrivacy, require_promise
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import Release
from dpinfer.result.question import Question
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Privacy
from dpinfer.rows import workers
from dpinfer.rows.source import Pending, Source
from dpinfer.schema.design import Design


class Recipe(Protocol):
    """What the estimators, the laboratory, the command line and the dry run ask of a fit."""

    @property
    def design(self) -> Design:
        """The encoding of the records."""
        ...

    @property
    def neighbours(self) -> Neighbours:
        """What may differ between two data sets."""
        ...

    @property
    def budget(self) -> Budget:
        """What the releases cost together, in the terms it was asked for."""
        ...

    def releases(self, n: int) -> tuple[Release, ...]:
        """What will be released of ``n`` records, from public facts alone; `BudgetError` if the
        budget cannot pay.
        """
        ...

    def advice(self, n: int) -> str:
        """What to say of a fit of ``n`` records beforehand, from public facts alone; mostly
        nothing.
        """
        ...

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Carry the releases out, in order, and make the result of them."""
        ...


@dataclass(frozen=True)
class Subject:
    """What a fit is about, from public facts: what one record is, what is asked, the digest of a
    schema.

    The ledger is told these; ``question`` goes into the result.
    """

    unit: str = "one record"
    purpose: str = "fit"
    schema: str = ""
    question: Question | None = None


def entry(recipe: Recipe, n: int, subject: Subject) -> Entry:
    """What a fit of ``n`` records books, from public facts alone.

    Whether there is a record at all is public where the number is, and may not decide anything
    where it is private.
    """
    require_promise(recipe.budget)
    if n < 1 and recipe.neighbours.counted:
        raise InputError(
            "a fit needs at least one record, unless the neighbours add-remove keep their number private"
        )
    return Entry(
        subject.purpose, subject.unit, recipe.releases(n), recipe.neighbours, subject.schema
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
    gate = Gate(entry(recipe, source.n, subject), ledger, insecure_seed)
    with (
        workers.worker_pool(),
        source.opened() if isinstance(source, Pending) else nullcontext(source) as rows,
    ):
        result = recipe.run(gate, rows)
    return result if subject.question is None else replace(result, question=subject.question)


def privacy(gate: Gate, budget: Budget) -> Privacy:
    """What a result says of its privacy."""
    booked = gate.entry
    return Privacy(
        budget=budget,
        unit=booked.unit,
        events=booked.events,
        booked=gate.release_id is not None,
        private=gate.seed is None and not isinstance(budget, NoPrivacy),
        neighbours=booked.neighbours,
        release=gate.release_id,
    )
