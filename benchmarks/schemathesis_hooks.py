"""What schemathesis is helped with: formulas that mean something, beside those that it makes up."""

import random

import schemathesis

FORMULAS = (
    "visit ~ health",
    "visit ~ lncoins + idp + health",
    "visit ~ (lncoins + lpi)**2",
    "visit ~ ns(lpi, 2, 4)",
    "visit ~ nothing",
    "mdvis ~ health",
)
_chance = random.Random(0)


@schemathesis.hook
def map_body(context, body):  # noqa: ARG001  (the names are the library's)
    """Half of the questions that have a formula get one from the list; what is wrong on purpose stays."""
    formula = body.get("formula") if isinstance(body, dict) else None
    if isinstance(formula, str) and formula.strip() and _chance.random() < 0.5:
        return {**body, "formula": _chance.choice(FORMULAS)}
    return body
