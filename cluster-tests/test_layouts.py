"""Named layouts of snowflake ids: made once and never changed, the same on all nodes, and no id of
one comes twice over restarts and the loss of a leader."""

import itertools
import json
import threading

import pytest
import redis

from cluster import FAST
from resp import connect, open_resp
from snowflakes import wait_served
from wait import wait_until

SONY = {
    "unit_ms": 10,
    "epoch_ms": 1409529600000,
    "time_bits": 39,
    "worker_bits": 16,
    "sequence_bits": 8,
    "order": "time-sequence-worker",
}
SECONDS = {
    "unit_ms": 1000,
    "epoch_ms": 1700000000000,
    "time_bits": 32,
    "worker_bits": 10,
    "sequence_bits": 13,
    "order": "time-worker-sequence",
}


def put(node, name, **fields):
    return node.http("PUT", f"/api/layouts/{name}", body=json.dumps(fields))


def make(cluster, name, **fields):
    """Make a layout, and wait until each node knows it."""
    answer = put(cluster.nodes[0], name, **fields)
    assert answer.status == 200, answer
    wait_known(cluster.nodes, name)
    return answer.json()


def wait_known(nodes, name):
    for node in nodes:
        wait_until(
            lambda n=node: n.get(f"/api/layouts/{name}").status == 200, 10, f"{node} knows {name}"
        )


serial = itertools.count(1)


@pytest.fixture
def tag():
    """A name of the test's own, of a layout."""
    return f"t{next(serial)}"


@pytest.fixture
def cluster(shared):
    wait_served(shared.nodes)
    return shared


class Taker(threading.Thread):
    """Takes ids of a layout from a node that may be killed and come back, until it is ended."""

    def __init__(self, node, layout, count):
        super().__init__(daemon=True)
        self.target = f"/api/snowflake/get/k?layout={layout}&count={count}&timeout_ms=2000"
        self.node, self.ended, self.ids = node, threading.Event(), []
        self.start()

    def run(self):
        while not self.ended.is_set():
            try:
                answer = self.node.get(self.target)
            except OSError:
                self.ended.wait(0.05)  # the node is down
                continue
            if answer.status == 200:
                self.ids.extend(int(line) for line in answer.body.split())

    def end(self):
        self.ended.set()
        self.join()
        return self.ids


# --- making and deleting ---


def test_a_layout_is_made_once_and_shown_by_all(cluster, tag):
    made = make(cluster, f"{tag}s", preset="sonyflake")
    last_ms = SONY["epoch_ms"] + (1 << 39) * 10 - 1
    assert made == {"name": f"{tag}s", **SONY, "last_ms": last_ms, "deleted": False}
    for node in cluster.nodes:
        assert node.get_json(f"/api/layouts/{tag}s") == made
        assert made in node.get_json("/api/layouts")["layouts"]
    assert put(cluster.nodes[1], f"{tag}s", **SONY).json() == made  # the same once more
    answer = put(cluster.nodes[1], f"{tag}s", preset="leaf")
    assert (answer.status, answer.code) == (409, "conflict"), answer
    assert f"GET /api/layouts/{tag}s shows them" in answer.json()["message"]
    assert cluster.nodes[1].get_json(f"/api/layouts/{tag}s") == made


def test_a_deleted_layout_keeps_its_name(cluster, tag):
    node = cluster.nodes[0]
    make(cluster, tag, preset="discord")
    value = int(node.get(f"/api/snowflake/get/k?layout={tag}").body)
    assert node.http("DELETE", f"/api/layouts/{tag}").status == 204
    answer = node.http("DELETE", f"/api/layouts/{tag}")
    assert (answer.status, answer.code) == (404, "unknown_layout"), answer
    for each in cluster.nodes:
        wait_until(lambda n=each: n.get_json(f"/api/layouts/{tag}")["deleted"], 10, "deleted")
        answer = each.get(f"/api/snowflake/get/k?layout={tag}")
        assert (answer.status, answer.code) == (404, "unknown_layout"), answer
        assert each.get(f"/api/snowflake/decode/{value}?layout={tag}").status == 200
    answer = put(node, tag, preset="twitter")
    assert (answer.status, answer.code) == (409, "conflict"), answer
    assert put(node, tag, preset="discord").status == 200


