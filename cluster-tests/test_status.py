"""What an operator sees of a node: GET /api/status, /api/events and /api/live."""

import json
import os
import re
import socket
import time

import pytest

from client import Connection, get_bytes
from cluster import FAST
from test_listeners import Tokens
from wait import wait_until


def status(node):
    return node.get_json("/api/status")


def alarm_names(node):
    return [alarm["name"] for alarm in status(node)["alarms"]]


class Live:
    """A viewer of /api/live; its events as (name, parsed data)."""

    def __init__(self, node, headers=None):
        self.connection = Connection(node.address)
        head = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.connection.send(get_bytes("/api/live")[:-2].replace(b"leafd", b"127.0.0.1")
                             + head.encode() + b"\r\n")
        while b"\r\n\r\n" not in self.connection.buffer:
            self.connection.fill()
        self.head, _, self.connection.buffer = self.connection.buffer.partition(b"\r\n\r\n")
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def chunk(self):
        """The next chunk; None at the end of the stream."""
        while b"\r\n" not in self.connection.buffer:
            self.connection.fill()
        line, self.connection.buffer = self.connection.buffer.split(b"\r\n", 1)
        data = self.connection.take(int(line, 16))
        assert self.connection.take(2) == b"\r\n"
        return data.decode() if data else None

    def next(self):
        """The next event, or None at the end."""
        while True:
            while "\n\n" not in self.text:
                chunk = self.chunk()
                if chunk is None:
                    return None
                self.text += chunk
            block, _, self.text = self.text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.split("\n"))
            if "data" in fields:
                return fields["event"], json.loads(fields["data"])


def test_alarms_are_alerts():
    """Each alarm has the name of an alert for Prometheus, and its severity."""
    root = os.path.join(os.path.dirname(__file__), "..")
    with open(os.path.join(root, "http/watch/alarms.def"), encoding="utf-8") as file:
        alarms = re.findall(r'^ALARM\(\w+, "(Leafd\w+)", "(\w+)"', file.read(), re.MULTILINE)
    with open(os.path.join(root, "scripts/compose/rules.yml"), encoding="utf-8") as file:
        rules = file.read()
    alerts = re.findall(r"alert: (\w+)\n.*?severity: (\w+)", rules, re.DOTALL)
    assert alarms and set(alarms) <= set(alerts)


def test_status(shared):
    """All that GET /api/cluster says, with what is known of each member."""
    shared.wait_applied()
    leader = shared.leader()
    cluster = leader.cluster_status()
    seen = status(leader)
    for field in ("cluster_id", "uid", "node_id", "leader_id", "term", "level", "change"):
        assert seen[field] == cluster[field]
    assert [m["id"] for m in seen["members"]] == [m["id"] for m in cluster["members"]]
    assert seen["quorum"] == {
        "needed": 2, "reachable": 3, "survives_next_failure": True,
        "text": "3 of 3 voters can be reached: 1 more may fail"}
    assert seen["memory"]["state_bytes"] >= 0
    assert seen["uptime_s"] >= 0 and seen["version"]
    for field in ("disk", "memory", "certificates", "commit"):
        assert field in seen

    def all_known():
        members = [m for m in status(leader)["members"] if m["id"] != leader.id]
        return all(m["lag"] is not None and m["clock_offset_ms"] is not None
                   and m["last_heard_ms"] is not None for m in members)

    wait_until(all_known, 15, "lag and clocks of all members")


def test_follower_knows_lags(shared):
    """A follower knows of the others what they tell of their disks."""
    follower = shared.followers()[0]

    def small():
        return all(m["lag"] is not None and m["lag"] < 1000 for m in status(follower)["members"])

    wait_until(small, 15, "lags at a follower")


def test_a_node_that_dies(make_cluster):
    """It is an alarm and two events at the others, and over when it comes back."""
    cluster = make_cluster(3, FAST)
    leader = cluster.leader()
    watcher = cluster.followers()[0]
    wait_until(lambda: watcher.get_json("/api/events")["events"], 15, "the first look")
    wait_until(lambda: not alarm_names(watcher), 15, "links to all")
    leader.kill9()

    def down():
        seen = status(watcher)
        return next(((seen, alarm) for alarm in seen["alarms"] if alarm["name"] == "LeafdNodeDown"),
                    None)

    seen, alarm = wait_until(down, 15, "an alarm")
    assert f"node {leader.id} (" in alarm["text"] and alarm["severity"] == "critical"
    assert alarm["do"] and alarm["since"].endswith("Z")
    assert seen["quorum"]["survives_next_failure"] is False
    cluster.wait_leader()

    def events():
        return watcher.get_json("/api/events")["events"]

    wait_until(lambda: {"link", "election", "alarm"} <= {event["kind"] for event in events()}, 15,
               "events of a dead leader")
    leader.start().wait_ready()
    # That no leader was known may have been an alarm of its own, which is over before.
    wait_until(lambda: any(event["kind"] == "alarm_over" and "LeafdNodeDown" in event["text"]
                           for event in events()), 15, "the end of the alarm")
    wait_until(lambda: "LeafdNodeDown" not in alarm_names(watcher), 15, "no alarm")


