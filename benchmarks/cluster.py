"""Time of a fit on Dask and on Spark, with one worker process and with two, next to the same fit in
this process.

    .venv-cluster/bin/python benchmarks/cluster.py [--records 2000000] [--columns 20] [--threads 1]

Every engine has workers of one thread; ``--threads`` is the number of this process.  Of some fits
the shortest counts, of their passes after the first the middle one.  Beside the wall clock, which
other work on the machine disturbs, stands the processor time of this process and of all that it
started.  A pass of Dask has the time of its tasks on the worker that was busy longest, too: that is
what a pass would take if every worker had a core of its own.  Spark needs JAVA_HOME where the
default Java is neither 17 nor 21.  Writes benchmarks/results/cluster.json.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.rows import workers

FILES = 16
RESULTS = Path(__file__).parent / "results/cluster.json"
Passes = list[tuple[float, float, float]]
"""When each pass began and ended, and its processor time."""


def write(folder: Path, records: int, columns: int) -> dp.Schema:
    """A table in some Parquet files, and its schema."""
    rng = np.random.default_rng(0)
    for j in range(FILES):
        X = rng.uniform(-1, 1, (records // FILES, columns))
        frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(columns)])
        frame["y"] = rng.random(len(X)) < 1 / (1 + np.exp(-X[:, :3].sum(axis=1)))
        frame.to_parquet(folder / f"{j:02}.parquet", index=False)
    text = '[columns.y]\ntype = "outcome"\nlevels = [false, true]\n'
    text += "".join(
        f'[columns.x{k}]\ntype = "number"\nlow = -1\nhigh = 1\n' for k in range(columns)
    )
    return dp.Schema.parse('title = "benchmark"\nunit = "one record"\n' + text)


def processor() -> float:
    """Processor seconds of this process and of all that it started and that still runs."""
    import psutil  # noqa: PLC0415  (comes with Dask)

    this = psutil.Process()
    total = 0.0
    for one in [this, *this.children(recursive=True)]:
        try:
            spent = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
    return total


def passes_of(model: dp.LogisticRegression, native: Any) -> Passes:
    """The passes over the rows of a fit; the first reads and encodes, too."""
    began: list[tuple[float, float]] = []
    found: Passes = []

    def watch(step: str, done: float) -> None:
        if step == "reading":  # this process reads before its first pass
            return
        if done == 0:
            began.append((time.time(), processor()))
        if done == 1:
            first, spent = began[-1]
            found.append((first, time.time(), processor() - spent))

    with workers.progress(watch):
        model.fit(native)
    return found


def measured(
    model: dp.LogisticRegression,
    native: Any,
    busy: Callable[[Passes], list[float]] | None = None,
    times: int = 3,
) -> dict[str, Any]:
    """The shortest of some fits, of which the first warms the workers up, and its passes after the
    first.

    ``load`` is what else the machine did before: where it is not far below the number of cores,
    times are too long.
    """
    load = os.getloadavg()[0]
    fits = []
    for _ in range(times):
        began = time.time()
        spent = processor()
        passes = passes_of(model, native)
        fits.append((time.time() - began, passes, processor() - spent))
    seconds, passes, _ = min(fits)
    later = passes[1:]
    found = {
        "seconds": seconds,
        "processor seconds": min(spent for _, _, spent in fits),
        "passes": len(passes),
        "seconds of a later pass": statistics.median(end - start for start, end, _ in later),
        "processor seconds of a later pass": statistics.median(spent for _, _, spent in later),
        "load": load,
    }
    if busy is not None:
        found["task seconds of a later pass"] = statistics.median(busy(later))
    return found


@contextmanager
def dask(number: int, folder: str) -> Iterator[tuple[Any, Callable[[Passes], list[float]]]]:
    """Workers with one thread each, and the time of tasks in a pass on the one that is busy longest."""
    import dask.dataframe as dd  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    at = {"host": "127.0.0.1", "dashboard_address": None, "memory_limit": 0}
    with (
        LocalCluster(n_workers=number, threads_per_worker=1, processes=True, **at) as cluster,
        Client(cluster) as client,
    ):

        def busy(passes: Passes) -> list[float]:
            stream = client.get_task_stream(start=passes[0][0] - 1)
            found = []
            for first, last, _ in passes:
                on_worker: dict[str, float] = {}
                for task in stream:
                    for part in task["startstops"]:
                        if part["action"] == "compute" and first <= part["stop"] <= last:
                            spent = part["stop"] - part["start"]
                            on_worker[task["worker"]] = on_worker.get(task["worker"], 0.0) + spent
                found.append(max(on_worker.values()))
            return found

        client.get_task_stream()  # it begins to be recorded now
        yield dd.read_parquet(folder).persist(), busy


@contextmanager
def spark(number: int, folder: str) -> Iterator[tuple[Any, None]]:
    """Executors with one core each."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession  # noqa: PLC0415

    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "2g",
    }
    builder = SparkSession.builder.master(f"local-cluster[{number},1,2048]")
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session.read.parquet(folder).repartition(FILES).cache(), None
    session.stop()


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ["DPINFER_THREADS"] = str(options.threads)
    report: dict[str, Any] = vars(options) | {"partitions": FILES, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        schema = write(Path(folder), options.records, options.columns)
        formula = "y ~ " + " + ".join(f"x{k}" for k in range(options.columns))
        model = dp.LogisticRegression(formula, schema=schema, budget=dp.ZCDP(0.5), insecure_seed=1)
        here = measured(model, pd.read_parquet(folder))
        report["this process"] = here
        print("this process", here, flush=True)
        result = model.result_
        for engine in (dask, spark):
            for number in (1, 2):
                with engine(number, folder) as (table, busy):
                    found = measured(model, table, busy)
                moved = np.abs(model.result_.estimate - result.estimate) / result.std_error
                found |= {
                    "largest difference, in standard errors": float(np.nanmax(moved)),
                    "fit over this process": found["seconds"] / here["seconds"],
                    "pass over this process": found["seconds of a later pass"]
                    / here["seconds of a later pass"],
                    "fit over this process, processor": found["processor seconds"]
                    / here["processor seconds"],
                    "pass over this process, processor": found["processor seconds of a later pass"]
                    / here["processor seconds of a later pass"],
                }
                report[f"{engine.__name__}, {number}"] = found
                print(engine.__name__, number, found, flush=True)
        one, two = (report[f"dask, {k}"]["task seconds of a later pass"] for k in (1, 2))
        report["dask, one worker over two, in task seconds of a pass"] = one / two
    print(json.dumps(report, indent=1))
    RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
