"""Snowflake ids: what they look like, how fast they come, and that none comes twice over kills,
restarts and the loss of the majority. Wrong clocks are test_snowflake_clocks.py's."""

import shutil
import threading
import time

import pytest

from checker import History
from cluster import FAST
from load import wait_all_serve, wait_taken
from snowflakes import (
    EPOCH_MS,
    MILLISECOND_IDS,
    SPACE,
    SnowLoad,
    decode,
    parse,
    take,
    target,
    wait_refused,
    wait_served,
)
from wait import ran_s, wait_until

FORMATS = ["text", "range", "json"]
MARK_LEAD_S = 1.0  # MARK_LEAD_MS
SLACK_S = 1.5


def now_ms():
    return time.time_ns() // 1_000_000


def last_ms(history, node):
    """The highest time among the ids that this node handed out."""
    return max(decode(max(t.lasts)).ms for t in history.tracks if t.node_id == node.id and t.lasts)


# --- taking ids apart ---


def test_leafs_own_example(shared):
    """The id of Leaf's documentation."""
    wait_served(shared.nodes)  # since then each node knows the layout
    for node in shared.nodes:
        answer = node.get("/api/snowflake/decode/1256557484213448722")
        assert answer.status == 200, answer
        assert answer.headers["content-type"].startswith("application/json")
        assert answer.json() == {
            "id": "1256557484213448722",
            "timestamp_ms": 1588421624602,
            "time": "2020-05-02T12:13:44.602Z",
            "worker_id": 619,
            "sequence": 18,
        }
        answer = node.get("/decodeSnowflakeId?snowflakeId=1256557484213448722")
        assert answer.status == 200, answer
        found = answer.json()
        assert set(found) == {"timestamp", "workerId", "sequenceId"}
        assert found["timestamp"].startswith("1588421624602(")
        assert (found["workerId"], found["sequenceId"]) == ("619", "18")


def test_ids_of_segments_decode_too(shared, tag):
    shared.create_tag(tag, max_id=4096)
    node = shared.nodes[0]
    wait_served([node])
    value = int(node.get(f"/api/segment/get/{tag}").body)
    found = node.get_json(f"/api/snowflake/decode/{value}")
    assert (found["timestamp_ms"], found["worker_id"], found["sequence"]) == (EPOCH_MS, 1, 0)
    found = node.get_json(f"/api/snowflake/decode/{(1 << 63) - 1}")
    assert (found["worker_id"], found["sequence"]) == (1023, 4095)
    assert found["timestamp_ms"] == EPOCH_MS + (1 << 41) - 1


@pytest.mark.parametrize("bad", ["x", "-1", "%2B1", "1.0", "1e3", "0x10", "%20", "1" * 30])
def test_bad_ids(shared, bad):
    node = shared.nodes[0]
    wait_served([node])
    answer = node.get(f"/api/snowflake/decode/{bad}")
    assert (answer.status, answer.code) == (400, "bad_request"), answer
    # Leaf reads a sign, and answers 200 with a message to what it cannot read.
    expected = {"workerId", "sequenceId", "timestamp"} if bad[1:] in ("1", "2B1") else {"errorMsg"}
    answer = node.get(f"/decodeSnowflakeId?snowflakeId={bad}")
    assert answer.status == 200 and set(answer.json()) == expected, answer


# --- ids ---


def test_single_id_as_leaf_answers(shared):
    wait_served(shared.nodes)
    for node in shared.nodes:
        for method in ("GET", "POST"):
            before = now_ms()
            answer = node.http(method, "/api/snowflake/get/order.item")
            assert answer.status == 200, answer
            assert answer.headers["content-type"] == "text/plain;charset=UTF-8"
            assert answer.headers["cache-control"] == "no-store"
            assert before <= decode(int(answer.body)).ms <= now_ms()
        assert node.http("HEAD", "/api/snowflake/get/order").status == 405


