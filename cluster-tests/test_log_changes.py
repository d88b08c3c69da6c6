"""Each change that an operator may ask about later has a line in the log, also without a tokens
file: of who asked for it where it was asked, and of what became of it on each node."""

import signal

import pytest

from cluster import FAST
from client import once
from wait import wait_until
from workers import acquired, release


SETTINGS = {**FAST, "snowflake-workers": 1}


def all_say(nodes, pattern, starts=None):
    for node in nodes:
        node.wait_log(pattern, start=(starts or {}).get(node.id, 0), timeout=20)


def starts_of(nodes):
    return {node.id: len(node.log()) for node in nodes}


@pytest.fixture(name="trio")
def trio_fixture(make_cluster):
    cluster = make_cluster(3, SETTINGS)
    return cluster


def asked(node, *request, status=200):
    """Ask, and find the line of who has asked for what."""
    start = len(node.log())
    answer = node.http(*request)
    assert answer.status in (status, 202), answer
    node.wait_log(
        rf'at=audit msg="change" .*who=anonymous by=nothing .*what="{request[0]} '
        rf'{request[1].partition("?")[0]}', start=start)
    return answer


def test_tags(trio):
    node = trio.nodes[1]
    asked(node, "PUT", "/api/tags/order", {"step": 10}, status=201)
    node.wait_log(r'msg="change" .*before=""')
    trio.wait_applied()
    asked(node, "PUT", "/api/tags/order", {"step": 20})
    node.wait_log(r'msg="change" .*asked="{\\"step\\": ?20}" before="{.*step\\":10')
    asked(node, "POST", "/api/tags", [{"tag": "one"}, {"tag": "two"}])
    for each in trio.nodes:
        assert each.get("/api/segment/get/order").status == 200
    asked(node, "PUT", "/api/tags/order", {"mode": "strict"})
    all_say(trio.nodes, r'msg="tags have left trend mode: .*" tags=1 first="?order"?')
    asked(node, "DELETE", "/api/tags/one", status=204)


def test_leader(trio):
    to = trio.followers()[0]
    starts = starts_of(trio.nodes)
    asked(trio.leader(), "POST", "/api/cluster/leader", {"id": to.id})
    to.wait_log(r'msg="this node leads" term=\d+', start=starts[to.id])
    all_say(trio.others(to), rf'msg="following a leader" leader={to.id} term=\d+', starts)


def test_members(trio):
    new = trio.newcomer(4)
    new.start().wait_ready()
    all_say(trio.nodes[:3], r'msg="a change of the members begins" kind=add member=4 force=false')
    all_say(trio.nodes[:3], r'msg="a member was added" member=4 role=standby address="?127')
    all_say(trio.nodes[:3], r'msg="a member has another role" member=4 role=voter was=standby')
    moved = f"localhost:{new.peer_address.rpartition(':')[2]}"
    asked(trio.nodes[0], "PUT", "/api/cluster/members/4", {"peer_address": moved})
    all_say(trio.nodes, rf'msg="a member is reached elsewhere" member=4 address="?{moved}')
    new.expect_log("this node was removed|a peer refuses this node")
    new.leaving()
    asked(trio.nodes[0], "DELETE", "/api/cluster/members/4?timeout_ms=8000")
    assert new.wait_exit() == 77
    trio.dismiss(new)
    all_say(trio.nodes, r'msg="a member was removed" member=4 role=(voter|standby)')


def test_worker_ids(trio):
    grant = acquired(trio.nodes[0], "a-client")
    trio.nodes[0].wait_log(r'msg="change" .*what="POST /api/workers".*answer="{\\"worker_id\\":')
    trio.wait_applied()
    assert release(trio.nodes[0], grant).status in (200, 204)
    trio.nodes[0].wait_log(r'msg="change" .*what="DELETE /api/workers/\d+".*before="{')
    all_say(trio.nodes, r'msg="a worker id is held" worker=\d+ epoch=[1-9]\d* from_ms=\d+ until_ms')


def test_alarms(trio):
    victim, *rest = trio.followers()[:1] + [trio.leader()]
    victim.kill9()
    all_say(rest, rf'msg="an alarm begins" alarm=LeafdNodeDown .*text="node {victim.id} ')
    victim.start().wait_ready()
    all_say(rest, r'msg="an alarm is over" alarm=LeafdNodeDown ')


def test_settings_and_quotas(make_cluster, tmp_path):
    path = tmp_path / "leafd.conf"
    path.write_text("log.level = info\n")
    cluster = make_cluster(1, {**FAST, "http-loops": 1, "quota": "ids-per-s=10",
                               "config": str(path)})
    node = cluster.nodes[0]
    path.write_text("log.level = debug\nsnowflake.workers = 7\n")
    node.process.send_signal(signal.SIGHUP)
    node.wait_log(r'msg="reloaded" changed="log.level = debug \(was info\)"')
    node.wait_log(r'msg="settings differ from those in force, and take a restart" '
                  r'settings="?snowflake.workers')
    cluster.create_tag("order")

    def is_refused():
        return once(node.address, "GET", "/api/segment/get/order?count=20").status == 429

    wait_until(is_refused, 10, "a refusal for the quota")
    for _ in range(20):
        once(node.address, "GET", "/api/segment/get/order")
    pattern = r'msg="a client is over its quota" client="?127.0.0.1"? by=address quota=ids_quota'
    node.wait_log(pattern)
    assert node.log().count("a client is over its quota") == 1
