"""scripts/run-cluster, which is behind `make run`: its whole life with real nodes."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from client import once
from node import ROOT, leafd_path
from ports import can_bind, take_port
from wait import wait_until

SCRIPT = os.path.join(ROOT, "scripts", "run-cluster")
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30


def take_row(count):
    """The first of so many ports in a row."""
    while True:
        first = take_port()
        if all(can_bind(first + n) for n in range(1, count)):
            return first


class Runner:
    """One run-cluster process and what it says."""

    def __init__(self, directory, nodes):
        self.directory = directory
        self.data = str(directory / "data")
        self.nodes = nodes
        self.http_port = take_row(5)
        self.peer_port = take_row(5)
        self.output = directory / "output"
        self.process = None

    def command(self, nodes=None):
        return [sys.executable, SCRIPT, "--nodes", str(nodes or self.nodes), "--data", self.data,
                "--binary", leafd_path(), "--http-port", str(self.http_port),
                "--peer-port", str(self.peer_port)]

    def start(self):
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output)
        self.wait_says("Ctrl-C stops all")

    def said(self):
        return self.output.read_text()

    def wait_says(self, text):
        def told():
            ended = self.process.poll()
            if text not in self.said() and ended is not None:
                raise RuntimeError(f"run-cluster ended with {ended}:\n{self.said()}")
            return text in self.said()

        wait_until(told, START_TIMEOUT_S, f"run-cluster says '{text}':\n{self.said()}")

    def refused(self, nodes=None):
        """Start it once more; it must end at once, and say why."""
        run = subprocess.run(self.command(nodes), stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=START_TIMEOUT_S, check=False)
        assert run.returncode == 1
        return run.stderr

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(STOP_TIMEOUT_S)
        self.process = None
        return code

    def next_id(self, node):
        answer = once(("127.0.0.1", self.http_port + node - 1), "GET",
                      "/api/segment/get/leaf-segment-test")
        assert answer.status == 200
        return int(answer.body)

    def node_pid(self, node):
        """The process that was told this node's id, and is no longer setpriv."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode().split("\0")
            except OSError:
                continue
            if (f"--data-dir={self.data}/node{node}" in words and
                    os.path.basename(words[0]) == os.path.basename(leafd_path())):
                return int(pid)
        raise AssertionError(f"no process of node {node}")

    def no_node_is_left(self):
        return all(can_bind(port) for first in (self.http_port, self.peer_port)
                   for port in range(first, first + self.nodes))


@pytest.fixture
def make_runner(tmp_path):
    runners = []

    def make(nodes):
        runners.append(Runner(tmp_path, nodes))
        return runners[-1]

    yield make
    for runner in runners:
        if runner.process is not None:
            runner.stop()


def test_starts_stops_and_goes_on(make_runner):
    runner = make_runner(3)
    runner.start()
    assert "made the tag leaf-segment-test with step 2000" in runner.said()
    mode = os.stat(os.path.join(runner.data, "secret")).st_mode
    assert stat.S_IMODE(mode) == 0o600
    seen = {runner.next_id(node) for node in (1, 2, 3)}
    assert len(seen) == 3 and min(seen) == 1

    assert "in use by another run-cluster" in runner.refused()
    assert runner.stop() == 0
    assert runner.said().endswith("run: stopped\n")
    assert runner.no_node_is_left()

    runner.start()
    assert "made the tag" not in runner.said()
    later = {runner.next_id(node) for node in (1, 2, 3)}
    assert min(later) > max(seen) and len(later) == 3
    assert runner.stop(signal.SIGINT) == 0
    text = runner.refused(nodes=5)
    assert "was made with 3 nodes" in text and "make run NODES=3" in text


def test_a_dead_node_is_reported_and_the_others_go_on(make_runner):
    runner = make_runner(3)
    runner.start()
    os.kill(runner.node_pid(2), signal.SIGKILL)
    runner.wait_says("node 2 was killed by SIGKILL")
    assert runner.next_id(1) != runner.next_id(3)
    assert runner.stop() == 0
    assert runner.no_node_is_left()


def test_a_port_in_use_is_named_before_anything_starts(make_runner):
    runner = make_runner(3)
    runner.start()
    assert runner.stop() == 0
    blocker = make_runner(1)
    blocker.data += "-other"
    blocker.http_port = runner.http_port + 1
    blocker.start()
    text = runner.refused()
    assert f"127.0.0.1:{blocker.http_port} (node 2): Address already in use" in text


def test_nodes_do_not_outlive_the_runner(make_runner):
    runner = make_runner(1)
    runner.start()
    runner.process.kill()
    runner.process.wait()
    runner.process = None
    wait_until(runner.no_node_is_left, STOP_TIMEOUT_S, "the node ends with its runner")
