"""Build sdist and wheel, and try the wheel in an empty environment, without extras and with them.

python tools/dist.py [FOLDER]

The wheel is built from the sdist, so that the sdist is complete.  The environment gets the versions of
requirements.lock, which pip mostly has in its cache.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dpinfer", "dpinfer_desk")
DEMO = "dpinfer/_datasets/rand_hie.csv.gz"
"""The one file of data in a wheel."""
_DATA = (".csv", ".gz", ".parquet", ".json", ".db", ".ipynb", ".png")
_LOCKED = re.compile(r"^([\w.-]+)(?:\[.*?\])?==(\S+)(?: *;([^\\\n]*))?", re.MULTILINE)

# What a user of the library alone does; it ends where an extra is needed, with the remedy.
BARE = """
import dpinfer as dp
from dpinfer.errors import MissingError
demo = dp.datasets.rand_hie()
ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6), unit=demo.schema.unit.name)
model = dp.LogisticRegression(demo.formula, schema=demo.schema, budget=dp.ApproxDP(1.0, 1e-6), ledger=ledger)
result = model.fit(demo.table).result_
assert len(result.names) == 10 and result.privacy.in_ledger, result
assert dp.FitResult.from_json(result.to_json()).names == result.names
assert ledger.second_accountant().ok
try:
    dp.report.disclosure(result)
except MissingError as missing:
    assert "dpinfer[report]" in str(missing), missing
else:
    raise SystemExit("jinja2 is there without the extra")
print(dp.__version__)
"""


def foreign(names: Iterable[str]) -> list[str]:
    """Return the files of a wheel that should not be in it: of tests, of data, or outside of the packages."""
    found = []
    for name in names:
        top, *rest = name.split("/")
        if top.endswith(".dist-info"):
            continue
        beside = top not in PACKAGES or "tests" in rest or rest[-1:] == ["conftest.py"]
        if beside or (name.endswith(_DATA) and name != DEMO):
            found.append(name)
    return found


def constraints(lock: str) -> str:
    """Return the versions of a lock file, without the hashes, which a constraint may not have."""
    lines = []
    for name, version, marker in _LOCKED.findall(lock):
        lines.append(f"{name}=={version} ; {marker.strip()}" if marker else f"{name}=={version}")
    return "\n".join(lines) + "\n"


def build(folder: Path) -> tuple[Path, Path]:
    """Return a new sdist, and the wheel that is built from it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("dpinfer-*.tar.gz"), *folder.glob("dpinfer-*.whl")):
        old.unlink()
    _run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("dpinfer-*.tar.gz")
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        (source,) = Path(scratch).iterdir()
        _run(
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "-d",
            folder,
            cwd=source,
        )
    (wheel,) = folder.glob("dpinfer-*.whl")
    return sdist, wheel


def check(wheel: Path) -> None:
    """Refuse a wheel that holds more than the packages, their licence and the demo."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    more = foreign(names)
    if more:
        sys.exit(f"the wheel holds what it should not: {', '.join(more)}")
    for needed in (DEMO, "dpinfer/py.typed"):
        if needed not in names:
            sys.exit(f"the wheel lacks {needed}")


def install_and_try(wheel: Path, scratch: Path) -> None:
    """Install the wheel in an empty environment and use it, then with the extras."""
    environment = scratch / "env"
    _run(sys.executable, "-m", "venv", environment)
    python = environment / "bin/python"
    locked = scratch / "constraints.txt"
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked.write_text(constraints(lock), encoding="utf-8")
    # compiling every module of every package takes longer than all the rest
    install = (
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    )
    _run(*install, "--constraint", locked, wheel)
    _run(python, "-W", "error::DeprecationWarning:dpinfer", "-c", BARE, cwd=scratch)
    _run(*install, "--constraint", locked, f"{wheel}[cli,serve]")
    command = environment / "bin/dpinfer"
    _run(command, "demo", "--out", "demo", cwd=scratch)
    released = "demo/release/result.json"
    ledger = "demo/ledger.db"
    _run(command, "report", released, "--registry", "--disclosure", "--ledger", ledger, cwd=scratch)
    _run(command, "budget", "verify", ledger, released, "--second-accountant", cwd=scratch)
    _run(command, "serve", "--help", cwd=scratch)


def _run(*command: object, cwd: Path | None = None) -> None:
    """Run a program without this environment's paths; show what it said if it failed."""
    settings = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=settings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))[:200]}\n{done.stdout}{done.stderr}")


def main() -> None:
    """Build, check and try."""
    folder = (Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist").resolve()
    sdist, wheel = build(folder)
    check(wheel)
    with tempfile.TemporaryDirectory() as scratch:
        install_and_try(wheel, Path(scratch))
    print(
        f"{sdist}\n{wheel}\nThe wheel works in an empty environment, without extras and with them."
    )


if __name__ == "__main__":
    main()
