"""For how long a node goes on without a majority, after a burst of 100 times its rate."""

import itertools
import time

from measure import Procedure, Target
from processes import BenchError
from servers import Leafd

name = "cover"
title = "ids without a majority after a burst"
text = """
A tag whose cover_s is 20. Ids of it are asked of one node, first 300 a second, then 30,000: as soon
as the second refill of the burst has come, the other two nodes are killed, and the rate goes on
until the node has no more ids.
"""
targets = [Target("goes_on_s", "burst", at_least=20)]
charts = ("goes_on_s",)
columns = ("goes_on_s",)
told = columns
rounds = 3

COVER_S = 20
RATE = 300
TIMES = 100
LIMIT_S = 120


class Burst:
    """The cluster of the case; a tag for each time."""

    def __init__(self, bench):
        self.leafd = bench.start(Leafd(bench.data, bench.leafd))
        self.leafd.wait_newest_level()
        self.serial = itertools.count()

    def measured(self, _):
        tag = f"burst-{next(self.serial)}"
        self.leafd.must_put_tag(tag, step=100, cover_s=COVER_S)
        leader = self.leafd.cluster.leader()
        node = self.leafd.cluster.others(leader)[0]

        def segment():
            return node.get_json(f"/api/node/segments?prefix={tag}")["segments"][0]

        def refills(count):
            """True once so many have come from now on: each brings an id above all before."""
            tops = set()

            def seen():
                tops.add(max(int(slot["end"] or 0) for slot in segment()["slots"]))
                return len(tops) > count
            return seen

        with node.connect() as connection:
            began = time.monotonic()
            take(connection, tag, RATE, lambda: time.monotonic() - began > COVER_S)
            take(connection, tag, RATE * TIMES, refills(2))
            gone = self.leafd.cluster.others(node)
            for other in gone:
                other.leaving()
                other.process.kill()
            lasted_s = take(connection, tag, RATE * TIMES, lambda: False)
        for other in gone:
            other.wait_exit()
            other.start().wait_ready()
        self.leafd.cluster.leader()
        self.leafd.check()
        return {"goes_on_s": lasted_s}


def take(connection, tag, rate, enough):
    """Ids at a rate until enough(); or, without a majority, until there are none: for how long."""
    began, taken = time.monotonic(), 0
    while not enough():
        passed = time.monotonic() - began
        if passed > LIMIT_S:
            raise BenchError(f"{tag}: {passed:.0f} s, and not enough")
        count = min(int(passed * rate) - taken, 100_000)
        if count > 0:
            response = connection.request(
                "GET", f"/api/segment/get/{tag}?format=range&count={count}&timeout_ms=0")
            if response.status == 200:
                taken += count
            elif enough() is False and response.code == "no_leader":
                return passed
        time.sleep(0.005)
    return None


def prepare(bench):
    burst = Burst(bench)
    return [Procedure("burst", "the majority killed", [burst.leafd],
                      "ids at 100 times the rate until there are none", burst.measured)]
