"""The story of a stepped fit, for every family: sums over records with Gaussian noise, then
post-processing only.

1. scales          histograms of the numbers             -> the range of each, in which the fit measures it
2. crude moments   sum x xᵀ                              -> a crude geometry
3. moments         sum w u uᵀ and the score there        -> a first line, its geometry
4. steps           score, curvature, score covariance    -> a line near the estimate, then a step from it
5. inference       nothing more is released              -> what is known of all coefficients together

What is particular to logistic regression and to least squares stands in their own modules.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from dpinfer.fit.frame import framed, framed_columns
from dpinfer.fit.geometry import (
    Setting,
    alternatives,
    in_units,
    lines_of,
    overloaded,
    published,
    statuses,
)
from dpinfer.fit.recipe import privacy
from dpinfer.fit.stepped_plan import ESTIMATE, SCALES, Releases, StepPlan
from dpinfer.maths.families import Line
from dpinfer.maths.inference import Conclusion, Fitted
from dpinfer.maths.moments import Scales
from dpinfer.maths.sums import Change
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import Release
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Model
from dpinfer.rows.source import Source
from dpinfer.rows.transforms import Changed, cached, part_of
from dpinfer.schema.design import Design

P = TypeVar("P", bound=StepPlan)


@dataclass(frozen=True, repr=False)
class AtLine(Changed):
    """Rows at a released line: u, y - h and w of `dpinfer.maths.families`."""

    line: Line
    norm2: float
    neighbours: Neighbours

    @property
    def dim(self) -> int:
        """Length of u."""
        return len(self.line.matrix)

    @property
    def change(self) -> Change:
        """The rows of a block at the line."""
        link = self.line.link(self.norm2, self.neighbours)
        return lambda block: link(block).block


@dataclass(frozen=True, eq=False)
class Finished:
    """What a fit is made of when all is released: the last line over (1, x~), the step, and what is
    said of it.
    """

    line: Line
    fit: Fitted
    said: Conclusion


@dataclass(frozen=True)
class Stepped(Generic[P]):
    """A fit of a design with an intercept, without a penalty."""

    design: Design
    plan: P

    @property
    def neighbours(self) -> Neighbours:
        """Those of the plan."""
        return Neighbours(self.plan.neighbours)

    @property
    def budget(self) -> Budget:
        """That of the plan."""
        return self.plan.promise

    @property
    def booked(self) -> Releases:
        """The releases by their stage; scales only where there is a number."""
        return self.plan.releases(numbers=self._numbers)

    @property
    def _numbers(self) -> int:
        return len(framed_columns(self.design))

    def releases(self, n: int) -> tuple[Release, ...]:  # noqa: ARG002  (their noise does not depend on n)
        """Sums over records, all of them."""
        return self.booked.all

    def advice(self, n: int) -> str:
        """A warning where a typical column has less than twice what it takes to be printed; none
        where n is private.
        """
        if not self.neighbours.counted:
            return ""
        return overloaded(self.plan.strength(self.design.columns, n), self.design, n)

    def _scales(self, stage: str = ESTIMATE) -> Scales:
        """The noise of the releases; ``stage`` is which of the steps towards the estimate."""
        return self.plan.scales(numbers=self._numbers, stage=stage)

    def run(self, gate: Gate, source: Source) -> FitResult:
        """All releases, then post-processing.

        Guarantee [released_values_only]: line, geometry, clips, statuses and intervals are
        functions of the releases and of public facts: with the same releases, other records give
        the same result.
        """
        rows = cached(source)
        part = part_of(rows, self.neighbours)
        frame = framed(gate, self.booked.of(SCALES), part, self.design, self.neighbours)
        at = Setting(self.design, self.neighbours, self._scales(), frame)
        seed = secrets.randbits(63) if gate.seed is None else gate.seed
        return self._result(gate, source.n, at, self._fitted(gate, rows, at, seed))

    def _fitted(self, gate: Gate, source: Source, at: Setting, seed: int) -> Finished:
        """The releases of the fit, in the frame, and what is said of them."""
        raise NotImplementedError

    def _model(self, n: int | None) -> Model:
        """What was estimated."""
        raise NotImplementedError

    def _asked(self, fit: Fitted, at: Setting) -> Fitted:
        """A fit that knows what was asked: the coefficients of the formula, in the units of the
        user.
        """
        return replace(fit, lines=lines_of(at), shift=float(self.design.shift[0]))

    def _result(self, gate: Gate, n: int, at: Setting, done: Finished) -> FitResult:
        """The result in the units of the user."""
        said = done.said
        last = done.fit.last
        printed = np.flatnonzero(said.printed)
        return FitResult(
            names=self.design.names,
            estimate=said.coef,
            error=said.answers.law.mapped(np.eye(len(said.printed))[printed]),
            hessian=in_units(last.hessian, done.fit, at),
            score_cov=at.design.outcome.half**2 * in_units(last.score_cov, done.fit, at),
            model=self._model(n if self.neighbours.counted else None),
            privacy=privacy(gate, self.plan.promise),
            status=statuses(said, at),
            geometry=published(done.line, said, at, done.fit.moments.n),
            instead=alternatives(said, at),
            joint=said.joint,
        )
