"""scikit-learn faces of the fit: arrays with public bounds, or a table with a schema and a formula."""

from dpinfer.estimators.classifiers import LinearSVC, LogisticRegression
from dpinfer.estimators.regressors import HuberRegression, QuantileRegression

__all__ = ["HuberRegression", "LinearSVC", "LogisticRegression", "QuantileRegression"]
