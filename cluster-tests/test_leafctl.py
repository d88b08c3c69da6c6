"""leafctl on real clusters: all commands, wrong input, listeners, tokens, TLS; dead and lying ones.
"""

import contextlib
import csv
import fcntl
import glob
import http.server
import io
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import threading
import time

import pytest

import leafctl
from certificates import Authority
from chaos import disks
from client import tag_path
from attacker import ask_from
from cluster import FAST
from leafctl import Leafctl
from node import ROOT
from ports import take_port
from recovery import UNHEARD, unheard
from test_listeners import Listeners, Tokens
from upgrade import wait_level
from wait import wait_until


@pytest.fixture
def ctl(shared, tmp_path):
    return leafctl.of(shared, tmp_path)


# --- the cluster ---


def test_status(shared, ctl):
    text = ctl("status").out
    leader = shared.leader()
    assert re.search(rf"^leader +node {leader.id}, term \d+$", text, re.M), text
    assert re.search(r"^quorum .*3 of 3", text, re.M), text
    for node in shared.nodes:
        role = "leader" if node is leader else "voter"
        assert re.search(rf"^ +{node.id} +{role} +yes .*{node.http_address}$", text, re.M), text
    status = ctl("status", "--json").json
    assert status["leader_id"] == leader.id and len(status["members"]) == 3


def test_status_is_watched(shared, ctl):
    lines = ctl("status", "--watch", "--every", 1, "--times", 2, "--json").out.splitlines()
    assert len(lines) == 2 and all(json.loads(line)["cluster_id"] for line in lines)


def test_check_of_a_healthy_cluster(make_cluster, tmp_path):
    cluster = make_cluster()  # of its own: a tag near its max would be a warning
    ctl = leafctl.of(cluster, tmp_path)
    done = wait_until(lambda: (got := ctl("check", "--all")) and "is healthy" in got.out and got,
                      30, "the cluster is healthy")
    assert "good      quorum" in done.out, done
    assert re.search(r"good      level: level \d+, the newest", done.out), done
    assert ctl("check", "--json").json["worst"] == "good"


def test_check_names_what_is_wrong(make_cluster, tmp_path):
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    dead = cluster.followers()[0]
    dead.kill9()
    rest = cluster.leader()
    wait_until(lambda: any(not m["reachable"] for m in rest.cluster_status()["members"]
                           if m["id"] == dead.id), 10, "the dead node is not reached")
    done = ctl("check", code=2)
    assert "critical  quorum: 2 of 3 voters" in done.out, done
    assert dead.http_address in done.out, done
    # Both others raise the alarm: it is told once.
    both = [f"cannot be reached from node {node.id}" for node in cluster.nodes if node is not dead]
    done = wait_until(lambda: (got := ctl("check", code=2)) and all(
        text in got.out for text in both) and got, 30, "the alarm of both")
    assert re.search(rf"node {dead.id} .*cannot be reached", done.out), done
    assert done.out.count("LeafdNodeDown") == 1, done
    next(node for node in cluster.nodes if node not in (dead, rest)).kill9()
    wait_until(rest.sees_no_leader, 10, "no leader")
    done = wait_until(lambda: (got := ctl("check", code=2)) and "LeafdNoLeader" in got.out and got,
                      30, "the alarm that there is no leader")
    assert "critical  alarm: LeafdNoLeader" in done.out and "do: " in done.out, done
    began = time.monotonic()
    ctl("check", code=2)
    assert time.monotonic() - began < 8, "it asks nothing that waits for a leader"
    rest.expect_log("no leader is known")


def test_leader_members_level(make_cluster, tmp_path):
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    to = cluster.followers()[0]
    wait_level(cluster, to.get_json("/version")["levels"]["max"])
    assert ctl("leader", to.id).out == f"node {to.id} leads\n"
    assert ctl("leader", "--json").json == {"leader_id": to.id}
    assert ctl("leader", 9, code=4).err.count("unknown_member") == 1
    assert re.fullmatch(r"level \d+, the newest that the nodes speak\n", ctl("level").out)
    assert "409" in ctl("level", "raise", code=76).err

    new = cluster.newcomer(4)
    new.start()
    assert "node 4 is a member" in ctl("members", "add", 4, new.peer_address).out
    new.wait_ready()
    wait_until(lambda: cluster.members().get(4) == "voter", 15, "node 4 votes")
    listed = ctl("members").out
    assert re.search(rf"^ +4 +voter .*{new.peer_address}", listed, re.M), listed
    assert len(ctl("members", "list", "--json").json) == 4

    # A dead one gives way to a new one.
    dead = cluster.node(2) if to.id != 2 else cluster.node(1)
    dead.kill9()
    cluster.dismiss(dead)
    newer = cluster.newcomer(5)
    newer.start()
    done = ctl("members", "replace", dead.id, 5, newer.peer_address)
    assert "node 5 is a member" in done.out, done
    newer.wait_ready()
    again = ctl("members", "replace", dead.id, 5, newer.peer_address)
    assert "node 5 is a member" in again.out, again
    # A mistyped one of the old: nothing is added.
    assert "unknown_member" in ctl("members", "replace", 77, 6, "127.0.0.1:1", code=4).err
    assert len(ctl("members", "--json").json) == 4
    assert "removed" in ctl("members", "add", dead.id, "127.0.0.1:1", code=76).err

    done = ctl("members", "address", 5, newer.peer_address)
    assert "node 5 is reached at" in done.out
    asked = ctl("members", "remove", 5, code=64)
    assert "Without it 3 voters are left, of which 1 may fail (now 1 of 4)" in asked.err, asked
    assert "say --yes" in asked.err and len(ctl("members", "--json").json) == 4
    done = ctl("members", "remove", 5, "--yes")
    assert "node 5 is no longer a member" in done.out
    newer.expect_log("level=error")
    assert newer.wait_exit() == 77
    cluster.dismiss(newer)


