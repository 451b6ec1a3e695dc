"""Attacks on this installation: what an adversary who knows all other records tries, in seconds.

Each attack goes through the door that every fit goes through, with the operating system's bits.
What is found is a fault; that nothing is found proves nothing: the proofs are in docs/method.md,
their assumptions in SECURITY.md.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binomtest, chisquare

from dpinfer.adjacency import Adjacency
from dpinfer.fit.choose import infer
from dpinfer.fit.penalised_plan import ObjectivePerturbation, Plan
from dpinfer.fit.recipe import fit
from dpinfer.mechanisms.losses import HuberHinge
from dpinfer.mechanisms.sums import SLACK, BoundedSum, moment_and_score
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.noise_laws import Gaussian
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP
from dpinfer.privacy.release import NoisySum, grid
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design

_CELLS = 2.0**52  # of the uniform numbers that float noise is made of
_RARE = 1e-6  # how often a sound installation fails a check
_ACCURATE = 2.0**-37  # what the sampler takes ndtri and log to be off by at most
_LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)  # of false alarms, among which a threshold is chosen


@dataclass(frozen=True)
class Finding:
    """What was tried, and what came of it, in words and numbers."""

    name: str
    tried: str
    is_fault: bool
    message: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All findings of one audit."""

    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(finding.is_fault for finding in self.findings)


def run(seconds: float = 20.0, progress: Callable[[str], None] | None = None) -> Report:
    """Run every check, in about this many seconds; ``progress`` is called with the name of the
    next.
    """
    findings = []
    for name, check in CHECKS.items():
        if progress is not None:
            progress(name)
        findings.append(check(seconds / len(CHECKS)))
    return Report(tuple(findings))


def grid_evidence(noise: Array, scale: float, error: Array) -> float:
    """Return the log-likelihood that noise is scale · ndtri((k + 1/2)/2⁵²), known up to ``error``,
    less that of real noise.
    """
    z = np.abs(noise / scale)
    place = ndtr(-z) * _CELLS - 0.5  # from the nearer tail, where a probability keeps its digits
    cells_per_unit = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * _CELLS / scale
    blur = np.maximum(error * cells_per_unit, 0.02)
    away = place - np.rint(place)
    near = np.exp(-((away[:, None] + np.arange(-2, 3)) ** 2) / (2 * blur[:, None] ** 2)).sum(axis=1)
    density = near / (blur * np.sqrt(2 * np.pi))
    return float(np.where(blur < 0.5, np.log(0.95 * density + 0.05), 0.0).sum())


def representable(values: Array, exact: Array) -> npt.NDArray[np.bool_]:
    """Return whether some double added to ``exact`` gives each value, in double precision."""
    noise = values - exact
    candidates = (noise, np.nextafter(noise, np.inf), np.nextafter(noise, -np.inf))
    return np.asarray(np.any([exact + b == values for b in candidates], axis=0))


@dataclass(frozen=True)
class Alarms:
    """The best threshold of a statistic: Clopper-Pearson limits of its alarms, and what a budget
    allows.
    """

    true: float
    false: float
    bound: float

    @property
    def excess(self) -> float:
        """True alarms beyond what is allowed."""
        return self.true - self.bound

    @property
    def refuted(self) -> bool:
        """Whether the data sets are told apart better than the budget allows."""
        return self.excess > 0


def alarms(
    on: Array, off: Array, budget: Budget, *, level: float | None = None, sure: float = 0.005
) -> Alarms:
    """Return limits of the rates at which a statistic is above a threshold, each wrong with a
    chance of ``sure``.

    Without a threshold one is found on every other number, and the limits are those of the rest.
    """
    if level is not None:
        return _limits(on, off, level, budget, sure)
    levels = np.quantile(off[::2], _LEVELS).tolist()
    level = max(levels, key=lambda level: _limits(on[::2], off[::2], level, budget, sure).excess)
    return _limits(on[1::2], off[1::2], level, budget, sure)


def _limits(on: Array, off: Array, level: float, budget: Budget, sure: float) -> Alarms:
    """Return the limits of Clopper and Pearson (1934): a lower one of the true rate and an upper
    one of the false rate.
    """
    hits = int((on > level).sum())
    false = int((off > level).sum())
    low, high = 0.0, 1.0
    if hits > 0:
        low = float(beta.ppf(sure, hits, len(on) - hits + 1))
    if false < len(off):
        high = float(beta.ppf(1 - sure, false + 1, len(off) - false))
    return Alarms(low, high, max_true_rate(budget, high))


def max_true_rate(budget: Budget, false: float) -> float:
    """Return the largest rate of true alarms that a budget allows at a rate of false ones."""
    pairs: list[tuple[float, float]]
    if isinstance(budget, PureDP):
        pairs = [(budget.epsilon, 0.0)]
    elif isinstance(budget, ApproxDP):
        pairs = [(budget.epsilon, budget.delta)]
    else:
        assert isinstance(budget, ZCDP)
        pairs = [(e, _delta(budget.rho, e)) for e in np.linspace(0, 8, 81).tolist()]
    rates = (min(math.exp(e) * false + d, 1 - math.exp(-e) * (1 - d - false)) for e, d in pairs)
    return min(1.0, *rates)


