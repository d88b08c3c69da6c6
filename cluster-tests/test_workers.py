"""The registry of worker ids over HTTP: windows, epochs and fencing, from every node, and over
kills."""

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from checker import History
from client import get_bytes
from cluster import FAST
from snowflakes import SPACE, decode, parse, refusal, take, target, wait_served
from upgrade import wait_level
from wait import wait_until
from workers import GRANT, acquire, acquired, release, renew

ALL = 1024
DAY_MS = 86_400_000
CLOCKS_MS = 50  # ours and a node's on this machine, with what a turn takes


def now_ms():
    return time.time_ns() // 1_000_000


def rows(node):
    return {row["worker_id"]: row for row in node.get_json("/api/workers?limit=1024")["workers"]}


def check_error(answer, status, code):
    assert (answer.status, answer.code) == (status, code), answer
    assert ("retry-after" in answer.headers) == (status == 503), answer


@pytest.fixture
def name(tag):
    return tag


@pytest.fixture(autouse=True)
def the_log_has_a_time(request):
    """A new cluster is ready before its log has a time and a layout, and has no worker ids yet."""
    if "shared" in request.fixturenames:
        wait_served(request.getfixturevalue("shared").nodes)


# --- the life of a grant ---


def test_acquire_renew_release(shared, name):
    one, two, three = shared.nodes
    asked_ms = now_ms()
    grant = acquired(one, name, 30_000)
    assert 0 <= grant["worker_id"] < ALL and grant["epoch"] >= 1
    assert asked_ms + 29_000 <= grant["until_ms"] <= now_ms() + 31_000

    row = rows(two)[grant["worker_id"]]
    assert row["name"] == name and row["address"] == "10.0.0.7:9"
    assert (row["epoch"], row["from_ms"], row["until_ms"]) == (
        grant["epoch"],
        grant["from_ms"],
        grant["until_ms"],
    )

    used_ms = now_ms()
    answer = renew(three, grant, window_ms=40_000, last_timestamp_ms=used_ms)
    assert answer.status == 200, answer
    renewed = answer.json()
    assert {k: renewed[k] for k in ("worker_id", "epoch", "from_ms")} == {
        k: grant[k] for k in ("worker_id", "epoch", "from_ms")
    }
    assert renewed["until_ms"] >= used_ms + 39_000
    assert rows(one)[grant["worker_id"]]["last_timestamp_ms"] == used_ms

    # A shorter window takes nothing away that was granted.
    answer = renew(one, grant, window_ms=1000)
    assert answer.status == 200 and answer.json()["until_ms"] == renewed["until_ms"]

    # Released: the name has another one at once, since this one's window is not over.
    answer = release(two, grant, last_timestamp_ms=used_ms + 5)
    assert answer.status == 204, answer
    again = acquired(three, name, 30_000)
    assert again["worker_id"] != grant["worker_id"] and again["from_ms"] <= now_ms()


def test_no_release_pulls_the_window_back(shared, name):
    """Whatever a client says that it used: nobody gets a time of its window again."""
    one, two, three = shared.nodes
    for used in (1, now_ms(), None):
        grant = acquired(one, name, 30_000)
        said = {} if used is None else {"last_timestamp_ms": used}
        assert release(two, grant, **said).status == 204
        again = acquired(three, name, worker_id=grant["worker_id"])
        assert again["epoch"] == grant["epoch"] + 1
        assert again["from_ms"] >= grant["until_ms"]


def test_one_name_in_two_processes(shared, name):
    """Each has a worker id of its own under the name, at once and for as long as it renews. After a
    crash, too: the one before ends by itself."""
    one, two, three = shared.nodes
    grants = [acquired(node, name, 1000) for node in (one, two)]
    assert grants[0]["worker_id"] != grants[1]["worker_id"]
    begun = time.monotonic()
    while time.monotonic() < begun + 3:  # three windows
        for grant in grants:
            assert grant["from_ms"] <= now_ms()
            answer = renew(three, grant, window_ms=1000)
            assert answer.status == 200, answer
            assert answer.json()["until_ms"] <= now_ms() + 1000 + CLOCKS_MS
    metrics = three.get("/metrics").text
    assert re.search(r"^leafd_worker_names_shared [1-9]", metrics, re.M), "somebody is told of it"
    # What is over comes back by its name, above its window.
    over = renew(one, grants[0], window_ms=1000).json()["until_ms"]
    again = wait_until(
        lambda: (g := acquired(two, name, 1000))["worker_id"] == grants[0]["worker_id"] and g, 10,
        "it is free"
    )
    assert again["from_ms"] >= over


