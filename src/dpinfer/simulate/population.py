"""What a study draws from: the records of a data set, or its rows with labels from known probabilities."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.data.source import Rows
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.simulate.draws import bootstrap_counts


@dataclass(frozen=True, repr=False)
class Population:
    """Records with weights that add up to ``n``; a replicate is ``n`` draws with replacement.

    With known truth every row stands twice, with label +1 and with label -1, weighted by the two probabilities.
    """

    rows: Array
    labels: Array
    weights: Array
    positive: Array | None = None

    @classmethod
    def of_records(cls, source: Rows) -> "Population":
        """The bootstrap: each record once."""
        return cls(source.rows, source.labels, np.ones(source.n))

    @classmethod
    def of_truth(cls, X: npt.ArrayLike, truth: Any) -> "Population":
        """Rows of X, labels +1 with probability ``truth(X)`` or ``truth[i]``."""
        rows = Rows.of(X, np.ones(len(np.asarray(X)))).rows
        positive = np.asarray(truth(rows) if callable(truth) else truth, dtype=float)
        if positive.shape != (len(rows),) or not np.all((positive >= 0) & (positive <= 1)):
            raise InputError("truth must give one probability of the label +1 a row of X, between 0 and 1")
        labels = np.repeat([1.0, -1.0], len(rows))
        return cls(np.vstack([rows, rows]), labels, np.concatenate([positive, 1 - positive]), positive)

    @property
    def n(self) -> int:
        """Records in a replicate."""
        return len(self.rows) if self.positive is None else len(self.positive)

    def counts(self, xp: Any, seed: int, replicates: range, device: Any) -> Any:
        """How often each record is drawn, one replicate a row."""
        positive = None if self.positive is None else xp.asarray(self.positive, device=device)
        return bootstrap_counts(xp, seed, replicates, self.n, device, positive)
