"""The way of one call from node to node: which is asked next, and after which wait.

It decides, and does nothing: both clients (threads, asyncio) drive it. The happy path: begin()
takes the nodes, move() says try one, it answers. Failure modes: failed() and cut() go to the next
node, and after all of them to a wait that doubles; quota() waits and stays; past the deadline
move() raises unreachable, or the quota's error; untrusted once no node of a round was trusted, and
other_cluster where all are of another one.
"""
from __future__ import annotations

import os
import random
import ssl
import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from . import _api
from ._buffer import Answer
from ._door import NEVER, Door
from ._errors import LeafdError
from ._http import Reply, Request
from ._settings import Address, Settings
from ._sources import TextIds

FIRST_WAIT_S = 0.020
LONGEST_WAIT_S = 1.0
# What a node has for an answer in the first round, or a quarter of attempt_ms, if that is longer.
FIRST_PATIENCE_S = 1.0
USUAL_LEAST_S = 0.020
RESOLVE_AGAIN_S = 30.0
REMEMBERED = 64  # ranges of a source
TIER_PATIENCE = 1.5  # so many times as long as a node a whole tier may be silent


class Usual:
    """How long an answer with ranges usually takes: a moving average."""

    def __init__(self, first_s: float) -> None:
        self._average_s: Optional[float] = None
        self._first_s = first_s  # before any was measured

    def add(self, took_s: float) -> None:
        average_s = self._average_s
        self._average_s = took_s if average_s is None else average_s + (took_s - average_s) / 8

    @property
    def patience_s(self) -> float:
        """After which a second node is asked, where a caller waits."""
        return 2 * (self._first_s if self._average_s is None
                    else max(self._average_s, USUAL_LEAST_S))


class Limits(NamedTuple):
    """Of one try: what a new connection may take, without TLS, and the end of all of it."""

    connect_s: float
    until: float


class Move(NamedTuple):
    """What to do next: wait if wait_s > 0, else try the node."""

    wait_s: float
    node: Address