def test_a_replacement_waits_for_another_change(make_cluster, tmp_path):
    """Such as that of the new node, which asks by itself to be let in."""
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    dead = cluster.followers()[0]
    dead.kill9()
    cluster.dismiss(dead)
    nobody = f"127.0.0.1:{take_port()}"
    reply = cluster.leader().http(
        "POST", "/api/cluster/members?timeout_ms=100", {"id": 6, "peer_address": nobody})
    assert reply.status == 202, reply
    newer = cluster.newcomer(5)
    with ctl.popen("members", "replace", dead.id, 5, newer.peer_address, "--wait", 60,
                   stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as replacing:
        assert "under way: node 6 is being added: one change at a time" in (
            replacing.stderr.readline())
        assert "node 6 is no longer a member" in ctl("members", "remove", 6).out
        newer.start()
        out, err = replacing.communicate(timeout=60)
    assert replacing.returncode == 0 and "node 5 is a member" in out, err
    # Other commands do not wait for what they did not ask for.
    cluster.leader().http(
        "POST", "/api/cluster/members?timeout_ms=100", {"id": 7, "peer_address": nobody})
    assert "in_progress" in ctl("members", "remove", newer.id, "--yes", code=76).err
    ctl("members", "remove", 7)


@pytest.mark.parametrize("words, why", [
    (["members", "add", "4"], "usage: leafctl members add ID HOST:PORT"),
    (["members", "add", "0", "a:1"], 'ID: "0" is not a whole number from 1 to 65535'),
    (["members", "add", "4", "nowhere"], '"nowhere" is not HOST:PORT'),
    (["members", "replace", "3", "3", "a:1"], "cannot be used again"),
    (["members", "frobnicate"], "members: say which: list add remove"),
    (["frobnicate"], 'there is no command "frobnicate"'),
    ([], "no command"),
    (["tags", "put", "x", "--step", "many"], 'step: "many" is not a whole number'),
    (["tags", "put", "x", "--step", "1", "--step", "2"], "--step is given twice"),
    (["tags", "put", "x", "--step"], "--step needs a value"),
    (["tags", "put", "x", "--wait-all=1"], "has no value"),
    (["tags", "put", ""], "1 to 128 bytes, not 0"),
    (["tags", "put", "x" * 129], "not 129"),
    (["tags", "--csv", "put", "x"], "stand after its name"),
    (["tags", "pause", "x", "--reason", os.fsdecode(b"\xff")], "reason: not UTF-8"),
    (["tags", "list", "--csv", "--json"], "not both"),
    (["tags", "list", "--mode", "odd"], "none of trend, strict and monotonic"),
    (["tags", "list", "a", "b"], "usage: leafctl tags"),
    (["next", "x", "-n", "0"], "from 1 to 1000000000"),
    (["next", "x", "-n", "1000000001"], "from 1 to 1000000000"),
    (["next", "x", "--idempotency-key", "k", "-n", "100001"], "from 1 to 100000"),
    (["next", "x", "--odd"], "next has no option --odd"),
    (["decode", "-1"], "no option -1"),
    (["decode", "--", "-1"], 'ID: "-1" is not'),
    (["--odd", "status"], "no option --odd before a command"),
    (["status", "--json=1"], "no value"),
    (["--token", "abc", "status"], "seen by all users"),
    (["--timeout", "0", "status"], 'timeout: "0" is not'),
    (["--timeout", "3601", "status"], 'timeout: "3601" is not'),
    (["--server", "nowhere", "status"], '"nowhere" is not HOST:PORT'),
    (["--server", "a:1,", "status"], '"" is not HOST:PORT'),
    (["--server", "http://u@a:1", "status"], "is not HOST:PORT"),
    (["--server", ",".join(["a:1"] * 33), "status"], "more than 32"),
    (["--cert", "c.pem", "status"], "key is missing"),
    (["--config", "/nowhere/at/all", "status"], "cannot be read"),
    (["workers", "release", "3"], "--epoch is missing"),
    (["workers", "acquire", "w", "--window-ms", "999"], "from 1000 to 86400000"),
    (["token", "new", "--roles", "king"], "king"),
    (["token", "new", "--name", "a b"], '"a b" cannot stand'),
    (["token", "new", "--name", "a\nb"], "cannot stand in the line"),
])
def test_wrong_input(tmp_path, words, why):
    done = Leafctl(tmp_path, "127.0.0.1:1")(*words, code=64)
    assert why in done.err and done.out == "", done


def test_help_of_every_command(tmp_path):
    ctl = Leafctl(tmp_path)
    text = ctl("--help").out
    commands = re.findall(r"^  ([a-z]+(?: \[?[a-z]+\]?)?)(?= )", text.split("settings")[0], re.M)
    assert len(commands) > 20
    for command in commands:
        words = command.replace("[", "").replace("]", "").split()
        program = "leafd" if words[0] in ("restore", "recover") else "leafctl"
        assert ctl(*words, "--help").out.startswith(f"usage: {program} {words[0]}")
    assert re.match(r"leafctl \d+\.\d+\.\d+", ctl("--version").out)


# --- tags and ids ---


def test_tags(shared, ctl, tag):
    made = ctl("tags", "put", tag, "--step", 10, "--max-id", 500, "--description", 'a, "b"; 😀')
    assert made.out.startswith("made:\n") and re.search(r"^next id +500$", made.out, re.M)
    assert ctl("tags", "get", tag, "--json").json["description"] == 'a, "b"; 😀'
    changed = ctl("tags", "put", tag, "--max", 10**15, "--wait-all")
    assert changed.out.startswith("changed:\n") and re.search(r"^max +10{15}$", changed.out, re.M)
    assert "max" not in ctl("tags", "put", tag, "--max", "none", "--json").json
    refused = ctl("tags", "put", tag, "--max-id", 5, code=76)
    assert "would_repeat" in refused.err and "--force" in refused.err
    assert ctl("tags", "put", tag, "--max-id", 5, "--force", "--json").json["max_id"] == "5"
    assert ctl("next", tag, "-n", 3).out == "5\n6\n7\n"
    assert ctl("next", tag, "-n", 2, "--ranges").out == "8 9\n"
    assert ctl("tags", "delete", tag, "--wait-all").out.startswith("deleted")
    assert ctl("tags", "get", tag, code=4).err.count("unknown_tag") == 1
    assert ctl("tags", "delete", tag, code=4).out == ""
    assert "leafctl tags put" in ctl("next", tag, code=4).err
    hidden = ctl("tags", "put", f"{tag}\u202e", code=76)
    assert f"U+202E at character {len(tag) + 1}" in hidden.err and "\u202e" not in hidden.err
    odd = ctl("tags", "put", f"{tag}\u0301")
    assert re.search(r"^warning +the name looks like another one: U\+0301", odd.out, re.M), odd


def test_tags_are_listed_in_pages(make_cluster, tmp_path, tag):
    cluster = make_cluster()
    ctl = leafctl.of(cluster, tmp_path)
    names = [f"{tag}/{n:04}" for n in range(1203)]
    rows = [{"tag": name, "mode": "strict" if n % 400 == 0 else "trend", "description": f'{n},"x"'}
            for n, name in enumerate(names)]
    assert cluster.nodes[0].http("POST", "/api/tags", rows).status == 200
    listed = ctl("tags", "list", f"{tag}/").out.splitlines()
    assert listed[0].split() == ["tag", "next", "id", "step", "max", "mode", "updated",
                                 "description"]
    assert [line.split()[0] for line in listed[1:]] == names
    assert [line.split()[0] for line in
            ctl("tags", "list", f"{tag}/", "--mode", "strict").out.splitlines()[1:]] == names[::400]
    part = ctl("tags", "list", f"{tag}/", "-n", 2, "--after", names[5])
    assert [line.split()[0] for line in part.out.splitlines()[1:]] == names[6:8]
    assert f"--after {names[7]}" in part.err
    read = list(csv.DictReader(io.StringIO(ctl("tags", "list", f"{tag}/", "--csv").out)))
    assert [row["tag"] for row in read] == names and read[7]["description"] == '7,"x"'
    # The pages are what another cluster takes.
    pages = ctl("tags", "list", f"{tag}/", "--json").out
    assert len(pages.splitlines()) == 2
    again = cluster.nodes[1].http("POST", "/api/tags", pages)
    assert again.status == 200 and again.json() == {"made": 0, "changed": 1203}, again


def test_next_of_all_kinds(shared, ctl, tag):
    shared.create_tag(tag, mode="strict")
    assert ctl("next", tag, "-n", 3, "--idempotency-key", "k1").out == "1\n2\n3\n"
    assert ctl("next", tag, "-n", 3, "--idempotency-key", "k1").out == "1\n2\n3\n"
    other = ctl("next", tag, "-n", 4, "--idempotency-key", "k1", code=76)
    assert "idempotency_conflict" in other.err
    many = ctl("next", tag, "-n", 250_001).out.split()
    assert len(many) == 250_001 and len(set(many)) == len(many)
    assert ctl("next", tag, "--json").json["count"] == 1
    shaped = ctl("tags", "put", f"{tag}.s", "--shape", "S{id:4}").out
    assert re.search(r"^shape +S\{id:4\}$", shaped, re.M), shaped
    assert "as=number" in ctl("next", f"{tag}.s", code=76).err
    assert ctl("next", f"{tag}.s", "--numbers", "-n", 2).out == "1\n2\n"
    flake = ctl("next", "anything", "--snowflake").out.strip()
    text = ctl("decode", flake).out
    assert re.search(r"^time +20\d\d-.*Z \(\d+ ms\)$", text, re.M) and "worker id" in text
    assert ctl("decode", flake, "--json").json["id"] == flake
    assert ctl("at", "2020-05-02T13:13:44.602+01:00").out == "1256557484210913280\n"
    assert "outside the layout" in ctl("at", 0, code=76).err
    uuid = shared.nodes[0].http("GET", "/api/snowflake/get/k?as=uuid").text
    parts = ctl("decode", uuid, "--json").json
    assert parts["timestamp_ms"] == int(uuid.replace("-", "")[:12], 16), (uuid, parts)


def test_worker_ids(shared, ctl, tag):
    held = ctl("workers", "acquire", tag, "--window-ms", 5000, "--address", "here", "--json").json
    row = [line for line in ctl("workers").out.splitlines() if tag in line]
    assert len(row) == 1 and row[0].split()[:3] == [str(held["worker_id"]), "held", "client"]
    renewed = ctl("workers", "renew", held["worker_id"], "--epoch", held["epoch"]).out
    assert renewed.startswith(f"worker id {held['worker_id']}, epoch {held['epoch']}:")
    released = ctl("workers", "release", held["worker_id"], "--epoch", held["epoch"],
                   "--last-timestamp-ms", held["from_ms"] + 1)
    assert released.out == "released\n"
    assert "fenced" in ctl("workers", "renew", held["worker_id"], "--epoch", 9, code=76).err
    # One that belongs to another client, here another address of this machine.
    body = json.dumps({"name": f"{tag}/other", "window_ms": 5000}).encode()
    other = json.loads(ask_from("127.0.0.2", shared.nodes[0], "POST", "/api/workers", body,
                                {"Content-Type": "application/json"}).body)
    words = ["workers", "release", other["worker_id"], "--epoch", other["epoch"]]
    assert "belongs to another client" in ctl(*words, code=76).err
    assert ctl(*words, "--force").out == "released\n"
    assert tag not in ctl("workers", "list", "--held").out
    assert ctl("workers", "--json").json["workers"]


def test_worker_ids_of_a_zone_and_a_layout(make_cluster, tmp_path):
    cluster = make_cluster(size=1, settings=FAST)
    wait_level(cluster, 3)
    [node] = cluster.nodes
    ctl = leafctl.of(cluster, tmp_path)
    wait_until(lambda: node.http("PUT", "/api/layouts/wide", {"preset": "sonyflake"}).status == 200,
               30, "the layout is made")
    assert ctl("workers", "pools").out == "\n"
    assert ctl("workers", "pools", "a=30-31,b=40-40").out == "a=30-31,b=40-40\n"
    assert ctl("workers", "pools", "--json").json == {"pools": "a=30-31,b=40-40"}
    assert "a=30-31 and b=31-40 overlap" in ctl("workers", "pools", "a=30-31,b=31-40", code=76).err
    assert ctl("workers", "acquire", "w", "--zone", "a", "--json").json["worker_id"] == 30
    assert ctl("workers", "acquire", "w", "--zone", "b", "--json").json["worker_id"] == 40
    assert "no_worker_id" in ctl("workers", "acquire", "w", "--zone", "b", code=76).err
    refused = ctl("workers", "acquire", "w", "--worker-id", 31, code=76)
    assert "GET /api/workers/pools" in refused.err
    wide = ctl("workers", "acquire", "w", "--layout", "wide", "--worker-id", 65535, "--json").json
    assert wide["worker_id"] == 65535 and wide["layout"]["name"] == "wide"
    assert "unknown_layout" in ctl("workers", "acquire", "w", "--layout", "none", code=None).err
    assert ctl("workers", "pools", "").out == "\n"


def test_worker_ids_of_more_than_a_page(make_cluster, tmp_path):
    cluster = make_cluster(size=1, settings=FAST)
    wait_level(cluster, 3)
    [node] = cluster.nodes
    wait_until(lambda: node.http("PUT", "/api/layouts/wide", {"preset": "sonyflake"}).status == 200,
               30, "the layout is made")
    with node.connect() as connection:
        for _ in range(1030):
            answer = connection.request("POST", "/api/workers", b'{"name":"w","layout":"wide"}')
            assert answer.status == 201, answer
    lines = leafctl.of(cluster, tmp_path)("workers").out.splitlines()
    ids = [int(line.split()[0]) for line in lines if " client " in line]
    assert ids == list(range(1024, 1024 + 1030))


def test_layouts(shared, ctl):
    wait_until(lambda: shared.nodes[0].http(
        "PUT", "/api/layouts/ctl", {"preset": "sonyflake"}).status == 200, 20, "the layout is made")
    row = wait_until(lambda: next((line for line in ctl("layouts").out.splitlines()
                                   if line.startswith("ctl ")), None), 10,
                     "the node that is asked knows it")
    assert row.split()[1:7] == ["10", "39", "16", "8", "time-sequence-worker",
                                "2014-09-01T00:00:00.000Z"]
    wait_until(lambda: "ctl" in [layout["name"] for layout in
                                 ctl("layouts", "--json").json["layouts"]], 10, "as JSON, too")
    ids = ctl("next", "anything", "--layout", "ctl", "-n", 3).out.split()
    assert len(set(ids)) == 3
    parts = ctl("decode", ids[0], "--layout", "ctl", "--json").json
    assert parts["layout"] == "ctl" and abs(parts["timestamp_ms"] / 1000 - time.time()) < 60, parts
    assert "leafctl layouts" in ctl("next", "anything", "--layout", "nobodys", code=4).err


# --- servers that die, are slow, or lie ---


def test_one_node_is_dead(make_cluster, tmp_path):
    """The first one that is named, of all."""
    cluster = make_cluster()
    cluster.create_tag("order")
    cluster.nodes[0].kill9()
    ctl = leafctl.of(cluster, tmp_path)
    assert len(ctl("next", "order", "-n", 5).out.split()) == 5
    assert "leader" in ctl("status").out
    assert "changed" in ctl("tags", "put", "order", "--step", 7).out


def test_nobody_answers(tmp_path):
    done = Leafctl(tmp_path, f"127.0.0.1:{take_port()}")("status", code=69)
    assert "no server answers" in done.err and "LEAFCTL_SERVER" in done.err, done


def test_the_nodes_of_make_run_are_found(liar, tmp_path):
    """In the folder where it runs, as long as it holds the lock; what is named counts more."""
    node, other = liar((200, {**TAG, "tag": "here"})), liar((200, {**TAG, "tag": "named"}))
    data = tmp_path / "data"
    data.mkdir()
    (data / "servers").write_text(f"{node.address}\n")
    here = Leafctl(tmp_path)

    def get(*words, code=0):
        run = subprocess.run([leafctl.leafctl_path(), "tags", "get", "x", *words], env=here.env,
                             cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
        assert code is None or run.returncode == code, run
        return run

    with open(data / "lock", "w", encoding="ascii") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        found = get()
        assert "here" in found.stdout
        assert f"the nodes of make run are asked: {node.address}\n" in found.stderr
        named = get("--server", other.address)
        assert "named" in named.stdout and named.stderr == ""
        # Not where another user may write to it, and no address but those of this machine.
        (data / "servers").chmod(0o666)
        assert "make run" not in get("--timeout", "1", code=None).stderr
        (data / "servers").chmod(0o644)
        (data / "servers").write_text(f"{node.address},10.0.0.1:80\n")
        assert "make run" not in get("--timeout", "1", code=None).stderr
        (data / "servers").write_text(f"{node.address}\n")
    assert "make run" not in get("--timeout", "1", code=None).stderr  # it is over
    assert len(node.asked) == 1


def test_the_leader_is_killed_during_next(make_cluster, tmp_path):
    """No error, and no id twice: what was in the air is skipped."""
    cluster = make_cluster()
    cluster.create_tag("order", mode="strict")
    ctl = leafctl.of(cluster, tmp_path)
    out = tmp_path / "ids"
    with open(out, "wb") as file:
        taking = ctl.popen("next", "order", "-n", 4_000_000, stdout=file, stderr=subprocess.PIPE)
    wait_until(lambda: out.stat().st_size > 1_000_000, 20, "ids")
    cluster.leader().kill9()
    _, errors = taking.communicate(timeout=50)
    assert taking.returncode == 0, errors
    ids = [int(line) for line in out.read_bytes().split()]
    assert len(ids) == 4_000_000 and len(set(ids)) == len(ids)


def test_a_node_that_hangs_is_passed_over(make_cluster, tmp_path):
    cluster = make_cluster()
    cluster.create_tag("order")
    hung = cluster.followers()[0]
    others = [node.http_address for node in cluster.others(hung)]
    hung.pause()
    try:
        done = Leafctl(tmp_path, hung.http_address, *others)("next", "order", "-n", 2)
        assert len(done.out.split()) == 2
        alone = Leafctl(tmp_path, hung.http_address, TIMEOUT=1)("next", "order", code=75)
        assert "no answer came" in alone.err, alone
    finally:
        hung.resume()


ENDLESS = 1 << 50  # bytes


class Liar(http.server.ThreadingHTTPServer):
    """Answers with what it was told to; counts what it was asked."""

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), LiarHandler)
        self.answers = list(answers)  # (status, body); the last one stays. None: no answer;
        # with ENDLESS as a third, the body comes again and again
        self.asked = []
        threading.Thread(target=self.serve_forever, args=[0.02], daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def answer(self, _path):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class LiarHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, body, self.headers))
        answer = self.server.answer(self.path)
        if answer is None:
            self.close_connection = True
            return
        text = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
        self.send_response(answer[0])
        self.send_header("Content-Length", str(answer[2] if len(answer) > 2 else len(text)))
        if answer[0] == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(text)
        with contextlib.suppress(OSError):  # until nobody takes it any more
            while len(answer) > 2:
                self.wfile.write(text)

    do_GET = do_PUT = do_POST = do_DELETE = do

    def log_message(self, *_):
        pass


