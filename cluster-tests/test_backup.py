"""Backups under load, restores while clients keep ids from after the backup, lost majorities."""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from checker import History
from clockfile import noon_s, own_clocks
from cluster import FAST, Cluster
from load import mixed_load, wait_taken
from node import ROOT, leafd_path
from recovery import (
    UNHEARD,
    done,
    join_the_rest,
    place,
    refused,
    tags_of,
    take_backup,
    tool,
    unheard,
)
from snowflakes import SPACE, wait_served
from snowflakes import take as take_snowflakes
from strict_load import ask
from upgrade import level_of
from wait import wait_until

MARGIN = 10_000_000
SHORT_LOG = {**FAST, "raft-snapshot-entries": 64}
CONFIG = 64
DATA = 65


class Tracks:
    """Of a client that asks one node after the other."""

    def __init__(self, history):
        self.history = history
        self.by_place = {}

    def of(self, node, tag):
        place = (node.id, tag)
        if place not in self.by_place:
            self.by_place[place] = self.history.track("client", node.id, tag)
        return self.by_place[place]


def take(node, tag, count, tracks):
    answer = node.get(f"/api/segment/get/{tag}?count={count}&format=range&timeout_ms=10000")
    assert answer.status == 200, answer
    for line in answer.text.splitlines():
        first, last = map(int, line.split())
        tracks.of(node, tag).add(first, last, answer)


def lose_everything(cluster):
    """All processes are killed, and their disks are gone."""
    cluster.kill_all()
    for node in cluster.nodes:
        shutil.rmtree(node.data_dir)


class Changes(threading.Thread):
    """Makes tags, and remembers those that were acknowledged, with their numbers in order."""

    def __init__(self, cluster, prefix):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.prefix = prefix
        self.stopping = threading.Event()
        self.made = 0

    def run(self):
        while not self.stopping.is_set():
            node = random.choice(self.cluster.nodes)
            try:
                name = f"{self.prefix}{self.made}"
                answer = node.http("PUT", f"/api/tags/{name}?timeout_ms=500", {}, timeout=5)
            except OSError:
                self.stopping.wait(0.02)
                continue
            if answer.status in (200, 201):
                self.made += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join(30)


