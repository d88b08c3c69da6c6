"""A tag's increment and offset, which level 3 brings: which ids it has, over each protocol and in
each mode; that a change repeats none; restarts, dumps, restores and what is refused. The generation
of range answers, and TinyID's client, which is told of the increment as delta and remainder."""

import http.client
import itertools
import json
import socket
import threading
import urllib.parse

import pytest

from cluster import FAST
from node import leafd_path
from resp import connect, open_resp
from upgrade import exchange, leafd_of, raise_level, wait_can_rise, wait_level
from wait import wait_until

MODES = ["trend", "strict", "monotonic"]


@pytest.fixture
def start(make_cluster):
    """A new cluster, at the level that has increments."""

    def make(size=3):
        cluster = make_cluster(size)
        wait_level(cluster, 3)
        return cluster

    return make


def put(node, tag, force=False, wait=True, **fields):
    options = f"{'force=1&' if force else ''}{'wait=all' if wait else ''}"
    return node.http("PUT", f"/api/tags/{tag}?{options}", fields)


def shown(node, tag):
    return node.get_json(f"/api/tags/{tag}")


def settle(node, tag):
    wait_until(lambda: not shown(node, tag).get("changing", False), 30, "the mode is changed")


def many(node, tag, count, options=""):
    answer = node.get(f"/api/segment/get/{tag}?count={count}{options}")
    assert answer.status == 200, answer
    return [int(line) for line in answer.body.split()]


@pytest.mark.parametrize("mode", MODES)
def test_ids_of_two_clusters_are_odd_and_even(start, tag, mode):
    """As two clusters would: one tag has the odd numbers, the other the even ones."""
    cluster = start()
    seen = {}
    for offset in (0, 1):
        name = f"{tag}{offset}"
        made = put(cluster.nodes[0], name, mode=mode, increment=2, offset=offset)
        assert made.status == 201, made
        assert (made.json()["increment"], made.json()["offset"]) == (2, offset)
        got = []
        for node, count in itertools.product(cluster.nodes * 2, (1, 7, 1500)):
            got += many(node, name, count)
            if mode != "trend":
                assert got[-count:] == list(range(got[-count], got[-1] + 1, 2))
        got.append(int(cluster.nodes[1].get(f"/api/segment/get/{name}").body))
        assert len(set(got)) == len(got)
        assert {number % 2 for number in got} == {offset}
        if mode != "trend":
            assert got == sorted(got)
        if mode == "strict":
            assert got == list(range(got[0], got[-1] + 1, 2)), "dense"
        assert int(shown(cluster.nodes[0], name)["max_id"]) > max(got)
        seen[offset] = set(got)
    assert not seen[0] & seen[1]


@pytest.mark.parametrize("mode", MODES)
def test_a_change_under_load_repeats_no_id(start, tag, mode):
    """All nodes hand out ids while the increment changes; what a node holds of before is burnt,
    and what a request gets after the change was answered is of the new one."""
    cluster = start()
    assert put(cluster.nodes[0], tag, mode=mode, step=50).status == 201
    settle(cluster.nodes[0], tag)
    got = [[] for _ in cluster.nodes]
    stop = threading.Event()

    def take(node, ids):
        for count in itertools.cycle((1, 20, 3)):
            if stop.is_set():
                return
            ids += many(node, tag, count)

    takers = [threading.Thread(target=take, args=pair) for pair in zip(cluster.nodes, got)]
    for taker in takers:
        taker.start()
    try:
        for increment, offset in ((2, 1), (2, 0), (5, 3), (1, 0), (1000, 999), (3, 0)):
            before = [len(ids) for ids in got]
            changed = put(cluster.nodes[1], tag, increment=increment, offset=offset)
            assert changed.status == 200, changed
            assert changed.json().get("increment", 1) == increment
            for node in cluster.nodes:
                assert {number % increment for number in many(node, tag, 30)} == {offset}
            wait_until(lambda b=before: all(len(ids) > n for ids, n in zip(got, b)), 30, "more ids")
    finally:
        stop.set()
        for taker in takers:
            taker.join(timeout=60)
    ids = list(itertools.chain(*got))
    assert len(ids) == len(set(ids))
    if mode != "trend":
        for of_node in got:
            assert of_node == sorted(of_node)


