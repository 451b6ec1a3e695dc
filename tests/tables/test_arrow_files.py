import contextlib
import gzip
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.formula import parse
from dpinfer.tables.arrow_files import Files
from helpers.searches import examples
from helpers.tables import SCHEMA, table

TABLE = table(600)
FORMULA = "ill ~ log(age)*sex + C(k) + smoker + h"
SECRET = 48151623
COLUMNS = [SCHEMA[name] for name in ("ill", "age", "sex", "k", "smoker", "visits")]


def model(**options):
    return dp.LogisticRegression(
        FORMULA, schema=SCHEMA, **{"budget": dp.NoPrivacy(), "penalty": 0.0} | options
    )


def _stream(path):
    batch = pa.Table.from_pandas(TABLE)
    with pa.ipc.new_stream(path, batch.schema) as file:
        file.write(batch)


WRITERS = {
    "t.csv": lambda path: TABLE.to_csv(path, index=False),
    "T.CSV": lambda path: TABLE.to_csv(
        path, index=False, encoding="utf-8-sig", lineterminator="\r\n"
    ),
    "t.csv.gz": lambda path: TABLE.to_csv(path, index=False),
    "t.parquet": lambda path: TABLE.astype({"sex": "category"}).to_parquet(path),
    "t.feather": TABLE.to_feather,
    "t.arrow": lambda path: pyarrow.feather.write_feather(TABLE, path, compression="uncompressed"),
    "t.ipc": _stream,
}


STUDY = {"schema": SCHEMA, "formula": FORMULA, "budget": dp.ZCDP(1.0), "replicates": 8}


@pytest.fixture(scope="module")
def study_of_the_table():
    return dp.simulate.coverage(TABLE, **STUDY).to_json()


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_fit_of_the_table(name, tmp_path, study_of_the_table):
    path = tmp_path / name
    WRITERS[name](path)
    ours, theirs = model().fit(path), model().fit(TABLE)
    assert np.array_equal(ours.result_.estimate, theirs.result_.estimate)
    assert np.array_equal(ours.predict(str(path)), theirs.predict(TABLE))
    assert dp.simulate.coverage(path, **STUDY).to_json() == study_of_the_table


@pytest.mark.parametrize("name", WRITERS)
def test_the_shape_of_a_file_is_that_of_what_is_read(name, tmp_path):
    WRITERS[name](tmp_path / name)
    files = Files(tmp_path / name)
    whole, blank = files.read(COLUMNS), files.blank(COLUMNS).to_native()
    assert files.count(COLUMNS) == len(whole) == 600
    assert (len(blank), blank.schema.types) == (0, whole.schema.types)
    with pytest.raises(dp.InputError, match="no column 'my column'"):
        files.blank([*COLUMNS, SCHEMA["my column"]])


def test_rows_of_an_odd_csv_file_are_counted_as_they_are_read(tmp_path):
    text = '\n\nsex,age\n"f\nm",3\n\n"a""b",4\n,\n'
    (tmp_path / "t.csv").write_text(text.lstrip(), encoding="utf-8")
    columns = [SCHEMA["age"], SCHEMA["sex"]]
    assert (
        Files(tmp_path / "t.csv").count(columns)
        == len(Files(tmp_path / "t.csv").read(columns))
        == 5
    )


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather"])
def test_only_the_columns_of_the_formula_are_read(name, tmp_path):
    WRITERS[name](tmp_path / name)
    outcome, terms = parse("ill ~ age", SCHEMA)
    assert Files(tmp_path / name).read([outcome, *terms.columns]).column_names == [
        "ill",
        "age",
    ]


def test_a_cell_that_does_not_fit_is_missing(tmp_path):
    rows = [
        ("true", "20", "f", "1", "0", "3"),
        (" FALSE ", " 2.5e1 ", "m", "2.0", "1.0", "+4"),
        ("1", ".5", '"f"', "1.5", "True", "1e999"),
        ("0", f"x{SECRET}", "", "", "", ""),
        ("yes", "1,5".replace(",", ";"), "NA", "one", "2", "0x10"),
        ("", "nan", '"a,b"', "inf", "-", "1_000"),
    ]
    (tmp_path / "t.csv").write_text(
        "ill,age,sex,k,smoker,visits\n" + "\n".join(map(",".join, rows)) + "\n"
    )
    cells = Files(tmp_path / "t.csv").read(COLUMNS).to_pydict()
    assert cells["ill"] == [True, False, True, False, None, None]
    assert cells["age"] == [20.0, 25.0, 0.5, None, None, None]
    assert cells["sex"] == ["f", "m", "f", "", "NA", "a,b"]
    assert cells["k"] == [1.0, 2.0, 1.5, None, None, None]
    assert cells["smoker"] == [False, True, True, None, None, None]
    assert cells["visits"] == [3.0, 4.0, np.inf, None, None, None]


def test_a_cell_may_be_long(tmp_path):
    """Longer than what the reader's threads take at once."""
    cell = '"' + "," * 3_000_000 + '"'
    (tmp_path / "t.csv").write_text(f"ill,note,sex\n1,{cell},f\n0,{cell},m\n1,,f\n")
    assert Files(tmp_path / "t.csv").read([SCHEMA["ill"], SCHEMA["sex"]])["sex"].to_pylist() == [
        "f",
        "m",
        "f",
    ]


