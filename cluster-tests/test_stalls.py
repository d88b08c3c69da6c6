"""How long the loops stand still, and that strict requests pass between bulk changes."""

import re
import threading

import pytest

from cluster import STEADY
from test_snapshot import bulk_put

BULKS = 6
TAGS = 10_000
# A turn of the raft loop may take 5 ms of a processor. Where others use the caches, as where tests
# run side by side, the same work takes up to twice the time.
BUSIEST_S = 2 * 0.005


def stalls(node, name):
    """Seconds by loop."""
    found = re.findall(rf'^{name}{{loop="([^"]+)"}} ([0-9.]+)$', node.get("/metrics").text, re.M)
    return {loop: float(seconds) for loop, seconds in found}


def test_each_loop_shows_its_longest_turn(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    for node in cluster.nodes:
        minute = stalls(node, "leafd_loop_longest_stall_minute_seconds")
        ever = stalls(node, "leafd_loop_longest_stall_seconds")
        assert {"raft", "http-0"} <= set(ever) == set(minute)
        for loop, seconds in ever.items():
            assert 0 <= minute[loop] <= seconds < 60, (node, loop)


def test_strict_requests_pass_between_bulk_changes(make_cluster, tag):
    """Many bulk changes wait at once: a strict request waits for one of them at most."""
    cluster = make_cluster()
    leader = cluster.leader()
    cluster.create_tag(tag, mode="strict")
    answered = []

    def change(number):
        rows = [{"tag": f"bulk-{number}-{i}", "step": 10} for i in range(TAGS)]
        assert bulk_put(leader, rows) == {"made": TAGS, "changed": 0}
        answered.append(number)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(BULKS)]
    for thread in threads:
        thread.start()
    ids = []
    while len(answered) < BULKS and any(thread.is_alive() for thread in threads):
        before = len(answered)
        ids.append(int(leader.get(f"/api/segment/get/{tag}?timeout_ms=10000").text))
        assert len(answered) - before <= 2, "a strict request waited for several bulk changes"
    for thread in threads:
        thread.join()
    assert sorted(answered) == list(range(BULKS))
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert len(ids) >= BULKS // 2
    assert stalls(leader, "leafd_loop_longest_stall_seconds")["raft"] > 0


@pytest.mark.alone
def test_no_turn_works_long(make_cluster, tag):
    """Bulks of new tags with long texts (3.2 MB each), of changes by way of a follower, all at
    once; pages of tags, backups; a node that catches up: none of it keeps a raft loop busy for
    long."""
    cluster = make_cluster(settings=STEADY)
    leader = cluster.leader()
    others = [node for node in cluster.nodes if node is not leader]

    def busiest():
        return {node.id: stalls(node, "leafd_loop_busiest_turn_cpu_seconds")["raft"]
                for node in cluster.nodes}

    changed = []

    def change(number, node, step):
        rows = [{"tag": f"{tag}-{number}-{i}", "step": step, "description": "x" * 254}
                for i in range(TAGS)]
        made = TAGS if step == 10 else 0
        assert bulk_put(node, rows) == {"made": made, "changed": TAGS - made}
        changed.append((number, step))

    for number in range(BULKS):
        change(number, leader, 10)
    threads = [threading.Thread(target=change, args=(number, others[number % 2], 20))
               for number in range(BULKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(changed) == [(number, step) for number in range(BULKS) for step in (10, 20)]
    for node in cluster.nodes:
        assert len(node.get("/api/tags?limit=1000").json()["tags"]) == 1000
        assert node.get("/api/backup").status == 200
    others[0].restart()
    change(0, leader, 30)
    found = busiest()
    assert all(0 < seconds <= BUSIEST_S for seconds in found.values()), found
