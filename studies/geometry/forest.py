"""The demo's answer next to the one without noise: ``python -m studies.geometry.forest``.

RAND HIE at (1, 1e-6), with a fixed seed, and the same model without noise; so neither is private.
"""

from pathlib import Path

import numpy as np

import dpinfer as dp


def main(path: Path = Path("docs/figures/rand_forest.png")) -> None:
    """Fit both, and draw."""
    demo = dp.datasets.rand_hie()
    private = dp.LogisticRegression(
        demo.formula, schema=demo.schema, budget=dp.ApproxDP(1.0, 1e-6), insecure_seed=2024
    ).fit(demo.table)
    plain = dp.LogisticRegression(
        demo.formula, schema=demo.schema, budget=dp.NoPrivacy(), penalty=0.0
    ).fit(demo.table)
    result = private.result_
    other = plain.result_
    assert result.geometry is not None
    at = other.contrast(
        np.concatenate([[1.0], result.geometry.centre])
    )  # the intercept at the released centre
    estimate = other.estimate.copy()
    interval = other.conf_int().copy()
    estimate[0] = at.estimate
    interval[0] = (at.low, at.high)
    dp.plot.forest(result, reference=(estimate, interval)).savefig(path)


if __name__ == "__main__":
    main()
