"""What the nodes say of themselves, asked ten times a second: who leads, who is ready, how far.

The happy path: monitor.start(); settled(node) says whether a node is as it should be: ready, with a
leader that says the same of itself, with no refusal of snowflake ids, and with all applied that was
committed when the cluster was healed. Everything that was heard is kept in samples.jsonl, on which
the judge and the page look.

A node has a thread of its own here, so that one that does not answer holds up no other.
"""

import json
import os
import threading
import time

from client import Connection, ProtocolError

PERIOD_S = 0.1
TIMEOUT_S = 0.5
FRESH_S = 2.0
WORKERS_PERIOD_S = 1.0
BEAT_S = 0.02
STARVED_S = 0.1


class Watcher(threading.Thread):
    """Asks one node."""

    def __init__(self, monitor, node):
        super().__init__(name=f"watcher of {node}", daemon=True)
        self.monitor = monitor
        self.node = node
        self.connection = None
        self.last = None
        self.memory_ns = 0

    def run(self):
        while not self.monitor.stopping.wait(PERIOD_S):
            incarnation = self.node.incarnation
            sample = {"t": time.monotonic_ns(), "node": self.node.id, "life": incarnation}
            try:
                sample.update(self.ask())
            except (OSError, ProtocolError, ValueError) as error:
                self.drop()
                sample["error"] = type(error).__name__
            sample["end"] = time.monotonic_ns()
            self.look_at_memory(sample)
            sample["ok"] = self.monitor.is_settled(sample)
            self.last = sample
            self.monitor.take(sample)

    def ask(self):
        if self.connection is None:
            self.connection = Connection(self.node.address, TIMEOUT_S)
        ready = self.connection.request("GET", "/readyz")
        answer = self.connection.request("GET", "/api/cluster")
        if answer.status != 200:
            return {"error": answer.code}
        status = answer.json()
        said = ready.json()
        return {
            "ready": ready.status == 200,
            "why": said.get("reasons", []),
            "warnings": said.get("warnings", []),
            "state": status["state"],
            "leader": status["leader_id"],
            "term": status["term"],
            "commit": status["commit_index"],
            "applied": status["applied_index"],
            "members": [[m["id"], m["role"]] for m in status["members"]],
        }

    def look_at_memory(self, sample):
        """Once a second, the memory that the process has."""
        process = self.node.process
        if process is None or sample["t"] - self.memory_ns < 1e9:
            return
        try:
            with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
                sample["rss_kib"] = int(file.read().split()[1]) * (os.sysconf("SC_PAGE_SIZE") >> 10)
        except OSError:
            return
        self.memory_ns = sample["t"]

    def drop(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Metronome(threading.Thread):
    """Notices when the machine has no time for those that run on it: it wants to be woken every
    20 ms, and tells the events when that took 100 ms more. A node was starved then, too."""

    def __init__(self, events, stopping):
        super().__init__(name="metronome", daemon=True)
        self.events = events
        self.stopping = stopping

    def run(self):
        before = time.monotonic_ns()
        while not self.stopping.wait(BEAT_S):
            now = time.monotonic_ns()
            late_s = (now - before) / 1e9 - BEAT_S
            if late_s > STARVED_S:
                self.events.add("starved", at=before, end=now)
            before = now


class Monitor:
    """All watchers, and the registry of worker ids, asked of any node once a second."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8", buffering=1)
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.watchers = {}
        self.target = 0  # the index that a healed node has to have applied
        self.workers = {}  # (worker id, epoch): the last seen row
        self.workers_thread = threading.Thread(target=self.watch_workers, daemon=True)

    def start(self, events):
        self.workers_thread.start()
        Metronome(events, self.stopping).start()

    def watch(self, node):
        watcher = self.watchers[node.id] = Watcher(self, node)
        watcher.start()

    def forget(self, node):
        self.watchers.pop(node.id, None)

    def take(self, sample):
        with self.lock:
            if not self.file.closed:
                self.file.write(json.dumps(sample) + "\n")

    def is_settled(self, sample):
        if not sample.get("ready") or sample["warnings"] or sample["leader"] is None:
            return False
        leader = self.watchers.get(sample["leader"])
        leading = leader.last if leader is not None else None
        if sample["leader"] == sample["node"]:
            leading = sample
        return (
            leading is not None
            and leading.get("state") == "leader"
            and leading["term"] == sample["term"]
            and sample["t"] - leading["end"] < FRESH_S * 1e9
            and sample["applied"] >= self.target
        )

    def settled(self, node, after_ns):
        """Is the node as it should be, by what it said since?"""
        watcher = self.watchers.get(node.id)
        last = watcher.last if watcher is not None else None
        return last is not None and last["t"] >= after_ns and last["ok"]

    def aim(self):
        """From now on a node is settled when it has applied what is committed by now."""
        self.target = max((last["commit"] for last in self.answers()), default=self.target)

    def answers(self):
        """The last sample of each node that answered of late."""
        now = time.monotonic_ns()
        lasts = [watcher.last for watcher in list(self.watchers.values())]
        return [s for s in lasts if s and "commit" in s and now - s["end"] < FRESH_S * 1e9]

    def leader(self):
        """The id of the node that leads in the newest term, or None."""
        leading = [sample for sample in self.answers() if sample["state"] == "leader"]
        return max(leading, key=lambda s: s["term"])["node"] if leading else None

    def watch_workers(self):
        turn = 0
        while not self.stopping.wait(WORKERS_PERIOD_S):
            nodes = [w.node for w in list(self.watchers.values()) if w.node.alive]
            if not nodes:
                continue
            turn += 1
            try:
                self.read_workers(nodes[turn % len(nodes)], TIMEOUT_S)
            except (OSError, ProtocolError, AssertionError):
                continue

    def read_workers(self, node, timeout):
        after = ""
        while after is not None:
            target = "/api/workers?limit=1024" + (f"&after={after}" if after != "" else "")
            answer = node.get(target, timeout=timeout)
            assert answer.status == 200, f"{node} GET {target}: {answer}"
            page = answer.json()
            for row in page["workers"]:
                self.workers[row["worker_id"], row["epoch"]] = row
            after = page["next"]

    def stop(self):
        self.stopping.set()
        for watcher in list(self.watchers.values()):
            watcher.join(2 * TIMEOUT_S + 1)
        self.workers_thread.join(2 * TIMEOUT_S + 1)
        with self.lock:
            self.file.close()
