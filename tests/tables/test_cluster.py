"""What a worker does with a partition, and what is told of an error, without an engine."""

import traceback
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.recipe import fit
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import moment_and_score, sum_error
from dpinfer.rows.encoded import Encoding, Mapped, OutcomesOnly
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.tables.cluster import Encode, Fault, Kept, Partitions, Task, added, answered, mute
from dpinfer.tables.memory import FormulaReader
from dpinfer.tables.table import read
from helpers import claims, lengths, people, tables


class Here(Partitions):
    """Tables of this process, as an engine would hand them to workers."""

    def __init__(self, parts, reader, n):
        super().__init__(reader, n, parts[0][:0])
        self.parts, self.released = parts, False

    def sums(self, task):
        return [task(self.encode([part])) for part in self.parts]

    def release(self):
        self.released = True


def reader(formula="ill ~ age + sex", schema=tables.SCHEMA, kind="margin"):
    response, terms = parse(formula, schema)
    return FormulaReader(
        response, terms, Encoding(Design.of_formula(response, terms, kind, schema.unit), kind)
    )


def test_rows_without_a_place_have_none_after_a_change():
    frame, seen = tables.table(50), []

    def looked_at(block):
        seen.append(block.fixed)
        return np.zeros(1)

    source = Here([frame[:20], frame[20:]], reader(), 50)
    for changed in (
        source,
        OutcomesOnly(source),
        Mapped(source, np.eye(source.dim), Adjacency.REPLACE),
    ):
        changed.total(looked_at)
    assert len(seen) == 9  # with the empty part that is looked at first
    assert not any(seen)


@pytest.mark.parametrize("rows", [49, 51])
def test_a_table_with_other_rows_in_a_later_pass_is_refused(rows):
    """As one that an engine makes anew may have: a record could have been counted twice."""
    frame = tables.table(51)
    source = Here([frame[:50]], reader(), 50)
    what = moment_and_score(Adjacency.REPLACE).of_block
    source.total(what)
    source.total(what)
    source.parts = [frame[:rows]]
    with pytest.raises(dp.InputError, match="could not read or sum its rows"):
        source.total(what)


def test_partitions_add_up():
    """Of any size, the empty one included, and none at all."""
    frame, what = tables.table(5000), moment_and_score(Adjacency.REPLACE).of_block
    whole = read(frame, *parse("ill ~ age + sex", tables.SCHEMA), "margin")[1].read()
    parts = [frame[:1], frame[1:1], frame[1:4000], frame[4000:]]
    source = Here(parts, reader(), 5000)
    assert (source.n, source.dim) == (whole.n, whole.dim)
    assert np.abs(source.total(what) - whole.total(what)).max() <= 2 * sum_error(
        private_number=True
    )
    assert np.abs(Here(parts[:3], reader(), 4000).total(what) - whole.total(what)).max() > 1
    nothing = Here([frame[:0]], reader(), 0)
    nothing.parts = []
    assert not nothing.total(what).any()


def test_whole_units_add_up():
    frame, schema = people.table(rows=2000, persons=500), people.schema()
    whole = read(frame, *parse("y ~ a + b", schema), "margin", schema.unit)[1].read()
    parts = [frame[frame["person"] % 3 == j] for j in range(3)]
    what = moment_and_score(Adjacency.REPLACE_UNIT).of_block
    source = Here(parts, reader("y ~ a + b", schema), 500)
    assert np.abs(source.total(what) - whole.total(what)).max() <= 2 * sum_error(
        private_number=False, units=True
    )


@pytest.mark.parametrize(
    "head", ["", claims.UNIT, claims.EVERY], ids=["records", "persons", "every row of persons"]
)
def test_counts_in_parts_are_those_of_the_table(head):
    """With exposures that are missing, 0 or beyond their bound: the same fit."""
    frame = claims.table(4000)
    frame.loc[::97, "years"] = np.nan
    frame.loc[::89, "years"] = 0.0
    frame.loc[::83, "years"] = 10.0
    model = claims.model(claims.WITH_OFFSET, head)
    design, whole = model.read(frame)
    parts = [frame[frame["person"] % 3 == j] for j in range(3)]
    apart = Here(parts, reader(claims.WITH_OFFSET, claims.schema(head), "count"), whole.n)
    recipe = model.recipe(design, whole.n)
    here = fit(recipe, whole, insecure_seed=5)
    there = fit(recipe, apart, insecure_seed=5)
    assert np.allclose(there.estimate, here.estimate, rtol=1e-9, atol=1e-12)
    assert np.allclose(there.conf_int(), here.conf_int(), rtol=1e-9, atol=1e-12, equal_nan=True)
    assert there.status == here.status


@pytest.mark.parametrize("ids", [False, True])
def test_more_rows_than_sums_are_proved_for_are_refused(monkeypatch, ids):
    """The number of units says nothing of that of their rows, so rows are counted as they are
    summed.
    """
    lengths.usual(monkeypatch, 10)

    def source(most):
        if ids:
            frame = people.table(rows=60, persons=5)
            parts = [frame[frame["person"] % 2 == j] for j in range(2)]
            declared = lengths.at_most(people.schema(), most)
            return Here(parts, reader("y ~ a + b", declared), 5)
        frame = tables.table(60)
        declared = lengths.at_most(tables.SCHEMA, most)
        return Here([frame[:30], frame[30:]], reader(schema=declared), 60)

    shaped = source(60).total(lambda block: np.full((2, 3), float(len(block))))
    assert (shaped == 60).all()
    assert shaped.shape == (2, 3)
    with pytest.raises(dp.InputError, match=r"more than 59 records.*largest_table"):
        source(59).total(lambda block: np.zeros(1))


