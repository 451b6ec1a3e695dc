"""What was asked of a fit, and what it states, on a population without noise.

Asked is the ordinary regression of all columns, every row counted by its share.  Stated is what the
fit itself solves:  rows far out count less, some numbers are clipped to their released range, and
outcomes of least squares are pulled into a band.  The first is the same for every fit, but for the
place of its intercept; the second depends on the releases.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpinfer.fit.choose import stepped_of
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block
from dpinfer.result.result import FitResult
from dpinfer.schema.design import Design

_FULLY = 1e-9  # a weight that differs from 1 by less is 1


@dataclass(frozen=True, eq=False)
class Stated:
    """The estimand of a fit on a population: coefficients in original units, the intercept at the
    result's centre.

    ``down_weighted`` is the share of rows that count less than fully, ``clipped`` that of rows
    whose outcome lies beyond the band.
    """

    coef: Array
    down_weighted: float
    clipped: float


def stated(
    result: FitResult, design: Design, people: Block, asked: NoiselessFit | None = None
) -> Stated:
    """What a fit estimates, for a population of rows (1, x~), labels or scaled outcomes, shares and
    units.

    ``asked`` is the ordinary regression of the same rows, where the search begins; it is made where
    it is not given.
    """
    geometry = result.geometry
    assert geometry is not None
    recipe = stepped_of(result)
    if asked is None:
        asked = recipe.ordinary(people)
    columns = _columns(design, people.rows)
    weights = geometry.row_weights(columns)
    rows = _rows(design, people.rows, geometry.inside(columns))
    seen = replace(people, rows=rows, weights=weights * people.shares)
    found, clipped = recipe.as_seen(result, design, seen, columns, asked)
    coef = found.in_units(design, geometry.centre).coef
    return Stated(coef, float((weights < 1 - _FULLY).mean()), clipped)


def _columns(design: Design, rows: Array) -> Array:
    """Columns in original units, from rows (1, x~)."""
    return np.asarray(design.middle[1:] + design.half[1:] * rows[:, 1:])


def _rows(design: Design, before: Array, columns: Array) -> Array:
    """Rows (1, x~) of columns in original units; a row that could not be encoded stays a zero row."""
    rows = before.copy()
    rows[:, 1:] = (columns - design.middle[1:]) / design.half[1:]
    rows[before[:, 0] == 0] = 0.0
    return rows


def instead(result: FitResult, design: Design, people: Block, asked: NoiselessFit) -> Array:
    """What the lines are about that stand for open coefficients, in their order, on a population.

    A level against another one is a difference of coefficients that were asked for.  A number
    clipped to its range is the coefficient of the ordinary regression in which it is clipped, and
    with it all that the fit has clipped.
    """
    lines = result.instead
    geometry = result.geometry
    assert geometry is not None
    if lines is None or not lines.names:
        return np.zeros(0)
    at = {name: j for j, name in enumerate(design.names)}
    coef = asked.in_units(design, geometry.centre).coef
    found = []
    narrow: dict[frozenset[str], Array] = {}
    for name, column in zip(lines.names, lines.instead_of, strict=True):
        other = name.removeprefix(f"{column} - ")
        if other in at:
            found.append(coef[at[column]] - coef[at[other]])
            continue
        clipped = frozenset({column, *geometry.clipped})
        if clipped not in narrow:
            narrow[clipped] = _clipped(result, design, people, clipped)
        found.append(narrow[clipped][at[column]])
    return np.array(found)


def _clipped(result: FitResult, design: Design, people: Block, names: frozenset[str]) -> Array:
    """Coefficients of the ordinary regression with some numbers clipped to their released range."""
    geometry = result.geometry
    assert geometry is not None
    narrowed = replace(geometry, clipped=tuple(names))
    rows = _rows(design, people.rows, narrowed.inside(_columns(design, people.rows)))
    found = stepped_of(result).ordinary(replace(people, rows=rows))
    return found.in_units(design, geometry.centre).coef
