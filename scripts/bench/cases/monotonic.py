"""How long one monotonic id takes, beside what it cannot do without."""

from cases.common import PATH, TAG, bare_contenders, load_command
from measure import Contender, Target
from servers import Leafd

name = "monotonic"
title = "the latency of one monotonic id"
text = """
One connection that asks for its next id when it has the last one, at the leader and at a follower
of three nodes. Beside it what is in it in any case: HTTP, as an id of a tag of mode trend at the
same node takes it, and a round trip between two processes, as that of the bare epoll loop. Clusters
are bound to no core.
"""
MONOTONIC = "order-monotonic"
targets = [
    Target("p50", "leader", ("http", "bare"), at_most=1.3),
    Target("p50", "follower", ("http", "bare", "bare")),  # it passes the request on
]
charts = ("p50", "p99")
columns = ("rate", "p50", "p99", "p99.9", "cpu_us", "others")
told = ("p50", "p99", "others")


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd))
    leafd.wait_newest_level()
    leafd.must_put_tag(TAG)
    leafd.must_put_tag(MONOTONIC, mode="monotonic")
    leader = leafd.cluster.leader()
    follower = leafd.cluster.followers()[0]

    def contender(name, label, node, path):
        return Contender(name, label, [leafd], load_command(
            bench, node.http_address, "--expect", "ids:1", path, connections=1))

    return [
        contender("http", "trend, from memory", leader, PATH),
        contender("leader", "monotonic, at the leader", leader, f"/api/segment/get/{MONOTONIC}"),
        contender("follower", "monotonic, at a follower", follower,
                  f"/api/segment/get/{MONOTONIC}"),
        *bare_contenders(bench, ("bare", "bare epoll loop", (PATH,), {"connections": 1})),
    ]
