"""A formula and a schema give the response and the terms of a design; no data are involved.

formulaic parses the formula into terms and factors; products of terms are counted before they are
made, so that no formula takes long, however short it is.  A factor that is more than a name is
parsed as a Python expression, and its tree is walked with a list of what is allowed: no code is
run.  What people write and the parser does not take, or takes for something else, is refused with a
remedy.
"""

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from reprlib import repr as short
from typing import Any

from dpinfer.errors import InputError
from dpinfer.schema.columns import Category, Column, Number, Outcome, did_you_mean, tidied
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import (
    FARTHEST_OFFSET,
    FUNCTIONS,
    Expression,
    Factor,
    Part,
    Response,
    Terms,
    apply,
    constant,
    explained,
    of_column,
    plain_part,
    require_spread,
)

_MOST_CHARACTERS = 5000
_MOST_NAMES = 1000
_MOST_BRACKETS = 100  # inside each other
_MOST_TERMS = 500
_MOST_PRODUCTS = 3000  # made on the way; (a + b + ... + z)**2 makes 728
_PRODUCTS = ("*", "/", "in", ":", "**", "^")  # what makes more terms than are written
_OPERATORS = {ast.Add: "+", ast.Sub: "minus", ast.Mult: "*", ast.Div: "/"}
_CALLABLE = ", ".join([*sorted(FUNCTIONS), "scale"])
_SPLINES = {"bs", "cr", "cc", "cs", "ns", "te", "poly"}
_LEARNING = {"center", "standardize", "hashed", "lag", "cut", "qcut", "ave"} | _SPLINES
"""Functions of other programs that learn from the values."""

_INSTEAD = {
    "factor": "C(x), a factor whose levels the schema declares",
    "ordered": "C(x), a factor whose levels the schema declares",
    "relevel": "C(x, 'level') for another reference level",
    "Q": "a name with spaces in backticks, as in `my column`",
    "ln": "log(x)",
    "pow": "I(x ** 2)",
    "ifelse": "a column of true and false, added to the table and declared in the schema",
}
"""Functions of other programs, and what to write for them."""

_OFFSET_ALONE = "an offset is a term of its own, once in a formula: y ~ a + b + offset(log(years))"
_SIGNS_OF_COMPARISON = (">", "<", ">=", "<=", "==", "!=", "&", "&&", "!")
_NO_COMPARISON = (
    "compares, and a comparison is not read: add a column of true and false to the table, such as age_over_50, and "
    'declare it in the schema with type = "boolean"'
)
_NO_COMPARISON_LEFT = (
    "compares, and a comparison is not read: add the answer to the table as a column of true and false, declare it in "
    'the schema with type = "outcome" and levels = [false, true], and write its name on the left of ~'
)
_ONE_OUTCOME = (
    "the formula needs exactly one outcome on the left of ~: the name of a column, or a transform such as log(y) or "
    "I(a - b)"
)

_TOO_DEEP = "the formula cannot be read, since it is nested too deeply: write shorter terms"
_TOO_MANY = (
    f"the formula has more than {_MOST_TERMS} terms, or makes more than {_MOST_PRODUCTS} products on the way to them: "
    "name fewer columns, or lower a power"
)

# R's sign of a power outside quotes; for Python it binds less than a sum
_HAT = re.compile(r"""`[^`]*`|"[^"]*"|'[^']*'|\^""")
_LARGE_POWER = re.compile(r"(\*\*|\^)[\s(+]*[0-9]*[1-9][0-9]")
_LONG_NUMBER = re.compile(r"[0-9]{300}")  # beyond what double precision holds
_BACKTICKS = re.compile(r"`([^`]*)`")
_STAND_IN = re.compile(r"__name(\d+)")  # for a name in backticks, which is no Python

_Token = tuple[str, str]  # its text, and "name", "value", "operator", "python" or "context"
_Factors = tuple[tuple[str, str], ...]  # of one term: text, and how formulaic would evaluate it
_Side = list[_Factors]
_ONE: _Factors = (("1", "literal"),)


