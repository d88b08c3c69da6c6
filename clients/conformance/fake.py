"""A server that answers as a test likes: right, wrong, slowly, without end, or not at all.

Fake(handler): handler(request) gives the bytes of the answer, or an iterator of pieces of it, which
may pause between them by its own means, and end with RESET; None: the connection is closed without
an answer. A thread each connection. requests has all that was asked, sent_bytes what the clients
took.
"""

import collections
import contextlib
import json
import socket
import ssl
import struct
import threading
import time

from driver import stood_s
from gate import Messages
from ports import take_port


RESET = object()  # instead of a piece: the connection is reset


class Request:
    def __init__(self, message):
        self.method, self.target, _ = message.start.split(" ", 2)
        self.path, _, query = self.target.partition("?")
        self.options = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
        self.headers = message.headers
        self.body = message.body
        self.at_ns = message.at_ns

    @property
    def tag(self):
        return self.path.rsplit("/", 1)[1]

    @property
    def count(self):
        return int(self.options.get("count", 1))

    def __repr__(self):
        return f"<{self.method} {self.target}>"


class Fake:
    def __init__(self, handler, tls=None, host="127.0.0.1", port=None):
        self.handler = handler
        self.tls = tls
        self.port = port or take_port()
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self.requests = []
        self.connections = []  # the times at which they were taken
        self.sent_bytes = 0
        self.now = 0  # requests under way
        self.most_at_once = 0
        self.close_idle = False  # close a connection after each answer, without having said so
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.listener = socket.create_server((host, self.port), backlog=256)
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        while not self.ended.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(time.monotonic_ns())
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        messages = Messages()
        try:
            connection.settimeout(30)
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            while data := connection.recv(1 << 16):
                for message in messages.feed(data):
                    if not self.answer(connection, Request(message)):
                        return
        except OSError:
            pass
        finally:
            connection.close()

    def answer(self, connection, request):
        request.connection = connection
        with self.lock:
            self.requests.append(request)
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
        try:
            made = self.handler(request)
            if made is None:
                return False
            for piece in [made] if isinstance(made, bytes) else made:
                if piece is RESET:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                          struct.pack("ii", 1, 0))
                    return False
                connection.sendall(piece)
                self.sent_bytes += len(piece)
                if self.ended.is_set():
                    return False
        finally:
            with self.lock:
                self.now -= 1
        return not self.close_idle

    def close(self):
        """It takes no connection any more. Twice does no harm."""
        self.ended.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # else accept() keeps it open
        self.acceptor.join()
        self.listener.close()


class Granter:
    """What nodes of one cluster answer to range requests: ids that no other answer has.

    The happy path: servers = [fake(granter.node()) for _ in range(2)], then granter.freeze(0),
    granter.thaw(). grants has (first, last, at_ns) of each answer. The same Idempotency-Key gets
    the same ids. With an increment above 1 a request without stepped=1 is refused.
    """

    def __init__(self, increment=1):
        self.next = 1
        self.increment = increment
        self.grants = []
        self.by_key = {}
        self.down = False  # connections are closed without an answer
        self.frozen = collections.defaultdict(list)  # requests that wait, by the number of the node
        self.gates = {}
        self.stood_s = stood_s()  # when it was made
        self.lock = threading.Lock()

    def node(self, headers=None):
        """The handler of one more node, whose answers have these headers: the test may change
        them."""
        number = len(self.gates)
        self.gates[number] = threading.Event()
        self.gates[number].set()
        return lambda request: self.answer(number, request, headers or {})

    def freeze(self, *numbers):
        """Answer nothing until thaw(), as a process that got SIGSTOP."""
        for number in numbers:
            self.gates[number].clear()

    def thaw(self):
        for gate in self.gates.values():
            gate.set()

    def answer(self, number, request, headers):
        if self.down:
            return None
        with self.lock:
            made = self.grant(request, headers)
            if not self.gates[number].is_set():
                self.frozen[number].append(request)
        self.gates[number].wait(60)
        return made

    def grant(self, request, headers):
        if self.increment > 1 and request.options.get("stepped") != "1":
            return error(400, "stepped", "its ids are not consecutive: ask with stepped=1")
        key = request.headers.get("idempotency-key")
        if key in self.by_key:
            return http(200, self.by_key[key], Idempotency_Replayed="true", **headers)
        first = self.next
        last = first + (request.count - 1) * self.increment
        self.next = last + self.increment
        self.grants.append((first, last, request.at_ns))
        body = f"{first} {last}\n" if self.increment == 1 else f"{first} {last} {self.increment}\n"
        if "format" not in request.options:
            body = "".join(f"{one}\n" for one in range(first, self.next, self.increment))
        if key is not None:
            self.by_key[key] = body
        return http(200, body, **headers)

    def granted(self):
        """How many ids there are in all answers."""
        return sum((last - first) // self.increment + 1 for first, last, _ in self.grants)

    def asked_ns(self, number):
        """When the request came that got this id."""
        return next(at_ns for first, last, at_ns in self.grants if first <= number <= last)


REASONS = {200: "OK", 201: "Created", 302: "Found", 400: "Bad Request", 503: "Service Unavailable"}


def http(status, body=b"", kind="text/plain;charset=UTF-8", **headers):
    """The bytes of an answer; a header's name has _ for -."""
    if isinstance(body, str):
        body = body.encode()
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Answer')}", f"Content-Type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if "Content_Length" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def error(status, code, message="as the test likes", **headers):
    body = {"timestamp": 1795172638123, "status": status, "error": "Error", "code": code,
            "message": message, "path": "/"}
    return http(status, json.dumps(body), "application/json;charset=UTF-8", **headers)


def granted(worker_id=3, epoch=1, from_ms=0, until_ms=None, layout=True, **more):
    """A grant of a worker id, as leafd answers; what is named otherwise is put into it."""
    layout = LEAF if layout is True else layout
    if until_ms is None:
        until_ms = time.time_ns() // 1_000_000 + 60_000
    return http(201, json.dumps({"worker_id": worker_id, "epoch": epoch, "from_ms": from_ms,
                                 "until_ms": until_ms, "layout": layout, **more}),
                "application/json;charset=UTF-8")


LEAF = {"epoch_ms": 1288834974657, "time_bits": 41, "worker_bits": 10, "sequence_bits": 12}


def server_tls(certificate):
    """An SSLContext of a server that shows this certificate (pem, key)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context