@pytest.fixture
def liar():
    made = []

    def make(*answers):
        made.append(Liar(*answers))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()
        one.server_close()


TAG = {"tag": "order", "max_id": "5", "step": 1, "max_step": 1, "mode": "trend", "description": ""}


def test_what_is_forced_is_sent_once(liar, tmp_path):
    """Set back a second time, after ids were handed out, it would repeat them."""
    silent, other = liar(None), liar((200, TAG))
    ctl = Leafctl(tmp_path, silent.address, other.address)
    done = ctl("tags", "put", "order", "--max-id", 5, "--force", code=75)
    assert "may or may not have been done" in done.err, done
    assert len(silent.asked) == 1 and not other.asked
    # 503: nobody knows either.
    busy = liar((503, {"code": "timeout", "message": "too late"}))
    done = Leafctl(tmp_path, busy.address, other.address)(
        "tags", "put", "order", "--max-id", 5, "--force", code=75)
    assert "look whether it was done" in done.err and len(busy.asked) == 1 and not other.asked
    # Without force it is repeated, elsewhere.
    assert ctl("tags", "put", "order", "--max-id", 5).out.startswith("changed")
    assert len(other.asked) == 1


def test_a_kept_connection_that_is_closed_does_not_repeat_what_is_forced(liar, tmp_path):
    """libcurl sends a request again where a connection that was kept turns out to be closed."""
    server = liar((202, {"message": "under way"}), None, (200, {"message": "done"}))
    done = Leafctl(tmp_path, server.address)("members", "remove", 3, "--force", "--yes", code=75)
    assert len(server.asked) == 2, (done, server.asked)


