"""A node repeats what it got no answer to, for as long as its client waits: whatever others have
changed in between, the repeat changes nothing (src/state/codec/session.h)."""

# Shows P5-again.

import contextlib
import json
import threading

import pytest

from client import request_bytes, tag_path
from wait import wait_until

# A request waits for ten seconds at most, in which so many changes have to be made.
pytestmark = pytest.mark.quiet

OTHERS = 6000  # changes of other tags between a change and its repeat
CONNECTIONS = 100


class Unheard:
    """A follower whose requests reach the leader, and that hears nothing until heal()."""

    def __init__(self, make_cluster, proxies):
        self.proxies = proxies
        self.cluster = make_cluster(start=False)
        proxies.attach(self.cluster)
        self.cluster.start()
        self.leader = self.cluster.leader()
        self.node, self.other = self.cluster.others(self.leader)
        self.answer = None
        self.thread = None

    def cut(self):
        """The third node neither, or it would bring the answer."""
        self.proxies.cut(self.leader, self.node)
        self.proxies.cut(self.other, self.node)
        self.proxies.cut(self.node, self.other)

    def ask(self, method, target, body=None):
        """A client of this node waits for the answer to this."""

        def run():
            self.answer = self.node.http(method, target, body, timeout=30)

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def heal(self):
        self.proxies.heal()
        self.thread.join(timeout=30)
        assert self.answer is not None, "no answer"
        return self.answer

    def row(self, name, node=None):
        return (node or self.leader).get(f"/api/tags/{tag_path(name)}")

    def on_all(self, name, **fields):
        self.cluster.wait_applied()
        for node in self.cluster.nodes:
            row = self.row(name, node)
            assert row.status == 200, f"{node}: {row}"
            shown = row.json()
            assert {key: shown[key] for key in fields} == fields, f"{node}: {shown}"

    def change_others(self):
        """So many acknowledged changes of other tags, by the leader, many at once."""
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(self.leader.connect()) for _ in range(CONNECTIONS)]
            for n, connection in enumerate(connections):
                connection.send(
                    b"".join(
                        request_bytes("PUT", f"/api/tags/other-{n}", b'{"step":%d}' % (1 + i))
                        for i in range(OTHERS // CONNECTIONS)
                    )
                )
            for connection in connections:
                for _ in range(OTHERS // CONNECTIONS):
                    assert connection.read_response().status in (200, 201)


@pytest.fixture
def unheard(make_cluster, proxies):
    return Unheard(make_cluster, proxies)


# Shows P5-again.
def test_a_change_that_comes_late_again_undoes_nothing(unheard, tag):
    unheard.cluster.create_tag(tag, step=5)
    unheard.cut()
    unheard.ask("PUT", f"/api/tags/{tag}", b'{"step":111}')
    wait_until(lambda: unheard.row(tag).json()["step"] == 111, 5, "the change is made")
    assert unheard.other.http("PUT", f"/api/tags/{tag}", {"step": 222}).status == 200
    unheard.change_others()
    answer = unheard.heal()
    assert answer.status == 200 and answer.json()["step"] == 111  # as it was told, late
    unheard.on_all(tag, step=222)


def test_a_delete_that_comes_late_again_spares_the_tag_made_again(unheard, tag):
    unheard.cluster.create_tag(tag)
    unheard.cut()
    unheard.ask("DELETE", f"/api/tags/{tag}")
    wait_until(lambda: unheard.row(tag).status == 404, 5, "the tag is deleted")
    unheard.cluster.create_tag(tag, node=unheard.other, step=222)
    unheard.change_others()
    assert unheard.heal().status == 204
    unheard.on_all(tag, step=222)


def test_a_mode_that_comes_late_again_undoes_nothing(unheard, tag):
    unheard.cluster.create_tag(tag, mode="strict")
    unheard.cut()
    unheard.ask("PUT", f"/api/tags/{tag}", b'{"mode":"trend"}')
    wait_until(lambda: unheard.row(tag).json()["mode"] == "trend", 5, "the tag is in trend mode")
    assert unheard.other.http("PUT", f"/api/tags/{tag}", {"mode": "strict"}).status == 200
    unheard.change_others()
    assert unheard.heal().status == 200
    unheard.on_all(tag, mode="strict")


def test_an_acquire_that_comes_late_again_does_not_fence_its_successor(unheard):
    """The client gives its worker id back, and takes it again with another epoch, elsewhere."""
    body = {"name": "late-holder", "window_ms": 60000}

    def workers_of_nodes():
        rows = unheard.leader.get("/api/workers").json()["workers"]
        return rows if len(rows) == len(unheard.cluster.nodes) else None

    workers = wait_until(workers_of_nodes, 5, "each node has its worker id")
    unheard.cut()
    unheard.ask("POST", "/api/workers", json.dumps(body).encode())

    def held():
        rows = unheard.leader.get("/api/workers").json()["workers"]
        return next((row for row in rows if row["name"] == "late-holder"), None)

    first = wait_until(held, 5, "the worker id is granted")
    assert len(workers) + 1 == len(unheard.leader.get("/api/workers").json()["workers"])
    path = f"/api/workers/{first['worker_id']}"
    assert unheard.other.http("DELETE", f"{path}?epoch={first['epoch']}").status == 204
    second = unheard.other.http("POST", "/api/workers", {**body, "worker_id": first["worker_id"]})
    assert second.status == 201 and second.json()["epoch"] > first["epoch"]
    unheard.change_others()
    late = unheard.heal()
    assert late.status == 201 and late.json()["epoch"] == first["epoch"]
    renewal = {"epoch": second.json()["epoch"], "window_ms": 60000}
    assert unheard.other.http("PUT", path, renewal).status == 200


def test_a_grant_that_comes_late_again_gives_the_same_range(unheard, tag):
    """A grant that was carried out unheard gives the same range when it is asked for again: of a
    tag that this node alone uses no id is skipped."""
    unheard.cluster.create_tag(tag, step=10, max_step=10)
    assert unheard.node.get(f"/api/segment/get/{tag}").body == b"1"
    granted = int(unheard.row(tag).json()["max_id"])
    unheard.cut()
    unheard.ask("GET", f"/api/segment/get/{tag}?count=100&timeout_ms=10000")
    wait_until(lambda: int(unheard.row(tag).json()["max_id"]) > granted, 5, "a segment is granted")
    unheard.change_others()
    answer = unheard.heal()
    assert answer.status == 200
    assert [int(line) for line in answer.text.split()] == list(range(2, 102))
