"""The published outcome of a fit: numbers only, never data."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.result import coefficient_table, hypotheses, prediction, saved, text
from dpinfer.result.estimates import Estimates
from dpinfer.result.hypotheses import Contrast, WaldTest
from dpinfer.result.statements import errors_counted, penalty_note

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Estimates):
    """Coefficients with the law of their error.  Everything here is released; every method is
    post-processing.

    ``names`` and ``estimate`` have one entry per coefficient; ``hessian`` and ``score_cov`` are the
    released matrices; ``question`` says what was regressed on what (None for `infer`), ``model``
    what was estimated, ``privacy`` what was promised, ``geometry`` what a fit in one publishes
    beside, ``band`` what least squares does.

    ``status`` has a word for each coefficient, and is empty where all are reported.  A coefficient
    whose status is not `REPORTED` has no interval: its numbers are NaN, its ``estimate`` is a
    working value for predictions only, and ``error`` is the law of the others.  Where the status is
    "open: ...", its column is in the model like any other, and its uncertainty is inside the
    intervals of the others.  ``instead`` has what is known in its place, see `alternatives`;
    ``joint`` is the law of all coefficients together, open ones too, which `contrast`, `wald` and
    `predict` ask.
    """

    def contrast(self, vector: str | npt.ArrayLike, level: float = 0.95) -> Contrast:
        """Estimate and interval, of the given ``level``, of one linear combination of coefficients.

        ``vector`` has one number per coefficient, or is a text such as ``"health[fair] -
        health[good]"``; a reference level counts as 0.  Open coefficients may take part: the
        combination is told where all coefficients together tell it, and is refused with the reasons
        where they do not.
        """
        return hypotheses.contrast(self, vector, level)

    def wald(self, R: str | npt.ArrayLike, r: npt.ArrayLike = 0.0) -> WaldTest:
        """Test R target = r, or equations by names.

        ``R`` is a matrix with ``r`` its right side, or a text: ``"a = b"``, ``"a = b = 0"``, ``"a =
        0, b = 2"``, or the name of a term, ``"health"``, whose reported levels are tested together;
        ``left_out`` names the others.  As in `contrast`, open coefficients may take part where all
        coefficients together tell every row.
        """
        return hypotheses.wald(self, R, r)

    def t_test(self, equation: str, level: float = 0.95) -> Contrast:
        """One equation by names, as in statsmodels: ``"a = b"``, ``"a = 2"``, ``"a"`` for a = 0.

        Estimate and interval, of the given ``level``, of the left side of ``equation`` less the right
        one, and the p-value of the equation.  Several equations at once are a test for `wald`.
        """
        return hypotheses.equation(self, equation, level)

    def odds_ratios(self, level: float = 0.95) -> "pd.DataFrame":
        """Odds ratios of a logistic regression with intervals of the given ``level``, indexed by
        coefficient.

        The intercept has none: exp of it is the odds at the released centre, or at 0.
        """
        return _framed(prediction.odds_ratios(self, level), "name")

    def rate_ratios(self, level: float = 0.95) -> "pd.DataFrame":
        """Rate ratios of a regression of counts, rates or costs, with intervals of the given
        ``level``, indexed by coefficient.

        A rate ratio is by what the mean is multiplied where a column is one higher, or at a level
        instead of its reference.  The intercept has none: exp of it is the rate at the released
        centre.
        """
        return _framed(prediction.rate_ratios(self, level), "name")

    def predict(self, rows: Any, level: float = 0.95) -> "pd.DataFrame":
        """Probabilities (logistic regression), rates (counts) or means in the units of the outcome,
        with their confidence intervals.

        ``rows`` is a table, a dict of columns such as ``{"age": [30, 50], "health": "good"}`` or
        the path of a file, in original units; values beyond their bounds count as the bound, as in
        the fit.  Intervals have the given ``level`` and are about the probability or mean, not
        about a single outcome.  A row that rests on an open coefficient still has an interval where
        all coefficients together tell it; else the interval is infinite, (0, 1) for a probability,
        the prediction is made with the working values, and ``open`` names the coefficients.
        ``target`` says of what: those of a "penalised" fit are of the shrunk coefficients.  Where a
        regression of counts has an exposure, rows that hold it get the mean of the count at that
        exposure, and rows without it the rate per unit of exposure.
        """
        return _framed(prediction.predictions(self, rows, level))

    def margins(self, at: Any = prediction.CENTRE, level: float = 0.95) -> "pd.DataFrame":
        """Marginal effects on the probability or mean, with intervals of the given ``level`` by the
        delta method.

        ``at`` is "centre": effects of single columns where the others are at the released centre, a
        level against its reference; or rows as for `predict`: the average over them, every term
        moving with its column.  A column has the same name in both.  The average over the records of
        the fit would be another release, and is refused.
        """
        return _framed(prediction.margins(self, at, level), "name")

    def warnings(self) -> list[str]:
        """What to know before a number is read: that few records were usable, that the budget
        changed the model.
        """
        return [
            warning
            for warning in (self.too_few, penalty_note(self.model, self.privacy.budget))
            if warning
        ]

    def published(self) -> list[str]:
        """What was released beside the coefficients, in words."""
        statements = []
        if self.geometry is not None:
            statements += [self.geometry.at(self.names), *self.geometry.clippings()]
        if self.band is not None:
            if self.model.counts:
                statements += self.band.of_counts()
            else:
                statements += self.band.statements(self.model.target)
        return statements

    def intercepts(self, level: float = 0.95) -> list[str]:
        """What the intercept is, in words, and the other one where there are two; intervals of the
        given ``level``.
        """
        ordinary = self.ordinary_intercept(level)
        if ordinary is None:
            return []
        if not coefficient_table.is_reported(ordinary):
            counted = f"{ordinary['in_predictions']:.6g}"
            value = f"is {ordinary['status']}; in predictions it counts {counted}"
        else:
            number = text.number(ordinary["estimate"], text.decimals_for(ordinary["std_error"]))
            value = (
                f"is {number} ({100 * level:.4g}% interval {coefficient_table.interval(ordinary)})"
            )
        return [
            f"{self.names[0]} is the linear predictor at the released centre. The ordinary "
            "intercept, where every column is 0 and every factor at its reference, "
            f"{value}."
        ]

    def to_frame(self, level: float = 0.95) -> "pd.DataFrame":
        """The table as a pandas data frame, indexed by coefficient, with intervals of the given
        ``level``.
        """
        return _framed(self.table(level), "name")

    def tidy(self, level: float = 0.95) -> "pd.DataFrame":
        """One row per coefficient, as R's broom has it, with intervals of the given ``level``: term,
        estimate, std_error, statistic, p_value, conf_low, conf_high, noise_share, clipped_to, status.

        The numbers are those of `to_frame`; the term is a column, so that tables of several models
        can be put under each other.
        """
        from dpinfer.result import tidy  # noqa: PLC0415  (loads pandas)

        return tidy.tidy(self, level)

    def glance(self) -> "pd.DataFrame":
        """The fit in one row, as R's broom has it.

        ``nobs`` is the number of records, or units, NaN where it is private; ``usable`` what was
        released of it, noisy: how many could be used or, where rows count by weights, what they
        count together.  ``without_interval`` is the number of coefficients that have none; epsilon,
        delta and rho are those that the budget has.
        """
        from dpinfer.result import tidy  # noqa: PLC0415  (loads pandas)

        return tidy.glance(self)

    def alternatives(self, level: float = 0.95) -> "pd.DataFrame":
        """What is known instead of open coefficients, with intervals of the given ``level``: other
        questions, by name.

        The columns are those of `to_frame` and ``instead_of``, the coefficient that a line stands
        for and is no estimate of: a number clipped to its released range, a level against another
        reference.  It is empty where nothing is known instead.
        """
        columns = [*self.table(level)[0], "instead_of"]
        return _framed(self.instead_rows(level), "name", columns)

    def summary(self, level: float = 0.95) -> str:
        """The regression table as text, with intervals of the given ``level`` and the privacy
        statement under it.
        """
        title = "Differentially private regression"
        if not self.privacy.private:
            title = "Regression, NOT PRIVATE"
        reported = int(self.reported.sum())
        coefficients = f"{len(self.names)}, {reported} of them reported"
        if reported == len(self.names):
            coefficients = f"{reported}, all reported"
        facts = {
            **self.size,
            "Coefficients": coefficients,
            "Target": self.model.target,
            "Penalty": f"c = {self.model.penalty:.6g}" if self.model.penalty else "none",
        }
        question = [f"Model: {self.model.words.name or self.model.loss}."]
        if self.question is not None:
            question = [self.question.asked, *question, " ".join(self.question.sentences())]
        table = coefficient_table.plain_text(self.table_with_alternatives(level), level)
        return text.page(title, (question, facts), table, self._statements(level))

    def _statements(self, level: float) -> list[str]:
        """Return the statements under the table of `summary`."""
        model = self.model
        privacy = self.privacy
        table = self.table_with_alternatives(level)
        bounds = []
        if self.question is not None:
            bounds = ["Bounds: " + "; ".join(self.question.bounds()) + "."]
        of_units = []
        if privacy.neighbours.units:
            of_units = [privacy.scope, coefficient_table.CLUSTERED]
        spent = ", ".join(f"{event.step}: {event.share.amount}" for event in privacy.events)
        return [
            *self.warnings(),
            *coefficient_table.about_missing(table),
            *coefficient_table.about_alternatives(table),
            *coefficient_table.about_bias_bounds(table),
            *self.intercepts(level),
            *self.published(),
            *bounds,
            self.usable,
            f"Fitted by {model.fitted}.",
            f"Estimand: {model.estimand()}.",
            f"Privacy: {privacy.budget}.",
            f"Protects {privacy.unit} (neighbours: {privacy.neighbours.sentence}).",
            f"Spent on {spent}.",
            *of_units,
            errors_counted(privacy.budget),
            *(f"- {caveat}" for caveat in privacy.caveats(model.n, weighted=model.weighted)),
        ]

    def to_markdown(self, level: float = 0.95) -> str:
        """The table in Markdown, with intervals of the given ``level`` and what was asked;
        `dp.report` has the rest.
        """
        return coefficient_table.markdown(self, level)

    def to_latex(self, level: float = 0.95) -> str:
        """The table as a LaTeX tabular, with intervals of the given ``level``; what was asked and
        what is open is printed under it.
        """
        return coefficient_table.latex(self, level)

    def __repr__(self) -> str:
        return coefficient_table.one_line(self)

    def _repr_html_(self) -> str:
        return coefficient_table.html(self, 0.95)

    def to_json(self) -> str:
        """Everything in the result, as one JSON object with a format name and a version.

        No number is a text: null stands where there is none, and the status says why.
        """
        return saved.document(self)

    @classmethod
    def from_json(cls, document: str) -> "FitResult":
        """The inverse of `to_json`, exact to the last bit; ``document`` is the text."""
        result: FitResult = saved.read(document, cls)
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_json` to the file at ``path``: it is whole or not there."""
        try:
            persistence.write(Path(path), self.to_json().encode())
        except OSError as fault:
            raise InputError(
                f"the result cannot be written to {str(path)!r} ({fault.strerror}): check the folder "
                "and its rights"
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "FitResult":
        """The result in the file at ``path`` that `save`, `dp.report.write` or ``dpinfer fit``
        wrote.
        """
        try:
            document = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the result {str(path)!r} cannot be read ({type(fault).__name__}): give the "
                "result.json of a fit"
            ) from None
        return cls.from_json(document)


def _framed(
    rows: Sequence[dict[str, Any]], index: str | None = None, columns: list[str] | None = None
) -> "pd.DataFrame":
    from dpinfer.result.frames import frame_of  # noqa: PLC0415  (loads pandas)

    return frame_of(rows, index, columns)
