"""Monotonic tags under faults: ids that rise over all nodes and clients, with gaps, without a write
to a disk for each batch (docs/monotonic.md). Clients of three nodes while the leader is killed,
stopped and resumed, cut off and restarted, and while the mode changes; the checker finds nothing,
and clients of nodes that live and reach a majority see no error.

Windows are short here (step, max_step), so that they are renewed all the time.
"""

import pytest

from client import parse_ids
from cluster import FAST, STEADY
from strict_load import Axes, StrictLoad, ask, key_header, take
from test_give_back import stop
from test_mode_change import hold_segments, row_of, set_mode, told
from test_strict_faults import NO_ANSWER, kill_leader, leader_cut_off
from wait import wait_until

SHORT = {"step": 2, "max_step": 3}
CLIENTS = 36


def start_load(cluster, recorder, tag, clients=CLIENTS, rate=15.0, **fields):
    """Clients of one id each, a few of more, and some with keys."""
    cluster.create_tag(tag, mode="monotonic", **(fields or SHORT))
    recorder.declare(tag, "monotonic", start=1)
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(clients - 9, tag, formats=("plain",), rate=rate)
    load.add_many(6, tag, counts=(1, 10, 1000), rate=rate)
    load.add_many(3, tag, counts=(1, 4), rate=rate, keyed=True)
    return load


def finish(load, cluster, tag):
    """Nothing is found, something was answered, and max_id is above all of it."""
    load.wait_all_served()
    verdict = load.finish()
    assert verdict.operations > 300 and verdict.undecided == 0
    assert int(cluster.leader().get_json(f"/api/tags/{tag}")["max_id"]) > verdict.ids
    return verdict


# --- without faults ---


def test_ids_rise_over_all_nodes_and_are_dense_while_one_leads(shared, tag):
    shared.create_tag(tag, mode="monotonic", **SHORT)
    row = row_of(shared.nodes[0], tag)
    assert row["mode"] == "monotonic" and row["changing"] is False
    expected = 1
    for count in (1, 1, 2, 3, 7, 1, 500, 1):
        for node in shared.nodes:
            assert take(node, tag, count) == (expected, expected + count - 1)
            expected += count


def test_every_format(shared, tag):
    shared.create_tag(tag, mode="monotonic")
    one, two, three = shared.nodes
    assert one.get(f"/api/segment/get/{tag}").body == b"1"
    assert parse_ids(ask(two, tag, 3, "text"), "text", 3) == [(2, 4)]
    assert parse_ids(ask(three, tag, 3, "json"), "json", 3) == [(5, 7)]
    answer = one.get(f"/api/segment/get/{tag}?count=4&contiguous=1&format=range")
    assert parse_ids(answer, "range", 4) == [(8, 11)]


def test_many_clients_at_once(shared, recorder, tag):
    load = start_load(shared, recorder, tag, step=50, max_step=1000)
    with load:
        load.wait_answers(2000)
        verdict = finish(load, shared, tag)
    assert verdict.unknown == 0


def test_max_id_that_is_set_by_hand_holds_at_once(shared, tag):
    shared.create_tag(tag, mode="monotonic", step=100, max_step=100)
    for turn, node in enumerate(shared.nodes):
        last = take(node, tag)[1]
        raised = 10_000 * (turn + 1)
        answer = node.http("PUT", f"/api/tags/{tag}", {"max_id": raised})
        assert answer.status == 200, answer
        for other in shared.nodes:
            first, last_now = take(other, tag)
            assert first >= raised and first > last, f"{other} goes on below: {first}"
            last = last_now


def test_deleted_and_made_again_it_goes_on_above(shared, tag):
    shared.create_tag(tag, mode="monotonic", **SHORT)
    top = max(take(node, tag, 2)[1] for node in shared.nodes)
    assert shared.nodes[1].http("DELETE", f"/api/tags/{tag}").status == 204
    for node in shared.nodes:
        assert ask(node, tag).code == "unknown_tag"
    shared.create_tag(tag, mode="monotonic", **SHORT)
    assert all(take(node, tag)[0] > top for node in shared.nodes)


# --- keys ---


def replayed(answer):
    assert answer.status == 200, answer
    return "idempotency-replayed" in answer.headers


