"""What people write in a formula and its parser does not take, or takes for something else: each
with a remedy.

A formula and a schema give the response and the terms of a design.  No data are involved, and no
code is run.

formulaic parses the formula into terms and factors.  A factor that is more than a name is parsed as
a Python expression and its tree is walked with a list of what is allowed.
"""

import ast
import re
from collections.abc import Callable, Iterable
from functools import partial
from reprlib import repr as short
from typing import Any

from dpinfer.errors import InputError
from dpinfer.schema.columns import Category, Column, Number, Outcome, near, tidied
from dpinfer.schema.expressions import (
    FUNCTIONS,
    Expression,
    apply,
    constant,
    of_column,
    require_spread,
)
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import Factor, Part, Response, Terms, explained, plain_part

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
        listed = " + ".join(
            name if name.isidentifier() else f"`{name}`" for name in names if name != left
        )
        raise InputError(f"a . for all columns is not read: name them, as in {left} ~ {listed}")
    for sign in signs:
        if sign in SIGNS_OF_COMPARISON:
            raise InputError(f"the formula cannot be read: {sign} {NO_COMPARISON}")
    if "=" in signs:
        raise InputError(
            "the formula cannot be read: write ~ between the outcome and the terms, not ="
        )
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
        raise InputError(
            f"arithmetic with numbers stands in I(...): write I({before[0]} {sign[0]} {after[0]})"
        )


_LONGEST = 5000  # characters of a formula
_MOST = 500  # terms
_LEARNED = {
    "center",
    "standardize",
    "bs",
    "cr",
    "cc",
    "cs",
    "te",
    "poly",
    "ns",
    "hashed",
    "lag",
    "cut",
    "qcut",
    "ave",
}
_CALLABLE = ", ".join([*sorted(FUNCTIONS), "scale"])
_OPERATORS = {ast.Add: "+", ast.Sub: "minus", ast.Mult: "*", ast.Div: "/"}


def parse(formula: str, schema: Schema | None) -> tuple[Response, Terms]:
    """``response ~ terms``: every name a column of the schema, every transform public."""
    if not isinstance(schema, Schema):
        raise InputError("a formula needs schema=, for example dp.Schema.read('schema.toml')")
    left, right = _sides(formula, schema)
    try:
        response = _response(left, schema)
        parts = [_term(factors, schema) for factors in right if factors != _ONE]
    except RecursionError:
        raise InputError("the formula cannot be read: it is nested too deeply") from None
    _one_reference_each(parts)
    terms = Terms.of(parts, intercept=_ONE in right)
    known = {column.name for column in terms.columns}
    for column in response.columns:
        if column.name in known:
            raise InputError(
                f"{column.name!r} stands on both sides of ~: leave it out on one of them"
            )
    return response, terms


_Side = list[tuple[tuple[str, str], ...]]
_ONE = (("1", "literal"),)


def _sides(formula: str, schema: Schema) -> tuple[_Side, _Side]:
    """Left and right side: terms, each a tuple of factors (text, how formulaic would evaluate it)."""
    from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415  (heavy: loaded when a formula is used)

    if not isinstance(formula, str) or len(formula) > _LONGEST:
        raise InputError(
            f"the formula must be text such as 'outcome ~ a + b', of at most {_LONGEST} characters"
        )
    if _MANY.search(formula):
        raise InputError(
            "the formula cannot be read: a power goes up to 9, as in (a + b + c)**2 or I(a**2)"
        )
    parser, formula = (
        DefaultFormulaParser(),
        _HAT.sub(lambda hat: "**" if hat[0] == "^" else hat[0], formula),
    )
    try:
        check(
            formula,
            [(t.token, t.kind.value) for t in parser.get_tokens(formula)],
            _explainable(schema),
        )
        parsed = parser.get_terms(formula)
    except InputError:
        raise
    except Exception as fault:  # of many types: the parser trips over odd tokens
        line = re.sub(r"\x1b\[[0-9;]*m", "", str(fault)).strip().partition("\n")[0]
        raise InputError(f"the formula cannot be read: {line or type(fault).__name__}") from None
    if not hasattr(parsed, "lhs"):
        raise InputError("the formula has no outcome: write 'outcome ~ terms'")
    return _factors(parsed.lhs), _factors(parsed.rhs)


