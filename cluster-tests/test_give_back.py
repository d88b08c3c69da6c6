"""What becomes of the segments a node holds when it stops: given back where that is safe, burnt
where it is not, never handed out twice; and the counters that say so."""

import itertools
import random
import re
import time

import pytest

from client import get_bytes, parse_ids, request_bytes
from cluster import FAST
from strict_load import StrictLoad, ask, key_header, target
from wait import wait_until

GIVEN_BACK = re.compile(r'msg="segments given back" ids=(\d+) burnt=(\d+)')


def take(node, tag, count=1, options=""):
    answer = node.get(f"/api/segment/get/{tag}?count={count}&format=range{options}")
    assert answer.status == 200, f"{node} {tag}: {answer}"
    return parse_ids(answer, "range", count)


def max_id(node, tag):
    return int(node.get_json(f"/api/tags/{tag}")["max_id"])


def held(node, tag):
    """How many ids of the tag the node has in memory."""
    page = node.get_json(f"/api/node/segments?prefix={tag}")
    slots = [slot for entry in page["segments"] if entry["tag"] == tag for slot in entry["slots"]]
    return sum(int(slot["end"]) - int(slot["next_id"]) for slot in slots if slot["size"])


def metric(node, name):
    lines = node.get("/metrics").text.splitlines()
    return int(next(line for line in lines if line.startswith(f"{name} ")).split()[-1])


def burnt(node, cause):
    return metric(node, f'leafd_ids_burnt_total{{cause="{cause}"}}')


def stop(node):
    """(given back, burnt), as the node says at its end."""
    size = len(node.log())
    node.stop()
    lines = GIVEN_BACK.findall(node.log()[size:])
    assert len(lines) == 1, f"{node} says how many it gave back: {lines}"
    return tuple(map(int, lines[0]))


# --- one node that uses a tag ---


@pytest.mark.parametrize(
    "who,taken",
    [("leader", 7), ("leader", 1000), ("follower", 7), ("follower", 150), ("follower", 999)],
)
def test_a_clean_stop_gives_back_all_that_is_unused(make_cluster, tag, who, taken):
    """max_id is the last id used, plus one; also when there are two segments, or none left."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=1000, max_step=1000)
    node = cluster.leader() if who == "leader" else cluster.followers()[0]
    other = cluster.others(node)[0]
    assert take(node, tag, taken) == [(1, taken)]
    if taken >= 100:
        wait_until(lambda: max_id(other, tag) == 2001, 5, "the second segment was granted")
        wait_until(lambda: held(node, tag) == 2000 - taken, 5, "and came")
    assert stop(node) == (max_id_before(taken) - taken - 1, 0)
    cluster.wait_leader()
    assert max_id(other, tag) == taken + 1
    # What was given back is handed out by whoever asks for it.
    assert take(other, tag) == [(taken + 1, taken + 1)]
    node.start().wait_ready()
    assert take(node, tag)[0][0] > taken + 1


def max_id_before(taken):
    return 1001 if taken < 100 else 2001


def test_a_cluster_of_one(make_cluster, tag):
    cluster = make_cluster(size=1)
    cluster.create_tag(tag, step=1000)
    node = cluster.nodes[0]
    for turn in range(5):
        assert take(node, tag, 3) == [(turn * 3 + 1, turn * 3 + 3)]
        # Once it has come a second time the segment may have been fetched before the request.
        assert stop(node)[1] == 0
        node.start().wait_ready()
        assert max_id(node, tag) in (turn * 3 + 4, turn * 3 + 1004)


def test_many_tags(make_cluster):
    """More than one command takes, and all at once."""
    cluster = make_cluster()
    tags = [f"t{number:04}" for number in range(1500)]
    rows = [{"tag": name, "step": 100, "max_id": 5} for name in tags]
    assert cluster.nodes[0].http("POST", "/api/tags", rows).status == 200
    node, other = cluster.followers()
    clients = [node.connect() for _ in range(30)]
    for number, client in enumerate(clients):
        mine = tags[number::30]
        client.send(b"".join(get_bytes(f"/api/segment/get/{name}") for name in mine))
    for number, client in enumerate(clients):
        for _ in tags[number::30]:
            assert client.read_response().body == b"5"
        client.close()
    assert stop(node) == (1500 * 99, 0)
    page = other.get_json("/api/tags?limit=1000")["tags"]
    page += other.get_json("/api/tags?limit=1000&after=t0999")["tags"]
    assert {row["max_id"] for row in page} == {"6"} and len(page) == 1500


@pytest.mark.bound(90)
def test_rolling_restarts_waste_nothing(make_cluster, tag):
    """Five rounds over all nodes, each after a few ids of the one node that is asked: in the end
    not one id is missing below max_id."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=1000)
    used = cluster.nodes[1]
    last = 0
    for turn in range(5):
        for node in cluster.nodes:
            count = turn % 3 + 1
            assert take(used, tag, count) == [(last + 1, last + count)]
            last += count
            given, lost = stop(node)
            assert lost == 0
            assert (given > 0) == (node is used)
            cluster.wait_leader()
            node.start().wait_ready()
    stop(used)
    cluster.wait_leader()
    assert max_id(cluster.nodes[0], tag) == last + 1


