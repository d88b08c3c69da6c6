"""What the sources of both clients (threads, asyncio) have in common: it neither waits nor locks."""
from __future__ import annotations

import os
import secrets
import socket
import time
from math import inf
from typing import Generic, List, NamedTuple, Protocol, TypeVar

from ._api import Grant, Layout
from ._buffer import Buffer
from ._errors import LeafdError
from ._events import Event
from ._generator import Generator
from ._stats import Stats

FORGET_S = 1.0  # an error of a background request
CLOCK_LOOK_S = 0.1  # how often a long wait for the clock looks at it


class _StrictIds(NamedTuple):
    first: int
    last: int
    replayed: bool


class StrictIds(_StrictIds):
    """Ids of a strict tag, both bounds included; replayed: another request with the same key had
    been given them before; increment: from one to the next."""

    increment = 1

    @property
    def ids(self) -> range:
        return range(self.first, self.last + 1, self.increment)


class TextIds(NamedTuple):
    """Ids as texts; replayed: another request with the same key had been given them before."""

    texts: List[str]
    replayed: bool


def strict_ids(ids: range, replayed: bool) -> StrictIds:
    strict = StrictIds(ids[0], ids[-1], replayed)
    strict.increment = ids.step
    return strict


def is_final(error: LeafdError) -> bool:
    """Whether another node would refuse it as well."""
    return error.status > 0 and error.code != "bad_answer"


def check_open(closed: bool) -> None:
    if closed:
        raise LeafdError("closed", "the source was closed")


def made_up_name() -> str:
    """Of a holder of a worker id, for whom the program gave none."""
    host = "".join(c for c in socket.gethostname() if c.isprintable() and c.isascii())[:64]
    return f"{host or 'host'}/{os.getpid()}/{secrets.token_hex(8)}"


def no_generator() -> Generator:
    """One that has no id."""
    return Generator(Grant(0, 1, 0, 0, None), Layout(0, 41, 10, 12), lambda: 0)


class Owner(Protocol):
    """A client, as its sources see it."""

    _stats: Stats

    def _tell(self, event: Event) -> None: ...

    def _count_error(self, error: LeafdError) -> LeafdError: ...


_Client = TypeVar("_Client", bound=Owner)


class Told(Generic[_Client]):
    """A segment source: what it says of its tag, by counters and events."""

    tag: str
    _client: _Client
    _buffer: Buffer
    _failing: bool
    _paused_at = -inf  # when a node said last that the tag is, by the monotonic clock

    def _fail(self, error: LeafdError, burnt: int) -> LeafdError:
        """burnt: ids that the call had taken already."""
        if burnt:
            self._client._stats.add("burnt", burnt)
        return self._client._count_error(error)

    def _tell_failure(self, code: str) -> None:
        """Once, until ids come again."""
        if not self._failing:
            self._failing = True
            self._client._tell(Event("refill_failed", tag=self.tag, code=code))

    def _tell_recovery(self) -> None:
        if self._failing:
            self._failing = False
            self._client._tell(Event("recovered", tag=self.tag))

    def _tell_dropped(self, kind: str, dropped: int) -> None:
        if dropped:
            self._client._stats.add("burnt", dropped)
            self._client._tell(Event(kind, tag=self.tag, ids=dropped))

    def _drop_paused(self, error: LeafdError) -> None:
        """What is held of a tag that is paused, or was asked for by now, is handed out no more."""
        if error.code == "paused":
            self._paused_at = time.monotonic()
            self._client._stats.add("burnt", self._buffer.burn())
