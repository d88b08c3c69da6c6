"""Requests that no client means, by a seed: each gets an answer of the contract, and costs nobody
anything.

Routes, names, options, headers and bodies are drawn so that many of them are nearly right. Every
answer must be well-formed HTTP with a status of the contract, every error must have a code and a
message, and nothing may be answered with 500. Other clients take ids meanwhile and must get every
one. What is done is a number of requests, not a time: a slow machine tests as much as a fast one.
"""

import json
import random

import pytest

from checker import History
from client import ConnectionLost, request_bytes, tag_path
from load import Load, wait_taken

STATUSES = {200, 201, 204, 400, 404, 405, 408, 409, 413, 414, 417, 431, 501, 503, 507}
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]
FITTING = {"/api/tags/": METHODS[:4], "/api/workers/": METHODS[2:4], "/api/tags": METHODS[:2]}
FITTING["/api/workers"] = METHODS[:2]
ROUTES = [
    "/api/segment/get/",
    "/api/snowflake/get/",
    "/api/snowflake/decode/",
    "/decodeSnowflakeId",
    "/api/tags/",
    "/api/tags",
    "/api/workers/",
    "/api/workers",
    "/api/cluster",
    "/api/node/segments",
    "/api/cluster/segments",
    "/livez",
    "/readyz",
    "/metrics",
    "/version",
    "/",
    "//",
    "/api",
]
OPTIONS = ["count", "format", "contiguous", "timeout_ms", "prefix", "after", "limit", "force"]
OPTIONS += ["consistency", "verbose", "epoch", "snowflakeId", "nonsense", ""]
FIELDS = ["step", "max_id", "max_step", "mode", "description", "tag", "name", "address", "epoch"]
FIELDS += ["worker_id", "window_ms", "from_ms", "last_timestamp_ms", "nonsense"]
TEXTS = ["", "0", "1", "-1", "+1", "01", "1e3", "100000", "100001", "text", "json", "range"]
TEXTS += ["strict", "trend", "local", "linearizable", "größe", "a/b", "x" * 128, "x" * 129]
NUMBERS = [0, 1, 2, 1000, 10**6, 10**9, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -1, 1.5]


class Draw:
    """Requests drawn from a seed, over a few tags."""

    def __init__(self, seed, tags):
        self.source = random.Random(seed)
        self.tags = tags

    def text(self):
        source = self.source
        if source.random() < 0.1:
            return source.randbytes(source.randrange(40)).decode("latin-1")
        return source.choice(TEXTS + self.tags)

    def value(self):
        source = self.source
        kind = source.randrange(8)
        if kind < 3:
            return source.choice(NUMBERS)
        if kind < 6:
            return self.text()
        return source.choice([None, True, [], {}, [1], {"a": 1}, "\ud800", "\u0000"])

    def target(self, route):
        source = self.source
        target = route
        if target.endswith("/") or source.random() < 0.1:
            name = source.choice(self.tags) if source.random() < 0.6 else self.text()
            target += tag_path(name) if source.random() < 0.9 else "%zz"
        options = []
        for _ in range(source.choice([0, 0, 0, 1, 1, 2, 5])):
            name = source.choice(OPTIONS[:4] if "/get/" in target else OPTIONS)
            # Waiting is tested elsewhere, and would make this slow.
            value = source.choice(["0", "50", "x"]) if name == "timeout_ms" else self.text()
            options.append(f"{name}={tag_path(value)}")
        if not any(option.startswith("timeout_ms=") for option in options):
            options += ["timeout_ms=50"] if "/get/" in target else []
        return target + ("?" + "&".join(options) if options else "")

    def body(self):
        source = self.source
        kind = source.randrange(6)
        if kind < 2:
            return None
        if kind == 2:
            return source.randbytes(source.randrange(200))
        item = {source.choice(FIELDS): self.value() for _ in range(source.randrange(4))}
        text = json.dumps(item if kind < 5 else [item, {"tag": self.text()}])
        if source.random() < 0.1:
            text = text[: source.randrange(len(text))]
        return text.encode()

    def headers(self):
        source = self.source
        headers = {}
        if source.random() < 0.3:
            headers["Idempotency-Key"] = f"k{source.randrange(20)}"
        if source.random() < 0.1:
            headers["Accept"] = "application/json"
        if source.random() < 0.1:
            headers["X-" + "y" * source.randrange(300)] = "z" * source.randrange(3000)
        return headers

    def request(self):
        source = self.source
        route = source.choice(ROUTES[:8] if source.random() < 0.7 else ROUTES)
        fitting = FITTING.get(route, METHODS[:1])
        method = source.choice(fitting if source.random() < 0.8 else METHODS)
        body = None if method == "GET" and source.random() < 0.8 else self.body()
        return method, request_bytes(method, self.target(route), body, self.headers())


def check_answer(answer, method, data):
    said = (data[:300], answer)
    assert answer.status in STATUSES, said
    assert answer.headers["cache-control"] == "no-store" and "location" not in answer.headers, said
    if answer.status >= 400 and method != "HEAD":
        told = answer.json()
        assert told["status"] == answer.status and told["code"] and told["message"], said
    if answer.status == 503:
        assert int(answer.headers["retry-after"]) >= 1, said


def send_requests(node, draw, wanted):
    """Requests, some of them several at once, until so many were answered."""
    count = 0
    while count < wanted:
        with node.connect() as connection:
            try:
                for _ in range(50):
                    batch = [draw.request() for _ in range(draw.source.choice([1, 1, 1, 4]))]
                    connection.send(b"".join(data for _, data in batch))
                    for method, data in batch:
                        answer = connection.read_response(no_body=method == "HEAD")
                        check_answer(answer, method, data)
                        count += 1
                        if answer.headers.get("connection") == "close":
                            raise ConnectionLost("as it was said")
            except ConnectionLost:
                assert node.serves()


def run(make_cluster, seed, requests):
    cluster = make_cluster()
    cluster.create_tag("untouched")
    tags = ["a", "b.c", "strict"]
    cluster.create_tag("a", step=1)
    cluster.create_tag("b.c")
    cluster.create_tag("strict", mode="strict")
    history = History()
    load = Load(history, "untouched")
    for node in cluster.nodes:
        load.add(node, rate=200.0, timeout_ms=5000)
    with load:
        for number, node in enumerate(cluster.nodes):
            send_requests(node, Draw(seed + number, tags), requests)
            load.check_running()
        wait_taken(load, 300)
        load.finish()
    cluster.leader()
    cluster.wait_applied()


@pytest.mark.bound(300)
# Shows P7-http.
def test_requests_that_no_client_means(make_cluster):
    run(make_cluster, 1000, 10000)


@pytest.mark.slow
@pytest.mark.bound(900)
def test_many_requests_that_no_client_means(make_cluster):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    run(make_cluster, seed, 150000)