def test_its_own_worker_id_by_its_number(shared, name):
    """A process that wants the very id that it had says so: the life before is fenced off, and the
    new one begins above all that it may have stamped. Its window is not over, then, so nobody gets
    it a second time: windows do not pile up ahead of the clock."""
    one, two, _ = shared.nodes
    first = acquired(one, name, 20_000)
    second = acquired(two, name, 20_000, worker_id=first["worker_id"])
    assert second["epoch"] == first["epoch"] + 1
    assert second["from_ms"] >= first["until_ms"]
    check_error(renew(one, first), 409, "fenced")
    check_error(release(one, first, last_timestamp_ms=now_ms()), 409, "fenced")
    refused = acquire(two, name, worker_id=first["worker_id"])
    check_error(refused, 409, "conflict")
    assert str(second["until_ms"]) in refused.json()["message"]
    assert renew(two, second).status == 200


def test_fenced_after_a_release(shared, name):
    one, two, three = shared.nodes
    grant = acquired(one, name)
    answer = two.http("DELETE", f"/api/workers/{grant['worker_id']}?epoch={grant['epoch']}")
    assert answer.status == 204, answer
    check_error(renew(three, grant), 409, "fenced")
    # The whole window counts as used.
    again = acquired(one, name, worker_id=grant["worker_id"])
    assert again["epoch"] == grant["epoch"] + 1 and again["from_ms"] >= grant["until_ms"]


def test_a_worker_id_and_a_floor_of_ones_own(shared, name):
    """A generator that had worker id 700 before there was leafd."""
    one, two, three = shared.nodes
    floor_ms = now_ms() + 5000
    grant = acquired(one, name, 30_000, worker_id=700, from_ms=floor_ms)
    assert grant["worker_id"] == 700 and grant["from_ms"] >= floor_ms
    assert grant["until_ms"] >= floor_ms + 30_000
    check_error(acquire(two, name + "/other", worker_id=700), 409, "conflict")
    assert acquired(three, name, worker_id=701)["from_ms"] <= now_ms()
    answer = release(one, grant, last_timestamp_ms=floor_ms + 1)
    assert answer.status == 204
    check_error(acquire(two, name + "/other", worker_id=700), 409, "conflict")


def test_names_are_distinct(shared, name):
    grants = [acquired(shared.nodes[i % 3], f"{name}/{i}") for i in range(30)]
    assert len({grant["worker_id"] for grant in grants}) == 30
    # The nodes' own worker ids are rows as well, and nobody's but theirs.
    wait_served(shared.nodes)
    held = rows(shared.nodes[0])
    own = [row for row in held.values() if row["name"].startswith("node-")]
    assert len(own) >= 3
    assert not {row["worker_id"] for row in own} & {grant["worker_id"] for grant in grants}


def test_list(shared, name):
    """The same on every node, in order, and by pages."""
    grants = [acquired(shared.nodes[0], f"{name}/{number}") for number in range(5)]
    for node in shared.nodes:
        answer = node.get("/api/workers?limit=1024")
        assert answer.headers["content-type"].startswith("application/json")
        whole = answer.json()
        assert whole["next"] is None and abs(whole["log_time_ms"] - now_ms()) < 10_000
        ids = [row["worker_id"] for row in whole["workers"]]
        assert ids == sorted(ids) and ids and {grant["worker_id"] for grant in grants} <= set(ids)
        found, after = [], ""
        while after is not None:
            page = node.get_json(f"/api/workers?limit=2{after}")
            assert len(page["workers"]) <= 2
            found += [row["worker_id"] for row in page["workers"]]
            after = f"&after={page['next']}" if page["next"] is not None else None
        assert found == ids
        assert {row["kind"] for row in whole["workers"]} == {"node", "client"}
        local = node.get_json("/api/workers?limit=1024&consistency=local")
        assert len(local["workers"]) >= 3
    for query in ("limit=0", "limit=1025", "after=x", "after=-1", "consistency=none", "prefix=a"):
        answer = shared.nodes[0].get(f"/api/workers?{query}")
        check_error(answer, 400, "bad_request")
    assert shared.nodes[0].http("HEAD", "/api/workers").status == 200


