"""A moment release: a file that answers every linear model of its features, at no further cost."""

import base64
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.inference import moment_answers
from dpinfer.inference.error_laws import BiasedNormal, folded_quantile
from dpinfer.inference.moment_answers import Answer, MomentEstimate, ReleasedSums
from dpinfer.inference.moment_geometry import MomentGeometry
from dpinfer.inference.moment_instruments import Instrumented
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical
from dpinfer.persistence import FileNames
from dpinfer.privacy import entries
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result import text
from dpinfer.result.estimates import checked
from dpinfer.result.question import Question
from dpinfer.result.result import FitResult
from dpinfer.result.statements import (
    FAR_RECORDS,
    NOT_REPORTED,
    REPORTED,
    TOO_NOISY,
    Model,
    Privacy,
    Words,
    weighing,
)
from dpinfer.schema.columns import Outcome
from dpinfer.schema.features import Features
from dpinfer.schema.formula import parse, parse_features
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import explained
from dpinfer.schema.unit import Unit

Mask = npt.NDArray[np.bool_]
FORMAT = "dpinfer.MomentRelease"
VERSION = 1
_NAMES = entries.NAMES | FileNames(
    {
        "MomentGeometry": MomentGeometry,
        "NoPrivacy": NoPrivacy,
        "Privacy": Privacy,
        "ReleasedSums": ReleasedSums,
        "Unit": Unit,
    },
    keys={Privacy: {"in_ledger": "booked"}},
)
_FLOATS = "<f8"
_WIDTH: Numerical[int] = 80
_DRAWS: Numerical[int] = 10_000
TOO_NOISY_FIGURE = f"{NOT_REPORTED}: its columns vary too little to be told from noise"
WEAK_INSTRUMENTS = f"{NOT_REPORTED}: the instruments are too weak for an interval"
NO_EFFECT_FITS = (
    f"{NOT_REPORTED}: no effect fits all instruments, so that one of them acts in another way, too"
)
_ABOUT = (
    "the coefficients of ordinary least squares, with all columns of the formula, every record once, values clipped to "
    "their declared bounds; records that are far out in the released features count less"
)


@dataclass(frozen=True)
class MomentFigure:
    """A mean, covariance, correlation or R² of a moment release, with its interval.

    Attributes
    ----------
    name : str
        What it is a figure of.
    estimate : float
        The estimate; NaN where it is not reported.
    std_error : float
        Its standard error, sampling and privacy noise together.
    low, high : float
        The ends of the interval at its level.  It allows for what clipping may have changed.
    status : str
        ``"reported"``, or why there is no interval.
    clipped_to : dict of names and ranges
        The columns of this figure that are clipped to a released range.
    """

    name: str
    estimate: float
    std_error: float
    low: float
    high: float
    status: str = REPORTED
    clipped_to: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.status != REPORTED:
            return f"{self.name}: {self.status}"
        places = text.decimals_for(self.std_error)
        shown = (text.number(value, places) for value in (self.estimate, self.low, self.high))
        return "{}: {}, from {} to {}".format(self.name, *shown)


