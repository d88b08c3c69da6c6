"""Snowflake ids under one worker id, without a network and with the clock as a parameter.

One rule makes them unique: an id carries a time t with from_ms < t <= until_ms, and a sequence that
was not used in t before. It is a rule about the number in the id, and not about the moment at which
it is made: a process that is stopped anywhere does no harm.

The path of an id is "the clock shows last_ms, take the next of piece", with no lock; all else is
done under the owner's lock.
"""
from __future__ import annotations

import enum
import secrets
from operator import length_hint
from typing import Callable, Iterator, NamedTuple, Optional

from ._api import Grant, Layout
from ._buffer import piece_of, use_up

SMALL_STEP_MS = 5  # a clock that goes back by so little is waited for


class Why(enum.Enum):
    """What keeps the next id."""

    ID = "nothing"
    CLOCK = "the clock shows times that were used already"
    WINDOW = "the clock is behind the window's end"
    END = "the layout has no time left"


class Step(NamedTuple):
    why: Why
    id: int = 0
    wait_ms: int = 0  # until the clock can show a time that may be used


class Generator:
    """piece: ids of last_ms that were not used; last_ms: the highest time used, or from_ms."""

    def __init__(self, grant: Grant, layout: Layout, wall_ns: Callable[[], int],
                 below: Callable[[int], int] = secrets.randbelow) -> None:
        self.worker_id = grant.worker_id
        self.epoch = grant.epoch
        self.from_ms = grant.from_ms
        self.until_ms = grant.until_ms
        self.layout = layout
        self.last_ms = max(grant.from_ms, layout.epoch_ms)
        self.piece: Iterator[int] = iter(())
        self._done = 0
        self._piece_size = 0
        self._wall_ns = wall_ns
        self._below = below

    def extend(self, until_ms: int) -> None:
        """A renewal was acknowledged."""
        self.until_ms = max(self.until_ms, until_ms)

    @property
    def used_ms(self) -> Optional[int]:
        """The highest time used; None: none was."""
        return self.last_ms if self.taken else None

    @property
    def taken(self) -> int:
        return self._done + self._piece_size - length_hint(self.piece)

    def drop(self) -> None:
        """No id comes from here any more."""
        left = use_up(self.piece)
        self._done += self._piece_size - left
        self._piece_size = 0

    def step(self) -> Step:
        """The next id, or what keeps it."""
        now = self._wall_ns() // 1000000
        if now > self.last_ms:
            if now > self.until_ms:
                return Step(Why.WINDOW)
            if now - self.layout.epoch_ms >> self.layout.time_bits:
                return Step(Why.END)
            self._open(now)
        behind_ms = self.last_ms - now
        if 0 < behind_ms <= SMALL_STEP_MS:
            return Step(Why.CLOCK, 0, behind_ms)
        id = next(self.piece, None)
        if id is not None:
            return Step(Why.ID, id)
        return Step(Why.CLOCK, 0, behind_ms + 1)

    def _open(self, now: int) -> None:
        """Begin a millisecond: anywhere, so that the lowest digits are even; at 0 after a full one."""
        layout = self.layout
        sequences = 1 << layout.sequence_bits
        full = now == self.last_ms + 1 and self._piece_size > 0 and not length_hint(self.piece)
        first = 0 if full else self._below(sequences)
        base = (now - layout.epoch_ms) << (layout.worker_bits + layout.sequence_bits)
        base |= self.worker_id << layout.sequence_bits
        self._done += self._piece_size - length_hint(self.piece)
        self._piece_size = sequences - first
        # In this order: who sees the new time finds its ids, too.
        self.piece = piece_of(range(base | first, (base | (sequences - 1)) + 1))
        self.last_ms = now
