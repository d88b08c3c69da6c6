"""The client for threads, and its sources of ids (docs/clients.md).

The happy path: segment("order").next() takes from a range that is in the process; a thread asks
for the next one in time. Failure modes: every call ends by its deadline, with ids or a LeafdError.
Threads: everything may be called from any. Fork: the child drops all that it inherited.
"""
from __future__ import annotations

import os
import secrets
import socket
import threading
import time
import weakref
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, \
    TypeVar, Union

from . import _api, _settings, _stats
from ._api import Decoded, Grant, Layout
from ._buffer import Buffer, fewer, next_size
from ._errors import LeafdError, copy_of
from ._generator import Generator, Why
from ._http import BadAnswer, Reply, Request, request_bytes
from ._journey import Door, Journey, settled
from ._wire import Pool, start

_T = TypeVar("_T")

NEVER = float("inf")
FORGET_S = 1.0  # an error of a background request
CLOCK_LOOK_S = 0.1  # how often a long wait for the clock looks at it
SPIN_S = 0.002  # a shorter one sleeps just so long

_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


class StrictIds(NamedTuple):
    """Ids of a strict tag, both bounds included; replayed: another request with the same key had
    been given them before."""

    first: int
    last: int
    replayed: bool

    @property
    def ids(self) -> range:
        return range(self.first, self.last + 1)


class TextIds(NamedTuple):
    """Ids as texts; replayed: another request with the same key had been given them before."""

    texts: List[str]
    replayed: bool


