"""Records like those of a fit to come: of public guesses, or of a public table.

More records than `max_records` says are not made: that many stand for all, each counted as often
as it takes.  Every sum over records is then exactly that of a data set in which each of them is
there that often.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, expit, gammaincinv, logit

from dpinfer.errors import InputError
from dpinfer.mechanisms.sums import OfBlock
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.rows.source import Rows, Source
from dpinfer.schema.columns import Category, Column, Number, Outcome, levels_of
from dpinfer.schema.design import COUNT, CountScale, Design
from dpinfer.schema.guesses import (
    COUNT_MEAN,
    COUNT_PART,
    OVERDISPERSION,
    Shares,
    Spread,
    Typical,
    default_count_guess,
    default_guess,
    uniform,
)
from dpinfer.schema.terms import Expression, ModelTerms, ReadCodes, ReadNumbers, Response
from dpinfer.simulate.population import Population

_RECORDS = 50_000  # that are made, at most
_NUMBERS = 2_000_000  # in their rows together, at most
_RECORDS_PER_COLUMN = 20  # at least, whatever the two limits above say
_ATOMS = 2**13  # values that stand for a law
_TWO_POINTS = 1e-6  # a beta law with less in both of its parameters together is at its two ends
_GOLDEN = (
    math.sqrt(5) - 1
) / 2  # its multiples modulo 1 are evenly spread over any stretch of them
_NARROWEST = 0.05  # part of the sd of integers that is left to the law that is rounded

LOG_ODDS = 1.35
"""The deviation of the log-odds where no effects are given.  In the seven real designs of
studies/geometry it is .6 to 3.5, 1.5 in the middle; forecasts of three of them were closest to what
the study found with a little less."""

LOG_RATE = 0.35
"""The deviation of the log rate of counts where no effects are given: .24 to .35 in three real designs
of visits to a doctor or a hospital."""

OFF = (0.9, 2.3)
"""Real intervals over those forecast from true means, deviations and shares, for four lines in five:
what guesses do not know makes them longer, as columns go together and outcomes have long tails.
`studies/forecast.py` holds forecasts against sixteen real designs."""

_LEVELS = "levels equally frequent"
_NUMBERS_AROUND = (
    "numbers around the middle of their bounds, with a sixth of the distance of these as deviation"
)
_COUNTS = (
    f"counts with a mean μ of {COUNT_MEAN:g}, or of {100 * COUNT_PART:g}% of their bound where that is less, and the "
    f"variance μ + {OVERDISPERSION:g} μ²"
)
_EXPOSURES = "exposures as often small as large, up to their bound"
_MIN_DISPERSION = 1e-3  # of a count beside Poisson's: with less it is Poisson's


def max_records(dim: int) -> int:
    """Return how many records of this length are made at most."""
    return max(_RECORDS_PER_COLUMN * dim, min(_RECORDS, _NUMBERS // dim))


@dataclass(frozen=True, repr=False)
class Repeated:
    """A source of ``n`` records: each row of another one counts n / len(rows) times."""

    source: Rows
    n: int

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.source.dim

    def total(self, of_block: OfBlock, /) -> Array:
        """Return the sum over the other source, times n / len(rows)."""
        return np.asarray(self.source.total(of_block) * (self.n / self.source.n))


def repeated(rows: Rows, n: int) -> Source:
    """Return a source of ``n`` records that are like these rows in memory."""
    return rows if rows.n == n else Repeated(rows, n)


class Synthetic(Protocol):
    """The source of the records of a forecast."""

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions, in sentences."""
        ...

    @property
    def unstated(self) -> tuple[str, ...]:
        """The columns of which nobody said what is typical."""
        ...

    @property
    def off(self) -> tuple[float, float]:
        """By which factors, from the least to the largest, intervals of real records may miss."""
        ...

    def typical(self, n: int) -> Rows:
        """Return rows that stand for ``n`` records, with as little randomness as possible."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Source:
        """Draw a sample of ``n`` records."""
        ...


@dataclass(frozen=True, eq=False)
class OfTable:
    """Records of a public table, drawn with replacement."""

    population: Population
    unit_word: str

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumption that the table is like the data, and public."""
        size = f"{self.population.n:,} {self.unit_word}"
        return (f"the {size} of the look-alike table, which must be public",)

    @property
    def unstated(self) -> tuple[str, ...]:
        """None: the table says it."""
        return ()

    @property
    def off(self) -> tuple[float, float]:
        """None: the table is taken to be like the data."""
        return 1.0, 1.0

    def typical(self, n: int) -> Rows:  # noqa: ARG002  (all of them, whatever they stand for)
        """Return all of them, or as many as are made at most."""
        return self._subset(np.random.default_rng(0))

    def sample(self, n: int, rng: np.random.Generator) -> Source:
        """Draw records; or, for more than are made, return all of them as they are."""
        if n > self._bound:
            return repeated(self._subset(rng), n)
        return self.population.of(np.sort(rng.integers(0, self.population.n, n)))

    def _subset(self, rng: np.random.Generator) -> Rows:
        """Draw records without repetition, as many as are made at most."""
        places = rng.permutation(self.population.n)[: self._bound]
        return self.population.of(np.sort(places))

    @property
    def _bound(self) -> int:
        return max_records(self.population.rows.shape[1])


