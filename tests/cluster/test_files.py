"""The files that Spark's executors keep encoded blocks in: whole and of one fit, or not read; and
gone after it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import moment_and_score
from dpinfer.schema.formula import parse
from dpinfer.tables.table import read
from helpers import people, tables

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines warn of much

WHAT = moment_and_score(Adjacency.REPLACE).of_block


def records(native):
    return read(native, *parse("ill ~ age + w + sex", tables.SCHEMA), "margin")[1]


def persons(native):
    schema = people.schema(people.AVERAGE + "units = 300\n")
    return read(native, *parse("y ~ a + b", schema), "margin", schema.unit)[1]


KINDS = {
    "records": (records, lambda: tables.table(900)),
    "persons": (persons, lambda: people.table(rows=900, persons=300)),
}


def files(source):
    """The names of what was written; these executors are on this machine."""
    return sorted(Path(row.path) for row in source._held.select("path").collect())


def beside(paths):
    """All files of fits that lie where these do."""
    return [
        path for folder in {path.parent for path in paths} for path in folder.glob("dpinfer-*-*")
    ]


def same(found, table, opened):
    return np.allclose(found, opened(table).read().total(WHAT), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_files_are_those_of_a_fit(on_spark, kind, error):
    """This user's alone, and gone after the fit, also after an error; nobody's else are touched."""
    opened, table = KINDS[kind]
    frame = table()
    with opened(on_spark.spread(frame)).opened() as other:
        assert same(other.total(WHAT), frame, opened)

        def fit():
            with opened(on_spark.spread(frame)).opened() as source:
                assert same(source.total(WHAT), frame, opened)
                paths.extend(files(source))
                for path in paths:
                    assert path.stat().st_mode & 0o777 == 0o600
                if error:
                    raise error

        paths = []
        if error:
            with pytest.raises(error):
                fit()
        else:
            fit()
        assert len(paths) > 1
        assert not any(path.exists() for path in paths)
        assert set(beside(paths)) <= set(files(other))
        assert same(other.total(WHAT), frame, opened)
        assert other._fit
        left = files(other)
    assert not beside(left)


def truncated(path):
    os.truncate(path, path.stat().st_size - 8)


def prolonged(path):
    with path.open("ab") as file:
        file.write(bytes(8))


def unfinished(path):
    path.rename(f"{path}.part")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", [Path.unlink, truncated, prolonged, unfinished])
def test_a_file_that_is_not_as_it_was(on_spark, kind, harm):
    """It is not read: rows are encoded again, and kept by Spark itself."""
    opened, table = KINDS[kind]
    frame = table()
    with opened(on_spark.spread(frame)).opened() as source:
        assert same(source.total(WHAT), frame, opened)
        paths = files(source)
        harm(paths[0])
        for _ in range(2):
            assert same(source.total(WHAT), frame, opened)
        assert not source._fit
        assert not beside(paths)
        assert on_spark.held()


def rounds(source, before, after):
    """Let something happen before and after the first round of a pass; how many there were."""
    real = source._asked
    asked = []

    def recorded(frame, task):
        asked.append(frame)
        if len(asked) > 1:
            return real(frame, task)
        before()
        found = real(frame, task)
        after()
        return found

    source._asked = recorded
    return asked


@pytest.mark.parametrize("kind", KINDS)
def test_guarantee_each_file_once(on_spark, kind, tmp_path):
    """A task that runs elsewhere finds no file: its partition, and no other, is asked for again."""
    opened, table = KINDS[kind]
    frame = table()
    with opened(on_spark.spread(frame)).opened() as source:
        source.total(WHAT)
        hidden = files(source)[0]
        asked = rounds(
            source,
            lambda: shutil.copy2(hidden, tmp_path / "copy") and hidden.unlink(),
            lambda: shutil.move(tmp_path / "copy", hidden),
        )
        assert same(source.total(WHAT), frame, opened)
        assert len(asked) == 2
        assert asked[1].count() == 1
        assert source._fit


@pytest.mark.parametrize("kind", KINDS)
def test_executors_that_die_while_a_file_is_looked_for(on_spark, kind):
    """Files are written again, with other names: each partition is counted once all the same."""
    opened, table = KINDS[kind]
    frame = table()

    def die():
        for executor in on_spark.workers():
            os.kill(executor, signal.SIGKILL)

    with opened(on_spark.spread(frame)).opened() as source:
        source.total(WHAT)
        before = files(source)
        rounds(source, before[0].unlink, die)
        assert same(source.total(WHAT), frame, opened)
        assert source._fit
        assert not set(before) & set(files(source))
        assert same(source.total(WHAT), frame, opened)


def too_many(partitions):
    return {**partitions, max(partitions) + 1: ""}


def too_few(partitions):
    return dict(list(partitions.items())[1:])


def another(partitions):
    """As many, of which one is not there."""
    return too_few(too_many(partitions))


@pytest.mark.parametrize("expected", [too_many, too_few, another])
def test_other_partitions_than_were_written_are_an_error(on_spark, expected):
    with records(on_spark.spread(tables.table(900))).opened() as source:
        source.total(WHAT)
        source._paths = expected(source._paths)
        with pytest.raises(dp.InputError, match="could not read or sum its rows"):
            source.total(WHAT)


def test_files_may_be_forbidden(on_spark, monkeypatch):
    """`DPINFER_DISK=0`: then Spark keeps the blocks itself."""
    monkeypatch.setenv("DPINFER_DISK", "0")
    frame = tables.table(900)
    with records(on_spark.spread(frame)).opened() as source:
        assert same(source.total(WHAT), frame, records)
        assert not source._fit
        assert on_spark.held()


def test_a_file_that_could_not_be_written_again(on_spark):
    """Its row names none: it is not here, and the blocks go to Spark's own store."""
    from pyspark.sql import functions  # noqa: PLC0415

    frame = tables.table(900)
    with records(on_spark.spread(frame)).opened() as source:
        source.total(WHAT)
        first = min(source._paths)
        held = source._held
        path = functions.when(held["partition"] != first, held["path"])
        source._held = held.withColumn("path", path).persist()
        assert same(source.total(WHAT), frame, records)
        assert not source._fit
        held.unpersist()


