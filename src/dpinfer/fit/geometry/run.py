"""The story of a fit in a private geometry: four releases, then post-processing only."""

import secrets
from dataclasses import dataclass

import numpy as np

from dpinfer.data.source import Source
from dpinfer.fit.geometry.box import Box
from dpinfer.fit.geometry.plan import GeometryPlan
from dpinfer.fit.geometry.releases import (
    Estimate,
    Known,
    Matrices,
    Shape,
    centre_of,
    crude_moments,
    deviations,
    estimate,
    matrices_of,
    refined_moments,
    shape_of,
    two_values,
)
from dpinfer.geometry import DROPPED, FEW_EVENTS, OFFSET, UNIDENTIFIED, Geometry
from dpinfer.maths.arrays import Array
from dpinfer.maths.aside import Fitted, intercept_reportable, law_of, reportable
from dpinfer.maths.geometry import Columns, Indices, raised
from dpinfer.maths.losses import Logistic, describe
from dpinfer.maths.mixture import MixtureLaw, no_law
from dpinfer.maths.weighted import REPLACE
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.ledger import Book, Entry
from dpinfer.result import REPORTED, FitResult
from dpinfer.statements import Model, Privacy


def fit_geometry(
    source: Source, box: Box, plan: GeometryPlan, ledger: Book | None = None, insecure_seed: int | None = None
) -> FitResult:
    """Logistic regression of a source whose rows are those of the box, intercept first.

    Guarantee [released_values_only]: columns, geometry, centre, statuses and intervals are functions of the four
    releases and of public facts: with the same releases, other records give the same result.
    """
    gate = Gate(geometry_booking(box, plan), ledger, insecure_seed)
    known = refined_moments(gate, source, box, plan, crude_moments(gate, source, box, plan))
    shape = shape_of(known, box, plan)
    found = estimate(gate, source, box, plan, shape)
    seed = secrets.randbits(63) if insecure_seed is None else insecure_seed
    outcome = _infer(known, shape, found, _Setting(box, plan, seed))
    return FitResult(
        names=box.names,
        estimate=outcome.estimate,
        error=outcome.law,
        hessian=outcome.hessian,
        score_cov=outcome.score_cov,
        model=_model(plan, source.n),
        privacy=_privacy(plan, box.unit, gate.release_id, insecure_seed is not None),
        status=outcome.status,
        geometry=outcome.geometry,
    )


def geometry_booking(box: Box, plan: GeometryPlan) -> Entry:
    """What a fit books, from public facts."""
    return Entry(box.purpose, box.unit, plan.events(), plan.neighbours_in_words, schema=box.schema)


