"""What is no answer of leafd is refused as such, and no id is taken from it."""

import contextlib
import json
import os
import queue
import socket
import threading
import time

import pytest

from driver import PATIENT, check_once, in_time
from fake import LEAF, Granter, error, granted, http

pytestmark = pytest.mark.inside

INT63 = 1 << 63
HTML = "<html><body>502 Bad Gateway</body></html>"


def ok(body, **more):
    return http(200, body, **more)


# Names of cases, and what is answered to a request for count ids.
RANGES = {
    "empty": lambda n: ok(""),
    "words": lambda n: ok("here you are\n"),
    "html": lambda n: http(200, HTML, "text/html"),
    "json": lambda n: ok('{"tag":"x","count":1,"ranges":[]}'),
    "one number": lambda n: ok("1\n"),
    "a line without an end": lambda n: ok(f"1 {n}"),
    "the end of a line of Windows": lambda n: ok(f"1 {n}\r\n"),
    "a 0 in front": lambda n: ok(f"01 {n}\n"),
    "two spaces": lambda n: ok(f"1  {n}\n"),
    "a space behind": lambda n: ok(f"1 {n} \n"),
    "three numbers": lambda n: ok(f"1 {n} 7\n"),
    "falling": lambda n: ok(f"{n} 1\n"),
    "negative": lambda n: ok(f"-5 {n - 6}\n"),
    "plus": lambda n: ok(f"+1 {n}\n"),
    "fraction": lambda n: ok(f"1.0 {n}.0\n"),
    "hexadecimal": lambda n: ok(f"0x1 {hex(n)}\n"),
    "other digits": lambda n: ok(f"\u0661 {n}\n"),
    "a NUL": lambda n: ok(f"1\0 {n}\n"),
    "no number": lambda n: ok("NaN NaN\n"),
    "fewer": lambda n: ok(f"1 {n - 1}\n") if n > 1 else ok(""),
    "more": lambda n: ok(f"1 {n + 1}\n"),
    "many more": lambda n: ok(f"1 {INT63 - 1}\n"),
    "2^63": lambda n: ok(f"{INT63 - n + 1} {INT63}\n"),
    "from 2^63": lambda n: ok(f"{INT63} {INT63 + n - 1}\n"),
    "2^64": lambda n: ok(f"{2 * INT63} {2 * INT63 + n - 1}\n"),
    "around 2^64": lambda n: ok(f"{2 * INT63 - 1} {n - 2}\n"),
    "as long as a book": lambda n: ok(f"1 {'9' * 5000}\n"),
    "201": lambda n: http(201, f"1 {n}\n"),
    "206": lambda n: http(206, f"1 {n}\n"),
    "302": lambda n: http(302, "", Location="http://127.0.0.1:9/"),
    "400 without JSON": lambda n: http(400, HTML, "text/html"),
    "404 of a proxy": lambda n: http(404, HTML, "text/html"),
    "404 with other JSON": lambda n: http(404, '["code"]', "application/json"),
    "404 with a number for a code": lambda n: http(404, '{"code":4,"message":"m"}',
                                                  "application/json"),
    "404 with half a body": lambda n: http(404, '{"code":"unkno', "application/json"),
}
# Of more than one id alone.
SEVERAL = {
    "overlapping": lambda n: ok(f"1 {n // 2}\n{n // 2} {n - 1}\n"),
    "the same twice": lambda n: ok(f"1 {n // 2}\n1 {n - n // 2}\n"),
    "in a wrong order": lambda n: ok(f"{n + 1} {n + n // 2}\n1 {n - n // 2}\n"),
    "garbage behind": lambda n: ok(f"1 {n - 1}\n{n + 5} {n + 5} x\n"),
}


def test_ranges(start, fake):
    """Of each source, case by case; afterwards the source goes on with what is right."""
    cases = {f"case{i}": (name, made)
             for i, (name, made) in enumerate({**RANGES, **SEVERAL}.items())}
    right = set()

    def answer(request):
        if request.tag in right:
            return ok(f"1000001 {1000000 + request.count}\n")
        return cases[request.tag][1](request.count)

    server = fake(answer)
    client = start().open(endpoints=server.url, min_count=10)
    wrong = []
    for tag, (name, _) in cases.items():
        for line in (f"segment {tag} 5", f"range {tag} 10", f"strict {tag} 10"):
            try:
                client.refused(line, "bad_answer")
            except AssertionError as found:
                wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong)
    assert client.stats()["ids_segment"] == client.stats()["ids_strict"] == 0
    for tag in cases:
        right.add(tag)
    for tag in list(cases)[:3]:
        assert client.ids(f"strict {tag} 2") == [(1000001, 1000002)]


