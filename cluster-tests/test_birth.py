"""First starts: every wrong one that can be typed forms one cluster or none, and says why.

Each node is given its list of first members by hand, and hands differ. What is seen here is what
an operator sees: exit codes, lines of the log, /readyz, the uid in GET /api/cluster. And whatever
happens, no id comes twice.
"""

import re
import shutil

import pytest

from client import parse_ids
from cluster import FAST
from ports import take_port
from wait import wait_until

EXIT_CONFIG = 64
EXIT_REFUSED = 76
ENDS_S = 10
ANOTHER_LIST = "was given another cluster.members, cluster.id or snowflake layout"
WIPED = "the cluster knows this node id with another data directory"
BORN = r'msg="the cluster is born" uid=(\S+)'


# --- what an operator types ---


def type_list(node, members):
    node.members = ",".join(f"{node_id}={address}" for node_id, address in members)


def full_list(cluster, *left_out):
    return [(node.id, node.peer_address) for node in cluster.nodes if node.id not in left_out]


def too_short(cluster):
    return full_list(cluster, 3)


def too_long(cluster):
    return [*full_list(cluster), (4, cluster.spare(4).peer_address)]


def addresses_swapped(cluster):
    (first, second, third) = full_list(cluster)
    return [first, (second[0], third[1]), (third[0], second[1])]


def another_port(cluster):
    (first, second, third) = full_list(cluster)
    return [first, second, (third[0], cluster.spare(3).peer_address)]


def ids_swapped(cluster):
    """As if the list had been written for other machines: ids 2 and 3, each at the other's place,
    and 1 where it is."""
    (first, second, third) = full_list(cluster)
    return [first, (third[0], second[1]), (second[0], third[1])]


# --- what is seen ---


def uid_of(node):
    return node.cluster_status()["uid"]


def wait_born(*nodes):
    """The uid that all of them have."""
    uids = wait_until(lambda: all(uids := [uid_of(node) for node in nodes]) and uids, 15, "a birth")
    assert len(set(uids)) == 1, f"several births: {uids}"
    return uids[0]


def wait_waits(node, *reasons):
    """The node says in its log and in /readyz that it waits, and for whom."""
    for reason in reasons:
        node.wait_log(rf'"the cluster is not born yet[^"]*".*{reason}')

    def seen():
        """At the end of the turn of the raft loop that logged it."""
        ready = node.get("/readyz?verbose")
        assert ready.status == 503, ready
        checks = {check["name"]: check for check in ready.json()["checks"]}
        assert not checks["born"]["ok"]
        assert any("the cluster is not born yet" in text for text in ready.json()["reasons"])
        return all(reason in checks["born"]["reason"] for reason in reasons)

    wait_until(seen, 30, f"/readyz of {node} names {reasons}")


def expect_unborn(*nodes):
    """None of them has a leader, or stood for election; and none serves anything."""
    for node in nodes:
        status = node.cluster_status()
        assert status["uid"] is None and status["leader_id"] is None, status
        assert status["term"] == 1, f"{node} stood for election: {status}"
        answer = node.get("/api/segment/get/anything?timeout_ms=100", timeout=30)
        assert answer.status == 503, answer
        assert "leafd_born 0\n" in node.get("/metrics").body.decode()


def refusals(node):
    """How many dials it has refused. Of those of a second it logs one, whoever it was, with the
    number of the others."""
    skipped = re.findall(r"claims_to_be=\d+ .* not_logged_before_this=(\d+)", node.log())
    return len(skipped) + sum(map(int, skipped))


def wait_tries(node, *others):
    """The others have dialled the node, and have been refused, many times since."""
    enough = refusals(node) + 4 * len(others)
    wait_until(lambda: refusals(node) >= enough, 20, f"{others} try on at {node}")


def expect_no_id_twice(nodes, tag, timeout_ms=10000):
    """Ask every node of every cluster for ids of one tag; returns how many came."""
    given = []
    for node in nodes:
        put = node.http("PUT", f"/api/tags/{tag}?timeout_ms={timeout_ms}", {})
        assert put.status in (200, 201, 503), put
        got = node.get(f"/api/segment/get/{tag}?count=5&format=range&timeout_ms={timeout_ms}")
        assert got.status in (200, 503), got
        for first, last in parse_ids(got, "range", 5) if got.status == 200 else []:
            given.extend(range(first, last + 1))
    assert len(given) == len(set(given)), f"ids came twice: {sorted(given)}"
    return len(given)


