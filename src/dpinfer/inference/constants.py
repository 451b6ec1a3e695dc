"""The statistical constants of inference and of fits, each with what it decides, why, and by which source

A source is a derivation, an error rate, a reference, a convention or a simulation.  ``python -m studies.constants``
halves and doubles each of them in fits of drawn populations; docs/constants.md is a table of all.  Shares of
budgets stand beside their plans, and constants of descriptions beside their queries.  Φ is the standard normal
distribution function, κ the squared radius of u-space per column (`dpinfer.inference.moments`).
"""

import math

from dpinfer.numerics.reasons import Constant

_STUDY = "simulation: python -m studies.constants"
# 416 fits of an earlier version, which had a radius per link; for today's see docs/constants-study.md
_DRAWN = "simulation over 32 drawn populations (python -m studies.constants repeats it on fewer): "

# What is reported

MAX_ERROR_SHARE = Constant(
    0.4,
    name="MAX_ERROR_SHARE",
    decides="the largest standard error of a reported contrast, over its prior sd",
    reason="the prior of a contrast, which is divided out, would shrink an estimate at the threshold by .16/1.16 = "
    "14 %: the data say much more of it than the prior",
    source=_DRAWN + "1.2 % fewer reported at half, .4 % more at double; coverage .955 and .956",
)
MIN_SIGNAL = Constant(
    2.5,
    name="MIN_SIGNAL",
    decides="the smallest partial information of a reported contrast, in sds of its noise",
    reason="the Hessian is divided by: noise alone exceeds 2.5 sds in 1 - Φ(2.5) = .6 % of contrasts",
    source="error rate; "
    + _DRAWN
    + "2.1 % more reported at half, 3.5 % fewer at double; coverage .957 and .955",
)
CLEAR_SDS = Constant(
    4.0,
    name="CLEAR_SDS",
    decides="the noise sds by which a count is clear of 0",
    reason="noise alone passes in 1 - Φ(4), one of 30,000 counts, and a fit looks at dozens of them",
    source="error rate; "
    + _DRAWN
    + "where tails begin, lengths +2.5 % at half and +.4 % at double",
)
SURE_SDS = Constant(
    3.0,
    name="SURE_SDS",
    decides="the noise sds for decisions about the whole fit, such as whether there are events at all",
    reason="noise alone makes 1 - Φ(3), one of 700, of such decisions wrong, and a fit takes only a few",
    source="error rate; "
    + _DRAWN
    + ".5 % more reported at half, 2 % fewer at double; coverage .956 and .955",
)
MIN_EVENTS = Constant(
    8.0,
    name="MIN_EVENTS",
    decides="the fewest events, or records of a kind, that a reported coefficient rests on",
    reason="the skewness of a Poisson number of 8 is 1/sqrt(8) = .35, and so is the standard error of its logarithm; "
    "with fewer the normal law of a coefficient is poor",
    source="derivation of the skewness; the threshold is a convention; "
    + _DRAWN
    + ".2 % more reported at half",
)
MIN_RECORDS = Constant(
    15.0,
    name="MIN_RECORDS",
    decides="the fewest records of a level that is reported in least squares",
    reason="the mean of 15 outcomes has 1/sqrt(15) = a quarter of their skewness, so that it is near normal",
    source="derivation of the skewness; the threshold is a convention",
)
EVENT_SDS = Constant(
    2.0,
    name="EVENT_SDS",
    decides="the sds of a number of events at which an interval of its logarithm ends",
    reason="the end of a 95 % interval is at 1.96 sds, where log(n (1 - q)) is -log(1 - q) - q beyond its linear part",
    source="derivation",
)
MAX_EVENT_LOSS = Constant(
    0.95,
    name="MAX_EVENT_LOSS",
    decides="the largest share of a number of events that noise is taken to be, in the allowance of an interval",
    reason="keeps log(1 - q) finite; it is reached at a relative sd of .475, and a coefficient is reported up to .25",
    source="derivation: 1/`CLEAR_SDS` = .25 is the largest relative sd of a reported coefficient",
)
NEGLIGIBLE_BIAS = Constant(
    0.1,
    name="NEGLIGIBLE_BIAS",
    decides="the allowance, in standard errors, above which a coefficient has no z value and no p-value",
    reason="at z = 2 a bias below it moves p by less than three per cent of itself",
    source="convention",
)
NEGLIGIBLE_VARIANCE = Constant(
    0.01,
    name="NEGLIGIBLE_VARIANCE",
    decides="the squared bias, or added variance, over a sampling variance, below which nothing is done about it",
    reason="sqrt(1.01) = 1.005: half a percent of the length of an interval",
    source="derivation of the length; the threshold is a convention; "
    + _DRAWN
    + "lengths change by less than .1 %",
)

