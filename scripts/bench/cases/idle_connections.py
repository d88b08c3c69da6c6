"""Keep-alive connections that had a request and then nothing: memory, and processor time."""

import resource
import socket
import time

from cases.common import PATH, TAG, others
from measure import Procedure, Target
from processes import BenchError, memory_of
from servers import HOST, Leafd, Nginx

name = "idle_connections"
title = "15,000 idle keep-alive connections"
text = """
One node with two HTTP threads, and nginx with one worker. Each of 15,000 connections, or as many as
the limit on open files allows, has one request and then none; they come from several addresses of
the loopback device, each of which has ports for some 28,000. Two seconds later: what the server's
resident memory grew by, for each connection (without the kernel's part, which is the same for any
server), and the processor time that the server then takes. The server is started anew each time, so
that nothing that was freed is used again. Afterwards every connection must still be open.
"""
targets = [
    Target("connection_bytes", "leafd"),
    Target("connection_bytes", "leafd", "nginx"),
    Target("core_percent", "leafd", at_most=1),
]
charts = ("connection_bytes", "core_percent")
columns = ("connection_bytes", "core_percent")
told = columns
rounds = 3

COUNT = 15000  # nginx closes idle ones when 15 in 16 of its 16,384 are in use
KEPT = 1000  # open files that are not connections
FEW = 100
AN_ADDRESS = 5000
SETTLE_S = 2


def connect(port, number):
    """A connection that has had one reply."""
    sock = socket.socket()
    sock.settimeout(20)
    sock.bind((f"127.0.0.{2 + number // AN_ADDRESS}", 0))
    sock.connect((HOST, port))
    sock.sendall(f"GET {PATH} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
    if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
        raise BenchError(f"the reply to connection {number} is not 200")
    return sock


def is_open(sock):
    """It has nothing to read, not even an end."""
    sock.setblocking(False)
    try:
        sock.recv(1)
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


def measured(server, start, port_of, seconds):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(COUNT, hard - KEPT)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server.stop()
    start()
    socks = []
    try:
        socks += [connect(port_of(), number) for number in range(FEW)]
        time.sleep(SETTLE_S)
        before = sum(map(memory_of, server.pids()))
        socks += [connect(port_of(), number) for number in range(FEW, FEW + count)]
        time.sleep(SETTLE_S)
        grown = sum(map(memory_of, server.pids())) - before
        began, spent = time.monotonic(), sum(server.cpu())
        time.sleep(seconds)  # that nothing happens is what is measured
        core = 100 * (sum(server.cpu()) - spent) / (time.monotonic() - began)
        closed = sum(not is_open(sock) for sock in socks)
    finally:
        for sock in socks:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if closed:
        raise BenchError(f"{closed} of {len(socks)} connections were closed: they cost nothing")
    return {"connection_bytes": grown / count, "core_percent": core}


def start_leafd(leafd):
    leafd.start()
    status, text_of_it = leafd.put_tag(TAG, step=100000)
    if status not in (200, 201):
        raise BenchError(f"leafd refuses the tag: {status}: {text_of_it}")


@others
def nginx_procedures(bench):
    nginx = bench.start(Nginx(bench.data))
    return [Procedure("nginx", "nginx, return 200", [nginx], "idle connections", lambda seconds:
                      measured(nginx, nginx.start, lambda: nginx.port, seconds))]


def prepare(bench):
    leafd = bench.start(Leafd(bench.data, bench.leafd, 1, {"http-loops": 2}))
    return [
        Procedure("leafd", "leafd, 1 node", [leafd], "idle connections", lambda seconds: measured(
            leafd, lambda: start_leafd(leafd), lambda: leafd.cluster.nodes[0].http_port, seconds)),
        *nginx_procedures(bench)]
