"""The membership changes on real processes under load: nodes join, go, are replaced; leadership
moves. No id twice, and no error for the clients of a node that lives and is a member."""

import shutil
import threading

import pytest

from checker import History
from cluster import FAST, STEADY
from load import mixed_load, wait_all_serve, wait_taken
from ports import take_port
from wait import wait_until

MEMBERS = "/api/cluster/members"
REMOVED_EXIT = 77
WIPED_EXIT = 76
CONFIG_EXIT = 64


def remove(via, node_id, options="timeout_ms=10000"):
    return via.http("DELETE", f"{MEMBERS}/{node_id}?{options}")


def add(via, node_id, address, options="timeout_ms=10000"):
    body = {"id": node_id, "peer_address": address}
    return via.http("POST", f"{MEMBERS}?{options}", body)


def lead(via, node_id, options="timeout_ms=10000"):
    return via.http("POST", f"/api/cluster/leader?{options}", {"id": node_id})


def removed(via, node_id):
    """Remove it, for as long as the answer is that it is not done yet."""

    def done():
        response = remove(via, node_id)
        assert response.status in (200, 202, 503), response
        return response.status == 200

    wait_until(done, 60, f"the removal of node {node_id}")


def led(via, target):
    """Have the node lead, likewise."""

    def done():
        response = lead(via, target.id)
        assert response.status in (200, 202, 503), response
        return response.status == 200 and target.cluster_status()["state"] == "leader"

    wait_until(done, 60, f"{target} leads")


def wait_unreachable(via, node):
    def so():
        members = via.cluster_status()["members"]
        return not next(m["reachable"] for m in members if m["id"] == node.id)

    wait_until(so, 30, f"{via} misses {node}")


def code_of(response):
    return response.json()["code"]


def change_of(node):
    return node.cluster_status()["change"]


def wait_voters(cluster, ids, timeout=60.0):
    """Until exactly these vote, nobody stands by, and no change is under way."""

    def so():
        leader = cluster.find_leader()
        if leader is None:
            return False
        status = leader.cluster_status()
        roles = {m["id"]: m["role"] for m in status["members"]}
        return roles == {node_id: "voter" for node_id in ids} and status["change"] is None

    wait_until(so, timeout, f"voters {sorted(ids)}")


def join(cluster, node_id, *targets):
    node = cluster.newcomer(node_id, *targets)
    node.start().wait_ready()
    return node


def take_out(cluster, node, via):
    """Remove a running node; it ends by itself."""
    node.expect_log("this node was removed|a peer refuses this node")
    node.leaving()
    removed(via, node.id)
    assert node.wait_exit() == REMOVED_EXIT
    cluster.dismiss(node)


