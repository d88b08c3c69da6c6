"""Snowflake ids that a client makes itself: each within a window that was granted to it.

A gate in front of the nodes keeps all that was asked and granted, so each id is looked up: its
worker id and its time must lie in a window of this client's.
"""

import json
import time

import pytest

from clockfile import ClockFile, find_libraries, remove_leftovers
from driver import CLOCK_CAN_BE_FAKED, Failed, check_once, check_rising, in_time
from snowflakes import decode
from wait import wait_until
from workers import acquire, release

WINDOW_MS = 1000  # the shortest one


def joined(gates):
    return ",".join(gate.url for gate in gates)


def grants(gates):
    """All that was granted by way of the gates: (worker id, epoch) to [from, until]."""
    found = {}
    exchanges = [e for gate in gates for e in gate.exchanges if "/api/workers" in e.target]
    for exchange in exchanges:
        if exchange.status in (200, 201):
            grant = json.loads(exchange.answer.body)
            key = (grant["worker_id"], grant["epoch"])
            window = found.setdefault(key, [grant["from_ms"], grant["until_ms"]])
            window[1] = max(window[1], grant["until_ms"])
    return found


def check_windows(gates, ids):
    windows = [(worker, first, last) for (worker, _), (first, last) in grants(gates).items()]
    for number in ids.each():
        parts = decode(number)
        assert any(worker == parts.worker and first < parts.ms <= last
                   for worker, first, last in windows), f"{parts} is in none of {windows}"


def reports(gates, method):
    """last_timestamp_ms of all renewals (PUT) or releases (DELETE), with their times."""
    found = []
    for exchange in (e for gate in gates for e in gate.requests(f"{method} /api/workers/")):
        body = json.loads(exchange.body or b"{}")
        if "last_timestamp_ms" in exchange.target:
            pairs = exchange.target.partition("?")[2].split("&")
            body = {name: int(value) for name, value in (pair.split("=") for pair in pairs)}
        found.append((exchange.at_ns, body["last_timestamp_ms"], body["epoch"], exchange.status))
    return found


def times(ids):
    return [decode(number).ms for number in ids.each()]


@pytest.mark.alone
def test_windows_and_renewals(start, gates):
    """Renewed at a third of the window, with the last time used, which is true."""
    client = start().open(endpoints=joined(gates), window_ms=WINDOW_MS)
    taken = client.ids("snowflake 1")
    used, waited_s = [], 0.0
    while len(reports(gates, "PUT")) < 5:
        sent_ns = time.monotonic_ns()
        fresh = client.ids("snowflake 3")
        waited_s += client.waited_s
        used.append((time.monotonic_ns(), max(times(fresh)), sent_ns, min(times(fresh))))
        taken += fresh
    check_once(taken)
    check_rising(taken)
    check_windows(gates, taken)
    assert len(grants(gates)) == 1, "one acquire, and renewals"
    renewals = reports(gates, "PUT")
    took_s = (used[-1][0] - used[0][2]) / 1e9
    assert 1.2 < took_s, f"at a third of the window: five in {took_s} s"
    assert took_s - waited_s < 4, f"five in {took_s} s, {waited_s} of them without a processor"
    for at_ns, reported, _, _ in renewals:
        # What a client has was used before any renewal that it makes later. (The gate sees one some
        # time after it was made.)
        had = [ms for got_ns, ms, _, _ in used if got_ns < at_ns - 300_000_000]
        assert reported >= max(had, default=0)
        assert all(ms >= reported for _, _, sent_ns, ms in used if sent_ns > at_ns)
    def counted():
        """Those whose answers it has got: on a slow machine it may have left a node before that."""
        stats, answered = client.stats(), len(reports(gates, "PUT"))
        return stats["renewals"] == answered or stats["failovers"] and stats["renewals"] < answered

    # The answer to the last one may be on its way yet.
    wait_until(counted, 10, "the client counts what it asked for")


def test_closing_releases(start, shared, gates):
    """With the last time used: the worker id is free at once, above it."""
    client = start().open(endpoints=joined(gates), window_ms=60000)
    ids = client.ids("snowflake 100")
    worker = decode(ids[0][0]).worker
    assert client.ask("close") == "ok"
    (_, reported, epoch, status), = reports(gates, "DELETE")
    assert status == 204 and reported == max(times(ids))
    row = row_of(shared, worker)
    assert (row["state"], row["epoch"], row["last_timestamp_ms"]) == ("released", epoch, reported)


