"""A paused tag: 423 in every mode, at every node and over each protocol within a second; what nodes
hold of it comes after the pause, and no id comes twice. And a tag with a cover_s: its segments last
so long without a majority."""

import itertools
import os
import threading
import time

import pytest

from cluster import FAST
from resp import connect, open_resp
from upgrade import wait_level
from wait import wait_until

MODES = ["trend", "strict", "monotonic"]
SEGMENT = "/api/segment/get/"
LONG = "LEAFD_TESTS_LONG" in os.environ


@pytest.fixture
def start(make_cluster):
    """A new cluster with RESP, at the level that has pauses."""

    def make(size=3):
        cluster = open_resp(make_cluster(size, FAST, start=False)).start()
        wait_level(cluster, 3)
        return cluster

    return make


def put(node, tag, **fields):
    return node.http("PUT", f"/api/tags/{tag}", fields)


def is_paused(answer, reason):
    body = answer.json()
    return (answer.status, answer.code) == (423, "paused") and reason in body["message"] and \
        answer.headers["retry-after"] == "1"


class Takers:
    """Threads that ask all nodes over HTTP and RESP all the time, and write down when each request
    was sent and what it got: ids, or None for a pause."""

    def __init__(self, cluster, tag):
        self.got, self.failed, self.stop = [], [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(take, node, tag))
                        for node in cluster.nodes for take in (self.http, self.resp)]
        for thread in self.threads:
            thread.start()

    def run(self, take, node, tag):
        try:
            for count in itertools.cycle((1, 20, 3)):
                if self.stop.is_set():
                    return
                sent = time.monotonic()
                self.got.append((sent, take(node, tag, count)))
        except Exception as error:  # noqa: BLE001
            self.failed.append(error)

    @staticmethod
    def http(node, tag, count):
        answer = node.get(f"{SEGMENT}{tag}?count={count}&timeout_ms=10000")
        if answer.status == 423:
            assert is_paused(answer, "is paused"), answer
            return None
        assert answer.status == 200, answer
        return [int(line) for line in answer.body.split()]

    @staticmethod
    def resp(node, tag, count):
        with connect(node) as client:
            try:
                return [int(n) for n in client.execute_command("LEAFD.NEXT", tag, "COUNT", count)]
            except Exception as error:  # noqa: BLE001
                assert str(error).startswith("PAUSED paused: "), error
                return None

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(timeout=60)
        assert not self.failed, self.failed

    def since(self, when):
        return [ids for sent, ids in list(self.got) if sent > when]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_after_the_second(start, tag, mode):
    """Under load at all nodes, three times: no request that is sent a second after the answer gets
    an id until the tag is resumed; none comes twice; strict ids stay dense."""
    cluster = start()
    assert put(cluster.nodes[0], tag, mode=mode, step=50).status == 201
    takers = Takers(cluster, tag)
    try:
        for node in cluster.nodes:
            wait_until(lambda t=time.monotonic(): any(takers.since(t)), 30, "ids")
            answer = put(node, tag, paused=True, reason="stock-taking")
            assert answer.status == 200, answer
            assert answer.json()["paused"] and answer.json()["reason"] == "stock-taking"
            paused = time.monotonic() + 1
            wait_until(lambda p=paused: len(takers.since(p)) > 30, 60, "answers in the pause")
            assert not any(takers.since(paused)), "ids after the second"
            for asked in cluster.nodes:  # by then each has the reason, which comes with its log
                assert is_paused(asked.get(SEGMENT + tag), ": stock-taking")
            answer = put(node, tag, paused=False)
            assert answer.status == 200 and "paused" not in answer.json(), answer
            wait_until(lambda t=time.monotonic() + 1: len(takers.since(t)) > 30 and
                       all(takers.since(t)), 60, "ids again")
    finally:
        takers.end()
    ids = list(itertools.chain(*(ids for _, ids in takers.got if ids)))
    assert len(ids) == len(set(ids))
    if mode == "strict":
        assert sorted(ids) == list(range(1, len(ids) + 1))


