"""Time of a fit on Dask and on Spark, with one worker process and with two, next to the same fit in
this process.

    .venv-cluster/bin/python benchmarks/cluster.py [--records 2000000] [--columns 10]

Spark needs JAVA_HOME where the default Java is neither 17 nor 21.  Writes
benchmarks/results/cluster.json.
"""

import argparse
import json
import os
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


def measured(model: dp.LogisticRegression, native: Any, times: int = 4) -> dict[str, float]:
    """The shortest of some fits, of which the first warms the workers up, and the passes over the
    rows that it took.

    ``load`` is what else the machine did before: where it is not far below the number of cores,
    times are too long.
    """
    found = []
    load = os.getloadavg()[0]
    for _ in range(times):
        done: list[float] = []
        began = time.perf_counter()
        with workers.progress(lambda _, part, done=done: done.append(part)):  # type: ignore[misc]
            model.fit(native)
        found.append(time.perf_counter() - began)
    passes = done.count(1.0)
    return {
        "seconds": min(found),
        "passes": passes,
        "seconds a pass": min(found) / passes,
        "load": load,
    }


@contextmanager
def dask(workers: int, folder: str) -> Iterator[Callable[[], Any]]:
    """Workers with one thread each."""
    import dask.dataframe as dd  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    at = {"host": "127.0.0.1", "dashboard_address": None, "memory_limit": 0}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, **at) as cluster,
        Client(cluster),
    ):
        yield lambda: dd.read_parquet(folder).persist()


@contextmanager
def spark(workers: int, folder: str) -> Iterator[Callable[[], Any]]:
    """Executors with one core each."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master(f"local-cluster[{workers},1,2048]").config(
        "spark.ui.enabled", "false"
    )
    builder = builder.config("spark.ui.showConsoleProgress", "false").config(
        "spark.log.level", "OFF"
    )
    session = (
        builder.config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "2g")
        .getOrCreate()
    )
    yield lambda: session.read.parquet(folder).repartition(FILES).cache()
    session.stop()


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=10)
    options = parser.parse_args()
    report: dict[str, Any] = vars(options) | {"partitions": FILES, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        schema = write(Path(folder), options.records, options.columns)
        formula = "y ~ " + " + ".join(f"x{k}" for k in range(options.columns))
        model = dp.LogisticRegression(formula, schema=schema, budget=dp.ZCDP(0.5), insecure_seed=1)
        report["this process"] = measured(model, pd.read_parquet(folder))
        estimate = model.result_.estimate
        for engine in (dask, spark):
            for workers in (1, 2):
                with engine(workers, folder) as table:
                    found = measured(model, table())
                report[f"{engine.__name__}, {workers}"] = found | {
                    "difference": float(np.abs(model.result_.estimate - estimate).max())
                }
                print(engine.__name__, workers, found, flush=True)
            one, two = (report[f"{engine.__name__}, {workers}"]["seconds"] for workers in (1, 2))
            report[f"{engine.__name__}, one worker over two"] = one / two
    print(json.dumps(report, indent=1))
    RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
