"""What is looked at before a fit is booked, what travels, what is told of an error, what stays
behind.
"""

import time
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.schema.formula import parse
from dpinfer.tables.cluster import Encode, Task
from dpinfer.tables.table import read
from helpers import people, tables

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines warn of much

VALUE = "71836.25"


def logistic(schema=tables.SCHEMA, formula="ill ~ age + sex", **options):
    return dp.LogisticRegression(formula, schema=schema, **({"budget": dp.ZCDP(0.5)} | options))


def by_person(units=""):
    return logistic(people.schema(people.AVERAGE + units), "y ~ a + b")


def refused(model, native, ledger):
    with pytest.raises(dp.DpinferError) as caught:
        model.set_params(ledger=ledger).fit(native)
    return str(caught.value)


def test_types_come_first(engine):
    """By the types of the cluster's table, with the words for one in memory; nothing is booked, no
    task runs.
    """
    frame, ledger = tables.table(60), dp.Ledger(dp.ZCDP(1), unit="one person")
    frame["age"] = frame["age"].astype(str)
    native = engine.through(engine.spread(frame), lambda: 1 / 0)
    message = refused(logistic(), native, ledger)
    assert message.startswith("column 'age' must hold numbers, as the schema says, not String")
    assert message == refused(logistic(), frame, ledger)
    assert refused(logistic(), frame[["sex"]], ledger) == refused(
        logistic(), engine.spread(frame[["sex"]]), ledger
    )
    assert not ledger.entries()


def test_nothing_but_numbers_before_booking(engine, tmp_path):
    """The ledger refuses: rows were counted for it, ids where the number of units is public and not
    declared.
    """
    marks = tmp_path / "marks"
    marks.mkdir()
    folder = str(marks)

    def mark():
        Path(folder, str(time.time_ns())).touch()

    native = engine.through(engine.spread(people.table(rows=300, persons=100)), mark)
    poor = dp.Ledger(dp.ZCDP(1e-9), unit="one person", neighbours="replace-unit")
    refused(by_person("units = 100\n"), native, poor)
    refused(by_person().set_params(neighbours="add-remove"), native, poor)
    assert not list(marks.iterdir())
    assert "next question may cost up to" in refused(by_person(), native, poor)
    assert list(marks.iterdir())


def told(error):
    """All that Python shows of an error, and what it holds on to."""
    assert error.__context__ is None
    assert error.__cause__ is None
    return "".join(traceback.format_exception(error))


def source_of(engine, **columns):
    frame = tables.table(200).assign(**columns)
    response, terms = parse("ill ~ age + sex", tables.SCHEMA)
    return read(engine.spread(frame), response, terms, "margin")[1].opened()


def test_errors_of_a_task(engine):
    """Its text, its notes and the frames that it went through stay where they are."""

    def of_block(block):
        if len(block) > 0:
            raise ValueError(f"could not convert {float(VALUE) * np.ceil(block.rows[0, 0])}")
        return np.zeros(1)

    fault = "the cluster could not read or sum its rows \\(ValueError; "
    with source_of(engine) as source, pytest.raises(dp.InputError, match=fault) as caught:
        source.total(of_block)
    assert VALUE not in told(caught.value)


def test_errors_before_a_task(engine):
    """A table whose own steps fail, in the count of its rows or after it."""
    frame = tables.table(200)
    if engine.name == "dask":

        def to_number(part):
            return part.assign(age=part["age"].astype(float))

        texts = frame.assign(age=pd.Series(["30", VALUE + "x"] * 100, dtype=object))
        native = engine.spread(texts).map_partitions(to_number, meta=engine.spread(frame)._meta)
    else:
        texts = frame.assign(age=pd.Series(["30", VALUE + "x"] * 100))
        native = engine.spread(texts).selectExpr("ill", "sex", "cast(age as double) as age")
    ledger = dp.Ledger(dp.ZCDP(1), unit="one person")
    with pytest.raises(dp.InputError, match="the cluster could not read or sum its rows") as caught:
        logistic(ledger=ledger).fit(native)
    assert VALUE not in told(caught.value)


def test_a_partition_of_another_type(client):
    """The types of the whole table are believed; the message does not say what was found."""
    import dask.dataframe as dd  # noqa: PLC0415

    frame = tables.table(200)
    native = dd.from_pandas(frame, npartitions=2).map_partitions(
        lambda part: part.assign(age=VALUE), meta=dd.from_pandas(frame, npartitions=1)._meta
    )
    with pytest.raises(
        dp.InputError, match="could not read or sum its rows \\(InputError; "
    ) as caught:
        logistic().fit(native)
    assert VALUE not in told(caught.value)
    assert "String" not in str(caught.value)


def test_released_numbers_that_are_wrong_fail_here(engine):
    """What is no fault of the rows keeps its own words."""
    fault = "nothing can be released"
    with source_of(engine) as source, pytest.raises(dp.PrivacyError, match=fault):
        source.total(lambda block: (_ for _ in ()).throw(dp.PrivacyError(fault)))


def test_what_travels(engine, monkeypatch):
    """Kilobytes: an encoding, d² numbers; no table, no source, no row."""
    import cloudpickle  # noqa: PLC0415

    sizes = []

    def weighed(kind):
        real = kind.__init__

        def recorded(self, *given):
            real(self, *given)
            sizes.append(len(cloudpickle.dumps(self)))

        return recorded

    native = engine.spread(people.table(rows=20_000, persons=5000), parts=2)
    with monkeypatch.context() as patch:
        for kind in (Encode, Task):
            patch.setattr(kind, "__init__", weighed(kind))
        by_person().fit(native)
        logistic(people.schema("unit = 'one visit'\n"), "y ~ a + b").fit(native)
    assert len(sizes) > 10
    assert max(sizes) < 20_000


def test_drafts_and_predictions(engine):
    """A draft needs types alone; predictions are for tables that are here."""
    frame = tables.table(50)[["age", "sex", "k", "smoker"]]
    native = engine.through(engine.spread(frame), lambda: 1 / 0)
    assert dp.Schema.draft(native) == dp.Schema.draft(frame)
    fitted = logistic(insecure_seed=1).fit(tables.table(500))
    with pytest.raises(
        dp.InputError,
        match=f"not {'dask' if engine.name == 'dask' else 'pyspark'}'s DataFrame: coll",
    ):
        fitted.predict(native)


def test_studies_want_rows_that_are_here(engine):
    frame = tables.table(100)
    with pytest.raises(dp.InputError, match="not on a cluster: collect a part of them"):
        dp.simulate.coverage(logistic(), engine.spread(frame), replicates=2)
