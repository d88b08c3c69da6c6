"""What each call gives when nothing is in the way, and what is refused before anything is sent."""

import re
import time

import pytest

from driver import (FORKING, Failed, check_once, check_rising, parse_loop, parse_mix, urls)
from fake import error
from snowflakes import EPOCH_MS, decode
from wait import wait_until

COUNTERS = {"ids_segment", "ids_strict", "ids_snowflake", "requests", "retries", "failovers",
            "errors", "waits", "burnt", "clock_waits", "renewals", "hedges"}


def test_segment(steady, tag):
    """Ids of one source rise, over many ranges, and cost few requests."""
    ids = steady.ids(f"segment {tag} 10")
    assert ids == [(1, 10)] or ids.count() == 10
    more = steady.ids(f"segment {tag} 5000")
    assert more.count() == 5000
    check_rising(ids + more)
    assert steady.stats()["requests"] < 40


def test_range(client, tag):
    kept = client.ids(f"segment {tag} 3")
    ids = client.ids(f"range {tag} 1000")
    assert len(ids) == 1 and ids.count() == 1000
    check_once(kept, ids, client.ids(f"segment {tag} 50"))


def test_range_that_no_segment_holds(client, shared, tag):
    error = client.refused(f"range {tag}.small 1000", "unknown_tag")
    assert error.status == 404
    shared.create_tag(f"{tag}.few", step=10, max_step=10)
    assert client.refused(f"range {tag}.few 11", "not_contiguous").status == 409


def test_strict(steady, strict_tag):
    """One call is one range, and without others there are no gaps."""
    assert steady.ids(f"strict {strict_tag} 3") == [(1, 3)]
    assert steady.ids(f"strict1 {strict_tag} 4") == [(4, 7)]
    assert steady.ids(f"strict {strict_tag} 1000") == [(8, 1007)]
    assert steady.stats()["requests"] == 6


def test_strict_rises_over_clients(start, shared, strict_tag):
    clients = [start().open(endpoints=urls(shared, node)) for node in shared.nodes]
    taken = [clients[turn % 3].ids(f"strict {strict_tag} 2")[0] for turn in range(9)]
    assert taken == [(2 * turn + 1, 2 * turn + 2) for turn in range(9)]


def test_strict_by_key(client, strict_tag):
    first = client.ids(f"strict {strict_tag} 5 order-4711")
    again = client.ids(f"strict {strict_tag} 5 order-4711")
    assert first == again == [(1, 5)]
    assert not first.replayed and again.replayed
    assert client.ids(f"strict {strict_tag} 5 order-4712") == [(6, 10)]
    error = client.refused(f"strict {strict_tag} 4 order-4711", "idempotency_conflict")
    assert error.status == 409


def test_a_segment_source_of_a_strict_tag(client, strict_tag):
    check_once(client.ids(f"segment {strict_tag} 250"), client.ids(f"strict {strict_tag} 5"))


def test_a_strict_source_of_a_trend_tag(client, tag):
    """leafd takes no key for it, and the library must not ask without one."""
    assert client.refused(f"strict {tag} 1", "bad_key").status == 400


def test_snowflake(client, shared):
    ids = client.ids("snowflake 5000").each()
    assert len(ids) == 5000 and ids == sorted(set(ids))
    assert len({decode(number).worker for number in ids}) == 1
    first = decode(ids[0])
    answer = client.ask(f"decode {ids[0]}")
    assert answer == f"decode {first.ms} {first.worker} {first.sequence}"
    theirs = shared.nodes[0].get_json(f"/api/snowflake/decode/{ids[0]}")
    assert theirs["timestamp_ms"] == first.ms and theirs["worker_id"] == first.worker


