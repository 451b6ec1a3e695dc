"""Coverage of the figures of a moment release: means, covariances, correlations, R² and intercepts.

``python -m studies.moments.figures`` prints the table of docs/moments.md.  The population is the bundled
table, a replicate a bootstrap sample of its records.
"""

import argparse
from itertools import combinations, combinations_with_replacement

import numpy as np

import dpinfer as dp
from dpinfer.moment_release.moment_questions import answer
from dpinfer.numerics.arrays import Array
from dpinfer.result.result import FitResult

COLUMNS = "mdvis + visit + lncoins + idp + lpi + fmde + physlm + disea + health"
_NUMBERS = ("mdvis", "lncoins", "lpi", "fmde", "physlm", "disea")
_SHARES = ("visit[True]", "idp", "health[fair]", "health[poor]")
_FORMULAS = (
    "mdvis ~ disea + health",
    "mdvis ~ lncoins + idp + disea",
    "disea ~ health + physlm",
    "visit ~ lncoins + disea",
    "lpi ~ fmde + lncoins",
    "mdvis ~ lncoins",
)
QUESTIONS = {
    "means and shares": [f"mean({name})" for name in (*_NUMBERS, *_SHARES)],
    "covariances": [
        f"covariance({one}, {other})" for one, other in combinations_with_replacement(_NUMBERS, 2)
    ],
    "correlations": [f"correlation({one}, {other})" for one, other in combinations(_NUMBERS, 2)],
    "partial correlations": [
        "correlation(mdvis, disea | health + physlm)",
        "correlation(mdvis, lncoins | disea)",
        "correlation(disea, physlm | health)",
    ],
    "R²": [f"r_squared({formula})" for formula in _FORMULAS],
    "intercepts": list(_FORMULAS),
    "predictions": [f"{formula} at 1.5" for formula in _FORMULAS],
}
CELLS: tuple[tuple[int, dp.ApproxDP | dp.ZCDP], ...] = (
    (20_000, dp.ApproxDP(1.0, 1e-6)),
    (20_000, dp.ApproxDP(3.0, 1e-6)),
    (20_000, dp.ZCDP(0.1)),
    (100_000, dp.ApproxDP(1.0, 1e-6)),
)


def ends(release: dp.MomentRelease, question: str) -> tuple[float, float, float]:
    """Return the estimate of a figure, of the intercept of a formula, or of the mean outcome where numbers are
    1.5 and levels at their reference, with its interval; NaN if not reported.
    """
    formula, at, _ = question.partition(" at ")
    found = answer(release, formula)
    if at and isinstance(found, FitResult):
        return _predicted(found, formula)
    if isinstance(found, FitResult):
        low, high = found.conf_int()[0] if found.reported[0] else (np.nan, np.nan)
        return float(found.estimate[0]), float(low), float(high)
    return found.estimate, found.low, found.high


def _predicted(found: FitResult, formula: str) -> tuple[float, float, float]:
    columns = formula.partition("~")[2].split("+")
    given = {"health": "excellent", "idp": False}
    values = {name.strip(): given.get(name.strip(), 1.5) for name in columns}
    row = found.predict(values).iloc[0]
    return float(row["prediction"]), float(row["low"]), float(row["high"])


def covered(records: int, budget: dp.ApproxDP | dp.ZCDP, number: int) -> dict[str, Array]:
    """Return for each kind of figure whether the interval of each question holds, by replicates; NaN if none."""
    data = dp.datasets.rand_hie()
    exact = dp.release_moments(data.table, data.schema, COLUMNS, dp.NoPrivacy())
    truth = {kind: [ends(exact, one)[0] for one in asked] for kind, asked in QUESTIONS.items()}
    found = {kind: np.full((number, len(asked)), np.nan) for kind, asked in QUESTIONS.items()}
    for k in range(number):
        drawn = np.random.default_rng([k, 5]).integers(0, len(data.table), records)
        sample = data.table.iloc[drawn].reset_index(drop=True)
        release = dp.release_moments(sample, data.schema, COLUMNS, budget, insecure_seed=k)
        for kind, asked in QUESTIONS.items():
            for j, one in enumerate(asked):
                _, low, high = ends(release, one)
                if np.isfinite(low):
                    found[kind][k, j] = low <= truth[kind][j] <= high
    return found


def label(budget: dp.ApproxDP | dp.ZCDP) -> str:
    """Return a budget as the table has it."""
    return f"ρ = {budget.rho:g}" if isinstance(budget, dp.ZCDP) else f"ε = {budget.epsilon:g}"


def rows(records: int, budget: dp.ApproxDP | dp.ZCDP, number: int) -> list[str]:
    """Return the rows of one cell: mean coverage, that of the worst figure, and the share reported."""
    lines = []
    for kind, hits in covered(records, budget, number).items():
        lowest = np.nanmin(np.nanmean(hits, axis=0))
        reported = np.isfinite(hits).mean()
        lines.append(
            f"| {kind} ({hits.shape[1]}) | {records:,} | {label(budget)} | "
            f"{np.nanmean(hits):.3f} | {lowest:.2f} | {reported:.0%} |"
        )
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.moments.figures", description=__doc__)
    parser.add_argument("--replicates", type=int, default=200)
    chosen = parser.parse_args()
    print("| figures | n | budget | coverage | lowest | reported |")
    print("| --- | --- | --- | --- | --- | --- |")
    for records, budget in CELLS:
        print("\n".join(rows(records, budget, chosen.replicates)), flush=True)


if __name__ == "__main__":
    main()
