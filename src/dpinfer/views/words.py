"""What must be said beside the numbers, in plain words.  Every view of the report is made from
these sections.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from dpinfer.privacy.budget import ApproxDP, Budget, NoPrivacy, PureDP, compose
from dpinfer.result import text
from dpinfer.result.question import Question
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Privacy

NOT_PRIVATE = "NOT PRIVATE – do not publish. The noise was off or came from a known seed, so nobody is protected."
MAY_NOT = (
    "What may not be concluded: that there is no effect where an interval holds 0; that an effect is a cause; that "
    "a coefficient without an interval is small; anything about one person."
)
_ALARM = 0.05
_STEPS = {
    "scales": "where the values of the columns lie",
    "outcome range": "where the outcome lies",
    "influence": "how far records are from a first line",
    "crude moments": "how the columns vary together, roughly",
    "moments": "how the columns vary together, and with the outcome",
    "first steps": "steps towards the coefficients",
    "first step": "a first step towards the coefficients",
    "estimate": "the coefficients",
    "rest": "what the last step leaves",
    "matrices": "the matrices behind the standard errors",
    "hessian": "the curvature matrix behind the standard errors",
    "covariance": "the score covariance behind the standard errors",
}
_UNITS = {
    "margin": "Coefficients are in the units of the columns.",
    "residual": "Coefficients are in units of the outcome, as it stands on the left of the formula, by those of the "
    "columns.",
}
_IN_ONE = {"estimate": "the coefficients, with the matrices behind the standard errors"}


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, and a list under them."""

    title: str
    paragraphs: tuple[str, ...]
    items: tuple[str, ...] = ()


def detection(budget: Budget, alarm: float = _ALARM) -> float:
    """The most that a test of one record against another can detect at a rate ``alarm`` of false
    alarms.

    A release that is (ε, δ)-private leaves a power of at most e^ε alarm + δ and of at most 1 - e^-ε
    (1 - alarm - δ).  zCDP is (ε, δ)-private at every δ, so the least bound over δ holds.  An (ε, δ)
    budget promises its own δ only: the releases that it paid for may cost more in zCDP than what
    converts to it.
    """
    if isinstance(budget, NoPrivacy):
        return 1.0
    if isinstance(budget, PureDP | ApproxDP):
        return _power(budget.epsilon, budget.delta if isinstance(budget, ApproxDP) else 0.0, alarm)
    deltas = (10 ** (-k / 10) for k in range(5, 121))
    return min(_power(budget.zcdp().approx(delta).epsilon, delta, alarm) for delta in deltas)


def _power(epsilon: float, delta: float, alarm: float) -> float:
    steep = math.exp(min(epsilon, 700.0)) * alarm + delta
    return min(1.0, steep, 1 - math.exp(-epsilon) * max(0.0, 1 - alarm - delta))


def sections(result: FitResult, title: str, level: float) -> Iterator[Section]:
    """All statements of a report, in the order in which they are read."""
    if result.question is not None:
        yield _regressed(result, result.question)
    yield _reading(result, level)
    if not result.reported.all():
        yield _without_interval(result, level)
    yield _privacy(result.privacy, in_one=result.geometry is not None)
    yield _estimand(result, level)
    limits = result.privacy.caveats(result.model.n, weighted=result.model.weighted)
    yield Section("Limits", ("What the privacy promise and the intervals do not cover:",), limits)
    yield _citation(result, title)


def _regressed(result: FitResult, asked: Question) -> Section:
    return Section(
        "What was regressed",
        (
            f"{asked.asked}",
            " ".join([*asked.sentences(), result.usable]),
            "What was declared about the columns beforehand; values beyond a bound count as the bound:",
        ),
        tuple(asked.bounds()),
    )


