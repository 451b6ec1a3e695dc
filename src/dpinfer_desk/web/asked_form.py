"""The form of a question: the fields that were sent as a question, and a question as fields.

Formula and ticks are sent together, each with what it was when the page was made: the one that was
changed counts, and the other one follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import InputError
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.schema.formula import parse
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.web.ticks import SHAPES, Choices, Ticks, choices_of, ticks_of
from dpinfer_desk.web.visit import Fields

NUMBERS = ("epsilon", "delta", "rho", "level", "penalty", "knee", "quantile", "bandwidth")
TEXTS = ("loss", "target", "tail", "far_values", "exposure", "title")
PRODUCTS = 3
"""Rows for products of two columns."""
_LEVEL = 0.95
_BOTH = "Both the formula and the form were changed: the formula counts, and the form follows it."


@dataclass(frozen=True)
class AskedForm:
    """What the form holds: texts by key as they were typed, the formula, its ticks where it has
    some, and a remark on what became of the two.
    """

    texts: Mapping[str, str]
    formula: str
    ticks: Ticks | None
    choices: Choices
    remark: str = ""

    @classmethod
    def of(cls, table: RegisteredTable, fields: Fields) -> "AskedForm":
        """The form as it was sent, or as it is offered at first."""
        choices = choices_of(table.schema_text)
        texts = {key: fields.text(key) for key in ("by", *NUMBERS, *TEXTS)}
        if not any(texts[key] for key in ("epsilon", "rho")):
            texts |= _budget_of(table)
        formula = _line(fields.text("formula"))
        ticked = _ticked(fields, choices)
        typed = bool(formula) and formula != _line(fields.text("formula-was"))
        changed = ticked is not None and ticked.formula() != fields.text("ticks-were")
        if changed and not typed:
            assert ticked is not None
            return cls(texts, ticked.formula(), ticked, choices)
        remark = _BOTH if changed and typed else ""
        return cls(texts, formula, ticks_of(formula, choices), choices, remark)

    def question(self, table: RegisteredTable) -> AnalystQuestion:
        """The question; `InputError` says what is wrong with it."""
        if not self.formula:
            raise InputError("there is no question yet: tick an outcome, or write a formula")
        fields = Fields({key: (text,) for key, text in self.texts.items()})
        given: dict[str, Any] = {"formula": self.formula}
        for key in NUMBERS:
            given[key] = fields.number(key)
        for key in TEXTS:
            given[key] = self.texts[key]
        given["level"] = given["level"] or _LEVEL
        given["loss"] = given["loss"] or _usual_loss(self.formula, table)
        return AnalystQuestion.of(
            {key: value for key, value in given.items() if value not in (None, "")}
        )

    def value(self, key: str) -> str:
        """What stands in a field."""
        return self.texts[key]

    def were(self) -> str:
        """The formula of the ticks as they are shown; empty where there are none."""
        return self.ticks.formula() if self.ticks else ""


def fields_of(question: AnalystQuestion, by: str) -> dict[str, str]:
    """The fields of an address that leads to this question in the form."""
    return {"by": by, **{key: str(value) for key, value in question.keys().items()}}


def _budget_of(table: RegisteredTable) -> dict[str, str]:
    """A budget to begin with: of the kind that the table counts."""
    total = table.ledger().total
    if isinstance(total, ZCDP):
        return {"rho": f"{total.rho / 10:.2g}"}
    if isinstance(total, ApproxDP):
        return {"epsilon": f"{min(1.0, total.epsilon / 2):.2g}", "delta": f"{total.delta:g}"}
    assert isinstance(total, PureDP)
    return {"epsilon": f"{total.epsilon / 10:.2g}"}


def _ticked(fields: Fields, choices: Choices) -> Ticks | None:
    """The ticks that were sent; columns are named by their places, as names may hold anything."""
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


def _line(text: str) -> str:
    """A text in one line."""
    return " ".join(text.splitlines()).strip()


def _at(items: tuple[Any, ...], text: str) -> Any:
    """The item at a place that was sent as a text; None where there is none."""
    place = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else len(items)
    return items[place] if place < len(items) else None


def _usual_loss(formula: str, table: RegisteredTable) -> str:
    """Logistic regression for two levels, least squares for a number."""
    response, _ = parse(formula, table.schema)
    return "logistic" if response.levels else "linear"
