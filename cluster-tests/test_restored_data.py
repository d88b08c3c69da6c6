"""Data directories put back to older copies, as from a backup or a snapshot of a disk.

Such a node has forgotten votes and entries that it acknowledged. The others remember, refuse it,
and it ends with an exit code and words of its own. Where nobody can remember, because all nodes
were put back, ids would come twice: there the operator raises every max_id first, which is tested
as docs/failure-model.md tells it. test_put_back.py has the copies that were taken while all ran.
"""

import os
import re
import shutil

import pytest

from checker import History
from cluster import FAST
from load import mixed_load, wait_taken
from recovery import done, refused, tool
from snowflakes import SPACE, wait_served
from snowflakes import take as take_snowflakes
from wait import wait_until

EXIT_REFUSED = 76
CONFIG, DATA = 64, 65
ENDS_S = 10


def copy_data(node):
    """The node's data directory as it is now; its process must be gone, or stand still."""
    copy = os.path.join(node.directory, "copy")
    shutil.copytree(node.data_dir, copy)
    return copy


def put_back(node, copy):
    shutil.rmtree(node.data_dir)
    shutil.copytree(copy, node.data_dir)


def change(node, count):
    """So many entries of the log, each acknowledged."""
    for number in range(count):
        answer = node.http("PUT", "/api/tags/changing", {"description": f"change {number}"})
        assert answer.status in (200, 201), answer


def expect_refused(cluster, node):
    """The node is started, and ends by itself because it was refused."""
    node.expect_log("level=error")
    size = len(node.log())
    node.start()
    assert node.wait_exit(ENDS_S) == EXIT_REFUSED, node.log()[size:]
    assert "the data directory is an older copy" in node.log()[size:], node.log()[size:]
    said = "the data directory of a peer is an older copy"
    assert any(said in other.log() for other in cluster.running()), "nobody says why"


@pytest.mark.parametrize("which", ["leader", "follower"])
# Shows P1-older, P5-minority, lesson-old-backup.
def test_an_older_copy_of_one_node(make_cluster, tag, which):
    """Stopped, copied, started, run on, stopped, put back."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=10)
    node = cluster.leader() if which == "leader" else cluster.followers()[0]
    history = History()
    with mixed_load(cluster, history, tag, rate=1000.0) as load:
        wait_taken(load, 2_000)
        node.stop()
        older = copy_data(node)
        node.start().wait_ready()
        wait_taken(load, 2_000)
        change(node, 20)
        node.stop()
        newest = os.path.join(node.directory, "newest")
        shutil.copytree(node.data_dir, newest)
        put_back(node, older)
        for _ in range(5):
            expect_refused(cluster, node)
        wait_taken(load, 2_000)
        # Its vote does not count: with one of the other two gone nobody leads.
        survivor, gone = cluster.others(node)
        load.stop()
        gone.kill9()
        node.start()
        assert node.wait_exit(ENDS_S) == EXIT_REFUSED
        wait_until(survivor.sees_no_leader, 10, "no leader is known")
        put_back(node, older)
        node.start()
        assert node.wait_exit(ENDS_S) == EXIT_REFUSED
        assert survivor.http("PUT", "/api/tags/more?timeout_ms=300", {}).status in (400, 503)
        gone.start().wait_ready()
        # The newest copy is as good as the directory itself.
        put_back(node, newest)
        node.start().wait_ready()
        cluster.wait_applied()
        load.finish()


# Shows P1-older.
def test_a_copy_of_the_life_that_was_the_last(make_cluster):
    """A snapshot of the disk of a node that runs on, and is killed later: the count of its starts
    tells nothing, but the leader knows how far it had acknowledged."""
    cluster = make_cluster()
    node = cluster.followers()[0]
    change(cluster.leader(), 10)
    node.pause()
    older = copy_data(node)
    node.resume()
    change(cluster.leader(), 10)
    cluster.wait_applied()
    node.kill9()
    put_back(node, older)
    expect_refused(cluster, node)


# Shows P1-older.
def test_an_older_copy_after_all_were_stopped(make_cluster):
    """Nobody's memory is left but what is on the disks: which starts of each other they met."""
    cluster = make_cluster()
    node = cluster.followers()[0]
    node.stop()
    older = copy_data(node)
    node.start().wait_ready()
    change(node, 10)
    cluster.stop_all()
    put_back(node, older)
    for other in cluster.nodes:
        if other is not node:
            other.start()
    cluster.wait_ready()
    expect_refused(cluster, node)


