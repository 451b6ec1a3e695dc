"""The left side of a formula: what is explained, and how it is read."""

from dataclasses import dataclass, replace

from dpinfer.data.columns import Column, Level, Number, Outcome
from dpinfer.data.expressions import Expression
from dpinfer.errors import InputError


@dataclass(frozen=True)
class Response:
    """What a formula explains: an outcome with two levels, or a public function of numeric columns with its range."""

    read_as: Outcome | Expression

    @property
    def name(self) -> str:
        """As the formula writes it."""
        return self.read_as.name if isinstance(self.read_as, Outcome) else self.read_as.text

    @property
    def levels(self) -> tuple[Level, ...]:
        """The two levels; empty for a number."""
        return self.read_as.levels if isinstance(self.read_as, Outcome) else ()

    @property
    def number(self) -> Expression | None:
        """The function of columns; None for two levels."""
        return self.read_as if isinstance(self.read_as, Expression) else None

    @property
    def unit(self) -> str:
        """Of a number that is a column itself; a transform has none."""
        column = self.number.column if self.number else None
        return column.unit if column else ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that are needed, each once."""
        if isinstance(self.read_as, Outcome):
            return (self.read_as,)
        return tuple({column.name: column for column in self.read_as.columns}.values())


def explained(column: Column) -> Number:
    """A column of the schema as a number on the left of ~.

    It keeps its bounds and loses its substitute: a row whose outcome is missing counts as the zero row.
    """
    if isinstance(column, Outcome):
        if column.low is None or column.high is None:
            raise InputError(
                f"{column.name!r} is an outcome with levels, and only a number can be transformed: write its plain "
                "name, or give it low and high in the schema"
            )
        return Number(column.name, column.low, column.high, unit=column.unit)
    if isinstance(column, Number) and column.kind != "boolean":
        return replace(column, missing=None)
    kind = "boolean" if isinstance(column, Number) else "category"
    raise InputError(
        f"{column.name!r} stands on the left of ~, but its type in the schema is {kind!r}: give it type = "
        '"outcome" and two levels for a classifier, or type = "integer" or "number" with low and high for a regression'
    )
