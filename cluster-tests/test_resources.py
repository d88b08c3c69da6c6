"""When files, connections or patience run out: errors that say so, and service again afterwards."""

import os
import re
import resource
import threading
import time

import pytest

from checker import History
from client import Connection, get_bytes
from cluster import FAST, STEADY
from load import Load, wait_taken
from wait import wait_until


def open_files(node):
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


@pytest.mark.quiet
# Shows P7-flood.
def test_no_more_files(make_cluster, tag):
    """A node that may open no more files keeps its peers and its clients, and recovers."""
    cluster = make_cluster(settings=STEADY)
    cluster.create_tag(tag)
    node = cluster.leader()
    term = node.cluster_status()["term"]
    history = History()
    load = Load(history, tag)
    load.add(node, 10, "range", rate=1000.0)
    with load:
        wait_taken(load, 500)
        limit = open_files(node) + 20
        resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        first = Connection(node.address)  # before the others: accepting has no order among them
        held = [first]
        try:
            assert first.request("GET", f"/api/segment/get/{tag}").status == 200
            held += [Connection(node.address) for _ in range(99)]
            for connection in held:
                connection.send(get_bytes(f"/api/segment/get/{tag}"))
            assert first.read_response().status == 200
            wait_taken(load, 500)
            cluster.create_tag(f"{tag}.meanwhile", node=cluster.others(node)[0])
        finally:
            for connection in held:
                connection.close()
        wait_until(lambda: node.get(f"/api/segment/get/{tag}").status == 200, 10, "new clients")
        load.finish()
    assert cluster.leader().cluster_status()["term"] == term


# Shows P7-flood.
def test_more_connections_than_allowed(make_cluster, tag):
    """The one too many is told so; the others go on."""
    cluster = make_cluster(1, {**FAST, "http-loops": 1})
    cluster.create_tag(tag)
    node = cluster.nodes[0]
    kept = int(re.search(r'msg="open files" .*kept=(\d+)', node.log())[1])
    node.stop()
    node.prefix = ["prlimit", f"--nofile={kept + 10}:{kept + 10}"]
    node.start().wait_ready()
    allowed = int(re.findall(r'msg="open files" .*http_connections=(\d+)', node.log())[-1])
    assert 10 <= allowed < 100
    target = f"/api/segment/get/{tag}"

    def one_more():
        """A connection that is served: the ones of the test's beginning may still be closing."""
        connection = Connection(node.address)
        if connection.request("GET", target).status == 200:
            return connection
        connection.close()
        return None

    held = [wait_until(one_more, 5, "room for a connection") for _ in range(allowed)]
    try:
        with node.connect() as surplus:
            answer = surplus.request("GET", target)
            assert (answer.status, answer.code) == (503, "overloaded")
            assert int(answer.headers["retry-after"]) >= 1
            assert surplus.at_end()
        for connection in held:
            assert connection.request("GET", target).status == 200
    finally:
        for connection in held:
            connection.close()
    wait_until(lambda: node.get(target).status == 200, 5, "room for a new connection")


def test_many_that_wait(make_cluster, tag):
    """Hundreds of requests wait for a leader on two nodes; each is answered when there is one."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=1)
    one, two, three = cluster.nodes
    for node in (two, three):
        node.kill9()
    wait_until(one.sees_no_leader, 10, "no leader is known")
    target = f"/api/segment/get/{tag}"
    connections = [Connection(one.address, 20) for _ in range(400)]
    history = History()
    try:
        sent_ns = time.monotonic_ns()
        for connection in connections:
            connection.send(get_bytes(f"{target}?count=3&format=range&timeout_ms=9000"))
        two.start()
        for number, connection in enumerate(connections):
            answer = connection.read_response()
            answer.sent_ns = sent_ns
            assert answer.status == 200, answer
            track = history.track(f"c{number}", one.id, tag)
            for line in answer.text.splitlines():
                track.add(*map(int, line.split()), answer)
    finally:
        for connection in connections:
            connection.close()
    assert history.check() == 3 * len(connections)


# Shows P7-flood.
def test_clients_that_give_up_while_waiting(make_cluster, tag):
    """Requests whose clients went away cost nothing after their time; the node goes on."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=1)
    one, two, three = cluster.nodes
    for node in (two, three):
        node.kill9()
    wait_until(one.sees_no_leader, 10, "no leader is known")
    files = open_files(one)
    for _ in range(5):
        connections = [Connection(one.address) for _ in range(100)]
        for connection in connections:
            connection.send(get_bytes(f"/api/segment/get/{tag}?timeout_ms=1500"))
        for connection in connections:
            connection.close()
    wait_until(lambda: open_files(one) <= files + 1, 5, "connections of clients that left are gone")
    two.start()
    answer = one.get(f"/api/segment/get/{tag}?timeout_ms=10000")
    assert answer.status == 200


def test_new_tags_asked_for_by_many_at_once(shared, tag):
    """Tags that no node has in use yet, wanted by many clients of all nodes in the same moment."""
    names = [f"{tag}.{number}" for number in range(200)]
    answer = shared.nodes[0].http("POST", "/api/tags", [{"tag": name} for name in names])
    assert answer.status == 200
    history = History()
    faults = []

    def run(number):
        node = shared.nodes[number % 3]
        try:
            with node.connect() as connection:
                sent_ns = time.monotonic_ns()
                connection.send(b"".join(get_bytes(f"/api/segment/get/{name}") for name in names))
                for name in names:
                    answer = connection.read_response()
                    answer.sent_ns = sent_ns
                    value = int(answer.body)
                    history.track(f"c{number}", node.id, name).add(value, value, answer)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not faults, faults
    assert history.check() == 12 * len(names)
