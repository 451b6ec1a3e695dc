import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import dpinfer as dp
from terminal import run_here

ROOT = Path(__file__).parent.parent


def test_all_is_exactly_what_is_documented():
    documented = re.findall(r"^\| `dp\.(\w+)", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted(dp.__all__)
    assert len(set(documented)) == len(documented)


def test_every_public_name_is_there_and_described():
    for name in dp.__all__:
        assert getattr(dp, name).__doc__
    assert set(dir(dp)) == set(dp.__all__)
    assert not hasattr(dp, "nothing_of_the_kind")


def test_versions_agree():
    """`__version__` is the one place: the build reads it there."""
    build = [sys.executable, "-m", "hatchling", "metadata", "version"]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert built == dp.__version__ == version("dpinfer")
    assert run_here("--version").stdout == f"dpinfer {dp.__version__}\n"
    assert f"## {dp.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for name in ("pyproject.toml", "CITATION.cff"):
        assert not re.search(r"^version\b", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)


HEAVY = (
    "sklearn", "pandas", "formulaic", "matplotlib", "pyarrow", "narwhals", "typer", "rich", "jinja2", "dp_accounting",
    "flint",
)  # fmt: skip
MODULES = 85  # 67 were counted, 62 of them our own


def test_import_is_light():
    """A bounded number of modules on top of numpy and scipy, and nothing heavy among them."""
    program = (
        "import sys, numpy, scipy.special, scipy.linalg; before = len(sys.modules); import dpinfer; "
        f"print(len(sys.modules) - before, [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, loaded = done.stdout.split(maxsplit=1)
    assert loaded == "[]\n"
    assert int(count) <= MODULES