def test_a_repeat_that_is_refused_says_so(liar, tmp_path):
    server = liar((503, {"code": "timeout", "message": "late"}),
                  (409, {"code": "would_repeat", "message": "max_id is 9"}))
    done = Leafctl(tmp_path, server.address)("tags", "put", "order", "--max-id", 5, code=76)
    assert "a second time" in done.err, done


def test_a_quota_is_waited_for_and_a_share_is_not(liar, tmp_path):
    server = liar((429, {"code": "share", "message": "so many tags"}))
    Leafctl(tmp_path, server.address)("tags", "put", "order", code=76)
    assert len(server.asked) == 1
    server = liar((429, {"code": "quota", "message": "so many a second"}), (200, TAG))
    began = time.monotonic()
    Leafctl(tmp_path, server.address)("tags", "put", "order")
    assert len(server.asked) == 2 and time.monotonic() - began >= 1
    # A 503 says nothing of what was done.
    late = liar((503, {"code": "timeout", "message": "too late"}))
    done = Leafctl(tmp_path, late.address, TIMEOUT=1)("tags", "put", "order", code=75)
    assert "may or may not have been done" in done.err, done


def test_no_proxy_is_asked(liar, tmp_path):
    """A token is for the nodes alone."""
    ctl = Leafctl(tmp_path, liar((200, TAG)).address)
    ctl.env.update(dict.fromkeys(["http_proxy", "all_proxy"], "http://127.0.0.1:1"))
    assert ctl("tags", "put", "order").out.startswith("changed")