def test_live(make_cluster):
    """A picture a second, with the events that came meanwhile; a stop ends it in order."""
    cluster = make_cluster(1, FAST)
    node = cluster.nodes[0]
    with Live(node) as live, Live(node) as other:
        assert b"\r\nContent-Type: text/event-stream\r\n" in live.head + b"\r\n"
        name, first = live.next()
        assert name == "status" and first["node_id"] == 1
        assert other.next()[0] == "status"
        node.process.terminate()
        while live.next() is not None:
            pass
    assert node.wait_exit() == 0


def test_viewers_are_bounded(make_cluster):
    cluster = make_cluster(1, {**FAST, "http-loops": 1})
    node = cluster.nodes[0]
    viewers = [Live(node) for _ in range(64)]
    answer = node.get("/api/live")
    assert (answer.status, answer.code) == (503, "overloaded")
    viewers.pop().connection.close()

    def another():
        with Live(node) as viewer:
            return b" 200 " in viewer.head.split(b"\r\n")[0]

    wait_until(another, 10, "a place that is free again")
    for viewer in viewers:
        viewer.connection.close()


# Shows attack-tenant.
def test_viewers_have_shares(make_cluster, tmp_path):
    """One tenant takes all places that it gets: another one finds some, the first no more."""
    tokens = Tokens(tmp_path / "tokens")
    for name in ("greedy", "modest"):
        tokens.add(name, "roles=read,health")
    tokens.write()
    node = make_cluster(1, {**FAST, "http-loops": 1, "auth-tokens-file": tokens.path,
                            "admin-listen": "same"}).nodes[0]
    viewers = []

    def watch(name):
        viewers.append(Live(node, tokens.bearer(name)))
        return int(viewers[-1].head.split()[1])

    assert [watch("greedy") for _ in range(50)] == [200] * 48 + [503] * 2
    assert b"more than its share" in viewers[-1].connection.buffer
    assert [watch("modest") for _ in range(17)] == [200] * 16 + [503]
    for viewer in viewers:
        viewer.connection.close()
    wait_until(lambda: watch("greedy") == 200, 10, "places are free again")
    viewers[-1].connection.close()


def blind_viewer(node):
    """One that asks to watch and never reads; its own system keeps little for it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.connect(node.address)
    sock.sendall(b"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return sock


def kernel_keeps(node):
    """Bytes that the system keeps for the node's clients, of each connection that has some."""
    port = f"{node.address[1]:04X}"
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    queues = [int(row[4].split(":")[0], 16) for row in rows if row[1].endswith(f":{port}")]
    return [queue for queue in queues if queue > 0]


@pytest.mark.bound(120)
def test_viewers_that_never_read_cost_little_and_are_cut_off(make_cluster):
    cluster = make_cluster(3, {**FAST, "http-loops": 1, "http-idle-ms": 1000})
    node = cluster.nodes[0]
    blind = [blind_viewer(node) for _ in range(63)]
    with Live(node) as live:
        most = kernel = 0
        pictures = 0

        def all_cut_off():
            nonlocal most, kernel, pictures
            pictures += live.next()[0] == "status"
            metrics = node.get("/metrics").text
            most = max(most, int(re.search(r"^leafd_http_output_bytes (\d+)$", metrics, re.M)[1]))
            kernel = max([kernel, *kernel_keeps(node)])
            # This one's, and that of who asks for the metrics.
            return int(re.search(r"^leafd_connections (\d+)$", metrics, re.M)[1]) <= 2

        wait_until(all_cut_off, 60, "blind viewers are cut off")
        # One that reads has pictures all the time, and goes on.
        wait_until(lambda: all_cut_off() and pictures >= 5, 30, "more pictures")
    assert most <= 64 * 3 * 4096, "no more than a picture is kept for each"
    assert 0 < kernel <= 2 * 16384, "and no more than that by the system"
    for sock in blind:
        sock.close()


def processor_s(node):
    """Seconds of a core that its threads have had."""
    total = 0
    for task in os.listdir(f"/proc/{node.process.pid}/task"):
        with open(f"/proc/{node.process.pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def take_pictures(viewers, count):
    """Each viewer takes so many; seconds that took, on the clock of the first."""
    start = time.monotonic()
    for _ in range(count):
        for viewer in viewers:
            while viewer.next()[0] != "status":
                pass
    return time.monotonic() - start


@pytest.mark.alone
def test_fifty_viewers_cost_little(make_cluster):
    """At most a hundredth of a core, with TCP and all: the same bytes go to all of them."""
    cluster = make_cluster(1, FAST)
    node = cluster.nodes[0]
    with Live(node) as one:
        take_pictures([one], 1)
        before = processor_s(node)
        taken = take_pictures([one], 3)
        alone = (processor_s(node) - before) / taken
    viewers = [Live(node) for _ in range(50)]
    take_pictures(viewers, 1)
    before = processor_s(node)
    taken = take_pictures(viewers, 3)
    watched = (processor_s(node) - before) / taken
    for viewer in viewers:
        viewer.connection.close()
    assert watched - alone <= 0.01, f"{alone:.4f} of a core with one viewer, {watched:.4f} with 50"
