"""A formula and a schema give the response and the terms of a design; no data are involved.

formulaic parses the formula into terms and factors; products of terms are counted before they are
made, so that no formula takes long, however short it is.  Comparisons are put in braces before, and
a factor that is more than a name is an expression of its own.  What people write and the parser does
not take, or takes for something else, is refused with a remedy.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from reprlib import repr as short
from typing import Any

from dpinfer.errors import InputError
from dpinfer.schema.columns import Column, Number, Outcome
from dpinfer.schema.comparisons import braced
from dpinfer.schema.expressions import (
    MAX_CHARACTERS,
    OFFSET_ALONE,
    TOO_DEEP,
    Names,
    StandIns,
    Walk,
    comparison_of,
    names_in,
    quoted,
    require_readable,
)
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import (
    Curve,
    Expression,
    Factor,
    ModelTerms,
    Part,
    Response,
    explained,
    level_code,
    plain_part,
    require_spread,
)

_MAX_NAMES = 1000
_MAX_BRACKETS = 100  # inside each other
_MAX_TERMS = 500
_MAX_PRODUCTS = 3000  # made on the way; (a + b + ... + z)**2 makes 728
_PRODUCTS = ("*", "/", "in", ":", "**", "^")  # what makes more terms than are written
_SIGNS_OF_COMPARISON = (">", "<", ">=", "<=", "==", "!=", "&", "&&", "!")
_NO_COMPARISON = (
    "compares or joins, and a side of it is missing or stands outside of brackets: write age >= 65 between two +, and "
    "(age >= 65 & smoker) in brackets"
)
_ONE_OUTCOME = (
    "the formula needs exactly one outcome on the left of ~: the name of a column, or a transform such as log(y) or "
    "I(a - b)"
)

_TOO_MANY = (
    f"the formula has more than {_MAX_TERMS} terms, or makes more than {_MAX_PRODUCTS} products on the way to them: "
    "name fewer columns, or lower a power"
)

_HAT = re.compile(r"""`[^`]*`|"[^"]*"|'[^']*'|\^""")  # R's sign of a power, outside quotes

_Token = tuple[str, str]  # its text, and "name", "value", "operator", "python" or "context"
_Factors = tuple[tuple[str, str], ...]  # of one term: text, and how formulaic would evaluate it
_Side = list[_Factors]
_ONE: _Factors = (("1", "literal"),)
_PartOf = Callable[[str], Part]


def parse(formula: str, schema: Schema) -> tuple[Response, ModelTerms]:
    """Parse ``response ~ terms``: every name a column of the schema, every transform public.

    Guarantee [bounded_formulas]: no formula takes long; terms, products, brackets and columns are
    counted before they are made, and what is too large is refused with a remedy.
    """
    formula, effects = _with_effects(formula, schema)
    left, right = _sides(formula, schema)
    try:
        response = _response(left, schema)
        explanatory = _names(schema, _explanatory)
        offsets = [factors for factors in right if _is_offset(factors)]
        parts = _terms(
            [factors for factors in right if factors != _ONE and not _is_offset(factors)],
            explanatory,
        )
        offset = _offset(offsets, explanatory)
    except RecursionError:
        raise InputError(TOO_DEEP) from None
    _require_one_curve_each(parts)
    _require_one_meaning_each(parts)
    terms = ModelTerms.of(parts, intercept=_ONE in right, offset=offset)
    terms = replace(terms, effects=effects)
    if effects:
        _require_varying(terms, schema)
    names_on_the_right = {column.name for column in terms.columns}
    for column in response.columns:
        if column.name in names_on_the_right:
            raise InputError(
                f"{column.name!r} stands on both sides of ~: leave it out on one of them"
            )
    return response, terms


def parse_features(text: str, schema: Schema) -> ModelTerms:
    """Parse ``a + b + a:b``, the features of a release: terms as on the right of ~, with an intercept.

    A column with ``type = "outcome"`` may be a feature like any other.
    """
    readable = _Readable(text)
    parser = _parser()
    with readable.reading():
        _check(readable.formula, readable.tokens(parser), _explanatory_names(schema))
        parsed = parser.get_terms(readable.plain)
    if hasattr(parsed, "lhs"):
        raise InputError(
            "features have no outcome: leave out ~, and name all columns, as in 'income + age'"
        )
    side = readable.side(parsed)
    if any(_is_offset(factors) for factors in side):
        raise InputError("features have no offset: name the columns alone")
    if _ONE not in side:
        raise InputError("features always have an intercept: leave out -1 and 0")
    try:
        parts = _terms([factors for factors in side if factors != _ONE], _names(schema, _feature))
    except RecursionError:
        raise InputError(TOO_DEEP) from None
    _require_one_curve_each(parts)
    _require_one_meaning_each(parts)
    return ModelTerms.of(parts, intercept=True)


def _feature(column: Column) -> Part:
    return plain_part(explained(column) if isinstance(column, Outcome) else column)


def names_of(formula: str) -> list[str]:
    """Return the columns that a formula names, each once, without a schema; not that of the ids."""
    effects: tuple[str, ...] = ()
    if isinstance(formula, str):
        formula, effects = split_effects(formula)
    readable = _Readable(formula)
    names: list[str] = []
    with readable.reading():
        tokens = readable.tokens(_parser())
        _check(readable.formula, tokens, ["a", "b"])
    for text, kind in tokens:
        if kind == "name":
            names.append(text)
        elif kind == "python":
            names += names_in(text)
    return list(dict.fromkeys([*names, *effects[1:]]))


def split_effects(formula: str) -> tuple[str, tuple[str, ...]]:
    """Split ``y ~ x | id + year`` into ``y ~ x`` and the columns behind |, the ids first; none without a |."""
    place = _bar(formula)
    if place is None:
        return formula, ()
    names = []
    for text in formula[place + 1 :].split("+"):
        name = text.strip()
        if name[:1] == name[-1:] == "`" and len(name) > 2:
            name = name[1:-1]
        if not name or re.search(r"[`~|()\[\]{}^*:]", name):
            raise InputError(
                "behind | stand names of columns, with + between them: the column of the ids, then columns with an "
                "effect of each level, as in 'y ~ x | id + year'"
            )
        names.append(name)
    return formula[:place].rstrip(), tuple(names)