def expect_exit(node, code, text):
    node.expect_log("level=error")
    assert node.wait_exit(ENDS_S) == code, node.log_tail()
    assert text in node.log(), node.log_tail()


def wipe(node):
    shutil.rmtree(node.data_dir)


# --- lists ---


# Shows P9-one.
def test_a_list_of_one_without_the_flag_is_an_error_that_explains_itself(make_cluster, tag):
    """The very first measurement: node 1 is told of itself alone, the others of all three."""
    cluster = make_cluster(start=False)
    one, two, three = cluster.nodes
    type_list(one, full_list(cluster, 2, 3))
    one.settings["cluster-bootstrap"] = None
    one.start()
    two.start()
    three.start()
    expect_exit(one, EXIT_CONFIG, "cluster.bootstrap")
    assert "cluster.members names this node alone" in one.log()
    wait_waits(two, "node 1 not met yet")
    wait_waits(three, "node 1 not met yet")
    expect_unborn(two, three)
    # What it left behind does not keep it from being started rightly.
    type_list(one, full_list(cluster))
    one.start()
    wait_born(one, two, three)
    cluster.wait_ready()
    assert expect_no_id_twice(cluster.nodes, tag) == 15


# Shows P9-one.
def test_a_list_of_one_with_the_flag_is_a_cluster_that_the_others_never_join(make_cluster, tag):
    cluster = make_cluster(start=False)
    one, two, three = cluster.nodes
    type_list(one, full_list(cluster, 2, 3))
    for node in cluster.nodes:
        node.start()
    one.wait_ready()
    wait_waits(two, f"node 1 {ANOTHER_LIST}")
    wait_waits(three, f"node 1 {ANOTHER_LIST}")
    wait_tries(one, two)
    one.wait_log('inbound connection refused.*"cluster.members, cluster.id or the snowflake layout')
    expect_unborn(two, three)
    assert uid_of(one)
    assert expect_no_id_twice(cluster.nodes, tag, 1000) == 5
    one.restart()  # it is the only one, and goes on
    assert expect_no_id_twice(cluster.nodes, f"{tag}.again", 1000) == 5


def test_the_flag_is_not_for_lists_of_several(make_cluster):
    cluster = make_cluster(start=False)
    node = cluster.nodes[0]
    node.settings["cluster-bootstrap"] = "single"
    node.start()
    assert node.wait_exit(ENDS_S) == EXIT_CONFIG
    assert "cluster.bootstrap" in node.log()


@pytest.mark.parametrize(
    "slip", [too_short, too_long, addresses_swapped, another_port, ids_swapped]
)
# Shows P9-lists.
def test_nodes_of_different_lists_elect_nobody_and_one_cluster_is_born_once_it_is_mended(
    make_cluster, tag, slip
):
    cluster = make_cluster(start=False)
    one, two, three = cluster.nodes
    type_list(one, slip(cluster))
    for node in cluster.nodes:
        node.start()
    wait_waits(two, f"node 1 {ANOTHER_LIST}")
    wait_tries(one, two)
    wait_tries(one, three)
    wait_waits(one)
    wait_waits(three)
    expect_unborn(*cluster.nodes)
    assert expect_no_id_twice(cluster.nodes, tag, 1000) == 0
    # The list is set right, but its directory has the wrong one; it says so, and what to do.
    one.stop()
    type_list(one, full_list(cluster))
    one.start()
    expect_exit(one, EXIT_CONFIG, "cluster.members is not what it was")
    wipe(one)
    one.start()
    uid = wait_born(*cluster.nodes)
    cluster.wait_ready()
    assert {match for node in cluster.nodes for match in [node.wait_log(BORN)[1]]} == {uid}
    assert f'leafd_cluster_info{{uid="{uid}"}} 1' in one.get("/metrics").body.decode()
    assert expect_no_id_twice(cluster.nodes, f"{tag}.mended") == 15


# Shows P9-lists.
def test_the_order_of_a_list_does_not_matter(make_cluster, tag):
    cluster = make_cluster(start=False)
    type_list(cluster.nodes[0], reversed(full_list(cluster)))
    cluster.start()
    wait_born(*cluster.nodes)
    assert expect_no_id_twice(cluster.nodes, tag) == 15


