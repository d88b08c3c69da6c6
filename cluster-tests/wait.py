"""Waiting for a condition: the only place of the suite that lets time pass by itself."""

import time

POLL_S = 0.02


class WaitTimeout(AssertionError):
    """The condition did not come true in time."""


def wait_until(condition, timeout, what):
    """Call condition() until it gives something true, and return that.

    An AssertionError or OSError raised by the condition counts as "not yet"; the last one is told
    when the time is over, so that a failure says what was still wrong.
    """
    deadline = time.monotonic() + timeout
    last_error = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last_error = None
        except (AssertionError, OSError) as error:
            last_error = error
        if time.monotonic() >= deadline:
            detail = f" (last: {last_error!r})" if last_error is not None else ""
            raise WaitTimeout(f"not within {timeout} s: {what}{detail}")
        time.sleep(POLL_S)
