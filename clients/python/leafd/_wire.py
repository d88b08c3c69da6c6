"""Connections of the client for threads: one request at a time each, within a time that holds for
all of it. The happy path: exchange() sends, reads, and the connection can take another request.
Failure modes: OSError for whatever breaks, a time that is over included; Stale where the server had
closed the connection before the request; BadAnswer for what is no reply.
"""
from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Set, Tuple

from ._http import Reader, Reply
from ._journey import Limits
from ._settings import Address, Tls
from ._srv import services

READ_BYTES = 65536
STOOD_STILL_S = 0.05
IDLE_MAX = 8  # open connections that wait for a request, for each node

_ENDED = (BrokenPipeError, ConnectionResetError, ConnectionAbortedError, ssl.SSLEOFError)
_Found = Sequence[Tuple[Any, ...]]


class Stale(Exception):
    """The server closed the connection while it was idle: nobody has seen the request."""


def start(thread: threading.Thread) -> None:
    """OSError if there can be no more threads, or the interpreter ends."""
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(f"no thread: {error}") from None


def wait_until(cond: threading.Condition, until: float) -> None:
    """For news until then. Where this comes late, the program stood still: the other threads have as
    long again, half a second at most, to read what came meanwhile."""
    if not cond.wait(max(0.0, until - time.monotonic())):
        late_s = time.monotonic() - until
        if late_s > STOOD_STILL_S:
            cond.wait(min(late_s, 0.5))


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