def test_expected_bound(shared, name):
    one, two, _ = shared.nodes
    grant = acquired(one, name, 5000)
    answer = renew(two, grant, expected_until_ms=grant["until_ms"] - 1)
    check_error(answer, 409, "conflict")
    assert str(grant["until_ms"]) in answer.json()["message"]
    assert rows(one)[grant["worker_id"]]["until_ms"] == grant["until_ms"]
    assert renew(two, grant, expected_until_ms=grant["until_ms"]).status == 200


def test_defaults(shared, name):
    """A name is all that is needed."""
    asked_ms = now_ms()
    answer = shared.nodes[2].http("POST", "/api/workers", {"name": name})
    assert answer.status == 201 and set(answer.json()) == GRANT, answer
    assert asked_ms + 60_000 <= answer.json()["until_ms"] <= now_ms() + 60_000
    assert rows(shared.nodes[0])[answer.json()["worker_id"]]["address"] == ""


# --- bad input ---

BAD_BODIES = [
    ("", "bad_request"),
    ("{", "bad_json"),
    ("[]", "bad_request"),
    ("null", "bad_request"),
    ('{"name":"x","address":"a","window_ms":5000}x', "bad_json"),
    ('{"address":"a","window_ms":5000}', "bad_request"),
    ('{"name":"","address":"a","window_ms":5000}', "bad_request"),
    ('{"name":7,"address":"a","window_ms":5000}', "bad_request"),
    ('{"name":"x\\u0000","address":"a","window_ms":5000}', None),
    ('{"name":"x","name":"y","address":"a","window_ms":5000}', None),
    ('{"name":"x","address":7,"window_ms":5000}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":999}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":86400001}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":5000.5}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":5e3}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":-5000}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":18446744073709551616}', None),
    ('{"name":"x","address":"a","window_ms":true}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":5000,"worker_id":1024}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":5000,"worker_id":-1}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":5000,"worker_id":4194304}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":5000,"from_ms":-1}', "bad_request"),
    ('{"name":"x","address":"a","window_ms":5000,"owner":"me"}', "bad_request"),
    ('{"name":"x\\u202ey","address":"a","window_ms":5000}', "bad_request"),
    ('{"name":"x\\u0085y","address":"a","window_ms":5000}', "bad_request"),
    (json.dumps({"name": "x" * 129, "address": "a", "window_ms": 5000}), "bad_request"),
    (json.dumps({"name": "x", "address": "a" * 256, "window_ms": 5000}), "bad_request"),
]


@pytest.mark.parametrize("body,code", BAD_BODIES)
def test_bad_acquire(shared, body, code):
    before = set(rows(shared.nodes[0]))
    for node in shared.nodes:
        answer = node.http("POST", "/api/workers", body)
        assert answer.status == 400 and answer.code in (code or ("bad_json", "bad_request")), answer
        assert answer.json()["message"]
    assert set(rows(shared.nodes[0])) == before


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "{}",
        '{"epoch":"1"}',
        '{"epoch":1.5}',
        '{"epoch":-1}',
        '{"epoch":1,"window_ms":10}',
        '{"epoch":1,"last_timestamp_ms":"now"}',
        '{"epoch":1,"epoch":1}',
        '{"epoch":1,"until_ms":5}',
    ],
)
def test_bad_renewal(shared, name, body):
    grant = acquired(shared.nodes[0], name)
    for node in shared.nodes:
        answer = node.http("PUT", f"/api/workers/{grant['worker_id']}", body)
        assert answer.status == 400 and answer.code in ("bad_json", "bad_request"), answer
    assert renew(shared.nodes[1], grant).status == 200


