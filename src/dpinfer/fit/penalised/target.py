"""What the intervals are about: the penalised coefficients, or the unpenalised ones, one step back along the Hessian.

    θ* = θ~ + 2c H_f⁻¹ θ~,      H_f = H~ - 2c I,

with the covariance of θ~ formed with H_f.  The noise E of H~ moves the step by -H_f⁻¹ E step, which is counted too.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpinfer.fit.penalised.matrices import Matrices
from dpinfer.maths.arrays import Array
from dpinfer.maths.risk import Risk


@dataclass(frozen=True)
class Aimed:
    """Coefficients and matrices of the target, for one fit or a stack; NaN where the target is not identified.

    ``stepped`` is 2c if the step was taken, else 0; ``step_noise`` the covariance that the noise of the Hessian adds
    through it.
    """

    coef: Array
    matrices: Matrices
    identified: npt.NDArray[np.bool_]
    stepped: float = 0.0
    step_noise: Array | None = None


def aim(target: str, risk: Risk, coef: Array, matrices: Matrices, entry_noise: float) -> Aimed:
    """The target from the released coefficients and matrices.

    ``entry_noise`` is the deviation s of the noise on the diagonal of H~.  Its largest eigenvalue is about s sqrt(2d);
    the step is taken where the smallest eigenvalue of H_f is more than twice that.
    """
    d, two_c = coef.shape[-1], 2 * risk.penalty
    if target == "penalised" or two_c == 0:
        return Aimed(coef, matrices, np.ones(coef.shape[:-1], dtype=bool))
    free = matrices.hessian - two_c * np.eye(d)
    smallest = np.linalg.eigvalsh(np.nan_to_num(free))[..., 0]
    identified = np.asarray(smallest > max(2 * entry_noise * np.sqrt(2 * d), 1e-12))
    free = np.where(identified[..., None, None], free, np.nan)
    inverse = np.linalg.inv(free)
    step = two_c * (inverse @ coef[..., None])[..., 0]
    through = (inverse @ step[..., None])[..., 0]
    length2 = (step**2).sum(axis=-1)[..., None, None]
    noise = entry_noise**2 / 2 * (length2 * inverse @ inverse + through[..., :, None] * through[..., None, :])
    return Aimed(coef + step, replace(matrices, hessian=free), identified, two_c, noise)
