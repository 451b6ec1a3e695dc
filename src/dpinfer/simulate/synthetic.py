"""Records that are like those of a fit to come: made of public guesses, or drawn from a public
table.

More records than `most_of` says are not made: so many stand for all, each counted as often as it
takes.  Every sum over records is then exactly that of a data set in which each of them is there so
often.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, expit, logit

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import OfBlock
from dpinfer.rows.source import Rows, Source
from dpinfer.schema.columns import Category, Number, Outcome
from dpinfer.schema.design import Design
from dpinfer.schema.expressions import Expression
from dpinfer.schema.guesses import Shares, Spread, Typical, levels_of, usual
from dpinfer.schema.terms import Factor, Response, Terms
from dpinfer.simulate.population import Population

_MOST, _NUMBERS, _LEAST = (
    50_000,
    2_000_000,
    20,
)  # records that are made; numbers in them; records a column, at least

LOG_ODDS = 1.35
"""The deviation of the log-odds where no effects are given.  In the seven real designs of
studies/geometry it is .6 to 3.5, 1.5 in the middle; forecasts of three of them were closest to what
the study found with a little less."""

_USUAL = {
    Shares: "levels equally frequent",
    Spread: "numbers around the middle of their bounds, with a sixth of the distance of these as deviation",
}
_ATOMS = 2**13  # values that stand for a law
_TWO_POINTS = 1e-6  # a beta law with less in both of its parameters together is at its two ends


def most_of(dim: int) -> int:
    """Records that are made at most, of rows of this length."""
    return max(_LEAST * dim, min(_MOST, _NUMBERS // dim))


@dataclass(frozen=True, repr=False)
class Times:
    """A source of ``n`` records: those of another, each counted so often that there are as many."""

    source: Rows
    n: int

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.source.dim

    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over the other source, so many times."""
        return np.asarray(self.source.total(of_block) * (self.n / self.source.n))


def counted(rows: Rows, n: int) -> Source:
    """So many records as rows in memory stand for."""
    return rows if rows.n == n else Times(rows, n)


class Alike(Protocol):
    """Where the records of a forecast come from."""

    @property
    def assumed(self) -> tuple[str, ...]:
        """What was taken for granted, in sentences."""
        ...

    def typical(self, n: int) -> Rows:
        """Rows that stand for ``n`` records, with as little chance in them as can be."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Source:
        """A sample of ``n`` records."""
        ...


@dataclass(frozen=True, eq=False)
class OfTable:
    """Records of a public table, drawn with replacement."""

    population: Population
    whom: str

    @property
    def assumed(self) -> tuple[str, ...]:
        """That the table is like the data, and public."""
        return (
            f"the {self.population.n:,} {self.whom} of the look-alike table, which must be public",
        )

    def typical(self, n: int) -> Rows:  # noqa: ARG002  (all of them, whatever they stand for)
        """All of them, or as many as are made at most."""
        return self._some(np.random.default_rng(0))

    def sample(self, n: int, rng: np.random.Generator) -> Source:
        """Draws; or, for more than are made, all of them as they are."""
        if n > most_of(self.population.rows.shape[1]):
            return counted(self._some(rng), n)
        return self.population.of(np.sort(rng.integers(0, self.population.n, n)))

    def _some(self, rng: np.random.Generator) -> Rows:
        most = most_of(self.population.rows.shape[1])
        return self.population.of(np.sort(rng.permutation(self.population.n)[:most]))


@dataclass(frozen=True, eq=False)
class OfGuesses:
    """Independent columns that are as public guesses say, and an outcome with ``effects`` of the
    design's columns.

    Where these are None, they are usual ones: none on a number.  A number has a beta law on its
    public bounds with the mean and deviation that are guessed.
    """

    response: Response
    terms: Terms
    design: Design
    guesses: Mapping[str, Typical]
    effects: Mapping[str, float] | None

    def __post_init__(self) -> None:
        known = self.design.names[int(self.design.intercept) :]
        for name in self.effects or ():
            if name not in known:
                raise InputError(
                    f"effects names {name!r}, which is no coefficient: there are {', '.join(known)}"
                )
        if self.design.unit.weights:
            raise InputError(
                "nothing is guessed about sampling weights: give a public look-alike table, or a schema without them"
            )

    @property
    def assumed(self) -> tuple[str, ...]:
        """That columns are independent, and what was guessed where nobody had."""
        columns = {column.name: column for column in (*self.response.columns, *self.terms.columns)}
        left = {name: usual(column) for name, column in columns.items() if name not in self.guesses}
        said = ["columns that are independent", self._size()]
        for kind, words in _USUAL.items():
            if some := [name for name, law in left.items() if isinstance(law, kind)]:
                said.append(
                    f"as the schema does not say what is typical, {words}: {', '.join(some)}"
                )
        if self.design.unit.many:
            said.append(
                f"{_rows_of(self.design):,} unrelated row{'s' * (_rows_of(self.design) > 1)} a unit"
            )
        return tuple(said)

    def _size(self) -> str:
        if self.effects is None and self.response.levels:
            return f"effects that spread the log-odds by a deviation of {LOG_ODDS:g}"
        return "effects as given" if self.effects and any(self.effects.values()) else "no effects"

    def typical(self, n: int) -> Rows:
        """Values at even quantiles, in random order: means, deviations and shares are those
        guessed.
        """
        return self._rows(min(n, self._most), np.random.default_rng(0), even=True)

    def sample(self, n: int, rng: np.random.Generator) -> Source:
        """Independent draws; of more than are made, values at even quantiles."""
        return counted(self._rows(min(n, self._most), rng, even=n > self._most), n)

    @property
    def _most(self) -> int:
        return max(1, most_of(len(self.design.names)) // _rows_of(self.design))

    def _rows(self, m: int, rng: np.random.Generator, *, even: bool) -> Rows:
        size = m * _rows_of(self.design)
        drawn: dict[str, Array] = {}

        def levels() -> Array:
            return (rng.permutation(size) + 0.5) / size if even else rng.random(size)

        for column in (*self.terms.columns, *self.response.columns):
            law = self.guesses.get(column.name, usual(column))
            drawn[column.name] = (
                levels() if isinstance(column, Outcome) else _values(column, law, levels())
            )
        design = self._columns(drawn)
        labels = self._labels(drawn, design)
        kind = "margin" if self.response.levels else "residual"
        rows = Rows.encoded(self.design.rows(design), self.design.outcome.bounded(labels), kind)
        unit = self.design.unit
        return rows.counted(unit.most, np.repeat(np.arange(m), size // m)) if unit.many else rows

    def _columns(self, drawn: Mapping[str, Array]) -> Array:
        """The design's columns in original units."""

        def codes(factor: Factor) -> Indices:
            values = drawn[factor.text]
            if isinstance(factor.column, Category):
                return values.astype(np.intp)
            known = np.array(factor.levels, dtype=float)
            return np.asarray(np.abs(values[:, None] - known).argmin(axis=1))

        parts = [
            block.values(lambda column: drawn[column.name], codes) for block in self.terms.blocks
        ]
        return np.column_stack([np.empty((len(next(iter(drawn.values()))), 0)), *parts])

    def _labels(self, drawn: Mapping[str, Array], design: Array) -> Array:
        """-1 and +1, or numbers: what the outcome is without effects, and the effects around their
        mean.
        """
        names = self.design.names[int(self.design.intercept) :]
        centred = design - design.mean(axis=0)
        if self.effects is None:
            moved = _usual_effects(centred) if self.response.levels else np.zeros(len(design))
        else:
            moved = centred @ np.array([self.effects.get(name, 0.0) for name in names])
        what = self.response.read_as
        if isinstance(what, Outcome):
            law = self.guesses.get(what.name, usual(what))
            assert isinstance(law, Shares)
            return np.where(drawn[what.name] < _chances(law.of[1], moved), 1.0, -1.0)
        return _numbers(what, drawn, moved)


