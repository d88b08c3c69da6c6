"""The client for threads, and its sources of ids (docs/clients.md).

The happy path: segment("order").next() takes from a range that is in the process; a thread asks
for the next one in time. Failure modes: every call ends by its deadline, with ids or a LeafdError.
Threads: everything may be called from any. Fork: the child drops all that it inherited.
"""
from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, Optional, Protocol, \
    Sequence, TypeVar, Union, cast

from . import _api, _settings, _stats
from ._api import Decoded, Grant, Layout
from ._buffer import Answer, Buffer, Rate, fewer
from ._discovery import REQUEST, Discovery
from ._door import NEVER, Door
from ._errors import LeafdError, bad_setting, copy_of
from ._events import Event, Teller
from ._generator import SMALL_STEP_MS, Generator, Why
from ._http import BadAnswer, Reply, Request, request_bytes
from ._journey import Journey, Known, Limits, Mark, Usual, settled
from ._settings import Address
from ._sources import CLOCK_LOOK_S, FORGET_S, StrictIds, TextIds, Told, check_open, is_final, \
    made_up_name, no_generator, strict_ids
from ._wire import Connection, Pool, start, wait_until

_T = TypeVar("_T")

SPIN_S = 0.002  # a shorter one sleeps just so long

_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


class IdSource(Protocol):
    """What sources of numbers have in common, those of leafd.fake too: for a program's own code."""

    def next(self, *, deadline_ms: Optional[int] = None) -> int:
        """The next id."""

    def next_many(self, count: int, *, deadline_ms: Optional[int] = None) -> List[int]:
        """So many ids."""

    def close(self) -> None:
        """Later calls raise "closed"."""


