"""Every error of the HTTP contract on a real node, and that the node goes on after each."""

import contextlib
import os
import random
import socket
import time

import pytest

from client import Connection, ConnectionLost, get_bytes, request_bytes, tag_path
from wait import ran_s, wait_until

LEAF_DOC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/leaf.md")
ERROR_FIELDS = {"timestamp", "status", "error", "code", "message", "path"}
REASONS = {
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    503: "Service Unavailable",
}


@pytest.fixture
def known(shared, tag):
    """A tag that exists."""
    shared.create_tag(tag)
    return tag


def check_error(answer, status, code, path=None):
    """The status, and a body with every field of the contract."""
    assert answer.status == status, answer
    body = answer.json()
    assert set(body) == ERROR_FIELDS, body
    assert body["status"] == status and body["code"] == code, body
    assert body["message"] and isinstance(body["timestamp"], int)
    assert abs(body["timestamp"] / 1000 - time.time()) < 60
    if status in REASONS:
        assert body["error"] == REASONS[status]
    if path is not None:
        assert body["path"] == path
    assert answer.headers["content-type"].startswith("application/json")


def still_serves(node, tag):
    answer = node.get(f"/api/segment/get/{tag}")
    assert answer.status == 200 and answer.body.isdigit(), answer


# The code words of errors after which the connection closes.
CLOSING = {
    408: "too_slow",
    413: "body_too_large",
    414: "target_too_long",
    431: "headers_too_large",
}

IDS = "/api/segment/get"
BAD_TARGETS = [
    (f"{IDS}/{{tag}}?count=0", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=-1", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=100001", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=abc", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=1.5", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=9223372036854775808", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=18446744073709551617", 400, "bad_count"),
    (f"{IDS}/{{tag}}?count=%31%00", 400, None),
    (f"{IDS}/{{tag}}?format=xml", 400, "bad_request"),
    (f"{IDS}/{{tag}}?timeout_ms=10001", 400, "bad_request"),
    (f"{IDS}/{{tag}}?timeout_ms=x", 400, "bad_request"),
    (f"{IDS}/{{tag}}?timeout_ms=-1", 400, "bad_request"),
    (f"{IDS}/{{tag}}?contiguous=maybe", 400, "bad_request"),
    (f"{IDS}/no-such-tag", 404, "unknown_tag"),
    (f"{IDS}/no-such-tag?count=5&format=json", 404, "unknown_tag"),
    (f"{IDS}/", 404, "no_route"),
    (f"{IDS}/{'x' * 129}", 400, "bad_tag"),
    (f"{IDS}/{'%C3%BC' * 65}", 400, "bad_tag"),
    (f"{IDS}/%00", 400, "bad_tag"),
    (f"{IDS}/a%0Ab", 400, "bad_tag"),
    (f"{IDS}/%7F", 400, "bad_tag"),
    (f"{IDS}/%C2%85", 400, "bad_tag"),
    (f"{IDS}/%FF", 400, "bad_tag"),
    (f"{IDS}/%C0%AF", 400, "bad_tag"),
    (f"{IDS}/%ED%A0%80", 400, "bad_tag"),
    (f"{IDS}/%zz", 400, None),
    (f"{IDS}/%4", 400, None),
    ("/api/tags/no-such-tag", 404, "unknown_tag"),
    ("/api/tags?limit=0", 400, "bad_request"),
    ("/api/tags?limit=1001", 400, "bad_request"),
    ("/api/tags?consistency=none", 400, "bad_request"),
    ("/no/such/route", 404, "no_route"),
    ("/api", 404, "no_route"),
    ("/api/segment/get/a/b", 404, "no_route"),
    ("//", 404, "no_route"),
    ("/..%2f..%2fetc/passwd", 404, "no_route"),
]


@pytest.mark.parametrize("target,status,code", BAD_TARGETS)
def test_bad_targets(shared, known, target, status, code):
    target = target.replace("{tag}", known)
    for node in shared.nodes:
        with node.connect() as connection:
            answer = connection.request("GET", target)
            code = code or answer.code
            check_error(answer, status, code)
            # The stream is in step: the same connection goes on.
            answer = connection.request("GET", f"{IDS}/{known}")
            assert answer.status == 200


