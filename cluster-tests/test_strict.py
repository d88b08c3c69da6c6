"""Strict tags: ids that rise over all nodes and have no gaps, batches, several tags at once, bad
requests, and restarts of the nodes."""

import threading
import time

import pytest

from client import parse_ids, tag_path
from cluster import FAST
from strict_load import StrictLoad, ask, take, target
from test_snapshot import INSTALLED, SMALL_LOG, outgrow_the_log
from wait import ran_s, wait_until

LAST_ID = (1 << 63) - 2
SLACK_S = 1.0


def make_strict(cluster, *tags, **fields):
    for tag in tags:
        cluster.create_tag(tag, mode="strict", **fields)


# --- what is handed out ---


def test_each_id_is_the_next_one_wherever_it_is_asked_for(shared, tag):
    make_strict(shared, tag)
    answer = shared.nodes[0].get(f"/api/segment/get/{tag}")
    assert answer.status == 200 and answer.body == b"1"
    assert answer.headers["content-type"] == "text/plain;charset=UTF-8"
    assert answer.headers["cache-control"] == "no-store"
    for number in range(2, 62):
        assert take(shared.nodes[number % 3], tag) == (number, number)
    answer = shared.nodes[1].http("POST", f"/api/segment/get/{tag}")
    assert answer.status == 200 and answer.body == b"62"
    assert int(shared.nodes[2].get_json(f"/api/tags/{tag}")["max_id"]) == 63


def test_formats(shared, tag):
    make_strict(shared, tag)
    one, two, three = shared.nodes
    assert one.get(f"/api/segment/get/{tag}?count=3").body == b"1\n2\n3\n"
    assert two.get(f"/api/segment/get/{tag}?count=3&format=range").body == b"4 6\n"
    answer = three.get(f"/api/segment/get/{tag}?count=3&format=json")
    assert answer.json() == {"tag": tag, "count": 3, "ranges": [{"first": "7", "last": "9"}]}
    assert one.get(f"/api/segment/get/{tag}?count=1").body == b"10\n"
    assert two.get(f"/api/segment/get/{tag}?contiguous=1&count=2").body == b"11\n12\n"
    assert three.get(f"/api/segment/get/{tag}").body == b"13"
    # The names of tags are as free as those of others.
    odd = f"{tag}/größe.1"
    shared.create_tag(odd, mode="strict", max_id=500)
    answer = one.get(f"/api/segment/get/{tag_path(odd)}?count=2&format=json")
    assert answer.json()["tag"] == odd and answer.json()["ranges"][0]["first"] == "500"


def test_a_batch_is_one_range_of_any_size(shared, tag):
    """No segment bounds it: neither step nor max_step is looked at."""
    make_strict(shared, tag, step=10, max_step=10, max_id=1000)
    first = 1000
    for turn, count in enumerate([1, 10, 11, 1000, 99_999, 100_000, 2]):
        assert take(shared.nodes[turn % 3], tag, count) == (first, first + count - 1)
        first += count


def test_a_new_tag_is_known_to_every_node_at_once(shared, tag):
    for turn in range(15):
        name = f"{tag}-{turn}"
        shared.create_tag(name, node=shared.nodes[turn % 3], mode="strict", max_id=turn + 7)
        assert take(shared.nodes[(turn + 1) % 3], name) == (turn + 7, turn + 7)
        assert take(shared.nodes[(turn + 2) % 3], name) == (turn + 8, turn + 8)


def test_pipelined(shared, tag):
    """Answers come in the order of the requests, and so do their ids."""
    make_strict(shared, tag)
    request = f"GET {target(tag, 2, 'range')} HTTP/1.1\r\nHost: leafd\r\n\r\n".encode()
    with shared.followers()[0].connect() as connection:
        connection.send(request * 100)
        for number in range(100):
            ranges = parse_ids(connection.read_response(), "range", 2)
            assert ranges == [(2 * number + 1, 2 * number + 2)]


