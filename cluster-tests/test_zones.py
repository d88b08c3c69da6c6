"""Zones: where nodes are, and what clients are told of them (GET /api/nodes)."""

import os
import signal
import threading

import pytest

import leafctl
from client import once
from cluster import FAST, STEADY
from ports import take_port
from resp import connect, open_resp
from test_backup import small_volumes
from test_listeners import Tokens
from upgrade import wait_level
from wait import wait_until


def nodes(node):
    answer = node.get_json("/api/nodes")
    assert answer["self"] == node.id
    return {item["id"]: item for item in answer["nodes"]}


def field(node, name):
    return {node_id: item[name] for node_id, item in nodes(node).items()}


def start_zones(cluster, zones):
    for node, zone in zip(cluster.nodes, zones):
        node.settings["zone"] = zone
    cluster.start()
    cluster.wait_ready()
    wait_level(cluster, 3)


def wait_field(on, name, want):
    for node in on:
        wait_until(lambda: field(node, name) == want, 30, f"{name} {want}, as {node} sees it")


def test_nodes_and_their_zones(make_cluster):
    cluster = make_cluster(settings=FAST, start=False)
    start_zones(cluster, ["a", "b", None])
    wait_field(cluster.nodes, "zone", {1: "a", 2: "b", 3: None})
    wait_field(cluster.nodes, "state", {1: "ready", 2: "ready", 3: "ready"})
    for node in cluster.nodes:
        listed = nodes(node)
        assert {item["weight"] for item in listed.values()} == {100}
        assert {item["http_address"] for item in listed.values()} == {
            other.http_address for other in cluster.nodes}
        assert [member["zone"] for member in node.get_json("/api/status")["members"]] \
            == ["a", "b", None]
    wait_field(cluster.nodes, "snowflake", {1: True, 2: True, 3: True})
    cluster.nodes[1].kill9()
    on = [cluster.nodes[0], cluster.nodes[2]]
    wait_field(on, "state", {1: "ready", 2: "unreachable", 3: "ready"})
    assert nodes(on[0])[2]["zone"] == "b"  # it is in the log
    cluster.nodes[1].settings["zone"] = None  # as it starts again, it is in none
    cluster.nodes[1].start()
    wait_field(cluster.nodes, "zone", {1: "a", 2: None, 3: None})
    wait_field(cluster.nodes, "state", {1: "ready", 2: "ready", 3: "ready"})


def test_what_ids_cost_from_each_zone(make_cluster, tmp_path):
    """The leader tells; a strict id costs flushes as well. leafctl and the page show it."""
    cluster = make_cluster(start=False)
    start_zones(cluster, ["a", "a", "b"])
    cluster.create_tag("number", mode="strict")
    assert cluster.nodes[0].get("/api/segment/get/number").status == 200

    def told():
        leader = cluster.wait_leader()
        zones = leader.get_json("/api/status").get("zones", [])
        assert sorted(zone["zone"] for zone in zones) == ["a", "b"]
        assert all(0 < (zone["monotonic_us"] or 0) < (zone["strict_us"] or 0) for zone in zones)
        return leader

    leader = wait_until(told, 30, "all is measured")
    out = leafctl.Leafctl(tmp_path, leader.http_address)("status").out
    assert "from zone  a monotonic id  a strict id" in out
    for other in cluster.followers():
        assert "zones" not in other.get_json("/api/status")


def test_a_zone_that_may_be_misspelt(make_cluster):
    cluster = make_cluster(settings=FAST, start=False)
    start_zones(cluster, ["eu-1", "eu-1", "eu1"])
    wait_field(cluster.nodes, "zone", {1: "eu-1", 2: "eu-1", 3: "eu1"})
    cluster.nodes[2].restart()
    cluster.nodes[2].wait_log("no other node is in the zone of this one.*zone=eu1 shared=eu-1")
    assert not any("no other node is in the zone" in node.log() for node in cluster.nodes[:2])


