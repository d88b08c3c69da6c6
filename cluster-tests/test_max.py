"""A tag's max, which level 2 brings: its ids stay below it, on every node and in either mode;
before the level it is refused; and it lives through a restart, a snapshot and a dump."""

import pytest

from checker import History
from cluster import FAST
from drain import drain
from wait import wait_until

JS_MAX = 2**53 - 1


def put(node, tag, force=False, **fields):
    return node.http("PUT", f"/api/tags/{tag}{'?force=1' if force else ''}", fields)


def shown(node, tag):
    return node.get_json(f"/api/tags/{tag}")


def test_ids_stay_below_the_max_on_all_nodes(make_cluster, tag):
    cluster = make_cluster()
    made = put(cluster.nodes[0], tag, max=101, step=30)
    assert made.status == 201 and made.json()["max"] == "101", made
    history = History()
    drain(cluster, tag, history)
    assert history.check() == 100
    assert history.highest(tag) == 100
    for node in cluster.nodes:
        answer = node.get(f"/api/segment/get/{tag}")
        assert (answer.status, answer.code) == (409, "exhausted"), answer
    refused = put(cluster.nodes[1], tag, max=100)
    assert (refused.status, refused.code) == (400, "bad_request"), refused
    assert "max is smaller than max_id" in refused.json()["message"]
    assert "warning" in shown(cluster.nodes[2], tag)

    # Raised, it goes on; and all of it is there after a restart of all.
    raised = cluster.nodes[1].http("PUT", f"/api/tags/{tag}?wait=all", {"max": 111})
    assert raised.status == 200, raised
    drain(cluster, tag, history)
    assert history.check() == 110
    cluster.kill_all()
    cluster.start()
    answer = cluster.nodes[0].get(f"/api/segment/get/{tag}")
    assert (answer.status, answer.code) == (409, "exhausted"), answer
    assert put(cluster.nodes[0], tag, max=str(2**63 - 1)).status == 200
    assert "max" not in shown(cluster.nodes[0], tag)
    assert cluster.nodes[0].get(f"/api/segment/get/{tag}").status == 200


def test_strict_ids_stay_below_the_max(make_cluster, tag):
    cluster = make_cluster()
    node = cluster.nodes[0]
    assert put(node, tag, force=True, max=JS_MAX, max_id=JS_MAX - 3, mode="strict").status == 201
    wait_until(lambda: not shown(node, tag)["changing"], 10, "strict")
    answer = node.get(f"/api/segment/get/{tag}?count=4&format=range")
    assert (answer.status, answer.code) == (409, "exhausted"), answer
    assert "3 ids" in answer.json()["message"]
    for number in range(JS_MAX - 3, JS_MAX):
        answer = cluster.nodes[number % 3].get(f"/api/segment/get/{tag}")
        assert (answer.status, answer.body) == (200, str(number).encode()), answer
    answer = node.get(f"/api/segment/get/{tag}")
    assert (answer.status, answer.code) == (409, "exhausted"), answer


def test_a_max_comes_along_in_a_dump_and_a_snapshot(make_cluster, tag):
    cluster = make_cluster(
        settings={**FAST, "raft-snapshot-entries": 3}  # of which no entry stays
    )
    leader = cluster.leader()
    away = cluster.followers()[0]
    away.stop()
    assert put(leader, tag, max=5000, description="bounded").status == 201
    for number in range(60):
        assert put(leader, f"{tag}.{number}", step=10).status == 201
    away.start().wait_ready()
    wait_until(lambda: away.get(f"/api/tags/{tag}").status == 200, 10, "it has the snapshot")
    assert shown(away, tag)["max"] == "5000"
    dump = leader.get("/api/tags?limit=1000").body
    other = make_cluster()
    assert other.nodes[0].http("POST", "/api/tags", dump).status == 200
    assert shown(other.nodes[1], tag)["max"] == "5000"


@pytest.mark.parametrize("value", ["0", 0, -1, "x", 2**63, 1.5, True, None])
def test_a_max_that_is_none(shared, tag, value):
    refused = put(shared.nodes[0], tag, max=value)
    assert (refused.status, refused.code) == (400, "bad_request"), refused
    assert "max" in refused.json()["message"]
