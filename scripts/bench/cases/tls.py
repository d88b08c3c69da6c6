"""HTTP over TLS, against nginx: a request, many at once, a handshake, an idle connection."""

import os
import re
import resource
import select
import socket
import subprocess
import sys
import time

from cases.common import CONNECTIONS, PATH, TAG, others
from measure import Procedure, Target
from processes import BenchError, cpu_of_machine, memory_of, pinned
from servers import HOST, Leafd, NginxTls, program

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "cluster-tests"))

from certificates import Authority  # noqa: E402

name = "tls"
title = "one id a request over TLS 1.3, keep-alive, 64 connections"
text = """
As the cases ids and pipelined, over TLS: leafd with one HTTP thread and nginx with one worker, each
on the servers' core, with the same ECDSA P-256 certificate, AES-128-GCM and X25519. The load is
wrk, which counts replies but does not look into them. A handshake is a connection of its own with
one request, never resumed, by a Python client; an idle connection is one of 2,000 that has had its
request two seconds before.
"""
targets = [
    Target("cpu_us", "leafd", "nginx", at_most=0.9),
    Target("ids_per_cpu_s", "leafd-16", "nginx-16", at_least=5),
    Target("handshake_us", "leafd-full", "nginx-full", at_most=1.05),
    Target("connection_kib", "leafd-idle", at_most=14),
]
charts = ("cpu_us", "ids_per_cpu_s")
columns = ("rate", "ids_per_cpu_s", "cpu_us", "user_us", "system_us", "handshake_us",
           "connection_kib", "others")
told = ("cpu_us", "ids_per_cpu_s", "handshake_us", "connection_kib", "others")
fair = True

IDLE = 2000
SETTLE_S = 2
# 16 requests as one; wrk counts each reply.
PIPELINE_LUA = """
init = function(args)
  local each = {}
  for i = 1, 16 do each[i] = wrk.format() end
  all = table.concat(each)
end
request = function() return all end
"""


def wrk(bench, server, script, seconds):
    """A load by wrk; the figures."""
    command = [*pinned(bench.load_cores), program("wrk"), "-t1", f"-c{CONNECTIONS}",
               f"-d{max(1, round(seconds))}s", *(["-s", script] if script else []),
               f"https://localhost:{server.port}{PATH}"]
    machine, before, begin = cpu_of_machine(), server.cpu(), time.monotonic()
    told = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60,
                          check=False).stdout
    elapsed, after, machine_after = time.monotonic() - begin, server.cpu(), cpu_of_machine()
    found = re.search(r"(\d+) requests in", told)
    if not found or "Non-2xx" in told or "Socket errors" in told:
        raise BenchError(f"wrk: {told}")
    count = max(1, int(found[1]))
    user_s, system_s = (b - a for a, b in zip(before, after))
    all_s = machine_after[1] - machine[1]
    return {"rate": count / elapsed, "cpu_us": 1e6 * (user_s + system_s) / count,
            "user_us": 1e6 * user_s / count, "system_us": 1e6 * system_s / count,
            "ids_per_cpu_s": count / (user_s + system_s),
            "others": max(0.0, 100 * (1 - (user_s + system_s) / all_s)) if all_s else 0.0}


def ask(context, port):
    """A connection that has had one reply."""
    sock = context.wrap_socket(socket.create_connection((HOST, port), timeout=20),
                               server_hostname="localhost")
    sock.sendall(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
        raise BenchError("a reply over TLS is not 200")
    return sock


def handshakes(context, server, seconds):
    count, before, end = 0, sum(server.cpu()), time.monotonic() + seconds
    while time.monotonic() < end:
        ask(context, server.port).close()
        count += 1
    return {"handshake_us": 1e6 * (sum(server.cpu()) - before) / count}


def is_closed(sock):
    """There is nothing to be read of one that is idle, not even its end."""
    poll = select.poll()  # select() takes no descriptor above 1023
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def idle(context, server):
    """What each of many connections adds to the memory of a server that has just started: what was
    freed would be used again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    server.stop()
    server.start()
    few = [ask(context, server.port) for _ in range(10)]
    time.sleep(SETTLE_S)
    before = sum(map(memory_of, server.pids()))
    many = [ask(context, server.port) for _ in range(IDLE)]
    time.sleep(SETTLE_S)  # that nothing happens is what is measured
    grown = sum(map(memory_of, server.pids())) - before
    if any(is_closed(sock) for sock in many):
        raise BenchError(f"some of {IDLE} idle connections were closed: they cost nothing")
    for sock in few + many:
        sock.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return {"connection_kib": grown / IDLE / 1024}


class LeafdTls(Leafd):
    """One node over TLS."""

    def __init__(self, bench, authority):
        super().__init__(bench.data, bench.leafd, 1,
                         {"http-loops": 1, "http-tls-dir": authority.path("server")},
                         bench.server_cores)
        for node in self.cluster.nodes:
            node.tls = authority.client()

    @property
    def port(self):
        return self.cluster.nodes[0].http_port

    def start(self):
        super().start()
        answer = self.cluster.nodes[0].http("PUT", f"/api/tags/{TAG}", {"step": 100000})
        if answer.status not in (200, 201):
            raise BenchError(f"leafd refuses the tag: {answer}")
        return self


def procedures(server, label, bench, context, script):
    """The four things that are measured of a server."""
    kind = "leafd" if isinstance(server, LeafdTls) else "nginx"
    return [
        Procedure(kind, label, [server], "wrk, 64 connections",
                  lambda seconds: wrk(bench, server, None, seconds)),
        Procedure(f"{kind}-16", f"{label}, 16 at once", [server], "wrk, 16 requests at once",
                  lambda seconds: wrk(bench, server, script, seconds)),
        Procedure(f"{kind}-full", f"{label}, full handshakes", [server],
                  "connections of one request",
                  lambda seconds: handshakes(context, server, seconds)),
        Procedure(f"{kind}-idle", f"{label}, idle connections", [server], f"{IDLE} connections",
                  lambda seconds: idle(context, server)),
    ]


@others
def nginx_procedures(bench, context, script, pem, key):
    nginx = bench.start(NginxTls(bench.data, pem, key, bench.server_cores))
    return procedures(nginx, "nginx, return 200", bench, context, script)


def prepare(bench):
    authority = Authority(os.path.join(bench.data, "certificates"))
    pem, key = authority.issue("server")
    script = os.path.join(bench.data, "pipeline.lua")
    with open(script, "w", encoding="ascii") as file:
        file.write(PIPELINE_LUA)
    context = authority.client()
    leafd = procedures(bench.start(LeafdTls(bench, authority)), "leafd, 1 node", bench,
                       context, script)
    nginx = nginx_procedures(bench, context, script, pem, key)
    return [one for pair in zip(leafd, nginx) for one in pair] if nginx else leafd