def row_of(cluster, worker):
    rows = cluster.nodes[0].get_json(f"/api/workers?after={worker - 1}&limit=1")["workers"] if (
        worker > 0) else cluster.nodes[0].get_json("/api/workers?limit=1")["workers"]
    assert rows[0]["worker_id"] == worker
    return rows[0]


def test_names(start, shared, gates):
    """Each process has a name of its own, which says whose it is."""
    clients = [start().open(endpoints=joined(gates)) for _ in range(2)]
    for client in clients:
        client.ids("snowflake 1")
    asked = [json.loads(e.body) for gate in gates for e in gate.requests("POST /api/workers")]
    names = {body["name"] for body in asked}
    assert len(names) == 2
    assert {body["window_ms"] for body in asked} == {60000}
    assert all(len(name.encode()) <= 128 for name in names)


def test_fenced(start, shared, gates):
    """The worker id was released by hand: the client learns it with its next renewal, drops the
    generator, and goes on with another grant."""
    client = start().open(endpoints=joined(gates), window_ms=WINDOW_MS)
    taken = client.ids("snowflake 5")
    (worker, epoch), = grants(gates)
    answer = release(shared.nodes[0], {"worker_id": worker, "epoch": epoch})
    assert answer.status == 204
    refusals = []

    def goes_on_with_another():
        try:
            taken.extend(client.ids("snowflake 5"))
        except Failed as failed:
            assert failed.code == "fenced", failed
            refusals.append(failed)
            return False
        return len(grants(gates)) > 1 and len({*map(decode_grant, taken.each())}) > 1

    def decode_grant(number):
        parts = decode(number)
        return next(key for key, (first, last) in grants(gates).items()
                    if key[0] == parts.worker and first < parts.ms <= last)

    wait_until(goes_on_with_another, 6, "ids of another grant")
    assert len(refusals) <= 1
    check_once(taken)
    check_windows(gates, taken)
    names = [json.loads(e.body)["name"] for gate in gates for e in gate.requests("POST ")]
    assert len(set(names)) == len(names), "another name, as this one was the library's own"


def test_another_holder_meanwhile(start, shared, gates):
    """A client that is stopped for longer than its window, and whose worker id another one has by
    then, stamps nothing that the other one may stamp."""
    client = start().open(endpoints=joined(gates), window_ms=WINDOW_MS)
    taken = client.ids("snowflake 50")
    worker = decode(taken[0][0]).worker
    client.pause()
    found = []

    def is_free():
        answer = acquire(shared.nodes[0], f"heir-{worker}-{time.monotonic_ns()}", 60_000,
                         worker_id=worker)
        if answer.status == 201:
            found.append(answer.json())
        else:
            assert answer.code == "conflict", answer
        return found

    try:
        wait_until(is_free, 15, "the window is over, and somebody else has the worker id")
    finally:
        client.resume()
    heir = found[0]
    for _ in range(20):
        try:
            taken.extend(client.ids("snowflake 20"))
        except Failed as failed:
            assert failed.code in ("fenced", "window_over"), failed
    check_once(taken)
    check_windows(gates, taken)
    mine = [decode(number) for number in taken.each()]
    assert all(parts.ms <= heir["from_ms"] for parts in mine if parts.worker == worker)
    assert any(parts.worker != worker for parts in mine), "it went on with another worker id"
    release(shared.nodes[0], heir)


def test_renewals_that_fail(start, shared, gates):
    """Ids go on while the window lasts, then the deadline holds; then renewing succeeds."""
    client = start().open(endpoints=joined(gates), window_ms=2000, attempt_ms=300)
    taken = client.ids("snowflake 5")
    for gate in gates:
        gate.shut()
    refusals = []

    def over():
        nonlocal asked_ms
        asked_ms = time.time() * 1000
        try:
            taken.extend(client.ids("snowflake 20 deadline_ms=100"))
        except Failed as failed:
            assert failed.code == "window_over", failed
            refusals.append(failed)
        return refusals

    asked_ms, before = 0, time.monotonic()
    wait_until(over, 8, "the window is over")
    (_, until_ms), = grants(gates).values()
    assert time.monotonic() - before > 0.8, "it gave up long before the window's end"
    assert asked_ms + client.waited_s * 1000 > until_ms - 700, "it used the window"
    client.refused("snowflake 1 deadline_ms=400", "window_over")
    in_time(client, 400)
    for gate in gates:
        gate.carry()
    taken += client.ids("snowflake 20")
    check_once(taken)
    check_rising(taken)
    check_windows(gates, taken)


