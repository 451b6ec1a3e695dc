"""Fits per second of the study engine against scikit-learn, in one run with one BLAS thread; memory
and scaling.

    python benchmarks/engine.py [--data FOLDER] [--out FILE]

A fit of ours is the coefficients and both matrices of one bootstrap replicate with a perturbed
objective, its counts drawn too.  A fit of scikit-learn's is one plain weighted logistic regression
(newton-cholesky), without either.  With a data folder the rows are Adult's first ten features in
the paper's preprocessing, else rows of the same shape.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import dpinfer as dp  # noqa: E402
from dpinfer.mechanisms.risk import Risk  # noqa: E402
from dpinfer.numerics.noise_laws import SphericalLaplace  # noqa: E402
from dpinfer.rows.source import Rows  # noqa: E402
from dpinfer.simulate.batched import BLOCK, Engine  # noqa: E402
from dpinfer.simulate.population import Population  # noqa: E402

PENALTY = 1e-3
RATE = 0.25
SIZES = (15_000, 30_000, 60_000, 120_000)


def rows(n: int, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Adult, or bounded rows of the same shape."""
    if folder is not None and n == 30_162:
        from studies.paper.data import load  # noqa: PLC0415

        X, y, _ = load("adult", folder, d=10)
        return X, y
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((n, 11))) * np.linspace(0.1, 1, 11)
    X[:, -1] = 1.0
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    p = 1 / (1 + np.exp(-X @ (2 * rng.standard_normal(11))))
    return X, np.where(rng.random(n) < p, 1.0, -1.0)


def best(work: Callable[[], object], repeats: int) -> float:
    """Shortest of some runs, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def ours(X: np.ndarray, y: np.ndarray, loss: dp.Loss, replicates: int = BLOCK) -> float:
    """Fits per second on one thread, counts drawn."""
    np.empty(31 * 2**20, dtype=np.uint8)  # as in a study
    population = Population.of_records(Rows.of(X, y))
    engine = Engine(population, Risk.penalised(loss, PENALTY, len(X)))
    b = SphericalLaplace(RATE).sample(np.random.default_rng(1), (replicates, engine.dim))
    return replicates / best(lambda: engine.fit(population.counts(0, range(replicates)), b), 5)


def theirs(X: np.ndarray, y: np.ndarray, tol: float) -> float:
    """Weighted fits per second of scikit-learn."""
    weights = Population.of_records(Rows.of(X, y)).counts(0, range(1))[0].astype(float)
    model = LogisticRegression(
        C=1 / (2 * len(X) * PENALTY), fit_intercept=False, solver="newton-cholesky", tol=tol
    )
    return 1 / best(lambda: model.fit(X, y, sample_weight=weights), 20)


def peak_megabytes(n: int) -> float:
    """Peak memory of a process that makes its rows and runs one coverage study of 256 replicates."""
    program = (
        f"import sys; sys.path[:0] = {sys.path[:1]!r}; import engine, dpinfer as dp\n"
        f"X, y = engine.rows({n}, None)\n"
        "dp.simulate.coverage(X, y, penalty=1e-3, budget=dp.PureDP(1.0), replicates=256, workers=2)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(run.stdout) / 1024


def main() -> None:
    """Print the ratios, and write them as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    X, y = rows(30_162, options.data)
    report: dict[str, object] = {
        "data": "adult" if options.data else "synthetic",
        "n": len(X),
        "d": X.shape[1],
    }
    reference, loose = theirs(X, y, 1e-8), theirs(X, y, 1e-4)
    report["scikit_learn_fits_per_second"] = {"tol 1e-8": reference, "tol 1e-4 (default)": loose}
    for loss in (dp.Logistic(), dp.HuberHinge(1.0)):
        speed = ours(X, y, loss)
        report[repr(loss)] = {
            "fits_per_second": speed,
            "ratio_to_scikit_learn": speed / reference,
            "ratio_to_scikit_learn_at_its_default_tolerance": speed / loose,
        }
    report["seconds_a_fit_by_n"] = {n: 1 / ours(*rows(n, None), dp.Logistic()) for n in SIZES}
    X, y = rows(30_000, None)
    report["seconds_by_replicates"] = {
        k: best(
            lambda k=k: dp.simulate.coverage(X, y, budget=dp.ZCDP(0.2), replicates=k, workers=1), 2
        )
        for k in (256, 512, 1024)
    }
    report["peak_megabytes_by_n"] = {n: peak_megabytes(n) for n in (30_000, 450_000)}
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
