"""`dpinfer plan`: how long will the intervals be, and which budget makes them short enough?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dpinfer as dp
from dpinfer.asking import spec
from dpinfer.asking.from_spec import Data, budget_of, data_of, model_of, schema_of
from dpinfer.cli.screen import AsJson, Quiet, Screen, Verbose
from dpinfer.errors import InputError
from dpinfer.privacy.budget import Budget

if TYPE_CHECKING:
    from dpinfer.estimators.models import LinearModel

app = typer.Typer(add_completion=False, rich_markup_mode="rich")
_HELP = """\
SPEC is that of `dpinfer fit`.  The fit runs on records made of public facts: of the schema, with what it says is \
typical of its columns, and of the number of records.  No record is read and nothing is booked.  The spec needs no \
\\[data] path where --records is given.

\b
  dpinfer plan study.toml --records 20000 --budgets 0.5,1,2,4
  dpinfer plan study.toml --half-width 0.05 --coefficient age
"""


@app.command(help=_HELP)
def plan(  # noqa: PLR0913  (the public face)
    source: Annotated[
        Path, typer.Argument(help="The TOML file that describes the fit.", metavar="SPEC")
    ],
    *,
    records: Annotated[
        int | None, typer.Option(help="How many; by default those of the table.")
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(help="Several epsilons (rhos, if the spec has rho): 0.5,1,2.", metavar="LIST"),
    ] = None,
    half_width: Annotated[
        float | None, typer.Option(help="Find the least budget that gives this: 0.05.")
    ] = None,
    coefficient: Annotated[
        str | None, typer.Option(help="Whose; by default the middle one.")
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="A public table that is like the data.", metavar="TABLE")
    ] = None,
    replicates: Annotated[int, typer.Option(help="Simulated fits.")] = 20,
    seed: Annotated[int, typer.Option(help="Of all that is simulated.")] = 0,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Tell how long the intervals of a fit will be.

    Guarantee [plans_read_no_value]: without a look-alike table, what is told depends on the spec
    and the schema, and on names, types and number of rows of the table; with ids, of units; with
    --records on no table at all.
    """
    given = spec.of_file(source)
    console = Screen(quiet, as_json)
    asked = _budgets(given, budgets)
    data = _data(given, need_table=records is None and like is None)
    model = model_of(given, data)
    if records is None and like is None:
        records = _number(model, data)
    if half_width is not None and asked is None and isinstance(model.budget, Budget):
        asked = [model.budget]
    with console.work("simulating"):
        forecast = dp.simulate.forecast(
            model,
            records=records,
            budgets=asked,
            half_width=half_width,
            coefficient=coefficient,
            like=like,
            replicates=replicates,
            seed=seed,
            level=given["output"].get("level", 0.95),
        )
    if half_width is not None:
        whose = coefficient or "the coefficient in the middle"
        least, most = forecast.off
        words = f"On records as assumed, ±{half_width:g} for {whose} takes {forecast.budgets[0]}."
        if least != most:
            words += f" Real intervals were {least:g} to {most:g} times as long."
        console.show(words, "")
    console.show(forecast.summary(full=verbose))
    if as_json:
        print(forecast.to_json())


def _budgets(given: spec.Spec, listed: str | None) -> list[Budget] | None:
    """Return the budgets of the option, of the kind of the spec's own; without one in the spec, ε
    at δ = 1e-6.
    """
    if listed is None:
        return None
    try:
        amounts = [float(amount) for amount in listed.replace(",", " ").split()]
    except ValueError:
        amounts = []
    if not amounts:
        raise InputError("--budgets takes numbers with commas between them, such as 0.5,1,2")
    if not {"epsilon", "rho", "none"} & set(given["privacy"]):
        given["privacy"].update(
            {"epsilon": amounts[0], "delta": given["privacy"].get("delta", 1e-6)}
        )
    kind = budget_of(given)
    if isinstance(kind, dp.ZCDP):
        return [dp.ZCDP(amount) for amount in amounts]
    if isinstance(kind, dp.ApproxDP):
        return [dp.ApproxDP(amount, kind.delta) for amount in amounts]
    return [dp.PureDP(amount) for amount in amounts]


def _data(given: spec.Spec, *, need_table: bool) -> Data:
    """Read schema and formula, and the table only if its rows are to be counted."""
    keys = given["data"]
    if need_table or "dataset" in keys:
        if not {"path", "dataset"} & set(keys):
            raise InputError(
                "how many records will there be?  give --records, or [data] path to count them"
            )
        return data_of(given)
    for key in ("schema", "formula"):
        if key not in keys:
            raise InputError(f"[data] needs {key}: a forecast is made of a schema and a formula")
    return Data(None, schema_of(given), keys["formula"])


def _number(model: "LinearModel", data: Data) -> int:
    """Count the rows of the table, or its units, as the dry run of a fit does."""
    if model.number_is_private:
        raise InputError(
            "adjacency = 'add-remove' keeps the number of records private: guess one with --records"
        )
    return int(model.read(data.table)[1].n)
