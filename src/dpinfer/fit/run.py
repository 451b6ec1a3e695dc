"""The story of a fit: Algorithm 3 (objective perturbation) and Algorithm 5 (output perturbation)."""

import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.data.design import INTERCEPT
from dpinfer.data.source import UNSCALED, Rows, Scale, Source
from dpinfer.errors import BudgetError
from dpinfer.fit.estimate import estimate, moved_by_hessian, noise_map
from dpinfer.fit.matrices import private_matrices
from dpinfer.fit.plan import Plan, default_plan
from dpinfer.fit.target import NOT_IDENTIFIED, Aimed, aim, check_target
from dpinfer.maths.arrays import Array
from dpinfer.maths.inference import ErrorLaw, sandwich, total_covariance
from dpinfer.maths.laws import Law
from dpinfer.maths.losses import Loss, describe, kind
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.ledger import Book, Entry, Event
from dpinfer.result import FitResult
from dpinfer.statements import Model, Privacy


@dataclass(frozen=True)
class Setting:
    """The public side of a fit: what is estimated, how the budget is shared, how coefficients are named.

    ``back`` maps coefficients of the bounded rows to the units of the columns, ``outcome`` to those of the outcome.
    ``purpose`` and ``schema``, the digest of a schema, are what the ledger keeps beside the spend.
    """

    loss: Loss
    penalty: float
    plan: Plan
    names: tuple[str, ...]
    back: Array
    unit: str = "one record"
    target: str = "penalised"
    outcome: Scale = UNSCALED
    purpose: str = "fit"
    schema: str = ""

    def risk(self, n: int) -> PenalisedRisk:
        """The risk that is minimised; without noise the unpenalised target needs no penalty."""
        free = check_target(self.target) == "unpenalised" and isinstance(self.plan.estimate, NoPrivacy)
        return PenalisedRisk(self.loss, 0.0 if free else self.penalty, n)

    @property
    def mapping(self) -> Array:
        """From coefficients of the bounded rows and the scaled outcome to the units of the result, less `shift`."""
        return self.outcome.half * self.back

    @property
    def shift(self) -> Array:
        """What the centre of the outcome adds: all of it to the intercept."""
        return self.outcome.centre * np.array([float(name == INTERCEPT) for name in self.names])


def fit(source: Source, setting: Setting, ledger: Book | None, insecure_seed: int | None) -> FitResult:
    """Estimate, matrices at the estimate, law of the error.

    Guarantee [refused_before_booking]: a plan that is not valid for the risk raises before the ledger is touched.
    """
    risk = setting.risk(source.n)
    back, forward = setting.mapping, np.linalg.inv(setting.mapping)
    plan, entry = booking(setting, source.n)
    gate = Gate(entry, ledger, insecure_seed)
    coef = estimate(plan, gate, source, risk)
    matrices = private_matrices(gate, source, risk, coef.value, plan.recipe)
    aimed = aim(setting.target, risk, coef.value, matrices, plan.hessian_noise(risk, source.dim))
    error = error_law(aimed, coef.noise, plan, risk.n, insecure_seed)
    return FitResult(
        names=setting.names,
        estimate=back @ (aimed.coef if aimed.identified else coef.value) + setting.shift,
        error=error.mapped(back if aimed.identified else back[:0]),
        hessian=forward.T @ (aimed.matrices if aimed.identified else matrices).hessian @ forward,
        score_cov=forward.T @ matrices.score_cov @ forward,
        status=() if aimed.identified else (NOT_IDENTIFIED,) * len(setting.names),
        model=_model(setting, risk),
        privacy=_privacy(setting, entry.events, gate.release_id, insecure_seed is not None),
    )


def booking(setting: Setting, n: int) -> tuple[Plan, Entry]:
    """The plan as it will be spent on ``n`` records, and the entry for the ledger, from public facts alone.

    `BudgetError` if the plan is not valid for the risk.
    """
    risk = setting.risk(n)
    plan = setting.plan.calibrated(risk)
    plan.noise(risk)  # raises before anything is booked or read
    return plan, Entry(setting.purpose, setting.unit, plan.events(risk), schema=setting.schema)


