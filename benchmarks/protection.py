"""What full protection costs: a fit with exact noise and masked minima next to one with float
noise, in one run.

    python benchmarks/protection.py [--records 500000] [--columns 40]

The other side draws noise in double precision and releases minima as they are found; it protects
nobody.  Writes benchmarks/results/protection.json.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.fit import recipe
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.privacy.gate import Gate, Released


class FloatGate(Gate):
    """Noise in double precision, minima as they are."""

    def release(self, booked: Any, source: Any, what: Any) -> Released:
        """The same releases without grid and mask."""
        noise = booked.noise(what)
        rng = np.random.default_rng()
        if isinstance(what, Risk):
            step = minimum(what, source.total, noise.sample(rng, (source.dim,))).coef
            return Released(what.centre + step, noise)
        exact = source.total(what.of_block)
        return Released(exact + noise.sample(rng, (exact.size,)).reshape(exact.shape), noise)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=40)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (options.records, options.columns))
    y = (rng.random(options.records) < 1 / (1 + np.exp(-X[:, :5].sum(axis=1)))).astype(int)
    model = dp.LogisticRegression(bounds=(-1.0, 1.0), budget=dp.ApproxDP(1.0, 1e-6))
    found = {"exact": [], "float": []}
    with threadpool_limits(1):
        model.fit(X, y)  # calibrations and memory are kept
        for turn in range(6):
            for name, gate in (("exact", Gate), ("float", FloatGate))[:: 1 if turn % 2 else -1]:
                recipe.Gate = gate  # type: ignore[misc]
                began = time.perf_counter()
                model.fit(X, y)
                found[name].append(time.perf_counter() - began)
    best = {name: min(times) for name, times in found.items()}
    report = {"records": options.records, "columns": options.columns, "threads": 1, "seconds": best}
    report["ratio"] = best["exact"] / best["float"]
    print(json.dumps(report, indent=1))
    Path("benchmarks/results/protection.json").write_text(
        json.dumps(report, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