def _require_varying(terms: ModelTerms, schema: Schema) -> None:
    """Refuse a term of columns that are the same in all rows of a unit, as the schema says."""
    for block in terms.blocks:
        names = {column.name for column in block.columns}
        if names and names <= set(schema.constant):
            raise InputError(
                f"{block.parts[0].text!r} is the same in all rows of {schema.unit.name}, as constant in the [unit] of "
                "the schema says: effects of persons take all of it; drop it, or multiply it by a column that varies, "
                "such as a period"
            )


def _bar(formula: str) -> int | None:
    """Return the position of the first | outside of brackets and quotes is, behind ~; None where there is none."""
    if "|" not in formula:
        return None
    depth = 0
    quote = ""
    start = formula.find("~")
    for place, sign in enumerate(formula):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "`'\"":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "|" and depth == 0 and place > start >= 0:
            return place
    return None


def _with_effects(formula: str, schema: Schema) -> tuple[str, bool]:
    """Return the formula with a term for each column behind | but the ids, and whether there are ids."""
    if not isinstance(formula, str):
        return formula, False
    formula, names = split_effects(formula)
    if not names:
        return formula, False
    ids, *others = names
    unit = schema.unit
    if unit.many and ids != unit.column:
        raise InputError(
            f"the first name behind | is {unit.column!r}, the column of the ids in the [unit] of the schema: effects "
            "of anything else are terms, as in 'y ~ x + C(firm)'"
        )
    for name in others:
        column = schema[name] if name in schema.columns else None
        factor = f"C({quoted(name)})" if isinstance(column, Number) else quoted(name)
        formula = f"{formula} + {factor}"
    return formula, True


def _sides(formula: str, schema: Schema) -> tuple[_Side, _Side]:
    """Return the terms of the left and of the right side."""
    readable = _Readable(formula)
    parser = _parser()
    with readable.reading():
        _check(readable.formula, readable.tokens(parser), _explanatory_names(schema))
        parsed = parser.get_terms(readable.plain)
    if not hasattr(parsed, "lhs"):
        raise InputError("the formula has no outcome: write 'outcome ~ terms'")
    return readable.side(parsed.lhs), readable.side(parsed.rhs)