@dataclass(frozen=True, eq=False)
class OfGuesses:
    """Independent columns that are as public guesses say, and an outcome with ``effects`` of the
    design's columns.

    Without ``effects`` default ones are taken, and none on a numeric outcome.  A number has a beta
    law on its public bounds with the mean and deviation that are guessed, an integer whole numbers
    with these.  A count has that mean
    and, beyond what effects and exposures explain of it, a gamma law of its rate; a whole one is a
    Poisson number of that rate.
    """

    response: Response
    terms: ModelTerms
    design: Design
    guesses: Mapping[str, Typical]
    effects: Mapping[str, float] | None

    def __post_init__(self) -> None:
        names = self._slopes
        for name in self.effects or ():
            if name not in names:
                raise InputError(
                    f"effects names {name!r}, which is no coefficient: there are {', '.join(names)}"
                )
        if self.design.unit.weights:
            raise InputError(
                "nothing is guessed about sampling weights: give a public look-alike table, or a schema without them"
            )

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumption that columns are independent, and the guesses where the schema has none."""
        sentences = ["columns that are independent", self._effects_in_words()]
        named: dict[str, list[str]] = {words: [] for words in (_LEVELS, _NUMBERS_AROUND)}
        for column in columns_without_typical(self.response, self.terms, self.guesses):
            named.setdefault(self._unguessed(column)[1], []).append(column.name)
        for words, names in named.items():
            if names:
                sentences.append(
                    f"as the schema does not say what is typical, {words}: {', '.join(names)}"
                )
        if self.design.unit.many:
            sentences.append("one row per unit")
        return tuple(sentences)

    @property
    def unstated(self) -> tuple[str, ...]:
        """The columns of which the schema does not say what is typical."""
        columns = columns_without_typical(self.response, self.terms, self.guesses)
        return tuple(column.name for column in columns)

    @property
    def off(self) -> tuple[float, float]:
        """The range of real half-widths over those forecast, for guesses that are right as far as
        they go.
        """
        return OFF

    @property
    def _counts(self) -> bool:
        return isinstance(self.design.outcome, CountScale)

    def _unguessed(self, column: Column) -> tuple[Typical, str]:
        """Return the law of a column of which the schema does not say what is typical, and its
        description.
        """
        law = default_guess(column)
        words = _NUMBERS_AROUND
        if self._counts and column in self.response.columns:
            law = default_count_guess(column)
            words = _COUNTS
        elif self._only_exposes(column):
            law = uniform(column)
            words = _EXPOSURES
        if isinstance(law, Shares):
            return law, _LEVELS
        return law, words

    def _only_exposes(self, column: Column) -> bool:
        """Return whether a column is a part of the exposure, and of no term."""
        offset = self.terms.offset
        if offset is None or column not in offset.columns:
            return False
        return not any(column in block.columns for block in self.terms.blocks)

    def _effects_in_words(self) -> str:
        if self.effects is None and self._counts:
            return f"effects that spread the log rate by a deviation of {LOG_RATE:g}"
        if self.effects is None and self.response.levels:
            return f"effects that spread the log-odds by a deviation of {LOG_ODDS:g}"
        if self.effects and any(self.effects.values()):
            return "effects as given"
        return "no effects"

    @property
    def _slopes(self) -> tuple[str, ...]:
        """The names of the coefficients but the intercept."""
        return self.design.names[int(self.design.intercept) :]

    def typical(self, n: int) -> Rows:
        """Return values at even quantiles, in random order: means, deviations and shares are those
        guessed.
        """
        return self._rows(min(n, self._bound), np.random.default_rng(0), even=True)

    def sample(self, n: int, rng: np.random.Generator) -> Source:
        """Draw records; of more than are made, return values at even quantiles."""
        return repeated(self._rows(min(n, self._bound), rng, even=n > self._bound), n)

    @property
    def _bound(self) -> int:
        return max(1, max_records(len(self.design.names)))

    def _rows(self, size: int, rng: np.random.Generator, *, even: bool) -> Rows:
        """Return records, or units of one row each, by even or by random quantiles of each column."""

        def quantiles() -> Array:
            return (rng.permutation(size) + 0.5) / size if even else rng.random(size)

        drawn: dict[str, Array] = {}
        for column in (*self.terms.columns, *self.response.columns):
            if isinstance(column, Outcome):  # its chances depend on the other columns
                drawn[column.name] = quantiles()
            else:
                law = self.guesses.get(column.name, self._unguessed(column)[0])
                drawn[column.name] = values_at(column, law, quantiles())
        design = self._columns(drawn)
        kind = "margin" if self.response.levels else "residual"
        values = design
        if self._counts:
            kind = COUNT
            offset = self._offset(drawn, size)
            labels = self._rates(drawn, design, offset).counts(quantiles(), rng)
            if self.terms.offset is not None:
                values = np.column_stack([design, offset])
        else:
            labels = self._labels(drawn, design, quantiles)
        rows = Rows.encoded(self.design.rows(values), self.design.outcome.bounded(labels), kind)
        unit = self.design.unit
        if not unit.many:
            return rows
        return rows.counted(unit.max_total, np.arange(size))

    def _columns(self, drawn: Mapping[str, Array]) -> Array:
        """Return the design's columns in original units."""
        parts = [block.values(*_readers(drawn)) for block in self.terms.blocks]
        size = len(next(iter(drawn.values())))
        return np.column_stack([np.empty((size, 0)), *parts])

    def _labels(
        self, drawn: Mapping[str, Array], design: Array, quantiles: Callable[[], Array]
    ) -> Array:
        """Return -1 and +1, or numbers: the outcome without effects, and the effects around their
        mean.
        """
        centred = _centred(design)
        moved = np.zeros(len(design))
        if self.effects is not None:
            moved = centred @ np.array([self.effects.get(name, 0.0) for name in self._slopes])
        elif self.response.levels:
            moved = _default_effects(centred, LOG_ODDS)
        outcome = self.response.read_as
        if isinstance(outcome, Outcome):
            law = self.guesses.get(outcome.name, default_guess(outcome))
            assert isinstance(law, Shares)
            return np.where(drawn[outcome.name] < _chances(law.of[1], moved), 1.0, -1.0)
        if outcome.answers:
            answers = outcome.values(*_readers(drawn))
            labels = np.where(quantiles() < _chances(_mean(answers), moved), 1.0, -1.0)
            return np.where(np.isnan(answers), np.nan, labels)
        return _numbers(outcome, drawn, moved)

    def _offset(self, drawn: Mapping[str, Array], size: int) -> Array:
        """Return the logarithms of the exposures, NaN where one is 0; 0 without any."""
        if self.terms.offset is None:
            return np.zeros(size)
        offset = self.terms.offset.values(*_readers(drawn))
        return np.where(np.isfinite(offset), offset, np.nan)

    def _rates(self, drawn: Mapping[str, Array], design: Array, offset: Array) -> "_Rates":
        """Return the law of counts: the mean and variance they have all together, and how effects
        and exposures move the mean.
        """
        centred = _centred(design)
        if self.effects is None:
            moved = _default_effects(centred, LOG_RATE)
        else:
            moved = centred @ np.array([self.effects.get(name, 0.0) for name in self._slopes])
        outcome = self.response.number
        assert outcome is not None
        plain = outcome.values(*_readers(drawn))
        times = np.exp(moved - moved.max(initial=0.0) + np.nan_to_num(offset, nan=-np.inf))
        times = times / max(times.mean(), np.finfo(float).tiny)
        integer = all(
            isinstance(column, Number) and column.kind == "integer" for column in outcome.columns
        )
        return _Rates(outcome, _mean(plain), _variance(plain), times, integer)


