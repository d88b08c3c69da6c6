"""A clock that stands still with the machine, for tests with tight bounds.

A thread writes one page and flushes it, rests for a moment, and does it again. Of a beat that takes
longer than it should, the rest does not count: a disk that another test keeps busy, a processor
that somebody else has, or a machine that stands still as a whole, is seen here as it is seen by a
node.
"""

import os
import tempfile
import threading
import time

REST_S = 0.02
BEAT_MOST_S = 0.1
PAGE = bytes(4096)


class Pulse:
    """To be used by `with`; the directory is on the disk of the nodes' data. wait.ran_s() has one
    for all tests."""

    def __init__(self, directory):
        self.file = tempfile.TemporaryFile(dir=directory)
        self.beat = (time.monotonic(), 0.0)  # when this one began, and how much did not count
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.file.close()

    def run(self):
        while not self.over.is_set():
            os.pwrite(self.file.fileno(), PAGE, 0)
            os.fdatasync(self.file.fileno())
            self.over.wait(REST_S)
            now = time.monotonic()
            self.beat = (now, now - self.ran_s(now))

    def ran_s(self, now=None):
        """Seconds, as time.monotonic() has them, without those in which the machine stood still."""
        began, stood_s = self.beat
        now = now or time.monotonic()
        return min(now, began + BEAT_MOST_S) - stood_s
