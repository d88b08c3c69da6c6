"""Ranges that a source holds: how old they may get, of which generation they are, and ids that are
not consecutive. The happy path is a Granter, whose answers a source takes; what is demanded is the
contract of docs/clients.md."""

import time

import pytest

from driver import SLACK_S, check_once, check_rising, stood_s
from fake import Granter, error, http
from wait import wait_until

pytestmark = pytest.mark.inside

INT63 = 1 << 63


def joined(servers):
    return ",".join(server.url for server in servers)


def all_told(client, granter, cut=0):
    """Each id that was granted is handed out, burnt, or held. cut: or of an answer of so many ids,
    which was under way when the deadline came, and so is told to nobody."""
    def equal():
        stats = client.stats()
        left = sum(client.gauges("ids_left").values())
        told = stats["ids_segment"] + stats["burnt"] + left
        assert told in (granter.granted(), granter.granted() - cut), (
            f"{stats}, left {left}, granted {granter.granted()}")
        return True

    wait_until(equal, 30, "all ids are accounted for")


# --- age ---


AGE_S = 2.0  # max_age_ms of these tests; by the contract an id may be a second older


def check_age(client, granter, began_ns, asked_ns):
    """Of an id that a call which began then has got. (An assertion would be waited for.)"""
    age_s = (began_ns - asked_ns) / 1e9
    if age_s > AGE_S + 1 + SLACK_S + client.waited_s + stood_s() - granter.stood_s:
        pytest.fail(f"an id of a range that is {age_s} s old")


def newer(client, granter, than):
    """One id at a time, until one comes that was granted after that time."""
    def taken():
        began_ns = time.monotonic_ns()
        number = client.ids("segment orders 1")[0][0]
        check_age(client, granter, began_ns, granter.asked_ns(number))
        return number if granter.asked_ns(number) > than else None

    return wait_until(taken, 30, "the range that is held is too old")


def test_a_range_that_is_too_old(start, fake):
    """Its ids are dropped, and not before their time; the next id is of a new one."""
    granter = Granter()
    server = fake(granter.node())
    client = start().open(endpoints=server.url, min_count=1000, max_age_ms=2000)
    assert client.ids("segment orders 10") == [(1, 10)]
    assert newer(client, granter, granter.grants[0][2]) == 1001
    assert granter.grants[1][2] - granter.grants[0][2] > 1e9, "it was dropped too early"
    assert client.stats()["burnt"] > 100
    all_told(client, granter)


def test_a_spare_range_that_is_too_old(start, fake):
    """It is dropped as well."""
    granter = Granter()
    server = fake(granter.node())
    client = start().open(endpoints=server.url, min_count=1000, max_count=1000, max_age_ms=2000)
    assert client.ids("segment orders 600") == [(1, 600)]
    wait_until(lambda: len(granter.grants) == 2, 30, "a spare one is asked for")
    spare = granter.grants[1]
    assert newer(client, granter, spare[2]) > spare[1]
    assert client.stats()["burnt"] > 1000
    all_told(client, granter)


def test_no_node_while_a_range_gets_too_old(start, fake):
    """Ids that are too old are not handed out, even where there are no others."""
    granter = Granter()
    server = fake(granter.node())
    client = start().open(endpoints=server.url, min_count=1000, max_age_ms=2000)
    client.ids("segment orders 10")
    granter.down = True

    def refused():
        began_ns = time.monotonic_ns()
        answer = client.ask_any("segment orders 1 deadline_ms=300")
        if answer.startswith("error unreachable "):
            return True
        check_age(client, granter, began_ns, granter.grants[0][2])
        return False

    wait_until(refused, 30, "the range that is held is too old")
    granter.down = False
    # Of the second range, or of a later one where that took so long that it was too old as well.
    (first, last), = client.ids("segment orders 1 deadline_ms=30000")
    assert first == last > 1000, (first, last)
    all_told(client, granter)


@pytest.mark.parametrize("value", [0, 86400001])
def test_a_bad_age(start, value):
    failed = start().refused(f"open endpoints=http://127.0.0.1:9 max_age_ms={value}", "bad_setting")
    assert "max_age_ms" in failed.message and str(value) in failed.message


# --- generation ---


def test_a_newer_generation(start, fake):
    """What is held of an older one is dropped as soon as an answer has the newer."""
    granter = Granter()
    headers = {"Leafd_Generation": 4}
    server = fake(granter.node(headers))
    client = start().open(endpoints=server.url, min_count=100, max_count=100)
    assert client.ids("segment orders 10") == [(1, 10)]
    headers["Leafd_Generation"] = 5
    assert client.ids("range orders 20") == [(101, 120)]
    assert client.ids("segment orders 80") == [(121, 200)]
    assert client.stats()["burnt"] == 90
    all_told(client, granter)