# Priors

LEVEL_PRIOR_SD = Constant(
    2.5,
    name="LEVEL_PRIOR_SD",
    decides="the prior sd of the coefficient of a level, and of two sds of a number, in log-odds",
    reason="a change by 2.5 log-odds takes a probability of .5 to .92: larger effects are rare; the scale of the "
    "default "
    "prior of Gelman et al.",
    source="Gelman et al. (2008), Annals of Applied Statistics 2; "
    + _DRAWN
    + "lengths -1 % at half, +1.5 % at double",
)
HESSIAN_PRIOR_SD = Constant(
    0.5,
    name="HESSIAN_PRIOR_SD",
    decides="the prior relative sd of the variance of a column in the Hessian, given that in the moments",
    reason="an order of magnitude: where h' is up to twice as large for some records as for others, a variance "
    "weighted by it is at most doubled or halved",
    source=_DRAWN + "lengths change by less than .1 %; .5 % more reported at half",
)
PILOT_LOG_ODDS_SD = Constant(
    1.0,
    name="PILOT_LOG_ODDS_SD",
    decides="the prior sd of the log-odds by all columns together, in the ridge of the logistic pilot",
    reason="the sd of most predictors is about 1; a pilot only has to be near, as its remainder is released",
    source=_DRAWN + "lengths change by less than .1 %",
)
PILOT_LOG_MEAN_SD = Constant(
    0.5,
    name="PILOT_LOG_MEAN_SD",
    decides="the prior sd of the logarithm of a mean count, in the ridge of the Poisson pilot",
    reason="means that differ by a factor of e between records one sd above and below; a pilot only has to be near",
    source=_DRAWN + "lengths change by less than .3 %",
)
PILOT_OUTCOME_VARIANCE = Constant(
    0.1,
    name="PILOT_OUTCOME_VARIANCE",
    decides="the prior variance of what columns explain of an outcome, and of what they leave, over the square of "
    "half its released range, in the least squares pilot",
    reason="half a range is about 2.5 sds, so that the variance is .16 of its square: an R² of one half; a pilot only "
    "has to be near, as the estimate is an exact step from it",
    source="convention; " + _DRAWN + "lengths change by less than .1 %",
)

# Matrices that noise must not turn indefinite