def error_law(aimed: Aimed, noise: Law, plan: Plan, n: int, insecure_seed: int | None) -> ErrorLaw:
    """The law of target - estimate, on the bounded rows."""
    matrices = aimed.matrices
    sampling = sandwich(matrices.hessian, matrices.score_cov, n)
    mapping = noise_map(plan.mechanism, matrices.hessian, n, aimed.stepped)
    return ErrorLaw(
        sampling=sampling,
        noise_map=mapping,
        noise=noise,
        draws=plan.draws,
        seed=secrets.randbits(63) if insecure_seed is None else insecure_seed,
        sampled=plan.recipe == "paper",
        influence=np.asarray(np.linalg.inv(matrices.hessian), dtype=float),
        response=moved_by_hessian(plan.mechanism, sampling, total_covariance(sampling, mapping, noise)),
        hessian_noise=float(matrices.hessian_noise),
        score_noise=float(matrices.score_noise) / n,
        step_noise=aimed.step_noise,
    )


def infer(  # noqa: PLR0913  (the public face)
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    loss: Loss,
    penalty: float,
    budget: Budget | None = None,
    plan: Plan | None = None,
    target: str = "penalised",
    ledger: Book | None = None,
    insecure_seed: int | None = None,
) -> FitResult:
    """Fit on rows that are already bounded: norms above 1 are clipped.

    With a loss of the margin y is -1 or +1.  With a loss of the residual it is a number scaled to [-1, 1] by public
    bounds, never by the data; what lies beyond is clipped.  Give a ``budget`` (a default plan is chosen from its kind)
    or a ``plan``.  A row with a NaN, an infinity or another label counts as the zero row, because an error would reveal
    it.  ``target`` says what the intervals are about: the penalised coefficients, or the unpenalised ones, which needs
    a small penalty (t/(2nk) with k about .05, t the curvature bound of the loss) and enough budget to know the Hessian;
    where that fails the result says so.  ``insecure_seed`` is for tests: the result then says that it is not private.
    """
    source = Rows.of(X, y, kind(loss))
    names = tuple(f"x{j + 1}" for j in range(source.dim))
    setting = Setting(loss, penalty, choose_plan(budget, plan), names, np.eye(source.dim), target=target)
    return fit(source, setting, ledger, insecure_seed)


def choose_plan(budget: Budget | None, plan: object) -> Plan:
    """The plan given, or the default one for the budget given."""
    if (budget is None) == (plan is None):
        raise BudgetError("give either budget= (for example dp.PureDP(1.0) or dp.ZCDP(0.1875)) or plan=, not both")
    if plan is None:
        assert budget is not None
        return default_plan(budget)
    if not isinstance(plan, Plan):
        raise BudgetError("plan= takes a dpinfer Plan; a budget goes into budget=")
    return plan


def _model(setting: Setting, risk: PenalisedRisk) -> Model:
    loss, half = setting.loss, setting.outcome.half
    in_units = loss.rescaled(half) if hasattr(loss, "rescaled") else loss
    return Model(
        loss=describe(in_units),
        penalty=float(risk.penalty),
        n=risk.n,
        target=setting.target if risk.penalty else "unpenalised",
        mechanism=str(setting.plan.mechanism),
        recipe=setting.plan.recipe,
        of=kind(loss),
        centre=setting.outcome.centre,
        unit=float(half ** (2 - getattr(loss, "degree", 2))),
    )


def _privacy(setting: Setting, events: tuple[Event, ...], release: str | None, seeded: bool) -> Privacy:
    return Privacy(
        budget=setting.plan.budget,
        unit=setting.unit,
        events=events,
        booked=release is not None,
        release=release,
        private=not (seeded or isinstance(setting.plan.cost, NoPrivacy)),
    )
