"""The form of a question: its fields as a question, and its formula as ticks, one following the other.

A form has an outcome, columns as they are or transformed, and products of two columns.  A formula
that says more is no form: its text stays as it was written.  Formula and ticks are sent together,
each with what it was when the page was made: the one that was changed counts, and the other one
follows.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from dpinfer.asking.questions import LONGEST_TITLE, SECTIONS, AnalystQuestion
from dpinfer.asking.spec import RULES
from dpinfer.errors import DpinferError, InputError
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.schema.columns import Number, Outcome
from dpinfer.schema.expressions import quoted
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.web.requests import FormFields

AS_IS = ""
LABELS = {
    "formula": "the formula",
    "epsilon": "ε",
    "delta": "δ",
    "rho": "ρ",
    "level": "the level of intervals",
    "penalty": "the penalty",
    "knee": "the knee",
    "quantile": "the quantile",
    "bandwidth": "the bandwidth",
    "loss": "the model",
    "target": "the target",
    "tail": "the tail",
    "far_values": "far values",
    "exposure": "the exposure",
    "title": "the title",
}
"""The fields of a question, as errors call them."""
PRESETS = {"0.5": "Strong", "1": "Moderate", "3": "Weak"}
"""Values of ε that the form offers, with what they are called."""
SHAPES = {
    AS_IS: ("linear", "{x}"),
    "log": ("log(x)", "log({x})"),
    "log1": ("log(1 + x)", "log(1 + {x})"),
    "sqrt": ("square root", "sqrt({x})"),
    "square": ("x and x²", "{x} + I({x}**2)"),
}
"""The shapes that a column may take: as a label, and as a formula has it."""
_OF_OUTCOMES = ("log", "log1", "sqrt")
_CROSS = ":"


@dataclass(frozen=True)
class Choice:
    """A column that may be ticked: its name, the shapes it may take, and its description."""

    name: str
    shapes: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Choices:
    """The outcomes, as expressions, and the columns that a schema offers."""

    outcomes: tuple[str, ...]
    columns: tuple[Choice, ...]


@dataclass(frozen=True)
class Ticks:
    """The outcome, the columns with their shapes, and the products that are ticked."""

    outcome: str
    columns: tuple[tuple[str, str], ...] = ()
    products: tuple[tuple[str, str], ...] = ()

    def formula(self) -> str:
        """Return the formula that says the same."""
        terms = [written(name, shape) for name, shape in self.columns]
        terms += [_CROSS.join(map(quoted, pair)) for pair in self.products]
        return f"{self.outcome} ~ {' + '.join(terms) or '1'}"


@lru_cache(maxsize=64)
def choices_of(text: str) -> Choices:
    """Return what the schema with this text offers."""
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
    """Return the ticks that say what a formula says; None where it says more than ticks can."""
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
    """Return a column as a formula has it."""
    return SHAPES[shape][1].format(x=quoted(name))


def _shapes(schema: Schema, name: str) -> tuple[str, ...]:
    """Return the shapes that a column may take, by its public bounds."""
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
    """Return the expression, if a model can explain it."""
    try:
        parse(f"{expression} ~ 1", schema)
    except InputError:
        return []
    return [expression]


def _bare(text: str) -> str:
    """Return a text without white space, but for that in backticks."""
    parts = text.split("`")
    return "`".join(
        part if number % 2 else "".join(part.split()) for number, part in enumerate(parts)
    )


def _terms(right: str, names: Collection[str]) -> Iterator[str]:
    """Yield the terms of a right side; `a*b` is `a`, `b` and their product."""
    terms = []
    for term in _summands(right):
        one, star, other = term.partition("*")
        if star and one in names and other in names:
            terms += [part for part in (one, other) if part not in terms]
            terms.append(f"{one}{_CROSS}{other}")
        else:
            terms.append(term)
    yield from terms


def _summands(right: str) -> Iterator[str]:
    """Yield the texts between the plus signs that are in no brackets and no backticks."""
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


NUMBERS = ("epsilon", "delta", "rho", "level", "penalty", "knee", "quantile", "bandwidth")
TEXTS = ("loss", "target", "tail", "far_values", "exposure", "title")
PRODUCTS = 3
"""Rows for products of two columns."""
BUDGET = frozenset({"epsilon", "delta", "rho"})
"""The fields of a budget."""
_LEVEL = 0.95
_DELTA = "1e-06"  # beside an ε, where the total has no δ of its own
_BOTH = "Both the formula and the form were changed: the formula counts, and the form follows it."


@dataclass(frozen=True)
class QuestionForm:
    """The fields of a question: texts by key as they were typed, the formula, its ticks where it has
    some, and a remark on what became of the two.
    """

    texts: Mapping[str, str]
    formula: str
    ticks: Ticks | None
    choices: Choices
    remark: str = ""
    faults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, table: RegisteredTable, fields: FormFields) -> "QuestionForm":
        """Return the form as it was sent, or as it is offered at first."""
        choices = choices_of(table.schema_text)
        texts = {key: fields.text(key) for key in ("by", *NUMBERS, *TEXTS)}
        if fields.text("preset") in PRESETS:
            texts |= preset_fields(fields.text("preset"), table.ledger().total, texts["delta"])
        if not any(texts[key] for key in ("epsilon", "rho")):
            texts |= _budget_of(table)
        formula = _one_line(fields.text("formula"))
        ticked = _ticked(fields, choices)
        typed = bool(formula) and formula != _one_line(fields.text("formula-was"))
        changed = ticked is not None and ticked.formula() != fields.text("ticks-were")
        if changed and not typed:
            assert ticked is not None
            return cls(texts, ticked.formula(), ticked, choices)
        remark = _BOTH if changed and typed else ""
        return cls(texts, formula, ticks_of(formula, choices), choices, remark)

    def question(self, table: RegisteredTable) -> AnalystQuestion:
        """Return the question; `FormError` says what is wrong, with the field where it can be told."""
        faults: dict[str, str] = {}
        given: dict[str, Any] = {"level": _LEVEL} | self._given(faults)
        try:
            given["formula"] = self._written()
            response, _ = parse(self.formula, table.schema)
            # Logistic regression for two levels, least squares for a number.
            usual = "logistic" if response.levels else "linear"
            given.setdefault("loss", "hazard" if response.name.startswith("Surv(") else usual)
        except DpinferError as fault:
            faults["formula"] = str(fault)
        if faults:
            raise FormError(faults)
        return AnalystQuestion.of(given)

    def budget(self) -> Total | None:
        """Return the budget that is typed; None where it is none."""
        faults: dict[str, str] = {}
        given = self._given(faults)
        if faults.keys() & BUDGET:
            return None
        keys = {key: given[key] for key in BUDGET if key in given}
        return AnalystQuestion.of({"formula": "y ~ 1", **keys}).budget

    def with_faults(self, fault: Exception) -> "QuestionForm":
        """Return the form with what is wrong at its fields."""
        return replace(self, faults=fault.faults) if isinstance(fault, FormError) else self

    def _written(self) -> str:
        if not self.formula:
            raise InputError("there is no question yet: tick an outcome, or write a formula")
        return self.formula

    def _given(self, faults: dict[str, str]) -> dict[str, Any]:
        """Return the values of all fields but the formula; ``faults`` gets what is wrong, by field."""
        fields = FormFields({key: (text,) for key, text in self.texts.items()})
        given: dict[str, Any] = {}
        for key in (*NUMBERS, *TEXTS):
            if not self.texts[key]:
                continue
            try:
                given[key] = fields.number(key, LABELS[key]) if key in NUMBERS else self.texts[key]
            except InputError as fault:
                faults[key] = str(fault)
                continue
            rule = RULES[SECTIONS[key]][key]
            if not rule.holds(given[key]):
                faults[key] = f"{LABELS[key]} must be {rule.description}"
        if ("epsilon" in self._typed) == ("rho" in self._typed):
            faults.setdefault("epsilon", "a question needs ε or ρ: give one of them")
        elif "delta" in self._typed and "rho" in self._typed:
            faults.setdefault("delta", "δ goes with ε: leave it out beside ρ")
        if len(self.texts["title"]) > LONGEST_TITLE:
            faults["title"] = f"the title has at most {LONGEST_TITLE} characters: shorten it"
        return given

    @property
    def _typed(self) -> set[str]:
        return {key for key in BUDGET if self.texts[key]}

    def value(self, key: str) -> str:
        """Return the text of a field."""
        return self.texts[key]

    def were(self) -> str:
        """Return the formula of the ticks as they are shown; empty where there are none."""
        return self.ticks.formula() if self.ticks else ""


class FormError(InputError):
    """A form with mistakes: ``faults`` by field, and all of them as one text."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__("; ".join(faults.values()))
        self.faults = faults