def columns_without_typical(
    response: Response, terms: ModelTerms, guesses: Mapping[str, Typical]
) -> list[Column]:
    """Return the columns of a formula of which nobody said what is typical, each once."""
    columns = {column.name: column for column in (*response.columns, *terms.columns)}
    return [column for name, column in columns.items() if name not in guesses]


@dataclass(frozen=True, eq=False)
class _Rates:
    """Counts with a mean and a variance all together; ``times`` is 1 on average, and has the mean of
    each over that of all.
    """

    outcome: Expression
    mean: float
    variance: float
    times: Array
    integer: bool

    @property
    def dispersion(self) -> float:
        """The variance of the rate of a record over its square: what `times` and, of whole numbers,
        a Poisson law leave unexplained.
        """
        own = self.variance - self.mean * self.integer
        explained = float((self.times**2).mean())
        return max((own / self.mean**2 + 1) / explained - 1, _MIN_DISPERSION)

    def counts(self, quantiles: Array, rng: np.random.Generator) -> Array:
        """Return one count per record, with the rates at these quantiles of their law."""
        shape = 1 / self.dispersion
        rates = self.mean * self.times * gammaincinv(shape, quantiles) / shape
        values = rates
        if self.integer:
            values = rng.poisson(np.minimum(rates, self.outcome.high)).astype(float)
        return np.asarray(np.clip(values, self.outcome.low, self.outcome.high))


