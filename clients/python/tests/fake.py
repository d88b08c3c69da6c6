"""A leafd for tests, on a real socket, that can be told to misbehave.

A Cluster is what all nodes share: counters of tags, idempotency keys, worker ids with windows by a
clock that tests set. A Node is an address. node.faults: what the next requests get, one each,
before the node is itself again; a fault is a function of (node, request, answer), where answer()
carries the request out and gives the bytes, and which returns the bytes to send, or None to close
the connection without a word.
"""
import contextlib
import json
import os
import re
import socket
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit

LAYOUT = {"epoch_ms": 1288834974657, "time_bits": 41, "worker_bits": 10, "sequence_bits": 12}
REASONS = {200: "OK", 201: "Created", 204: "No Content"}


def reply(status, body=b"", *headers):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}", *headers]
    if status != 204:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def refusal(status, code, *headers):
    return reply(status, {"status": status, "code": code, "message": f"this is {code}"}, *headers)


# Faults.
def answers(data):
    """These bytes, and nothing is carried out."""
    return lambda node, request, answer: data


def refusal_of(status, code):
    return answers(refusal(status, code))


def closes(node, request, answer):
    return None


def loses(node, request, answer):
    """Carries it out, and nobody hears of it."""
    answer()
    return None


def halves(node, request, answer):
    """The connection ends within the answer."""
    data = answer()
    node.after = "close"
    return data[:len(data) - 3]


def hangs(node, request, answer):
    """Carries it out, and says nothing as long as the node lives."""
    answer()
    node.stopped.wait(30)
    return None


def drips(node, request, answer):
    """A byte now and then: no single read takes long."""
    node.after = "drip"
    return answer()


class Stopwatch:
    """Since it was made. A test shares its machine with others: while a thread of this process could
    run and no processor was free, the library was not late."""

    def __init__(self):
        self.began = time.monotonic()
        self.waited_before = self.waited()

    @staticmethod
    def waited():
        """For how long each thread has waited for a processor: seconds by its number."""
        found = {}
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                    found[task] = int(file.read().split()[1]) / 1e9
            except (OSError, ProcessLookupError):
                pass  # it has ended
        return found

    def took_s(self):
        return time.monotonic() - self.began

    def waited_s(self):
        return sum(seconds - self.waited_before.get(task, 0)
                   for task, seconds in self.waited().items())

    def check_below(self, limit_s):
        waited_s = self.waited_s()
        took_s = self.took_s()
        assert took_s - waited_s < limit_s, f"{took_s} s, {waited_s} s of them without a processor"


class Request:
    def __init__(self, method, target, headers, body, who):
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.who = who  # the connection's number
        parts = urlsplit(target)
        self.path = unquote(parts.path)
        self.options = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.at = time.monotonic()


