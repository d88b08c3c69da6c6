"""Nodes that a client finds by asking one, and the zone that it keeps to (docs/clients.md, Zones).

Nodes are fakes of one Cluster: each answers GET /api/nodes with all of them, as the test has them
at that moment. Waiting times are long where the contract has no bound, so that on a slow machine no
second node is asked.
"""

import json
import re
import threading
import time

import pytest

from driver import SLACK_S, TOLERANCE_S, check_once, stood_s, urls
from fake import Granter, error, granted, http
from test_events import Told
from wait import wait_until, within

pytestmark = pytest.mark.inside

SMALL = {"min_count": 10, "max_count": 10}
BACK_S = 10.0  # after its return a zone is asked again
GONE_S = 2.0  # after its loss another one is


class Cluster:
    """Nodes with ids from 1 on, a letter of zones each; "-": none."""

    def __init__(self, fake, zones):
        self.granter = Granter()
        self.lost = set()  # connections to these are closed without an answer
        self.frozen = set()  # these answer nothing, until thawed
        self.thawed = threading.Event()
        self.servers, self.rows = [], []
        self.served = [0] * len(zones)  # requests for ids that were answered
        for number, zone in enumerate(zones):
            server = fake(self.handler(number))
            self.servers.append(server)
            self.rows.append({"id": number + 1, "http_address": f"127.0.0.1:{server.port}",
                              "zone": None if zone == "-" else zone, "weight": 100,
                              "state": "ready", "snowflake": True})
        self.url = ",".join(server.url for server in self.servers)
        self.uid = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"
        self.says = None  # in place of the listing

    def handler(self, number):
        node = self.granter.node()

        def answer(request):
            if number in self.frozen:
                self.thawed.wait(60)
                return None
            if number in self.lost:
                return None
            if request.path == "/api/nodes":
                return self.says(number) if self.says else self.listing(number)
            if request.path == "/api/workers":
                return granted(worker_id=number)
            made = node(request)
            self.served[number] += 1
            return made
        return answer

    def listing(self, number):
        away = self.lost | self.frozen
        rows = [{**row, "state": "unreachable"} if i in away else row
                for i, row in enumerate(self.rows)]
        return nodes_of(number + 1, rows, self.uid)

    def asked(self, number):
        """Requests for ids and worker ids."""
        return [request for request in self.servers[number].requests
                if request.path != "/api/nodes"]

    def asked_in(self, zone):
        return sum(len(self.asked(i)) for i, row in enumerate(self.rows) if row["zone"] == zone)

    def asked_beside(self, zone):
        return sum(len(self.asked(i)) for i, row in enumerate(self.rows) if row["zone"] != zone)

    def used(self, client):
        """The node that calls go to; of a range no second request is sent on a slow machine."""
        before = list(self.served)
        client.ids("range orders 1")
        return next(i for i, count in enumerate(before) if self.served[i] > count)


def nodes_of(own, rows, uid=None):
    return http(200, json.dumps({"self": own, "uid": uid, "nodes": rows}),
                "application/json;charset=UTF-8")


def is_listing(request):
    return request.path == "/api/nodes"


# --- the zone ---


@pytest.mark.parametrize("zone", ["a", "b", "c"])
def test_a_healthy_zone(start, fake, zone):
    """No request leaves it, whatever the endpoints are."""
    cluster = Cluster(fake, "aabbcc")
    client = start().open(endpoints=cluster.url, zone=zone, **SMALL)
    ids = client.ids("strict1 orders 30")
    ids += client.ids("segment orders 200")
    client.ask("snowflake 1")
    check_once(ids)
    assert cluster.asked_in(zone) > 50 and cluster.asked_beside(zone) == 0


def test_nodes_are_found_by_one(start, fake):
    """Of one endpoint, which is in another zone."""
    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.servers[0].url, zone="b")
    client.ids("strict1 orders 10")
    assert (len(cluster.asked(0)), len(cluster.asked(1))) == (0, 10)


