"""Idempotency-Key: the same key, tag and count give the same ids on every node, for a day of the
log's time, through leader changes, snapshots and restarts; and a client that always repeats with
its key leaves no gap."""

import random
import threading

import pytest

from client import parse_ids, request_bytes
from clockfile import own_clocks
from cluster import FAST
from strict_load import StrictLoad, ask, gave_up, key_header, take, target
from test_snapshot import INSTALLED, SMALL_LOG, outgrow_the_log
from wait import wait_until

NO_ANSWER = {"timeout", "no_leader"}
DAY_S = 86_400
HOUR_S = 3_600


def highest(cluster, tag):
    return int(cluster.leader().get_json(f"/api/tags/{tag}")["max_id"]) - 1


def replayed(answer):
    assert answer.status == 200, answer
    assert answer.headers.get("idempotency-replayed") in (None, "true"), answer
    return "idempotency-replayed" in answer.headers


def check_replay(nodes, tag, keys):
    """Each of these {key: (first, last)} has its ids on each of these nodes."""
    for node in nodes:
        for key, (first, last) in keys.items():
            answer = ask(node, tag, last - first + 1, key=key)
            assert replayed(answer), f"{key} on {node}"
            assert parse_ids(answer, "range", last - first + 1) == [(first, last)]


# --- without faults ---


def test_the_same_ids_on_every_node(shared, tag):
    shared.create_tag(tag, mode="strict")
    one, two, three = shared.nodes
    assert not replayed(ask(one, tag, 3, key="order-1"))
    assert take(two, tag) == (4, 4)
    for node in (three, two, one):
        answer = ask(node, tag, 3, key="order-1")
        assert replayed(answer) and answer.body == b"1 3\n"
    # Whatever the format: it is how the answer is written, not what was asked for.
    answer = one.http("GET", target(tag, 3, "text"), headers=key_header("order-1"))
    assert replayed(answer) and answer.body == b"1\n2\n3\n"
    answer = two.http("GET", target(tag, 3, "json"), headers=key_header("order-1"))
    assert replayed(answer) and answer.json()["ranges"] == [{"first": "1", "last": "3"}]
    answer = two.http("POST", target(tag, 3, "range"), headers=key_header("order-1"))
    assert replayed(answer) and answer.body == b"1 3\n"
    assert take(one, tag) == (5, 5), "a replay took ids"


def test_one_id_with_and_without_count(shared, tag):
    shared.create_tag(tag, mode="strict")
    one, two, _ = shared.nodes
    answer = one.http("GET", f"/api/segment/get/{tag}", headers=key_header("k"))
    assert answer.body == b"1"
    answer = two.http("GET", f"/api/segment/get/{tag}?count=1", headers=key_header("k"))
    assert replayed(answer) and answer.body == b"1\n"


# Shows lesson-unknown.
def test_another_count_is_a_conflict(shared, tag):
    shared.create_tag(tag, mode="strict")
    assert take(shared.nodes[0], tag, 3, key="k") == (1, 3)
    for node in shared.nodes:
        for count in (1, 2, 4, 100_000):
            answer = ask(node, tag, count, key="k")
            assert (answer.status, answer.code) == (409, "idempotency_conflict"), answer
            assert "count=3" in answer.json()["message"], "what it was used with"
        assert take(node, tag, 3, key="k") == (1, 3)
    assert take(shared.nodes[0], tag) == (4, 4), "a conflict took ids"


def test_a_key_belongs_to_its_tag(shared, tag):
    tags = [f"{tag}.{number}" for number in range(4)] + [tag, f"{tag}.1k"]
    for number, name in enumerate(tags):
        shared.create_tag(name, mode="strict", max_id=number * 1000 + 1)
    for key in ("k", "1k", "K"):
        for number, name in enumerate(tags):
            got = take(shared.nodes[number % 3], name, number + 1, key=key)
            assert got[0] > number * 1000
            assert take(shared.nodes[(number + 1) % 3], name, number + 1, key=key) == got
    for number, name in enumerate(tags):
        assert highest(shared, name) == number * 1000 + 3 * (number + 1)


def test_a_key_that_was_refused_is_free(shared, tag):
    """What got an error got no ids, and its key stands for nothing."""
    last = (1 << 63) - 2
    shared.create_tag(tag, force=True, mode="strict", max_id=last - 9)
    answer = ask(shared.nodes[0], tag, 11, key="k")
    assert (answer.status, answer.code) == (409, "exhausted")
    assert take(shared.nodes[1], tag, 10, key="k") == (last - 9, last)
    # And what is exhausted replays still.
    assert take(shared.nodes[2], tag, 10, key="k") == (last - 9, last)
    answer = ask(shared.nodes[2], tag, 1, key="other")
    assert (answer.status, answer.code) == (409, "exhausted")


