"""Strict tags while leaders are killed, stopped and cut off: 64 clients of three nodes, the
checker finds nothing, and clients of nodes that live and reach a majority see no error.

Timeouts are the defaults unless said otherwise: an election takes one to two seconds, and a request
waits up to five.
"""

import contextlib
import time

import pytest

from cluster import FAST
from strict_load import StrictLoad
from wait import wait_until

CLIENTS = 64
NO_ANSWER = {"timeout", "no_leader"}


def start_load(cluster, recorder, tag, clients=CLIENTS, rate=12.0, timeout_ms=5000):
    """Clients of one id each, and a few of more."""
    cluster.create_tag(tag, mode="strict")
    recorder.declare(tag, "strict", start=1)
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(clients - 7, tag, formats=("plain",), rate=rate, timeout_ms=timeout_ms)
    load.add_many(7, tag, counts=(1, 10, 1000), rate=rate, timeout_ms=timeout_ms)
    return load


def check_gaps(verdict, load, cluster, tag):
    """What is missing up to max_id belongs to requests of unknown outcome, and there are not more
    of those than attempts that got no ids."""
    granted = int(cluster.leader().get_json(f"/api/tags/{tag}")["max_id"]) - 1
    lost = sum(client.lost + sum(client.refusals.values()) for client in load.clients)
    assert verdict.unknown <= lost
    assert granted - verdict.ids <= lost * 1000
    if lost == 0:
        assert granted == verdict.ids


# --- killed ---


def kill_leader(cluster, load):
    leader = cluster.leader()
    term = leader.cluster_status()["term"]
    leader.kill9()
    new = cluster.wait_leader(among=cluster.running())
    assert new is not leader and new.cluster_status()["term"] > term
    load.wait_all_served()
    leader.start().wait_ready()


@pytest.mark.bound(60)
def test_leader_killed_three_times(make_cluster, recorder, tag):
    cluster = make_cluster(settings={})
    load = start_load(cluster, recorder, tag, timeout_ms=10_000)  # longest_s is what counts
    with load:
        for _ in range(3):
            load.wait_answers(300)
            kill_leader(cluster, load)
        load.wait_all_served()
        verdict = load.finish()
    assert sum(client.lost for client in load.clients) > 0, "the kills were not felt"
    assert max(client.longest_s for client in load.clients) < 5.0
    check_gaps(verdict, load, cluster, tag)


@pytest.mark.slow
@pytest.mark.bound(240)
# Shows P3-leader.
def test_leader_killed_every_five_seconds_for_two_minutes(make_cluster, recorder, tag):
    cluster = make_cluster(settings={})
    load = start_load(cluster, recorder, tag, rate=20.0)
    with load:
        began = time.monotonic()
        kills = 0
        while time.monotonic() < began + 120:
            due = began + 5 * kills
            wait_until(lambda at=due: time.monotonic() >= at, 6, "five seconds")
            load.check_running()
            kill_leader(cluster, load)
            kills += 1
        load.wait_all_served()
        verdict = load.finish()
    assert kills >= 20
    assert verdict.operations > 50_000
    check_gaps(verdict, load, cluster, tag)


# --- stopped and resumed ---


@pytest.mark.bound(60)
# Shows P3-leader, lesson-old-leader.
def test_leader_stopped_for_five_seconds(make_cluster, recorder, tag):
    """SIGSTOP: the others elect one of them; the old leader comes back with all it had under way,
    and hands out nothing by it that is not the log's."""
    cluster = make_cluster(settings={})
    load = start_load(cluster, recorder, tag)
    with load:
        load.wait_answers(300)
        old = cluster.leader()
        others = cluster.others(old)
        load.may_refuse[old.id] |= NO_ANSWER
        old.pause()
        stopped = time.monotonic()
        try:
            new = cluster.wait_leader(among=others)
            load.wait_all_served(among=others)
            wait_until(lambda: time.monotonic() > stopped + 5, 6, "five seconds")
        finally:
            old.resume()
        assert new is not old
        cluster.wait_follows(old)
        load.wait_all_served()
        verdict = load.finish()
    for node in others:
        assert not load.refusals(node)
    check_gaps(verdict, load, cluster, tag)


