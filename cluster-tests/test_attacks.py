"""Attacks on real nodes of 512 MiB, as whoever can reach a port would try them: after each all
nodes are up, the client beside it was served, and who was refused was told why.

The rows of docs/promises.md that they show are those of SECURITY.md, which says who can try what.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import time

import pytest

from attacker import (
    MIB,
    Held,
    Quiet,
    answer_to,
    ask_from,
    bounded,
    check_peaks,
    forget_peak,
    is_closed_within,
    limit_memory,
    more_descriptors,
    open_files,
    peak_bytes,
    put_tag,
    send_until_refused,
)
from client import Connection, get_bytes, request_bytes
from cluster import FAST, Cluster, write_secret
from conftest import look_over
from liar import CHALLENGE, HELLO, PROTOCOL, crc32c, text16
from wait import ran_s, wait_until
from workers import acquire

IDS = "/api/segment/get"
HARMED_BYTES = 128 * MIB
JSON = {"Content-Type": "application/json"}


def missing(room):
    """What must hold, and does not yet: strict, so that it is turned on with the defence."""
    return pytest.mark.xfail(strict=True, reason=room)


@pytest.fixture(scope="module")
def many(binary, tmp_path_factory):
    """Three nodes that most attacks here share: what one leaves behind the next one finds."""
    cluster = limit_memory(Cluster(tmp_path_factory.mktemp("attacked"), 3, FAST))
    try:
        cluster.start()
        cluster.create_tag("quiet", step=1000)
        cluster.create_tag("greedy", step=1_000_000, max_step=100_000_000)
        yield cluster
    finally:
        cluster.end()


def revive(node):
    """As it was before an attack that did it harm."""
    if node.process is None or node.process.poll() is not None:
        node.process = None
        node.bad_log_lines()  # its test has seen them
        node.start().wait_ready()
    forget_peak(node)
    if peak_bytes(node) > HARMED_BYTES:
        node.restart()
        forget_peak(node)


@pytest.fixture
def attacked(request, many):
    """The same, with a client at each node that wants nothing but ids."""
    for node in many.nodes:
        revive(node)
    pids = {node.id: node.process.pid for node in many.nodes}
    with Quiet(many, "quiet") as quiet:
        yield many
        quiet.wait_more()
    for node in many.nodes:
        node.check_running()
        assert node.process.pid == pids[node.id]
    check_peaks(many)
    many.leader()
    look_over(request, [many])


def check_refusal(answer, statuses):
    """Refused, with a word for programs and a text for people."""
    assert answer is not None, "the connection ended without a word"
    assert answer.status in statuses, answer
    if answer.body:
        told = answer.json()
        assert told["code"] and told["message"] and told["status"] == answer.status, told


# --- 1: bodies ---


def objects(size):
    """8 MiB of nothing: [{},{},...]"""
    return b"[" + b"{}," * ((size - 4) // 3) + b"{}]"


# Shows attack-json.
def test_1_a_large_body_where_none_belongs(attacked):
    """660 MB became of each once; 64 KiB are enough for one worker id."""
    for node in attacked.nodes:
        data = request_bytes("POST", "/api/workers", objects(8 * MIB), JSON)
        check_refusal(answer_to(node, data), {413})


# Shows attack-json.
def test_1_a_bulk_body_of_empty_objects(attacked):
    """It ends at the first item that is none."""
    before = {node.id: peak_bytes(node) for node in attacked.nodes}
    for node in attacked.nodes * 2:
        data = request_bytes("POST", "/api/tags", objects(8 * MIB - 100), JSON)
        check_refusal(answer_to(node, data), {400})
    for node in attacked.nodes:
        assert peak_bytes(node) < before[node.id] + 64 * MIB, "the body became a hundred of it"


@pytest.mark.parametrize("body", [
    b"[" * 60_000,
    b'{"a":' * 10_000,
    b'{"step":1,' + b'"x":1,' * 8_000 + b'"y":1}',
    b'{"description":"' + b"\\u0041" * 10_000 + b'"}',
    b'{"step":' + b"9" * 60_000 + b"}",
    b'{"step":1e' + b"9" * 300 + b"}",
], ids=["depth", "objects", "members", "escapes", "digits", "exponent"])
# Shows attack-json.
def test_1_json_that_is_deep_wide_or_long(attacked, body):
    for method, target in ("PUT", "/api/tags/x"), ("POST", "/api/workers"):
        check_refusal(attacked.nodes[0].http(method, target, body), {400, 413})


# --- 2: who asks and does not read ---


# Shows attack-reader.
def test_2_connections_that_read_nothing(make_cluster, tag):
    """Once 40 of them, 6 KB each, killed a node in 4 s."""
    cluster = bounded(make_cluster)
    node = cluster.nodes[0]
    cluster.create_tag(tag, step=1_000_000, max_step=100_000_000)
    request = get_bytes(f"{IDS}/{tag}?count=100000&timeout_ms=9000")
    with Held() as held:
        for _ in range(100):
            sock = held.open(node.address, receive_bytes=4096)
            send_until_refused(sock, request * 60)
        # They are served as far as there is room, and no further.
        wait_until(lambda: node.process.poll() is not None or settled(node), 20, "it is at rest")
        check_peaks(cluster, 256 * MIB)
        assert node.get("/livez").status == 200
    wait_until(lambda: node.get(f"{IDS}/{tag}").status == 200, 20, "ids again")


def settled(node):
    """It hands out no more for the moment."""
    before = handed_out(node)
    time.sleep(0.3)
    return handed_out(node) - before < 1_000_000


def handed_out(node):
    text = node.get("/metrics").text
    return int(re.search(r'^leafd_ids_total\{kind="segment"\} (\d+)$', text, re.MULTILINE)[1])


@pytest.mark.bound(90)
# Shows attack-reader.
def test_2_a_reader_too_slow(make_cluster, tag):
    """Some bytes now and then are no reading: it is cut off, though it never stopped."""
    cluster = bounded(make_cluster, **{"http-idle-ms": 2000})
    node = cluster.nodes[0]
    cluster.create_tag(tag, step=1_000_000, max_step=100_000_000)
    with Held() as held:
        sock = held.open(node.address, receive_bytes=1 << 16)
        send_until_refused(sock, get_bytes(f"{IDS}/{tag}?count=100000&timeout_ms=9000") * 60)
        slow_until = time.monotonic() + 6
        while time.monotonic() < slow_until:
            assert len(sock.recv(20)) == 20  # of what the system has received
            time.sleep(0.05)
        sock.settimeout(10)  # what was made for it comes now, and then the end
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1 << 20):
                pass


# --- 3: rows that belong to nodes ---


# Shows attack-worker.
def test_3_rows_of_nodes(attacked):
    """Nobody but the node changes them: its ids would repeat."""
    for row in attacked.nodes[0].get_json("/api/workers")["workers"]:
        if row["kind"] != "node":
            continue
        epoch = {"epoch": row["epoch"]}
        for node in attacked.nodes:
            path = f"/api/workers/{row['worker_id']}"
            check_refusal(node.http("DELETE", path, epoch), {403, 409})
            check_refusal(node.http("PUT", path, {**epoch, "window_ms": 60000}), {403, 409})
            answer = acquire(node, row["name"], worker_id=row["worker_id"])
            check_refusal(answer, {403, 409})
            check_refusal(acquire(node, "thief", worker_id=row["worker_id"]), {403, 409})
    after = attacked.nodes[0].get_json("/api/workers")["workers"]
    assert all(row["state"] == "held" for row in after if row["kind"] == "node")


# --- 4, 5, 15: the wire between nodes (4: test_lies.py has terms that cannot be) ---


def wire_of(cluster, proxies):
    """Everything that the nodes say to each other from now on, by link."""
    said = {}
    carry = proxies.pump

    async def pump(link, reader, writer):
        class Tap:
            async def read(self, count):
                data = await reader.read(count)
                said.setdefault(link, bytearray()).extend(data)
                return data

        await carry(link, Tap(), writer)

    proxies.pump = pump
    return said


# Shows attack-wire.
def test_5_nobody_on_the_wire_can_read_it(make_cluster, proxies, tag):
    cluster = limit_memory(make_cluster(start=False))
    proxies.attach(cluster)
    said = wire_of(cluster, proxies)
    cluster.start()
    with open(cluster.secret_file, "rb") as file:
        secret = file.read().strip()
    for node in cluster.nodes:
        name = f"{tag}.confidential.{node.id}"
        assert put_tag(node, name, description="a merger").status == 201
    cluster.wait_applied()
    text = b"".join(bytes(data) for data in said.values())
    assert len(text) > 1000
    for word in b"confidential", b"a merger", secret:
        assert word not in text


# Shows attack-wire.
def test_5_nobody_on_the_wire_can_change_it(make_cluster, proxies, tag):
    """Each frame is rewritten, with a checksum that fits: what arrives is what was sent, or
    nothing."""
    cluster = limit_memory(make_cluster(start=False))
    proxies.attach(cluster)
    cluster.start()
    assert put_tag(cluster.nodes[0], tag, description="before").status == 201
    for node in cluster.nodes:
        node.expect_log("level=error")
    carry = proxies.pump
    rewritten = []

    async def pump(link, reader, writer):
        class Liar:
            async def read(self, count):
                data = await reader.read(count)
                lie = rewrite(data, b"genuine", b"forgery")
                rewritten.extend([link] if lie != data else [])
                return lie

        await carry(link, Liar(), writer)

    proxies.pump = pump
    follower = cluster.followers()[0]
    follower.restart()  # its links are made anew, and the liar is on them
    for number in range(20):
        put_tag(follower, f"{tag}.{number}", description="genuine")
    cluster.wait_applied()
    for node in cluster.nodes:
        for number in range(20):
            answer = node.get(f"/api/tags/{tag}.{number}?consistency=local")
            assert answer.status in (200, 404) and b"forgery" not in answer.body, answer
    assert not rewritten, "the frames could be read"


def rewrite(data, old, new):
    """The bytes with a word exchanged, and the checksums of the frames set right."""
    out = bytearray(data)
    at = 0
    while at + 8 <= len(out):
        (length,) = struct.unpack_from("<I", out, at)
        end = at + 8 + length
        if length > 1 << 20 or end > len(out):
            break
        body = bytes(out[at + 8 : end]).replace(old, new)
        struct.pack_into("<I", out, at + 4, crc32c(body))
        out[at + 8 : end] = body
        at = end
    return bytes(out)


# Shows attack-wire.
def test_15_a_stranger_gets_no_proof_of_the_secret(attacked):
    """An answer that depends on the secret alone would let it be guessed at leisure."""
    for node in attacked.nodes:
        with socket.create_connection(("127.0.0.1", node.peer_port), timeout=5) as sock:
            hello = struct.pack("<HHH", PROTOCOL, 1, 99) + text16(b"leafd")
            hello += struct.pack("<QQQ", 9, node.id, 77) + bytes(32)
            checked = struct.pack("<BBH", 1, HELLO, 0) + hello
            sock.sendall(struct.pack("<II", len(checked), crc32c(checked)) + checked)
            with contextlib.suppress(ConnectionResetError, socket.timeout):
                said = sock.recv(4096)
                assert not (len(said) > 9 and said[9] == CHALLENGE), "a challenge with a proof"
                assert len(said) < 32, said


# --- 6: the state ---


# Shows attack-state.
def test_6_tags_until_no_more_are_taken(make_cluster, tag):
    """The bound is reached before the system would kill the node; ids go on, and a restart does."""
    cluster = bounded(make_cluster, **{"data-memory-bytes": "4MiB", "quota": "tags=100%"})
    node = cluster.nodes[0]
    node.expect_log("memory")
    cluster.create_tag(tag)
    for size in 1000, 100, 10, 1:  # a batch is taken as a whole, or refused
        for batch in range(40):
            names = [{"tag": f"{tag}.{size}.{batch}.{number}"} for number in range(size)]
            refused = node.http("POST", "/api/tags", names)
            if refused.status != 200:
                break
        check_refusal(refused, {503, 507})
    assert node.get(f"{IDS}/{tag}").status == 200
    # Kept replies, which count as well, come and go: it takes more than those.
    check_refusal(put_tag(node, f"{tag}.one.more", description="d" * 255), {503, 507})
    node.restart()
    assert node.get(f"{IDS}/{tag}").status == 200
    check_peaks(cluster)


# --- 7: who takes much ---


# Shows attack-greedy.
def test_7_the_quiet_client_beside_greedy_ones(attacked):
    """64 connections that want a hundred thousand ids at a time, and read them; make bench
    CASE=fair has the figures."""
    node = attacked.nodes[0]
    request = get_bytes(f"{IDS}/greedy?count=100000&timeout_ms=9000")
    with Held() as held, Quiet(attacked, "quiet") as quiet:
        socks = [held.open(node.address) for _ in range(64)]
        for sock in socks:
            sock.sendall(request * 30)
        got = dict.fromkeys(socks, 0)
        while any(count < 200_000 for count in got.values()):
            ready, _, _ = select.select(socks, [], [], 30)
            assert ready, "nothing more comes"
            for sock in ready:
                data = sock.recv(1 << 18)
                assert data, "it was cut off"
                got[sock] += data.count(b"\n")
        quiet.wait_more()


# --- 8: web pages ---


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/x-www-form-urlencoded"},
], ids=lambda headers: "-".join(*headers.items()))
# Shows attack-browser.
def test_8_a_web_page_changes_nothing(attacked, headers):
    """What a browser would send for a page of another site, to a node on loopback."""
    node = attacked.nodes[0]
    name = f"page.{abs(hash(str(headers)))}"
    assert put_tag(node, name, max_id=5000).status == 201
    whole = {**JSON, **headers}
    lower = json.dumps({"max_id": 1}).encode()
    statuses = {400, 403, 415, 421}
    with node.connect() as connection:
        data = request_bytes("PUT", f"/api/tags/{name}?force=1", lower, whole)
        connection.send(data)
        check_refusal(connection.read_response(), statuses)
    with node.connect() as connection:
        body = json.dumps([{"tag": name, "max_id": 1}]).encode()
        connection.send(request_bytes("POST", "/api/tags?force=1", body, whole))
        check_refusal(connection.read_response(), statuses)
    assert int(node.get_json(f"/api/tags/{name}")["max_id"]) >= 5000


# --- 9: who it was ---


# Shows attack-tenant.
def test_9_what_was_changed_can_be_read(attacked):
    node = attacked.nodes[0]
    size = len(node.log())
    assert put_tag(node, "audited", max_id=5000).status == 201
    assert put_tag(node, "audited", force=True, max_id=10).status == 200
    assert node.http("DELETE", "/api/tags/audited").status == 204
    for words in "max_id", "force", "delete":
        wait_until(
            lambda: any("audited" in line and "127.0.0.1" in line and words in line.lower()
                        for line in node.log()[size:].splitlines()),
            5,
            f"a line of the log about {words}",
        )
    entries = node.get("/api/audit")
    assert entries.status == 200 and b"audited" in entries.body


# --- 10: descriptors ---


# Shows attack-flood.
def test_10_clients_take_no_descriptor_of_a_peer(make_cluster, tag):
    """As many connections as there are descriptors, while another node starts anew and wants a
    link."""
    cluster = limit_memory(make_cluster(start=False))
    for node in cluster.nodes:
        node.prefix = ["prlimit", "--nofile=128", *node.prefix]
        node.expect_log("descriptors|files")
    cluster.start()
    cluster.create_tag(tag)
    leader = cluster.leader()
    back, kept = cluster.others(leader)
    with Held() as held:
        for node in leader, kept:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    held.open(node.address)
        back.kill9()
        # Whoever waits for a descriptor gets those of its links, if any.
        with contextlib.suppress(AssertionError):
            wait_until(lambda: min(open_files(leader), open_files(kept)) >= 127, 2, "all are taken")
        back.start()
        wait_until(lambda: linked(back), 15, "it found its way back")
        assert back.get(f"{IDS}/{tag}").status == 200
        assert all(node.process.poll() is None for node in cluster.nodes)
    wait_until(lambda: kept.get(f"{IDS}/{tag}").status == 200, 10, "room for new clients")
    cluster.leader()


def linked(node):
    status = node.cluster_status()
    return status["leader_id"] is not None and all(
        member["reachable"] for member in status["members"] if member["id"] != node.id)


# --- 11: shares ---


# Shows attack-greedy.
def test_11_one_client_cannot_have_all_worker_ids(make_cluster):
    """Of 256; another client, here another address, gets one then."""
    cluster = bounded(make_cluster, **{"snowflake-layout": "41+8+12"})
    node = cluster.nodes[0]
    wait_until(lambda: acquire(node, "first").status == 201, 10, "the cluster has a time")
    answers = [acquire(node, f"greedy-{number}", 86_400_000) for number in range(100)]
    refused = [answer for answer in answers if answer.status != 201]
    assert len(refused) > 30, "one client was given all it asked for"
    check_refusal(refused[0], {409, 429})
    body = json.dumps({"name": "modest", "address": "", "window_ms": 60000}).encode()
    assert ask_from("127.0.0.2", node, "POST", "/api/workers", body, JSON).status == 201


# Shows attack-greedy.
def test_11_one_client_cannot_have_all_keys(make_cluster, tag):
    cluster = bounded(make_cluster, **{"data-memory-bytes": "1MiB"})
    node = cluster.nodes[0]
    cluster.create_tag(tag, mode="strict")
    target = f"{IDS}/{tag}"

    def ask(source, key):
        return ask_from(source, node, "GET", target, None, {"Idempotency-Key": key})

    answers = [ask("127.0.0.1", f"k{number}") for number in range(2700)]
    refused = [answer for answer in answers if answer.status != 200]
    assert refused, "one client was given more than half of the keys"
    check_refusal(refused[0], {429, 503})
    assert ask("127.0.0.1", "k0").status == 200, "a key that is there is answered"
    assert ask("127.0.0.2", "another").status == 200


# --- 12: bodies that never end ---


# Shows attack-slow.
def test_12_bodies_held_open_shut_nobody_out(make_cluster, tag):
    """8 MiB each but for the last byte, as many as fill what is kept for bodies."""
    cluster = bounded(make_cluster, **{"http-loops": 1})
    node = cluster.nodes[0]
    body = b" " * (8 * MIB - 1)
    head = request_bytes("POST", "/api/tags", None, {**JSON, "Content-Length": str(8 * MIB)})
    with Held() as held:
        for _ in range(9):
            send_until_refused(held.open(node.address), head + body)
        wait_until(lambda: at_rest(node), 20, "all that comes is read")
        began = ran_s()
        text = json.dumps({"description": "x" * 200}).encode()
        answer = ask_from("127.0.0.2", node, "PUT", f"/api/tags/{tag}", text, JSON)
        assert answer.status == 201, answer
        assert ran_s() - began < 3
    check_peaks(cluster)


def at_rest(node):
    """It used no processor for a while: what has come was read, as far as it is."""
    before = processor_ticks(node)
    time.sleep(0.3)
    return processor_ticks(node) - before <= 2


def processor_ticks(node):
    with open(f"/proc/{node.process.pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# --- 13: the end of the ids ---


@pytest.mark.parametrize("max_id", [2**63 - 1, 2**63 - 1_000_000, 2**49])
# Shows attack-operator.
def test_13_a_jump_needs_force(attacked, max_id):
    node = attacked.nodes[0]
    name = f"jump.{max_id}"
    assert put_tag(node, name, max_id=1).status == 201
    check_refusal(put_tag(node, name, max_id=max_id), {400, 409})
    check_refusal(node.http("POST", "/api/tags", [{"tag": name, "max_id": max_id}]), {400, 409})
    assert int(node.get(f"{IDS}/{name}").text) < 1000
    assert put_tag(node, name, force=True, max_id=max_id).status == 200


# --- 14: signals ---


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGWINCH"])
# Shows attack-operator.
def test_14_signals_that_end_nothing(attacked, name):
    for node in attacked.nodes:
        size = len(node.log())
        node.process.send_signal(getattr(signal, name))
        assert node.get("/livez").status == 200
        if name == "SIGHUP":
            node.wait_log("SIGHUP|reload|settings", start=size)


# --- 16: traps beside the process ---


def refused_start(node, *words):
    """It does not start, at once, and says why."""
    node.expect_log("level=error")
    size = len(node.log())
    node.start()
    wait_until(lambda: node.process.poll() is not None or node.serves(), 5, "it ends, or serves")
    assert node.process.poll() is not None, "it took it"
    code = node.wait_exit()
    said = node.log()[size:]
    assert code not in (0, None) and code > 0, (code, said)
    assert any(word in said for word in words), said


# Shows attack-disk.
def test_16_a_lock_that_is_a_link(make_cluster, tmp_path):
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[0]
    precious = tmp_path / "precious"
    precious.write_text("do not touch")
    os.makedirs(node.data_dir, mode=0o700)
    os.symlink(precious, os.path.join(node.data_dir, "lock"))
    refused_start(node, "lock")
    assert precious.read_text() == "do not touch"


# Shows attack-disk.
def test_16_a_directory_that_others_may_write(make_cluster):
    cluster = make_cluster(1, start=False)
    node = cluster.nodes[0]
    os.makedirs(node.data_dir)
    os.chmod(node.data_dir, 0o777)
    refused_start(node, "mode")


# Shows attack-disk.
def test_16_a_fifo_as_configuration(make_cluster, tmp_path):
    cluster = make_cluster(1, start=False)
    fifo = tmp_path / "config"
    os.mkfifo(fifo, 0o600)
    cluster.nodes[0].settings["config"] = str(fifo)
    refused_start(cluster.nodes[0], "regular file")


@pytest.mark.parametrize(
    "secret", ["\0" * 32, "a" * 64, "0" * 64, "correct horse battery staple 123"],
    ids=["NULs", "one letter", "zeros", "words"])
# Shows attack-stranger.
def test_16_a_secret_that_can_be_guessed(make_cluster, secret):
    cluster = make_cluster(1, start=False)
    write_secret(cluster.secret_file, secret)
    refused_start(cluster.nodes[0], "secret")


# --- clients that are slow ---


# Shows attack-slow.
def test_slow_heads(make_cluster, tag):
    """A byte now and then: none is let stay for long, and nobody else waits for it."""
    cluster = bounded(make_cluster)
    cluster.create_tag(tag)
    node = cluster.nodes[0]
    more_descriptors(4096)
    with Held() as held, Quiet(cluster, tag) as quiet:
        socks = [held.open(node.address) for _ in range(500)]
        begin = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
        for sock in socks:
            sock.sendall(begin)
        deadline = time.monotonic() + 30
        left = set(socks)
        while left and time.monotonic() < deadline:
            for sock in list(left):
                try:
                    sock.sendall(b"X")
                    sock.settimeout(0)
                    if b"408" in sock.recv(4096):
                        left.discard(sock)
                except BlockingIOError:
                    pass
                except OSError:
                    left.discard(sock)
            time.sleep(0.1)
        assert not left, f"{len(left)} of them are still there"
        quiet.wait_more()
    wait_until(lambda: open_files(node) < 100, 10, "their descriptors are free")


def input_bytes(node):
    text = node.get("/metrics").text
    return int(re.search(r"^leafd_http_input_bytes (\d+)$", text, re.MULTILINE)[1])


@pytest.mark.parametrize("begin", [
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ",
    b"PUT /api/tags/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 9\r\nX: ",
], ids=["heads", "bodies"])
# Shows attack-slow.
def test_requests_that_never_come_whole(make_cluster, tag, begin):
    """8 KiB of each, and no more: once 16 KiB a connection were kept, however many there were. Who
    came first gives way, and whoever asks for something is served."""
    settings = {"http-loops": 1, "http-memory-bytes": 6 * 8 * MIB}
    cluster = bounded(make_cluster, **settings)
    cluster.create_tag(tag)
    node = cluster.nodes[0]
    more_descriptors(4096)
    request = begin.ljust(7900, b"x") + (b"\r\n\r\n{" if begin.startswith(b"PUT") else b"")
    before = peak_bytes(node)
    with Held() as held, Quiet(cluster, tag) as quiet:
        socks = [held.open(node.address) for _ in range(3000)]
        for number, sock in enumerate(socks):
            sock.sendall(request)
            if number % 500 == 0:
                assert input_bytes(node) <= 8 * MIB
        quiet.wait_more()
        wait_until(lambda: input_bytes(node) > 7 * MIB, 10, "as many are kept as may be")
        assert b"408" in socks[0].recv(4096), "the first of them gave way"
        assert peak_bytes(node) < before + 32 * MIB, "all of them were kept"
        assert input_bytes(node) <= 8 * MIB
        quiet.wait_more()
    wait_until(lambda: input_bytes(node) == 0, 10, "nothing is left of them")


# Shows attack-slow.
def test_slow_bodies(make_cluster, tag):
    cluster = bounded(make_cluster, **{"http-idle-ms": 5000})
    cluster.create_tag(tag)
    node = cluster.nodes[0]
    head = request_bytes("PUT", f"/api/tags/{tag}", None,
                         {**JSON, "Content-Length": "1000"})
    with Held() as held, Quiet(cluster, tag) as quiet:
        socks = [held.open(node.address) for _ in range(50)]
        for sock in socks:
            sock.sendall(head)
        for _ in range(5):
            for sock in socks:
                with contextlib.suppress(OSError):
                    sock.sendall(b" ")
            time.sleep(0.1)
        assert all(is_closed_within(sock, 30) for sock in socks)
        quiet.wait_more()


# Shows attack-slow.
def test_connections_half_open_and_half_closed(attacked):
    """The client's end is shut, or gone without a word, in any state."""
    parts = [b"", b"GET", get_bytes("/livez")[:-2], get_bytes("/livez"),
             request_bytes("PUT", "/api/tags/x", None, {"Content-Length": "100"}) + b"{"]
    with Held() as held:
        for node in attacked.nodes:
            for how in range(3):
                for part in parts:
                    sock = held.open(node.address)
                    sock.sendall(part)
                    if how == 0:
                        sock.shutdown(socket.SHUT_WR)
                        assert is_closed_within(sock, 15), part
                    elif how == 1:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                        struct.pack("ii", 1, 0))
                        sock.close()
    for node in attacked.nodes:
        assert node.get("/livez").status == 200