class _Second:
    """The second request of a call, which its thread has begun where the first takes long (it is a
    Slow). What it brings ends the wait for the first one's connection."""

    def __init__(self, client: "Client", first: Journey, call: "Callable[[Journey], object]",
                 deadline: float) -> None:
        self.at = time.monotonic() + client._usual.patience_s
        self.over = False  # nobody wants what it brings
        self.begun = False
        self.done = threading.Event()
        self.answer: object = None
        self.error: Optional[LeafdError] = None
        self._client = client
        self._first = first
        self._call = call
        self._deadline = deadline
        self._lock = threading.Lock()
        self._waiting: Optional[Connection] = None

    @property
    def decided(self) -> bool:
        return self.answer is not None or self.error is not None

    def attach(self, connection: Optional[Connection]) -> None:
        with self._lock:
            self._waiting = connection
        if not self.begun:
            self.at = self._first.asked_at + self._client._usual.patience_s
        elif connection is not None and self.decided:
            raise ConnectionError("another node has answered")

    def begin(self) -> None:
        self.at = NEVER
        if self._client._ids.beside(self._first.node) is None:
            return
        self.begun = True
        second = Journey(self._client._ids, lambda: -NEVER if self.over else self._deadline,
                         beside=self._first)
        try:
            start(threading.Thread(target=self._run, args=(second, self._first.node),
                                   name="leafd-second", daemon=True))
        except OSError:
            self.done.set()
            return
        self._client._stats.add("hedges")

    def _run(self, second: Journey, slow: Address) -> None:
        try:
            self.answer = self._call(second)
            if not self.over:
                second.door.leave(slow)  # which is where the next call would begin
        except LeafdError as error:
            self.error = error if is_final(error) else None
        finally:
            self.done.set()
            with self._lock:
                if self.decided and self._waiting is not None:
                    self._waiting.abort()


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
                 zone: Optional[str] = None, discover: Optional[bool] = None,
                 connect_ms: int = 300, attempt_ms: int = 4000, deadline_ms: int = 10000,
                 cover_ms: int = 10000, min_count: int = 100, max_count: int = 100000,
                 window_ms: int = 60000, max_age_ms: int = 3600000,
                 on_event: Optional[Callable[[Event], object]] = None,
                 _wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._settings = _settings.make(endpoints, admin_endpoints, token, token_file, ca_file,
                                        cert_file, key_file, zone, discover, connect_ms,
                                        attempt_ms, deadline_ms, cover_ms, min_count, max_count,
                                        window_ms, max_age_ms)
        if on_event is not None and not callable(on_event):
            raise bad_setting("on_event", on_event, "a function of an Event")
        self._wall_ns = _wall_ns
        self._teller = Teller(on_event)
        self._stats = _stats.Stats()
        self._ids = Door(self._settings.endpoints, self._stats, self._tell)
        self._admin = Door(self._settings.admin_endpoints, self._stats, self._tell, True)
        self._pool = Pool(self._settings.tls, self._found)
        self._listed = threading.Event()  # the first listing of nodes, or that there is none
        # Other admin endpoints are of another listener, which no listing has.
        same = self._settings.admin_endpoints == self._settings.endpoints
        self._discovery = Discovery([self._ids, self._admin] if same else [self._ids],
                                    self._settings.zone, lambda: self._listed.set(),
                                    self._tell) \
            if self._settings.discover else None
        self._layout: Optional[Layout] = None
        self._sources: List[Union[Segment, Snowflake]] = []
        self._usual = Usual(connect_ms / 1000)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._closing = False  # close() was called: no more sources are made
        self._releases: Dict[threading.Event, int] = {}  # see _releasing(): by which thread
        self._ager: Optional[threading.Thread] = None
        self._ager_wake: "queue.SimpleQueue[None]" = queue.SimpleQueue()
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
        return self._known_layout().decode(id)

    def at(self, time_ms: int) -> int:
        """The smallest snowflake id of a time in Unix milliseconds, for scans of ids by time."""
        return self._known_layout().at(time_ms)

    def _known_layout(self) -> Layout:
        if self._layout is None:
            raise self._count_error(LeafdError(
                "layout_unknown", "a snowflake source learns the layout with its first id"))
        return self._layout

    def stats(self) -> Dict[str, int]:
        """Counters since the client was made (in a child of fork: since the fork)."""
        values = self._stats.values()
        with self._lock:
            sources = list(self._sources)
        for source in sources:
            kind = "ids_segment" if isinstance(source, Segment) else "ids_snowflake"
            values[kind] += source._taken()
        return values

    def gauges(self) -> _stats.Gauges:
        """What is held now. Sources of one tag are taken together."""
        gauges = _stats.Gauges({}, {}, {})
        with self._lock:
            sources = list(self._sources)
        for source in sources:
            source._measure(gauges)
        return gauges

    def stats_text(self) -> str:
        """Counters and gauges for Prometheus."""
        return _stats.text(self.stats(), self.gauges())

    def close(self) -> None:
        """Give back worker ids, drop ids that were not used, and end what is under way; again: do
        nothing. Takes attempt_ms at most for each worker id."""
        with self._lock:
            self._closing = True
            sources = list(self._sources)
        for source in sources:
            source.close()
        with self._lock:
            others = [done for done, thread in self._releases.items()
                      if thread != threading.get_ident()]
        for done in others:
            done.wait(self._settings.attempt_ms / 1000)
        self._closed.set()
        self._ager_wake.put(None)
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

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        """A source is closed meanwhile: a close() of the client, by another thread, waits for it."""
        done = threading.Event()
        with self._lock:
            self._releases[done] = threading.get_ident()
        try:
            yield
        finally:
            with self._lock:
                self._releases.pop(done, None)  # else this is a child of fork
            done.set()

    def _check_open(self) -> None:
        if self._closing:
            raise self._count_error(LeafdError("closed", "the client was closed"))

    def _tell(self, event: Event) -> None:
        """No lock is held here: the hook may do what it likes."""
        self._teller.tell(event)

    def _count_error(self, error: LeafdError) -> LeafdError:
        self._stats.add("errors")
        return error

    def _deadline(self, deadline_ms: Optional[int]) -> float:
        """By the monotonic clock."""
        if deadline_ms is None:
            return time.monotonic() + self._settings.deadline_ms / 1000
        _settings.whole("deadline_ms", deadline_ms, 1, _settings.MS_MAX)
        return time.monotonic() + deadline_ms / 1000

    def _found(self, address: Address, ips: List[str]) -> None:
        """The resolver says so, by one thread at a time."""
        for door in (self._ids, self._admin):
            if address in door.names:
                door.found(address, ips)
        self._pool.keep({*self._ids.known, *self._admin.known})

    def _begin(self, journey: Journey) -> None:
        """A round, after names were resolved where that is due."""
        if self._discovery is not None:
            self._look(self._discovery, journey)
        now = time.monotonic()
        door = journey.door
        looks, waits = journey.looks(now)
        if looks and door.names:
            until = min(now + self._settings.connect_ms / 1000, journey.deadline())
            try:
                lookups = [self._pool.resolver.begin(name) for name in door.names]
                for lookup in lookups if waits else ():
                    lookup.done.wait(max(0.0, until - time.monotonic()))
            except OSError:
                pass  # no thread: the nodes are those that were known
            door.resolved_at = now
        journey.begin()

    def _look(self, discovery: Discovery, journey: Journey) -> None:
        """Have nodes listed, where that is due."""
        now = time.monotonic()
        if discovery.due(journey, now):
            try:
                start(threading.Thread(target=self._discover, args=(discovery,), daemon=True,
                                       name="leafd-discover"))
            except OSError:
                discovery.end()
        wait_s = discovery.wait_s(journey, self._settings, now)
        if wait_s > 0:
            self._listed.wait(wait_s)

    def _discover(self, discovery: Discovery) -> None:
        """In a thread of its own."""
        try:
            steps = discovery.steps()
            nodes = next(steps, None)
            while nodes is not None:
                try:
                    nodes = steps.send(self._ask_nodes(nodes))
                except StopIteration:
                    nodes = None
        finally:
            discovery.end()
        self._pool.keep({*self._ids.known, *self._admin.known})

    def _ask_nodes(self, nodes: List[Address]) -> List[Optional[Reply]]:
        """All at once, but the first, each in a thread."""
        settings = self._settings
        replies: List[Optional[Reply]] = [None] * len(nodes)

        def ask(at: int) -> None:
            until = time.monotonic() + Discovery.attempt_s(settings)
            try:
                data = request_bytes(REQUEST, nodes[at].authority, settings.token.current())
                replies[at] = self._pool.exchange(nodes[at], data,
                                                  Limits(settings.connect_ms / 1000, until))
            except (BadAnswer, OSError):
                pass

        threads = [threading.Thread(target=ask, args=(at,), daemon=True, name="leafd-discover")
                   for at in range(1, len(nodes))]
        try:
            for thread in threads:
                start(thread)
        except OSError:
            return replies
        ask(0)
        for thread in threads:
            thread.join()
        return list(replies)

    def _call(self, door: Door, make_request: Callable[[], Request],
              journey: Journey) -> Reply:
        """Ask nodes until one answers, by the journey's deadline. Replies of success alone."""
        while True:
            if self._closed.is_set():
                raise LeafdError("closed", "the client was closed")
            if not journey.begun:
                self._begin(journey)
            if journey.second is not None and journey.second.decided:
                raise LeafdError("unreachable", "another node has answered")
            move = journey.move(time.monotonic())
            if move.wait_s > 0:
                self._closed.wait(move.wait_s)
                continue
            self._stats.add("requests")
            if journey.tries > 1:
                self._stats.add("retries")
            request = make_request()
            reply = self._attempt(move.node, request, journey)
            if reply is not None and settled(journey, request, reply):
                return reply

    def _call_twice(self, call: Callable[[Journey], _T], deadline: float) -> _T:
        """A call that gets the same whichever node answers: a second one is asked where the first
        takes long."""
        first = Journey(self._ids, lambda: deadline)
        second = first.second = _Second(self, first, call, deadline)
        try:
            return call(first)
        except LeafdError as error:
            if second.begun and not is_final(error):
                second.done.wait(max(0.0, deadline - time.monotonic()))
            if second.answer is not None:
                return cast(_T, second.answer)
            raise second.error or error
        finally:
            second.over = True

    def _call_for_ranges(self, known: Known, count: int, journey: Journey, one: bool = False,
                         key: Optional[str] = None, mark: Optional[Mark] = None) -> Answer:
        """What a source asks for ids; one: in one range."""
        while True:
            request = known.request(count, one, key)
            try:
                reply = self._call(self._ids, lambda: request, journey)
            except LeafdError as error:
                if known.repeats(error, request):
                    continue
                raise
            asked_at = journey.asked_at
            answer = known.read(reply, count, request, one, key, mark, journey)
            if answer is not None:
                self._usual.add(time.monotonic() - asked_at)
                return answer
            self._stats.add("burnt", count)

    def _attempt(self, address: Address, request: Request,
                 journey: Journey) -> Optional[Reply]:
        """One request to one node; None: it failed."""
        now = time.monotonic()
        try:
            data = request_bytes(request, address.authority, self._settings.token.current())
            return self._pool.exchange(address, data, journey.limits(self._settings, now),
                                       journey.second)
        except BadAnswer as error:
            raise LeafdError("bad_answer", f"{address}: {error}") from None
        except TimeoutError:
            journey.cut(time.monotonic(), now)
        except OSError as error:
            if not self._closed.is_set():
                journey.broke(error)
        return None

    def _watch_ages(self) -> None:
        """A range came, which is to be dropped in time. OSError: there can be no thread for it."""
        with self._lock:
            if self._ager is None:
                wake = self._ager_wake
                thread = threading.Thread(target=_drop_aged, name="leafd-age", daemon=True,
                                          args=(weakref.ref(self, lambda _: wake.put(None)),
                                                wake))
                start(thread)
                self._ager = thread
        self._ager_wake.put(None)

    def _drop_aged(self) -> float:
        """Of all sources; how many seconds may pass until the next look."""
        with self._lock:
            sources = [one for one in self._sources if isinstance(one, Segment)]
        return min((one._drop_aged() for one in sources), default=NEVER)

    def _after_fork(self) -> None:
        """In the child, where this is the only thread: nothing of the parent's is used. What
        others held a lock for may be half done: all is made anew."""
        self._lock = threading.Lock()
        closed = self._closed.is_set()
        self._closed = threading.Event()
        if closed:
            self._closed.set()
        self._releases = {}
        self._stats.reset()
        self._ids.lock, self._admin.lock = threading.Lock(), threading.Lock()
        listed, self._listed = self._listed.is_set(), threading.Event()
        if listed:
            self._listed.set()
        if self._discovery is not None:
            self._discovery.reset()
        self._pool.inherited()
        self._ager = None
        self._ager_wake = queue.SimpleQueue()
        for source in list(self._sources):
            source._after_fork()


