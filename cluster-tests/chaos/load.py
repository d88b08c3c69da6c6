"""Which clients a run has, and the processes they live in.

The happy path: Load(...).start() for one process for each node and one that administers;
progress() while it runs; stop() at the end. What the clients saw lies in records and journals in
the run's folder.

The numbers of a node's clients together, at pace 1: about 150 requests and 16,000 ids a second.
Everything but a few hasty ones may wait as long as leafd lets a request wait.
"""

import json
import os
import subprocess
import sys
import threading

from chaos import history

HERE = os.path.dirname(os.path.abspath(__file__))
LONG_MS = 10_000
STOP_S = 90.0

SPACES = [
    ("snowflake", history.SNOWFLAKE, None),
    ("chaos/bulk", history.SEGMENT, {"step": 10_000}),
    ("chaos/batch", history.SEGMENT, {"step": 1000}),
    ("chaos/solo", history.SEGMENT, {"step": 100, "max_step": 1000}),
    ("chaos/tiny", history.SEGMENT, {"step": 1, "max_step": 10}),
    ("chaos/whole", history.SEGMENT, {"step": 500}),
    *((f"chaos/many-{n}", history.SEGMENT, {"step": 20}) for n in range(20)),
    ("chaos/strict-a", history.STRICT, {"mode": "strict"}),
    ("chaos/strict-b", history.STRICT, {"mode": "strict"}),
    ("chaos/keyed", history.STRICT, {"mode": "strict"}),
    ("chaos/swing", history.SEGMENT, {"step": 50}),
    # Short windows, which are renewed often; and such as the rate asks for.
    ("chaos/mono-a", history.MONOTONIC, {"mode": "monotonic", "step": 2, "max_step": 3}),
    ("chaos/mono-b", history.MONOTONIC, {"mode": "monotonic"}),
    ("chaos/mono-keyed", history.MONOTONIC, {"mode": "monotonic", "step": 5, "max_step": 20}),
]
MANY = [(number, name) for number, (name, *_) in enumerate(SPACES) if "many" in name]
SPACE_NUMBERS = {name: number for number, (name, *_) in enumerate(SPACES)}


def spaces(features):
    """{number: (name, kind, the tag's fields)} of a run."""
    left_out = {kind for kind, mode in history.RISING.items() if mode not in features}
    return {n: space for n, space in enumerate(SPACES) if space[1] not in left_out}


def id_client(kind, tags, rate, count=(1, 1), formats=("plain",), wait_ms=LONG_MS, **more):
    tags = [(SPACE_NUMBERS[tag], tag) for tag in tags] if isinstance(tags[0], str) else tags
    return {"kind": kind, "tags": tags, "rate": rate, "count": count, "formats": formats,
            "wait_ms": wait_ms, **more}  # fmt: skip


def node_clients(pace, features):
    """The clients of one node."""
    mixed = ("text", "range", "json")
    clients = [
        id_client("segment", ["chaos/bulk"], 10 * pace, (1000, 1000), ("range",)),
        id_client("segment", ["chaos/batch"], 10 * pace, (1, 300), mixed),
        id_client("segment", ["chaos/batch"], 5 * pace, (1, 300), mixed, wait_ms=5000),
        id_client("segment", ["chaos/solo"], 25 * pace),
        id_client("segment", ["chaos/solo"], 10 * pace, wait_ms=200),
        id_client("segment", ["chaos/tiny"], 10 * pace),
        id_client("segment", ["chaos/whole"], 4 * pace, (2, 200), ("range",), contiguous=1),
        id_client("segment", MANY, 10 * pace, (1, 5), mixed),
        id_client("snowflake", ["snowflake"], 20 * pace),
        id_client("snowflake", ["snowflake"], 4 * pace, (1, 1000), ("range", "json")),
    ]
    if "monotonic" in features:
        clients += [
            id_client("monotonic", ["chaos/mono-a"], 15 * pace),
            id_client("monotonic", ["chaos/mono-a"], 5 * pace, (1, 5), mixed, wait_ms=5000),
            id_client("monotonic", ["chaos/mono-b"], 10 * pace, (1, 50), mixed, wait_ms=5000),
            id_client("monotonic", ["chaos/mono-b"], 5 * pace, (1, 1000), ("range",)),
        ]
    if "strict" in features:
        clients += [
            id_client("strict", ["chaos/strict-a"], 10 * pace),
            id_client("strict", ["chaos/strict-a"], 5 * pace, (1, 50), mixed, wait_ms=5000),
            id_client("strict", ["chaos/strict-b"], 5 * pace, (1, 1000), ("range",)),
            id_client("segment", ["chaos/swing"], 4 * pace, (1, 30), ("range",)),
        ]
    return clients


