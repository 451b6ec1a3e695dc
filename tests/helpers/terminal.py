"""The command line for tests: the real executable, or the same program in this process, which is
quicker.
"""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from dpinfer.cli import main

PROGRAM = Path(sys.executable).parent / "dpinfer"
SECRET = 48151623
SCHEMA = """
[columns.y]
type = "outcome"
levels = ["0", "NA"]
[columns.a]
type = "number"
low = 0
high = 10
[columns.b]
type = "category"
levels = ["p", "q", "None"]
"""


def run(*arguments, **options):
    """The executable."""
    environment = {**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "100"} | options.pop(
        "env", {}
    )
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
        **options,
    )


def run_here(*arguments, cwd=None, encoding="utf-8"):
    """The same in this process, on a terminal of an encoding."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2)
    )
    with (
        mock.patch.object(sys, "argv", ["dpinfer", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.chdir(cwd or os.getcwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as stopped,
    ):
        main()
    shown = [stream.buffer.getvalue().decode(encoding) for stream in (out, err)]
    return subprocess.CompletedProcess([], stopped.value.code, *shown)


def succeeds(done):
    assert done.returncode == 0, done.stderr
    assert beside_notes(done) == []
    return done.stdout


def beside_notes(done):
    """The lines on stderr that are not notes on what is asked for."""
    return [line for line in done.stderr.splitlines() if not line.startswith("note: ")]


def fails(done, *words, code=2):
    """One line with a remedy, no value of the data, nothing on stdout."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert beside_notes(done) == done.stderr.splitlines()[-1:]
    assert beside_notes(done)[0].startswith("error: ")
    assert "Traceback" not in done.stderr
    assert str(SECRET) not in done.stderr
    for word in words:
        assert word in done.stderr


def table(n=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.uniform(0, 10, n).round(3), "b": rng.choice(["p", "q", "None"], n)}
    )
    frame["y"] = np.where(rng.random(n) < frame["a"] / 10, "NA", "0")
    return frame


def files_in(folder, n=400):
    """A table as CSV and Parquet, and its schema."""
    table(n).to_csv(folder / "table.csv", index=False)
    table(n).to_parquet(folder / "table.parquet")
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return folder
