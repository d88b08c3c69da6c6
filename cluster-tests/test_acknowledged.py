"""What a change of a tag means once it is acknowledged: on the node that did, and on all of them.

The heartbeats are so far apart that a node which waited for its own log would be seen: it hears of
a commit with the leader's next message, which here comes up to 400 ms later.
"""

import json

import pytest

from client import request_bytes
from cluster import STEADY
from node import take
from wait import wait_until

ROUNDS = 8
STRIDE = 1_000_000


@pytest.fixture
def slow(make_cluster):
    return make_cluster(settings=STEADY)


def put(node, tag, query="", **fields):
    return node.http("PUT", f"/api/tags/{tag}{query}", fields)


def code_of(response):
    return response.json()["code"]


def missing(response):
    assert (response.status, code_of(response)) == (503, "not_everywhere"), response
    return {row["id"]: row["reachable"] for row in response.json()["missing"]}


def unreachable(via, node):
    members = via.cluster_status()["members"]
    return not next(m["reachable"] for m in members if m["id"] == node.id)


# Shows P1-tags.
def test_who_acknowledged_a_raise_hands_out_nothing_below(slow, tag):
    slow.create_tag(tag, step=1000)
    floor = 1
    for round_number in range(ROUNDS):
        for node in slow.nodes:
            assert take(node, tag) >= floor
            floor += STRIDE
            assert put(node, tag, max_id=floor).status == 200
            got = take(node, tag)
            assert got >= floor, f"{node}, round {round_number}: {got} after max_id={floor}"


def test_who_acknowledged_a_bulk_or_a_deletion_too(slow, tag):
    for node in slow.followers():
        names = [f"{tag}.{node.id}.{number}" for number in range(5)]
        for name in names:
            slow.create_tag(name, step=1000)
            take(node, name)
        bulk = [{"tag": name, "max_id": STRIDE} for name in names]
        answer = node.http("POST", "/api/tags", bulk)
        assert answer.json() == {"made": 0, "changed": len(names)}
        for name in names:
            assert take(node, name) >= STRIDE
            assert node.http("DELETE", f"/api/tags/{name}").status == 204
            assert node.get(f"/api/segment/get/{name}").status == 404


# Shows P1-tags.
def test_wait_all_means_every_node(slow, tag):
    slow.create_tag(tag, step=1000)
    floor = 1
    for node in slow.nodes:
        for other in slow.nodes:
            assert take(other, tag) >= floor
        floor += STRIDE
        assert put(node, tag, "?wait=all", max_id=floor).status == 200
        for other in slow.nodes:
            got = take(other, tag)
            assert got >= floor, f"{other}: {got} after {node} said max_id={floor} everywhere"
            row = other.get_json(f"/api/tags/{tag}?consistency=local")
            assert int(row["max_id"]) >= floor
    assert slow.nodes[0].http("DELETE", f"/api/tags/{tag}?wait=all").status == 204
    for other in slow.nodes:
        assert other.get(f"/api/segment/get/{tag}").status == 404


def test_wait_all_names_who_hangs_and_who_is_dead(slow, tag):
    slow.create_tag(tag, step=1000)
    leader = slow.leader()
    via, other = slow.followers()
    take(other, tag)
    other.pause()
    answer = put(via, tag, "?wait=all&timeout_ms=3000", max_id=STRIDE)
    assert missing(answer) == {other.id: True}
    assert f"node {other.id} has not followed within 3000 ms" in answer.json()["message"]
    assert take(via, tag) >= STRIDE  # the change is made
    other.resume()
    # The same once more waits for it.
    assert put(via, tag, "?wait=all&timeout_ms=10000", max_id=2 * STRIDE).status == 200
    assert take(other, tag) >= 2 * STRIDE
    other.kill9()
    wait_until(lambda: unreachable(leader, other), 30, f"{leader} misses {other}")
    gone = leader.http("DELETE", f"/api/tags/{tag}?wait=all&timeout_ms=3000")
    assert missing(gone) == {other.id: False}
    again = leader.http("DELETE", f"/api/tags/{tag}?wait=all&timeout_ms=3000")
    assert missing(again) == {other.id: False}
    other.start()
    other.wait_ready()
    again = leader.http("DELETE", f"/api/tags/{tag}?wait=all&timeout_ms=10000")
    assert (again.status, code_of(again)) == (404, "unknown_tag")


def test_wait_all_ends_when_who_is_missing_is_removed(slow, tag):
    leader = slow.leader()
    via, other = slow.followers()
    other.kill9()
    wait_until(lambda: unreachable(leader, other), 30, f"{leader} misses {other}")
    assert missing(put(via, tag, "?wait=all&timeout_ms=0")) is not None
    removal = leader.http("DELETE", f"/api/cluster/members/{other.id}?timeout_ms=10000&force=1")
    assert removal.status == 200, removal
    assert put(via, tag, "?wait=all&timeout_ms=10000").status == 200
    slow.dismiss(other)


def test_a_node_that_stops_answers_who_waits_for_all(make_cluster, tag):
    cluster = make_cluster(settings=STEADY)
    leader = cluster.leader()
    via, other = cluster.followers()
    cluster.create_tag(tag)
    other.kill9()
    wait_until(lambda: unreachable(via, other), 30, f"{via} misses {other}")
    with via.connect() as connection:
        fields = json.dumps({"max_id": STRIDE}).encode()
        connection.send(request_bytes("PUT", f"/api/tags/{tag}?wait=all&timeout_ms=10000", fields))
        wait_until(
            lambda: int(leader.get_json(f"/api/tags/{tag}")["max_id"]) == STRIDE, 10, "the change"
        )
        via.stop()
        answer = connection.read_response()
    assert missing(answer)[other.id] is False
    assert "the change is made" in answer.json()["message"]
    assert "stopping" in answer.json()["message"]
