"""Each source can be closed by itself, and says what it holds (docs/clients.md, Counters)."""

import time

import pytest

from driver import check_once
from fake import Granter, granted, http
from test_held_ranges import all_told
from wait import wait_until


def test_a_closed_segment_source(start, fake):
    """What it holds is burnt, its calls are refused, and the client serves others."""
    granter = Granter()
    server = fake(granter.node())
    client = start().open(endpoints=server.url)
    ids = client.ids("segment orders 10")
    assert client.ask("close_source segment orders") == "ok"
    assert client.stats()["burnt"] == 90
    for line in ("segment orders 1", "range orders 1"):
        assert client.refused(line, "closed").status == 0
    assert client.ask("close_source segment orders") == "ok"
    ids += client.ids("segment others 10")
    check_once(ids)
    assert client.stats()["ids_segment"] == 20
    all_told(client, granter)


def test_a_source_that_is_closed_while_it_asks(start, fake):
    """What its request brings is burnt. (The driver does one command at a time.)"""
    granter = Granter()
    server = fake(granter.node())
    client = start().open(endpoints=server.url, min_count=100, max_count=100)
    client.ids("segment orders 10")
    granter.freeze(0)
    client.ids("segment orders 50")
    wait_until(lambda: granter.frozen[0], 30, "a spare range is asked for")
    assert client.ask("close_source segment orders") == "ok"
    granter.thaw()
    all_told(client, granter)
    assert client.ids("segment others 10").count() == 10


@pytest.mark.parametrize("kind, line", [("strict", "strict orders 1"), ("texts", "texts orders 1")])
def test_closed_sources_of_requests(start, fake, kind, line):
    server = fake(lambda request: http(200, f"1 {request.count}\n" if "format" in request.options
                                       else "1\n"))
    client = start().open(endpoints=server.url)
    client.ask(line)
    assert client.ask(f"close_source {kind} orders") == "ok"
    asked = len(server.requests)
    assert client.refused(line, "closed").status == 0
    client.ask(line.replace("orders", "others"))
    assert len(server.requests) == asked + 1


def test_a_closed_snowflake_source(start, fake):
    """Its worker id is released at once, for others."""
    server = fake(lambda request: granted() if request.method == "POST" else http(204))
    client = start().open(endpoints=server.url)
    client.ids("snowflake 1")
    assert client.ask("close_source snowflake -") == "ok"
    assert [request.method for request in server.requests] == ["POST", "DELETE"]
    client.refused("snowflake 1", "closed")
    assert client.ask("close") == "ok"
    assert len(server.requests) == 2, "it is released once"


def test_gauges(start, fake):
    """Ids left, how old the oldest range is, and when the window of a worker id ends."""
    granter = Granter()
    node = granter.node()
    until_ms = time.time_ns() // 1_000_000 + 60_000
    server = fake(lambda request: granted(until_ms=until_ms) if request.method == "POST"
                  else http(204) if request.method == "DELETE" else node(request))
    client = start().open(endpoints=server.url)
    client.ids("segment orders 10")
    client.ids("segment fresh 1")
    assert client.gauges("ids_left") == {"orders": 90, "fresh": 99}
    ages = client.gauges("range_age_seconds")
    since_s = (time.monotonic_ns() - granter.grants[0][2]) / 1e9
    assert 0 <= ages["orders"] <= since_s + 1 and set(ages) == {"orders", "fresh"}
    wait_until(lambda: client.gauges("range_age_seconds")["orders"] > 1, 30, "it gets older")
    client.ids("snowflake 1")
    ends = client.gauges("window_end_seconds")
    assert len(ends) == 1 and abs(list(ends.values())[0] * 1000 - until_ms) <= 1, ends