def test_ranges_and_their_generation(start, tag):
    cluster = start()
    node = cluster.nodes[0]
    assert put(node, tag, increment=4, offset=3).status == 201
    for form in ("range", "json"):
        refused = node.get(f"/api/segment/get/{tag}?count=5&format={form}")
        assert (refused.status, refused.code) == (400, "stepped"), refused
        assert "stepped=1" in refused.json()["message"]
    answer = node.get(f"/api/segment/get/{tag}?count=5&format=range&stepped=1")
    assert (answer.status, answer.body) == (200, b"3 19 4\n"), answer
    assert answer.headers["leafd-generation"] == "1"
    answer = node.get(f"/api/segment/get/{tag}?count=2&format=json&stepped=1")
    assert answer.json()["ranges"] == [{"first": "23", "last": "27", "increment": 4}]
    assert answer.headers["leafd-generation"] == "1"
    assert node.get(f"/api/segment/get/{tag}?count=2").headers["leafd-generation"] == "1"
    assert "leafd-generation" not in node.get(f"/api/segment/get/{tag}").headers
    assert put(node, tag, increment=1).status == 200
    first = int(shown(node, tag)["max_id"])
    for other in cluster.nodes:
        answer = other.get(f"/api/segment/get/{tag}?count=3&format=range&stepped=1")
        assert answer.headers["leafd-generation"] == "2", answer
        low, high, increment = map(int, answer.body.split())
        assert (high - low, increment) == (2, 1) and low >= first
        answer = other.get(f"/api/segment/get/{tag}?format=range")
        assert (answer.status, len(answer.body.split())) == (200, 2), answer
        assert answer.headers["leafd-generation"] == "2"
    for mode in ("strict", "monotonic"):
        name = f"{tag}.{mode}"
        assert put(node, name, mode=mode, increment=4, offset=1).status == 201
        refused = node.get(f"/api/segment/get/{name}?count=5&format=range")
        assert (refused.status, refused.code) == (400, "stepped"), refused
        answer = node.get(f"/api/segment/get/{name}?count=5&format=range&stepped=1")
        assert (answer.body, answer.headers["leafd-generation"]) == (b"1 17 4\n", "1")


def test_long_answers_contiguous_and_shapes(start, tag):
    cluster = start(1)
    node = cluster.nodes[0]
    assert put(node, tag, increment=999, offset=7, step=50000).status == 201
    assert many(node, tag, 20000, "&contiguous=1") == list(range(7, 7 + 20000 * 999, 999))
    assert put(node, f"{tag}-s", increment=3, offset=2, shape="A-{id:3}").status == 201
    lines = node.get(f"/api/segment/get/{tag}-s?count=5000").body.decode().split()
    assert lines == [f"A-{number:03}" for number in range(2, 2 + 5000 * 3, 3)]
    for shape, mode in (("{year}-{id:5}", "strict"), ("{secret36:8}", "trend")):
        refused = put(node, f"{tag}-x", increment=2, shape=shape, mode=mode)
        assert refused.status == 400 and "has no increment" in refused.json()["message"], refused


@pytest.mark.parametrize("fields,why", [
    ({"increment": 0}, "increment"), ({"increment": 1000001}, "increment"),
    ({"increment": 2, "offset": 2}, "offset is not in 0 to increment - 1"),
    ({"offset": 1}, "offset is not in 0 to increment - 1"), ({"offset": -1}, "offset"),
    ({"increment": "2"}, "increment"),
    ({"increment": 2, "shape": "{secret:6}"}, "each cluster has its own key, so texts may repeat"),
])
def test_what_is_no_increment(shared, tag, fields, why):
    wait_level(shared, 3)
    refused = put(shared.nodes[0], tag, wait=False, **fields)
    assert refused.status == 400 and why in refused.json()["message"], refused


