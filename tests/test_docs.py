"""Every Python block of the documents runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{path.name}-{j}")
    for path in DOCUMENTS
    for j, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_code_blocks_run(code, capsys):
    exec(compile(code, "document", "exec"), {})
    assert "Traceback" not in capsys.readouterr().out


def test_the_demo_runs(capsys):
    code = (ROOT / "examples/rand_hie.py").read_text(encoding="utf-8")
    exec(compile(code, "rand_hie.py", "exec"), {})
    shown = capsys.readouterr().out
    for words in ("lncoins", "health[poor]", "one person-year", "20190", "rho = 0.1875"):
        assert words in shown


def test_links_lead_somewhere():
    for path in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
