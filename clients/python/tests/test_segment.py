"""Segment and strict sources against a cluster that misbehaves."""
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import fake
import leafd
import leafd.fake
import pytest


def take(source, count):
    return [source.next() for _ in range(count)]


def wait_for(condition, limit_s=30):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.002)


def index_of_current(client):
    return client._ids.nodes.index(client._ids.current)


def counts(cluster):
    return [int(request.options["count"]) for _, request in cluster.log]


def test_ids_come_from_a_range_and_the_next_one_is_asked_for_at_the_half(cluster, open_client):
    source = open_client(cluster).segment("order")
    assert take(source, 50) == list(range(1, 51))
    assert counts(cluster) == [100]
    assert source.next() == 51
    wait_for(lambda: len(cluster.log) == 2)
    assert cluster.log[0][1].target == "/api/segment/get/order?count=100&format=range"
    assert counts(cluster) == [100, 200]
    assert take(source, 249) == list(range(52, 301))


def test_a_request_is_sent_though_all_ids_were_taken_before_it_began(
        cluster, open_client, monkeypatch):
    """And nobody waits just then: else the size would double for a request that never was."""
    held = []
    source = open_client(cluster).segment("order")
    source.next()
    wait_for(lambda: not source._journeys)
    monkeypatch.setattr("leafd._client.start", held.append)
    assert take(source, 99) == list(range(2, 101))
    assert len(held) == 1 and counts(cluster) == [100]
    monkeypatch.undo()
    held[0].start()
    wait_for(lambda: counts(cluster) == [100, 200])
    wait_for(lambda: not source._journeys)
    assert take(source, 200) == list(range(101, 301))


def test_sizes_stay_within_their_bounds(cluster, open_client):
    source = open_client(cluster, min_count=7, max_count=30, cover_ms=60000).segment("order")
    assert take(source, 500) == list(range(1, 501))
    assert counts(cluster)[:4] == [7, 14, 28, 30] and set(counts(cluster)[4:]) == {30}


def test_a_slow_taker_asks_for_less(cluster, open_client):
    source = open_client(cluster, min_count=2, cover_ms=1000).segment("order")
    take(source, 2000)
    assert max(counts(cluster)) > 16
    while counts(cluster)[-1] > 4:
        # As if it had been slow: the time since the last request is long.
        wait_for(lambda: not source._journeys)
        source._rate._at -= 1000
        take(source, source._buffer._piece_size)
    assert len(counts(cluster)) < 100


def test_answers_of_many_ranges(cluster, open_client):
    cluster.split = 7
    source = open_client(cluster).segment("order")
    ids = take(source, 1000)
    assert ids == sorted(set(ids)) and ids[-1] > 1000


def test_many_at_once_and_one_range(cluster, open_client):
    client = open_client(cluster)
    source = client.segment("order")
    assert source.next_many(1000) == list(range(1, 1001))
    wait_for(lambda: not source._journeys)
    assert len(source.next_range(10)) == 10
    assert "contiguous" in cluster.log[-1][1].options
    ids = iter(source)
    assert next(ids) == 1001
    for count in (0, 100001, "1"):
        for call in (source.next_many, source.next_range, client.strict("invoice").request):
            with pytest.raises(leafd.LeafdError, match="bad_setting"):
                call(count)
    assert len(source.next_range(100000)) == 100000


def test_try_next_never_waits_and_asks_for_ids(cluster, open_client):
    source = open_client(cluster, attempt_ms=2000).segment("order")
    cluster.nodes[0].faults = [fake.hangs]
    watch = fake.Stopwatch()
    assert [source.try_next() for _ in range(5)] == [None] * 5
    watch.check_below(1)
    cluster.nodes[0].drop_connections()
    ids = []
    wait_for(lambda: ids.append(source.try_next()) or ids[-1] is not None)
    assert ids[-1] == 101
    assert len(cluster.log) == 2


