"""The published numbers of a fit: coefficients, the law of their error, combinations of them.

`Estimates` has the fields of a result and what follows from them by arithmetic alone; the other
modules of this room work on it, and `FitResult` is the same with their answers as methods.
`Alternatives` is what is reported instead of coefficients that are not.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpinfer.errors import InputError
from dpinfer.inference import error_laws as laws_of_error
from dpinfer.inference.error_laws import BiasedNormal, ErrorLaw, LawOfError
from dpinfer.inference.joint import BIAS_BOUND, HESSIAN, PRIVACY_NOISE, SAMPLING, Joint
from dpinfer.numerics.arrays import Array
from dpinfer.result.question import Question
from dpinfer.result.statements import (
    MAYBE_UNUSABLE,
    NOT_REPORTED,
    REPORTED,
    UNUSABLE,
    Band,
    Geometry,
    Model,
    Privacy,
    several,
)
from dpinfer.schema.design import INTERCEPT
from dpinfer.schema.follow_up import INTERVAL


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Contrasts reported instead of coefficients that are not, under names that say what they are.

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
        """Return one row per alternative, with the columns of a result's table and ``instead_of``."""
        if not self.names:
            return []
        intervals = self.error.interval(self.estimate, level)
        std_error = np.sqrt(np.diag(self.error.covariance()))
        z_values = self.error.z_values(self.estimate)
        p_values = self.error.p_values(self.estimate)
        shares = self.error.noise_share()
        return [
            {
                "name": self.names[j],
                "estimate": float(self.estimate[j]),
                "std_error": float(std_error[j]),
                "z": float(z_values[j]),
                "p_value": float(p_values[j]),
                "low": float(intervals[j, 0]),
                "high": float(intervals[j, 1]),
                "noise_share": float(shares[j]),
                "clipped_to": "",
                "status": REPORTED,
                "label": self.names[j],
                "instead_of": self.instead_of[j],
            }
            for j in range(len(self.names))
        ]


if TYPE_CHECKING:
    import pandas as pd

AT_ZERO = "(Intercept at 0)"
PEEK = "dpinfer schema check SCHEMA --data TABLE --peek"
"""The command that counts what cannot be used, for the holder of the data."""
_FEWER = 0.05  # a part of the records that is worth a warning where it cannot be used
_MIN_USABLE = 0.5  # of the records: where fewer are usable, that is sure to be why coefficients are not reported
_PARTS = (SAMPLING, PRIVACY_NOISE, BIAS_BOUND, HESSIAN)
_BLOCK = 200  # combinations at once: each block has a square matrix


