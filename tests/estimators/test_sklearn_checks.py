"""scikit-learn's own estimator checks, and the few that a private estimator cannot pass, each with
its reason.
"""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import dpinfer as dp

CANNOT_PASS = {
    "check_estimators_nan_inf": "an error on a NaN would reveal it; such a row counts as the zero row",
    "check_supervised_y_no_nan": "an error on a NaN label would reveal it; such a row counts as the zero row",
    "check_classifiers_regression_target": "an error on an undeclared label would reveal it; such a row counts as zero",
    "check_classifier_not_supporting_multiclass": "whether a third label occurs is private; such a row counts as zero",
    "check_classifiers_classes": "classes are declared; the check expects them to be learned from y",
    "check_dtype_object": "an object column may hold anything, and converting it would raise on a value",
}

BOUNDS = {"bounds": (-10, 10)}
NUMERIC = {"bounds": (-10, 10), "outcome": (-10, 10)}
CLASSIFIER = dp.LogisticRegression(**BOUNDS, budget=dp.NoPrivacy())
REGRESSOR = dp.LinearRegression(**NUMERIC, budget=dp.ZCDP(1.0), insecure_seed=0)
OTHERS = [
    dp.LogisticRegression(**BOUNDS, budget=dp.ZCDP(1.0), insecure_seed=0),
    dp.LinearSVC(**BOUNDS, budget=dp.PureDP(50.0), insecure_seed=0),
    dp.HuberRegression(**NUMERIC, budget=dp.NoPrivacy(), penalty=1e-5),
    dp.QuantileRegression(**NUMERIC, budget=dp.ZCDP(1.0), insecure_seed=0),
    dp.PoissonRegression(**BOUNDS, outcome=(0, 100), budget=dp.ZCDP(1.0), insecure_seed=0),
]
# What is asked of an estimator whatever it computes: parameters, clones, texts, tags, pickles.
INTERFACE = {
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_get_params_invariance",
    "check_set_params",
    "check_dont_overwrite_parameters",
    "check_estimators_overwrite_params",
    "check_estimators_fit_returns_self",
    "check_estimators_unfitted",
    "check_fit_check_is_fitted",
    "check_dict_unchanged",
    "check_mixin_order",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_estimators_pickle",
    "check_requires_y_none",
}
EVERY_KIND = ("check_estimators_nan_inf", "check_supervised_y_no_nan", "check_dtype_object")

# The checks feed one-column vectors and constant data on purpose; their warnings are not ours.
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)


def checks_of(estimator):
    return [check for _, check in estimator_checks_generator(estimator)]


@parametrize_with_checks([CLASSIFIER, REGRESSOR], expected_failed_checks=lambda _: CANNOT_PASS)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", OTHERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("name", sorted(INTERFACE))
def test_interface_of_the_others(estimator, name):
    checks = [check for check in checks_of(estimator) if check.func.__name__ == name]
    assert checks
    for check in checks:
        check(estimator)


@pytest.mark.parametrize(
    ("name", "example"),
    [
        *((name, CLASSIFIER) for name in CANNOT_PASS),
        *((name, REGRESSOR) for name in EVERY_KIND),
    ],
)
def test_every_listed_check_exists_and_fails(name, example):
    """The list stays honest: a check that would pass must not stay on it."""
    (check,) = [check for check in checks_of(example) if check.func.__name__ == name]
    with pytest.raises((AssertionError, dp.InputError)):
        check(example)
