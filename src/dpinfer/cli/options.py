"""The options of a budget, which several commands share, and their keys in a spec."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

EpsilonOption = Annotated[float | None, typer.Option(help="Budget; alone it is pure.")]
DeltaOption = Annotated[float | None, typer.Option(help="With --epsilon: (epsilon, delta).")]
RhoOption = Annotated[float | None, typer.Option(help="Budget in zCDP, instead of --epsilon.")]
AdjacencyOption = Annotated[str | None, typer.Option(help="replace (the default) or add-remove.")]
NeighboursOption = Annotated[
    str | None, typer.Option(help="Another name of --adjacency.", hidden=True)
]
LedgerOption = Annotated[Path | None, typer.Option(help="Where the spend is booked.")]
AllowLargerDelta = Annotated[
    bool,
    typer.Option("--allow-larger-delta", help="Fit though its delta is larger than the ledger's."),
]


def privacy_section(
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    adjacency: str | None = None,
    neighbours: str | None = None,
    ledger: Path | None = None,
) -> Mapping[tuple[str, str], Any]:
    """Return the options of a budget by their section and key in a spec."""
    return {
        ("privacy", "epsilon"): epsilon,
        ("privacy", "delta"): delta,
        ("privacy", "rho"): rho,
        ("privacy", "adjacency"): adjacency,
        ("privacy", "neighbours"): neighbours,
        ("privacy", "ledger"): None if ledger is None else str(ledger),
    }
