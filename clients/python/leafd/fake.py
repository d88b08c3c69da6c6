"""A client without a cluster, for a program's own tests:

    client = leafd.fake.Client()
    client.set_next("order", 1000)
    assert client.segment("order").next() == 1000
    client.fail("order", leafd.LeafdError("unreachable", "no node answered"))

Ids of a tag, or of a name, are counted from 1 in memory. Failure modes: those that fail() says.
Threads: any.
"""
from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import DefaultDict, Deque, Dict, List, Optional

from ._api import Decoded, Layout, new_key
from ._client import IdSource
from ._errors import LeafdError, copy_of
from ._settings import COUNT_MAX, text_name, whole
from ._sources import StrictIds

__all__ = ["Client", "Segment", "Snowflake", "Strict"]

LAYOUT = Layout(1288834974657, 41, 10, 12)


class Client:
    """What leafd.Client is to its sources."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: DefaultDict[str, int] = defaultdict(lambda: 1)
        self._errors: DefaultDict[str, Deque[LeafdError]] = defaultdict(deque)
        self._by_key: "Dict[tuple[str, str], int]" = {}

    def segment(self, tag: str) -> "Segment":
        return Segment(self, text_name("tag", tag))

    def strict(self, tag: str) -> "Strict":
        return Strict(self, text_name("tag", tag))

    def snowflake(self, name: Optional[str] = None) -> "Snowflake":
        return Snowflake(self, text_name("name", name or "snowflake"))

    def set_next(self, tag: str, id: int) -> None:
        """The next id of a tag, or of a snowflake source's name."""
        with self._lock:
            self._next[tag] = id

    def fail(self, tag: str, error: LeafdError, times: int = 1) -> None:
        """So many calls of the tag's sources raise the error, before they give ids again."""
        with self._lock:
            self._errors[tag].extend([error] * times)

    def close(self) -> None:
        pass

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, tag: str, count: int, key: Optional[str] = None) -> "tuple[int, bool]":
        """The first of so many ids, and whether another call with the key had been given them."""
        whole("count", count, 1, COUNT_MAX)
        with self._lock:
            if self._errors[tag]:
                error = copy_of(self._errors[tag].popleft())
                error.key = key
                raise error
            if key is not None and (tag, key) in self._by_key:
                return self._by_key[tag, key], True
            first = self._next[tag]
            self._next[tag] += count
            if key is not None:
                self._by_key[tag, key] = first
            return first, False


class _Source:
    def __init__(self, client: Client, tag: str) -> None:
        self.tag = tag
        self._client = client
        self._closed = False

    def close(self) -> None:
        """Later calls raise "closed"."""
        self._closed = True

    def _take(self, count: int, key: Optional[str] = None) -> "tuple[int, bool]":
        if self._closed:
            raise LeafdError("closed", "the source was closed")
        return self._client._take(self.tag, count, key)


class Segment(_Source):
    def next(self, deadline_ms: Optional[int] = None) -> int:
        return self._take(1)[0]

    def try_next(self) -> Optional[int]:
        return self.next()

    def next_many(self, count: int, deadline_ms: Optional[int] = None) -> List[int]:
        return list(self.next_range(count))

    def next_range(self, count: int, deadline_ms: Optional[int] = None) -> range:
        first = self._take(count)[0]
        return range(first, first + count)


class Strict(_Source):
    def next(self, key: Optional[str] = None, deadline_ms: Optional[int] = None) -> int:
        return self.request(1, key).first

    def next_many(self, count: int, key: Optional[str] = None,
                  deadline_ms: Optional[int] = None) -> List[int]:
        return list(self.request(count, key).ids)

    def request(self, count: int = 1, key: Optional[str] = None,
                deadline_ms: Optional[int] = None) -> StrictIds:
        first, replayed = self._take(count, key or new_key())
        return StrictIds(first, first + count - 1, replayed)


class Snowflake(Segment):
    def decode(self, id: int) -> Decoded:
        return LAYOUT.decode(id)

    def at(self, time_ms: int) -> int:
        return LAYOUT.at(time_ms)


_: "tuple[type[IdSource], ...]" = (Segment, Strict, Snowflake)  # for the checker of types