def _drop_aged(find: "Callable[[], Optional[Client]]", wake: "queue.SimpleQueue[None]") -> None:
    """A thread that ends with its client, closed or forgotten. What wakes it takes no lock: a client
    is forgotten in the middle of anything, or once the interpreter has stopped this thread there."""
    while True:
        while not wake.empty():
            wake.get()
        client = find()
        if client is None or client._closed.is_set():
            return
        left_s = client._drop_aged()
        del client
        try:
            wake.get(timeout=None if left_s == NEVER else max(0.0, left_s))
        except queue.Empty:
            continue


class Segment(Told[Client]):
    """Ids of a tag, from ranges held here. Also an iterator without an end."""

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client
        self._buffer = Buffer()
        self._start()

    def _start(self) -> None:
        self._cond = threading.Condition()
        self._known = Known(self.tag, self._saw)
        self._rate = Rate()
        self._journeys: List[Journey] = []  # of requests under way, two at most
        # What became of the last request that ended because nobody waited any more.
        self._unreachable = LeafdError("unreachable", "no ids came by the deadline")
        self._waiting: List[float] = []  # the deadlines of those who wait
        self._wanted_until = -NEVER  # by who does not wait: try_next()
        self._error: Optional[LeafdError] = None
        self._error_until = 0.0
        self._failing = False
        self._closed = False

    def next(self, deadline_ms: Optional[int] = None) -> int:
        """The next id."""
        for id in self._buffer.piece:  # one step of it: faster than next()
            return id
        return self._next_slowly(1, deadline_ms)[0]

    def try_next(self) -> Optional[int]:
        """The next id if one is here, else None; asks for more in the background."""
        id = next(self._buffer.piece, None)
        if id is not None:
            return id
        with self._cond:
            if self._closed:
                raise self._client._count_error(LeafdError("closed", "the source was closed"))
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
        """So many ids in one range, by a request of its own; nothing that is held is used. Where
        the tag's ids are a step apart, the range has that step."""
        _settings.whole("count", count, 1, _settings.COUNT_MAX)
        client = self._client
        deadline = client._deadline(deadline_ms)
        try:
            check_open(self._closed)
            client._stats.add("waits")
            answer = client._call_for_ranges(self._known, count,
                                             Journey(client._ids, lambda: deadline), one=True)
        except LeafdError as error:
            with self._cond:
                self._drop_paused(error)
            raise client._count_error(error)
        client._stats.add("ids_segment", count)
        return answer.ranges[0]

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

    __next__ = next

    def _measure(self, gauges: _stats.Gauges) -> None:
        with self._cond:
            left, asked_at = self._buffer.left, self._buffer.asked_at
        age_ms = max(0, round((time.monotonic() - asked_at) * 1000)) if asked_at < NEVER else 0
        gauges.ids_left[self.tag] = gauges.ids_left.get(self.tag, 0) + left
        gauges.range_age_ms[self.tag] = max(gauges.range_age_ms.get(self.tag, 0), age_ms)

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
                self._waiting.append(deadline)
                try:
                    self._ask_if_due()
                    self._check_error(len(got))
                    if not waited:
                        waited = True
                        self._client._stats.add("waits")
                    now = time.monotonic()
                    self._rate.wait(now)
                    wait_until(self._cond, min(deadline, self._second_at(now)))
                finally:
                    self._waiting.remove(deadline)
                    if not self._waiting:
                        self._rate.go(time.monotonic())

    def _check_deadline(self, deadline: float, burnt: int) -> None:
        if time.monotonic() >= deadline:
            error = self._journeys[0].unreachable() if self._journeys else self._unreachable
            raise self._fail(copy_of(error), burnt)

    def _check_closed(self, burnt: int) -> None:
        if self._closed:
            raise self._fail(LeafdError("closed", "the source was closed"), burnt)

    def _check_error(self, burnt: int) -> None:
        if self._error is not None and time.monotonic() < self._error_until:
            raise self._fail(copy_of(self._error), burnt)

    def _ask_if_due(self) -> None:
        """Begin a request in the background, unless one is under way, none is needed, or the last
        one's error is not forgotten yet. One that takes long while a caller waits gets a second one
        beside it, at the next node."""
        now = time.monotonic()
        if len(self._journeys) == 2 or not self._buffer.wants or self._closed:
            return
        if self._error is not None and now < self._error_until:
            return
        first = next((one for one in self._journeys if one.wanted), None)
        if first is not None and now < self._second_at(now):
            return
        client = self._client
        settings = client._settings
        self._error = None
        journey = Journey(client._ids, lambda: self._request_deadline(journey), beside=first)
        journey.on_nodes = self._look
        journey.on_round = lambda: self._tell_failure("unreachable")
        journey.asked_at = now
        size = self._rate.size if first is not None else self._rate.next(
            self._buffer.taken, now, settings.cover_ms / 1000, settings.min_count,
            settings.max_count)
        thread = threading.Thread(target=self._ask, args=(journey, size), daemon=True,
                                  name=f"leafd-segment-{self.tag}")
        self._journeys.append(journey)
        try:
            start(thread)
        except OSError as error:
            self._journeys.remove(journey)
            if first is None:
                self._error = LeafdError("unreachable", str(error))
                self._error_until = now + FORGET_S
            return
        if first is not None:
            client._stats.add("hedges")

    def _second_at(self, now: float) -> float:
        """When those who wait may have a second node asked, or have to look again."""
        if not self._waiting or not self._buffer.empty or len(self._journeys) != 1 \
                or not self._journeys[0].wanted or self._client._ids.beside(self._journeys[0].node) is None:
            return NEVER
        asked_at = self._journeys[0].asked_at
        return (now if asked_at == NEVER else asked_at) + self._client._usual.patience_s

    def _look(self) -> None:
        """Those who wait look whether there is a second node now."""
        with self._cond:
            self._cond.notify_all()

    def _request_deadline(self, journey: Journey) -> float:
        """A request goes on as long as somebody waits or ids are left. It is sent once whatever
        happens: who took the last id before its thread began is likely to be back at once."""
        with self._cond:
            if self._closed or not journey.wanted:
                return -NEVER
            if not self._buffer.empty or journey.is_new:
                return NEVER
            return max([*self._waiting, self._wanted_until])

    def _ask(self, journey: Journey, size: int) -> None:
        """One request, in a thread of its own."""
        answer = failure = None
        try:
            while answer is None:
                try:
                    answer = self._client._call_for_ranges(self._known, size, journey)
                    self._client._watch_ages()
                except LeafdError as error:
                    size = fewer(size, error)
        except LeafdError as error:
            failure = error
        except OSError as error:
            failure, answer = LeafdError("unreachable", str(error)), None
            self._client._stats.add("burnt", size)
        finally:
            self._settle(journey, size, answer, failure)

    def _settle(self, journey: Journey, size: int, answer: Optional[Answer],
                failure: Optional[LeafdError]) -> None:
        client = self._client
        slow = None
        with self._cond:
            if journey not in self._journeys:
                return  # this is no longer the source that asked
            self._journeys.remove(journey)
            other = self._journeys[0] if self._journeys and self._journeys[0].wanted else None
            self._cond.notify_all()
            if failure is not None:
                self._drop_paused(failure)
            if answer is not None:
                if self._closed or 0 <= answer.generation < self._known.newest \
                        or answer.asked_at <= self._paused_at:
                    client._stats.add("burnt", answer.size)
                    answer = None
                else:
                    client._stats.add("burnt", self._buffer.add(answer, not journey.wanted))
                    self._rate.go(time.monotonic())
            if answer is not None and journey.wanted:
                self._rate.size = size
                if other is not None:
                    other.wanted = False
                    slow = other
            elif failure is not None and journey.wanted and failure.code != "closed":
                self._fail_request(failure, other)
        if slow is not None:
            client._ids.leave(slow.node)  # which is where the next one would begin
        if answer is not None:
            client._ager_wake.put(None)
            self._tell_recovery()
        elif failure is not None and journey.wanted and failure.code != "closed":
            self._tell_failure(failure.code)

    def _fail_request(self, failure: LeafdError, other: Optional[Journey]) -> None:
        """What those who wait are told; while another request is under way, what a node refused."""
        if failure.code in ("unreachable", "quota"):
            self._unreachable = failure
        elif other is None or is_final(failure):
            self._error = failure
            self._error_until = time.monotonic() + FORGET_S

    def _saw(self, generation: int) -> bool:
        with self._cond:
            fresh = self._known.note(generation)
            dropped = self._buffer.drop_older(generation) if fresh else 0
        self._tell_dropped("generation", dropped)
        return fresh

    def _drop_aged(self) -> float:
        """How many seconds may pass until the next look."""
        max_age_s = self._client._settings.max_age_ms / 1000
        with self._cond:
            now = time.monotonic()
            dropped = self._buffer.drop_aged(now - max_age_s)
            left_s = self._buffer.asked_at + max_age_s - now
        self._tell_dropped("aged", dropped)
        return left_s

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
        self._known = Known(tag)
        self._closed = False

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
        mark = self._known.mark(own=key is None)
        key = _api.new_key() if key is None else _settings.idempotency_key(key)
        deadline = client._deadline(deadline_ms)
        client._stats.add("waits")
        try:
            check_open(self._closed)
            answer = client._call_twice(lambda journey: client._call_for_ranges(
                self._known, count, journey, True, key, mark), deadline)
        except LeafdError as error:
            error.key = key
            raise client._count_error(error)
        client._stats.add("ids_strict", count)
        return strict_ids(answer.ranges[0], answer.replayed)

    def close(self) -> None:
        """Later calls get "closed"."""
        self._closed = True