class Client:
    """A cluster of leafd; see docs/clients.md for the settings.

    Close it (or use it in a "with"): that gives back worker ids. LeafdError bad_setting for a
    setting that breaks its rule.
    """

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
        self._pool = Pool(self._settings.tls)
        self._layout: Optional[Layout] = None
        self._sources: List[Union[Segment, Snowflake]] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        _clients.add(self)

    def segment(self, tag: str) -> "Segment":
        """A source of ids of a tag. Make it once and keep it: each has ranges of its own."""
        source = Segment(self, _settings.text_name("tag", tag))
        self._keep(source)
        return source

    def strict(self, tag: str) -> "Strict":
        """A source of ids of a strict tag, each of which is a request."""
        self._check_open()
        return Strict(self, _settings.text_name("tag", tag))

    def texts(self, tag: str) -> "Texts":
        """A source of a tag's ids as the server writes them: in the tag's shape, if it has one.
        Each call is a request."""
        self._check_open()
        return Texts(self, _settings.text_name("tag", tag))

    def snowflake(self, name: Optional[str] = None) -> "Snowflake":
        """A source of snowflake ids under a worker id of its own. name: who holds it, one name one
        running source; the library makes one if it is missing."""
        if name is not None:
            _settings.text_name("name", name)
        source = Snowflake(self, name)
        self._keep(source)
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
        with self._lock:
            sources = list(self._sources)
        for source in sources:
            kind = "ids_segment" if isinstance(source, Segment) else "ids_snowflake"
            values[kind] += source._taken()
        return values

    def stats_text(self) -> str:
        """The same for Prometheus."""
        return _stats.text(self.stats())

    def close(self) -> None:
        """Give back worker ids, drop ids that were not used, and end what is under way; again: do
        nothing. Takes attempt_ms at most for each worker id."""
        with self._lock:
            if self._closed.is_set():
                return
            sources = list(self._sources)
        for source in sources:
            source.close()
        self._closed.set()
        self._pool.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, source: "Union[Segment, Snowflake]") -> None:
        with self._lock:
            self._check_open()
            self._sources.append(source)

    def _forget(self, source: "Union[Segment, Snowflake]", kind: str, taken: int) -> None:
        with self._lock:
            if source in self._sources:
                self._sources.remove(source)
                self._stats.add(kind, taken)

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise self._count_error(LeafdError("closed", "the client was closed"))

    def _count_error(self, error: LeafdError) -> LeafdError:
        self._stats.add("errors")
        return error

    def _deadline(self, deadline_ms: Optional[int]) -> float:
        """By the monotonic clock."""
        if deadline_ms is None:
            return time.monotonic() + self._settings.deadline_ms / 1000
        _settings.whole("deadline_ms", deadline_ms, 1, _settings.MS_MAX)
        return time.monotonic() + deadline_ms / 1000

    def _call(self, door: Door, make_request: Callable[[], Request],
              journey: Journey) -> Reply:
        """Ask nodes until one answers, by the journey's deadline. Replies of success alone."""
        while True:
            if self._closed.is_set():
                raise LeafdError("closed", "the client was closed")
            move = journey.move(time.monotonic())
            if move.wait_s > 0:
                self._closed.wait(move.wait_s)
                continue
            self._stats.add("requests")
            if journey.tries > 1:
                self._stats.add("retries")
            request = make_request()
            reply = self._attempt(door, move.node, request, journey)
            if reply is not None and settled(journey, request, reply):
                return reply

    def _call_with_key(self, request: Request, key: Optional[str], deadline: float,
                       read: Callable[[Reply], _T]) -> Tuple[_T, bool]:
        """What a call of a source that holds nothing brings, and whether it was replayed. Its error
        has the key, under which to come again."""
        try:
            reply = self._call(self._ids, lambda: request, Journey(self._ids, lambda: deadline))
            return read(reply), _api.is_replayed(reply)
        except LeafdError as error:
            error.key = key
            raise

    def _attempt(self, door: Door, index: int, request: Request,
                 journey: Journey) -> Optional[Reply]:
        """One request to one node; None: it failed."""
        address = door.addresses[index]
        now = time.monotonic()
        try:
            data = request_bytes(request, address.authority, self._settings.token.current())
            return self._pool.exchange(address, data, journey.limits(self._settings, now))
        except BadAnswer as error:
            raise LeafdError("bad_answer", f"{address}: {error}") from None
        except TimeoutError:
            journey.cut(time.monotonic(), now)
        except OSError as error:
            if not self._closed.is_set():
                journey.broke(error)
        return None

    def _after_fork(self) -> None:
        """In the child, where this is the only thread: nothing of the parent's is used. What
        others held a lock for may be half done: all is made anew."""
        self._lock = threading.Lock()
        closed = self._closed.is_set()
        self._closed = threading.Event()
        if closed:
            self._closed.set()
        self._stats.reset()
        self._pool.inherited()
        for source in list(self._sources):
            source._after_fork()