def test_keys_restarts_and_dumps(start, tag):
    cluster = start()
    node = cluster.nodes[0]
    assert put(node, tag, mode="strict", increment=10, offset=5).status == 201
    key = {"Idempotency-Key": "k1"}
    first = node.http("GET", f"/api/segment/get/{tag}?count=3", headers=key)
    assert first.body.split() == [b"5", b"15", b"25"], first
    assert put(node, tag, increment=1).status == 200
    other = node.http("GET", f"/api/segment/get/{tag}?count=3&format=range", headers=key)
    assert other.code == "stepped" and "this Idempotency-Key ids with increment 10" in other.text
    cluster.kill_all()
    cluster.start()
    again = cluster.nodes[1].http("GET", f"/api/segment/get/{tag}?count=3", headers=key)
    assert again.body == first.body and again.headers["idempotency-replayed"] == "true"
    assert many(cluster.nodes[2], tag, 2) == [26, 27]
    assert put(cluster.nodes[0], tag, increment=7, offset=6).status == 200
    dump = cluster.nodes[0].get("/api/tags?limit=1000").body
    assert put(cluster.nodes[0], tag, increment=1).status == 200
    assert cluster.nodes[1].http("POST", "/api/tags", dump).status == 200
    assert (shown(cluster.nodes[2], tag)["increment"], shown(cluster.nodes[2], tag)["offset"]) \
        == (7, 6)
    assert many(cluster.nodes[2], tag, 2) == [34, 41]


def test_before_the_level_it_is_refused(make_cluster, tag):
    """One member of an older leafd is enough."""
    cluster = make_cluster(settings={**FAST, "upgrade-hold-ms": "never"}, start=False)
    node, older = cluster.nodes[0], cluster.nodes[2]
    older.binary = leafd_of("first")
    cluster.start()
    refused = put(node, tag, wait=False, increment=2)
    assert (refused.status, refused.code) == (400, "newer"), refused
    assert "level 3" in refused.json()["message"]
    assert put(node, tag, wait=False).status == 201
    exchange(cluster, older, leafd_path())
    wait_can_rise(node)
    for level in (2, 3):
        assert raise_level(node, level).status == 200
    wait_until(lambda: all(n.cluster_status()["level"]["number"] == 3 for n in cluster.nodes),
               30, "level 3")
    assert put(node, tag, increment=2).status == 200


def test_over_resp(make_cluster, tag):
    cluster = open_resp(make_cluster(1, FAST, start=False)).start()
    wait_level(cluster, 3)
    node = cluster.nodes[0]
    assert put(node, tag, increment=3, offset=1).status == 201
    with connect(node) as client:
        assert client.incr(tag) == 1
        assert client.incrby(tag, 1) == 4
        with pytest.raises(Exception, match="LEAFD.NEXT"):
            client.incrby(tag, 2)
        assert client.execute_command("LEAFD.NEXT", tag, "COUNT", 3) == [7, 10, 13]
        assert int(client.get(tag)) > 13


# --- TinyID's client ---


class SegmentId:
    """What its client makes of an answer of nextSegmentIdSimple: tinyid-base's SegmentId."""

    def __init__(self, text):
        self.current, self.loading, self.maximum, self.delta, self.remainder = \
            map(int, text.split(","))
        assert self.current <= self.loading <= self.maximum
        assert self.java_mod(self.maximum) == self.remainder
        if self.java_mod(self.current) != self.remainder:
            for _ in range(self.delta + 1):
                self.current += 1
                if self.java_mod(self.current) == self.remainder:
                    self.current -= self.delta
                    break

    def java_mod(self, number):
        return abs(number) % self.delta * (-1 if number < 0 else 1)

    def ids(self):
        ids = []
        while self.current + self.delta <= self.maximum:
            self.current += self.delta
            ids.append(self.current)
        return ids


