"""The figures of a description as a value: released numbers of columns, each with an interval."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpinfer.result.statements import NOT_REPORTED, REPORTED, Privacy
from dpinfer.schema.columns import Column, Level
from dpinfer.schema.unit import Unit

if TYPE_CHECKING:
    import pandas as pd

RECORDS = "records"
MISSING = "missing"
MEAN = "mean"
SD = "sd"
Q25 = "q25"
MEDIAN = "median"
Q75 = "q75"
COUNT = "count"
SHARE = "share"
DIFFERENCE = "difference"
TOO_FEW_RECORDS = f"{NOT_REPORTED}: too few usable records at this budget"
FIGURE_TOO_NOISY = f"{NOT_REPORTED}: too noisy at this budget"


@dataclass(frozen=True)
class Figure:
    """One number of a description, with its interval.

    ``level`` is None for the figures of a number and of a whole column, else a level as it is
    declared, True for yes or no.  ``group`` is the level of the grouping column that the figure is
    about, and None for all records.  A ``figure`` "difference" is the mean or the share of a group
    less that of the first group.  ``status`` is `REPORTED`, or says why there is no interval.
    """

    column: str
    level: Level | None
    figure: str
    estimate: float
    low: float
    high: float
    status: str = REPORTED
    group: Level | None = None

    @property
    def reported(self) -> bool:
        """Whether it has an interval."""
        return self.status == REPORTED


@dataclass(frozen=True, repr=False)
class Figures:
    """All figures of a description, what is public about the columns, and what was promised.

    ``columns`` are those that are described, with what is public about them; ``by`` names the
    grouping column, empty where there is none, and ``groups`` are its levels.  ``confidence`` is
    the level of the intervals, ``n`` the number of records or units where it is public; ``derived``
    names the columns that stand in no table, ``by_label`` is the label of the grouping column, if the
    schema has one.
    """

    figures: tuple[Figure, ...]
    columns: tuple[Column, ...]
    by: str
    groups: tuple[Level, ...]
    confidence: float
    n: int | None
    unit: Unit
    privacy: Privacy
    derived: tuple[str, ...] = ()
    by_label: str = ""

    @property
    def shown_groups(self) -> tuple[Level | None, ...]:
        """Return the groups that have figures, all records (None) first."""
        there = {one.group for one in self.figures}
        return tuple(group for group in (None, *self.groups) if group in there)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per figure; every view is made from these rows."""
        rows = []
        for one in self.figures:
            row: dict[str, Any] = {"column": one.column, "level": one.level}
            if self.by:
                row["group"] = one.group
            row |= {
                "figure": one.figure,
                "estimate": one.estimate,
                "low": one.low,
                "high": one.high,
                "status": one.status,
            }
            rows.append(row)
        return rows

    def to_frame(self) -> "pd.DataFrame":
        """Return the figures as a pandas data frame.

        Returns
        -------
        DataFrame
            column, level, group, figure, estimate, low, high and status, one row per figure; level
            and group are None where there is none.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> table1 = dp.describe(data.table, data.schema, dp.NoPrivacy(), columns=["health"])
        >>> frame = table1.to_frame()  # the noise is off, for examples only
        >>> shares = frame[frame["figure"] == "share"].set_index("level")["estimate"]
        >>> print({level: f"{share:.2f}" for level, share in shares.items()})
        {'excellent': '0.55', 'good': '0.36', 'fair': '0.08', 'poor': '0.01'}
        """
        import pandas as pd  # noqa: PLC0415  (it is loaded when asked for)

        from dpinfer.result.frames import frame_of  # noqa: PLC0415  (loads pandas)

        rows = self.rows()
        frame = frame_of(rows)
        for name in ("level", "group"):
            if name in frame.columns:  # beside texts pandas would take None for NaN
                frame[name] = pd.Series([row[name] for row in rows], dtype=object)
        return frame
