"""The level of the cluster on real processes: leafds of two ages, one of which speaks a level more
(`make next-level`; it does nothing with it). Rolling upgrades under load, back again, the raise by
itself and by hand, who is in the way, and who is too old (docs/versions.md)."""

import os

import pytest

import leafctl
from cluster import FAST
from every_kind import EveryKind
from node import leafd_path
from ports import take_port
from recovery import check_same_state
from test_membership import take_out, wait_shown, wait_voters
from upgrade import can_rise, come_back, ends_too_old, exchange, exchange_all, leafd_of
from upgrade import level_of
from upgrade import raise_level, wait_can_rise, wait_level
from wait import wait_until

OWN = 3  # the newest level of this build (LEVEL_NEWEST in src/state/codec/level.h)
NEXT = OWN + 1  # and of the other one


def by_hand():
    return {**FAST, "upgrade-hold-ms": "never"}


def by_itself(hold_ms):
    return {**FAST, "upgrade-hold-ms": hold_ms}


def started(make_cluster, settings):
    """A cluster at the newest level of this build."""
    cluster = make_cluster(settings=settings)
    assert [level_of(node) for node in cluster.nodes] == [OWN] * 3
    return cluster


def test_the_first_request_of_a_new_cluster_may_use_its_newest_level(make_cluster, tag):
    """It is refused only for as long as there is no cluster."""
    cluster = make_cluster(start=False, settings=by_hand())
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        wait_until(node.serves, 30, f"{node} serves")
        path = f"/api/tags/{tag}{node.id}?timeout_ms=1000"

        def put(node=node, path=path):
            answer = node.http("PUT", path, {"increment": 2, "offset": 1})
            return answer if answer.status != 503 else None

        assert wait_until(put, 30, f"an answer of {node}").status == 201
    assert [level_of(node) for node in cluster.nodes] == [OWN] * 3
    risen = cluster.nodes[0].cluster_status()["level"]["index"]
    assert risen == 2, "the birth is the entry after the first list of members"


@pytest.mark.parametrize("older", [1, 3])
def test_a_new_cluster_is_born_at_the_level_of_its_oldest_member(make_cluster, tag, older):
    cluster = make_cluster(start=False, settings=by_hand())
    for node in cluster.nodes:
        node.binary = leafd_path() if node.id == older else leafd_of("next")
    cluster.start()
    assert [level_of(node) for node in cluster.nodes] == [OWN] * 3
    ready, why = can_rise(cluster.nodes[0])
    assert not ready and f"node {older} (leafd" in why, why
    for node in cluster.nodes:
        cluster.create_tag(f"{tag}{node.id}", node, increment=2, offset=1)
    check_same_state(cluster.nodes)


def test_a_new_cluster_of_newer_leafds_is_born_at_their_level(make_cluster, tmp_path):
    cluster = make_cluster(start=False, settings=by_hand())
    for node in cluster.nodes:
        node.binary = leafd_of("next")
    cluster.start()
    assert [level_of(node) for node in cluster.nodes] == [NEXT] * 3
    # An older leafctl takes no backup that it cannot look at, and says so.
    done = leafctl.of(cluster, tmp_path)("backup", tmp_path / "b", code=65)
    assert "b.part cannot be checked here: written in format" in done.err, done


def ends_as_too_old(node, reason):
    ends_too_old(node, reason, NEXT, f"1 to {OWN}")


def upgrade_all(cluster):
    exchange_all(cluster, leafd_of("next"))


def guest(cluster, node_id, binary):
    """One more member, for a while."""
    node = cluster.newcomer(node_id, *cluster.nodes)
    node.binary = binary
    node.start().wait_ready()
    wait_voters(cluster, {n.id for n in cluster.nodes})
    return node


def take_leave(cluster, node):
    take_out(cluster, node, cluster.others(node)[0])
    wait_voters(cluster, {n.id for n in cluster.nodes})


def move(cluster, node, binary):
    """Exchange it, and have it live at another address."""
    node.stop()
    before = node.peer_address
    node.peer_port = take_port()
    node.members = node.members.replace(before, node.peer_address)
    come_back(cluster, node, binary)
    wait_shown(cluster, node, node.peer_address)


@pytest.mark.bound(180)
def test_up_and_back_and_up_and_the_level_under_load_of_every_kind(make_cluster, recorder):
    """In each mixture the states of all nodes are the same, to the row."""
    cluster = started(make_cluster, by_hand())
    old, new = leafd_path(), leafd_of("next")
    every = EveryKind(cluster, recorder)
    first, second, third = cluster.nodes
    with every.load():
        exchange(cluster, first, new)
        every.wait_more()
        visitor = guest(cluster, 4, new)
        exchange(cluster, second, new)
        every.wait_more()
        take_leave(cluster, visitor)
    check_same_state(cluster.nodes)  # two new ones and an old one
    with every.load():
        exchange(cluster, third, new)
        every.wait_more()
        for node in cluster.nodes:
            exchange(cluster, node, old)
        every.wait_more()
        take_leave(cluster, guest(cluster, 5, old))
    check_same_state(cluster.nodes)
    with every.load():
        exchange(cluster, first, new)
        move(cluster, second, new)
        exchange(cluster, third, new)
        every.wait_more()
        wait_can_rise(first)
        assert level_of(first) == OWN
        response = raise_level(cluster.followers()[0], NEXT)
        assert response.status == 200 and response.json()["status"] == "done", response
        wait_level(cluster, NEXT)
        every.wait_more()
    check_same_state(cluster.nodes)
    every.check()
    digests_agree(cluster)