def test_discovery_without_a_zone(start, fake):
    """All nodes are of one tier."""
    cluster = Cluster(fake, "a-")
    client = start().open(endpoints=cluster.servers[0].url, discover="true")
    before = cluster.used(client)
    cluster.lost = {before}
    assert cluster.used(client) == 1 - before


def test_no_discovery(start, fake):
    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.servers[0].url, zone="b", discover="false")
    client.ids("strict1 orders 3")
    client.open(endpoints=cluster.servers[0].url)
    client.ids("strict1 orders 3")
    assert len(cluster.asked(0)) == 6
    assert not any(is_listing(request) for server in cluster.servers for request in server.requests)


def test_the_environment_has_the_zone(start, fake):
    cluster = Cluster(fake, "ab")
    names = {"LEAFD_ENDPOINTS": cluster.servers[0].url, "LEAFD_ZONE": "b"}
    client = start(env=names).open()
    client.ids("strict1 orders 3")
    assert len(cluster.asked(1)) == 3
    client = start(env={**names, "LEAFD_DISCOVER": "false"}).open()
    client.ids("strict1 orders 3")
    assert len(cluster.asked(0)) == 3
    start(env={**names, "LEAFD_DISCOVER": "yes"}).refused("open", "bad_setting")


@pytest.mark.parametrize("setting", ["discover=maybe", "discover=1", "zone=" + 129 * "z", "zone="])
def test_bad_settings(start, setting):
    start().refused(f"open endpoints=http://127.0.0.1:1 {setting}", "bad_setting")


@pytest.mark.parametrize("how", ["lost", "frozen"])
def test_a_zone_that_is_gone_and_comes_back(start, fake, how):
    """Within 2 s others are asked, and within 10 s of its return no others."""
    cluster = Cluster(fake, "aabbcc")
    client = start().open(endpoints=cluster.url, zone="b", **SMALL, attempt_ms=None)
    ids = client.ids("strict1 orders 20")
    assert cluster.asked_beside("b") == 0
    setattr(cluster, how, {2, 3})
    lost_ns, stood_before_s = time.monotonic_ns(), stood_s()
    ids += client.ids("strict1 orders 1")
    assert client.took_s - client.waited_s < GONE_S + TOLERANCE_S + SLACK_S, client.took_s
    ids += client.ids("strict1 orders 20")
    ids += client.ids("segment orders 100")
    gone_s = GONE_S + TOLERANCE_S + SLACK_S + client.waited_s + stood_s() - stood_before_s
    late = [request for i in (2, 3) for request in cluster.asked(i)
            if request.at_ns - lost_ns > gone_s * 1e9]
    assert not late and cluster.asked_beside("b") > 20
    cluster.lost, cluster.frozen = set(), set()
    cluster.thawed.set()
    within(lambda: cluster.used(client) in (2, 3), BACK_S + SLACK_S, "the zone is asked again")
    before = cluster.asked_beside("b")
    ids += client.ids("strict1 orders 20")
    assert cluster.asked_beside("b") == before
    check_once(ids)


def test_a_zone_that_is_listed_and_gives_no_answer(start, fake):
    """One request is tried there; calls stay where they are."""
    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.url, zone="b")
    client.ids("strict1 orders 1")
    cluster.says = lambda number: nodes_of(number + 1, cluster.rows)  # whatever is lost
    cluster.lost = {1}
    client.ids("strict1 orders 1")
    lost = len(cluster.servers[1].requests)
    at_ids = len(cluster.asked(1))

    def tried():
        client.ids("strict1 orders 1")
        return len(cluster.servers[1].requests) > lost

    within(tried, 30, "the node is tried again")
    assert len(cluster.asked(1)) == at_ids
    cluster.lost = set()
    within(lambda: cluster.used(client) == 1, BACK_S + SLACK_S, "the zone is asked again")


@pytest.mark.parametrize("change", [{"state": "drained"}, {"weight": 0}, {"state": "not_ready"},
                                    {"state": "of a later version"}])
