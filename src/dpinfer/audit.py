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

from dpinfer.fit.choose import infer
from dpinfer.fit.penalised_plan import ObjectivePerturbation, Plan
from dpinfer.fit.recipe import fit
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import HuberHinge
from dpinfer.maths.noise_laws import Gaussian
from dpinfer.maths.sums import SLACK, BoundedSum, moment_and_score
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP
from dpinfer.privacy.grid import grid
from dpinfer.privacy.release import NoisySum
from dpinfer.rows.source import Rows

_CELLS, _RARE = 2.0**52, 1e-6  # a sound installation fails a check as rarely


@dataclass(frozen=True)
class Finding:
    """What was tried, and what came of it, in words and numbers."""

    name: str
    tried: str
    found: bool
    words: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All findings of one audit."""

    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(finding.found for finding in self.findings)


def run(seconds: float = 20.0, progress: Callable[[str], None] | None = None) -> Report:
    """Every check, in about so many seconds; ``progress`` is told what is tried next."""
    findings = []
    for name, check in CHECKS.items():
        if progress is not None:
            progress(name)
        findings.append(check(seconds / len(CHECKS)))
    return Report(tuple(findings))


def grid_evidence(noise: Array, scale: float, error: Array) -> float:
    """Log-likelihood that noise is scale · ndtri((k + 1/2)/2⁵²), known up to ``error``, less that
    of real noise.
    """
    z = np.abs(noise / scale)
    place = ndtr(-z) * _CELLS - 0.5  # from the nearer tail, where a probability keeps its digits
    apart = (
        np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * _CELLS / scale
    )  # cells in a unit of the noise
    blur = np.maximum(error * apart, 0.02)
    away = place - np.rint(place)
    near = np.exp(-((away[:, None] + np.arange(-2, 3)) ** 2) / (2 * blur[:, None] ** 2)).sum(axis=1)
    density = near / (blur * np.sqrt(2 * np.pi))
    return float(np.where(blur < 0.5, np.log(0.95 * density + 0.05), 0.0).sum())


def representable(values: Array, exact: Array) -> npt.NDArray[np.bool_]:
    """Whether some double added to ``exact`` gives each value, in double precision."""
    b = values - exact
    near = (b, np.nextafter(b, np.inf), np.nextafter(b, -np.inf))
    return np.asarray(np.any([exact + one == values for one in near], axis=0))


@dataclass(frozen=True)
class Alarms:
    """The best threshold of a statistic: Clopper-Pearson limits of its alarms, and what a budget
    allows.
    """

    true: float
    false: float
    allowed: float

    @property
    def excess(self) -> float:
        """True alarms beyond what is allowed."""
        return self.true - self.allowed

    @property
    def refuted(self) -> bool:
        """Whether the data sets are told apart better than the budget allows."""
        return self.excess > 0


def alarms(
    on: Array, off: Array, budget: Budget, *, level: float | None = None, sure: float = 0.005
) -> Alarms:
    """Limits of the rates at which a statistic is above a threshold, each wrong with a chance of
    ``sure``.

    Without a threshold one is found on every other number, and the limits are those of the rest.
    """
    if level is not None:
        return _limits(on, off, level, budget, sure)
    levels = np.quantile(off[::2], [0.5, 0.7, 0.8, 0.9, 0.95]).tolist()
    level = max(levels, key=lambda level: _limits(on[::2], off[::2], level, budget, sure).excess)
    return _limits(on[1::2], off[1::2], level, budget, sure)


def _limits(on: Array, off: Array, level: float, budget: Budget, sure: float) -> Alarms:
    hits, false, n, m = int((on > level).sum()), int((off > level).sum()), len(on), len(off)
    low = float(beta.ppf(sure, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - sure, false + 1, m - false)) if false < m else 1.0
    return Alarms(low, high, allowed(budget, high))


def allowed(budget: Budget, false: float) -> float:
    """The largest rate of true alarms that a budget allows at a rate of false ones."""
    pairs: list[tuple[float, float]]
    if isinstance(budget, PureDP):
        pairs = [(budget.epsilon, 0.0)]
    elif isinstance(budget, ApproxDP):
        pairs = [(budget.epsilon, budget.delta)]
    else:
        assert isinstance(budget, ZCDP)
        pairs = [(e, _delta(budget.rho, e)) for e in np.linspace(0, 8, 81).tolist()]
    most = (min(math.exp(e) * false + d, 1 - math.exp(-e) * (1 - d - false)) for e, d in pairs)
    return min(1.0, *most)


def _delta(rho: float, epsilon: float) -> float:
    """δ(ε) of ρ-zCDP (Canonne, Kamath and Steinke, 2020)."""
    a = np.geomspace(1e-3, 1e4, 400)  # α - 1
    logs = a * ((a + 1) * rho - epsilon) - np.log(a) + (a + 1) * np.log1p(-1 / (a + 1))
    return float(np.exp(min(0.0, logs.min())))


@dataclass(frozen=True)
class _Single:
    """A recipe of one noisy sum, whose result is what the gate lets out."""

    booked: NoisySum
    what: BoundedSum
    budget: Budget
    neighbours: ClassVar[Neighbours] = Neighbours.REPLACE

    def releases(self, n: int) -> tuple[NoisySum, ...]:  # noqa: ARG002
        return (self.booked,)

    def run(self, gate: Any, source: Rows) -> Any:
        return gate.release(self.booked, source, self.what)


def released(share: PureDP | ZCDP, what: BoundedSum, source: Rows) -> Any:
    """One noisy sum, through the gate, and the law of its noise."""
    recipe: Any = _Single(NoisySum("audit", share, what.bound), what, share)
    return fit(recipe, source)


def _zeros(m: int) -> BoundedSum:
    return BoundedSum(lambda block: np.zeros(m), 1.0)  # noqa: ARG005


_NOBODY = Rows.of(np.zeros((1, 1)), [1.0])


def _on_grid(_: float) -> Finding:
    what, tried = (
        moment_and_score(Neighbours.REPLACE),
        "Is every released number a whole multiple of its public step?",
    )
    pair, off, size = _pair(), 0, 0
    for share in (ZCDP(0.02), PureDP(0.2)):
        values = released(share, what, pair[0]).value
        steps = values / grid(what.bound, values.size)
        off, size = off + int((steps != np.rint(steps)).sum()), size + values.size
    words = f"{off} of {size} numbers are not" if off else f"all {size} numbers are"
    return Finding("grid", tried, off > 0, words, {"numbers": size, "off": off})


def _fresh(_: float) -> Finding:
    tried, m = "Do two runs of the same release differ?", 2000
    equal = 0
    for share in (ZCDP(0.1), PureDP(1.0)):
        first, second = (released(share, _zeros(m), _NOBODY).value for _ in range(2))
        equal += int((first == second).sum())
    found = equal > m // 100
    words = f"{equal} of {2 * m} numbers came out the same" + (
        ", far too many" if found else ", as chance has it"
    )
    return Finding("fresh", tried, found, words, {"equal": equal, "numbers": 2 * m})


def _law(seconds: float) -> Finding:
    tried = "Does the sampler give every whole number with its exact chance (chi-square)?"
    p_gauss, draws = _chi_square(seconds / 2, 20_000, ZCDP)
    p_laplace, singles = _chi_square(seconds / 2, 1, PureDP)
    words = f"p = {p_gauss:.3g} over {draws:,} Gaussian and {p_laplace:.3g} over {singles:,} Laplace draws"
    numbers = {"p_gaussian": p_gauss, "gaussian": draws, "p_laplace": p_laplace, "laplace": singles}
    return Finding("law", tried, min(p_gauss, p_laplace) < _RARE, words, numbers)


def _chi_square(seconds: float, m: int, kind: type[ZCDP] | type[PureDP]) -> tuple[float, int]:
    """p-value and number of draws at a noise of about three steps of the grid."""
    step, edge = grid(1.0, m), 9
    size = (1 + SLACK) / (3 * step)
    share = ZCDP(size**2 / 2) if kind is ZCDP else PureDP(size)
    counts, end, law = np.zeros(2 * edge + 1), time.monotonic() + seconds, None
    while law is None or time.monotonic() < end or counts.sum() < 2000:
        out = released(share, _zeros(m), _NOBODY)
        whole, law = np.clip(np.rint(out.value / step), -edge, edge).astype(int) + edge, out.noise
        counts += np.bincount(whole, minlength=len(counts))
    ends = (np.arange(-edge, edge) + 0.5) * step
    below = ndtr(ends / law.scale) if isinstance(law, Gaussian) else _laplace_cdf(law.rate * ends)
    chances = np.diff(np.concatenate([[0.0], below, [1.0]]))
    return float(chisquare(counts, chances * counts.sum()).pvalue), int(counts.sum())


def _laplace_cdf(x: Array) -> Array:
    return np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def _floats(seconds: float) -> Finding:
    from flint import arb, ctx  # noqa: PLC0415  (python-flint is slow to load)

    tried = "Are this machine's ndtri and log within 2^-37 of the real ones, as the sampler takes them to be?"
    rng, end, worst, count = (
        np.random.default_rng(),
        time.monotonic() + seconds,
        {"ndtri": 0.0, "log": 0.0},
        0,
    )
    while count == 0 or time.monotonic() < end:
        p = np.concatenate(
            [
                2.0 ** -rng.uniform(1, 48, 100),
                rng.uniform(0, 0.5, 100),
                np.exp(-2) + rng.normal(0, 1e-9, 50),
            ]
        )
        p = p[(p >= 2.0**-48) & (p <= 0.5)]
        with ctx.workprec(160):
            root = arb(2).sqrt()
            for u, z, log in zip(
                p.tolist(), ndtri(p).tolist(), np.log(2 * p).tolist(), strict=True
            ):
                worst["ndtri"] = max(
                    worst["ndtri"], float(abs((2 * arb(u)).erfcinv() * root + arb(z)).upper())
                )
                worst["log"] = max(worst["log"], float(abs(arb(2 * u).log() - arb(log)).upper()))
        count += len(p)
    bits = {name: -math.log2(max(error, 2.0**-60)) for name, error in worst.items()}
    words = (
        ", ".join(f"{name} within 2^-{bit:.1f}" for name, bit in bits.items())
        + f" at {count:,} numbers"
    )
    return Finding(
        "floats", tried, max(worst.values()) > 2.0**-37, words, {**worst, "numbers": count}
    )


def _pair() -> tuple[Rows, Rows]:
    """Two neighbours: the last of 20 rows is turned round."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.4, 0.4, (20, 6)), np.tile([1.0, -1.0], 10)
    other = X.copy()
    other[-1] = -other[-1][::-1]
    return Rows.of(X, y), Rows.of(other, y)


