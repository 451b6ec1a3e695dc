"""The meaning of a promise for one unit, and what was spent on it: a section of every document."""

import math
from collections.abc import Mapping

from dpinfer.privacy.budget import ApproxDP, Budget, NoPrivacy, PureDP, compose
from dpinfer.result.statements import Privacy
from dpinfer.views.page import NOT_PRIVATE, Section

_ALARM = 0.05  # rate of false alarms of somebody who guesses about one record


def detection(budget: Budget, alarm: float = _ALARM) -> float:
    """Return the highest power of a test of one record against another at a rate ``alarm`` of false
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


def privacy_section(privacy: Privacy, steps: Mapping[str, str]) -> Section:
    """Return the section on what was promised and spent; ``steps`` has descriptions of releases."""
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
    if privacy.in_ledger:
        booked = "The spend was booked in a ledger before anything was computed from the data."
    if privacy.release:
        booked += f" Its release id is {privacy.release}."
    return Section(
        "Privacy", (promise, _meaning(privacy), booked, "The budget was spent on:"), spent
    )


def _meaning(privacy: Privacy) -> str:
    """Say what the promise means for one unit, by the power of a test against it."""
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
    """Describe a release; one of several of a stage is numbered."""
    stage, comma, place = name.partition(", ")
    return f"{steps.get(stage, stage)}{comma}{place}"
