"""Garbage at the peer port: closed with a reason, and neither the cluster nor its clients
notice."""

import random
import re
import socket
import struct

import pytest

from checker import History
from cluster import STEADY
from load import mixed_load, wait_taken


def throw(address, data, read=False):
    """Send bytes and go; read: take what comes first."""
    with socket.create_connection(address, timeout=5) as sock:
        try:
            sock.sendall(data)
            if read:
                sock.settimeout(0.2)
                sock.recv(4096)
        except OSError:
            pass


def hostile(source):
    """Broken frames and other noise. raft/transport/net_uv.h has the reasons: length, crc, version,
    type, zero, payload."""
    yield source.randbytes(source.randrange(1, 2000))
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield struct.pack("<IIBBH", 0xFFFFFFFF, 0, 1, 1, 0)
    yield struct.pack("<IIBBH", 4, 0, 1, 16, 0) + b"x" * 64
    yield struct.pack("<IIBBH", 0, 0, 0, 0, 0) * 100
    yield struct.pack("<IIBBH", 1 << 20, source.getrandbits(32), 1, 1, 0) + b"\x00" * 4096
    yield struct.pack("<IIBBH", 8 << 20, source.getrandbits(32), 1, 17, 0)
    yield b""


@pytest.mark.quiet
# Shows P7-peer-port.
def test_garbage_under_load(make_cluster, tag):
    cluster = make_cluster(settings=STEADY)
    cluster.create_tag(tag)
    term = cluster.leader().cluster_status()["term"]
    source = random.Random(7)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 20_000)
        for number in range(40):
            for node in cluster.nodes:
                address = ("127.0.0.1", node.peer_port)
                for data in hostile(source):
                    throw(address, data, read=number % 10 == 0)
            load.check_running()
        wait_taken(load, 20_000)
        load.finish()
    assert cluster.leader().cluster_status()["term"] == term, "the garbage caused an election"
    for node in cluster.nodes:  # who was refused, though its connection is closed by then
        assert re.search(r"inbound connection refused.* remote=127\.0\.0\.1 ", node.log())
        assert "remote=unknown" not in node.log()


@pytest.mark.quiet
# Shows P7-peer-port.
def test_connections_that_say_nothing(make_cluster, tag):
    """More silent connections than the limit (64): the real peers keep theirs and can come back."""
    cluster = make_cluster(settings=STEADY)
    cluster.create_tag(tag)
    follower = cluster.followers()[0]
    held = []
    try:
        for node in cluster.nodes:
            for _ in range(80):
                held.append(socket.create_connection(("127.0.0.1", node.peer_port), timeout=5))
        term = cluster.leader().cluster_status()["term"]
        cluster.create_tag(f"{tag}.more")
        for node in cluster.nodes:
            assert node.get(f"/api/segment/get/{tag}").status == 200
        # A node that starts anew must find its way in: silent ones are thrown out after 5 s.
        follower.restart()
        cluster.wait_applied()
        assert cluster.leader().cluster_status()["term"] == term
    finally:
        for sock in held:
            sock.close()
