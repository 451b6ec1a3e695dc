"""Processor time of fits of a table with skewed numbers, on one thread: of each release, of reading the rows,
and of inference.

    DPINFER_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.skewed [--size 200000x20] [--turns 7]

Four of the columns are log-normal, so that winsor limits and laws of tails are computed.  Fits of the three
models take turns; the medians are printed.  It runs on the sources of older commits too (PYTHONPATH), so that
two commits can take turns: only such ratios are to be trusted.
"""

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.privacy.gate import Gate

SKEWED = 4
WARM_UP = 2
MODELS = {
    "least squares": (dp.LinearRegression, {"outcome": (-20, 20)}),
    "logistic": (dp.LogisticRegression, {}),
    "Poisson": (dp.PoissonRegression, {"outcome": (0, 100)}),
}


def rows(n: int, d: int) -> tuple[Any, dict[str, Any]]:
    """Return columns in [-1, 1], the first of them skewed, and an outcome for each model."""
    rng = np.random.default_rng(1)
    columns = np.clip(rng.normal(size=(n, d)) / 3, -1, 1)
    columns[:, :SKEWED] = np.clip(rng.lognormal(-3.5, 1.0, size=(n, SKEWED)), 0, 1)
    predictor = columns @ (0.3 * rng.normal(size=d))
    outcomes = {
        "least squares": predictor + rng.normal(size=n),
        "logistic": (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(int),
        "Poisson": rng.poisson(np.exp(predictor)),
    }
    return columns, outcomes


def main() -> None:
    """Measure, and print seconds by model and stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="200000x20")
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    n, d = map(int, options.size.split("x"))
    columns, outcomes = rows(n, d)
    releases: dict[str, float] = {}
    release = Gate.release

    def timed(gate: Any, booked: Any, *query: Any) -> Any:
        began = time.process_time()
        released = release(gate, booked, *query)
        stage = booked.step.partition(",")[0]
        releases[stage] = releases.get(stage, 0.0) + time.process_time() - began
        return released

    Gate.release = timed  # type: ignore[assignment, method-assign]
    seconds: dict[str, list[dict[str, float]]] = {name: [] for name in MODELS}
    for turn in range(WARM_UP + options.turns):
        for name, (model, public) in MODELS.items():
            releases.clear()
            budget = dp.ApproxDP(1.0, 1e-6)
            began = time.process_time()
            with warnings.catch_warnings(action="ignore"):
                model(bounds=(-1, 1), budget=budget, **public).fit(columns, outcomes[name])
            total = time.process_time() - began
            rest = total - sum(releases.values())
            if turn >= WARM_UP:
                seconds[name].append({"all": total, "reading and inference": rest, **releases})
    medians = {
        name: {stage: round(float(np.median([run[stage] for run in runs])), 4) for stage in runs[0]}
        for name, runs in seconds.items()
    }
    print(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
