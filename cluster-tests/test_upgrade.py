"""Upgrades from the last build of the level before, as real processes. scripts/previous-level
builds it from the commit that src/id/tests/recorded/level-N.commit names (docs/testing.md); where
there is no history these tests are skipped."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from attacker import ask_from
from cluster import FAST
from every_kind import EveryKind
from node import ROOT, leafd_path
from ports import take_port
from recovery import check_same_state
from strict_load import StrictLoad, ask, take
from test_membership import take_out, wait_shown, wait_voters
from test_mode_change import set_mode
from test_snapshot import INSTALLED, SMALL_LOG, all_rows, outgrow_the_log
from upgrade import (
    come_back,
    ends_too_old,
    exchange,
    exchange_all,
    level_of,
    previous_level,
    raise_level,
    wait_can_rise,
    wait_level,
)
from wait import wait_until
from workers import acquired, release, renew

RECORDED = os.path.join(ROOT, "src", "id", "tests", "recorded")
BUILD_S = 240  # for the test that is the first to need one
BY_HAND = {**FAST, "upgrade-auto": "false"}
BY_HAND_SMALL_LOG = {**SMALL_LOG, "upgrade-auto": "false"}


def recorded_levels(suffix):
    found = (re.fullmatch(rf"level-(\d+)\.{suffix}", name) for name in os.listdir(RECORDED))
    return sorted(int(match[1]) for match in found if match)


PREVIOUS = recorded_levels("commit")[-1]


def built(level):
    path, why = previous_level(level)
    if path is None:
        pytest.skip(why)
    return path


@pytest.fixture(scope="session")
def previous():
    """The leafd of the level before."""
    return built(PREVIOUS)


def files_of(directory):
    """Each file of data with a hash of what is in it; a table of readers holds none."""
    found = {}
    for place, _, names in os.walk(directory):
        for name in names:
            if "lock" not in name:
                with open(os.path.join(place, name), "rb") as file:
                    found[name] = hashlib.sha256(file.read()).hexdigest()
    assert found
    return found


@pytest.fixture
def old_cluster(make_cluster, previous):
    """Three nodes, all of the level before, and at it."""

    def make(settings):
        cluster = make_cluster(settings=settings, start=False)
        for node in cluster.nodes:
            node.binary = previous
        cluster.start()
        for level in range(2, PREVIOUS + 1):
            wait_can_rise(cluster.nodes[0])
            assert raise_level(cluster.nodes[0], level).status == 200
        wait_level(cluster, PREVIOUS)
        return cluster

    return make


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


def at_the_old_level(cluster):
    for node in cluster.running():
        assert level_of(node) == PREVIOUS, f"{node}: the level rose by itself"


def owners_count(cluster, do):
    """Below level 6 any client renews any worker id; from it on, its owner alone. By each node, of
    either age: the level in force decides."""
    for node in cluster.running():
        grant = acquired(node, f"owned{node.id}/{time.monotonic_ns()}", 1000)
        body = json.dumps({"epoch": grant["epoch"], "window_ms": 1000}).encode()
        other = ask_from("127.0.0.2", node, "PUT", f"/api/workers/{grant['worker_id']}", body,
                         {"Content-Type": "application/json"})
        assert (other.status, other.code if do else None) == (
            (409, "fenced") if do else (200, None)), other
        assert renew(node, grant).status == 200
        assert release(node, grant, last_timestamp_ms=1).status == 204
        row = node.get_json("/api/workers?limit=1024")["workers"]
        row = next(r for r in row if r["worker_id"] == grant["worker_id"])
        assert (row["until_ms"] >= grant["until_ms"]) == do, row


def nothing_of_the_next_level(cluster):
    """All links are up, and no worker id has an owner."""
    for node in cluster.running():
        members = node.cluster_status()["members"]
        assert all(m["reachable"] for m in members), members
    owners_count(cluster, False)


def text_of(node, tag):
    answer = node.get(f"/api/segment/get/{tag}")
    assert answer.status == 200, answer
    return answer.text.strip()


def check_text(node, tag, text):
    answer = node.get_json(f"/api/segment/decode/{tag}?text={text}")
    assert answer["granted"], answer


def change_keys(cluster):
    """Of one tag, by each node in turn; texts of before stay what they were, on all nodes."""
    made = cluster.running()[0].http("PUT", "/api/tags/keys", {"shape": "A{key}-{secret36:8}"})
    assert (made.status, made.json()["key"]) == (201, 0), made
    given = [text_of(node, "keys") for node in cluster.running()]
    for key, node in enumerate(cluster.running(), 1):
        answer = node.http("PUT", "/api/tags/keys", {"key": key})
        assert (answer.status, answer.json()["key"]) == (200, key), answer
        for other in cluster.running():  # one may be down, so nobody waits for all
            wait_until(lambda n=other, k=key: text_of(n, "keys").startswith(f"A{k}-"), 10,
                       f"{other} has key {key}")
            given.append(text_of(other, "keys"))
            assert given[-1].startswith(f"A{key}-"), given
    for node in cluster.running():
        for text in given:
            check_text(node, "keys", text)


def what_the_next_level_brings(cluster):
    """Owners of worker ids; and what the levels before brought still holds."""
    owners_count(cluster, True)
    change_keys(cluster)
    first, second, *_ = cluster.running()
    made = first.http("PUT", "/api/tags/tickets", {"mode": "monotonic", "step": 2, "max_step": 3})
    assert made.status == 201 and made.json()["mode"] == "monotonic", made
    top = 0
    for count in (1, 3, 8):
        for node in cluster.running():
            ids = take(node, "tickets", count)
            assert ids[0] > top, f"{node}: {ids} after {top}"
            top = ids[1]
    assert take(second, "tickets", 2, key="k") == take(first, "tickets", 2, key="k")
    answer = first.http("PUT", "/api/tags/short", {"max": "8", "max_id": 1, "mode": "strict"})
    assert answer.status == 201, answer
    assert take(second, "short", 7) == (1, 7)
    for node in cluster.running():
        answer = ask(node, "short")
        assert (answer.status, answer.code) == (409, "exhausted"), answer
    answer = second.http("PUT", "/api/layouts/s10", {"preset": "sonyflake"})
    assert answer.status == 200, answer
    for node in cluster.running():
        target = "/api/snowflake/get/k?layout=s10"
        wait_until(lambda n=node, t=target: n.get(t).status == 200, 10, f"{node} knows s10")


def monotonic_load(cluster, recorder):
    """Clients of a tag that was in trend mode below, while the leadership goes round."""
    cluster.create_tag("turned", step=10)
    for node in cluster.nodes:
        take(node, "turned")
    start = int(set_mode(cluster.nodes[0], "turned", "monotonic")["max_id"])
    recorder.declare("turned", "monotonic", start)
    load = StrictLoad(recorder, cluster.nodes, "turned-")
    load.add_many(6, "turned", counts=(1, 5), rate=30)
    load.add_many(3, "turned", rate=20, keyed=True)
    with load:
        for node in cluster.nodes:
            lead(node)
            load.wait_all_served()
    load.check_running()


def move(cluster, node, binary):
    """Exchange it, and have it live at another address."""
    node.stop()
    before = node.peer_address
    node.peer_port = take_port()
    node.members = node.members.replace(before, node.peer_address)
    come_back(cluster, node, binary)
    wait_shown(cluster, node, node.peer_address)


def restart_all_compares_rows(cluster):
    """A start compares all rows with the digest that was stored."""
    cluster.stop_all()
    cluster.start()
    check_same_state(cluster.nodes)


def test_every_older_level_names_its_last_commit():
    levels = recorded_levels("txt")
    assert recorded_levels("commit") == levels[:-1]
    for level in recorded_levels("commit"):
        with open(os.path.join(RECORDED, f"level-{level}.commit"), encoding="ascii") as file:
            assert re.fullmatch(r"[0-9a-f]{40}\n", file.read())


def git(*words):
    """None: git, or the history, is missing."""
    if shutil.which("git") is None or not os.path.exists(os.path.join(ROOT, ".git")):
        return None
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)


def test_a_recording_is_as_the_last_commit_of_its_level_had_it():
    """Who changes one has changed what a leafd of that level does."""
    for level in recorded_levels("commit")[1:]:
        place = f"src/id/tests/recorded/level-{level}"
        with open(os.path.join(ROOT, f"{place}.commit"), encoding="ascii") as file:
            commit = file.read().strip()
        there = git("cat-file", "-e", f"{commit}^{{commit}}")
        if there is None or there.returncode != 0:
            pytest.skip(f"no history: commit {commit}")
        show = git("show", f"{commit}:{place}.txt")
        assert show.returncode == 0, show.stderr
        with open(os.path.join(ROOT, f"{place}.txt"), "rb") as file:
            assert file.read() == show.stdout, f"{place}.txt"


@pytest.mark.bound(60 + BUILD_S)
def test_what_a_later_level_brings_is_not_in_force_before(old_cluster, previous):
    """In each mixture, under a leader of either age: nothing of it gets into the log, which an old
    leafd could not apply, or would apply as something else."""
    cluster = old_cluster(BY_HAND)
    first, second, third = cluster.nodes
    made = third.http("PUT", "/api/tags/card", {"shape": "{secret:9}"})
    assert made.status == 201, made
    text = text_of(third, "card")
    exchange(cluster, first, leafd_path())
    for leader in (first, second):
        lead(leader)
        owners_count(cluster, False)
    exchange(cluster, second, leafd_path())
    assert third.binary == previous
    for leader in (third, second):
        lead(leader)
        owners_count(cluster, False)
    check_same_state(cluster.nodes)
    exchange(cluster, third, leafd_path())
    owners_count(cluster, False)
    wait_can_rise(first)
    assert raise_level(first, PREVIOUS + 1).status == 200
    wait_level(cluster, PREVIOUS + 1)
    owners_count(cluster, True)
    change_keys(cluster)
    for node in cluster.nodes:
        check_text(node, "card", text)
    restart_all_compares_rows(cluster)


@pytest.mark.bound(120 + BUILD_S)
def test_up_and_back_and_up_and_the_level_under_load_of_every_kind(
    old_cluster, recorder, previous
):
    """In each mixture the states of all nodes are the same, to the row."""
    cluster = old_cluster(BY_HAND)
    new = leafd_path()
    every = EveryKind(cluster, recorder)
    first, second, third = cluster.nodes
    with every.load():
        exchange(cluster, first, new)
        every.wait_more()
        visitor = guest(cluster, 4, new)
        exchange(cluster, second, new)
        every.wait_more()
        take_leave(cluster, visitor)
    nothing_of_the_next_level(cluster)
    check_same_state(cluster.nodes)  # two new ones and an old one
    with every.load():
        exchange(cluster, third, new)
        every.wait_more()
        at_the_old_level(cluster)
        exchange(cluster, first, previous)
        exchange(cluster, second, previous)
        every.wait_more()
        take_leave(cluster, guest(cluster, 5, previous))
    check_same_state(cluster.nodes)  # one new one
    with every.load():
        exchange(cluster, third, previous)
        every.wait_more()
    check_same_state(cluster.nodes)
    with every.load():
        exchange(cluster, first, new)
        move(cluster, second, new)
        exchange(cluster, third, new)
        at_the_old_level(cluster)
        every.wait_more()
        nothing_of_the_next_level(cluster)
        wait_can_rise(first)
        response = raise_level(cluster.followers()[0], PREVIOUS + 1)
        assert response.status == 200, response
        wait_level(cluster, PREVIOUS + 1)
        what_the_next_level_brings(cluster)
        monotonic_load(cluster, recorder)
        every.wait_more()
    check_same_state(cluster.nodes)
    every.check()
    restart_all_compares_rows(cluster)


def rows_of_every_kind(cluster, number):
    """Something in every table, through every node: tags of both modes, keys, worker ids held and
    released, a deleted tag, a changed mode. Returns the keys with what they stand for."""
    keys = {}
    for node in cluster.running():
        name = f"{number}-{node.id}"
        cluster.create_tag(f"s{name}", node=node, mode="strict", max_id=100)
        keys[f"k{name}"] = (f"s{name}", take(node, f"s{name}", 3, key=f"k{name}"))
        cluster.create_tag(f"t{name}", node=node, step=10, description=name)
        take(node, f"t{name}", 1)
        cluster.create_tag(f"gone{name}", node=node)
        assert node.http("DELETE", f"/api/tags/gone{name}").status == 204
        acquired(node, f"holder{name}")
        assert release(node, acquired(node, f"guest{name}")).status == 204
        # With its segments, the mode could change only when all are there.
        cluster.create_tag(f"m{name}", node=node)
        set_mode(node, f"m{name}", "strict")
    return keys


def check_keys(node, keys):
    for key, (tag, ids) in keys.items():
        assert take(node, tag, ids[1] - ids[0] + 1, key=key) == ids, key


@pytest.mark.bound(60 + BUILD_S)
@pytest.mark.parametrize("direction", ["from_old_to_new", "from_new_to_old"])
def test_a_snapshot(old_cluster, previous, direction):
    """The one that comes back is of the other age, and gets the state from a leader of this one."""
    cluster = old_cluster(BY_HAND_SMALL_LOG)
    new = leafd_path()
    cluster.create_tag("churn")
    keys = rows_of_every_kind(cluster, 1)
    sender, receiver = (previous, new) if direction == "from_old_to_new" else (new, previous)
    if sender == new:
        exchange_all(cluster, new)
    away = cluster.followers()[0]
    away.stop()
    keys.update(rows_of_every_kind(cluster, 2))
    leader = cluster.leader()
    assert leader.binary == sender
    outgrow_the_log(cluster, leader, 300)
    size = len(away.log())
    away.binary = receiver
    away.start()
    away.wait_log(INSTALLED, timeout=20, start=size)
    away.wait_ready()
    at_the_old_level(cluster)
    check_same_state(cluster.nodes)
    assert all_rows(away, "local") == all_rows(leader, "linearizable")
    check_keys(away, keys)
    keys.update(rows_of_every_kind(cluster, 3))
    check_same_state(cluster.nodes)
    # It leads with what it was sent, and those of the other age follow.
    lead(away)
    keys.update(rows_of_every_kind(cluster, 4))
    check_same_state(cluster.nodes)
    restart_all_compares_rows(cluster)
    check_keys(leader, keys)


@pytest.mark.bound(60 + BUILD_S)
@pytest.mark.parametrize("how", ["log", "snapshot"])
def test_a_node_that_slept_through_the_upgrade(old_cluster, previous, how):
    """While the level is the old one it may come back as it was; later it is refused, and changes
    nothing; as a new one it goes on."""
    cluster = old_cluster(BY_HAND_SMALL_LOG if how == "snapshot" else BY_HAND)
    cluster.create_tag("churn")
    keys = rows_of_every_kind(cluster, 1)
    sleeper = cluster.followers()[0]
    sleeper.stop()
    others = cluster.others(sleeper)
    for node in others:
        exchange(cluster, node, leafd_path())
    response = raise_level(others[0], PREVIOUS + 1)
    assert (response.status, response.code) == (409, "in_the_way"), response
    come_back(cluster, sleeper, previous)
    check_same_state(cluster.nodes)
    check_keys(sleeper, keys)
    response = raise_level(others[0], PREVIOUS + 1)
    assert (response.status, response.code) == (409, "in_the_way"), response

    # Now it does not hear of the raise, and is put back to what it was.
    exchange(cluster, sleeper, leafd_path())
    wait_can_rise(others[0])
    if cluster.leader() is sleeper:
        lead(others[0])
    sleeper.pause()
    try:
        assert raise_level(others[0], PREVIOUS + 1).status == 200
    finally:
        sleeper.kill9()
    wait_level(cluster, PREVIOUS + 1)
    keys.update(rows_of_every_kind(cluster, 2))
    what_the_next_level_brings(cluster)
    if how == "snapshot":
        outgrow_the_log(cluster, cluster.leader(), 300)
    sleeper.binary = previous
    sleeper.start()
    ends_as_too_old(sleeper)
    size = len(sleeper.log())
    come_back(cluster, sleeper, leafd_path())
    if how == "snapshot":
        sleeper.wait_log(INSTALLED, start=size)
    check_same_state(cluster.nodes)
    check_keys(sleeper, keys)
    assert sleeper.get_json("/api/tags/short?consistency=local")["max"] == "8"
    sleeper.stop()
    before = files_of(sleeper.data_dir)
    sleeper.binary = previous
    sleeper.start()
    ends_as_too_old(sleeper)  # by its own data, this time
    assert files_of(sleeper.data_dir) == before
    come_back(cluster, sleeper, leafd_path())
    restart_all_compares_rows(cluster)


def lead(node):
    response = node.http("POST", "/api/cluster/leader?timeout_ms=10000", {"id": node.id})
    assert response.status == 200, response
    wait_until(lambda: node.cluster_status()["state"] == "leader", 10, f"{node} leads")


def ends_as_too_old(node):
    ends_too_old(node, f"level {PREVIOUS + 1}", PREVIOUS + 1, f"to {PREVIOUS}")
