"""One fit next to the one without noise: ``python -m studies.linear.forest``.

log(1 + visits) of RAND HIE at (1, 1e-6), with a fixed seed, and ordinary least squares; so neither
is private.
"""

from pathlib import Path

import numpy as np

import dpinfer as dp
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.recipe import Subject, fit
from dpinfer.mechanisms.sums import Block
from dpinfer.rows.source import Rows
from studies.asked import Z95
from studies.linear.cell import Cell, whole


def main(path: Path = Path("docs/figures/linear_forest.png")) -> None:
    """Fit both, and draw."""
    cell = Cell("rand_log", "1,1e-6")
    at = whole(cell.design, Path())
    data = at.data
    rows = Rows(Block(data.rows, data.labels))
    result = fit(
        LinearSteps(data.design, cell.plan),
        rows,
        Subject(unit="one person-year"),
        insecure_seed=2024,
    )
    assert result.geometry is not None
    plain = at.asked.in_units(data.design, result.geometry.centre)
    half = Z95 * plain.std_error
    interval = np.column_stack([plain.coef - half, plain.coef + half])
    figure = dp.plot.forest(result, reference=(plain.coef, interval))
    for text in figure.legends[0].get_texts():
        if text.get_text() == "reference":
            text.set_text("ordinary least squares, no noise")
    figure.savefig(path)


if __name__ == "__main__":
    main()