# Shows backup-all.
def test_backups_while_leaders_are_killed(make_cluster, tag, tmp_path):
    """Each that ends well is whole, and has all that was acknowledged before it was asked for."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=100)
    history = History()
    taken = 0
    with mixed_load(cluster, history, tag, rate=3000.0) as load, Changes(cluster, "c-") as changes:
        for _ in range(3):
            leader = cluster.leader()
            killer = threading.Timer(0.02, leader.kill9)
            killer.start()
            for number in range(12):
                node = cluster.nodes[number % 3]
                made, highest = changes.made, history.highest(tag)
                try:
                    answer = take_backup(node, tmp_path / "backup", "?timeout_ms=5000")
                except OSError:
                    assert node is leader, f"{node} was not killed"
                    continue
                if answer.status != 200:
                    assert answer.status == 503, answer
                    continue
                said = done("restore", tmp_path / "backup", "--data-dir", tmp_path / "none",
                            "--node-id", 1, "--peer-address", "127.0.0.1:1", "--raise-ids", 0,
                            "--dry-run")
                tags = tags_of(said)
                missing = [n for n in range(made) if f"c-{n}" not in tags]
                assert not missing, f"{node}: {missing} of {made}"
                assert tags[tag][1] > highest, f"{node}: {tags[tag]}, {highest} was handed out"
                taken += 1
            killer.join()
            leader.start().wait_ready()
        wait_taken(load, 1_000)
        load.finish()
    assert taken >= 12, taken
    assert not os.path.exists(tmp_path / "none")


# Shows backup-ids, lesson-old-backup.
def test_an_old_backup_is_restored_and_no_id_comes_twice(make_cluster, tag, tmp_path):
    """Clients keep ids, of all three kinds, from after the backup."""
    cluster = make_cluster()
    history = History()
    strict = f"{tag}-strict"
    cluster.create_tag(tag, step=1000)
    cluster.create_tag(strict, mode="strict")
    cluster.create_tag(f"{tag}-quiet", max_id=77)
    tracks = Tracks(history)
    wait_served(cluster.nodes)

    def take_all(rounds):
        for number in range(rounds):
            node = cluster.nodes[number % 3]
            take(node, tag, 500, tracks)
            take(node, strict, 7, tracks)
            take_snowflakes(node, tracks.of(node, SPACE), 100, "range")

    take_all(6)
    key = {"Idempotency-Key": "a-client's"}
    before = cluster.nodes[0].http("GET", f"/api/segment/get/{strict}?count=3", headers=key).text
    assert take_backup(cluster.followers()[0], tmp_path / "backup").status == 200
    take_all(30)
    lose_everything(cluster)
    first = cluster.nodes[1]
    said = done("restore", tmp_path / "backup", *place(first), "--raise-ids", MARGIN)
    assert tags_of(said)[tag][0] == tags_of(said)[tag][1] + MARGIN
    assert f"more than {MARGIN} were granted after the backup" in said
    join_the_rest(cluster, first)
    wait_served(cluster.nodes)
    take_all(12)
    history.check()
    for node in cluster.nodes:
        assert node.get_json(f"/api/tags/{tag}-quiet")["max_id"] == str(77 + MARGIN)
        again = node.http("GET", f"/api/segment/get/{strict}?count=3", headers=key)
        assert (again.status, again.text) == (200, before)
        assert node.get_json(f"/api/tags/{strict}")["changing"] is False
    # It is a cluster as any other: it outlives a node, and a start of all.
    first.kill9()
    take(cluster.nodes[0], tag, 10, tracks)
    first.start().wait_ready()
    cluster.stop_all()
    for node in cluster.nodes:
        node.start()
    cluster.wait_ready()
    take_all(3)
    history.check()


SHAPES = {"day": "D{year}-{month}-{day}/{id:5}", "tokyo": "T{year@Asia/Tokyo}{month}{day}{id36:4}",
          "year": "INV-{year@Europe/Berlin}-{id:6}", "plain": "P{id:6}{luhn}",
          "secret": "S{secret:6}", "rekeyed": "K{key}-{secret:6}"}


def take_texts(node, name, count):
    answer = node.get(f"/api/segment/get/{name}?count={count}&timeout_ms=10000")
    assert answer.status == 200, answer
    return answer.text.split("\n")[:-1]


def old_cluster_with_shapes(make_cluster, path):
    """One node whose clock is a day behind gives texts of every kind; then comes a backup, then
    today, and the next key of one. Its disk is lost. (cluster, texts, today)."""
    cluster = make_cluster(size=1, start=False)
    node = cluster.nodes[0]
    clocks = own_clocks(cluster)
    noon = noon_s()
    clocks[1].set(noon - 26 * 3600)
    cluster.start()
    for name, shape in SHAPES.items():
        mode = "strict" if "year" in shape else "trend"
        answer = node.http("PUT", f"/api/tags/{name}", {"mode": mode, "shape": shape, "step": 10})
        assert answer.status == 201, answer
    old = [text for name in SHAPES for text in take_texts(node, name, 30)]
    yesterday = take_texts(node, "day", 1)[0].split("/")[0]
    assert take_backup(node, path).status == 200
    clocks[1].set(noon)
    wait_until(lambda: not take_texts(node, "day", 1)[0].startswith(yesterday), 60, "a new day")
    answer = node.http("PUT", "/api/tags/rekeyed?wait=all", {"key": 1})
    assert answer.status == 200, answer
    old += [text for name in SHAPES for text in take_texts(node, name, 900)]
    lose_everything(cluster)
    clocks[1].set(noon)
    return cluster, old, time.strftime("%Y-%m-%d", time.gmtime(time.time() + noon))


@pytest.mark.parametrize("raised", [["--raise-ids", 1000],
                                    ["--raise-ids", 1000, "--raise-time", "2d"]])
# Shows backup-ids.
def test_no_text_comes_twice_after_a_restore(make_cluster, tmp_path, raised):
    """Of shapes of every kind: also of a day that began after the backup, and of a key that was
    made after it."""
    cluster, old, today = old_cluster_with_shapes(make_cluster, tmp_path / "backup")
    node = cluster.nodes[0]
    said = done("restore", tmp_path / "backup", *place(node), *raised, prefix=node.prefix)
    assert "by key 2: key 1 may have been in force since" in said
    node.start().wait_ready()
    new = [text for name in SHAPES for text in take_texts(node, name, 900)]
    assert take_texts(node, "day", 1)[0].split("/")[0][1:] == today
    answer = node.http("PUT", "/api/tags/rekeyed", {"key": 1})
    assert (answer.status, answer.code) == (409, "conflict"), answer
    new += take_texts(node, "rekeyed", 900)
    assert len(old) + len(new) == len(set(old + new)), sorted(set(old) & set(new))[:20]
    key_0 = next(text for text in old if text.startswith("K0-"))
    assert node.get(f"/api/segment/decode/rekeyed?text={key_0}").json()["granted"] is True


def test_a_raise_that_is_larger_than_a_period(make_cluster, tmp_path):
    """It does not lead into the next one: there is no number left until that begins, and the tag
    is named with the way on. By time the tag keeps most of its numbers."""
    cluster, old, today = old_cluster_with_shapes(make_cluster, tmp_path / "backup")
    node = cluster.nodes[0]
    arguments = ["restore", tmp_path / "backup", *place(node), "--raise-ids", 1000000000]
    said = done(*arguments, prefix=node.prefix)
    year = today[:4]
    assert f'"year" has no number of {year} left' in said and "force=1" in said, said
    assert "INV-3" not in said
    node.start().wait_ready()
    answer = node.get("/api/segment/get/year")
    assert (answer.status, answer.code) == (409, "exhausted"), answer
    answer = node.http("PUT", "/api/tags/year?force=1", {"max_id": f"{year}002000"})
    assert answer.status == 200, answer
    assert take_texts(node, "year", 1) == [f"INV-{year}-002000"]
    assert not set(old) & set(take_texts(node, "year", 50))


def test_a_restored_node_alone_needs_no_more_flags(make_cluster, tag, tmp_path):
    cluster = make_cluster(size=1)
    cluster.create_tag(tag, max_id=5)
    assert take_backup(cluster.nodes[0], tmp_path / "backup").status == 200
    lose_everything(cluster)
    node = cluster.nodes[0]
    done("restore", tmp_path / "backup", *place(node), "--raise-ids", 100)
    node.start().wait_ready()
    assert node.get(f"/api/segment/get/{tag}").text == "105"


def lose_two(cluster, tag, history):
    """Under load the leader and another lose their disks; the survivor is stopped."""
    with mixed_load(cluster, history, tag, rate=3000.0) as load:
        wait_taken(load, 3_000)
        leader = cluster.leader()
        survivor, other = cluster.others(leader)
        for node in (leader, other):
            node.kill9()
            shutil.rmtree(node.data_dir)
        load.stop()
    survivor.kill9()
    return survivor


# Shows backup-ids.
def test_a_lost_majority_is_recovered_from_the_one_that_is_left(make_cluster, tag, tmp_path):
    cluster = make_cluster()
    cluster.create_tag(tag, step=100)
    history = History()
    survivor = lose_two(cluster, tag, history)
    kept = survivor.data_dir
    made = str(tmp_path / "made")
    arguments = ["recover", "--data-dir", kept, "--out", made, "--raise-ids", MARGIN]
    dead = [node.id for node in cluster.nodes if node is not survivor]
    assert f"member {min(dead)} is neither here nor lost" in refused(CONFIG, *arguments, "--yes")
    for node_id in dead:
        arguments[1:1] = ["--lost", node_id]
    assert "was not typed" in refused(CONFIG, *arguments, typed="leafd\n")
    assert "was not typed" in refused(CONFIG, *arguments)
    assert not os.path.exists(made)
    uid = re.search(r"\(uid ([0-9a-f-]{36})\)", tool(*arguments, "--dry-run").stdout)[1]
    said = done(*arguments, typed=f"{uid}\n")
    assert "What may be lost" in said
    assert all(f"Node {node_id} is taken for lost" in said for node_id in dead)
    assert tags_of(said)[tag][0] == tags_of(said)[tag][1] + MARGIN
    assert "is not empty" in refused(DATA, *arguments, "--yes")
    survivor.data_dir = made
    join_the_rest(cluster, survivor)
    tracks = Tracks(history)
    for node in cluster.nodes:
        take(node, tag, 1000, tracks)
    history.check()
    # The survivor's directory is as it was.
    assert tags_of(done(*arguments[:-3], tmp_path / "again", "--raise-ids", 0, "--yes"))[tag]


# Shows backup-old-nodes.
def test_old_nodes_that_come_back_change_nothing(make_cluster, tag, tmp_path):
    """A majority of the old cluster is started again beside the new one, with its old settings:
    the first node of the new one has the address that they know."""
    cluster = make_cluster()
    cluster.create_tag(tag, max_id=100)
    assert take_backup(cluster.leader(), tmp_path / "backup").status == 200
    cluster.create_tag(f"{tag}-later")
    cluster.wait_applied()
    cluster.kill_all()
    first, *old = cluster.nodes
    first.data_dir = str(tmp_path / "made")
    done("restore", tmp_path / "backup", *place(first), "--raise-ids", MARGIN)
    first.start().wait_ready()
    for node in old:
        node.expect_log("level=error")
        node.start()
    # The old ones have a majority of theirs, and its leader.
    old_leader = cluster.wait_leader(among=old)
    refusal = "the node belongs to another cluster, with another uid"
    wait_until(lambda: all(refusal in node.log() for node in old), 10, "both are refused by uid")
    for _ in range(20):
        status = first.cluster_status()
        assert (status["state"], status["leader_id"]) == ("leader", 1), status
        assert [member["id"] for member in status["members"]] == [1], status
        change = first.http("PUT", f"/api/tags/{tag}", {"description": "of the new one"})
        assert change.status == 200, change
    assert int(first.get(f"/api/segment/get/{tag}").text) >= 100 + MARGIN
    assert first.get(f"/api/tags/{tag}-later").code == "unknown_tag"
    assert old_leader.get_json(f"/api/tags/{tag}")["description"] == ""


def test_a_node_taken_for_lost_that_lives_changes_nothing(make_cluster, tag, tmp_path):
    """The operator was wrong: of the two that were named as lost one runs. It hands out what it
    holds, which the raise has left below, and no more; the new cluster does not know it."""
    cluster = make_cluster()
    cluster.create_tag(tag, step=500, max_step=500)
    history = History()
    tracks = Tracks(history)
    for node in cluster.nodes:
        take(node, tag, 10, tracks)
    cluster.wait_applied()
    dead = cluster.leader()
    survivor, alive = cluster.followers()
    alive.expect_log("no leader is known|a peer refuses this node")
    dead.kill9()
    shutil.rmtree(dead.data_dir)
    survivor.kill9()
    wait_until(alive.sees_no_leader, 10, "it is alone")
    made = str(tmp_path / "made")
    said = done("recover", "--data-dir", survivor.data_dir, "--out", made, "--raise-ids", MARGIN,
                "--lost", dead.id, "--lost", alive.id, "--yes")
    assert f"Node {alive.id} is taken for lost: it must never start again" in said
    survivor.data_dir = made
    survivor.start().wait_ready()
    refusal = r'"a peer refuses this node" .*code=other_birth'
    alive.wait_log(refusal, timeout=20)
    # What it holds is its own, and ends.
    taken = 0
    while (answer := alive.get(f"/api/segment/get/{tag}?timeout_ms=300")).status == 200:
        tracks.of(alive, tag).add(int(answer.text), int(answer.text), answer)
        taken += 1
        take(survivor, tag, 1, tracks)
    assert answer.code == "no_leader" and 0 < taken <= 2 * 500, (answer, taken)
    refused_put = alive.http("PUT", f"/api/tags/{tag}?timeout_ms=300", {"step": 7})
    assert (refused_put.status, refused_put.code) == (503, "no_leader"), refused_put
    # Started again it is no other than before.
    alive.kill9()
    start = len(alive.log())
    alive.start()
    alive.wait_log(refusal, timeout=20, start=start)
    wait_until(alive.serves, 10, "it is up")
    assert alive.get(f"/api/segment/get/{tag}?timeout_ms=300").status == 503
    status = survivor.cluster_status()
    assert status["leader_id"] == survivor.id
    assert [member["id"] for member in status["members"]] == [survivor.id]
    # It is put right as the tool says: with empty directories both join.
    alive.kill9()
    shutil.rmtree(alive.data_dir)
    survivor.stop()
    join_the_rest(cluster, survivor)
    for node in cluster.nodes:
        take(node, tag, 1000, tracks)
    history.check()


# Shows backup-survivor.
def test_a_survivor_that_knows_less_is_refused(make_cluster, tag, tmp_path):
    cluster = make_cluster(size=5)
    early, late, *rest = cluster.followers()
    rest.append(cluster.leader())
    early.kill9()
    cluster.create_tag(tag)
    cluster.wait_applied()
    late.kill9()
    cluster.kill_all()

    def recover(node, *others, lost=rest):
        arguments = ["recover", "--data-dir", node.data_dir, "--raise-ids", 1, "--yes",
                     "--out", str(tmp_path / f"made{node.id}")]
        for other in others:
            arguments += ["--compare", other.data_dir]
        for other in lost:
            arguments += ["--lost", other.id]
        return arguments

    assert "knows more" in refused(DATA, *recover(early, late))
    assert f"--lost {early.id}: its directory" in refused(
        CONFIG, *recover(late, early, lost=[early, *rest])
    )
    assert "--lost 9: no member" in refused(CONFIG, *recover(late, early), "--lost", 9)
    assert "is neither here nor lost" in refused(CONFIG, *recover(late, early, lost=rest[1:]))
    assert "of 3 of 5 voters are here, which is a majority" in refused(
        CONFIG, *recover(rest[0], early, late, lost=rest[1:])
    )
    assert not os.path.exists(tmp_path / f"made{early.id}")
    assert tag in tags_of(done(*recover(late, early)))


# Shows backup-survivor.
def test_a_directory_of_another_cluster_of_that_name_is_not_compared(make_cluster, tmp_path):
    one, other = make_cluster(), make_cluster()
    survivor = one.followers()[0]
    stranger = next(node for node in other.nodes if node.id != survivor.id)
    lost = [word for node in one.others(survivor) if node.id != stranger.id
            for word in ("--lost", node.id)]
    for node in (survivor, stranger):  # a directory that knows no birth tells nothing
        wait_until(lambda node=node: node.cluster_status()["uid"], 10, f"{node} knows its cluster")
    one.stop_all()
    other.stop_all()
    assert f"is of node {stranger.id} of cluster leafd (uid" in refused(
        DATA, "recover", "--data-dir", survivor.data_dir, "--compare", stranger.data_dir, *lost,
        "--raise-ids", 1, "--yes", "--out", tmp_path / "made"
    )


def test_what_became_of_backups_is_counted(make_cluster, tag, tmp_path):
    cluster = make_cluster(size=1)
    node = cluster.nodes[0]
    cluster.create_tag(tag)

    def figures():
        text = node.get("/metrics").text
        found = [
            re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
            for name in ('leafd_backups_total{result="done"}',
                         'leafd_backups_total{result="failed"}',
                         "leafd_backup_last_success_time_seconds", "leafd_backup_bytes")
        ]
        return [float(line[1]) if line else None for line in found]

    assert figures() == [0, 0, None, None]
    began = time.time()
    size = len(take_backup(node, tmp_path / "backup").body)
    wait_until(lambda: figures()[0] == 1, 10, "the backup is counted")
    done_total, failed, stamp, in_bytes = figures()
    assert (done_total, failed, in_bytes) == (1, 0, size)
    assert began - 1 <= stamp <= time.time() + 1
    assert os.path.getsize(tmp_path / "backup") == size


# --- backups that nobody takes, while others write ---


class Sip(threading.Thread):
    """A client of a backup that takes a few bytes a second: how that ends."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.leaving = threading.Event()
        self.whole = None
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(node.address)
        self.socket.settimeout(120)
        self.socket.sendall(b"GET /api/backup HTTP/1.1\r\nHost: leafd\r\n\r\n")
        assert self.socket.recv(12) == b"HTTP/1.1 200"
        self.start()

    def run(self):
        last = b""
        try:
            while not self.leaving.wait(0.25):
                data = self.socket.recv(16)
                if not data:
                    break
                last = (last + data)[-5:]
        except OSError:
            pass
        self.whole = last == b"0\r\n\r\n"

    def end(self):
        self.leaving.set()
        self.join(20)
        self.socket.close()


