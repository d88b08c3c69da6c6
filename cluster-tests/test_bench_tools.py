"""scripts/bench: a load that accepts nothing but good replies, and the figures made of it.

The load generator is built with ASan and UBSan and is let loose on a small server here that
misbehaves as each test wants. Percentiles and the set of ids are checked against plain Python. No
other server is needed.
"""

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, "scripts", "bench")
sys.path.insert(0, BENCH)

import measure  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import servers  # noqa: E402
import svg  # noqa: E402
from measure import Contender, Target  # noqa: E402
from ports import take_port  # noqa: E402
from processes import BenchError, Process  # noqa: E402
from wait import ran_s, wait_until  # noqa: E402

LIMIT_S = 60
SYS_SCHED_GETATTR = 315


# --- a server that answers as it is told ---


def ok(body, head=""):
    """A reply with status 200."""
    return f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def packet(payload, sequence=1):
    """A packet of MariaDB."""
    return len(payload).to_bytes(3, "little") + bytes([sequence]) + payload


class Hang:
    """In place of a reply: none, ever. Close: end the connection after these bytes."""


class Close:
    def __init__(self, data=b""):
        self.data = data


class Server:
    """answer(n, request) makes reply n, counted over all connections; request has head and body.
    burst: so many requests are read before the first of them is answered. protocol: http, resp (a
    request is the words of a command) or mariadb (a packet's payload)."""

    def __init__(self, answer, burst=1, protocol="http"):
        self.answer = answer
        self.burst = burst
        self.protocol = protocol
        self.count = 0
        self.lock = threading.Lock()
        self.requests = []
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = connection.makefile("rb")
            if self.protocol == "mariadb":
                connection.sendall(packet(b"\x0a10.11.0-Test\0", 0))
            while True:
                batch = [self.read(stream) for _ in range(self.burst)]
                for request in batch:
                    if not self.reply(connection, request):
                        return
        except (OSError, EOFError, ValueError):
            return

    def read(self, stream):
        """One request, as the protocol has it."""
        if self.protocol == "mariadb":
            head = stream.read(4)
            if len(head) < 4:
                raise EOFError
            return stream.read(int.from_bytes(head[:3], "little"))
        if self.protocol == "resp":
            words = int(self.line(stream)[1:])
            return [(self.line(stream), self.line(stream))[1] for _ in range(words)]
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.line(stream) + b"\r\n"
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return head.decode(), stream.read(length)

    def line(self, stream):
        line = stream.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError
        return line[:-2]

    def reply(self, connection, request):
        """Send one reply; False if the connection is over."""
        with self.lock:
            number = self.count
            self.count += 1
            self.requests.append(request)
        answer = self.answer(number, request)
        if answer is Hang:
            return True
        if isinstance(answer, Close):
            connection.sendall(answer.data)
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
            return False
        connection.sendall(answer)
        return True

    def close(self):
        """A thread that still waits in accept() would do so at the next socket of that number."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def serve():
    servers = []

    def start(answer, **options):
        servers.append(Server(answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    made = subprocess.run(
        ["make", "-s", "-j2", f"BUILD={folder}", "FLAVOUR=asan", "bench-tools"],
        cwd=ROOT, capture_output=True, text=True, env=clean_env(), check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "bench"


def clean_env():
    """Without the settings of a make that runs the tests."""
    return {name: value for name, value in os.environ.items()
            if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}


@pytest.fixture
def load(build):
    def run(*arguments, code=None):
        """(exit code, report); with code, that exit code is demanded."""
        done = subprocess.run([str(build / "load"), *map(str, arguments)], capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    return run


# --- what a load takes for good ---


def test_good_ids(serve, load):
    server = serve(lambda n, _: ok(str(n + 1)))
    code, result = load("--address", server.address, "--connections", 4, "--requests", 200,
                        "--seconds", 10, "/x?y=z")
    assert code == 0 and result["ok"] is True and result["first_bad"] == ""
    assert result["sent"] == result["good"] == 200 == server.count
    assert result["statuses"] == {"200": 200}
    assert result["ids"] == {"count": 200, "duplicates": 0, "min": 1, "max": 200}
    assert result["rate"] > 0 and result["rate"] == result["ids_rate"]
    heads = {head for head, _ in server.requests}
    assert heads == {"GET /x?y=z HTTP/1.1\r\nHost: bench\r\n\r\n"}


def test_seconds_bound_the_load(serve, load):
    server = serve(lambda n, _: ok(str(n + 1)))
    _, result = load("--address", server.address, "--connections", 2, "--seconds", 0.3, "--grace",
                     LIMIT_S, "/", code=0)
    assert result["seconds"] == pytest.approx(0.3)
    assert result["sent"] == result["good"] == server.count > 0
    assert result["rate"] == pytest.approx(result["good"] / 0.3, rel=0.2)


def test_lists_ranges_and_chunks(serve, load):
    def answer(n, request):
        first = 1 + 5 * n
        if "range" in request[0]:
            return ok(f"{first} {first + 2}\n{first + 3} {first + 4}\n")
        body = "".join(f"{first + i}\n" for i in range(5))
        half = len(body) // 2
        return ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                f"{half:x}\r\n{body[:half]}\r\n{len(body) - half:x}\r\n{body[half:]}\r\n"
                "0\r\n\r\n").encode()

    for path, expect in (("/text", "ids:5"), ("/range", "ranges:5")):
        _, result = load("--address", serve(answer).address, "--requests", 40, "--connections", 3,
                         "--expect", expect, path, code=0)
        assert result["ids"] == {"count": 200, "duplicates": 0, "min": 1, "max": 200}


def test_field_text_and_any(serve, load):
    server = serve(lambda n, _: ok('{"a":{"revision":"%d","b":"2"}}' % (n + 7)))
    _, result = load("--address", server.address, "--requests", 30, "--expect", "field:revision",
                     "--post", '{"k":1}', "/put", code=0)
    assert result["ids"]["min"] == 7 and result["ids"]["max"] == 36
    assert server.requests[0] == ("POST /put HTTP/1.1\r\nHost: bench\r\nContent-Length: 7\r\n\r\n",
                                  b'{"k":1}')
    server = serve(lambda n, _: ok("constant"))
    load("--address", server.address, "--requests", 30, "--expect", "text:constant", "/", code=0)
    load("--address", server.address, "--requests", 30, "--expect", "any", "/", code=0)
    load("--address", server.address, "--requests", 30, "--expect", "text:other", "/", code=1)
    load("--address", server.address, "--requests", 30, "--expect", "field:revision", "/", code=1)


def test_targets_in_turn_and_groups(serve, load, tmp_path):
    counts = {}

    def answer(_, request):
        path = request[0].split(" ")[1]
        counts[path] = counts.get(path, 0) + 1
        return ok(str(counts[path]))

    targets = tmp_path / "targets"
    targets.write_text("/a\n/b\tbody of b\n/c\n")
    server = serve(answer)
    arguments = ("--address", server.address, "--connections", 1, "--requests", 7, "--targets",
                 targets)
    load(*arguments, "--group-by-target", code=0)
    assert [head.split(" ")[1] for head, _ in server.requests] == list("/a/b/c/a/b/c/a"[i:i + 2]
                                                                     for i in range(0, 14, 2))
    assert [body for _, body in server.requests[:3]] == [b"", b"body of b", b""]
    counts.clear()
    _, result = load(*arguments, code=1)
    assert result["ids"]["duplicates"] == 4


def test_connections_go_round_the_addresses(serve, load):
    servers = [serve(lambda n, _: ok("x")) for _ in range(3)]
    load("--address", ",".join(server.address for server in servers), "--connections", 7,
         "--requests", 100, "--expect", "any", "/", code=0)
    assert [len(server.connections) for server in servers] == [3, 2, 2]
    assert sum(server.count for server in servers) == 100


def test_pipeline(serve, load):
    """The server answers nothing until a whole batch is there."""
    server = serve(lambda n, _: ok(str(n + 1)), burst=8)
    _, result = load("--address", server.address, "--connections", 3, "--pipeline", 8,
                     "--requests", 240, "/", code=0)
    assert result["good"] == 240 == server.count


def test_redis(serve, load):
    server = serve(lambda n, _: b":%d\r\n" % (n + 1), protocol="resp", burst=4)
    _, result = load("--address", server.address, "--protocol", "resp", "--connections", 2,
                     "--pipeline", 4, "--requests", 80, "INCR  order", code=0)
    assert result["ids"]["count"] == 80
    assert server.requests[0] == [b"INCR", b"order"]
    server = serve(lambda n, _: b":12", protocol="resp")
    _, result = load("--address", server.address, "--protocol", "resp", "--connections", 1,
                     "--seconds", 0.2, "--grace", 0.2, "INCR", code=1)
    assert result["unanswered"] == 1
    server = serve(lambda n, _: b"-ERR no\r\n", protocol="resp")
    _, result = load("--address", server.address, "--protocol", "resp", "--requests", 5, "INCR",
                     code=1)
    assert result["statuses"] == {"error": 5} and "ERR no" in result["first_bad"]
    server = serve(lambda n, _: b"*1\r\n:1\r\n", protocol="resp")
    _, result = load("--address", server.address, "--protocol", "resp", "--connections", 1,
                     "--requests", 5, "INCR", code=1)
    assert result["broken"] == 1


def mariadb_ok(number):
    """An OK packet with an id, as short as it can be written."""
    for prefix, width in ((b"", 1), (b"\xfc", 2), (b"\xfd", 3), (b"\xfe", 8)):
        if number < (251 if width == 1 else 1 << 8 * width):
            return packet(b"\0\x01" + prefix + number.to_bytes(width, "little") + b"\x02\0\0\0")
    raise ValueError(number)


def mariadb_answer(replies):
    """Answers of a server that lets everyone in, and then gives these replies in turn."""
    statements = iter(replies)

    def answer(_, request):
        if request[:1] in b"\x03\x17":
            return next(statements)
        return packet(b"\0" + bytes(11))

    return answer


@pytest.mark.parametrize("prepared", [False, True])
def test_mariadb(serve, load, prepared):
    numbers = [1, 250, 251, 65535, 65536, 1 << 24, 1 << 40]
    server = serve(mariadb_answer(map(mariadb_ok, numbers)), protocol="mariadb")
    _, result = load("--address", server.address, "--connections", 1, "--requests", len(numbers),
                     "--protocol", "mariadb-prepared" if prepared else "mariadb", "--strict",
                     "UPDATE t", code=0)
    assert result["ids"] == {"count": 7, "duplicates": 0, "min": 1, "max": 1 << 40}
    login, *statements = server.requests
    assert login.endswith(b"bench\0\0bench\0mysql_native_password\0")
    if prepared:
        assert statements == [b"\x16UPDATE t"] + 7 * [b"\x17\xff\xff\xff\xff\0\x01\0\0\0"]
    else:
        assert statements == 7 * [b"\x03UPDATE t"]


def test_mariadb_errors(serve, load):
    def run(reply, *more):
        server = serve(mariadb_answer([reply]), protocol="mariadb")
        return load("--address", server.address, "--connections", 1, "--requests", 1,
                    "--protocol", "mariadb", *more, "UPDATE t", code=1)[1]

    result = run(packet(b"\xff\x15\x04#42000no such table"))
    assert result["statuses"] == {"error": 1} and "no such table" in result["first_bad"]
    assert run(packet(b"\x01\x00\x00"))["broken"] == 1  # rows
    assert run(packet(b"\x00\x01\xfe\x00"))["broken"] == 1  # cut short
    assert run(mariadb_ok(1 << 40)[:-1], "--grace", 0.2)["unanswered"] == 1
    denied = packet(b"\xff\x15\x04#28000Access denied")
    server = serve(lambda n, _: denied, protocol="mariadb")
    _, errors = load("--address", server.address, "--protocol", "mariadb", "UPDATE t", code=2)
    assert "Access denied" in errors


# --- what it must find ---


def test_duplicate(serve, load):
    server = serve(lambda n, _: ok("41" if n == 77 else str(n + 1)))
    _, result = load("--address", server.address, "--requests", 100, "/", code=1)
    assert result["ok"] is False
    assert result["ids"]["duplicates"] == 1 and result["ids"]["first_duplicate"] == 41
    assert result["ids"]["count"] == 99


# Shows lesson-bench.
def test_duplicate_of_an_earlier_load():
    """Of strict ids each load has those that follow the last of the load before, all of them."""
    bench_module()
    from cases.common import dense_loads

    def report(count, first, last):
        return {"ids": {"count": count, "min": first, "max": last}}

    for fault in (report(9, 11, 20), report(11, 10, 20), report(9, 12, 20)):
        check = dense_loads()
        check(report(10, 1, 10))
        with pytest.raises(BenchError, match="not dense: after 10 came"):
            check(fault)
    check = dense_loads()
    check(report(10, 1, 10))
    check(report(10, 11, 20))


def test_overlapping_ranges(serve, load):
    server = serve(lambda n, _: ok(f"{1 + 999 * n} {1000 + 999 * n}\n"))
    _, result = load("--address", server.address, "--requests", 20, "--connections", 1, "--expect",
                     "ranges:1000", "/", code=1)
    assert result["ids"]["duplicates"] == 19
    assert result["ids"]["first_duplicate"] == 1000


# Shows lesson-bench.
def test_other_status(serve, load):
    server = serve(lambda n, _: b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy"
                   if n % 10 == 3 else ok(str(n + 1)))
    _, result = load("--address", server.address, "--requests", 100, "/", code=1)
    assert result["statuses"] == {"200": 90, "503": 10}
    assert result["good"] == 90 and "503" in result["first_bad"] and "busy" in result["first_bad"]


BAD_BODIES = {
    "empty": ("ids", ""),
    "no number": ("ids", "abc"),
    "negative": ("ids", "-5"),
    "zero": ("ids", "0"),
    "leading zero": ("ids", "007"),
    "too large": ("ids", str((1 << 63) - 1)),
    "far too large": ("ids", "18446744073709551617"),
    "space at the end": ("ids", "5 "),
    "two in a line": ("ids", "5 6\n"),
    "empty line": ("ids", "5\n\n6\n"),
    "last line not ended": ("ids", "5\n6"),
    "too few": ("ids:3", "5\n6\n"),
    "too many": ("ids:3", "5\n6\n7\n8\n"),
    "falling": ("ids", "6\n5\n"),
    "the same twice": ("ids", "6\n6\n"),
    "range backwards": ("ranges", "7 6\n"),
    "range without end": ("ranges", "7 \n"),
    "range not ended": ("ranges", "7 9"),
    "ranges that overlap": ("ranges", "7 9\n9 11\n"),
    "range too short": ("ranges:10", "1 9\n"),
    "endless range": ("ranges", "1 9223372036854775806\n"),
    "no such field": ("field:revision", '{"version":"1"}'),
    "field with no id": ("field:revision", '{"revision":"x"}'),
    "field's name in a longer one": ("field:revision", '{"my_revision":"1"}'),
}


@pytest.mark.parametrize("what", BAD_BODIES)
def test_bad_body(serve, load, what):
    expect, body = BAD_BODIES[what]
    server = serve(lambda n, _: ok(body))
    _, result = load("--address", server.address, "--requests", 1, "--connections", 1, "--expect",
                     expect, "/", code=1)
    assert result["bad_body"] == 1 and result["good"] == 0 and result["statuses"] == {"200": 1}


BROKEN = {
    "no HTTP": b"hello\r\n\r\n",
    "no length": b"HTTP/1.1 200 OK\r\n\r\n1",
    "bad length": b"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n1",
    "two replies": ok("1") + ok("2"),
    "bytes behind the body": ok("1") + b"garbage",
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_reply(serve, load, what):
    server = serve(lambda n, _: BROKEN[what])
    code, result = load("--address", server.address, "--requests", 2, "--connections", 1, "/")
    assert code == 1 and result["ok"] is False
    assert result["broken"] == 1, result


def test_short_body(serve, load):
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234"
    server = serve(lambda n, _: Close(reply) if n == 5 else ok(str(n + 1)))
    _, result = load("--address", server.address, "--requests", 50, "--connections", 2, "/", code=1)
    assert result["closed"] == 1 and result["unanswered"] == 1
    assert result["good"] == result["sent"] - 1 == 49


def test_all_connections_lost(serve, load):
    server = serve(lambda n, _: Close())
    _, result = load("--address", server.address, "--seconds", LIMIT_S, "--connections", 5, "/",
                     code=1)
    assert result["closed"] == 5 and result["unanswered"] == 5 and result["good"] == 0


def test_connection_close_is_told(serve, load):
    server = serve(lambda n, _: ok(str(n + 1), "Connection: close\r\n"))
    _, result = load("--address", server.address, "--requests", 9, "--connections", 3, "/", code=1)
    assert result["closed"] == 3 and result["good"] == 3 and "closes" in result["first_bad"]


def test_no_answer(serve, load):
    server = serve(lambda n, _: Hang if n == 3 else ok(str(n + 1)))
    _, result = load("--address", server.address, "--requests", 50, "--connections", 2, "--grace",
                     3, "/", code=1)
    assert result["unanswered"] == 1 and result["good"] == 49


def test_not_strict(serve, load):
    """With one connection every id must be above the one before; with none under way out of order
    there is nothing to forgive."""
    falling = serve(lambda n, _: ok(str(1000 - n)))
    load("--address", falling.address, "--requests", 10, "--connections", 1, "/", code=0)
    _, result = load("--address", falling.address, "--requests", 10, "--connections", 1, "--strict",
                     "/", code=1)
    assert result["bad_body"] == 9 and "acknowledged" in result["first_bad"]


def test_strict_forgives_what_was_under_way(serve, load):
    """Two at once may be answered in either order."""
    swapped = serve(lambda n, _: ok(str((n ^ 1) + 1)), burst=2)
    load("--address", swapped.address, "--requests", 40, "--connections", 1, "--pipeline", 2,
         "--strict", "/", code=0)


def test_nobody_listens(load):
    code, errors = load("--address", "127.0.0.1:1", "/")  # no system gives that port to anyone
    assert code == 2 and "refused" in errors


@pytest.mark.parametrize("arguments", [
    ["/"], ["--address", "localhost:1", "/"], ["--address", "127.0.0.1:0", "/"],
    ["--address", "127.0.0.1:1"], ["--address", "127.0.0.1:1", "/", "/"],
    ["--address", "127.0.0.1:1", "--connections", "0", "/"],
    ["--address", "127.0.0.1:1", "--connections", "20001", "/"],
    ["--address", "127.0.0.1:1", "--seconds", "1x", "/"],
    ["--address", "127.0.0.1:1", "--rate", "10", "--pipeline", "2", "/"],
    ["--address", "127.0.0.1:1", "--expect", "nothing", "/"],
    ["--address", "127.0.0.1:1", "--protocol", "ftp", "/"],
    ["--address", "127.0.0.1:1", "--targets", "/nonexistent"], ["--unknown"],
    ["--address", "127.0.0.1:1", "--protocol", "mariadb-prepared", "--targets", "/dev/null"],
])
def test_usage(load, arguments):
    code, errors = load(*arguments)
    assert code == 2 and errors


# --- open loop, latency ---


def test_latency_counts_from_when_a_request_was_due(serve, load):
    """One reply takes half a second, and the requests due meanwhile wait for the only connection: a
    load that measured from when it sent them would show one slow reply."""
    def answer(n, _):
        if n == 20:
            time.sleep(0.5)
        return ok(str(n + 1))

    _, result = load("--address", serve(answer).address, "--connections", 1, "--rate", 100,
                     "--seconds", 1, "/", code=0)
    assert result["sent"] == 100
    late = result["latency_us"]
    assert late["max"] >= 500_000 and late["p99"] >= 480_000
    assert late["p90"] >= 250_000


@pytest.mark.alone
def test_rate_is_kept(serve, load):
    server = serve(lambda n, _: ok(str(n + 1)))

    def kept():
        begin = time.monotonic()
        _, result = load("--address", server.address, "--connections", 8, "--rate", 300,
                         "--seconds", 1, "/", code=0)
        assert result["sent"] == 300 and time.monotonic() - begin > 0.9
        return result["rate"] == pytest.approx(300, rel=0.05)

    # What is answered when the second is over, since the machine stood still, is not in the rate.
    assert any(kept() for _ in range(5))


def test_rate_without_enough_replies(serve, load):
    """What was due and could not be sent is not forgotten."""
    _, result = load("--address", serve(lambda n, _: Hang).address, "--connections", 2, "--rate",
                     50, "--seconds", 0.4, "--grace", 0.2, "/", code=1)
    assert result["sent"] == 20 and result["unanswered"] == 20 and result["good"] == 0


def turn_ns(pid):
    """The length of turns of the processor that a process has asked for, as the kernel has it; 0: a
    kernel that has none."""
    attr = (ctypes.c_uint64 * 6)()  # struct sched_attr: the fourth is sched_runtime
    assert ctypes.CDLL(None).syscall(SYS_SCHED_GETATTR, pid, attr, ctypes.sizeof(attr), 0) == 0
    return attr[3]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of a system call")
@pytest.mark.skipif(turn_ns(0) == 0, reason="an older kernel")
@pytest.mark.parametrize("rate, short", [(["--rate", "20"], True), ([], False)])
def test_short_turns_with_a_rate(serve, build, rate, short):
    """A load with a rate is woken before others; one without waits for its turn like others."""
    server = serve(lambda n, _: ok(str(n + 1)))
    load = subprocess.Popen([build / "load", "--address", server.address, "--connections", "1",
                             *rate, "--seconds", str(LIMIT_S), "/"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: server.count > 0, LIMIT_S, "it has asked")
        assert turn_ns(load.pid) == (100_000 if short else turn_ns(0))
    finally:
        load.kill()
        load.wait()


# --- the parts in C by themselves ---


class IdSet(ctypes.Structure):
    _fields_ = [("ranges", ctypes.c_void_p), ("used", ctypes.c_size_t),
                ("capacity", ctypes.c_size_t)] + [
                    (name, ctypes.c_uint64)
                    for name in ("added", "min", "max", "duplicates", "first_duplicate")]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """result.c and idset.c as a shared library."""
    path = tmp_path_factory.mktemp("library") / "parts.so"
    sources = ["scripts/bench/result.c", "scripts/bench/idset.c", "src/base/err.c"]
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-iquote", ".",
                    "-o", str(path), *sources], cwd=ROOT, check=True)
    parts = ctypes.CDLL(str(path))
    parts.result_good.argtypes = [ctypes.c_void_p] + 3 * [ctypes.c_uint64]
    parts.result_print.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    for function in (parts.idset_init, parts.idset_free, parts.idset_sum):
        function.argtypes = [ctypes.POINTER(IdSet)]
    parts.idset_add.argtypes = [ctypes.POINTER(IdSet), ctypes.c_uint32, ctypes.c_uint64,
                                ctypes.c_uint64]
    return parts


def percentile(values, percent):
    """The value of that rank: exact."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, int(rank)) - 1]