@dataclass(frozen=True)
class InstrumentedEffect(MomentFigure):
    """The effect of an endogenous column by instruments, with the set of Anderson and Rubin.

    Attributes
    ----------
    name, clipped_to
        As of every figure.
    estimate, std_error : float
        Those of two-stage least squares; the standard error holds only where instruments are strong.
    low, high : float
        The ends of the smallest interval around the set: infinite where it has no end, NaN where it is empty.
    status : str
        ``"reported"`` where the set is one interval, or why it is not.
    intervals : tuple of (low, high)
        The set of the effects that are not rejected, from the lowest: one interval, two rays, the whole
        line or nothing.  It holds the effect with its level however weak the instruments are.
    first_stage : float
        The F statistic of the instruments in the first stage, privacy noise counted.
    """

    intervals: tuple[tuple[float, float], ...] = ()
    first_stage: float = math.nan

    @classmethod
    def of(
        cls,
        name: str,
        fit: Instrumented,
        level: float,
        clipped: Mapping[str, tuple[float, float]],
    ) -> "InstrumentedEffect":
        """Return the effect with its set at a level."""
        intervals = fit.intervals(level)
        low, high = (intervals[0][0], intervals[-1][1]) if intervals else (math.nan, math.nan)
        status = REPORTED
        if not intervals:
            status = NO_EFFECT_FITS
        elif not math.isfinite(low + high):
            status = WEAK_INSTRUMENTS
        return cls(
            name,
            fit.effect,
            fit.std_error,
            low,
            high,
            status,
            clipped,
            intervals,
            fit.first_stage,
        )

    def __str__(self) -> str:
        strength = f"first-stage F {text.number(self.first_stage, 1)}"
        if self.status == REPORTED:
            return f"{super().__str__()}; {strength}"
        places = text.decimals_for(self.std_error)
        rays = [
            f"{'up to' if math.isinf(low) else 'from'} {text.number(high if math.isinf(low) else low, places)}"
            for low, high in self.intervals
            if math.isfinite(low) or math.isfinite(high)
        ]
        fits = f"; effects {' and '.join(rays)} are not rejected" if rays else ""
        return f"{self.name}: {self.status}{fits}; {strength}"


