"""How long property tests search: the same examples each time, and ``SEARCH=10`` in the environment
tries ten times as many (`make search`).
"""

import os

from hypothesis import settings

TIMES = int(os.environ.get("SEARCH", "1"))


def examples(number, **options):
    """The settings of a test with this many examples; a busy machine does not fail it."""
    return settings(max_examples=number * TIMES, deadline=None, **options)
