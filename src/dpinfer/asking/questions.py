"""A question as an analyst may ask it: public keys from a list, and nothing else.

    table = "visits"
    formula = "visit ~ age + health"
    loss = "logistic"
    epsilon = 1.0
    delta = 1e-6

Paths, ledgers, adjacency, mechanisms, seeds and look-alike tables are not among the keys: the holder of
the data decides them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.adjacency import Adjacency
from dpinfer.asking.from_spec import Data, budget_of, model_of
from dpinfer.asking.spec import RULES, Spec, check, check_name
from dpinfer.errors import InputError
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.schema.schema import Schema
from dpinfer.schema.toml import read_toml

if TYPE_CHECKING:
    from dpinfer.estimators.models import LinearModel

SECTIONS = {
    "formula": "data",
    "loss": "model",
    "target": "model",
    "tail": "model",
    "far_values": "model",
    "exposure": "model",
    "penalty": "model",
    "knee": "model",
    "quantile": "model",
    "bandwidth": "model",
    "epsilon": "privacy",
    "delta": "privacy",
    "rho": "privacy",
    "level": "output",
    "title": "output",
}
"""The keys of a question, each with the section of a spec whose rules it follows."""

_PRESENTATION = ("level", "title")  # change no release
_LONGEST_FILE = 64 * 1024
LONGEST_TITLE = 200


class _BareSpec(Spec):
    """A spec whose errors name a key alone, as a question file has no sections."""

    def name_of(self, section: str, key: str) -> str:  # noqa: ARG002
        return key


@dataclass(frozen=True)
class AnalystQuestion:
    """A question of a table for a budget: ``epsilon``, with ``delta`` or alone, or ``rho``.

    The fields are the keys of a question file; None stands for one that was left out.  `of` checks
    them, and `model` is the estimator that they ask for.
    """

    formula: str
    loss: str = "logistic"
    target: str | None = None
    tail: str | None = None
    far_values: str | None = None
    exposure: str | None = None
    penalty: float | None = None
    knee: float | None = None
    quantile: float | None = None
    bandwidth: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    level: float = 0.95
    title: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "AnalystQuestion":
        """Check keys and values that somebody sent, and return the question.

        Guarantee [public_keys_alone]: a question has no key that names a file, a ledger, a neighbour
        notion, a mechanism, a seed or a look-alike table.
        """
        for key, value in given.items():
            check_name("a question", "key", key, SECTIONS)
            check(key, value, RULES[SECTIONS[key]][key])
        if "formula" not in given:
            raise InputError('a question needs a formula, for example formula = "visit ~ age"')
        if len(given.get("title", "")) > LONGEST_TITLE:
            raise InputError(f"a title has at most {LONGEST_TITLE} characters: shorten it")
        question = cls(**{**given, "formula": given["formula"].strip()})
        _ = question.budget
        return question

    def keys(self) -> dict[str, Any]:
        """Return the keys that were given, with their values."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: value for key, value in given.items() if value not in (None, "")}

    def digest(self) -> str:
        """Return the SHA-256 of the keys that decide the release: all but title and level."""
        released = {key: value for key, value in self.keys().items() if key not in _PRESENTATION}
        canonical = json.dumps(released, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def budget(self) -> Total:
        if (self.epsilon is None) == (self.rho is None):
            raise InputError(
                "a question needs exactly one of epsilon, rho, for example epsilon = 1.0 and delta = 1e-6"
            )
        budget = budget_of(self._spec())
        assert budget is not None
        return budget

    def at(self, budget: Total) -> "AnalystQuestion":
        """Return the same question for another budget."""
        bare = replace(self, epsilon=None, delta=None, rho=None)
        if isinstance(budget, ZCDP):
            return replace(bare, rho=budget.rho)
        if isinstance(budget, ApproxDP):
            return replace(bare, epsilon=budget.epsilon, delta=budget.delta)
        assert isinstance(budget, PureDP)
        return replace(bare, epsilon=budget.epsilon)

    def model(self, schema: Schema, neighbours: Adjacency) -> "LinearModel":
        """Return the estimator that is asked for; nothing is booked and nothing is read."""
        model = model_of(self._spec(), Data(None, schema, self.formula))
        model.set_params(neighbours=str(neighbours))
        return model

    def _spec(self) -> Spec:
        sections: dict[str, dict[str, Any]] = {section: {} for section in RULES}
        for key, value in self.keys().items():
            sections[SECTIONS[key]][key] = value
        return _BareSpec(sections, options=frozenset())


def question_schema() -> dict[str, Any]:
    """Return the JSON Schema of a question, made of the rules that `AnalystQuestion.of` checks."""
    rules = {key: RULES[section][key] for key, section in SECTIONS.items()}
    keys = {key: {**rule.schema, "description": rule.description} for key, rule in rules.items()}
    keys["title"]["maxLength"] = LONGEST_TITLE
    return {
        "type": "object",
        "properties": keys,
        "required": ["formula"],
        "oneOf": [{"required": ["epsilon"]}, {"required": ["rho"]}],
        "dependentRequired": {"delta": ["epsilon"]},
        "additionalProperties": False,
    }


def read_question(path: Path) -> tuple[str, AnalystQuestion]:
    """Read a question file: the table that it names, empty where it names none, and the question."""
    try:
        if path.stat().st_size > _LONGEST_FILE:
            raise InputError(
                f"the question {path.name!r} has more than {_LONGEST_FILE // 1024} kB: send the question alone"
            )
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"the question {path.name!r} is no UTF-8 text: save it as one") from None
    except OSError as fault:
        raise InputError(
            f"the question {str(path)!r} cannot be read ({fault.strerror}): check the path"
        ) from None
    return question_of(text, f"the question {path.name!r}")


def question_of(text: str, name: str = "the question") -> tuple[str, AnalystQuestion]:
    """Parse the text of a question file, which errors call ``name``; see `read_question`."""
    given = dict(read_toml(text, name))
    table = given.pop("table", "")
    if not isinstance(table, str):
        raise InputError('table must be the name of a table in quotes, such as table = "visits"')
    return table, AnalystQuestion.of(given)
