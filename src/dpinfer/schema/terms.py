"""The two sides of a formula: what is explained, and the blocks of columns that explain it.

A `Response` is the left side.  `Terms` are the right side as blocks of columns, coded so that no
block repeats what an earlier one spans.

A block is a product of numeric expressions and factors: one column per combination of levels.  A
factor leaves out its reference level where the term without it is in the model, and keeps all its
levels where it is not, as in R and patsy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.schema.columns import Category, Column, Level, Number, Outcome
from dpinfer.schema.expressions import Expression, apply, of_column

Codes = npt.NDArray[np.intp]
ReadNumbers = Callable[[Number], Array]
ReadCodes = Callable[["Factor"], Codes]

_Space = tuple[frozenset[str], frozenset[str]]
"""Numeric parts and a set of factors: the product of these numbers and of the factors' contrasts."""

_Coding = tuple[frozenset[str], frozenset[str]]
"""The factors of a block, and those of them that keep all levels."""


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
        if self.number is None or self.number.column is None:
            return ""
        return self.number.column.unit

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


def plain_part(column: Number | Category) -> Part:
    """A number as itself, a category as a factor."""
    if isinstance(column, Number):
        return of_column(column)
    return Factor(column, column.levels, column.reference)


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
        choices: list[list[str]] = []
        for part in self.parts:
            if isinstance(part, Expression):
                choices.append([part.text])
            else:
                choices.append([f"{part.text}[{level}]" for level in self.kept_levels(part)])
        return tuple(":".join(combination) for combination in product(*choices))

    @cached_property
    def number(self) -> Expression | None:
        """The product of the numeric parts with its range, or None if there is none."""
        number: Expression | None = None
        for part in self.parts:
            if isinstance(part, Factor):
                continue
            if number is None:
                number = part
            else:
                number = apply("*", f"{number.text}:{part.text}", number, part)
        return number

    @cached_property
    def as_is(self) -> Number | None:
        """The column of the table that the block is, if it is one whose numbers need no look."""
        if len(self.parts) != 1 or isinstance(self.parts[0], Factor):
            return None
        column = self.parts[0].column
        if column is None or column.kind != "number" or column.missing is not None:
            return None
        return column

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The parts that are factors."""
        return tuple(part for part in self.parts if isinstance(part, Factor))

    @property
    def columns(self) -> tuple[Number | Category, ...]:
        """The columns of the table that it is made of, in order."""
        columns: list[Number | Category] = []
        for part in self.parts:
            if isinstance(part, Expression):
                columns += part.columns
            else:
                columns.append(part.column)
        return tuple(columns)

    def kept_levels(self, factor: Factor) -> list[Level]:
        """The levels of a factor that have columns."""
        return [factor.levels[j] for j in self._kept(factor)]

    def values(self, numbers: ReadNumbers, codes: ReadCodes) -> Array:
        """The columns in original units; a row is NaN where a value cannot be encoded."""
        columns: Array = np.ones((1, 1))
        for factor in self.factors:
            kept = self._kept(factor)
            size = len(factor.levels)
            # one row per code; the last code is that of a cell which is no level
            dummies = np.vstack([np.eye(size), np.full(size, np.nan)])[:, kept]
            products = columns[:, :, None] * dummies[codes(factor)][:, None, :]
            columns = products.reshape(-1, columns.shape[1] * len(kept))
        if self.number is None:
            return columns
        return columns * self.number.values(numbers)[:, None]

    def _kept(self, factor: Factor) -> list[int]:
        """The places of these levels."""
        all_of_them = factor.text in self.full
        return [
            j for j, level in enumerate(factor.levels) if all_of_them or level != factor.reference
        ]


@dataclass(frozen=True)
class Terms:
    """Blocks in the order of the design, and whether there is an intercept."""

    blocks: tuple[Block, ...]
    intercept: bool = True

    @classmethod
    def of(cls, terms: Iterable[Sequence[Part]], *, intercept: bool) -> "Terms":
        """Code terms, lower orders first."""
        spanned: set[_Space] = set()
        if intercept:
            spanned.add((frozenset(), frozenset()))
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
        by_name = {column.name: column for block in self.blocks for column in block.columns}
        return tuple(by_name.values())

    @property
    def width(self) -> int:
        """Number of columns of the design, without the intercept."""
        return sum(len(block.names) for block in self.blocks)

    def placed(self) -> Iterator[tuple[int, Block]]:
        """Blocks, each with the place of its first column in the design."""
        place = int(self.intercept)
        for block in self.blocks:
            yield place, block
            place += len(block.names)

    def __len__(self) -> int:
        return len(self.blocks)


def _blocks(term: tuple[Part, ...], spanned: set[_Space]) -> list[Block]:
    """The blocks of one term.  ``spanned`` holds what the terms before it span, and is added to.

    The space of a product of factors is the sum over subsets of the products of their contrasts.
    Subsets that are spanned already are left out; the others are joined again where two differ by
    one factor, which then keeps all its levels.
    """
    numbers = frozenset(part.text for part in term if isinstance(part, Expression))
    factors = [part.text for part in term if isinstance(part, Factor)]
    codings: list[_Coding] = []
    for size in range(len(factors) + 1):
        for subset in map(frozenset, combinations(factors, size)):
            if (numbers, subset) not in spanned:
                spanned.add((numbers, subset))
                codings.append((subset, frozenset()))
    pair = _joinable(codings)
    while pair is not None:
        small, large = pair
        fewer, _ = codings[small]
        more, full = codings[large]
        codings[large] = (more, full | (more - fewer))
        del codings[small]
        pair = _joinable(codings)
    blocks = []
    for subset, full in codings:
        parts = [part for part in term if isinstance(part, Expression) or part.text in subset]
        blocks.append(Block(tuple(parts), full))
    return blocks


def _joinable(codings: list[_Coding]) -> tuple[int, int] | None:
    """The places of the first two codings that differ by one factor, which keeps all levels in
    neither.
    """
    for (small, (fewer, full)), (large, (more, other_full)) in combinations(enumerate(codings), 2):
        added = more - fewer
        if fewer < more and len(added) == 1 and full == other_full and not other_full & added:
            return small, large
    return None