class Texts:
    """Ids as texts, as the server writes them; each call is a request.

    A tag of mode trend takes no key: the first call finds that out, and the source keeps it.
    """

    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client
        self._known = Known(tag)
        self._keyed = True
        self._closed = False

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
            check_open(self._closed)
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
        client = self._client
        request = _api.texts_request(self.tag, count, key)

        def call(journey: Journey) -> TextIds:
            while True:
                reply = client._call(client._ids, lambda: request, journey)
                texts = self._known.read_texts(reply, count, key, journey)
                if texts is not None:
                    return texts

        try:  # two answers without a key would be ids of two calls
            return client._call_twice(call, deadline) if key is not None else \
                call(Journey(client._ids, lambda: deadline))
        except LeafdError as error:
            error.key = key
            raise

    def decode(self, text: str, deadline_ms: Optional[int] = None) -> int:
        """The number of a text of this tag, whether or not it was granted to anyone; it asks the
        admin_endpoints. LeafdError bad_id: no text of the tag's shape, or its check is wrong."""
        client = self._client
        request = _api.decode_request(self.tag, _settings.id_text(text))
        deadline = client._deadline(deadline_ms)
        client._stats.add("waits")
        try:
            check_open(self._closed)
            return _api.text_id_of(client._call(client._admin, lambda: request,
                                                Journey(client._admin, lambda: deadline)))
        except LeafdError as error:
            raise client._count_error(error)

    def close(self) -> None:
        """Later calls get "closed"."""
        self._closed = True