def test_a_time_that_was_never_granted(shared, name):
    grant = acquired(shared.nodes[0], name)
    far = grant["until_ms"] + DAY_MS
    check_error(renew(shared.nodes[1], grant, last_timestamp_ms=far), 400, "bad_request")


@pytest.mark.parametrize("path", ["4194304", "4294967296", "x", "-1", "+1", "1.0", "01x", "1/2",
                                  "%31x"])
def test_bad_worker_id_in_the_path(shared, path):
    for method, body in (("PUT", {"epoch": 1}), ("DELETE", {"epoch": 1})):
        answer = shared.nodes[0].http(method, f"/api/workers/{path}", body)
        expected = (404, "no_route") if "/" in path else (400, "bad_request")
        assert (answer.status, answer.code) == expected, answer


def test_bad_release(shared, name):
    node = shared.nodes[0]
    grant = acquired(node, name)
    path = f"/api/workers/{grant['worker_id']}"
    for query, body in [
        ("", None),
        ("?epoch=x", None),
        ("?epoch=", None),
        ("?epoch=1&epoch=1", None),
        ("?other=1", None),
        ("", "{}"),
        ("", '{"epoch":"x"}'),
        ("", '{"epoch":1,"x":1}'),
    ]:
        answer = node.http("DELETE", path + query, body)
        assert answer.status == 400 and answer.code in ("bad_json", "bad_request"), (query, answer)
    assert renew(node, grant).status == 200


def test_unknown_worker_id_and_methods(shared):
    node = shared.nodes[0]
    free = next(i for i in range(ALL - 1, 0, -1) if i not in rows(node))
    for method in ("PUT", "DELETE"):
        answer = node.http(method, f"/api/workers/{free}", {"epoch": 1})
        assert answer.status == 404 and answer.code == "unknown_worker", answer
    for method, path in (("PUT", "/api/workers"), ("DELETE", "/api/workers")):
        answer = node.http(method, path, {})
        assert answer.status == 405 and "POST" in answer.headers["allow"], answer
    answer = node.http("POST", f"/api/workers/{free}", {})
    assert answer.status == 405 and "PUT" in answer.headers["allow"], answer


def test_too_far_ahead(shared, name):
    """A floor years ahead would use the worker id up for years."""
    answer = acquire(shared.nodes[0], name, from_ms=now_ms() + 400 * DAY_MS)
    check_error(answer, 503, "clock_skew")
    grant = acquired(shared.nodes[1], name)
    assert grant["until_ms"] < now_ms() + 2 * DAY_MS


# --- kills ---


def test_survives_kills(make_cluster, name):
    cluster = make_cluster()
    wait_served(cluster.nodes)
    leader = cluster.leader()
    kept = acquired(leader, name + "/kept", 60_000)
    gone = acquired(leader, name + "/gone", 60_000)
    used_ms = now_ms()
    assert release(leader, gone, last_timestamp_ms=used_ms).status == 204
    leader.kill9()
    survivor = cluster.running()[0]
    # A request without an answer may be repeated, and it is answered once there is a leader.
    renewed = wait_until(
        lambda: (a := renew(survivor, kept)).status == 200 and a.json(), 10, "renewed"
    )
    assert renewed["epoch"] == kept["epoch"]
    leader.start().wait_ready()
    cluster.kill_all()
    cluster.start()
    row = wait_until(lambda: rows(leader)[kept["worker_id"]], 10, "the row")
    assert (row["name"], row["epoch"]) == (name + "/kept", kept["epoch"])
    assert row["until_ms"] >= renewed["until_ms"]
    again = wait_until(
        lambda: (a := acquire(leader, name + "/gone", worker_id=gone["worker_id"])).status == 201
        and a.json(), 10, "acquired"
    )
    assert again["from_ms"] >= gone["until_ms"]
    assert again["epoch"] == gone["epoch"] + 1
    assert rows(leader)[kept["worker_id"]]["until_ms"] >= renewed["until_ms"]
    check_error(renew(leader, gone), 409, "fenced")


