"""Upgrades as an operator does them: leafds of other ages, node by node, and the level
(docs/versions.md)."""

import os
import subprocess

from node import ROOT
from wait import wait_until

LEVEL = "/api/cluster/level"
TOO_OLD_EXIT = 65
TOO_OLD_LOG = "the node cannot go on|cannot start the node|cannot use the data directory|refuses"
BUILD_S = 300


def previous_level(level):
    """(leafd of that level's last commit, None), or (None, why there is none)."""
    run = subprocess.run(
        [os.path.join(ROOT, "scripts", "previous-level"), str(level)],
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    said = run.stdout.splitlines()[-1]
    return (None, said) if said.startswith("skipped: ") else (said, None)


def level_of(node):
    return node.cluster_status()["level"]["number"]


def wait_level(cluster, level, timeout=20.0):
    """The level is in force; a new cluster goes on to the newest one by itself."""
    wait_until(
        lambda: all(level_of(node) >= level for node in cluster.running()),
        timeout,
        f"level {level} on all nodes",
    )


def wait_newest(cluster):
    """The newest level that the nodes speak is in force; for a cluster of one leafd."""
    wait_level(cluster, cluster.nodes[0].get_json("/version")["levels"]["max"])


def exchange(cluster, node, binary):
    """Stop it in order, and start another leafd on its data."""
    node.stop()
    come_back(cluster, node, binary)


def come_back(cluster, node, binary):
    node.binary = binary
    node.start().wait_ready()
    wait_registered(cluster, node)


def exchange_all(cluster, binary):
    for node in cluster.nodes:
        exchange(cluster, node, binary)


def wait_registered(cluster, node):
    """Until the leader knows what it speaks."""
    speaks = node.get_json("/version")["levels"]

    def so():
        members = cluster.leader().cluster_status()["members"]
        return next(m["levels"] for m in members if m["id"] == node.id) == speaks

    wait_until(so, 20, f"{node} is known to speak {speaks}")


def can_rise(node):
    answer = node.get_json(LEVEL)
    return answer["can_rise"], answer["message"]


def wait_can_rise(node):
    wait_until(lambda: can_rise(node)[0], 20, "the level can rise")


def raise_level(node, level):
    return node.http("POST", f"{LEVEL}?timeout_ms=10000", {"level": level})


def ends_too_old(node, reason, needed, speaks):
    """It ends by itself, and says which level is needed, and which it speaks; or, where a row has
    another form at that level and comes before the level's own, that the version is another."""
    node.expect_log(TOO_OLD_LOG)
    assert node.wait_exit() == TOO_OLD_EXIT
    said = node.log_tail()
    named = reason in said and f"level {needed}" in said and speaks in said
    assert named or "was refused: version not supported" in said, said
