"""Nodes that die, hang, are cut off, refuse or lose their answers, while a client asks.

What is demanded is the contract of docs/clients.md: no error where a living node can be reached,
none twice, and no call beyond its deadline (in_time()).
"""

import functools
import threading
import time

import pytest

from driver import check_once, check_rising, in_time, parse_loop, urls
from fake import error, granted, http
from ports import take_port
from wait import wait_until

QUICK = {"attempt_ms": 500}


def joined(gates):
    return ",".join(gate.url for gate in gates)


def used(gates):
    """The gate that the client asks through."""
    return max(gates, key=lambda gate: len(gate.exchanges))


# --- answers that are lost ---


def test_a_strict_answer_is_lost(start, gates, strict_tag):
    """The retry has the same key, and gets the ids of the first try."""
    client = start().open(endpoints=joined(gates), **QUICK)
    for gate in gates:
        gate.lose = 1
    ids = client.ids(f"strict {strict_tag} 3")
    assert ids == [(1, 3)] and ids.replayed
    assert sum(gate.lost for gate in gates) >= 1
    sent = [e for gate in gates for e in gate.requests("GET /api/segment/get/")]
    keys = {exchange.headers["idempotency-key"] for exchange in sent}
    assert len(sent) > 1 and len(keys) == 1
    key = keys.pop()
    assert len(key) == 26 and key.isalnum()
    for gate in gates:
        gate.lose = 0
    more = client.ids(f"strict {strict_tag} 2")
    stats = client.stats()
    assert more == [(4, 5)] and (not more.replayed or stats["hedges"])  # of one that took long
    assert stats["retries"] >= 1 and stats["ids_strict"] == 5


def test_each_call_has_a_key_of_its_own(start, gates, strict_tag):
    client = start().open(endpoints=gates[0].url)
    client.ids(f"strict1 {strict_tag} 20")
    keys = [e.headers["idempotency-key"] for gate in gates for e in gate.exchanges]
    assert len(keys) == len(set(keys)) == 20


def test_a_strict_call_comes_again_with_its_key(start, gates, strict_tag):
    """All its answers are lost until the deadline; the caller comes again with the key."""
    client = start().open(endpoints=joined(gates), **QUICK)
    for gate in gates:
        gate.lose = 1000
    client.refused(f"strict {strict_tag} 2 mine deadline_ms=400", "unreachable")
    in_time(client, 400)
    granted = any(gate.lose < 1000 for gate in gates)  # on a busy machine none may have got it
    for gate in gates:
        gate.lose = 0
    ids = client.ids(f"strict {strict_tag} 2 mine")
    assert ids == [(1, 2)] and (ids.replayed or not granted)


def test_answers_to_a_segment_are_lost(start, gates, tag):
    """What was granted twice is skipped."""
    client = start().open(endpoints=joined(gates), **QUICK)
    before = client.ids(f"segment {tag} 90")
    for gate in gates:
        gate.lose = 1
    after = client.ids(f"segment {tag} 500")
    assert sum(gate.lost for gate in gates) >= 1
    assert before.count() == 90 and after.count() == 500
    check_once(before, after)


# --- the form of the requests ---


def test_requests(start, gates, tag):
    """The first request is for min_count, the next ones for at most twice the size before; a range
    is asked for in one piece; ids that were asked for are handed out before others are."""
    client = start().open(endpoints=joined(gates), min_count=10, max_count=200)
    client.ids(f"segment {tag} 1000")
    asked = [e for gate in gates for e in gate.requests(f"GET /api/segment/get/{tag}?")]
    asked.sort(key=lambda exchange: exchange.at_ns)
    sizes = [options(exchange)["count"] for exchange in asked]
    assert {exchange.target.split("?")[0] for exchange in asked} == {f"/api/segment/get/{tag}"}
    assert all(options(exchange)["format"] == "range" for exchange in asked)
    sizes = [int(size) for size in sizes]
    if client.stats()["hedges"]:  # which arrive at another gate, perhaps after later ones
        sizes.sort()
    assert sizes[0] == 10 and max(sizes) <= 200
    for before, after in zip(sizes, sizes[1:]):
        assert before // 2 <= after <= 2 * before
    client.ids(f"range {tag} 77")
    last = [e for gate in gates for e in gate.exchanges if "contiguous=1" in e.target]
    assert len(last) == 1 and options(last[0])["count"] == "77"
    if not client.stats()["hedges"]:  # of a node that took long
        assert sum(bool(gate.exchanges) for gate in gates) == 1, "it keeps to one node"
        assert sum(gate.accepted for gate in gates) <= 3, "and to its connections"