RARE_LEVEL_SHIFT = Constant(
    1.5,
    name="RARE_LEVEL_SHIFT",
    decides="the prior sd of the mean of a column in a rare level, from its mean in all, in sds of the column",
    reason="the mean of a group is rarely 1.5 sds off; without a limit the noise of the moments is taken for "
    "correlations of rare levels",
    source=_DRAWN
    + "lengths -.2 % at half and less than .1 % at double; least squares of a table of adults with 41 "
    "columns and rare levels has intervals 1.45 times as long without it",
)
MIN_NOISE_SDS = Constant(
    0.5,
    name="MIN_NOISE_SDS",
    decides="the lower bound of a variance, of the share of a level or of an eigenvalue, in sds of its noise",
    reason="they are positive, and noise may take a release below 0: half an sd is its own order of magnitude",
    source="convention; " + _DRAWN + "lengths change by at most .1 %",
)
MIN_HESSIAN_VARIANCE = Constant(
    0.1,
    name="MIN_HESSIAN_VARIANCE",
    decides="the lower bound of the variance of a number in the prior of the Hessian, over that in the moments",
    reason="an average with a noisy release may be 0 or less; weights h' rarely take nine tenths of a variance away",
    source="convention; " + _STUDY,
)
MIN_CORRELATION_EIGENVALUE = Constant(
    0.1,
    name="MIN_CORRELATION_EIGENVALUE",
    decides="the smallest eigenvalue of the correlations of the first release",
    reason="they only precondition the second release: no direction is stretched by more than sqrt(10) = 3.2 on "
    "account "
    "of a correlation that may be noise",
    source="derivation of the stretch; " + _DRAWN + "lengths change by less than .1 %",
)
MIN_MOMENT_EIGENVALUE = Constant(
    0.15,
    name="MIN_MOMENT_EIGENVALUE",
    decides="the smallest eigenvalue of the second moments in the geometry of their release, over the norm of its "
    "noise",
    reason="the operator norm of the noise is about s sqrt(2d), the edge of the semicircle law; eigenvalues far "
    "below it "
    "are not known, and must not become large in the preconditioner",
    source="derivation of the norm; the factor: " + _DRAWN + "lengths change by less than .1 %",
)
MAX_LEVEL_SHARE = Constant(
    0.99,
    name="MAX_LEVEL_SHARE",
    decides="the largest sum of the frequencies of a factor's levels",
    reason="the reference is left at least one record in a hundred: its coefficients are differences from it",
    source="convention",
)
MIN_COLUMN_VARIANCE = Constant(
    1e-4,
    name="MIN_COLUMN_VARIANCE",
    decides="the smallest variance of a column in [-1, 1], by which its prior sd is scaled",
    reason="an sd of .01 of a column that was scaled to its own released range is noise",
    source="convention",
)
MIN_NUMBER = Constant(
    50.0,
    name="MIN_NUMBER",
    decides="the lower bound of a private number of records",
    reason="all means divide by it, and noise may take it to 0; with fewer records no coefficient is reported at "
    "usual budgets",
    source="convention",
)

# How far out records count fully

