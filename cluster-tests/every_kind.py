"""Load of every kind of request at once, for what must not disturb a single one of them: trend ids
one by one and in batches, strict ids with and without keys, snowflake ids, worker ids that are
acquired, renewed and released, tags that are made, changed and deleted.

    every = EveryKind(cluster, recorder)
    with every.load():
        ... upgrades, changes of members ...
        every.wait_more()               # each kind went on, at each living node
    every.check()                       # no id twice, over all loads

A node that lives may answer nothing but success. What was sent to one that the test stops is asked
again at the next node.
"""

import contextlib
import itertools
import threading
import time

from checker import History
from client import tag_path
from load import mixed_load, wait_all_serve, wait_taken
from snowflakes import SnowLoad, wait_served
from strict_load import StrictLoad
from wait import wait_until
from workers import acquire, release, renew

PAUSE_S = 0.02
TREND = "trend"
STRICT = ("strict", "keyed")


class Gone(Exception):
    """The node went while it was asked: the request may have been carried out, or not."""


class Changer(threading.Thread):
    """Goes through one cycle of requests again and again, each at the next node."""

    def __init__(self, load, name):
        super().__init__(name=name, daemon=True)
        self.load = load
        self.turn = 0
        self.cycles = 0
        self.by_node = {}
        self.fault = None

    def run(self):
        try:
            while not self.load.stopping.wait(PAUSE_S):
                self.cycle(self.cycles)
                self.cycles += 1
        except Exception as error:  # told by ChangeLoad.check_running()
            self.fault = f"{self.name}: {error!r}"
            self.load.failed.set()

    def next_node(self):
        """One that serves; there must always be one."""
        nodes = self.load.cluster.nodes[:]
        for _ in nodes:
            self.turn += 1
            node = nodes[self.turn % len(nodes)]
            if node.serving:
                return node
        raise AssertionError("no node serves")

    def ask(self, what, send, wanted, wanted_again=()):
        """send(node), whose answer must have the status wanted. Where the node went meanwhile it is
        sent again, and then wanted_again will do, too: what the first one did."""
        allowed = {wanted}
        while True:
            node = self.next_node()
            try:
                answer = self.attempt(node, send)
            except Gone:
                allowed |= set(wanted_again)
                continue
            assert answer.status in allowed, f"{what} at {node}: {answer}, allowed: {allowed}"
            self.by_node[node.id] = self.by_node.get(node.id, 0) + 1
            return answer

    def attempt(self, node, send):
        incarnation = node.incarnation
        try:
            answer = send(node)
        except OSError as error:
            if node.serving and node.incarnation == incarnation:
                raise
            raise Gone from error
        if answer.status == 503 and not (node.serving and node.incarnation == incarnation):
            raise Gone
        return answer


class TagChanger(Changer):
    """Makes a tag, takes of it, changes it, deletes it, sees that it is gone."""

    def cycle(self, number):
        name = f"{self.name}-{number % 7}"  # so that names come again, above what they had
        path = f"/api/tags/{tag_path(name)}"
        mode = "strict" if number % 2 else "trend"

        def put(fields):
            return lambda node: node.http("PUT", path, fields)

        made = self.ask(f"make {name}", put({"mode": mode, "step": 10}), 201, [200]).json()
        taken = self.ask(
            f"take of {name}", lambda node: node.get(f"/api/segment/get/{tag_path(name)}"), 200
        )
        assert int(taken.body) >= int(made["max_id"]), (taken, made)
        self.load.take_id(name, int(taken.body))
        higher = int(taken.body) + 1000
        fields = {"max_id": higher, "description": f"change {number}"}
        changed = self.ask(f"change {name}", put(fields), 200).json()
        read = self.ask(f"read {name}", lambda node: node.get(path), 200).json()
        assert read == changed and int(read["max_id"]) == higher, (read, changed)
        self.ask(f"delete {name}", lambda node: node.http("DELETE", path), 204, [404])
        self.ask(f"read {name}, deleted", lambda node: node.get(path), 404)


class WorkerHolder(Changer):
    """Acquires a worker id, renews it, releases it."""

    def cycle(self, number):
        def acquire_one(node):
            """What it released counts until it is over: its share may be full for a second."""
            end = time.monotonic() + 10
            while (answer := acquire(node, self.name, 1000)).status == 429:
                assert time.monotonic() < end, answer
                time.sleep(0.02)
            return answer

        grant = self.ask("acquire", acquire_one, 201).json()
        worker = grant["worker_id"]
        self.load.hold(worker, grant["epoch"], self.name)
        renewed = self.ask("renew", lambda node: renew(node, grant, window_ms=1000), 200).json()
        assert renewed["epoch"] == grant["epoch"], (renewed, grant)
        self.load.let_go(worker, self.name)
        self.ask("release", lambda node: release(node, grant), 204)


