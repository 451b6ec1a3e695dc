"""Every Python block of the documents runs, and so do the commands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDE = ROOT / "docs/guide.md"  # one story: its blocks run in order, in one folder
BLOCKS = [
    pytest.param(code, id=f"{path.name}-{j}")
    for path in DOCUMENTS
    if path != GUIDE
    for j, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_code_blocks_run(code, capsys):
    exec(compile(code, "document", "exec"), {})
    assert "Traceback" not in capsys.readouterr().out


def blocks(path):
    """Language and text of each block."""
    return re.findall(r"```(\w+)\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def typed(text):
    """The commands of a console block; a backslash continues a line."""
    return re.findall(r"^\$ (.*)$", text.replace("\\\n", " "), re.MULTILINE)


def shell(command, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "error"}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), command


def follow(story, folder):
    """Files are written, code and commands are run, in the order of a document."""
    for language, text in story:
        if language == "toml":
            (folder / re.match(r"# (\S+\.toml)\n", text)[1]).write_text(text, encoding="utf-8")
        elif language == "python":
            exec(compile(text, "guide", "exec"), {})
        elif language == "console":
            for command in typed(text):
                shell(command, folder)


def test_the_guide_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(blocks(GUIDE), tmp_path)
    for folder in ("release", "release-health", "release-age", "release-90", "release-people"):
        assert (tmp_path / folder / "report.html").exists()


def test_the_commands_of_the_readme(tmp_path, monkeypatch):
    """On the guide's file; after the draft comes the guide's schema."""
    monkeypatch.chdir(tmp_path)
    follow(blocks(GUIDE)[:1], tmp_path)
    (console,) = [text for language, text in blocks(ROOT / "README.md") if language == "console"]
    draft, *others = typed(console)
    shell(draft, tmp_path)
    follow([block for block in blocks(GUIDE) if block[1].startswith("# schema.toml")], tmp_path)
    for command in others:
        shell(command, tmp_path)
    assert (tmp_path / "release/report.html").exists()


def test_the_demo_runs(capsys):
    code = (ROOT / "examples/rand_hie.py").read_text(encoding="utf-8")
    exec(compile(code, "rand_hie.py", "exec"), {})
    shown = capsys.readouterr().out
    for words in ("lncoins", "health[poor]", "one person-year", "20,190", "rho = 0.1875"):
        assert words in shown


def test_links_lead_somewhere():
    for path in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