def test_another_layout_is_another_list(make_cluster):
    cluster = make_cluster(start=False)
    one, two, three = cluster.nodes
    one.settings["snowflake-layout"] = "js53"
    for node in cluster.nodes:
        node.start()
    wait_waits(two, f"node 1 {ANOTHER_LIST}")
    wait_waits(three, f"node 1 {ANOTHER_LIST}")
    expect_unborn(*cluster.nodes)
    one.stop()
    one.settings["snowflake-layout"] = "leaf"  # nothing is baked in of it
    one.start()
    wait_born(*cluster.nodes)
    cluster.wait_ready()


# Shows P9-overlap.
def test_lists_of_three_and_of_five(make_cluster, tag):
    """Three agree with each other, and are a cluster; two were told of five, and are none."""
    cluster = make_cluster(5, start=False)
    three, others = cluster.nodes[:3], cluster.nodes[3:]
    for node in three:
        type_list(node, full_list(cluster, 4, 5))
    for node in cluster.nodes:
        node.start()
    wait_born(*three)
    for node in others:
        wait_waits(node, *(f"node {other.id} {ANOTHER_LIST}" for other in three))
    for node in three:
        node.wait_ready()
    wait_tries(three[0], *others)
    expect_unborn(*others)
    assert expect_no_id_twice(three, tag) == 15
    assert expect_no_id_twice(others, tag, 1000) == 0


# Shows P9-overlap.
def test_lists_of_three_and_of_five_that_overlap(make_cluster, tag):
    """Either has a majority of its list, and neither all of it."""
    cluster = make_cluster(5, start=False)
    for node in cluster.nodes[:2]:
        type_list(node, full_list(cluster, 4, 5))
    for node in cluster.nodes:
        node.start()
    wait_waits(cluster.node(1), f"node 3 {ANOTHER_LIST}")
    wait_waits(cluster.node(2), f"node 3 {ANOTHER_LIST}")
    for node in cluster.nodes[2:]:
        wait_waits(node, f"node 1 {ANOTHER_LIST}", f"node 2 {ANOTHER_LIST}")
    wait_tries(cluster.node(1), *cluster.nodes[2:])
    expect_unborn(*cluster.nodes)
    assert expect_no_id_twice(cluster.nodes, tag, 1000) == 0


# --- ids ---


@pytest.mark.parametrize("typed", [(2, 1), (1, 1)], ids=["swapped", "one_id_twice"])
# Shows P9-ids.
def test_machines_with_wrong_ids_begin_nothing_until_it_is_mended(make_cluster, tag, typed):
    """The list is right on all three; the first two machines are told ids that are not theirs."""
    cluster = make_cluster(start=False)
    one, two, three = cluster.nodes
    for node, node_id in zip((one, two), typed):
        node.settings["node-id"] = node_id
    for node in cluster.nodes:
        node.settings["peer-listen"] = node.peer_address
        node.start()
    for node in cluster.nodes:
        node.wait_log('"the cluster is not born yet')
        wait_waits(node)
    three.wait_log('"no link to peer" peer=2 .*another node id than expected')
    expect_unborn(*cluster.nodes)
    assert expect_no_id_twice(cluster.nodes, tag, 1000) == 0
    for node in (one, two):
        node.expect_log("level=error")
        node.stop()
        wipe(node)
        node.settings["node-id"] = node.id
        node.start()
    wait_born(*cluster.nodes)
    cluster.wait_ready()
    assert expect_no_id_twice(cluster.nodes, f"{tag}.mended") == 15


def test_an_id_that_is_given_twice(make_cluster, tag):
    """The third machine was given the second one's id: node 1 says that another answers there."""
    cluster = make_cluster(start=False)
    one, two, three = cluster.nodes
    three.id = two.id
    three.settings["peer-listen"] = three.peer_address  # as its machine would
    for node in cluster.nodes:
        node.start()
    wait_waits(one, "node 3 is not at its address, where another node.id answers")
    expect_unborn(one)
    three.stop()
    wipe(three)
    three.id = 3
    del three.settings["peer-listen"]
    three.start()
    wait_born(one, two, three)
    cluster.wait_ready()
    assert expect_no_id_twice(cluster.nodes, f"{tag}.mended") == 15


# --- nodes that are late, of yesterday, or wiped ---


# Shows P9-late.
def test_nobody_begins_before_the_last_one_has_come(make_cluster, tag):
    cluster = make_cluster(start=False, settings={**FAST, "raft-election-ms": 150})
    one, two, three = cluster.nodes
    one.start()
    two.start()
    for node in (one, two):
        wait_waits(node, "node 3 not met yet")
    # Neither does a restart make them forget that one is missing.
    sizes = {node: len(node.log()) for node in (one, two)}
    one.kill9()
    one.start()
    two.stop()
    two.start()
    for node, size in sizes.items():
        node.wait_log('waits_for="node 3 not met yet"', start=size)
    expect_unborn(one, two)
    three.start()
    wait_born(one, two, three)
    cluster.wait_ready()
    assert expect_no_id_twice(cluster.nodes, tag) == 15


