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
from dpinfer.inference import error_laws as laws_of_error
from dpinfer.inference.error_laws import BiasedNormal, LawOfError
from dpinfer.numerics.arrays import Array
from dpinfer.result import text as texts
from dpinfer.result.estimates import Estimates, checked
from dpinfer.result.question import reference_names, term_name
from dpinfer.schema.columns import did_you_mean

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_AFTER_A_NAME = r"(?=[\s+\-*/=,()]|$)"
_LEVEL = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, repr=False)
class WaldTest:
    """A test of linear restrictions; printed, it is one sentence.

    Attributes
    ----------
    statistic : float
        The quadratic statistic.
    df : int
        The number of restrictions.
    p_value : float
        From the distribution behind the intervals.  Where these allow for a bias, or the noise is
        not normal, it is simulated, and at least 1/(draws + 1).
    tested : tuple of str
        The coefficients that are tested.
    left_out : tuple of str
        The coefficients that are not, because they have no interval.
    draws : int
        The number of simulated draws behind the p-value; 0 where it is computed.
    """

    statistic: float
    df: int
    p_value: float
    tested: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    draws: int = 0

    def __repr__(self) -> str:
        degrees = "degree" if self.df == 1 else "degrees"
        p = _p_in_words(self.p_value, self.draws)
        sentence = (
            f"Wald test: statistic {self.statistic:.4g}, {self.df} {degrees} of freedom, {p}."
        )
        if self.tested:
            sentence += f" Tested: {', '.join(self.tested)}."
        if self.left_out:
            sentence += f" Not reported, so not tested: {', '.join(self.left_out)}."
        return texts.escape_controls(sentence)


@dataclass(frozen=True, repr=False)
class Contrast:
    """The estimate of one linear combination of coefficients; printed, it is one sentence.

    Attributes
    ----------
    estimate, std_error : float
        The estimate and its standard error.
    low, high : float
        The ends of its interval.
    p_value : float
        The two-sided p-value of "the combination is 0".
    draws : int
        The number of simulated draws behind the p-value; 0 where it is computed.
    level : float
        The confidence level of the interval.
    """

    estimate: float
    std_error: float
    low: float
    high: float
    p_value: float
    draws: int = 0
    level: float = 0.95

    def __repr__(self) -> str:
        decimals = texts.decimals_for(self.std_error)
        ends = texts.interval(self.low, self.high, self.std_error)
        p = _p_in_words(self.p_value, self.draws)
        return (
            f"Estimate {texts.number(self.estimate, decimals)}, {100 * self.level:.4g}% interval {ends}, "
            f"standard error {texts.number(self.std_error, decimals)}, {p}."
        )


def _p_in_words(p_value: float, draws: int) -> str:
    """Return a p-value as in "p = .031", with the number of draws where it was simulated."""
    shown = texts.p_value(p_value, draws)
    equation = f"p {shown}" if shown.startswith("<") else f"p = {shown}"
    if draws:
        equation += f" ({draws:,} draws)"
    return equation


def contrast(fit: Estimates, vector: str | npt.ArrayLike, level: float) -> Contrast:
    """Return the estimate and the interval of one linear combination."""
    if isinstance(vector, str):
        vector = Hypothesis(Vocabulary.of(fit), vector).combination()
    vector = np.asarray(vector, dtype=float)
    matrix = restrictions(fit, np.atleast_2d(vector))
    if len(matrix) != 1:
        raise InputError("a contrast is one vector; use wald for several at once")
    return _contrast(*resolved(fit, matrix), level)


def _contrast(value: Array, law: LawOfError, level: float) -> Contrast:
    level = checked(level)
    low, high = law.interval(value, level)[0]
    return Contrast(
        estimate=float(value[0]),
        std_error=float(np.sqrt(law.covariance()[0, 0])),
        low=float(low),
        high=float(high),
        p_value=float(law.p_values(value)[0]),
        draws=laws_of_error.draws_of_test(law, 1),
        level=level,
    )


def equation(fit: Estimates, text: str, level: float) -> Contrast:
    """Test one equation: estimate the left side less the right one, and test that it is 0."""
    if not isinstance(text, str):
        raise InputError("t_test takes a text such as 'a = b': use contrast for numbers")
    equations = Hypothesis(Vocabulary.of(fit), text).equations(fit.reported)
    if len(equations.matrix) != 1 or equations.left_out:
        raise InputError(f"{text!r} is not one equation: test several at once with wald")
    value, law = resolved(fit, restrictions(fit, equations.matrix))
    return _contrast(value - equations.right, law, level)