class Snowflake:
    """Snowflake ids, made here under a worker id that nobody else uses."""

    def __init__(self, client: Client, name: Optional[str]) -> None:
        self._client = client
        self._name = name
        self._wall_ns = client._wall_ns
        self._generator = no_generator()
        self._start()

    def _start(self) -> None:
        self._cond = threading.Condition()
        self._held = False  # whether the generator is one
        self._held_name = ""  # under which it was acquired
        self._acquiring = False
        self._renew_at = NEVER
        self._renewed_at = -NEVER  # when the last one was answered
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

    def at(self, time_ms: int) -> int:
        return self._client.at(time_ms)

    def close(self) -> None:
        """Give the worker id back with the last time used."""
        with self._client._releasing():
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

    def _measure(self, gauges: _stats.Gauges) -> None:
        if self._held:
            gauges.window_end_ms[self._held_name] = self._generator.until_ms

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
            wait_until(self._cond, until)
        finally:
            self._waiting.remove(until)

    def _wait_clock(self, deadline: float, wait_ms: int, waited: Dict[str, bool]) -> None:
        if "clock_waits" not in waited:
            behind_ms = self._generator.last_ms - self._wall_ns() // 1000000
            if behind_ms > SMALL_STEP_MS:
                self._cond.release()
                try:
                    self._client._tell(Event("clock_back", name=self._held_name, ms=behind_ms))
                finally:
                    self._cond.acquire()
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
        """The window is over: only a renewal helps, and none that follows another at once (a clock
        that is ahead by more than a window)."""
        self._count_wait("waits", waited)
        if time.monotonic() >= deadline:
            failure = "" if self._renewing is None else \
                f"; the renewal: {self._renewing.unreachable().message}"
            raise self._window_over(f"the clock shows {self._wall_ns() // 1000000}{failure}")
        turn = self._lost_turn
        if self._renewing is None:
            self._renew_at = min(self._renew_at, self._renewed_at + min(
                FORGET_S, self._client._settings.window_ms / 3000))
            self._cond.notify_all()
        until = min(deadline, time.monotonic() + CLOCK_LOOK_S)
        self._waiting.append(deadline)
        try:
            wait_until(self._cond, until)
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
            cond.release()
            try:
                self._release(generator)
            finally:
                cond.acquire()
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
            self._held_name = self._name or made_up_name()
            return _api.acquire_request(self._held_name, window_ms)

        door = client._admin
        grant = _api.grant_of(client._call(door, request, Journey(door, lambda: deadline)))
        if grant.layout is not None:
            return grant, grant.layout
        # The node makes no snowflake ids itself. A renewal gives no new window, and its answer has
        # the layout, too.
        for node in door.route(door.current)[1:]:
            door.current = node
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
        self._generator, self._held = no_generator(), False
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
            if error is not None and error.code in ("fenced", "unknown_worker"):
                self._client._tell(Event("fenced", name=self._held_name))

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
            self._renewed_at = now
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
        self._generator = no_generator()
        self._start()
        self._closed = closed


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
