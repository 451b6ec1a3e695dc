"""Time of whole fits, with intervals, next to those of other libraries without privacy: one table
of ratios.

    python -m benchmarks.peers [--records 30000 500000 2000000 5000000] [--columns 11 40 100]
    [--threads 1 all]

All numbers of a case are measured in one run after each other, on the same arrays, and repeated;
the shortest counts.  With one thread the time is that of the processor, so that a busy machine does
not spoil the ratios.  Peers:  scikit-learn (logistic regression by lbfgs and newton-cholesky, least
squares), statsmodels with robust errors (HC0), and glum with its robust errors, where it is
installed (pip install glum).  A case that would take a peer too long or too much memory is left out
for that peer.  Writes benchmarks/results/peers.json, where cases that were not measured stay as
they were, and docs/figures/peers.png.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path("benchmarks/results/peers.json")
FIGURE = Path("docs/figures/peers.png")
LARGEST = {
    "statsmodels": 6e7,
    "glum": 1e8,
    "scikit-learn lbfgs": 2.5e8,
}  # cells; beyond, a peer is left out


def data(n: int, d: int) -> tuple[Any, Any, Any]:
    """Correlated columns in [-1, 1], labels, a numeric outcome."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    X *= 0.7
    X += 0.3 * X[:, :1] / 0.7
    predictor = X[:, :5].sum(axis=1)
    y = (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(int)
    return X, y, predictor + rng.standard_normal(n)


def fits(X: Any, y: Any, numeric: Any) -> dict[str, dict[str, Callable[[], object]]]:
    """What is compared."""
    import statsmodels.api as sm  # noqa: PLC0415
    from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: PLC0415

    import dpinfer as dp  # noqa: PLC0415

    common = {"bounds": (-1.0, 1.0), "budget": dp.ApproxDP(1.0, 1e-6)}
    logistic: dict[str, Callable[[], object]] = {
        "dpinfer": lambda: dp.LogisticRegression(**common).fit(X, y).result_.table(0.95),
        "scikit-learn newton-cholesky": lambda: LogisticRegression(
            solver="newton-cholesky", C=np.inf
        ).fit(X, y),
        "scikit-learn lbfgs": lambda: LogisticRegression(C=np.inf, max_iter=1000).fit(X, y),
        "statsmodels HC0": lambda: (
            sm.Logit(y, sm.add_constant(X)).fit(disp=0, cov_type="HC0").conf_int()
        ),
    }
    try:
        from glum import GeneralizedLinearRegressor  # noqa: PLC0415
    except ImportError:
        print("glum is not installed: left out")
    else:
        logistic["glum"] = lambda: _glum(
            GeneralizedLinearRegressor(family="binomial", alpha=0), X, y
        )
    linear: dict[str, Callable[[], object]] = {
        "dpinfer": lambda: (
            dp.LinearRegression(outcome=(-20.0, 20.0), **common).fit(X, numeric).result_.table(0.95)
        ),
        "scikit-learn": lambda: LinearRegression().fit(X, numeric),
        "statsmodels HC0": lambda: (
            sm.OLS(numeric, sm.add_constant(X)).fit(cov_type="HC0").conf_int()
        ),
    }
    return {"logistic": logistic, "linear": linear}


def _glum(model: Any, X: Any, y: Any) -> object:
    model.fit(X, y)
    return model.std_errors(X, y, robust=True)


def seconds(work: Callable[[], object], clock: Callable[[], float], most: float) -> float:
    """The shortest of two to five runs, of those beyond two as long as they take ``most`` seconds
    together.
    """
    found: list[float] = []
    while len(found) < 2 or (len(found) < 5 and sum(found) < most):
        began = clock()
        work()
        found.append(clock() - began)
    return min(found)


def machine() -> dict[str, float]:
    """What one core can do: copied bytes and floating-point operations of a matrix product, a
    second.
    """
    source = np.ones(2**26)
    square = np.random.default_rng(0).standard_normal((1500, 1500))
    target = np.empty_like(source)
    np.copyto(target, source)
    copy = seconds(lambda: np.copyto(target, source), time.process_time, 3)
    product = seconds(lambda: square @ square, time.process_time, 3)
    return {
        "copied bytes a second": 16 * len(source) / copy,
        "operations a second": 2 * 1500**3 / product,
    }


def case(n: int, d: int, threads: str) -> list[dict[str, Any]]:
    """All fits of one size."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    one = threads == "1"
    arrays = data(n, d)
    rows = []
    os.environ["DPINFER_THREADS"] = "1" if one else str(os.cpu_count())
    clock = time.process_time if one else time.perf_counter
    for model, some in fits(*arrays).items():
        measured = {}
        for name, work in some.items():
            if n * d <= min(
                (most for peer, most in LARGEST.items() if name.startswith(peer)), default=np.inf
            ):
                with threadpool_limits(1 if one else None):
                    measured[name] = seconds(work, clock, 3)
        ours = measured["dpinfer"]
        ratios = {name: ours / taken for name, taken in measured.items() if name != "dpinfer"}
        rows.append(
            {
                "model": model,
                "n": n,
                "d": d,
                "threads": threads,
                "seconds": measured,
                "ratios": ratios,
            }
        )
        print(f"{model:9} {n:>9,} x {d:<4} threads {threads:4} dpinfer {ours:8.3f} s   ", end="")
        print("  ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()), flush=True)
    return rows


def passes(n: int, d: int) -> dict[str, float]:
    """How often a logistic fit passes over its rows, counted."""
    from dpinfer.rows.source import Blocks  # noqa: PLC0415

    X, y, numeric = data(n, d)
    counted = []
    total = Blocks.total

    def count(self: Blocks, of_block: Any) -> Any:
        counted.append(self.dim)
        return total(self, of_block)

    Blocks.total = count  # type: ignore[method-assign]
    try:
        fits(X, y, numeric)["logistic"]["dpinfer"]()
    finally:
        Blocks.total = total  # type: ignore[method-assign]
    return {"passes": len(counted)}


def draw(rows: list[dict[str, Any]]) -> None:
    """Cost curves: time a record and column, by n and by d, one thread."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    some = [row for row in rows if row["threads"] == "1" and row["model"] == "logistic"]
    names = sorted(
        {name for row in some for name in row["seconds"]}, key=lambda name: name != "dpinfer"
    )
    for axis, along, fixed, value in ((axes[0], "n", "d", 40), (axes[1], "d", "n", 500_000)):
        for name in names:
            points = [
                (row[along], row["seconds"][name])
                for row in some
                if row[fixed] == value and name in row["seconds"]
            ]
            if points:
                x, y = zip(*sorted(points), strict=True)
                axis.plot(x, y, marker="o", lw=2.5 if name == "dpinfer" else 1.2, label=name)
        axis.set(xscale="log", yscale="log", xlabel=f"{along} ({fixed} = {value:,})")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds, one thread")
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(
        "Logistic regression with intervals: dpinfer (private) beside libraries without privacy"
    )
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--records", type=int, nargs="+", default=[30_000, 500_000, 2_000_000, 5_000_000]
    )
    parser.add_argument("--columns", type=int, nargs="+", default=[11, 40, 100])
    parser.add_argument("--threads", nargs="+", choices=["1", "all"], default=["1", "all"])
    options = parser.parse_args()
    rows = [
        row
        for t in options.threads
        for n in options.records
        for d in options.columns
        for row in case(n, d, t)
    ]
    able = machine()
    for row in rows:
        if row["model"] == "logistic" and row["threads"] == "1":
            row.update(_shares(row, able))
    old = json.loads(RESULTS.read_text(encoding="utf-8"))["cases"] if RESULTS.exists() else []
    cases = {
        tuple(row[key] for key in ("threads", "model", "n", "d")): row for row in [*old, *rows]
    }
    RESULTS.write_text(
        json.dumps({"machine": able, "cases": list(cases.values())}, indent=1) + "\n",
        encoding="utf-8",
    )
    draw(list(cases.values()))


def _shares(row: dict[str, Any], able: dict[str, float]) -> dict[str, float]:
    """The part of what the core can do that a fit uses: each pass reads the rows once and has one
    product of them.
    """
    n = row["n"]
    d = row["d"] + 1
    taken = row["seconds"]["dpinfer"]
    found = passes(min(n, 500_000), row["d"])["passes"]
    return {
        "passes": found,
        "share of bandwidth": found * n * d * 8 / taken / able["copied bytes a second"],
        "share of matrix-product peak": found * n * d * d / taken / able["operations a second"],
    }


if __name__ == "__main__":
    main()
