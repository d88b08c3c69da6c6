"""HTTP/1.1 as leafd, or a proxy before it, speaks it, without a socket: requests to bytes, bytes to replies.

The happy path: request_bytes() is sent; what comes is fed to a Reader until it gives a Reply.
Failure modes: what is no reply of HTTP, or does not say its length, is ConnectionError; a body that
is larger than any of leafd's is BadAnswer; a stream that ends within a reply is the caller's to
notice (Reader.begun tells whether anything came).
"""
from __future__ import annotations

import re
from typing import Dict, NamedTuple, Optional, Tuple

VERSION = "0.2.0"
HEAD_MAX_BYTES = 16384
BODY_MAX_BYTES = 1 << 20  # leafd's answers to what is asked here have some 4 KiB at most

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n]*?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,10}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\r\n]*)?")


class BadAnswer(Exception):
    """What came is longer than any answer of leafd."""


class Request(NamedTuple):
    """One request, without where it goes."""

    method: str
    target: str
    headers: Tuple[Tuple[str, str], ...] = ()
    body: bytes = b""
    success: Tuple[int, ...] = (200,)  # the status of an answer that is no error


class Reply(NamedTuple):
    """One reply, whole. Names of headers are in small letters."""

    status: int
    headers: Dict[str, str]
    body: bytes
    keep: bool  # whether the connection can take another request


def request_bytes(request: Request, authority: str, token: Optional[str]) -> bytes:
    lines = [f"{request.method} {request.target} HTTP/1.1", f"Host: {authority}",
             f"User-Agent: leafd-python/{VERSION}"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(request.body)}"]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + request.body


class Reader:
    """Takes the bytes of one reply as they come."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._status = 0
        self._headers: Dict[str, str] = {}
        self._length = -1  # of the body; -1: the head is not complete
        self._chunks: Optional[bytearray] = None  # a body without a length, as far as it came
        self._keep = True

    @property
    def begun(self) -> bool:
        return bool(self._data) or self._length >= 0

    def feed(self, data: bytes) -> Optional[Reply]:
        """The reply, once it is complete; else None."""
        self._data += data
        while self._length < 0:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                self._check_begin()
                return None
            if end > HEAD_MAX_BYTES:
                raise ConnectionError(f"a head of more than {HEAD_MAX_BYTES} bytes")
            self._read_head(bytes(self._data[:end]))
            del self._data[:end + 4]
        if self._chunks is not None:
            return self._read_chunks(self._chunks)
        if len(self._data) < self._length:
            return None
        # More than was asked for: the stream is out of step.
        keep = self._keep and len(self._data) == self._length
        return Reply(self._status, self._headers, bytes(self._data[:self._length]), keep)

    def _read_chunks(self, body: bytearray) -> Optional[Reply]:
        """A proxy may send a body so. What is behind the last chunk says nothing."""
        while (end := self._data.find(b"\r\n")) >= 0:
            match = _CHUNK.fullmatch(self._data[:end])
            if not match:
                raise ConnectionError(f"no chunk: {bytes(self._data[:40])!r}")
            size = int(match.group(1), 16)
            if size == 0:
                end = self._data.find(b"\r\n\r\n")
                break
            if len(body) + size > BODY_MAX_BYTES:
                raise BadAnswer(f"a body of more than {BODY_MAX_BYTES} bytes")
            if len(self._data) < end + size + 4:
                return None
            if self._data[end + size + 2:end + size + 4] != b"\r\n":
                raise ConnectionError("a chunk that is longer than it says")
            body += self._data[end + 2:end + size + 2]
            del self._data[:end + size + 4]
        if end < 0:
            if len(self._data) > HEAD_MAX_BYTES:
                raise ConnectionError("chunks without an end")
            return None
        keep = self._keep and len(self._data) == end + 4
        return Reply(self._status, self._headers, bytes(body), keep)

    def _check_begin(self) -> None:
        """Garbage is seen as soon as it comes, and not by a timeout."""
        begin = b"HTTP/1."
        size = min(len(begin), len(self._data))
        if self._data[:size] != begin[:size]:
            raise ConnectionError(f"no HTTP: {bytes(self._data[:40])!r}")
        if len(self._data) > HEAD_MAX_BYTES:
            raise ConnectionError(f"a head of more than {HEAD_MAX_BYTES} bytes")

    def _read_head(self, head: bytes) -> None:
        lines = head.split(b"\r\n")
        match = _STATUS_LINE.fullmatch(lines[0])
        if not match:
            raise ConnectionError(f"no status line of HTTP: {lines[0][:40]!r}")
        self._status = int(match.group(1))
        self._headers = {}
        for line in lines[1:]:
            header = _HEADER.fullmatch(line)
            if not header:
                raise ConnectionError(f"no header: {line[:40]!r}")
            name = header.group(1).decode("ascii").lower()
            if name == "content-length" and name in self._headers:
                raise ConnectionError("two lengths")
            self._headers[name] = header.group(2).decode("latin-1")
        if self._status < 200:
            if self._status == 101:
                raise ConnectionError("a protocol that nobody asked for")
            return  # 1xx: the reply is still to come
        connection = self._headers.get("connection", "").lower()
        self._keep = "close" not in connection and (
            head.startswith(b"HTTP/1.1") or "keep-alive" in connection)
        self._length = self._body_length()

    def _body_length(self) -> int:
        if self._status in (204, 304):
            return 0
        length = self._headers.get("content-length", "")
        if not length and self._headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunks = bytearray()
            return 0
        if "transfer-encoding" in self._headers or not _LENGTH.fullmatch(length):
            raise ConnectionError(f"status {self._status} without a length")
        if int(length) > BODY_MAX_BYTES:
            raise BadAnswer(f"a body of {length} bytes")
        return int(length)
