"""What a program's hook is given (docs/clients.md, Events): each kind where it happens, and nothing
where nothing does. The happy path is a Granter whose nodes a test disturbs."""

import collections

from driver import WITHOUT_THREADS
from fake import Granter, error, granted, http
from test_held_ranges import joined
from wait import wait_until


class Told:
    """The events of a client so far."""

    def __init__(self, client):
        self.client = client
        self.counts = collections.Counter()

    def look(self):
        self.counts.update(self.client.events())
        return self.counts

    def wait_for(self, kind, call=None):
        """call: a command with which a library without threads goes on."""

        def told():
            if call is not None and self.client.language in WITHOUT_THREADS:
                self.client.ask_any(call)
            return self.look()[kind]
        wait_until(told, 30, f"an event {kind}")


def test_nothing_happens(start, fake):
    granter = Granter()
    server = fake(granter.node({"Leafd_Generation": 3}))
    client = start().open(endpoints=server.url)
    client.ids("segment orders 1000")
    client.ids("strict1 others 2")
    assert client.events() == {}


def test_another_node_is_asked(start, fake):
    """A failover is no failure of the request, which brings ids in the end."""
    granter = Granter()
    nodes = [granter.node(), granter.node()]
    down = set()
    servers = [fake(lambda request, i=i: None if i in down else nodes[i](request))
               for i in range(2)]
    client = start().open(endpoints=joined(servers), min_count=10, max_count=10,
                          connect_ms=30000)
    client.ids("segment orders 5")
    down.add(0 if servers[0].requests else 1)
    client.ids("segment orders 100")
    told = Told(client)
    told.wait_for("failover")
    assert told.counts["refill_failed"] == told.counts["recovered"] == 0
    assert client.events() == {}, "they are told once"


def test_no_ids_come_and_then_they_do(start, fake):
    granter = Granter()
    server = fake(granter.node())
    client = start().open(endpoints=server.url, min_count=10, max_count=10)
    told = Told(client)
    client.ids("segment orders 5")
    granter.down = True
    client.refused("segment orders 100 deadline_ms=1000", "unreachable")
    told.wait_for("refill_failed")
    assert told.counts["recovered"] == 0
    granter.down = False
    assert client.ids("segment orders 5").count() == 5
    told.wait_for("recovered")
    assert set(told.counts) == {"refill_failed", "recovered"}


def test_a_quota(start, fake):
    """It is waited for, and no failure of the nodes."""
    granter = Granter().node()
    server = fake(lambda request: granter(request) if len(server.requests) > 3
                  else error(429, "quota"))
    client = start().open(endpoints=server.url)
    assert client.ids("segment orders 3").count() == 3
    assert client.events() == {} and client.stats()["retries"] == 3


def test_a_request_that_is_refused(start, fake):
    server = fake(lambda request: error(404, "unknown_tag"))
    client = start().open(endpoints=server.url)
    client.refused("segment orders 1", "unknown_tag")
    Told(client).wait_for("refill_failed")


def test_ranges_that_are_dropped(start, fake):
    granter = Granter()
    headers = {"Leafd_Generation": 4}
    server = fake(granter.node(headers))
    client = start().open(endpoints=server.url, max_age_ms=3000)
    told = Told(client)
    client.ids("segment orders 10")
    headers["Leafd_Generation"] = 5
    client.ids("range orders 10")
    told.wait_for("generation")
    assert client.stats()["burnt"] == 90
    client.ids("segment others 10")
    told.wait_for("aged", "segment others 1")
    assert set(told.counts) == {"generation", "aged"}


def test_a_worker_id_that_is_anothers(start, fake):
    server = fake(lambda request: granted() if request.method == "POST"
                  else error(409, "fenced") if request.method == "PUT" else http(204))
    client = start().open(endpoints=server.url, window_ms=1000)
    client.ids("snowflake 1")
    Told(client).wait_for("fenced", "snowflake 1")
