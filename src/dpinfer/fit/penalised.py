"""A penalised fit: Algorithm 3 (objective perturbation) and Algorithm 5 (output perturbation).

1. estimate    the minimum of a perturbed risk, or the minimum with noise -> θ~
2. matrices    Hessian and score covariance at θ~, each with noise        -> H~, Σ~
3. target      the penalised coefficients, or one step back along H~      -> θ*
4. error law   nothing more is released                                   -> the law of target - estimate

The paper releases each matrix with Algorithm 2.  The tight recipe releases both in one stacked
vector, noises only what depends on data, and floors the Hessian at 2c and the covariance at 0.

The unpenalised coefficients are one step back along the Hessian,

    θ* = θ~ + 2c H_f⁻¹ θ~,      H_f = H~ - 2c I,

with the covariance of θ~ formed with H_f.  The noise E of H~ moves the step by -H_f⁻¹ E step, which
is counted too.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.penalised_plan import (
    Mechanism,
    ObjectivePerturbation,
    Plan,
    default_penalty,
    default_plan,
    hessian_noise,
)
from dpinfer.fit.recipe import NoLoss, Options, fit, half_widths, privacy
from dpinfer.fit.step_plan import StepPlan
from dpinfer.inference.error_laws import ErrorLaw, sandwich, total_covariance
from dpinfer.mechanisms.losses import (
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    SmoothedQuantile,
    describe,
    kind,
)
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.noise_laws import NO_NOISE, Gaussian, Law
from dpinfer.numerics.reasons import Numerical
from dpinfer.privacy.budget import Budget, NoPrivacy, PureDP
from dpinfer.privacy.gate import Gate, Released
from dpinfer.privacy.release import NoisyMinimum, NoisySum, Release, ScaledSum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import (
    ADD_DELTA,
    NOT_IDENTIFIED,
    SHRINKS,
    Model,
    Words,
    unasked,
)
from dpinfer.rows.encoded import cached
from dpinfer.rows.source import Rows, Source
from dpinfer.schema.design import Design

PENALISED, UNPENALISED = "penalised", "unpenalised"
_SINGULAR: Numerical[float] = 1e-12  # an eigenvalue of the Hessian below it is none


@dataclass(frozen=True)
class Matrices:
    """H~ and Σ~, one pair or a stack, and the deviation of the noise on their diagonals where it is
    counted.
    """

    hessian: Array
    score_cov: Array
    hessian_noise: float | Array = 0.0
    score_noise: float | Array = 0.0


def private_matrices(
    gate: Gate, releases: Sequence[Release], source: Source, risk: Risk, coef: Array
) -> Matrices:
    """H~ and Σ~ at ``coef``: (1/n) sum f'' x xᵀ + 2c I and (1/n) sum f'² x xᵀ - 4c² θ~θ~ᵀ, each
    with noise.

    One release is the stacked vector of the tight recipe, two are the matrices of the paper.
    """
    if len(releases) == 1:
        stacked = gate.release(releases[0], source, risk.stacked_sum(coef))
        return tight(risk, coef, stacked.value, stacked.noise)
    curvature = gate.release(releases[0], source, risk.curvature_sum(coef))
    score = gate.release(releases[1], source, risk.score_sum(coef))
    return paper(risk, coef, curvature.value, score.value, noisy=curvature.noise != NO_NOISE)


def paper(risk: Risk, coef: Array, curvature: Array, score: Array, *, noisy: bool) -> Matrices:
    """Means, known terms, then lines 9-14 of Algorithm 2: the symmetric part, eigenvalues raised to
    2c.

    Works on one fit or on a stack of them.  The floor repairs noise, so without noise there is
    none.
    """
    hessian, score_cov = _known_terms(risk, coef, curvature, score)
    floor = 2 * risk.penalty if noisy else None
    return Matrices(priv_spd_mat(hessian, floor), priv_spd_mat(score_cov, floor))


def tight(
    risk: Risk, coef: Array, stacked: Array, noise: Law, bound: float | Array = 1.0
) -> Matrices:
    """The two matrices from a noisy stacked vector; its noise is ``bound`` times ``noise``, in
    every entry.

    Gaussian noise is counted in the intervals, by an expansion for small noise.  Laplace noise is
    not small, and what it does to the inverse already widens them: counting it too would
    over-cover.
    """
    hessian, score_cov = _known_terms(risk, coef, *risk.unstack(stacked, coef.shape[-1]))
    if noise == NO_NOISE:
        return Matrices(priv_spd_mat(hessian, None), priv_spd_mat(score_cov, None))
    entry = bound * noise.scale / risk.n if isinstance(noise, Gaussian) else 0.0
    return Matrices(
        hessian=priv_spd_mat(hessian, 2 * risk.penalty),
        score_cov=priv_spd_mat(score_cov, 0.0),
        hessian_noise=entry / risk.stack_weight,
        score_noise=entry,
    )


def _known_terms(risk: Risk, coef: Array, curvature: Array, score: Array) -> tuple[Array, Array]:
    """The means, with what the penalty adds; a covariance over units has the factor n/(n - 1)."""
    c = risk.penalty
    hessian = curvature / risk.n + 2 * c * np.eye(coef.shape[-1])
    clusters = risk.n / max(risk.n - 1, 1) if risk.neighbours.units else 1.0
    return hessian, clusters * (score / risk.n - 4 * c**2 * coef[..., :, None] * coef[..., None, :])


def priv_spd_mat(matrix: Array, floor: float | None) -> Array:
    """Symmetric part, eigenvalues raised to the floor."""
    matrix = (matrix + matrix.mT) / 2
    if floor is None:
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, floor))[..., None, :]
    return np.asarray(root @ root.mT)


@dataclass(frozen=True)
class Aimed:
    """Coefficients and matrices of the target, for one fit or a stack; NaN where the target is not
    identified.

    ``stepped`` is 2c if the step was taken, else 0; ``step_noise`` the covariance that the noise of
    the Hessian adds through it.
    """

    coef: Array
    matrices: Matrices
    identified: npt.NDArray[np.bool_]
    stepped: float = 0.0
    step_noise: Array | None = None


def aim(target: str, risk: Risk, coef: Array, matrices: Matrices, entry_noise: float) -> Aimed:
    """The target from the released coefficients and matrices.

    ``entry_noise`` is the deviation s of the noise on the diagonal of H~.  Its largest eigenvalue
    is about s sqrt(2d); the step is taken where the smallest eigenvalue of H_f is more than twice
    that.
    """
    d = coef.shape[-1]
    two_c = 2 * risk.penalty
    if target == PENALISED or two_c == 0:
        return Aimed(coef, matrices, np.ones(coef.shape[:-1], dtype=bool))
    free = matrices.hessian - two_c * np.eye(d)
    smallest = np.linalg.eigvalsh(np.nan_to_num(free))[..., 0]
    identified = np.asarray(smallest > max(2 * entry_noise * np.sqrt(2 * d), _SINGULAR))
    free = np.where(identified[..., None, None], free, np.nan)
    inverse = np.linalg.inv(free)
    step = two_c * (inverse @ coef[..., None])[..., 0]
    through = (inverse @ step[..., None])[..., 0]
    length2 = (step**2).sum(axis=-1)[..., None, None]
    spread = length2 * inverse @ inverse + through[..., :, None] * through[..., None, :]
    noise = entry_noise**2 / 2 * spread
    return Aimed(coef + step, replace(matrices, hessian=free), identified, two_c, noise)


def error_law(
    aimed: Aimed, released: Released, plan: Plan, n: int, insecure_seed: int | None
) -> ErrorLaw:
    """The law of target - estimate, on the bounded rows."""
    matrices = aimed.matrices
    noise = released.noise
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
        response=moved_by_hessian(
            plan.mechanism, sampling, total_covariance(sampling, mapping, noise)
        ),
        hessian_noise=float(matrices.hessian_noise),
        score_noise=float(matrices.score_noise) / n,
        step_noise=_further(aimed, released.mask),
    )


def _further(aimed: Aimed, mask: float) -> Array | None:
    """Return the covariance that the noise of the Hessian adds through the step, plus the mask of the
    minimum.
    """
    if not mask:
        return aimed.step_noise
    masked = mask**2 * np.eye(aimed.coef.shape[-1])
    if aimed.step_noise is None:
        return masked
    return aimed.step_noise + masked


def noise_map(mechanism: Mechanism, hessian: Array, n: float, stepped: float = 0.0) -> Array:
    """Return the map of the noise to target - estimate: H⁻¹b/n for Algorithm 1 (in 3), -b for 4 (in 5);
    stacks too.

    ``stepped`` is the 2c of a step 2c H⁻¹θ~ back to the unpenalised target, which the noise of
    Algorithm 4 goes along.
    """
    if isinstance(mechanism, ObjectivePerturbation):
        return np.asarray(np.linalg.inv(hessian) / n, dtype=float)
    stay = np.broadcast_to(-np.eye(hessian.shape[-1]), hessian.shape)
    if not stepped:
        return stay
    return stay - stepped * np.linalg.inv(hessian)


def moved_by_hessian(mechanism: Mechanism, sampling: Array, total: Array) -> Array:
    """The part of the covariance that changes with H: all of it, but for the output noise, which is
    added after.
    """
    if isinstance(mechanism, ObjectivePerturbation):
        return total
    return sampling


@dataclass(frozen=True)
class Penalised:
    """Estimate, matrices at the estimate, law of the error: the recipes "paper" and "tight".

    Without a ``penalty`` one is chosen that is valid for the plan.  ``target`` is "penalised" or
    "unpenalised".  ``because`` is what to say of a penalty that nobody asked for.
    """

    TARGETS: ClassVar[tuple[str, ...]] = (PENALISED, UNPENALISED)
    OFFER: ClassVar[str] = ""  # that of logistic regression says it

    design: Design
    loss: Loss
    plan: Plan
    target: str = PENALISED
    penalty: float | None = None
    because: str = ""

    @classmethod
    def of(cls, design: Design, options: Options) -> Self | None:
        """Every loss, with a budget or a plan."""
        target = PENALISED if options.target is None else options.target
        if isinstance(options.loss, NoLoss) or target not in cls.TARGETS:
            return None
        if isinstance(options.plan, StepPlan) and not isinstance(options.loss, Logistic):
            return None
        if options.neighbours in (Adjacency.ADD_REMOVE, Adjacency.ADD_REMOVE_UNIT):
            raise InputError(
                "the neighbours add-remove keep the number of records private, and the target "
                f"{target!r} needs it: use logistic regression with a delta or rho, target 'ordinary', "
                "least squares, or the neighbours replace"
            )
        plan = _plan(options.budget, options.plan)
        because = _because(design, options)
        if options.far_values is not None:
            raise InputError(
                f"far_values is for the target 'ordinary', not for {target!r}: leave it out"
            )
        return cls(design, options.loss, plan, target, options.penalty, because)

    @property
    def neighbours(self) -> Adjacency:
        """One record replaced, or one unit."""
        return Adjacency.of(Adjacency.REPLACE, units=self.design.unit.many)

    @property
    def budget(self) -> Budget:
        """Return the cost of the plan."""
        return self.plan.budget

    def risk(self, n: int) -> Risk:
        """The risk that is minimised; without noise the unpenalised target needs no penalty."""
        records = self.design.unit.largest
        if self.target == UNPENALISED and isinstance(self.plan.estimate, NoPrivacy):
            return Risk.penalised(self.loss, 0.0, n, self.neighbours, records)
        penalty = self.penalty
        if penalty is None:
            units = self.neighbours.units
            penalty = default_penalty(
                self.plan,
                self.loss,
                n,
                len(self.design.names),
                self.target,
                units=units,
                records=records,
            )
        return Risk.penalised(self.loss, penalty, n, self.neighbours, records)

    def releases(self, n: int) -> tuple[Release, ...]:
        """The coefficients, then the matrices at them."""
        risk = self.risk(n)
        first, *others = self.plan.calibrated(risk).releases(risk)
        private = isinstance(first, NoisyMinimum) and not isinstance(first.share, NoPrivacy)
        if private and not risk.accurate(len(self.design.names)):
            raise BudgetError(
                "output perturbation is not proved for so curved a loss or so many records: floats do not find the "
                "minimum closely enough; use objective perturbation, or a smoother loss"
            )
        return first, *others

    def advice(self, n: int) -> str:  # noqa: ARG002  (a penalised fit reports every coefficient)
        """Return a note that the penalty changes the estimand, where nobody asked for one."""
        return self.because

    def futility(self, n: int, share: float | None = None) -> str:  # noqa: ARG002
        """Return nothing: a penalised fit reports every coefficient."""
        return ""

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Estimate, matrices at the estimate, law of the error."""
        rows = cached(source)
        risk = self.risk(rows.n)
        first, *others = gate.entry.events
        assert isinstance(others[0], NoisySum | ScaledSum)
        coef = gate.release(first, rows, risk)
        matrices = private_matrices(gate, others, rows, risk, coef.value)
        entry_noise = hessian_noise(self.plan.recipe, others[0], risk, rows.dim)
        aimed = aim(self.target, risk, coef.value, matrices, entry_noise)
        law = error_law(aimed, coef, self.plan, rows.n, gate.seed)
        return self._result(gate, risk, coef.value, matrices, aimed, law)

    def _result(
        self,
        gate: Gate,
        risk: Risk,
        released: Array,
        matrices: Matrices,
        aimed: Aimed,
        law: ErrorLaw,
    ) -> FitResult:
        """The result in original units; where the target is not identified, of the penalised
        coefficients without a law.
        """
        back = self.design.mapping
        forward = np.linalg.inv(back)
        coef = aimed.coef
        hessian = aimed.matrices.hessian
        printed = back
        status: tuple[str, ...] = ()
        if not aimed.identified:
            coef = released
            hessian = matrices.hessian
            printed = back[:0]
            status = (NOT_IDENTIFIED,) * len(self.design.names)
        return FitResult(
            names=self.design.names,
            estimate=back @ coef + self.design.shift,
            error=law.mapped(printed),
            hessian=forward.T @ hessian @ forward,
            score_cov=forward.T @ matrices.score_cov @ forward,
            status=status,
            model=self._model(risk),
            privacy=privacy(gate, self.plan.budget),
        )

    def _model(self, risk: Risk) -> Model:
        outcome = self.design.outcome
        return Model(
            loss=describe(self._in_units),
            penalty=risk.penalty,
            n=int(risk.n),
            target=self._stated_target(risk),
            mechanism=str(self.plan.mechanism),
            unit=self.design.unit,
            recipe=self.plan.recipe,
            of=kind(self.loss),
            centre=outcome.centre,
            penalty_scale=self._penalty_scale,
            words=self._words(risk),
        )

    def _stated_target(self, risk: Risk) -> str:
        """Without a penalty both targets are one."""
        return self.target if risk.penalty else UNPENALISED

    @property
    def _in_units(self) -> Loss:
        """The loss in units of the outcome, where it has any."""
        if hasattr(self.loss, "rescaled"):
            rescaled: Loss = self.loss.rescaled(self.design.outcome.half)
            return rescaled
        return self.loss

    @property
    def _penalty_scale(self) -> float:
        """Return the divisor of the penalty where the objective is in units of the outcome."""
        return float(self.design.outcome.half ** (2 - getattr(self.loss, "degree", 2)))

    def words(self, n: int | None) -> Words:
        """Return name, estimand and method for reports: the minimiser of the population risk with its
        penalty.
        """
        assert n is not None
        return self._words(self.risk(n))

    def _words(self, risk: Risk) -> Words:
        target = self._stated_target(risk)
        name, loss = in_words(self._in_units)
        method = (
            "Wang, Kifer and Lee, Differentially Private Confidence Intervals for Empirical Risk Minimization, "
            "Journal of Privacy and Confidentiality 9(1), 2019"
        )
        more = f", with the recipe “{self.plan.recipe}” of dpinfer."
        if self.plan.recipe == "paper":
            more = "."
        about = self._about(risk, f"{name} in the population", loss, target)
        return Words(f"{name}, {target}", about, method + more)

    def _about(self, risk: Risk, name: str, loss: str, target: str) -> str:
        """The minimiser of the population risk, penalised or not."""
        margin = kind(self.loss) == "margin"
        argument = "y θ·x" if margin else "y - θ·x"
        what = f"E[f({argument})]"
        where = f"Here f is {loss}, and x the row scaled by its public bounds"
        if self.design.outcome.centre:
            where += f". y is the outcome less {self.design.outcome.centre:.6g}"
        if not self.design.unit.equal_weights:
            where += ". E is the mean over units of what their rows add"
        if target == UNPENALISED:
            return f"the coefficients of {name}. They are the θ that minimises {what}. {where}"
        size = "c‖θ‖²"
        if self._penalty_scale != 1:
            size += f"/{self._penalty_scale:.6g}"
        if not self.design.unit.equal_weights:
            where += ", so that c weighs the more the less a row counts"
        about = (
            f"the penalised coefficients of {name}. They are the θ that minimises {what} plus {size}, "
            f"c = {risk.penalty:.6g}. {where}. The penalty {SHRINKS}. So these are not the unpenalised "
            "coefficients"
        )
        if margin:
            return about
        return f"{about}. For the coefficients of ordinary least squares use the model linear (LinearRegression)"

    def describe(self, n: int) -> str:
        """The setting of a study of ``n`` records, in words."""
        model = f"{describe(self.loss)}, {self.target} target, penalty {self.risk(n).penalty:.6g}"
        return f"{model}, {self.plan.mechanism}, recipe {self.plan.recipe}, {self.budget}"

    def estimand(self, population: Rows) -> Array:
        """The minimiser on the population.  NOT PRIVATE."""
        risk = self.risk(population.n)
        if self.target == UNPENALISED:
            risk = replace(risk, ridge=0.0)
        coef = minimum(risk, population.total, np.zeros(population.dim)).coef
        return np.asarray(self.design.mapping @ coef + self.design.shift)

    def noiseless(self, n: int) -> Self:
        """The same fit of ``n`` records without noise, with the same penalty.  NOT PRIVATE."""
        return replace(self, plan=default_plan(NoPrivacy()), penalty=self.risk(n).penalty)

    def nonprivate(self, rows: Rows, source: Source, level: float) -> Array:  # noqa: ARG002
        """Half-widths of the same fit without noise.  NOT PRIVATE."""
        return half_widths(fit(self.noiseless(source.n), source, insecure_seed=0), level)


