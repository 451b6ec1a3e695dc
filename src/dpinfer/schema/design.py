"""From columns in original units to rows in the unit ball, by a fixed public scaling, and back.

A numeric block is mapped to [-1, 1] by its range.  The columns of a block with factors, of which at
most one is not 0, are divided by their largest absolute value.  So each block has norm at most 1,
R² = #blocks + 1 bounds the squared norm, and the row is (1, x~)/R.  Without an intercept nothing
could take up a shift: numeric columns are then divided by their largest absolute value too, the
outcome likewise, and the row is x~/R with R² = #blocks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.moments import Cell, Columns
from dpinfer.maths.sums import shrunk
from dpinfer.schema.columns import Category, Number, in_reach
from dpinfer.schema.expressions import Expression, require_spread
from dpinfer.schema.terms import Block, Response, Terms
from dpinfer.schema.unit import ROW, Unit

INTERCEPT = "(Intercept)"
_CACHED = 2**16  # numbers in a tile: as many as in a block


@dataclass(frozen=True)
class Scale:
    """The public scale of a numeric outcome: y = centre + half y~, with y~ in [-1, 1]."""

    centre: float = 0.0
    half: float = 1.0

    @classmethod
    def of_range(cls, low: float, high: float, *, centred: bool = True) -> "Scale":
        """[low, high] to [-1, 1]; without an intercept nothing could take up a shift, and 0 stays
        0.
        """
        if not in_reach(low, high):
            raise InputError("the outcome's low and high must be finite numbers, with low < high")
        return (
            cls((low + high) / 2, (high - low) / 2)
            if centred
            else cls(0.0, max(abs(low), abs(high)))
        )

    @np.errstate(all="ignore")  # a warning would tell of a value
    def bounded(self, y: Array) -> Array:
        """y~, not yet clipped."""
        return (y - self.centre) / self.half


UNSCALED = Scale()
"""Of labels, and of outcomes that are scaled already."""


@dataclass(frozen=True, eq=False)
class Design:
    """The public encoding of a record.  All facts are one a coefficient; the intercept, if there is
    one, comes first.

    A column is encoded as (value - middle)/half, with values clipped to [low, high]; the intercept
    is the value 1.  ``columns`` says which are then 0 or 1 only, and which are never nonzero
    together.  ``norm2`` is R², the bound of the squared norm of an encoded row.  ``outcome`` is the
    scale of a numeric outcome, ``unit`` whose rows they are.  ``products`` has the places of
    columns that are powers or products of other columns, with the places of these; ``shared`` those
    of numbers that are a part of some other column, too.
    """

    names: tuple[str, ...]
    low: Array
    high: Array
    middle: Array
    half: Array
    columns: Columns
    norm2: float
    outcome: Scale = UNSCALED
    unit: Unit = ROW
    products: tuple[tuple[int, tuple[int, ...]], ...] = ()
    shared: tuple[int, ...] = ()

    @classmethod
    def of_formula(cls, response: Response, terms: Terms, kind: str, unit: Unit = ROW) -> "Design":
        """The encoding of a formula; ``kind`` is what the loss is a function of, ``unit`` whose
        rows they are.

        A loss of the margin needs an outcome with two levels, a loss of the residual a number.
        """
        number = response.number
        if kind == "margin" and number is not None:
            raise InputError(
                f"{response.name!r} is a number: a classifier needs two levels in the schema; name a column with "
                'type = "outcome" and levels on the left of ~'
            )
        if kind == "margin":
            return replace(cls.of_terms(terms), unit=unit)
        if number is None:
            raise InputError(
                f"{response.name!r} is an outcome with levels: a regression needs low and high in the schema"
            )
        scale = Scale.of_range(number.low, number.high, centred=terms.intercept)
        return replace(cls.of_terms(terms, scale), unit=unit)

    @classmethod
    def of_bounds(
        cls,
        bounds: tuple[npt.ArrayLike, npt.ArrayLike],
        columns: tuple[str, ...],
        outcome: Scale = UNSCALED,
        yes_no: Sequence[str] = (),
    ) -> "Design":
        """Numeric columns only, with bounds (low, high): numbers for all columns, or one for each.

        ``yes_no`` names those that hold 0 and 1 alone, whose bounds these must be.
        """
        d = len(columns)
        try:
            low, high = (np.broadcast_to(np.asarray(side, dtype=float), (d,)) for side in bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds must be a pair (low, high) of numbers, or of {d} numbers each, one a column"
            ) from None
        numbers = [
            Number(name, lo, hi, kind="boolean" if name in yes_no else "number")
            for name, lo, hi in zip(columns, low.tolist(), high.tolist(), strict=True)
        ]
        wrong = [
            number.name
            for number in numbers
            if number.kind == "boolean" and (number.low, number.high) != (0, 1)
        ]
        if wrong:
            raise InputError(
                f"the columns of yes_no= have the bounds 0 and 1: give {', '.join(wrong)} these bounds"
            )
        return cls.of_terms(numbers, outcome)

    @classmethod
    def of_terms(
        cls, terms: Terms | Sequence[Number | Category], outcome: Scale = UNSCALED
    ) -> "Design":
        """The encoding of the right side of a formula, or of plain columns with an intercept."""
        terms = terms if isinstance(terms, Terms) else Terms.plain(terms)
        if not terms.blocks and not terms.intercept:
            raise InputError(
                "the formula has no terms: add a column on the right of ~, or keep the intercept"
            )
        facts = [
            (name, *_range(block, terms.intercept), j)
            for j, block in enumerate(terms.blocks)
            for name in block.names
        ]
        if terms.intercept:
            facts.insert(0, (INTERCEPT, 1.0, 1.0, 0.0, 1.0, False, -1))
        names, low, high, middle, half, dummy, group = zip(*facts, strict=True)
        answers = [_yes_no(block) for block in terms.blocks for _ in block.names]
        yes_no = np.array([False] * int(terms.intercept) + answers)
        columns = Columns(
            np.array(dummy), np.array(group, dtype=np.intp), yes_no, cells=_cells(terms)
        )
        ends = np.array(low), np.array(high)
        products = _products(terms)
        shared = _shared(terms)
        return cls(
            names,
            *ends,
            np.array(middle),
            np.array(half),
            columns,
            columns.norm2,
            outcome,
            products=products,
            shared=shared,
        )

    @classmethod
    def of_rows(cls, dim: int) -> "Design":
        """Rows that are bounded already, with columns x1, x2, …, as they are."""
        infinite, columns = (
            np.full(dim, np.inf),
            Columns(np.zeros(dim, dtype=bool), np.zeros(dim, dtype=np.intp)),
        )
        names = tuple(f"x{j + 1}" for j in range(dim))
        return cls(names, -infinite, infinite, np.zeros(dim), np.ones(dim), columns, 1.0)

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return INTERCEPT in self.names[:1]

    @np.errstate(all="ignore")  # a warning would tell of a value
    def rows(self, values: Array) -> Array:
        """Bounded rows from columns in original units; a row with a NaN or an infinity becomes the
        zero row.

        Guarantee [public_scaling]: every row has norm at most 1, in real numbers, whatever the
        table holds.
        """
        rows, first, facts = (
            np.empty((len(values), len(self.names))),
            int(self.intercept),
            _tiles(self),
        )
        rows[:, :first] = shrunk(len(self.names) + 4) / np.sqrt(self.norm2)
        tall = len(facts.low)
        for start in range(0, len(values), tall):
            some = slice(start, start + tall)
            facts.encode(np.ascontiguousarray(values[some]), rows[some, first:])
        if not np.isfinite(
            values.sum()
        ):  # a sum of large numbers may overflow, which takes time and nothing else
            rows[~np.isfinite(values).all(axis=1)] = 0.0
        return rows

    def back(self) -> Array:
        """The matrix from coefficients of the bounded rows to coefficients in the units of the
        columns.
        """
        matrix = np.diag(1 / self.half)
        if self.intercept:
            matrix[0] -= self.middle / self.half
        return np.asarray(matrix / np.sqrt(self.norm2))

    @property
    def mapping(self) -> Array:
        """From coefficients of the bounded rows and the scaled outcome to the units of a result,
        less `shift`.
        """
        return self.outcome.half * self.back()

    @property
    def shift(self) -> Array:
        """What the centre of the outcome adds: all of it to the intercept."""
        return self.outcome.centre * np.array([float(name == INTERCEPT) for name in self.names])


@dataclass(frozen=True)
class _Tiles:
    """The facts of the columns without the intercept, as many times below each other as fit a
    cache.

    So every step of the encoding runs over plain memory.
    """

    low: Array
    high: Array
    middle: Array
    factor: Array

    def encode(self, values: Array, out: Array) -> None:
        """(value - middle)·factor, with values clipped to [low, high]."""
        m = len(values)
        clipped = np.maximum(values, self.low[:m])
        np.minimum(clipped, self.high[:m], out=clipped)
        clipped -= self.middle[:m]
        np.multiply(clipped, self.factor[:m], out=out)


@lru_cache(maxsize=8)
def _tiles(design: Design) -> _Tiles:
    first, width = int(design.intercept), len(design.names)
    factor = shrunk(width + 4) / np.sqrt(design.norm2) / design.half
    tall = max(1, _CACHED // width)
    return _Tiles(
        *(
            np.tile(fact[first:], (tall, 1))
            for fact in (design.low, design.high, design.middle, factor)
        )
    )


def _products(terms: Terms) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The places of powers and products of columns whose every part is a column too, with the
    places of the factors.

    Only then do the same columns, each less a constant, span the same model.
    """
    places: dict[tuple[str, ...], int] = {}
    place = int(terms.intercept)
    for block in terms.blocks:
        named = (
            None
            if block.number is None or block.factors or _yes_no(block)
            else _factors(block.number)
        )
        if named is not None:
            places.setdefault(tuple(sorted(named)), place)
        place += len(block.names)
    found = []
    for factors, at in places.items():
        parts = {part for size in range(1, len(factors)) for part in combinations(factors, size)}
        if len(factors) > 1 and terms.intercept and parts <= set(places):
            found.append((at, tuple(places[(factor,)] for factor in factors)))
    return tuple(found)


