"""The design: columns in original units become rows in the unit ball by a fixed public scaling.

A numeric block is mapped to [-1, 1] by its range.  The columns of a block with factors, of which at
most one is not 0, are divided by their largest absolute value.  So each block has norm at most 1,
R² = #blocks + 1 bounds the squared norm, and the row is (1, x~)/R.  Without an intercept nothing
could take up a shift: numeric columns are then divided by their largest absolute value too, the
outcome likewise, and the row is x~/R with R² = #blocks.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.inference.moments import Cell, Columns
from dpinfer.mechanisms.sums import shrunk
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST_OFFSET
from dpinfer.numerics.splines import uncorrelated_basis
from dpinfer.schema.columns import Category, Number, in_reach
from dpinfer.schema.follow_up import INTERVAL, FollowUp, SurvivalResponse
from dpinfer.schema.terms import (
    Curve,
    Expression,
    Factor,
    ModelTerms,
    Response,
    TermBlock,
    require_spread,
)
from dpinfer.schema.unit import EVERY, ROW, Unit

INTERCEPT = "(Intercept)"
COUNT = "count"
"""The kind of a loss of counts, where the logarithm of a mean is explained."""
HAZARD = "hazard"
"""The kind of a loss of survival times, where the logarithm of a hazard is explained."""
_NO_OFFSET = (
    "an offset is for counts and rates (PoissonRegression); for a number write I(y - x) on the left of ~, and for an "
    "outcome with two levels take x as a term, whose coefficient is then estimated and not held at 1"
)
_LONGEST = 1000  # factors of a product of columns: its parts would be more terms than a formula has
_CACHED = 2**16  # numbers in a tile: as many as in a block

_Levels = frozenset[tuple[str, object]]
"""Factors with a level of each: the records that have these levels."""

_Combination = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class OutcomeScale:
    """The public scale of a numeric outcome: y = centre + half y~, with y~ in [-1, 1]."""

    centre: float = 0.0
    half: float = 1.0

    @classmethod
    def of_range(cls, low: float, high: float, *, centred: bool = True) -> "OutcomeScale":
        """Return the scale from [low, high] to [-1, 1]; without an intercept nothing could take up
        a shift, and 0 stays 0.
        """
        if not in_reach(low, high):
            raise InputError("the outcome's low and high must be finite numbers, with low < high")
        if centred:
            return cls((low + high) / 2, (high - low) / 2)
        return cls(0.0, max(abs(low), abs(high)))

    @np.errstate(all="ignore")  # a warning would reveal a value
    def bounded(self, y: Array) -> Array:
        """Return y~, not yet clipped."""
        return (y - self.centre) / self.half

    @property
    def slope(self) -> float:
        """The factor from coefficients of y~ to those of y."""
        return self.half

    @property
    def level(self) -> float:
        """The difference between the intercepts of y and of y~."""
        return self.centre

    @property
    def curvature(self) -> float:
        """The factor from a Hessian of y~ to that of y."""
        return self.half / self.slope


@dataclass(frozen=True)
class CountScale(OutcomeScale):
    """The public scale of an outcome from 0 to ``half``, whose logarithm of a mean is explained: a
    scale moves the level alone.
    """

    @classmethod
    def up_to(cls, high: float) -> "CountScale":
        """Return the scale from [0, high] to [0, 1]."""
        if not in_reach(0.0, high):
            raise InputError("the outcome's high must be a finite number above 0")
        return cls(0.0, high)

    @property
    def slope(self) -> float:
        """The factor is 1: a rate ratio has no unit."""
        return 1.0

    @property
    def level(self) -> float:
        """The logarithm of the unit."""
        return math.log(self.half)


UNSCALED = OutcomeScale()
"""The scale of labels, and of outcomes that are scaled already."""


@dataclass(frozen=True, eq=False)
class SplineColumns:
    """The ``columns`` of a spline by their index, times that at ``base``: the intercept, or a level of
    a factor.  ``matrix`` leads from base and columns in original units to functions that a fit can
    tell apart, and ``encoded`` from base and columns as they are encoded.  Columns are ``shares`` if,
    with the one that was left out, they are at least 0 and add up to 1.
    """

    base: int
    columns: tuple[int, ...]
    matrix: Array
    encoded: Array
    shares: bool


@dataclass(frozen=True, eq=False)
class Design:
    """The public encoding of a record, one fact per coefficient; the intercept, if there is one,
    comes first.

    A column is encoded as (value - middle)/half, with values clipped to [low, high]; the intercept
    is the value 1.  ``columns`` says which are then 0 or 1 only, and which are never nonzero
    together.  ``norm2`` is R², the bound of the squared norm of an encoded row.  ``outcome`` is the
    scale of a numeric outcome, ``unit`` whose rows they are.  ``offset`` is the public upper bound of
    a number that is added to the predictor as it is, where there is one: it is the last column of a
    row, and has no coefficient.  ``products`` has the indices of
    columns that are powers or products of other columns, with the indices of these; ``shared`` those
    of numbers that are a part of some other column, too; ``splines`` those of the columns of splines.
    With effects of persons the columns and the outcome are deviations from the means of a person, and
    ``demeaned_from`` is the design of the values that these are made of.
    """

    names: tuple[str, ...]
    low: Array
    high: Array
    middle: Array
    half: Array
    columns: Columns
    norm2: float
    outcome: OutcomeScale = UNSCALED
    unit: Unit = ROW
    offset: float | None = None
    products: tuple[tuple[int, tuple[int, ...]], ...] = ()
    shared: tuple[int, ...] = ()
    splines: tuple[SplineColumns, ...] = ()
    demeaned_from: "Design | None" = None

    def for_records(self, n: int) -> "Design":
        """Return the same for a table with a public number of rows."""
        unit = self.unit.for_records(n)
        return self if unit == self.unit else replace(self, unit=unit)

    @classmethod
    def of_formula(
        cls, response: Response, terms: ModelTerms, kind: str, unit: Unit = ROW
    ) -> "Design":
        """Return the encoding of a formula; ``kind`` is what the loss is a function of, ``unit``
        whose rows they are.

        A loss of the margin needs an outcome with two levels, a loss of the residual a number.
        """
        number = response.number
        if terms.effects:
            values = cls.of_formula(response, replace(terms, effects=False), kind, unit)
            _require_panel(values, kind)
            return values.demeaned()
        if isinstance(response, SurvivalResponse):
            if kind != HAZARD:
                raise InputError(f"{response.name!r} is a survival outcome: fit HazardRegression")
            return HazardDesign.of_survival(response, terms, unit)
        if kind == HAZARD:
            raise InputError(
                f"{response.name!r} is no survival outcome: write Surv(exit, event) ~ ..., or "
                "Surv(entry, exit, event) ~ ... where persons may enter late"
            )
        if terms.offset is not None and kind != COUNT:
            raise InputError(_NO_OFFSET)
        if kind == "margin" and number is not None:
            raise InputError(
                f"{response.name!r} is a number: a classifier needs two levels; compare it, as in "
                f'{response.name} > 0 ~ ..., or name a column with type = "outcome" and levels on the left of ~'
            )
        if kind == "margin":
            return replace(cls.of_terms(terms), unit=unit)
        if number is None:
            if isinstance(response.read_as, Expression):
                raise InputError(
                    f"{response.name!r} is true or false, which a classifier explains: for a regression of 0 and 1 "
                    'name a column with type = "integer", low = 0 and high = 1'
                )
            raise InputError(
                f"{response.name!r} is an outcome with levels: a regression needs low and high in the schema"
            )
        if kind == COUNT:
            if number.low < 0:
                raise InputError(
                    f"{response.name!r} goes below 0 in the schema: a count, a rate or a cost has low = 0 or more"
                )
            return replace(cls.of_terms(terms, CountScale.up_to(number.high)), unit=unit)
        scale = OutcomeScale.of_range(number.low, number.high, centred=terms.intercept)
        return replace(cls.of_terms(terms, scale), unit=unit)

    @classmethod
    def of_bounds(
        cls,
        bounds: tuple[npt.ArrayLike, npt.ArrayLike],
        columns: tuple[str, ...],
        outcome: OutcomeScale = UNSCALED,
        yes_no: Sequence[str] = (),
        offset: float | None = None,
    ) -> "Design":
        """Return the design of numeric columns with bounds (low, high): numbers for all columns, or
        one for each.

        ``yes_no`` names those that hold 0 and 1 alone, whose bounds these must be; ``offset`` is the
        upper bound of one that comes last.
        """
        d = len(columns)
        try:
            low, high = (np.broadcast_to(np.asarray(side, dtype=float), (d,)) for side in bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds must be a pair (low, high) of numbers, or of {d} numbers each, one per column"
            ) from None
        numbers = []
        other_bounds = []
        for name, lowest, highest in zip(columns, low.tolist(), high.tolist(), strict=True):
            kind = "boolean" if name in yes_no else "number"
            numbers.append(Number(name, lowest, highest, kind=kind))
            if kind == "boolean" and (lowest, highest) != (0, 1):
                other_bounds.append(name)
        if other_bounds:
            raise InputError(
                f"the columns of yes_no= have the bounds 0 and 1: give {', '.join(other_bounds)} these bounds"
            )
        return cls.of_terms(numbers, outcome, offset)

    @classmethod
    def of_terms(
        cls,
        terms: ModelTerms | Sequence[Number | Category],
        outcome: OutcomeScale = UNSCALED,
        offset: float | None = None,
    ) -> "Design":
        """Return the encoding of the right side of a formula, or of plain columns with an
        intercept.
        """
        if not isinstance(terms, ModelTerms):
            terms = ModelTerms.plain(terms)
        if terms.offset is not None:
            offset = terms.offset.high
        if not terms.blocks and not terms.intercept:
            raise InputError(
                "the formula has no terms: add a column on the right of ~, or keep the intercept"
            )
        names: list[str] = []
        scalings: list[_Scaling] = []
        groups: list[int] = []
        yes_no: list[bool] = []
        if terms.intercept:
            names.append(INTERCEPT)
            scalings.append(_Scaling(1.0, 1.0, 0.0, 1.0))
            groups.append(-1)
            yes_no.append(False)
        for group, block in enumerate(terms.blocks):
            width = len(block.names)
            names += block.names
            scalings += [_Scaling.of(block, intercept=terms.intercept)] * width
            groups += [group] * width
            yes_no += [_is_yes_no(block)] * width
        columns = Columns(
            dummy=np.array([scaling.dummy for scaling in scalings]),
            group=np.array(groups, dtype=np.intp),
            yes_no=np.array(yes_no),
            cells=_cells(terms),
        )
        return cls(
            names=tuple(names),
            low=np.array([scaling.low for scaling in scalings]),
            high=np.array([scaling.high for scaling in scalings]),
            middle=np.array([scaling.middle for scaling in scalings]),
            half=np.array([scaling.half for scaling in scalings]),
            columns=columns,
            norm2=columns.norm2 + (0.0 if offset is None else 1.0),
            outcome=outcome,
            offset=offset,
            products=_products(terms),
            shared=_shared(terms),
            splines=_splines(terms, scalings),
        )

    @classmethod
    def of_rows(cls, dim: int) -> "Design":
        """Return the design of rows that are bounded already, with columns x1, x2, …, as they are."""
        return cls(
            names=tuple(f"x{j + 1}" for j in range(dim)),
            low=np.full(dim, -np.inf),
            high=np.full(dim, np.inf),
            middle=np.zeros(dim),
            half=np.ones(dim),
            columns=Columns(np.zeros(dim, dtype=bool), np.zeros(dim, dtype=np.intp)),
            norm2=1.0,
        )

    def demeaned(self) -> "Design":
        """Return the design of deviations from the means of each person, divided by public numbers.

        A block of numbers in [-1, 1] deviates by at most 2, one column of zeros and ones by at most 1,
        and several of them, of which one is not 0, by at most √2.  Divided by these, each block has norm
        at most 1 again, so that the bound of a row stays.  The column of ones stays, too.
        """
        size = 2 * np.ones(len(self.names))
        for j in np.flatnonzero(self.columns.dummy):
            size[j] = (
                1.0 if (self.columns.group == self.columns.group[j]).sum() == 1 else math.sqrt(2)
            )
        size[0] = 1.0
        half = self.half * size
        far = np.where(np.arange(len(half)) == 0, 1.0, half)
        return replace(
            self,
            low=np.where(np.arange(len(half)) == 0, 1.0, -far),
            high=far,
            middle=np.zeros(len(half)),
            half=half,
            columns=Columns(
                np.zeros(len(half), dtype=bool), np.arange(len(half), dtype=np.intp) - 1
            ),
            outcome=OutcomeScale(0.0, 2 * self.outcome.half),
            unit=replace(self.unit, rows=EVERY),
            products=(),
            shared=(),
            splines=(),
            demeaned_from=self,
        )

    @property
    def of_values(self) -> "Design":
        """Return the design of values: this one, or the one that deviations are made of."""
        return self if self.demeaned_from is None else self.demeaned_from

    @property
    def within(self) -> bool:
        """Whether the columns are deviations from the means of a person."""
        return self.demeaned_from is not None

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return INTERCEPT in self.names[:1]

    @np.errstate(all="ignore")  # a warning would reveal a value
    def rows(self, values: Array) -> Array:
        """Return bounded rows from columns in original units; a row with a NaN or an infinity
        becomes the zero row.

        Guarantee [public_scaling]: every row has norm at most 1, in real numbers, whatever the
        table holds.
        """
        rows = np.empty((len(values), self.width))
        first = int(self.intercept)
        rows[:, :first] = shrunk(self.width + 4) / np.sqrt(self.norm2)
        tiles = _tiles(self)
        height = len(tiles.low)
        for start in range(0, len(values), height):
            tile = slice(start, start + height)
            tiles.encode(np.ascontiguousarray(values[tile]), rows[tile, first:])
        # a sum of large numbers may overflow, which takes time and nothing else
        if not np.isfinite(values.sum()):
            rows[~np.isfinite(values).all(axis=1)] = 0.0
        return rows

    @property
    def width(self) -> int:
        """Length of an encoded row: a number per coefficient, and the offset."""
        return len(self.names) + (self.offset is not None)

    def back(self) -> Array:
        """Return the matrix from coefficients of the bounded rows to coefficients in the units of
        the columns.
        """
        matrix = np.diag(1 / self.half)
        if self.intercept:
            matrix[0] -= self.middle / self.half
        return np.asarray(matrix / np.sqrt(self.norm2))

    @property
    def mapping(self) -> Array:
        """The matrix from coefficients of the bounded rows and the scaled outcome to the units of a
        result, without `shift`.
        """
        return self.outcome.slope * self.back()

    @property
    def shift(self) -> Array:
        """The shift of the intercept by the scale of the outcome and by the bound of an offset."""
        level = self.outcome.level - (self.offset or 0.0)
        return level * np.array([float(name == INTERCEPT) for name in self.names])


_TWO_HALVES = FollowUp((0.5,), 1.0)


@dataclass(frozen=True, eq=False)
class HazardDesign(Design):
    """The encoding of spells: a row is (1, x~, entry, exit)/R, times over the horizon.

    The coefficients are those of the columns of the formula and, after them, of the intervals of ``follow_up`` but
    for the first, whose logarithm of the hazard is the intercept.  ``formula_columns`` is the design without
    intervals and times.  A row of one interval, with the logarithm of its time as an offset, has the same length.
    """

    follow_up: FollowUp = _TWO_HALVES
    formula_columns: Design | None = None

    @classmethod
    def of_survival(
        cls, response: SurvivalResponse, terms: ModelTerms, unit: Unit = ROW
    ) -> "HazardDesign":
        """Return the encoding of a formula with a survival outcome, whose intervals are declared."""
        follow_up = response.follow_up
        if follow_up is None:
            raise InputError(
                "declare cuts= between intervals of time and the horizon= at which follow-up ends"
            )
        if unit.weights:
            raise InputError(
                "a hazard regression takes no sampling weights: leave [weights] out of the schema"
            )
        if terms.offset is not None:
            raise InputError(
                "time at risk is the exposure of a hazard regression: drop offset(...)"
            )
        if not terms.intercept:
            raise InputError(
                "a hazard regression needs an intercept: drop the -1 or 0 from the formula"
            )
        if any(part.text == INTERVAL for block in terms.blocks for part in block.parts):
            raise InputError(
                f"{INTERVAL!r} names the intervals of time: derive the column under another name"
            )
        _require_time_at_risk(response, follow_up)
        formula_columns = Design.of_terms(terms)
        if formula_columns.names == (INTERCEPT,):
            raise InputError(
                "a hazard regression needs a covariate: name columns on the right of ~, or use dp.survival_curves"
            )
        blocks = replace(terms, blocks=(*terms.blocks, follow_up.block))
        expanded = Design.of_terms(blocks, CountScale(), math.log(follow_up.longest))
        facts = {field.name: getattr(expanded, field.name) for field in fields(Design)}
        facts["unit"] = replace(unit, rows=EVERY) if unit.many else unit
        return cls(**facts, follow_up=follow_up, formula_columns=formula_columns)

    @property
    def records(self) -> Design:
        """Return the design of the columns of the formula alone."""
        assert self.formula_columns is not None
        return self.formula_columns

    @property
    def width(self) -> int:
        """Length of an encoded row: a number per column of the formula, entry and exit."""
        return self.records.width + 2

    @np.errstate(all="ignore")  # a warning would reveal a value
    def rows(self, values: Array) -> Array:
        """Return bounded rows; one with a NaN or an infinity, or without time, becomes the zero row."""
        rows = self.records.rows(values[:, :-2])
        rows *= math.sqrt(self.records.norm2 / self.norm2) * shrunk(self.width)
        times = np.clip(values[:, -2:], 0.0, 1.0) * rows[:, :1]
        found = np.column_stack([rows, times])
        found[~np.isfinite(times).all(axis=1)] = 0.0
        return found


def _require_time_at_risk(response: SurvivalResponse, follow_up: FollowUp) -> None:
    """Refuse follow-up in which public bounds leave no time to any person, or none to the last interval."""
    end = response.end
    if follow_up.horizon > end.high:
        raise InputError(
            f"the horizon {follow_up.horizon:g} is beyond {end.high:g}, the upper bound of {end.text!r} in the schema: "
            "give a horizon up to it"
        )
    if response.entry is not None and response.entry.low >= follow_up.horizon:
        raise InputError(
            f"nobody enters before the horizon {follow_up.horizon:g}: {response.entry.text!r} begins at "
            f"{response.entry.low:g} in the schema"
        )


def _require_panel(design: Design, kind: str) -> None:
    """Refuse effects of persons where they are not available."""
    if kind != "residual":
        raise InputError(
            "effects of persons are for a number that is explained by least squares: use LinearRegression, or leave "
            "out effects= and the part of the formula behind |"
        )
    if not design.unit.many:
        raise InputError(
            "effects of persons need ids: give the schema a [unit] with a column of person ids"
        )
    if design.unit.weights:
        raise InputError(
            "effects of persons are not available with sampling weights: drop [weights] from the schema, or the effects"
        )
    if not design.intercept:
        raise InputError(
            "effects of persons take the place of the intercept: drop the -1 or 0 from the formula"
        )
    if len(design.names) < 2:
        raise InputError(
            "effects of persons need a column that they explain nothing of: add a term"
        )


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
        """Write (value - middle)·factor to ``out``, with values clipped to [low, high]."""
        m = len(values)
        clipped = np.maximum(values, self.low[:m])
        np.minimum(clipped, self.high[:m], out=clipped)
        clipped -= self.middle[:m]
        np.multiply(clipped, self.factor[:m], out=out)


@lru_cache(maxsize=8)
def _tiles(design: Design) -> _Tiles:
    first = int(design.intercept)
    height = max(1, _CACHED // design.width)
    low = design.low
    high = design.high
    middle = design.middle
    half = design.half
    if design.offset is not None:  # to [-1, 0], 0 at its bound
        low = np.append(low, design.offset - FARTHEST_OFFSET)
        high = np.append(high, design.offset)
        middle = np.append(middle, design.offset)
        half = np.append(half, FARTHEST_OFFSET)
    factor = shrunk(design.width + 4) / np.sqrt(design.norm2) / half

    def tiled(fact: Array) -> Array:
        return np.tile(fact[first:], (height, 1))

    return _Tiles(tiled(low), tiled(high), tiled(middle), tiled(factor))


@dataclass(frozen=True)
class _Scaling:
    """The encoding of the columns of one block: (value - middle)/half, with values in [low, high].

    ``dummy`` says that they are 0 or 1.
    """

    low: float
    high: float
    middle: float
    half: float
    dummy: bool = False

    @classmethod
    def of(cls, block: TermBlock, *, intercept: bool) -> "_Scaling":
        """Return the scaling of a block, in a design with or without an intercept."""
        number = block.number
        if number is None or (block.factors and _holds_answers(block)):
            return cls(0.0, 1.0, 0.0, 1.0, dummy=True)
        require_spread(number, "drop it from the formula, or change its bounds in the schema")
        low = number.low
        high = number.high
        if intercept and not block.factors:
            middle = (low + high) / 2
            # the larger of the two halves, so that no rounding takes a value beyond 1
            return cls(low, high, middle, max(high - middle, middle - low))
        largest = max(abs(low), abs(high))
        if block.factors:  # a row of another level holds 0
            low = min(low, 0.0)
            high = max(high, 0.0)
        return cls(low, high, 0.0, largest)


def _is_yes_no(block: TermBlock) -> bool:
    """Whether a block is one column that holds 0 and 1 alone: yes or no, or a product of such
    columns.
    """
    return not block.factors and _holds_answers(block)


def _holds_answers(block: TermBlock) -> bool:
    """Whether all numbers of a block are yes or no: answers, or whole numbers with the bounds 0 and
    1.
    """
    for part in block.parts:
        if isinstance(part, Factor):
            continue
        if part.answers:
            continue
        column = part.column
        if column is None or column.kind != "integer" or (column.low, column.high) != (0, 1):
            return False
    return True


def _products(terms: ModelTerms) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the indices of powers and products of columns whose every part is a column too, with
    the indices of the factors.

    Only then do the same columns, each less a constant, span the same model.
    """
    if not terms.intercept:
        return ()
    indices: dict[tuple[str, ...], int] = {}
    for index, block in terms.indexed_blocks():
        if block.number is None or block.factors or _is_yes_no(block):
            continue
        factors = _factors(block.number)
        if factors is not None:
            indices.setdefault(tuple(sorted(factors)), index)
    products = []
    for names, index in indices.items():
        if len(names) > 1 and _has_parts(names, indices):
            products.append((index, tuple(indices[(name,)] for name in names)))
    return tuple(products)


