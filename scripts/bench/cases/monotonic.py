"""How long one monotonic id takes, beside what it cannot do without."""

from cases.common import PATH, TAG, bare_contenders, load_command, others
from measure import Contender, Target
from servers import Bare, Distance, Leafd

name = "monotonic"
title = "the latency of one monotonic id"
DELAY_US = 300  # of a byte from one node to another, and back again
text = f"""
One connection that asks for its next id when it has the last one, at the leader and at a follower
of three nodes. Beside it what is in it in any case: HTTP, as an id of a tag of mode trend at the
same node takes it, and a round trip between two processes, as that of the bare epoll loop. Then
the same where the nodes are apart: all that they say to each other passes through a relay that
holds it for {DELAY_US} us (distance.c), and so does all of the far bare loop. Clusters are bound
to no core.
"""
MONOTONIC = "order-monotonic"
targets = [
    Target("p50", "leader", ("http", "bare"), at_most=1.3),
    Target("p50", "follower", ("http", "bare", "bare")),  # it passes the request on
    Target("p50", "far-leader", ("http", "far-bare"), at_most=1.3),
    Target("p50", "far-follower", ("http", "far-bare", "far-bare")),
]
charts = ("p50", "p99")
columns = ("rate", "p50", "p99", "p99.9", "cpu_us", "others")
told = ("p50", "p99", "others")


def start(bench, leafd):
    """Start it and make its tags; (leader, follower)."""
    bench.start(leafd)
    leafd.wait_newest_level()
    leafd.must_put_tag(TAG)
    leafd.must_put_tag(MONOTONIC, mode="monotonic")
    return leafd.cluster.leader(), leafd.cluster.followers()[0]


def contenders(bench, leafd, nodes):
    """One a node: (name, label, node, tag)."""
    return [Contender(name, label, [leafd], load_command(
        bench, node.http_address, "--expect", "ids:1", f"/api/segment/get/{tag}", connections=1))
        for name, label, node, tag in nodes]


def near(bench):
    """Nodes on one machine, with nothing between them."""
    leafd = Leafd(bench.data, bench.leafd)
    leader, follower = start(bench, leafd)
    return contenders(bench, leafd, (
        ("http", "trend, from memory", leader, TAG),
        ("leader", "monotonic, at the leader", leader, MONOTONIC),
        ("follower", "monotonic, at a follower", follower, MONOTONIC)))


def far(bench):
    """Nodes that reach each other through a relay."""
    leafd = Leafd(bench.data, bench.leafd, name="leafd-far")
    relay = bench.start(Distance(bench.data, bench.tool("distance"), DELAY_US,
                                 [node.peer_address for node in leafd.cluster.nodes]))
    leafd.reached_by(relay.addresses)
    leader, follower = start(bench, leafd)
    return contenders(bench, leafd, (
        ("far-leader", "monotonic, at the leader, nodes apart", leader, MONOTONIC),
        ("far-follower", "monotonic, at a follower, nodes apart", follower, MONOTONIC)))


@others
def far_bare(bench):
    """The bare loop behind such a relay."""
    bare = bench.start(Bare(bench.data, bench.tool("bare"), bench.server_cores, "bare-far"))
    relay = bench.start(Distance(bench.data, bench.tool("distance"), DELAY_US,
                                 [f"127.0.0.1:{bare.port}"], "distance-bare"))
    return [Contender("far-bare", "bare epoll loop, apart", [bare], load_command(
        bench, relay.addresses[0], "--expect", f"text:{Bare.BODY}", PATH, bound=True,
        connections=1))]


def prepare(bench):
    return [
        *near(bench),
        *bare_contenders(bench, ("bare", "bare epoll loop", (PATH,), {"connections": 1})),
        *far(bench),
        *far_bare(bench),
    ]
