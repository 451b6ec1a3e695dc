"""TOML: in which line a key stands, in any layout."""

import tomllib

import pytest

import dpinfer as dp
from dpinfer.schema.toml import dump, header


def test_lines_are_found_in_any_layout():
    text = 'title = """\nhigh = 1\n[columns.a]\n"""\n[columns]\na = {type = "number", low = 0}\nb.type = [\n"x",\n]\n'
    with pytest.raises(dp.InputError, match=r"^line 6: column 'a': high is missing"):
        dp.Schema.parse(text)
    with pytest.raises(dp.InputError, match=r"^line 7: column 'b': there is no type"):
        dp.Schema.parse(text.replace("low = 0", "low = 0, high = 1"))


def test_lines_are_found_in_a_long_schema():
    levels = "".join(f'"level {j}",\n' for j in range(1000))
    with pytest.raises(dp.InputError, match=r"^line 1005: column 'a': reference 'x' is not"):
        dp.Schema.parse(f'[columns.a]\ntype = "category"\nlevels = [\n{levels}]\nreference = "x"\n')


def test_tables_may_be_in_any_order():
    text = (
        '[columns.a]\ntype = "boolean"\n[weights]\ncolumn = "w"\n[columns.b]\ntypical = {f = 2}\n'
    )
    with pytest.raises(dp.InputError, match=r"^line 3: most is missing"):
        dp.Schema.parse(text)
    text = text.replace('"w"', '"w"\nmost = 5')
    with pytest.raises(dp.InputError, match=r"^line 6: column 'b': type is missing"):
        dp.Schema.parse(text)
    with pytest.raises(dp.InputError, match=r"^line 8: column 'b': typical has a share of 'f'"):
        dp.Schema.parse(text.replace("[columns.b]", '[columns.b]\r\ntype = "boolean"'))


@pytest.mark.parametrize(
    "name", ["age", "how are you?", 'a "quoted" name', "a.b", "größe", "\x7f\n"]
)
def test_what_is_written_reads_back(name):
    document = {
        "title": 'a "title"\\',
        "unit": {"name": "one person", "column": "id", "rows": 2},
        "columns": {
            name: {"levels": ["a", "\x7f\t"], "low": 1e-7, "typical": {"a b": 0.5, "c": 1}}
        },
    }
    text = dump(document, {name: "learned from the table"})
    assert tomllib.loads(text) == document
    assert f"# learned from the table\n{header(name)}\n" in text
