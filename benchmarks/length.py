"""A whole fit over many made-up rows, which are never in memory or on a disk: time and memory.

    python -m benchmarks.length [--records 200000000] [--columns 10] [--passes 10] [--out FILE]

A generator makes the rows of a piece anew in every pass, from the number of the piece, as files
would be read anew.  The rows go through the encoding of a schema as those of a file do, and a
logistic regression makes its passes over them; what is missing to ``--passes`` are sums of second
moments.  Writes benchmarks/results/length.json.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import second_moment
from dpinfer.rows.encoded import Encoded, Encoding, Raw
from dpinfer.rows.source import Blocks, Pending

RESULTS = Path("benchmarks/results/length.json")
SLOPES = (1.0, -0.5, 0.25)
"""Of the first columns; the others are 0."""


def model_of(columns: int) -> dp.LogisticRegression:
    """A logistic regression on numbers between -1 and 1."""
    text = "unit = 'one record'\n[columns.y]\ntype = 'outcome'\nlevels = ['no', 'yes']\n"
    for j in range(columns):
        text += f"[columns.x{j}]\ntype = 'number'\nlow = -1\nhigh = 1\n"
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(columns))
    return dp.LogisticRegression(
        formula, schema=dp.Schema.parse(text), budget=dp.ApproxDP(1.0, 1e-6), insecure_seed=0
    )


def made_up(columns: int, number: int, rows: int) -> Raw:
    """The rows of a piece, the same in every pass."""
    rng = np.random.Generator(np.random.SFC64([2026, number]))
    values = rng.random((columns, rows), dtype=np.float32).astype(np.float64)
    values *= 2.0
    values -= 1.0
    predictor = np.asarray(SLOPES) @ values[: len(SLOPES)]
    chance = 1 / (1 + np.exp(-predictor))
    labels = np.where(rng.random(rows, dtype=np.float32) < chance, 1.0, -1.0)
    return Raw(values.T, labels)


def pieces(records: int, columns: int, size: int) -> Iterator[Callable[[], Raw]]:
    """The pieces of a pass, each made by the worker that takes it."""
    for number, start in enumerate(range(0, records, size)):
        yield partial(made_up, columns, number, min(size, records - start))


class Watch:
    """The wall clock and the processor time of every pass, as a source is asked for totals."""

    def __init__(self) -> None:
        self.passes: list[dict[str, float]] = []
        total = Blocks.total
        watch = self

        def watched(source: Any, of_block: Any, /) -> Any:
            began, used = time.perf_counter(), time.process_time()
            found = total(source, of_block)
            watch.passes.append(
                {
                    "seconds": time.perf_counter() - began,
                    "processor seconds": time.process_time() - used,
                }
            )
            print(json.dumps(watch.passes[-1]), flush=True)
            return found

        Blocks.total = watched  # type: ignore[method-assign]


def main() -> None:
    """Fit, measure, print, store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ["DPINFER_DISK"] = "0"  # rows are made anew in every pass
    model = model_of(options.columns)
    names = [f"x{j}" for j in range(options.columns)]
    blank = pd.DataFrame({name: [0.0] for name in names} | {"y": ["no"]})
    design, _ = model.read(blank)
    design = design.for_records(options.records)

    def source() -> Encoded:
        read = partial(pieces, options.records, options.columns)
        return Encoded(options.records, Encoding(design, model.kind), read, memory_limit=0.0)

    load = os.getloadavg()[0]
    watch = Watch()
    began, used = time.perf_counter(), time.process_time()
    result = model.fit_read(design, Pending(options.records, source)).result_
    fit = {"seconds": time.perf_counter() - began, "processor seconds": time.process_time() - used}
    of_fit = len(watch.passes)
    for _ in range(options.passes - of_fit):
        source().total(second_moment(Adjacency.REPLACE).of_block)
    found = {
        "records": options.records,
        "columns": options.columns,
        "passes": len(watch.passes),
        "passes of the fit": of_fit,
        "fit": fit,
        "seconds of all passes": sum(one["seconds"] for one in watch.passes),
        "processor seconds of all passes": sum(one["processor seconds"] for one in watch.passes),
        "each pass": watch.passes,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "cores": os.cpu_count(),
        "threads": os.environ.get("DPINFER_THREADS", "as many as cores"),
        "load before and after": [load, os.getloadavg()[0]],
        "estimate": np.round(result.estimate[: len(SLOPES) + 1], 6).tolist(),
        "std_error": np.round(result.std_error[: len(SLOPES) + 1], 6).tolist(),
    }
    print(json.dumps(found, indent=1))
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
