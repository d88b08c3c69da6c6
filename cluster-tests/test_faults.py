"""Pauses, partitions, clean stops of leaders: what clients see, and that no id comes twice."""

import time

import pytest

from checker import History
from cluster import STEADY
from load import Load, mixed_load, wait_all_serve, wait_taken
from wait import wait_until, within

ELECTION_MOST_S = 2 * STEADY["raft-election-ms"] / 1000


# Shows P1-pause.
def test_paused_leader(make_cluster, tag):
    """SIGSTOP for longer than an election: the others go on, and the old leader repeats nothing."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        for _ in range(2):
            wait_taken(load, 30_000)
            old = cluster.leader()
            others = cluster.others(old)
            old.pause()
            try:
                new = cluster.wait_leader(among=others)
                wait_taken(load, 60_000)
            finally:
                old.resume()
            assert new is not old
            cluster.wait_follows(old)
            wait_all_serve(load)
        load.finish()
    cluster.wait_applied()


@pytest.mark.quiet
# Shows P1-pause.
def test_paused_follower(make_cluster, tag):
    cluster = make_cluster(settings=STEADY)
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 30_000)
        term = cluster.leader().cluster_status()["term"]
        follower = cluster.followers()[0]
        follower.pause()
        resumes = time.monotonic() + ELECTION_MOST_S
        try:
            wait_taken(load, 60_000)
            wait_until(lambda: time.monotonic() > resumes, 10, "it would stand for election")
        finally:
            follower.resume()
        wait_all_serve(load)
        load.finish()
    cluster.wait_applied()
    # Pre-vote: a node that was away does not depose a leader that works.
    assert cluster.leader().cluster_status()["term"] == term


@pytest.mark.quiet
def test_clean_stop_of_the_leader(make_cluster, tag):
    """SIGTERM under load: exit code 0, the leadership moves, other nodes' clients see nothing."""
    cluster = make_cluster(settings={})
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        for _ in range(2):
            wait_taken(load, 60_000)
            leader = cluster.leader()
            leader.stop()
            # The leadership was handed over: no election timeout (1 s and more) had to pass.
            new = within(lambda: cluster.find_leader(cluster.running()), 0.9, "a leader")
            assert new is not leader
            wait_all_serve(load)
            leader.start().wait_ready()
            wait_all_serve(load)
        load.finish()


def test_clean_stop_answers_what_it_took(make_cluster, tag):
    """An idle connection ends cleanly after all its answers."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    with node.connect() as connection:
        for _ in range(3):
            assert connection.request("GET", f"/api/segment/get/{tag}").status == 200
        node.stop()
        assert connection.at_end()


# Shows P1-cut.
def test_leader_cut_off(make_cluster, proxies, tag):
    """A leader cut off hands out what it holds, then says 503; the others elect and go on."""
    cluster = make_cluster(proxies=proxies)
    cluster.create_tag(tag)
    history = History()
    old = cluster.leader()
    others = cluster.others(old)
    load = Load(history, tag)
    for node in others:
        load.add(node, 100, "range", rate=5000.0)
        load.add(node, 1, "plain", depth=8, rate=1000.0)
    with load:
        wait_taken(load, 10_000)
        lonely = history.track("lonely", old.id, tag)
        proxies.isolate(old)
        new = cluster.wait_leader(among=others)
        assert new is not old
        wait_until(lambda: old.sees_no_leader(), 10, "the old leader steps down")
        exhaust(old, tag, lonely)
        refused = old.http("PUT", f"/api/tags/{tag}.new", {})
        assert (refused.status, refused.code) == (503, "no_leader")
        wait_taken(load, 20_000)
        proxies.heal()
        cluster.wait_follows(old)
        answer = old.get(f"/api/segment/get/{tag}?timeout_ms=10000")
        assert answer.status == 200
        lonely.add(int(answer.body), int(answer.body), answer)
        load.finish()
    cluster.wait_applied()


def exhaust(node, tag, track):
    """Take ids from a node that gets no new ones until it says so; each goes into the track."""
    with node.connect() as connection:
        while True:
            answer = connection.request("GET", f"/api/segment/get/{tag}?timeout_ms=0")
            if answer.status != 200:
                break
            track.add(int(answer.body), int(answer.body), answer)
    assert (answer.status, answer.code) == (503, "no_leader")


@pytest.mark.quiet
# Shows P1-cut.
def test_one_link_cut(make_cluster, proxies, tag):
    """Two followers that cannot see each other change nothing."""
    cluster = make_cluster(settings=STEADY, proxies=proxies)
    cluster.create_tag(tag)
    leader = cluster.leader()
    term = leader.cluster_status()["term"]
    left, right = cluster.others(leader)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        proxies.cut(left, right)
        proxies.cut(right, left)
        wait_taken(load, 100_000)
        proxies.heal()
        load.finish()
    assert leader.cluster_status()["term"] == term


@pytest.mark.quiet
# Shows P1-cut.
def test_follower_that_is_not_heard(make_cluster, proxies, tag):
    """One-way cut: a follower hears everything and is not heard. Its clients are told the truth."""
    cluster = make_cluster(settings=STEADY, proxies=proxies)
    cluster.create_tag(tag)
    leader = cluster.leader()
    term = leader.cluster_status()["term"]
    mute, other = cluster.others(leader)
    assert mute.get(f"/api/segment/get/{tag}").status == 200
    proxies.cut(mute, leader)
    proxies.cut(mute, other)
    history = History()
    track = history.track("mute", mute.id, tag)
    with mute.connect() as connection:
        while True:
            answer = connection.request("GET", f"/api/segment/get/{tag}?timeout_ms=200")
            if answer.status != 200:
                break
            track.add(int(answer.body), int(answer.body), answer)
    assert answer.status == 503 and answer.code in ("timeout", "no_leader")
    load = Load(history, tag)
    for node in (leader, other):
        load.add(node, 100, "range", rate=5000.0)
    with load:
        wait_taken(load, 10_000)
        proxies.heal()
        wait_until(
            lambda: mute.get(f"/api/segment/get/{tag}?timeout_ms=1000").status == 200,
            15,
            "the mute node serves again",
        )
        load.finish()
    assert leader.cluster_status()["term"] == term
