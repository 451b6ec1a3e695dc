"""One thread against two on narrow tables, in one run: whole logistic fits, and the passes in them.

    python -m benchmarks.threads [--records 2000000] [--columns 11 20] [--repeats 3] [--out FILE]

A fit is of arrays in memory, with its intervals.  A pass is one sum over all rows.  Runs of one and
of two threads take turns, and of each the fastest counts.  Writes benchmarks/results/threads.json.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.mechanisms.sums import OfBlock
from dpinfer.numerics.arrays import Array
from dpinfer.rows.source import Blocks

RESULTS = Path("benchmarks/results/threads.json")
BUDGET = dp.ApproxDP(1.0, 1e-6)


def table(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in [-1, 1], and labels that depend on some of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-X[:, :5].sum(axis=1)))
    return X, np.where(y, 1, 0)


@contextmanager
def passes() -> Iterator[list[float]]:
    """Inside, the seconds of every pass over rows are kept."""
    seconds: list[float] = []
    total = Blocks.total

    def timed(self: Blocks, of_block: OfBlock, /) -> Array:
        began = time.perf_counter()
        found = total(self, of_block)
        seconds.append(time.perf_counter() - began)
        return found

    Blocks.total = timed  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        Blocks.total = total  # type: ignore[method-assign]


def measured(fit: Callable[[], Any], threads: int) -> dict[str, Any]:
    """The seconds of one fit, in all, in its passes, and of the processors."""
    os.environ["DPINFER_THREADS"] = str(threads)
    with passes() as seconds:
        began = time.perf_counter()
        used = time.process_time()
        fit()
        taken = time.perf_counter() - began
    processor = time.process_time() - used
    return {"seconds": taken, "processor seconds": processor, "passes": list(seconds)}


def fastest(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The fastest fit; of every pass the fastest one."""
    best = min(runs, key=lambda run: float(run["seconds"]))
    by_pass = [min(times) for times in zip(*(run["passes"] for run in runs), strict=True)]
    return {**best, "passes": by_pass}


def compared(n: int, d: int, repeats: int) -> dict[str, Any]:
    """One thread beside two."""
    X, y = table(n, d)
    low = -np.ones(d)

    def fit() -> None:
        dp.LogisticRegression(budget=BUDGET, bounds=(low, -low), insecure_seed=0).fit(X, y)

    runs: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(repeats):
        for threads, done in runs.items():
            done.append(measured(fit, threads))
    one, two = (fastest(done) for done in runs.values())
    ratios = [a / b for a, b in zip(one["passes"], two["passes"], strict=True)]
    return {
        "n": n,
        "d": d,
        "one thread": one,
        "two threads": two,
        "ratio of fits": one["seconds"] / two["seconds"],
        "ratio of all passes": sum(one["passes"]) / sum(two["passes"]),
        "ratio of each pass": ratios,
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[11, 20])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = []
    for d in options.columns:
        found.append(compared(options.records, d, options.repeats))
        print(json.dumps(found[-1], indent=1), flush=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
