"""Tags that change from trend to strict and back, under load, with nodes down and cut off.

What must hold is told in strict_load.Axes: no id twice over all times; within a strict time the
ids rise over all nodes and have no gaps, from max_id as the change found it; and once a strict id
was acknowledged, no id below is handed out by anybody.
"""

import time

import pytest

from client import parse_ids
from cluster import FAST
from strict_load import Axes, StrictLoad, ask, take
from test_snapshot import INSTALLED, SMALL_LOG, outgrow_the_log
from wait import wait_until

NO_ANSWER = {"timeout", "no_leader"}


def set_mode(node, tag, mode, query=""):
    """The tag as the change found it, its max_id above all."""
    answer = node.http("PUT", f"/api/tags/{tag}{query}", {"mode": mode})
    assert answer.status == 200, f"{node}: {answer}"
    row = answer.json()
    assert row["mode"] == mode
    return row


def row_of(node, tag, consistency="linearizable"):
    return node.get_json(f"/api/tags/{tag}?consistency={consistency}")


def hold_segments(cluster, tag):
    """Each node has a segment of the tag, and has handed out an id of it. Returns the highest."""
    return max(take(node, tag)[1] for node in cluster.nodes)


def held(node, tag):
    """How many ids of the tag the node has in memory."""
    page = node.get_json(f"/api/node/segments?prefix={tag}")
    slots = [slot for entry in page["segments"] if entry["tag"] == tag for slot in entry["slots"]]
    return sum(int(slot["end"]) - int(slot["next_id"]) for slot in slots if slot["size"])


def changing(row):
    """No tag in trend mode says so."""
    assert ("changing" in row) == (row["mode"] != "trend"), row
    return row.get("changing", False)


def told(node, tag, timeout_ms, key=None, mode="strict"):
    """The refusal that a strict request gets while the mode changes, after its time. Until the node
    has heard of the change it goes on with its segment, and that is why the others wait for it."""
    wait_until(lambda: row_of(node, tag, "local")["mode"] == mode, 10, f"{node} knows")
    while True:
        began = time.monotonic()
        answer = ask(node, tag, key=key, timeout_ms=timeout_ms)
        # An election, as on a busy machine, is no answer to this.
        assert (answer.status, answer.code in ("mode_changing", "timeout", "no_leader")) == (
            503, True), answer
        assert int(answer.headers["retry-after"]) >= 1
        assert time.monotonic() - began >= timeout_ms / 1000 - 0.1
        if answer.code == "mode_changing":
            return answer


def check_changing(node, tag, waits_for, timeout_ms=300):
    """A strict request is refused with the name of the node that is waited for."""
    assert f"node {waits_for.id} " in told(node, tag, timeout_ms).json()["message"]
    row = row_of(node, tag)
    assert row["mode"] == "strict" and changing(row)


def wait_changed(cluster, tag):
    wait_until(
        lambda: not any(changing(row_of(node, tag)) for node in cluster.running()), 10, "changed"
    )


@pytest.fixture
def axes(tmp_path, tag):
    return Axes(tmp_path / "history", tag)


def start_load(cluster, axes, tag, step=100):
    """Clients of all nodes; none may be told anything but ids."""
    cluster.create_tag(tag, step=step, max_step=step)
    load = StrictLoad(axes, cluster.nodes)
    load.add_many(9, tag, formats=("plain",), rate=50)
    load.add_many(6, tag, counts=(1, 3, 30), rate=30)
    return load


# --- what is shown ---