def _bits(seconds: float) -> Finding:
    tried = "Do the last bits of a noisy sum tell which of two neighbours it came from?"
    pair, what, rng = _pair(), moment_and_score(Neighbours.REPLACE), np.random.default_rng()
    exact = [source.total(what.of_block) for source in pair]
    hits, old_hits, runs, end = 0, 0, 0, time.monotonic() + seconds
    while runs < 100 or (runs < 10_000 and time.monotonic() < end):
        truth, runs = runs % 2, runs + 1
        out = released(ZCDP(0.02), what, pair[truth])
        z = ndtri((rng.integers(0, 2**52, exact[0].size) + 0.5) / _CELLS)
        hits += _guess(out.value, exact, out.noise.scale) == truth
        old_hits += _guess(exact[truth] + out.noise.scale * z, exact, out.noise.scale) == truth
    p, weak = float(binomtest(hits, runs).pvalue), old_hits < 0.9 * runs
    words = f"{hits} of {runs} guesses were right, " + (
        "where half is chance" if p >= _RARE else "which is no chance"
    )
    words += f"; of float noise {old_hits} are" + (
        ": the attack does not work on this machine" if weak else ""
    )
    numbers = {"hits": hits, "runs": runs, "p": p, "float_hits": old_hits}
    return Finding("bits", tried, p < _RARE or weak, words, numbers)


def _guess(value: Array, exact: list[Array], scale: float) -> int:
    """Which sum the noise was added to, if it is of floats."""
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
    on, off, end = list[float](), list[float](), time.monotonic() + seconds
    while len(on) < 200 or (len(on) < 20_000 and time.monotonic() < end):
        for side, kept in ((1.0, on), (-1.0, off)):
            X = np.append(np.zeros(7), side)[:, None]
            kept.append(
                float(
                    infer(X, np.ones(8), loss=HuberHinge(0.5), penalty=2.0, plan=plan).estimate[0]
                )
            )
    seen = alarms(np.array(on), np.array(off), budget, level=0.0, sure=1e-4)
    words = f"at most {seen.false:.0%} false and at least {seen.true:.0%} true alarms in {len(on)} runs each; "
    words += f"{seen.allowed:.0%} are allowed"
    numbers = {"true": seen.true, "false": seen.false, "allowed": seen.allowed, "runs": len(on)}
    return Finding("black box", tried, seen.refuted, words, numbers)


CHECKS: dict[str, Callable[[float], Finding]] = {
    "grid": _on_grid, "fresh": _fresh, "law": _law, "floats": _floats, "bits": _bits, "black box": _black_box,
}  # fmt: skip
