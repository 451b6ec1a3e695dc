"""Rules for values, each stated once: in words, as JSON Schema, and as a test that runs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),  # True is none of them
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
}


def _anything(_: Any) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """A rule that a value must fulfil.

    ``description`` states it for people and ``schema``, a JSON Schema, for programs; ``besides`` tests what
    JSON Schema cannot express.  Values in ``former`` are accepted, and not documented.

    Guarantee [one_truth]: a value that the command line takes is one that the document of the
    interface allows, former names excepted; and a value that this document does not allow is
    refused.
    """

    description: str
    schema: Mapping[str, Any]
    besides: Callable[[Any], bool] = _anything
    former: tuple[str, ...] = ()

    def holds(self, value: Any) -> bool:
        """Tell whether a value fulfils the rule."""
        if type(value) is str and value in self.former:
            return True
        return _meets(value, self.schema) and self.besides(value)


def one_of(values: Iterable[str], former: Iterable[str] = ()) -> Rule:
    """Return the rule that a value is one of some texts."""
    offered = list(values)
    listed = " or ".join(f'"{value}"' for value in offered)
    return Rule(listed, {"type": "string", "enum": offered}, former=tuple(former))


def _meets(value: Any, schema: Mapping[str, Any]) -> bool:
    """Tell whether a value fulfils a JSON Schema, as far as the rules here use its keywords."""
    if type(value) not in _TYPES[schema["type"]]:
        return False
    return all(_MEETS[word](value, bound) for word, bound in schema.items() if word != "type")


_MEETS: dict[str, Callable[[Any, Any], bool]] = {
    "enum": lambda value, offered: value in offered,
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
    "minLength": lambda value, bound: len(value) >= bound,
    "maxLength": lambda value, bound: len(value) <= bound,
    "minItems": lambda value, bound: len(value) >= bound,
    "maxItems": lambda value, bound: len(value) <= bound,
    "items": lambda value, schema: all(_meets(one, schema) for one in value),
}
