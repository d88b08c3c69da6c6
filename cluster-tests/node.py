"""One leafd process: its ports, data directory, log file, life and death.

The happy path: start(), wait_ready(), requests by http(); stop() sends SIGTERM and expects exit
code 0. kill9(), pause() and resume() are the faults. check_log() fails on everything in the log
that no test expects: failed assertions, sanitizer reports, lines of level error. A test that
provokes such a line says so with expect_log().

Call start() on the main thread: the child gets SIGKILL when the thread that started it ends, so
that a killed test run leaves nothing behind.
"""

import contextlib
import functools
import glob
import os
import re
import signal
import subprocess

from client import Connection, ConnectionLost, once
from ports import take_port
from wait import LEAST_S, seen, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
STATUS_TIMEOUT_S = 2.0
NICE = -10  # as root

used = {}  # the nodes that this test has started or asked, in that order

BAD_LOG = re.compile(
    r"assertion failed|AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error|level=error",
    re.IGNORECASE,
)


def leafd_path():
    return os.environ.get("LEAFD") or os.path.join(ROOT, "build", "release", "leafd")


@functools.lru_cache
def knows(binary, flag):
    """Has this leafd, which may be of an earlier level, such a setting?"""
    try:
        return flag in subprocess.run([binary, "--help"], capture_output=True, text=True).stdout
    except OSError:
        return False  # there is none to ask


