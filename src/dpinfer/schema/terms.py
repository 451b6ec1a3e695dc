"""The two sides of a formula: what is explained, and the blocks of columns that explain it.

Both are made of expressions: public functions of numeric columns, with their ranges by interval
arithmetic.  An expression is data, not code: a tree of named operations, each with what it does to
numbers and to an interval.  Its leaves are constants, numbers of a column within their bounds, and
codes of a column's cells, the indices of their levels.

A `Response` is the left side.  `ModelTerms` are the right side as blocks of columns, coded so that no
block repeats what an earlier one spans.

A block is a product of numeric expressions and factors: one column per combination of levels.  A
factor leaves out its reference level where the term without it is in the model, and keeps all its
levels where it is not, as in R and patsy.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np

from dpinfer.errors import InputError
from dpinfer.numerics import splines
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.schema.columns import Category, Column, Level, Number, Outcome, in_reach, levels_of
from dpinfer.schema.operations import ANSWERS, OPERATIONS, STEPS, DomainError

ReadNumbers = Callable[[Number], Array]
ReadCodes = Callable[[Number | Category], Indices]
"""Codes of the cells of a column; the number of levels for a cell that has none of them."""
_CODE = "code"  # the operation of a leaf whose value is the code of a cell


@dataclass(frozen=True)
class Curve:
    """A curve, of which several columns are the basis: its ``name``, such as ns(age), as the formula has
    ``written`` it, and the ``reference``, a knot without a column, which the others are compared
    with.  A spline has a ``basis``, one function per column, and ``knots``, ends included.
    """

    name: str
    written: str
    reference: str = ""
    basis: tuple[splines.Column, ...] = field(default=(), compare=False, repr=False)
    knots: tuple[float, ...] = ()


@dataclass(frozen=True)
class Expression:
    """An operation on other expressions, a column or a constant; ``low`` and ``high`` bound its
    values.  It may be one column of a ``curve``.
    """

    text: str
    low: float
    high: float
    operation: str
    arguments: tuple["Expression", ...] = ()
    column: Number | None = None
    level_column: Number | Category | None = None
    curve: Curve | None = None

    @property
    def columns(self) -> tuple[Number | Category, ...]:
        """The columns it is made of."""
        if self.column is not None:
            return (self.column,)
        if self.level_column is not None:
            return (self.level_column,)
        return tuple(column for argument in self.arguments for column in argument.columns)

    @property
    def answers(self) -> bool:
        """Whether its values are answers, false or true: a comparison, or a column of type boolean."""
        if self.column is not None:
            return self.column.kind == "boolean"
        if self.operation == "I":
            return self.arguments[0].answers
        return self.operation in ANSWERS

    @property
    def steps(self) -> bool:
        """Whether a small step of its columns leaves it where it is."""
        return self.answers or self.operation in STEPS

    @np.errstate(all="ignore")  # a warning would reveal a value
    def values(self, numbers: ReadNumbers, codes: ReadCodes) -> Array:
        """Return its values; NaN stays NaN.

        ``numbers`` reads a column within its bounds, ``codes`` the codes of a column's cells.
        """
        if self.operation == "constant":
            return np.asarray(self.low)
        if self.column is not None:
            return numbers(self.column)
        if self.level_column is not None:
            code = codes(self.level_column)
            return np.where(code > self.high, np.nan, code)
        of_numbers, _ = OPERATIONS[self.operation]
        return of_numbers(*(argument.values(numbers, codes) for argument in self.arguments))

    def changed(self, change: "Change") -> "Expression":
        """Return the same with other expressions in the place of those that ``change`` knows."""
        other = change(self)
        if other is not None:
            return other
        return replace(
            self, arguments=tuple(argument.changed(change) for argument in self.arguments)
        )


Change = Callable[[Expression], Expression | None]


def of_column(column: Number) -> Expression:
    """Return the column itself."""
    return Expression(column.name, column.low, column.high, "column", column=column)


def level_code(column: Number | Category) -> Expression:
    """Return the expression whose value is the code of each cell of a column."""
    return Expression(column.name, 0.0, len(levels_of(column)) - 1.0, _CODE, level_column=column)


def constant(value: float) -> Expression:
    """Return a number of the formula."""
    if not math.isfinite(value):
        raise InputError("a number of the formula is too large: write it in smaller units")
    return Expression(f"{value:g}", value, value, "constant")


def apply(operation: str, text: str, *arguments: Expression, clipped: bool = False) -> Expression:
    """Return an operation with its range, or raise an error that names the remedy where it is not defined on
    the whole range.  A number that is ``clipped`` afterwards may have infinite ends.
    """
    _, of_intervals = OPERATIONS[operation]
    try:
        low, high = of_intervals(*((argument.low, argument.high) for argument in arguments))
    except OverflowError:
        low, high = -math.inf, math.inf
    except DomainError as error:
        raise InputError(
            f"{text} {error}, but {_range(arguments[-1])}: {_remedy(operation, arguments[-1])}"
        ) from None
    if not (clipped or (math.isfinite(low) and math.isfinite(high))):
        if operation == "/" and arguments[1].low <= 0 <= arguments[1].high:
            raise InputError(
                f"{text} divides by values that may be 0, but {_range(arguments[1])}: {_REMEDIES['/']}, or write "
                f"clip({text}, LOW, HIGH) with two public numbers"
            )
        raise InputError(
            f"{text} is too large for double precision: tighten low and high of its column in the schema"
        )
    return Expression(text, low, high, operation, arguments)


def require_spread(number: Expression, remedy: str) -> None:
    """Refuse a range that double precision cannot scale by."""
    if in_reach(number.low, number.high):
        return
    if number.low == number.high:
        raise InputError(f"{number.text} is the same in every row: {remedy}")
    raise InputError(f"{number.text} is too small or too large for double precision: {remedy}")


def _range(argument: Expression) -> str:
    where = " in the schema" if argument.column is not None else ""
    return f"{argument.text} goes from {argument.low:g} to {argument.high:g}{where}"


def _remedy(operation: str, argument: Expression) -> str:
    """Return what to write where an operation is not defined on the whole range of its argument."""
    if operation in _REMEDIES:
        return _REMEDIES[operation]
    if argument.low > -1:
        defined = f"log1p({argument.text})"
    else:
        defined = f"{operation}({argument.text} + {1 - argument.low:g})"
    return f"raise low in the schema, or write {defined}"


_REMEDIES = {
    "log1p": "raise low in the schema above -1",
    "sqrt": "raise low in the schema to 0 or more",
    "/": "divide by something whose bounds in the schema leave 0 out",
}


_MAX_FACTORS = 8  # factors of a term: it has 2 ** 8 columns or more
_MAX_COLUMNS = 5000  # each needs a row of every matrix
_TOO_WIDE = (
    f"the formula has more than {_MAX_COLUMNS} columns, one per combination of levels: take interactions of fewer "
    "factors, or merge levels in the schema"
)

_Space = tuple[frozenset[str], frozenset[str]]
"""Numeric parts and a set of factors: the product of these numbers and of the factors' contrasts."""

