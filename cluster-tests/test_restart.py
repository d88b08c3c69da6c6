"""Stops of the whole cluster: what goes on afterwards lies above everything handed out before."""

import signal

import pytest

from checker import History
from client import tag_path
from load import mixed_load, wait_taken

TAGS = ["plain", "with.dots.in", "with/slash", "größe"]


def take_everywhere(cluster, history, count=50):
    for node in cluster.nodes:
        for tag in TAGS:
            answer = node.get(f"/api/segment/get/{tag_path(tag)}?count={count}&format=range")
            assert answer.status == 200, answer
            track = history.track(f"taker{len(history.tracks)}", node.id, tag)
            for line in answer.text.splitlines():
                track.add(*map(int, line.split()), answer)


def check_rows(cluster, history):
    """Every acknowledged tag is there, and its max_id lies above all that was handed out."""
    for node in cluster.nodes:
        for number, tag in enumerate(TAGS):
            row = node.get_json(f"/api/tags/{tag_path(tag)}")
            assert row["step"] == 10 * (number + 1)
            assert int(row["max_id"]) > history.highest(tag)


@pytest.mark.parametrize("how", ["kill", "stop"])
# Shows P1-kill.
def test_all_nodes_go_and_come_back(make_cluster, how):
    cluster = make_cluster()
    for number, tag in enumerate(TAGS):
        cluster.create_tag(tag, step=10 * (number + 1))
    history = History()
    highest = dict.fromkeys(TAGS, 0)
    for _ in range(3):
        take_everywhere(cluster, history)
        for tag in TAGS:
            assert history.highest(tag) > highest[tag]
            highest[tag] = history.highest(tag)
        before = {tag: highest[tag] for tag in TAGS}
        if how == "kill":
            cluster.kill_all()
        else:
            cluster.stop_all()
        cluster.start()
        check_rows(cluster, history)
        # Memory is gone, so every node's next ids come from new segments, above all of the old.
        for node in cluster.nodes:
            for tag in TAGS:
                answer = node.get(f"/api/segment/get/{tag_path(tag)}")
                assert answer.status == 200
                assert int(answer.body) > before[tag]
                track = history.track(f"after{len(history.tracks)}", node.id, tag)
                track.add(int(answer.body), int(answer.body), answer)
    history.check()


# Shows P1-kill.
def test_all_killed_under_load(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        for _ in range(3):
            wait_taken(load, 40_000)
            cluster.kill_all()
            cluster.start()
        wait_taken(load, 40_000)
        load.finish()


def test_rolling_restart_under_load(make_cluster, tag):
    """One node after the other, cleanly: the clients of the others see nothing."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    history = History()
    with mixed_load(cluster, history, tag) as load:
        wait_taken(load, 40_000)
        for node in cluster.nodes:
            node.stop()
            wait_taken(load, 10_000)
            node.start().wait_ready()
            wait_taken(load, 10_000)
        load.finish()


# Shows P5-kill.
def test_acknowledged_tags_survive_a_kill_of_all(make_cluster):
    """Each tag that was acknowledged right before the kill is there afterwards."""
    cluster = make_cluster()
    made = []
    for round_number in range(3):
        for number in range(20):
            name = f"acked-{round_number}-{number}"
            cluster.create_tag(name, node=cluster.nodes[number % 3], max_id=number + 100)
            made.append((name, number + 100))
        cluster.kill_all()
        cluster.start()
        names = {row["tag"] for row in cluster.nodes[round_number].get_json("/api/tags")["tags"]}
        assert names == {name for name, _ in made}
        for name, max_id in made[-5:]:
            assert int(cluster.nodes[0].get_json(f"/api/tags/{name}")["max_id"]) == max_id


def test_all_nodes_stopped_at_once_do_not_pass_leadership_round(make_cluster, tag):
    """Each hands it over to another that stops, too."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    for _ in range(3):
        for node in cluster.nodes:  # so that each has something to give back
            assert node.get(f"/api/segment/get/{tag}").status == 200
        before = cluster.leader().cluster_status()["term"]
        for node in cluster.nodes:
            node.leaving()
            node.process.send_signal(signal.SIGTERM)
        assert [node.wait_exit() for node in cluster.nodes] == [0, 0, 0]
        for node in cluster.nodes:
            node.start()
        cluster.wait_ready()
        assert cluster.leader().cluster_status()["term"] <= before + 30