BODIES = [
    (b"{", "bad_json"),
    (b"", None),
    (b"[]", None),
    (b"null", None),
    (b'"x"', None),
    (b'{"step":"many"}', None),
    (b'{"step":0}', None),
    (b'{"step":-1}', None),
    (b'{"step":1.5}', None),
    (b'{"step":1000000001}', None),
    (b'{"step":99999999999999999999}', None),
    (b'{"max_id":-1}', None),
    (b'{"max_id":9223372036854775808}', None),
    (b'{"step":10,"max_step":5}', None),
    (b'{"mode":"best"}', None),
    (b'{"description":5}', None),
    (b'{"description":"' + b"x" * 257 + b'"}', None),
    (b'{"unknown_field":1}', None),
    (b'{"step":1}trailing', "bad_json"),
    (b'{"step":1,"step":2}', None),
    (b"\xff\xfe", "bad_json"),
    (b'{"description":"\xff"}', "bad_json"),
    (b"[" * 60_000, "bad_json"),
]


@pytest.mark.parametrize("body,code", BODIES, ids=[repr(body[:30]) for body, _ in BODIES])
def test_bad_bodies(shared, tag, body, code):
    node = shared.nodes[1]
    with node.connect() as connection:
        answer = connection.request("PUT", f"/api/tags/{tag}", body)
        if body == b"" and answer.status == 201:
            return  # an empty body is a tag with all defaults, if the node takes it for one
        assert answer.status == 400, answer
        check_error(answer, 400, code or answer.code)
        answer = connection.request("GET", f"/api/tags/{tag}")
        check_error(answer, 404, "unknown_tag")


@pytest.mark.parametrize("body,wanted", [
    (b'{"step":1.0}', 'step has a fraction or an exponent: write "step":1'),
    (b'{"step":1e3}', 'step has a fraction or an exponent: write "step":1000'),
    (b'{"max_id":9007199254740991.0}', 'write "max_id":9007199254740991'),
    (b'{"max_id":1e18}', "is not exact from 2^53 on: write its digits alone"),
    (b'{"max_id":1e19}', "is not a whole number from 0"),
    (b'{"max_id":9007199254740993.0}', "is not exact from 2^53 on"),
    (b'{"max_id":9.3e18}', "max_id=9.3e+18 is not a whole number from 0 to"),
    (b'{"step":1.5}', "step=1.5 is not a whole number from 1 to"),
    (b'{"step":0.0}', "step=0 is not a whole number from 1 to"),
    (b'{"step":-1.0}', "step=-1 is not a whole number from 1 to"),
    (b'{"step":1e10}', "step=10000000000 is not a whole number from 1 to"),
])
def test_numbers_with_a_fraction(shared, tag, body, wanted):
    """The message shows a value that is right, where there is one."""
    answer = shared.nodes[0].http("PUT", f"/api/tags/{tag}", body)
    check_error(answer, 400, "bad_request")
    assert wanted in answer.json()["message"]


METHODS = [
    ("DELETE", f"{IDS}/x"),
    ("PUT", f"{IDS}/x"),
    ("PATCH", "/api/tags/x"),
    ("DELETE", "/api/tags"),
    ("POST", "/livez"),
    ("DELETE", "/api/cluster"),
    ("PUT", "/version"),
]


@pytest.mark.parametrize("method,target", METHODS)
def test_method_not_allowed(shared, known, method, target):
    with shared.nodes[0].connect() as connection:
        answer = connection.request(method, target, b"")
        check_error(answer, 405, "method_not_allowed")
        allowed = [name.strip() for name in answer.headers["allow"].split(",")]
        assert allowed and method not in allowed and "GET" in allowed
        assert connection.request("GET", f"{IDS}/{known}").status == 200


def test_options(shared):
    """As health checks of proxies ask, without a Host, a token, or the door that the path is of."""
    node = shared.nodes[0]
    for request in ("OPTIONS / HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"):
        with node.connect() as connection:
            connection.send(request.encode())
            answer = connection.read_response()
            assert answer.status == 204 and "OPTIONS" in answer.headers["allow"], answer
    with node.connect() as connection:
        for path in connection.request("GET", "/openapi.json").json()["paths"]:
            answer = connection.request("OPTIONS", path.replace("{", "").replace("}", ""))
            assert answer.status == 204 and answer.headers["allow"].endswith(", OPTIONS"), path
            assert not [name for name in answer.headers if name.startswith("access-control")]


def closes_after(node, data, status, code):
    """The request is answered with the error and then the connection ends."""
    with node.connect() as connection:
        send_as_far_as_it_goes(connection, data)
        answer = connection.read_response()
        check_error(answer, status, code)
        assert answer.headers["connection"].lower() == "close"
        assert connection.at_end()


