"""A million ids from all nodes while leaders are killed: no id twice, no error from a node that
lives."""


import pytest

from checker import History
from load import mixed_load, wait_all_serve, wait_taken
from wait import ran_s, wait_until

IDS = 1_000_000


@pytest.mark.bound(120)
# Shows P1-kill, P4-killed.
def test_leader_killed_three_times_under_load(make_cluster, tag):
    """Default timeouts: an election takes a second or more, and what the nodes hold covers it."""
    cluster = make_cluster(settings={})
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        for _ in range(3):
            wait_taken(load, 150_000)
            leader = cluster.leader()
            term = leader.cluster_status()["term"]
            leader.kill9()
            new_leader = cluster.wait_leader(among=cluster.running())
            assert new_leader is not leader
            assert new_leader.cluster_status()["term"] > term
            wait_all_serve(load)
            leader.start().wait_ready()
            wait_all_serve(load)
        wait_until(lambda: load.taken() >= IDS, 60, f"{IDS} ids")
        total = load.finish()
    assert total >= IDS
    assert sum(client.reconnects for client in load.clients) >= 3, "the kills were not felt"
    cluster.wait_applied()
    # What the cluster says was granted lies above all that was handed out, on every node.
    for node in cluster.nodes:
        row = node.get_json(f"/api/tags/{tag}?consistency=local")
        assert int(row["max_id"]) > history.highest(tag)


@pytest.mark.quiet
# Shows P4-soon.
def test_killed_leader_is_noticed_before_the_election_timeout(make_cluster, tag):
    """Its address refuses connections; the timeout alone would take 5 s or more."""
    cluster = make_cluster(settings={"raft-election-ms": 5000})
    cluster.create_tag(tag)
    for _ in range(3):  # where both others stand still, they may become candidates at once
        leader = cluster.leader()
        leader.kill9()
        begin = ran_s()
        response = cluster.others(leader)[0].get(f"/api/segment/get/{tag}?timeout_ms=10000")
        if response.status == 200 and ran_s() - begin < 4:
            break
        leader.start()
    assert leader.process is None, f"{response} after {ran_s() - begin} s"
    assert cluster.wait_leader() is not leader


@pytest.mark.bound(60)
def test_leader_restarted_at_once_under_load(make_cluster, tag):
    """The killed leader is back before the others have elected a new one."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        for _ in range(5):
            wait_taken(load, 30_000)
            leader = cluster.leader()
            leader.kill9()
            leader.start().wait_ready()
            wait_all_serve(load)
        load.finish()