def _has_parts(names: tuple[str, ...], indices: Collection[tuple[str, ...]]) -> bool:
    """Whether every part of a product is among ``places``: x, y, xx and xy are those of xxy."""
    times = Counter(names)
    parts = math.prod(count + 1 for count in times.values()) - 2  # neither none nor all of it
    if parts > len(indices):  # counted first: a product of 40 columns has 2 ** 40 parts
        return False
    for powers in product(*(range(most + 1) for most in times.values())):
        part = tuple(Counter(dict(zip(times, powers, strict=True))).elements())
        if 0 < len(part) < len(names) and part not in indices:
            return False
    return True


def number_factors(number: Expression) -> list[str]:
    """Return the factors of a number, each as often as it occurs; itself where it is no product."""
    found = _factors(number)
    return [number.text] if found is None else found


def _factors(number: Expression) -> list[str] | None:
    """Return the factors of an expression, each as often as it occurs: columns of the table, in
    backticks, and columns of curves; None if it is none.
    """
    if number.column is not None or number.curve is not None:
        return _irreducible_factors(number)
    if number.operation == "I":
        return _factors(number.arguments[0])
    if number.operation == "*":
        left, right = (_factors(argument) for argument in number.arguments)
        if left is None or right is None:
            return None
        return left + right
    if number.operation == "**" and number.arguments[1].low in (2.0, 3.0):
        base = _factors(number.arguments[0])
        # a power of a power of a power is longer than any list, and its parts stand in no formula
        if base is not None and len(base) <= _LONGEST:
            return base * int(number.arguments[1].low)
    return None


