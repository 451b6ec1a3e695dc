"""The published outcome of a fit: numbers only, never data."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.result import coefficient_table, hazards, hypotheses, prediction, saved, text
from dpinfer.result.absent import no_attribute
from dpinfer.result.estimates import Estimates
from dpinfer.result.hypotheses import Contrast, WaldTest
from dpinfer.result.readable_units import about_units
from dpinfer.result.statements import errors_counted, penalty_note

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Estimates):
    """The coefficients of a fit, with the distribution of their error.

    Everything in a result is released: every method is post-processing and costs nothing.

    Attributes
    ----------
    names : tuple of str
        The names of the coefficients.
    estimate : array
        One estimate per coefficient; of a coefficient that is not reported, a working value for
        predictions only.
    error : LawOfError
        The distribution of target - estimate, for the reported coefficients.
    hessian : array
        The released Hessian.
    score_cov : array
        The released covariance of the scores.
    model : Model
        What was estimated, by which method, with which penalty.
    privacy : Privacy
        The guarantee: the budget, the unit, the releases and the id in the ledger.
    status : tuple of str
        One status per coefficient, or empty where all are reported: "reported", or the reason why
        not. The column of a coefficient that is not reported is in the model like any other, and
        its uncertainty is inside the intervals of the others.
    geometry : Geometry or None
        The released centre, ranges and moments of a fit without a penalty.
    band : Band or None
        How least squares and Poisson regression clip outcomes.
    question : Question or None
        The formula, and what is public about its columns; None for `infer`.
    instead : Alternatives or None
        What is known instead of coefficients that are not reported: see `alternatives`.
    joint : Joint or None
        The joint distribution of all coefficients, those that are not reported included:
        `contrast`, `wald` and `predict` use it.

    Notes
    -----
    The covariance is the sandwich H⁻¹ΣH⁻¹/n (White, 1980; with units the cluster-robust one of
    Liang and Zeger, 1986, times n/(n - 1)) plus that of the privacy noise.  Where clipping leaves a
    bias that is only bounded, the interval is the shortest around the middle of the bounds that
    covers at its level whatever the bias.

    Examples
    --------
    The noise is off, for examples only.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> result = model.fit(data.table).result_
    >>> result.names
    ('(Intercept)', 'physlm')
    >>> print([f"{estimate:.2f}" for estimate in result.estimate])
    ['2.61', '2.01']
    >>> print([f"{error:.2f}" for error in result.std_error])
    ['0.03', '0.14']
    """

    def contrast(self, vector: str | npt.ArrayLike, level: float = 0.95) -> Contrast:
        """Estimate one linear combination of coefficients, with its interval.

        Coefficients that are not reported may take part: their joint distribution may determine the
        combination though it does not determine each of them.

        Parameters
        ----------
        vector : str or array of shape (d,)
            A text such as ``"health[fair] - health[good]"``, in which a reference level counts as
            0; or one number per coefficient.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        Contrast
            ``estimate``, ``std_error``, ``low``, ``high`` and ``p_value``.

        Raises
        ------
        InputError
            If a name is unknown, or the combination is not determined at this budget.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.PoissonRegression("mdvis ~ health", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> found = result.contrast("health[fair] - health[good]")
        >>> print(f"{found.estimate:.2f} ({found.low:.2f} to {found.high:.2f})")
        0.24 (0.16 to 0.33)
        """
        return hypotheses.contrast(self, vector, level)

    def wald(self, R: str | npt.ArrayLike, r: npt.ArrayLike = 0.0) -> WaldTest:
        """Test linear restrictions R θ = r, or equations between coefficients.

        Parameters
        ----------
        R : str or array of shape (k, d)
            A text: ``"a = b"``, ``"a = b = 0"``, ``"a = 0, b = 2"``, or the name of a term,
            ``"health"``, whose reported levels are tested together; or a matrix.
        r : float or array of shape (k,)
            The right side of a matrix; 0 by default.

        Returns
        -------
        WaldTest
            ``statistic``, ``df``, ``p_value``, the coefficients ``tested``, and those ``left_out``
            because they are not reported.

        Raises
        ------
        InputError
            If a name is unknown, rows are linearly dependent, or a row is not determined at this
            budget.

        Notes
        -----
        The statistic is (Rθ̂ - r)ᵀ(RVRᵀ)⁻¹(Rθ̂ - r), V the covariance of the estimate.  The p-value
        is that of the chi-square distribution only where the error is normal and without a bias
        bound; otherwise it is the share of draws from the distribution of the error that reach the
        statistic.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.PoissonRegression("mdvis ~ health", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> test = result.wald("health")
        >>> print(test.df, f"{test.statistic:.1f}")
        3 162.9
        """
        return hypotheses.wald(self, R, r)

    def t_test(self, equation: str, level: float = 0.95) -> Contrast:
        """Test one equation between coefficients, as in statsmodels.

        Parameters
        ----------
        equation : str
            ``"a = b"``, ``"a = 2"``, or ``"a"`` for a = 0; several equations are a test for `wald`.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        Contrast
            ``estimate``, ``std_error``, ``low`` and ``high`` of the left side less the right side,
            and the ``p_value`` of the equation.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> test = result.t_test("physlm = 2")
        >>> print(f"{test.estimate:.2f} ({test.low:.2f} to {test.high:.2f}), p = {test.p_value:.2f}")
        0.01 (-0.27 to 0.28), p = 0.96
        """
        return hypotheses.equation(self, equation, level)

    def odds_ratios(self, level: float = 0.95) -> "pd.DataFrame":
        """Return the odds ratios of a logistic regression, with their intervals.

        The intercept has no odds ratio: exp of it is the odds at the released centre, or where
        every column is 0.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            odds_ratio, low, high, p_value and status, indexed by coefficient.

        Raises
        ------
        InputError
            If the model is no logistic regression.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> plan = dp.GeometryPlan(dp.NoPrivacy())  # the noise is off, for examples only
        >>> model = dp.LogisticRegression("visit ~ physlm", schema=data.schema, plan=plan)
        >>> ratios = model.fit(data.table).result_.odds_ratios()
        >>> print(f"{ratios.loc['physlm', 'odds_ratio']:.2f}")
        1.63
        """
        return _framed(prediction.odds_ratios(self, level), "name")

    def rate_ratios(self, level: float = 0.95) -> "pd.DataFrame":
        """Return the rate ratios of a Poisson regression, with their intervals.

        A rate ratio is the factor of the mean where a column is one higher, or at a level instead
        of its reference.  The intercept has none: exp of it is the rate at the released centre.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            rate_ratio, low, high, p_value and status, indexed by coefficient.

        Raises
        ------
        InputError
            If the model is no Poisson regression.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.PoissonRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(f"{result.rate_ratios().loc['physlm', 'rate_ratio']:.2f}")
        1.77
        """
        return _framed(prediction.rate_ratios(self, level), "name")

    def hazard_ratios(self, level: float = 0.95) -> "pd.DataFrame":
        """Return the hazard ratios of a hazard regression, with their intervals.

        A hazard ratio is the factor of the hazard where a column is one higher, or at a level instead of
        its reference.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            hazard_ratio, low, high, p_value and status, indexed by coefficient; the intervals of time are in
            `baseline`.

        Raises
        ------
        InputError
            If the model is no hazard regression.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.cohort()
        >>> model = dp.HazardRegression(data.formula, schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(f"{result.hazard_ratios().loc['treated', 'hazard_ratio']:.2f}")
        0.64
        """
        return _framed(hazards.hazard_ratios(self, level), "name")

    def baseline(self, rows: Any = None, level: float = 0.95) -> "pd.DataFrame":
        """Return the hazard in each interval of time of a hazard regression, with its interval.

        Parameters
        ----------
        rows : table, dict of columns or path, optional
            The covariates in original units; by default they are at the released centre.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            row, start, end, hazard, low, high and status, one row per row and interval: events per unit of time.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.cohort()
        >>> model = dp.HazardRegression(data.formula, schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> person = {"age": 60, "stage": "II", "treated": True}
        >>> print(result.baseline(person)[["start", "end", "hazard", "low", "high"]].head(2).round(3))
           start  end  hazard    low   high
        0    0.0  1.0   0.052  0.049  0.056
        1    1.0  2.0   0.062  0.058  0.066
        """
        return _framed(hazards.baseline(self, rows, level))

    def predict_survival(
        self, rows: Any, times: Sequence[float], level: float = 0.95
    ) -> "pd.DataFrame":
        """Predict the probability to survive, with intervals, from a hazard regression.

        Parameters
        ----------
        rows : table, dict of columns or path
            The covariates in original units, such as ``{"age": [30, 50], "sex": "f"}``; they stay as they
            are over time.
        times : sequence of float
            Times above 0, up to the horizon of the fit.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            row, time, survival, low, high and status, one row per row and time.

        Notes
        -----
        S(t) = exp(-Σ h_k e_k), e_k the time until t in interval k.  The interval is that of the logarithm of
        the cumulated hazard, by the delta method.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.cohort()
        >>> model = dp.HazardRegression(data.formula, schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> persons = {"age": [60, 60], "stage": "II", "treated": [True, False]}
        >>> print(result.predict_survival(persons, [5])[["survival", "low", "high"]].round(2))
           survival   low  high
        0      0.72  0.71  0.74
        1      0.61  0.59  0.62
        """
        return _framed(hazards.survival(self, rows, times, level))

    def predict(self, rows: Any, level: float = 0.95) -> "pd.DataFrame":
        """Predict probabilities, rates or means of the outcome, with their intervals.

        Parameters
        ----------
        rows : table, dict of columns or path
            The rows in original units, such as ``{"age": [30, 50], "health": "good"}``; values
            beyond their bounds count as the bound, as in the fit.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            prediction, std_error, low, high, status, open and target, one row per row.  Where the
            interval is not determined at this budget it is infinite, (0, 1) for a probability;
            ``open`` then names the coefficients that are not reported, and the prediction uses
            their working values.

        Notes
        -----
        An interval is one of the probability or mean, not of a single outcome.  With ``target``
        "penalised" the predictions are those of the shrunk coefficients.  Where a Poisson
        regression has an exposure, rows that hold it get the mean of the count at that exposure,
        and rows without it the rate per unit of exposure.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(result.predict({"physlm": [0.0, 1.0]})[["prediction", "low", "high"]].round(2))
           prediction   low  high
        0        2.61  2.55  2.67
        1        4.62  4.35  4.89
        """
        return _framed(prediction.predictions(self, rows, level))

    def margins(self, at: Any = prediction.CENTRE, level: float = 0.95) -> "pd.DataFrame":
        """Return marginal effects on the probability or mean, with intervals by the delta method.

        Parameters
        ----------
        at : "centre", table, dict of columns or path
            "centre", the default: effects of single columns where the others are at the released
            centre, a level against its reference.  Rows as for `predict`: the average over them,
            every term moving with its column.
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            effect, std_error, p_value, low, high and status, indexed by column.

        Raises
        ------
        InputError
            If the average over the records of the fit is asked for, which would be another release,
            or the centre of a fit that released none.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.PoissonRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(result.margins({"physlm": [0.0, 1.0]})[["effect", "low", "high"]].round(2))
                effect   low  high
        name
        physlm    2.06  1.76  2.36
        """
        return _framed(prediction.margins(self, at, level), "name")

    def warnings(self) -> list[str]:
        """Return warnings to read before any number.

        Returns
        -------
        list of str
            That few records were usable, or that a budget without a δ led to a penalised model;
            empty where there is nothing to say.
        """
        return [
            warning
            for warning in (self.too_few, penalty_note(self.model, self.privacy.budget))
            if warning
        ]

    @property
    def _nothing_usable(self) -> bool:
        """Whether nothing is reported where records could not be used: then no number says anything."""
        return bool(self.too_few) and not self.reported.any()

    def published(self) -> list[str]:
        """Return sentences about what was released beside the coefficients."""
        statements = []
        if self.geometry is not None:
            if not self._nothing_usable and not self.model.effects:
                statements.append(self.geometry.at(self.names))
            statements += self.geometry.clippings(within=self.model.effects)
        if self.band is not None:
            if self.model.counts:
                statements += self.band.of_counts()
            else:
                statements += self.band.statements(self.model.target)
        return statements

    def intercepts(self, level: float = 0.95) -> list[str]:
        """Return sentences that explain the intercept, with intervals of the given ``level``."""
        ordinary = self.ordinary_intercept(level)
        if ordinary is None or self._nothing_usable:
            return []
        what = "The ordinary intercept, with every column at 0 and every factor at its reference,"
        if not coefficient_table.is_reported(ordinary):
            counted = f"{ordinary['in_predictions']:.6g}"
            what = f"{what} counts {counted} in predictions."
            value = f"It is {ordinary['status']}"
        else:
            number = text.number(ordinary["estimate"], text.decimals_for(ordinary["std_error"]))
            value = (
                f"is {number} ({100 * level:.4g}% interval {coefficient_table.interval(ordinary)})"
            )
        return [f"{self.names[0]} is the linear predictor at the released centre. {what} {value}."]

    def to_frame(self, level: float = 0.95) -> "pd.DataFrame":
        """Return the table of coefficients as a pandas data frame.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            The columns of `table` but the label, indexed by coefficient.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(result.to_frame(level=0.9)[["estimate", "low", "high"]].round(2))
                     estimate   low  high
        name
        (Intercept)      2.61  2.56  2.66
        physlm           2.01  1.77  2.24
        """
        return _framed(self.table(level), "name", _columns(self.table(level)[0]))

    def tidy(self, level: float = 0.95) -> "pd.DataFrame":
        """Return one row per coefficient, as R's broom has it.

        The numbers are those of `to_frame`; the term is a column, so that tables of several models
        can be stacked.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            term, estimate, std_error, statistic, p_value, conf_low, conf_high, noise_share,
            clipped_to, status and label.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(result.tidy()[["term", "estimate", "std_error"]].round(2))
                  term  estimate  std_error
        0  (Intercept)      2.61       0.03
        1       physlm      2.01       0.14
        """
        from dpinfer.result import tidy  # noqa: PLC0415  (loads pandas)

        return tidy.tidy(self, level)

    def glance(self) -> "pd.DataFrame":
        """Return the fit in one row, as R's broom has it.

        Returns
        -------
        DataFrame
            Model, target, outcome and formula; ``nobs``, the number of records or units, NaN where
            it is private; ``usable``, the released number of usable ones, noisy, or the sum of
            their weights; ``coefficients`` and how many are ``without_interval``; epsilon, delta
            and rho of the budget; unit, neighbours, and whether the fit is private and booked.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> print(result.glance()[["nobs", "coefficients", "private"]])
              nobs  coefficients  private
        0  20190.0             2    False
        """
        from dpinfer.result import tidy  # noqa: PLC0415  (loads pandas)

        return tidy.glance(self)

    def alternatives(self, level: float = 0.95) -> "pd.DataFrame":
        """Return what is known instead of the coefficients that are not reported.

        Each row answers another question, which its name states: a number clipped to its released
        range, or a level against another reference.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        DataFrame
            The columns of `to_frame`, and ``instead_of``: the coefficient that the row stands for,
            and is no estimate of.  It is empty where nothing is known instead.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> list(result.alternatives().columns)[-1]
        'instead_of'
        """
        columns = [*_columns(self.table(level)[0]), "instead_of"]
        return _framed(self.instead_rows(level), "name", columns)

    def summary(self, level: float = 0.95, *, full: bool = False) -> str:
        """Return the table of coefficients as text, with the privacy statement under it.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.
        full : bool
            Whether all statements are under the table; by default the most important ones are, in
            ten lines at most.

        Returns
        -------
        str
            A page of 80 columns, to print.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> "NOT PRIVATE" in result.summary()
        True
        """
        title = "Differentially private regression"
        if not self.privacy.private:
            title = "Regression, NOT PRIVATE"
        reported = int(self.reported.sum())
        count = len(self.names) - len(self.absorbed)
        coefficients = f"{count}, {reported} of them reported"
        if reported == count:
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
        question = [*self.warnings(), *question]
        table = coefficient_table.plain_text(self, level)
        statements = self._statements(level)
        if not full:
            statements = text.essential(self._in_short(level))
        return text.page(title, (question, facts), table, statements)

    def _in_short(self, level: float) -> list[str]:
        """Return one line per fact that a reader needs at once, the most important first."""
        privacy = self.privacy
        intercept = self.intercept_at_0(level)
        promise = f"Protects {privacy.unit} ({privacy.neighbours.sentence})."
        return [
            *privacy.alarms(self.model.n),
            f"Privacy: {privacy.budget}.",
            promise,
            *coefficient_table.in_short(self.table_with_alternatives(level)),
            *about_units(self, self.table_with_alternatives(level)),
            f"Estimand: {self.model.estimand_in_short}.",
            errors_counted(privacy.budget),
            *([f"Intercept with every column at 0: {intercept}."] if intercept else []),
            *([self.geometry.winsorised()] if self.geometry and self.geometry.clipped else []),
            self.usable,
        ]

    def intercept_at_0(self, level: float = 0.95) -> str:
        """Return the ordinary intercept with its interval, where the fit reports another.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        str
            The number and its interval, such as "0.42 (0.31 to 0.53)"; empty where the fit reports
            no other intercept, or this one is not known.
        """
        ordinary = self.ordinary_intercept(level)
        if ordinary is None or not coefficient_table.is_reported(ordinary):
            return ""
        number = text.number(ordinary["estimate"], text.decimals_for(ordinary["std_error"]))
        return f"{number} ({coefficient_table.interval(ordinary)})"

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
            *coefficient_table.about_missing(table),
            *coefficient_table.about_alternatives(table),
            *coefficient_table.about_bias_bounds(table),
            *about_units(self, table),
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
        """Return the table of coefficients in Markdown, with the question above it.

        `dp.report.markdown` has all statements, too.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        str
            The text of the table.
        """
        return coefficient_table.markdown(self, level)

    def to_latex(self, level: float = 0.95) -> str:
        """Return the table of coefficients as a LaTeX tabular.

        Parameters
        ----------
        level : float
            The confidence level; 0.95 by default.

        Returns
        -------
        str
            The tabular; the question and the coefficients that are not reported are named under it.
        """
        return coefficient_table.latex(self, level)

    if not TYPE_CHECKING:  # a type checker would then find every name here

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        return coefficient_table.one_line(self)

    def _repr_html_(self) -> str:
        return coefficient_table.html(self, 0.95)

    def to_json(self) -> str:
        """Return everything in the result as one JSON object, with a format name and a version.

        Returns
        -------
        str
            The JSON text.  Where there is no number it has null, and the status gives the reason.
        """
        return saved.document(self)

    @classmethod
    def from_json(cls, document: str) -> "FitResult":
        """Read a result from its JSON text, exact to the last bit.

        Parameters
        ----------
        document : str
            The text that `to_json` returned.

        Returns
        -------
        FitResult
            The result.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> result = model.fit(data.table).result_  # the noise is off, for examples only
        >>> again = dp.FitResult.from_json(result.to_json())
        >>> (again.estimate == result.estimate).all().item()
        True
        """
        result: FitResult = saved.read(document, cls)
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a JSON file, which is complete or not there at all.

        Parameters
        ----------
        path : path
            Where the file is written; an existing one is replaced.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        try:
            persistence.write(Path(path), self.to_json().encode())
        except OSError as fault:
            raise InputError(
                f"the result cannot be written to {str(path)!r} ({fault.strerror}): check the folder "
                "and its rights"
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "FitResult":
        """Read a result from a JSON file.

        Parameters
        ----------
        path : path
            The file that `save`, `dp.report.write` or ``dpinfer fit`` wrote.

        Returns
        -------
        FitResult
            The result.

        Raises
        ------
        InputError
            If the file cannot be read, or holds no result.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        >>> model.fit(data.table).result_.save("result.json")  # the noise is off, for examples only
        >>> dp.FitResult.load("result.json").names
        ('(Intercept)', 'physlm')
        """
        try:
            document = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the result {str(path)!r} cannot be read ({type(fault).__name__}): give the "
                "result.json of a fit"
            ) from None
        return cls.from_json(document)


def _columns(row: Mapping[str, Any]) -> list[str]:
    """Return the columns of a data frame: those of a row but the label, as names index it."""
    return [key for key in row if key != "label"]


def _framed(
    rows: Sequence[dict[str, Any]], index: str | None = None, columns: list[str] | None = None
) -> "pd.DataFrame":
    from dpinfer.result.frames import frame_of  # noqa: PLC0415  (loads pandas)

    return frame_of(rows, index, columns)