@pytest.mark.parametrize("name,draw", [
    ("uniform", lambda r: r.randrange(1, 10_000_000)),
    ("one", lambda r: 4711),
    ("minutes", lambda r: r.randrange(1, 100 * 10**9)),
    ("exponential", lambda r: int(r.expovariate(1 / 250_000))),
    ("two humps", lambda r: r.choice((100, 50_000_000)) + r.randrange(50)),
    ("small", lambda r: r.randrange(256)),
    ("whole range", lambda r: 1 << r.randrange(64)),
    ("none", None),
])
def test_percentiles(library, tmp_path, name, draw):
    """Each is the value of its rank, and at most 256 ns more; from 17 s on it is the longest."""
    randoms = random.Random(name)
    values = [draw(randoms) for _ in range(3000)] if draw else []
    result = ctypes.create_string_buffer(1 << 16)
    library.result_init(result)
    for value in values:
        library.result_good(result, 0, value, 1)
    found = printed(library, result, tmp_path)
    assert found["good"] == len(values)
    longest = max(values, default=0)
    assert found["latency_us"].pop("max") == pytest.approx(longest / 1000, abs=0.001)
    assert set(found["latency_us"]) == {"p50", "p90", "p99", "p99.9"}
    for point, value in found["latency_us"].items():
        exact = percentile(values, float(point[1:])) if values else 0
        upper = exact + 256 if exact < 1 << 34 else longest
        assert exact <= 1000 * value + 1 and 1000 * value <= upper * 1.000001 + 1, (point, exact)
    library.result_free(result)


