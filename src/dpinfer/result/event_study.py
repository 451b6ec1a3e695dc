"""Effects by period relative to a start, as combinations of the coefficients of a result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpinfer.inference import error_laws as laws_of_error
from dpinfer.inference.error_laws import BiasedNormal, LawOfError
from dpinfer.numerics.arrays import Array
from dpinfer.result import text as texts
from dpinfer.result.estimates import Estimates, checked
from dpinfer.result.grid import Grid, GridRow, TextLayout

if TYPE_CHECKING:
    import pandas as pd

NOT_REPORTED = "not reported"


@dataclass(frozen=True)
class RelativePeriod:
    """One period relative to a start: the combination of coefficients that is its effect.

    ``label`` is the period in words, such as "3 or later"; ``vector`` has one number per coefficient.
    """

    period: int
    label: str
    vector: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class PeriodEffects:
    """Effects by period relative to a start, compared with the reference period.

    Printed, it is a table.  An effect that this budget does not determine has NaN in the place of its
    numbers.

    Attributes
    ----------
    periods : tuple of int
        The periods relative to the start, without the reference.
    labels : tuple of str
        The same in words: the first and the last stand for all periods beyond, too.
    estimate, std_error : array
        The estimates and their standard errors.
    interval : array of shape (k, 2)
        Pointwise intervals.
    band : array of shape (k, 2)
        Simultaneous intervals, which cover all effects together.
    reference : int or None
        The period that all are compared with; None where it is all periods before the start.
    level : float
        The confidence level.
    shares : dict
        For each cohort its released share, by which effects of cohorts are averaged; empty without
        cohorts.
    """

    periods: tuple[int, ...]
    labels: tuple[str, ...]
    estimate: Array
    std_error: Array
    interval: Array
    band: Array
    reference: int | None
    level: float
    shares: Mapping[int, float]

    @classmethod
    def of(
        cls,
        result: Estimates,
        asked: Sequence[RelativePeriod],
        reference: int | None,
        level: float,
        shares: Mapping[int, float],
    ) -> "PeriodEffects":
        """Return the effects of a result; ``asked`` are in the order of time."""
        checked(level)
        matrix = np.array([one.vector for one in asked], dtype=float)
        found = result.combined(matrix, level)
        estimate = np.where(found.known, found.estimate, np.nan)
        band = np.full((len(asked), 2), np.nan)
        if found.known.any():
            law = _law_of(result, matrix[found.known])
            if isinstance(law, BiasedNormal):
                band[found.known] = law.band(estimate[found.known], level)
            else:
                band[found.known] = laws_of_error.simultaneous(estimate[found.known], law, level)
        ends = np.column_stack([found.low, found.high])
        return cls(
            periods=tuple(one.period for one in asked),
            labels=tuple(one.label for one in asked),
            estimate=estimate,
            std_error=found.std_error,
            interval=np.where(found.known[:, None], ends, np.nan),
            band=band,
            reference=reference,
            level=level,
            shares=dict(shares),
        )

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Return which effects have an interval."""
        return np.asarray(np.isfinite(self.estimate))

    def to_frame(self) -> "pd.DataFrame":
        """Return the effects as a data frame, indexed by the relative period.

        Returns
        -------
        DataFrame
            estimate, std_error, low, high, band_low and band_high.
        """
        import pandas as pd  # noqa: PLC0415  (heavy, and not always needed)

        columns = {
            "estimate": self.estimate,
            "std_error": self.std_error,
            "low": self.interval[:, 0],
            "high": self.interval[:, 1],
            "band_low": self.band[:, 0],
            "band_high": self.band[:, 1],
        }
        return pd.DataFrame(columns, index=pd.Index(self.periods, name="period"))

    def __repr__(self) -> str:
        percent = f"{100 * self.level:.4g}%"
        heads = ("period", "estimate", "std err", f"{percent} interval", f"{percent} band")
        rows = []
        for k, label in enumerate(self.labels):
            if not self.known[k]:
                rows.append(GridRow.of(label, [NOT_REPORTED, "", "", ""]))
                continue
            error = float(self.std_error[k])
            decimals = texts.decimals_for(error)
            cells = [
                texts.number(float(self.estimate[k]), decimals),
                texts.number(error, decimals),
                texts.interval(float(self.interval[k, 0]), float(self.interval[k, 1]), error),
                texts.interval(float(self.band[k, 0]), float(self.band[k, 1]), error),
            ]
            rows.append(GridRow.of(label, cells))
        printed = Grid(heads, tuple(rows)).text(TextLayout(min_names=8, gap=2))
        before = "all periods before the start"
        if self.reference is not None:
            before = f"period {self.reference}"
        notes = [
            f"Compared with {before}. The band covers all effects together, an interval one of them."
        ]
        if self.shares:
            listed = ", ".join(f"{cohort}: {share:.2f}" for cohort, share in self.shares.items())
            notes.append(
                f"Effects of cohorts are averaged by their released shares ({listed}), among the cohorts that have "
                "the period."
            )
        return texts.with_notes(printed, notes)


def _law_of(result: Estimates, matrix: Array) -> LawOfError:
    """Return the joint law of combinations that are known one by one."""
    kept = result.reported
    if not (matrix[:, ~kept] != 0).any() or result.joint is None:
        return result.error.mapped(matrix[:, kept])
    assert isinstance(result.error, BiasedNormal)
    return result.joint.about(matrix, result.error.draws, result.error.seed).law
