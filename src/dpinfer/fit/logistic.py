"""Logistic regression by steps: a line from the moments, three first steps, the step of the
estimate, and its rest.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpinfer.fit.geometry import Setting, crude_moments, refined_moments
from dpinfer.fit.stepped import Finished, Stepped
from dpinfer.fit.stepped_plan import CRUDE, ESTIMATE, FIRST, MOMENTS, REST, GeometryPlan
from dpinfer.maths.arrays import Array, solved
from dpinfer.maths.families import LOGIT, Line, rest_sum, step_sums
from dpinfer.maths.inference import Fitted, Step, conclude
from dpinfer.maths.moments import (
    SURE,
    Moments,
    Reach,
    centre_of,
    preconditioner,
    raised,
    reaches,
    shrink,
)
from dpinfer.maths.noise_laws import deviation
from dpinfer.maths.stepping import Terrain, Usual, first_line, information
from dpinfer.maths.sums import moment_and_score
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result.statements import Model
from dpinfer.rows.source import Source

# of the deviation of the score: what its noise may add if the largest influence can make it so
_ADDED = 0.62
# ... where a number is clipped: its effect is seldom straight, and weights would matter more
_ADDED_CLIPPED = 0.85
_INFLUENCE = (1.2, 3.0)  # the largest influence over a typical one, at least and at most
_EVERYTHING = 1e300  # information over noise at which all is let in
_FIRST_POWER = 0.5  # of 1/curvature: how the variance of a step grows with it
_LAST_POWER = 1.0  # ... and that of the last step


@dataclass(frozen=True, eq=False)
class Place:
    """A line of (1, x') with its geometry, and the line over (1, x~) that rows are seen at."""

    terrain: Terrain
    line: Line


@dataclass(frozen=True)
class LogisticSteps(Stepped[GeometryPlan]):
    """Logistic regression of a design with an intercept."""

    def _fitted(self, gate: Gate, source: Source, at: Setting, seed: int) -> Finished:
        booked = self.booked
        crude = crude_moments(gate, booked.of(CRUDE)[0], source, at)
        what = moment_and_score(self.neighbours)
        known = refined_moments(gate, booked.of(MOMENTS)[0], source, at, crude, what)
        first = first_line(known.matrix, known.score, known.n, at.columns, known.noise * known.back)
        reach = self._reach(known, first, at)
        place = self._place(known, reach, first, at)
        for release in booked.of(FIRST):
            place = self._first_step(gate, release, source, known, reach, place, at)
        last = self._last_step(gate, source, known.n, place, at)
        fit = Fitted.of(
            last, place.terrain.matrix, known, at.columns, centre_of(known.matrix, at.columns)
        )
        fit = self._asked(replace(fit, tail=reach.tail), at)
        return Finished(place.line, fit, conclude(fit, place.line.clipped, self.plan.draws, seed))

    def _influence(self, usual: Usual, n: float, *, clipped: bool = False) -> float:
        """The largest influence over a typical one: large where noise is small, as weights cost
        bias.
        """
        scales = self._scales()
        d = len(self.design.names)
        noise = scales.gradient * np.sqrt(d * usual.farthest2 / (n * usual.information))
        added = _ADDED_CLIPPED if clipped else _ADDED
        return float(np.clip(added / noise, *_INFLUENCE))

    def _reach(self, known: Moments, line: Array, at: Setting) -> Reach:
        """Which numbers are let in as far as their public bounds go; the others are clipped to
        their released range.
        """
        scales = self._scales()
        d = len(self.design.names)
        moments = known.of(np.arange(d))
        usual = Usual.at(moments, line)
        part = min(1.0, self._influence(usual, known.n) ** 2 / scales.kappa(d, known.n))
        seen = raised(information(moments, line) / known.n, 1e-8)
        return reaches(seen, at.columns, known.n * part / scales.hessian, at.clippable)

    def _place(self, known: Moments, reach: Reach, line: Array, at: Setting) -> Place:
        """The geometry of a line: that of its information, and the largest influence of a label."""
        scales = self._scales()
        columns = at.columns
        frame = at.frame
        d = len(columns)
        moments = known.of(np.arange(d))
        usual = Usual.at(moments, line)
        seen = raised(information(moments, line) / known.n, 1e-8) * known.n
        influence = self._influence(usual, known.n, clipped=bool((reach.tail & at.clippable).any()))
        kappa = scales.kappa(d, known.n)
        # so that no weight falls on what is let in at a price
        stretch = np.sqrt(max(1.0, kappa / influence**2))
        distance = reaches(seen, columns, _EVERYTHING).distance
        distance = np.where(reach.long, stretch * distance, distance)
        distance = np.where(reach.tail, reach.distance, distance)
        matrix = preconditioner(seen, columns, seen[0, 0], kappa, distance) / np.sqrt(
            seen[0, 0] / known.n
        )
        typical2 = (
            float(np.trace(matrix @ seen @ matrix.T))
            / (known.n * usual.information)
            * usual.farthest2
        )
        most = influence * float(np.sqrt(typical2))
        clipped = reach.tail & at.clippable
        low = np.where(clipped, frame.middle - frame.half, -1.0)
        high = np.where(clipped, frame.middle + frame.half, 1.0)
        seen_at = Line(LOGIT, matrix @ at.matrix, line @ at.matrix, most, low, high)
        return Place(Terrain(moments, line, matrix), seen_at)

    def _first_step(
        self,
        gate: Gate,
        booked: NoisySum,
        source: Source,
        known: Moments,
        reach: Reach,
        place: Place,
        at: Setting,
    ) -> Place:
        """A better line.  Its noise is not that of the estimate: what counts is where the last line
        is.
        """
        terrain = place.terrain
        clip = place.line.most
        stack = self.plan.stack
        d = len(terrain.line)
        what = step_sums(place.line, clip, stack, self.design.norm2, covariance=False)
        score, hessian = stack.steer(gate.release(booked, source, what).value, d, clip)
        scales = self._scales(FIRST)
        if not np.trace(hessian) > SURE * scales.hessian * np.sqrt(d):
            return place
        expected = terrain.matrix @ information(terrain.moments, terrain.line) @ terrain.matrix.T
        expected *= np.trace(hessian) / np.trace(expected)
        hessian, _ = shrink(hessian, expected, scales.hessian, 0.0)
        step = terrain.best_step(hessian, score, (clip * scales.gradient) ** 2, _FIRST_POWER)
        return self._place(known, reach, terrain.line + terrain.matrix.T @ step, at)

    def _last_step(self, gate: Gate, source: Source, n: float, place: Place, at: Setting) -> Step:
        """The step of the estimate, and what it leaves."""
        terrain = place.terrain
        clip = place.line.most
        scales = self._scales()
        stack = self.plan.stack
        d = len(terrain.line)
        what = step_sums(place.line, clip, stack, self.design.norm2)
        released = gate.release(self.booked.of(ESTIMATE)[0], source, what).value
        score, hessian, score_cov = stack.split(released, d, clip)
        noise = clip * scales.gradient
        seen = np.trace(hessian) > SURE * scales.hessian * np.sqrt(d)
        step = terrain.best_step(hessian, score, noise**2, _LAST_POWER) if seen else np.zeros(d)
        rest, rest_noise = self._rest(gate, source, place, hessian, step)
        return Step(
            line=solved(terrain.matrix.T, terrain.line),
            step=step,
            score=score,
            rest=rest,
            hessian=hessian,
            score_cov=at.clustered(score_cov, source, n),
            score_noise=noise,
            rest_noise=rest_noise,
            scales=replace(scales, score_cov=clip**2 * scales.score_cov),
            exact=False,
        )

    def _rest(
        self, gate: Gate, source: Source, place: Place, hessian: Array, step: Array
    ) -> tuple[Array, float]:
        """What a step leaves, and the scale of its noise."""
        booked = self.booked.of(REST)[0]
        clip = place.terrain.rest_clip(hessian, step, place.line.most)
        what = rest_sum(place.line, step, clip, self.design.norm2, self.neighbours)
        return clip * gate.release(booked, source, what).value, clip * deviation(booked.law)

    def _model(self, n: int | None) -> Model:
        return Model(
            loss="Logistic()",
            penalty=0.0,
            n=n,
            target=self.plan.target,
            unit=self.design.unit,
            mechanism="Gaussian sums at released lines",
            recipe="steps",
        )