def wald(fit: Estimates, R: str | npt.ArrayLike, r: npt.ArrayLike) -> WaldTest:
    """Test R target = r, or equations in words."""
    tested: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    if isinstance(R, str):
        if np.any(np.asarray(r) != 0):
            raise InputError(
                "with names the right side stands in the text, as in 'a = 2': leave out r="
            )
        equations = Hypothesis(Vocabulary.of(fit), R).equations(fit.reported)
        R = equations.matrix
        r = equations.right
        tested = equations.tested
        left_out = equations.left_out
    matrix = restrictions(fit, np.atleast_2d(np.asarray(R, dtype=float)))
    if np.linalg.matrix_rank(matrix) < len(matrix):
        raise InputError(
            "the rows of R, or the equations, must be linearly independent: drop what follows from "
            "others"
        )
    right = np.asarray(r, dtype=float)
    if right.shape not in ((), (len(matrix),)) or not np.isfinite(right).all():
        raise InputError("r needs one finite number per row of R, or one for all")
    value, law = resolved(fit, matrix)
    statistic, p_value = laws_of_error.wald(value - right, law)
    draws = laws_of_error.draws_of_test(law, len(matrix))
    return WaldTest(statistic, len(matrix), p_value, tested, left_out, draws)


def restrictions(fit: Estimates, matrix: Array) -> Array:
    """Check the rows of restrictions: one number per coefficient."""
    if matrix.ndim != 2 or matrix.shape[1] != len(fit.names) or not np.isfinite(matrix).all():
        raise InputError(
            f"restrictions need one finite number per coefficient, {len(fit.names)} in a row"
        )
    return matrix


def resolved(fit: Estimates, matrix: Array) -> tuple[Array, LawOfError]:
    """Return the estimates of combinations, one per row, and the law of their errors.

    Where one of them uses a coefficient without an interval, all of them are asked of the law of
    all coefficients:  it may tell a combination of coefficients that it cannot tell one by one.
    Refused where it does not.
    """
    kept = fit.reported
    # One row with a coefficient that is not reported is enough: without it the others would be
    # another hypothesis.
    unreported = np.any(matrix != 0, axis=0) & ~kept
    if not unreported.any():
        return matrix[:, kept] @ fit.estimate[kept], fit.error.mapped(matrix[:, kept])
    if fit.joint is not None and isinstance(fit.error, BiasedNormal):
        answers = fit.joint.about(matrix, fit.error.draws, fit.error.seed)
        if answers.known.all():
            return answers.estimate, answers.law
    reasons = [f"{fit.names[j]} is {fit.statuses[j]}" for j in np.flatnonzero(unreported)]
    raise InputError(
        f"the budget does not tell this combination: {'; '.join(reasons)}; leave that out of it, or "
        "give a larger budget or more records"
    )


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
        """Make the vocabulary of a result's formula; without one, terms are names without their
        levels, and no reference is known.
        """
        terms: dict[str, tuple[str, ...]] = {}
        zeros: set[str] = set()
        if fit.question is None:
            for name in fit.names:
                term = _LEVEL.sub("", name)
                terms[term] = (*terms.get(term, ()), name)
            return cls(fit.names, frozenset(), terms)
        for block in fit.question.terms().blocks:
            term = ":".join(map(term_name, block.parts))
            fitted = [name for name in block.names if name in fit.names]
            terms[term] = (*terms.get(term, ()), *fitted)
            zeros |= reference_names(block)
        return cls(fit.names, frozenset(zeros - set(fit.names)), terms)


@dataclass(frozen=True, eq=False)
class Equations:
    """``matrix`` times the coefficients is ``right``; which coefficients are ``tested``, and which
    of whole terms are ``left_out`` since they have no interval.
    """

    matrix: Array
    right: Array
    tested: tuple[str, ...]
    left_out: tuple[str, ...]


def _bare(name: str) -> str:
    return name.replace("`", "")