class Writers:
    """Clients of a strict tag, on these nodes: each id is an entry of the log."""

    def __init__(self, nodes, tag, count=6):
        self.stopping = threading.Event()
        self.ids = []
        self.faults = []
        self.threads = [
            threading.Thread(target=self.write, args=(nodes[i % len(nodes)], tag), daemon=True)
            for i in range(count)
        ]

    def write(self, node, tag):
        try:
            with node.connect() as connection:
                while not self.stopping.is_set():
                    answer = connection.request("GET", f"/api/segment/get/{tag}?timeout_ms=10000")
                    assert answer.status == 200, answer
                    self.ids.append(int(answer.text))
        except (AssertionError, OSError, ValueError) as error:
            self.faults.append(f"{node}: {error!r}")

    def wait_more(self, count, timeout):
        until = len(self.ids) + count
        wait_until(lambda: self.faults or len(self.ids) >= until, timeout, f"{count} more ids")
        assert not self.faults, self.faults

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(20)


def figure(node, name):
    text = node.get("/metrics").text
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])


def make_many_tags(node, count=40_000):
    """A state that is more than sockets hold."""
    for first in range(0, count, 10_000):
        tags = [{"tag": f"many-{i:06}-{'x' * 80}"} for i in range(first, first + 10_000)]

        def made(tags=tags):
            answer = node.http("POST", "/api/tags", tags, timeout=60)
            return answer if answer.status != 503 else None  # the leader changes meanwhile

        answer = wait_until(made, 30, "the tags are made")
        assert answer.status in (200, 201), answer


