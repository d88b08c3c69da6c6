"""A disk that stands still, or is slow: each write and flush of its node hangs until the test lets
it go. Nothing is lost, nobody waits for that node alone, and it stops all the same."""

import re
import signal
import time

import pytest

from chaos import disks
from checker import History
from cluster import STEADY
from load import Load, wait_all_serve, wait_taken
from node import take
from wait import wait_until

STANDS = "all delay_ms=600000"  # until there are other rules
STANDS_S = 6  # DISK_STANDS_S of storage/disk.h
STOP_MOST_S = 5 + 10 + 20  # the grace, what the disk may take, and a busy machine
AT_STOP = 'err=io_error reason="the disk stands still: a stop waited in vain'


@pytest.fixture
def make(make_cluster, tmp_path):
    """A cluster whose disks obey."""
    shim = disks.build_shim(tmp_path)

    def begin(size):
        cluster = make_cluster(size, settings=STEADY, start=False)
        for node in cluster.nodes:
            node.disk = disks.Disk(node, shim, False)
            node.prefix = ["env", f"LD_PRELOAD={shim}", *node.disk.environment(node.id)]
        return cluster.start()

    return begin


def loaded(cluster, history, tag, *nodes):
    cluster.create_tag(tag, mode="strict")
    load = Load(history, tag)
    for node in nodes or cluster.nodes:
        load.add(node, rate=200)
    return load


def alarm(node):
    return [a["text"] for a in node.get_json("/api/status")["alarms"]
            if a["name"] == "LeafdDiskLow"]  # fmt: skip


def stood_s(node):
    text = node.get("/metrics").body.decode()
    return int(re.search(r"^leafd_disk_stands_seconds (\d+)", text, re.MULTILINE)[1])


def disk_check(node):
    checks = node.get("/readyz?verbose").json()["checks"]  # 503 where it holds no ids
    return next(check["ok"] for check in checks if check["name"] == "disk")


def wait_stands(node):
    said = wait_until(lambda: alarm(node), 30, "the alarm")[0]
    assert f"the disk of node {node.id} stands still: no write has ended for" in said, said
    assert stood_s(node) >= STANDS_S
    assert not disk_check(node)
    # No mark reaches the disk: snowflake ids are refused at once, and counted as refused.
    wait_until(lambda: code_of_snowflake(node) == "disk_full", 30, "a refusal")
    began = time.monotonic()
    assert code_of_snowflake(node) == "disk_full"
    assert time.monotonic() - began < 2  # a request waits 3 s
    assert node.get("/readyz?for=snowflake").status == 503
    assert 'leafd_snowflake_refused{code="disk_full"} 1' in node.get("/metrics").body.decode()


def code_of_snowflake(node):
    answer = node.get("/api/snowflake/get/any")
    return None if answer.status == 200 else answer.json()["code"]


def wait_moves(node):
    wait_until(lambda: not alarm(node), 30, "the end of the alarm")
    assert disk_check(node)
    wait_until(lambda: stood_s(node) == 0, 30, "the figure, which is measured once a second")
    wait_until(lambda: code_of_snowflake(node) is None, 30, "a snowflake id")


@pytest.mark.bound(120)
# Shows P5-disk.
def test_leader_whose_disk_stands(make, tag):
    """It hands over, and no client of any node sees an error. It follows when the disk is back."""
    cluster = make(3)
    history = History()
    with loaded(cluster, history, tag) as load:
        wait_taken(load, 200)
        old = cluster.leader()
        old.disk.rules(STANDS)
        new = cluster.wait_leader(among=cluster.others(old))
        wait_stands(old)
        wait_all_serve(load)
        assert not alarm(new)
        old.disk.rules("")
        wait_moves(old)
        cluster.wait_follows(old)
        wait_all_serve(load)
        load.finish()
    cluster.wait_applied()
    assert cluster.leader() is new