_Coding = tuple[frozenset[str], frozenset[str]]
"""The factors of a block, and those of them that keep all levels."""


@dataclass(frozen=True)
class Response:
    """The response of a formula: an outcome with two levels, or a public function of columns: a
    number with its range, or an answer, whose levels are false and true.
    """

    read_as: Outcome | Expression

    @property
    def name(self) -> str:
        """The name of the response, as the formula writes it."""
        return self.read_as.name if isinstance(self.read_as, Outcome) else self.read_as.text

    @property
    def levels(self) -> tuple[Level, ...]:
        """The two levels; empty for a number."""
        if isinstance(self.read_as, Outcome):
            return self.read_as.levels
        return (False, True) if self.read_as.answers else ()

    @property
    def number(self) -> Expression | None:
        """The function of columns; None for two levels."""
        if isinstance(self.read_as, Outcome) or self.read_as.answers:
            return None
        return self.read_as

    @property
    def unit(self) -> str:
        """The unit of a number that is a column itself; a transform has none."""
        if self.number is None or self.number.column is None:
            return ""
        return self.number.column.unit

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that are needed, each once."""
        if isinstance(self.read_as, Outcome):
            return (self.read_as,)
        return tuple({column.name: column for column in self.read_as.columns}.values())


def explained(column: Column) -> Number | Category:
    """Return a column of the schema as it is read on the left of ~.

    It keeps its bounds or levels and loses its substitute: a row whose outcome is missing counts as
    the zero row.
    """
    if not isinstance(column, Outcome):
        return replace(column, missing=None)
    if column.low is None or column.high is None:
        return Category(column.name, column.levels, column.levels[0], spelling=column.spelling)
    return Number(column.name, column.low, column.high, unit=column.unit)


@dataclass(frozen=True)
class Factor:
    """Levels, one of which is the reference; ``code`` says which of them a row has."""

    text: str
    levels: tuple[Level, ...]
    reference: Level
    code: Expression

    @property
    def columns(self) -> tuple[Number | Category, ...]:
        """The columns of the table that it is made of."""
        return self.code.columns

    def codes(self, numbers: ReadNumbers, codes: ReadCodes) -> Indices:
        """Return the code of each row's level; the number of levels where a row has none."""
        if self.code.level_column is not None:
            return codes(self.code.level_column)
        code = np.atleast_1d(self.code.values(numbers, codes))
        return np.where(np.isnan(code), len(self.levels), code).astype(np.intp)

    def at(self, level: Level) -> Expression:
        """Return the code of one of its levels, as a constant."""
        return constant(float(self.levels.index(level)))


