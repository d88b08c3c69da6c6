"""SRV records (RFC 2782), which the standard library does not look up.

The happy path: services("_leafd._tcp.example") asks the servers of /etc/resolv.conf over UDP, one
after the other, and gives "HOST:PORT" of each record. Failure modes: an answer that is too long for
UDP is asked for over TCP; one that is broken, or is of another question, is left out; a server that
gives none within TIME_S is left for the next; after ROUNDS of all: OSError. A name that is not there
has no records. Search domains are not used. Threads: any; it blocks.
"""
from __future__ import annotations

import random
import re
import socket
import struct
import time
from typing import Any, List, Tuple

RESOLV_CONF = "/etc/resolv.conf"
PORT = 53
TIME_S = 2.0
ROUNDS = 2
SERVERS_MAX = 3
RECORDS_MAX = 64
_HEAD_BYTES = 12
_SRV, _IN, _NO_ERROR, _NO_SUCH_NAME = 33, 1, 0, 3
_TRUNCATED = 0x0200
_HOST = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


def services(name: str) -> List[str]:
    """The hosts and ports of the records; priorities and weights are not used."""
    error = OSError("no name server is known")
    query = _query(name)
    for server in _servers() * ROUNDS:
        try:
            return _records(_ask(server, query), query)
        except (OSError, ValueError, IndexError, struct.error) as failure:
            error = OSError(f"{server}: {failure}")
    raise error


def _servers() -> List[str]:
    with open(RESOLV_CONF, encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file]
    found = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    return found[:SERVERS_MAX] or ["127.0.0.1"]


def _query(name: str) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode("ascii")
                      for label in name.rstrip(".").split("."))
    number = random.SystemRandom().randrange(1 << 16)
    return struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, _SRV, _IN)


def _answers(query: bytes, data: bytes) -> bool:
    """Whether it is the answer of this question."""
    return (len(data) >= len(query) and data[:2] == query[:2] and data[2] & 0x80 != 0
            and data[_HEAD_BYTES:len(query)].lower() == query[_HEAD_BYTES:].lower())


def _ask(server: str, query: bytes) -> bytes:
    until = time.monotonic() + TIME_S
    family, _, _, _, where = socket.getaddrinfo(server, PORT, 0, socket.SOCK_DGRAM, 0,
                                                socket.AI_NUMERICHOST)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(TIME_S)
        sock.connect(where)
        sock.send(query)
        data = b""
        while not _answers(query, data):
            sock.settimeout(_left(until))
            data = sock.recv(1 << 16)
    return _ask_stream(where, query) if struct.unpack_from(">H", data, 2)[0] & _TRUNCATED else data


def _ask_stream(where: Tuple[Any, ...], query: bytes) -> bytes:
    until = time.monotonic() + TIME_S
    with socket.create_connection((where[0], where[1]), TIME_S) as sock:
        sock.sendall(struct.pack(">H", len(query)) + query)
        data = b""
        while len(data) < 2 or len(data) < 2 + struct.unpack_from(">H", data)[0]:
            sock.settimeout(_left(until))
            more = sock.recv(1 << 16)
            if not more:
                raise OSError("the answer is cut")
            data += more
    if not _answers(query, data[2:]):
        raise OSError("it answers something else")
    return data[2:]


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def _name(data: bytes, at: int) -> Tuple[str, int]:
    """A name, and where it ends; it may go on elsewhere, always further at the front."""
    labels, end, last = [], 0, len(data)
    while data[at] != 0:
        if data[at] < 0xC0:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
            continue
        end = end or at + 2
        at = struct.unpack_from(">H", data, at)[0] & 0x3FFF
        if at >= last:
            raise ValueError("a name without end")
        last = at
    return ".".join(labels), end or at + 1


def _records(data: bytes, query: bytes) -> List[str]:
    flags, _, count = struct.unpack_from(">3H", data, 2)
    if flags & 0xF not in (_NO_ERROR, _NO_SUCH_NAME):
        raise OSError(f"it answers with error {flags & 0xF}")
    found, at = [], len(query)
    for _ in range(count if flags & 0xF == _NO_ERROR else 0):
        at = _name(data, at)[1]
        kind, _, _, size = struct.unpack_from(">HHIH", data, at)
        at += 10
        if kind == _SRV:
            port = struct.unpack_from(">H", data, at + 4)[0]
            host = _name(data, at + 6)[0]
            if port > 0 and len(host) <= 253 and _HOST.fullmatch(host):
                found.append(f"{host}:{port}")
        at += size
    return found[:RECORDS_MAX]
