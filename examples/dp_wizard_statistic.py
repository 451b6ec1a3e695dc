"""A statistic for DP Wizard: means with confidence intervals, by group.

DP Wizard writes notebooks: a statistic is a set of functions that return blocks of code.  These have the
signatures of its own ``Mean`` and use the plan of the analysis alone; nothing of DP Wizard is imported.
"""

import re
from typing import Any

name = "Mean with an interval"
blurb_md = """
The mean of a column, with an interval that counts both the sampling error and the privacy noise.
Values beyond the bounds count as the bound.
"""
input_names = ["lower_bound_input", "upper_bound_input"]

_CONFIG = "{identifier}_bounds = ({low!r}, {high!r})\n"
_QUERY = """
import dpinfer
{identifier}_columns = {{
    {column!r}: {{"type": "number", "low": {identifier}_bounds[0], "high": {identifier}_bounds[1]}}
}}
{identifier}_columns |= {groups!r}
{stats_name} = dpinfer.describe(
    {path!r},
    dpinfer.Schema.of_document({{"unit": "one record", "columns": {identifier}_columns}}),
    dpinfer.PureDP({epsilon!r}),
    columns=[{column!r}],
    by={by!r},
    adjacency="add-remove",
).to_frame()
{stats_name} = {stats_name}[{stats_name}["figure"] == "mean"]
"""


def make_column_config_block(
    column_name: str, lower_bound: float, upper_bound: float, bin_count: int
) -> str:
    """Return code that declares the column."""
    return _CONFIG.format(
        identifier=_identifier(column_name), low=float(lower_bound), high=float(upper_bound)
    )


def make_query(code_gen: Any, identifier: str, accuracy_name: str, stats_name: str) -> str:
    """Return code that releases the means: at the column's share of ε, over the rows of one person.

    DP Wizard protects a person with up to so many rows.  Without ids dpinfer protects a row, and pure
    privacy of m rows costs m times as much.
    """
    plan = code_gen.analysis_plan
    column = next(one for one in plan.analysis_columns if _identifier(one) == identifier)
    weights = sum(one.weight for columns in plan.analysis_columns.values() for one in columns)
    share = plan.analysis_columns[column][0].weight / weights
    by = next(iter(plan.groups), None)
    groups = {one: {"type": "category", "levels": list(plan.groups[one])} for one in plan.groups}
    return _QUERY.format(
        stats_name=stats_name,
        path=plan.path,
        identifier=identifier,
        epsilon=share * plan.epsilon / plan.contributions,
        column=column,
        groups=groups,
        by=by,
    )


def make_output(code_gen: Any, column_name: str, accuracy_name: str, stats_name: str) -> str:
    """Return code that prints them."""
    return f"print({stats_name}.to_string(index=False))\n"


def make_plot_note() -> str:
    """Return the note under a plot: there is none."""
    return ""


def make_report_kv(name: str, confidence: float, identifier: str) -> str:
    """Return code of an entry of the report."""
    return f"{name!r}: {{'mean': {identifier}_stats.to_dict('records')}},\n"


def _identifier(column: str) -> str:
    """Return a name for variables, as DP Wizard makes one of a column."""
    found = re.sub(r"\W+", "_", column).lower()
    return f"number_{found}" if found[:1].isdigit() else found
