"""A node with a million tags starts again; a node that is far behind gets them as a snapshot."""

import threading
import time

from measure import Procedure, Target
from processes import wait_for
from servers import Leafd

name = "restart"
title = "a million tags: restart, and snapshot to a node that is behind"
text = """
Restart: one node with a million tags is stopped, started, and asked for /readyz. Snapshot: of
three nodes with a million tags one is stopped, the log goes on and is compacted, and the node is
started again, so that the leader sends it a snapshot; meanwhile the leader is asked for a tag's
state, which its raft loop answers, every other millisecond. The longest wait shows the longest
pause of that loop; that of the same requests with nothing else going on shows what the machine
adds.
"""
targets = [
    Target("ready_s", "restart", at_most=10),
    Target("loop_gap_ms", "snapshot", at_most=20),
]
charts = ("ready_s", "loop_gap_ms")
columns = ("ready_s", "loop_gap_ms")
fair = True  # the nodes share the cores: what is measured is the loop, not who may keep a core
told = ("ready_s", "loop_gap_ms")

TAGS = 1_000_000
READY_LIMIT_S = 60
CATCH_UP_LIMIT_S = 120
PAUSE_S = 0.002
ROOMY = {"data-memory-bytes": "1GiB", "quota": "tags=100%"}
COMPACT = {**ROOMY, "raft-snapshot-entries": 20}


def log_entries(node):
    """How many entries of the log a node holds."""
    lines = node.get("/metrics").text.splitlines()
    return int(next(line for line in lines if line.startswith("leafd_log_entries ")).split()[1])


class Prober(threading.Thread):
    """Asks a node's raft loop again and again; the longest wait for an answer."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node = node
        self.over = threading.Event()
        self.longest_s = 0.0

    def run(self):
        with self.node.connect() as connection:
            while not self.over.wait(PAUSE_S):
                begin = time.monotonic()
                connection.request("GET", "/api/tags/tag-0000001?consistency=local")
                self.longest_s = max(self.longest_s, time.monotonic() - begin)

    def finish(self):
        self.over.set()
        self.join()
        return {"loop_gap_ms": 1000 * self.longest_s}


def prepare(bench):
    tags = [f"tag-{number:07}" for number in range(TAGS)]
    bench.say(f"making {TAGS} tags twice")
    one = bench.start(Leafd(bench.data, bench.leafd, 1, ROOMY, name="leafd-1"))
    one.make_tags(tags)
    three = bench.start(Leafd(bench.data, bench.leafd, 3, COMPACT, name="leafd-3"))
    three.make_tags(tags)

    def restart(_):
        node = one.cluster.nodes[0]
        node.stop()
        begin = time.monotonic()
        node.start().wait_ready(READY_LIMIT_S)
        return {"ready_s": time.monotonic() - begin}

    def undisturbed(seconds):
        prober = Prober(three.cluster.leader())
        prober.start()
        prober.over.wait(seconds)
        return prober.finish()

    def snapshot(_):
        leader = three.cluster.leader()
        behind = three.cluster.others(leader)[0]
        behind.stop()
        missed = 3 * COMPACT["raft-snapshot-entries"]
        for number in range(missed):
            leader.http("PUT", f"/api/tags/tag-{number:07}", {"description": f"{time.time()}"})
        # Behind the rows of a million tags it takes a while until theirs are on the disk.
        wait_for(lambda: log_entries(leader) < missed, CATCH_UP_LIMIT_S, "a shorter log")
        mark = len(behind.log())
        prober = Prober(leader)
        prober.start()
        try:
            behind.start()
            wait_for(lambda: "snapshot" in behind.log()[mark:], CATCH_UP_LIMIT_S, "a snapshot")
            behind.wait_ready(CATCH_UP_LIMIT_S)
            three.cluster.wait_applied(timeout=CATCH_UP_LIMIT_S)
        finally:
            figures = prober.finish()
        three.check()
        return figures

    return [
        Procedure("restart", "restart", [one], "SIGTERM, start, GET /readyz", restart),
        Procedure("snapshot", "snapshot sent", [three], "GET of a tag on the leader", snapshot),
        Procedure("undisturbed", "nothing sent", [three], "the same", undisturbed),
    ]
