"""Histories for check-history: every operation of every client with the times it was sent and
answered, written to files, and checked by the program that is built beside leafd.

checker.py sees ids given twice and keeps little; it is enough for trend tags. This one is for what
depends on time: strict tags are to rise over all clients and nodes, and to have no gaps; monotonic
ones to rise.

    recorder = Recorder(tmp_path / "history")
    recorder.declare("orders", "strict", start=1)
    client = recorder.client("c1")                      # one a thread
    with client.operation("orders", count=3) as operation:
        response = connection.request(...)
        operation.answered([(first, last)])             # or operation.refused()
    recorder.check()

An operation that ends in any other way, say by a broken connection, is one of unknown outcome: its
ids may have been burnt. So is one that is still under way when the recorder is closed. refused()
is for answers that say that surely nothing was allocated; they are not recorded.
"""

import collections
import os
import re
import subprocess
import threading
import time

from node import leafd_path

FLUSH_BYTES = 1 << 16
CHECK_TIMEOUT_S = 300.0

SUMMARY = re.compile(
    r"^check-history: (\d+) operations, (\d+) ids, nothing found(?:, (\d+) gaps not decided)? "
    r"\((\d+) of unknown outcome, (\d+) tags\)$"
)
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# The exit code if nothing is found, but some gaps are not decided.
UNDECIDED = 2

# undecided: gaps of which it was not found out whether they can be.
Verdict = collections.namedtuple("Verdict", "operations ids unknown tags undecided")


def checker_path():
    """The program, as it was built together with leafd."""
    return os.path.join(os.path.dirname(leafd_path()), "check-history")


def run_checker(*arguments, timeout=CHECK_TIMEOUT_S, **options):
    """The finished process, its output as text."""
    assert os.access(checker_path(), os.X_OK), f"no {checker_path()}: build it with make"
    return subprocess.run(
        [checker_path(), *map(str, arguments)],
        stdin=options.pop("stdin", subprocess.DEVNULL),
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def check(paths, timeout=CHECK_TIMEOUT_S, steps=None):
    """Check the files together, each a path or a folder of them. Fails with what the program says
    if anything is wrong, also with the files; returns the Verdict, which says how many gaps were
    not decided."""
    files = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        if os.path.isdir(path):
            files += sorted(os.path.join(path, name) for name in os.listdir(path))
        else:
            files.append(os.fspath(path))
    assert files, f"no files of a history in {paths}"
    options = [] if steps is None else ["--steps", steps]
    run = run_checker(*options, "--", *files, timeout=timeout)
    assert run.returncode in (0, UNDECIDED), (
        f"check-history ended with {run.returncode}:\n{run.stdout}{run.stderr}"
    )
    found = SUMMARY.match(run.stdout.splitlines()[-1])
    assert found, f"check-history said: {run.stdout}{run.stderr}"
    operations, ids, undecided, unknown, tags = (int(number or 0) for number in found.groups())
    assert (run.returncode == UNDECIDED) == (undecided > 0)
    return Verdict(operations, ids, unknown, tags, undecided)


class Operation:
    """One request, from the moment it is about to be sent. Ends once: answered, refused, or of
    unknown outcome."""

    def __init__(self, client, tag, count, key):
        self.client = client
        self.tag = tag
        self.count = count
        self.key = key
        self.ended = False
        self.sent_ns = time.monotonic_ns()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.end(self, [("-", "-", self.count)])

    def answered(self, ranges, received_ns=None):
        """The reply has these ranges, [(first, last), ...]; a tag's that rises must be
        one. It was received now, unless its time is given."""
        received_ns = time.monotonic_ns() if received_ns is None else received_ns
        got = [(received_ns, first, last - first + 1) for first, last in ranges]
        total = sum(count for _, _, count in got)
        rises = self.client.recorder.modes[self.tag] != "trend"
        assert total == self.count, f"{self.count} ids of {self.tag} wanted, given were {ranges}"
        assert len(got) == 1 or not rises, f"ids of {self.tag} in several ranges: {ranges}"
        self.client.end(self, got)

    def refused(self):
        """The reply says that nothing was allocated."""
        self.client.end(self, [])


class Client:
    """What one client did; for one thread at a time. Made by Recorder.client()."""

    def __init__(self, recorder, name, path):
        self.recorder = recorder
        self.name = name
        self.lock = threading.Lock()
        self.closed = False
        self.under_way = set()
        self.lines = []
        self.bytes = 0
        self.answers = 0
        self.file = open(path, "w", encoding="utf-8", newline="\n")

    def operation(self, tag, count=1, key=None):
        """A request that is about to be sent, to be used as a context manager. None may be sent
        after the recorder was closed: others would miss its ids."""
        assert tag in self.recorder.modes, f"tag {tag} was not declared"
        operation = Operation(self, tag, count, checked(key) if key is not None else None)
        with self.lock:
            assert not self.closed, f"client {self.name} goes on after the end of the history"
            self.under_way.add(operation)
        return operation

    def end(self, operation, outcomes):
        """Write the outcomes, (received, first, count) each; nothing if it has ended before."""
        with self.lock:
            if operation.ended:
                return
            operation.ended = True
            self.under_way.discard(operation)
            for received, first, count in outcomes:
                self.answers += received != "-"
                fields = ["op", operation.tag, self.name, operation.sent_ns, received, first, count]
                fields += [] if operation.key is None else [operation.key]
                self.lines.append("\t".join(map(str, fields)) + "\n")
                self.bytes += len(self.lines[-1])
            if self.bytes >= FLUSH_BYTES:
                self.flush()

    def flush(self):
        self.file.write("".join(self.lines))
        self.file.flush()
        self.lines = []
        self.bytes = 0

    def close(self):
        with self.lock:
            if self.closed:
                return
            self.closed = True
            under_way = list(self.under_way)
        for operation in under_way:
            operation.__exit__()
        with self.lock:
            self.flush()
            self.file.close()


def checked(name):
    """A name as it may stand in the file."""
    assert name and not CONTROL.search(name), f"{name!r} cannot stand in a history"
    return name


class Recorder:
    """The clients of a run, a file each in a folder of its own, which is made."""

    def __init__(self, directory):
        self.directory = os.fspath(directory)
        self.lock = threading.Lock()
        self.clients = []
        self.modes = {}
        os.makedirs(self.directory)
        tags = os.path.join(self.directory, "tags")
        self.tags = open(tags, "w", encoding="utf-8", newline="\n")

    def declare(self, tag, mode, start=None):
        """Say what is demanded of a tag, before its first operation: "strict" or "monotonic"
        (from start on, if that is known), or "trend". A tag that begins anew needs a name of its
        own."""
        assert mode in ("strict", "monotonic", "trend"), mode
        with self.lock:
            self.modes[checked(tag)] = mode
            begin = "" if start is None else f"\t{start}"
            self.tags.write(f"tag\t{tag}\t{mode}{begin}\n")
            self.tags.flush()

    def client(self, name):
        with self.lock:
            path = os.path.join(self.directory, f"client-{len(self.clients):04}")
            client = Client(self, checked(name), path)
            self.clients.append(client)
        return client

    def answers(self):
        """How many requests were answered with ids so far."""
        with self.lock:
            return sum(client.answers for client in self.clients)

    def close(self):
        """No operation is added any more; those under way count as of unknown outcome."""
        with self.lock:
            for client in self.clients:
                client.close()
            self.tags.close()

    def check(self):
        """Close, and fail on any violation; returns the Verdict."""
        self.close()
        return check(self.directory)
