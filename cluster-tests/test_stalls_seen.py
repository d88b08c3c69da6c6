"""The clock by which tests with tight bounds see that the machine stood still."""

import os
import threading
import time

import stalls
from wait import wait_until


def test_a_flush_that_takes_long_does_not_count(tmp_path, monkeypatch):
    flush, free = os.fdatasync, threading.Event()
    free.set()

    def held_up(file):
        flush(file)
        free.wait(10)

    monkeypatch.setattr(os, "fdatasync", held_up)
    with stalls.Pulse(tmp_path) as pulse:
        free.clear()
        began, ran_s = time.monotonic(), pulse.ran_s()
        wait_until(lambda: time.monotonic() > began + 1, 5, "the stall")
        assert 0 <= pulse.ran_s() - ran_s <= stalls.REST_S + 2 * stalls.BEAT_MOST_S
        free.set()
        # Nor afterwards, and what comes then counts again.
        stood_s = time.monotonic() - pulse.ran_s()
        wait_until(lambda: pulse.ran_s() > ran_s + 1, 10, "time that counts")
        assert time.monotonic() - pulse.ran_s() >= stood_s - 0.001