FARTHEST_SDS = Constant(
    8.0,
    name="FARTHEST_SDS",
    decides="the sds from the mean at which a record may be in all columns and count fully, at any budget",
    reason="beyond, limits of single numbers decide, and a larger radius would only make the released matrices "
    "noisier; "
    "by Chebyshev at most 1/64 of the records is farther",
    source="Chebyshev's inequality; the threshold is a convention; "
    + _DRAWN
    + "lengths -.2 % at half",
)
RADIUS_FACTOR = Constant(
    0.5,
    name="RADIUS_FACTOR",
    decides="κ over n/(4 d) times the operator norm of the noise of the Hessian",
    reason="a larger radius makes the Hessian noisier, a smaller one down-weights more rows, which costs bias",
    source=_DRAWN + "by link, lengths -1 to +.7 % at half, +1.5 to +3.4 % at double",
)
MIN_RADIUS = Constant(
    2.0,
    name="MIN_RADIUS",
    decides="the smallest κ of many columns",
    reason="for normal rows the squared radius per column has mean 1 and sd sqrt(2/d): at 2 nearly all of many "
    "columns' "
    "rows have full weight",
    source="derivation; " + _DRAWN + "by link, lengths the same at half, up to .8 % more at double",
)
MAX_LINEAR_RADIUS = Constant(
    10.0,
    name="MAX_LINEAR_RADIUS",
    decides="κ above which it grows as the square root of n over the noise, not in proportion to it",
    reason="rows with ten times the typical squared radius are rare: beyond, noise and weights should both vanish",
    source=_DRAWN + "by link, lengths -.5 to +.1 % at half, +.1 to +.4 % at double",
)
MIN_TOTAL_RADIUS = Constant(
    25.0,
    name="MIN_TOTAL_RADIUS",
    decides="the smallest κ times the number of columns",
    reason="a squared radius of 25 is five sds of one number, which few records exceed where columns are few",
    source="derivation; "
    + _DRAWN
    + "by link, lengths up to .4 % less at half, .5 to 2 % more at double",
)
MAX_COLUMN_RADIUS = Constant(
    3.0,
    name="MAX_COLUMN_RADIUS",
    decides="the largest squared radius that one column may give a row, over a typical one",
    reason="a far value costs information on its own column, and on no other",
    source=_DRAWN + "with `MAX_TOTAL_COLUMN_RADIUS`, lengths +1.9 % at half, -.7 % at double",
)
MAX_TOTAL_COLUMN_RADIUS = Constant(
    12.0,
    name="MAX_TOTAL_COLUMN_RADIUS",
    decides="the same times the number of columns, where these are few",
    reason="with fewer than four columns a single one is a larger part of a typical radius: 12 is 3.5 sds of it",
    source="derivation; the simulation is that of `MAX_COLUMN_RADIUS`",
)
SCORE_NOISE_SHARE = Constant(
    0.75,
    name="SCORE_NOISE_SHARE",
    decides="the noise sd of the logistic score over its sampling sd, as far as the bound of influences decides it",
    reason="a larger bound gives more noise, a smaller one down-weights more rows, which costs bias; the noise "
    "share is "
    "then .75²/(1 + .75²) = 36 %",
    source=_DRAWN + "lengths -2 % at half, +7 % at double",
)
MIN_INFLUENCE_RATIO = Constant(
    1.2,
    name="MIN_INFLUENCE_RATIO",
    decides="the smallest bound of logistic influences, over a typical one",
    reason="below a typical influence most rows would be down-weighted",
    source=_DRAWN
    + "with `MAX_INFLUENCE_RATIO`, lengths -.4 % at half, +3.6 % at double, and 1.8 % fewer reported",
)
MAX_INFLUENCE_RATIO = Constant(
    3.0,
    name="MAX_INFLUENCE_RATIO",
    decides="the bound of logistic influences above which it grows as the square root, over a typical one",
    reason="above it noise still vanishes with n, and so do the weights: no record is down-weighted in the limit",
    source="the simulation is that of `MIN_INFLUENCE_RATIO`",
)
LINEAR_INFLUENCE_REACH = Constant(
    4.0,
    name="LINEAR_INFLUENCE_REACH",
    decides="the upper edge of the histogram of influences in least squares, over half the range of outcomes; and of "
    "units in logistic regression, over the clip of the pilot steps",
    reason="half the range is about `CLIP_SDS` = 2.5 sds, so that it is 10 sds of a residual at typical leverage",
    source="derivation; the factor is a convention; "
    + _DRAWN
    + "lengths -1 % at half, +.1 % at double; coverage .953",
)
COUNT_INFLUENCE_REACH = Constant(
    4.0,
    name="COUNT_INFLUENCE_REACH",
    decides="the upper edge of the histogram of influences of counts, over the largest counts that were released",
    reason="the leverage of a row may be that much larger than a typical one's where a count is largest",
    source="convention; " + _DRAWN + "lengths -.1 % at half, +.4 % at double",
)
MISFIT_SDS = Constant(
    2.0,
    name="MISFIT_SDS",
    decides="the sds of a number at which its effect may end, where a clip's bias by a wrong model is bounded",
    reason="95 % of a normal number's records are nearer, and decide its slope",
    source="derivation: 2 Φ(-2) = 4.6 %; " + _DRAWN + "lengths +.5 % at half, -.7 % at double",
)

# Pilot estimates and steps

