"""A follower that was away while the log was compacted catches up through a snapshot."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import tag_path
from cluster import FAST
from wait import wait_until

SMALL_LOG = {**FAST, "raft-snapshot-entries": 64}

INSTALLED = r"(?i)snapshot.*install|install.*snapshot"


def bulk_put(node, tags):
    answer = node.http("POST", "/api/tags?timeout_ms=10000", tags, timeout=30)
    assert answer.status == 200, answer
    return answer.json()


def outgrow_the_log(cluster, via, entries):
    """Write so many entries that the log's head is cut off."""
    with via.connect() as connection:
        for number in range(entries):
            body = b'{"description":"change %d"}' % number
            answer = connection.request("PUT", "/api/tags/churn", body)
            assert answer.status in (200, 201), answer


def all_rows(node, consistency):
    """Every tag of a node, page by page."""
    rows = []
    after = ""
    while True:
        page = node.get_json(
            f"/api/tags?limit=500&after={tag_path(after)}&consistency={consistency}"
        )
        rows.extend(page["tags"])
        if not page.get("next"):
            return rows
        after = page["next"]


@pytest.mark.parametrize("tag_count", [3, 5000])
# Shows P1-snapshot.
def test_follower_catches_up_through_a_snapshot(make_cluster, tag_count):
    cluster = make_cluster(settings=SMALL_LOG)
    cluster.create_tag("churn")
    away = cluster.followers()[0]
    # Something it knows and has in use, that changes while it is away.
    cluster.create_tag("seen", step=10)
    assert away.get("/api/segment/get/seen").status == 200
    away.kill9()

    leader = cluster.leader()
    tags = [{"tag": f"t{number:05}", "max_id": 1000 + number} for number in range(tag_count)]
    for start in range(0, tag_count, 1000):
        bulk_put(leader, tags[start : start + 1000])
    taken = leader.get("/api/segment/get/seen?count=1000&format=range")
    assert taken.status == 200
    highest = max(int(line.split()[1]) for line in taken.text.splitlines())
    outgrow_the_log(cluster, leader, 300)

    size = len(away.log())
    away.start()
    away.wait_log(INSTALLED, timeout=20, start=size)
    away.wait_ready()
    cluster.wait_applied()

    assert all_rows(away, "local") == all_rows(leader, "linearizable")
    assert len(all_rows(away, "local")) == tag_count + 2
    answer = away.get("/api/segment/get/seen")
    assert answer.status == 200 and int(answer.body) > highest


@pytest.mark.bound(120)
def test_a_state_that_takes_longer_than_the_leader_waits(make_cluster):
    """The core asks for another snapshot after three election timeouts, here 0.3 s. To take in
    400,000 tags takes longer, and meanwhile the log is cut many times: they come, are installed,
    and what comes behind them is there yet."""
    cluster = make_cluster(settings={**SMALL_LOG, "raft-election-ms": 100, "quota": "tags=100%"})
    cluster.create_tag("churn")
    tags = [{"tag": f"t{number:06}"} for number in range(400_000)]
    for start in range(0, len(tags), 10_000):
        bulk_put(cluster.leader(), tags[start : start + 10_000])
    away = cluster.followers()[0]
    away.kill9()
    leader = cluster.leader()
    outgrow_the_log(cluster, leader, 300)

    size = len(away.log())
    over = threading.Event()

    def write():
        while not over.is_set():
            outgrow_the_log(cluster, leader, 20)

    def applied(node):
        return node.cluster_status()["applied_index"]

    def installed():
        return len(re.findall(INSTALLED, away.log()[size:]))

    with ThreadPoolExecutor(16) as pool:
        writers = [pool.submit(write) for _ in range(16)]
        try:
            away.start()
            away.wait_log(INSTALLED, timeout=60, start=size)
            wait_until(lambda: applied(leader) - applied(away) < 64, 20, "it has what came behind")
            then = applied(leader)
            wait_until(lambda: applied(leader) > then + 1000, 20, "a thousand entries more")
        finally:
            over.set()
    for writer in writers:
        writer.result()
    # One; a new leader, on a machine that is busy, may have cut its log already.
    assert installed() <= 3, f"{away} needed one snapshot after the other"
    cluster.wait_applied()


# Shows P1-snapshot.
def test_node_leads_right_after_a_snapshot(make_cluster, tag):
    """What came by snapshot is as good as what came by log: nothing is repeated or lost."""
    cluster = make_cluster(settings=SMALL_LOG)
    cluster.create_tag(tag, step=10)
    cluster.create_tag("churn")
    away, third = cluster.followers()
    first = away.get(f"/api/segment/get/{tag}?count=10&format=range")
    assert first.status == 200
    away.kill9()
    leader = cluster.leader()
    second = leader.get(f"/api/segment/get/{tag}?count=500&format=range")
    assert second.status == 200
    outgrow_the_log(cluster, leader, 200)
    size = len(away.log())
    away.start()
    away.wait_log(INSTALLED, timeout=20, start=size)
    away.wait_ready()
    cluster.wait_applied()
    rows = all_rows(leader, "linearizable")
    # The third misses what follows, then the leader goes: the one that came back must lead.
    third.kill9()
    outgrow_the_log(cluster, leader, 5)
    cluster.wait_applied()
    leader.kill9()
    third.start().wait_ready()
    assert cluster.wait_leader(among=[away, third]) is away
    highest = max(int(line.split()[1]) for line in second.text.splitlines())
    for node in (away, third):
        answer = node.get(f"/api/segment/get/{tag}")
        assert answer.status == 200 and int(answer.body) > highest
    changed = (tag, "churn")
    kept = [row for row in all_rows(away, "linearizable") if row["tag"] not in changed]
    assert kept == [row for row in rows if row["tag"] not in changed]


def test_snapshot_survives_a_restart(make_cluster):
    """After an install and a kill the node starts from what was installed."""
    cluster = make_cluster(settings=SMALL_LOG)
    cluster.create_tag("churn")
    away = cluster.followers()[0]
    away.kill9()
    leader = cluster.leader()
    bulk_put(leader, [{"tag": f"t{number}"} for number in range(100)])
    outgrow_the_log(cluster, leader, 200)
    size = len(away.log())
    away.start()
    away.wait_log(INSTALLED, timeout=20, start=size)
    cluster.wait_applied()
    away.restart()
    cluster.wait_applied()
    wait_until(
        lambda: all_rows(away, "local") == all_rows(leader, "linearizable"), 5, "equal rows"
    )