# --- floods ---


# Shows attack-flood.
def test_a_flood_of_connections(attacked):
    """Made and gone, a thousand at each node."""
    for node in attacked.nodes:
        for number in range(1000):
            with socket.create_connection(node.address, timeout=30) as sock:
                if number % 2:
                    sock.sendall(get_bytes("/livez"))
    for node in attacked.nodes:
        assert node.get("/livez").status == 200


ERRORS = [
    get_bytes("/nothing"),
    get_bytes(f"{IDS}/no-such-tag"),
    get_bytes(f"{IDS}/quiet?count=x"),
    request_bytes("PATCH", "/livez", b""),
    request_bytes("PUT", "/api/tags/x", b"{", JSON),
]


# Shows attack-flood.
def test_pipelines_of_errors(attacked):
    """A megabyte of requests that all fail, and nobody who reads the answers for a while."""
    data = b"".join(ERRORS) * 2000
    with Held() as held:
        socks = [held.open(node.address) for node in attacked.nodes]
        for sock in socks:
            sock.settimeout(1)
            send_until_refused(sock, data)
        for sock in socks:
            sock.settimeout(15)
            got = b""
            while got.count(b"HTTP/1.1 4") < 1000:
                more = sock.recv(1 << 16)
                assert more, "it was closed"
                got += more
            assert b"HTTP/1.1 5" not in got


