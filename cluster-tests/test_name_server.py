"""Peers given by name, and a name server that answers nothing, as when a network is cut."""

import os
import re
import subprocess

import pytest

from wait import ran_s, within

DEAF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deaf_name_server.py")
IN_NAMESPACES = ["unshare", "--net", "--mount", DEAF]
# By default the C library waits 5 s for a name server, twice. Names that are not found cost a
# second each at most twice; the rest is for a machine under load.
STOP_BOUND_S = 5.0


def namespaces_allowed(directory):
    run = subprocess.run([*IN_NAMESPACES, os.path.join(directory, "try.conf"), "true"],
                         capture_output=True)
    return run.returncode == 0


@pytest.fixture
def node_of_names(make_cluster, tmp_path):
    """A node whose peers are names, started where nobody answers for them. Its HTTP is in a network
    of its own, so that only its log and its end can be seen."""
    if not namespaces_allowed(tmp_path):
        pytest.skip("namespaces of its own are not allowed here")
    members = {1: "127.0.0.1:7081", 2: "peer2:7081", 3: "peer3:7081"}
    node = make_cluster(1, members=members, start=False).nodes[0]
    node.prefix = [*IN_NAMESPACES, os.path.join(tmp_path, "resolv.conf")]
    node.start()
    node.wait_log("msg=\"started\"")
    return node


def test_stop_does_not_wait_for_a_deaf_name_server(node_of_names):
    """A lookup cannot be called off, so that the end of the process waits for it: not for long."""
    begin = ran_s()
    node_of_names.stop()
    assert ran_s() - begin < STOP_BOUND_S


def test_the_next_lookup_is_soon(node_of_names):
    """A lookup is given up so soon that the next one finds a peer that is back in time."""
    within(lambda: re.search("no link to peer.* peer=2 ", node_of_names.log()), STOP_BOUND_S,
           f"the next lookup:\n{node_of_names.log_tail()}")
    node_of_names.wait_log("no link to peer.* peer=3 ", timeout=STOP_BOUND_S)
    node_of_names.stop()