def parse(formula: str, schema: Schema) -> tuple[Response, Terms]:
    """``response ~ terms``: every name a column of the schema, every transform public.

    Guarantee [bounded_formulas]: no formula takes long; terms, products, brackets and columns are
    counted before they are made, and what is too large is refused with a remedy.
    """
    left, right = _sides(formula, schema)
    try:
        response = _response(left, schema)
        offsets = [factors for factors in right if _is_offset(factors)]
        parts = [
            _term(factors, schema)
            for factors in right
            if factors != _ONE and not _is_offset(factors)
        ]
        offset = _offset(offsets, schema)
    except RecursionError:
        raise InputError(_TOO_DEEP) from None
    _require_one_reference_each(parts)
    terms = Terms.of(parts, intercept=_ONE in right, offset=offset)
    names_on_the_right = {column.name for column in terms.columns}
    for column in response.columns:
        if column.name in names_on_the_right:
            raise InputError(
                f"{column.name!r} stands on both sides of ~: leave it out on one of them"
            )
    return response, terms


def names_of(formula: str) -> list[str]:
    """The columns that a formula names, each once, without a schema."""
    formula = _readable(formula)
    names: list[str] = []
    with _reading():
        tokens = [(token.token, token.kind.value) for token in _parser().get_tokens(formula)]
        _check(formula, tokens, ["a", "b"])
    for text, kind in tokens:
        if kind == "name":
            names.append(text)
        if kind == "python":
            names += _Walk(text, _no_column).names()
    return list(dict.fromkeys(names))


def _no_column(name: str) -> Number | Category:
    raise InputError(f"{name!r} is no column here: give a schema")


def _sides(formula: str, schema: Schema) -> tuple[_Side, _Side]:
    """The terms of the left and of the right side."""
    formula = _readable(formula)
    parser = _parser()
    with _reading():
        tokens = [(token.token, token.kind.value) for token in parser.get_tokens(formula)]
        _check(formula, tokens, _explanatory_names(schema))
        parsed = parser.get_terms(formula)
    if not hasattr(parsed, "lhs"):
        raise InputError("the formula has no outcome: write 'outcome ~ terms'")
    return _side(parsed.lhs), _side(parsed.rhs)


@contextmanager
def _reading() -> Iterator[None]:
    """What the parser raises, as an error of ours."""
    try:
        yield
    except InputError:
        raise
    except RecursionError:
        raise InputError(_TOO_DEEP) from None
    except Exception as error:  # of many types: the parser trips over odd tokens
        line = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().partition("\n")[0]
        if "nested" in line:
            raise InputError(_TOO_DEEP) from None
        raise InputError(f"the formula cannot be read: {line or type(error).__name__}") from None


def _readable(formula: str) -> str:
    """The text with Python's sign of a power; refused where it is too long or has huge numbers."""
    if not isinstance(formula, str) or len(formula) > _MOST_CHARACTERS:
        raise InputError(
            f"the formula must be text such as 'outcome ~ a + b', of at most {_MOST_CHARACTERS} characters"
        )
    if _LARGE_POWER.search(formula):
        raise InputError(
            "the formula cannot be read: a power goes up to 9, as in (a + b + c)**2 or I(a**2)"
        )
    if _LONG_NUMBER.search(formula):
        raise InputError("a number of the formula is too large: write it in smaller units")
    return _HAT.sub(lambda match: "**" if match[0] == "^" else match[0], formula)


def _parser() -> Any:
    """formulaic's parser, with products of terms that are counted before they are made."""
    # heavy, and not needed before there is a formula
    from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415
    from formulaic.parser.types import Operator  # noqa: PLC0415

    parser: Any = DefaultFormulaParser()
    table = parser.operator_resolver.operator_table
    products = _Products(table[":"][0].to_terms)
    for symbol in _PRODUCTS:
        (operator,) = table[symbol]
        to_terms: Callable[[Any, Any], Any] = partial(products.counted, operator.to_terms)
        if symbol in ("**", "^"):
            to_terms = products.power
        counted = Operator(
            symbol,
            arity=operator.arity,
            precedence=operator.precedence,
            associativity=operator.associativity,
            to_terms=to_terms,
        )
        table[symbol] = [counted]
    return parser


