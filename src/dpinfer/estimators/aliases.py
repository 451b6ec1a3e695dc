"""Models that people ask for by another name, or that are not here: what to use, and why.

One table feeds the errors of ``dp.NAME``, those of ``loss = "NAME"`` and docs/models.md.
"""

from dataclasses import dataclass

from dpinfer.fit.hazard import HazardSteps
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.poisson import PoissonSteps

PAGE = "docs/models.md"


@dataclass(frozen=True)
class Face:
    """A model that is here: its estimator, the keys in a spec that are not every model's, and its
    targets.
    """

    name: str
    keys: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def penalised(self) -> bool:
        """Whether it can be fitted with a penalty."""
        return "penalty" in self.keys


HERE = {
    "logistic": Face(
        "LogisticRegression", ("penalty", "far_values"), LogisticSteps.TARGETS + Penalised.TARGETS
    ),
    "linear": Face("LinearRegression", ("tail", "far_values"), LinearSteps.TARGETS),
    "poisson": Face("PoissonRegression", ("exposure", "far_values"), PoissonSteps.TARGETS),
    "hazard": Face("HazardRegression", ("cuts", "horizon", "far_values"), HazardSteps.TARGETS),
    "svm": Face("LinearSVC", ("penalty", "knee"), Penalised.TARGETS),
    "huber": Face("HuberRegression", ("penalty", "knee"), Penalised.TARGETS),
    "quantile": Face("QuantileRegression", ("penalty", "quantile", "bandwidth"), Penalised.TARGETS),
}
"""The models that are here, by their loss on the command line."""
IN_PYTHON = {loss: f"dp.{face.name}" for loss, face in HERE.items()}
IN_SPECS = {loss: f'loss = "{loss}"' for loss in HERE}
IN_OPTIONS = {loss: f"--loss {loss}" for loss in HERE}
_ENDINGS = ("regression", "regressor", "classifier", "model", "fitter", "cv")


@dataclass(frozen=True)
class ModelAdvice:
    """A model that people ask for, what to ``use`` for it, and ``why`` it is not here itself, empty
    where it is.

    ``names`` are its names in other packages, in small letters, without endings such as
    "regression".
    """

    asked: str
    names: str
    use: str
    why: str = ""

    def sentence(self, words: dict[str, str]) -> str:
        """Write the advice on one line; ``words`` are the names of the models that are here."""
        use = self.use.format(**words)
        why = self.why.format(**words)
        if not why:
            return f"for {self.asked} use {use} ({PAGE})"
        return f"{self.asked}: not here, because {why}; what comes near is {use} ({PAGE})"


