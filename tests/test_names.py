import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import dpinfer as dp

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
    assert dp.__version__ == version("dpinfer")
    assert f"## {dp.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_import_is_fast():
    """Less than 0.3 s on top of numpy and scipy, and nothing heavy is loaded."""
    program = (
        "import time, sys, numpy, scipy.special, scipy.linalg; t = time.perf_counter(); import dpinfer; "
        "print(time.perf_counter() - t, [m for m in ('sklearn', 'pandas', 'formulaic') if m in sys.modules])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(5)
    ]
    assert all(run.stdout.endswith("[]\n") for run in runs)
    assert min(float(run.stdout.split()[0]) for run in runs) < 0.3