def test_shown_as_strict(shared, tag):
    make_strict(shared, tag)
    take(shared.nodes[1], tag, 5)
    for node in shared.nodes:
        row = node.get_json(f"/api/tags/{tag}")
        assert (row["mode"], row["changing"], row["max_id"]) == ("strict", False, "6")
    rows = shared.nodes[2].get_json(f"/api/tags?prefix={tag}")["tags"]
    assert [(row["tag"], row["mode"]) for row in rows] == [(tag, "strict")]

    page = shared.nodes[1].get_json(f"/api/node/segments?prefix={tag}")["segments"]
    held = [slot for entry in page for slot in entry["slots"] if slot["size"] > 0]
    assert not held, "segments of a strict tag"


def test_counted(shared, tag):
    make_strict(shared, tag)

    def count():
        metric = 'leafd_ids_total{kind="strict"}'
        lines = shared.nodes[0].get("/metrics").text.splitlines()
        return int(next(line for line in lines if line.startswith(metric)).split()[1])

    before = count()
    take(shared.nodes[0], tag, 42)
    take(shared.nodes[1], tag, 100)
    assert count() == before + 42


def test_without_waiting(shared, tag):
    """timeout_ms=0 cannot mean that nothing is waited for: an id needs a majority."""
    make_strict(shared, tag)
    for number in range(1, 10):
        assert take(shared.nodes[number % 3], tag, timeout_ms=0) == (number, number)


# --- the end of the ids, deletion, force ---


def test_end_of_int64(shared, tag):
    """Each id up to the last, none beyond; a refusal says what is left and takes nothing."""
    make_strict(shared, tag, max_id=LAST_ID - 6, force=True)
    one, two, three = shared.nodes
    for node in shared.nodes:
        answer = ask(node, tag, 8)
        assert (answer.status, answer.code) == (409, "exhausted"), answer
        assert "7 ids" in answer.json()["message"]
    assert take(one, tag, 4) == (LAST_ID - 6, LAST_ID - 3)
    assert take(two, tag, 3) == (LAST_ID - 2, LAST_ID)
    for node in (one, two, three):
        for count in (1, 100_000):
            answer = ask(node, tag, count, timeout_ms=0)
            assert (answer.status, answer.code) == (409, "exhausted"), answer
    row = three.get_json(f"/api/tags/{tag}")
    assert int(row["max_id"]) == LAST_ID + 1


def test_deleted_and_made_again(shared, tag):
    make_strict(shared, tag)
    one, two, three = shared.nodes
    assert take(one, tag, 10) == (1, 10)
    assert two.http("DELETE", f"/api/tags/{tag}").status == 204
    for node in shared.nodes:
        answer = ask(node, tag)
        assert (answer.status, answer.code) == (404, "unknown_tag"), answer
    # The name keeps its high-water mark, and its mode belongs to what was deleted.
    shared.create_tag(tag, node=three, mode="strict")
    for number in range(11, 17):
        assert take(shared.nodes[number % 3], tag) == (number, number)


def test_forced_down(shared, tag):
    make_strict(shared, tag)
    one, two, three = shared.nodes
    assert take(two, tag, 1000) == (1, 1000)
    answer = one.http("PUT", f"/api/tags/{tag}", {"max_id": 500})
    assert (answer.status, answer.code) == (409, "would_repeat")
    assert take(two, tag) == (1001, 1001)
    answer = one.http("PUT", f"/api/tags/{tag}?force=1", {"max_id": 500})
    assert answer.status == 200
    assert take(three, tag, 2) == (500, 501)
    answer = two.http("PUT", f"/api/tags/{tag}", {"max_id": 10_000})
    assert answer.status == 200
    assert take(one, tag) == (10_000, 10_000)


# --- bad requests ---


@pytest.mark.parametrize(
    "key,why",
    [
        ("", "empty"),
        ("k" * 129, "129 bytes"),
        ("a\tb", "control character"),
        ("schlüssel", "not ASCII"),
    ],
)
def test_bad_keys(shared, tag, key, why):
    make_strict(shared, tag)
    for node in shared.nodes:
        answer = send_keys(node, tag, [key])
        assert (answer.status, answer.code) == (400, "bad_key"), f"{why}: {answer}"
    assert take(shared.nodes[0], tag) == (1, 1), "a refused request took ids"


