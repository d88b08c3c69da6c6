"""Snowflake sources: windows, clocks, names, and a cluster that misbehaves."""
import threading
import time

import fake
import leafd
import pytest
from leafd import Layout
from test_segment import in_child, wait_for

LAYOUT = Layout(**fake.LAYOUT)


class Clock:
    """The wall clock of a client and of the cluster, moved by hand."""

    def __init__(self, cluster, steps=False):
        self.ms = time.time_ns() // 1000000
        cluster.now_ms = lambda: self.ms

    def ns(self):
        return self.ms * 1000000


def asked(cluster, method):
    return [request for _, request in cluster.log if request.method == method]


def test_ids_are_made_here_and_the_worker_id_is_given_back(cluster, open_client):
    client = open_client(cluster, window_ms=600000)
    source = client.snowflake("billing-1")
    with pytest.raises(leafd.LeafdError, match="layout_unknown"):
        client.decode(1)
    begin = time.time_ns() // 1000000
    ids = source.next_many(20000)
    assert ids == sorted(set(ids))
    assert len(cluster.log) == 1
    assert cluster.log[0][1].body == b'{"name": "billing-1", "window_ms": 600000}'
    now = time.time_ns() // 1000000
    for id in ids:
        time_ms, worker, _ = source.decode(id)
        assert worker == 0 and begin <= time_ms <= now
    assert client.stats()["ids_snowflake"] == 20000
    client.close()
    assert asked(cluster, "DELETE")[0].options == {
        "epoch": "1", "last_timestamp_ms": str(LAYOUT.decode(ids[-1]).timestamp_ms)}
    assert client.stats()["ids_snowflake"] == 20000
    with pytest.raises(leafd.LeafdError, match="closed"):
        source.next()


def test_names_made_here_differ(cluster, open_client):
    client = open_client(cluster)
    ids = [client.snowflake().next() for _ in range(3)]
    assert [LAYOUT.decode(id).worker_id for id in ids] == [0, 1, 2]
    assert len(cluster.workers) == 3
    assert all(1 <= len(name) <= 128 for name in cluster.workers)


