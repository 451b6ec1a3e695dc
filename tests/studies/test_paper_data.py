"""The loaders on small tables with the documented columns, and on the real ones where DPINFER_DATA
names a folder.
"""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from studies.paper import data
from studies.paper.fetch import encode_bank

ROWS = 60
REAL = os.environ.get("DPINFER_DATA")
ADULT_LEVELS = {
    "workclass": ["Private", "State-gov"],
    "education": ["HS-grad", "Masters"],
    "marital-status": ["Divorced", "Widowed"],
    "occupation": ["Sales", "Craft-repair"],
    "relationship": ["Husband", "Wife"],
    "race": ["Black", "White"],
    "sex": ["Male", "Female"],
    "native-country": ["Japan", "Cuba"],
}
BANK_LEVELS = {
    "job": ["admin.", "student", "unknown"],
    "marital": ["single", "married", "divorced"],
    "education": ["primary", "tertiary"],
    "default": ["no", "yes"],
    "housing": ["no", "yes"],
    "loan": ["no", "yes"],
    "contact": ["cellular", "unknown"],
    "month": ["may", "jan"],
    "poutcome": ["success", "unknown"],
}


def cycle(levels: list[str]) -> list[str]:
    return [levels[row % len(levels)] for row in range(ROWS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Small tables under the documented names."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(5)
    number = lambda low, high: rng.integers(low, high, ROWS, endpoint=True)  # noqa: E731
    adult = {
        "age": number(17, 90),
        "fnlwgt": number(10_000, 900_000),
        "education-num": number(1, 16),
        "capital-gain": number(0, 99_999),
        "capital-loss": np.zeros(ROWS, dtype=int),
        "hours-per-week": number(1, 99),
    }
    adult |= {name: cycle(levels) for name, levels in ADULT_LEVELS.items()}
    pd.DataFrame(adult | {"income": cycle(["<=50K", ">50K", "<=50K"])}).to_parquet(
        folder / "adult_train_complete.parquet"
    )
    bank = {name: cycle(levels) for name, levels in BANK_LEVELS.items()}
    bank |= {
        "age": number(18, 95),
        "balance": number(-8000, 4000),
        "day": number(1, 31),
        "duration": number(0, 4000),
    }
    bank |= {"campaign": number(1, 60), "pdays": number(-1, 800), "previous": number(0, 9)}
    table = pd.DataFrame(bank | {"y": cycle(["no", "yes"])})
    table.to_parquet(folder / "bank_full.parquet")
    encode_bank(table).to_parquet(folder / "bank_dpagd_encoded.parquet")
    kdd = {
        "duration": number(0, 50),
        "protocol_type": cycle(["tcp", "udp"]),
        "num_outbound_cmds": [0] * ROWS,
    }
    pd.DataFrame(kdd | {"label": cycle(["normal.", "smurf.", "back."])}).to_parquet(
        folder / "kddcup99_10pct.parquet"
    )
    br = {"x1": number(0, 1), "x2": number(1, 2), "x3": number(10, 100), "y": number(0, 1)}
    pd.DataFrame(br).to_parquet(folder / "ipums_br_dpagd_encoded.parquet")
    us = {name: number(1, 2) for name in data.RECIPES["us"].categories}
    us |= {name: cycle(["1", "3", "N"]) for name in ("NOC", "NPF", "EDU", "MSP")}
    us |= {
        "AGEP": number(0, 95),
        "PWGTP": number(1, 99),
        "WGTP": number(1, 99),
        "PUMA": cycle(["a", "b"]),
    }
    us |= {
        "INDP": cycle(["1", "2"]),
        "POVPIP": cycle(["5", "N"]),
        "PINCP_DECILE": cycle(["1", "9"]),
    }
    pd.DataFrame(us | {"PINCP": cycle(["N", "50000.0", "50001.0", "-100.0"])}).to_parquet(
        folder / "acs2019_national_nist.parquet"
    )
    return folder


@pytest.mark.parametrize("order", ["paper", "select-first"])
@pytest.mark.parametrize("d", [None, 3])
@pytest.mark.parametrize("name", list(data.RECIPES))
def test_rows_are_in_the_unit_ball_and_labels_are_signs(folder, name, d, order):
    X, y, names = data.load(name, folder, d=d, order=order)
    norms = np.linalg.norm(X, axis=1)
    assert norms.max() <= 1 + 1e-12
    np.testing.assert_allclose(norms, 1, atol=1e-12)  # the second division always happens
    assert np.isfinite(X).all()
    assert set(y) == {-1.0, 1.0}
    assert X.shape == (len(y), len(names))
    assert names[-1] == data.CONSTANT
    assert (X[:, -1] > 0).all()
    assert d is None or X.shape[1] == d + 1


def test_the_steps_by_hand(folder):
    table = pd.read_parquet(folder / "ipums_br_dpagd_encoded.parquet")
    raw = table.drop(columns="y").to_numpy(float) / table.drop(columns="y").max().to_numpy()
    rows = raw / np.maximum(1, np.linalg.norm(raw, axis=1, keepdims=True))
    rows = np.column_stack([rows[:, :2], np.ones(ROWS)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    X, y, names = data.load("br", folder, d=2)
    np.testing.assert_allclose(X, rows, atol=1e-14)
    np.testing.assert_array_equal(y, 2 * table["y"] - 1)
    assert names == ["x1", "x2", "constant"]


def test_the_orders_differ_by_what_enters_the_first_norm(folder):
    paper, y, names = data.load("adult", folder, d=3, order="paper")
    first, y_first, names_first = data.load("adult", folder, d=3, order="select-first")
    assert names == names_first
    np.testing.assert_array_equal(y, y_first)
    # Relative to the constant, a row is divided by a norm that counts more columns under the
    # paper's order.
    shrunk = np.linalg.norm(paper[:, :-1], axis=1) / paper[:, -1]
    assert (shrunk < np.linalg.norm(first[:, :-1], axis=1) / first[:, -1]).all()
    np.testing.assert_array_equal(
        data.load("adult", folder)[0], data.load("adult", folder, order="select-first")[0]
    )


def test_adult_keeps_numbers_first_and_drops_three_columns(folder):
    names = data.load("adult", folder)[2]
    assert names[:5] == ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    assert names[5:7] == ["workclass=Private", "workclass=State-gov"]
    assert not any(name.startswith(("fnlwgt", "education=", "native-country")) for name in names)


def test_a_column_of_zeros_stays_zero(folder):
    X, _, names = data.load("adult", folder)
    assert (X[:, names.index("capital-loss")] == 0).all()


def test_a_column_with_negative_values_is_divided_by_its_largest_absolute_value(folder):
    X, _, names = data.load("bank", folder, d=2, order="select-first")
    table = pd.read_parquet(folder / "bank_full.parquet")
    age, balance = table["age"].to_numpy(), table["balance"].to_numpy()
    assert abs(balance.min()) > balance.max()
    ratio = X[:, names.index("balance")] / X[:, names.index("age")]  # the row norms cancel
    np.testing.assert_allclose(
        ratio, (balance / abs(balance.min())) / (age / age.max()), rtol=1e-12
    )


def test_attacks_are_positive_and_the_other_labels_as_documented(folder):
    for name, share in (("kdd", 2 / 3), ("adult", 1 / 3), ("bank", 1 / 2), ("us", 1 / 3)):
        assert np.mean(data.load(name, folder)[1] > 0) == pytest.approx(share), name


def test_the_stand_in_has_no_trace_of_income_or_weights(folder):
    X, _, names = data.load("us", folder)
    assert not any(name.split("=")[0] in ("PINCP", *data.RECIPES["us"].drop) for name in names)
    assert len(X) == ROWS * 3 // 4  # the rows without an income are left out
    assert {"NOC", "EDU", "MSP=1", "MSP=3", "MSP=N", "SEX=1", "SEX=2"} <= set(names)
    np.testing.assert_array_equal(
        X[:, names.index("NOC")] == 0, X[:, names.index("MSP=N")] > 0
    )  # N counts as 0


def test_the_sample_is_reproducible_nested_and_without_replacement(folder):
    twenty = data.load("adult", folder, n=20, seed=3)
    np.testing.assert_array_equal(twenty[0], data.load("adult", folder, n=20, seed=3)[0])
    np.testing.assert_array_equal(twenty[0], data.load("adult", folder, n=40, seed=3)[0][:20])
    assert not np.array_equal(twenty[0], data.load("adult", folder, n=20, seed=4)[0])
    every = data.load("adult", folder, n=ROWS)[0]
    whole = data.load("adult", folder)[0]
    np.testing.assert_array_equal(every[np.lexsort(every.T)], whole[np.lexsort(whole.T)])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "adlut"}, "use one of"),
        ({"order": "last"}, "use 'paper'"),
        ({"n": 61}, "60 rows: ask for n between 1 and 60"),
        ({"n": 0}, "ask for n between"),
        ({"d": 99}, "features: ask for d of at most"),
        ({"d": 0}, "at least 1"),
    ],
)
def test_mistakes_are_named(folder, wrong, message):
    with pytest.raises(ValueError, match=message):
        data.load(**({"name": "adult", "folder": folder} | wrong))