# --- what cannot be given back ---


def test_only_the_top_is_given_back(make_cluster, tag):
    """Below another node's segment it is burnt; the other's own goes back."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=100)
    low, high = cluster.followers()
    assert take(low, tag, 5) == [(1, 5)]
    assert take(high, tag, 5) == [(101, 105)]
    assert stop(low) == (0, 95)
    assert max_id(high, tag) == 201
    assert stop(high) == (95, 0)
    low.start().wait_ready()
    wait_until(lambda: held(low, tag) == 100, 5, "it fetches a segment anew")
    assert max_id(low, tag) == 206
    assert take(low, tag) == [(106, 106)]


# Shows P1-back.
def test_what_was_returned_and_granted_again_is_not_returned_twice(make_cluster, tag):
    """A range of the same bounds is granted again; each id is handed out once."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, step=100, max_step=100)
    first = 1
    for turn in range(3):
        node = cluster.nodes[turn]
        assert take(node, tag, 3) == [(first, first + 2)]
        assert stop(node) == (97, 0)
        cluster.wait_leader()
        assert max_id(cluster.others(node)[0], tag) == first + 3
        node.start().wait_ready()
        # It fetches a segment anew, of the same bounds, and gives all of it back.
        wait_until(lambda: held(node, tag) == 100, 30, "it fetches a segment anew")
        assert stop(node) == (100, 0)
        cluster.wait_leader()
        assert max_id(cluster.others(node)[0], tag) == first + 3
        node.start().wait_ready()
        wait_until(lambda: held(node, tag) == 100, 30, "and once more")
        first += 103


# Shows P1-back.
def test_what_was_returned_and_granted_to_another_is_not_returned_twice(make_cluster, tag):
    """Ranges of the same bounds go from node to node; each id is handed out once."""
    cluster = make_cluster(settings=FAST)
    for turn in range(3):
        node, other = cluster.nodes[turn], cluster.nodes[(turn + 1) % 3]
        name = f"{tag}{turn}"
        cluster.create_tag(name, step=100, max_step=100)
        assert take(node, name, 3) == [(1, 3)]
        node.stop()
        cluster.wait_leader()
        assert max_id(other, name) == 4
        assert take(other, name, 3) == [(4, 6)]
        node.start().wait_ready()
        wait_until(lambda node=node, name=name: held(node, name) == 100, 30, "it fetches a segment")
        node.stop()  # what it has now lies above what the other one has
        cluster.wait_leader()
        assert max_id(other, name) == 104
        assert take(other, name, 97) == [(7, 103)]
        node.start().wait_ready()


def test_a_kill_burns(make_cluster, tag):
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, step=100)
    node, other = cluster.followers()
    for turn in range(3):
        assert take(node, tag, 5)[0] == (turn * 100 + 1, turn * 100 + 5)
        node.kill9()
        assert max_id(other, tag) == (turn + 1) * 100 + 1
        node.start().wait_ready()


