"""What a coverage study found."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpinfer import codec
from dpinfer.maths.arrays import Array
from dpinfer.result import text


@dataclass(frozen=True, eq=False)
class Study:
    """What a coverage study found, one number a coefficient.  Not private: computed from the records themselves.

    ``names`` and ``target`` say what was asked for, ``setting`` how; ``level`` and ``seed`` are those asked for.
    ``coverage`` is how often an interval holds what was asked: the ordinary coefficient of all columns or, with a
    penalty, the penalised one.  ``stated_coverage`` is how often it holds what its own fit states: the same regression
    with the released weights, clipped numbers and band.  They differ by what weights and clips do to a coefficient.

    These, ``length`` (a mean) and ``length_sd`` are over the replicates with a finite interval, and ``reported`` is
    their share; ``answered`` is the share that print the line or another one in its stead.  ``nonprivate_length`` is
    the length without noise (NaN if it was not asked for): of a fit without a penalty that of the ordinary regression
    of the whole data set with its sandwich (HC0; CR1 with units), else a mean over the same replicates.
    """

    names: tuple[str, ...]
    target: Array
    coverage: Array
    stated_coverage: Array
    length: Array
    length_sd: Array
    nonprivate_length: Array
    reported: Array
    answered: Array
    replicates: int
    level: float
    seed: int
    setting: str

    @property
    def mean_coverage(self) -> float:
        """Coverage of what was asked, averaged over the coefficients that are ever reported; NaN if there are none."""
        return _mean(self.coverage)

    @property
    def mean_stated_coverage(self) -> float:
        """The same of what was stated."""
        return _mean(self.stated_coverage)

    @property
    def min_coverage(self) -> float:
        """Coverage of the worst coefficient."""
        return float(np.fmin.reduce(self.coverage))

    @property
    def mean_length(self) -> float:
        """Length averaged over the coefficients that are ever reported; NaN if there are none."""
        return _mean(self.length)

    def table(self) -> list[dict[str, Any]]:
        """One row a coefficient."""
        columns = (
            "target", "coverage", "stated_coverage", "length", "length_sd", "nonprivate_length", "reported", "answered",
        )  # fmt: skip
        values = {column: getattr(self, column) for column in columns}
        return [{"name": n, **{c: float(v[j]) for c, v in values.items()}} for j, n in enumerate(self.names)]

    def summary(self) -> str:
        """The table as text, with what was studied under it."""
        error = float(np.sqrt(self.level * (1 - self.level) / self.replicates))
        return text.study(
            self.table(),
            [
                f"Mean coverage of what was asked {self.mean_coverage:.4f}, smallest {self.min_coverage:.4f}, nominal "
                f"{self.level:g} (Monte Carlo error of one coefficient {error:.4f}); of what each fit states "
                f"{self.mean_stated_coverage:.4f}; mean length {self.mean_length:.4g}.",
                f"{self.replicates} replicates, seed {self.seed}; {self.setting}.",
                "NOT PRIVATE: a study reads the records without noise. Do not publish it from sensitive data.",
            ],
        )

    def to_json(self) -> str:
        """The study as a JSON object.  No number is a text: null stands where there is none."""
        return json.dumps(codec.encode(self, null=True), ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, document: str) -> "Study":
        """The inverse of `to_json`; ``document`` is the text, of earlier versions, too, which wrote "nan" for null.

        Earlier versions held every interval against what its fit stated, and knew no lines in another's stead.
        """
        plain = json.loads(document)
        if isinstance(plain, dict) and "stated_coverage" not in plain:
            plain |= {"stated_coverage": plain["coverage"], "answered": plain["reported"]}
        study: Study = codec.decode(plain, {"Study": Study})
        return study


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
