"""Features of a moment release: products of numbers and of levels, and which products of two are the same.

Every column of a design is a product of numbers and of indicators of levels.  Many products of two
columns are then the same number for every record, whatever its values: d² = d of an indicator d,
d d' = 0 of two levels of one factor, x·x = x²·1 where x² is a column, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement, product

import numpy as np

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Category, Level, did_you_mean
from dpinfer.schema.design import number_factors
from dpinfer.schema.terms import Expression, Factor, ModelTerms, Part, Response, TermBlock

Indicator = tuple[str, Level]
"""A factor and one of its levels; of a yes/no column, its text and True."""


@dataclass(frozen=True)
class Monomial:
    """A product of numbers, each as often as it occurs, and of indicators; of nothing it is 1."""

    numbers: tuple[str, ...] = ()
    levels: frozenset[Indicator] = frozenset()

    def times(self, other: "Monomial") -> "Monomial | None":
        """Return the product of both; None where it is 0 for every record."""
        levels = self.levels | other.levels
        if len({factor for factor, _ in levels}) < len(levels):
            return None
        return Monomial(tuple(sorted(self.numbers + other.numbers)), levels)


ONE = Monomial()


def monomials(terms: ModelTerms) -> tuple[Monomial, ...]:
    """Return the columns of a design with an intercept as products."""
    found = [ONE]
    for block in terms.blocks:
        found += _of_block(block)
    return tuple(found)


def _of_block(block: TermBlock) -> Iterator[Monomial]:
    numbers: list[str] = []
    answers: list[Indicator] = []
    factors: list[Factor] = []
    for part in block.parts:
        if isinstance(part, Factor):
            factors.append(part)
        elif is_answer(part):
            answers.append((part.text, True))
        else:
            numbers += number_factors(part)
    for levels in product(*(block.kept_levels(factor) for factor in factors)):
        pairs = zip((factor.text for factor in factors), levels, strict=True)
        yield Monomial(tuple(sorted(numbers)), frozenset([*answers, *pairs]))


def is_answer(part: Expression) -> bool:
    """Whether a part is yes or no: an answer, or a whole number with the bounds 0 and 1."""
    column = part.column
    whole = column is not None and column.kind == "integer"
    return part.answers or (whole and (part.low, part.high) == (0, 1))


@dataclass(frozen=True)
class Features:
    """The declared features: their ``terms``, with an intercept, and the columns that these give."""

    terms: ModelTerms
    positions: Mapping[Monomial, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = monomials(self.terms)
        object.__setattr__(self, "positions", {one: j for j, one in enumerate(found)})

    def __len__(self) -> int:
        return len(self.positions)

    def same_products(self) -> Iterator[tuple[tuple[int, int], tuple[int, int] | None]]:
        """Yield pairs of columns, each with another pair that has the same product for every record;
        None where the product is 0.
        """
        first: dict[Monomial, tuple[int, int]] = {}
        for (one, j), (other, k) in combinations_with_replacement(self.positions.items(), 2):
            both = one.times(other)
            if both is None:
                yield (j, k), None
            elif both in first:
                yield (j, k), first[both]
            else:
                first[both] = (j, k)

    @cached_property
    def _factors(self) -> dict[str, Factor]:
        """The declared factors by the column of the table that they are, each with all its levels."""
        parts = (part for block in self.terms.blocks for part in block.factors)
        return {
            part.code.level_column.name: part
            for part in parts
            if part.code.level_column is not None
        }

    def columns(self, terms: ModelTerms) -> tuple[tuple[str, ...], Array]:
        """Return the names of the columns of other terms, and each as a combination of the features."""
        number = 1 + sum(len(block.names) for block in terms.blocks)
        if number > len(self):
            raise InputError(
                f"{number:,} columns made of {len(self)} are collinear: leave out at least {number - len(self):,}"
            )
        parts = {part.text: part for block in terms.blocks for part in block.parts}
        names = ["(Intercept)"]
        rows = [self._combination(ONE, parts)]
        for block in terms.blocks:
            for name, one in zip(block.names, _of_block(block), strict=True):
                names.append(name)
                rows.append(self._combination(one, parts, name))
        return tuple(names), np.array(rows)

    def outcome(self, response: Response) -> Array:
        """Return an outcome as a combination of the features: a number, or whether it is its second level."""
        if isinstance(response.read_as, Expression):
            part = response.read_as
            one = Monomial(tuple(sorted(number_factors(part))))
            if is_answer(part):
                one = Monomial((), frozenset([(part.text, True)]))
            return self._combination(one, {part.text: part}, response.name)
        return self._combination(
            Monomial((), frozenset([(response.name, response.levels[1])])), {}, response.name
        )

    def named(self, name: str) -> Array:
        """Return a column by its name, the reference level of a factor included, as a combination."""
        for factor in self._factors.values():
            if name == f"{factor.text}[{factor.reference}]":
                level = (factor.text, factor.reference)
                return self._combination(Monomial((), frozenset([level])), {}, name)
        if name in self._factors:
            factor = self._factors[name]
            raise InputError(
                f"{name!r} has levels: name one of them, as in {f'{factor.text}[{factor.levels[-1]}]'!r}"
            )
        raise InputError(f"{name!r} is no declared column: {did_you_mean(name, self.names)}")

    def _combination(self, wanted: Monomial, of: Mapping[str, Part], name: str = "") -> Array:
        """Return the weights of the features that add up to a product."""
        found = np.zeros(len(self))
        pending = [(1.0, wanted)]
        while pending:
            weight, one = pending.pop()
            at = self.positions.get(one)
            if at is not None:
                found[at] += weight
                continue
            parts = self._expanded(one, of)
            if parts is None:
                raise InputError(
                    f"{name or 'a term'} is not among the declared features, nor made of them, so this release cannot "
                    f"answer it: {did_you_mean(name, self.names)}"
                )
            pending += [(weight * share, part) for share, part in parts]
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the declared columns, the intercept first."""
        return ("(Intercept)", *(name for block in self.terms.blocks for name in block.names))

    def _expanded(
        self, one: Monomial, of: Mapping[str, Part]
    ) -> list[tuple[float, Monomial]] | None:
        """Return the same product by other levels: one of merged levels is the sum of its parts, and
        the reference level is 1 less all others.
        """
        for text, level in one.levels:
            rest = one.levels - {(text, level)}
            merged = self._merged(of.get(text), level)
            if merged is not None:
                return [(1.0, Monomial(one.numbers, rest | {part})) for part in merged]
            declared = self._factors.get(text)
            if declared is not None and level == declared.reference:
                others = [other for other in declared.levels if other != level]
                parts = [(-1.0, Monomial(one.numbers, rest | {(text, other)})) for other in others]
                return [(1.0, Monomial(one.numbers, rest)), *parts]
        return None

    def _merged(self, part: Part | None, level: Level) -> list[Indicator] | None:
        """Return the levels of a declared factor that a level of another one, or an answer such as
        ``health == 'poor'``, is made of.
        """
        if part is None:
            return None
        columns = {column.name: column for column in part.columns}
        if len(columns) != 1:
            return None
        (column,) = columns.values()
        declared = self._factors.get(column.name)
        if declared is None or not isinstance(column, Category) or declared.text == part.text:
            return None
        every_level = np.arange(len(column.levels))
        if isinstance(part, Factor):
            codes = np.asarray(part.codes(_no_numbers, lambda _: every_level), dtype=np.float64)
            wanted = part.levels.index(level)
        else:
            codes = part.values(_no_numbers, lambda _: every_level)
            wanted = int(bool(level))
        return [
            (declared.text, own)
            for own, code in zip(column.levels, codes.tolist(), strict=True)
            if code == wanted
        ]


def _no_numbers(_: object) -> Array:
    raise InputError("a factor made of numbers is a feature of its own: declare it")