class Segment:
    """Ids of a tag, from ranges held here. Also an iterator without an end."""

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client
        self._buffer = Buffer()
        self._start()

    def _start(self) -> None:
        self._cond = threading.Condition()
        self._journey: Optional[Journey] = None  # of the request under way
        # What became of the last request that ended because nobody waited any more.
        self._unreachable = LeafdError("unreachable", "no ids came by the deadline")
        self._waiting: List[float] = []  # the deadlines of those who wait
        self._wanted_until = -NEVER  # by who does not wait: try_next()
        self._error: Optional[LeafdError] = None
        self._error_until = 0.0
        self._size = 0  # of the last request
        self._size_taken = 0
        self._size_at = 0.0
        self._closed = False

    def next(self, deadline_ms: Optional[int] = None) -> int:
        """The next id."""
        id = next(self._buffer.piece, None)
        return self._next_slowly(1, deadline_ms)[0] if id is None else id

    def try_next(self) -> Optional[int]:
        """The next id if one is here, else None; asks for more in the background."""
        id = next(self._buffer.piece, None)
        if id is not None:
            return id
        with self._cond:
            if self._closed:
                raise self._client._count_error(self._closed_error())
            while self._buffer.advance():
                id = next(self._buffer.piece, None)
                if id is not None:
                    break
            if id is None:
                self._wanted_until = self._client._deadline(None)
            self._ask_if_due()
            return id

    def next_many(self, count: int, deadline_ms: Optional[int] = None) -> List[int]:
        """So many ids; at most 100000."""
        return self._next_slowly(_settings.whole("count", count, 1, _settings.COUNT_MAX),
                                 deadline_ms)

    def next_range(self, count: int, deadline_ms: Optional[int] = None) -> range:
        """So many ids in one range, by a request of its own; nothing that is held is used."""
        _settings.whole("count", count, 1, _settings.COUNT_MAX)
        client = self._client
        deadline = client._deadline(deadline_ms)
        request = _api.segment_request(self.tag, count, contiguous=True)
        try:
            if self._closed:
                raise self._closed_error()
            client._stats.add("waits")
            reply = client._call(client._ids, lambda: request,
                                 Journey(client._ids, lambda: deadline))
            ids = _api.one_range_of(reply, count)
        except LeafdError as error:
            raise client._count_error(error)
        client._stats.add("ids_segment", count)
        return ids

    def close(self) -> None:
        """Drop what is held; calls that wait get "closed"."""
        with self._cond:
            if self._closed:
                return
            self._closed = True
            self._client._stats.add("burnt", self._buffer.burn())
            self._cond.notify_all()
        self._client._forget(self, "ids_segment", self._buffer.taken)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return self.next()

    def _closed_error(self) -> LeafdError:
        return LeafdError("closed", "the source was closed")

    def _taken(self) -> int:
        with self._cond:
            return self._buffer.taken

    def _next_slowly(self, count: int, deadline_ms: Optional[int]) -> List[int]:
        deadline = self._client._deadline(deadline_ms)
        got: List[int] = []
        waited = False
        with self._cond:
            while True:
                self._check_closed(len(got))
                while len(got) < count and self._buffer.advance():
                    got += self._buffer.take(count - len(got))
                if len(got) == count:
                    self._ask_if_due()
                    return got
                self._check_deadline(deadline, len(got))
                self._ask_if_due()
                self._check_error(len(got))
                if not waited:
                    waited = True
                    self._client._stats.add("waits")
                self._waiting.append(deadline)
                try:  # for the request under way
                    self._cond.wait(max(0.0, deadline - time.monotonic()))
                finally:
                    self._waiting.remove(deadline)

    def _check_deadline(self, deadline: float, burnt: int) -> None:
        if time.monotonic() >= deadline:
            error = self._unreachable if self._journey is None else self._journey.unreachable()
            raise self._fail(copy_of(error), burnt)

    def _check_closed(self, burnt: int) -> None:
        if self._closed:
            raise self._fail(self._closed_error(), burnt)

    def _check_error(self, burnt: int) -> None:
        if self._error is not None and time.monotonic() < self._error_until:
            raise self._fail(copy_of(self._error), burnt)

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
        self._error = None
        size, taken = self._next_size(now), self._buffer.taken
        journey = Journey(self._client._ids, self._request_deadline)
        thread = threading.Thread(target=self._ask, args=(journey, size), daemon=True,
                                  name=f"leafd-segment-{self.tag}")
        try:
            self._journey = journey
            start(thread)
        except OSError as error:
            self._journey = None
            self._error = LeafdError("unreachable", str(error))
            self._error_until = now + FORGET_S
            return
        self._size, self._size_taken, self._size_at = size, taken, now

    def _next_size(self, now: float) -> int:
        settings = self._client._settings
        if self._size == 0:
            return settings.min_count
        return next_size(self._size, self._buffer.taken - self._size_taken, now - self._size_at,
                         settings.cover_ms / 1000, settings.min_count, settings.max_count)

    def _request_deadline(self) -> float:
        """A request goes on as long as somebody waits or ids are left. It is sent once whatever
        happens: who took the last id before its thread began is likely to be back at once."""
        with self._cond:
            if self._closed:
                return -NEVER
            if not self._buffer.empty or (self._journey is not None and self._journey.is_new):
                return NEVER
            return max([*self._waiting, self._wanted_until])

    def _ask(self, journey: Journey, size: int) -> None:
        """One request, in a thread of its own."""
        client = self._client
        ranges: List[range] = []
        failure = None
        try:
            while not ranges:
                request = _api.segment_request(self.tag, size)
                try:
                    reply = client._call(client._ids, lambda: request, journey)
                    ranges = _api.ranges_of(reply, size)
                except LeafdError as error:
                    size = fewer(size, error)
        except LeafdError as error:
            failure = error
        finally:
            self._settle(journey, size, ranges, failure)

    def _settle(self, journey: Journey, size: int, ranges: List[range],
                failure: Optional[LeafdError]) -> None:
        client = self._client
        with self._cond:
            if self._journey is not journey:
                return  # this is no longer the source that asked
            self._journey = None
            self._size = size
            self._cond.notify_all()
            if self._closed:
                client._stats.add("burnt", sum(len(ids) for ids in ranges))
            elif ranges:
                self._buffer.add(ranges)
            elif failure is not None and failure.code == "unreachable":
                self._unreachable = failure
            elif failure is not None and failure.code != "closed":
                self._error = failure
                self._error_until = time.monotonic() + FORGET_S

    def _after_fork(self) -> None:
        closed = self._closed
        self._buffer.burn()  # exhausts the very piece that next() may have in hand
        self._buffer = Buffer()
        self._start()
        self._closed = closed