def test_a_worker_id_whose_window_is_over_is_not_held(liar, tmp_path):
    rows = [{"worker_id": 7, "state": "held", "until_ms": 8}, {"worker_id": 8, "state": "held",
                                                               "until_ms": 9}]
    ctl = Leafctl(tmp_path, liar((200, {"workers": rows, "log_time_ms": 9, "next": None})).address)
    assert re.search(r"(?m)^ *7 +over ", ctl("workers", "list").out)
    held = ctl("workers", "list", "--held").out
    assert re.search(r"(?m)^ *8 +held ", held) and "over" not in held


def test_what_answers_nonsense_is_told(liar, tmp_path):
    for body in b"hello", b"[1]", b"{", b'{"a":1,"a":2}', b"":
        done = Leafctl(tmp_path, liar((200, body)).address)("status", code=70)
        assert "no JSON object" in done.err, done
    for words in ["tags", "put", "x"], ["members", "remove", 3, "--yes"]:
        done = Leafctl(tmp_path, liar((204, b"")).address)(*words, code=70)
        assert done.out == "" and "no JSON object" in done.err, done
    # Fields of other types, or none, are shown as nothing.
    odd = {"members": [7, {"id": "x", "role": [], "levels": 3}], "leader_id": "z", "level": [],
           "change": "?", "alarms": [1], "quorum": [], "uid": 5}
    assert "leader    none is known" in Leafctl(tmp_path, liar((200, odd)).address)("status").out
    assert Leafctl(tmp_path, liar((200, odd)).address)("check", code=2).out
    for ranges in [{"first": "1", "last": "0"}], [{"first": "-1", "last": "1"}], [], [
            {"first": "1", "last": "9223372036854775807"}]:
        done = Leafctl(tmp_path, liar((200, {"ranges": ranges})).address)("next", "x", code=70)
        assert done.out == "" and "asked for" in done.err
    stuck = {"tags": [TAG], "next": "order"}
    done = Leafctl(tmp_path, liar((200, stuck)).address)("tags", "list", code=70)
    assert "begins before this one" in done.err


def test_terminal_escapes_do_not_reach_the_terminal(liar, tmp_path):
    evil = "a\x1b]0;owned\x07\u009b31m\u202e\x7f\nb"
    texts = {"tag": evil, "max_id": evil, "description": evil, "mode": evil, "updated": evil,
             "next": None, "message": evil, "code": evil}
    for answer in (200, {**texts, "tags": [texts]}), (409, texts), (401, texts):
        server = liar(answer)
        ctl = Leafctl(tmp_path, server.address)
        for words in ["tags", "list"], ["tags", "get", "x"], ["tags", "list", "--json"]:
            done = ctl(*words, code=None)
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.out + done.err), done
            assert answer[0] != 200 or "1b]0;owned" in done.out.lower(), done
    odd = {"cluster_id": evil, "uid": evil, "members": [{"id": 1, "version": evil}],
           "alarms": [{"name": evil, "text": evil, "do": evil}]}
    for words in ["status"], ["check"], ["members"]:
        done = Leafctl(tmp_path, liar((200, odd)).address)(*words, code=None)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.out + done.err), done


# --- listeners, tokens, TLS ---


@pytest.fixture
def listeners(make_cluster, tmp_path):
    tokens = Tokens(tmp_path / "tokens")
    tokens.add("root", "roles=all")
    tokens.add("reader", "roles=read,ids")
    tokens.write()
    world = Listeners(make_cluster(1, start=False), tokens)
    world.cluster.start()
    return world


def token_file(tmp_path, listeners, who, mode=0o600):
    path = tmp_path / f"token-{who}"
    path.write_text(listeners.tokens.tokens[who] + "\n")
    path.chmod(mode)
    return path


def test_either_listener_finds_the_other(listeners, tmp_path):
    root = token_file(tmp_path, listeners, "root")
    admin = ":".join(map(str, listeners.admin_address))
    for address in listeners.node.http_address, admin:
        ctl = Leafctl(tmp_path, address, TOKEN_FILE=root)
        assert ctl("tags", "put", "order", "--step", 10).out
        assert ctl("next", "order").out
        assert "leader" in ctl("status").out