def expect_backups_to_end(cluster, tag):
    """Backups on all nodes at once: each ends to have the room that it keeps, no change is refused,
    no node ends."""
    failed = 'leafd_backups_total{result="failed"}'
    cluster.create_tag(tag, mode="strict")
    make_many_tags(cluster.leader())
    cluster.wait_applied()
    sips = [Sip(node) for node in cluster.nodes]
    with Writers(cluster.nodes, tag) as writers:
        for node in cluster.nodes:
            wait_until(lambda: writers.faults or figure(node, failed) == 1, 30, "it is given up")
            assert not writers.faults, writers.faults
            assert "changes need the room" in node.log()
            assert figure(node, "leafd_disk_low") == 0
        writers.wait_more(len(writers.ids), 30)
    assert not writers.faults and len(set(writers.ids)) == len(writers.ids)
    for sip, node in zip(sips, cluster.nodes):
        node.check_running()
        assert figure(node, "leafd_disk_low") == 0
        sip.end()
        assert not sip.whole
    assert len(cluster.nodes[0].get("/api/backup", timeout=60).body) > 2 << 20


# Shows backup-slow.
def test_backups_that_nobody_takes_end_before_changes_do(make_cluster, tag):
    """With a small map: the file stays below it."""
    cluster = make_cluster(settings={**FAST, "data-map-bytes": "64MiB"})
    expect_backups_to_end(cluster, tag)
    for node in cluster.nodes:
        assert os.path.getsize(os.path.join(node.data_dir, "db", "data.mdb")) < 60 << 20