_HAT = re.compile(
    r"""`[^`]*`|"[^"]*"|'[^']*'|\^"""
)  # R's sign of a power; for Python it binds less than a sum
_MANY = re.compile(r"(\*\*|\^)[\s(+]*[0-9]*[1-9][0-9]")


def _factors(side: Any) -> _Side:
    terms = list(side)
    if len(terms) > _MOST:
        raise InputError(f"the formula has more than {_MOST} terms: name fewer, or lower a power")
    if not all(hasattr(term, "factors") for term in terms):
        raise InputError(
            "parts separated by | are not available: write one part, as in 'y ~ a + b'"
        )
    return [
        tuple((factor.expr, factor.eval_method.value) for factor in term.factors) for term in terms
    ]


def _response(side: _Side, schema: Schema) -> Response:
    """The left side: an outcome with two levels, or a number within public bounds."""
    if len(side) != 1 or len(side[0]) != 1 or side[0][0][1] == "literal":
        raise InputError(ONE_OUTCOME)
    text, method = side[0][0]
    if method == "lookup":
        column = _column(schema, text)
        if isinstance(column, Outcome) and column.levels:
            return Response(column)
        return Response(of_column(explained(column)))
    number = _Walk(text, lambda name: explained(_column(schema, name))).number()
    require_spread(number, "explain something else, or change its bounds in the schema")
    return Response(number)


def _term(factors: tuple[tuple[str, str], ...], schema: Schema) -> tuple[Part, ...]:
    parts: dict[tuple[type, str], Part] = {}
    for text, method in factors:
        if method == "literal":
            raise InputError(
                f"the number {short(text)} cannot stand in a term: write I({text} * x) for a multiple of x"
            )
        explaining = partial(_explaining, schema)
        part = (
            plain_part(explaining(text)) if method == "lookup" else _Walk(text, explaining).part()
        )
        parts[type(part), part.text] = part
    return tuple(parts.values())


def _column(schema: Schema, name: str) -> Column:
    """A column of the schema that may stand in a formula."""
    told = {
        schema.whom.column: "holds the ids of [unit]",
        schema.whom.weights: "holds the weights of [weights]",
    }
    if name and name in told:
        raise InputError(
            f"{name!r} {told[name]} in the schema and cannot stand in a formula: leave it out"
        )
    return schema[name]


def _explainable(schema: Schema) -> list[str]:
    own = (schema.whom.column, schema.whom.weights)
    return [
        name
        for name, column in schema.columns.items()
        if name not in own and not isinstance(column, Outcome)
    ]


def _explaining(schema: Schema, name: str) -> Number | Category:
    column = _column(schema, name)
    if isinstance(column, Outcome):
        raise InputError(
            f"{name!r} is an outcome of the schema and cannot stand on the right of ~: leave it out"
        )
    return column


def _one_reference_each(terms: list[tuple[Part, ...]]) -> None:
    seen: dict[str, Factor] = {}
    for part in (part for term in terms for part in term if isinstance(part, Factor)):
        if seen.setdefault(part.text, part) != part:
            raise InputError(
                f"{part.text!r} has two reference levels in the formula: use one C({part.text}, ...)"
            )


