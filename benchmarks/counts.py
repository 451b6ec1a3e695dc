"""Processor time of a regression of counts beside least squares of the same rows, on one thread, and
where it goes: of each release, and of all else (reading and encoding the rows).

    DPINFER_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.counts [--size 500000x40]

Fits take turns, and of each the fastest counts.  Writes benchmarks/results/counts.json.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.privacy.gate import Gate

RESULTS = Path("benchmarks/results/counts.json")
TURNS = 4
MODELS = ("least squares", "counts", "counts with exposure")


def rows(n: int, d: int) -> tuple[Any, Any, Any]:
    """Columns, overdispersed counts, and exposures."""
    rng = np.random.default_rng(1)
    columns = np.clip(rng.normal(size=(n, d)) / 3, -1, 1)
    exposure = rng.beta(2, 1, n)
    rate = np.exp(columns @ (0.15 * rng.normal(size=d)) + 0.3)
    return columns, rng.poisson(exposure * rate * rng.gamma(1.5, 1 / 1.5, n)), exposure


def fit(name: str, columns: Any, outcomes: Any, exposure: Any) -> None:
    """One of the three."""
    public: dict[str, Any] = {"bounds": (-1, 1), "outcome": (0, 200)}
    public["budget"] = dp.ApproxDP(1.0, 1e-6)
    if name == "least squares":
        dp.LinearRegression(**public).fit(columns, outcomes)
    elif name == "counts":
        dp.PoissonRegression(**public).fit(columns, outcomes)
    else:
        model = dp.PoissonRegression(exposure=(0, 1), **public)
        model.fit(columns, outcomes, exposure=exposure)


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="500000x40")
    n, d = map(int, parser.parse_args().size.split("x"))
    data = rows(n, d)
    spent: dict[str, float] = {}
    release = Gate.release

    def timed(gate: Any, booked: Any, *what: Any) -> Any:
        began = time.process_time()
        released = release(gate, booked, *what)
        stage = booked.step.partition(",")[0]
        spent[stage] = spent.get(stage, 0.0) + time.process_time() - began
        return released

    Gate.release = timed  # type: ignore[assignment, method-assign]
    found: dict[str, dict[str, float]] = {}
    for _ in range(TURNS):
        for name in MODELS:
            spent.clear()
            began = time.process_time()
            with warnings.catch_warnings(action="ignore"):
                fit(name, *data)
            whole = time.process_time() - began
            if whole < found.get(name, {}).get("all", np.inf):
                other = whole - sum(spent.values())
                found[name] = {"all": whole, "reading": other, **spent}
    plain = found["least squares"]["all"]
    report = {
        "rows": n,
        "columns": d,
        "processor seconds": {
            name: {stage: round(seconds, 3) for stage, seconds in found[name].items()}
            for name in MODELS
        },
        "over least squares": {name: round(found[name]["all"] / plain, 2) for name in MODELS[1:]},
    }
    RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