def test_shown(shared, tag):
    one, two, three = shared.nodes
    shared.create_tag(tag, step=10)
    assert not changing(row_of(one, tag))
    last = hold_segments(shared, tag)
    row = set_mode(two, tag, "strict")
    assert int(row["max_id"]) > last
    wait_changed(shared, tag)
    assert take(three, tag) == (int(row["max_id"]),) * 2
    for node in shared.nodes:
        shown = row_of(node, tag)
        assert shown["mode"] == "strict" and not changing(shown)
        assert shown["generation"] == row["generation"] > 1
        page = node.get_json(f"/api/node/segments?prefix={tag}")["segments"]
        assert [entry["state"] for entry in page] == ["strict"]
    assert all(held(node, tag) == 0 for node in shared.nodes)
    # The same again is no change.
    assert set_mode(one, tag, "strict")["generation"] == row["generation"]
    assert take(two, tag)[0] == int(row["max_id"]) + 1

    back = set_mode(three, tag, "trend")
    assert back["generation"] > row["generation"] and not changing(back)
    for node in shared.nodes:
        assert take(node, tag)[0] >= int(back["max_id"])
    assert all(held(node, tag) > 0 for node in shared.nodes)


def test_what_the_nodes_held_is_counted_as_burnt(shared, tag):
    shared.create_tag(tag, step=1000)
    take(shared.nodes[0], tag)

    def burnt():
        lines = shared.nodes[0].get("/metrics").text.splitlines()
        metric = 'leafd_ids_burnt_total{cause="generation"}'
        return int(next(line for line in lines if line.startswith(metric)).split()[1])

    wait_until(lambda: held(shared.nodes[0], tag) > 0, 5, "a segment is held")
    before, left = burnt(), held(shared.nodes[0], tag)
    set_mode(shared.nodes[1], tag, "strict")
    wait_changed(shared, tag)
    assert take(shared.nodes[0], tag)[0] > 1000
    assert burnt() >= before + left


def test_many_at_once(shared, tag):
    """POST with modes: made, changed, and all or nothing."""
    one, two, three = shared.nodes
    names = [f"{tag}.{number}" for number in range(20)]
    rows = [{"tag": n, "mode": "strict" if i % 2 else "trend"} for i, n in enumerate(names)]
    assert one.http("POST", "/api/tags", rows).json() == {"made": 20, "changed": 0}
    for name in names:
        take(two, name)
    for row in rows:
        row["mode"] = "trend" if row["mode"] == "strict" else "strict"
    refused = two.http("POST", "/api/tags", [*rows, {"tag": names[3], "mode": "odd"}])
    assert refused.status == 400
    assert take(three, names[1], 2) == (2, 3), "a change was made although all were refused"
    assert two.http("POST", "/api/tags", rows).json() == {"made": 0, "changed": 20}
    for number, name in enumerate(names):
        wait_changed(shared, name)
        first = take(three, name)[0]
        again = take(one, name)[0]
        if number % 2 == 0:
            assert again == first + 1, "strict now"
        assert row_of(two, name)["mode"] == rows[number]["mode"]


def test_keys_over_a_change(shared, tag):
    """A trend tag refuses keys; those of the strict time before stand for their ids still."""
    one, two, three = shared.nodes
    shared.create_tag(tag, mode="strict")
    got = take(one, tag, 5, key="k")
    set_mode(two, tag, "trend")
    for node in shared.nodes:
        answer = ask(node, tag, 5, key="k")
        assert (answer.status, answer.code) == (400, "bad_key"), answer
        assert take(node, tag)[0] > got[1]
    set_mode(three, tag, "strict")
    for node in shared.nodes:
        assert take(node, tag, 5, key="k") == got
        assert ask(node, tag, 6, key="k").code == "idempotency_conflict"


# --- under load ---


@pytest.mark.parametrize("via", ["follower", pytest.param("leader", marks=pytest.mark.slow)])
def test_to_strict_under_load(make_cluster, axes, tag, via):
    """Clients of all nodes see ids and nothing else."""
    cluster = make_cluster()
    load = start_load(cluster, axes, tag)
    node = cluster.leader() if via == "leader" else cluster.followers()[0]
    with load:
        load.wait_answers(300)
        axes.became_strict(set_mode(node, tag, "strict"))
        load.wait_all_served()
        load.wait_answers(300)
        load.finish()
    wait_changed(cluster, tag)


