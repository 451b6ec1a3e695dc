"""TOML: in which line a key stands, in any layout."""

import tomllib

import pytest

import dpinfer as dp


def test_lines_are_found_in_any_layout():
    text = 'title = """\nhigh = 1\n[columns.a]\n"""\n[columns]\na = {type = "number", low = 0}\nb.type = [\n"x",\n]\n'
    with pytest.raises(dp.InputError, match=r"^line 6: column 'a': high is missing"):
        dp.Schema.parse(text)
    with pytest.raises(dp.InputError, match=r"^line 7: column 'b': there is no type"):
        dp.Schema.parse(text.replace("low = 0", "low = 0, high = 1"))


def test_a_long_list_is_located_without_a_parse_per_line(monkeypatch):
    texts = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: texts.append(text) or loads(text))
    levels = "".join(f'"level {j}",\n' for j in range(1000))
    with pytest.raises(dp.InputError, match=r"^line 1005: column 'a': reference 'x' is not"):
        dp.Schema.parse(f'[columns.a]\ntype = "category"\nlevels = [\n{levels}]\nreference = "x"\n')
    assert len(texts) < 10