MAX_PREDICTOR_SD = Constant(
    4.0,
    name="MAX_PREDICTOR_SD",
    decides="the largest sd of the linear predictor in a logistic pilot",
    reason="two sds are then 8 log-odds, one in 3,000: steeper predictors cannot be told from separation",
    source="derivation: e⁻⁸ = 1/2981; the threshold is a convention; "
    + _DRAWN
    + "no fit changes; a number of two "
    "groups 9.6 log-odds apart is reported in 20 of 20 fits of 100,000 records at ρ = .1, 19 at double, 4 at ten times",
)
MAX_OUTCOME_IMBALANCE = Constant(
    0.4995,
    name="MAX_OUTCOME_IMBALANCE",
    decides="the largest |share - 1/2| of a binary outcome in a pilot",
    reason="no outcome is rarer than one in 2,000: noise may take the released share outside 0 to 1",
    source="convention",
)
MIN_RATE_RATIO = Constant(
    0.2,
    name="MIN_RATE_RATIO",
    decides="the smallest fitted mean of a level over the mean of the capped count, in a pilot",
    reason="least squares may make it 0 or less, which has no logarithm; log .2 = -1.6 is a large effect",
    source="convention; " + _DRAWN + "no fit changes",
)
MAX_STEP = Constant(
    math.log(3.0),
    name="MAX_STEP",
    decides="the largest root mean square change of the predictor in one Newton step",
    reason="by |h''| <= h' the slope h' of a typical record changes at most threefold; without a limit a step is "
    "endless in a direction that is not identified, and no coefficient is",
    source="derivation; tests/fit/test_logistic.py and test_poisson.py have tables that need it",
)
MIN_STEP_EIGENVALUE = Constant(
    0.01,
    name="MIN_STEP_EIGENVALUE",
    decides="the smallest eigenvalue of the Hessian in the prior of a Newton step, over the largest",
    reason="with less information noise decides, and a prior variance in proportion to its inverse would let noise "
    "make any step",
    source=_DRAWN
    + "at half and double lengths change by less than .05 %; tests/fit/test_logistic.py has a table "
    "that needs a limit",
)
REMAINDER_SDS = Constant(
    3.0,
    name="REMAINDER_SDS",
    decides="the root mean squares of a step up to which a remainder is not clipped",
    reason="of normal changes of the predictor 2 Φ(-3) = .3 % are larger",
    source="derivation; " + _DRAWN + "lengths -.5 % at half, +1.7 % at double",
)
MIN_PILOT_EIGENVALUE = Constant(
    0.3,
    name="MIN_PILOT_EIGENVALUE",
    decides="the smallest eigenvalue of the Hessian in a pilot step of the robust target, over its mean",
    reason="no direction of the step is more than 3.3 times as long as by the mean eigenvalue: in a whitened geometry "
    "smaller ones are noise",
    source="convention",
)
CLIP_SDS = Constant(
    2.5,
    name="CLIP_SDS",
    decides="the sds of an outcome in half of its released range, or in a clip before it is chosen",
    reason="a normal outcome is beyond 2.65 sds at either end with the probability `MAX_OUTSIDE` = .4 %; rounded",
    source="derivation for a normal outcome",
)

# Ranges and tails

