"""Results in which some coefficients are not reported, written down by hand: what a fit in a
geometry releases, without a fit.

``left`` and ``right`` cannot be told apart, but their sum is known; ``health[poor]`` has too few
events; ``income`` rests on records far out.  All other lines are reported.
"""

import numpy as np

import dpinfer as dp
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.inference.error_laws import BiasedNormal
from dpinfer.inference.joint import Joint
from dpinfer.privacy.release import NoisySum
from dpinfer.result import statements
from dpinfer.result.estimates import Alternatives
from dpinfer.result.question import Question
from dpinfer.result.statements import REPORTED, Band, Geometry, Model, Privacy
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse

SCHEMA = dp.Schema.parse(
    """
unit = "one person"
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
[columns.spent]
type = "number"
low = 0
high = 500
[columns.age]
type = "number"
low = 0
high = 100
[columns.left]
type = "number"
low = 0
high = 3
[columns.right]
type = "number"
low = 0
high = 3
[columns.health]
type = "category"
levels = ["good", "fair", "poor"]
[columns.income]
type = "number"
low = 0
high = 150
"""
)
NAMES = ("(Intercept)", "age", "left", "right", "health[fair]", "health[poor]", "income")
STATUS = (
    REPORTED,
    REPORTED,
    statements.NOT_SEPARABLE.format(other="right"),
    statements.NOT_SEPARABLE.format(other="left"),
    REPORTED,
    statements.TOO_FEW_EVENTS,
    statements.FAR_RECORDS.format(low=5, high=80),
)
CENTRE = np.array([50.0, 1.0, 1.0, 0.3, 0.2, 30.0])
DRAWS = 1000
SEED = 7


def curvature():
    """Of the rows of the law below, in the order of NAMES."""
    found = np.diag([400.0, 900.0, 100.0, 100.0, 60.0, 20.0, 50.0])
    found[2, 3] = 99.9
    found[3, 2] = 99.9
    found[0, 4] = 20.0
    found[4, 0] = 20.0
    return found


def joint():
    d = len(NAMES)
    level = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    prior = np.array([100.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    sampling = np.linalg.inv(curvature() + np.diag(prior**-2.0))
    nothing = np.zeros(d)
    return Joint(
        estimate=np.array([-0.5, 0.3, 0.25, 0.15, 0.4, 0.9, 0.02]),
        prior_mean=nothing,
        covariance=1.25 * sampling,
        sampling=sampling,
        sizes=np.ones(d),
        prior_sd=prior,
        basis=np.eye(d),
        hessian=curvature(),
        hessian_sd=np.full((d, d), 0.5),
        own=nothing,
        curvature_correction=np.full(d, 0.001),
        bias_bound=nothing,
        few=0.05 * level + np.array([0, 0, 0, 0, 0, 0.95, 0]),
        toward=level,
        reference_few=0.05 * level,
        reference_toward=-level,
        group=level - 1,
        withheld=np.array([0.0, 0, 0, 0, 0, 0, 1]),
        centre=nothing,
        contrasts=np.eye(d),
    )


def alternatives():
    variance = np.diag([0.0004, 0.04])
    law = BiasedNormal(0.75 * variance, 0.25 * variance, np.zeros(2), np.full(2, 0.01), DRAWS, SEED)
    names = ("health[poor], against fair", "income, within 5 to 80")
    return Alternatives(names, ("health[poor]", "income"), np.array([0.5, 0.03]), law)


def geometry(kind="logit"):
    d = len(NAMES)
    return Geometry(
        columns=NAMES,
        family=kind,
        preconditioner=np.eye(d) / 20,
        pilot_coef=np.zeros(d),
        max_influence=2.0 if kind == "logit" else np.inf,
        centre=CENTRE,
        records=5000.0,
        low=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 5.0]),
        high=np.array([100.0, 3.0, 3.0, 1.0, 1.0, 80.0]),
        clipped=("income",),
    )


def kept(law, places):
    """The law of some of the coefficients."""
    d = len(places)
    parts = (
        "estimate",
        "prior_mean",
        "sizes",
        "prior_sd",
        "own",
        "curvature_correction",
        "bias_bound",
        "few",
        "toward",
        "reference_few",
        "reference_toward",
    )
    some = {name: getattr(law, name)[places] for name in (*parts, "group", "withheld", "centre")}
    square = {
        name: getattr(law, name)[np.ix_(places, places)]
        for name in ("covariance", "sampling", "hessian")
    }
    return Joint(
        **some, **square, basis=np.eye(d), contrasts=np.eye(d), hessian_sd=law.hessian_sd[:d, :d]
    )


def recipe(*, squares=False, target="ordinary"):
    """The recipe whose words a result has."""
    design = Design.of_terms([])
    if squares:
        return LinearSteps(design, dp.LinearPlan(dp.ZCDP(0.1), target))
    return LogisticSteps(design, dp.GeometryPlan(dp.ZCDP(0.1), target))


def partly_reported(*, income=True, squares=False, private=True):
    """A result with coefficients not reported; without ``income`` none of them because of records far out."""
    names = NAMES if income else NAMES[:-1]
    d = len(names)
    law = kept(joint(), np.arange(d))
    status = STATUS[:d]
    reported = np.array([word == REPORTED for word in status])
    answers = law.about(np.eye(d)[reported], DRAWS, SEED)
    assert answers.known.all()
    estimate = law.estimate.copy()
    estimate[reported] = answers.estimate
    full = geometry("identity" if squares else "logit")
    released = Geometry(
        columns=names, family=full.family, preconditioner=full.preconditioner[:d, :d],
        pilot_coef=full.pilot_coef[:d], max_influence=full.max_influence, centre=full.centre[: d - 1],
        records=full.records, low=full.low[: d - 1], high=full.high[: d - 1], clipped=full.clipped if income else (),
    )  # fmt: skip
    outcome = "spent" if squares else "visit"
    formula = f"{outcome} ~ {' + '.join(['age', 'left', 'right', 'health', 'income'][: 5 if income else 4])}"
    loss = "squared error" if squares else "Logistic()"
    return dp.FitResult(
        names,
        estimate,
        answers.law,
        np.eye(d),
        np.eye(d),
        Model(
            loss,
            0.0,
            5000,
            "ordinary",
            "noisy steps",
            "steps",
            of="residual" if squares else "margin",
            words=recipe(squares=squares).words(5000),
        ),
        Privacy(
            dp.ZCDP(0.1),
            "one person",
            (NoisySum("frame", dp.ZCDP(0.1), 1.0),),
            in_ledger=False,
            private=private,
        ),
        status,
        released,
        Band(np.zeros(d), 1.0, 30.0, 0.0, 0.0, 500.0, 0.0) if squares else None,
        Question.of_formula(formula, *parse(formula, SCHEMA)),
        alternatives() if income else None,
        law,
    )
