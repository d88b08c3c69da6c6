"""A node that waits to be let in says so by HTTP; and one whose data is lost comes back as another
one, without hands, where the operator allowed it."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from checker import History
from client import get_bytes
from cluster import FAST
from load import mixed_load, wait_all_serve, wait_taken
from test_membership import wait_unreachable, wait_voters
from wait import wait_until

ALLOWED = {**FAST, "cluster-replace-lost": "true"}
AGAIN_EXIT = 75
REFUSED_EXIT = 76


def lose(node):
    """Its disk is gone, and a fresh one in its place."""
    node.kill9()
    shutil.rmtree(node.data_dir)


def becomes(node, node_id):
    """What it is started with stays as it was."""
    node.settings.setdefault("node-id", node.id)
    node.id = node_id


def comes_back(cluster, node, node_id):
    """Started until it stays, as by a supervisor: the first starts learn which ids are lost."""
    node.expect_log("a peer refuses this node|data of this node is lost")
    while f"next_node={node_id}" not in node.log():
        node.start()
        assert node.wait_exit() == AGAIN_EXIT
    becomes(node, node_id)
    node.start().wait_ready(60)
    wait_voters(cluster, {other.id for other in cluster.nodes})


@pytest.mark.bound(120)
def test_a_waiting_node_answers_health_and_nothing_else(make_cluster, tag):
    cluster = make_cluster(start=False)
    node = cluster.newcomer(4, *cluster.nodes)
    node.start()
    node.wait_log("cannot join yet")
    assert node.get("/livez").status == 200
    ready = node.get("/readyz?verbose")
    assert ready.status == 503
    assert ready.json()["reasons"] == ["the node waits to be let in by its cluster, see its log"]
    assert [check["name"] for check in ready.json()["checks"]] == ["member"]
    assert node.get("/version").status == 200
    assert node.get("/metrics").status == 200
    assert node.get(f"/api/segment/get/{tag}?timeout_ms=100").status == 503
    refused = node.http("PUT", f"/api/tags/{tag}", {"step": 10})
    assert (refused.status, refused.json()["code"]) == (503, "no_leader")
    assert node.get("/api/cluster").status == 503
    for other in cluster.nodes[:3]:
        other.start()
    cluster.wait_ready()
    node.wait_ready()
    wait_voters(cluster, {1, 2, 3, 4})
    cluster.create_tag(tag)
    assert int(node.get(f"/api/segment/get/{tag}").text) > 0


@pytest.mark.bound(120)
def test_a_waiting_node_stops_with_a_client_connected(make_cluster):
    cluster = make_cluster(start=False)
    node = cluster.newcomer(4, *cluster.nodes)
    node.start()
    node.wait_log("cannot join yet")
    with node.connect() as client:
        client.send(get_bytes("/livez"))
        assert client.read_response().status == 200
        node.stop()


@pytest.mark.bound(120)
def test_a_waiting_node_hears_signals_and_looks_after_its_directory(make_cluster):
    """A reload is told, and made once the node serves; without its directory it ends."""
    cluster = make_cluster(start=False)
    node, lost = (cluster.newcomer(number, *cluster.nodes[:3]) for number in (4, 5))
    for waiting in (node, lost):
        waiting.start()
        waiting.wait_log("cannot join yet")
    for name, says in ((signal.SIGUSR1, "this signal does nothing"),
                       (signal.SIGHUP, "settings are read again once the node serves")):
        node.process.send_signal(name)
        node.wait_log(says)
    lost.expect_log("the data directory is gone")
    shutil.rmtree(lost.data_dir)
    assert lost.wait_exit() == 65
    cluster.dismiss(lost)
    for other in cluster.nodes[:3]:
        other.start()
    cluster.wait_ready()
    node.wait_log('msg="reloaded"')
    wait_voters(cluster, {1, 2, 3, 4})


@pytest.mark.bound(240)
def test_a_lost_node_is_replaced_without_hands(make_cluster, tag):
    """Under load, twice: each time the member that was lost is gone, and no id comes twice."""
    cluster = make_cluster(settings=ALLOWED)
    cluster.create_tag(tag)
    history = History()
    victim = cluster.followers()[0]
    first = victim.id
    with mixed_load(cluster, history, tag) as load:
        for number in (1, 2):
            wait_taken(load, 10_000)
            lose(victim)
            comes_back(cluster, victim, first + 1000 * number)
            wait_all_serve(load)
        load.finish()
    assert f"{first + 2000}" in os.listdir(victim.data_dir)
    # It is an ordinary member now: it starts again with what it has.
    victim.restart()
    wait_voters(cluster, {node.id for node in cluster.nodes})


@pytest.mark.bound(120)
def test_not_where_it_is_not_allowed(make_cluster):
    """The newcomer may, the members may not: nobody is removed."""
    cluster = make_cluster()
    victim = cluster.followers()[0]
    lose(victim)
    victim.settings["cluster-replace-lost"] = "true"
    victim.expect_log("a peer refuses this node|data of this node is lost|cannot start the node")
    victim.start()
    assert victim.wait_exit() == AGAIN_EXIT
    victim.start()
    assert victim.wait_exit() == REFUSED_EXIT
    assert f"is the address of node {victim.id}" in victim.log()
    members = {member["id"] for member in cluster.leader().cluster_status()["members"]}
    assert members == {1, 2, 3}


@pytest.mark.bound(120)
def test_a_member_that_lives_does_not_give_way(make_cluster):
    cluster = make_cluster(settings=ALLOWED)
    victim = cluster.followers()[0]
    stranger = cluster.newcomer(4)
    stranger.settings["peer-advertise"] = victim.peer_address
    stranger.expect_log("cannot start the node")
    stranger.start()
    assert stranger.wait_exit() == REFUSED_EXIT
    cluster.dismiss(stranger)
    wait_voters(cluster, {1, 2, 3})


def supervise(nodes, until, timeout):
    """Start again, as a supervisor, those that end with 75; the codes of all ends, by node."""
    ends = {node: [] for node in nodes}

    def step():
        for node in nodes:
            if node.process is not None and node.process.poll() is not None:
                ends[node].append(node.wait_exit())
                if ends[node][-1] == AGAIN_EXIT:
                    node.start()
        return until(ends)

    wait_until(step, timeout, "it is settled")
    return ends


@pytest.mark.bound(240)
def test_two_come_in_the_place_of_one_that_was_lost(make_cluster, tag):
    """Its supervisor runs twice, on two empty disks, and both say that they are reached where the
    lost one was. Whichever is let in first: nobody but the lost one goes, there is no member too
    many, all is served and no id comes twice. Once the one that is not there has ended, the other
    is in."""
    cluster = make_cluster(settings=ALLOWED)
    cluster.create_tag(tag)
    history = History()
    victim = cluster.followers()[0]
    first = victim.id
    stay = {node.id for node in cluster.nodes if node is not victim}
    seen = []

    def look():
        seen.append({m["id"]: m["role"] for m in cluster.leader().cluster_status()["members"]})
        return seen[-1]

    def has_ended(codes):
        return bool(codes) and codes[-1] != AGAIN_EXIT

    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 10_000)
        lose(victim)
        twin = cluster.spare(first)
        twin.settings["peer-advertise"] = victim.peer_address
        for node in (victim, twin):
            node.expect_log("a peer refuses this node|data of this node is lost|cannot start the "
                            "node|the node cannot go on")
            node.settings.setdefault("node-id", first)
            node.start()
        # Both are told the next id, and one, or the other, is in the list of members.
        ends = supervise((victim, twin), lambda ends: all(ends.values())
                         and look().keys() > stay, 60)
        wait_taken(load, 10_000)
        if twin.process is not None:
            twin.kill9()
        if has_ended(ends[victim]) and victim.process is None:
            victim.start()
        ends = supervise((victim,), lambda _: look() and set(seen[-1].values()) == {"voter"}
                         and len(seen[-1]) == 3 and victim.process is not None
                         and victim.get("/readyz").status == 200, 90)
        wait_taken(load, 10_000)
        load.finish()
    assert all(members.keys() >= stay and len(members) <= 3 for members in seen), seen


@pytest.mark.bound(240)
def test_of_two_in_one_place_the_one_that_is_reached_stays(make_cluster, tag):
    """The one whose links the members took first is not where the others dial, and so would keep
    out for ever the one that is: it is the second that serves, with nobody's help, and the first
    ends and says why."""
    cluster = make_cluster(settings=ALLOWED)
    cluster.create_tag(tag)
    history = History()
    victim = cluster.followers()[0]
    stay = [node for node in cluster.nodes if node is not victim]
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 10_000)
        lose(victim)
        twin = cluster.spare(victim.id)
        twin.settings["peer-advertise"] = victim.peer_address
        for node in (victim, twin):
            node.settings["node-id"] = victim.id
            node.expect_log("a peer refuses this node|data of this node is lost|the node cannot go "
                            "on")
        taken = f"peer connected.* peer={victim.id + 1000}"
        twin.start()
        supervise((twin,), lambda _: all(re.search(taken, node.log()) for node in stay), 60)
        victim.start()
        ends = supervise((victim, twin), lambda ends: REFUSED_EXIT in ends[twin], 60)
        assert ends[victim] == [AGAIN_EXIT] and ends[twin] == [REFUSED_EXIT]
        assert "another process in its place" in twin.log()
        becomes(victim, victim.id + 1000)
        victim.wait_ready(60)
        wait_voters(cluster, {node.id for node in cluster.nodes})
        wait_all_serve(load)
        load.finish()


@pytest.mark.bound(120)
def test_the_last_majority_gives_nobody_up(make_cluster):
    """Two of three are gone, one of them for good: its place is not given away, and no cluster
    begins beside this one, until the other is back."""
    cluster = make_cluster(settings=ALLOWED)
    lost, away = cluster.followers()[:2]
    away.kill9()
    lose(lost)
    wait_unreachable(cluster.nodes[[n.alive for n in cluster.nodes].index(True)], lost)
    lost.expect_log("a peer refuses this node|data of this node is lost")
    lost.start()
    assert lost.wait_exit() == AGAIN_EXIT
    becomes(lost, lost.id + 1000)
    lost.start()
    wait_until(lambda: lost.get("/readyz").status == 503, 10, "it waits to be let in")
    away.start().wait_ready()
    lost.wait_ready(60)
    wait_voters(cluster, {node.id for node in cluster.nodes})


def test_data_of_before_the_setting_is_used_as_it_is(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    node.stop()
    node.settings["cluster-replace-lost"] = "true"
    node.start().wait_ready()
    assert os.path.exists(os.path.join(node.data_dir, "db"))
    assert int(node.get(f"/api/segment/get/{tag}").text) > 0


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"node-id": "1001", "join": "127.0.0.1:1", "peer-listen": "127.0.0.1:2"}, "node.id"),
        ({"peer-tls-dir": "/c"}, "peer.tls-dir"),
    ],
)
def test_settings_that_do_not_go_with_it(make_cluster, setting, why):
    cluster = make_cluster(start=False, settings=ALLOWED)
    node = cluster.nodes[0]
    node.settings.update(setting)
    done = subprocess.run(
        [*node.command_line(), "--check-config"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 64
    assert why in done.stderr and "cluster.replace-lost" in done.stderr, done.stderr
