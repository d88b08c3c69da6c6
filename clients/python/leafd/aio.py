"""The same client for asyncio:

    async with leafd.aio.Client("http://127.0.0.1:8080") as client:
        orders = client.segment("order")
        print(await orders.next())

A client and its sources belong to the event loop in which they are used first, and to its thread.
An id that is there costs no turn of the loop; try_next() not even a coroutine. A call may be
cancelled: what it asked for is dropped, and no id is handed out twice. A child of fork drops all
that it inherited, as with threads.
"""
from __future__ import annotations

import asyncio
import os
import socket
import time
import weakref
from typing import Any, AsyncIterator, Callable, Coroutine, Dict, List, Optional, Sequence, \
    Set, Tuple, TypeVar, Union

from . import _api, _settings, _stats
from ._api import Decoded, Grant, Layout
from ._buffer import Buffer, fewer, next_size
from ._client import CLOCK_LOOK_S, FORGET_S, NEVER, StrictIds, TextIds, made_up_name
from ._errors import LeafdError, copy_of
from ._generator import Generator, Why
from ._http import BadAnswer, Reader, Reply, Request, request_bytes
from ._journey import Door, Journey, settled
from ._settings import Address, Settings
from ._wire import IDLE_MAX, READ_BYTES

__all__ = ["Client", "Segment", "Snowflake", "Strict", "Texts"]

_T = TypeVar("_T")

_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()
# In a child of fork, the parent's connections: to close them would take them out of the parent's
# event loop, which shares the kernel's list of them.
_inherited: List[object] = []
_ENDED = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class _Stale(Exception):
    """The server closed the connection while it was idle: nobody has seen the request."""


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._used = False

    async def exchange(self, data: bytes) -> Reply:
        reader = Reader()
        try:
            self._writer.write(data)
            while True:
                got = await self._reader.read(READ_BYTES)
                if not got:
                    raise ConnectionResetError("the connection ended within the answer"
                                               if reader.begun else
                                               "the connection ended before an answer")
                reply = reader.feed(got)
                if reply is not None:
                    self._used = True
                    return reply
        except _ENDED:
            if self._used and not reader.begun:
                raise _Stale from None
            raise

    def idle(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing()
                    or self._reader.exception() is not None)

    def close(self) -> None:
        self._writer.transport.abort()


