"""scikit-learn's own estimator checks, and the few that a private estimator cannot pass, each with
its reason.
"""

import functools

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

BUDGETS = ((dp.NoPrivacy(), None), (dp.PureDP(50.0), 0), (dp.ZCDP(1.0), 0))
CLASSIFIERS = [
    cls(bounds=(-10, 10), budget=budget, insecure_seed=seed)
    for cls in (dp.LogisticRegression, dp.LinearSVC)
    for budget, seed in BUDGETS
]
REGRESSORS = [
    cls(
        bounds=(-10, 10),
        outcome=(-10, 10),
        penalty=1e-5 if seed is None else None,
        budget=budget,
        insecure_seed=seed,
    )
    for cls in (dp.HuberRegression, dp.QuantileRegression)
    for budget, seed in BUDGETS
]
SQUARES = [  # no pure budget, and no fit without noise
    dp.LinearRegression(bounds=(-10, 10), outcome=(-10, 10), budget=budget, insecure_seed=0)
    for budget in (dp.ZCDP(1.0), dp.ApproxDP(1.0, 1e-6))
]
EVERY_KIND = ("check_estimators_nan_inf", "check_supervised_y_no_nan", "check_dtype_object")

# The checks feed one-column vectors and constant data on purpose; their warnings are not ours.
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)


@parametrize_with_checks(
    [*CLASSIFIERS, *REGRESSORS, *SQUARES], expected_failed_checks=lambda _: CANNOT_PASS
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("name", "example"),
    [
        *((name, CLASSIFIERS[0]) for name in CANNOT_PASS),
        *((name, example) for name in EVERY_KIND for example in (REGRESSORS[0], SQUARES[0])),
    ],
)
def test_every_listed_check_exists_and_fails(name, example):
    """The list stays honest: a check that would pass must not stay on it."""
    checks = estimator_checks_generator(example)
    (check,) = [
        functools.partial(check, estimator)
        for estimator, check in checks
        if check.func.__name__ == name
    ]
    with pytest.raises((AssertionError, dp.InputError)):
        check()