def test_back_and_forth_under_load(make_cluster, axes, tag):
    cluster = make_cluster()
    load = start_load(cluster, axes, tag, step=30)
    with load:
        for turn in range(5):
            load.wait_all_served()
            axes.became_strict(set_mode(cluster.nodes[turn % 3], tag, "strict"))
            load.wait_all_served()
            axes.became_trend(set_mode(cluster.nodes[(turn + 1) % 3], tag, "trend"))
        load.wait_all_served()
        load.finish()


def test_back_and_forth_while_leaders_are_killed(make_cluster, axes, tag):
    """A change waits for the node that was killed, and goes on as soon as it is back; nobody with
    five seconds of patience is told anything of it."""
    cluster = make_cluster()
    load = start_load(cluster, axes, tag, step=30)
    with load:
        for turn in range(2):
            load.wait_all_served()
            leader = cluster.leader()
            follower = cluster.followers()[turn % 2]
            change = set_mode(follower, tag, "strict")
            leader.kill9()
            axes.became_strict(change)
            cluster.wait_leader(among=cluster.running())
            leader.start().wait_ready()
            load.wait_all_served()
            leader = cluster.leader()
            follower = cluster.followers()[turn % 2]
            leader.kill9()
            axes.became_trend(set_mode(follower, tag, "trend"))
            load.wait_all_served()
            leader.start().wait_ready()
        load.wait_all_served()
        load.finish()


def test_restarts_of_all_while_the_mode_changes(make_cluster, axes, tag):
    cluster = make_cluster()
    load = start_load(cluster, axes, tag, step=30)
    with load:
        load.wait_all_served()
        axes.became_strict(set_mode(cluster.nodes[0], tag, "strict"))
        cluster.kill_all()
        cluster.start()
        load.wait_all_served()
        axes.became_trend(set_mode(cluster.nodes[1], tag, "trend"))
        cluster.kill_all()
        cluster.start()
        load.wait_all_served()
        load.finish()


# --- a node is down ---


def test_a_node_that_is_down_is_waited_for(make_cluster, tag):
    """It may hold a segment, for all the others know: 503 until it has been heard, through leader
    changes and restarts; and who waits is answered then."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=10)
    hold_segments(cluster, tag)
    down = cluster.followers()[0]
    up = cluster.others(down)
    down.kill9()
    row = set_mode(up[0], tag, "strict")
    assert changing(row)
    check_changing(up[0], tag, down)
    told(up[1], tag, 0, key="k")
    for node in up:
        node.kill9()
    for node in up:
        node.start()
    cluster.wait_ready()
    for node in up:
        check_changing(node, tag, down)
    # Other tags have nothing to do with it.
    cluster.create_tag(f"{tag}.new", mode="strict")
    assert take(up[0], f"{tag}.new") == (1, 1)

    with up[1].connect() as waiting:
        waiting.send(
            f"GET /api/segment/get/{tag}?timeout_ms=10000 HTTP/1.1\r\nHost: leafd\r\n\r\n".encode()
        )
        down.start()
        answer = waiting.read_response()
    assert answer.status == 200, answer
    first = int(row["max_id"])
    assert int(answer.body) == first, "refused requests took ids"
    down.wait_ready()
    for number, node in enumerate(cluster.nodes, 1):
        assert take(node, tag) == (first + number, first + number)
        assert not changing(row_of(node, tag))


def test_a_node_that_never_comes_back(make_cluster, tag):
    """The PUT again with ?force=1 says that it holds nothing that anybody may still be given."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=10)
    hold_segments(cluster, tag)
    down = cluster.leader()
    up = cluster.others(down)
    down.kill9()
    cluster.wait_leader(among=up)
    # The first one changes the mode and waits, forced or not: the nodes that are up hold ids, too.
    first = int(set_mode(up[0], tag, "strict", "?force=1")["max_id"])
    check_changing(up[1], tag, down)
    assert changing(set_mode(up[0], tag, "strict")), "the same again, not forced"
    check_changing(up[1], tag, down)
    assert not changing(set_mode(up[1], tag, "strict", "?force=1"))
    assert take(up[0], tag) == (first, first)
    assert take(up[1], tag) == (first + 1, first + 1)
    # It comes back after all: empty-handed, as a restarted node is.
    down.start().wait_ready()
    assert take(down, tag) == (first + 2, first + 2)