def printed(library, result, tmp_path):
    """The report of a result."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype, libc.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    path = tmp_path / "report"
    file = libc.fopen(str(path).encode(), b"w")
    library.result_print(result, file)
    libc.fclose(file)
    return json.loads(path.read_text())


@pytest.mark.parametrize("spread", [1 << 14, 1 << 40])
def test_set_of_ids(library, spread):
    """Against Python's own set, dense and far apart, in several groups, also summed in between."""
    randoms = random.Random(spread)
    ids, mine = IdSet(), set()
    library.idset_init(ids)
    again = []
    for turn in range(1500):
        group, low = randoms.randrange(3), randoms.randrange(1, spread)
        high = low + randoms.choice((0, 0, 0, 1, 63, 64, 511, 512, 1500))
        again += [(group, i) for i in range(low, high + 1) if (group, i) in mine]
        mine.update((group, i) for i in range(low, high + 1))
        library.idset_add(ids, group, low, high)
        if turn % 500 == 499:
            library.idset_sum(ids)
            assert (ids.added, ids.duplicates) == (len(mine) + len(again), len(again))
            assert bool(again) == (ids.first_duplicate != 0)
    assert not again or ids.first_duplicate in {number for _, number in again}
    assert ids.min == min(i for _, i in mine) and ids.max == max(i for _, i in mine)
    library.idset_free(ids)