def _usual_effects(centred: Array) -> Array:
    """Log-odds with a usual deviation.

    All columns move them alike, up and down in turn, by a step as long as the distance at which
    most of their variance is: for a rare level that is the level itself, and not one of its small
    deviations.
    """
    step = np.sqrt(
        (centred**4).mean(axis=0) / np.maximum((centred**2).mean(axis=0), np.finfo(float).tiny)
    )
    signs = np.where(np.arange(len(step)) % 2, -1.0, 1.0)
    moved = centred @ np.divide(signs, step, out=np.zeros(len(step)), where=step > 0)
    return np.asarray(moved * LOG_ODDS / max(moved.std(), np.finfo(float).tiny))


def _rows_of(design: Design) -> int:
    """Rows of a unit: one where units count alike, else as many as may count."""
    return max(1, round(design.unit.rows)) if design.unit.many else 1


def _values(column: Number | Category, law: Typical, at: Array) -> Array:
    """Values of a number, or codes of levels, at quantiles between 0 and 1."""
    if isinstance(law, Spread):
        assert isinstance(column, Number)
        return _atoms(column.low, column.high, law)[(at * _ATOMS).astype(np.intp)]
    codes = np.minimum(np.searchsorted(np.cumsum(law.of), at, side="right"), len(law.of) - 1)
    return (
        np.array(levels_of(column), dtype=float)[codes]
        if isinstance(column, Number)
        else codes.astype(float)
    )


@lru_cache(maxsize=256)
def _atoms(low: float, high: float, law: Spread) -> Array:
    """Even quantiles of the beta law on the bounds with this mean and deviation."""
    mean, at = (law.mean - low) / (high - low), (np.arange(_ATOMS) + 0.5) / _ATOMS
    total = mean * (1 - mean) / (law.sd / (high - low)) ** 2 - 1
    if total < _TWO_POINTS:
        return np.where(at < 1 - mean, low, high)
    return np.asarray(low + (high - low) * betaincinv(mean * total, (1 - mean) * total, at))


def _chances(share: float, moved: Array) -> Array:
    """Probabilities of the second level that are ``share`` on average."""
    if not moved.any() or not 0 < share < 1:
        return np.full(len(moved), share)
    reach = float(np.abs(moved).max()) + 1
    start = float(logit(share))
    level = brentq(lambda a: expit(a + moved).mean() - share, start - reach, start + reach)
    return np.asarray(expit(level + moved))


def _numbers(what: Expression, drawn: Mapping[str, Array], moved: Array) -> Array:
    """The outcome with the deviation it has: effects take from it what they explain."""
    plain = what.values(lambda column: drawn[column.name])
    left = 1 - moved.var() / max(plain.var(), np.finfo(float).tiny)
    if left <= 0:
        raise InputError(
            "the effects explain more than the outcome varies: make them smaller, or its sd larger"
        )
    return np.asarray(
        np.clip(plain.mean() + np.sqrt(left) * (plain - plain.mean()) + moved, what.low, what.high)
    )