def test_repeated_through_an_election(make_cluster, name):
    """Clients that acquire and renew all the while the leader is killed: windows of one worker id
    never overlap, whatever was answered."""
    cluster = make_cluster()
    wait_served(cluster.nodes)
    leader = cluster.leader()
    grants, faults, stop = [], [], threading.Event()

    def client(number):
        node = cluster.others(leader)[number % 2]
        try:
            while not stop.is_set():
                answer = acquire(node, f"{name}/{number}", 1000)
                assert answer.status in (201, 503) or answer.code == "share", answer
                if answer.status == 201:
                    grants.append(answer.json())
        except Exception as error:  # told below
            faults.append(repr(error))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(grants) > 20 or faults, 10, "grants")
        leader.kill9()
        before = len(grants)
        wait_until(lambda: len(grants) > before + 20 or faults, 15, "grants of the next leader")
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not faults, faults
    check_windows(grants)


def check_windows(grants):
    """Epochs of one worker id are distinct, and their windows rise without overlapping."""
    for worker in {grant["worker_id"] for grant in grants}:
        own = sorted((g for g in grants if g["worker_id"] == worker), key=lambda g: g["epoch"])
        for before, after in zip(own, own[1:]):
            assert before["epoch"] < after["epoch"], (before, after)
            assert before["until_ms"] <= after["from_ms"], (before, after)


# --- the nodes' own ---

SHORT = {**FAST, "snowflake-window-ms": 3000}


def own_row(node, via):
    """The registry's row of a node with one worker id, as another one tells it."""
    return next(r for r in rows(via).values() if r["name"].startswith(f"node-{node.id}/"))


def test_client_cannot_take_the_name_of_a_node(shared):
    wait_served(shared.nodes)
    node, via = shared.nodes[:2]
    before = own_row(node, via)
    check_error(acquire(via, before["name"]), 409, "conflict")
    check_error(acquire(via, before["name"], worker_id=before["worker_id"]), 409, "conflict")
    assert own_row(node, via)["epoch"] == before["epoch"]


# Shows P1-pause.
def test_frozen_node_is_fenced_off(make_cluster, name):
    """A node sleeps longer than its window, and somebody else is given its worker id: when it wakes
    up it stamps nothing more with it, not even what it had begun."""
    cluster = make_cluster(settings=SHORT)
    wait_served(cluster.nodes)
    node = cluster.followers()[0]
    via = cluster.others(node)[0]
    history = History()
    track = history.track("c", node.id, SPACE)
    take(node, track, 1000, "range")
    lost = own_row(node, via)["worker_id"]
    node.pause()
    with node.connect() as connection:
        connection.send(get_bytes(target(100_000, "range")))
        grant = wait_until(
            lambda: (a := acquire(via, name, worker_id=lost)).status == 201 and a.json(),
            15,
            "the worker id is free",
        )
        node.resume()
        answer = connection.read_response()
        if answer.status == 200:
            for first, last in parse(answer, "range", 100_000):
                track.add(first, last)
        else:
            check_error(answer, 503, "window_expired")
    wait_served([node], 10, track_of=lambda _: track)
    for _ in range(50):
        take(node, track, 1000, "range")
    with_it = [decode(first).ms for first in track.firsts if decode(first).worker == lost]
    assert with_it and max(with_it) <= grant["from_ms"]
    assert decode(track.lasts[-1]).worker != lost
    assert own_row(node, via)["worker_id"] != lost
    assert renew(via, grant).status == 200
    history.check()


def test_client_changes_no_row_of_a_node(shared):
    """Released, renewed or asked for, with the right epoch and bound: 409 that says whose it is."""
    wait_served(shared.nodes)
    node, via = shared.nodes[:2]
    row = own_row(node, via)
    for asked in (shared.nodes[0], via):
        for answer in (
            release(asked, row),
            release(asked, row, last_timestamp_ms=row["from_ms"] + 1),
            renew(asked, row),
            renew(asked, row, expected_until_ms=own_row(node, via)["until_ms"]),
            acquire(asked, "thief", worker_id=row["worker_id"]),
        ):
            check_error(answer, 409, "conflict")
            assert row["name"] in answer.json()["message"], answer
    after = own_row(node, via)
    for field in ("worker_id", "state", "kind", "epoch", "from_ms"):
        assert after[field] == row[field], (row, after)