def test_a_key_gives_the_same_ids_on_every_node(shared, tag):
    shared.create_tag(tag, mode="monotonic", **SHORT)
    one, two, three = shared.nodes
    answer = ask(one, tag, 3, key="order-1")
    assert not replayed(answer)
    ids = parse_ids(answer, "range", 3)
    above = take(two, tag)
    assert above[0] > ids[0][1], "ids without a key are above those of one"
    for node in (three, two, one):
        answer = ask(node, tag, 3, key="order-1")
        assert replayed(answer) and parse_ids(answer, "range", 3) == ids
        answer = ask(node, tag, 2, key="order-1")
        assert (answer.status, answer.code) == (409, "idempotency_conflict"), answer
    assert take(one, tag)[0] > above[1]


@pytest.mark.bound(60)
def test_keys_keep_their_ids_when_the_leader_changes(make_cluster, recorder, tag):
    """Also in the other modes: a key belongs to its tag."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, mode="monotonic", **SHORT)
    recorder.declare(tag, "monotonic", start=1)
    client = recorder.client("keys")
    keys = {}
    for turn in range(3):
        for number in range(4):
            key, count = f"{turn}-{number}", 1 + number
            node = cluster.nodes[number % 3]
            with client.operation(tag, count, key) as operation:
                keys[key] = take(node, tag, count, key)
                operation.answered([keys[key]])
        leader = cluster.leader()
        leader.kill9()
        cluster.wait_leader(among=cluster.running())
        leader.start().wait_ready()
        for node in cluster.nodes:
            for key, (first, last) in keys.items():
                with client.operation(tag, last - first + 1, key) as operation:
                    answer = ask(node, tag, last - first + 1, key=key)
                    assert replayed(answer), f"{key} on {node}"
                    operation.answered(parse_ids(answer, "range", last - first + 1))
    set_mode(cluster.nodes[0], tag, "strict")
    for key, (first, last) in keys.items():
        assert take(cluster.nodes[1], tag, last - first + 1, key) == (first, last)
    assert recorder.check().undecided == 0


# --- the leader goes ---


@pytest.mark.bound(60)
def test_leader_killed_three_times(make_cluster, recorder, tag):
    cluster = make_cluster(settings={})
    load = start_load(cluster, recorder, tag)
    with load:
        for _ in range(3):
            load.wait_answers(200)
            kill_leader(cluster, load)
        finish(load, cluster, tag)
    assert sum(client.lost for client in load.clients) > 0, "the kills were not felt"


@pytest.mark.bound(60)
@pytest.mark.parametrize("rounds", [3])
def test_leader_stopped_and_resumed(make_cluster, recorder, tag, rounds):
    """SIGSTOP: it comes back with a window, and with answers to its rounds in its sockets."""
    cluster = make_cluster(settings=FAST)
    load = start_load(cluster, recorder, tag)
    with load:
        for _ in range(rounds):
            load.wait_answers(150)
            old = cluster.leader()
            others = cluster.others(old)
            load.may_refuse[old.id] |= NO_ANSWER
            old.pause()
            try:
                new = cluster.wait_leader(among=others)
                load.wait_all_served(among=others)
            finally:
                old.resume()
            assert new is not old
            load.wait_all_served()
        finish(load, cluster, tag)


@pytest.mark.quiet
@pytest.mark.parametrize("way", ["both", "not heard", "hears nothing"])
@pytest.mark.bound(60)
def test_leader_cut_off(make_cluster, proxies, recorder, tag, way):
    """Its clients still reach it, and it has ids in its window: it may hand out none of them."""
    cluster = make_cluster(settings=FAST, proxies=proxies)
    load = start_load(cluster, recorder, tag)
    with leader_cut_off(load, cluster, proxies, tag, way) as (old, others):
        finish(load, cluster, tag)
    for node in others:
        assert not load.refusals(node)
    assert set(load.refusals(old)) <= NO_ANSWER


@pytest.mark.bound(60)
def test_leadership_handed_round(make_cluster, recorder, tag):
    """Each leads in turn, twice: a window of a former term is none."""
    cluster = make_cluster(settings=FAST)
    load = start_load(cluster, recorder, tag)
    with load:
        for turn in range(6):
            load.wait_answers(60)
            node = cluster.nodes[turn % 3]
            answer = node.http("POST", "/api/cluster/leader?timeout_ms=10000", {"id": node.id})
            assert answer.status == 200, answer
        finish(load, cluster, tag)


def test_without_a_majority_nobody_gets_ids(make_cluster, tag):
    """What is left of the window is not for a leader that nobody answers."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, mode="monotonic", step=1000, max_step=1000)
    leader = cluster.leader()
    top = take(leader, tag)[1]
    for node in cluster.others(leader):
        node.kill9()
    for timeout_ms in (0, 200, 1500):
        answer = ask(leader, tag, timeout_ms=timeout_ms)
        assert answer.status == 503 and answer.code in NO_ANSWER, answer
    for node in cluster.nodes:
        if node is not leader:
            node.start()
    cluster.wait_ready()
    assert all(take(node, tag)[0] > top for node in cluster.nodes)


