"""The slowest replies at a fixed rate, while segments are switched."""

from cases.common import PATH, TAG, bare_contenders, load_command
from measure import Contender, Target
from servers import Leafd

name = "tail"
title = "the slowest replies at 20,000 requests a second, through segment switches"
text = """
Requests are due at a fixed rate, and latency counts from when a request was due (coordinated
omission corrected). leafd: one of three nodes, no leader, with a tag whose segments have 5,000 ids,
so that it switches to the next one, which was granted meanwhile, four times a second. Against the
bare epoll loop at the same rate. The node under load and the bare loop are bound to the servers'
core, the load to the other one, and the other two nodes run on both.
"""
targets = [Target("p99.9", "leafd", "bare", at_most=1.2)]
charts = ("p99.9", "p99", "p50")
columns = ("rate", "p50", "p99", "p99.9", "max", "cpu_us", "others")
told = ("p50", "p99.9", "others")

RATE = 20_000
SEGMENT = 5_000


def rate_command(bench, address, *arguments):
    return load_command(bench, address, "--rate", RATE, *arguments, PATH, bound=True)


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd))
    leafd.must_put_tag(TAG, step=SEGMENT, max_step=SEGMENT)
    node = leafd.cluster.followers()[0]
    bench.bind(leafd, node)
    return [
        Contender("leafd", "leafd, 1 of 3 nodes", [leafd],
                  rate_command(bench, node.http_address, "--expect", "ids:1")),
        *bare_contenders(bench, ("bare", "bare epoll loop", ("--rate", RATE, PATH), {})),
    ]