class Strict:
    """Ids that rise over all nodes and clients; each call is a request."""

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client

    def next(self, key: Optional[str] = None, deadline_ms: Optional[int] = None) -> int:
        """The next id."""
        return self.request(1, key, deadline_ms).first

    def next_many(self, count: int, key: Optional[str] = None,
                  deadline_ms: Optional[int] = None) -> List[int]:
        """So many ids, one behind the other."""
        return list(self.request(count, key, deadline_ms).ids)

    def request(self, count: int = 1, key: Optional[str] = None,
                deadline_ms: Optional[int] = None) -> StrictIds:
        """So many ids, and whether they are those of an earlier request with this key. After an
        error with status 0 or 503 come again with the error's key: no id is lost."""
        client = self._client
        _settings.whole("count", count, 1, _settings.COUNT_MAX)
        key = _api.new_key() if key is None else _settings.idempotency_key(key)
        deadline = client._deadline(deadline_ms)
        request = _api.segment_request(self.tag, count, key=key)
        client._stats.add("waits")
        try:
            ids, replayed = client._call_with_key(
                request, key, deadline, lambda reply: _api.one_range_of(reply, count))
        except LeafdError as error:
            raise client._count_error(error)
        client._stats.add("ids_strict", count)
        return StrictIds(ids[0], ids[-1], replayed)