def test_tens_of_millions_of_ids(library):
    """Those that follow each other take no memory, and none is forgotten when a list is full."""
    ids = IdSet()
    library.idset_init(ids)
    for first in range(1, 50_000_000, 100_000):
        library.idset_add(ids, 0, first, first + 99_999)
    assert ids.used == 1
    ids.capacity = 1000
    for first in range(60_000_000, 60_000_000 + 2 * 1500, 2):
        library.idset_add(ids, 0, first, first)
    assert ids.capacity == 2000
    for first in range(60_000_001, 60_000_001 + 2 * 1500, 2):
        library.idset_add(ids, 0, first, first)
    library.idset_add(ids, 0, 25_000_000, 25_000_000)
    library.idset_sum(ids)
    assert ids.added == 50_003_001 and ids.duplicates == 1
    assert ids.first_duplicate == 25_000_000 and ids.used == 2
    library.idset_free(ids)


def test_ranges_as_long_as_their_count(library):
    """More than 2^32 ids in a row do not fit into one range."""
    ids, most = IdSet(), (1 << 32) - 1
    library.idset_init(ids)
    for first in range(1, 1 + 3 * most, most):
        library.idset_add(ids, 0, first, first + most - 1)
    library.idset_add(ids, 0, 3 * most, 3 * most + 1)
    library.idset_sum(ids)
    assert (ids.added, ids.duplicates) == (3 * most + 2, 1)
    assert ids.first_duplicate == 3 * most and ids.max == 3 * most + 1
    library.idset_free(ids)