def test_who_may_list_nodes(make_cluster, tmp_path):
    cluster = make_cluster(size=1, start=False)
    tokens = Tokens(tmp_path / "tokens")
    for role in ("ids", "read", "admin", "tags"):
        tokens.add(role, f"roles={role}")
    tokens.write()
    [node] = cluster.nodes
    admin = ("127.0.0.1", take_port())
    node.settings.update({"admin-listen": f"{admin[0]}:{admin[1]}",
                          "auth-tokens-file": tokens.path, "http-hosts": None})
    cluster.start()
    for address in (node.address, admin):
        for role, status in (("ids", 200), ("read", 200), ("admin", 200), ("tags", 403)):
            for method in ("GET", "HEAD"):
                assert once(address, method, "/api/nodes",
                            headers=tokens.bearer(role)).status == status, (address, role)
        assert once(address, "GET", "/api/nodes").status == 401


# --- drained, resumed, weighed ---

def drain(node, number, what="drain", **more):
    options = "&".join(f"{name}={value}" for name, value in {"timeout_ms": 10000, **more}.items())
    return node.http("POST", f"/api/nodes/{number}/{what}?{options}")


class Load:
    """Threads that take ids of a tag from a node over one connection each, and dial anew only where
    an answer said that it was the last; and some that do so over RESP. Every request must be
    answered with an id."""

    def __init__(self, node, tag, threads=3, resp=0):
        self.node, self.tag = node, tag
        self.ids, self.closed, self.faults = [], [], []
        self.going = True
        self.threads = [threading.Thread(target=target)
                        for target in [self.run] * threads + [self.run_resp] * resp]
        for thread in self.threads:
            thread.start()

    def run(self):
        try:
            while self.going:
                with self.node.connect() as connection:
                    last = False
                    while self.going and not last:
                        answer = connection.request("GET", f"/api/segment/get/{self.tag}")
                        assert answer.status == 200, answer
                        self.ids.append(int(answer.text))
                        last = answer.headers.get("connection") == "close"
                    if last:
                        self.closed.append(self.ids[-1])
        except Exception as error:  # of a thread: the test is to see it
            self.faults.append(error)

    def run_resp(self):
        try:
            with connect(self.node) as client:
                while self.going:
                    self.ids.append(int(client.execute_command("INCR", self.tag)))
        except Exception as error:  # noqa: BLE001
            self.faults.append(error)

    def end(self, closed=0):
        """Once it has a hundred ids more, and so many connections have ended."""
        had = len(self.ids)
        try:
            wait_until(lambda: self.faults or
                       len(self.ids) >= had + 100 and len(self.closed) >= closed, 30, "ids")
        finally:
            self.going = False
            for thread in self.threads:
                thread.join(60)
        assert not self.faults, self.faults
        assert len(set(self.ids)) == len(self.ids)
        return self


def test_a_node_is_drained_and_resumed_under_load(make_cluster):
    cluster = open_resp(make_cluster(settings=FAST, start=False))
    start_zones(cluster, ["a", "b", "c"])
    leader = cluster.wait_leader()
    other = next(node for node in cluster.nodes if node is not leader)
    cluster.create_tag("order", step=1000)
    load = Load(leader, "order", resp=2)
    with connect(leader) as resp:
        resp.execute_command("INCR", "order")
        answer = drain(other, leader.id)
        assert (answer.status, answer.json()["message"]) \
            == (200, f"node {leader.id} is drained"), answer
        wait_until(lambda: leader.get("/readyz").status == 503, 30, "it refuses to be ready")
        assert "drained" in leader.get("/readyz").json()["reasons"][0]
        wait_field(cluster.nodes, "state",
                   {node.id: "drained" if node is leader else "ready" for node in cluster.nodes})
        wait_until(lambda: cluster.wait_leader().id != leader.id, 30, "another one leads")
        wait_until(lambda: leader.get("/api/nodes").headers.get("connection") == "close", 30,
                   "answers end their connections")
        assert int(resp.execute_command("INCR", "order")) > 0  # on the same connection
    load.end(closed=3)
    leader.stop()
    leader.start()
    wait_until(lambda: leader.serves(), 30, "it is back")
    wait_field(cluster.nodes, "state",
               {node.id: "drained" if node is leader else "ready" for node in cluster.nodes})
    assert leader.get("/readyz").status == 503
    assert drain(leader, leader.id, "resume").status == 200
    leader.wait_ready()
    assert not Load(leader, "order").end().closed
    wait_until(lambda: {f"node {leader.id} is drained", f"node {leader.id} takes work again"} <= {
        event["text"] for event in other.get_json("/api/events?limit=512")["events"]},
               30, "both are events")