class Texts:
    """Ids as texts, as the server writes them; each call is a request.

    A tag of mode trend takes no key: the first call finds that out, and the source keeps it.
    """

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client
        self._keyed = True

    def next(self, key: Optional[str] = None, deadline_ms: Optional[int] = None) -> str:
        """The next id."""
        return self.request(1, key, deadline_ms).texts[0]

    def next_many(self, count: int, key: Optional[str] = None,
                  deadline_ms: Optional[int] = None) -> List[str]:
        """So many ids, at most 1000."""
        return self.request(count, key, deadline_ms).texts

    def request(self, count: int = 1, key: Optional[str] = None,
                deadline_ms: Optional[int] = None) -> TextIds:
        """So many ids, and whether they are those of an earlier request with this key. After an
        error with status 0 or 503 that has a key come again with it: no id is lost."""
        client = self._client
        _settings.whole("count", count, 1, _settings.TEXTS_MAX)
        given = None if key is None else _settings.idempotency_key(key)
        deadline = client._deadline(deadline_ms)
        client._stats.add("waits")
        try:
            texts = self._ask(count, given, deadline)
        except LeafdError as error:
            raise client._count_error(error)
        client._stats.add("ids_strict", count)
        return texts

    def _ask(self, count: int, given: Optional[str], deadline: float) -> TextIds:
        if given is not None or self._keyed:
            try:
                return self._ask_with(count, given or _api.new_key(), deadline)
            except LeafdError as error:
                if given is not None or error.code != "bad_key":
                    raise
            self._keyed = False
        return self._ask_with(count, None, deadline)

    def _ask_with(self, count: int, key: Optional[str], deadline: float) -> TextIds:
        request = _api.texts_request(self.tag, count, key)
        return TextIds(*self._client._call_with_key(
            request, key, deadline, lambda reply: _api.texts_of(reply, count)))

    def decode(self, text: str, deadline_ms: Optional[int] = None) -> int:
        """The number of a text of this tag, whether or not it was granted to anyone; it asks the
        admin_endpoints. LeafdError bad_id: no text of the tag's shape, or its check is wrong."""
        client = self._client
        request = _api.decode_request(self.tag, _settings.id_text(text))
        deadline = client._deadline(deadline_ms)
        client._stats.add("waits")
        try:
            return _api.text_id_of(client._call(client._admin, lambda: request,
                                                Journey(client._admin, lambda: deadline)))
        except LeafdError as error:
            raise client._count_error(error)


def made_up_name() -> str:
    """Of a holder of a worker id, for whom the program gave none."""
    host = "".join(c for c in socket.gethostname() if c.isprintable() and c.isascii())[:64]
    return f"{host or 'host'}/{os.getpid()}/{secrets.token_hex(8)}"


