"""Comparisons of a formula in braces, as formulaic's grammar has them: ``{age >= 65}`` is one factor.

A comparison may stand without braces where it reaches from one + to the next: ``sex + age >= 65`` is sex and
age >= 65, and ``18 <= age < 65`` is one comparison.  Beside other signs of a formula it stands in brackets,
``sex * (age >= 65)``, since ``a / b > 2`` could mean two things; and, or and not stand in brackets, too.  The
left of ~ is one expression.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dpinfer.errors import InputError
from dpinfer.schema.expressions import python_of

_SIGN = re.compile(r"%[^%]*%|\*\*|&&|\|\||[<>=!]=|\S")
_COMPARISONS = {">", "<", ">=", "<=", "==", "!="}
_LOGIC = {"and", "or", "not", "&", "&&", "||", "!"}
_BETWEEN_TERMS = {"+", "~", "|"}
# A comparison by the roles of its items (`_role`): formulaic reads 1e-3 as three, and in(1, 2) as one.
_OPERAND = r"(?:[og]|e-o)"
_COMPARED = re.compile(rf"{_OPERAND}(?:n?kg|n?i|c-?{_OPERAND})+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")

_Edit = tuple[int, int, bool]  # start and end of what is Python, and whether it is put in braces


@dataclass(frozen=True)
class _Item:
    """A token of a formula, or a pair of brackets with all ``items`` inside."""

    start: int
    end: int
    text: str
    kind: str
    items: tuple["_Item", ...] = ()


def braced(formula: str) -> str:
    """Return the formula with braces around its comparisons, and Python's words for signs of logic in them."""
    items = _items(formula)
    signs = [item.text for item in items]
    edits: list[_Edit] = []
    if "~" in signs:
        left = items[: signs.index("~")]
        items = items[signs.index("~") + 1 :]
        if set(_roles(left)) & set("cikln") or "|" in signs[: len(left)]:
            edits.append((left[0].start, left[-1].end, True))
        else:
            edits += _edits(left)
    edits += _edits(items)
    for start, end, in_braces in reversed(edits):
        python = python_of(formula[start:end])
        if in_braces:
            python = f"{{{_QUOTED.sub(_without_brackets, python)}}}"
        formula = formula[:start] + python + formula[end:]
    return formula


def _without_brackets(quoted: re.Match[str]) -> str:
    """Return a text in quotes with escapes for brackets, which formulaic would count as brackets in braces."""
    return re.sub(r"[][(){}`]", lambda sign: f"\\x{ord(sign[0]):02x}", quoted[0])


def _items(formula: str) -> tuple[_Item, ...]:
    """Return the items of a formula by formulaic's tokens; none where brackets have no partner."""
    from formulaic.parser.algos.tokenize import tokenize  # noqa: PLC0415  (slow to load)

    tokens = list(tokenize(formula))
    ends = [*(token.source_start for token in tokens), len(formula)][1:]
    levels: list[list[_Item]] = [[]]
    opened: list[int] = []
    for token, end in zip(tokens, ends, strict=True):
        start = token.source_start
        text = formula[start:end].rstrip()
        if text in ("(", "["):
            opened.append(start)
            levels.append([])
        elif text in (")", "]") and opened:
            items = tuple(levels.pop())
            first = opened.pop()
            levels[-1].append(_Item(first, start + 1, formula[first : start + 1], "group", items))
        elif token.kind.value == "operator":  # which may be several signs
            for sign in _SIGN.finditer(text):
                levels[-1].append(_Item(start + sign.start(), start + sign.end(), sign[0], "sign"))
        else:
            levels[-1].append(_Item(start, start + len(text), text, token.kind.value))
    return () if opened else tuple(levels[0])


def _roles(items: tuple[_Item, ...]) -> str:
    """Return one letter per item.

    c is a sign of comparison, k the word in, i the word with its list, n and l are words or signs of
    logic (n may belong to in), o is an operand, g a pair of brackets, e the head of a number such as
    1e-3, - a plus or minus and s any other sign.
    """
    return "".join(map(_role, items))


def _role(item: _Item) -> str:  # noqa: PLR0911  (one per role)
    if item.kind == "group":
        return "g"
    if item.text in _COMPARISONS:
        return "c"
    if item.text in ("in", "not"):
        return {"in": "k", "not": "n"}[item.text]
    if item.text in _LOGIC:
        return "l"
    if item.kind == "sign":
        return "-" if item.text in "+-" else "s"
    if item.text.startswith("in("):
        return "i"
    return "e" if re.fullmatch(r"[0-9.]+[eE]", item.text) else "o"


def _edits(items: tuple[_Item, ...]) -> Iterator[_Edit]:
    """Yield the edits of one side of ~, or of one pair of brackets."""
    roles = _roles(items)
    ends = [
        i
        for i, item in enumerate(items)
        if item.text in _BETWEEN_TERMS and not (item.text == "+" and roles[i - 1 : i] in ("c", "e"))
    ]
    for before, end in pairwise([-1, *ends, len(items)]):
        term = items[before + 1 : end]
        compared = _COMPARED.search(roles[before + 1 : end])
        if compared is None:
            for item in term:
                yield from _edits_of(item)
            continue
        first, last = compared.span()
        if last - first < len(term):
            raise InputError(_ambiguous(term, first, last))
        yield term[0].start, term[-1].end, True


def _edits_of(item: _Item) -> Iterator[_Edit]:
    """Yield the edits of a call, or of a pair of brackets, in which logic makes one expression."""
    if item.kind == "python":
        yield item.start, item.end, False
    if item.kind != "group":
        return
    roles = set(_roles(item.items))
    bars = any(inner.text == "|" for inner in item.items)
    if roles & set("ln") and (roles & set("cki") or not bars):
        yield item.items[0].start, item.items[-1].end, True
    else:
        yield from _edits(item.items)


def _ambiguous(term: tuple[_Item, ...], first: int, last: int) -> str:
    text = " ".join(item.text for item in term[first:last])
    adjacent = [item.text for item in (*term[max(first - 1, 0) : first], *term[last : last + 1])]
    for sign in adjacent:
        if sign in _LOGIC:
            return f"the comparison {text} stands beside {sign}: put it in brackets, as in (age >= 65 and smoker)"
    return (
        f"the comparison {text} stands beside {adjacent[0]}, which could mean two things: write ({text}) for the "
        "comparison alone, or I(a / b > 2) where arithmetic is compared"
    )