@pytest.mark.bound(120)
@pytest.mark.parametrize("role", ["leader", "follower"])
# Shows P5-disk.
def test_stop_on_a_disk_that_stands(make, tag, role):
    """It ends within its bound, with 74; the others go on; nothing is lost."""
    cluster = make(3)
    node = cluster.leader() if role == "leader" else cluster.followers()[0]
    history = History()
    with loaded(cluster, history, tag, *cluster.others(node)) as load:
        wait_taken(load, 200)
        node.disk.rules(STANDS)
        wait_taken(load, 200)
        node.expect_log(AT_STOP)
        node.leaving()
        began = time.monotonic()
        node.process.send_signal(signal.SIGTERM)
        assert node.wait_exit(60) == 74, node.log_tail()
        assert time.monotonic() - began < STOP_MOST_S
        assert AT_STOP in node.log()
        wait_taken(load, 200)
        node.disk.rules("")
        node.start().wait_ready()
        load.finish()
    cluster.wait_applied()


@pytest.mark.bound(120)
# Shows P5-disk.
def test_most_disks_stand(make, tag):
    """Nothing is acknowledged, by no wait that does not end; then all goes on behind what was."""
    cluster = make(3)
    cluster.create_tag(tag, mode="strict")
    leader, struck = cluster.leader(), cluster.followers()[0]
    last = take(leader, tag)
    for node in (leader, struck):
        node.disk.rules(STANDS)
    for node in (leader, struck):
        wait_stands(node)
    for node in cluster.nodes:
        answer = node.get(f"/api/segment/get/{tag}?timeout_ms=1000")
        assert answer.status == 503, answer
    for node in (leader, struck):
        node.disk.rules("")
        wait_moves(node)
    answer = wait_until(lambda: (a := leader.get(f"/api/segment/get/{tag}")).status == 200 and a,
                        30, "an id")  # fmt: skip
    assert int(answer.body) > last
    cluster.wait_applied()


@pytest.mark.bound(120)
# Shows P5-disk.
def test_lone_node_whose_disk_stands(make, tag):
    """Changes are refused at once when it is known to stand, and a stop ends."""
    node = make(1).nodes[0]
    node.http("PUT", f"/api/tags/{tag}", {"mode": "strict"})
    last = take(node, tag)
    node.disk.rules(STANDS)
    assert node.get(f"/api/segment/get/{tag}?timeout_ms=500").status == 503
    wait_stands(node)
    answer = node.http("PUT", f"/api/tags/{tag}.2", {})
    assert (answer.status, answer.json()["code"]) == (503, "disk_full"), answer
    node.expect_log(AT_STOP)
    node.leaving()
    node.process.send_signal(signal.SIGTERM)
    assert node.wait_exit(60) == 74, node.log_tail()
    node.disk.rules("")
    node.start().wait_ready()
    assert take(node, tag) > last


@pytest.mark.bound(180)
@pytest.mark.parametrize("delay_ms", [200, 2000])
# Shows P5-disk.
def test_slow_disks_move(make, tag, delay_ms):
    """On all nodes each flush takes long: the leader stays, and there is no alarm."""
    cluster = make(3)
    cluster.create_tag(tag, mode="strict")
    term = cluster.leader().cluster_status()["term"]
    for node in cluster.nodes:
        node.disk.rules(f"sync delay_ms={delay_ms}")
    ends = time.monotonic() + 3 * STANDS_S
    with loaded_slowly(cluster, tag) as load:
        while time.monotonic() < ends:
            load.check_running()
            assert not any(alarm(node) for node in cluster.nodes)
            wait_taken(load, 1, 60)
        load.finish()
    assert cluster.leader().cluster_status()["term"] == term
    for node in cluster.nodes:
        node.disk.rules("")


def loaded_slowly(cluster, tag):
    load = Load(History(), tag)
    for node in cluster.nodes:
        load.add(node, rate=200, timeout_ms=10_000)
    return load