def test_the_smallest_id_of_a_time(client, shared):
    client.ids("snowflake 1")
    node = shared.nodes[0]
    for time_ms in (EPOCH_MS, 1588421624602, time.time_ns() // 1000000, EPOCH_MS + (1 << 41) - 1):
        theirs = node.get(f"/api/snowflake/at?time={time_ms}").text
        assert client.ask(f"at {time_ms}") == f"at {theirs}"
    for time_ms in (0, EPOCH_MS - 1, EPOCH_MS + (1 << 41)):
        error = client.refused(f"at {time_ms}", "bad_setting")
        assert str(EPOCH_MS) in error.message and str(EPOCH_MS + (1 << 41) - 1) in error.message


def test_snowflake_of_two_processes(start, shared):
    clients = [start().open(endpoints=urls(shared)) for _ in range(2)]
    found = [client.ids("snowflake 1000") for client in clients]
    check_once(*found)
    assert len({decode(number).worker for ids in found for number in ids.each()}) == 2


def test_names_of_tags(client, shared, tag):
    """Whatever a name may have goes into the path in one piece."""
    for name in (f"a/{tag}", f"{tag}.b;c+d%2F&e?f#g", f"späte/ünï/{tag}", tag.ljust(128, "x")):
        shared.create_tag(name)
        assert client.ids(f"segment {name} 2").count() == 2, name


def test_threads(steady, tag):
    ids = steady.ids(f"threads 8 {tag} 2000")
    assert ids.count() == 16000
    check_once(ids)


def test_threads_of_many_small_ranges(start, shared, tag):
    client = start().open(endpoints=urls(shared, shared.nodes[0]), min_count=1, max_count=7)
    ids = client.ids(f"threads 8 {tag} 100")
    assert ids.count() == 800
    check_once(ids)


def test_fork(client, language, tag):
    """A child of fork takes nothing of what its parent holds."""
    before = client.ids(f"segment {tag} 10")
    if language not in FORKING:
        assert client.ask(f"fork {tag} 50") == "unsupported"
        pytest.skip(f"{language} has no fork")
    ids = client.ids(f"fork {tag} 50")
    assert ids.count() == 100
    check_once(before, ids)
    check_once(before, ids, client.ids(f"segment {tag} 500"))


def test_fork_with_a_worker_id(client, language):
    before = client.ids("snowflake 10")
    if language not in FORKING:
        assert client.ask("forksnow 50") == "unsupported"
        pytest.skip(f"{language} has no fork")
    ids = client.ids("forksnow 50")
    assert ids.count() == 100
    check_once(before, ids)
    after = client.ids("snowflake 10")
    check_once(before, ids, after)
    # The parent goes on with its own worker id: the child has not released that.
    mine = {decode(number).worker for number in before.each()}
    assert mine == {decode(number).worker for number in after.each()}
    assert len(mine | {decode(number).worker for number in ids.each()}) == 2


def test_processes_share_a_tag(start, shared, tag):
    clients = [start().open(endpoints=urls(shared, node), max_count=500)
               for node in shared.nodes]
    for client in clients:
        client.begin(f"segment {tag} 4000")
    found = [client.parse(client.judge(client.finish())) for client in clients]
    assert [ids.count() for ids in found] == [4000] * 3
    check_once(*found)
    for ids in found:
        check_rising(ids)


def test_loop(start, shared, tag):
    client = start().open(endpoints=urls(shared, shared.nodes[0]), max_count=1000)
    client.ids(f"segment {tag} 10")
    answer = client.ask(f"loop {tag} 1")
    count, longest, p9999, ids = parse_loop(answer)
    assert ids.count() == count > 1000
    assert 0 < p9999 <= longest < (2 + client.waited_s) * 1e9
    check_rising(ids)
    assert client.stats()["errors"] == 0


def test_mix(steady, tag, strict_tag):
    kinds = parse_mix(steady.ask(f"mix {tag} {strict_tag} 1"))
    for ids in kinds:
        assert ids.count() > 0
        check_rising(ids)
    assert kinds[1][0][0] == 1 and len(kinds[1]) == 1


def test_bench(client, tag):
    for line in (f"bench {tag} 20000", f"benchthreads 2 {tag} 20000"):
        answer = client.ask(line)
        assert re.fullmatch(r"bench \d+(\.\d+)?", answer), answer
        assert 0 < float(answer.split(" ")[1]) < 1e6


def test_stats(steady, tag, strict_tag):
    steady.ids(f"segment {tag} 10")
    steady.ids(f"strict {strict_tag} 2")
    steady.ids("snowflake 3")
    stats = steady.stats()
    assert COUNTERS <= set(stats), sorted(COUNTERS - set(stats))
    assert (stats["ids_segment"], stats["ids_strict"], stats["ids_snowflake"]) == (10, 2, 3)
    assert stats["requests"] >= 3 and stats["waits"] >= 1
    assert stats["retries"] == stats["failovers"] == stats["errors"] == 0
    steady.refused(f"segment {tag}.absent 1", "unknown_tag")
    assert steady.stats()["errors"] >= 1


def test_close(client, tag, strict_tag):
    client.ids(f"segment {tag} 10")
    client.ids("snowflake 1")
    assert client.ask("close") == "ok"
    for line in (f"segment {tag} 1", f"range {tag} 1", f"strict {strict_tag} 1", "snowflake 1"):
        assert client.refused(line, "closed").status == 0
    client.end()


def test_the_end_of_the_input(client, tag):
    """The driver ends by itself, whatever the library has under way."""
    client.ids(f"segment {tag} 10")
    client.ids("snowflake 1")
    client.end()


@pytest.mark.parametrize("name, value", [
    ("attempt_ms", 0),
    ("attempt_ms", 600001),
    ("deadline_ms", 0),
    ("deadline_ms", 600001),
    ("cover_ms", 600001),
    ("min_count", 0),
    ("max_count", 100001),
    ("max_count", 99),  # less than min_count
    ("window_ms", 999),
    ("window_ms", 86400001),
    ("endpoints", "ftp://127.0.0.1:80"),
    ("endpoints", "http://"),
    ("endpoints", "http://127.0.0.1:0"),
    ("endpoints", "http://127.0.0.1:65536"),
    ("endpoints", "http://[::1]:8x"),
    ("endpoints", "http://127.0.0.1:9/leafd"),
    ("endpoints", "http://127.0.0.1:9?x=1"),
    ("ca_file", "/nowhere/ca.pem"),
])
def test_settings_that_break_their_rule(start, name, value):
    """The name and the value are in the message."""
    settings = {"endpoints": "http://127.0.0.1:9", name: value}
    error = start().refused(
        " ".join(["open", *(f"{key}={text}" for key, text in settings.items())]), "bad_setting")
    assert error.status == 0
    assert name in error.message and str(value) in error.message


@pytest.mark.parametrize("place", ["a_container:9", "node-1.of.zone", "10.1.2.3:9", "[::1]:9"])
def test_places_of_endpoints(start, place):
    start().open(endpoints=f"http://{place}/")


def test_an_endpoint_that_is_given_twice(start, fake):
    """It is one node: nothing leads from it to itself."""
    server = fake(lambda request: error(503, "no_leader"))
    client = start().open(endpoints=f"{server.url},{server.url}/", deadline_ms=300)
    client.refused("strict orders 1", "unreachable")
    assert client.stats()["failovers"] == 0


def test_arguments_that_break_their_rule(client, strict_tag, tag):
    """Nothing is sent."""
    long = "x" * 129
    for line in (f"segment {long} 1", f"range {tag} 0", f"range {tag} 100001",
                 f"strict {strict_tag} 0", f"strict {strict_tag} 100001", f"strict {long} 1",
                 f"strict {strict_tag} 1 {long}", f"strict {strict_tag} 1 schlüssel"):
        assert client.refused(line, "bad_setting").status == 0, line
    assert client.stats()["requests"] == 0


def test_errors_of_the_server(steady, shared, tag):
    """They come to the caller as the server has them, after one request, and are forgotten."""
    name = f"{tag}.later"
    error = steady.refused(f"segment {name} 1", "unknown_tag")
    assert error.status == 404 and name in error.message
    assert steady.stats()["requests"] == 1 and steady.stats()["retries"] == 0
    shared.create_tag(name)

    def asked_again():
        try:
            return steady.ids(f"segment {name} 1")
        except Failed as failed:
            assert failed.code == "unknown_tag"
            return None

    wait_until(asked_again, 3, "the tag is asked for again")


def test_a_tag_that_ends(client, shared, tag):
    """What is left of a tag that has a max goes out in smaller requests, or not at all."""
    shared.create_tag(f"{tag}.ends", max=51)
    assert client.refused(f"range {tag}.ends 51", ("not_contiguous", "exhausted")).status == 409
    assert client.ids(f"range {tag}.ends 50") == [(1, 50)]
    assert client.refused(f"segment {tag}.ends 1", "exhausted").status == 409