def test_one_key_at_once_from_everywhere(shared, recorder, tag):
    """Thirty requests of one key at a time, over all nodes: one is given ids, all the same."""
    shared.create_tag(tag, mode="strict")
    recorder.declare(tag, "strict", start=1)
    rounds = 20
    found = [[] for _ in range(rounds)]
    barrier = threading.Barrier(30)

    def run(number):
        client = recorder.client(f"c{number}")
        with shared.nodes[number % 3].connect() as connection:
            for turn in range(rounds):
                count = turn + 1
                barrier.wait(20)
                with client.operation(tag, count, f"key{turn}") as operation:
                    answer = connection.request(
                        "GET", target(tag, count, "range"), headers=key_header(f"key{turn}")
                    )
                    again = replayed(answer)
                    ranges = parse_ids(answer, "range", count)
                    operation.answered(ranges)
                found[turn].append((again, ranges[0]))

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    for turn in range(rounds):
        assert len(found[turn]) == 30, f"round {turn}"
        assert len({ids for _, ids in found[turn]}) == 1
        assert sum(not again for again, _ in found[turn]) == 1
    assert recorder.check().ids == highest(shared, tag) == rounds * (rounds + 1) // 2


def test_pipelined_with_one_key(shared, tag):
    """The second request is on its way before the first one is answered."""
    shared.create_tag(tag, mode="strict")
    request = request_bytes("GET", target(tag, 5, "range"), headers=key_header("k"))
    with shared.nodes[2].connect() as connection:
        connection.send(request * 20)
        answers = [connection.read_response() for _ in range(20)]
    assert {answer.body for answer in answers} == {b"1 5\n"}
    assert [replayed(answer) for answer in answers] == [False] + [True] * 19


# --- the bound of the table ---

# The smallest table, all of which one client may have.
SMALL_TABLE = {**FAST, "data-memory-bytes": "1MiB", "quota": "keys=100%"}


def fill_table(node, tag):
    """Keys until there is no room for another one; how many of them."""
    taken, burst = 0, 500
    with node.connect() as connection:
        while True:
            connection.send(b"".join(
                request_bytes("GET", target(tag, 1, "range"), headers=key_header(f"f{number}"))
                for number in range(taken, taken + burst)))
            answers = [connection.read_response() for _ in range(burst)]
            done = sum(answer.status == 200 for answer in answers)
            taken += done
            if done < burst:
                assert {answer.code for answer in answers[done:]} == {"idempotency_full"}
                return taken


def test_a_full_table_refuses_and_forgets_nothing(make_cluster, tag):
    cluster = make_cluster(settings=SMALL_TABLE)
    names = [f"{tag}.{number}" for number in range(2)]
    for name in names:
        cluster.create_tag(name, mode="strict")
    keys = {name: {} for name in names}
    for number in range(10):
        name = names[number % 2]
        keys[name][f"k{number}"] = take(cluster.nodes[number % 3], name, 2, key=f"k{number}")
    filled = fill_table(cluster.nodes[0], names[0])

    def check_full():
        for node in cluster.nodes:
            for name in names:
                answer = ask(node, name, 2, key="k10")
                assert (answer.status, answer.code) == (503, "idempotency_full"), answer
                assert int(answer.headers["retry-after"]) >= 1
                check_replay([node], name, keys[name])
            # A key of the other tag is another key.
            answer = ask(node, names[1], 2, key="k0")
            assert (answer.status, answer.code) == (503, "idempotency_full"), answer
            answer = ask(node, names[0], 3, key="k0")
            assert (answer.status, answer.code) == (409, "idempotency_conflict"), answer

    check_full()
    assert [highest(cluster, name) for name in names] == [10 + filled, 10], "a refusal took ids"
    # A client that sends no key is served.
    assert take(cluster.nodes[0], names[0]) == (11 + filled, 11 + filled)
    cluster.kill_all()
    cluster.start()
    check_full()


# --- the end of a key's day ---


def log_time_ms(cluster):
    return cluster.leader().get_json("/api/workers")["log_time_ms"]


