"""Waiting for a condition: the only place of the suite that lets time pass by itself.

wait_until() waits for what will come: its bound is there against what hangs, and says nothing of
leafd. So it is 30 seconds at least, whatever a test asks for: a machine that others use is slow.
within() is for what leafd promises: its bound is the thing under test, and is kept to. A test that
promises less than some seconds is marked quiet or alone (conftest.py). Its clock is ran_s(), which
stands still while the machine does: no bound is over before leafd could keep it.
"""

import collections
import functools
import os
import tempfile
import threading
import time

from stalls import Pulse

POLL_S = 0.02
LEAST_S = 30.0

_seen = threading.local()


class WaitTimeout(AssertionError):
    """The condition did not come true in time."""


def seen(text):
    """What a condition that is being waited for was shown, such as a node's answer."""
    shown = getattr(_seen, "last", None)
    if shown is not None:
        shown.append(text)


@functools.lru_cache
def _pulse():
    return Pulse(os.environ.get("PYTEST_DEBUG_TEMPROOT")).__enter__()


def ran_s():
    """Pulse.ran_s() of this process: how long something takes at most. What it takes at least is
    measured by time.monotonic()."""
    return _pulse().ran_s()


def wait_until(condition, timeout, what):
    """Call condition() until it gives something true, and return that.

    An AssertionError or OSError raised by the condition counts as "not yet"; the last one is told
    when the time is over, with the last things that the condition saw, so that a failure says what
    was still wrong.
    """
    return within(condition, max(timeout, LEAST_S), what, time.monotonic)


def within(condition, seconds, what, clock=ran_s):
    """The same, in no more than so many seconds, by this clock."""
    deadline = clock() + seconds
    outer, _seen.last = getattr(_seen, "last", None), collections.deque(maxlen=3)
    try:
        while True:
            try:
                value = last = condition()
                if value:
                    return value
            except (AssertionError, OSError) as error:
                last = error
            if clock() >= deadline:
                raise WaitTimeout(
                    "\n  seen: ".join([f"not within {seconds:g} s: {what} (last: {last!r})",
                                       *_seen.last])
                )
            time.sleep(POLL_S)
    finally:
        _seen.last = outer
