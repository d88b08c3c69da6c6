"""What a segment source holds: a range that is handed out, and a spare one.

The path of an id is next(buffer.piece, None), with no lock: the interpreter does one step of a
range's iterator at once. A range is handed out in pieces, so that the end of a piece is where the
owner looks whether to ask for more: the first half is one piece, the rest are PIECES. All else
here is done under the owner's lock. An interpreter without its global lock gets pieces that have
a lock of their own. A range that is dropped is used up for nobody, so a thread that has its piece
in hand gets no id of it either: each id is handed out or counted as dropped, never both.
"""
from __future__ import annotations

import sys
import threading
from collections import deque
from itertools import islice
from operator import length_hint
from typing import Deque, Iterator, List, NamedTuple, Optional, Tuple

from ._errors import LeafdError

PIECES = 8
_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class LockedPiece:
    """A range's iterator for threads that really run at once."""

    def __init__(self, ids: range) -> None:
        self._ids = iter(ids)
        self._lock = threading.Lock()

    def __iter__(self) -> "LockedPiece":
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._ids)

    def __length_hint__(self) -> int:
        with self._lock:
            return length_hint(self._ids)


def piece_of(ids: range) -> Iterator[int]:
    return iter(ids) if _GIL else LockedPiece(ids)


def use_up(piece: Iterator[int]) -> int:
    """Take all that is left, for nobody; how many that were."""
    return len(list(piece))  # in one step, so that each id is another thread's or counted here


class Answer(NamedTuple):
    """The ids that a node granted at once."""

    ranges: List[range]
    generation: int  # of the node's data; -1: it names none
    asked_at: float  # by the monotonic clock
    replayed: bool = False  # another request with the same key had been given them before

    @property
    def size(self) -> int:
        return sum(len(ids) for ids in self.ranges)


NOTHING = Answer([], -1, float("inf"))


def cut(ranges: List[range]) -> List[Tuple[range, bool]]:
    """The pieces of an answer, in order; True: with its first id less than half is left."""
    total = sum(len(one) for one in ranges)
    half = total // 2
    size = max(1, -(-(total - half) // PIECES))
    pieces: List[Tuple[range, bool]] = []
    for ids in ranges:
        front = min(len(ids), half)
        half -= front
        if front:
            pieces.append((ids[:front], False))
        pieces += [(ids[at:at + size], True) for at in range(front, len(ids), size)]
    return pieces


def next_size(before: int, taken: int, elapsed_s: float, cover_s: float, low: int,
              high: int) -> int:
    """How many ids to ask for, when so many were taken since the last request, which was for
    before."""
    wanted = taken * cover_s / elapsed_s if elapsed_s > 0 else high
    return min(max(round(max(wanted, before / 2)), low), before * 2, high)


class Rate:
    """How many ids to ask for: what was taken since the last request, by the time in which there
    were ids to take. Times are those of the monotonic clock."""

    def __init__(self) -> None:
        self.size = 0  # of the last request
        self._taken = 0  # at that time
        self._at = 0.0
        self._waited_s = 0.0  # since then, with nothing held
        self._waits_since: Optional[float] = None

    def wait(self, now: float) -> None:
        """A caller waits, and nothing is held."""
        if self._waits_since is None:
            self._waits_since = now

    def go(self, now: float) -> None:
        """There are ids again, or nobody waits for them."""
        if self._waits_since is not None:
            self._waited_s += now - self._waits_since
            self._waits_since = None

    def next(self, taken: int, now: float, cover_s: float, low: int, high: int) -> int:
        """taken: how many were handed out, ever."""
        waits = self._waits_since is not None
        self.go(now)
        self.size = low if self.size == 0 else next_size(
            self.size, taken - self._taken, now - self._at - self._waited_s, cover_s, low, high)
        self._taken, self._at, self._waited_s = taken, now, 0.0
        if waits:
            self.wait(now)
        return self.size


def fewer(size: int, error: LeafdError) -> int:
    """How many to ask for where size are more than are left below the tag's max: half as many,
    down to one. Raises another error, and what one id is refused with."""
    if error.code != "exhausted" or size == 1:
        raise error
    return size // 2


class Buffer:
    def __init__(self) -> None:
        self.piece: Iterator[int] = iter(())
        self._piece_size = 0
        self._pieces: Deque[Tuple[range, bool]] = deque()
        self._front = NOTHING  # what the pieces are of
        self._spare: Optional[Answer] = None
        self._done = 0  # ids of pieces that were used up
        self._past_half = True
        self._highest = -1  # of what was added

    def add(self, answer: Answer, late: bool = False) -> int:
        """An answer came. How many ids are not taken, all or none: there is no room; or it is late,
        and below those of the answer that was taken in its place."""
        if self._spare is not None or (late and answer.ranges[0][0] < self._highest):
            return answer.size
        self._spare = answer
        self._highest = answer.ranges[-1][-1]
        return 0

    def advance(self) -> bool:
        """The piece is used up: take the next one; False: there is none."""
        if length_hint(self.piece):
            return True
        if not self._pieces:
            if self._spare is None:
                return False
            self._front, self._spare = self._spare, None
            self._pieces.extend(cut(self._front.ranges))
            self._past_half = False
        self._done += self._piece_size
        ids, past = self._pieces.popleft()
        self._past_half = self._past_half or past
        self._piece_size = len(ids)
        self.piece = piece_of(ids)
        return True

    def take(self, count: int) -> List[int]:
        """Up to count ids of the piece."""
        return list(islice(self.piece, count))

    @property
    def wants(self) -> bool:
        """Whether it is time to ask for more."""
        return self._spare is None and self._past_half

    @property
    def left(self) -> int:
        """How many ids are held."""
        return (length_hint(self.piece) + sum(len(ids) for ids, _ in self._pieces)
                + (self._spare or NOTHING).size)

    @property
    def empty(self) -> bool:
        return self._spare is None and not self._pieces and not length_hint(self.piece)

    @property
    def taken(self) -> int:
        """How many ids were handed out, ever."""
        return self._done + self._piece_size - length_hint(self.piece)

    @property
    def asked_at(self) -> float:
        """When the oldest range that is held was asked for; infinite: none is held."""
        front = NOTHING if not self._pieces and not length_hint(self.piece) else self._front
        return min(front.asked_at, (self._spare or NOTHING).asked_at)

    def burn(self) -> int:
        """Drop everything; how many ids that were."""
        return self._drop_front() + self._drop_spare()

    def drop_aged(self, asked_by: float) -> int:
        """Drop what was asked for by then; how many ids that were."""
        dropped = self._drop_front() if self._front.asked_at <= asked_by else 0
        if self._spare is not None and self._spare.asked_at <= asked_by:
            dropped += self._drop_spare()
        return dropped

    def drop_older(self, generation: int) -> int:
        """Drop what a node of an older generation granted; how many ids that were."""
        dropped = self._drop_front() if 0 <= self._front.generation < generation else 0
        if self._spare is not None and 0 <= self._spare.generation < generation:
            dropped += self._drop_spare()
        return dropped

    def _drop_front(self) -> int:
        left = use_up(self.piece)
        self._done += self._piece_size - left
        self._piece_size = 0
        left += sum(len(ids) for ids, _ in self._pieces)
        self._pieces.clear()
        self._front = NOTHING
        self._past_half = True
        return left

    def _drop_spare(self) -> int:
        dropped = (self._spare or NOTHING).size
        self._spare = None
        return dropped