@pytest.mark.bound(240)
# Shows P1-members.
def test_three_to_five_and_back_under_load(make_cluster, tag):
    """Two nodes join by the flag; then the leader and a follower go."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 20_000)
        join(cluster, 4)
        wait_voters(cluster, {1, 2, 3, 4})
        wait_taken(load, 20_000)
        join(cluster, 5, cluster.node(4))
        wait_voters(cluster, {1, 2, 3, 4, 5})
        wait_taken(load, 20_000)
        leader = cluster.leader()
        take_out(cluster, leader, cluster.others(leader)[0])
        wait_taken(load, 20_000)
        follower = cluster.followers()[0]
        take_out(cluster, follower, cluster.leader())
        wait_taken(load, 20_000)
        wait_voters(cluster, {node.id for node in cluster.nodes})
        wait_all_serve(load)
        load.finish()
    assert len(cluster.nodes) == 3
    for node in cluster.nodes:
        assert node.http("GET", f"/api/segment/get/{tag}").status == 200
    cluster.wait_applied()


@pytest.mark.bound(180)
# Shows P1-members.
def test_killed_node_is_replaced_under_load(make_cluster, tag):
    cluster = make_cluster(settings=STEADY)
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 20_000)
        dead = cluster.leader()
        dead.kill9()
        wait_all_serve(load)
        cluster.dismiss(dead)
        via = cluster.wait_leader()
        removed(via, dead.id)
        join(cluster, 4)
        wait_voters(cluster, {node.id for node in cluster.nodes})
        wait_taken(load, 20_000)
        # The old one comes back: nobody talks to it, and it ends.
        dead.expect_log("this node was removed|a peer refuses this node")
        term = cluster.leader().cluster_status()["term"]
        dead.start()
        assert dead.wait_exit() == REMOVED_EXIT
        assert "removed from the cluster" in dead.log()
        assert cluster.leader().cluster_status()["term"] == term, "it caused an election"
        wait_all_serve(load)
        load.finish()


@pytest.mark.bound(180)
# Shows lesson-transfer.
def test_leadership_moves_under_load_without_an_error(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        for i in range(6):
            wait_taken(load, 10_000)
            leader = cluster.leader()
            target = cluster.others(leader)[i % 2]
            via = cluster.nodes[i % 3]
            led(via, target)
        load.finish()
    assert all(client.reconnects == 0 for client in load.clients)


@pytest.mark.bound(120)
def test_transfer_refused(make_cluster):
    cluster = make_cluster()
    leader = cluster.leader()
    follower, other = cluster.others(leader)
    assert lead(follower, leader.id).status == 200  # it leads already
    assert code_of(lead(follower, 9)) == "unknown_member"
    other.kill9()
    wait_unreachable(leader, other)
    response = lead(follower, other.id)
    assert (response.status, code_of(response)) == (503, "unreachable")
    assert cluster.leader() is leader


@pytest.mark.bound(120)
def test_operator_adds_first_and_the_node_comes_later(make_cluster):
    cluster = make_cluster()
    node = cluster.newcomer(4)
    via = cluster.followers()[0]
    response = add(via, 4, node.peer_address, "timeout_ms=200")
    assert response.status == 202, response
    assert response.json()["status"] == "pending"
    wait_until(lambda: cluster.members().get(4) == "standby", 30, "the standby")
    change = change_of(cluster.leader())
    assert (change["kind"], change["id"], change["state"]) == ("add", 4, "under_way")
    # One change at a time; the same one may be asked for again.
    refused = add(via, 5, "127.0.0.1:1")
    assert (refused.status, code_of(refused)) == (409, "in_progress")
    refused = remove(via, 1)
    assert (refused.status, code_of(refused)) == (409, "in_progress")
    refused = add(via, 4, "127.0.0.1:1")
    assert (refused.status, code_of(refused)) == (409, "conflict")
    refused = add(via, 5, node.peer_address)
    assert (refused.status, code_of(refused)) == (409, "address_in_use")
    node.start().wait_ready()
    wait_until(lambda: add(via, 4, node.peer_address).status == 200, 60, "the addition")
    wait_voters(cluster, {1, 2, 3, 4})
    assert add(node, 4, node.peer_address).status == 200  # and once more
    refused = add(via, 4, "127.0.0.1:1")
    assert (refused.status, code_of(refused)) == (409, "conflict")


@pytest.mark.bound(120)
def test_node_that_never_comes_is_given_up(make_cluster):
    cluster = make_cluster(settings={**FAST, "raft-election-ms": 100})
    via = cluster.followers()[0]

    def ended():  # a leader that another replaces meanwhile takes its patience along
        answer = add(via, 4, "127.0.0.1:1")
        return answer if answer.status != 202 else None

    answer = wait_until(ended, 60, "the addition ends")
    assert (answer.status, code_of(answer)) == (409, "given_up"), answer
    for node in cluster.nodes:
        node.wait_log(r'msg="a change of the members was given up" kind=add member=4')
    wait_until(lambda: change_of(via)["state"] == "given_up", 10, "the change is shown as given up")
    # It is in nobody's way: it can be removed, and others can be added.
    removed(via, 4)
    wait_voters(cluster, {1, 2, 3})
    assert code_of(add(via, 4, "127.0.0.1:2")) == "removed"
    join(cluster, 5)
    wait_voters(cluster, {1, 2, 3, 5})


@pytest.mark.bound(120)
def test_addition_is_called_off(make_cluster):
    cluster = make_cluster()
    via = cluster.leader()
    assert add(via, 4, "127.0.0.1:1", "timeout_ms=100").status == 202
    removed(via, 4)
    wait_voters(cluster, {1, 2, 3})


@pytest.mark.bound(120)
def test_refusals(make_cluster):
    cluster = make_cluster()
    leader = cluster.leader()
    follower, other = cluster.others(leader)
    response = remove(follower, 9)
    assert (response.status, code_of(response)) == (404, "unknown_member")
    response = add(follower, 4, "nowhere")
    assert (response.status, code_of(response)) == (400, "bad_address")
    other.kill9()
    wait_unreachable(leader, other)
    # Two of three live: without one of these there is no majority of the two that are left.
    response = remove(leader, follower.id)
    assert (response.status, code_of(response)) == (409, "no_quorum")
    removed(leader, other.id)
    cluster.dismiss(other)
    follower.leaving()
    removed(leader, follower.id)
    follower.expect_log("this node was removed|a peer refuses this node")
    assert follower.wait_exit() == REMOVED_EXIT
    cluster.dismiss(follower)
    response = remove(leader, leader.id)
    assert (response.status, code_of(response)) == (409, "last_voter")


@pytest.mark.bound(120)
def test_a_leader_that_removes_itself_says_when_it_is_done(make_cluster):
    """It has no leader to ask any more, and knows by its own log."""
    cluster = make_cluster()
    leader = cluster.leader()
    listed = cluster.others(leader)
    leader.leaving()
    leader.expect_log("this node was removed|a peer refuses this node")
    response = remove(leader, leader.id)
    assert response.status == 200, response
    assert f"node {leader.id} is no longer a member" in response.json()["message"]
    assert leader.wait_exit() == REMOVED_EXIT
    cluster.dismiss(leader)
    cluster.wait_leader(among=listed)
    # Its id may stay in the others' cluster.members: the list is for the birth alone.
    for node in listed:
        checks = node.get("/readyz?verbose").json()["checks"]
        settings = next(check for check in checks if check["name"] == "settings")
        assert settings["ok"] and "differ" not in settings, settings


def test_single_node_grows_to_three(make_cluster, tag):
    cluster = make_cluster(size=1)
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 10_000)
        join(cluster, 2)
        wait_voters(cluster, {1, 2})
        join(cluster, 3)
        wait_voters(cluster, {1, 2, 3})
        wait_taken(load, 10_000)
        load.finish()
    cluster.node(1).kill9()
    leader = cluster.wait_leader()
    assert leader.http("GET", f"/api/segment/get/{tag}?timeout_ms=10000").status == 200


@pytest.mark.bound(180)
# Shows P1-wiped.
def test_wiped_node_joins_under_a_new_id(make_cluster):
    cluster = make_cluster()
    victim = cluster.followers()[0]
    victim.kill9()
    shutil.rmtree(victim.data_dir)
    victim.settings["join"] = ",".join(n.peer_address for n in cluster.running())
    victim.settings["peer-listen"] = victim.peer_address
    victim.expect_log("cannot start the node|another data directory")
    victim.start()
    assert victim.wait_exit() == WIPED_EXIT
    assert "new id" in victim.log()
    cluster.dismiss(victim)
    removed(cluster.leader(), victim.id)
    join(cluster, 4)
    wait_voters(cluster, {node.id for node in cluster.nodes})
    # And with the removed id it is told that, by name.
    shutil.rmtree(victim.data_dir, ignore_errors=True)
    victim.start()
    assert victim.wait_exit() == REMOVED_EXIT
    assert "cannot be used again" in victim.log()


@pytest.mark.bound(120)
def test_joined_node_restarts_with_its_flag(make_cluster, tag):
    """Whom it joined through is gone by then: the flag is for an empty data directory."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    target = cluster.followers()[0]
    node = join(cluster, 4, target)
    wait_voters(cluster, {1, 2, 3, 4})
    target.kill9()
    node.restart()
    assert node.http("GET", f"/api/segment/get/{tag}?timeout_ms=10000").status == 200


