"""The disclosure of a release, as a journal or a disclosure board asks for it: a paragraph and a table.

A release knows its promise, its unit and its estimand; the total of the data set is in its ledger.
"""

from dataclasses import dataclass
from importlib.metadata import version

from dpinfer.errors import InputError, LedgerError
from dpinfer.moment_release.released_moments import MomentRelease
from dpinfer.privacy.account import Account
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger
from dpinfer.result.description import Description
from dpinfer.result.question import Question, public_facts
from dpinfer.result.result import FitResult
from dpinfer.result.statements import REPORTED, Privacy, errors_counted
from dpinfer.result.survival_curves import SurvivalCurves
from dpinfer.schema.formula import parse_features
from dpinfer.views.page import MAY_NOT
from dpinfer.views.promise import about_one, suspicion

Released = FitResult | Description | SurvivalCurves | MomentRelease
"""Whatever a ledger may have an entry of."""

_NO_TOTAL = "not stated here: it is in the ledger of the data"
_DESCRIBED = "counts, shares, means, standard deviations and quartiles of columns"
_CURVES = "survival curves with cumulative incidence by cause, medians, restricted means and log-rank tests"
_ANSWERED = "every least-squares regression, mean and correlation of the released columns"


@dataclass(frozen=True)
class LedgerFacts:
    """The entry of a release in its ledger, and what all entries cost together, in words."""

    total: str
    cost: str
    statement: str
    rule: str
    entries: int

    @classmethod
    def of(cls, ledger: Ledger, privacy: Privacy) -> "LedgerFacts":
        """Look a release up in its ledger, or raise `LedgerError` if it is not there as it is."""
        account = Account.of(ledger)
        found = {entry.release: number for number, entry in enumerate(account.entries)}
        number = found.get(privacy.release or "", -1)
        entry = account.entries[number] if number >= 0 else None
        fault = privacy.fault_against(entry)
        if fault:
            raise LedgerError(f"the release {fault}: name the ledger that it was booked in")
        assert isinstance(entry, Entry)
        return cls(
            total=ledger.total.amount,
            cost=account.shares.cost(entry.asked, ledger.added_up([entry])),
            statement=account.statement(),
            rule=account.rules[number],
            entries=len(account.entries),
        )


@dataclass(frozen=True)
class ReleaseFacts:
    """The facts of a release that documents about it state.

    ``columns`` are the names of columns with what was declared about them, ``reported`` says how much of
    the release has an interval.
    """

    title: str
    estimand: str
    method: str
    records: str
    n: int | None
    columns: tuple[str, ...]
    privacy: Privacy
    limits: tuple[str, ...]
    reported: str
    booking: LedgerFacts | None

    @classmethod
    def of(
        cls, released: Released, title: str | None = None, ledger: Ledger | None = None
    ) -> "ReleaseFacts":
        """Collect the facts of a release; `InputError` if it is not private."""
        privacy = released.privacy
        if not privacy.private:
            raise InputError(
                "this result is not private, its noise was off or seeded: nothing can be filed about it"
            )
        booking = None if ledger is None else LedgerFacts.of(ledger, privacy)
        if isinstance(released, FitResult):
            return _of_fit(released, title, booking)
        if isinstance(released, SurvivalCurves):
            return _of_curves(released, title, booking)
        if isinstance(released, Description):
            return cls(
                title=title or "Description of a table",
                estimand=_DESCRIBED,
                method="sums over records with calibrated noise, docs/describe.md of dpinfer",
                records=released.unit.size(released.n),
                n=released.n,
                columns=tuple(f"{one.name}: {public_facts(one)}" for one in released.columns),
                privacy=privacy,
                limits=tuple(released.caveats()),
                reported=_reported(
                    [figure.status == "reported" for figure in released.figures], "figures"
                ),
                booking=booking,
            )
        columns = parse_features(released.declared, released.schema).columns
        return cls(
            title=title or "Moment release",
            estimand=_ANSWERED,
            method="second and fourth moments with calibrated noise, docs/moments.md of dpinfer",
            records=released.schema.unit.size(released.n),
            n=released.n,
            columns=tuple(f"{one.name}: {public_facts(one)}" for one in columns),
            privacy=privacy,
            limits=tuple(released.privacy.caveats(released.n)),
            reported=f"Intervals of slopes have {released.price:.2f} times their sampling variance as noise.",
            booking=booking,
        )

    @property
    def cost(self) -> str:
        """The cost of this release, with its share of the total where that is known."""
        return self.privacy.budget.amount if self.booking is None else self.booking.cost

    @property
    def citation(self) -> str:
        """A sentence to cite the release by."""
        release = f", release {self.privacy.release}" if self.privacy.release else ""
        return (
            f"{self.title}. Released under {self.privacy.budget}, protecting {self.privacy.unit}{release}; "
            f"dpinfer {version('dpinfer')}."
        )


def _of_fit(result: FitResult, title: str | None, booking: LedgerFacts | None) -> ReleaseFacts:
    question = result.question
    name = result.model.words.name or "regression"
    return ReleaseFacts(
        title=title or _title(name, question),
        estimand=result.model.estimand(),
        method=result.model.words.method,
        records=result.model.unit.size(result.model.n),
        n=result.model.n,
        columns=tuple(
            f"{column.name}: {public_facts(column)}"
            for column in (question.columns if question else ())
        ),
        privacy=result.privacy,
        limits=result.privacy.caveats(result.model.n, weighted=result.model.weighted),
        reported=_reported(list(result.reported), "coefficients"),
        booking=booking,
    )