class Cluster:
    def __init__(self, nodes=1):
        self.lock = threading.RLock()
        self.tags = {"order": 1, "other": 1}
        self.strict = {"invoice": 1}
        self.shapes = {}  # tag: what is put before its numbers
        self.max = {}  # tag: its ids stay below it
        self.split = 0  # answers in so many ranges
        self.steps = {}  # tag: its ids are so far apart
        self.keys = {}
        self.workers = {}  # name: [worker id, epoch, until, released]
        self.now_ms = lambda: time.time_ns() // 1000000
        self.log = []
        self.nodes = [Node(self) for _ in range(nodes)]

    @property
    def urls(self):
        return [node.url for node in self.nodes]

    def fault_all(self, *faults):
        for node in self.nodes:
            node.faults += faults

    def stop(self):
        for node in self.nodes:
            node.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def carry_out(self, node, request):
        with self.lock:
            match = re.fullmatch("/api/segment/get/(.*)", request.path, re.S)
            if match:
                return self.ids(node, request, match.group(1))
            match = re.fullmatch("/api/segment/decode/(.*)", request.path, re.S)
            if match:
                return self.decode(request, match.group(1))
            if request.path == "/api/workers":
                return self.acquire(node, json.loads(request.body))
            match = re.fullmatch("/api/workers/([0-9]+)", request.path)
            if match:
                return self.worker(node, request, int(match.group(1)))
            return refusal(404, "no_route")

    def ids(self, node, request, tag):
        count = int(request.options["count"])
        key = request.headers.get("idempotency-key")
        table = self.strict if tag in self.strict else self.tags
        if tag not in table:
            return refusal(404, "unknown_tag")
        if table[tag] + count > self.max.get(tag, 1 << 63):
            return refusal(409, "exhausted")
        if tag in self.shapes and "format" in request.options:
            return reply(400, {"code": "bad_request",
                               "message": f"tag {tag} has a shape, so its ids are texts: "
                                          "format=range needs as=number"})
        headers = [] if node.generation is None else [f"Leafd-Generation: {node.generation}"]
        step = self.steps.get(tag, 1)
        stepped = request.options.get("stepped") == "1"
        if step > 1 and not stepped:
            return refusal(400, "stepped")
        if key is not None:
            if table is self.tags:
                return refusal(400, "bad_key")
            if (tag, key) in self.keys:
                first, size = self.keys[tag, key]
                if size != count:
                    return refusal(409, "idempotency_conflict")
                if "format" not in request.options:
                    return self.texts(tag, first, count, "Idempotency-Replayed: true")
                return reply(200, f"{first} {first + count - 1}\n".encode(),
                             "Idempotency-Replayed: true")
            self.keys[tag, key] = (table[tag], count)
        if "format" not in request.options:
            table[tag] += count
            return self.texts(tag, table[tag] - count, count)
        if stepped:
            first = table[tag]
            table[tag] += count * step
            return reply(200, f"{first} {first + (count - 1) * step} {step}\n".encode(), *headers)
        pieces = self.split if self.split and "contiguous" not in request.options else 1
        lines = []
        while count:
            size = max(1, count // pieces) if pieces > 1 else count
            pieces -= 1
            lines.append(f"{table[tag]} {table[tag] + size - 1}\n")
            table[tag] += size + (10 if pieces else 0)
            count -= size
        return reply(200, "".join(lines).encode(), *headers)

    def texts(self, tag, first, count, *headers):
        before = self.shapes.get(tag, "")
        lines = [f"{before}{id}\n" for id in range(first, first + count)]
        return reply(200, "".join(lines).encode(), *headers)

    def decode(self, request, tag):
        if tag not in self.shapes:
            return refusal(409, "no_shape")
        match = re.fullmatch(re.escape(self.shapes[tag]) + "([0-9]+)", request.options["text"])
        if not match:
            return refusal(400, "bad_id")
        return reply(200, {"tag": tag, "id": match.group(1), "granted": True})

    def grant(self, node, row, from_ms):
        return {"worker_id": row[0], "epoch": row[1], "from_ms": from_ms, "until_ms": row[2],
                "layout": node.layout}

    def acquire(self, node, body):
        name = body["name"]
        row = self.workers.setdefault(name, [len(self.workers), 0, 0, False])
        from_ms = row[2]
        row[1:] = [row[1] + 1, max(self.now_ms(), from_ms) + body["window_ms"], False]
        return reply(201, self.grant(node, row, from_ms))

    def worker(self, node, request, worker_id):
        rows = [row for row in self.workers.values() if row[0] == worker_id]
        if not rows:
            return refusal(404, "unknown_worker")
        row = rows[0]
        body = json.loads(request.body) if request.body else request.options
        if int(body["epoch"]) != row[1] or row[3]:
            return refusal(409, "fenced")
        if request.method == "DELETE":
            row[2:] = [int(body["last_timestamp_ms"]) or row[2], True]
            return reply(204)
        row[2] = max(row[2], self.now_ms() + body["window_ms"])
        return reply(200, self.grant(node, row, 0))


class Node:
    def __init__(self, cluster):
        self.cluster = cluster
        self.faults = []
        self.always = None  # a fault for each request behind those
        self.layout = LAYOUT
        self.generation = None  # named in answers
        self.after = ""
        self.stopped = threading.Event()
        self.connections = 0
        self.open = set()
        self.start(0)

    def start(self, port):
        self.stopped.clear()
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def stop(self):
        self.stopped.set()
        # Else accept() goes on in its thread, and takes one more.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop_connections()

    def drop_connections(self):
        for sock in list(self.open):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def wrap(self, sock):
        return sock

    def accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(sock, self.connections),
                             daemon=True).start()

    def serve(self, sock, who):
        self.open.add(sock)
        try:
            sock = self.wrap(sock)
            self.open.add(sock)
            with sock, sock.makefile("rb") as read:
                while self.serve_one(sock, read, who):
                    pass
        except (OSError, ValueError):
            pass
        finally:
            self.open.discard(sock)

    def serve_one(self, sock, read, who):
        line = read.readline()
        if not line:
            return False
        method, target, _ = line.decode("ascii").split(" ")
        headers = {}
        while True:
            line = read.readline().decode("ascii").rstrip("\r\n")
            if not line:
                break
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        body = read.read(int(headers.get("content-length", 0)))
        request = Request(method, target, headers, body, who)
        with self.cluster.lock:
            self.cluster.log.append((self, request))
            fault = self.faults.pop(0) if self.faults else self.always
        if fault is None:
            data = self.cluster.carry_out(self, request)
        else:
            data = fault(self, request, lambda: self.cluster.carry_out(self, request))
        return data is not None and self.send(sock, data)

    def send(self, sock, data):
        after, self.after = self.after, ""
        if after == "drip":
            for at in range(len(data)):
                sock.sendall(data[at:at + 1])
                if self.stopped.wait(0.05):
                    return False
            return True
        sock.sendall(data)
        return after != "close"


@contextlib.contextmanager
def hole():
    """The address of a machine that swallows packets: a listener whose queue is full answers none."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(100):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.2)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
                return
        raise AssertionError("the queue of a listener does not fill up")
