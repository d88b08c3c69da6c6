"""Clients of strict tags under load: threads that ask one node each, one request at a time, and
record every operation with its times on one clock.

A client may see little but ids: an answer that is not 200 is a fault, and so is a connection that
breaks, unless the test has killed or stopped that node (node.serving is false, or it was started
anew since the connection was made) or has said what the clients of that node may be told
(StrictLoad.may_refuse). What was asked then has an unknown outcome: its ids may have been burnt.

A keyed client gives each request an Idempotency-Key of its own and repeats it, at the next node,
until it has its ids: so not one of its ids is missing in the end.

    recorder = Recorder(tmp_path / "history")           # strict_history
    recorder.declare("orders", "strict", start=1)
    load = StrictLoad(recorder)
    load.add(node, "orders", counts=(1, 10), rate=50)
    with load:
        ... faults ...
        load.wait_all_served()
        verdict = load.finish()                         # fails on any fault or violation

Axes takes the place of the recorder where a tag changes its mode during the run.
"""

import collections
import random
import threading
import time

from client import Connection, ConnectionLost, ProtocolError, parse_ids, tag_path
from strict_history import Recorder
from wait import ran_s, wait_until

CLIENT_TIMEOUT_S = 30.0
FINISH_TIMEOUT_S = 60.0
AGAIN_S = 0.01

# Errors that say that no ids were allocated. All others of a cluster may come although the command
# was applied, or will be.
NOTHING_ALLOCATED = {"mode_changing", "idempotency_full"}

Wanted = collections.namedtuple("Wanted", "tag count wire_format key")


def target(tag, count=1, wire_format="plain", timeout_ms=None):
    options = []
    if wire_format != "plain":
        options += [f"count={count}", f"format={wire_format}"]
    if timeout_ms is not None:
        options.append(f"timeout_ms={timeout_ms}")
    return f"/api/segment/get/{tag_path(tag)}?{'&'.join(options)}".rstrip("?")


def key_header(key):
    return {} if key is None else {"Idempotency-Key": key}


def ask(node, tag, count=1, wire_format="range", key=None, timeout_ms=None, timeout=30.0):
    """The answer to one request, whatever it is, on a connection of its own."""
    return node.http(
        "GET", target(tag, count, wire_format, timeout_ms), headers=key_header(key), timeout=timeout
    )


def take(node, tag, count=1, key=None, timeout_ms=None):
    """(first, last) of one request, which must be answered with one range."""
    answer = ask(node, tag, count, "range", key, timeout_ms)
    assert answer.status == 200, f"{node}: {answer}"
    ranges = parse_ids(answer, "range", count)
    assert len(ranges) == 1, f"{node}: {ranges}"
    return ranges[0]


def take_operation(client, node, tag, count=1, key=None, timeout_ms=None):
    """The same, recorded by a client of a recorder."""
    with client.operation(tag, count, key) as operation:
        got = take(node, tag, count, key, timeout_ms)
        operation.answered([got])
    return got