class _Walk:
    """One factor of a formula that is more than a name; ``column`` gives what a name stands for on
    its side of ~.
    """

    def __init__(self, text: str, column: Callable[[str], Number | Category]) -> None:
        self.text, self.column = text, column
        self.quoted = re.findall(r"`([^`]*)`", text)  # names in backticks are no Python
        count = iter(range(len(self.quoted)))
        plain = re.sub(r"`[^`]*`", lambda _: f"__name{next(count)}", text)
        try:
            self.tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, MemoryError):
            raise self._refused("it cannot be read") from None

    def part(self) -> Part:
        """A factor C(...), or a numeric expression."""
        if isinstance(self.tree, ast.Call) and self._called(self.tree) == "C":
            return self._factor(self.tree)
        return self.number()

    def number(self) -> Expression:
        """A numeric expression."""
        expression = self._number(self.tree)
        return Expression(self.text, expression.low, expression.high, "I", (expression,))

    def _number(self, node: ast.expr) -> Expression:
        text = self._unparsed(node)
        match node:
            case ast.Name():
                return of_column(self._numeric(node))
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                try:
                    return constant(float(value))
                except OverflowError:
                    raise self._refused("a number is too large") from None
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                inner = self._number(operand)
                return apply("-", text, inner) if isinstance(sign, ast.USub) else inner
            case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=int() as power)) if (
                1 <= power <= 10
            ):
                return apply("**", text, self._number(left), constant(power))
            case ast.BinOp(op=ast.Pow()):
                raise self._refused("a power is a whole number from 1 to 10, as in I(x ** 2)")
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return apply(
                    _OPERATORS[type(operator)], text, self._number(left), self._number(right)
                )
            case ast.Call():
                return self._call(node)
            case ast.Compare() | ast.BoolOp() | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                raise self._refused(f"it {NO_COMPARISON}")
        raise self._refused(f"a transform is made of columns, numbers, + - * / ** and {_CALLABLE}")

    def _call(self, node: ast.Call) -> Expression:
        name = self._called(node)
        if name in _LEARNED:
            raise self._refused(
                f"{name} learns from the values, which is not private: use a public transform"
            )
        if name in INSTEAD:
            raise self._refused(f"write {INSTEAD[name]}")
        if name == "C":
            raise self._refused("C makes a factor, and only a number can stand here")
        if name not in FUNCTIONS | {"scale"}:
            raise self._refused(f"there is no function {name}; there are {_CALLABLE} and C")
        if len(node.args) != 1 or node.keywords:
            raise self._refused(f"{name} takes one argument")
        if name == "scale":
            return self._scale(node)
        return apply(name, self._unparsed(node), self._number(node.args[0]))

    def _scale(self, node: ast.Call) -> Expression:
        column = self._numeric(node.args[0]) if isinstance(node.args[0], ast.Name) else None
        if column is None or column.centre is None or column.scale is None:
            raise self._refused(
                "scale needs a column with a public centre and scale in the schema; "
                "a mean and a spread learnt from the values are not private"
            )
        text = self._unparsed(node)
        return apply(
            "/",
            text,
            apply("minus", text, of_column(column), constant(column.centre)),
            constant(column.scale),
        )

    def _factor(self, node: ast.Call) -> Factor:
        given = [
            *node.args,
            *(keyword.value for keyword in node.keywords if keyword.arg == "reference"),
        ]
        extra = [keyword for keyword in node.keywords if keyword.arg != "reference"]
        if not 1 <= len(given) <= 2 or extra or not isinstance(given[0], ast.Name):
            raise self._refused("a factor is C(column) or C(column, 'reference level')")
        column = self.column(self._name(given[0]))
        boolean = isinstance(column, Number) and column.kind == "boolean"
        levels, reference = ((False, True), False) if boolean else (column.levels, column.reference)
        if not levels or reference is None:
            raise self._refused(
                f"{column.name!r} has no levels: declare it in the schema as a category or integer with levels"
            )
        return Factor(
            column, levels, self._reference(given[1], levels) if len(given) == 2 else reference
        )

    def _reference(self, node: ast.expr, levels: tuple[Any, ...]) -> Any:
        if isinstance(node, ast.Call) and self._called(node) == "Treatment":
            node = next(iter([*node.args, *(keyword.value for keyword in node.keywords)]), node)
        if not isinstance(node, ast.Constant):
            raise self._refused(
                "a reference level is written as it is in the schema, text in quotes"
            )
        level = tidied(node.value)
        if type(level) is not type(levels[0]) or level not in levels:
            raise self._refused(f"{short(level)} is not a level: {near(level, levels)}")
        return level

    def _numeric(self, node: ast.expr) -> Number:
        column = self.column(self._name(node))
        if not isinstance(column, Number):
            raise self._refused(
                f"{column.name!r} is a category, and only a number can be transformed"
            )
        return column

    def _name(self, node: ast.expr) -> str:
        assert isinstance(node, ast.Name)
        quoted = re.fullmatch(r"__name(\d+)", node.id)
        return (
            self.quoted[int(quoted[1])] if quoted and int(quoted[1]) < len(self.quoted) else node.id
        )

    def _called(self, node: ast.Call) -> str:
        """The name of a function; np.log is log."""
        match node.func:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="np"), attr=name):
                return name
        raise self._refused("a function is called by its name")

    def _unparsed(self, node: ast.expr) -> str:
        return re.sub(
            r"__name(\d+)", lambda found: self._name(ast.Name(found[0])), ast.unparse(node)
        )

    def _refused(self, reason: str) -> InputError:
        return InputError(f"the term {short(self.text)} is not available: {reason}")
