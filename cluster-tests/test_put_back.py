"""Copies of data directories that were taken while the nodes ran, and are put back after all nodes
were restarted: nobody's memory is left but what the nodes have on their disks of each other.

Once two such copies of three went unnoticed: strict ids came again, an acknowledged tag was lost,
and the one intact node followed the copies for seconds and ended as by a bug. test_restored_data.py
has the copies that a running node notices.
"""

# Shows attack-disk.

import os
import shutil
import signal
import time

import pytest

from cluster import FAST
from node import Node
from wait import wait_until

EXIT_REFUSED = 76
EXIT_WITNESS = 78
ENDS_S = 10
KNOWN_S = 2  # what nodes know of each other is on their disks after that


def keep(node, name):
    """A copy of the node's data directory as it is now."""
    copy = os.path.join(node.directory, name)
    shutil.copytree(node.data_dir, copy)
    return copy


def keep_live(node):
    """The same of a node that runs: a snapshot of its disk."""
    node.pause()
    copy = keep(node, "older")
    node.resume()
    return copy


def put_back(node, copy):
    shutil.rmtree(node.data_dir)
    shutil.copytree(copy, node.data_dir)


def take_strict(node, tag, count):
    answer = node.get(f"/api/segment/get/{tag}?count={count}")
    assert answer.status == 200, answer
    return [int(line) for line in answer.text.split()]


def shown(node):
    rows = node.get_json("/api/tags?consistency=local")["tags"]
    return {row["tag"]: int(row["max_id"]) for row in rows}


class Scene:
    """Three nodes, strict ids and a tag that were acknowledged after some of them were copied."""

    def __init__(self, make_cluster, tag, copied, led_by_a_copy):
        self.cluster = make_cluster(settings=FAST)
        self.strict = tag + ".strict"
        self.since = tag + ".since"
        self.cluster.create_tag(self.strict, mode="strict")
        leader = self.cluster.leader()
        take_strict(leader, self.strict, 50)
        self.cluster.wait_applied()
        order = sorted(self.cluster.nodes, key=lambda node: (node is leader) != led_by_a_copy)
        self.copied, self.intact = order[:copied], order[copied:]
        self.older = {node: keep_live(node) for node in self.copied}
        leader = self.cluster.leader()
        self.ids = take_strict(leader, self.strict, 500)
        self.cluster.create_tag(self.since, leader)
        self.cluster.wait_applied()

    def stop(self, how):
        """All nodes end; the copies take the place of the newest data, which are kept."""
        time.sleep(KNOWN_S)
        if how == "stop":
            self.cluster.stop_all()
        else:
            self.cluster.kill_all()
        self.newest = {node: keep(node, "newest") for node in self.copied}
        for node in self.copied:
            put_back(node, self.older[node])

    def expect_kept(self, node):
        rows = shown(node)
        assert self.since in rows, "an acknowledged tag is gone"
        assert rows[self.strict] > max(self.ids), "ids would come again"

    def expect_refused(self, node):
        assert node.wait_exit(ENDS_S) == EXIT_REFUSED, node.log_tail()
        assert "the data directory is an older copy" in node.log()

    def expect_whole(self):
        """The newest data are put back, and everything goes on."""
        for node in self.copied:
            put_back(node, self.newest[node])
            node.start()
        self.cluster.wait_ready()
        ids = take_strict(self.cluster.leader(), self.strict, 10)
        assert min(ids) > max(self.ids)
        self.cluster.wait_applied()
        for node in self.cluster.nodes:
            self.expect_kept(node)


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("led_by_a_copy", [False, True], ids=["intact_led", "a_copy_led"])
# Shows P1-intact.
def test_two_copies_and_all_restarted(make_cluster, tag, how, led_by_a_copy):
    """The copies are refused before they are followed; the intact node keeps what it has, and
    serves again once a majority that is no copy is there."""
    scene = Scene(make_cluster, tag, 2, led_by_a_copy)
    scene.stop(how)
    intact = scene.intact[0]
    for node in scene.copied:
        node.expect_log("level=error")
    for node in scene.cluster.nodes:
        node.start()
    for node in scene.copied:
        scene.expect_refused(node)
    wait_until(intact.serves, 10, "it answers")
    scene.expect_kept(intact)
    assert intact.cluster_status()["leader_id"] in (None, "0", 0), intact.cluster_status()
    for node in scene.copied:  # and they refuse themselves from now on
        node.start()
        assert node.wait_exit(ENDS_S) == EXIT_REFUSED
    scene.expect_whole()
    assert intact.alive


@pytest.mark.parametrize("led_by_a_copy", [False, True], ids=["intact_led", "a_copy_led"])
# Shows P1-older.
def test_one_copy_and_all_restarted(make_cluster, tag, led_by_a_copy):
    """The others serve all the time."""
    scene = Scene(make_cluster, tag, 1, led_by_a_copy)
    scene.stop("stop")
    scene.copied[0].expect_log("level=error")
    for node in scene.cluster.nodes:
        node.start()
    scene.expect_refused(scene.copied[0])
    scene.cluster.wait_ready()
    assert min(take_strict(scene.cluster.leader(), scene.strict, 10)) > max(scene.ids)
    for node in scene.intact:
        scene.expect_kept(node)
    scene.expect_whole()


