"""A wall clock of its own for each node, which a test sets while the node runs.

The machine's clock is never touched. libfaketime, loaded into one process, adds to the wall clock
what it finds in a file at every call; a new file is renamed over the old one, so that a reader
finds either. The monotonic clocks stay the machine's (test_snowflake_clocks.py makes sure of it):
only what people and ids call the time is wrong.

The happy path: clocks = own_clocks(cluster) before the start; clocks[node.id].set(-3600) whenever
the test likes, while the node runs or is down.
"""

import contextlib
import glob
import os
import re
import subprocess
import time

from node import leafd_path

LIBRARY = "/usr/lib/*/faketime/libfaketimeMT.so.1"
YEARS_50 = 1_576_800_000


class ClockFile:
    """The distance in seconds of one process's wall clock from the machine's."""

    def __init__(self, path, libraries):
        self.path = path
        self.libraries = libraries
        self.set(0)

    def set(self, seconds):
        fresh = self.path + ".new"
        with open(fresh, "w", encoding="ascii") as out:
            out.write(f"{seconds:+}\n")
        os.replace(fresh, self.path)

    def prefix(self):
        """The command in front of the one that is to have this clock; it keeps the process id."""
        return [
            "env",
            f"LD_PRELOAD={':'.join(self.libraries)}",
            f"FAKETIME_TIMESTAMP_FILE={self.path}",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "FAKETIME_NO_CACHE=1",
        ]


def find_libraries(program):
    """What is to be loaded in front of a program: a sanitizer that it is built with comes first."""
    found = glob.glob(LIBRARY)
    assert found, f"no {LIBRARY}: scripts/setup test installs it"
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"=> (\S*/lib[at]san\.so\S*)", linked) + found[:1]


def own_clocks(cluster):
    """Give each node of a cluster that was not started yet a clock; {node id: ClockFile}."""
    remove_leftovers()
    return {node.id: add_clock(node) for node in cluster.nodes}


def add_clock(node):
    """The same for one node."""
    clock = ClockFile(os.path.join(node.directory, "clock"), find_libraries(leafd_path()))
    node.prefix = clock.prefix()
    return clock


def noon_s():
    """What makes such a clock show noon (UTC), today, or on the second of January on the first: a
    test of dates is over before another day begins, and yesterday's year is this one."""
    now = time.time()
    today = time.gmtime(now)
    return 43200 - int(now) % 86400 + (86400 if today.tm_yday == 1 else 0)


def remove_leftovers():
    """The library shares memory under the process's id, and a killed process leaves it behind: in
    the way of the next one that gets the id."""
    for path in glob.glob("/dev/shm/*faketime_*"):
        process = re.fullmatch(r"(?:sem\.faketime_sem|faketime_shm)_(\d+)", os.path.basename(path))
        if process and not os.path.exists(f"/proc/{process[1]}"):
            # Another user's is that user's to remove, and another run may just have removed it.
            with contextlib.suppress(PermissionError, FileNotFoundError):
                os.unlink(path)
