"""Which part of the budget the estimate should get: ``python -m studies.split --data FOLDER``.  Not
private.

Mean length of the intervals against the share of the estimate, for each kind of budget, on three
data sets and two losses; the rest pays for both matrices at once.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dpinfer as dp
from studies.common import write
from studies.paper.data import load

DATA = {"adult": "Adult", "bank_dpagd": "Bank", "br": "IPUMS-BR"}
LOSSES: dict[str, dp.Loss] = {"LR": dp.Logistic(), "SVM": dp.HuberHinge(1.0)}
BUDGETS: dict[str, dp.PureDP | dp.ZCDP] = {
    "zCDP, rho = .025": dp.ZCDP(0.025),
    "zCDP, rho = .1875": dp.ZCDP(0.1875),
    "pure, epsilon = 1": dp.PureDP(1.0),
    "pure, epsilon = 4": dp.PureDP(4.0),
}
DEFAULT = {dp.ZCDP: 0.875, dp.PureDP: 0.7}
SHARES = (0.5, 0.6, 0.7, 0.8, 0.875, 0.93)
DIMS = (5, 10, 20)
PENALTY = 1e-3


def plan(budget: dp.PureDP | dp.ZCDP, share: float) -> dp.Plan:
    """The default plan with another split."""
    noise = "laplace" if isinstance(budget, dp.PureDP) else "gaussian"
    first, second, third = budget.split(2 * share, 1 - share, 1 - share)
    return dp.Plan(dp.ObjectivePerturbation(noise), first, second, third, recipe="tight")


def cells(folder: str, replicates: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Budget, data set and the lengths for every share."""
    for data, title in DATA.items():
        for d in DIMS:
            X, y, _ = load(data, folder, d=d, order="select-first")
            for short, loss in LOSSES.items():
                for name, budget in BUDGETS.items():
                    found = {}
                    for share in SHARES:
                        study = dp.simulate.coverage(
                            X,
                            y,
                            loss=loss,
                            penalty=PENALTY,
                            plan=plan(budget, share),
                            replicates=replicates,
                            seed=0,
                        )
                        ratio = study.mean_length / float(study.nonprivate_length.mean())
                        found[str(share)] = {"ratio": ratio, "coverage": study.mean_coverage}
                    yield name, f"{title} {short}, d = {d}", found


def page(results: dict[str, dict[str, Any]], replicates: int) -> str:
    """The results as Markdown."""
    lines = [
        "# The split of the budget",
        "",
        "Written by `python -m studies.split --data FOLDER`; do not edit. Mean length of the intervals over the",
        "non-private one, against the share of the budget that pays for the estimate; c = .001, level .95,",
        f"{replicates} replicates. The rest pays for both matrices at once. **Bold** is the default, from the kind of",
        "budget alone: 87.5 % for zCDP and (ε, δ), 70 % for pure budgets. *Loss* is by how much the default is longer",
        "than the best share of the row; *coverage* is that of the default. Studies are not private.",
    ]
    for name, rows in results.items():
        default = str(DEFAULT[type(BUDGETS[name])])
        shares = list(next(iter(rows.values())))
        titles = [f"**{s}**" if s == default else s for s in shares]
        lines += ["", f"## {name}", "", "| data | " + " | ".join(titles) + " | loss | coverage |"]
        lines.append("| --- " * (len(shares) + 3) + "|")
        for title, found in rows.items():
            lengths = [found[s]["ratio"] for s in shares]
            loss = found[default]["ratio"] / min(lengths) - 1
            numbers = " | ".join(f"{x:.2f}" for x in lengths)
            lines.append(
                f"| {title} | {numbers} | {100 * loss:.0f} % | {found[default]['coverage']:.3f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run every cell and write the results."""
    parser = argparse.ArgumentParser(prog="python -m studies.split", description=__doc__)
    parser.add_argument("--data", required=True, help="folder of the data files")
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("studies/split/results"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {name: {} for name in BUDGETS}
    for name, title, found in cells(options.data, options.replicates):
        results[name][title] = found
        print(
            f"{name}, {title}: {' '.join(format(f['ratio'], '.3f') for f in found.values())}",
            flush=True,
        )
    write(options.out / "split.json", json.dumps(results, indent=1) + "\n")
    write(options.docs / "split.md", page(results, options.replicates))


if __name__ == "__main__":
    main()