def _delta(rho: float, epsilon: float) -> float:
    """Return δ(ε) of ρ-zCDP (Canonne, Kamath and Steinke, 2020)."""
    a = np.geomspace(1e-3, 1e4, 400)  # α - 1
    logs = a * ((a + 1) * rho - epsilon) - np.log(a) + (a + 1) * np.log1p(-1 / (a + 1))
    return float(np.exp(min(0.0, logs.min())))


@dataclass(frozen=True)
class _Single:
    """A recipe of one noisy sum, whose result is what the gate lets out."""

    planned: NoisySum
    query: BoundedSum
    budget: Budget
    design: Design
    neighbours: ClassVar[Adjacency] = Adjacency.REPLACE

    def releases(self, n: int) -> tuple[NoisySum, ...]:  # noqa: ARG002
        return (self.planned,)

    def run(self, gate: Any, source: Rows) -> Any:
        return gate.release(self.planned, source, self.query)


def released(share: PureDP | ZCDP, query: BoundedSum, source: Rows) -> Any:
    """Release one noisy sum through the gate, with the law of its noise."""
    planned = NoisySum("audit", share, query.bound)
    recipe: Any = _Single(planned, query, share, Design.of_rows(source.dim))
    return fit(recipe, source)


def _zeros(m: int) -> BoundedSum:
    return BoundedSum(lambda block: np.zeros((*block.stack, m)), 1.0)


_ONE_EMPTY_RECORD = Rows.of(np.zeros((1, 1)), [1.0])


def _on_grid(_: float) -> Finding:
    tried = "Is every released number a whole multiple of its public step?"
    query = moment_and_score(Adjacency.REPLACE)
    source = _pair()[0]
    off = 0
    size = 0
    for share in (ZCDP(0.02), PureDP(0.2)):
        values = released(share, query, source).value
        steps = values / grid(query.bound, values.size)
        off += int((steps != np.rint(steps)).sum())
        size += values.size
    words = f"{off} of {size} numbers are not" if off else f"all {size} numbers are"
    return Finding("grid", tried, off > 0, words, {"numbers": size, "off": off})


def _fresh(_: float) -> Finding:
    tried = "Do two runs of the same release differ?"
    m = 2000
    equal = 0
    for share in (ZCDP(0.1), PureDP(1.0)):
        first, second = (released(share, _zeros(m), _ONE_EMPTY_RECORD).value for _ in range(2))
        equal += int((first == second).sum())
    found = equal > m // 100
    verdict = "far too many" if found else "as chance has it"
    words = f"{equal} of {2 * m} numbers came out the same, {verdict}"
    return Finding("fresh", tried, found, words, {"equal": equal, "numbers": 2 * m})


def _law(seconds: float) -> Finding:
    tried = "Does the sampler give every whole number with its exact chance (chi-square)?"
    p_gauss, draws = _chi_square(seconds / 2, 20_000, ZCDP)
    p_laplace, singles = _chi_square(seconds / 2, 1, PureDP)
    words = f"p = {p_gauss:.3g} over {draws:,} Gaussian and {p_laplace:.3g} over {singles:,} Laplace draws"
    numbers = {"p_gaussian": p_gauss, "gaussian": draws, "p_laplace": p_laplace, "laplace": singles}
    return Finding("law", tried, min(p_gauss, p_laplace) < _RARE, words, numbers)


def _chi_square(seconds: float, m: int, kind: type[ZCDP] | type[PureDP]) -> tuple[float, int]:
    """Return the p-value and the number of draws at a noise of about three steps of the grid."""
    step = grid(1.0, m)
    edge = 9  # whole numbers beyond it are counted with it
    size = (1 + SLACK) / (3 * step)
    share = ZCDP(size**2 / 2) if kind is ZCDP else PureDP(size)
    law = NoisySum("audit", share, 1.0).law
    counts = np.zeros(2 * edge + 1)
    end = time.monotonic() + seconds
    while time.monotonic() < end or counts.sum() < 2000:
        draws = released(share, _zeros(m), _ONE_EMPTY_RECORD).value
        places = np.clip(np.rint(draws / step), -edge, edge).astype(int) + edge
        counts += np.bincount(places, minlength=len(counts))
    ends = np.asarray((np.arange(-edge, edge) + 0.5) * step, dtype=np.float64)
    below = ndtr(ends / law.scale) if isinstance(law, Gaussian) else _laplace_cdf(law.rate * ends)
    chances = np.diff(np.concatenate([[0.0], below, [1.0]]))
    return float(chisquare(counts, chances * counts.sum()).pvalue), int(counts.sum())


