"""Waiting for a condition: the only place of the suite that lets time pass by itself.

wait_until() waits for what will come: its bound is there against what hangs, and says nothing of
leafd. So it is 30 seconds at least, whatever a test asks for: a machine that others use is slow.
within() is for what leafd promises: its bound is the thing under test, and is kept to. A test that
promises less than some seconds is marked quiet or alone (conftest.py). Its clock is ran_s(), which
stands still while the machine does, so that no bound is over before leafd could keep it.
"""

import collections
import threading
import time

POLL_S = 0.02
LEAST_S = 30.0
STILL_S = 5 * POLL_S  # a beat that comes so late is one of a machine that stood still

_beat = None  # what ran_s() was at the last beat, and the monotonic time then
_seen = threading.local()


class WaitTimeout(AssertionError):
    """The condition did not come true in time."""


def seen(text):
    """What a condition that is being waited for was shown, such as a node's answer."""
    shown = getattr(_seen, "last", None)
    if shown is not None:
        shown.append(text)


def ran_s():
    """Seconds that this process ran: for how long something takes at most. What it takes at least
    is measured by time.monotonic()."""
    if _beat is None:
        _set_beat(0.0)
        threading.Thread(target=_run, daemon=True).start()
    return _since(*_beat)


def _since(ran, at):
    return ran + min(time.monotonic() - at, STILL_S)


def _set_beat(ran):
    global _beat
    _beat = ran, time.monotonic()


def _run():
    while True:
        time.sleep(POLL_S)
        _set_beat(_since(*_beat))


def wait_until(condition, timeout, what):
    """Call condition() until it gives something true, and return that.

    An AssertionError or OSError raised by the condition counts as "not yet"; the last one is told
    when the time is over, with the last things that the condition saw, so that a failure says what
    was still wrong.
    """
    return within(condition, max(timeout, LEAST_S), what)


def within(condition, seconds, what):
    """The same, in no more than so many seconds."""
    deadline = ran_s() + seconds
    outer, _seen.last = getattr(_seen, "last", None), collections.deque(maxlen=3)
    try:
        while True:
            try:
                value = last = condition()
                if value:
                    return value
            except (AssertionError, OSError) as error:
                last = error
            if ran_s() >= deadline:
                raise WaitTimeout(
                    "\n  seen: ".join([f"not within {seconds:g} s: {what} (last: {last!r})",
                                       *_seen.last])
                )
            time.sleep(POLL_S)
    finally:
        _seen.last = outer
