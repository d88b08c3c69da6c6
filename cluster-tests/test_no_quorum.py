"""One of three left: it hands out what it holds, then says no_leader in time, and goes on with a
second."""

import threading
import time

import pytest

from checker import History
from wait import ran_s, wait_until

SLACK_S = 1.0


def held_ids(node, tag):
    """How many ids the node holds of a tag, from its own view of the buffers."""
    page = node.get_json(f"/api/node/segments?prefix={tag}")
    entry = next(item for item in page["segments"] if item["tag"] == tag)
    return sum(int(slot["end"]) - int(slot["next_id"]) for slot in entry["slots"] if slot["size"])


def take_until_refused(node, tag, track):
    taken = 0
    with node.connect() as connection:
        while True:
            answer = connection.request("GET", f"/api/segment/get/{tag}?timeout_ms=0")
            if answer.status != 200:
                return taken, answer
            track.add(int(answer.body), int(answer.body), answer)
            taken += 1


def check_refused(answer):
    assert (answer.status, answer.code) == (503, "no_leader"), answer
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.quiet
@pytest.mark.parametrize("survivor_leads", [True, False])
# Shows P4-killed.
def test_survivor(make_cluster, tag, survivor_leads):
    cluster = make_cluster()
    cluster.create_tag(tag, step=200)
    history = History()
    leader = cluster.leader()
    survivor = leader if survivor_leads else cluster.followers()[0]
    gone = cluster.others(survivor)
    track = history.track("client", survivor.id, tag)
    for _ in range(30):
        answer = survivor.get(f"/api/segment/get/{tag}")
        track.add(int(answer.body), int(answer.body), answer)
    wait_until(lambda: held_ids(survivor, tag) > 200, 5, "the second slot is filled")
    for node in gone:
        node.kill9()
    wait_until(lambda: survivor.sees_no_leader(), 10, "no leader is known")

    held = held_ids(survivor, tag)
    taken, refused = take_until_refused(survivor, tag, track)
    assert taken == held
    check_refused(refused)

    for timeout_ms in (0, 700):
        start, ran = time.monotonic(), ran_s()
        answer = survivor.get(f"/api/segment/get/{tag}?timeout_ms={timeout_ms}")
        assert ran_s() - ran < timeout_ms / 1000 + SLACK_S
        assert timeout_ms / 1000 - 0.05 <= time.monotonic() - start
        check_refused(answer)

    # The other routes tell the truth, too.
    assert survivor.get("/livez").status == 200
    wait_until(lambda: survivor.get("/readyz").status == 503, 5, "not ready: no ids, no leader")
    assert survivor.get(f"/api/tags/{tag}?consistency=local").status == 200
    refused = survivor.get(f"/api/tags/{tag}")
    assert refused.status == 503 and refused.code in ("no_leader", "timeout")
    refused = survivor.http("PUT", "/api/tags/other", {})
    assert refused.status == 503 and refused.code in ("no_leader", "timeout")

    # A request that waits is answered as soon as there is a majority again.
    waited = []
    waiter = threading.Thread(
        target=lambda: waited.append(survivor.get(f"/api/segment/get/{tag}?timeout_ms=10000"))
    )
    waiter.start()
    gone[0].start()
    waiter.join(30)
    assert waited and waited[0].status == 200, waited
    track.add(int(waited[0].body), int(waited[0].body), waited[0])
    gone[0].wait_ready()
    for node in (survivor, gone[0]):
        other = history.track(f"after{node.id}", node.id, tag)
        for _ in range(300):
            answer = node.get(f"/api/segment/get/{tag}")
            assert answer.status == 200
            other.add(int(answer.body), int(answer.body), answer)
    history.check()


@pytest.mark.quiet
def test_default_timeout_is_three_seconds(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag, step=1)
    survivor = cluster.leader()
    for node in cluster.others(survivor):
        node.kill9()
    track = History().track("client", survivor.id, tag)
    wait_until(lambda: survivor.sees_no_leader(), 10, "no leader is known")
    take_until_refused(survivor, tag, track)
    start, ran = time.monotonic(), ran_s()
    check_refused(survivor.get(f"/api/segment/get/{tag}"))
    assert ran_s() - ran < 3.0 + SLACK_S
    assert 2.9 <= time.monotonic() - start


def test_unknown_tag_without_a_leader(make_cluster, tag):
    """Without a majority nobody can know whether the tag exists: that is 503, not 404."""
    cluster = make_cluster()
    survivor = cluster.followers()[0]
    for node in cluster.others(survivor):
        node.kill9()
    wait_until(lambda: survivor.sees_no_leader(), 10, "no leader is known")
    check_refused(survivor.get(f"/api/segment/get/{tag}?timeout_ms=300"))
