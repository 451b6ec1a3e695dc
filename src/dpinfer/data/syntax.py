"""What people write in a formula and its parser does not take, or takes for something else: each with a remedy."""

from collections.abc import Iterable

from dpinfer.errors import InputError

ONE_OUTCOME = (
    "the formula needs exactly one outcome on the left of ~: the name of a column, or a transform such as log(y) or "
    "I(a - b)"
)
NO_COMPARISON = (
    "compares, and a comparison is not read: add a column of true and false to the table, such as age_over_50, and "
    'declare it in the schema with type = "boolean"'
)
SIGNS_OF_COMPARISON = (">", "<", ">=", "<=", "==", "!=", "&", "&&", "!")
INSTEAD = {
    "factor": "C(x), a factor whose levels the schema declares",
    "ordered": "C(x), a factor whose levels the schema declares",
    "relevel": "C(x, 'level') for another reference level",
    "Q": "a name with spaces in backticks, as in `my column`",
    "ln": "log(x)",
    "pow": "I(x ** 2)",
    "offset": "I(y - x) on the left of ~, for a number",
    "ifelse": "a column of true and false, added to the table and declared in the schema",
}
"""Functions of other programs, and what to write for them."""

Token = tuple[str, str]  # its text, and "name", "value", "operator", "python" or "context"


def check(formula: str, tokens: list[Token], names: Iterable[str]) -> None:
    """Refuse a formula by its tokens; ``names`` are the columns that may explain something."""
    signs = [text for text, kind in tokens if kind == "operator"]
    _left(formula, tokens, signs)
    left = formula.partition("~")[0].strip()
    if "." in signs:
        listed = " + ".join(name if name.isidentifier() else f"`{name}`" for name in names if name != left)
        raise InputError(f"a . for all columns is not read: name them, as in {left} ~ {listed}")
    for sign in signs:
        if sign in SIGNS_OF_COMPARISON:
            raise InputError(f"the formula cannot be read: {sign} {NO_COMPARISON}")
    if "=" in signs:
        raise InputError("the formula cannot be read: write ~ between the outcome and the terms, not =")
    for three in zip(tokens, tokens[1:], tokens[2:], strict=False):
        _three(*three)


def _left(formula: str, tokens: list[Token], signs: list[str]) -> None:
    """The parser has an algebra of terms on the left, too: y - x would be y, and y/100 nothing."""
    if "~" in signs and signs[0] != "~" and formula.partition("~")[0].strip():
        left = [text for text, _ in tokens[: tokens.index(("~", "operator"))]]
        raise InputError(f"{ONE_OUTCOME}; arithmetic stands in I(...), here I({' '.join(left)})")


def _three(before: Token, sign: Token, after: Token) -> None:
    """A power of one column, and arithmetic with numbers."""
    if sign[0] in ("**", "^") and before[1] in ("name", "python") and after[1] == "value":
        raise InputError(
            f"{before[0]}{sign[0]}{after[0]} stands for {before[0]} alone, as in R: write I({before[0]} ** {after[0]}) "
            "for a power, (a + b)**2 for products of columns"
        )
    if sign[0] in ("*", "/") and "value" in (before[1], after[1]):
        raise InputError(f"arithmetic with numbers stands in I(...): write I({before[0]} {sign[0]} {after[0]})")