class Journey:
    """deadline: asked each time, by the same clock as move()'s now; the one of a segment's request
    lasts as long as somebody waits. beside: one under way; this one begins at the next of its tier.
    node: the one that is asked, or will be next; asked_at: when it was, infinite while none is."""

    def __init__(self, door: Door, deadline: Callable[[], float],
                 uniform: Callable[[float, float], float] = random.uniform,
                 beside: "Optional[Journey]" = None) -> None:
        self.door = door
        self.deadline = deadline
        self.tries = 0
        self.on_round: Optional[Callable[[], None]] = None  # all nodes failed
        self.on_nodes: Optional[Callable[[], None]] = None  # they are others now
        self.second: Any = None  # of leafd.Client: the second request beside this one
        self.wanted = True  # False: another journey brought what this one is for
        self.asked_at = NEVER
        self._uniform = uniform
        self.begun = beside is not None  # this round, with the nodes of now
        self.node: Address = door.current if beside is None else \
            door.beside(beside.node) or door.current
        self._known = door.nodes
        self.nodes = door.route(self.node)  # of this round, in order
        self._failed = 0  # in this round
        self._untrusted = 0  # of these by their certificate
        self._trusted = True  # False: not a node of a round, and no other round would change it
        self.rounds = 0  # that are over
        self._round_wait_s = FIRST_WAIT_S
        self._least_s = 0.0  # what Retry-After said in this round
        self._wait_s = 0.0
        self._failures: Dict[Address, str] = {}
        self._quota: Optional[LeafdError] = None

    @property
    def is_new(self) -> bool:
        """No try of it has ended."""
        return not self._failures and self._quota is None

    def looks(self, now: float) -> Tuple[bool, bool]:
        """Whether names are to be resolved before this round, and whether it waits for that."""
        waits = self.rounds > 0 or self.door.resolved_at == -NEVER
        return waits or now - self.door.resolved_at >= RESOLVE_AGAIN_S, waits

    def begin(self) -> None:
        """A round, with the nodes of now."""
        self.begun = True
        known, self._known = self._known, self.door.nodes
        self.nodes = self.door.route(self.door.current)
        self.node = self.nodes[0]
        if known != self._known:
            self._failures = {node: why for node, why in self._failures.items()
                              if node in self.nodes} or self._failures
            if self.on_nodes is not None:
                self.on_nodes()

    def _next(self) -> Address:
        return self.nodes[(self.nodes.index(self.node) + 1) % len(self.nodes)]

    def move(self, now: float) -> Move:
        left = self.deadline() - now
        if left <= 0:
            raise self.unreachable()
        if not self._trusted:
            raise LeafdError("untrusted", "no node has a certificate that is trusted here "
                             f"(ca_file); {self._told()}")
        if self._wait_s > 0:
            wait_s, self._wait_s = min(self._wait_s, left), 0.0
            self.asked_at = NEVER
            return Move(wait_s, self.node)
        if self.door.foreign:
            others = [self.door.foreign.get(node) for node in self.nodes]
            if all(others):
                raise LeafdError("other_cluster", f"the nodes are of {others[0]}: ids of the two may be "
                                 "the same. If that is meant, make a new client; else correct endpoints")
            why = self.door.foreign.get(self.node)
            if why is not None:
                self.failed(f"it is of {why}")
                return self.move(now)
        self.tries += 1
        self.asked_at = now
        return Move(0.0, self.node)

    def limits(self, settings: Settings, now: float) -> Limits:
        """Of a try. Both are longer in each round. A node that is silent leaves time for the others
        of the round."""
        attempt_s = settings.attempt_ms / 1000
        doubled = 2.0 ** min(self.rounds, 20)
        deadline = self.deadline()
        left = settings.deadline_ms / 1000 if deadline == NEVER else deadline - now
        share = left / (len(self.nodes) - self._failed)
        patience_s = min(max(FIRST_PATIENCE_S, attempt_s / 4) * doubled, attempt_s)
        return Limits(min(settings.connect_ms / 1000 * doubled, attempt_s), now + min(
            patience_s, patience_s * TIER_PATIENCE / self.door.sharers(self.node), share))

    def cut(self, now: float, began: float) -> None:
        """The node of the last move did not answer in time. Where it was the deadline that left it
        none, the failure before says more."""
        why = f"no answer within {round((now - began) * 1000)} ms"
        quota = None
        if now >= self.deadline():
            why, quota = self._failures.get(self.node, why), self._quota
        self.failed(why)
        self._quota = quota

    def broke(self, error: Exception) -> None:
        """The exchange with the node of the last move brought no answer."""
        untrusted = isinstance(error, ssl.SSLCertVerificationError)
        self._untrusted += 1 if untrusted else 0
        self.failed(str(error) or type(error).__name__)

    def _wait(self, least_s: float) -> None:
        """After a round, or a quota."""
        self._wait_s = max(self._uniform(self._round_wait_s / 2, self._round_wait_s), least_s)
        self._round_wait_s = min(self._round_wait_s * 2, LONGEST_WAIT_S)

    def failed(self, why: str, retry_after_s: float = 0.0) -> None:
        """The node of the last move could not be reached, or answered 502, 503 or 504."""
        self._failures[self.node] = why
        self._quota = None
        next_one = self._next()
        self.door.leave(self.node, next_one)
        self.node = next_one
        self._least_s = max(self._least_s, retry_after_s)
        self._failed += 1
        if self._failed == len(self.nodes):
            self._wait(self._least_s)
            self._trusted = self._untrusted < self._failed
            self._failed = self._untrusted = 0
            self.rounds += 1
            self.begun = self.door.is_fixed or not self._trusted
            self._least_s = 0.0
            if self.on_round is not None:
                self.on_round()

    def quota(self, error: LeafdError, retry_after_s: float) -> None:
        """The node of the last move answered 429 quota: it is asked again."""
        self._quota = error
        self._wait(retry_after_s)

    def unreachable(self) -> LeafdError:
        if self._quota is not None:
            return self._quota
        return LeafdError("unreachable", "no node answered by the deadline; "
                          + (self._told() or "none was asked in time"))

    def _told(self) -> str:
        return "; ".join(f"{node}: {why}" for node, why in self._failures.items())


def settled(journey: Journey, request: Request, reply: Reply) -> bool:
    """Whether the reply ends the call with success. False: the journey goes on; LeafdError: it
    ends."""
    error = _api.error_of(reply, request.success)
    if error is None:
        return True
    if 502 <= error.status <= 504:  # the node, or a proxy that gets no answer from it
        journey.failed(str(error), _api.retry_after(reply))
    elif error.code == "quota" and error.status == 429:
        journey.quota(error, _api.retry_after(reply))
    else:
        if error.code == "bad_answer" and error.status >= 300:  # it is no leafd: the next call begins elsewhere
            journey.door.leave(journey.node)
        raise error
    return False