def test_all_of_a_millisecond(client):
    """20000 ids take five milliseconds at least: a sequence that is used up waits for the next."""
    ids = client.ids("snowflake 20000")
    assert ids.count() == 20000
    check_rising(ids)
    found = times(ids)
    assert max(found) - min(found) >= 4


def test_a_layout_of_its_own(start, js53):
    """Ids are made and taken apart by the cluster's layout, not by Leaf's."""
    node = js53
    client = start().open(endpoints=f"http://{node.http_address}")
    ids = client.ids("snowflake 300").each()
    assert len(set(ids)) == 300 and ids == sorted(ids) and max(ids) < 1 << 53
    theirs = node.get_json(f"/api/snowflake/decode/{ids[-1]}")
    assert client.ask(f"decode {ids[-1]}") == (
        f"decode {theirs['timestamp_ms']} {theirs['worker_id']} {theirs['sequence']}")
    assert all(node.get_json(f"/api/snowflake/decode/{number}")["worker_id"]
               == theirs["worker_id"] for number in ids[:3])


# --- the clock of the client's process ---


@pytest.fixture
def clock(language, tmp_path):
    if language not in CLOCK_CAN_BE_FAKED:
        pytest.skip(f"{language}: it reads the clock without the C library, which libfaketime "
                    "stands in front of")
    remove_leftovers()
    return ClockFile(str(tmp_path / "clock"), find_libraries("/bin/true"))


@pytest.fixture
def clocked(start, gates, clock):
    client = start(prefix=clock.prefix()).open(endpoints=joined(gates), window_ms=120000)
    first = client.ids("snowflake 5")
    clock.set(-1000)
    checked = client.ids("snowflake 5")
    clock.set(0)
    assert max(times(checked)) - max(times(first)) < 900, "the clock of this process is not faked"
    wait_until(lambda: max(times(client.ids("snowflake 1"))) > max(times(checked)), 5, "it runs")
    return client


def test_a_clock_that_is_set_back(clocked, clock, gates):
    """Ids go on within the last time's sequence; when that is used up they wait for the clock."""
    taken = clocked.ids("snowflake 50")
    while taken[-1][1] & 0xfff > 0xfff - 5:  # a time begins anywhere in its sequence
        taken += clocked.ids("snowflake 1")
    clock.set(-3600)
    taken += clocked.ids("snowflake 5")
    failed = clocked.refused("snowflake 20000 deadline_ms=200", "window_over")
    assert failed.status == 0
    clocked.refused("snowflake 1 deadline_ms=300", "window_over")
    in_time(clocked, 300)
    assert clocked.took_s > 0.25
    clock.set(0)
    taken += clocked.ids("snowflake 500")
    check_once(taken)
    check_rising(taken)
    check_windows(gates, taken)
    assert clocked.stats()["clock_waits"] >= 1


def test_a_clock_that_falls_a_little(clocked, clock, gates):
    """It is waited for, by whatever means: nobody notices."""
    taken = clocked.ids("snowflake 50")
    for _ in range(4):
        clock.set(-0.004)
        taken += clocked.ids("snowflake 500")
        clock.set(0)
        taken += clocked.ids("snowflake 500")
    check_once(taken)
    check_rising(taken)
    check_windows(gates, taken)


def test_a_clock_that_jumps_ahead(clocked, clock, gates):
    """Beyond the window nothing is stamped; once the clock is right again ids go on."""
    taken = clocked.ids("snowflake 50")
    clock.set(3600)
    clocked.refused("snowflake 1 deadline_ms=300", "window_over")
    in_time(clocked, 300)
    clock.set(0)
    taken += clocked.ids("snowflake 50")
    clock.set(40)  # within the window: these times are used, and then waited for
    taken += clocked.ids("snowflake 50")
    clock.set(0)
    taken += clocked.ids("snowflake 5")
    clocked.refused("snowflake 20000 deadline_ms=300", "window_over")
    check_once(taken)
    check_rising(taken)
    check_windows(gates, taken)
