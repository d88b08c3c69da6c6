"""The nodes for one kind of requests, in tiers, and the one that calls begin with.

The happy path: calls begin at `current`, one of the best tier that was drawn by weight, and keep to
it. Failure modes: a call whose node fails goes by route(): through that node's tier, then through
the others from the best one on; leave() has the next calls begin there. A node that is listed and no
endpoint is asked for ids once it is proven (_discovery.py). Any thread; changes are under a lock.
"""
from __future__ import annotations

import random
import threading
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ._events import Event
from ._settings import Address
from ._stats import Stats

NODES_MAX = 64
LAST_TIER = 3  # also of an endpoint that no listing has
NEVER = float("inf")


class Listed(NamedTuple):
    """What a listing has of a node. tier: 1 of the own zone, or of any without one; 2 of another;
    3 only when all else failed."""

    id: int
    address: Address
    tier: int
    weight: int
    proven: bool


def _node(address: Address, place: Optional[str]) -> Address:
    if not address.is_service or place is None:
        return address._replace(ip=place)
    host, _, port = place.rpartition(":")
    return Address(address.secure, host, int(port))


class Door:
    """An endpoint, or a node that is listed, is as many nodes as its name has addresses, or records
    of services; one whose name was not resolved yet is one."""

    def __init__(self, addresses: List[Address], stats: Stats,
                 tell: Callable[[Event], None] = lambda _: None,
                 for_snowflakes: bool = False) -> None:
        self.addresses = addresses
        self.stats = stats
        self.tell = tell
        self.for_snowflakes = for_snowflakes
        self.discovers = False
        self.resolved_at = -NEVER  # when a call last had names resolved
        self.current = addresses[0]
        self.names: List[Address] = []
        self.known: Tuple[Address, ...] = ()  # also those that are not proven
        self.nodes: Tuple[Address, ...] = ()  # which may be asked for ids
        self.foreign: Dict[Address, str] = {}  # nodes of another cluster; _discovery.py puts them there
        self._listed: Dict[Address, Listed] = {}
        self._places: Dict[Address, Sequence[Optional[str]]] = {}
        self._began = False  # where the first listing says
        self.lock = threading.Lock()  # made anew in a child of fork
        self._rebuild()
        self.current = random.choice(self.nodes)

    @property
    def is_fixed(self) -> bool:
        """Its nodes are always the same."""
        return not self.names and not self.discovers

    def found(self, address: Address, places: List[str]) -> None:
        """These are all addresses of the name, at least one; of a service HOST:PORT of each."""
        with self.lock:
            self._places[address] = tuple(sorted(set(places)))
            self._rebuild()

    def list(self, rows: Sequence[Listed]) -> None:
        """What a node lists, in place of what was listed before."""
        with self.lock:
            self._listed = {row.address: row for row in rows}
            self._rebuild()

    def _rebuild(self) -> None:
        every = list(dict.fromkeys([*self.addresses, *self._listed]))
        self.names = [one for one in every if one.is_name]
        self._places = {one: places for one, places in self._places.items() if one in every}
        given: Dict[Address, bool] = {}  # by the program, not by a listing alone
        for one in every:
            for place in self._places.get(one, (None,)):
                given.setdefault(_node(one, place), one in self.addresses)
        self.known = tuple(list(given)[:NODES_MAX])
        nodes = []
        for node in self.known:
            row = self.row(node)
            if given[node] or (row is not None and row.proven):
                nodes.append(node)
        self.nodes = tuple(nodes)
        if self.current not in self.nodes:
            self.current = self._ordered(self.nodes)[0]

    def row(self, node: Address) -> Optional[Listed]:
        """What the listing has of it."""
        return self._listed.get(node._replace(ip=None))

    def _tier(self, node: Address) -> int:
        row = self.row(node)
        return LAST_TIER if row is None else row.tier

    def _weight(self, node: Address) -> int:
        row = self.row(node)
        return 1 if row is None or row.tier == LAST_TIER else row.weight

    def _ordered(self, nodes: Sequence[Address], first: Optional[Address] = None) -> List[Address]:
        """These in the order of their tiers, each of which begins at a node that is drawn by weight.
        first: its tier is the first one, and begins there."""
        ordered: List[Address] = []
        tiers = [1, 2, LAST_TIER] if first is None else [self._tier(first), 1, 2, LAST_TIER]
        for tier in dict.fromkeys(tiers):
            own = [one for one in nodes if self._tier(one) == tier]
            if own:
                begin = first if first in own else random.choices(
                    own, [self._weight(one) for one in own])[0]
                at = own.index(begin)
                ordered += own[at:] + own[:at]
        return ordered

    def route(self, first: Address) -> Tuple[Address, ...]:
        """All nodes in the order in which a call asks them that begins at this one."""
        return tuple(self._ordered(self.nodes, first))

    def _peers(self, node: Address) -> List[Address]:
        return [one for one in self.nodes if self._tier(one) == self._tier(node)]

    def beside(self, node: Address) -> Optional[Address]:
        """The next one of its tier, for a second request; None: there is none. One of another cluster
        is none: the request would pass it, and come back to the node that is slow."""
        peers = [one for one in self._peers(node) if one == node or one not in self.foreign]
        return peers[(peers.index(node) + 1) % len(peers)] if node in peers and len(peers) > 1 \
            else None

    def sharers(self, node: Address) -> int:
        """How many nodes share the time that its tier has; 1: there is no other tier."""
        count = len(self._peers(node))
        return 1 if count == len(self.nodes) else max(1, count)

    def better(self) -> List[Address]:
        """Nodes, proven or not, where calls should rather begin, in order: with the first listing
        those up to the drawn one of the tier in which they begin, later those of better tiers."""
        tier = self._tier(self.current)
        better = [one for one in self._ordered(self.known) if self._tier(one) < LAST_TIER
                  and self._tier(one) < tier + (0 if self._began else 1)]
        return better[:better.index(self.current)] if self.current in better else better

    def move_to(self, node: Optional[Address]) -> None:
        """Calls begin there, which is one of the better ones. With the first listing that is no
        change; None: they begin where they did."""
        if node in self.nodes:
            if self._began:
                self._prefer(node)
            else:
                self.current = node
        self._began = True

    def leave(self, node: Address, next_one: Optional[Address] = None) -> None:
        """It failed: the next call begins with the one after it."""
        if self.current != node:
            return
        if next_one is None:
            next_one = next((one for one in self.route(node) if one != node), None)
        if next_one != node and next_one in self.nodes:
            self._prefer(next_one)

    def _prefer(self, node: Address) -> None:
        before, self.current = self.current, node
        self.stats.add("failovers")
        self.tell(Event("failover", from_url=str(before), to_url=str(node)))
