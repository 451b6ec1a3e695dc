"""The context of a stepped fit: design, adjacency, scaling of columns, and noise, for all stages."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.fit.column_scaling import (
    ColumnScaling,
    clippable_columns,
)
from dpinfer.inference.constants import MIN_SIGNAL
from dpinfer.inference.moments import (
    SMALLEST,
    Columns,
    Moments,
    Scales,
    farthest,
)
from dpinfer.inference.winsorising import NumberLaws
from dpinfer.mechanisms.summation_error import moment_error
from dpinfer.numerics.arrays import Array
from dpinfer.rows.encoded import Mapped
from dpinfer.rows.source import Source
from dpinfer.schema.design import Design


@dataclass(frozen=True, eq=False)
class FitContext:
    """The design, the adjacency, the noise sds of the releases, and the scaling of columns.

    ``mean_rows`` is the released mean number of rows of a unit, where every row counts once.
    """

    design: Design
    neighbours: Adjacency
    scales: Scales
    scaling: ColumnScaling
    mean_rows: float = 1.0

    @cached_property
    def columns(self) -> Columns:
        """Return what is public about the standardised columns x'."""
        return self.scaling.columns(self.design)

    @cached_property
    def matrix(self) -> Array:
        """Return the matrix from (1, x~) to (1, x')."""
        return self.scaling.matrix(self.design)

    @cached_property
    def of_units(self) -> Array:
        """Return the matrix from (1, x) in original units to (1, x')."""
        return self.scaling.of_units(self.design)

    @cached_property
    def clippable(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the numbers that may be winsorised: those whose records are at their two ends are not."""
        return clippable_columns(self.design) & ~self.columns.dummy

    def numbers(self, second_moments: Array, moments: Moments, radius2: float) -> NumberLaws:
        """Return moments and tail laws of the columns; ``second_moments`` weight records by h'.

        A number needs no law, and no limit, if even its public bounds are within the squared radius
        ``radius2``: all its records have full weight then.
        """
        mean = second_moments[0] / second_moments[0, 0]
        covariance = second_moments / second_moments[0, 0] - np.outer(mean, mean)
        variance = np.maximum(np.diag(covariance), SMALLEST)
        np.fill_diagonal(covariance, variance)
        scaling = self.scaling
        ends = farthest(second_moments, self.columns)
        far = self.clippable & (ends**2 > radius2 * variance)
        laws = {}
        for j, histograms in scaling.histograms:
            if far[j]:
                centre = scaling.middle[j] + scaling.half[j] * mean[j]
                unit = scaling.half[j] * math.sqrt(variance[j])
                laws[j] = histograms.tails(centre, unit, moments.n)
        noise_sd = moments.noise * (moments.back**2).sum(axis=1) / moments.n
        return NumberLaws(mean, covariance, ends, variance > MIN_SIGNAL * noise_sd, laws)

    @property
    def known_number(self) -> bool:
        """Return whether the sum of weights is public: n is, and every weight is 1."""
        return self.neighbours.counted and self.design.unit.equal_weights

    def clustered(self, score_cov: Array, source: Source, released: float) -> Array:
        """Return a score covariance, over n units times n/(n - 1) (CR1); n is public or ``released``."""
        n = source.n if self.neighbours.counted else released
        return score_cov * (n / max(n - 1, 1.0)) if self.neighbours.units else score_cov

    def mapped(self, source: Source, matrix: Array) -> Source:
        """Return the rows u = matrix (1, x~), for their moments."""
        row_map = matrix * np.sqrt(self.design.norm2)
        return Mapped(source, row_map, self.neighbours, moment_error(row_map))
