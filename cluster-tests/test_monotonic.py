"""Monotonic tags: ids that rise over all nodes and clients, whoever leads, with gaps
(docs/monotonic.md). The order is checked here, over all clients, by the times on one clock."""

import threading
import time

import pytest

from client import ConnectionLost, ProtocolError, parse_ids
from strict_load import ask, take, target
from wait import wait_until

CLIENTS = 12


def make_monotonic(cluster, tag, **fields):
    cluster.create_tag(tag, mode="monotonic", **fields)


def put(cluster, tag, **fields):
    answer = cluster.nodes[0].http("PUT", f"/api/tags/{tag}?wait=all", fields)
    assert answer.status == 200, answer


def ids_of_kind(node, kind):
    lines = node.get("/metrics").body.decode().splitlines()
    name = f'leafd_ids_total{{kind="{kind}"}} '
    return sum(int(float(line[len(name) :])) for line in lines if line.startswith(name))


class Climber(threading.Thread):
    """Asks one node after the other, one id at a time, and notes when it sent and when it heard."""

    def __init__(self, nodes, first, tag, stop):
        super().__init__(daemon=True)
        self.nodes = nodes
        self.at = first
        self.tag = tag
        self.stop = stop
        self.answers = []
        self.failed = 0

    def run(self):
        connection = None
        while not self.stop.is_set():
            node = self.nodes[self.at % len(self.nodes)]
            try:
                connection = connection or node.connect()
                sent = time.monotonic_ns()
                answer = connection.request("GET", target(self.tag))
                heard = time.monotonic_ns()
            except (ConnectionLost, ProtocolError, OSError):
                connection = None
                self.failed += 1
                self.at += 1
                time.sleep(0.02)
                continue
            if answer.status == 200:
                self.answers.append((sent, heard, int(answer.body)))
            else:
                self.failed += 1


def check_order(answers):
    """No id twice, and each above all that had arrived before its request was sent."""
    ids = [number for _, _, number in answers]
    assert len(set(ids)) == len(ids)
    heard = sorted((heard, number) for _, heard, number in answers)
    highest, at = 0, 0
    for sent, _, number in sorted(answers):
        while at < len(heard) and heard[at][0] < sent:
            highest = max(highest, heard[at][1])
            at += 1
        assert number > highest, f"{number} was given after {highest} had arrived"


class Climbers:
    def __init__(self, nodes, tag, clients=CLIENTS):
        self.stop = threading.Event()
        self.threads = [Climber(nodes, number, tag, self.stop) for number in range(clients)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()

    def count(self):
        return sum(len(thread.answers) for thread in self.threads)

    def wait_more(self, more, timeout=30.0):
        before = self.count()
        wait_until(lambda: self.count() >= before + more, timeout, f"{more} more ids")

    def check(self):
        check_order([answer for thread in self.threads for answer in thread.answers])


def test_ids_rise_wherever_they_are_asked_for(shared, tag):
    make_monotonic(shared, tag)
    for number in range(1, 61):
        assert take(shared.nodes[number % 3], tag) == (number, number)
    row = shared.nodes[0].get_json(f"/api/tags/{tag}")
    assert row["mode"] == "monotonic" and row["changing"] is False
    assert int(row["max_id"]) > 60
    assert sum(ids_of_kind(node, "monotonic") for node in shared.nodes) >= 60


def test_formats_and_counts(shared, tag):
    make_monotonic(shared, tag, step=10, max_step=10)
    one, two, three = shared.nodes
    assert one.get(f"/api/segment/get/{tag}?count=3").body == b"1\n2\n3\n"
    assert two.get(f"/api/segment/get/{tag}?count=3&format=range").body == b"4 6\n"
    first, last = take(three, tag, count=100000)  # larger than any window so far
    assert first > 6 and last == first + 99999
    answer = one.get(f"/api/segment/get/{tag}?contiguous=1&count=500&format=json")
    ranges = answer.json()["ranges"]
    assert len(ranges) == 1 and int(ranges[0]["first"]) > last


def test_a_key_gives_the_same_ids_again(shared, tag):
    make_monotonic(shared, tag)
    one, two, three = shared.nodes
    first = ask(one, tag, count=2, key="order-1")
    assert first.status == 200 and "idempotency-replayed" not in first.headers
    for node in (two, three, one):
        again = ask(node, tag, count=2, key="order-1")
        assert again.body == first.body and again.headers["idempotency-replayed"] == "true"
    assert ask(two, tag, count=3, key="order-1").status == 409
    next_ids = parse_ids(ask(two, tag, count=1), "range", 1)
    assert next_ids[0][0] > parse_ids(first, "range", 2)[0][1]


def test_the_end_of_a_tag(shared, tag):
    make_monotonic(shared, tag, max=30)
    assert take(shared.nodes[0], tag, count=20) == (1, 20)
    answer = ask(shared.nodes[1], tag, count=10)
    assert answer.status == 409 and answer.code == "exhausted"
    assert take(shared.nodes[2], tag, count=9) == (21, 29)
    assert ask(shared.nodes[0], tag).status == 409


def test_modes_change_in_both_directions(shared, tag):
    shared.create_tag(tag)
    last = 0
    for node in shared.nodes:
        last = max(last, take(node, tag, count=5)[1])
    for mode in ("monotonic", "strict", "monotonic", "trend", "strict", "monotonic"):
        put(shared, tag, mode=mode)
        for node in shared.nodes:
            first, end = take(node, tag, count=5, timeout_ms=5000)
            assert mode == "trend" or first > last
            last = max(last, end)


def test_max_id_set_by_hand_is_below_all_that_follows(shared, tag):
    make_monotonic(shared, tag)
    assert take(shared.nodes[1], tag) == (1, 1)
    put(shared, tag, max_id=1000000)
    for node in shared.nodes:
        assert take(node, tag)[0] >= 1000000


@pytest.mark.bound(90)
def test_leader_killed_under_load(make_cluster, tag):
    cluster = make_cluster()
    make_monotonic(cluster, tag)
    with Climbers(cluster.nodes, tag) as climbers:
        for _ in range(3):
            climbers.wait_more(300)
            leader = cluster.leader()
            leader.kill9()
            cluster.wait_leader(among=cluster.running())
            climbers.wait_more(300)
            leader.start().wait_ready()
    climbers.check()


@pytest.mark.bound(60)
def test_a_leader_that_was_paused_says_nothing_old(make_cluster, tag):
    cluster = make_cluster()
    make_monotonic(cluster, tag)
    with Climbers(cluster.nodes, tag) as climbers:
        climbers.wait_more(200)
        leader = cluster.leader()
        leader.pause()
        cluster.wait_leader(among=cluster.others(leader))
        time.sleep(0.5)  # its clients are waiting; the others go on
        leader.resume()
        climbers.wait_more(200)
    climbers.check()


@pytest.mark.bound(60)
def test_a_clean_stop_gives_back_what_is_left(make_cluster, tag):
    cluster = make_cluster()
    make_monotonic(cluster, tag)
    for number in range(1, 8):
        assert take(cluster.nodes[number % 3], tag) == (number, number)
    leader = cluster.leader()
    leader.stop()
    assert take(cluster.running()[0], tag, timeout_ms=10000) == (8, 8)
