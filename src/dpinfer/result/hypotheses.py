"""Contrasts and tests of linear restrictions, given as numbers or by the names of coefficients.

For example:

    health[fair] - health[good]       a contrast
    health                            a test of a whole factor
    a = b = 0, c = 2                  a test of several equations
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths import error_laws as laws_of_error
from dpinfer.maths.arrays import Array
from dpinfer.maths.error_laws import BiasedNormal, LawOfError
from dpinfer.result.estimates import Estimates, checked
from dpinfer.result.question import reference_names
from dpinfer.result.statements import OPENING
from dpinfer.schema.columns import did_you_mean

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BETWEEN = " \t\n+-*/=,()"


@dataclass(frozen=True)
class WaldTest:
    """A test of linear restrictions; ``left_out`` names coefficients without an interval, which it
    does not test.
    """

    statistic: float
    df: int
    p_value: float
    tested: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contrast:
    """One linear combination of coefficients."""

    estimate: float
    std_error: float
    low: float
    high: float
    p_value: float


def contrast(fit: Estimates, what: str | npt.ArrayLike, level: float) -> Contrast:
    """Estimate and interval of one combination."""
    vector = (
        Reader(Vocabulary.of(fit), what).alone()
        if isinstance(what, str)
        else np.asarray(what, dtype=float)
    )
    matrix = restrictions(fit, np.atleast_2d(vector))
    if len(matrix) != 1:
        raise InputError("a contrast is one vector; use wald for several at once")
    value, law = resolved(fit, matrix)
    low, high = law.interval(value, checked(level))[0]
    std_error = float(np.sqrt(law.covariance()[0, 0]))
    return Contrast(
        float(value[0]), std_error, float(low), float(high), float(law.p_values(value)[0])
    )


def wald(fit: Estimates, R: str | npt.ArrayLike, r: npt.ArrayLike) -> WaldTest:
    """Test R target = r, or equations in words."""
    tested: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    if isinstance(R, str):
        if np.any(np.asarray(r) != 0):
            raise InputError(
                "with names the right side stands in the text, as in 'a = 2': leave out r="
            )
        R, r, tested, left_out = Reader(Vocabulary.of(fit), R).equations(fit.reported)
    matrix = restrictions(fit, np.atleast_2d(np.asarray(R, dtype=float)))
    if np.linalg.matrix_rank(matrix) < len(matrix):
        raise InputError(
            "the rows of R, or the equations, must be linearly independent: drop what follows from others"
        )
    right = np.asarray(r, dtype=float)
    if right.shape not in ((), (len(matrix),)) or not np.isfinite(right).all():
        raise InputError("r needs one finite number a row of R, or one for all")
    value, law = resolved(fit, matrix)
    statistic, p_value = laws_of_error.wald(value - right, law)
    return WaldTest(statistic, len(matrix), p_value, tested, left_out)


def restrictions(fit: Estimates, matrix: Array) -> Array:
    """Rows over all coefficients, one number each."""
    if matrix.ndim != 2 or matrix.shape[1] != len(fit.names) or not np.isfinite(matrix).all():
        raise InputError(
            f"restrictions need one finite number a coefficient, {len(fit.names)} in a row"
        )
    return matrix


def resolved(fit: Estimates, matrix: Array) -> tuple[Array, LawOfError]:
    """Estimates of combinations, one a row, and the law of their errors.

    Where one of them uses a coefficient without an interval, all of them are asked of the law of
    all coefficients:  it may tell a combination of coefficients that it cannot tell one by one.
    Refused where it does not.
    """
    kept = fit.reported
    used = np.any(matrix != 0, axis=0) & ~kept
    if not used.any():
        return matrix[:, kept] @ fit.estimate[kept], fit.error.mapped(matrix[:, kept])
    if fit.joint is not None and isinstance(fit.error, BiasedNormal):
        answers = fit.joint.about(matrix, fit.error.draws, fit.error.seed)
        if answers.known.all():
            return answers.estimate, answers.law
    raise InputError(
        f"the budget does not tell this combination: {_why(fit, used)}; leave that out of it, or give a larger budget "
        "or more records"
    )


def _why(fit: Estimates, used: npt.NDArray[np.bool_]) -> str:
    """The coefficients without an interval that are used, each with its status."""
    return "; ".join(f"{fit.names[j]} is {_said(fit.status[j])}" for j in np.flatnonzero(used))


def _said(status: str) -> str:
    return status.replace(OPENING, "open, ", 1)


@dataclass(frozen=True)
class Vocabulary:
    """What a hypothesis may name: coefficients, combinations of reference levels, which are 0, and
    whole terms.
    """

    names: tuple[str, ...]
    zeros: frozenset[str]
    terms: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, fit: Estimates) -> "Vocabulary":
        """By the formula; without one, terms are names without their levels, and no reference is
        known.
        """
        terms: dict[str, tuple[str, ...]] = {}
        zeros: set[str] = set()
        if fit.question is not None:
            for block in fit.question.terms().blocks:
                term = ":".join(part.text for part in block.parts)
                terms[term] = (
                    *terms.get(term, ()),
                    *(name for name in block.names if name in fit.names),
                )
                zeros |= reference_names(block)
        else:
            for name in fit.names:
                term = re.sub(r"\[[^\]]*\]", "", name)
                terms[term] = (*terms.get(term, ()), name)
        return cls(fit.names, frozenset(zeros - set(fit.names)), terms)


class Reader:
    """A hypothesis, read from left to right; names are known, so they may hold any character."""

    def __init__(self, known: Vocabulary, text: str) -> None:
        self.known, self.text, self.at = known, text, 0
        self.words = sorted({*known.names, *known.zeros}, key=len, reverse=True)

    def alone(self) -> Array:
        """One combination of coefficients, without a constant."""
        row = self._sum()
        if self._next() in ("=", ","):
            raise self._refused("a contrast is one combination: test equations with wald")
        self._finished()
        if row[-1] != 0:
            raise self._refused(
                "a contrast has no constant: leave the number out, or test 'a = 2' with wald"
            )
        if not row.any():
            raise self._refused(
                "nothing is left of it: a reference level has no coefficient, and counts as 0"
            )
        return np.asarray(row[:-1])

    def equations(
        self, reported: npt.NDArray[np.bool_]
    ) -> tuple[Array, Array, tuple[str, ...], tuple[str, ...]]:
        """R and r of all equations, which coefficients are tested, and which of whole terms cannot
        be.
        """
        rows: list[Array] = []
        left_out: list[str] = []
        while True:
            term = self._term()
            if term is None:
                rows += self._chain()
            else:
                kept = [name for name in term if reported[self.known.names.index(name)]]
                left_out += [name for name in term if name not in kept]
                if not kept:
                    raise self._refused(
                        f"none of {', '.join(term)} has an interval at this budget: nothing is left to test"
                    )
                rows += [self._unit(name) for name in kept]
            if self._next() != ",":
                break
            self.at += 1
        self._finished()
        matrix = np.array(rows)
        used = np.flatnonzero(matrix[:, :-1].any(axis=0))
        return (
            matrix[:, :-1],
            -matrix[:, -1],
            tuple(self.known.names[j] for j in used),
            tuple(left_out),
        )

    def _chain(self) -> list[Array]:
        """a = b = 0 as rows a - b and b; a combination alone is tested against 0."""
        sides = [self._sum()]
        while self._next() == "=":
            self.at += 1
            sides.append(self._sum())
        if len(sides) == 1:
            sides.append(np.zeros(len(self.known.names) + 1))
        rows = [left - right for left, right in pairwise(sides)]
        if not all(row[:-1].any() for row in rows):
            raise self._refused(
                "an equation names no coefficient; a reference level has none, and counts as 0"
            )
        return rows

    def _term(self) -> tuple[str, ...] | None:
        """The coefficients of a whole term, if its name stands here alone and is no coefficient."""
        self._next()
        for name in sorted(self.known.terms, key=len, reverse=True):
            rest = self.text[self.at :].removeprefix(name).lstrip()
            if (
                self.text.startswith(name, self.at)
                and name not in self.known.names
                and rest[:1] in ("", ",")
            ):
                self.at += len(name)
                return self.known.terms[name]
        return None

    def _sum(self) -> Array:
        total = np.zeros(len(self.known.names) + 1)
        sign = 1.0
        if self._next() in ("+", "-"):
            sign, self.at = (1.0 if self._next() == "+" else -1.0), self.at + 1
        while True:
            total = total + sign * self._product()
            if self._next() not in ("+", "-"):
                return total
            sign, self.at = (1.0 if self._next() == "+" else -1.0), self.at + 1

    def _product(self) -> Array:
        value = self._factor()
        while (operator := self._next()) in ("*", "/"):
            self.at += 1
            other = self._factor()
            if operator == "/":
                if other[:-1].any() or other[-1] == 0:
                    raise self._refused("only a number other than 0 may stand under a fraction")
                value = value / other[-1]
            elif value[:-1].any() and other[:-1].any():
                raise self._refused(
                    "a combination is linear: coefficients may be added and multiplied by numbers"
                )
            else:
                value = value[-1] * other if other[:-1].any() else value * other[-1]
        return np.asarray(value)

    def _factor(self) -> Array:
        """A coefficient, a number, or a combination in parentheses."""
        start = self._next()
        for name in self.words:
            after = self.text[self.at + len(name) : self.at + len(name) + 1]
            if self.text.startswith(name, self.at) and after in ("", *_BETWEEN):
                self.at += len(name)
                return self._unit(name)
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return float(number[0]) * self._unit(None)
        if start == "(":
            self.at += 1
            inner = self._sum()
            if self._next() != ")":
                raise self._refused("a parenthesis is not closed")
            self.at += 1
            return inner
        raise self._unknown()

    def _unit(self, name: str | None) -> Array:
        """The row of one coefficient, of nothing for a reference level, of the number 1 for None."""
        row = np.zeros(len(self.known.names) + 1)
        if name is None:
            row[-1] = 1.0
        elif name in self.known.names:
            row[self.known.names.index(name)] = 1.0
        return row

    def _next(self) -> str:
        """The next character that is no space; empty at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _finished(self) -> None:
        if self._next():
            raise self._unknown()

    def _unknown(self) -> InputError:
        word = re.match(r"[^+\-*/=,]*", self.text[self.at :])
        asked = word[0].strip() if word else ""
        if not asked:
            return self._refused("a name or a number is missing")
        if asked in self.known.terms:
            return self._refused(f"{asked!r} is a whole term: test it alone, as in wald({asked!r})")
        return self._refused(
            f"there is no coefficient {asked!r}: {did_you_mean(asked, [*self.words, *self.known.terms])}"
        )

    def _refused(self, reason: str) -> InputError:
        return InputError(f"{self.text!r} cannot be read: {reason}")
