"""Columns as codes of levels that a schema states, or as counts of levels that are to be learned; no cell raises."""

from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.histograms import LevelCounts, histogram_bound
from dpinfer.schema.columns import Level, spelling_key, tidied, tidy
from dpinfer.tables.cells import (
    PLAIN_NUMBERS,
    TEXTS,
    Cells,
    Codes,
    Values,
    categories_of,
    dictionary_indices,
    factorize,
    integers_of,
    is_all_null,
    is_integral,
    is_list,
    kind_of,
    objects,
    one_dictionary,
    read_columns,
    texts_of,
    to_numbers,
    type_of,
    unmasked,
)

LONGEST = 200
"""Characters of a level; a longer text is no level, and neither is an empty one."""
MARKS = 4
"""Characters that one character is stored as, at most, where accents stand alone (NFD)."""
_RULE = "drop"  # of `missing` in a schema: no level can have this name


def level_codes(name: str, values: Any, levels: Sequence[Level]) -> Codes:
    """Return the code of each label, the number of levels for anything else; refused by shape and
    type alone.
    """
    if is_list(values):
        return match(objects(values), levels)
    declared = kind_of(np.asarray(levels))
    return read_columns(
        values,
        lambda cells: to_level_codes(cells, levels),
        lambda kind: (
            f"{name} is {kind} but classes= are {declared}: "
            f"declare the two labels of {name} as classes="
        ),
    )


@np.errstate(all="ignore")
def to_level_codes(
    cells: Cells, levels: Sequence[Level], *, any_spelling: bool = False
) -> Codes | None:
    """Return the code of each cell, the number of levels for anything else; None if their type
    holds no level.  With ``any_spelling`` case and runs of white space do not count.
    """
    if isinstance(cells, np.ndarray):
        return _array_level_codes(cells, levels, any_spelling)
    if not is_all_null(cells) and categories_of(cells) is None:  # which may be anything
        if not isinstance(levels[0], str):
            return _number_level_codes(cells, levels)
        if type_of(cells) not in (nw.String, nw.Categorical, nw.Enum):
            return None
    coded = _dictionary_codes(cells) or factorize(cells)
    texts = None if coded is None else texts_of(coded[1])
    if coded is None or texts is None:
        return None
    return np.append(match(texts, levels, any_spelling=any_spelling), len(levels))[coded[0]]


def _dictionary_codes(column: nw.Series[Any]) -> tuple[Codes, Values] | None:
    """Return the dictionary of Arrow as it is, in which a value may stand twice; None where there
    is none.
    """
    native = column.to_native()
    if not (isinstance(native, pa.ChunkedArray) and pa.types.is_dictionary(native.type)):
        return None
    dictionary = one_dictionary(native)
    return dictionary_indices(dictionary), dictionary.dictionary


def _array_level_codes(
    cells: npt.NDArray[Any], levels: Sequence[Level], any_spelling: bool
) -> Codes | None:
    kinds = "OUT" if isinstance(levels[0], str) else "Obiuf"
    if cells.dtype.kind not in kinds:
        return None
    codes = match(np.asarray(cells), levels, any_spelling=any_spelling)
    return unmasked(cells, codes, len(levels))


def _number_level_codes(column: nw.Series[Any], levels: Sequence[Level]) -> Codes | None:
    if is_integral(type_of(column)):
        integers, missing = integers_of(column)
        return np.where(missing, len(levels), match(integers, levels))
    values = to_numbers(column)
    return None if values is None else match(values, levels)


def match(
    values: npt.NDArray[Any], levels: Sequence[Level], *, any_spelling: bool = False
) -> Codes:
    """Return the code of each value of an array, the number of levels for anything else.

    Texts are the same up to white space around them and to how accents are stored; with
    ``any_spelling`` also up to case and runs of white space.
    """
    other = len(levels)
    if isinstance(levels[0], str):
        index = _LooseLevelIndex(levels) if any_spelling else _LevelIndex(levels)
        cells = values.astype(object, copy=False).flat
        codes = [index[cell] if type(cell) in TEXTS else other for cell in cells]
        return np.array(codes, dtype=np.intp).reshape(values.shape)
    if values.dtype.kind == "O":
        known = {level: j for j, level in enumerate(levels)}
        cells = values.flat
        codes = [known.get(cell, other) if type(cell) in PLAIN_NUMBERS else other for cell in cells]
        return np.array(codes, dtype=np.intp).reshape(values.shape)
    result = np.full(values.shape, other)
    for j, level in enumerate(levels):
        result[values == level] = j
    return result