def test_a_tag_that_was_never_granted_waits_for_nobody(make_cluster, tag):
    """One that is made strict; and one that was strict before, through delete and create."""
    cluster = make_cluster()
    cluster.create_tag("other", step=10)
    hold_segments(cluster, "other")
    down = cluster.followers()[0]
    up = cluster.others(down)
    down.kill9()
    cluster.create_tag(tag, mode="strict")
    assert take(up[0], tag) == (1, 1)
    assert up[1].http("DELETE", f"/api/tags/{tag}").status == 204
    cluster.create_tag(tag, mode="strict")
    assert take(up[1], tag, timeout_ms=500) == (2, 2)


def test_made_again_as_strict(make_cluster, tag):
    """A node that is away may hold ids of the tag that was deleted meanwhile: the new one waits
    for it as a change does, whatever was between."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=10)
    last = hold_segments(cluster, tag)
    down = cluster.followers()[0]
    up = cluster.others(down)
    down.kill9()
    assert up[0].http("DELETE", f"/api/tags/{tag}").status == 204
    assert changing(cluster.create_tag(tag, node=up[1], mode="strict").json())
    check_changing(up[0], tag, down)
    assert up[0].http("DELETE", f"/api/tags/{tag}").status == 204
    answer = ask(up[1], tag)
    assert (answer.status, answer.code) == (404, "unknown_tag")
    cluster.create_tag(tag, node=up[0], mode="strict")
    check_changing(up[1], tag, down)
    down.start().wait_ready()
    assert take(up[0], tag)[0] > last


def test_a_change_that_is_called_off(make_cluster, axes, tag):
    """Back to trend while a node is waited for: segments at once, and no strict id ever was."""
    cluster = make_cluster()
    load = start_load(cluster, axes, tag)
    down = cluster.followers()[0]
    up = cluster.others(down)
    with load:
        load.wait_all_served()
        down.kill9()
        row = set_mode(up[0], tag, "strict")
        assert changing(row)
        back = set_mode(up[1], tag, "trend")
        assert back["max_id"] == row["max_id"] and not changing(back)
        load.wait_all_served()
        down.start().wait_ready()
        load.wait_all_served()
        load.finish()


def test_the_waiting_survives_a_snapshot(make_cluster, tag):
    """The node that is waited for gets the change by a snapshot; so does a node that leads then."""
    cluster = make_cluster(settings=SMALL_LOG)
    cluster.create_tag(tag, step=10)
    cluster.create_tag("churn")
    last = hold_segments(cluster, tag)
    down = cluster.followers()[0]
    up = cluster.others(down)
    down.kill9()
    set_mode(up[0], tag, "strict")
    outgrow_the_log(cluster, cluster.leader(), 150)
    cluster.kill_all()
    for node in up:
        node.start()
    cluster.wait_ready()
    for node in up:
        check_changing(node, tag, down)
    size = len(down.log())
    down.start()
    down.wait_log(INSTALLED, timeout=20, start=size)
    down.wait_ready()
    got = [take(node, tag, timeout_ms=5000)[0] for node in (down, *up)]
    assert got == list(range(got[0], got[0] + 3)) and got[0] > last


# --- a node is cut off ---


def take_local(node, tag):
    """An id out of the node's memory, None if there is none."""
    answer = node.get(f"/api/segment/get/{tag}?timeout_ms=0")
    if answer.status == 200:
        return parse_ids(answer, "plain", 1)[0][0]
    assert (answer.status, answer.code) == (503, "no_leader"), answer
    return None


