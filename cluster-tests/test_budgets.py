"""What one client takes does not keep others from being served: replies that nobody reads, large
replies, bodies that are held open, connections, quotas. A node's memory stays bounded, and others
are served meanwhile."""

import contextlib
import os
import re
import resource
import socket
import statistics
import subprocess
import time

import pytest

from client import Connection, get_bytes, once
from cluster import FAST
from node import ROOT
from ports import take_port
from wait import wait_until

MIB = 1 << 20
ONE_LOOP = {**FAST, "http-loops": 1, "admin-listen": "same", "http-hosts": "leafd"}
LOUD = os.path.join(ROOT, "scripts", "bench", "loud.py")
COUNT = 100000


def metric(node, name):
    """The value of a metric's sample."""
    for line in node.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return int(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name}")


def refused(node, why):
    return metric(node, f'leafd_http_refused_total{{why="{why}"}}')


def memory(node, what="VmHWM"):
    """The most that the process ever had in memory, in bytes."""
    with open(f"/proc/{node.process.pid}/status", encoding="utf-8") as status:
        return int(re.search(rf"^{what}:\s+(\d+) kB", status.read(), re.MULTILINE)[1]) << 10


def open_files(node):
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


@contextlib.contextmanager
def connections(node, count):
    """Sockets that do what the test says, and nothing else."""
    sockets = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection(node.address, 10))
        yield sockets
    finally:
        for one in sockets:
            one.close()


# Shows P7-share.
def test_replies_that_nobody_reads(make_cluster, tag):
    """A hundred connections ask for 10 GB and read nothing: what is not read is not made, and they
    are cut off."""
    cluster = make_cluster(3, {**ONE_LOOP, "http-idle-ms": 3000})
    cluster.create_tag(tag, step=1000000)
    cluster.create_tag(f"{tag}.quiet")
    node = cluster.leader()
    before = memory(node)
    request = get_bytes(f"/api/segment/get/{tag}?count={COUNT}&timeout_ms=10000")
    with connections(node, 100) as sockets:
        for one in sockets:
            one.sendall(request * 60)
        while refused(node, "reader_slow") < 100:
            assert node.get(f"/api/segment/get/{tag}.quiet", timeout=30).status == 200
            assert metric(node, "leafd_http_output_bytes") <= 96 * MIB
            time.sleep(0.1)
    assert memory(node) - before < 40 * MIB
    wait_until(lambda: metric(node, "leafd_http_output_bytes") < MIB, 10, "all was given back")


@pytest.mark.alone
# Shows P7-share.
def test_a_quiet_client_beside_loud_ones(make_cluster, tag):
    """64 connections take all that they can get; a small request does not wait for them all."""
    cluster = make_cluster(3, ONE_LOOP)
    cluster.create_tag(tag, step=1000000, max_step=100000000)
    cluster.create_tag(f"{tag}.quiet")
    node = cluster.leader()
    seconds = []
    with subprocess.Popen([LOUD, node.http_address, "64", "6",
                           f"/api/segment/get/{tag}?count={COUNT}&timeout_ms=10000"],
                          stdout=subprocess.PIPE, text=True) as loud:
        with Connection(node.address) as quiet:
            wait_until(lambda: metric(node, "leafd_http_parts_total") > 1000, 10, "loud clients")
            for _ in range(200):
                begin = time.monotonic()
                assert quiet.request("GET", f"/api/segment/get/{tag}.quiet").status == 200
                seconds.append(time.monotonic() - begin)
                time.sleep(0.01)
        replies, taken = map(int, loud.communicate()[0].split())
    assert loud.returncode == 0
    assert replies > 64 and taken > 64 * COUNT
    # Behind all that the loud ones asked for it would wait for 64 replies of 100,000 ids.
    assert statistics.median(seconds) < 0.1, seconds


def test_parts_are_the_reply(make_cluster, tag):
    """A reply that is made part by part has all ids, also where their digits become more, and in
    step with what comes before and behind it."""
    cluster = make_cluster(1, ONE_LOOP)
    cluster.create_tag(tag, max_id=9950000, step=1000000)
    with Connection(cluster.nodes[0].address) as connection:
        connection.send(get_bytes(f"/api/segment/get/{tag}") +
                        get_bytes(f"/api/segment/get/{tag}?count={COUNT}") +
                        get_bytes(f"/api/segment/get/{tag}"))
        assert connection.read_response().text == "9950000"
        ids = connection.read_response().text.splitlines()
        assert ids == [str(one) for one in range(9950001, 9950001 + COUNT)]
        assert connection.read_response().text == str(9950001 + COUNT)


# Shows P7-share.
def test_bodies_held_open(make_cluster, tag):
    """Eight connections hold bodies of 8 MiB open: small ones have room all the time, and a large
    one takes the place of one that does not come on."""
    cluster = make_cluster(1, ONE_LOOP)
    node = cluster.nodes[0]
    before = memory(node)
    head = (f"POST /api/tags HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {8 * MIB}\r\n\r\n").encode()
    large = [{"tag": f"{tag}.{i}", "description": "d" * 200} for i in range(1000)]
    with connections(node, 8) as sockets:
        for one in sockets:
            one.sendall(head)
            with contextlib.suppress(OSError):  # it may be refused meanwhile
                one.sendall(b" " * (8 * MIB - 1))
        # The client's share holds two of them.
        wait_until(lambda: refused(node, "bodies_share") + refused(node, "body_slow") >= 6, 10,
                   "what is beyond the share")
        assert metric(node, "leafd_http_body_bytes") <= 16 * MIB
        assert node.http("PUT", f"/api/tags/{tag}", {}).status == 201
        slow = refused(node, "body_slow")
        time.sleep(0.6)  # no condition: for so long the others must not come on
        assert node.http("POST", "/api/tags", large).status == 200
        assert refused(node, "body_slow") > slow
    assert memory(node) - before < 64 * MIB
    wait_until(lambda: metric(node, "leafd_http_body_bytes") == 0, 10, "all was given back")


