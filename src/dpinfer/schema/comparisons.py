"""Comparisons that stand bare in a formula: its parser knows none, so a name stands in for each.

A comparison reaches from one + to the next: ``sex + age >= 65`` is sex and age >= 65, and ``18 <=
age < 65`` is one comparison.  Beside other signs of a formula it stands in brackets, ``sex * (age >=
65)``, since ``a / b > 2`` could mean two things; and, or and not stand in brackets or in I(...), too.
The left of ~ is one expression, where all of that is plain.  A function with a comparison inside is
replaced as a whole.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpinfer.errors import InputError

_TOKEN = re.compile(
    r"""`[^`]*`|"[^"]*"|'[^']*'"""  # names and texts in quotes
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[^\W\d][\w.]*"  # names; np.log is one
    r"|\*\*|&&|\|\||[<>=!]=|%in%|\S"
)
_ORDERS = {">", "<", ">=", "<=", "==", "!="}
_LOGIC = {"and", "or", "not", "&", "&&", "|", "||", "!"}
_PLAIN_NEIGHBOURS = {"", "+", "~", "|"}  # of a bare comparison
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_STAND_IN = "__compared{}__"


@dataclass(frozen=True)
class Replaced:
    """A formula without comparisons, and what the names in it stand for."""

    formula: str
    stands_for: dict[str, str]


@dataclass(frozen=True, eq=False)
class _Group:
    """What stands in brackets."""

    opening: str
    items: list["_Item"] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.opening}{_text(self.items)}{_CLOSING[self.opening]}"


_Item = str | _Group


def replaced(formula: str) -> Replaced:
    """The formula with names that stand for its comparisons."""
    names = _Names()
    items = _grouped(formula)
    if "~" in items:
        place = items.index("~")
        left = items[:place]
        if _compares(left):
            left = [names.of(_text(left))]
        else:
            left = names.without_comparisons(left)
        items = [*left, "~", *names.without_comparisons(items[place + 1 :])]
    else:
        items = names.without_comparisons(items)
    if not names.known:
        return Replaced(formula, {})
    return Replaced(_text(items), {name: text for text, name in names.known.items()})


def _grouped(formula: str) -> list[_Item]:
    """Tokens, and groups of what stands in brackets; a bracket without its partner is a token."""
    top: list[_Item] = []
    open_groups: list[_Group] = []
    for token in _TOKEN.findall(formula):
        inside = open_groups[-1].items if open_groups else top
        if token in _CLOSING:
            group = _Group(token)
            inside.append(group)
            open_groups.append(group)
        elif open_groups and token == _CLOSING[open_groups[-1].opening]:
            open_groups.pop()
        else:
            inside.append(token)
    if open_groups:  # the parser has words for it
        return list(_TOKEN.findall(formula))
    return top


def _text(items: Sequence[_Item]) -> str:
    """The items as text; a function stands next to its bracket."""
    words: list[str] = []
    for before, item in zip(["", *items], items, strict=False):
        called = isinstance(item, _Group) and _is_name(before)
        if words and not called:
            words.append(" ")
        words.append(str(item))
    return "".join(words)


def _is_name(item: _Item) -> bool:
    return isinstance(item, str) and item not in _LOGIC | {"in"} and item[:1].isidentifier()


def _compares(items: Sequence[_Item]) -> bool:
    """Whether there is a comparison, or a word of logic, outside of inner brackets."""
    return any(item in _ORDERS | _LOGIC or item == "in" for item in items if isinstance(item, str))


def _compares_inside(group: _Group) -> bool:
    """Whether there is one in a bracket, however deep."""
    if _compares(group.items):
        return True
    return any(isinstance(item, _Group) and _compares_inside(item) for item in group.items)


class _Names:
    """Names that stand for comparisons, the same for the same text."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def of(self, text: str) -> str:
        """The name of a text."""
        return self.known.setdefault(text, _STAND_IN.format(len(self.known)))

    def without_comparisons(self, items: Sequence[_Item]) -> list[_Item]:
        """The items of one bracket, or of a side of ~, with names instead of comparisons."""
        result: list[_Item] = []
        at = 0
        while at < len(items):
            stop = _end_of_comparison(items, at)
            before = str(items[at - 1]) if at else ""
            after = str(items[stop]) if stop < len(items) else ""
            if stop > at:
                text = _text(items[at:stop])
                if not {before, after} <= _PLAIN_NEIGHBOURS:
                    raise InputError(_ambiguous(text, before, after))
                result.append(self.of(text))
                at = stop
                continue
            item = items[at]
            called = items[at + 1] if _is_name(item) and at + 1 < len(items) else None
            if isinstance(called, _Group) and _compares_inside(called):
                result.append(self.of(_text(items[at : at + 2])))
                at += 2
                continue
            if isinstance(item, _Group) and item.opening == "(" and not _is_name(before):
                item = self._bracket(item)
            result.append(item)
            at += 1
        return result

    def _bracket(self, group: _Group) -> _Item:
        words = {item for item in group.items if isinstance(item, str)}
        if words & _LOGIC and (words & _ORDERS or "|" not in words):
            return self.of(_text(group.items))
        return _Group("(", self.without_comparisons(group.items))


def _end_of_comparison(items: Sequence[_Item], start: int) -> int:
    """Where a comparison that begins here ends; ``start`` where none begins."""
    stop = _end_of_operand(items, start)
    end = start
    while stop > start:
        sign = _end_of_sign(items, stop)
        if sign == stop:
            break
        stop = _end_of_operand(items, sign)
        if stop == sign:  # nothing is there to compare with: the parser has words for it
            return start
        end = stop
    return end


def _end_of_sign(items: Sequence[_Item], at: int) -> int:
    """After the sign of a comparison that stands here; ``at`` where none does."""
    if items[at : at + 1] and items[at] in _ORDERS:
        return at + 1
    for words in (["in"], ["not", "in"]):
        after = at + len(words)
        listed = items[after : after + 1]
        if items[at:after] == words and listed and isinstance(listed[0], _Group):
            return after
    return at


def _end_of_operand(items: Sequence[_Item], at: int) -> int:
    """After a name, a number, a text, a bracket or a call, with a sign before it or not."""
    start = at
    if items[at : at + 1] in (["-"], ["+"]) and at and items[at - 1] in _ORDERS:
        at += 1
    if at >= len(items):
        return start
    item = items[at]
    if isinstance(item, _Group):
        return at + 1
    if _is_name(item) and at + 1 < len(items) and isinstance(items[at + 1], _Group):
        return at + 2
    if _is_name(item) or item[0] in "`\"'.0123456789":
        return at + 1
    return start


def _ambiguous(text: str, before: str, after: str) -> str:
    if {before, after} & _LOGIC:
        return (
            f"the comparison {text} stands beside {before if before in _LOGIC else after}: put all of it in brackets, "
            "as in (age >= 65 and smoker)"
        )
    sign = before if before not in _PLAIN_NEIGHBOURS else after
    return (
        f"the comparison {text} stands beside {sign}, which could mean two things: write ({text}) for the comparison "
        "alone, or I(a / b > 2) where arithmetic is compared"
    )
