"""Property tests draw the same examples each time, and a busy machine does not fail them."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
