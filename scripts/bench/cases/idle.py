"""What a cluster takes that nobody uses."""

import time

from measure import Procedure, Target
from processes import memory_of
from servers import Leafd

name = "idle"
title = "an idle cluster of three nodes"
text = """
Three nodes with default settings, a tag, and no request: the mean of their CPU time, and the
resident memory of the largest.
"""
targets = [
    Target("memory_mib", "leafd", at_most=12),
    Target("core_percent", "leafd", at_most=1),
]
charts = ("memory_mib", "core_percent")
columns = ("memory_mib", "core_percent")
told = ("memory_mib", "core_percent")


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd))
    leafd.must_put_tag("order")

    def measured(seconds):
        begin, before = time.monotonic(), sum(leafd.cpu())
        time.sleep(seconds)  # that nothing happens is what is measured
        spent, elapsed = sum(leafd.cpu()) - before, time.monotonic() - begin
        largest = max(memory_of(pid) for pid in leafd.pids())
        return {"memory_mib": largest / 2**20,
                "core_percent": 100 * spent / elapsed / len(leafd.pids())}

    return [Procedure("leafd", "leafd, 3 nodes", [leafd], "no request", measured)]
