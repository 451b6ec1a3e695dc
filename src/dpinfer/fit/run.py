"""The story of a fit: Algorithm 3 (objective perturbation) and Algorithm 5 (output perturbation)."""

import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.data.source import Rows, Source
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.estimate import estimate, moved_by_hessian, noise_map
from dpinfer.fit.matrices import Matrices, private_matrices
from dpinfer.fit.plan import Plan, default_plan
from dpinfer.maths.arrays import Array
from dpinfer.maths.inference import ErrorLaw, sandwich, total_covariance
from dpinfer.maths.laws import Law
from dpinfer.maths.losses import Loss, describe
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.ledger import Book, Entry
from dpinfer.result import FitResult, Model, Privacy


@dataclass(frozen=True)
class Setting:
    """The public side of a fit: what is estimated, how the budget is shared, how coefficients are named.

    ``back`` maps coefficients of the bounded rows to the units of the result.
    """

    loss: Loss
    penalty: float
    plan: Plan
    names: tuple[str, ...]
    back: Array
    unit: str = "one record"


def fit(source: Source, setting: Setting, ledger: Book | None, insecure_seed: int | None) -> FitResult:
    """Estimate, matrices at the estimate, law of the error.

    Guarantee [refused_before_booking]: a plan that is not valid for the risk raises before the ledger is touched.
    """
    plan, risk = setting.plan, PenalisedRisk(setting.loss, setting.penalty, source.n)
    forward = np.linalg.inv(setting.back)
    plan.noise(risk)  # raises before anything is booked or read
    gate = Gate(Entry("fit", setting.unit, plan.events()), ledger, insecure_seed)
    coef = estimate(plan, gate, source, risk)
    matrices = private_matrices(gate, source, risk, coef.value, plan.recipe)
    error = error_law(matrices, coef.noise, plan, risk.n, insecure_seed)
    return FitResult(
        names=setting.names,
        estimate=setting.back @ coef.value,
        error=error.mapped(setting.back),
        hessian=forward.T @ matrices.hessian @ forward,
        score_cov=forward.T @ matrices.score_cov @ forward,
        model=_model(setting, risk),
        privacy=_privacy(setting, ledger is not None, insecure_seed is not None),
    )


def error_law(matrices: Matrices, noise: Law, plan: Plan, n: int, insecure_seed: int | None) -> ErrorLaw:
    """The law of target - estimate, on the bounded rows."""
    sampling = sandwich(matrices.hessian, matrices.score_cov, n)
    mapping = noise_map(plan.mechanism, matrices.hessian, n)
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
    """Fit on rows that are already bounded: norms above 1 are clipped, y is -1 or +1.

    Give a ``budget`` (a default plan is chosen from its kind) or a ``plan``.  A row with a NaN, an infinity or
    another label counts as the zero row, because an error would reveal it.  ``insecure_seed`` is for tests: the
    result then says that it is not private.
    """
    source = Rows.of(X, y)
    names = tuple(f"x{j + 1}" for j in range(source.dim))
    setting = Setting(loss, penalty, choose_plan(budget, plan), names, np.eye(source.dim))
    check_target(target, setting)
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


def check_target(target: str, setting: Setting) -> None:
    """The penalised coefficients, or the unpenalised ones where they are the same."""
    if target not in ("penalised", "unpenalised"):
        raise InputError(f"target must be 'penalised' or 'unpenalised', not {target!r}")
    if target == "unpenalised" and setting.penalty != 0:
        raise InputError("the paper's recipe estimates the penalised coefficients: use target='penalised'")


def _model(setting: Setting, risk: PenalisedRisk) -> Model:
    return Model(
        loss=describe(setting.loss),
        penalty=float(setting.penalty),
        n=risk.n,
        target="penalised" if setting.penalty else "unpenalised",
        mechanism=str(setting.plan.mechanism),
        recipe=setting.plan.recipe,
    )


def _privacy(setting: Setting, booked: bool, seeded: bool) -> Privacy:
    return Privacy(
        budget=setting.plan.budget,
        unit=setting.unit,
        events=setting.plan.events(),
        booked=booked,
        private=not (seeded or isinstance(setting.plan.cost, NoPrivacy)),
    )