def preset_fields(epsilon: str, total: Total, delta: str = "") -> dict[str, str]:
    """Return the fields of a budget with this ε: with δ where the total has one, or none that is pure."""
    if isinstance(total, PureDP):
        return {"epsilon": epsilon, "delta": "", "rho": ""}
    usual = f"{total.delta:g}" if isinstance(total, ApproxDP) else _DELTA
    return {"epsilon": epsilon, "delta": delta or usual, "rho": ""}


def offered_presets(total: Total) -> dict[str, tuple[str, Total]]:
    """Return the presets that a total could pay for: ε as a text, with its name and the budget."""
    offered: dict[str, tuple[str, Total]] = {}
    for epsilon, name in PRESETS.items():
        typed = preset_fields(epsilon, total)["delta"]
        budget: Total = ApproxDP(float(epsilon), float(typed)) if typed else PureDP(float(epsilon))
        if budget.zcdp().rho <= total.zcdp().rho:
            offered[epsilon] = (name, budget)
    return offered


def fields_of(question: AnalystQuestion, by: str) -> dict[str, str]:
    """Return the fields of an address that leads to this question in the form."""
    return {"by": by, **{key: str(value) for key, value in question.keys().items()}}


def _budget_of(table: RegisteredTable) -> dict[str, str]:
    """Return a budget to begin with: of the kind that the table counts."""
    total = table.ledger().total
    if isinstance(total, ZCDP):
        return {"rho": f"{total.rho / 10:.2g}"}
    if isinstance(total, ApproxDP):
        return {"epsilon": f"{min(1.0, total.epsilon / 2):.2g}", "delta": f"{total.delta:g}"}
    assert isinstance(total, PureDP)
    return {"epsilon": f"{total.epsilon / 10:.2g}"}


def _ticked(fields: FormFields, choices: Choices) -> Ticks | None:
    """Return the ticks that were sent; columns go by their numbers, as names may hold anything."""
    outcome = _at(choices.outcomes, fields.text("outcome"))
    if outcome is None:
        return None
    columns = []
    for text in fields.all("column"):
        choice = _at(choices.columns, text)
        if choice is not None:
            shape = fields.text(f"shape-{text}")
            columns.append((choice.name, shape if shape in SHAPES else ""))
    products = []
    for row in range(PRODUCTS):
        one = _at(choices.columns, fields.text(f"one-{row}"))
        other = _at(choices.columns, fields.text(f"other-{row}"))
        if one is not None and other is not None and one != other:
            products.append((one.name, other.name))
    return Ticks(outcome, tuple(columns), tuple(products))


def _one_line(text: str) -> str:
    """Return a text in one line."""
    return " ".join(text.splitlines()).strip()


def _at(items: tuple[Any, ...], text: str) -> Any:
    """Return the item whose number was sent as a text; None where there is none."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else len(items)
    return items[number] if number < len(items) else None