def test_the_last_ids_of_a_tag(start, fake):
    """Fewer are left below the tag's max than a source asks for: it gets them all by asking for
    half as many, down to one; and asks for more again, once max rises."""
    ids = Below(150)
    server = fake(ids.answer)
    client = start().open(endpoints=server.url)
    assert client.ids("segment order 149") == [(1, 149)]
    error_seen = client.refused("segment order 1", "exhausted")
    assert error_seen.status == 409 and "below its max" in error_seen.message
    assert client.stats()["errors"] <= 2, "what was refused is no error while fewer were there"
    asked = [request.count for request in server.requests]
    assert asked[0] == 100 and min(asked) == 1 and len(asked) < 40, asked
    ids.end = 10000

    def more():
        answer = client.ask_any("segment order 1")
        return answer.startswith("ids ")

    wait_until(more, 5, "the tag is asked for again")
    client.ids("segment order 3000")
    asked = [request.count for request in server.requests]
    assert max(asked[-3:]) > 100, asked


class Below:
    """A node with ids from 1 on, below an end that the test sets."""

    def __init__(self, end):
        self.next = 1
        self.end = end

    def answer(self, request):
        first = self.next
        if first + request.count > self.end:
            return error(409, "exhausted", "less than that is left below its max")
        self.next += request.count
        return http(200, f"{first} {self.next - 1}\n")


def options(exchange):
    return dict(pair.split("=") for pair in exchange.target.partition("?")[2].split("&"))


def test_clients_begin_anywhere(start, fake, language):
    """With a random node each: that 20 clients all take the same of two is 1 in 500,000."""
    if language == "java":
        pytest.skip("java: a dozen of its processes take too long; the choice has a unit test")
    servers = [fake(lambda request: http(200, f"1 {request.count}\n")) for _ in range(2)]
    for _ in range(20):
        client = start().open(endpoints=joined(servers))
        client.ids("segment orders 1")
        client.end()
    assert all(server.requests for server in servers)


def test_one_request_at_a_time(start, fake):
    """Whatever number of threads wait for a source."""
    top = iter(range(0, 10**9, 100000))

    def answer(request):
        time.sleep(0.02)  # the server's time, in which others could ask
        first = next(top) + 1
        return http(200, f"{first} {first + request.count - 1}\n")

    server = fake(answer)
    client = start().open(endpoints=server.url, max_count=100)
    assert client.ids("threads 8 orders 100").count() == 800
    assert server.most_at_once == 1
    assert len(server.requests) >= 8


# --- nodes that are not there ---


@pytest.mark.parametrize("kind", ["closed", "deaf", "refusing"])
def test_all_but_one_are_away(start, shared, fake, gates, tag, strict_tag, kind):
    """Every kind of call finds the one that serves."""
    for gate in gates[:2]:
        gate.shut() if kind == "closed" else gate.deaf()
    if kind == "refusing":
        away = [fake(lambda request: error(503, "no_leader", Retry_After="1")) for _ in range(2)]
    else:
        away = gates[:2]
    for _ in range(3):  # another one of them is the first each time
        client = start().open(endpoints=joined([*away, gates[2]]), attempt_ms=300)
        assert client.ids(f"segment {tag} 20").count() == 20
        assert client.ids(f"range {tag} 20").count() == 20
        assert client.ids(f"strict {strict_tag} 1").count() == 1
        assert client.ids("snowflake 2").count() == 2
        client.kill()


@pytest.mark.parametrize("line", ["segment orders 1", "range orders 1", "strict orders 1",
                                  "snowflake 1"])
def test_nobody_listens(start, line):
    """The message has the last failure of each node, and the deadline is kept."""
    if line.startswith("range"):
        deadline_ms, last = 700, ""
    else:
        deadline_ms, last = 400, " deadline_ms=400"
    ports = [take_port() for _ in range(3)]
    endpoints = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    client = start().open(endpoints=endpoints, deadline_ms=700)
    client.refused(line + last, "unreachable")  # a runtime that loads code has it then
    before, failed = client.refused_in_time(line + last, [f"127.0.0.1:{port}" for port in ports])
    in_time(client, deadline_ms)
    assert client.took_s > deadline_ms / 1000 - 0.05, "it was given up too early"
    assert failed.status == 0
    # By the rounds of the contract some 2 to 7 rounds of three have their turn.
    # In the second call; one of snowflake may go by what the first one learned.
    after = client.stats()
    assert after["requests"] + after["retries"] >= 3
    assert sum(after[name] - before[name] for name in ("requests", "retries")) <= 60