# --- what is made of the figures ---


def figures(**given):
    return {name: given.get(name, 1.0) for name in measure.FIGURES}


def test_a_target_is_judged_by_the_median_of_the_rounds():
    rounds = [{"a": figures(rate=rate), "b": figures(rate=10)} for rate in (10, 60, 50, 40, 1000)]
    reached = Target("rate", "a", "b", at_least=5).judge(rounds)
    assert (reached["measured"], reached["min"], reached["max"]) == ("5.00", "1.00", "100.00")
    assert reached["reached"] and reached["bound"] == "≥ 5" and reached["value"] == 5
    assert not Target("rate", "a", "b", at_least=5.01).judge(rounds)["reached"]
    assert Target("rate", "a", "b", at_most=5).judge(rounds)["reached"]
    assert not Target("rate", "a", "b", at_most=4.99).judge(rounds)["reached"]


def test_how_near_a_target_is():
    rounds = [{"a": figures(rate=30, cpu_us=1.7), "b": figures(rate=10, cpu_us=1)}]

    def missed_by(target):
        return target.judge(rounds)["missed_by"]

    assert missed_by(Target("rate", "a", "b", at_least=5)) == "60.0 % of what is wanted"
    assert missed_by(Target("cpu_us", "a", "b", at_most=0.85)) == "100.0 % above what is wanted"
    assert missed_by(Target("cpu_us", "a", at_most=1.25)) == "36.0 % above what is wanted"
    assert missed_by(Target("cpu_us", "a", at_most=1.7)) == ""


def test_a_target_without_a_ratio():
    rounds = [{"a": figures(next_grant_ms=ms)} for ms in (900, 3100, 1400)]
    median = Target("next_grant_ms", "a", at_most=1500).judge(rounds)
    assert median["reached"]
    assert (median["bound"], median["measured"]) == ("≤ 1,500 ms", "1,400 ms")
    longest = Target("next_grant_ms", "a", at_most=3000, pick=max).judge(rounds)
    assert not longest["reached"] and longest["value"] == 3100 and ", max" in longest["text"]


class FakeServer:
    name, settings, directory = "fake", "none", "/"

    def __init__(self):
        self.checks = 0

    def cpu(self):
        return 1.0, 2.0

    def pids(self):
        return [os.getpid()]

    def check(self):
        self.checks += 1

    def version(self):
        return "1"


@pytest.mark.alone
def test_contenders_take_turns(serve, build):
    order = []

    def contender(name):
        server = serve(lambda n, _: ok(str(n + 1)))
        return Contender(name, name, [FakeServer()],
                         [str(build / "load"), "--address", server.address, "--connections", "1",
                          "/"], lambda found: order.append((name, found["good"])))

    said = []
    contenders = [contender("a"), contender("b")]
    for one in contenders:
        one.warm_up_s = 0.05
    rounds = measure.run_rounds(contenders, 3, 0.1, said.append)
    assert [name for name, _ in order] == ["a", "b"] * 4
    assert len(rounds) == len(said) == 3
    # A machine that stands still for all of a load leaves that one without a rate.
    assert all(any(one[name]["rate"] > 0 for one in rounds) for name in "ab")
    assert contenders[0].servers[0].checks == 4
    assert "http_us" not in rounds[0]["a"]


def test_kinds_of_threads_have_figures(serve, build):
    over = threading.Event()
    server = serve(lambda n, _: ok(str(n + 1)))
    busy = [threading.Thread(target=spin, args=(name, over)) for name in ("busy-0", "busy-11")]
    for thread in busy:
        thread.start()
    try:
        found = Contender("a", "a", [FakeServer()], [
            str(build / "load"), "--address", server.address, "--connections", "1", "/"],
            threads={"busy": "http_us", "nobody": "raft_us"}).measure(1.0)
    finally:
        over.set()
        for thread in busy:
            thread.join()
    assert found["http_us"] > 0 and found["raft_us"] == 0
    assert 0 <= found["idle"] <= 100
    assert set(processes.cpu_of_threads([os.getpid()])) >= {"main"}


def spin(name, over):
    """Use the processor under a name, until it is over."""
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w", encoding="ascii") as comm:
        comm.write(name)
    while not over.is_set():
        pass


def test_a_wrong_reply_is_an_error_of_the_measurement(serve, build):
    server = serve(lambda n, _: ok("5"))
    contender = Contender("a", "a", [], [str(build / "load"), "--address", server.address, "/"])
    with pytest.raises(BenchError, match="duplicates"):
        contender.measure(0.1)
    broken = Contender("a", "a", [], [str(build / "load"), "--address", "nowhere", "/"])
    with pytest.raises(BenchError, match="HOST:PORT"):
        broken.measure(0.1)


