"""How long the loops stand still, and that strict requests pass between bulk changes."""

import re
import threading

from test_snapshot import bulk_put

BULKS = 6
TAGS = 10_000


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
