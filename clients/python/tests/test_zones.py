"""Nodes that are learnt from a node, and which of them is asked; by both clients."""
import asyncio
import collections
import time

import pytest

import fake
import leafd
import leafd.aio
from leafd import _discovery, _door, _http, _settings, _stats

PATIENT = {"attempt_ms": 60000, "deadline_ms": 60000}


class Zones:
    """Nodes 0 and 1 are of zone a, 2 and 3 of zone b; rows: what the listing has of each."""

    def __init__(self):
        self.cluster = fake.Cluster(4)
        self.nodes = self.cluster.nodes
        self.rows = [{"id": at + 1, "http_address": node.url[len("http://"):], "zone": "aabb"[at],
                      "weight": 100, "state": "ready", "snowflake": True}
                     for at, node in enumerate(self.nodes)]
        self.works = [self.answer_of(at) for at in range(4)]
        for node, answer in zip(self.nodes, self.works):
            node.always = answer

    def answer_of(self, at):
        def answer(node, request, make):
            if request.path == "/api/nodes":
                return fake.reply(200, {"self": at + 1, "nodes": self.rows})
            return make()
        return answer

    def asked(self, node, path="/get/"):
        return sum(one is self.nodes[node] and path in request.path
                   for one, request in self.cluster.log)

    def last(self):
        """The node of the last request for ids."""
        return next(self.nodes.index(node) for node, request in reversed(self.cluster.log)
                    if "/get/" in request.path)


@pytest.fixture
def zones():
    made = Zones()
    with made.cluster:
        yield made


class Sync:
    """A client, and which node gives it an id now; by a request that has no second one."""

    def __init__(self, zones, *first, **settings):
        self.zones = zones
        self.client = leafd.Client([zones.nodes[at].url for at in first], **{**PATIENT, **settings})

    def used(self):
        self.client.segment("order").next_range(1)
        return self.zones.last()

    def worker_id(self):
        self.client.snowflake().next()

    def close(self):
        self.client.close()


class Aio(Sync):
    """The same with a loop of its own."""

    def __init__(self, zones, *first, **settings):
        self.zones = zones
        self.loop = asyncio.new_event_loop()
        self.client = leafd.aio.Client([zones.nodes[at].url for at in first],
                                       **{**PATIENT, **settings})

    def used(self):
        self.loop.run_until_complete(self.client.segment("order").next_range(1))
        return self.zones.last()

    def worker_id(self):
        self.loop.run_until_complete(self.client.snowflake().next())

    def close(self):
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


@pytest.fixture(params=[Sync, Aio], ids=["threads", "aio"])
def open_zone(request, zones):
    made = []

    def make(*first, **settings):
        made.append(request.param(zones, *first, **settings))
        return made[-1]
    yield make
    for one in made:
        one.close()


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.002)  # until the condition


def test_its_own_zone_is_asked_from_the_first_call_on(zones, open_zone):
    seen = set()
    for _ in range(20):
        one = open_zone(0, 1, zone="b")
        node = one.used()
        assert [one.used() for _ in range(5)] == [node] * 5
        seen.add(node)
        stats = one.client.stats()
        assert (stats["requests"], stats["failovers"]) == (6, 0)
    assert seen == {2, 3}


def test_it_begins_by_weight(zones, open_zone):
    for row, weight in zip(zones.rows, (1000, 1, 0, 100)):
        row["weight"] = weight
    times = collections.Counter(open_zone(0, 1, 2, 3, zone="a").used() for _ in range(20))
    assert times[0] > times[1] and set(times) <= {0, 1}


def test_another_zone_is_asked_once_its_own_is_gone_and_it_moves_back(zones, open_zone):
    one = open_zone(0, 1, 2, 3, zone="a")  # none of which has to prove itself
    first = one.used()
    zones.nodes[first].always = fake.closes
    assert one.used() == 1 - first
    assert zones.asked(2) + zones.asked(3) == 0
    zones.nodes[1 - first].always = fake.closes
    assert one.used() >= 2
    zones.nodes[0].always = zones.works[0]
    wait_for(lambda: one.used() == 0)
    zones.rows[0]["state"] = "drained"  # it has no work any more
    zones.nodes[1].always = zones.works[1]
    wait_for(lambda: one.used() == 1)


def test_an_older_server_is_asked_once(zones, open_zone):
    for node in zones.nodes:
        node.always = None
    one = open_zone(2, 3, zone="a")
    assert all(one.used() >= 2 for _ in range(5))
    assert (zones.asked(2, "/api/nodes"), zones.asked(3, "/api/nodes")) == (1, 1)


@pytest.mark.parametrize("name, value", [
    ("weight", 1001), ("weight", "1"), ("weight", True), ("state", "odd"), ("id", "2"),
    ("http_address", None), ("http_address", "127.0.0.1:1/x"), ("http_address", "127.0.0.1:0")])