def test_a_listener_of_another_machine_alone_is_not_asked(liar, tmp_path):
    """127.0.0.1 of the machine that answers is not ours: here that is another node."""
    ours = liar((200, TAG))
    theirs = liar((404, {"code": "other_door", "message": "this route is of the other listener: "
                         f"admin.listen, {ours.address}"}))
    # 127.0.0.1 by a name that is no loopback address for those who read it.
    name = f"{os.uname().nodename}:{theirs.server_address[1]}"
    hosts = subprocess.run(["getent", "hosts", os.uname().nodename], capture_output=True, text=True)
    if not hosts.stdout.startswith("127."):
        pytest.skip("this machine's name leads elsewhere")
    done = Leafctl(tmp_path, name)("tags", "delete", "order", code=None)
    assert not ours.asked and "for that machine alone" in done.err, done
    # A wildcard is the host that was asked.
    wild = liar((404, {"code": "other_door", "message": "this route is of the other listener: "
                       f"admin.listen, 0.0.0.0:{ours.server_address[1]}"}))
    assert Leafctl(tmp_path, wild.address)("tags", "get", "order").out and len(ours.asked) == 1


def test_tokens_and_their_files(listeners, tmp_path):
    ctl = Leafctl(tmp_path, listeners.node.http_address)
    done = ctl("tags", "list", code=77)
    assert "401 unauthorized" in done.err and "--token-file" in done.err, done
    reader = token_file(tmp_path, listeners, "reader")
    assert ctl("--token-file", reader, "tags", "list").code == 0
    assert "403 forbidden" in ctl("--token-file", reader, "tags", "put", "x", code=77).err
    open_file = token_file(tmp_path, listeners, "root", 0o640)
    assert "others may read" in ctl("--token-file", open_file, "status", code=64).err
    for text, why in ("", "no token"), ("two words", "more than one word"), ("a\x01", "character"):
        bad = tmp_path / "bad"
        bad.write_text(text)
        bad.chmod(0o600)
        assert why in ctl("--token-file", bad, "status", code=64).err
    given = Leafctl(tmp_path, listeners.node.http_address, TOKEN=listeners.tokens.tokens["root"])
    assert given("tags", "list").code == 0
    # A new one works once its line is in the file.
    made = ctl("token", "new", "--name", "new", "--roles", "read,tags", "--prefix", "shop/",
               "--out", tmp_path / "made")
    listeners.tokens.lines["new"] = made.out.strip()
    listeners.tokens.write()
    listeners.reload()
    with_new = Leafctl(tmp_path, listeners.node.http_address, TOKEN_FILE=tmp_path / "made")
    assert with_new("tags", "put", "shop/a").out.startswith("made")
    assert "forbidden_tag" in with_new("tags", "put", "other", code=77).err
    assert "File exists" in ctl("token", "new", "--out", tmp_path / "made", code=74).err


def test_the_config_file(listeners, tmp_path):
    folder = tmp_path / ".config" / "leafctl"
    folder.mkdir(parents=True)
    config = folder / "config"
    config.write_text(f"# mine\nserver = {listeners.node.http_address}\n"
                      f"token-file = {token_file(tmp_path, listeners, 'root')}\n")
    config.chmod(0o644)
    ctl = Leafctl(tmp_path)
    assert "leader" in ctl("status").out
    # A flag wins over the environment, and that over the file.
    away = f"127.0.0.1:{take_port()}"
    assert ctl("--server", away, "status", code=69)
    assert Leafctl(tmp_path, away)("--server", listeners.node.http_address, "status").code == 0
    assert Leafctl(tmp_path, away)("status", code=69)
    config.chmod(0o664)
    assert "could send your token elsewhere" in ctl("status", code=64).err
    config.chmod(0o600)
    for text, why in ("token = abc\n", "config:1: there is no setting token; name a file"), (
            "server\n", "config:1: not NAME = VALUE"), ("\nodd = 1\n", "config:2"), (
            "timeout = soon\n", 'timeout: "soon"'):
        config.write_text(text)
        assert why in ctl("status", code=64).err
    config.unlink()
    config.mkdir()
    assert "not a regular file" in ctl("status", code=64).err


def test_check_tells_a_nodes_alarms(make_cluster, tmp_path):
    """A certificate that ends is an alarm of the node; renewed, it is none."""
    authority = Authority(tmp_path / "ca")
    authority.issue("server", days=10)
    cluster = make_cluster(1, {**FAST, "http-tls-dir": authority.path("server"),
                               "admin-listen": "same"}, start=False)
    node = cluster.nodes[0]
    node.tls = authority.client()
    cluster.start().wait_ready()
    ctl = Leafctl(tmp_path, f"https://{node.http_address}", CA=authority.pem)
    alarm = "LeafdCertificateEnds: the certificate of node 1 ends in 9 days and 23 hours"
    wait_until(lambda: alarm in ctl("check", code=None).out, 10, "an alarm")
    [told] = ctl("status", "--json").json["alarms"]
    assert (told["name"], told["severity"]) == ("LeafdCertificateEnds", "warning")
    assert "LeafdCertificateEnds" in ctl("status").out
    done = ctl("check", code=1).out
    assert "LeafdCertificateEnds" in done and "http.tls-dir" not in done
    authority.issue("server")
    node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "LeafdCertificateEnds" not in ctl("check", code=None).out, 10, "its end")


def test_tls(make_cluster, tmp_path):
    authority = Authority(tmp_path / "certificates")
    other = Authority(tmp_path / "others")
    authority.issue("server")
    cluster = make_cluster(1, {**FAST, "http-tls-dir": authority.path("server"),
                               "http-tls-client": "required"}, start=False)
    shown = authority.issue("operator", "DNS:operator", "clientAuth")
    node = cluster.nodes[0]
    node.tls = authority.client(shown)
    cluster.start()
    address = f"localhost:{node.http_port}"
    good = Leafctl(tmp_path, address, CA=authority.pem, CERT=shown[0], KEY=shown[1])
    assert "leader" in good("status").out
    assert "tls_required" in Leafctl(tmp_path, address)("status", code=76).err
    assert "https://" in Leafctl(tmp_path, address)("status", code=76).err
    stranger = Leafctl(tmp_path, address, CA=other.pem, CERT=shown[0], KEY=shown[1])
    assert "certificate" in stranger("status", code=69).err
    assert Leafctl(tmp_path, address, CA=authority.pem)("status", code=None).code in (69, 75)
    os.chmod(shown[1], 0o640)
    assert "others may read a key" in good("status", code=64).err