def admin_clients(features, nodes):
    """Clients of so many nodes."""
    tags = {"class": "TagWriter", "kind": "admin", "rate": 6, "wait_ms": 3000, "prefix": "admin"}
    workers = {"class": "Generator", "kind": "worker", "rate": 4, "wait_ms": 3000, "prefix": "gen"}
    keys = {"class": "KeyHolder", "kind": "strict-key", "rate": 6, "wait_ms": LONG_MS,
            "tag": "chaos/keyed"}  # fmt: skip
    mono = {**keys, "tag": "chaos/mono-keyed"}
    modes = ["trend"] + [mode for mode in history.RISING.values() if mode in features]
    mode = {"class": "ModeSwitch", "kind": "admin", "rate": 0.4, "wait_ms": 3000,
            "tag": "chaos/swing", "modes": modes}  # fmt: skip
    readers = [
        {"class": "TagReader", "kind": "read", "rate": 6, "wait_ms": 3000, "which": which}
        for which in range(nodes)
    ]
    clients = [tags, tags, tags, workers, workers, *readers]
    clients += [mono, mono] if "monotonic" in features else []
    return clients + [keys, keys, mode] if "strict" in features else clients


class Process:
    """One process of clients."""

    def __init__(self, spec):
        self.name = spec["name"]
        self.stopped = False
        self.last = {"requests": 0, "ids": 0, "errors": 0}
        path = os.path.join(spec["out"], spec["name"] + ".spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "chaos.clients", path]
        self.process = subprocess.Popen(
            command, cwd=os.path.dirname(HERE), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.last = json.loads(line)

    def ended_early(self):
        return self.process.poll() is not None and not self.stopped

    def send(self, line):
        self.stopped = self.stopped or line == "stop"
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def finish(self):
        """Texts of what went wrong with it."""
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return [f"the clients of {self.name} did not end"]
        self.reader.join(5)
        found = [f"the clients of {self.name} ended with {code}"] if code else []
        hanging = self.last.get("hanging")
        if hanging:
            found.append(f"{self.name}: no answer to {hanging} to this day")
        return found


class Load:
    def __init__(self, directory, seed, pace, features):
        self.directory = directory
        self.seed = seed
        self.pace = pace
        self.features = features
        self.spaces = spaces(features)
        self.processes = {}
        self.count = 0
        os.makedirs(directory, exist_ok=True)

    def start(self, nodes):
        for node in nodes:
            self.start_node(node)
        clients = admin_clients(self.features, len(nodes))
        self.start_process("admin", clients, {"nodes": self.addresses(nodes)})

    def start_node(self, node):
        """Clients for a node; also for one that joins later."""
        target = {"node": node.id, "address": list(node.address)}
        self.start_process(f"node{node.id}", node_clients(self.pace, self.features), target)

    def start_process(self, name, clients, target):
        spec = {"name": name, "out": self.directory, "seed": self.seed, "first": self.count,
                "clients": clients, **target}  # fmt: skip
        self.count += len(clients)
        self.processes[name] = Process(spec)

    def addresses(self, nodes):
        return {node.id: node.address for node in nodes}

    def set_nodes(self, nodes):
        """Whom the administering clients ask from now on."""
        self.processes["admin"].send(json.dumps({"nodes": self.addresses(nodes)}))

    def stop_node(self, node):
        """Its clients have nobody to ask any more."""
        self.processes[f"node{node.id}"].send("stop")

    def progress(self):
        lasts = [process.last for process in self.processes.values()]
        return {name: sum(last[name] for last in lasts) for name in ("requests", "ids", "errors")}

    def dead(self):
        return [p.name for p in self.processes.values() if p.ended_early()]

    def stop(self):
        """End all clients; texts of what went wrong with them."""
        found = []
        for process in self.processes.values():
            if process.ended_early():
                found.append(f"the clients of {process.name} had ended")
            elif not process.stopped:
                process.send("stop")
        for process in self.processes.values():
            found += process.finish()
            found += self.faults(process.name)
        return found

    def faults(self, name):
        try:
            with open(os.path.join(self.directory, name + ".faults.txt"), encoding="utf-8") as file:
                return [f"{name}: {line.strip()}" for line in file]
        except FileNotFoundError:
            return []

    def records(self):
        return [os.path.join(self.directory, name + ".records") for name in self.processes]

    def journals(self):
        """All entries of all journals."""
        entries = []
        for name in self.processes:
            path = os.path.join(self.directory, name + ".journal")
            with open(path, encoding="utf-8") as file:
                entries += [json.loads(line) for line in file]
        return entries
