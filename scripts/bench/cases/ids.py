"""One id a request, against servers that do less."""

from cases.common import constant_contenders, ids_contender, single_leafd
from measure import Target

name = "ids"
title = "one id a request, keep-alive, 64 connections"
text = """
What an id costs when it comes from memory: one node of leafd with one HTTP thread, against a bare
epoll loop that answers a constant (the least that a server can do), nginx that answers a constant,
and Redis without persistence, which counts. Each server has a core for itself, and the load the
other one.
"""
targets = [
    Target("cpu_us", "leafd", "bare", at_most=1.08),
    Target("cpu_us", "leafd", "nginx", at_most=0.95),
    Target("cpu_us", "leafd", "redis", at_most=0.85),
    Target("user_us", "leafd", "nginx", at_most=0.6),
]
charts = ("cpu_us", "user_us", "rate")


def in_the_way(figures):
    """Redis spends nearly all of its time where leafd does: in the kernel."""
    leafd, bare, redis = (figures[name] for name in ("leafd", "bare", "redis"))
    return [
        f"Of leafd's {leafd['cpu_us']:.2f} µs a request {leafd['system_us']:.2f} are the kernel's, "
        "for one recv() and one send(), which no server on TCP can do without; Redis makes the "
        f"same two calls and has {redis['user_us']:.2f} µs of its own besides, of which leafd "
        f"needs {leafd['user_us']:.2f}. The bare loop, which answers without looking at the "
        f"request, takes {bare['cpu_us'] / redis['cpu_us']:.2f} of Redis's time, and leafd "
        f"{leafd['cpu_us'] / bare['cpu_us']:.2f} of the bare loop's. With no user time at all "
        f"leafd would be at {leafd['system_us'] / redis['cpu_us']:.2f}. What the kernel does "
        "meanwhile is in docs/benchmarks.md, by perf."]


def prepare(bench):
    leafd = single_leafd(bench)
    return [
        ids_contender(bench, leafd, bound=True),
        *constant_contenders(bench),
    ]
