"""Starting: sizes of clusters, data directories that are not one's own, damage, secrets."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import time

import pytest

from checker import History
from client import parse_ids
from cluster import FAST, write_secret
from load import Load, wait_taken
from recovery import unheard
from wait import ran_s, wait_until

# How leafd ends when it must not start (src/node/report.h).
EXIT_CONFIG = 64
EXIT_DATA = 65
EXIT_ADDRESS = 69
EXIT_REFUSED = 76
REFUSES_S = 10


def take(node, tag, count=10):
    answer = node.get(f"/api/segment/get/{tag}?count={count}&format=range")
    assert answer.status == 200, answer
    return parse_ids(answer, "range", count)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_clusters_of_other_sizes(make_cluster, tag, size):
    cluster = make_cluster(size)
    cluster.create_tag(tag)
    history = History()
    for _ in range(2):
        for node in cluster.nodes:
            track = history.track(f"c{len(history.tracks)}", node.id, tag)
            ranges = take(node, tag)
            for first, last in ranges:
                track.add(first, last, ranges)
        cluster.kill_all()
        cluster.start()
    assert history.check() == 2 * size * 10


def test_five_nodes_lose_two(make_cluster, tag):
    cluster = make_cluster(5)
    cluster.create_tag(tag)
    history = History()
    load = Load(history, tag)
    for node in cluster.nodes:
        load.add(node, 100, "range", rate=3000.0)
    with load:
        wait_taken(load, 20_000)
        cluster.leader().kill9()
        cluster.leader().kill9()
        cluster.wait_leader(among=cluster.running())
        wait_taken(load, 20_000)
        for node in cluster.nodes:
            if not node.alive:
                node.start().wait_ready()
        wait_taken(load, 20_000)
        load.finish()


def test_nodes_that_start_late(make_cluster, tag):
    """Of a cluster that was born one node alone is not ready; with a second there is a majority,
    and the third joins them. The birth needs all: test_birth.py."""
    cluster = make_cluster()
    one, two, three = cluster.nodes
    cluster.stop_all()
    one.start()
    wait_until(lambda: one.serves(), 10, "the first node is up")
    assert one.get("/readyz").status == 503
    two.start()
    one.wait_ready()
    two.wait_ready()
    cluster.create_tag(tag)
    three.start().wait_ready()
    assert take(three, tag)


@pytest.mark.quiet
def test_no_time_to_wait(make_cluster, tag):
    """timeout_ms=0 is not the default of 3 s: the request does not wait."""
    cluster = make_cluster(start=False)
    node = cluster.nodes[0]
    node.start()
    wait_until(lambda: node.serves(), 10, "the node is up")
    ran = ran_s()
    assert node.get(f"/api/segment/get/{tag}?timeout_ms=0").status == 503
    assert ran_s() - ran < 1.5
    began = time.monotonic()
    assert node.get(f"/api/segment/get/{tag}").status == 503
    assert time.monotonic() - began > 2.5
    began = time.monotonic()
    assert node.get(f"/api/segment/get/{tag}?timeout_ms=2000").status == 503
    assert time.monotonic() - began > 1.5


def run_to_end(node):
    """Start the node where it must refuse; its exit code."""
    node.start()
    return node.wait_exit(REFUSES_S)


def second_on(cluster, node, **changes):
    """Another process for the same data directory, with ports of its own."""
    spare = cluster.spare(node.id)
    spare.data_dir = node.data_dir
    for name, value in changes.items():
        setattr(spare, name, value)
    spare.expect_log("level=error")
    return spare


def test_two_processes_on_one_data_directory(make_cluster, tag):
    cluster = make_cluster()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    spare = second_on(cluster, node)
    assert run_to_end(spare) == EXIT_DATA
    assert re.search(r"(?i)lock|another process", spare.log()), spare.log()
    assert node.data_dir in spare.log()
    assert take(node, tag)


def test_two_processes_on_one_port(make_cluster, tag):
    """SO_REUSEPORT must not let a second node share the first one's HTTP port in silence."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    spare = cluster.spare(node.id)
    spare.http_port = node.http_port
    spare.expect_log("level=error")
    assert run_to_end(spare) == EXIT_ADDRESS
    errors = [line for line in spare.log().splitlines() if "level=error" in line]
    assert str(node.http_port) in errors[-1]
    assert spare.log().endswith(f" exit_code={EXIT_ADDRESS}\n")
    assert take(node, tag)


