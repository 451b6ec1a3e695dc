"""Time and memory of fits and descriptions from files, beside plain decoding: a process for each, in which
both run in turn; of fits and their decoding the faster of two runs, of descriptions the fastest of five.

    python -m benchmarks.files FOLDER [--sizes 3000000x20 5000000x90] [--work fit describe] [--data DATA] [--out FILE]

Writes Parquet files of random numbers into FOLDER (kept for the next run) and
benchmarks/results/files.json.  With the folder of the studies' data it also describes the tables adult and bank,
whose rows are drawn again and again until there are three million.  Where a machine is busy with other work,
processor time is the one to read.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from studies.describe import designs

RESULTS = Path("benchmarks/results/files.json")
GROUP = 2**20
DRAWN = 3_000_000
REAL = ("adult", "bank")
CHILD = """
import json, resource, sys, time
import pyarrow.parquet as pq
import dpinfer as dp
from dpinfer.description import describing
from dpinfer.rows import encoded
from dpinfer.rows.source import Blocks
path, schema, work = sys.argv[1], dp.Schema.read(sys.argv[2]), sys.argv[3]
formula = "y ~ " + " + ".join(name for name in schema.columns if name != "y")
budget = dp.ApproxDP(1.0, 1e-6)
passes = [0]
def count(owner, name):
    act = getattr(owner, name)
    def counted(*arguments):
        passes[0] += 1
        return act(*arguments)
    setattr(owner, name, counted)
count(Blocks, "total")
count(encoded, "gathered")
count(describing, "summarize")
def fit():
    passes[0] = 0
    began, used = time.perf_counter(), time.process_time()
    if work == "fit":
        dp.LogisticRegression(formula, schema=schema, budget=budget).fit(path)
    else:
        dp.describe(path, schema, budget)
    return time.perf_counter() - began, time.process_time() - used
def decode():
    began, used = time.perf_counter(), time.process_time()
    for _ in pq.ParquetFile(path, pre_buffer=False, buffer_size=2**18).iter_batches(2**15):
        pass
    return time.perf_counter() - began, time.process_time() - used
first = fit()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
taken, decoding = first, decode()
for _ in range(1 if work == "fit" else 4):
    taken = min(taken, fit())
    decoding = min(decoding, decode())
print(json.dumps({"seconds": taken[0], "processor seconds": taken[1], "first": first[0], "megabytes": memory,
                  "passes": passes[0], "decoding": decoding[0], "processor seconds of decoding": decoding[1]}))
"""


def write(path: Path, n: int, d: int) -> None:
    """Random numbers and labels, in row groups of a million, and their schema."""
    text = "unit = 'one record'\n[columns.y]\ntype = 'outcome'\nlevels = ['no', 'yes']\n"
    text += "".join(f"[columns.x{j}]\ntype = 'number'\nlow = -1\nhigh = 1\n" for j in range(d))
    path.with_suffix(".toml").write_text(text, encoding="utf-8")
    if path.exists():
        return
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, n, GROUP):
        m = min(GROUP, n - start)
        X = rng.uniform(-1, 1, (m, d))
        y = np.where(rng.random(m) < 1 / (1 + np.exp(-X[:, :5].sum(axis=1))), "yes", "no")
        table = pa.table({f"x{j}": X[:, j] for j in range(d)} | {"y": pa.array(y)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP)
    assert writer is not None
    writer.close()


def draw(path: Path, name: str, data: Path) -> int:
    """Rows of a table of the study of descriptions, drawn with replacement, and its schema; how many columns it
    has.
    """
    design = designs.data(name, data)
    design.schema.write(path.with_suffix(".toml"))
    if not path.exists():
        rows = np.random.default_rng(0).integers(0, len(design.table), DRAWN)
        table = pa.Table.from_pandas(design.table, preserve_index=False)
        pq.write_table(table.take(pa.array(rows)), path, row_group_size=GROUP)
    return len(design.table.columns)


def measured(work: str, path: Path, n: int, d: int) -> dict[str, Any]:
    """One fit or description, and one decoding, in a process of its own."""
    command = [sys.executable, "-c", CHILD, str(path), str(path.with_suffix(".toml")), work]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ratio = found["seconds"] / found["passes"] / found["decoding"]
    of_work = found["processor seconds"] / found["passes"]
    return {
        "work": work,
        "table": path.stem,
        "n": n,
        "d": d,
        **found,
        "time of all over decoding": found["seconds"] / found["decoding"],
        "time of a pass over decoding": ratio,
        "processor time of a pass over decoding": of_work / found["processor seconds of decoding"],
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", nargs="+", default=["500000x20", "3000000x20", "5000000x90"])
    parser.add_argument("--work", nargs="+", default=["fit", "describe"])
    parser.add_argument("--data", type=Path, help="folder of the studies' data")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for size in options.sizes:
        n, d = map(int, size.split("x"))
        path = options.folder / f"{size}.parquet"
        write(path, n, d)
        for work in options.work:
            rows.append(measured(work, path, n, d))
            print(json.dumps(rows[-1]), flush=True)
    for name in REAL if options.data else ():
        path = options.folder / f"{name}.parquet"
        d = draw(path, name, options.data)
        row = measured("describe", path, DRAWN, d)
        # a new process begins with the memory of this one, which has drawn the table
        del row["megabytes"]
        rows.append(row)
        print(json.dumps(row), flush=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
