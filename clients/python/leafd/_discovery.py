"""Learns the nodes of the cluster, their zones, weights and states, from one that is known.

It decides, and does nothing: both clients (threads, asyncio) drive it. The happy path: due() before
each round of a call; once AGAIN_S have passed, the client goes through steps(): the node that calls
begin with is asked for the listing, and the doors take it. A door whose calls begin at a node of a
worse tier than the listing has moves to a better one once that one has answered the same request. So
has each node that is listed before it is asked for ids: an address may lead to another cluster.
Failure modes: a node without an answer is left for the next; where all that answer do not know the
request (404), they are older servers, and none is asked for OLDER_S; a node of another cluster than
the first listing's gets no other request; whatever fails, calls go on with
what is known. Only the first call waits, for wait_s() at most. None of it is in the counters.
"""
from __future__ import annotations

import json
import re
import threading
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Set, Tuple

from ._door import LAST_TIER, NEVER, NODES_MAX, Door, Listed
from ._errors import LeafdError
from ._events import Event
from ._http import Reply, Request
from ._journey import Journey
from ._settings import Address, Settings, address

REQUEST = Request("GET", "/api/nodes")
AGAIN_S = 5.0
OLDER_S = 60.0
AFTER_FAILURES_S = 1.0
ATTEMPT_LEAST_S = 1.0
LISTED_MAX = 48
WEIGHT_MAX = 1000
UID_MAX = 64
_AT = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}")

# The nodes to be asked at once; their replies come back in the same order.
Steps = Generator[List[Address], List[Optional[Reply]], None]


class Row(NamedTuple):
    id: int
    address: Address
    zone: object
    weight: int
    ready: bool
    snowflake: bool


class Listing(NamedTuple):
    """self_id: of the node that gave it; uid: of its cluster; rows: by their numbers."""

    self_id: int
    uid: Optional[str]
    rows: Dict[int, Row]


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def listing_of(reply: Optional[Reply], secure: bool) -> Optional[Listing]:
    """None: it is no listing. Rows that cannot be asked are left out. secure: as of the node."""
    try:
        body = json.loads(reply.body) if reply is not None and reply.status == 200 else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not _is_id(body.get("self")) \
            or not isinstance(body.get("nodes"), list):
        return None
    rows = {}
    for one in body["nodes"]:
        row: Dict[str, Any] = one if isinstance(one, dict) else {}
        at, weight = row.get("http_address"), row.get("weight", -1)
        if not isinstance(at, str) or not _AT.fullmatch(at) or not _is_id(row.get("id")) \
                or isinstance(weight, bool) or not isinstance(weight, int) \
                or not 0 <= weight <= WEIGHT_MAX:
            continue
        try:
            where = address("http_address", f"{'https' if secure else 'http'}://{at}")
        except LeafdError:
            continue  # such as a port of 0
        rows[row["id"]] = Row(row["id"], where, row.get("zone"), weight,
                              row.get("state") == "ready", row.get("snowflake") is True)
    uid = body.get("uid")
    return Listing(body["self"], uid if isinstance(uid, str) else None, rows)


