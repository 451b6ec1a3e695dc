"""Time of fits in a private geometry next to the plain fit, to scikit-learn and to statsmodels, in one run.

    python benchmarks/geometry.py [--records 500000] [--columns 40]

Writes benchmarks/results/geometry.json.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, LogisticRegression
from threadpoolctl import threadpool_limits

import dpinfer as dp


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The shortest of some runs."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=40)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (options.records, options.columns))
    X = 0.7 * X + 0.3 * X[:, :1]  # correlated
    y = (rng.random(options.records) < 1 / (1 + np.exp(-X[:, :5].sum(axis=1)))).astype(int)
    numeric = X[:, :5].sum(axis=1) + rng.standard_normal(options.records)
    common = {"bounds": (-1.0, 1.0), "budget": dp.ApproxDP(1.0, 1e-6)}
    with threadpool_limits(1):
        found = {
            "geometry": seconds(lambda: dp.LogisticRegression(**common).fit(X, y)),
            "plain": seconds(lambda: dp.LogisticRegression(target="penalised", **common).fit(X, y)),
            "least squares": seconds(lambda: dp.LinearRegression(outcome=(-20.0, 20.0), **common).fit(X, numeric)),
            "scikit-learn least squares": seconds(lambda: LinearRegression().fit(X, numeric)),
            "statsmodels least squares HC0": seconds(
                lambda: sm.OLS(numeric, sm.add_constant(X)).fit(cov_type="HC0"), times=1
            ),
            "scikit-learn": seconds(lambda: LogisticRegression(solver="newton-cholesky", C=np.inf).fit(X, y)),
        }
    report = {"records": options.records, "columns": options.columns, "threads": 1, "seconds": found}
    report["geometry over plain"] = found["geometry"] / found["plain"]
    report["geometry over scikit-learn"] = found["geometry"] / found["scikit-learn"]
    report["least squares over geometry"] = found["least squares"] / found["geometry"]
    report["least squares over statsmodels HC0"] = found["least squares"] / found["statsmodels least squares HC0"]
    print(json.dumps(report, indent=1))
    Path("benchmarks/results/geometry.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
