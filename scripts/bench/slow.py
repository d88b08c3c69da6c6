"""Slower disks: servers whose flushes take longer (slow_disk.c), and loads on them.

The happy path: disk = Disk(bench); a server is started with prefix=disk.prefix;
SlowContender(disk, 5, ...) is measured with each of its flushes 5 ms longer. No delay is this
machine's disk, but for some 20 us that the look at each flush takes.
"""

import os
import time

from measure import Contender

SETTLE_S = 0.2  # flushes under way end, and followers catch up


class Disk:
    """The delay that all servers with this prefix have in common."""

    def __init__(self, bench):
        self.path = os.path.join(bench.data, "flush-delay")
        self.prefix = [bench.tool("slow_disk"), self.path]
        self.delay(0)

    def delay(self, delay_ms):
        """So much longer takes each flush that begins from now on."""
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.write(str(round(1000 * delay_ms)))
        os.replace(self.path + ".new", self.path)


class SlowContender(Contender):
    """A load while flushes take delay_ms longer."""

    def __init__(self, disk, delay_ms, *arguments):
        super().__init__(*arguments)
        self.disk = disk
        self.delay_ms = delay_ms

    def measure(self, seconds):
        self.disk.delay(self.delay_ms)
        try:
            time.sleep(SETTLE_S)
            return super().measure(seconds)
        finally:
            self.disk.delay(0)
