"""What is known instead of open coefficients: of a clipped number, against another reference."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.error_laws import BiasedNormal
from dpinfer.result.statements import REPORTED


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Lines that answer another question than the one that is open, under names that say which.

    ``instead_of`` names, of each, the coefficient it stands for; ``error`` is the law of the error
    of ``estimate``.
    """

    names: tuple[str, ...]
    instead_of: tuple[str, ...]
    estimate: Array
    error: BiasedNormal

    def __len__(self) -> int:
        return len(self.names)

    def table(self, level: float) -> list[dict[str, Any]]:
        """One row per line, with the columns of a result's table and ``instead_of``."""
        if not self.names:
            return []
        intervals = self.error.interval(self.estimate, level)
        std_error = np.sqrt(np.diag(self.error.covariance()))
        p_values = self.error.p_values(self.estimate)
        shares = self.error.noise_share()
        return [
            {
                "name": self.names[j],
                "estimate": float(self.estimate[j]),
                "std_error": float(std_error[j]),
                "z": float(self.estimate[j] / std_error[j]),
                "p_value": float(p_values[j]),
                "low": float(intervals[j, 0]),
                "high": float(intervals[j, 1]),
                "noise_share": float(shares[j]),
                "status": REPORTED,
                "instead_of": self.instead_of[j],
            }
            for j in range(len(self.names))
        ]
