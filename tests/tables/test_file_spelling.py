"""How a file of a table is spelt: blanks, other separators than the comma, files of other programs."""

import pytest

import dpinfer as dp
from dpinfer.schema.columns import Ids
from dpinfer.tables.arrow_files import Files


def csv(folder, sign=","):
    path = folder / "table.csv"
    lines = [(" place", "y ", "id"), ("home", " yes", " 7 "), ("work ", "no", "7")]
    path.write_text("".join(sign.join(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_names_and_ids_of_a_csv_file_have_no_blanks_around_them(tmp_path):
    path = csv(tmp_path)
    assert [name for name, _ in Files(path).types()] == ["place", "y", "id"]
    assert set(Files(path).read([Ids("id")])["id"].to_pylist()) == {"7"}


@pytest.mark.parametrize(("sign", "words"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_sign_than_the_comma(sign, words, tmp_path):
    with pytest.raises(
        dp.InputError, match=f"separated by {words}.*write it with commas.*decimal points"
    ):
        Files(csv(tmp_path, sign)).types()


def test_a_name_may_hold_a_semicolon(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b,c,d\n1,2,3\n", encoding="utf-8")
    assert [name for name, _ in Files(path).types()] == ["a;b", "c", "d"]


@pytest.mark.parametrize(
    ("name", "words"),
    {
        "t.dta": r"a Stata file.*read_stata\('t.dta'\).to_parquet\('t.parquet'\)",
        "t.SAV": r"an SPSS file.*read_spss",
        "t.xlsx": "an Excel file.*save the sheet as CSV",
        "t.sas7bdat": r"a SAS file.*read_sas",
        "t.rds": "an R file.*write_parquet",
        "t.tsv": "separated by tabs",
        "t.docx": "must end in .csv or .parquet",
    }.items(),
)
def test_files_of_other_programs(name, words, tmp_path):
    with pytest.raises(dp.InputError, match=words):
        Files(tmp_path / name).types()