def test_a_node_that_takes_itself_out(start, fake, change):
    """It gets no new work, though it answers; the other one of its zone does."""
    cluster = Cluster(fake, "aab")
    client = start().open(endpoints=cluster.url, zone="a")
    first = cluster.used(client)
    cluster.rows[first].update(change)
    within(lambda: cluster.used(client) == 1 - first, BACK_S + SLACK_S, "the other one is asked")
    for _ in range(30):
        assert cluster.used(client) == 1 - first
    assert not cluster.asked(2)


def test_second_requests_stay_in_the_zone(start, fake):
    """Of a zone with one node there are none; else the other node of it gets them."""
    cluster = Cluster(fake, "abb")
    client = start().open(endpoints=cluster.url, zone="b")
    client.ids("strict1 orders 20")
    first = cluster.used(client)
    cluster.granter.freeze(first)
    client.ids("strict1 orders 1")
    assert client.took_s - client.waited_s < 5 and client.stats()["hedges"] >= 1
    cluster.granter.thaw()
    assert not cluster.asked(0)


def test_weights(start, fake):
    """Three to one over 150 clients: seven standard deviations are 37. Weight 0 is never drawn."""
    cluster = Cluster(fake, "aaa")
    for row, weight in zip(cluster.rows, (300, 100, 0)):
        row["weight"] = weight
    client = start()
    for _ in range(150):
        client.open(endpoints=cluster.url, zone="a")
        client.ids("range orders 1")
    first, second, third = (len(cluster.asked(i)) for i in range(3))
    assert third == 0 and first + second == 150
    assert 112 - 37 <= first <= 113 + 37, (first, second)


def test_snowflake_where_the_clock_is_refused(start, fake):
    cluster = Cluster(fake, "ab")
    cluster.rows[1]["snowflake"] = False
    client = start().open(endpoints=cluster.url, zone="b")
    assert cluster.used(client) == 1
    client.ask("snowflake 1")
    assert [request.path for request in cluster.asked(0)] == ["/api/workers"]


def test_nodes_of_a_cluster(start, faulty, strict_tag):
    """Real ones: of one endpoint, the others are found, and asked once that node is gone."""
    first, *others = faulty.nodes

    def served():
        found = [re.search(r'^leafd_http_requests_total{status="2xx"} (\d+)$',
                           node.get("/metrics").text, re.M) for node in others]
        return [int(number[1]) for number in found]

    before = served()
    client = start().open(endpoints=urls(faulty, first), discover="true")
    ids = client.ids(f"strict1 {strict_tag} 10")

    def met():
        ids.extend(client.ids(f"strict1 {strict_tag} 1"))
        return all(now > then for now, then in zip(served(), before))

    wait_until(met, 30, "each node is asked")
    first.kill9()
    ids += client.ids(f"strict1 {strict_tag} 10")
    check_once(ids)


# --- older servers, and listings that are wrong ---


def test_an_older_server(start, fake):
    """The endpoints alone, and the next question a minute later."""
    cluster = Cluster(fake, "ab")
    cluster.says = lambda number: error(404, "not_found", "no such path")
    client = start().open(endpoints=cluster.servers[0].url, zone="b")
    until = time.monotonic() + 6
    while time.monotonic() < until:
        client.ids("strict1 orders 1")
    assert len(list(filter(is_listing, cluster.servers[0].requests))) == 1
    assert not cluster.servers[1].requests


def test_a_listing_that_is_refused(start, fake):
    """By another status than 404, as while a token is exchanged: that is no older server."""
    def listings():
        return sum(is_listing(one) for server in cluster.servers for one in server.requests)

    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.servers[0].url, zone="b")
    wait_until(lambda: client.ids("strict1 orders 1") and cluster.asked(1), 30, "zone b is used")
    cluster.says = lambda number: error(401, "unauthorized")
    before = listings()
    wait_until(lambda: client.ids("strict1 orders 1") and listings() > before, 30, "a refusal")
    asked = len(cluster.asked(0))
    client.ids("strict1 orders 20")
    assert len(cluster.asked(0)) == asked, "the nodes that are known stay"
    before = listings() + len(cluster.servers)
    wait_until(lambda: client.ids("strict1 orders 1") and listings() > before, 30, "once more")


