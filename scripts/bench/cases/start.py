"""From the start of the processes to the first id."""

import time

from cases.common import PATH
from measure import Procedure, Target
from processes import wait_for
from servers import Leafd, get

name = "start"
title = "from the start to the first id"
text = """
All processes are started at once on data that has a tag; then the first node is asked for an id,
again and again, until it answers with 200.
"""
targets = [
    Target("first_id_s", "one", at_most=0.3),
    Target("first_id_s", "three", at_most=3),
]
charts = ("first_id_s",)
columns = ("first_id_s",)
told = ("first_id_s",)

LIMIT_S = 30


def prepare(bench):
    def contender(kind, size):
        leafd = Leafd(bench.data, bench.leafd, size, name=f"leafd-{size}")
        bench.start(leafd)
        leafd.must_put_tag("order")

        def measured(_):
            leafd.cluster.stop_all()
            begin = time.monotonic()
            for node in leafd.cluster.nodes:
                node.start()
            wait_for(lambda: get(leafd.cluster.nodes[0].http_port, PATH).status == 200, LIMIT_S,
                     "the first id")
            elapsed = time.monotonic() - begin
            leafd.cluster.wait_ready()
            leafd.check()
            return {"first_id_s": elapsed}

        return Procedure(kind, f"leafd, {size} node" + ("s" if size > 1 else ""), [leafd],
                         "stop, start, GET until it answers", measured)

    return [contender("one", 1), contender("three", 3)]
