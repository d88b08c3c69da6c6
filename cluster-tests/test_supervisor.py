"""A node under a supervisor that speaks sd_notify's protocol, as systemd does: from inside the
sandbox it says that it is ready, what it is at, that it reloads, lives and stops."""

import os
import signal
import socket
import time

import pytest

from cluster import FAST


class Supervisor:
    """The end of NOTIFY_SOCKET. Messages are taken one by one; of the same kind only the new."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1))
        self.socket.settimeout(15)

    def expect(self, begin):
        """Passes over signs of life and states; returns the message."""
        while True:
            message = self.socket.recv(4096).decode()
            if message.startswith(begin):
                return message
            assert message.startswith(("STATUS=", "WATCHDOG=1")), f"{message!r}, not {begin!r}"


@pytest.fixture(params=["path", "abstract"])
def address(request, tmp_path):
    if request.param == "abstract":
        return f"@leafd-test-{os.getpid()}-{time.monotonic_ns()}"
    return str(tmp_path / "notify")


def start(cluster, node, address):
    supervisor = Supervisor(address)
    node.prefix = ["env", f"NOTIFY_SOCKET={address}", "WATCHDOG_USEC=2000000"]
    node.settings["sandbox"] = "on" if "asan" not in node.binary else "auto"
    node.start()
    return supervisor


def test_a_node_tells_its_supervisor(make_cluster, address):
    cluster = make_cluster(1, settings=FAST, start=False)
    node = cluster.nodes[0]
    supervisor = start(cluster, node, address)
    supervisor.expect("STATUS=reading its data")
    supervisor.expect("READY=1")
    assert node.get("/livez").status == 200
    supervisor.expect("STATUS=serving")
    for _ in range(3):
        supervisor.expect("WATCHDOG=1")
    before_us = time.monotonic_ns() // 1000
    node.process.send_signal(signal.SIGHUP)
    reloading = supervisor.expect("RELOADING=1\n").split("MONOTONIC_USEC=")[1]
    assert before_us <= int(reloading) <= time.monotonic_ns() // 1000
    supervisor.expect("READY=1")
    node.leaving()
    node.process.terminate()
    supervisor.expect("STOPPING=1")
    supervisor.expect("STATUS=stopping")
    assert node.wait_exit() == 0


def test_ready_before_the_others_are_there(make_cluster, tmp_path):
    """Whoever starts the first nodes of a cluster one after the other is not kept waiting."""
    cluster = make_cluster(3, settings=FAST, start=False)
    node = cluster.nodes[0]
    supervisor = start(cluster, node, str(tmp_path / "notify"))
    supervisor.expect("READY=1")
    assert "not born" in supervisor.expect("STATUS=up")
    for other in cluster.nodes[1:]:
        other.start()
    cluster.wait_ready()
    supervisor.expect("STATUS=serving")


def test_a_paused_node_says_nothing(make_cluster, tmp_path):
    """So its supervisor notices."""
    cluster = make_cluster(1, settings=FAST, start=False)
    node = cluster.nodes[0]
    supervisor = start(cluster, node, str(tmp_path / "notify"))
    supervisor.expect("READY=1")
    supervisor.expect("WATCHDOG=1")
    node.pause()
    supervisor.socket.settimeout(2)
    with pytest.raises(TimeoutError):
        while True:
            supervisor.socket.recv(4096)
    node.resume()
    supervisor.socket.settimeout(15)
    supervisor.expect("WATCHDOG=1")