def test_report(tmp_path):
    class Case:
        name, title, text = "demo", "one & another <case>", "What is\nmeasured."
        targets = [Target("rate", "a", "b", at_least=5), Target("cpu_us", "a", "b", at_most=0.5)]
        charts = ("rate", "cpu_us")

        @staticmethod
        def in_the_way(figures):
            return [f"It has {figures['b']['rate']:.0f}.", "And more."]

    contenders = [Contender(name, name.upper(), [FakeServer()], ["/bin/load", "it's"])
                  for name in "ab"]
    rounds = [{"a": figures(rate=rate, cpu_us=1), "b": figures(rate=10, cpu_us=1)}
              for rate in (50, 70, 60)]
    report.keep(str(tmp_path),
                report.result_of(Case, Case.targets, contenders, rounds, 5.0, "ext4"))
    Case.name = "broken"
    report.keep(str(tmp_path), report.failure_of(Case, BenchError("ids\nrepeat")))
    path = report.write_report(str(tmp_path), ["broken", "never-run", "demo"])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = text.splitlines()
    reached = [line for line in lines if "**reached**" in line]
    missed = [line for line in lines if "**not reached**" in line and "rounds" not in line]
    assert len(reached) == 1 and "≥ 5 | 6.00 | 5.00 to 7.00" in reached[0]
    assert len(missed) == 2 and all("≤ 0.5" in line for line in missed)
    assert ("**How near:** CPU time per request: a / b: 1.00 where ≤ 0.5 is wanted, 100.0 % above"
            in text)
    assert "**What stands in the way:** It has 10.\n\nAnd more.\n" in text
    assert text.index("broken") < text.index("demo") and "never-run" not in text
    assert "ids\nrepeat" in text and "**not measured**" in text
    assert "make bench CASE=demo" in text and "(demo.svg)" in text
    root = xml.etree.ElementTree.parse(tmp_path / "demo.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == Case.title
    assert len(root.findall(f"{space}circle")) == 2 * 2 * 3
    assert not os.path.exists(tmp_path / "broken.svg")


def test_commands_are_shown_as_typed_in_the_root():
    command = [f"{ROOT}/build/bench/load", "--seen", f"{ROOT}/build/x y", "a" * 130]
    assert report.shown(command) == "load --seen 'build/x y' " + "a" * 117 + "..."
    assert report.shown("SIGTERM, start") == "SIGTERM, start"


def test_bars_are_as_long_as_their_medians():
    text = svg.plot("t", [("rate", "/s", 0, [("a", 100, [100]), ("b", 25, [20, 30])])])
    rects = xml.etree.ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}rect")
    bars = [float(rect.get("width")) for rect in rects if rect.get("x") != "-12"]
    assert bars[0] == pytest.approx(4 * bars[1]) and bars[0] > 300


@pytest.mark.parametrize("value,expected", [(0, 1), (1, 1), (1.1, 2), (2.4, 2.5), (26, 50),
                                            (99_999, 100_000), (0.03, 0.05)])
def test_axis_ends(value, expected):
    assert svg.nice_ceiling(value) == pytest.approx(expected)


# --- processes ---


def test_data_on_different_file_systems_is_refused(monkeypatch):
    kinds = {"/a": ("8:1", "ext4"), "/b": ("8:1", "ext4"), "/c": ("0:9", "tmpfs")}
    monkeypatch.setattr(processes, "file_system_of", lambda path: kinds[path])
    assert processes.check_same_file_system({"leafd": "/a", "etcd": "/b"}) == "ext4"
    with pytest.raises(BenchError, match="tmpfs"):
        processes.check_same_file_system({"leafd": "/a", "etcd": "/c"})


def test_file_system_of_a_path(tmp_path):
    number, kind = processes.file_system_of(str(tmp_path))
    device = os.stat(tmp_path).st_dev
    assert number == f"{os.major(device)}:{os.minor(device)}"
    assert kind  # "unknown" where the mount is not to be seen, as in a root directory of its own


def test_cpu_time_of_a_process(tmp_path):
    """A second of work, and none while it sleeps."""
    busy = Process("busy", ["sh", "-c", "while :; do :; done"], str(tmp_path)).start()
    idle = Process("idle", ["sleep", "60"], str(tmp_path)).start()
    try:
        processes.wait_for(lambda: sum(processes.cpu_of(busy.pid)) >= 0.3, 20, "work", [busy, idle])
        assert sum(processes.cpu_of_all([idle.pid])) < 0.2
    finally:
        busy.stop()
        idle.stop()


def test_a_server_that_dies_is_told_with_its_last_words(tmp_path):
    process = Process("dying", ["sh", "-c", "echo last words; exit 3"], str(tmp_path)).start()
    with pytest.raises(BenchError, match="ended with 3:\nlast words"):
        processes.wait_for(lambda: False, 10, "never", [process])


# --- slow_disk ---

FLUSHES = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
direct = os.open(sys.argv[1], os.O_RDWR | os.O_DSYNC)
for call in (lambda: os.fdatasync(file), lambda: os.fsync(file),
             lambda: os.pwrite(direct, b"x" * 100, 0), lambda: os.pwrite(file, b"x" * 100, 0),
             lambda: os.pwrite(direct, b"x" * 4096, 0), lambda: os.write(file, b"x")):
    times = [time.monotonic()]
    for _ in range(3):
        call()
        times.append(time.monotonic())
    print(min(end - begin for begin, end in zip(times, times[1:])))
print(os.getpid())
"""


def run_slow_disk(build, tmp_path, *command, delay="400000"):
    (tmp_path / "delay").write_text(delay, encoding="ascii")
    return subprocess.run([build / "slow_disk", tmp_path / "delay", *command],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_slow_disk_delays_each_flush_and_nothing_else(build, tmp_path):
    run = run_slow_disk(build, tmp_path, sys.executable, "-c", FLUSHES, tmp_path / "data")
    assert run.returncode == 0, run.stderr
    seconds = [float(line) for line in run.stdout.splitlines()[:6]]
    assert all(taken >= 0.4 for taken in seconds[:3])
    assert all(taken < 0.4 for taken in seconds[3:])
    fast = run_slow_disk(build, tmp_path, sys.executable, "-c", FLUSHES, tmp_path / "data",
                         delay="0\n")
    assert all(float(line) < 0.4 for line in fast.stdout.splitlines()[:6])


def test_slow_disk_reads_the_delay_at_each_flush(build, tmp_path):
    script = ("import os, sys, time\n"
              "file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
              "open(sys.argv[2], 'w').write('700000')\n"
              "began = time.monotonic()\n"
              "os.fdatasync(file)\n"
              "print(time.monotonic() - began)\n")
    run = run_slow_disk(build, tmp_path, sys.executable, "-c", script, tmp_path / "data",
                        tmp_path / "delay", delay="0")
    assert float(run.stdout) >= 0.7


def test_slow_disk_is_the_server_itself(build, tmp_path):
    """Its pid is the server's, whose CPU time is measured, and it ends with the server's code."""
    (tmp_path / "delay").write_text("0", encoding="ascii")
    with subprocess.Popen([build / "slow_disk", tmp_path / "delay", sys.executable, "-c",
                           "import os; print(os.getpid()); raise SystemExit(7)"],
                          stdout=subprocess.PIPE, text=True) as child:
        assert int(child.stdout.read()) == child.pid
        assert child.wait(LIMIT_S) == 7


@pytest.mark.parametrize("delay", ["", "fast", "12ms", "10000001"])
def test_slow_disk_refuses_what_is_no_delay(build, tmp_path, delay):
    run = run_slow_disk(build, tmp_path, "true", delay=delay)
    assert run.returncode == 1
    assert f"'{delay}' is not a number of microseconds, 0 to 10000000" in run.stderr


# --- distance ---


@pytest.fixture
def apart(build):
    """Start the relay before a port; the address that stands for it."""
    children = []

    def start(to, delay_ms):
        address = f"127.0.0.1:{take_port()}"
        child = subprocess.Popen([build / "distance", str(delay_ms * 1000), f"{address}={to}"],
                                 stderr=subprocess.PIPE, text=True)
        children.append(child)
        processes.wait_for(lambda: servers.accepts(int(address.split(":")[1])), LIMIT_S, "listens")
        return address.split(":")[0], int(address.split(":")[1])

    yield start
    for child in children:
        child.terminate()
        assert "Sanitizer" not in child.communicate(timeout=LIMIT_S)[1]


@pytest.fixture
def echo():
    """The address of a server that sends everything back, and ends when its client has."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection):
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    acceptor.join()
    listener.close()


