"""The bounded records of a table, by a parsed formula, for the kind of loss that will read them."""

from typing import Any

from dpinfer.data.design import Design
from dpinfer.data.schema import Category, Number, Outcome
from dpinfer.data.source import UNSCALED, Rows, Scale
from dpinfer.data.table import open_table, read_labels, read_terms
from dpinfer.errors import InputError


def read(native: Any, outcome: Outcome, terms: list[Number | Category], kind: str) -> tuple[Design, Rows, Scale]:
    """The public design, the records, and the scale of the outcome; ``kind`` is what the loss is a function of.

    A loss of the margin needs an outcome with two levels, a loss of the residual one with bounds.
    """
    if bool(outcome.levels) != (kind == "margin"):
        needs = "two levels" if kind == "margin" else "numbers: low and high, no levels"
        raise InputError(
            f"this loss is of the {kind}, so the schema must declare the outcome {outcome.name!r} by {needs}"
        )
    design, table = Design.of_terms(terms), open_table(native)
    rows = Rows.of(design.rows(read_terms(table, terms)), read_labels(table, outcome), kind)
    return design, rows, UNSCALED if outcome.levels else Scale.of_range(*(getattr(outcome, s) for s in ("low", "high")))