def _reading(result: FitResult, level: float) -> Section:
    share = f"{100 * level:.4g} in 100"
    if isinstance(result.privacy.budget, NoPrivacy):
        second = "The noise was off: the intervals count the sampling error alone."
    else:
        second = (
            f"Noise was added on purpose to protect {result.privacy.unit}. The intervals count it as well as the "
            "sampling error, so nothing needs to be added to them. The noise share is the part of a coefficient's "
            "variance that is privacy noise; more records or a larger budget lower it."
        )
    return Section(
        "How to read an interval",
        (
            f"If the data were collected and protected afresh many times, about {share} of a row's intervals would "
            "contain the number that is estimated. An interval that contains 0 leaves the sign open.",
            second,
            *([text.CLUSTERED] if result.privacy.neighbours.units else []),
            "Each interval is made for its own row. A statement about several rows at once needs a simultaneous band.",
        ),
    )


def _without_interval(result: FitResult, level: float) -> Section:
    rows = result.table(level)
    remedies = f"To get an interval: {'; '.join(text.REMEDIES)}."
    if any(text.is_open(row) for row in rows):
        said = "Why coefficients have no interval at this budget; what open means stands under the table."
        return Section("What is open", (said, remedies), tuple(text.reasons(rows)))
    said = (
        "At this budget the data do not determine the coefficients below. They have no estimate and no finite "
        "interval, which says nothing about their size or sign."
    )
    return Section("What is not identified", (said, remedies), tuple(text.reasons(rows)))


def _privacy(privacy: Privacy, *, in_one: bool) -> Section:
    """``in_one`` says that the coefficients and their matrices are one release."""
    steps = _STEPS | _IN_ONE if in_one else _STEPS
    spent = tuple(
        f"{_step(event.step, steps)}: {event.share.amount} ({event.mechanism})"
        for event in privacy.events
    )
    if not privacy.private:
        return Section(
            "Privacy", (NOT_PRIVATE, f"Declared budget: {privacy.budget}. Its shares:"), spent
        )
    spend = compose(event.share for event in privacy.events)
    promised = math.ceil(100 * detection(privacy.budget))
    told = min(promised, math.ceil(100 * detection(spend)))
    less = f" By the promise alone it would be {promised}; the noise of these releases allows less."
    booked = (
        "was booked in a ledger before anything was computed from the data"
        if privacy.booked
        else "was not booked in a ledger"
    )
    release = privacy.release
    others = "all rows of all the others" if privacy.neighbours.units else "all the other records"
    return Section(
        "Privacy",
        (
            f"The release satisfies {privacy.budget}. It protects {privacy.unit}; two data sets count as neighbours "
            f"when they differ as follows: {privacy.neighbours.sentence}. {privacy.scope}",
            f"What that means for {privacy.unit}: suppose that somebody knows {others} and uses this "
            f"release to decide between two possibilities for this one. A rule that errs in {100 * _ALARM:.0f} of 100 "
            f"cases when the first is true is right in at most {told} of 100 when the second is true. Without the "
            f"release it would be {100 * _ALARM:.0f} of 100.{less if told < promised else ''} This holds "
            "whatever else is known, now or later.",
            f"The spend {booked}." + (f" Its release id is {release}." if release else ""),
            "The budget was spent on:",
        ),
        spent,
    )


def _step(name: str, steps: Mapping[str, str]) -> str:
    """A release in words; one of several of a stage keeps its place among them."""
    stage, comma, place = name.partition(", ")
    return f"{steps.get(stage, stage)}{comma}{place}"


def _estimand(result: FitResult, level: float) -> Section:
    model = result.model
    return Section(
        "What is estimated",
        (
            f"Each interval is about {model.estimand()}.",
            *result.intercepts(level),
            *result.published(),
            f"{_UNITS[model.of]} They were fitted by {model.mechanism} with the recipe “{model.recipe}” on "
            f"{result.records} {model.whom.word}.",
        ),
    )


def _citation(result: FitResult, title: str) -> Section:
    privacy = result.privacy
    kind = f"protected by {privacy.budget}" if privacy.private else "not private"
    release = privacy.release
    return Section(
        "How to cite",
        (
            f"{title}. Regression estimates with confidence intervals, {kind}"
            + (f", release {release}" if release else "")
            + f". Report by dpinfer {version('dpinfer')}.",
            f"Method: {result.model.words.method}",
        ),
    )