@pytest.mark.parametrize("setting", ["http-listen", "peer-listen"])
@pytest.mark.parametrize("address, said", [
    ("192.0.2.1:4711", "Cannot assign requested address"),
    ("no-such-name.invalid:4711", "its name has no address now"),
])
def test_an_address_that_is_not_there_yet(make_cluster, setting, address, said):
    """DHCP, a VIP, a name: said in the system's words, with the code after which a service manager
    starts leafd again."""
    settings = {**FAST, setting: address, "auth-anonymous": "all"}
    node = make_cluster(1, settings, start=False).nodes[0]
    node.expect_log("level=error")
    assert run_to_end(node) == EXIT_ADDRESS, node.log()
    assert said in node.log(), node.log()
    assert address in node.log()


@pytest.mark.parametrize("limit, said", [("--nofile=9", "Too many open files"),
                                         ("--as=60000000", "Cannot allocate memory")])
def test_the_disk_is_not_to_blame(make_cluster, limit, said):
    node = make_cluster(1, FAST, start=False).nodes[0]
    node.prefix = ["prlimit", limit]
    node.expect_log("level=error")
    assert run_to_end(node) == 70, node.log()
    assert said in node.log(), node.log()
    assert "disk and its permissions" not in node.log()


@pytest.mark.parametrize("output, leads_to", [
    ("0<&- >&- 2>&-", "/dev/null"), ("</dev/null >/dev/full 2>/dev/full", "/dev/(null|full)"),
    ("</dev/null > >(exec >&-) 2>&1", "/dev/null|pipe:.*")])  # fmt: skip
def test_standard_descriptors_without_use(make_cluster, tag, output, leads_to):
    """Closed, full, a reader that went away: what is written for people goes to no socket or file,
    the node serves, and a stop is a stop."""
    cluster = make_cluster(1, FAST, start=False)
    node = cluster.nodes[0]
    node.prefix = unheard(output)
    cluster.start()
    cluster.create_tag(tag)
    assert take(node, tag)
    for number in range(3):
        link = os.readlink(f"/proc/{node.process.pid}/fd/{number}")
        assert re.fullmatch(leads_to, link), link
    node.process.send_signal(signal.SIGHUP)  # says more
    assert take(node, tag)
    node.stop()


@pytest.mark.parametrize("what", ["node", "cluster"])
# Shows lesson-wiped.
def test_data_directory_of_another(make_cluster, tag, what):
    """Another node's data, or another cluster's: refused, with what it is and what was expected."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    node, other = cluster.followers()
    node.stop()
    spare = second_on(cluster, node)
    if what == "node":
        spare.id = other.id
    else:
        spare.settings["cluster-id"] = "another"
    assert run_to_end(spare) == EXIT_DATA
    assert re.search(r"(?i)belongs to|made for|wrong_node|is of", spare.log()), spare.log()
    node.start().wait_ready()
    assert take(node, tag)


def data_file(node):
    """The file with the node's data."""
    found = []
    for directory, _, names in os.walk(node.data_dir):
        found.extend(os.path.join(directory, name) for name in names if name == "data.mdb")
    assert len(found) == 1, found
    return found[0]


def empty(path):
    os.truncate(path, 0)