class _Readable:
    """A ``formula`` with Python's sign of a power, as formulaic's parser takes it, and what the parser
    gives with the names of the columns.

    It is refused where it is too long or has huge numbers.
    """

    def __init__(self, formula: str) -> None:
        if not isinstance(formula, str) or len(formula) > MAX_CHARACTERS:
            raise InputError(
                f"the formula must be text such as 'outcome ~ a + b', of at most {MAX_CHARACTERS} characters"
            )
        require_readable(formula)
        self.formula = _HAT.sub(lambda match: "**" if match[0] == "^" else match[0], formula)
        self._stand_ins = StandIns(self.formula)

    @cached_property
    def plain(self) -> str:
        """The text with identifiers for names, and braces around comparisons."""
        return braced(self._stand_ins.text)

    def tokens(self, parser: Any) -> list[_Token]:
        """Return the tokens of the formula."""
        tokens = [(token.token, token.kind.value) for token in parser.get_tokens(self.plain)]
        return [(self._restored(text, kind), kind) for text, kind in tokens]

    def side(self, parsed: Any) -> _Side:
        """Return the terms of one side, each as its factors."""
        return [
            tuple((self._restored(text, method), method) for text, method in factors)
            for factors in _side(parsed)
        ]

    def _restored(self, text: str, kind: str) -> str:
        if kind == "python":
            return self._stand_ins.requoted(text)
        return self._stand_ins.restored(text)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of the parser into an `InputError`, with the names as they were written."""
        try:
            yield
        except InputError as error:
            raise InputError(self._stand_ins.requoted(str(error))) from None
        except RecursionError:
            raise InputError(TOO_DEEP) from None
        except Exception as error:  # of many types: the parser trips over odd tokens
            text = str(error).replace("(<unknown>, line 1)", "in an expression")  # Python's parser
            message = re.sub(r"\x1b\[[0-9;]*m", "", text).strip().partition("\n")[0]
            if "nested" in message:
                raise InputError(TOO_DEEP) from None
            fault = self._stand_ins.requoted(message) or type(error).__name__
            raise InputError(f"the formula cannot be read: {fault}") from None


def _parser() -> Any:
    """Return formulaic's parser, with products of terms that are counted before they are made."""
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
        """Return the result of an operation on two sets of terms."""
        self.made += len(left) * len(right) + len(left) + len(right)
        if self.made > _MAX_PRODUCTS:
            raise InputError(_TOO_MANY)
        return operation(left, right)

    def power(self, base: Any, exponent: Any) -> Any:
        """Return the product of a set with itself, without making a term again that is there
        already.
        """
        terms = base
        for _ in range(int(str(next(iter(exponent)))) - 1):
            more = self.counted(self.times, terms, base)
            if [term.factors for term in more] == [term.factors for term in terms]:
                return terms
            terms = more
        return terms


def _side(parsed: Any) -> _Side:
    """Return the terms of one side, each as its factors."""

    terms = list(parsed)
    if len(terms) > _MAX_TERMS:
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
        listed = " + ".join(quoted(name) for name in names if left not in (name, quoted(name)))
        raise InputError(f"a . for all columns is not read: name them, as in {left} ~ {listed}")
    for sign in signs:
        if sign in _SIGNS_OF_COMPARISON:
            raise InputError(f"the formula cannot be read: {sign} {_NO_COMPARISON}")
    if "=" in signs:
        raise InputError(
            "the formula cannot be read: write ~ between the outcome and the terms, not ="
        )
    if left and signs.count("~") == 1 and formula.rstrip().endswith("~"):
        alone = "" if left.startswith("Surv(") else f", or write '{left} ~ 1' for a mean alone"
        raise InputError(f"nothing stands on the right of ~: name columns{alone}")
    for three in zip(tokens, tokens[1:], tokens[2:], strict=False):
        _check_arithmetic(*three)


def _check_size(tokens: list[_Token]) -> None:
    """Refuse what would take long, by the number of names and of brackets alone."""
    names = [text for text, kind in tokens if kind in ("name", "python")]
    if len(names) > _MAX_NAMES:
        raise InputError(f"the formula names more than {_MAX_NAMES} columns: name fewer")
    depth = 0
    for text, kind in tokens:
        if kind == "context":
            depth += 1 if text in "([" else -1
        if depth > _MAX_BRACKETS:
            raise InputError(TOO_DEEP)


def _check_left(formula: str, signs: list[str]) -> None:
    """Refuse arithmetic on the left of ~, where the parser has its algebra of terms: y - x would be y, and y/100
    nothing.
    """
    left = formula.partition("~")[0].strip()
    if "~" not in signs or signs[0] == "~" or not left:
        return
    raise InputError(f"{_ONE_OUTCOME}; arithmetic stands in I(...), here I({left})")


def _check_arithmetic(before: _Token, sign: _Token, after: _Token) -> None:
    """Refuse a power of one column, and arithmetic with numbers."""
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
    """Return the left side: an outcome with two levels, or a number within public bounds."""
    if len(side) != 1 or len(side[0]) != 1 or side[0][0][1] == "literal":
        raise InputError(_ONE_OUTCOME)
    text, method = side[0][0]
    column = schema.columns.get(text)
    if method == "lookup" and isinstance(column, Outcome) and column.levels:
        return Response(column)
    names = _names(schema, lambda column: plain_part(explained(column)))
    if method != "lookup" and re.match(r"Surv\s*\(", text):
        return Walk(text, _names(schema, _of_survival)).survival()
    part = names(text) if method == "lookup" else Walk(text, names).part()
    if isinstance(part, Factor):
        raise InputError(
            f"{part.text!r} stands on the left of ~, but it is a factor: {comparison_of(part)}, give it "
            'type = "outcome" and two levels for a classifier, or type = "integer" or "number" with low and high for a '
            "regression"
        )
    if not part.answers:
        require_spread(part, "explain something else, or change its bounds in the schema")
    return Response(part)