class Resolver:
    """Names of hosts. The system's call knows no limit of time, so it has a thread; one at a time
    for each name. found: told all addresses of a name, at least one; under the lock."""

    def __init__(self, found: Callable[[Address, List[str]], None] = lambda *_: None) -> None:
        self._lock = threading.Lock()
        self._tell = found
        self._running: Dict[Address, "_Lookup"] = {}

    def begin(self, address: Address) -> "_Lookup":
        """Resolve a name, unless that is under way."""
        with self._lock:
            lookup = self._running.get(address)
            if lookup is None or lookup.done.is_set():
                lookup = self._running[address] = _Lookup(address)
                start(threading.Thread(target=self._run, args=(lookup,), name="leafd-resolve",
                                       daemon=True))
            return lookup

    def _run(self, lookup: "_Lookup") -> None:
        lookup.run()
        places = lookup.services or ips_of(lookup.found)
        if places:
            with self._lock:
                self._tell(lookup.address, places)
        lookup.done.set()

    def close(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            for lookup in self._running.values():
                lookup.done.set()

    def find(self, address: Address, until: float) -> _Found:
        try:
            return socket.getaddrinfo(address.ip or address.host, address.port, 0,
                                      socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):
            pass  # a name
        lookup = self.begin(address)
        if not lookup.done.wait(_left(until)):
            raise TimeoutError("the name was not resolved in time")
        if lookup.error is not None:
            raise OSError(f"the name was not resolved: {lookup.error}")
        return lookup.found


def ips_of(found: _Found) -> List[str]:
    return [str(where[0]) for _, _, _, _, where in found]


class _Lookup:
    def __init__(self, address: Address) -> None:
        self.address = address
        self.done = threading.Event()
        self.found: _Found = []
        self.services: List[str] = []  # of an SRV record, which has no addresses
        self.error: Optional[OSError] = None

    def run(self) -> None:
        try:
            if self.address.is_service:
                self.services = services(self.address.host)
                return
            self.found = socket.getaddrinfo(self.address.host, self.address.port, 0,
                                            socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self.error = error if isinstance(error, OSError) else OSError(str(error))


class Slow(Protocol):
    """What is done where an answer takes long."""

    at: float  # by the monotonic clock

    def attach(self, connection: "Optional[Connection]") -> None:
        """Which connection waits; None: none does any more."""

    def begin(self) -> None:
        """It takes long; at is moved on."""


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._used = False

    def exchange(self, data: bytes, until: float, slow: Optional[Slow] = None) -> Reply:
        if slow is None:
            return self._exchange(data, until, None)
        try:
            slow.attach(self)
            return self._exchange(data, until, slow)
        finally:
            slow.attach(None)  # before another call may have this connection

    def _receive(self, until: float, slow: Optional[Slow]) -> bytes:
        while slow is not None and slow.at < until:
            try:
                return self._read(slow.at)
            except (TimeoutError, socket.timeout):
                slow.begin()
        return self._read(until)

    def _read(self, until: float) -> bytes:
        """What has come is read, however late it is: this program may have stood still."""
        self._sock.settimeout(max(until - time.monotonic(), 0.001))
        return self._sock.recv(READ_BYTES)

    def _exchange(self, data: bytes, until: float, slow: Optional[Slow]) -> Reply:
        reader = Reader()
        try:
            self._sock.settimeout(_left(until))
            self._sock.sendall(data)
        except _ENDED:
            if self._used:
                raise Stale from None
            raise
        while True:
            over = time.monotonic() >= until
            try:
                got = self._receive(until, slow)
            except _ENDED:
                if self._used and not reader.begun:
                    raise Stale from None
                raise
            if not got:
                if self._used and not reader.begun:
                    raise Stale
                raise ConnectionError("the connection ended within the answer" if reader.begun
                                      else "the connection ended before an answer")
            reply = reader.feed(got)
            if reply is not None:
                self._used = True
                return reply
            if over:
                raise TimeoutError("no answer in time")

    def idle(self) -> bool:
        """Whether it is as it was left: the server has neither closed it nor said anything."""
        try:
            if not hasattr(select, "poll"):
                return not select.select([self._sock], [], [], 0)[0]
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):
            return False

    def abort(self) -> None:
        """Wake whoever waits for this connection, in another thread."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        """The descriptor alone: a parent of this process may still use the connection."""
        try:
            self._sock.close()
        except OSError:
            pass


def connect(address: Address, resolver: Resolver, tls: Optional[Tls],
            limits: Limits) -> Connection:
    until = limits.until
    if address.is_service:
        raise OSError(f"there is no SRV record of {address.host}")
    found = resolver.find(address, until)
    began = time.monotonic()
    connected = min(began + limits.connect_s, until)
    error: Optional[OSError] = None
    for at, (family, kind, protocol, _, where) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            # An address that is silent leaves time for the ones behind it.
            sock.settimeout(_left(connected) / (len(found) - at))
            sock.connect(where)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.secure:
                assert tls is not None
                sock.settimeout(_left(until))
                sock = tls.current().wrap_socket(sock, server_hostname=address.host)
            return Connection(sock)
        except OSError as failure:
            sock.close()
            error = failure
    if isinstance(error, TimeoutError) and time.monotonic() < until:
        waited_ms = round((time.monotonic() - began) * 1000)
        raise ConnectionError(f"no connection within {waited_ms} ms") from None
    raise error or OSError("the name has no address")


class Pool:
    """The connections of a client."""

    def __init__(self, tls: Optional[Tls],
                 found: Callable[[Address, List[str]], None]) -> None:
        self._tls = tls
        self._found = found
        self._nodes: Optional[Set[Address]] = None  # None: any
        self.reset()

    def reset(self) -> None:
        """As new; in a child of fork, where no lock of the parent's may be waited for."""
        self._lock = threading.Lock()
        self.resolver = Resolver(self._found)
        self._idle: Dict[Address, List[Connection]] = {}
        self._busy: Dict[int, Connection] = {}
        self._closed = False

    def inherited(self) -> None:
        """In a child of fork: the parent's connections are closed here, and stay open there."""
        held = [one for many in list(self._idle.values()) for one in many]
        held += list(self._busy.values())
        self.reset()
        for connection in held:
            connection.close()

    def exchange(self, address: Address, data: bytes, limits: Limits,
                 slow: Optional[Slow] = None) -> Reply:
        while True:
            connection, fresh = self._open(address, limits)
            reply = None
            try:
                reply = connection.exchange(data, limits.until, slow)
                return reply
            except Stale:
                if fresh:
                    raise ConnectionError("the connection ended before an answer") from None
            finally:
                self._put_back(address, connection, reply is not None and reply.keep)

    def _open(self, address: Address, limits: Limits) -> Tuple[Connection, bool]:
        with self._lock:
            if self._closed:
                raise ConnectionError("the client was closed")
            waiting = self._idle.get(address, [])
            while waiting:
                connection = waiting.pop()
                if connection.idle():
                    self._busy[id(connection)] = connection
                    return connection, False
                connection.close()
        connection = connect(address, self.resolver, self._tls, limits)
        with self._lock:
            if self._closed:
                connection.close()
                raise ConnectionError("the client was closed")
            self._busy[id(connection)] = connection
        return connection, True

    def _put_back(self, address: Address, connection: Connection, keep: bool) -> None:
        with self._lock:
            self._busy.pop(id(connection), None)
            if keep and not self._closed and (self._nodes is None or address in self._nodes):
                waiting = self._idle.setdefault(address, [])
                if len(waiting) < IDLE_MAX:
                    waiting.append(connection)
                    return
        connection.close()

    def keep(self, nodes: Set[Address]) -> None:
        """Idle connections to others are closed: nobody will ask them."""
        with self._lock:
            self._nodes = nodes
            for gone in set(self._idle) - nodes:
                for connection in self._idle.pop(gone):
                    connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for waiting in self._idle.values():
                for connection in waiting:
                    connection.close()
            self._idle.clear()
            for connection in self._busy.values():
                connection.abort()
        self.resolver.close()
