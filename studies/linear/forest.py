"""One fit next to the one without noise: ``python -m studies.linear.forest``.

log(1 + visits) of RAND HIE at (1, 1e-6) in a private geometry, with a fixed seed, and ordinary least squares of the
same columns; so neither is private.
"""

from pathlib import Path

import numpy as np

import dpinfer as dp
from dpinfer.data.source import Rows
from dpinfer.fit.linear.run import Linear
from dpinfer.fit.recipe import Subject, fit
from dpinfer.maths.sums import Block
from dpinfer.simulate.stated import stated
from studies.linear.cell import Z95, Cell
from studies.linear.designs import load


def main(path: Path = Path("docs/figures/linear_forest.png")) -> None:
    """Fit both, and draw."""
    cell = Cell("rand_log", "approx")
    data = load(cell.design, Path())
    rows = Rows(Block(data.rows, data.labels))
    result = fit(Linear(data.design, cell.plan), rows, Subject(unit="one person-year"), insecure_seed=2024)
    plain = stated(result, data.design, Block(data.x, data.labels))
    half = Z95 * plain.std_error
    interval = np.column_stack([plain.ordinary - half, plain.ordinary + half])
    figure = dp.plot.forest(result, reference=(plain.ordinary, interval))
    for text in figure.legends[0].get_texts():
        if text.get_text() == "reference":
            text.set_text("ordinary least squares, no noise")
    figure.savefig(path)


if __name__ == "__main__":
    main()
