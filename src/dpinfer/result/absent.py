"""Names of statsmodels and R that a result does not have: what to use instead, or why there is nothing."""

_TESTS = 'test coefficients together with wald("a = b = 0"), or all levels of a factor with wald("health")'
_SUMS_OF_SQUARES = (
    "sums of squares of the outcome are not released, and so there is no R²; to see whether a term "
    'explains anything, test it with wald("health")'
)
_RECORDS = (
    "residuals and fitted values belong to single records, which are never released; predict(rows) "
    "predicts for rows that you state"
)
_LIKELIHOOD = f"the likelihood is not released; {_TESTS}"
_ROBUST = "the errors are robust already: bse has the standard errors, cov_params() their matrix"
_DEGREES = "the intervals suppose no degrees of freedom; nobs has the number of records or units"

_ADVICE = {
    _SUMS_OF_SQUARES: "rsquared rsquared_adj prsquared pseudo_rsquared ess ssr centered_tss uncentered_tss mse_model "
    "mse_resid mse_total scale",
    _RECORDS: "resid residuals resid_pearson resid_deviance resid_response resid_dev resid_generalized fitted "
    "fittedvalues mu wresid get_influence outlier_test get_distribution pred_table",
    _LIKELIHOOD: "aic bic llf llnull llr llr_pvalue deviance null_deviance pearson_chi2 info_criteria logLik AIC BIC",
    _TESTS: "f_test fvalue f_pvalue wald_test wald_test_terms compare_f_test compare_lm_test compare_lr_test "
    "score_test anova",
    _ROBUST: "cov_HC0 cov_HC1 cov_HC2 cov_HC3 HC0_se HC1_se HC2_se HC3_se get_robustcov_results "
    "normalized_cov_params cov_type",
    _DEGREES: "df_resid df_model df_residual use_t",
    "marginal effects are margins()": "get_margeff",
    "predictions with their intervals are predict(rows)": "get_prediction",
    "the table is summary(), and to_frame() as a data frame": "summary2",
    'differences of levels are contrast("health[fair] - health[good]")': "t_test_pairwise",
    "the coefficients are params": "coef coefficients",
    "the intervals are conf_int(), with names conf_int(frame=True)": "confint",
    "the covariance matrix is cov_params()": "vcov",
    "a result holds no data: there is nothing to remove": "remove_data",
}
INSTEAD = {name: advice for advice, names in _ADVICE.items() for name in names.split()}
"""The advice for each name."""


def no_attribute(owner: object, name: str) -> AttributeError:
    """Return the error for a name that ``owner`` does not have."""
    kind = type(owner).__name__
    advice = INSTEAD.get(name)
    if advice is None:
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)
    # without obj=, Python adds no "Did you mean" of its own
    return AttributeError(f"{kind} has no {name}: {advice}")
