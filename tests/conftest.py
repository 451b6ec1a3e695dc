"""Property tests draw the same examples each time, and a busy machine does not fail them; files of
tests are in memory where there is room.
"""

import gc
import os
import shutil
from pathlib import Path

from hypothesis import settings

from helpers.searches import TIMES

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=30 * TIMES)
settings.load_profile("repeatable")

# Ledgers and desks wait for the disk with every entry, and nothing here outlives the machine.
MEMORY = Path("/dev/shm")
ROOM = 4 * 10**9
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection():
    """Thousands of tests are made and none is garbage: to look for it takes two fifths of the time."""
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