def _irreducible_factors(column: Expression) -> list[str]:
    """Return the factors of an expression that is no product; a power of poly is one of the
    distance from its centre.
    """
    if column.column is not None:
        return [f"`{column.column.name}`"]
    if column.curve is not None and column.operation == "poly":
        _, index, *_ = column.arguments
        return [f"{column.curve.name}[1]"] * (1 + int(index.low))
    return [column.text]


def _shared(terms: ModelTerms) -> tuple[int, ...]:
    """Return the indices of numbers that are a part of another column, too, or that others are made
    of.
    """
    uses = Counter(column.name for block in terms.blocks for column in {*block.columns})
    indices: list[int] = []
    for index, block in terms.indexed_blocks():
        if block.number is None:
            continue
        if any(uses[column.name] > 1 for column in block.columns):
            indices += range(index, index + len(block.names))
    return tuple(indices)


def _splines(terms: ModelTerms, scalings: Sequence[_Scaling]) -> tuple[SplineColumns, ...]:
    """Return every spline, by itself and in each level of factors that has a column; not where it
    is multiplied by another number.
    """
    if not terms.intercept:
        return ()
    bases = _columns_of_levels(terms) | {frozenset(): 0}
    by_curve: dict[tuple[Curve, _Levels], list[int]] = {}
    arguments: dict[Curve, Expression] = {}
    for index, block in terms.indexed_blocks():
        numbers = [part for part in block.parts if isinstance(part, Expression)]
        if len(numbers) != 1 or numbers[0].curve is None or not numbers[0].curve.knots:
            continue
        curve = numbers[0].curve
        arguments[curve] = numbers[0].arguments[0]
        for k, levels in enumerate(product(*_levels_of(block))):
            by_curve.setdefault((curve, frozenset(levels)), []).append(index + k)
    splines = []
    for (curve, level), indices in by_curve.items():
        if level not in bases:
            continue
        argument = arguments[curve]
        matrix = uncorrelated_basis(curve.basis, curve.knots, argument.low, argument.high)
        half = np.array([scalings[j].half for j in indices])
        middle = np.array([scalings[j].middle for j in indices])
        slopes = matrix[:, 1:]
        encoded = np.column_stack([matrix[:, 0] + slopes @ middle, slopes * half])
        shares = not curve.reference
        splines.append(SplineColumns(bases[level], tuple(indices), matrix, encoded, shares))
    return tuple(splines)