LIES = {
    "no JSON": "<html>hello</html>",
    "empty": "",
    "another JSON": '{"nodes":3}',
    "no nodes": '{"self":1,"nodes":[]}',
    "nulls": '{"self":null,"nodes":[null,{},{"id":null,"http_address":null}]}',
    "deep": "[" * 100000,
    "binary": "\0\xff" * 1000,
    "cut": '{"self":1,"nodes":[{"id":1,"http_addr',
}


@pytest.mark.parametrize("kind", sorted(LIES))
def test_an_answer_that_is_no_listing(start, fake, kind):
    cluster = Cluster(fake, "ab")
    cluster.says = lambda number: http(200, LIES[kind].encode("latin-1"), "application/json")
    client = start().open(endpoints=cluster.url, zone="b", **SMALL)
    check_once(client.ids("segment orders 100"), client.ids("strict1 orders 5"))
    assert client.stats()["errors"] == 0


BAD_ADDRESSES = ["", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x", "a b:80", "/:80",
                 "user@127.0.0.1:{port}", "127.0.0.1:{port}/x", "127.0.0.1:{port}?x", ":{port}",
                 "127.0.0.1:{port}\r\nX: y", 300 * "h" + ":80", 7, None, ["127.0.0.1:{port}"]]


def test_addresses_that_are_none(start, fake):
    """They are left out, and the others are used."""
    cluster = Cluster(fake, "ab")
    elsewhere = fake(lambda request: http(200, "7 7\n"))
    bad = [{**cluster.rows[1], "id": 10 + i,
            "http_address": text.replace("{port}", str(elsewhere.port))
            if isinstance(text, str) else text} for i, text in enumerate(BAD_ADDRESSES)]
    bad += [{**cluster.rows[1], name: value} for name, value in
            [("id", 0), ("id", "x"), ("weight", -1), ("weight", 1001), ("weight", 1.5)]]
    cluster.says = lambda number: nodes_of(number + 1, bad + cluster.rows)
    client = start().open(endpoints=cluster.servers[0].url, zone="b")
    client.ids("strict1 orders 10")
    assert not elsewhere.requests and len(cluster.asked(1)) == 10


def test_ten_thousand_nodes(start, fake):
    """However many are listed, few are asked, and ids come."""
    cluster = Cluster(fake, "ab")
    other = fake(lambda request: None)
    many = [{**cluster.rows[1], "id": 10 + i, "http_address": f"127.0.0.1:{other.port}"}
            for i in range(10000)]
    cluster.says = lambda number: nodes_of(number + 1, cluster.rows + many)
    client = start().open(endpoints=cluster.url, zone="b")
    client.ids("strict1 orders 10")
    assert len(other.requests) <= 64


@pytest.mark.parametrize("what", ["refused", "hole", "silent"])
def test_addresses_that_the_client_cannot_reach(start, fake, hole, what):
    """Those of containers, say: the endpoints are asked as ever."""
    cluster = Cluster(fake, "ab")
    silent = fake(lambda request: [silent.ended.wait(60)] and None)
    for row in cluster.rows:
        row["http_address"] = {"refused": "127.0.0.1:1", "silent": f"127.0.0.1:{silent.port}",
                               "hole": hole().partition("//")[2]}[what]
    client = start().open(endpoints=cluster.url, zone="b", attempt_ms=None)
    client.ids("strict1 orders 10")
    client.ids("strict1 orders 10")
    assert client.took_s - client.waited_s < 2 + SLACK_S, "later calls do not wait for them"
    assert client.stats()["errors"] == 0
    assert all(is_listing(request) for request in silent.requests)