HEADS = {
    "headers": b"".join(b"X-%d: y\r\n" % number for number in range(10_000)),
    "one long header": b"X: " + b"y" * 100_000 + b"\r\n",
    "empty names": b": x\r\n" * 100,
    "hosts": b"Host: a\r\n" * 3,
    "lengths": b"Content-Length: 1\r\n" * 100,
    "a line without an end": b"X" * 200_000,
}


@pytest.mark.parametrize("name", HEADS)
# Shows attack-flood.
def test_heads_without_measure(attacked, name):
    for node in attacked.nodes:
        data = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + HEADS[name] + b"\r\n"
        with node.connect() as connection:
            send_until_refused(connection.sock, data)
            with contextlib.suppress(ConnectionResetError):
                check_refusal(connection.read_response(), {400, 431})


# --- smuggling: what another server might take for the end of a request ---

SECOND = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
SMUGGLED = {
    "CL.TE": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "TE.CL": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" + SECOND,
    "TE.TE": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + SECOND,
    "TE not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SECOND,
    "TE spaced": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "TE by a tab": b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SECOND,
    "two lengths": b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + SECOND,
    "a list of lengths": b"Content-Length: 0, 44\r\n\r\n" + SECOND,
    "a signed length": b"Content-Length: +0\r\n\r\n" + SECOND,
    "a length in hex": b"Content-Length: 0x0\r\n\r\n" + SECOND,
    "a folded length": b"Content-Length:\r\n 0\r\n\r\n" + SECOND,
    "a bare LF": b"X: y\nContent-Length: 44\r\n\r\n" + SECOND,
    "a bare CR": b"X: y\rContent-Length: 44\r\n\r\n" + SECOND,
    "a NUL": b"X: y\0\r\nContent-Length: 0\r\n\r\n" + SECOND,
    "a chunk of -1": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + SECOND,
    "a chunk of 2^64": b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + SECOND,
    "a chunk with LF": b"Transfer-Encoding: chunked\r\n\r\n0\n\n" + SECOND,
    "a chunk too long": b"Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n" + SECOND,
}


