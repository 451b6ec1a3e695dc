"""The question of a fit, from public facts alone: outcome, terms and references; and rows encoded
as in the fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.result.grid import Grid, GridRow
from dpinfer.schema.columns import (
    Category,
    Column,
    Derived,
    Level,
    Number,
    Outcome,
    heading,
    measured_in,
)
from dpinfer.schema.dates import day_of_text, text_of
from dpinfer.schema.follow_up import FollowUp, SurvivalResponse
from dpinfer.schema.guesses import level_text
from dpinfer.schema.terms import Expression, Factor, ModelTerms, Part, Response, TermBlock

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Question:
    """The question that a fit answers.  All of it was known before the data were read.

    ``formula`` is empty for a fit on arrays.  ``outcome`` is what is explained; with two ``levels``
    the second one is the "yes", else it is a number from ``low`` to ``high`` with a ``unit``.
    ``columns`` are the columns of the table, with their bounds or levels; ``references`` has the
    level of each factor, and the knot of each natural spline, that the others are compared with;
    ``derived`` are columns that stand in no table, in the order in which they are derived from each
    other.
    """

    formula: str
    outcome: str
    levels: tuple[Level, ...]
    low: float | None
    high: float | None
    unit: str
    columns: tuple[Column, ...]
    references: tuple[tuple[str, Level], ...] = ()
    derived: tuple[Derived, ...] = ()

    @classmethod
    def of_formula(
        cls, formula: str, response: Response, terms: ModelTerms, derived: Sequence[Derived] = ()
    ) -> "Question":
        """Make the question of a formula, parsed with its schema, whose ``derived`` columns it
        names.
        """
        low = None
        high = None
        if response.number is not None:
            low = response.number.low
            high = response.number.high
        columns = {column.name: column for column in (*response.columns, *terms.columns)}
        references: dict[str, Level] = {
            factor.text: factor.reference for block in terms.blocks for factor in block.factors
        }
        references |= {
            curve.name: curve.reference
            for block in terms.blocks
            for curve in block.curves
            if curve.reference
        }
        return cls(
            formula=formula.strip(),
            outcome=response.name,
            levels=response.levels,
            low=low,
            high=high,
            unit=response.unit,
            columns=tuple(columns.values()),
            references=tuple(references.items()),
            derived=tuple(derived),
        )

    @classmethod
    def of_arrays(
        cls, columns: Sequence[Number], levels: Sequence[Level], ends: tuple[float, float] | None
    ) -> "Question":
        """Make the question of arrays with bounds: the outcome is y."""
        low = None
        high = None
        if ends is not None:
            low, high = map(float, ends)
        return cls("", "y", tuple(levels), low, high, "", tuple(columns))

    @property
    def yes(self) -> Level | None:
        """The level whose probability is modelled; None for a number."""
        return self.levels[1] if self.levels else None

    @property
    def asked(self) -> str:
        """The formula on one line, or the columns of an array."""
        if self.formula:
            return " ".join(self.formula.split())
        return f"{self.outcome} ~ {' + '.join(column.name for column in self.columns)}"

    @property
    def outcome_label(self) -> str:
        """The outcome for people: the label and the unit of its column, or its name."""
        labels = {one.name: one.label or one.name for one in self.derived}
        labels |= {column.name: heading(column) for column in self.columns}
        return labels.get(self.outcome, self.outcome)

    def facts(self) -> dict[str, str]:
        """Return the outcome, and the references of its levels, each under its name."""
        outcome = _with_label(self.outcome, (*self.columns, *self.derived))
        if self.levels:
            kind = f" is {self.levels[1]} (against {self.levels[0]})"
        elif self.low is None:
            ends = ", ".join(self.follow_up.levels)
            kind = f", the time to an event, with a hazard in each interval {ends} {self.unit}".rstrip()
        else:
            kind = f", a number from {self.low:,.6g} to {self.high:,.6g} {self.unit}".rstrip()
        facts = {"Outcome": f"{outcome}{kind}"}
        offset = self.terms().offset if "offset" in self.formula else None
        if offset is not None:
            facts["Exposure"] = f"{offset.text}, with the coefficient 1"
        if self.references:
            facts["Compared with"] = ", ".join(
                f"{name}[{level}]" for name, level in self.references
            )
        return facts

    def sentences(self) -> list[str]:
        """Return the same facts as sentences."""
        return [f"{name}: {fact}." for name, fact in self.facts().items()]

    def bounds(self) -> list[str]:
        """Return what is public about each column, one line per column."""
        chosen = dict(self.references)
        shown = [
            column for column in self.columns if not (isinstance(column, Outcome) and column.levels)
        ]
        lines = [
            f"{_with_label(column.name, shown)}: {public_facts(column, chosen.get(column.name))}"
            for column in shown
        ]
        return lines + [
            f"{_with_label(one.name, self.derived)}: {one.text}" for one in self.derived
        ]

    def column_table(self) -> Grid:
        """Return the columns as a table: name, meaning, and bounds or levels."""
        return column_table(self.columns, self.derived, dict(self.references))

    def declared(self) -> dict[str, str]:
        """Return the bounds or levels of each column, whichever level is the reference."""
        return {column.name: public_facts(column) for column in self.columns}

    def entries(self) -> dict[str, str]:
        """Return the terms of the right side in which each column is, such as "log(age) + age:sex"."""
        terms: dict[str, list[str]] = {}
        for block in self.terms().blocks:
            term = ":".join(part.text for part in block.parts)
            for name in dict.fromkeys(column.name for column in block.columns):
                terms.setdefault(name, []).append(term)
        return {name: " + ".join(texts) for name, texts in terms.items()}

    def term_of(self) -> dict[str, str]:
        """Return for each column of the design the term that it belongs to, such as "health"."""
        return {
            name: ":".join(map(term_name, block.parts))
            for block in self.terms().blocks
            for name in block.names
        }

    def widths(self) -> dict[str, float]:
        """Return the length of the declared range of each column of the design."""
        from dpinfer.schema.design import Design  # noqa: PLC0415  (a result needs no encoding)

        terms = self.terms()
        if not terms.blocks:
            return {}
        design = Design.of_terms(replace(terms, offset=None))
        return dict(zip(design.names, (2 * design.half).tolist(), strict=True))

    def labels(self) -> dict[str, str]:
        """Return the names for people of the columns of the design, where the schema has labels or
        units.

        A number has its unit behind it, a level stands behind the label of its factor, and products
        are written with ×.
        """
        labels = {one.name: one.label for one in (*self.columns, *self.derived) if one.label}
        if not labels and not any(map(measured_in, self.columns)):
            return {}
        found: dict[str, str] = {}
        for block in self.terms().blocks:
            choices = [_labelled(block, part, labels) for part in block.parts]
            found |= dict(zip(block.names, map(" × ".join, product(*choices)), strict=True))
        return found

    def about(self) -> dict[str, tuple[str, str]]:
        """Return for each column of the design the reference levels of its factors, the reference
        knots of its curves, and its public facts.
        """
        facts: dict[str, tuple[str, str]] = {}
        for block in self.terms().blocks:
            levels = [str(factor.reference) for factor in block.factors]
            knots = [curve.reference for curve in block.curves if curve.reference]
            references = ", ".join([*levels, *knots])
            chosen = {factor.text: factor.reference for factor in block.factors}
            columns = {column.name: column for column in block.columns}
            public = "; ".join(
                f"{name}: {public_facts(column, chosen.get(name))}"
                for name, column in columns.items()
            )
            facts |= dict.fromkeys(block.names, (references, public))
        return facts

    def terms(self) -> ModelTerms:
        """Return the right side of the formula, coded as in the fit."""
        if not self.formula:
            return ModelTerms.plain(
                [column for column in self.columns if not isinstance(column, Outcome)]
            )
        return self._parsed()[1]

    @property
    def follow_up(self) -> FollowUp:
        """Return the intervals of time of a survival outcome."""
        response, _ = self._parsed()
        assert isinstance(response, SurvivalResponse)
        assert response.follow_up is not None
        return response.follow_up

    def _parsed(self) -> tuple[Response, ModelTerms]:
        from dpinfer.schema.formula import parse  # noqa: PLC0415  (a result needs no parser)
        from dpinfer.schema.schema import Schema  # noqa: PLC0415

        columns = {column.name: column for column in self.columns}
        derived = {derived.name: derived for derived in self.derived}
        return parse(self.formula, Schema(columns, derived=derived))

    def rows(self, given: Any, terms: ModelTerms | None = None) -> Array:
        """Encode the columns of the design, one row per record, from a table, a dict of columns, or
        the path of a file; or of other ``terms`` of the same columns.

        Values beyond their bounds count as the bound, as in the fit.
        """
        from dpinfer.tables.memory import read_terms  # noqa: PLC0415  (loads the readers of tables)
        from dpinfer.tables.table import table_of  # noqa: PLC0415

        terms = replace(terms or self.terms(), offset=None)
        values = read_terms(table_of(self._table(given)).opened(terms.columns), terms)
        bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
        if len(bad):
            names = [name for block in terms.blocks for name in block.names]
            raise InputError(
                "some rows cannot be encoded: a value is missing, is no number or is none of the "
                f"levels; correct or drop them (look at {', '.join(names[j] for j in bad)})"
            )
        return values

    def numbers(self, given: Any, column: Number) -> Array:
        """Return the values of one column within its bounds."""
        return self.rows(given, ModelTerms.plain([column]))[:, 0]

    def offsets(self, given: Any) -> Array | None:
        """Return the logarithm of the exposure of each row; None where the rows hold no exposure,
        or the model has none.
        """
        from dpinfer.tables.memory import read_terms  # noqa: PLC0415  (loads the readers of tables)
        from dpinfer.tables.table import table_of  # noqa: PLC0415

        offset = self.terms().offset
        if offset is None:
            return None
        table = table_of(self._table(given))
        if not {column.name for column in offset.columns} <= {name for name, _ in table.types()}:
            return None
        alone = ModelTerms((), offset=offset)
        values = read_terms(table.opened(alone.columns), alone)[:, 0]
        if not np.isfinite(values).all():
            raise InputError(
                f"some rows have no exposure above 0: correct or drop them ({offset.text})"
            )
        return values

    def frame(self, given: Any, terms: ModelTerms) -> "pd.DataFrame":
        """Return the columns of the right side as a pandas table, not yet encoded."""
        from dpinfer.tables.table import table_of  # noqa: PLC0415  (loads the readers of tables)

        opened = table_of(self._table(given)).opened(terms.columns)
        names = [column.name for column in terms.columns if column.name in opened.columns]
        return opened.select(names).to_pandas().reset_index(drop=True)

    def _table(self, given: Any) -> Any:
        """Return a dict as a table with single values repeated, an array with the names of the
        columns, and tables as they are.
        """
        if isinstance(given, Mapping):
            return _framed({str(name): value for name, value in given.items()})
        if isinstance(given, np.ndarray | list) and not self.formula:
            import pandas as pd  # noqa: PLC0415  (heavy: loaded when asked for)

            values = np.asarray(given, dtype=float)
            names = [column.name for column in self.columns]
            if values.ndim != 2 or values.shape[1] != len(names):
                raise InputError(f"rows need {len(names)} columns: {', '.join(names)}")
            return pd.DataFrame(values, columns=names)
        return given


def _labelled(block: TermBlock, part: Part, labels: Mapping[str, str]) -> list[str]:
    """Return the names for people of the columns that a part of a block has."""
    label = labels.get(part.text, part.text)
    if isinstance(part, Factor):
        levels = [level_text(level) for level in block.kept_levels(part)]
        return [
            f"{label}: {level}" if label != part.text else f"{label}[{level}]" for level in levels
        ]
    return [heading(part.column) if part.column is not None else label]


def term_name(part: Part) -> str:
    """Name all columns of a factor or of a curve together; a number has its own name."""
    if isinstance(part, Expression) and part.curve is not None:
        return part.curve.name
    return part.text


def reference_names(block: TermBlock) -> set[str]:
    """Name the combinations of levels that have no coefficient in a block, since they hold a
    reference level or the reference knot of a curve.
    """
    labels = []
    for part in block.parts:
        if isinstance(part, Expression) and part.curve is not None and part.curve.reference:
            labels.append([part.text, f"{part.curve.name}[{part.curve.reference}]"])
        elif isinstance(part, Expression):
            labels.append([part.text])
        else:
            labels.append([f"{part.text}[{level}]" for level in part.levels])
    return {":".join(names) for names in product(*labels)} - set(block.names)


def _framed(columns: Mapping[str, Any]) -> "pd.DataFrame":
    import pandas as pd  # noqa: PLC0415  (heavy: loaded when asked for)

    single = all(
        isinstance(value, str) or not hasattr(value, "__len__") for value in columns.values()
    )
    try:
        return pd.DataFrame(dict(columns), index=[0] if single and columns else None)
    except ValueError:
        raise InputError(
            "the columns of rows differ in length: give one value each, or lists of one length"
        ) from None


def public_facts(column: Column, reference: Level | None = None) -> str:
    """Write the bounds or the levels of a column."""
    if isinstance(column, Category) or (
        column.levels and (reference is not None or isinstance(column, Outcome))
    ):
        return ", ".join(
            f"{level} (reference)" if level == reference else str(level) for level in column.levels
        )
    if isinstance(column, Number) and column.kind == "boolean":
        return "False or True"
    if isinstance(column, Number) and column.kind == "date":
        return f"from {column.origin} to {text_of(day_of_text(column.origin) + column.high)}"
    return f"from {column.low:,.15g} to {column.high:,.15g} {column.unit}".rstrip()


def column_table(
    columns: Sequence[Column],
    derived: Sequence[Derived] = (),
    references: Mapping[str, Level] | None = None,
) -> Grid:
    """Return what is public about columns as a table: name, meaning, and bounds or levels."""
    chosen = references or {}
    rows = [
        (column.name, _meaning(column), public_facts(column, chosen.get(column.name)))
        for column in columns
    ]
    rows += [(one.name, _meaning(one), one.text) for one in derived]
    if not any(meaning for _, meaning, _ in rows):
        return Grid(
            ("Name", "Bounds or levels"),
            tuple(GridRow.of(name, [facts]) for name, _, facts in rows),
        )
    return Grid(
        ("Name", "Meaning", "Bounds or levels"),
        tuple(GridRow.of(name, cells) for name, *cells in rows),
    )


def _with_label(name: str, columns: Sequence[Column | Derived]) -> str:
    """Return the label of a column with its name in brackets, or its name where it has no label."""
    label = {column.name: column.label for column in columns}.get(name)
    return f"{label} ({name})" if label else name


def _meaning(column: Column | Derived) -> str:
    """Return the label and the description of a column, once where both are the same."""
    if column.label.casefold() == column.description.casefold():
        return column.label
    return ": ".join(filter(None, [column.label, column.description]))
