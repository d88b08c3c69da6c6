"""A state that differs: the odd node ends, names the first row that does, and the others serve.

The row is planted into the data directory of a stopped node, with all checksums right, by
build/*/plant-row (cluster-tests/tools/plant_row.c; `make next-level` builds it).
"""

import itertools
import os
import re
import subprocess

import pytest

from node import leafd_path
from wait import wait_until

EXIT_DIVERGED = 79
ENDS_S = 40  # digests are compared every 5 s, while something changes


def plant(node, tag, by):
    path = os.path.join(os.path.dirname(leafd_path()), "plant-row")
    if not os.access(path, os.X_OK):
        pytest.fail(f"no {path}: build it with make next-level")
    subprocess.run([path, node.data_dir, tag, str(by)], check=True, timeout=30)


def ends_by(cluster, node, tag):
    """The node ends, and says which row differs; changes go on meanwhile."""
    node.expect_log("the state differs from the cluster's")
    node.expect_log("the node cannot go on")
    others = cluster.others(node)
    for other in others:  # where the node leads, it is they who see it first
        other.expect_log("most nodes have this node's state")
    size = len(node.log())
    node.start()
    node.leaving()
    serial = itertools.count()

    def ended():
        cluster.create_tag(f"{tag}.{next(serial)}", node=others[0])
        return node.process.poll() is not None

    wait_until(ended, ENDS_S, f"{node} ends")
    assert node.wait_exit() == EXIT_DIVERGED, node.log()[size:]
    text = node.log()[size:]
    row = re.search(r'row="the first row that differs, with both at index (\d+), is t(\S+); '
                    r"here: (.*); on node (\d+): (.*)\"", text)
    assert row, text
    assert row[2] == tag and row[3] != row[5], row[0]
    assert int(row[4]) in [other.id for other in others]
    return text


@pytest.mark.bound(120)
def test_a_row_that_was_planted_is_named(make_cluster, tag):
    cluster = make_cluster()
    first = f"{tag}.a"
    for name in (first, f"{tag}.b"):
        cluster.create_tag(name)
    odd = cluster.followers()[0]
    cluster.wait_applied()
    odd.stop()
    plant(odd, first, 1)
    plant(odd, f"{tag}.b", 7)
    ends_by(cluster, odd, first)
    cluster.create_tag(f"{tag}.then")