# Shows P1-worker.
def test_worker_id_of_a_node_that_is_cut_off(make_cluster, proxies, name):
    """A client that wants the worker id of a node that nobody reaches gets it when that node's
    window is over and not before, whatever it sends, and then above all that the node stamps."""
    cluster = make_cluster(settings=SHORT, proxies=proxies)
    wait_served(cluster.nodes)
    node = cluster.followers()[0]
    via = cluster.others(node)
    history = History()
    track = history.track("c", node.id, SPACE)
    take(node, track, 1000, "range")
    row = own_row(node, via[0])
    proxies.isolate(node)
    answers = []

    def attack():
        """Everything that could take the worker id from the node, while it stamps all it can."""
        for other in via:
            for used in ({"last_timestamp_ms": row["from_ms"] + 1}, {}):
                answers.append(release(other, row, **used))
                answers.append(renew(other, row, **used))
        stamp()
        answer = acquire(via[0], name, worker_id=row["worker_id"])
        if answer.status != 201:
            answers.append(answer)
            return None
        return answer.json()

    def stamp():
        answer = node.get(target(1000, "range", timeout_ms=0))
        if answer.status == 200:
            for first, last in parse(answer, "range", 1000):
                track.add(first, last)

    grant = wait_until(attack, 15, "the worker id is free")
    wait_until(lambda: stamp() or refusal(node) == "window_expired", 10, "its window is over")
    stamped = [decode(last) for last in track.lasts]
    assert {parts.worker for parts in stamped} == {row["worker_id"]}
    assert max(parts.ms for parts in stamped) <= grant["from_ms"], (stamped[-1], grant)
    assert len(answers) > 9
    for answer in answers:
        check_error(answer, 409, "conflict")
        assert row["name"] in answer.json()["message"], answer
    # Back among the others it learns that it was fenced off, and takes another one.
    proxies.heal()
    wait_served([node], 10, track_of=lambda _: track)
    assert decode(track.lasts[-1]).worker != row["worker_id"]
    assert renew(via[0], grant).status == 200
    history.check()


# --- all of them ---


@pytest.mark.bound(90)
# Shows P8-workers, lesson-workers-out.
def test_all_worker_ids_are_held(make_cluster, name):
    """1,100 clients for 1,024 worker ids, three of which are the nodes' own."""
    cluster = make_cluster(settings={**FAST, "quota": "workers=100%"})
    wait_served(cluster.nodes)
    cluster.leader()

    def one(number):
        return acquire(cluster.nodes[number % 3], f"{name}/{number}", DAY_MS)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, range(1100)))
    granted = [answer.json() for answer in answers if answer.status == 201]
    refused = [answer for answer in answers if answer.status != 201]
    assert len(granted) == ALL - 3, f"{len(granted)} granted"
    for answer in refused:
        check_error(answer, 409, "no_worker_id")
        assert answer.json()["message"]
    own = {r["worker_id"] for r in rows(cluster.nodes[0]).values() if r["name"].startswith("node-")}
    ids = {grant["worker_id"] for grant in granted}
    assert len(ids) == len(granted) and ids | own == set(range(ALL)) and len(own) == 3

    # The nodes' own ids go on.
    wait_served(cluster.nodes)

    # One is released: it is handed on, above its window, and then there is none again.
    node, other = cluster.nodes[:2]
    assert release(node, granted[0], last_timestamp_ms=now_ms()).status == 204
    taken = acquired(other, name + "/next", 2000)
    assert taken["worker_id"] == granted[0]["worker_id"]
    assert taken["epoch"] == granted[0]["epoch"] + 1
    assert taken["from_ms"] >= granted[0]["until_ms"]
    check_error(acquire(node, name + "/more"), 409, "no_worker_id")
    check_error(renew(other, granted[0]), 409, "fenced")


