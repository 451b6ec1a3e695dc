"""One expression of a formula or of a schema, parsed into a public function of columns.

The text is parsed as Python, and its tree is walked with a list of what is allowed: no code is run.
An expression is a number, an answer (a comparison, or several joined by "and", "or", "not"), or a
factor: C(...), cut(...), merge(...), month(...), weekday(...).  Functions and signs of other
programs are refused with a remedy.
"""

import ast
import itertools
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from reprlib import repr as short
from typing import Any, TypeGuard

from dpinfer.errors import InputError
from dpinfer.numerics.links import FARTHEST_OFFSET
from dpinfer.schema import dates
from dpinfer.schema.columns import (
    Column,
    Derived,
    Level,
    did_you_mean,
    level_meant,
    levels_of,
)
from dpinfer.schema.curves import EXAMPLES as CURVES
from dpinfer.schema.curves import curve_columns
from dpinfer.schema.follow_up import FollowUp, SurvivalResponse
from dpinfer.schema.operations import FUNCTIONS
from dpinfer.schema.terms import (
    Expression,
    Factor,
    Part,
    apply,
    constant,
    level_code,
    named,
    of_column,
)

MAX_CHARACTERS = 5000
"""Characters that a formula, or an expression in a schema, has at most."""
TOO_DEEP = "the formula cannot be read, since it is nested too deeply: write shorter terms"
OFFSET_ALONE = "an offset is a term of its own, once in a formula: y ~ a + b + offset(log(years))"

