"""What an attacker does, and what must hold meanwhile: nodes bounded in memory, a client that only
wants an id now and then, and connections that misbehave.

    cluster = bounded(make_cluster, ...)        # 512 MiB a node, as in docker-compose.yml
    with Quiet(cluster, tag) as quiet:          # asks every node, all the time
        ... the attack ...
        quiet.wait_more()                       # each node went on
    check_peaks(cluster)                        # and none came near its bound
"""

import contextlib
import os
import re
import resource
import socket
import threading
import time

from client import Connection, ConnectionLost
from cluster import FAST
from wait import ran_s, wait_until

MIB = 1 << 20
NODE_BYTES = 512 * MIB
# How slow a single answer to the quiet client may be on a machine that others use as well.
SLOWEST_S = 3.0


def limit_memory(cluster):
    """The nodes get no more than a container of docker-compose.yml would: what they ask for beyond
    it they do not get, and end. (A build with sanitizers needs its address space.)"""
    for node in cluster.nodes:
        if "asan" not in node.binary and "tsan" not in node.binary:
            node.prefix = ["prlimit", f"--data={NODE_BYTES}", *node.prefix]
    return cluster


def bounded(make_cluster, size=1, **settings):
    return limit_memory(make_cluster(size, {**FAST, **settings}, start=False)).start()


def peak_bytes(node):
    """The most that was resident since the start of the process."""
    with open(f"/proc/{node.process.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"^VmHWM:\s+(\d+) kB$", status.read(), re.MULTILINE)[1]) * 1024


def forget_peak(node):
    """The peak counts from now on."""
    with open(f"/proc/{node.process.pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def check_peaks(cluster, limit=NODE_BYTES * 3 // 4):
    for node in cluster.running():
        node.check_running()
        assert peak_bytes(node) < limit, f"{node} had {peak_bytes(node) // MIB} MiB resident"


class Quiet:
    """A client that asks each node for an id, again and again, and must get it."""

    def __init__(self, cluster, tag):
        self.cluster = cluster
        self.target = f"/api/segment/get/{tag}"
        self.taken = {node.id: 0 for node in cluster.nodes}
        self.slowest = 0.0
        self.faults = []
        self.over = threading.Event()
        self.threads = []

    def run(self, node):
        try:
            with node.connect() as connection:
                while not self.over.wait(0.02):
                    begin = ran_s()
                    answer = connection.request("GET", self.target)
                    self.slowest = max(self.slowest, ran_s() - begin)
                    if answer.status != 200:
                        self.faults.append(f"{node}: {answer}")
                    self.taken[node.id] += 1
        except (OSError, ValueError) as error:
            self.faults.append(f"{node}: {error!r}")

    def __enter__(self):
        for node in self.cluster.running():
            self.threads.append(threading.Thread(target=self.run, args=(node,), daemon=True))
            self.threads[-1].start()
        self.wait_more()
        return self

    def wait_more(self, count=10):
        goal = {node.id: self.taken[node.id] + count for node in self.cluster.running()}
        wait_until(
            lambda: self.faults or all(self.taken[key] >= goal[key] for key in goal),
            20,
            "the quiet client is served",
        )
        assert not self.faults, self.faults[:3]

    def __exit__(self, kind, *_):
        self.over.set()
        for thread in self.threads:
            thread.join(30)
        if kind is None:
            assert not self.faults, self.faults[:3]
            assert self.slowest < SLOWEST_S, f"an answer took {self.slowest:.2f} s"


class Held:
    """Connections that are held open, all closed at the end."""

    def __init__(self):
        self.all = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.all:
            connection.close()

    def open(self, address, source=None, receive_bytes=None):
        sock = socket.socket()
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if source is not None:
            sock.bind((source, 0))
        sock.settimeout(15)
        sock.connect(address)
        self.all.append(sock)
        return sock


def more_descriptors(count):
    """This process may open so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def send_until_refused(sock, data, chunk=1 << 16):
    """Send it as far as the other side takes it."""
    view = memoryview(data)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, socket.timeout):
        while view:
            view = view[sock.send(view[:chunk]) :]


def ask_from(source, node, method, target, body=None, headers=None):
    """One request from another address of this machine: another client."""
    sock = socket.create_connection(node.address, timeout=30, source_address=(source, 0))
    connection = Connection.__new__(Connection)
    connection.sock, connection.buffer = sock, b""
    with connection:
        return connection.request(method, target, body, headers)


def answer_to(node, data):
    """All that comes for these bytes: (status or None, body, closed). None: no answer at all."""
    with node.connect() as connection:
        send_until_refused(connection.sock, data)
        try:
            answer = connection.read_response()
        except (ConnectionLost, ConnectionResetError):
            return None
        return answer


def is_closed_within(sock, seconds):
    """The other side ends the connection, whatever it says before."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while time.monotonic() < deadline:
            sock.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                if sock.recv(1 << 16) == b"":
                    return True
            except socket.timeout:
                return False
        return False
    return True


def open_files(node):
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


def put_tag(node, tag, force=False, **fields):
    return node.http("PUT", f"/api/tags/{tag}{'?force=1' if force else ''}", fields)

