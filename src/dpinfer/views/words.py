"""What a report says beside the numbers, in plain words; every view of it has these sections."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from dpinfer.privacy.budget import ApproxDP, Budget, NoPrivacy, PureDP, compose
from dpinfer.result import text
from dpinfer.result.question import Question
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Privacy

NOT_PRIVATE = (
    "NOT PRIVATE – do not publish. The noise was off or came from a known seed, so nobody is "
    "protected."
)
MAY_NOT = (
    "What may not be concluded: that there is no effect where an interval holds 0; that an effect is "
    "a cause; that a coefficient without an interval is small; anything about one person."
)
_ALARM = 0.05  # rate of false alarms of somebody who guesses about one record
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
_IN_ONE = {"estimate": "the coefficients, with the matrices behind the standard errors"}
_UNITS = {
    "margin": "Coefficients are in the units of the columns.",
    "residual": (
        "Coefficients are in units of the outcome, as it stands on the left of the formula, by those "
        "of the columns."
    ),
}


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, and a list under them."""

    title: str
    paragraphs: tuple[str, ...]
    items: tuple[str, ...] = ()


def detection(budget: Budget, alarm: float = _ALARM) -> float:
    """The highest power of a test of one record against another at a rate ``alarm`` of false
    alarms.

    A release that is (ε, δ)-private leaves a power of at most e^ε alarm + δ and of at most 1 - e^-ε
    (1 - alarm - δ).  zCDP is (ε, δ)-private at every δ, so the least bound over δ holds.  An (ε, δ)
    budget promises its own δ only: the releases that it paid for may cost more in zCDP than what
    converts to it.
    """
    if isinstance(budget, NoPrivacy):
        return 1.0
    if isinstance(budget, PureDP):
        return _power(budget.epsilon, 0.0, alarm)
    if isinstance(budget, ApproxDP):
        return _power(budget.epsilon, budget.delta, alarm)
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
            asked.asked,
            " ".join([*asked.sentences(), result.usable]),
            "What was declared about the columns beforehand; values beyond a bound count as the "
            "bound:",
        ),
        tuple(asked.bounds()),
    )


def _reading(result: FitResult, level: float) -> Section:
    paragraphs = [
        "If the data were collected and protected afresh many times, about "
        f"{100 * level:.4g} in 100 of a row's intervals would contain the number that is estimated. "
        "An interval that contains 0 leaves the sign open."
    ]
    if isinstance(result.privacy.budget, NoPrivacy):
        paragraphs.append("The noise was off: the intervals count the sampling error alone.")
    else:
        paragraphs.append(
            f"Noise was added on purpose to protect {result.privacy.unit}. The intervals count it as "
            "well as the sampling error, so nothing needs to be added to them. The noise share is "
            "the part of a coefficient's variance that is privacy noise; more records or a larger "
            "budget lower it."
        )
    if result.privacy.neighbours.units:
        paragraphs.append(text.CLUSTERED)
    paragraphs.append(
        "Each interval is made for its own row. A statement about several rows at once needs a "
        "simultaneous band."
    )
    return Section("How to read an interval", tuple(paragraphs))


def _without_interval(result: FitResult, level: float) -> Section:
    rows = result.table(level)
    if any(text.is_open(row) for row in rows):
        title = "What is open"
        meaning = (
            "Why coefficients have no interval at this budget; what open means stands under the "
            "table."
        )
    else:
        title = "What is not identified"
        meaning = (
            "At this budget the data do not determine the coefficients below. They have no estimate "
            "and no finite interval, which says nothing about their size or sign."
        )
    remedies = f"To get an interval: {'; '.join(text.REMEDIES)}."
    return Section(title, (meaning, remedies), tuple(text.reasons(rows)))


def _privacy(privacy: Privacy, *, in_one: bool) -> Section:
    """``in_one`` says that the coefficients and their matrices are one release."""
    steps = _STEPS | _IN_ONE if in_one else _STEPS
    spent = tuple(
        f"{_step(event.step, steps)}: {event.share.amount} ({event.mechanism})"
        for event in privacy.events
    )
    if not privacy.private:
        declared = f"Declared budget: {privacy.budget}. Its shares:"
        return Section("Privacy", (NOT_PRIVATE, declared), spent)
    promise = (
        f"The release satisfies {privacy.budget}. It protects {privacy.unit}; two data sets count as "
        f"neighbours when they differ as follows: {privacy.neighbours.sentence}. {privacy.scope}"
    )
    booked = "The spend was not booked in a ledger."
    if privacy.booked:
        booked = "The spend was booked in a ledger before anything was computed from the data."
    if privacy.release:
        booked += f" Its release id is {privacy.release}."
    return Section(
        "Privacy", (promise, _meaning(privacy), booked, "The budget was spent on:"), spent
    )


def _meaning(privacy: Privacy) -> str:
    """What the promise means for one unit, as the power of a test against it."""
    others = "all the other records"
    if privacy.neighbours.units:
        others = "all rows of all the others"
    alarm = f"{100 * _ALARM:.0f}"
    promised = math.ceil(100 * detection(privacy.budget))
    spend = compose(event.share for event in privacy.events)
    power = min(promised, math.ceil(100 * detection(spend)))
    less = ""
    if power < promised:
        less = f" By the promise alone it would be {promised}; the noise of these releases allows less."
    return (
        f"What that means for {privacy.unit}: suppose that somebody knows {others} and uses this "
        "release to decide between two possibilities for this one. A rule that errs in "
        f"{alarm} of 100 cases when the first is true is right in at most {power} of 100 when the "
        f"second is true. Without the release it would be {alarm} of 100.{less} This holds whatever "
        "else is known, now or later."
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
            f"{_UNITS[model.of]} They were fitted by {model.mechanism} with the recipe "
            f"“{model.recipe}” on {result.records} {model.unit.word}.",
        ),
    )


def _citation(result: FitResult, title: str) -> Section:
    privacy = result.privacy
    kind = f"protected by {privacy.budget}" if privacy.private else "not private"
    if privacy.release:
        kind += f", release {privacy.release}"
    citation = (
        f"{title}. Regression estimates with confidence intervals, {kind}. Report by dpinfer "
        f"{version('dpinfer')}."
    )
    return Section("How to cite", (citation, f"Method: {result.model.words.method}"))
