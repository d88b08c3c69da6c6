"""What a segment source holds: a range that is handed out, and a spare one.

The path of an id is next(buffer.piece, None), with no lock: the interpreter does one step of a
range's iterator at once. A range is handed out in pieces, so that the end of a piece is where the
owner looks whether to ask for more: the first half is one piece, the rest are PIECES. All else
here is done under the owner's lock. An interpreter without its global lock gets pieces that have
a lock of their own.
"""
from __future__ import annotations

import sys
import threading
from collections import deque
from itertools import islice
from operator import length_hint
from typing import Deque, Iterator, List, Optional, Tuple

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
    left = length_hint(piece)
    deque(piece, maxlen=0)
    return left


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
        self._spare: Optional[List[range]] = None
        self._done = 0  # ids of pieces that were used up
        self._past_half = True

    def add(self, ranges: List[range]) -> None:
        """An answer came; there must be no spare one."""
        if self._spare is not None:
            raise AssertionError("two requests at once")
        self._spare = ranges

    def advance(self) -> bool:
        """The piece is used up: take the next one; False: there is none."""
        if length_hint(self.piece):
            return True
        if not self._pieces:
            if self._spare is None:
                return False
            self._pieces.extend(cut(self._spare))
            self._spare = None
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
    def empty(self) -> bool:
        return self._spare is None and not self._pieces and not length_hint(self.piece)

    @property
    def taken(self) -> int:
        """How many ids were handed out, ever."""
        return self._done + self._piece_size - length_hint(self.piece)

    def burn(self) -> int:
        """Drop everything; how many ids that were."""
        left = use_up(self.piece)
        burnt = left + sum(len(ids) for ids, _ in self._pieces)
        burnt += sum(len(ids) for ids in self._spare or ())
        self._done += self._piece_size - left
        self._piece_size = 0
        self._pieces.clear()
        self._spare = None
        self._past_half = True
        return burnt
