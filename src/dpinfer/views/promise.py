"""The meaning of a promise for one unit, and what was spent on it: sections of every document."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpinfer.adjacency import Adjacency
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP, compose
from dpinfer.result.statements import Privacy
from dpinfer.views.page import NOT_PRIVATE, Section, rendered

_ALARM = 0.05  # rate of false alarms of somebody who guesses about one record
_BEFORE = 0.05  # the suspicion in the picture
# An (ε, δ) promise bounds the growth of odds by e^ε / (1 - 1/10) in all but δ / (1/10) of the cases: see
# `suspicion`.  A smaller part than 1/10 brings the bound closer to e^ε, and makes the exceptions more likely.
_PART = 0.1
_FAILURE = 1e-5
"""The chance of an exception for zCDP, which has a bound for every chance: as an (ε, 10⁻⁶) promise has it."""
_SQUARES = 10  # in a row of the picture, and rows


@dataclass(frozen=True)
class Suspicion:
    """A suspicion about one unit, before and after a release, of somebody who knows all the others.

    It was ``before``, a probability, and becomes at most ``after``; the chance of a release that makes
    more of it is at most ``failure``.
    """

    before: float
    after: float
    failure: float = 0.0

    @property
    def counts(self) -> tuple[int, int]:
        """Return both in 100 cases, the second one rounded up."""
        return round(100 * self.before), math.ceil(round(100 * self.after, 9))

    def sentence(self, about: str) -> str:
        """Return what it means as sentences; `about_one` returns what the suspicion is ``about``."""
        before, after = self.counts
        words = f"A suspicion of {before} in 100 {about} can become at most {after} in 100."
        if self.failure:
            words += f" The chance that it becomes more is at most 1 in {_one_in(self.failure)}."
        return words


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


def suspicion(budget: Budget, before: float = _BEFORE) -> Suspicion:
    """Return the bound of a suspicion by a promise.

    Let P and Q be the laws of a release for the two possibilities, and L = ln dP/dQ its privacy loss:
    what is released multiplies the odds of the first one by e^L, by Bayes' rule.

    - ε-privacy: L <= ε, always.
    - (ε, δ)-privacy: ∫ max(0, dP - e^ε dQ) <= δ.  Where e^L >= e^ε / (1 - c) the integrand is at least
      c dP, so that P(e^L >= e^ε / (1 - c)) <= δ / c.  With c = 1/10: the odds grow by at most e^ε · 10/9,
      but for a chance of 10 δ.
    - ρ-zCDP: E[e^((α-1) L)] <= e^((α-1) α ρ) for every α > 1, so that by Markov's inequality
      P(L >= ρ + 2 √(ρ ln(1/η))) <= η for every η (Bun and Steinke 2016, Proposition 1.3).
    """
    if isinstance(budget, NoPrivacy):
        return Suspicion(before, 1.0)
    if isinstance(budget, PureDP):
        return Suspicion(before, _grown(before, budget.epsilon))
    if isinstance(budget, ApproxDP):
        after = _grown(before, budget.epsilon - math.log1p(-_PART))
        return Suspicion(before, after, min(1.0, budget.delta / _PART))
    assert isinstance(budget, ZCDP)
    loss = budget.rho + 2 * math.sqrt(budget.rho * math.log(1 / _FAILURE))
    return Suspicion(before, _grown(before, loss), _FAILURE)


def _grown(probability: float, loss: float) -> float:
    """Return a probability whose odds are multiplied by exp(``loss``)."""
    return 1 / (1 + math.exp(-loss) * (1 - probability) / probability)


def about_one(unit: str, neighbours: Adjacency) -> str:
    """Return what a suspicion is about: the record of a unit or, where neighbours lack it, its presence."""
    if neighbours.counted:
        return f"about {unit}"
    return f"that {unit} is among the records"


def suspicion_picture(suspicion: Suspicion) -> str:
    """Return a picture of a suspicion before and after, as HTML: so many squares of a hundred."""
    squares = [(_squares(0, count), _squares(count, 100)) for count in suspicion.counts]
    return rendered("promise.html.j2", {"counts": suspicion.counts, "squares": squares})


def _squares(first: int, end: int) -> str:
    """Return a path of SVG with some of a hundred squares, row by row."""
    places = (divmod(number, _SQUARES) for number in range(first, end))
    return "".join(f"M{10 * column} {10 * row}h8v8h-8z" for row, column in places)


def _one_in(chance: float) -> str:
    """Return 1 / ``chance``, rounded down to two digits."""
    number = 1 / chance * (1 + 1e-9)
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return f"{math.floor(number / unit) * unit:,}"


def privacy_sections(privacy: Privacy, steps: Mapping[str, str]) -> Iterator[Section]:
    """Yield what was promised and spent, and what it means; ``steps`` has descriptions of releases."""
    spent = tuple(
        f"{_step(event.step, steps)}: {event.share.amount} ({event.mechanism})"
        for event in privacy.events
    )
    if not privacy.private:
        declared = f"Declared budget: {privacy.budget}."
        yield Section("Privacy", (NOT_PRIVATE, declared), spent, "Its shares by step")
        return
    promise = (
        f"The release satisfies {privacy.budget}. It protects {privacy.unit}. Neighbours are two "
        f"data sets that differ as follows: {privacy.neighbours.sentence}. {privacy.scope}"
    )
    booked = "The spend was not booked in a ledger."
    if privacy.in_ledger:
        booked = "The spend was booked in a ledger before anything was computed from the data."
    if privacy.release:
        booked += f" Its release id is {privacy.release}."
    yield Section("Privacy", (promise, booked), spent, "What each step cost")
    found = suspicion(privacy.budget)
    sentence = found.sentence(about_one(privacy.unit, privacy.neighbours))
    yield Section(
        "What the promise means",
        (sentence, _meaning(privacy)),
        picture=suspicion_picture(found),
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
        f"What that means for {privacy.unit}: suppose that somebody knows {others}. With this release "
        "they decide between two possibilities for this one. A rule that errs in "
        f"{alarm} of 100 cases when the first is true is right in at most {power} of 100 when the "
        f"second is true. Without the release it would be {alarm} of 100.{less} This holds whatever "
        "else is known, now or later."
    )


def _step(name: str, steps: Mapping[str, str]) -> str:
    """Describe a release; one of several of a stage is numbered."""
    stage, comma, place = name.partition(", ")
    return f"{steps.get(stage, stage)}{comma}{place}"