# Shows P1-intact.
def test_the_mark_is_taken_off_and_the_cluster_decides_again(make_cluster):
    """Whoever refused it refuses it again; while nobody is there who knows, it waits for a majority
    instead of ending at once."""
    cluster = make_cluster()
    node = cluster.followers()[0]
    readmit = ["readmit", "--data-dir", node.data_dir]
    uid = node.cluster_status()["uid"]
    change(node, 5)
    node.stop()
    assert "it is not marked" in refused(DATA, *readmit, "--yes")
    older = copy_data(node)
    node.start().wait_ready()
    change(node, 5)
    assert "is in use by process" in refused(DATA, *readmit, "--yes")
    node.stop()
    put_back(node, older)
    expect_refused(cluster, node)
    # Nothing but the uid takes it off.
    for typed in "", "\n", "leafd\n", uid[:-1] + "\n":
        assert "was not typed" in refused(CONFIG, *readmit, typed=typed)
    assert "unknown argument" in tool(*readmit, "--force").stderr
    assert "--data-dir" in refused(CONFIG, "readmit")
    expect_refused(cluster, node)
    said = done(*readmit, typed=f"{uid}\n")
    assert f"node {node.id} of cluster leafd, uid {uid}: marked as an older copy" in said
    shown = re.search(r"  (start=2 term=\d+ last=\d+) last_term=\d+ vote=\d+\n", said)
    assert any(shown[1] in other.log() for other in cluster.others(node)), said
    assert "it is not marked" in refused(DATA, *readmit, "--yes")
    # Those who know refuse it again, and mark it again.
    expect_refused(cluster, node)
    for other in cluster.others(node):
        other.stop()
    node.start()
    assert node.wait_exit(ENDS_S) == EXIT_REFUSED
    done(*readmit, "--yes")
    node.start()
    wait_until(node.serves, 10, "it is up")
    assert node.sees_no_leader()
    node.kill9()


@pytest.mark.parametrize("how", ["stop", "kill"])
# Shows P1-intact.
def test_the_newest_copy_is_let_in(make_cluster, tag, how):
    """No false alarm: moved to another disk, or put back as it was."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    for node in cluster.nodes:
        change(node, 5)
        node.stop() if how == "stop" else node.kill9()
        put_back(node, copy_data(node))
        node.start().wait_ready()
        cluster.wait_leader()
        change(node, 5)
        cluster.wait_applied()
    cluster.kill_all()
    cluster.start()
    cluster.wait_applied()


# Shows backup-copies.
def test_tags_are_read_from_one_copy_alone(make_cluster, tag):
    """The copy of any one node is enough to make a new cluster of: it shows what there was, and
    hands out nothing."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=10)
    cluster.create_tag(tag + ".strict", mode="strict")
    for node in cluster.nodes:
        assert node.get(f"/api/segment/get/{tag}?count=50").status == 200
    cluster.wait_applied()
    rows = cluster.leader().get_json("/api/tags")["tags"]
    cluster.stop_all()
    node = cluster.nodes[1]
    put_back(node, copy_data(node))
    node.start()
    wait_until(node.serves, 10, "it answers")
    assert node.get("/readyz").status == 503
    shown = node.get_json("/api/tags?consistency=local")["tags"]
    assert {row["tag"] for row in shown} == {row["tag"] for row in rows}
    for name in (tag, tag + ".strict"):
        answer = node.get(f"/api/segment/get/{name}?timeout_ms=300")
        assert answer.status == 503 and answer.code in ("no_leader", "timeout"), answer


@pytest.mark.bound(90)
# Shows backup-copies, lesson-old-backup.
def test_all_nodes_put_back_and_max_id_raised(make_cluster, tag):
    """The whole cluster from a backup, an hour of ids later. Nothing in it knows of those ids, so
    they would come again; with every max_id raised before clients are let in, none does. Snowflake
    ids need nothing: the clocks are past all that was stamped."""
    cluster = make_cluster(settings=FAST)
    strict = tag + ".strict"
    cluster.create_tag(tag, step=10)
    cluster.create_tag(strict, mode="strict")
    history = History()

    def take_all(who, count):
        for node in cluster.nodes:
            for name in (tag, strict):
                answer = node.get(f"/api/segment/get/{name}?count={count}&format=range")
                assert answer.status == 200, answer
                track = history.track(who, node.id, name)
                for line in answer.text.splitlines():
                    track.add(*map(int, line.split()), answer)
            take_snowflakes(node, history.track(who, node.id, SPACE), 100, "range")

    wait_served(cluster.nodes)
    take_all("before", 50)
    cluster.stop_all()
    copies = {node: copy_data(node) for node in cluster.nodes}
    cluster.start()
    wait_served(cluster.nodes)
    take_all("since", 5000)
    highest = {name: history.highest(name) for name in (tag, strict)}
    cluster.kill_all()

    for node, copy in copies.items():
        put_back(node, copy)
    cluster.start()
    for row in cluster.nodes[0].get_json("/api/tags")["tags"]:
        assert int(row["max_id"]) <= highest[row["tag"]], "it knows nothing of what was handed out"
    raised = [{"tag": name, "max_id": str(last + 1_000_000)} for name, last in highest.items()]
    answer = cluster.nodes[0].http("POST", "/api/tags", raised)
    assert answer.status == 200, answer

    def all_show_it():
        for node in cluster.nodes:
            rows = node.get_json("/api/tags?consistency=local")["tags"]
            if any(int(row["max_id"]) <= highest[row["tag"]] for row in rows):
                return False
        return True

    wait_until(all_show_it, 10, "every node knows the raised max_id")
    wait_served(cluster.nodes)
    take_all("after", 500)
    assert history.check() > 0
    cluster.wait_applied()