def _of_survival(column: Column) -> Part:
    """Return a column inside Surv(...): an outcome with two levels is 1 where it has the second."""
    read = explained(column)
    if isinstance(column, Outcome) and len(column.levels) == 2:
        return level_code(read)
    return plain_part(read)


def _is_offset(factors: _Factors) -> bool:
    return len(factors) == 1 and re.match(r"offset\s*\(", factors[0][0]) is not None


def _offset(terms: list[_Factors], names: _PartOf) -> Expression | None:
    """Return what is added to the predictor as it is; None where the formula has no such term."""
    if not terms:
        return None
    if len(terms) > 1:
        raise InputError(OFFSET_ALONE)
    return Walk(terms[0][0][0], names).offset()


def _terms(side: _Side, names: _PartOf) -> list[tuple[Part, ...]]:
    """Return the terms; one with curves becomes the products of their columns, which count as
    terms.
    """
    terms: list[tuple[Part, ...]] = []
    for factors in side:
        choices = _factors(factors, names)
        if len(terms) + math.prod(map(len, choices)) > _MAX_TERMS:
            raise InputError(_TOO_MANY)
        terms += itertools.product(*choices)
    return terms


def _factors(factors: _Factors, names: _PartOf) -> list[tuple[Part, ...]]:
    """Return, for each factor of a term, the columns of a curve, or the one part that it is."""
    parts: dict[tuple[type, str], tuple[Part, ...]] = {}
    for text, method in factors:
        if method == "literal":
            raise InputError(
                f"the number {short(text)} cannot stand in a term: write I({text} * x) for a multiple of x"
            )
        if method == "lookup":
            columns: tuple[Part, ...] = (names(text),)
        else:
            walk = Walk(text, names)
            columns = walk.curve() or (walk.part(),)
        parts[_identity(columns[0])] = columns
    return list(parts.values())


def _identity(part: Part) -> tuple[type, str]:
    """Return what two factors of a term share if they count as one."""
    if isinstance(part, Expression) and part.curve is not None:
        return Curve, part.curve.written
    return type(part), part.text


def _names(schema: Schema, read: Callable[[Column], Part]) -> _PartOf:
    """Return what names stand for on one side of ~; ids and weights stand on none."""
    names = Names(schema.columns, schema.derived, read)
    purposes = {
        schema.unit.column: "the ids of [unit]",
        schema.unit.weights: "the weights of [weights]",
    }

    def part_of(name: str) -> Part:
        if name and name in purposes:
            raise InputError(
                f"{name!r} holds {purposes[name]} in the schema and cannot stand in a formula: leave it out"
            )
        return names(name)

    return part_of


def _explanatory(column: Column) -> Part:
    """Return a column of the schema on the right of ~."""
    if isinstance(column, Outcome):
        raise InputError(
            f"{column.name!r} is an outcome of the schema and cannot stand on the right of ~: leave it out"
        )
    return plain_part(column)


def _explanatory_names(schema: Schema) -> list[str]:
    ids_and_weights = (schema.unit.column, schema.unit.weights)
    return [
        name
        for name, column in schema.columns.items()
        if name not in ids_and_weights and not isinstance(column, Outcome)
    ]


def _require_one_meaning_each(terms: list[tuple[Part, ...]]) -> None:
    """Refuse a name that stands for two things."""
    known: dict[tuple[type, str], Part] = {}
    for part in itertools.chain.from_iterable(terms):
        other = known.setdefault((type(part), part.text), part)
        if other == part:
            continue
        if isinstance(part, Factor) and isinstance(other, Factor) and part.code == other.code:
            raise InputError(
                f"{part.text!r} has two reference levels in the formula: use one C({part.text}, ...)"
            )
        raise InputError(
            f"two terms of the formula have the name {part.text!r}: give one of them another name in the schema, as in "
            '[columns.NAME] with from = "..."'
        )


def _require_one_curve_each(terms: list[tuple[Part, ...]]) -> None:
    """Refuse x beside a curve of x, which spans x, and two curves of x, which have much in common."""
    parts = list(itertools.chain.from_iterable(terms))
    numbers = [part for part in parts if isinstance(part, Expression)]
    written: dict[str, str] = {}
    for number in numbers:
        if number.curve is None:
            continue
        (argument, *_) = number.arguments
        first = written.setdefault(argument.text, number.curve.written)
        if first != number.curve.written:
            raise InputError(
                f"{argument.text} has two curves in the formula, {first} and {number.curve.written}: keep one of them"
            )
    for number in numbers:
        if number.curve is None and number.text in written:
            curve = written[number.text]
            raise InputError(
                f"{number.text} stands beside {curve}, which spans it already: leave {number.text} out, and write "
                f"{curve}:group for a curve that differs between groups"
            )
