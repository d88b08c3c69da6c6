"""HTTP/1.1 over a plain socket: strict about the answers, free about what it sends.

Tests of the contract need requests that no library would send, and the load needs speed and
pipelining, so both use this small client. It takes nothing on trust: an answer that is not
well-formed HTTP is a ProtocolError, which no test expects.
"""

import json
import socket
import time
from urllib.parse import quote

DEFAULT_TIMEOUT_S = 30.0
RECV_BYTES = 1 << 16


class ProtocolError(Exception):
    """The server sent something that is not the HTTP of the contract."""


class ConnectionLost(OSError):
    """The connection ended before the answer was complete."""


class Response:
    """One answer. Header names are lower case; a header given twice is a ProtocolError. It was
    received by received_ns, and its request not sent before sent_ns (None: that is not known), both
    on the monotonic clock."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body
        self.sent_ns = None
        self.received_ns = time.monotonic_ns()

    @property
    def text(self):
        return self.body.decode("utf-8")

    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The code word of an error's body."""
        return self.json()["code"]

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


def tag_path(tag):
    """A tag as one path segment: everything that is not unreserved is percent-encoded."""
    return quote(tag, safe="")


def get_bytes(target):
    """The bytes of a plain keep-alive GET, for pipelining."""
    return f"GET {target} HTTP/1.1\r\nHost: leafd\r\n\r\n".encode()


class Connection:
    """A keep-alive connection; usable as a context manager. tls: an ssl.SSLContext, or None for
    plain HTTP; session: of an earlier connection, to go on with it; source: the address that it
    comes from."""

    def __init__(self, address, timeout=DEFAULT_TIMEOUT_S, tls=None, session=None, source=None):
        self.sock = socket.create_connection(address, timeout, source)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        if tls is not None:
            plain = self.sock
            try:
                self.sock = tls.wrap_socket(plain, server_hostname="localhost", session=session)
            except OSError:
                plain.close()
                raise

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def fill(self):
        data = self.sock.recv(RECV_BYTES)
        if not data:
            raise ConnectionLost("closed by the server")
        self.buffer += data

    def read_response(self, no_body=False):
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end >= 0:
                break
            self.fill()
        status, headers = parse_head(self.buffer[:end])
        self.buffer = self.buffer[end + 4 :]
        if status == 100:
            return self.read_response(no_body)
        if no_body or status in (204, 304):
            if status == 204 and headers.get("content-length", "0") != "0":
                raise ProtocolError("204 with a body")
            return Response(status, headers, b"")
        return Response(status, headers, self.read_body(headers))

    def read_body(self, headers):
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self.read_chunks()
        if "content-length" not in headers:
            raise ProtocolError(f"no Content-Length: {headers}")
        return self.take(int(headers["content-length"]))

    def read_chunks(self):
        body = b""
        while True:
            while b"\r\n" not in self.buffer:
                self.fill()
            line, self.buffer = self.buffer.split(b"\r\n", 1)
            size = int(line, 16)
            body += self.take(size)
            if self.take(2) != b"\r\n":
                raise ProtocolError("chunk without an end")
            if size == 0:
                return body

    def take(self, size):
        while len(self.buffer) < size:
            self.fill()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def request(self, method, target, body=None, headers=None):
        sent_ns = time.monotonic_ns()
        self.send(request_bytes(method, target, body, headers))
        response = self.read_response(no_body=method == "HEAD")
        response.sent_ns = sent_ns
        return response

    def at_end(self):
        """True when the server has closed the connection and nothing is left to read."""
        if self.buffer:
            return False
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


def request_bytes(method, target, body=None, headers=None):
    head = {"Host": "leafd"}
    if body is not None:
        head["Content-Length"] = str(len(body))
        head["Content-Type"] = "application/json"
    head.update(headers or {})
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + (body or b"")


def parse_head(head):
    lines = head.decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    if version != "HTTP/1.1" or not rest[:3].isdigit():
        raise ProtocolError(f"status line {lines[0]!r}")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name in headers:
            raise ProtocolError(f"header line {line!r}")
        headers[name] = value.strip()
    return int(rest[:3]), headers


def once(address, method, target, body=None, headers=None, timeout=DEFAULT_TIMEOUT_S, tls=None):
    """One request on a connection of its own. Bodies: str as UTF-8, other objects as JSON."""
    if isinstance(body, str):
        body = body.encode()
    elif body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    with Connection(address, timeout, tls) as connection:
        return connection.request(method, target, body, headers)


class Ranges(list):
    """[(first, last), ...] with the times of their answer."""

    def __init__(self, ranges, response):
        super().__init__(ranges)
        self.sent_ns = response.sent_ns
        self.received_ns = response.received_ns


def parse_ids(response, wire_format, count, name="tag"):
    """The Ranges of a 200 answer to count ids; raises on any deviation.

    wire_format: "plain" (no option given: one bare number), "text", "range" or "json", which has
    the tag, or whatever the ids were asked by, under this name.
    """
    if wire_format == "plain":
        ranges = [(parse_id(response.body),) * 2]
    elif wire_format == "text":
        ranges = merge_lines(response.body)
    elif wire_format == "range":
        ranges = [tuple(map(parse_id, line.split(b" "))) for line in split_lines(response.body)]
    else:
        ranges = parse_json_ranges(response.json(), count, name)
    total = 0
    previous = 0
    for first, last in ranges:
        if not previous < first <= last:
            raise ProtocolError(f"ranges do not rise: {ranges}")
        previous = last
        total += last - first + 1
    if total != count:
        raise ProtocolError(f"{total} ids where {count} were asked for")
    return Ranges(ranges, response)


def parse_json_ranges(answer, count, name):
    if set(answer) != {name, "count", "ranges"} or answer["count"] != count:
        raise ProtocolError(f"json answer {answer}")
    ranges = []
    for entry in answer["ranges"]:
        if not isinstance(entry["first"], str) or not isinstance(entry["last"], str):
            raise ProtocolError(f"ids must be strings: {entry}")
        ranges.append((parse_id(entry["first"].encode()), parse_id(entry["last"].encode())))
    return ranges


def parse_id(text):
    if not text.isdigit() or (text[0:1] == b"0"):
        raise ProtocolError(f"not an id: {text[:100]!r}")
    value = int(text)
    if value >= (1 << 63) - 1:
        raise ProtocolError(f"an id at or above 2^63 - 1: {value}")
    return value


def split_lines(body):
    if not body.endswith(b"\n"):
        raise ProtocolError("the last line is not ended")
    return body[:-1].split(b"\n")


def merge_lines(body):
    """Ids one a line to ranges, in the order of the lines (a fall starts a new range)."""
    ranges = []
    first = last = None
    for line in split_lines(body):
        value = parse_id(line)
        if last is not None and value == last + 1:
            last = value
            continue
        if first is not None:
            ranges.append((first, last))
        first = last = value
    ranges.append((first, last))
    return ranges