KINDS = ["segment orders 1", "range orders 1", "strict orders 1", "snowflake 1"]


def answer_all(request):
    """What a node answers to any of KINDS, and to texts."""
    if request.path == "/api/workers":
        return granted()
    return http(200, f"1 {request.count}\n" if "format" in request.options else "1\n")


def warm(start, line, server):
    """A driver whose runtime has loaded what such a call needs."""
    client = start().open(endpoints=server.url)
    client.ask(line)
    return client


@pytest.mark.parametrize("line", KINDS)
def test_machines_that_swallow_packets(start, fake, hole, line):
    """Two of three: whichever is asked first, each costs connect_ms and no more."""
    server = fake(answer_all)
    client = warm(start, line, server)
    client.open(endpoints=",".join([hole(), hole(), server.url]))
    client.ask(line)
    in_time(client, 600)


@pytest.mark.parametrize("line", KINDS)
def test_a_deadline_below_attempt_ms(start, fake, line):
    """A node that takes connections and says nothing leaves time for another one."""
    silent = fake(lambda request: wait_for_end(silent))
    server = fake(answer_all)
    client = warm(start, line, server)
    while not silent.requests:  # which is the first one is drawn by chance
        client.open(endpoints=joined([silent, server]), deadline_ms=3000)
        client.ask(line)


def wait_for_end(server):
    server.ended.wait(30)


@pytest.mark.parametrize("line", [*KINDS, "texts orders 1", "threads 8 orders 1"])
def test_counters_of_an_outage(start, fake, line):
    """They mean the same in all libraries: each attempt is a request, all but the first of a call a
    retry, each node that is left a failover; calls that wait are counted, and so are errors."""
    ports = [take_port() for _ in range(3)]
    client = warm(start, line, fake(answer_all))
    client.open(deadline_ms=1500,
                endpoints=",".join(f"http://127.0.0.1:{port}" for port in ports))
    client.refused(line, "unreachable")
    stats = client.stats()
    calls = 8 if line.startswith("threads") else 1
    assert stats["waits"] == stats["errors"] == calls, stats
    # Eight threads share one request of their source, which a late one of them may begin anew.
    assert 1 <= stats["requests"] - stats["retries"] <= calls, stats
    assert stats["requests"] - 3 <= stats["failovers"] <= stats["requests"], stats
    assert 3 <= stats["requests"] <= 30 * calls, stats
    assert not stats["burnt"] and not stats["ids_segment"] + stats["ids_strict"], stats


def test_a_connection_that_takes_longer_each_time(start, fake, hole):
    """On a slow network connect_ms is too short in the first round, and is doubled until it is not:
    the one address is tried again and again, each time for longer."""
    client = warm(start, "strict orders 1", fake(answer_all))
    client.open(endpoints=hole(), connect_ms=50, deadline_ms=1600)
    client.refused("strict orders 1", "unreachable")
    # 50, 100, 200, 400, and the rest, with rounds between: at 50 each there would be some 8.
    assert 3 <= client.stats()["requests"] <= 6, client.stats()


def test_nobody_answers(start, fake):
    """They take connections and say nothing: attempt_ms ends an attempt, the deadline the call."""
    def answer(_):
        server_gone.wait(10)
        return None

    server_gone = threading.Event()
    servers = [fake(answer) for _ in range(2)]
    client = start().open(endpoints=joined(servers), attempt_ms=300, deadline_ms=800)
    for line in ("segment orders 1", "strict orders 1"):
        client.refused(line, "unreachable")
        in_time(client, 800)
        assert client.took_s > 0.75
    server_gone.set()
    assert all(server.requests for server in servers), "both were asked"
    # An attempt that is longer than what is left ends with the call.
    client = start().open(endpoints=joined(servers), attempt_ms=5000, deadline_ms=500)
    server_gone.clear()
    client.refused("strict orders 1", "unreachable")
    in_time(client, 500)
    server_gone.set()


def second_call(client, server):
    """The requests of a strict call after a first one, which loads whatever a first call loads.

    The server may see the last attempt of the first call after that call has ended: what belongs
    to which call is known by its idempotency key alone.
    """
    client.refused("strict orders 1", "unreachable")
    client.refused("strict orders 1", "unreachable")
    with server.lock:
        keys = [request.headers["idempotency-key"] for request in server.requests]
        return [request for request, key in zip(server.requests, keys) if key != keys[0]]