class Snowflake:
    """Snowflake ids, made here under a worker id that nobody else uses."""

    def __init__(self, client: Client, name: Optional[str]) -> None:
        self._client = client
        self._name = name
        self._wall_ns = client._wall_ns
        self._generator = self._none()
        self._start()

    def _none(self) -> Generator:
        """A generator that has no id."""
        return Generator(Grant(0, 1, 0, 0, None), Layout(0, 41, 10, 12), lambda: 0)

    def _start(self) -> None:
        self._cond = threading.Condition()
        self._held = False  # whether the generator is one
        self._acquiring = False
        self._renew_at = NEVER
        self._renewing: Optional[Journey] = None
        self._lost: Optional[LeafdError] = None  # what ended the last generator, or a renewal
        self._lost_turn = 0
        self._waiting: List[float] = []
        self._done = 0  # ids of generators before
        self._closed = False

    def next(self, deadline_ms: Optional[int] = None) -> int:
        """The next id."""
        generator = self._generator
        if self._wall_ns() // 1000000 == generator.last_ms:
            id = next(generator.piece, None)
            if id is not None:
                return id
        return self._next_slowly(deadline_ms)

    def next_many(self, count: int, deadline_ms: Optional[int] = None) -> List[int]:
        """So many ids; at most 100000."""
        _settings.whole("count", count, 1, _settings.COUNT_MAX)
        deadline = time.monotonic() + (deadline_ms or self._client._settings.deadline_ms) / 1000
        ids = [self.next(deadline_ms)]
        while len(ids) < count:
            left_ms = max(1, int((deadline - time.monotonic()) * 1000))
            ids.append(self.next(left_ms))
        return ids

    def decode(self, id: int) -> Decoded:
        return self._client.decode(id)

    def close(self) -> None:
        """Give the worker id back with the last time used."""
        with self._cond:
            if self._closed:
                return
            self._closed = True
            generator, held = self._generator, self._held
            self._drop()
            self._cond.notify_all()
        self._client._forget(self, "ids_snowflake", self._done)
        if held:
            self._release(generator)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        return self.next()

    def _taken(self) -> int:
        with self._cond:
            return self._done + self._generator.taken

    def _next_slowly(self, deadline_ms: Optional[int]) -> int:
        client = self._client
        deadline = client._deadline(deadline_ms)
        waited: Dict[str, bool] = {}
        try:
            with self._cond:
                while True:
                    if self._closed:
                        raise LeafdError("closed", "the source was closed")
                    if not self._held:
                        self._get_generator(deadline, waited)
                        continue
                    step = self._generator.step()
                    if step.why is Why.ID:
                        return step.id
                    if step.why is Why.END:
                        raise LeafdError("epoch_exhausted", "the layout's time is over")
                    if step.why is Why.WINDOW:
                        self._wait_renewal(deadline, waited)
                    else:
                        self._wait_clock(deadline, step.wait_ms, waited)
        except LeafdError as error:
            raise client._count_error(error)

    def _count_wait(self, name: str, waited: Dict[str, bool]) -> None:
        if not waited.get(name):
            waited[name] = True
            self._client._stats.add(name)

    def _wait(self, until: float) -> None:
        self._waiting.append(until)
        try:
            self._cond.wait(max(0.0, until - time.monotonic()))
        finally:
            self._waiting.remove(until)

    def _wait_clock(self, deadline: float, wait_ms: int, waited: Dict[str, bool]) -> None:
        self._count_wait("clock_waits", waited)
        now = time.monotonic()
        if now >= deadline:
            raise self._window_over(f"the clock shows {self._wall_ns() // 1000000}, and times up "
                                    f"to {self._generator.last_ms} are used")
        wait_s = wait_ms / 1000
        if wait_ms == 1:  # into the next millisecond, and not a whole one further
            wait_s = (1000000 - self._wall_ns() % 1000000) / 1e9
        wait_s = min(wait_s, deadline - now, CLOCK_LOOK_S)
        if wait_s < SPIN_S:
            time.sleep(wait_s)
        else:
            self._cond.wait(wait_s)

    def _wait_renewal(self, deadline: float, waited: Dict[str, bool]) -> None:
        """The window is over: only a renewal helps."""
        self._count_wait("waits", waited)
        if time.monotonic() >= deadline:
            failure = "" if self._renewing is None else \
                f"; the renewal: {self._renewing.unreachable().message}"
            raise self._window_over(f"the clock shows {self._wall_ns() // 1000000}{failure}")
        turn = self._lost_turn
        if self._renewing is None:
            self._renew_at = min(self._renew_at, time.monotonic())
            self._cond.notify_all()
        until = min(deadline, time.monotonic() + CLOCK_LOOK_S)
        self._waiting.append(deadline)
        try:
            self._cond.wait(max(0.0, until - time.monotonic()))
        finally:
            self._waiting.remove(deadline)
        if self._lost is not None and self._lost_turn != turn:
            raise copy_of(self._lost)

    def _window_over(self, why: str) -> LeafdError:
        generator = self._generator
        return LeafdError("window_over", f"no id within the window of worker id "
                          f"{generator.worker_id}, times above {generator.from_ms} up to "
                          f"{generator.until_ms}: {why}")

    def _get_generator(self, deadline: float, waited: Dict[str, bool]) -> None:
        """Acquire, or wait for the thread that does. Under the lock, which it leaves meanwhile."""
        self._count_wait("waits", waited)
        if self._acquiring:
            if time.monotonic() >= deadline:
                raise LeafdError("unreachable", "no worker id came by the deadline")
            self._wait(deadline)
            return
        self._acquiring = True
        cond = self._cond
        cond.release()
        grant = layout = None
        try:
            grant, layout = self._acquire(deadline)
        finally:
            cond.acquire()
            self._acquiring = False
            cond.notify_all()
        generator = Generator(grant, layout, self._wall_ns)
        if self._closed:
            self._release(generator)
            raise LeafdError("closed", "the source was closed")
        self._client._layout = layout
        self._generator, self._held = generator, True
        self._renew_at = time.monotonic() + self._client._settings.window_ms / 3000
        try:
            start(threading.Thread(target=self._renew_loop, args=(generator,), daemon=True,
                                   name="leafd-snowflake"))
        except OSError as error:
            self._drop()
            raise LeafdError("unreachable", str(error)) from None

    def _acquire(self, deadline: float) -> "tuple[Grant, Layout]":
        client = self._client
        window_ms = client._settings.window_ms

        def request() -> Request:
            # A name of our own is new each time: an answer that was lost may have granted a
            # window, and under the same name the next one begins only behind it.
            return _api.acquire_request(self._name or made_up_name(), window_ms)

        door = client._admin
        grant = _api.grant_of(client._call(door, request, Journey(door, lambda: deadline)))
        if grant.layout is not None:
            return grant, grant.layout
        # The node makes no snowflake ids itself. A renewal gives no new window, and its answer has
        # the layout, too.
        for _ in range(len(door.addresses) - 1):
            door.current = (door.current + 1) % len(door.addresses)
            reply = client._call(
                door, lambda: _api.renew_request(grant.worker_id, grant.epoch, window_ms, None),
                Journey(door, lambda: deadline))
            told = _api.grant_of(reply)
            if told.layout is not None:
                return told._replace(from_ms=max(told.from_ms, grant.from_ms)), told.layout
        self._release(Generator(grant, Layout(0, 41, 10, 12), self._wall_ns))
        raise LeafdError("layout_unknown", "no node knows the layout of the cluster's ids: "
                         "each has snowflake.workers = 0")

    def _release(self, generator: Generator) -> None:
        """With the last time used; what fails is left to the window's end."""
        client = self._client
        last_ms = generator.used_ms or generator.from_ms
        until = time.monotonic() + client._settings.attempt_ms / 1000
        try:
            client._call(client._admin, lambda: _api.release_request(
                generator.worker_id, generator.epoch, last_ms),
                Journey(client._admin, lambda: until))
        except LeafdError:
            pass

    def _drop(self) -> None:
        """The generator, under the lock. No thread takes an id of it from now on."""
        self._generator.drop()
        self._done += self._generator.taken
        self._generator, self._held = self._none(), False
        self._renew_at = NEVER

    def _renew_loop(self, generator: Generator) -> None:
        """Renew the generator's window in time, as long as it is the source's."""
        while True:
            with self._cond:
                while self._generator is generator and time.monotonic() < self._renew_at:
                    left = self._renew_at - time.monotonic()
                    self._cond.wait(None if left == NEVER else left)
                if self._generator is not generator:
                    return
                journey = self._renewing = Journey(
                    self._client._admin, lambda: self._renewal_deadline(generator))
            error = self._renew(generator, journey)
            with self._cond:
                if self._generator is not generator:
                    return
                self._renewing = None
                self._settle_renewal(error)
                self._cond.notify_all()

    def _renewal_deadline(self, generator: Generator) -> float:
        """A renewal is tried as long as ids go on or somebody waits for it."""
        with self._cond:
            if self._generator is not generator:
                return -NEVER
            if self._wall_ns() // 1000000 <= generator.until_ms:
                return NEVER
            return max(self._waiting, default=-NEVER)

    def _renew(self, generator: Generator, journey: Journey) -> Optional[LeafdError]:
        client = self._client

        def request() -> Request:
            return _api.renew_request(generator.worker_id, generator.epoch,
                                      client._settings.window_ms, generator.used_ms)

        try:
            grant = _api.grant_of(client._call(client._admin, request, journey))
        except LeafdError as error:
            return error
        if (grant.worker_id, grant.epoch) != (generator.worker_id, generator.epoch):
            return LeafdError("bad_answer", f"renewed worker id {generator.worker_id}, epoch "
                              f"{generator.epoch}; the answer is of {grant.worker_id}, "
                              f"{grant.epoch}")
        with self._cond:
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
        """The parent has its worker id still: nothing of it is used or released here."""
        closed = self._closed
        self._generator.drop()
        self._generator = self._none()
        self._start()
        self._closed = closed


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