@pytest.mark.bound(120)
def test_a_first_member_that_was_started_twice(make_cluster, tag):
    """On two machines, and first where the others do not dial: the one at the address of the list
    is the member as soon as it is there, and the other one ends and says why."""
    cluster = make_cluster(start=False)
    first = cluster.nodes[2]
    second = cluster.spare(3)
    second.members = ",".join(f"{node_id}={address}" for node_id, address in full_list(cluster))
    second.expect_log("a peer refuses this node|the node cannot go on")
    for node in (*cluster.nodes[:2], second):
        node.start()
    for node in cluster.nodes[:2]:
        node.wait_log("peer connected.* peer=3")
    first.start()
    assert second.wait_exit(30) == EXIT_REFUSED
    assert WIPED in second.log() and "another process in its place" in second.log()
    cluster.wait_ready()
    cluster.create_tag(tag)
    for node in cluster.nodes:
        assert int(node.get(f"/api/segment/get/{tag}").text) > 0


# Shows P9-yesterday.
def test_a_node_of_yesterdays_cluster_ends_and_todays_goes_on(make_cluster, tag):
    cluster = make_cluster()
    yesterday = wait_born(*cluster.nodes)
    stray = cluster.nodes[2]
    cluster.stop_all()
    kept = stray.data_dir + ".yesterday"
    shutil.copytree(stray.data_dir, kept)
    for node in cluster.nodes:
        wipe(node)
    cluster.start()
    today = wait_born(*cluster.nodes)
    assert today != yesterday
    given = expect_no_id_twice(cluster.nodes, tag)
    stray.stop()
    wipe(stray)
    shutil.copytree(kept, stray.data_dir)
    stray.start()
    expect_exit(stray, EXIT_REFUSED, "most members belong to another cluster")
    assert today in cluster.nodes[0].log() and yesterday in stray.log()
    for node in cluster.nodes[:2]:
        node.wait_log("(claims_to_be=3|peer=3) .*belongs to another cluster")
        node.wait_ready()
        assert uid_of(node) == today
    assert given == 15
    cluster.leader()


# Shows P9-yesterday.
def test_two_new_nodes_do_not_begin_with_one_of_yesterday(make_cluster, tag):
    """They look like wiped ones, and the one that has data says so."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    cluster.stop_all()
    for node in cluster.nodes[:2]:
        wipe(node)
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes[:2]:
        expect_exit(node, EXIT_REFUSED, WIPED)
    assert cluster.nodes[2].sees_no_leader()


# Shows P9-wiped.
def test_two_wiped_of_three_wait_for_the_third_and_end_when_it_comes(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    uid = wait_born(*cluster.nodes)
    one, two, three = cluster.nodes
    before = expect_no_id_twice([three], f"{tag}.before")
    cluster.stop_all()
    sizes = {node: len(node.log()) for node in (one, two)}
    for node in (one, two):
        wipe(node)
        node.start()
    for node, size in sizes.items():
        node.wait_log('waits_for="node 3 not met yet"', start=size)
    expect_unborn(one, two)
    three.start()
    for node in (one, two):
        expect_exit(node, EXIT_REFUSED, WIPED)
    assert three.sees_no_leader() and uid_of(three) == uid
    assert before == 5


def test_a_node_that_joins_asks_members_of_one_cluster_alone(make_cluster):
    """Two clusters of one name and one secret: it must not be let in by whoever answers first."""
    first, second = make_cluster(1), make_cluster(1, start=False)
    for node in second.nodes:
        node.settings["cluster-secret-file"] = first.secret_file
    second.start()
    uids = [wait_born(first.nodes[0]), wait_born(second.nodes[0])]
    assert uids[0] != uids[1]
    # A change that never ends has the first one send it on to the next.
    absent = {"id": 8, "peer_address": f"127.0.0.1:{take_port()}"}
    assert first.nodes[0].http("POST", "/api/cluster/members?timeout_ms=100", absent).status == 202
    newcomer = first.newcomer(9, first.nodes[0], second.nodes[0])
    newcomer.start()
    expect_exit(newcomer, EXIT_REFUSED, f"two clusters, {uids[0]} and {uids[1]}")
    assert set(second.members()) == {1}