def test_the_last_ready_node_is_not_drained(make_cluster):
    cluster = make_cluster(settings=FAST)
    wait_level(cluster, 3)
    one, two, three = cluster.nodes
    wait_field(cluster.nodes, "state", {1: "ready", 2: "ready", 3: "ready"})
    assert drain(one, 3).status == 200
    assert one.http("PUT", "/api/nodes/1", {"weight": 0}).status == 200
    answer = drain(two, 2)
    assert (answer.status, answer.code) == (409, "last_ready"), answer
    assert answer.json()["message"].startswith(
        "without node 2 no node would take work: node 1 has weight 0, node 3 is drained; force=1")
    answer = three.http("PUT", "/api/nodes/2", {"weight": 0})
    assert (answer.status, answer.code) == (409, "last_ready"), answer
    assert drain(two, 2, force=1).status == 200
    assert drain(two, 1, force=1).status == 200
    leader = cluster.wait_leader()  # nobody else can: it goes on
    wait_until(lambda: leader.get("/readyz").status == 503, 30, "it is drained all the same")
    for node in cluster.nodes:
        assert drain(node, node.id, "resume").status == 200
        assert drain(node, node.id, "resume").status == 200  # it is so already
    wait_field(cluster.nodes, "state", {1: "ready", 2: "ready", 3: "ready"})


@pytest.mark.parametrize("method, target, body, status, code", [
    ("POST", "/api/nodes/9/drain", None, 404, "unknown_member"),
    ("POST", "/api/nodes/0/drain", None, 400, "bad_request"),
    ("POST", "/api/nodes/x/resume", None, 400, "bad_request"),
    ("POST", "/api/nodes/65536/resume", None, 400, "bad_request"),
    ("POST", "/api/nodes/1/stop", None, 404, "no_route"),
    ("GET", "/api/nodes/1/drain", None, 405, "method_not_allowed"),
    ("POST", "/api/nodes/1/resume?force=1", None, 400, "bad_request"),
    ("PUT", "/api/nodes/1", {"weight": 1001}, 400, "bad_request"),
    ("PUT", "/api/nodes/1", {"weight": -1}, 400, "bad_request"),
    ("PUT", "/api/nodes/1", {}, 400, "bad_request"),
    ("PUT", "/api/nodes/1", {"weight": 1, "zone": "a"}, 400, "bad_request"),
    ("PUT", "/api/nodes/9", {"weight": 1}, 404, "unknown_member"),
    ("GET", "/readyz?for=segment", None, 400, "bad_request"),
])
def test_what_is_refused(shared, method, target, body, status, code):
    answer = shared.nodes[0].http(method, target, body)
    assert (answer.status, answer.code) == (status, code), answer


def test_weights_and_what_is_ready_for_snowflake(make_cluster):
    cluster = make_cluster(settings=FAST)
    wait_level(cluster, 3)
    assert cluster.nodes[0].http("PUT", "/api/nodes/2", {"weight": 50}).status == 200
    wait_field(cluster.nodes, "weight", {1: 100, 2: 50, 3: 100})
    for node in cluster.nodes:
        wait_until(lambda node=node: node.get("/readyz?for=snowflake").status == 200, 30, "ready")
    two = cluster.nodes[1]
    two.settings["snowflake-workers"] = 0
    two.restart()
    assert two.get("/readyz").status == 200
    assert two.get("/readyz?for=snowflake").status == 503
    wait_field(cluster.nodes, "snowflake", {1: True, 2: False, 3: True})


def own_ids(cluster):
    """The worker ids that each node holds itself."""
    rows = cluster.nodes[0].get_json("/api/workers")["workers"]
    return {node.id: {row["worker_id"] for row in rows if row["name"].startswith(f"node-{node.id}/")
                      and row["state"] == "held"} for node in cluster.nodes}


