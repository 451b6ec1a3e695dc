"""A fit in a geometry, written down by hand: four strong columns, the last a dummy."""

import numpy as np

from dpinfer.maths.aside import Fitted
from dpinfer.maths.moments import Scales

NAN = np.full(2, np.nan)
SCALES = Scales(crude=1.0, moments=1.0, ridge=2.0, gradient=2.0, hessian=1.0, score_cov=1.0)
STRONG = Fitted(
    hessian=np.diag([400.0, 300.0, 200.0, 100.0]),
    released=np.diag([400.0, 300.0, 200.0, 100.0]),
    score_cov=np.diag([400.0, 300.0, 200.0, 100.0]),
    coef=np.array([-0.5, 1.0, 0.5, 0.3]),
    gradient=np.array([10.0, -12.0, 6.0, 3.0]),
    back=np.eye(4),
    centre=np.array([1.0, 0.0, 0.1, 0.2]),
    spread=np.array([1.0, 0.5, 0.5, 0.4]),
    ends=np.array([NAN, NAN, NAN, [-0.2, 0.8]]),
    dummy=np.array([False, False, False, True]),
    scales=SCALES,
)