@dataclass(frozen=True, eq=False, repr=False)
class MomentRelease:
    """One release of the moments of declared features: every linear model of them is answered for free.

    `dpinfer.release_moments` makes it, and `dpinfer.moments` reads a saved one.  Everything in it is
    released: answers are post-processing, cost nothing, and may be asked without end.

    Attributes
    ----------
    declared : str
        The features, as they were declared.
    schema : Schema
        The public side of the table.
    n : int or None
        The public number of records or, with ids, of units.
    privacy : Privacy
        The guarantee: the budget, the unit, the releases and the id in the ledger.
    sums : ReleasedSums
        The released sums and the law of their noise.
    geometry : MomentGeometry
        The radius of the geometry, with its price.
    clipped : dict of names and ranges
        The numbers that are clipped to a released range, since their bounds reach far beyond their
        records.  The interval of such a slope includes a bound of the bias.

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> release = dp.release_moments(
    ...     data.table, schema=data.schema, columns="mdvis + physlm + disea", budget=dp.NoPrivacy()
    ... )
    >>> print([f"{slope:.2f}" for slope in release.ols("mdvis ~ physlm").estimate])
    ['2.61', '2.01']
    """

    declared: str
    schema: Schema
    n: int | None
    privacy: Privacy
    sums: ReleasedSums
    geometry: MomentGeometry
    clipped: Mapping[str, tuple[float, float]]

    @cached_property
    def features(self) -> Features:
        """The declared features."""
        return Features(parse_features(self.declared, self.schema))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released columns, the intercept first."""
        return self.features.names

    @property
    def price(self) -> float:
        """The privacy noise of any slope, as a multiple of its sampling variance."""
        return self.geometry.price

    def __repr__(self) -> str:
        number = "a private number of" if self.n is None else f"{self.n:,}"
        return (
            f"<MomentRelease of {len(self.names) - 1} columns, {number} records, {self.privacy.budget}, "
            f"answers worth {self.geometry.effective:,.0f} records without noise>"
        )

    @property
    def _unit(self) -> Unit:
        """Return the unit, of which each counts alike: a release of moments cannot let every row count."""
        return self.schema.unit.averaged

    @property
    def weight_loss(self) -> float | None:
        """The share of the weight of all records that far and incomplete ones have lost; None where n is private.

        It is released with noise, and at least 0.
        """
        if self.n is None or not self._unit.equal_weights:
            return None
        return max(1 - self.sums.weight / self.n, 0.0)

    def summary(self) -> str:
        """Return what the release is and what its answers are worth, as text.

        Returns
        -------
        str
            A page of 80 columns, to print.

        Examples
        --------
        The noise is off, for examples only.

        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> release = dp.release_moments(
        ...     data.table, schema=data.schema, columns="mdvis + physlm + disea", budget=dp.NoPrivacy()
        ... )
        >>> print(release.summary().splitlines()[0].strip())
        Moment release, NOT PRIVATE
        """
        title = "Differentially private moment release"
        if not self.privacy.private:
            title = "Moment release, NOT PRIVATE"
        head = text.with_notes(
            title.center(_WIDTH).rstrip(), [f"Columns: {', '.join(self.names[1:])}."], _WIDTH
        )
        return f"{head}\n{text.with_notes('=' * _WIDTH, self.notes(), _WIDTH)}"

    def notes(self) -> list[str]:
        """Return what a reader of answers has to know, in sentences.

        Returns
        -------
        list of str
            Size, price, what is clipped, the promise, and what intervals mean.
        """
        unit = self._unit
        size = unit.size(self.n)
        found = [f"{size[0].upper()}{size[1:]}. {_promise(self.privacy)}"]
        if not isinstance(self.privacy.budget, NoPrivacy):
            found.append(
                f"Price {self.price:.2f}: intervals are about {math.sqrt(1 + self.price):.2f} times as long as without "
                f"noise, as if from {self.geometry.effective:,.0f} {unit.word}."
            )
        if unit.many:
            found += [f"{one}." for one in weighing(unit)]
        lost = self.weight_loss
        if lost is not None:
            found.append(
                f"Records that are far out or incomplete have lost {100 * lost:.1f} % of the weight."
            )
        if self.clipped:
            found.append(f"Clipped to released ranges: {_ranges(self.clipped)}.")
        found += [
            "Every regression, mean and correlation of these columns is post-processing: it costs nothing.",
            "An interval of 95 % is for a model that was fixed before looking; for models chosen by "
            "their results there is the any-model band.",
            *(f"{one[0].upper()}{one[1:]}" for one in self.privacy.caveats(self.n)),
        ]
        return found

    def ols(self, formula: str) -> FitResult:
        """Regress one feature on others by least squares.

        Parameters
        ----------
        formula : str
            Such as ``"hours ~ age + sex"``.  It may use any declared column as the outcome, another
            reference level as ``C(region, 'west')``, and merged levels.

        Returns
        -------
        FitResult
            Coefficients in original units with heteroscedasticity-robust intervals (HC0, White, 1980);
            with ids they are cluster-robust (Liang and Zeger, 1986).

        Raises
        ------
        InputError
            If the formula uses what is neither a declared column nor made of declared columns.

        Notes
        -----
        Each interval is made for a model that was fixed before looking: one that was chosen because of
        what others showed has no such promise.
        """
        if not isinstance(formula, str):
            raise InputError("a formula is a text, such as 'hours ~ age + sex'")
        response, terms = parse(formula, self._schema_of(formula))
        if not terms.intercept:
            raise InputError("a moment release answers models with an intercept: drop the -1 or 0")
        if terms.offset is not None:
            raise InputError(
                "a moment release has no offset: subtract it as I(y - x), and declare that"
            )
        names, columns = self.features.columns(terms)
        outcome = self.features.outcome(response)
        levels = np.array([self._is_level(row) for row in columns])
        answer = moment_answers.regression(self.sums, columns, outcome, levels)
        status = self._statuses(columns, outcome, answer.too_noisy, answer.too_biased())
        reported = np.flatnonzero([one == REPORTED for one in status])
        law = self.law(answer, _seed(formula))
        derived = self.schema.derived_from(
            column.name for column in (*response.columns, *terms.columns)
        )
        return FitResult(
            names=names,
            estimate=answer.coef,
            error=law.mapped(np.eye(len(names))[reported]),
            hessian=answer.second,
            score_cov=answer.score_cov,
            model=self._model(self._clipped(outcome, *columns)),
            privacy=self.privacy,
            status=tuple(status),
            question=Question.of_formula(formula, response, terms, derived),
        )

    def any_model_band(self, formula: str, level: float = 0.95) -> Array:
        """Return intervals that hold for every slope of every regression at once, however it was chosen.

        Parameters
        ----------
        formula : str
            As for `ols`.
        level : float
            The chance that all slopes of all models of this release are inside; 0.95 by default.

        Returns
        -------
        array of shape (d, 2)
            One row (low, high) per coefficient; (-inf, inf) for those that are not reported.

        Notes
        -----
        With p features they are about sqrt(p) times as long as usual intervals, which hold for a model
        that was fixed before looking: |bᵀE a| <= ‖E‖ ‖a‖ ‖b‖ for the error matrix E, whose norm is that
        of a random symmetric matrix.  This is proved to first order for normal records and exact
        whitening, and an approximation else; the intercept has no such promise.

        Examples
        --------
        The noise is off, for examples only.

        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> release = dp.release_moments(
        ...     data.table, schema=data.schema, columns="mdvis + physlm + disea", budget=dp.NoPrivacy()
        ... )
        >>> band = release.any_model_band("mdvis ~ physlm")
        >>> usual = release.ols("mdvis ~ physlm").conf_int()
        >>> print(f"{(band[1, 1] - band[1, 0]) / (usual[1, 1] - usual[1, 0]):.1f}")
        2.5
        """
        factor = moment_answers.any_model_factor(len(self.names), checked(level))
        result = self.ols(formula)
        usual = result.conf_int(0.95)
        z = float(ndtri(0.975))
        middle = result.estimate[:, None]
        # bias bounds are part of the usual intervals, and only made longer
        return np.asarray(middle + (usual - middle) * max(factor / z, 1.0))

    @staticmethod
    def law(answer: Answer, seed: int = 0) -> BiasedNormal:
        """Return the law of the error of all coefficients of an answer; the seed is that of its draws."""
        return BiasedNormal(answer.sampling, answer.noise, answer.bias, answer.bias, _DRAWS, seed)

    def mean(self, column: str, level: float = 0.95) -> MomentFigure:
        """Estimate the mean of a column; of a yes/no column or a level it is a share.

        Parameters
        ----------
        column : str
            A declared column, such as ``"hours"`` or ``"sex[f]"``.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        MomentFigure
            The mean, with an interval that counts sampling and noise.
        """
        return self._of_columns("mean of {}", moment_answers.mean, level, _straight, column)

    def covariance(self, first: str, second: str, level: float = 0.95) -> MomentFigure:
        """Estimate the covariance of two columns; of a column with itself it is its variance.

        Parameters
        ----------
        first, second : str
            Declared columns.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        MomentFigure
            The covariance, with its interval.
        """
        name = "covariance of {} and {}"
        return self._of_columns(name, moment_answers.covariance, level, _straight, first, second)

    def correlation(self, first: str, second: str, level: float = 0.95) -> MomentFigure:
        """Estimate the correlation of two columns.

        Parameters
        ----------
        first, second : str
            Declared columns.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        MomentFigure
            The correlation, with an interval by Fisher's z.
        """
        _require_two(first, second)
        name = "correlation of {} and {}"
        return self._of_columns(name, moment_answers.correlation, level, _fisher, first, second)

    def partial_correlation(
        self, first: str, second: str, given: str, level: float = 0.95
    ) -> MomentFigure:
        """Estimate the correlation of two columns given others.

        Parameters
        ----------
        first, second : str
            Declared columns.
        given : str
            The others, as on the right side of a formula: ``"age + region"``.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        MomentFigure
            The partial correlation, with an interval by Fisher's z.
        """
        _require_two(first, second)
        pair = self._column(first), self._column(second)
        if not given.strip():
            raise InputError(
                "name the other columns, as in given='age'; without any it is the correlation"
            )
        _, others = self.features.columns(parse_features(given, self.schema))
        for name, one in zip((first, second), pair, strict=True):
            if any(np.array_equal(one, other) for other in others):
                raise InputError(
                    f"{name} is given, so that nothing of it is left: leave it out of given="
                )
        found = moment_answers.partial_correlation(self.sums, *pair, others, self.geometry.radius2)
        name = f"correlation of {first} and {second} given {given}"
        return self._figure(name, found, level, _fisher, *pair, *others)

    def r_squared(self, formula: str, level: float = 0.95) -> MomentFigure:
        """Estimate the share of the variance that a regression explains.

        Parameters
        ----------
        formula : str
            As for `ols`.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        MomentFigure
            R², with an interval on the scale of its logit.
        """
        response, terms = parse(formula, self._schema_of(formula))
        if not terms.blocks:
            raise InputError("R² is about columns that explain the outcome: name one after ~")
        _, columns = self.features.columns(terms)
        outcome = self.features.outcome(response)
        coef = self.ols(formula).estimate
        found = moment_answers.r_squared(self.sums, columns, outcome, coef, self.geometry.radius2)
        return self._figure(f"R² of {formula}", found, level, _logit, outcome, *columns)

    def iv(self, formula: str, level: float = 0.95) -> InstrumentedEffect:
        """Estimate the effect of an endogenous column by instruments.

        Parameters
        ----------
        formula : str
            As R's ``ivreg`` has it, ``"wage ~ schooling + age | distance + age"``: exogenous columns stand
            on both sides of the bar, the endogenous one on its left alone, instruments on its right alone.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        InstrumentedEffect
            Two-stage least squares, with the set of Anderson and Rubin (1949).

        Raises
        ------
        InputError
            If there is no instrument, or not exactly one endogenous column.

        Notes
        -----
        The set holds the effect with its level however weak the instruments are, and is long or unbounded
        where they are.  That an instrument acts on the outcome through the endogenous column alone cannot
        be seen in any data.

        Examples
        --------
        The noise is off, for examples only.

        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> release = dp.release_moments(
        ...     data.table, schema=data.schema, columns="mdvis + lncoins + idp + disea", budget=dp.NoPrivacy()
        ... )
        >>> found = release.iv("mdvis ~ disea + idp | lncoins + idp")
        >>> len(found.intervals)
        1
        """
        left, bar, right = formula.partition("|")
        if not bar:
            raise InputError(
                "write the instruments after a bar, with the exogenous columns once more: 'y ~ x + w | z + w'"
            )
        response, terms = parse(left, self._schema_of(left))
        if not terms.intercept or terms.offset is not None:
            raise InputError("a moment release answers models with an intercept, and has no offset")
        names, columns = self.features.columns(terms)
        _, known = self.features.columns(parse_features(right, self.schema))
        exogenous = [any(np.array_equal(row, other) for other in known) for row in columns]
        ours = [not any(np.array_equal(row, other) for other in columns) for row in known]
        endogenous = [k for k, one in enumerate(exogenous) if not one]
        if len(endogenous) != 1 or not any(ours):
            raise InputError(
                "one column must stand on the left of the bar alone, and one instrument or more on its right alone: "
                f"there are {len(endogenous)} and {sum(ours)}"
            )
        (place,) = endogenous
        outcome = self.features.outcome(response)
        if any(np.array_equal(row, outcome) for row in known):
            raise InputError("the outcome is no instrument: leave it out on the right of the bar")
        used = np.vstack([columns[exogenous], known[ours]])
        levels = np.array([self._is_level(row) for row in used])
        found = Instrumented(
            self.sums, outcome, columns[place], columns[exogenous], known[ours], levels
        )
        clipped = self._clipped(outcome, *columns, *known)
        name = f"effect of {names[place]} on {response.name}"
        return InstrumentedEffect.of(name, found, checked(level), clipped)

    def to_json(self) -> str:
        """Return the release as a JSON document.

        Returns
        -------
        str
            Everything that answers need, and nothing else.
        """
        fields = {
            "format": FORMAT,
            "version": VERSION,
            "declared": self.declared,
            "schema": self.schema.document(),
            "n": self.n,
            "privacy": persistence.encode(self.privacy, _NAMES),
            "sums": persistence.encode(replace(self.sums, same=(), fourth=np.zeros(0)), _NAMES),
            "fourth": base64.b64encode(self.sums.fourth.astype(_FLOATS).tobytes()).decode(),
            "geometry": persistence.encode(self.geometry, _NAMES),
            "clipped": {name: list(ends) for name, ends in self.clipped.items()},
        }
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, document: str) -> "MomentRelease":
        """Read a release that `to_json` wrote.

        Parameters
        ----------
        document : str
            The document.

        Returns
        -------
        MomentRelease
            The same release.

        Raises
        ------
        InputError
            If it is no moment release, or of another version of the format.
        """
        if not is_moment_release(document):
            raise InputError("this is no moment release: dp.release_moments(...).save() writes one")
        fields = json.loads(document)
        version = fields.get("version")
        if version != VERSION:
            raise InputError(
                f"this moment release is of version {version} of the format, and this dpinfer reads version {VERSION}: "
                "read it with the dpinfer that wrote it"
            )
        try:
            schema = Schema.of_document(fields["schema"])
            features = Features(parse_features(fields["declared"], schema))
            # up to two million numbers: as decimals they would take seconds to read
            fourth = np.frombuffer(base64.b64decode(fields["fourth"], validate=True), _FLOATS)
            sums = replace(
                persistence.decode(fields["sums"], _NAMES), fourth=fourth.astype(np.float64)
            )
            if not sums.fits(len(features)):
                raise ValueError("its sums do not fit its columns")
            return cls(
                declared=fields["declared"],
                schema=schema,
                n=fields["n"],
                privacy=persistence.decode(fields["privacy"], _NAMES),
                sums=replace(sums, same=tuple(features.same_products())),
                geometry=persistence.decode(fields["geometry"], _NAMES),
                clipped={name: (low, high) for name, (low, high) in fields["clipped"].items()},
            )
        except (KeyError, TypeError, ValueError) as fault:
            raise InputError(f"the moment release cannot be read: {fault}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release into a file, which may be published.

        Parameters
        ----------
        path : path
            Where to write it; a file that is there is replaced, once the new one is complete.
        """
        persistence.write(Path(path), self.to_json().encode())

    def _of_columns(
        self,
        name: str,
        estimate: Callable[..., MomentEstimate],
        level: float,
        scale: "_Scale",
        *columns: str,
    ) -> MomentFigure:
        """Return a figure of some columns; ``name`` has a place for each of them."""
        features = [self._column(column) for column in columns]
        found = estimate(self.sums, *features, self.geometry.radius2)
        return self._figure(name.format(*columns), found, level, scale, *features)

    def _figure(
        self, name: str, found: MomentEstimate, level: float, scale: "_Scale", *used: Array
    ) -> MomentFigure:
        """Return a figure with its interval on a scale where it is about normal.

        The bound of what clipping changed is taken as a bias of unknown sign, as in `BiasedNormal`.
        """
        level = checked(level)
        clipped = self._clipped(*used)
        if math.isnan(found.value):
            return MomentFigure(
                name, math.nan, math.nan, math.nan, math.nan, TOO_NOISY_FIGURE, clipped
            )
        away = folded_quantile(found.bias / found.std_error, level) * found.std_error
        low, high = scale(found.value, away)
        return MomentFigure(name, found.value, found.std_error, low, high, clipped_to=clipped)

    def _clipped(self, *used: Array) -> dict[str, tuple[float, float]]:
        """Return the ranges of the clipped numbers that some combinations are made of."""
        mask = np.any(np.array(used) != 0, axis=0)
        names = [name for name, is_used in zip(self.names, mask, strict=True) if is_used]
        return {name: self.clipped[name] for name in names if name in self.clipped}

    def _schema_of(self, formula: str) -> Schema:
        """Return the schema in which outcomes are columns like others, but for the one on the left of ~."""
        left = formula.partition("~")[0].strip().strip("`")
        columns = {
            name: explained(column) if isinstance(column, Outcome) and name != left else column
            for name, column in self.schema.columns.items()
        }
        return Schema(columns, self.schema.unit, derived=self.schema.derived)

    def _is_level(self, row: Array) -> bool:
        chosen = np.flatnonzero(row)
        return (
            bool(len(chosen))
            and bool((self.sums.half[chosen[chosen > 0]] == 1.0).all())
            and bool((self.sums.middle[chosen[chosen > 0]] == 0.0).all())
        )

    def _column(self, name: str) -> Array:
        """Return a declared column, or the reference level of a factor, as a combination of features."""
        if name in self.names:
            return np.asarray(np.eye(len(self.names))[self.names.index(name)])
        return self.features.named(name)

    def _statuses(self, columns: Array, outcome: Array, noisy: Mask, biased: Mask) -> list[str]:
        found = []
        for row, too_noisy, too_biased in zip(columns, noisy, biased, strict=True):
            if not (too_noisy or too_biased):
                found.append(REPORTED)
                continue
            clipped = [
                name
                for name, used in zip(self.names, (row != 0) | (outcome != 0), strict=True)
                if used and name in self.clipped
            ]
            if too_biased and clipped:
                low, high = self.clipped[clipped[0]]
                found.append(FAR_RECORDS.format(low=low, high=high))
            else:
                found.append(TOO_NOISY)
        return found

    def _model(self, clipped: Mapping[str, tuple[float, float]]) -> Model:
        about = _ABOUT
        if clipped:
            about += f"; {_ranges(clipped)} are clipped, and intervals include a bound of the bias that this leaves"
        return Model(
            loss="squared error",
            penalty=0.0,
            n=self.n,
            target="ordinary",
            mechanism="one Gaussian release of moments",
            recipe="moments",
            of="residual",
            unit=self._unit,
            words=Words(
                name="least squares from released moments",
                about=about,
                method="least squares from one release of moments, docs/moments.md of dpinfer.",
            ),
        )