def test_nodes_take_worker_ids_of_their_zones_pool(make_cluster):
    cluster = make_cluster(settings={**FAST, "snowflake-workers": 0}, start=False)
    start_zones(cluster, ["a", "b", "c"])
    pools = {1: range(100, 110), 2: range(200, 210), 3: range(300, 310)}
    put = cluster.nodes[0].http("PUT", "/api/workers/pools",
                                {"pools": "a=100-109,b=200-209,c=300-309"})
    assert put.status == 200, put
    for node in cluster.nodes:
        node.settings["snowflake-workers"] = 2
        node.restart()
        wait_until(lambda node=node: len(own_ids(cluster)[node.id]) == 2, 30, "it holds two")
    held = own_ids(cluster)
    assert all(ids <= set(pools[node_id]) for node_id, ids in held.items()), held
    # A pool that changes moves nothing, also over a restart.
    put = cluster.nodes[0].http("PUT", "/api/workers/pools", {"pools": "b=0-399"})
    assert put.status == 200, put
    for node in cluster.nodes:
        node.restart()
        wait_until(lambda node=node: node.get("/readyz?for=snowflake").status == 200, 30, "ready")
        assert node.http("GET", "/api/snowflake/get/k").status == 200
    assert own_ids(cluster) == held


def test_a_fixed_worker_id(make_cluster):
    """Two nodes are given the same: one serves, over its restart and drained, the other says who
    has it, and takes it when it may. One that is not of its zone's pool is taken by nobody."""
    cluster = make_cluster(settings={**FAST, "snowflake-window-ms": 4000}, start=False)
    first, second, third = cluster.nodes
    first.settings["snowflake-worker-id"] = 700
    second.settings["snowflake-workers"] = 0
    third.settings["snowflake-worker-id"] = 5
    start_zones(cluster, ["a", "b", "c"])
    wait_until(lambda: own_ids(cluster) == {1: {700}, 2: set(), 3: {5}}, 30, "their own")
    second.settings.update({"snowflake-workers": 1, "snowflake-worker-id": 700})
    second.restart()
    second.wait_log(r'snowflake.worker-id is another\'s, so ids are off.* worker_id=700 '
                    r'holder="node-1/[0-9a-f]{16}/w700" until_ms=\d{13}')
    assert second.http("GET", "/api/snowflake/get/k?timeout_ms=0").status == 409
    assert second.get("/readyz").status == 200
    assert drain(first, 1).status == 200
    first.stop()
    first.start()
    wait_until(lambda: first.http("GET", "/api/snowflake/get/k").status == 200, 30, "it has it yet")
    assert drain(first, 1, "resume").status == 200
    first.settings["snowflake-worker-id"] = 701
    first.restart()
    wait_until(lambda: second.http("GET", "/api/snowflake/get/k").status == 200, 60, "it is free")
    assert own_ids(cluster)[2] == {700}
    wait_until(lambda: 701 in own_ids(cluster)[1], 30, "another is set")
    assert first.http("PUT", "/api/workers/pools", {"pools": "c=10-19"}).status == 200
    third.settings["snowflake-worker-id"] = 6
    third.restart()
    third.wait_log("snowflake.worker-id is not of the pool of this node's zone.* worker_id=6 "
                   "zone=c pools=c=10-19")


def test_a_preferred_zone_that_no_node_has(make_cluster, tmp_path):
    """The leader says so by its name, once."""
    cluster = make_cluster(settings={**STEADY, "raft-prefer-zone": "bb"}, start=False)
    start_zones(cluster, ["a", "b", "b"])
    text = 'no node is in the zone that is to lead" prefer_zone=bb '
    wait_until(lambda: any(text in node.log() for node in cluster.nodes), 30, "the leader says it")
    ctl = leafctl.of(cluster, tmp_path)
    assert "no node is in zone bb, which is to lead" in ctl("check", code=None).out
    cluster.nodes[0].stop()
    cluster.nodes[0].settings["zone"] = "bb"
    cluster.nodes[0].start()
    wait_until(lambda: cluster.wait_leader() is cluster.nodes[0], 90, "a node of it leads")
    assert sum(node.log().count("no node is in the zone that") for node in cluster.nodes) <= 2
    assert "which is to lead" not in ctl("check", code=None).out


