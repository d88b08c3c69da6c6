"""What one client can make a node keep in memory: bodies of JSON, tags, idempotency keys; and what
only force does to a max_id."""

# Shows P8-memory.

import json
import threading

import pytest

from cluster import FAST
from wait import wait_until

MIB = 1 << 20
BODY_BYTES = 8 * MIB


def high_water(node):
    """The most memory that the process had, in bytes."""
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def repeated(before, piece, after):
    count = (BODY_BYTES - len(before) - len(after)) // len(piece)
    return before + piece * count + after


HOSTILE = {
    "objects": repeated(b"[", b"{},", b"{}]"),
    "arrays": repeated(b"", b"[", b""),
    "nested": repeated(b"", b'{"a":', b"1"),
    "a page of objects": repeated(b'{"tags":[', b"{},", b"{}]}"),
    "many tags": repeated(b"[", b'{"tag":"a"},', b'{"tag":"b"}]'),
    "a long name": repeated(b'[{"tag":"', b"a", b'"}]'),
}


@pytest.mark.parametrize("target", ["/api/workers", "/api/tags"])
def test_a_large_body_of_json_takes_little_memory(make_cluster, target):
    """Three at once of each kind. The bodies are there, at most twice each; no tree of them is."""
    cluster = make_cluster(size=1)
    node = cluster.nodes[0]
    before = high_water(node)
    answers = []

    def post(body):
        answers.append(node.http("POST", target, body, timeout=30))

    for body in HOSTILE.values():
        threads = [threading.Thread(target=post, args=(body,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 3 * len(HOSTILE)
    assert {answer.status for answer in answers} <= {400, 413, 503}, answers
    assert high_water(node) - before < 3 * 2 * BODY_BYTES + 16 * MIB
    assert node.get("/livez").status == 200


def test_only_force_uses_up_a_tag(shared, tag):
    node = shared.nodes[0]
    shared.create_tag(tag)
    for max_id, why in ((2**63 - 1, "jump of more than 281474976710656"), (2**48 + 2, "jump")):
        for method, target, body in (
            ("PUT", f"/api/tags/{tag}", {"max_id": max_id}),
            ("POST", "/api/tags", [{"tag": f"{tag}.2"}, {"tag": tag, "max_id": max_id}]),
        ):
            refused = node.http(method, target, body)
            assert (refused.status, refused.code) == (409, "needs_force"), refused
            message = refused.json()["message"]
            assert why in message and "max_id is 1" in message and str(max_id) in message
    assert node.get(f"/api/tags/{tag}.2").status == 404  # all or none
    assert node.http("PUT", f"/api/tags/{tag}", {"max_id": 2**48 + 1}).status == 200
    small = {"max": 2_000_000, "max_id": 1_000_001}
    refused = node.http("PUT", f"/api/tags/{tag}.3", small)
    assert (refused.status, refused.code) == (409, "needs_force"), refused
    assert "leaves 999999 ids below 2000000" in refused.json()["message"]
    assert node.http("PUT", f"/api/tags/{tag}.3?force=1", small).status == 201
    assert node.http("PUT", f"/api/tags/{tag}?force=1", {"max_id": 2**63 - 1}).status == 200


def fill(node, prefix, limit=100_000, bulk=500):
    """Make tags until one is refused: how many there are, and the refusal."""
    for at in range(0, limit, bulk):
        answer = node.http(
            "POST", "/api/tags", [{"tag": f"{prefix}.{n}"} for n in range(at, at + bulk)]
        )
        if answer.status != 200:
            return at, answer
    raise AssertionError(f"{limit} tags, and no end")


def metric(node, name):
    lines = node.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def test_a_full_state_refuses_new_tags_and_lives_on(make_cluster):
    """What is there is served, changed and restarted; only a new tag is one too many."""
    cluster = make_cluster(settings={**FAST, "data-memory-bytes": "2MiB",
                                     "quota": "tags=100%"})
    one, two, _ = cluster.nodes
    tag = "full"
    cluster.create_tag(f"{tag}.secret", shape="A{key}-{secret:7}")
    count, refused = fill(two, tag)
    fill(two, f"{tag}.more", bulk=1)  # to the last one
    assert (refused.status, refused.code) == (507, "state_full"), refused
    assert count >= 2 * MIB / 1000  # a tag takes less
    for node in cluster.nodes:
        single = node.http("PUT", f"/api/tags/{tag}.{'x' * 100}", {"description": "d" * 256})
        assert (single.status, single.code) == (507, "state_full"), single
        assert node.get(f"/api/segment/get/{tag}.0").status == 200
        wait_until(lambda n=node: metric(n, "leafd_state_bytes") > 1.9 * MIB, 10, "it is counted")
        assert metric(node, "leafd_state_max_bytes") == 2 * MIB
        assert "data.memory-bytes" in node.get("/readyz?verbose").body.decode()
        assert node.get("/readyz").status == 200
    assert one.http("PUT", f"/api/tags/{tag}.1", {"step": 7}).status == 200
    for key in range(1, 10):  # one that leaked
        answer = two.http("PUT", f"/api/tags/{tag}.secret", {"key": key})
        assert answer.status == 200, (key, answer)
    # A deleted tag keeps its mark, and may be made again.
    assert one.http("DELETE", f"/api/tags/{tag}.2").status == 204
    assert one.http("PUT", f"/api/tags/{tag}.2").status == 201
    cluster.kill_all()
    cluster.start()
    for node in cluster.nodes:
        assert node.get(f"/api/segment/get/{tag}.{count - 1}").status == 200
    assert fill(one, f"{tag}.again")[1].code == "state_full"


def test_a_full_state_refuses_new_keys(make_cluster, tag):
    cluster = make_cluster(size=1, settings={**FAST, "data-memory-bytes": "1MiB",
                                             "quota": "tags=100%"})
    node = cluster.nodes[0]
    cluster.create_tag(f"{tag}.s", mode="strict")

    def take(key):
        headers = {"Idempotency-Key": key}
        return node.http("GET", f"/api/segment/get/{tag}.s", headers=headers)

    wait_until(lambda: take("known").status == 200, 15, "the log has a time")
    known = take("known").body
    for bulk in (100, 1):  # to the last tag that there is room for
        fill(node, f"{tag}.{bulk}", bulk=bulk)
    refused = None
    for n in range(1000):  # and the last key
        answer = take(f"k{n}" + "y" * 100)
        if answer.status != 200:
            refused = answer
            break
    assert refused is not None and (refused.status, refused.code) == (503, "idempotency_full")
    assert take("known").body == known
    assert node.get(f"/api/segment/get/{tag}.s").status == 200
    assert json.loads(node.get(f"/api/tags/{tag}.s").body)["mode"] == "strict"
