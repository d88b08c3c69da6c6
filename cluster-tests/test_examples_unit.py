"""scripts/examples: the generator that uses the worker registry.

Its pure part runs on a clock of the test. The program runs whole against a registry that is a
small HTTP server here and does what each test wants of it.
"""

import http.server
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from wait import wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts", "examples"))
CLIENT = [sys.executable, os.path.join(ROOT, "scripts", "examples", "snowflake_client.py")]

from snowflake_client import EPOCH_MS, Generator, WindowOver  # noqa: E402

NOW = 1795176469348
FAR_MS = 3600000


def decode(number):
    """(time, worker id, sequence)"""
    return (number >> 22) + EPOCH_MS, number >> 12 & 1023, number & 4095


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


# --- the pure part ---


def test_only_times_of_the_window():
    clock = Clock(NOW)
    generator = Generator(5, NOW, NOW + 2, clock)
    assert generator.next() == (None, 1)  # from_ms belongs to the holder before
    clock.now = NOW + 1
    assert decode(generator.next()[0])[:2] == (NOW + 1, 5)
    clock.now = NOW + 2
    assert decode(generator.next()[0])[:2] == (NOW + 2, 5)
    clock.now = NOW + 3
    with pytest.raises(WindowOver):
        generator.next()
    generator.extend(NOW + 3)
    assert decode(generator.next()[0])[:2] == (NOW + 3, 5)
    generator.extend(NOW + 1)  # a late reply takes nothing away
    assert generator.until_ms == NOW + 3


def test_a_millisecond_is_used_up():
    clock = Clock(NOW)
    generator = Generator(1023, NOW - 1, NOW + 9, clock)
    sequences = []
    while True:
        number, wait_ms = generator.next()
        if number is None:
            break
        assert decode(number)[:2] == (NOW, 1023)
        sequences.append(decode(number)[2])
    assert wait_ms == 1
    assert sequences == list(range(sequences[0], 4096)) and sequences[0] < 100


def test_clock_set_back():
    clock = Clock(NOW)
    generator = Generator(0, NOW - 1, NOW + 9, clock)
    made = [generator.next()[0]]
    clock.now = NOW - 60000
    while True:
        number, wait_ms = generator.next()
        if number is None:
            break
        made.append(number)
    assert wait_ms == 60001
    clock.now = NOW
    assert generator.next() == (None, 1)
    clock.now = NOW + 1
    made.append(generator.next()[0])
    assert made == sorted(set(made))


def test_first_id_with_the_clock_before_the_epoch():
    assert Generator(0, 0, NOW, Clock(0)).next() == (None, EPOCH_MS + 1)


# Shows lesson-last-tick.
def test_end_of_the_layout():
    last = EPOCH_MS + 2**41 - 1
    clock = Clock(last)
    generator = Generator(1023, last - 1, last + 9, clock)
    assert 0 < generator.next()[0] < 2**63
    clock.now = last + 1
    with pytest.raises(WindowOver):
        generator.next()


def test_worker_id_must_fit():
    Generator(1023, 0, NOW, Clock(NOW))
    with pytest.raises(ValueError):
        Generator(1024, 0, NOW, Clock(NOW))


def test_holders_with_wild_clocks_never_collide():
    """Windows one above the other, as the registry grants them; each holder's clock goes where it
    likes, and renewals come late."""
    seen = set()
    dice = random.Random(1)
    until = NOW
    for _ in range(30):
        clock = Clock(until + dice.randint(-50, 50))
        generator = Generator(7, until, until + 20, clock)
        for _ in range(400):
            clock.now += dice.choice([-30, -3, 0, 0, 0, 0, 1, 1, 2, 40])
            try:
                number, _ = generator.next()
            except WindowOver:
                generator.extend(generator.until_ms + 20)
                continue
            if number is not None:
                assert number not in seen
                seen.add(number)
        # Released with the last time used, or crashed and waited for.
        until = dice.choice([generator.last_ms, generator.until_ms])
    assert len(seen) > 1000


# --- the programs ---


def now_ms():
    return time.time_ns() // 1000000