class Hypothesis:
    """A hypothesis in words.

    Names may hold any character, so that each known name becomes a plain word, w0, w1 and so on,
    before anything else is read.  Backticks around the names of columns may stand there or not, as
    in `class`[b].  What is left is cut at commas and at equals signs, and formulaic reads every side.
    """

    def __init__(self, vocabulary: Vocabulary, text: str) -> None:
        self.names = vocabulary.names
        self.terms = {
            term: names for term, names in vocabulary.terms.items() if term not in self.names
        }
        self.text = text
        self.words = [*self.names, *sorted(vocabulary.zeros), *self.terms]
        bare = [_bare(word) for word in self.words]
        if len(set(bare)) == len(set(self.words)):
            self.spellings = bare
            self.text_to_read = _bare(text)
        else:  # backticks alone tell two names apart
            self.spellings = self.words
            self.text_to_read = text

    def combination(self) -> Array:
        """Return one combination of coefficients, without a constant."""
        coded = self._coded()
        if "=" in coded or "," in coded:
            raise self._refused("a contrast is one combination: test equations with wald")
        side = self._side(coded)
        if side[-1] != 0:
            raise self._refused(
                "a contrast has no constant: leave the number out, or test 'a = 2' with wald"
            )
        if not side.any():
            raise self._refused(
                "nothing is left of it: a reference level has no coefficient, and counts as 0"
            )
        return side[:-1]

    def equations(self, reported: npt.NDArray[np.bool_]) -> Equations:
        """Return all equations; of a whole term, those of its reported coefficients."""
        rows: list[Array] = []
        left_out: list[str] = []
        whole_terms = {self._code(term): names for term, names in self.terms.items()}
        for part in self._coded().split(","):
            names = whole_terms.get(part.strip())
            if names is None:
                rows += self._chain(part)
                continue
            kept = [name for name in names if reported[self.names.index(name)]]
            left_out += [name for name in names if name not in kept]
            if not kept:
                raise self._refused(
                    f"none of {', '.join(names)} has an interval at this budget: nothing is left to "
                    "test"
                )
            rows += [self._side(self._code(name)) for name in kept]
        matrix = np.array(rows)
        used = np.flatnonzero(matrix[:, :-1].any(axis=0))
        tested = tuple(self.names[j] for j in used)
        return Equations(matrix[:, :-1], -matrix[:, -1], tested, tuple(left_out))

    def _chain(self, part: str) -> list[Array]:
        """Return a = b = 0 as rows a - b and b; a combination alone is tested against 0."""
        sides = [self._side(side) for side in part.split("=")]
        if len(sides) == 1:
            sides.append(np.zeros_like(sides[0]))
        rows = [left - right for left, right in pairwise(sides)]
        if not all(row[:-1].any() for row in rows):
            raise self._refused(
                "an equation names no coefficient; a reference level has none, and counts as 0"
            )
        return rows

    def _coded(self) -> str:
        """Replace every name by a plain word, and write numbers without an exponent."""
        longest_first = sorted(self.spellings, key=len, reverse=True)
        names = "|".join(map(re.escape, longest_first))
        token = re.compile(
            rf"\s*(?:(?P<name>{names}){_AFTER_A_NAME}|(?P<number>{_NUMBER})|(?P<sign>[-+*/=,()]))"
        )
        coded = []
        rest = self.text_to_read.strip()
        while rest:
            match = token.match(rest)
            if match is None:
                raise self._unknown(rest)
            if match["name"] is not None:
                coded.append(f"w{self.spellings.index(match['name'])}")
            elif match["number"] is not None:
                coded.append(self._plain(match["number"]))
            else:
                coded.append(match["sign"])
            rest = rest[match.end() :].lstrip()
        return " ".join(coded)

    def _plain(self, number: str) -> str:
        value = float(number)
        if np.isinf(value):
            raise self._refused(f"the number {number} is too large")
        return np.format_float_positional(value)

    def _code(self, name: str) -> str:
        return f"w{self.words.index(name)}"

    def _side(self, coded: str) -> Array:
        """Return one number per coefficient, and last the constant."""
        from formulaic.errors import FormulaParsingError  # noqa: PLC0415  (loaded when asked for)
        from formulaic.utils.constraints import LinearConstraintParser  # noqa: PLC0415

        for term in self.terms:
            if self._code(term) in coded.split():
                raise self._refused(
                    f"{term!r} is a whole term: test it alone, as in wald({term!r})"
                )
        if coded.count("(") != coded.count(")"):
            raise self._refused("a parenthesis is not closed, or not opened")
        if not coded.strip() or "( )" in coded:  # formulaic would read nothing as 0
            raise self._refused("a name or a number is missing")
        try:
            parser = LinearConstraintParser([self._code(word) for word in self.words])
            matrix, values = parser.get_matrix(coded)
        except FormulaParsingError:
            raise self._refused("a name, a number or an operator is missing") from None
        except (RuntimeError, ZeroDivisionError):
            raise self._refused(
                "a combination is linear: coefficients may be added, and multiplied or divided by a "
                "number other than 0"
            ) from None
        return np.array([*matrix[0, : len(self.names)], -values[0]], dtype=float)

    def _unknown(self, rest: str) -> InputError:
        asked = re.split(r"[-+*/=,]", rest, maxsplit=1)[0].strip()
        return self._refused(
            f"there is no coefficient {asked!r}: {did_you_mean(asked, self.words)}"
        )

    def _refused(self, reason: str) -> InputError:
        return InputError(f"{self.text!r} cannot be read: {reason}")