def every_command(node, folder):
    """A line of each command, most of which succeed on a cluster of one node."""
    rows = folder / "rows"
    rows.write_text("tag,max_id\nsome,5\n", encoding="ascii")
    worker = ["--epoch", 1]
    return [
        ["status"], ["check"], ["top", "--times", 1], ["events"], ["audit"], ["tags"],
        ["tags", "get", "some"], ["tags", "put", "some"], ["tags", "pause", "some"],
        ["tags", "resume", "some"], ["tags", "delete", "none"], ["next", "some", "-n", 200_000],
        ["decode", 1 << 40], ["at", "2026-11-20T00:00:00Z"], ["workers"],
        ["workers", "acquire", "one"], ["workers", "renew", 0, *worker],
        ["workers", "release", 0, *worker], ["workers", "pools"], ["layouts"], ["members"],
        ["members", "add", 2, "127.0.0.1:1", "--wait", 1], ["members", "remove", 7, "--wait", 1],
        ["members", "replace", 7, 8, "127.0.0.1:1", "--wait", 1],
        ["members", "address", 1, node.peer_address, "--wait", 1], ["members", "drain", 1],
        ["members", "resume", 1], ["members", "weight", 1, 100], ["clients"],
        ["clients", "cut", "192.0.2.1", "--for", "90s"], ["clients", "restore", "192.0.2.1"],
        ["leader"], ["level"], ["level", "raise", "--wait", 1], ["backup", folder / "backup"],
        ["restore", "--help"], ["recover", "--help"], ["import", "leaf", rows, "--dry-run"],
        ["import", "tinyid", rows, "--dry-run"], ["import", "cosid", rows, "--dry-run"],
        ["import", "sql"], ["import", "csv", rows, "--dry-run"], ["import", "csv", rows, "--print"],
        ["token", "new"], ["--help"], ["--version"], ["status", "--help"],
        ["--complete", "tags", "p"],
    ]  # fmt: skip


def test_output_that_cannot_be_written(make_cluster, tmp_path):
    """Every command says so on stderr, if that can be written, and by code 74; it ends, and by no
    signal. One that fails keeps its own code."""
    cluster = make_cluster(1)
    cluster.create_tag("some")
    ctl = leafctl.of(cluster, tmp_path)
    lines = every_command(cluster.nodes[0], tmp_path)
    for words in re.findall(r"^  (\w+(?: \[?[a-z]+\b\]?)?)", ctl("--help").out.split("settings")[0],
                            re.M):  # fmt: skip
        family, _, name = words.partition(" ")
        wanted = [family] if name.startswith("[") or not name else [family, name]
        assert any(line[:len(wanted)] == wanted for line in lines), f"no line of {words}"
    good = 0
    for number, line in enumerate(lines):
        usual = [ctl(*line, code=None).code for _ in range(2)][-1]  # for the second time
        good += usual == 0
        for output in UNHEARD[number % 9:][:1] if "--wait" in line else UNHEARD[number % 3::3]:
            run = subprocess.run(
                [*unheard(output), leafctl.leafctl_path(), *map(str, line)], env=ctl.env, text=True,
                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30, check=False)
            assert run.returncode == (usual or 74), (line, output, run)
            assert usual or run.stderr == "" or "cannot be written: " in run.stderr, (line, run)
            assert usual or run.stderr != "" or " 2>" in output, (line, run)
    assert good > 30


def test_a_name_of_any_bytes_goes_through(shared, ctl, tag):
    name = f"{tag}/ä b%?#&;+😀.x"
    assert ctl("tags", "put", name, "--max-id", 41).out.startswith("made")
    assert ctl("next", name).out == "41\n"
    assert shared.nodes[1].get_json(f"/api/tags/{tag_path(name)}")["tag"] == name


# --- what happened; rates; backups ---


def test_audit(listeners, tmp_path):
    root = token_file(tmp_path, listeners, "root")
    reader = token_file(tmp_path, listeners, "reader")
    admin = ":".join(map(str, listeners.admin_address))
    # Both addresses are one node: it is told of once.
    ctl = Leafctl(tmp_path, admin, listeners.node.http_address, TOKEN_FILE=root)
    ctl("tags", "put", "order", "--step", 7)
    ctl("tags", "put", "other")
    Leafctl(tmp_path, admin, TOKEN_FILE=reader)("tags", "delete", "order", code=77)
    lines = ctl("audit").out.splitlines()
    assert len(lines) == 3, lines
    assert re.search(r"Z  \S+  done +201  root +\S+ +PUT /api/tags/order +.*step.*7", lines[0])
    assert re.search(r"refused  403  reader .*DELETE /api/tags/order", lines[2])
    assert ctl("audit", "--refused").out.splitlines() == lines[2:]
    assert ctl("audit", "--changes").out.splitlines() == lines[:2]
    assert ctl("audit", "--who", "reader").out.splitlines() == lines[2:]
    assert ctl("audit", "-n", 1).out.splitlines() == lines[2:]
    assert json.loads(ctl("audit", "--json", "-n", 1).out)["who"] == "reader"
    assert "403" in Leafctl(tmp_path, admin, TOKEN_FILE=reader)("audit", code=77).err
    follow = ctl.popen("audit", "--changes", "--follow", "--times", 30, stdout=subprocess.PIPE,
                       text=True)
    assert [follow.stdout.readline().rstrip("\n") for _ in range(2)] == lines[:2]
    ctl("tags", "put", "third")
    assert "PUT /api/tags/third" in follow.stdout.readline()
    follow.terminate()
    follow.communicate(timeout=30)


def test_events_are_merged(liar, tmp_path):
    def node(*events):
        return liar((200, {"events": [{"number": n, "time": t, "kind": k, "text": f"t{n}"}
                                      for n, t, k in events], "next": None}))

    one = node((1, "2026-11-23T01:00:00.000Z", "start"), (2, "2026-11-23T01:00:05.000Z", "level"))
    two = node((7, "2026-11-23T01:00:03.000Z", "election"))
    ctl = Leafctl(tmp_path, one.address, f"127.0.0.1:{take_port()}", two.address)
    done = ctl("events")
    assert [line.split()[2] for line in done.out.splitlines()] == ["start", "election", "level"]
    assert "no server answers" in done.err
    assert ctl("events", "--kind", "level").out.count("\n") == 1
    # What was shown is not shown again.
    assert ctl("events", "--follow", "--times", 2).out == done.out
    assert any("after=2" in path for _, path, _, _ in one.asked)
    older = liar((404, {"code": "no_route", "message": "nothing is served there"}))
    assert "an older leafd" in Leafctl(tmp_path, older.address)("events", code=76).err