def receive(client, size):
    data = b""
    while len(data) < size and (part := client.recv(size - len(data))):
        data += part
    return data


def test_distance_delays_each_way(apart, echo):
    with socket.create_connection(apart(echo, 200), LIMIT_S) as client:
        began = time.monotonic()
        client.sendall(b"x")
        assert receive(client, 1) == b"x"
        assert time.monotonic() - began >= 0.4
        began = time.monotonic()
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""  # the end of either way takes as long
        assert time.monotonic() - began >= 0.4


def test_distance_lets_nothing_wait_for_what_is_on_its_way(apart, echo):
    """Ten bytes, 50 ms apart, take the time of one and these 450 ms, not ten times that of one."""
    with socket.create_connection(apart(echo, 300), LIMIT_S) as client:
        began, sent, came = ran_s(), [], []
        reader = threading.Thread(target=lambda: [
            (receive(client, 1), came.append(time.monotonic())) for _ in range(10)])
        reader.start()
        for _ in range(10):
            sent.append(time.monotonic())
            client.sendall(b"x")
            threading.Event().wait(0.05)
        reader.join(LIMIT_S)
        assert all(end - begin >= 0.6 for begin, end in zip(sent, came))
        assert ran_s() - began < 10 * 0.6


def test_distance_changes_no_byte(apart, echo):
    data = random.Random(7).randbytes(3_000_000)
    with socket.create_connection(apart(echo, 5), LIMIT_S) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert receive(client, len(data)) == data
        sender.join(LIMIT_S)


def test_distance_passes_on_that_nobody_listens(apart):
    with socket.create_connection(apart(f"127.0.0.1:{take_port()}", 0), LIMIT_S) as client:
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass


@pytest.mark.parametrize("arguments, said", [
    (["300"], "usage"), (["fast", "127.0.0.1:1=127.0.0.1:2"], "usage"),
    (["-1", "127.0.0.1:1=127.0.0.1:2"], "usage"),
    (["1000001", "127.0.0.1:1=127.0.0.1:2"], "usage"), (["", "127.0.0.1:1=127.0.0.1:2"], "usage"),
    (["300", "127.0.0.1:1"], "not FROM=TO"), (["300", "1=127.0.0.1:2"], "not host:port"),
    (["300", "127.0.0.1:1="], "not host:port"),
])
def test_distance_refuses_what_is_no_route(build, arguments, said):
    run = subprocess.run([build / "distance", *arguments], capture_output=True, text=True,
                         timeout=LIMIT_S, check=False)
    assert run.returncode == 2
    assert said in run.stderr


