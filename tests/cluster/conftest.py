"""Two real clusters, each of two worker processes.  Where an engine is not installed its tests are
not collected.
"""

import os
import re
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from dpinfer.errors import installed

if installed("dask", "distributed", "pyspark"):
    import psutil  # comes with them
else:
    collect_ignore_glob = ["test_*.py"]


def java_home():
    """Where a Java is that Spark runs on, or nothing."""
    asked = [os.environ["JAVA_HOME"]] if os.environ.get("JAVA_HOME") else []
    for home in [*asked, *sorted(map(str, Path("/usr/lib/jvm").glob("*")))]:
        try:
            told = subprocess.run(
                [f"{home}/bin/java", "-version"], capture_output=True, text=True, check=True
            ).stderr
        except (OSError, subprocess.CalledProcessError):
            continue
        if re.search(r'version "(17|21)\.', told):
            return home
    return None


@pytest.fixture(scope="session")
def client():
    """Workers with a nanny, which starts another where one dies."""
    from distributed import Client, LocalCluster  # noqa: PLC0415

    at = {"host": "127.0.0.1", "dashboard_address": None, "memory_limit": 0}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **at) as cluster,
        Client(cluster) as made,
    ):
        yield made


@pytest.fixture(scope="session")
def spark():
    """Two executors with a core and a gigabyte each."""
    home = java_home()
    if home is None:
        pytest.skip(
            "Spark needs Java 17 or 21, and there is none here: install one, or set JAVA_HOME"
        )
    os.environ |= {
        "JAVA_HOME": home,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    from pyspark.sql import SparkSession  # noqa: PLC0415

    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.files.openCostInBytes": "0",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("dpinfer")
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


class OnDask:
    name = "dask"

    def __init__(self, client):
        self.client = client

    def spread(self, frame, parts=5):
        """A pandas table on the cluster."""
        import dask.dataframe as dd  # noqa: PLC0415

        return dd.from_pandas(frame, npartitions=parts)

    def through(self, frame, act):
        """A table whose partitions pass a function of nothing on their way."""
        return frame.map_partitions(lambda part: (act(), part)[1], meta=frame._meta)

    def parts(self, native):
        """The number of partitions."""
        return native.npartitions

    def workers(self):
        """The processes of the workers."""
        return list(self.client.run(os.getpid).values())

    def held(self):
        """How many partitions the cluster keeps."""
        return self.client.run_on_scheduler(
            lambda dask_scheduler: sum(
                task.state == "memory" for task in dask_scheduler.tasks.values()
            )
        )


class OnSpark:
    name = "spark"

    def __init__(self, session, folder):
        self.session, self._folders = session, (folder / str(j) for j in count())

    def spread(self, frame, parts=5):
        folder = next(self._folders)
        folder.mkdir()
        for j in range(parts):
            frame.iloc[j::parts].to_parquet(folder / f"{j}.parquet", index=False)
        return self.session.read.parquet(str(folder))

    def through(self, frame, act):
        return frame.mapInArrow(lambda batches: (act(), batches)[1], frame.schema)

    def parts(self, native):
        return native.rdd.getNumPartitions()

    def workers(self):
        """The executors: what Python's processes on them are started by."""

        def above(batches):
            list(batches)
            time.sleep(0.5)  # so that no executor takes all partitions
            parent = next(one.pid for one in psutil.Process().parents() if "java" in one.name())
            yield pa.record_batch({"pid": [parent]})

        found = self.session.range(8).repartition(4).mapInArrow(above, "pid long").collect()
        return sorted({row.pid for row in found})

    def held(self):
        return self.session.sparkContext._jsc.getPersistentRDDs().size()


@pytest.fixture(scope="session", params=["dask", "spark"])
def engine(request):
    if request.param == "dask":
        return OnDask(request.getfixturevalue("client"))
    return request.getfixturevalue("on_spark")


@pytest.fixture(scope="session")
def on_spark(spark, tmp_path_factory):
    return OnSpark(spark, tmp_path_factory.mktemp("spread"))