def _readers(drawn: Mapping[str, Array]) -> tuple[ReadNumbers, ReadCodes]:
    """Return readers of drawn numbers and of codes of levels: the code of a number is that of the
    nearest level.
    """

    def numbers(column: Number) -> Array:
        return drawn[column.name]

    def places(column: Number | Category) -> Indices:
        values = drawn[column.name]
        if isinstance(column, Category):
            return values.astype(np.intp)
        levels = np.array(levels_of(column), dtype=float)
        return np.asarray(np.abs(values[:, None] - levels).argmin(axis=1))

    return numbers, places


def _default_effects(centred: Array, deviation: float) -> Array:
    """Return changes of log-odds, or log rates, with this standard ``deviation``.

    All columns move them by as much, up and down in turn, so that levels of one factor differ.  The
    step of a column is as long as the distance at which most of its variance is: for a rare level
    that is the level itself, and not one of its small deviations.
    """
    step = np.sqrt(
        (centred**4).mean(axis=0) / np.maximum((centred**2).mean(axis=0), np.finfo(float).tiny)
    )
    signs = np.where(np.arange(len(step)) % 2, -1.0, 1.0)
    moved = centred @ np.divide(signs, step, out=np.zeros(len(step)), where=step > 0)
    return np.asarray(moved * deviation / max(moved.std(), np.finfo(float).tiny))


