"""The left side of a formula: what is explained, and how it is read.

The right side of a formula as blocks of columns, coded so that no block repeats what an earlier one
spans.

A block is a product of numeric expressions and factors: one column a combination of levels.  A
factor leaves out its reference level where the term without it is in the model, and keeps all its
levels where it is not, as in R and patsy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.schema.columns import Category, Column, Level, Number, Outcome
from dpinfer.schema.expressions import Expression, apply, of_column


@dataclass(frozen=True)
class Response:
    """What a formula explains: an outcome with two levels, or a public function of numeric columns
    with its range.
    """

    read_as: Outcome | Expression

    @property
    def name(self) -> str:
        """As the formula writes it."""
        return self.read_as.name if isinstance(self.read_as, Outcome) else self.read_as.text

    @property
    def levels(self) -> tuple[Level, ...]:
        """The two levels; empty for a number."""
        return self.read_as.levels if isinstance(self.read_as, Outcome) else ()

    @property
    def number(self) -> Expression | None:
        """The function of columns; None for two levels."""
        return self.read_as if isinstance(self.read_as, Expression) else None

    @property
    def unit(self) -> str:
        """Of a number that is a column itself; a transform has none."""
        column = self.number.column if self.number else None
        return column.unit if column else ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that are needed, each once."""
        if isinstance(self.read_as, Outcome):
            return (self.read_as,)
        return tuple({column.name: column for column in self.read_as.columns}.values())


def explained(column: Column) -> Number:
    """A column of the schema as a number on the left of ~.

    It keeps its bounds and loses its substitute: a row whose outcome is missing counts as the zero
    row.
    """
    if isinstance(column, Outcome):
        if column.low is None or column.high is None:
            raise InputError(
                f"{column.name!r} is an outcome with levels, and only a number can be transformed: write its plain "
                "name, or give it low and high in the schema"
            )
        return Number(column.name, column.low, column.high, unit=column.unit)
    if isinstance(column, Number) and column.kind != "boolean":
        return replace(column, missing=None)
    kind = "boolean" if isinstance(column, Number) else "category"
    raise InputError(
        f"{column.name!r} stands on the left of ~, but its type in the schema is {kind!r}: give it type = "
        '"outcome" and two levels for a classifier, or type = "integer" or "number" with low and high for a regression'
    )


Codes = npt.NDArray[np.intp]
ReadNumbers = Callable[[Number], Array]
ReadCodes = Callable[["Factor"], Codes]


@dataclass(frozen=True)
class Factor:
    """A column read as levels."""

    column: Number | Category
    levels: tuple[Level, ...]
    reference: Level

    @property
    def text(self) -> str:
        """The name of the column."""
        return self.column.name


Part = Expression | Factor


@dataclass(frozen=True)
class Block:
    """Columns that come from one term; those of a block with factors are never nonzero together.

    ``full`` names the factors that keep their reference level.
    """

    parts: tuple[Part, ...]
    full: frozenset[str] = frozenset()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, such as ``age:sex[f]``."""
        labels = [
            [part.text]
            if isinstance(part, Expression)
            else [f"{part.text}[{part.levels[j]}]" for j in self._kept(part)]
            for part in self.parts
        ]
        return tuple(":".join(combination) for combination in product(*labels))

    @cached_property
    def number(self) -> Expression | None:
        """The product of the numeric parts with its range, or None if there is none."""
        numbers = [part for part in self.parts if isinstance(part, Expression)]
        return (
            reduce(lambda x, y: apply("*", f"{x.text}:{y.text}", x, y), numbers)
            if numbers
            else None
        )

    @cached_property
    def as_is(self) -> Number | None:
        """The column of the table that the block is, if it is one whose numbers need no look."""
        column = (
            self.parts[0].column
            if len(self.parts) == 1 and isinstance(self.parts[0], Expression)
            else None
        )
        return (
            column
            if column is not None and column.kind == "number" and column.missing is None
            else None
        )

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The parts that are factors."""
        return tuple(part for part in self.parts if isinstance(part, Factor))

    @property
    def columns(self) -> tuple[Number | Category, ...]:
        """The columns of the table that it is made of, in order."""
        return tuple(
            column
            for part in self.parts
            for column in (part.columns if isinstance(part, Expression) else (part.column,))
        )

    def values(self, numbers: ReadNumbers, codes: ReadCodes) -> Array:
        """The columns in original units; a row is NaN where a value cannot be encoded."""
        columns: Array = np.ones((1, 1))
        for factor in self.factors:
            kept = list(self._kept(factor))
            table = np.vstack([np.eye(len(factor.levels)), np.full(len(factor.levels), np.nan)])[
                :, kept
            ]
            columns = (columns[:, :, None] * table[codes(factor)][:, None, :]).reshape(
                -1, columns.shape[1] * len(kept)
            )
        number = self.number
        return columns if number is None else columns * number.values(numbers)[:, None]

    def kept_levels(self, factor: Factor) -> list[Level]:
        """The levels of a factor that have columns."""
        return [factor.levels[j] for j in self._kept(factor)]

    def _kept(self, factor: Factor) -> Iterator[int]:
        for j, level in enumerate(factor.levels):
            if factor.text in self.full or level != factor.reference:
                yield j


