"""The paper's data sets with the paper's preprocessing: rows in the unit ball and labels -1 or +1.

The steps: every categorical attribute becomes one 0/1 column per level, every column is divided by
its largest absolute value, every row by max(1, norm), a column of ones is appended and every row is
divided by max(1, norm) once more.  The last division always happens, so every row ends with norm 1
up to rounding.

The column scales are taken from the data.  That is fine in a study, whose results are not private,
and nowhere else.

Two orders of "the first d features" are offered:

- ``paper``: all columns are scaled and enter the first row norm; the first d are selected after
that;
- ``select-first``: the first d columns are selected before anything is scaled.

Choices the paper leaves open:

- *Column order.*  Numeric columns come first, then the dummies, attributes in file order and levels
sorted.  The two
  files that arrive encoded (``bank_dpagd``, ``br``) keep the order of their file.
- *Scale.*  The paper makes the maximum of a column 1.  A column with negative values (the balance
of ``bank``, its
  ``pdays`` of -1) is divided by its largest absolute value, so that it stays in [-1, 1]; for every
  column of these data sets that is the maximum too.  A column of zeros stays.  Scales come from all
  rows, also when n is smaller.
- *Rows.*  ``n`` takes the first n rows of a seeded permutation; without it all rows come in file
order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

Array = np.ndarray
Order = Literal["paper", "select-first"]
Column = tuple[str, Array]

CONSTANT = "constant"
"""The name of the last column, the ones."""

_FETCH = "run `python -m studies.paper.fetch FOLDER` where there is a network"
_BY_HAND = "there is no public download; put the file into the folder by hand"


@dataclass(frozen=True)
class Recipe:
    """How one table becomes columns and labels: its file, which rows count, and what each column
    is.

    Text columns are categorical and all others numeric, apart from ``categories`` (numbers that are
    codes) and ``numbers`` (text that holds numbers, where anything else, such as ``N``, counts as
    0).
    """

    file: str
    outcome: str
    positive: Callable[[pd.Series], pd.Series]
    remedy: str
    keep: Callable[[pd.Series], pd.Series] | None = None
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def _is_one(outcome: pd.Series) -> pd.Series:
    return outcome == 1


def _is_attack(outcome: pd.Series) -> pd.Series:
    return outcome != "normal."


def _above_50k(outcome: pd.Series) -> pd.Series:
    return pd.to_numeric(outcome) > 50_000


RECIPES: dict[str, Recipe] = {
    # Income above 50,000 is +1.  fnlwgt is a survey weight, education repeats education-num,
    # native-country is dropped
    # as in the method note.  Only the complete rows of the training file, which gives the paper's
    # 30,162.
    "adult": Recipe(
        file="adult_train_complete.parquet",
        outcome="income",
        positive=lambda outcome: outcome == ">50K",
        remedy=_FETCH,
        drop=("fnlwgt", "education", "native-country"),
    ),
    # A subscription is +1.  `unknown` is a level like any other; duration is kept, as in the
    # encoded file.
    "bank": Recipe("bank_full.parquet", "y", lambda outcome: outcome == "yes", _FETCH),
    "bank_dpagd": Recipe("bank_dpagd_encoded.parquet", "y", _is_one, _FETCH),
    # Every attack is +1 and `normal.` is -1: the task is to find attacks.  Swapping the labels only
    # changes the sign
    # of the coefficients, no length and no coverage.  The two constant columns are kept; they are
    # zero.
    "kdd": Recipe("kddcup99_10pct.parquet", "label", _is_attack, _FETCH),
    "br": Recipe("ipums_br_dpagd_encoded.parquet", "y", _is_one, _BY_HAND),
    # STAND-IN for IPUMS-US: the American Community Survey 2019.  Income above 50,000 is +1, among
    # the rows that have
    # an income.  PINCP_DECILE and POVPIP are functions of income; PWGTP and WGTP are survey
    # weights; PUMA is one-to-one
    # with DENSITY; INDP (263 codes) is INDP_CAT in finer detail.  `N` (not applicable) is a level
    # of a categorical
    # column; in NOC (own children) and NPF (persons in the family) it counts as 0; EDU is used as a
    # number, 1 to 12.
    "us": Recipe(
        file="acs2019_national_nist.parquet",
        outcome="PINCP",
        positive=_above_50k,
        remedy=_BY_HAND,
        keep=lambda outcome: outcome != "N",
        drop=("PINCP_DECILE", "POVPIP", "PWGTP", "WGTP", "PUMA", "INDP"),
        categories=("SEX", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "DEYE", "DEAR"),
        numbers=("NOC", "NPF", "EDU"),
    ),
}


def load(
    name: str,
    folder: str | Path,
    *,
    n: int | None = None,
    d: int | None = None,
    order: Order = "paper",
    seed: int = 0,
) -> tuple[Array, Array, list[str]]:
    """Rows (n, d + 1) of norm at most 1 up to rounding, labels in {-1, +1}, and the column names,
    ``constant`` last.

    ``name`` is a key of ``RECIPES``.  ``d`` counts features before the constant.  ``n`` rows are
    drawn without replacement by ``seed``; the same seed gives nested samples.
    """
    if name not in RECIPES:
        raise ValueError(f"unknown data set {name!r}: use one of {', '.join(RECIPES)}")
    if d is not None and d < 1:
        raise ValueError("d counts features: ask for at least 1")
    if order not in ("paper", "select-first"):
        raise ValueError(f"unknown order {order!r}: use 'paper' or 'select-first'")
    recipe = RECIPES[name]
    table = _read(recipe, Path(folder))
    rows = _chosen_rows(len(table), n, seed, name)
    names, X = _bounded(_columns(table.drop(columns=recipe.outcome), recipe), len(table), d, order)
    y = np.where(recipe.positive(table[recipe.outcome]).to_numpy(dtype=bool), 1.0, -1.0)
    return X[rows], y[rows], [*names, CONSTANT]


def _read(recipe: Recipe, folder: Path) -> pd.DataFrame:
    """The table of a recipe without the dropped columns and rows."""
    path = folder / recipe.file
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {recipe.remedy}")
    table = pd.read_parquet(path)
    if recipe.keep is not None:
        table = table[recipe.keep(table[recipe.outcome])]
    return table.drop(columns=list(recipe.drop))


def _chosen_rows(total: int, n: int | None, seed: int, name: str) -> Array | slice:
    """The first n of a seeded permutation of the rows, or all rows in their order."""
    if n is None:
        return slice(None)
    if not 1 <= n <= total:
        raise ValueError(f"{name} has {total} rows: ask for n between 1 and {total}")
    return np.random.default_rng(seed).permutation(total)[:n]


def _columns(table: pd.DataFrame, recipe: Recipe) -> Iterator[Column]:
    """The numeric columns, then one 0/1 column per level, made one at a time so that wide tables
    stay small.
    """
    coded = [
        column
        for column in table.columns
        if column not in recipe.numbers
        and (column in recipe.categories or not pd.api.types.is_numeric_dtype(table[column]))
    ]
    for column in table.columns.difference(coded, sort=False):
        values = table[column]
        if column in recipe.numbers:
            values = pd.to_numeric(values, errors="coerce").fillna(0.0)
        yield str(column), values.to_numpy(dtype=float)
    for attribute in coded:
        codes, levels = pd.factorize(table[attribute], sort=True)
        for code, level in enumerate(levels):
            yield f"{attribute}={level}", (codes == code).astype(float)


def _bounded(
    columns: Iterator[Column], rows: int, d: int | None, order: Order
) -> tuple[list[str], Array]:
    """Scale, normalise, select, append the ones and normalise again; the two orders differ in where
    they stop.
    """
    names: list[str] = []
    kept: list[Array] = []
    squares = np.zeros(rows)
    for name, raw in islice(columns, d if order == "select-first" else None):
        largest = np.abs(raw).max(initial=0.0)
        column = raw / largest if largest > 0 else raw
        squares += column**2
        if d is None or len(names) < d:
            names.append(name)
            kept.append(column)
    if d is not None and len(names) < d:
        raise ValueError(f"the table has {len(names)} features: ask for d of at most {len(names)}")
    X = np.column_stack([*kept, np.ones(rows)])
    X[:, :-1] /= np.maximum(1.0, np.sqrt(squares))[:, None]
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return names, X