def test_a_newer_generation_with_a_spare_range(start, fake):
    """The spare range has it: then the rest of the first one is dropped."""
    granter = Granter()
    headers = {"Leafd_Generation": 4}
    server = fake(granter.node(headers))
    client = start().open(endpoints=server.url, min_count=100, max_count=100)
    client.ids("segment orders 10")
    headers["Leafd_Generation"] = 5
    granter.freeze(0)
    assert client.ids("segment orders 50") == [(11, 60)]  # less than half is left
    wait_until(lambda: granter.frozen[0], 30, "a spare range is asked for")
    granter.thaw()
    wait_until(lambda: client.stats()["burnt"] == 40, 30, "the spare range has come")
    assert client.ids("segment orders 30") == [(101, 130)]
    all_told(client, granter)


def test_an_older_generation(start, fake):
    """Such an answer is dropped, and another node is asked."""
    granter = Granter()
    headers = [{"Leafd_Generation": 6}, {"Leafd_Generation": 6}]
    servers = [fake(granter.node(each)) for each in headers]
    client = start().open(endpoints=joined(servers), min_count=100, max_count=100)
    client.ids("segment orders 10")
    used = 0 if servers[0].requests else 1
    before = len(granter.grants)
    headers[used]["Leafd_Generation"] = 5
    ids = client.ids("segment orders 300")
    old = granter.grants[before][:2]  # the one answer that had to be dropped
    asked, hedges = len(servers[used].requests), client.stats()["hedges"]
    # A second request whose answer is dropped counts as a failure: its node may be tried once more.
    least = 1 if hedges else 2
    assert least <= asked <= 2 + 2 * hedges and servers[1 - used].requests, (asked, hedges)
    check_once(ids, [old] if not hedges else [])
    all_told(client, granter)
    # Now all nodes are of an older one.
    headers[1 - used]["Leafd_Generation"] = 5
    failed = client.refused("segment orders 1000 deadline_ms=400", "unreachable")
    assert "generation" in failed.message
    all_told(client, granter, cut=100)


def test_an_older_generation_of_strict_ids(start, fake):
    """The next node is asked by the same key; where all are older there are none."""
    granter = Granter()
    headers = [{"Leafd_Generation": 6}, {"Leafd_Generation": 6}]
    servers = [fake(granter.node(each)) for each in headers]
    client = start().open(endpoints=joined(servers), connect_ms=30000)
    client.ids("strict orders 1")
    used = 0 if servers[0].requests else 1
    headers[used]["Leafd_Generation"] = 5
    assert client.ids("strict orders 2") == [(2, 3)]
    assert len({request.headers["idempotency-key"] for server in servers
                for request in server.requests}) == 2
    stats = client.stats()
    assert (stats["burnt"], stats["retries"], stats["failovers"]) == (2, 1, 1)
    headers[1 - used]["Leafd_Generation"] = 5
    failed = client.refused("strict orders 1 deadline_ms=400", "unreachable")
    assert "generation" in failed.message
    del headers[used]["Leafd_Generation"]
    assert client.ids("strict orders 1").count() == 1


def test_nodes_without_a_generation(start, fake):
    """Older servers say none: their answers are taken, also after one that said it."""
    granter = Granter()
    headers = {"Leafd_Generation": 9}
    server = fake(granter.node(headers))
    client = start().open(endpoints=server.url, min_count=100, max_count=100)
    client.ids("segment orders 10")
    del headers["Leafd_Generation"]
    assert client.ids("segment orders 290") == [(11, 300)]
    assert client.stats()["burnt"] == 0


# --- ids that are not consecutive ---


def test_stepped(start, fake):
    """The server refuses the first request; from then on all of that source ask for steps."""
    granter = Granter(increment=5)
    server = fake(granter.node())
    client = start().open(endpoints=server.url, min_count=10, max_count=10)
    ids = client.ids("segment orders 100")
    assert ids.each() == list(range(1, 501, 5))
    asked = [request.options.get("stepped") for request in server.requests]
    assert asked[0] is None and set(asked[1:]) == {"1"}
    assert client.stats()["errors"] == 0 and client.stats()["ids_segment"] == 100
    ids = client.ids("range orders 20")
    assert ids.count() == 19 * 5 + 1 and ids.step == 5
    assert server.requests[-1].options["stepped"] == "1"
    ids = client.ids("range fresh 20")
    assert ids.step == 5
    all_told(client, granter)