def test_rounds(start, fake):
    """20 ms, 40, 80, 160, 320, 640, 1000, of each a random half to all: in 1.2 s 6 or 7 rounds."""
    server = fake(lambda request: None)
    client = start().open(endpoints=server.url, deadline_ms=1200)
    requests = second_call(client, server)
    assert len(requests) <= 7, len(requests)
    assert len(requests) >= 4 or client.waited_s > 0.3, len(requests)
    began = requests[0].at_ns
    assert all(request.at_ns - began < (1.3 + client.waited_s) * 1e9 for request in requests)


def test_retry_after(start, fake):
    """A node that says when to come again is not asked before, nor beyond the deadline."""
    server = fake(lambda request: error(503, "overloaded", Retry_After="1"))
    client = start().open(endpoints=server.url, deadline_ms=1700)
    times = [request.at_ns for request in second_call(client, server)]
    in_time(client, 1700)
    assert len(times) == 2 or len(times) == 1 and client.waited_s > 0.5
    assert all(after - before > 0.95e9 for before, after in zip(times, times[1:]))


def test_a_quota(start, fake):
    """429 quota: at the same address, when it says so."""
    def answer(request):
        if len(server.requests) == 1:
            return error(429, "quota", Retry_After="1")
        return http(200, f"1 {request.count}\n")

    server = fake(answer)
    client = start().open(endpoints=server.url)
    assert client.ids("strict orders 2") == [(1, 2)]
    assert server.requests[1].at_ns - server.requests[0].at_ns > 0.95e9
    assert server.requests[0].headers["idempotency-key"] == (
        server.requests[1].headers["idempotency-key"])


@pytest.mark.parametrize("line", ["segment orders 1", "range orders 1", "strict orders 1",
                                  "snowflake 1"])
def test_a_quota_beyond_the_deadline(start, fake, line):
    """It is the client's own: "no node answered" would send its reader to look at the nodes."""
    server = fake(lambda request: error(429, "quota", "60 a minute are used up", Retry_After="60"))
    client = start().open(endpoints=server.url, deadline_ms=3000)
    failed = client.refused(line, "quota")
    assert failed.status == 429 and "60 a minute" in failed.message
    in_time(client, 3000)


@pytest.mark.parametrize("status, code", [
    (400, "bad_request"), (401, "unauthorized"), (403, "forbidden_tag"), (404, "unknown_tag"),
    (409, "conflict"), (413, "body_too_large"), (429, "share"), (507, "state_full"),
])
def test_errors_that_are_not_tried_again(start, fake, status, code):
    servers = [fake(lambda request: error(status, code, "said the server")) for _ in range(2)]
    client = start().open(endpoints=joined(servers), connect_ms=30000)
    for line in ("segment orders 1", "range orders 1", "strict orders 1", "snowflake 1"):
        failed = client.refused(line, code)
        assert failed.status == status and "said the server" in failed.message
        assert client.took_s - client.waited_s < 2
    assert sum(len(server.requests) for server in servers) == 4
    assert client.stats()["errors"] == 4  # of calls: the requests behind them count for none


@pytest.mark.inside
@pytest.mark.parametrize("line", [*KINDS, "texts orders 1"])
@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_that_gets_no_answer(start, fake, status, line):
    """It stands before a node that is gone: the next one is asked, as where nobody listens."""
    gone = []

    def answer(request, number):
        if not gone:
            gone.append(number)
        if gone[0] == number:
            return http(status, "<html>Bad Gateway</html>", "text/html")
        return answer_all(request)

    servers = [fake(functools.partial(answer, number=number)) for number in range(2)]
    client = start().open(endpoints=joined(servers), connect_ms=30000)
    client.ask(line)
    stats = client.stats()
    assert (stats["errors"], stats["retries"], stats["failovers"]) == (0, 1, 1)
    assert len(servers[gone[0]].requests) == 1


def test_connections_that_end_while_idle(start, fake):
    """They are opened again, which counts for no failure; the request is sent once more."""
    top = iter(range(0, 10**9, 1000))

    def answer(request):
        first = next(top) + 1
        return http(200, f"{first} {first + request.count - 1}\n")

    server = fake(answer)
    server.close_idle = True
    client = start().open(endpoints=server.url)
    for _ in range(10):
        assert client.ids("strict orders 3").count() == 3
    stats = client.stats()
    assert stats["errors"] == stats["failovers"] == 0
    assert len(server.requests) == 10