class Again:
    """A node that gives the answers it has kept again, each to another request, as a cache does, or
    a proxy that mixes up its connections. The first few requests are answered as they should be."""

    def __init__(self, right, kept):
        self.right, self.kept = right, kept
        self.answers = []
        self.given = 0

    def __call__(self, request):
        if len(self.answers) < self.kept:
            self.answers.append(self.right(request))
            return self.answers[-1]
        self.given += 1
        return self.answers[self.given % self.kept]


@pytest.mark.parametrize("kept", [1, 3])
@pytest.mark.parametrize("line", ["segment orders 10", "range orders 10", "strict orders 10"])
def test_an_answer_that_came_before(start, fake, line, kept):
    """None of its ids is handed out again: another node is asked; where none is, that is what the
    error says."""
    granter = Granter()
    again = Again(granter.node(), kept)
    servers = [fake(again)]
    settings = {**PATIENT, "min_count": 10, "max_count": 10}
    if "range" in line:  # takes no deadline of its own
        settings["deadline_ms"] = 4000
    alone = start().open(endpoints=servers[0].url, **settings)
    ids = []
    for _ in range(kept):
        ids += alone.ids(line)
    failed = alone.refused(line if "range" in line else f"{line} deadline_ms=1500", "unreachable")
    assert "came before" in failed.message, failed.message
    assert len(servers[0].requests) < kept + 40, "it asks without a pause"
    assert alone.stats()["burnt"] >= 10
    servers.append(fake(granter.node()))
    both = start().open(endpoints=",".join(server.url for server in servers), **settings)
    own = []
    for _ in range(3 * kept + 10):
        own += both.ids(line)
    check_once(own)
    check_once(ids)
    assert servers[1].requests and both.stats()["errors"] == 0


@pytest.mark.parametrize("keyed", [True, False])
def test_texts_that_came_before(start, fake, keyed):
    """By the first text of an answer; also of a tag whose ids take no key."""
    def answer(request):
        return again(request) if keyed or "idempotency-key" not in request.headers \
            else error(400, "bad_key")

    granter = Granter()
    headers = {"Leafd-Generation": "3"}
    again = Again(granter.node(headers), 2)
    server = fake(answer)
    client = start().open(endpoints=server.url, **PATIENT)
    assert client.texts("texts orders 2") == ["1", "2"]
    assert client.texts("texts orders 2") == ["3", "4"]
    failed = client.refused("texts orders 2 deadline_ms=1500", "unreachable")
    assert "came before" in failed.message, failed.message
    server.handler = again.right
    assert client.texts("texts orders 2") == ["5", "6"]
    headers["Leafd-Generation"] = "4"  # the tag was made anew
    granter.next = 1
    assert client.texts("texts orders 2") == ["1", "2"]
    headers["Leafd-Generation"] = "3"  # a node that has not heard of it
    client.refused("texts orders 2 deadline_ms=1500", "unreachable")


def test_a_strict_id_is_above_those_before(start, fake):
    """Also where the answer is one to another client, whose ids this one has not seen."""
    granter = Granter()
    granter.next = 5
    right, low = fake(granter.node()), fake(lambda request: ok("1 1\n"))
    client = start().open(endpoints=f"{right.url},{low.url}", **PATIENT)
    while client.ids("strict orders 1") == [(1, 1)]:
        client = start().open(endpoints=f"{right.url},{low.url}", **PATIENT)
    granter.down = True
    failed = client.refused("strict orders 1 deadline_ms=1500", "unreachable")
    assert "came before" in failed.message, failed.message


def test_a_key_gets_its_ids_again(start, fake):
    """Whatever came meanwhile."""
    granter = Granter()
    server = fake(granter.node())
    client = start().open(endpoints=server.url)
    first = client.ids("strict orders 10 mine")
    for _ in range(70):
        client.ids("strict orders 1")
    again = client.ids("strict orders 10 mine")
    assert again == first and again.replayed and not first.replayed
    another = start().open(endpoints=server.url)
    another.ids("strict orders 1")
    assert another.ids("strict orders 10 mine") == first


def test_two_ranges_for_one(start, fake):
    """To a request for one range; a source of segments takes both."""
    half = "1 5\n11 15\n"
    server = fake(lambda request: ok(half))
    client = start().open(endpoints=server.url, min_count=10, max_count=10)
    client.refused("range orders 10", "bad_answer")
    assert client.ids("segment orders 10") == [(1, 5), (11, 15)]


@pytest.mark.parametrize("garbage", [
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    b"HTTP/1.1 two hundred\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n1 10\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n1 10\n",
    b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 500_000 + b"\r\nContent-Length: 5\r\n\r\n1 10\n",
    b"\0" * 1000 + b"\r\n\r\n",
], ids=["ssh", "status", "length", "negative", "head", "zeros"])
def test_no_http(start, fake, garbage):
    """That may as well be taken for a broken connection, which is tried again."""
    server = fake(lambda request: garbage)
    server.close_idle = True
    client = start().open(endpoints=server.url, deadline_ms=200, min_count=10)
    client.refused("segment orders 10", ("bad_answer", "unreachable"))
    client.refused("strict orders 10", ("bad_answer", "unreachable"))
    assert client.stats()["ids_segment"] == 0


