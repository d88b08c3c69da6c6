"""Full speed by wrk on every node at once: nothing but 200, also while the leader is killed."""

import re
import shutil
import subprocess

import pytest

from wait import wait_until

pytestmark = [
    pytest.mark.alone,  # it takes all of the machine that it gets, and measures it
    pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed"),
]


def start_wrk(node, tag, seconds):
    url = f"http://{node.http_address}/api/segment/get/{tag}"
    return subprocess.Popen(
        ["wrk", "-t1", "-c64", f"-d{seconds}s", "--timeout", "15s", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def check_wrk(node, output):
    """No answer but 2xx, no broken connection; returns requests a second."""
    assert "Non-2xx" not in output, f"{node}: {output}"
    assert "Socket errors" not in output, f"{node}: {output}"
    rate = float(re.search(r"Requests/sec:\s+([0-9.]+)", output).group(1))
    assert int(re.search(r"(\d+) requests in", output).group(1)) > 100, output
    return rate


def test_all_nodes_in_parallel(make_cluster, tag):
    cluster = make_cluster(settings={})
    cluster.create_tag(tag)
    running = {node: start_wrk(node, tag, 3) for node in cluster.nodes}
    rates = {node: check_wrk(node, wrk.communicate(timeout=30)[0]) for node, wrk in running.items()}
    print("requests a second:", {node.id: round(rate) for node, rate in rates.items()})


# Shows P4-killed.
def test_leader_killed_under_wrk(make_cluster, tag):
    """Default timeouts: what the other two hold covers the election."""
    cluster = make_cluster(settings={})
    cluster.create_tag(tag)
    leader = cluster.leader()
    others = cluster.others(leader)
    running = {node: start_wrk(node, tag, 6) for node in cluster.nodes}

    def held():
        """The segments have grown to what the load needs."""
        return all(segment_of(node, tag) > 1000 for node in others)

    wait_until(held, 10, "the segments have grown")
    leader.kill9()
    new = cluster.wait_leader(among=others)
    assert new is not leader
    outputs = {node: wrk.communicate(timeout=30)[0] for node, wrk in running.items()}
    for node in others:
        print(node, "requests a second:", round(check_wrk(node, outputs[node])))


def segment_of(node, tag):
    """The size of its last segment."""
    page = node.get_json(f"/api/node/segments?prefix={tag}")
    entry = next((item for item in page["segments"] if item["tag"] == tag), None)
    return entry["step"] if entry else 0