@pytest.mark.parametrize(
    "fields, why",
    [
        ({}, "epoch_ms is missing, and so is a preset"),
        (
            {"preset": "snow"},
            'preset="snow" is not leaf, js53, twitter, discord, sonyflake or baidu',
        ),
        ({"preset": "baidu"}, "its time is over: take a later epoch_ms or more time_bits"),
        ({**SONY, "time_bits": 40}, "time, worker and sequence must be at most 63 bits together"),
        ({**SONY, "worker_bits": 0}, "worker_bits must be 1 to 22"),
        ({**SONY, "unit_ms": 100}, "unit_ms must be 1, 10 or 1000"),
        ({**SONY, "epoch_ms": 4000000000000}, "epoch_ms must not be after the present time"),
    ],
)
def test_what_can_be_no_layout(cluster, tag, fields, why):
    answer = put(cluster.nodes[0], tag, **fields)
    assert (answer.status, answer.code) == (400, "bad_request"), answer
    assert answer.json()["message"] == why
    assert cluster.nodes[0].get(f"/api/layouts/{tag}").status == 404


@pytest.mark.parametrize("name", ["A", ".a", "a%20b", "a" * 33, "%61"])
def test_what_can_be_no_name(cluster, name):
    for method in ["GET", "PUT", "DELETE"]:
        answer = cluster.nodes[0].http(method, f"/api/layouts/{name}", body=None)
        assert (answer.status, answer.code) == (400, "bad_request"), answer


def audited(node, what):
    """All that the node has kept of this, over as many pages as there are."""
    entries, after = [], 0
    while after is not None:
        page = node.get_json(f"/api/audit?after={after}")
        entries += page["entries"]
        after = page["next"]
    return [entry for entry in entries if entry["what"] == what]


def test_a_change_is_audited(cluster, tag):
    node, what = cluster.nodes[0], f"PUT /api/layouts/{tag}"
    make(cluster, tag, preset="js53")
    assert [(e["outcome"], e["before"]) for e in audited(node, what)] == [("done", None)]
    assert put(node, tag, preset="js53").status == 200
    first, second = audited(node, what)
    assert second["outcome"] == "done" and tag in second["before"], (first, second)


# --- ids ---


def test_ids_say_when_and_by_whom(cluster, tag):
    make(cluster, tag, preset="sonyflake")
    workers = {row["worker_id"] for row in cluster.nodes[0].get_json("/api/workers")["workers"]}
    for node in cluster.nodes:
        ids = [int(v) for v in node.get(f"/api/snowflake/get/k?layout={tag}&count=20").body.split()]
        assert len(set(ids)) == 20
        for value in ids:
            found = node.get_json(f"/api/snowflake/decode/{value}?layout={tag}")
            assert (found["id"], found["layout"]) == (str(value), tag)
            assert found["worker_id"] == value & 0xFFFF and found["worker_id"] in workers
            assert found["sequence"] == value >> 16 & 0xFF
            assert found["timestamp_ms"] == SONY["epoch_ms"] + (value >> 24) * 10


def test_known_ids_of_others(cluster, tag):
    make(cluster, f"{tag}d", preset="discord")
    found = cluster.nodes[0].get_json(f"/api/snowflake/decode/175928847299117063?layout={tag}d")
    assert found["time"] == "2016-04-30T11:18:25.796Z"
    assert (found["worker_id"], found["sequence"]) == (32, 7)


def test_unknown_names_and_what_a_layout_cannot_give(cluster, tag):
    node = cluster.nodes[0]
    for target in [f"get/k?layout={tag}", f"decode/1?layout={tag}", "get/k?layout="]:
        answer = node.get(f"/api/snowflake/{target}")
        assert (answer.status, answer.code) == (404, "unknown_layout"), answer
    make(cluster, tag, preset="sonyflake")
    for options in ["format=range", "format=json&count=2", "contiguous=1&count=2", "as=uuid"]:
        answer = node.get(f"/api/snowflake/get/k?layout={tag}&{options}")
        assert (answer.status, answer.code) == (400, "bad_request"), answer
    make(cluster, f"{tag}n", **{**SECONDS, "sequence_bits": 1})
    answer = node.get(f"/api/snowflake/get/k?layout={tag}n&count=129")
    assert (answer.status, answer.code) == (400, "bad_count"), answer
    answer = node.get(f"/api/snowflake/get/k?layout={tag}n&count=3&contiguous=1")
    assert (answer.status, answer.code) == (409, "not_contiguous"), answer
    answer = node.get(f"/api/snowflake/get/k?layout={tag}n&count=100&timeout_ms=50")
    assert (answer.status, answer.code) == (503, "timeout"), answer


def test_a_slow_layout_holds_up_no_other(cluster, tag):
    """The ids of a second are used up: those that wait for the next one are passed by others."""
    make(cluster, tag, **{**SECONDS, "sequence_bits": 1})
    node = cluster.nodes[0]
    slow = threading.Thread(
        target=node.get, args=(f"/api/snowflake/get/k?layout={tag}&count=16&timeout_ms=9000",)
    )
    slow.start()
    while slow.is_alive():
        answer = node.get("/api/snowflake/get/k?timeout_ms=3000")
        assert answer.status == 200, answer
        slow.join(0.1)