def _shared(terms: Terms) -> tuple[int, ...]:
    """The places of numbers that are a part of some other column, too, or that others are made of."""
    uses = Counter(column.name for block in terms.blocks for column in {*block.columns})
    found = []
    place = int(terms.intercept)
    for block in terms.blocks:
        often = block.number is not None and any(uses[column.name] > 1 for column in block.columns)
        found += [place + k for k in range(len(block.names)) if often]
        place += len(block.names)
    return tuple(found)


def _factors(number: Expression) -> list[str] | None:
    """The names of the columns that an expression is the product of, each as often as it counts;
    None if it is none.
    """
    if number.column is not None:
        return [number.column.name]
    if number.operation == "I":
        return _factors(number.arguments[0])
    if number.operation == "*":
        left, right = (_factors(argument) for argument in number.arguments)
        return None if left is None or right is None else left + right
    if number.operation == "**" and number.arguments[1].low in (2.0, 3.0):
        base = _factors(number.arguments[0])
        return None if base is None else base * int(number.arguments[1].low)
    return None


def _yes_no(block: Block) -> bool:
    """Whether a block is one column that holds 0 and 1 alone: yes or no, or a product of such
    columns.
    """
    return not block.factors and _answers(block)


def _answers(block: Block) -> bool:
    """Whether all numbers of a block are yes or no: of type boolean, or whole numbers with the
    bounds 0 and 1.
    """
    columns = [part.column for part in block.parts if isinstance(part, Expression)]
    return all(
        column is not None
        and column.kind in ("boolean", "integer")
        and (column.low, column.high) == (0, 1)
        for column in columns
    )


