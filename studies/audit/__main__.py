"""The same black-box audit of diffprivlib and of dpinfer: ``python -m studies.audit --peer
VENV/bin/python``.

diffprivlib lives in an environment of its own; `peer.py` draws there, this program judges both
alike.
"""

import argparse
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpinfer as dp
from dpinfer.audit import Alarms, alarms, released, representable
from dpinfer.mechanisms.sums import BoundedSum, shrunk
from dpinfer.rows.source import Rows
from studies.common import write

HERE = Path(__file__).parent
PURE, APPROX = dp.PureDP(1.0), dp.ApproxDP(0.5, 0.2)
CLAIMS: dict[str, Any] = {
    "Laplace": PURE,
    "Gaussian": APPROX,
    "GaussianAnalytic": APPROX,
    "LogisticRegression": PURE,
    "LogisticRegression, intercept": PURE,
    "LinearRegression": PURE,
    "LogisticRegression, one class": PURE,
}


def best_linear(on: Any, off: Any) -> tuple[Any, Any]:
    """The direction that separates every other run best, coordinates clipped to their middle 96 %;
    then all runs.
    """
    train = np.vstack([on[::2], off[::2]])
    ends = np.quantile(train, [0.02, 0.98], axis=0)
    on, off = (np.clip(side, *ends) for side in (on, off))
    spread = np.cov(on[::2].T).reshape(on.shape[1], -1) + np.cov(off[::2].T).reshape(
        on.shape[1], -1
    )
    spread = spread + 1e-9 * (np.trace(spread) + 1e-9) * np.eye(len(spread))
    direction = np.linalg.solve(spread, on[::2].mean(axis=0) - off[::2].mean(axis=0))
    return on @ direction, off @ direction


def judged(raw: Any, claim: Any, level: float | None = None) -> dict[str, Any]:
    """Limits of both alarms at 99.5 % each."""
    if isinstance(raw, str):
        return {"failed": raw}
    on, off = (np.asarray(side, dtype=float) for side in raw)
    first, second = best_linear(on, off) if level is None else (on[:, 0], off[:, 0])
    seen = alarms(first, second, claim, level=level)
    return shown(seen, len(on) if level is not None else len(on) // 2)


def shown(seen: Alarms, runs: int) -> dict[str, Any]:
    """For the file."""
    return {
        "true": seen.true,
        "false": seen.false,
        "allowed": seen.bound,
        "refuted": seen.refuted,
        "runs": runs,
    }


def impossible(raw: Any, claim: Any, one: float) -> dict[str, Any]:
    """How often a release of 0 is a double that no noise added to 1, as it is stored, gives; next
    to a release of 1.
    """
    exact = np.array([one])
    on, off = (
        np.array([float(not representable(np.array(v), exact)[0]) for v in side])
        for side in raw[::-1]
    )
    return shown(alarms(on, off, claim, level=0.5), len(on)) | {
        "events": [int(on.sum()), int(off.sum())]
    }


def value(share: Any, side: float) -> list[float]:
    """A sum of one number in [0, 1], 0 or 1, through the gate."""
    source = Rows.of([[(side + 1) / 2]], [1.0])
    return [
        float(v)
        for v in released(
            share, BoundedSum(lambda block: block.rows.sum(axis=0), 1.0), source
        ).value
    ]


def ours(runs: int) -> dict[str, Any]:
    """Raw statistics of dpinfer on the same neighbours."""

    def steep(side: float) -> list[float]:
        X = np.vstack([np.tile([0.0, 1.0], (400, 1)), [side * np.cos(0.35), np.sin(0.35)]])
        y = np.append(np.ones(400), -1.0)
        return [
            float(v)
            for v in dp.infer(X, y, loss=dp.Logistic(), penalty=1 / 401, budget=PURE).estimate
        ]

    def straight(side: float) -> list[float]:
        X, y = np.append(np.zeros(7), 1.0)[:, None], np.append(np.zeros(7), side)
        return [
            float(v) for v in dp.infer(X, y, loss=dp.Huber(0.2), penalty=4.0, budget=PURE).estimate
        ]

    def one_class(side: float) -> list[float]:
        X, y = np.tile([0.0, 1.0], (401, 1)), np.append(np.ones(400), side)
        try:
            dp.infer(X, y, loss=dp.Logistic(), penalty=1 / 401, budget=PURE)
        except dp.DpinferError:
            return [1.0]
        return [0.0]

    cases: dict[str, tuple[Callable[[float], list[float]], Any, float | None]] = {
        "a sum with Laplace noise": (lambda side: value(PURE, side), PURE, None),
        "a sum with Gaussian noise": (lambda side: value(APPROX.zcdp(), side), APPROX, None),
        "dp.infer, logistic": (steep, PURE, None),
        "dp.infer, Huber": (straight, PURE, None),
        "dp.infer, logistic, one class": (one_class, PURE, 0.5),
    }
    found = {}
    for name, (draw, claim, level) in cases.items():
        raw = [[draw(side) for _ in range(runs)] for side in (1.0, -1.0)]
        found[name] = judged(raw, claim, level)
        if name.startswith("a sum"):
            found[f"{name}, impossible doubles"] = impossible(raw, claim, shrunk(1))
    return found


def peer(python: str, runs: int) -> tuple[str, dict[str, Any]]:
    """The same of diffprivlib."""
    command = [python, str(HERE / "peer.py"), str(runs)]
    raw = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    found = {}
    for name, claim in CLAIMS.items():
        found[name] = judged(raw["cases"][name], claim, 0.5 if name.endswith("one class") else None)
        if name in ("Laplace", "Gaussian", "GaussianAnalytic"):
            found[f"{name}, impossible doubles"] = impossible(raw["cases"][name], claim, 1.0)
    return raw["version"], found


def table(found: dict[str, Any]) -> list[str]:
    """Rows of a table."""
    lines = [
        "| what | false alarms at most | true alarms at least | allowed | runs judged | verdict |",
        "| --- " * 6 + "|",
    ]
    for name, case in found.items():
        if "failed" in case:
            lines.append(f"| {name} | | | | | did not run |")
            continue
        words = "**refuted**" if case["refuted"] else "not refuted"
        events = f" ({case['events'][0]} against {case['events'][1]})" if "events" in case else ""
        numbers = " | ".join(f"{100 * case[key]:.1f} %" for key in ("false", "true", "allowed"))
        lines.append(f"| {name} | {numbers} | {case['runs']} | {words}{events} |")
    return lines


def main() -> None:
    """Run both, write the page and the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer", required=True, help="the Python of an environment with diffprivlib"
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    asked = parser.parse_args()
    version, theirs = peer(asked.peer, asked.runs)
    found = {
        "runs": asked.runs,
        "diffprivlib": {"version": version, "cases": theirs},
        "dpinfer": ours(asked.runs),
    }
    write(HERE / "results/audit.json", json.dumps(found, indent=1) + "\n")
    words = (HERE / "words.md").read_text(encoding="utf-8")
    page = words.format(
        runs=f"{asked.runs:,}",
        version=version,
        theirs="\n".join(table(theirs)),
        ours="\n".join(table(found["dpinfer"])),
    )
    write(asked.docs / "audit.md", page)


if __name__ == "__main__":
    main()
