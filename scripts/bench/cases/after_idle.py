"""The first request of a connection, of a tag, and of a process that have had nothing to do."""

from cases.common import constant_contenders, single_leafd, tags_contender
from measure import Target, run_load
from processes import BenchError

name = "after_idle"
title = "the first request after idle"
text = """
1,000 keep-alive connections, and 100 requests a second over all of them: each request goes to the
connection that has been idle longest, so for ten seconds, and the server has slept for ten
milliseconds. leafd: each is also for another one of 1,000 tags. So nothing of a connection or a tag
is in the processor's caches, a timer may have run out, and the process has to be woken up. (The
first segment of each tag was granted before.) Against servers that answer a constant, or count one
key, in the same rounds.
"""
CONNECTIONS = 1000
RATE = 100
TOUCH_LIMIT_S = 60
targets = [
    Target("p50", "leafd", "nginx", at_most=1.1),
    Target("p50", "leafd", "redis", at_most=1.1),
    Target("p99", "leafd", "nginx", at_most=1.2),
]
charts = ("p50", "p99", "cpu_us")
columns = ("rate", "p50", "p99", "max", "cpu_us", "others")
told = ("p50", "p99", "cpu_us", "others")


def prepare(bench):
    leafd = single_leafd(bench)
    tags = [f"idle-{number}" for number in range(CONNECTIONS)]
    leafd.make_tags(tags)
    rare = ("--rate", RATE, "--connections", CONNECTIONS)
    ours = tags_contender(bench, leafd, tags, arguments=rare, bound=True)
    # The first segment of each tag.
    touch = [*tags_contender(bench, leafd, tags).command, "--requests", str(len(tags))]
    touched, _ = run_load([*touch, "--seconds", str(TOUCH_LIMIT_S)], TOUCH_LIMIT_S)
    if touched["good"] != len(tags):
        raise BenchError(f"only {touched['good']} tags gave an id in {TOUCH_LIMIT_S} s")
    return [ours, *constant_contenders(bench, *rare)]
