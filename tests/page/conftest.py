"""A desk with its page, served by the real command, and a real browser.  Where the extra, Playwright
or Chromium is not installed the tests are not collected.
"""

import pytest

from dpinfer.errors import installed
from helpers.visits import made
from helpers.windows import BROWSER, Window, chromium, opened  # noqa: F401  (a fixture)

if not installed("starlette", "uvicorn", "playwright") or BROWSER is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The desk that the stories happen at."""
    with opened(made(tmp_path_factory.mktemp("desk"))) as found:
        yield found


@pytest.fixture
def window(chromium, site):  # noqa: F811
    made_ = []

    def make(script=True, width=1280, at=site):
        made_.append(Window(chromium, at, script, width))
        return made_[-1]

    yield make
    for one in made_:
        one.context.close()
        assert one.faults == []
