"""What each signal does to a node: all that the system has, sent to real processes.

The table in docs/operations.md is what is tested: a signal that is in none of its rows fails, and
so does one that does not do what its row says.
"""

import contextlib
import itertools
import os
import random
import re
import resource
import signal
import subprocess
import time

import pytest

from cluster import FAST
from node import ROOT, take
from wait import wait_until

TABLE = os.path.join(ROOT, "docs", "operations.md")
REAL_TIME = "real-time signals"
# How a row's text begins, and what the tests call its signals.
ROWS = {"Stops it": "stops", "Reads": "reads", "Logged": "told", "Ignored.": "ignored",
        "Paused until": "pauses", "Ends it": "ends"}


def documented():
    """{name: group} from the table."""
    with open(TABLE, encoding="utf-8") as page:
        section = page.read().split("\n## Signals\n")[1].split("\n## ")[0]
    groups = {}
    for names, text in re.findall(r"^\| (`SIG[^|]*) \| (.*) \|$", section, re.MULTILINE):
        group = next(group for words, group in ROWS.items() if text.startswith(words))
        for name in re.findall(r"SIG[A-Z0-9]+", names) + [REAL_TIME] * (REAL_TIME in names):
            assert name not in groups, name
            groups[name] = group
    return groups


GROUPS = documented()


def number_of(name):
    return signal.SIGRTMIN + 1 if name == REAL_TIME else signal.Signals[name]


def of_group(*wanted):
    return sorted(name for name, group in GROUPS.items() if group in wanted)


HARMLESS = of_group("reads", "told", "ignored")


@pytest.fixture
def lone(make_cluster):
    """A cluster of one node."""

    def make(**settings):
        return make_cluster(1, {**FAST, **settings})

    return make


def told(node, name):
    return len(re.findall(f'msg="(this signal does nothing|reading the settings again)" '
                          f'signal={name} ', node.log()))  # fmt: skip


def test_every_signal_is_documented():
    known = {name for name in signal.Signals.__members__ if "RTM" not in name}
    known -= {"SIGCLD", "SIGIOT", "SIGIO"}  # second names of SIGCHLD, SIGABRT and SIGPOLL
    assert known == set(GROUPS) - {REAL_TIME}
    assert set(GROUPS.values()) == set(ROWS.values())


@pytest.mark.parametrize("name", HARMLESS)
def test_signal_that_stops_nothing(lone, tag, name):
    """Nothing is burnt by it: the next id is the next one. Nor by the same one again."""
    node = lone().nodes[0]
    node.http("PUT", f"/api/tags/{tag}", {})
    last = take(node, tag)
    for count in range(1, 4):
        node.process.send_signal(number_of(name))
        if name in of_group("reads", "told"):
            wait_until(lambda: told(node, name) == count, 10, f"{count} lines of {name}")
        first, last = last, take(node, tag)
        assert last == first + 1
    if name in of_group("ignored"):
        assert told(node, name) == 0
    node.stop()


@pytest.mark.parametrize("name", of_group("reads", "told"))
def test_told_with_its_sender(lone, name):
    node = lone().nodes[0]
    node.process.send_signal(number_of(name))
    node.wait_log(f"signal={name} sender_pid={os.getpid()}\\b")