@pytest.mark.parametrize("control", ["\x01", "\x1b", "\x7f"])
def test_control_characters_are_no_http(shared, tag, control):
    """In whatever header: the request is refused as a whole, and the connection closes."""
    make_strict(shared, tag)
    with shared.nodes[0].connect() as connection:
        head = f"GET {target(tag)} HTTP/1.1\r\nHost: leafd\r\nIdempotency-Key: a{control}b\r\n\r\n"
        connection.send(head.encode())
        answer = connection.read_response()
        assert (answer.status, answer.code) == (400, "bad_request"), answer
        assert connection.at_end()
    assert take(shared.nodes[0], tag) == (1, 1)


@pytest.mark.parametrize("keys", [("a", "a"), ("a", "b"), ("", "a")])
def test_two_keys(shared, tag, keys):
    make_strict(shared, tag)
    answer = send_keys(shared.nodes[0], tag, keys)
    assert (answer.status, answer.code) == (400, "bad_key"), answer
    assert take(shared.nodes[1], tag) == (1, 1)


def send_keys(node, tag, keys):
    lines = "".join(f"Idempotency-Key: {key}\r\n" for key in keys)
    head = f"GET {target(tag)} HTTP/1.1\r\nHost: leafd\r\n{lines}\r\n"
    with node.connect() as connection:
        connection.send(head.encode("utf-8"))
        answer = connection.read_response()
        assert connection.request("GET", "/livez").status == 200, "the stream is out of step"
    return answer


@pytest.mark.parametrize("key", ["k", "k" * 128, 'a b"c,d=~!', "0"])
def test_keys_of_any_printable_kind(shared, tag, key):
    make_strict(shared, tag)
    first = send_keys(shared.nodes[0], tag, [key])
    assert first.status == 200 and first.body == b"1", first
    again = send_keys(shared.nodes[1], tag, [key])
    assert again.status == 200 and again.body == b"1", again


def test_the_space_around_a_key_is_none_of_it(shared, tag):
    make_strict(shared, tag)
    assert send_keys(shared.nodes[0], tag, ["  k \t"]).body == b"1"
    assert send_keys(shared.nodes[1], tag, ["k"]).body == b"1"


def test_keys_where_they_promise_nothing(shared, tag):
    """A trend tag and snowflake ids refuse the header, each node of it, also for a tag that the
    node has never heard of."""
    shared.create_tag(tag)
    for node in shared.nodes:
        for _ in range(2):
            answer = ask(node, tag, key="k")
            assert (answer.status, answer.code) == (400, "bad_key"), answer
        answer = node.http("GET", "/api/snowflake/get/x", headers={"Idempotency-Key": "k"})
        assert (answer.status, answer.code) == (400, "bad_key"), answer
        assert node.get(f"/api/segment/get/{tag}").status == 200
        answer = ask(node, f"{tag}.unknown", key="k")
        assert (answer.status, answer.code) == (404, "unknown_tag"), answer


@pytest.mark.parametrize("key", [None, "k"])
def test_bad_options(shared, tag, key):
    make_strict(shared, tag)
    for query, code in [
        ("count=0", "bad_count"),
        ("count=100001", "bad_count"),
        ("count=x", "bad_count"),
        ("timeout_ms=10001", "bad_request"),
        ("timeout_ms=-1", "bad_request"),
        ("format=xml", "bad_request"),
        ("count=1&count=2", "bad_request"),
    ]:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = shared.nodes[0].http("GET", f"/api/segment/get/{tag}?{query}", headers=headers)
        assert (answer.status, answer.code) == (400, code), f"{query}: {answer}"
    answer = shared.nodes[0].http("HEAD", f"/api/segment/get/{tag}")
    assert answer.status == 405
    answer = shared.nodes[0].http("PUT", f"/api/tags/{tag}", {"mode": "odd"})
    assert (answer.status, answer.code) == (400, "bad_request"), answer
    assert take(shared.nodes[0], tag, key=key) == (1, 1)