BROKEN = {
    "none.csv": (None, "there is no file .*none.csv': check the path"),
    "t.docx": (b"x", "must end in .csv or .parquet"),
    "noend": (b"x", "must end in .csv or .parquet"),
    "empty.csv": (b"", "no readable CSV"),
    "head.csv": (b"\xff\xfe,age\n", "has no column 'ill'"),
    "headless.csv": (
        f"1,{SECRET},f\n".encode(),
        "names none of the columns that are asked for: does it have a header?",
    ),
    "narrow.csv": (b"ill,age,sexx,k,smoker,visits\n", "has no column 'sex': did you mean 'sexx'?"),
    "twice.csv": (b"ill,age,sex,k,smoker,visits,sex\n", "more than one column 'sex': rename"),
    "fake.parquet": (str(SECRET).encode(), "no readable Parquet"),
    "fake.arrow": (str(SECRET).encode(), "no readable Arrow"),
    "fake.csv.gz": (str(SECRET).encode(), "no readable CSV"),
    "cut.csv.gz": (gzip.compress(b"ill,age,sex,k,smoker,visits\n" * 999)[:-12], "no readable CSV"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name, tmp_path):
    content, message = BROKEN[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(dp.InputError, match=message) as caught:
        Files(tmp_path / name).read(COLUMNS)
    assert str(SECRET) not in str(caught.value)
    assert str(SECRET) not in str(caught.value.__context__)
    assert "\n" not in str(caught.value)


def test_a_folder_and_odd_paths_are_no_files(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for path in ("a\0b.csv", "x" * 5000 + ".csv"):
        with pytest.raises(dp.InputError, match="there is no file"):
            Files(path).read(COLUMNS)
    with pytest.raises(dp.InputError, match=r"folder\.csv' holds no file that is read: \.csv"):
        Files(tmp_path / "folder.csv").read(COLUMNS)


def test_a_parquet_column_of_another_type_is_refused(tmp_path):
    TABLE.assign(age=str(SECRET)).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(
        dp.InputError, match=r"column 'age' must hold numbers.*String: convert it"
    ) as caught:
        model().fit(tmp_path / "t.parquet")
    assert str(SECRET) not in str(caught.value)


def test_decimals_are_numbers(tmp_path):
    decimals = pa.Table.from_pandas(TABLE.round({"age": 2}))
    at = decimals.column_names.index("age")
    decimals = decimals.set_column(
        at, "age", decimals["age"].cast(pa.decimal128(20, 2), safe=False)
    )
    pa.parquet.write_table(decimals, tmp_path / "t.parquet")
    assert np.allclose(
        model().fit(tmp_path / "t.parquet").coef_, model().fit(TABLE.round({"age": 2})).coef_
    )


cells = st.sampled_from(
    [
        b"1",
        b"0",
        b"f",
        b"",
        b",",
        b"\n",
        b"\r",
        b'"',
        b"\xff",
        b"\xc3\xa9",
        b"\0",
        b";",
        b"48151623",
    ]
)


@examples(50)
@given(st.booleans(), st.lists(cells, max_size=30).map(b"".join))
def test_any_bytes_give_a_table_or_an_input_error(tmp_path_factory, header, content):
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes((b"ill,age\n" if header else b"") + content)
    told = ""
    with warnings.catch_warnings(), contextlib.suppress(dp.InputError):
        warnings.simplefilter("error")
        try:
            found = Files(path).read(COLUMNS[:2])
            assert found.column_names == ["ill", "age"]
        except dp.InputError as fault:
            told = str(fault)
            raise
    assert str(SECRET) not in told


def test_an_object_column_is_read_cell_by_cell():
    """Booleans with a missing one are objects in pandas, and so are numbers with a word among them."""
    spoilt = TABLE.astype({"smoker": object, "age": object})
    assert np.array_equal(model().fit(spoilt).coef_, model().fit(TABLE).coef_)
    spoilt.loc[0, "smoker"] = None
    missing = model(penalty=0.01).fit(spoilt).coef_
    for cell in (None, "x", "20", 10**400, {}):
        spoilt.at[0, "age"] = cell
        assert np.array_equal(model(penalty=0.01).fit(spoilt).coef_, missing)


def test_bytes_that_are_no_text_break_their_record(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"y,a\ntrue,1\nfalse,\xff\xfe\n\xff,2\n")
    table = Files(path).read([SCHEMA_OF_BYTES["y"], SCHEMA_OF_BYTES["a"]])
    assert table["a"].to_pylist() == [1.0, None, None]
    assert table["y"].to_pylist() == [True, None, None]


def test_an_empty_line_of_a_single_column_is_a_record(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n\n2\n")
    assert Files(path).read([SCHEMA_OF_BYTES["a"]])["a"].to_pylist() == [1.0, None, 2.0]


SCHEMA_OF_BYTES = dp.Schema.parse("""
[columns.y]
type = "outcome"
levels = [false, true]
[columns.a]
type = "number"
low = 0
high = 9
""")
