"""Real processes for tests: forks of this one, so that nothing is imported twice."""

import os
import traceback
import warnings


def forked(work):
    """Start a child that does the work and exits with 0, or 1 if it raised; returns its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def in_a_child(work):
    """Whether the work was done without an error."""
    _, status = os.waitpid(forked(work), 0)
    return status == 0