def test_worker_ids_of_a_wider_layout(shared, tag):
    """Those that the cluster's own layout has no room for come first: nodes cannot have them."""
    node = shared.leader()
    wait_served(shared.nodes)
    name = tag.replace("_", "-").lower()[:32]
    assert node.http("PUT", f"/api/layouts/{name}", {"preset": "sonyflake"}).status == 200
    wait_until(lambda: node.http("GET", f"/api/layouts/{name}").status == 200, 30, "it is known")
    got = node.http("POST", "/api/workers", {"name": tag, "layout": name, "window_ms": 1000})
    assert got.status == 201 and 1024 <= got.json()["worker_id"] < 65536, got
    assert got.json()["layout"]["worker_bits"] == 16 and got.json()["layout"]["name"] == name
    own = node.http("POST", "/api/workers", {"name": tag, "window_ms": 1000}).json()
    assert own["worker_id"] < 1024
    path = f"/api/workers/{got.json()['worker_id']}"
    renewed = node.http("PUT", path, {"epoch": 1, "layout": name, "window_ms": 1000})
    assert renewed.status == 200 and renewed.json()["layout"] == got.json()["layout"], renewed
    renewed = node.http("PUT", path, {"epoch": 1, "window_ms": 1000})
    assert renewed.status == 200 and renewed.json()["layout"] is None, "no other layout's"
    assert node.http("PUT", path, {"epoch": 1, "layout": "none"}).status == 404
    last = node.http("POST", "/api/workers", {"name": tag, "layout": name, "worker_id": 65535,
                                              "window_ms": 1000})
    assert last.status == 201, last
    for bad in ({"worker_id": 65536, "layout": name}, {"worker_id": 1024}, {"zone": ""}):
        assert node.http("POST", "/api/workers", {"name": tag, **bad}).code == "bad_request"
    assert node.http("POST", "/api/workers", {"name": tag, "layout": "none"}).status == 404
    row = node.get_json("/api/workers?after=65534")
    assert row["workers"][0]["worker_id"] == 65535
    for held in (got.json(), own, last.json()):
        path = f"/api/workers/{held['worker_id']}"
        assert node.http("PUT", path, {"epoch": held["epoch"], "window_ms": 1000}).status == 200
        assert node.http("DELETE", f"{path}?epoch={held['epoch']}").status == 204


BAIDU = {"preset": "baidu", "epoch_ms": 1_700_000_000_000}  # 28 bits of seconds, 22, 13


def with_baidu(cluster):
    assert cluster.leader().http("PUT", "/api/layouts/baidu-22", BAIDU).status == 200
    wait_until(lambda: all(n.http("GET", "/api/layouts/baidu-22").status == 200
                           for n in cluster.nodes), 30, "all know the layout")
    return "baidu-22"