@pytest.mark.parametrize("who", ["leader", pytest.param("follower", marks=pytest.mark.slow)])
# Shows P3-mode.
def test_no_strict_id_while_a_node_may_hand_out_others(make_cluster, proxies, tag, who):
    """The point of it all. A node that is cut off goes on with its segment; as long as it may, no
    strict id is acknowledged; when it is back, none of its segment is handed out any more."""
    cluster = make_cluster(proxies=proxies)
    cluster.create_tag(tag, step=100, max_step=100)
    hold_segments(cluster, tag)
    lonely = cluster.leader() if who == "leader" else cluster.followers()[0]
    others = cluster.others(lonely)
    proxies.isolate(lonely)
    cluster.wait_leader(among=others)
    wait_until(lonely.sees_no_leader, 10, "the node is alone")

    assert take_local(lonely, tag) is not None
    row = set_mode(others[0], tag, "strict")
    first = int(row["max_id"])
    for node in others:
        check_changing(node, tag, lonely)
    for _ in range(2):
        trend = take_local(lonely, tag)
        assert trend is not None and trend < first, "its segment is still its own"
        check_changing(others[0], tag, lonely, timeout_ms=0)
    # It does not know of the change, so it says what it knows.
    assert row_of(lonely, tag, "local")["mode"] == "trend"
    assert held(lonely, tag) > 10, "the segment must not be used up for what follows"

    proxies.heal()
    assert take(others[1], tag, timeout_ms=10_000) == (first, first)
    # From here on every node knows, or asks somebody who does.
    for number in range(1, 7):
        node = cluster.nodes[number % 3]
        assert take(node, tag, timeout_ms=5000) == (first + number, first + number)
    assert held(lonely, tag) == 0


@pytest.mark.quiet
def test_cut_off_under_load(make_cluster, proxies, axes, tag):
    """The same with clients everywhere: those of the node that is alone get its segment and then
    errors, those of the others may be told that the mode is changing; the history decides."""
    cluster = make_cluster(proxies=proxies)
    cluster.create_tag(tag, step=500, max_step=500)
    load = StrictLoad(axes, cluster.nodes)
    load.add_many(12, tag, formats=("plain",), rate=30, timeout_ms=300)
    load.add_many(6, tag, counts=(1, 3), rate=30, timeout_ms=300)
    with load:
        for turn in range(2):
            load.wait_all_served()
            lonely = cluster.leader() if turn else cluster.followers()[0]
            others = cluster.others(lonely)
            for node in cluster.nodes:
                load.may_refuse[node.id] |= NO_ANSWER | {"mode_changing"}
            proxies.isolate(lonely)
            cluster.wait_leader(among=others)
            row = set_mode(others[0], tag, "strict")
            assert changing(row)
            before = load.refusals(others[0])["mode_changing"]
            wait_until(
                lambda n=others[0], t=before: load.refusals(n)["mode_changing"] > t + 5,
                10,
                "clients are told",
            )
            assert row_of(others[1], tag)["max_id"] == row["max_id"], "a strict id was allocated"
            proxies.heal()
            axes.became_strict(row)
            load.wait_all_served()
            axes.became_trend(set_mode(others[1], tag, "trend"))
        load.wait_all_served()
        load.finish()


@pytest.mark.slow
def test_a_paused_node_is_waited_for(make_cluster, axes, tag):
    """SIGSTOP of a node that holds a segment: the change waits until it goes on, however long; and
    what it answers when it goes on is above nothing that was acknowledged."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, step=1000, max_step=1000)
    load = StrictLoad(axes, cluster.nodes)
    load.add_many(12, tag, formats=("plain",), rate=50)
    with load:
        load.wait_all_served()
        stopped = cluster.leader()
        others = cluster.others(stopped)
        stopped.pause()
        try:
            cluster.wait_leader(among=others)
            row = set_mode(others[0], tag, "strict")
            check_changing(others[1], tag, stopped, timeout_ms=1000)
            assert row_of(others[1], tag)["max_id"] == row["max_id"]
        finally:
            stopped.resume()
        axes.became_strict(row)
        load.wait_all_served()
        load.finish()
