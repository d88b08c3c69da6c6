"""The second request of a caller that waits (docs/clients.md, Nodes and retries), and what the time
that callers waited means to the size of the next request.

A Granter's nodes answer at once, until they freeze, as processes that got SIGSTOP. attempt_ms is so
long that without a second request a frozen node would cost 10 s; with it a call takes less than 5.
"""

import threading

import pytest

from driver import Failed, check_once, check_rising
from fake import Granter, error
from test_held_ranges import all_told, joined
from wait import wait_until

pytestmark = pytest.mark.inside

SMALL = {"min_count": 10, "max_count": 10}


class Cluster:
    """Nodes, of which freeze() freezes the one that the client asks."""

    def __init__(self, fake, nodes):
        self.granter = Granter()
        self.servers = [fake(self.granter.node()) for _ in range(nodes)]
        self.url = joined(self.servers)

    def used(self):
        return max(range(len(self.servers)), key=lambda i: len(self.servers[i].requests))

    def freeze(self):
        self.granter.freeze(self.used())

    def ask_frozen(self, ask):
        """The first id that is free, and the answer of ask(), which a frozen node was asked. (On a
        slow machine an earlier second request may have led the client to the other node.)"""
        for number in (self.used(), 1 - self.used()):
            self.granter.freeze(number)
            first, answer = self.granter.next, ask()
            if self.stuck():
                return first, answer
            self.granter.thaw()
        raise AssertionError("neither node was asked")

    def freeze_all(self):
        self.granter.freeze(*range(len(self.servers)))

    def all_arrived(self, client):
        """Is no request on its way? (A second one may be, on a slow machine.)"""
        return client.stats()["requests"] == sum(len(server.requests) for server in self.servers)

    def stuck(self):
        """Requests to nodes that are frozen."""
        return [request for requests in self.granter.frozen.values() for request in requests]


def quick(client):
    assert client.took_s - client.waited_s < 5, f"the call took {client.took_s} s"


def test_a_node_that_freezes(start, fake):
    """Another one is asked as well, and what both grant is handed out once or burnt."""
    cluster = Cluster(fake, 2)
    client = start().open(endpoints=cluster.url, **SMALL)
    ids = client.ids("segment orders 200")
    cluster.freeze()
    ids += client.ids("segment orders 100")
    quick(client)
    stats = client.stats()
    assert stats["hedges"] >= 1 and stats["errors"] == 0
    assert cluster.stuck()
    cluster.granter.thaw()
    ids += client.ids("segment orders 100")
    check_once(ids)
    all_told(client, cluster.granter)


def test_an_answer_below_all_that_was_handed_out(start, fake):
    """It is burnt, also where nothing is held any more."""
    cluster = Cluster(fake, 2)
    client = start()
    cluster.granter.freeze(0)

    def asked_twice():
        client.open(endpoints=cluster.url, **SMALL)
        ids = client.ids("segment orders 1")
        return cluster.stuck() and ids

    ids = wait_until(asked_twice, 30, "the frozen node is asked first")
    cluster.granter.freeze(1)  # the spare range comes later
    ids += client.ids("segment orders 9")
    cluster.granter.gates[0].set()

    def told():
        return client.stats()["burnt"] + sum(client.gauges("ids_left").values()) >= 10

    wait_until(told, 30, "the first answer came")
    cluster.granter.thaw()
    ids += client.ids("segment orders 20")
    check_once(ids)
    check_rising(ids)


def test_the_first_request_of_all(start, fake):
    """The usual time is not known yet: connect_ms stands for it."""
    cluster = Cluster(fake, 2)
    client = start().open(endpoints=cluster.url, **SMALL)
    cluster.granter.freeze(0)
    ids = client.ids("segment orders 5")
    quick(client)
    cluster.granter.thaw()
    client.open(endpoints=cluster.url, **SMALL)
    cluster.granter.freeze(1)
    ids += client.ids("segment orders 5")
    quick(client)
    cluster.granter.thaw()
    check_once(ids)


def test_two_at_a_time(start, fake):
    """Where no node answers, a third one is not asked meanwhile."""
    cluster = Cluster(fake, 3)
    client = start().open(endpoints=cluster.url, **SMALL)
    ids = client.ids("segment orders 200")
    wait_until(lambda: cluster.all_arrived(client), 30, "all requests arrive")
    cluster.freeze_all()
    client.refused("segment orders 100 deadline_ms=2000", "unreachable")
    assert len(cluster.stuck()) == 2, cluster.stuck()
    assert all(len(requests) == 1 for requests in cluster.granter.frozen.values() if requests)
    cluster.granter.thaw()
    ids += client.ids("segment orders 100")
    check_once(ids)
    all_told(client, cluster.granter)