def halve(path):
    os.truncate(path, os.path.getsize(path) // 2 // 4096 * 4096)


def cut_to_its_header(path):
    os.truncate(path, 8192)


def overwrite_header(path):
    with open(path, "r+b") as data:
        data.write(b"\x00" * 8192)


def overwrite_all_but_header(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as data:
        data.seek(8192)
        data.write(b"\xa5" * (size - 8192))


def flip_rows(path):
    """One bit in each place where a known text stands: a record's checksum must tell."""
    with open(path, "r+b") as data:
        content = bytearray(data.read())
        at = content.find(b"find-me-here")
        assert at >= 0
        while at >= 0:
            content[at] ^= 1
            at = content.find(b"find-me-here", at + 1)
        data.seek(0)
        data.write(content)


DAMAGES = [empty, halve, cut_to_its_header, overwrite_header, overwrite_all_but_header, flip_rows]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
# Shows P1-damage.
def test_damaged_data_is_refused(make_cluster, tag, damage):
    """The node says what and where and does not start; the others go on. Nothing is made anew."""
    cluster = make_cluster()
    cluster.create_tag(tag, description="find-me-here")
    node = cluster.followers()[0]
    assert take(node, tag)
    cluster.wait_applied()
    node.stop()
    path = data_file(node)
    damage(path)
    with open(path, "rb") as data:
        damaged = data.read()
    node.expect_log("level=error")
    size = len(node.log())
    code = run_to_end(node)
    told = node.log()[size:]
    assert code == EXIT_DATA, f"exit code {code}:\n{told}"
    assert node.data_dir in told, told
    assert re.search(r"(?i)corrupt|damaged|checksum|short|empty|truncat|invalid|cut", told), told
    with open(path, "rb") as data:
        assert data.read() == damaged, "the refused file was written to"
    for other in cluster.running():
        assert take(other, tag)
    cluster.leader()


def test_removed_data_file_is_refused(make_cluster, tag):
    """A data directory that lost its file is not taken for a new one."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    node.stop()
    os.unlink(data_file(node))
    node.expect_log("level=error")
    size = len(node.log())
    assert run_to_end(node) == EXIT_DATA
    assert node.data_dir in node.log()[size:]
    for other in cluster.running():
        assert take(other, tag)


def test_a_directory_of_others_is_left_alone(make_cluster, tmp_path):
    """A mistyped --data-dir: the node says so, ends with 65, and leaves no file there."""
    cluster = make_cluster(start=False)
    node = cluster.nodes[0]
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    node.data_dir = str(theirs)
    (theirs / "hosts").write_text("127.0.0.1 localhost")
    node.expect_log("level=error")
    assert run_to_end(node) == EXIT_DATA
    assert "files that are not leafd's (hosts)" in node.log()
    assert os.listdir(node.data_dir) == ["hosts"]


def test_a_loose_directory_is_refused_unless_told_so(make_cluster, tmp_path):
    cluster = make_cluster(start=False)
    node = cluster.nodes[0]
    node.data_dir = str(tmp_path / "loose")
    os.mkdir(node.data_dir)
    os.chmod(node.data_dir, 0o750)
    node.expect_log("level=error")
    assert run_to_end(node) == EXIT_DATA
    assert "has mode 0750" in node.log() and "chmod 700" in node.log()
    assert not os.listdir(node.data_dir)
    node.settings["data-loose-mode"] = "true"
    node.start()
    wait_until(lambda: node.serves(), 10, "the node is up")


def test_bootstrap_never_refuses_an_empty_directory(make_cluster):
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[0]
    node.settings["cluster-bootstrap"] = "never"
    node.expect_log("level=error")
    assert run_to_end(node) == EXIT_DATA
    assert node.data_dir in node.log()


# Shows P7-peer-port.
def test_wrong_secret(make_cluster, tag):
    """A node that does not know the secret gets nowhere, and the log of both sides says so."""
    cluster = make_cluster()
    odd = cluster.nodes[2]
    cluster.stop_all()
    wrong = os.path.join(cluster.directory, "wrong-secret")
    write_secret(wrong, secrets.token_hex(32))
    odd.settings["cluster-secret-file"] = wrong
    odd.expect_log("level=error")
    for node in cluster.nodes[:2]:
        node.expect_log("level=error.*(secret|proof)")
        node.start()
    odd.start()
    for node in cluster.nodes[:2]:
        node.wait_ready()
    cluster.create_tag(tag)
    odd.wait_log(r"(?i)secret", 10)
    wait_until(
        lambda: any(re.search(r"(?i)secret", node.log()) for node in cluster.nodes[:2]),
        10,
        "a node of the cluster logs the wrong secret",
    )
    wait_until(lambda: odd.get("/readyz").status == 503, 30, "it is up, and not ready")
    assert odd.get(f"/api/segment/get/{tag}?timeout_ms=300").status == 503
    status = cluster.nodes[0].cluster_status()
    assert [m["reachable"] for m in sorted(status["members"], key=lambda m: m["id"])] == [
        True,
        True,
        False,
    ]
    # With the right secret it is one of them.
    odd.kill9()
    odd.settings["cluster-secret-file"] = cluster.secret_file
    odd.start().wait_ready()
    assert take(odd, tag)


# Shows P1-wiped, P5-minority, lesson-wiped.
def test_wiped_node_is_refused(make_cluster, tag):
    """An empty data directory under an old id could vote twice: the others do not let it in."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    node = cluster.followers()[0]
    node.expect_log("level=error")
    # Its registration has reached the log when the others show its HTTP address.
    wait_until(
        lambda: all(m["http_address"] for m in cluster.leader().cluster_status()["members"]),
        10,
        "all nodes are registered",
    )
    node.kill9()
    shutil.rmtree(node.data_dir)
    others = cluster.others(node)
    for _ in range(2):
        size = len(node.log())
        assert run_to_end(node) == EXIT_REFUSED
        assert "data directory" in node.log()[size:]
    assert any("not the one registered" in other.log() for other in others)
    for other in others:
        assert take(other, tag)
    # It does not count as a vote: with one of the other two gone there is no leader.
    survivor, gone = others
    gone.kill9()
    node.start()
    wait_until(lambda: survivor.sees_no_leader(), 10, "no leader is known")
    answer = survivor.http("PUT", "/api/tags/more", {})
    assert answer.status == 503, answer
    assert node.wait_exit(REFUSES_S) == EXIT_REFUSED
    gone.start().wait_ready()
    assert take(survivor, tag)


@pytest.mark.parametrize(
    "arguments,said",
    [
        (["--no-such-flag=1"], "no-such-flag"),
        (["--node-id=0"], "node"),
        (["--node-id=9", "--cluster-members=1=127.0.0.1:1"], "9"),
        (["--cluster-members=nonsense"], "nonsense"),
        (["--node-id=1", "--http-listen=nowhere"], "nowhere"),
        (["--raft-election-ms=abc"], "abc"),
        (["--node-id"], "the value is missing"),
        (["--node-id=1", "--cluster-members=1=127.0.0.1:1", "--snowflake-worker-id=64",
          "--snowflake-layout=js53"], "(--snowflake-worker-id) is beyond what has room in"),
        (["--node-id=1", "--cluster-members=1=127.0.0.1:1", "--snowflake-worker-id=1",
          "--snowflake-workers=2"], "is one worker id, and so needs 1 of snowflake.workers"),
        (["--config=/nonexistent/leafd.conf"], "/nonexistent/leafd.conf: cannot open"),
        (["--config=/dev/zero"], "/dev/zero: is not a regular file"),
        (["--cluster-secret-file=/dev/null", "--node-id=1", "--cluster-members=1=127.0.0.1:1"],
         "/dev/null: is not a regular file"),
    ],
)
def test_bad_settings(binary, arguments, said):
    """An exit code of its own, and a text that names the setting."""
    done = subprocess.run(
        [binary, *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == EXIT_CONFIG, done
    assert said in done.stderr


def test_loose_secret_file(make_cluster):
    """A secret that others can read is refused."""
    cluster = make_cluster(1, FAST, start=False)
    os.chmod(cluster.secret_file, 0o644)
    node = cluster.nodes[0]
    node.expect_log("level=error")
    assert run_to_end(node) == EXIT_CONFIG
    assert cluster.secret_file in node.log()


def differing(node):
    checks = node.get("/readyz?verbose").json()["checks"]
    return next(check for check in checks if check["name"] == "settings").get("differ", [])


def test_settings_that_the_log_does_not_know_are_named(make_cluster, tag):
    """A changed member list, layout and epoch: nothing comes of them, and that is said."""
    cluster = make_cluster()
    cluster.create_tag(tag)
    node, other = cluster.followers()
    assert not differing(node)
    node.stop()
    shown = node.members
    node.members = node.members.replace(other.peer_address, "127.0.0.1:1")
    node.settings["snowflake-layout"] = "41+8+12@1500000000000"
    node.start().wait_ready()
    wait_until(
        lambda: differing(node) == ["cluster.members", "snowflake.layout"],
        10,
        "both settings are named",
    )
    told = node.log()
    assert "cluster.members is not what the log knows" in told
    assert "127.0.0.1:1" in told and other.peer_address in told
    assert "the layout of snowflake ids is not what the log knows" in told
    assert take(node, tag)
    node.stop()
    node.members = shown
    del node.settings["snowflake-layout"]
    node.start().wait_ready()
    assert not differing(node)