@dataclass(frozen=True)
class _Setting:
    box: Box
    plan: GeometryPlan
    seed: int


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Everything of the result that comes from the releases."""

    estimate: Array
    law: MixtureLaw
    hessian: Array
    score_cov: Array
    status: tuple[str, ...]
    geometry: Geometry


def _infer(known: Known, shape: Shape, found: Estimate, setting: _Setting) -> _Outcome:
    """Which coefficients are reported, in original units and at the released centre, and the law of their error."""
    box, plan, kept = setting.box, setting.plan, shape.kept
    centre = centre_of(known.moments.matrix, box.columns)
    forward = _to_centre(centre[kept]) @ shape.preconditioner.T
    back = np.asarray(np.linalg.inv(forward), dtype=np.float64)
    coef, matrices = forward @ found.coef, matrices_of(found, shape, plan.scales())
    strong, law = kept[:0], no_law(setting.seed)
    if matrices is not None and known.two_classes:
        fitted = _fitted(found, shape, matrices, setting, (coef.copy(), back, centre[kept]))
        inner = reportable(fitted)
        found_law = law_of(fitted, inner, plan.components, plan.draws, setting.seed)
        coef[inner] += found_law.step()
        clear = np.ones(len(inner), dtype=bool)
        clear[0] = intercept_reportable(fitted, inner)
        strong, law = kept[inner[clear]], found_law.mapped(np.eye(len(inner))[clear])
    status = _status(len(box.names), kept, strong)
    whole = np.zeros(len(box.names))
    whole[kept] = coef
    reading = _full_model_reading(known, box.columns, (kept, strong), whole, law)
    in_units = whole / box.half
    outward = back * box.half[kept]  # from reported coordinates to u
    return _Outcome(
        estimate=in_units,
        law=law.mapped(np.diag(1 / box.half[strong])),
        hessian=_padded(outward.T @ found.hessian @ outward / shape.n, kept, len(status)),
        score_cov=_padded(outward.T @ found.score_cov @ outward / shape.n, kept, len(status)),
        status=status,
        geometry=_geometry(setting, shape, centre, (status, reading)),
    )


def _to_centre(centre: Array) -> Array:
    """From coefficients of (1, x~) to those whose intercept is the linear predictor at the centre."""
    matrix = np.eye(len(centre))
    matrix[0] = centre
    return matrix


def _fitted(
    found: Estimate, shape: Shape, matrices: Matrices, setting: _Setting, at_centre: tuple[Array, Array, Array]
) -> Fitted:
    scales, columns = setting.plan.scales(), setting.box.columns.take(shape.kept)
    coef, back, centre = at_centre
    return Fitted(
        hessian=matrices.hessian,
        released=found.hessian,
        score_cov=matrices.score_cov,
        coef=coef,
        gradient=scales.ridge * (found.coef - shape.centre),
        gradient_noise=scales.gradient,
        hessian_noise=scales.hessian,
        left=matrices.left,
        back=back,
        spread=deviations(shape.moments),
        ends=two_values(shape.moments, columns) - centre[:, None],
        dummy=columns.dummy,
    )


def _status(d: int, kept: Indices, strong: Indices) -> tuple[str, ...]:
    words = np.full(d, DROPPED, dtype=object)
    words[kept] = OFFSET if len(strong) else UNIDENTIFIED
    words[0] = FEW_EVENTS if len(strong) else UNIDENTIFIED
    words[strong] = REPORTED
    return tuple(words.tolist())


def _full_model_reading(
    known: Known, columns: Columns, sets: tuple[Indices, Indices], coef: Array, law: MixtureLaw
) -> tuple[bool, ...]:
    """Whether plausible effects of what is set aside would move a reported coefficient by a standard error or less.

    Through correlation, for every column set aside: half a standard deviation of the linear predictor for a number, 1
    for a dummy.  And by attenuation, for those left out of the fit: a logistic coefficient shrinks when a column is
    left out, correlated or not, by about 1/sqrt(1 + .35 v), v the variance of its effect; a number is given v = 1.
    """
    kept, strong = sets
    reading = np.zeros(len(columns), dtype=bool)
    aside = np.setdiff1d(np.arange(1, len(columns)), strong)
    std_error = np.sqrt(np.diag(law.covariance()))
    M = known.moments.matrix / known.moments.n
    cov = M - np.outer(M[0], M[0])
    variance = np.maximum(np.diag(cov), 1e-4)
    slopes = strong[strong > 0]
    plausible = np.where(columns.dummy, 1.0, 0.5 / np.sqrt(variance))[aside]
    pull = np.linalg.solve(raised(cov[np.ix_(slopes, slopes)], 1e-4), cov[np.ix_(slopes, aside)]) * plausible
    dropped = np.setdiff1d(aside, kept)
    hidden = np.where(columns.dummy, variance, 1.0)[dropped].sum()
    shrunk = np.abs(coef[strong]) * (1 - 1 / np.sqrt(1 + 0.35 * hidden))
    reading[strong] = shrunk <= std_error
    reading[slopes] &= np.sqrt((pull**2).sum(axis=1)) <= std_error[strong > 0]
    return tuple(reading.tolist())


def _padded(matrix: Array, kept: Indices, d: int) -> Array:
    """A matrix of the kept columns among all, NaN elsewhere."""
    whole = np.full((d, d), np.nan)
    whole[np.ix_(kept, kept)] = (matrix + matrix.T) / 2
    return whole


def _geometry(
    setting: _Setting, shape: Shape, centre: Array, words: tuple[tuple[str, ...], tuple[bool, ...]]
) -> Geometry:
    box, kept, (status, reading) = setting.box, shape.kept, words
    to_box = np.diag(1 / box.half[kept])
    to_box[:, 0] -= box.middle[kept] / box.half[kept]  # (1, x) in original units to (1, x~)
    return Geometry(
        columns=tuple(box.names[j] for j in kept),
        preconditioner=shape.preconditioner @ to_box,
        centre=(box.middle + box.half * centre)[1:],
        records=shape.n,
        dropped=tuple(name for name, word in zip(box.names, status, strict=True) if word == DROPPED),
        offset=tuple(name for name, word in zip(box.names, status, strict=True) if word == OFFSET),
        full_model_reading=reading,
    )


def _model(plan: GeometryPlan, n: int) -> Model:
    return Model(
        loss=describe(Logistic()),
        penalty=0.0,
        n=n if plan.neighbours == REPLACE else None,
        target=plan.target,
        mechanism="Gaussian objective perturbation in a released geometry",
        recipe="geometry",
    )


def _privacy(plan: GeometryPlan, unit: str, release: str | None, seeded: bool) -> Privacy:
    return Privacy(
        budget=plan.promise,
        unit=unit,
        events=plan.events(),
        booked=release is not None,
        release=release,
        private=not seeded,
        neighbours=plan.neighbours_in_words,
    )