@contextlib.contextmanager
def small_volumes(cluster):
    """Data directories on volumes of 112 MiB, before the nodes start."""
    volumes = [os.path.join(node.directory, "volume") for node in cluster.nodes]
    try:
        for node, volume in zip(cluster.nodes, volumes):
            os.mkdir(volume)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=112m", "leafd-test", volume],
                           check=True)
            node.data_dir = os.path.join(volume, "data")
        yield volumes
    finally:
        cluster.end()
        for volume in filter(os.path.ismount, volumes):
            subprocess.run(["umount", volume], check=True)


only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a volume")


@only_root
# Shows backup-slow.
def test_backups_that_nobody_takes_on_a_small_volume(make_cluster, tag):
    """With a map of more than there is disk."""
    cluster = make_cluster(settings={**FAST, "data-map-bytes": "16GiB"}, start=False)
    with small_volumes(cluster) as volumes:
        expect_backups_to_end(cluster.start(), tag)
        for volume in volumes:
            space = os.statvfs(volume)
            assert space.f_bavail * space.f_frsize > 32 << 20


def leave_in_a_snapshot(proxies, away, leave):
    """Start a follower that needs a snapshot, and let it leave in the middle of that."""
    passed = 0
    gone = threading.Event()

    def change(data):
        nonlocal passed
        passed += len(data) if len(data) > 16 << 10 else 0  # nothing else comes in such pieces
        if passed > 3 << 19 and not gone.is_set():
            leave()
            gone.set()
        return data

    proxies.change = change
    away.start()
    assert gone.wait(30), f"{passed} bytes of a snapshot in 30 s: {away.log_tail()}"
    proxies.change = None


def expect_room_while_a_follower_is_gone(cluster, proxies, tag, how):
    """It stops in the middle of a snapshot, or is cut off, and others write more than the map holds
    beside the leader's view. Nobody ends, no change is refused; when it comes back it has all."""
    cluster.start()
    cluster.create_tag(tag, mode="strict")
    away = cluster.followers()[0]
    others = [node for node in cluster.nodes if node is not away]
    cluster.wait_applied()
    away.kill9()
    make_many_tags(cluster.leader())
    with Writers(others, tag) as writers:
        writers.wait_more(400, 30)  # its place in the log is gone
        leave_in_a_snapshot(proxies, away,
                            away.pause if how == "stopped" else lambda: proxies.isolate(away))
        assert all(figure(node, "leafd_snapshots_sent_total") == 0 for node in others)
        writers.wait_more(8000, 90)
        for node in others:
            assert figure(node, "leafd_disk_low") == 0
        proxies.heal()
        away.resume()
        wait_until(lambda: figure(away, "leafd_snapshots_received_total") > 0, 60, "a snapshot")
        writers.wait_more(400, 30)
    assert not writers.faults and len(set(writers.ids)) == len(writers.ids)
    cluster.wait_applied()
    for node in cluster.nodes:
        node.check_running()
    local = [node.get_json(f"/api/tags/{tag}?consistency=local") for node in cluster.nodes]
    assert local[0] == local[1] == local[2] and int(local[0]["max_id"]) > max(writers.ids)


# Shows backup-snapshot.
def test_a_follower_that_stops_in_a_snapshot(make_cluster, proxies, tag):
    """With a small map: the file stays below it."""
    cluster = make_cluster(settings={**SHORT_LOG, "data-map-bytes": "64MiB"}, start=False)
    proxies.attach(cluster)
    expect_room_while_a_follower_is_gone(cluster, proxies, tag, "stopped")
    for node in cluster.nodes:
        assert os.path.getsize(os.path.join(node.data_dir, "db", "data.mdb")) < 60 << 20


@only_root
# Shows backup-snapshot.
def test_a_follower_that_is_cut_off_in_a_snapshot_on_a_small_volume(make_cluster, proxies, tag):
    cluster = make_cluster(settings={**SHORT_LOG, "data-map-bytes": "16GiB"}, start=False)
    proxies.attach(cluster)
    with small_volumes(cluster):
        expect_room_while_a_follower_is_gone(cluster, proxies, tag, "cut")


def test_a_directory_of_a_running_node_is_not_recovered(make_cluster, tmp_path):
    node = make_cluster(size=1).nodes[0]
    made = tmp_path / "made"
    arguments = ["recover", "--data-dir", node.data_dir, "--out", made, "--raise-ids", 1, "--yes"]
    assert f"in use by process {node.process.pid}" in refused(DATA, *arguments)
    assert not os.path.exists(made)
    node.stop()
    done(*arguments)
    assert "there is no store" in refused(
        DATA, "recover", "--data-dir", tmp_path, "--out", tmp_path / "x", "--raise-ids", 1, "--yes"
    )
    assert "lock" not in os.listdir(tmp_path)


# --- files ---


