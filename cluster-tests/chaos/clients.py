"""The load: a process with some clients, each a thread with one request under way.

  clients.py SPEC.json     run until a line "stop", or the end of the input; progress on stdout

The happy path of a client of ids: ask its node for ids at its own pace, take the answer apart as
strictly as client.py does, write down what it was given and when it asked. What is no answer, or
an answer that is not 200, is written down as well, and nothing is judged here: whether an error was
permitted is found out at the end, from what was done to the nodes at that time (health.py).

A reply that is late is waited for: a late id is an id. An answer that is not HTTP, or not the ids
that were asked for, goes to faults.txt and is a finding in itself.
"""

import json
import os
import random
import select
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from chaos import history  # noqa: E402
from chaos.history import FAIL, MORE, OK, UNKNOWN  # noqa: E402
from client import (  # noqa: E402
    Connection, ProtocolError, get_bytes, parse_ids, request_bytes, tag_path,
)  # fmt: skip

# Beyond the time that the node itself may take: it may be stopped for so long, and go on.
PATIENCE_S = 60.0
PAUSE_S = 0.05
PROGRESS_S = 2.0
NO_SPACE = 0xFFFF  # of requests for anything but ids


class Faults:
    """Texts of what no answer may ever be."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()

    def add(self, text):
        with self.lock, open(self.path, "a", encoding="utf-8") as file:
            file.write(text.replace("\n", " ") + "\n")


class Line:
    """A client's connection to one node: connected when it is needed."""

    def __init__(self, node, address, wait_ms):
        self.node = node
        self.address = tuple(address)
        self.timeout_s = wait_ms / 1000 + PATIENCE_S
        self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def drop_if_closed(self):
        """A connection that ended while nothing was asked is no answer to the next request."""
        if self.connection is None:
            return
        try:
            readable, _, _ = select.select([self.connection.sock], [], [], 0)
            closed = readable and not self.connection.sock.recv(1, socket.MSG_PEEK)
        except OSError:
            closed = True
        if closed:
            self.close()

    def exchange(self, request, no_body=False):
        """(response, outcome, code): the response, or None with what came in its place."""
        self.drop_if_closed()
        try:
            if self.connection is None:
                self.connection = Connection(self.address, self.timeout_s)
        except TimeoutError:
            return None, FAIL, history.SILENT
        except OSError:
            return None, FAIL, history.REFUSED
        try:
            self.connection.send(request)
            return self.connection.read_response(no_body), OK, history.NONE
        except TimeoutError:
            code = history.SILENT
        except OSError:
            code = history.LOST
        self.close()
        return None, UNKNOWN, code


class Client(threading.Thread):
    """The frame of all clients: pace, records, counts."""

    def __init__(self, number, spec, out):
        super().__init__(name=f"client {number}", daemon=True)
        self.number = number
        self.spec = spec
        self.out = out
        self.random = random.Random(f"{out.seed}/{number}")
        self.wait_ms = spec["wait_ms"]
        self.kind = history.KIND_NAMES.index(spec["kind"])
        self.requests = self.ids = self.errors = 0

    def run(self):
        due = time.monotonic() + self.random.random() / self.spec["rate"]
        try:
            while not self.out.stopping.wait(max(0, due - time.monotonic())):
                quick = self.once()
                # A client that was held up does not make up for all of it at once.
                due = max(due + 1 / self.spec["rate"], time.monotonic() - 0.5)
                if not quick:
                    due = max(due, time.monotonic() + PAUSE_S)
        except Exception as error:
            self.out.faults.add(f"{self.name} ({self.spec['kind']}) died: {error!r}")
            raise

    def once(self):
        """One request. True when it was answered as it should."""
        raise NotImplementedError

    def ask(self, line, request, asked=0, no_body=False):
        """Send a request; (response, inv_ns, ret_ns). Without a response it is recorded here."""
        inv_ns = time.monotonic_ns()
        try:
            response, outcome, code = line.exchange(request, no_body)
        except ProtocolError as error:
            line.close()
            self.out.faults.add(f"{self.name} on node {line.node}: {error}")
            response, outcome, code = None, UNKNOWN, history.GARBLED
        ret_ns = time.monotonic_ns()
        self.requests += 1
        if response is None:
            end_ns = 0 if code == history.SILENT else ret_ns
            self.note(line, inv_ns, end_ns, asked, outcome=outcome, code=code)
        return response, inv_ns, ret_ns

    def note(self, line, inv_ns, ret_ns, asked, first=0, count=0, status=0, outcome=OK, code=0):
        self.errors += outcome & ~MORE != OK
        self.out.records.add(
            inv_ns, ret_ns, first, count, asked, self.wait_ms, self.number,
            self.spec.get("space", NO_SPACE), status, line.node, self.kind, outcome, code,
        )  # fmt: skip

    def refused(self, line, response, inv_ns, ret_ns, asked=0):
        """Note an answer that is an error; the outcome."""
        try:
            code = history.code_number(response.code)
        except (ValueError, KeyError):
            self.out.faults.add(f"{self.name} on node {line.node}: error without code: {response}")
            code = history.OTHER
        outcome = UNKNOWN if response.status >= 500 else FAIL
        status = response.status
        self.note(line, inv_ns, ret_ns, asked, status=status, outcome=outcome, code=code)
        return outcome