def test_threads(cluster, open_client):
    source = open_client(cluster).snowflake()
    got = [[] for _ in range(6)]

    def run(mine):
        for _ in range(5000):
            mine.append(source.next())

    threads = [threading.Thread(target=run, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in got)
    assert len({id for mine in got for id in mine}) == 30000
    assert len(cluster.log) == 1


def test_it_renews_at_a_third_with_the_last_time_used(cluster, open_client):
    client = open_client(cluster, window_ms=3000)
    source = client.snowflake()
    watch = fake.Stopwatch()
    last = LAYOUT.decode(source.next()).timestamp_ms
    wait_for(lambda: client.stats()["renewals"] >= 2)
    assert 1.9 < watch.took_s()
    watch.check_below(6)
    import json
    assert json.loads(asked(cluster, "PUT")[0].body) == {
        "epoch": 1, "window_ms": 3000, "last_timestamp_ms": last}
    source.next()


def test_ids_go_on_to_the_windows_end_without_a_node_and_then_by_a_renewal(cluster, open_client):
    client = open_client(cluster, window_ms=1000)
    source = client.snowflake()
    source.next()
    cluster.nodes[0].always = fake.closes
    until = list(cluster.workers.values())[0][2]
    with pytest.raises(leafd.LeafdError) as caught:
        while True:
            watch = fake.Stopwatch()
            asked_ms = time.time_ns() // 1000000
            source.next(300)
    assert asked_ms + watch.waited_s() * 1000 > until - 20, "a call failed within the window"
    watch.check_below(3)
    assert caught.value.code == "window_over" and caught.value.retryable
    assert str(until) in caught.value.message
    cluster.nodes[0].always = None
    source.next()
    assert len(asked(cluster, "POST")) == 1


def test_a_process_that_slept_past_its_window_renews_first(cluster, open_client):
    clock = Clock(cluster)
    client = open_client(cluster, _wall_ns=clock.ns)
    source = client.snowflake()
    source.next()
    clock.ms += 3600000
    id = source.next()
    assert LAYOUT.decode(id).timestamp_ms == clock.ms
    assert [request.method for _, request in cluster.log] == ["POST", "PUT"]


@pytest.mark.parametrize("code, status", [("fenced", 409), ("unknown_worker", 404)])
@pytest.mark.parametrize("name", [None, "billing-1"])
def test_fenced_and_then_another_worker_id(cluster, open_client, name, code, status):
    clock = Clock(cluster)
    client = open_client(cluster, _wall_ns=clock.ns)
    source = client.snowflake(name)
    source.next()
    first = list(cluster.workers)
    cluster.nodes[0].faults = [fake.answers(fake.refusal(status, code))]
    clock.ms += 3600000
    with pytest.raises(leafd.LeafdError) as caught:
        source.next()
    assert (caught.value.code, caught.value.retryable) == ("fenced", True)
    assert LAYOUT.decode(source.next()).timestamp_ms == clock.ms
    assert (list(cluster.workers) == first) is (name is not None)


def test_an_error_of_the_renewal_goes_to_who_waits(cluster, open_client):
    clock = Clock(cluster)
    source = open_client(cluster, _wall_ns=clock.ns).snowflake()
    source.next()
    cluster.nodes[0].faults = [fake.answers(fake.refusal(403, "forbidden"))]
    clock.ms += 3600000
    with pytest.raises(leafd.LeafdError, match="forbidden"):
        source.next()
    assert LAYOUT.decode(source.next()).timestamp_ms == clock.ms


@pytest.mark.parametrize("code, status", [("no_worker_id", 409), ("share", 429),
                                          ("unauthorized", 401)])
def test_an_acquire_that_is_refused(cluster, open_client, code, status):
    cluster.nodes[0].faults = [fake.answers(fake.refusal(status, code))]
    source = open_client(cluster).snowflake()
    with pytest.raises(leafd.LeafdError) as caught:
        source.next()
    assert (caught.value.code, caught.value.status) == (code, status)
    source.next()


@pytest.mark.parametrize("fault", [fake.loses, fake.halves, fake.hangs])
def test_an_acquire_whose_answer_was_lost(cluster, open_client, fault):
    """Under the same name the next window would begin behind the lost one's end."""
    cluster.nodes[0].faults = [fault]
    source = open_client(cluster, attempt_ms=2000).snowflake()
    begin = time.monotonic()
    source.next()
    assert time.monotonic() - begin < 15
    assert len(cluster.workers) == 2


def test_a_window_that_begins_later_is_waited_for(cluster, open_client):
    begins = cluster.now_ms() + 1500
    cluster.workers["billing-1"] = [0, 1, begins, False]
    client = open_client(cluster)
    source = client.snowflake("billing-1")
    with pytest.raises(leafd.LeafdError, match="window_over"):
        source.next(500)
    assert LAYOUT.decode(source.next()).timestamp_ms > begins
    assert client.stats()["clock_waits"] == 2


def test_a_node_that_does_not_know_the_layout(three, open_client):
    first = three.nodes[0]
    first.layout = three.nodes[1].layout = None
    client = open_client(three)
    client._admin.current = client._admin.nodes[0]
    source = client.snowflake()
    id = source.next()
    assert LAYOUT.decode(id).timestamp_ms <= time.time_ns() // 1000000
    assert [(node, request.method) for node, request in three.log] == [
        (first, "POST"), (three.nodes[1], "PUT"), (three.nodes[2], "PUT")]


def test_no_node_knows_the_layout(three, open_client):
    for node in three.nodes:
        node.layout = None
    source = open_client(three).snowflake()
    with pytest.raises(leafd.LeafdError, match="layout_unknown"):
        source.next()
    assert [row[3] for row in three.workers.values()] == [True]


def test_a_clock_that_is_ahead_by_more_than_a_window_asks_for_few_renewals(cluster, open_client):
    clock = Clock(cluster)
    now_ms = clock.ms
    cluster.now_ms = lambda: now_ms
    source = open_client(cluster, _wall_ns=clock.ns, window_ms=60000).snowflake("me")
    source.next()
    clock.ms += 3600000
    with pytest.raises(leafd.LeafdError, match="window_over"):
        source.next(500)
    assert len(asked(cluster, "PUT")) == 1
    clock.ms -= 3600000
    source.next()


def test_a_clock_that_goes_back_a_little_is_waited_for(cluster, open_client):
    clock = Clock(cluster)
    told = []
    client = open_client(cluster, _wall_ns=clock.ns, on_event=told.append)
    source = client.snowflake("me")
    first = source.next()
    assert told == []
    clock.ms -= 4
    with pytest.raises(leafd.LeafdError, match="window_over"):
        source.next(50)
    assert told == []
    clock.ms += 4
    assert source.next() == first + 1
    assert client.stats()["clock_waits"] == 1


def test_a_clock_that_goes_back_far(cluster, open_client):
    clock = Clock(cluster)
    told = []
    source = open_client(cluster, _wall_ns=clock.ns, on_event=told.append).snowflake("me")
    first = source.next()
    clock.ms -= 10000
    sequence = LAYOUT.decode(first).sequence
    rest = [source.next() for _ in range(4095 - sequence)]
    assert rest == list(range(first + 1, first + 1 + len(rest)))
    begin = time.monotonic()
    with pytest.raises(leafd.LeafdError) as caught:
        source.next(200)
    assert caught.value.code == "window_over" and 0.19 < time.monotonic() - begin < 5
    assert told == [leafd.Event("clock_back", name="me", ms=10000)]
    clock.ms += 10001
    assert LAYOUT.decode(source.next()) == (clock.ms, 0, 0)


def test_a_child_of_fork_has_a_worker_id_of_its_own(cluster, open_client):
    client = open_client(cluster)
    source = client.snowflake()
    mine = [source.next() for _ in range(100)]
    child = eval(in_child(lambda: ([source.next() for _ in range(100)], client.close())), {})[0]
    assert {LAYOUT.decode(id).worker_id for id in mine} == {0}
    assert {LAYOUT.decode(id).worker_id for id in child} == {1}
    # The child gave back its own, and not its parent's.
    assert [row[3] for row in cluster.workers.values()] == [False, True]
    assert LAYOUT.decode(source.next()).worker_id == 0


def test_a_child_of_fork_that_does_nothing_releases_nothing(cluster, open_client):
    client = open_client(cluster)
    client.snowflake().next()
    in_child(client.close)
    assert not asked(cluster, "DELETE")


def test_admin_endpoints_are_asked_for_worker_ids(cluster, open_client):
    with fake.Cluster(1) as other:
        client = open_client(cluster, admin_endpoints=other.urls)
        client.snowflake().next()
        client.segment("order").next()
        assert [request.method for _, request in other.log] == ["POST"]
        assert [request.method for _, request in cluster.log] == ["GET"]
        client.close()


def test_closing_while_it_waits_for_a_window(cluster, open_client):
    cluster.workers["billing-1"] = [0, 1, cluster.now_ms() + 5000, False]
    client = open_client(cluster)
    source = client.snowflake("billing-1")
    failed = []

    def run():
        try:
            source.next()
        except leafd.LeafdError as error:
            failed.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: client.stats()["clock_waits"] == 1)
    client.close()
    thread.join(20)
    assert failed == ["closed"]
    # Nothing was used: all of the window is given back.
    assert asked(cluster, "DELETE")[0].options["last_timestamp_ms"] == str(
        list(cluster.workers.values())[0][2])