@pytest.fixture(name="backup")
def fixture_backup(shared, tag, tmp_path):
    """A backup of some tags, and the arguments to restore it."""
    shared.create_tag(tag, max_id=12)
    for number in range(5):
        shared.create_tag(f"{tag}-{number}", description="x" * 200)
    path = tmp_path / "backup"
    assert take_backup(shared.leader(), path).status == 200
    made = tmp_path / "made"
    return path, made, ["--data-dir", made, "--node-id", 1, "--peer-address", "127.0.0.1:7"]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# Shows backup-damage.
def test_a_file_that_is_cut_or_flipped_is_refused(backup):
    path, made, arguments = backup
    whole = path.read_bytes()
    rng = random.Random(1)
    spoiled = path.with_name("spoiled")

    def expect(data, *words):
        spoiled.write_bytes(data)
        why = refused(DATA, "restore", spoiled, *arguments, "--raise-ids", 1)
        assert any(word in why for word in words), why
        refused(DATA, "restore", spoiled, "--check")
        assert not made.exists()

    for cut in [0, 5, 16, 20, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(10))]:
        expect(whole[:cut], "cut off", "this is not a backup")
    for _ in range(25):
        at = rng.randrange(len(whole))
        flipped = bytearray(whole)
        flipped[at] ^= 1 << rng.randrange(8)
        expect(bytes(flipped), "damaged", "this is not a backup", "cut off")
    expect(whole + b"x", "follow the closing record")
    expect(whole + whole, "follow the closing record")
    done("restore", path, "--check")


# Shows backup-damage.
def test_a_file_of_a_newer_version_is_refused(backup):
    path, made, arguments = backup
    data = bytearray(path.read_bytes())
    payload = int.from_bytes(data[20:24], "little")
    data[32:34] = (3).to_bytes(2, "little")
    data[32 + payload : 36 + payload] = crc32c(data[16 : 32 + payload]).to_bytes(4, "little")
    path.write_bytes(data)
    why = refused(DATA, "restore", path, *arguments, "--raise-ids", 1)
    assert "written in format 3" in why and "reads format 2" in why
    assert not made.exists()


def test_a_backup_of_before_the_levels_began_anew(make_cluster):
    """As leafd 0.2.0-dev wrote it at its level 6 (fixtures/backup-0.2.0-dev): tags of each mode,
    with max, date and keys, one of them deleted; a key; a worker id; a layout. Five ids of each
    were taken. All is done an hour later by the clock of the processes, since a key lives for a
    day."""
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[0]
    taken = 1795921370  # 2026-11-29T03:02:50Z
    own_clocks(cluster)[node.id].set(int(taken + 3600 - time.time()))
    shutil.rmtree(node.data_dir, ignore_errors=True)
    done("restore", os.path.join(ROOT, "cluster-tests", "fixtures", "backup-0.2.0-dev"),
         "--data-dir", node.data_dir, "--node-id", node.id, "--peer-address", node.peer_address,
         "--cluster-id", node.settings.get("cluster-id", "leafd"), "--raise-ids", 1000,
         prefix=node.prefix)
    cluster.start()
    goes_on = {"plain": "2001", "bounded": "2001", "strict": "1002", "mono": "2001"}
    for tag, first in goes_on.items():
        answer = wait_until(lambda t=tag: (a := node.get(f"/api/segment/get/{t}")).status == 200
                            and a, 30, f"an id of {tag}")
        assert answer.text.strip() == first, (tag, answer)
    dated = node.get("/api/segment/get/dated").text
    assert re.fullmatch(r"INV-2026-\d{6}\n?", dated), dated
    assert dated.strip() > "INV-2026-001005", "an invoice of before again"
    assert node.get("/api/segment/get/secret").text.startswith("S3")
    assert node.get("/api/segment/get/gone").status == 404
    replay = ask(node, "strict", key="k1")
    assert (replay.status, replay.text.strip()) == (200, "1 1"), replay
    worker = node.get_json("/api/workers?limit=1024")["workers"][17]
    assert (worker["name"], worker["state"]) == ("was:w", "released")
    assert node.get("/api/layouts/s10").status == 200
    assert level_of(node) == 1


# Shows backup-raise.
def test_a_restore_without_a_raise_is_refused(backup):
    path, made, arguments = backup
    why = refused(CONFIG, "restore", path, *arguments)
    assert "--raise-ids" in why and "--raise-time" in why
    for bad in (["--raise-ids", "-1"], ["--raise-ids", ""], ["--raise-time", "1x"],
                ["--raise-time", "0h"], ["--raise"], ["--raise-ids"],
                ["--raise-ids", 1, "--node-id", 0], ["--raise-ids", 1, "--peer-address", "x"]):
        assert "leafd restore: " in refused(CONFIG, "restore", path, *arguments, *bad)
    assert not made.exists()


