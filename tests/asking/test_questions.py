import gc
import time

import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.asking.questions import SECTIONS, AnalystQuestion, question_of, read_question
from dpinfer.asking.spec import RULES
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from helpers.bombs import BOMBS, schema_text

WHOLE = {"formula": "y ~ x0", "rho": 0.1}


def test_guarantee_public_keys_alone():
    """Every key of a spec that is not on the list is refused, and so is a word of the library."""
    keys = {key for section in RULES.values() for key in section}
    others = sorted(keys - set(SECTIONS))
    assert {"path", "ledger", "neighbours", "mechanism", "shares", "none", "seed"} <= set(others)
    values = {"none": True, "shares": [1, 1, 1], "seed": 1, "replicates": 1, "checkpoint": True}
    for key in [*others, "insecure_seed", "like", "plan", "by", "request", "bounds"]:
        with pytest.raises(dp.InputError, match=f"a question has no key '{key}'"):
            AnalystQuestion.of({**WHOLE, key: values.get(key, "replace")})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"rho": 0.1}, "needs a formula"),
        ({"formula": "y ~ x0"}, "exactly one of epsilon, rho"),
        ({**WHOLE, "epsilon": 1.0}, "exactly one of epsilon, rho"),
        ({**WHOLE, "delta": 0.1}, "delta goes with epsilon"),
        ({**WHOLE, "rho": "0.1"}, "rho must be a number above 0"),
        ({**WHOLE, "rho": True}, "rho must be a number above 0"),
        ({**WHOLE, "rho": float("inf")}, "rho must be a number above 0"),
        ({**WHOLE, "loss": "probit"}, "loss has no 'probit'"),
        ({**WHOLE, "level": 0.1}, "level must be"),
        ({**WHOLE, "title": "a\x1b[2Jb"}, "title must be text"),
        ({**WHOLE, "title": "a" * 201}, "at most 200 characters"),
        ({**WHOLE, "formula": 3}, "formula must be text"),
    ],
)
def test_bad_questions(keys, words):
    with pytest.raises(dp.DpinferError, match=words):
        AnalystQuestion.of(keys)


def test_keys_that_go_with_another_model():
    schema = dp.Schema.parse(schema_text())
    with pytest.raises(dp.InputError, match=r"^knee belongs to the loss svm or huber"):
        AnalystQuestion.of({**WHOLE, "knee": 1.0}).model(schema, Adjacency.REPLACE)


def test_a_question_is_its_keys():
    question = AnalystQuestion.of({**WHOLE, "title": "A", "level": 0.9})
    assert AnalystQuestion.of(question.keys()) == question
    assert question.digest() == AnalystQuestion.of(WHOLE).digest()  # what is released is the same
    other = question.at(dp.ApproxDP(1.0, 1e-6))
    assert other.digest() != question.digest()
    assert (other.budget, other.at(dp.PureDP(1.0)).budget) == (
        dp.ApproxDP(1.0, 1e-6),
        dp.PureDP(1.0),
    )


def test_question_files(tmp_path):
    assert question_of('table = "v"\nformula = "y ~ x0"\nrho = 0.1')[0] == "v"
    path = tmp_path / "q.toml"
    path.write_text('formula = "y ~ x0"\nrho = 0.1', encoding="utf-8")
    assert read_question(path) == ("", AnalystQuestion.of(WHOLE))
    for content, words in [
        (b"\xff", "no UTF-8"),
        (b"a = ", "not valid TOML"),
        (b"#" * 70_000, "more than 64 kB"),
        (b"[data]\npath = 'x'", "has no key 'data'"),
        (b"table = 3", "name of a table in quotes"),
    ]:
        path.write_bytes(content)
        with pytest.raises(dp.InputError, match=words):
            read_question(path)
    with pytest.raises(dp.InputError, match="cannot be read"):
        read_question(tmp_path / "none.toml")


def test_two_hundred_bombs_are_refused_at_once():
    """In less than 50 ms of processor time each, in one of three tries: other work on the machine counts
    as time, too.
    """
    schema = dp.Schema.parse(schema_text())
    assert len(set(BOMBS)) == 200

    def refused(formula):
        start = time.process_time()
        with pytest.raises(dp.InputError):
            Design.of_terms(parse(formula, schema)[1])
        return time.process_time() - start

    gc.collect()
    gc.disable()
    try:
        slow = [bomb for bomb in BOMBS if not any(refused(bomb) < 0.05 for _ in range(3))]
    finally:
        gc.enable()
    assert slow == []


def test_a_question_of_survival_has_its_intervals_in_the_formula():
    data = dp.datasets.cohort(50)
    question = AnalystQuestion.of({"formula": data.formula, "loss": "hazard", "rho": 0.5})
    model = question.model(data.schema, Adjacency.REPLACE)
    assert isinstance(model, dp.HazardRegression)
    assert model.asked_formula == data.formula
    assert model.entry(20_000).cost.rho == pytest.approx(0.5)
    bare = AnalystQuestion.of({"formula": "Surv(years, died) ~ age", "loss": "hazard", "rho": 0.5})
    with pytest.raises(dp.InputError, match="declare cuts="):
        bare.model(data.schema, Adjacency.REPLACE).entry(20_000)