@pytest.mark.bound(120)
def test_joining_waits_for_the_cluster(make_cluster):
    """The node is started before anybody can let it in."""
    cluster = make_cluster(start=False)
    node = cluster.newcomer(4, *cluster.nodes)
    node.start()
    node.wait_log("cannot join yet")
    for other in cluster.nodes[:3]:
        other.start()
    cluster.wait_ready()
    wait_voters(cluster, {1, 2, 3, 4})
    # Told to stop while it waits, a node stops in order.
    lone = cluster.newcomer(5, cluster.node(1))
    cluster.nodes.remove(lone)
    cluster.spares.append(lone)
    lone.settings["cluster-id"] = "another"
    lone.start()
    lone.wait_log("cannot join yet")
    lone.stop()
    # Its directory is that of a node that waits: it begins no cluster of its own with it.
    del lone.settings["join"]
    lone.members = f"5={lone.peer_address}"
    lone.expect_log("cannot start the node")
    lone.start()
    assert lone.wait_exit() == CONFIG_EXIT
    assert "has not been admitted to its cluster yet" in lone.log()


@pytest.mark.bound(180)
# Shows P1-members.
def test_leader_killed_in_the_middle(make_cluster, tag):
    """The next leader goes on with the change that it finds."""
    cluster = make_cluster(size=5)
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 10_000)
        node = cluster.newcomer(6)
        leader = cluster.leader()
        assert add(leader, 6, node.peer_address, "timeout_ms=100").status == 202
        wait_until(lambda: cluster.members().get(6) == "standby", 10, "the standby")
        leader.kill9()
        node.start().wait_ready()
        wait_voters(cluster, {1, 2, 3, 4, 5, 6})
        leader.start().wait_ready()
        wait_all_serve(load)
        victim = cluster.followers()[0]
        killed = cluster.leader()
        via = cluster.others(victim, killed)[0]
        victim.expect_log("this node was removed|a peer refuses this node")
        victim.leaving()
        asking = threading.Thread(target=remove, args=(via, victim.id))
        asking.start()
        killed.kill9()
        asking.join()
        removed(via, victim.id)
        assert victim.wait_exit() == REMOVED_EXIT
        cluster.dismiss(victim)
        wait_all_serve(load)
        killed.start().wait_ready()
        load.finish()
    wait_voters(cluster, {node.id for node in cluster.nodes})