_MAX_LEAVES = 200  # columns in a derived column, those of the columns it is derived from included
_DEEPEST = (
    100  # operations inside each other: expressions are walked by functions that call themselves
)
_BRACKET = re.compile(r"[][(){}]")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
_OPERATORS = {ast.Add: "+", ast.Sub: "minus", ast.Mult: "*", ast.Div: "/"}
_ORDERS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: "<", ast.GtE: "<="}
_SIGN: dict[type, str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_FACTORS = {"C", "cut", "merge", "month", "weekday"}
_CALLABLE = ", ".join([*sorted(FUNCTIONS), "clip", "scale", "year"])
_LEARNING = {"center", "standardize", "hashed", "lag", "qcut", "ave"}
"""Functions of other programs that learn from the values."""
_SPLINES = {"cr", "cc", "cs", "te", "s", "ti", "lo", "rcs", "spline"}
"""Curves of other programs, with knots or a smoothness that they learn from the values."""

_INSTEAD = {
    "factor": "C(x), a factor whose levels the schema declares",
    "ordered": "C(x), a factor whose levels the schema declares",
    "relevel": "C(x, 'level') for another reference level",
    "Q": "a name with spaces in backticks, as in `my column`",
    "ln": "log(x)",
    "pow": "I(x ** 2)",
    "pmin": "clip(x, low, high), with two public numbers",
    "pmax": "clip(x, low, high), with two public numbers",
    "ifelse": "the comparison itself, as in I(age >= 65): it is 1 where it is true, and 0 where it is not",
}
"""Functions of other programs, and what to write for them."""

# signs outside quotes: R's sign of a power, which for Python binds less than a sum, and those of logic,
# which for Python bind more than a comparison
_SIGNS = re.compile(r"""`[^`]*`|"[^"]*"|'[^']*'|\^|&&?|\|\|?|!(?!=)""")
_WORDS = {"^": "**", "&": " and ", "&&": " and ", "|": " or ", "||": " or ", "!": " not "}
_OF_EXPRESSIONS = {"and", "or", "not", "in", "is", "True", "False", "None"}
# words of Python that no expression has, as class: in a formula they can only be names
_RESERVED = "|".join(sorted({*keyword.kwlist} - _OF_EXPRESSIONS))
_UNREADABLE_NAME = re.compile(
    rf"""'[^']*'|"[^"]*"|`(?P<quoted>[^`]*)`|(?<![\w.])(?P<reserved>{_RESERVED})(?![\w.])"""
)
_LARGE_POWER = re.compile(r"(\*\*|\^)[\s(+]*[0-9]*[1-9][0-9]")
_LONG_NUMBER = re.compile(r"[0-9]{300}")  # beyond what double precision holds


def require_readable(text: str) -> None:
    """Refuse what would take long, by its text alone."""
    if _LARGE_POWER.search(text):
        raise InputError(
            "the formula cannot be read: a power goes up to 9, as in (a + b + c)**2 or I(a**2)"
        )
    if _LONG_NUMBER.search(text):
        raise InputError("a number of the formula is too large: write it in smaller units")
    deep = 0
    for sign in _BRACKET.findall(_QUOTED.sub("", text)):
        deep += 1 if sign in "([{" else -1
        if deep > _DEEPEST:  # parsers take their time to find that out
            raise InputError(TOO_DEEP)


def quoted(name: str) -> str:
    """Return a name as a formula has it: in backticks where Python would not read it as this name."""
    as_python_has_it = unicodedata.normalize("NFKC", name)
    plain = name.isidentifier() and name == as_python_has_it and not keyword.iskeyword(name)
    return name if plain else f"`{name}`"


class StandIns:
    """A text of which each name that Python could not read is an identifier: ``text``.

    Such names stand in backticks; words of Python, as class and from, may stand without.
    """

    def __init__(self, text: str) -> None:
        self._names: list[str] = []
        self._prefix = "__name"
        while self._prefix in text:
            self._prefix = f"_{self._prefix}"
        self._stand_in = re.compile(rf"{self._prefix}([0-9]+)")
        self.text = _UNREADABLE_NAME.sub(self._replaced, text)

    def restored(self, text: str) -> str:
        """Return a text with the names themselves."""
        return self._stand_in.sub(lambda match: self._names[int(match[1])], text)

    def requoted(self, text: str) -> str:
        """Return an expression with the names as a formula has them."""
        return self._stand_in.sub(lambda match: quoted(self._names[int(match[1])]), text)

    def _replaced(self, match: re.Match[str]) -> str:
        name = match["reserved"] if match["quoted"] is None else match["quoted"]
        if name is None:  # a text in quotes
            return match[0]
        if name not in self._names:
            self._names.append(name)
        return f"{self._prefix}{self._names.index(name)}"


class Names:
    """The meaning of names: a column as ``read`` takes it, or the expression that a derived column
    is.

    A derived column may name those above it.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        derived: Mapping[str, Derived],
        read: Callable[[Column], Part],
    ) -> None:
        self._columns = columns
        self._derived = derived
        self._order = {name: position for position, name in enumerate(derived)}
        self._read = read
        self._known: dict[str, Part] = {}

    def __call__(self, name: str) -> Part:
        """Return the part that a name stands for."""
        return self._part(name, len(self._order))

    def _part(self, name: str, above: int) -> Part:
        if name in self._columns:
            return self._read(self._columns[name])
        if name not in self._order:
            names = [*self._columns, *self._order]
            raise InputError(f"the schema has no column {name!r}: {did_you_mean(name, names)}")
        position = self._order[name]
        if position >= above:
            raise InputError(
                f"it names {name!r}, which does not stand above it: move it below the columns that it is derived from"
            )
        if name not in self._known:
            self._known[name] = _derived_part(
                self._derived[name], partial(self._part, above=position)
            )
        return self._known[name]


def _derived_part(derived: Derived, part_of: Callable[[str], Part]) -> Part:
    part = Walk(derived.text, part_of).part()
    root = part.code if isinstance(part, Factor) else part
    if not root.columns:
        raise InputError("it names no column: write an expression of columns, such as age >= 65")
    if len(root.columns) > _MAX_LEAVES:
        raise InputError(
            f"it is made of columns more than {_MAX_LEAVES} times: derive it from fewer"
        )
    return named(part, derived.name)


def python_of(text: str) -> str:
    """Return an expression with Python's words for R's signs of powers and of logic."""
    return _SIGNS.sub(lambda match: _WORDS.get(match[0], match[0]), text)


def names_in(text: str) -> list[str]:
    """Return the columns that an expression names."""
    return Walk(text, _no_part).names()


def _no_part(name: str) -> Part:
    raise InputError(f"{name!r} is no column here: give a schema")


class Walk:
    """One expression; ``part_of`` gives what a name stands for on its side of ~."""

    def __init__(self, text: str, part_of: Callable[[str], Part]) -> None:
        self.text = text
        self.part_of = part_of
        self.stand_ins = StandIns(text)
        self._clipped = (
            False  # whether the number that is read is clipped, so that it needs no bounds
        )
        try:
            self.tree = ast.parse(python_of(self.stand_ins.text).strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError):
            raise self._refused("it cannot be read") from None
        except RecursionError:
            raise InputError(TOO_DEEP) from None

    def names(self) -> list[str]:
        """Return the columns that it names; a function is no column, nor is np."""
        functions = [node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        skipped = {id(name) for function in functions for name in ast.walk(function)}
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        return [self._name(node) for node in nodes if id(node) not in skipped]

    def part(self) -> Part:
        """Return a factor, an answer or a number."""
        try:
            part = self._part(self.tree)
        except RecursionError:
            raise InputError(TOO_DEEP) from None
        if _depth(part.code if isinstance(part, Factor) else part) > _DEEPEST:
            raise InputError(TOO_DEEP)
        if isinstance(part, Factor) or part.answers or part.column is not None:
            return part
        return Expression(self.text, part.low, part.high, "I", (part,))

    def curve(self) -> tuple[Expression, ...]:
        """Return the columns of ns(...), bs(...) or poly(...); none where it is no curve."""
        call = self.tree
        if not isinstance(call, ast.Call) or self._called(call) not in CURVES:
            return ()
        if not call.args:
            example = CURVES[self._called(call)].format("x")
            raise self._refused(f"it needs a column, as in {example}")
        argument = self._number(call.args[0])
        if _depth(argument) > _DEEPEST:
            raise InputError(TOO_DEEP)
        if argument.answers:
            raise self._refused(
                f"{argument.text} is true or false, which has no curve: write it as it is"
            )
        numbers = [self._public_number(node) for node in call.args[1:]]
        options = {str(option.arg): option.value for option in call.keywords}
        example = CURVES[self._called(call)].format(argument.text)
        if "df" in options:
            raise self._refused(
                f"df= takes knots from the values, which is not private: write public ones, as in {example}"
            )
        if "knots" in options:
            raise self._refused(f"knots are plain numbers, without knots=, as in {example}")
        values = {option: self._public_number(node) for option, node in options.items()}
        try:
            return curve_columns(self._unparsed(call), argument, numbers, values)
        except InputError as error:
            raise self._refused(str(error)) from None

    def _public_number(self, node: ast.expr) -> float:
        """Return a number that is the same whatever the table holds, as 50 or log(50)."""
        if isinstance(node, ast.List | ast.Tuple | ast.Starred):
            raise self._refused("knots are written one by one, as in ns(x, 30, 50, 70)")
        number = self._number(node)
        if number.columns:
            raise self._refused(
                f"{number.text} depends on the values, and what shapes a curve is public: write a number"
            )
        return number.low

    def offset(self) -> Expression:
        """Return the argument of offset(...), a number; the logarithm of an exposure that may be 0
        has a lower end all the same: a record with such an exposure has weight 0.
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

    def survival(self) -> SurvivalResponse:
        """Return the outcome of Surv(exit, event) or Surv(entry, exit, event), with its intervals of time."""
        call = self.tree
        usage = "write Surv(exit, event), or Surv(entry, exit, event) where persons may enter late"
        if not isinstance(call, ast.Call) or len(call.args) not in (2, 3):
            raise self._refused(usage)
        options = {str(option.arg): option.value for option in call.keywords}
        if options and set(options) != {"cuts", "horizon"}:
            raise self._refused(f"{usage}; with cuts=[...] and horizon=..., or none of them")
        *times, last = call.args
        end = self._number(times[-1])
        entry = self._number(times[0]) if len(times) == 2 else None
        event = self._part(last)
        if isinstance(event, Factor):
            raise self._refused(
                f'{event.text} is a factor: {comparison_of(event)}, or give it type = "outcome" and two levels, '
                "of which the second is the event"
            )
        if not event.answers and (event.low, event.high) != (0, 1):
            raise self._refused(
                f"{event.text} must say whether there was an event: a column of type boolean, one of type integer "
                "with low = 0 and high = 1, or a comparison such as status == 2"
            )
        for time in (entry, end):
            if time is not None and not time.high > 0:
                raise self._refused(f"{time.text} must be a time after 0: raise high in the schema")
        follow_up = None
        if options:
            cuts = options["cuts"]
            if not isinstance(cuts, ast.List | ast.Tuple):
                raise self._refused("cuts are a list of times, as in cuts=[1, 2, 5]")
            inner = [self._public_number(node) for node in cuts.elts]
            horizon = self._public_number(options["horizon"])
            follow_up = FollowUp.of(inner, horizon, delayed=entry is not None)
        text = f"Surv({', '.join(self._unparsed(node) for node in call.args)})"
        return SurvivalResponse(event, end, entry, text, follow_up)

    def _part(self, node: ast.expr) -> Part:
        match node:
            case ast.Name():
                return self.part_of(self._name(node))
            case ast.Call() if self._called(node) in _FACTORS:
                return self._factor(node)
            case ast.Call(args=[inner], keywords=[]) if self._called(node) == "I":
                part = self._part(inner)
                if isinstance(part, Expression) and part.answers:
                    return part
        return self._number(node)

    # Numbers

    def _number(self, node: ast.expr) -> Expression:  # noqa: PLR0911  (one per kind of node)
        text = self._unparsed(node)
        match node:
            case ast.Name():
                return self._numeric(node)
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self._constant(value)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = self._number(operand)
                return self._applied("-", text, number) if isinstance(sign, ast.USub) else number
            case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=int() as power)) if (
                1 <= power <= 9
            ):
                return self._applied("**", text, self._number(left), constant(power))
            case ast.BinOp(op=ast.Pow()):
                raise self._refused("a power is a whole number from 1 to 9, as in I(x ** 2)")
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return self._applied(
                    _OPERATORS[type(operator)], text, self._number(left), self._number(right)
                )
            case ast.Call():
                return self._call(node)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self._answer(node)
        raise self._refused(
            f"an expression is made of columns, numbers, + - * / **, comparisons and {_CALLABLE}"
        )

    def _constant(self, value: float) -> Expression:
        try:
            return constant(float(value))
        except OverflowError:
            raise self._refused("a number is too large") from None

    def _call(self, node: ast.Call) -> Expression:
        name = self._called(node)
        if name in _LEARNING:
            raise self._refused(
                f"{name} learns from the values, which is not private: use a public transform"
            )
        if name in _SPLINES:
            raise self._refused(
                f"{name} learns from the values, which is not private: write ns(x, 30, 50, 70), a natural spline "
                "with public knots"
            )
        if name in CURVES:
            raise self._refused(
                f"{name} makes several columns, and stands by itself on the right of ~, as in "
                f"y ~ {CURVES[name].format('x')}"
            )
        if name == "offset":
            raise self._refused(OFFSET_ALONE)
        if name in _INSTEAD:
            raise self._refused(f"write {_INSTEAD[name]}")
        if name in _FACTORS:
            raise self._refused(f"{name} makes a factor, and only a number can stand here")
        if name == "clip":
            return self._clip(node)
        if name not in FUNCTIONS | {"scale", "year"}:
            others = ", ".join([*CURVES, *sorted(_FACTORS)])
            raise self._refused(f"there is no function {name}; there are {_CALLABLE}, and {others}")
        if len(node.args) != 1 or node.keywords:
            raise self._refused(f"{name} takes one argument")
        if name == "scale":
            return self._scale(node)
        if name == "year":
            return self._calendar(node)
        return self._applied(name, self._unparsed(node), self._number(node.args[0]))

    def _applied(self, operation: str, text: str, *arguments: Expression) -> Expression:
        return apply(operation, text, *arguments, clipped=self._clipped)

    def _clip(self, node: ast.Call) -> Expression:
        """Return a number within two public ones; without them it may have no bounds."""
        usage = "write an expression and two numbers, as in clip(weight / height**2, 10, 60)"
        options = {str(option.arg): option.value for option in node.keywords}
        arguments = [*node.args, *(options.pop(end) for end in ("low", "high") if end in options)]
        if len(arguments) != 3 or options:
            raise self._refused(usage)
        around = self._clipped
        self._clipped = True
        number = self._number(arguments[0])
        self._clipped = around
        low, high = (self._side(end, arguments[0]) for end in arguments[1:])
        if low.columns or high.columns:
            raise self._refused(f"the two ends are public numbers: {usage}")
        if low.low >= high.low:
            raise self._refused(f"the second number must be above the first: {usage}")
        # The ends of the two ranges together, so that no rounding of the expression leads beyond them.
        lowest, highest = (min(max(end, low.low), high.low) for end in (number.low, number.high))
        if lowest == highest:
            raise self._refused(
                f"it is the same in every row, since {number.text} goes from {number.low:g} to {number.high:g} by the "
                "schema: write two numbers with some of these between them"
            )
        return apply("clip", self._unparsed(node), number, constant(lowest), constant(highest))

    def _scale(self, node: ast.Call) -> Expression:
        argument = node.args[0]
        column = self._numeric(argument).column if isinstance(argument, ast.Name) else None
        if column is None or column.centre is None or column.scale is None:
            raise self._refused(
                "scale needs a column with a public centre and scale in the schema; "
                "a mean and a spread learnt from the values are not private"
            )
        text = self._unparsed(node)
        centred = apply("minus", text, of_column(column), constant(column.centre))
        return apply("/", text, centred, constant(column.scale))

    def _calendar(self, node: ast.Call) -> Expression:
        """Return the year, month or day of the week of a date."""
        name = self._called(node)
        number = self._number(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        first = None if number is None else _first_day(number)
        if number is None or first is None:
            raise self._refused(
                f'{name} takes one column with type = "date" in the schema, as in {name}(admitted)'
            )
        return apply(name, self._unparsed(node), number, constant(first))

    def _numeric(self, node: ast.expr) -> Expression:
        part = self.part_of(self._name(node))
        if isinstance(part, Factor):
            raise self._refused(
                f"{part.text!r} has levels, and only a number can be transformed: {comparison_of(part)}"
            )
        return part

    # Answers

    def _answer(self, node: ast.expr) -> Expression:
        """Return a comparison, several of them, or a column of true and false."""
        match node:
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                operands = [left, *comparators]
                answers = [
                    self._compared(operands[j], operator, operands[j + 1])
                    for j, operator in enumerate(operators)
                ]
                signs = [f" {_SIGN[type(operator)]} " for operator in operators]
                words = itertools.zip_longest(map(self._words, operands), signs, fillvalue="")
                return _joined("and", "".join(itertools.chain(*words)), answers)
            case ast.BoolOp(op=operator, values=values):
                word = "and" if isinstance(operator, ast.And) else "or"
                answers = [self._answer(value) for value in values]
                return _joined(word, f" {word} ".join(map(_bracketed, answers)), answers)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                answer = self._answer(operand)
                return apply("not", f"not {_bracketed(answer)}", answer)
        part = self._part(node)
        if isinstance(part, Expression) and part.answers:
            return part
        raise self._refused(
            f"{self._unparsed(node)} is neither true nor false, as and, or and not need it: compare it with something"
        )

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Expression:
        if type(operator) not in _SIGN:
            raise self._refused("a comparison is one of < <= > >= == != in, not in")
        if isinstance(operator, ast.In | ast.NotIn):
            return self._member(left, operator, right)
        equal = isinstance(operator, ast.Eq | ast.NotEq)
        for node, value in ((left, right), (right, left)):
            if isinstance(node, ast.Constant):
                continue
            subject = self._part(node)
            if isinstance(subject, Factor):
                return self._level(subject, operator, value)
            if equal and subject.answers and _is_answer(value):
                return self._is(subject, value.value == isinstance(operator, ast.Eq))
        one = self._side(left, right)
        other = self._side(right, left)
        one_text = self._words(left)
        other_text = self._words(right)
        text = f"{one_text} {_SIGN[type(operator)]} {other_text}"
        if equal:
            return self._among(one, [other], operator, text)
        operation = _ORDERS[type(operator)]
        if isinstance(operator, ast.Gt | ast.GtE):
            return self._telling(apply(operation, text, other, one), one, other)
        return self._telling(apply(operation, text, one, other), one, other)

    def _is(self, answer: Expression, value: bool) -> Expression:
        """Return an answer that is compared with true or false."""
        return answer if value else apply("not", f"not {_bracketed(answer)}", answer)

    def _side(self, node: ast.expr, other: ast.expr) -> Expression:
        """Return a number that is compared; a text is a date where the other side is one."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._day(node.value, self._number(other))
        return self._number(node)

    def _day(self, text: str, column: Expression) -> Expression:
        """Return a date of the formula as a number of days, beside a column of dates."""
        first = _first_day(column)
        if first is None:
            raise self._refused(
                f"{column.text} is a number, and {short(text)} is a text: write a number without quotes"
            )
        day = dates.day_of_text(text)
        if math.isnan(day):
            raise self._refused(f"{short(text)} is no date: write it as '2024-05-31'")
        return constant(day - first)

    def _member(self, node: ast.expr, operator: ast.In | ast.NotIn, listed: ast.expr) -> Expression:
        if not isinstance(listed, ast.Tuple | ast.List | ast.Set):
            listed = ast.Tuple([listed])
        subject = self._part(node)
        if isinstance(subject, Factor):
            levels = [self._level_of(item, subject) for item in listed.elts]
            names = ", ".join(map(str, levels))
            return self._at_levels(subject, levels, operator, f"({names})")
        values = [self._side(item, node) for item in listed.elts]
        names = ", ".join(map(self._words, listed.elts))
        text = f"{self._unparsed(node)} {_SIGN[type(operator)]} ({names})"
        if not values:
            raise self._refused("after in stands a list of values, as in x in (1, 2)")
        return self._among(subject, values, operator, text)

    def _level(self, factor: Factor, operator: ast.cmpop, node: ast.expr) -> Expression:
        if not isinstance(operator, ast.Eq | ast.NotEq):
            raise self._refused(
                f"{factor.text} has levels without an order: compare it by ==, != or in"
            )
        level = self._level_of(node, factor)
        return self._at_levels(factor, [level], operator, str(level))

    def _at_levels(
        self, factor: Factor, levels: Sequence[Level], operator: ast.cmpop, words: str
    ) -> Expression:
        text = f"{factor.text} {_SIGN[type(operator)]} {words}"
        if not 0 < len(set(levels)) < len(factor.levels):
            raise self._refused(
                f"{text} is the same in every row: name some of its levels, and not all of them"
            )
        return self._among(factor.code, [factor.at(level) for level in levels], operator, text)

    def _among(
        self,
        number: Expression,
        values: Sequence[Expression],
        operator: ast.cmpop,
        text: str,
    ) -> Expression:
        answer = apply("among", text, number, *values)
        if isinstance(operator, ast.NotEq | ast.NotIn):
            answer = apply("not", text, answer)
        return self._telling(answer, number, *values)

    def _telling(self, answer: Expression, *compared: Expression) -> Expression:
        """Refuse an answer that is the same for all values within public bounds."""
        if answer.low != answer.high:
            return answer
        ranges = [
            f"{one.text} goes from {one.low:g} to {one.high:g}"
            for one in compared
            if one.low != one.high
        ]
        if not ranges:
            raise self._refused(f"{answer.text} compares no column: name one on a side of it")
        raise self._refused(
            f"{answer.text} is {'true' if answer.low else 'false'} in every row, since {' and '.join(ranges)} in the "
            "schema: compare with a value in between, or change its bounds"
        )

    # Factors

    def _factor(self, node: ast.Call) -> Factor:
        name = self._called(node)
        if name == "C":
            return self._with_reference(node)
        if name == "cut":
            return self._cut(node)
        if name == "merge":
            return self._merged(node)
        return self._part_of_year(node)

    def _with_reference(self, node: ast.Call) -> Factor:
        arguments = list(node.args)
        unknown = False
        for option in node.keywords:
            if option.arg == "reference":
                arguments.append(option.value)
            else:
                unknown = True
        if unknown or not 1 <= len(arguments) <= 2:
            raise self._refused("a factor is C(column) or C(column, 'reference level')")
        factor = self._levelled(arguments[0])
        if len(arguments) == 1:
            return factor
        return replace(factor, reference=self._reference(arguments[1], factor))

    def _levelled(self, node: ast.expr) -> Factor:
        """Return a factor, or a number with levels as one."""
        if not isinstance(node, ast.Name | ast.Call):
            raise self._refused("a factor is C(column) or C(column, 'reference level')")
        part = self._part(node)
        if isinstance(part, Factor):
            return part
        column = part.column
        if column is None or not levels_of(column):
            raise self._refused(
                f"{part.text!r} has no levels: declare it in the schema as a category or integer with levels, or cut "
                f"it, as in cut({part.text}, 10, 20)"
            )
        levels = levels_of(column)
        reference = levels[0] if column.reference is None else column.reference
        return Factor(column.name, levels, reference, level_code(column))

    def _reference(self, node: ast.expr, factor: Factor) -> Level:
        if isinstance(node, ast.Call) and self._called(node) == "Treatment":
            arguments = [*node.args, *(option.value for option in node.keywords)]
            node = next(iter(arguments), node)
        return self._level_of(node, factor)

    def _level_of(self, node: ast.expr, factor: Factor) -> Level:
        """Return the level of a factor that a constant means."""
        if not isinstance(node, ast.Constant):
            raise self._refused(
                f"a level of {factor.text} is written as it is in the schema, text in quotes"
            )
        level = level_meant(node.value, factor.levels)
        if level is None:
            raise self._refused(
                f"{short(node.value)} is not a level: {did_you_mean(node.value, factor.levels)}"
            )
        return level

    def _cut(self, node: ast.Call) -> Factor:
        """Return levels between public breaks, each with its lower end and without its upper one."""
        usage = "write the column and its breaks from small to large, as in cut(age, 18, 40, 65)"
        if len(node.args) < 2 or node.keywords:
            raise self._refused(usage)
        number = self._number(node.args[0])
        breaks = [self._side(item, node.args[0]) for item in node.args[1:]]
        if any(one.operation not in ("constant", "-") or one.columns for one in breaks):
            raise self._refused(f"breaks are numbers: {usage}")
        ends = [one.low for one in breaks]
        if any(low >= high for low, high in itertools.pairwise(ends)):
            raise self._refused(f"breaks must grow: {usage}")
        if ends[0] < number.low or ends[-1] > number.high:
            raise self._refused(
                f"a break lies beyond the bounds of the schema, where no value can be: {number.text} goes from "
                f"{self._end(number, number.low)} to {self._end(number, number.high)}; leave it out, or change them"
            )
        names = [self._end(number, end) for end in ends]
        under, more = ("under", "more") if _first_day(number) is None else ("before", "later")
        levels = [f"{low} to {under} {high}" for low, high in itertools.pairwise(names)]
        levels.append(f"{names[-1]} or {more}")
        if ends[0] > number.low:
            levels.insert(0, f"{under} {names[0]}")
        else:
            ends = ends[1:]
        if len(levels) < 2:
            raise self._refused(
                f"all values lie in one level: name a break within the bounds; {usage}"
            )
        text = self._unparsed(node)
        code = apply("cut", text, number, *map(constant, ends))
        return Factor(text, tuple(levels), levels[0], code)

    def _end(self, number: Expression, end: float) -> str:
        first = _first_day(number)
        return f"{end:.15g}" if first is None else dates.text_of(first + end)

    def _merged(self, node: ast.Call) -> Factor:
        """Return the levels of a factor under common names; those that are not named stay."""
        usage = "write merge(region, coast=('north', 'east')), or merge(region, {'the coast': ('north', 'east')})"
        groups: list[tuple[str, ast.expr]] = []
        for named_group in node.keywords:
            if named_group.arg is None:
                raise self._refused(usage)
            groups.append((self.stand_ins.restored(named_group.arg), named_group.value))
        for extra in node.args[1:]:
            if not isinstance(extra, ast.Dict):
                raise self._refused(usage)
            for key, value in zip(extra.keys, extra.values, strict=True):
                if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                    raise self._refused(usage)
                groups.append((key.value, value))
        if not node.args or not groups:
            raise self._refused(usage)
        factor = self._levelled(node.args[0])
        names = {level: str(level) for level in factor.levels}
        words = []
        merged: list[Level] = []
        for name, listed in groups:
            items = listed.elts if isinstance(listed, ast.Tuple | ast.List | ast.Set) else [listed]
            group = [self._level_of(item, factor) for item in items]
            names |= dict.fromkeys(group, name)
            merged += group
            words.append(f"{name}=({', '.join(map(str, group))})")
        if len(set(merged)) < len(merged):
            raise self._refused("a level is named twice: name each once")
        others = {str(level) for level in factor.levels if level not in merged}
        new = [name for name, _ in groups]
        if len(set(new)) < len(new) or others & set(new):
            raise self._refused(
                "two levels would have one name: name all levels of a group in its brackets, and each group once"
            )
        levels = tuple(dict.fromkeys(names.values()))
        if len(levels) < 2:
            raise self._refused("all levels would be one: leave some of them apart")
        text = f"merge({factor.text}, {', '.join(words)})"
        table = [constant(float(levels.index(names[level]))) for level in factor.levels]
        code = apply("look up", text, factor.code, *table)
        return Factor(text, levels, names[factor.reference], code)

    def _part_of_year(self, node: ast.Call) -> Factor:
        """Return the month or the day of the week of a date, with those that its bounds hold."""
        name = self._called(node)
        code = self._calendar(node)
        number, first = code.arguments
        all_names, of_days = _CALENDAR[name]
        there = dates.occurring(of_days, first.low + number.low, first.low + number.high)
        if len(there) < 2:
            raise self._refused(
                "it is the same in every row, by the bounds of the schema: leave it out"
            )
        if len(there) < len(all_names):
            table = [
                constant(float(there.index(j) if j in there else 0)) for j in range(len(all_names))
            ]
            code = apply("look up", code.text, code, *table)
        levels = tuple(all_names[j] for j in there)
        return Factor(code.text, levels, levels[0], code)

    # Words

    def _name(self, node: ast.expr) -> str:
        assert isinstance(node, ast.Name)
        return self.stand_ins.restored(node.id)

    def _called(self, node: ast.Call) -> str:
        """Return the name of a function; np.log is log."""
        match node.func:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="np"), attr=name):
                return self.stand_ins.restored(name)
        raise self._refused("a function is called by its name")

    def _unparsed(self, node: ast.expr) -> str:
        return self.stand_ins.restored(ast.unparse(node))

    def _words(self, node: ast.expr) -> str:
        """Return the words of one side of a comparison; a text, which is a date, without its
        quotes.
        """
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.strip()
        return self._unparsed(node)

    def _refused(self, reason: str) -> InputError:
        return InputError(f"the term {short(self.text)} is not available: {reason}")


_CALENDAR: dict[str, tuple[tuple[str, ...], Any]] = {
    "month": (dates.MONTHS, dates.months),
    "weekday": (dates.WEEKDAYS, dates.weekdays),
}


def _depth(number: Expression) -> int:
    """Return how many operations stand inside each other, as far as that matters."""
    deepest = 0
    inside = [number]
    while inside and deepest <= _DEEPEST:
        deepest += 1
        inside = [argument for one in inside for argument in one.arguments]
    return deepest


def _first_day(number: Expression) -> float | None:
    """Return the day that a column of dates is counted from; None if it is none."""
    while number.operation == "I":
        (number,) = number.arguments
    if number.column is None or number.column.kind != "date":
        return None
    return dates.day_of_text(number.column.origin)


def _is_answer(node: ast.expr) -> TypeGuard[ast.Constant]:
    """Whether a node is True or False."""
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _joined(word: str, text: str, answers: Sequence[Expression]) -> Expression:
    """Join answers by "and" or by "or"; one alone is what it is."""
    answer = answers[0]
    for other in answers[1:]:
        answer = apply(word, text, answer, other)
    return answer


def _bracketed(answer: Expression) -> str:
    """Return the words of an answer inside of others."""
    several = answer.operation in ("and", "or", "not") and " " in answer.text
    return f"({answer.text})" if several else answer.text


def comparison_of(factor: Factor) -> str:
    """Return what to write where a factor cannot stand: one level against the rest."""
    level = factor.levels[-1]
    quoted = f"'{level}'" if isinstance(level, str) else str(level)
    return f"compare it, as in {factor.text} == {quoted}"
