"""Scripts in R, in a folder with the file for R; where R or a package is missing, tests say so."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "clients/r/dpinfer.R"
R = shutil.which("Rscript")


@cache
def has(*packages):
    """Whether R and some packages are installed."""
    if R is None:
        return False
    asked = " && ".join(f"requireNamespace('{name}', quietly = TRUE)" for name in packages)
    call = [R, "--vanilla", "-e", f"quit(status = !({asked}))"]
    return subprocess.run(call, capture_output=True, check=False, timeout=300).returncode == 0


def run_r(code, folder, python=sys.executable, more=None):
    """What a script prints; any warning is an error.  ``more`` goes into its environment."""
    shutil.copy(CLIENT, folder)
    (folder / "script.R").write_text(f"options(warn = 2)\n{code}\n", encoding="utf-8")
    environment = os.environ | {"RETICULATE_PYTHON": str(python), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [R, "--vanilla", "script.R"],
        cwd=folder,
        env=environment | (more or {}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