class Node:
    """A node of a cluster. settings: long options without the dashes, e.g. {"raft-election-ms":
    300}."""

    def __init__(self, node_id, directory, settings):
        self.id = node_id
        self.directory = str(directory)
        self.settings = dict(settings)
        self.prefix = []  # a command in front of leafd's, such as env with its own clock
        self.binary = leafd_path()
        self.tls = None  # an ssl.SSLContext, if its HTTP is over TLS
        self.http_port = take_port()
        self.peer_port = take_port()
        self.data_dir = os.path.join(self.directory, "data")
        self.log_path = os.path.join(self.directory, "log")
        self.members = ""
        self.process = None
        self.alive = False  # started, and not killed or stopped since
        self.serving = False  # alive and ready: its clients may expect an answer to everything
        self.incarnation = 0
        self.log_checked = 0
        self.expected_log = []
        os.makedirs(self.directory, exist_ok=True)

    def __repr__(self):
        return f"node {self.id}"

    @property
    def address(self):
        used[self] = True
        return ("127.0.0.1", self.http_port)

    @property
    def peer_address(self):
        return f"127.0.0.1:{self.peer_port}"

    @property
    def http_address(self):
        return f"127.0.0.1:{self.http_port}"

    def command_line(self):
        options = {
            "node-id": self.id,
            "cluster-members": self.members,
            "data-dir": self.data_dir,
            "http-listen": self.http_address,
        }
        if knows(self.binary, "--admin-listen"):
            # Tests of doors say otherwise; and requests name the host "leafd".
            options.update({"admin-listen": "same", "http-hosts": "leafd"})
        if self.members and "," not in self.members:
            options["cluster-bootstrap"] = "single"
        if os.geteuid() == 0:
            options["user"] = "root"
        options.update(self.settings)
        arguments = [f"--{name}={value}" for name, value in options.items() if value is not None]
        return ["setpriv", "--pdeathsig", "KILL", *self.prefix, self.binary, *arguments]

    def start(self):
        assert self.process is None, f"{self} runs already"
        used[self] = True
        # Settings of the surroundings are not meant for the nodes of a test.
        env = {name: value for name, value in os.environ.items() if not name.startswith("LEAFD_")}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command_line(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env
            )
        # A test asks what leafd does, not how long the tests beside it keep it from the processor.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, NICE)
        self.incarnation += 1
        self.alive = True
        return self

    def wait_ready(self, timeout=START_TIMEOUT_S):
        def ready():
            self.check_running()
            return self.http("GET", "/readyz", timeout=2).status == 200

        wait_until(ready, timeout, f"{self} ready")
        self.serving = True
        return self

    def check_running(self):
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError(f"{self} ended with {self.process.returncode}:\n{self.log_tail()}")

    def leaving(self):
        """To be called before the process is ended: its clients may see that from now on."""
        self.alive = False
        self.serving = False

    def wait_exit(self, timeout=STOP_TIMEOUT_S):
        """Wait until the process ends by itself (or by a signal sent before); its exit code."""
        self.leaving()
        timeout = max(timeout, LEAST_S)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self} did not end in {timeout} s:\n{self.log_tail()}\n{self.threads()}"
            ) from None
        self.process = None
        return code

    def threads(self):
        """What each thread does, a line each, for whoever looks into why a process hangs."""
        lines = []
        for task in sorted(glob.glob(f"/proc/{self.process.pid}/task/*")):
            with contextlib.suppress(OSError):
                texts = {}
                for name in ("comm", "wchan", "syscall"):
                    with open(os.path.join(task, name), encoding="utf-8") as file:
                        texts[name] = file.read().strip()
                lines.append(f"thread {texts['comm']} in {texts['wchan']}: {texts['syscall']}")
        return "\n".join(lines)

    def kill9(self):
        self.leaving()
        self.process.kill()
        self.wait_exit()

    def stop(self, timeout=STOP_TIMEOUT_S):
        """A clean stop: SIGTERM, and exit code 0."""
        self.leaving()
        self.process.send_signal(signal.SIGTERM)
        code = self.wait_exit(timeout)
        assert code == 0, f"{self}: exit code {code} after SIGTERM:\n{self.log_tail()}"

    def restart(self):
        self.kill9()
        return self.start().wait_ready()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        """At the end of a test: gone, whatever its state. Tells if it had died by itself."""
        if self.process is None:
            return None
        code = self.process.poll()
        if code is None:
            self.process.kill()
        self.process.wait()
        self.process = None
        return code

    # --- requests ---

    def http(self, method, target, body=None, headers=None, timeout=30.0):
        answer = once(self.address, method, target, body, headers, timeout, self.tls)
        seen(f"{self} {method} {target}: {answer}")
        return answer

    def get(self, target, timeout=30.0):
        return self.http("GET", target, timeout=timeout)

    def get_json(self, target):
        response = self.get(target)
        assert response.status == 200, f"{self} GET {target}: {response}"
        return response.json()

    def connect(self, timeout=30.0):
        return Connection(self.address, timeout, self.tls)

    def cluster_status(self):
        return self.get_json("/api/cluster")

    def sees_no_leader(self):
        return self.cluster_status()["leader_id"] is None

    def serves(self):
        """True if the process answers /livez."""
        try:
            return self.get("/livez", timeout=2).status == 200
        except (ConnectionLost, OSError):
            return False

    # --- the log ---

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as log:
                return log.read()
        except FileNotFoundError:
            return ""

    def log_tail(self, lines=30):
        return "\n".join(self.log().splitlines()[-lines:])

    def state(self, lines):
        """For the report of a test that failed: what it says of itself, and its last log lines."""
        try:
            status = self.http("GET", "/api/status", timeout=STATUS_TIMEOUT_S)
            told = f"/api/status: {status.status} {status.text}"
        except Exception as error:  # whatever it is: the failure itself is what counts
            told = f"/api/status: {error!r}"
        return f"{told}\n{self.log_path}:\n{self.log_tail(lines)}"

    def wait_log(self, pattern, timeout=30.0, start=0):
        """Wait for a line that matches; start: the size of log() before."""

        def logged():
            text = self.log()[start:]
            seen(f"{self} logged last: {text.splitlines()[-1:]}")
            return re.search(pattern, text)

        return wait_until(logged, timeout, f"{self} logs {pattern!r}")

    def expect_log(self, pattern):
        """Lines that match are no fault from now on."""
        self.expected_log.append(re.compile(pattern))

    def bad_log_lines(self):
        """Lines since the last call that no test expects."""
        text = self.log()
        fresh, self.log_checked = text[self.log_checked :], len(text)
        return [
            line
            for line in fresh.splitlines()
            if BAD_LOG.search(line) and not any(p.search(line) for p in self.expected_log)
        ]


def take(node, tag):
    """One id of the tag."""
    answer = node.get(f"/api/segment/get/{tag}")
    assert answer.status == 200, f"{node}: {answer}"
    return int(answer.body)