# --- without a majority ---


@pytest.mark.quiet
def test_without_a_majority(make_cluster, tag):
    """A strict request waits for a leader up to timeout_ms, and not longer; then it is told so."""
    cluster = make_cluster()
    make_strict(cluster, tag)
    survivor = cluster.followers()[0]
    assert take(survivor, tag, 10) == (1, 10)
    gone = cluster.others(survivor)
    for node in gone:
        node.kill9()
    wait_until(survivor.sees_no_leader, 10, "no leader is known")
    for timeout_ms, waited_s in [(0, 0.5), (600, 0.6), (None, 3.0)]:
        for key in (None, "k") if timeout_ms == 0 else (None,):
            began, ran = time.monotonic(), ran_s()
            answer = ask(survivor, tag, timeout_ms=timeout_ms, key=key)
            spent, ran = time.monotonic() - began, ran_s() - ran
            assert (answer.status, answer.code) == (503, "no_leader"), answer
            assert int(answer.headers["retry-after"]) >= 1
            assert waited_s - 0.05 <= spent, f"{timeout_ms}: {spent}"
            assert ran < waited_s + SLACK_S, f"{timeout_ms}: {ran}"

    # What waits is answered as soon as there is a majority again.
    got = []
    waiters = [
        threading.Thread(target=lambda: got.append(take(survivor, tag, timeout_ms=10_000)))
        for _ in range(5)
    ]
    for waiter in waiters:
        waiter.start()
    gone[0].start()
    for waiter in waiters:
        waiter.join(30)
    # Nothing that was refused without a leader was ever sent: not one id is missing.
    assert sorted(got) == [(number, number) for number in range(11, 16)]
    gone[0].wait_ready()
    assert take(gone[0], tag) == (16, 16)


# --- many clients ---


def test_many_clients_on_several_tags(make_cluster, recorder):
    """Counts from 1 to 1000 in all formats, of several tags, trend tags beside them, all nodes."""
    cluster = make_cluster()
    strict = [f"strict-{number}" for number in range(5)]
    trend = ["trend-1", "trend-2"]
    make_strict(cluster, *strict, max_id=100)
    for tag in trend:
        cluster.create_tag(tag)
    for tag in strict:
        recorder.declare(tag, "strict", start=100)
    for tag in trend:
        recorder.declare(tag, "trend")
    load = StrictLoad(recorder, cluster.nodes)
    counts = (1, 2, 10, 999, 1000)
    load.add_many(12, strict, counts=counts, rate=100)
    load.add_many(6, strict[0], counts=(1,), rate=100)
    load.add_many(6, strict, counts=counts, rate=50, keyed=True)
    load.add_many(3, trend, counts=counts, rate=50)
    load.add_many(6, strict[:2] + trend, counts=counts, rate=50)
    with load:
        load.wait_answers(2500)
        verdict = load.finish()
    assert verdict.tags == 7 and verdict.unknown == 0
    for tag in strict:
        rows = {node.get_json(f"/api/tags/{tag}")["max_id"] for node in cluster.nodes}
        assert len(rows) == 1


def highest(node, tag):
    return int(node.get_json(f"/api/tags/{tag}")["max_id"]) - 1


def test_not_one_id_is_lost_without_faults(make_cluster, recorder, tag):
    """max_id is what was acknowledged, to the id, however many clients there are."""
    cluster = make_cluster()
    make_strict(cluster, tag)
    recorder.declare(tag, "strict", start=1)
    load = StrictLoad(recorder, cluster.nodes).add_many(24, tag, counts=(1, 3, 7), rate=200)
    with load:
        load.wait_answers(2500)
        verdict = load.finish()
    assert verdict.ids == highest(cluster.nodes[0], tag)
    burnt = 'leafd_ids_burnt_total{cause="strict"} 0'
    for node in cluster.nodes:
        assert burnt in node.get("/metrics").text.splitlines()


