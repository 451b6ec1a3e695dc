"""Fits per second of the study engine on a GPU, and its agreement with numpy.

    python -m benchmarks.gpu [--out FILE]

Needs what studies/paper/requirements-device.txt names, and a CUDA device.  The rows have the shape
of the Adult data (n = 30,162, d = 11).  A fit is the coefficients and both matrices of one
replicate, its bootstrap counts drawn on the device.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from studies.paper import device
from studies.paper.device import DeviceArrays, DeviceEngine

import dpinfer as dp
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.noise_laws import SphericalLaplace
from dpinfer.rows.source import Rows
from dpinfer.simulate.batched import Engine
from dpinfer.simulate.population import Population

PENALTY = 1e-3
RATE = 0.25
CUDA = DeviceArrays.on("cuda")


def rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounded rows with a constant column, labels from a logistic model."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((n, d))) * np.linspace(0.1, 1, d)
    X[:, -1] = 1.0
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    p = 1 / (1 + np.exp(-X @ (2 * rng.standard_normal(d))))
    return X, np.where(rng.random(n) < p, 1.0, -1.0)


def speed(population: Population, loss: dp.Loss, replicates: int) -> dict[str, float]:
    """Best of five batches, counts drawn on the device, after a warm-up."""
    engine = DeviceEngine(population, Risk.penalised(loss, PENALTY, population.n), CUDA)
    b = SphericalLaplace(RATE).sample(np.random.default_rng(1), (replicates, engine.dim))
    times, draws = [], []
    torch.cuda.reset_peak_memory_stats()
    for j in range(6):
        torch.cuda.synchronize()
        start = time.perf_counter()
        counts = CUDA.counts(population, j, range(replicates))
        torch.cuda.synchronize()
        drawn = time.perf_counter()
        batch = engine.fit(counts, b)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        draws.append(drawn - start)
        assert batch.certificate.max() <= 1e-10
    best = int(np.argmin(times[1:])) + 1
    return {
        "fits_per_second": replicates / times[best],
        "fits_per_second_without_counts": replicates / (times[best] - draws[best]),
        "milliseconds": 1000 * times[best],
        "peak_gigabytes": torch.cuda.max_memory_allocated() / 1e9,
    }


def agreement(population: Population, loss: dp.Loss) -> dict[str, float]:
    """Largest differences between the device and numpy on the same 64 replicates."""
    risk = Risk.penalised(loss, PENALTY, population.n)
    b = SphericalLaplace(RATE).sample(np.random.default_rng(1), (64, population.rows.shape[1]))
    ours = Engine(population, risk).fit(population.counts(0, range(64)), b)
    theirs = DeviceEngine(population, risk, CUDA).fit(CUDA.counts(population, 0, range(64)), b)
    return {
        "coef": float(np.abs(ours.coef - theirs.coef).max()),
        "curvature": float(np.abs(ours.curvature / theirs.curvature - 1).max()),
        "score": float(np.abs(ours.score / theirs.score - 1).max()),
    }


def study_on_device(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The same coverage study on the device and on numpy, and the time of a large one on the
    device.
    """
    setting = {"loss": dp.Logistic(), "penalty": PENALTY, "budget": dp.PureDP(1.0)}
    setting |= {"seed": 0, "level": 0.95}
    ours = dp.simulate.coverage(X, y, replicates=256, **setting)
    theirs = device.coverage(X, y, replicates=256, device="cuda", **setting)
    start = time.perf_counter()
    device.coverage(X, y, replicates=16_384, device="cuda", nonprivate=False, **setting)
    return {
        "coverage": float(np.abs(ours.coverage - theirs.coverage).max()),
        "length": float(np.abs(ours.length / theirs.length - 1).max()),
        "study_replicates_per_second": 16_384 / (time.perf_counter() - start),
    }


def main() -> None:
    """Print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    for n, batches in ((30_162, (1024, 4096, 16_384)), (450_000, (1024,))):
        X, y = rows(n, 11)
        population = Population.of_records(Rows.of(X, y))
        if n < 100_000:
            report["study"] = study_on_device(X, y)
            print(report["study"], flush=True)
        for loss in (dp.Logistic(), dp.HuberHinge(1.0)):
            line = {"n": n, "loss": repr(loss), "agreement": agreement(population, loss)}
            print(line, flush=True)
            for replicates in batches:
                found = {**line, "replicates": replicates, **speed(population, loss, replicates)}
                report["rows"].append(found)
                print({k: v for k, v in found.items() if k != "agreement"}, flush=True)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
