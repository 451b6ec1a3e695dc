"""Features centred at released means, so that products are not collinear with what they are made of.

A product such as age·female is mostly a multiple of female, and age² one of age.  With m the mean of
age, (age - m)·female and (age - m)² are not, and span the same: they are combinations of the features
wherever all their parts are features, too.  A release is whitened in these columns.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from dpinfer.numerics.arrays import Array
from dpinfer.schema.design import Design
from dpinfer.schema.features import Features, Monomial


@dataclass(frozen=True, eq=False)
class CentredColumns:
    """Columns x'' = ``matrix`` (1, x~): numbers less their mean over their released half range, levels as
    they are, and products of these.  ``parts`` are the numbers that each column is a product of, by the
    position of their own column; a column that is no such product is its own part.
    """

    matrix: Array
    parts: tuple[tuple[int, ...], ...]
    dummy: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, features: Features, design: Design, mean: Array, half: Array) -> "CentredColumns":
        """Centre at ``mean`` and scale by ``half``, in original units."""
        p = len(features)
        centring = np.eye(p)
        parts: list[tuple[int, ...]] = [()] * p
        scale = np.ones(p)
        levels = np.zeros(p, dtype=bool)
        for one, j in features.positions.items():
            levels[j] = j > 0 and not one.numbers
            own = [features.positions.get(Monomial((text,))) for text in one.numbers]
            row = None if None in own else _product(one, own, features, mean)
            if row is None:
                parts[j] = () if levels[j] or j == 0 else (j,)
                centring[j, 0] -= mean[j] if parts[j] else 0.0
            else:
                centring[j] = row
                parts[j] = tuple(k for k in own if k is not None)
            scale[j] = np.prod(half[list(parts[j])])
        to_units = np.diag(design.half)
        to_units[1:, 0] = design.middle[1:]
        return cls(centring @ to_units / scale[:, None], tuple(parts), levels)

    def reach(self, mean: Array, own: Array) -> Array:
        """Return the largest distance of each column from its mean, given those of its numbers, ``own``."""
        farthest = np.array([np.prod(own[list(parts)]) for parts in self.parts])
        found = np.where(
            [parts == (j,) for j, parts in enumerate(self.parts)], farthest, farthest + np.abs(mean)
        )
        found = np.where(self.dummy, np.maximum(1.0 - mean, mean), found)
        found[0] = 0.0
        return np.asarray(found)


def _product(one: Monomial, own: list[int | None], features: Features, mean: Array) -> Array | None:
    """Return the product of centred numbers and levels as a combination of the features; None where a
    part of it is no feature.
    """
    row = np.zeros(len(features))
    for size in range(len(one.numbers) + 1):
        for kept in combinations(range(len(one.numbers)), size):
            part = Monomial(tuple(one.numbers[k] for k in kept), one.levels)
            at = features.positions.get(part)
            if at is None:
                return None
            others = [own[k] for k in range(len(own)) if k not in kept]
            row[at] += np.prod([-mean[k] for k in others if k is not None])
    return row
