"""Links cut between some of the nodes: whoever can be reached through others is reached."""

import threading
import time

import pytest

from wait import wait_until

DEAF_BOUND_S = 2.0


@pytest.mark.bound(120)
def test_a_leader_that_hears_nobody_is_replaced_within_two_seconds(make_cluster, proxies, tag):
    """Default settings. What it sends arrives, so the others hear its heartbeats: they learn that
    it leads no more from itself. What their clients asked for meanwhile is answered."""
    cluster = make_cluster(start=False, settings={})
    proxies.attach(cluster)
    cluster.start()
    cluster.create_tag(tag, mode="strict")
    for turn in range(5):
        old = cluster.leader()
        others = cluster.others(old)
        asked = [Asked(others[0], "PUT", f"/api/tags/{tag}.{turn}", {})]
        asked.append(Asked(others[1], "GET", f"/api/segment/get/{tag}"))
        begin = time.monotonic()
        for other in others:
            proxies.cut(other, old)
        for request in asked:
            request.start()
        wait_until(lambda: follow_one(others), 10, "a new leader")
        took = time.monotonic() - begin
        assert took <= DEAF_BOUND_S, f"round {turn}: a new leader after {took:.2f} s"
        for request in asked:
            request.join()
            assert request.answer.status in (200, 201), request.answer
            assert request.took_s <= DEAF_BOUND_S
        assert old.cluster_status()["state"] != "leader"
        proxies.heal()
        wait_until(lambda: follow_one(cluster.nodes), 10, "all follow one leader")


def follow_one(nodes):
    """Do these nodes know the same leader, one of them?"""
    known = {node.cluster_status()["leader_id"] for node in nodes}
    return len(known) == 1 and known.pop() in {node.id for node in nodes}


class Asked(threading.Thread):
    """A request under way."""

    def __init__(self, node, method, target, body=None):
        super().__init__(daemon=True)
        self.args = (method, target, body)
        self.node = node
        self.answer = None
        self.took_s = None

    def run(self):
        begin = time.monotonic()
        self.answer = self.node.http(*self.args)
        self.took_s = time.monotonic() - begin