def test_claims_tells_the_time_of_a_claim(build):
    for threads, tags in ((1, 1), (4, 3), (3, 1)):
        run = subprocess.run([build / "claims", str(threads), str(tags), "10000"],
                             capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert run.returncode == 0, run.stderr
        assert 0 < float(run.stdout) < 1e6


@pytest.mark.parametrize("words,wrong", [(("0", "1", "1"), "0"), (("2", "3", "1"), "3"),
                                         (("65", "1", "1"), "65"), (("1", "1", "x"), "x"),
                                         (("1", "1", "50000001"), "50000001")])
def test_claims_refuses_what_is_out_of_range(build, words, wrong):
    run = subprocess.run([build / "claims", *words], capture_output=True, text=True,
                         timeout=LIMIT_S, check=False)
    assert run.returncode == 1
    assert f"'{wrong}' is not a number from 1 to" in run.stderr


def bench_module():
    """scripts/bench/bench, which has no .py."""
    loader = importlib.machinery.SourceFileLoader("bench_main", os.path.join(BENCH, "bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_main", loader))
    loader.exec_module(module)
    return module


SLEEPER = """
import os, sys
sys.path.insert(0, {bench!r})
sys.path.insert(0, {tests!r})
from test_bench_tools import bench_module
bench_main = bench_module()
from processes import Process

class Sleeper:
    name, directory = "sleeper", {folder!r}
    def start(self):
        self.process = Process("sleeper", ["sleep", "600"], {folder!r}).start()
    def stop(self):
        self.process.stop()

class Case:
    name = title = "sleeps"
    @staticmethod
    def prepare(bench):
        sleeper = Sleeper()
        bench.start(sleeper)
        print("pid", sleeper.process.pid, flush=True)
        {then}

bench_main.CASES[:] = [Case]
sys.argv = ["bench", "--build", {folder!r}]
sys.exit(bench_main.main())
"""


@pytest.mark.parametrize("how", ["failure", "SIGINT", "SIGTERM", "SIGKILL"])
def test_servers_are_stopped_however_it_ends(tmp_path, how):
    then = ("raise bench_main.BenchError('on purpose')" if how == "failure"
            else "sleeper.process.child.wait()")
    folder = str(tmp_path)
    script = SLEEPER.format(bench=BENCH, tests=os.path.dirname(os.path.abspath(__file__)),
                            folder=folder, then=then)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(next(line for line in child.stdout if line.startswith("pid ")).split()[1])
    processes.wait_for(lambda: how == "failure" or comm_of(pid) == "sleep", 10, "it sleeps")
    if how != "failure":
        child.send_signal(getattr(signal, how))
    said = child.stdout.read()  # communicate() would lose what came together with the pid
    child.wait(LIMIT_S)
    expected = {"failure": 1, "SIGINT": 130, "SIGTERM": 130, "SIGKILL": -9}
    assert child.returncode == expected[how], said
    processes.wait_for(lambda: comm_of(pid) is None, 10, "the server is gone")
    if how == "failure":
        assert "on purpose" in said
        with open(tmp_path / "bench" / "report.md", encoding="utf-8") as file:
            assert "on purpose" in file.read()


def comm_of(pid):
    """The name of a living process; None if there is none (or one that is dead already)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            head, _, rest = stat.read().rpartition(")")
    except OSError:
        return None
    return None if rest.split()[0] in "ZX" else head.partition("(")[2]


class Told:
    """In place of a MariaDB: sql() gives the rows of the first key that is in the text."""

    def __init__(self, rows):
        self.rows = rows

    def sql(self, text):
        return next(rows for key, rows in self.rows.items() if key in text)

    def check(self):
        pass


HEALTHY = {"status": "ON", "clients": "1", "no_tx": "0", "no_times": "0", "yes_tx": "1100"}


def pair_that_says(folder, max_id="1000", **changes):
    """A primary and its replica after a load of 1,000 ids, which say what is told."""
    bench_module()
    from servers import MariaDBPair

    pair = MariaDBPair(str(folder))
    pair.acknowledged = 100
    pair.primary = Told({
        "Rpl_semi_sync_master_": [["Rpl_semi_sync_master_" + name, value]
                                  for name, value in {**HEALTHY, **changes}.items()],
        "SHOW MASTER STATUS": [["binlog.000001", "4711", "", ""]]})
    pair.replica = Told({"MASTER_POS_WAIT('binlog.000001', 4711,": [["0"]],
                         "SELECT max_id": [[max_id]]})
    return pair


LOAD_OF_1000 = {"good": 1000, "ids": {"max": 1000}}


def test_pair_that_replicates(tmp_path):
    pair = pair_that_says(tmp_path)
    pair.check()
    pair.check_load(LOAD_OF_1000)
    with pytest.raises(BenchError, match="acknowledged 0 commits of 1000"):
        pair.check_load(LOAD_OF_1000)  # another load, of which no commit was acknowledged


@pytest.mark.parametrize("changes", [{"status": "OFF"}, {"clients": "0"}, {"no_tx": "1"},
                                     {"no_times": "1"}])
def test_pair_that_was_asynchronous(tmp_path, changes):
    with pytest.raises(BenchError, match="not semi-synchronous"):
        pair_that_says(tmp_path, **changes).check()


@pytest.mark.parametrize("changes,said", [({"yes_tx": "1099"}, "acknowledged 999 commits of 1000"),
                                          ({"max_id": "999"}, "has ids up to 999 of 1000")])
def test_pair_whose_replica_lacks_ids(tmp_path, changes, said):
    with pytest.raises(BenchError, match=said):
        pair_that_says(tmp_path, **changes).check_load(LOAD_OF_1000)


# --- one build against another ---


class TwoBuilds:
    """A case of one contender, whose CPU time a request is the base's and a half."""

    name, title, text = "demo", "two builds", "What is measured."
    targets = [Target("rate", "a", at_least=5), Target("rate", "a", "nginx", at_least=5)]
    charts = ("cpu_us", "rate")
    told = ("cpu_us",)

    def __init__(self):
        self.order = []

    def prepare(self, bench):
        def measured(_):
            self.order.append(os.path.basename(bench.leafd))
            return figures(cpu_us=2.0 if bench.leafd == bench.base else 3.0, rate=10)

        server = bench.start(FakeBuild(bench.data))
        return [measure.Procedure("a", "leafd", [server], "a load", measured)]


class FakeBuild(FakeServer):
    def __init__(self, data):
        super().__init__()
        self.directory = os.path.join(data, "leafd")
        os.mkdir(self.directory)  # each build has its own

    def start(self):
        pass

    stop = start


def test_two_builds_take_turns(tmp_path, monkeypatch):
    main = bench_module()
    monkeypatch.setattr(sys, "argv", ["bench", "--build", str(tmp_path), "--binary", "/bin/true",
                                      "--base", "/bin/false", "--rounds", "3", "demo"])
    case = TwoBuilds()
    monkeypatch.setattr(main, "CASES", [case])
    assert main.run(main.parse_args()) == 0
    assert case.order == ["true", "false", "false", "true", "true", "false"]
    text = (tmp_path / "bench" / "base" / "report.md").read_text(encoding="utf-8")
    assert "leafd against another build" in text and "base: leafd" in text
    lines = [line for line in text.splitlines() if line.startswith("| [demo]")]
    assert [line.split(" | ")[1:] for line in lines] == [
        ["replies a second: a", "≥ 5/s", "10/s", "reached |"],
        ["CPU time per request: a / base a", "≤ 1.03", "1.50", "**not reached** |"],
        ["replies a second: a / base a", "", "1.00", " |"]]
    assert not (tmp_path / "bench" / "demo.json").exists()


def test_a_base_that_is_no_program(tmp_path, monkeypatch, capsys):
    main = bench_module()
    monkeypatch.setattr(sys, "argv", ["bench", "--base", str(tmp_path / "leafd")])
    with pytest.raises(SystemExit):
        main.parse_args()
    assert "no program" in capsys.readouterr().err


def test_nodes_run_the_build_they_were_made_for(tmp_path):
    bench_module()
    from servers import Leafd

    commands = [Leafd(str(tmp_path), f"/{name}", name=name).cluster.nodes[0].command_line()
                for name in ("old", "new")]
    assert "/old" in commands[0] and "/new" in commands[1] and "/old" not in commands[1]


def test_no_other_server_beside_a_base():
    bench_module()
    from cases import common

    class Bench:
        base = "/old"

    assert common.constant_contenders(Bench) == common.etcd_contenders(Bench) == []
    assert common.bare_contenders(Bench) == common.mariadb_contenders(Bench, None) == []


def test_cases_are_whole():
    """Each case has what the report needs, and its targets name figures that exist."""
    cases = bench_module().CASES
    assert len({case.name for case in cases}) == len(cases) > 0
    for case in cases:
        assert case.title and case.text and callable(case.prepare)
        assert all(name in measure.FIGURES for name in case.charts)
        for target in case.targets:
            assert target.figure in measure.FIGURES
            assert target.at_least is None or target.at_most is None
