"""What other id services learnt by incident, where only whole nodes can show it.

The list of all of these lessons, each with its tests, is in docs/promises.md; scripts/promises
sees to it that the tests named there exist.
"""

import pytest

from checker import History
from client import get_bytes, request_bytes
from load import Load, mixed_load, wait_all_serve, wait_taken
from snowflakes import SnowLoad, wait_served
from wait import wait_until


def check_no_redirect(answer):
    assert not 300 <= answer.status < 400, answer
    assert "location" not in answer.headers, answer
    assert answer.headers["cache-control"] == "no-store", answer


# Shows lesson-redirect.
def test_no_reply_is_a_redirect_or_may_be_cached(shared, tag):
    """A ticket server's permanent redirect was remembered by a proxy, and went on to a dead node.
    leafd forwards by itself: on every node, every route answers for itself, and nothing may be
    kept."""
    shared.create_tag(tag, mode="strict")
    ids = "/api/segment/get/"
    requests = [
        ("GET", f"{ids}{tag}", None),
        ("GET", f"{ids}{tag}/", None),
        ("POST", f"{ids}{tag}", None),
        ("GET", f"{ids}{tag}?count=0", None),
        ("GET", f"{ids}nobody-made-this?timeout_ms=0", None),
        ("GET", f"/{ids}{tag}", None),
        ("GET", "/api/segment/get", None),
        ("GET", "/api/snowflake/get/x", None),
        ("PUT", f"/api/tags/{tag}.b", b"{}"),
        ("GET", f"/api/tags/{tag}.b", None),
        ("GET", "/api/tags/", None),
        ("GET", "/api/tags?limit=1", None),
        ("DELETE", f"/api/tags/{tag}.b", None),
        ("POST", "/api/workers", b'{"name":"no-redirect","address":"a"}'),
        ("GET", "/api/workers", None),
        ("GET", "/api/cluster", None),
        ("GET", "/api/cluster/", None),
        ("GET", "/", None),
        ("GET", "/cache", None),
        ("GET", "/db", None),
        ("GET", "/readyz", None),
        ("GET", "/metrics", None),
        ("BREW", "/", None),
    ]
    for node in shared.nodes:
        for method, target, body in requests:
            check_no_redirect(node.http(method, target, body))
        with node.connect() as connection:
            connection.send(b"GET http://elsewhere/api/segment/get/a b HTTP/1.1\r\n\r\n")
            check_no_redirect(connection.read_response())


# Shows lesson-redirect.
def test_no_redirect_without_a_leader(make_cluster, tag):
    """Also a node that cannot serve says so itself, and points to nobody."""
    cluster = make_cluster()
    cluster.create_tag(tag, mode="strict")
    node, *others = cluster.nodes
    for other in others:
        other.kill9()
    wait_until(node.sees_no_leader, 10, "no leader is known")
    with node.connect() as connection:
        for data in (
            get_bytes(f"/api/segment/get/{tag}?timeout_ms=100"),
            get_bytes(f"/api/tags/{tag}"),
            get_bytes("/readyz"),
            request_bytes("PUT", "/api/tags/more", b"{}"),
            request_bytes("POST", "/api/cluster/leader?timeout_ms=100", b'{"id":2}'),
        ):
            connection.send(data)
            answer = connection.read_response()
            assert answer.status == 503, answer
            check_no_redirect(answer)


# Shows lesson-step-1.
def test_ten_times_the_load_of_a_tag_with_step_1(make_cluster, tag):
    """Leaf's double buffer of a small step ran dry in a burst, and requests failed. Here they wait
    for the refill that is under way, and segments grow at once with the rate."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=1)
    history = History()
    calm = Load(history, tag)
    burst = Load(history, tag)
    for node in cluster.nodes:
        calm.add(node, rate=100.0, timeout_ms=1000)
        for _ in range(3):
            burst.add(node, rate=300.0, timeout_ms=1000)
    with calm:
        wait_taken(calm, 600)
        with burst:
            wait_taken(burst, 10_000)
            burst.finish()
        wait_taken(calm, 300)
        calm.finish()


def lead(via, node):
    """Have a node lead."""

    def done():
        answer = via.http("POST", "/api/cluster/leader", {"id": node.id})
        assert answer.status in (200, 202, 409, 503), answer
        return node.cluster_status()["state"] == "leader"

    wait_until(done, 15, f"{node} leads")


@pytest.mark.bound(90)
# Shows P1-lead, lesson-aba.
def test_leadership_goes_back_and_forth_within_one_window(make_cluster, tag):
    """A leads, B leads, A leads again, while nodes hold segments and windows of worker ids that
    outlast it all: whatever A remembers of its first time must not count. Leadership is handed
    over, and also taken from a leader that stands still and wakes up as if nothing had happened."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=100)
    wait_served(cluster.nodes)
    history = History()
    snow = SnowLoad(history)
    for node in cluster.nodes:
        snow.add(node, 10, "range", rate=500.0, timeout_ms=5000)
    with mixed_load(cluster, history, tag, rate=2000.0) as load, snow:
        first, second = cluster.leader(), cluster.followers()[0]
        for _ in range(3):
            for node in (second, first):
                wait_taken(load, 2_000)
                lead(node, node)
                wait_taken(snow, 500)
        for _ in range(2):
            first.pause()
            try:
                others = cluster.others(first)
                cluster.wait_leader(among=others)
                wait_taken(load, 2_000)
            finally:
                first.resume()
            wait_until(
                lambda: first.cluster_status()["leader_id"] in {n.id for n in others}, 10, "follows"
            )
            lead(others[0], first)
            wait_all_serve(load)
        snow.finish()
        load.finish()