def test_without_a_majority_it_is_burnt(make_cluster, tag):
    """Nobody is there to take it: the node says so, in time, and its ids never come again."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, step=100)
    node = cluster.followers()[0]
    others = cluster.others(node)
    assert take(node, tag, 5) == [(1, 5)]
    for other in others:
        other.kill9()
    wait_until(node.sees_no_leader, 10, "no leader is known")
    began = time.monotonic()
    assert stop(node) == (0, 95)
    assert time.monotonic() - began < 10
    for other in others:  # the first one would fetch a segment for itself
        other.start()
    cluster.wait_ready()
    assert take(others[0], tag) == [(101, 101)]


@pytest.mark.slow
def test_cut_off_it_is_burnt(make_cluster, proxies, tag):
    """The same, while the others go on."""
    cluster = make_cluster(settings=FAST, proxies=proxies)
    cluster.create_tag(tag, step=100)
    node = cluster.leader()
    others = cluster.others(node)
    assert take(node, tag, 5) == [(1, 5)]
    proxies.isolate(node)
    cluster.wait_leader(among=others)
    assert stop(node) == (0, 95)
    proxies.heal()
    assert take(others[0], tag) == [(101, 101)]
    node.start().wait_ready()
    assert take(node, tag) == [(201, 201)]


def test_deleted_forced_and_strict_tags_have_nothing_to_give(make_cluster):
    """What the node held of them was burnt before, and the new axis is not touched."""
    cluster = make_cluster(settings=FAST)
    node, other = cluster.followers()
    for tag in ("deleted", "forced", "strict", "kept"):
        cluster.create_tag(tag, step=100, max_id=1000)
        take(node, tag, 10)
    assert other.http("DELETE", "/api/tags/deleted").status == 204
    assert other.http("PUT", "/api/tags/forced?force=1", {"max_id": 500}).status == 200
    assert other.http("PUT", "/api/tags/strict", {"mode": "strict"}).status == 200
    wait_until(lambda: burnt(node, "generation") == 270, 5, "three times 90 ids are burnt")
    assert stop(node) == (90, 0)
    cluster.create_tag("deleted", node=other)
    found = {tag: max_id(other, tag) for tag in ("deleted", "forced", "strict", "kept")}
    assert found == {"deleted": 1100, "forced": 500, "strict": 1100, "kept": 1010}


@pytest.mark.slow
def test_stop_of_all_at_once(make_cluster, tag):
    """Some find a majority for what they hold and some do not; nothing comes twice."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, step=100)
    seen = set()
    for _ in range(2):
        for node in cluster.nodes:
            for first, last in take(node, tag, 30):
                fresh = set(range(first, last + 1))
                assert not fresh & seen
                seen |= fresh
        cluster.stop_all()
        cluster.start()


# --- under load ---


@pytest.mark.quiet
@pytest.mark.bound(90)
# Shows lesson-no-write-back.
def test_rolling_restarts_under_load(make_cluster, recorder):
    """Trend tags with small and large steps beside a strict one; stops and kills, in any order."""
    cluster = make_cluster()
    steps = {"tiny": 1, "small": 20, "large": 5000}
    for tag, step in steps.items():
        cluster.create_tag(tag, step=step, max_step=max(step, 100))
        recorder.declare(tag, "trend")
    cluster.create_tag("strict", mode="strict")
    recorder.declare("strict", "strict", start=1)
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(9, list(steps), counts=(1, 7, 50), rate=40)
    load.add_many(3, [*steps, "strict"], counts=(1, 7), rate=30)
    given = 0
    source = random.Random(7)
    with load:
        # Six turns, and more until one has given something back: others may have taken what lies
        # above it before.
        for turn in itertools.takewhile(lambda turn: turn < 6 or given == 0, range(20)):
            load.wait_answers(100)
            node = cluster.nodes[turn % 3]
            if source.random() < 0.3:
                node.kill9()
            else:
                given += stop(node)[0]
            cluster.wait_leader()
            load.wait_answers(50)
            node.start().wait_ready()
            load.wait_all_served()
        load.finish()
    assert given > 0, "nothing was ever given back"


# --- why ids were burnt ---


def test_skipped_for_contiguous(shared, tag):
    shared.create_tag(tag, step=10, max_step=10)
    node = shared.nodes[0]
    before = burnt(node, "skipped")
    assert take(node, tag, 7) == [(1, 7)]
    assert len(take(node, tag, 5, "&contiguous=1")) == 1
    assert burnt(node, "skipped") == before + 3