Part = Expression | Factor


def plain_part(column: Number | Category) -> Part:
    """Return a number as itself, a category as a factor."""
    if isinstance(column, Number):
        return of_column(column)
    return Factor(column.name, column.levels, column.reference, level_code(column))


def named(part: Part, name: str) -> Part:
    """Return the same under another name; a column of that name stays what it is."""
    if part.text == name:
        return part
    if isinstance(part, Expression) and (part.column is not None or part.level_column is not None):
        return Expression(name, part.low, part.high, "I", (part,))
    return replace(part, text=name)


@dataclass(frozen=True)
class TermBlock:
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

    @property
    def width(self) -> int:
        """Number of columns."""
        return math.prod(len(self._kept(factor)) for factor in self.factors)

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
    def curves(self) -> tuple[Curve, ...]:
        """The curves that its parts are columns of."""
        numbers = [part for part in self.parts if isinstance(part, Expression)]
        return tuple(number.curve for number in numbers if number.curve is not None)

    @property
    def columns(self) -> tuple[Number | Category, ...]:
        """The columns of the table that it is made of, in order."""
        return tuple(column for part in self.parts for column in part.columns)

    def kept_levels(self, factor: Factor) -> list[Level]:
        """Return the levels of a factor that have columns."""
        return [factor.levels[j] for j in self._kept(factor)]

    def values(self, numbers: ReadNumbers, codes: ReadCodes) -> Array:
        """Return the columns in original units; a row is NaN where a value cannot be encoded.
        Where no column of the table is left in it, one row stands for all.
        """
        columns: Array = np.ones((1, 1))
        for factor in self.factors:
            kept = self._kept(factor)
            size = len(factor.levels)
            # one row per code; the last one is that of a cell without a level
            dummies = np.vstack([np.eye(size), np.full(size, np.nan)])[:, kept]
            row_codes = factor.codes(numbers, codes)
            products = columns[:, :, None] * dummies[row_codes][:, None, :]
            columns = products.reshape(-1, columns.shape[1] * len(kept))
        if self.number is None:
            return columns
        return columns * np.atleast_1d(self.number.values(numbers, codes))[:, None]

    def changed(self, change: Change) -> "TermBlock":
        """Return the same with other expressions in its parts."""
        parts: list[Part] = []
        for part in self.parts:
            if isinstance(part, Expression):
                parts.append(part.changed(change))
            else:
                parts.append(replace(part, code=part.code.changed(change)))
        return TermBlock(tuple(parts), self.full)

    def _kept(self, factor: Factor) -> list[int]:
        """Return the indices of these levels."""
        all_of_them = factor.text in self.full
        return [
            j for j, level in enumerate(factor.levels) if all_of_them or level != factor.reference
        ]