@pytest.mark.parametrize("name", SMUGGLED)
# Shows attack-smuggle.
def test_no_request_is_smuggled(attacked, name):
    """It is refused, and nothing behind it is taken for a request."""
    node = attacked.nodes[0]
    head = b"POST /api/segment/get/quiet HTTP/1.1\r\nHost: localhost\r\n"
    with node.connect() as connection:
        send_until_refused(connection.sock, head + SMUGGLED[name])
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.sock.recv(1 << 16):
                got += data
    assert b"smuggled" not in got and got.count(b"HTTP/1.1 ") == 1, got
    assert got.startswith(b"HTTP/1.1 400 "), got


# --- names that are meant for whoever reads them ---

HOSTILE = [
    'a"} 1\nleafd_leader_known 1',
    "a\\",
    '"',
    "a level=error msg=x",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "%2e%2e%2f",
    "${jndi:ldap://x}",
    "a' OR '1'='1",
    "\u202egnp.exe",
    "{{7*7}}",
    "=cmd|' /C calc'!A0",
]
LABELS = r'\{([a-z_]+="([^"\\\n]|\\.)*",?)*\}'
PROMETHEUS = re.compile(rf"(# (HELP|TYPE) .*|[a-z_]+({LABELS})? [0-9.e+NaInf-]+)")