def test_a_fifo_is_no_backup(backup, tmp_path):
    """Nobody writes into it: it is refused, and not waited for."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    text = refused(65, "restore", fifo, "--check")
    assert "is not a regular file" in text


def test_what_cannot_be_said_is_not_done(backup, tmp_path):
    """Every command of leafd that prints. A tool's output names what a raise cannot cover: without
    it nothing is made."""
    path, made, arguments = backup
    kept = tmp_path / "kept"
    node = ["--node-id", 1, "--cluster-members", "1=127.0.0.1:7"]
    done("restore", path, "--data-dir", kept, *arguments[2:], "--raise-ids", 1)
    lines = [
        ["--help"], ["-h"], ["--version"], ["--print-config-example"], ["--print-config-doc"],
        ["--print-config", *node], ["--check-config", "--user", "root", *node], ["--new-secret"],
        ["--new-token"], ["restore", "--help"], ["recover", "--help"], ["readmit", "--help"],
        ["restore", path, "--check"], ["restore", path, *arguments, "--raise-ids", 1],
        ["restore", path, *arguments, "--raise-ids", 1, "--dry-run"],
        ["recover", "--data-dir", kept, "--out", made, "--raise-ids", 1, "--yes"],
    ]  # fmt: skip
    for flag in re.findall(r"^  (--[a-z-]+)(?:,|  )", tool("--help").stdout.split("settings:")[0],
                           re.MULTILINE):  # fmt: skip
        assert any(line[0] == flag for line in lines), flag
    for line in lines:
        for output in UNHEARD:
            run = tool(*line, prefix=unheard(output))
            assert run.returncode == 74, (line, output, run)
            assert run.stderr.startswith("leafd: the output cannot be written: ") or (
                run.stderr == "" and " 2>" in output), (line, output, run)  # fmt: skip
            assert not made.exists(), (line, output)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"])
def test_a_restore_that_is_stopped(backup, name):
    """At any moment: the directory has all of it, or the same restore makes it."""
    path, made, arguments = backup
    line = ["restore", path, *arguments, "--raise-ids", 1]
    pauses = random.Random(7)
    ends = set()
    for _ in range(30):
        process = subprocess.Popen([leafd_path(), *map(str, line)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        until = time.perf_counter() + pauses.uniform(0, 0.04)
        while time.perf_counter() < until:
            pass
        process.send_signal(signal.Signals[name])
        said = process.communicate(timeout=30)[1]
        assert process.returncode in (0, -signal.Signals[name]) and said == "", said
        ends.add(process.returncode)
        if process.returncode == 0:  # whole: nothing is made anew in it
            assert "not empty" in refused(DATA, *line)
        elif not os.path.exists(made / "made"):  # the mark that it is whole
            done(*line)
            os.rename(made / "db", made / "db.new")  # as if it were stopped before its last step
        done("recover", "--data-dir", made, "--out", made.with_name("x"), "--raise-ids", 1, "--yes",
             "--dry-run")  # fmt: skip
        shutil.rmtree(made)
    assert 0 in ends or name != "SIGHUP"  # which a tool, as a node that starts, lets wait


# Shows attack-process.
def test_the_tools_shut_themselves_in(make_cluster, tmp_path):
    """While `recover` asks: it can gain nothing, and has filters of calls and of paths."""
    cluster = make_cluster()
    cluster.stop_all()
    node = cluster.nodes[0]
    process = subprocess.Popen(
        [leafd_path(), "recover", "--data-dir", node.data_dir, "--out", str(tmp_path / "new"),
         "--raise-ids", "1000", "--lost", "2", "--lost", "3"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        while "Type the old" not in said:
            byte = process.stdout.read(1)
            assert byte, process.stderr.read()
            said += byte
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    finally:
        process.kill()
        process.communicate()


def test_a_directory_with_anything_in_it_is_refused(backup):
    path, made, arguments = backup
    made.mkdir()
    (made / "notes").write_text("mine", encoding="ascii")
    assert "there is notes in it" in refused(DATA, "restore", path, *arguments, "--raise-ids", 1)
    assert os.listdir(made) == ["notes"]
    (made / "notes").unlink()
    done("restore", path, *arguments, "--raise-ids", 1)
    assert "not empty" in refused(DATA, "restore", path, *arguments, "--raise-ids", 1)


@only_root
def test_a_restore_that_has_no_room(backup):
    """It says so, and succeeds in the same place once there is room."""
    path, made, arguments = backup
    made.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "leafd-test", made], check=True)
    try:
        why = refused(74, "restore", path, *arguments, "--raise-ids", 1)
        assert "the disk is full: commit: " in why
        subprocess.run(["mount", "-o", "remount,size=64m", made], check=True)
        done("restore", path, *arguments, "--raise-ids", 1)
    finally:
        subprocess.run(["umount", made], check=True)


def test_a_tag_near_the_end_is_raised_as_far_as_it_goes(make_cluster, tag, tmp_path):
    cluster = make_cluster(size=1)
    node = cluster.nodes[0]
    cluster.create_tag(tag, max_id=2**63 - 100, force=True)
    assert take_backup(node, tmp_path / "backup").status == 200
    lose_everything(cluster)
    said = done("restore", tmp_path / "backup", *place(node), "--raise-ids", MARGIN)
    assert "NOT by" in said and "1 tags are exhausted" in said
    node.start().wait_ready()
    assert node.get(f"/api/segment/get/{tag}").code == "exhausted"


def test_a_raise_by_time_follows_how_fast_each_tag_grew(make_cluster, tag, tmp_path):
    """One tag grows, one does not, and the cluster's time moves on by half an hour."""
    settings = {**FAST, "snowflake-window-ms": 5000}
    cluster = make_cluster(size=1, settings=settings, start=False)
    clocks = own_clocks(cluster)
    clocks[1].set(-1800)
    cluster.start()
    node = cluster.nodes[0]
    cluster.create_tag(tag, step=100, max_step=100)
    cluster.create_tag(f"{tag}-quiet", max_step=2000)
    take(node, tag, 5000, Tracks(History()))
    arguments = ["restore", tmp_path / "backup", "--node-id", 1, "--peer-address", "127.0.0.1:1",
                 "--data-dir", tmp_path / "none", "--dry-run", "--raise-time", "1h"]
    assert take_backup(node, tmp_path / "backup").status == 200
    why = refused(CONFIG, *arguments)
    assert "is not known" in why and "--raise-ids" in why
    clocks[1].set(0)

    def measured():
        assert take_backup(node, tmp_path / "backup").status == 200
        return "in 30 min" in done(*arguments, "--raise-ids", 0)

    wait_until(measured, 30, "half an hour of the cluster's time")
    said = done(*arguments)
    goes_on, was = tags_of(said)[tag]
    assert 5000 < was <= 5300
    assert 2 * 10 * (was - 200) < goes_on - was < 2 * 10 * was, said
    goes_on, was = tags_of(said)[f"{tag}-quiet"]
    assert goes_on - was == 10 * 2000
    half = tags_of(done(*arguments, "--raise-time", "30m", "--raise-factor", 1))
    assert was < half[tag][0] - half[tag][1] <= 5300
    more = tags_of(done(*arguments, "--raise-ids", MARGIN))
    assert more[tag][0] - more[tag][1] == MARGIN