class StrictClient(threading.Thread):
    """A client of one node; how it asks is drawn from what it was given, by its name."""

    def __init__(self, load, name, node, tags, counts, formats, rate, timeout_ms, keyed):
        super().__init__(name=name, daemon=True)
        self.load = load
        self.node = node
        self.tags = tags
        self.counts = counts
        self.formats = formats
        self.period_s = 1.0 / rate
        self.timeout_ms = timeout_ms
        self.keyed = keyed
        self.source = random.Random(name)
        self.record = load.recorder.client(name)
        self.connection = None
        self.connected_to = (None, 0)
        self.serial = 0
        self.answers = 0
        self.lost = 0  # connections that broke with a request under way
        self.reconnects = 0  # to a node that was started again
        self.refusals = collections.Counter()
        self.longest_s = 0.0
        self.fault = None

    def run(self):
        try:
            self.ask_until_stopped()
        except Exception as error:  # told by StrictLoad.finish()
            self.fault = f"client {self.name} of {self.node}: {error!r}"
            self.load.failed.set()
        finally:
            self.drop()

    def ask_until_stopped(self):
        due = time.monotonic() + self.source.random() * self.period_s
        while not self.load.stopping.wait(max(0.0, due - time.monotonic())):
            self.serial += 1
            self.one_request()
            now = time.monotonic()
            due = max(due + self.period_s, now - 1.0)

    def one_request(self):
        draw = self.source.choice
        wire_format = draw(self.formats)
        count = 1 if wire_format == "plain" else draw(self.counts)
        key = f"{self.name}.{self.serial}" if self.keyed else None
        wanted = Wanted(draw(self.tags), count, wire_format, key)
        node = self.node
        while not self.attempt(node, wanted):
            if not self.keyed:
                return
            node = self.next_node(node)
            self.load.check_not_over()
            time.sleep(AGAIN_S)

    def next_node(self, node):
        nodes = self.load.nodes
        return nodes[(nodes.index(node) + 1) % len(nodes)]

    def attempt(self, node, wanted):
        """Ask once; True with ids."""
        if not self.connect(node):
            return False
        incarnation = self.connected_to[1]
        path = target(wanted.tag, wanted.count, wanted.wire_format, self.timeout_ms)
        with self.record.operation(wanted.tag, wanted.count, wanted.key) as operation:
            began = ran_s()
            try:
                answer = self.connection.request("GET", path, None, key_header(wanted.key))
            except OSError:
                self.drop()
                self.excuse(node, incarnation)
                self.lost += 1
                return False
            received_ns = time.monotonic_ns()
            self.longest_s = max(self.longest_s, ran_s() - began)
            if answer.headers.get("connection") == "close":
                self.drop()
            if answer.status != 200:
                self.take_refusal(node, incarnation, answer, operation)
                return False
            ranges = parse_ids(answer, wanted.wire_format, wanted.count)
            operation.answered(ranges, received_ns)
        self.answers += 1
        return True

    def connect(self, node):
        """A connection to this node, as soon as the test has it up. False: it went again, or the
        run is over."""
        if self.connected_to == (node, node.incarnation) and self.connection is not None:
            return True
        self.drop()
        while not node.serving:
            if self.keyed:
                return False  # the next one will do
            if self.load.stopping.wait(AGAIN_S):
                return False
        incarnation = node.incarnation
        try:
            self.connection = Connection(node.address, CLIENT_TIMEOUT_S)
        except OSError:
            self.excuse(node, incarnation)
            return False
        known, before = self.connected_to
        self.reconnects += known is node and before != incarnation
        self.connected_to = (node, incarnation)
        return True

    def drop(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def excuse(self, node, incarnation):
        """Called in the handling of an error, which is a fault unless the node went."""
        if node.serving and node.incarnation == incarnation:
            raise

    def take_refusal(self, node, incarnation, answer, operation):
        code = answer.code
        leaving = not node.serving or node.incarnation != incarnation
        if answer.status != 503 or not (leaving or code in self.load.may_refuse[node.id]):
            raise ProtocolError(f"{node}: status {answer.status}: {answer.body[:300]!r}")
        if int(answer.headers["retry-after"]) < 1:
            raise ProtocolError(f"{node}: {answer}")
        self.refusals[code] += 1
        if code in NOTHING_ALLOCATED:
            operation.refused()


class StrictLoad:
    """A set of clients. Use as a context manager; finish() checks everything.

    may_refuse: for each node's id the codes of 503 that its clients may be answered with. names:
    what the names of its clients begin with; loads that share a tag need different ones, since keys
    are made of them."""

    def __init__(self, recorder, nodes, names=""):
        self.recorder = recorder
        self.names = names
        self.nodes = list(nodes)  # where keyed clients go round
        self.stopping = threading.Event()
        self.failed = threading.Event()
        self.over_at = None
        self.may_refuse = collections.defaultdict(set)
        self.clients = []

    def add(
        self,
        node,
        tags,
        counts=(1,),
        formats=("plain", "text", "range", "json"),
        rate=20.0,
        timeout_ms=5000,
        keyed=False,
    ):
        """A client of the node for one tag or several; rate: requests a second."""
        tags = [tags] if isinstance(tags, str) else tags
        name = f"{self.names}c{len(self.clients)}"
        client = StrictClient(self, name, node, tags, counts, formats, rate, timeout_ms, keyed)
        self.clients.append(client)
        return client

    def add_many(self, number, tags, **options):
        """So many clients, over all nodes in turn."""
        for turn in range(number):
            self.add(self.nodes[turn % len(self.nodes)], tags, **options)
        return self

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Those that have no key end with the request that is under way; the others with the ids
        of the last one."""
        if self.over_at is None:
            self.over_at = time.monotonic() + FINISH_TIMEOUT_S
        self.stopping.set()
        for client in self.clients:
            client.join(FINISH_TIMEOUT_S + CLIENT_TIMEOUT_S)

    def check_not_over(self):
        if self.over_at is not None and time.monotonic() > self.over_at:
            raise AssertionError("no ids for a key, however often it was asked for")

    def answers(self):
        return sum(client.answers for client in self.clients)

    def refusals(self, node):
        return sum((c.refusals for c in self.clients if c.node is node), collections.Counter())

    def check_running(self):
        """Fail at once when a client has failed."""
        if self.failed.is_set():
            raise RuntimeError("; ".join(c.fault for c in self.clients if c.fault))

    def wait_answers(self, more, timeout=30.0):
        """Until the clients had so many answers more."""
        enough = self.answers() + more

        def reached():
            self.check_running()
            return self.answers() >= enough

        wait_until(reached, timeout, f"{more} more answers")

    def wait_all_served(self, timeout=20.0, among=None):
        """Until each client of a living node (or of these) was given ids again."""
        before = {client: client.answers for client in self.clients}

        def served():
            self.check_running()
            return all(
                c.answers > n
                for c, n in before.items()
                if c.node.serving and (among is None or c.node in among)
            )

        wait_until(served, timeout, "ids for all clients of living nodes")

    def finish(self):
        """Stop, and fail on any client's fault and on any violation in the whole history; returns
        the checker's verdict."""
        self.stop()
        hanging = [client.name for client in self.clients if client.is_alive()]
        assert not hanging, f"clients hang: {hanging}"
        self.check_running()
        return self.recorder.check()


# --- tags that change their mode ---


class Note:
    """One operation on a tag, as strict_history.Operation, kept in memory."""

    def __init__(self, client, count, key):
        self.client = client
        self.count = count
        self.key = key
        self.sent_ns = time.monotonic_ns()
        self.received_ns = None
        self.ranges = None  # None: of unknown outcome; []: surely refused

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def answered(self, ranges, received_ns=None):
        self.received_ns = time.monotonic_ns() if received_ns is None else received_ns
        self.ranges = list(ranges)

    def refused(self):
        self.ranges = []

    def write(self, client, tag):
        """Into a client of a Recorder."""
        with client.operation(tag, self.count, self.key) as operation:
            operation.sent_ns = self.sent_ns
            if self.ranges:
                operation.answered(self.ranges, self.received_ns)


class AxisClient:
    def __init__(self, name):
        self.name = name
        self.notes = []

    def operation(self, _, count=1, key=None):
        note = Note(self.name, count, key)
        self.notes.append(note)
        return note


class Axes:
    """The history of one tag whose mode changes, divided into axes when the run is over.

    A change says where the tag's ids stood (max_id of the PUT's answer): those of a strict time lie
    from there to where the next change found it. Over all times no id may come twice. Within a
    strict time, or a monotonic one, everything demanded of such a tag must hold; and once an id of
    it was acknowledged, nothing below it may be handed out: an operation sent afterwards belongs to
    that axis whatever its ids are."""

    def __init__(self, directory, tag):
        self.directory = str(directory)
        self.tag = tag
        self.clients = []
        self.times = []  # of those: [start, end, mode], end None while it lasts

    def client(self, name):
        client = AxisClient(name)
        self.clients.append(client)
        return client

    def became(self, row):
        begin = int(row["max_id"])
        if self.times and self.times[-1][1] is None:
            self.times[-1][1] = begin
        if row["mode"] != "trend":
            self.times.append([begin, None, row["mode"]])

    def became_strict(self, row):
        assert row["mode"] == "strict", row
        self.became(row)

    def became_trend(self, row):
        assert row["mode"] == "trend", row
        self.became(row)

    def notes(self):
        return [note for client in self.clients for note in list(client.notes)]

    def acknowledged(self, start, end):
        """Operations that were given ids of [start, end)."""
        return [
            note
            for note in self.notes()
            if note.ranges and any(first < end and last >= start for first, last in note.ranges)
        ]

    def check(self):
        """Fail on any violation; returns the Verdict."""
        recorder = Recorder(self.directory)
        self.write(recorder, self.tag, "trend", None, [n for n in self.notes() if n.ranges])
        for number, (start, end, mode) in enumerate(self.times):
            end = end if end is not None else 1 << 63
            inside = self.acknowledged(start, end)
            assert inside, f"no id of [{start}, {end}) was acknowledged"
            first_ack = min(note.received_ns for note in inside)
            below = [n for n in self.acknowledged(0, start) if n.sent_ns > first_ack]
            unknown = [n for n in self.notes() if n.ranges is None]
            self.write(recorder, f"{self.tag}#{number}", mode, start, inside + below + unknown)
        return recorder.check()

    @staticmethod
    def write(recorder, name, mode, start, notes):
        recorder.declare(name, mode, start)
        clients = {}
        for note in notes:
            if note.client not in clients:
                clients[note.client] = recorder.client(f"{note.client}")
            note.write(clients[note.client], name)


def gave_up(address, request, wait_s):
    """Send a request, wait a little for an answer that is not read, and go away."""
    try:
        with Connection(address, CLIENT_TIMEOUT_S) as connection:
            connection.send(request)
            connection.sock.settimeout(wait_s)
            connection.fill()
    except (TimeoutError, ConnectionLost):
        pass