def _cells(terms: ModelTerms) -> tuple[Cell, ...]:
    """Return the cells of each pair of factors, on which the coefficients of interacting levels
    rest.

    With f*g the coefficient of f = b is about the records with f = b and g at its reference,
    compared with those where both are at theirs; that of b and d together about all four cells.
    """
    if not terms.intercept:
        return ()
    indices = _columns_of_levels(terms)
    pairs: dict[frozenset[str], dict[_Levels, int]] = {}
    for levels, index in indices.items():
        if len(levels) == 2:
            pairs.setdefault(_factors_of(levels), {})[levels] = index

    # indicators of cells, as combinations of columns: each is 1 for its records, 0 for others
    @cache
    def only(one: _Levels, factors: frozenset[str]) -> _Combination:
        together = [at for pair, at in pairs[factors].items() if one < pair]
        return ((indices[one], 1.0), *((at, -1.0) for at in together))

    @cache
    def neither(factors: frozenset[str]) -> _Combination:
        alone = [at for one, at in indices.items() if len(one) == 1 and _factors_of(one) < factors]
        together = pairs[factors].values()
        return ((0, 1.0), *((at, -1.0) for at in alone), *((at, 1.0) for at in together))

    # by short keys: a combination may be as long as the design is wide
    cells: dict[tuple[int, frozenset[str], _Levels | None], Cell] = {}
    for levels, index in indices.items():
        if len(levels) != 2:
            continue
        factors = _factors_of(levels)
        singles = [frozenset({level}) for level in sorted(levels, key=str)]
        if not all(one in indices for one in singles):
            continue
        for one in singles:
            cells.setdefault((index, factors, one), (index, only(one, factors)))
        cells.setdefault((index, factors, None), (index, neither(factors)))
        for one in singles:
            at = indices[one]
            cells.setdefault((at, factors, one), (at, only(one, factors)))
            cells.setdefault((at, factors, None), (at, neither(factors)))
    return tuple(cells.values())


def _factors_of(levels: _Levels) -> frozenset[str]:
    return frozenset(factor for factor, _ in levels)


def _columns_of_levels(terms: ModelTerms) -> dict[_Levels, int]:
    """Return the indices of columns that are 0 or 1, by the levels that their records have."""
    indices: dict[_Levels, int] = {}
    for index, block in terms.indexed_blocks():
        if not _holds_answers(block):
            continue
        answers = [[(part.text, 1)] for part in block.parts if isinstance(part, Expression)]
        for k, levels in enumerate(product(*answers, *_levels_of(block))):
            indices[frozenset(levels)] = index + k
    return indices


def _levels_of(block: TermBlock) -> list[list[tuple[str, object]]]:
    """Return the levels of each factor of a block that have columns, in the order of the columns."""
    return [
        [(factor.text, level) for level in block.kept_levels(factor)] for factor in block.factors
    ]