def test_a_pool_of_a_zone_that_no_node_has(make_cluster, tmp_path):
    """The leader says so by its name, once for each list of pools; a list without says nothing."""
    # A leader that loses its place says it again.
    cluster = make_cluster(start=False, settings=STEADY)
    start_zones(cluster, ["a", "b", "b"])
    wait_field(cluster.nodes, "zone", {1: "a", 2: "b", 3: "b"})
    leader = cluster.wait_leader()
    ctl = leafctl.of(cluster, tmp_path)
    text = r"a pool of worker ids is for a zone that no node is in.* zone=\"%s\" worker_ids=%s "
    put = lambda pools: leader.http("PUT", "/api/workers/pools", {"pools": pools}).status  # noqa
    assert put("a=0-9,b=10-19") == 200
    wait_until(lambda: "which has the worker ids" not in ctl("check", code=None).out, 30,
               "each node has told its zone")
    assert put("a=0-9,bb=10-19,d=20-20") == 200
    leader.wait_log(text % ("bb", "10-19"))
    leader.wait_log(text % ("d", "20-20"))
    out = ctl("check", code=None).out
    assert "no node is in zone bb, which has the worker ids 10 to 19" in out
    assert "no node is in zone d, which has the worker ids 20 to 20" in out
    assert put("cc=10-19") == 200
    leader.wait_log(text % ("cc", "10-19"))
    wait_until(lambda: leader.get("/api/snowflake/get/k").status == 200, 30, "the layout is known")
    beyond = leader.http("PUT", "/api/workers/pools", {"pools": "b=20-20,a=1000-1024"})
    assert (beyond.status, beyond.code) == (409, "conflict"), beyond
    assert "a=1000-1024 is beyond all layouts, whose worker ids end at 1023" in beyond.text
    assert leader.http("PUT", "/api/layouts/sony", {"preset": "sonyflake"}).status == 200
    assert put("b=20-20,a=1000-1024") == 200
    log = "".join(node.log() for node in cluster.nodes)
    assert [log.count(f'in" zone="{zone}"') for zone in ("a", "b", "bb", "d", "cc")] == [
        0, 0, 1, 1, 1]
    assert put("") == 200
    assert "which has the worker ids" not in ctl("check", code=None).out


def test_the_preferred_zone_leads(make_cluster):
    cluster = make_cluster(settings={**FAST, "raft-prefer-zone": "b"}, start=False)
    start_zones(cluster, ["a", "b", "c"])
    two = cluster.nodes[1]
    wait_until(lambda: cluster.wait_leader() is two, 60, "the node of zone b leads")
    assert drain(cluster.nodes[0], 2).status == 200
    wait_until(lambda: cluster.wait_leader() is not two, 30, "another one leads")
    lead = cluster.nodes[0].http("POST", "/api/cluster/leader", {"id": 2})
    assert (lead.status, lead.code) == (409, "in_the_way"), lead
    assert drain(cluster.nodes[0], 2, "resume").status == 200
    wait_until(lambda: cluster.wait_leader() is two, 90, "it leads again")


# --- together with other things ---

@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a volume")
def test_pools_on_a_disk_that_is_full(make_cluster):
    """The change is refused whole, ids are served on, and once there is room it is made."""
    cluster = make_cluster(1, settings=FAST, start=False)
    node = cluster.nodes[0]
    with small_volumes(cluster) as [volume]:
        start_zones(cluster, ["a"])
        wait_until(lambda: node.get("/api/snowflake/get/k").status == 200, 30, "a worker id")
        assert node.http("PUT", "/api/workers/pools", {"pools": "a=0-9"}).status == 200
        cluster.create_tag("fresh")
        # Half of what a node takes for nearly full: what had no room at all would end it.
        filler = os.path.join(volume, "filler")
        with open(filler, "wb") as file:
            free = os.statvfs(volume)
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - (32 << 20))
        node.expect_log("disk|room|full")
        wait_until(lambda: node.http("PUT", "/api/workers/pools", {"pools": "a=0-9"}).status
                   == 503, 60, "it is full")
        assert node.http("PUT", "/api/workers/pools", {"pools": "a=10-19"}).code == "disk_full"
        assert node.http("POST", "/api/workers", {"name": "x", "zone": "a"}).code == "disk_full"
        assert node.get("/api/segment/get/fresh?timeout_ms=500").code == "disk_full"
        assert node.get_json("/api/workers/pools") == {"pools": "a=0-9"}
        assert node.get("/api/snowflake/get/k").status == 200
        os.unlink(filler)
        wait_until(lambda: node.http("PUT", "/api/workers/pools", {"pools": "a=10-19"}).status
                   == 200, 60, "there is room")
        answer = node.http("POST", "/api/workers", {"name": "x", "zone": "a"})
        assert answer.status == 201 and answer.json()["worker_id"] == 10, answer