class IdClient(Client):
    """Takes ids of one tag, or snowflake ids, from one node."""

    def __init__(self, number, spec, out):
        super().__init__(number, spec, out)
        self.line = Line(out.spec["node"], out.spec["address"], self.wait_ms)
        self.snowflake = self.kind == history.SNOWFLAKE
        self.tags = spec["tags"]  # [[space, name], ...]

    def once(self):
        space, name = self.random.choice(self.tags)
        self.spec["space"] = space
        wire_format = self.random.choice(self.spec["formats"])
        count = 1 if wire_format == "plain" else self.random.randint(*self.spec["count"])
        route = "snowflake" if self.snowflake else "segment"
        options = [f"timeout_ms={self.wait_ms}"]
        if wire_format != "plain":
            options += [f"count={count}", f"format={wire_format}"]
        if self.spec.get("contiguous"):
            options.append("contiguous=1")
        target = f"/api/{route}/get/{tag_path(name)}?{'&'.join(options)}"
        response, inv_ns, ret_ns = self.ask(self.line, get_bytes(target), count)
        if response is None:
            return False
        if response.status != 200:
            self.refused(self.line, response, inv_ns, ret_ns, count)
            return False
        return self.take(response, wire_format, count, inv_ns, ret_ns)

    def take(self, response, wire_format, count, inv_ns, ret_ns):
        try:
            name = "key" if self.snowflake else "tag"
            ranges = parse_ids(response, wire_format, count, name)
        except (ProtocolError, ValueError, KeyError, TypeError) as error:
            self.line.close()
            self.out.faults.add(f"{self.name} on node {self.line.node}: {error}: {response}")
            self.note(self.line, inv_ns, ret_ns, count, status=200, outcome=UNKNOWN,
                      code=history.GARBLED)  # fmt: skip
            return False
        more = 0
        for first, last in ranges:
            size = last - first + 1
            self.note(self.line, inv_ns, ret_ns, count, first, size, 200, OK | more)
            more = MORE
        self.ids += count
        return True


class Output:
    """What the clients of a process share."""

    def __init__(self, spec):
        base = os.path.join(spec["out"], spec["name"])
        self.spec = spec
        self.seed = spec["seed"]
        self.stopping = threading.Event()
        self.records = history.Writer(base + ".records")
        self.faults = Faults(base + ".faults.txt")
        self.journal_file = open(base + ".journal", "a", encoding="utf-8", buffering=1)
        self.lock = threading.Lock()

    def journal(self, **entry):
        """A line about something that is more than a count of ids."""
        with self.lock:
            self.journal_file.write(json.dumps(entry) + "\n")


def make(number, spec, out):
    if "class" in spec:
        from chaos import admin_clients

        return getattr(admin_clients, spec["class"])(number, spec, out)
    return IdClient(number, spec, out)


def json_request(method, target, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    return request_bytes(method, target, data, headers)


def report_progress(clients, out, **more):
    out.records.flush()
    names = ("requests", "ids", "errors")
    totals = {name: sum(getattr(client, name) for client in clients) for name in names}
    print(json.dumps({**totals, **more}), flush=True)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for run.py alone
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    out = Output(spec)
    clients = [make(number, one, out) for number, one in enumerate(spec["clients"], spec["first"])]
    for client in clients:
        client.start()

    def read_input():
        for line in sys.stdin:
            if line.strip() == "stop":
                break
            out.spec.update(json.loads(line))
        out.stopping.set()

    threading.Thread(target=read_input, daemon=True).start()
    while not out.stopping.wait(PROGRESS_S):
        report_progress(clients, out)
    deadline = time.monotonic() + PATIENCE_S
    for client in clients:
        client.join(max(0, deadline - time.monotonic()))
    hanging = [client.name for client in clients if client.is_alive()]
    report_progress(clients, out, end=True, hanging=hanging)
    out.records.close()


if __name__ == "__main__":
    main()
