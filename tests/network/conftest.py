"""A desk on a network, run by the real command.  Where the extra is not installed the tests are not
collected.
"""

import pytest

from dpinfer.errors import installed
from helpers.servers import Client, peopled, served
from helpers.visits import made
from helpers.windows import BROWSER, chromium  # noqa: F401  (a fixture)

if not installed("starlette", "uvicorn"):
    collect_ignore_glob = ["test_*.py"]
elif not installed("playwright") or BROWSER is None:
    collect_ignore_glob = ["test_stories.py"]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A desk that many tests visit."""
    with served(peopled(made(tmp_path_factory.mktemp("network")))) as found:
        yield found


@pytest.fixture(scope="session")
def visitors(site):
    """One visitor of each kind, signed in."""
    return {
        name: Client(site, name) for name in ("boss", "a.meier", "b.okafor", "stranger", "checker")
    }