class Registry(http.server.ThreadingHTTPServer):
    """POST grants worker id 42, epoch 3 and a window given as distances from the time of the grant;
    answers are (status, body) to be given before that, by method."""

    def __init__(self, from_ms=-1, until_ms=FAR_MS):
        super().__init__(("127.0.0.1", 0), Handler)
        self.distances = from_ms, until_ms
        self.from_ms = self.until_ms = None
        self.answers = {"POST": [], "PUT": [], "DELETE": []}
        self.requests = []
        self.headers = []
        self.location = None
        self.lock = threading.Lock()

    def bodies(self, method):
        with self.lock:
            return [body for seen, _, body in self.requests if seen == method]

    def answer(self, method, path, body):
        with self.lock:
            self.requests.append((method, path, body))
            if self.answers[method]:
                return self.answers[method].pop(0)
            if method == "POST":
                self.from_ms, self.until_ms = (now_ms() + distance for distance in self.distances)
                return 201, {"worker_id": 42, "epoch": 3, "from_ms": self.from_ms,
                             "until_ms": self.until_ms}
            if method == "PUT":
                self.until_ms = max(self.until_ms, now_ms() + body["window_ms"])
                return 200, {"worker_id": 42, "epoch": 3, "from_ms": self.from_ms,
                             "until_ms": self.until_ms}
            return 204, None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def serve(self):
        self.server.headers.append(dict(self.headers))
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, reply = self.server.answer(self.command, self.path, body)
        data = json.dumps(reply).encode() if reply is not None else b""
        self.send_response(status)
        if self.server.location is not None:
            self.send_header("Location", self.server.location)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_DELETE = serve

    def log_message(self, *args):
        pass