@dataclass(frozen=True)
class ModelTerms:
    """Blocks in the order of the design, and whether there is an intercept.

    ``offset`` is added to the predictor as it is, where there is one.  ``effects`` says that every
    person has an intercept of its own.
    """

    blocks: tuple[TermBlock, ...]
    intercept: bool = True
    offset: Expression | None = None
    effects: bool = False

    @classmethod
    def of(
        cls,
        terms: Iterable[Sequence[Part]],
        *,
        intercept: bool,
        offset: Expression | None = None,
    ) -> "ModelTerms":
        """Code terms, lower orders first."""
        spanned: set[_Space] = set()
        if intercept:
            spanned.add((frozenset(), frozenset()))
        blocks: list[TermBlock] = []
        width = 0
        for term in sorted(terms, key=len):
            added = _blocks(tuple(term), spanned)
            width += sum(block.width for block in added)
            if width > _MAX_COLUMNS:
                raise InputError(_TOO_WIDE)
            blocks += added
        names = Counter(name for block in blocks for name in block.names)
        twice = sorted(name for name, times in names.items() if times > 1)
        if twice:
            raise InputError(
                f"the formula gives the column {twice[0]!r} twice: drop one of its terms"
            )
        return cls(tuple(blocks), intercept, offset)

    @classmethod
    def plain(cls, columns: Iterable[Number | Category]) -> "ModelTerms":
        """Return the terms of columns as they are, with an intercept."""
        return cls(tuple(TermBlock((plain_part(column),)) for column in columns))

    @property
    def columns(self) -> tuple[Number | Category, ...]:
        """The columns of the table that are needed, each once."""
        by_name = {column.name: column for block in self.blocks for column in block.columns}
        if self.offset is not None:
            by_name |= {column.name: column for column in self.offset.columns}
        return tuple(by_name.values())

    def changed(self, change: Change) -> "ModelTerms":
        """Return the same with other expressions in its blocks."""
        return replace(self, blocks=tuple(block.changed(change) for block in self.blocks))

    @property
    def width(self) -> int:
        """Number of columns that are read: those of the design without the intercept, and the
        offset.
        """
        return sum(block.width for block in self.blocks) + (self.offset is not None)

    def indexed_blocks(self) -> Iterator[tuple[int, TermBlock]]:
        """Return the blocks, each with the index of its first column in the design."""
        index = int(self.intercept)
        for block in self.blocks:
            yield index, block
            index += len(block.names)

    def __len__(self) -> int:
        return len(self.blocks)


def _blocks(term: tuple[Part, ...], spanned: set[_Space]) -> list[TermBlock]:
    """Return the blocks of one term.  ``spanned`` holds what the terms before it span, and is added
    to.

    The space of a product of factors is the sum over subsets of the products of their contrasts.
    Subsets that are spanned already are left out; the others are joined again where two differ by
    one factor, which then keeps all its levels.
    """
    numbers = frozenset(part.text for part in term if isinstance(part, Expression))
    factors = [part.text for part in term if isinstance(part, Factor)]
    if len(factors) > _MAX_FACTORS:
        raise InputError(
            f"a term of the formula is a product of more than {_MAX_FACTORS} factors: name fewer in it"
        )
    if TermBlock(term).width > _MAX_COLUMNS and (numbers, frozenset(factors)) not in spanned:
        raise InputError(_TOO_WIDE)  # contrasts alone are too many: nothing needs to be joined
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
        blocks.append(TermBlock(tuple(parts), full))
    return blocks


def _joinable(codings: list[_Coding]) -> tuple[int, int] | None:
    """Return the indices of the first two codings that differ by one factor, which keeps all levels
    in neither.
    """
    for (small, (fewer, full)), (large, (more, other_full)) in combinations(enumerate(codings), 2):
        added = more - fewer
        if fewer < more and len(added) == 1 and full == other_full and not other_full & added:
            return small, large
    return None
