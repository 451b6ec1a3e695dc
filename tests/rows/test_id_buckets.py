"""Temporary files of units: they are there as long as somebody reads them."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
import pyarrow as pa
from dpinfer.rows.id_buckets import Parts

parts = Parts([pa.table({"id": [1, 2, 3], "x": [4.0, 5.0, 6.0]})], "id", 2)
child = os.fork()
if not child:
    if sys.argv[1] == "drop":
        del parts
    sys.exit(0)
os.waitpid(child, 0)
print(sum(len(parts.read(path)) for path in parts.paths), parts.paths[0].parent)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("how", ["exit", "drop"])
def test_a_fork_that_ends_leaves_the_files_of_its_parent(tmp_path, how):
    """Finalisers run at the end of every process, and of every copy of one."""
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, how],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows, folder = told.split()
    assert rows == "3"
    assert not os.path.exists(folder)  # gone with the process that made it