async def _within(seconds: float, work: "Coroutine[Any, Any, None]") -> bool:
    """False: it was not done in time, and was cancelled. In place of wait_for(), which up to Python
    3.11 may lose the cancelling of another wait_for() around it."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds))
        if task.done():
            await task
            return True
        return False
    finally:
        task.cancel()
        await asyncio.wait({task})  # until it has let go of what it uses


async def _connect(address: Address, connect_s: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    until = time.monotonic() + connect_s
    error: Optional[OSError] = None
    for at, (family, kind, protocol, _, where) in enumerate(found):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # An address that is silent leaves time for the ones behind it.
            if await _within((until - time.monotonic()) / (len(found) - at),
                             loop.sock_connect(sock, where)):
                return sock
            error = ConnectionError(f"no connection within {round(connect_s * 1000)} ms")
        except OSError as failure:
            error = failure
        except BaseException:
            sock.close()
            raise
        sock.close()
    raise error or OSError("the name has no address")


class _Pool:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: Dict[Address, List[_Connection]] = {}
        self._closed = False

    def inherited(self) -> None:
        _inherited.append(self._idle)
        self._idle = {}

    async def exchange(self, address: Address, data: bytes, connect_s: float) -> Reply:
        while True:
            connection, fresh = await self._open(address, connect_s)
            reply = None
            try:
                reply = await connection.exchange(data)
                return reply
            except _Stale:
                if fresh:
                    raise ConnectionError("the connection ended before an answer") from None
            finally:
                waiting = self._idle.setdefault(address, [])
                if reply is not None and reply.keep and not self._closed \
                        and len(waiting) < IDLE_MAX:
                    waiting.append(connection)
                else:
                    connection.close()

    async def _open(self, address: Address, connect_s: float) -> Tuple[_Connection, bool]:
        waiting = self._idle.get(address, [])
        while waiting:
            connection = waiting.pop()
            if connection.idle():
                return connection, False
            connection.close()
        sock = await _connect(address, connect_s)
        tls, name = (self._settings.tls, address.host) if address.secure else (None, None)
        reader, writer = await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=name)
        return _Connection(reader, writer), True

    def close(self) -> None:
        self._closed = True
        for waiting in self._idle.values():
            for connection in waiting:
                connection.close()
        self._idle.clear()


class _Waiters:
    """Those who wait for something, each by a deadline."""

    def __init__(self) -> None:
        self._all: "Dict[asyncio.Future[None], float]" = {}

    async def wait(self, deadline: float, seconds: Optional[float] = None) -> None:
        """Ends at the deadline (or after so many seconds), or when woken."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._all[future] = deadline
        left = deadline - time.monotonic() if seconds is None else seconds
        timer = loop.call_later(max(0.0, left), _wake, future) if left < NEVER else None
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            del self._all[future]

    def wake(self) -> None:
        for future in self._all:
            _wake(future)

    @property
    def last(self) -> float:
        """The last deadline; -NEVER: nobody waits."""
        return max(self._all.values(), default=-NEVER)


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Client:
    """A cluster of leafd; the settings are those of leafd.Client."""

    def __init__(self, endpoints: Union[str, Sequence[str], None] = None, *,
                 admin_endpoints: Union[str, Sequence[str], None] = None,
                 token: Optional[str] = None, token_file: Optional[str] = None,
                 ca_file: Optional[str] = None, cert_file: Optional[str] = None,
                 key_file: Optional[str] = None,
                 connect_ms: int = 300, attempt_ms: int = 4000, deadline_ms: int = 10000,
                 cover_ms: int = 10000, min_count: int = 100, max_count: int = 100000,
                 window_ms: int = 60000,
                 _wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._settings = _settings.make(endpoints, admin_endpoints, token, token_file, ca_file,
                                        cert_file, key_file, connect_ms, attempt_ms, deadline_ms,
                                        cover_ms, min_count, max_count, window_ms)
        self._wall_ns = _wall_ns
        self._stats = _stats.Stats()
        self._ids = Door(self._settings.endpoints, self._stats)
        self._admin = Door(self._settings.admin_endpoints, self._stats)
        self._pool = _Pool(self._settings)
        self._layout: Optional[Layout] = None
        self._sources: List[Union[Segment, Snowflake]] = []
        self._tasks: "Set[asyncio.Task[Any]]" = set()
        self._closed = False
        _clients.add(self)

    def segment(self, tag: str) -> "Segment":
        """A source of ids of a tag. Make it once and keep it: each has ranges of its own."""
        self._check_open()
        source = Segment(self, _settings.text_name("tag", tag))
        self._sources.append(source)
        return source

    def strict(self, tag: str) -> "Strict":
        """A source of ids of a strict tag, each of which is a request."""
        self._check_open()
        return Strict(self, _settings.text_name("tag", tag))

    def texts(self, tag: str) -> "Texts":
        """A source of a tag's ids as texts, each of which is a request."""
        self._check_open()
        return Texts(self, _settings.text_name("tag", tag))

    def snowflake(self, name: Optional[str] = None) -> "Snowflake":
        """A source of snowflake ids under a worker id of its own."""
        self._check_open()
        if name is not None:
            _settings.text_name("name", name)
        source = Snowflake(self, name)
        self._sources.append(source)
        return source

    def decode(self, id: int) -> Decoded:
        """Take a snowflake id apart. The layout is known from the first worker id on."""
        _settings.whole("id", id, 0, _api.ID_MAX)
        if self._layout is None:
            raise self._count_error(LeafdError(
                "layout_unknown", "a snowflake source learns the layout with its first id"))
        return self._layout.decode(id)

    def stats(self) -> Dict[str, int]:
        """Counters since the client was made (in a child of fork: since the fork)."""
        values = self._stats.values()
        for source in self._sources:
            kind = "ids_segment" if isinstance(source, Segment) else "ids_snowflake"
            values[kind] += source._taken()
        return values

    def stats_text(self) -> str:
        """The same for Prometheus."""
        return _stats.text(self.stats())

    async def close(self) -> None:
        """Give back worker ids, drop ids that were not used, and end what is under way."""
        if self._closed:
            return
        for source in list(self._sources):
            await source.close()
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pool.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise self._count_error(LeafdError("closed", "the client was closed"))

    def _count_error(self, error: LeafdError) -> LeafdError:
        self._stats.add("errors")
        return error

    def _forget(self, source: "Union[Segment, Snowflake]", kind: str, taken: int) -> None:
        if source in self._sources:
            self._sources.remove(source)
            self._stats.add(kind, taken)

    def _spawn(self, work: "Coroutine[Any, Any, None]") -> None:
        """In the background; the loop itself holds tasks by weak references only."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _deadline(self, deadline_ms: Optional[int]) -> float:
        """By the monotonic clock."""
        if deadline_ms is None:
            return time.monotonic() + self._settings.deadline_ms / 1000
        _settings.whole("deadline_ms", deadline_ms, 1, _settings.MS_MAX)
        return time.monotonic() + deadline_ms / 1000

    async def _call(self, door: Door, make_request: Callable[[], Request],
                    journey: Journey) -> Reply:
        """Ask nodes until one answers, by the journey's deadline. Replies of success alone."""
        while True:
            if self._closed:
                raise LeafdError("closed", "the client was closed")
            move = journey.move(time.monotonic())
            if move.wait_s > 0:
                await asyncio.sleep(move.wait_s)
                continue
            self._stats.add("requests")
            if journey.tries > 1:
                self._stats.add("retries")
            request = make_request()
            reply = await self._attempt(door.addresses[move.node], request, journey)
            if reply is not None and settled(journey, request, reply):
                return reply

    async def _own_call(self, door: Door, make_request: Callable[[], Request],
                        deadline: float) -> Reply:
        """A call that somebody waits for: in a task, so that closing ends it."""
        task = asyncio.get_running_loop().create_task(
            self._call(door, make_request, Journey(door, lambda: deadline)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed and task.cancelled():
                raise LeafdError("closed", "the client was closed") from None
            raise

    async def _open_call(self, door: Door, request: Request, deadline: float) -> Reply:
        """The same, for a source that may be asked after the end."""
        if self._closed:
            raise LeafdError("closed", "the client was closed")
        return await self._own_call(door, lambda: request, deadline)

    async def _call_with_key(self, request: Request, key: Optional[str], deadline: float,
                             read: Callable[[Reply], _T]) -> Tuple[_T, bool]:
        """As that of leafd.Client."""
        try:
            reply = await self._open_call(self._ids, request, deadline)
            return read(reply), _api.is_replayed(reply)
        except LeafdError as error:
            error.key = key
            raise

    async def _attempt(self, address: Address, request: Request,
                       journey: Journey) -> Optional[Reply]:
        """One request to one node; None: it failed."""
        now = time.monotonic()
        limits = journey.limits(self._settings, now)
        try:
            data = request_bytes(request, address.authority, self._settings.token.current())
            return await asyncio.wait_for(self._pool.exchange(address, data, limits.connect_s),
                                          limits.until - now)
        except BadAnswer as error:
            raise LeafdError("bad_answer", f"{address}: {error}") from None
        except asyncio.TimeoutError:
            journey.cut(time.monotonic(), now)
        except (OSError, UnicodeError) as error:
            journey.broke(error)
        return None

    def _after_fork(self) -> None:
        self._stats.reset()
        self._pool.inherited()
        _inherited.append(self._tasks)
        self._tasks = set()
        for source in self._sources:
            source._after_fork()


class Segment:
    """Ids of a tag, from ranges held here. Also an asynchronous iterator without an end."""

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client
        self._buffer = Buffer()
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._journey: Optional[Journey] = None  # of the request under way
        self._unreachable = LeafdError("unreachable", "no ids came by the deadline")
        self._waiters = _Waiters()
        self._wanted_until = -NEVER  # by who does not wait: try_next()
        self._error: Optional[LeafdError] = None
        self._error_until = 0.0
        self._size = 0  # of the last request
        self._size_taken = 0
        self._size_at = 0.0

    async def next(self, deadline_ms: Optional[int] = None) -> int:
        """The next id."""
        id = next(self._buffer.piece, None)
        if id is not None:
            return id
        return (await self._next_slowly(1, deadline_ms))[0]

    def try_next(self) -> Optional[int]:
        """The next id if one is here, else None; asks for more in the background."""
        id = next(self._buffer.piece, None)
        if id is not None:
            return id
        self._check_closed(0)
        if self._buffer.advance():
            id = next(self._buffer.piece)
        else:
            self._wanted_until = self._client._deadline(None)
        self._ask_if_due()
        return id

    async def next_many(self, count: int, deadline_ms: Optional[int] = None) -> List[int]:
        """So many ids; at most 100000."""
        return await self._next_slowly(
            _settings.whole("count", count, 1, _settings.COUNT_MAX), deadline_ms)

    async def next_range(self, count: int, deadline_ms: Optional[int] = None) -> range:
        """So many ids in one range, by a request of its own; nothing that is held is used."""
        _settings.whole("count", count, 1, _settings.COUNT_MAX)
        client = self._client
        deadline = client._deadline(deadline_ms)
        self._check_closed(0)
        client._stats.add("waits")
        try:
            request = _api.segment_request(self.tag, count, contiguous=True)
            reply = await client._own_call(client._ids, lambda: request, deadline)
            ids = _api.one_range_of(reply, count)
        except LeafdError as error:
            raise client._count_error(error)
        client._stats.add("ids_segment", count)
        return ids

    async def close(self) -> None:
        """Drop what is held; calls that wait get "closed"."""
        if self._closed:
            return
        self._closed = True
        self._client._stats.add("burnt", self._buffer.burn())
        self._client._forget(self, "ids_segment", self._buffer.taken)
        self._waiters.wake()

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        return await self.next()

    def _taken(self) -> int:
        return self._buffer.taken

    async def _next_slowly(self, count: int, deadline_ms: Optional[int]) -> List[int]:
        deadline = self._client._deadline(deadline_ms)
        got: List[int] = []
        waited = False
        while True:
            self._check_closed(len(got))
            while len(got) < count and self._buffer.advance():
                got += self._buffer.take(count - len(got))
            if len(got) == count:
                self._ask_if_due()
                return got
            if time.monotonic() >= deadline:
                error = self._unreachable if self._journey is None else \
                    self._journey.unreachable()
                raise self._fail(copy_of(error), len(got))
            self._ask_if_due()
            if self._error is not None and time.monotonic() < self._error_until:
                raise self._fail(copy_of(self._error), len(got))
            if not waited:
                waited = True
                self._client._stats.add("waits")
            try:
                await self._waiters.wait(deadline)
            except asyncio.CancelledError:
                self._client._stats.add("burnt", len(got))
                raise

    def _check_closed(self, burnt: int) -> None:
        if self._closed:
            raise self._fail(LeafdError("closed", "the source was closed"), burnt)

    def _fail(self, error: LeafdError, burnt: int) -> LeafdError:
        """burnt: ids that the call had taken already."""
        if burnt:
            self._client._stats.add("burnt", burnt)
        return self._client._count_error(error)

    def _ask_if_due(self) -> None:
        """Begin a request in the background, unless one is under way, none is needed, or the last
        one's error is not forgotten yet."""
        now = time.monotonic()
        if self._journey is not None or not self._buffer.wants or self._closed:
            return
        if self._error is not None and now < self._error_until:
            return
        settings = self._client._settings
        self._error = None
        self._size = settings.min_count if self._size == 0 else next_size(
            self._size, self._buffer.taken - self._size_taken, now - self._size_at,
            settings.cover_ms / 1000, settings.min_count, settings.max_count)
        self._size_taken, self._size_at = self._buffer.taken, now
        self._journey = Journey(self._client._ids, self._request_deadline)
        # The task begins behind its caller, who waits by then, and is counted.
        self._client._spawn(self._ask(self._journey))

    def _request_deadline(self) -> float:
        """A request goes on as long as somebody waits or ids are left."""
        if self._closed:
            return -NEVER
        if not self._buffer.empty:
            return NEVER
        return max(self._waiters.last, self._wanted_until)

    async def _fetch(self, journey: Journey) -> List[range]:
        while True:
            request = _api.segment_request(self.tag, self._size)
            try:
                reply = await self._client._call(self._client._ids, lambda: request, journey)
                return _api.ranges_of(reply, self._size)
            except LeafdError as error:
                self._size = fewer(self._size, error)

    async def _ask(self, journey: Journey) -> None:
        client = self._client
        try:
            ranges = await self._fetch(journey)
            if self._closed:
                client._stats.add("burnt", self._size)
            else:
                self._buffer.add(ranges)
        except LeafdError as error:
            if error.code == "unreachable":
                self._unreachable = error
            elif error.code != "closed":
                self._error = error
                self._error_until = time.monotonic() + FORGET_S
        finally:
            self._journey = None
            self._waiters.wake()

    def _after_fork(self) -> None:
        self._buffer.burn()
        self._buffer = Buffer()
        self._start()


class Strict:
    """Ids that rise over all nodes and clients; each call is a request."""

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client

    async def next(self, key: Optional[str] = None, deadline_ms: Optional[int] = None) -> int:
        """The next id."""
        return (await self.request(1, key, deadline_ms)).first

    async def next_many(self, count: int, key: Optional[str] = None,
                        deadline_ms: Optional[int] = None) -> List[int]:
        """So many ids, one behind the other."""
        return list((await self.request(count, key, deadline_ms)).ids)

    async def request(self, count: int = 1, key: Optional[str] = None,
                      deadline_ms: Optional[int] = None) -> StrictIds:
        """As that of leafd.Strict."""
        client = self._client
        _settings.whole("count", count, 1, _settings.COUNT_MAX)
        key = _api.new_key() if key is None else _settings.idempotency_key(key)
        deadline = client._deadline(deadline_ms)
        request = _api.segment_request(self.tag, count, key=key)
        client._stats.add("waits")
        try:
            ids, replayed = await client._call_with_key(
                request, key, deadline, lambda reply: _api.one_range_of(reply, count))
        except LeafdError as error:
            raise client._count_error(error)
        client._stats.add("ids_strict", count)
        return StrictIds(ids[0], ids[-1], replayed)


class Texts:
    """Ids as texts, as the server writes them; each call is a request. As leafd.Texts."""

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client
        self._keyed = True

    async def next(self, key: Optional[str] = None, deadline_ms: Optional[int] = None) -> str:
        """The next id."""
        return (await self.request(1, key, deadline_ms)).texts[0]

    async def next_many(self, count: int, key: Optional[str] = None,
                        deadline_ms: Optional[int] = None) -> List[str]:
        """So many ids, at most 1000."""
        return (await self.request(count, key, deadline_ms)).texts

    async def request(self, count: int = 1, key: Optional[str] = None,
                      deadline_ms: Optional[int] = None) -> TextIds:
        """As that of leafd.Texts."""
        client = self._client
        _settings.whole("count", count, 1, _settings.TEXTS_MAX)
        given = None if key is None else _settings.idempotency_key(key)
        deadline = client._deadline(deadline_ms)
        client._stats.add("waits")
        try:
            texts = await self._ask(count, given, deadline)
        except LeafdError as error:
            raise client._count_error(error)
        client._stats.add("ids_strict", count)
        return texts

    async def _ask(self, count: int, given: Optional[str], deadline: float) -> TextIds:
        if given is not None or self._keyed:
            try:
                return await self._ask_with(count, given or _api.new_key(), deadline)
            except LeafdError as error:
                if given is not None or error.code != "bad_key":
                    raise
            self._keyed = False
        return await self._ask_with(count, None, deadline)

    async def _ask_with(self, count: int, key: Optional[str], deadline: float) -> TextIds:
        request = _api.texts_request(self.tag, count, key)
        return TextIds(*await self._client._call_with_key(
            request, key, deadline, lambda reply: _api.texts_of(reply, count)))

    async def decode(self, text: str, deadline_ms: Optional[int] = None) -> int:
        """As that of leafd.Texts."""
        client = self._client
        request = _api.decode_request(self.tag, _settings.id_text(text))
        deadline = client._deadline(deadline_ms)
        client._stats.add("waits")
        try:
            return _api.text_id_of(await client._open_call(client._admin, request, deadline))
        except LeafdError as error:
            raise client._count_error(error)


def _no_generator() -> Generator:
    """One that has no id."""
    return Generator(Grant(0, 1, 0, 0, None), Layout(0, 41, 10, 12), lambda: 0)


class Snowflake:
    """Snowflake ids, made here under a worker id that nobody else uses."""

    def __init__(self, client: Client, name: Optional[str]) -> None:
        self._client = client
        self._name = name
        self._wall_ns = client._wall_ns
        self._generator = _no_generator()
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._held = False  # whether the generator is one
        self._acquiring = False
        self._renew_at = NEVER
        self._renewing: Optional[Journey] = None
        self._lost: Optional[LeafdError] = None  # what ended the last generator, or a renewal
        self._lost_turn = 0
        self._waiters = _Waiters()
        self._renewer = _Waiters()  # the task that renews, asleep
        self._done = 0  # ids of generators before

    async def next(self, deadline_ms: Optional[int] = None) -> int:
        """The next id."""
        generator = self._generator
        if self._wall_ns() // 1000000 == generator.last_ms:
            id = next(generator.piece, None)
            if id is not None:
                return id
        return await self._next_slowly(deadline_ms)

    async def next_many(self, count: int, deadline_ms: Optional[int] = None) -> List[int]:
        """So many ids; at most 100000."""
        _settings.whole("count", count, 1, _settings.COUNT_MAX)
        deadline = self._client._deadline(deadline_ms)
        ids: List[int] = []
        while len(ids) < count:
            left_ms = max(1, int((deadline - time.monotonic()) * 1000))
            ids.append(await self.next(left_ms))
        return ids

    def decode(self, id: int) -> Decoded:
        return self._client.decode(id)

    async def close(self) -> None:
        """Give the worker id back with the last time used."""
        if self._closed:
            return
        self._closed = True
        generator, held = self._generator, self._held
        self._drop()
        self._client._forget(self, "ids_snowflake", self._done)
        self._waiters.wake()
        if held:
            await self._release(generator)

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        return await self.next()

    def _taken(self) -> int:
        return self._done + self._generator.taken

    async def _next_slowly(self, deadline_ms: Optional[int]) -> int:
        client = self._client
        deadline = client._deadline(deadline_ms)
        waited: Set[str] = set()
        try:
            while True:
                if self._closed:
                    raise LeafdError("closed", "the source was closed")
                if not self._held:
                    self._count_wait("waits", waited)
                    await self._get_generator(deadline)
                    continue
                step = self._generator.step()
                if step.why is Why.ID:
                    return step.id
                if step.why is Why.END:
                    raise LeafdError("epoch_exhausted", "the layout's time is over")
                if step.why is Why.WINDOW:
                    self._count_wait("waits", waited)
                    await self._wait_renewal(deadline)
                else:
                    self._count_wait("clock_waits", waited)
                    await self._wait_clock(deadline, step.wait_ms)
        except LeafdError as error:
            raise client._count_error(error)

    def _count_wait(self, name: str, waited: Set[str]) -> None:
        if name not in waited:
            waited.add(name)
            self._client._stats.add(name)

    async def _wait_clock(self, deadline: float, wait_ms: int) -> None:
        now = time.monotonic()
        if now >= deadline:
            raise self._window_over(f", and times up to {self._generator.last_ms} are used")
        wait_s = wait_ms / 1000
        if wait_ms == 1:  # into the next millisecond, and not a whole one further
            wait_s = (1000000 - self._wall_ns() % 1000000) / 1e9
        await self._waiters.wait(deadline, min(wait_s, deadline - now, CLOCK_LOOK_S))

    async def _wait_renewal(self, deadline: float) -> None:
        """The window is over: only a renewal helps."""
        now = time.monotonic()
        if now >= deadline:
            raise self._window_over("" if self._renewing is None else
                                    f"; the renewal: {self._renewing.unreachable().message}")
        turn = self._lost_turn
        if self._renewing is None:
            self._renew_at = min(self._renew_at, now)
            self._renewer.wake()
        await self._waiters.wait(deadline, min(deadline - now, CLOCK_LOOK_S))
        if self._lost is not None and self._lost_turn != turn:
            raise copy_of(self._lost)

    def _window_over(self, why: str) -> LeafdError:
        generator = self._generator
        return LeafdError("window_over", f"no id within the window of worker id "
                          f"{generator.worker_id}, times above {generator.from_ms} up to "
                          f"{generator.until_ms}: the clock shows "
                          f"{self._wall_ns() // 1000000}{why}")

    async def _get_generator(self, deadline: float) -> None:
        """Acquire, or wait for the call that does."""
        if self._acquiring:
            if time.monotonic() >= deadline:
                raise LeafdError("unreachable", "no worker id came by the deadline")
            await self._waiters.wait(deadline)
            return
        self._acquiring = True
        try:
            grant, layout = await self._acquire(deadline)
            generator = Generator(grant, layout, self._wall_ns)
            if self._closed:
                await self._release(generator)
                raise LeafdError("closed", "the source was closed")
            self._client._layout = layout
            self._generator, self._held = generator, True
            self._renew_at = time.monotonic() + self._client._settings.window_ms / 3000
            self._client._spawn(self._renew_loop(generator))
        finally:
            self._acquiring = False
            self._waiters.wake()

    async def _acquire(self, deadline: float) -> Tuple[Grant, Layout]:
        client = self._client
        window_ms = client._settings.window_ms
        door = client._admin

        def request() -> Request:
            # New each time, for the reason that leafd.Snowflake has.
            return _api.acquire_request(self._name or made_up_name(), window_ms)

        grant = _api.grant_of(await client._own_call(door, request, deadline))
        if grant.layout is not None:
            return grant, grant.layout
        renew = _api.renew_request(grant.worker_id, grant.epoch, window_ms, None)
        for _ in range(len(door.addresses) - 1):
            door.current = (door.current + 1) % len(door.addresses)
            told = _api.grant_of(await client._own_call(door, lambda: renew, deadline))
            if told.layout is not None:
                return told._replace(from_ms=max(told.from_ms, grant.from_ms)), told.layout
        await self._release(Generator(grant, Layout(0, 41, 10, 12), self._wall_ns))
        raise LeafdError("layout_unknown", "no node knows the layout of the cluster's ids: "
                         "each has snowflake.workers = 0")

    async def _release(self, generator: Generator) -> None:
        """With the last time used; what fails is left to the window's end."""
        client = self._client
        request = _api.release_request(generator.worker_id, generator.epoch,
                                       generator.used_ms or generator.from_ms)
        until = time.monotonic() + client._settings.attempt_ms / 1000
        try:
            await client._call(client._admin, lambda: request,
                               Journey(client._admin, lambda: until))
        except LeafdError:
            pass

    def _drop(self) -> None:
        """The generator; the task that renews it ends."""
        self._generator.drop()
        self._done += self._generator.taken
        self._generator, self._held = _no_generator(), False
        self._renew_at = NEVER
        self._renewer.wake()

    async def _renew_loop(self, generator: Generator) -> None:
        while self._generator is generator:
            if time.monotonic() < self._renew_at:
                await self._renewer.wait(self._renew_at)
                continue
            self._renewing = Journey(self._client._admin,
                                     lambda: self._renewal_deadline(generator))
            error = await self._renew(generator, self._renewing)
            if self._generator is not generator:
                return
            self._renewing = None
            self._settle_renewal(error)
            self._waiters.wake()

    def _renewal_deadline(self, generator: Generator) -> float:
        """A renewal is tried as long as ids go on or somebody waits for it."""
        if self._generator is not generator:
            return -NEVER
        if self._wall_ns() // 1000000 <= generator.until_ms:
            return NEVER
        return self._waiters.last

    async def _renew(self, generator: Generator, journey: Journey) -> Optional[LeafdError]:
        client = self._client

        def request() -> Request:
            return _api.renew_request(generator.worker_id, generator.epoch,
                                      client._settings.window_ms, generator.used_ms)

        try:
            grant = _api.grant_of(await client._call(client._admin, request, journey))
        except LeafdError as error:
            return error
        if (grant.worker_id, grant.epoch) != (generator.worker_id, generator.epoch):
            return LeafdError("bad_answer", f"renewed worker id {generator.worker_id}, epoch "
                              f"{generator.epoch}; the answer is of {grant.worker_id}, "
                              f"{grant.epoch}")
        generator.extend(grant.until_ms)
        client._stats.add("renewals")
        return None

    def _settle_renewal(self, error: Optional[LeafdError]) -> None:
        now = time.monotonic()
        if error is None:
            self._renew_at = now + self._client._settings.window_ms / 3000
        elif error.code in ("fenced", "unknown_worker"):
            self._lost = LeafdError("fenced", error.message, error.status)
            self._lost_turn += 1
            self._drop()
        elif error.code in ("unreachable", "closed"):
            self._renew_at = NEVER  # until somebody asks for an id
        else:
            self._lost = error
            self._lost_turn += 1
            self._renew_at = now + FORGET_S

    def _after_fork(self) -> None:
        self._generator.drop()
        self._generator = _no_generator()
        self._start()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