class Discovery:
    """doors: the nodes of the first one are asked. on_known: the first listing was taken, or there is
    none."""

    def __init__(self, doors: List[Door], zone: Optional[str],
                 on_known: Callable[[], None], tell: Callable[[Event], None]) -> None:
        self.known = False
        self._doors = doors
        self._zone = zone
        self._on_known = on_known
        self._tell = tell
        self._uid: Optional[str] = None  # of the client's cluster: the first that a listing had
        self._told = False  # that a listing has another
        self._again_s = 0.0
        self._asked_at = -NEVER
        self._found: Optional[Listing] = None
        self._proven: Set[Tuple[int, Address]] = set()
        self._answered: Set[Tuple[int, Address]] = set()  # of these, since the last listing
        self._foreign: Dict[Address, str] = {}  # whose last listing was of another cluster: of which
        for door in doors:
            door.discovers = True
            door.foreign = self._foreign
        self.reset()

    def reset(self) -> None:
        """Also in a child of fork: nothing is under way."""
        self._lock = threading.Lock()
        self._asking = False

    def due(self, journey: Journey, now: float) -> bool:
        """A round of the journey begins: True: go through steps() now, and then call end()."""
        least_s = self._again_s
        if journey.rounds > 0 and least_s == AGAIN_S:
            least_s = AFTER_FAILURES_S
        with self._lock:
            if self._asking or now - self._asked_at < least_s:
                return False
            self._asking = True
            self._asked_at = now
            return True

    @staticmethod
    def attempt_s(settings: Settings) -> float:
        """What one request may take."""
        return max(ATTEMPT_LEAST_S, settings.attempt_ms / 4000)

    def wait_s(self, journey: Journey, settings: Settings, now: float) -> float:
        """How long the round may wait until the first listing is known."""
        left_s = journey.deadline() - now
        return 0.0 if self.known else max(0.0, min(self.attempt_s(settings), left_s / 2))

    def end(self) -> None:
        self._know()
        self._asking = False

    def steps(self) -> Steps:
        lists = yield from self._list()
        if not lists:
            return
        for door in self._doors:
            moved = None
            for node in door.better():
                right = yield from self._prove(door, [node])
                if right:
                    moved = node
                    break
            door.move_to(moved)
        self._know()
        for door in self._doors:  # before they are needed
            yield from self._prove(door, [node for node in door.known if not (
                door.row(node) or Listed(0, node, 0, 0, True)).proven])

    def _know(self) -> None:
        self.known = True
        self._on_known()

    def _list(self) -> Generator[List[Address], List[Optional[Reply]], bool]:
        """Whether there is a listing."""
        first, older = self._doors[0], False
        for node in first.route(first.current):
            reply, = yield [node]
            older = older or (reply is not None and reply.status == 404)
            found = self._listing(node, reply)
            if found is None:
                continue
            self._uid = self._uid or found.uid
            self._again_s = AGAIN_S
            self._found = found
            self._answered = set()
            # One that was gone has to be proven anew.
            self._proven &= {row[:2] for row in found.rows.values()}
            own = found.rows.get(found.self_id)
            if own is not None and own.address == node._replace(ip=None):
                self._proven.add(own[:2])
            self._list_at_doors()
            return True
        self._again_s = OLDER_S if older else AGAIN_S
        if older:
            self._found = None
            self._list_at_doors()
        return False

    def _listing(self, node: Address, reply: Optional[Reply]) -> Optional[Listing]:
        """None also for one of another cluster."""
        listing = listing_of(reply, node.secure)
        if listing is None:
            return None
        self._foreign.pop(node, None)
        if not self._uid or not listing.uid or listing.uid == self._uid:
            return listing
        if len(self._foreign) == NODES_MAX:
            del self._foreign[next(iter(self._foreign))]  # the oldest
        self._foreign[node] = f"cluster {listing.uid[:UID_MAX]}, and this client's is {self._uid}"
        if not self._told:
            self._told = True
            self._tell(Event("other_cluster", from_url=str(node)))
        return None

    def _list_at_doors(self) -> None:
        for door in self._doors:
            rows = [Listed(row.id, row.address, self._tier(row, door), row.weight,
                           row[:2] in self._proven)
                    for row in (self._found.rows.values() if self._found else ())]
            door.list(sorted(rows, key=lambda row: row.tier)[:LISTED_MAX])

    def _tier(self, row: Row, door: Door) -> int:
        if not row.ready or row.weight == 0 or (door.for_snowflakes and not row.snowflake):
            return LAST_TIER
        return 1 if self._zone is None or row.zone == self._zone else 2

    def _prove(self, door: Door,
               nodes: List[Address]) -> Generator[List[Address], List[Optional[Reply]], bool]:
        """Whether the last of the nodes is the one that is listed: it knows its own number, and the
        address of the node that listed it."""
        found = self._found
        rows = [door.row(node) for node in nodes]
        if found is None or not nodes:
            return False
        keys = [(row.id, row.address) for row in rows if row is not None]
        if all(key in self._answered for key in keys):
            return True  # for another door
        lister = found.rows.get(found.self_id)
        replies = yield nodes
        right = False
        for node, key, reply in zip(nodes, keys, replies):
            listing = self._listing(node, reply)
            same = None if listing is None or lister is None else listing.rows.get(lister.id)
            right = listing is not None and lister is not None and same is not None \
                and listing.self_id == key[0] and same.address == lister.address
            if right:
                self._answered.add(key)
                self._proven.add(key)
        self._list_at_doors()
        return right