# --- restarts ---


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.slow)])
def test_all_nodes_restarted_under_load(make_cluster, recorder, how):
    """Ids go on above all acknowledged ones, and what is missing was under way at the time."""
    # A stop of all cannot answer what waits for a majority: it gives up after the grace period.
    cluster = make_cluster(settings=FAST)
    tags = ["a", "b"]
    make_strict(cluster, *tags)
    for tag in tags:
        recorder.declare(tag, "strict", start=1)
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(12, tags, counts=(1, 5, 100), rate=60)
    keyed = load.add_many(3, tags, counts=(1, 5), rate=20, keyed=True)
    with keyed:
        for _ in range(2 if how == "kill" else 1):
            load.wait_answers(400)
            if how == "kill":
                cluster.kill_all()
            else:
                cluster.stop_all()
            cluster.start()
            load.wait_all_served()
        load.wait_answers(200)
        verdict = load.finish()
    # That a request was under way is likely, but not sure.
    assert all(client.reconnects > 0 for client in load.clients if not client.keyed), "not felt"
    # A request of unknown outcome burns at most its ids; there are not more of them than clients
    # and restarts, and attempts of those that repeat.
    assert verdict.unknown < 200


def test_nodes_restarted_in_turn_under_load(make_cluster, recorder, tag):
    """A clean stop answers what it took, so nothing is lost but what was just being sent; the
    clients of the others see nothing."""
    cluster = make_cluster()
    make_strict(cluster, tag)
    recorder.declare(tag, "strict", start=1)
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(12, tag, counts=(1, 5), rate=60)
    with load:
        load.wait_answers(300)
        for node in cluster.nodes:
            node.stop()
            load.wait_answers(100)
            node.start().wait_ready()
            load.wait_all_served()
        load.finish()


def test_all_killed_and_one_never_back(make_cluster, recorder, tag):
    """After kill -9 of all, two of three go on, densely, above what all three had acknowledged."""
    cluster = make_cluster()
    make_strict(cluster, tag)
    recorder.declare(tag, "strict", start=1)
    client = recorder.client("c")
    last = 0
    for number in range(30):
        with client.operation(tag, 3) as operation:
            got = take(cluster.nodes[number % 3], tag, 3)
            operation.answered([got])
        last = got[1]
    for back in ((0, 1), (1, 2), (0, 2)):
        cluster.kill_all()
        for index in back:
            cluster.nodes[index].start()
        cluster.wait_ready()
        for index in back:
            with client.operation(tag) as operation:
                got = take(cluster.nodes[index], tag)
                operation.answered([got])
            assert got == (last + 1, last + 1)
            last += 1
    assert recorder.check().unknown == 0


def test_node_that_leads_right_after_a_snapshot(make_cluster, recorder, tag):
    """The node was away while the log was cut; it gets a snapshot and leads at once: its ids go on
    where the last ones ended, and what had a key has it still."""
    cluster = make_cluster(settings=SMALL_LOG)
    make_strict(cluster, tag)
    cluster.create_tag("churn")
    recorder.declare(tag, "strict", start=1)
    client = recorder.client("before")

    def record(node, count=1, key=None):
        with client.operation(tag, count, key) as operation:
            got = take(node, tag, count, key)
            operation.answered([got])
        return got

    away, third = cluster.followers()
    leader = cluster.leader()
    record(away, 10, "early")
    away.kill9()
    record(leader, 500, "missed")
    outgrow_the_log(cluster, leader, 200)
    last = record(leader)[1]

    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(9, tag, counts=(1, 10), rate=40)
    size = len(away.log())
    with load:
        load.wait_answers(50)
        away.start()
        away.wait_log(INSTALLED, timeout=20, start=size)
        away.wait_ready()
        cluster.wait_leader()
        load.wait_all_served()
        # The third misses what follows, then the leader goes: the one that came back must lead.
        third.kill9()
        load.wait_answers(50)
        leader.kill9()
        third.start().wait_ready()
        assert cluster.wait_leader(among=[away, third]) is away
        load.wait_all_served()
        load.stop()
    for node in (away, third):
        assert record(node, 10, "early") == (1, 10)
        assert record(node, 500, "missed") == (11, 510)
        assert record(node)[0] > last
    load.finish()