def test_two_close_at_once(cluster, open_client):
    """The one that comes second waits until the worker ids are given back."""
    for alone in (False, True):
        client = open_client(cluster)
        source = client.snowflake()
        source.next()
        begun, go = threading.Event(), threading.Event()

        def slowly(node, request, answer):
            begun.set()
            go.wait(60)
            return answer()

        cluster.nodes[0].faults = [slowly]
        first = threading.Thread(target=source.close if alone else client.close)
        second = threading.Thread(target=client.close)
        first.start()
        assert begun.wait(60)
        second.start()
        with pytest.raises(leafd.LeafdError, match="closed"):
            wait_for(lambda: client.snowflake() is None)
        go.set()
        first.join()
        second.join()
        assert all(row[3] for row in cluster.workers.values())
        assert len(asked(cluster, "DELETE")) == (2 if alone else 1)


def test_a_worker_id_that_comes_after_the_close_is_released_without_a_lock(cluster, open_client):
    source = open_client(cluster).snowflake()
    begun, go = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]
    failed = []

    def slowly(turn):
        def fault(node, request, answer):
            begun[turn].set()
            go[turn].wait(60)
            return answer()
        return fault

    def run():
        try:
            source.next()
        except leafd.LeafdError as error:
            failed.append(error.code)

    cluster.nodes[0].faults = [slowly(0), slowly(1)]
    thread = threading.Thread(target=run)
    thread.start()
    assert begun[0].wait(60)
    source.close()
    go[0].set()
    assert begun[1].wait(60)
    other = threading.Thread(target=source.close)  # takes the source's lock
    other.start()
    other.join(30)
    assert not other.is_alive()
    go[1].set()
    thread.join()
    assert failed == ["closed"] and [row[3] for row in cluster.workers.values()] == [True]