MAX_OUTSIDE = Constant(
    0.004,
    name="MAX_OUTSIDE",
    decides="the share of records, or units, that may lie beyond either end of a released range",
    reason="a range that must hold every record is as long as the farthest one; winsorising .4 % moves a mean by "
    "little",
    source="convention; " + _DRAWN + "lengths change by less than .1 %",
)
RANGE_SDS = Constant(
    2.0,
    name="RANGE_SDS",
    decides="the noise sds by which counts at the end of a range are distinguished from 0, or raised to a bound",
    reason="noise alone exceeds them in 1 - Φ(2) = 2.3 % of ends",
    source="error rate",
)
FALSE_MAGNITUDE = Constant(
    0.002,
    name="FALSE_MAGNITUDE",
    decides="the probability that noise alone passes for a magnitude of a column, over all magnitudes",
    reason="one learned range in 500 is too wide by noise",
    source="error rate",
)
PLAUSIBLE_EXPONENT = Constant(
    16.0,
    name="PLAUSIBLE_EXPONENT",
    decides="the power of two beyond which a magnitude is less and less plausible",
    reason="most columns are between 2⁻¹⁶ and 2¹⁶ = 65,536 in size: the chance of an error is spent there",
    source="convention",
)
MAGNITUDE_DECAY = Constant(
    2.0,
    name="MAGNITUDE_DECAY",
    decides="the power by which the plausibility of a magnitude falls with its exponent",
    reason="the smallest whole power whose sum over exponents is finite, so that far magnitudes stay possible",
    source="derivation",
)
MAX_RANGE_CLIPPED = Constant(
    0.2,
    name="MAX_RANGE_CLIPPED",
    decides="the share of units that a learned range may clip before it is refused",
    reason="beyond one in five the range says little of the column: the noise is too large for it",
    source="convention",
)
TAIL_SDS = Constant(
    2.0,
    name="TAIL_SDS",
    decides="the noise sds that are added to the limit of a mean excess, and to the share beyond a size",
    reason="noise exceeds them in 1 - Φ(2) = 2.3 % of fits",
    source="error rate; " + _DRAWN + "lengths change by .2 %",
)
FAILURE_RATE_SLACK = Constant(
    0.9,
    name="FAILURE_RATE_SLACK",
    decides="the smallest mean excess of a tail law, over that of a law of constant local index",
    reason="the local index of laws with increasing generalised failure rate does not fall; the grid of mean excesses "
    "has steps of 17 %, so that 10 % keep the grid point nearest to the bound",
    source="Lariviere (2006); derivation of the slack by the step of the grid",
)
TAIL_END_RECORDS = Constant(
    1 / 3,
    name="TAIL_END_RECORDS",
    decides="the number of records that a tail law expects beyond its end",
    reason="squares beyond a clip have no mean by a law without a variance: those that one table in three has count",
    source="convention; " + _DRAWN + "lengths change by .2 %",
)
TAIL_START_OCTAVES = Constant(
    1.0,
    name="TAIL_START_OCTAVES",
    decides="the powers of two from the farthest edge that counts show to the start of a tail law",
    reason="the last bin that is clear of noise may hold few records: its inner neighbour carries the share of the law",
    source="convention; " + _STUDY,
)
MIN_TAIL_RECORDS = Constant(
    10.0,
    name="MIN_TAIL_RECORDS",
    decides="the records that exceed the largest size of a column or count that a bias bound counts with",
    reason="the mean of 10 records is known to 1/sqrt(10), a third of itself or so",
    source="derivation; " + _DRAWN + "lengths change by at most .1 %",
)
CAUTIOUS_SDS = Constant(
    1.0,
    name="CAUTIOUS_SDS",
    decides="the noise sds that a cautious tail adds to every count",
    reason="noise is below Φ(1) = 84 % of the time, for one who asks for caution; 0 is the balanced default",
    source="error rate",
)
ROBUST_CLIPPED = Constant(
    0.1,
    name="ROBUST_CLIPPED",
    decides="the share of records whose influence the robust target clips",
    reason="at normal errors a Huber estimate that clips at ±1.645 sds has an efficiency of 97 %",
    source="Huber (1964); derivation of the efficiency at this clip",
)

# Public forecasts of what can be reported

TYPICAL_LEVEL_SHARE = Constant(
    1 / 20,
    name="TYPICAL_LEVEL_SHARE",
    decides="the share of records with a typical level, in a forecast of what can be reported",
    reason="a level of one record in twenty is usual in tables with factors of several levels",
    source="convention",
)
TYPICAL_SLOPE = Constant(
    0.15,
    name="TYPICAL_SLOPE",
    decides="the mean of p (1 - p), in a forecast of what a logistic fit can report",
    reason="p (1 - p) is .15 where p is .18: between balanced and rare outcomes",
    source="convention",
)
TYPICAL_RESIDUAL = Constant(
    1.1,
    name="TYPICAL_RESIDUAL",
    decides="the largest influence of an outcome over a typical one, in a forecast of what a logistic fit can report",
    reason="a guess a little below `MIN_INFLUENCE_RATIO` = 1.2, the smallest bound of influences",
    source="convention",
)
AMPLE_STRENGTH = Constant(
    2.0,
    name="AMPLE_STRENGTH",
    decides="the forecast signal over the reporting threshold below which a warning is given",
    reason="columns compete for information: twice the threshold leaves room for that",
    source="convention",
)
FUTILITY_SDS = Constant(
    1.0,
    name="FUTILITY_SDS",
    decides="the upper bound of the signal below which a fit is called futile, in noise sds",
    reason="a coefficient needs `MIN_SIGNAL` = 2.5, and noise adds the other 1.5 with probability 1 - Φ(1.5) = 7 %",
    source="error rate",
)

