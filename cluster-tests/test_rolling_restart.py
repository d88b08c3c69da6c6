"""Nodes are restarted one after the other under clients that keep their connections: none is cut.

The clients are the standard ones of their languages (clients/), and do nothing by themselves but
what any user of them does: where nobody listens any more they ask the next node. Each prints
"started", a line "cut: ..." for each request that got no whole answer, and, once its input has
ended, "asked: N". A client whose language is not installed is skipped (`scripts/setup clients`
installs them).
"""

import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from client import get_bytes
from cluster import FAST
from node import ROOT
from test_wrk import start_wrk
from wait import ran_s, wait_until

CLIENTS = os.path.join(ROOT, "cluster-tests", "clients")


def command(language, directory):
    """How to run the client; a compiled one is built."""
    if language == "python":
        return [sys.executable, os.path.join(CLIENTS, "rolling.py")]
    program = {"go": "go", "java": "javac", "node": "node"}[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if language == "go":
        binary = os.path.join(directory, "rolling")
        env = {**os.environ, "GOCACHE": os.path.join(directory, "cache"), "GO111MODULE": "off"}
        source = os.path.join(CLIENTS, "rolling.go")
        subprocess.run(["go", "build", "-o", binary, source], check=True, env=env)
        return [binary]
    if language == "java":
        source = os.path.join(CLIENTS, "Rolling.java")
        subprocess.run(["javac", "-d", directory, source], check=True)
        return ["java", "-cp", directory, "Rolling"]
    return ["node", os.path.join(CLIENTS, "rolling.js")]


def restart_all(cluster):
    """One after the other; the leader is among them."""
    for node in cluster.nodes:
        node.stop()
        node.start().wait_ready()
        cluster.leader()


@pytest.mark.bound(120)
@pytest.mark.parametrize("language", ["python", "java", "go", "node"])
# Shows P8-stop.
def test_no_request_is_cut(make_cluster, tag, tmp_path, language):
    run = command(language, str(tmp_path))
    cluster = make_cluster()
    cluster.create_tag(tag)
    urls = [f"http://{node.http_address}/api/segment/get/{tag}" for node in cluster.nodes]
    client = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *run, *urls],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert client.stdout.readline() == "started\n"
        wait_until(lambda: all(served(node) > 50 for node in cluster.nodes), 20, "load on all")
        restart_all(cluster)
        restart_all(cluster)
        wait_until(lambda: max(map(served, cluster.nodes)) > 50, 30, "load on kept connections")
        client.send_signal(signal.SIGSTOP)  # its connections are idle, and end unseen
        max(cluster.nodes, key=served).stop()
        client.send_signal(signal.SIGCONT)
        output = client.communicate(timeout=30)[0]
    finally:
        client.kill()
        client.wait()
    assert "cut:" not in output, output
    asked = int(re.search(r"asked: (\d+)", output).group(1))
    print(f"{language}: {asked} requests")
    assert asked > 150, output


def served(node):
    samples = re.findall(r"^leafd_http_requests_total{.*} (\d+)$", node.get("/metrics").text, re.M)
    return sum(int(sample) for sample in samples)


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
# Shows P8-stop.
def test_wrk_sees_no_connection_break(make_cluster, tag):
    """At full speed, on the node that stops: each request that was sent is answered. Afterwards wrk
    finds nobody to connect to, which is no connection that broke (it counts that as a write)."""
    cluster = make_cluster(settings={**FAST, "shutdown-delay-ms": 300})
    cluster.create_tag(tag)
    for _ in range(3):
        node = cluster.leader()
        wrk = start_wrk(node, tag, 4)
        wait_until(lambda n=node: served(n) > 1000, 10, "load")
        stood_s = time.monotonic() - ran_s()
        node.stop()
        output = wrk.communicate(timeout=30)[0]
        stood_s = time.monotonic() - ran_s() - stood_s
        errors = re.search(r"Socket errors: .*, read (\d+), write \d+, timeout (\d+)", output)
        assert "Non-2xx" not in output, output
        if errors is None or errors.groups() == ("0", "0"):
            return
        # A client that stands still asks on a connection that was idle for too long.
        assert stood_s > 0.05, output
        node.start().wait_ready()
    pytest.fail(output)


def test_idle_connections_end_over_the_delay(make_cluster):
    """Not all at once, each by an orderly end, and the node does not wait for anything else."""
    cluster = make_cluster(1, settings={**FAST, "shutdown-delay-ms": 4000, "http-loops": 1})
    node = cluster.nodes[0]
    idle = [socket.create_connection(node.address) for _ in range(12)]
    for connection in idle:
        connection.sendall(get_bytes("/livez"))
        assert b" 200 " in connection.recv(4096)
    node.leaving()
    node.process.terminate()
    order = []
    rounds = 0
    ends = selectors.DefaultSelector()  # select() knows no descriptor above 1023
    for connection in idle:
        ends.register(connection, selectors.EVENT_READ)
    while len(order) < len(idle):
        rounds += 1
        ended = {key.fileobj for key, _ in ends.select(10)}
        for connection in [connection for connection in idle if connection in ended]:
            assert connection.recv(4096) == b""
            order.append(connection)
            ends.unregister(connection)
            connection.close()
    ends.close()
    assert rounds >= 3, "they ended at once"
    assert order == idle, "who was idle longest is not the first"
    assert node.wait_exit() == 0
