"""Property tests draw the same examples each time, and a busy machine does not fail them."""

from hypothesis import settings

from searches import TIMES

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=30 * TIMES)
settings.load_profile("repeatable")