@dataclass(frozen=True, eq=False)
class Combined:
    """Linear combinations of coefficients, one entry each.

    Where a coefficient takes part that has no interval, the estimate is its value for predictions,
    the other numbers are NaN and the interval is infinite; ``known`` is then False.
    """

    estimate: Array
    std_error: Array
    z: Array
    p_value: Array
    low: Array
    high: Array
    known: npt.NDArray[np.bool_]

    @classmethod
    def unknown(cls, estimate: Array) -> "Combined":
        """Make estimates whose error is not known."""
        n = len(estimate)
        return cls(
            estimate=np.array(estimate, dtype=float),
            std_error=np.full(n, np.nan),
            z=np.full(n, np.nan),
            p_value=np.full(n, np.nan),
            low=np.full(n, -np.inf),
            high=np.full(n, np.inf),
            known=np.zeros(n, dtype=bool),
        )

    def report(
        self, rows: npt.NDArray[np.intp], estimate: Array, law: LawOfError, level: float
    ) -> None:
        """Write the reported estimates of some rows, with their intervals."""
        intervals = law.interval(estimate, level)
        self.estimate[rows] = estimate
        self.std_error[rows] = np.sqrt(np.diag(law.covariance()))
        self.z[rows] = law.z_values(estimate)
        self.p_value[rows] = law.p_values(estimate)
        self.low[rows] = intervals[:, 0]
        self.high[rows] = intervals[:, 1]
        self.known[rows] = True


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """The numbers of a fit, and whose they are; `FitResult` says what each field is."""

    names: tuple[str, ...]
    estimate: Array
    error: LawOfError
    hessian: Array
    score_cov: Array
    model: Model
    privacy: Privacy
    status: tuple[str, ...] = ()
    geometry: Geometry | None = None
    band: Band | None = None
    question: Question | None = None
    instead: Alternatives | None = None
    joint: Joint | None = None

    @property
    def statuses(self) -> tuple[str, ...]:
        """Return the status of each coefficient, also where all are reported."""
        own = self.status or (REPORTED,) * len(self.names)
        if not self.too_few:
            return own
        reason = MAYBE_UNUSABLE if self._usable_share >= _MIN_USABLE else UNUSABLE
        return tuple(REPORTED if status == REPORTED else reason for status in own)

    @property
    def reported(self) -> npt.NDArray[np.bool_]:
        """Return whether each coefficient has a finite interval."""
        return np.array([status == REPORTED for status in self.statuses])

    @property
    def intercept(self) -> bool:
        """Return whether the first coefficient is an intercept."""
        return INTERCEPT in self.names[:1]

    @property
    def absorbed(self) -> range:
        """Return the positions of coefficients that no table has: the intercept, where every person has one."""
        return range(int(self.model.effects))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each coefficient for people, by the labels and units of the schema."""
        if self.question is None:
            return self.names
        labels = self.question.labels()
        return tuple(labels.get(name, name) for name in self.names)

    @property
    def nobs(self) -> float:
        """Return the number of records or units: the public one, or the released noisy one."""
        if self.model.n is not None:
            return float(self.model.n)
        if self.geometry is not None:
            return self.geometry.records
        return math.nan

    @property
    def records(self) -> str:
        """Return the number of records or units in words, and how many of them are usable."""
        n = self.model.n
        if self.geometry is None:
            return f"{n:,}"
        released = f"about {self.geometry.records:,.0f}"
        full = self.model.unit.equal_weights
        if n is None:
            return f"{released} (noisy)" if full else f"{released} (noisy, counted as full ones)"
        if full and self.geometry.records < n:
            return f"{n:,}, {released} of them usable (noisy)"
        return f"{n:,}"

    @property
    def size(self) -> dict[str, str]:
        """Return the same as a fact under its name."""
        if not self.model.unit.many:
            return {"Records": self.records}
        return {"Units": f"{self.records}, {self.privacy.unit} each"}

    @property
    def usable(self) -> str:
        """Return a sentence on how many records could be encoded, as far as that was released."""
        if self.geometry is None:
            return (
                "How many of the records could be encoded was not released; one that could not "
                "counts as a zero row."
            )
        n = self.model.n
        released = self.geometry.records
        unit = self.model.unit
        if unit.every:
            return (
                f"All rows count together as about {released:,.0f} {unit.word} with the mean number of rows, from "
                "the released moments."
            )
        if not unit.equal_weights:
            return (
                f"All rows count together as about {released:,.0f} full {unit.word}, from the "
                "released moments."
            )
        start = f"{unit.word.capitalize()} usable"
        if n is not None and released >= n:
            return f"{start}: all {n:,}, as far as this budget shows."
        number = f"about {released:,.0f}"
        if n is not None:
            number += f" of {n:,}"
        return (
            f"{start}: {number}, from the released moments. A row with a missing value or one that "
            "the schema does not know counts for nothing."
        )

    @property
    def too_few(self) -> str:
        """Return a warning where clearly fewer records were usable than there are, otherwise "".

        It is empty, too, where neither number is released.  A released number below the public one
        is below it by more than its noise.
        """
        share = self._usable_share
        if share > 1 - _FEWER:
            return ""
        n = self.model.n
        assert n is not None
        return (
            f"WARNING: only about {share * n:,.0f} of {n:,} {self.model.unit.word} ({100 * share:.0f} %) "
            "could be used. In the others a value is missing, or does not match the schema: a level "
            "spelled in another way, or a text instead of a number. The result is about the usable "
            f"ones. Look for the reason before you spend more: {PEEK}."
        )

    @property
    def _usable_share(self) -> float:
        """Return the share of the records that were usable; 1 where it was not released."""
        n = self.model.n
        if self.geometry is None or not n or not self.model.unit.equal_weights:
            return 1.0
        return self.geometry.records / n

    @property
    def covariance(self) -> Array:
        """Return the covariance of the estimate: sampling error and privacy noise together.

        It is NaN for coefficients that are not reported.
        """
        kept = self.reported
        matrix = np.full((len(kept), len(kept)), np.nan)
        matrix[np.ix_(kept, kept)] = self.error.covariance()
        return matrix

    @property
    def noise_share(self) -> Array:
        """Return the share of each variance that is not sampling error, from 0 to 1.

        It is privacy noise, with the uncertainty of the Hessian and, where values or scores were
        clipped, the variance of that bias.  `interval_parts` tells these apart.  It is NaN for
        coefficients that are not reported.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression(
        ...     "mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.1), insecure_seed=0
        ... )
        >>> result = model.fit(data.table).result_  # the seed is for examples only
        >>> print([f"{share:.1f}" for share in result.noise_share])
        ['0.5', '0.5']
        """
        return self._spread(self.error.noise_share(), np.nan)

    @property
    def std_error(self) -> Array:
        """Return the standard errors: sampling error and privacy noise together.

        They are NaN for coefficients that are not reported.
        """
        return np.sqrt(np.diag(self.covariance))

    @property
    def _shown(self) -> Array:
        """The estimates; NaN for what has no interval."""
        return np.where(self.reported, self.estimate, np.nan)

    @property
    def _z_values(self) -> Array:
        return self._spread(self.error.z_values(self.estimate[self.reported]), np.nan)

    @property
    def _p_values(self) -> Array:
        return self._spread(self.error.p_values(self.estimate[self.reported]), np.nan)

    @property
    def params(self) -> "pd.Series[float]":
        """Return the estimates by name, as statsmodels calls them.

        They are NaN for coefficients that are not reported.
        """
        return self._series(self._shown, "params")

    @property
    def bse(self) -> "pd.Series[float]":
        """Return the standard errors by name, as statsmodels calls them."""
        return self._series(self.std_error, "bse")

    @property
    def tvalues(self) -> "pd.Series[float]":
        """Return the estimates divided by their standard errors, by name.

        They are NaN also where an interval allows for a bias: the p-value then depends on the bias
        bound, too.
        """
        return self._series(self._z_values, "tvalues")

    @property
    def pvalues(self) -> "pd.Series[float]":
        """Return the two-sided p-values of "this coefficient is 0", by name."""
        return self._series(self._p_values, "pvalues")

    def cov_params(self) -> "pd.DataFrame":
        """Return the covariance matrix of the estimates by name, as statsmodels calls it.

        Returns
        -------
        DataFrame
            Rows and columns are the coefficients; those that are not reported have NaN.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(result.cov_params().round(3))
                     (Intercept)  physlm
        (Intercept)        0.001  -0.001
        physlm            -0.001   0.020
        """
        from dpinfer.result.frames import UncutFrame  # noqa: PLC0415  (loads pandas)

        return UncutFrame(self.covariance, index=list(self.names), columns=list(self.names))

    @overload
    def conf_int(
        self, level: float = ..., alpha: float | None = ..., *, frame: Literal[False] = ...
    ) -> Array: ...

    @overload
    def conf_int(
        self, level: float = ..., alpha: float | None = ..., *, frame: Literal[True]
    ) -> "pd.DataFrame": ...

    def conf_int(
        self, level: float = 0.95, alpha: float | None = None, *, frame: bool = False
    ) -> "Array | pd.DataFrame":
        """Return the confidence intervals.

        Parameters
        ----------
        level : float
            The confidence level, from one half to 1; 0.95 by default.
        alpha : float, optional
            1 - level, as in statsmodels, instead of ``level``.
        frame : bool
            Whether a pandas data frame indexed by coefficient is returned; by default it is an
            array.

        Returns
        -------
        array of shape (d, 2), or DataFrame
            One row (low, high) per coefficient; (-inf, inf) for those that are not reported.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(result.conf_int(frame=True).round(2))
                      low  high
        (Intercept)  2.55  2.67
        physlm       1.73  2.28
        """
        reported = self.error.interval(self.estimate[self.reported], checked(level, alpha))
        intervals = self._spread(reported, [-np.inf, np.inf])
        if not frame:
            return intervals
        from dpinfer.result.frames import UncutFrame  # noqa: PLC0415  (loads pandas)

        return UncutFrame(intervals, index=list(self.names), columns=["low", "high"])

    def interval_parts(self, level: float = 0.95) -> "pd.DataFrame":
        """Return the length of each interval, and how much of it each source of error makes up.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            One row per coefficient, in its units: ``sampling``, ``privacy_noise``, ``bias_bound``,
            ``hessian``, and ``total``, the length of the interval, which is their sum.  Rows of
            coefficients that are not reported are NaN.

        Notes
        -----
        ``sampling`` is the length that sampling error alone would give, ``bias_bound`` what the bound
        of a bias adds to it: by values, scores and outcomes that were clipped, by few events, and by
        what the last step leaves.  ``privacy_noise`` and ``hessian`` are the rest, in proportion to
        their variances: at the same clipping they are what a larger budget can take away.
        ``hessian`` is the uncertainty of the released Hessian, which privacy noise causes too, with
        the prior of the other coefficients.

        In a penalised fit all variance that is not sampling error is privacy noise.  The same holds
        for a result without a penalty that an earlier version saved, as it has no other shares.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression(
        ...     "mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.1), insecure_seed=0
        ... )
        >>> result = model.fit(data.table).result_  # the seed is for examples only
        >>> print(result.interval_parts().round(2))
                     sampling  privacy_noise  bias_bound  hessian  total
        (Intercept)      0.16           0.04        0.05      0.0   0.24
        physlm           0.46           0.11        0.09      0.0   0.65
        """
        from dpinfer.result.frames import UncutFrame  # noqa: PLC0415  (loads pandas)

        return UncutFrame(self.parts_of_lengths(level), index=list(self.names))

    def parts_of_lengths(self, level: float) -> dict[str, Array]:
        """Return the columns of `interval_parts`."""
        law = self.error
        if self.joint is not None and self.joint.terms:
            shares = self.joint.variance_shares(np.eye(len(self.names))[self.reported])
        else:
            noise = law.noise_share()
            shares = {SAMPLING: 1 - noise, PRIVACY_NOISE: noise}
        nothing = np.zeros(len(law.covariance()))
        share_of = {name: shares.get(name, nothing) for name in _PARTS}
        intervals = law.interval(self.estimate[self.reported], checked(level))
        total = intervals[:, 1] - intervals[:, 0]
        # Draws and rounding may put an interval just below the one of a part of its variance.
        sampling = np.minimum(
            -2 * ndtri((1 - level) / 2) * np.sqrt(share_of[SAMPLING] * np.diag(law.covariance())),
            total,
        )
        kept = share_of[SAMPLING] + share_of[BIAS_BOUND]
        without_noise = np.clip(law.length_at(level, kept), sampling, total)
        noisy = share_of[PRIVACY_NOISE] + share_of[HESSIAN]
        of_hessian = share_of[HESSIAN] / np.where(noisy > 0, noisy, 1.0)
        parts = {
            SAMPLING: sampling,
            PRIVACY_NOISE: (total - without_noise) * (1 - of_hessian),
            BIAS_BOUND: without_noise - sampling,
            HESSIAN: (total - without_noise) * of_hessian,
            "total": total,
        }
        return {name: self._spread(part, np.nan) for name, part in parts.items()}

    def interval_shares(self, level: float = 0.95) -> Array:
        """Return the shares of sampling error, bias bound and privacy noise in the length of each
        interval.

        Tables and plots show these.  Privacy noise includes the uncertainty of the Hessian, which the
        same budget decides.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        array of shape (d, 3)
            Rows add up to 1; they are NaN for coefficients that are not reported.
        """
        parts = self.parts_of_lengths(level)
        noise = parts[PRIVACY_NOISE] + parts[HESSIAN]
        columns = np.stack([parts[SAMPLING], parts[BIAS_BOUND], noise], axis=1)
        return np.asarray(columns / parts["total"][:, None])

    def simultaneous(self, level: float = 0.95) -> Array:
        """Return intervals that cover all reported coefficients together.

        Parameters
        ----------
        level : float
            The probability that all intervals cover; 0.95 by default.

        Returns
        -------
        array of shape (d, 2)
            One row (low, high) per coefficient; (-inf, inf) for those that are not reported.

        Notes
        -----
        They are sup-t bands: the estimate plus or minus c standard errors, c the quantile of the
        largest absolute t among draws from the distribution of the error (Montiel Olea and
        Plagborg-Møller, 2019, Simultaneous confidence bands).  Bias bounds are added at the ends.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> low, high = result.simultaneous()[1]
        >>> print(f"{low:.1f} to {high:.1f}")
        1.7 to 2.3
        """
        checked(level)
        if not self.reported.any():
            return self.conf_int(level)
        estimate = self.estimate[self.reported]
        if isinstance(self.error, BiasedNormal):
            band = self.error.band(estimate, level)
        else:
            band = laws_of_error.simultaneous(estimate, self.error, level)
        return self._spread(band, [-np.inf, np.inf])

    @property
    def intervals(self) -> int:
        """Return the number of coefficients of intervals of time, which come last."""
        if not self.model.hazards:
            return 0
        return sum(name.startswith(f"{INTERVAL}[") for name in self.names)

    def weights(self, rows: Array) -> Array:
        """Return for each row of the design's columns, in original units, its combination of the
        coefficients; numbers are winsorised as in the fit.
        """
        return self._linear(rows if self.geometry is None else self.geometry.inside(rows))

    def _linear(self, rows: Array) -> Array:
        """Return the same combinations without winsorising."""
        first = np.ones((len(rows), int(self.intercept)))
        centre = 0.0 if self.geometry is None else self.geometry.centre
        return np.column_stack([first, rows - centre])

    @property
    def clipped_to(self) -> tuple[str, ...]:
        """Return the range to which each number was winsorised, as low..high, or ""."""
        if self.geometry is None:
            return ("",) * len(self.names)
        ranges = self.geometry.ranges()
        return tuple(ranges.get(name, "") for name in self.names)

    def combined(
        self,
        matrix: Array,
        level: float,
        of: Array | None = None,
        absent: npt.NDArray[np.bool_] | None = None,
    ) -> Combined:
        """Estimate combinations of the coefficients, one per row of ``matrix``; or functions of
        them, with the values ``of``, whose gradients these are.

        One that uses a coefficient without an interval is known where the law of all coefficients
        tells it.  ``absent`` marks coefficients whose few events are no fault of a combination.
        """
        kept = self.reported
        value = matrix @ self.estimate if of is None else of
        combined = Combined.unknown(value)
        used = (matrix != 0).any(axis=1)
        of_reported = ~(matrix[:, ~kept] != 0).any(axis=1)
        # A sampled law is asked row by row, so that no row depends on the others.
        sampled = isinstance(self.error, ErrorLaw) and not self.error.closed_form
        size = 1 if sampled else _BLOCK
        for rows in _blocks(np.flatnonzero(used & of_reported), size):
            law = self.error.mapped(matrix[np.ix_(rows, kept)])
            combined.report(rows, value[rows], law, level)
        if self.joint is not None and isinstance(self.error, BiasedNormal):
            if absent is None:
                absent = np.zeros(matrix.shape, dtype=bool)
            self._ask_all(combined, matrix, absent, np.flatnonzero(used & ~of_reported), level)
        return combined

    def _ask_all(
        self,
        combined: Combined,
        matrix: Array,
        absent: npt.NDArray[np.bool_],
        rows: npt.NDArray[np.intp],
        level: float,
    ) -> None:
        """Estimate some of the combinations by the law of all coefficients."""
        assert self.joint is not None
        assert isinstance(self.error, BiasedNormal)
        patterns, which = np.unique(absent[rows], axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            joint = replace(self.joint, few=np.where(pattern, 0.0, self.joint.few))
            for block in _blocks(rows[which.ravel() == k], _BLOCK):
                answers = joint.about(matrix[block], self.error.draws, self.error.seed)
                # A function of the coefficients moves with its gradient.
                moved = answers.estimate - matrix[block] @ self.estimate
                value = combined.estimate[block] + moved
                known = answers.known
                law = answers.law.mapped(np.eye(len(block))[known])
                combined.report(block[known], value[known], law, level)

    def predictors(self, rows: Array, level: float) -> Combined:
        """Estimate the linear predictor at rows of the design's columns, in original units."""
        return self._predicted(self.weights(rows), rows, level)

    def _predicted(self, weights: Array, rows: Array, level: float) -> Combined:
        """Estimate combinations of the coefficients that are predictors of rows."""
        if self.joint is None:
            return self.combined(weights, level)
        # The predictor of a record that does not have a level has nothing of its coefficient in it.
        # Such a level weighs here only because the intercept is that of the centre, so its few
        # events are no fault of this row.
        first = np.zeros((len(rows), int(self.intercept)), dtype=bool)
        absent = np.column_stack([first, rows == 0]) & (self.joint.group >= 0)
        return self.combined(weights, level, absent=absent)

    def unreported_in(self, rows: Array) -> list[tuple[str, ...]]:
        """Return for each row of the design's columns the coefficients without an interval that
        take part in its predictor.

        A level takes part where the row has it.  Where no such one is left, it is those that the
        centre rests on.
        """
        matrix = self.weights(rows)
        weigh = (matrix != 0) & ~self.reported
        first = np.ones((len(rows), int(self.intercept)), dtype=bool)
        levels = np.zeros(len(self.names), dtype=bool)
        if self.joint is not None:
            levels = self.joint.group >= 0
        have = weigh & (np.column_stack([first, rows != 0]) | ~levels)
        named = np.where(have.any(axis=1)[:, None], have, weigh)
        return [tuple(self.names[j] for j in np.flatnonzero(row)) for row in named]

    def ordinary_intercept(self, level: float = 0.95) -> dict[str, Any] | None:
        """Return the intercept where every column is 0, where the fit reports another one.

        A fit without a penalty reports the intercept at a released centre.  This one is that less
        the centre times the slopes, and has an interval where the joint distribution of all
        coefficients determines it.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        dict or None
            A row as in `table`; None where the reported intercept is this one already.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> result.ordinary_intercept() is None
        True
        """
        if self.geometry is None or not self.intercept or self.model.effects:
            return None
        origin = np.zeros((1, len(self.names) - 1))
        # that of the ordinary regression, in which no number is winsorised
        weights = self._linear(origin)
        predictor = self._predicted(weights, origin, checked(level))
        counted = float((weights @ self.estimate)[0])
        if not self.reported.any():
            status = self.statuses[0]
        elif predictor.known[0]:
            status = REPORTED
        elif self.too_few:
            status = MAYBE_UNUSABLE
        else:
            status = f"{NOT_REPORTED}: it depends on {several(self.unreported_in(origin)[0])}"
        if status != REPORTED:  # a line has all of its numbers, or none
            predictor = Combined.unknown(np.array([math.nan]))
        return {
            "name": AT_ZERO,
            "estimate": float(predictor.estimate[0]),
            "std_error": float(predictor.std_error[0]),
            "z": float(predictor.z[0]),
            "p_value": float(predictor.p_value[0]),
            "low": float(predictor.low[0]),
            "high": float(predictor.high[0]),
            "noise_share": math.nan,
            "status": status,
            "label": AT_ZERO,
            "in_predictions": counted,
        }

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return one row per coefficient of the formula; every view is made from these rows.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        list of dict
            name, estimate, std_error, z, p_value, low, high, noise_share, clipped_to, status and
            label.  ``label`` is the name for people, by the labels and units of the schema.
            ``clipped_to`` is the range to which a number was winsorised, because its bounds are
            wider than what this budget can determine; the interval allows for the values beyond.  A
            row whose status is not "reported" has no numbers, an infinite interval, and the reason
            as its status.  ``z`` is NaN where the interval allows for a bias, which the p-value
            then depends on, too.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> row = result.table()[1]
        >>> print(row["name"], f"{row['estimate']:.2f}", row["status"])
        physlm 2.01 reported
        """
        intervals = self.conf_int(level)
        columns = {
            "estimate": self._shown,
            "std_error": self.std_error,
            "z": self._z_values,
            "p_value": self._p_values,
            "low": intervals[:, 0],
            "high": intervals[:, 1],
            "noise_share": self.noise_share,
        }
        rows = []
        for j, (name, status) in enumerate(zip(self.names, self.statuses, strict=True)):
            if j in self.absorbed:
                continue
            numbers = {key: float(column[j]) for key, column in columns.items()}
            words = {"clipped_to": self.clipped_to[j], "status": status, "label": self.labels[j]}
            rows.append({"name": name, **numbers, **words})
        return rows

    def instead_rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the alternatives as rows of `table`, each with the name of the coefficient it
        stands for.
        """
        if self.instead is None:
            return []
        return self.instead.table(checked(level))

    def table_with_alternatives(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the rows of `table`, with an empty ``instead_of``, and under each its
        alternatives.
        """
        others = self.instead_rows(level)
        lines: list[dict[str, Any]] = []
        for row in self.table(level):
            lines.append(row | {"instead_of": ""})
            lines += [other for other in others if other["instead_of"] == row["name"]]
        return lines

    def _series(self, values: Array, name: str) -> "pd.Series[float]":
        import pandas as pd  # noqa: PLC0415  (heavy: loaded when asked for)

        return pd.Series(values, index=list(self.names), name=name)

    def _spread(self, values: Array, otherwise: npt.ArrayLike) -> Array:
        """Place numbers of the reported coefficients among all, with ``otherwise`` for the others."""
        numbers = np.empty((len(self.names), *values.shape[1:]))
        numbers[:] = otherwise
        numbers[self.reported] = values
        return numbers


def _blocks(places: npt.NDArray[np.intp], size: int) -> list[npt.NDArray[np.intp]]:
    return [places[start : start + size] for start in range(0, len(places), size)]


def checked(level: float, alpha: float | None = None) -> float:
    """Return a confidence level, given as such or by alpha = 1 - level."""
    if alpha is not None:
        if level != 0.95:
            raise InputError("give level= or alpha=, not both: alpha is 1 - level")
        level = 1 - alpha
    if not 0 < level < 1:
        raise InputError(
            f"a confidence level lies strictly between 0 and 1, not {level:g}: 0.95 is usual"
        )
    if level < 0.5:
        raise InputError(
            f"a confidence level of {level:g} is below one half: for intervals of level "
            f"{1 - level:g} write level={1 - level:g} or alpha={level:g}"
        )
    return level