def test_a_drained_node_reads_its_settings_again(make_cluster, tmp_path):
    """A token is gone and the log's level another, and it is drained as before."""
    cluster = make_cluster(start=False, settings=FAST)
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    tokens.add("shop", "roles=ids")
    tokens.write()
    node = cluster.nodes[0]
    node.settings.update({"auth-tokens-file": tokens.path,
                          "auth-anonymous": "health,read,admin"})
    start_zones(cluster, ["a", "b", "c"])
    assert drain(cluster.nodes[1], 1).status == 200
    wait_until(lambda: node.get("/readyz").status == 503, 30, "it is drained")
    del tokens.lines["shop"]
    tokens.write()
    node.process.send_signal(signal.SIGHUP)
    node.wait_log('msg="reloaded"')
    wait_until(lambda: node.http("GET", "/api/nodes", None, tokens.bearer("shop")).status == 401,
               30, "the token is gone")
    assert node.get("/readyz").status == 503
    wait_field(cluster.nodes[1:], "state", {1: "drained", 2: "ready", 3: "ready"})
    assert drain(node, 1, "resume").status == 200
    wait_until(lambda: node.get("/readyz").status == 200, 30, "it takes work")


def test_two_tenants(make_cluster, tmp_path):
    """Tokens of prefixes see all nodes, as clients choose by them, and one pauses none of the tags
    of another, alone or in a bulk."""
    cluster = make_cluster(1, settings=FAST, start=False)
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    for tenant in ("a", "b"):
        tokens.add(tenant, f"roles=ids,read,tags prefix={tenant}/")
    tokens.write()
    node = cluster.nodes[0]
    node.settings.update({"auth-tokens-file": tokens.path, "auth-anonymous": "health,read"})
    start_zones(cluster, ["eu-1"])

    def ask(who, method, path, body=None):
        return node.http(method, path, body, tokens.bearer(who))

    wait_until(lambda: [item["zone"] for item in ask("root", "GET", "/api/nodes").json()["nodes"]]
               == ["eu-1"], 30, "the zone")
    lists = [ask(who, "GET", "/api/nodes").json() for who in ("a", "b", "root")]
    assert lists[0] == lists[1] == lists[2]
    assert lists[0]["nodes"][0]["zone"] == "eu-1"
    for who in ("a", "b"):
        assert ask(who, "PUT", f"/api/tags/{who}%2F1", {}).status == 201
        assert ask(who, "POST", "/api/nodes/1/drain").status == 403
    for answer in (ask("a", "PUT", "/api/tags/b%2F1", {"paused": True}),
                   ask("a", "POST", "/api/tags", [{"tag": "a/1", "paused": True},
                                                  {"tag": "b/1", "paused": True}])):
        assert (answer.status, answer.code) == (403, "forbidden_tag"), answer
    assert ask("a", "PUT", "/api/tags/a%2F1", {"paused": True, "reason": "mine"}).status == 200
    wait_until(lambda: ask("a", "GET", "/api/segment/get/a%2F1").status == 423, 30, "its own")
    assert ask("b", "GET", "/api/segment/get/b%2F1").status == 200
    assert ask("b", "PUT", "/api/tags/a%2F1", {"paused": False}).code == "forbidden_tag"
    assert ask("a", "GET", "/api/segment/get/a%2F1").status == 423