def _levels(terms: Terms) -> dict[frozenset[tuple[str, object]], int]:
    """The places of columns that are 0 or 1, by the levels that their records have."""
    found: dict[frozenset[tuple[str, object]], int] = {}
    place = int(terms.intercept)
    for block in terms.blocks:
        if _answers(block):
            choices = [
                [(part.text, 1)]
                if isinstance(part, Expression)
                else [(part.text, level) for level in block.kept_levels(part)]
                for part in block.parts
            ]
            for k, combination in enumerate(product(*choices)):
                found[frozenset(combination)] = place + k
        place += len(block.names)
    return found


def _cells(terms: Terms) -> tuple[Cell, ...]:
    """What the coefficients of interacting levels rest on: the cells of each pair of factors.

    With f*g the coefficient of f = b is about the records with f = b and g at its reference,
    compared with those where both are at theirs; that of b and d together about all four cells.
    """
    places = _levels(terms)
    if not terms.intercept:
        return ()
    found: list[Cell] = []
    for both, place in places.items():
        if len(both) != 2:
            continue
        one, other = (frozenset({level}) for level in sorted(both, key=str))
        if one not in places or other not in places:
            continue
        (f, _), (g, _) = (next(iter(part)) for part in (one, other))
        pairs = {
            pair: at
            for pair, at in places.items()
            if {name for name, _ in pair} == {f, g} and len(pair) == 2
        }
        alone = [
            at for part, at in places.items() if len(part) == 1 and next(iter(part))[0] in (f, g)
        ]
        first = ((places[one], 1.0), *((at, -1.0) for pair, at in pairs.items() if one < pair))
        second = ((places[other], 1.0), *((at, -1.0) for pair, at in pairs.items() if other < pair))
        neither = ((0, 1.0), *((at, -1.0) for at in alone), *((at, 1.0) for at in pairs.values()))
        found += [(place, first), (place, second), (place, neither)]
        found += [
            (places[one], first),
            (places[one], neither),
            (places[other], second),
            (places[other], neither),
        ]
    return tuple(dict.fromkeys(found))


def _range(block: Block, intercept: bool) -> tuple[float, float, float, float, bool]:
    """(low, high, centre, half, dummy) of the columns of a block."""
    number = block.number
    if number is None:
        return 0.0, 1.0, 0.0, 1.0, True
    if block.factors and _answers(block):
        return 0.0, 1.0, 0.0, 1.0, True
    low, high = number.low, number.high
    require_spread(number, "drop it from the formula, or change its bounds in the schema")
    if intercept and not block.factors:
        middle = (low + high) / 2
        return (
            low,
            high,
            middle,
            max(high - middle, middle - low),
            False,
        )  # so that no rounding takes a value beyond 1
    largest = max(abs(low), abs(high))
    if block.factors:  # a row of another level holds 0
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high, 0.0, largest, False