PROGRAM = """
    import json, sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    import dpinfer as dp
    from helpers import tables
    from dpinfer.rows import workers
    folder, encrypted = Path(sys.argv[1]), sys.argv[2]
    session = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.local.dir", str(folder)).config("spark.io.encryption.enabled", encrypted)
        .config("spark.log.level", "OFF").getOrCreate()
    )
    import pyarrow as pa
    frame = tables.table(600)
    native = session.createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    def there():
        return len(list(folder.glob("**/dpinfer-*-*")))
    found = []
    fit = dp.LogisticRegression("ill ~ age + sex", schema=tables.SCHEMA, budget=dp.ZCDP(0.5), insecure_seed=1)
    here = fit.fit(frame).result_.estimate.tolist()
    with workers.progress(lambda step, done: found.append(there())):
        away = fit.fit(native).result_.estimate.tolist()
    print("found", json.dumps([max(found), there(), here, away]))
"""


@pytest.fixture
def on_disk():
    """A folder that is no memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("encrypted", [False, True])
def test_nothing_is_written_where_it_would_have_to_be_encrypted(encrypted, on_disk):
    """In a session of its own, where the driver is the executor, too."""
    program = [
        sys.executable,
        "-c",
        textwrap.dedent(PROGRAM),
        str(on_disk),
        str(encrypted).lower(),
    ]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    told = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)
    (line,) = [line for line in told.stdout.splitlines() if line.startswith("found ")]
    most, after, here, away = json.loads(line.removeprefix("found "))
    assert (most > 0) is not encrypted
    assert after == 0
    assert np.allclose(away, here, rtol=1e-9, atol=1e-12)