def test_a_missing_file_has_a_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"adult_train_complete.parquet is missing: run"):
        data.load("adult", tmp_path)


@pytest.mark.skipif(not REAL, reason="DPINFER_DATA names no folder with the real tables")
@pytest.mark.parametrize(
    ("name", "rows", "positives", "features"),
    [
        ("adult", 30_162, 7_508, 46),
        ("bank", 45_211, 5_289, 51),
        ("bank_dpagd", 45_211, 5_289, 32),
        ("kdd", 494_021, 396_743, 118),
        ("br", 38_000, 19_240, 52),
        ("us", 23_006, 7_457, 68),
    ],
)
def test_the_real_tables_have_the_documented_size(name, rows, positives, features):
    X, y, _ = data.load(name, REAL, d=10)
    assert (X.shape, int((y > 0).sum())) == ((rows, 11), positives)
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    with pytest.raises(ValueError, match=f"has {features} features"):
        data.load(name, REAL, d=1_000)


def read(name: str) -> list[dict]:
    return json.loads((Path(data.__file__).parent / name).read_text())


def test_every_printed_number_is_there():
    tables = read("printed.json")
    assert [len(table["sweep"]["values"]) for table in tables] == [9, 10, 8, 10, 10]
    for table in tables:
        rows = {
            (row["privacy"], row["mechanism"], row["loss"]): row["coverage"]
            for row in table["rows"]
        }
        assert len(rows) == len(table["rows"]) == 8
        assert {len(coverage) for coverage in rows.values()} == {len(table["sweep"]["values"])}
        assert all(0.946 <= number <= 0.9985 for coverage in rows.values() for number in coverage)
        assert table["data"] in data.RECIPES
        assert table["sweep"]["parameter"] not in table["fixed"]