def send_as_far_as_it_goes(connection, data):
    """The server may answer and close before it has read everything."""
    try:
        connection.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def test_target_too_long(shared, known):
    """4096 bytes of request target; one more is 414."""
    node = shared.nodes[0]
    stem = f"{IDS}/{known}?x="
    fits = stem + "y" * (4096 - len(stem))
    answer = node.get(fits)
    assert answer.status in (200, 400), answer
    closes_after(node, get_bytes(fits + "y"), 414, CLOSING[414])
    closes_after(node, get_bytes("/" + "y" * 60_000), 414, CLOSING[414])
    still_serves(node, known)


# Shows P7-http.
def test_headers_too_large(shared, known):
    node = shared.nodes[0]
    target = f"GET {IDS}/{known} HTTP/1.1\r\nHost: leafd\r\n"
    few = "".join(f"X-{n}: y\r\n" for n in range(60))
    with node.connect() as connection:
        connection.send(f"{target}{few}\r\n".encode())
        assert connection.read_response().status == 200
    many = "".join(f"X-{n}: y\r\n" for n in range(65))
    closes_after(node, f"{target}{many}\r\n".encode(), 431, CLOSING[431])
    closes_after(node, f"{target}X: {'y' * 9000}\r\n\r\n".encode(), 431, CLOSING[431])
    closes_after(node, f"{target}{'y' * 9000}: x\r\n\r\n".encode(), 431, CLOSING[431])
    still_serves(node, known)


def test_body_too_large(shared, known):
    node = shared.nodes[0]
    head = f"POST /api/tags HTTP/1.1\r\nHost: leafd\r\nContent-Length: {(8 << 20) + 1}\r\n\r\n"
    closes_after(node, head.encode(), 413, CLOSING[413])
    head = f"POST /api/tags HTTP/1.1\r\nHost: leafd\r\nContent-Length: {1 << 62}\r\n\r\n"
    closes_after(node, head.encode(), 413, CLOSING[413])
    still_serves(node, known)