def test_what_is_held_comes_after_the_pause(start, tag):
    """A node keeps its segment, asks for none, and says why on each route."""
    cluster = start(1)
    node = cluster.nodes[0]
    assert put(node, tag, step=100).status == 201
    assert node.get(SEGMENT + tag).body == b"1"
    assert put(node, tag, paused=True, reason='"moved"').status == 200
    wait_until(lambda: node.get(SEGMENT + tag).status == 423, 30, "the pause")
    for options in ("", "?count=50000", "?count=2&format=json", "?contiguous=1&count=5"):
        assert is_paused(node.get(SEGMENT + tag + options), '"moved"')
    answer = node.get(f"/tinyid/id/nextId?bizType={tag}").json()
    assert answer["code"] == 6 and '"moved"' in answer["message"]
    row = node.get_json(f"/api/node/segments?prefix={tag}")["segments"][0]
    assert row["state"] == "paused" and row["slots"][0]["next_id"] == "2"
    assert row["lasts_s"] is None
    for fields in ({"step": 7}, {"max_id": 5000}, {"increment": 2, "offset": 0}):
        assert put(node, tag, **fields).json()["paused"]
    node.stop()
    node.start()
    cluster.wait_leader()
    assert is_paused(node.get(SEGMENT + tag), '"moved"')
    assert node.get_json(f"/api/tags?prefix={tag}")["tags"][0]["reason"] == '"moved"'
    assert put(node, tag, paused=False).status == 200
    wait_until(lambda: node.get(SEGMENT + tag).status == 200, 30, "ids")


def test_a_dump_and_a_restore_keep_it(start, tag):
    cluster = start(1)
    node = cluster.nodes[0]
    assert put(node, tag, paused=True, reason="r" * 200, cover_s=600).status == 201
    page = node.get_json(f"/api/tags?prefix={tag}")
    assert node.http("DELETE", f"/api/tags/{tag}").status in (200, 204)
    assert "paused" not in put(node, tag).json()
    assert node.http("DELETE", f"/api/tags/{tag}").status in (200, 204)
    assert node.http("POST", "/api/tags", page).status == 200
    row = node.get_json(f"/api/tags/{tag}")
    assert row["paused"] and row["reason"] == "r" * 200 and row["cover_s"] == 600


@pytest.mark.parametrize("fields, says", [
    ({"paused": 1}, "paused=1 is neither true nor false"),
    ({"paused": True, "reason": "r" * 201}, "reason is longer than 200 bytes"),
    ({"paused": True, "reason": "a\nb"}, "holds a control character"),
    ({"reason": "why"}, "reason is for a paused tag"),
    ({"cover_s": 86401}, "cover_s=86401"),
    ({"cover_s": 600, "mode": "strict"}, "nodes hold no ids of other modes"),
    ({"cover_s": 600, "mode": "monotonic"}, "nodes hold no ids of other modes"),
])
def test_refused(shared, tag, fields, says):
    wait_level(shared, 3)
    answer = put(shared.nodes[0], tag, **fields)
    assert (answer.status, answer.code) == (400, "bad_request") and says in answer.json()["message"]


def held_of(node, tag):
    return node.get_json(f"/api/node/segments?prefix={tag}")["segments"][0]


@pytest.mark.parametrize("cover_s, rate", [
    (15, 500),
    pytest.param(600, 5000, marks=[pytest.mark.bound(900), pytest.mark.skipif(
        not LONG, reason="ten minutes: only with LEAFD_TESTS_LONG")]),
])
def test_ids_without_a_majority(start, tag, cover_s, rate):
    """The other nodes die while ids are asked of one: at the same rate it goes on for cover_s."""
    cluster = start()
    node = cluster.nodes[0]
    assert put(node, tag, step=10, cover_s=cover_s).status == 201
    began, taken = time.monotonic(), 0

    def take_until(enough):
        """At the rate, until enough() or an error."""
        nonlocal taken
        while not enough():
            due = int((time.monotonic() - began) * rate)
            if due > taken:
                answer = node.get(f"{SEGMENT}{tag}?count={due - taken}&timeout_ms=0")
                if answer.status != 200:
                    return answer
                taken = due
            time.sleep(0.01)
        return None

    assert put(node, tag, description="no change").json()["cover_s"] == cover_s
    assert node.get(f"{SEGMENT}{tag}?timeout_ms=10000").status == 200
    # A request may find the first, small segments used up; then it asks again.
    wait_until(lambda: take_until(lambda: (held_of(node, tag)["lasts_s"] or 0) >= cover_s and
                                  time.monotonic() - began > 10) is None, 60, "the cover")
    for other in cluster.nodes[1:]:
        other.kill9()
    gone = time.monotonic()
    refused = take_until(lambda: time.monotonic() - gone > cover_s)
    assert refused is None, (time.monotonic() - gone, refused)
    left_s = held_of(node, tag)["lasts_s"]
    print(f"{taken} ids, {cover_s} s without a majority, {left_s} s are left")