def test_a_body_is_refused_by_its_length(make_cluster):
    """64 KiB but for the bulk route, said before a byte of it was sent."""
    node = make_cluster(1, ONE_LOOP).nodes[0]
    for line, limit in (("PUT /api/tags/t", 64 << 10), ("POST /api/workers", 64 << 10),
                        ("POST /api/tags", 8 * MIB)):
        with Connection(node.address) as connection:
            connection.send(f"{line} HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: application/json\r\n"
                            f"Content-Length: {limit + 1}\r\n\r\n".encode())
            response = connection.read_response()
            assert (response.status, response.code) == (413, "body_too_large"), line
            assert str(limit) in response.text


# Shows P7-share.
def test_more_connections_than_files_while_a_node_restarts(make_cluster, tag):
    """2,000 clients come to a node that may open 256 files, while another one restarts: there are
    files for the peers and for the node's own, and it takes part in all that happens."""
    cluster = make_cluster(3, ONE_LOOP, start=False)
    crowded = cluster.nodes[0]
    crowded.prefix = ["prlimit", "--nofile=256:256"]
    cluster.start()
    crowded.wait_log(r"open files.*allowed=256 ")
    cluster.create_tag(tag)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    other = cluster.others(crowded)[0]
    sockets = []
    try:
        for number in range(2000):
            if number == 1000:
                other.kill9()
                other.start()
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(crowded.address)
            sockets.append(one)
        other.wait_ready()
        assert open_files(crowded) < 256 - 64
        # A change that is on all nodes needs the crowded one, with both of its peers.
        response = other.http("PUT", f"/api/tags/{tag}.new?wait=all", {}, timeout=30)
        assert response.status == 201, response
        assert "cannot accept connections" not in crowded.log()
    finally:
        for one in sockets:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: crowded.get(f"/api/segment/get/{tag}").status == 200, 10, "new clients")
    cluster.wait_applied()


# Shows P7-share.
def test_quotas(make_cluster, tag):
    """A client that has used up its quota gets 429 and is told when to come again; it is served
    again then."""
    quota = "ids-per-s=1000,requests-per-s=50,connections=5"
    cluster = make_cluster(1, {**ONE_LOOP, "quota": quota})
    cluster.wait_ready()
    node = cluster.nodes[0]
    wait_until(lambda: node.http("PUT", f"/api/tags/{tag}", {}).status in (200, 201), 10, "a tag")
    time.sleep(1.1)  # no condition: what was used so far is forgotten
    with Connection(node.address) as connection:
        connection.send(get_bytes(f"/api/segment/get/{tag}?count=2500") +
                        get_bytes(f"/api/segment/get/{tag}"))
        assert connection.read_response().status == 200
        response = connection.read_response()
        assert (response.status, response.code) == (429, "quota")
        assert "127.0.0.1" in response.text and "1000 ids a second" in response.text
        assert response.headers["retry-after"] == "2"
        wait_until(lambda: connection.request("GET", f"/api/segment/get/{tag}").status == 200, 5,
                   "ids again")
        statuses = [connection.request("GET", "/livez").status for _ in range(200)]
        assert statuses.count(200) < 120 and statuses.count(429) > 80
    wait_until(lambda: node.get("/livez").status == 200, 10, "requests again")
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(Connection(node.address)) for _ in range(6)]
        held[5].send(b"")
        response = held[5].read_response()
        assert (response.status, response.code) == (429, "quota")
        held[0].send(get_bytes("/livez"))
        assert held[0].read_response().status in (200, 429)


# Shows attack-greedy.
def test_quotas_are_those_of_a_door(make_cluster):
    """Ids by HTTP and by RESP have one quota; the door for operators has its own, so whoever takes
    too many ids can still be seen to."""
    admin, resp = ("127.0.0.1", take_port()), ("127.0.0.1", take_port())
    cluster = make_cluster(1, {**ONE_LOOP, "quota": "requests-per-s=30",
                               "admin-listen": f"127.0.0.1:{admin[1]}",
                               "resp-listen": f"127.0.0.1:{resp[1]}"})
    node = cluster.nodes[0]

    def over_quota(address):
        with Connection(address) as connection:
            return [connection.request("GET", "/version").status for _ in range(200)].count(429)

    def ping():
        with socket.create_connection(resp, timeout=30) as sock:
            sock.sendall(b"PING\r\n")
            return sock.recv(1000)

    wait_until(lambda: ping() == b"+PONG\r\n", 10, "a second's worth")
    # What a second adds to the quota may be added in between.
    wait_until(lambda: over_quota(node.address) and ping().startswith(b"-BUSY quota: "), 10, "BUSY")
    assert once(admin, "GET", "/version").status == 200
    assert over_quota(admin) > 0