def test_nodes_of_another_cluster(start, fake):
    """An address that leads to one (127.0.0.1 of the client's own machine, say) gets no request for
    ids: its nodes have the same numbers, and know other addresses."""
    cluster, other = Cluster(fake, "ab"), Cluster(fake, "ab")
    own = cluster.rows[1]["http_address"]
    cluster.rows[1]["http_address"] = other.rows[1]["http_address"]
    client = start().open(endpoints=cluster.servers[0].url, zone="b", **SMALL)
    ids = client.ids("strict1 orders 5")
    ids += client.ids("segment orders 50")
    client.ask("snowflake 1")
    check_once(ids)
    assert not other.asked(0) and not other.asked(1)
    cluster.rows[1]["http_address"] = own
    within(lambda: cluster.used(client) == 1, BACK_S + SLACK_S, "the right address is asked")


def test_another_cluster_with_the_same_addresses(start, fake):
    """Its uid shows it: a node of the listing that has another one gets no request for ids."""
    cluster = Cluster(fake, "ab")
    cluster.says = lambda number: nodes_of(number + 1, cluster.rows, f"cluster-{number}")
    client = start().open(endpoints=cluster.servers[0].url, zone="b", **SMALL)
    ids = client.ids("strict1 orders 5")
    ids += client.ids("segment orders 50")
    client.ask("snowflake 1")
    check_once(ids)
    assert cluster.servers[1].requests and not cluster.asked(1)
    Told(client).wait_for("other_cluster", "segment orders 1")
    cluster.says = None
    cluster.uid = "cluster-0"
    within(lambda: cluster.used(client) == 1, BACK_S + SLACK_S, "it has become the right one")
    assert not client.events().get("other_cluster"), "it is told once"


def test_a_listed_node_that_was_gone(start, fake):
    """It is asked again before it gets a request for ids: its address may be another cluster's."""
    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.servers[0].url, zone="a")

    def listed(number, least):
        def enough():
            client.ids("range orders 1")
            return len(list(filter(is_listing, cluster.servers[number].requests))) >= least
        within(enough, 4 * BACK_S, f"node {number} is asked for nodes {least} times")

    listed(1, 1)
    cluster.says = lambda number: nodes_of(number + 1, cluster.rows[:1], cluster.uid)
    now = len(list(filter(is_listing, cluster.servers[0].requests)))
    listed(0, now + 2)  # the client has taken the first of them
    cluster.says = lambda number: nodes_of(number + 1, cluster.rows,
                                           "another" if number == 1 else cluster.uid)
    listed(1, 1 + len(list(filter(is_listing, cluster.servers[1].requests))))
    Told(client).wait_for("other_cluster", "range orders 1")
    assert not cluster.asked(1)


def test_one_node_of_another_cluster(start, fake):
    """The node that calls go to has become one: it gets no more requests, and others serve."""
    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.url, discover="true")
    used = cluster.used(client)
    cluster.says = lambda number: nodes_of(number + 1, cluster.rows,
                                           "another" if number == used else cluster.uid)
    within(lambda: cluster.used(client) != used, BACK_S + SLACK_S, "the other one is asked")
    asked = len(cluster.asked(used))
    client.ids("strict1 orders 10")
    assert len(cluster.asked(used)) == asked
    assert client.stats()["errors"] == 0


@pytest.mark.parametrize("line", ["strict orders 1", "texts orders 1"])
def test_no_second_request_beside_a_node_of_another_cluster(start, fake, line):
    """It would come back to the one node that is left, which is slow."""
    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.url, discover="true", attempt_ms=120000)
    other = cluster.used(client)
    slow, node = cluster.servers[1 - other], cluster.servers[1 - other].handler
    cluster.says = lambda number: nodes_of(number + 1, cluster.rows,
                                           "another" if number == other else cluster.uid)
    within(lambda: cluster.used(client) != other, BACK_S + SLACK_S, "the other one is asked")
    Told(client).wait_for("other_cluster", "segment orders 1")
    slow.handler = lambda request: [is_listing(request) or slow.ended.wait(2)] and node(request)
    before = client.stats()["hedges"]
    client.ask(line)
    assert client.stats()["hedges"] == before