def test_the_door_of_redis(make_cluster, tag):
    cluster = open_resp(make_cluster(start=False, size=1)).start()
    wait_served(cluster.nodes)
    make(cluster, tag, preset="sonyflake")
    client = connect(cluster.nodes[0])
    one = client.execute_command("LEAFD.SNOWFLAKE", "LAYOUT", tag)
    ids = client.execute_command("LEAFD.SNOWFLAKE", "COUNT", 500, "LAYOUT", tag)
    assert len({one, *ids}) == 501 and {value & 0xFFFF for value in ids} == {one & 0xFFFF}
    found = client.execute_command("LEAFD.DECODE", one, "LAYOUT", tag)
    assert one in found and (one & 0xFFFF) in found, found
    for words in [("LEAFD.SNOWFLAKE", "LAYOUT", "none"), ("LEAFD.DECODE", 1, "LAYOUT", "none")]:
        with pytest.raises(redis.ResponseError, match="unknown_layout"):
            client.execute_command(*words)


@pytest.mark.bound(120)
# Shows lesson-units.
def test_no_id_comes_twice_over_restarts_and_a_leader_kill(make_cluster):
    cluster = make_cluster(settings=FAST)
    wait_served(cluster.nodes)
    layouts = {"ten": {"preset": "sonyflake"}, "second": SECONDS, "one": {"preset": "js53"}}
    for name, fields in layouts.items():
        make(cluster, name, **fields)
    takers = [Taker(n, name, 7) for n in cluster.nodes for name in layouts]

    def wait_more():
        """Each of them takes ids again."""
        before = [len(taker.ids) for taker in takers]
        for taker, had in zip(takers, before):
            wait_until(lambda t=taker, h=had: len(t.ids) > h + 70, 30, f"ids of {taker.target}")

    wait_more()
    cluster.followers()[0].restart()
    wait_more()
    leader = cluster.leader()
    leader.kill9()
    leader.start()
    wait_more()
    of_layout = {name: [] for name in layouts}
    for index, taker in enumerate(takers):
        of_layout[list(layouts)[index % 3]].extend(taker.end())
    for name, ids in of_layout.items():
        assert len(ids) == len(set(ids)), f"{name}: {len(ids) - len(set(ids))} ids came twice"
    cluster.wait_applied()


def test_layouts_come_with_a_snapshot_of_a_restart(make_cluster):
    cluster = make_cluster(size=1, settings=FAST)
    before = make(cluster, "s", preset="sonyflake")
    cluster.nodes[0].restart()
    cluster.wait_ready()
    assert cluster.nodes[0].get_json("/api/layouts") == {"layouts": [before]}


def test_made_at_one_node_and_asked_for_at_the_others(make_cluster, proxies):
    """At once, as a client that made it does: no node that is behind says that it is not there. One
    that the leader does not reach says that it does not know in time, and serves once it has
    caught up. What was never made is still 404."""
    cluster = make_cluster(settings=FAST, start=False)
    proxies.attach(cluster)
    cluster.start()
    wait_served(cluster.nodes)
    leader = cluster.leader()
    for number in range(8):
        assert put(leader, f"l{number}", **SECONDS).status == 200
        for node in cluster.others(leader):
            for path in (f"snowflake/get/k?layout=l{number}", f"layouts/l{number}",
                         f"snowflake/decode/1?layout=l{number}"):  # fmt: skip
                answer = node.get(f"/api/{path}")
                assert answer.status == 200, (path, answer)
        assert leader.http("DELETE", f"/api/layouts/l{number}").status == 204
        assert put(leader, f"l{number}", **SECONDS).status == 200
        for node in cluster.others(leader):  # knows it, or knew that it was deleted
            answer = node.get(f"/api/snowflake/get/k?layout=l{number}")
            assert answer.status == 200, answer
    far = cluster.followers()[0]
    proxies.cut(leader, far)
    proxies.cut(far, leader)
    wait_until(lambda: "leafd_leader_through 0\n" not in far.get("/metrics").text, 30,
               "a way round")
    assert put(leader, "late", **SECONDS).status == 200
    answer = far.get("/api/snowflake/get/k?layout=late", timeout=40)
    assert answer.status == 503 and answer.json()["code"] in ("timeout", "no_leader"), answer
    answer = far.get("/api/snowflake/get/k?layout=never", timeout=40)
    assert answer.status in (404, 503), answer
    proxies.heal()
    assert wait_until(lambda: far.get("/api/snowflake/get/k?layout=late", timeout=40).status == 200,
                      30, "it has caught up")  # fmt: skip
    assert far.get("/api/snowflake/get/k?layout=never").json()["code"] == "unknown_layout"
