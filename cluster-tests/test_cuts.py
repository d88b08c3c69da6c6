"""Links cut between some of the nodes: whoever can be reached through others is reached."""

import threading
import time

import pytest

from wait import ran_s, wait_until

DEAF_BOUND_S = 2.0
# A machine that stands still may cost a vote that splits, and an election timeout each time.
REELECTED_S = 10
ELECTION_MS = 3000  # a leader that stands still for so long is replaced
# A cut is noticed by two heartbeats without an answer, and a way found a heartbeat later.
FOUND_S = 1.5
KNOWN_S = 0.3
STOOD_S = 0.1
CUT_S = 6.5  # more than two election timeouts

# Which frames are lost, seen from the follower.
CUTS = {
    "its frames are lost": ((1, 0),),
    "the leader's frames are lost": ((0, 1),),
    "both are lost": ((1, 0), (0, 1)),
}


@pytest.mark.quiet
# Shows P4-through.
def test_a_follower_cut_off_from_the_leader_alone_serves(make_cluster, proxies, tag):
    """Strict ids, changes and linearizable reads on a follower whose link to the leader is cut, and
    which reaches the third node: all are answered, at once after the first, for as long as the cut
    lasts; nobody is disturbed; and healed, the detour ends."""
    cluster = make_cluster(settings={"raft-election-ms": ELECTION_MS}, proxies=proxies)
    cluster.create_tag(tag, mode="strict")
    leader = cluster.leader()
    far, between = cluster.others(leader)
    term = leader.cluster_status()["term"]
    bounds = Bounds(FOUND_S)
    highest = strict_id(bounds, far, tag, KNOWN_S * 3)
    for number, lost in enumerate(CUTS):
        print(lost)
        for source, target in CUTS[lost]:
            proxies.cut((leader, far)[source], (leader, far)[target])
        highest = strict_id(bounds, far, tag, FOUND_S, highest)
        highest = serve_while_cut(bounds, leader, far, f"{tag}.{number}", tag, highest)
        assert metric(far, "leafd_leader_known") == 1
        assert metric(far, "leafd_leader_through") == between.id
        assert far.get("/readyz").status == 200
        assert [node.cluster_status()["term"] for node in cluster.nodes] == [term] * 3
        proxies.heal()
        wait_until(lambda: metric(far, "leafd_leader_through") == 0, 10, "the direct way again")
        cluster.wait_applied()
        highest = strict_id(bounds, far, tag, KNOWN_S, highest)
    assert leader.cluster_status()["term"] == term


def serve_while_cut(bounds, leader, far, prefix, tag, highest):
    end = time.monotonic() + CUT_S
    turns = 0
    while time.monotonic() < end:
        change_and_read(bounds, far, leader, f"{prefix}.{turns}")
        for node in (far, leader):
            highest = strict_id(bounds, node, tag, KNOWN_S, highest)
        turns += 1
    return highest


class Bounds:
    """What is kept to in ran_s(), but for a while after the machine stood still: it may cost a node
    the way, or the leader, that it had found, and it takes up to again_s to find one again."""

    def __init__(self, again_s):
        self.again_s = again_s
        self.stood_s = time.monotonic() - ran_s()
        self.until_s = 0.0

    def check(self, begin, end, within_s, what):
        stood_s = time.monotonic() - ran_s()
        if stood_s > self.stood_s + STOOD_S:
            self.stood_s = stood_s
            self.until_s = ran_s() + self.again_s
        if begin < self.until_s:
            within_s = max(within_s, self.again_s)
        assert end - begin <= within_s, f"{what}: after {end - begin:.3f} s"


def strict_id(bounds, node, tag, within_s, above=0):
    begin = ran_s()
    answer = node.get(f"/api/segment/get/{tag}")
    bounds.check(begin, ran_s(), within_s, f"{node}: a strict id")
    assert answer.status == 200, f"{node}: {answer}"
    assert int(answer.body) > above
    return int(answer.body)


def change_and_read(bounds, far, leader, name):
    """A change there is read here, and one here is read there, each at once."""
    begin = ran_s()
    put = far.http("PUT", f"/api/tags/{name}", {"step": 7})
    assert put.status == 201, f"{far}: {put}"
    assert leader.get_json(f"/api/tags/{name}")["step"] == 7
    assert leader.http("PUT", f"/api/tags/{name}", {"step": 9}).status == 200
    read = far.get(f"/api/tags/{name}")
    assert (read.status, read.json()["step"]) == (200, 9)
    bounds.check(begin, ran_s(), 4 * KNOWN_S, f"{far}: a change and a read")


def metric(node, name):
    line = next(line for line in node.get("/metrics").text.splitlines() if line.startswith(name))
    return float(line.split()[1])


@pytest.mark.quiet
@pytest.mark.bound(120)
# Shows P4-soon.
def test_a_leader_that_hears_nobody_is_replaced_within_two_seconds(make_cluster, proxies, tag):
    """Default settings. What it sends arrives, so the others hear its heartbeats: they learn that
    it leads no more from itself. What their clients asked for meanwhile is answered."""
    cluster = make_cluster(settings={}, proxies=proxies)
    cluster.create_tag(tag, mode="strict")
    bounds = Bounds(REELECTED_S)
    for turn in range(5):
        lose_hearing(bounds, cluster, proxies, f"{tag}.{turn}", tag)


def lose_hearing(bounds, cluster, proxies, new, tag):
    old = cluster.leader()
    others = cluster.others(old)
    asked = [
        Asked(others[0], "PUT", f"/api/tags/{new}?timeout_ms=10000", {}),
        Asked(others[1], "GET", f"/api/segment/get/{tag}?timeout_ms=10000"),
    ]
    begin = ran_s()
    for other in others:
        proxies.cut(other, old)
    for request in asked:
        request.start()
    wait_until(lambda: follow_one(others), 10, "a new leader")
    bounds.check(begin, ran_s(), DEAF_BOUND_S, f"{new}: a new leader")
    for request in asked:
        request.join()
        assert request.answer.status in (200, 201), request.answer
        bounds.check(begin, request.ended, DEAF_BOUND_S, f"{new}: {request.args}")
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
        self.ended = None

    def run(self):
        self.answer = self.node.http(*self.args)
        self.ended = ran_s()