def test_a_cluster_that_was_rebuilt(start, fake):
    """All addresses lead to another one, whose ids may be the same: nothing is asked of it, and
    calls fail at once, whatever the deadline, with both uids. A new client takes it; the old one
    goes on once its own cluster is back."""
    cluster = Cluster(fake, "ab")
    client = start().open(endpoints=cluster.url, zone="a", **SMALL)
    ids = client.ids("segment orders 2")
    own, cluster.uid = cluster.uid, "0f1a7c52-rebuilt"
    within(lambda: client.ask_any("strict orders 1").startswith("error other_cluster "),
           BACK_S + SLACK_S, "it is seen")
    asked = cluster.asked(0) + cluster.asked(1)
    for line in ("strict orders 1", "texts orders 1", "range orders 5", "segment others 1",
                 "snowflake 1"):
        error_ = client.refused(line, "other_cluster")
        assert client.took_s - client.waited_s < 1 + SLACK_S
        assert error_.status == 0 and own in error_.message and cluster.uid in error_.message
        assert "new client" in error_.message
    check_once(ids + client.ids("segment orders 2"))  # they are held
    assert cluster.asked(0) + cluster.asked(1) == asked
    other = start().open(endpoints=cluster.url, zone="a", **SMALL)
    other.ids("strict1 orders 1")
    cluster.uid = own
    within(lambda: client.ask_any("strict orders 1").startswith("ids"), BACK_S + SLACK_S,
           "it is back")


def test_an_endpoint_that_leads_to_another_cluster(start, fake):
    """Its listing is ignored: no node of it is asked. A listing without uid (of an older node) is
    taken."""
    cluster, other = Cluster(fake, "a"), Cluster(fake, "ab")
    other.uid = "another"
    client = start().open(endpoints=cluster.url, zone="a")
    client.ids("strict1 orders 1")
    cluster.says = lambda number: nodes_of(1, other.rows, other.uid)
    within(lambda: client.ask_any("strict orders 1").startswith("error other_cluster "),
           BACK_S + SLACK_S, "it is seen")
    assert not any(server.requests for server in other.servers)
    cluster.rows = other.rows
    cluster.says = lambda number: nodes_of(1, other.rows)
    other.uid = None
    within(lambda: client.ask_any("strict orders 1").startswith("ids") and
           other.servers[0].requests, 30, "it is taken")


# --- paused tags ---


PAUSED = ["strict orders 1", "texts orders 1", "range orders 5", "segment orders 1"]


def paused(_, status=423, code="paused"):
    return error(status, code, "stopped for the audit of May", Retry_After="1")


@pytest.mark.parametrize("line", PAUSED)
@pytest.mark.parametrize("status, code", [(423, "paused"), (403, "client_cut")])
def test_a_tag_that_is_paused_and_a_client_that_is_cut(start, fake, line, status, code):
    """The refusal goes to the caller at once, with its reason, from whichever node."""
    servers = [fake(lambda request: paused(request, status, code)) for _ in range(2)]
    client = start().open(endpoints=",".join(server.url for server in servers), connect_ms=30000)
    error_ = client.refused(line, code)
    assert error_.status == status and "audit of May" in error_.message
    assert client.took_s - client.waited_s < 1 + SLACK_S
    assert sum(len(server.requests) for server in servers) == 1
    assert client.stats()["retries"] == client.stats()["failovers"] == 0


def test_what_is_held_of_a_paused_tag(start, fake):
    """The first answer that says so has the rest dropped; a second after its end ids come again."""
    granter = Granter()
    node, held = granter.node(), []
    server = fake(lambda request: paused(request) if held else node(request))
    client = start().open(endpoints=server.url, min_count=10000, max_count=10000)
    ids = client.ids("segment orders 4900")  # of 5000 after which it asks for more
    held.append(True)
    with pytest.raises(Exception) as seen:
        within(lambda: ids.extend(client.ids("segment orders 10")) or False, 30, "it is paused")
    assert getattr(seen.value, "code", "") == "paused", seen.value
    assert granter.granted() > ids.count(), "the rest was not handed out"
    stats = client.stats()
    assert stats["ids_segment"] + stats["burnt"] == granter.granted(), stats
    held.clear()
    within(lambda: client.ask_any("segment orders 1").startswith("ids"), 5 + SLACK_S, "ids again")