class ChangeLoad:
    """Both, with what must hold between all of them over several loads: the books."""

    def __init__(self, cluster, books, names):
        self.cluster = cluster
        self.books = books
        self.stopping = threading.Event()
        self.failed = threading.Event()
        self.changers = [TagChanger(self, f"{names}tags{n}") for n in range(2)]
        self.changers += [WorkerHolder(self, f"{names}holder{n}") for n in range(2)]

    def take_id(self, tag, number):
        self.books.take_id(tag, number)

    def hold(self, worker, epoch, name):
        self.books.hold(worker, epoch, name)

    def let_go(self, worker, name):
        self.books.let_go(worker, name)

    def __enter__(self):
        for changer in self.changers:
            changer.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for changer in self.changers:
            changer.join(40)

    def check_running(self):
        if self.failed.is_set():
            raise RuntimeError("; ".join(c.fault for c in self.changers if c.fault))

    def wait_more(self, timeout=30.0):
        """Each changer ended a cycle more, and each node that serves answered some of it."""
        cycles = {changer: changer.cycles for changer in self.changers}
        answers = self.answers()

        def enough():
            self.check_running()
            now = self.answers()
            return all(changer.cycles > before for changer, before in cycles.items()) and all(
                now.get(node.id, 0) > answers.get(node.id, 0)
                for node in self.cluster.nodes
                if node.serving
            )

        wait_until(enough, timeout, "changes at all living nodes")

    def answers(self):
        total = {}
        for changer in self.changers:
            for node_id, count in list(changer.by_node.items()):
                total[node_id] = total.get(node_id, 0) + count
        return total


class Books:
    """Who holds which worker id, and the ids of tags that come and go."""

    def __init__(self):
        self.lock = threading.Lock()
        self.holders = {}
        self.epochs = {}
        self.tops = {}

    def take_id(self, tag, number):
        """A tag that is made again goes on above; one thread has it."""
        with self.lock:
            before = self.tops.get(tag, 0)
            assert number > before, f"{tag}: {number} after {before}"
            self.tops[tag] = number

    def hold(self, worker, epoch, name):
        with self.lock:
            assert worker not in self.holders, (worker, name, self.holders)
            before = self.epochs.get(worker, 0)
            assert epoch > before, f"worker id {worker}: epoch {epoch} after {before}"
            self.holders[worker] = name
            self.epochs[worker] = epoch

    def let_go(self, worker, name):
        with self.lock:
            assert self.holders.pop(worker) == name


class EveryKind:
    """See above. May be loaded several times, one after the other; the history is one."""

    def __init__(self, cluster, recorder):
        self.cluster = cluster
        self.recorder = recorder
        self.history = History()
        self.books = Books()
        self.serials = itertools.count(1)
        self.trend = self.strict = self.snow = self.changes = None
        cluster.create_tag(TREND)
        for tag in STRICT:
            cluster.create_tag(tag, mode="strict")
            recorder.declare(tag, "strict", start=1)
        wait_served(cluster.nodes)

    @contextlib.contextmanager
    def load(self):
        """All that run now get clients; those that come later serve changes alone."""
        names = f"{next(self.serials)}-"
        nodes = self.cluster.nodes[:]
        self.trend = mixed_load(self.cluster, self.history, TREND, rate=1000.0)
        self.strict = StrictLoad(self.recorder, nodes, names)
        self.strict.add_many(len(nodes), STRICT[0], counts=(1, 10), rate=30)
        self.strict.add_many(len(nodes), STRICT, counts=(1, 5), rate=20, keyed=True)
        self.snow = SnowLoad(self.history)
        for node in nodes:
            self.snow.add(node, 10, "range", rate=300.0, timeout_ms=5000)
        self.changes = ChangeLoad(self.cluster, self.books, names)
        with self.trend, self.strict, self.snow, self.changes:
            yield self
            self.wait_more()
        self.strict.check_running()
        for part in (self.trend, self.snow, self.changes):
            part.check_running()
        threads = self.trend.clients + self.strict.clients + self.snow.clients
        hanging = [t.name for t in threads + self.changes.changers if t.is_alive()]
        assert not hanging, f"clients hang: {hanging}"

    def wait_more(self):
        """Each kind goes on, at each living node."""
        wait_taken(self.trend, 500)
        wait_all_serve(self.trend)
        self.strict.wait_all_served()
        wait_all_serve(self.snow)
        self.changes.wait_more()

    def check(self):
        """No id twice over all loads, and strict ids rise without gaps; returns the Verdict."""
        assert self.history.check() > 0
        return self.recorder.check()