@pytest.mark.parametrize("unasked", [
    http(408, HTML, "text/html", Connection="close"),
    ok("777 777\n"),
], ids=["408", "ids"])
def test_bytes_that_nobody_asked_for(start, fake, language, unasked):
    """On an idle connection, as a proxy says 408 before it closes one: they answer nothing."""
    came = queue.Queue()

    def answer(request):
        yield granter(request)
        time.sleep(0.1)  # the answer before has been read
        yield unasked
        if language == "go":  # its transport reads at once, and closes
            with contextlib.suppress(OSError):
                request.connection.recv(1, socket.MSG_PEEK)
        came.put(None)

    granter = Granter().node()
    server = fake(answer)
    client = start().open(endpoints=server.url)
    for _ in range(2):
        assert client.ids("strict orders 1")[0][0] < 10
        came.get(timeout=30)
        if language == "php":
            time.sleep(2.1)  # it cannot look at a connection: an old one ends, by whole seconds
    assert client.stats()["errors"] == 0


def in_chunks(body):
    return b"".join(b"%X;a=b\r\n%c\r\n" % (1, byte) for byte in body)


def test_a_body_in_chunks(start, fake):
    """A proxy may send it so: it is as good as with a length, and one that is cut is none."""
    def answer(request):
        head, _, body = granter(request).partition(b"\r\n\r\n")
        head = b"\r\n".join(line for line in head.split(b"\r\n") if b"Length" not in line)
        head += b"\r\nTransfer-Encoding: Chunked\r\n\r\n"
        yield head + in_chunks(body[:1])
        yield in_chunks(body[1:])
        if not cut.is_set():
            yield b"0\r\nX-A: b\r\n\r\n"

    cut = threading.Event()
    granter = Granter().node()
    server = fake(answer)
    client = start().open(endpoints=server.url, min_count=10, max_count=10)
    assert client.ids("strict orders 2").count() == 2 and client.ids("segment orders 25")
    assert client.stats()["errors"] == 0 and len(server.connections) <= 2
    cut.set()
    server.close_idle = True
    client.refused("strict orders 2 deadline_ms=400", "unreachable")


def test_a_body_that_is_cut(start, fake):
    """The connection ends before the body does: nothing of it counts."""
    server = fake(lambda request: http(200, f"1 {request.count}\n", Content_Length=500))
    server.close_idle = True
    client = start().open(endpoints=server.url, deadline_ms=400, min_count=10)
    client.refused("segment orders 10", "unreachable")
    client.refused("strict orders 10", "unreachable")
    assert client.stats()["ids_segment"] == client.stats()["ids_strict"] == 0


def test_a_body_without_an_end(start, fake):
    """It is read up to a bound, and not kept; neither is that of an error."""
    def answer(request):
        status = 200 if request.tag == "orders" else 400
        yield (f"HTTP/1.1 {status} X\r\nContent-Type: text/plain\r\n"
               "Transfer-Encoding: chunked\r\n\r\n").encode()
        piece = b"1 2\n" * 16384
        while True:
            yield b"%x\r\n%s\r\n" % (len(piece), piece)

    server = fake(answer)
    client = start().open(endpoints=server.url)
    for line in ("segment orders 1", "strict orders 1", "strict others 1"):
        server.sent_bytes = 0
        client.refused(line, "bad_answer")
        assert client.took_s - client.waited_s < 2
        assert server.sent_bytes < 24 << 20, f"{server.sent_bytes} bytes were read"


def test_a_body_that_drips(start, fake):
    """attempt_ms is for all of an answer, not for each byte of it."""
    stopped = threading.Event()

    def answer(_):
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n"
        while not stopped.wait(0.03):
            yield b"1"

    servers = [fake(answer) for _ in range(2)]
    client = start().open(endpoints=",".join(server.url for server in servers),
                          attempt_ms=200, deadline_ms=700)
    client.refused("strict orders 1", "unreachable")
    in_time(client, 700)
    assert all(server.requests for server in servers), "the other one had its turn"
    stopped.set()


