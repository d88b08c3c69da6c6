"""Clients under load: threads that take ids from one node each, and check every answer.

A client keeps a connection, sends a pipeline of requests, and gives every id to the history. What
it may see is narrow: an answer that is not 200 is a fault, and so is a connection that breaks,
unless the test has killed or stopped that node or is about to (node.serving is false, or it was
started anew since the connection was made). Then the client waits for the node to be back and goes
on.

Each client has a rate of ids a second, so that a run is paced by time and not by the machine.
"""

import threading
import time

from client import Connection, ProtocolError, get_bytes, parse_ids, tag_path
from wait import wait_until

CLIENT_TIMEOUT_S = 30.0


class LoadClient(threading.Thread):
    lost = OSError  # what a connection raises when its node ends

    def __init__(self, load, name, node, count, wire_format, depth, rate, timeout_ms):
        super().__init__(name=name, daemon=True)
        self.load = load
        self.node = node
        self.count = count
        self.wire_format = wire_format
        self.depth = depth
        self.rate = rate
        self.track = load.history.track(name, node.id, load.tag)
        options = []
        if wire_format != "plain":
            options += [f"count={count}", f"format={wire_format}"]
        if timeout_ms is not None:
            options.append(f"timeout_ms={timeout_ms}")
        target = f"/api/segment/get/{tag_path(load.tag)}?{'&'.join(options)}".rstrip("?")
        self.request = get_bytes(target) * depth
        self.fault = None
        self.reconnects = 0
        self.longest_s = 0.0

    def run(self):
        try:
            while not self.load.stopping.is_set():
                self.serve_one_connection()
        except Exception as error:  # told by Load.finish()
            self.fault = f"client {self.name} on {self.node}: {error!r}"
            self.load.failed.set()

    def connect(self):
        return Connection(self.node.address, CLIENT_TIMEOUT_S)

    def serve_one_connection(self):
        node = self.node
        if not self.wait_for_node():
            return
        incarnation = node.incarnation
        try:
            with self.connect() as connection:
                self.take_ids(connection)
        except self.lost:
            if node.serving and node.incarnation == incarnation:
                raise
            self.reconnects += 1

    def wait_for_node(self):
        """Until the test has the node up again. False when the run is over."""
        while not self.node.serving:
            if self.load.stopping.wait(0.01):
                return False
        return True

    def take_ids(self, connection):
        due = time.monotonic()
        step = self.count * self.depth / self.rate
        while not self.load.stopping.is_set():
            before = time.monotonic()
            self.take_some(connection)
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - before)
            due = max(due + step, now - 1.0)
            if due > now:
                self.load.stopping.wait(due - now)

    def take_some(self, connection):
        """As many requests as are sent at once."""
        sent_ns = time.monotonic_ns()
        connection.send(self.request)
        for _ in range(self.depth):
            response = connection.read_response()
            response.sent_ns = sent_ns
            self.take_answer(response)

    def take_answer(self, response):
        if response.status != 200:
            raise ProtocolError(f"status {response.status}: {response.body[:300]!r}")
        for first, last in self.parse(response):
            self.track.add(first, last, response)

    def parse(self, response):
        return parse_ids(response, self.wire_format, self.count)


class Load:
    """A set of clients on one tag. Use as a context manager; finish() checks everything."""

    client_class = LoadClient

    def __init__(self, history, tag):
        self.history = history
        self.tag = tag
        self.stopping = threading.Event()
        self.failed = threading.Event()
        self.clients = []

    def add(self, node, count=1, wire_format="plain", depth=1, rate=1000.0, timeout_ms=None):
        name = f"c{len(self.history.tracks)}"
        client = self.client_class(self, name, node, count, wire_format, depth, rate, timeout_ms)
        self.clients.append(client)
        return client

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.stopping.set()
        for client in self.clients:
            client.join(CLIENT_TIMEOUT_S + 5)

    def taken(self):
        return sum(client.track.count for client in self.clients)

    def check_running(self):
        """Fail at once when a client has failed."""
        if self.failed.is_set():
            raise RuntimeError("; ".join(c.fault for c in self.clients if c.fault))

    def finish(self):
        """Stop, and fail on any client's fault and on any violation of the whole history."""
        self.stop()
        hanging = [client.name for client in self.clients if client.is_alive()]
        assert not hanging, f"clients hang: {hanging}"
        self.check_running()
        return self.history.check()


def mixed_load(cluster, history, tag, rate=8000.0):
    """Eight clients over all nodes: single ids pipelined, and batches in each format."""
    kinds = [
        (1, "plain", 32, rate / 2),
        (100, "text", 1, rate),
        (1000, "range", 1, rate),
        (1, "plain", 16, rate / 2),
        (1000, "json", 1, rate),
        (100, "range", 4, rate),
        (1000, "text", 1, rate),
        (1, "text", 8, rate / 2),
    ]
    load = Load(history, tag)
    for number, (count, wire_format, depth, client_rate) in enumerate(kinds):
        node = cluster.nodes[number % len(cluster.nodes)]
        load.add(node, count, wire_format, depth, client_rate)
    return load


def wait_taken(load, more, timeout=30.0):
    """Until the clients took so many ids more."""
    target = load.taken() + more

    def enough():
        load.check_running()
        return load.taken() >= target

    wait_until(enough, timeout, f"{more} more ids")


def wait_all_serve(load, timeout=15.0):
    """Until each client of a living node has been given ids again."""
    before = {client: client.track.count for client in load.clients}

    def served():
        load.check_running()
        return all(c.track.count > n for c, n in before.items() if c.node.serving)

    wait_until(served, timeout, "ids for all clients of living nodes")
