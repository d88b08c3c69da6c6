"""How long the machine itself stood still: a pulse that a test with tight bounds can take.

A thread writes one page and flushes it, rests for a moment, and does it again. Who asks for a
span of time learns how long the longest of these beats took in it. A disk that another test keeps
busy, or a processor that somebody else has, is seen here as it is seen by a node.
"""

import os
import threading
import time
from collections import deque

REST_S = 0.02
BEATS_KEPT = 10_000  # some minutes
PAGE = bytes(4096)


class Pulse:
    """To be used by `with`; the directory is on the disk of the nodes' data."""

    def __init__(self, directory):
        self.file = os.open(os.path.join(directory, "pulse"), os.O_CREAT | os.O_WRONLY, 0o600)
        self.beats = deque(maxlen=BEATS_KEPT)
        self.began = time.monotonic()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        os.close(self.file)

    def run(self):
        while not self.over.is_set():
            os.pwrite(self.file, PAGE, 0)
            os.fdatasync(self.file)
            self.over.wait(REST_S)
            ended = time.monotonic()
            self.beats.append((self.began, ended))
            self.began = ended

    def stood_s(self, begin, end):
        """The longest beat of which some lies between the two times, one under way included."""
        under_way = self.began
        spans = [(a, b) for a, b in list(self.beats) if a < end and b > begin]
        if under_way < end:
            spans.append((under_way, end))
        return max((b - a for a, b in spans), default=0.0)