@pytest.mark.bound(180)
def test_newcomer_gets_a_snapshot(make_cluster, tag):
    settings = {**FAST, "raft-snapshot-entries": 50}
    cluster = make_cluster(settings=settings)
    cluster.create_tag(tag)
    for i in range(200):
        cluster.create_tag(f"{tag}-{i}")
    node = join(cluster, 4)
    wait_voters(cluster, {1, 2, 3, 4})
    assert "snapshot installed" in node.log()
    row = node.get_json(f"/api/tags/{tag}-199?consistency=local")
    assert row["tag"] == f"{tag}-199"
    cluster.wait_applied()


@pytest.mark.bound(240)
def test_node_that_slept_through_it_all(make_cluster, tag):
    """While it is away all others are replaced: it knows none of those that lead today."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    sleeper = cluster.followers()[0]
    sleeper.kill9()
    old = cluster.running()
    for node_id in (4, 5):
        join(cluster, node_id)
        wait_voters(cluster, {node.id for node in cluster.nodes})
    for node in old:
        take_out(cluster, node, cluster.others(node)[0])
        wait_voters(cluster, {node.id for node in cluster.nodes})
    sleeper.start().wait_ready(30)
    assert sleeper.http("GET", f"/api/segment/get/{tag}?timeout_ms=10000").status == 200
    cluster.wait_applied()
    assert set(cluster.members()) == {sleeper.id, 4, 5}


def shown_address(via, node):
    members = via.cluster_status()["members"]
    return next(m["peer_address"] for m in members if m["id"] == node.id)


def wait_shown(cluster, node, address):
    """Until all that run dial the node there, and reach it."""

    def so():
        return all(
            any(
                m["id"] == node.id and m["peer_address"] == address and m["reachable"]
                for m in via.cluster_status()["members"]
            )
            for via in cluster.running()
        )

    wait_until(so, 30, f"{node} is reached at {address}")


def move(via, node_id, address, options="timeout_ms=10000"):
    return via.http("PUT", f"{MEMBERS}/{node_id}?{options}", {"peer_address": address})


def test_a_member_starts_at_another_address(make_cluster, tag):
    """It says so itself; the log keeps it, so that another node finds it there after a restart."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    moved, other = cluster.followers()
    moved.stop()
    before = moved.peer_address
    moved.peer_port = take_port()
    moved.members = moved.members.replace(before, moved.peer_address)
    moved.start().wait_ready()
    wait_shown(cluster, moved, moved.peer_address)
    other.restart().wait_ready()
    wait_shown(cluster, moved, moved.peer_address)
    moved.restart().wait_ready()
    wait_shown(cluster, moved, moved.peer_address)
    lead(other, moved.id)
    assert moved.get(f"/api/segment/get/{tag}").status == 200


def test_a_member_is_moved_by_a_request(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    moved, other = cluster.followers()
    address = f"127.0.0.1:{take_port()}"
    assert code_of(move(other, moved.id, other.peer_address)) == "address_in_use"
    assert code_of(move(other, 77, address)) == "unknown_member"
    assert code_of(move(other, moved.id, "0.0.0.0:1")) == "bad_address"
    assert move(other, moved.id, address).status == 200
    wait_until(lambda: shown_address(other, moved) == address, 10, "the node asked knows it, too")
    wait_unreachable(other, moved)

    # Its old place is wrong now, so another one may not go, too.
    refused = move(other, other.id, f"127.0.0.1:{take_port()}")
    assert (refused.status, code_of(refused)) == (409, "no_quorum")
    assert move(other, moved.id, moved.peer_address).status == 200
    wait_shown(cluster, moved, moved.peer_address)
    assert other.get(f"/api/segment/get/{tag}").status == 200
