"""Zones: where nodes are, and what clients are told of them (GET /api/nodes)."""

from client import once
from cluster import FAST
from ports import take_port
from test_listeners import Tokens
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