@dataclass(frozen=True)
class Terms:
    """Blocks in the order of the design, and whether there is an intercept."""

    blocks: tuple[Block, ...]
    intercept: bool = True

    @classmethod
    def of(cls, terms: Iterable[Sequence[Part]], *, intercept: bool) -> "Terms":
        """Code terms, lower orders first."""
        spanned: set[tuple[frozenset[str], frozenset[str]]] = (
            {(frozenset(), frozenset())} if intercept else set()
        )
        blocks: list[Block] = []
        for term in sorted(terms, key=len):
            blocks += _blocks(tuple(term), spanned)
        names = [name for block in blocks for name in block.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(
                f"the formula gives the column {twice[0]!r} twice: drop one of its terms"
            )
        return cls(tuple(blocks), intercept)

    @classmethod
    def plain(cls, columns: Iterable[Number | Category]) -> "Terms":
        """Each column as it is, with an intercept."""
        return cls(tuple(Block((plain_part(column),)) for column in columns))

    @property
    def columns(self) -> tuple[Number | Category, ...]:
        """The columns of the table that are needed, each once."""
        return tuple(
            {column.name: column for block in self.blocks for column in block.columns}.values()
        )

    @property
    def width(self) -> int:
        """Number of columns of the design, without the intercept."""
        return sum(len(block.names) for block in self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)


def plain_part(column: Number | Category) -> Part:
    """A number as itself, a category as a factor."""
    return (
        of_column(column)
        if isinstance(column, Number)
        else Factor(column, column.levels, column.reference)
    )


def _blocks(
    term: tuple[Part, ...], spanned: set[tuple[frozenset[str], frozenset[str]]]
) -> list[Block]:
    """The blocks of one term.  ``spanned`` holds (numeric part, set of contrasts) of the terms
    before it.

    The space of a product of factors is the sum over subsets of the products of their contrasts.
    Subsets that are spanned already are left out; the others are joined again where two differ by
    one factor, which then keeps all its levels.
    """
    numbers = frozenset(part.text for part in term if isinstance(part, Expression))
    factors = [part.text for part in term if isinstance(part, Factor)]
    subsets = [frozenset(s) for k in range(len(factors) + 1) for s in combinations(factors, k)]
    new = [subset for subset in subsets if (numbers, subset) not in spanned]
    spanned |= {(numbers, subset) for subset in new}
    coded = [
        (subset, frozenset[str]()) for subset in new
    ]  # factors, and those of them with all levels
    while (pair := _joinable(coded)) is not None:
        short, long = pair
        factors_of, full = coded[long]
        coded[long] = (factors_of, full | (factors_of - coded[short][0]))
        del coded[short]
    return [
        Block(tuple(p for p in term if isinstance(p, Expression) or p.text in kept), full)
        for kept, full in coded
    ]


def _joinable(coded: list[tuple[frozenset[str], frozenset[str]]]) -> tuple[int, int] | None:
    for i, (short, short_full) in enumerate(coded):
        for j, (long, long_full) in enumerate(coded[i + 1 :], i + 1):
            if (
                len(long - short) == 1
                and short < long
                and short_full == long_full
                and not long_full & (long - short)
            ):
                return i, j
    return None