def set_all(cluster, clocks, seconds):
    """All clocks ahead by so much, and the log's time with them (which moves a day at a time)."""
    before = log_time_ms(cluster)
    moved = (seconds - set_all.at.get(cluster.directory, 0)) * 1000
    set_all.at[cluster.directory] = seconds
    for clock in clocks.values():
        clock.set(seconds)
    wait_until(
        lambda: log_time_ms(cluster) >= before + moved - 5000, 20, f"the log's time {seconds} s on"
    )


set_all.at = {}


def expect_clock_lines(cluster):
    for node in cluster.nodes:
        node.expect_log(r"level=error.*clock")


@pytest.mark.bound(90)
def test_a_key_is_forgotten_after_a_day(make_cluster, tag):
    """By the log's time: a bit less than a day later it replays, on every node and after a restart;
    a bit more, and it is new. A table that was full has room again."""
    cluster = make_cluster(settings=SMALL_TABLE, start=False)
    clocks = own_clocks(cluster)
    expect_clock_lines(cluster)
    cluster.start()
    cluster.create_tag(tag, mode="strict")
    one, two, three = cluster.nodes
    wait_until(lambda: log_time_ms(cluster) > 0, 10, "the log has a time")
    keys = {f"k{n}": take(cluster.nodes[n % 3], tag, n + 1, key=f"k{n}") for n in range(9)}
    last = highest(cluster, tag)

    set_all(cluster, clocks, 23 * HOUR_S)
    check_replay(cluster.nodes, tag, keys)
    late = take(one, tag, key="late")
    assert late == (last + 1, last + 1)
    last += 1 + fill_table(one, tag)
    assert ask(two, tag, key="more").code == "idempotency_full"
    cluster.kill_all()
    cluster.start()
    check_replay(cluster.nodes, tag, keys)
    assert ask(three, tag, key="more").code == "idempotency_full"

    set_all(cluster, clocks, 25 * HOUR_S)
    check_replay(cluster.nodes, tag, {"late": late})
    # New, whatever the count; what it stood for is not looked at.
    fresh = {}
    for number in range(9):
        node = cluster.nodes[(number + 1) % 3]
        answer = ask(node, tag, 100 + number, key=f"k{number}")
        assert not replayed(answer)
        fresh[f"k{number}"] = parse_ids(answer, "range", 100 + number)[0]
        assert fresh[f"k{number}"] == (last + 1, last + 100 + number)
        last = fresh[f"k{number}"][1]
    assert ask(one, tag, key="more").code == "idempotency_full"
    check_replay(cluster.nodes, tag, {**fresh, "late": late})


@pytest.mark.slow
def test_a_clock_that_is_ahead_alone_ends_no_key(make_cluster, tag):
    """The leader's clock a week ahead: the log's time is the median's."""
    cluster = make_cluster(start=False)
    clocks = own_clocks(cluster)
    expect_clock_lines(cluster)
    cluster.start()
    cluster.create_tag(tag, mode="strict")
    wait_until(lambda: log_time_ms(cluster) > 0, 10, "the log has a time")
    keys = {f"k{n}": take(cluster.nodes[n % 3], tag, n + 1, key=f"k{n}") for n in range(3)}
    began_ms = log_time_ms(cluster)
    clocks[cluster.leader().id].set(7 * DAY_S)
    before_ms = log_time_ms(cluster)
    wait_until(lambda: log_time_ms(cluster) > before_ms, 10, "it goes on by the other two's")
    check_replay(cluster.nodes, tag, keys)
    assert log_time_ms(cluster) < began_ms + HOUR_S * 1000


# --- through faults ---


def lose_leader(cluster):
    leader = cluster.leader()
    leader.kill9()
    cluster.wait_leader(among=cluster.running())
    leader.start().wait_ready()


def kill_all(cluster):
    cluster.kill_all()
    cluster.start()


def stop_all(cluster):
    cluster.stop_all()
    cluster.start()


def install_snapshot(cluster):
    """A node gets its state by a snapshot, and leads at once."""
    away, third = cluster.followers()
    leader = cluster.leader()
    away.kill9()
    outgrow_the_log(cluster, leader, 150)
    size = len(away.log())
    away.start()
    away.wait_log(INSTALLED, timeout=20, start=size)
    away.wait_ready()
    cluster.wait_applied()
    third.kill9()
    outgrow_the_log(cluster, leader, 5)
    cluster.wait_applied()
    leader.kill9()
    third.start().wait_ready()
    assert cluster.wait_leader(among=[away, third]) is away
    leader.start().wait_ready()