_remembering = threading.Lock()  # of what all sources know; a child of fork finds it free
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_remembering.acquire, after_in_parent=_remembering.release,
                        after_in_child=_remembering.release)


class Mark(NamedTuple):
    """What had come before a call for ids that rise began: they are above that."""

    generation: int
    above: int
    own: bool  # the call's key is the library's, and nobody else knows it


class Given(NamedTuple):
    """A range that came, or the first text of an answer."""

    generation: int
    key: Optional[str]
    first: Any
    last: Any


class Known:
    """What a source knows of its tag from answers: whether ids are a step apart, the newest
    generation of a node's data, and the last ranges. saw: told the generation of an answer; whether
    it is not older. Any thread."""

    def __init__(self, tag: str, saw: Optional[Callable[[int], bool]] = None) -> None:
        self.tag = tag
        self.stepped = False
        self.newest = -1
        self._top = (-1, -1)  # a generation, and the highest id of it that came
        self._given: Deque[Given] = deque(maxlen=REMEMBERED)
        self._saw = saw or self.note

    def note(self, generation: int) -> bool:
        fresh = generation >= self.newest
        self.newest = generation if fresh else self.newest
        return fresh

    def mark(self, own: bool) -> Mark:
        return Mark(*self._top, own)

    def request(self, count: int, one: bool, key: Optional[str]) -> Request:
        """one: all ids in one range"""
        return _api.segment_request(self.tag, count, one and key is None, key, self.stepped)

    def repeats(self, error: LeafdError, request: Request) -> bool:
        """Whether the error is that ids are a step apart, which the next request can take."""
        if error.code != "stepped" or request.target.endswith("&stepped=1"):
            return False
        self.stepped = True
        return True

    def read(self, reply: Reply, count: int, request: Request, one: bool, key: Optional[str],
             mark: Optional[Mark], journey: Journey) -> Optional[Answer]:
        """None: the node's data is older than another's was, or its answer came before, and the
        journey goes on. mark: where ids rise."""
        ranges = _api.ranges_of(reply, count, request.target.endswith("&stepped=1"))
        if one and len(ranges) != 1:
            raise _api.bad_answer(reply, "and not one range")
        answer = Answer(ranges, _api.generation_of(reply), journey.asked_at,
                        _api.is_replayed(reply))
        given = [Given(answer.generation, key, ids[0], ids[-1]) for ids in ranges]
        return answer if self._takes(given, answer.replayed, mark, journey) else None

    def read_texts(self, reply: Reply, count: int, key: Optional[str],
                   journey: Journey) -> Optional[TextIds]:
        """None: as of read(). Of each answer the first text is remembered."""
        texts = TextIds(_api.texts_of(reply, count), _api.is_replayed(reply))
        given = [Given(_api.generation_of(reply), key, texts.texts[0], texts.texts[0])]
        return texts if self._takes(given, texts.replayed, None, journey) else None

    def _takes(self, given: List[Given], replayed: bool, mark: Optional[Mark],
               journey: Journey) -> bool:
        generation = given[0].generation
        if generation >= 0 and not self._saw(generation):
            why: Optional[str] = \
                f"its data is of generation {generation}, and {self.newest} was seen"
        else:
            with _remembering:
                why = self._repeated(given, replayed, mark)
                if why is None:
                    self._given.extend(given)
                    if mark is not None:
                        self._top = max(self._top, (generation, given[-1].last))
        if why is not None:
            journey.failed(why)
        return why is None

    def _repeated(self, given: List[Given], replayed: bool, mark: Optional[Mark]) -> Optional[str]:
        """Why an answer's ids are not new, as those of an answer that a cache or a proxy gives
        again. A key gets its ids again."""
        first = given[0].first
        if mark is not None and (mark.own or not replayed) \
                and given[0].generation == mark.generation and first <= mark.above:
            return f"its answer has id {first}, and {mark.above} came before it was asked for"
        for new in given:
            if any(new.first <= one.last and new.last >= one.first for one in self._given
                   if one.generation == new.generation
                   and (new.key is None or one.key != new.key)):
                return f"its answer has ids {new.first} to {new.last}, which came before"
        return None