def left_alone(cluster):
    """A follower, and nobody who could grant it more."""
    node = cluster.followers()[0]
    yield node
    for other in cluster.others(node):
        other.kill9()
    wait_until(node.sees_no_leader, 10, "no leader is known")
    yield node


def test_what_fails_leaves_what_is_there(make_cluster, tag):
    """A request waits for more than there is, and ends, or its client goes: others get what is."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=100)
    alone = left_alone(cluster)
    node = next(alone)
    assert take(node, tag, 5) == [(1, 5)]
    next(alone)
    assert ask(node, tag, 96, timeout_ms=100).status == 503
    assert held(node, tag) == 95
    with node.connect() as large, node.connect() as small:
        for connection, count in ((large, 500), (small, 5)):
            connection.send(get_bytes(f"/api/segment/get/{tag}?count={count}&timeout_ms=10000"))
        large.close()
        assert small.read_response().body == b"6\n7\n8\n9\n10\n"
    assert take(node, tag, 90) == [(11, 100)]
    assert burnt(node, "unanswered") == 0


def test_unanswered(make_cluster, tag):
    """More than both segments have makes room for others only by taking these: they are lost when
    no other comes."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=100, max_step=100)
    alone = left_alone(cluster)
    node = next(alone)
    assert take(node, tag, 15) == [(1, 15)]
    wait_until(lambda: held(node, tag) == 185, 10, "two segments")
    next(alone)
    assert ask(node, tag, 500, timeout_ms=100).status == 503
    assert burnt(node, "unanswered") == 185
    assert held(node, tag) == 0


@pytest.mark.slow
def test_strict_ids_that_came_too_late(make_cluster, tag):
    """The command is applied after its request was answered with an error: those ids are missing,
    and counted; not those of a request with a key, which can still have them.

    The node hears of it because a request of the same batch waits longer. Which requests are in a
    batch, and whether one is sent at all before its time is over, is a matter of milliseconds, so
    it may take more than one try."""
    cluster = make_cluster(
        settings={"raft-election-ms": 1500, "http-loops": 2}
    )
    cluster.create_tag(tag, mode="strict")
    leader = cluster.leader()
    others = cluster.others(leader)
    wait_until(lambda: ask(leader, tag, 1, key="first").status == 200, 10, "keys are taken")
    last = 1
    for number in range(10):
        key = f"k{number}"
        for other in others:
            other.pause()
        try:
            patient = [leader.connect() for _ in range(5)]
            hasty = [leader.connect() for _ in range(2)]
            for connection in patient[:4]:
                send(connection, tag, 1, 10_000)  # these make that the next ones are gathered
            wait_until(lambda: metric(leader, "leafd_connections") >= 7, 5, "all are connected")
            send(hasty[0], tag, 5, 0)
            send(hasty[1], tag, 7, 0, key)
            send(patient[4], tag, 1, 10_000)
            for connection in hasty:
                answer = connection.read_response()
                assert (answer.status, answer.code) == (503, "timeout"), answer
        finally:
            for other in others:
                other.resume()
        for connection in patient:
            assert connection.read_response().status == 200
        for connection in (*patient, *hasty):
            connection.close()
        assert ask(others[0], tag, 7, key=key).status == 200
        last += 4 + 7 + 1
        missing = take(leader, tag)[0][0] - (last + 1)
        assert missing in (0, 5), "those without a key may be missing, and no others"
        last += missing + 1
        assert burnt(leader, "strict") in (0, missing)
        if burnt(leader, "strict") > 0:
            return
    pytest.fail("never counted")


def send(connection, tag, count, timeout_ms, key=None):
    path = target(tag, count, "range", timeout_ms)
    connection.send(request_bytes("GET", path, headers=key_header(key)))


def test_given_back_is_counted_from_zero(make_cluster, tag):
    """The counters are of this process: a node that was started anew has given nothing back."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=100)
    node = cluster.followers()[0]
    take(node, tag)
    assert stop(node)[0] == 99
    node.start().wait_ready()
    assert metric(node, "leafd_ids_given_back_total") == 0
    for cause in ("generation", "late", "stop", "strict", "skipped", "unanswered"):
        assert burnt(node, cause) == 0
