"""What the hinge could gain in a private geometry: ``python -m studies.geometry.hinge --data FOLDER``.  Not private.

Lengths over the non-private ones with the geometry of the exact moments and exactly known matrices, for the logistic
loss and the Huberised hinge; and the smallest curvature over the noise of its release.  A bound, not a method.
"""

import argparse
import math
from pathlib import Path

import numpy as np

import dpinfer as dp
from dpinfer.fit.weighted.plan import GeometryPlan
from dpinfer.maths.arrays import Array
from dpinfer.maths.cost import PerturbedObjective
from dpinfer.maths.losses import slope_kind
from dpinfer.maths.minimise import minimise
from dpinfer.maths.moments import preconditioner
from dpinfer.maths.search import boundary
from dpinfer.maths.sums import row_weights
from studies.geometry.designs import load

RIDGE = {"Logistic": 1.0, "HuberHinge": 2.6}
"""λ over σ at which the curvature costs about 3 % of the share (knee 1)."""


def scale_for(loss: dp.Loss, rho: float) -> float:
    """The σ of the third release at ρ, with the ridge in proportion."""
    ratio = loss.curvature_bound / RIDGE[type(loss).__name__]
    least, shape = math.sqrt(2 / rho), slope_kind(loss)
    return boundary(lambda s: PerturbedObjective(s, ratio / s, shape).cost() <= rho, 4 * least, least, 1e-9)[0]


def lengths(design: str, folder: Path, rho: float, loss: dp.Loss) -> tuple[Array, float]:
    """Ratio of each length, and the smallest curvature over twice its largest noise."""
    data = load(design, folder)
    x, y, plan = data.x, data.labels, GeometryPlan(dp.ZCDP(rho))
    (n, d), shares = x.shape, plan.shares
    A = preconditioner(x.T @ x, data.design.columns, n, plan.scales().kappa(d, n))
    u = x @ A.T
    w, scale = row_weights(u), scale_for(loss, shares[2] * rho)

    def totals(coef: Array) -> tuple[float, Array, Array]:
        z = y * (u @ coef)
        hessian = (u * (w * loss.curvature(z))[:, None]).T @ u + 1e-6 * np.eye(d)
        return float(w @ loss.value(z)), (w * y * loss.slope(z)) @ u, hessian

    coef = minimise(totals, np.zeros(d), 1e-3).coef
    scores = u * (w * loss.slope(y * (u @ coef)))[:, None]
    hessian = totals(coef)[2]
    inverse = A.T @ np.linalg.inv(hessian)
    V = scores.T @ scores
    plain, private = (np.diag(inverse @ C @ inverse.T) for C in (V, V + scale**2 * np.eye(d)))
    bound = math.sqrt(2) * 1.0356 / 4 if isinstance(loss, dp.Logistic) else 1.0  # of Σ w f'' u uᵀ in the stack
    noise = bound / math.sqrt(2 * shares[3] * rho)
    return np.sqrt(private / plain), float(np.linalg.eigvalsh(hessian)[0] / (noise * math.sqrt(2 * d)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.geometry.hinge", description=__doc__)
    parser.add_argument("--data", required=True, type=Path)
    folder = parser.parse_args().data
    for design in ("rand", "adult_s", "bank_s"):
        for rho in (0.0175, 0.1875):
            for loss in (dp.Logistic(), dp.HuberHinge(1.0)):
                ratio, clear = lengths(design, folder, rho, loss)
                found = f"length {np.median(ratio):.2f} (largest {ratio.max():.1f}), curvature {clear:.2f} of its noise"
                print(f"{design}, rho = {rho}, {type(loss).__name__}: {found}")


if __name__ == "__main__":
    main()