# --- the route ---


# Shows backup-all.
def test_a_backup_by_any_node_has_what_was_acknowledged_before(shared, tag, tmp_path):
    for number in range(12):
        shared.create_tag(f"{tag}-{number}", node=shared.nodes[number % 3])
        node = shared.nodes[(number + 1) % 3]
        assert take_backup(node, tmp_path / "backup").status == 200
        said = done("restore", tmp_path / "backup", "--data-dir", tmp_path / "x", "--node-id", 1,
                    "--peer-address", "127.0.0.1:1", "--raise-ids", 0, "--dry-run")
        assert f"{tag}-{number}" in tags_of(said)


def test_without_a_majority_only_a_local_backup_is_taken(make_cluster, tag, tmp_path):
    cluster = make_cluster()
    cluster.create_tag(tag)
    cluster.wait_applied()
    last, *others = cluster.nodes
    for node in others:
        node.kill9()
    wait_until(last.sees_no_leader, 10, "no leader is known")
    assert take_backup(last, tmp_path / "backup", "?timeout_ms=300").code == "no_leader"
    assert take_backup(last, tmp_path / "backup", "?consistency=local").status == 200
    said = done("restore", tmp_path / "backup", "--check")
    assert "consistency=local" in said
    assert last.get("/api/backup?consistency=none").status == 400
    assert last.http("HEAD", "/api/backup").status == 405


def test_one_backup_at_a_time_and_a_slow_reader_is_cut_off(make_cluster, tag, tmp_path):
    cluster = make_cluster(size=1, settings={**FAST, "http-idle-ms": 5000})
    node = cluster.nodes[0]
    for start in range(0, 40_000, 8_000):
        bulk = [{"tag": f"{tag}-{n}", "description": "d" * 256} for n in range(start, start + 8000)]
        assert node.http("POST", "/api/tags", bulk, timeout=30).status == 200
    with socket.create_connection(node.address) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /api/backup HTTP/1.1\r\nHost: leafd\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        answer = take_backup(node, tmp_path / "backup")
        assert (answer.status, answer.code) == (503, "overloaded")
        assert "another backup" in answer.json()["message"]
        # It takes nothing more: it is cut off, and the next one can begin.
        wait_until(
            lambda: take_backup(node, tmp_path / "backup").status == 200, 20, "the slow one's end"
        )
        slow.settimeout(10)
        with pytest.raises(ConnectionResetError):
            while slow.recv(1 << 20):
                pass
    assert "40000 of them tags" in done("restore", tmp_path / "backup", "--check")
    with socket.create_connection(node.address) as gone:
        gone.sendall(b"GET /api/backup HTTP/1.1\r\nHost: leafd\r\n\r\n")
        assert gone.recv(100).startswith(b"HTTP/1.1 200")
    wait_until(
        lambda: take_backup(node, tmp_path / "backup").status == 200, 5, "the end of one that left"
    )


# Shows backup-copies.
def test_a_dump_of_all_pages_is_posted_as_it_is(make_cluster, tag, tmp_path):
    old = make_cluster(size=1).nodes[0]
    for number in range(25):
        old.http("PUT", f"/api/tags/{tag}-{number:02}", {"step": number + 1, "max_id": 10 * number})
    old.http("PUT", f"/api/tags/{tag}-99", {"mode": "strict", "description": 'a "quoted" one'})
    dump, after = "", ""
    while after is not None:
        page = old.get(f"/api/tags?limit=10&after={after}")
        dump += page.text
        after = page.json()["next"]
    new = Cluster(tmp_path / "new", size=1, settings=FAST)
    try:
        new.start()
        node = new.nodes[0]
        assert node.http("POST", "/api/tags", dump).json() == {"made": 26, "changed": 0}

        def shown(from_node):
            tags = from_node.get_json("/api/tags?limit=1000")["tags"]
            return [{k: v for k, v in t.items() if k not in ("created", "updated", "generation")}
                    for t in tags]

        assert shown(node) == shown(old)
        bad = dump.replace('"changing"', '"changes"')
        assert node.http("POST", "/api/tags", bad).code == "bad_request"
    finally:
        new.end()


def test_a_dump_with_a_date(shared, tag):
    """A name that is new goes on where the dumped one was; one that is there needs force."""
    node = shared.nodes[0]
    fields = {"mode": "strict", "shape": "X{year}-{id:6}"}
    assert node.http("PUT", f"/api/tags/{tag}", fields).status == 201
    last = take_texts(node, tag, 7)[-1]
    row = node.get_json(f"/api/tags/{tag}")
    dump = {"tags": [{"tag": f"{tag}-plain"}, {**row, "tag": f"{tag}-again"}], "next": None}
    assert node.http("POST", "/api/tags", dump).json() == {"made": 2, "changed": 0}
    later = {"tags": [{**row, "max_id": str(int(row["max_id"]) + 10)}], "next": None}
    answer = node.http("POST", "/api/tags", later)
    assert (answer.status, answer.code) == (409, "needs_force"), answer
    message = answer.json()["message"]
    assert f'item 0, tag "{tag}": ' in message and "force=1" in message, answer
    again = take_texts(node, f"{tag}-again", 1)[0]
    assert again == f"{last[:-6]}{int(last[-6:]) + 1:06}" or again.endswith("-000001")  # new year
