"""Forecasts of the price of a moment release, and of what each term adds to it, from public facts alone."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpinfer.adjacency import Adjacency
from dpinfer.errors import InputError, one_of_two
from dpinfer.fit.column_scaling import clippable_columns, scaled_columns
from dpinfer.inference.moment_geometry import MAX_PRICE
from dpinfer.moment_release.moment_plan import MomentPlan
from dpinfer.privacy.budget import Budget, require_promise
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse_features
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import ModelTerms

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TermCost:
    """A term of the features: how many columns it has, and the price of a release without it."""

    term: str
    columns: int
    price_without: float


@dataclass(frozen=True)
class MomentForecast:
    """The forecast of a moment release.

    Attributes
    ----------
    columns : int
        The number of released columns, without the intercept.
    records : int
        The number of records.
    price : float
        The privacy noise of any slope, as a multiple of its sampling variance.
    effective : float
        The number of records without noise whose intervals are as long.
    length : float
        The length of an interval over that without noise, sqrt(1 + price).
    terms : tuple of TermCost
        What each term adds, the dearest first.
    """

    columns: int
    records: int
    price: float
    effective: float
    length: float
    terms: tuple[TermCost, ...]

    @property
    def worthwhile(self) -> bool:
        """Whether a release is made at this price; above it every answer would drown in noise."""
        return self.price <= MAX_PRICE

    def to_frame(self) -> "pd.DataFrame":
        """Return the terms as a data frame: columns, and the price without each.

        Returns
        -------
        DataFrame
            One row per term, the dearest first.
        """
        import pandas as pd  # noqa: PLC0415  (only who asks for a frame needs it)

        rows = [(one.term, one.columns, one.price_without) for one in self.terms]
        return pd.DataFrame(rows, columns=["term", "columns", "price_without"]).set_index("term")

    def __str__(self) -> str:
        lines = [
            f"{self.columns} columns of {self.records:,} records: price {self.price:.2f}.",
            f"Intervals will be about {self.length:.2f} times as long as without noise, as if from "
            f"{self.effective:,.0f} records.",
        ]
        if not self.worthwhile:
            lines.append(
                f"No release is made above a price of {MAX_PRICE:g}: declare fewer columns."
            )
        dearest = ", ".join(f"{one.term} ({one.price_without:.2f})" for one in self.terms[:3])
        lines.append(f"Price without a term, the dearest first: {dearest}.")
        return "\n".join(lines)


def plan_moments(
    schema: Schema | str | Path,
    columns: str,
    n: int,
    budget: Budget,
    *,
    adjacency: str | None = None,
    neighbours: str | None = None,
) -> MomentForecast:
    """Forecast the price of a moment release; no data are involved.

    Parameters
    ----------
    schema : Schema or path
        What is public about the table.
    columns : str
        The features, as for `release_moments`.
    n : int
        The number of records or, with ids, of units.
    budget : ZCDP or ApproxDP
        What the release may cost.
    adjacency, neighbours : str, optional
        Which tables are neighbours: ``"replace"`` (the default) or ``"add-remove"``.

    Returns
    -------
    MomentForecast
        The price, what the answers are worth in records, and what each term adds.

    Notes
    -----
    For p columns the price is π = s²R⁴/(2n), s the noise sd of the second moments and R² a little more
    than p: it grows with the square of the number of columns.  Columns whose bounds reach far beyond
    their records have more noise than that.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> plan = dp.plan_moments(
    ...     data.schema, columns="mdvis + disea + health", n=20_190, budget=dp.ApproxDP(1.0, 1e-6)
    ... )
    >>> print(f"{plan.price:.2f} {plan.length:.2f}")
    0.98 1.41
    """
    require_promise(budget)
    schema = Schema.of(schema)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError("n must be the number of records, a whole number of at least 1")
    code = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
    relation = Adjacency.of(code or Adjacency.REPLACE, units=schema.unit.many)
    terms = parse_features(columns, schema)
    geometry = _plan(terms, schema, budget, relation).geometry(float(n))
    costs = []
    for k, block in enumerate(terms.blocks):
        others = ModelTerms((*terms.blocks[:k], *terms.blocks[k + 1 :]))
        price = (
            _plan(others, schema, budget, relation).geometry(float(n)).price
            if others.blocks
            else 0.0
        )
        name = ":".join(part.text for part in block.parts)
        costs.append(TermCost(name, len(block.names), price))
    return MomentForecast(
        columns=geometry.features - 1,
        records=n,
        price=geometry.price,
        effective=geometry.effective,
        length=math.sqrt(1 + geometry.price),
        terms=tuple(sorted(costs, key=lambda one: one.price_without)),
    )


def _plan(terms: ModelTerms, schema: Schema, budget: Budget, relation: Adjacency) -> MomentPlan:
    design = Design.of_terms(terms)
    return MomentPlan(
        budget,  # type: ignore[arg-type]  # it refuses others
        relation,
        len(design.names),
        len(scaled_columns(design)),
        int(clippable_columns(design).sum()),
        schema.unit.largest,
    )