def digests_agree(cluster):
    """Who differs ends with 79 once the leader has them compared; a restart of all compares the
    rows with the digest that was stored."""
    cluster.stop_all()
    cluster.start()


def test_it_rises_by_itself_after_the_hold(make_cluster):
    cluster = started(make_cluster, by_itself(1000))
    for node in cluster.nodes[:2]:
        exchange(cluster, node, leafd_of("next"))
    assert not can_rise(cluster.nodes[0])[0]
    exchange(cluster, cluster.nodes[2], leafd_of("next"))
    wait_level(cluster, NEXT)
    for node in cluster.nodes:
        node.wait_log(rf'msg="the level of the cluster has risen" level={NEXT} was={OWN}')
    status = cluster.nodes[0].cluster_status()
    assert status["level"]["index"] > 0 and status["level"]["since"]
    assert [m["levels"] for m in status["members"]] == [{"min": 1, "max": NEXT}] * 3
    metrics = cluster.nodes[0].get("/metrics").text
    assert f"\nleafd_level {NEXT}\n" in metrics and f"\nleafd_level_able {NEXT}\n" in metrics
    assert cluster.nodes[0].get_json("/version")["level"] == NEXT


def test_who_is_in_the_way_is_named_and_nothing_happens(make_cluster):
    cluster = started(make_cluster, by_itself(0))
    for node in cluster.nodes[:2]:
        exchange(cluster, node, leafd_of("next"))
    ready, why = can_rise(cluster.nodes[0])
    assert not ready and "node 3 (leafd" in why and f"speaks levels 1 to {OWN}" in why, why
    response = raise_level(cluster.nodes[0], NEXT)
    assert response.status == 409 and response.json()["code"] == "in_the_way", response
    assert "node 3" in response.json()["message"]
    response = raise_level(cluster.nodes[0], NEXT + 1)
    assert response.status == 409 and response.json()["code"] == "not_the_next_level", response
    cluster.nodes[2].stop()  # away, it may come back as it was
    response = raise_level(cluster.nodes[0], NEXT)
    assert response.status == 409 and "node 3" in response.json()["message"], response
    assert level_of(cluster.nodes[0]) == OWN
    cluster.nodes[2].start().wait_ready()


def test_the_removal_of_the_one_in_the_way_lets_it_rise(make_cluster):
    cluster = started(make_cluster, by_itself(500))
    for node in cluster.nodes[:2]:
        exchange(cluster, node, leafd_of("next"))
    last = cluster.nodes[2]
    last.expect_log("this node was removed|a peer refuses this node")
    last.leaving()
    wait_until(
        lambda: cluster.nodes[0].http("DELETE", "/api/cluster/members/3?timeout_ms=5000").status
        == 200,
        30,
        "node 3 removed",
    )
    last.wait_exit()
    cluster.dismiss(last)
    wait_level(cluster, NEXT)


def test_an_older_leafd_is_refused_once_the_level_has_risen(make_cluster):
    """On its own data; as one that slept through it; and as one that joins."""
    cluster = started(make_cluster, by_hand())
    old = leafd_path()
    upgrade_all(cluster)
    wait_can_rise(cluster.nodes[0])
    sleeper = cluster.followers()[0]
    others = cluster.others(sleeper)
    assert raise_level(others[0], NEXT).status == 200
    wait_level(cluster, NEXT)
    sleeper.stop()
    sleeper.binary = old
    sleeper.start()
    ends_as_too_old(sleeper, f"level {NEXT}")
    newcomer = cluster.newcomer(4, *others)
    newcomer.binary = old
    newcomer.start()
    ends_as_too_old(
        newcomer, f"the cluster is at level {NEXT} and this leafd speaks levels 1 to {OWN}"
    )
    assert 4 not in [member["id"] for member in others[0].cluster_status()["members"]]
    for node in (sleeper, newcomer):
        node.binary = leafd_of("next")
        node.start().wait_ready()
    wait_level(cluster, NEXT)


def test_a_node_put_back_while_away_stops_before_the_raise_and_goes_on_upgraded(make_cluster):
    """It said that it speaks the next level, went back, and hears of the raise from the others."""
    cluster = started(make_cluster, by_hand())
    upgrade_all(cluster)
    wait_can_rise(cluster.nodes[0])
    sleeper = cluster.followers()[0]
    others = cluster.others(sleeper)
    assert raise_level(others[0], NEXT).status == 200
    sleeper.kill9()
    applied = others[0].cluster_status()["applied_index"]
    sleeper.binary = leafd_path()
    sleeper.start()
    ends_as_too_old(sleeper, f"level {NEXT}")
    sleeper.binary = leafd_of("next")
    sleeper.start().wait_ready()
    wait_level(cluster, NEXT)
    wait_until(
        lambda: sleeper.cluster_status()["applied_index"] >= applied, 20, "the node has caught up"
    )


def test_a_standby_in_the_way_is_named(make_cluster):
    """One that was added and never came."""
    cluster = started(make_cluster, by_itself(0))
    body = {"id": 4, "peer_address": "127.0.0.1:1"}
    response = cluster.nodes[0].http("POST", "/api/cluster/members?timeout_ms=8000", body)
    assert response.status in (202, 409), response
    upgrade_all(cluster)
    ready, why = can_rise(cluster.nodes[0])
    assert not ready and "node 4" in why, why
    assert level_of(cluster.nodes[0]) == OWN
    wait_until(
        lambda: cluster.nodes[0].http("DELETE", "/api/cluster/members/4?timeout_ms=5000").status
        == 200,
        30,
        "node 4 removed",
    )
    wait_level(cluster, NEXT)