@pytest.mark.slow
def test_leader_stopped_for_less_than_an_election(make_cluster, recorder, tag):
    """Nobody may notice but by waiting."""
    cluster = make_cluster(settings={})
    load = start_load(cluster, recorder, tag, clients=32)
    with load:
        load.wait_answers(200)
        leader = cluster.leader()
        leader.pause()
        stopped = time.monotonic()
        try:
            wait_until(lambda: time.monotonic() > stopped + 0.5, 2, "half a second")
        finally:
            leader.resume()
        load.wait_all_served()
        verdict = load.finish()
    assert verdict.unknown == 0
    check_gaps(verdict, load, cluster, tag)


# --- cut off ---


@contextlib.contextmanager
def leader_cut_off(load, cluster, proxies, tag, way):
    """While the load runs, with clients at the leader: it is cut off that way, another one leads,
    and the links are healed again."""
    old = cluster.leader()
    others = cluster.others(old)
    lonely = [load.add(old, tag, rate=20, timeout_ms=1000) for _ in range(8)]
    lonely += [load.add(old, tag, rate=20, timeout_ms=0) for _ in range(2)]
    load.may_refuse[old.id] |= NO_ANSWER
    with load:
        load.wait_answers(300)
        for other in others:
            if way != "hears nothing":
                proxies.cut(old, other)
            if way != "not heard":
                proxies.cut(other, old)
        new = cluster.wait_leader(among=others)
        assert new is not old
        load.wait_all_served(among=others)
        wait_until(lambda: all(client.refusals for client in lonely), 10, "refusals")
        load.wait_all_served(among=others)
        proxies.heal()
        cluster.wait_follows(old)
        yield old, others


@pytest.mark.parametrize(
    "way", ["both", "not heard", pytest.param("hears nothing", marks=pytest.mark.slow)]
)
@pytest.mark.bound(60)
def test_leader_cut_off(make_cluster, proxies, recorder, tag, way):
    """The leader is cut off from its peers, both ways or one, while its clients still reach it:
    they may be told so after their timeout, the clients of the others see nothing, and no id is
    handed out by a leader that is none any more."""
    cluster = make_cluster(settings=FAST, proxies=proxies)
    load = start_load(cluster, recorder, tag)
    with leader_cut_off(load, cluster, proxies, tag, way) as (old, others):
        load.wait_all_served()
        verdict = load.finish()
    for node in others:
        assert not load.refusals(node)
    assert set(load.refusals(old)) <= NO_ANSWER
    check_gaps(verdict, load, cluster, tag)


@pytest.mark.slow
@pytest.mark.bound(60)
def test_leader_cut_off_with_default_timeouts(make_cluster, proxies, recorder, tag):
    """The same with 64 clients and the timeouts of a default configuration, and with clients that
    take the whole five seconds for their question."""
    cluster = make_cluster(settings={}, proxies=proxies)
    load = start_load(cluster, recorder, tag)
    old = cluster.leader()
    others = cluster.others(old)
    load.may_refuse[old.id] |= NO_ANSWER
    with load:
        load.wait_answers(300)
        proxies.isolate(old)
        cluster.wait_leader(among=others)
        load.wait_all_served(among=others)
        wait_until(lambda: load.refusals(old), 12, "refusals")
        proxies.heal()
        load.wait_all_served()
        verdict = load.finish()
    for node in others:
        assert not load.refusals(node)
    check_gaps(verdict, load, cluster, tag)


