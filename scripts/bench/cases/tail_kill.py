"""The slowest replies of a surviving node when the leader is killed."""

import threading

from cases.common import TAG
from cases.tail import rate_command
from measure import Contender, Target
from servers import Leafd

name = "tail_kill"
title = "the slowest replies at 20,000 requests a second, leader killed in the middle"
text = """
As the case tail, with a tag of default settings: its segments cover five seconds of the load. In
every other load the leader gets SIGKILL in the middle, and the load, on another node, must not see
it: no reply but 200, and no connection lost. The killed node is started again between two loads.
"""
targets = [Target("p99.9", "killed", "undisturbed", at_most=1.5)]
charts = ("p99.9", "p99", "max")
columns = ("rate", "p50", "p99", "p99.9", "max")
told = ("p50", "p99.9", "max")

WARM_UP_S = 2.0


class OnSurvivor(Contender):
    """The load on a node that does not lead; with kill, the leader dies half way."""

    warm_up_s = WARM_UP_S

    def __init__(self, name, label, bench, leafd, kill):
        super().__init__(name, label, [], rate_command(bench, "NODE", "--expect", "ids:1"))
        self.bench = bench
        self.leafd = leafd
        self.kill = kill

    def measure(self, seconds):
        cluster = self.leafd.cluster
        leader = cluster.leader()
        node = cluster.others(leader)[0]
        self.bench.bind(self.leafd, node)
        self.command = rate_command(self.bench, node.http_address, "--expect", "ids:1")
        timer = threading.Timer(seconds / 2, leader.process.kill)
        if self.kill:
            leader.leaving()
            timer.start()
        try:
            figures = super().measure(seconds)
        finally:
            if self.kill:
                timer.cancel()
                leader.process.kill()  # at the latest
                leader.wait_exit()
                leader.start().wait_ready()
        cluster.leader()
        return figures


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd))
    leafd.must_put_tag(TAG)
    return [OnSurvivor("undisturbed", "leafd, undisturbed", bench, leafd, False),
            OnSurvivor("killed", "leafd, leader killed", bench, leafd, True)]