def write_config(node, text):
    """The node's own settings stay flags; these are read from a file."""
    path = os.path.join(node.directory, "leafd.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def reload(node, text):
    """Change the file, send SIGHUP; the lines of the log that came of it."""
    write_config(node, text)
    before = len(node.log())
    seen = len(re.findall("reading the settings", node.log()))
    node.process.send_signal(signal.SIGHUP)
    told_of = re.compile(r'msg="(reloaded|the reload was refused.*)" .*\n')
    wait_until(lambda: told_of.search(node.log()[before:]), 10, f"reload {seen + 1}")
    return node.log()[before:]


def test_settings_are_read_again(make_cluster, tag):
    """What may change does, the rest is named; nothing is burnt, and no connection is lost."""
    cluster = make_cluster(1, FAST, start=False)
    node = cluster.nodes[0]
    node.settings["config"] = write_config(node, "log.level = warn\n")
    node.start().wait_ready()
    node.http("PUT", f"/api/tags/{tag}", {})
    last = take(node, tag)
    said = reload(node, "log.level = debug\n")
    assert 'changed="log.level = debug (was warn)"' in said
    said = reload(node, "log.level = debug\nhttp.idle-ms = 77\n")
    assert "changed=nothing" in said
    node.wait_log('take a restart" settings="http.idle-ms"')
    node.expect_log("the reload was refused")
    said = reload(node, "log.level = debug\nhttp.idle-ms = 0\n")
    assert "leafd.conf:2: http.idle-ms" in said
    os.unlink(node.settings["config"])
    os.mkfifo(node.settings["config"])
    node.process.send_signal(signal.SIGHUP)
    node.wait_log("leafd.conf: is not a regular file")
    assert take(node, tag) == last + 1
    metrics = node.get("/metrics").body.decode()
    assert 'leafd_reloads_total{result="done"} 2\n' in metrics
    assert 'leafd_reloads_total{result="refused"} 2\n' in metrics
    stamp = float(re.search(r"^leafd_reload_timestamp_seconds (\S+)$", metrics, re.MULTILINE)[1])
    assert abs(time.time() - stamp) < 60
    node.stop()


def send_all(process):
    """All that stop nothing, those that a terminal or a supervisor sends to the process group; True
    once the process has ended."""
    for name in HARMLESS:
        if process.poll() is not None:
            return True
        send = os.kill if name in of_group("ignored") else os.killpg
        send(process.pid, number_of(name))
    return process.poll() is not None


def own_group(node):
    """In a process group of its own, with the child that checks the data at each start."""
    node.prefix = ["setsid"]


def spin(condition, what):
    """As wait_until, without a pause: a phase of the node may be over in some milliseconds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what


def test_signals_while_it_starts_and_stops(make_cluster, tag):
    """From its first line of the log to its last: it starts, serves, and ends with exit code 0."""
    cluster = make_cluster(1, {**FAST, "shutdown-delay-ms": 500}, start=False)
    node = cluster.nodes[0]
    own_group(node)
    for _ in range(3):
        seen = len(node.log())
        node.start()
        spin(lambda: 'msg="starting"' in node.log()[seen:], "its first line")
        spin(lambda: send_all(node.process) or 'msg="started"' in node.log()[seen:], "started")
        node.wait_ready()
        assert told(node, "SIGUSR2") > 0
        node.leaving()
        node.process.terminate()
        spin(lambda: send_all(node.process), "its end")
        assert node.wait_exit() == 0, node.log_tail()
        assert 'msg="stopped"' in node.log()[seen:]


@pytest.mark.parametrize("name", of_group("stops"))
def test_group_is_stopped_while_it_starts(make_cluster, name):
    """It stops when it has started, and no part of it takes the signal for a fault of the data."""
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[0]
    own_group(node)
    node.start().wait_ready()
    node.stop()
    pauses = random.Random(12)
    for _ in range(20):
        seen = len(node.log())
        node.start()
        spin(lambda: 'msg="starting"' in node.log()[seen:], "its first line")
        until = time.perf_counter() + pauses.uniform(0, 0.008)
        spin(lambda: time.perf_counter() > until, "a pause")
        node.leaving()
        os.killpg(node.process.pid, number_of(name))
        # Before it has a handler it ends, with nothing begun.
        assert node.wait_exit() in (0, -number_of(name)), node.log()[seen:]
        assert "level=error" not in node.log()[seen:]


def test_signals_that_its_parent_blocked(make_cluster, tag):
    """Some supervisors block all signals, and what they start inherits that: a node hears them."""
    cluster = make_cluster(1, FAST, start=False)
    node, = cluster.nodes
    node.prefix = ["env", "--block-signal"]
    cluster.start().create_tag(tag)
    assert take(node, tag)
    node.stop()


@pytest.mark.parametrize("name", of_group("stops"))
def test_signal_that_stops_in_order(lone, tag, name):
    node = lone(**{"shutdown-delay-ms": 20_000}).nodes[0]
    node.leaving()
    node.process.send_signal(number_of(name))
    node.wait_log(f'msg="stopping" signal={name}')
    node.process.send_signal(number_of(name))
    assert node.wait_exit() == 80
    node.settings["shutdown-delay-ms"] = 0
    node.start().wait_ready()
    node.leaving()
    node.process.send_signal(number_of(name))
    assert node.wait_exit() == 0


@pytest.mark.parametrize("name", of_group("ends"))
def test_signal_that_ends_it_at_once(lone, tag, name):
    """As a kill: what was acknowledged is there, and ids go on above."""
    node = lone().nodes[0]
    resource.prlimit(node.process.pid, resource.RLIMIT_CORE, (0, 0))
    node.http("PUT", f"/api/tags/{tag}", {})
    last = take(node, tag)
    node.expect_log("AddressSanitizer|ThreadSanitizer")  # which report such an end
    node.leaving()
    node.process.send_signal(number_of(name))
    code = node.wait_exit()
    assert code == -number_of(name) or "Sanitizer" in node.log(), (name, code)
    assert 'msg="stopping"' not in node.log()
    node.start().wait_ready()
    assert take(node, tag) > last


@pytest.mark.parametrize("name", of_group("pauses"))
def test_signal_that_pauses(lone, tag, name):
    """SIGCONT ends it. (The system drops all but SIGSTOP in a process group that nobody leads.)"""
    node = lone().nodes[0]
    node.http("PUT", f"/api/tags/{tag}", {})
    last = take(node, tag)
    node.process.send_signal(number_of(name))
    if name == "SIGSTOP":
        wait_until(lambda: os.waitid(os.P_PID, node.process.pid, os.WSTOPPED | os.WNOWAIT), 10,
                   "it stands still")  # fmt: skip
    node.resume()
    assert take(node, tag) == last + 1
    node.stop()


def test_terminal_that_closes(lone, tag):
    """A node in the foreground of a terminal outlives it: it gets SIGHUP, and from then on its log
    has nowhere to go."""
    node = lone().nodes[0]
    node.http("PUT", f"/api/tags/{tag}", {})
    node.stop()
    script = (
        "import os, pty, sys, time\n"
        "pid, terminal = pty.fork()\n"
        "if pid == 0:\n"
        "    os.execvp(sys.argv[1], sys.argv[1:])\n"
        "print(pid, flush=True)\n"
        "while os.read(terminal, 4096).find(b'\"started\"') < 0:\n"
        "    pass\n"
        "os.close(terminal)\n"
        "print('closed', flush=True)\n"
        "sys.stdin.read()\n"  # its end ends the node: setpriv sees to that
    )
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", script, *node.command_line()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as host:  # fmt: skip
        pid = int(host.stdout.readline())
        assert host.stdout.readline() == "closed\n"
        last = take(node, tag)
        os.kill(pid, signal.SIGHUP)
        assert take(node, tag) == last + 1
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not node.serves(), 20, "it stops")
        host.stdin.close()


def test_file_that_may_grow_no_more(lone, tag):
    """RLIMIT_FSIZE is as a full disk: changes are refused before a write fails, the alarm names it,
    and they go on once it is raised. SIGXFSZ is ignored, so that a write that fails is told."""
    node = lone().nodes[0]
    node.http("PUT", f"/api/tags/{tag}", {})
    last = take(node, tag)
    path = os.path.join(node.data_dir, "db", "data.mdb")
    numbers = itertools.count()

    def limit(most):
        resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    def put():
        return node.http("PUT", f"/api/tags/{tag}.{next(numbers)}", {"description": "x" * 200})

    limit(os.path.getsize(path) + (32 << 20))
    answer = wait_until(lambda: (a := put()).status != 201 and a, 30, "a refusal")
    assert (answer.status, answer.json()["code"]) == (503, "disk_full"), answer
    assert take(node, tag) == last + 1
    said = wait_until(lambda: [a["text"] for a in node.get_json("/api/status")["alarms"]
                               if a["name"] == "LeafdDiskLow"], 30, "the alarm")  # fmt: skip
    assert "the room within RLIMIT_FSIZE of node 1 is nearly full" in said[0], said
    limit(resource.RLIM_INFINITY)
    wait_until(lambda: put().status == 201, 30, "a change")
    node.expect_log("the node cannot go on")
    node.leaving()
    limit(os.path.getsize(path) // 2)
    with contextlib.suppress(OSError):  # it ends, and no answer comes
        for _ in range(2000):
            put()
    assert node.wait_exit() == 74, node.log_tail()
    assert 'msg="the node cannot go on" err=disk_full' in node.log(), node.log_tail()
