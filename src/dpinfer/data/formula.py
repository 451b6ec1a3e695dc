"""A formula and a schema give the outcome and the terms of a design.  No data are involved."""

from typing import Any

from dpinfer.data.schema import Category, Number, Outcome, Schema
from dpinfer.errors import InputError


def parse(formula: str, schema: Schema | None) -> tuple[Outcome, list[Number | Category]]:
    """``outcome ~ a + b + c`` with an intercept, every name a column of the schema."""
    if not isinstance(schema, Schema):
        raise InputError("a formula needs schema=, for example dp.Schema.read('schema.toml')")
    left, right = _sides(formula)
    if len(left) != 1:
        raise InputError("the formula needs exactly one outcome on the left of ~")
    outcome = schema[left[0]]
    if not isinstance(outcome, Outcome):
        raise InputError(f"{left[0]!r} stands on the left of ~, but the schema does not declare it as an outcome")
    if "1" not in right:
        raise InputError("the intercept cannot be left out: drop the -1 or 0 from the formula")
    return outcome, [_term(name, schema) for name in right if name != "1"]


def _sides(formula: str) -> tuple[list[str], list[str]]:
    from formulaic.errors import FormulaicError  # noqa: PLC0415  (heavy: loaded when a formula is used)
    from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415

    if not isinstance(formula, str):
        raise InputError("the formula must be text such as 'outcome ~ a + b'")
    try:
        parsed = DefaultFormulaParser().get_terms(formula)
    except FormulaicError as fault:
        first_line = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        raise InputError(f"the formula cannot be read: {first_line}") from None
    if not hasattr(parsed, "lhs"):
        raise InputError("the formula has no outcome: write 'outcome ~ terms'")
    return _names(parsed.lhs), _names(parsed.rhs)


def _names(terms: Any) -> list[str]:
    names = []
    for term in terms:
        factors: tuple[Any, ...] = getattr(term, "factors", ())
        if len(factors) != 1 or factors[0].eval_method.value == "python":
            raise InputError(
                f"the term {str(term)!r} is not available: a formula adds plain columns, as in 'y ~ a + b'"
            )
        names.append(factors[0].expr)
    return names


def _term(name: str, schema: Schema) -> Number | Category:
    column = schema[name]
    if isinstance(column, Outcome):
        raise InputError(f"{name!r} is an outcome of the schema and cannot stand on the right of ~")
    return column
