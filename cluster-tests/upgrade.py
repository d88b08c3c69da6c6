"""Upgrades as an operator does them: leafds of other ages, node by node, and the level
(docs/versions.md)."""

import os

import pytest

from node import leafd_path
from wait import wait_until

LEVEL = "/api/cluster/level"
TOO_OLD_EXIT = 65
TOO_OLD_LOG = "the node cannot go on|cannot start the node|cannot use the data directory|refuses"


def leafd_of(level):
    """The same build with one level more ("next"), or with the first alone ("first")."""
    path = f"{leafd_path()}-{level}-level"
    if not os.access(path, os.X_OK):
        pytest.fail(f"no {path}: build it with make next-level")
    return path


def level_of(node):
    return node.cluster_status()["level"]["number"]


def wait_level(cluster, level, timeout=20.0):
    """The level is in force on all nodes."""
    wait_until(
        lambda: all(level_of(node) >= level for node in cluster.running()),
        timeout,
        f"level {level} on all nodes",
    )


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
