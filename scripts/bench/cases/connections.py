"""CPU time per request from one connection to ten thousand."""

from cases.common import bare_contenders, ids_contender, single_leafd
from measure import Target

name = "connections"
title = "one id a request, from 1 to 10,000 connections"
text = """
One node on a core of its own. With one connection each request costs a wake-up of its own, and with
thousands the system has more to look up and less in its caches: the bare loop with as many
connections shows how much of it no server can avoid.
"""
COUNTS = (1, 64, 1000, 10000)
targets = [Target("cpu_us", f"c{count}", "c64", at_most=1.1) for count in COUNTS if count != 64]
charts = ("cpu_us", "rate")
told = ("cpu_us", "others")


def in_the_way(figures):
    """What the same number of connections costs a server that does nothing."""
    lines = ["What part of it no server on epoll avoids, the bare loop shows in the same rounds:",
             "| connections | leafd, of 64 | bare loop, of 64 | leafd, of the bare loop | "
             "leafd, user time (µs) |\n|---|---|---|---|---|"]
    for count in COUNTS:
        leafd, bare = figures[f"c{count}"], figures[f"b{count}"]
        lines[-1] += (f"\n| {count:,} | {leafd['cpu_us'] / figures['c64']['cpu_us']:.2f} | "
                      f"{bare['cpu_us'] / figures['b64']['cpu_us']:.2f} | "
                      f"{leafd['cpu_us'] / bare['cpu_us']:.2f} | {leafd['user_us']:.2f} |")
    return lines + [
        "With one connection each request is a wake-up of its own: the process sleeps in "
        "epoll_wait(), and no call of the loop is shared with another request. With thousands, "
        "what the kernel keeps of a connection (socket, file, epoll entry, timers) is no longer in "
        "the processor's caches when its next request comes."]


def prepare(bench):
    leafd = single_leafd(bench)
    bare = bare_contenders(bench, *((f"b{count}", f"bare loop, {count:,}", ("/",),
                                     {"connections": count}) for count in COUNTS))
    ours = [ids_contender(bench, leafd, name=f"c{count}", label=f"{count:,} connections",
                          bound=True, connections=count) for count in COUNTS]
    return [one for pair in zip(ours, bare) for one in pair] if bare else ours