@pytest.mark.parametrize("pauses", ["first", "second"])
def test_a_pause_while_two_are_asked(start, fake, pauses):
    """One node says that the tag is paused. What the other one had granted before, and answers
    later, is burnt."""
    node, asked = Granter().node(), []
    begun, over = threading.Event(), threading.Event()

    def answer(request):
        asked.append(request)
        turn = ["first", "second"][len(asked) - 1] if len(asked) < 3 else pauses
        if turn == "second":
            begun.set()
        if turn == pauses:
            begun.wait(60)
            return error(423, "paused")
        granted = node(request)
        over.wait(60)
        return granted

    client = start().open(endpoints=joined([fake(answer) for _ in range(2)]), **SMALL)
    if pauses == "second":  # which is no answer to the caller: the first one may bring ids
        try:
            client.ids("segment orders 1 deadline_ms=3000")
        except Failed as failure:
            assert failure.code in ("paused", "unreachable")
    else:
        client.refused("segment orders 1", "paused")
    over.set()

    def burnt():
        client.refused("segment orders 1", "paused")
        return client.stats()["burnt"]

    wait_until(lambda: burnt() == 10, 60, "the ids of the other node are burnt")


@pytest.mark.parametrize("line", ["segment orders 100", "strict orders 1"])
def test_one_node_alone(start, fake, line):
    cluster = Cluster(fake, 1)
    client = start().open(endpoints=cluster.url, **SMALL)
    client.ids(line)
    cluster.freeze_all()
    client.refused(f"{line} deadline_ms=1500", "unreachable")
    assert len(cluster.stuck()) == 1
    assert client.stats()["hedges"] == 0
    cluster.granter.thaw()


def test_nobody_waits(start, fake):
    """Ids are held: the request in the background has all its time."""
    cluster = Cluster(fake, 2)
    client = start().open(endpoints=cluster.url, min_count=100000)
    client.ids("segment orders 1")
    cluster.freeze()
    before = client.stats()["hedges"]  # a machine that is slow may have had one

    def asked():
        client.ids("segment orders 1000")
        return cluster.stuck()

    wait_until(asked, 30, "a spare range is asked for")
    for _ in range(300):
        client.ids("segment orders 1")
    assert client.stats()["hedges"] == before and len(cluster.stuck()) == 1
    cluster.granter.thaw()


def test_a_strict_call(start, fake):
    """Both requests have its key, and so the same ids."""
    cluster = Cluster(fake, 2)
    client = start().open(endpoints=cluster.url)
    assert client.ids("strict1 orders 20") == [(1, 20)]
    first, ids = cluster.ask_frozen(lambda: client.ids("strict orders 3"))
    assert ids == [(first, first + 2)]
    quick(client)
    assert client.stats()["hedges"] >= 1
    stuck = cluster.stuck()
    assert len(stuck) == 1
    keys = [request.headers["idempotency-key"] for server in cluster.servers
            for request in server.requests]
    assert keys.count(stuck[0].headers["idempotency-key"]) == 2, "one at each node"
    cluster.granter.thaw()
    assert client.ids("strict orders 2") == [(first + 3, first + 4)]


def test_texts_by_a_key(start, fake):
    cluster = Cluster(fake, 2)
    client = start().open(endpoints=cluster.url)
    assert client.texts("texts orders 2") == ["1", "2"]
    first, texts = cluster.ask_frozen(lambda: client.texts("texts orders 1"))
    assert texts == [str(first)]
    quick(client)
    assert client.stats()["hedges"] >= 1
    cluster.granter.thaw()


def test_texts_without_a_key(start, fake):
    """Two answers would be ids of two, one of which is lost: there is no second request."""
    cluster = Cluster(fake, 0)

    def keyless(node):
        def answer(request):
            if "idempotency-key" in request.headers:
                return error(400, "bad_key", "a tag of mode trend takes none")
            return node(request)
        return answer

    cluster.servers = [fake(keyless(cluster.granter.node())) for _ in range(2)]
    client = start().open(endpoints=joined(cluster.servers), attempt_ms=4000, deadline_ms=10000)
    assert client.texts("texts orders 1") == ["1"]
    cluster.freeze()
    assert client.texts("texts orders 1") == ["3"], "the next node, after a second"
    assert client.took_s > 0.9
    assert client.stats()["hedges"] == 0
    cluster.granter.thaw()


# --- the rate ---


def test_time_without_ids_does_not_count(start, fake):
    """Answers take a quarter of a second, ids microseconds. By all the time that passes some four
    ids would do for 10 ms: 500 ids would take 50 requests. By the time in which ids could be handed
    out many are wanted, so the size doubles each time."""
    granter = Granter()
    node = granter.node()

    def answer(request):
        server.ended.wait(0.25)
        return node(request)

    server = fake(answer)
    client = start().open(endpoints=server.url, min_count=10, cover_ms=10)
    assert client.ids("segment orders 500") == [(1, 500)]
    sizes = [request.count for request in server.requests]
    assert len(sizes) <= 12 and max(sizes) >= 80, sizes
