"""A hundred thousand tags: made in bulk, loaded at a start, sent as a snapshot, used anywhere."""

import random
import time

import pytest

from checker import History
from test_snapshot import INSTALLED, SMALL_LOG, all_rows, bulk_put, outgrow_the_log
from wait import wait_until

TAGS = 100_000


def name(number):
    return f"service-{number % 97:02}/tag-{number:06}"


@pytest.mark.bound(120)
def test_a_hundred_thousand_tags(make_cluster):
    cluster = make_cluster(settings={**SMALL_LOG, "quota": "tags=100%"})
    away = cluster.followers()[0]
    away.kill9()
    leader = cluster.leader()
    for start in range(0, TAGS, 10_000):
        rows = [{"tag": name(n), "max_id": n + 1} for n in range(start, start + 10_000)]
        answer = bulk_put(leader, rows)
        assert answer == {"made": 10_000, "changed": 0}
    cluster.create_tag("churn")
    outgrow_the_log(cluster, leader, 100)

    # By snapshot, in many chunks.
    size = len(away.log())
    began = time.monotonic()
    away.start()
    away.wait_log(INSTALLED, timeout=30, start=size)
    away.wait_ready()
    cluster.wait_applied()
    print(f"snapshot installed and applied after {time.monotonic() - began:.1f} s")
    rows = all_rows(away, "local")
    assert len(rows) == TAGS + 1
    assert rows == all_rows(leader, "local")

    # By a start of all.
    cluster.kill_all()
    began = time.monotonic()
    cluster.start()
    print(f"all ready after {time.monotonic() - began:.1f} s")
    source = random.Random(3)
    history = History()
    for number in source.sample(range(TAGS), 1500):
        node = source.choice(cluster.nodes)
        answer = node.get(f"/api/segment/get/{name(number).replace('/', '%2F')}")
        assert answer.status == 200 and int(answer.body) == number + 1, answer
        history.track("c", node.id, name(number)).add(number + 1, number + 1)
    history.check()
    wait_until(lambda: cluster.find_leader() is not None, 5, "still a leader")