def test_chunked_body_too_large(shared, known):
    node = shared.nodes[0]
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = (b"POST /api/tags HTTP/1.1\r\nHost: leafd\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    with node.connect() as connection:
        send_as_far_as_it_goes(connection, head + chunk * 130)
        try:
            check_error(connection.read_response(), 413, CLOSING[413])
        except ConnectionResetError:
            pass  # it closed while this side was still sending: that loses the answer in TCP
    still_serves(node, known)


def test_chunked_body(shared, tag):
    body = b'{"step":77}'
    chunks = b"".join(b"1\r\n" + body[i : i + 1] + b"\r\n" for i in range(len(body))) + b"0\r\n\r\n"
    head = (f"PUT /api/tags/{tag} HTTP/1.1\r\nHost: leafd\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n")
    with shared.nodes[2].connect() as connection:
        connection.send(head.encode() + chunks)
        answer = connection.read_response()
        assert answer.status == 201 and answer.json()["step"] == 77


def test_expect_continue(shared, tag):
    with shared.nodes[0].connect() as connection:
        body = b'{"step":5}'
        head = request_bytes("PUT", f"/api/tags/{tag}", None,
                             {"Expect": "100-continue", "Content-Type": "application/json"})
        connection.send(head[:-2] + f"Content-Length: {len(body)}\r\n\r\n".encode())
        connection.send(body)
        assert connection.read_response().status == 201


@contextlib.contextmanager
def takes(least_s, most_s):
    """At least so long, and no longer."""
    began, began_ran_s = time.monotonic(), ran_s()
    yield
    assert time.monotonic() - began > least_s and ran_s() - began_ran_s < most_s


@pytest.fixture
def impatient(make_cluster):
    """A node alone with short limits of time."""
    cluster = make_cluster(
        1, {"raft-election-ms": 300, "http-idle-ms": 1500}
    )
    cluster.create_tag("known")
    return cluster.nodes[0]


@pytest.mark.quiet
# Shows P7-http.
def test_too_slow(impatient):
    halves = [
        b"GET /livez HT",
        b"GET /livez HTTP/1.1\r\nHost: le",
        b"PUT /api/tags/x HTTP/1.1\r\nHost: leafd\r\nContent-Length: 10\r\n\r\n{",
        b"PUT /api/tags/x HTTP/1.1\r\nHost: leafd\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    ]
    connections = [Connection(impatient.address) for _ in halves]
    for connection, half in zip(connections, halves):
        connection.send(half)
    with takes(0.5, 5):
        still_serves(impatient, "known")
        for connection in connections:
            with connection:
                check_error(connection.read_response(), 408, CLOSING[408])
                assert connection.at_end()


@pytest.mark.quiet
# Shows P7-http.
def test_dripping_head(impatient):
    """A byte now and then does not keep a request alive beyond its limit."""
    with impatient.connect() as connection, takes(0.5, 3):
        data = get_bytes("/livez")
        connection.sock.settimeout(0.1)
        for byte in data:
            send_as_far_as_it_goes(connection, bytes([byte]))
            try:
                connection.fill()
                break
            except socket.timeout:
                continue
            except OSError:
                break
        assert connection.buffer.startswith(b"HTTP/1.1 408 ")
    still_serves(impatient, "known")


def test_idle_connection_is_closed(impatient):
    with impatient.connect() as connection:
        assert connection.request("GET", "/livez").status == 200
        with takes(1, 5):
            assert connection.at_end()


def test_pipelining(shared, known):
    """Answers come in the order of the requests, good and bad, waiting and not."""
    node = shared.nodes[1]
    count = 3000
    with node.connect() as connection:
        pattern = [
            (get_bytes(f"{IDS}/{known}"), 200),
            (get_bytes(f"{IDS}/{known}?count=bad"), 400),
            (get_bytes(f"{IDS}/no-such-tag"), 404),
            (get_bytes("/livez"), 200),
            (get_bytes(f"/api/tags/{known}"), 200),
            (request_bytes("DELETE", "/livez", b""), 405),
        ]
        data = b"".join(pattern[i % len(pattern)][0] for i in range(count))
        connection.sock.settimeout(20)
        # The server stops reading when too many answers wait, so writing and reading go in turn.
        sent = 0
        last = 0
        for i in range(count):
            while sent < len(data) and (not connection.buffer or i % 100 == 0):
                part = data[sent : sent + 20_000]
                connection.send(part)
                sent += len(part)
                if connection.buffer or sent % 40_000 == 0:
                    break
            answer = connection.read_response()
            assert answer.status == pattern[i % len(pattern)][1], (i, answer)
            if i % len(pattern) == 0:
                assert int(answer.body) > last
                last = int(answer.body)


def test_one_byte_at_a_time(shared, known):
    node = shared.nodes[0]
    with node.connect() as connection:
        for byte in request_bytes("PUT", f"/api/tags/{known}", b'{"step":55}') + get_bytes(
            f"{IDS}/{known}"
        ):
            connection.send(bytes([byte]))
        assert connection.read_response().status == 200
        assert connection.read_response().status == 200


def test_connection_close_and_http_1_0(shared, known):
    node = shared.nodes[0]
    with node.connect() as connection:
        answer = connection.request("GET", f"{IDS}/{known}", headers={"Connection": "close"})
        assert answer.status == 200 and connection.at_end()
    with socket.create_connection(node.address, timeout=5) as sock:
        sock.sendall(f"GET {IDS}/{known} HTTP/1.0\r\n\r\n".encode())
        data = b""
        while part := sock.recv(4096):
            data += part
        assert data.startswith(b"HTTP/1.") and data.split(b" ")[1] == b"200"
        assert data.split(b"\r\n\r\n")[1].isdigit()


def test_head_has_no_body(shared):
    with shared.nodes[0].connect() as connection:
        answer = connection.request("HEAD", "/livez")
        assert answer.status in (200, 405)
        assert connection.request("GET", "/livez").status == 200


GARBAGE = [
    b"\x00\x01\x02\x03\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"BREW /coffee HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /api/tags HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n[]",
    b"POST /api/tags HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/tags HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nBad\x00Header: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n Folded: y\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage(shared, known, data):
    """An error of the 400s and the end of the connection, or just the end; never a 200."""
    node = shared.nodes[2]
    with node.connect(timeout=8) as connection:
        send_as_far_as_it_goes(connection, data)
        connection.sock.shutdown(socket.SHUT_WR)
        try:
            answer = connection.read_response()
            assert 400 <= answer.status < 506, answer
            assert connection.at_end()
        except ConnectionLost:
            pass
    still_serves(node, known)


# Shows P7-http.
def test_random_bytes(shared, known):
    """Three hundred connections of noise, some of it after a good beginning."""
    node = shared.nodes[0]
    source = random.Random(20)
    good = get_bytes(f"{IDS}/{known}")
    for number in range(300):
        with node.connect(timeout=8) as connection:
            noise = source.randbytes(source.randrange(1, 600))
            cut = source.randrange(len(good))
            send_as_far_as_it_goes(connection, good[:cut] + noise if number % 2 else noise)
    still_serves(node, known)


def test_abandoned_requests(shared, known):
    """Clients that go away in the middle of everything."""
    node = shared.nodes[0]
    full = [
        get_bytes(f"{IDS}/{known}?count=100000"),
        get_bytes(f"{IDS}/no-such-tag"),
        get_bytes("/api/tags?limit=1000"),
        request_bytes("PUT", f"/api/tags/{known}", b'{"step":1000}'),
    ]
    for number in range(200):
        with node.connect() as connection:
            data = full[number % len(full)]
            connection.send(data[: len(data) - (number % 7)])
    still_serves(node, known)


# Shows P7-flood.
def test_many_connections(shared, known):
    node = shared.nodes[0]
    connections = [Connection(node.address) for _ in range(500)]
    try:
        for connection in connections:
            connection.send(get_bytes(f"{IDS}/{known}"))
        values = {int(connection.read_response().body) for connection in connections}
        assert len(values) == len(connections)
    finally:
        for connection in connections:
            connection.close()


# Shows P7-flood.
def test_slow_reader_costs_only_itself(shared, known):
    """A client that asks for much and reads nothing; others are served meanwhile."""
    node = shared.nodes[0]
    with node.connect() as greedy:
        greedy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.sock.settimeout(0.2)
        try:
            for _ in range(200):
                greedy.send(get_bytes(f"{IDS}/{known}?count=100000") * 10)
        except OSError:
            pass
        for _ in range(20):
            with takes(0, 2):
                still_serves(node, known)


def test_routes_of_the_node(shared, known):
    for node in shared.nodes:
        status = node.cluster_status()
        assert status["node_id"] == node.id
        assert {member["id"] for member in status["members"]} == {1, 2, 3}
        assert all(member["reachable"] for member in status["members"])
        assert node.get("/livez").status == 200
        assert node.get("/readyz").status == 200
        assert node.get("/readyz?verbose").status == 200
        assert set(node.get_json("/version")) >= {"version", "commit"}
        still_serves(node, known)
        held = node.get_json(f"/api/node/segments?prefix={tag_path(known)}")
        assert [item["tag"] for item in held["segments"]] == [known]


def test_member_addresses_become_known(shared):
    """Every node learns the HTTP address and version of the others."""
    wanted = {node.id: node.http_address for node in shared.nodes}
    for node in shared.nodes:
        wait_until(
            lambda n=node: {
                member["id"]: member["http_address"] for member in n.cluster_status()["members"]
            }
            == wanted,
            10,
            f"{node} knows all HTTP addresses",
        )


# --- as Leaf ---


JSON, TEXT = "application/json;charset=UTF-8", "text/plain;charset=UTF-8"
ACCEPTS = [
    ("application/json", JSON),
    ("application/json, application/*+json", JSON),  # Spring's getForObject(url, Long.class)
    ("text/html;q=0.9, Application/JSON;q=0.1", JSON),
    ("application/json, text/plain, */*", TEXT),  # axios
    ("text/plain, application/json, application/*+json, */*", TEXT),  # and String.class
    ("application/json, text/*", TEXT),
    ("application/json;q=0", TEXT),
    ("application/jsonp", TEXT),
    ("*/*", TEXT),
    ("text/html", TEXT),
    ("", TEXT),
]


@pytest.mark.parametrize("accept,wanted", ACCEPTS)
def test_accept_as_leaf(shared, known, accept, wanted):
    node = shared.nodes[0]
    for path in (f"{IDS}/{known}", "/api/snowflake/get/x"):
        for method in ("GET", "POST"):
            with node.connect() as connection:
                for _ in range(3):  # the second head repeats the first
                    answer = connection.request(method, path, headers={"Accept": accept})
                    assert answer.status == 200 and answer.body.isdigit()
                    assert answer.headers["content-type"] == wanted
                    assert connection.request(method, path).headers["content-type"] == TEXT
    # What is no bare number is no JSON.
    answer = node.http("GET", f"{IDS}/{known}?count=2", headers={"Accept": accept})
    assert answer.headers["content-type"] == TEXT
    answer = node.http("GET", "/api/snowflake/get/x?as=uuid", headers={"Accept": accept})
    assert answer.headers["content-type"] == TEXT


LENIENT = [
    ("GET", "{ids}/{tag}?_=1795906948229", ""),
    ("GET", "{ids}/{tag}?_=%zz&&=1&", ""),
    ("GET", "/{ids}/{tag}", ""),
    ("GET", "//api//segment///get//{tag}//", ""),
    ("GET", "//api/snowflake//get/x/", ""),
    ("POST", "{ids}/{tag}", "application/x-www-form-urlencoded"),
    ("POST", "{ids}/{tag}", "multipart/form-data; boundary=x"),
    ("POST", "{ids}/{tag}", "text/plain"),
    ("POST", "//api/snowflake/get/x?_=1", "application/x-www-form-urlencoded"),
]


@pytest.mark.parametrize("method,target,kind", LENIENT)
def test_requests_that_leaf_takes(shared, known, method, target, kind):
    target = target.format(ids=IDS, tag=known)
    body = "key=order&snowflakeId=7" if kind else None
    headers = {"Content-Type": kind} if kind else {}
    for host in ("leafd", "ids.example:8080"):
        answer = shared.nodes[2].http(method, target, body, {**headers, "Host": host})
        assert answer.status == 200 and answer.body.isdigit(), answer


@pytest.mark.parametrize("target", ["/api/tags?_=1", "//api/tags", "//livez", "/api/cluster?_=1",
                                    "//api/snowflake/decode/1", "/api/snowflake/decode/1?_=1"])
def test_other_routes_stay_strict(shared, target):
    assert shared.nodes[0].get(target).status in (400, 404)


@pytest.mark.parametrize("query,kind,body,wanted", [
    ("", "application/x-www-form-urlencoded", "snowflakeId=1256557484213448722", "619"),
    ("", "application/x-www-form-urlencoded;charset=UTF-8", "a=1&snowflakeId=4194304&b", "0"),
    ("?snowflakeId=1256557484213448722", "application/x-www-form-urlencoded", "snowflakeId=1",
     "619"),
    ("?_=1", "application/x-www-form-urlencoded", "snowflakeId=%31", "0"),
    ("", "application/x-www-form-urlencoded", "snowflakeId=x", None),
    ("", "text/plain", "snowflakeId=1", 400),
    ("", "application/x-www-form-urlencoded", "", 400),
    ("", "application/x-www-form-urlencoded", "x=1" * 9000, 400),
    ("", "application/x-www-form-urlencoded", "snowflakeId=%zz", 400),
])
def test_decode_by_form(shared, query, kind, body, wanted):
    answer = shared.nodes[1].http("POST", f"/decodeSnowflakeId{query}", body,
                                  {"Content-Type": kind})
    if wanted == 400:
        check_error(answer, 400, "bad_request")
    else:
        assert answer.status == 200 and answer.json().get("workerId") == wanted, answer


# What docs/leaf.md says still differs, and by which answer one sees it.
DIFFERS = {
    "another method": ("PUT", "{ids}/{tag}", 405, "method_not_allowed"),
    "a tag with a dot": ("GET", "{ids}/{tag}.json", 404, "unknown_tag"),
    "a tag with a semicolon": ("GET", "{ids}/{tag};jsessionid=1", 404, "unknown_tag"),
    "an unknown tag": ("GET", "{ids}/{tag}-none", 404, "unknown_tag"),
    "an encoded slash": ("GET", "{ids}/{tag}%2Fx", 404, "unknown_tag"),
    "the options of leafd": ("GET", "{ids}/{tag}?count=0", 400, "bad_count"),
    "a browser": ("GET", "{ids}/{tag}", 200, None),
}


@pytest.mark.parametrize("what", DIFFERS)
def test_what_differs_from_leaf(shared, known, what):
    method, target, status, code = DIFFERS[what]
    with shared.nodes[0].connect() as connection:
        answer = connection.request(method, target.format(ids=IDS, tag=known),
                                    headers={"Accept": "text/html,*/*;q=0.8"})
        assert answer.status == status, answer
        if code is None:
            assert answer.headers["content-type"] == TEXT
        else:
            check_error(answer, status, code)
            assert "exception" not in answer.json()
        # The connection stays open, also after an error.
        assert connection.request("GET", f"{IDS}/{known}").status == 200
    assert answer.headers.get("connection") is None
    with open(LEAF_DOC, encoding="utf-8") as file:
        rows = [line.split("|")[1].strip() for line in file if line.startswith("| ")]
    assert what in rows, rows