def _require_two(first: str, second: str) -> None:
    if first == second:
        raise InputError("a correlation is that of two columns: name another one")


def is_moment_release(document: str) -> bool:
    """Return whether a document says that it is a moment release."""
    try:
        return bool(json.loads(document)["format"] == FORMAT)
    except (KeyError, TypeError, ValueError):
        return False


def moments(path: str | os.PathLike[str]) -> MomentRelease:
    """Read a moment release that `MomentRelease.save` wrote.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    MomentRelease
        The release, which answers as the one that was saved.

    Raises
    ------
    InputError
        If the file cannot be read, or is no moment release.
    """
    try:
        document = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"the moment release {str(path)!r} cannot be read: there is no such file. "
            "Make one with `dpinfer moments release`"
        ) from None
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(f"the moment release {str(path)!r} cannot be read: {fault}") from None
    return MomentRelease.from_json(document)


def _ranges(clipped: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{name} to {low:.4g}..{high:.4g}" for name, (low, high) in clipped.items())


def _promise(privacy: Privacy) -> str:
    return f"{str(privacy.budget)[0].upper()}{str(privacy.budget)[1:]}; protects {privacy.unit}."


def _seed(formula: str) -> int:
    """Return a seed of the draws of bands and tests: a function of the question alone."""
    return sum((k + 1) * byte for k, byte in enumerate(formula.encode())) % 2**31


_Scale = Callable[[float, float], tuple[float, float]]
"""From an estimate, and how far its interval reaches to both sides, to the ends of the interval."""


def _straight(value: float, away: float) -> tuple[float, float]:
    return value - away, value + away


def _fisher(value: float, away: float) -> tuple[float, float]:
    """Return the interval of a correlation r by z = artanh r (Fisher, 1915)."""
    z, reach = math.atanh(value), away / (1 - value**2)
    return math.tanh(z - reach), math.tanh(z + reach)


def _logit(value: float, away: float) -> tuple[float, float]:
    """Return the interval of a share by its logit; one that may be 0 or 1 has that end instead.

    Near 0 a share of variance is no smooth function of moments, and the logit has no meaning.
    """
    if value <= away or value >= 1 - away:
        return max(value - away, 0.0), min(max(value, 0.0) + away, 1.0)
    middle = math.log(value / (1 - value))
    reach = away / (value * (1 - value))
    return 1 / (1 + math.exp(reach - middle)), 1 / (1 + math.exp(-reach - middle))