def _laplace_cdf(x: Array) -> Array:
    return np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def _floats(seconds: float) -> Finding:
    tried = "Are this machine's ndtri and log within 2^-37 of the real ones, as the sampler takes them to be?"
    rng = np.random.default_rng()
    end = time.monotonic() + seconds
    worst = {"ndtri": 0.0, "log": 0.0}
    count = 0
    while count == 0 or time.monotonic() < end:
        small = 2.0 ** -rng.uniform(1, 48, 100)
        anywhere = rng.uniform(0, 0.5, 100)
        seam = np.exp(-2) + rng.normal(0, 1e-9, 50)  # where ndtri changes its formula
        p = np.concatenate([small, anywhere, seam])
        p = p[(p >= 2.0**-48) & (p <= 0.5)]
        for name, error in _float_errors(p).items():
            worst[name] = max(worst[name], error)
        count += len(p)
    bits = {name: -math.log2(max(error, 2.0**-60)) for name, error in worst.items()}
    words = ", ".join(f"{name} within 2^-{bit:.1f}" for name, bit in bits.items())
    words += f" at {count:,} numbers"
    found = max(worst.values()) > _ACCURATE
    return Finding("floats", tried, found, words, {**worst, "numbers": count})


def _float_errors(p: Array) -> dict[str, float]:
    """Return the largest error of ndtri at probabilities p, and of log at 2p, by interval
    arithmetic.
    """
    from flint import arb, ctx  # noqa: PLC0415  (python-flint is slow to load)

    with ctx.workprec(160):
        root = arb(2).sqrt()
        of_ndtri = [
            float(abs((2 * arb(u)).erfcinv() * root + arb(z)).upper())
            for u, z in zip(p.tolist(), ndtri(p).tolist(), strict=True)
        ]
        of_log = [
            float(abs(arb(u).log() - arb(log)).upper())
            for u, log in zip((2 * p).tolist(), np.log(2 * p).tolist(), strict=True)
        ]
    return {"ndtri": max(of_ndtri), "log": max(of_log)}


def _pair() -> tuple[Rows, Rows]:
    """Return two neighbours: the last of 20 rows is reversed and negated."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, (20, 6))
    y = np.tile([1.0, -1.0], 10)
    other = X.copy()
    other[-1] = -other[-1][::-1]
    return Rows.of(X, y), Rows.of(other, y)


def _bits(seconds: float) -> Finding:
    tried = "Do the last bits of a noisy sum tell which of two neighbours it came from?"
    pair = _pair()
    query = moment_and_score(Adjacency.REPLACE)
    rng = np.random.default_rng()
    exact = [source.total(query.of_block) for source in pair]
    hits = 0
    float_hits = 0  # of the same attack on float noise, which it must break
    runs = 0
    end = time.monotonic() + seconds
    while runs < 100 or (runs < 10_000 and time.monotonic() < end):
        truth = runs % 2
        runs += 1
        out = released(ZCDP(0.02), query, pair[truth])
        scale = out.noise.scale
        z = ndtri((rng.integers(0, 2**52, exact[0].size) + 0.5) / _CELLS)
        hits += _guess(out.value, exact, scale) == truth
        float_hits += _guess(exact[truth] + scale * z, exact, scale) == truth
    p = float(binomtest(hits, runs).pvalue)
    weak = float_hits < 0.9 * runs
    verdict = "where half is chance" if p >= _RARE else "which is no chance"
    words = f"{hits} of {runs} guesses were right, {verdict}; of float noise {float_hits} are"
    if weak:
        words += ": the attack does not work on this machine"
    numbers = {"hits": hits, "runs": runs, "p": p, "float_hits": float_hits}
    return Finding("bits", tried, p < _RARE or weak, words, numbers)


def _guess(value: Array, exact: list[Array], scale: float) -> int:
    """Guess which sum the noise was added to, if it is of floats."""
    errors = [0.3 * (np.spacing(np.abs(value)) + np.spacing(np.abs(value - e))) for e in exact]
    first, second = (
        grid_evidence(value - e, scale, error) for e, error in zip(exact, errors, strict=True)
    )
    return int(first < second)


def _black_box(seconds: float) -> Finding:
    tried = "Do fits tell two neighbours apart better than epsilon = 1 allows, whatever the way?"
    budget = PureDP(1.0)
    first, second, third = budget.split(18, 1, 1)
    plan = Plan(ObjectivePerturbation(), first, second, third, recipe="tight", draws=100)

    def estimate(side: float) -> float:
        X = np.append(np.zeros(7), side)[:, None]
        fitted = infer(X, np.ones(8), loss=HuberHinge(0.5), penalty=2.0, plan=plan)
        return float(fitted.estimate[0])

    on: list[float] = []
    off: list[float] = []
    end = time.monotonic() + seconds
    while len(on) < 200 or (len(on) < 20_000 and time.monotonic() < end):
        on.append(estimate(1.0))
        off.append(estimate(-1.0))
    seen = alarms(np.array(on), np.array(off), budget, level=0.0, sure=1e-4)
    words = f"at most {seen.false:.0%} false and at least {seen.true:.0%} true alarms in {len(on)} runs each; "
    words += f"{seen.bound:.0%} are allowed"
    numbers = {"true": seen.true, "false": seen.false, "allowed": seen.bound, "runs": len(on)}
    return Finding("black box", tried, seen.refuted, words, numbers)


CHECKS: dict[str, Callable[[float], Finding]] = {
    "grid": _on_grid,
    "fresh": _fresh,
    "law": _law,
    "floats": _floats,
    "bits": _bits,
    "black box": _black_box,
}