def test_steps_of_a_strict_source(start, fake):
    granter = Granter(increment=7)
    server = fake(granter.node())
    client = start().open(endpoints=server.url)
    assert client.ids("strict1 orders 2").each() == [1, 8]
    assert client.ids("strict orders 3 mine").each() == [15, 22, 29]
    again = client.ids("strict orders 3 mine")
    assert again.each() == [15, 22, 29] and again.replayed
    asked = [request.options.get("stepped") for request in server.requests]
    assert asked == [None, "1", "1", "1", "1"]


def test_steps_of_threads(start, fake):
    granter = Granter(increment=3)
    server = fake(granter.node())
    client = start().open(endpoints=server.url, min_count=7, max_count=50)
    ids = client.ids("threads 4 orders 500")
    assert ids.count() == 2000
    check_once(ids)
    assert all(number % 3 == 1 for number in ids.each())


def test_stepped_for_ever(start, fake):
    """A server that refuses the second request, too, is not asked a third time."""
    server = fake(lambda request: error(400, "stepped", "ask otherwise"))
    client = start().open(endpoints=server.url)
    for line in ("segment orders 1", "range orders 1", "strict orders 1"):
        asked = len(server.requests)
        assert client.refused(line, "stepped").status == 400
        assert len(server.requests) - asked <= 2


# Answers to stepped=1 for n ids, n > 3.
WRONG = {
    "no increment": lambda n: f"1 {n}\n",
    "an empty increment": lambda n: f"1 {n} \n",
    "increment 0": lambda n: f"1 {n} 0\n",
    "a negative one": lambda n: f"{5 * n} 1 -5\n",
    "one with a sign": lambda n: f"1 {5 * n - 4} +5\n",
    "a fraction": lambda n: f"1 {5 * n - 4} 5.0\n",
    "a last id between two": lambda n: f"1 {5 * n - 3} 5\n",
    "a last id below": lambda n: f"{5 * n} 1 5\n",
    "fewer": lambda n: f"1 {5 * n - 9} 5\n",
    "more": lambda n: f"1 {5 * n + 1} 5\n",
    "many more": lambda n: f"1 {INT63 - 1} 1\n",
    "an increment of 2^63": lambda n: f"1 1 {INT63}\n",
    "an increment around 2^64": lambda n: f"1 {5 * n - 4} {2 * INT63 + 5}\n",
    "a last id of 2^63": lambda n: f"{INT63 - 5 * (n - 1)} {INT63} 5\n",
    "four numbers": lambda n: f"1 {5 * n - 4} 5 1\n",
    "lines that overlap": lambda n: f"1 {5 * n - 19} 5\n{5 * n - 19} {5 * n - 9} 5\n",
    "lines that mesh": lambda n: f"1 {10 * n - 29} 10\n6 {6 + 10} 10\n",
    "lines that fall": lambda n: f"101 {5 * n + 91} 5\n1 1 5\n",
}


def test_steps_that_are_none(start, fake):
    """What is no whole answer is refused as such; the source goes on with what is right."""
    cases = {f"case{i}": (name, made) for i, (name, made) in enumerate(WRONG.items())}
    right = set()

    def answer(request):
        if request.options.get("stepped") != "1":
            return error(400, "stepped", "ask otherwise")
        if request.tag in right:
            return http(200, f"1000001 {1000001 + 5 * (request.count - 1)} 5\n")
        return http(200, cases[request.tag][1](request.count))

    server = fake(answer)
    client = start().open(endpoints=server.url, min_count=10, max_count=10)
    wrong = []
    for tag, (name, _) in cases.items():
        for line in (f"segment {tag} 5", f"range {tag} 10", f"strict {tag} 10"):
            try:
                client.refused(line, "bad_answer")
            except AssertionError as found:
                wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)
    assert client.stats()["ids_segment"] == client.stats()["ids_strict"] == 0
    right.update(cases)
    assert client.ids("strict case0 2").each() == [1000001, 1000006]


def test_steps_up_to_the_last_id(start, fake):
    """2^63 - 1 is an id; and one answer may have several lines, with increments of their own."""
    def answer(request):
        if request.options.get("stepped") != "1":
            return error(400, "stepped", "ask otherwise")
        return http(200, f"1 11 5\n20 22 1\n{INT63 - 1 - 3 * 9} {INT63 - 1} 9\n")

    server = fake(answer)
    client = start().open(endpoints=server.url, min_count=10, max_count=10)
    ids = client.ids("segment orders 10")
    assert ids.each() == [1, 6, 11, 20, 21, 22, *range(INT63 - 28, INT63, 9)]
    check_rising(ids)
