"""scripts/run-cluster, which is behind `make run`: its whole life with real nodes."""

import os
import random
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from client import once
from node import ROOT, leafd_path
from ports import take_row
from wait import wait_until

SCRIPT = os.path.join(ROOT, "scripts", "run-cluster")
START_TIMEOUT_S = 120  # it may have to build first, beside other tests
STOP_TIMEOUT_S = 30


def command_lines():
    """(process id, words) of every process of the machine."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield int(pid), file.read().decode(errors="replace").split("\0")
        except OSError:
            continue


class Runner:
    """One run-cluster process and what it says."""

    def __init__(self, directory, nodes):
        self.directory = directory
        self.data = str(directory / "data")
        self.nodes = nodes
        self.http_port = take_row(5)
        self.peer_port = take_row(5)
        self.resp_port = take_row(5)
        self.output = directory / "output"
        self.process = None

    def command(self, nodes=None):
        return [sys.executable, SCRIPT, "--nodes", str(nodes or self.nodes), "--data", self.data,
                "--binary", leafd_path(), "--http-port", str(self.http_port),
                "--peer-port", str(self.peer_port), "--resp-port", str(self.resp_port)]

    def start(self, until="Ctrl-C stops all", command=None):
        """In a process group of its own, as a shell or a supervisor would; it ends with these
        tests."""
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *(command or self.command())],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        if until is not None:
            self.wait_says(until)

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
        for pid, words in command_lines():
            if (f"--data-dir={self.data}/node{node}" in words and
                    os.path.basename(words[0]) == os.path.basename(leafd_path())):
                return pid
        raise AssertionError(f"no process of node {node}")

    def left(self):
        """Command lines of all that it started and that is still there."""
        return [words for _, words in command_lines() if any(self.data in word for word in words)]

    def no_node_is_left(self):
        """By their command lines: their ports may be another test's by now."""
        return not self.left()


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
    assert f"redis-cli -p {runner.resp_port} INCR leaf-segment-test\n" in runner.said()
    for node in range(3):
        with socket.create_connection(("127.0.0.1", runner.resp_port + node), timeout=30) as redis:
            redis.sendall(b"INCR leaf-segment-test\r\n")
            number = int(redis.makefile("rb").readline().removeprefix(b":"))
        assert number not in seen
        seen.add(number)

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


# --- told to stop by a whole group's signals, at any moment ---

# What it has said when the signals come; None: nothing yet.
PHASES = {
    "beginning": None,
    "starting": "starting node 1",
    "waiting": "starting node 3",
    "nearly ready": "is ready",
    "running": "Ctrl-C stops all",
}
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def ask(runner):
    """A supervisor's signal, a user's and a closing terminal's to the process group; False if it
    has ended."""
    for number in ASKING:
        try:
            os.killpg(runner.process.pid, number)
        except ProcessLookupError:
            return False
    return True


def ask_twice_at_once(runner):
    ask(runner)
    ask(runner)


def ask_all_the_time(runner):
    """Until it has ended, and never in step with it: so one comes in the midst of whatever an
    earlier one has begun."""
    spaces = random.Random(12)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while runner.process.poll() is None and ask(runner):
        assert time.monotonic() < deadline, runner.said()
        pause_until = time.perf_counter() + spaces.uniform(0, 200e-6)
        while time.perf_counter() < pause_until:
            pass


def ended(runner):
    """Its exit code; nothing of it may be left."""
    code = runner.process.wait(STOP_TIMEOUT_S)
    runner.process = None
    wait_until(lambda: not runner.left(), STOP_TIMEOUT_S, f"nothing left: {runner.left()}")
    assert runner.no_node_is_left()
    return code


@pytest.mark.parametrize("asking", [ask_twice_at_once, ask_all_the_time])
@pytest.mark.parametrize("phase", PHASES)
def test_signals_of_a_group_stop_it(make_runner, phase, asking):
    runner = make_runner(3)
    runner.start(until=PHASES[phase])
    asking(runner)
    code = ended(runner)
    if phase == "beginning":  # before it has a handler the default is as good: nothing runs yet
        assert code in (0, *(-number for number in ASKING)), runner.said()
    else:
        assert code == 0, runner.said()
        assert runner.said().endswith("run: stopped\n")


@pytest.mark.parametrize("asking", [ask_twice_at_once, ask_all_the_time])
def test_signals_while_it_stops_change_nothing(make_runner, asking):
    runner = make_runner(3)
    runner.start()
    runner.process.terminate()
    runner.wait_says("stopping 3 nodes")
    asking(runner)
    assert ended(runner) == 0, runner.said()
    assert runner.said().endswith("run: stopped\n")


def test_a_hangup_does_not_end_a_node_that_begins(make_runner, tmp_path):
    """The node's program is run with SIGHUP blocked, and with nothing else that asks to stop."""
    seen = tmp_path / "seen"
    program = tmp_path / "leafd"
    program.write_text(f"#!{sys.executable}\nimport os, shutil, sys\n"
                       f"shutil.copy('/proc/self/status', {str(seen)!r})\n"
                       f"os.execv({leafd_path()!r}, [{leafd_path()!r}, *sys.argv[1:]])\n")
    program.chmod(0o755)
    runner = make_runner(1)
    command = [str(program) if word == leafd_path() else word for word in runner.command()]
    runner.start(command=command)
    blocked = re.search(r"^SigBlk:\t(.*)$", seen.read_text(), re.M)[1]
    assert int(blocked, 16) == 1 << (signal.SIGHUP - 1)
    assert runner.stop(signal.SIGHUP) == 0
    assert runner.said().endswith("run: stopped\n")


def test_signals_of_a_group_with_make(make_runner, tmp_path):
    """As `make run` has it: make gets them too, passes them on and goes, and the kernel sends one
    more for its parent's end."""
    runner = make_runner(3)
    recipe = f"run:\n\t@exec setpriv --pdeathsig TERM {shlex.join(runner.command())}\n"
    (tmp_path / "Makefile").write_text(recipe)
    runner.start(command=["make", "-C", str(tmp_path), "run"])
    ask_twice_at_once(runner)
    ended(runner)
    assert "run: stopped\n" in runner.said()