GRANTS = {
    "no JSON": lambda: http(201, "granted"),
    "half of it": lambda: http(201, '{"worker_id":3,', "application/json"),
    "a list": lambda: http(201, "[3]", "application/json"),
    "nothing": lambda: http(201, "{}", "application/json"),
    "an endless depth": lambda: http(201, "[" * 60000, "application/json"),
    "a worker id beyond the layout": lambda: granted(worker_id=1024),
    "a negative worker id": lambda: granted(worker_id=-1),
    "a worker id as a text": lambda: granted(worker_id="3"),
    "a fraction": lambda: granted(worker_id=3.5),
    "no epoch": lambda: granted(epoch=None),
    "a negative bound": lambda: granted(until_ms=-5),
    "bounds that fall": lambda: granted(from_ms=2000, until_ms=1000),
    "a bound of 2^70": lambda: granted(until_ms=1 << 70),
    "a layout that is no object": lambda: granted(layout=[41, 10, 12]),
    "a layout without its epoch": lambda: granted(layout={**LEAF, "epoch_ms": None}),
    "a layout of 64 bits": lambda: granted(layout={**LEAF, "time_bits": 42}),
    "a layout without a time": lambda: granted(layout={**LEAF, "time_bits": 0}),
    "negative bits": lambda: granted(layout={**LEAF, "worker_bits": -10}),
    "an epoch to come": lambda: granted(layout={**LEAF, "epoch_ms": 1 << 60}),
}


def test_grants(start, fake):
    """Nothing is stamped by a grant that cannot be."""
    wrong = []
    made = granted
    server = fake(lambda request: made() if request.method == "POST" else http(204))
    client = start().open(endpoints=server.url)
    for name, made in GRANTS.items():  # noqa: B020
        try:
            client.refused("snowflake 3", "bad_answer")
        except AssertionError as found:
            wrong.append(f"{name}: {found}")
            client = start().open(endpoints=server.url)
    assert not wrong, "\n".join(wrong)
    made = granted
    assert client.ids("snowflake 3").count() == 3


def test_no_layout(start, fake):
    """All addresses are asked for one that tells it; ids of a layout that was guessed collide."""
    silent = [fake(lambda request: granted(layout=None)) for _ in range(2)]
    urls = ",".join(server.url for server in silent)
    client = start().open(endpoints=urls)
    client.refused("snowflake 1", "layout_unknown")
    assert all(server.requests for server in silent)
    telling = fake(lambda request: granted())
    client = start().open(endpoints=f"{urls},{telling.url}")
    assert client.ids("snowflake 3").count() == 3


@pytest.mark.parametrize("text", ["two\nlines\r\n", "\x1b[31mred\x7f\b", "a\ud800b"])
def test_messages_are_one_line_of_text(start, fake, text):
    """Whatever a server says, or sends instead: it ends in logs, and on terminals."""
    raw = text.encode(errors="surrogatepass") + b"\xff\x80"
    server = fake(lambda request: http(201, raw) if request.method == "POST"
                  else http(200, raw) if request.tag == "raw" else error(404, "unknown_tag", text))
    client = start().open(endpoints=server.url)
    for line in ("strict orders 1", "segment orders 1", "strict raw 1", "texts raw 1",
                 "snowflake 1"):
        failed = client.refused(line, ("unknown_tag", "bad_answer"))
        assert failed.message.isprintable(), failed.message
        assert failed.status in (404, 200, 201)


# --- where a token goes ---


def test_redirects_are_not_followed(start, fake):
    elsewhere = fake(lambda request: http(200, f"1 {request.count}\n"))
    server = fake(lambda request: http(
        307, "", Location=f"{elsewhere.url}{request.target}"))
    client = start().open(endpoints=server.url, token="secret-of-ours")
    for line in ("segment orders 1", "range orders 1", "strict orders 1", "snowflake 1"):
        failed = client.refused(line, "bad_answer")
        assert "secret-of-ours" not in failed.message
    assert len(server.requests) == 4 and not elsewhere.connections
    assert {request.headers["authorization"] for request in server.requests} == {
        "Bearer secret-of-ours"}


def test_proxies_of_the_environment_are_not_used(start, fake):
    proxy = fake(lambda request: error(400, "bad_request"))
    server = fake(lambda request: http(200, f"1 {request.count}\n"))
    env = {name: proxy.url for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY",
                                        "https_proxy", "HTTPS_PROXY")}
    client = start(env={**env, "no_proxy": "", "NO_PROXY": "", "HOME": os.devnull})
    client.open(endpoints=server.url, token="secret-of-ours")
    assert client.ids("strict orders 1") == [(1, 1)]
    assert not proxy.connections


def test_the_token_is_in_no_message(start, fake):
    def answer(request):
        return error(401, "unauthorized", f"{json.dumps(sorted(request.headers))} said the server")

    server = fake(answer)
    client = start().open(endpoints=server.url, token="secret-of-ours", deadline_ms=800)
    for line in ("segment orders 1", "strict orders 1", "snowflake 1"):
        assert "secret-of-ours" not in client.refused(line, "unauthorized").message
    server.close()
    for line in ("segment orders 1", "strict orders 1", "snowflake 1"):
        assert "secret-of-ours" not in client.refused(line, ("unreachable", "unauthorized")).message
    assert "secret-of-ours" not in client.errors()