def test_a_partition_of_all_rows_does_not_double_the_memory():
    """Beside the table and what is kept of it a few blocks are in memory, however many rows it has."""
    encode = Encode(reader())
    frame = tables.table(200_000)
    list(encode([frame[:10]]))
    tracemalloc.start()
    try:
        kept = Kept(encode([frame]))
        size = kept.__sizeof__()
        encoding = tracemalloc.get_traced_memory()[1] - size
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        Task(moment_and_score(Adjacency.REPLACE).of_block)(kept.blocks)
        summing = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert size > 6_000_000
    assert max(encoding, summing) < size / 4


def test_guarantee_workers_tell_no_value():
    """Not the text of an error, not its frames, not what it was raised from."""
    secret = "71836.25"

    def of_block(block):
        if len(block):
            raise ValueError(f"cannot convert {secret}") from KeyError(secret)
        return np.zeros(1)

    found = Task(of_block)(Encode(reader())([tables.table(10)]))
    assert found == Fault("ValueError")
    assert vars(found) == {"name": "ValueError"}
    with pytest.raises(
        dp.InputError, match="could not read or sum its rows \\(ValueError; "
    ) as caught:
        Here([tables.table(10)], reader(), 10).total(of_block)
    assert secret not in "".join(traceback.format_exception(caught.value))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)

    def engine():
        raise RuntimeError(f"task failed: {secret}")

    with pytest.raises(dp.InputError, match="RuntimeError; ") as caught:
        answered(engine)
    assert secret not in "".join(traceback.format_exception(caught.value))
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_an_interrupt_stays_one_where_an_engine_fails_to_tidy_up():
    """Ctrl-C in the middle of a command: the engine's next command on that connection is an error."""

    def engine():
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("sent: 17")

    with pytest.raises(KeyboardInterrupt) as raised:
        answered(engine)
    assert raised.value.__context__ is None
    assert raised.value.args == ()


def test_a_fault_is_no_number():
    with pytest.raises(dp.InputError, match="KeyError"):
        added([1, Fault("KeyError"), 2], int.__add__, 0)
    assert added([1, 2], int.__add__, 0) == 3


def test_one_thread_on_workers():
    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2, "blas"):
        if threads() != {2}:
            pytest.skip("no library of linear algebra with two threads here")
        assert mute(threads) == {1}
        assert threads() == {2}


def test_freed_memory_stays_while_a_worker_works(monkeypatch):
    """Only where the environment has it given back at once, and also after an error."""
    asked = []

    class Library:
        def __init__(self, _):
            pass

        mallopt = staticmethod(lambda *given: asked.append(given))

    monkeypatch.setattr("ctypes.CDLL", Library)
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    assert mute(lambda: 1) == 1
    assert not asked
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    assert mute(lambda: 1 / 0) == Fault("ZeroDivisionError")
    assert asked == [(-1, 2**25), (-3, 2**25), (-1, 65536), (-3, 2**17)]


def test_no_row_has_a_place_on_a_cluster():
    """A product of matrices rounds a row by its place: there it is made row by row, also where one
    is replaced.
    """
    rng = np.random.default_rng(0)
    frame = tables.table(300)
    frame["age"] = rng.uniform(18, 100, 300)
    of = reader("ill ~ age + w + sex + h + k + visits + smoker")
    ordered = read(frame, of.response, of.terms, "margin")[1].read()
    matrix = rng.standard_normal((ordered.dim, ordered.dim)) * 3
    risk, moved = Risk.penalised(dp.Logistic(), 0.01, 300), []
    for source in (ordered, Here([frame], of, 300)):
        blocks = []
        source.total(lambda block, blocks=blocks: blocks.append(block) or np.zeros(1))
        (block,) = filter(len, blocks)
        for act in (
            lambda b: b.mapped(matrix, Adjacency.REPLACE).rows,
            lambda b: risk._z(matrix[0], b),
        ):
            pairs = [(act(block[k:]), act(block)[k:]) for k in (1, 2, 3, 5, 7, 291, 299)]
            moved.append(any(not np.array_equal(one, other) for one, other in pairs))
    assert moved[2:] == [False, False]
    assert any(moved[:2])


def test_what_a_cluster_holds_is_let_go():
    """After a fit and after an error."""
    made = []

    model = dp.LogisticRegression(
        "ill ~ age + sex", schema=tables.SCHEMA, budget=dp.ZCDP(0.5), insecure_seed=1
    )
    design, pending = model.read(tables.table(500))

    def source():
        made.append(Here([tables.table(500)], reader(), 500))
        return made[-1]

    pending = type(pending)(500, source)
    result = fit(model.recipe(design, 500), pending, insecure_seed=1)
    assert np.allclose(result.estimate, model.fit(tables.table(500)).result_.estimate, rtol=1e-9)
    with pytest.raises(RuntimeError), pending.opened():
        raise RuntimeError
    assert [one.released for one in made] == [True, True]


def test_too_many_records_are_refused_before_booking(monkeypatch):
    ledger = dp.Ledger(dp.ZCDP(1), unit="one person")
    model = dp.LogisticRegression(
        "ill ~ age", schema=tables.SCHEMA, budget=dp.ZCDP(0.5), ledger=ledger
    )
    monkeypatch.setattr("dpinfer.schema.unit.MAX_RECORDS", 49)
    with pytest.raises(dp.InputError, match="more than 49 records"):
        model.fit(pd.DataFrame(tables.table(50)))
    assert not ledger.entries()