@pytest.fixture
def start():
    """start(registry, count, window_ms): the running program."""
    running, registries = [], []

    def start_one(registry, count, window_ms=60000, more=(), **variables):
        threading.Thread(target=registry.serve_forever, args=(0.05,)).start()
        registries.append(registry)
        url = f"http://127.0.0.1:{registry.server_address[1]}"
        # A proxy of the surroundings is none of leafd's.
        env = {**os.environ, "http_proxy": "http://127.0.0.1:1", **variables}
        process = subprocess.Popen(
            [*CLIENT, "--count", str(count), "--name", "billing-1", "--url", url,
             "--window-ms", str(window_ms), *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        running.append(process)
        return process

    yield start_one
    for process in running:
        process.kill()
        process.communicate()
    for registry in registries:
        registry.shutdown()
        registry.server_close()


def finish(process):
    """(exit code, ids)"""
    output, errors = process.communicate(timeout=30)
    ids = [int(line) for line in output.splitlines()]
    print(errors)
    return process.returncode, ids


def test_client_makes_ids(start):
    registry = Registry()
    code, ids = finish(start(registry, 10000))
    assert code == 0
    assert len(ids) == 10000 and ids == sorted(set(ids))
    times = [decode(number)[0] for number in ids]
    assert registry.from_ms < times[0] and times[-1] <= now_ms()
    assert {decode(number)[1] for number in ids} == {42}
    [acquire] = registry.bodies("POST")
    assert acquire["name"] == "billing-1" and acquire["window_ms"] == 60000
    assert acquire["address"]
    assert registry.bodies("DELETE") == [{"epoch": 3, "last_timestamp_ms": times[-1]}]
    assert registry.requests[-1][1] == "/api/workers/42"


def test_client_shows_its_token(start, tmp_path):
    file = tmp_path / "token"
    file.write_text("s3cret-token\n")
    by_file = ["--token-file", str(file)]
    for more, variables in [(by_file, {}), ([], {"LEAFD_TOKEN": "s3cret-token"}),
                            (by_file, {"LEAFD_TOKEN": "another"})]:
        registry = Registry()
        assert finish(start(registry, 3, more=more, **variables))[0] == 0
        seen = {headers.get("Authorization") for headers in registry.headers}
        assert seen == {"Bearer s3cret-token"}
    registry = Registry()
    assert finish(start(registry, 3, LEAFD_TOKEN=""))[0] == 0
    assert not any("Authorization" in headers for headers in registry.headers)


@pytest.mark.parametrize("content", ["", "two words", "two\nlines", "caf\u00e9"])
def test_client_refuses_what_is_no_token(start, tmp_path, content):
    file = tmp_path / "token"
    file.write_text(content, encoding="utf-8")
    registry = Registry()
    process = start(registry, 3, more=["--token-file", str(file)])
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2 and str(file) in errors and "Traceback" not in errors
    assert not registry.requests


def test_client_gives_its_token_to_nobody_else(start):
    registry, elsewhere = Registry(), Registry()
    threading.Thread(target=elsewhere.serve_forever, args=(0.05,)).start()
    registry.location = f"http://127.0.0.1:{elsewhere.server_address[1]}/api/workers"
    registry.answers["POST"] = [(302, {"code": "elsewhere", "message": "go on"})]
    code, ids = finish(start(registry, 3, LEAFD_TOKEN="s3cret-token"))
    elsewhere.shutdown()
    elsewhere.server_close()
    assert (code, ids) == (1, []) and not elsewhere.headers


@pytest.mark.parametrize("status", [401, 403, 429])
def test_client_that_may_not_ends_at_once(start, status):
    registry = Registry()
    registry.answers["POST"] = [(status, {"code": "share", "message": "holds 256"})]
    code, ids = finish(start(registry, 3))
    assert (code, ids) == (1, []) and len(registry.requests) == 1


def test_client_waits_for_its_window_and_renews(start):
    registry = Registry(from_ms=2000, until_ms=2100)
    registry.answers["PUT"] = [(503, {"code": "no_leader", "message": "none"})]
    code, ids = finish(start(registry, 3, window_ms=900))
    assert code == 0
    assert decode(ids[0])[0] > registry.from_ms
    renewals = registry.bodies("PUT")
    assert len(renewals) >= 2
    assert renewals[0] == {"epoch": 3, "window_ms": 900, "last_timestamp_ms": registry.from_ms}


def test_client_that_slept_asks_first(start):
    registry = Registry(from_ms=-2000, until_ms=-1000)
    code, ids = finish(start(registry, 3))
    assert code == 0 and len(ids) == 3
    assert len(registry.bodies("PUT")) == 1


# Shows lesson-fenced.
def test_client_stops_when_the_window_is_over(start):
    registry = Registry(from_ms=-2000, until_ms=-1000)
    registry.answers["PUT"] = [(503, {"code": "no_leader", "message": "none"})] * 100
    code, ids = finish(start(registry, 3))
    assert code == 1 and ids == []
    # Nothing was used: all of it is given back.
    assert registry.bodies("DELETE") == [{"epoch": 3, "last_timestamp_ms": registry.from_ms}]


# Shows lesson-fenced.
def test_client_stops_when_fenced_off(start):
    registry = Registry(from_ms=FAR_MS, until_ms=2 * FAR_MS)
    registry.answers["PUT"] = [(409, {"code": "fenced", "message": "another epoch"})]
    code, ids = finish(start(registry, 3, window_ms=300))
    assert code == 1 and ids == []
    assert registry.bodies("DELETE") == []


def test_client_asks_again_without_a_leader(start):
    registry = Registry()
    registry.answers["POST"] = [(503, {"code": "no_leader", "message": "none"})]
    code, ids = finish(start(registry, 3))
    assert code == 0 and len(ids) == 3
    assert len(registry.bodies("POST")) == 2


def test_client_without_a_worker_id(start):
    registry = Registry()
    registry.answers["POST"] = [(409, {"code": "no_worker_id", "message": "all are held"})]
    code, ids = finish(start(registry, 3))
    assert code == 1 and ids == []
    assert len(registry.bodies("POST")) == 1 and registry.bodies("DELETE") == []


def test_client_releases_when_told_to_stop(start):
    registry = Registry(from_ms=FAR_MS, until_ms=2 * FAR_MS)
    process = start(registry, 3, window_ms=300)
    wait_until(lambda: registry.bodies("PUT"), 10, "a renewal")
    process.send_signal(signal.SIGTERM)
    code, ids = finish(process)
    assert code != 0 and ids == []
    assert registry.bodies("DELETE") == [{"epoch": 3, "last_timestamp_ms": registry.from_ms}]