def _of_curves(
    curves: SurvivalCurves, title: str | None, booking: LedgerFacts | None
) -> ReleaseFacts:
    return ReleaseFacts(
        title=title or f"Survival curves: {curves.names['event']} by {curves.names['time']}",
        estimand=_CURVES,
        method="running sums of exits with calibrated noise, docs/method.md of dpinfer, section 12",
        records=curves.unit.size(curves.n),
        n=curves.n,
        columns=tuple(curves.public_facts()),
        privacy=curves.privacy,
        limits=curves.caveats(),
        reported=_reported(
            [row["status"] == REPORTED for row in curves.curve_rows()], "points of survival curves"
        ),
        booking=booking,
    )


def _title(name: str, question: Question | None) -> str:
    model = name[:1].upper() + name[1:]
    return model if question is None else f"{model}: {question.asked}"


def _reported(flags: list[bool], things: str) -> str:
    return f"{sum(flags)} of {len(flags)} {things} are reported with an interval."


def disclosure(
    released: Released, *, title: str | None = None, ledger: Ledger | None = None
) -> str:
    """Return the disclosure of a release as Markdown: a paragraph and a table to file with it.

    Parameters
    ----------
    released : FitResult, Description, SurvivalCurves or MomentRelease
        A private release.
    title : str, optional
        The title of the release; by default the model with its formula.
    ledger : Ledger, optional
        The ledger in which it was booked: total, share of the total and composition are taken from it.

    Returns
    -------
    str
        A document in Markdown.

    Raises
    ------
    InputError
        If the release is not private.
    LedgerError
        If it is not in the ledger with the same releases.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6), unit="one person-year")
    >>> model = dp.LogisticRegression(
    ...     "visit ~ physlm", schema=data.schema, budget=dp.ApproxDP(1.0, 1e-6), ledger=ledger
    ... )
    >>> text = dp.report.disclosure(model.fit(data.table).result_, ledger=ledger)
    >>> print(text.splitlines()[0])
    # Disclosure: Logistic regression: visit ~ physlm
    """
    facts = ReleaseFacts.of(released, title, ledger)
    rows = "\n".join(f"| {name} | {_cell(text)} |" for name, text in _rows(facts))
    limits = "\n".join(f"- {limit}" for limit in (MAY_NOT, *facts.limits))
    return (
        f"# Disclosure: {facts.title}\n\n{_paragraph(facts)}\n\n| | |\n| --- | --- |\n{rows}\n\n"
        f"## What is not claimed\n\n{limits}\n\n## How to cite\n\n{facts.citation}\n\nMethod: {facts.method}\n"
    )


def _paragraph(facts: ReleaseFacts) -> str:
    privacy = facts.privacy
    total = ""
    if facts.booking is not None:
        total = (
            f" The total for everything that is ever released from these data is {facts.booking.total}. "
            f"{facts.booking.statement}"
        )
    booked = " It was booked in a ledger before the data were read." if privacy.in_ledger else ""
    return (
        f"These numbers were released under {privacy.budget}. The promise protects {privacy.unit}: data sets that "
        f"differ as follows cannot be told apart beyond it: {privacy.neighbours.sentence}. {privacy.scope} This "
        f"release cost {facts.cost}.{booked}{total} {errors_counted(privacy.budget)} Everything that is computed from "
        "the released numbers is post-processing and costs nothing."
    )


def _rows(facts: ReleaseFacts) -> list[tuple[str, str]]:
    privacy = facts.privacy
    meaning = suspicion(privacy.budget).sentence(about_one(privacy.unit, privacy.neighbours))
    total = _NO_TOTAL
    composition = "all releases of this result together"
    if facts.booking is not None:
        total = f"{facts.booking.total}. {facts.booking.statement}"
        entries = "1 entry" if facts.booking.entries == 1 else f"{facts.booking.entries} entries"
        composition = f"{facts.booking.rule}; {entries} in the ledger"
    return [
        ("Unit of privacy", privacy.unit),
        ("Neighbouring data sets", privacy.neighbours.sentence),
        ("Promise of this release", str(privacy.budget)),
        ("What it means", meaning),
        ("Cost of this release", facts.cost),
        ("Total for the data", total),
        ("Composition", composition),
        ("Release id", privacy.release or "none: it was not booked"),
        ("Mechanisms", "; ".join(mechanisms(privacy))),
        ("Records", facts.records),
        ("Estimand", facts.estimand),
        ("Reported", facts.reported),
        ("Declared beforehand", "; ".join(facts.columns) or "bounds of all columns"),
        ("Software", f"dpinfer {version('dpinfer')}"),
    ]


def mechanisms(privacy: Privacy) -> list[str]:
    """Return each mechanism of a release with the number of its uses."""
    counts: dict[str, int] = {}
    for event in privacy.events:
        counts[event.mechanism] = counts.get(event.mechanism, 0) + 1
    return [f"{count} × {name}" for name, count in counts.items()]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
