"""The generator of scripts/examples against a running cluster, beside the cluster's own ids."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from checker import History
from node import ROOT
from snowflakes import SPACE, decode, take, wait_served
from wait import wait_until

PROGRAM = [sys.executable, os.path.join(ROOT, "scripts", "examples", "snowflake_client.py")]
READ_PER_S = 20_000


class Generator:
    """A running example. A thread reads and keeps what it prints, so many ids a second: the program
    waits for the reader, since the pipe is full."""

    def __init__(self, name, node, count, window_ms, directory):
        self.name = name
        self.ids = []
        self.errors_path = os.path.join(str(directory), name.replace("/", "_"))
        with open(self.errors_path, "ab") as errors:
            self.process = subprocess.Popen(
                [
                    *PROGRAM,
                    *("--count", str(count), "--name", name, "--window-ms", str(window_ms)),
                    *("--url", f"http://{node.http_address}"),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for number, line in enumerate(self.process.stdout, 1):
            if number % 200 == 0:
                time.sleep(200 / READ_PER_S)
            if line.endswith(b"\n"):  # a killed process may leave half a line
                self.ids.append(int(line))

    def errors(self):
        with open(self.errors_path, encoding="utf-8", errors="replace") as errors:
            return errors.read()

    def finish(self, timeout=30):
        code = self.process.wait(timeout)
        self.reader.join(timeout)
        assert not self.reader.is_alive()
        return code

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.finish()
        self.process.stdout.close()


@pytest.fixture
def generate(tmp_path):
    """generate(name, node, count, window_ms): a Generator that ends with the test."""
    made = []

    def one(name, node, count, window_ms=10_000):
        made.append(Generator(name, node, count, window_ms, tmp_path))
        return made[-1]

    yield one
    for generator in made:
        generator.end()


def put(history, generators):
    """The ids of generators into the history, and the worker ids that each of them used."""
    workers = []
    for number, generator in enumerate(generators):
        track = history.track(f"{generator.name}#{number}", 0, SPACE)
        for value in generator.ids:
            track.add(value, value)
        workers.append({decode(value).worker for value in generator.ids})
    return workers


def test_generators_and_nodes_at_once(shared, generate, tag):
    wait_served(shared.nodes)
    count = 20_000
    running = [
        generate(f"{tag}/{number}", shared.nodes[number % 2], count)
        for number in range(4)
    ]
    history = History()
    tracks = {node: history.track("ids", node.id, SPACE) for node in shared.nodes}
    own = set()
    while any(generator.process.poll() is None for generator in running):
        for node, track in tracks.items():
            for first, _ in take(node, track, 1000, "range"):
                own.add(decode(first).worker)
    for generator in running:
        assert generator.finish() == 0, generator.errors()
        assert len(generator.ids) == count
    workers = put(history, running)
    assert all(len(used) == 1 for used in workers), workers
    assert len(own) == 3 and len(own.union(*workers)) == 7
    assert history.check() >= 4 * count + 3000
    rows = shared.nodes[2].get_json("/api/workers?limit=1024")["workers"]
    held = {row["name"]: row for row in rows}
    for generator in running:
        # Released, and how far it came is shown.
        row = held[generator.name]
        assert row["state"] == "released", row
        assert row["last_timestamp_ms"] == decode(generator.ids[-1]).ms, row


def test_killed_generator_repeats_nothing(shared, generate, tag):
    """kill -9, and started again under its name at once: with another worker id, without a wait for
    the window of the life before."""
    node = shared.nodes[0]
    first = generate(tag, node, 10**9, 60_000)
    wait_until(lambda: len(first.ids) > 2000, 15, "ids")
    first.process.kill()
    second = generate(tag, shared.nodes[1], 5000, 1500)
    assert second.finish() == 0, second.errors()
    first.finish()
    history = History()
    workers = put(history, [first, second])
    assert not workers[0] & workers[1]
    assert history.check() == len(first.ids) + 5000
    assert decode(second.ids[0]).ms > decode(first.ids[-1]).ms


def test_generator_outlives_the_leader(make_cluster, generate, tag):
    cluster = make_cluster()
    wait_served(cluster.nodes)
    leader = cluster.leader()
    node = cluster.others(leader)[0]
    generator = generate(tag, node, 10**9, 5000)
    wait_until(lambda: generator.ids, 15, "ids")
    leader.kill9()
    cluster.wait_leader()
    until_ms = node.get_json("/api/workers?limit=1024")["workers"]
    until_ms = next(row["until_ms"] for row in until_ms if row["name"] == tag)
    # Past the end of the window that the new leader found: so it was renewed since.
    wait_until(lambda: decode(generator.ids[-1]).ms > until_ms, 15, "ids of a renewed window")
    generator.process.send_signal(signal.SIGTERM)
    assert generator.finish() != 0
    history = History()
    put(history, [generator])
    history.check()