def test_one_request_at_a_time_and_unique_ids_for_many_threads(cluster, open_client):
    under_way, most = [0], [0]

    def slow(node, request, answer):
        with cluster.lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.002)
        data = answer()
        with cluster.lock:
            under_way[0] -= 1
        return data

    cluster.nodes[0].always = slow
    source = open_client(cluster, max_count=2000).segment("order")
    got = [[] for _ in range(8)]

    def run(mine):
        for _ in range(5000):
            mine.append(source.next())

    threads = [threading.Thread(target=run, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in got)
    assert sorted(id for mine in got for id in mine) == list(range(1, 40001))
    assert most[0] == 1
    assert source._client.stats()["ids_segment"] == 40000


def test_the_next_node_is_asked_when_one_fails(three, open_client):
    client = open_client(three)
    source = client.segment("order")
    source.next()
    first = three.log[0][0]
    first.always = fake.closes
    ids = take(source, 1000)
    assert len(set(ids)) == 1000
    assert {node for node, _ in three.log[3:]} <= set(three.nodes) - {first}
    stats = client.stats()
    assert stats["failovers"] == 1 and stats["retries"] == 1 and stats["errors"] == 0


@pytest.mark.parametrize("fault", [
    fake.closes, fake.loses, fake.halves, fake.answers(fake.refusal(503, "no_leader")),
    fake.answers(b"HTTP/1.1 200 OK\r\nContent-Le")],
    ids=["closes", "loses", "halves", "503", "a cut head"])
def test_what_is_tried_again(cluster, open_client, fault):
    cluster.nodes[0].faults = [self_closing(fault), self_closing(fault)]
    source = open_client(cluster, attempt_ms=1000).segment("order")
    ids = take(source, 100)
    assert len(set(ids)) == 100
    assert len(cluster.log) >= 3


def self_closing(fault):
    """A fault that sends too little does not leave the connection open behind it."""
    def closing(node, request, answer):
        data = fault(node, request, answer)
        node.after = "close"
        return data
    return closing


@pytest.mark.parametrize("data, code, status", [
    (fake.reply(200, b"1 x\n"), "bad_answer", 200),
    (fake.reply(200, b"1 99\n"), "bad_answer", 200),
    (fake.reply(302, b"", "Location: http://127.0.0.1:1/"), "bad_answer", 302),
    (fake.reply(500, b"<html>"), "bad_answer", 500),
    (fake.refusal(404, "unknown_tag"), "unknown_tag", 404),
    (fake.refusal(401, "unauthorized"), "unauthorized", 401),
    (fake.refusal(409, "conflict"), "conflict", 409),
    (fake.refusal(429, "share"), "share", 429),
    (fake.refusal(507, "state_full"), "state_full", 507)])
def test_what_is_not_tried_again_and_forgotten_after_a_second(three, open_client, data, code,
                                                              status):
    for node in three.nodes:
        node.always = fake.answers(data)
    client = open_client(three)
    source = client.segment("order")
    watch = fake.Stopwatch()
    for _ in range(3):
        with pytest.raises(leafd.LeafdError) as caught:
            source.next()
        assert (caught.value.code, caught.value.status) == (code, status)
    asked = len(three.log)
    assert asked <= 1 + int(watch.took_s()), "one within a second"
    for node in three.nodes:
        node.always = None
    watch = fake.Stopwatch()
    while True:
        try:
            assert source.next() == 1
            break
        except leafd.LeafdError:
            watch.check_below(3)
            time.sleep(0.01)
    assert len(three.log) == asked + 1
    (last, before), (again, request) = three.log[-2:]
    left = code == "bad_answer" and status >= 300  # it is no leafd
    assert (again is last) != left and request.at - before.at > 0.9


def test_a_quota_is_waited_for(three, open_client):
    three.fault_all(fake.answers(fake.refusal(429, "quota", "Retry-After: 1")))
    source = open_client(three).segment("order")
    assert source.next() == 1
    (first, one), (second, two) = three.log
    assert first is second and two.at - one.at >= 0.99


@pytest.mark.parametrize("fault", [fake.hangs, fake.drips, fake.closes,
                                   fake.answers(fake.refusal(503, "no_leader", "Retry-After: 9"))])
def test_the_deadline_holds(three, open_client, fault):
    for node in three.nodes:
        node.always = fault
    client = open_client(three, attempt_ms=100)

    def check(source):
        watch = fake.Stopwatch()
        with pytest.raises(leafd.LeafdError) as caught:
            source.next(deadline_ms=3000)
        assert 2.9 < watch.took_s()
        watch.check_below(9)
        assert caught.value.code == "unreachable" and caught.value.retryable
        for node in three.nodes:
            assert node.url in caught.value.message

    with ThreadPoolExecutor() as pool:
        list(pool.map(check, (client.segment("order"), client.strict("invoice"),
                              client.snowflake())))
    sent, seen = client.stats()["requests"], None
    end = time.monotonic() + 10
    while seen != len(three.log):  # what was sent just before the deadline may arrive behind it
        assert time.monotonic() < end, "requests go on arriving"
        seen = len(three.log)
        time.sleep(0.3)
    assert client.stats()["requests"] == sent


def test_ids_go_on_while_no_node_answers(three, open_client):
    source = open_client(three).segment("order")
    source.next()
    for node in three.nodes:
        node.always = fake.closes
    assert take(source, 99) == list(range(2, 101))
    with pytest.raises(leafd.LeafdError, match="unreachable"):
        source.next(100)
    for node in three.nodes:
        node.always = None
    assert len(set(take(source, 500))) == 500


def test_a_connection_that_was_closed_while_idle_is_no_failure(cluster, open_client):
    client = open_client(cluster)
    strict = client.strict("invoice")
    assert strict.next() == 1
    assert cluster.nodes[0].connections == 1
    cluster.nodes[0].drop_connections()
    assert strict.next() == 2
    # Also where the end comes together with the request.
    cluster.nodes[0].faults = [fake.closes]
    assert strict.next() == 3
    stats = client.stats()
    assert (stats["retries"], stats["failovers"], stats["requests"]) == (0, 0, 3)


def test_connections_are_kept_and_bounded(cluster, open_client):
    client = open_client(cluster)
    strict = client.strict("invoice")
    for _ in range(20):
        strict.next()
    assert cluster.nodes[0].connections == 1
    threads = [threading.Thread(target=strict.next) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: sum(map(len, client._pool._idle.values())) <= 8)
    assert not client._pool._busy


def test_a_connection_that_says_close_is_not_used_again(cluster, open_client):
    cluster.nodes[0].faults = [fake.answers(fake.reply(200, b"0 0\n", "Connection: close"))]
    strict = open_client(cluster).strict("invoice")
    assert [strict.next(), strict.next()] == [0, 1]
    assert cluster.nodes[0].connections == 2


@pytest.mark.parametrize("fault", [fake.loses, fake.halves, fake.hangs])
def test_a_strict_request_whose_answer_was_lost_gets_the_same_ids(three, open_client, fault):
    attempt_ms = 1000 if fault is fake.hangs else 20000
    strict = open_client(three, attempt_ms=attempt_ms, deadline_ms=60000).strict("invoice")
    three.fault_all(fault)
    got = strict.request(5)
    assert (got.first, got.last, got.replayed) == (1, 5, True)
    keys = [request.headers["idempotency-key"] for _, request in three.log]
    assert len(keys) >= 3 and len(set(keys)) == 1 and len(keys[0]) == 26
    assert strict.request(1)[1:] == (6, False)


def test_a_strict_call_is_asked_again_by_its_key(cluster, open_client):
    cluster.nodes[0].always = fake.loses
    strict = open_client(cluster).strict("invoice")
    with pytest.raises(leafd.LeafdError) as caught:
        strict.next_many(3, deadline_ms=1000)
    assert caught.value.code == "unreachable"
    cluster.nodes[0].always = None
    again = strict.request(3, caught.value.key)
    assert (list(again.ids), again.replayed) == ([1, 2, 3], True)
    assert strict.next("mine") == strict.next("mine") == 4
    with pytest.raises(leafd.LeafdError, match="idempotency_conflict"):
        strict.next_many(2, "mine")
    for key in ("", "x" * 129, "é", "a\nb", " a"):
        with pytest.raises(leafd.LeafdError, match="bad_setting"):
            strict.next(key)
    assert strict.next("x" * 128) == 5


@pytest.fixture
def name(monkeypatch):
    """The addresses of leafd.test."""
    ips = ["127.0.0.2", "127.0.0.1"]
    real = socket.getaddrinfo

    def find(host, port, *rest, **named):
        if host != "leafd.test":
            return real(host, port, *rest, **named)
        if rest and rest[-1] == socket.AI_NUMERICHOST:
            raise socket.gaierror(-2, "no number")
        return [one for ip in ips for one in real(ip, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    return ips


def ips_of(client):
    return [node.ip for node in client._ids.nodes]


def test_a_name_is_looked_at_again_after_30_s(cluster, open_client, name):
    """Nobody listens at the addresses other than 127.0.0.1."""
    cluster.nodes[0].url = f"http://leafd.test:{cluster.nodes[0].port}"
    client = open_client(cluster)
    source = client.strict("invoice")
    assert source.next() == 1
    assert ips_of(client) == ["127.0.0.1", "127.0.0.2"]
    name[:] = ["127.0.0.3"]
    assert source.next() == 2
    assert ips_of(client) == ["127.0.0.1", "127.0.0.2"]
    client._ids.resolved_at -= 30
    assert source.next() == 3  # which does not wait for the new ones
    wait_for(lambda: ips_of(client) == ["127.0.0.3"])
    wait_for(lambda: not cluster.nodes[0].open)  # what was idle is closed
    name[:] = ["127.0.0.1"]
    assert source.next() == 4
    assert cluster.log[-1][1].headers["host"] == f"leafd.test:{cluster.nodes[0].port}"


def test_names_of_hosts_are_resolved_within_the_deadline(cluster, monkeypatch):
    with leafd.Client(cluster.urls[0].replace("127.0.0.1", "localhost")) as client:
        assert client.segment("order").next() == 1
    real, release = socket.getaddrinfo, threading.Event()

    def stuck(host, *rest):
        if host == "stuck.example":
            release.wait(10)
            raise socket.gaierror(-3, "no such name")
        return real(host, *rest)

    def numeric(host, port, *rest):
        if rest and rest[-1] == socket.AI_NUMERICHOST and host == "stuck.example":
            raise socket.gaierror(-2, "no number")
        return stuck(host, port, *rest)

    monkeypatch.setattr(socket, "getaddrinfo", numeric)
    with leafd.Client("http://stuck.example") as client:
        watch = fake.Stopwatch()
        with pytest.raises(leafd.LeafdError, match="unreachable"):
            client.strict("invoice").next(deadline_ms=300)
        watch.check_below(1)
        release.set()


def test_closing_ends_calls_and_burns(cluster, open_client):
    client = open_client(cluster)
    kept = client.segment("order")
    kept.next()
    cluster.nodes[0].always = fake.hangs
    failed = []

    def run(call):
        try:
            call()
        except leafd.LeafdError as error:
            failed.append(error.code)

    calls = [client.segment("other").next, client.strict("invoice").next,
             lambda: client.segment("order").next_range(3)]
    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(cluster.log) == 4)
    watch = fake.Stopwatch()
    client.close()
    client.close()
    for thread in threads:
        thread.join()
    watch.check_below(1)
    assert failed == ["closed"] * 3
    for call in (kept.next, kept.try_next, lambda: client.strict("invoice"),
                 lambda: client.segment("a"), client.snowflake, lambda: kept.next_range(1)):
        with pytest.raises(leafd.LeafdError, match="closed"):
            call()
    stats = client.stats()
    assert (stats["burnt"], stats["ids_segment"]) == (99, 1)


def in_child(work):
    """The text that work() gives in a child of fork."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # that ends it, whatever it hangs in
        try:
            os.write(writer, repr(work()).encode())
        except BaseException as error:
            os.write(writer, f"failed: {error!r}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as read:
        text = read.read().decode()
    os.waitpid(pid, 0)
    assert text, "the child died, or was not done in a minute"
    return text


def test_a_child_of_fork_has_nothing_of_its_parent(cluster, open_client):
    client = open_client(cluster)
    source, strict = client.segment("order"), client.strict("invoice")
    mine = take(source, 60)
    strict.next()
    wait_for(lambda: not source._journeys)
    asked = len(cluster.log)
    text = in_child(lambda: (take(source, 50), strict.next(), client.stats()["ids_segment"]))
    ids, number, counted = eval(text, {})
    assert number == 2 and counted == 50
    assert not set(ids) & set(mine + take(source, 300))
    assert len({request.who for _, request in cluster.log[:asked]}
               & {request.who for _, request in cluster.log[asked:asked + 2]}) == 0
    assert strict.next() == 3


def test_a_child_of_fork_in_the_midst_of_what_other_threads_do(cluster, open_client):
    client = open_client(cluster, max_count=300)
    source = client.segment("order")
    stop = threading.Event()
    mine = [[] for _ in range(3)]

    def run(ids):
        while not stop.is_set():
            ids.append(source.next())

    threads = [threading.Thread(target=run, args=(ids,)) for ids in mine]
    for thread in threads:
        thread.start()
    children = []
    try:
        for _ in range(15):
            children += eval(in_child(lambda: take(source, 30)), {})
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    everything = children + [id for ids in mine for id in ids]
    assert len(children) == 450 and len(set(everything)) == len(everything)


def test_a_piece_in_hand_is_empty_behind_a_fork(cluster, open_client):
    source = open_client(cluster).segment("order")
    source.next()
    piece = source._buffer.piece
    assert in_child(lambda: next(piece, None)) == "None"
    assert next(piece) == 2


def test_a_client_that_nobody_holds_is_no_burden(cluster):
    client = leafd.Client(cluster.urls)
    client.segment("order").next()
    client.close()
    left = weakref.ref(client)
    del client

    def is_gone():  # once its last thread has ended
        gc.collect()
        return left() is None

    wait_for(is_gone)


def failure(call):
    with pytest.raises(leafd.LeafdError) as caught:
        call()
    return caught.value


def generations(cluster, *numbers):
    for node, number in zip(cluster.nodes, numbers):
        node.generation = number


def test_a_range_is_dropped_at_its_age_by_itself(cluster, open_client):
    client = open_client(cluster, max_age_ms=2000)
    source, other = client.segment("order"), client.segment("other")
    began = time.monotonic()  # before the requests were sent, of which the age counts
    assert take(source, 3) == [1, 2, 3] and take(other, 1) == [1]
    wait_for(lambda: client.stats()["burnt"] == 97 + 99)
    assert source._buffer.empty
    assert time.monotonic() - began >= 2
    assert len(cluster.log) == 2  # nobody asked for more
    assert source.next() == 101
    assert client.stats()["ids_segment"] == 5


def test_threads_take_no_id_of_a_range_beyond_its_age(cluster, open_client):
    """Ids are handed out or dropped, never both."""
    client = open_client(cluster, max_age_ms=2, min_count=1000, max_count=1000)
    source = client.segment("order")
    got = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda mine=mine: mine.extend(take(source, 20000)))
               for mine in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [id for mine in got for id in mine]
    assert len(set(ids)) == len(ids) == 80000 and all(mine == sorted(mine) for mine in got)
    wait_for(lambda: not source._journeys and source._buffer.empty)
    stats = client.stats()
    assert stats["ids_segment"] == 80000
    assert stats["ids_segment"] + stats["burnt"] == cluster.tags["order"] - 1


def test_the_thread_that_drops_ranges_ends_with_its_client(cluster):
    client = leafd.Client(cluster.urls)
    client.segment("order").next()
    thread = client._ager
    assert thread.is_alive()
    client.close()
    thread.join(30)
    assert not thread.is_alive()
    client = leafd.Client(cluster.urls)
    source = client.segment("order")
    source.next()
    thread = client._ager
    wait_for(lambda: not source._journeys)
    del client, source

    def ended():
        gc.collect()
        return not thread.is_alive()

    wait_for(ended, 30)


def test_a_child_of_fork_drops_by_age_too(cluster, open_client):
    client = open_client(cluster, max_age_ms=1000)
    source = client.segment("order")
    source.next()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            source.next()
            wait_for(lambda: client.stats()["burnt"] == 99, 30)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_held_ranges_of_an_older_generation_are_dropped(three, open_client):
    generations(three, 4, 4, 4)
    client = open_client(three)
    source = client.segment("order")
    assert take(source, 3) == [1, 2, 3]
    generations(three, 5, 5, 5)
    assert source.next_range(10) == range(101, 111)
    assert client.stats()["burnt"] == 97
    assert source.next() == 111
    wait_for(lambda: not source._journeys)
    generations(three, None, None, None)
    assert len(source.next_range(10)) == 10
    assert client.stats()["burnt"] == 97


def test_a_generation_that_is_no_number_is_no_answer(cluster, open_client):
    source = open_client(cluster).segment("order")
    for bad in ("x", "-1", "9223372036854775808"):
        generations(cluster, bad)
        assert failure(lambda: source.next_range(10)).code == "bad_answer"


def test_the_ids_of_the_slower_answer_never_come_after_higher_ones(three, open_client):
    client = open_client(three, connect_ms=50, hedged=True)
    source = client.segment("order")
    go = threading.Event()

    def late(node, request, answer):
        data = answer()
        go.wait(30)
        return data

    three.nodes[index_of_current(client)].faults = [late]
    assert source.next() == 101
    go.set()
    wait_for(lambda: not source._journeys)
    assert client.stats()["burnt"] == 100  # they are below those that were taken
    assert take(source, 99) == list(range(102, 201))


def test_events(three, open_client):
    told = []

    def hear(event):
        told.append(event)
        client.stats()  # no lock is held
        raise ValueError("of the program")

    client = open_client(three, on_event=hear, max_age_ms=60000)
    source = client.segment("order")
    begun = index_of_current(client)
    three.nodes[begun].faults = [fake.closes]
    generations(three, 1, 1, 1)
    source.next()
    assert told == [leafd.Event("failover", from_url=three.nodes[begun].url,
                                to_url=three.nodes[(begun + 1) % 3].url)]
    generations(three, 2, 2, 2)
    source.next_range(1)
    assert told[1:] == [leafd.Event("generation", tag="order", ids=99)]
    wait_for(lambda: not source._journeys)
    del told[:]
    three.fault_all(*[fake.refusal_of(503, "not_ready")] * 3)
    source.next()
    wait_for(lambda: told[-1].kind == "recovered")
    kinds = [event.kind for event in told if event.kind != "failover"]
    assert kinds == ["refill_failed", "recovered"]
    assert leafd.Event("refill_failed", tag="order", code="unreachable") in told
    del told[:]
    held = client.gauges().ids_left["order"]
    client._settings = client._settings._replace(max_age_ms=1)
    client._ager_wake.put(None)
    wait_for(lambda: told)
    assert told == [leafd.Event("aged", tag="order", ids=held)]
    assert failure(lambda: leafd.Client(three.urls, on_event=5)).code == "bad_setting"


def test_gauges(cluster, open_client):
    client = open_client(cluster)
    sources = [client.segment("order"), client.segment("order"), client.segment("other")]
    for source in sources:
        source.next()
    name = client.snowflake("me").next() and "me"
    gauges = client.gauges()
    assert gauges.ids_left == {"order": 198, "other": 99}
    assert set(gauges.range_age_ms) == {"order", "other"}
    assert gauges.window_end_ms[name] > time.time() * 1000
    assert 'leafd_client_ids_left{tag="order"} 198' in client.stats_text().splitlines()


# The interpreter stops threads wherever they are as it ends, and drops clients then.
ENDING = """
import gc, sys, threading, time, traceback
import leafd
stopped = threading.Lock()
stopped.acquire()
take = threading.Condition._acquire_restore
def take_and_stop(condition, state):
    take(condition, state)
    if threading.current_thread().name == "leafd-age" and client._closed.is_set():
        stopped.release()
        time.sleep(1e6)
threading.Condition._acquire_restore = take_and_stop
client = leafd.Client(sys.argv[1])
client.segment("order").next()
thread = next(one for one in threading.enumerate() if one.name == "leafd-age")
while True:
    at = traceback.extract_stack(sys._current_frames()[thread.ident])[-1].line
    if "waiter.acquire(" in at or "wake.get(timeout" in at:
        break
client.close()
while thread.is_alive() and not stopped.acquire(timeout=0.01):
    pass
client = None
gc.collect()
"""


def test_a_client_that_is_dropped_while_its_thread_has_a_lock(cluster):
    here = os.path.dirname(os.path.abspath(leafd.__file__))
    subprocess.run([sys.executable, "-c", ENDING, cluster.urls[0]], check=True, timeout=60,
                   cwd=os.path.dirname(here))


def test_the_fake_for_programs_tests():
    with leafd.fake.Client() as client:
        client.set_next("order", 1000)
        source = client.segment("order")
        assert source.next() == 1000 and source.try_next() == 1001
        assert source.next_many(2) == [1002, 1003] and source.next_range(3) == range(1004, 1007)
        client.fail("order", leafd.LeafdError("unreachable", "none"), times=2)
        for _ in range(2):
            assert failure(source.next).code == "unreachable"
        assert client.segment("order").next(deadline_ms=5) == 1007
        strict = client.strict("invoice")
        assert strict.request(2, "mine")[:] == (1, 2, False)
        assert strict.request(2, "mine")[:] == (1, 2, True) and strict.next() == 3
        client.fail("invoice", leafd.LeafdError("unreachable", "none"))
        assert failure(lambda: strict.next("this")).key == "this"
        snowflake = client.snowflake()
        assert snowflake.decode(snowflake.next()).sequence == 1
        source.close()
        assert failure(source.next).code == "closed"