@pytest.mark.parametrize(
    "query,status,code",
    [
        ("count=0", 400, "bad_count"),
        ("count=100001", 400, "bad_count"),
        ("count=x", 400, "bad_count"),
        ("format=xml", 400, "bad_request"),
        ("timeout_ms=10001", 400, "bad_request"),
        ("count=4097&contiguous=1", 409, "not_contiguous"),
    ],
)
def test_bad_requests(shared, query, status, code):
    wait_served(shared.nodes)
    answer = shared.nodes[0].get(f"/api/snowflake/get/order?{query}")
    assert (answer.status, answer.code) == (status, code), answer
    for path in ("/api/snowflake/get/%01", f"/api/snowflake/get/{'k' * 129}"):
        answer = shared.nodes[0].get(path)
        assert (answer.status, answer.code) == (400, "bad_tag"), answer


def test_contiguous(shared):
    wait_served(shared.nodes)
    history = History()
    for node in shared.nodes:
        track = history.track("c", node.id, SPACE)
        for count in (1, 100, 3000, MILLISECOND_IDS):
            answer = node.get(target(count, "range", 3000) + "&contiguous=1")
            [(first, last)] = parse(answer, "range", count)
            track.add(first, last, answer)
            assert decode(first).ms == decode(last).ms
    history.check()


