"""What stops ids on purpose, on real nodes, while each library takes them: a node is drained, a tag
is paused, a client is cut. Nothing is lost, no id comes twice, and none comes after the time that
is promised. (Plain HTTP and RESP have the same in cluster-tests: test_zones, test_pause,
test_client_cuts.)"""

import itertools
import time

import pytest

from cluster import FAST, Cluster
from driver import SLACK_S, check_once, parse_mix, urls
from test_listeners import Tokens
from upgrade import wait_level
from wait import wait_until, within

serial = itertools.count(1)
HELD_S = 2.0  # max_age_ms of these tests; by the contract an id may be a second older


class Ruled:
    """Three zones, and tokens by which one client can be cut."""

    def __init__(self, directory):
        self.tokens = Tokens(directory / "tokens")
        self.tokens.add("root", "roles=all")
        self.tokens.add("shop", "roles=ids,read,workers")
        self.tokens.write()
        self.cluster = Cluster(directory, 3, {
            **FAST, "auth-tokens-file": self.tokens.path, "auth-anonymous": "health,read"})
        for node, zone in zip(self.cluster.nodes, "abc"):
            node.settings["zone"] = zone

    def ask(self, method, target, body=None, node=0):
        answer = self.cluster.nodes[node].http(method, target, body, self.tokens.bearer("root"))
        assert answer.status in (200, 201, 204), answer
        return answer

    def state(self, node):
        """As the node itself sees it; None: it is not listed."""
        listed = self.ask("GET", "/api/nodes", None, node).json()["nodes"]
        return {row["id"]: row["state"] for row in listed}.get(node + 1)


@pytest.fixture(scope="session", name="ruled")
def make_ruled(binary, tmp_path_factory):
    made = Ruled(tmp_path_factory.mktemp("ruled"))
    try:
        made.cluster.start()
        wait_level(made.cluster, 3)
        yield made
    finally:
        made.cluster.end()


@pytest.fixture(name="tags")
def make_tags(ruled):
    """A segment's and a strict one of the test's own."""
    number = next(serial)
    made = [f"stop.{number}", f"stop.strict.{number}"]
    ruled.ask("PUT", f"/api/tags/{made[0]}", {"step": 1000})
    ruled.ask("PUT", f"/api/tags/{made[1]}", {"mode": "strict"})
    return made


@pytest.fixture(name="client")
def make_client(ruled, start):
    return start().open(endpoints=urls(ruled.cluster), token=ruled.tokens.tokens["shop"], zone="a",
                        min_count=10, max_count=10, max_age_ms=int(HELD_S * 1000))


@pytest.mark.bound(120)
def test_a_node_is_drained(ruled, tags, client):
    """Its zone's clients go elsewhere, and no call fails; they come back."""
    try:
        client.begin(f"mix {tags[0]} {tags[1]} 4")
        ruled.ask("POST", "/api/nodes/1/drain", node=1)
        wait_until(lambda: ruled.state(0) == "drained", 30, "it is drained")
        kinds = parse_mix(client.judge(client.finish()))
    finally:
        ruled.ask("POST", "/api/nodes/1/resume", node=1)
    wait_until(lambda: ruled.state(0) == "ready", 30, "it takes work again")
    for ids in kinds:
        check_once(ids)
        assert ids.count() > 0
    assert client.stats()["errors"] == 0


@pytest.mark.bound(120)
@pytest.mark.parametrize("how", ["pause", "cut"])
def test_ids_are_stopped(ruled, tags, client, how):
    """A second after it no strict id is granted, and once it is too old none that is held is handed
    out, until it ends."""
    got = {"segment": [], "strict": []}

    def take(line):
        """Whether it was refused, as it should be. (An error of another kind fails the test.)"""
        answer = client.ask_any(f"{line} deadline_ms=20000")
        if answer.startswith(("error paused 423 ", "error client_cut 403 ")):
            assert "stock-taking" in answer
            return True
        got[line.split(" ", 1)[0]] += client.parse(client.judge(answer))
        return False

    for _ in range(20):
        assert not take(f"segment {tags[0]} 3") and not take(f"strict {tags[1]} 1")
    reason = {"reason": "stock-taking"}
    try:
        if how == "pause":
            for tag in tags:
                ruled.ask("PUT", f"/api/tags/{tag}", {"paused": True, **reason})
        else:
            ruled.ask("PUT", "/api/clients/cuts/shop", {"for_s": 600, **reason})
        stopped = time.monotonic()
        within(lambda: take(f"strict {tags[1]} 1") and time.monotonic() > stopped + 1, 1 + SLACK_S,
               "it is stopped")
        assert all(take(f"strict {tags[1]} 1") for _ in range(10)), "a strict id after the second"
        within(lambda: take(f"segment {tags[0]} 3"), HELD_S + 1 + SLACK_S, "it is used up")
        assert all(take(f"segment {tags[0]} 1") for _ in range(10)), "an id that was held"
    finally:
        if how == "pause":
            for tag in tags:
                ruled.ask("PUT", f"/api/tags/{tag}", {"paused": False})
        else:
            ruled.ask("DELETE", "/api/clients/cuts/shop")
    for line in (f"segment {tags[0]} 1", f"strict {tags[1]} 1"):
        wait_until(lambda asked=line: not take(asked), 30, f"{line} gets ids again")
    for ids in got.values():
        check_once(ids)
