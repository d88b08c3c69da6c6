"""After a restart a node fetches the segments of the tags it served lately, busiest first and at a
bounded rate, so that their first requests find ids in its memory; and nothing else is fetched."""

import time

import pytest

from client import get_bytes, parse_ids
from clockfile import own_clocks
from cluster import FAST, STEADY
from wait import ran_s, wait_until

HOUR_S = 3_600


def take(node, tag, count=1, timeout_ms=None):
    options = f"&timeout_ms={timeout_ms}" if timeout_ms is not None else ""
    answer = node.get(f"/api/segment/get/{tag}?count={count}&format=range{options}")
    assert answer.status == 200, f"{node} {tag}: {answer}"
    return parse_ids(answer, "range", count)


def entries(node, prefix=""):
    """The node's buffers, all pages."""
    found = []
    after = ""
    while after is not None:
        page = node.get_json(f"/api/node/segments?prefix={prefix}&after={after}&limit=1000")
        found += page["segments"]
        after = page["next"]
    return found


def held(node, prefix=""):
    """{tag: ids in memory}, for those that have some."""
    counts = {
        entry["tag"]: sum(
            int(slot["end"]) - int(slot["next_id"]) for slot in entry["slots"] if slot["size"]
        )
        for entry in entries(node, prefix)
    }
    return {tag: count for tag, count in counts.items() if count > 0}


def max_ids(node, tags):
    return {tag: int(node.get_json(f"/api/tags/{tag}")["max_id"]) for tag in tags}


def make_tags(cluster, tags, **fields):
    answer = cluster.nodes[0].http("POST", "/api/tags", [{"tag": tag, **fields} for tag in tags])
    assert answer.status == 200, answer


def restart(node, how):
    """The list is written by a clean stop; a kill finds it as the stop before left it."""
    if how == "stop":
        node.stop()
    else:
        node.stop()
        node.start().wait_ready()
        node.kill9()
    node.start().wait_ready()


def wait_held(node, tags, timeout=15):
    wait_until(lambda: set(tags) <= set(held(node)), timeout, f"{node} holds ids of the tags")


# --- the first request ---


@pytest.mark.parametrize("who,how", [("leader", "kill"), ("follower", "stop")])
def test_first_requests_find_ids(make_cluster, who, how):
    """Measured by those who wait for nothing; and then with nobody there to grant any."""
    cluster = make_cluster(settings=STEADY)
    tags = [f"t{number}" for number in range(20)]
    make_tags(cluster, ["unasked", *tags], step=100)
    node = cluster.leader() if who == "leader" else cluster.followers()[0]
    last = {tag: take(node, tag, 5)[-1][1] for tag in tags}
    restart(node, how)
    wait_held(node, tags)
    with node.connect() as connection:
        for tag in tags[:10]:
            answer = connection.request("GET", f"/api/segment/get/{tag}?timeout_ms=0")
            assert answer.status == 200 and int(answer.body) > last[tag], answer
        # One that nobody asked this node for before shows that this measures something.
        answer = connection.request("GET", "/api/segment/get/unasked?timeout_ms=0")
        assert (answer.status, answer.code) == (503, "timeout"), answer
    for other in cluster.others(node):
        other.kill9()
    wait_until(node.sees_no_leader, 10, "no leader is known")
    for tag in tags[10:]:
        assert take(node, tag, timeout_ms=0)[0][0] > last[tag]


# --- what is fetched, and in which order ---


@pytest.mark.quiet
@pytest.mark.bound(60)
def test_busiest_first_at_a_bounded_rate(make_cluster):
    count = 300
    cluster = make_cluster(settings=FAST)
    tags = [f"t{number:03}" for number in range(count)]
    make_tags(cluster, tags, step=50)
    node = cluster.followers()[0]
    uses = {tag: 10 + 7 * number % count * 10 for number, tag in enumerate(tags)}
    assert len(set(uses.values())) == count
    for tag in tags:
        take(node, tag, uses[tag])
    node.stop()
    began = time.monotonic()
    node.start().wait_ready()
    wait_held(node, tags)
    now = time.monotonic()
    at_s = {e["tag"]: now - began - e["last_refill_ago_ms"] / 1000 for e in entries(node)}
    order = sorted(tags, key=lambda tag: -uses[tag])
    # Where the node was held up, several may have come at once.
    assert [at_s[tag] for tag in order] == sorted(at_s.values())
    for number, tag in enumerate(order):  # 1000 in a second, since the first was asked for
        assert at_s[tag] - at_s[order[0]] >= number / 1000 - 0.1, f"{tag} came too soon"
    assert at_s[order[-1]] < 10, "slower than was asked for"


def test_nothing_is_fetched_that_nobody_asked_this_node_for(make_cluster):
    """Not what others were asked for, nor what nobody was; and of each tag one segment."""
    cluster = make_cluster()
    mine, theirs, unused = (
        [f"{kind}{number}" for number in range(5)] for kind in ("mine", "theirs", "unused")
    )
    make_tags(cluster, mine + theirs + unused, step=100)
    node, other = cluster.followers()
    for tag in mine:
        take(node, tag, 3)
    for tag in theirs:
        take(other, tag, 3)
    # A node that was asked only about the tags, not for ids of them.
    for tag in unused + theirs:
        assert node.get(f"/api/tags/{tag}").status == 200
    node.stop()
    before = max_ids(other, mine + theirs + unused)
    assert all(before[tag] == 4 for tag in mine), "given back at the stop"
    node.start().wait_ready()
    wait_held(node, mine)
    assert set(held(node)) == set(mine)
    after = max_ids(other, mine + theirs + unused)
    assert after == {**before, **{tag: 104 for tag in mine}}
    assert held(node) == {tag: 100 for tag in mine}