# Shares of costs, and weights of stacked sums

LOGISTIC_HESSIAN_WEIGHT = Constant(
    1.0,
    name="LOGISTIC_HESSIAN_WEIGHT",
    decides="the squared weight of the Hessian beside the score, in logistic fits where records are replaced",
    reason="larger than in least squares: the noise of the Hessian decides more of the error",
    source="convention",
)
LOGISTIC_SCORE_COV_WEIGHT = Constant(
    0.25,
    name="LOGISTIC_SCORE_COV_WEIGHT",
    decides="the squared weight of the score covariance beside the score, in the same fits",
    reason="smaller than in least squares: it is close to the Hessian, which it equals where the model is right",
    source="convention",
)
LOGISTIC_HESSIAN_WEIGHT_ADD_REMOVE = Constant(
    0.5,
    name="LOGISTIC_HESSIAN_WEIGHT_ADD_REMOVE",
    decides="the squared weight of the Hessian, in logistic fits where a record is added or removed",
    reason="a record that is added changes score and matrices at once, so that matrices cost more beside the score",
    source="convention",
)
LOGISTIC_SCORE_COV_WEIGHT_ADD_REMOVE = Constant(
    0.1,
    name="LOGISTIC_SCORE_COV_WEIGHT_ADD_REMOVE",
    decides="the squared weight of the score covariance, in the same fits",
    reason="as where records are replaced, about a quarter of that of the Hessian or less",
    source="convention",
)
LEVELS_DELTA_SHARE = Constant(
    0.5,
    name="LEVELS_DELTA_SHARE",
    decides="the share of δ for learned levels; the rest makes Gaussian noise (ε, δ)",
    reason="equal parts: what either part needs grows no faster than the logarithm of its 1/δ",
    source="convention",
)
MAGNITUDES_SHARE = Constant(
    0.3,
    name="MAGNITUDES_SHARE",
    decides="the share of a learned range's budget for the histogram of magnitudes; its two zooms share the rest",
    reason="nearly equal parts: an error of a magnitude is mended by the bin that is added on either side",
    source="convention",
)
PAPER_PENALTY = Constant(
    1e-3,
    name="PAPER_PENALTY",
    decides="the penalty of a penalised fit where the budget leaves no smaller one",
    reason="it is the penalty of the paper that the algorithms of a penalised fit come from",
    source="the paper's choice",
)
MASK_SHARE = Constant(
    1 / 8,
    name="MASK_SHARE",
    decides="the noise that masks the rounding of a minimum, over L/(t sqrt n), for which a penalty is chosen",
    reason="about a quarter of a standard error: it adds 3 % to the length of an interval",
    source="derivation: sqrt(1 + 1/16) = 1.03",
)
PENALTY_COST_PARTS = Constant(
    26.0,
    name="PENALTY_COST_PARTS",
    decides="the part of ρ of Gaussian objective perturbation that a small penalty costs: one in so many",
    reason="4 % of ρ is 2 % of an sd of noise: nothing beside what a larger penalty shrinks",
    source="derivation; the number is a convention",
)
MAX_CURVATURE_RATIO = Constant(
    0.05,
    name="MAX_CURVATURE_RATIO",
    decides="the largest k = t/(2nc) of an unpenalised target: curvature of a record over that of the penalty",
    reason="the cost of the penalty grows with k; at 1/20 it is small at usual budgets",
    source="convention",
)
LAPLACE_COST_PARTS = Constant(
    10.0,
    name="LAPLACE_COST_PARTS",
    decides="the part of ε of Laplace objective perturbation that a penalty may cost: one in so many",
    reason="the noise grows by a ninth at most: less than what a larger penalty shrinks",
    source="derivation; the number is a convention",
)