_NO_BOUND = (
    "the slope of its loss has no bound, and a clip that leaves honest intervals was worked out for "
    "least squares and counts only"
)
_MARGINAL = "effects of single persons are not estimated, only averages over them"
MODEL_ADVICE = (
    ModelAdvice("least squares (OLS)", "ols lm leastsquares gaussian normal", "{linear}"),
    ModelAdvice(
        "a linear probability model",
        "lpm linearprobability",
        "{linear}, with the outcome declared as a number from 0 to 1",
    ),
    ModelAdvice("logit", "logit logistic binary binomial", "{logistic}"),
    ModelAdvice(
        "probit",
        "probit",
        "{logistic}: the probabilities are nearly the same, its coefficients about 1.6 to 1.8 times as large",
        _NO_BOUND,
    ),
    ModelAdvice(
        "counts, rates and quasi-Poisson regression",
        "poisson count counts ppml quasipoisson rate rates",
        "{poisson}: its errors are robust, so that no Poisson law is supposed",
    ),
    ModelAdvice(
        "negative binomial regression",
        "negativebinomial negbin nb nb2 nbreg",
        "{poisson}: the same rate ratios, with robust errors in the place of a law of the dispersion",
    ),
    ModelAdvice(
        "zero-inflated and hurdle models",
        "zeroinflated zeroinflatedpoisson zip zinb hurdle",
        "{poisson} of the mean, and {logistic} of any against none",
        "the releases are made for one linear predictor",
    ),
    ModelAdvice(
        "gamma, Tweedie and log-linear models of costs",
        "gamma tweedie inversegaussian loglinear",
        "{poisson}: the same rate ratios of the mean, without a law of the outcome",
    ),
    ModelAdvice(
        "beta and other generalised linear models",
        "glm beta generalizedlinear generalisedlinear",
        "{poisson} where the outcome is 0 or more and effects multiply, else {linear} of a public transform",
        _NO_BOUND,
    ),
    ModelAdvice(
        "multinomial logit",
        "multinomial mnlogit multinomiallogit mlogit softmax conditionallogit",
        "{logistic} of one class against the others, a fit and a part of the budget for each",
        "the releases are made for one linear predictor",
    ),
    ModelAdvice(
        "ordered logit and probit",
        "ordered ordinal orderedlogit orderedprobit ologit oprobit polr proportionalodds",
        "{logistic} of a cut: at or above a level against below",
        "the releases are made for one linear predictor, without cut points to be estimated",
    ),
    ModelAdvice(
        "Cox regression",
        "cox coxph coxnet phreg survival proportionalhazards piecewiseexponential",
        "{hazard}, with hazards that are constant in public intervals of time: with five intervals, hazard ratios are "
        "nearly those of Cox regression",
        "a record is in the risk sets of others, so that its partial likelihood is no sum over records",
    ),
    ModelAdvice(
        "Kaplan-Meier curves, log-rank tests and cumulative incidence",
        "kaplanmeier kaplanmeierfitter km survfit survfuncright survdiff logrank aalenjohansen aalenjohansenfitter",
        "dp.survival_curves",
    ),
    ModelAdvice(
        "accelerated failure times and other parametric survival models",
        "survreg aft weibull weibullaft loglogisticaft lognormalaft flexsurv",
        "{hazard}, whose hazards may have any shape over public intervals of time",
        "the releases are made for one linear predictor, without a shape to be estimated",
    ),
    ModelAdvice(
        "fixed effects and other panel models",
        "panel panelols fixedeffects fe feols plm within areg reghdfe",
        "{linear} with the ids, and periods, behind a bar in the formula; other groups are a category with public "
        "levels",
    ),
    ModelAdvice(
        "mixed models and random effects",
        "mixed mixedlm mixedeffects lmer lme glmer glmm randomeffects multilevel hierarchical",
        "{linear} or {logistic} with the groups as a category with public levels: few groups, with many records each",
        "its likelihood is no sum over records; and " + _MARGINAL,
    ),
    ModelAdvice(
        "GEE and clustered standard errors",
        "gee clustered cluster clusterrobust",
        "{linear} or {logistic} with ids, in [unit] of a schema or as units= of fit: whole persons are protected, "
        "every row counts once, and the intervals are clustered",
    ),
    ModelAdvice(
        "survey weights, weighted least squares",
        "wls weighted weightedleastsquares survey svyglm surveyglm surveyweights",
        "{linear} or {logistic} with weights, in [weights] of a schema or as weights= of fit, and a public bound",
    ),
    ModelAdvice(
        "generalised least squares and HC standard errors",
        "gls glsar fgls hc0 hc1 hc3 sandwich heteroskedastic",
        "{linear}: the coefficients are those of least squares, the intervals hold whatever the variances are",
    ),
    ModelAdvice(
        "instrumental variables (2SLS)",
        "iv iv2sls 2sls tsls ivreg ivregress twostageleastsquares gmm instrumentalvariables",
        "dp.release_moments, then iv('y ~ x + w | z + w') of it: two-stage least squares with an Anderson-Rubin set",
    ),
    ModelAdvice(
        "difference in differences",
        "did diffindiff",
        "dp.DifferenceInDifferences, dp.EventStudy, or {linear} with ids behind a bar in the formula; treated * after "
        "where every row is another person",
    ),
    ModelAdvice(
        "quantile and median regression",
        "quantreg median lad qreg rq",
        "{quantile}, with quantile 0.5 for a median",
    ),
    ModelAdvice(
        "robust regression",
        "rlm robust huber mestimation theilsen ransac lts",
        '{linear} with target "robust" (no penalty) or {huber} (with one); neither estimates a mean',
    ),
    ModelAdvice(
        "ridge regression",
        "ridge tikhonov",
        "{linear} without a penalty, or {huber} with one",
        "least squares is fitted in a released geometry, which needs no penalty",
    ),
    ModelAdvice(
        "lasso, elastic net and selection of columns",
        "lasso elasticnet lars stepwise lassolars l1 selection",
        "{linear} or {logistic} with columns chosen before the data are seen; what is too noisy is not reported",
        "intervals after a selection by the same data do not cover",
    ),
    ModelAdvice(
        "support vector machines", "svc linearsvm supportvector supportvectormachine", "{svm}"
    ),
    ModelAdvice(
        "support vector machines with a kernel, support vector regression",
        "svr linearsvr nusvc kernelsvm kernelridge gaussianprocess",
        "{svm} with public transforms and products of columns in the formula; {huber} for a number",
        "with a kernel the fit consists of records, which cannot be released",
    ),
    ModelAdvice(
        "Tobit, Heckman and truncated models",
        "tobit heckman heckit censored truncated",
        "{linear} of the outcome clipped to its public bounds, or {quantile} with quantile 0.5",
        _NO_BOUND,
    ),
    ModelAdvice(
        "splines, additive models and smoothers",
        "gam spline splines loess lowess polynomial additive",
        "{linear}, {logistic} or {poisson} with a curve in the formula: ns(x, 30, 50, 70), bs(x, 30, 50) or poly(x, 2)",
        "knots and a smoothness that are learned from the data are not private: knots are public numbers",
    ),
    ModelAdvice(
        "t tests, analysis of variance, comparisons of means",
        "ttest anova ancova aov mean means proportion",
        "{linear} with the groups as a category; result.wald tests several coefficients together",
    ),
    ModelAdvice(
        "models of time series",
        "arima sarimax ar autoreg var garch timeseries",
        "{linear} with lags as columns, where every row is another unit",
        "records of a series depend on each other, and the promise is about one record",
    ),
    ModelAdvice(
        "trees, forests, boosting, neighbours and neural networks",
        "decisiontree randomforest gradientboosting boosting xgb xgboost lightgbm mlp neuralnetwork kneighbors knn",
        "{linear} or {logistic} with products and transforms in the formula",
        "they have no coefficients to give intervals for",
    ),
)
"""In the order of docs/models.md."""


def model_advice(name: str) -> ModelAdvice | None:
    """Return the advice on a model of this name, if there is any."""
    advice = {word: one for one in MODEL_ADVICE for word in one.names.split()}
    word = "".join(letter for letter in name.lower() if letter.isalnum())
    while word not in advice and word.endswith(_ENDINGS):
        word = word.removesuffix(next(filter(word.endswith, _ENDINGS)))
    return advice.get(word)