class _Products:
    """Products of sets of terms; too many of them in one formula are refused before they are made.

    ``times`` is the parser's own product of two sets.
    """

    def __init__(self, times: Callable[[Any, Any], Any]) -> None:
        self.times = times
        self.made = 0

    def counted(self, operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """What an operation makes of two sets of terms."""
        self.made += len(left) * len(right) + len(left) + len(right)
        if self.made > _MOST_PRODUCTS:
            raise InputError(_TOO_MANY)
        return operation(left, right)

    def power(self, base: Any, exponent: Any) -> Any:
        """The product of a set with itself, without making a term again that is there already."""
        terms = base
        for _ in range(int(str(next(iter(exponent)))) - 1):
            more = self.counted(self.times, terms, base)
            if [term.factors for term in more] == [term.factors for term in terms]:
                return terms
            terms = more
        return terms


def _side(parsed: Any) -> _Side:
    terms = list(parsed)
    if len(terms) > _MOST_TERMS:
        raise InputError(_TOO_MANY)
    if not all(hasattr(term, "factors") for term in terms):
        raise InputError(
            "parts separated by | are not available: write one part, as in 'y ~ a + b'"
        )
    return [
        tuple((factor.expr, factor.eval_method.value) for factor in term.factors) for term in terms
    ]


def _check(formula: str, tokens: list[_Token], names: Iterable[str]) -> None:
    """Refuse a formula by its tokens; ``names`` are the columns that may explain something."""
    _check_size(tokens)
    signs = [text for text, kind in tokens if kind == "operator"]
    _check_left(formula, signs)
    left = formula.partition("~")[0].strip()
    if "." in signs:
        listed = " + ".join(
            name if name.isidentifier() else f"`{name}`" for name in names if name != left
        )
        raise InputError(f"a . for all columns is not read: name them, as in {left} ~ {listed}")
    for sign in signs:
        if sign in _SIGNS_OF_COMPARISON:
            raise InputError(f"the formula cannot be read: {sign} {_NO_COMPARISON}")
    if "=" in signs:
        raise InputError(
            "the formula cannot be read: write ~ between the outcome and the terms, not ="
        )
    for three in zip(tokens, tokens[1:], tokens[2:], strict=False):
        _check_arithmetic(*three)


def _check_size(tokens: list[_Token]) -> None:
    """Refuse what would take long, by the number of names and of brackets alone."""
    names = [text for text, kind in tokens if kind in ("name", "python")]
    if len(names) > _MOST_NAMES:
        raise InputError(f"the formula names more than {_MOST_NAMES} columns: name fewer")
    depth = 0
    for text, kind in tokens:
        if kind == "context":
            depth += 1 if text in "([" else -1
        if depth > _MOST_BRACKETS:
            raise InputError(_TOO_DEEP)


def _check_left(formula: str, signs: list[str]) -> None:
    """The parser has an algebra of terms on the left, too: y - x would be y, and y/100 nothing."""
    left = formula.partition("~")[0].strip()
    if "~" not in signs or signs[0] == "~" or not left:
        return
    for sign in signs[: signs.index("~")]:
        if sign in _SIGNS_OF_COMPARISON:
            raise InputError(f"the formula cannot be read: {sign} {_NO_COMPARISON_LEFT}")
    raise InputError(f"{_ONE_OUTCOME}; arithmetic stands in I(...), here I({left})")


def _check_arithmetic(before: _Token, sign: _Token, after: _Token) -> None:
    """A power of one column, and arithmetic with numbers."""
    left, left_kind = before
    right, right_kind = after
    operator, _ = sign
    if operator in ("**", "^") and left_kind in ("name", "python") and right_kind == "value":
        raise InputError(
            f"{left}{operator}{right} stands for {left} alone, as in R: write I({left} ** {right}) "
            "for a power, (a + b)**2 for products of columns"
        )
    plain = right_kind == "value" and right in set("123456789")
    if operator in ("**", "^") and (left_kind == "value" or not plain):
        raise InputError(
            f"the formula cannot be read: after {operator} stands a whole number from 1 to 9, as in (a + b + c)**2"
        )
    if operator in ("*", "/") and "value" in (left_kind, right_kind):
        raise InputError(
            f"arithmetic with numbers stands in I(...): write I({left} {operator} {right})"
        )


def _response(side: _Side, schema: Schema) -> Response:
    """The left side: an outcome with two levels, or a number within public bounds."""
    if len(side) != 1 or len(side[0]) != 1 or side[0][0][1] == "literal":
        raise InputError(_ONE_OUTCOME)
    text, method = side[0][0]
    if method == "lookup":
        column = _column(schema, text)
        if isinstance(column, Outcome) and column.levels:
            return Response(column)
        return Response(of_column(explained(column)))
    walk = _Walk(text, lambda name: explained(_column(schema, name)), _NO_COMPARISON_LEFT)
    number = walk.number()
    require_spread(number, "explain something else, or change its bounds in the schema")
    return Response(number)


def _is_offset(factors: _Factors) -> bool:
    return len(factors) == 1 and re.match(r"offset\s*\(", factors[0][0]) is not None


def _offset(terms: list[_Factors], schema: Schema) -> Expression | None:
    """What is added to the predictor as it is; none where the formula has no such term."""
    if not terms:
        return None
    if len(terms) > 1:
        raise InputError(_OFFSET_ALONE)
    return _Walk(terms[0][0][0], partial(_explanatory, schema)).offset()


def _term(factors: _Factors, schema: Schema) -> tuple[Part, ...]:
    parts: dict[tuple[type, str], Part] = {}
    for text, method in factors:
        if method == "literal":
            raise InputError(
                f"the number {short(text)} cannot stand in a term: write I({text} * x) for a multiple of x"
            )
        if method == "lookup":
            part = plain_part(_explanatory(schema, text))
        else:
            part = _Walk(text, partial(_explanatory, schema)).part()
        parts[type(part), part.text] = part
    return tuple(parts.values())


def _column(schema: Schema, name: str) -> Column:
    """A column of the schema that may stand in a formula."""
    purpose = ""
    if name and name == schema.unit.column:
        purpose = "the ids of [unit]"
    if name and name == schema.unit.weights:
        purpose = "the weights of [weights]"
    if purpose:
        raise InputError(
            f"{name!r} holds {purpose} in the schema and cannot stand in a formula: leave it out"
        )
    return schema[name]


def _explanatory(schema: Schema, name: str) -> Number | Category:
    """A column of the schema that may stand on the right of ~."""
    column = _column(schema, name)
    if isinstance(column, Outcome):
        raise InputError(
            f"{name!r} is an outcome of the schema and cannot stand on the right of ~: leave it out"
        )
    return column


def _explanatory_names(schema: Schema) -> list[str]:
    ids_and_weights = (schema.unit.column, schema.unit.weights)
    return [
        name
        for name, column in schema.columns.items()
        if name not in ids_and_weights and not isinstance(column, Outcome)
    ]


def _require_one_reference_each(terms: list[tuple[Part, ...]]) -> None:
    factors: dict[str, Factor] = {}
    for part in itertools.chain.from_iterable(terms):
        if isinstance(part, Factor) and factors.setdefault(part.text, part) != part:
            raise InputError(
                f"{part.text!r} has two reference levels in the formula: use one C({part.text}, ...)"
            )


class _Walk:
    """One factor of a formula that is more than a name; ``column`` gives what a name stands for on
    its side of ~, ``no_comparison`` what to do there instead of comparing.
    """

    def __init__(
        self,
        text: str,
        column: Callable[[str], Number | Category],
        no_comparison: str = _NO_COMPARISON,
    ) -> None:
        self.text = text
        self.column = column
        self.no_comparison = no_comparison
        self.quoted: list[str] = _BACKTICKS.findall(text)
        numbers = itertools.count()
        plain = _BACKTICKS.sub(lambda _: f"__name{next(numbers)}", text)
        try:
            self.tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, MemoryError):
            raise self._refused("it cannot be read") from None

    def names(self) -> list[str]:
        """The columns that it names; a function is no column, nor is np."""
        functions = [node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        skipped = {id(name) for function in functions for name in ast.walk(function)}
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        return [self._name(node) for node in nodes if id(node) not in skipped]

    def part(self) -> Part:
        """A factor C(...), or a numeric expression."""
        if isinstance(self.tree, ast.Call) and self._called(self.tree) == "C":
            return self._factor(self.tree)
        return self.number()

    def offset(self) -> Expression:
        """The argument of offset(...), a number; the logarithm of an exposure that may be 0 has an
        end below all the same: nobody with such an exposure counts.
        """
        call = self.tree
        if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
            raise self._refused("offset takes one argument, as in offset(log(years))")
        (inner,) = call.args
        if isinstance(inner, ast.Call) and self._called(inner) == "log" and len(inner.args) == 1:
            exposure = self._number(inner.args[0])
            if exposure.low <= 0 < exposure.high:
                high = math.log(exposure.high)
                low = high - FARTHEST_OFFSET
                return Expression(self._unparsed(inner), low, high, "log", (exposure,))
        number = self._number(inner)
        if number.high - number.low > FARTHEST_OFFSET:
            raise self._refused(
                f"an offset is the logarithm of an exposure, and its bounds are more than {FARTHEST_OFFSET:g} apart: "
                "tighten them in the schema, or write offset(log(x)) for an exposure x"
            )
        return number

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
                number = self._number(operand)
                return apply("-", text, number) if isinstance(sign, ast.USub) else number
            case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=int() as power)) if (
                1 <= power <= 9
            ):
                return apply("**", text, self._number(left), constant(power))
            case ast.BinOp(op=ast.Pow()):
                raise self._refused("a power is a whole number from 1 to 9, as in I(x ** 2)")
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return apply(
                    _OPERATORS[type(operator)], text, self._number(left), self._number(right)
                )
            case ast.Call():
                return self._call(node)
            case ast.Compare() | ast.BoolOp() | ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                raise self._refused(f"it {self.no_comparison}")
        raise self._refused(f"a transform is made of columns, numbers, + - * / ** and {_CALLABLE}")

    def _call(self, node: ast.Call) -> Expression:
        name = self._called(node)
        if name in _LEARNING:
            raise self._refused(
                f"{name} learns from the values, which is not private: use a public transform"
            )
        if name == "offset":
            raise self._refused(_OFFSET_ALONE)
        if name in _INSTEAD:
            raise self._refused(f"write {_INSTEAD[name]}")
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
        argument = node.args[0]
        column = self._numeric(argument) if isinstance(argument, ast.Name) else None
        if column is None or column.centre is None or column.scale is None:
            raise self._refused(
                "scale needs a column with a public centre and scale in the schema; "
                "a mean and a spread learnt from the values are not private"
            )
        text = self._unparsed(node)
        centred = apply("minus", text, of_column(column), constant(column.centre))
        return apply("/", text, centred, constant(column.scale))

    def _factor(self, node: ast.Call) -> Factor:
        arguments = list(node.args)
        unknown = False
        for keyword in node.keywords:
            if keyword.arg == "reference":
                arguments.append(keyword.value)
            else:
                unknown = True
        if unknown or not 1 <= len(arguments) <= 2 or not isinstance(arguments[0], ast.Name):
            raise self._refused("a factor is C(column) or C(column, 'reference level')")
        column = self.column(self._name(arguments[0]))
        levels = column.levels
        reference = column.reference
        if isinstance(column, Number) and column.kind == "boolean":
            levels = (False, True)
            reference = False
        if not levels or reference is None:
            raise self._refused(
                f"{column.name!r} has no levels: declare it in the schema as a category or integer with levels"
            )
        if len(arguments) == 2:
            reference = self._reference(arguments[1], levels)
        return Factor(column, levels, reference)

    def _reference(self, node: ast.expr, levels: tuple[Any, ...]) -> Any:
        if isinstance(node, ast.Call) and self._called(node) == "Treatment":
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            node = next(iter(arguments), node)
        if not isinstance(node, ast.Constant):
            raise self._refused(
                "a reference level is written as it is in the schema, text in quotes"
            )
        level = tidied(node.value)
        if type(level) is not type(levels[0]) or level not in levels:
            raise self._refused(f"{short(level)} is not a level: {did_you_mean(level, levels)}")
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
        stand_in = _STAND_IN.fullmatch(node.id)
        if stand_in and int(stand_in[1]) < len(self.quoted):
            return self.quoted[int(stand_in[1])]
        return node.id

    def _called(self, node: ast.Call) -> str:
        """The name of a function; np.log is log."""
        match node.func:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="np"), attr=name):
                return name
        raise self._refused("a function is called by its name")

    def _unparsed(self, node: ast.expr) -> str:
        return _STAND_IN.sub(lambda match: self._name(ast.Name(match[0])), ast.unparse(node))

    def _refused(self, reason: str) -> InputError:
        return InputError(f"the term {short(self.text)} is not available: {reason}")