@pytest.mark.parametrize("name", HOSTILE)
# Shows attack-names.
def test_hostile_names_stay_names(attacked, name):
    """In JSON, in the log and in the metrics they are text, and no line of their own."""
    node = attacked.nodes[0]
    sizes = {each.id: len(each.log()) for each in attacked.nodes}
    node.expect_log(r'"[^"]*a level=error msg=x')  # within a text
    path = "".join(f"%{byte:02X}" for byte in name.encode())
    answer = put_tag(node, path, description=name.replace("\n", " "))
    refused = "\n" in name or "\u202e" in name
    if refused:
        check_refusal(answer, {400})
    else:
        assert answer.status == 201 and answer.json()["tag"] == name
        assert node.get(f"{IDS}/{path}").status == 200
        assert name in {each["tag"] for each in listed(node)}
    check_refusal(node.get(f"{IDS}/{path}/x"), {400, 404})
    check_refusal(node.get(f"{IDS}/{path}?count=0"), {400})
    for line in node.get("/metrics").text.splitlines():
        assert PROMETHEUS.fullmatch(line), line
    if not refused:
        assert put_tag(node, path, force=True, max_id=1).status == 200
        assert node.http("DELETE", f"/api/tags/{path}").status == 204
    for each in attacked.nodes:
        for line in each.log()[sizes[each.id] :].splitlines():
            assert re.match(r"\d{4}-\d\d-\d\dT\S+ level=(info|warn) ", line), line
            assert "\u202e" not in line, line


def listed(node):
    """All tags, page by page."""
    after = ""
    while True:
        page = node.get_json(f"/api/tags?limit=1000{after}")
        yield from page["tags"]
        if not page["next"]:
            return
        after = "&after=" + "".join(f"%{byte:02X}" for byte in page["next"].encode())


# --- the peer port is no door ---


# Shows attack-stranger.
def test_the_peer_port_is_not_for_strangers(attacked):
    """HTTP, TLS of another kind, halves of frames: each is closed, and none is remembered."""
    before = {node.id: open_files(node) for node in attacked.nodes}
    garbage = [get_bytes("/livez"), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
               b"\x16\x03\x01\xff\xff" + bytes(100), bytes(64), b"\xff" * 4096]
    with Held() as held:
        for node in attacked.nodes:
            for data in garbage:
                sock = held.open(("127.0.0.1", node.peer_port))
                send_until_refused(sock, data)
        for sock in held.all:
            assert is_closed_within(sock, 10)
    for node in attacked.nodes:
        wait_until(lambda: open_files(node) <= before[node.id] + 5, 10, "nothing is left of them")
    assert Connection(attacked.nodes[0].address).request("GET", "/livez").status == 200