# --- clean stops ---


@pytest.mark.bound(90)
def test_rolling_restarts_waste_nothing(make_cluster, tag):
    """A leader that stops gives back what is left of its window; ids go on where they were."""
    cluster = make_cluster(settings=STEADY)
    cluster.create_tag(tag, mode="monotonic", step=1000, max_step=1000)
    expected = 1
    for _ in range(2):
        for node in cluster.nodes:
            was_leader = cluster.leader() is node
            for asked in cluster.nodes:
                assert take(asked, tag, 3) == (expected, expected + 2)
                expected += 3
            _, lost = stop(node)
            assert lost == 0, f"{node}, {was_leader=}"
            cluster.wait_leader()
            if was_leader:
                assert int(row_of(cluster.leader(), tag)["max_id"]) == expected
            node.start().wait_ready()
    assert take(cluster.nodes[0], tag) == (expected, expected)


@pytest.mark.bound(90)
def test_rolling_restart_under_load(make_cluster, recorder, tag):
    """Nobody sees an error but of a node that goes."""
    cluster = make_cluster(settings=FAST)
    load = start_load(cluster, recorder, tag, step=50, max_step=1000)
    with load:
        for node in cluster.nodes:
            load.wait_answers(150)
            node.stop()
            load.wait_all_served()
            node.start().wait_ready()
        finish(load, cluster, tag)


# --- changes of the mode ---


@pytest.mark.bound(90)
def test_the_mode_changes_under_load(make_cluster, tmp_path, tag):
    """Each mode follows each: between monotonic and strict, and to trend, at once."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, step=20, max_step=20)
    axes = Axes(tmp_path / "history", tag)
    load = StrictLoad(axes, cluster.nodes)
    load.add_many(9, tag, formats=("plain",), rate=40)
    load.add_many(3, tag, counts=(1, 3, 30), rate=20)
    order = ("monotonic", "strict", "monotonic", "trend", "strict", "monotonic", "trend")
    with load:
        load.wait_answers(100)
        for turn, mode in enumerate(order):
            axes.became(set_mode(cluster.nodes[turn % 3], tag, mode))
            load.wait_answers(100)
            load.wait_all_served()
        load.stop()
        load.check_running()
        verdict = axes.check()
    assert verdict.operations > 1000


def test_what_the_window_held_is_burnt_by_a_change(make_cluster, tag):
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, mode="monotonic", step=1000, max_step=1000)
    top = take(cluster.followers()[0], tag)[1]
    row = set_mode(cluster.followers()[1], tag, "strict")
    start = int(row["max_id"])
    assert start > top
    assert [take(node, tag)[0] for node in cluster.nodes] == [start, start + 1, start + 2]


@pytest.mark.bound(60)
def test_to_monotonic_waits_for_those_that_hold_segments(make_cluster, tag):
    """As to strict: no round guards a segment in the memory of a node."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, step=100, max_step=100)
    top = hold_segments(cluster, tag)
    leader, away = cluster.leader(), cluster.followers()[0]
    away.pause()
    try:
        set_mode(leader, tag, "monotonic")
        answer = told(leader, tag, timeout_ms=500, mode="monotonic")
        assert f"node {away.id} " in answer.json()["message"]
    finally:
        away.resume()
    for node in (leader, *cluster.nodes):  # the others may give ids of segments until it answers
        first, top_now = take(node, tag)
        assert first > top
        top = top_now


def test_a_header_without_a_promise_is_refused_in_trend_mode_alone(shared, tag):
    shared.create_tag(tag)
    path = f"/api/segment/get/{tag}"
    answer = shared.nodes[0].http("GET", path, headers=key_header("k"))
    assert (answer.status, answer.code) == (400, "bad_key"), answer
    set_mode(shared.nodes[1], tag, "monotonic")
    wait_until(
        lambda: shared.nodes[0].http("GET", path, headers=key_header("k")).status == 200,
        10,
        "a key is taken",
    )