def in_words(loss: Loss) -> tuple[str, str]:
    """A regression in the words of the field, by its loss, and the loss f(z) itself."""
    if type(loss) is Logistic:
        return "logistic regression", "the logistic loss log(1 + exp(-z))"
    if type(loss) is HuberHinge:
        rounded = f"rounded within {loss.knee:g} of its corner"
        return f"support vector machine, hinge {rounded}", f"the hinge max(0, 1 - z), {rounded}"
    if type(loss) is Huber:
        knee = f"knee {loss.knee:g}"
        return f"Huber regression, {knee}", f"the Huber loss, {knee}"
    if type(loss) is SmoothedQuantile:
        smooth = f"smoothed over {loss.bandwidth:g}"
        return (
            f"quantile regression at {loss.tau:g}, {smooth}",
            f"the check loss of {loss.tau:g}, {smooth}",
        )
    return f"regression with the loss {describe(loss)}", f"the loss {describe(loss)}"


def _plan(budget: Budget | None, plan: Any) -> Plan:
    """The plan given, or the default one for the budget given."""
    if (budget is None) == (plan is None):
        raise BudgetError(
            "give either budget= (for example dp.ApproxDP(1.0, 1e-6) or dp.ZCDP(0.1875)) or plan=, "
            "not both"
        )
    if plan is None:
        assert budget is not None
        return default_plan(budget)
    if not isinstance(plan, Plan):
        raise BudgetError("plan= takes a dpinfer Plan; a budget goes into budget=")
    return plan


def _because(design: Design, options: Options) -> str:
    """Return the note on a penalty that nobody asked for: why it is there, and how to avoid it."""
    asked = (options.target, options.plan, options.penalty) != (None, None, None)
    if asked or not isinstance(options.loss, Logistic):
        return ""
    if not design.intercept:
        return unasked("an intercept", "keep the intercept: drop the -1 or 0 from the formula")
    if isinstance(options.budget, PureDP):
        return unasked("a delta", ADD_DELTA)
    return ""