def test_neither_deleted_nor_strict_tags_are_fetched(make_cluster):
    cluster = make_cluster()
    tags = ["deleted", "strict", "again", "last"]
    make_tags(cluster, tags, step=100)
    node, other = cluster.followers()
    for number, tag in enumerate(tags):
        take(node, tag, 40 - 10 * number)  # so that "last" is the last one to be fetched
    node.stop()
    assert other.http("DELETE", "/api/tags/deleted").status == 204
    assert other.http("DELETE", "/api/tags/again").status == 204
    assert other.http("PUT", "/api/tags/strict", {"mode": "strict"}).status == 200
    cluster.create_tag("again", node=other, step=100)
    before = max_ids(other, tags[1:])
    node.start().wait_ready()
    wait_held(node, ["last"])
    assert set(held(node)) <= {"last", "again"}
    assert other.get("/api/tags/deleted").status == 404
    assert max_ids(other, ["strict"])["strict"] == before["strict"]
    assert node.get("/api/segment/get/deleted?timeout_ms=0").status == 404
    assert take(node, "strict") == [(before["strict"],) * 2]
    # Nothing was granted of the deleted tag: made again, it goes on where it stood.
    cluster.create_tag("deleted", node=other)
    assert take(other, "deleted")[0][0] == 41


@pytest.mark.slow
@pytest.mark.bound(60)
def test_what_was_not_used_for_a_day_is_forgotten(make_cluster):
    """By the log's time, which goes on while the node is down."""
    cluster = make_cluster(start=False)
    clocks = own_clocks(cluster)
    for node in cluster.nodes:
        node.expect_log(r"level=error.*clock")
    cluster.start()
    make_tags(cluster, ["old", "fresh"], step=100)
    node, other = cluster.followers()

    def log_time_ms():
        return cluster.leader().get_json("/api/workers")["log_time_ms"]

    def all_clocks(hours):
        due = log_time_ms() + (hours - all_clocks.at) * HOUR_S * 1000 - 5000
        all_clocks.at = hours
        for clock in clocks.values():
            clock.set(hours * HOUR_S)
        wait_until(lambda: log_time_ms() >= due, 20, "the log's time goes on")

    all_clocks.at = 0
    wait_until(lambda: log_time_ms() > 0, 10, "the log has a time")
    take(node, "old", 50)
    node.stop()
    all_clocks(13)
    before = max_ids(other, ["old"])
    node.start().wait_ready()
    wait_held(node, ["old"])  # half a day: it is fetched, which is no use of it
    take(node, "fresh", 2)
    node.stop()
    assert max_ids(other, ["old"]) == before
    all_clocks(26)
    node.start().wait_ready()
    wait_held(node, ["fresh"])
    assert set(held(node)) == {"fresh"}
    assert max_ids(other, ["old"]) == before


# --- many ---


def use_all(node, tags, clients=50):
    """One id of each, by many clients, since each request waits for a grant."""
    connections = [node.connect() for _ in range(clients)]
    for number, connection in enumerate(connections):
        mine = tags[number::clients]
        connection.send(b"".join(get_bytes(f"/api/segment/get/{tag}") for tag in mine))
    for number, connection in enumerate(connections):
        for _ in tags[number::clients]:
            answer = connection.read_response()
            assert answer.status == 200 and answer.body == b"1", answer
        connection.close()


@pytest.mark.quiet
@pytest.mark.bound(90)
def test_ten_thousand_tags(make_cluster):
    """At the given rate, in a bounded time, and nobody is kept waiting meanwhile."""
    rate = 1000
    count = 10_000
    cluster = make_cluster(settings=FAST)
    tags = [f"service-{number:05}" for number in range(count)]
    make_tags(cluster, tags, step=10)
    cluster.create_tag("other")
    node, other = cluster.followers()
    use_all(node, tags)
    ran = ran_s()
    node.stop()
    assert ran_s() - ran < 5, "the stop"
    sample = tags[::500]
    assert set(max_ids(other, sample).values()) == {2}, "not given back"

    began, ran = time.monotonic(), ran_s()
    node.start().wait_ready()
    assert ran_s() - ran < 5, "the start waits for the fetching"
    slowest = 0.0
    while len(held(node)) < count:
        before = ran_s()
        take(node, "other")
        slowest = max(slowest, ran_s() - before)
        assert before < ran + 30
    assert time.monotonic() - began >= count / rate, "faster than it may be"
    assert slowest < 1.0, "requests wait for the fetching"
    assert set(max_ids(other, sample).values()) == {12}, "one segment each"
    with node.connect() as connection:
        for tag in sample:
            answer = connection.request("GET", f"/api/segment/get/{tag}?timeout_ms=0")
            assert answer.status == 200 and answer.body == b"2", answer


# --- the list of a node that was killed ---


@pytest.mark.slow
@pytest.mark.bound(120)
def test_the_list_is_written_while_the_node_runs(make_cluster):
    """A kill finds a list that is half a minute old at most."""
    cluster = make_cluster()
    tags = [f"t{number}" for number in range(10)]
    make_tags(cluster, tags, step=100)
    node = cluster.followers()[0]
    for tag in tags:
        take(node, tag, 5)
    used = time.monotonic()
    wait_until(lambda: time.monotonic() > used + 31, 40, "31 seconds")
    node.kill9()
    node.start().wait_ready()
    wait_held(node, tags)
    for tag in tags:
        assert take(node, tag, timeout_ms=0)[0][0] > 5
