"""The page of the study: one table, a row per constant."""

from typing import Any

_HEAD = """# Constants: what halving and doubling them does

[Every statistical constant](constants.md) of inference and of stepped fits is halved and doubled, one at a time, in
{fits} fits of each: {replicates} bootstrap samples of each of {cells} cells, with the same samples and the same noise.
With all constants as they are, {reported} % of the coefficients are reported, and {coverage} % of their intervals
hold the coefficient of the population.

- **changed**: the share of fits whose estimates or intervals change at all;
- **length**: the mean (geometric) of the length of an interval over its length with the constant as it is, where both
  fits report the coefficient;
- **reported**: the share of coefficients that are reported;
- **coverage**: the share of reported intervals that hold the coefficient of the population.

With so few fits a coverage has a standard error of about {error} %, but as samples and noise are the same, a
difference between two rows has a smaller one. A constant that is next to the largest possible value has its distance
from that value halved and doubled. Constants of forecasts and of other targets change no fit of this study; those of
penalised fits and of learned bounds are not in it. The command is `python -m studies.constants`; the numbers are in
`studies/constants/results/constants.json`. A cell is a population, a link, a number of records and a budget:

{names}

| constant | value | times | changed | length | reported | coverage |
|---|---:|---:|---:|---:|---:|---:|
"""
_TIMES = {"half": "½", "double": "2"}


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    base = results["as it is"]
    cells = results["cells"]
    fits = len(cells) * results["replicates"]
    # as if only half of the ten or so coefficients of a fit were independent
    error = (base["coverage"] * (1 - base["coverage"]) / (5 * fits)) ** 0.5
    head = _HEAD.format(
        fits=fits,
        replicates=results["replicates"],
        cells=len(cells),
        reported=f"{100 * base['reported']:.1f}",
        coverage=f"{100 * base['coverage']:.1f}",
        error=f"{100 * error:.1f}",
        names="\n".join(f"- `{name}`" for name in cells),
    )
    rows = []
    for name, one in results["constants"].items():
        for word, times in _TIMES.items():
            found = one[word]
            if not found["changed"]:
                cells_of_row = ["0 %", "", "", ""]
            else:
                failed = f" ({found['failed']} fail)" if found["failed"] else ""
                cells_of_row = [
                    f"{100 * found['changed']:.0f} %{failed}",
                    f"{found['length']:.3f}",
                    f"{found['reported']:.3f}",
                    f"{found['coverage']:.3f}",
                ]
            rows.append(
                " | ".join([f"| `{name}`", f"{one['value']:.4g}", times, *cells_of_row]) + " |"
            )
    return head + "\n".join(rows) + "\n"
