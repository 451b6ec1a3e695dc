"""How many units have each level of a text column; what a cell says depends on the cell alone, and no cell raises."""

import math
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from dpinfer.data.spelling import tidy
from dpinfer.data.values import TEXTS, Cells, Codes, all_null, categories_of, objects
from dpinfer.maths.histograms import Tally
from dpinfer.neighbours import Neighbours

LONGEST = 200
"""Characters of a level; a longer text is no level, and neither is an empty one."""
_RULE = "drop"  # of `missing` in a schema: no level can have this name


def tally(cells: Cells, units: Codes | None, neighbours: Neighbours) -> Tally:
    """Of a column of text; ``units`` has a number a row, below 0 where the id is missing: such a row is nobody's.

    Without it every row is a unit.

    Guarantee [one_level_a_unit]: a unit counts once, in the level of its first row that has one: between neighbours at
    most two counts move, by one each (replace), or one does (add-remove), and no other level occurs or vanishes.
    """
    codes, texts = _coded(cells)
    if units is not None:
        rows = np.flatnonzero((codes >= 0) & (units >= 0))
        codes = codes[rows[np.unique(units[rows], return_index=True)[1]]]
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(np.float64)
    there = np.flatnonzero(counts)
    return Tally(tuple(texts[j] for j in there), counts[there], neighbours.pick(math.sqrt(2), 1.0))


def _coded(cells: Cells) -> tuple[Codes, list[str]]:
    """The place of each cell in a list of different texts, -1 for a cell that is no level."""
    if not isinstance(cells, np.ndarray):
        if all_null(cells):
            return np.full(len(cells), -1), []
        categories = categories_of(cells)
        if categories is not None:
            codes, texts = _coded(categories)
            return np.append(codes, -1)[cells.to_native().cat.codes.to_numpy()], texts
        if getattr(getattr(cells.to_native(), "dtype", None), "storage", "") != "python":  # of pandas: any text fits in
            return _of_arrow(cells)
        cells = objects(cells.to_list())
    plain = np.asarray(cells)
    seen: dict[str, int] = {}
    tidied = [tidy(cell) if type(cell) in TEXTS else None for cell in plain.astype(object).tolist()]
    found = [seen.setdefault(cell, len(seen)) if cell is not None and _is_level(cell) else -1 for cell in tidied]
    missing = np.ma.getmaskarray(cells) if isinstance(cells, np.ma.MaskedArray) else False
    return np.where(missing, -1, np.array(found, dtype=np.intp)), list(seen)


def _of_arrow(column: nw.Series[Any]) -> tuple[Codes, list[str]]:
    """By Arrow's hash table of bytes, as its texts may be no UTF-8."""
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a table is read)
    import pyarrow.compute as pc  # noqa: PLC0415

    cells = column.to_arrow()
    cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    coded = pc.dictionary_encode(cells.cast(pa.large_binary()))
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    texts = [_decoded(value) for value in coded.dictionary.to_pylist()]
    places, known = _coded(objects(texts))
    indices: npt.NDArray[Any] = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(places, -1)[indices], known


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _is_level(cell: str) -> bool:
    """Whether a schema file can hold a text as a level."""
    if not 0 < len(cell) <= LONGEST or cell == _RULE:
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in cell)  # half of a pair, which UTF-8 has no bytes for