def test_batches_in_every_format(shared):
    """The largest requests on all nodes at once: distinct, rising, each node with its own worker
    id, and of the present."""
    wait_served(shared.nodes)
    history = History()
    workers, faults = {}, []
    began_ms = now_ms()

    def client(node, wire_format):
        track = history.track(wire_format, node.id, SPACE)
        found = set()
        try:
            for _ in range(2):
                for first, last in take(node, track, 100_000, wire_format):
                    parts, end = decode(first), decode(last)
                    assert began_ms <= parts.ms <= now_ms()
                    assert (end.ms, end.worker) == (parts.ms, parts.worker)
                    found.add(parts.worker)
        except Exception as error:  # told below
            faults.append(f"{node} {wire_format}: {error!r}")
        workers.setdefault(node.id, set()).update(found)

    threads = [threading.Thread(target=client, args=(n, f)) for n in shared.nodes for f in FORMATS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert history.check() == 3 * 3 * 2 * 100_000
    assert all(len(found) == 1 for found in workers.values()), workers
    assert len(set.union(*workers.values())) == 3, workers


def test_a_millisecond_begins_at_a_random_sequence(shared):
    """So that those who shard by the lowest digits get an even spread."""
    node = shared.nodes[0]
    wait_served([node])
    sequences = []
    with node.connect() as connection:
        for _ in range(300):
            answer = connection.request("GET", target())
            sequences.append(decode(int(answer.body)).sequence)
    assert max(sequences) < MILLISECOND_IDS and len(set(sequences)) > 30
    assert len({sequence % 2 for sequence in sequences}) == 2


def ids_a_ms(node, history, seconds=1.0):
    """Ids that a node hands out to four greedy clients, for each millisecond of its own times."""
    tracks = [history.track(f"fast{number}", node.id, SPACE) for number in range(4)]
    faults = []

    def client(track):
        end = time.monotonic() + seconds
        try:
            with node.connect() as connection:
                while time.monotonic() < end:
                    answer = connection.request("GET", target(100_000, "range"))
                    for first, last in parse(answer, "range", 100_000):
                        track.add(first, last, answer)
        except Exception as error:  # told below
            faults.append(repr(error))

    threads = [threading.Thread(target=client, args=(track,)) for track in tracks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    first = min(decode(track.firsts[0]).ms for track in tracks)
    last = max(decode(track.lasts[-1]).ms for track in tracks)
    return sum(track.count for track in tracks) / (last - first + 1)


@pytest.mark.quiet
def test_full_milliseconds(make_cluster):
    """Nearly all of the 4,096 ids of each millisecond, and more with a second worker id: in the
    best of some seconds, since in others the machine may do something else."""
    least = 2000
    for workers in (1, 2):
        cluster = make_cluster(1, {**FAST, "snowflake-workers": workers})
        node = cluster.nodes[0]
        wait_served([node])
        wait_until(lambda n=node, w=workers: len(own_rows(n)) == w, 10, f"{workers} worker ids")
        history, rates = History(), []
        end = time.monotonic() + 30
        while not rates or (rates[-1] <= least and time.monotonic() < end):
            rates.append(ids_a_ms(node, history))
        assert rates[-1] > least, rates
        # Ids of one millisecond and two worker ids may fall from one request to the next.
        faults = history.violations() if workers == 1 else history.overlaps(SPACE)
        assert not faults, faults
        assert max(rates) <= workers * MILLISECOND_IDS, rates
        least = 1.1 * rates[-1]


def own_rows(node):
    """The registry's rows of the nodes."""
    rows = node.get_json("/api/workers?limit=1024")["workers"]
    return [row for row in rows if row["name"].startswith("node-")]


# --- settings ---


def test_layout_is_fixed_at_the_first_start(make_cluster):
    cluster = make_cluster(1, {**FAST, "snowflake-layout": "js53"})
    node = cluster.nodes[0]
    wait_served([node])
    history = History()
    track = history.track("c", node.id, SPACE)
    for _ in range(2):
        for first, last in take(node, track, 1000, "range"):
            assert last < 1 << 53
            found = node.get_json(f"/api/snowflake/decode/{first}")
            assert found["sequence"] == first & 63 and found["worker_id"] == first >> 6 & 63
            assert abs(found["timestamp_ms"] - now_ms()) < 5000
        node.stop()
        node.settings["snowflake-layout"] = "leaf"
        node.start().wait_ready()
        wait_served([node], track_of=lambda _: track)
    history.check()


def test_node_without_worker_ids(make_cluster, tag):
    """It refuses snowflake ids; all the rest works on it."""
    cluster = make_cluster(start=False)
    off = cluster.nodes[0]
    off.settings["snowflake-workers"] = 0
    cluster.start()
    wait_served(cluster.others(off))
    answer = off.get(target())
    assert (answer.status, answer.code) == (503, "disabled") and answer.headers["retry-after"]
    assert off.get_json("/api/snowflake/decode/4097")["sequence"] == 1
    checks = off.get_json("/readyz?verbose")["checks"]
    assert "snowflake" not in {check["name"] for check in checks}
    cluster.create_tag(tag, off)
    assert off.get(f"/api/segment/get/{tag}").status == 200
    assert off.get("/readyz").status == 200
    assert len(own_rows(off)) == 2
    body = {"name": tag, "address": "", "window_ms": 5000}
    assert off.http("POST", "/api/workers", body).status == 201


# --- kills ---


def small_load(cluster, history):
    load = SnowLoad(history)
    for node in cluster.nodes:
        load.add(node, 1, "plain", depth=8, rate=2000.0)
        load.add(node, 1000, "range", rate=20_000.0)
        load.add(node, 100, "json", rate=2000.0)
    return load


def test_leader_killed_under_load(make_cluster):
    """Nobody else notices."""
    cluster = make_cluster()
    wait_served(cluster.nodes)
    history = History()
    with small_load(cluster, history) as load:
        for _ in range(2):
            wait_taken(load, 20_000)
            killed = cluster.leader()
            killed.kill9()
            wait_taken(load, 20_000)
            cluster.wait_leader()
            killed.start().wait_ready()
            wait_all_serve(load)
        load.finish()
    assert len(own_rows(cluster.nodes[0])) == 3, "a node that came back kept its worker id"


@pytest.mark.quiet
@pytest.mark.parametrize("how", ["kill9", "stop"])
# Shows P6-clock.
def test_restart_waits_for_the_mark_alone(make_cluster, how):
    """The first id comes at most the mark's lead after the last one."""
    cluster = make_cluster()
    wait_served(cluster.nodes)
    node = cluster.leader()
    history = History()
    track = history.track("c", node.id, SPACE)
    for _ in range(3):
        for _ in range(20):
            take(node, track, 1000, "range")
        getattr(node, how)()
        last = last_ms(history, node)
        node.start().wait_ready()
        ready_ms, stood_s = now_ms(), time.monotonic() - ran_s()
        first = decode(take(node, track, timeout_ms=5000)[0][0]).ms
        slack_s = SLACK_S + time.monotonic() - ran_s() - stood_s
        assert last < first <= max(ready_ms, last + MARK_LEAD_S * 1000) + slack_s * 1000
    history.check()


def test_all_killed_at_once(make_cluster):
    cluster = make_cluster()
    wait_served(cluster.nodes)
    history = History()
    with small_load(cluster, history) as load:
        for _ in range(2):
            wait_taken(load, 20_000)
            cluster.kill_all()
            cluster.start()
            wait_all_serve(load)
        load.finish()


# Shows P1-wiped.
def test_wiped_node_stamps_nothing(make_cluster):
    """A node whose data is gone is refused under its id: nobody stamps with its worker id."""
    cluster = make_cluster()
    wait_served(cluster.nodes)
    history = History()
    tracks = {node: history.track("c", node.id, SPACE) for node in cluster.nodes}
    for node, track in tracks.items():
        take(node, track, 1000, "range")
    wiped = cluster.followers()[0]
    wiped.kill9()
    shutil.rmtree(wiped.data_dir)
    wiped.expect_log("level=error")
    wiped.start()
    code = wiped.wait_exit()
    assert code == 76
    for node in cluster.running():
        take(node, tracks[node], 10_000, "range")
    history.check()


# --- no majority ---

SHORT = {**FAST, "snowflake-window-ms": 3000}


@pytest.mark.quiet
# Shows P4-snowflake, lesson-window-end.
def test_window_ends_without_a_majority(make_cluster, tag):
    cluster = make_cluster(settings=SHORT)
    cluster.create_tag(tag)
    wait_served(cluster.nodes)
    survivor = cluster.followers()[0]
    history = History()
    track = history.track("c", survivor.id, SPACE)
    take(survivor, track, 1000, "range")
    assert survivor.get(f"/api/segment/get/{tag}").status == 200
    gone = cluster.others(survivor)
    for node in gone:
        node.kill9()
    lost_ms = now_ms()
    rows = survivor.get_json("/api/workers?consistency=local")["workers"]
    own = f"node-{survivor.id}/"
    until_ms = next(row["until_ms"] for row in rows if row["name"].startswith(own))
    answer = wait_refused(survivor, "window_expired", 10, track)
    assert answer.json()["message"]
    # Up to the end of the window, and not further.
    assert last_ms(history, survivor) <= until_ms <= min(now_ms(), lost_ms + 3200)
    survivor.wait_log(r"window_expired")
    shown = snowflake_check(survivor)
    assert not shown["ok"], shown
    assert survivor.get(f"/api/segment/get/{tag}").status == 200
    wait_refused(survivor, "window_expired", 1, track)

    gone[0].start().wait_ready()
    wait_served([survivor, gone[0]], track_of=lambda node: history.track("b", node.id, SPACE))
    for node in (survivor, gone[0]):
        take(node, history.track("c", node.id, SPACE), 10_000, "range")
    wait_until(lambda: snowflake_check(survivor)["ok"], 5, "the check is fine again")
    history.check()


def snowflake_check(node):
    answer = node.get("/readyz?verbose")
    return next(check for check in answer.json()["checks"] if check["name"] == "snowflake")


# Shows P4-snowflake.
def test_restart_without_a_majority(make_cluster):
    """A node knows from its own disk what it may stamp: no leader is needed for that."""
    cluster = make_cluster(settings={**FAST, "snowflake-window-ms": 60_000})
    wait_served(cluster.nodes)
    history = History()
    for node in cluster.nodes:
        take(node, history.track("c", node.id, SPACE), 10_000, "range")
    alone = cluster.leader()
    cluster.kill_all()
    for _ in range(2):
        last = last_ms(history, alone)
        alone.start()
        wait_until(alone.serves, 10, "/livez")
        wait_served([alone], track_of=lambda node: history.track("b", node.id, SPACE))
        for _ in range(5):
            take(alone, history.track("c", alone.id, SPACE), 10_000, "range")
        assert alone.sees_no_leader()
        assert min(t.firsts[0] for t in history.tracks[-5:]) >> 22 > last - EPOCH_MS
        alone.kill9()
    cluster.start()
    for node in cluster.nodes:
        take(node, history.track("c", node.id, SPACE), 10_000, "range", timeout_ms=5000)
    history.check()