@pytest.mark.quiet
def test_follower_cut_off(make_cluster, proxies, recorder, tag):
    """Its clients are told after their timeout; nobody else notices; keyed clients get their ids
    elsewhere, and those of the node's clients that had a key are not allocated twice."""
    cluster = make_cluster(proxies=proxies)
    load = start_load(cluster, recorder, tag, clients=24)
    lonely, other = cluster.followers()
    for node in cluster.nodes:
        load.add(node, tag, counts=(1, 10), rate=20, timeout_ms=500, keyed=True)
    load.may_refuse[lonely.id] |= NO_ANSWER
    with load:
        load.wait_answers(300)
        proxies.isolate(lonely)
        wait_until(lonely.sees_no_leader, 10, "the node is alone")
        load.wait_all_served(among=[cluster.leader(), other])
        keyed = [client for client in load.clients if client.keyed]
        before = {client: client.answers for client in keyed}
        wait_until(lambda: all(c.answers > n for c, n in before.items()), 10, "ids for the keyed")
        proxies.heal()
        load.wait_all_served()
        verdict = load.finish()
    check_gaps(verdict, load, cluster, tag)


# --- leadership that comes back ---


@pytest.mark.bound(60)
# Shows P3-aba.
def test_leadership_goes_and_comes_back(make_cluster, proxies, recorder, tag):
    """A leads, B leads, A leads again, each time with the former leader's work under way: what A
    appended in its first term and did not commit comes to nothing or to its place, once."""
    cluster = make_cluster(proxies=proxies)
    load = start_load(cluster, recorder, tag, clients=32)
    for node in cluster.nodes:
        load.may_refuse[node.id] |= NO_ANSWER
        # With so much patience they do not go on to the node that is stopped.
        load.add(node, tag, counts=(1, 10), rate=20, keyed=True)
    with load:
        for _ in range(2):
            load.wait_answers(100)
            first = cluster.leader()
            second, third = cluster.followers()
            first.pause()
            try:
                second = cluster.wait_leader(among=[second, third])
                third = cluster.others(first, second)[0]
                load.wait_answers(50)
            finally:
                first.resume()
            wait_until(
                lambda n=first, s=second: n.cluster_status()["leader_id"] == s.id,
                10,
                "the first one follows",
            )
            load.wait_answers(50)
            # The third misses what follows, so it cannot be elected by the first.
            proxies.isolate(third)
            load.wait_all_served(among=[first, second])
            second.pause()
            proxies.heal()
            try:
                assert cluster.wait_leader(among=[first, third]) is first
                load.wait_all_served(among=[first, third])
            finally:
                second.resume()
            load.wait_all_served()
        verdict = load.finish()
    check_gaps(verdict, load, cluster, tag)


@pytest.mark.bound(60)
def test_what_an_old_leader_appended_is_committed_by_the_next(
    make_cluster, proxies, recorder, tag
):
    """The leader's appends reach one follower, which cannot tell it so: not committed, not
    answered. Then the leader is killed and that follower, with the longest log, must lead: what
    it has commits late, once, although the requests came again from their nodes."""
    cluster = make_cluster(proxies=proxies)
    load = start_load(cluster, recorder, tag, clients=32)
    with load:
        for _ in range(2):
            load.wait_answers(100)
            leader = cluster.leader()
            knows, other = cluster.followers()
            before = knows.cluster_status()
            proxies.cut(knows, leader)
            proxies.cut(other, leader)
            proxies.cut(leader, other)
            # The leader hears of nobody any more, so what it sends from now on stays open.
            wait_until(
                lambda n=leader: n.process.poll() is None and not n.cluster_status()["leader_id"],
                5,
                "the leader gives up",
            )
            leader.kill9()
            proxies.heal()
            assert cluster.wait_leader(among=[knows, other]) is not leader
            assert knows.cluster_status()["term"] > before["term"]
            load.wait_all_served()
            leader.start().wait_ready()
            load.wait_all_served()
        verdict = load.finish()
    check_gaps(verdict, load, cluster, tag)