def test_top(shared, ctl, tag):
    for node in shared.nodes:
        shared.create_tag(f"{tag}/{node.id}", node)
        for _ in range(5):
            assert node.get(f"/api/segment/get/{tag_path(tag)}%2F{node.id}?count=100").status == 200
    text = ctl("top", f"{tag}/").out
    assert text.startswith("3 of 3 nodes, 3 tags in use"), text
    assert re.search(rf"^{re.escape(tag)}/1 +\d+ +\d+ ", text, re.M), text
    top = ctl("top", f"{tag}/", "--json", "-n", 2).json
    assert top["nodes_answered"] == 3 and len(top["tags"]) == 2
    assert len(ctl("top", "--times", 2, "--every", 1, "--json").out.splitlines()) == 2


def test_backup_and_restore(make_cluster, tmp_path):
    cluster = make_cluster()
    cluster.create_tag("order", max_id="77")
    ctl = leafctl.of(cluster, tmp_path)
    path = tmp_path / "backup"
    (tmp_path / "backup.part").write_text("left by somebody, for all to read")
    path.write_text("the one before")
    done = ctl("backup", path)
    assert "verified and on the disk" in done.out and not (tmp_path / "backup.part").exists()
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert ctl("backup", path, "--json").json["rows"] > 0
    assert ctl("backup", path, "--local", "--json").json["local"] is True
    # leafd's own command takes it.
    assert "The backup is whole" in ctl("restore", path, "--check").out
    done = ctl("restore", path, "--data-dir", tmp_path / "new", "--node-id", 1, "--peer-address",
               "127.0.0.1:1", "--raise-ids", 1000)
    assert '"order" continues from 1077' in done.out
    assert ctl("restore", "/nowhere", "--check", code=74).err.startswith("leafd restore:")
    assert "leafd recover" in ctl("recover", code=None).err


@pytest.mark.parametrize("what", ["file", "file.part"])
def test_a_backup_replaces_regular_files_alone(shared, ctl, tmp_path, what):
    """As root, /dev/null would be gone; in the place of a link, what it leads to would stay old."""
    path = tmp_path / what
    (tmp_path / "old").write_text("old", encoding="ascii")
    for make in (os.mkfifo, lambda at: os.symlink(tmp_path / "old", at),
                 lambda at: os.symlink(tmp_path / "nothing", at), os.mkdir):
        make(path)
        kind = os.lstat(path).st_mode
        assert str(path) in ctl("backup", tmp_path / "file", code=74).err
        assert os.lstat(path).st_mode == kind
        assert len(os.listdir(tmp_path)) == 2, os.listdir(tmp_path)
        (os.rmdir if stat.S_ISDIR(kind) else os.unlink)(path)


def test_a_backup_that_breaks_off_leaves_the_one_before(make_cluster, liar, tmp_path):
    cluster = make_cluster(1)
    cluster.create_tag("order")
    good = cluster.nodes[0].get("/api/backup").body
    path = tmp_path / "backup"
    path.write_bytes(b"the one before")
    for bytes_ in good[:-1], good[:100] + b"x" + good[101:], b"", good + b"x":
        done = Leafctl(tmp_path, liar((200, bytes_)).address)("backup", path, code=65)
        assert "damaged" in done.err or "no size" in done.err, done
        assert path.read_bytes() == b"the one before" and not (tmp_path / "backup.part").exists()
    # One that breaks off is asked for elsewhere.
    ctl = Leafctl(tmp_path, liar(None).address, cluster.nodes[0].http_address)
    done = ctl("backup", path)
    assert "once more" in done.err and path.read_bytes() != b"the one before"
    assert "backup.part" in ctl("backup", tmp_path / "no" / "backup", code=74).err
    missing = liar((403, {"code": "forbidden", "message": "no"}))
    assert Leafctl(tmp_path, missing.address)("backup", path, code=77)
    # What is none is not taken until the disk is full: this body never comes to its end.
    endless = liar((200, b"leafd backuq" * 1000, ENDLESS))
    done = Leafctl(tmp_path, endless.address)("backup", path, code=65)
    assert "does not begin" in done.err and not (tmp_path / "backup.part").exists()
    # Two at once do not write into one file.
    with open(tmp_path / "backup.part", "wb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert "another leafctl" in ctl("backup", path, code=74).err


def test_what_is_said_to_be_on_the_disk_was_flushed(shared, liar, tmp_path):
    """The shim lets each flush fail, one after the other: no success without all of them, and no
    new name before the bytes."""
    cut = liar((200, shared.leader().get("/api/backup").body))  # the same bytes each time
    rules, place = tmp_path / "rules", tmp_path / "place"
    place.mkdir()
    path, token = place / "backup", place / "token"
    ctl = Leafctl(tmp_path, cut.address)
    ctl.env.update({
        "LD_PRELOAD": disks.build_shim(tmp_path), "DISK_SHIM_DIR": os.path.realpath(place),
        "DISK_SHIM_RULES": str(rules), "DISK_SHIM_SEED": "1"})
    path.write_bytes(b"the one before")
    for file, flushes, run in (
        (path, 2, lambda code: ctl("backup", path, code=code)),  # the file, and its folder
        (token, 1, lambda code: ctl("token", "new", "--out", token, code=code)),
    ):
        for good in range(flushes):
            before = file.read_bytes() if file.exists() else None
            rules.write_text(f"fsync error=EIO skip={good}\n")
            assert "Input/output error" in run(74).err
            if good == 0:
                assert (file.read_bytes() if file.exists() else None) == before
            assert not (place / "backup.part").exists()
        rules.write_text(f"fsync error=EIO skip={flushes}\n")
        run(0)
        assert file.stat().st_size > 0 and file.read_bytes() != b"the one before"
    struck = (tmp_path / "rules.log").read_text().splitlines()
    assert struck == [f"fsync EIO {place / 'backup.part'}", f"fsync EIO {place}",
                      f"fsync EIO {token}"]


def test_the_commands_of_the_documents_exist(tmp_path):
    """Each leafctl that a document shows, with its options."""
    pages = glob.glob(os.path.join(ROOT, "docs", "*.md")) + glob.glob(
        os.path.join(ROOT, "README*.md"))
    shown = []
    for page in pages:
        with open(page, encoding="utf-8") as file:
            text = re.sub(r"\\\n +", "", file.read())
        shown += re.findall(r"^(?: {4}|\$ )?leafctl ([^\n`]+)$", text, re.M)
    assert len(shown) > 10
    for line in shown:
        words = shlex.split(re.split(r" [>|]|;|  #", line)[0])
        if words[0] not in ("restore", "recover"):
            done = Leafctl(tmp_path)(*words, "--help")
            assert done.out.startswith("usage: leafctl"), line