@pytest.mark.inside
@pytest.mark.parametrize("line", [*KINDS, "texts orders 1"])
@pytest.mark.parametrize("limit", ["deadline_ms", "attempt_ms"])
def test_a_program_that_stands_still(start, fake, line, limit):
    """A node answers in time, and the program, which stood still, reads it later: it counts."""
    def answer(request):
        client.pause()
        paused_s.append(time.monotonic() - client.sent_s)
        return answer_all(request)

    server = fake(answer_all)
    client = warm(start, line, server)
    for _ in range(30):
        client.open(endpoints=server.url, **{limit: 1000})
        server.handler, server.sent_bytes, paused_s = answer, 0, []
        client.begin(line)
        wait_until(lambda: server.sent_bytes and time.monotonic() > client.sent_s + 1.5, 30,
                   "the answer is there, and the time is over")
        server.handler = answer_all
        client.resume()
        said = client.finish()
        # A machine that has no processor for it may be slow before, or after.
        if paused_s[0] < 0.9 and (client.stats()["retries"] == 0 and not said.startswith("error")
                                  or client.waited_s < 0.02):
            break
    assert not said.startswith("error"), said
    assert client.stats()["retries"] == 0


# --- faults while ids are taken ---


@pytest.mark.bound(90)
@pytest.mark.parametrize("fault", ["leader killed", "node paused", "node cut", "node stopped"])
def test_while_ids_are_taken(start, faulty, gates, tag, fault):
    """None of the calls fails, and none takes longer than an attempt and an election."""
    cluster = faulty
    client = start().open(endpoints=joined(gates), max_count=1000, **QUICK)
    client.begin(f"loop {tag} 3")
    wait_until(lambda: len(used(gates).exchanges) > 10, 20, "the loop is under way")
    gate = used(gates)
    if fault == "leader killed":
        struck = cluster.leader()
        struck.kill9()
    else:
        struck = cluster.nodes[gates.index(gate)]
        if fault == "node paused":
            struck.pause()
        elif fault == "node stopped":
            struck.stop()
        else:
            gate.deaf()
    at_ns = time.monotonic_ns()
    wait_until(lambda: any(e.status == 200 and e.at_ns > at_ns for other in gates
                           for e in other.exchanges), 5, "requests are answered again")
    count, longest, _, ids = parse_loop(client.judge(client.finish()))
    assert ids.count() == count
    check_once(ids)
    assert longest / 1e9 - client.waited_s < 2.5, f"a call took {longest / 1e9} s"
    stats = client.stats()
    assert stats["errors"] == 0
    struck_gate = gates[cluster.nodes.index(struck)]
    if struck_gate is gate:
        assert stats["failovers"] >= 1
    assert client.ids(f"segment {tag} 10").count() == 10


@pytest.mark.bound(90)
def test_strict_ids_while_leaders_die(start, faulty, strict_tag):
    """Every call is answered, and what is missing was never acknowledged."""
    client = start().open(endpoints=urls(faulty), **QUICK)
    found = client.ids(f"strict1 {strict_tag} 20")
    client.begin(f"strict1 {strict_tag} 400")
    faulty.leader().kill9()
    more = client.parse(client.judge(client.finish()))
    assert more.count() == 400
    check_rising(found + more)
    # One client, one call at a time, with a key: there can be no gap at all.
    assert found + more == [(1, 20), (21, 420)]


@pytest.mark.bound(90)
def test_all_nodes_down(start, faulty, tag, strict_tag):
    """Ids that are held are handed out; then the deadline holds; then all is well again."""
    client = start().open(endpoints=urls(faulty), attempt_ms=500)
    held = client.ids(f"segment {tag} 20")
    stamped = client.ids("snowflake 10")
    faulty.kill_all()
    held += client.ids(f"segment {tag} 50")
    stamped += client.ids("snowflake 1000")
    client.refused(f"strict {strict_tag} 1 deadline_ms=600", "unreachable")
    in_time(client, 600)
    client.refused(f"segment {tag} 100000 deadline_ms=600", "unreachable", timeout=60)
    faulty.start()
    held += client.ids(f"segment {tag} 500")
    stamped += client.ids("snowflake 10")
    assert client.ids(f"strict {strict_tag} 1").count() == 1
    check_once(held)
    check_rising(stamped)
