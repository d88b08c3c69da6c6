"""docs/sizing.md for real: a cluster over three sites, and a tag that moves to another cluster."""

import math
import time

import pytest

from chaos.links import Links
from checker import History
from client import tag_path
from drain import drain
from load import Load, wait_all_serve, wait_taken
from wait import ran_s, wait_until

ONE_WAY_MS = 20
ROUND_TRIP_S = 2 * ONE_WAY_MS / 1000
STOOD_S = 0.4  # of the machine: heartbeats may be missed
PAIRS = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b]


@pytest.fixture
def sites(make_cluster):
    """Three nodes, each at a site of its own, with the settings of the page."""
    links = Links()
    cluster = make_cluster(start=False, settings={"http-loops": 2})
    links.attach(cluster)
    cluster.start()
    links.shape(PAIRS, delay_ms=ONE_WAY_MS)
    yield cluster
    links.close()


def took(node, tag):
    """How long an id takes, in seconds: the shortest of eight. Infinity if one was not served."""
    times = []
    statuses = set()
    with node.connect() as connection:
        for _ in range(8):
            begin = time.monotonic()
            statuses.add(connection.request("GET", f"/api/segment/get/{tag}").status)
            times.append(time.monotonic() - begin)
    return min(times) if statuses == {200} else math.inf


@pytest.mark.quiet
def test_three_sites(sites, tag):
    """A strict id costs round trips, a segment's none; and nobody calls an election for that."""
    sites.create_tag(tag)
    sites.create_tag(f"{tag}.strict", mode="strict")

    def measured():
        """What ids take, and the terms before and after; but not if there was an election while the
        machine stood still."""
        leader = sites.leader()
        terms = [leader.cluster_status()["term"]]
        far = sites.others(leader)[0]
        began = time.monotonic() - ran_s()
        figures = {(who, name): took(node, name)
                   for who, node in (("leader", leader), ("far", far))
                   for name in (tag, f"{tag}.strict")}
        terms.append(leader.cluster_status()["term"])
        stood_s = time.monotonic() - ran_s() - began
        return (terms[0] == terms[1] or stood_s < STOOD_S) and (leader, far, figures, terms)

    leader, far, figures, terms = wait_until(measured, 60, "a machine that does not stand still")
    print({key: f"{value * 1000:.1f} ms" for key, value in figures.items()})
    assert figures["leader", tag] < ROUND_TRIP_S and figures["far", tag] < ROUND_TRIP_S
    assert ROUND_TRIP_S <= figures["leader", f"{tag}.strict"] < 4 * ROUND_TRIP_S
    assert 2 * ROUND_TRIP_S <= figures["far", f"{tag}.strict"] < 6 * ROUND_TRIP_S
    assert terms[0] == terms[1]
    leader.kill9()
    begin = time.monotonic()
    sites.wait_leader()
    print(f"a leader after {time.monotonic() - begin:.2f} s")
    assert took(far, tag) < ROUND_TRIP_S


def make_two(make_cluster, size):
    """The old cluster, of this size, and a new one of one node, whose id tells them apart."""
    old, new = make_cluster(size), make_cluster(1, start=False)
    new.nodes[0].id = 11
    new.set_members({11: new.nodes[0].peer_address})
    return old, new.start()


def max_id(node, tag):
    return int(node.get_json(f"/api/tags/{tag_path(tag)}")["max_id"])


def test_a_tag_moves_to_another_cluster(make_cluster, tag):
    """max on the old side, then the same number as max_id on the new one: both serve meanwhile, and
    a node that is paused during all of it hands out nothing again."""
    old, new = make_two(make_cluster, 3)
    history = History()
    old.create_tag(tag, step=100, max_step=100)
    other = old.followers()
    load, moved = Load(history, tag), Load(history, tag)
    for node in old.nodes:
        load.add(node, count=5, wire_format="range", rate=200.0)
    moved.add(new.nodes[0], count=5, wire_format="range", rate=200.0)
    with load:
        wait_taken(load, 500)
        other[0].serving = False
        other[0].pause()
        line = max_id(other[1], tag) + 6_000
        answer = other[1].http("PUT", f"/api/tags/{tag_path(tag)}", {"max": line})
        assert answer.status == 200, answer
        assert new.nodes[0].http("PUT", f"/api/tags/{tag_path(tag)}",
                                 {"max_id": line}).status == 201
        with moved:
            wait_taken(moved, 300)
            other[0].resume()
            other[0].serving = True
            wait_all_serve(load)
    assert load.finish() > 500 and moved.finish() > 300
    drain(old, tag, history)
    for node in old.nodes:
        assert node.get(f"/api/segment/get/{tag_path(tag)}").code == "exhausted"
    assert history.total(tag) > line - 1000
    assert old.nodes[0].http("DELETE", f"/api/tags/{tag_path(tag)}?wait=all").status == 204
    assert max_id(new.nodes[0], tag) > line
    assert history.check() > 1500


def test_a_strict_tag_moves_to_another_cluster(make_cluster, tag):
    """Deleted first: the new side begins above all that the old one acknowledged."""
    old, new = make_two(make_cluster, 1)
    old.create_tag(tag, mode="strict")
    history = History()
    ids_of_strict(history, old.nodes[0], tag, 20)
    line = max_id(old.nodes[0], tag) + 1000
    changed = old.nodes[0].http("PUT", f"/api/tags/{tag_path(tag)}", {"max": line})
    assert changed.status == 200, changed
    ids_of_strict(history, old.nodes[0], tag, 20)
    assert old.nodes[0].http("DELETE", f"/api/tags/{tag_path(tag)}?wait=all").status == 204
    assert old.nodes[0].get(f"/api/segment/get/{tag_path(tag)}").code == "unknown_tag"
    new.create_tag(tag, mode="strict", max_id=line)
    ids_of_strict(history, new.nodes[0], tag, 20)
    assert history.check() == 60
    # Made again on the old side it goes on there; so it is made with a max_id of the new one.
    again = old.nodes[0].http("PUT", f"/api/tags/{tag_path(tag)}", {})
    assert again.status == 201 and int(again.json()["max_id"]) < line


def ids_of_strict(history, node, tag, count):
    track = history.track("one", node.id, tag)
    for _ in range(count):
        value = int(node.get(f"/api/segment/get/{tag_path(tag)}").body)
        track.add(value, value)