def tinyid(node, call, form=None, **options):
    path = f"/tinyid/id/{call}?{urllib.parse.urlencode(options)}"
    if form is None:
        answer = node.get(path)
    else:
        answer = node.http("POST", path, urllib.parse.urlencode(form).encode(),
                           headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status == 200, answer
    return answer.body.decode()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("increment,offset,max_id", [(1, 0, 1), (1, 0, 0), (2, 1, 1), (2, 0, 0),
                                                     (7, 3, 100), (7, 0, 0), (1000, 999, 5)])
def test_tinyids_client_hands_out_what_was_granted(shared, tag, mode, increment, offset, max_id):
    name = f"{tag}.{mode}.{increment}.{offset}.{max_id}"
    wait_level(shared, 3)
    made = put(shared.nodes[0], name, force=True, mode=mode, step=10, increment=increment,
               offset=offset, max_id=max_id)
    assert made.status == 201, made
    first = max_id + (offset - max_id) % increment
    got = []
    for node in shared.nodes * 2:
        got += SegmentId(tinyid(node, "nextSegmentIdSimple", bizType=name, token="any")).ids()
    assert len(got) == len(set(got)) == 60
    assert {number % increment for number in got} == {offset} and min(got) == first
    # The same range as JSON, whose ids are those between what came before and what comes next.
    data = json.loads(tinyid(shared.nodes[0], "nextSegmentId", bizType=name))["data"]
    text = ",".join(str(data[part]) for part in
                    ("currentId", "loadingId", "maxId", "delta", "remainder"))
    got += SegmentId(text).ids()
    got += json.loads(tinyid(shared.nodes[1], "nextId", bizType=name, batchSize=5))["data"]
    got += map(int, tinyid(shared.nodes[2], "nextIdSimple", bizType=name,
                           batchSize=3).split(","))
    got += many(shared.nodes[0], name, 5)
    assert len(got) == len(set(got)) == 83
    assert {number % increment for number in got} == {offset}
    assert int(shown(shared.nodes[0], name)["max_id"]) > max(got)


def test_the_request_of_tinyids_client(shared, tag):
    """Byte by byte: a POST without a body, its options in the path, the headers of Java's
    HttpURLConnection. It takes an empty answer for no ids, and a status other than 200 too."""
    node = shared.nodes[0]
    assert put(node, tag, step=100).status == 201
    got = []
    with socket.create_connection(node.http_address.rsplit(":", 1), timeout=30) as connection:
        for name in (tag, f"{tag}-none", tag):
            connection.sendall((
                f"POST /tinyid/id/nextSegmentIdSimple?token=0f673adf80504e2eaa552f5d791b644c&"
                f"bizType={name} HTTP/1.1\r\nUser-Agent: Java/1.8.0_402\r\n"
                f"Host: {node.http_address}\r\n"
                "Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
                "Connection: keep-alive\r\nContent-type: application/x-www-form-urlencoded\r\n"
                "Content-Length: 0\r\n\r\n").encode())
            answer = http.client.HTTPResponse(connection, method="POST")
            answer.begin()
            assert answer.status == 200
            got.append(answer.read().decode())
    assert got == ["0,20,100,1,0", "", "100,120,200,1,0"]
    assert SegmentId(got[0]).ids() == list(range(1, 101))


def test_tinyids_errors_and_forms(shared, tag):
    node = shared.nodes[0]
    assert put(node, tag, mode="strict").status == 201
    assert tinyid(node, "nextIdSimple", form={}, bizType=tag) == "1"
    assert tinyid(node, "nextIdSimple", form={"bizType": tag, "token": "t"}) == "2"
    assert tinyid(node, "nextIdSimple", form={"bizType": tag, "batchSize": 2}) == "3,4"
    assert json.loads(tinyid(node, "nextId", bizType=tag)) == \
        {"data": [5], "code": 200, "message": ""}
    assert tinyid(node, "nextIdSimple", bizType=tag, other="x") == "6"
    for options in ({"bizType": f"{tag}-none"}, {}, {"bizType": tag, "batchSize": "x"},
                    {"bizType": tag, "batchSize": 0}):
        answer = json.loads(tinyid(node, "nextId", **options))
        assert (answer["code"], answer["data"]) == (6, None) and answer["message"], answer
        assert tinyid(node, "nextIdSimple", **options) == ""
    answer = json.loads(tinyid(node, "nextSegmentId", bizType=f"{tag}-none"))
    assert answer["code"] == 6 and "there is no tag" in answer["message"], answer


def test_a_change_is_known_at_the_others(shared, tag):
    """An increment of 1 again, and at once ranges of a node that has not applied that: it does not
    say that they do not follow each other."""
    leader = shared.leader()
    for number in range(8):
        for increment in (2, 1):
            answer = leader.http("PUT", f"/api/tags/{tag}-{number}", {"increment": increment})
            assert answer.status in (200, 201), answer
            for node in shared.others(leader):
                target = f"/api/segment/get/{tag}-{number}?count=3&format=range"
                answer = node.get(target + ("&stepped=1" if increment == 2 else ""))
                assert answer.status == 200, (number, increment, answer)