def test_worker_ids_of_22_bits(shared, tag):
    """Above 65,535: a given one, the last one, and a zone's pool; and their ids decode rightly."""
    one, two, three = shared.nodes
    baidu = with_baidu(shared)
    given = {"name": tag, "layout": baidu, "window_ms": 60000}
    pool = "wide=70000-70001"
    assert one.http("PUT", "/api/workers/pools", {"pools": pool}).json() == {"pools": pool}
    try:
        for number, zone in ((65_536, None), (4_194_303, None), (70_000, "wide"), (None, "wide")):
            body = given | ({"worker_id": number} if number else {}) | \
                ({"zone": zone} if zone else {})
            got = one.http("POST", "/api/workers", body)
            assert got.status == 201, got
            grant = got.json()
            assert grant["worker_id"] == (number or 70_001), grant
            other = two.http("POST", "/api/workers",
                             body | {"name": tag + "x", "worker_id": grant["worker_id"]})
            assert (other.status, other.code) == (409, "conflict") and tag in other.text, other
            path = f"/api/workers/{grant['worker_id']}"
            assert two.http("PUT", path, {"epoch": grant["epoch"]}).status == 200
            seconds = grant["from_ms"] // 1000 + 1 if grant["from_ms"] else now_ms() // 1000
            id_ = (seconds - BAIDU["epoch_ms"] // 1000) << 35 | grant["worker_id"] << 13 | 8191
            found = three.get_json(f"/api/snowflake/decode/{id_}?layout={baidu}")
            assert (found["worker_id"], found["sequence"]) == (grant["worker_id"], 8191), found
            assert found["timestamp_ms"] == seconds * 1000
            row = three.get_json(f"/api/workers?after={grant['worker_id'] - 1}&limit=1")
            assert [each["name"] for each in row["workers"]] == [tag]
            assert three.http("DELETE", f"{path}?epoch={grant['epoch']}").status == 204
        beyond = one.http("POST", "/api/workers", given | {"worker_id": 4_194_304})
        assert beyond.code == "bad_request" and "from 0 to 4194303" in beyond.text, beyond
    finally:
        assert one.http("PUT", "/api/workers/pools", {"pools": ""}).status == 200


def test_two_thousand_names_come_and_go(make_cluster, tag):
    """Over HTTP, at all nodes at once: each gets an id of its own, and gives it back."""
    cluster = make_cluster()
    wait_level(cluster, 3)
    wait_served(cluster.nodes)
    baidu = with_baidu(cluster)
    count = 2000

    def come(number):
        node = cluster.nodes[number % 3]
        began = time.monotonic()
        got = node.http("POST", "/api/workers", {"name": f"{tag}/{number}", "layout": baidu,
                                                 "window_ms": 300_000})
        assert got.status == 201, got
        return got.json(), time.monotonic() - began

    def go(grant):
        node = cluster.nodes[grant["worker_id"] % 3]
        path = f"/api/workers/{grant['worker_id']}?epoch={grant['epoch']}"
        assert node.http("DELETE", path).status == 204

    with ThreadPoolExecutor(8) as pool:
        came = list(pool.map(come, range(count)))
        ids = {grant["worker_id"] for grant, _ in came}
        assert ids == set(range(ALL, ALL + count))
        list(pool.map(go, (grant for grant, _ in came)))
    took = sorted(took for _, took in came)
    print(f"an acquire took {took[count // 2] * 1000:.1f} ms, of 99 of 100 "
          f"{took[count * 99 // 100] * 1000:.1f} ms")
    listed = cluster.nodes[0].get_json(f"/api/workers?limit=1024&after={ALL - 1}")["workers"]
    assert len(listed) == 1024 and all(row["state"] == "released" for row in listed)


def test_pools_of_zones(shared, tag):
    node = shared.leader()
    wait_served(shared.nodes)
    try:
        put = node.http("PUT", "/api/workers/pools", {"pools": "a=710-711,b=712-712"})
        assert put.status == 200 and put.json() == {"pools": "a=710-711,b=712-712"}, put
        ids = []
        for zone in ("a", "b", "a", "c"):
            ids.append(acquired(node, tag, zone=zone)["worker_id"])
        assert {ids[0], ids[2]} == {710, 711} and ids[1] == 712 and ids[3] not in ids[:3], ids
        full = node.http("POST", "/api/workers", {"name": tag, "zone": "b"})
        assert (full.status, full.code) == (409, "no_worker_id"), full
        other = node.http("POST", "/api/workers", {"name": tag, "zone": "c", "worker_id": 5000})
        assert other.code == "bad_request", other
        taken = node.http("POST", "/api/workers", {"name": tag + "x", "zone": "a",
                                                   "worker_id": 710})
        assert (taken.status, taken.code) == (409, "conflict") and tag in taken.text, taken
        both = node.http("PUT", "/api/workers/pools", {"pools": "a=0-31,b=31-40"})
        assert (both.status, both.code) == (409, "conflict"), both
        assert "a=0-31 and b=31-40 overlap" in both.text
        assert node.http("PUT", "/api/workers/pools", {"pools": "a=1"}).code == "bad_request"
        for each in shared.nodes:
            assert each.get_json("/api/workers/pools")["pools"] == "a=710-711,b=712-712"
    finally:
        assert node.http("PUT", "/api/workers/pools", {"pools": ""}).status == 200
