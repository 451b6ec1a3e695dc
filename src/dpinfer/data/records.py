"""The bounded records of a table, by a parsed formula, for the kind of loss that will read them."""

from typing import Any

from dpinfer.data.columns import Outcome
from dpinfer.data.design import INTERCEPT, Design
from dpinfer.data.source import UNSCALED, Rows, Scale
from dpinfer.data.table import open_table, read_labels, read_terms
from dpinfer.data.terms import Terms
from dpinfer.errors import InputError


def layout(outcome: Outcome, terms: Terms, kind: str) -> tuple[Design, Scale]:
    """The public design and the scale of the outcome; ``kind`` is what the loss is a function of.

    A loss of the margin needs an outcome with two levels, a loss of the residual one with bounds.
    """
    if kind == "margin" and not outcome.levels:
        raise InputError(f"{outcome.name!r} is a numeric outcome: a classifier needs two levels in the schema")
    if kind == "residual" and outcome.levels:
        raise InputError(f"{outcome.name!r} is an outcome with levels: a regression needs low and high in the schema")
    design = Design.of_terms(terms)
    if kind == "margin":
        return design, UNSCALED
    assert outcome.low is not None
    assert outcome.high is not None
    return design, Scale.of_range(outcome.low, outcome.high, centred=INTERCEPT in design.names)


def read(native: Any, outcome: Outcome, terms: Terms, kind: str) -> tuple[Design, Rows, Scale]:
    """The layout, and the records between its two parts."""
    design, scale = layout(outcome, terms, kind)
    table = open_table(native, [outcome, *terms.columns])
    rows, labels = design.rows(read_terms(table, terms)), read_labels(table, outcome)
    if kind == "residual":
        assert outcome.low is not None
        assert outcome.high is not None
        labels = scale.bounded(Scale.of_range(outcome.low, outcome.high).original(labels))
    return design, Rows.of(rows, labels, kind), scale