def test_the_panels_are_thirty_six_and_complete():
    panels = read("panels.json")
    assert sorted((p["figure"], p["panel"]) for p in panels) == [
        (figure, panel) for figure in ("dp", "obj", "output", "zcdp") for panel in "abcdefghi"
    ]
    every = {"n", "d", "epsilon1", "epsilon2", "epsilon3", "c", "h"}
    for panel in panels:
        assert set(panel["fixed"]) | {panel["sweep"]["parameter"]} == every
        assert (panel["length_of"] == "first") == (panel["sweep"]["parameter"] == "d")
        assert panel["data"] in data.RECIPES
        assert len(panel["lines"]) == 2


def test_the_findings_point_to_tables_and_panels_that_exist():
    tables = {table["name"] for table in read("printed.json")}
    lines = {
        (p["figure"], p["panel"]): {tuple(line.values()) for line in p["lines"]}
        for p in read("panels.json")
    }
    document = read("findings.json")
    assert len({finding["id"] for finding in document["findings"]}) == len(document["findings"])
    for finding in document["findings"]:
        check = finding["check"]
        assert {check["kind"], check["measure"]} <= set(document["vocabulary"])
        named = [
            v
            for v in (check.get(k) for k in ("left", "right", "shorter_first", "shorter_last"))
            if v
        ]
        named += [
            line for line in check.get("lines", []) if line != "all" and isinstance(line, dict)
        ]
        for where in finding["where"]:
            assert set(where.get("tables", [])) <= tables
            for panel in where.get("panels", []):
                assert {tuple(line.values()) for line in named} <= lines[where["figure"], panel]