def values_at(column: Number | Category, law: Typical, quantiles: Array) -> Array:
    """Return values of a number, or codes of levels, at quantiles between 0 and 1."""
    if isinstance(law, Spread):
        assert isinstance(column, Number)
        atoms = _integer_atoms if column.kind in ("integer", "date") else _atoms
        return atoms(column.low, column.high, law)[(quantiles * _ATOMS).astype(np.intp)]
    codes = np.searchsorted(np.cumsum(law.of), quantiles, side="right")
    codes = np.minimum(codes, len(law.of) - 1)
    if isinstance(column, Number):
        return np.array(levels_of(column), dtype=float)[codes]
    return codes.astype(float)


@lru_cache(maxsize=256)
def _atoms(low: float, high: float, law: Spread) -> Array:
    """Return even quantiles of the beta law on the bounds with this mean and standard deviation."""
    mean = (law.mean - low) / (high - low)
    quantiles = (np.arange(_ATOMS) + 0.5) / _ATOMS
    total = mean * (1 - mean) / (law.sd / (high - low)) ** 2 - 1
    if total < _TWO_POINTS:
        return np.where(quantiles < 1 - mean, low, high)
    inside = betaincinv(mean * total, (1 - mean) * total, quantiles)
    return np.asarray(low + (high - low) * inside)


@lru_cache(maxsize=256)
def _integer_atoms(low: float, high: float, law: Spread) -> Array:
    """Return even quantiles of a law of whole numbers on the bounds with this mean and standard deviation.

    It is a beta law of which each value is rounded up with the chance of its fraction, so that the mean
    stays; the beta law has less variance by what this adds.  Where the mean leaves whole numbers with more
    variance than asked for, the law is at the two nearest to it.
    """
    below = math.floor(law.mean)
    fraction = law.mean - below
    if law.sd**2 <= fraction * (1 - fraction):
        quantiles = (np.arange(_ATOMS) + 0.5) / _ATOMS
        return np.where(quantiles < 1 - fraction, below, below + 1.0)

    def rounded(sd: float) -> Array:
        atoms = _atoms(low, high, Spread(law.mean, sd))
        up = np.arange(_ATOMS) * _GOLDEN % 1 < atoms - np.floor(atoms)
        return np.sort(np.floor(atoms) + up)

    def excess(sd: float) -> float:
        return float(rounded(sd).std()) - law.sd

    least = _NARROWEST * law.sd
    if excess(least) >= 0:
        return rounded(least)
    if excess(law.sd) <= 0:
        return rounded(law.sd)
    return rounded(brentq(excess, least, law.sd, xtol=1e-4 * law.sd))


def _centred(design: Array) -> Array:
    """Return columns less their means; 0 where a value is missing, as that of a quotient by 0."""
    known = np.isfinite(design)
    values = np.where(known, design, 0.0)
    means = values.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, values - means, 0.0)


def _mean(values: Array) -> float:
    """Return the mean of the values that are not missing; 0 without any."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else 0.0


def _variance(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(known.var()) if known.size else 0.0


def _chances(share: float, moved: Array) -> Array:
    """Return probabilities of the second level that are ``share`` on average."""
    if not moved.any() or not 0 < share < 1:
        return np.full(len(moved), share)
    reach = float(np.abs(moved).max()) + 1
    start = float(logit(share))
    level = brentq(lambda a: expit(a + moved).mean() - share, start - reach, start + reach)
    return np.asarray(expit(level + moved))


def _numbers(outcome: Expression, drawn: Mapping[str, Array], moved: Array) -> Array:
    """Return the outcome with the standard deviation it has: effects take from it the part that
    they explain.
    """
    plain = outcome.values(*_readers(drawn))
    if not moved.any():
        return plain
    left = 1 - moved.var() / max(_variance(plain), np.finfo(float).tiny)
    if left <= 0:
        raise InputError(
            "the effects explain more than the outcome varies: make them smaller, or its sd larger"
        )
    values = _mean(plain) + np.sqrt(left) * (plain - _mean(plain)) + moved
    if outcome.column is not None and outcome.column.kind == "integer":
        values = np.rint(values)
    return np.asarray(np.clip(values, outcome.low, outcome.high))