class _LevelIndex(dict[Any, int]):
    """The codes of texts; each text is tidied once."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = {tidied(level): j for j, level in enumerate(levels)}
        # Texts with the same NFC have the same NFD, and no character is stored as none in it: a
        # text is at most as long as the NFD of the level that it is.
        self._max_length = max(len(normalize("NFD", level)) for level in self._levels)
        super().__init__(self._levels)

    def __missing__(self, text: str) -> int:
        self[text] = self._levels.get(_tidy(text, self._max_length), len(self._levels))
        return self[text]


class _LooseLevelIndex(_LevelIndex):
    """Compare texts without regard to case and runs of white space."""

    def __init__(self, levels: Sequence[Level]) -> None:
        dict.__init__(self)
        self._levels = {spelling_key(str(level)): j for j, level in enumerate(levels)}
        self._max_length = max(
            map(len, self._levels)
        )  # a text is no longer than the key of its level

    def __missing__(self, text: str) -> int:
        bare = " ".join(text.split())
        key = spelling_key(bare) if len(bare) <= self._max_length else None
        self[text] = self._levels.get(key, len(self._levels))
        return self[text]


def _tidy(text: str, max_length: int) -> str | None:
    """Return a text as it is compared, None if it has more than ``max_length`` characters.

    Guarantee [long_cells_are_quick]: the time for a cell grows as its length, for one of any
    length.  To tidy a text takes the square of it, where accents are many, so one that no level can
    be is not tidied.
    """
    bare = text.strip()
    return tidy(bare) if len(bare) <= max_length else None


# Levels that are to be learned


def tally(cells: Cells, units: Codes | None, adjacency: Adjacency) -> LevelCounts:
    """Count how many units have each level of a column of text; ``units`` has one number per row,
    below 0 where the id is missing: such a row belongs to no unit.

    Without it every row is a unit.

    Guarantee [one_level_a_unit]: a unit counts once, in the level that most of its rows have, or
    the first of these in the alphabet.  No order of rows changes it, so that neighbours may differ
    in the order of all rows too: at most two counts move, by one each (replace), or one does
    (add-remove), and no other level occurs or vanishes.

    Input
    -----
    cells of a column of text, and the id of each row where a unit has several

    Output
    ------
    the levels that occur, and how many units have each; shown only above a threshold

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    for each unit:
        l = the most frequent level of its rows, of several the first in the alphabet
        c[l] += 1
    return every l with c[l] > 0, with c[l]    (the gate adds noise and drops what is below the threshold)

    Proof
    -----
    docs/method.md, 9; tests/audit/test_levels.py
    """
    codes, texts = _learned_codes(cells)
    if units is not None:
        owned = (codes >= 0) & (units >= 0)
        codes = _modes(codes[owned], units[owned])
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(np.float64)
    there = np.flatnonzero(counts)
    return LevelCounts(tuple(texts[j] for j in there), counts[there], histogram_bound(adjacency))


def _modes(codes: Codes, units: Codes) -> Codes:
    """Return the mode of the codes of each unit's rows, the smallest where several are as frequent."""
    width = np.max(codes, initial=0) + 1  # both are below the number of rows, far from 2³¹
    pairs, rows = np.unique(units * width + codes, return_counts=True)
    of_unit, code = np.divmod(pairs, width)
    best = np.lexsort((code, -rows, of_unit))
    first = np.unique(of_unit[best], return_index=True)[1]
    return np.asarray(code[best[first]])


def _learned_codes(cells: Cells) -> tuple[Codes, list[str]]:
    """Return the index of each cell in an alphabetical list of different texts, and the list; -1 for
    a cell that is no level.  Whether a cell is a level depends on the cell alone.
    """
    coded = factorize(cells)
    texts = None if coded is None else texts_of(coded[1])
    if coded is None or texts is None:
        return np.full(len(cells), -1), []
    first_codes: dict[str, int] = {}  # in the order in which texts occur
    of_values = np.full(len(texts) + 1, -1)  # and one for what is missing
    for j, cell in enumerate(texts):
        # a text is no longer than its NFD, which is at most so many times as long as its NFC
        level = _tidy(cell, MARKS * LONGEST) if type(cell) in TEXTS else None
        if level is not None and _is_level(level):
            of_values[j] = first_codes.setdefault(level, len(first_codes))
    levels = sorted(first_codes)
    ranks = np.array([*map({text: j for j, text in enumerate(levels)}.get, first_codes), -1])
    return ranks[of_values][coded[0]], levels


def _is_level(text: str) -> bool:
    """Whether a schema file can hold a text as a level."""
    if not 0 < len(text) <= LONGEST or text == _RULE:
        return False
    # half of a pair, or a byte that is not UTF-8: UTF-8 has no bytes for it
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
