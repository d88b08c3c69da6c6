"""Faults at random under load on all nodes.

  pytest cluster-tests/test_chaos.py --slow                 two minutes
  CHAOS_SEED=7 CHAOS_SECONDS=600 pytest ... --slow          a run again, or longer

Each round breaks something (SIGKILL of one, two or all nodes, a clean stop, a pause, a pause with a
kill, a link cut one way), lets the load feel it, mends it, and waits until all nodes serve and
agree. In the end no id may have come twice over the whole run, and every acknowledged tag must be
there.
"""

import os
import random
import time

import pytest

from checker import History
from cluster import FAST
from load import Load, wait_all_serve, wait_taken
from proxy import Proxies

SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.randrange(1, 1 << 32)
SECONDS = float(os.environ.get("CHAOS_SECONDS", "0"))
SETTINGS = {**FAST, "raft-snapshot-entries": 50, "raft-trailing-entries": 10}


class Chaos:
    """The faults; each leaves the cluster whole again."""

    def __init__(self, cluster, proxies, load, source):
        self.cluster = cluster
        self.proxies = proxies
        self.load = load
        self.source = source
        self.written = 0
        self.acknowledged = {}

    def some_node(self):
        """The leader as often as one of the others."""
        leader = self.cluster.leader()
        return leader if self.source.random() < 0.5 else self.source.choice(self.cluster.nodes)

    def feel(self):
        """Let the load run on for a moment."""
        wait_taken(self.load, self.source.choice([500, 3000, 10_000]), 20)

    def kill_one(self):
        node = self.some_node()
        node.kill9()
        if self.source.random() < 0.7:
            self.feel()
        node.start().wait_ready()

    def kill_two(self):
        first = self.some_node()
        second = self.source.choice([node for node in self.cluster.nodes if node is not first])
        for node in (first, second):
            node.kill9()
        for node in self.source.sample([first, second], 2):
            node.start()
        self.cluster.wait_ready()

    def kill_all(self):
        self.cluster.kill_all()
        self.cluster.start()

    def stop_one(self):
        node = self.some_node()
        node.stop()
        self.feel()
        node.start().wait_ready()

    def pause_one(self):
        node = self.some_node()
        node.pause()
        try:
            self.feel()
        finally:
            node.resume()

    def pause_and_kill(self):
        paused = self.some_node()
        killed = self.source.choice([node for node in self.cluster.nodes if node is not paused])
        paused.pause()
        killed.kill9()
        paused.resume()
        killed.start().wait_ready()

    def cut_one_way(self):
        one, other = self.source.sample(self.cluster.nodes, 2)
        self.proxies.cut(one, other)
        self.feel()
        self.proxies.heal()

    def write_tags(self):
        """Tags through a node that was just hit; only what was acknowledged counts."""
        node = self.source.choice(self.cluster.nodes)
        self.written += 1
        name = f"chaos-{self.written}"
        answer = node.http("PUT", f"/api/tags/{name}", {"max_id": self.written})
        assert answer.status in (201, 503), answer
        if answer.status == 201:
            self.acknowledged[name] = self.written

    def round(self):
        faults = [
            self.kill_one,
            self.kill_one,
            self.kill_two,
            self.kill_all,
            self.stop_one,
            self.pause_one,
            self.pause_and_kill,
            self.cut_one_way,
        ]
        fault = self.source.choice(faults)
        print(f"{time.monotonic():.1f} {fault.__name__}")
        fault()
        for _ in range(5):
            self.write_tags()
        self.cluster.wait_leader(among=self.cluster.nodes)
        wait_all_serve(self.load)


@pytest.fixture
def proxies():
    made = Proxies()
    yield made
    made.close()


def run(make_cluster, proxies, tag, seed, seconds):
    print(f"CHAOS_SEED={seed}")
    cluster = make_cluster(settings=SETTINGS, start=False)
    proxies.attach(cluster)
    cluster.start()
    cluster.create_tag(tag, step=100)
    history = History()
    load = Load(history, tag)
    for node in cluster.nodes:
        # Two quorum losses may follow on each other: these clients wait as long as they may.
        load.add(node, 1, "plain", depth=4, rate=500.0, timeout_ms=10_000)
        load.add(node, 100, "range", rate=2000.0, timeout_ms=10_000)
        load.add(node, 37, "json", rate=500.0, timeout_ms=10_000)
    end = time.monotonic() + seconds
    with load:
        chaos = Chaos(cluster, proxies, load, random.Random(seed))
        while time.monotonic() < end:
            chaos.round()
        load.finish()
    cluster.wait_applied()
    for node in cluster.nodes:
        rows = {}
        after = ""
        while after is not None:
            page = node.get_json(f"/api/tags?prefix=chaos-&limit=1000&after={after}")
            rows.update((row["tag"], int(row["max_id"])) for row in page["tags"])
            after = page["next"]
        lost = {name for name, max_id in chaos.acknowledged.items() if rows.get(name) != max_id}
        assert not lost, f"acknowledged tags are lost on {node}: {sorted(lost)}"
    assert len(chaos.acknowledged) > chaos.written // 2


@pytest.mark.bound(60)
def test_chaos_for_a_moment(make_cluster, proxies, tag):
    run(make_cluster, proxies, tag, SEED, 15)


@pytest.mark.slow
@pytest.mark.bound(SECONDS + 240)
def test_chaos(make_cluster, proxies, tag):
    run(make_cluster, proxies, tag, SEED, SECONDS or 120)