@pytest.mark.parametrize(
    "fault",
    [lose_leader, kill_all, install_snapshot, pytest.param(stop_all, marks=pytest.mark.slow)],
)
# Shows P3-key.
def test_keys_survive(make_cluster, recorder, tag, fault):
    """Keys of before, all of them, on every node; under clients that go on all the time."""
    cluster = make_cluster(settings=SMALL_LOG)
    cluster.create_tag(tag, mode="strict")
    cluster.create_tag("churn")
    recorder.declare(tag, "strict", start=1)
    keys = {}
    for number in range(60):
        keys[f"before{number}"] = take(
            cluster.nodes[number % 3], tag, number % 7 + 1, key=f"before{number}"
        )
    with recorder.client("before").operation(tag, highest(cluster, tag)) as operation:
        operation.answered([(1, highest(cluster, tag))])
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(6, tag, counts=(1, 10), rate=30, keyed=True)
    with load:
        load.wait_answers(40)
        fault(cluster)
        load.wait_all_served()
        check_replay(cluster.nodes, tag, keys)
        for node in cluster.nodes:
            answer = ask(node, tag, 100, key="before0")
            assert (answer.status, answer.code) == (409, "idempotency_conflict"), answer
        load.wait_answers(40)
        verdict = load.finish()
    # All had keys and asked until they were answered.
    assert verdict.ids == highest(cluster, tag)


# --- clients that repeat ---


@pytest.mark.bound(60)
# Shows P3-key.
def test_clients_that_repeat_leave_no_gap_through_leader_kills(make_cluster, recorder, tag):
    """Each request has a key and is asked again, at the next node, until it is answered: then
    max_id is what was acknowledged, to the id."""
    cluster = make_cluster()
    cluster.create_tag(tag, mode="strict")
    recorder.declare(tag, "strict", start=1)
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(24, tag, counts=(1, 10, 1000), rate=40, keyed=True)
    with load:
        for _ in range(2):
            load.wait_answers(200)
            lose_leader(cluster)
            load.wait_all_served()
        verdict = load.finish()
    assert sum(client.lost for client in load.clients) > 0, "the kills were not felt"
    assert verdict.ids == highest(cluster, tag)


@pytest.mark.quiet
@pytest.mark.bound(60)
def test_impatient_clients_that_repeat_leave_no_gap(make_cluster, proxies, recorder, tag):
    """Timeouts of half a second while leaders are cut off for longer: most repeats come while the
    first attempt may still be applied, and from other nodes."""
    cluster = make_cluster(proxies=proxies)
    cluster.create_tag(tag, mode="strict")
    recorder.declare(tag, "strict", start=1)
    load = StrictLoad(recorder, cluster.nodes)
    load.add_many(12, tag, counts=(1, 10, 1000), rate=40, timeout_ms=0, keyed=True)
    load.add_many(12, tag, counts=(1, 10), rate=40, timeout_ms=50, keyed=True)
    for node in cluster.nodes:
        load.may_refuse[node.id] |= NO_ANSWER
    with load:
        for _ in range(2):
            load.wait_answers(200)
            old = cluster.leader()
            proxies.isolate(old)
            cluster.wait_leader(among=cluster.others(old))
            load.wait_answers(100)
            proxies.heal()
            cluster.wait_leader()
            load.wait_all_served()
        verdict = load.finish()
    assert sum(sum(client.refusals.values()) for client in load.clients) > 0, "nobody timed out"
    assert verdict.ids == highest(cluster, tag)


def test_clients_that_hang_up_and_ask_again(make_cluster, recorder, tag):
    """The connection is closed before the answer, at any moment from the first byte on; the ids are
    those of the first attempt or the second, and none is lost between them."""
    cluster = make_cluster()
    cluster.create_tag(tag, mode="strict")
    recorder.declare(tag, "strict", start=1)
    faults = []

    def run(number):
        source = random.Random(number)
        client = recorder.client(f"c{number}")
        try:
            for turn in range(40):
                key, count = f"{number}.{turn}", source.choice((1, 10, 1000))
                path = target(tag, count, "range")
                request = request_bytes("GET", path, headers=key_header(key))
                for _ in range(source.randrange(3)):
                    with client.operation(tag, count, key):
                        gave_up(
                            source.choice(cluster.nodes).address,
                            request,
                            source.choice((0.0001, 0.001, 0.003)),
                        )
                with client.operation(tag, count, key) as operation:
                    node = source.choice(cluster.nodes)
                    operation.answered([take(node, tag, count, key)])
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not faults, faults
    assert recorder.check().ids == highest(cluster, tag)
