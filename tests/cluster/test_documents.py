"""The examples of docs/scale.md, on the clusters of these tests."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines warn of much

TEXT = (Path(__file__).parents[2] / "docs/scale.md").read_text(encoding="utf-8")


def test_examples(engine, capsys):
    (code,) = re.findall(
        rf"^## {engine.name}\n.*?```py\n(.*?)```", TEXT, re.DOTALL | re.MULTILINE | re.IGNORECASE
    )
    exec(compile(code, "document", "exec"), {})
    assert "Differentially private regression" in capsys.readouterr().out