def start_copies(scene):
    for node in scene.copied:
        node.start()
    leader = scene.cluster.wait_leader(among=scene.copied)
    assert scene.since not in shown(leader)


def term_of(node):
    return int(node.cluster_status()["term"])


def hand_over_until(cluster, nodes, term):
    """These nodes lead in turn until they are in such a term."""
    leader = cluster.wait_leader(among=nodes)
    while term_of(leader) < term:
        to = next(node for node in nodes if node is not leader)
        assert leader.http("POST", "/api/cluster/leader", {"id": to.id}).status == 200
        leader = cluster.wait_leader(among=nodes)


# Shows P1-intact.
def test_two_copies_start_before_the_intact_node(make_cluster, tag):
    """Alone they cannot know, elect each other and serve: ids come again, which nobody can
    prevent. The intact node ends both when it comes."""
    scene = Scene(make_cluster, tag, 2, True)
    scene.stop("stop")
    intact = scene.intact[0]
    for node in scene.copied:
        node.expect_log("level=error")
    start_copies(scene)
    again = take_strict(scene.copied[0], scene.strict, 10)
    assert set(again) & set(scene.ids)
    intact.start()
    for node in scene.copied:
        scene.expect_refused(node)
    wait_until(intact.serves, 10, "it answers")
    scene.expect_kept(intact)
    scene.expect_whole()
    assert intact.alive


# Shows P1-witness.
def test_the_witness_of_two_copies_that_went_on(make_cluster, tag):
    """They were started again after they had a log as long as the intact node's, and terms as high:
    what they say of themselves tells nothing any more. Their log does: the intact node changes
    nothing, follows nobody, and ends with a code and words of its own. (Should both logs have an
    entry of one term at the intact one's last index, they pass for one log, and its state tells.
    So the last terms of the intact one are ones that the copies come to much later.)"""
    scene = Scene(make_cluster, tag, 2, True)
    intact = scene.intact[0]
    hand_over_until(scene.cluster, scene.cluster.nodes, term_of(intact) + 8)
    scene.cluster.wait_applied()
    newest = term_of(intact)
    scene.stop("stop")
    for _ in range(3):
        start_copies(scene)
        for number in range(20):
            scene.cluster.create_tag(f"{tag}.{number}.{time.time_ns()}", scene.copied[0])
        scene.cluster.kill_all()
    start_copies(scene)
    hand_over_until(scene.cluster, scene.copied, newest + 12)
    scene.cluster.kill_all()
    start_copies(scene)
    intact.expect_log("the node cannot go on")
    for _ in range(2):
        size = len(intact.log())
        intact.start()
        assert intact.wait_exit(ENDS_S) == EXIT_WITNESS, intact.log()[size:]
        said = intact.log()[size:]
        assert "err=contradicted" in said and "exit_code=78" in said, said
        assert "than the one committed here" in said, said
    for node in scene.copied:  # or the intact one has said before it ended that they are copies
        node.expect_log("a peer refuses this node|the node cannot go on")
        node.leaving()
        node.process.send_signal(signal.SIGTERM)
        assert node.wait_exit() in (0, EXIT_REFUSED)
    intact.start()
    wait_until(intact.serves, 10, "it answers")
    scene.expect_kept(intact)
    scene.expect_whole()
    assert intact.alive


# Shows P1-older.
def test_a_copy_of_an_earlier_start_that_was_started_as_often(make_cluster, tag):
    """The count of its starts is as high as that of the original, or higher: the random half of
    each tells them apart."""
    cluster = make_cluster(settings=FAST)
    node = cluster.followers()[0]
    older = keep_live(node)
    for _ in range(2):
        node.kill9()
        node.start().wait_ready()
        cluster.wait_leader()
    time.sleep(KNOWN_S)
    cluster.kill_all()
    put_back(node, older)
    node.expect_log("level=error")
    for _ in range(4):  # alone: it reaches nobody, and nobody refuses it
        node.start()
        wait_until(node.serves, 10, "it answers")
        node.kill9()
    for each in cluster.nodes:
        each.start()
    assert node.wait_exit(ENDS_S) == EXIT_REFUSED, node.log_tail()
    cluster.wait_ready()


# Shows P1-older.
def test_a_clone_of_a_node_that_runs_costs_it_nothing(make_cluster, tag):
    """A clone of its machine is started. As a later start of the node it would be believed, and the
    original be taken for the older copy. Instead nobody lets it in while the original is there;
    and once that goes on, the clone is the older copy."""
    cluster = make_cluster(settings=FAST)
    cluster.create_tag(tag, mode="strict")
    node = cluster.followers()[0]
    clone = Node(node.id, os.path.join(node.directory, "clone"), node.settings)
    clone.members = node.members
    clone.settings["peer-listen"] = clone.peer_address
    shutil.copytree(keep_live(node), clone.data_dir)
    refusal = "another process of this node is connected|the data directory is an older copy"
    try:
        clone.start()
        clone.wait_log(refusal, ENDS_S)
        ids = take_strict(node, tag, 10)
        assert clone.wait_exit(ENDS_S) == EXIT_REFUSED, clone.log_tail()
        assert "peer connected" not in clone.log()
    finally:
        clone.end()
    time.sleep(KNOWN_S)
    assert min(take_strict(node, tag, 10)) > max(ids)
    assert all(each.alive and each.process.poll() is None for each in cluster.nodes)
