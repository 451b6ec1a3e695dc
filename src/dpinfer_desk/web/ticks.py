"""A formula as ticks in a form, and ticks as a formula: one is the other.

A form has an outcome, columns as they are or transformed, and products of two columns.  A formula
that says more is no form: its text stays as it was written.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from dpinfer.errors import InputError
from dpinfer.schema.columns import Number, Outcome
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema

AS_IS = ""
SHAPES = {
    AS_IS: ("as it is", "{x}"),
    "log": ("log(x)", "log({x})"),
    "log1": ("log(1 + x)", "log(1 + {x})"),
    "sqrt": ("square root", "sqrt({x})"),
    "square": ("x and x²", "{x} + I({x}**2)"),
}
"""What may become of a column: in words, and as a formula has it."""
_OF_OUTCOMES = ("log", "log1", "sqrt")
_CROSS = ":"


@dataclass(frozen=True)
class Choice:
    """A column that may be ticked: its name, what may become of it, and what is known of it."""

    name: str
    shapes: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Choices:
    """What a schema offers: outcomes as expressions, and columns."""

    outcomes: tuple[str, ...]
    columns: tuple[Choice, ...]


@dataclass(frozen=True)
class Ticks:
    """What is ticked: the outcome, columns with their shapes, and products."""

    outcome: str
    columns: tuple[tuple[str, str], ...] = ()
    products: tuple[tuple[str, str], ...] = ()

    def formula(self) -> str:
        """The formula that says the same."""
        terms = [written(name, shape) for name, shape in self.columns]
        terms += [_CROSS.join(map(quoted, pair)) for pair in self.products]
        return f"{self.outcome} ~ {' + '.join(terms) or '1'}"


@lru_cache(maxsize=64)
def choices_of(text: str) -> Choices:
    """What the schema with this text offers."""
    schema = Schema.parse(text)
    names = [name for name in (*schema.columns, *schema.derived) if "`" not in name]
    columns = tuple(Choice(name, _shapes(schema, name), _about(schema, name)) for name in names)
    outcomes = []
    for column in columns:
        shapes = [shape for shape in column.shapes if shape in (AS_IS, *_OF_OUTCOMES)]
        for shape in shapes:
            outcomes += _explained(schema, written(column.name, shape))
    declared = [name for name, column in schema.columns.items() if isinstance(column, Outcome)]
    first = [outcome for outcome in outcomes if outcome in map(quoted, declared)]
    return Choices(tuple(dict.fromkeys([*first, *outcomes])), columns)


def ticks_of(formula: str, choices: Choices) -> Ticks | None:
    """The ticks that say what a formula says; None where it says more than ticks can."""
    left, sign, right = formula.partition("~")
    outcomes = {_bare(outcome): outcome for outcome in choices.outcomes}
    if not sign or _bare(left) not in outcomes:
        return None
    offered = {
        _bare(written(choice.name, shape)): (choice.name, shape)
        for choice in choices.columns
        for shape in choice.shapes
    }
    names = {_bare(quoted(choice.name)): choice.name for choice in choices.columns}
    squares = {_bare(f"I({quoted(name)}**2)"): name for name in names.values()}
    ticked: dict[str, str] = {}
    products: list[tuple[str, str]] = []
    for term in _terms(_bare(right), names):
        one, _, other = term.partition(_CROSS)
        if term in squares and ticked.get(squares[term]) == AS_IS:
            ticked[squares[term]] = "square"
        elif term in offered and offered[term][0] not in ticked:
            name, shape = offered[term]
            ticked[name] = shape
        elif one in names and other in names and one != other:
            products.append((names[one], names[other]))
        elif term != "1" or _bare(right) != "1":
            return None
    return Ticks(outcomes[_bare(left)], tuple(ticked.items()), tuple(products))


def written(name: str, shape: str) -> str:
    """A column as a formula has it."""
    return SHAPES[shape][1].format(x=quoted(name))


def quoted(name: str) -> str:
    """A name as a formula has it: in backticks where it is no plain word."""
    return name if name.isidentifier() and name.isascii() else f"`{name}`"


def _shapes(schema: Schema, name: str) -> tuple[str, ...]:
    """What may become of a column, by its public bounds."""
    column = schema.columns.get(name)
    if not isinstance(column, Number | Outcome) or column.low is None:
        return (AS_IS,)
    if isinstance(column, Number) and column.kind not in ("number", "integer"):
        return (AS_IS,)
    if column.low > 0:
        return (AS_IS, "log", "sqrt", "square")
    if column.low == 0:
        return (AS_IS, "log1", "sqrt", "square")
    return (AS_IS, "square")


def _about(schema: Schema, name: str) -> str:
    column = schema.columns.get(name)
    if column is None:
        return f"derived: {schema.derived[name].text}"
    return column.description


def _explained(schema: Schema, expression: str) -> list[str]:
    """The expression, if a model can explain it."""
    try:
        parse(f"{expression} ~ 1", schema)
    except InputError:
        return []
    return [expression]


def _bare(text: str) -> str:
    """A text without white space, but for that in backticks."""
    parts = text.split("`")
    return "`".join(
        part if place % 2 else "".join(part.split()) for place, part in enumerate(parts)
    )


def _terms(right: str, names: Collection[str]) -> Iterator[str]:
    """The terms of a right side; `a*b` is `a`, `b` and their product."""
    seen = []
    for term in _summands(right):
        one, star, other = term.partition("*")
        if star and one in names and other in names:
            seen += [part for part in (one, other) if part not in seen]
            seen.append(f"{one}{_CROSS}{other}")
        else:
            seen.append(term)
    yield from seen


def _summands(right: str) -> Iterator[str]:
    """What stands between the plus signs that are in no brackets and no backticks."""
    depth = 0
    inside = False
    term = ""
    for letter in right:
        inside ^= letter == "`"
        if not inside:
            depth += (letter == "(") - (letter == ")")
        if letter == "+" and depth == 0 and not inside:
            yield term
            term = ""
        else:
            term += letter
    yield term
