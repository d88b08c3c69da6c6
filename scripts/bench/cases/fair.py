"""A quiet client beside loud ones."""

import os
import subprocess
import sys

from cases.common import TAG, load_command
from measure import Procedure, Target, run_load
from processes import BenchError, pinned
from servers import Leafd

name = "fair"
title = "a quiet client beside others that ask for 100,000 ids again and again, or change tags"
text = """
One connection takes an id 1,000 times a second. Beside it 8, 64 and 512 connections ask for
`count=100000` as text, over and over, of the same node, while the quiet one is on that node, or on
another one. And one connection takes strict ids, 10 a second, while two others make 10,000 tags
with each request. The loud clients only count what comes, so that they take as little of the
machine as can be. Ids are measured as in the case tail: the node that the loud ones ask is bound to
the servers' core, all clients to the other one, and the other two nodes run on both. Each node has
one HTTP thread, as it has for each processor of a machine. For strict ids all have the same two
cores.
"""
fair = True
columns = ("p50", "p99", "p99.9", "max", "others")
charts = ("p99", "p50")
told = ("p50", "p99", "others")

LOUD = (8, 64, 512)
RATE = 1000
# One connection has one strict id in flight: above what it gets beside the bulk, its own queue
# would be measured.
STRICT_RATE = 10
LOUD_CLIENT = os.path.join(os.path.dirname(__file__), "..", "loud.py")
STRICT = "strict"
BULK = "bulk"
targets = [
    Target("p99", "same64", "alone", at_most=5),
    Target("p99", "other64", "alone", at_most=1.5),
    Target("p99", "strict_bulk", "strict_alone", at_most=5),
]


def quiet(bench, node, tag, strict=False):
    """The load of the quiet client."""
    rate = (STRICT_RATE, "--strict") if strict else (RATE,)
    return load_command(bench, node.http_address, "--expect", "ids:1", "--rate", *rate,
                        f"/api/segment/get/{tag}", connections=1, bound=not strict)


def measured(command, loud, bind):
    """A function that binds the nodes, and then runs the quiet load beside the loud one (a command,
    to which the seconds are appended in its place SECONDS; None: nobody is loud)."""
    def measure(seconds):
        bind()
        beside = None
        if loud:
            beside = subprocess.Popen([part if part != "SECONDS" else str(seconds + 2)
                                       for part in loud], stdout=subprocess.PIPE, text=True)
        try:
            report, _ = run_load([*command, "--seconds", str(seconds)], seconds)
        finally:
            out = beside.communicate()[0] if beside else ""
        if beside and (beside.returncode != 0 or int(out.split()[0]) == 0):
            raise BenchError(f"the loud clients failed: {out}")
        return {**{figure: report["latency_us"][figure] for figure in ("p50", "p99", "p99.9",
                                                                        "max")},
                "rate": report["rate"], "others": 0.0}

    return measure


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd, settings={"http-loops": 1}))
    leafd.must_put_tag(TAG)
    leafd.must_put_tag(BULK, step=1_000_000, max_step=100_000_000)
    leafd.must_put_tag(STRICT, mode="strict")
    node, other = leafd.cluster.followers()[:2]
    loud_py = [sys.executable, LOUD_CLIENT, node.http_address]

    def contender(which, label, command, loud):
        def bind():
            bench.bind(leafd, None if which.startswith("strict") else node)

        return Procedure(which, label, [leafd], " ".join(command), measured(command, loud, bind))

    made = [contender("alone", "alone", quiet(bench, node, TAG), None)]
    for where, place in (("same", node), ("other", other)):
        for count in LOUD:
            loud = [*pinned(bench.load_cores), *loud_py, str(count), "SECONDS",
                    f"/api/segment/get/{BULK}?count=100000&timeout_ms=10000"]
            made.append(contender(f"{where}{count}", f"{count} loud, {where} node",
                                  quiet(bench, place, TAG), loud))
    made.append(contender("strict_alone", "strict, alone", quiet(bench, node, STRICT, True), None))
    made.append(contender("strict_bulk", "strict, beside bulk POST",
                          quiet(bench, node, STRICT, True),
                          [*loud_py, "2", "SECONDS", "/api/tags", "--bulk"]))
    return made