def test_rows_that_break_a_rule_are_left_out(zones, open_zone, name, value):
    zones.rows[0]["http_address"] = None
    zones.rows[1][name] = value
    assert open_zone(2, zone="a").used() >= 2


def test_a_node_of_another_cluster_is_never_asked_for_ids(zones, open_zone):
    zones.rows[0]["zone"] = "b"
    other = [zones.rows[1], {**zones.rows[2], "http_address": "10.9.9.9:8080"}]
    zones.nodes[1].always = fake.answers(fake.reply(200, {"self": 2, "nodes": other}))
    one = open_zone(2, zone="a")
    assert all(one.used() != 1 for _ in range(5))
    assert zones.asked(1) == 0 and zones.asked(1, "/api/nodes") > 0


def test_worker_ids_are_asked_where_snowflakes_are_made(zones, open_zone):
    zones.rows[0]["snowflake"] = zones.rows[1]["snowflake"] = False
    open_zone(0, zone="a").worker_id()
    assert zones.asked(0, "/workers") + zones.asked(1, "/workers") == 0
    assert zones.asked(2, "/workers") + zones.asked(3, "/workers") > 0


def test_a_second_request_stays_in_the_zone(zones):
    zones.rows[1]["zone"] = "b"  # node 0 is alone in its zone
    with leafd.Client(zones.nodes[0].url, zone="a", connect_ms=50, **PATIENT) as client:
        client.strict("invoice").next()

        def slow(node, request, make):
            time.sleep(0.3)  # within the time of an attempt
            return zones.works[0](node, request, make)
        zones.nodes[0].always = slow
        client.strict("invoice").next()
        assert zones.asked(0) == 2 and client.stats()["hedges"] == 0


@pytest.mark.parametrize("text", ["", "[]", "[" * 100000, "\0", '{"self":true,"nodes":[]}',
                                  '{"self":1,"nodes":3}'])
def test_what_is_no_listing(text):
    assert _discovery.listing_of(_http.Reply(200, {}, text.encode(), True), False) is None


def test_a_second_request_passes_nodes_of_another_cluster():
    addresses = [_settings.address("endpoints", f"http://10.0.0.{n}") for n in range(4)]
    door = _door.Door(addresses, _stats.Stats())
    first, second, third, fourth = addresses
    door.foreign = {second: "another"}
    assert door.beside(first) == third and door.beside(fourth) == first
    assert door.beside(second) == third
    door.foreign = {second: "another", third: "another"}
    assert door.beside(first) == fourth and door.beside(fourth) == first
    door.foreign = dict.fromkeys([second, third, fourth], "another")
    assert door.beside(first) is None


def test_the_oldest_node_of_another_cluster_is_forgotten_first():
    addresses = [_settings.address("endpoints", f"http://10.0.0.{n}") for n in range(65)]
    door = _door.Door(addresses[:1], _stats.Stats())
    discovery = _discovery.Discovery([door], None, lambda: None, lambda event: None)
    discovery._uid = "own"
    reply = _http.Reply(200, {}, b'{"self":1,"uid":"another","nodes":[]}', True)
    for node in [*addresses[:64], addresses[0]]:
        assert discovery._listing(node, reply) is None
    assert list(door.foreign) == [*addresses[1:64], addresses[0]]
    assert discovery._listing(addresses[64], reply) is None
    assert list(door.foreign) == [*addresses[2:64], addresses[0], addresses[64]]


def test_the_settings():
    for zone, discover, expected in ((None, None, False), ("a", None, True), ("a", False, False),
                                     (None, True, True)):
        with leafd.Client("http://a", zone=zone, discover=discover) as client:
            assert client._settings.discover is expected
    for wrong in ({"zone": ""}, {"zone": "z" * 129}, {"discover": 1}, {"discover": "true"}):
        with pytest.raises(leafd.LeafdError) as caught:
            leafd.Client("http://a", **wrong)
        assert caught.value.code == "bad_setting"


def test_a_paused_tag_is_told_at_once_and_held_ids_are_dropped(cluster, open_client):
    client = open_client(cluster, min_count=10)
    source = client.segment("order")
    source.next()
    cluster.nodes[0].always = fake.refusal_of(423, "paused")
    assert len([source.next() for _ in range(5)]) == 5  # beyond the half: more are asked for
    wait_for(lambda: source._buffer.wants and not source._journeys or client.stats()["burnt"])
    with pytest.raises(leafd.LeafdError) as caught:
        source.next_many(100)
    assert (caught.value.code, caught.value.status, caught.value.retryable) == ("paused", 423, True)
    assert client.stats()["burnt"] == 4
