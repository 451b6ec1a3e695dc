"""What a forecast of three designs is told and held against: ``python -m studies.geometry.facts --data FOLDER``.

Means, deviations and shares of the columns, the share of the outcome, and standard errors without noise.  Not private.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer.simulate.stated import to_units
from studies.common import write
from studies.geometry.cell import whole
from studies.geometry.designs import load

DESIGNS = ("rand", "adult_s", "acs_s")


def facts(design: str, folder: Path) -> dict[str, Any]:
    """Those of one design, with six digits."""
    data, full = load(design, folder), whole(design, folder)
    public, means, deviations = data.design, data.x.mean(axis=0), data.x.std(axis=0)
    numbers, levels = {}, {}
    for j, name in enumerate(public.names[1:], 1):
        if public.columns.dummy[j]:
            levels[name] = _digits(means[j])
            continue
        middle, half = public.middle[j], public.half[j]
        numbers[name] = [
            float(middle - half),
            float(middle + half),
            *map(_digits, (middle + half * means[j], half * deviations[j])),
        ]
    matrix = to_units(public, (public.middle + public.half * means)[1:])
    errors = np.sqrt(np.diag(matrix @ full.covariance @ matrix.T))
    return {
        "records": len(data.labels),
        "outcome": _digits((data.labels > 0).mean()),
        "numbers": numbers,
        "levels": levels,
        "std_error": dict(zip(public.names, map(_digits, errors), strict=True)),
    }


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def main() -> None:
    """Write all of them."""
    parser = argparse.ArgumentParser(prog="python -m studies.geometry.facts", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="folder of the data files")
    parser.add_argument("--out", type=Path, default=Path("studies/geometry/results"))
    chosen = parser.parse_args()
    found = {design: facts(design, chosen.data) for design in DESIGNS}
    write(chosen.out / "facts.json", json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
