"""How long there are no grants when the leader is killed, and when it is stopped."""

import itertools
import threading
import time

from client import Connection
from measure import Procedure, Target
from processes import BenchError
from servers import Leafd

name = "failover"
title = "grants while the leader is killed, and while it is stopped"
text = """
Default timeouts. Each measured request asks a surviving node for an id of a tag that it has never
served, so that a grant is needed. Killed: the time from SIGKILL of the leader to the reply to a
request that is sent at once. Stopped: requests follow each other while the leader gets SIGTERM and
ends; the longest wait of all.
"""
targets = [
    Target("next_grant_ms", "killed", at_most=1500),
    Target("next_grant_ms", "killed", at_most=3000, pick=max),
    Target("stop_gap_ms", "stopped", at_most=50),
]
charts = ("next_grant_ms", "stop_gap_ms")
columns = ("next_grant_ms", "stop_gap_ms")
told = ("next_grant_ms", "stop_gap_ms")
rounds = 20

TAGS_A_STOP = 4_000  # some seconds of requests; many more, and making them keeps the disk busy
WAIT_MS = 10_000


def take(connection, tag):
    """One id; any reply but 200 is an error."""
    response = connection.request("GET", f"/api/segment/get/{tag}?timeout_ms={WAIT_MS}")
    if response.status != 200:
        raise BenchError(f"{tag}: {response}")


class Cluster:
    """The cluster of the case, with new tags as they are needed."""

    def __init__(self, bench):
        self.leafd = bench.start(Leafd(bench.data, bench.leafd))
        self.serial = itertools.count()

    def new_tags(self, count):
        tags = [f"fresh-{next(self.serial)}" for _ in range(count)]
        self.leafd.make_tags(tags, step=1, max_step=1)
        self.leafd.cluster.wait_applied()
        return tags

    def killed(self, _):
        tag = self.new_tags(1)[0]
        leader = self.leafd.cluster.leader()
        with self.leafd.cluster.others(leader)[0].connect() as connection:
            leader.leaving()
            begin = time.monotonic()
            leader.process.kill()
            take(connection, tag)
            elapsed = time.monotonic() - begin
        leader.wait_exit()
        self.back(leader)
        return {"next_grant_ms": 1000 * elapsed}

    def stopped(self, _):
        tags = self.new_tags(TAGS_A_STOP)
        leader = self.leafd.cluster.leader()
        node = self.leafd.cluster.others(leader)[0]
        waits, errors, over = [], [], threading.Event()

        def client():
            try:
                with Connection(node.address) as connection:
                    for tag in tags:
                        begin = time.monotonic()
                        take(connection, tag)
                        waits.append(time.monotonic() - begin)
                        if over.is_set():
                            return
                raise BenchError("the leader took longer to stop than there were tags")
            except Exception as error:  # told below
                errors.append(error)

        thread = threading.Thread(target=client, daemon=True)
        thread.start()
        while len(waits) < 100 and not errors:
            over.wait(0.001)
        before = len(waits)
        leader.stop()
        over.set()
        thread.join(WAIT_MS / 1000 + 1)
        self.back(leader)
        if errors or thread.is_alive():
            raise BenchError(f"while the leader stopped: {errors}")
        return {"stop_gap_ms": 1000 * max(waits[before:])}

    def back(self, node):
        node.start().wait_ready()
        self.leafd.cluster.leader()
        self.leafd.check()


def prepare(bench):
    cluster = Cluster(bench)
    return [
        Procedure("killed", "leader killed", [cluster.leafd],
                  "SIGKILL, then GET of a new tag on another node", cluster.killed),
        Procedure("stopped", "leader stopped", [cluster.leafd],
                  "SIGTERM, with GETs of new tags on another node meanwhile", cluster.stopped),
    ]
